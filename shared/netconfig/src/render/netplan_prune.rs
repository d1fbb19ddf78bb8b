//! Makes a configuration of version 2 one that netplan accepts, because it rejects a file with a single invalid value: removes the
//! values that the parser ignores, writes the others in netplan's types, and adds the devices that others refer to.

use std::collections::{HashMap, HashSet};

use config::{Findings, Map, Node, Value, join_key};

use crate::address::{is_ipv6, is_link_local, is_name_server, is_unspecified, parse_network};
use crate::model::{Link, Networks};
use crate::parse::characters::words;
use crate::parse::sanitize::Level;
use crate::parse::{BOND_OPTIONS, OVERRIDES, Parsed, SETTINGS, ValueType, is_on, mac_text};

use super::values::{table_number, with_bond_name};

/// What becomes of different settings.
pub const ONE_DHCP: &str = "netplan supports the same settings of DHCPv4 and DHCPv6 only; using those of DHCPv4, or the only metric, for both";

/// The sections whose devices may have gateways.
const SECTIONS: [&str; 4] = ["ethernets", "bonds", "bridges", "vlans"];

/// The key whose value `off` YAML 1.1 reads as a boolean.
const OFF_KEY: &str = "activation-mode";

/// The lists for which a string is accepted.
const LIST_KEYS: [&str; 4] = ["addresses", "search", "interfaces", "arp-ip-targets"];

/// The booleans, beside those of [`SETTINGS`] and [`OVERRIDES`].
const FLAGS: [&str; 10] = [
    "dhcp4",
    "dhcp6",
    "accept-ra",
    "optional",
    "critical",
    "wakeonlan",
    "on-link",
    "stp",
    "all-slaves-active",
    "all-members-active",
];

/// Returns the configuration without the values that the parser ignores, and with NICs for undefined members. A route, a rule
/// or a VLAN is removed as a whole, because it would be another one.
pub fn prune(config: &Node, parsed: &Parsed, findings: &mut Findings) -> Node {
    let links = &parsed.model.links;
    let removed: HashSet<&str> = parsed.discarded.iter().map(|key| whole(key)).collect();
    let mut config = without(config, "network", Level::Sections, &removed);
    if let (Some(map), false) = (config.as_map_mut(), parsed.undefined.is_empty()) {
        let mut ethernets = map.get("ethernets").and_then(Node::as_map).cloned().unwrap_or_default();
        parsed.undefined.iter().for_each(|name| drop(ethernets.insert(name.as_str(), Map::new())));
        map.insert("ethernets", ethernets);
    }
    let by_manager = |node: &Node| Some(node.get("renderer")?.as_str() == Some("NetworkManager"));
    let is_managed = by_manager(&config).unwrap_or(false);
    let links: HashMap<&str, &Link> = links.iter().map(|link| (link.id.as_str(), link)).collect();
    let names = |(section, devices): (&Node, &Node)| {
        let section = section.as_str()?.to_string();
        let ids = devices.entries().filter_map(|(id, _)| id.as_str());
        Some(ids.map(|id| (section.clone(), id.to_string())).collect::<Vec<_>>())
    };
    for (section, id) in config.entries().filter_map(names).flatten().collect::<Vec<_>>() {
        let devices = config.as_map_mut().and_then(|map| map.get_mut(&section)?.as_map_mut());
        let Some(node) = devices.and_then(|devices| devices.get_mut(&id)) else { continue };
        let (at, is_managed) = (node.at.clone(), by_manager(node).unwrap_or(is_managed));
        let Some(device) = node.as_map_mut() else { continue };
        if let Some(link) = links.get(&*id).filter(|_| SECTIONS.contains(&&*section)) {
            off_link_gateways(link).for_each(|gateway| set_on_link(device, gateway));
            match device.get("match").and_then(Node::as_map) {
                Some(all) if all.is_empty() => {
                    drop(device.insert("match", Node::from([("name", Node::from("*"))])))
                }
                Some(_) if !link.has_temporary_mac => {}
                _ => match_by_name(device, link),
            }
        }
        if !is_managed && unify_overrides(device) {
            findings.invalid(&at, join_key(&join_key("network", &section), &id), ONE_DHCP);
        }
    }
    config
}

/// Matches a NIC by its name: netplan renames only what it matches, and compares permanent MAC addresses only.
fn match_by_name(device: &mut Map, link: &Link) {
    let name = if link.has_temporary_mac { &link.name } else { &link.id };
    let is_renamed = device.remove("set-name").is_some() && *name != link.name;
    device.remove("match");
    if is_renamed || *name != link.id {
        device.insert("match", Node::from([("name", Node::from(name.as_str()))]));
    }
    if is_renamed {
        device.insert("set-name", link.name.as_str());
    }
}

