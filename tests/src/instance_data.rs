//! Comparison of instance data with upstream's: removes what depends on the program, not on the cloud or the seed.

use serde_json::{Map, Value};

/// Keys that describe the machine, its distribution and the program.
const PROGRAM_SPECIFIC: &[&str] = &[
    "distro",
    "distro_release",
    "distro_version",
    "kernel_release",
    "machine",
    "python_version",
    "sys_info",
    "system_platform",
    "variant",
    "_doc",
];

/// Parses instance data; empty if the text is not a JSON object.
pub fn instance_data(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Removes program-specific keys and the keys `too`, at every level.
pub fn without_program_specific(value: &mut Value, too: &[&str]) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !PROGRAM_SPECIFIC.contains(&key.as_str()) && !too.contains(&key.as_str()));
            map.values_mut().for_each(|value| without_program_specific(value, too));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| without_program_specific(value, too)),
        _ => {}
    }
}

/// Hides what upstream shows to all users and Firstlight to root only: names it in `sensitive_keys` and, unless the data is
/// `whole`, removes the value.
pub fn hide_secrets(upstream: &mut Value, whole: bool) {
    let mut found = Vec::new();
    hide_below(upstream, "", whole, &mut found);
    if let Some(keys) = upstream.get_mut("sensitive_keys").and_then(Value::as_array_mut) {
        keys.extend(found.into_iter().map(Value::from));
        keys.sort_by_key(ToString::to_string);
        keys.dedup();
    }
}

fn hide_below(value: &mut Value, path: &str, whole: bool, found: &mut Vec<String>) {
    for (key, child) in value.as_object_mut().into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}/{key}") };
        if !["random_seed", "signature"].contains(&key.as_str()) {
            hide_below(child, &path, whole, found);
            continue;
        }
        found.push(path);
        if !whole {
            *child = "redacted for non-root user".into();
        }
    }
}
