//! Azure in a directory: pools, and which temporary disks may be formatted again. With its services:
//! `tests/tests/azure.rs`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
#[path = "../../blockdev/tests/common/udf.rs"]
mod udf;

use common::Machine;
use datasource::{Nics, Search, Stage, datasource};
use state::{Instance, Layout};
use system::{System, WriteOptions};

const FILE: &str = "/var/lib/cloud/seed/azure/ovf-env.xml";
const DISK: &str = "/dev/disk/cloud/azure_resource";
/// Settings for a metadata service that does not answer.
const SERVICE: &str = "metadata_urls: ['http://127.0.0.1:9'], max_wait: 1";
const UUID: &str = "a1b2c3d4-0102-0304-90a0-0123456789ab";

fn ovf_env(platform: &str) -> String {
    format!(
        "<o:Environment xmlns:o=\"http://schemas.dmtf.org/ovf/environment/1\" \
         xmlns=\"http://schemas.microsoft.com/windowsazure\"><ProvisioningSection><LinuxProvisioningConfigurationSet>\
         <HostName>one</HostName></LinuxProvisioningConfigurationSet></ProvisioningSection>\
         <PlatformSettingsSection><PlatformSettings>{platform}</PlatformSettings></PlatformSettingsSection>\
         </o:Environment>"
    )
}

/// A machine whose metadata service does not answer.
fn machine(platform: &str) -> Machine {
    let firmware = [("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n"), ("product_uuid", UUID)];
    Machine::new()
        .firmware(&firmware)
        .file(FILE, ovf_env(platform))
        .config(&format!("datasource: {{Azure: {{{SERVICE}}}}}\n"))
}

/// An image or a plan of a machine in a pool neither waits nor becomes an instance of the pool.
#[test]
fn images_and_plans_do_not_wait_for_reprovisioning() {
    let plain = machine("").found("Azure");
    assert_eq!((&*plain.id, plain.local_hostname.as_deref()), (UUID, Some("one")));
    for platform in [
        "<PreprovisionedVm>true</PreprovisionedVm>",
        "<PreprovisionedVMType>Running</PreprovisionedVMType>",
        "<PreprovisionedVMType>Savable</PreprovisionedVMType>",
        "<PreprovisionedVMType>PreprovisionedOSDisk</PreprovisionedVMType>",
    ] {
        let machine = machine(platform);
        let error = machine.find("Azure").unwrap_err().to_string();
        assert!(error.contains("pre-provisioned and waits for reprovisioning"), "{platform}: {error}");
        assert!(!machine.sys.exists("/var/lib/cloud/data/reported_ready"), "{platform}");
        assert!(!machine.sys.exists("/var/lib/waagent/ovf-env.xml"), "{platform}");
    }
    let restarted = machine("").file("/var/lib/cloud/data/reported_ready", "1: 2\n");
    assert!(restarted.find("Azure").unwrap_err().to_string().contains("waits for reprovisioning"));
}

#[test]
fn disk_aliases_are_names_of_devices() {
    for (aliases, expected) in [
        ("", serde_json::json!({ "ephemeral0": DISK })),
        (
            "disk_aliases: {data: /dev/sdc, bad: 1}",
            serde_json::json!({ "data": "/dev/sdc", "ephemeral0": DISK }),
        ),
        ("disk_aliases: {ephemeral0: /dev/sdb}", serde_json::json!({ "ephemeral0": "/dev/sdb" })),
    ] {
        let machine = machine("").config(&format!("datasource: {{Azure: {{{SERVICE}, {aliases}}}}}\n"));
        assert_eq!(serde_json::Value::from(machine.found("Azure").devices), expected);
    }
}

#[test]
fn the_firmwares_seed_is_for_root_only() {
    let instance = machine("").file("/sys/firmware/acpi/tables/OEM0", "seed").found("Azure");
    assert!(instance.random_seed.is_some() && instance.sensitive.contains(&"random_seed".to_string()));
}

