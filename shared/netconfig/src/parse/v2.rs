//! Version 2, netplan's format, parsed for the other renderers.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use config::{Map, Node, Value, join_key};

use crate::address::{self, is_ipv6};
use crate::glob::glob_match;
use crate::model::{Dhcp, Dns, Link, LinkKind, Method, Route, Subnet};

use super::builder::{Builder, Place};
use super::characters::{MAX_NAME, NAME_LENGTH, words};
use super::facts::{Facts, NicFacts};
use super::keys;
use super::options::{BOND_OPTIONS, BRIDGE_OPTIONS, BondOption};
use super::route::{RouteKeys, family, is_other_family};
use super::scalar::name_text;
use super::value_type::{ValueType, is_on};

type DeviceParser = fn(&mut Builder, &str, &Node, &str, &Facts);

/// The sections in the order in which they are parsed: NICs precede the devices that have them as members.
const SECTIONS: [(&str, DeviceParser); 4] =
    [("ethernets", ethernet), ("bonds", bond), ("bridges", bridge), ("vlans", vlan)];

const ROUTE_KEYS: RouteKeys = RouteKeys { to: &["to"], via: "via", has_netmask: false };

pub fn parse(config: &Node, facts: &Facts) -> Builder {
    let mut build = Builder::new(2);
    for (section, devices) in config.entries() {
        let name = section.scalar_text().unwrap_or_default();
        if keys::is_netplan_only_section(&name) {
            let path = join_key("network", &name);
            build.parsed.findings.unknown(&section.at, &*path, NETPLAN_ONLY);
            for (id, device) in devices.entries() {
                let Some(id) = name_text(id) else { continue };
                if name != "openvswitch" {
                    check_other(&mut build, &name, &id, device, &join_key(&path, &id));
                }
                build.elsewhere.insert(id);
            }
        }
    }
    // No device of the model has an address of these.
    (build.parsed.first_lost, build.parsed.first_discarded) = (None, None);
    build.parsed.unknown = keys::unknown_keys(config);
    build.parsed.findings.extend(build.parsed.unknown.clone());
    for (name, parse_device) in SECTIONS {
        let Some(devices) = config.get(name).filter(|n| !n.is_null()) else { continue };
        let path = join_key("network", name);
        let Some(map) = devices.as_map() else {
            build.discard(devices, &path, format!("expected a map of devices, found {}", devices.kind()));
            continue;
        };
        build.reserve(map.len());
        for (id, device) in map.iter() {
            build.current =
                Place { at: id.at.clone(), key: join_key(&path, &id.scalar_text().unwrap_or_default()) };
            let Some(id) = name_text(id) else {
                let key = build.current.key.clone();
                build.discard(id, &key, format!("expected a device's name, found {}", id.kind()));
                continue;
            };
            let path = build.current.key.clone();
            if device.as_map().is_none() && !device.is_null() {
                build.discard(device, &path, format!("expected a map, found {}", device.kind()));
                continue;
            }
            report_netplan_only(&mut build, name, device, &path);
            parse_device(&mut build, &id, device, &path, facts);
        }
    }
    share_matched_nics(&mut build);
    build
}

const NETPLAN_ONLY: &str = "supported by netplan only; ignored";

/// Reports a device's keys that only netplan reads.
fn report_netplan_only(build: &mut Builder, section: &str, device: &Node, path: &str) {
    for (key, _) in device.entries() {
        if let Some(name) = key.as_str().filter(|name| keys::is_netplan_only(section, name)) {
            build.parsed.findings.unknown(&key.at, join_key(path, name), NETPLAN_ONLY);
        }
    }
}

/// Checks the keys of a device that only netplan configures: for an invalid value it rejects the whole file.
fn check_other(build: &mut Builder, section: &str, id: &str, device: &Node, path: &str) {
    common_fields(build, id, device, path, LinkKind::Unknown);
    build.mac(device, path, "macaddress");
    match section {
        "tunnels" => ["local", "remote"].iter().for_each(|key| drop(build.peer(device, path, key))),
        "vrfs" => {
            build.name_list(device, path, "interfaces");
            build.number(device, path, "table");
        }
        _ => {}
    }
}

