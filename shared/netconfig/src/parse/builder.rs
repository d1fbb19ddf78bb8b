//! Builds the model: links by id, and findings with the path of the current key.

use std::collections::HashMap;

use config::{Finding, FindingKind, Findings, Node, Position, Value, did_you_mean};

use crate::address;
use crate::model::{Dns, Link, LinkKind, Model};

use super::key_path::join_key;
use super::sanitize::is_shell_special;

/// A parsed configuration.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The model of the configuration.
    pub model: Model,
    /// Invalid or unknown parts, with their positions.
    pub findings: Findings,
    /// The findings about devices that depend on themselves, which are invalid for every network service.
    pub cycles: Findings,
    /// The first part that is ignored because it is invalid; `None` if the configuration is used as a whole.
    pub first_discarded: Option<Finding>,
}

#[derive(Default)]
pub struct Builder {
    pub model: Model,
    pub findings: Findings,
    /// Reports of devices that depend on themselves.
    pub cycles: Findings,
    /// The first part of the configuration that is ignored because it is invalid.
    first_discarded: Option<Finding>,
    /// The positions of the current device and of all devices.
    pub current: Position,
    pub(super) positions: HashMap<String, Position>,
    index: HashMap<String, usize>,
}

impl Builder {
    pub fn new(version: u8) -> Builder {
        Builder { model: Model { version, ..Model::default() }, ..Builder::default() }
    }

    /// Returns the model and the findings.
    pub fn finish(self) -> Parsed {
        Parsed {
            model: self.model,
            findings: self.findings,
            cycles: self.cycles,
            first_discarded: self.first_discarded,
        }
    }

    /// Reports an invalid part of the configuration, which is ignored.
    pub fn discard(&mut self, node: &Node, key: &str, message: impl std::fmt::Display) {
        self.discard_at(&node.at, key, format!("{message}; ignored"));
    }

    /// Reports an invalid part of the configuration, which is ignored; the message says so.
    pub fn discard_at(&mut self, at: &Position, key: &str, message: String) {
        let finding = Finding { kind: FindingKind::Invalid, at: at.clone(), key: key.to_string(), message };
        self.first_discarded.get_or_insert_with(|| finding.clone());
        self.findings.push(finding);
    }

    pub fn report(&mut self, node: &Node, key: &str, message: impl Into<String>) {
        self.findings.add(FindingKind::Invalid, &node.at, key, message);
    }

    pub fn link_mut(&mut self, id: &str) -> Option<&mut Link> {
        self.index.get(id).map(|i| &mut self.model.links[*i])
    }

    /// Removes a device, also from those that it is a member of.
    pub fn remove(&mut self, id: &str) {
        self.model.links.retain(|link| link.id != id);
        for link in &mut self.model.links {
            link.ports.retain(|port| port != id);
        }
        self.index = self.model.links.iter().map(|l| l.id.clone()).zip(0..).collect();
    }

    /// Adds a link. If its *name* is known already (a bond's member that was named before its description), the existing
    /// link's membership is kept, and its options that the new one lacks.
    pub fn insert(&mut self, mut link: Link) {
        if let Some(old) = self.index.get(&link.name).map(|i| &self.model.links[*i]) {
            link.bond = link.bond.or_else(|| old.bond.clone());
            link.vlan_id = link.vlan_id.or_else(|| old.vlan_id.clone());
            link.vlan_link = link.vlan_link.or_else(|| old.vlan_link.clone());
            if link.ports.is_empty() {
                link.ports = old.ports.clone();
            }
            link.dns = link.dns.or_else(|| old.dns.clone());
            let new = std::mem::replace(&mut link.params, old.params.clone());
            for (key, value) in new {
                link.params.insert(key, value);
            }
        }
        self.positions.insert(link.id.clone(), self.current.clone());
        match self.index.get(&link.id) {
            Some(i) => self.model.links[*i] = link,
            None => {
                self.index.insert(link.id.clone(), self.model.links.len());
                self.model.links.push(link);
            }
        }
    }

