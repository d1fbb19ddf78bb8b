//! Network configuration from metadata: private networks, further NICs, names.

use serde_json::json;

use crate::common::{Machine, meta, text};
use crate::server::{Server, network, serve};

#[test]
fn hetzner_configures_private_networks() {
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
fn hetzners_paths_can_be_configured() {
    let base = serve(&[
        ("/m", "instance-id: 42\nhostname: h.example\nnetwork-config: {version: 1, config: []}\n"),
        ("/p/n", "[{mac_address: '02:00:00:00:00:02'}]"),
        ("/u", "plain"),
    ]);
    let paths = "metadata_path: /m, metadata_private_networks_path: p/n/, userdata_path: u";
    let i = Machine::new()
        .firmware(&[("sys_vendor", "Hetzner"), ("product_serial", "42")])
        .config(&format!("datasource: {{Hetzner: {{metadata_urls: ['{base}'], max_wait: 5, {paths}}}}}"))
        .nics(&["eth0", "ens10"])
        .found("Hetzner");
    assert_eq!((&*i.id, &*text(&i.user_data)), ("42", "plain"));
    assert_eq!(network(&i)["config"][0]["name"], "ens10");
}

#[test]
fn vultr_configures_every_configured_nic() {
    let document = |more: &str| {
        format!(
            r#"{{"instance-v2-id": "v-1", "hostname": "", "region": {{"regioncode": "EWR"}}, {more} "interfaces": [
            {{"mac": "02:00:00:00:00:01", "ipv4": {{}}, "routes": [{{"network": "10.9.0.0", "prefix": 16}}]}},
            {{"mac": "02:00:00:00:00:02", "mtu": 1450, "ipv4": {{"address": "10.1.0.2", "netmask": "255.255.0.0"}}}},
            {{"mac": "02:00:00:00:00:03", "unconfigured": true}}]}}"#
        )
    };
    let machine = |base: &str, nics: &[&str]| {
        Machine::new()
            .firmware(&[("sys_vendor", "Vultr")])
            .config(&format!("datasource: {{Vultr: {{url: '{base}', retries: 0}}}}"))
            .nics(nics)
    };
    let found = |document: String| {
        let server = Server::of_paths(&[("/v1.json", &document)]);
        let found = machine(&server.base, &["enp1s0", "enp6s0", "enp7s0"]).found("Vultr");
        let agent = format!("\nUser-Agent: {}", system::USER_AGENT);
        assert!(server.heads().iter().all(|head| format!("{head}\n").contains(&format!("{agent}\n"))));
        found
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
    // A NIC that the machine does not have is skipped.
    let one = machine(&serve(&[("/v1.json", &document(""))]), &["enp1s0"]);
    assert_eq!(network(&one.found("Vultr"))["config"].as_array().unwrap().len(), 2);
    assert!(one.warnings().contains("02:00:00:00:00:02"), "{}", one.warnings());
    let given = r#""cloud_interfaces": {"version": 1, "config": [{"name": "x", "mac_address": "02:00:00:00:00:02"}]},"#;
    let i = found(document(given));
    assert_eq!(network(&i)["config"][0]["name"], "enp6s0");
    // The instance data has it too.
    assert_eq!(meta(&i)["cloud_interfaces"]["config"][0]["name"], "enp6s0");
}

#[test]
fn droplet_configures_a_private_network_alone() {
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
    // A NIC that the machine does not have is skipped.
    let machine = machine(&["ens3"]);
    assert_eq!(machine.found("DigitalOcean").network, None);
    assert!(machine.warnings().contains("02:00:00:00:00:02"), "{}", machine.warnings());
}

pub const UPCLOUD: &str = r#"{"instance_id": "u-1", "hostname": "up", "public_keys": ["ssh-rsa A"], "user_data": "u",
    "vendor_data": "v", "network": {"dns": ["192.0.2.53"], "interfaces": [
    {"mac": "02:00:00:00:00:02", "ip_addresses": [{"address": "192.0.2.7", "network": "192.0.2.0/25", "dhcp": false}]},
    {"mac": "02:00:00:00:00:99"}, 7]}}"#;

#[test]
fn upcloud_configures_the_nics_that_exist() {
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
    let warnings = one.warnings();
    assert!(
        warnings.contains("network.interfaces[1].mac: no NIC with MAC '02:00:00:00:00:99'"),
        "{warnings}"
    );
    assert!(warnings.contains("network.interfaces[2]: "), "{warnings}");
    assert_eq!(one.check(&i), datasource::IdentityCheck::Same);
    assert!(matches!(machine("u-2").check(&i), datasource::IdentityCheck::Unknown(_)));
    assert!(machine("").find("UpCloud").unwrap_err().to_string().contains("UUID"));
    assert_eq!(Machine::new().find("UpCloud").unwrap(), None);
}

pub const NWCS: &str = r#"{"instance-id": "n-1", "hostname": "nw", "public-keys": ["ssh-rsa A"], "userdata": "u",
    "vendordata": "v", "network": {"version": 1, "config": [{"type": "nameserver", "address": "192.0.2.53"},
    {"type": "physical", "name": "x", "mac_address": "02:00:00:00:00:02"}]}}"#;

pub fn nwcs(document: &str) -> Machine {
    let base = serve(&[("/m", document)]);
    Machine::new()
        .firmware(&[("sys_vendor", "NWCS")])
        .config(&format!("datasource: {{NWCS: {{metadata_url: '{base}/m', retries: 0}}}}"))
        .nics(&["eth0", "eth1"])
}

#[test]
fn nwcs_nics_get_their_local_names() {
    let i = nwcs(NWCS).found("NWCS");
    assert_eq!((&*i.id, &*text(&i.user_data), &*text(&i.vendor_data)), ("n-1", "u", "v"));
    assert_eq!(network(&i)["config"][1]["name"], "eth1");
    // The stage uses DHCP then.
    assert_eq!(nwcs(&NWCS.replace("\"network\"", "\"other\"")).found("NWCS").network, None);
    assert_eq!(Machine::new().find("NWCS").unwrap(), None);
}
