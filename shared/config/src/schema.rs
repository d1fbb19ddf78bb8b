//! The schema of a configuration as constant tables: which keys a map may hold, with types, limits, defaults and
//! documentation. [`keys!`](crate::keys) declares such tables together with their readers; tables of keys that no code
//! reads are written with the functions below. A table is plain constant data: the compiler checks it, and only
//! programs that refer to it contain it.

mod format;

pub use format::Format;

use crate::Node;

/// One of the types that a value may have, with its limits.
#[derive(Debug, Clone, Copy)]
pub struct Type {
    /// The kind of value.
    pub base: BaseType,
    /// The smallest number, or the smallest length of a list or map.
    pub min: Option<i8>,
    /// The largest number, or the largest length of a list or map.
    pub max: Option<u16>,
    /// Whether the items of a list must differ.
    pub unique: bool,
    /// Whether a key and its deprecated spelling exclude each other.
    pub once: bool,
    /// Whether keys without an entry in the table are accepted.
    pub allows_unknown: bool,
    /// The form that text must have.
    pub format: Option<Format>,
    /// Keys of a map of which some must be set.
    pub required_keys: Option<&'static RequiredKeys>,
    /// The values of a map with keys of the user's choice. The name of this field is a placeholder, `<name>`.
    pub additional: Option<&'static Field>,
    /// The deprecation of this form, if it is deprecated; it is still accepted.
    pub deprecated: Option<&'static Deprecation>,
}

/// Keys of a map of which at least one must be set.
#[derive(Debug, Clone, Copy)]
pub struct RequiredKeys {
    /// The keys.
    pub keys: &'static [&'static str],
    /// Whether only one of them may be set.
    pub only_one: bool,
}

/// The kind of a value.
#[derive(Debug, Clone, Copy)]
pub enum BaseType {
    /// Any value.
    Any,
    /// A string.
    Str,
    /// A whole number.
    Int,
    /// A number.
    Number,
    /// True or false.
    Bool,
    /// The value null.
    Null,
    /// A list with items of these types; `None`: of any type.
    List(Option<&'static [Type]>),
    /// A map with these keys.
    Map(&'static [Field]),
    /// This text only.
    StrConst(&'static str),
    /// This boolean only.
    BoolConst(bool),
    /// This number only.
    IntConst(i64),
    /// Types that have a name of their own in the JSON schema.
    Ref(&'static Definition),
}

/// Types with a name, which several keys use.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// The name in the JSON schema.
    pub name: &'static str,
    /// The types.
    pub types: &'static [Type],
}

/// The version in which something was deprecated, and its replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deprecation {
    /// The version of cloud-init.
    pub since: &'static str,
    /// The key that replaces it, or advice in words. Empty if there is no replacement.
    pub replacement: &'static str,
    /// Upstream's whole message. Empty if it is composed of the other two fields.
    pub message: &'static str,
}

impl Deprecation {
    /// Returns a deprecation.
    pub const fn new(since: &'static str, replacement: &'static str) -> Deprecation {
        Deprecation { since, replacement, message: "" }
    }

    /// Returns the deprecation with upstream's own message, which scripts look for.
    pub const fn message(self, message: &'static str) -> Deprecation {
        Deprecation { message, ..self }
    }

    /// Returns "Deprecated in version 22.2. Use **b** instead.": upstream's sentence, which scripts look for. A key gets
    /// asterisks, a form of a value does not.
    pub fn text(&self, is_key: bool) -> String {
        match (self.replacement, is_key) {
            _ if !self.message.is_empty() => self.message.into(),
            ("", _) => format!("Deprecated in version {}.", self.since),
            (instead, true) => format!("Deprecated in version {}. Use **{instead}** instead.", self.since),
            (instead, false) => format!("Deprecated in version {}. Use {instead} instead.", self.since),
        }
    }
}

/// The value of a key that is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A string.
    Str(&'static str),
}

impl DefaultValue {
    /// Returns the value as a node without a position.
    pub fn to_node(&self) -> Node {
        match *self {
            DefaultValue::Bool(flag) => Node::from(flag),
            DefaultValue::Int(number) => Node::from(number),
            DefaultValue::Str(text) => Node::from(text),
        }
    }

    /// Part of [`keys!`](crate::keys): returns the value of a literal, from its source text and its content.
    #[doc(hidden)]
    pub const fn from_literal(source: &str, content: &'static str) -> DefaultValue {
        match source.as_bytes() {
            b"true" => DefaultValue::Bool(true),
            b"false" => DefaultValue::Bool(false),
            [b'"' | b'r', ..] => DefaultValue::Str(content),
            digits => {
                let (mut number, mut i) = (0, 0);
                while i < digits.len() {
                    assert!(digits[i].is_ascii_digit(), "a default is a boolean, a whole number or a string");
                    number = number * 10 + (digits[i] - b'0') as i64;
                    i += 1;
                }
                DefaultValue::Int(number)
            }
        }
    }
}

impl std::fmt::Display for DefaultValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DefaultValue::Bool(flag) => write!(f, "{flag}"),
            DefaultValue::Int(number) => write!(f, "{number}"),
            DefaultValue::Str(text) => f.write_str(text),
        }
    }
}

