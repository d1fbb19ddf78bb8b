//! From events to nodes: all of them in one arena, in which an alias is the number of the node that it means. The
//! values are made from it by `build`, in a second pass because a merge key moves pairs between maps before anything
//! is known of their values.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use super::events::{Event, Events, Problem, Properties, Spot};
use super::scalar::{self, Tag};
use super::{BadYaml, MOST_DEPTH, MOST_NODES, Parsed, build};
use crate::Mark;

pub(super) type Id = usize;

pub(super) struct Raw {
    pub tag: Tag,
    pub at: Spot,
    pub what: What,
}

pub(super) enum What {
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
pub(super) enum Flat {
    No,
    Underway,
    Yes,
}

impl What {
    pub fn kind(&self) -> &'static str {
        match self {
            What::Scalar(_) => "a scalar",
            What::Seq(_) => "a list",
            What::Map { .. } => "a map",
        }
    }
}

/// A complaint that does not know its file yet.
pub(super) struct Bad {
    at: Spot,
    message: String,
    /// What the parser would take if it were written in another way, and where, in characters.
    repair: Option<(Repair, u64)>,
}

pub(super) type Result<T> = std::result::Result<T, Bad>;

pub(super) fn bad<T>(at: Spot, message: impl Into<String>) -> Result<T> {
    Err(Bad { at, message: message.into(), repair: None })
}

/// What the parser under us does not know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repair {
    /// `{a:[1]}` and `{a:}` are good for PyYAML; here a blank is wanted after such a colon.
    GluedColon,
    /// JSON writes letters beyond 16 bits as two escapes. PyYAML makes something of them that nothing can write.
    Surrogates,
}

/// How often a text is read again after a repair.
const MOST_REPAIRS: usize = 100;

pub(super) fn document(source: Rc<str>, text: &str) -> std::result::Result<Parsed, BadYaml> {
    let mut shifts = Shifts::default();
    let mut text = Cow::Borrowed(text);
    loop {
        let failed = match read(&source, &text, &shifts) {
            Ok(parsed) => return Ok(parsed),
            Err(failed) => failed,
        };
        let change = failed.repair.and_then(|(repair, index)| {
            let (at, _) = text.char_indices().nth(usize::try_from(index).ok()?)?;
            repaired(repair, &text, at)
        });
        match change {
            Some((range, new)) if shifts.0.len() < MOST_REPAIRS => {
                shifts.0.push((failed.at, new.len() as i64 - range.len() as i64));
                text.to_mut().replace_range(range, &new);
            }
            _ => {
                let Spot { line, column } = shifts.undo(failed.at);
                let at = Mark { source: Some(source), line, column };
                return Err(BadYaml { at, message: failed.message });
            }
        }
    }
}

/// Which bytes to replace by what, for a complaint about that byte.
fn repaired(repair: Repair, text: &str, at: usize) -> Option<(Range<usize>, String)> {
    match repair {
        Repair::GluedColon => text[at..].starts_with(':').then(|| (at + 1..at + 1, " ".to_string())),
        Repair::Surrogates => {
            // The place is that of the digits: `\u` stands before them and the other half behind.
            let code = |from: usize| u16::from_str_radix(text.get(from..from + 4)?, 16).ok();
            let pair = [code(at)?, code(at + 6).filter(|_| text.get(at + 4..at + 6) == Some("\\u"))?];
            let letter = char::decode_utf16(pair).next()?.ok()?;
            Some((at.checked_sub(2)?..at + 10, format!("\\U{:08X}", u32::from(letter))))
        }
    }
}

/// By how much what follows a repair on its line has moved, from left to right.
#[derive(Default)]
pub(super) struct Shifts(Vec<(Spot, i64)>);

impl Shifts {
    /// Where that was before.
    pub fn undo(&self, spot: Spot) -> Spot {
        let before = self.0.iter().filter(|(at, _)| at.line == spot.line && at.column < spot.column);
        let moved: i64 = before.map(|(_, by)| by).sum();
        Spot { column: u32::try_from(i64::from(spot.column) - moved).unwrap_or(1), ..spot }
    }
}

