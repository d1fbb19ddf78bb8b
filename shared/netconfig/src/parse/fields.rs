//! Reads typed fields: each invalid value is reported with its position and the path of its key, and ignored.

use config::{Map, Node, Value, join_key};

use crate::address;
use crate::model::Dns;

use super::builder::Builder;
use super::characters::{is_shell_special, words};
use super::options::{OVERRIDES, SETTINGS};
use super::scalar::{TextOf, described, is_mac, is_true, is_zero_mac, mac_text, name_text, string_text};
use super::value_type::{ValueType, is_on};

impl Builder {
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
            let problem = format!("expected {wanted}, found {}", described(node));
            self.discard_value(node, &join_key(path, key), problem);
        }
        text.filter(|t| !t.is_empty())
    }

    /// Returns a gateway: an address, or a keyword of a network service. It becomes part of commands.
    pub fn gateway(&mut self, map: &Node, path: &str, key: &str) -> Option<String> {
        let text = self.string(map, path, key)?;
        let text = self.restricted(map, path, key, text, address::is_gateway, "an IP address")?;
        if address::is_unspecified(&text) {
            self.ignore(map.get(key).unwrap_or(map), &join_key(path, key), "the address of no gateway");
            return None;
        }
        Some(text)
    }

    /// Returns the address of the other end of a point-to-point link.
    pub fn peer(&mut self, map: &Node, path: &str, key: &str) -> Option<String> {
        let text = self.string(map, path, key)?;
        let is_address = |text: &str| text.parse::<std::net::IpAddr>().is_ok();
        self.restricted(map, path, key, text, is_address, "an IP address")
    }

    /// Returns a driver or a device number, which a udev rule contains in quotes.
    pub fn udev_value(&mut self, map: &Node, path: &str, key: &str) -> Option<String> {
        let text = self.name(map, path, key)?;
        self.restricted(
            map,
            path,
            key,
            text,
            |text| !text.contains(is_shell_special),
            "a name without quotes",
        )
    }

    fn restricted(
        &mut self,
        map: &Node,
        path: &str,
        key: &str,
        text: String,
        is_valid: fn(&str) -> bool,
        wanted: &str,
    ) -> Option<String> {
        if !is_valid(&text) {
            let node = map.get(key).unwrap_or(map);
            self.discard_value(node, &join_key(path, key), format!("expected {wanted}"));
        }
        Some(text).filter(|text| is_valid(text))
    }

    /// Returns the patterns of drivers or names that version 2 matches: one, or a list.
    pub fn patterns(&mut self, map: &Node, path: &str, key: &str) -> Vec<String> {
        let Some(Value::Seq(items)) = map.get(key).map(|node| &node.value) else {
            return self.udev_value(map, path, key).into_iter().collect();
        };
        let mut patterns = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let name = item.as_str().filter(|name| !name.is_empty() && !name.contains(is_part_of_no_pattern));
            match name {
                Some(name) => patterns.push(name.to_string()),
                None => self.discard(
                    item,
                    &format!("{}[{i}]", join_key(path, key)),
                    "expected a name or a pattern of names",
                ),
            }
        }
        patterns
    }

    /// Returns a MAC in lower case with colons, because ip(8), udev and wicked know no hyphens.
    pub fn mac(&mut self, map: &Node, path: &str, key: &str) -> Option<String> {
        let node = map.get(key).filter(|n| !n.is_falsy())?;
        let path = join_key(path, key);
        let restored = node.as_int().and_then(|_| mac_text(node));
        match &node.value {
            // Some services send it for a NIC without an address of its own; no NIC has it.
            Value::Str(text) if is_mac(text) && is_zero_mac(text) => {
                self.ignore(node, &path, "the MAC address of no NIC");
            }
            Value::Str(text) if is_mac(text) => return Some(text.to_ascii_lowercase().replace('-', ":")),
            Value::Str(_) => {
                self.discard_value(node, &path, "expected a MAC address of two-digit hexadecimal bytes");
            }
            Value::Int(_) if restored.is_some() => {
                let problem = "unquoted MAC address parsed as a YAML 1.1 integer; quote it";
                self.report_invalid(&node.at, &path, problem.into());
            }
            Value::Int(_) => {
                self.discard_value(node, &path, "expected a quoted MAC address, found an integer");
            }
            _ => self.discard_value(node, &path, format!("expected a MAC address, found {}", node.kind())),
        }
        restored
    }

    /// Returns a list of names; a single text is split at whitespace and commas.
    pub fn name_list(&mut self, map: &Node, path: &str, key: &str) -> Vec<String> {
        self.checked_list(map, path, key, name_text)
    }

    /// Returns a list of addresses; a single text is split at whitespace and commas.
    pub fn address_list(&mut self, map: &Node, path: &str, key: &str) -> Vec<String> {
        let servers = self.checked_list(map, path, key, string_text);
        let Some(node) = map.get(key) else { return servers };
        let path = join_key(path, key);
        let is_valid = |server: &String| address::is_name_server(server);
        for (i, item) in node.items().iter().enumerate() {
            if string_text(item).is_some_and(|server| !is_valid(&server)) {
                self.ignore(item, &format!("{path}[{i}]"), "expected an IP address");
            }
        }
        if node.as_str().is_some() && !servers.iter().all(is_valid) {
            self.report_invalid(&node.at, &path, "expected IP addresses; using the others".into());
        }
        servers.into_iter().filter(is_valid).collect()
    }

    fn checked_list(&mut self, map: &Node, path: &str, key: &str, text_of: TextOf) -> Vec<String> {
        let Some(node) = map.get(key).filter(|n| !n.is_falsy()) else { return Vec::new() };
        match &node.value {
            Value::Str(text) => words(text).map(Into::into).collect(),
            Value::Seq(items) => {
                let mut words = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    match text_of(item) {
                        Some(word) => words.push(word),
                        None => {
                            let problem = format!("expected a string, found {}", described(item));
                            self.ignore(item, &format!("{}[{i}]", join_key(path, key)), &problem);
                        }
                    }
                }
                words
            }
            _ => {
                let problem = format!("expected a list of strings, found {}", node.kind());
                self.report(node, &join_key(path, key), problem);
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
            self.discard_value(node, &join_key(path, key), format!("expected a map, found {}", node.kind()));
            return None;
        }
        Some(node)
    }

    /// Returns a number of 32 bits as written; anything else is reported and ignored.
    pub fn number(&mut self, map: &Node, path: &str, key: &str) -> Option<Node> {
        self.typed(map, path, key, ValueType::Number)
    }

    /// Returns an MTU as written; anything else is reported and ignored.
    pub fn mtu(&mut self, map: &Node, path: &str, key: &str) -> Option<Node> {
        let mtu = self.number(map, path, key)?;
        let is_valid = address::parse_number(&mtu).is_some_and(|mtu| mtu == 0 || (68..=65536).contains(&mtu));
        if !is_valid {
            self.ignore(&mtu, &join_key(path, key), "expected an MTU from 68 to 65536");
        }
        is_valid.then_some(mtu)
    }

    /// Returns whether a VLAN has an ID; a missing one and a number out of range are reported.
    pub fn has_vlan_id(&mut self, map: &Node, path: &str, key: &str) -> bool {
        let node = map.get(key).filter(|n| !n.is_null());
        let problem = match node {
            None => "required, but missing",
            Some(node)
                if node.as_bool().is_none() && matches!(address::parse_integer(node), Some(0..=4094)) =>
            {
                return true;
            }
            Some(_) => "expected a VLAN ID from 0 to 4094",
        };
        self.discard(node.unwrap_or(map), &join_key(path, key), problem);
        false
    }

    /// Returns whether a key is true; anything but a boolean, 0, 1 and the kernel's 2 is reported and ignored.
    pub fn flag(&mut self, map: &Node, path: &str, key: &str) -> Option<bool> {
        let node = map.get(key).filter(|n| !n.is_null())?;
        let is_flag =
            node.as_int() == Some(2) || self.has_optional_type(node, &join_key(path, key), ValueType::Flag);
        is_flag.then(|| is_true(node))
    }

    pub fn dns(&mut self, map: &Node, path: &str, servers: &str, search: &str) -> Dns {
        Dns { servers: self.address_list(map, path, servers), search: self.name_list(map, path, search) }
    }

    /// Returns the parts of an option's value that have its type; the others are reported and ignored.
    pub fn option(&mut self, node: &Node, path: &str, value_type: ValueType) -> Option<Node> {
        let value = match (&node.value, value_type) {
            (Value::Null, _) => return None,
            (
                Value::Seq(items),
                ValueType::StrList | ValueType::Families | ValueType::Ports | ValueType::Any,
            ) => {
                let mut kept = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    if self.has_type(item, &format!("{path}[{i}]"), value_type) {
                        kept.push(item.clone());
                    }
                }
                if kept.is_empty() && !items.is_empty() {
                    return None;
                }
                Value::Seq(kept)
            }
            (Value::Map(ports), ValueType::Ports) => {
                let mut kept = Map::new();
                for (port, number) in ports.iter() {
                    let path = join_key(path, &port.scalar_text().unwrap_or_default());
                    if self.has_type(number, &path, ValueType::Number) {
                        kept.insert(port.clone(), number.clone());
                    }
                }
                if kept.is_empty() && !ports.is_empty() {
                    return None;
                }
                Value::Map(kept)
            }
            _ if self.has_type(node, path, value_type) => node.value.clone(),
            _ => return None,
        };
        Some(Node { value, at: node.at.clone() })
    }

    fn has_type(&mut self, node: &Node, path: &str, value_type: ValueType) -> bool {
        value_type.problem(node).map(|problem| self.discard_value(node, path, problem)).is_none()
    }

    /// Does the same as [`Builder::has_type`] for a value without which the configuration still counts as complete.
    fn has_optional_type(&mut self, node: &Node, path: &str, value_type: ValueType) -> bool {
        value_type.problem(node).map(|problem| self.ignore(node, path, &problem)).is_none()
    }

    /// Returns whether DHCP is enabled.
    pub fn is_enabled(&mut self, device: &Node, path: &str, key: &str) -> bool {
        let Some(node) = device.get(key).filter(|node| !node.is_null()) else { return false };
        let is_flag = self.has_type(node, &join_key(path, key), ValueType::Flag);
        if !is_flag {
            self.lose();
        }
        is_flag && is_on(node)
    }

    /// Returns the overrides of DHCP that have their type; the others are reported and ignored.
    pub fn overrides(&mut self, device: &Node, path: &str, key: &str) -> Map {
        let mut kept = Map::new();
        let overrides = self.map(device, path, key).into_iter().flat_map(Node::entries);
        for (name, value) in overrides.filter(|(_, value)| !value.is_null()) {
            let text = name.scalar_text().unwrap_or_default();
            let known = OVERRIDES.iter().find(|known| known.netplan == text);
            // An unknown key has a finding already.
            let value_type = known.map_or(ValueType::Any, |known| known.value_type);
            if self.has_optional_type(value, &join_key(&join_key(path, key), &text), value_type) {
                kept.insert(name.clone(), value.clone());
            }
        }
        kept
    }

    /// Returns the further settings of a device that have their type; the others are reported and ignored.
    pub fn settings(&mut self, device: &Node, path: &str) -> Map {
        let mut kept = Map::new();
        for setting in SETTINGS {
            let Some(node) = device.get(setting.netplan).filter(|n| !n.is_null()) else { continue };
            let path = join_key(path, setting.netplan);
            // YAML 1.1 reads the word `off` as a boolean.
            let is_off = node.as_bool() == Some(false) && setting.values.contains(&"off");
            let word = Node { at: node.at.clone(), ..Node::from("off") };
            let node = if is_off { &word } else { node };
            let Some(value) = self.option(node, &path, setting.value_type) else { continue };
            let has = |family: &str| value.items().iter().any(|item| item.as_str() == Some(family));
            let kept_value = match setting.value_type {
                ValueType::Flag => Node::from(is_on(&value)),
                ValueType::Families => Node::from(match (has("ipv4"), has("ipv6")) {
                    (true, true) => "yes",
                    (true, false) => "ipv4",
                    (false, true) => "ipv6",
                    (false, false) => "no",
                }),
                _ => value,
            };
            let is_name = |name: &&str| Some(*name) == kept_value.as_str();
            if setting.values.is_empty() || setting.values.iter().any(is_name) {
                kept.insert(setting.netplan, kept_value);
            } else {
                self.ignore(node, &path, &format!("expected {}", setting.values.join(" or ")));
            }
        }
        kept
    }

    /// Returns a single value of this type as it is written, `None` if it is empty; anything else is reported and ignored.
    pub fn typed(&mut self, map: &Node, path: &str, key: &str, value_type: ValueType) -> Option<Node> {
        let node = map.get(key).filter(|n| !n.is_null() && n.as_str() != Some(""))?;
        self.has_optional_type(node, &join_key(path, key), value_type).then(|| node.clone())
    }
}

/// Returns whether a character would separate patterns in a list, or has a meaning to a shell or udev.
fn is_part_of_no_pattern(c: char) -> bool {
    c.is_whitespace() || is_shell_special(c)
}
