//! ds-identify on many machines, also unusual ones: exit code, cloud.cfg and log.

// Helpers of tests fail by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod cases;
mod sandbox;

use cases::machine::{Machine, all};
use cases::{all_cases, matrix, table};
use sandbox::{Sandbox, iso};

fn check(machine: &Machine, number: usize) -> Result<(), String> {
    let sandbox = machine.build(&format!("case{number}"));
    let (seen, stderr) = machine.identify(&sandbox, &sandbox.path("ds-identify"));
    if seen != machine.expected() {
        return Err(format!("{}: {seen:?}\nexpected {:?}\n{stderr}", machine.name, machine.expected()));
    }
    if sandbox.read("/run/cloud-init/.ds-identify.result") != format!("{}\n", machine.code) {
        return Err(format!("{}: no result file", machine.name));
    }
    Ok(())
}

#[test]
fn every_sample_machine_is_identified() {
    let mut machines: Vec<Machine> = all_cases().map(Machine::from).collect();
    machines.extend(matrix::machines(false));
    machines.extend(table::machines());
    let wrong = all(&machines, check);
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), machines.len(), wrong.join("\n"));
    assert!(machines.len() > 1000, "only {} machines", machines.len());
}

const LIST: &str = "datasource_list: [ NoCloud, ConfigDrive, None ]\n";
const VM: (&str, &str) = ("SYSTEMD_VIRTUALIZATION", "vm:kvm");

#[test]
fn file_system_labels_identify_datasources() {
    for (label, code, config) in [
        ("cidata", 0, "datasource_list: [ NoCloud, None ]\n"),
        ("config-2", 0, "datasource_list: [ ConfigDrive, None ]\n"),
        (
            "other",
            1,
            "di_report:\n  datasource_list: [  ]\n  # reporting not found result. notfound=disabled.\n",
        ),
    ] {
        let sandbox = Sandbox::new(label);
        sandbox.write("/etc/cloud/cloud.cfg", LIST);
        sandbox.device("vda", &[0; 4096]);
        sandbox.device("sr0", &iso(label));
        sandbox.write("/sys/class/block/sr1/size", "0\n");
        let output = sandbox.identify(&[VM]);
        assert_eq!((output.status.code(), sandbox.config().as_str()), (Some(code), config), "{label}");
        let log = sandbox.read("/run/cloud-init/ds-identify.log");
        assert!(log.contains(&format!("ISO9660_DEVS=/dev/sr0={label}\n")), "{log}");
    }
}

