//! Version 1: a list of typed entries, read in order.

use std::collections::HashSet;

use config::{FindingKind, Map, Node, Value, join_key};

use crate::address;
use crate::model::{Dhcp, Dns, Link, LinkKind, Method, Route, Subnet};

use super::builder::{Builder, Place};
use super::route::{RouteKeys, family, is_other_family};
use super::scalar::string_text;
use super::v2::rules;
use super::value_type::ValueType;
use super::{keys, options};

const COMMON_KEYS: [&str; 12] = [
    "type",
    "name",
    "mac_address",
    "mtu",
    "subnets",
    "accept-ra",
    "wakeonlan",
    "optional",
    "keep_configuration",
    "dhcp4-overrides",
    "dhcp6-overrides",
    "routing-policy",
];

const SUBNET_KEYS: &[&str] = &[
    "type",
    "control",
    "address",
    "ip_address",
    "netmask",
    "prefix",
    "broadcast",
    "gateway",
    "dns_nameservers",
    "dns_search",
    "routes",
    "ipv4",
    "ipv6",
    "metric",
    "mtu",
    "pointopoint",
    "scope",
];

/// The keys of a route. OpenStack writes the last two, which are not used.
const KEYS_OF_ROUTES: [&str; 12] = [
    "type",
    "destination",
    "network",
    "netmask",
    "prefix",
    "gateway",
    "metric",
    "table",
    "scope",
    "from",
    "id",
    "services",
];

const ROUTE_KEYS: RouteKeys =
    RouteKeys { to: &["destination", "network"], via: "gateway", has_netmask: true };

pub fn parse(config: &Node) -> Result<Builder, String> {
    let mut build = Builder::new(1);
    let list = config.get("config");
    let Some(entries) = list.and_then(Node::as_seq) else {
        let at = list.unwrap_or(config);
        let wanted = format!("expected a list of entries, found {}", list.map_or("nothing", |n| n.kind()));
        build.parsed.findings.add(FindingKind::Invalid, &at.at, "network.config", &wanted);
        return Err(format!("{}: network.config: {wanted}", at.at));
    };
    let mut link_servers = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let path = format!("network.config[{i}]");
        if entry.as_map().is_none() {
            build.discard(entry, &path, format!("expected a map, found {}", entry.kind()));
            continue;
        }
        build.current = Place { at: entry.at.clone(), key: path.clone() };
        match entry.get("type").and_then(Node::as_str) {
            Some("physical") => simple_link(&mut build, entry, &path, LinkKind::Physical),
            Some("loopback") => simple_link(&mut build, entry, &path, LinkKind::Loopback),
            Some("infiniband") => simple_link(&mut build, entry, &path, LinkKind::Infiniband),
            Some("bond") => bond(&mut build, entry, &path),
            Some("bridge") => bridge(&mut build, entry, &path),
            Some("vlan") => vlan(&mut build, entry, &path),
            Some("nameserver") => nameserver(&mut build, entry, &path, &mut link_servers),
            Some("route") => global_route(&mut build, entry, &path),
            _ => {
                let at = entry.get("type").unwrap_or(entry);
                let wanted = "expected one of physical bond bridge vlan nameserver route loopback infiniband";
                build.discard(at, &format!("{path}.type"), wanted);
            }
        }
    }
    for (entry, name, dns) in link_servers {
        match build.link_mut(&name) {
            Some(link) => link.dns = Some(Dns::merged(link.dns.iter().chain([&dns]))),
            None => {
                build.discard(entry, "network.config.interface", "no such interface");
            }
        }
    }
    merge_aliases(&mut build);
    let model = &mut build.parsed.model;
    // Proxmox writes the name servers of the machine at the loopback interface, where no network service uses them.
    for link in model.links.iter_mut().filter(|link| link.kind == LinkKind::Loopback) {
        let has_addresses = link.subnets.iter().any(|subnet| subnet.method != Method::Loopback);
        for subnet in link.subnets.iter_mut().filter(|_| !has_addresses) {
            let dns = std::mem::take(&mut subnet.dns);
            model.dns.servers.extend(dns.servers);
            model.dns.search.extend(dns.search);
        }
    }
    Ok(build)
}