    /// Returns the link with this id; adds it if it is not described (yet).
    pub fn placeholder(&mut self, id: &str, kind: LinkKind) -> &mut Link {
        if !self.index.contains_key(id) {
            self.insert(Link { id: id.to_string(), name: id.to_string(), kind, ..Link::default() });
            self.positions.remove(id);
        }
        let i = self.index[id];
        &mut self.model.links[i]
    }

    /// Records the members of a bond; each gets the bond's options as well.
    pub fn join_bond(&mut self, bond: &Link, members: &[String]) {
        for member in members {
            let link = self.placeholder(member, LinkKind::Bond);
            link.bond = Some(bond.id.clone());
            for (key, value) in bond.params.iter() {
                link.params.insert(key.clone(), value.clone());
            }
        }
    }

    /// Records the ports of a bridge.
    pub fn join_bridge(&mut self, ports: &[String]) {
        for port in ports {
            self.placeholder(port, LinkKind::Unknown);
        }
    }

    /// Returns a name, `None` if it is empty; anything else is reported and ignored.
    pub fn name(&mut self, map: &Node, path: &str, key: &str) -> Option<String> {
        self.checked(map, path, key, name_text, "a name")
    }

    /// Returns a string, `None` if it is empty; anything else is reported and ignored.
    pub fn string(&mut self, map: &Node, path: &str, key: &str) -> Option<String> {
        self.checked(map, path, key, string_text, "a string")
    }

    fn checked(
        &mut self,
        map: &Node,
        path: &str,
        key: &str,
        text_of: TextOf,
        wanted: &str,
    ) -> Option<String> {
        let node = map.get(key).filter(|n| !n.is_null())?;
        let text = text_of(node);
        if text.is_none() {
            self.discard(node, &join_key(path, key), format!("expected {wanted}, found {}", described(node)));
        }
        text.filter(|t| !t.is_empty())
    }

    /// Returns a gateway: an address, or a keyword of a network service. It becomes part of commands.
    pub fn gateway(&mut self, map: &Node, path: &str, key: &str) -> Option<String> {
        let text = self.string(map, path, key)?;
        if !address::is_valid_gateway(&text) {
            let node = map.get(key).unwrap_or(map);
            self.discard(node, &join_key(path, key), "expected an IP address");
            return None;
        }
        Some(text)
    }

    /// Returns a driver or a device number, which a udev rule contains in quotes.
    pub fn udev_value(&mut self, map: &Node, path: &str, key: &str) -> Option<String> {
        let text = self.name(map, path, key)?;
        if text.contains(is_shell_special) {
            let node = map.get(key).unwrap_or(map);
            self.discard(node, &join_key(path, key), "expected a name without quotes");
            return None;
        }
        Some(text)
    }

