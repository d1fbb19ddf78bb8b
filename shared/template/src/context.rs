//! The variables of a template: instance data, with names that a template can spell.

use config::{Map, Node, Value};

/// Characters that are operators to Jinja, and so can be in no name.
const OPERATORS: &[char] = &[
    '+', '-', '/', '*', '%', '~', '.', ':', '|', '=', '<', '>', '!', ',', ';', '(', ')', '[', ']', '{', '}',
];

/// Instance data as templates see them: each key below `v1` (and later versions, which count more) is also at
/// the top, and each key with operators is also known with `_` for these. Maps within lists stay as they are.
pub fn variables(data: &Node) -> Map {
    let mut found = Map::new();
    for (key, value) in sorted(data) {
        let value = aliased(value);
        let number = key.as_str().and_then(|key| key.strip_prefix('v')).unwrap_or_default();
        let is_version = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        if let (true, Some(version)) = (is_version, value.as_map()) {
            for (key, value) in version.iter() {
                found.insert(key.clone(), value.clone());
            }
        }
        put(&mut found, key, value);
    }
    found
}

/// The entries of a map by their keys, as upstream goes through them.
fn sorted(node: &Node) -> Vec<(&Node, &Node)> {
    let mut entries: Vec<_> = node.as_map().into_iter().flat_map(Map::iter).collect();
    entries.sort_by(|a, b| a.0.as_str().cmp(&b.0.as_str()));
    entries
}

fn aliased(node: &Node) -> Node {
    if node.as_map().is_none() {
        return node.clone();
    }
    let mut found = Map::new();
    for (key, value) in sorted(node) {
        put(&mut found, key, aliased(value));
    }
    Node { value: Value::Map(found), at: node.at.clone() }
}

fn put(found: &mut Map, key: &Node, value: Node) {
    let alias = key.as_str().filter(|name| name.contains(OPERATORS)).map(|name| name.replace(OPERATORS, "_"));
    if let Some(alias) = alias {
        found.insert(key.clone(), value.clone());
        found.insert(alias, value);
    } else {
        found.insert(key.clone(), value);
    }
}
