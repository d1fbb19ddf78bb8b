//! A parsed value that knows where it was written.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::rc::Rc;

/// Where a value was written. Lines and columns count from 1; 0 means "not from a text".
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Mark {
    pub source: Option<Rc<str>>,
    pub line: u32,
    pub column: u32,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.source, self.line) {
            (Some(source), 0) => f.write_str(source),
            (Some(source), line) => write!(f, "{source}:{line}:{}", self.column),
            (None, 0) => f.write_str("(built in)"),
            (None, line) => write!(f, "line {line}, column {}", self.column),
        }
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What PyYAML's safe loader makes of YAML 1.1, without dates as a type of their own: a timestamp stays the
/// text that was written, which is what every key that can hold one wants.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    /// Wide enough for any number that a user means; a larger one stays text.
    Int(i128),
    Float(f64),
    Str(String),
    /// `!!binary`.
    Bytes(Vec<u8>),
    Seq(Vec<Node>),
    Map(Map),
}

/// A value and where it was written.
#[derive(Clone, Default)]
pub struct Node {
    pub value: Value,
    pub at: Mark,
}

/// Two nodes are equal when their values are, wherever they were written.
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

/// A mapping in the order of its writing. Equality ignores the order.
#[derive(Debug, Clone, Default)]
pub struct Map {
    entries: Vec<(Node, Node)>,
    /// Only for large maps, so that those stay linear and the many small ones small.
    index: Option<Box<Index>>,
}

/// From keys to their places in `entries`.
#[derive(Debug, Clone, Default)]
struct Index {
    texts: HashMap<String, usize>,
    others: BTreeMap<Scalar, usize>,
}

/// Up to so many keys, looking at each is cheaper than an index.
const SMALL: usize = 12;

impl Index {
    fn of(entries: &[(Node, Node)]) -> Index {
        let mut index = Index::default();
        for (place, (key, _)) in entries.iter().enumerate() {
            index.add(key, place);
        }
        index
    }

    fn add(&mut self, key: &Node, place: usize) {
        match &key.value {
            Value::Str(text) => drop(self.texts.insert(text.clone(), place)),
            other => drop(Scalar::of(other).map(|scalar| self.others.insert(scalar, place))),
        }
    }
}

/// A key that is no text. Python takes `1`, `1.0` and `true` for the same key, and so does this.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Scalar {
    Null,
    Int(i128),
    Float(u64),
    Bytes(Vec<u8>),
}

impl Scalar {
    /// `None` for text, which has its own index, and for lists and maps, which are no keys.
    fn of(value: &Value) -> Option<Scalar> {
        Some(match value {
            Value::Null => Scalar::Null,
            Value::Bool(b) => Scalar::Int(i128::from(*b)),
            Value::Int(n) => Scalar::Int(*n),
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 1e38 => Scalar::Int(*f as i128),
            Value::Float(f) => Scalar::Float(f.to_bits()),
            Value::Bytes(bytes) => Scalar::Bytes(bytes.clone()),
            Value::Str(_) | Value::Seq(_) | Value::Map(_) => return None,
        })
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Map) -> bool {
        self.len() == other.len() && self.iter().all(|(k, v)| other.get_node(k) == Some(v))
    }
}

impl Map {
    pub fn new() -> Map {
        Map::default()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keys and values in the order of writing.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Node, &Node)> {
        self.entries.iter().map(|(k, v)| (k, v))
    }

    pub(crate) fn place(&self, key: &Node) -> Option<usize> {
        if let Value::Str(text) = &key.value {
            return self.place_of(text);
        }
        let wanted = Scalar::of(&key.value)?;
        match &self.index {
            Some(index) => index.others.get(&wanted).copied(),
            None => self.entries.iter().position(|(k, _)| Scalar::of(&k.value).as_ref() == Some(&wanted)),
        }
    }

