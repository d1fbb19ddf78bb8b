//! Writes values as YAML text, byte for byte like PyYAML's safe dumper in block style, because other programs compare
//! and parse upstream's files. `quote` writes text scalars.
//!
//! Differences from PyYAML: a value that an alias used twice is written twice, and dates are text.

use std::rc::Rc;

use super::limits::{MAX_BYTES, MAX_DEPTH, MAX_NODES};
use super::position::LineColumn;
use super::quote;
use super::writer::Writer;
use crate::{Map, Node, Position, Value};

/// Formatting options, which differ between upstream's files.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Spaces for each level.
    pub indent: usize,
    /// Whether `---` precedes and `...` follows the document.
    pub markers: bool,
    /// Whether keys are sorted by code points; else they keep the order of the map.
    pub sorted: bool,
}

impl Style {
    /// The style of cloud-config.txt and of the output of commands.
    pub const DOCUMENT: Style = Style { indent: 4, markers: true, sorted: true };
    /// The style of netplan's files.
    pub const PLAIN: Style = Style { indent: 4, markers: false, sorted: true };
}

/// Returns the text of a document with a final line break.
pub fn emit(node: &Node, style: Style) -> String {
    let mut emitter = Emitter::new(style);
    emitter.document(node);
    emitter.writer.out
}

/// Returns the text of a document after `head` (comment lines), and the value that [`super::parse`] would return for both,
/// with positions in `source`, without parsing. The value is `None` if parsing would fail.
pub fn emit_with_positions(source: &str, head: &str, node: &Node, style: Style) -> (String, Option<Node>) {
    let mut emitter = Emitter::new(style);
    emitter.writer.write_head(head);
    let is_plain = !head.contains(|c| quote::is_break(c) && c != '\n' || c == '\r');
    let Some(mut read) = as_parsed(node, style.sorted, 0).filter(|_| is_plain) else {
        emitter.document(node);
        return (emitter.writer.out, None);
    };
    emitter.style.sorted = false;
    emitter.positions = Some(Vec::new());
    emitter.document(&read);
    let positions = emitter.positions.unwrap_or_default();
    if emitter.writer.out.len() > MAX_BYTES || positions.len() > MAX_NODES {
        return (emitter.writer.out, None);
    }
    let source: Rc<str> = source.into();
    let mut positions = positions.into_iter();
    read.set_positions(&mut || {
        let LineColumn { line, column } = positions.next().unwrap_or_default();
        Position { source: Some(source.clone()), line, column }
    });
    (emitter.writer.out, Some(read))
}

/// Returns a copy in the order of writing; `None` if it is nested more deeply than the parser accepts.
fn as_parsed(node: &Node, sorted: bool, depth: usize) -> Option<Node> {
    if depth > MAX_DEPTH {
        return None;
    }
    let nested = |node| as_parsed(node, sorted, depth + 1);
    let value = match &node.value {
        Value::Seq(items) => Value::Seq(items.iter().map(nested).collect::<Option<_>>()?),
        Value::Map(map) | Value::Set(map) => {
            let mut copy = Map::with_capacity(map.len());
            for (key, value) in sorted_entries(map, sorted) {
                copy.insert_at(None, nested(key)?, nested(value)?);
            }
            if matches!(node.value, Value::Set(_)) { Value::Set(copy) } else { Value::Map(copy) }
        }
        scalar => scalar.clone(),
    };
    Some(Node::from(value))
}

/// Returns the entries of a map in the order of writing.
fn sorted_entries(map: &Map, sorted: bool) -> Vec<(&Node, &Node)> {
    let mut entries: Vec<(&Node, &Node)> = map.iter().collect();
    if sorted {
        sort_like_python(&mut entries);
    }
    entries
}

/// Returns the text of a map with a single key, without markers. The value, which may be large, is not copied into a map.
pub fn emit_entry(key: &str, node: &Node, style: Style) -> String {
    let mut emitter = Emitter::new(style);
    emitter.pair(&Node::from(key), node, 0);
    emitter.writer.write_indent(0);
    emitter.writer.out
}

/// The context of a value.
#[derive(Clone, Copy)]
struct NodeContext {
    /// The indentation of the enclosing collection; `None` for the document itself.
    indent: Option<usize>,
    role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// An item of a list, or the document.
    Item,
    /// A key on a single line.
    Key,
    /// The value of a key, or a key that does not fit on a single line.
    Value,
}

struct Emitter {
    style: Style,
    writer: Writer,
    /// The positions of all keys and values, in the order of writing, if they are recorded.
    positions: Option<Vec<LineColumn>>,
}