/// A key of a map.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The key.
    pub name: &'static str,
    /// The types that its value may have.
    pub types: &'static [Type],
    /// The purpose of the key, in a sentence. Empty if the key is not documented.
    pub doc: &'static str,
    /// The value of a key that is not set.
    pub default: Option<&'static DefaultValue>,
    /// The deprecation of the key, if it is deprecated; it is still accepted.
    pub deprecated: Option<&'static Deprecation>,
    /// The form that the key itself must have, for keys of the user's choice.
    pub format: Option<Format>,
    /// Whether the key must be set.
    pub required: bool,
}

/// Any value.
pub const ANY: Type = Type::new(BaseType::Any);
/// A string.
pub const STR: Type = Type::new(BaseType::Str);
/// A whole number.
pub const INT: Type = Type::new(BaseType::Int);
/// A number.
pub const NUMBER: Type = Type::new(BaseType::Number);
/// True or false.
pub const BOOL: Type = Type::new(BaseType::Bool);
/// The value null.
pub const NULL: Type = Type::new(BaseType::Null);
/// A list of anything.
pub const LIST: Type = Type::new(BaseType::List(None));
/// A map with any keys.
pub const ANY_MAP: Type = map(&[]).open();

/// Returns the type of a list with items of these types.
pub const fn list(items: &'static [Type]) -> Type {
    Type::new(BaseType::List(Some(items)))
}

/// Returns the type of a map with these keys.
pub const fn map(keys: &'static [Field]) -> Type {
    Type::new(BaseType::Map(keys))
}

/// Returns the type of a map with keys of the user's choice.
pub const fn map_of(value: &'static Field) -> Type {
    Type { additional: Some(value), ..map(&[]) }
}

/// Returns the type that only this text has.
pub const fn word(text: &'static str) -> Type {
    Type::new(BaseType::StrConst(text))
}

/// Returns the type that only this boolean has.
pub const fn flag(value: bool) -> Type {
    Type::new(BaseType::BoolConst(value))
}

/// Returns the type that only this number has.
pub const fn number(value: i64) -> Type {
    Type::new(BaseType::IntConst(value))
}

/// Returns the type that refers to a definition.
pub const fn reference(definition: &'static Definition) -> Type {
    Type::new(BaseType::Ref(definition))
}

/// Returns a key with the types of its value.
pub const fn key(name: &'static str, types: &'static [Type]) -> Field {
    Field { name, types, doc: "", default: None, deprecated: None, format: None, required: false }
}

impl Type {
    const fn new(base: BaseType) -> Type {
        Type {
            base,
            min: None,
            max: None,
            unique: false,
            once: false,
            allows_unknown: false,
            format: None,
            required_keys: None,
            additional: None,
            deprecated: None,
        }
    }

