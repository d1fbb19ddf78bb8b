//! RbxCloud (HyperOne): a disk labelled `CLOUDMD` with the machine's name, addresses and default user in `cloud.json`, and
//! user-data beside it.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use blockdev::Superblock;
use config::{Map, Node};
use serde_json::{Value, json};
use state::Instance;
use system::{Command, Deadline, Error, Result, System, warning};

use crate::document::fields::FieldType::{StrList, Text};
use crate::document::fields::{self, Field};
use crate::document::v1;
use crate::{Datasource, Search, UpdateEvents, document, media, standard};

const NAME: &str = "RbxCloud";

pub const RBXCLOUD: Datasource = Datasource {
    events: UpdateEvents::by_default(&["boot-new-instance", "boot", "boot-legacy"]),
    activate: Some(announce_addresses),
    ..Datasource::new(NAME, find)
};

const LABELS: [&str; 2] = ["CLOUDMD", "cloudmd"];
/// The limit of `cloud.json` in bytes.
const MAX_DOCUMENT: u64 = 4 << 20;
/// The time limit of all announcements: the boot does not depend on them.
// Wait: RbxCloud | all gratuitous ARP requests | -
const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(60);
/// The option of arping for the source address, which differs between its two implementations.
const SOURCE_OPTION: &str = "-S";
const SOURCE_OPTION_OF_RED_HAT: &str = "-s";

/// The name of the metadata in messages.
const SOURCE: &str = "cloud.json";
const FIELDS: [Field; 5] = [
    ("vm._id", Text, false),
    ("vm.name", Text, true),
    ("additionalMetadata.username", Text, false),
    ("additionalMetadata.password.sha512", Text, false),
    ("additionalMetadata.sshKeys", StrList, false),
];
const NETWORK_FIELDS: [Field; 5] = [
    ("netadp[].macaddress", Text, true),
    ("netadp[].ip[].address", Text, true),
    ("netadp[].network.netmask", Text, false),
    ("netadp[].network.gateway", Text, false),
    ("netadp[].network.dns.nameservers", StrList, false),
];

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let is_labelled = |s: &Superblock| LABELS.iter().any(|label| s.has_label(label));
    let mut instance = media::find_ranked(ctx, |s| is_labelled(s).then_some(0), |at, _| read(ctx.sys, at))?;
    if let Some(instance) = &mut instance {
        standard::record_machine(ctx.sys, instance);
    }
    Ok(instance)
}

/// Reads a disk's directory; returns `None` if it has no metadata.
pub(crate) fn read(sys: &System, at: &str) -> Result<Option<Instance>> {
    let read = media::if_found(sys.read_at_most(format!("{at}/cloud.json"), MAX_DOCUMENT))?;
    let Some(bytes) = read else { return Ok(None) };
    let document = document::parse_map(SOURCE, &bytes)?;
    let user_data = media::read_optional(sys, &format!("{at}/user.data"));
    let user_data = standard::ignore_too_large(sys, "user.data", user_data)?;
    instance(sys, &document, user_data.unwrap_or_default()).map(Some)
}

pub(crate) fn instance(sys: &System, document: &Node, user_data: Vec<u8>) -> Result<Instance> {
    let mut valid = document.clone();
    fields::drop_invalid(sys, SOURCE, &mut valid, &FIELDS);
    let text = |path: &[&str]| document::trimmed(valid.at_path(path));
    let id =
        text(&["vm", "_id"]).ok_or_else(|| Error::new(format!("{SOURCE}: vm._id: expected a string")))?;
    let mut metadata = v1::map(&[("instance-id", &id)]);
    metadata.insert("local-hostname", text(&["vm", "name"]).map_or_else(Node::null, Node::from));
    metadata.insert("public-keys", Vec::<Node>::new());
    let class = "DataSourceRbxCloud [seed=None]";
    let mut instance = standard::from_metadata(NAME, class, "unknown".into(), &metadata.into());
    instance.network = network(sys, document).map(|config| standard::network(config, SOURCE));
    instance.config = cloud_config(sys, &valid);
    instance.user_data = standard::blob(user_data);
    Ok(instance)
}

