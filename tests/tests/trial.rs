//! `cloud-init try`: a throwaway container above a root, of which nothing remains.

use std::path::Path;
use std::process::Command;

use tests::{Machine, Page, binaries, write};

/// Mounts the machine as a root for `--root`, in a mount namespace that ends with the command.
const MOUNT: &str = r#"machine=$1; shift
mkdir -p "$machine/root.of.try"
mount -t overlay overlay -o "lowerdir=$machine/upper:$(cat "$machine/root")" "$machine/root.of.try"
"#;

fn run(directory: &Path, script: &str, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-euc"]).arg([MOUNT, script].concat());
    let done = command.arg("sh").arg(directory).args(words).env("BIN", binaries()).output();
    let done = done.expect("unshare");
    let text = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn attempt(directory: &Path, words: &[&str]) -> (Option<i32>, String) {
    run(directory, "exec \"$BIN/cloud-init\" try \"$@\" --root \"$machine/root.of.try\"", words)
}

/// Runs the commands of "Test user-data" that look at what `--keep` has kept.
fn look(directory: &Path, kept: &Path) -> (Option<i32>, String) {
    let block = Page::read("docs/how-to/user-data.md").blocks().into_iter().find(|block| block.is("trial"));
    let commands = block.expect("a block `sh trial`").text.replace("ROOT", "$machine/root.of.try");
    let commands = commands.replace("DIR", &kept.display().to_string());
    run(directory, &format!("PATH=$BIN:$PATH\n{commands}"), &[])
}

#[test]
#[ignore = "boots two containers: make slow"]
fn a_trial_boots_and_leaves_nothing() {
    let machine = Machine::new("trial");
    let scratch = machine.scratch("files");
    let directory = scratch.parent().unwrap();
    let before = machine.list();
    let (good, kept) = (scratch.join("good.yaml"), scratch.join("kept"));
    write(
        &good,
        "#cloud-config\nwrite_files: [{path: /etc/hello, content: hi}]\nruncmd: [ip -4 addr show eth0 >/etc/address]\n",
    );
    let (code, text) = attempt(directory, &[good.to_str().unwrap(), "--keep", kept.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("  /etc/hello\n") && text.contains("status: done") && text.contains("\nFINDINGS"),
        "{text}"
    );
    let file = |name: &str| std::fs::read_to_string(kept.join("upper/etc").join(name)).unwrap_or_default();
    assert_eq!(file("hello"), "hi", "{text}");
    assert!(text.starts_with("network: "), "{text}");
    if !text.contains("network: none") {
        assert!(file("address").contains("inet 192.0.2."), "{text}");
    }
    assert!(!kept.join("upper/etc/systemd/system/cloud-init-try.service").exists());
    let (code, text) = look(directory, &kept);
    assert!(
        code == Some(1) && text.contains("a disk does not keep /run") && text.contains(", runcmd,"),
        "{code:?} {text}"
    );
    // Two parts, one of which fails.
    let (script, second) = (scratch.join("fail.sh"), scratch.join("second.yaml"));
    write(&script, "#!/bin/sh\nexit 3\n");
    write(
        &second,
        "#cloud-config\nhostname: tried\nnme: a\nruncmd: ['getent hosts a.example.test || echo \"Could not resolve a.example.test\"; exit 1']\n",
    );
    let (code, text) = attempt(directory, &[script.to_str().unwrap(), second.to_str().unwrap()]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("fail.sh") && text.contains("  /etc/hostname\n"), "{text}");
    // The container's lack of a network is not a fault of the root.
    assert!(text.contains("correct the user-data, and try it again"), "{text}");
    assert!(!text.contains("/etc/resolv.conf") && !text.contains("reboot"), "{text}");
    assert_eq!(machine.list(), before);
    let (code, text) = attempt(directory, &["/nonexistent"]);
    assert!(code == Some(1) && text.starts_with("error: ") && text.lines().count() == 1, "{text}");
}

#[test]
fn a_root_with_pythons_cloud_init_is_refused_at_once() {
    let sandbox = tests::Sandbox::new("trial-python");
    sandbox.put("/usr/bin/cloud-init", "#!/usr/bin/python3\n");
    let mut command = Command::new(binaries().join("cloud-init"));
    let done = command.arg("--root").arg(&sandbox.root).args(["try", "user-data"]).output().expect("try");
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(text.contains("has Python's cloud-init; name a root") && text.lines().count() == 1, "{text}");
}

/// Links that the container leaves, in the upper layer and among what is reported, are followed neither to read nor to delete.
#[test]
#[ignore = "boots a container: make slow"]
fn planted_links_are_not_followed() {
    let machine = Machine::new("trial-links");
    let scratch = machine.scratch("files");
    let (plant, kept, outside) = (scratch.join("plant.yaml"), scratch.join("kept"), scratch.join("outside"));
    let of_host = outside.join("zz-try.cfg");
    write(&of_host, "of the host\n");
    let commands = [
        format!("ln -sf {} /run/try/doctor", of_host.display()),
        format!("ln -sf {} /run/try/status", of_host.display()),
        format!(
            "mv /etc/cloud/cloud.cfg.d /etc/cloud/moved; ln -s {} /etc/cloud/cloud.cfg.d",
            outside.display()
        ),
    ];
    write(&plant, format!("#cloud-config\nruncmd:\n- {}\n", commands.join("\n- ")));
    let words = [plant.to_str().unwrap(), "--keep", kept.to_str().unwrap()];
    let (code, text) = attempt(scratch.parent().unwrap(), &words);
    assert!(code == Some(1) && text.contains("The boot did not complete"), "{text}");
    assert!(!text.contains("of the host"), "{text}");
    assert_eq!(std::fs::read_to_string(&of_host).unwrap_or_default(), "of the host\n");
    assert_eq!(std::fs::read_link(kept.join("upper/etc/cloud/cloud.cfg.d")).ok(), Some(outside));
}
