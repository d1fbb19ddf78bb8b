//! JSON as Python reads and writes it: `NaN` and infinities are numbers, a lone surrogate escape is a character (U+FFFD
//! here, because Rust text cannot hold it), keys keep their order. Metadata documents with these are accepted. Text is
//! written directly from the value: converting a large configuration to serde_json's type takes longer than writing it.

use std::borrow::Cow;

use encoding::json::has_too_many_values;
use encoding::python::put_json;

use crate::yaml::{MAX_BYTES, MAX_NODES};
use crate::{Map, Node, Value};

/// The nesting limit of common JSON parsers.
const MAX_DEPTH: usize = 128;

/// The position of a JSON syntax error; line 0 is that of a document beyond the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
}

/// The error of a document beyond the limits.
const TOO_LARGE: JsonError = JsonError { line: 0, column: 0 };

impl JsonError {
    /// Returns the message for a file.
    pub fn in_file(&self, path: &str) -> String {
        match *self == TOO_LARGE {
            true => format!("{path}: {self}"),
            false => format!("{path}:{}:{}: not valid JSON", self.line, self.column),
        }
    }
}

impl std::fmt::Display for JsonError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == TOO_LARGE {
            return write!(f, "larger than {} MiB or {MAX_NODES} values", MAX_BYTES >> 20);
        }
        write!(f, "line {}, column {}: not valid JSON", self.line, self.column)
    }
}

impl std::error::Error for JsonError {}

/// Parses a document. Its values have no position; of duplicate keys the last value is used.
///
/// # Errors
/// Fails if the text is not valid JSON, is too large or is nested too deeply.
pub fn parse(text: &str) -> Result<Node, JsonError> {
    if text.len() > MAX_BYTES {
        return Err(TOO_LARGE);
    }
    let mut parser = Parser { text, at: 0, nodes: 0 };
    parser.document().ok_or_else(|| {
        let before = &text.as_bytes()[..parser.at.min(text.len())];
        let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        JsonError { line, column: before.len() - line_start + 1 }
    })
}

