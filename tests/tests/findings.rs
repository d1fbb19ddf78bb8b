//! A configuration error is reported once in a boot: by validation for user-data, and by the module that reads it for the
//! image's configuration.

use tests::Sandbox;

const USER_DATA: &str = "#cloud-config
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
fn assert_reported(complaints: &[String], place: &str, text: &str) {
    let about: Vec<&String> = complaints.iter().filter(|line| line.contains(text)).collect();
    assert_eq!(about.len(), 1, "{text}: {}", complaints.join("\n"));
    assert!(about[0].contains(place), "{}", about[0]);
}

#[test]
fn each_finding_is_reported_once() {
    let sandbox = Sandbox::with_user_data("findings", USER_DATA);
    std::fs::write(sandbox.path("/etc/cloud/cloud.cfg.d/90-wrong.cfg"), IMAGE).expect("a file of the image");
    sandbox.boot();
    let complaints = sandbox.warnings();
    let failed = complaints.iter().filter(|line| line.contains("cloud-config failed schema validation!"));
    assert_eq!(failed.count(), 1, "{}", complaints.join("\n"));
    // The check of user-data warns in one sentence, and has the positions at a lower level.
    let log = sandbox.log();
    let told: Vec<String> = log.lines().filter(|line| !line.contains("[DEBUG]")).map(String::from).collect();
    for key in [
        "growpart.mode: expected",
        "ntp.servers: expected",
        "ssh_deletekeys: expected",
        "write_files[0].append: expected",
        // The table accepts any text here, but the module does not.
        "write_files[1].permissions: expected",
        "users[0].uid: expected",
        "users[0].sudo: expected",
    ] {
        assert_reported(&told, "user-data", key);
    }
    for key in ["timezone: expected", "power_state.mode: expected"] {
        assert_reported(&complaints, "90-wrong.cfg", key);
    }
}
