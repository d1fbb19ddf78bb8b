//! Metadata services that fail, for each cloud that has one: at the first boot and at later ones. A recognised cloud is
//! never silently set up as None, and a machine is never provisioned a second time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Mutex;

use tests::{Case, Cloud, Reach, fail};

/// A failure of the service (`tests/lib/imds`), and whether the machine gets its metadata nevertheless.
struct Fault {
    name: &'static str,
    lines: &'static str,
    is_overcome: bool,
}

const fn fault(name: &'static str, lines: &'static str, is_overcome: bool) -> Fault {
    Fault { name, lines, is_overcome }
}

const FAULTS: &[Fault] = &[
    fault("404", "* . 404", false),
    fault("500 once", "* . once:500", true),
    fault("429 once", BUSY_ONCE, true),
    fault("429 with Retry-After: 3600", "* . 429:3600", false),
    fault("no response", "* . silent", false),
    fault("connection reset", "* . reset", false),
    fault("truncated body", "* . cut", false),
    fault("invalid response", "* . garbage", false),
    fault("one byte per second", "* . rate:1", false),
];

/// The service is busy and names a pause, which is not the usual one.
const BUSY_ONCE: &str = "* . once:429:3";
const REQUESTED_PAUSE: Range<f64> = 3.0..8.0;

/// A failure of the network, at later boots only: the commands that begin and end it in the cloud.
struct Outage {
    name: &'static str,
    begin: &'static str,
    end: &'static str,
    /// Whether it concerns only machines that get an address by DHCP.
    is_of_dhcp: bool,
}

const OUTAGES: &[Outage] = &[
    outage(
        "lost packets",
        "nft 'table inet outage { chain in { type filter hook input priority 0; tcp dport 80 drop; }; }'",
    ),
    outage(
        "closed port",
        "nft 'table inet outage { chain in { type filter hook input priority 0; \
         tcp dport 80 reject with tcp reset; }; }'",
    ),
    // DHCP servers read packets before the filter: only the response can be lost.
    Outage {
        is_of_dhcp: true,
        ..outage(
            "no DHCP server",
            "nft 'table inet outage { chain out { type filter hook output priority 0; udp sport 67 drop; }; }'",
        )
    },
    // The kernel reports the loss of a carrier within a second.
    Outage { end: "ip link set s0 up", ..outage("no carrier", "ip link set s0 down && sleep 1") },
];

const fn outage(name: &'static str, begin: &'static str) -> Outage {
    Outage { name, begin, end: "nft delete table inet outage", is_of_dhcp: false }
}

/// The pause between two attempts, by the names that datasources have for it.
const PAUSES: &str = "sec_between_retries: 1, wait_retry: 1, sleep_time: 1, wait: 1";

/// Configures how long the datasource waits: shortly for a service that stays broken. One that recovers is never slower
/// than the limits, even on a busy host.
fn limit_waits(cloud: &Cloud, case: &Case, is_overcome: bool) {
    let path = tests::tests_dir().join("clouds").join(&case.name).join("datasource");
    let name = std::fs::read_to_string(path).unwrap_or_default();
    let name = name.trim();
    let (wait, timeout) = if is_overcome { (20, 5) } else { (4, 1) };
    // A file of its own, which is merged with the cloud's. The machine's root is a directory, which cannot be resized.
    cloud.put(
        "/etc/cloud/cloud.cfg.d/96-short-waits.cfg",
        format!(
            "resize_rootfs: false\ndatasource: {{{name}: {{max_wait: {wait}, max_wait_cached: {wait}, timeout: {timeout}, retries: 1, \
             {PAUSES}}}}}\n"
        ),
    );
}

/// Runs the stages local and network; returns the cloud's id, the instance-id and the log of this boot.
fn boot(cloud: &Cloud, place: &str) -> (String, String, String) {
    boot_stages(cloud, place, &["local", "network"])
}

fn boot_stages(cloud: &Cloud, place: &str, stages: &[&str]) -> (String, String, String) {
    let before = cloud.file("/var/log/cloud-init.log").len();
    let boot = cloud.boot(stages);
    let log = cloud.file("/var/log/cloud-init.log").split_off(before);
    assert!(boot.ended_normally(), "{place}: {:?}\n{}\n{log}", boot.codes, boot.output);
    assert_no_repetition(&log, place);
    (cloud.id(), cloud.file("/var/lib/cloud/data/instance-id").trim().to_string(), log)
}

