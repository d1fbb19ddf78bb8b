//! Types of values: strings that become part of a line of a file, or an argument of a command, and maps.

use config::schema::{ANY_MAP, Type};
use config::{FromNode, Map, Node, Reader, Value};

/// Returns the entries of a map in the order of their keys: by number if a key is a number and all others can be read as
/// one (YAML reads `07` as a number, `08` as a string), otherwise by text.
pub fn in_key_order(map: &Map) -> Vec<(&Node, &Node)> {
    let number = |key: &Node| key.as_int().or_else(|| key.as_str()?.parse().ok());
    let is_numeric = map.iter().any(|(key, _)| matches!(key.value, Value::Int(_)))
        && map.iter().all(|(key, _)| number(key).is_some());
    let mut entries: Vec<_> = map.iter().collect();
    match is_numeric {
        true => sort::sort_by_key(&mut entries, |(key, _)| number(key)),
        false => sort::sort_by_key(&mut entries, |(key, _)| key.scalar_text().unwrap_or_default()),
    }
    entries
}

/// Declares types of text: `/// …` `struct Name: "what messages expect", is_valid;`; `struct Name of Base: …` is read as another
/// type of text first.
macro_rules! text_types {
    (@text $node:ident, $reader:ident) => { String::read($node, $reader) };
    (@text $node:ident, $reader:ident, $base:ident) => { $base::read($node, $reader).map(|text| text.0) };
    ($($(#[doc = $about:literal])* $vis:vis struct $type:ident $(of $base:ident)?: $wanted:expr, $is_valid:expr;)*) => {$(
        $(#[doc = $about])*
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        $vis struct $type(pub String);

        impl config::FromNode for $type {
            const SCHEMA: &'static [config::schema::Type] = &[config::schema::STR];
            fn read(node: &config::Node, reader: &mut config::Reader) -> Option<$type> {
                let text = text_types!(@text node, reader $(, $base)?)?;
                let is_valid: fn(&str) -> bool = $is_valid;
                if is_valid(&text) { Some($type(text)) } else { reader.type_error(node, $wanted) }
            }
        }
    )*};
}
pub(crate) use text_types;

text_types! {
    /// Text without control characters.
    pub struct Line: "a single-line string", is_line;
    /// The path of a file or a directory.
    pub struct FilePath: "a path without control characters", |text| !text.is_empty() && is_line(text);
    /// Text that a command takes as one argument that is not an option: a name or a path.
    pub struct Word: "a name without spaces that does not begin with a hyphen",
        |text| is_word(text) && !text.starts_with('-');
    /// Text that a command takes as one argument that is not an option, and that may contain spaces.
    pub struct Operand: "a single-line string that is not empty and does not begin with a hyphen",
        |text| is_line(text) && !text.is_empty() && !text.starts_with('-');
}

fn is_line(text: &str) -> bool {
    !text.contains(char::is_control)
}

/// Returns whether text is one word: neither empty nor with whitespace or control characters.
pub fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// A value that may be a secret, which debug output omits.
#[derive(Clone, Default)]
pub struct Hidden<T>(pub T);

impl<T> std::fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// A map that is used as it is.
#[derive(Debug, Clone)]
pub struct AnyMap(pub Node);

impl FromNode for AnyMap {
    const SCHEMA: &'static [Type] = &[ANY_MAP];

    fn read(node: &Node, reader: &mut Reader) -> Option<AnyMap> {
        if node.as_map().is_none() {
            return reader.type_error(node, "a map");
        }
        Some(AnyMap(node.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::yaml;

    #[test]
    fn entries_are_ordered_by_number_or_text() {
        for (text, order) in [
            ("{10: '', 9: '', 2: ''}", "2 9 10"),
            ("{10: '', '09': '', 2: ''}", "2 09 10"),
            ("{'10': '', '9': '', '2': ''}", "10 2 9"),
            ("{b: '', 10: '', 9: ''}", "10 9 b"),
            ("{b: '', a: ''}", "a b"),
        ] {
            let node = yaml(text);
            let keys: Vec<String> = in_key_order(node.as_map().unwrap())
                .iter()
                .filter_map(|(key, _)| key.scalar_text())
                .collect();
            assert_eq!(keys.join(" "), order, "{text}");
        }
    }

    #[test]
    fn lines_words_and_operands_are_distinguished() {
        for (text, is_line, is_word) in [
            ("a", true, true),
            ("7", true, true),
            ("a b", true, false),
            ("-a", true, false),
            ("''", true, false),
            (r#""a\nb""#, false, false),
            (r#""a\0""#, false, false),
            ("[a]", false, false),
            ("null", false, false),
        ] {
            let node = yaml(text);
            let (mut of_line, mut of_word) = (Reader::new(), Reader::new());
            assert_eq!(Line::read(&node, &mut of_line).is_some(), is_line, "{text}");
            assert_eq!(Word::read(&node, &mut of_word).is_some(), is_word, "{text}");
            let is_operand = is_word || text == "a b";
            assert_eq!(Operand::read(&node, &mut Reader::new()).is_some(), is_operand, "{text}");
            assert_eq!(of_line.into_findings().iter().count(), usize::from(!is_line), "{text}");
            assert_eq!(of_word.into_findings().iter().count(), usize::from(!is_word), "{text}");
        }
    }
}
