//! A parsed value with its source position.

use std::fmt;
use std::rc::Rc;

use crate::Map;

/// A source position. Lines and columns count from 1; 0 means that the value is not from a string.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// The file or other source of the text.
    pub source: Option<Rc<str>>,
    /// The line, counted from 1.
    pub line: u32,
    /// The column, counted from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.source.as_deref().map(encoding::printable::single_line);
        match (source, self.line) {
            (Some(source), 0) => f.write_str(&source),
            (Some(source), line) => write!(f, "{source}:{line}:{}", self.column),
            (None, 0) => f.write_str("(built in)"),
            (None, line) => write!(f, "line {line}, column {}", self.column),
        }
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A value as PyYAML's safe loader returns it, except that timestamps stay text, which is what every key that accepts
/// one expects.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// The value null.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer; one beyond 128 bits stays text.
    Int(i128),
    /// A floating-point number.
    Float(f64),
    /// A string.
    Str(String),
    /// `!!binary`.
    Bytes(Vec<u8>),
    /// A list.
    Seq(Vec<Node>),
    /// A map.
    Map(Map),
    /// `!!set`: the keys of a map whose values are all null. Neither `as_map` nor `as_list` returns it.
    Set(Map),
}

/// A value and its source position.
#[derive(Clone, Default)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The position at which the value was written.
    pub at: Position,
}

/// Nodes are equal if their values are; positions are ignored.
impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        self.value == other.value
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Node {
        Node { value, at: Position::default() }
    }
}

macro_rules! node_from {
    ($($from:ty => $variant:ident),*) => {$(
        impl From<$from> for Node {
            fn from(value: $from) -> Node {
                Node::from(Value::$variant(value.into()))
            }
        }
    )*};
}
node_from!(&str => Str, String => Str, bool => Bool, i32 => Int, i64 => Int, u64 => Int, f64 => Float, Vec<Node> => Seq, Map => Map);

impl<const N: usize> From<[(&str, Node); N]> for Node {
    fn from(entries: [(&str, Node); N]) -> Node {
        Node::from(Map::from(entries))
    }
}

impl Node {
    /// Returns null without a position.
    pub fn null() -> Node {
        Node::default()
    }

    /// Returns whether the value is null.
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// Returns the text, if the value is a string, not a number or boolean (see [`Node::scalar_text`]).
    pub fn as_str(&self) -> Option<&str> {
        if let Value::Str(text) = &self.value { Some(text) } else { None }
    }

    /// Returns the boolean, if the value is one; text and numbers are not converted.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(b) = self.value { Some(b) } else { None }
    }

    /// Returns the integer, if the value is one; text and floats are not converted.
    pub fn as_int(&self) -> Option<i128> {
        if let Value::Int(n) = self.value { Some(n) } else { None }
    }

    /// Returns the items of a list.
    pub fn as_seq(&self) -> Option<&[Node]> {
        if let Value::Seq(items) = &self.value { Some(items) } else { None }
    }

    /// Returns the entries of a map.
    pub fn as_map(&self) -> Option<&Map> {
        if let Value::Map(map) = &self.value { Some(map) } else { None }
    }

    /// Returns the entries of a map, for changes.
    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        if let Value::Map(map) = &mut self.value { Some(map) } else { None }
    }

    /// Returns the items of a list; none for anything else.
    pub fn items(&self) -> &[Node] {
        self.as_seq().unwrap_or_default()
    }

    /// Returns the keys and values of a map in order; none for anything else.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = (&Node, &Node)> {
        self.as_map().into_iter().flat_map(Map::iter)
    }

    /// Changes the positions of this node and all its children, in document order.
    pub(crate) fn set_positions(&mut self, next: &mut dyn FnMut() -> Position) {
        self.at = next();
        match &mut self.value {
            Value::Seq(items) => items.iter_mut().for_each(|item| item.set_positions(next)),
            Value::Map(map) | Value::Set(map) => map.iter_mut().for_each(|(key, value)| {
                key.set_positions(next);
                value.set_positions(next);
            }),
            _ => {}
        }
    }

    /// Returns the value of a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_map()?.get(key)
    }

    /// Returns the value at a path of keys: `node.at_path(&["network", "config"])`.
    pub fn at_path(&self, keys: &[&str]) -> Option<&Node> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Returns a scalar as Python's `str()` prints it, as upstream's files do; `None` for lists and maps.
    pub fn scalar_text(&self) -> Option<String> {
        Some(match &self.value {
            Value::Null => "None".into(),
            Value::Bool(b) => if *b { "True" } else { "False" }.into(),
            Value::Int(n) => n.to_string(),
            Value::Float(f) => python_float(*f),
            Value::Str(text) => text.clone(),
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::Seq(_) | Value::Map(_) | Value::Set(_) => return None,
        })
    }

    /// Returns whether the value is false in Python: null, false, zero or empty.
    pub fn is_falsy(&self) -> bool {
        match &self.value {
            Value::Null => true,
            Value::Bool(b) => !b,
            Value::Int(n) => *n == 0,
            Value::Float(f) => *f == 0.0,
            Value::Str(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::Seq(items) => items.is_empty(),
            Value::Map(map) | Value::Set(map) => map.is_empty(),
        }
    }

    /// Returns the kind, and of a string also its form, for messages that expect another one. Nothing of the value, which may be
    /// a secret.
    pub fn shape(&self) -> &'static str {
        let Value::Str(text) = &self.value else { return self.kind() };
        let has = |test: fn(char) -> bool| text.contains(test);
        match text.as_str() {
            "" => "an empty string",
            _ if text.trim_end_matches('\n').contains('\n') => "a string of several lines",
            _ if has(char::is_whitespace) => "a string with blanks",
            _ if has(char::is_control) => "a string with control characters",
            _ if !text.is_ascii() => "a string with characters other than ASCII",
            _ if has(|c| c.is_ascii_punctuation() && c != '-' && c != '.') => "a string with punctuation",
            _ => "a string",
        }
    }

    /// Returns the type for messages: "a list", "a string". Never the value itself, which may be a secret.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Str(_) => "a string",
            Value::Bytes(_) => "binary data",
            Value::Seq(_) => "a list",
            Value::Map(_) => "a map",
            Value::Set(_) => "a set",
        }
    }
}

/// Formats like Python's `repr(float)`: the shortest form that is read as the same number, `1.0` for whole numbers,
/// exponents from 1e16 on.
fn python_float(f: f64) -> String {
    if f.is_nan() {
        return "nan".into();
    }
    if f.is_infinite() {
        return if f > 0.0 { "inf" } else { "-inf" }.into();
    }
    let size = f.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{f:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, number) = match exponent.strip_prefix('-') {
            Some(number) => ('-', number),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{number:0>2}");
    }
    let text = format!("{f}");
    if text.contains('.') { text } else { text + ".0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_printed_like_by_python() {
        for (f, text) in [(1.0, "1.0"), (0.1, "0.1"), (1e16, "1e+16"), (1.5e-7, "1.5e-07"), (-0.0, "-0.0")] {
            assert_eq!(python_float(f), text);
        }
    }
}
