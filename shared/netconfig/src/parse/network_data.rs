//! OpenStack's `network_data.json` (also on config drives): links, networks and services, converted to version 1, which
//! is stored as the applied configuration. Pure: the names of NICs come with [`Facts`].

use std::collections::{HashMap, HashSet};

use config::{Finding, FindingKind, Findings, Map, Node, shown_name};

use super::facts::Facts;
use super::scalar::is_zero_mac;
use super::section::version_1;

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
/// The names of a link's MAC.
const MAC_KEYS: [&str; 2] = ["ethernet_mac_address", "mac_address"];
const ROUTE_KEYS: [&str; 5] = ["network", "destination", "netmask", "gateway", "metric"];

/// Converts the document to version 1. A link for which no NIC is found is reported and ignored, with the devices above it.
///
/// # Errors
/// Fails if it is not an object, or with the first such link if no link is left.
pub fn to_v1(data: &Node, facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
    if data.as_map().is_none() {
        return Err(format!("{}: network_data.json: expected an object, found {}", data.at, data.kind()));
    }
    let links: Vec<Link<'_>> = items(data, "links").enumerate().map(Link::of).collect();
    let Named { names, unusable, unusable_ids, problems } = link_names(&links, facts);
    let is_unusable = |link: &Link<'_>| link.node.is_null() || unusable.contains(&link.index);
    let has_invalid_links = data.get("links").is_some_and(|links| links.as_seq().is_none());
    if has_invalid_links || !links.is_empty() && links.iter().all(is_unusable) {
        // A network without links would be worse than the one that the system has now.
        let no_link = || format!("{}: network_data.json: links: no link can be configured", data.at);
        return Err(problems.first().map_or_else(no_link, ToString::to_string));
    }
    problems.into_iter().for_each(|problem| findings.push(problem));
    let mut networks: HashMap<&str, Vec<&Node>> = HashMap::new();
    // The datasource replaces a value of another type by null, and reports it.
    for network in items(data, "networks").filter(|network| !network.is_null()) {
        if let Some(link) = network.get("link").and_then(Node::as_str) {
            networks.entry(link).or_default().push(network);
        }
    }
    let mut entries: Vec<Node> = Vec::new();
    for Link { node: link, id, .. } in links.iter().filter(|link| !is_unusable(link)) {
        let mut entry = Map::from([("name", names.get(*id).cloned().unwrap_or_default().into())]);
        for key in ["mtu", "params"] {
            entry.insert_some(key, link.get(key).cloned());
        }
        let networks = networks.get(*id).into_iter().flatten();
        let subnets: Vec<Node> = networks.map(|network| subnet(network, &mut entry)).collect();
        entry.insert("subnets", subnets);
        if has_type(link, "bond") {
            bond(&mut entry, link, &names, &unusable_ids);
        } else if has_type(link, "vlan") {
            vlan(&mut entry, link, &names);
        } else {
            if !is_physical(link) {
                let message = "unknown link type; treating it as physical";
                findings.unknown(&link.at, format!("links.{}.type", shown_name(id)), message);
            }
            entry.insert("type", "physical");
            infiniband(&mut entry, link, facts);
        }
        entries.push(Node::from(entry));
    }
    let has_address =
        |service: &&Node| !service.is_null() && service.get("address").is_none_or(|n| !n.is_null());
    for service in items(data, "services").filter(has_address) {
        let mut entry = service.as_map().cloned().unwrap_or_default();
        entry.insert("type", "nameserver");
        entries.push(Node::from(entry));
    }
    Ok(version_1(entries))
}

fn items<'a>(data: &'a Node, key: &str) -> std::slice::Iter<'a, Node> {
    data.get(key).map_or(&[][..], Node::items).iter()
}

fn has_type(link: &Node, kind: &str) -> bool {
    link.get("type").and_then(Node::as_str) == Some(kind)
}

fn is_physical(link: &Node) -> bool {
    link.get("type").is_none_or(|n| n.is_null() || n.as_str().is_some_and(|t| PHYSICAL.contains(&t)))
}