/// Makes each alias an additional address of its device: `eth0:1` of eth0.
fn merge_aliases(build: &mut Builder) {
    let device_of = |id: &str| id.split_once(':').map_or("", |(device, _)| device).to_string();
    let is_alias = |link: &&Link| {
        let Some((device, number)) = link.id.split_once(':').filter(|(device, _)| !device.is_empty()) else {
            return false;
        };
        let is_defined = build.places.contains_key(device);
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        match link.kind {
            LinkKind::Physical | LinkKind::Loopback | LinkKind::Infiniband => is_number || is_defined,
            LinkKind::Vlan => is_number && is_defined,
            LinkKind::Bond | LinkKind::Bridge | LinkKind::Unknown => false,
        }
    };
    let aliases: Vec<Link> = build.parsed.model.links.iter().filter(is_alias).cloned().collect();
    if aliases.is_empty() {
        return;
    }
    let ids: HashSet<String> = aliases.iter().map(|link| link.id.clone()).collect();
    for link in &mut build.parsed.model.links {
        for name in link.ports.iter_mut().chain(&mut link.vlan_link).filter(|name| ids.contains(*name)) {
            *name = device_of(name);
        }
        let mut seen = HashSet::new();
        link.ports.retain(|port| seen.insert(port.clone()));
    }
    build.remove(&|id| ids.contains(id));
    for mut alias in aliases {
        build.current = build.places.remove(&alias.id).unwrap_or_default();
        let id = device_of(&alias.id);
        let Some(device) = build.places.contains_key(&id).then(|| build.link_mut(&id)).flatten() else {
            if id == "lo" {
                (alias.kind, alias.mac) = (LinkKind::Loopback, None);
            }
            build.insert(Link { name: id.clone(), id, ..alias });
            continue;
        };
        device.subnets.extend(alias.subnets);
        if alias.dns.is_some() {
            device.dns = Some(Dns::merged(device.dns.iter().chain(&alias.dns)));
        }
        if device.bond.is_none() && alias.bond.is_some() {
            device.bond = alias.bond;
            for (key, value) in alias.params {
                device.params.insert(key, value);
            }
        }
        let has_other_mac = alias.mac.is_some() && alias.mac != device.mac;
        let has_other_mtu =
            alias.mtu.is_some_and(|mtu| device.mtu.as_ref().is_none_or(|m| m.value != mtu.value));
        for (key, is_ignored) in [("mac_address", has_other_mac), ("mtu", has_other_mtu)] {
            if is_ignored {
                let Place { at, key: path } = &build.current;
                let problem = "an alias has that of its device; ignored";
                build.parsed.findings.invalid(at, format!("{path}.{key}"), problem);
            }
        }
    }
}

/// Reports the keys of an entry that are neither among those of every interface nor among these.
fn check_keys(build: &mut Builder, entry: &Node, path: &str, own: &[&str]) {
    check_map(build, entry, path, &[&COMMON_KEYS, own].concat());
}

fn check_map(build: &mut Builder, map: &Node, path: &str, known: &[&str]) {
    keys::check_map(&mut build.parsed.findings, map, &|| path.to_string(), known);
}

/// Returns whether the entry has all of these keys; missing ones are reported, and the entry is to be skipped.
fn has_keys(build: &mut Builder, entry: &Node, path: &str, keys: &[&str]) -> bool {
    let missing: Vec<&&str> = keys.iter().filter(|k| entry.get(k).is_none()).collect();
    for key in &missing {
        build.discard(entry, &format!("{path}.{key}"), "required, but missing");
    }
    missing.is_empty()
}

/// Parses the keys that every kind of interface has; `None` if a required key is missing.
fn common_fields(
    build: &mut Builder,
    entry: &Node,
    path: &str,
    kind: LinkKind,
    required: &[&str],
) -> Option<Link> {
    if !has_keys(build, entry, path, required) {
        return None;
    }
    let Some(name) = build.name(entry, path, "name") else {
        // Anything else was reported.
        if entry.get("name").is_none_or(|n| n.is_null() || n.as_str().is_some()) {
            build.discard(entry, &format!("{path}.name"), "expected a name");
        }
        build.lose();
        return None;
    };
    Some(Link {
        id: name.clone(),
        name,
        kind,
        // That of the loopback interface is zero.
        mac: if kind == LinkKind::Loopback { None } else { build.mac(entry, path, "mac_address") },
        mtu: build.mtu(entry, path, "mtu"),
        accept_ra: build.flag(entry, path, "accept-ra"),
        wakeonlan: build.flag(entry, path, "wakeonlan"),
        optional: build.flag(entry, path, "optional"),
        keep_configuration: build.typed(entry, path, "keep_configuration", ValueType::Flag),
        subnets: subnets(build, entry, path),
        rules: rules(build, entry, path),
        dhcp4: Dhcp { overrides: build.overrides(entry, path, "dhcp4-overrides"), domain: None },
        dhcp6: Dhcp { overrides: build.overrides(entry, path, "dhcp6-overrides"), domain: None },
        ..Link::default()
    })
}

