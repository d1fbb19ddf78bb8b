//! A list of commands in bootcmd and runcmd, and the shell script for it.

use config::schema::{NULL, STR, Type, list};
use config::{FromNode, Node, Reader, Value};

/// Commands in order. A string is a line of shell; a list is one command with its arguments, which the shell does not
/// interpret; null is an empty line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands(Vec<Line>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Shell(String),
    Words(Vec<String>),
}

/// One invalid item makes the whole list invalid: running half of a script is worse than running nothing.
impl FromNode for Commands {
    const SCHEMA: &'static [Type] = &[list(&[list(&[STR]), STR, NULL]).min(1)];

    fn read(node: &Node, reader: &mut Reader) -> Option<Commands> {
        let items = reader.list(node, "a list of commands")?;
        let lines: Option<Vec<_>> = reader.items(items, read_line).into_iter().collect();
        Some(Commands(lines?.into_iter().flatten().collect()))
    }
}

fn read_line(item: &Node, reader: &mut Reader) -> Option<Option<Line>> {
    match &item.value {
        Value::Null => Some(None),
        Value::Str(text) => Some(Some(Line::Shell(text.clone()))),
        Value::Seq(words) => {
            let mut texts = Vec::with_capacity(words.len());
            for (i, word) in words.iter().enumerate() {
                match word.scalar_text() {
                    Some(text) => texts.push(text),
                    None => return reader.nested(&format!("[{i}]"), |r| r.type_error(word, "a string")),
                }
            }
            Some(Some(Line::Words(texts)))
        }
        _ => reader.type_error(item, "a command (a string, or a list of strings)"),
    }
}

impl Commands {
    /// Returns the script, which users find as `scripts/runcmd`: its bytes are upstream's.
    pub fn script(&self) -> String {
        let mut script = String::from("#!/bin/sh\n");
        for line in &self.0 {
            match line {
                Line::Shell(text) => script.push_str(text),
                Line::Words(words) => {
                    let quoted: Vec<_> =
                        words.iter().map(|w| format!("'{}'", w.replace('\'', r"'\''"))).collect();
                    script.push_str(&quoted.join(" "));
                }
            }
            script.push('\n');
        }
        script
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::yaml;

    #[test]
    fn list_items_are_quoted_and_text_is_not() {
        for (text, body) in [
            ("[]", ""),
            ("[ls]", "ls\n"),
            ("['echo $A', null, [echo, $A]]", "echo $A\n'echo' '$A'\n"),
            (
                "[[it, \"isn't\", 1, true, 0644, 1.0, null]]",
                "'it' 'isn'\\''t' '1' 'True' '420' '1.0' 'None'\n",
            ),
            ("[\"a\\nb\\n\"]", "a\nb\n\n"),
        ] {
            let commands = Commands::read(&yaml(text), &mut Reader::new()).unwrap();
            assert_eq!(commands.script(), format!("#!/bin/sh\n{body}"), "{text}");
        }
    }

    #[test]
    fn invalid_lists_report_their_position() {
        for (text, expected) in [
            ("ls", "test.yaml:1:1: expected a list of commands, found a string"),
            ("{a: b}", "test.yaml:1:1: expected a list of commands, found a map"),
            (
                "[ok, 1]",
                "test.yaml:1:6: [1]: expected a command (a string, or a list of strings), found an integer",
            ),
            ("- ok\n- [a, {b: c}]", "test.yaml:2:7: [1][1]: expected a string, found a map"),
            (
                "- a: b",
                "test.yaml:1:3: [0]: expected a command (a string, or a list of strings), found a map",
            ),
        ] {
            let mut reader = Reader::new();
            assert_eq!(Commands::read(&yaml(text), &mut reader), None, "{text}");
            let findings: Vec<_> = reader.into_findings().iter().map(ToString::to_string).collect();
            assert_eq!(findings, [expected]);
        }
    }
}