/// Parses the keys that every device has.
fn common_fields(build: &mut Builder, id: &str, device: &Node, path: &str, kind: LinkKind) -> Link {
    let dhcp4 = dhcp(build, device, path, "dhcp4-overrides", "dhcp4domain");
    let dhcp6 = dhcp(build, device, path, "dhcp6-overrides", "dhcp6domain");
    let dns = build.map(device, path, "nameservers").map(|node| {
        let at = join_key(path, "nameservers");
        build.dns(node, &at, "addresses", "search")
    });
    Link {
        id: id.to_string(),
        name: id.to_string(),
        kind,
        mtu: build.mtu(device, path, "mtu"),
        accept_ra: build.flag(device, path, "accept-ra"),
        optional: build.flag(device, path, "optional"),
        keep_configuration: build.typed(device, path, "critical", ValueType::Flag),
        settings: build.settings(device, path),
        subnets: subnets(build, device, path, [&dhcp4, &dhcp6], dns.clone(), kind),
        dns,
        dhcp4,
        dhcp6,
        rules: rules(build, device, path),
        ..Link::default()
    }
}

fn dhcp(build: &mut Builder, device: &Node, path: &str, overrides: &str, domain: &str) -> Dhcp {
    Dhcp {
        overrides: build.overrides(device, path, overrides),
        domain: build.typed(device, path, domain, ValueType::FlagOrRoute),
    }
}

/// A key of a policy rule, whether a text is a value of it, and the expectation.
type RuleKey = (&'static str, fn(&str) -> bool, &'static str);

const RULE_KEYS: [RuleKey; 6] = [
    ("from", is_network, "an IP address with an optional /prefix"),
    ("to", is_network, "an IP address with an optional /prefix"),
    ("table", is_table, "the number or name of a routing table"),
    ("priority", |text| text.parse::<u32>().is_ok() && !text.starts_with('+'), address::NUMBER),
    ("mark", |text| text.splitn(2, '/').all(is_mark), "a number, or two with a slash between them"),
    ("type-of-service", |text| text.parse::<u8>().is_ok(), "a number from 0 to 255"),
];

fn is_table(text: &str) -> bool {
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic()) && address::is_valid_gateway(text);
    is_name || text.parse::<u32>().is_ok()
}

fn is_mark(text: &str) -> bool {
    text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u32::from_str_radix(hex, 16)).is_ok()
}

fn is_network(text: &str) -> bool {
    address::parse_network(text, None, None).is_ok()
}

fn is_of_two_families(rule: &Node) -> bool {
    let family = |key: &str| rule.get(key).and_then(Node::as_str).map(address::is_ipv6);
    family("from").zip(family("to")).is_some_and(|(from, to)| from != to)
}

fn without_nulls(rule: &Node) -> Node {
    let entries = rule.as_map().into_iter().flat_map(Map::iter).filter(|(_, value)| !value.is_null());
    let mut kept = Map::new();
    entries.for_each(|(key, value)| drop(kept.insert(key.clone(), value.clone())));
    Node { value: Value::Map(kept), at: rule.at.clone() }
}

/// Returns the policy rules. Without one of its values a rule would be for other packets, so that it is ignored as a whole.
pub fn rules(build: &mut Builder, device: &Node, path: &str) -> Vec<Node> {
    let mut rules = Vec::new();
    for (i, rule) in build.list(device, path, "routing-policy").iter().enumerate() {
        let key = format!("{path}.routing-policy[{i}]");
        let is_invalid = |(name, is_valid, _): &&RuleKey| {
            let value = rule.get(name).filter(|value| !value.is_null());
            value.is_some_and(|value| !value.scalar_text().is_some_and(|text| is_valid(&text)))
        };
        if rule.as_map().is_none() {
            build.discard_value(rule, &key, format!("expected a map, found {}", rule.kind()));
        } else if let Some((name, _, wanted)) = RULE_KEYS.iter().find(is_invalid) {
            let node = rule.get(name).unwrap_or(rule);
            build.discard_value(node, &join_key(&key, name), format!("expected {wanted}"));
        } else if is_of_two_families(rule) {
            build.discard_value(rule, &key, "expected addresses of one family in from and to");
        } else {
            rules.push(without_nulls(rule));
        }
    }
    rules
}

