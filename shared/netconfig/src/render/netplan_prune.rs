//! Makes a configuration of version 2 one that netplan accepts, because it rejects a file with a single invalid value: removes the
//! values that the parser ignores, writes the others in netplan's types, and adds the devices that others refer to.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use config::{Findings, Map, Node, Value, join_key, push_key};

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
    let mut changed: Vec<(String, String, Map)> = Vec::new();
    for (section, devices) in config.entries() {
        let Some(section) = section.as_str() else { continue };
        for (id, node) in devices.entries() {
            let (Some(id), Some(written)) = (id.as_str(), node.as_map()) else { continue };
            let mut device = written.clone();
            if let Some(link) = links.get(id).filter(|_| SECTIONS.contains(&section)) {
                for gateway in off_link_gateways(link) {
                    set_on_link(&mut device, gateway);
                }
                match device.get("match").and_then(Node::as_map) {
                    Some(all) if all.is_empty() => {
                        drop(device.insert("match", Node::from([("name", Node::from("*"))])))
                    }
                    Some(_) if !link.has_temporary_mac => {}
                    _ => match_by_name(&mut device, link),
                }
            }
            if !by_manager(node).unwrap_or(is_managed) && unify_overrides(&mut device) {
                findings.invalid(&node.at, join_key(&join_key("network", section), id), ONE_DHCP);
            }
            if !device.is_copy_of(written) {
                changed.push((section.to_string(), id.to_string(), device));
            }
        }
    }
    for (section, id, device) in changed {
        let devices = config.as_map_mut().and_then(|map| map.get_mut(&section)?.as_map_mut());
        if let Some(node) = devices.and_then(|devices| devices.get_mut(&id)) {
            node.value = Value::Map(device);
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
fn off_link_gateways(link: &Link) -> Vec<&str> {
    let gateways = link.subnets.iter().filter_map(|subnet| subnet.gateway.as_deref());
    let mut gateways: Vec<&str> = gateways.filter(|gateway| !is_link_local(gateway)).collect();
    if !gateways.is_empty() {
        let networks = Networks::of(&link.subnets);
        gateways.retain(|gateway| networks.position(gateway).is_none());
    }
    gateways
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

/// Returns a value in netplan's type, borrowed if it has that type; `None` for one that is not set.
fn in_type<'n>(name: &str, path: &str, value: &'n Node) -> Option<Cow<'n, Node>> {
    let unchanged = Some(Cow::Borrowed(value));
    let is_flag = || {
        let known = SETTINGS.iter().map(|known| (known.netplan, known.value_type));
        let mut known = known.chain(OVERRIDES.iter().map(|known| (known.netplan, known.value_type)));
        FLAGS.contains(&name) || known.any(|known| known == (name, ValueType::Flag))
    };
    let is_list = || LIST_KEYS.contains(&name) || ["routes", "routing-policy", "link-local"].contains(&name);
    let list = |text: &str, is_kept: &dyn Fn(&str) -> bool| {
        let words = words(text).filter(|word| is_kept(word));
        Value::Seq(words.map(Node::from).collect())
    };
    let is_ports = || ["path-cost", "port-priority"].contains(&name);
    let is_servers = || path.ends_with(".nameservers.addresses");
    let written = match (&value.value, value.as_str()) {
        (Value::Null, _) | (_, Some("")) => return None,
        (Value::Seq(_), _) if is_ports() => port_values(value).value,
        (Value::Seq(_), _) => return unchanged,
        (_, Some(text)) if LIST_KEYS.contains(&name) => {
            list(text, &|word| !is_servers() || is_name_server(word))
        }
        _ if value.is_falsy() && is_list() => return None,
        (Value::Bool(false), _) if name == OFF_KEY => Value::Str("off".into()),
        (_, Some(text)) if (matches!(text, "0" | "1") || text != text.trim()) && is_flag() => {
            boolean(&Node::from(text.trim())).value
        }
        (Value::Int(0 | 1), _) if is_flag() => boolean(value).value,
        (_, Some(_)) if is_ports() => port_values(value).value,
        _ if name == "macaddress" => match mac_text(value) {
            Some(mac) => Value::Str(mac.replace('-', ":")),
            None => return unchanged,
        },
        (_, Some(_)) if name == "table" => match table_number(value) {
            Some(number) => Value::Str(number),
            None => return unchanged,
        },
        (_, Some(text)) if name == "mark" => {
            match text.strip_prefix("0x").map(|digits| u32::from_str_radix(digits, 16)) {
                Some(Ok(number)) => Value::Int(number.into()),
                _ => return unchanged,
            }
        }
        _ if path.starts_with("network.bonds.") && path.contains(".parameters.") => {
            let option = BOND_OPTIONS.iter().find(|option| option.netplan == name);
            with_bond_name(option.map_or(name, |option| option.ifupdown), value).value
        }
        _ if path == "network.version" && value.scalar_text().as_deref() != Some("2") => Value::Int(2),
        _ => return unchanged,
    };
    Some(Cow::Owned(Node { value: written, at: value.at.clone() }))
}

/// Completes an item of a list: an address without a prefix, a route without a gateway, a rule for all packets.
fn complete<'n>(list: &str, item: Cow<'n, Node>) -> Cow<'n, Node> {
    let is_address = list.ends_with(".addresses") && !list.ends_with(".nameservers.addresses");
    if let Some(text) = item.as_str().filter(|_| is_address)
        && let Ok(network) = parse_network(text, None, None)
    {
        let whole = format!("{}/{}", network.address, network.prefix);
        if whole != text {
            return Cow::Owned(Node { value: Value::Str(whole), at: item.at.clone() });
        }
    }
    let Some(written) = item.as_map() else { return item };
    let text = |key: &str| written.get(key).and_then(Node::as_str);
    let mut map = written.clone();
    if list.ends_with(".routes") {
        if text("via").is_some_and(is_unspecified) {
            map.remove("via");
            map.insert("scope", "link");
        }
        if map.get("via").is_none() && text("to") == Some("default") {
            let is_v6 = ["via", "from"].iter().any(|key| text(key).is_some_and(is_ipv6));
            map.insert("to", if is_v6 { "::/0" } else { "0.0.0.0/0" });
        }
    } else if list.ends_with(".routing-policy") && map.get("from").is_none() && map.get("to").is_none() {
        map.insert("from", "0.0.0.0/0");
    }
    if map.is_copy_of(written) {
        return item;
    }
    Cow::Owned(Node { value: Value::Map(map), at: item.at.clone() })
}