#[test]
fn no_device_is_opened_without_need() {
    let sandbox = Sandbox::new("lazy");
    sandbox.write("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, None ]\n");
    // Reading this file would log an error.
    sandbox.write("/sys/class/block/vda/size", "2048\n");
    let output = sandbox.identify(&[VM]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn earlier_result_of_this_boot_is_reused() {
    let sandbox = Sandbox::new("again");
    sandbox.write("/etc/cloud/cloud.cfg", LIST);
    sandbox.device("sr0", &iso("cidata"));
    assert_eq!(sandbox.identify(&[VM]).status.code(), Some(0));
    let first = sandbox.config();
    std::fs::remove_file(sandbox.path("/dev/sr0")).unwrap();
    std::fs::remove_dir_all(sandbox.path("/sys/class/block")).unwrap();
    assert_eq!(sandbox.identify(&[VM]).status.code(), Some(0));
    assert_eq!(sandbox.config(), first);
    // An unknown result, or --force: identified again.
    sandbox.write("/run/cloud-init/.ds-identify.result", "7\n");
    assert_eq!(sandbox.identify(&[VM]).status.code(), Some(1));
    sandbox.device("sr0", &iso("cidata"));
    let forced = sandbox.run(&sandbox.path("ds-identify"), &["--force"], &[VM]);
    assert_eq!(forced.status.code(), Some(0));
}

#[test]
fn environment_overrides_paths() {
    let sandbox = Sandbox::new("places");
    sandbox.write("/elsewhere/cloud.cfg", "datasource_list: [ Oracle ]\n");
    let etc = sandbox.path("/elsewhere").to_str().unwrap().to_string();
    let run = sandbox.path("/other-run").to_str().unwrap().to_string();
    let output = sandbox.identify(&[VM, ("PATH_ETC_CLOUD", &etc), ("PATH_RUN", &run), ("DI_LOG", "stderr")]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(sandbox.read("/other-run/cloud-init/cloud.cfg"), "datasource_list: [ Oracle ]\n");
    assert!(!sandbox.path("/run/cloud-init").exists());
    assert!(String::from_utf8_lossy(&output.stderr).contains("returning 0"));
}

/// The kind of virtualization, if the manager does not set it.
#[test]
fn virtualization_is_detected_without_systemd() {
    let cpu = |flags: &str| format!("processor : 0\nflags\t\t: fpu {flags}\n{}", "x\n".repeat(100_000));
    let (bare, virtual_cpu) = (cpu("vmx"), cpu("hypervisor"));
    type Files<'a> = &'a [(&'a str, &'a str)];
    let cases: [(Files<'_>, &str, bool); 13] = [
        (&[], "none", false),
        (&[("/proc/cpuinfo", &bare)], "none", false),
        (&[("/proc/cpuinfo", &virtual_cpu)], "vm-other", false),
        (&[("/sys/class/dmi/id/sys_vendor", "QEMU\n")], "qemu", false),
        (&[("/sys/hypervisor/type", "xen\n")], "xen", false),
        (&[("/proc/version", "Linux version 5.15.1-microsoft-standard-WSL2\n")], "wsl", false),
        (&[("/run/systemd/container", "systemd-nspawn\n")], "systemd-nspawn", true),
        (&[("/proc/1/environ", "a=b\0container=lxc\0")], "lxc", true),
        (&[("/.dockerenv", "")], "docker", true),
        (&[("/run/.containerenv", "")], "podman", true),
        (&[("/run/systemd/container", "openvz\n")], "openvz", true),
        (&[("/run/systemd/container", "proot\n")], "proot", true),
        (&[("/run/systemd/container", "pouch\n")], "pouch", true),
    ];
    for (number, (files, kind, container)) in cases.into_iter().enumerate() {
        let sandbox = Sandbox::new(&format!("virt{number}"));
        sandbox.write("/etc/cloud/cloud.cfg", LIST);
        for (path, content) in files {
            sandbox.write(path, content);
        }
        sandbox.identify(&[]);
        let log = sandbox.read("/run/cloud-init/ds-identify.log");
        let expected = [format!("VIRT={kind}\n"), format!("is_container={container}\n")];
        assert!(expected.iter().all(|line| log.contains(line)), "{expected:?} in\n{log}");
    }
}

/// Lines that tools search for.
#[test]
fn log_has_the_lines_that_tools_parse() {
    let sandbox = Sandbox::new("log");
    sandbox.write("/etc/cloud/cloud.cfg", LIST);
    sandbox.device("sr0", &iso("config-2"));
    assert_eq!(sandbox.identify(&[VM, ("DEBUG_LEVEL", "2")]).status.code(), Some(0));
    std::fs::remove_file(sandbox.path("/dev/sr0")).unwrap();
    std::fs::remove_dir_all(sandbox.path("/sys/class/block")).unwrap();
    let output = sandbox.run(&sandbox.path("ds-identify"), &["--force"], &[VM]);
    assert_eq!(output.status.code(), Some(1));
    let log = sandbox.read("/run/cloud-init/ds-identify.log");
    let mut rest = log.as_str();
    for part in [
        "ds-identify \n",
        "check for 'NoCloud' returned not found: no seed directory",
        "check for 'ConfigDrive' returned found: file system on /dev/sr0 is labelled config-2\n",
        "FS_LABELS=config-2\n",
        "VIRT=kvm\n",
        "DSLIST=NoCloud ConfigDrive None\n",
        "Found ConfigDrive [mode=search, found=all]\n",
        "returning 0\n",
        "ds-identify --force\n",
        "No ds found [mode=search, notfound=disabled]. Disabled cloud-init [1]\n",
        "returning 1\n",
    ] {
        let Some(at) = rest.find(part) else { panic!("no '{part}' in the rest of\n{log}") };
        rest = &rest[at..];
    }
}

/// All users can read the log; the serial number is readable by root only.
#[test]
fn log_has_no_passwords() {
    let sandbox = Sandbox::new("passwords");
    sandbox.write("/etc/cloud/cloud.cfg", LIST);
    sandbox.write("/sys/class/dmi/id/product_serial", "ds=nocloud;s=http://u:s3cret@h/s3cret/\n");
    for line in [
        "ro ds=http://u:s3cret@h/s3cret/ cc: password: s3cret end_cc quiet",
        "ro url=http://u:s3cret@h/ cc: s3cret",
    ] {
        sandbox.write("/proc/cmdline", line);
        sandbox.run(&sandbox.path("ds-identify"), &["--force"], &[VM]);
    }
    let log = sandbox.read("/run/cloud-init/ds-identify.log");
    assert!(log.contains("KERNEL_CMDLINE=ro ds=http://h/…/ cc:… quiet\n"), "{log}");
    assert!(
        log.contains("DMI_PRODUCT_SERIAL=ds=nocloud;s=http://h/…/\n") && !log.contains("s3cret"),
        "{log}"
    );
}
