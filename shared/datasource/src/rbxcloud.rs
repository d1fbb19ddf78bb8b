//! RbxCloud (HyperOne): a disk labelled `CLOUDMD` with the machine's name, addresses and default user in `cloud.json`, and
//! user-data beside it.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use blockdev::Superblock;
use config::{Map, Node};
use serde_json::{Value, json};
use state::{Blobs, Instance};
use system::{Command, Deadline, Error, Result, System, warning};

use crate::document::fields::Fields;
use crate::document::v1;
use crate::{ALL_EVENTS, Datasource, Search, UpdateEvents, document, media, standard};

pub const RBXCLOUD: Datasource = Datasource {
    events: UpdateEvents {
        default: &["boot-new-instance", "boot", "boot-legacy"],
        supported: ALL_EVENTS,
        hotplug_udev_match: "",
    },
    activate: Some(announce_addresses),
    ..Datasource::new("RbxCloud", find)
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
    let document = match sys.read_at_most(format!("{at}/cloud.json"), MAX_DOCUMENT) {
        Err(e) if e.is_not_found() => return Ok(None),
        read => document::parse_map("cloud.json", &read?)?,
    };
    let user_data = match standard::ignore_too_large(sys, "user.data", sys.read(format!("{at}/user.data"))) {
        Err(e) if e.is_not_found() => Vec::new(),
        read => read?,
    };
    instance(sys, &document, user_data).map(Some)
}

pub(crate) fn instance(sys: &System, document: &Node, user_data: Vec<u8>) -> Result<Instance> {
    let fields = Fields::of(sys, "cloud.json", document);
    let vm = fields.map("vm");
    let id = vm.text("_id").ok_or_else(|| Error::new("cloud.json: vm._id: expected a string"))?;
    let mut metadata = v1::map(&[("instance-id", &id)]);
    metadata.insert("local-hostname", vm.expected_text("name").map_or_else(Node::null, Node::from));
    metadata.insert("public-keys", Vec::<Node>::new());
    let class = "DataSourceRbxCloud [seed=None]";
    let mut instance = standard::from_metadata("RbxCloud", class, "unknown".into(), &metadata.into());
    let rejections = fields.rejections();
    let adapters = fields.maps("netadp");
    let entries: Vec<Map> =
        adapters.iter().enumerate().filter_map(|(i, adapter)| interface(adapter, i)).collect();
    let has_address = |entry: &Map| entry.get("subnets").is_some_and(|subnets| !subnets.is_falsy());
    if entries.iter().any(has_address) {
        instance.network = Some(standard::network(v1::config(entries), "cloud.json"));
    } else if fields.rejections() == rejections {
        // Without any address, DHCP may still give one. An invalid field was reported instead.
        fields.reject("netadp", "expected a network adapter with an address");
    }
    instance.config = cloud_config(sys, &fields.map("additionalMetadata"));
    instance.user_data = Blobs(Some(user_data).filter(|data| !data.is_empty()).into_iter().collect());
    Ok(instance)
}

/// Returns the entry of an adapter; `None` without a MAC.
fn interface(adapter: &Fields<'_>, index: usize) -> Option<Map> {
    let mac = adapter.expected_text("macaddress")?.to_lowercase();
    let is_octet = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if mac.split(':').count() != 6 || !mac.split(':').all(is_octet) {
        adapter.reject("macaddress", "expected a MAC address");
        return None;
    }
    let network = adapter.map("network");
    let address = |of: &Fields<'_>, key: &str| {
        let text = of.expected_text(key)?;
        if text.parse::<IpAddr>().is_err() {
            of.reject(key, "expected an IP address");
            return None;
        }
        Some(text)
    };
    let addresses: Vec<String> = adapter.maps("ip").iter().filter_map(|ip| address(ip, "address")).collect();
    // Both are reported once for an adapter, whatever the number of its addresses.
    let netmask = if addresses.is_empty() { None } else { address(&network, "netmask") };
    let gateway = if netmask.is_none() { None } else { address(&network, "gateway") };
    let servers = network.map("dns").texts("nameservers");
    let subnet = |address: &String| {
        let mut subnet = v1::map(&[("type", "static"), ("address", address), ("control", "auto")]);
        subnet.insert("netmask", netmask.as_deref()?);
        if let Some(gateway) = &gateway {
            subnet.insert("gateway", gateway.as_str());
        }
        let servers: Vec<Node> = servers.iter().map(|server| Node::from(server.as_str())).collect();
        subnet.insert("dns_nameservers", servers);
        Some(subnet)
    };
    let subnets = addresses.iter().filter_map(subnet).collect();
    Some(v1::physical(&format!("eth{index}"), &mac, subnets))
}

