//! Composes nodes from events, in one arena in which an alias is the index of its target. `construct` creates the
//! values in a second pass, because merge keys move pairs between maps before their values exist.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use super::events::{Event, Events, LineColumn, Problem, Properties};
use super::scalar::{self, Tag};
use super::{MAX_DEPTH, MAX_NODES, Parsed, YamlError, construct};
use crate::Position;

pub(super) type Id = usize;

pub(super) struct RawNode {
    pub tag: Tag,
    pub at: LineColumn,
    pub content: Content,
}

pub(super) enum Content {
    Scalar(String),
    Seq(Vec<Id>),
    Map {
        pairs: Vec<(Id, Id)>,
        /// How many of them, at the beginning, came from merge keys.
        merged: usize,
        /// Whether its merge keys have been resolved.
        merge_state: MergeState,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MergeState {
    Pending,
    InProgress,
    Done,
}

impl Content {
    pub fn kind(&self) -> &'static str {
        match self {
            Content::Scalar(_) => "a scalar",
            Content::Seq(_) => "a list",
            Content::Map { .. } => "a map",
        }
    }
}

/// An error at a position; the file name is added later.
pub(super) struct ComposeError {
    at: LineColumn,
    message: String,
    /// A change that would let the parser accept the text, and its offset in characters.
    repair: Option<(Repair, u64)>,
}

pub(super) type Result<T> = std::result::Result<T, ComposeError>;

pub(super) fn error<T>(at: LineColumn, message: impl Into<String>) -> Result<T> {
    Err(ComposeError { at, message: message.into(), repair: None })
}

/// Valid input that the underlying parser rejects.
#[derive(Clone, Copy)]
enum Repair {
    /// PyYAML accepts `{a:[1]}` and `{a:}`; the parser requires a space after the colon.
    GluedColon,
    /// JSON writes characters beyond 16 bits as two surrogate escapes. PyYAML turns them, and lone surrogates, into
    /// strings that cannot be encoded.
    Surrogates,
    /// A block scalar whose first line starts with a tab after the indentation.
    Tab,
    /// `[?, a]`: the parser treats the comma as part of the key.
    EmptyKey,
}

/// The number of times that a text is parsed again after a repair; small texts have a higher limit.
const MAX_REPAIRS: usize = 100;
const MAX_REPAIRS_OF_SMALL: usize = 2000;
const MAX_REREAD_BYTES: usize = 4 << 20;
/// The number of places to try for an empty key.
const MAX_CANDIDATES: usize = 20;

/// Characters that the parser would treat specially, and their placeholders while it runs.
#[derive(Default)]
struct Placeholders(Vec<(char, char)>);

impl Placeholders {
    /// Returns a placeholder: a character that neither YAML nor this text uses.
    fn add(&mut self, text: &str, real: char) -> Option<char> {
        if let Some((placeholder, _)) = self.0.iter().find(|(_, of)| *of == real) {
            return Some(*placeholder);
        }
        let placeholder =
            ('\u{E000}'..='\u{F8FF}').find(|c| !text.contains(*c) && self.0.iter().all(|(s, _)| s != c))?;
        self.0.push((placeholder, real));
        Some(placeholder)
    }

