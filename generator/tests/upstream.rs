//! The same machines, identified by the ds-identify of Debian's cloud-init package, in several suites: equal, or listed in
//! DIFFERENCES (`differs` of a case), or not supported by an older version (`newer`). Older
//! suites than sid with `FIRSTLIGHT_EXHAUSTIVE`.

// Helpers of tests fail by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod cases;
mod sandbox;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cases::machine::{Machine, all};
use cases::{all_cases, matrix, table};

/// Upstream runs this program if the manager does not set the virtualization (before 23.1 always).
const DETECT: &str =
    "#!/bin/sh\nkind=${SYSTEMD_VIRTUALIZATION#*:}\necho ${kind:=none}\n[ \"$kind\" != none ]\n";

/// Upstream's presets of uname's fields do not affect its checks; this program does.
const UNAME: &str = "#!/bin/sh\n/usr/bin/uname \"$@\" | sed \"s/$(/usr/bin/uname -m)/${MACHINE:-x86_64}/\"\n";

/// Before 23.1 upstream has no preset for the output of blkid.
const BLKID: &str = "#!/bin/sh\n. @ROOT@/presets\necho \"$DI_BLKID_EXPORT_OUT\"\n";

/// Rules that are newer than bookworm's 22.4, by parts of the cases' names, with the change.
#[rustfmt::skip]
const SINCE_BOOKWORM: [(&str, &str); 16] = [
    ("alone", "None is not appended to a list with a single name"),
    ("the last file wins", "likewise"),
    ("a list at depth", "likewise"),
    ("a list on the command line", "likewise"),
    ("named on the command line", "a name on the command line keeps its spelling"),
    ("named in a container", "likewise"),
    ("taken back on the command line", "an empty name selects no datasource"),
    ("off by ", "ds-identify itself reads what disables cloud-init"),
    ("off in a container", "likewise"),
    ("seedfrom", "NoCloud in the configuration"),
    ("user-data:", "likewise"),
    ("product_uuid", "EC2's UUID matches in upper case, without Xen and with swapped bytes"),
    ("dmidecode by its uuid", "likewise"),
    ("Samsung Cloud Platform", "recognised as OpenStack"),
    ("elsewhere, by default", "cloud-init is disabled on machines without DMI too"),
    ("vmware", "VMware is queried in another way, and OVF is recognised by its disc only"),
];

/// Returns the ds-identify of a suite, from its package.
fn fetch(suite: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fetch");
    let done = Command::new(script).arg(suite).stdin(Stdio::null()).output().unwrap();
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "nothing to compare with: {}", why.trim());
    String::from_utf8(done.stdout).unwrap().trim().into()
}

/// Runs it on all machines; returns how many were compared, and those that differ.
fn compare(suite: &str, program: &Path, number_from: usize) -> (usize, Vec<String>) {
    let text = std::fs::read_to_string(program).unwrap();
    let mut machines: Vec<Machine> = all_cases().map(Machine::from).collect();
    machines.extend(matrix::machines(true));
    machines.extend(table::machines());
    machines.retain(|machine| machine.differs.is_none() && text.contains(&machine.newer));
    if suite == "bookworm" {
        let is_newer = |name: &str| SINCE_BOOKWORM.iter().any(|(words, _)| name.contains(words));
        machines.retain(|machine| !is_newer(&machine.name));
    }
    for machine in &mut machines {
        machine.files.push(("/bin/uname".into(), UNAME.into()));
        machine.files.push(("/bin/systemd-detect-virt".into(), DETECT.into()));
        machine.files.push(("/bin/blkid".into(), BLKID.into()));
    }
    let wrong = all(&machines, |machine, number| {
        let sandbox = machine.build(&format!("upstream{}", number_from + number));
        let (result, log) = machine.identify(&sandbox, program);
        if result == machine.expected() {
            return Ok(());
        }
        Err(format!("{:?}: upstream: {result:?}\nours: {:?}\n{log}", machine.name, machine.expected()))
    });
    (machines.len(), wrong)
}

#[test]
fn same_verdict_as_upstream() {
    let is_exhaustive = std::env::var_os("FIRSTLIGHT_EXHAUSTIVE").is_some();
    let suites: &[&str] = if is_exhaustive { &["bookworm", "trixie", "sid"] } else { &["sid"] };
    for (at, suite) in suites.iter().enumerate() {
        let (compared, wrong) = compare(suite, &fetch(suite), at * 100_000);
        assert!(wrong.is_empty(), "{suite}: {} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
        assert!(compared > 350, "{suite}: only {compared} were compared");
        println!("{suite}: {compared} compared");
    }
}
