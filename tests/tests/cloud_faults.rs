//! Metadata services that fail, for each cloud that has one: at the first boot and at later ones. A recognised cloud is
//! never silently set up as None, a machine is never provisioned a second time, and no boot waits longer than configured.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tests::{Case, Cloud, Reach};

/// A failure of the service (`tests/lib/imds`), and whether the machine gets its metadata in spite of it.
struct Fault {
    name: &'static str,
    lines: &'static str,
    is_overcome: bool,
}

const fn fault(name: &'static str, lines: &'static str, is_overcome: bool) -> Fault {
    Fault { name, lines, is_overcome }
}

const FAULTS: &[Fault] = &[
    fault("nothing is there", "* . 404", false),
    fault("500, then well", "* . once:500", true),
    fault("busy, then well", "* . once:429", true),
    fault("silent", "* . silent", false),
    fault("closes the connection", "* . reset", false),
    fault("half a body", "* . cut", false),
    fault("garbage", "* . garbage", false),
    fault("a byte a second", "* . rate:1", false),
];

/// The name of the last fault, at later boots only: packets to the service get lost.
const LOST_PACKETS: &str = "lost packets";

/// The time for both stages of a boot with the settings of [`limit_waits`] on a busy host.
const TIME_LIMIT: Duration = Duration::from_secs(45);

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
        &format!(
            "resize_rootfs: false\ndatasource: {{{name}: {{max_wait: {wait}, max_wait_cached: {wait}, timeout: {timeout}, retries: 1, \
             {PAUSES}}}}}\n"
        ),
    );
}

/// Boots; returns the cloud's id, the instance-id and the log of this boot.
fn boot(cloud: &Cloud, place: &str) -> (String, String, String) {
    let before = cloud.file("/var/log/cloud-init.log").len();
    let began = Instant::now();
    let boot = cloud.boot(&["local", "network"]);
    let took = began.elapsed();
    let log = cloud.file("/var/log/cloud-init.log").split_off(before);
    assert!(boot.ended_normally(), "{place}: {:?}\n{}\n{log}", boot.codes, boot.output);
    assert!(took < TIME_LIMIT, "{place} took {took:?}\n{log}\n{}", cloud.requests());
    eprintln!("{place}: {took:?}");
    (cloud.id(), cloud.file("/var/lib/cloud/data/instance-id").trim().to_string(), log)
}

/// Warnings that a working service causes too: they concern the fixture's metadata, not the failure.
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

/// Every other warning or error of a log.
fn warnings(log: &str) -> Vec<&str> {
    let is_problem = |line: &&str| ["[WARNING]", "[ERROR]"].iter().any(|level| line.contains(level));
    log.lines()
        .filter(is_problem)
        .filter(|line| !EXPECTED_WARNINGS.iter().any(|text| line.contains(text)))
        .collect()
}

/// Returns how many warnings and errors a first boot without metadata has: one in each stage that reads it (with upstream's
/// words, which tools search for), and the error that the machine is set up with None, by which the status is an error.
/// Azure's are the cause (an error of the service), that there is no instance, and that this could not be reported to Azure.
fn lines_without_metadata(case: &Case) -> usize {
    let stages = match case.reach() {
        Reach::Dhcp | Reach::LinkLocal => 2,
        Reach::AzureDhcp => 3,
        Reach::Own(_) | Reach::Socket(_) => 1,
    };
    stages + 1
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

/// Runs these jobs, a few at a time; all of them run, even if one fails.
fn side_by_side(jobs: Vec<Box<dyn FnOnce() + Send>>) {
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
fn failing_services_do_not_stop_the_first_boot() {
    let mut jobs: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for fault in FAULTS {
        let cases = Case::all("faults").into_iter();
        jobs.extend(cases.map(|case| Box::new(move || first_boot(&case, fault)) as Box<dyn FnOnce() + Send>));
    }
    side_by_side(jobs);
}

fn first_boot(case: &Case, fault: &Fault) {
    let place = format!("{}, {}", case.name, fault.name);
    let cloud = Cloud::new(&case.name).reached(case.reach());
    limit_waits(&cloud, case, fault.is_overcome);
    cloud.fault(fault.lines);
    let (id, instance, log) = boot(&cloud, &place);
    let said = warnings(&log);
    if fault.is_overcome {
        assert!(id != "none" && instance != "iid-datasource-none", "{place}: {id} {instance}\n{log}");
        assert!(said.is_empty(), "{place}: {said:?}");
        return;
    }
    assert_eq!(id, case.get("without-service").unwrap_or("none"), "{place}: {instance}\n{log}");
    let most = lines_without_metadata(case);
    assert!((1..=most).contains(&said.len()), "{place}: at most {most} lines: {said:#?}\n{log}");
    assert!(said.iter().any(|line| line.contains("http://")), "{place}: no line names the place: {said:#?}");
}

#[test]
fn failing_services_do_not_change_later_boots() {
    let cases = Case::all("faults").into_iter();
    side_by_side(
        cases.map(|case| Box::new(move || later_boots(&case)) as Box<dyn FnOnce() + Send>).collect(),
    );
}

fn later_boots(case: &Case) {
    let cloud = Cloud::new(&case.name).reached(case.reach());
    limit_waits(&cloud, case, true);
    let (id, instance, log) = boot(&cloud, &case.name);
    assert!(id != "none", "{}: {id}\n{log}", case.name);
    let done = semaphores(&cloud);
    assert!(done.iter().any(|line| line.contains("config_users_groups")), "{done:?}");
    // The instance-id is in the firmware, so that nothing is requested.
    let is_confirmed = case.get("confirmed-by") == Some("firmware");
    for fault in FAULTS.iter().chain([&fault(LOST_PACKETS, "", false)]) {
        let place = format!("{}, later: {}", case.name, fault.name);
        limit_waits(&cloud, case, fault.is_overcome);
        cloud.fault(fault.lines);
        if fault.name == LOST_PACKETS {
            let rule =
                "table inet lost { chain in { type filter hook input priority 0; tcp dport 80 drop; }; }";
            cloud.net.in_cloud(&["nft", rule]);
        }
        cloud.forget_run();
        let asked = cloud.requests();
        let (id_now, instance_now, log) = boot(&cloud, &place);
        assert_eq!((&id_now, &instance_now), (&id, &instance), "{place}\n{log}");
        assert_eq!(semaphores(&cloud), done, "{place}: nothing runs a second time\n{log}");
        let said = warnings(&log);
        assert!(!is_confirmed || cloud.requests() == asked, "{place}: {}", cloud.requests());
        if fault.is_overcome {
            assert!(said.is_empty(), "{place}: {said:?}\n{log}");
        } else if !is_confirmed {
            let is_kept = said.iter().any(|line| line.contains("ing the cached"));
            // The instance of Hetzner's machines is confirmed; their network is read at each boot.
            assert!(is_kept || case.name == "hetzner", "{place}: {said:?}\n{log}");
            assert!((1..=3).contains(&said.len()), "{place}: {said:?}\n{log}");
        }
    }
}
