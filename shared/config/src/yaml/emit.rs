//! Values to YAML text, laid out to the byte as PyYAML's safe dumper does with block style: upstream's files are
//! compared and parsed by others. Here is the structure, `quote` knows how a text is written.
//!
//! Where this differs from PyYAML: a value that was used twice through an alias is written twice, and a date that
//! was read from a text is a text.

use std::rc::Rc;

use super::events::Spot;
use super::scalar::{self, Tag};
use super::{MOST_BYTES, MOST_DEPTH, MOST_NODES, quote};
use crate::{Map, Mark, Node, Value};

/// What upstream varies between its files.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Blanks for each level.
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

/// The text of a document, with a line break at its end.
pub fn emit(node: &Node, style: Style) -> String {
    let mut page = Page::new(style);
    page.document(node);
    page.out
}

/// The text of a document behind `head`, which is of comments; and what [`super::parse`] makes of both, its places in
/// `source`, without the cost of that. `None` where it would refuse them.
pub fn emit_with_places(source: &str, head: &str, node: &Node, style: Style) -> (String, Option<Node>) {
    let mut page = Page::new(style);
    page.out.push_str(head);
    page.line += head.matches('\n').count() as u32;
    let is_plain = !head.contains(|c| quote::is_break(c) && c != '\n' || c == '\r');
    let Some(mut read) = as_read(node, style.sorted, 0).filter(|_| is_plain) else {
        page.document(node);
        return (page.out, None);
    };
    page.style.sorted = false;
    page.spots = Some(Vec::new());
    page.document(&read);
    let spots = page.spots.unwrap_or_default();
    if page.out.len() > MOST_BYTES || spots.len() > MOST_NODES {
        return (page.out, None);
    }
    let source: Rc<str> = source.into();
    let mut spots = spots.into_iter();
    read.mark_all(&mut || {
        let Spot { line, column } = spots.next().unwrap_or_default();
        Mark { source: Some(source.clone()), line, column }
    });
    (page.out, Some(read))
}

/// A copy in the order of writing. `None`: deeper than what can be read.
fn as_read(node: &Node, sorted: bool, depth: usize) -> Option<Node> {
    if depth > MOST_DEPTH {
        return None;
    }
    let below = |node| as_read(node, sorted, depth + 1);
    let value = match &node.value {
        Value::Seq(items) => Value::Seq(items.iter().map(below).collect::<Option<_>>()?),
        Value::Map(map) | Value::Set(map) => {
            let mut copy = Map::with_capacity(map.len());
            for (key, value) in ordered(map, sorted) {
                copy.put(None, below(key)?, below(value)?);
            }
            if matches!(node.value, Value::Set(_)) { Value::Set(copy) } else { Value::Map(copy) }
        }
        scalar => scalar.clone(),
    };
    Some(Node::from(value))
}

/// The pairs in the order of writing.
fn ordered(map: &Map, sorted: bool) -> Vec<(&Node, &Node)> {
    let mut entries: Vec<(&Node, &Node)> = map.iter().collect();
    if sorted {
        sort(&mut entries);
    }
    entries
}

/// The text of a map with that one key, without markers: its value, which may be large, need not be put into one.
pub fn emit_under(key: &str, node: &Node, style: Style) -> String {
    let mut page = Page::new(style);
    page.pair(&Node::from(key), node, 0);
    page.line_to(0);
    page.out
}

/// Where a value stands.
#[derive(Clone, Copy)]
pub(super) struct Place {
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
pub(super) struct Page {
    style: Style,
    pub out: String,
    /// From 1.
    line: u32,
    /// What is written is ASCII.
    pub column: usize,
    /// The last thing was a blank or a line break, none is needed before a word.
    pub blank: bool,
    /// Nothing but blanks and the signs `-`, `?` and `:` on this line.
    pub fresh: bool,
    /// Where the values and keys so far begin, for who asked for it.
    spots: Option<Vec<Spot>>,
}

/// Wider lines are folded at the next single blank.
pub(super) const WIDTH: usize = 80;

impl Page {
    fn new(style: Style) -> Page {
        Page { style, out: String::new(), line: 1, column: 0, blank: true, fresh: true, spots: None }
    }

    pub fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.len();
    }

    /// A sign of YAML's own, a blank before it if it needs one.
    pub fn sign(&mut self, sign: &str, apart: bool) {
        if apart && !self.blank {
            self.put(" ");
        }
        self.put(sign);
        self.blank = false;
        self.fresh = false;
    }

    /// `-`, `?` or a `:` that begins a line: a collection may begin on the same line.
    fn bullet(&mut self, sign: &str) {
        let fresh = self.fresh;
        self.sign(sign, true);
        self.fresh = fresh;
    }

