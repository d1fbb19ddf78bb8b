//! Log lines of the network that users' scripts and cloud-init's own tests search for: a contract, word for word. Lines
//! that end in a blank, `=` or `:` are followed by values. Lists and maps are formatted as by Python, so that the
//! configuration can be recovered from the log; possible secrets are omitted.

use config::{Node, Value, looks_like_name};
use encoding::python::put_repr;

use crate::parse::{has_number, is_ethernet_mac, is_known_option};

/// INFO: source, `bringup=True|False: ` and the configuration follow.
pub const APPLYING: &str = "Applying network configuration from ";
/// INFO: the source follows.
pub const IS_DISABLED: &str = "network config is disabled by ";
/// DEBUG: the source follows.
pub const DISABLED: &str = "network config disabled by ";
/// DEBUG: at a boot that writes nothing.
pub const NOT_APPLIED: &str =
    "No network config applied. Neither a new instance nor datasource network update allowed";
/// DEBUG: the configuration follows.
pub const NAMES: &str = "applying net config names for ";
/// DEBUG: `{<EventScope.NETWORK: 'network'>: {…}}` follows.
pub const EVENTS: &str = "Allowed events: ";
/// DEBUG: the event follows.
pub const ALLOWED: &str = "Event Allowed: scope=network EventType=";
/// DEBUG: the event follows.
pub const DENIED: &str = "Event Denied: scopes=['network'] EventType=";
/// DEBUG: renderer, `from priority list: ` and the list or None follow.
pub const RENDERER: &str = "Selected renderer ";
/// DEBUG: activator, `from priority: ` and the list follow.
pub const ACTIVATOR: &str = "Using selected activator: ";
/// DEBUG.
pub const BRINGING_UP: &str = "Bringing up newly configured network interfaces";
/// DEBUG.
pub const NOT_BRINGING_UP: &str = "Not bringing up newly configured network interfaces";
/// WARNING.
pub const NO_ACTIVATOR: &str = "No network activator found, not bringing up network interfaces";
/// ERROR: the reason follows.
pub const BROKEN: &str = "Unable to render networking. Network config is likely broken: ";
/// WARNING.
pub const EMPTY: &str = "Empty network config found";
/// DEBUG.
pub const ALL_PRESENT: &str = "net: all expected physical devices present";
/// DEBUG: the MACs follow.
pub const WAITING: &str = "net: waiting for expected net devices: ";
/// ERROR: the MACs follow.
pub const MISSING: &str = "Not all expected physical devices present: ";
/// DEBUG.
pub const NO_NAMES: &str = "no interfaces to rename";
/// DEBUG: the wanted names follow.
pub const NO_RENAMES: &str = "no work necessary for renaming of ";
/// DEBUG: the wanted names, `with ops ` and the steps follow.
pub const RENAMED: &str = "Renamed ";
/// WARNING: the wanted names, `due to errors: ` and the errors follow.
pub const NOT_RENAMED: &str = "Unable to rename interfaces: ";

/// Returns one of the errors that follow [`NOT_RENAMED`].
pub fn nic_not_present(mac: &str, name: &str) -> String {
    format!("[nic not present] Cannot rename mac={mac} to {name}, not available.")
}

/// Keys of netplan whose values are secrets, at any depth, maps and numbers included, beside those whose names say so:
/// [`state::has_secret_name`].
const SECRET_KEYS: [&str; 6] = ["auth", "key", "keys", "private", "shared", "passthrough"];

/// Keys whose strings are words of the formats or names of devices. Any other text is shown only if it is an address: a
/// secret may be at a misspelled key, or in the wrong place.
const UNREDACTED_KEYS: [&str; 18] = [
    "bond-mode",
    "bond_interfaces",
    "bond-slaves",
    "bridge_ports",
    "bridge_interfaces",
    "control",
    "driver",
    "id",
    "interfaces",
    "link",
    "mode",
    "name",
    "renderer",
    "set-name",
    "table",
    "type",
    "vlan_link",
    "vlan_id",
];

/// Keys with a map of ports.
const PORT_KEYS: [&str; 2] = ["path-cost", "port-priority"];

