//! Constructs values from nodes: resolves tags, merge keys and aliases, and reports duplicate keys.

use std::collections::HashSet;
use std::rc::Rc;

use super::edits::ColumnShifts;
use super::limits::{MAX_COPIES, MAX_DEPTH};
use super::parsed::Parsed;
use super::position::LineColumn;
use super::scalar::{self, Tag};
use super::tree::{Content, Id, MergeState, RawNode, Result, error, too_deep};
use crate::{Finding, FindingKind, Map, Node, Position, Value, push_key};

/// Returns the value of the node `root`. `aliases` tells whether any node is used more than once.
///
/// # Errors
/// Fails for an invalid value of a tag, an alias cycle, and aliases that expand beyond the limit.
pub(super) fn values(
    nodes: Vec<RawNode>,
    root: Id,
    aliases: bool,
    source: &Rc<str>,
    shifts: &ColumnShifts<'_>,
) -> Result<Parsed> {
    let mut constructor = Constructor {
        copies: 0,
        aliases,
        states: vec![NodeState::default(); nodes.len()],
        nodes,
        source: source.clone(),
        shifts,
        path: Vec::new(),
        findings: Vec::new(),
    };
    let root = constructor.node(root)?;
    Ok(Parsed { root, findings: constructor.findings })
}

#[derive(Clone, Copy, Default)]
struct NodeState {
    constructed: bool,
    in_progress: bool,
}

enum PathStep {
    Key(Id),
    Item(usize),
}

struct Constructor<'a> {
    nodes: Vec<RawNode>,
    states: Vec<NodeState>,
    source: Rc<str>,
    shifts: &'a ColumnShifts<'a>,
    /// The path from the root to the current node.
    path: Vec<PathStep>,
    /// The cost of everything that aliases and merge keys have copied so far.
    copies: usize,
    aliases: bool,
    findings: Vec<Finding>,
}