    /// Sets the smallest number, or the smallest length of a list or map.
    pub const fn min(self, min: i8) -> Type {
        assert!(self.is_bounded(), "only numbers, lists and maps have bounds");
        Type { min: Some(min), ..self }
    }

    /// Sets the smallest and the largest number, or length of a list or map.
    pub const fn range(self, min: i8, max: u16) -> Type {
        assert!(min as i32 <= max as i32, "the range is empty");
        Type { max: Some(max), ..self.min(min) }
    }

    /// Requires the items of a list to differ.
    pub const fn unique(self) -> Type {
        assert!(matches!(self.base, BaseType::List(_)), "only the items of a list can be unique");
        Type { unique: true, ..self }
    }

    /// Requires text to have a form.
    pub const fn format(self, format: Format) -> Type {
        assert!(matches!(self.base, BaseType::Str), "only a string has a format");
        Type { format: Some(format), ..self }
    }

    /// Accepts keys that the table does not have.
    pub const fn open(self) -> Type {
        assert!(matches!(self.base, BaseType::Map(_)), "only a map has keys");
        Type { allows_unknown: true, ..self }
    }

    /// Accepts keys of the user's choice.
    pub const fn additional(self, value: &'static Field) -> Type {
        assert!(matches!(self.base, BaseType::Map(_)), "only a map has keys");
        Type { additional: Some(value), ..self }
    }

    /// Refuses a key together with its deprecated spelling.
    pub const fn once(self) -> Type {
        assert!(matches!(self.base, BaseType::Map(_)), "only a map has keys");
        Type { once: true, ..self }
    }

    /// Requires at least one, or exactly one, of some keys.
    pub const fn requires(self, keys: &'static RequiredKeys) -> Type {
        assert!(matches!(self.base, BaseType::Map(_) | BaseType::Ref(_)), "only a map has keys");
        Type { required_keys: Some(keys), ..self }
    }

    /// Marks this form as deprecated.
    pub const fn deprecated(self, deprecation: &'static Deprecation) -> Type {
        Type { deprecated: Some(deprecation), ..self }
    }

    const fn is_bounded(&self) -> bool {
        matches!(self.base, BaseType::Int | BaseType::Number | BaseType::List(_) | BaseType::Map(_))
    }

    /// Returns whether a default of this kind can have this type.
    const fn accepts(&self, default: &DefaultValue) -> bool {
        match self.base {
            BaseType::Any | BaseType::Ref(_) => true,
            BaseType::Str => matches!(default, DefaultValue::Str(_)),
            BaseType::StrConst(word) => match default {
                DefaultValue::Str(text) => is_equal(text.as_bytes(), word.as_bytes()),
                _ => false,
            },
            BaseType::Int | BaseType::Number | BaseType::IntConst(_) => {
                matches!(default, DefaultValue::Int(_))
            }
            BaseType::Bool | BaseType::BoolConst(_) => matches!(default, DefaultValue::Bool(_)),
            BaseType::Null | BaseType::List(_) | BaseType::Map(_) => false,
        }
    }
}

impl Field {
    /// Documents the key in a sentence.
    pub const fn doc(self, doc: &'static str) -> Field {
        Field { doc, ..self }
    }

    /// Requires the key to be set.
    pub const fn required(self) -> Field {
        assert!(self.default.is_none(), "a key with a default is not required");
        Field { required: true, ..self }
    }

    /// Sets the value of the key when it is not set. One of the types must accept it.
    pub const fn default(self, value: &'static DefaultValue) -> Field {
        let (mut accepted, mut i) = (false, 0);
        while i < self.types.len() {
            accepted |= self.types[i].accepts(value);
            i += 1;
        }
        assert!(accepted, "no type of the key accepts its default");
        Field { default: Some(value), required: false, ..self }
    }

    /// Requires a key of the user's choice to have a form.
    pub const fn format(self, format: Format) -> Field {
        Field { format: Some(format), ..self }
    }

    /// Marks the key as deprecated.
    pub const fn deprecated(self, deprecation: &'static Deprecation) -> Field {
        Field { deprecated: Some(deprecation), ..self }
    }
}

const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}