/// The size above which a configuration is truncated.
const MAX_LEN: usize = 16 << 10;

/// Returns a configuration as Python prints it, without possible secrets, and truncated if it is large.
pub fn redacted(config: &Node) -> String {
    let mut text = String::new();
    write_value(&mut text, "", config, &|key, value| {
        UNREDACTED_KEYS.contains(&key) || is_address(value) || value == "default"
    });
    if text.len() > MAX_LEN {
        text.truncate(text.floor_char_boundary(MAX_LEN));
        text.push('…');
    }
    text
}

/// Returns whether a string is an address with or without a prefix length, or a MAC.
fn is_address(text: &str) -> bool {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    text.len() <= 64 && (address.parse::<std::net::IpAddr>().is_ok() || is_ethernet_mac(text))
}

/// Returns whether the values of a key are secrets.
fn is_secret_key(key: &str) -> bool {
    SECRET_KEYS.contains(&key) || !is_known_option(key) && state::has_secret_name(key)
}

/// Returns whether a number is shown: 0 and 1, which are flags, and those at keys that have numbers.
fn is_public_number(key: &str, number: &Node) -> bool {
    matches!(number.value, Value::Int(0 | 1)) || UNREDACTED_KEYS.contains(&key) || has_number(key)
}

/// Writes a value that belongs to the key `at`. `is_public` gets the key of a string, and the string.
fn write_value(text: &mut String, at: &str, node: &Node, is_public: &dyn Fn(&str, &str) -> bool) {
    // The rest would be truncated.
    if text.len() > MAX_LEN {
        return;
    }
    match &node.value {
        Value::Str(string) if is_public(at, string) => put_repr(string, text),
        Value::Null => text.push_str("None"),
        Value::Seq(items) => {
            text.push('[');
            for (i, item) in items.iter().enumerate() {
                text.push_str(if i > 0 { ", " } else { "" });
                write_value(text, at, item, is_public);
            }
            text.push(']');
        }
        Value::Map(map) => {
            text.push('{');
            for (i, (key, value)) in map.iter().enumerate() {
                text.push_str(if i > 0 { ", " } else { "" });
                // One without a value may be the rest of a secret with a comma.
                let is_name = |name: &str| {
                    let is_number = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
                    let has_value = !value.is_null() || UNREDACTED_KEYS.contains(&name);
                    looks_like_name(name) && has_value && !is_number
                };
                write_value(text, "", key, &|_, name| is_name(name) || is_address(name));
                text.push_str(": ");
                match key.as_str() {
                    Some(key) if is_secret_key(key) => text.push_str("REDACTED"),
                    // The names of ports, each with a number.
                    Some(_) if PORT_KEYS.contains(&at) => write_value(text, at, value, is_public),
                    key => write_value(text, key.unwrap_or_default(), value, is_public),
                }
            }
            text.push('}');
        }
        Value::Bool(_) => text.push_str(&node.scalar_text().unwrap_or_default()),
        // A password of digits without quotes is a number as well.
        Value::Int(_) | Value::Float(_) if is_public_number(at, node) => {
            text.push_str(&node.scalar_text().unwrap_or_default());
        }
        _ => text.push_str("REDACTED"),
    }
}

/// Returns names and MACs of links as Python prints them.
pub fn python_repr(node: &Node) -> String {
    let mut text = String::new();
    write_value(&mut text, "", node, &|_, _| true);
    text
}

/// Returns a list of strings as Python prints it.
pub fn python_list<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    python_repr(&Node::from(items.into_iter().map(Node::from).collect::<Vec<Node>>()))
}

