//! The examples of docs/ do what they show: each is applied in the machine of a case of `tests/modules`, which has stand-ins for the
//! programs that it needs. No warning is logged, and the module runs a command or changes a file.

use std::collections::BTreeSet;

use tests::{CaseMachines, EXAMPLE_MACHINES, fail, not_tried, tests_dir};

/// Examples whose machine is not that of their module in `EXAMPLE_MACHINES`: the case, and programs that it does not have.
const APPLIED: &[(&str, &str, &str)] = &[
    (
        "ansible",
        "ansible/user",
        "python3\nsu case \"$4\" in *'pip list'*) echo ansible-core ;; *--version*) echo 'ansible-pull [core 2.19.1]' ;; esac",
    ),
    ("bootcmd", "bootcmd/commands", "touch"),
    ("chef-gems", "chef/gems", ""),
    ("disable_ec2_metadata", "disable_ec2_metadata/off", ""),
    ("grub_dpkg", "grub_dpkg/disabled", ""),
    ("lxd-preseed", "lxd/bridge", ""),
    ("package_update_upgrade_install", "package_update_upgrade_install/managers-debian", PACKAGES),
    ("rh_subscription", "rh_subscription/all", SUBSCRIPTIONS),
    ("rh_subscription-user", "rh_subscription/user", ""),
    ("rsyslog", "rsyslog/install", PACKAGES),
    ("scripts_user", "scripts_user/runcmd", ""),
    ("scripts_vendor", "scripts_vendor/script", "nice shift 2; exec \"$@\""),
    ("seed_random", "seed_random/data", "dd"),
    ("users_groups-default", "users_groups/default-and-user", ""),
];

/// What a package manager's index has.
const PACKAGES: &str = r#"apt-cache [ "$1" != pkgnames ] || printf "%s\n" libpq5 nginx postgresql rsyslog"#;
/// Red Hat's service with the pool and the repositories of the example.
const SUBSCRIPTIONS: &str = r#"subscription-manager case "$1 $2" in identity*) exit 1 ;; register*) echo The system has been registered with ID: 12ab ;; "list --available") echo 1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a ;; "repos --list-enabled") echo Repo ID: rhel-9-for-x86_64-supplementary-rpms ;; "repos --list-disabled") echo Repo ID: codeready-builder-for-rhel-9-x86_64-rpms ;; esac"#;

/// Examples that are planned only (`documentation.rs`), with the reason.
const NOT_APPLIED: &[(&str, &str)] = &[
    ("apt_configure", "asks mirrors and a key server; tests/tests/apt.rs has its own"),
    ("base", "belongs to no module, and sends reports to a server; see tests/tests/reporting.rs"),
    ("base-image", "belongs to no module: it is part of an image"),
    ("base-merge", "belongs to no module: it is for the second of several machines"),
    ("disk_setup", "formats disks; make devices"),
    ("growpart", "grows partitions; make devices"),
    ("keys_to_console", "disables what the module does"),
    ("keys_to_console-some", "the module writes to the console only"),
    ("mounts", "makes a swap file of the size of the memory; tests/modules/mounts has small ones"),
    ("phone_home", "sends data to a server; see tests/modules/phone_home"),
    ("power_state_change", "its condition is false in these machines; see tests/modules/power_state_change"),
    ("puppet", "downloads an installer; see tests/modules/puppet"),
    ("raspberry_pi", "reboots the machine before the module ends; see tests/modules/raspberry_pi"),
    ("resizefs", "resizes a file system; make devices"),
    ("users_groups", "warns without a user www-data and keys of the cloud; see tests/modules/users_groups"),
];

/// Returns the names of the examples.
fn examples() -> BTreeSet<String> {
    let entries = std::fs::read_dir(tests_dir().join("../docs/examples")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.map(|name| name.trim_end_matches(".yaml").to_string()).collect()
}

#[test]
fn examples_do_what_they_show() {
    let directory = tests_dir().join("../docs/examples");
    let machines = CaseMachines::default();
    let mut wrong = Vec::new();
    let only = std::env::var("FIRSTLIGHT_CASE").unwrap_or_default();
    let is_applied =
        |name: &String| name.contains(&only) && NOT_APPLIED.iter().all(|(other, _)| name != other);
    for name in examples().into_iter().filter(is_applied) {
        let file = directory.join(format!("{name}.yaml"));
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|e| fail(&format!("{}: {e}", file.display())));
        let module = name.split('-').next().unwrap_or_default();
        let row = |table: &[(&'static str, &'static str, &'static str)], name| {
            table.iter().find(|(other, ..)| *other == name).copied()
        };
        let (_, case, programs) = row(APPLIED, &*name)
            .or_else(|| row(EXAMPLE_MACHINES, module))
            .unwrap_or_else(|| fail(&format!("{name}: no machine in EXAMPLE_MACHINES")));
        let record = machines.apply(module, case, programs, &text);
        let mut lines = record.lines();
        let is_quiet = lines.next() == Some("boot: no warnings")
            && lines.next() == Some("first run: exit 0, no warnings");
        let did_something = lines.next().is_some_and(|line| !line.starts_with("second run: "));
        if !(is_quiet && did_something) {
            wrong.push(format!("{name}, in the machine of {case}:\n{record}"));
        }
    }
    for (name, reason) in NOT_APPLIED {
        not_tried(&format!("applying docs/examples/{name}.yaml"), reason);
    }
    if !wrong.is_empty() {
        fail(&wrong.join("\n\n"));
    }
}

#[test]
fn rows_are_of_one_example_each() {
    let found = examples();
    let rows = APPLIED.iter().map(|(name, ..)| *name).chain(NOT_APPLIED.iter().map(|(name, _)| *name));
    let rows: Vec<&str> = rows.collect();
    let unknown: Vec<&&str> = rows.iter().filter(|name| !found.contains(**name)).collect();
    assert!(unknown.is_empty(), "no example in docs/examples: {unknown:?}");
    assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len(), "an example has two rows");
}
