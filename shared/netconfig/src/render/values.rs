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

/// Returns the name that a bond's option, by its ifupdown name, has as its value. Not every network service accepts the kernel's
/// numbers, so they become names.
pub fn bond_name(option: &str, value: &Node) -> String {
    let names = match option {
        "mode" => "balance-rr active-backup balance-xor broadcast 802.3ad balance-tlb balance-alb",
        "xmit-hash-policy" => "layer2 layer3+4 layer2+3 encap2+3 encap3+4 vlan+srcmac",
        "lacp-rate" => "slow fast",
        "ad-select" => "stable bandwidth count",
        "fail-over-mac" => "none active follow",
        "arp-validate" => "none active backup all filter filter_active filter_backup",
        "arp-all-targets" => "any all",
        "primary-reselect" => "always better failure",
        _ => "",
    };
    let text = python_str(value);
    let name = text.parse().ok().and_then(|number| names.split(' ').nth(number));
    name.filter(|name| !name.is_empty()).map_or(text, Into::into)
}

/// Returns the value of a bond's option with the name in place of a number; anything else is returned as it is.
pub fn with_bond_name(option: &str, value: &Node) -> Node {
    let name = value.scalar_text().map(|text| (bond_name(option, value), text));
    name.filter(|(name, text)| name != text).map_or_else(|| value.clone(), |(name, _)| Node::from(name))
}

/// Returns the value of a bond's option as the kernel reads it: lists with commas, switches as numbers, times in milliseconds.
pub fn bond_value(option: &str, value: &Node) -> String {
    match &value.value {
        Value::Seq(items) => items.iter().map(python_str).collect::<Vec<_>>().join(","),
        Value::Bool(on) => u8::from(*on).to_string(),
        _ if BOND_TIMES.contains(&option) => time(value, 1.0),
        _ => python_str(value),
    }
}

/// What becomes of an option without an effect.
pub const CONFLICTS: &str = "conflicts with other bond options; ignored";

/// Returns whether an option of a bond, by the kernel's name, has an effect beside the others. NetworkManager rejects a bond with
/// an option that contradicts them, and wicked, which is strict, one with any option that has no effect.
pub fn has_effect(option: &str, all: &[(&str, String)], is_strict: bool) -> bool {
    let value = |name: &str| Some(&all.iter().find(|(known, _)| *known == name)?.1).filter(|v| *v != "0");
    let mode = value("mode").map_or("balance-rr".into(), |mode| bond_name("mode", &mode.as_str().into()));
    let (has_aggregate, has_backup) = (mode == "802.3ad", mode == "active-backup");
    // balance-tlb and balance-alb.
    let balances = mode.ends_with("lb");
    match option {
        "primary" | "active_slave" => has_backup || balances,
        "lacp_rate" => has_aggregate,
        "arp_interval" | "arp_ip_target" => {
            let is_complete = value("arp_interval").is_some() && value("arp_ip_target").is_some();
            is_complete && value("miimon").is_none() && !has_aggregate && !balances
        }
        _ if !is_strict => true,
        "miimon" => value("miimon").is_some(),
        "primary_reselect" => has_backup || balances,
        "ad_select" | "min_links" => has_aggregate,
        "xmit_hash_policy" => has_aggregate || mode == "balance-xor",
        "fail_over_mac" | "num_grat_arp" | "arp_validate" => has_backup,
        _ => true,
    }
}

/// The options of bonds that are times, in milliseconds without a unit.
const BOND_TIMES: [&str; 4] = ["miimon", "updelay", "downdelay", "arp_interval"];

/// Returns a time without its unit, `ms` or `s`: as a number of units of so many milliseconds.
pub fn time(value: &Node, unit: f64) -> String {
    let text = python_str(value);
    let number =
        |suffix: &str| encoding::float::parse(text.strip_suffix(suffix)?.trim()).filter(|n| n.is_finite());
    let milliseconds = number("ms").or_else(|| Some(number("s")? * 1000.0));
    milliseconds.map_or(text, |number| (number / unit).to_string())
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