/// Asserts that the service was left alone for the pause that it requested when it was busy. The lines of its log end in the
/// times of a request and of its response ([`Cloud::latency`]).
fn assert_pause(requests: &str, place: &str) {
    let parse = |line: &str| -> Option<(String, String, f64, f64)> {
        let words: Vec<&str> = line.split(' ').collect();
        let (path, status) = (words.get(1)?.to_string(), words.get(2)?.to_string());
        let [.., began, sent] = words[..] else { return None };
        Some((path, status, began.parse().ok()?, sent.parse().ok()?))
    };
    let all: Vec<_> = requests.lines().filter_map(parse).collect();
    let busy = all.iter().find(|(_, status, _, _)| status == "429");
    let (path, _, _, sent) = busy.unwrap_or_else(|| fail(&format!("{place}: no 429\n{requests}")));
    let next = all.iter().find(|(other, status, began, _)| other == path && status != "429" && began > sent);
    let (_, _, began, _) =
        next.unwrap_or_else(|| fail(&format!("{place}: no second request for {path}\n{requests}")));
    let pause = began - sent;
    assert!(REQUESTED_PAUSE.contains(&pause), "{place}: {pause} s\n{requests}");
}

/// Warnings that working services cause: they concern a fixture's metadata, not the failure. Each is expected only of the
/// clouds whose boot without a failure has it ([`expected_warnings`]).
const EXPECTED_WARNINGS: [&str; 7] = [
    "metadata has no network configuration",
    "ovf-env.xml not found; using only the metadata",
    // The NICs of the fixture are not those of the metadata, and are in use.
    "Unable to rename interfaces: ",
    "no NIC has this MAC address; ignoring the interface",
    "no password set: fetching http://",
    "is listed in the metadata but does not exist",
    "the clock differs by 7200 seconds",
];

/// Returns the [`EXPECTED_WARNINGS`] in the log of a boot without a failure. Panics if there are other warnings.
fn expected_warnings(log: &str, place: &str) -> Vec<&'static str> {
    let expected: Vec<_> = EXPECTED_WARNINGS.into_iter().filter(|text| log.contains(text)).collect();
    let others = warnings(log, &expected);
    assert!(others.is_empty(), "{place}: {others:#?}");
    expected
}

/// Returns the warnings and errors of a log that have none of the expected texts.
fn warnings<'l>(log: &'l str, expected: &[&str]) -> Vec<&'l str> {
    let is_problem = |line: &&str| ["[WARNING]", "[ERROR]"].iter().any(|level| line.contains(level));
    log.lines().filter(is_problem).filter(|line| !expected.iter().any(|text| line.contains(text))).collect()
}

/// Asserts that no warning or error is repeated in a boot, whatever it is about: but each stage tries to rename interfaces.
fn assert_no_repetition(log: &str, place: &str) {
    let problems = log.lines().filter(|line| line.contains("[WARNING]") || line.contains("[ERROR]"));
    let mut texts: Vec<&str> = problems
        .filter_map(|line| line.split_once("]: ").map(|(_, text)| text))
        .filter(|text| !text.starts_with("Unable to rename interfaces: "))
        .collect();
    texts.sort_unstable();
    let repeated: Vec<_> = texts.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(repeated.is_empty(), "{place}: {repeated:#?}");
}

/// The once-per-instance semaphores of all instances, with the times at which they were written. Without that of
/// `set_passwords`, which Exoscale removes at each boot with metadata: the owner may have requested another password.
fn semaphores(cloud: &Cloud) -> Vec<String> {
    let mut all = Vec::new();
    let instances = std::fs::read_dir(cloud.path("/var/lib/cloud/instances")).into_iter().flatten().flatten();
    for file in
        instances.flat_map(|i| std::fs::read_dir(i.path().join("sem")).into_iter().flatten().flatten())
    {
        if cloud.id() == "exoscale" && file.file_name() == "config_set_passwords" {
            continue;
        }
        let time = file.metadata().and_then(|m| m.modified());
        all.push(format!("{} {time:?}", file.path().display()));
    }
    all.sort();
    all
}