    fn place_of(&self, key: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.texts.get(key).copied(),
            None => self.entries.iter().position(|(k, _)| k.as_str() == Some(key)),
        }
    }

    /// The entry of a key: the key as this map has it, and its value.
    pub(crate) fn entry_of(&self, key: &Node) -> Option<(&Node, &Node)> {
        self.place(key).and_then(|place| self.entries.get(place)).map(|(key, value)| (key, value))
    }

    pub(crate) fn key_at(&self, place: usize) -> Option<&Node> {
        self.entries.get(place).map(|(key, _)| key)
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.place_of(key).map(|i| &self.entries[i].1)
    }

    /// The key as written (for its position) and its value.
    pub fn get_entry(&self, key: &str) -> Option<(&Node, &Node)> {
        self.place_of(key).map(|i| (&self.entries[i].0, &self.entries[i].1))
    }

    pub fn get_node(&self, key: &Node) -> Option<&Node> {
        self.place(key).map(|i| &self.entries[i].1)
    }

    pub fn get_node_mut(&mut self, key: &Node) -> Option<&mut Node> {
        self.place(key).map(|i| &mut self.entries[i].1)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.place_of(key).map(|i| &mut self.entries[i].1)
    }

    /// Sets a key; an existing one keeps its place. The old value.
    pub fn insert(&mut self, key: impl Into<Node>, value: impl Into<Node>) -> Option<Node> {
        let (key, value) = (key.into(), value.into());
        if let Some(i) = self.place(&key) {
            return Some(std::mem::replace(&mut self.entries[i].1, value));
        }
        if let Some(index) = &mut self.index {
            index.add(&key, self.entries.len());
        }
        self.entries.push((key, value));
        if self.index.is_none() && self.entries.len() > SMALL {
            self.index = Some(Box::new(Index::of(&self.entries)));
        }
        None
    }

    pub fn remove(&mut self, key: &str) -> Option<Node> {
        self.place_of(key).map(|i| self.take_out(i))
    }

    pub fn remove_node(&mut self, key: &Node) -> Option<Node> {
        self.place(key).map(|i| self.take_out(i))
    }

    fn take_out(&mut self, i: usize) -> Node {
        let (key, value) = self.entries.remove(i);
        if let Some(index) = &mut self.index {
            match &key.value {
                Value::Str(text) => drop(index.texts.remove(text)),
                other => drop(Scalar::of(other).map(|scalar| index.others.remove(&scalar))),
            }
            for place in index.texts.values_mut().chain(index.others.values_mut()).filter(|p| **p > i) {
                *place -= 1;
            }
        }
        value
    }
}

