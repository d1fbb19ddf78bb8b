//! `collect-logs` on a prepared machine, as root: the contents and the permissions of the archive, which tar(1) reads.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

mod common;

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use common::{CommandResult, Machine, run_to_end};

const SECRET: &str = "the secret";

/// Creates a machine with secret and public files, links in and out, a FIFO, and a name that is too long for a header.
fn machine() -> Machine {
    let machine = Machine::new();
    for path in [
        "etc/cloud/cloud.cfg.d/10.cfg",
        "etc/cloud/keys/k",
        "etc/cloud/templates/t",
        "var/lib/cloud/data/instance-id",
        "var/lib/cloud/data/below/x",
        "var/lib/cloud/seed/nocloud/meta-data",
        "var/lib/cloud/sem/s",
        "var/log/cloud-init.log.1",
        "var/log/other.log",
        "var/log/installer/curtin-install/a.conf",
        "run/cloud-init/status.json",
    ] {
        machine.put(path, path);
    }
    machine.put("etc/cloud/cloud.cfg", "output: {all: '| tee -a /var/log/out.log'}\n");
    machine.put(&long(), "long");
    for path in [
        "var/lib/cloud/instances/i/user-data.txt",
        "run/cloud-init/instance-data-sensitive.json",
        "var/log/cloud-init.log",
        "var/log/out.log",
        "etc/shadow",
        "autoinstall.yaml",
    ] {
        machine.put(path, SECRET);
        std::fs::set_permissions(machine.root.join(path), PermissionsExt::from_mode(0o600)).unwrap();
    }
    symlink("instances/i", machine.root.join("var/lib/cloud/instance")).unwrap();
    symlink("/etc/shadow", machine.root.join("etc/cloud/out")).unwrap();
    symlink("/etc", machine.root.join("etc/cloud/out-dir")).unwrap();
    symlink("cloud.cfg", machine.root.join("etc/cloud/in")).unwrap();
    symlink("/etc/shadow", machine.root.join("var/log/cloud-init.log.2")).unwrap();
    assert!(Command::new("mkfifo").arg(machine.root.join("run/cloud-init/fifo")).status().unwrap().success());
    machine
}

fn long() -> String {
    format!("etc/cloud/{}/{}", "d".repeat(90), "f".repeat(60))
}

fn collect(machine: &Machine, out: &Machine, words: &[&str]) -> CommandResult {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-init"));
    command.arg("--root").arg(&*machine.root).arg("collect-logs").args(words);
    run_to_end(command.current_dir(&out.root))
}