type Job<'j> = Box<dyn FnOnce() + Send + 'j>;

/// Runs these jobs, a few at a time; all of them run, even if one fails.
fn side_by_side(jobs: Vec<Job<'_>>) {
    let (queue, failed) = (Mutex::new(VecDeque::from(jobs)), Mutex::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(job) = queue.lock().ok().and_then(|mut queue| queue.pop_front()) {
                    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
                        *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
                    }
                }
            });
        }
    });
    assert_eq!(failed.into_inner().ok(), Some(0), "failed cases");
}

#[test]
#[ignore = "faults of all clouds: make slow"]
fn failing_services_of_no_cloud_stop_the_first_boot() {
    let used = first_boots(&Case::all("faults"));
    let unused: Vec<_> = EXPECTED_WARNINGS.iter().filter(|text| !used.contains(*text)).collect();
    assert!(
        unused.is_empty() || std::env::var_os("FIRSTLIGHT_CLOUD").is_some(),
        "no cloud causes {unused:?}"
    );
}

/// Boots each cloud with each fault; returns the expected warnings that were logged.
fn first_boots(cases: &[Case]) -> BTreeSet<&'static str> {
    let expected = Mutex::new(BTreeMap::new());
    let working_boot = |case: &Case| {
        let (_, _, log) = boot(&connected(case, true), &case.name);
        let texts = expected_warnings(&log, &case.name);
        expected.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(case.name.clone(), texts);
    };
    side_by_side(cases.iter().map(|case| Box::new(move || working_boot(case)) as Job).collect());
    let expected = &expected.into_inner().unwrap_or_default();
    let pairs = FAULTS.iter().flat_map(|fault| cases.iter().map(move |case| (case, fault)));
    let job = |(case, fault)| Box::new(move || first_boot(case, fault, &expected[&case.name])) as Job;
    side_by_side(pairs.map(job).collect());
    expected.values().flatten().copied().collect()
}

/// Returns a machine of the cloud with short waits ([`limit_waits`]).
fn connected(case: &Case, is_overcome: bool) -> Cloud {
    let cloud = Cloud::new(&case.name).reached(case.reach());
    limit_waits(&cloud, case, is_overcome);
    cloud
}

fn first_boot(case: &Case, fault: &Fault, expected: &[&str]) {
    let place = format!("{}, {}", case.name, fault.name);
    let cloud = connected(case, fault.is_overcome);
    cloud.fault(fault.lines);
    cloud.latency(0);
    let (id, instance, log) = boot(&cloud, &place);
    if fault.lines == BUSY_ONCE {
        assert_pause(&cloud.requests(), &place);
    }
    let problems = warnings(&log, expected);
    if fault.is_overcome {
        assert!(id != "none" && instance != "iid-datasource-none", "{place}: {id} {instance}\n{log}");
        assert!(problems.is_empty(), "{place}: {problems:?}");
        return;
    }
    assert_eq!(id, case.get("without-service").unwrap_or("none"), "{place}: {instance}\n{log}");
    // One line has the fault, its place and, if the machine has no metadata, that.
    let [problem] = problems[..] else { fail(&format!("{place}: {problems:#?}\n{log}")) };
    assert!(problem.contains("http://"), "{place}: the place is not named: {problem}");
    let result = problem.contains("[ERROR]") && problem.contains("without it (datasource None): ");
    assert_eq!(result, id == "none", "{place}: {problem}");
    assert_status(&cloud, id == "none", problem, &place);
}

/// Asserts that the status has what the line says, as an error of the network stage if the machine has no metadata.
fn assert_status(cloud: &Cloud, is_error: bool, problem: &str, place: &str) {
    let text = problem.split_once("]: ").map_or(problem, |(_, text)| text);
    let status: serde_json::Value =
        serde_json::from_str(&cloud.file("/run/cloud-init/status.json")).unwrap_or_default();
    let has =
        |list: &serde_json::Value| list.as_array().is_some_and(|all| all.iter().any(|item| item == text));
    let init = &status["v1"]["init"];
    assert_eq!(has(&init["errors"]), is_error, "{place}: {text}\n{status:#}");
    let stages = ["init-local", "init"].map(|stage| &status["v1"][stage]["recoverable_errors"]);
    let level = if is_error { "ERROR" } else { "WARNING" };
    assert!(stages.iter().any(|list| has(&list[level])), "{place}: {text}\n{status:#}");
}