/// Parses a document as serde_json's value, which cannot hold `NaN` and infinities: they become null.
///
/// # Errors
/// Fails if the bytes are not valid JSON, are too large or are nested too deeply.
pub fn value(bytes: &[u8]) -> Result<serde_json::Value, JsonError> {
    if bytes.len() > MAX_BYTES || has_too_many_values(bytes) {
        return Err(TOO_LARGE);
    }
    serde_json::from_slice(bytes).or_else(|e| {
        let lenient = std::str::from_utf8(bytes).ok().and_then(|text| parse(text).ok());
        lenient.map(|node| node.to_json()).ok_or(JsonError { line: e.line(), column: e.column() })
    })
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    nodes: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_whitespace(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn consume(&mut self, word: &str) -> bool {
        let there = self.rest().starts_with(word);
        self.at += if there { word.len() } else { 0 };
        there
    }

    fn document(&mut self) -> Option<Node> {
        let value = self.value(0)?;
        self.skip_whitespace();
        self.rest().is_empty().then_some(value)
    }

    fn value(&mut self, depth: usize) -> Option<Node> {
        self.skip_whitespace();
        self.nodes += 1;
        let first = self.rest().bytes().next()?;
        // A list or map is no innermost level, as in serde_json.
        let level = depth + 1 + usize::from(matches!(first, b'{' | b'['));
        if level > MAX_DEPTH || self.nodes > MAX_NODES {
            return None;
        }
        Some(Node::from(match first {
            b'{' => Value::Map(self.map(depth)?),
            b'[' => Value::Seq(self.list(depth)?),
            b'"' => Value::Str(self.string()?),
            b'n' => self.consume("null").then_some(Value::Null)?,
            b't' => self.consume("true").then_some(Value::Bool(true))?,
            b'f' => self.consume("false").then_some(Value::Bool(false))?,
            b'N' => self.consume("NaN").then_some(Value::Float(f64::NAN))?,
            b'I' => self.consume("Infinity").then_some(Value::Float(f64::INFINITY))?,
            _ if self.consume("-Infinity") => Value::Float(f64::NEG_INFINITY),
            _ => self.number()?,
        }))
    }

    /// Reads the items between two brackets.
    fn items(&mut self, end: &str, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        // The first bracket.
        self.at += 1;
        self.skip_whitespace();
        if self.consume(end) {
            return Some(());
        }
        loop {
            item(self)?;
            self.skip_whitespace();
            if !self.consume(",") {
                return self.consume(end).then_some(());
            }
        }
    }

    fn list(&mut self, depth: usize) -> Option<Vec<Node>> {
        let mut items = Vec::new();
        self.items("]", |parser| {
            items.push(parser.value(depth + 1)?);
            Some(())
        })?;
        Some(items)
    }

    fn map(&mut self, depth: usize) -> Option<Map> {
        let mut map = Map::new();
        self.items("}", |parser| {
            parser.skip_whitespace();
            let key = parser.rest().starts_with('"').then(|| parser.string()).flatten()?;
            parser.nodes += 1;
            parser.skip_whitespace();
            parser.consume(":").then_some(())?;
            map.insert(key, parser.value(depth + 1)?);
            Some(())
        })?;
        Some(map)
    }

    fn string(&mut self) -> Option<String> {
        self.consume("\"");
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let end = rest.find(|c: char| matches!(c, '"' | '\\') || c < ' ')?;
            text.push_str(&rest[..end]);
            self.at += end;
            if self.consume("\"") {
                return Some(text);
            }
            // Anything else is a control character, which must be escaped.
            if !self.consume("\\") {
                return None;
            }
            let escape = self.rest().chars().next()?;
            let letter = match escape {
                '"' | '\\' | '/' => escape,
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => {
                    self.at += 1;
                    text.push(self.unicode_escape()?);
                    continue;
                }
                _ => return None,
            };
            self.at += 1;
            text.push(letter);
        }
    }

    /// Returns the character of `XXXX` or `XXXX\uXXXX`, after `\u`.
    fn unicode_escape(&mut self) -> Option<char> {
        let first = self.utf16_unit(self.at)?;
        self.at += 4;
        let is_pair = self.rest().starts_with("\\u");
        let second = if is_pair { self.utf16_unit(self.at + 2) } else { None };
        match char::decode_utf16([Some(first), second].into_iter().flatten()).next()? {
            Ok(letter) => {
                self.at += if letter > '\u{FFFF}' { 6 } else { 0 };
                Some(letter)
            }
            Err(_) => Some(char::REPLACEMENT_CHARACTER),
        }
    }

    fn utf16_unit(&self, at: usize) -> Option<u16> {
        let digits = self.text.get(at..at + 4)?;
        digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
    }

    fn number(&mut self) -> Option<Value> {
        let start = self.at;
        let negative = self.consume("-");
        let digits = |rest: &str| rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let whole = match digits(self.rest()) {
            0 => return None,
            // A number does not continue after a leading zero.
            _ if self.rest().starts_with('0') => 1,
            many => many,
        };
        self.at += whole;
        let mut is_float = false;
        if let Some(rest) = self.rest().strip_prefix('.')
            && digits(rest) > 0
        {
            self.at += 1 + digits(rest);
            is_float = true;
        }
        if let Some(rest) = self.rest().strip_prefix(['e', 'E']) {
            let signed = rest.strip_prefix(['+', '-']).unwrap_or(rest);
            if digits(signed) > 0 {
                self.at += 1 + rest.len() - signed.len() + digits(signed);
                is_float = true;
            }
        }
        let text = self.text.get(start..self.at)?;
        Some(match (is_float, text.parse::<i128>()) {
            (true, _) => Value::Float(encoding::float::parse(text)?),
            (false, Ok(0)) if negative => Value::Int(0),
            (false, Ok(number)) => Value::Int(number),
            // As in YAML, an integer that is too large stays text.
            (false, Err(_)) => Value::Str(text.to_string()),
        })
    }
}

/// Returns a value as text in the form of cloud-init's files: indented, keys sorted, ASCII, with a final newline. Binary
/// data is base64 after `ci-b64:`.
pub fn to_text(node: &Node, indent: usize) -> String {
    let mut out = String::new();
    write(node, indent, 0, &mut out);
    out.push('\n');
    out
}

fn write(node: &Node, indent: usize, level: usize, out: &mut String) {
    let line = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent * level));
    };
    let items = |out: &mut String, items: &mut dyn Iterator<Item = &Node>| {
        out.push('[');
        let mut any = false;
        for item in items {
            out.push_str(if any { "," } else { "" });
            any = true;
            line(out, level + 1);
            write(item, indent, level + 1, out);
        }
        if any {
            line(out, level);
        }
        out.push(']');
    };
    match &node.value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => out.push_str(&key_text(node)),
        Value::Str(text) => put_json(text, out),
        Value::Bytes(bytes) => put_json(&binary_text(bytes), out),
        Value::Seq(list) => items(out, &mut list.iter()),
        Value::Set(map) => items(out, &mut map.iter().map(|(key, _)| key)),
        Value::Map(map) => {
            // Of keys with the same text the last value is used.
            let mut entries: Vec<(Cow<'_, str>, &Node)> =
                map.iter().rev().map(|(key, value)| (key_text(key), value)).collect();
            sort::sort_by(&mut entries, |(a, _), (b, _)| a.cmp(b));
            entries.dedup_by(|(a, _), (b, _)| a == b);
            out.push('{');
            for (i, (key, value)) in entries.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                line(out, level + 1);
                put_json(key, out);
                out.push_str(": ");
                write(value, indent, level + 1, out);
            }
            if !entries.is_empty() {
                line(out, level);
            }
            out.push('}');
        }
    }
}

