//! Removes invalid parts from a configuration that a renderer passes through, and adds the devices that others refer to:
//! netplan would reject the whole file.

use std::borrow::Cow;
use std::collections::HashSet;

use config::{Map, Node, Value, join_key};

use super::builder::Parsed;

/// Returns the configuration without the values that the parser ignores, and with NICs for undefined members. A route, a rule
/// or a VLAN is removed as a whole, because it would be another one.
pub fn prune<'a>(config: &'a Node, parsed: &Parsed) -> Cow<'a, Node> {
    if parsed.discarded.is_empty() && parsed.undefined.is_empty() {
        return Cow::Borrowed(config);
    }
    let removed: HashSet<&str> = parsed.discarded.iter().map(|key| whole(key)).collect();
    let mut config = without(config, "network", &removed);
    if let (Some(map), false) = (config.as_map_mut(), parsed.undefined.is_empty()) {
        let mut ethernets = map.get("ethernets").and_then(Node::as_map).cloned().unwrap_or_default();
        parsed.undefined.iter().for_each(|name| drop(ethernets.insert(name.as_str(), Map::new())));
        map.insert("ethernets", ethernets);
    }
    Cow::Owned(config)
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
                if !removed.contains(path.as_str()) {
                    kept.insert(key.clone(), without(value, &path, removed));
                }
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
