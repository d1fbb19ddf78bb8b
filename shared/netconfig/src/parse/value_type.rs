//! The types of values that renderers copy: the options of bonds and bridges, and the overrides of DHCP. A value of another
//! type is reported with its position and skipped, so that no file gets Python's text of it.

use config::{Node, Value};

use crate::address;

use super::scalar::{described, name_text, string_text};

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
    /// A list of address families: `ipv4`, `ipv6`.
    Families,
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
                ValueType::Families => matches!(node.as_str(), Some("ipv4" | "ipv6")),
                ValueType::StrList | ValueType::Ports => string_text(node).is_some(),
                ValueType::Any => is_scalar,
            }
    }

    /// Returns what is wrong with a scalar.
    pub fn problem(self, node: &Node) -> Option<String> {
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
            ValueType::Families => "a list of ipv4 and ipv6",
            ValueType::Ports => "ports, each with a number",
            ValueType::Any => "a string, a number or a boolean",
        }
    }
}
