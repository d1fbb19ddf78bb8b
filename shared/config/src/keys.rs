//! What a key may hold, declared once with [`keys!`](crate::keys) or [`string_enum!`](crate::string_enum): from a declaration come
//! the struct with its reader, and the rows of the table that checks, documentation and schema are made from. Readers
//! live from [`Key`]s alone, so that a program that only reads carries no documentation.

use crate::{Node, Reader, Value};

/// What a reader needs of a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    pub name: &'static str,
    /// Other spellings, and the version that deprecated each. One without a version is read, and told to nobody.
    pub aliases: &'static [(&'static str, &'static str)],
    /// What it holds when it is not there, as one would write it.
    pub default: Option<&'static str>,
    /// Since when the key is deprecated itself, and what takes its place.
    pub deprecated: Option<&'static (&'static str, &'static str)>,
}

impl Key {
    /// The default as a value: true, false and whole numbers are such, the rest is text.
    pub fn default(&self) -> Option<Node> {
        let text = self.default?;
        Some(match (text, text.parse::<i64>()) {
            ("true" | "false", _) => Node::from(text == "true"),
            (_, Ok(number)) if text == "0" || !text.starts_with('0') => Node::from(number),
            _ => Node::from(text),
        })
    }
}

/// The types of a value, in the grammar of `keys.txt` (see the table of the crate `modules`, which reads it).
#[derive(Debug, Clone, Copy)]
pub enum Schema {
    /// Types, in which a dot stands for the first of the shapes. Further lines are the keys of a map, or definitions
    /// (`def name: TYPES`) that the types use; so are the shapes with a name.
    Types(&'static str, &'static [Schema]),
    /// A map with these keys.
    Map(&'static [KeySchema]),
    /// The same as a definition, `name` or `name{LIMITS}`.
    Named(&'static str, &'static [KeySchema]),
}

/// What the table has of a key.
#[derive(Debug, Clone, Copy)]
pub struct KeySchema {
    /// `name !OLD: TYPES = DEFAULT -- REMARK`; empty for a key that is only read.
    pub line: &'static str,
    /// The type that it is read as: a dot in the line's types.
    pub schema: Schema,
    pub aliases: &'static [(&'static str, &'static str)],
    pub required: bool,
    /// The reader, in tests of the crate that declares it: what the table takes has to be readable.
    pub read: Option<fn(&Node, &mut Reader)>,
}

/// A type that can be read from a node. On a wrong value it notes why and gives `None`.
pub trait FromNode: Sized {
    const SCHEMA: Schema;
    /// Whether a key of this type must be there, unless it has a default.
    const REQUIRED: bool = true;
    fn read(node: &Node, reader: &mut Reader) -> Option<Self>;
    /// The value of a key that is not there, of a type that is not required.
    fn absent() -> Option<Self> {
        None
    }
}

impl Reader {
    /// Notes that the value has a form that its type says is deprecated: the one that begins with `word`.
    pub fn report_deprecated_form<T: FromNode>(&mut self, node: &Node, word: &str) {
        // The text alone, lest the tables that a shape refers to come into the program.
        let text = const {
            match T::SCHEMA {
                Schema::Types(text, _) => text,
                _ => "",
            }
        };
        if let Some((since, instead)) = find_deprecated_form(text, word) {
            let message = format!("Deprecated in version {since}. Use {instead} instead.");
            self.add_finding(crate::FindingKind::Deprecated, node, message);
        }
    }
}

/// Since when the form that begins with `word` is deprecated, and what takes its place.
fn find_deprecated_form(types: &'static str, word: &str) -> Option<(&'static str, &'static str)> {
    let form = types.split(['|', '\n']).map(str::trim).find(|t| t.starts_with(word) && t.contains('!'))?;
    form.split_once('!')?.1.strip_suffix(')')?.split_once('(')
}

/// The text of a word, which a boolean may be as well.
pub fn enum_text(node: &Node) -> Option<String> {
    match &node.value {
        Value::Bool(true) => Some("true".to_string()),
        Value::Bool(false) => Some("false".to_string()),
        Value::Seq(_) | Value::Map(_) | Value::Set(_) | Value::Null => None,
        _ => node.scalar_text(),
    }
}

/// Declares a struct of keys with its reader and its table.
///
/// ```
/// config::keys! {
///     /// A swap file.
///     pub struct Swap {
///         /// Where it is.
///         filename: String = "/swap.img";
///         /// How large it may be.
///         maxsize: Option<config::Node>, types "int | str{size}", also "max-size" since "22.3";
///     }
/// }
/// let node = config::yaml::parse("swap", "{max-size: 1G, filname: /x}").unwrap().root;
/// let mut reader = config::Reader::new();
/// let swap: Swap = config::FromNode::read(&node, &mut reader).unwrap();
/// assert_eq!(swap.filename, "/swap.img");
/// assert_eq!(reader.into_findings().iter().count(), 2);
/// assert_eq!(Swap::TABLE[0].line, "filename: . = /swap.img -- Where it is.");
/// assert_eq!(Swap::TABLE[1].line, "maxsize: int | str{size} -- How large it may be.");
/// ```
///
/// Each key: `name [as "spelling"]: Type [= "default"] [, until "version" use "what"] [, types "TYPES"] [, within
/// "LIMITS"] [, unlisted "why"] [, also "old spelling" [since "version"]]* ;`. What may be written is what the type says,
/// within the limits, unless TYPES say it, in which a dot stands for the type. A default is as one would write it; a
/// key with neither a default nor a type that may be absent (`Option`, `Vec`) must be there. A key that is unlisted
/// is read, and the table does not have it. A wrong value is noted and the default taken.
///
/// `Type::read` notes unknown keys; `Type::read_known` leaves them to others, as at the top level of a cloud-config.
/// `struct Type as "name"` makes a definition of the table.
#[macro_export]
macro_rules! keys {
    ($(
        $(#[doc = $about:literal])*
        $vis:vis struct $type:ident $(as $definition:literal)? {
            $(
                $(#[doc = $doc:literal])*
                $field:ident $(as $name:literal)? : $ty:ty $(= $default:literal)?
                    $(, until $until:literal use $instead:literal)?
                    $(, types $types:literal)? $(, within $limits:literal)? $(, unlisted $why:literal)?
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
            /// The keys, as the reader knows them.
            pub const KEYS: &'static [$crate::Key] = &[$(
                $crate::Key {
                    name: $crate::first_of!($($name)? , stringify!($field)),
                    aliases: &[$( ($alias, concat!("", $($since)?)) ),*],
                    default: $crate::option_of!($(concat!($default))?),
                    deprecated: $crate::option_of!($(&($until, $instead))?),
                },
            )*];

            /// The keys, as checks, documentation and schema know them.
            #[allow(dead_code, reason = "not all of what is read is a user's")]
            pub const TABLE: &'static [$crate::KeySchema] = &[$(
                $crate::KeySchema {
                    line: $crate::line!(
                        [$($why)?]
                        $crate::first_of!($($name)? , stringify!($field)), $(" !", $until, "(", $instead, ")",)?
                        ": ", $crate::first_of!($($types)? , "."), $("{", $limits, "}",)?
                        $(" = ", $default,)? $crate::remark!($($doc)*)
                    ),
                    schema: <$ty as $crate::FromNode>::SCHEMA,
                    aliases: &[$( ($alias, concat!("", $($since)?)) ),*],
                    required: <$ty as $crate::FromNode>::REQUIRED $(&& concat!($default).is_empty())?,
                    #[cfg(test)]
                    read: Some(|node, reader| {
                        let _ = <$ty as $crate::FromNode>::read(node, reader);
                    }),
                    #[cfg(not(test))]
                    read: None,
                },
            )*];

            /// Reads the keys that this struct has, whatever else the map holds.
            #[allow(unused_assignments, unused_mut, unused_variables)]
            pub fn read_known(node: &$crate::Node, reader: &mut $crate::Reader) -> Option<Self> {
                if node.as_map().is_none() {
                    return reader.type_error(node, "a map");
                }
                let mut keys = Self::KEYS.iter();
                $( let $field: Option<$ty> = keys.next().and_then(|key| reader.key(node, key)); )*
                Some(Self { $( $field: $field?, )* })
            }
        }

        impl $crate::FromNode for $type {
            const SCHEMA: $crate::Schema = $crate::schema_of!([$($definition)?] Self::TABLE);
            fn read(node: &$crate::Node, reader: &mut $crate::Reader) -> Option<Self> {
                reader.report_unknown_keys(node, Self::KEYS);
                Self::read_known(node, reader)
            }
        }
    )*};
}