/// Returns the default gateways that are in no subnet of the link, for which netplan has no flag.
fn off_link_gateways(link: &Link) -> impl Iterator<Item = &str> {
    let networks = Networks::of(&link.subnets);
    let gateways = link.subnets.iter().filter_map(|subnet| subnet.gateway.as_deref());
    gateways.filter(move |g| !is_link_local(g) && networks.position(g).is_none())
}

/// Writes `gateway4` or `gateway6` as a route with that flag.
fn set_on_link(device: &mut Map, gateway: &str) {
    let (key, to) = if is_ipv6(gateway) { ("gateway6", "::/0") } else { ("gateway4", "0.0.0.0/0") };
    let mut routes = device.get("routes").map(|routes| routes.items().to_vec()).unwrap_or_default();
    routes.push(Node::from([("to", to.into()), ("via", gateway.into()), ("on-link", Node::from(true))]));
    device.remove(key);
    device.insert("routes", routes);
}

/// Returns the key of what is removed with a value: a route, a rule, a VLAN without its ID, a VRF without its table.
pub fn whole(key: &str) -> &str {
    let lists = [".routes[", ".routing-policy["];
    let item = lists.iter().find_map(|list| key.find(list).map(|start| start + list.len()));
    if let Some(end) = item.and_then(|start| key[start..].find(']').map(|end| start + end + 1)) {
        return &key[..end];
    }
    let needs = ["network.vlans.", "network.vrfs."].iter().any(|section| key.starts_with(section));
    let device = [".id", ".link", ".table"].iter().find_map(|part| key.strip_suffix(part));
    device.filter(|_| needs).unwrap_or(key)
}

/// Returns a value in netplan's type; `None` for one that is not set.
fn in_type(name: &str, path: &str, value: &Node) -> Option<Node> {
    let known = SETTINGS.iter().map(|known| (known.netplan, known.value_type));
    let mut known = known.chain(OVERRIDES.iter().map(|known| (known.netplan, known.value_type)));
    let is_flag = FLAGS.contains(&name) || known.any(|known| known == (name, ValueType::Flag));
    let is_list = LIST_KEYS.contains(&name) || ["routes", "routing-policy", "link-local"].contains(&name);
    let list = |text: &str, is_kept: &dyn Fn(&str) -> bool| {
        let words = words(text).filter(|word| is_kept(word));
        Value::Seq(words.map(Node::from).collect())
    };
    let is_ports = ["path-cost", "port-priority"].contains(&name);
    let is_servers = path.ends_with(".nameservers.addresses");
    let written = match (&value.value, value.as_str()) {
        (Value::Null, _) | (_, Some("")) => return None,
        (Value::Seq(_), _) if !is_ports => value.value.clone(),
        (_, Some(text)) if LIST_KEYS.contains(&name) => {
            list(text, &|word| !is_servers || is_name_server(word))
        }
        _ if is_list && value.is_falsy() => return None,
        (Value::Bool(false), _) if name == OFF_KEY => Value::Str("off".into()),
        (_, Some(text)) if is_flag => boolean(&Node::from(text.trim())).value,
        (Value::Int(_), _) if is_flag => boolean(value).value,
        (Value::Seq(_), _) | (_, Some(_)) if is_ports => port_values(value).value,
        _ if name == "macaddress" => {
            mac_text(value).map_or_else(|| value.value.clone(), |mac| Value::Str(mac.replace('-', ":")))
        }
        (_, Some(_)) if name == "table" => {
            table_number(value).map_or_else(|| value.value.clone(), Value::Str)
        }
        (_, Some(text)) if name == "mark" => {
            let number = text.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
            number.map_or_else(|| value.value.clone(), |number| Value::Int(number.into()))
        }
        _ if path.starts_with("network.bonds.") && path.contains(".parameters.") => {
            let option = BOND_OPTIONS.iter().find(|option| option.netplan == name);
            with_bond_name(option.map_or(name, |option| option.ifupdown), value).value
        }
        _ if path == "network.version" && value.scalar_text().as_deref() != Some("2") => Value::Int(2),
        _ => value.value.clone(),
    };
    Some(Node { value: written, at: value.at.clone() })
}

