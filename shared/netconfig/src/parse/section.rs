//! The outermost level of a network configuration: the `network` key and the version.

use config::{Map, Node};

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

/// Returns the `version` of a configuration: 2 if it is not written and there is a section of version 2, as in netplan.
pub fn version(config: &Map) -> Option<u8> {
    let has_section = || {
        ["ethernets", "bonds", "bridges", "vlans"]
            .iter()
            .any(|name| config.get(name).is_some_and(|n| !n.is_falsy()))
    };
    match config.get("version") {
        Some(version) => version.as_int().and_then(|n| u8::try_from(n).ok()),
        None => has_section().then_some(2),
    }
}
