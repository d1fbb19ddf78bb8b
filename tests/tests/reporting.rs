//! The handlers of `reporting:`: events compared with those of Debian's cloud-init 26.2 with the same configuration and
//! seed (`FIRSTLIGHT_RECORD`), and servers that are unreachable, do not respond, fail, start late or have a wrong clock.

use std::collections::BTreeSet;
use std::path::Path;

use encoding::percent::decode;
use serde_json::Value;
use tests::{Boot, Sandbox, check_boot, not_tried, record_path, script, tests_dir, write};

/// The length of a record of Hyper-V's key-value pairs, and of its key.
const RECORD: usize = 2560;
const KEY: usize = 512;

/// A request that the server received.
struct Request {
    path: String,
    authorization: String,
    status: Option<u64>,
    body: String,
}

fn requests(log: &str) -> Vec<Request> {
    let request = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("a line of tests/lib/events");
        let text = |index: usize| value[index].as_str().unwrap_or_default().to_string();
        Request { path: text(0), authorization: text(1), status: value[2].as_u64(), body: text(3) }
    };
    log.lines().map(request).collect()
}

/// Returns what does not depend on the time: keys in order, kind, name, result and description.
fn event(body: &str) -> String {
    let value: Value = serde_json::from_str(body).unwrap_or_else(|e| tests::fail(&format!("{body}: {e}")));
    let mut keys: Vec<&str> = value.as_object().expect("a map").keys().map(String::as_str).collect();
    keys.sort_by_key(|key| body.find(&format!("\"{key}\":")));
    for (key, value) in value.as_object().expect("a map") {
        let is_number = matches!(key.as_str(), "timestamp" | "duration");
        assert!(is_number == value.is_number() && (is_number || value.is_string()), "{key} in {body}");
    }
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_string();
    let description = without_seconds(&(text("description") + &text("msg")));
    let kind = text("event_type") + &text("type");
    format!("{} | {kind} {} {} {description}", keys.join(","), text("name"), text("result"))
}

/// Replaces the number in `took 0.123 seconds`.
fn without_seconds(text: &str) -> String {
    let Some((before, rest)) = text.split_once(" took ") else { return text.to_string() };
    format!("{before} took N {}", rest.split_once(' ').map_or("", |(_, rest)| rest))
}

/// Returns the events of each place: the paths of the server, the pools of Hyper-V, and standard output.
fn events(log: &str, pools: &[(&str, Vec<u8>)], output: &str) -> String {
    let mut lines = Vec::new();
    for request in requests(log) {
        lines.push(format!("{} {}", request.path, event(&request.body)));
    }
    // Of each path in its order; the paths are sent side by side.
    lines.sort_by_key(|line| line.split(' ').next().unwrap_or_default().to_string());
    for (name, pool) in pools {
        assert_eq!(pool.len() % RECORD, 0, "{name}");
        for record in pool.chunks(RECORD) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string();
            let (key, value) = (text(&record[..KEY]), text(&record[KEY..]));
            // CLOUD_INIT|BOOT|KIND|NAME|MACHINE|UUID
            let parts: Vec<&str> = key.split('|').collect();
            assert!(parts.len() == 6 && parts[1].parse::<u64>().is_ok() && parts[5].len() == 36, "{key}");
            lines.push(format!("{name} {}|{}|{} {}", parts[0], parts[2], parts[3], event(&value)));
        }
    }
    for line in output.lines().map(|line| line.trim_end_matches('\r')) {
        if line.starts_with("start: ") || line.starts_with("finish: ") {
            let line = line.split(" (duration: ").next().unwrap_or_default();
            lines.push(format!("output {}", without_seconds(line)));
        }
    }
    lines.join("\n") + "\n"
}

fn case(name: &str) -> String {
    let path = tests_dir().join("reporting").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| tests::fail(&format!("{}: {e}", path.display())))
}

/// A shell line that starts the server in the machine's network.
fn server() -> String {
    let program = tests_dir().join("lib/events").display().to_string();
    format!(
        "{program} 8085 $root/requests >/dev/null 2>&1 </dev/null & \
         for i in $(seq 100); do [ -e $root/requests ] && break; sleep 0.1; done"
    )
}

/// A machine with the configuration and the seed of `tests/reporting`.
fn machine(name: &str) -> Sandbox {
    let machine = Sandbox::new(name);
    machine.put("/etc/cloud/cloud.cfg.d/95_reporting.cfg", case("machine.cfg"));
    for file in ["user-data", "vendor-data", "meta-data"] {
        machine.seed(file, case(file));
    }
    // Debian's cloud-init needs these.
    machine.put("/var/lib/pool", "");
    machine
}