/// Returns a set of strings as Python prints it.
pub fn python_set<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let list = python_list(items);
    if list == "[]" { "set()".into() } else { format!("{{{}}}", &list[1..list.len() - 1]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_known_keys_are_no_secrets() {
        use crate::parse::{known_inner_keys, known_keys};
        let inner = |section, keys: Vec<&'static str>| {
            let below = keys.iter().flat_map(|key| known_inner_keys(section, key)).collect();
            [keys, below].concat()
        };
        let known = known_keys().flat_map(|(section, keys, _)| inner(section, keys));
        let secret: Vec<&str> = known.filter(|key| is_secret_key(key)).collect();
        assert_eq!(secret, ["auth"]);
    }

    #[test]
    fn logged_configuration_is_python_without_secrets() {
        for (yaml, expected) in [
            (
                "{version: 2, name: [1, 'x', true, null, 1.5, \"it's\", \"a\\nb\\u0007\"]}",
                r#"{'version': 2, 'name': [1, 'x', True, None, 1.5, "it's", 'a\nb\x07']}"#,
            ),
            (
                "{addresses: [10.0.0.2/24, 'fe80::1', hunter2], macaddress: '02:00:00:00:00:0b', pasword: hunter2}",
                "{'addresses': ['10.0.0.2/24', 'fe80::1', REDACTED], 'macaddress': '02:00:00:00:00:0b', 'pasword': REDACTED}",
            ),
            (
                "{password: geheim, a: {auth: {password: geheim}}}",
                "{'password': REDACTED, 'a': {'auth': REDACTED}}",
            ),
            ("{password:hunter2: a, '10.0.0.0/8': 1}", "{REDACTED: REDACTED, '10.0.0.0/8': 1}"),
            ("{password: hun,ter2, set-name: }", "{'password': REDACTED, REDACTED: None, 'set-name': None}"),
            (
                "{routes: [{to: default, via: 10.0.0.1}]}",
                "{'routes': [{'to': 'default', 'via': '10.0.0.1'}]}",
            ),
            (
                "{wpa-psk: 87654011, pasword: 87654011, x: [87654011, 8.7, -87], wep-key0: 87654011, puk: 87654011}",
                "{'wpa-psk': REDACTED, 'pasword': REDACTED, 'x': [REDACTED, REDACTED, REDACTED], 'wep-key0': REDACTED, 'puk': REDACTED}",
            ),
            (
                "{passphrase: {id: 8765}, passwd: true, wireless-key: [id], client-key-password: 1, ipv6-address-token: '::2'}",
                "{'passphrase': REDACTED, 'passwd': REDACTED, 'wireless-key': REDACTED, 'client-key-password': REDACTED, 'ipv6-address-token': '::2'}",
            ),
            (
                "{access-points: {87654013: {}, '87654013': {}, 8.7: {}, net: {}}}",
                "{'access-points': {REDACTED: {}, REDACTED: {}, REDACTED: {}, 'net': {}}}",
            ),
            (
                "{version: 2, mtu: 1500, id: 15, vlan_id: 15, metric: 100, table: 1000, dhcp4: 1, stp: 0, port-range: [4000, 5000]}",
                "{'version': 2, 'mtu': 1500, 'id': 15, 'vlan_id': 15, 'metric': 100, 'table': 1000, 'dhcp4': 1, 'stp': 0, 'port-range': [4000, 5000]}",
            ),
            (
                "{bond-miimon: 100, bond_num_grat_arp: 5, mii-monitor-interval: 100, bridge_fd: 1.5, forward-delay: 15, path-cost: {eth0: 50}, route-metric: 200, ipv6-mtu: 1280, congestion-window: 10}",
                "{'bond-miimon': 100, 'bond_num_grat_arp': 5, 'mii-monitor-interval': 100, 'bridge_fd': 1.5, 'forward-delay': 15, 'path-cost': {'eth0': 50}, 'route-metric': 200, 'ipv6-mtu': 1280, 'congestion-window': 10}",
            ),
            (
                "{path-cost: {password: 8765}, x: !!binary aHVudGVyMg==, y: !!set {hunter2}}",
                "{'path-cost': {'password': REDACTED}, 'x': REDACTED, 'y': REDACTED}",
            ),
            ("", "None"),
        ] {
            assert_eq!(redacted(&config::yaml::parse("t", yaml).unwrap().root), expected);
        }
        assert_eq!((python_set([]).as_str(), python_set(["b", "a"]).as_str()), ("set()", "{'b', 'a'}"));
        let large = Node::from(vec![Node::from("ä".repeat(100)); 4000]);
        assert!(redacted(&large).len() < MAX_LEN + 8 && redacted(&large).ends_with('…'));
    }
}
