//! Removes invalid parts from a configuration that a renderer passes through, and adds the devices that others refer to:
//! netplan would reject the whole file.

use std::collections::HashSet;

use config::{Map, Node, Value, join_key};

use super::builder::Parsed;
use crate::address::{is_ipv6, is_link_local};
use crate::model::Link;
use crate::render::bond_mode;

/// The sections whose devices may have gateways.
const SECTIONS: [&str; 4] = ["ethernets", "bonds", "bridges", "vlans"];

/// The key whose value `off` YAML 1.1 reads as a boolean.
const OFF_KEY: &str = "activation-mode";

/// The lists for which a string is accepted.
const LIST_KEYS: [&str; 3] = ["addresses", "search", "interfaces"];

/// Returns the configuration without the values that the parser ignores, and with NICs for undefined members. A route, a rule
/// or a VLAN is removed as a whole, because it would be another one.
pub fn prune(config: &Node, parsed: &Parsed) -> Node {
    let links = &parsed.model.links;
    let removed: HashSet<&str> = parsed.discarded.iter().map(|key| whole(key)).collect();
    let mut config = without(config, "network", &removed);
    if let (Some(map), false) = (config.as_map_mut(), parsed.undefined.is_empty()) {
        let mut ethernets = map.get("ethernets").and_then(Node::as_map).cloned().unwrap_or_default();
        parsed.undefined.iter().for_each(|name| drop(ethernets.insert(name.as_str(), Map::new())));
        map.insert("ethernets", ethernets);
    }
    for (link, section) in links.iter().flat_map(|link| SECTIONS.map(|section| (link, section))) {
        let devices = config.as_map_mut().and_then(|map| map.get_mut(section)?.as_map_mut());
        if let Some(device) = devices.and_then(|devices| devices.get_mut(&link.id)?.as_map_mut()) {
            off_link_gateways(link).for_each(|gateway| set_on_link(device, gateway));
        }
    }
    config
}

/// Returns the default gateways that are in no subnet of the link, for which netplan has no flag.
fn off_link_gateways(link: &Link) -> impl Iterator<Item = &str> {
    let gateways = link.subnets.iter().filter_map(|subnet| subnet.gateway.as_deref());
    gateways.filter(|g| !is_link_local(g) && !link.subnets.iter().any(|subnet| subnet.reaches(g)))
}

/// Writes `gateway4` or `gateway6` as a route with that flag.
fn set_on_link(device: &mut Map, gateway: &str) {
    let (key, to) = if is_ipv6(gateway) { ("gateway6", "::/0") } else { ("gateway4", "0.0.0.0/0") };
    let mut routes = device.get("routes").map(|routes| routes.items().to_vec()).unwrap_or_default();
    routes.push(Node::from([("to", to.into()), ("via", gateway.into()), ("on-link", Node::from(true))]));
    device.remove(key);
    device.insert("routes", routes);
}

/// Returns the key of what is removed with a value.
fn whole(key: &str) -> &str {
    let lists = [".routes[", ".routing-policy["];
    let item = lists.iter().find_map(|list| key.find(list).map(|start| start + list.len()));
    if let Some(end) = item.and_then(|start| key[start..].find(']').map(|end| start + end + 1)) {
        return &key[..end];
    }
    let is_vlan = key.starts_with("network.vlans.");
    let device = [".id", ".link"].iter().find_map(|part| key.strip_suffix(part));
    device.filter(|_| is_vlan).unwrap_or(key)
}

fn without(node: &Node, path: &str, removed: &HashSet<&str>) -> Node {
    let value = match &node.value {
        Value::Map(map) => {
            let mut kept = Map::new();
            for (key, value) in map.iter() {
                let path = join_key(path, &key.scalar_text().unwrap_or_default());
                let name = key.as_str().unwrap_or_default();
                let is_off = name == OFF_KEY && value.as_bool() == Some(false);
                if removed.contains(path.as_str()) && !is_off {
                    continue;
                }
                let text = value.as_str().filter(|_| LIST_KEYS.contains(&name));
                let written = match text {
                    Some(text) => Value::Seq(text.split_whitespace().map(Node::from).collect()),
                    None if is_off => Value::Str("off".into()),
                    None if path.ends_with(".parameters.mode") => Value::Str(bond_mode(value)),
                    None => value.value.clone(),
                };
                let written = Node { value: written, at: value.at.clone() };
                kept.insert(key.clone(), without(&written, &path, removed));
            }
            // Without its criterion it would match every NIC.
            let is_emptied = |node: &Node| node.as_map().is_some_and(Map::is_empty);
            if kept.get("match").is_some_and(is_emptied) && !map.get("match").is_some_and(is_emptied) {
                kept.remove("match");
                kept.remove("set-name");
            }
            Value::Map(kept)
        }
        Value::Seq(items) => {
            let items = items.iter().enumerate().map(|(i, item)| (format!("{path}[{i}]"), item));
            let kept = items.filter(|(path, _)| !removed.contains(path.as_str()));
            Value::Seq(kept.map(|(path, item)| without(item, &path, removed)).collect())
        }
        other => other.clone(),
    };
    Node { value, at: node.at.clone() }
}
