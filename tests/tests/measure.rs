//! Measured boots (`tpm2_measure_pcr`): what systemd-pcrextend is asked to extend, in which order, and once in a boot; its
//! failures, which do not stop the boot.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tests::{Boot, Cloud};

const SOCKET: &str = "/run/systemd/io.systemd.PCRExtend";
const USER_DATA: &str = "#cloud-config\npassword: the-secret-password\n";

/// Returns EC2, with user-data and vendor-data, and this setting.
fn cloud(setting: &str) -> Cloud {
    let cloud = Cloud::new("ec2").dhcp(&[]);
    cloud.serve(|server| server["tree"]["user-data"] = USER_DATA.into());
    cloud.config(setting);
    cloud
}

/// Boots the stages that measure; returns the boot with what it has logged.
fn boot(cloud: &Cloud) -> (Boot, String) {
    let before = cloud.file("/var/log/cloud-init.log").len();
    let boot = cloud.boot(&["local", "network"]);
    let log = cloud.file("/var/log/cloud-init.log").split_off(before);
    assert!(!log.contains("the-secret-password"), "{log}");
    (boot, log)
}

/// Returns the call for a file of the machine, by sha256sum(1).
fn call(pcr: u32, name: &str, file: PathBuf) -> Value {
    let output = Command::new("sha256sum").arg(&file).output().expect("sha256sum");
    let text = String::from_utf8_lossy(&output.stdout);
    let digest = text.split(' ').next().unwrap_or_default();
    assert_eq!(digest.len(), 64, "{}", file.display());
    json!({"pcr": pcr, "text": format!("cloud-init:{name}:{digest}")})
}

/// Returns the calls of a boot: the network before user-data.
fn expected(cloud: &Cloud, pcr: u32) -> Vec<Value> {
    [("network-config", "network-config.json"), ("user-data", "user-data.txt")]
        .map(|(name, file)| call(pcr, name, cloud.path(&format!("/var/lib/cloud/instance/{file}"))))
        .into()
}

#[test]
fn network_and_user_data_are_measured_once_in_each_boot() {
    let cloud = cloud("tpm2_measure_pcr: true\n").pcrextend(SOCKET, None);
    let (first, log) = boot(&cloud);
    assert!(first.succeeded(), "{:?}\n{log}", first.codes);
    assert_eq!(cloud.measured(), expected(&cloud, 12), "{log}");
    // Each measurement is logged in one line, before the measured data is applied.
    let at = |part: &str| log.find(part).unwrap_or_else(|| panic!("no {part}\n{log}"));
    assert!(at("PCR 12: measured network-config: cloud-init:network-config:") < at("Applying network conf"));
    assert!(at("PCR 12: measured user-data: cloud-init:user-data:") < at("user-data: 1 parts"));
    assert_eq!(log.matches("PCR 12").count(), 2, "{log}");

    // The same stages again, in this boot: the value of the PCR does not depend on it.
    let (_, log) = boot(&cloud);
    assert_eq!(cloud.measured(), expected(&cloud, 12), "{log}");

    // The next boot of the same instance extends an empty PCR with the same.
    cloud.forget_run();
    let (next, log) = boot(&cloud);
    assert!(next.succeeded() && log.contains("restored from"), "{log}");
    let calls = [expected(&cloud, 12), expected(&cloud, 12)].concat();
    assert_eq!(cloud.measured(), calls, "{log}");
}

#[test]
fn the_image_selects_the_pcr() {
    let cloud = cloud("tpm2_measure_pcr: 15\n").pcrextend(SOCKET, None);
    let (_, log) = boot(&cloud);
    assert_eq!(cloud.measured(), expected(&cloud, 15), "{log}");
}

/// Off by default; user-data cannot switch it on or off.
#[test]
fn without_the_setting_nothing_is_measured() {
    for (setting, user_data, count) in [
        ("", USER_DATA, 0),
        ("tpm2_measure_pcr: false\n", USER_DATA, 0),
        ("", "#cloud-config\ntpm2_measure_pcr: true\n", 0),
        ("tpm2_measure_pcr: true\n", "#cloud-config\ntpm2_measure_pcr: false\n", 2),
    ] {
        let cloud = cloud(setting).pcrextend(SOCKET, None);
        cloud.serve(|server| server["tree"]["user-data"] = user_data.into());
        let (_, log) = boot(&cloud);
        cloud.forget_run();
        let (_, later) = boot(&cloud);
        assert_eq!(cloud.measured().len(), 2 * count, "{setting}{user_data}{log}{later}");
        assert_eq!(log.contains("PCR"), count > 0, "{log}");
    }
}

#[test]
fn invalid_settings_are_reported() {
    let cloud = cloud("tpm2_measure_pcr: 24\n").pcrextend(SOCKET, None);
    let (boot, log) = boot(&cloud);
    assert!(boot.succeeded(), "{log}");
    assert_eq!(cloud.measured(), Vec::<Value>::new());
    let text = "tpm2_measure_pcr: expected true, false or a PCR from 0 to 23; nothing is measured";
    assert!(log.lines().any(|l| l.contains("95-cloud.cfg:") && l.contains(text)), "{log}");
}

