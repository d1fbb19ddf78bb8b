//! SIGKILL at many points of the generator and of each stage, then the rest of the boot and further boots: after a
//! power cut at any time every state file is complete, in its old or its new version, and the machine boots.
//!
//! The points are the system calls that change something: strace sends the signal when the stage enters the N-th
//! of its kind. `FIRSTLIGHT_POINTS` sets the number of points per program (default 12, evenly distributed).

use tests::torture::{PROGRAMS, Torture, holds, only, spread};
use tests::{STAGES, Sandbox};

#[test]
#[ignore = "many boots: make slow"]
fn stages_may_be_killed_at_any_instant() {
    let machines = Torture::new("kill");
    let mut points = Vec::new();
    for stage in PROGRAMS {
        let all = machines.points(stage, true);
        points.extend(only(&all).unwrap_or_else(|| spread(&all, 12)));
    }
    let found = machines.run(&points);
    drop(machines);
    holds(points.len(), &found);
}

/// The local stage is killed before it decides whether there is anything to do, and the same boot continues.
fn cut_while_undecided(name: &str, killed: &str) -> Sandbox {
    let machine = Sandbox::new(name);
    // With a single name in the list there is nothing to decide.
    let list = "datasource_list: [NoCloud, ConfigDrive, None]\n";
    machine.put("/etc/cloud/cloud.cfg.d/99_list.cfg", list);
    assert_eq!(machine.run(&["generator"]).code("generator"), 0);
    // As the generator leaves it if a controller has no driver yet.
    for path in ["enabled", "cloud.cfg", ".ds-identify.result"] {
        let _ = std::fs::remove_file(machine.path("/run/cloud-init").join(path));
    }
    machine.put("/run/cloud-init/undecided", "virtualization=vm:kvm\nwait=0.1\n");
    killed.split(' ').fold(machine, |machine, stage| {
        let words =
            "strace -qq -e signal=none -e trace=all -e inject=all:signal=SIGKILL:when=60 -o /dev/null";
        machine.wrap(stage, words)
    })
}

#[test]
fn an_undecided_boot_goes_on() {
    let machine = cut_while_undecided("cut-seed", "local");
    let boot = machine.run(&STAGES);
    assert_eq!(boot.code("local"), 137, "{}", boot.output);
    for stage in &STAGES[1..] {
        assert_eq!(boot.code(stage), 0, "{stage}: {}\n{}", boot.output, machine.warnings().join("\n"));
    }
    assert_eq!(machine.file("/run/cloud-init/enabled").as_deref(), Some(""));
    assert_eq!(machine.file("/var/lib/cloud/data/instance-id").as_deref(), Some("i-demo-0001\n"));
    assert!(machine.file("/var/log/demo").unwrap_or_default().contains("runcmd, once per instance"));
    let warnings = machine.warnings().join("\n");
    assert!(warnings.contains("the local stage did not complete"), "{warnings}");
    assert!(has_network(&machine), "{}", machine.log());

    // There is nothing to do: the network stage finds that out and reports it.
    let machine = cut_while_undecided("cut-none", "local");
    std::fs::remove_dir_all(machine.path("/var/lib/cloud/seed")).unwrap();
    let boot = machine.run(&STAGES);
    for stage in &STAGES[1..] {
        assert_eq!(boot.code(stage), 0, "{stage}: {}", boot.output);
    }
    let reason = machine.file("/run/cloud-init/disabled").unwrap_or_default();
    assert!(reason.contains("No ds found"), "{reason}");
    assert!(machine.status().contains("status: disabled"), "{}", machine.status());
    assert!(!machine.path("/var/lib/cloud/data/status.json").exists());

    // The search never ran, which is an error.
    let machine = cut_while_undecided("cut-both", "local network");
    let boot = machine.run(&STAGES);
    assert_eq!((boot.code("local"), boot.code("network")), (137, 137), "{}", boot.output);
    assert_eq!((boot.code("config"), boot.code("final")), (1, 1), "{}", boot.output);
    assert!(machine.status().contains("status: error"), "{}", machine.status());
}

/// Returns whether the network service has a file of this program.
fn has_network(machine: &Sandbox) -> bool {
    if machine.path("/etc/netplan/50-cloud-init.yaml").exists() {
        return true;
    }
    let files = std::fs::read_dir(machine.path("/etc/systemd/network")).into_iter().flatten().flatten();
    files.into_iter().any(|f| f.file_name().to_string_lossy().starts_with("10-cloud-init"))
}