/// Azure's discs are UDF. Such a disc is read at its mount point; another file system is not.
#[test]
fn only_udf_discs_are_read() {
    let with_disc = |image: Vec<u8>| {
        Machine::new()
            .firmware(&[("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n"), ("product_uuid", UUID)])
            .config("datasource: {Azure: {metadata_urls: ['http://127.0.0.1:9'], max_wait: 1}}\n")
            .file("/sys/class/block/sr0/size", format!("{}\n", udf::KIB * 2))
            .file("/dev/sr0", image)
            .file("/proc/mounts", "/dev/sr0 /media/cd0 udf ro 0 0\n")
            .file("/media/cd0/ovf-env.xml", ovf_env(""))
    };
    let machine = with_disc(udf::disc());
    let instance = machine.found("Azure");
    assert_eq!(
        (instance.local_hostname.as_deref(), &*instance.subplatform),
        (Some("one"), "config-disk (/dev/sr0)")
    );
    let machine = with_disc(ntfs());
    assert!(machine.find("Azure").is_err());
    assert!(machine.has_waited_for_devices(), "its drive may still appear");
    assert!(machine.warnings().contains("ovf-env.xml not found"), "{}", machine.warnings());
}

/// The file is read up to 4 MiB, before its XML is parsed; a larger one is ignored.
#[test]
fn ovf_env_is_limited_in_size() {
    let padded = |size: usize| {
        let text = ovf_env("");
        let space = " ".repeat(size - text.len());
        machine("").file(FILE, text + &space)
    };
    assert_eq!(padded(4 << 20).found("Azure").local_hostname.as_deref(), Some("one"));
    let machine = padded((4 << 20) + 1);
    assert!(machine.find("Azure").is_err());
    let warnings = machine.warnings();
    assert!(warnings.contains(&format!("reading {FILE}: larger than 4194304 bytes")), "{warnings}");
    assert!(warnings.contains("ovf-env.xml not found"), "{warnings}");
}