    fn undo(&self, text: String) -> String {
        self.0.iter().fold(text, |text, (placeholder, real)| match text.contains(*placeholder) {
            true => text.replace(*placeholder, real.encode_utf8(&mut [0; 4])),
            false => text,
        })
    }
}

/// A byte order mark at the start of a text; elsewhere it is an ordinary character.
const BYTE_ORDER_MARK: char = '\u{FEFF}';

pub(super) fn document(source: Rc<str>, whole: &str) -> std::result::Result<Parsed, YamlError> {
    let mut shifts = ColumnShifts::default();
    let mut placeholders = Placeholders::default();
    let mut text = Cow::Borrowed(whole);
    if text.contains(BYTE_ORDER_MARK)
        && let Some(placeholder) = placeholders.add(&text, BYTE_ORDER_MARK)
    {
        text = text.replace(BYTE_ORDER_MARK, placeholder.encode_utf8(&mut [0; 4])).into();
    }
    let (mut repairs, mut reread, mut last) = (0, 0, None);
    loop {
        let failed = match read(&source, &text, &shifts, &placeholders) {
            Ok(parsed) => return Ok(parsed),
            Err(failed) => failed,
        };
        repairs += 1;
        reread += text.len();
        let is_cheap = repairs <= MAX_REPAIRS_OF_SMALL && reread <= MAX_REREAD_BYTES;
        // Do not repeat a repair that did not help.
        let place = failed.repair.map(|(_, index)| index);
        let goes_on = (repairs <= MAX_REPAIRS || is_cheap) && place > last;
        last = last.max(place);
        let change = failed.repair.filter(|_| goes_on).and_then(|(repair, index)| {
            let at = text.char_indices().nth(usize::try_from(index).ok()?).map_or(text.len(), |(at, _)| at);
            let edits: Vec<Edit> = match repair {
                Repair::EmptyKey => {
                    let mut tried = empty_key_candidates(&text, at).into_iter().take(MAX_CANDIDATES);
                    let helps = |place: &usize| {
                        let other = [&text[..*place], " :", &text[*place..]].concat();
                        reread += other.len();
                        let here = failed.at;
                        match read(&source, &other, &shifts, &placeholders) {
                            Ok(_) => true,
                            Err(other) => {
                                other.at > here && other.at != LineColumn { column: here.column + 2, ..here }
                            }
                        }
                    };
                    tried.find(helps).map(|place| (place..place, " :".to_string())).into_iter().collect()
                }
                Repair::Tab => {
                    let placeholder =
                        placeholders.add(&text, '\t').filter(|_| text[at..].starts_with('\t'))?;
                    vec![(at..at + 1, placeholder.to_string())]
                }
                Repair::GluedColon if text[at..].starts_with(':') => vec![(at + 1..at + 1, " ".to_string())],
                Repair::GluedColon => Vec::new(),
                Repair::Surrogates => surrogate_edits(&text, at),
            };
            (!edits.is_empty()).then_some(edits)
        });
        match change {
            Some(edits) => text = apply_edits(&text, &edits, &mut shifts).into(),
            None => {
                let LineColumn { line, column } = shifts.undo(failed.at);
                let at = Position { source: Some(source), line, column };
                let mut message = failed.message;
                if let Some(place) = whole.find(BYTE_ORDER_MARK) {
                    let line = super::events::line_column_of(whole, place).line;
                    message += &format!("; an invisible byte order mark (U+FEFF) is on line {line}");
                }
                return Err(YamlError { at, message });
            }
        }
    }
}

/// A range of bytes and its replacement.
type Edit = (Range<usize>, String);

fn apply_edits(text: &str, edits: &[Edit], shifts: &mut ColumnShifts) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut from = 0;
    let mut spot = LineColumn { line: 1, column: 1 };
    let mut moved = Vec::new();
    for (range, new) in edits {
        let between = &text[from..range.start];
        let LineColumn { line, column } = super::events::line_column_of(between, between.len());
        spot = match line {
            1 => LineColumn { line: spot.line, column: spot.column + column - 1 },
            line => LineColumn { line: spot.line + line - 1, column },
        };
        let (before, after) = (text[range.clone()].chars().count(), new.chars().count());
        if before != after {
            moved.push((spot, after as i64 - before as i64));
        }
        spot.column += after as u32;
        out.push_str(between);
        out.push_str(new);
        from = range.end;
    }
    out.push_str(&text[from..]);
    shifts.add(moved);
    out
}

/// Returns the offsets after each `?` before `at` where a key may be missing, nearest first.
fn empty_key_candidates(text: &str, at: usize) -> Vec<usize> {
    let is_one = |place: &usize| {
        let before = text[..*place].trim_end();
        let after = text[place + 1..].trim_start();
        before.ends_with(['[', ',']) && after.starts_with([',', ']'])
    };
    text[..at].rmatch_indices('?').map(|(place, _)| place).filter(is_one).map(|place| place + 1).collect()
}

/// Returns the edits for surrogate escapes from `at` on, which is after the first one's `\u` or `\U`: in the enclosing
/// quoted scalar and in those that follow it, separated by flow indicators only, as in JSON.
fn surrogate_edits(text: &str, at: usize) -> Vec<Edit> {
    let is_half = |unit: &u32| (0xD800..0xE000).contains(unit);
    let code = |from: usize, digits: usize| {
        u32::from_str_radix(text.get(from..from + digits)?, 16).ok().filter(is_half)
    };
    let mut found = Vec::new();
    let Some(mut i) = at.checked_sub(2) else { return found };
    while let Some(c) = text.get(i..).and_then(|rest| rest.chars().next()) {
        let escape = if c == '\\' { text[i + 1..].chars().next() } else { None };
        match (c, escape) {
            (_, Some('u')) => {
                let units =
                    [code(i + 2, 4), code(i + 8, 4).filter(|_| text.get(i + 6..i + 8) == Some("\\u"))];
                let [Some(first), second] = units else {
                    i += 2;
                    continue;
                };
                let letter =
                    char::decode_utf16([Some(first), second].into_iter().flatten().map(|unit| unit as u16))
                        .next();
                let (end, new) = match letter {
                    Some(Ok(letter)) => (i + 12, format!("\\U{:08X}", u32::from(letter))),
                    _ => (i + 6, "\\uFFFD".to_string()),
                };
                found.push((i..end, new));
                i = end;
            }
            (_, Some('U')) if code(i + 2, 8).is_some() => {
                found.push((i..i + 10, "\\uFFFD".to_string()));
                i += 10;
            }
            (_, Some(escaped)) => i += 1 + escaped.len_utf8(),
            ('"', _) => {
                let rest = &text[i + 1..];
                let next = rest.trim_start_matches([' ', '\t', '\r', '\n', ',', ':', '[', ']', '{', '}']);
                if !next.starts_with('"') {
                    break;
                }
                i += 1 + rest.len() - next.len() + 1;
            }
            (other, _) => i += other.len_utf8(),
        }
    }
    found
}

