//! The release generator: how it explains its decision, the conventions of generators, the firmware of several clouds,
//! disks that fail or hang.

use std::path::PathBuf;
use std::process::{Command, Output};

use tests::{
    Facts, Machine, binaries, explained, fail, install_explain, not_tried, testing_upstream, tests_dir,
};

const LINK: &str = "multi-user.target.wants/cloud-init.target";

/// In a container without a datasource cloud-init is disabled; the configuration line that `explain` prints enables it.
#[test]
fn explain_names_the_line_that_enables_cloud_init() {
    if testing_upstream() {
        return not_tried(
            "explain_names_the_line_that_enables_cloud_init",
            "upstream's ds-identify has no such command",
        );
    }
    let machine = Machine::new("explain");
    install_explain(&machine);
    // A fixed address, because no DHCP server answers on its network.
    let lines = "datasource_list: [ NoCloud, ConfigDrive, None ]\n\
                 network: {version: 2, ethernets: {eth0: {addresses: [192.0.2.10/24]}}}\n";
    machine.write("/etc/cloud/cloud.cfg.d/90_test.cfg", lines);
    let first = machine.boot();
    let line = explained(&first);
    assert!(first.text("status").contains("status: disabled"), "{}", first.diagnostics());
    machine.write("/etc/cloud/ds-identify.cfg", &format!("{line}\n"));
    let second = machine.boot();
    assert!(
        second.file("/run/cloud-init/enabled").is_some() && second.text("status").contains("DataSourceNone"),
        "'{line}' did not enable it\n{}",
        second.diagnostics()
    );
    reloads_change_nothing(&second);
}

fn reloads_change_nothing(facts: &Facts) {
    assert_eq!(facts.file("/run/test/before"), facts.file("/run/test/after"));
    assert!(facts.file("/run/test/after").is_some_and(|text| text.contains(LINK)));
}