/// A machine with one webhook.
fn with_webhook(name: &str, more: &str, webhook: &str) -> Sandbox {
    let machine = Sandbox::new(name);
    let modules = "cloud_init_modules: [write-files]\ncloud_config_modules: [runcmd]\n\
                   cloud_final_modules: [scripts-user, final-message]\n";
    let text = format!("{modules}{more}\nreporting: {{hook: {{type: webhook, {webhook}}}}}\n");
    machine.put("/etc/cloud/cloud.cfg.d/95_reporting.cfg", text);
    machine.seed("user-data", "#cloud-config\nruncmd: ['true']\n");
    machine
}

fn received(machine: &Sandbox) -> Vec<Request> {
    requests(&machine.file("/requests").unwrap_or_default())
}

/// The names and kinds of events that the server accepted.
fn accepted(machine: &Sandbox) -> Vec<String> {
    let of = |request: &Request| {
        let value: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_string();
        text("event_type") + " " + &text("name")
    };
    received(machine).iter().filter(|r| r.status == Some(200)).map(of).collect()
}

fn warnings(machine: &Sandbox, words: &str) -> usize {
    machine.warnings().iter().filter(|line| line.contains(words)).count()
}

fn record(root: &str) -> String {
    let out = std::env::temp_dir().join(format!("firstlight-events-{}", std::process::id()));
    let text = |path: &Path| path.display().to_string();
    script("events-upstream", &[root, &text(&tests_dir().join("reporting")), &text(&out)]);
    let read = |name: &str| std::fs::read(out.join(name)).unwrap_or_default();
    let pools = [("pool", read("pool")), ("pool-of-ends", read("pool-of-ends"))];
    let of = |name: &str| String::from_utf8_lossy(&read(name)).into_owned();
    let events = events(&of("requests"), &pools, &of("output"));
    let _ = std::fs::remove_dir_all(&out);
    events
}

#[test]
fn events_match_upstream() {
    if let Ok(root) = std::env::var("FIRSTLIGHT_RECORD") {
        return write(&record_path(&tests_dir().join("reporting/upstream")), record(&root));
    }
    let machine = machine("reporting").before("local", &server());
    let boot = machine.run(&["on", "local", "network", "config", "final"]);
    check_boot!(machine, boot, boot.ended_normally());
    let read = |path: &str| std::fs::read(machine.path(path)).unwrap_or_default();
    let pools = [("pool", read("/var/lib/pool")), ("pool-of-ends", read("/var/lib/pool-of-ends"))];
    let log = machine.file("/requests").unwrap_or_default();
    let ours = events(&log, &pools, &boot.output);
    // Upstream configures its handlers after the first event.
    let is_same = |line: &&str| {
        !line.contains("| start init-local  ") && !line.starts_with("output start: init-local: ")
    };
    let ours: Vec<&str> = ours.lines().filter(is_same).collect();
    let theirs = case("upstream");
    let theirs: Vec<&str> = theirs.lines().collect();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{}", machine.log());
    }
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.len() > 150, "{}", ours.len());
    check_boot!(machine, boot, warnings(&machine, "reporting") == 0);

    // The signature, as RFC 5849 has it for PLAINTEXT, computed here.
    let mut nonces = BTreeSet::new();
    for request in requests(&log) {
        assert_eq!(request.authorization.is_empty(), request.path != "/user", "{}", request.path);
        let Some(parameters) = request.authorization.strip_prefix("OAuth ") else { continue };
        let value = |name: &str| {
            let of = |part: &str| {
                Some(part.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"')?.to_string())
            };
            parameters.split(", ").find_map(of).unwrap_or_default()
        };
        let key = decode(&decode(&value("oauth_signature")));
        assert_eq!(key, "c%cret&s=cret");
        assert_eq!(decode(&value("oauth_signature")), "c%25cret&s%3Dcret");
        assert_eq!(
            (decode(&value("oauth_consumer_key")), decode(&value("oauth_token"))),
            ("a key".into(), "t&k".into())
        );
        let time: u64 = value("oauth_timestamp").parse().expect("seconds");
        let now = std::time::UNIX_EPOCH.elapsed().expect("a time").as_secs();
        assert!(now.abs_diff(time) < 300, "{time}");
        nonces.insert(value("oauth_nonce"));
    }
    assert_eq!(nonces.len(), requests(&log).iter().filter(|r| r.path == "/user").count());
    for secret in ["s=cret", "c%cret", "s%3Dcret"] {
        check_boot!(machine, boot, !machine.log().contains(secret) && !boot.output.contains(secret));
    }
}

