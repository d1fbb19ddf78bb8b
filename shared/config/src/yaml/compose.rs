//! Composes the tree of a document from events. `construct` creates the values in a second pass, because merge keys
//! move pairs between maps before their values exist.

use std::collections::HashMap;
use std::rc::Rc;

use super::construct;
use super::edits::{ColumnShifts, Placeholders};
use super::events::{Event, Events, Properties};
use super::limits::{MAX_DEPTH, MAX_NODES};
use super::parsed::Parsed;
use super::position::{LineColumn, Problem};
use super::scalar::{self, Tag};
use super::tree::{ComposeError, Content, Id, MergeState, RawNode, Result, error, too_deep};

/// The largest number of nodes to preallocate: some megabytes, of which unused pages cost nothing.
const MAX_PREALLOCATED: usize = 1 << 17;

/// Parses a string in which `placeholders` replace characters, with positions before the `shifts`.
pub(super) fn read(
    source: &Rc<str>,
    text: &str,
    shifts: &ColumnShifts<'_>,
    placeholders: &Placeholders,
) -> Result<Parsed> {
    // Enough for most strings; growing the vector step by step would leave freed memory of the same size behind.
    let nodes = Vec::with_capacity((text.len() / 4).min(MAX_PREALLOCATED));
    let mut reader = Composer { nodes, anchors: HashMap::new(), aliases: false, shifts, placeholders };
    let Some(root) = reader.document(text)? else { return Ok(Parsed::default()) };
    construct::values(reader.nodes, root, reader.aliases, source, shifts)
}

struct Composer<'a> {
    nodes: Vec<RawNode>,
    shifts: &'a ColumnShifts<'a>,
    placeholders: &'a Placeholders,
    anchors: HashMap<Box<str>, Id>,
    /// Whether any node is used more than once.
    aliases: bool,
}

impl Composer<'_> {
    fn document(&mut self, text: &str) -> Result<Option<Id>> {
        let Some(mut events) = Events::new(text) else {
            return error(LineColumn::default(), "out of memory");
        };
        if let (Event::StreamEnd, _) = self.next(&mut events)? {
            return Ok(None);
        }
        let (first, at) = self.next(&mut events)?;
        let root = self.node(&mut events, first, at, 0)?;
        self.next(&mut events)?;
        match self.next(&mut events)? {
            (Event::StreamEnd, _) => Ok(Some(root)),
            (_, at) => error(at, "unexpected second document; expected only one"),
        }
    }

    fn node(&mut self, events: &mut Events, event: Event, at: LineColumn, depth: usize) -> Result<Id> {
        if depth > MAX_DEPTH {
            return too_deep(at);
        }
        match event {
            Event::Alias(name) => match self.anchors.get(&name) {
                Some(id) => {
                    self.aliases = true;
                    Ok(*id)
                }
                None => error(at, "undefined alias; quote a string that starts with '*'"),
            },
            Event::Scalar { props, text, plain } => {
                let text = self.placeholders.restore(text);
                let tag = match &props.tag {
                    _ if plain => scalar::resolve(&text),
                    // A lone `!` resolves the text like a plain scalar, even within quotes.
                    Some(tag) if &**tag == "!" => scalar::resolve(&text),
                    Some(tag) => Tag::from_name(tag),
                    None => Tag::Str,
                };
                self.add(props, RawNode { tag, at, content: Content::Scalar(text) })
            }
            Event::SequenceStart(props) => {
                let tag = tag_or(&props, Tag::Seq);
                let id = self.add(props, RawNode { tag, at, content: Content::Seq(Vec::new()) })?;
                let mut items = Vec::new();
                loop {
                    match self.next(events)? {
                        (Event::End, _) => break,
                        (event, at) => items.push(self.node(events, event, at, depth + 1)?),
                    }
                }
                self.nodes[id].content = Content::Seq(items);
                Ok(id)
            }
            Event::MappingStart(props) => {
                let tag = tag_or(&props, Tag::Map);
                let empty = Content::Map { pairs: Vec::new(), merged: 0, merge_state: MergeState::Pending };
                let id = self.add(props, RawNode { tag, at, content: empty })?;
                let mut all = Vec::new();
                loop {
                    match self.next(events)? {
                        (Event::End, _) => break,
                        (event, at) => {
                            let key = self.node(events, event, at, depth + 1)?;
                            let (event, at) = self.next(events)?;
                            all.push((key, self.node(events, event, at, depth + 1)?));
                        }
                    }
                }
                self.nodes[id].content =
                    Content::Map { pairs: all, merged: 0, merge_state: MergeState::Pending };
                Ok(id)
            }
            Event::DocumentStart | Event::DocumentEnd | Event::StreamEnd | Event::End => {
                error(at, "unexpected end of text")
            }
        }
    }

    fn next(&self, events: &mut Events) -> Result<(Event, LineColumn)> {
        events.next().map_err(|problem| ComposeError {
            at: problem.at,
            message: explain(&problem, self.shifts.original(problem.context_at)),
            offsets: Some((problem.context_index, problem.index)),
        })
    }

    /// Adds a node and registers its anchor.
    fn add(&mut self, props: Properties, raw: RawNode) -> Result<Id> {
        let id = self.nodes.len();
        if id >= MAX_NODES {
            return error(raw.at, format!("more than {MAX_NODES} values"));
        }
        if let Some(anchor) = props.anchor {
            if let Some(first) = self.anchors.get(&anchor) {
                let line = self.nodes[*first].at.line;
                let advice = "quote a string that starts with '&'";
                return error(raw.at, format!("this anchor is already defined on line {line}; {advice}"));
            }
            self.anchors.insert(anchor, id);
        }
        self.nodes.push(raw);
        Ok(id)
    }
}

fn tag_or(props: &Properties, default: Tag) -> Tag {
    match &props.tag {
        Some(tag) if &**tag != "!" => Tag::from_name(tag),
        _ => default,
    }
}

/// Returns advice for common problems, followed by the parser's own message.
fn explain(problem: &Problem, begun: LineColumn) -> String {
    let Problem { problem, context, .. } = problem;
    let LineColumn { line, column } = begun;
    match (*context, *problem) {
        ("while parsing a flow sequence", _) => {
            return format!("missing ',' or ']' in the list that starts on line {line}, column {column}");
        }
        ("while parsing a flow mapping", _) => {
            return format!("missing ',' or '}}' in the map that starts on line {line}, column {column}");
        }
        (_, "found unexpected end of stream" | "found unexpected document indicator")
            if !context.is_empty() =>
        {
            return format!("unclosed quotation mark (opened on line {line}, column {column})");
        }
        _ => {}
    }
    let hint = match *problem {
        "found character that cannot start any token" => {
            "a value cannot start with a tab, @, ` or %; indent with spaces and quote such strings"
        }
        "did not find expected <document start>" => {
            "unexpected content after the value; check the indentation"
        }
        "could not find expected ':'" => "missing ':' after a key, or multi-line string without quotes",
        "mapping values are not allowed in this context" => {
            "unexpected ':'; quote the value, fix the indentation, or put a blank after the ':' of the key before"
        }
        "did not find expected key" | "did not find expected '-' indicator" => {
            "indentation does not match any enclosing list or map"
        }
        "control characters are not allowed" => "an unprintable character",
        // Messages of `validator` are complete.
        problem if context.is_empty() => return problem.to_string(),
        _ => "invalid YAML",
    };
    match *context {
        "" => format!("{hint} ({problem})"),
        context => format!("{hint} ({context}: {problem})"),
    }
}