/// Returns the network configuration; `None` without a valid address, which is reported.
fn network(sys: &System, document: &Node) -> Option<Node> {
    let mut valid = document.clone();
    let mut problems = fields::drop_invalid(sys, SOURCE, &mut valid, &NETWORK_FIELDS);
    let mut reject = |place: &str, problem: &str| {
        problems += 1;
        warning!(sys, "{SOURCE}: {place}: {problem}; ignored");
    };
    let adapters =
        document::items(&valid, "netadp").iter().enumerate().filter(|(_, adapter)| !adapter.is_null());
    let mut copies = v1::Copies::new();
    let entry = |(i, adapter)| interface(adapter, i, &mut copies, &mut reject);
    let entries: Vec<Map> = adapters.filter_map(entry).collect();
    if entries.iter().any(|entry| entry.get("subnets").is_some_and(|subnets| !subnets.is_falsy())) {
        return Some(v1::config(entries));
    }
    // Without any address, DHCP may still give one. An invalid field was reported instead.
    if problems == 0 {
        warning!(sys, "{SOURCE}: netadp: expected a network adapter with an address; ignored");
    }
    None
}

/// Returns the entry of an adapter; `None` if its MAC is invalid.
fn interface(
    adapter: &Node,
    index: usize,
    copies: &mut v1::Copies,
    reject: &mut dyn FnMut(&str, &str),
) -> Option<Map> {
    let place = format!("netadp[{index}]");
    let mac = document::text(adapter, "macaddress").unwrap_or_default().trim().to_lowercase();
    let is_octet = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if mac.split(':').count() != 6 || !mac.split(':').all(is_octet) {
        reject(&format!("{place}.macaddress"), "expected a MAC address");
        return None;
    }
    // A field that is null was reported.
    let mut address = |of: &Node, key: &str, place: String| {
        let text = document::trimmed(of.get(key));
        let is_reported = of.is_null() || document::is_null(of, key);
        match &text {
            None if !is_reported => reject(&place, "missing or empty"),
            Some(text) if text.parse::<IpAddr>().is_err() => {
                reject(&place, "expected an IP address");
                return None;
            }
            _ => {}
        }
        text
    };
    let of_ip = |(i, ip): (usize, &Node)| address(ip, "address", format!("{place}.ip[{i}].address"));
    let addresses: Vec<String> =
        document::items(adapter, "ip").iter().enumerate().filter_map(of_ip).collect();
    let missing = Node::from(Map::new());
    let network = adapter.get("network").unwrap_or(&missing);
    // Both are reported once for an adapter, whatever the number of its addresses.
    let mut of_network = |key: &str| address(network, key, format!("{place}.network.{key}"));
    let netmask = if addresses.is_empty() { None } else { of_network("netmask") };
    let gateway = if netmask.is_none() { None } else { of_network("gateway") };
    let servers: Vec<Node> = texts(network.at_path(&["dns", "nameservers"])).map(Node::from).collect();
    let mut servers = Node::from(servers);
    if let Err(problem) = copies.take(&servers, addresses.len()) {
        reject(&format!("{place}.network.dns.nameservers"), problem);
        servers = Vec::<Node>::new().into();
    }
    let subnet = |address: &String| {
        let mut subnet = v1::map(&[("type", "static"), ("address", address), ("control", "auto")]);
        subnet.insert("netmask", netmask.as_deref()?);
        subnet.insert_some("gateway", gateway.as_deref());
        subnet.insert("dns_nameservers", servers.clone());
        Some(subnet)
    };
    let subnets = addresses.iter().filter_map(subnet).collect();
    Some(v1::physical(&format!("eth{index}"), &mac, subnets))
}

/// Returns the strings of a list.
fn texts(list: Option<&Node>) -> impl Iterator<Item = &str> {
    let items = list.and_then(Node::as_seq).unwrap_or_default().iter();
    items.filter_map(Node::as_str).map(str::trim).filter(|text| !text.is_empty())
}

/// Returns the cloud-config of the metadata: the default user, and how to log in.
fn cloud_config(sys: &System, document: &Node) -> Value {
    let null = Node::null();
    let additional = document.get("additionalMetadata").unwrap_or(&null);
    let mut user = json!({
        "sudo": ["ALL=(ALL) NOPASSWD:ALL"],
        "lock_passwd": false,
        "ssh_authorized_keys": texts(additional.get("sshKeys")).collect::<Vec<_>>(),
    });
    if let Some(name) = document::trimmed(additional.get("username")) {
        user["name"] = name.as_str().into();
        user["gecos"] = name.into();
    }
    if let Some(hash) = document::trimmed(additional.at_path(&["password", "sha512"])) {
        user["passwd"] = hash.into();
    }
    let hosts = sys.read("/etc/hosts").unwrap_or_default();
    json!({
        "ssh_pwauth": true,
        "disable_root": true,
        "system_info": { "default_user": user },
        "manage_etc_hosts": hosts.is_empty(),
    })
}

