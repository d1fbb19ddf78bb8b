//! From events to values. First all nodes go into an arena in which an alias is the number of the node that it
//! means (`compose`); then the tree is built from it (`build`), which resolves tags, merge keys and duplicates.
//! Two passes because a merge key moves pairs between maps before anything is known of their values.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::events::{Event, Events, Problem, Properties, Spot};
use super::scalar::{self, Tag};
use super::{BadYaml, MOST_COPIES, MOST_DEPTH, Parsed};
use crate::{Finding, Kind, Map, Mark, Node, Value};

type Id = usize;

struct Raw {
    tag: Tag,
    at: Spot,
    what: What,
}

enum What {
    Scalar(String),
    Seq(Vec<Id>),
    Map {
        pairs: Vec<(Id, Id)>,
        /// How many of them, at the beginning, came from merge keys.
        merged: usize,
        /// Whether its merge keys have been resolved.
        flat: Flat,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flat {
    No,
    Underway,
    Yes,
}

impl What {
    fn kind(&self) -> &'static str {
        match self {
            What::Scalar(_) => "a scalar",
            What::Seq(_) => "a list",
            What::Map { .. } => "a map",
        }
    }
}

/// A complaint that does not know its file yet.
struct Bad(Spot, String);

type Result<T> = std::result::Result<T, Bad>;

pub(super) fn document(source: Rc<str>, text: &str) -> std::result::Result<Parsed, BadYaml> {
    let mut reader = Compose { nodes: Vec::new(), anchors: HashMap::new() };
    let read = reader.document(text).and_then(|root| {
        let Some(root) = root else { return Ok(Parsed::default()) };
        let mut build = Build {
            copies: 0,
            seen: vec![Seen::default(); reader.nodes.len()],
            nodes: reader.nodes,
            source: source.clone(),
            path: Vec::new(),
            findings: Vec::new(),
        };
        let root = build.node(root)?;
        Ok(Parsed { root, findings: build.findings })
    });
    read.map_err(|Bad(at, message)| BadYaml {
        at: Mark { source: Some(source), line: at.line, column: at.column },
        message,
    })
}

// --- events to nodes

struct Compose {
    nodes: Vec<Raw>,
    anchors: HashMap<Box<str>, Id>,
}

impl Compose {
    fn document(&mut self, text: &str) -> Result<Option<Id>> {
        let Some(mut events) = Events::new(text) else {
            return Err(Bad(Spot::default(), "no memory for reading it".into()));
        };
        if let (Event::StreamEnd, _) = next(&mut events)? {
            return Ok(None);
        }
        let (first, at) = next(&mut events)?;
        let root = self.node(&mut events, first, at, 0)?;
        next(&mut events)?;
        match next(&mut events)? {
            (Event::StreamEnd, _) => Ok(Some(root)),
            (_, at) => Err(Bad(at, "a second document begins here, only one is expected".into())),
        }
    }

    fn node(&mut self, events: &mut Events, event: Event, at: Spot, depth: usize) -> Result<Id> {
        if depth > MOST_DEPTH {
            return Err(too_deep(at));
        }
        match event {
            Event::Alias(name) => self.anchors.get(&name).copied().ok_or_else(|| {
                Bad(at, format!("alias '*{}' without an anchor of that name before it", short(&name)))
            }),
            Event::Scalar { props, text, plain } => {
                let tag = match &props.tag {
                    _ if plain => scalar::resolve(&text),
                    Some(tag) if &**tag != "!" => Tag::named(tag),
                    _ => Tag::Str,
                };
                self.add(props, Raw { tag, at, what: What::Scalar(text) })
            }
            Event::SequenceStart(props) => {
                let tag = tag_or(&props, Tag::Seq);
                let id = self.add(props, Raw { tag, at, what: What::Seq(Vec::new()) })?;
                let mut items = Vec::new();
                loop {
                    match next(events)? {
                        (Event::End, _) => break,
                        (event, at) => items.push(self.node(events, event, at, depth + 1)?),
                    }
                }
                self.nodes[id].what = What::Seq(items);
                Ok(id)
            }
            Event::MappingStart(props) => {
                let tag = tag_or(&props, Tag::Map);
                let empty = What::Map { pairs: Vec::new(), merged: 0, flat: Flat::No };
                let id = self.add(props, Raw { tag, at, what: empty })?;
                let mut all = Vec::new();
                loop {
                    match next(events)? {
                        (Event::End, _) => break,
                        (event, at) => {
                            let key = self.node(events, event, at, depth + 1)?;
                            let (event, at) = next(events)?;
                            all.push((key, self.node(events, event, at, depth + 1)?));
                        }
                    }
                }
                self.nodes[id].what = What::Map { pairs: all, merged: 0, flat: Flat::No };
                Ok(id)
            }
            Event::DocumentStart | Event::DocumentEnd | Event::StreamEnd | Event::End => {
                Err(Bad(at, "the text ends before the value does".into()))
            }
        }
    }