/// For so many nodes room is made before they are seen: some megabytes, of which only those count that are used.
const MOST_AT_ONCE: usize = 1 << 17;

fn read(source: &Rc<str>, text: &str, shifts: &Shifts) -> Result<Parsed> {
    // So many in most texts; what grows step by step leaves as much memory behind as it has.
    let nodes = Vec::with_capacity((text.len() / 8).min(MOST_AT_ONCE));
    let mut reader = Compose { nodes, anchors: HashMap::new(), aliases: false };
    let Some(root) = reader.document(text)? else { return Ok(Parsed::default()) };
    build::values(reader.nodes, root, reader.aliases, source, shifts)
}

// --- events to nodes

struct Compose {
    nodes: Vec<Raw>,
    anchors: HashMap<Box<str>, Id>,
    /// Whether any node is used more than once.
    aliases: bool,
}

impl Compose {
    fn document(&mut self, text: &str) -> Result<Option<Id>> {
        let Some(mut events) = Events::new(text) else {
            return bad(Spot::default(), "no memory for reading it");
        };
        if let (Event::StreamEnd, _) = next(&mut events)? {
            return Ok(None);
        }
        let (first, at) = next(&mut events)?;
        let root = self.node(&mut events, first, at, 0)?;
        next(&mut events)?;
        match next(&mut events)? {
            (Event::StreamEnd, _) => Ok(Some(root)),
            (_, at) => bad(at, "a second document begins here, only one is expected"),
        }
    }

    fn node(&mut self, events: &mut Events, event: Event, at: Spot, depth: usize) -> Result<Id> {
        if depth > MOST_DEPTH {
            return too_deep(at);
        }
        match event {
            Event::Alias(name) => match self.anchors.get(&name) {
                Some(id) => {
                    self.aliases = true;
                    Ok(*id)
                }
                None => {
                    bad(at, format!("alias '*{}' without an anchor of that name before it", short(&name)))
                }
            },
            Event::Scalar { props, text, plain } => {
                let tag = match &props.tag {
                    _ if plain => scalar::resolve(&text),
                    // A lone `!` takes the meaning from the form, even within quotes.
                    Some(tag) if &**tag == "!" => scalar::resolve(&text),
                    Some(tag) => Tag::named(tag),
                    None => Tag::Str,
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
                bad(at, "the text ends before the value does")
            }
        }
    }

    /// A new node, known by its anchor from now on.
    fn add(&mut self, props: Properties, raw: Raw) -> Result<Id> {
        let id = self.nodes.len();
        if id >= MOST_NODES {
            return bad(raw.at, format!("more than {MOST_NODES} values"));
        }
        if let Some(anchor) = props.anchor {
            if let Some(first) = self.anchors.get(&anchor) {
                let line = self.nodes[*first].at.line;
                let message = format!("anchor '&{}' is already in use, from line {line} on", short(&anchor));
                return bad(raw.at, message);
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
    events.next().map_err(|problem| Bad {
        at: problem.at,
        message: explain(&problem),
        repair: match problem.problem {
            "found unexpected ':'" => Some((Repair::GluedColon, problem.index)),
            "found invalid Unicode character escape code" => Some((Repair::Surrogates, problem.index)),
            _ => None,
        },
    })
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
        // Our own words, from `strict`.
        problem if context.is_empty() => return problem.to_string(),
        _ => "not readable as YAML",
    };
    match *context {
        "" => format!("{hint} ({problem})"),
        context => format!("{hint} ({context}: {problem})"),
    }
}

pub(super) fn too_deep<T>(at: Spot) -> Result<T> {
    bad(at, format!("nested more than {MOST_DEPTH} levels deep"))
}

pub(super) fn short(name: &str) -> String {
    name.chars().take(64).collect()
}
