//! "Undecided": the state that the generator leaves if devices may still appear, and the second look.

// Helpers of tests fail by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod sandbox;

use std::path::Path;
use std::time::{Duration, Instant};

use identify::{Enablement, second_look};
use sandbox::{Sandbox, iso};
use system::System;

const VM: (&str, &str) = ("SYSTEMD_VIRTUALIZATION", "vm:kvm");
const LINK: &str = "/early/multi-user.target.wants/cloud-init.target";
const NOTE: &str = "/run/cloud-init/undecided";

/// A machine with a controller whose driver is not loaded yet.
fn machine(name: &str, settings: &str) -> Sandbox {
    let sandbox = Sandbox::new(name);
    sandbox.write("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, ConfigDrive, Ec2, None ]\n");
    sandbox.write("/etc/cloud/ds-identify.cfg", settings);
    sandbox.write("/usr/lib/systemd/system/cloud-init.target", "");
    sandbox.write("/sys/bus/pci/devices/0000:00:04.0/class", "0x010601\n");
    std::fs::create_dir(sandbox.path("early")).unwrap();
    sandbox
}

fn generate(sandbox: &Sandbox, env: &[(&str, &str)]) -> i32 {
    let early = sandbox.path("early");
    let program = Path::new(env!("CARGO_BIN_EXE_cloud-init-generator"));
    let output = sandbox.run(program, &[early.to_str().unwrap()], env);
    output.status.code().unwrap()
}

/// Returns whether the link, the flags and the state file exist.
fn state(sandbox: &Sandbox) -> [bool; 4] {
    let there = |path: &str| sandbox.path(path).symlink_metadata().is_ok();
    [there(LINK), there("/run/cloud-init/enabled"), there("/run/cloud-init/disabled"), there(NOTE)]
}

const ENABLED: [bool; 4] = [true, true, false, false];
const DISABLED: [bool; 4] = [false, false, true, false];
const UNDECIDED: [bool; 4] = [true, false, false, true];

#[test]
fn decision_is_deferred_only_where_devices_can_appear() {
    let container = ("SYSTEMD_VIRTUALIZATION", "container:lxc");
    type Change = fn(&Sandbox);
    let nothing: Change = |_| {};
    #[allow(clippy::type_complexity)]
    let cases: [(&str, &str, &[(&str, &str)], Change, [bool; 4]); 10] = [
        ("driver", "", &[VM], nothing, UNDECIDED),
        ("turned off", "settle: 0\n", &[VM], nothing, DISABLED),
        ("a wrong time is the usual one", "settle: never\n", &[VM], nothing, UNDECIDED),
        ("in a container", "", &[container], nothing, DISABLED),
        ("in the initrd", "", &[VM, ("SYSTEMD_IN_INITRD", "1")], nothing, DISABLED),
        ("enabled without a find", "policy: search,notfound=enabled\n", &[VM], nothing, ENABLED),
        ("disabled by policy", "policy: disabled\n", &[VM], nothing, DISABLED),
        (
            "no candidate is on a device",
            "",
            &[VM],
            |s| s.write("/etc/cloud/cloud.cfg", "datasource_list: [ Ec2, GCE, None ]\n"),
            DISABLED,
        ),
        ("found", "", &[VM], |s| s.device("sr0", &iso("cidata")), ENABLED),
        (
            "with its driver",
            "",
            &[VM],
            |s| s.write("/sys/bus/pci/devices/0000:00:04.0/driver/x", ""),
            DISABLED,
        ),
    ];
    for (name, settings, env, change, expected) in cases {
        let sandbox = machine(&format!("undecided-{}", name.replace(' ', "-")), settings);
        change(&sandbox);
        assert_eq!(generate(&sandbox, env), 0, "{name}");
        assert_eq!(state(&sandbox), expected, "{name}");
        let decided = sandbox.path("/run/cloud-init/.ds-identify.result").exists();
        assert_eq!(decided, expected != UNDECIDED, "{name}");
    }
}

/// /run is full, or something is in the place of the files.
#[test]
fn a_decision_that_cannot_be_recorded_is_used() {
    for (settings, expected) in [("settle: 0\npolicy: search,notfound=enabled\n", true), ("", false)] {
        let sandbox = machine("unrecorded", settings);
        for name in ["undecided", "cloud.cfg", ".ds-identify.result"] {
            std::fs::create_dir_all(sandbox.path(&format!("/run/cloud-init/{name}"))).unwrap();
        }
        assert_eq!(generate(&sandbox, &[VM]), 0);
        assert_eq!(state(&sandbox)[0], expected, "{settings}");
        let log = sandbox.read("/run/cloud-init/ds-identify.log");
        assert!(log.contains("the decision is used without it"), "{log}");
    }
}

