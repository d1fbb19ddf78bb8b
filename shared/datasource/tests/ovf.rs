//! OVF: properties of an environment document, the directories of seeds, `seedfrom`, and documents that cannot be used.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Machine, meta, text};
use encoding::base64;

const PATH: &str = "/var/lib/cloud/seed/ovf-env.xml";

fn environment(properties: &[(&str, &str)]) -> String {
    let all: String =
        properties.iter().map(|(k, v)| format!("<Property oe:key=\"{k}\" oe:value=\"{v}\"/>\n")).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <Environment xmlns=\"http://schemas.dmtf.org/ovf/environment/1\"\n\
         xmlns:oe=\"http://schemas.dmtf.org/ovf/environment/1\" oe:id=\"vm-1\">\n\
         <PlatformSection><Kind>Other</Kind></PlatformSection>\n\
         <PropertySection>{all}</PropertySection>\n</Environment>\n"
    )
}

#[test]
fn every_property_is_applied() {
    let all = [
        ("instance-id", "i-ovf"),
        ("hostname", "appliance.example.org"),
        ("public-keys", "ssh-ed25519 AAAA one"),
        ("password", "s3cret"),
        ("user-data", &base64::encode(b"#cloud-config\n{}\n")),
        ("network-config", &base64::encode(b"network: {version: 2}")),
        ("vendor.setting", "7"),
    ];
    let machine = Machine::new().file(PATH, environment(&all));
    let instance = machine.found("OVF");
    assert_eq!((&*instance.id, &*instance.public_keys), ("i-ovf", &["ssh-ed25519 AAAA one".to_string()][..]));
    assert_eq!(instance.local_hostname.as_deref(), Some("appliance.example.org"));
    assert_eq!(instance.config, serde_json::json!({ "password": "s3cret" }));
    assert_eq!(text(&instance.user_data), "#cloud-config\n{}\n");
    assert_eq!(instance.description, format!("DataSourceOVF [seed={PATH}]"));
    assert_eq!((&*instance.cloud_name, instance.subplatform), ("ovf", format!("ovf ({PATH})")));
    // As upstream, only other transports may configure the network.
    assert_eq!(instance.network, None);
    assert!(!meta(&machine.found("OVF")).to_string().contains("s3cret"));
    assert_eq!(machine.warnings(), "");
    let net = machine.network_stage();
    assert_eq!(net.found("OVF").description, format!("DataSourceOVFNet [seed={PATH}]"));
}

#[test]
fn seed_is_found_under_other_names_and_directories() {
    for path in ["/var/lib/cloud/seed/OVF-ENV.XML", "/var/lib/cloud/seed/ovf/ovf-env.xml"] {
        let instance = Machine::new().file(path, environment(&[("user-data", "#!/bin/sh\n")])).found("OVF");
        assert_eq!(instance.description, format!("DataSourceOVF [seed={path}]"));
        // Without an ID; and user-data that is not base64, with the whitespace that an attribute keeps.
        assert_eq!((&*instance.id, text(&instance.user_data)), ("iid-dsovf", "#!/bin/sh ".into()));
    }
    assert_eq!(Machine::new().find("OVF").unwrap(), None);
}

#[test]
fn seedfrom_adds_the_files_of_a_seed() {
    let properties = |base: &str| environment(&[("instance-id", "i-own"), ("seedfrom", base)]);
    let machine = Machine::new()
        .file(PATH, properties("/srv/seed/"))
        .seed("/srv/seed", "{instance-id: i-seed, local-hostname: seeded}", "of the seed")
        .file("/srv/seed/vendor-data", "of the vendor");
    let instance = machine.found("OVF");
    assert_eq!((&*instance.id, instance.local_hostname.as_deref()), ("i-own", Some("seeded")));
    assert_eq!(text(&instance.user_data), "of the seed");
    assert_eq!(text(&instance.vendor_data), "of the vendor");
    assert_eq!(instance.description, format!("DataSourceOVF [seed={PATH},/srv/seed/]"));
    assert_eq!(machine.network_stage().find("OVF").unwrap(), None);
    // Neither the local stage nor None uses the rest of the document if the seed is missing.
    assert!(Machine::new().file(PATH, properties("/srv/none/")).find("OVF").is_err());
    // A server is for the network stage; other URLs are for neither.
    assert_eq!(Machine::new().file(PATH, properties("https://h/")).find("OVF").unwrap(), None);
    let error = Machine::new().file(PATH, properties("gopher://h/")).find("OVF").unwrap_err().to_string();
    assert_eq!(error, format!("{PATH}: seedfrom: expected a path or an http(s) URL"));
}

