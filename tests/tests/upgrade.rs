//! A machine that was set up by Debian's Python cloud-init and then gets this package: nothing runs again.
//! The next boot changes no file outside /run, logs and status, by content, mode and owner.

use std::collections::BTreeMap;

use tests::{Machine, binaries, testing_upstream};

/// Files that any boot of this machine changes, with any cloud-init: logs, the record of this boot, and files to which
/// the seed's per-boot scripts append.
const EVERY_BOOT: &[&str] = &[
    "run/",
    "var/log/",
    "var/lib/cloud/data/status.json",
    "var/lib/cloud/data/result.json",
    "var/lib/cloud/instances/i-first-0001/boot-finished",
    "srv/test/bootcmd",
    "srv/test/boothook",
    "srv/test/per-boot-script",
    "var/lib/systemd/",
];

/// The cache of the datasource, which Python rewrites at each boot. The pickle is not changed.
const CACHE: &[&str] = &["var/lib/cloud/instances/i-first-0001/obj.pkl"];

fn by_path(list: Vec<String>) -> BTreeMap<String, String> {
    // "kind mode owner sum path"; a path may have blanks.
    let split = |line: String| {
        let mut parts = line.splitn(5, ' ');
        let facts: Vec<&str> = parts.by_ref().take(4).collect();
        Some((parts.next()?.to_string(), facts.join(" ")))
    };
    list.into_iter().filter_map(split).collect()
}

#[test]
fn upgrade_from_debian_cloud_init_changes_nothing() {
    let machine = Machine::with_upstream("upgrade");
    machine.seed("typical");
    let first = machine.boot();
    assert_eq!(first.text("state"), "running", "{}", first.diagnostics());
    if !testing_upstream() {
        // The program alone says before what follows.
        let alone = machine.scratch("alone");
        std::fs::copy(binaries().join("cloud-init"), alone.join("cloud-init")).expect("a copy");
        machine.put(&alone, "/opt");
        let page = machine.run(&["/opt/cloud-init", "doctor", "--switch"]);
        for part in ["set up the instance i-first-0001\n", "FINDINGS\n  none\n", "WOULD RUN AGAIN\n  nothing"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        machine.install();
    }
    let before = by_path(machine.list());
    let second = machine.boot();
    let after = by_path(machine.list());
    assert_eq!(second.text("status-code"), "0", "{}", second.diagnostics());
    assert_eq!(second.text("state"), "running", "{}", second.diagnostics());
    assert_eq!(second.text("cloud-id"), "nocloud");
    if !testing_upstream() {
        assert_ne!(second.text("version"), first.text("version"), "the packages were not changed");
    }
    tests::second_boot(&second, &first, "i-first-0001", "nocloud");

    let cache: &[&str] = if testing_upstream() { CACHE } else { &[] };
    let mut changes = Vec::new();
    for path in before.keys().chain(after.keys().filter(|p| !before.contains_key(*p))) {
        if before.get(path) == after.get(path) || EVERY_BOOT.iter().chain(cache).any(|p| path.starts_with(p))
        {
            continue;
        }
        let side =
            |map: &BTreeMap<String, String>| map.get(path).cloned().unwrap_or_else(|| "nothing".into());
        changes.push(format!("/{path}: {} -> {}", side(&before), side(&after)));
    }
    assert!(changes.is_empty(), "the boot after the change of packages changed\n{}", changes.join("\n"));
}
