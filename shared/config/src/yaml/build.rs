//! From nodes to values: tags, merge keys, duplicates and what aliases repeat.

use std::collections::HashSet;
use std::rc::Rc;

use super::compose::{Flat, Id, Raw, Result, Shifts, What, bad, short, too_deep};
use super::events::Spot;
use super::scalar::{self, Tag};
use super::{MOST_COPIES, MOST_DEPTH, Parsed};
use crate::{Finding, Kind, Map, Mark, Node, Value};

/// The values of an arena, from that node on. `aliases`: some nodes are needed more than once.
pub(super) fn values(
    nodes: Vec<Raw>,
    root: Id,
    aliases: bool,
    source: &Rc<str>,
    shifts: &Shifts,
) -> Result<Parsed> {
    let mut build = Build {
        copies: 0,
        aliases,
        seen: vec![Seen::default(); nodes.len()],
        nodes,
        source: source.clone(),
        shifts,
        path: Vec::new(),
        findings: Vec::new(),
    };
    let root = build.node(root)?;
    Ok(Parsed { root, findings: build.findings })
}

#[derive(Clone, Copy, Default)]
struct Seen {
    built: bool,
    underway: bool,
}

enum Step {
    Key(Id),
    Item(usize),
}

struct Build<'a> {
    nodes: Vec<Raw>,
    seen: Vec<Seen>,
    source: Rc<str>,
    shifts: &'a Shifts,
    /// From the root to the node that is being built; as long as that is deep.
    path: Vec<Step>,
    /// What aliases and merge keys have repeated so far.
    copies: usize,
    aliases: bool,
    findings: Vec<Finding>,
}

