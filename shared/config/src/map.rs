//! YAML mappings: keys of any scalar type, in insertion order, with an index once they are large.
//! Copies share their entries until one of them changes: settings are merged from layers that are kept, and large
//! values are usually in one layer only.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::rc::Rc;

use hashbrown::HashTable;

use crate::{Node, Value};

/// A mapping in insertion order. Equality ignores the order.
#[derive(Debug, Clone, Default)]
pub struct Map(Option<Rc<Inner>>);

#[derive(Debug, Clone, Default)]
struct Inner {
    entries: Vec<(Node, Node)>,
    /// Present in large maps only, so that lookups stay fast there and small maps stay small.
    index: Option<Index>,
}

/// A key and its value.
type Entry<'m> = (&'m Node, &'m Node);

/// Up to this number of keys, a linear search is cheaper than an index.
const INDEX_THRESHOLD: usize = 12;

/// The identity of a key. As in Python, `1`, `1.0` and `true` are the same key.
#[derive(Clone, Copy, PartialEq, Hash)]
enum MapKey<'a> {
    Text(&'a str),
    Null,
    Int(i128),
    Float(u64),
    Bytes(&'a [u8]),
}

impl<'a> MapKey<'a> {
    /// Returns `None` for lists and maps, which cannot be keys.
    fn of(node: &'a Node) -> Option<MapKey<'a>> {
        Some(match &node.value {
            Value::Str(text) => MapKey::Text(text),
            Value::Null => MapKey::Null,
            Value::Bool(b) => MapKey::Int(i128::from(*b)),
            Value::Int(n) => MapKey::Int(*n),
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 1e38 => MapKey::Int(*f as i128),
            Value::Float(f) => MapKey::Float(f.to_bits()),
            Value::Bytes(bytes) => MapKey::Bytes(bytes),
            Value::Seq(_) | Value::Map(_) | Value::Set(_) => return None,
        })
    }
}

/// Maps keys to their indexes in `entries`, which holds the keys themselves.
#[derive(Debug, Clone)]
struct Index {
    state: RandomState,
    slots: HashTable<Slot>,
}

/// An index into the entries and the hash of its key, so that few keys are compared and none is hashed twice.
#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u64,
    at: usize,
}

impl Index {
    fn with_capacity(keys: usize) -> Index {
        Index { state: RandomState::new(), slots: HashTable::with_capacity(keys) }
    }

    fn of(entries: &[(Node, Node)]) -> Index {
        let mut index = Index::with_capacity(2 * entries.len());
        for (at, (key, _)) in entries.iter().enumerate() {
            if let Some(key) = MapKey::of(key) {
                index.insert(key, at);
            }
        }
        index
    }

    fn find(&self, entries: &[(Node, Node)], key: MapKey<'_>) -> Option<usize> {
        let hash = self.state.hash_one(key);
        let has_key = |at: usize| entries.get(at).and_then(|(there, _)| MapKey::of(there)) == Some(key);
        self.slots.find(hash, |place| place.hash == hash && has_key(place.at)).map(|place| place.at)
    }

    /// Adds a new key.
    fn insert(&mut self, key: MapKey<'_>, at: usize) {
        let hash = self.state.hash_one(key);
        self.slots.insert_unique(hash, Slot { hash, at }, |place| place.hash);
    }

    /// Removes the key at that index; later keys move up by one.
    fn remove_at(&mut self, at: usize) {
        self.slots.retain(|place| place.at != at);
        self.slots.iter_mut().filter(|place| place.at > at).for_each(|place| place.at -= 1);
    }
}

impl Inner {
    fn index_of(&self, key: MapKey<'_>) -> Option<usize> {
        match &self.index {
            Some(index) => index.find(&self.entries, key),
            None => self.entries.iter().position(|(there, _)| match (&there.value, key) {
                (Value::Str(there), MapKey::Text(key)) => there == key,
                _ => MapKey::of(there) == Some(key),
            }),
        }
    }

    fn push(&mut self, key: Node, value: Node) {
        if let (Some(index), Some(key)) = (&mut self.index, MapKey::of(&key)) {
            index.insert(key, self.entries.len());
        }
        self.entries.push((key, value));
        if self.index.is_none() && self.entries.len() > INDEX_THRESHOLD {
            self.index = Some(Index::of(&self.entries));
        }
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Map) -> bool {
        let is_same =
            |((_, value), there): (Entry<'_>, Option<Entry<'_>>)| there.is_some_and(|(_, v)| v == value);
        self.len() == other.len() && self.paired_with(other).all(is_same)
    }
}

impl Map {
    /// Returns an empty map.
    pub fn new() -> Map {
        Map::default()
    }

    /// Returns an empty map with room for this number of entries. Growing a large map step by step would leave freed
    /// memory of the same size behind.
    pub(crate) fn with_capacity(entries: usize) -> Map {
        let index = (entries > INDEX_THRESHOLD).then(|| Index::with_capacity(entries));
        Map(Some(Rc::new(Inner { entries: Vec::with_capacity(entries), index })))
    }

    fn entries(&self) -> &[(Node, Node)] {
        self.0.as_ref().map_or(&[], |inner| &inner.entries)
    }

    /// Returns the entries for changes, copying them if they are shared.
    fn inner(&mut self) -> &mut Inner {
        Rc::make_mut(self.0.get_or_insert_default())
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Returns whether the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Returns whether this is a copy of `other`, and neither has changed since.
    pub fn is_copy_of(&self, other: &Map) -> bool {
        match (&self.0, &other.0) {
            (Some(entries), Some(others)) => Rc::ptr_eq(entries, others),
            (entries, others) => entries.is_none() && others.is_none(),
        }
    }

    /// Returns keys and values in insertion order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Node, &Node)> {
        self.entries().iter().map(|(k, v)| (k, v))
    }

    fn index_of_key(&self, key: MapKey<'_>) -> Option<usize> {
        self.0.as_ref()?.index_of(key)
    }

    pub(crate) fn index_of(&self, key: &Node) -> Option<usize> {
        self.index_of_key(MapKey::of(key)?)
    }

    fn value_mut(&mut self, place: usize) -> Option<&mut Node> {
        self.inner().entries.get_mut(place).map(|(_, value)| value)
    }

    /// Pairs the entries of this map with those of `other` that have the same keys. Where the two have the same order, even
    /// of some successive keys only, no key is hashed.
    pub(crate) fn paired_with<'m>(
        &'m self,
        other: &'m Map,
    ) -> impl Iterator<Item = (Entry<'m>, Option<Entry<'m>>)> {
        let mut next = 0;
        self.iter().map(move |(key, value)| {
            let wanted = MapKey::of(key);
            let place = wanted.and_then(|wanted| {
                let is_next =
                    other.get_index(next).is_some_and(|(there, _)| MapKey::of(there) == Some(wanted));
                if is_next { Some(next) } else { other.index_of_key(wanted) }
            });
            next = place.map_or(next, |place| place + 1);
            ((key, value), place.and_then(|place| other.get_index(place)))
        })
    }

    pub(crate) fn get_index(&self, place: usize) -> Option<(&Node, &Node)> {
        self.entries().get(place).map(|(key, value)| (key, value))
    }

    /// Returns the value of a string key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// Returns the key as stored (for its position) and its value.
    pub fn get_key_value(&self, key: &str) -> Option<(&Node, &Node)> {
        self.index_of_key(MapKey::Text(key)).and_then(|place| self.get_index(place))
    }

    /// Returns the value of a key of any type: `1`, `1.0` and `true` are the same, as in Python.
    pub fn get_node(&self, key: &Node) -> Option<&Node> {
        self.index_of(key).and_then(|place| self.get_index(place)).map(|(_, value)| value)
    }

    /// Returns the value of [`Map::get_node`] for changes.
    pub fn get_node_mut(&mut self, key: &Node) -> Option<&mut Node> {
        self.index_of(key).and_then(|place| self.value_mut(place))
    }

    /// Returns the value of [`Map::get`] for changes.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.index_of_key(MapKey::Text(key)).and_then(|place| self.value_mut(place))
    }

    /// Sets a key and returns its old value. An existing key keeps its place.
    pub fn insert(&mut self, key: impl Into<Node>, value: impl Into<Node>) -> Option<Node> {
        let (key, value) = (key.into(), value.into());
        let place = self.index_of(&key);
        self.insert_at(place, key, value)
    }

    /// Sets a key if there is a value for it.
    pub fn insert_some(&mut self, key: impl Into<Node>, value: Option<impl Into<Node>>) {
        if let Some(value) = value {
            self.insert(key, value);
        }
    }

    /// Sets a key unless the value is an empty list or map.
    pub fn insert_unless_empty(&mut self, key: impl Into<Node>, value: impl Into<Node>) {
        let value = value.into();
        if value.as_seq().is_none_or(|items| !items.is_empty())
            && value.as_map().is_none_or(|map| !map.is_empty())
        {
            self.insert(key, value);
        }
    }

    /// Inserts as [`Map::insert`] does, with the result of [`Map::index_of`].
    pub(crate) fn insert_at(&mut self, place: Option<usize>, key: Node, value: Node) -> Option<Node> {
        if let Some(there) = place.and_then(|place| self.value_mut(place)) {
            return Some(std::mem::replace(there, value));
        }
        self.inner().push(key, value);
        None
    }

    /// Returns keys and values, mutable, to change their positions.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&mut Node, &mut Node)> {
        self.inner().entries.iter_mut().map(|(key, value)| (key, value))
    }

    /// Removes a string key and returns its value. The others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        self.index_of_key(MapKey::Text(key)).map(|place| self.remove_at(place))
    }

    /// Removes a key of any type, as [`Map::remove`] does for text.
    pub fn remove_node(&mut self, key: &Node) -> Option<Node> {
        self.index_of(key).map(|place| self.remove_at(place))
    }

    fn remove_at(&mut self, place: usize) -> Node {
        let inner = self.inner();
        let (_, value) = inner.entries.remove(place);
        if let Some(index) = &mut inner.index {
            index.remove_at(place);
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

impl<const N: usize> From<[(&str, Node); N]> for Map {
    fn from(entries: [(&str, Node); N]) -> Map {
        entries.into_iter().map(|(key, value)| (Node::from(key), value)).collect()
    }
}

impl IntoIterator for Map {
    type Item = (Node, Node);
    type IntoIter = std::vec::IntoIter<(Node, Node)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.map(Rc::unwrap_or_clone).unwrap_or_default().entries.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_insertion_order() {
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
    fn large_maps_find_and_replace_keys() {
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
    fn entries_are_paired_in_any_order() {
        for count in [3, 40] {
            let map: Map = (0..count).map(|i| (Node::from(i), Node::from(i))).collect();
            let orders: [Vec<i64>; 4] = [
                (0..count).collect(),
                (0..count).rev().collect(),
                (0..count).map(|i| (i + 2) % count).collect(),
                (1..count).chain([100]).collect(),
            ];
            for order in orders {
                let other: Map = order.iter().map(|i| (Node::from(*i as f64), Node::from(*i))).collect();
                for ((key, value), there) in map.paired_with(&other) {
                    let there = there.map(|(k, v)| (k.as_int(), v.as_int(), k.scalar_text()));
                    let n = key.as_int().unwrap();
                    let expected =
                        order.contains(&(n as i64)).then(|| (None, Some(n), Some(format!("{n}.0"))));
                    assert_eq!((value.as_int(), there), (Some(n), expected), "{order:?}");
                }
                assert_eq!(map == other, !order.contains(&100), "{order:?}");
            }
        }
    }

    #[test]
    fn removed_keys_can_be_inserted_again() {
        let mut map: Map = (0..40i64).map(|i| (Node::from(format!("k{i}")), Node::from(i))).collect();
        let whole = map.clone();
        for round in 0..50i64 {
            for i in (round % 3..40).step_by(3) {
                assert_eq!(map.remove(&format!("k{i}")).unwrap().as_int(), Some(i.into()));
            }
            for i in 0..40 {
                let there = map.get(&format!("k{i}")).and_then(Node::as_int);
                assert_eq!(there, (i % 3 != round % 3).then_some(i.into()));
            }
            for i in (round % 3..40).step_by(3) {
                assert_eq!(map.insert(format!("k{i}"), i), None);
            }
            assert_eq!(map, whole);
        }
    }

    #[test]
    fn clones_do_not_share_later_changes() {
        let mut map: Map = (0..20).map(|i| (Node::from(i), Node::from(i))).collect();
        map.insert("below", [(Node::from("x"), Node::from(1))].into_iter().collect::<Map>());
        let before = map.clone();
        map.get_mut("below").unwrap().as_map_mut().unwrap().insert("x", 2);
        map.insert(5, "five");
        map.remove_node(&Node::from(0));
        assert_eq!((before.len(), map.len()), (21, 20));
        assert_eq!(before.get_node(&Node::from(5)).unwrap().as_int(), Some(5));
        assert_eq!(before.get("below").unwrap().get("x").unwrap().as_int(), Some(1));
        assert_eq!(map.get("below").unwrap().get("x").unwrap().as_int(), Some(2));
        assert_eq!(before.into_iter().count(), 21);
    }
}
