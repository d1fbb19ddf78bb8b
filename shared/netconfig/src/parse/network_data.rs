//! OpenStack's `network_data.json` (also on config drives): links, networks and services, converted to version 1, which
//! is stored as the applied configuration. Pure: the names of NICs come with [`Facts`].

use std::collections::HashMap;

use config::{FindingKind, Findings, Map, Node};

use super::facts::Facts;

/// The members of networks and routes that version 1 has as well.
const SUBNET_KEYS: [&str; 10] = [
    "type",
    "address",
    "netmask",
    "broadcast",
    "metric",
    "gateway",
    "pointopoint",
    "scope",
    "dns_nameservers",
    "dns_search",
];
/// The types of links that are NICs of the machine.
const PHYSICAL: [&str; 12] = [
    "bgpovs",
    "bridge",
    "cascading",
    "dvs",
    "ethernet",
    "hw_veb",
    "hyperv",
    "ovs",
    "phy",
    "tap",
    "vhostuser",
    "vif",
];
const ROUTE_KEYS: [&str; 5] = ["network", "destination", "netmask", "gateway", "metric"];

/// Returns the MACs, in lower case, of the physical links without a name, whose names must be known.
pub fn needed_macs(data: &Node) -> Vec<String> {
    items(data, "links")
        .filter(|l| !has_type(l, "bond") && !has_type(l, "vlan") && l.get("name").is_none_or(Node::is_falsy))
        .filter_map(mac_of)
        .collect()
}

/// Converts the document to version 1.
///
/// # Errors
/// Fails if it is not an object, or with the link for which no NIC is found.
pub fn to_v1(data: &Node, facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
    if data.as_map().is_none() {
        return Err(format!("{}: network_data.json: expected an object, found {}", data.at, data.kind()));
    }
    let links: Vec<&Node> = items(data, "links").collect();
    let names = link_names(&links, facts)?;
    let mut networks: HashMap<&str, Vec<&Node>> = HashMap::new();
    // A null was a value of another type, which the datasource has reported.
    let is_rejected = |node: &Node, key: &str| node.is_null() || node.get(key).is_some_and(Node::is_null);
    let is_usable = |network: &&Node| !["ip_address", "type"].iter().any(|key| is_rejected(network, key));
    for network in items(data, "networks").filter(is_usable) {
        if let Some(link) = network.get("link").and_then(Node::as_str) {
            networks.entry(link).or_default().push(network);
        }
    }
    let mut entries: Vec<Node> = Vec::with_capacity(links.len());
    for link in links {
        let id = link.get("id").and_then(Node::as_str).unwrap_or_default();
        let mut entry = Map::new();
        entry.insert("name", names.get(id).cloned().unwrap_or_default());
        for key in ["mtu", "params"] {
            if let Some(value) = link.get(key) {
                entry.insert(key, value.clone());
            }
        }
        let mut subnets = Vec::new();
        for network in networks.get(id).into_iter().flatten() {
            subnets.push(subnet(network, &mut entry));
        }
        entry.insert("subnets", subnets);
        if has_type(link, "bond") {
            bond(&mut entry, link, &names);
        } else if has_type(link, "vlan") {
            vlan(&mut entry, link, &names);
        } else {
            if !is_physical(link) {
                let id = link.get("id").and_then(Node::scalar_text).unwrap_or_default();
                let message = "unknown link type; treating it as physical";
                findings.add(FindingKind::Unknown, &link.at, format!("links.{id}.type"), message);
            }
            entry.insert("type", "physical");
            infiniband(&mut entry, link, facts);
        }
        entries.push(Node::from(entry));
    }
    for service in items(data, "services").filter(|service| !is_rejected(service, "address")) {
        let mut entry = service.as_map().cloned().unwrap_or_default();
        entry.insert("type", "nameserver");
        entries.push(Node::from(entry));
    }
    let mut config = Map::new();
    config.insert("version", 1);
    config.insert("config", entries);
    Ok(Node::from(config))
}

fn items<'a>(data: &'a Node, key: &str) -> impl Iterator<Item = &'a Node> {
    data.get(key).and_then(Node::as_seq).unwrap_or_default().iter()
}

fn has_type(link: &Node, kind: &str) -> bool {
    link.get("type").and_then(Node::as_str) == Some(kind)
}

fn is_physical(link: &Node) -> bool {
    link.get("type").is_none_or(|n| n.is_null() || n.as_str().is_some_and(|t| PHYSICAL.contains(&t)))
}

fn mac_of(link: &Node) -> Option<String> {
    let mac = link.get("ethernet_mac_address").or_else(|| link.get("mac_address"))?;
    mac.as_str().map(str::to_ascii_lowercase)
}

/// Returns the name of each link by its id: NICs first, then bonds, then the vlans on them.
fn link_names<'a>(links: &[&'a Node], facts: &Facts) -> Result<HashMap<&'a str, String>, String> {
    let mut names: HashMap<&str, String> = HashMap::new();
    let id = |link: &&'a Node| link.get("id").and_then(Node::as_str).unwrap_or_default();
    let given = |link: &&'a Node| link.get("name").and_then(Node::as_str).filter(|n| !n.is_empty());
    let mut bonds = 0;
    for link in links.iter().filter(|l| !has_type(l, "vlan")) {
        let name = match given(link) {
            Some(name) => name.to_string(),
            None if has_type(link, "bond") => format!("bond{bonds}"),
            None => nic_name(link, facts)?,
        };
        bonds += usize::from(has_type(link, "bond"));
        names.insert(id(link), name);
    }
    for link in links.iter().filter(|l| has_type(l, "vlan")) {
        let lower = link.get("vlan_link").and_then(Node::as_str).unwrap_or_default();
        let lower = names.get(lower).map_or(lower, String::as_str);
        let tag = link.get("vlan_id").and_then(Node::scalar_text).unwrap_or_default();
        let name = format!("{lower}.{tag}");
        names.insert(id(link), name);
    }
    Ok(names)
}

