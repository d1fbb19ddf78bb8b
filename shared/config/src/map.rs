//! Mappings as YAML has them: with keys of any kind, in the order of their writing, found fast when they are large.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use crate::{Node, Value};

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

    /// The value of a key that is text.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.place_of(key).map(|i| &self.entries[i].1)
    }

    /// The key as written (for its position) and its value.
    pub fn get_entry(&self, key: &str) -> Option<(&Node, &Node)> {
        self.place_of(key).map(|i| (&self.entries[i].0, &self.entries[i].1))
    }

    /// The value of a key of any kind: `1`, `1.0` and `true` are the same, as in Python.
    pub fn get_node(&self, key: &Node) -> Option<&Node> {
        self.place(key).map(|i| &self.entries[i].1)
    }

    /// As [`Map::get_node`], to be changed.
    pub fn get_node_mut(&mut self, key: &Node) -> Option<&mut Node> {
        self.place(key).map(|i| &mut self.entries[i].1)
    }

    /// As [`Map::get`], to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.place_of(key).map(|i| &mut self.entries[i].1)
    }

    /// Sets a key; an existing one keeps its place. The old value.
    pub fn insert(&mut self, key: impl Into<Node>, value: impl Into<Node>) -> Option<Node> {
        let (key, value) = (key.into(), value.into());
        if let (Some(index), Value::Str(text)) = (&mut self.index, &key.value) {
            // One search for both answers.
            match index.texts.entry(text.clone()) {
                Entry::Occupied(place) => {
                    return Some(std::mem::replace(&mut self.entries[*place.get()].1, value));
                }
                Entry::Vacant(new) => drop(new.insert(self.entries.len())),
            }
            self.entries.push((key, value));
            return None;
        }
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

    /// Takes a key that is text out; its value, if it was there. The others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        self.place_of(key).map(|i| self.take_out(i))
    }

    /// As [`Map::remove`], for a key of any kind.
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
}
