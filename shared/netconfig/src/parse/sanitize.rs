//! Removes values that are not safe in any renderer's files: a character that ends a line, starts an escape or is
//! special in a shell could turn an address into a command or a section. Such a value, and one that is too long for a line,
//! is removed before the configuration is used, and reported with its position, never with its content.

use std::borrow::Cow;
use std::collections::HashSet;

use config::{Findings, Map, Node, Value, join_key};

use super::characters::{is_line_end, is_unsafe_in_files};
use super::keys;
use super::section::version;

/// The limit of a value in bytes: that of a field of metadata.
const MAX_LENGTH: usize = 16 << 10;

/// A configuration without the values that cannot be used.
pub struct Sanitized<'a> {
    /// The configuration; borrowed if nothing was removed.
    pub config: Cow<'a, Node>,
    /// A finding for each value that is removed.
    pub findings: Findings,
}

/// The readers of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consumer {
    /// The renderers of this crate, whose files do not support quotes.
    Renderers,
    /// netplan, whose file does; before 1.0.1 it copied values unchanged into files of networkd and NetworkManager.
    Netplan,
}

impl Consumer {
    fn is_unsafe(self, text: &str) -> bool {
        text.len() > MAX_LENGTH || self.has_unsafe(text)
    }

    fn has_unsafe(self, text: &str) -> bool {
        // Most texts have such characters only.
        if text.bytes().all(|byte| matches!(byte, b' '..=b'[' | b']'..=b'~')) {
            return false;
        }
        match self {
            Consumer::Renderers => text.contains(is_unsafe_in_files),
            Consumer::Netplan => text.contains(|c: char| (c.is_control() && c != '\t') || is_line_end(c)),
        }
    }
}

/// Keys whose value is a list of words: written as one text it is split at whitespace, line ends included.
const LIST_KEYS: [&str; 5] =
    ["dns_nameservers", "dns_search", "bond_interfaces", "bridge_interfaces", "interfaces"];

/// The keys without which an item of these lists would be a route or rule for other packets, or to another router.
const ESSENTIAL_KEYS: [(&[&str], &[&str]); 2] = [
    (
        &["routes", "config"],
        &["to", "via", "network", "destination", "gateway", "netmask", "prefix", "table", "from", "type"],
    ),
    (&["routing-policy"], &["from", "to", "mark", "type-of-service", "table"]),
];

/// The level of a map in a configuration, as far as it determines the readers of its keys.
#[derive(Debug, Clone, Copy)]
pub enum Level<'a> {
    /// Version 2 itself: its keys are sections.
    Sections,
    /// A section of version 2, by its name: its keys are devices.
    Devices(&'a str),
    /// A device of this section.
    Device(&'a str),
    /// Below that, and all of version 1.
    Inner,
    /// Below a key that only netplan reads.
    NetplanOnly,
}

impl Sanitized<'_> {
    /// Adds findings, except for those that follow from a removed value: findings on its field, or on a map or list of its device
    /// around it.
    pub fn add_findings(&mut self, more: Findings) {
        let around = |key: &str| -> Vec<String> {
            // Not `network`, the section and the device.
            let ends = key.match_indices(['.', '[']).skip(3).map(|(end, _)| end).chain([key.len()]);
            ends.map(|end| key[..end].to_string()).collect()
        };
        let removed: HashSet<String> =
            self.findings.iter().flat_map(|finding| around(&finding.key)).collect();
        more.iter()
            .filter(|finding| !removed.contains(&finding.key))
            .for_each(|finding| self.findings.push(finding.clone()));
    }
}

