//! YAML 1.1 as PyYAML's safe loader reads it, with positions and limits: `events` runs the parser, `validator` rejects
//! what PyYAML rejects, `compose` and `construct` turn events into a tree and the tree into values, and `scalar` resolves
//! plain scalars. `repair` edits valid input that the parser rejects. Never panics on any input. `emit` writes YAML, with
//! `quote` for text, to a `writer`.
//!
//! Differences from PyYAML: timestamps and integers beyond 128 bits stay text; recursive values, input beyond the
//! limits below and unknown `%` directives are rejected; JSON's surrogate pairs (`\ud83d\ude00`) are characters, and a
//! lone surrogate is U+FFFD.

mod compose;
mod construct;
mod edits;
mod emit;
mod events;
mod limits;
mod parsed;
mod position;
mod quote;
mod repair;
mod scalar;
mod tree;
mod validator;
mod writer;

pub use emit::{Style, emit, emit_entry, emit_with_positions};
pub use limits::{MAX_BYTES, MAX_COPIES, MAX_DEPTH, MAX_NODES};
pub use parsed::{Parsed, YamlError};

use std::rc::Rc;

use crate::Position;

/// Parses one document; an empty text is null. `source` names the text in positions.
///
/// # Errors
/// Fails if the text is not valid YAML, has several documents, or exceeds a limit.
pub fn parse(source: &str, text: &str) -> Result<Parsed, YamlError> {
    parse_rendered(source, text, &[])
}

/// Parses text that was rendered from a template, as [`parse`] does; `lines` has for each line that of the template, which is
/// the one in positions.
///
/// # Errors
/// Fails as [`parse`] does.
pub fn parse_rendered(source: &str, text: &str, lines: &[u32]) -> Result<Parsed, YamlError> {
    let source: Rc<str> = source.into();
    if text.len() > MAX_BYTES {
        let message = format!("larger than {} MiB", MAX_BYTES >> 20);
        return Err(YamlError { at: Position { source: Some(source), line: 0, column: 0 }, message });
    }
    repair::document(source, text.strip_prefix('\u{FEFF}').unwrap_or(text), lines)
}

