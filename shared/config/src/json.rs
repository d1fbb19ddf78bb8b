//! A value as the JSON text that cloud-init's files have always held: indented by one, keys sorted, ASCII, a final
//! newline. The same as of [`Node::to_json`]'s value, which for a large configuration is as large again.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::{Node, Value};

impl Node {
    /// As JSON text: keys as text, binary as text (lossy), non-finite numbers as null.
    pub fn to_json_text(&self) -> String {
        let mut out = String::new();
        write(self, 0, &mut out);
        out.push('\n');
        out
    }
}

fn write(node: &Node, depth: usize, out: &mut String) {
    match &node.value {
        Value::Str(text) => string(text, out),
        Value::Seq(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                line(i > 0, depth + 1, out);
                write(item, depth + 1, out);
            }
            end(items.is_empty(), depth, ']', out);
        }
        Value::Map(map) => {
            // Of keys with the same text the last one counts.
            let mut entries: Vec<(Cow<'_, str>, &Node)> =
                map.iter().rev().map(|(k, v)| (key_text(k), v)).collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            entries.dedup_by(|(a, _), (b, _)| a == b);
            out.push('{');
            for (i, (key, value)) in entries.iter().enumerate() {
                line(i > 0, depth + 1, out);
                string(key, out);
                out.push_str(": ");
                write(value, depth + 1, out);
            }
            end(entries.is_empty(), depth, '}', out);
        }
        // No longer than a line.
        _ => match node.to_json() {
            serde_json::Value::String(text) => string(&text, out),
            other => _ = write!(out, "{other}"),
        },
    }
}

fn key_text(key: &Node) -> Cow<'_, str> {
    match key.as_str() {
        Some(text) => text.into(),
        None => key.scalar_text().unwrap_or_default().into(),
    }
}

fn line(is_next: bool, depth: usize, out: &mut String) {
    out.push_str(if is_next { ",\n" } else { "\n" });
    (0..depth).for_each(|_| out.push(' '));
}

fn end(is_empty: bool, depth: usize, bracket: char, out: &mut String) {
    if !is_empty {
        line(false, depth, out);
    }
    out.push(bracket);
}

fn string(text: &str, out: &mut String) {
    out.push('"');
    let is_plain = |b: u8| (b' '..=b'~').contains(&b) && !matches!(b, b'"' | b'\\');
    if text.bytes().all(is_plain) {
        out.push_str(text);
    } else {
        text.chars().for_each(|c| letter(c, out));
    }
    out.push('"');
}

fn letter(c: char, out: &mut String) {
    match c {
        '"' | '\\' => out.extend(['\\', c]),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{C}' => out.push_str("\\f"),
        ' '..='\u{7F}' => out.push(c),
        _ => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::yaml;

    #[test]
    fn as_python_writes_it() {
        let node = yaml::parse("t", "b: []\na: {é: 1.5, n: ~}\nc: [1, \"\\U0001D11E\"]\n").unwrap().root;
        let wanted = "{\n \"a\": {\n  \"n\": null,\n  \"\\u00e9\": 1.5\n },\n \"b\": [],\n \"c\": [\n  1,\n  \"\\ud834\\udd1e\"\n ]\n}\n";
        assert_eq!(node.to_json_text(), wanted);
    }

    #[test]
    fn the_value_is_that_of_to_json() {
        let letters: String =
            (0..0x300).chain([0x2028, 0xFFFF, 0x1F600]).filter_map(char::from_u32).collect();
        for text in [
            "{}",
            "~",
            "x",
            "[[], {}, [[1, -2], {a: {b: c}}], yes, 1e300, -0.0, 1.0, .inf, .nan, 0.1, 1e-7]",
            "{1: int, '1': text, yes: bool, 1.5: float, ~: nothing}",
            "[9223372036854775808, 18446744073709551616, -9223372036854775809, !!binary aGn/]",
            "{z: 1, a: 2, 'A': 3, '': 4, é: 5, ~: 6}",
        ] {
            let mut node = yaml::parse("t", text).unwrap().root;
            if let Some(map) = node.as_map_mut() {
                map.insert("letters", letters.as_str());
            }
            let text = node.to_json_text();
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), node.to_json(), "{text}");
            assert!(text.is_ascii());
        }
    }
}
