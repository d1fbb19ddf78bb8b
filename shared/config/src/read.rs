//! Typed reading: a struct of keys is declared once with [`keys!`](crate::keys), and from that one place come
//! the reader, the checks with positions, and the table that the schema is made from.

use crate::{Findings, Kind, Node, Value, nearest};

/// What a key takes, for messages and the schema.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    Any,
    Bool,
    Int,
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    List(&'static Shape),
    Map(&'static [Key]),
    /// A map whose keys the user chooses.
    Named(&'static Shape),
    Either(&'static [Shape]),
}

/// One key of a struct.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    pub name: &'static str,
    pub doc: &'static str,
    pub shape: Shape,
    /// Older spellings, and the version that deprecated each (empty: still fine).
    pub also: &'static [(&'static str, &'static str)],
}

/// The place that is being read, and what was found there.
#[derive(Debug, Default)]
pub struct Reader {
    path: String,
    findings: Findings,
}

impl Reader {
    pub fn new() -> Reader {
        Reader::default()
    }

    /// What was remarked, in the order of reading.
    pub fn into_findings(self) -> Findings {
        self.findings
    }

    /// Notes that the value cannot be used; `wanted` completes "expected …, found a list".
    pub fn wrong<T>(&mut self, node: &Node, wanted: &str) -> Option<T> {
        self.note(Kind::Wrong, node, format!("expected {wanted}, found {}", node.kind()));
        None
    }

    /// Adds a remark on a value at the path that is being read.
    pub fn note(&mut self, kind: Kind, node: &Node, message: impl Into<String>) {
        self.findings.add(kind, &node.at, self.path.clone(), message);
    }

    /// Reads below a key or an index (`name` or `[3]`).
    pub fn below<T>(&mut self, name: &str, read: impl FnOnce(&mut Reader) -> T) -> T {
        let old = self.path.len();
        if old > 0 && !name.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(name);
        let value = read(self);
        self.path.truncate(old);
        value
    }

    /// Reads one key of a map under its name or one of its older spellings (the first that is there).
    pub fn key<T: FromNode>(&mut self, map: &Node, key: &Key) -> Option<T> {
        let found = map.get(key.name).map(|n| (key.name, "", n));
        let found =
            found.or_else(|| key.also.iter().find_map(|(name, since)| Some((*name, *since, map.get(name)?))));
        let Some((name, since, node)) = found else { return T::absent() };
        self.below(name, |reader| {
            if !since.is_empty() {
                let message = format!("deprecated since {since}, use '{}' instead", key.name);
                reader.note(Kind::Deprecated, node, message);
            }
            T::read(node, reader)
        })
    }

    /// Whether the map has the key, under whichever spelling.
    pub fn has(&self, map: &Node, key: &Key) -> bool {
        map.get(key.name).is_some() || key.also.iter().any(|(name, _)| map.get(name).is_some())
    }

    /// Notes that a key that must be there is not in the map.
    pub fn missing(&mut self, map: &Node, key: &Key) {
        self.below(key.name, |reader| reader.note(Kind::Wrong, map, "required, but missing"));
    }

    /// Notes the keys of a map that its struct does not have.
    pub fn unknown_keys(&mut self, map: &Node, keys: &'static [Key]) {
        let Value::Map(entries) = &map.value else { return };
        for (key, _) in entries.iter() {
            let name = key.scalar_text().unwrap_or_default();
            let known =
                || keys.iter().flat_map(|k| std::iter::once(k.name).chain(k.also.iter().map(|a| a.0)));
            if known().any(|k| k == name) {
                continue;
            }
            let hint = match nearest(&name, known()) {
                Some(near) => format!("unknown key; did you mean '{near}'?"),
                None => "unknown key".to_string(),
            };
            self.below(&name, |reader| reader.note(Kind::Unknown, key, hint));
        }
    }
}

/// A type that can be read from a node. On a wrong value it notes why and gives `None`.
pub trait FromNode: Sized {
    const SHAPE: Shape;
    fn read(node: &Node, reader: &mut Reader) -> Option<Self>;
    /// The value of a key that is not there; `None` when it must be there.
    fn absent() -> Option<Self> {
        None
    }
}

impl FromNode for Node {
    const SHAPE: Shape = Shape::Any;
    fn read(node: &Node, _: &mut Reader) -> Option<Node> {
        Some(node.clone())
    }
}

/// Booleans as upstream takes them: also `"yes"`, `"on"`, `1` in quotes and their opposites; null is false.
impl FromNode for bool {
    const SHAPE: Shape = Shape::Bool;
    fn read(node: &Node, reader: &mut Reader) -> Option<bool> {
        match &node.value {
            Value::Bool(b) => Some(*b),
            Value::Null => Some(false),
            Value::Int(n @ (0 | 1)) => Some(*n == 1),
            Value::Str(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "1" | "on" | "yes" => Some(true),
                "false" | "0" | "off" | "no" | "" => Some(false),
                _ => reader.wrong(node, "true or false"),
            },
            _ => reader.wrong(node, "true or false"),
        }
    }
}

impl FromNode for i64 {
    const SHAPE: Shape = Shape::Int;
    fn read(node: &Node, reader: &mut Reader) -> Option<i64> {
        let number = match &node.value {
            Value::Int(n) => i64::try_from(*n).ok(),
            Value::Str(text) => text.trim().parse().ok(),
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 1e15 => Some(*f as i64),
            _ => None,
        };
        number.or_else(|| reader.wrong(node, "an integer"))
    }
}

/// Text; a number or a boolean is taken as Python would print it.
impl FromNode for String {
    const SHAPE: Shape = Shape::Text;
    fn read(node: &Node, reader: &mut Reader) -> Option<String> {
        match &node.value {
            Value::Null | Value::Seq(_) | Value::Map(_) => reader.wrong(node, "text"),
            _ => node.scalar_text(),
        }
    }
}

/// Text that may hold any bytes (`!!binary`), as file contents do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text(pub Vec<u8>);

impl FromNode for Text {
    const SHAPE: Shape = Shape::Text;
    fn read(node: &Node, reader: &mut Reader) -> Option<Text> {
        match &node.value {
            Value::Bytes(bytes) => Some(Text(bytes.clone())),
            Value::Null => Some(Text::default()),
            _ => String::read(node, reader).map(|text| Text(text.into_bytes())),
        }
    }
}

/// A key that may be missing or null.
impl<T: FromNode> FromNode for Option<T> {
    const SHAPE: Shape = T::SHAPE;
    fn read(node: &Node, reader: &mut Reader) -> Option<Option<T>> {
        if node.is_null() { Some(None) } else { Some(T::read(node, reader)) }
    }
    fn absent() -> Option<Option<T>> {
        Some(None)
    }
}

/// A list; a lone value counts as a list of one, null and a missing key as an empty one. Items that cannot be
/// read are noted and left out.
impl<T: FromNode> FromNode for Vec<T> {
    const SHAPE: Shape = Shape::List(&T::SHAPE);
    fn read(node: &Node, reader: &mut Reader) -> Option<Vec<T>> {
        match &node.value {
            Value::Null => Some(Vec::new()),
            Value::Seq(items) => Some(
                items
                    .iter()
                    .enumerate()
                    .filter_map(|(i, item)| reader.below(&format!("[{i}]"), |r| T::read(item, r)))
                    .collect(),
            ),
            _ => T::read(node, reader).map(|one| vec![one]),
        }
    }
    fn absent() -> Option<Vec<T>> {
        Some(Vec::new())
    }
}

/// Declares a struct of keys with its reader and its table.
///
/// ```
/// config::keys! {
///     /// A swap file.
///     pub struct Swap {
///         /// Where it is.
///         filename: String = "/swap.img".to_string();
///         /// How large it may be.
///         maxsize: Option<config::Node>, also "max-size" since "22.3";
///     }
/// }
/// let node = config::yaml::parse("swap", "{max-size: 1G, filname: /x}").unwrap().root;
/// let mut reader = config::Reader::new();
/// let swap: Swap = config::FromNode::read(&node, &mut reader).unwrap();
/// assert_eq!(swap.filename, "/swap.img");
/// assert_eq!(reader.into_findings().iter().count(), 2);
/// ```
///
/// Each key: `name [as "spelling"]: Type [= default] [, also "old spelling" [since "version"]]* ;`. A key with
/// neither a default nor a type that may be absent (`Option`, `Vec`) must be there. A wrong value is noted and its
/// default taken. `Type::read` notes unknown keys; `Type::read_known` leaves them to others, as at the top level
/// of a cloud-config.
#[macro_export]
macro_rules! keys {
    ($(
        $(#[doc = $about:literal])*
        $vis:vis struct $type:ident {
            $(
                $(#[doc = $doc:literal])*
                $field:ident $(as $name:literal)? : $ty:ty $(= $default:expr)?
                    $(, also $alias:literal $(since $since:literal)?)* ;
            )*
        }
    )*) => {$(
        $(#[doc = $about])*
        #[derive(Debug, Clone)]
        $vis struct $type {
            $( $(#[doc = $doc])* pub $field: $ty, )*
        }

        impl $type {
            /// The keys, as documentation and schema show them.
            pub const KEYS: &'static [$crate::Key] = &[$(
                $crate::Key {
                    name: $crate::first_of!($($name)? , stringify!($field)),
                    doc: concat!("", $($doc),*),
                    shape: <$ty as $crate::FromNode>::SHAPE,
                    also: &[$( ($alias, concat!("", $($since)?)) ),*],
                },
            )*];

            /// Reads the keys that this struct has, whatever else the map holds.
            #[allow(unused_assignments, unused_mut, unused_variables)]
            pub fn read_known(node: &$crate::Node, reader: &mut $crate::Reader) -> Option<Self> {
                if node.as_map().is_none() {
                    return reader.wrong(node, "a map");
                }
                let mut place = 0;
                $(
                    let key = &Self::KEYS[place];
                    place += 1;
                    let read: Option<$ty> = reader.key(node, key);
                    let $field: Option<$ty> = read.or_else(|| $crate::default_of!($($default)?, $ty));
                    if $field.is_none() && !reader.has(node, key) {
                        reader.missing(node, key);
                    }
                )*
                Some(Self { $( $field: $field?, )* })
            }
        }

        impl $crate::FromNode for $type {
            const SHAPE: $crate::Shape = $crate::Shape::Map(Self::KEYS);
            fn read(node: &$crate::Node, reader: &mut $crate::Reader) -> Option<Self> {
                reader.unknown_keys(node, Self::KEYS);
                Self::read_known(node, reader)
            }
        }
    )*};
}

/// Part of [`keys!`](crate::keys): the spelling given, or the field's own name.
#[doc(hidden)]
#[macro_export]
macro_rules! first_of {
    ($given:expr, $other:expr) => {
        $given
    };
    (, $other:expr) => {
        $other
    };
}

/// Part of [`keys!`](crate::keys): a key's default.
#[doc(hidden)]
#[macro_export]
macro_rules! default_of {
    ($default:expr, $ty:ty) => {
        Some($default)
    };
    (, $ty:ty) => {
        <$ty as $crate::FromNode>::absent()
    };
}

/// Declares an enumeration of words: `words! { pub enum Mode { Auto = "auto", Off = "off" | "false" } }`. The
/// words after `|` are accepted too. A boolean `false` matches the word `false` (likewise `true`).
#[macro_export]
macro_rules! words {
    ($(
        $(#[doc = $about:literal])*
        $vis:vis enum $type:ident { $( $(#[doc = $doc:literal])* $variant:ident = $word:literal $(| $more:literal)* ),* $(,)? }
    )*) => {$(
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $type { $( $(#[doc = $doc])* $variant ),* }

        impl $type {
            pub fn word(self) -> &'static str {
                match self { $( $type::$variant => $word ),* }
            }
        }

        impl $crate::FromNode for $type {
            const SHAPE: $crate::Shape = $crate::Shape::Word(&[$($word),*]);
            fn read(node: &$crate::Node, reader: &mut $crate::Reader) -> Option<Self> {
                let text = match &node.value {
                    $crate::Value::Bool(true) => Some("true".to_string()),
                    $crate::Value::Bool(false) => Some("false".to_string()),
                    $crate::Value::Seq(_) | $crate::Value::Map(_) | $crate::Value::Null => None,
                    _ => node.scalar_text(),
                };
                match text.as_deref() {
                    $( Some($word $(| $more)*) => Some($type::$variant), )*
                    _ => reader.wrong(node, concat!("one of" $(, " ", $word)*)),
                }
            }
        }
    )*};
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Map;

    crate::words! {
        pub enum Mode { Auto = "auto", Off = "off" | "false" }
    }

    crate::keys! {
        struct Inner {
            /// Its name.
            name: String;
            mode: Mode = Mode::Auto;
        }
        struct Outer {
            inner: Vec<Inner>;
            dashed as "da-shed": Option<i64>, also "da_shed" since "22.1";
            flag: bool = true;
        }
    }

    fn map(entries: &[(&str, Node)]) -> Node {
        Node::from(entries.iter().map(|(k, v)| (Node::from(*k), v.clone())).collect::<Map>())
    }

    #[test]
    fn reads_notes_and_goes_on() {
        let node = map(&[
            (
                "inner",
                Node::from(vec![
                    map(&[("name", "a".into()), ("mode", false.into())]),
                    map(&[("mode", "auto".into())]),
                    map(&[("name", "b".into()), ("mode", 7.into()), ("nam", "x".into())]),
                ]),
            ),
            ("da_shed", "12".into()),
            ("flag", Node::from(Vec::<Node>::new())),
        ]);
        let mut reader = Reader::new();
        let outer = Outer::read(&node, &mut reader).unwrap();
        assert_eq!(
            outer.inner.iter().map(|i| (&*i.name, i.mode)).collect::<Vec<_>>(),
            [("a", Mode::Off), ("b", Mode::Auto)]
        );
        assert_eq!((outer.dashed, outer.flag), (Some(12), true));
        let said: Vec<String> =
            reader.into_findings().iter().map(|f| format!("{} {}", f.key, f.message)).collect();
        assert_eq!(
            said,
            [
                "inner[1].name required, but missing",
                "inner[2].nam unknown key; did you mean 'name'?",
                "inner[2].mode expected one of auto off, found an integer",
                "da_shed deprecated since 22.1, use 'da-shed' instead",
                "flag expected true or false, found a list",
            ]
        );
        assert_eq!(Mode::Off.word(), "off");
        assert_eq!(Inner::KEYS[0].doc.trim(), "Its name.");
    }
}
