//! Typed keys, declared once with [`keys!`](crate::keys) or [`string_enum!`](crate::string_enum): a declaration gives the struct,
//! its reader, and the table for checks, documentation and JSON schema. Readers use only [`Key`]s, so that a program
//! that only reads configuration contains no documentation.

use crate::schema::{self, Field};
use crate::{FromNode, Key, Node, Reader, Value};

/// A struct that [`keys!`](crate::keys) declares.
pub trait KeyStruct: FromNode {
    /// The description of the struct.
    const ABOUT: &'static str;
    /// The keys, for the reader.
    const KEYS: &'static [Key];
    /// The keys, for checks, documentation and schema; deprecated spellings follow their key.
    const TABLE: &'static [Field];
    /// Reads the keys of this struct and ignores all others.
    fn read_known(node: &Node, reader: &mut Reader) -> Option<Self>;
}

/// Part of [`string_enum!`](crate::string_enum): returns the text of a word, which YAML may have read as a boolean.
#[doc(hidden)]
pub fn enum_text(node: &Node) -> Option<String> {
    match &node.value {
        Value::Bool(true) => Some("true".to_string()),
        Value::Bool(false) => Some("false".to_string()),
        Value::Seq(_) | Value::Map(_) | Value::Set(_) | Value::Null => None,
        _ => node.scalar_text(),
    }
}

/// Part of [`keys!`](crate::keys): returns the number of fields in groups.
#[doc(hidden)]
pub const fn count_fields(groups: &[&[Field]]) -> usize {
    let (mut count, mut i) = (0, 0);
    while i < groups.len() {
        count += groups[i].len();
        i += 1;
    }
    count
}

/// Part of [`keys!`](crate::keys): returns the fields of groups in one array.
#[doc(hidden)]
pub const fn join_fields<const N: usize>(groups: &[&[Field]]) -> [Field; N] {
    let mut all = [schema::key("", &[]); N];
    let (mut next, mut i) = (0, 0);
    while i < groups.len() {
        let mut j = 0;
        while j < groups[i].len() {
            all[next] = groups[i][j];
            next += 1;
            j += 1;
        }
        i += 1;
    }
    all
}