#[test]
fn unusable_documents_are_errors_with_their_path() {
    for (text, expected) in [
        ("<Environment>", "an element is not closed"),
        ("<!DOCTYPE a><Environment/>", "a document type"),
        ("", "no element found"),
        ("\u{1}", "invalid XML"),
    ] {
        let error = Machine::new().file(PATH, text).find("OVF").unwrap_err().to_string();
        assert!(error.starts_with(PATH) && error.contains(expected), "{error}");
    }
    let error = Machine::new().file(PATH, b"\xff\xfe<\0").find("OVF").unwrap_err().to_string();
    assert_eq!(error, format!("{PATH}: expected UTF-8"));
    let error = Machine::new().file(PATH, vec![b' '; (4 << 20) + 1]).find("OVF").unwrap_err();
    assert!(error.is_too_large(), "{error}");
}

/// An invalid property does not affect the others.
#[test]
fn invalid_properties_do_not_affect_the_others() {
    let text =
        environment(&[("instance-id", ""), ("hostname", "a&#9;b"), ("user-data", ""), ("userData", "x")]);
    let text = text.replace("</PropertySection>", "<Property oe:key=\"password\"/></PropertySection>");
    let machine = Machine::new().file(PATH, text);
    let instance = machine.found("OVF");
    assert_eq!((&*instance.id, &instance.config), ("iid-dsovf", &serde_json::json!({})));
    assert!(instance.user_data.is_empty());
    let expected = format!(
        "{PATH}: property password: the value is missing; ignored\n\
         {PATH}: property userData: not used; its name has to be user-data\nOVF ({PATH}): local-hostname: contains control characters; ignored"
    );
    assert_eq!(machine.warnings(), expected);
}

/// The superblock of an ISO 9660 file system with a label, as a drive's disc.
fn disc(label: &str) -> Vec<u8> {
    let mut image = vec![0_u8; 64 << 10];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    // The primary volume descriptor (ECMA-119, 8.4) and the terminator.
    put(0x8000, b"\x01CD001\x01");
    put(0x8028, format!("{label:32}").as_bytes());
    put(0x8080, &[0x00, 0x08, 0x08, 0x00]);
    put(0x8050, &[32, 0, 0, 0, 0, 0, 0, 32]);
    // The root directory's record (9.1), in the descriptor and in the directory itself: libblkid checks both since
    // util-linux 2.42.
    let mut record = [0_u8; 34];
    record[..18].copy_from_slice(&[34, 0, 18, 0, 0, 0, 0, 0, 0, 18, 0, 8, 0, 0, 0, 0, 8, 0]);
    (record[25], record[28], record[31], record[32]) = (2, 1, 1, 1);
    put(0x809c, &record);
    put(0x9000, &record);
    put(0x8800, b"\xffCD001\x01");
    image
}

fn with_disc(machine: Machine, name: &str, label: &str) -> Machine {
    machine.file(&format!("/sys/class/block/{name}/size"), "128\n").file(&format!("/dev/{name}"), disc(label))
}

/// A disc in a drive is read whatever its label, at its mount point if it is mounted.
#[test]
fn discs_in_drives_are_read_whatever_their_label() {
    let mounts = "/dev/sr0 /media/cd0 iso9660 ro 0 0\n/dev/sr1 /media/cd1 iso9660 ro 0 0\n\
                  /dev/sdb /media/usb iso9660 ro 0 0\n";
    let all = [("instance-id", "i-disc"), ("network-config", &base64::encode(b"network: {version: 2}"))];
    let machine = with_disc(Machine::new(), "sr0", "SOMETHING");
    let machine = with_disc(machine, "sr1", "OTHER").file("/proc/mounts", mounts);
    let machine = machine.file("/media/cd0/OVF_ENV.XML", environment(&all)).file("/media/cd1/x", "");
    let instance = machine.found("OVF");
    assert_eq!((&*instance.id, &*instance.subplatform), ("i-disc", "ovf (iso)"));
    assert_eq!(instance.network.unwrap().content, serde_json::json!({ "version": 2 }));
    assert_eq!(machine.warnings(), "");
    // A disc with an invalid document is reported; messages name its device.
    let machine = machine.file("/media/cd0/OVF_ENV.XML", "<Environment/>");
    let error = machine.find("OVF").unwrap_err().to_string();
    assert_eq!(error, "/dev/sr0:/OVF_ENV.XML: PropertySection is missing");
    // A USB stick is not a drive.
    let stick = with_disc(Machine::new(), "sdb", "OVF ENV").file("/proc/mounts", mounts);
    assert_eq!(stick.file("/media/usb/ovf-env.xml", environment(&all)).find("OVF").unwrap(), None);
}