/// Announces the machine's addresses to its gateways by ARP, so that they forget the MAC of a previous machine. Failures are only
/// logged, as entries of ARP expire.
fn announce_addresses(ctx: &Search<'_>, instance: &mut Instance, _is_new: bool) -> Result<()> {
    let pairs = arp_pairs(instance.network.as_ref().map_or(&Value::Null, |network| &network.content));
    if !pairs.is_empty() && ctx.sys.which("arping").is_none() {
        warning!(
            ctx.sys,
            "RbxCloud: arping is not installed; the addresses are not announced to the gateway"
        );
        return Ok(());
    }
    let distro = ctx.config.at_path(&["system_info", "distro"]).and_then(Node::as_str).unwrap_or_default();
    let is_red_hat = matches!(distro, "fedora" | "centos" | "rhel");
    let option = if is_red_hat { SOURCE_OPTION_OF_RED_HAT } else { SOURCE_OPTION };
    announce(ctx.sys, option, &pairs, Deadline::after(ANNOUNCE_TIMEOUT));
    Ok(())
}

fn announce(sys: &System, option: &str, pairs: &[(Ipv4Addr, Ipv4Addr)], deadline: Deadline) {
    for (source, destination) in pairs {
        if deadline.is_expired() {
            warning!(sys, "RbxCloud: deadline exceeded; the remaining addresses are not announced");
            break;
        }
        let words = ["arping", "-c", "2", option, &source.to_string(), &destination.to_string()];
        if let Err(e) = sys.run(&Command::new(words).timeout(deadline.remaining())) {
            warning!(sys, "{source} is not announced to {destination}: {e}");
        }
    }
}

