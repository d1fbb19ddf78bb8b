//! Scalar values as they are written to files of several formats.

use config::{Node, Value};

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

/// Returns `yes` or `no`.
pub fn yes_no(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}