/// Parses bytes from a file or the network, as [`parse`] does text.
///
/// # Errors
/// Fails as [`parse`] does, and for bytes that are not UTF-8, with the position of the first.
pub fn parse_bytes(source: &str, bytes: &[u8]) -> Result<Parsed, YamlError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(source, text),
        Err(error) => {
            let good = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            let position::LineColumn { line, column } = position::line_column_of(good, good.len());
            let at = Position { source: Some(source.into()), line, column };
            Err(YamlError { at, message: "not UTF-8 text".into() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Finding, Node};

    fn json(text: &str) -> String {
        parse("t", text).unwrap().root.to_json().to_string()
    }

    #[test]
    fn parses_yaml_1_1_values() {
        for (text, expected) in [
            ("", "null"),
            ("\u{FEFF}a: 1", r#"{"a":1}"#),
            (
                "[yes, No, oN, 0644, 0o644, 1:30, 1_000, 0x1F, 0b11, ~, '~', 1e3, 1.5e+3, 2024-01-02]",
                r#"[true,false,"oN",420,"0o644",90,1000,31,3,null,"~","1e3",1500.0,"2024-01-02"]"#,
            ),
            ("b: &b {x: 1, y: 2}\nc: {y: 3, <<: *b}", r#"{"b":{"x":1,"y":2},"c":{"x":1,"y":3}}"#),
            ("<<: [{a: 1, b: 1}, {b: 2, c: 2}]\nd: 0", r#"{"a":1,"b":1,"c":2,"d":0}"#),
            ("s: !!set {a, b}\no: !!omap [a: 1]", r#"{"o":[["a",1]],"s":["a","b"]}"#),
            ("x: !!binary aGk=\ny: ! 12\nz: !!str 12", r#"{"x":"ci-b64:aGk=","y":12,"z":"12"}"#),
        ] {
            assert_eq!(json(text), expected, "{text}");
        }
    }

    #[test]
    fn emits_block_style() {
        let root = parse("t", "b: [1, {c: 'yes', a: ~}, []]\na: \"it's\\n\"\n10: x").unwrap().root;
        let text = "b:\n- 1\n-   a: null\n    c: 'yes'\n- []\na: 'it''s\n\n    '\n10: x\n";
        assert_eq!(emit(&root, Style::PLAIN), text);
        for below in [root.clone(), Node::from("x"), Node::from(Vec::<Node>::new()), Node::null()] {
            let whole: crate::Map = [(Node::from("key"), below.clone())].into_iter().collect();
            assert_eq!(emit_entry("key", &below, Style::PLAIN), emit(&Node::from(whole), Style::PLAIN));
        }
        assert_eq!(emit(&root, Style::DOCUMENT), format!("---\n{text}...\n"));
        assert_eq!(emit(&Node::from("x"), Style::PLAIN), "x\n...\n");
    }

    #[test]
    fn nodes_and_findings_have_positions() {
        let parsed = parse("f", "a: 1\nb:\n  - x\n  -  é: {c: 3}\na: 2").unwrap();
        let at = |node: &Node| format!("{}", node.at);
        assert_eq!(at(&parsed.root), "f:1:1");
        let item = &parsed.root.get("b").unwrap().as_seq().unwrap()[1];
        assert_eq!((at(item), at(item.at_path(&["é", "c"]).unwrap())), ("f:4:6".into(), "f:4:13".into()));
        assert_eq!(parsed.root.get("a").unwrap().as_int(), Some(2));
        let messages: Vec<String> = parsed.findings.iter().map(|f| f.to_string()).collect();
        assert_eq!(messages, ["f:5:1: a: duplicate key (first on line 1); using the last value"]);
    }

    #[test]
    fn repairs_preserve_positions() {
        let parsed = parse("f", "{a:[1], b: \"\\ud83d\\ude00\", c:, d: {e:[2]}}\nf").unwrap_err();
        assert_eq!(parsed.at.to_string(), "f:2:1");
        let parsed = parse("f", "{a:[1], b: \"\\ud83d\\ude00\", c:, d: {e:[2]}}").unwrap();
        assert_eq!(parsed.root.get("b").unwrap().as_str(), Some("😀"));
        assert_eq!(parsed.root.at_path(&["d", "e"]).unwrap().at.to_string(), "f:1:38");
        assert_eq!(parsed.root.get("a").unwrap().at.to_string(), "f:1:4");
        for (text, read) in [
            ("\"\\ud83d\"", "\u{fffd}"),
            ("\"\\ud83d x\"", "\u{fffd} x"),
            ("\"\\ude00\\ud83d\"", "\u{fffd}\u{fffd}"),
            ("\"\\ud83d\\u0041\"", "\u{fffd}A"),
            ("\"\\U0000d83d\"", "\u{fffd}"),
        ] {
            assert_eq!(parse("f", text).unwrap().root.as_str(), Some(read), "{text}");
        }
    }

    #[test]
    fn invalid_documents_are_rejected_with_their_position() {
        for (text, place) in [
            ("a: 1\n\tb: 2", "f:2:1"),
            ("a: !nope 1", "f:1:4"),
            ("a: b: c", "f:1:5"),
            ("[a]: 1", "f:1:1"),
            ("a: *b", "f:1:4"),
            ("a: &a [*a]", "f:1:4"),
            ("--- a\n--- b", "f:2:1"),
            ("a: \u{7}", "f:1:4"),
            ("%FOO 1\n--- a", "f:1:5"),
            ("x:\n- =", "f:2:3"),
            ("2024-02-30", "f:1:1"),
        ] {
            let bad = parse("f", text).unwrap_err();
            assert_eq!(bad.at.to_string(), place, "{text}: {bad}");
        }
        assert_eq!(parse_bytes("f", b"a: 1\nb: \xFF").unwrap_err().to_string(), "f:2:4: not UTF-8 text");
        assert!(parse("f", &"[".repeat(5000)).is_err());
        assert!(parse("f", &"- ".repeat(5000)).is_err());
    }

    #[test]
    fn messages_name_the_opening_position() {
        for (text, message) in [
            (
                "a:\n  - [x, y\nb: 1\n",
                "f:3:2: missing ',' or ']' in the list that starts on line 2, column 5",
            ),
            ("a: {x: 1\nb: [1]\n", "f:2:2: missing ',' or '}' in the map that starts on line 1, column 4"),
            ("a: 1\nb: 'it\nc: 1\n", "f:4:1: unclosed quotation mark (opened on line 2, column 4)"),
            ("b: \"it\n---\nc\n", "f:2:1: unclosed quotation mark (opened on line 1, column 4)"),
            ("{a:[1], \"b\": \"", "f:1:15: unclosed quotation mark (opened on line 1, column 14)"),
            (
                "a: b\n\u{feff}c: d: e\n",
                "f:2:6: unexpected ':'; quote the value, fix the indentation, or put a blank after the ':' of the key before (mapping values are not allowed in this context); an invisible byte order mark (U+FEFF) is on line 2",
            ),
        ] {
            assert_eq!(parse("f", text).unwrap_err().to_string(), message, "{text}");
        }
        let messages: Vec<String> =
            parse("f", "a: 1\n\u{feff}b: 2").unwrap().findings.iter().map(Finding::to_string).collect();
        assert_eq!(messages, ["f:2:1: b: the key contains an invisible byte order mark (U+FEFF)"]);
    }

    #[test]
    fn repairs_are_bounded() {
        let many = format!("[{}, a:[x]]", vec!["\"\\ud83d\\ude00 \\\\ud83d \\ud83d\""; 20_000].join(", "));
        let read = parse("f", &many).unwrap().root;
        let (last, texts) = read.as_seq().unwrap().split_last().unwrap();
        assert!(texts.iter().all(|item| item.as_str() == Some("😀 \\ud83d \u{fffd}")));
        assert_eq!((texts[1].at.column, last.at.column), (33, 20_000 * 31 + 2));
        for text in ["[? , b]", "a: |\n  \tx\n  y\n", "[\"[?, x]\", ?, b]"] {
            assert!(parse("f", text).is_ok(), "{text}");
        }
        assert_eq!(json("[\"[?, x]\", ?, b]"), r#"["[?, x]",{"null":null},"b"]"#);
        assert_eq!(json("a: |\n  \tx\n"), r#"{"a":"\tx\n"}"#);
        assert!(parse("f", &"[?, ".repeat(90)).is_err());
        assert!(parse("f", &"{a:[1],".repeat(3000)).is_err());
    }

    /// Returns a list of this many maps that need a repair each.
    fn glued(count: usize) -> String {
        format!("[{}]", vec!["{a:[1]}"; count].join(", "))
    }

    #[test]
    fn small_texts_are_repaired_until_too_much_is_read_again() {
        // Each repair adds a space to the text.
        let read = |count: usize| count * glued(count).len() + count * (count - 1) / 2;
        let most = (1..).take_while(|count| read(*count) <= repair::MAX_REREAD_BYTES).last().unwrap();
        assert!(most > 600, "{most}");
        let root = parse("f", &glued(most)).unwrap().root;
        let items = root.as_seq().unwrap();
        assert_eq!((items.len(), items[most - 1].at.column as usize), (most, (most - 1) * 9 + 2));
        let refused = parse("f", &glued(most + 1)).unwrap_err();
        assert_eq!(refused.at.column as usize, most * 9 + 4, "{refused}");
    }

    #[test]
    fn large_texts_are_repaired_a_few_times() {
        let most = repair::MAX_REPAIRS;
        let comment = format!("\n# {}\n", "x".repeat(repair::MAX_REREAD_BYTES / most + 1000));
        assert!(parse("f", &(glued(most) + &comment)).is_ok());
        let refused = parse("f", &(glued(most + 1) + &comment)).unwrap_err();
        assert_eq!(refused.at.column as usize, most * 9 + 4, "{refused}");
    }

    #[test]
    fn the_nearest_places_are_tried_for_an_empty_key() {
        let text = |others: usize| format!("[?, #{}\n b]", "[?,".repeat(others));
        let most = repair::MAX_CANDIDATES - 1;
        assert!(parse("f", &text(most)).is_ok());
        assert!(parse("f", &text(most + 1)).is_err());
    }

    #[test]
    fn directives_are_limited() {
        let text = |count: usize, end: &str| {
            (0..count).map(|i| format!("%TAG !e{i}! t,1:{end}")).collect::<String>() + "---\na: |\n  %TAG\n"
        };
        let most = limits::MAX_TAG_DIRECTIVES;
        assert_eq!(parse("f", &text(most, "\n")).unwrap().root.get("a").unwrap().as_str(), Some("%TAG\n"));
        for (end, place) in [("\n", "f:101:1"), ("\r\n", "f:101:1"), ("\r", "f:1:1"), ("\u{2028}", "f:1:1")] {
            let bad = parse("f", &text(most + 1, end)).unwrap_err().to_string();
            assert_eq!(bad, format!("{place}: more than 100 %TAG directives"));
        }
    }

    #[test]
    fn expansion_of_aliases_is_limited() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        let mut merges = String::from("a0: &a0 {x: 1}\n");
        for i in 1..30 {
            let p = i - 1;
            text += &format!("a{i}: &a{i} [*a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}]\n");
            merges += &format!("a{i}: &a{i} {{<<: [*a{p}, *a{p}, *a{p}]}}\n");
        }
        for text in [text, merges] {
            assert!(parse("f", &text).unwrap_err().message.contains("expand to too many values"));
        }
        let fits = |n: usize| parse("f", &format!("a: &a x\nb: [{}]", vec!["*a"; n].join(","))).is_ok();
        assert!(fits(200_000) && !fits(200_001));
    }
}
