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