fn float_text(f: f64, node: &Node) -> Cow<'static, str> {
    match f {
        f if f.is_nan() => "NaN".into(),
        f if f.is_infinite() => if f > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        _ => node.scalar_text().unwrap_or_default().into(),
    }
}

/// Returns binary data as text.
fn binary_text(bytes: &[u8]) -> String {
    format!("ci-b64:{}", encoding::base64::encode(bytes))
}

/// Returns a key that is not text as Python writes it.
pub(crate) fn key_text(key: &Node) -> Cow<'_, str> {
    match &key.value {
        Value::Str(text) => text.into(),
        Value::Null => "null".into(),
        Value::Bool(b) => if *b { "true" } else { "false" }.into(),
        Value::Float(f) => float_text(*f, key),
        Value::Bytes(bytes) => binary_text(bytes).into(),
        _ => key.scalar_text().unwrap_or_default().into(),
    }
}

impl Node {
    /// Returns the value as JSON: keys as text, binary data as base64 after `ci-b64:`, non-finite numbers as null.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(b) => Json::Bool(*b),
            Value::Int(n) => match (i64::try_from(*n), u64::try_from(*n)) {
                (Ok(n), _) => n.into(),
                (_, Ok(n)) => n.into(),
                _ => Json::String(n.to_string()),
            },
            Value::Float(f) => Json::from(*f),
            Value::Str(text) => Json::String(text.clone()),
            Value::Bytes(bytes) => Json::String(binary_text(bytes)),
            Value::Seq(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Value::Set(map) => Json::Array(map.iter().map(|(key, _)| key.to_json()).collect()),
            Value::Map(map) => {
                Json::Object(sort::collect(map.iter().map(|(k, v)| (key_text(k).into_owned(), v.to_json()))))
            }
        }
    }

    /// Returns a JSON value as a node without positions (see [`crate::source_map::from_json`]).
    pub fn from_json(json: &serde_json::Value) -> Node {
        use serde_json::Value as Json;
        Node::from(match json {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(*b),
            Json::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
                (Some(n), ..) => Value::Int(n.into()),
                (_, Some(n), _) => Value::Int(n.into()),
                (.., f) => Value::Float(f.unwrap_or_default()),
            },
            Json::String(text) => Value::Str(text.clone()),
            Json::Array(items) => Value::Seq(items.iter().map(Node::from_json).collect()),
            Json::Object(map) => {
                Value::Map(map.iter().map(|(k, v)| (Node::from(k.as_str()), Node::from_json(v))).collect())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    #[test]
    fn reads_like_python() {
        for (text, read) in [
            ("{\"b\": 1, \"a\": [true, null, -0, 1.5e3]}", "{b: 1, a: [true, null, 0, 1500.0]}"),
            ("[NaN]", "[.nan]"),
            (
                "{\"a\": Infinity, \"b\": -Infinity, \"c\": 1e400, \"d\": -1e999}",
                "{a: .inf, b: -.inf, c: .inf, d: -.inf}",
            ),
            (
                "\"\\ud83d\\ude00 \\ud83d \\ude00x \\ud83d\\ud83d\\ude00 \\u0041\"",
                "\"😀 \u{fffd} \u{fffd}x \u{fffd}😀 A\"",
            ),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("{\"a\": 1, \"b\": 2, \"a\": 3}", "{a: 3, b: 2}"),
            (" \t\r\n\"\\\"\\\\\\/\\b\\f\\n\\r\\t\u{7f}é\" ", r#""\"\\/\b\f\n\r\t\x7Fé""#),
            ("[]", "[]"),
            ("{}", "{}"),
            ("0", "0"),
        ] {
            let unsorted = yaml::Style { sorted: false, ..yaml::Style::PLAIN };
            let shown = |node: &Node| yaml::emit(node, unsorted);
            let expected = yaml::parse("t", read).unwrap().root;
            assert_eq!(parse(text).as_ref().map(shown), Ok(shown(&expected)), "{text}");
        }
    }

    #[test]
    fn errors_have_positions() {
        for (text, line, column) in [
            ("", 1, 1),
            ("{\"a\": 1,\n  b}", 2, 3),
            ("[1,]", 1, 4),
            ("[1 2]", 1, 4),
            ("01", 1, 2),
            ("1.", 1, 2),
            ("+1", 1, 1),
            (".5", 1, 1),
            ("nan", 1, 1),
            ("'a'", 1, 1),
            ("\"a\nb\"", 1, 3),
            ("\"\\x41\"", 1, 3),
            ("\"\\u+041\"", 1, 4),
            ("\"abc", 1, 2),
            ("{\"a\" 1}", 1, 6),
            ("{1: 2}", 1, 2),
            ("[1] x", 1, 5),
            ("\u{feff}{}", 1, 1),
        ] {
            assert_eq!(parse(text), Err(JsonError { line, column }), "{text:?}");
        }
        assert!(parse(&"[".repeat(5000)).is_err());
        assert!(value(b"{\"a\": \xff}").is_err());
    }

    /// Metadata becomes instance data, which every reader of JSON must be able to read.
    #[test]
    fn values_that_json_lacks_become_null_or_text() {
        let text = b"[NaN, -Infinity, \"\\ud800\", 18446744073709551616, -9223372036854775809, 18446744073709551615]";
        assert_eq!(
            value(text).unwrap().to_string(),
            "[null,null,\"\u{fffd}\",\"18446744073709551616\",\"-9223372036854775809\",18446744073709551615]"
        );
    }

    #[test]
    fn writes_like_python() {
        let text = "{z: [], a: {}, 1: [.nan, .inf, -.inf, 1.0e+300, 1.0, 100000000000000000000], ~: !!binary AAE=, 2.5: 'é𝄞\"\\', s: !!set {q}}";
        let node = yaml::parse("t", text).unwrap().root;
        let wanted = "{\n \"1\": [\n  NaN,\n  Infinity,\n  -Infinity,\n  1e+300,\n  1.0,\n  100000000000000000000\n ],\n \"2.5\": \"\\u00e9\\ud834\\udd1e\\\"\\\\\",\n \"a\": {},\n \"null\": \"ci-b64:AAE=\",\n \"s\": [\n  \"q\"\n ],\n \"z\": []\n}\n";
        assert_eq!(to_text(&node, 1), wanted);
    }

    #[test]
    fn bytes_values_and_depth_are_limited() {
        let list = |count: usize, item: &str| format!("[{}{item}]", format!("{item},").repeat(count - 1));
        for (text, fits) in [
            (list(MAX_NODES / 2, "0"), true),
            (list(MAX_NODES + 1, "0"), false),
            (list(MAX_NODES / 2, "{}"), false),
            (format!("[\"{}\"]", ",[{:\\\\\\\"".repeat(MAX_NODES)), true),
            (format!("[\"{}\"]", "x".repeat(MAX_BYTES)), false),
            (format!("{}0{}", "[".repeat(127), "]".repeat(127)), true),
            (format!("{}{}", "[".repeat(128), "]".repeat(128)), false),
        ] {
            assert_eq!(value(text.as_bytes()).is_ok(), fits, "{:.40}", text);
            assert_eq!(parse(&text).is_ok(), fits || text.starts_with("[{"), "{:.40}", text);
        }
        let error = value(list(MAX_NODES + 1, "0").as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "larger than 32 MiB or 2000000 values");
    }

    /// No document causes a panic, and both readers accept the same ones, except for those that are not UTF-8.
    #[test]
    fn mutated_documents_are_accepted_by_both_readers_or_by_neither() {
        let good =
            r#"{"a": [1, -2.5e+3, true, null, "\u00fc\ud83d\ude00\\\n"], "b": {"": {}}, "c": [[], 0]}"#;
        let (mut accepted, mut refused) = (0, 0);
        for bad in scratch::mutations(good.as_bytes(), 5000) {
            let read = value(&bad);
            let is_read = std::str::from_utf8(&bad).is_ok_and(|text| parse(text).is_ok());
            assert_eq!(read.is_ok(), is_read, "{:?}", bad.escape_ascii().to_string());
            match read {
                Ok(_) => accepted += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(accepted > 50 && refused > 1000, "{accepted} {refused}");
    }

    #[test]
    fn to_text_matches_to_json() {
        let letters: String =
            (0..0x300).chain([0x2028, 0xFFFF, 0x1F600]).filter_map(char::from_u32).collect();
        for text in [
            "{}",
            "~",
            "x",
            "[[], {}, [[1, -2], {a: {b: c}}], yes, -0.0, 1.0, 0.1]",
            "{1: int, '1': text, yes: bool, 1.5: float, ~: nothing}",
            "[9223372036854775808, -9223372036854775808, !!binary aGn/]",
            "{z: 1, a: 2, 'A': 3, '': 4, é: 5, ~: 6}",
        ] {
            let mut node = yaml::parse("t", text).unwrap().root;
            if let Some(map) = node.as_map_mut() {
                map.insert("letters", letters.as_str());
            }
            let json: serde_json::Value = serde_json::from_str(&to_text(&node, 1)).unwrap();
            assert_eq!(json, node.to_json());
        }
    }
}
