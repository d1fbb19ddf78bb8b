//! The variables of a template: instance data, with names that a template can spell.

use std::collections::BTreeSet;

use config::{Map, Node, Value};

use crate::lexer::OPERATORS;

/// The key of the list of slash-separated paths whose values are base64. Releases before 19.2 wrote it.
const BASE64_KEYS: &str = "base64-encoded-keys";

/// Returns instance data as templates see them: each key of a map `v1`, `v2`, … is also beside it, where a later version
/// counts more; each key with operators is also known with `_` for these; maps within lists stay as they are.
pub fn variables(data: &Node) -> Map {
    let paths = data.get(BASE64_KEYS).and_then(Node::as_seq).unwrap_or_default();
    let paths = paths.iter().filter_map(Node::as_str).map(|path| path.replace('-', "_"));
    convert(data, "", &sort::collect(paths), true)
}

/// Returns instance data as `cloud-init query` shows them: as [`variables`] has them, without the names that are only for
/// templates and without decoding.
pub fn standardized(data: &Node) -> Map {
    convert(data, "", &BTreeSet::new(), false)
}

/// Returns the name by which a template can spell this one, if that is another.
pub fn alias(name: &str) -> Option<String> {
    let alias = OPERATORS.iter().fold(name.to_string(), |name, operator| name.replace(operator, "_"));
    (alias != name).then_some(alias)
}

/// Returns the entries sorted by key, as upstream processes them.
fn convert(node: &Node, path: &str, decoded: &BTreeSet<String>, with_aliases: bool) -> Map {
    let mut entries: Vec<_> = node.as_map().into_iter().flat_map(Map::iter).collect();
    sort::sort_by(&mut entries, |a, b| a.0.as_str().cmp(&b.0.as_str()));
    let mut found = Map::new();
    for (key, value) in entries {
        let name = key.as_str().unwrap_or_default();
        let nested = if path.is_empty() { name.to_string() } else { format!("{path}/{name}") };
        if value.as_map().is_some() {
            let map = convert(value, &nested, decoded, with_aliases);
            found.insert(key.clone(), Node { value: Value::Map(map.clone()), at: value.at.clone() });
            if is_version_key(name) {
                for (key, value) in map.iter() {
                    found.insert(key.clone(), value.clone());
                }
            }
        } else if decoded.contains(&nested) {
            found.insert(key.clone(), decode_base64(value));
        } else {
            found.insert(key.clone(), value.clone());
        }
        if with_aliases && let Some(alias) = alias(name) {
            // Looks up the value again, because a version beside this key may have replaced it.
            let now = found.get(name).cloned().unwrap_or_default();
            found.insert(alias, now);
        }
    }
    found
}

fn is_version_key(name: &str) -> bool {
    name.strip_prefix('v').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Decodes base64 to text. Returns a value that is not base64, or not UTF-8, as upstream does.
fn decode_base64(value: &Node) -> Node {
    let Some(bytes) = value.as_str().and_then(|text| encoding::base64::decode(text.as_bytes())) else {
        return value.clone();
    };
    let decoded = String::from_utf8(bytes).map_or_else(|bad| Value::Bytes(bad.into_bytes()), Value::Str);
    Node { value: decoded, at: value.at.clone() }
}
