//! Typed reading of the structs that [`keys!`](crate::keys) declares, and of the plain types. Accepts more than the
//! tables of keys document, for compatibility with existing configurations.

use crate::schema::{self, DefaultValue, Deprecation, Type};
use crate::{FindingKind, Findings, Map, Node, Value, entry_name, push_key, unknown_key};

/// The name, the other spellings and the default of a key, for its reader.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// Other spellings.
    pub aliases: &'static [Alias],
    /// The value of a key that is not set.
    pub default: Option<&'static DefaultValue>,
    /// The deprecation of the key itself, if it is deprecated.
    pub deprecated: Option<&'static Deprecation>,
}

impl Key {
    /// Returns the key in all spellings.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().map(|alias| alias.name))
    }
}

/// Another spelling of a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alias {
    /// The spelling.
    pub name: &'static str,
    /// The deprecation of the spelling in favour of the key. If it has no version, the spelling is accepted without a
    /// finding.
    pub deprecated: Deprecation,
}

/// A type that can be read from a node.
pub trait FromNode: Sized {
    /// The types that are documented for a value. The reader may accept more.
    const SCHEMA: &'static [Type];
    /// Returns the value of a key that is not set. Without it, a key of this type must be set, unless it has a default.
    const ABSENT: Option<fn() -> Self> = None;
    /// Reads a value. An invalid one adds a finding to the reader and gives `None`.
    fn read(node: &Node, reader: &mut Reader) -> Option<Self>;
}

/// The current path, and the findings so far.
#[derive(Debug, Default)]
pub struct Reader {
    path: String,
    findings: Findings,
}

impl Reader {
    /// Returns a reader at the top of a document, without findings.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// Returns the findings in order.
    pub fn into_findings(self) -> Findings {
        self.findings
    }

    /// Reports an invalid value; `wanted` completes "expected …, found a list".
    pub fn report_type_error(&mut self, node: &Node, wanted: &str) {
        self.add_finding(FindingKind::Invalid, node, format!("expected {wanted}, found {}", node.shape()));
    }

    /// Reports an invalid value as [`Reader::report_type_error`] does, and returns `None`.
    pub fn type_error<T>(&mut self, node: &Node, wanted: &str) -> Option<T> {
        self.report_type_error(node, wanted);
        None
    }