/// The stages after the network stage repeat nothing about the failure. The final stage adds cloud-init's warning that the
/// datasource None is used.
#[test]
fn final_stage_adds_one_warning_about_the_fallback() {
    let case = Case::read("hetzner");
    let cloud = connected(&case, false);
    cloud.fault("* . 404");
    let (id, _, log) = boot_stages(&cloud, &case.name, &["local", "network", "config", "final"]);
    assert_eq!(id, "none", "{log}");
    let problems = warnings(&log, &[]);
    let [failure, fallback] = problems[..] else { fail(&format!("{problems:#?}\n{log}")) };
    assert!(failure.contains("[ERROR]") && failure.contains("without it (datasource None): "), "{failure}");
    assert!(fallback.ends_with("[WARNING]: Used fallback datasource"), "{fallback}");
}

#[test]
#[ignore = "faults of all clouds: make slow"]
fn failing_services_of_no_cloud_change_later_boots() {
    let cases = Case::all("faults");
    side_by_side(cases.into_iter().map(|case| Box::new(move || later_boots(&case)) as Job).collect());
}

/// A machine after its first boot.
struct Provisioned<'c> {
    case: &'c Case,
    cloud: Cloud,
    id: String,
    instance: String,
    semaphores: Vec<String>,
    expected_warnings: Vec<&'static str>,
}

fn later_boots(case: &Case) {
    let cloud = connected(case, true);
    let (id, instance, log) = boot(&cloud, &case.name);
    assert!(id != "none", "{}: {id}\n{log}", case.name);
    let expected_warnings = expected_warnings(&log, &case.name);
    let semaphores = semaphores(&cloud);
    assert!(semaphores.iter().any(|line| line.contains("config_users_groups")), "{semaphores:?}");
    let machine = Provisioned { case, cloud, id, instance, semaphores, expected_warnings };
    for fault in FAULTS {
        machine.cloud.fault(fault.lines);
        machine.later_boot(fault.name, fault.is_overcome);
    }
    machine.cloud.fault("");
    let uses_dhcp = matches!(case.reach(), Reach::Dhcp | Reach::AzureDhcp);
    for outage in OUTAGES.iter().filter(|outage| uses_dhcp || !outage.is_of_dhcp) {
        machine.cloud.net.in_cloud(&["sh", "-c", outage.begin]);
        machine.later_boot(outage.name, false);
        machine.cloud.net.in_cloud(&["sh", "-c", outage.end]);
    }
}

impl Provisioned<'_> {
    /// Boots while a failure lasts, and asserts that the instance is kept.
    fn later_boot(&self, failure: &str, is_overcome: bool) {
        let (case, cloud) = (self.case, &self.cloud);
        let place = format!("{}, later: {failure}", case.name);
        limit_waits(cloud, case, is_overcome);
        // The instance-id is in the firmware, so that nothing is requested.
        let is_confirmed = case.get("confirmed-by") == Some("firmware");
        cloud.forget_run();
        let asked = cloud.requests();
        let (id, instance, log) = boot(cloud, &place);
        assert_eq!((&id, &instance), (&self.id, &self.instance), "{place}\n{log}");
        assert_eq!(semaphores(cloud), self.semaphores, "{place}: nothing runs a second time\n{log}");
        let problems = warnings(&log, &self.expected_warnings);
        assert!(!is_confirmed || cloud.requests() == asked, "{place}: {}", cloud.requests());
        let is_expected = !is_overcome && !is_confirmed;
        assert_eq!(problems.len(), usize::from(is_expected), "{place}: {problems:#?}\n{log}");
        if is_expected {
            let is_kept = problems.iter().any(|line| line.contains("ing the cached"));
            // The instance of Hetzner's machines is confirmed; their network is read at each boot.
            assert!(is_kept || case.name == "hetzner", "{place}: {problems:?}\n{log}");
        }
    }
}
