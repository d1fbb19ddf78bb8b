//! A measured boot on a virtual machine with UEFI, a TPM (swtpm) and a unified kernel image: systemd-pcrextend extends PCR 12 by
//! what cloud-init was given, at the first boot and, with the same values, at the second. `make slow`.

use encoding::sha::sha256;
use tests::{Facts, Machine, first_boot, not_tried, second_boot, tests_dir};

/// What systemd loads for the TPM, as trixie names it.
const LIBRARIES: &[&str] =
    &["libtss2-esys-3.0.2-0t64", "libtss2-mu-4.0.1-0t64", "libtss2-rc0t64", "libtss2-tcti-device0t64"];
const PCR: &str = "/sys/class/tpm/tpm0/pcr-sha256/12";
const ID: &str = "i-first-0001";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the value of a PCR after it was extended by a text: the digest of its value and of the text's digest.
fn extended(value: &str, text: &str) -> String {
    let byte = |at: usize| u8::from_str_radix(&value[at..at + 2], 16).expect("hexadecimal digits");
    let mut bytes: Vec<u8> = (0..value.len()).step_by(2).map(byte).collect();
    assert_eq!(bytes.len(), 32, "{value}");
    bytes.extend(sha256(text.as_bytes()));
    hex(&sha256(&bytes))
}

/// Checks a boot's measurements; returns the PCR before the local stage, and after the boot.
fn check(boot: &Facts) -> (String, String) {
    let value = |name: &str| boot.text(name).trim().to_lowercase();
    let (before, after) = (value("pcr-before"), value("pcr-after"));
    let log = boot.file("/var/log/cloud-init.log").unwrap_or_default();
    let digests = boot.text("digests");
    let text = |name: &str, file: &str| {
        let digest =
            digests.lines().find_map(|line| line.strip_suffix(file)).unwrap_or_else(|| tests::fail(&digests));
        let text = format!("cloud-init:{name}:{}", digest.trim());
        assert!(log.contains(&format!("PCR 12: measured {name}: {text}")), "{log}");
        assert!(boot.text("measure-log").contains(&text), "{}", boot.text("measure-log"));
        text
    };
    let network = extended(&before, &text("network-config", "network-config.json"));
    let expected = extended(&network, &text("user-data", "user-data.txt"));
    assert_eq!(after, expected, "before: {before}\n{log}\n{}", boot.text("measure-log"));
    eprintln!("PCR 12 before: {before}\nPCR 12 after:  {after}\n{}", boot.text("pcrs"));
    (before, after)
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn pcr_12_is_extended_before_anything_is_applied() {
    if cfg!(not(target_arch = "x86_64")) {
        return not_tried(
            "pcr_12_is_extended_before_anything_is_applied",
            "systemd-stub and OVMF are those of x86-64",
        );
    }
    let machine = Machine::with("vm-measure", LIBRARIES);
    machine.install();
    machine.attach_iso(&tests_dir().join("seeds/typical"));
    machine.write("/etc/cloud/cloud.cfg.d/90-measure.cfg", "tpm2_measure_pcr: true\n");
    machine.write(
        "/etc/systemd/system/pcr-before.service",
        &format!(
            "[Unit]\nDefaultDependencies=no\nBefore=cloud-init-local.service\nRequiresMountsFor=/run\n[Service]\nType=oneshot\n\
             ExecStart=/bin/cp {PCR} /run/pcr-before\n[Install]\nWantedBy=sysinit.target\n"
        ),
    );
    machine.write(
        "/usr/local/sbin/facts-more",
        &format!(
            "#!/bin/sh\ncp /run/pcr-before pcr-before\ncat {PCR} >pcr-after\n\
             cat /run/log/systemd/tpm2-measure.log >measure-log\nsystemd-analyze pcrs 12 >pcrs\n\
             (cd /var/lib/cloud/instance && sha256sum network-config.json user-data.txt) >digests\n"
        ),
    );
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    machine.run(&["systemctl", "enable", "pcr-before.service"]);
    machine.make_disk();
    machine.attach_tpm();
    let first = machine.boot_vm();
    first_boot(&first, ID, "nocloud");
    let values = check(&first);
    assert_ne!(values.0, values.1);
    let second = machine.boot_vm();
    second_boot(&second, &first, ID, "nocloud");
    // What is measured in the second boot is what the first one stored.
    assert_eq!(check(&second), values);
}