fn ethernet(build: &mut Builder, id: &str, device: &Node, path: &str, facts: &Facts) {
    let mut link = common_fields(build, id, device, path, LinkKind::Physical);
    let (mut names, mut has_pattern) = (Vec::new(), false);
    if let Some(matched) = build.map(device, path, "match") {
        let at = join_key(path, "match");
        link.mac = build.mac(matched, &at, "macaddress");
        link.drivers = build.patterns(matched, &at, "driver");
        names = build.patterns(matched, &at, "name");
        // Without one of its keys it would match other NICs.
        has_pattern = matched.entries().all(|(key, _)| match key.as_str() {
            Some("macaddress") => link.mac.is_some(),
            Some("driver") => !link.drivers.is_empty(),
            Some("name") => !names.is_empty(),
            _ => false,
        });
    }
    link.set_mac = build.mac(device, path, "macaddress");
    link.wakeonlan = build.flag(device, path, "wakeonlan");
    let mut new_name = build.name(device, path, "set-name");
    let (written, name_path) = (device.get("set-name").unwrap_or(device), join_key(path, "set-name"));
    if new_name.take_if(|name| name.len() > MAX_NAME).is_some() {
        build.discard_value(written, &name_path, NAME_LENGTH);
    }
    let is_there = |name: &str| facts.with_name(name).is_some();
    // NICs are renamed by their addresses. Without a match the ID is the name of the NIC.
    let is_matched = has_pattern && !facts.nics.is_empty()
        || device.get("match").is_none_or(Node::is_null) && is_there(id);
    if is_matched && link.mac.is_none() && new_name.as_ref().is_some_and(|name| !is_there(name)) {
        new_name = None;
        build.report(written, &name_path, "a NIC is renamed only with match.macaddress; keeping its name");
    }
    if let Some(name) = new_name {
        link.name = name;
    } else if let Some(name) = link.mac.as_deref().and_then(|mac| facts.name_of(mac)) {
        link.name = name.to_string();
    } else if let [name] = &*names
        && !name.contains(['*', '?', '['])
    {
        link.name = name.clone();
    } else if has_pattern && (link.mac.is_none() || !facts.nics.is_empty()) {
        // Without facts, as for `net-convert`, the ID counts as the name of the NIC with this address, as in upstream.
        if names.is_empty() {
            names.push("*".into());
        }
        let fits = |patterns: &[String], text: &str| patterns.iter().any(|p| glob_match(p, text));
        let is_matched = |nic: &&NicFacts| {
            let has_driver = || nic.driver.as_ref().is_some_and(|driver| fits(&link.drivers, driver));
            link.mac.is_none()
                && nic.name != "lo"
                && fits(&names, &nic.name)
                && (link.drivers.is_empty() || has_driver())
        };
        link.matched = facts.nics.iter().filter(is_matched).map(|nic| nic.name.clone()).collect();
        link.match_names = names;
    }
    build.insert(link);
}

/// Assigns NICs and names: a NIC that fits several links belongs to the one with its name, else to the first.
fn share_matched_nics(build: &mut Builder) {
    let links = &mut build.parsed.model.links;
    let named = links.iter().filter(|link| link.match_names.is_empty());
    let mut taken: HashSet<String> = named.map(|link| link.name.clone()).collect();
    links.iter_mut().for_each(|link| link.matched.retain(|nic| taken.insert(nic.clone())));
    // An option that names a NIC.
    let names =
        links.iter().map(|link| (link.id.clone(), link.matched.first().unwrap_or(&link.name).clone()));
    let names: HashMap<String, String> = names.filter(|(id, name)| id != name).collect();
    for primary in links.iter_mut().filter_map(|link| link.params.get_mut("bond-primary")) {
        if let Some(name) = primary.as_str().and_then(|id| names.get(id)) {
            primary.value = Value::Str(name.clone());
        }
    }
}

fn bond(build: &mut Builder, id: &str, device: &Node, path: &str, _: &Facts) {
    let mut link = common_fields(build, id, device, path, LinkKind::Bond);
    link.mac = build.mac(device, path, "macaddress");
    link.params = parameters(build, device, path, |name| {
        let is_same = |option: &&BondOption| option.netplan == name || option.alias == Some(name);
        let option = BOND_OPTIONS.iter().find(is_same)?;
        Some((format!("bond-{}", option.ifupdown), option.value_type))
    });
    let members = build.name_list(device, path, "interfaces");
    build.insert(link.clone());
    build.join_bond(&link, &members);
}

/// Returns the options of a bond or a bridge. `option` gives the ifupdown name and the type for a name of version 2.
fn parameters(
    build: &mut Builder,
    device: &Node,
    path: &str,
    option: impl Fn(&str) -> Option<(String, ValueType)>,
) -> Map {
    let written = build.map(device, path, "parameters").into_iter().flat_map(Node::entries);
    let mut params = Map::new();
    for (key, value) in written {
        let name = key.scalar_text().unwrap_or_default();
        let path = join_key(&join_key(path, "parameters"), &name);
        if let Some((ifupdown, value_type)) = option(&name) {
            params.insert_some(ifupdown, build.option(value, &path, value_type));
        }
    }
    params
}

