//! `#cloud-config-archive`: parts written as a YAML list.

use config::{Node, Value};

use crate::detect::{self, detect};
use crate::part::Part;

const ITEM_KEYS: [&str; 5] = ["content", "type", "filename", "launch-index", "merge-type"];

/// Returns the items of an archive as parts without names. Skips invalid items with a warning; `notes` gets misspelled keys.
pub fn read(text: &str, warnings: &mut Vec<String>, notes: &mut Vec<String>) -> Vec<Part<'static>> {
    let parsed = match config::yaml::parse("cloud-config-archive", text) {
        Ok(parsed) => parsed,
        Err(bad) => {
            warnings.push(format!("skipping cloud-config-archive: {bad}"));
            return Vec::new();
        }
    };
    let items: Vec<&Node> = match &parsed.root.value {
        Value::Seq(items) => items.iter().collect(),
        Value::Set(map) => map.iter().map(|(key, _)| key).collect(),
        _ => {
            let (at, kind) = (&parsed.root.at, parsed.root.kind());
            warnings.push(format!("{at}: skipping cloud-config-archive: expected a list, found {kind}"));
            return Vec::new();
        }
    };
    items.into_iter().filter_map(|node| item(node, warnings, notes)).collect()
}

fn item(node: &Node, warnings: &mut Vec<String>, notes: &mut Vec<String>) -> Option<Part<'static>> {
    match &node.value {
        Value::Str(text) => Some(sniffed(text.clone().into_bytes(), false)),
        Value::Map(map) => {
            let content = map.get("content");
            let binary = matches!(content.map(|c| &c.value), Some(Value::Bytes(_)));
            let payload = match content.map(|c| (&c.value, c)) {
                None | Some((Value::Null, _)) => Vec::new(),
                Some((Value::Bytes(bytes), _)) => bytes.clone(),
                Some((_, node)) => match node.scalar_text() {
                    Some(text) => text.into_bytes(),
                    None => {
                        let (at, kind) = (&node.at, node.kind());
                        warnings.push(format!(
                            "{at}: skipping archive item: 'content': expected a string, found {kind}"
                        ));
                        return None;
                    }
                },
            };
            // Upstream treats an empty type as a missing one; programs that fill in templates write it.
            let mut part = match map.get("type").and_then(Node::as_str).filter(|given| !given.is_empty()) {
                // The parameters declare a charset, but the text is already decoded.
                Some(given) => {
                    let bare = given.split(';').next().unwrap_or_default();
                    Part::new(&bare.trim().to_ascii_lowercase(), payload)
                }
                None => sniffed(payload, binary),
            };
            for (key, value) in map.iter() {
                let (Some(key), Some(value)) = (key.scalar_text(), value.scalar_text()) else { continue };
                let lower = key.to_ascii_lowercase();
                match lower.as_str() {
                    "content" | "type" | "content-type" | "content-disposition" => {}
                    "filename" => part.set_filename(&value),
                    "launch-index" => part.headers.set("Launch-Index", value),
                    _ => {
                        // A key that the item has is not the one that was meant.
                        let others = ITEM_KEYS.into_iter().filter(|key| map.get(key).is_none());
                        let near = config::suggestion(&lower, others);
                        let is_known = lower.starts_with("x-") || ITEM_KEYS.contains(&&*lower);
                        if !near.is_empty() && !is_known {
                            notes.push(format!("{}: unknown key of an archive item{near}", node.at));
                        }
                        part.headers.add(&key, value);
                    }
                }
            }
            Some(part)
        }
        _ => {
            let (at, kind) = (&node.at, node.kind());
            warnings.push(format!("{at}: skipping archive item: expected a string or a map, found {kind}"));
            None
        }
    }
}

fn sniffed(payload: Vec<u8>, binary: bool) -> Part<'static> {
    let otherwise = if binary { detect::OCTET_STREAM } else { detect::CLOUD_CONFIG };
    Part::new(detect(&payload).unwrap_or(otherwise), payload)
}
