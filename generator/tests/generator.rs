//! The generator as systemd calls it: link, flags, logs, exit codes.

// Helpers of tests fail by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod sandbox;

use std::path::Path;

use sandbox::{Sandbox, iso};

const VM: (&str, &str) = ("SYSTEMD_VIRTUALIZATION", "vm:kvm");
const LINK: &str = "/early/multi-user.target.wants/cloud-init.target";

fn machine(name: &str) -> Sandbox {
    let sandbox = Sandbox::new(name);
    sandbox.write("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, ConfigDrive, None ]\n");
    sandbox.write("/usr/lib/systemd/system/cloud-init.target", "");
    std::os::unix::fs::symlink("usr/lib", sandbox.path("/lib")).unwrap();
    for dir in ["normal", "early", "late"] {
        std::fs::create_dir(sandbox.path(dir)).unwrap();
    }
    sandbox
}

fn generate(sandbox: &Sandbox, env: &[(&str, &str)]) -> i32 {
    let dirs = ["normal", "early", "late"].map(|d| sandbox.path(d).to_str().unwrap().to_string());
    let env: Vec<_> = env.iter().copied().chain([VM]).collect();
    let arguments: Vec<&str> = dirs.iter().map(String::as_str).collect();
    let output = sandbox.run(Path::new(env!("CARGO_BIN_EXE_cloud-init-generator")), &arguments, &env);
    assert!(output.stdout.is_empty());
    output.status.code().unwrap()
}

/// Returns the link's target, and the flags that exist.
fn state(sandbox: &Sandbox) -> (Option<String>, bool, bool) {
    let link = std::fs::read_link(sandbox.path(LINK)).ok().map(|t| t.to_str().unwrap().to_string());
    let flag = |name: &str| sandbox.path(&format!("/run/cloud-init/{name}")).exists();
    (link, flag("enabled"), flag("disabled"))
}

const ENABLED: fn() -> (Option<String>, bool, bool) =
    || (Some("/lib/systemd/system/cloud-init.target".into()), true, false);

#[test]
fn target_is_linked_removed_and_linked_again() {
    let sandbox = machine("turns");
    sandbox.device("sr0", &iso("cidata"));
    assert_eq!(generate(&sandbox, &[]), 0);
    assert_eq!(state(&sandbox), ENABLED());
    let log = sandbox.read("/run/cloud-init/cloud-init-generator.log");
    assert!(log.contains("ds-identify: 0") && log.contains("cloud-init is enabled"), "{log}");

    // A reload: the same result, and the log has only the last run.
    assert_eq!(generate(&sandbox, &[]), 0);
    assert_eq!(state(&sandbox), ENABLED());
    assert!(sandbox.read("/run/cloud-init/cloud-init-generator.log").lines().count() <= log.lines().count());

    // The next boot, disabled: /run and the manager's directories are empty.
    std::fs::remove_dir_all(sandbox.path("/run/cloud-init")).unwrap();
    sandbox.write("/etc/cloud/cloud-init.disabled", "");
    assert_eq!(generate(&sandbox, &[]), 0);
    assert_eq!(state(&sandbox), (None, false, true));
    assert!(sandbox.read("/run/cloud-init/cloud-init-generator.log").contains("ds-identify: 2"));
    assert_eq!(sandbox.config(), "");

    // Enabled again, without a reboot.
    std::fs::remove_file(sandbox.path("/etc/cloud/cloud-init.disabled")).unwrap();
    assert_eq!(generate(&sandbox, &[]), 0);
    assert_eq!(state(&sandbox), ENABLED());
}

#[test]
fn network_stage_is_masked_by_its_former_name() {
    let sandbox = machine("masked");
    sandbox.device("sr0", &iso("cidata"));
    let link = |target: &str| {
        sandbox.write("/etc/systemd/system/x", "");
        let _ = std::fs::remove_file(sandbox.path("/etc/systemd/system/cloud-init.service"));
        std::os::unix::fs::symlink(target, sandbox.path("/etc/systemd/system/cloud-init.service")).unwrap();
    };
    for (target, is_masked) in
        [("/usr/lib/systemd/system/cloud-init-network.service", false), ("/dev/null", true)]
    {
        link(target);
        assert_eq!(generate(&sandbox, &[]), 0);
        assert_eq!(state(&sandbox), ENABLED());
        let mask = std::fs::read_link(sandbox.path("/early/cloud-init-network.service"));
        assert_eq!(mask.is_ok_and(|target| target == Path::new("/dev/null")), is_masked);
    }
}

#[test]
fn all_stages_are_masked_by_the_name_of_the_single_process() {
    const STAGES: [&str; 4] = ["cloud-init-local", "cloud-init-network", "cloud-config", "cloud-final"];
    let sandbox = machine("masked-main");
    sandbox.device("sr0", &iso("cidata"));
    sandbox.write("/run/systemd/system/x", "");
    for is_masked in [false, true] {
        if is_masked {
            let mask = sandbox.path("/run/systemd/system/cloud-init-main.service");
            std::os::unix::fs::symlink("/dev/null", mask).unwrap();
        }
        assert_eq!(generate(&sandbox, &[]), 0);
        for stage in STAGES {
            let mask = std::fs::read_link(sandbox.path(&format!("/early/{stage}.service")));
            assert_eq!(mask.is_ok_and(|target| target == Path::new("/dev/null")), is_masked, "{stage}");
        }
    }
}

#[test]
fn machine_without_datasource_is_disabled() {
    let sandbox = machine("nothing");
    assert_eq!(generate(&sandbox, &[]), 0);
    assert_eq!(state(&sandbox), (None, false, true));
    assert_eq!(std::fs::read_dir(sandbox.path("early")).unwrap().count(), 0);
    assert!(sandbox.read("/run/cloud-init/cloud-init-generator.log").contains("ds-identify: 1"));
}