#[test]
fn device_appears_while_udev_is_busy() {
    let sandbox = machine("late", "");
    assert_eq!(generate(&sandbox, &[VM]), 0);
    // A reload before the second look changes nothing.
    assert_eq!(generate(&sandbox, &[VM]), 0);
    assert_eq!(state(&sandbox), UNDECIDED);
    assert_eq!(sandbox.config(), "");
    let note = sandbox.read(NOTE);
    assert!(note.contains("virtualization=vm:kvm\nwait=2\nlink="), "{note}");
    sandbox.write("/run/udev/control", "");
    sandbox.write("/run/udev/queue", "");
    let sys = System::new(&sandbox.0);
    let decided = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            sandbox.device("sr0", &iso("cidata"));
            std::fs::remove_file(sandbox.path("/run/udev/queue")).unwrap();
        });
        second_look::decide(&sys)
    });
    let (decision, why) = decided.unwrap();
    assert_eq!((decision, why.as_str()), (Enablement::Enabled, "Found NoCloud [mode=search, found=all]"));
    assert_eq!(state(&sandbox), ENABLED);
    assert_eq!(sandbox.config(), "datasource_list: [ NoCloud, None ]\n");
    assert_eq!(second_look::disabled_reason(&sys), None);
    // The decision is final: neither the stage nor a reload repeats it.
    assert_eq!(second_look::decide(&sys), None);
    assert_eq!(generate(&sandbox, &[VM]), 0);
    assert_eq!(state(&sandbox), ENABLED);
}

#[test]
fn wait_without_a_new_device_ends_disabled() {
    let sandbox = machine("never", "settle: 0.3\n");
    assert_eq!(generate(&sandbox, &[VM]), 0);
    sandbox.write("/run/udev/control", "");
    sandbox.write("/run/udev/queue", "");
    let sys = System::new(&sandbox.0);
    assert!(second_look::disabled_reason(&sys).is_some());
    let begun = Instant::now();
    let (decision, why) = second_look::decide(&sys).unwrap();
    let took = begun.elapsed();
    assert_eq!(decision, Enablement::Disabled);
    assert!(took > Duration::from_millis(290), "{took:?}");
    assert_eq!(second_look::disabled_reason(&sys).as_deref(), Some(why.as_str()));
    // The result is complete before the manager's next reload, which keeps the reason.
    assert_eq!(state(&sandbox), DISABLED);
    assert_eq!(generate(&sandbox, &[VM]), 0);
    assert_eq!(state(&sandbox), DISABLED);
    assert_eq!(second_look::disabled_reason(&sys).as_deref(), Some(why.as_str()));
    assert!(sandbox.config().starts_with("di_report:\n"), "{}", sandbox.config());
}

/// ds-identify itself has only the documented exit codes.
#[test]
fn ds_identify_is_never_undecided() {
    let sandbox = machine("program", "");
    assert_eq!(sandbox.identify(&[VM]).status.code(), Some(1));
    assert!(!sandbox.path(NOTE).exists());
}

/// The hypervisor's tool does not answer: the local stage identifies again.
#[test]
fn silent_tool_leaves_the_decision_open() {
    let sandbox = machine("silent-tool", "");
    sandbox.write("/sys/bus/pci/devices/0000:00:04.0/driver/x", "");
    sandbox.write("/etc/cloud/cloud.cfg", "datasource_list: [ VMware, Ec2, None ]\n");
    sandbox.write("/bin/vmware-rpctool", "#!/bin/sh\nexec sleep 60\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(sandbox.path("/bin/vmware-rpctool"), mode).unwrap();
    let path = format!("{}:/usr/bin:/bin", sandbox.path("/bin").display());
    assert_eq!(generate(&sandbox, &[("SYSTEMD_VIRTUALIZATION", "vm:vmware"), ("PATH", &path)]), 0);
    assert_eq!(state(&sandbox), UNDECIDED);
    let note = sandbox.read(NOTE);
    assert!(note.contains("VMware") && note.contains("vmware-rpctool"), "{note}");
}
