//! Types of strings that become part of a line of a file, or an argument of a command.

use config::schema::{STR, Type};
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

/// Text without control characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line(pub String);

impl FromNode for Line {
    const SCHEMA: &'static [Type] = &[STR];

    fn read(node: &Node, reader: &mut Reader) -> Option<Line> {
        let text = String::read(node, reader)?;
        if text.chars().any(char::is_control) {
            return reader.type_error(node, "a single-line string");
        }
        Some(Line(text))
    }
}

/// The path of a file or a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilePath(pub String);

impl FromNode for FilePath {
    const SCHEMA: &'static [Type] = &[STR];
    fn read(node: &Node, reader: &mut Reader) -> Option<FilePath> {
        let text = String::read(node, reader)?;
        if text.is_empty() || text.contains(char::is_control) {
            return reader.type_error(node, "a path without control characters");
        }
        Some(FilePath(text))
    }
}

/// Text that a command takes as one argument that is not an option: a name or a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word(pub String);

impl FromNode for Word {
    const SCHEMA: &'static [Type] = &[STR];

    fn read(node: &Node, reader: &mut Reader) -> Option<Word> {
        let text = String::read(node, reader)?;
        let has_other = text.contains(|c: char| c.is_control() || c.is_whitespace());
        if text.is_empty() || text.starts_with('-') || has_other {
            return reader.type_error(node, "a name without spaces that does not begin with a hyphen");
        }
        Some(Word(text))
    }
}

/// Text that a command takes as one argument that is not an option, and that may contain spaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Operand(pub String);

impl FromNode for Operand {
    const SCHEMA: &'static [Type] = &[STR];

    fn read(node: &Node, reader: &mut Reader) -> Option<Operand> {
        let Line(text) = Line::read(node, reader)?;
        if text.is_empty() || text.starts_with('-') {
            return reader.type_error(node, "a string that is not empty and does not begin with a hyphen");
        }
        Some(Operand(text))
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
