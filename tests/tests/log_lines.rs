//! The log lines that firstlight(7) guarantees to scripts: each is in the log, the output or the status of a boot here.

use tests::{Sandbox, tests_dir};

const USER_DATA: &str = "#cloud-config
hostname: kiln
no_such_key: 1
apt_update: false
users: [{name: rosa, lock-passwd: true}]
bootcmd: [\"echo here\"]
runcmd: [\"true\"]
";

/// A service manager that reports success.
const SYSTEMCTL: &str =
    "mkdir -p $root/opt/stub; echo '#!/bin/sh' >$root/opt/stub/systemctl; chmod 755 $root/opt/stub/systemctl";

/// A row of the manual page: where it is logged, and its parts between `*`.
fn rows() -> Vec<(String, Vec<String>)> {
    let page = tests_dir().join("../packaging/man/firstlight.7");
    let page = std::fs::read_to_string(page).expect("the manual page");
    let (_, table) = page
        .split_once(".\\\" lines for scripts, compared in tests/tests/log_lines.rs\n")
        .expect("its table");
    let (table, _) = table.split_once("\n.fi").expect("the table's end");
    let rows = table.lines().filter(|line| !line.starts_with('.')).map(|line| {
        let line = line.replace("\\-", "-").replace("\\(aq", "'").replace("\\&", "");
        let (place, text) = line.split_once(": ").expect("a place");
        (place.to_string(), text.split('*').map(String::from).collect())
    });
    rows.collect()
}

fn is_in(text: &str, parts: &[String]) -> bool {
    text.lines().any(|line| {
        let mut rest = line;
        parts.iter().all(|part| match rest.find(part.as_str()) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    })
}

#[test]
fn documented_log_lines_are_written() {
    let sandbox = Sandbox::with_user_data("log-lines", USER_DATA);
    let first = sandbox.boot();
    let mut log = sandbox.log();
    let output = sandbox.file("/var/log/cloud-init-output.log").unwrap_or_default() + &first.output;
    let status = sandbox.status();
    // The second boot has nothing left to do.
    sandbox.boot();
    log += &sandbox.log();
    // And a machine without a datasource.
    let lost = Sandbox::new("log-lines-lost");
    std::fs::remove_dir_all(lost.path("/var/lib/cloud/seed/nocloud")).expect("its seed");
    tests::write(&lost.path("/etc/cloud/cloud.cfg.d/90_sandbox.cfg"), "datasource_list: [NoCloud, GCE]\n");
    lost.run(&["local", "network", "config", "final"]);
    // A machine that only the fallback None sets up, as its seed cannot be read.
    let last = Sandbox::new("log-lines-none");
    std::fs::remove_dir_all(last.path("/var/lib/cloud/seed/nocloud")).expect("its seed");
    tests::write(
        &last.path("/etc/cloud/cloud.cfg.d/95_seed.cfg"),
        "datasource_list: [NoCloud, None]\ndatasource: {NoCloud: {seedfrom: 'ftp://192.0.2.1/'}}\n",
    );
    last.run(&["local", "network", "config", "final"]);
    let events = network_and_services();
    log = [log, lost.log(), last.log(), events].join("\n");
    let status = [status, lost.status(), last.status()].join("\n");
    let rows = rows();
    assert!(rows.len() > 30, "{}", rows.len());
    for (place, parts) in &rows {
        let text = match place.as_str() {
            "log" => &log,
            "output" => &output,
            "status" => &status,
            other => tests::fail(&format!("no place is named {other}")),
        };
        assert!(is_in(text, parts), "{place}: {}\n{text}", parts.join("*"));
    }
}

/// Returns the log of a machine with a NIC, a service that is controlled and a shutdown whose condition is false, over two
/// boots: at the second one the network configuration is not applied again.
fn network_and_services() -> String {
    let sandbox = Sandbox::with_user_data(
        "log-lines-events",
        "#cloud-config\nntp: {ntp_client: systemd-timesyncd}\npower_state: {mode: reboot, condition: false}\n",
    )
    .live()
    .before("config", SYSTEMCTL)
    .wrap("config", "env PATH=/opt/stub:/usr/sbin:/usr/bin:/sbin:/bin");
    tests::write(
        &sandbox.path("/etc/cloud/cloud.cfg.d/96_renderer.cfg"),
        "system_info: {network: {renderers: [networkd]}}\n",
    );
    tests::write(&sandbox.path("/sys/class/net/eth0/address"), "52:54:00:00:00:01\n");
    sandbox.seed("network-config", "version: 2\nethernets: {eth0: {addresses: [10.0.0.4/24]}}\n");
    sandbox.boot();
    sandbox.boot();
    sandbox.log()
}

/// The status has exactly upstream's sentences, because scripts count them.
#[test]
fn recoverable_errors_match_upstream() {
    let sandbox = Sandbox::with_user_data("log-lines-count", USER_DATA);
    sandbox.boot();
    let status = sandbox
        .file("/run/cloud-init/status.json")
        .or_else(|| sandbox.file("/var/lib/cloud/data/status.json"));
    let status: serde_json::Value = serde_json::from_str(&status.unwrap_or_default()).expect("status.json");
    assert_eq!(
        status["v1"]["init"]["recoverable_errors"],
        serde_json::json!({
            "DEPRECATED": ["Deprecated cloud-config provided: apt_update:  Deprecated in version 22.2. Use \
                            **package_update** instead., users.0.lock-passwd:  Deprecated in version 22.3. Use \
                            **lock_passwd** instead."],
            "WARNING": ["cloud-config failed schema validation! You may run 'sudo cloud-init schema --system' to check \
                         the details."],
        })
    );
}

/// With the output that images set up, the first line of a stage is on standard output, and with a file only there, as
/// upstream's.
#[test]
fn first_line_of_a_stage_is_on_standard_output() {
    let sandbox = Sandbox::with_user_data("first-line", "#cloud-config\n{}\n");
    sandbox.run(&["on", "local", "network"]);
    for (output, is_printed) in [("| tee -a /var/log/own.log", true), (">> /var/log/own.log", false)] {
        let config = format!("output: {{all: '{output}'}}\n");
        tests::write(&sandbox.path("/etc/cloud/cloud.cfg.d/99-output.cfg"), config);
        let stage = std::process::Command::new(tests::binaries().join("cloud-init-config"))
            .arg("--root")
            .arg(&sandbox.root)
            .output()
            .expect("the config stage");
        let has_line = |text: &str| text.contains(" running 'modules:config' at ");
        let [stdout, stderr] =
            [stage.stdout, stage.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert_eq!((has_line(&stdout), has_line(&stderr)), (is_printed, false), "{output}: {stdout}{stderr}");
        let file = sandbox.file("/var/log/own.log").unwrap_or_default();
        assert!(has_line(&file), "{output}: {file}");
        let _ = std::fs::remove_file(sandbox.path("/var/log/own.log"));
    }
}

/// A template of the image is rendered once the instance is known, in every stage and for every command.
#[test]
fn templates_in_the_system_configuration_are_rendered() {
    let sandbox = Sandbox::new("templates");
    let put = |name: &str, text: &str| tests::write(&sandbox.path("/etc/cloud/cloud.cfg.d").join(name), text);
    put(
        "50-name.cfg",
        "## template: jinja\nfqdn: {{ v1.instance_id }}.example\nhostname: '{{ v1.platform }}'\n",
    );
    put(
        "51-if.cfg",
        "## template: jinja\n{% if v1.platform == 'nocloud' %}\nruncmd: [\"echo {{ v1.platform }} > /ran\"]\n{% endif %}\n",
    );
    put("52-bad.cfg", "## template: jinja\n{% if %}\n");
    put("53-unknown.cfg", "## template: jinja\n_x: {{ bad }}\n");
    put("54-plain.cfg", "_y: '{{ v1.platform }}'\n");
    put("55-types.cfg", "_set: !!set {q}\n_date: 2031-03-04\n");
    let main = "/etc/cloud/cloud.cfg";
    let plain = sandbox.file(main).unwrap_or_default();
    let of_platform = "{% if v1.platform == 'nocloud' %}\n_z: here\n{% else %}\n- not YAML: [\n{% endif %}\n";
    tests::write(&sandbox.path(main), format!("## template: jinja\n{plain}\n{of_platform}"));
    sandbox.seed("user-data", "#cloud-config\nusers: []\n");
    sandbox.boot();
    assert_eq!(sandbox.file("/ran").as_deref(), Some("nocloud\n"), "{}", sandbox.log());
    assert_eq!(sandbox.file("/etc/hostname").as_deref().map(str::trim), Some("nocloud"), "{}", sandbox.log());
    let combined = sandbox.file("/run/cloud-init/combined-cloud-config.json").unwrap_or_default();
    assert!(combined.contains("\"_y\": \"{{ v1.platform }}\""), "{combined}");
    assert!(combined.contains("\"_x\": \"CI_MISSING_JINJA_VAR/bad\""), "{combined}");
    assert!(combined.contains("\"_z\": \"here\""), "{combined}");
    // cloud-init cannot write these as JSON.
    let combined: serde_json::Value = serde_json::from_str(&combined).expect("JSON");
    assert_eq!(
        (combined["_set"].to_string(), combined["_date"].to_string()),
        ("[\"q\"]".into(), "\"2031-03-04\"".into())
    );
    // A command, whose module is in the rendered part's list.
    let single = std::process::Command::new(tests::binaries().join("cloud-init"))
        .arg("--root")
        .arg(&sandbox.root)
        .args(["single", "--name", "runcmd", "--frequency", "always", "--report"])
        .output()
        .expect("cloud-init single");
    assert!(single.status.success(), "{single:?}");
    let script = sandbox.file("/var/lib/cloud/instance/scripts/runcmd").unwrap_or_default();
    assert!(script.contains("echo nocloud > /ran"), "{script}");
    let warnings = sandbox.warnings().join("\n");
    for expected in [
        "Could not render jinja template variables in file '/etc/cloud/cloud.cfg.d/53-unknown.cfg': 'bad'",
        "Failed to render templated yaml config file '/etc/cloud/cloud.cfg.d/52-bad.cfg'. ",
    ] {
        assert!(warnings.contains(expected), "{warnings}");
    }
    assert!(!warnings.contains("51-if.cfg"), "{warnings}");
}

/// A script of the boot that waits for the end of the boot gets an error, and the boot continues.
#[test]
fn status_wait_in_a_boot_script_fails() {
    let program = tests::binaries().join("cloud-init");
    let user_data = "#cloud-config\nbootcmd: [\"/root/cloud-init status --wait >>/waited 2>&1; echo $? >>/waited\"]\n\
                     runcmd: [\"sh -c '/root/cloud-init status --wait' >>/waited 2>&1; echo $? >>/waited\"]\n";
    let sandbox = Sandbox::with_user_data("waits", user_data);
    std::fs::create_dir_all(sandbox.path("/root")).expect("a home");
    std::fs::copy(program, sandbox.path("/root/cloud-init")).expect("the program in the machine");
    let boot = sandbox.boot();
    assert!(boot.succeeded(), "{:?}\n{}", boot.codes, boot.output);
    let waited = sandbox.file("/waited").unwrap_or_default();
    let stages: Vec<&str> = waited.lines().filter(|line| line.contains("not waiting")).collect();
    assert_eq!(stages.len(), 2, "{waited}");
    assert!(
        stages[0].contains("by stage init,") && stages[1].contains("by stage modules-final,"),
        "{waited}"
    );
    assert_eq!(waited.lines().filter(|line| *line == "1").count(), 2, "{waited}");
    assert!(sandbox.status().starts_with("status: done"), "{}", sandbox.status());
}

/// The steps around user-data, in upstream's order.
#[test]
fn events_around_user_data_have_upstreams_order() {
    let sandbox = Sandbox::with_user_data("events", "#cloud-config\nusers: []\n");
    sandbox.boot();
    let log = sandbox.log();
    let events: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split_once("finish: init-network/")?.1.split(':').next())
        .skip_while(|event| *event != "setup-datasource")
        .take_while(|event| !event.starts_with("config-"))
        .collect();
    let expected = [
        "setup-datasource",
        "consume-user-data",
        "consume-vendor-data",
        "consume-vendor-data2",
        "activate-datasource",
    ];
    assert_eq!(events, expected, "{log}");
}
