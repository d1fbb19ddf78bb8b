//! Clouds with a metadata service, without a network: their services on loopback, the machine in a directory. Tests that
//! need a real network are among the whole-program tests.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use common::{Machine, text};
use serde_json::{Value, json};

/// A server on loopback with these paths, which may have a method before them; everything else is 404. It ends with the
/// process.
fn serve(paths: &[(&str, &str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let paths: Vec<(String, String)> = paths.iter().map(|(p, b)| ((*p).into(), (*b).into())).collect();
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            let mut lines = BufReader::new(peer.try_clone().unwrap()).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let path = first.split(' ').nth(1).unwrap_or_default();
            let method = first.split(' ').next().unwrap_or_default();
            let named = format!("{method} {path}");
            let (status, body) = match paths.iter().find(|(p, _)| p == path || *p == named) {
                Some((_, body)) => (200, body.as_str()),
                None => (404, ""),
            };
            let (length, body) = if body == HUGE { (70 << 20, "") } else { (body.len(), body) };
            let _ = write!(peer, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
        }
    });
    base
}

/// The body stands for one that exceeds the size limit.
const HUGE: &str = "huge";

fn network(instance: &state::Instance) -> Value {
    instance.network.as_ref().unwrap().content.clone()
}

#[test]
fn ec2s_copies_need_no_token() {
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
    // There is no disk for ephemeral0; swap's has another name.
    assert_eq!(Value::from(i.devices), json!({"root": "/dev/sda1", "swap": "xvdc", "ebs1": "sdd"}));
    assert!(machine.warnings().contains("no network configuration"), "{}", machine.warnings());
}

#[test]
fn hetzners_private_networks() {
    let metadata = "instance-id: 42\nhostname: h.example\nnetwork-config: {version: 1, config: [{type: physical, name: eth0}]}\n";
    let base = serve(&[
        ("/metadata", metadata),
        (
            "/metadata/private-networks",
            "[{mac_address: '02:00:00:00:00:02'}, {mac_address: '02:00:00:00:00:77'}]",
        ),
        ("/userdata", "plain"),
    ]);
    let machine = |serial: &str| {
        Machine::new()
            .firmware(&[("sys_vendor", "Hetzner"), ("product_serial", serial)])
            .config(&format!("datasource: {{Hetzner: {{metadata_urls: ['{base}'], max_wait: 5}}}}"))
            .nics(&["eth0", "ens10"])
    };
    let one = machine("42");
    let i = one.found("Hetzner");
    assert_eq!(
        (&*i.id, i.local_hostname.as_deref(), &*text(&i.user_data)),
        ("42", Some("h.example"), "plain")
    );
    let private = json!({"type": "physical", "mac_address": "02:00:00:00:00:02", "name": "ens10",
                         "subnets": [{"ipv4": true, "type": "dhcp"}]});
    assert_eq!(network(&i)["config"], json!([{"type": "physical", "name": "eth0"}, private]));
    assert!(one.warnings().contains("02:00:00:00:00:77"));
    assert_eq!(one.check(&i), datasource::IdentityCheck::Same);
    let other = machine("43");
    assert!(other.find("Hetzner").unwrap_err().to_string().contains("'42'"));
    assert!(matches!(other.check(&i), datasource::IdentityCheck::Different(_)));
    assert_eq!(Machine::new().find("Hetzner").unwrap(), None);
}

#[test]
fn vultrs_further_nics() {
    let document = |more: &str| {
        format!(
            r#"{{"instance-v2-id": "v-1", "hostname": "", "region": {{"regioncode": "EWR"}}, {more} "interfaces": [
            {{"mac": "02:00:00:00:00:01", "ipv4": {{}}, "routes": [{{"network": "10.9.0.0", "prefix": 16}}]}},
            {{"mac": "02:00:00:00:00:02", "mtu": 1450, "ipv4": {{"address": "10.1.0.2", "netmask": "255.255.0.0"}}}},
            {{"mac": "02:00:00:00:00:03", "unconfigured": true}}]}}"#
        )
    };
    let found = |document: String| {
        let base = serve(&[("/v1.json", &document)]);
        Machine::new()
            .firmware(&[("sys_vendor", "Vultr")])
            .config(&format!("datasource: {{Vultr: {{url: '{base}', retries: 0}}}}"))
            .nics(&["enp1s0", "enp6s0", "enp7s0"])
            .found("Vultr")
    };
    let i = found(document(""));
    assert_eq!((i.local_hostname.as_deref(), i.region.as_deref()), (Some("guest"), Some("ewr")));
    let config = network(&i)["config"].as_array().unwrap().clone();
    assert_eq!(config.len(), 3);
    assert_eq!(config[1]["subnets"][0]["routes"], json!([{"network": "10.9.0.0", "prefix": 16}]));
    assert_eq!(config[2]["name"], "enp6s0");
    assert_eq!(
        config[2]["subnets"],
        json!([{"type": "static", "control": "auto", "address": "10.1.0.2", "netmask": "255.255.0.0"}])
    );
    let given = r#""cloud_interfaces": {"version": 1, "config": [{"name": "x", "mac_address": "02:00:00:00:00:02"}]},"#;
    let i = found(document(given));
    assert_eq!(network(&i)["config"][0]["name"], "enp6s0");
    // The instance data has it too.
    assert_eq!(common::meta(&i)["cloud_interfaces"]["config"][0]["name"], "enp6s0");
}