/// At a later boot the handlers of user-data and vendor-data get the events of the local stage too.
#[test]
fn later_boots_report_the_local_stage() {
    let machine = machine("reporting-later").before("local", &server());
    machine.run(&["on", "local", "network", "config", "final"]);
    let first = received(&machine).len();
    std::fs::remove_file(machine.path("/requests")).expect("the first boot's requests");
    let boot = machine.run(&["on", "local", "network", "config", "final"]);
    check_boot!(machine, boot, first > 50 && boot.ended_normally());
    for path in ["/machine", "/user", "/vendor", "/user-wins"] {
        let events: Vec<Request> = received(&machine).into_iter().filter(|r| r.path == path).collect();
        let first = events.first().map(|request| event(&request.body)).unwrap_or_default();
        check_boot!(machine, boot, first.contains("| start init-local  "));
        check_boot!(
            machine,
            boot,
            events.iter().any(|r| r.body.contains("config-scripts-user previously ran"))
        );
    }
}

#[test]
fn a_dead_server_delays_nothing() {
    let machine = with_webhook("reporting-dead", "", "endpoint: 'http://127.0.0.1:8085/x?token=hidden'");
    let boot = machine.run(&["on", "local", "network", "config", "final"]);
    check_boot!(machine, boot, boot.succeeded());
    // In the local stage there may be no network yet.
    check_boot!(machine, boot, warnings(&machine, "reporting.hook: ") == 3);
    check_boot!(
        machine,
        boot,
        warnings(&machine, "events were not sent: fetching http://127.0.0.1:8085") == 3
    );
    check_boot!(machine, boot, !machine.log().contains("hidden"));
    check_boot!(machine, boot, machine.path("/var/lib/cloud/instance/boot-finished").exists());
}

/// Each stage waits for its limited time only: 1 second, the last one 10.
#[test]
fn a_silent_server_has_a_deadline() {
    let webhook = "endpoint: 'http://127.0.0.1:8085/silent', timeout: 60, retries: 9";
    let machine = with_webhook("reporting-silent", "", webhook).before("local", &server());
    let boot = machine.run(&["on", "local", "network", "config", "final"]);
    check_boot!(machine, boot, boot.succeeded());
    let log = machine.log();
    assert_eq!(warnings(&machine, "reporting.hook: "), 1, "{log}");
    assert!(log.contains("were not sent: http://127.0.0.1:8085/…: no response in time"), "{log}");
    assert_eq!(log.matches("events are left for the next stage").count(), 3, "{log}");
}

#[test]
fn event_is_repeated_after_a_short_failure() {
    let webhook = "endpoint: 'http://127.0.0.1:8085/once-500', retries: 2";
    let machine = with_webhook("reporting-once", "", webhook).before("local", &server());
    let boot = machine.run(&["on", "local", "network", "config", "final"]);
    check_boot!(machine, boot, boot.succeeded());
    let all = accepted(&machine);
    check_boot!(machine, boot, all.first().is_some_and(|name| name == "start init-local"));
    check_boot!(machine, boot, all.last().is_some_and(|name| name == "finish modules-final"));
    // A stage that reaches its deadline during a request leaves the event to the next stage, although the server may have it.
    let may_repeat = machine.log().matches("left for the next stage").count();
    let repeated = all.len() - all.iter().collect::<BTreeSet<_>>().len();
    check_boot!(machine, boot, repeated <= may_repeat);
    let failed = received(&machine).iter().filter(|r| r.status == Some(500)).count();
    check_boot!(machine, boot, failed == 1 && warnings(&machine, "reporting") == 0);
}

#[test]
fn failing_server_is_reported_and_delays_nothing() {
    let webhook = "endpoint: 'http://127.0.0.1:8085/always-500'";
    let machine = with_webhook("reporting-500", "", webhook).before("local", &server());
    let boot = machine.run(&["on", "local", "network", "config", "final"]);
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, warnings(&machine, "reporting.hook: ") == 3);
    check_boot!(machine, boot, warnings(&machine, "status 500") == 3);
}

/// Before there is a network, events wait for the next stage.
#[test]
fn events_wait_until_the_server_is_reachable() {
    let webhook = "endpoint: 'http://127.0.0.1:8085/late'";
    let machine = with_webhook("reporting-late", "", webhook).before("network", &server());
    let boot = machine.run(&["on", "local", "network", "config", "final"]);
    check_boot!(machine, boot, boot.succeeded() && warnings(&machine, "reporting") == 0);
    let all = accepted(&machine);
    check_boot!(machine, boot, all.iter().any(|name| name == "finish init-local"));
    check_boot!(machine, boot, all.first().is_some_and(|name| name == "start init-local"));
    check_boot!(machine, boot, all.last().is_some_and(|name| name == "finish modules-final"));
    check_boot!(machine, boot, machine.file("/run/cloud-init/unsent-events.json").is_none());
}

