//! Writes values as YAML text, byte for byte like PyYAML's safe dumper in block style, because other programs compare
//! and parse upstream's files. `quote` writes scalars of text.
//!
//! Differences from PyYAML: a value that was used twice through an alias is written twice, and dates are text.

use std::rc::Rc;

use super::limits::{MAX_BYTES, MAX_DEPTH, MAX_NODES};
use super::position::LineColumn;
use super::quote;
use super::scalar::{self, Tag};
use crate::{Map, Node, Position, Value};

/// Formatting options, which differ between upstream's files.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Spaces for each level.
    pub indent: usize,
    /// `---` before and `...` after the document.
    pub markers: bool,
    /// Keys in the order of their code points, else in that of the map.
    pub sorted: bool,
}

impl Style {
    /// As in cloud-config.txt and in what commands print.
    pub const DOCUMENT: Style = Style { indent: 4, markers: true, sorted: true };
    /// As in netplan's file.
    pub const PLAIN: Style = Style { indent: 4, markers: false, sorted: true };
}

/// Returns the text of a document with a final line break.
pub fn emit(node: &Node, style: Style) -> String {
    let mut emitter = Emitter::new(style);
    emitter.document(node);
    emitter.out
}

/// The text of a document behind `head`, which is of comments; and what [`super::parse`] makes of both, its places in
/// `source`, without the cost of that. `None` where it would refuse them.
pub fn emit_with_positions(source: &str, head: &str, node: &Node, style: Style) -> (String, Option<Node>) {
    let mut emitter = Emitter::new(style);
    emitter.out.push_str(head);
    emitter.line += head.matches('\n').count() as u32;
    let is_plain = !head.contains(|c| quote::is_break(c) && c != '\n' || c == '\r');
    let Some(mut read) = as_parsed(node, style.sorted, 0).filter(|_| is_plain) else {
        emitter.document(node);
        return (emitter.out, None);
    };
    emitter.style.sorted = false;
    emitter.positions = Some(Vec::new());
    emitter.document(&read);
    let positions = emitter.positions.unwrap_or_default();
    if emitter.out.len() > MAX_BYTES || positions.len() > MAX_NODES {
        return (emitter.out, None);
    }
    let source: Rc<str> = source.into();
    let mut positions = positions.into_iter();
    read.set_positions(&mut || {
        let LineColumn { line, column } = positions.next().unwrap_or_default();
        Position { source: Some(source.clone()), line, column }
    });
    (emitter.out, Some(read))
}

/// A copy in the order of writing. `None`: deeper than what can be read.
fn as_parsed(node: &Node, sorted: bool, depth: usize) -> Option<Node> {
    if depth > MAX_DEPTH {
        return None;
    }
    let below = |node| as_parsed(node, sorted, depth + 1);
    let value = match &node.value {
        Value::Seq(items) => Value::Seq(items.iter().map(below).collect::<Option<_>>()?),
        Value::Map(map) | Value::Set(map) => {
            let mut copy = Map::with_capacity(map.len());
            for (key, value) in sorted_entries(map, sorted) {
                copy.insert_at(None, below(key)?, below(value)?);
            }
            if matches!(node.value, Value::Set(_)) { Value::Set(copy) } else { Value::Map(copy) }
        }
        scalar => scalar.clone(),
    };
    Some(Node::from(value))
}

/// The pairs in the order of writing.
fn sorted_entries(map: &Map, sorted: bool) -> Vec<(&Node, &Node)> {
    let mut entries: Vec<(&Node, &Node)> = map.iter().collect();
    if sorted {
        sort_like_python(&mut entries);
    }
    entries
}

/// The text of a map with that one key, without markers: its value, which may be large, need not be put into one.
pub fn emit_entry(key: &str, node: &Node, style: Style) -> String {
    let mut emitter = Emitter::new(style);
    emitter.pair(&Node::from(key), node, 0);
    emitter.write_indent(0);
    emitter.out
}

/// The context of a value.
#[derive(Clone, Copy)]
pub(super) struct NodeContext {
    /// That of the collection around it; `None` for the document itself.
    pub indent: Option<usize>,
    pub role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// In a list, or the document.
    Item,
    /// A key on one line.
    Key,
    /// Behind a key, or a key that needs more than its line.
    Value,
}