#[test]
fn akamai_token_and_flags() {
    let base = serve(&[
        ("/v1/token", "secret"),
        ("/v1/instance", r#"{"id": 77, "label": "web", "region": "us-ord"}"#),
        ("/v1/user-data", "I2Nsb3VkLWNvbmZpZwp7fQo="),
    ]);
    let machine = |flags: &str| {
        Machine::new()
            .firmware(&[("sys_vendor", "Linode"), ("product_serial", "77"), ("board_serial", flags)])
            .config(&format!("datasource: {{Akamai: {{base_urls: {{ipv4: '{base}'}}, allow_ipv6: false}}}}"))
            .nics(&["eth0"])
    };
    let one = machine("");
    let i = one.found("Akamai");
    assert_eq!(
        (&*i.id, i.region.as_deref(), &*text(&i.user_data)),
        ("77", Some("us-ord"), "#cloud-config\n{}\n")
    );
    assert_eq!(one.check(&i), datasource::IdentityCheck::Same);
    // Disabled in this stage, or in all stages, so that only DMI's data is left.
    assert_eq!(machine("als=0;pmp=02:0").find("Akamai").unwrap(), None);
    assert_eq!(machine("dhcp=0").find("Akamai").unwrap(), None);
    let local = machine("v4=0;").found("Akamai");
    assert_eq!((&*local.id, local.user_data.is_empty()), ("77", true));
    assert_eq!(Machine::new().find("Akamai").unwrap(), None);
}

/// Paths, addresses of one family and preferred NICs can be configured; flags in DMI override the latter.
#[test]
fn akamai_settings() {
    let base = serve(&[
        ("PUT /t", "secret"),
        ("/v1/instance", r#"{"id": [7], "region": 5}"#),
        ("/data/user", "no base64!"),
    ]);
    let machine = |flags: &str, prefixes: &str| {
        Machine::new()
            .firmware(&[("sys_vendor", "Akamai"), ("product_serial", "79"), ("board_serial", flags)])
            .config(&format!(
                "datasource: {{Akamai: {{base_urls: {{ipv4: '{base}/'}}, allow_ipv6: false, \
                 paths: {{token: /t, userdata: /data/user}}, preferred_mac_prefixes: {prefixes}}}}}"
            ))
            .nics(&["eth0", "eth1"])
    };
    let one = machine("", "['ff:', '02:00:00:00:00:02']");
    let i = one.found("Akamai");
    assert_eq!((&*i.id, i.region.as_deref(), &*text(&i.user_data)), ("79", Some("5"), "no base64!"));
    let said = one.warnings();
    assert!(said.contains("Akamai's metadata: id: expected text, found a list; ignored"), "{said}");
    assert!(said.contains("not valid base64") && !said.contains("no NIC"), "{said}");
    let other = machine("pmp=0a:,0b:", "['02:']");
    other.found("Akamai");
    assert!(other.warnings().contains("no NIC with a MAC that begins with 0a:,0b:"), "{}", other.warnings());
}

#[test]
fn akamai_without_a_service() {
    let machine = Machine::new()
        .firmware(&[("sys_vendor", "Akamai"), ("product_serial", "78")])
        .config(&format!(
            "datasource: {{Akamai: {{base_urls: {{ipv4: '{}'}}, allow_ipv6: false, retries: 0}}}}",
            serve(&[])
        ))
        .nics(&["eth0"]);
    assert_eq!(machine.found("Akamai").id, "78");
    assert!(
        machine.warnings().contains("Akamai: ") && machine.warnings().contains("404"),
        "{}",
        machine.warnings()
    );
}

#[test]
fn droplet_without_hostname() {
    let base = serve(&[("/m", r#"{"interfaces": {"public": [{"mac": "02:00:00:00:00:01"}]}}"#)]);
    let machine = Machine::new()
        .firmware(&[("sys_vendor", "DigitalOcean"), ("product_serial", "4711")])
        .config(&format!("datasource: {{DigitalOcean: {{metadata_url: '{base}/m', retries: 0}}}}"))
        .nics(&["ens3"]);
    let i = machine.found("DigitalOcean");
    assert_eq!((&*i.id, i.local_hostname.as_deref()), ("4711", Some("4711")));
    assert_eq!(common::meta(&i)["local-hostname"], "4711");
}

#[test]
fn droplets_with_a_private_network() {
    let document = r#"{"droplet_id": 7, "hostname": "d", "interfaces": {
        "private": [{"mac": "02:00:00:00:00:02", "type": "private",
                     "ipv4": {"ip_address": "10.1.0.2", "netmask": "255.255.0.0", "gateway": "10.1.0.1"}}]}}"#;
    let base = serve(&[("/m", document)]);
    let machine = |names: &[&str]| {
        Machine::new()
            .firmware(&[("sys_vendor", "DigitalOcean"), ("product_serial", "7")])
            .config(&format!("datasource: {{DigitalOcean: {{metadata_url: '{base}/m', retries: 0}}}}"))
            .nics(names)
    };
    let i = machine(&["ens3", "ens4"]).found("DigitalOcean");
    assert_eq!((&*i.id, i.availability_zone.as_deref()), ("7", Some("default")));
    let subnet =
        json!({"type": "static", "control": "auto", "address": "10.1.0.2", "netmask": "255.255.0.0"});
    assert_eq!(network(&i)["config"][0]["subnets"], json!([subnet]));
    assert_eq!(network(&i)["config"][0]["name"], "eth1");
    // A NIC that the machine does not have costs only itself.
    let machine = machine(&["ens3"]);
    assert_eq!(machine.found("DigitalOcean").network, None);
    assert!(machine.warnings().contains("02:00:00:00:00:02"), "{}", machine.warnings());
}

#[test]
fn a_droplet_with_too_large_user_data_keeps_the_rest() {
    let found = |user_data: &str| {
        let base = serve(&[
            ("/metadata/v1.json", HUGE),
            (
                "/metadata/v1/",
                "id\nhostname\nuser-data\nvendor-data\npublic-keys\nregion\ninterfaces/\ndns/\ntags/\n",
            ),
            ("/metadata/v1/id", "4711"),
            ("/metadata/v1/hostname", "big"),
            ("/metadata/v1/user-data", user_data),
            ("/metadata/v1/vendor-data", "#cloud-config\n{}"),
            ("/metadata/v1/public-keys", "ssh-rsa A\nssh-rsa B"),
            ("/metadata/v1/region", "nyc3"),
            ("/metadata/v1/interfaces/", "public/"),
            ("/metadata/v1/interfaces/public/", "0/"),
            ("/metadata/v1/interfaces/public/0/", "mac\ntype\nipv4/"),
            ("/metadata/v1/interfaces/public/0/mac", "02:00:00:00:00:01"),
            ("/metadata/v1/interfaces/public/0/type", "public"),
            ("/metadata/v1/interfaces/public/0/ipv4/", "address\nnetmask\ngateway"),
            ("/metadata/v1/interfaces/public/0/ipv4/address", "192.0.2.7"),
            ("/metadata/v1/interfaces/public/0/ipv4/netmask", "255.255.255.0"),
            ("/metadata/v1/interfaces/public/0/ipv4/gateway", "192.0.2.1"),
            ("/metadata/v1/dns/", "nameservers"),
            ("/metadata/v1/dns/nameservers", "192.0.2.53\n192.0.2.54"),
            ("/metadata/v1/tags/", ""),
        ]);
        let machine = Machine::new()
            .firmware(&[("sys_vendor", "DigitalOcean"), ("product_serial", "4711")])
            .config(&format!(
                "datasource: {{DigitalOcean: {{metadata_url: '{base}/metadata/v1.json', retries: 0}}}}"
            ))
            .nics(&["ens3"]);
        (machine.found("DigitalOcean"), machine.warnings())
    };
    let (i, said) = found(HUGE);
    assert_eq!((&*i.id, i.local_hostname.as_deref()), ("4711", Some("big")));
    assert_eq!((i.public_keys.join(","), &*text(&i.user_data)), ("ssh-rsa A,ssh-rsa B".into(), ""));
    assert_eq!((&*text(&i.vendor_data), i.availability_zone.as_deref()), ("#cloud-config\n{}", Some("nyc3")));
    let subnet = json!({"type": "static", "control": "auto", "address": "192.0.2.7",
                        "netmask": "255.255.255.0", "gateway": "192.0.2.1"});
    assert_eq!(network(&i)["config"][0]["subnets"], json!([subnet]));
    assert_eq!(network(&i)["config"][1]["address"], json!(["192.0.2.53", "192.0.2.54"]));
    assert!(said.contains("/metadata/v1/user-data ignored: "), "{said}");
    assert!(said.contains("larger than 33554432 bytes (73400320 bytes); reading its parts"), "{said}");
    // Parts that are not too large by themselves are used.
    assert_eq!(text(&found("#!/bin/sh\n").0.user_data), "#!/bin/sh\n");
}

#[test]
fn a_vultr_machine_with_too_large_user_data_keeps_the_rest() {
    let base = serve(&[
        ("/v1.json", HUGE),
        ("/v1/", "hostname\ninstance-v2-id\ninterfaces/\npublic-keys\nregion/\nuser-data"),
        ("/v1/hostname", "big"),
        ("/v1/instance-v2-id", "v-1"),
        ("/v1/interfaces/", "0/\n1/"),
        ("/v1/interfaces/0/", "mac\nipv4/"),
        ("/v1/interfaces/0/mac", "02:00:00:00:00:01"),
        ("/v1/interfaces/0/ipv4/", "address\nadditional/"),
        ("/v1/interfaces/0/ipv4/address", "192.0.2.7"),
        ("/v1/interfaces/0/ipv4/additional/", "0/"),
        ("/v1/interfaces/0/ipv4/additional/0/", "address\nnetmask"),
        ("/v1/interfaces/0/ipv4/additional/0/address", "192.0.2.8"),
        ("/v1/interfaces/0/ipv4/additional/0/netmask", "255.255.255.0"),
        ("/v1/interfaces/1/", "mac\nipv4/"),
        ("/v1/interfaces/1/mac", "02:00:00:00:00:02"),
        ("/v1/interfaces/1/ipv4/", "address\nnetmask"),
        ("/v1/interfaces/1/ipv4/address", "10.1.0.2"),
        ("/v1/interfaces/1/ipv4/netmask", "255.255.0.0"),
        ("/v1/public-keys", "ssh-rsa A"),
        ("/v1/region/", "regioncode"),
        ("/v1/region/regioncode", "EWR"),
        ("/v1/user-data", HUGE),
    ]);
    let machine = Machine::new()
        .firmware(&[("sys_vendor", "Vultr")])
        .config(&format!("datasource: {{Vultr: {{url: '{base}', retries: 0}}}}"))
        .nics(&["enp1s0", "enp6s0"]);
    let i = machine.found("Vultr");
    assert_eq!((&*i.id, i.local_hostname.as_deref(), i.region.as_deref()), ("v-1", Some("big"), Some("ewr")));
    assert_eq!((i.public_keys.join(","), i.user_data.is_empty()), ("ssh-rsa A".into(), true));
    let config = network(&i)["config"].as_array().unwrap().clone();
    assert_eq!((config.len(), &config[1]["subnets"][2]["address"]), (3, &json!("192.0.2.8")));
    assert_eq!(
        (&config[2]["name"], &config[2]["subnets"][0]["address"]),
        (&json!("enp6s0"), &json!("10.1.0.2"))
    );
    assert!(machine.warnings().contains("/v1/user-data ignored: "), "{}", machine.warnings());
}

#[test]
fn gces_keys_do_not_depend_on_the_size_of_user_data() {
    let base = serve(&[
        ("/v1/instance/id", "77"),
        ("/v1/instance/zone", "projects/1/zones/us-east1-b"),
        ("/v1/instance/hostname", "big.example"),
        ("/v1/instance/attributes/?recursive=True", HUGE),
        ("/v1/instance/attributes/ssh-keys", "cloudinit:ssh-rsa A"),
        ("/v1/instance/attributes/block-project-ssh-keys", "TRUE"),
        ("/v1/instance/attributes/user-data", HUGE),
        ("/v1/project/attributes/?recursive=True", r#"{"ssh-keys": "cloudinit:ssh-rsa P"}"#),
    ]);
    let machine = Machine::new()
        .network_stage()
        .firmware(&[("product_name", "Google Compute Engine")])
        .config(&format!("datasource: {{GCE: {{metadata_url: '{base}/v1/', retries: 0}}}}"));
    let i = machine.found("GCE");
    assert_eq!((&*i.id, i.local_hostname.as_deref()), ("77", Some("big")));
    assert_eq!((i.public_keys.join(","), i.user_data.is_empty()), ("ssh-rsa A".into(), true));
    assert!(machine.warnings().contains("instance/attributes/user-data ignored: "), "{}", machine.warnings());
}

#[test]
fn broken_documents() {
    for (name, setting, vendor, document, says) in [
        ("Vultr", "url", "Vultr", "{", "v1.json"),
        ("Vultr", "url", "Vultr", "{}", "instance-v2-id"),
        ("Vultr", "url", "Vultr", "[1]", "expected a map"),
        ("DigitalOcean", "metadata_url", "DigitalOcean", "{}", "interfaces"),
        ("DigitalOcean", "metadata_url", "DigitalOcean", "{\"droplet_id\": \"\"}", "droplet_id"),
    ] {
        let base = serve(&[("/v1.json", document)]);
        let url = if setting == "url" { base } else { base + "/v1.json" };
        let machine = Machine::new()
            .firmware(&[("sys_vendor", vendor), ("product_serial", "7")])
            .config(&format!("datasource: {{{name}: {{{setting}: '{url}', retries: 0}}}}"))
            .nics(&["ens3"]);
        let e = machine.find(name).unwrap_err().to_string();
        assert!(e.contains(says) || e.contains(name), "{name} {document}: {e}");
    }
}

#[test]
fn invalid_settings() {
    let base = serve(&[]);
    let machine = Machine::new().network_stage().config(&format!(
        "datasource: {{Ec2: {{metadata_urls: ['{base}'], max_wait: 1, timeout: soon, strict_id: maybe}}}}"
    ));
    assert!(machine.find("Ec2").is_err());
    let said = machine.warnings();
    assert!(said.contains("test.cfg:1:") && said.contains("datasource.Ec2.timeout"), "{said}");
    assert!(said.contains("strict_id: expected true, false or warn"), "{said}");
}

const ALIYUN_WARNING: &str =
    "AliYun's metadata: public-keys.four: expected SSH keys, found an integer; ignored";
const ALIYUN_ALL: &str = r#"{"instance-id": "i-1", "hostname": "ali", "region-id": "cn-x", "n": 4,
    "dns-conf": {"nameservers": "192.0.2.1\r\n192.0.2.2"}, "instance-tags": "{\"a\": \"b\"}",
    "public-keys": {"one": {"openssh-key": "ssh-rsa A\n"}, "two": ["ssh-rsa B"], "three": "ssh-rsa C", "four": 4},
    "network": {"interfaces": {"macs": {"02:00:00:00:00:01": {"ipv6s": "[2001:db8::1]"}}}}}"#;

fn aliyun(base: &str, settings: &str) -> Machine {
    Machine::new()
        .firmware(&[("product_name", "Alibaba Cloud ECS")])
        .config(&format!(
            "datasource: {{AliYun: {{metadata_urls: ['{base}'], max_wait: 2, retries: 0{settings}}}}}"
        ))
        .nics(&["eth0", "eth1"])
}

#[test]
fn aliyuns_document() {
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
fn aliyuns_tree_of_directories() {
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
        let said = machine.warnings();
        assert_eq!(said.contains("reading the tree of directories"), is_read, "{document}: {said}");
        assert_eq!((i.local_hostname.as_deref(), i.network), (Some("localhost.localdomain"), None));
        for name in ["hostname", "network"] {
            assert!(said.contains(&format!("AliYun's metadata: {name} is missing")), "{said}");
        }
    }
}

#[test]
fn aliyun_without_a_token() {
    for (paths, says) in
        [(&[][..], "status 404: no token received"), (&[("/latest/api/token", "a b")], "not a valid token")]
    {
        let e = aliyun(&serve(paths), "").find("AliYun").unwrap_err().to_string();
        assert!(e.contains(says), "{e}");
    }
}

const UPCLOUD: &str = r#"{"instance_id": "u-1", "hostname": "up", "public_keys": ["ssh-rsa A"], "user_data": "u",
    "vendor_data": "v", "network": {"dns": ["192.0.2.53"], "interfaces": [
    {"mac": "02:00:00:00:00:02", "ip_addresses": [{"address": "192.0.2.7", "network": "192.0.2.0/25", "dhcp": false}]},
    {"mac": "02:00:00:00:00:99"}, 7]}}"#;

#[test]
fn upclouds_network() {
    let base = serve(&[("/m", UPCLOUD)]);
    let machine = |uuid: &str| {
        Machine::new()
            .firmware(&[("sys_vendor", "UpCloud"), ("product_uuid", uuid)])
            .config(&format!("datasource: {{UpCloud: {{metadata_url: '{base}/m', retries: 0}}}}"))
            .nics(&["eth0", "eth1"])
    };
    let one = machine("u-1");
    let i = one.found("UpCloud");
    assert_eq!((&*i.id, i.availability_zone.as_deref()), ("u-1", Some("default")));
    let subnet = json!({"type": "static", "control": "auto", "address": "192.0.2.7", "netmask": "25"});
    let config = network(&i)["config"].as_array().unwrap().clone();
    assert_eq!(
        (config.len(), &config[0]["name"], &config[0]["subnets"]),
        (2, &json!("eth1"), &json!([subnet]))
    );
    assert_eq!(config[1]["address"], json!(["192.0.2.53"]));
    let said = one.warnings();
    assert!(said.contains("network.interfaces[1]: no NIC with MAC '02:00:00:00:00:99'"), "{said}");
    assert!(said.contains("network.interfaces[2]: "), "{said}");
    assert_eq!(one.check(&i), datasource::IdentityCheck::Same);
    assert!(matches!(machine("u-2").check(&i), datasource::IdentityCheck::Unknown(_)));
    assert!(machine("").find("UpCloud").unwrap_err().to_string().contains("UUID"));
    assert_eq!(Machine::new().find("UpCloud").unwrap(), None);
}

const NWCS: &str = r#"{"instance-id": "n-1", "hostname": "nw", "public-keys": ["ssh-rsa A"], "userdata": "u",
    "vendordata": "v", "network": {"version": 1, "config": [{"type": "nameserver", "address": "192.0.2.53"},
    {"type": "physical", "name": "x", "mac_address": "02:00:00:00:00:02"}]}}"#;

fn nwcs(document: &str) -> Machine {
    let base = serve(&[("/m", document)]);
    Machine::new()
        .firmware(&[("sys_vendor", "NWCS")])
        .config(&format!("datasource: {{NWCS: {{metadata_url: '{base}/m', retries: 0}}}}"))
        .nics(&["eth0", "eth1"])
}

#[test]
fn nwcs_names_of_nics() {
    let i = nwcs(NWCS).found("NWCS");
    assert_eq!((&*i.id, &*text(&i.user_data), &*text(&i.vendor_data)), ("n-1", "u", "v"));
    assert_eq!(network(&i)["config"][1]["name"], "eth1");
    assert_eq!(Machine::new().find("NWCS").unwrap(), None);
}

const CLOUDCIX: &str = r#"{"instance-id": "c-1", "local-hostname": "cix", "public-keys": ["ssh-rsa A"],
    "network": {"version": 2, "ethernets": {}}}"#;

