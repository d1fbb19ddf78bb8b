//! Output and exit codes of `query` on a prepared machine, as root and as another user, as recorded of Debian's cloud-init
//! 26.2 (`query/record`), or a difference with its reason.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use scratch::TempDir;

/// The case, with the reason for the difference.
const DIFFERENCES: &[(&str, &str)] = &[
    ("v1.public_ssh_keys.0", "an item of a list by its number"),
    ("ds.list.1", "likewise"),
    ("ds.list.2.three", "likewise"),
    ("-u /binary userdata", "binary data as base64, where upstream ends in an error; only root may read it"),
    ("-v /binary vendordata", "likewise"),
    ("-u /binary -v /nowhere -l", "likewise"),
];

/// A user without privileges.
const OTHER: u32 = 65534;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

#[test]
fn output_matches_upstream_as_root() {
    if scratch::is_root("output_matches_upstream_as_root") {
        compare_outputs(0);
    }
}

#[test]
fn output_matches_upstream_as_other_user() {
    compare_outputs(OTHER);
}

/// Compares the output of each case for this user.
fn compare_outputs(user: u32) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/query");
    let dir = TempDir::new();
    let machine = dir.join("machine");
    copy(&here.join("machine"), &machine);
    // A directory from which the other user may run it.
    let program = dir.join("cloud-init");
    scratch::copy_program(env!("CARGO_BIN_EXE_cloud-init"), &program);
    fs::set_permissions(&*dir, fs::Permissions::from_mode(0o755)).unwrap();
    for secret in [
        "run/cloud-init/instance-data-sensitive.json",
        "run/cloud-init/combined-cloud-config.json",
        "var/lib/cloud/instance/user-data.txt",
        "var/lib/cloud/instance/vendor-data.txt",
    ] {
        fs::set_permissions(machine.join(secret), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let recorded: Vec<(i32, String)> =
        serde_json::from_str(&fs::read_to_string(here.join("recorded.json")).unwrap()).unwrap();
    let cases = fs::read_to_string(here.join("cases")).unwrap();
    assert_eq!(cases.lines().count() * 2, recorded.len(), "run query/record");
    let is_root = nix::unistd::geteuid().is_root();
    let mut wrong = Vec::new();
    for (i, case) in cases.lines().enumerate() {
        let theirs = &recorded[if user == 0 { 2 * i } else { 2 * i + 1 }];
        let mut command = Command::new(&program);
        command.arg("--root").arg(&machine).arg("query").args(case.split_whitespace());
        if is_root {
            command.uid(user).gid(user);
        }
        let done = command.current_dir(&*dir).output().unwrap();
        let ours = (done.status.code().unwrap(), String::from_utf8_lossy(&done.stdout).into_owned());
        // The help differs from upstream.
        let same = ours.0 == theirs.0 && (ours.1 == theirs.1 || theirs.1.starts_with("usage:"));
        let differs = DIFFERENCES.iter().any(|(differing, _)| *differing == case);
        let known = differs && (user == 0 || !case.contains("/binary"));
        if same == known {
            let stderr = String::from_utf8_lossy(&done.stderr);
            wrong.push(format!("{case} (user {user}): {ours:?} {stderr}\n    upstream {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