/// A server gets the configured credentials only.
#[test]
fn netrc_is_not_read() {
    let webhook = "endpoint: 'http://127.0.0.1:8085/x'";
    let machine = with_webhook("reporting-netrc", "", webhook).before("final", &server());
    machine.put("/root/.netrc", "default login al password hidden\n");
    let home = format!("env HOME={}", machine.path("/root").display());
    let machine = machine.wrap("final", &home);
    let boot = machine.run(&["on", "local", "network", "config", "final"]);
    check_boot!(machine, boot, boot.succeeded());
    let requests = received(&machine);
    check_boot!(machine, boot, !requests.is_empty() && requests.iter().all(|r| r.authorization.is_empty()));
}

#[test]
fn signature_uses_the_clock_of_the_server() {
    let keys = "consumer_key: c, token_key: t, token_secret: s";
    let webhook = format!("endpoint: 'http://127.0.0.1:8085/another-clock', {keys}");
    let machine = with_webhook("reporting-clock", "", &webhook).before("local", &server());
    let boot = machine.run(&["on", "local", "network", "config", "final"]);
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, accepted(&machine).last().is_some_and(|name| name == "finish modules-final"));
    let refused = received(&machine).iter().filter(|r| r.status == Some(401)).count();
    check_boot!(machine, boot, refused == 1);
}

/// As with cloud-init, a single module's events are sent with `--report` only, from the module's start on.
#[test]
fn single_module_reports_only_on_request() {
    let single = |option: &str| {
        format!("$BIN/cloud-init-config --root $root --single write_files --frequency always {option}; ")
    };
    let run = server()
        + "; "
        + &single("")
        + ": >$root/silent; cp $root/requests $root/silent; "
        + &single("--report");
    let machine = with_webhook("reporting-single", "", "endpoint: 'http://127.0.0.1:8085/x'");
    let more = "datasource_list: [None]\nwrite_files: [{path: /srv/x}]\ncloud_config_modules: []\n";
    machine.put("/etc/cloud/cloud.cfg.d/96_single.cfg", more);
    let machine = machine.before("end", &run);
    machine.run(&["on", "final", "end"]);
    assert_eq!(machine.file("/silent").as_deref(), Some(""), "{}", machine.log());
    let names: Vec<String> = accepted(&machine);
    let module = "single/write_files/config-write_files";
    let expected =
        [format!("start {module}"), format!("finish {module}"), "finish single/write_files".into()];
    assert_eq!(names, expected, "{}", machine.log());
}

/// What is invalid is named once, with its position, and skipped.
#[test]
fn invalid_handlers_are_reported_and_skipped() {
    let machine = machine("reporting-bad").before("local", &server());
    let text = case("machine.cfg")
        + "  logging: false\n  \
           mail: {type: mail}\n  \
           nowhere: {type: webhook, endpoint: 'ftp://h/'}\n  \
           half: {type: webhook, endpoint: 'http://127.0.0.1:8085/half', token_secret: hidden}\n  \
           loud: {type: log, level: loud, colour: red}\n  \
           list: [log]\n  \
           pool: {type: hyperv, kvp_file_path: /proc/none/pool}\n";
    machine.put("/etc/cloud/cloud.cfg.d/95_reporting.cfg", text);
    let boot = machine.run(&["on", "local", "network", "config", "final"]);
    check_boot!(machine, boot, boot.ended_normally());
    for words in [
        "reporting.mail.type: expected one of log, print, webhook, otlp and hyperv",
        "reporting.nowhere.endpoint: expected an http or https URL",
        "reporting.half: expected all of consumer_key",
        "reporting.loud.level: expected the name of a level; using WARN",
        "reporting.loud.colour: unknown key",
        "reporting.list: expected a map with a type",
    ] {
        let count = machine
            .warnings()
            .iter()
            .filter(|line| line.contains(words) && line.contains("95_reporting.cfg:"))
            .count();
        assert_eq!(count, 1, "{words}\n{}", machine.log());
    }
    check_boot!(machine, boot, warnings(&machine, "reporting.pool: ") == 4);
    check_boot!(machine, boot, !machine.log().contains("hidden"));
    // The handler of the log is off; the other one writes warnings.
    check_boot!(machine, boot, !machine.log().contains("[DEBUG]: start: "));
    check_boot!(machine, boot, machine.log().contains("[WARNING]: start: modules-final: "));
    check_boot!(machine, boot, received(&machine).iter().filter(|r| r.path == "/machine").count() > 30);
    let after: Boot = machine.run(&["final"]);
    check_boot!(machine, after, after.ended_normally());
}