/// The text so far, and what its last line looks like.
pub(super) struct Emitter {
    style: Style,
    pub out: String,
    /// From 1.
    line: u32,
    /// What is written is ASCII.
    pub column: usize,
    /// The last thing was a blank or a line break, none is needed before a word.
    pub after_blank: bool,
    /// Nothing but blanks and the signs `-`, `?` and `:` on this line.
    pub only_indicators: bool,
    /// Where the values and keys so far begin, for who asked for it.
    positions: Option<Vec<LineColumn>>,
}

/// Wider lines are folded at the next single blank.
pub(super) const WIDTH: usize = 80;

impl Emitter {
    fn new(style: Style) -> Emitter {
        Emitter {
            style,
            out: String::new(),
            line: 1,
            column: 0,
            after_blank: true,
            only_indicators: true,
            positions: None,
        }
    }

    pub fn write(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.len();
    }

    /// A sign of YAML's own, a blank before it if it needs one.
    pub fn write_indicator(&mut self, sign: &str, apart: bool) {
        if apart && !self.after_blank {
            self.write(" ");
        }
        self.write(sign);
        self.after_blank = false;
        self.only_indicators = false;
    }

    /// `-`, `?` or a `:` that begins a line: a collection may begin on the same line.
    fn write_block_indicator(&mut self, sign: &str) {
        let only_indicators = self.only_indicators;
        self.write_indicator(sign, true);
        self.only_indicators = only_indicators;
    }

    pub fn write_line_break(&mut self) {
        self.out.push('\n');
        self.line += 1;
        self.column = 0;
        self.after_blank = true;
        self.only_indicators = true;
    }

    /// Moves to that column: on this line if it is free up to there, otherwise on the next one.
    pub fn write_indent(&mut self, indent: usize) {
        if !self.only_indicators || self.column > indent || (self.column == indent && !self.after_blank) {
            self.write_line_break();
        }
        if self.column < indent {
            self.write(&" ".repeat(indent - self.column));
            self.after_blank = true;
        }
    }

    fn document(&mut self, node: &Node) {
        if self.style.markers {
            self.write_indicator("---", true);
        }
        let quoted = self.node(node, NodeContext { indent: None, role: Role::Item });
        self.write_indent(0);
        // A plain scalar alone could go on, were it not for the mark of its end.
        if self.style.markers || quoted == Some(false) {
            self.write_indicator("...", true);
            self.write_indent(0);
        }
    }

    /// A value begins here.
    fn record_position(&mut self) {
        if let Some(positions) = &mut self.positions {
            positions.push(LineColumn { line: self.line, column: self.column as u32 + 1 });
        }
    }

    /// A word begins here.
    fn begin_scalar(&mut self) {
        if !self.after_blank {
            self.write(" ");
            self.after_blank = true;
        }
        self.record_position();
    }

    fn child_indent(&self, context: NodeContext, first: usize) -> usize {
        context.indent.map_or(first, |indent| indent + self.style.indent)
    }

    /// For a scalar: whether it came to be quoted.
    fn node(&mut self, node: &Node, context: NodeContext) -> Option<bool> {
        match &node.value {
            Value::Seq(items) if items.is_empty() => {
                self.begin_scalar();
                self.write_indicator("[]", true);
            }
            Value::Map(map) if map.is_empty() => {
                self.begin_scalar();
                self.write_indicator("{}", true);
            }
            Value::Seq(items) => {
                // A list behind its key begins in the key's own column.
                let beside = context.role == Role::Value && !self.only_indicators;
                let indent = match context.indent {
                    Some(indent) if beside => indent,
                    _ => self.child_indent(context, 0),
                };
                self.write_indent(indent);
                self.record_position();
                for item in items {
                    self.write_indent(indent);
                    self.write_block_indicator("-");
                    self.node(item, NodeContext { indent: Some(indent), role: Role::Item });
                }
            }
            Value::Set(map) => {
                self.begin_scalar();
                self.write_indicator("!!set", true);
                match map.is_empty() {
                    true => self.write_indicator("{}", true),
                    false => self.pairs(map, self.child_indent(context, 0)),
                }
            }
            Value::Map(map) => {
                let indent = self.child_indent(context, 0);
                self.write_indent(indent);
                self.record_position();
                self.pairs(map, indent);
            }
            _ => {
                self.begin_scalar();
                return Some(self.scalar(node, context));
            }
        }
        None
    }

