//! Services in the format of EC2: its copies, and AliYun.

use serde_json::{Value, json};

use crate::common::{Machine, text};
use crate::server::{Server, network, serve};

#[test]
fn ec2_compatible_clouds_need_no_token() {
    let tree = [
        ("/2009-04-04/meta-data/instance-id", "i-1"),
        (
            "/2009-04-04/meta-data/",
            "instance-id\nlocal-hostname\nplacement/\nblock-device-mapping/\nami-launch-index\ntags/\nnot-there",
        ),
        ("/2009-04-04/meta-data/tags/", "instance/\nother/"),
        ("/2009-04-04/meta-data/tags/instance/", "Name\nodd one"),
        ("/2009-04-04/meta-data/tags/instance/Name", "web"),
        ("/2009-04-04/meta-data/local-hostname", "10.0.0.1"),
        ("/2009-04-04/meta-data/ami-launch-index", "3"),
        ("/2009-04-04/meta-data/placement/", "availability-zone"),
        ("/2009-04-04/meta-data/placement/availability-zone", "gb1-a"),
        ("/2009-04-04/meta-data/block-device-mapping/", "ephemeral0\nroot\nswap\nebs1"),
        ("/2009-04-04/meta-data/block-device-mapping/ephemeral0", "sdb"),
        ("/2009-04-04/meta-data/block-device-mapping/root", "/dev/sda1"),
        ("/2009-04-04/meta-data/block-device-mapping/swap", "sdc"),
        ("/2009-04-04/meta-data/block-device-mapping/ebs1", "sdd"),
        ("/2009-04-04/user-data", "I2Nsb3VkLWNvbmZpZwp7fQo="),
    ];
    let base = serve(&tree);
    let machine = || {
        Machine::new()
            .firmware(&[("product_serial", "srv-1.gb1.brightbox.com\n")])
            .config(&format!("datasource: {{Ec2: {{metadata_urls: ['{base}'], max_wait: 5}}}}"))
            .file("/dev/xvdc", "")
    };
    assert_eq!(machine().find("Ec2").unwrap(), None, "not before the network is up");
    let machine = machine().network_stage();
    let i = machine.found("Ec2");
    assert_eq!((&*i.id, &*i.cloud_name, &*i.platform), ("i-1", "brightbox", "ec2"));
    assert_eq!(
        i.crawled["meta-data"]["tags"],
        json!({"instance": {"Name": "web", "odd one": "(skipped)"}, "other": {"(skipped)": "(skipped)"}})
    );
    assert_eq!(i.crawled["meta-data"].get("not-there"), None);
    assert_eq!(i.subplatform, format!("metadata ({base})"));
    assert_eq!((i.local_hostname.as_deref(), i.launch_index), (Some("ip-10-0-0-1"), Some(3)));
    assert_eq!((i.availability_zone.as_deref(), i.region.as_deref()), (Some("gb1-a"), Some("gb1-")));
    assert_eq!(text(&i.user_data), "#cloud-config\n{}\n");
    // Without a UUID in DMI the result is unknown; with another one it is another machine.
    assert!(matches!(machine.check(&i), datasource::IdentityCheck::Unknown(_)));
    let machine = machine.firmware(&[("product_uuid", "A-1")]);
    let i = machine.found("Ec2");
    assert!(matches!(machine.check(&i), datasource::IdentityCheck::Unknown(_)));
    let machine = machine.firmware(&[("product_uuid", "A-2")]);
    assert!(matches!(machine.check(&i), datasource::IdentityCheck::Different(_)));
    assert_eq!(
        Value::from(i.devices),
        json!({"root": "/dev/sda1", "ephemeral0": "sdb", "swap": "sdc", "ebs1": "sdd"})
    );
    assert_eq!(i.device_search, state::DeviceSearch::Remapped);
    assert!(machine.warnings().contains("no network configuration"), "{}", machine.warnings());
}

/// Returns the version of the metadata that a machine with this firmware reads from a service with these versions, and the
/// requested paths, sorted.
fn version(firmware: &[(&str, &str)], versions: &[&str]) -> (Value, Vec<String>) {
    let files = [("meta-data/", "instance-id\nplacement/"), ("meta-data/instance-id", "i-1")];
    let files = files.into_iter().chain([
        ("meta-data/placement/", "availability-zone"),
        ("meta-data/placement/availability-zone", "gb1-a"),
        ("user-data", "#!/bin/sh\n"),
    ]);
    let tree: Vec<(String, &str)> = files
        .flat_map(|(path, body)| versions.iter().map(move |version| (format!("/{version}/{path}"), body)))
        .collect();
    let tree: Vec<(&str, &str)> = tree.iter().map(|(path, body)| (path.as_str(), *body)).collect();
    let server = Server::of_paths(&tree);
    let base = &server.base;
    let settings =
        format!("datasource: {{Ec2: {{metadata_urls: ['{base}'], max_wait: 5, strict_id: false}}}}");
    let i = Machine::new().firmware(firmware).config(&settings).network_stage().found("Ec2");
    assert_eq!((&*i.id, text(&i.user_data)), ("i-1", "#!/bin/sh\n".into()), "{firmware:?} {versions:?}");
    assert_eq!(i.availability_zone.as_deref(), Some("gb1-a"), "{firmware:?} {versions:?}");
    let mut requests = server.paths();
    requests.sort();
    (i.crawled["_metadata_api_version"].clone(), requests)
}