/// Vendor-data is acted on, too.
#[test]
fn vendor_data_is_measured_after_user_data() {
    let cloud = Cloud::new("aliyun").dhcp(&[]).pcrextend(SOCKET, None);
    cloud.config("tpm2_measure_pcr: true\n");
    let (_, log) = boot(&cloud);
    let vendor = call(12, "vendor-data", cloud.path("/var/lib/cloud/instance/vendor-data.txt"));
    assert_eq!(cloud.measured(), [expected(&cloud, 12), vec![vendor]].concat(), "{log}");
}

/// A boot whose measurements fail: it does its work, and one line of each stage says so.
fn failing(fault: Option<&str>, reason: &str) {
    let cloud = cloud("tpm2_measure_pcr: true\n");
    let cloud = match fault {
        Some(fault) => cloud.pcrextend(SOCKET, Some(fault)),
        None => {
            cloud.program("without-systemd", "#!/bin/sh\nrmdir /run/systemd/system\nexec \"$@\"\n");
            cloud.wrap("without-systemd")
        }
    };
    let (boot, log) = boot(&cloud);
    assert!(boot.succeeded(), "{:?}\n{log}", boot.codes);
    for name in ["network-config", "user-data"] {
        let beginning = format!("[ERROR]: PCR 12: not measured: {name}: ");
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(&beginning)).collect();
        assert!(
            matches!(&*lines, [line] if line.contains(reason) && !line.contains('\u{1b}')),
            "{lines:?}\n{log}"
        );
    }
    assert!(!log.contains(": measured "), "{log}");
    assert_eq!(cloud.measured(), Vec::<Value>::new());
    assert!(cloud.file("/etc/systemd/network/10-cloud-init-c0.network").contains("DHCP"), "{log}");
    assert_eq!(cloud.file("/var/lib/cloud/instance/user-data.txt"), USER_DATA);
    assert!(cloud.file("/run/cloud-init/status.json").contains("PCR 12: not measured"), "{log}");
}

#[test]
fn machines_without_systemd() {
    failing(None, "connecting to /run/systemd/io.systemd.PCRExtend: No such file");
}

#[test]
fn services_that_fail() {
    failing(Some("refused"), "Connection refused");
    failing(Some("closed"), "io.systemd.PCRExtend.Extend: the service closed the connection");
    failing(Some("garbage"), "io.systemd.PCRExtend.Extend: invalid response");
    failing(Some("io.systemd.System"), "io.systemd.PCRExtend.Extend: error io.systemd.System");
}

#[test]
fn a_silent_service_is_given_up() {
    failing(Some("silent"), "io.systemd.PCRExtend.Extend: timed out waiting for a response");
}

/// What could not be measured in this boot is still due for the stage that runs again.
#[test]
fn a_failed_measurement_is_not_recorded() {
    let cloud = cloud("tpm2_measure_pcr: true\n").pcrextend(SOCKET, Some("second:io.systemd.System"));
    let (_, log) = boot(&cloud);
    assert!(log.contains("PCR 12: not measured: user-data: "), "{log}");
    assert_eq!(cloud.measured(), expected(&cloud, 12)[..1]);
    let record = cloud.file("/run/cloud-init/measured");
    assert!(record.starts_with("12 cloud-init:network-config:") && record.lines().count() == 1, "{record}");
}

/// The local stage may run before the socket: it has systemd start it, which waits for the TPM's driver.
#[test]
fn the_socket_is_started() {
    let cloud = cloud("tpm2_measure_pcr: true\n").pcrextend("/run/host/pcrextend", None);
    cloud.put("/run/systemd/system/unit", "");
    cloud.program(
        "systemctl",
        "#!/bin/sh\necho \"$@\" >>/run/systemctl\n[ \"$*\" != 'start systemd-pcrextend.socket' ] || \
         ln -s /run/host/pcrextend /run/systemd/io.systemd.PCRExtend\n",
    );
    let (boot, log) = boot(&cloud);
    assert!(boot.succeeded(), "{log}");
    assert_eq!(cloud.measured(), expected(&cloud, 12), "{log}");
    let started = cloud.file("/run/systemctl");
    assert_eq!(started.matches("systemd-pcrextend").count(), 1, "{started}");
}

/// systemd starts no socket without a TPM, or without a measured boot.
#[test]
fn a_socket_that_does_not_start() {
    let cloud = cloud("tpm2_measure_pcr: true\n");
    cloud.put("/run/systemd/system/unit", "");
    cloud.program("systemctl", "#!/bin/sh\n");
    let (boot, log) = boot(&cloud);
    assert!(boot.succeeded(), "{log}");
    let reason =
        "systemd-pcrextend.socket is not listening: no TPM, or no measured boot (unified kernel image)";
    assert_eq!(log.matches(reason).count(), 2, "{log}");
}