fn cloudcix(document: &str) -> Machine {
    let base = serve(&[("/v1/metadata", document), ("/v1/userdata", "dQ==")]);
    Machine::new()
        .network_stage()
        .firmware(&[("product_name", "CloudCIX")])
        .config(&format!("datasource: {{CloudCIX: {{metadata_urls: ['{base}'], retries: 0}}}}"))
}

#[test]
fn cloudcix_user_data() {
    let i = cloudcix(CLOUDCIX).found("CloudCIX");
    assert_eq!((&*i.id, i.local_hostname.as_deref(), &*text(&i.user_data)), ("c-1", Some("cix"), "u"));
    assert_eq!(network(&i), json!({"version": 2, "ethernets": {}}));
    assert!(cloudcix("no map").find("CloudCIX").unwrap_err().to_string().contains("expected a map"));
    assert_eq!(Machine::new().network_stage().find("CloudCIX").unwrap(), None);
}

const BIGSTEP: &str = r#"{"metadata": {"instance-id": "b-1", "local-hostname": "big", "public-keys": ["ssh-rsa A"]},
    "userdata_raw": "u", "vendordata_raw": "v"}"#;

fn bigstep(document: &str) -> Machine {
    let base = serve(&[("/d", document)]);
    Machine::new().network_stage().file("/var/lib/cloud/data/seed/bigstep/url", format!("{base}/d\n"))
}