fn mac_of(link: &Node) -> Option<String> {
    let mac = MAC_KEYS.iter().find_map(|key| link.get(key))?;
    mac.as_str().filter(|mac| !is_zero_mac(mac)).map(str::to_ascii_lowercase)
}

/// A link, its number in the list and its id, which is empty if it has none.
struct Link<'a> {
    index: usize,
    node: &'a Node,
    id: &'a str,
}

impl<'a> Link<'a> {
    fn of((index, node): (usize, &'a Node)) -> Link<'a> {
        Link { index, node, id: node.get("id").and_then(Node::as_str).unwrap_or_default() }
    }
}

/// The result of naming the links.
#[derive(Default)]
struct Named<'a> {
    /// The name of each link by its id.
    names: HashMap<&'a str, String>,
    /// The numbers of the links that cannot be configured.
    unusable: HashSet<usize>,
    /// Their ids.
    unusable_ids: HashSet<&'a str>,
    /// The reasons, for NICs only: a bond or VLAN is unusable because of a NIC below it.
    problems: Vec<Finding>,
}

/// Returns the name of each link by its id: NICs first, then bonds, then the vlans on them.
fn link_names<'a>(links: &[Link<'a>], facts: &Facts) -> Named<'a> {
    let mut named = Named::default();
    let given = |link: &'a Node| link.get("name").and_then(Node::as_str).filter(|name| !name.is_empty());
    let links = || links.iter().filter(|link| !link.node.is_null());
    for link in links().filter(|link| !has_type(link.node, "bond") && !has_type(link.node, "vlan")) {
        match given(link.node).map_or_else(|| nic_name(link, facts), |name| Ok(name.to_string())) {
            Ok(name) => drop(named.names.insert(link.id, name)),
            Err(problem) => {
                named.problems.extend(problem);
                named.unusable.insert(link.index);
                named.unusable_ids.insert(link.id);
            }
        }
    }
    named.unusable_ids.remove("");
    for (i, link) in links().filter(|link| has_type(link.node, "bond")).enumerate() {
        let name = given(link.node).map_or_else(|| format!("bond{i}"), str::to_string);
        let mut members = items(link.node, "bond_links").filter_map(Node::as_str).peekable();
        if members.peek().is_some() && members.all(|id| named.unusable_ids.contains(id)) {
            named.unusable.insert(link.index);
            named.unusable_ids.insert(link.id);
        } else {
            named.names.insert(link.id, name);
        }
    }
    for link in links().filter(|link| has_type(link.node, "vlan")) {
        let lower = link.node.get("vlan_link").and_then(Node::as_str).unwrap_or_default();
        // The datasource replaces a value of another type by null, and reports it.
        if named.unusable_ids.contains(lower) || link.node.get("vlan_link").is_some_and(Node::is_null) {
            named.unusable.insert(link.index);
            continue;
        }
        let lower = named.names.get(lower).map_or(lower, String::as_str);
        let tag = link.node.get("vlan_id").and_then(Node::scalar_text).unwrap_or_default();
        let name = format!("{lower}.{tag}");
        named.names.insert(link.id, name);
    }
    named
}

/// Returns the name of the NIC of a link. Fails with the problem, unless the datasource has reported it: then the MAC is
/// null.
fn nic_name(link: &Link<'_>, facts: &Facts) -> Result<String, Option<Finding>> {
    let key = MAC_KEYS.iter().find(|key| link.node.get(key).is_some()).unwrap_or(&MAC_KEYS[0]);
    let message = match mac_of(link.node) {
        Some(mac) => match facts.name_of_needed(&mac) {
            Some(name) => return Ok(name.to_string()),
            None => "no NIC has this MAC address",
        },
        // oVirt's links have no address, and the names of NICs as IDs.
        None if facts.with_name(link.id).is_some() => return Ok(link.id.to_string()),
        None if link.node.get(key).is_some_and(Node::is_null) => return Err(None),
        None => "expected a MAC address, as the link has no name",
    };
    let message = format!("{message}; ignoring the link and what is on it");
    let key = format!("links[{}].{key}", link.index);
    Err(Some(Finding { kind: FindingKind::Invalid, at: link.node.at.clone(), key, message }))
}