    /// Returns the drivers that version 2 matches: one, or a list.
    pub fn drivers(&mut self, map: &Node, path: &str) -> Vec<String> {
        const KEY: &str = "driver";
        let Some(Value::Seq(items)) = map.get(KEY).map(|node| &node.value) else {
            return self.udev_value(map, path, KEY).into_iter().collect();
        };
        let mut drivers = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let name = item.as_str().filter(|name| !name.is_empty() && !name.contains(is_part_of_no_driver));
            match name {
                Some(name) => drivers.push(name.to_string()),
                None => {
                    self.discard(item, &format!("{}[{i}]", join_key(path, KEY)), "expected a driver's name")
                }
            }
        }
        drivers
    }

    /// Returns a MAC in lower case. YAML 1.1 reads a MAC of decimal digits without quotes as a number in base 60, which
    /// is converted back.
    pub fn mac(&mut self, map: &Node, path: &str, key: &str) -> Option<String> {
        let node = map.get(key).filter(|n| !n.is_falsy())?;
        match &node.value {
            Value::Str(text) => {
                if !is_mac(text) {
                    self.discard(
                        node,
                        &join_key(path, key),
                        "expected a MAC address of two-digit hexadecimal bytes",
                    );
                    return None;
                }
                Some(text.to_ascii_lowercase())
            }
            Value::Int(number) => {
                let text = mac_from_sexagesimal(*number);
                let note = match text {
                    Some(_) => "unquoted MAC address parsed as a YAML 1.1 integer; quote it",
                    None => "expected a quoted MAC address, found an integer",
                };
                self.report(node, &join_key(path, key), note);
                text
            }
            _ => {
                self.report(
                    node,
                    &join_key(path, key),
                    format!("expected a MAC address, found {}", node.kind()),
                );
                None
            }
        }
    }

    /// Returns a list of names; a single text is split at whitespace.
    pub fn name_list(&mut self, map: &Node, path: &str, key: &str) -> Vec<String> {
        self.checked_list(map, path, key, name_text)
    }

    /// Returns a list of addresses; a single text is split at whitespace.
    pub fn address_list(&mut self, map: &Node, path: &str, key: &str) -> Vec<String> {
        self.checked_list(map, path, key, string_text)
    }

    fn checked_list(&mut self, map: &Node, path: &str, key: &str, text_of: TextOf) -> Vec<String> {
        let Some(node) = map.get(key).filter(|n| !n.is_falsy()) else { return Vec::new() };
        match &node.value {
            Value::Str(text) => text.split_whitespace().map(Into::into).collect(),
            Value::Seq(items) => {
                let mut words = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    match text_of(item) {
                        Some(word) => words.push(word),
                        None => {
                            let message = format!("expected a string, found {}; ignored", described(item));
                            self.report(item, &format!("{}[{i}]", join_key(path, key)), message);
                        }
                    }
                }
                words
            }
            _ => {
                self.report(
                    node,
                    &join_key(path, key),
                    format!("expected a list of strings, found {}", node.kind()),
                );
                Vec::new()
            }
        }
    }

    /// Returns the items of a list; anything else is reported and ignored.
    pub fn list<'a>(&mut self, map: &'a Node, path: &str, key: &str) -> &'a [Node] {
        let Some(node) = map.get(key).filter(|n| !n.is_falsy()) else { return &[] };
        if node.as_seq().is_none() {
            self.discard(node, &join_key(path, key), format!("expected a list, found {}", node.kind()));
        }
        node.as_seq().unwrap_or_default()
    }

    /// Returns a map; anything else is reported and ignored.
    pub fn map<'a>(&mut self, map: &'a Node, path: &str, key: &str) -> Option<&'a Node> {
        let node = map.get(key).filter(|n| !n.is_null())?;
        if node.as_map().is_none() {
            self.discard(node, &join_key(path, key), format!("expected a map, found {}", node.kind()));
            return None;
        }
        Some(node)
    }

    /// Returns a number of 32 bits as written; anything else is reported and ignored.
    pub fn number(&mut self, map: &Node, path: &str, key: &str) -> Option<Node> {
        let node = map.get(key).filter(|n| !n.is_null() && n.as_str() != Some(""))?;
        let problem = match address::parse_number(node) {
            Some(_) => return Some(node.clone()),
            None if !matches!(node.value, Value::Bool(_)) && address::parse_integer(node).is_some() => {
                format!("expected {}", address::NUMBER)
            }
            None => format!("expected a number, found {}", node.kind()),
        };
        self.report(node, &join_key(path, key), format!("{problem}; ignored"));
        None
    }

    /// Returns whether a VLAN has an ID; a missing one and a number out of range are reported.
    pub fn has_vlan_id(&mut self, map: &Node, path: &str, key: &str) -> bool {
        let node = map.get(key).filter(|n| !n.is_null());
        let problem = match node.map(|node| &node.value) {
            None => "required, but missing",
            Some(Value::Int(0..=4094) | Value::Str(_)) => return true,
            Some(_) => "expected a VLAN ID from 0 to 4094",
        };
        self.discard(node.unwrap_or(map), &join_key(path, key), problem);
        false
    }

    /// Returns whether a key is true; a number other than 0 to 2 is reported and ignored.
    pub fn flag(&mut self, map: &Node, path: &str, key: &str) -> Option<bool> {
        let node = map.get(key).filter(|n| !n.is_null())?;
        if matches!(node.value, Value::Float(_)) || node.as_int().is_some_and(|n| !(0..=2).contains(&n)) {
            let message = format!("expected true or false, found {}; ignored", described(node));
            self.report(node, &join_key(path, key), message);
            return None;
        }
        Some(is_true(node))
    }

    pub fn dns(&mut self, map: &Node, path: &str, servers: &str, search: &str) -> Dns {
        Dns { servers: self.address_list(map, path, servers), search: self.name_list(map, path, search) }
    }

    /// Reports the keys that no renderer reads.
    pub fn unknown_keys(&mut self, map: &Node, path: &str, known: &[&str]) {
        let Some(entries) = map.as_map() else { return };
        for (key, _) in entries.iter() {
            let name = key.scalar_text().unwrap_or_default();
            if !known.contains(&name.as_str()) {
                let hint =
                    did_you_mean(&name, known.iter().copied()).map(|k| format!("; did you mean '{k}'?"));
                let message = format!("unknown key{}", hint.unwrap_or_default());
                self.findings.add(FindingKind::Unknown, &key.at, join_key(path, &name), message);
            }
        }
    }
}

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
type TextOf = fn(&Node) -> Option<String>;

