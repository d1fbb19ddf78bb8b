//! Invalid input: with any content of a machine, the rest decides, with the documented exit code, a line in the log for
//! each problem, and never a panic.

// Helpers of tests fail by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod sandbox;

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use sandbox::{Sandbox, iso};

const VM: (&str, &str) = ("SYSTEMD_VIRTUALIZATION", "vm:kvm");
const LIST: &str = "datasource_list: [ NoCloud, ConfigDrive, None ]\n";

/// Returns the exit code, standard error and the log.
fn identify(sandbox: &Sandbox, env: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let output = sandbox.identify(env);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!stderr.contains("panicked"), "{stderr}");
    (output.status.code(), stderr, sandbox.read("/run/cloud-init/ds-identify.log"))
}

#[test]
fn bad_input_is_reported_and_tolerated() {
    type Spoil = fn(&Sandbox);
    let cases: [(&str, &str, Spoil); 16] = [
        ("garbage in DMI", "DMI_SYS_VENDOR=\u{fffd}\\u{0}\u{fffd}\\u{1b}[2J\n", |s| {
            s.write("/sys/class/dmi/id/sys_vendor", b"\xff\0\xfe\\\x1b[2J\n\x01");
        }),
        ("control characters", "KERNEL_CMDLINE=x=\\u{1b}[2J", |s| {
            s.write("/proc/cmdline", "x=\u{1b}[2J\n");
            s.device("sr1", &iso("a\u{1b}b"));
        }),
        ("endless DMI", "product_serial: larger than", |s| {
            s.write("/sys/class/dmi/id/product_serial", vec![b'x'; 4 << 20])
        }),
        ("a directory for DMI", "product_name: is a directory", |s| {
            s.write("/sys/class/dmi/id/product_name/x", "")
        }),
        ("DMI is a file", "", |s| {
            std::fs::remove_dir(s.path("/sys/class/dmi/id")).unwrap();
            s.write("/sys/class/dmi/id", "");
        }),
        (
            "a large configuration file",
            "ERROR: reading /etc/cloud/cloud.cfg.d/85.cfg: larger than 8388608 bytes",
            |s| {
                s.write("/etc/cloud/cloud.cfg.d/85.cfg", LIST);
                let file =
                    std::fs::OpenOptions::new().write(true).open(s.path("/etc/cloud/cloud.cfg.d/85.cfg"));
                file.unwrap().set_len(100 << 20).unwrap();
            },
        ),
        ("a directory for a file", "dir.cfg", |s| s.write("/etc/cloud/cloud.cfg.d/dir.cfg/x", "")),
        ("broken YAML", "invalid YAML", |s| {
            s.write(
                "/etc/cloud/cloud.cfg.d/80.cfg",
                "a: [\n{\ndatasource_list: [ NoCloud, ConfigDrive, None ]\n",
            );
        }),
        ("deep YAML", "", |s| {
            s.write(
                "/etc/cloud/cloud.cfg.d/80.cfg",
                format!("{}\ndatasource_list: [ NoCloud, X, None ]", "[".repeat(100_000)),
            );
        }),
        ("aliases in YAML", "", |s| {
            let mut text = String::from("a0: &a0 [x]\n");
            for n in 1..40 {
                text += &format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}]\n", n - 1);
            }
            s.write("/etc/cloud/cloud.cfg.d/80.cfg", text + LIST);
        }),
        ("bytes that are not UTF-8", "", |s| {
            s.write("/etc/cloud/cloud.cfg.d/80.cfg", b"\xff\xfe\0x: \xc3\x28\n\0".as_slice());
        }),
        ("a file name that is not UTF-8", "", |s| {
            let name = std::ffi::OsStr::from_bytes(b"\xff\xfe.cfg");
            s.write("/etc/cloud/cloud.cfg.d/80.cfg", "");
            std::fs::write(s.path("/etc/cloud/cloud.cfg.d").join(name), "a: b\n").unwrap();
        }),
        ("an endless command line", "/proc/cmdline: larger than", |s| {
            s.write("/proc/cmdline", "x=y ".repeat(300_000))
        }),
        ("settings are a directory", "ds-identify.cfg: not a readable file", |s| {
            s.write("/etc/cloud/ds-identify.cfg/x", "");
        }),
        ("a device without a node", "/dev/vdz: No such file", |s| {
            s.write("/sys/class/block/vdz/size", "2048\n")
        }),
        ("a pipe for a device", "/dev/vdy: not a block device", |s| {
            s.write("/sys/class/block/vdy/size", "2048\n");
            s.write("/dev/x", "");
            let made = std::process::Command::new("mkfifo").arg(s.path("/dev/vdy")).status();
            assert!(made.unwrap().success());
        }),
    ];
    for (number, (name, remark, spoil)) in cases.into_iter().enumerate() {
        let sandbox = Sandbox::new(&format!("hostile{number}"));
        sandbox.write("/etc/cloud/cloud.cfg", LIST);
        sandbox.device("sr0", &iso("cidata"));
        spoil(&sandbox);
        let (code, stderr, log) = identify(&sandbox, &[VM]);
        assert_eq!(
            (code, sandbox.config().as_str()),
            (Some(0), "datasource_list: [ NoCloud, None ]\n"),
            "{name}: {stderr}"
        );
        assert!(remark.is_empty() || log.contains(remark), "{name}: no '{remark}' in\n{log}");
        assert!(!log.contains(['\0', '\u{1b}']), "{name}: {log:?}");
    }
}

