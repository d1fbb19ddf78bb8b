//! The outermost level of a network configuration: the `network` key and the version.

use config::{Map, Node};

/// The configuration below a `network` key, or the value itself when it has none.
pub fn network_section(config: &Node) -> &Node {
    config.get("network").unwrap_or(config)
}

/// Whether it says that cloud-init leaves the network alone.
pub fn is_disabled(config: &Node) -> bool {
    network_section(config).get("config").and_then(Node::as_str) == Some("disabled")
}

/// The version that a configuration names.
pub fn version(config: &Map) -> Option<u8> {
    config.get("version")?.as_int().and_then(|n| u8::try_from(n).ok())
}
