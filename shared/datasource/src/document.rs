//! Metadata documents: text in YAML or JSON becomes a value, and fields of the value become text.

use config::{Map, Node, Value};
use system::{Error, Result, System, warning};

use crate::fields::line_problem;

/// Parses a YAML or JSON document whose top level is a map. An empty document is an empty map.
///
/// # Errors
///
/// Fails, with the position in `source`, if the document is malformed or its top level is not a map.
pub fn parse_map(source: &str, bytes: &[u8]) -> Result<Node> {
    let parsed = config::yaml::parse_bytes(source, bytes).or_else(|e| match repair_surrogates(bytes) {
        Some(bytes) => config::yaml::parse_bytes(source, &bytes),
        None => Err(e),
    });
    let root = parsed.map_err(|e| Error::new(e.to_string()))?.root;
    if root.is_null() {
        return Ok(Node::from(Map::new()));
    }
    if root.as_map().is_none() {
        return Err(Error::new(format!("{}: expected a map, found {}", root.at, root.kind())));
    }
    Ok(root)
}

/// Returns the text of a scalar field, or `None` if it is missing, null, empty or not a scalar.
pub fn text(map: &Node, key: &str) -> Option<String> {
    map.get(key).filter(|node| !node.is_null()).and_then(Node::scalar_text).filter(|text| !text.is_empty())
}

/// Returns the items of a list field; none if the field is missing or not a list.
pub fn items<'n>(map: &'n Node, key: &str) -> &'n [Node] {
    map.get(key).and_then(Node::as_seq).unwrap_or_default()
}

/// Returns a map of the named fields, each under another name: pairs of the new name and that in `map`. Missing fields
/// become null.
pub fn select(map: &Node, names: &[(&str, &str)]) -> Map {
    names.iter().map(|(new, old)| (Node::from(*new), map.get(old).cloned().unwrap_or_default())).collect()
}

/// The expected type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A line of text, or a number that is read as text.
    Text,
    /// User-data: any text.
    Data,
    /// Lines of text.
    Lines,
    /// A map.
    Map,
    /// A list.
    List,
    /// A map of lines of text.
    Texts,
    /// SSH keys: lines, or a list or map of texts.
    Keys,
}

/// A field of a document: its path (names separated by dots; `LIST[].NAME` is a field of each item of a list), its type,
/// and whether each document or item must have it. An item without it becomes null.
pub type Field = (&'static str, Shape, bool);

/// Replaces fields of other types than expected, and texts that cannot be what they should, by null, so that an invalid
/// field costs only itself. All of them, and missing required ones, are named in one warning.
pub fn check_fields(sys: &System, source: &str, document: &mut Node, fields: &[Field]) {
    let mut problems = Vec::new();
    for (path, shape, is_required) in fields {
        match path.split_once("[].") {
            None => problems.extend(check_path(document, path, path, *shape, *is_required)),
            Some((list, name)) => {
                let Some(Value::Seq(items)) = find_mut(document, list).map(|node| &mut node.value) else {
                    continue;
                };
                for (i, item) in items.iter_mut().enumerate().filter(|(_, item)| !item.is_null()) {
                    let place = format!("{list}[{i}]");
                    if item.as_map().is_none() {
                        let problem = expected("a map", item);
                        problems.push(reject(&place, item, &problem));
                        continue;
                    }
                    let place = format!("{place}.{name}");
                    problems.extend(check_path(item, name, &place, *shape, *is_required));
                    if *is_required && item.get(name).is_none_or(Node::is_null) {
                        *item = Node::null();
                    }
                }
            }
        }
    }
    if !problems.is_empty() {
        warning!(sys, "{source}: {}", problems.join("; "));
    }
}

/// Checks the field at `path`, which messages call `place`.
fn check_path(document: &mut Node, path: &str, place: &str, shape: Shape, is_required: bool) -> Vec<String> {
    match find_mut(document, path).filter(|node| !node.is_null()) {
        None if is_required => vec![format!("{place} is missing")],
        None => Vec::new(),
        Some(field) => check_field(place, field, shape),
    }
}

fn find_mut<'n>(document: &'n mut Node, path: &str) -> Option<&'n mut Node> {
    path.split('.').try_fold(document, |node, name| node.as_map_mut()?.get_mut(name))
}