fn bridge(build: &mut Builder, id: &str, device: &Node, path: &str, _: &Facts) {
    let mut link = common_fields(build, id, device, path, LinkKind::Bridge);
    link.mac = build.mac(device, path, "macaddress");
    link.params = parameters(build, device, path, |name| {
        let name = if name == "aging-time" { "ageing-time" } else { name };
        let option = BRIDGE_OPTIONS.iter().find(|option| option.netplan == name)?;
        Some((option.ifupdown.to_string(), option.value_type))
    });
    // A boolean, as in version 1; each renderer writes it in its own format.
    if let Some(stp) = link.params.get_mut("bridge_stp").filter(|stp| stp.as_str() != Some("")) {
        stp.value = Value::Bool(is_on(stp));
    }
    link.ports = build.name_list(device, path, "interfaces");
    let ports = link.ports.clone();
    build.insert(link);
    build.join_bridge(&ports);
}

fn vlan(build: &mut Builder, id: &str, device: &Node, path: &str, _: &Facts) {
    if !build.has_vlan_id(device, path, "id") {
        return;
    }
    if device.get("link").is_none_or(Node::is_null) {
        build.discard(device, &join_key(path, "link"), "required, but missing");
        return;
    }
    let mut link = common_fields(build, id, device, path, LinkKind::Vlan);
    link.mac = build.mac(device, path, "macaddress");
    link.vlan_id = device.get("id").cloned();
    link.vlan_link = build.name(device, path, "link");
    build.insert(link);
}

const NO_SUBNET: &str = "the device has neither addresses nor DHCP; ignoring the route";