    /// Returns the map, or reports a value of another type.
    pub fn map<'n>(&mut self, node: &'n Node, wanted: &str) -> Option<&'n Map> {
        node.as_map().or_else(|| self.type_error(node, wanted))
    }

    /// Returns the items of a list, or reports a value of another type.
    pub fn list<'n>(&mut self, node: &'n Node, wanted: &str) -> Option<&'n [Node]> {
        node.as_seq().or_else(|| self.type_error(node, wanted))
    }

    /// Reads the items of a list, each below its index.
    pub fn items<T>(&mut self, items: &[Node], mut read: impl FnMut(&Node, &mut Reader) -> T) -> Vec<T> {
        let read = |(i, item)| self.nested(&format!("[{i}]"), |reader| read(item, reader));
        items.iter().enumerate().map(read).collect()
    }

    /// Reads the entries of a map, each below its key: `read` gets the key's text, the key, the value and the reader.
    pub fn entries<'n, T>(
        &mut self,
        entries: impl IntoIterator<Item = (&'n Node, &'n Node)>,
        mut read: impl FnMut(&str, &Node, &Node, &mut Reader) -> T,
    ) -> Vec<T> {
        let read = |(key, value): (&Node, &Node)| {
            let name = key.scalar_text().unwrap_or_default();
            self.nested(&entry_name(key, value), |reader| read(&name, key, value, reader))
        };
        entries.into_iter().map(read).collect()
    }

    /// Reads the values of a map whose keys are names of the user's choice. Invalid ones are skipped.
    pub fn named<T: FromNode>(&mut self, node: &Node, wanted: &str) -> Option<Vec<(String, T)>> {
        let map = self.map(node, wanted)?;
        let read = |name: &str, _: &Node, value: &Node, reader: &mut Reader| {
            Some((name.into(), T::read(value, reader)?))
        };
        Some(self.entries(map.iter(), read).into_iter().flatten().collect())
    }

    /// Returns the findings of `read`, which are not added to those of this reader.
    pub fn trial(&mut self, read: impl FnOnce(&mut Reader)) -> Findings {
        let before = std::mem::take(&mut self.findings);
        read(self);
        std::mem::replace(&mut self.findings, before)
    }

    /// Adds the findings of a trial.
    pub fn add_findings(&mut self, findings: Findings) {
        self.findings.extend(findings);
    }

    /// Adds a finding about a value at the current path.
    pub fn add_finding(&mut self, kind: FindingKind, node: &Node, message: impl Into<String>) {
        self.findings.add(kind, &node.at, self.path.clone(), message);
    }

    /// Reads below a key or an index (`name` or `[3]`).
    pub fn nested<T>(&mut self, name: &str, read: impl FnOnce(&mut Reader) -> T) -> T {
        let old = self.path.len();
        push_key(&mut self.path, name);
        let value = read(self);
        self.path.truncate(old);
        value
    }

    /// Reads a key of a map under its name or the first of its other spellings that is set. A missing or invalid key gives
    /// its default, or `None` if it has none.
    pub fn key<T: FromNode>(&mut self, map: &Node, key: &Key) -> Option<T> {
        let read = match find_key(map, key) {
            Some((name, alias, node)) => self.nested(name, |reader| {
                reader.check_deprecated_spelling(key.deprecated.or(alias), node);
                T::read(node, reader)
            }),
            None => None,
        };
        if read.is_some() {
            return read;
        }
        let default = match key.default {
            Some(value) => T::read(&value.to_node(), &mut Reader::new()),
            None => T::ABSENT.map(|absent| absent()),
        };
        if default.is_none() && find_key(map, key).is_none() {
            self.report_missing(map, key);
        }
        default
    }

    fn check_deprecated_spelling(&mut self, deprecation: Option<&Deprecation>, node: &Node) {
        if let Some(old) = deprecation.filter(|old| !old.since.is_empty()) {
            self.add_finding(FindingKind::Deprecated, node, old.text(true));
        }
    }

    /// Adds the finding that the value has a deprecated form.
    pub fn report_deprecated_form(&mut self, node: &Node, form: &Deprecation) {
        self.add_finding(FindingKind::Deprecated, node, form.text(false));
    }

    /// Reports a required key that is missing.
    pub fn report_missing(&mut self, map: &Node, key: &Key) {
        self.nested(key.name, |reader| {
            reader.add_finding(FindingKind::Invalid, map, "required, but missing")
        });
    }

    /// Reports the keys of a map that its struct does not have.
    pub fn report_unknown_keys(&mut self, map: &Node, keys: &'static [Key]) {
        let Value::Map(entries) = &map.value else { return };
        for (key, value) in entries.iter() {
            let name = key.scalar_text().unwrap_or_default();
            let known =
                || keys.iter().flat_map(|k| std::iter::once(k.name).chain(k.aliases.iter().map(|a| a.name)));
            if known().any(|k| k == name) {
                continue;
            }
            let shown = entry_name(key, value);
            let hint = unknown_key(&shown, known());
            self.nested(&shown, |reader| reader.add_finding(FindingKind::Unknown, key, hint));
        }
    }
}

/// Returns the key as it is spelled in the map, with the deprecation of that spelling.
fn find_key<'n>(map: &'n Node, key: &Key) -> Option<(&'static str, Option<&'static Deprecation>, &'n Node)> {
    let own = map.get(key.name).map(|node| (key.name, None, node));
    own.or_else(|| {
        key.aliases.iter().find_map(|alias| Some((alias.name, Some(&alias.deprecated), map.get(alias.name)?)))
    })
}

