//! `cloud-init doctor` on broken machines: each finding has its place and a remedy, and nothing is changed.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::{Sandbox, binaries};

/// Runs `doctor` beside a machine. `before` is a shell line, in which `$root` is the machine's directory.
fn run(sandbox: &Sandbox, before: &str, words: &[&str]) -> (Option<i32>, String) {
    let shell = format!("root=$1; shift; {before}\nexec \"$@\"");
    let mut command = Command::new(tests::tests_dir().join("lib/sandbox"));
    command.arg(&sandbox.root).args(["bash", "-c", &shell, "doctor"]).arg(&sandbox.root);
    command.arg(binaries().join("cloud-init")).arg("--root").arg(&sandbox.root).arg("doctor").args(words);
    let done = command.output().unwrap_or_else(|e| tests::fail(&format!("cloud-init: {e}")));
    (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
}

fn page(sandbox: &Sandbox, before: &str) -> (Option<i32>, Value) {
    let (code, text) = run(sandbox, before, &["--format", "json"]);
    (code, serde_json::from_str(&text).unwrap_or_else(|e| tests::fail(&format!("{e}: {text}"))))
}

/// Asserts that the page has a finding with these texts, a severity and a remedy.
fn assert_found(page: &Value, severity: &str, place: &str, problem: &str) {
    let findings = page["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |finding: &Value, key: &str, part: &str| {
        finding[key].as_str().is_some_and(|text| text.contains(part))
    };
    let found = findings.iter().find(|f| has(f, "place", place) && has(f, "problem", problem));
    let found = found.unwrap_or_else(|| tests::fail(&format!("{place}: {problem} is not in {findings:#?}")));
    assert_eq!(found["severity"], severity, "{found}");
    assert!(found["remedy"].as_str().is_some_and(|text| !text.is_empty()), "{found}");
    assert_eq!(page["healthy"], false);
}

/// Returns path, size and time of change of every file of the machine's own directories.
fn inventory(top: &Path) -> BTreeSet<(String, u64, i64, i64)> {
    let mut found = BTreeSet::new();
    let mut todo: Vec<_> = ["etc", "home", "root", "run", "srv", "var"].iter().map(|d| top.join(d)).collect();
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let meta = entry.metadata().unwrap_or_else(|e| tests::fail(&e.to_string()));
            found.insert((entry.path().display().to_string(), meta.len(), meta.mtime(), meta.mtime_nsec()));
            if meta.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn healthy_machine() {
    let sandbox = Sandbox::new("doctor-healthy");
    assert!(sandbox.boot().succeeded());
    // The directories that the sandbox makes exist before the comparison.
    run(&sandbox, "", &[]);
    let before = inventory(&sandbox.root);
    let (code, page) = page(&sandbox, "");
    assert_eq!(
        (code, &page["findings"], &page["version"]),
        (Some(0), &serde_json::json!([]), &1.into()),
        "{page:#}"
    );
    let changed: Vec<_> = inventory(&sandbox.root).symmetric_difference(&before).cloned().collect();
    assert!(changed.is_empty(), "{changed:?}");
    let search = page["datasources"].to_string();
    assert!(search.contains(r#""answer":"answered","name":"NoCloud""#), "{search}");
    let (_, text) = run(&sandbox, "", &[]);
    for part in [
        "FINDINGS\n  none\n",
        "\nIDENTIFIED\n",
        "NoCloud answered",
        "users_groups",
        "\nWOULD RUN AT THE NEXT BOOT\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    // The keys of the metadata and the contents of secret files are not shown.
    assert!(!text.contains("AAAAC3NzaC1lZDI1NTE5"), "{text}");
    // The disk of a dead machine, by a relative path: there is no /run.
    std::fs::remove_dir_all(sandbox.root.join("run")).unwrap_or_else(|e| tests::fail(&e.to_string()));
    let done = Command::new(binaries().join("cloud-init"))
        .current_dir(sandbox.root.parent().unwrap_or(&sandbox.root))
        .args(["--root", "machine", "doctor", "--no-plan"])
        .output()
        .unwrap_or_else(|e| tests::fail(&e.to_string()));
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && text.contains("a disk does not keep /run"), "{text}");
}

/// A key with a typing error in a vendor part, and the user that was therefore not made.
#[test]
fn typo_in_vendor_part() {
    let sandbox = Sandbox::with_user_data("doctor-typo", "#cloud-config\nhostname: h\n");
    sandbox
        .seed("vendor-data", "#cloud-config\nusers:\n- default\n- nmae: bob\n- name: ann\n  shel: /bin/sh\n");
    sandbox.boot();
    let (code, page) = page(&sandbox, "");
    assert_eq!(code, Some(1));
    assert_found(
        &page,
        "error",
        "vendor-data part-001, line 4",
        "users[1].nmae: unknown key; did you mean 'name'?",
    );
    assert_found(
        &page,
        "error",
        "vendor-data part-001, line 6",
        "users[2].shel: unknown key; did you mean 'shell'?",
    );
}

/// The map form of `users`, which is deprecated: its typing errors, and its users that do not exist.
#[test]
fn typo_in_map_of_users() {
    let sandbox = Sandbox::with_user_data(
        "doctor-map",
        "#cloud-config\nusers:\n  default: true\n  ann:\n    shlel: /bin/sh\n  bob: true\n",
    );
    sandbox.boot();
    let (code, page) = page(&sandbox, "sed -i /^bob:/d $root/etc/passwd");
    assert_eq!(code, Some(1));
    assert_found(
        &page,
        "error",
        "user-data part-001, line 5",
        "users.ann.shlel: unknown key; did you mean 'shell'?",
    );
    assert_found(
        &page,
        "error",
        "user-data part-001, line 6",
        "user bob is configured and not in /etc/passwd",
    );
}

#[test]
fn missing_user() {
    let sandbox = Sandbox::new("doctor-user");
    sandbox.boot();
    let remove = "sed -i /^alice:/d $root/etc/passwd";
    let (code, page) = page(&sandbox, remove);
    assert_eq!(code, Some(1));
    assert_found(
        &page,
        "error",
        "user-data part-001, line 8",
        "user alice is configured and not in /etc/passwd",
    );
}

#[test]
fn full_disk_and_wrong_clock() {
    let sandbox = Sandbox::new("doctor-disk");
    sandbox.boot();
    let fill = "mount -t tmpfs -o size=8m none $root/tmp; head -c 9m /dev/zero >$root/tmp/full 2>/dev/null; \
                sed -i 's/^20[0-9][0-9]-[0-9][0-9]-/1970-01-/' $root/var/log/cloud-init.log";
    let (code, page) = page(&sandbox, fill);
    assert_eq!(code, Some(1));
    assert_found(&page, "error", "/tmp", "the file system is full");
    assert_found(&page, "error", "clock", "before 2024 when the last boot began");
}

#[test]
fn dead_datasource() {
    let sandbox = Sandbox::new("doctor-dead");
    let _ = std::fs::remove_dir_all(sandbox.path("/var/lib/cloud/seed/nocloud"));
    let config =
        "datasource_list: [NoCloud]\ndatasource: {NoCloud: {seedfrom: 'http://127.0.0.1:9/', timeout: 1}}\n";
    tests::write(&sandbox.path("/etc/cloud/cloud.cfg.d/99-dead.cfg"), config);
    sandbox.boot();
    let (code, page) = page(&sandbox, "");
    assert_eq!(code, Some(1));
    assert_found(&page, "warning", "init-network", "NoCloudNet did not answer");
    assert_found(&page, "warning", "init", "connecting to 127.0.0.1 port 9: Connection refused");
}

#[test]
fn torn_state() {
    let sandbox = Sandbox::new("doctor-torn");
    sandbox.boot();
    let tear = "printf '{\"v1\": {\"ini' >$root/var/lib/cloud/data/status.json; \
                ln -sfn /var/lib/cloud/instances/gone $root/var/lib/cloud/instance";
    let (code, page) = page(&sandbox, tear);
    assert_eq!(code, Some(1));
    assert_found(&page, "error", "/var/lib/cloud/data/status.json", "torn");
    assert_found(
        &page,
        "error",
        "/var/lib/cloud/instance",
        "points to /var/lib/cloud/instances/gone, which does not exist",
    );
}