fn nic_name(link: &Node, facts: &Facts) -> Result<String, String> {
    let id = link.get("id").and_then(Node::scalar_text).unwrap_or_default();
    let Some(mac) = mac_of(link) else {
        return Err(format!("network_data.json: link {id} has neither a name nor a MAC address"));
    };
    let name = facts.name_of(&mac);
    name.map(str::to_string)
        .ok_or_else(|| format!("network_data.json: no NIC has the MAC address {mac} of link {id}"))
}

fn bond(entry: &mut Map, link: &Node, names: &HashMap<&str, String>) {
    entry.insert("type", "bond");
    if let Some(mac) = mac_of(link) {
        entry.insert("mac_address", mac);
    }
    let mut params = Map::new();
    for (key, value) in link.as_map().into_iter().flat_map(Map::iter) {
        let Some(option) = key.as_str().filter(|k| k.starts_with("bond") && *k != "bond_links") else {
            continue;
        };
        params.insert(option.replacen("bond_", "bond-", 1), value.clone());
    }
    entry.insert("params", params);
    let members = items(link, "bond_links").filter_map(Node::as_str);
    let members: Vec<Node> = members.map(|id| Node::from(names.get(id).map_or(id, String::as_str))).collect();
    entry.insert("bond_interfaces", members);
}

fn vlan(entry: &mut Map, link: &Node, names: &HashMap<&str, String>) {
    entry.insert("type", "vlan");
    if let Some(id) = link.get("vlan_id") {
        entry.insert("vlan_id", id.clone());
    }
    let lower = link.get("vlan_link").and_then(Node::as_str).unwrap_or_default();
    entry.insert("vlan_link", names.get(lower).map_or(lower, String::as_str));
    if let Some(mac) = link.get("vlan_mac_address") {
        entry.insert("mac_address", mac.clone());
    }
}

/// Sets the MAC; for an InfiniBand NIC of the machine also the type, and the MAC in its long form.
fn infiniband(entry: &mut Map, link: &Node, facts: &Facts) {
    let name = entry.get("name").and_then(Node::as_str).map(str::to_string);
    let nic = facts.nics.iter().find(|nic| nic.infiniband && Some(&nic.name) == name.as_ref());
    if let Some(nic) = nic {
        entry.insert("type", "infiniband");
        entry.insert("mac_address", nic.mac.as_str());
    } else if let Some(mac) = mac_of(link) {
        entry.insert("mac_address", mac);
    }
}

/// Converts a network to a subnet. Its settings for router advertisements are set on the link.
fn subnet(network: &Node, link: &mut Map) -> Node {
    let mut subnet = Map::new();
    for key in SUBNET_KEYS {
        if let Some(value) = network.get(key).filter(|value| !value.is_null()) {
            subnet.insert(key, value.clone());
        }
    }
    let kind = network.get("type").and_then(Node::as_str).unwrap_or_default();
    let mut fixed = |kind: &str, flag: Option<&str>| {
        subnet.insert("type", kind);
        if let Some(address) = network.get("ip_address") {
            subnet.insert("address", address.clone());
        }
        if let Some(flag) = flag {
            subnet.insert(flag, true);
        }
    };
    match kind {
        "ipv4" => fixed("static", Some("ipv4")),
        "static" => fixed("static", None),
        "ipv6" | "static6" => {
            fixed("static6", (kind == "ipv6").then_some("ipv6"));
            link.insert("accept-ra", false);
        }
        "ipv4_dhcp" => drop(subnet.insert("type", "dhcp4")),
        "ipv6_dhcp" => {
            subnet.insert("type", "dhcp6");
            link.insert("accept-ra", true);
        }
        "ipv6_dhcpv6-stateful" => drop(link.insert("accept-ra", true)),
        _ => {}
    }
    let mut servers: Vec<Node> = Vec::new();
    let mut routes: Vec<Node> = Vec::new();
    let has_network = |route: &&Node| !route.is_null() && !route.get("network").is_some_and(Node::is_null);
    for route in items(network, "routes").filter(has_network) {
        let value = |key: &str| route.get(key).filter(|value| !value.is_null()).cloned();
        let pairs = ROUTE_KEYS.iter().filter_map(|key| Some((Node::from(*key), value(key)?)));
        routes.push(Node::from(pairs.collect::<Map>()));
        add_servers(&mut servers, route);
    }
    add_servers(&mut servers, network);
    if !servers.is_empty() {
        subnet.insert("dns_nameservers", servers);
    }
    if !routes.is_empty() {
        subnet.insert("routes", routes);
    }
    Node::from(subnet)
}

fn add_servers(servers: &mut Vec<Node>, from: &Node) {
    for service in items(from, "services").filter(|s| has_type(s, "dns")) {
        if let Some(address) = service.get("address")
            && !servers.contains(address)
        {
            servers.push(address.clone());
        }
    }
}