/// Returns a configuration without the values of these paths, and the others in netplan's types.
pub fn without(node: &Node, path: &str, level: Level<'_>, removed: &HashSet<&str>) -> Node {
    fit(node, &mut path.to_string(), level, removed).into_owned()
}

/// Does the same as [`without`]; what needs no change is borrowed. The path is the same afterwards.
fn fit<'n>(node: &'n Node, path: &mut String, level: Level<'_>, removed: &HashSet<&str>) -> Cow<'n, Node> {
    let length = path.len();
    let value = match &node.value {
        Value::Map(map) => {
            let mut changed: Option<Map> = None;
            for (i, (key, value)) in map.iter().enumerate() {
                let fitting = fit_entry(key, value, path, level, removed);
                path.truncate(length);
                if changed.is_none() && matches!(fitting, Some((Cow::Borrowed(_), Cow::Borrowed(_)))) {
                    continue;
                }
                let kept = changed.get_or_insert_with(|| {
                    map.iter().take(i).map(|(key, value)| (key.clone(), value.clone())).collect()
                });
                if let Some((key, value)) = fitting {
                    kept.insert(key.into_owned(), value.into_owned());
                }
            }
            let Some(mut kept) = changed else { return Cow::Borrowed(node) };
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
            let level = if level.is_netplan_only("") { level } else { Level::Inner };
            let mut changed: Option<Vec<Node>> = None;
            for (i, item) in items.iter().enumerate() {
                // The number is in paths of removed values only.
                if !removed.is_empty() {
                    _ = write!(path, "[{i}]");
                }
                let is_kept = !removed.contains(path.as_str()) && !item.is_null();
                let fitting = is_kept.then(|| fit(item, path, level, removed));
                path.truncate(length);
                let fitting = fitting.map(|item| complete(path, item));
                if changed.is_none() && matches!(fitting, Some(Cow::Borrowed(_))) {
                    continue;
                }
                let kept = changed.get_or_insert_with(|| items[..i].to_vec());
                kept.extend(fitting.map(Cow::into_owned));
            }
            let Some(kept) = changed else { return Cow::Borrowed(node) };
            Value::Seq(kept)
        }
        _ => return Cow::Borrowed(node),
    };
    Cow::Owned(Node { value, at: node.at.clone() })
}

/// Does the same for an entry of a map; `None` if it is removed. `path` is that of the map, and has the key appended
/// afterwards.
fn fit_entry<'n>(
    key: &'n Node,
    value: &'n Node,
    path: &mut String,
    level: Level<'_>,
    removed: &HashSet<&str>,
) -> Option<(Cow<'n, Node>, Cow<'n, Node>)> {
    let text = key.as_str().map_or_else(|| key.scalar_text().unwrap_or_default().into(), Cow::Borrowed);
    let name = &*text;
    push_key(path, name);
    let is_off = name == OFF_KEY && value.as_bool() == Some(false);
    if removed.contains(path.as_str()) && !is_off {
        return None;
    }
    let is_netplan_only = level.is_netplan_only(name);
    let borrowed = Cow::Borrowed(key);
    if matches!(level, Level::Device(_)) && is_netplan_only {
        return Some((borrowed, Cow::Borrowed(value)));
    }
    if is_netplan_only {
        return Some((borrowed, fit(value, path, Level::NetplanOnly, removed)));
    }
    if matches!(level, Level::Devices(_)) && value.is_null() {
        return Some((borrowed, Cow::Owned(Node::from(Map::new()))));
    }
    let nested = level.nested(key.as_str().unwrap_or_default());
    let value = match in_type(name, path, value)? {
        Cow::Borrowed(value) => fit(value, path, nested, removed),
        Cow::Owned(value) => Cow::Owned(fit(&value, path, nested, removed).into_owned()),
    };
    let key = if name == "arp-ip-target" { Cow::Owned("arp-ip-targets".into()) } else { borrowed };
    Some((key, value))
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