    fn pairs(&mut self, map: &Map, indent: usize) {
        let entries = sorted_entries(map, self.style.sorted);
        entries.into_iter().for_each(|(key, value)| self.pair(key, value, indent));
    }

    fn pair(&mut self, key: &Node, value: &Node, indent: usize) {
        self.write_indent(indent);
        let inner = |role| NodeContext { indent: Some(indent), role };
        if is_simple(key) {
            self.node(key, inner(Role::Key));
            self.write_indicator(":", false);
        } else {
            self.write_block_indicator("?");
            self.node(key, inner(Role::Value));
            self.write_indent(indent);
            self.write_block_indicator(":");
        }
        self.node(value, inner(Role::Value));
    }

    fn scalar(&mut self, node: &Node, context: NodeContext) -> bool {
        let indent = self.child_indent(context, self.style.indent);
        let split = context.role != Role::Key;
        match &node.value {
            Value::Str(text) => return quote::write_text(self, text, indent, split),
            Value::Bytes(bytes) if bytes.is_empty() => self.write_indicator("!!binary \"\"", true),
            Value::Bytes(bytes) => {
                self.write_indicator("!!binary |", true);
                for line in encoding::base64::encode(bytes).as_bytes().chunks(76) {
                    self.write_line_break();
                    self.write_indent(indent);
                    self.write(&String::from_utf8_lossy(line));
                }
                self.write_line_break();
            }
            _ => {
                self.write_indicator(&plain_scalar(node), true);
                return false;
            }
        }
        true
    }
}

/// Returns the plain form of a scalar that is not text.
fn plain_scalar(node: &Node) -> String {
    match &node.value {
        Value::Bool(b) => if *b { "true" } else { "false" }.into(),
        Value::Float(f) if f.is_nan() => ".nan".into(),
        Value::Float(f) if f.is_infinite() => if *f > 0.0 { ".inf" } else { "-.inf" }.into(),
        Value::Float(_) => {
            let text = node.scalar_text().unwrap_or_default();
            // YAML 1.1 wants the dot that Python leaves out.
            if text.contains('.') { text } else { text.replacen('e', ".0e", 1) }
        }
        Value::Int(n) => n.to_string(),
        _ => "null".into(),
    }
}

/// Whether a key needs no `?`: one line, not empty, and not long (its tag counts too).
fn is_simple(key: &Node) -> bool {
    const MAX_SIMPLE_KEY: usize = 128;
    match &key.value {
        Value::Str(text) => {
            !text.is_empty() && !quote::has_break(text) && text.chars().count() + 5 < MAX_SIMPLE_KEY
        }
        Value::Bytes(_) => false,
        _ => true,
    }
}

/// As Python compares: numbers with numbers, texts with texts; a mixture stays as it is.
fn sort_like_python(entries: &mut [(&Node, &Node)]) {
    use std::cmp::Ordering;
    let number = |node: &Node| match node.value {
        Value::Bool(b) => Some(f64::from(u8::from(b))),
        Value::Int(n) => Some(n as f64),
        Value::Float(f) => Some(f),
        _ => None,
    };
    let all = |sort: fn(&Value) -> bool| entries.iter().all(|(key, _)| sort(&key.value));
    if all(|v| matches!(v, Value::Bool(_) | Value::Int(_) | Value::Float(_))) {
        entries.sort_by(|(a, _), (b, _)| match (&a.value, &b.value) {
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            _ => number(a).partial_cmp(&number(b)).unwrap_or(Ordering::Equal),
        });
    } else if all(|v| matches!(v, Value::Str(_))) || all(|v| matches!(v, Value::Bytes(_))) {
        entries.sort_by(|(a, _), (b, _)| match (&a.value, &b.value) {
            (Value::Str(a), Value::Str(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            _ => Ordering::Equal,
        });
    }
}

/// Tells whether a plain scalar would be read back as text.
pub(super) fn reads_as_text(text: &str) -> bool {
    scalar::resolve(text) == Tag::Str
}