/// Returns pairs of an address of the machine and an address to which it is announced: the gateway, and the two routers
/// behind it.
fn arp_pairs(config: &Value) -> Vec<(Ipv4Addr, Ipv4Addr)> {
    let list = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
    let entries = list(config, "config");
    let subnets = entries.iter().flat_map(|entry| list(entry, "subnets"));
    let pairs = subnets.filter_map(|subnet| {
        let address = |key: &str| subnet[key].as_str()?.parse::<Ipv4Addr>().ok();
        Some((address("address")?, address("gateway")?))
    });
    pairs
        .flat_map(|(source, gateway)| {
            let routers = [0, 2, 3].into_iter().filter_map(move |n| u32::from(gateway).checked_add(n));
            routers.map(move |router| (source, router.into()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(document: &str) -> (Result<Instance>, Vec<String>) {
        let sys = System::new("/nonexistent");
        let document = config::json::parse(document).unwrap();
        let instance = instance(&sys, &document, b"u".to_vec());
        (instance, sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect())
    }

    #[test]
    fn document_sets_user_password_keys_and_network() {
        let (instance, warnings) = parsed(
            r#"{"vm": {"_id": "5e", "name": "one"}, "netadp": [{"macaddress": "02:AB:00:00:00:01",
                "ip": [{"address": "192.0.2.7"}, {"address": "192.0.2.8"}],
                "network": {"netmask": "255.255.255.0", "gateway": "192.0.2.1", "dns": {"nameservers": ["192.0.2.53"]}}}],
                "additionalMetadata": {"username": "guru", "password": {"sha512": "$6$s$h"}, "sshKeys": ["ssh-rsa A"]}}"#,
        );
        let instance = instance.unwrap();
        assert_eq!((&*instance.id, instance.local_hostname.as_deref()), ("5e", Some("one")));
        let subnet = |address: &str| {
            json!({"type": "static", "address": address, "netmask": "255.255.255.0", "control": "auto",
                   "gateway": "192.0.2.1", "dns_nameservers": ["192.0.2.53"]})
        };
        let network = &instance.network.as_ref().unwrap().content;
        assert_eq!(
            network["config"],
            json!([{"type": "physical", "name": "eth0", "mac_address": "02:ab:00:00:00:01",
                    "subnets": [subnet("192.0.2.7"), subnet("192.0.2.8")]}])
        );
        let pairs: Vec<String> = arp_pairs(network)
            .iter()
            .map(|(from, to)| format!("{from}-{to}").replace("192.0.2.", ""))
            .collect();
        assert_eq!(pairs, ["7-1", "7-3", "7-4", "8-1", "8-3", "8-4"]);
        assert_eq!(
            instance.config,
            json!({"ssh_pwauth": true, "disable_root": true, "manage_etc_hosts": true, "system_info": {"default_user":
                {"name": "guru", "gecos": "guru", "sudo": ["ALL=(ALL) NOPASSWD:ALL"], "passwd": "$6$s$h",
                 "lock_passwd": false, "ssh_authorized_keys": ["ssh-rsa A"]}}})
        );
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn documents_without_an_id_are_errors() {
        let error = parsed(r#"{"vm": {"name": "one"}, "netadp": []}"#).0.unwrap_err().to_string();
        assert!(error.contains("vm._id: expected a string"), "{error}");
    }

    #[test]
    fn announcements_have_one_deadline() {
        assert_eq!(ANNOUNCE_TIMEOUT, Duration::from_secs(60));
        let pairs = [(Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(192, 0, 2, 1)); 3];
        for (limit, attempts, last) in [
            (ANNOUNCE_TIMEOUT, 3, "192.0.2.7 is not announced"),
            (Duration::ZERO, 0, "RbxCloud: deadline exceeded"),
        ] {
            // No program can be started in this root.
            let sys = System::new("/nonexistent");
            announce(&sys, SOURCE_OPTION, &pairs, Deadline::after(limit));
            let warnings = sys.log().logged_warnings();
            assert_eq!(
                warnings.iter().filter(|(_, text)| text.contains("is not announced")).count(),
                attempts
            );
            assert!(warnings.last().unwrap().1.starts_with(last), "{warnings:?}");
        }
    }

    #[test]
    fn servers_are_not_copied_to_too_many_addresses() {
        let ip = vec![r#"{"address": "192.0.2.7"}"#; 2000].join(",");
        let servers = vec![r#""192.0.2.53""#; 2000].join(",");
        let network = format!(r#"{{"netmask": "255.255.255.0", "dns": {{"nameservers": [{servers}]}}}}"#);
        let adapter = format!(r#"{{"macaddress": "02:00:00:00:00:01", "ip": [{ip}], "network": {network}}}"#);
        let (instance, warnings) =
            parsed(&format!(r#"{{"vm": {{"_id": "5", "name": "n"}}, "netadp": [{adapter}]}}"#));
        let network = instance.unwrap().network.unwrap().content;
        let subnets = network["config"][0]["subnets"].as_array().unwrap();
        assert_eq!((subnets.len(), &subnets[0]["dns_nameservers"]), (2000, &json!([])));
        let place = "cloud.json: netadp[0].network";
        let expected = [
            format!("{place}.gateway: missing or empty; ignored"),
            format!("{place}.dns.nameservers: too large for the number of addresses; ignored"),
        ];
        assert_eq!(warnings, expected);
    }

    /// Types are checked by `bad_media.rs`.
    #[test]
    fn adapters_need_a_mac_and_an_address() {
        let one = |adapter: &str| format!(r#"{{"vm": {{"_id": 5, "name": "n"}}, "netadp": [{adapter}]}}"#);
        let mac = r#"{"macaddress": "02:00:00:00:00:01""#;
        let ip = r#""ip": [{"address": "192.0.2.7"}, {"address": "192.0.2.8"}]"#;
        for (document, expected) in [
            (
                r#"{"vm": {"_id": 5, "name": "n"}}"#.into(),
                "netadp: expected a network adapter with an address",
            ),
            (one(""), "netadp: expected a network adapter with an address"),
            (one(r#"{"macaddress": "02:00"}"#), "netadp[0].macaddress: expected a MAC address"),
            (
                one(&format!(r#"{mac}, "ip": [{{"address": "x"}}]}}"#)),
                "netadp[0].ip[0].address: expected an IP address",
            ),
            (one(&format!("{mac}, {ip}}}")), "netadp[0].network.netmask: missing or empty"),
            (
                one(&format!(r#"{mac}, "network": [], {ip}}}"#)),
                "netadp[0].network: expected a map, found a list",
            ),
        ] {
            let (instance, warnings) = parsed(&document);
            assert_eq!(instance.unwrap().network, None, "{document}");
            assert_eq!(warnings, [format!("cloud.json: {expected}; ignored")], "{document}");
        }
    }
}