fn simple_link(build: &mut Builder, entry: &Node, path: &str, kind: LinkKind) {
    check_keys(build, entry, path, &["params", "macaddress"]);
    let Some(mut link) = common_fields(build, entry, path, kind, &["name"]) else { return };
    link.set_mac = build.mac(entry, path, "macaddress");
    if let Some(params) = build.map(entry, path, "params") {
        let at = format!("{path}.params");
        link.drivers = build.udev_value(params, &at, "driver").into_iter().collect();
        link.device_id = build.udev_value(params, &at, "device_id");
    }
    build.insert(link);
}

/// Parses the options of a bond or a bridge, under their flat names: those of a bond with hyphens, whichever way they are
/// written.
fn params(build: &mut Builder, entry: &Node, path: &str) -> Map {
    let written = build.map(entry, path, "params").into_iter().flat_map(Node::entries);
    let path = format!("{path}.params");
    let mut params = Map::new();
    for (key, value) in written {
        let name = key.scalar_text().unwrap_or_default();
        // These two keys are checked elsewhere.
        let value = match name.as_str() {
            "bridge_ports" | "bridge_stp" => Some(value.clone()),
            _ => build.option(value, &join_key(&path, &name), options::type_of(&name)),
        };
        let bare = name.strip_prefix("bond-").or_else(|| name.strip_prefix("bond_"));
        match bare {
            Some(bare) => params.insert_some(format!("bond-{}", bare.replace('_', "-")), value),
            None => params.insert_some(key.clone(), value),
        }
    }
    params
}

fn bond(build: &mut Builder, entry: &Node, path: &str) {
    check_keys(build, entry, path, &["params", "bond_interfaces"]);
    let required = ["name", "bond_interfaces", "params"];
    let Some(mut link) = common_fields(build, entry, path, LinkKind::Bond, &required) else { return };
    link.params = params(build, entry, path);
    let members = build.name_list(entry, path, "bond_interfaces");
    build.insert(link.clone());
    build.join_bond(&link, &members);
}

fn bridge(build: &mut Builder, entry: &Node, path: &str) {
    check_keys(build, entry, path, &["params", "bridge_interfaces"]);
    let required = ["name", "bridge_interfaces"];
    let Some(mut link) = common_fields(build, entry, path, LinkKind::Bridge, &required) else { return };
    link.params = params(build, entry, path);
    link.ports = match link.params.get("bridge_ports") {
        Some(_) => {
            build.name_list(entry.get("params").unwrap_or(entry), &format!("{path}.params"), "bridge_ports")
        }
        None => build.name_list(entry, path, "bridge_interfaces"),
    };
    if let Some(stp) = link.params.get_mut("bridge_stp") {
        let on = match &stp.value {
            Value::Bool(b) => Some(*b),
            Value::Str(t) if t == "on" || t == "1" => Some(true),
            Value::Str(t) if t == "off" || t == "0" => Some(false),
            Value::Int(1) => Some(true),
            Value::Int(0) => Some(false),
            _ => None,
        };
        match on {
            Some(on) => stp.value = Value::Bool(on),
            None => {
                let at = stp.clone();
                build.discard_value(&at, &format!("{path}.params.bridge_stp"), "expected on or off");
                link.params.remove("bridge_stp");
            }
        }
    }
    let ports = link.ports.clone();
    build.insert(link);
    build.join_bridge(&ports);
}

fn vlan(build: &mut Builder, entry: &Node, path: &str) {
    check_keys(build, entry, path, &["vlan_id", "vlan_link"]);
    let required = ["name", "vlan_link", "vlan_id"];
    if !has_keys(build, entry, path, &required) || !build.has_vlan_id(entry, path, "vlan_id") {
        return;
    }
    let Some(mut link) = common_fields(build, entry, path, LinkKind::Vlan, &[]) else { return };
    link.vlan_id = entry.get("vlan_id").cloned();
    link.vlan_link = build.name(entry, path, "vlan_link");
    build.insert(link);
}

