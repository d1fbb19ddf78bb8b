//! The same machines, judged by the ds-identify of Debian's packaged cloud-init, in several suites: equal, or
//! named in DIFFERENCES (a case's `differs`) or unknown to an older one (`newer`).
//! FIRSTLIGHT_UPSTREAM_SUITES names other suites.

// Helpers of tests fail by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod cases;
mod sandbox;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cases::machine::{Machine, all};
use cases::{CASES, FIRMWARE, matrix};

/// Without the manager's word it asks this program (before 23.1 always).
const DETECT: &str = "#!/bin/sh\nkind=${SYSTEMD_VIRTUALIZATION#*:}\necho $kind\n[ \"$kind\" != none ]\n";

/// Its presets of the kernel's names do not reach its checks; this program does.
const UNAME: &str = "#!/bin/sh\n/usr/bin/uname \"$@\" | sed \"s/$(/usr/bin/uname -m)/${MACHINE:-x86_64}/\"\n";

/// That suite's ds-identify, from its package.
fn fetch(suite: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fetch");
    let done = Command::new(script).arg(suite).stdin(Stdio::null()).output().unwrap();
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "nothing to compare with: {}", why.trim());
    String::from_utf8(done.stdout).unwrap().trim().into()
}

/// Runs all machines through it; returns how many were compared, and those that differ.
fn compare(program: &Path, number_from: usize) -> (usize, Vec<String>) {
    let text = std::fs::read_to_string(program).unwrap();
    let mut machines: Vec<Machine> = CASES.iter().chain(FIRMWARE).map(Machine::from).collect();
    machines.extend(matrix::machines(true));
    machines.retain(|machine| machine.differs.is_none() && text.contains(&machine.newer));
    for machine in &mut machines {
        machine.files.push(("/bin/uname".into(), UNAME.into()));
        machine.files.push(("/bin/systemd-detect-virt".into(), DETECT.into()));
    }
    let wrong = all(&machines, |machine, number| {
        let sandbox = machine.build(&format!("upstream{}", number_from + number));
        let (said, log) = machine.ask(&sandbox, program);
        if said == machine.expected() {
            return Ok(());
        }
        Err(format!("{}: upstream says {said:?}\nwe say {:?}\n{log}", machine.name, machine.expected()))
    });
    (machines.len(), wrong)
}

#[test]
fn as_upstream() {
    let suites = std::env::var("FIRSTLIGHT_UPSTREAM_SUITES").unwrap_or_else(|_| "trixie sid".into());
    for (at, suite) in suites.split_whitespace().enumerate() {
        let (compared, wrong) = compare(&fetch(suite), at * 100_000);
        assert!(wrong.is_empty(), "{suite}: {} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
        assert!(compared > 350, "{suite}: only {compared} were compared");
        println!("{suite}: {compared} compared");
    }
}
