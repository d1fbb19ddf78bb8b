//! Config drives of both layouts, valid and damaged, in directories. The expected results are those of Debian's
//! cloud-init 26.2, except where a test says otherwise.

#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::fs::PermissionsExt;

use common::{Machine, meta, text};
use datasource::IdentityCheck;
use serde_json::json;
use state::{DeviceSearch, Instance};

const DRIVE: &str = "/config-drive";

fn drive(files: &[(&str, &str)]) -> Machine {
    Machine::new().files(DRIVE, files)
}

fn found(files: &[(&str, &str)]) -> Instance {
    drive(files).found("ConfigDrive")
}

const WHOLE: &[(&str, &str)] = &[
    (
        "openstack/2015-10-15/meta_data.json",
        r#"{"uuid": "u-1", "hostname": "h.novalocal", "public_keys": {"a": "ssh-rsa A"}, "availability_zone": "nova",
            "random_seed": "YWJj", "files": [{"path": "/injected/a", "content_path": "/content/0000"}],
            "network_config": {"content_path": "/content/0001"}, "meta": {"dsmode": "local"}}"#,
    ),
    ("openstack/2015-10-15/user_data", "ud"),
    ("openstack/2015-10-15/vendor_data.json", r##"{"cloud-init": "#cloud-config"}"##),
    ("openstack/2015-10-15/vendor_data2.json", r#"["a", "b"]"#),
    ("openstack/content/0000", "injected"),
    ("openstack/content/0001", "auto lo\n"),
    ("ec2/latest/meta-data.json", r#"{"block-device-mapping": {"ami": "sda", "ephemeral0": "/dev/sdb"}}"#),
];

/// The order of keys matters to readers that use only the first.
#[test]
fn keys_keep_the_order_of_the_document() {
    let keys = r#"{"uuid": "u-1", "public_keys": {"z": "ssh-rsa Z", "a": "ssh-rsa A", "m": "ssh-rsa M"}}"#;
    let instance = found(&[("openstack/latest/meta_data.json", keys)]);
    assert_eq!(instance.public_keys, ["ssh-rsa Z", "ssh-rsa A", "ssh-rsa M"]);
}

#[test]
fn complete_config_drive_has_devices_and_files() {
    let machine = drive(WHOLE);
    let i = machine.found("ConfigDrive");
    assert_eq!(i.description, "DataSourceConfigDrive [local,ver=2][source=/config-drive]");
    assert_eq!(
        (&*i.id, &*i.dsmode.to_string(), i.local_hostname.as_deref()),
        ("u-1", "local", Some("h.novalocal"))
    );
    assert_eq!(text(&i.vendor_data2), "a|b");
    assert_eq!((i.random_seed.as_deref(), &*i.subplatform), (Some("YWJj"), "seed-dir (/config-drive)"));
    assert_eq!(json!(i.devices), json!({"ami": "sda", "ephemeral0": "/dev/sdb"}));
    assert_eq!(i.device_search, DeviceSearch::RemappedOrLabelled);
    assert_eq!(i.network.as_ref().map(|n| n.format.as_str()), Some("eni"));
    assert_eq!(meta(&i)["instance-id"], "u-1");
    assert_eq!(i.crawled["ec2_metadata"]["block-device-mapping"]["ami"], "sda");
    // Injected for a new instance, readable by root only.
    let injected = machine.host("/injected/a");
    assert_eq!(std::fs::read_to_string(&injected).unwrap(), "injected");
    assert_eq!(std::fs::metadata(&injected).unwrap().permissions().mode() & 0o7777, 0o660);
}

#[test]
fn files_are_injected_once() {
    let machine = drive(WHOLE).file("/var/lib/cloud/data/instance-id", "u-1\n");
    machine.found("ConfigDrive");
    assert!(!machine.sys.exists("/injected/a"));
    let machine = machine.file("/var/lib/cloud/data/instance-id", "u-0\n");
    machine.found("ConfigDrive");
    assert!(machine.sys.exists("/injected/a"));
}

#[test]
fn newest_supported_version_is_used() {
    let at = |version: &str, id: &str| {
        (format!("openstack/{version}/meta_data.json"), format!("{{\"uuid\": \"{id}\"}}"))
    };
    for (there, wanted) in [
        (&["latest"][..], "latest"),
        (&["2012-08-10", "latest"], "2012-08-10"),
        (&["2012-08-10", "2013-04-04", "2018-08-27", "latest"], "2018-08-27"),
        // A later release of OpenStack, which is not supported.
        (&["2016-10-06", "2099-01-01", "latest"], "2016-10-06"),
    ] {
        let files: Vec<_> = there.iter().map(|v| at(v, v)).collect();
        let files: Vec<_> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(found(&files).id, wanted);
    }
}

#[test]
fn the_seed_directory_goes_first() {
    let seed = "/var/lib/cloud/seed/config_drive";
    let machine = drive(WHOLE).files(seed, &[("openstack/latest/meta_data.json", "{\"uuid\": \"seed\"}")]);
    assert_eq!(machine.found("ConfigDrive").id, "seed");
    // A damaged drive is skipped with a warning.
    let machine = machine.files(seed, &[("openstack/latest/meta_data.json", "{")]);
    assert_eq!(machine.found("ConfigDrive").id, "u-1");
    assert!(machine.warnings().contains("meta_data.json:1:1: not valid JSON"), "{}", machine.warnings());
}

#[test]
fn version_1_drives_are_read() {
    let one = found(&[
        (
            "meta.js",
            r#"{"instance-id": "v1", "dsmode": "local", "user-data": "u", "public-keys": "ssh-rsa B"}"#,
        ),
        ("root/.ssh/authorized_keys", "ssh-rsa A\n"),
    ]);
    assert_eq!((&*one.id, &*one.dsmode.to_string(), text(&one.user_data)), ("v1", "local", "u".into()));
    assert_eq!(one.public_keys, ["ssh-rsa B"]);
    assert_eq!(one.description, "DataSourceConfigDrive [local,ver=1][source=/config-drive]");
    // cloud-init fails on the type of these keys.
    let keys = found(&[("root/.ssh/authorized_keys", "ssh-rsa A\n# c\n\nssh-rsa C")]);
    assert_eq!(
        (keys.public_keys, &*keys.id),
        (vec!["ssh-rsa A".into(), "ssh-rsa C".to_string()], "iid-dsconfigdrive")
    );
    let network = found(&[("etc/network/interfaces", "auto lo\n")]);
    assert_eq!((&*network.dsmode.to_string(), network.network.unwrap().format.as_str()), ("net", "eni"));
}

#[test]
fn drive_without_metadata_of_version_2_is_read_as_version_1() {
    let one = ("meta.js", r#"{"instance-id": "v1"}"#);
    for directory in
        ["openstack/content/0000", "openstack/latest/user_data", "openstack/2018-08-27/user_data"]
    {
        let drive = found(&[(directory, "x"), one]);
        assert_eq!((&*drive.id, drive.user_data.is_empty()), ("v1", true), "{directory}");
    }
    let both = found(&[("openstack/latest/meta_data.json", r#"{"uuid": "v2"}"#), one]);
    assert_eq!(both.id, "v2");
    // Metadata that is damaged is not missing.
    let damaged = drive(&[("openstack/latest/meta_data.json", "{"), one]).find("ConfigDrive").unwrap_err();
    assert!(damaged.to_string().contains("meta_data.json:1:1"), "{damaged}");
}

/// cloud-init uses four keys of `meta.js`, and keeps all of them below `meta_js`.
#[test]
fn version_1_has_four_keys() {
    let meta = json!({
        "instance-id": "v1", "public-keys": "# c\nssh-rsa B", "local-hostname": "h", "hostname": "h", "launch-index": 3,
        "availability-zone": "z", "availability_zone": "z", "region": "r", "cloud-name": "n", "custom": 7,
        "placement": {"availability-zone": "z"},
    });
    let instance = found(&[("meta.js", &meta.to_string()), ("etc/network/interfaces", "auto lo\n")]);
    assert_eq!((&*instance.id, &*instance.cloud_name), ("v1", "configdrive"));
    assert_eq!(instance.public_keys, ["ssh-rsa B"]);
    assert_eq!((instance.local_hostname, instance.launch_index), (None, None));
    assert_eq!((instance.availability_zone, instance.region), (None, None));
    let expected = json!({
        "instance-id": "v1", "public-keys": ["ssh-rsa B"], "meta_js": meta, "authorized_keys": "",
        "network_config": "ci-b64:YXV0byBsbwo=",
    });
    assert_eq!(instance.crawled["meta_data"], expected);
}

#[test]
fn only_the_administrator_selects_dsmode() {
    let meta = |more: &str| {
        found(&[("openstack/latest/meta_data.json", &format!("{{\"uuid\": \"u\"{more}}}"))])
            .dsmode
            .to_string()
    };
    assert_eq!(meta(""), "net");
    assert_eq!(meta(r#", "dsmode": "local""#), "net");
    assert_eq!(meta(r#", "meta": {"dsmode": "pass"}"#), "net");
    let uuid = [("openstack/latest/meta_data.json", "{\"uuid\": \"u\"}")];
    let own = |mode: &str| drive(&uuid).config(&format!("datasource: {{ConfigDrive: {{dsmode: {mode}}}}}"));
    assert_eq!(own("local").found("ConfigDrive").dsmode.to_string(), "local");
    assert_eq!(own("disabled").find("ConfigDrive").unwrap(), None);
}

#[test]
fn vendor_data_is_text_or_the_key_cloud_init() {
    for (json, wanted) in [
        ("null", ""),
        ("\"\"", ""),
        ("\"#!/bin/sh\"", "#!/bin/sh"),
        (r#"{"other": 1}"#, ""),
        (r#"{"cloud-init": ["a", "b"]}"#, "a|b"),
        (r#"{"cloud-init": {"cloud-init": "x"}}"#, ""),
    ] {
        let files = [
            ("openstack/latest/meta_data.json", "{\"uuid\": \"u\"}"),
            ("openstack/latest/vendor_data.json", json),
        ];
        assert_eq!(text(&found(&files).vendor_data), wanted, "{json}");
    }
}

#[test]
fn empty_network_data_counts() {
    let with = |json: &str| {
        found(&[
            ("openstack/latest/meta_data.json", "{\"uuid\": \"u\"}"),
            ("openstack/latest/network_data.json", json),
        ])
        .network
    };
    assert_eq!(with("null"), None);
    // An empty configuration counts: nothing is configured.
    assert_eq!(with("{}").unwrap().format.as_str(), "network_data.json");
}

#[test]
fn broken_drives_are_rejected_or_reported() {
    const META: &str = "openstack/latest/meta_data.json";
    let good = (META, "{\"uuid\": \"u\"}");
    for (files, message) in [
        (&[(META, "{")][..], "meta_data.json:1:1"),
        (&[(META, "[]")], "expected a map"),
        (&[(META, "{\"hostname\": \"h\"}")], "no uuid"),
        (&[(META, "{\"uuid\": null}")], "no uuid"),
        (
            &[
                ("openstack/2018-08-27/user_data", "x"),
                ("openstack/2012-08-10/meta_data.json", "{\"uuid\": \"u\"}"),
            ],
            "is missing",
        ),
        (&[("meta.js", "[")], "meta.js:1:1"),
        (&[("meta.js", "[]")], "expected a map"),
    ] {
        let e = drive(files).find("ConfigDrive").unwrap_err().to_string();
        assert!(e.contains(message), "{files:?}: {e}");
    }
    // Files without a place or a content are skipped.
    for (files, message) in [
        (r#"[{"path": "/a", "content_path": "/content/0"}]"#, "content/0 is missing"),
        (r#"[{"path": "/a", "content_path": "../../etc/shadow"}]"#, "a content path contains '..'"),
        (r#"[{"path": "/a"}]"#, "files[0].content_path is missing"),
        ("[1, null]", "files[0]: expected a map"),
    ] {
        let machine = drive(&[(META, &format!(r#"{{"uuid": "u", "files": {files}}}"#))]);
        assert_eq!(machine.found("ConfigDrive").id, "u");
        assert!(machine.warnings().contains(message), "{}", machine.warnings());
    }
    let deep = "[".repeat(100_000);
    assert!(drive(&[(META, &deep)]).find("ConfigDrive").is_err());
    assert!(
        Machine::new().file(&format!("{DRIVE}/{META}"), b"{\"uuid\": \"\xff\"}").find("ConfigDrive").is_err()
    );
    // Optional parts: reported, and the drive is used.
    for (file, message) in [
        (("openstack/latest/vendor_data.json", "{"), "vendor_data.json:1:1"),
        (("openstack/latest/vendor_data2.json", "["), "vendor_data2.json:1:1"),
        (("openstack/latest/network_data.json", "\n\n}"), "network_data.json:3:1"),
    ] {
        let odd = drive(&[good, file]);
        assert_eq!(odd.found("ConfigDrive").id, "u", "{file:?}");
        assert!(odd.warnings().contains(message), "{file:?}: {}", odd.warnings());
    }
    let huge = drive(&[good, ("openstack/latest/user_data", "")]);
    let path = huge.host(&format!("{DRIVE}/openstack/latest/user_data"));
    std::fs::File::create(path).unwrap().set_len(70 << 20).unwrap();
    let instance = huge.found("ConfigDrive");
    assert_eq!((&*instance.id, instance.user_data.is_empty()), ("u", true));
    let message = "user_data: larger than 67108864 bytes (73400320 bytes)";
    assert!(huge.warnings().contains(message), "{}", huge.warnings());
    // Half of a surrogate pair in a name.
    let cut = drive(&[(META, r#"{"uuid": "u", "hostname": "h\ud83d"}"#)]).found("ConfigDrive");
    assert_eq!(cut.local_hostname.as_deref(), Some("h\u{fffd}"));
    let odd = drive(&[(META, r#"{"uuid": 12, "random_seed": "!!"}"#), ("ec2/latest/meta-data.json", "{")]);
    let instance = odd.found("ConfigDrive");
    assert_eq!((&*instance.id, instance.random_seed), ("12", None));
    assert!(odd.warnings().contains("random_seed: not base64") && odd.warnings().contains("EC2 part"));
}

#[test]
fn machine_without_a_drive_has_no_instance() {
    assert_eq!(Machine::new().find("ConfigDrive").unwrap(), None);
    assert_eq!(drive(&[("x", "y")]).find("ConfigDrive").unwrap(), None);
}

#[test]
fn cached_instance_is_compared_with_the_dmi_uuid() {
    let machine = Machine::new().file("/sys/class/dmi/id/product_uuid", "ABCD-1\n");
    let ask = |id: &str| {
        machine.check(&Instance { id: id.into(), datasource: "ConfigDrive".into(), ..Instance::default() })
    };
    assert_eq!(ask("abcd-1"), IdentityCheck::Same);
    assert!(matches!(ask("i-2"), IdentityCheck::Unknown(_)));
}