/// The elements of ovf-env.xml that are read.
const ELEMENTS: [(&str, &str); 8] = [
    ("HostName", "one"),
    ("UserName", "zoe"),
    ("UserPassword", "a password"),
    ("CustomData", "I2Nsb3VkLWNvbmZpZwp7fQo="),
    ("DisableSshPasswordAuthentication", "false"),
    ("Value", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA one"),
    ("PreprovisionedVm", "false"),
    ("ProvisionGuestProxyAgent", "false"),
];

/// Returns a file in which one element has another value, or is missing.
fn with_element(name: &str, value: Option<&str>) -> String {
    let element = |of: &str| {
        let good = ELEMENTS.iter().find(|(name, _)| *name == of).map(|(_, good)| *good);
        let text = if of == name { value } else { good };
        text.map(|text| format!("<{of}>{text}</{of}>")).unwrap_or_default()
    };
    let linux =
        ["UserName", "UserPassword", "CustomData", "DisableSshPasswordAuthentication"].map(element).concat();
    let keys = format!("<SSH><PublicKeys><PublicKey>{}</PublicKey></PublicKeys></SSH>", element("Value"));
    let platform = ["PreprovisionedVm", "ProvisionGuestProxyAgent"].map(element).concat();
    ovf_env(&platform).replace("<HostName>one</HostName>", &format!("{}{linux}{keys}", element("HostName")))
}

/// Each element, missing, huge, with control characters, with elements in the place of text, twice. Either the
/// others are used, or the file is unusable, as for cloud-init, and one message names the element. No value is repeated.
#[test]
fn invalid_elements_of_ovf_env_are_named_without_their_value() {
    // A file without a hostname is not Azure's, and a password or custom data cannot be used in part.
    let is_fatal = |name: &str, what: &str| match name {
        "HostName" => what == "missing",
        "UserPassword" => what == "huge",
        "CustomData" => matches!(what, "control characters"),
        _ => false,
    };
    let huge = "x".repeat(17 << 10);
    for (name, good) in ELEMENTS {
        for (what, value) in [
            ("good", Some(good)),
            ("missing", None),
            ("empty", Some("")),
            ("elements", Some("<x><y>1</y></x>")),
            ("huge", Some(huge.as_str())),
            ("control characters", Some("a\u{85}b&#9;c&#10;d")),
        ] {
            let place = format!("{name}, {what}");
            let machine = machine("").file(FILE, with_element(name, value));
            let found = machine.find("Azure");
            // Without an instance the failure is in the error.
            let error = found.as_ref().err().map(ToString::to_string).unwrap_or_default();
            let warnings = machine.warnings() + &error;
            assert!(warnings.lines().all(|line| line.len() < 1000), "{place}: {warnings:.2000}");
            assert!(!warnings.contains(|c: char| c.is_control() && c != '\n'), "{place}: {warnings:?}");
            if is_fatal(name, what) {
                assert!(warnings.contains(name), "{place}: {warnings}");
                continue;
            }
            let instance = found.ok().flatten().unwrap_or_else(|| panic!("{place}: {warnings}"));
            assert_eq!(instance.id, UUID, "{place}");
            let is_bad =
                |text: &str| text.len() >= huge.len() || text.contains(|c: char| c.is_control() && c != '\n');
            let host = instance.local_hostname.unwrap_or_default();
            assert!(!is_bad(&host), "{place}: {host:?}");
            assert!(
                !instance.public_keys.iter().any(|key| is_bad(key)),
                "{place}: {:?}",
                instance.public_keys
            );
            let config = instance.config.to_string();
            assert!(config.len() < huge.len() && !config.contains("\\u0085"), "{place}: {config:.400}");
            // The other elements have the values of a valid file.
            assert!(name == "HostName" || host == "one", "{place}: {host}");
            assert!(name == "Value" || instance.public_keys.len() == 1, "{place}");
            assert!(
                name == "CustomData" || common::text(&instance.user_data) == "#cloud-config\n{}\n",
                "{place}"
            );
            assert!(name == "UserName" || config.contains("\"zoe\""), "{place}: {config}");
            // A password is hashed, and custom data may have any content.
            if matches!(what, "huge" | "control characters")
                && matches!(name, "HostName" | "UserName" | "Value")
            {
                assert!(
                    warnings.contains(&format!(
                        "ovf-env.xml: {}{name}: ",
                        if name == "Value" { "PublicKey." } else { "" }
                    )),
                    "{place}: {warnings}"
                );
            }
        }
    }
}

/// A file system as blkid recognises it: a boot sector and the records of the files of the file system itself.
fn ntfs() -> Vec<u8> {
    const TABLE: usize = 4 * 4096;
    let mut image = vec![0; 256 << 10];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(3, b"NTFS    ");
    put(11, &512_u16.to_le_bytes());
    put(13, &[8]);
    put(21, &[0xf8]);
    put(40, &511_u64.to_le_bytes());
    put(48, &4_u64.to_le_bytes());
    put(56, &8_u64.to_le_bytes());
    put(64, &[0xf6]);
    put(68, &[1]);
    put(72, &[1, 2, 3, 4, 5, 6, 7, 8]);
    put(510, &[0x55, 0xaa]);
    for record in 0..4 {
        let at = TABLE + record * 1024;
        put(at, b"FILE");
        put(at + 20, &56_u16.to_le_bytes());
        put(at + 24, &64_u32.to_le_bytes());
        put(at + 28, &1024_u32.to_le_bytes());
        put(at + 56, &u32::MAX.to_le_bytes());
    }
    image
}

struct NoNics;

impl datasource::Machine for NoNics {
    fn nics(&self) -> Nics {
        Nics::default()
    }

    fn wait_for_devices(&self) {}
}

/// Returns whether the disk is overwritten after the hook, and whether the modules for it are due again.
fn is_due_again(sys: &System, settings: &str, is_new: bool) -> (bool, bool) {
    let (layout, config) = (Layout::default(), config::yaml::parse("x", settings).unwrap().root);
    let semaphores =
        ["config_disk_setup", "config_mounts"].map(|name| layout.instance(&format!("sem/{name}")));
    for path in &semaphores {
        sys.write(path, "1: 2\n", WriteOptions::default()).unwrap();
    }
    let ctx = Search {
        sys,
        layout: &layout,
        config: &config,
        command_line: "",
        stage: Stage::Network,
        machine: &NoNics,
        has_cached_instance: true,
    };
    let mut instance = Instance::default();
    (datasource("Azure").unwrap().setup.unwrap())(&ctx, &mut instance, is_new).unwrap();
    let left = semaphores.iter().filter(|path| sys.exists(path)).count();
    assert!(left == 0 || left == 2);
    (instance.config["disk_setup"]["ephemeral0"]["overwrite"] == true, left == 0)
}

#[test]
fn temporary_disks_with_other_content_are_kept() {
    for (name, partitions, settings) in [
        ("no disk", &[][..], ""),
        ("no partition", &[("", &b"x"[..])], ""),
        ("another file system", &[("", b"x"), ("-part1", b"x")], ""),
        ("the first of two", &[("", b"x"), ("-part1", b"NTFS"), ("-part2", b"x")], ""),
        ("three", &[("", b"x"), ("-part1", b"NTFS"), ("-part2", b"NTFS"), ("-part3", b"NTFS")], ""),
        (
            "as configured",
            &[("", b"x"), ("-part1", b"NTFS")],
            "datasource: {Azure: {never_destroy_ntfs: true}}",
        ),
        (
            "another one as ephemeral0",
            &[("", b"x"), ("-part1", b"NTFS")],
            "datasource: {Azure: {disk_aliases: {ephemeral0: /dev/sdz}}}",
        ),
        // The disk cannot be mounted here, as it is a file. The kernel of this machine supports NTFS.
        ("not readable", &[("", b"x"), ("-part1", b"NTFS")], ""),
    ] {
        let mut machine = Machine::new().file("/proc/filesystems", "nodev\tsysfs\n\tntfs3\n");
        for (partition, content) in partitions {
            let content = if *content == b"NTFS" { ntfs() } else { content.to_vec() };
            machine = machine.file(&format!("{DISK}{partition}"), content);
        }
        for is_new in [false, true] {
            assert_eq!(is_due_again(&machine.sys, settings, is_new), (false, false), "{name}");
        }
    }
    let machine = Machine::new().file("/image", ntfs());
    assert_eq!(blockdev::probe_path(&machine.sys, "/image").unwrap().unwrap().fstype, "ntfs");
}

/// The only partition, or the second of two, has nothing but what Azure puts there: it is formatted, and if this is not the
/// instance's first boot, the modules for it are due again. One more file prevents both.
#[test]
fn temporary_disks_with_only_the_notice_are_formatted_again() {
    for (partitions, last) in [(&["-part1"][..], "-part1"), (&["-part1", "-part2"], "-part2")] {
        let mut machine = Machine::new()
            .file(DISK, "x")
            .file("/proc/mounts", format!("{DISK}{last} /mnt/resource ntfs ro 0 0\n"))
            .file("/mnt/resource/DATALOSS_WARNING_README.txt", "of Azure")
            .file("/mnt/resource/System Volume Information/tracking.log", "of Windows");
        for partition in partitions {
            machine = machine.file(&format!("{DISK}{partition}"), ntfs());
        }
        assert_eq!(is_due_again(&machine.sys, "", false), (true, true), "{last}");
        assert_eq!(is_due_again(&machine.sys, "", true), (true, false), "{last}");
        let never = "datasource: {Azure: {never_destroy_ntfs: true}}";
        assert_eq!(is_due_again(&machine.sys, never, false), (false, false), "{last}");
        assert_eq!(machine.warnings(), "");
        let machine = machine.file("/mnt/resource/database", "of the owner");
        assert_eq!(is_due_again(&machine.sys, "", false), (false, false), "{last}");
        assert!(machine.warnings().contains("has 1 files; to keep such a disk"), "{}", machine.warnings());
    }
}
