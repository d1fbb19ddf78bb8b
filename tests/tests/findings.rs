//! A configuration error is reported once in a boot: by validation for user-data, and by the module that reads it for the
//! image's configuration.

use tests::Sandbox;

const USER_DATA: &str = "#cloud-config
hostname: my_host
growpart: {mode: fast}
ntp: {servers: {a: b}}
ssh_deletekeys: [x]
write_files:
- {path: /a, append: perhaps}
- {path: /b, content: x, permissions: rw}
users: [{name: anna, sudo: true, uid: [7]}]
";

const IMAGE: &str = "seed_random: 7\ntimezone: [Mars]\nkeyboard: {}\npower_state: {mode: sleep}\n";

/// Checks that each was reported once, with its position.
fn assert_reported(warnings: &[String], place: &str, text: &str) {
    let about: Vec<&String> = warnings.iter().filter(|line| line.contains(text)).collect();
    assert_eq!(about.len(), 1, "{text}: {}", warnings.join("\n"));
    assert!(about[0].contains(place), "{}", about[0]);
}

#[test]
fn each_finding_is_reported_once() {
    let sandbox = Sandbox::with_user_data("findings", USER_DATA);
    sandbox.put("/etc/cloud/cloud.cfg.d/90-wrong.cfg", IMAGE);
    sandbox.boot();
    let warnings = sandbox.warnings();
    let failed = warnings.iter().filter(|line| line.contains("cloud-config failed schema validation!"));
    assert_eq!(failed.count(), 1, "{}", warnings.join("\n"));
    // The check of user-data warns in one sentence, and has the positions at a lower level.
    let log = sandbox.log();
    let logged: Vec<String> =
        log.lines().filter(|line| !line.contains("[DEBUG]")).map(String::from).collect();
    for key in [
        "growpart.mode: expected",
        "ntp.servers: expected",
        "ssh_deletekeys: expected",
        "write_files[0].append: expected",
        // The table accepts any text here, but the modules do not.
        "hostname: expected",
        "write_files[1].permissions: expected",
        "users[0].uid: expected",
        "users[0].sudo: expected",
    ] {
        assert_reported(&logged, "user-data", key);
    }
    for key in ["timezone: expected", "power_state.mode: expected"] {
        assert_reported(&warnings, "90-wrong.cfg", key);
    }
}

/// A value with a line break does not add an entry to the log, or a line to the output or the status.
#[test]
fn values_do_not_add_log_lines() {
    const FORGED: &str = "2001-01-01 00:00:00,000 - run.rs[ERROR]: forged";
    let user_data = format!(
        "#cloud-config\nusers: []\n\"x\\n{FORGED}\": 1\n\
         reporting: {{console: {{type: print}}}}\n\
         random_seed: {{command: [\"none\\n{FORGED}\"], command_required: true}}\n\
         write_files:\n- {{path: \"/opt/x\\n{FORGED}\", owner: nobodyx}}\n- {{path: /opt/y, owner: \"n\\r\\n{FORGED}\"}}\n"
    );
    let sandbox = Sandbox::with_user_data("forged", &user_data);
    let boot = sandbox.boot();
    let output = sandbox.file("/var/log/cloud-init-output.log").unwrap_or_default();
    let (log, status) = (sandbox.log(), sandbox.status());
    for (name, text, at_least) in
        [("log", &log, 1), ("output", &output, 0), ("console", &boot.output, 0), ("status", &status, 0)]
    {
        // Of the owner, which is named up to its colon.
        assert!(text.matches("2001-01-01 00").count() >= at_least, "{name}: {text}");
        let lines = text.split(['\n', '\r']);
        assert_eq!(lines.filter(|line| line.starts_with("2001-")).count(), 0, "{name}: {text}");
    }
    assert!(log.contains("write_files[0].path: expected a path without control characters"), "{log}");
    assert!(log.contains(r"no user named 'n\r\n2001-01-01 00'"), "{log}");
    assert!(sandbox.path("/opt/y").exists());
    let names = std::fs::read_dir(sandbox.path("/opt")).expect("its files").flatten();
    assert!(names.into_iter().all(|entry| !entry.file_name().to_string_lossy().contains('\n')));
}

/// All types of a handler are named, and a key of the image's log has its place.
#[test]
fn reporting_and_log_settings_of_user_data_are_explained() {
    let user_data =
        "#cloud-config\nusers: []\nreporting: {a: {type: bogus, endpoint: x}}\ndef_log_file_mode: 0600\n";
    let sandbox = Sandbox::with_user_data("explained", user_data);
    sandbox.boot();
    let log = sandbox.log();
    let types =
        "reporting.a.type: expected 'log', 'print', 'webhook', 'otlp' or 'hyperv', found another string";
    for part in [types, "def_log_file_mode: not a key of cloud-config; it belongs in /etc/cloud"] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

/// The lines before a tag and after it are counted, and unknown options of merging have no effect.
#[test]
fn findings_about_a_rendered_template_have_its_lines() {
    let user_data = "## template: jinja\n#cloud-config\n{% if true %}\nmerge_how: list(appendd)+dict()\n{% endif %}\n\
                     users: []\nhostnam: {{ v1.instance_id }}\ntimezone: Mars\n";
    let sandbox = Sandbox::with_user_data("template-lines", user_data);
    sandbox.boot();
    for wanted in [
        "user-data part-001:4:12: merge_how: unknown option; did you mean 'append'?",
        "user-data part-001:7:1: hostnam: unknown key; did you mean 'hostname'?",
        "user-data part-001:8:11: timezone: no zone of this name below /usr/share/zoneinfo",
    ] {
        assert!(sandbox.logged(&[wanted]), "{wanted}: {}", sandbox.log());
    }
}