    /// A new node, known by its anchor from now on.
    fn add(&mut self, props: Properties, raw: Raw) -> Result<Id> {
        let id = self.nodes.len();
        if let Some(anchor) = props.anchor {
            if let Some(first) = self.anchors.get(&anchor) {
                let line = self.nodes[*first].at.line;
                let message = format!("anchor '&{}' is already in use, from line {line} on", short(&anchor));
                return Err(Bad(raw.at, message));
            }
            self.anchors.insert(anchor, id);
        }
        self.nodes.push(raw);
        Ok(id)
    }
}

fn tag_or(props: &Properties, default: Tag) -> Tag {
    match &props.tag {
        Some(tag) if &**tag != "!" => Tag::named(tag),
        _ => default,
    }
}

fn next(events: &mut Events) -> Result<(Event, Spot)> {
    events.next().map_err(|problem| Bad(problem.at, explain(&problem)))
}

/// The parser's own complaint, after what the user can do about the usual ones.
fn explain(problem: &Problem) -> String {
    let Problem { problem, context, .. } = problem;
    let hint = match *problem {
        "found character that cannot start any token" => {
            "a tab, @, ` or % cannot begin a value: indent with blanks and quote such text"
        }
        "did not find expected <document start>" => {
            "text after the end of the value; is the indentation right?"
        }
        "could not find expected ':'" => {
            "a key without its colon, or a text over several lines without quotes"
        }
        "mapping values are not allowed in this context" => {
            "a colon where no key can be: quote the text that holds it, or mind the indentation"
        }
        "did not find expected key" | "did not find expected '-' indicator" => {
            "the indentation fits no list or map that began above"
        }
        "control characters are not allowed" => "an unprintable character",
        "found unexpected end of stream" => "the text ends within a quoted value",
        _ => "not readable as YAML",
    };
    match *context {
        "" => format!("{hint} ({problem})"),
        context => format!("{hint} ({context}: {problem})"),
    }
}

fn too_deep(at: Spot) -> Bad {
    Bad(at, format!("nested more than {MOST_DEPTH} levels deep"))
}

fn short(name: &str) -> String {
    name.chars().take(64).collect()
}

// --- nodes to values

#[derive(Clone, Copy, Default)]
struct Seen {
    built: bool,
    underway: bool,
}

enum Step {
    Key(Id),
    Item(usize),
}

struct Build {
    nodes: Vec<Raw>,
    seen: Vec<Seen>,
    source: Rc<str>,
    /// From the root to the node that is being built; as long as that is deep.
    path: Vec<Step>,
    /// What aliases and merge keys have repeated so far.
    copies: usize,
    findings: Vec<Finding>,
}

impl Build {
    fn mark(&self, id: Id) -> Mark {
        let Spot { line, column } = self.nodes[id].at;
        Mark { source: Some(self.source.clone()), line, column }
    }

    fn bad<T>(&self, id: Id, message: impl Into<String>) -> Result<T> {
        Err(Bad(self.nodes[id].at, message.into()))
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
            return Err(too_deep(self.nodes[id].at));
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
            Tag::Set => self.map(id).map(nulls),
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
        match &self.nodes[from].what {
            What::Scalar(text) => {
                let text = text.clone();
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
        let mut map = Map::new();
        let mut inherited = 0;
        let mut overridden = HashSet::new();
        for (i, (key_id, value_id)) in pairs.into_iter().enumerate() {
            if i == merged {
                inherited = map.len();
            }
            self.path.push(Step::Key(key_id));
            let key = self.node(key_id)?;
            if matches!(key.value, Value::Seq(_) | Value::Map(_)) {
                return self.bad(key_id, format!("{} cannot be a key", key.kind()));
            }
            if i >= merged
                && let Some(place) = map.place(&key)
                && (place >= inherited || !overridden.insert(place))
            {
                self.duplicate(id, key_id, map.key_at(place));
            }
            let value = self.node(value_id)?;
            self.path.pop();
            map.insert(key, value);
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
                        path += &short(text);
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
            return Err(too_deep(self.nodes[id].at));
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

fn nulls(map: Value) -> Value {
    match map {
        Value::Map(map) => Value::Map(
            map.into_iter().map(|(key, value)| (key, Node { value: Value::Null, at: value.at })).collect(),
        ),
        other => other,
    }
}
