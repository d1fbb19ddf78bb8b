//! The outermost level of a network configuration: the `network` key and the version.

use config::{Map, Node};

use crate::address::parse_number;

/// Returns a configuration of version 1.
pub fn version_1(entries: Vec<Node>) -> Node {
    Node::from([("version", 1.into()), ("config", entries.into())])
}

/// Returns a configuration of version 2.
pub fn version_2(ethernets: Map) -> Node {
    Node::from([("version", 2.into()), ("ethernets", ethernets.into())])
}

/// Returns the configuration below a `network` key, or the value itself without that key.
pub fn network_section(config: &Node) -> &Node {
    config.get("network").unwrap_or(config)
}

/// Returns whether the configuration is `config: disabled`.
pub fn is_disabled(config: &Node) -> bool {
    network_section(config).get("config").and_then(Node::as_str) == Some("disabled")
}

/// Returns the `version` of a configuration, which may be in quotes. If it is not written, a section of version 2 means 2, as in
/// netplan, and a list of entries 1.
pub fn version(config: &Map) -> Option<u8> {
    let has_section = || {
        ["ethernets", "bonds", "bridges", "vlans"]
            .iter()
            .any(|name| config.get(name).is_some_and(|n| !n.is_falsy()))
    };
    match config.get("version") {
        Some(version) => parse_number(version).and_then(|n| u8::try_from(n).ok()),
        None if has_section() => Some(2),
        None => config.get("config").and_then(Node::as_seq).map(|_| 1),
    }
}
