//! DigitalOcean's interfaces as a network configuration of version 1.

use config::{Map, Node};
use system::{System, warning};

use super::NAME;
use crate::document::fields::Field;
use crate::document::fields::FieldType::{Prefix, Str, StrList, Text};
use crate::document::v1;
use crate::{Nics, document, standard};

/// The fields that are read here.
pub const FIELDS: [Field; 12] = [
    ("dns.nameservers", StrList, false),
    ("interfaces{}[].type", Str, false),
    ("interfaces{}[].ipv4.ip_address", Str, false),
    ("interfaces{}[].ipv4.netmask", Text, false),
    ("interfaces{}[].ipv4.gateway", Str, false),
    ("interfaces{}[].ipv6.ip_address", Str, false),
    ("interfaces{}[].ipv6.cidr", Prefix, false),
    ("interfaces{}[].ipv6.gateway", Str, false),
    ("interfaces{}[].anchor_ipv4.ip_address", Str, false),
    ("interfaces{}[].anchor_ipv4.netmask", Text, false),
    ("interfaces{}[].anchor_ipv6.ip_address", Str, false),
    ("interfaces{}[].anchor_ipv6.cidr", Prefix, false),
];

/// Returns the configuration of the first NIC of each kind; `None` if the machine has none of them. NICs that it does not
/// have are skipped with a warning.
pub fn config(sys: &System, nics: &Nics, metadata: &Node) -> Option<Node> {
    let mut entries = Vec::new();
    for (kind, interfaces) in
        metadata.get("interfaces").and_then(Node::as_map).into_iter().flat_map(Map::iter)
    {
        let place = format!("{}: interfaces.{}", standard::metadata_of(NAME), kind.as_str().unwrap_or("?"));
        let Some(list) = interfaces.as_seq() else {
            warning!(sys, "{place}: expected a list, found {}; ignored", interfaces.kind());
            continue;
        };
        let Some(interface) = list.first() else { continue };
        let Some(nic) = v1::nic(sys, nics, interface, "mac", &format!("{place}[0]")) else { continue };
        let name = match document::text(interface, "type").as_deref() {
            Some("public") => "eth0",
            Some("private") => "eth1",
            _ => &nic.name,
        };
        entries.push(v1::physical(name, &nic.mac, subnets(interface)));
    }
    if entries.is_empty() {
        return None;
    }
    if let Some(servers) = metadata.at_path(&["dns", "nameservers"]).filter(|n| !n.is_falsy()) {
        entries.push(v1::nameserver(servers.clone()));
    }
    Some(v1::config(entries))
}

fn subnets(interface: &Node) -> Vec<Map> {
    let is_public = document::text(interface, "type").as_deref() == Some("public");
    let mut subnets = Vec::new();
    for family in ["ipv4", "ipv6", "anchor_ipv4", "anchor_ipv6"] {
        let Some(given) = interface.get(family).filter(|n| !n.is_falsy()) else { continue };
        let text = |key: &str| document::text(given, key).unwrap_or_default();
        if document::is_null(given, "ip_address") || document::is_null(given, "cidr") {
            continue;
        }
        let mut subnet = v1::map(&[("type", "static"), ("control", "auto")]);
        if family.ends_with("ipv4") {
            subnet.insert("address", text("ip_address"));
            subnet.insert("netmask", text("netmask"));
        } else {
            subnet.insert("address", format!("{}/{}", text("ip_address"), text("cidr")));
        }
        // Only public addresses have a route to other networks.
        if is_public && !family.starts_with("anchor") {
            subnet.insert("gateway", text("gateway"));
        }
        subnets.push(subnet);
    }
    subnets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nic;

    #[test]
    fn type_of_a_nic_decides_its_name() {
        let sys = System::new("/nonexistent");
        let nic = |name: &str, mac: &str| Nic { name: name.into(), mac: mac.into(), ..Nic::default() };
        let nics = Nics { configurable: vec![nic("ens3", "02:00:00:00:00:01")], ..Nics::default() };
        for (given, expected) in [
            ("public: [{type: public, ", "eth0"),
            ("private: [{type: private, ", "eth1"),
            ("vpc: [{type: private, ", "eth1"),
            ("public: [{type: other, ", "ens3"),
            ("public: [{", "ens3"),
        ] {
            let text = format!("interfaces: {{{given}mac: '02:00:00:00:00:01'}}]}}");
            let metadata = config::yaml::parse("t", &text).unwrap().root;
            let config = config(&sys, &nics, &metadata).unwrap();
            let name = document::text(&document::items(&config, "config")[0], "name");
            assert_eq!(name.as_deref(), Some(expected), "{text}");
        }
    }
}