impl FromNode for Node {
    const SCHEMA: &'static [Type] = &[schema::ANY];
    fn read(node: &Node, _: &mut Reader) -> Option<Node> {
        Some(node.clone())
    }
}

/// A boolean as upstream accepts it: also `"yes"`, `"on"`, `1` in quotes and their opposites; null is false.
impl FromNode for bool {
    const SCHEMA: &'static [Type] = &[schema::BOOL];
    fn read(node: &Node, reader: &mut Reader) -> Option<bool> {
        match &node.value {
            Value::Bool(b) => Some(*b),
            Value::Null => Some(false),
            Value::Int(n @ (0 | 1)) => Some(*n == 1),
            Value::Str(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "1" | "on" | "yes" => Some(true),
                "false" | "0" | "off" | "no" | "" => Some(false),
                _ => reader.type_error(node, "true or false"),
            },
            _ => reader.type_error(node, "true or false"),
        }
    }
}

impl FromNode for i64 {
    const SCHEMA: &'static [Type] = &[schema::INT];
    fn read(node: &Node, reader: &mut Reader) -> Option<i64> {
        let number = match &node.value {
            Value::Int(n) => i64::try_from(*n).ok(),
            Value::Str(text) => text.trim().parse().ok(),
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 1e15 => Some(*f as i64),
            _ => None,
        };
        number.or_else(|| reader.type_error(node, "an integer"))
    }
}

/// A number of seconds, also as text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seconds(pub f64);

impl FromNode for Seconds {
    const SCHEMA: &'static [Type] = &[schema::NUMBER.min(0)];
    fn read(node: &Node, reader: &mut Reader) -> Option<Seconds> {
        let number = match &node.value {
            Value::Int(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            Value::Str(text) => encoding::float::parse(text.trim()),
            _ => None,
        };
        // A string may be a number that is not finite.
        let seconds = number.filter(|number| number.is_finite() && *number >= 0.0).map(Seconds);
        seconds.or_else(|| reader.type_error(node, "a number of seconds"))
    }
}

/// Text; a number or boolean is converted as Python would print it.
impl FromNode for String {
    const SCHEMA: &'static [Type] = &[schema::STR];
    fn read(node: &Node, reader: &mut Reader) -> Option<String> {
        match &node.value {
            Value::Null | Value::Seq(_) | Value::Map(_) | Value::Set(_) => {
                reader.type_error(node, "a string")
            }
            _ => node.scalar_text(),
        }
    }
}

/// Text or arbitrary bytes (`!!binary`), for file contents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ByteString(pub Vec<u8>);

impl FromNode for ByteString {
    const SCHEMA: &'static [Type] = &[schema::STR];
    fn read(node: &Node, reader: &mut Reader) -> Option<ByteString> {
        match &node.value {
            Value::Bytes(bytes) => Some(ByteString(bytes.clone())),
            Value::Null => Some(ByteString::default()),
            _ => String::read(node, reader).map(|text| ByteString(text.into_bytes())),
        }
    }
}

/// A key that may be missing or null.
impl<T: FromNode> FromNode for Option<T> {
    const SCHEMA: &'static [Type] = T::SCHEMA;
    const ABSENT: Option<fn() -> Self> = Some(|| None);
    fn read(node: &Node, reader: &mut Reader) -> Option<Option<T>> {
        if node.is_null() { Some(None) } else { Some(T::read(node, reader)) }
    }
}

/// A list; a single value counts as a list of one, null and a missing key as an empty list. Items that cannot be
/// read are reported and skipped.
impl<T: FromNode> FromNode for Vec<T> {
    const SCHEMA: &'static [Type] = &[schema::list(T::SCHEMA)];
    const ABSENT: Option<fn() -> Self> = Some(Vec::new);
    fn read(node: &Node, reader: &mut Reader) -> Option<Vec<T>> {
        match &node.value {
            Value::Null => Some(Vec::new()),
            Value::Seq(items) => Some(reader.items(items, T::read).into_iter().flatten().collect()),
            _ => T::read(node, reader).map(|one| vec![one]),
        }
    }
}
