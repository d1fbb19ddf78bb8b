//! Media of clouds under the drivers of a virtual machine's kernel (iso9660, vfat), which the kernel of the host may lack. One
//! machine: first it boots the clouds that have an image, each with its own firmware values and from a clean state; then comes
//! its own boot, in which the SMBIOS of VMware and a disc say that it is an OVF appliance. What the images lead to is compared
//! with the records of cloud-init 26.2 in `tests/clouds`.
#![cfg(target_arch = "x86_64")]

use tests::{Machine, add_media_cases, assert_media_case, script, tests_dir};

/// Cases of `tests/clouds`, and the kind of medium that has their data.
const CASES: &[(&str, &str)] = &[
    ("altcloud", "iso"),
    ("altcloud-rhev", "vfat"),
    ("configdrive", "iso"),
    ("ibmcloud", "vfat"),
    ("ibmcloud-template", "vfat"),
    ("nocloud-disk", "vfat"),
    ("opennebula", "iso"),
    ("rbxcloud", "vfat"),
];

/// With the processor's bit for a hypervisor, qemu's own signature would go before SMBIOS.
const FIRMWARE: &[&str] = &[
    "-cpu",
    "max,-cx16,-hypervisor",
    "-uuid",
    "4c4c4544-0047-3510-8056-b4c04f4e3733",
    "-smbios",
    "type=1,manufacturer=VMware,, Inc.,product=VMware20,,1",
];

/// The key that the disc gives to the default user.
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIDdb/1dxYDHpXHWU1WZxm2sG9a9Wc5iV8T2Vn5b1Vuf zoe & co";

#[test]
#[ignore = "a virtual machine: make slow"]
fn media_match_upstream() {
    let machine = Machine::new("vm-media");
    let disk = add_media_cases(&machine, CASES);
    machine.make_disk();
    let disc = machine.scratch("disc").join("image").display().to_string();
    let tree = tests_dir().join("clouds/ovf-disc/disc").display().to_string();
    script("medium", &["iso", &disc, &tree, "OVF ENV"]);
    let drive = format!("file={disc},if=none,id=disc,format=raw,readonly=on");
    let drive = [
        "-device",
        "virtio-scsi-pci,id=discs",
        "-drive",
        &drive,
        "-device",
        "scsi-cd,drive=disc,bus=discs.0",
    ];
    let disk: Vec<&str> = disk.iter().map(String::as_str).collect();
    let boot = machine.boot_vm_with(&[FIRMWARE, &drive, &disk].concat());

    for (case, _) in CASES {
        assert_media_case(&boot, case);
    }
    let diagnostics = || boot.diagnostics();
    // Only the SMBIOS and the disc led ds-identify there.
    let identified = boot.file("/run/cloud-init/ds-identify.log").unwrap_or_default();
    assert!(identified.contains("check for 'OVF' returned found"), "{identified}\n{}", diagnostics());
    let list = boot.file("/run/cloud-init/cloud.cfg").unwrap_or_default();
    assert!(list.contains("datasource_list: [ OVF, None ]"), "{list}\n{}", diagnostics());
    let status = boot.text("status");
    assert!(status.contains("status: done") && status.contains("errors: []"), "{status}\n{}", diagnostics());
    assert_eq!(boot.text("failed"), "", "{}", diagnostics());
    assert_eq!(
        boot.row("passwd", "alice").get(4).map(String::as_str),
        Some("Alice of the disc"),
        "{}",
        diagnostics()
    );
    assert_eq!(boot.text("localtime"), "/usr/share/zoneinfo/Europe/Riga", "{}", diagnostics());
    assert!(boot.text("addresses").contains("10.0.0.77/24"), "{}\n{}", boot.text("addresses"), diagnostics());
    assert_eq!(boot.file("/srv/test/runcmd").as_deref(), Some("ran"), "{}", diagnostics());
    assert_eq!(boot.text("cloud-id"), "ovf", "{}", diagnostics());
    assert_eq!(boot.text("hostname"), "appliance", "{}", diagnostics());
    assert_eq!(boot.file("/var/lib/cloud/data/instance-id").as_deref(), Some("i-disc"), "{}", diagnostics());
    assert_eq!(boot.count("/home/debian/.ssh/authorized_keys", KEY), 1, "{}", diagnostics());
    let data = boot.json("/run/cloud-init/instance-data.json");
    assert_eq!(data["v1"]["subplatform"], "ovf (iso)", "{data}\n{}", diagnostics());
    assert_eq!(
        data["ds"]["meta_data"]["local-hostname"],
        "appliance.example.org",
        "{data}\n{}",
        diagnostics()
    );
}