impl<'a> Level<'a> {
    /// Returns the level of the values of a key.
    pub fn nested(self, name: &'a str) -> Level<'a> {
        match self {
            Level::Sections => Level::Devices(name),
            Level::Devices(section) => Level::Device(section),
            Level::Device(_) | Level::Inner => Level::Inner,
            Level::NetplanOnly => self,
        }
    }

    /// Returns whether only netplan reads this key: passwords and names of wireless networks, for example. No renderer
    /// of this crate writes it, so it may contain any character.
    pub fn is_netplan_only(self, name: &str) -> bool {
        match self {
            Level::Sections => keys::is_netplan_only_section(name),
            Level::Device(section) => keys::is_netplan_only(section, name),
            Level::Devices(_) | Level::Inner => false,
            Level::NetplanOnly => true,
        }
    }
}

impl<'a> Sanitized<'a> {
    /// Returns a configuration of which nothing has to be removed.
    pub fn unchanged(config: &'a Node) -> Sanitized<'a> {
        Sanitized { config: Cow::Borrowed(config), findings: Findings::default() }
    }
}

/// Removes everything with a character that is not safe for this reader: a key with its value, or an item of a list. `path`
/// is the path of the value in findings: `network` for a configuration, empty for a document that has its own top level.
pub fn sanitize<'a>(config: &'a Node, path: &str, consumer: Consumer) -> Sanitized<'a> {
    let mut sanitizer = Sanitizer { consumer, findings: Findings::default() };
    let config = match sanitizer.has_unsafe(config) {
        true => {
            let is_v2 = config.as_map().and_then(version) == Some(2);
            let level = if is_v2 { Level::Sections } else { Level::Inner };
            Cow::Owned(sanitizer.node(config, path, "", level))
        }
        false => Cow::Borrowed(config),
    };
    Sanitized { config, findings: sanitizer.findings }
}

/// Returns whether an item of the list `list` is removed with its value `name`.
fn is_essential(list: &str, name: &str) -> bool {
    ESSENTIAL_KEYS.iter().any(|(lists, keys)| lists.contains(&list) && keys.contains(&name))
}

struct Sanitizer {
    consumer: Consumer,
    findings: Findings,
}

impl Sanitizer {
    fn is_unsafe(&self, node: &Node) -> bool {
        node.as_str().is_some_and(|text| self.consumer.is_unsafe(text))
    }

    fn has_unsafe(&self, node: &Node) -> bool {
        match &node.value {
            Value::Seq(items) => items.iter().any(|item| self.has_unsafe(item)),
            Value::Map(map) => map.iter().any(|(key, value)| self.is_unsafe(key) || self.has_unsafe(value)),
            _ => self.is_unsafe(node),
        }
    }

    fn discard(&mut self, node: &Node, path: &str, outcome: &str) {
        let problem = match node.as_str() {
            Some(text) if text.len() > MAX_LENGTH => "too long",
            _ => "control characters and backslashes are not allowed in a network configuration",
        };
        self.findings.invalid(&node.at, path, format!("{problem}; {outcome}"));
    }

