//! Mappings as YAML has them: with keys of any kind, in the order of their writing, found fast when they are large.
//! A copy costs nothing until one of the two is changed: settings are merged from layers that stay as they were, and
//! what is large in them is mostly in one layer alone.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::rc::Rc;

use crate::{Node, Value};

/// A mapping in the order of its writing. Equality ignores the order.
#[derive(Debug, Clone, Default)]
pub struct Map(Option<Rc<Inner>>);

#[derive(Debug, Clone, Default)]
struct Inner {
    entries: Vec<(Node, Node)>,
    /// Only for large maps, so that those stay linear and the many small ones small.
    index: Option<Index>,
}

/// Up to so many keys, looking at each is cheaper than an index.
const SMALL: usize = 12;

/// What makes keys the same. Python takes `1`, `1.0` and `true` for the same key, and so does this.
#[derive(Clone, Copy, PartialEq)]
enum Key<'a> {
    Text(&'a str),
    Null,
    Int(i128),
    Float(u64),
    Bytes(&'a [u8]),
}

impl<'a> Key<'a> {
    /// `None` for lists and maps, which are no keys.
    fn of(node: &'a Node) -> Option<Key<'a>> {
        Some(match &node.value {
            Value::Str(text) => Key::Text(text),
            Value::Null => Key::Null,
            Value::Bool(b) => Key::Int(i128::from(*b)),
            Value::Int(n) => Key::Int(*n),
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 1e38 => Key::Int(*f as i128),
            Value::Float(f) => Key::Float(f.to_bits()),
            Value::Bytes(bytes) => Key::Bytes(bytes),
            Value::Seq(_) | Value::Map(_) => return None,
        })
    }
}

/// From keys to their places in `entries`: open addressing, at most three quarters full.
#[derive(Debug, Clone)]
struct Index {
    /// Another one in each index: nobody can write keys that meet.
    seed: u64,
    slots: Vec<Slot>,
    /// How many are free.
    free: usize,
}

/// A part of the key's hash, so that few other keys are looked at and none is when the index grows; and its place.
#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u32,
    place: u32,
}

/// No map has so many entries: no text that is read has.
const FREE: Slot = Slot { hash: 0, place: u32::MAX };
/// The place of a key that was taken out: those behind it are still found.
const GONE: u32 = u32::MAX - 1;

impl Index {
    fn of(entries: &[(Node, Node)]) -> Index {
        let free = (2 * entries.len()).next_power_of_two();
        let mut index = Index { seed: RandomState::new().hash_one(0), slots: vec![FREE; free], free };
        for (place, (key, _)) in entries.iter().enumerate() {
            if let Some(key) = Key::of(key) {
                index.fill(Slot { hash: index.hash(key), place: place as u32 });
            }
        }
        index
    }

    fn hash(&self, key: Key<'_>) -> u32 {
        let fold = |hash: u64, word: u64| {
            let product = u128::from(hash ^ word) * 0x9E37_79B9_7F4A_7C15;
            product as u64 ^ (product >> 64) as u64
        };
        let bytes = |bytes: &[u8]| {
            let (words, rest) = bytes.as_chunks::<8>();
            let hash = words.iter().fold(self.seed, |hash, word| fold(hash, u64::from_le_bytes(*word)));
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            fold(fold(hash, u64::from_le_bytes(last)), bytes.len() as u64)
        };
        let hash = match key {
            Key::Text(text) => bytes(text.as_bytes()),
            Key::Bytes(some) => bytes(some),
            Key::Int(n) => bytes(&n.to_le_bytes()),
            Key::Float(bits) => bytes(&bits.to_le_bytes()),
            Key::Null => self.seed,
        };
        (hash >> 32) as u32
    }

    /// The slots where that hash may be, until the first free one.
    fn near(&self, hash: u32) -> impl Iterator<Item = usize> + use<> {
        let last = self.slots.len() - 1;
        let first = hash as usize & last;
        (first..=last).chain(0..first)
    }

    fn find(&self, entries: &[(Node, Node)], key: Key<'_>) -> Option<usize> {
        let hash = self.hash(key);
        let slots = self.near(hash).map(|i| self.slots[i]).take_while(|slot| slot.place != FREE.place);
        slots.filter(|slot| slot.hash == hash).map(|slot| slot.place as usize).find(|place| {
            entries.get(*place).and_then(|(there, _)| Key::of(there)).is_some_and(|there| there == key)
        })
    }

    fn fill(&mut self, slot: Slot) {
        if let Some(i) = self.near(slot.hash).find(|i| self.slots[*i].place == FREE.place) {
            self.slots[i] = slot;
            self.free -= 1;
        }
    }

    /// Notes a key that is in no slot yet.
    fn add(&mut self, key: Key<'_>, place: usize) {
        if 4 * self.free <= self.slots.len() {
            self.free = 2 * self.slots.len();
            let old = std::mem::replace(&mut self.slots, vec![FREE; self.free]);
            old.into_iter().filter(|slot| slot.place < GONE).for_each(|slot| self.fill(slot));
        }
        self.fill(Slot { hash: self.hash(key), place: place as u32 });
    }

    /// Forgets the key at that place; those behind it move up by one.
    fn take_out(&mut self, place: usize) {
        for slot in &mut self.slots {
            match slot.place {
                GONE.. => {}
                p if p as usize == place => slot.place = GONE,
                p if p as usize > place => slot.place -= 1,
                _ => {}
            }
        }
    }
}

impl Inner {
    fn place(&self, key: Key<'_>) -> Option<usize> {
        match &self.index {
            Some(index) => index.find(&self.entries, key),
            None => self.entries.iter().position(|(there, _)| Key::of(there) == Some(key)),
        }
    }

    fn push(&mut self, key: Node, value: Node) {
        if let (Some(index), Some(key)) = (&mut self.index, Key::of(&key)) {
            index.add(key, self.entries.len());
        }
        self.entries.push((key, value));
        if self.index.is_none() && self.entries.len() > SMALL {
            self.index = Some(Index::of(&self.entries));
        }
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

    fn entries(&self) -> &[(Node, Node)] {
        self.0.as_ref().map_or(&[], |inner| &inner.entries)
    }

    /// To be changed: on its own from now on.
    fn inner(&mut self) -> &mut Inner {
        Rc::make_mut(self.0.get_or_insert_default())
    }

    pub fn len(&self) -> usize {
        self.entries().len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Keys and values in the order of writing.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Node, &Node)> {
        self.entries().iter().map(|(k, v)| (k, v))
    }

    fn place_of(&self, key: Key<'_>) -> Option<usize> {
        self.0.as_ref()?.place(key)
    }

    pub(crate) fn place(&self, key: &Node) -> Option<usize> {
        self.place_of(Key::of(key)?)
    }

    fn value_mut(&mut self, place: usize) -> Option<&mut Node> {
        self.inner().entries.get_mut(place).map(|(_, value)| value)
    }

    /// The entry of a key: the key as this map has it, and its value.
    pub(crate) fn entry_of(&self, key: &Node) -> Option<(&Node, &Node)> {
        self.place(key).and_then(|place| self.entry_at(place))
    }

    pub(crate) fn entry_at(&self, place: usize) -> Option<(&Node, &Node)> {
        self.entries().get(place).map(|(key, value)| (key, value))
    }

    /// The value of a key that is text.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.get_entry(key).map(|(_, value)| value)
    }

    /// The key as written (for its position) and its value.
    pub fn get_entry(&self, key: &str) -> Option<(&Node, &Node)> {
        self.place_of(Key::Text(key)).and_then(|place| self.entry_at(place))
    }

    /// The value of a key of any kind: `1`, `1.0` and `true` are the same, as in Python.
    pub fn get_node(&self, key: &Node) -> Option<&Node> {
        self.entry_of(key).map(|(_, value)| value)
    }

    /// As [`Map::get_node`], to be changed.
    pub fn get_node_mut(&mut self, key: &Node) -> Option<&mut Node> {
        self.place(key).and_then(|place| self.value_mut(place))
    }

    /// As [`Map::get`], to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.place_of(Key::Text(key)).and_then(|place| self.value_mut(place))
    }

    /// Sets a key; an existing one keeps its place. The old value.
    pub fn insert(&mut self, key: impl Into<Node>, value: impl Into<Node>) -> Option<Node> {
        let (key, value) = (key.into(), value.into());
        let place = self.place(&key);
        self.put(place, key, value)
    }

    /// As [`Map::insert`], for who has found the key's place or found none.
    pub(crate) fn put(&mut self, place: Option<usize>, key: Node, value: Node) -> Option<Node> {
        if let Some(there) = place.and_then(|place| self.value_mut(place)) {
            return Some(std::mem::replace(there, value));
        }
        self.inner().push(key, value);
        None
    }

    /// Keys and values, to be given other places.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&mut Node, &mut Node)> {
        self.inner().entries.iter_mut().map(|(key, value)| (key, value))
    }

    /// Takes a key that is text out; its value, if it was there. The others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        self.place_of(Key::Text(key)).map(|place| self.take_out(place))
    }

    /// As [`Map::remove`], for a key of any kind.
    pub fn remove_node(&mut self, key: &Node) -> Option<Node> {
        self.place(key).map(|place| self.take_out(place))
    }

    fn take_out(&mut self, place: usize) -> Node {
        let inner = self.inner();
        let (_, value) = inner.entries.remove(place);
        if let Some(index) = &mut inner.index {
            index.take_out(place);
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
        self.0.map(Rc::unwrap_or_clone).unwrap_or_default().entries.into_iter()
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

    #[test]
    fn what_is_taken_out_and_put_back() {
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
    fn copies_go_their_own_ways() {
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
