//! `make demo`, as root and as an unprivileged user: three boots, and what each repeats.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tests::{binaries, tests_dir};

/// The parts of the tree that the demonstration reads, where every user may read them.
fn public_copy(name: &str) -> PathBuf {
    let top = std::env::temp_dir().join(format!("firstlight-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&top);
    std::fs::create_dir_all(top.join("tmp")).expect("a directory for the copy");
    let copy = |from: &Path, to: &str| {
        let done = Command::new("cp").arg("-r").arg(from).arg(top.join(to)).status();
        assert!(done.is_ok_and(|s| s.success()), "copying {}", from.display());
    };
    std::fs::create_dir_all(top.join("tests")).expect("a directory for the copy");
    for part in ["demo", "demo.sh", "lib"] {
        copy(&tests_dir().join(part), &format!("tests/{part}"));
    }
    copy(&tests_dir().join("../packaging"), "packaging");
    copy(&binaries(), "bin");
    let open = Command::new("chmod").arg("-R").arg("a+rX").arg(&top).status();
    assert!(open.is_ok_and(|s| s.success()));
    let anyone = std::fs::Permissions::from_mode(0o1777);
    std::fs::set_permissions(top.join("tmp"), anyone).expect("make the directory world-writable");
    top
}

fn demo(name: &str, before: &[&str]) {
    let top = public_copy(name);
    let script = top.join("tests/demo.sh").display().to_string();
    let words: Vec<&str> = before.iter().copied().chain(["bash", &script]).collect();
    let done = Command::new(words[0])
        .args(&words[1..])
        .env("BIN", top.join("bin"))
        .env("TMPDIR", top.join("tmp"))
        .current_dir("/")
        .output()
        .expect("the demonstration starts");
    let stderr = String::from_utf8_lossy(&done.stderr);
    if stderr.contains("this host forbids user namespaces") {
        // It cannot run programs then and reports that; the test checks that the host cannot.
        let probe = Command::new("env").args(before).args(["unshare", "--user", "true"]).output();
        assert!(!probe.is_ok_and(|done| done.status.success()), "{stderr}");
    } else {
        check(&done);
    }
    let left: Vec<_> = std::fs::read_dir(top.join("tmp")).into_iter().flatten().flatten().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    std::fs::remove_dir_all(&top).expect("the copy can be removed");
}

fn check(done: &Output) {
    let text = String::from_utf8_lossy(&done.stdout);
    let everything = format!("{text}\n{}", String::from_utf8_lossy(&done.stderr));
    let parts: Vec<&str> = text.split("\nWhat the seed's scripts wrote\n").collect();
    assert_eq!(parts.len(), 4, "three boots expected\n{everything}");
    let diary = |n: usize| parts[n].lines().take_while(|l| !l.is_empty()).map(str::trim).collect::<Vec<_>>();
    let first = [
        "bootcmd, every boot",
        "per-boot script, every boot",
        "user script, once per instance",
        "runcmd, once per instance",
    ];
    assert_eq!(diary(1), first, "{everything}");
    assert_eq!(diary(2), &first[..2], "{everything}");
    assert_eq!(diary(3), first, "{everything}");
    for word in [
        "enabled:",
        "status: done",
        "errors: []",
        "/home/alice/.ssh/authorized_keys",
        "/etc/systemd/network/10-cloud-init-eth0.network",
    ] {
        assert!(parts[0].contains(word) || parts[1].contains(word), "no {word}\n{everything}");
    }
    let again = parts[1].split("Second boot").nth(1).unwrap_or_default();
    assert!(again.contains("Not again:") && again.contains("users_groups"), "{everything}");
    assert!(
        text.contains("instances: i-demo-0001 i-demo-0002; current: /var/lib/cloud/instances/i-demo-0002")
    );
    assert!(done.status.success(), "{}\n{everything}", done.status);
}

#[test]
fn demo_runs_as_the_current_user() {
    demo("demo", &[]);
}

#[test]
fn demo_runs_without_privileges() {
    let done = Command::new("id").arg("-u").output().expect("id runs");
    if String::from_utf8_lossy(&done.stdout).trim() == "0" {
        demo("demo-user", &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    } else {
        demo("demo-user", &[]);
    }
}