    pub fn break_line(&mut self) {
        self.out.push('\n');
        self.line += 1;
        self.column = 0;
        self.blank = true;
        self.fresh = true;
    }

    /// Goes to that column: on this line if nothing stands there, else on the next one.
    pub fn line_to(&mut self, indent: usize) {
        if !self.fresh || self.column > indent || (self.column == indent && !self.blank) {
            self.break_line();
        }
        if self.column < indent {
            self.put(&" ".repeat(indent - self.column));
            self.blank = true;
        }
    }

    fn document(&mut self, node: &Node) {
        if self.style.markers {
            self.sign("---", true);
        }
        let quoted = self.node(node, Place { indent: None, role: Role::Item });
        self.line_to(0);
        // A plain scalar alone could go on, were it not for the mark of its end.
        if self.style.markers || quoted == Some(false) {
            self.sign("...", true);
            self.line_to(0);
        }
    }

    /// A value begins here.
    fn begin(&mut self) {
        if let Some(spots) = &mut self.spots {
            spots.push(Spot { line: self.line, column: self.column as u32 + 1 });
        }
    }

    /// A word begins here.
    fn word(&mut self) {
        if !self.blank {
            self.put(" ");
            self.blank = true;
        }
        self.begin();
    }

    fn deeper(&self, place: Place, first: usize) -> usize {
        place.indent.map_or(first, |indent| indent + self.style.indent)
    }

    /// For a scalar: whether it came to be quoted.
    fn node(&mut self, node: &Node, place: Place) -> Option<bool> {
        match &node.value {
            Value::Seq(items) if items.is_empty() => {
                self.word();
                self.sign("[]", true);
            }
            Value::Map(map) if map.is_empty() => {
                self.word();
                self.sign("{}", true);
            }
            Value::Seq(items) => {
                // A list behind its key begins in the key's own column.
                let beside = place.role == Role::Value && !self.fresh;
                let indent = match place.indent {
                    Some(indent) if beside => indent,
                    _ => self.deeper(place, 0),
                };
                self.line_to(indent);
                self.begin();
                for item in items {
                    self.line_to(indent);
                    self.bullet("-");
                    self.node(item, Place { indent: Some(indent), role: Role::Item });
                }
            }
            Value::Set(map) => {
                self.word();
                self.sign("!!set", true);
                match map.is_empty() {
                    true => self.sign("{}", true),
                    false => self.pairs(map, self.deeper(place, 0)),
                }
            }
            Value::Map(map) => {
                let indent = self.deeper(place, 0);
                self.line_to(indent);
                self.begin();
                self.pairs(map, indent);
            }
            _ => {
                self.word();
                return Some(self.scalar(node, place));
            }
        }
        None
    }

    fn pairs(&mut self, map: &Map, indent: usize) {
        let entries = ordered(map, self.style.sorted);
        entries.into_iter().for_each(|(key, value)| self.pair(key, value, indent));
    }

    fn pair(&mut self, key: &Node, value: &Node, indent: usize) {
        self.line_to(indent);
        let inner = |role| Place { indent: Some(indent), role };
        if is_simple(key) {
            self.node(key, inner(Role::Key));
            self.sign(":", false);
        } else {
            self.bullet("?");
            self.node(key, inner(Role::Value));
            self.line_to(indent);
            self.bullet(":");
        }
        self.node(value, inner(Role::Value));
    }

    fn scalar(&mut self, node: &Node, place: Place) -> bool {
        let indent = self.deeper(place, self.style.indent);
        let split = place.role != Role::Key;
        match &node.value {
            Value::Str(text) => return quote::text(self, text, indent, split),
            Value::Bytes(bytes) if bytes.is_empty() => self.sign("!!binary \"\"", true),
            Value::Bytes(bytes) => {
                self.sign("!!binary |", true);
                for line in base64(bytes).as_bytes().chunks(76) {
                    self.break_line();
                    self.line_to(indent);
                    self.put(&String::from_utf8_lossy(line));
                }
                self.break_line();
            }
            _ => {
                self.sign(&plain(node), true);
                return false;
            }
        }
        true
    }
}

/// The word for a scalar that is no text.
fn plain(node: &Node) -> String {
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
    const MOST: usize = 128;
    match &key.value {
        Value::Str(text) => !text.is_empty() && !quote::has_break(text) && text.chars().count() + 5 < MOST,
        Value::Bytes(_) => false,
        _ => true,
    }
}

/// As Python compares: numbers with numbers, texts with texts; a mixture stays as it is.
fn sort(entries: &mut [(&Node, &Node)]) {
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

/// Whether a plain text would read back as a text.
pub(super) fn reads_as_text(text: &str) -> bool {
    scalar::resolve(text) == Tag::Str
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= group.len() { char::from(letter) } else { '=' });
        }
    }
    out
}