/// Returns what is wrong with a field or with its items, which become null.
fn check_field(path: &str, field: &mut Node, shape: Shape) -> Vec<String> {
    let problem = match (shape, &mut field.value) {
        (Shape::Text, _) => match field.scalar_text() {
            Some(text) => line_problem(text.trim()).map(Into::into),
            None => Some(expected("text", field)),
        },
        (Shape::Data, _) => field.scalar_text().is_none().then(|| expected("text", field)),
        (Shape::Map, value) => (!matches!(value, Value::Map(_))).then(|| expected("a map", field)),
        (Shape::List, value) => (!matches!(value, Value::Seq(_))).then(|| expected("a list", field)),
        (Shape::Keys, Value::Seq(items)) => {
            let items = items.iter_mut().enumerate();
            return items.filter_map(|(i, item)| check_keys(&format!("{path}[{i}]"), item, "text")).collect();
        }
        (Shape::Keys | Shape::Texts, Value::Map(map)) => {
            let names: Vec<String> = map.iter().filter_map(|(name, _)| name.scalar_text()).collect();
            let mut problems = Vec::new();
            for name in names {
                let place = format!("{path}.{name}");
                match map.get_mut(&name).filter(|item| !item.is_null()) {
                    Some(item) if shape == Shape::Texts => {
                        problems.extend(check_field(&place, item, Shape::Text));
                    }
                    Some(item) if matches!(item.value, Value::Seq(_)) => {
                        problems.extend(check_field(&place, item, Shape::Keys));
                    }
                    Some(item) => problems.extend(check_keys(&place, item, "SSH keys")),
                    None => {}
                }
            }
            return problems;
        }
        (Shape::Texts, _) => Some(expected("a map", field)),
        (Shape::Lines, _) => return check_keys(path, field, "text").into_iter().collect(),
        (Shape::Keys, _) => return check_keys(path, field, "SSH keys").into_iter().collect(),
    };
    problem.map(|problem| reject(path, field, &problem)).into_iter().collect()
}

/// Checks the SSH keys of a text, one on each line.
fn check_keys(path: &str, field: &mut Node, what: &str) -> Option<String> {
    let problem = match field.as_str() {
        Some(text) => {
            text.lines().find_map(|line| line_problem(&line.trim().replace('\t', " "))).map(Into::into)
        }
        None if field.is_null() => None,
        None => Some(expected(what, field)),
    };
    problem.map(|problem: String| reject(path, field, &problem))
}

fn expected(what: &str, found: &Node) -> String {
    format!("expected {what}, found {}", found.kind())
}

fn reject(path: &str, field: &mut Node, problem: &str) -> String {
    *field = Node::null();
    format!("{path}: {problem}; ignored")
}

/// Replaces escapes for halves of UTF-16 surrogate pairs (`\ud83d`): two that belong together by their character, a lone
/// one by U+FFFD. Programs that truncate text write lone ones, and a machine's name must not cost its instance-id.
/// Returns `None` if the text has no such escape.
fn repair_surrogates(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    let mut is_repaired = false;
    while let Some(at) = rest.iter().position(|b| *b == b'\\') {
        let (before, escape) = rest.split_at(at);
        out.extend_from_slice(before);
        let Some(high @ 0xd800..0xe000) = code_unit(escape) else {
            // Skips the escaped character too, as it may be a backslash.
            let end = escape.len().min(2);
            out.extend_from_slice(&escape[..end]);
            rest = &escape[end..];
            continue;
        };
        is_repaired = true;
        let low = code_unit(&escape[ESCAPE_LENGTH..]).filter(|low| (0xdc00..0xe000).contains(low));
        let pair = low.and_then(|low| char::decode_utf16([high, low]).next()?.ok());
        out.extend_from_slice(pair.unwrap_or(char::REPLACEMENT_CHARACTER).to_string().as_bytes());
        rest = &escape[if pair.is_some() { 2 * ESCAPE_LENGTH } else { ESCAPE_LENGTH }..];
    }
    out.extend_from_slice(rest);
    is_repaired.then_some(out)
}