impl FromIterator<(Node, Node)> for Map {
    fn from_iter<I: IntoIterator<Item = (Node, Node)>>(entries: I) -> Map {
        let mut map = Map::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl IntoIterator for Map {
    type Item = (Node, Node);
    type IntoIter = std::vec::IntoIter<(Node, Node)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Node {
        Node { value, at: Mark::default() }
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

impl Node {
    pub fn null() -> Node {
        Node::default()
    }

    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    pub fn as_str(&self) -> Option<&str> {
        if let Value::Str(text) = &self.value { Some(text) } else { None }
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(b) = self.value { Some(b) } else { None }
    }

    pub fn as_int(&self) -> Option<i128> {
        if let Value::Int(n) = self.value { Some(n) } else { None }
    }

    pub fn as_seq(&self) -> Option<&[Node]> {
        if let Value::Seq(items) = &self.value { Some(items) } else { None }
    }

    pub fn as_map(&self) -> Option<&Map> {
        if let Value::Map(map) = &self.value { Some(map) } else { None }
    }

    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        if let Value::Map(map) = &mut self.value { Some(map) } else { None }
    }

    /// The child of that key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_map()?.get(key)
    }

    /// The value below keys, one after the other: `node.at_path(&["network", "config"])`.
    pub fn at_path(&self, keys: &[&str]) -> Option<&Node> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    /// What Python's `str()` makes of a scalar, which is what upstream's files hold; `None` for lists and maps.
    pub fn scalar_text(&self) -> Option<String> {
        Some(match &self.value {
            Value::Null => "None".into(),
            Value::Bool(b) => if *b { "True" } else { "False" }.into(),
            Value::Int(n) => n.to_string(),
            Value::Float(f) => python_float(*f),
            Value::Str(text) => text.clone(),
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::Seq(_) | Value::Map(_) => return None,
        })
    }

    /// Null, false, zero and empty: what upstream's `if value:` takes for "no".
    pub fn is_falsy(&self) -> bool {
        match &self.value {
            Value::Null => true,
            Value::Bool(b) => !b,
            Value::Int(n) => *n == 0,
            Value::Float(f) => *f == 0.0,
            Value::Str(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::Seq(items) => items.is_empty(),
            Value::Map(map) => map.is_empty(),
        }
    }

    /// What this is, for messages: "a list", "text". Never the value itself, which may be a secret.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing (null)",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Str(_) => "text",
            Value::Bytes(_) => "binary data",
            Value::Seq(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// As JSON: keys as text, binary as text (lossy), non-finite numbers as null.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(b) => Json::Bool(*b),
            Value::Int(n) => match (i64::try_from(*n), u64::try_from(*n)) {
                (Ok(n), _) => n.into(),
                (_, Ok(n)) => n.into(),
                _ => Json::String(n.to_string()),
            },
            Value::Float(f) => Json::from(*f),
            Value::Str(text) => Json::String(text.clone()),
            Value::Bytes(bytes) => Json::String(String::from_utf8_lossy(bytes).into_owned()),
            Value::Seq(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Value::Map(map) => Json::Object(
                map.iter().map(|(k, v)| (k.scalar_text().unwrap_or_default(), v.to_json())).collect(),
            ),
        }
    }

    pub fn from_json(json: &serde_json::Value) -> Node {
        use serde_json::Value as Json;
        Node::from(match json {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(*b),
            Json::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
                (Some(n), ..) => Value::Int(n.into()),
                (_, Some(n), _) => Value::Int(n.into()),
                (.., f) => Value::Float(f.unwrap_or_default()),
            },
            Json::String(text) => Value::Str(text.clone()),
            Json::Array(items) => Value::Seq(items.iter().map(Node::from_json).collect()),
            Json::Object(map) => {
                Value::Map(map.iter().map(|(k, v)| (Node::from(k.as_str()), Node::from_json(v))).collect())
            }
        })
    }
}

/// Python's `repr(float)`: shortest form that reads back, `1.0` for whole numbers, exponents from 1e16 on.
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
    fn maps_keep_order_and_index() {
        let mut map = Map::new();
        for key in ["c", "a", "b"] {
            map.insert(key, key);
        }
        map.insert("a", 1);
        map.remove("c");
        map.insert(1, "one");
        assert_eq!(map.iter().map(|(k, _)| k.scalar_text().unwrap()).collect::<Vec<_>>(), ["a", "b", "1"]);
        assert_eq!(map.get("b").unwrap().as_str(), Some("b"));
        assert_eq!(map.get_node(&Node::from(1)).unwrap().as_str(), Some("one"));
    }

    #[test]
    fn large_maps_know_their_keys_too() {
        let mut map: Map = (0..100).map(|i| (Node::from(i), Node::from(i))).collect();
        for i in 0..100 {
            map.insert(format!("k{i}"), i);
        }
        map.insert("k7", "new");
        map.insert(1.0, "one");
        assert_eq!(map.len(), 200);
        assert_eq!(map.remove_node(&Node::from(true)).unwrap().as_str(), Some("one"));
        assert_eq!(map.remove("k0").unwrap().as_int(), Some(0));
        assert_eq!((map.get("k7").unwrap().as_str(), map.get("k0")), (Some("new"), None));
        assert_eq!(map.get_node(&Node::from(99)).unwrap().as_int(), Some(99));
        assert_eq!(map.get("k99").unwrap().as_int(), Some(99));
        assert_eq!(map, map.clone().into_iter().rev().collect::<Map>());
    }

    #[test]
    fn floats_as_python_writes_them() {
        for (f, text) in [(1.0, "1.0"), (0.1, "0.1"), (1e16, "1e+16"), (1.5e-7, "1.5e-07"), (-0.0, "-0.0")] {
            assert_eq!(python_float(f), text);
        }
    }
}