#[test]
fn bigsteps_url() {
    let machine = bigstep(BIGSTEP);
    let i = machine.found("Bigstep");
    assert_eq!((&*i.id, &*text(&i.user_data), &*text(&i.vendor_data)), ("b-1", "u", "v"));
    assert!(i.subplatform.starts_with("metadata (http://127.0.0.1:") && i.subplatform.ends_with("/d)"));
    assert!(bigstep("{}").find("Bigstep").unwrap_err().to_string().contains("no metadata"));
    assert_eq!(Machine::new().network_stage().find("Bigstep").unwrap(), None);
    let empty = Machine::new().network_stage().file("/var/lib/cloud/data/seed/bigstep/url", "");
    assert!(empty.find("Bigstep").is_err());
}

/// Creates a machine whose service has this document.
type Make<'m> = &'m dyn Fn(&str) -> Machine;

/// Each field of a document missing or of a wrong type: it is named in one warning, and everything else is kept.
#[test]
fn invalid_fields_cost_only_themselves() {
    let upcloud = |document: &str| {
        let base = serve(&[("/m", document)]);
        Machine::new()
            .firmware(&[("sys_vendor", "UpCloud"), ("product_uuid", "u-1")])
            .config(&format!("datasource: {{UpCloud: {{metadata_url: '{base}/m', retries: 0}}}}"))
            .nics(&["eth0", "eth1"])
    };
    let aliyun = |document: &str| {
        let token = ("PUT /latest/api/token", "t");
        let user_data = ("/2016-01-01/user-data", "u");
        aliyun(&serve(&[token, ("/2016-01-01/meta-data/all", document), user_data]), "")
    };
    let clouds: &[(&str, &str, Make<'_>, &[&str])] = &[
        ("NWCS", NWCS, &nwcs, &["hostname", "public-keys", "network", "userdata", "vendordata"]),
        ("UpCloud", UPCLOUD, &upcloud, &["instance_id", "hostname", "public_keys", "network", "user_data"]),
        ("CloudCIX", CLOUDCIX, &cloudcix, &["public-keys", "network"]),
        ("AliYun", ALIYUN_ALL, &aliyun, &["hostname", "network"]),
        ("Bigstep", BIGSTEP, &bigstep, &["userdata_raw", "vendordata_raw"]),
    ];
    let huge = "x".repeat(1 << 20);
    for (name, good, machine, fields) in clouds {
        let expected = machine(good).found(name);
        for field in *fields {
            for wrong in
                [json!([[1]]), json!({"a": {"b": 1}}), json!(null), json!(huge), json!("a\0\n\x1b[2J")]
            {
                let mut document: Value = serde_json::from_str(good).unwrap();
                document[*field] = wrong.clone();
                let machine = machine(&document.to_string());
                let mut i = machine.found(name);
                i.public_keys.sort();
                let place = format!("{name} {field} {:.40}", wrong.to_string());
                assert!(!i.id.is_empty(), "{place}");
                assert!(*field == "instance_id" || i.id == expected.id, "{place}");
                if !field.starts_with("public") {
                    assert_eq!(i.public_keys, expected.public_keys, "{place}");
                }
                if !field.contains("user") {
                    assert_eq!(i.user_data, expected.user_data, "{place}");
                }
                // The document itself has an invalid key.
                let said = machine.warnings().replace(ALIYUN_WARNING, "");
                let is_wrong_type = wrong.is_object() || wrong.is_array();
                if is_wrong_type && !matches!((*field, &wrong), ("network", Value::Object(_))) {
                    assert!(said.contains(field), "{place}: {said}");
                }
                let count = said.lines().filter(|line| line.contains("expected ")).count();
                assert!(count <= 1, "{place}: {said}");
            }
        }
    }
    let no_id = nwcs("{}").find("NWCS").unwrap_err().to_string();
    assert!(no_id.contains("no instance-id"), "{no_id}");
}