/// A boot is one trace: its stages, their steps and requests are spans, with attributes of the instance. What the collector gets is parsed
/// with OpenTelemetry's own definitions.
#[test]
fn a_boot_is_a_trace() {
    let machine = Sandbox::new("reporting-otlp").before("local", &server());
    let handler = "{type: otlp, endpoint: 'http://127.0.0.1:8085', headers: {Api-Key: hidden}, retries: 3}";
    let modules = "cloud_init_modules: [write-files]\ncloud_config_modules: [runcmd]\n\
                   cloud_final_modules: [scripts-user, final-message]\n";
    let text = format!("{modules}reporting: {{traces: {handler}}}\n");
    machine.put("/etc/cloud/cloud.cfg.d/95_reporting.cfg", text);
    machine.seed("user-data", "#include\nhttp://127.0.0.1:8085/included\n");
    let boot = machine.run(&["on", "local", "network", "config", "final"]);
    check_boot!(machine, boot, !machine.log().contains("hidden") && !boot.output.contains("hidden"));
    let spans = script("otlp", &[&machine.path("/requests").display().to_string()]);
    if spans.trim() == "none" {
        return not_tried("a_boot_is_a_trace", "opentelemetry-proto cannot be installed");
    }
    let rows: Vec<Vec<&str>> = spans.lines().map(|line| line.split('\t').collect()).collect();
    let find = |name: &str| {
        let found = rows.iter().find(|row| row[0] == name);
        found.unwrap_or_else(|| tests::fail(&format!("{name}: {spans}")))
    };
    // Name, kind (1 is internal, 3 a client), parent, status (1 is a success, 2 an error).
    for (name, kind, parent, status) in [
        ("boot", "1", "-", "2"),
        ("init-local", "1", "boot", "1"),
        ("init-network", "1", "boot", "1"),
        ("modules-config", "1", "boot", "1"),
        ("modules-final", "1", "boot", "2"),
        ("config-runcmd", "1", "modules-config", "1"),
        ("config-scripts-user", "1", "modules-final", "2"),
        ("http://127.0.0.1:8085/…", "3", "consume-user-data", "1"),
    ] {
        assert_eq!(find(name)[1..4], [kind, parent, status], "{name}: {spans}");
    }
    assert!(find("config-scripts-user")[5].contains("\"result\": \"FAIL\""), "{spans}");
    for row in &rows {
        let resource: Value = serde_json::from_str(row[6]).unwrap_or_default();
        assert_eq!(
            (&resource["service.name"], &resource["cloud.platform"]),
            (&"cloud-init".into(), &"nocloud".into()),
            "{spans}"
        );
        assert!(resource["host.id"].as_str().is_some_and(|id| !id.is_empty()), "{spans}");
    }
}

/// A failure is an entry of systemd's journal with fields, once, when its stage ends.
#[test]
fn failures_are_entries_of_the_journal() {
    let listen = "mkdir -p $root/run/systemd/journal; (cd $root/run/systemd/journal; exec python3 -c \"
import socket
journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
journal.bind('socket')
out = open('entries', 'wb', 0)
while True: out.write(journal.recv(65536))\") >/dev/null 2>&1 </dev/null &
for i in $(seq 100); do [ -e $root/run/systemd/journal/entries ] && break; sleep 0.1; done";
    let machine = Sandbox::with_user_data("reporting-journal", "#cloud-config\nruncmd: ['exit 3']\n")
        .before("config", listen)
        .before(
            "end",
            "for i in $(seq 100); do [ -s $root/run/systemd/journal/entries ] && break; sleep 0.1; done",
        );
    let boot = machine.run(&["on", "local", "network", "config", "final", "end"]);
    check_boot!(
        machine,
        boot,
        machine.warnings().iter().any(|line| line.contains("Running module scripts_user"))
    );
    let entries = machine.file("/run/systemd/journal/entries").unwrap_or_default();
    let fields = ["MESSAGE=Running module scripts_user", "CLOUD_INIT_MODULE=scripts_user", "PRIORITY=3"];
    for field in fields {
        assert_eq!(entries.lines().filter(|line| line.starts_with(field)).count(), 1, "{field}: {entries}");
    }
    assert_eq!(entries.lines().filter(|line| line.starts_with("MESSAGE_ID=")).count(), 1, "{entries}");
}
