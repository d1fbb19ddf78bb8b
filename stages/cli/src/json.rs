//! Reading JSON whose members may be missing or of another type.

use serde_json::Value;

/// Returns a string, empty if there is none.
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns the items of a list.
pub fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// Returns the strings in a list.
pub fn texts<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    items(value, key).filter_map(Value::as_str)
}