/// The length of `\uXXXX`.
const ESCAPE_LENGTH: usize = 6;

/// Returns the code unit of the `\uXXXX` escape at the beginning of `text`, if there is one.
fn code_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_fields() {
        let fields = [
            ("id", Shape::Text, true),
            ("name", Shape::Text, true),
            ("os.user", Shape::Text, false),
            ("os.missing", Shape::Text, false),
            ("data", Shape::Data, false),
            ("nics", Shape::List, false),
            ("keys", Shape::Keys, false),
            ("more", Shape::Keys, false),
            ("disks", Shape::Texts, false),
            ("users[].name", Shape::Text, true),
        ];
        let text = r#"{"id": 7, "os": {"user": "a\u0007"}, "data": "a\u0007", "nics": {}, "keys": ["k", 1, "b\u0000", "c\nd"],
            "more": {"x": "k", "y": ["k", {}], "z": 3}, "disks": {"a": "sda", "b": []},
            "users": [{"name": "u"}, 5, {"name": []}, {}]}"#;
        let sys = System::new("/nonexistent");
        let mut document = config::json::parse(text).unwrap();
        check_fields(&sys, "doc", &mut document, &fields);
        let expected = serde_json::json!({
            "id": 7, "os": {"user": null}, "data": "a\u{7}", "nics": null, "keys": ["k", null, null, "c\nd"],
            "more": {"x": "k", "y": ["k", null], "z": null}, "disks": {"a": "sda", "b": null},
            "users": [{"name": "u"}, null, null, null],
        });
        assert_eq!(document.to_json(), expected);
        let logged: Vec<String> = sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
        assert_eq!(
            logged,
            ["doc: name is missing; os.user: contains control characters; ignored; \
              nics: expected a list, found a map; ignored; keys[1]: expected text, found an integer; ignored; \
              keys[2]: contains control characters; ignored; more.y[1]: expected text, found a map; ignored; \
              more.z: expected SSH keys, found an integer; ignored; disks.b: expected text, found a list; ignored; \
              users[1]: expected a map, found an integer; ignored; \
              users[2].name: expected text, found a list; ignored; users[3].name is missing"]
        );
        // What was found is not found again.
        check_fields(&sys, "doc", &mut document, &fields);
        assert_eq!(sys.log().logged_warnings().len(), 2);
    }

    #[test]
    fn lone_surrogates() {
        for (text, expected) in [
            (r#"{"a": "x\ud83dy"}"#, "x\u{fffd}y"),
            (r#"{"a": "\uDE00\ud83d"}"#, "\u{fffd}\u{fffd}"),
            (r#"{"a": "\ud83d\ude00\ud83d"}"#, "\u{1f600}\u{fffd}"),
            (r#"{"a": "\ud83d\u0041\n"}"#, "\u{fffd}A\n"),
            (r#"{"a": "\\ud83d \ud83d"}"#, "\\ud83d \u{fffd}"),
            (r#"{"a": "\ud83d\ud83d\ude00"}"#, "\u{fffd}\u{1f600}"),
        ] {
            let yaml = parse_map("t", text.as_bytes()).unwrap();
            assert_eq!(yaml.get("a").and_then(Node::as_str), Some(expected), "{text}");
            assert_eq!(config::json::value(text.as_bytes()).unwrap()["a"], expected, "{text}");
        }
        for broken in [r#"{"a": "\ud83d"#, r#"{"a": "\ud8"}"#, r"{ \ud83d", "\\"] {
            assert!(config::json::value(broken.as_bytes()).is_err(), "{broken}");
        }
        for bytes in [&b"\\"[..], b"\\u", b"\\ud83", b"x\\ud83d\\", b"\\ud83d\\u"] {
            let _ = repair_surrogates(bytes);
        }
    }
}
