//! UpCloud's interfaces as a network configuration of version 1.

use config::{Map, Node};
use system::System;

use super::NAME;
use crate::document::fields::Field;
use crate::document::fields::FieldType::{Flag, Str, StrList};
use crate::document::v1;
use crate::{Nics, document, standard};

/// The fields that are read here.
pub const FIELDS: [Field; 7] = [
    ("network.dns", StrList, false),
    ("network.interfaces[].ip_addresses[].address", Str, false),
    ("network.interfaces[].ip_addresses[].family", Str, false),
    ("network.interfaces[].ip_addresses[].dhcp", Flag, false),
    ("network.interfaces[].ip_addresses[].gateway", Str, false),
    ("network.interfaces[].ip_addresses[].network", Str, false),
    ("network.interfaces[].ip_addresses[].dns", StrList, false),
];

/// Returns the configuration of the interfaces that the machine has; others are skipped with a warning.
pub fn config(sys: &System, nics: &Nics, network: &Node) -> Node {
    let servers = network.get("dns").filter(|servers| !servers.is_falsy());
    let mut entries = Vec::new();
    for (i, interface) in document::items(network, "interfaces").iter().enumerate() {
        if interface.is_null() {
            continue;
        }
        let place = format!("{}: network.interfaces[{i}]", standard::metadata_of(NAME));
        let Some(nic) = v1::nic(sys, nics, interface, "mac", &place) else { continue };
        let addresses = document::items(interface, "ip_addresses").iter();
        let addresses = addresses.filter(|given| !given.is_null() && !document::is_null(given, "address"));
        let subnets = addresses.map(|address| subnet(address, servers)).collect();
        entries.push(v1::physical(&nic.name, &nic.mac, subnets));
    }
    entries.extend(servers.map(|servers| v1::nameserver(servers.clone())));
    v1::config(entries)
}

fn subnet(address: &Node, servers: Option<&Node>) -> Map {
    let text = |key: &str| document::text(address, key).unwrap_or_default();
    let is_v6 = text("family") == "IPv6";
    if address.get("dhcp").is_some_and(|dhcp| !dhcp.is_falsy()) {
        return v1::map(&[("type", if is_v6 { "ipv6_dhcpv6-stateless" } else { "dhcp" })]);
    }
    let kind = if is_v6 { "static6" } else { "static" };
    let mut subnet = v1::map(&[("type", kind), ("control", "auto"), ("address", &text("address"))]);
    subnet.insert_some("gateway", document::text(address, "gateway"));
    if let Some((_, length)) = text("network").split_once('/') {
        subnet.insert("netmask", length);
    }
    // The servers of all interfaces have an entry of their own.
    let own = address.get("dns").filter(|own| !own.is_falsy());
    subnet.insert_some("dns_nameservers", own.filter(|own| Some(*own) != servers).cloned());
    subnet
}