/// Declares a struct of keys with its reader and its table.
///
/// ```
/// use config::KeyStruct;
/// use config::schema::{Format, INT, STR};
/// config::keys! {
///     /// A swap file.
///     pub struct Swap {
///         /// The path of the swap file.
///         filename: String = "/swap.img";
///         /// The largest size.
///         maxsize: Option<config::Node>, types [INT, STR.format(Format::Size)], also "max-size" since "22.3";
///     }
/// }
/// let node = config::yaml::parse("swap", "{max-size: 1G, filname: /x}").unwrap().root;
/// let mut reader = config::Reader::new();
/// let swap: Swap = config::FromNode::read(&node, &mut reader).unwrap();
/// assert_eq!(swap.filename, "/swap.img");
/// assert_eq!(reader.into_findings().iter().count(), 2);
/// assert_eq!(Swap::TABLE[0].doc, "The path of the swap file.");
/// assert_eq!(Swap::TABLE[2].deprecated.unwrap().replacement, "maxsize");
/// ```
///
/// Each key: `name [as "spelling"]: Type [= default] [, until "version" use "replacement"] [, types [TYPE, …]]
/// [, within limit(…)] [, also "other spelling" [since "version"]]* ;`. The table has the types of `Type::SCHEMA`, or
/// those after `types`, each with the limit after `within`, which is a method of [`Type`](crate::schema::Type). A
/// default is a boolean, a whole number or text, which the types must accept: anything else does not compile, as the number
/// for the path here:
///
/// ```compile_fail
/// config::keys! {
///     /// A swap file.
///     pub struct Swap {
///         /// The path of the swap file.
///         filename: String = 5;
///     }
/// }
/// ```
///
/// A type must be a constant of [`schema`](crate::schema); the word of another one does not compile:
///
/// ```compile_fail
/// use config::schema::STR;
/// config::keys! {
///     /// A swap file.
///     pub struct Swap {
///         /// The largest size.
///         maxsize: Option<config::Node>, types [STRING];
///     }
/// }
/// ```
///
/// A key
/// with neither a default nor a type that may be absent (`Option`, `Vec`) is required. Keys in an `@unlisted` block at the
/// end are read, but are not part of the table. An invalid value adds a finding, and the default is used.
///
/// `Type::read` reports unknown keys; `Type::read_known` ignores them, as the top level of a cloud-config requires.
/// `struct Type as "name"` makes a definition of the JSON schema, `as "name" within limit(…)` one with a limit.
#[macro_export]
macro_rules! keys {
    ($(
        $(#[doc = $about:literal])*
        $vis:vis struct $type:ident $(as $definition:literal $(within $bound:ident ($($bound_arg:expr),*))?)? {
            $(
                $(#[doc = $doc:literal])*
                $field:ident $(as $name:literal)? : $ty:ty $(= $default:literal)?
                    $(, until $until:literal use $instead:literal)?
                    $(, types $types:expr)? $(, within $limit:ident ($($arg:expr),*))?
                    $(, also $alias:literal $(since $since:literal)?)* ;
            )*
            $(@unlisted { $( $(#[doc = $unlisted_doc:literal])* $unlisted:ident : $unlisted_ty:ty = $unlisted_default:literal; )* })?
        }
    )*) => {$(
        $(#[doc = $about])*
        #[derive(Debug, Clone)]
        $vis struct $type {
            $( $(#[doc = $doc])* pub $field: $ty, )*
            $($( $(#[doc = $unlisted_doc])* pub $unlisted: $unlisted_ty, )*)?
        }

        impl $crate::KeyStruct for $type {
            const ABOUT: &'static str = concat!($($about),*).trim_ascii();
            const KEYS: &'static [$crate::Key] = &[
                $($crate::Key {
                    name: $crate::first_of!($($name)? , stringify!($field)),
                    aliases: {
                        #[allow(dead_code, reason = "most keys have no other spelling")]
                        const NAME: &str = $crate::first_of!($($name)? , stringify!($field));
                        &[$($crate::Alias {
                            name: $alias,
                            deprecated: $crate::schema::Deprecation::new(concat!("", $($since)?), NAME),
                        }),*]
                    },
                    default: $crate::option_of!(
                        $(const {
                            &$crate::schema::DefaultValue::from_literal(stringify!($default), concat!($default))
                        })?
                    ),
                    deprecated: $crate::option_of!(
                        $(&$crate::schema::Deprecation::new($until, $instead))?
                    ),
                },)*
                $($($crate::Key {
                    name: stringify!($unlisted),
                    aliases: &[],
                    default: Some(const {
                        &$crate::schema::DefaultValue::from_literal(
                            stringify!($unlisted_default),
                            concat!($unlisted_default),
                        )
                    }),
                    deprecated: None,
                },)*)?
            ];
            const TABLE: &'static [$crate::schema::Field] = {
                const GROUPS: &[&[$crate::schema::Field]] = &[$({
                    const FIELD: $crate::schema::Field = $crate::schema::Field {
                        required: <$ty as $crate::FromNode>::ABSENT.is_none() $(& concat!($default).is_empty())?,
                        ..$crate::schema::key(
                            $crate::first_of!($($name)? , stringify!($field)),
                            $crate::types_of!([$($types)?] $ty $(, $limit ($($arg),*))?),
                        )
                        .doc(concat!($($doc),*).trim_ascii())
                        $(.default(const {
                            &$crate::schema::DefaultValue::from_literal(stringify!($default), concat!($default))
                        }))?
                        $(.deprecated(&$crate::schema::Deprecation::new($until, $instead)))?
                    };
                    &[
                        FIELD,
                        $($($crate::schema::key($alias, FIELD.types)
                            .deprecated(&$crate::schema::Deprecation::new($since, FIELD.name)),)?)*
                    ]
                }),*];
                const ALL: [$crate::schema::Field; $crate::count_fields(GROUPS)] = $crate::join_fields(GROUPS);
                &ALL
            };

            #[allow(unused_assignments, unused_mut, unused_variables)]
            fn read_known(node: &$crate::Node, reader: &mut $crate::Reader) -> Option<Self> {
                if node.as_map().is_none() {
                    return reader.type_error(node, "a map");
                }
                let mut keys = Self::KEYS.iter();
                $( let $field: Option<$ty> = keys.next().and_then(|key| reader.key(node, key)); )*
                $($( let $unlisted: Option<$unlisted_ty> = keys.next().and_then(|key| reader.key(node, key)); )*)?
                Some(Self { $( $field: $field?, )* $($( $unlisted: $unlisted?, )*)? })
            }
        }

        impl $crate::FromNode for $type {
            const SCHEMA: &'static [$crate::schema::Type] = $crate::schema_of!(
                [$($definition $($bound ($($bound_arg),*))?)?] <Self as $crate::KeyStruct>::TABLE
            );
            fn read(node: &$crate::Node, reader: &mut $crate::Reader) -> Option<Self> {
                reader.report_unknown_keys(node, <Self as $crate::KeyStruct>::KEYS);
                $crate::KeyStruct::read_known(node, reader)
            }
        }
    )*};
}

/// Part of [`keys!`](crate::keys): the first argument, or the second if the first is missing.
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

/// Part of [`keys!`](crate::keys): the argument in `Some`, or `None` without one.
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

/// Part of [`keys!`](crate::keys): the types of a key, each with the limit.
#[doc(hidden)]
#[macro_export]
macro_rules! types_of {
    ([] $ty:ty $(, $($limit:tt)*)?) => {
        $crate::types_of!(@limit <$ty as $crate::FromNode>::SCHEMA $(, $($limit)*)?)
    };
    ([$types:expr] $ty:ty $(, $($limit:tt)*)?) => {
        $crate::types_of!(@limit &$types $(, $($limit)*)?)
    };
    (@limit $types:expr) => {
        $types
    };
    (@limit $types:expr, $limit:ident ($($arg:expr),*)) => {{
        const TYPES: &[$crate::schema::Type] = $types;
        const LIMITED: [$crate::schema::Type; TYPES.len()] = {
            let mut limited = [$crate::schema::ANY; TYPES.len()];
            let mut i = 0;
            while i < TYPES.len() {
                limited[i] = TYPES[i].$limit($($arg),*);
                i += 1;
            }
            limited
        };
        &LIMITED
    }};
}

/// Part of [`keys!`](crate::keys): a map, or a definition of one.
#[doc(hidden)]
#[macro_export]
macro_rules! schema_of {
    ([] $table:expr) => {
        &[$crate::schema::map($table)]
    };
    ([$name:literal $($bound:ident ($($arg:expr),*))?] $table:expr) => {
        &[$crate::schema::reference(&$crate::schema::Definition {
            name: $name,
            types: &[$crate::schema::map($table) $(.$bound($($arg),*))?],
        })]
    };
}

/// Declares an enumeration of words: `string_enum! { pub enum Mode { Auto = "auto", Off = "off" | "no" or "false" } }`. The
/// words after `|` are accepted, too; so are those after `or`, which are not in the schema, and the variants after a
/// semicolon, which are not either. A boolean `false` matches the word `false` (likewise `true`);
/// `enum Mode, false until "22.3" use "off" as "MESSAGE" { … }` adds it to the schema as a deprecated form.
#[macro_export]
macro_rules! string_enum {
    ($(
        $(#[doc = $about:literal])*
        $vis:vis enum $type:ident $(, false until $until:literal use $instead:literal as $message:literal)? {
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
            /// Returns the word, in its first spelling.
            pub fn as_str(self) -> &'static str {
                match self {
                    $type::$first => $first_word,
                    $( $type::$variant => $word, )*
                    $( $type::$unlisted => $unlisted_word, )*
                }
            }
        }

        impl $crate::FromNode for $type {
            const SCHEMA: &'static [$crate::schema::Type] = &[
                $crate::schema::word($first_word) $(, $crate::schema::word($first_more))*
                $(, $crate::schema::word($word) $(, $crate::schema::word($more))*)*
                $(, $crate::schema::flag(false)
                    .deprecated(&$crate::schema::Deprecation::new($until, $instead).message($message)))?
            ];
            fn read(node: &$crate::Node, reader: &mut $crate::Reader) -> Option<Self> {
                let text = $crate::enum_text(node);
                let read = match text.as_deref() {
                    Some($first_word $(| $first_more)* $(| $first_other)*) => $type::$first,
                    $( Some($word $(| $more)* $(| $other)*) => $type::$variant, )*
                    $( Some($unlisted_word) => $type::$unlisted, )*
                    _ => return reader.type_error(node, concat!("one of ", $first_word $(, " ", $word)*)),
                };
                $(if let $crate::Value::Bool(false) = &node.value {
                    let form = $crate::schema::Deprecation::new($until, $instead).message($message);
                    reader.report_deprecated_form(node, &form);
                })?
                Some(read)
            }
        }
    )*};
}

#[cfg(test)]
mod tests {
    use crate::schema::{BaseType, Field};
    use crate::{FromNode, KeyStruct, Map, Node, Reader};

    crate::string_enum! {
        pub enum Mode, false until "22.3" use "off" as "Changed in version 22.3. Use 'off'." { Auto = "auto", Off = "off" or "false"; Odd = "odd" }
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
        let messages: Vec<String> =
            reader.into_findings().iter().map(|f| format!("{} {}", f.key, f.message)).collect();
        assert_eq!(
            messages,
            [
                "inner[0].mode Changed in version 22.3. Use 'off'.",
                "inner[1].name required, but missing",
                "inner[2].nam unknown key; did you mean 'name'?",
                "inner[2].mode expected one of auto off, found an integer",
                "da_shed Deprecated in version 22.1. Use **da-shed** instead.",
                "flag expected true or false, found a list",
            ]
        );
        assert_eq!(Mode::Off.as_str(), "off");
        let names = |table: &[Field]| table.iter().map(|field| (field.name, field.doc)).collect::<Vec<_>>();
        assert_eq!(names(Inner::TABLE), [("name", "Its name."), ("mode", "")]);
        assert_eq!(names(Outer::TABLE), [("inner", ""), ("da-shed", ""), ("da_shed", ""), ("flag", "")]);
        assert!(Inner::TABLE[0].required && !Inner::TABLE[1].required);
        assert_eq!(Outer::TABLE[3].default, Some(&crate::schema::DefaultValue::Bool(true)));
        let [auto, off, no] = Mode::SCHEMA else { panic!() };
        assert!(
            matches!(auto.base, BaseType::StrConst("auto")) && matches!(off.base, BaseType::StrConst("off"))
        );
        assert_eq!(no.deprecated.unwrap().since, "22.3");
    }
}