/// Completes an item of a list: an address without a prefix, a route without a gateway, a rule for all packets.
fn complete(list: &str, item: &mut Node) {
    let is_address = list.ends_with(".addresses") && !list.ends_with(".nameservers.addresses");
    let text = item.as_str().filter(|_| is_address);
    if let Some(Ok(network)) = text.map(|text| parse_network(text, None, None)) {
        item.value = Value::Str(format!("{}/{}", network.address, network.prefix));
    }
    let Some(map) = item.as_map_mut() else { return };
    if list.ends_with(".routes") {
        let is_v6 =
            ["via", "from"].iter().any(|key| map.get(key).and_then(Node::as_str).is_some_and(is_ipv6));
        if map.get("via").and_then(Node::as_str).is_some_and(is_unspecified) {
            map.remove("via");
            map.insert("scope", "link");
        }
        if map.get("via").is_none() && map.get("to").and_then(Node::as_str) == Some("default") {
            map.insert("to", if is_v6 { "::/0" } else { "0.0.0.0/0" });
        }
    } else if list.ends_with(".routing-policy") && map.get("from").is_none() && map.get("to").is_none() {
        map.insert("from", "0.0.0.0/0");
    }
}

/// Returns a configuration without the values of these paths, and the others in netplan's types.
pub fn without(node: &Node, path: &str, level: Level<'_>, removed: &HashSet<&str>) -> Node {
    let value = match &node.value {
        Value::Map(map) => {
            let mut kept = Map::new();
            for (key, value) in map.iter() {
                let name = key.scalar_text().unwrap_or_default();
                let path = join_key(path, &name);
                let is_off = name == OFF_KEY && value.as_bool() == Some(false);
                if removed.contains(path.as_str()) && !is_off {
                    continue;
                }
                if matches!(level, Level::Device(_)) && level.is_netplan_only(&name) {
                    kept.insert(key.clone(), value.clone());
                } else if level.is_netplan_only(&name) {
                    kept.insert(key.clone(), without(value, &path, Level::NetplanOnly, removed));
                } else if matches!(level, Level::Devices(_)) && value.is_null() {
                    kept.insert(key.clone(), Map::new());
                } else if let Some(written) = in_type(&name, &path, value) {
                    let name = if name == "arp-ip-target" { "arp-ip-targets".into() } else { key.clone() };
                    let written =
                        without(&written, &path, level.nested(key.as_str().unwrap_or_default()), removed);
                    kept.insert(name, written);
                }
            }
            // Without its MAC address, or without any criterion, it would match other NICs.
            let criteria = |map: &Map| map.get("match").and_then(Node::as_map).map_or(0, Map::len);
            let has_mac = |map: &Map| map.get("match").is_some_and(|of| of.get("macaddress").is_some());
            if criteria(&kept) < criteria(map) && (criteria(&kept) == 0 || has_mac(map) && !has_mac(&kept)) {
                kept.remove("match");
                kept.remove("set-name");
            }
            Value::Map(kept)
        }
        Value::Seq(items) => {
            let items = items.iter().enumerate().map(|(i, item)| (format!("{path}[{i}]"), item));
            let kept = items.filter(|(path, item)| !removed.contains(path.as_str()) && !item.is_null());
            let level = if level.is_netplan_only("") { level } else { Level::Inner };
            let kept = kept.map(|(item_path, item)| {
                let mut item = without(item, &item_path, level, removed);
                complete(path, &mut item);
                item
            });
            Value::Seq(kept.collect())
        }
        other => other.clone(),
    };
    Node { value, at: node.at.clone() }
}

/// Makes the DHCP settings of both families equal, because netplan rejects different ones for networkd: DHCPv4's apply to both.
/// Returns whether they differed.
pub fn unify_overrides(device: &mut Map) -> bool {
    if !["dhcp4", "dhcp6"].iter().all(|key| device.get(key).is_some_and(is_on)) {
        return false;
    }
    let keys = ["dhcp4-overrides", "dhcp6-overrides"];
    let [v4, v6] = keys.map(|key| device.get(key).and_then(Node::as_map).cloned().unwrap_or_default());
    let mut both = v4.clone();
    if v4.get("route-metric").is_none() {
        both.insert_some("route-metric", v6.get("route-metric").cloned());
    }
    let differs = both != v4 || both != v6;
    if differs {
        keys.iter().for_each(|key| drop(device.insert(*key, both.clone())));
    }
    differs
}

/// netplan rejects a boolean that is written as a number.
pub fn boolean(node: &Node) -> Node {
    match node.scalar_text().as_deref().map(str::trim) {
        Some("0") => Node::from(false),
        Some("1") => Node::from(true),
        _ => node.clone(),
    }
}

/// Returns `["eth0 50"]` as `{eth0: 50}`.
pub fn port_values(value: &Node) -> Node {
    let items = match &value.value {
        Value::Seq(items) => items.as_slice(),
        Value::Str(_) => std::slice::from_ref(value),
        _ => return value.clone(),
    };
    let mut ports = Map::new();
    for item in items.iter().filter_map(Node::as_str) {
        if let Some((port, number)) = item.trim().split_once(char::is_whitespace)
            && let Ok(number) = number.trim().parse::<i64>()
        {
            ports.insert(port, number);
        }
    }
    Node::from(ports)
}
