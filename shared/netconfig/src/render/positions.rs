//! The positions of a configuration's keys, for findings.

use std::collections::HashMap;

use config::{Node, Position};

/// The positions of devices and entries.
#[derive(Default)]
pub struct Positions<'a> {
    /// Devices of version 2, entries of version 1, by id.
    pub devices: HashMap<String, &'a Node>,
    /// The first entry of version 1 of each type.
    pub entries: HashMap<&'a str, Position>,
}

impl<'a> Positions<'a> {
    pub fn new(version: u8, config: &'a Node) -> Positions<'a> {
        let mut positions = Positions::default();
        if version == 1 {
            for entry in config.get("config").and_then(Node::as_seq).unwrap_or_default() {
                if let Some(name) = entry.get("name").and_then(Node::scalar_text) {
                    positions.devices.insert(name, entry);
                }
                if let Some(kind) = entry.get("type").and_then(Node::as_str) {
                    positions.entries.entry(kind).or_insert_with(|| entry.at.clone());
                }
            }
            return positions;
        }
        for section in ["ethernets", "bonds", "bridges", "vlans"] {
            let devices = config.get(section).and_then(Node::as_map);
            for (id, device) in devices.into_iter().flat_map(|map| map.iter()) {
                positions.devices.extend(id.scalar_text().map(|id| (id, device)));
            }
        }
        positions
    }

    /// Returns the position of a key, or of the closest enclosing one. In lists it is the first item that has the key.
    pub fn find(&self, id: &str, path: &[&str]) -> Position {
        let Some(device) = self.devices.get(id) else { return Position::default() };
        let (mut node, mut at) = (*device, &device.at);
        for key in path {
            let next = match node.as_seq() {
                Some(items) => items.iter().find_map(|item| item.get(key)),
                None => node.get(key),
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
            // A converted configuration has parts without a position.
            at = if node.at == Position::default() { at } else { &node.at };
        }
        at.clone()
    }
}
