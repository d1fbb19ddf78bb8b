//! Metadata documents: text in YAML or JSON becomes a value, and fields of the value become text.

pub mod assignments;
pub mod fields;
pub mod openstack_format;
pub mod v1;
pub mod xml;

use config::{Map, Node};
use system::{Error, Result};

/// Parses a YAML or JSON document whose top level is a map. An empty document is an empty map.
///
/// # Errors
///
/// Fails, with the position in `source`, if the document is malformed or its top level is not a map.
pub fn parse_map(source: &str, bytes: &[u8]) -> Result<Node> {
    let parsed = config::yaml::parse_bytes(source, bytes);
    let root = parsed.map_err(|e| Error::new(e.to_string()))?.root;
    if root.is_null() {
        return Ok(Node::from(Map::new()));
    }
    if root.as_map().is_none() {
        return Err(Error::new(format!("{}: expected a map, found {}", root.at, root.kind())));
    }
    Ok(root)
}

/// Returns the text of a scalar field, or `None` if it is missing, null, empty or not a scalar.
pub fn text(map: &Node, key: &str) -> Option<String> {
    map.get(key).filter(|node| !node.is_null()).and_then(Node::scalar_text).filter(|text| !text.is_empty())
}

/// Returns a scalar's text without surrounding whitespace, unless it is empty: an id with a line break would never
/// equal the one that the next boot reads.
pub fn trimmed(node: Option<&Node>) -> Option<String> {
    let text = node.filter(|n| !n.is_null()).and_then(Node::scalar_text)?;
    Some(text.trim().to_string()).filter(|t| !t.is_empty())
}

/// Returns whether a field is null, as is one that was rejected and reported.
pub fn is_null(map: &Node, key: &str) -> bool {
    map.get(key).is_some_and(Node::is_null)
}

/// Returns the items of a list field; none if the field is missing or not a list.
pub fn items<'n>(map: &'n Node, key: &str) -> &'n [Node] {
    map.get(key).and_then(Node::as_seq).unwrap_or_default()
}

/// Returns a map of the named fields, each under another name: pairs of the new name and that in `map`. Missing fields
/// become null.
pub fn select(map: &Node, names: &[(&str, &str)]) -> Map {
    names.iter().map(|(new, old)| (Node::from(*new), map.get(old).cloned().unwrap_or_default())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        for (text, expected) in [
            (r#"{"a": "x\ud83dy"}"#, "x\u{fffd}y"),
            (r#"{"a": "\uDE00\ud83d"}"#, "\u{fffd}\u{fffd}"),
            (r#"{"a": "\ud83d\ude00\ud83d"}"#, "\u{1f600}\u{fffd}"),
            (r#"{"a": "\ud83d\u0041\n"}"#, "\u{fffd}A\n"),
            (r#"{"a": "\\ud83d \ud83d"}"#, "\\ud83d \u{fffd}"),
            (r#"{"a": "\ud83d\ud83d\ude00"}"#, "\u{fffd}\u{1f600}"),
        ] {
            let yaml = parse_map("t", text.as_bytes()).unwrap();
            assert_eq!(yaml.get("a").and_then(Node::as_str), Some(expected), "{text}");
            assert_eq!(config::json::value(text.as_bytes()).unwrap()["a"], expected, "{text}");
        }
        for broken in [r#"{"a": "\ud83d"#, r#"{"a": "\ud8"}"#, r"{ \ud83d", "\\"] {
            assert!(config::json::value(broken.as_bytes()).is_err(), "{broken}");
        }
    }
}