    fn node(&mut self, node: &Node, path: &str, parent: &str, level: Level<'_>) -> Node {
        let value = match &node.value {
            Value::Seq(items) => {
                let mut kept = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    let path = format!("{path}[{i}]");
                    if self.is_unsafe(item) {
                        self.discard(item, &path, "ignored");
                        continue;
                    }
                    let sanitized = self.node(item, &path, parent, Level::Inner);
                    if !self.loses_essential(item, parent) {
                        kept.push(sanitized);
                    }
                }
                Value::Seq(kept)
            }
            Value::Map(map) => {
                let mut kept = Map::new();
                for (key, value) in map.iter() {
                    if self.is_unsafe(key) {
                        self.discard(key, path, "ignored");
                        continue;
                    }
                    let name = key.scalar_text().unwrap_or_default();
                    let path = join_key(path, &name);
                    if self.consumer == Consumer::Renderers && level.is_netplan_only(&name) {
                        kept.insert(key.clone(), value.clone());
                    } else if self.is_unsafe(value) && !self.is_word_list(value, &name, parent) {
                        let whole = is_essential(parent, &name);
                        self.discard(value, &path, if whole { "ignoring the entry" } else { "ignored" });
                    } else {
                        kept.insert(key.clone(), self.node(value, &path, &name, level.nested(&name)));
                    }
                }
                Value::Map(kept)
            }
            other => other.clone(),
        };
        Node { value, at: node.at.clone() }
    }

    /// Returns whether an item of the list `list` loses a value without which it would be a different route or rule.
    fn loses_essential(&self, item: &Node, list: &str) -> bool {
        item.as_map()
            .into_iter()
            .flat_map(Map::iter)
            .any(|(key, value)| self.is_unsafe(value) && is_essential(list, key.as_str().unwrap_or_default()))
    }

    fn is_word_list(&self, value: &Node, name: &str, parent: &str) -> bool {
        let is_name =
            LIST_KEYS.contains(&name) || (parent == "nameservers" && ["addresses", "search"].contains(&name));
        let words = || value.as_str().unwrap_or_default().split_ascii_whitespace();
        self.consumer == Consumer::Renderers && is_name && !words().any(|word| self.consumer.is_unsafe(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without its gateway a default route would be on the link.
    #[test]
    fn routes_and_rules_are_removed_with_their_essential_values() {
        let mut cases = 0;
        for (config, keys) in [
            (
                "{version: 1, config: [{type: route, destination: D, netmask: N, gateway: G, metric: M}]}",
                "DNG",
            ),
            (
                "{version: 1, config: [{type: physical, name: a, subnets: [{type: dhcp, routes: \
                 [{network: D, netmask: N, prefix: P, gateway: G, metric: M}]}]}]}",
                "DNPG",
            ),
            (
                "{version: 2, ethernets: {a: {routes: [{to: D, via: V, table: T, from: F, metric: M}]}}}",
                "DVTF",
            ),
            (
                "{version: 2, ethernets: {a: {routing-policy: [{from: F, to: D, table: T, priority: M}]}}}",
                "FDT",
            ),
        ] {
            for key in keys.chars().chain(['M']) {
                let text = config.replace(&format!(": {key}"), r#": "x\u001b""#);
                let root = config::yaml::parse("t", &text).unwrap().root;
                for consumer in [Consumer::Renderers, Consumer::Netplan] {
                    let sanitized = sanitize(&root, "network", consumer);
                    let findings: Vec<String> = sanitized.findings.iter().map(ToString::to_string).collect();
                    let left = sanitized.config.to_json().to_string();
                    // The metric and the priority do not affect the other keys.
                    let has_others = keys.chars().all(|other| left.contains(&format!(":\"{other}\"")));
                    let has_any = keys.chars().any(|other| left.contains(&format!(":\"{other}\"")));
                    let is_expected = if key == 'M' { has_others } else { !has_any };
                    assert!(findings.len() == 1 && is_expected, "{text}: {left}: {findings:?}");
                    cases += 1;
                }
            }
        }
        assert_eq!(cases, 2 * 18);
    }

    #[test]
    fn only_the_unsafe_value_is_removed() {
        let text = "{version: 2, ethernets: {eth0: {gateway4: \"1.1.1.1\\nup x\", addresses: [a, \"b\\0\", c],\n\
                    nameservers: {addresses: \"1.1.1.1\\n2.2.2.2\", search: [\"a\\u2028b\"]}}, \"e\\rx\": {dhcp4: true}}}";
        let root = config::yaml::parse("t", text).unwrap().root;
        let sanitized = sanitize(&root, "network", Consumer::Renderers);
        let messages: Vec<String> =
            sanitized.findings.iter().map(|f| format!("{}: {}", f.at, f.key)).collect();
        assert_eq!(
            messages,
            [
                "t:1:43: network.ethernets.eth0.gateway4",
                "t:1:75: network.ethernets.eth0.addresses[1]",
                "t:2:55: network.ethernets.eth0.nameservers.search[0]",
                "t:2:70: network.ethernets",
            ]
        );
        let left = sanitized.config.to_json().to_string();
        let expected = r#"{"ethernets":{"eth0":{"addresses":["a","c"],"nameservers":{"addresses":"1.1.1.1\n2.2.2.2","search":[]}}},"version":2}"#;
        assert_eq!(left, expected);
        let long =
            config::yaml::parse("t", &format!("{{a: x, b: [{}]}}", "y".repeat(MAX_LENGTH + 1))).unwrap().root;
        let sanitized = sanitize(&long, "network", Consumer::Netplan);
        assert_eq!(sanitized.config.to_json().to_string(), r#"{"a":"x","b":[]}"#);
        assert!(
            sanitized.findings.iter().all(|f| f.to_string().ends_with("network.b[0]: too long; ignored"))
        );
        let fine = config::yaml::parse("t", "{version: 1, config: [{name: 'a b'}]}").unwrap().root;
        assert!(matches!(sanitize(&fine, "network", Consumer::Renderers).config, Cow::Borrowed(_)));
    }

    /// The readers that do not get the value V: with a backslash in it or at its end, and with a line break.
    #[test]
    fn netplan_only_keys_may_hold_a_backslash() {
        let (both, none): (&[Consumer], &[Consumer]) = (&[Consumer::Renderers, Consumer::Netplan], &[]);
        let (ours, netplans) = (&both[..1], &both[1..]);
        for (config, of_backslash, of_line_end) in [
            // The name of a network is a key.
            ("wifis: {w0: {access-points: {V: {password: secret}}}}", none, netplans),
            ("wifis: {w0: {access-points: {home: {password: V}}}}", none, netplans),
            ("wifis: {w0: {access-points: {home: {auth: {identity: V, password: V}}}}}", none, netplans),
            ("ethernets: {eth0: {auth: {password: V}}}", none, netplans),
            ("ethernets: {eth0: {networkmanager: {passthrough: {x: V}}}}", none, netplans),
            ("modems: {m0: {apn: net, password: V}}", none, netplans),
            ("tunnels: {t0: {mode: wireguard, key: V}}", none, netplans),
            ("nm-devices: {n0: {networkmanager: {passthrough: {connection.id: V}}}}", none, netplans),
            ("openvswitch: {external-ids: {x: V}}", none, netplans),
            // It would be in a file of networkd, NetworkManager or ifupdown.
            ("ethernets: {eth0: {match: {name: V}}}", ours, both),
            ("ethernets: {V: {dhcp4: true}}", ours, both),
            ("ethernets: {eth0: {dhcp4-overrides: {hostname: V}}}", ours, both),
            ("ethernets: {auth: {gateway4: V}}", ours, both),
            ("bonds: {b0: {parameters: {mode: V}}}", ours, both),
        ] {
            for (value, unfit) in
                [(r"'a\b'", of_backslash), (r"'a\'", of_backslash), ("\"a\\nb\"", of_line_end)]
            {
                let text = format!("{{version: 2, {}}}", config.replace('V', value));
                let root = config::yaml::parse("t", &text).unwrap().root;
                for consumer in both {
                    let sanitized = sanitize(&root, "network", *consumer);
                    assert_eq!(
                        !sanitized.findings.is_empty(),
                        unfit.contains(consumer),
                        "{consumer:?}: {text}"
                    );
                    assert_eq!(
                        *sanitized.config == root,
                        sanitized.findings.is_empty(),
                        "{consumer:?}: {text}"
                    );
                }
            }
        }
        // Version 1 has no keys that only netplan reads.
        let root = config::yaml::parse("t", r"{version: 1, config: [{name: 'a\b'}], wifis: {a: 'a\b'}}")
            .unwrap()
            .root;
        assert_eq!(sanitize(&root, "network", Consumer::Renderers).findings.iter().count(), 2);
    }
}