fn bond(entry: &mut Map, link: &Node, names: &HashMap<&str, String>, unusable: &HashSet<&str>) {
    entry.insert("type", "bond");
    entry.insert_some("mac_address", mac_of(link));
    let params = link.entries().filter_map(|(key, value)| {
        let option = key.as_str().filter(|k| k.starts_with("bond") && *k != "bond_links")?;
        let name = value.as_str().and_then(|id| names.get(id)).filter(|_| option.ends_with("primary"));
        let value =
            name.map_or_else(|| value.clone(), |name| Node { at: value.at.clone(), ..name.as_str().into() });
        Some((option.replace('_', "-").into(), value))
    });
    entry.insert("params", params.collect::<Map>());
    let members = items(link, "bond_links").filter_map(Node::as_str).filter(|id| !unusable.contains(id));
    let members: Vec<Node> = members.map(|id| Node::from(names.get(id).map_or(id, String::as_str))).collect();
    entry.insert("bond_interfaces", members);
}

fn vlan(entry: &mut Map, link: &Node, names: &HashMap<&str, String>) {
    entry.insert("type", "vlan");
    entry.insert_some("vlan_id", link.get("vlan_id").cloned());
    let lower = link.get("vlan_link").and_then(Node::as_str).unwrap_or_default();
    entry.insert("vlan_link", names.get(lower).map_or(lower, String::as_str));
    entry.insert_some("mac_address", link.get("vlan_mac_address").cloned());
}

/// Sets the MAC; for an InfiniBand NIC of the machine also the type, and the MAC in its long form.
fn infiniband(entry: &mut Map, link: &Node, facts: &Facts) {
    let nic = entry.get("name").and_then(Node::as_str).and_then(|name| facts.with_name(name));
    if let Some(nic) = nic.filter(|nic| nic.infiniband) {
        entry.insert("type", "infiniband");
        entry.insert("mac_address", nic.mac.as_str());
    } else {
        entry.insert_some("mac_address", mac_of(link));
    }
}