/// Returns the subnets: DHCP first, then the addresses. Gateways are set on the first address of their family, or else routes,
/// servers on the first address, routes on the first subnet.
fn subnets(
    build: &mut Builder,
    device: &Node,
    path: &str,
    dhcp: [&Dhcp; 2],
    mut servers: Option<Dns>,
    kind: LinkKind,
) -> Vec<Subnet> {
    let mut subnets = Vec::new();
    for ((key, method), dhcp) in [("dhcp4", Method::Dhcp4), ("dhcp6", Method::Dhcp6)].into_iter().zip(dhcp) {
        if build.is_enabled(device, path, key) {
            let metric = dhcp.overrides.get("route-metric").filter(|n| !n.is_falsy()).cloned();
            subnets.push(Subnet { method, metric, ..Subnet::default() });
        }
    }
    let mut gateways = [("gateway4", "0.0.0.0"), ("gateway6", "::")].map(|(key, of_family)| {
        let gateway = build.gateway(device, path, key)?;
        if is_other_family(&gateway, of_family) {
            let problem = format!("expected an {} address", family(is_ipv6(of_family)));
            build.report_invalid(&device.get(key).unwrap_or(device).at, &join_key(path, key), problem);
            // netplan would reject it.
            build.parsed.discarded.insert(join_key(path, key));
        }
        Some(gateway)
    });
    let one = device.get("addresses").filter(|node| node.as_str().is_some_and(|text| !text.is_empty()));
    if let Some(node) = one {
        build.report(
            node,
            &join_key(path, "addresses"),
            "expected a list, found a string; using its words as items",
        );
    }
    let items = |node: &Node| -> Vec<Node> {
        let text = node.as_str().unwrap_or_default();
        words(text).map(|word| Node { at: node.at.clone(), ..word.into() }).collect()
    };
    let addresses = match one {
        Some(node) => Cow::Owned(items(node)),
        None => Cow::Borrowed(build.list(device, path, "addresses")),
    };
    for (i, item) in addresses.iter().enumerate() {
        let key = || format!("{path}.addresses[{i}]");
        // netplan also accepts `address: {lifetime: …, label: …}`.
        let (written, options) = match item.entries().next() {
            Some((address, options)) => (address, options),
            None => (item, item),
        };
        let written = written.scalar_text().unwrap_or_default();
        let network = match address::parse_network(&written, None, None) {
            Ok(network) => network,
            Err(wanted) => {
                build.discard(item, &key(), format!("expected {wanted}"));
                continue;
            }
        };
        for (name, _) in options.entries() {
            let name_key = join_key(&key(), &name.scalar_text().unwrap_or_default());
            build.parsed.findings.unknown(&name.at, name_key, NETPLAN_ONLY);
        }
        subnets.push(Subnet {
            method: Method::Static,
            gateway: gateways[usize::from(is_ipv6(&network.address))].take(),
            address: Some(network.address),
            prefix: Some(network.prefix),
            dns: servers.take().unwrap_or_default(),
            ..Subnet::default()
        });
    }
    // Those without an address of their family.
    for (key, gateway) in ["gateway4", "gateway6"].into_iter().zip(gateways) {
        let Some(gateway) = gateway.filter(|gateway| is_ipv6(gateway) == (key == "gateway6")) else {
            continue;
        };
        match subnets.first_mut() {
            Some(first) => first.routes.push(Route::default_by(gateway)),
            None => build.report(device.get(key).unwrap_or(device), &join_key(path, key), NO_SUBNET),
        }
    }
    for (i, item) in build.list(device, path, "routes").iter().enumerate() {
        let path = || format!("{path}.routes[{i}]");
        let Some(route) = build.route(item, &path, &ROUTE_KEYS) else { continue };
        match subnets.first_mut() {
            Some(first) => first.routes.push(route),
            // A VRF has routes only.
            None if kind == LinkKind::Unknown => {}
            None => build.report(item, &path(), NO_SUBNET),
        }
    }
    subnets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_stand_for_the_nics_that_fit() {
        let nic = |name: &str, driver: &str| NicFacts {
            name: name.into(),
            mac: format!("52:54:00:00:00:0{}", &name[3..]),
            driver: Some(driver.into()),
            ..NicFacts::default()
        };
        let nics = vec![nic("ens1", "virtio_net"), nic("ens2", "e1000e"), nic("eth3", "virtio_net")];
        let facts = Facts { nics, ..Facts::default() };
        for (text, name, patterns, nics) in [
            ("match: {name: 'en*'}", "id", &["en*"][..], &["ens1", "ens2"][..]),
            ("match: {name: ['eth?', ens2]}", "id", &["eth?", "ens2"], &["ens2", "eth3"]),
            ("match: {driver: [virtio*, x]}", "id", &["*"], &["ens1", "eth3"]),
            ("match: {driver: e1000e, name: 'e*'}", "id", &["e*"], &["ens2"]),
            ("match: {}", "id", &["*"], &["ens1", "ens2", "eth3"]),
            ("match: {name: 'wan*'}", "id", &["wan*"], &[]),
            ("match: {macaddress: '52:54:00:00:00:09'}", "id", &["*"], &[]),
            // Names that are known.
            ("match: {name: ens7}", "ens7", &[], &[]),
            ("match: {macaddress: '52:54:00:00:00:03', name: 'e*'}", "eth3", &[], &[]),
            ("match: {macaddress: '52:54:00:00:00:09', name: 'en*'}, set-name: lan", "lan", &[], &[]),
            ("match: {name: 'en*'}, set-name: ens1", "ens1", &[], &[]),
            // Otherwise no NIC would have the name.
            ("match: {name: 'en*'}, set-name: lan", "id", &["en*"], &["ens1", "ens2"]),
            ("match: {name: eth3}, set-name: lan", "eth3", &[], &[]),
            ("set-name: lan", "lan", &[], &[]),
            // A key that is invalid or unknown does not make it a match of other NICs.
            ("match: {name: 5.5}", "id", &[], &[]),
            ("match: {mac: x}", "id", &[], &[]),
            ("match: {name: 'en*', driver: ['a b']}", "id", &[], &[]),
            ("match: {driver: x, macaddress: z}", "id", &[], &[]),
        ] {
            let text = format!("{{version: 2, ethernets: {{id: {{{text}, dhcp4: true}}}}}}");
            let build = parse(&config::yaml::parse("t", &text).unwrap().root, &facts);
            let link = &build.parsed.model.links[0];
            assert_eq!(
                (&*link.name, &*link.match_names),
                (name, &patterns.iter().map(|p| p.to_string()).collect::<Vec<_>>()[..]),
                "{text}"
            );
            assert_eq!(link.matched, nics, "{text}");
        }
        // Without a match the ID is the name of the NIC, if it has one.
        for (new_name, name) in [("lan", "eth3"), ("ens1", "ens1")] {
            let text = format!("{{version: 2, ethernets: {{eth3: {{set-name: {new_name}, dhcp4: true}}}}}}");
            let build = parse(&config::yaml::parse("t", &text).unwrap().root, &facts);
            assert_eq!(build.parsed.model.links[0].name, name);
            assert_eq!(build.parsed.findings.is_empty(), name == new_name);
        }
        // A NIC with an entry of its own is not taken by a pattern.
        let text =
            "{version: 2, ethernets: {all: {match: {name: 'e*'}}, b: {match: {name: '*2'}}, eth3: {}}}";
        let build = parse(&config::yaml::parse("t", text).unwrap().root, &facts);
        let links = build.parsed.model.links.iter();
        assert_eq!(links.map(|l| l.matched.len()).collect::<Vec<_>>(), [2, 0, 0]);
    }
}
