//! Version 2, netplan's format, parsed for the other renderers.

use std::collections::HashSet;

use config::{Map, Node, Value, join_key};

use crate::address::{self, is_ipv6};
use crate::facts::glob_match;
use crate::model::{Dhcp, Dns, Link, LinkKind, Method, Subnet};

use super::builder::Builder;
use super::facts::{Facts, NicFacts};
use super::keys;
use super::options::{BOND_OPTIONS, BRIDGE_OPTIONS, BondOption};
use super::route::RouteKeys;
use super::scalar::name_text;
use super::value_type::{ValueType, is_on};

type DeviceParser = fn(&mut Builder, &str, &Node, &str, &Facts);

/// The sections in the order in which they are parsed: NICs precede the devices that have them as members.
const SECTIONS: [(&str, DeviceParser); 4] =
    [("ethernets", ethernet), ("bonds", bond), ("bridges", bridge), ("vlans", vlan)];

const ROUTE_KEYS: RouteKeys = RouteKeys { to: &["to"], via: "via", has_netmask: false };

pub fn parse(config: &Node, facts: &Facts) -> Builder {
    let mut build = Builder::new(2);
    for (section, _) in config.entries() {
        let name = section.scalar_text().unwrap_or_default();
        if name == "wifis" {
            build.report(section, "network.wifis", "wireless devices are supported by netplan only; ignored");
        } else if keys::is_netplan_only_section(&name) {
            build.parsed.findings.unknown(&section.at, join_key("network", &name), NETPLAN_ONLY);
        }
    }
    build.parsed.findings.extend(keys::unknown_keys(config));
    for (name, parse_device) in SECTIONS {
        let Some(devices) = config.get(name).filter(|n| !n.is_null()) else { continue };
        let path = join_key("network", name);
        let Some(map) = devices.as_map() else {
            build.discard(devices, &path, format!("expected a map of devices, found {}", devices.kind()));
            continue;
        };
        for (id, device) in map.iter() {
            build.current = id.at.clone();
            let Some(id) = name_text(id) else {
                let key = join_key(&path, &id.scalar_text().unwrap_or_default());
                build.discard(id, &key, format!("expected a device's name, found {}", id.kind()));
                continue;
            };
            let path = join_key(&path, &id);
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
        mtu: build.number(device, path, "mtu"),
        accept_ra: build.flag(device, path, "accept-ra"),
        optional: build.flag(device, path, "optional"),
        keep_configuration: build.typed(device, path, "critical", ValueType::Flag),
        settings: build.settings(device, path),
        subnets: subnets(build, device, path, [&dhcp4, &dhcp6], dns.clone()),
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

fn rules(build: &mut Builder, device: &Node, path: &str) -> Vec<Node> {
    let mut rules = Vec::new();
    for (i, rule) in build.list(device, path, "routing-policy").iter().enumerate() {
        match rule.as_map() {
            Some(_) => rules.push(rule.clone()),
            None => {
                let key = format!("{path}.routing-policy[{i}]");
                build.discard(rule, &key, format!("expected a map, found {}", rule.kind()));
            }
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
    if let Some(name) = build.name(device, path, "set-name") {
        link.name = name;
    } else if let Some(name) = link.mac.as_deref().and_then(|mac| facts.name_of(mac)) {
        link.name = name.to_string();
    } else if let [name] = &*names
        && !name.contains(['*', '?', '['])
    {
        link.name = name.clone();
    } else if has_pattern {
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

/// A NIC that fits several links belongs to the one with its name, else to the first.
fn share_matched_nics(build: &mut Builder) {
    let links = &mut build.parsed.model.links;
    let named = links.iter().filter(|link| link.match_names.is_empty());
    let mut taken: HashSet<String> = named.map(|link| link.name.clone()).collect();
    links.iter_mut().for_each(|link| link.matched.retain(|nic| taken.insert(nic.clone())));
}

/// Returns the ids of a bond's members or a bridge's ports.
fn members(build: &mut Builder, device: &Node, path: &str) -> Vec<String> {
    if device.get("interfaces").is_none() {
        build.report(device, &join_key(path, "interfaces"), "required, but missing");
    }
    build.name_list(device, path, "interfaces")
}

fn bond(build: &mut Builder, id: &str, device: &Node, path: &str, _: &Facts) {
    let mut link = common_fields(build, id, device, path, LinkKind::Bond);
    link.mac = build.mac(device, path, "macaddress");
    link.params = parameters(build, device, path, keys::NETPLAN_ONLY_BOND_OPTIONS, |name| {
        let is_same = |option: &&BondOption| option.netplan == name || option.alias == Some(name);
        let option = BOND_OPTIONS.iter().find(is_same)?;
        Some((format!("bond-{}", option.ifupdown), option.value_type))
    });
    let members = members(build, device, path);
    build.insert(link.clone());
    build.join_bond(&link, &members);
}

/// Returns the options of a bond or a bridge. `option` gives the ifupdown name and the type for a name of version 2.
fn parameters(
    build: &mut Builder,
    device: &Node,
    path: &str,
    netplan_only: &[&str],
    option: impl Fn(&str) -> Option<(String, ValueType)>,
) -> Map {
    let written = build.map(device, path, "parameters").into_iter().flat_map(Node::entries);
    let mut params = Map::new();
    for (key, value) in written {
        let name = key.scalar_text().unwrap_or_default();
        let path = join_key(&join_key(path, "parameters"), &name);
        match option(&name) {
            Some((ifupdown, value_type)) => {
                params.insert_some(ifupdown, build.option(value, &path, value_type));
            }
            None if netplan_only.contains(&&*name) => {
                build.parsed.findings.unknown(&key.at, path, NETPLAN_ONLY);
            }
            None => {}
        }
    }
    params
}

fn bridge(build: &mut Builder, id: &str, device: &Node, path: &str, _: &Facts) {
    let mut link = common_fields(build, id, device, path, LinkKind::Bridge);
    link.mac = build.mac(device, path, "macaddress");
    link.params = parameters(build, device, path, keys::NETPLAN_ONLY_BRIDGE_OPTIONS, |name| {
        let option = BRIDGE_OPTIONS.iter().find(|option| option.netplan == name)?;
        Some((option.ifupdown.to_string(), option.value_type))
    });
    // A boolean, as in version 1; each renderer writes it in its own format.
    if let Some(stp) = link.params.get_mut("bridge_stp").filter(|stp| stp.as_str() != Some("")) {
        stp.value = Value::Bool(is_on(stp));
    }
    link.ports = members(build, device, path);
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

/// Returns the subnets: DHCP first, then the addresses. Gateways are set on the first address of their family, servers on
/// the first address, routes on the first subnet.
fn subnets(
    build: &mut Builder,
    device: &Node,
    path: &str,
    dhcp: [&Dhcp; 2],
    mut servers: Option<Dns>,
) -> Vec<Subnet> {
    let mut subnets = Vec::new();
    for ((key, method), dhcp) in [("dhcp4", Method::Dhcp4), ("dhcp6", Method::Dhcp6)].into_iter().zip(dhcp) {
        if build.is_enabled(device, path, key) {
            let metric = dhcp.overrides.get("route-metric").filter(|n| !n.is_falsy()).cloned();
            subnets.push(Subnet { method, metric, ..Subnet::default() });
        }
    }
    let mut gateways = [build.gateway(device, path, "gateway4"), build.gateway(device, path, "gateway6")];
    for (i, item) in build.list(device, path, "addresses").iter().enumerate() {
        let key = format!("{path}.addresses[{i}]");
        // netplan also accepts `address: {lifetime: …, label: …}`.
        let written = match &item.value {
            Value::Map(map) => map.iter().next().and_then(|(key, _)| key.scalar_text()),
            _ => item.scalar_text(),
        };
        let written = written.unwrap_or_default();
        let network = match address::parse_network(&written, None, None) {
            Ok(network) => network,
            Err(wanted) => {
                build.discard(item, &key, format!("expected {wanted}"));
                continue;
            }
        };
        subnets.push(Subnet {
            method: Method::Static,
            gateway: gateways[usize::from(is_ipv6(&network.address))].take(),
            address: Some(network.address),
            prefix: Some(network.prefix),
            dns: servers.take().unwrap_or_default(),
            ..Subnet::default()
        });
    }
    for (i, item) in build.list(device, path, "routes").iter().enumerate() {
        let path = format!("{path}.routes[{i}]");
        let Some(route) = build.route(item, &path, &ROUTE_KEYS) else { continue };
        match subnets.first_mut() {
            Some(first) => first.routes.push(route),
            None => {
                build.report(item, &path, "the device has neither addresses nor DHCP; ignoring the route");
            }
        }
    }
    subnets
}