#[test]
fn expected_version_costs_no_request() {
    const BRIGHTBOX: (&str, &str) = ("product_serial", "srv-1.gb1.brightbox.com\n");
    const ZSTACK: (&str, &str) = ("chassis_asset_tag", "a.zstack.io\n");
    let all = ["2021-03-23", "2018-09-24", "2016-09-02", "2009-04-04"];
    for (firmware, versions, is_expected) in [
        (BRIGHTBOX, &all[3..], true),
        (BRIGHTBOX, &all[2..], false),
        // The newest one counts, although they are requested together.
        (BRIGHTBOX, &all[1..], false),
        (ZSTACK, &all[..], true),
        (ZSTACK, &all[1..], false),
        (ZSTACK, &all[3..], false),
    ] {
        let (found, requests) = version(&[firmware], versions);
        // On an unknown platform one version after another is requested.
        let (_, one_by_one) = version(&[], versions);
        assert_eq!(found, *versions[0], "{firmware:?} {versions:?}");
        assert_eq!(requests == one_by_one, is_expected, "{firmware:?} {versions:?}: {requests:#?}");
    }
}

const ALIYUN_WARNING: &str =
    "AliYun's metadata: public-keys.four: expected SSH keys, found an integer; ignored";
pub const ALIYUN_ALL: &str = r#"{"instance-id": "i-1", "hostname": "ali", "region-id": "cn-x", "n": 4,
    "dns-conf": {"nameservers": "192.0.2.1\r\n192.0.2.2"}, "instance-tags": "{\"a\": \"b\"}",
    "public-keys": {"one": {"openssh-key": "ssh-rsa A\n"}, "two": ["ssh-rsa B"], "three": "ssh-rsa C", "four": 4},
    "network": {"interfaces": {"macs": {"02:00:00:00:00:01": {"ipv6s": "[2001:db8::1]"}}}}}"#;

pub fn aliyun(base: &str, settings: &str) -> Machine {
    Machine::new()
        .firmware(&[("product_name", "Alibaba Cloud ECS")])
        .config(&format!(
            "datasource: {{AliYun: {{metadata_urls: ['{base}'], max_wait: 2, retries: 0{settings}}}}}"
        ))
        .nics(&["eth0", "eth1"])
}

#[test]
fn aliyun_reads_all_metadata_from_one_document() {
    let base = serve(&[
        ("PUT /latest/api/token", "t"),
        ("/2016-01-01/meta-data/all", ALIYUN_ALL),
        ("/2016-01-01/vendor-data", "#!/bin/sh\n"),
    ]);
    let machine = aliyun(&base, ", apply_full_imds_network_config: false");
    let i = machine.found("AliYun");
    assert_eq!((&*i.id, i.local_hostname.as_deref()), ("i-1", Some("ali")));
    assert_eq!(i.public_keys, ["ssh-rsa A", "ssh-rsa B", "ssh-rsa C"]);
    assert_eq!((text(&i.user_data), text(&i.vendor_data)), (String::new(), "#!/bin/sh\n".into()));
    let meta = &i.crawled["meta-data"];
    assert_eq!(meta["dns-conf"]["nameservers"], json!(["192.0.2.1", "192.0.2.2"]));
    assert_eq!((&meta["instance-tags"]["a"], &meta["n"]), (&json!("b"), &json!(4)));
    assert_eq!(network(&i)["apply_full_imds_network_config"], false);
    assert_eq!(machine.warnings(), ALIYUN_WARNING);
    assert_eq!(Machine::new().find("AliYun").unwrap(), None);
}

#[test]
fn aliyun_falls_back_to_the_tree_of_directories() {
    for document in ["", "[]", "{"] {
        let base = serve(&[
            ("PUT /latest/api/token", "t"),
            ("/2016-01-01/meta-data/all", document),
            ("/2016-01-01/meta-data/", "instance-id\npublic-keys/\n"),
            ("/2016-01-01/meta-data/instance-id", "i-2"),
            ("/2016-01-01/meta-data/public-keys/", "0=k"),
            ("/2016-01-01/meta-data/public-keys/0/openssh-key", "ssh-rsa A"),
        ]);
        let machine = aliyun(&base, "");
        let i = machine.found("AliYun");
        let is_read = !document.is_empty();
        assert_eq!(i.id, if is_read { "i-2" } else { "iid-datasource" }, "{document}");
        let warnings = machine.warnings();
        assert_eq!(warnings.contains("reading the tree of directories"), is_read, "{document}: {warnings}");
        assert_eq!((i.local_hostname.as_deref(), i.network), (Some("localhost.localdomain"), None));
        for name in ["hostname", "network"] {
            assert!(warnings.contains(&format!("AliYun's metadata: {name} is missing")), "{warnings}");
        }
    }
}

#[test]
fn aliyun_requires_a_token() {
    for (paths, says) in
        [(&[][..], "status 404: no token received"), (&[("/latest/api/token", "a b")], "not a valid token")]
    {
        let e = aliyun(&serve(paths), "").find("AliYun").unwrap_err().to_string();
        assert!(e.contains(says), "{e}");
    }
}
