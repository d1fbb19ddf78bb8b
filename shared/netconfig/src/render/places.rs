//! Where the keys of a configuration were written, for remarks on what became of them.

use std::collections::HashMap;

use config::{Mark, Node};

/// Where things were written.
#[derive(Default)]
pub struct Places<'a> {
    /// Devices of version 2, entries of version 1, by id.
    pub devices: HashMap<&'a str, &'a Node>,
    /// The first entry of version 1 of each type.
    pub entries: HashMap<&'a str, Mark>,
}

impl<'a> Places<'a> {
    pub fn of(version: u8, config: &'a Node) -> Places<'a> {
        let mut places = Places::default();
        if version == 1 {
            for entry in config.get("config").and_then(Node::as_seq).unwrap_or_default() {
                if let Some(name) = entry.get("name").and_then(Node::as_str) {
                    places.devices.insert(name, entry);
                }
                if let Some(kind) = entry.get("type").and_then(Node::as_str) {
                    places.entries.entry(kind).or_insert_with(|| entry.at.clone());
                }
            }
            return places;
        }
        for section in ["ethernets", "bonds", "bridges", "vlans"] {
            let devices = config.get(section).and_then(Node::as_map);
            for (id, device) in devices.into_iter().flat_map(|map| map.iter()) {
                places.devices.extend(id.as_str().map(|id| (id, device)));
            }
        }
        places
    }

    /// The place of a key, or of what comes nearest to it. In lists the first item that has it.
    pub fn find(&self, id: &str, path: &[&str]) -> Mark {
        let Some(device) = self.devices.get(id) else { return Mark::default() };
        let mut node = *device;
        for key in path {
            let next = match node.as_seq() {
                Some(items) => items.iter().find_map(|item| item.get(key)),
                None => node.get(key),
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node.at.clone()
    }
}
