//! Vultr's interfaces as a network configuration of version 1.

use config::{Map, Node};
use system::System;

use super::NAME;
use crate::document::fields::Field;
use crate::document::fields::FieldType::{Name, Prefix, Str, Text};
use crate::document::v1;
use crate::{Nics, document, standard};

/// The fields that are read here.
pub const FIELDS: [Field; 12] = [
    ("cloud_interfaces.config[].type", Text, false),
    ("cloud_interfaces.config[].mac_address", Name, false),
    ("cloud_interfaces.config[].mtu", Text, false),
    ("cloud_interfaces.config[].accept-ra", Text, false),
    ("interfaces[].mtu", Text, false),
    ("interfaces[].accept-ra", Text, false),
    ("interfaces[].ipv4.address", Text, false),
    ("interfaces[].ipv4.netmask", Text, false),
    ("interfaces[].ipv4.additional[].address", Str, false),
    ("interfaces[].ipv4.additional[].netmask", Text, false),
    ("interfaces[].ipv6.additional[].network", Str, false),
    ("interfaces[].ipv6.additional[].prefix", Prefix, false),
];

/// Vultr's own resolvers.
const RESOLVERS: [&str; 2] = ["108.61.10.10", "2001:19f0:300:1704::6"];

/// Returns the configuration of all interfaces; `None` if the machine has none of them. Those that it does not have are
/// skipped with a warning.
pub fn config(sys: &System, nics: &Nics, metadata: &Node) -> Option<Node> {
    let mut entries = vec![v1::nameserver(RESOLVERS.map(Node::from).to_vec())];
    let interfaces = document::items(metadata, "interfaces");
    for (i, interface) in interfaces.iter().enumerate() {
        let is_first = i == 0;
        if !is_first && interface.get("unconfigured").is_some_and(|n| !n.is_falsy()) {
            continue;
        }
        let place = format!("{}: interfaces[{i}]", standard::metadata_of(NAME));
        let Some(nic) = v1::nic(sys, nics, interface, "mac", &place) else { continue };
        let mut entry = v1::physical(&nic.name, &nic.mac, subnets(interface, is_first));
        if is_first {
            entry.insert("accept-ra", 1);
        }
        for key in ["mtu", "accept-ra"] {
            entry.insert_some(key, interface.get(key).filter(|n| !n.is_null()).cloned());
        }
        entries.push(entry);
    }
    (entries.len() > 1 || interfaces.is_empty()).then(|| v1::config(entries))
}

fn subnets(interface: &Node, is_first: bool) -> Vec<Map> {
    let null = Node::null();
    let ipv4 = interface.get("ipv4").unwrap_or(&null);
    let ipv6 = interface.get("ipv6").unwrap_or(&null);
    let address = |given: &Node| {
        let text = |key: &str| document::text(given, key).unwrap_or_default();
        subnet(&[("type", "static"), ("address", &text("address")), ("netmask", &text("netmask"))])
    };
    let mut subnets = match is_first {
        true => vec![subnet(&[("type", "dhcp")]), subnet(&[("type", "ipv6_slaac")])],
        false => vec![address(ipv4)],
    };
    add_routes(&mut subnets[0], interface);
    let is_valid = |given: &&Node, key: &str| !given.is_null() && !document::is_null(given, key);
    for given in document::items(ipv4, "additional").iter().filter(|given| is_valid(given, "address")) {
        let mut subnet = address(given);
        add_routes(&mut subnet, given);
        subnets.push(subnet);
    }
    let has_network = |given: &&Node| is_valid(given, "network") && is_valid(given, "prefix");
    for given in document::items(ipv6, "additional").iter().filter(has_network) {
        let text = |key: &str| document::text(given, key).unwrap_or_default();
        let address = format!("{}/{}", text("network"), text("prefix"));
        let mut subnet = subnet(&[("type", "static6"), ("address", &address)]);
        add_routes(&mut subnet, given);
        subnets.push(subnet);
    }
    subnets
}

fn subnet(pairs: &[(&str, &str)]) -> Map {
    let mut subnet = v1::map(pairs);
    subnet.insert("control", "auto");
    subnet
}

fn add_routes(subnet: &mut Map, given: &Node) {
    subnet.insert_some("routes", given.get("routes").cloned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nic;

    #[test]
    fn metadata_overrides_accept_ra_of_the_first_interface() {
        let sys = System::new("/nonexistent");
        let nic = |name: &str, mac: &str| Nic { name: name.into(), mac: mac.into(), ..Nic::default() };
        let nics = Nics { configurable: vec![nic("ens3", "02:00:00:00:00:01")], ..Nics::default() };
        for (given, expected) in
            [("", "1"), (", accept-ra: 0", "0"), (", accept-ra: 2", "2"), (", accept-ra: null", "1")]
        {
            let text = format!("interfaces: [{{mac: '02:00:00:00:00:01'{given}}}]");
            let metadata = config::yaml::parse("t", &text).unwrap().root;
            let config = config(&sys, &nics, &metadata).unwrap();
            let entry = &document::items(&config, "config")[1];
            assert_eq!(document::text(entry, "accept-ra").as_deref(), Some(expected), "{text}");
        }
    }
}
