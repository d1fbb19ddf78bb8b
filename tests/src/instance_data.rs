//! Instance data beside upstream's: what in them is a cloud's or a seed's, and what each program says of itself.

use serde_json::{Map, Value};

/// Of the machine, its distribution and the program.
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

/// A file's text; nothing of what is no map.
pub fn instance_data(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Takes out what is each program's own, wherever it stands, and these names too.
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