impl Build<'_> {
    fn mark(&self, id: Id) -> Mark {
        let Spot { line, column } = self.shifts.undo(self.nodes[id].at);
        Mark { source: Some(self.source.clone()), line, column }
    }

    fn bad<T>(&self, id: Id, message: impl Into<String>) -> Result<T> {
        bad(self.nodes[id].at, message)
    }

    /// What a node costs when an alias repeats it: texts count by their length.
    fn pay(&mut self, id: Id) -> Result<()> {
        let length = if let What::Scalar(text) = &self.nodes[id].what { text.len() } else { 0 };
        self.copies += 1 + length / 64;
        if self.copies > MOST_COPIES {
            return self.bad(id, "the aliases of this text repeat too much of it");
        }
        Ok(())
    }

    fn node(&mut self, id: Id) -> Result<Node> {
        if self.path.len() > MOST_DEPTH {
            return too_deep(self.nodes[id].at);
        }
        if self.seen[id].underway {
            return self.bad(id, "this value contains itself through an alias");
        }
        if self.seen[id].built {
            self.pay(id)?;
        }
        self.seen[id].underway = true;
        let value = match self.nodes[id].tag.clone() {
            Tag::Seq => self.seq(id),
            Tag::Map => self.map(id),
            Tag::Set => self.map(id).map(set),
            Tag::Omap | Tag::Pairs => self.pairs(id),
            tag => self.scalar(id, &tag),
        };
        self.seen[id] = Seen { built: true, underway: false };
        Ok(Node { value: value?, at: self.mark(id) })
    }

    fn scalar(&mut self, id: Id, tag: &Tag) -> Result<Value> {
        if matches!(tag, Tag::Other(_)) {
            return self.bad(id, scalar::unknown(tag));
        }
        let mut from = id;
        // A map with the key `=` stands for that key's value where a scalar is wanted.
        while let What::Map { pairs, .. } = &self.nodes[from].what {
            let default = pairs.iter().find(|(key, _)| self.nodes[*key].tag == Tag::Value);
            match default {
                Some((_, value)) if *value > from => from = *value,
                _ => break,
            }
        }
        // Keys are named in findings later on, and what has an alias is built again.
        let is_key = matches!(self.path.last(), Some(Step::Key(key)) if *key == id);
        let keep = is_key || self.aliases;
        match &mut self.nodes[from].what {
            What::Scalar(text) => {
                let text = if keep { text.clone() } else { std::mem::take(text) };
                scalar::value(tag, text).or_else(|message| self.bad(id, message))
            }
            other => {
                let message = format!("{} expects a scalar, found {}", tag.word(), other.kind());
                self.bad(from, message)
            }
        }
    }

    fn expects<T>(&self, id: Id, what: &str) -> Result<T> {
        let Raw { tag, what: found, .. } = &self.nodes[id];
        self.bad(id, format!("{} expects {what}, found {}", tag.word(), found.kind()))
    }

    fn seq(&mut self, id: Id) -> Result<Value> {
        let What::Seq(items) = &self.nodes[id].what else { return self.expects(id, "a list") };
        let items = items.clone();
        let mut values = Vec::with_capacity(items.len());
        for (i, item) in items.into_iter().enumerate() {
            self.path.push(Step::Item(i));
            values.push(self.node(item)?);
            self.path.pop();
        }
        Ok(Value::Seq(values))
    }

    /// A list of maps with one entry each, as a list of lists of two.
    fn pairs(&mut self, id: Id) -> Result<Value> {
        let What::Seq(items) = &self.nodes[id].what else { return self.expects(id, "a list") };
        let items = items.clone();
        let mut values = Vec::with_capacity(items.len());
        for (i, item) in items.into_iter().enumerate() {
            let pair = match &self.nodes[item].what {
                What::Map { pairs, .. } if pairs.len() == 1 => pairs[0],
                _ => return self.bad(item, "expected a map with one entry, as !!omap and !!pairs have them"),
            };
            self.path.push(Step::Item(i));
            let both = vec![self.node(pair.0)?, self.node(pair.1)?];
            self.path.pop();
            values.push(Node { value: Value::Seq(both), at: self.mark(item) });
        }
        Ok(Value::Seq(values))
    }

    fn map(&mut self, id: Id) -> Result<Value> {
        if !matches!(self.nodes[id].what, What::Map { .. }) {
            return self.expects(id, "a map");
        }
        self.flatten(id, 0)?;
        let What::Map { pairs, merged, .. } = &self.nodes[id].what else { return self.expects(id, "a map") };
        let (pairs, merged) = (pairs.clone(), *merged);
        let mut map = Map::with_capacity(pairs.len());
        let mut inherited = 0;
        let mut overridden = HashSet::new();
        for (i, (key_id, value_id)) in pairs.into_iter().enumerate() {
            if i == merged {
                inherited = map.len();
            }
            self.path.push(Step::Key(key_id));
            let key = self.node(key_id)?;
            if matches!(key.value, Value::Seq(_) | Value::Map(_) | Value::Set(_)) {
                return self.bad(key_id, format!("{} cannot be a key", key.kind()));
            }
            if key.as_str().is_some_and(|text| text.contains('\u{FEFF}')) {
                self.findings.push(Finding {
                    kind: Kind::Unknown,
                    at: self.mark(key_id),
                    key: self.dotted(),
                    message: "there is an invisible byte order mark (U+FEFF) in this key".into(),
                });
            }
            let there = map.place(&key);
            if i >= merged
                && let Some(place) = there
                && (place >= inherited || !overridden.insert(place))
            {
                self.duplicate(id, key_id, map.entry_at(place).map(|(key, _)| key));
            }
            let value = self.node(value_id)?;
            self.path.pop();
            map.put(there, key, value);
        }
        Ok(Value::Map(map))
    }

    /// Notes a key that is written twice, once for each place in the text.
    fn duplicate(&mut self, map: Id, key: Id, first: Option<&Node>) {
        if self.seen[map].built {
            return;
        }
        let line = first.map_or(0, |first| first.at.line);
        self.findings.push(Finding {
            kind: Kind::Duplicate,
            at: self.mark(key),
            key: self.dotted(),
            message: format!("written twice, first on line {line}; the last one counts"),
        });
    }

    fn dotted(&self) -> String {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Item(i) => path += &format!("[{i}]"),
                Step::Key(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    if let What::Scalar(text) = &self.nodes[*key].what {
                        path += &short(&text.replace('\u{FEFF}', ""));
                    }
                }
            }
        }
        path
    }

    /// Replaces merge keys by the pairs that they mean, before the map's own so that those win.
    fn flatten(&mut self, id: Id, depth: usize) -> Result<()> {
        let What::Map { pairs, flat, .. } = &mut self.nodes[id].what else { return Ok(()) };
        match flat {
            Flat::Yes => return Ok(()),
            Flat::Underway => return self.bad(id, "this map merges itself through an alias"),
            Flat::No => *flat = Flat::Underway,
        }
        if depth > MOST_DEPTH {
            return too_deep(self.nodes[id].at);
        }
        let written = std::mem::take(pairs);
        let mut own = Vec::with_capacity(written.len());
        let mut inherited = Vec::new();
        for (key, value) in written {
            match self.nodes[key].tag {
                Tag::Merge => self.merge_from(value, depth, &mut inherited)?,
                Tag::Value => {
                    self.nodes[key].tag = Tag::Str;
                    own.push((key, value));
                }
                _ => own.push((key, value)),
            }
        }
        let merged = inherited.len();
        inherited.append(&mut own);
        self.nodes[id].what = What::Map { pairs: inherited, merged, flat: Flat::Yes };
        Ok(())
    }

    /// The pairs of a merge key's value: of one map, or of a list of maps of which the first one wins.
    fn merge_from(&mut self, value: Id, depth: usize, into: &mut Vec<(Id, Id)>) -> Result<()> {
        let sources = match &self.nodes[value].what {
            What::Map { .. } => vec![value],
            What::Seq(items) => items.iter().rev().copied().collect(),
            What::Scalar(_) => return self.bad(value, "<< expects a map or a list of maps, found a scalar"),
        };
        for source in sources {
            if !matches!(self.nodes[source].what, What::Map { .. }) {
                let found = self.nodes[source].what.kind();
                return self.bad(source, format!("<< expects a list of maps, found {found} in it"));
            }
            self.flatten(source, depth + 1)?;
            self.copies += 1;
            if let What::Map { pairs, .. } = &self.nodes[source].what {
                self.copies += pairs.len();
                into.extend_from_slice(pairs);
            }
            if self.copies > MOST_COPIES {
                return self.bad(value, "the merge keys of this text repeat too much of it");
            }
        }
        Ok(())
    }
}

fn set(map: Value) -> Value {
    match map {
        Value::Map(map) => Value::Set(
            map.into_iter().map(|(key, value)| (key, Node { value: Value::Null, at: value.at })).collect(),
        ),
        other => other,
    }
}