/// Converts a network to a subnet. Its settings for router advertisements are set on the link.
fn subnet(network: &Node, link: &mut Map) -> Node {
    let mut subnet = Map::new();
    for key in SUBNET_KEYS {
        subnet.insert_some(key, network.get(key).filter(|value| !value.is_null()).cloned());
    }
    let kind = network.get("type").and_then(Node::as_str).unwrap_or_default();
    let mut fixed = |kind: &str, flag: Option<&str>| {
        subnet.insert("type", kind);
        subnet.insert_some("address", network.get("ip_address").cloned());
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
    let mut all: Vec<&Node> = Vec::new();
    let mut routes: Vec<Node> = Vec::new();
    // The datasource replaces a route with an invalid field by null, and reports it.
    for route in items(network, "routes").filter(|route| !route.is_null()) {
        let value = |key: &str| route.get(key).filter(|value| !value.is_null()).cloned();
        let pairs = ROUTE_KEYS.iter().filter_map(|key| Some((Node::from(*key), value(key)?)));
        routes.push(Node::from(pairs.collect::<Map>()));
        all.extend(servers(route));
    }
    all.extend(servers(network));
    let mut known = HashSet::new();
    all.retain(|server| known.insert(server.scalar_text()));
    subnet.insert_unless_empty("dns_nameservers", all.into_iter().cloned().collect::<Vec<_>>());
    subnet.insert_unless_empty("routes", routes);
    Node::from(subnet)
}

fn servers(from: &Node) -> impl Iterator<Item = &Node> {
    items(from, "services")
        .filter(|service| has_type(service, "dns"))
        .filter_map(|service| service.get("address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NICS: [(&str, &str); 2] = [("eth0", "02:00:00:00:00:01"), ("eth1", "02:00:00:00:00:02")];

    /// Returns the names of the entries with those of the devices below them, and the findings.
    fn converted(links: &str) -> Result<(String, Vec<String>), String> {
        let data = config::yaml::parse("t", &format!("{{links: {links}, networks: [], services: []}}"));
        let mut findings = Findings::default();
        let config = to_v1(&data.unwrap().root, &Facts::from_pairs(NICS), &mut findings)?;
        let entry = |entry: &Node| {
            let name = entry.get("name").and_then(Node::as_str).unwrap_or_default();
            let below = entry.get("bond_interfaces").or_else(|| entry.get("vlan_link"));
            let below = below.map(|below| format!("<{}", below.to_json())).unwrap_or_default();
            format!("{name}{below}")
        };
        let entries: Vec<String> = items(&config, "config").map(entry).collect();
        let findings = findings.iter().map(|finding| format!("{}: {}", finding.key, finding.message));
        Ok((entries.join(" ").replace('"', ""), findings.collect()))
    }

    #[test]
    fn a_link_without_a_nic_is_ignored_with_the_devices_above_it() {
        let ignored = "; ignoring the link and what is on it";
        let unknown = format!("no NIC has this MAC address{ignored}");
        let second = "{id: b, type: phy, ethernet_mac_address: '02:00:00:00:00:02'}";
        let above = "{id: v, type: vlan, vlan_link: a, vlan_id: 7}, {id: o, type: bond, bond_links: [a, b]}, \
                     {id: p, type: bond, bond_links: [a]}, {id: w, type: vlan, vlan_link: p, vlan_id: 8}, \
                     {id: x, type: vlan, vlan_link: b, vlan_id: 9}";
        for (first, problem) in [
            (r"{id: a, ethernet_mac_address: x}", Some(format!("links[0].ethernet_mac_address: {unknown}"))),
            ("{id: a, mac_address: x}", Some(format!("links[0].mac_address: {unknown}"))),
            (
                "{id: a, mac_address: 5}",
                Some(format!(
                    "links[0].mac_address: expected a MAC address, as the link has no name{ignored}"
                )),
            ),
            (
                "{id: a}",
                Some(format!(
                    "links[0].ethernet_mac_address: expected a MAC address, as the link has no name{ignored}"
                )),
            ),
            // The datasource has reported it.
            ("{id: a, ethernet_mac_address: null}", None),
        ] {
            let found = converted(&format!("[{first}, {second}, {above}]"));
            let entries = "eth1 bond0<[eth1] eth1.9<eth1".to_string();
            let problems: Vec<String> = problem.into_iter().collect();
            assert_eq!(found, Ok((entries, problems)), "{first}");
        }
        // Null in the place of a link that is not a map, and of the link of a VLAN that had another type.
        let nulls = format!("[null, {second}, {{id: v, type: vlan, vlan_link: null, vlan_id: 7}}]");
        assert_eq!(converted(&nulls), Ok(("eth1".into(), vec![])));
        let named = "[{id: a, name: n, ethernet_mac_address: x}]";
        assert_eq!(converted(named), Ok(("n".into(), vec![])));
        assert_eq!(converted("[{id: eth1}]"), Ok(("eth1".into(), vec![])));
    }

    /// netplan would reject the file.
    #[test]
    fn primary_of_a_bond_is_named_as_the_link() {
        let links = "[{id: a, name: lan, ethernet_mac_address: '02:00:00:00:00:02'}, \
                     {id: o, type: bond, bond_links: [a], bond_primary: a, bond_mode: a}]";
        let data = config::yaml::parse("t", &format!("{{links: {links}, networks: [], services: []}}"));
        let config = to_v1(&data.unwrap().root, &Facts::from_pairs(NICS), &mut Findings::default()).unwrap();
        let params = items(&config, "config").find_map(|entry| entry.get("params")).unwrap();
        assert_eq!(params.to_json().to_string(), r#"{"bond-mode":"a","bond-primary":"lan"}"#);
    }

    #[test]
    fn without_any_link_there_is_no_configuration() {
        for (links, expected) in [
            ("[{id: a, ethernet_mac_address: x}]", "links[0].ethernet_mac_address: no NIC has this MAC"),
            ("[{id: a, ethernet_mac_address: null}]", "links: no link can be configured"),
            ("[null]", "links: no link can be configured"),
            ("null", "links: no link can be configured"),
        ] {
            let error = converted(links).unwrap_err();
            assert!(error.contains(expected), "{links}: {error}");
        }
        assert_eq!(converted("[]"), Ok((String::new(), vec![])));
    }
}