/// Returns a name: a string, or digits, which need no quotes. Python's text of other numbers and of booleans is not what was
/// written.
pub fn name_text(node: &Node) -> Option<String> {
    let is_digits = node.as_int().is_some_and(|n| n >= 0);
    if is_digits { node.scalar_text() } else { string_text(node) }
}

/// Returns a string. Neither an address nor a keyword is a number.
pub fn string_text(node: &Node) -> Option<String> {
    matches!(node.value, Value::Str(_) | Value::Bytes(_)).then(|| node.scalar_text()).flatten()
}

/// Returns the type of a value that is not valid, for messages.
pub(super) fn described(node: &Node) -> &'static str {
    if node.as_int().is_some_and(|n| n < 0) { "a negative number" } else { node.kind() }
}

/// Returns whether a MAC has six, eight or twenty bytes (FireWire, InfiniBand).
fn is_mac(text: &str) -> bool {
    let bytes: Vec<&str> = text.split([':', '-']).collect();
    let is_byte = |b: &&str| b.len() == 2 && b.bytes().all(|c| c.is_ascii_hexdigit());
    matches!(bytes.len(), 6 | 8 | 20) && bytes.iter().all(is_byte)
}

fn mac_from_sexagesimal(number: i128) -> Option<String> {
    let mut parts = [0; 6];
    let mut rest = number;
    for part in parts.iter_mut().skip(1).rev() {
        *part = rest % 60;
        rest /= 60;
    }
    parts[0] = rest;
    (number >= 0 && rest < 100).then(|| parts.map(|p| format!("{p:02}")).join(":"))
}

/// Returns whether a character would separate names in a list of drivers, or has a meaning to a shell or udev.
fn is_part_of_no_driver(c: char) -> bool {
    c.is_whitespace() || is_shell_special(c)
}

#[cfg(test)]
mod tests {
    #[test]
    fn mac_that_yaml_read_as_an_integer_is_restored() {
        // 52:54:00:12:34:56 in base 60.
        let number = ((((52 * 60 + 54) * 60) * 60 + 12) * 60 + 34) * 60 + 56;
        assert_eq!(super::mac_from_sexagesimal(number).as_deref(), Some("52:54:00:12:34:56"));
        assert_eq!(super::mac_from_sexagesimal(i128::MAX), None);
        assert_eq!(super::mac_from_sexagesimal(-1), None);
    }
}
