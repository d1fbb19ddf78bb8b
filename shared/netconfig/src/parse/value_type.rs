//! The types of values that renderers copy: the options of bonds and bridges, and the overrides of DHCP. A value of another
//! type is reported with its position and skipped, so that no file gets Python's text of it.

use config::{Map, Node, Value};

use crate::address;

use super::builder::{Builder, described, name_text, string_text};
use super::key_path::join_key;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// A string, or digits, which need no quotes.
    Name,
    /// A number of 32 bits, or one in a string.
    Number,
    /// A number that is not negative, or a string that begins with one: `100`, `1.5`, `30s`.
    Duration,
    /// A boolean, 0 or 1, or a string with one of YAML's booleans.
    Flag,
    /// As [`ValueType::Flag`], or the string `route`, in any case.
    FlagOrRoute,
    /// A string, or a list of strings.
    StrList,
    /// A number for each port: a map, or strings with a port and a number.
    Ports,
    /// A string, a number or a boolean, or a list of these.
    Any,
}

/// YAML's booleans, and those of the kernel's files.
const BOOLEANS: &[&str] = &["true", "false", "yes", "no", "on", "off", "y", "n", "1", "0"];

/// Returns whether a value is a boolean, or text that is read as one.
fn is_flag(node: &Node) -> bool {
    match &node.value {
        Value::Bool(_) | Value::Int(0 | 1) => true,
        Value::Str(text) => BOOLEANS.contains(&text.trim().to_ascii_lowercase().as_str()),
        _ => false,
    }
}

/// Returns whether a value of the type [`ValueType::Flag`] is true.
pub fn is_on(node: &Node) -> bool {
    match &node.value {
        Value::Bool(on) => *on,
        Value::Int(number) => *number == 1,
        Value::Str(text) => {
            matches!(text.trim().to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "y" | "1")
        }
        _ => false,
    }
}

/// Returns whether a value is the word `route`, in any case.
fn is_route(node: &Node) -> bool {
    node.as_str().is_some_and(|text| text.trim().eq_ignore_ascii_case("route"))
}

fn is_duration(node: &Node) -> bool {
    match &node.value {
        Value::Int(number) => *number >= 0,
        Value::Float(number) => *number >= 0.0,
        Value::Str(text) => text.trim().starts_with(|c: char| c.is_ascii_digit()),
        _ => false,
    }
}

impl ValueType {
    /// Returns whether a scalar is of this type. An empty string is of every type.
    fn accepts(self, node: &Node) -> bool {
        let is_scalar = !matches!(node.value, Value::Seq(_) | Value::Map(_) | Value::Set(_) | Value::Null);
        let is_empty = node.as_str() == Some("");
        is_empty
            || match self {
                ValueType::Name => name_text(node).is_some(),
                ValueType::Number => address::parse_number(node).is_some(),
                ValueType::Duration => is_duration(node),
                ValueType::Flag => is_flag(node),
                ValueType::FlagOrRoute => is_flag(node) || is_route(node),
                ValueType::StrList | ValueType::Ports => string_text(node).is_some(),
                ValueType::Any => is_scalar,
            }
    }

    /// Returns what is wrong with a scalar.
    fn problem(self, node: &Node) -> Option<String> {
        let expected = self.expectation();
        let is_out_of_range = self == ValueType::Number
            && !matches!(node.value, Value::Bool(_))
            && address::parse_integer(node).is_some();
        (!self.accepts(node)).then(|| match is_out_of_range {
            true => format!("expected {expected}"),
            false => format!("expected {expected}, found {}", described(node)),
        })
    }

    fn expectation(self) -> &'static str {
        match self {
            ValueType::Name => "a name",
            ValueType::Number => address::NUMBER,
            ValueType::Duration => "a number or a time",
            ValueType::Flag => "true or false",
            ValueType::FlagOrRoute => "true, false or route",
            ValueType::StrList => "a string or a list of strings",
            ValueType::Ports => "ports, each with a number",
            ValueType::Any => "a string, a number or a boolean",
        }
    }
}

impl Builder {
    /// Returns the parts of an option's value that have its type; the others are reported and ignored.
    pub fn option(&mut self, node: &Node, path: &str, value_type: ValueType) -> Option<Node> {
        let value = match (&node.value, value_type) {
            (Value::Null, _) => return None,
            (Value::Seq(items), ValueType::StrList | ValueType::Ports | ValueType::Any) => {
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
        match value_type.problem(node) {
            Some(problem) => self.discard(node, path, problem),
            None => return true,
        }
        false
    }

    /// Returns whether DHCP is enabled. As in upstream, `'no'` in quotes enables it, too.
    pub fn is_enabled(&mut self, device: &Node, path: &str, key: &str) -> bool {
        let Some(node) = device.get(key).filter(|node| !node.is_null()) else { return false };
        self.has_type(node, &join_key(path, key), ValueType::Flag) && !node.is_falsy()
    }

    /// Returns the overrides of DHCP that have their type; the others are reported and ignored.
    pub fn overrides(&mut self, device: &Node, path: &str, key: &str) -> Map {
        let mut kept = Map::new();
        let overrides = self.map(device, path, key).and_then(Node::as_map);
        for (name, value) in overrides.into_iter().flat_map(Map::iter) {
            let text = name.scalar_text().unwrap_or_default();
            let value_type = match text.as_str() {
                "hostname" => ValueType::Name,
                "route-metric" => ValueType::Number,
                "use-domains" => ValueType::FlagOrRoute,
                "send-hostname" | "use-dns" | "use-hostname" | "use-mtu" | "use-ntp" | "use-routes" => {
                    ValueType::Flag
                }
                // Unknown, and reported as such.
                _ => ValueType::Any,
            };
            if value.is_null() {
                continue;
            }
            match value_type.problem(value) {
                Some(problem) => {
                    let path = join_key(&join_key(path, key), &text);
                    self.report(value, &path, format!("{problem}; ignored"));
                }
                None => {
                    kept.insert(name.clone(), value.clone());
                }
            }
        }
        kept
    }

    /// Returns a single value of this type as it is written, `None` if it is empty; anything else is reported and ignored.
    pub fn typed(&mut self, map: &Node, path: &str, key: &str, value_type: ValueType) -> Option<Node> {
        let node = map.get(key).filter(|n| !n.is_null() && n.as_str() != Some(""))?;
        let Some(problem) = value_type.problem(node) else { return Some(node.clone()) };
        self.report(node, &join_key(path, key), format!("{problem}; ignored"));
        None
    }
}