/// Part of [`keys!`](crate::keys): the text given, or the other one.
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

/// Part of [`keys!`](crate::keys): what is given, if it is.
#[doc(hidden)]
#[macro_export]
macro_rules! option_of {
    () => {
        None
    };
    ($given:expr) => {
        Some($given)
    };
}

/// Part of [`keys!`](crate::keys): a line of the table, unless there is a reason for none.
#[doc(hidden)]
#[macro_export]
macro_rules! line {
    ([$why:literal] $($part:tt)*) => {
        ""
    };
    ([] $($part:tt)*) => {
        concat!($($part)*)
    };
}

/// Part of [`keys!`](crate::keys): the end of a line. Lines of a remark begin with the blank after `///`.
#[doc(hidden)]
#[macro_export]
macro_rules! remark {
    () => {
        ""
    };
    ($($doc:literal)+) => {
        concat!(" --", $($doc),+)
    };
}

/// Part of [`keys!`](crate::keys): a map, or a definition of one.
#[doc(hidden)]
#[macro_export]
macro_rules! schema_of {
    ([] $table:expr) => {
        $crate::Schema::Map($table)
    };
    ([$name:literal] $table:expr) => {
        $crate::Schema::Named($name, $table)
    };
}

/// Declares an enumeration of words: `string_enum! { pub enum Mode { Auto = "auto", Off = "off" | "no" or "false" } }`. The
/// words after `|` are accepted too, those after `or` without being in the table, as variants behind a semicolon are.
/// A boolean `false` matches the word `false` (likewise `true`); `enum Mode and "false
/// !22.3(off)"` has further types in the table.
#[macro_export]
macro_rules! string_enum {
    ($(
        $(#[doc = $about:literal])*
        $vis:vis enum $type:ident $(and $further:literal)? {
            $first:ident = $first_word:literal $(| $first_more:literal)* $(or $first_other:literal)*
            $(, $(#[doc = $doc:literal])* $variant:ident = $word:literal $(| $more:literal)* $(or $other:literal)* )*
            $(; $unlisted:ident = $unlisted_word:literal)*
            $(,)?
        }
    )*) => {$(
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $type { $first, $( $(#[doc = $doc])* $variant, )* $($unlisted,)* }

        impl $type {
            pub fn as_str(self) -> &'static str {
                match self {
                    $type::$first => $first_word,
                    $( $type::$variant => $word, )*
                    $( $type::$unlisted => $unlisted_word, )*
                }
            }
        }

        impl $crate::FromNode for $type {
            const SCHEMA: $crate::Schema = $crate::Schema::Types(
                concat!(
                    "\"", $first_word, "\"" $(, " | \"", $first_more, "\"")*
                    $(, " | \"", $word, "\"" $(, " | \"", $more, "\"")*)*
                    $(, " | ", $further)?
                ),
                &[],
            );
            fn read(node: &$crate::Node, reader: &mut $crate::Reader) -> Option<Self> {
                let text = $crate::enum_text(node);
                let read = match text.as_deref() {
                    Some($first_word $(| $first_more)* $(| $first_other)*) => $type::$first,
                    $( Some($word $(| $more)* $(| $other)*) => $type::$variant, )*
                    $( Some($unlisted_word) => $type::$unlisted, )*
                    _ => return reader.type_error(node, concat!("one of ", $first_word $(, " ", $word)*)),
                };
                if let $crate::Value::Bool(_) = &node.value {
                    reader.report_deprecated_form::<Self>(node, text.as_deref().unwrap_or_default());
                }
                Some(read)
            }
        }
    )*};
}

#[cfg(test)]
mod tests {
    use crate::{FromNode, Map, Node, Reader, Schema};

    crate::string_enum! {
        pub enum Mode and "false !22.3(off)" { Auto = "auto", Off = "off" or "false"; Odd = "odd" }
    }

    crate::keys! {
        struct Inner {
            /// Its name.
            name: String;
            mode: Mode = "auto";
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
    fn reports_findings_and_continues() {
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
                "inner[0].mode Deprecated in version 22.3. Use off instead.",
                "inner[1].name required, but missing",
                "inner[2].nam unknown key; did you mean 'name'?",
                "inner[2].mode expected one of auto off, found an integer",
                "da_shed Deprecated in version 22.1. Use **da-shed** instead.",
                "flag expected true or false, found a list",
            ]
        );
        assert_eq!(Mode::Off.as_str(), "off");
        let lines = |table: &[crate::KeySchema]| table.iter().map(|row| row.line).collect::<Vec<_>>();
        assert_eq!(lines(Inner::TABLE), ["name: . -- Its name.", "mode: . = auto"]);
        assert_eq!(lines(Outer::TABLE), ["inner: .", "da-shed: .", "flag: . = true"]);
        let Schema::Types(words, _) = Mode::SCHEMA else { panic!() };
        assert_eq!(words, "\"auto\" | \"off\" | false !22.3(off)");
    }
}