/// A machine in a directory, which is removed at the end.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Root {
        let top = std::env::temp_dir().join(format!("identify-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&top);
        let root = Root(top);
        for directory in ["run/systemd", "early", "sys/class/dmi/id"] {
            std::fs::create_dir_all(root.0.join(directory)).unwrap_or_else(|e| fail(&e.to_string()));
        }
        root.write("etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Hetzner, Ec2, None ]\n");
        root.write("usr/lib/systemd/system/cloud-init.target", "");
        root
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        let made = path.parent().map(std::fs::create_dir_all).unwrap_or(Ok(()));
        made.and_then(|()| std::fs::write(&path, text)).unwrap_or_else(|e| fail(&e.to_string()));
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.0.join(path)).unwrap_or_default()
    }

    /// Runs it as the manager of a virtual machine does, after these words.
    fn run(&self, words: &[&str], arguments: &[&str], env: &[(&str, &str)]) -> Output {
        let program = binaries().join("cloud-init-generator");
        let program = program.to_string_lossy().into_owned();
        let mut argv: Vec<&str> = words.to_vec();
        argv.push(&program);
        argv.extend(arguments);
        let done = Command::new(argv[0])
            .args(&argv[1..])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("PATH_ROOT", &self.0)
            .env("SYSTEMD_VIRTUALIZATION", "vm:kvm")
            .envs(env.iter().copied())
            .output();
        done.unwrap_or_else(|e| fail(&format!("{argv:?}: {e}")))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// No process, no network, no write except below /run/cloud-init, the manager's directory and the kernel's log.
#[test]
fn generator_has_no_side_effects() {
    const CALLS: &str = "trace=%process,%network,%file";
    type Case<'a> = (&'a str, fn(&Root), &'a [(&'a str, &'a str)], &'a str);
    let cases: [Case<'_>; 5] = [
        ("firmware", |r| r.write("sys/class/dmi/id/sys_vendor", "Hetzner\n"), &[], "cloud-init is enabled"),
        ("nothing", |_| (), &[], "cloud-init is disabled"),
        (
            "a device",
            |r| {
                r.write("sys/class/block/sr0/size", "2048\n");
                r.write("dev/sr0", vec![0; 1 << 20]);
            },
            &[],
            "cloud-init is disabled",
        ),
        (
            "a controller without driver",
            |r| r.write("sys/bus/pci/devices/0000:00:04.0/class", "0x010601\n"),
            &[],
            "cloud-init is undecided",
        ),
        (
            "the initrd",
            |r| r.write("sys/bus/pci/devices/0000:00:04.0/class", "0x010601\n"),
            &[("SYSTEMD_IN_INITRD", "1"), ("SYSTEMD_FIRST_BOOT", "1")],
            "cloud-init is disabled",
        ),
    ];
    for (number, (name, change, env, ends)) in cases.into_iter().enumerate() {
        let root = Root::new(&format!("calls{number}"));
        change(&root);
        let early = root.0.join("early").to_string_lossy().into_owned();
        let trace = root.0.join("trace").to_string_lossy().into_owned();
        let words = ["strace", "-f", "-y", "-qq", "-e", "signal=none", "-e", CALLS, "-o", &trace];
        let done = root.run(&words, &["/normal", &early, "/late"], env);
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        let log = root.read("run/cloud-init/cloud-init-generator.log");
        assert!(log.contains(ends), "{name}: {log}");
        let calls = root.read("trace");
        assert!(calls.contains("execve("), "{name}: nothing was traced");
        let run = root.0.join("run/cloud-init").to_string_lossy().into_owned();
        // Their directories are created below an open one.
        let top = format!("<{}>, \"run\", 0755)", root.0.display());
        let below = format!("<{}/run>, \"cloud-init\", 0755)", root.0.display());
        let places = [run.as_str(), &early, "\"/dev/kmsg\"", &top, &below];
        for call in calls.lines().filter(|call| !is_harmless(call)).skip(1) {
            assert!(places.iter().any(|place| call.contains(place)), "{name}: {call}");
        }
    }
}

/// Reads, threads, exits. The first line of a trace, the start of the program itself, is skipped.
fn is_harmless(call: &str) -> bool {
    const READS: [&str; 9] = [
        "stat(",
        "statx(",
        "lstat(",
        "newfstatat(",
        "fstat(",
        "access(",
        "readlink(",
        "readlinkat(",
        "statfs(",
    ];
    const ENDS: [&str; 4] = ["exit(", "exit_group(", "+++", "<..."];
    // After the process's ID.
    let call = call.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let opens = ["open(", "openat(", "openat2("].iter().any(|start| call.starts_with(start));
    let writes = ["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|flag| call.contains(flag));
    let is_thread = call.starts_with("clone") && call.contains("CLONE_THREAD");
    is_thread || (opens && !writes) || READS.iter().chain(&ENDS).any(|start| call.starts_with(start))
}

/// Everything is read-only but /run, so that udev would not run and the local stage is not ordered after it; then /run is not
/// writable either, and the error is in the kernel's log.
#[test]
fn read_only_run_is_reported_in_the_kernels_log() {
    let root = Root::new("read-only");
    root.write("sys/class/dmi/id/sys_vendor", "Hetzner\n");
    let kmsg = std::env::temp_dir().join(format!("identify-kmsg-{}", std::process::id()));
    std::fs::write(&kmsg, "").unwrap_or_else(|e| fail(&e.to_string()));
    // $0: the machine, $1: a file for /dev/kmsg, then the program.
    const SCRIPT: &str = "set -e; mount --bind \"$1\" /dev/kmsg; mount --bind \"$0\" \"$0\"
        mount -o remount,bind,ro \"$0\"; mount -t tmpfs run \"$0/run\"; mkdir \"$0/run/systemd\" \"$0/run/early\"
        $2 \"$0/run/early\"; cat \"$0/run/cloud-init/cloud.cfg\"; echo early: $(ls -A \"$0/run/early\"); ls -A \"$0/run/early/multi-user.target.wants\" \"$0/run/cloud-init\"
        mount -t tmpfs -o ro run \"$0/run\"; code=0; $2 \"$0/run/early\" || code=$?; echo \"then $code\"";
    let top = root.0.to_string_lossy().into_owned();
    let log = kmsg.to_string_lossy().into_owned();
    let words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SCRIPT, &top, &log];
    let done = root.run(&words, &[], &[]);
    let output = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    let record = std::fs::read_to_string(&kmsg).unwrap_or_default();
    let _ = std::fs::remove_file(&kmsg);
    for part in [
        "datasource_list: [ Hetzner, None ]\n",
        "\nearly: multi-user.target.wants\n",
        "cloud-init.target\n",
        "\nenabled\n",
        "\nthen 3\n",
    ] {
        assert!(output.contains(part), "no {part:?} in\n{output}");
    }
    assert!(!root.0.join("var").exists());
    assert!(record.starts_with("<27>cloud-init-generator[") && record.contains("ERROR: "), "{record}");
}

