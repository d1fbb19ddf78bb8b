//! Scalar values as they are written to files of several formats.

use config::{Node, Value};

use crate::address::is_ipv6;

/// Returns a value as Python's `str()` prints it, which is how upstream writes it: `True`, `['a', 'b']`.
pub fn python_str(node: &Node) -> String {
    let quoted = |n: &Node| match &n.value {
        Value::Str(text) => format!("'{text}'"),
        _ => python_str(n),
    };
    match &node.value {
        Value::Seq(items) => format!("[{}]", items.iter().map(quoted).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let entries = map.iter().map(|(k, v)| format!("{}: {}", quoted(k), quoted(v)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        _ => node.scalar_text().unwrap_or_default(),
    }
}

/// Returns the name of a bond's mode. Not every network service accepts the kernel's numbers, so they become names.
pub fn bond_mode(node: &Node) -> String {
    const MODES: [&str; 7] =
        ["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"];
    let text = python_str(node);
    let number = text.parse::<usize>().ok();
    number.and_then(|n| MODES.get(n)).map_or(text, |name| name.to_string())
}

/// Returns the number of a routing table; `None` for a name that only a machine's configuration knows.
pub fn table_number(table: &Node) -> Option<String> {
    let text = python_str(table);
    let named = [("main", 254), ("default", 253), ("local", 255)].into_iter().find(|(name, _)| *name == text);
    named.map(|(_, number)| number).or_else(|| text.parse::<u32>().ok()).map(|number| number.to_string())
}

/// Returns a policy rule of version 2 as ip-rule(8) and NetworkManager write it, and whether it is for IPv6. NetworkManager
/// needs a table's number, and a priority: without one that which the kernel gives to the first rule. `None` if a value is invalid.
pub fn policy_rule(rule: &Node, is_complete: bool) -> Option<(bool, String)> {
    let text = |key: &str| rule.get(key).filter(|value| !value.is_null()).map(python_str);
    let number = |text: String| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse::<u32>().ok(),
    };
    let (from, to) = (text("from"), text("to"));
    let (mut priority, mut table) = (text("priority"), text("table"));
    if is_complete {
        priority = priority.or_else(|| Some("32765".into()));
        table = Some(rule.get("table").map_or(Some("254".into()), table_number)?);
    }
    let inet6 = from.iter().chain(&to).any(|network| is_ipv6(network));
    // ip-rule(8) reads the last as hexadecimal in any case.
    let service =
        text("type-of-service").map(|tos| number(tos).map(|tos| format!("0x{tos:x}")).unwrap_or_default());
    let words = [
        ("priority", priority),
        ("from", from),
        ("to", to),
        ("fwmark", text("mark")),
        ("tos", service),
        ("table", table),
    ];
    let mut written = Vec::new();
    for (word, value) in words.into_iter().filter_map(|(word, value)| Some((word, value?))) {
        let is_valid =
            !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:/-".contains(&b));
        written.push(is_valid.then(|| format!("{word} {value}"))?);
    }
    Some((inet6, written.join(" ")))
}

/// Returns `yes` or `no`.
pub fn yes_no(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}