fn nameserver<'a>(
    build: &mut Builder,
    entry: &'a Node,
    path: &str,
    link_servers: &mut Vec<(&'a Node, String, Dns)>,
) {
    check_map(build, entry, path, &["type", "address", "search", "interface"]);
    if entry.get("search").is_none() && !has_keys(build, entry, path, &["address"]) {
        return;
    }
    // A string is a single server here: it is not split.
    let one = |key: &str| {
        entry.get(key).and_then(Node::as_str).map(|one| Vec::from_iter((!one.is_empty()).then(|| one.into())))
    };
    let dns = Dns {
        servers: build.address_list(entry, path, "address"),
        search: one("search").unwrap_or_else(|| build.name_list(entry, path, "search")),
    };
    match build.name(entry, path, "interface") {
        Some(name) => link_servers.push((entry, name, dns)),
        None => {
            build.parsed.model.dns.servers.extend(dns.servers);
            build.parsed.model.dns.search.extend(dns.search);
        }
    }
}

fn global_route(build: &mut Builder, entry: &Node, path: &str) {
    if has_keys(build, entry, path, &["destination"]) {
        let route = route(build, entry, path);
        build.parsed.model.routes.extend(route);
    }
}

fn route(build: &mut Builder, node: &Node, path: &str) -> Option<Route> {
    let attributes = options::ROUTE_ATTRIBUTES.iter().map(|attribute| attribute.netplan);
    let known: Vec<&str> = KEYS_OF_ROUTES.into_iter().chain(["on-link"]).chain(attributes).collect();
    check_map(build, node, path, &known);
    build.route(node, &|| path.to_string(), &ROUTE_KEYS)
}

fn subnets(build: &mut Builder, entry: &Node, path: &str) -> Vec<Subnet> {
    let items = build.list(entry, path, "subnets").iter().enumerate();
    items.filter_map(|(i, item)| subnet(build, item, &format!("{path}.subnets[{i}]"))).collect()
}

fn subnet(build: &mut Builder, node: &Node, path: &str) -> Option<Subnet> {
    let word = node.get("type").and_then(Node::as_str);
    let known = |w: &str| Method::NAMES.iter().find(|(word, _)| *word == w).map(|(_, method)| *method);
    let Some(method) = word.and_then(known) else {
        let at = node.get("type").unwrap_or(node);
        build.discard(
            at,
            &format!("{path}.type"),
            "expected one of dhcp dhcp4 dhcp6 static static6 manual …",
        );
        return None;
    };
    check_map(build, node, path, SUBNET_KEYS);
    let value = |key: &str| node.get(key).filter(|n| !n.is_falsy());
    let written = value("address").or_else(|| value("ip_address"));
    let (mut address, mut prefix) = (written.and_then(string_text), None);
    if method.is_static() {
        let network = match &address {
            None => Err("an address"),
            Some(text) => address::parse_network(text, value("prefix"), value("netmask")),
        };
        match network {
            Ok(network) => (address, prefix) = (Some(network.address), Some(network.prefix)),
            Err(wanted) => {
                let at = written.unwrap_or(node);
                build.discard(at, &format!("{path}.address"), format!("expected {wanted}"));
                return None;
            }
        }
    } else if let Some(written) = written.filter(|_| address.is_none()) {
        build.discard(written, &format!("{path}.address"), "expected an IP address with an optional /prefix");
    }
    let mut routes = Vec::new();
    for (i, item) in build.list(node, path, "routes").iter().enumerate() {
        routes.extend(route(build, item, &format!("{path}.routes[{i}]")));
    }
    let gateway = build.gateway(node, path, "gateway");
    if let (Some(gateway), Some(own)) = (&gateway, &address)
        && is_other_family(gateway, own)
    {
        let problem = format!("expected an {} address, as `address` is", family(address::is_ipv6(own)));
        build.report_invalid(&value("gateway").unwrap_or(node).at, &format!("{path}.gateway"), problem);
    }
    Some(Subnet {
        method,
        control: build.string(node, path, "control"),
        address,
        prefix,
        gateway,
        dns: build.dns(node, path, "dns_nameservers", "dns_search"),
        routes,
        metric: build.number(node, path, "metric").filter(|n| !n.is_falsy()),
        mtu: build.mtu(node, path, "mtu").filter(|n| !n.is_falsy()),
        broadcast: build.string(node, path, "broadcast"),
        pointopoint: build.peer(node, path, "pointopoint"),
        scope: build.name(node, path, "scope"),
        is_openstack_ipv4: value("ipv4").is_some(),
        is_openstack_ipv6: value("ipv6").is_some(),
    })
}