/// `tests/tests/identify.rs` has a machine whose /sys is read-only.
#[test]
fn local_stage_is_ordered_after_udev() {
    let sandbox = machine("udev");
    sandbox.device("sr0", &iso("cidata"));
    assert_eq!(generate(&sandbox, &[]), 0);
    let order = sandbox.read("/early/cloud-init-local.service.d/after-udev.conf");
    assert_eq!(order, "[Unit]\nAfter=systemd-udevd.service systemd-udev-trigger.service\n");
}

/// A boot then need not wait until udev comes to the bus.
#[test]
fn driver_of_a_nic_is_wanted_by_the_local_stage() {
    const WANTS: &str = "/early/cloud-init-local.service.wants";
    for (name, has_source, has_driver) in
        [("driver", true, false), ("driver-bound", true, true), ("driver-off", false, false)]
    {
        let sandbox = machine(name);
        sandbox.write("/usr/lib/systemd/system/modprobe@.service", "");
        sandbox.write("/sys/bus/virtio/devices/virtio0/device", "0x0001\n");
        sandbox.write("/sys/bus/virtio/devices/virtio0/modalias", "virtio:d00000001v00001AF4\n");
        if has_source {
            sandbox.device("sr0", &iso("cidata"));
        }
        if has_driver {
            sandbox.write("/sys/bus/virtio/devices/virtio0/driver/x", "");
        }
        assert_eq!(generate(&sandbox, &[]), 0);
        assert_eq!(state(&sandbox).0.is_some(), has_source);
        let unit = sandbox.path(&format!("{WANTS}/modprobe@virtio:d00000001v00001AF4.service"));
        let target = std::fs::read_link(unit).ok();
        let expected =
            (has_source && !has_driver).then(|| "/usr/lib/systemd/system/modprobe@.service".into());
        assert_eq!(target, expected, "{name}");
        assert_eq!(sandbox.path(WANTS).exists(), expected.is_some(), "{name}");
    }
}

#[test]
fn target_is_linked_in_the_only_directory_argument() {
    let sandbox = machine("one");
    sandbox.device("sr0", &iso("cidata"));
    let early = sandbox.path("early");
    let program = Path::new(env!("CARGO_BIN_EXE_cloud-init-generator"));
    assert_eq!(sandbox.run(program, &[early.to_str().unwrap()], &[VM]).status.code(), Some(0));
    assert_eq!(state(&sandbox), ENABLED());
    let wrong = sandbox.run(program, &[], &[VM]);
    assert_eq!(wrong.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&wrong.stderr).starts_with("usage: "));
}

#[test]
fn dangling_link_is_replaced_on_a_split_usr() {
    let sandbox = machine("dangling");
    std::fs::remove_file(sandbox.path("/lib")).unwrap();
    std::fs::create_dir(sandbox.path("/lib")).unwrap();
    sandbox.device("sr0", &iso("cidata"));
    std::fs::create_dir_all(sandbox.path(LINK).parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/gone", sandbox.path(LINK)).unwrap();
    assert_eq!(generate(&sandbox, &[]), 0);
    let target = "/usr/lib/systemd/system/cloud-init.target".to_string();
    assert_eq!(state(&sandbox), (Some(target), true, false));
}

#[test]
fn result_cannot_be_written() {
    let sandbox = machine("full");
    sandbox.device("sr0", &iso("cidata"));
    // Root may write everywhere, so the path itself is made unusable.
    sandbox.write("/run/cloud-init", "a file");
    assert_eq!(generate(&sandbox, &[]), 0);
    // Without the flags, which are in /run too.
    assert_eq!(state(&sandbox), (ENABLED().0, false, false));
    assert_eq!(sandbox.identify(&[VM]).status.code(), Some(0));
    // Only /run is needed: /var does not exist here.
    std::fs::remove_file(sandbox.path("/run/cloud-init")).unwrap();
    assert!(!sandbox.path("/var").exists());
    assert_eq!(generate(&sandbox, &[]), 0);
    assert!(!sandbox.path("/var").exists());
}

/// Eight concurrent runs, as with reloads during a boot: one result, and no partial file.
#[test]
fn concurrent_runs_agree_and_leave_no_temporary_file() {
    let sandbox = machine("at-once");
    sandbox.device("sr0", &iso("cidata"));
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8).map(|_| scope.spawn(|| generate(&sandbox, &[]))).collect();
        for run in runs {
            assert_eq!(run.join().unwrap(), 0);
        }
    });
    assert_eq!(state(&sandbox), ENABLED());
    assert_eq!(sandbox.config(), "datasource_list: [ NoCloud, None ]\n");
    let left: Vec<_> = std::fs::read_dir(sandbox.path("/run/cloud-init")).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().ends_with(".new")), "{left:?}");
}

/// In the initrd it decides as in the system, and logs the manager's variables.
#[test]
fn initrd_decides_like_the_system() {
    let sandbox = machine("initrd");
    sandbox.write("/sys/bus/pci/devices/0000:00:04.0/class", "0x010601\n");
    assert_eq!(generate(&sandbox, &[("SYSTEMD_IN_INITRD", "1"), ("SYSTEMD_FIRST_BOOT", "1")]), 0);
    assert_eq!(state(&sandbox), (None, false, true));
    let log = sandbox.read("/run/cloud-init/ds-identify.log");
    assert!(log.contains("\nSYSTEMD_FIRST_BOOT=1\nSYSTEMD_IN_INITRD=1\n"), "{log}");
}