/// Returns the output of `generator/tests/boot-as-cloud NAME`: result and log of the generator in a virtual machine.
fn boot_as_cloud(name: &str) -> String {
    let script = tests_dir().join("../generator/tests/boot-as-cloud");
    let done = Command::new(&script).arg(name).env("BIN", binaries()).output();
    let done = done.unwrap_or_else(|e| fail(&format!("{}: {e}", script.display())));
    let output = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{name}: {}\n{output}", String::from_utf8_lossy(&done.stderr));
    output
}

/// Each field of the firmware that identifies a cloud, as the kernel has it. The rules are tested in `shared/identify`.
#[test]
#[ignore = "a virtual machine: make slow"]
fn firmware_identifies_each_cloud() {
    for (name, datasource) in [
        // System UUID, product name, asset tag of the chassis, manufacturer.
        ("ec2", "Ec2"),
        ("gce", "GCE"),
        ("azure", "Azure"),
        ("hetzner", "Hetzner"),
    ] {
        let output = boot_as_cloud(name);
        for part in [
            format!("\ncheck for '{datasource}' returned found: dmi "),
            format!("\nFound {datasource} [mode=search, found=all]\n"),
            "\ncloud-init is enabled\n".into(),
        ] {
            assert!(output.contains(&part), "{name}: no {part:?} in\n{output}");
        }
    }
}

/// Two disks that answer every read with an error, and then not at all: the seed on a third one is found within three
/// seconds, and each of the two is reported.
#[test]
#[ignore = "a virtual machine: make slow"]
fn failing_and_hanging_disks_do_not_hide_the_seed() {
    let output = boot_as_cloud("faulty");
    let (errors, hung) = output.split_once("== hung").unwrap_or_else(|| fail(&output));
    for disk in ["/dev/sda", "/dev/sdb"] {
        let failed = format!("ERROR: probing {disk}: reading superblocks: I/O error\n");
        assert_eq!(
            errors.split("== errors").nth(1).unwrap_or_default().matches(&failed).count(),
            1,
            "{output}"
        );
        let silent = format!("ERROR: probing {disk}: timed out\n");
        let log = hung.split("\n== exit").next().unwrap_or_default();
        assert_eq!(log.split("\n[up ").nth(1).unwrap_or_default().matches(&silent).count(), 1, "{output}");
    }
    // The uptimes that the guest printed before and after.
    let second = |text: &str| text.lines().find_map(|line| line.trim().parse::<f64>().ok());
    let before = errors.lines().rev().find_map(|line| line.trim().parse::<f64>().ok());
    let (Some(before), Some(after)) = (before, second(hung)) else { fail(&output) };
    assert!(after - before < 3.0 && output.contains("== hung: exit 0"), "{output}");
}