/// Runs as another user, who must not read some files and devices: root reads everything.
#[test]
fn unreadable_files_are_reported() {
    let sandbox = Sandbox::new("hostile-closed");
    sandbox.write("/etc/cloud/cloud.cfg", LIST);
    sandbox.write("/etc/cloud/cloud.cfg.d/90.cfg", "datasource_list: [ Ec2 ]\n");
    sandbox.device("sr0", &iso("cidata"));
    sandbox.write("/sys/class/dmi/id/product_serial", "ds=nocloud\n");
    for path in ["/etc/cloud/cloud.cfg.d/90.cfg", "/sys/class/dmi/id/product_serial", "/dev/sr0"] {
        std::fs::set_permissions(sandbox.path(path), std::fs::Permissions::from_mode(0o000)).unwrap();
    }
    let nobody = 65534;
    let mut program = std::process::Command::new(sandbox.path("ds-identify"));
    std::fs::create_dir(sandbox.path("/run/cloud-init")).unwrap();
    if std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0) {
        std::os::unix::fs::chown(sandbox.path("/run/cloud-init"), Some(nobody), None).unwrap();
        // The other user may have no access to the program: a copy replaces the link to it.
        std::fs::remove_file(sandbox.path("/ds-identify")).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_cloud-init-generator"), sandbox.path("/ds-identify")).unwrap();
        std::os::unix::process::CommandExt::uid(&mut program, nobody);
    }
    let output = program.env_clear().env("PATH_ROOT", &sandbox.0).envs([VM]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for part in ["90.cfg: Permission denied", "/dev/sr0: Permission denied"] {
        assert!(stderr.contains(part), "no '{part}' in {stderr}");
    }
}

#[test]
fn labels_that_are_not_utf8_are_tolerated() {
    for (number, label) in
        [&b"\xff\xfe"[..], b"cid\0ata", b"cidata\xff", b"\"'`$(x)\n", b""].into_iter().enumerate()
    {
        let sandbox = Sandbox::new(&format!("hostile-label{number}"));
        sandbox.write("/etc/cloud/cloud.cfg", LIST);
        let mut image = iso("");
        image[16 * 2048 + 40..16 * 2048 + 40 + label.len()].copy_from_slice(label);
        sandbox.device("sr0", &image);
        let (code, stderr, _) = identify(&sandbox, &[VM]);
        assert_eq!(code, Some(1), "{label:?}: {stderr}");
    }
}

/// Tools that hang delay the result by one second each, once. Without other evidence, silence is not an answer: the
/// datasources ask again. One tool that answers is enough.
#[test]
fn programs_that_time_out_leave_the_answer_unknown() {
    const HANGS: &str = "#!/bin/sh\nexec sleep 60\n";
    const NOTHING_SET: &str = "#!/bin/sh\necho 'No value found' >&2\nexit 1\n";
    for (case, vmtoolsd, has_disc, timeouts, list) in [
        ("disc", HANGS, true, 2, "datasource_list: [ NoCloud, None ]\n"),
        ("silent", HANGS, false, 2, "datasource_list: [ VMware, OVF, None ]\n"),
        ("unset", NOTHING_SET, false, 1, "di_report:\n  datasource_list: [  ]\n"),
    ] {
        let sandbox = Sandbox::new(&format!("hostile-tool-{case}"));
        for (tool, text) in [("vmware-rpctool", HANGS), ("vmtoolsd", vmtoolsd)] {
            sandbox.write(&format!("/bin/{tool}"), text);
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(sandbox.path(&format!("/bin/{tool}")), mode).unwrap();
        }
        sandbox.write("/etc/cloud/cloud.cfg", "datasource_list: [ VMware, OVF, NoCloud ]\n");
        if has_disc {
            sandbox.device("sr0", &iso("cidata"));
        }
        let path = format!("{}:/usr/bin:/bin", sandbox.path("/bin").display());
        let (code, stderr, log) =
            identify(&sandbox, &[("SYSTEMD_VIRTUALIZATION", "vm:vmware"), ("PATH", &path)]);
        assert_eq!(code, Some(i32::from(case == "unset")), "{case}: {stderr}");
        assert!(sandbox.config().starts_with(list), "{case}: {}\n{stderr}", sandbox.config());
        assert_eq!(stderr.matches("timed out after 1 s").count(), timeouts, "{case}: {stderr}");
        let is_unknown = log.contains("check for 'OVF' returned unknown");
        assert_eq!(is_unknown, timeouts == 2, "{case}: {log}");
    }
}

/// Random sequences of pieces of all formats, through all parsers.
#[test]
fn any_text_is_parsed_without_panic() {
    #[rustfmt::skip]
    const PIECES: [&str; 46] = [
        "policy", ":", "=", ",", ";", " ", "\n", "\\", "\\\n", "#", "'", "\"", "[", "]", "{", "}", "&a", "*a", "<<",
        "cc:", "datasource_list", "ds=", "ci.di.policy=", "found=first", "report", "é", "\u{fffd}", "\t", "\0", "- ",
        "DI_UNAME_MACHINE='", "DEVNAME=", "LABEL=", "TYPE=iso9660\n", "9p", "aname=drvfs;", "//", "/", "NAME=Ubuntu",
        "VERSION_ID=", "wait=", "because=", "1e999", "-1", "settle", "|\n",
    ];
    let mut state = 1_u64;
    let mut next = |most: usize| {
        // Knuth's MMIX generator, which is reproducible.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    for _ in 0..30_000 {
        let count = 1 + next(24);
        let text: String = (0..count).map(|_| PIECES[next(PIECES.len())]).collect();
        identify::fuzzing::policy(&text);
        identify::fuzzing::settings(&text, &text);
        identify::fuzzing::configuration(&text);
        identify::fuzzing::presets(&text);
        identify::fuzzing::windows(text.as_bytes(), &text);
        identify::fuzzing::undecided_state(&text);
        identify::fuzzing::firmware(&text);
        identify::fuzzing::processes(text.as_bytes(), &text);
    }
}
