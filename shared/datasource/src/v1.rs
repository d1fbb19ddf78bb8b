//! Builds network configurations of version 1 from metadata.

use config::{Map, Node};

/// Returns a map of text values.
pub fn map(pairs: &[(&str, &str)]) -> Map {
    pairs.iter().map(|(key, value)| (Node::from(*key), Node::from(*value))).collect()
}

/// Returns the entry of a NIC.
pub fn physical(name: &str, mac: &str, subnets: Vec<Map>) -> Map {
    let mut entry = map(&[("type", "physical"), ("mac_address", mac), ("name", name)]);
    entry.insert("subnets", subnets.into_iter().map(Node::from).collect::<Vec<_>>());
    entry
}

/// Returns the entry of DNS servers: an address or a list of addresses.
pub fn nameserver(addresses: impl Into<Node>) -> Map {
    let mut entry = map(&[("type", "nameserver")]);
    entry.insert("address", addresses.into());
    entry
}

/// Returns the configuration of these entries.
pub fn config(entries: Vec<Map>) -> Node {
    let mut config = Map::new();
    config.insert("version", 1);
    config.insert("config", entries.into_iter().map(Node::from).collect::<Vec<_>>());
    config.into()
}