/// The column shifts that repairs cause on the rest of their line, in order of position; each entry is the cumulative
/// shift on its line.
#[derive(Default)]
pub(super) struct ColumnShifts(Vec<(LineColumn, i64)>);

impl ColumnShifts {
    fn add(&mut self, new: Vec<(LineColumn, i64)>) {
        let mut line = 0;
        let mut sum = 0;
        // Turn cumulative shifts into single ones, add the new ones, sort, and sum up again.
        for (at, by) in &mut self.0 {
            if at.line != line {
                (line, sum) = (at.line, 0);
            }
            *by -= sum;
            sum += *by;
        }
        self.0.extend(new);
        self.0.sort_by_key(|(at, _)| *at);
        line = 0;
        for (at, by) in &mut self.0 {
            if at.line != line {
                (line, sum) = (at.line, 0);
            }
            sum += *by;
            *by = sum;
        }
    }

    /// Returns the position before the repairs.
    pub fn undo(&self, spot: LineColumn) -> LineColumn {
        let before = self.0.partition_point(|(at, _)| *at < spot);
        let last = before.checked_sub(1).and_then(|last| self.0.get(last));
        let moved = last.filter(|(at, _)| at.line == spot.line).map_or(0, |(_, sum)| *sum);
        LineColumn { column: u32::try_from(i64::from(spot.column) - moved).unwrap_or(1), ..spot }
    }
}

/// The largest number of nodes to preallocate: some megabytes, of which unused pages cost nothing.
const MAX_PREALLOCATED: usize = 1 << 17;

fn read(source: &Rc<str>, text: &str, shifts: &ColumnShifts, placeholders: &Placeholders) -> Result<Parsed> {
    // Enough for most texts; growing the vector step by step would leave freed memory of the same size behind.
    let nodes = Vec::with_capacity((text.len() / 8).min(MAX_PREALLOCATED));
    let mut reader = Composer { nodes, anchors: HashMap::new(), aliases: false, shifts, placeholders };
    let Some(root) = reader.document(text)? else { return Ok(Parsed::default()) };
    construct::values(reader.nodes, root, reader.aliases, source, shifts)
}

// --- events to nodes

struct Composer<'a> {
    nodes: Vec<RawNode>,
    shifts: &'a ColumnShifts,
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
                None => error(at, format!("undefined alias '*{}'", short(&name))),
            },
            Event::Scalar { props, text, plain } => {
                let text = self.placeholders.undo(text);
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
            message: explain(&problem, self.shifts.undo(problem.context_at)),
            repair: match problem.problem {
                "found unexpected ':'" => Some((Repair::GluedColon, problem.index)),
                "found invalid Unicode character escape code" => Some((Repair::Surrogates, problem.index)),
                // Folding, which such a tab would change, is not repaired.
                "found a tab character where an indentation space is expected"
                    if events.is_at(problem.context_index, '|') =>
                {
                    Some((Repair::Tab, problem.index))
                }
                "did not find expected ',' or ']'" => Some((Repair::EmptyKey, problem.index)),
                _ => None,
            },
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
                let message = format!("anchor '&{}' is already defined on line {line}", short(&anchor));
                return error(raw.at, message);
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
            "a value cannot start with a tab, @, ` or %; indent with spaces and quote such text"
        }
        "did not find expected <document start>" => "unexpected text after the value; check the indentation",
        "could not find expected ':'" => "missing ':' after a key, or multi-line text without quotes",
        "mapping values are not allowed in this context" => {
            "unexpected ':'; quote the value or fix the indentation"
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

pub(super) fn too_deep<T>(at: LineColumn) -> Result<T> {
    error(at, format!("nested more than {MAX_DEPTH} levels deep"))
}

pub(super) fn short(name: &str) -> String {
    name.chars().take(64).collect()
}
