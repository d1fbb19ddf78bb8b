//! Scalars as text: which of them are valid names, strings, booleans and MAC addresses.

use config::{Node, Value};

/// Returns whether a value is true, or a number or text that upstream treats as true.
pub fn is_true(node: &Node) -> bool {
    match &node.value {
        Value::Bool(b) => *b,
        Value::Int(number) => *number == 1,
        Value::Str(text) => {
            matches!(text.trim().to_ascii_lowercase().as_str(), "true" | "1" | "on" | "yes")
        }
        _ => false,
    }
}

/// Returns a scalar's text if it is valid for a field.
pub type TextOf = fn(&Node) -> Option<String>;

/// Returns a name: a string, or an integer without a sign, which needs no quotes. Other numbers and booleans are not names:
/// Python prints them differently from how they were written (`1e3`, `yes`).
pub fn name_text(node: &Node) -> Option<String> {
    let is_digits = node.as_int().is_some_and(|n| n >= 0);
    if is_digits { node.scalar_text() } else { string_text(node) }
}

/// Returns a string; numbers and booleans are not converted.
pub fn string_text(node: &Node) -> Option<String> {
    matches!(node.value, Value::Str(_) | Value::Bytes(_)).then(|| node.scalar_text()).flatten()
}

/// Returns the type of an invalid value, for messages.
pub fn described(node: &Node) -> &'static str {
    match &node.value {
        Value::Float(_) => "a decimal number",
        _ if node.as_int().is_some_and(|n| n < 0) => "a negative number",
        _ => node.kind(),
    }
}

/// Returns whether text is a MAC address of six, eight or twenty bytes (Ethernet, FireWire, InfiniBand).
pub fn is_mac(text: &str) -> bool {
    let is_byte = |b: &str| b.len() == 2 && b.bytes().all(|c| c.is_ascii_hexdigit());
    let mut bytes = text.split([':', '-']);
    matches!(text.len(), 17 | 23 | 59) && bytes.all(is_byte)
}

/// Returns whether all bytes of a MAC address are zero.
pub fn is_zero_mac(text: &str) -> bool {
    text.chars().all(|c| matches!(c, '0' | ':' | '-'))
}

/// Returns whether text is a MAC address of six bytes.
pub fn is_ethernet_mac(text: &str) -> bool {
    text.len() == 17 && is_mac(text)
}

/// Returns the text of a MAC address, valid or not. YAML 1.1 reads one of decimal digits without quotes as a number in base
/// 60, which is converted back.
pub fn mac_text(node: &Node) -> Option<String> {
    node.as_int().map_or_else(|| node.as_str().map(str::to_string), mac_from_sexagesimal)
}

fn mac_from_sexagesimal(number: i128) -> Option<String> {
    let mut parts = [0; 6];
    let mut rest = number;
    for part in parts.iter_mut().skip(1).rev() {
        *part = rest % 60;
        rest /= 60;
    }
    parts[0] = rest;
    // One that begins with a zero is read as text.
    (10..100).contains(&rest).then(|| parts.map(|p| format!("{p:02}")).join(":"))
}