/// Returns path → content, or the target of a link.
fn unpack(out: &Machine, archive: &str) -> BTreeMap<String, String> {
    let into = Machine::new();
    let mut tar = Command::new("tar");
    tar.arg("xzf").arg(out.root.join(archive)).arg("-C").arg(&*into.root);
    assert_eq!(run_to_end(&mut tar), (0, String::new(), String::new()));
    let names = run_to_end(Command::new("tar").arg("tzf").arg(out.root.join(archive))).1;
    assert!(
        names.lines().all(|name| !name.ends_with('/') && !name.split('/').any(|part| part == "..")),
        "{names}"
    );
    let tops: Vec<_> = std::fs::read_dir(&into.root).unwrap().flatten().collect();
    assert_eq!(tops.len(), 1);
    let name = tops[0].file_name().into_string().unwrap();
    assert!(
        name.starts_with("cloud-init-logs-2") && name.len() == "cloud-init-logs-2031-03-04".len(),
        "{name}"
    );
    let mut found = BTreeMap::new();
    let mut directories = vec![tops[0].path()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(tops[0].path()).unwrap().display().to_string();
            if path.is_symlink() {
                found.insert(name, format!("-> {}", path.read_link().unwrap().display()));
            } else if path.is_dir() {
                directories.push(path);
            } else {
                found.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn archive_has_logs_and_configuration() {
    let (machine, out) = (machine(), Machine::new());
    let (code, printed, stderr) = collect(&machine, &out, &[]);
    assert_eq!((code, printed.as_str()), (0, ""), "{stderr}");
    // The configuration of the fixture has an invalid file.
    assert!(stderr.contains("/etc/cloud/cloud.cfg.d/10.cfg:1:1: ignored"), "{stderr}");
    assert!(stderr.contains("/run/cloud-init/fifo: not a regular file"), "{stderr}");
    assert!(stderr.contains("\nWrote ") && stderr.contains("\nWARNING:\n"), "{stderr}");
    let archive = out.root.join("cloud-init.tar.gz");
    assert_eq!(archive.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(std::fs::read_dir(&out.root).unwrap().count(), 1);
    let found = unpack(&out, "cloud-init.tar.gz");
    let wanted = [
        "autoinstall.yaml",
        "dmesg.txt",
        "doctor.txt",
        "dpkg-version",
        "etc/cloud/cloud.cfg",
        "etc/cloud/cloud.cfg.d/10.cfg",
        &long(),
        "etc/cloud/in",
        "etc/cloud/out",
        "etc/cloud/out-dir",
        "journal-previous.txt",
        "journal-units.txt",
        "journal.txt",
        "networkctl.txt",
        "report.html",
        "run/cloud-init/instance-data-sensitive.json",
        "run/cloud-init/status.json",
        "var/lib/cloud/data/instance-id",
        "var/lib/cloud/instance/user-data.txt",
        "var/log/cloud-init.log",
        "var/log/cloud-init.log.1",
        "var/log/cloud-init.log.2",
        "var/log/installer/curtin-install/a.conf",
        "var/log/out.log",
        "version",
    ];
    assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), wanted);
    for (path, content) in [
        ("etc/cloud/in", "output: {all: '| tee -a /var/log/out.log'}\n"),
        ("etc/cloud/out", "-> /etc/shadow"),
        ("etc/cloud/out-dir", "-> /etc"),
        ("var/log/cloud-init.log.2", "-> /etc/shadow"),
        (&long(), "long"),
        ("var/lib/cloud/instance/user-data.txt", SECRET),
        ("var/log/out.log", SECRET),
        // None of the programs exists on this machine.
        ("journal.txt", "running journalctl --boot=0 -o short-precise: journalctl: not found\n"),
    ] {
        assert_eq!(found[path], content, "{path}");
    }
    assert!(
        found["version"].ends_with(&format!("cloud-init 26.2 (Firstlight {})\n", env!("CARGO_PKG_VERSION")))
    );
}

#[test]
fn redacted_archive_has_no_secrets() {
    let (machine, out) = (machine(), Machine::new());
    // Its mode does not say that it has secrets.
    machine.put("etc/cloud/cloud.cfg.d/99-installer.cfg", &format!("# {SECRET}\n"));
    let (code, _, stderr) = collect(&machine, &out, &["-rvu", "--tarfile=x.tgz"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("--include-userdata is deprecated and does nothing"), "{stderr}");
    assert!(
        stderr.contains("/var/lib/cloud/instance/user-data.txt skipped: it may contain secrets\n"),
        "{stderr}"
    );
    assert!(
        stderr.contains("collected /etc/cloud/cloud.cfg\n") && !stderr.contains("\nWARNING:\n"),
        "{stderr}"
    );
    assert!(
        stderr.ends_with("what scripts of user-data printed. Review it before you share it.\n"),
        "{stderr}"
    );
    let found = unpack(&out, "x.tgz");
    let secret: Vec<_> =
        found.iter().filter(|(_, content)| content.contains(SECRET)).map(|(path, _)| path).collect();
    assert!(!found.contains_key("etc/cloud/cloud.cfg.d/99-installer.cfg"));
    // Logs are never redacted.
    assert_eq!(secret, ["var/log/cloud-init.log", "var/log/out.log"]);
    assert!(!found.contains_key("dmesg.txt") && !found.contains_key("autoinstall.yaml"));
    assert!(found.contains_key("journal.txt") && found.contains_key("run/cloud-init/status.json"));
}

#[test]
fn names_of_files_do_not_reach_the_terminal_unescaped() {
    let (machine, out) = (machine(), Machine::new());
    machine.put("var/lib/cloud/seed/a\nWrote b\u{1b}]0;c\u{7}\u{9b}\u{202e}", "");
    let (code, _, stderr) = collect(&machine, &out, &["-v"]);
    assert_eq!(code, 0, "{stderr}");
    let name = "collected /var/lib/cloud/seed/a\\nWrote b\\u{1b}]0;c\\u{7}\\u{9b}\\u{202e}\n";
    assert!(stderr.contains(name), "{stderr}");
}

#[test]
fn refuses_unsafe_output_paths() {
    let (machine, out) = (machine(), Machine::new());
    out.put("kept", "kept");
    symlink("kept", out.root.join("link")).unwrap();
    for (to, reason) in [
        ("nowhere/x", "the directory does not exist"),
        (".", "expected a regular file, found"),
        ("link", "expected a regular file, found"),
        ("/dev/null", "expected a regular file, found"),
    ] {
        let (code, _, err) = collect(&machine, &out, &["-t", to]);
        assert!(code == 1 && err.contains("\nError: writing ") && err.contains(reason), "{to}: {err}");
    }
    assert_eq!(std::fs::read_to_string(out.root.join("kept")).unwrap(), "kept");
    assert_eq!(collect(&machine, &out, &["-t"]).0, 2);
    assert_eq!(collect(&machine, &out, &["more"]).0, 2);
    // An existing archive is replaced and readable by its owner only.
    out.put("old", "old");
    assert_eq!(collect(&machine, &out, &["-t", "old"]).0, 0);
    assert_eq!(out.root.join("old").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(unpack(&out, "old").len() > 10);
}

/// The archive is owned by the user who called sudo; invalid ids are ignored.
#[test]
fn archive_belongs_to_the_sudo_caller() {
    use std::os::unix::fs::MetadataExt;
    let (machine, out) = (machine(), Machine::new());
    let own = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    for (user, group, owner) in [
        (Some("1234"), Some("5678"), (1234, 5678)),
        (Some("1234"), None, (0, 0)),
        (Some("x"), Some("5"), (0, 0)),
        (Some("-1"), Some("5"), (0, 0)),
        (Some("4294967295"), Some("5"), (0, 0)),
        (None, None, (0, 0)),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-init"));
        command.arg("--root").arg(&*machine.root).args(["collect-logs", "-t", "a.tgz"]);
        command.env_remove("SUDO_UID").env_remove("SUDO_GID").current_dir(&out.root);
        for (name, value) in [("SUDO_UID", user), ("SUDO_GID", group)] {
            value.map(|value| command.env(name, value));
        }
        assert_eq!(run_to_end(&mut command).0, 0);
        // Only root may change the owner.
        let owner = if own.0 == 0 { owner } else { own };
        let meta = out.root.join("a.tgz").metadata().unwrap();
        assert_eq!(((meta.uid(), meta.gid()), meta.mode() & 0o7777), (owner, 0o600), "{user:?} {group:?}");
    }
}