/// Returns the cloud-config of the metadata: the default user, and how to log in.
fn cloud_config(sys: &System, additional: &Fields<'_>) -> Value {
    let mut user = json!({
        "sudo": ["ALL=(ALL) NOPASSWD:ALL"],
        "lock_passwd": false,
        "ssh_authorized_keys": additional.texts("sshKeys"),
    });
    if let Some(name) = additional.text("username") {
        user["name"] = name.as_str().into();
        user["gecos"] = name.into();
    }
    if let Some(hash) = additional.map("password").text("sha512") {
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

/// Announces the machine's addresses to its gateways by ARP, so that they do not use what they know of a previous machine.
/// Failures are logged: what they know expires.
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
    let deadline = Deadline::after(ANNOUNCE_TIMEOUT);
    for (source, destination) in pairs {
        if deadline.is_expired() {
            warning!(ctx.sys, "RbxCloud: deadline exceeded; the remaining addresses are not announced");
            break;
        }
        let words = ["arping", "-c", "2", option, &source.to_string(), &destination.to_string()];
        if let Err(e) = ctx.sys.run(&Command::new(words).timeout(deadline.remaining())) {
            warning!(ctx.sys, "{source} is not announced to {destination}: {e}");
        }
    }
    Ok(())
}

/// Returns pairs of an address of the machine and an address that has to know it: the gateway, and those of the two routers
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

    /// A wrong field does not affect the others.
    #[test]
    fn fields_of_a_wrong_type_do_not_affect_the_others() {
        let one =
            |adapter: &str| format!(r#"{{"vm": {{"_id": 5, "name": "n"}}, "netadp": [{{{adapter}}}]}}"#);
        let mac = r#""macaddress": "02:00:00:00:00:01""#;
        let good = r#""network": {"netmask": "255.255.255.0", "dns": {"nameservers": [3]}}, "ip": [{}, {"address": "192.0.2.7"}]"#;
        let entry = "[{mac_address:02:00:00:00:00:01,name:eth0,subnets:[{address:192.0.2.7,control:auto,\
                     dns_nameservers:[],netmask:255.255.255.0,type:static}],type:physical}]";
        for (document, warnings_expected, network) in [
            (
                r#"{"vm": {"_id": 5, "name": ["x"]}, "netadp": []}"#.to_string(),
                &["vm.name: expected a string", "netadp: expected a network adapter"][..],
                "null",
            ),
            (
                r#"{"vm": {"_id": 5, "name": "n"}}"#.into(),
                &["cloud.json: netadp: expected a network"],
                "null",
            ),
            (
                r#"{"vm": {"_id": 5}, "netadp": [7]}"#.into(),
                &["vm.name: missing", "netadp[0]: expected a map"],
                "null",
            ),
            (one(good), &["netadp[0].macaddress: missing"], "null"),
            (one(&format!(r#""macaddress": "02:00", {good}"#)), &["macaddress: expected a MAC"], "null"),
            (
                one(&format!("{mac}, {good}")),
                &["ip[0].address: missing", "gateway: missing", "nameservers[0]: expected a string"],
                entry,
            ),
            (
                one(&format!(r#"{mac}, "ip": [{{"address": "x\u001b"}}, {{"address": "x"}}]"#)),
                &["netadp[0].ip[0].address: contains control", "ip[1].address: expected an IP address"],
                "null",
            ),
            (
                one(&format!(
                    r#"{mac}, "network": [], "ip": [{{"address": "192.0.2.7"}}, {{"address": "192.0.2.8"}}]"#
                )),
                &["netadp[0].network: expected a map"],
                "null",
            ),
        ] {
            let (instance, warnings) = parsed(&document);
            let instance = instance.unwrap();
            assert_eq!((&*instance.id, instance.user_data.0), ("5", vec![b"u".to_vec()]));
            let config = instance.network.map_or(Value::Null, |network| network.content["config"].clone());
            assert_eq!(config.to_string().replace('"', ""), network, "{document}");
            assert_eq!(warnings.len(), warnings_expected.len(), "{document}: {warnings:?}");
            for expected in warnings_expected {
                let count = warnings.iter().filter(|line| line.contains(expected)).count();
                assert_eq!(count, 1, "{expected} in {document}: {warnings:?}");
            }
        }
        for document in ["{}", r#"{"vm": {}}"#, r#"{"vm": {"_id": {}}}"#, r#"{"vm": []}"#] {
            assert!(parsed(document).0.unwrap_err().to_string().contains("vm._id"), "{document}");
        }
    }
}