impl Constructor<'_> {
    fn position(&self, id: Id) -> Position {
        let LineColumn { line, column } = self.shifts.original(self.nodes[id].at);
        Position { source: Some(self.source.clone()), line, column }
    }

    fn error<T>(&self, id: Id, message: impl Into<String>) -> Result<T> {
        error(self.nodes[id].at, message)
    }

    /// Adds the cost of copying a node; the cost of text depends on its length.
    fn count_copy(&mut self, id: Id) -> Result<()> {
        let length = if let Content::Scalar(text) = &self.nodes[id].content { text.len() } else { 0 };
        self.copies += 1 + length / 64;
        if self.copies > MAX_COPIES {
            return self.error(id, "aliases expand to too many values");
        }
        Ok(())
    }

    fn node(&mut self, id: Id) -> Result<Node> {
        if self.path.len() > MAX_DEPTH {
            return too_deep(self.nodes[id].at);
        }
        let state = &mut self.states[id];
        if state.in_progress {
            return self.error(id, "this value contains itself through an alias");
        }
        state.in_progress = true;
        if state.constructed {
            self.count_copy(id)?;
        }
        let value = match self.nodes[id].tag.clone() {
            Tag::Seq => self.seq(id),
            Tag::Map => self.map(id),
            Tag::Set => self.map(id).map(set),
            Tag::Omap | Tag::Pairs => self.pairs(id),
            tag => self.scalar(id, &tag),
        };
        self.states[id] = NodeState { constructed: true, in_progress: false };
        Ok(Node { value: value?, at: self.position(id) })
    }

    fn scalar(&mut self, id: Id, tag: &Tag) -> Result<Value> {
        if *tag == Tag::Other {
            return self.error(id, scalar::UNKNOWN_TAG);
        }
        let mut from = id;
        // A map with the key `=` stands for that key's value where a scalar is wanted.
        while let Content::Map { pairs, .. } = &self.nodes[from].content {
            let default = pairs.iter().find(|(key, _)| self.nodes[*key].tag == Tag::Value);
            match default {
                Some((_, value)) if *value > from => from = *value,
                _ => break,
            }
        }
        // Findings name keys later, and a node with an alias is constructed again.
        let is_key = matches!(self.path.last(), Some(PathStep::Key(key)) if *key == id);
        let keep = is_key || self.aliases;
        match &mut self.nodes[from].content {
            Content::Scalar(text) => {
                let text = if keep { text.clone() } else { std::mem::take(text) };
                scalar::construct(tag, text).or_else(|message| self.error(id, message))
            }
            other => {
                let message = format!("{} expects a scalar, found {}", tag.short_name(), other.kind());
                self.error(from, message)
            }
        }
    }

    fn expects<T>(&self, id: Id, what: &str) -> Result<T> {
        let RawNode { tag, content: found, .. } = &self.nodes[id];
        self.error(id, format!("{} expects {what}, found {}", tag.short_name(), found.kind()))
    }

    fn seq(&mut self, id: Id) -> Result<Value> {
        let keep = self.aliases;
        let Content::Seq(items) = &mut self.nodes[id].content else { return self.expects(id, "a list") };
        let items = if keep { items.clone() } else { std::mem::take(items) };
        let mut values = Vec::with_capacity(items.len());
        for (i, item) in items.into_iter().enumerate() {
            self.path.push(PathStep::Item(i));
            values.push(self.node(item)?);
            self.path.pop();
        }
        Ok(Value::Seq(values))
    }

    /// Returns a list of maps with one entry each as a list of pairs.
    fn pairs(&mut self, id: Id) -> Result<Value> {
        let Content::Seq(items) = &self.nodes[id].content else { return self.expects(id, "a list") };
        let items = items.clone();
        let mut values = Vec::with_capacity(items.len());
        for (i, item) in items.into_iter().enumerate() {
            let pair = match &self.nodes[item].content {
                Content::Map { pairs, .. } if pairs.len() == 1 => pairs[0],
                _ => {
                    return self.error(item, "expected a map with one entry, as in !!omap and !!pairs");
                }
            };
            self.path.push(PathStep::Item(i));
            let both = vec![self.node(pair.0)?, self.node(pair.1)?];
            self.path.pop();
            values.push(Node { value: Value::Seq(both), at: self.position(item) });
        }
        Ok(Value::Seq(values))
    }

    fn map(&mut self, id: Id) -> Result<Value> {
        if !matches!(self.nodes[id].content, Content::Map { .. }) {
            return self.expects(id, "a map");
        }
        self.flatten(id, 0)?;
        let keep = self.aliases;
        let Content::Map { pairs, merged, .. } = &mut self.nodes[id].content else {
            return self.expects(id, "a map");
        };
        let (pairs, merged) = (if keep { pairs.clone() } else { std::mem::take(pairs) }, *merged);
        let mut map = Map::with_capacity(pairs.len());
        let mut inherited = 0;
        let mut overridden = HashSet::new();
        for (i, (key_id, value_id)) in pairs.into_iter().enumerate() {
            if i == merged {
                inherited = map.len();
            }
            self.path.push(PathStep::Key(key_id));
            let key = self.node(key_id)?;
            if matches!(key.value, Value::Seq(_) | Value::Map(_) | Value::Set(_)) {
                return self.error(key_id, format!("{} cannot be a key", key.kind()));
            }
            if key.as_str().is_some_and(|text| !text.is_ascii() && text.contains('\u{FEFF}')) {
                self.findings.push(Finding {
                    kind: FindingKind::Unknown,
                    at: self.position(key_id),
                    key: self.dotted(),
                    message: "the key contains an invisible byte order mark (U+FEFF)".into(),
                });
            }
            let there = map.index_of(&key);
            if i >= merged
                && let Some(place) = there
                && (place >= inherited || !overridden.insert(place))
            {
                self.duplicate(id, key_id, map.get_index(place).map(|(key, _)| key));
            }
            let value = self.node(value_id)?;
            self.path.pop();
            map.insert_at(there, key, value);
        }
        Ok(Value::Map(map))
    }

    /// Reports a duplicate key, once for each place in the text.
    fn duplicate(&mut self, map: Id, key: Id, first: Option<&Node>) {
        if self.states[map].constructed {
            return;
        }
        let line = first.map_or(0, |first| first.at.line);
        self.findings.push(Finding {
            kind: FindingKind::Duplicate,
            at: self.position(key),
            key: self.dotted(),
            message: format!("duplicate key (first on line {line}); using the last value"),
        });
    }

    fn dotted(&self) -> String {
        let mut path = String::new();
        for step in &self.path {
            match step {
                PathStep::Item(i) => push_key(&mut path, &format!("[{i}]")),
                PathStep::Key(key) => {
                    if let Content::Scalar(text) = &self.nodes[*key].content {
                        push_key(&mut path, &text.replace('\u{FEFF}', ""));
                    }
                }
            }
        }
        path
    }

    /// Replaces merge keys by the pairs of their maps, placed before the map's own pairs, which take precedence.
    fn flatten(&mut self, id: Id, depth: usize) -> Result<()> {
        let Content::Map { pairs, merge_state, .. } = &mut self.nodes[id].content else { return Ok(()) };
        match merge_state {
            MergeState::Done => return Ok(()),
            MergeState::InProgress => return self.error(id, "this map merges itself through an alias"),
            MergeState::Pending => *merge_state = MergeState::InProgress,
        }
        if depth > MAX_DEPTH {
            return too_deep(self.nodes[id].at);
        }
        let written = std::mem::take(pairs);
        let is_ordinary = |(key, _): &(Id, Id)| !matches!(self.nodes[*key].tag, Tag::Merge | Tag::Value);
        if written.iter().all(is_ordinary) {
            self.nodes[id].content =
                Content::Map { pairs: written, merged: 0, merge_state: MergeState::Done };
            return Ok(());
        }
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
        self.nodes[id].content = Content::Map { pairs: inherited, merged, merge_state: MergeState::Done };
        Ok(())
    }

    /// Adds the pairs of a merge key's value: a map, or a list of maps of which the first takes precedence.
    fn merge_from(&mut self, value: Id, depth: usize, into: &mut Vec<(Id, Id)>) -> Result<()> {
        let sources = match &self.nodes[value].content {
            Content::Map { .. } => vec![value],
            Content::Seq(items) => items.iter().rev().copied().collect(),
            Content::Scalar(_) => {
                return self.error(value, "<< expects a map or a list of maps, found a scalar");
            }
        };
        for source in sources {
            if !matches!(self.nodes[source].content, Content::Map { .. }) {
                let found = self.nodes[source].content.kind();
                return self
                    .error(source, format!("<< expects a list of maps, found an item that is {found}"));
            }
            self.flatten(source, depth + 1)?;
            self.copies += 1;
            if let Content::Map { pairs, .. } = &self.nodes[source].content {
                self.copies += pairs.len();
                into.extend_from_slice(pairs);
            }
            if self.copies > MAX_COPIES {
                return self.error(value, "merge keys expand to too many values");
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