impl Emitter {
    fn new(style: Style) -> Emitter {
        Emitter { style, writer: Writer::new(), positions: None }
    }

    fn document(&mut self, node: &Node) {
        if self.style.markers {
            self.writer.write_indicator("---", true);
        }
        let quoted = self.node(node, NodeContext { indent: None, role: Role::Item });
        self.writer.write_indent(0);
        // A plain scalar could continue on the next line; the marker ends it.
        if self.style.markers || quoted == Some(false) {
            self.writer.write_indicator("...", true);
            self.writer.write_indent(0);
        }
    }

    /// Records the position at which a value begins.
    fn record_position(&mut self) {
        if let Some(positions) = &mut self.positions {
            positions.push(self.writer.position());
        }
    }

    /// Begins a value that is written as a word, which needs a blank before it.
    fn begin_scalar(&mut self) {
        self.writer.write_blank();
        self.record_position();
    }

    fn child_indent(&self, context: NodeContext, first: usize) -> usize {
        context.indent.map_or(first, |indent| indent + self.style.indent)
    }

    /// Writes a value; returns for a scalar whether it was quoted.
    fn node(&mut self, node: &Node, context: NodeContext) -> Option<bool> {
        match &node.value {
            Value::Seq(items) if items.is_empty() => {
                self.begin_scalar();
                self.writer.write_indicator("[]", true);
            }
            Value::Map(map) if map.is_empty() => {
                self.begin_scalar();
                self.writer.write_indicator("{}", true);
            }
            Value::Seq(items) => {
                // The list of a key begins in the key's column.
                let is_value = context.role == Role::Value && !self.writer.only_indicators;
                let indent = match context.indent {
                    Some(indent) if is_value => indent,
                    _ => self.child_indent(context, 0),
                };
                self.writer.write_indent(indent);
                self.record_position();
                for item in items {
                    self.writer.write_indent(indent);
                    self.writer.write_block_indicator("-");
                    self.node(item, NodeContext { indent: Some(indent), role: Role::Item });
                }
            }
            Value::Set(map) => {
                self.begin_scalar();
                self.writer.write_indicator("!!set", true);
                match map.is_empty() {
                    true => self.writer.write_indicator("{}", true),
                    false => self.pairs(map, self.child_indent(context, 0)),
                }
            }
            Value::Map(map) => {
                let indent = self.child_indent(context, 0);
                self.writer.write_indent(indent);
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
        self.writer.write_indent(indent);
        let inner = |role| NodeContext { indent: Some(indent), role };
        if is_simple(key) {
            self.node(key, inner(Role::Key));
            self.writer.write_indicator(":", false);
        } else {
            self.writer.write_block_indicator("?");
            self.node(key, inner(Role::Value));
            self.writer.write_indent(indent);
            self.writer.write_block_indicator(":");
        }
        self.node(value, inner(Role::Value));
    }

    fn scalar(&mut self, node: &Node, context: NodeContext) -> bool {
        let indent = self.child_indent(context, self.style.indent);
        let split = context.role != Role::Key;
        match &node.value {
            Value::Str(text) => return quote::write_text(&mut self.writer, text, indent, split),
            Value::Bytes(bytes) if bytes.is_empty() => self.writer.write_indicator("!!binary \"\"", true),
            Value::Bytes(bytes) => {
                self.writer.write_indicator("!!binary |", true);
                for line in encoding::base64::encode(bytes).as_bytes().chunks(76) {
                    self.writer.write_line_break();
                    self.writer.write_indent(indent);
                    self.writer.write(&String::from_utf8_lossy(line));
                }
                self.writer.write_line_break();
            }
            _ => {
                self.writer.write_indicator(&plain_scalar(node), true);
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
            // YAML 1.1 requires the dot that Python omits.
            if text.contains('.') { text } else { text.replacen('e', ".0e", 1) }
        }
        Value::Int(n) => n.to_string(),
        _ => "null".into(),
    }
}

/// Returns whether a key needs no `?`: it is a short single line (the limit includes its tag) and not empty.
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

/// Sorts entries as Python compares keys: numbers with numbers, strings with strings. A mixture keeps its order.
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
        sort::sort_by(entries, |(a, _), (b, _)| match (&a.value, &b.value) {
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            _ => number(a).partial_cmp(&number(b)).unwrap_or(Ordering::Equal),
        });
    } else if all(|v| matches!(v, Value::Str(_))) || all(|v| matches!(v, Value::Bytes(_))) {
        sort::sort_by(entries, |(a, _), (b, _)| match (&a.value, &b.value) {
            (Value::Str(a), Value::Str(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            _ => Ordering::Equal,
        });
    }
}
