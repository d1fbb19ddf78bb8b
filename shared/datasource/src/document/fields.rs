//! Checks the fields of a metadata document against a table of their paths and types. An invalid field becomes null and is
//! reported with its path; the other fields are kept.

use config::{Node, Value};
use system::{System, warning};

/// The number of invalid fields of one document that are reported one by one.
const MAX_REPORTED: usize = 20;
/// The limit of a line of text in bytes: names, addresses, keys.
const MAX_LINE: usize = 16 << 10;

/// The name of the keys in an entry of a tree of EC2's kind.
pub const OPENSSH_KEY: &str = "openssh-key";

/// The expected type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    /// A line of text, or a number that is read as text.
    Text,
    /// A line of text that does not look like a number: addresses and keywords.
    Str,
    /// A line of text, or digits without quotes.
    Name,
    /// A prefix length: a number, or one in a string.
    Prefix,
    /// True or false: a boolean, text, 0 or 1.
    Flag,
    /// On or off: a boolean, 0 or 1, or one of the words for them ([`parse_switch`]).
    Switch,
    /// An integer, or one in a string.
    Integer,
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
    /// A list of single-line strings, or a single one. Invalid items are removed; only the first is reported.
    TextList,
    /// Like `TextList`, for strings that do not look like numbers.
    StrList,
    /// SSH keys: lines, or a list or map of strings; the entries of a map may have them as `openssh-key`.
    Keys,
}

/// A field of a document: its path (names separated by dots; `LIST[].NAME` is a field of each item of a list, `MAP{}.NAME`
/// of each value of a map), its type, and whether each document or item must have it. An item without it becomes null. The maps
/// and lists on its path are checked, too.
pub type Field = (&'static str, FieldType, bool);

/// Returns whether a word means on; `None` if it means neither on nor off.
pub fn parse_switch(text: &str) -> Option<bool> {
    match &*text.trim().to_lowercase() {
        "true" | "1" | "on" | "yes" => Some(true),
        "false" | "0" | "off" | "no" => Some(false),
        _ => None,
    }
}

/// Replaces invalid fields by null: those of another type than expected, and strings that are too long or have control
/// characters. Each of them, and each missing required one, is reported in a warning.
/// Returns the number of problems.
pub fn drop_invalid(sys: &System, source: &str, document: &mut Node, fields: &[Field]) -> usize {
    let mut problems = Vec::new();
    for field in fields {
        check_path(document, "", field.0, field, &mut problems);
    }
    for problem in problems.iter().take(MAX_REPORTED) {
        warning!(sys, "{source}: {problem}");
    }
    if let Some(more @ 1..) = problems.len().checked_sub(MAX_REPORTED) {
        warning!(sys, "{source}: {more} more invalid fields; ignored");
    }
    problems.len()
}

/// Checks the field at `path` below a node, which messages call `place`.
fn check_path(node: &mut Node, place: &str, path: &str, field: &Field, problems: &mut Vec<String>) {
    let (_, field_type, is_required) = *field;
    let Some((name, end)) = path.split_once(['[', '{']) else {
        match reach(node, place, path, problems).filter(|node| !node.is_null()) {
            None if is_required => problems.push(format!("{} is missing", nested(place, path))),
            None => {}
            Some(found) => problems.extend(check_field(&nested(place, path), found, field_type)),
        }
        return;
    };
    // The rest of the path: after `].` or `}.`, or `]{}.` for the values of the items.
    let path = end[1..].trim_start_matches('.');
    let container = if name.is_empty() { Some(node) } else { reach(node, place, name, problems) };
    let Some(container) = container else { return };
    let of_container = nested(place, name);
    let mut check_item = |item: &mut Node, place: String| {
        if item.is_null() {
            return;
        }
        if path.starts_with(['[', '{']) {
            return check_path(item, &place, path, field, problems);
        }
        if item.as_map().is_none() {
            let problem = expected("a map", item);
            return problems.push(reject(&place, item, &problem));
        }
        check_path(item, &place, path, field, problems);
        if is_required && !path.contains(['[', '{']) && find_mut(item, path).is_none_or(|node| node.is_null())
        {
            *item = Node::null();
        }
    };
    let is_list = end.starts_with(']');
    match &mut container.value {
        Value::Seq(items) if is_list => {
            for (i, item) in items.iter_mut().enumerate() {
                check_item(item, format!("{of_container}[{i}]"));
            }
        }
        Value::Map(map) if !is_list => {
            let keys: Vec<String> = map.iter().filter_map(|(key, _)| key.scalar_text()).collect();
            for key in keys {
                if let Some(value) = map.get_mut(&key) {
                    check_item(value, format!("{of_container}.{key}"));
                }
            }
        }
        Value::Null => {}
        // The values of a map of lists.
        _ if name.is_empty() => {}
        _ => {
            let problem = expected(if is_list { "a list" } else { "a map" }, container);
            problems.push(reject(&of_container, container, &problem));
        }
    }
}

fn nested(place: &str, name: &str) -> String {
    match (place, name) {
        ("", name) => name.to_string(),
        (place, "") => place.to_string(),
        (place, name) => format!("{place}.{name}"),
    }
}

/// Returns what is at a path of names; what is not a map on the way is a problem and becomes null.
fn reach<'n>(
    node: &'n mut Node,
    place: &str,
    path: &str,
    problems: &mut Vec<String>,
) -> Option<&'n mut Node> {
    let mut at = place.to_string();
    path.split('.').try_fold(node, |node, name| {
        if !node.is_null() && node.as_map().is_none() {
            problems.push(reject(&at, node, &expected("a map", node)));
        }
        at = nested(&at, name);
        node.as_map_mut()?.get_mut(name)
    })
}

fn find_mut<'n>(document: &'n mut Node, path: &str) -> Option<&'n mut Node> {
    path.split('.').try_fold(document, |node, name| node.as_map_mut()?.get_mut(name))
}

/// Returns the problems of a field or of its items. What is invalid becomes null.
fn check_field(path: &str, field: &mut Node, field_type: FieldType) -> Vec<String> {
    use FieldType::{Keys, Lines, Str, StrList, Text, TextList, Texts};
    let mut problems = Vec::new();
    match (field_type, &mut field.value) {
        (TextList | StrList | Keys, Value::Seq(items)) => {
            let of_item = match field_type {
                TextList => Text,
                StrList => Str,
                _ => Lines,
            };
            let present = items.iter_mut().enumerate().filter(|(_, item)| !item.is_null());
            problems
                .extend(present.flat_map(|(i, item)| check_field(&format!("{path}[{i}]"), item, of_item)));
            if field_type != Keys {
                items.retain(|item| !item.is_null());
                // Services also send such a list as one string, which has one problem at most.
                problems.truncate(1);
            }
        }
        (Keys | Texts, Value::Map(map)) => {
            let names: Vec<String> = map.iter().filter_map(|(name, _)| name.scalar_text()).collect();
            for name in names {
                let place = format!("{path}.{name}");
                let Some(item) = map.get_mut(&name).filter(|item| !item.is_null()) else { continue };
                if field_type == Texts {
                    problems.extend(check_field(&place, item, Text));
                } else if item.get(OPENSSH_KEY).is_some() {
                    let key = find_mut(item, OPENSSH_KEY).filter(|key| !key.is_null());
                    let place = format!("{place}.{OPENSSH_KEY}");
                    problems.extend(key.into_iter().flat_map(|key| check_field(&place, key, Keys)));
                } else if item.as_map().is_some() {
                    problems.push(reject(&place, item, &expected("SSH keys", item)));
                } else {
                    problems.extend(check_field(&place, item, Keys));
                }
            }
        }
        _ => problems.extend(problem(field, field_type).map(|problem| reject(path, field, &problem))),
    }
    problems
}

/// Returns the problem of a field, without that of its items.
fn problem(field: &Node, field_type: FieldType) -> Option<String> {
    use FieldType::{
        Data, Flag, Integer, Keys, Lines, List, Map, Name, Prefix, Str, StrList, Switch, TextList, Texts,
    };
    let what = match (field_type, &field.value) {
        (Map, Value::Map(_)) | (List, Value::Seq(_)) | (Flag, Value::Bool(_) | Value::Int(0 | 1)) => {
            return None;
        }
        (Prefix, Value::Bool(_) | Value::Float(_) | Value::Int(..0 | 129..)) => {
            return Some("expected a prefix length".into());
        }
        (Lines | Keys, Value::Str(text)) => {
            let problem = text.lines().find_map(|line| line_problem(&line.trim().replace('\t', " ")));
            return problem.map(Into::into);
        }
        (Str | StrList, Value::Bool(_) | Value::Int(_) | Value::Float(_))
        | (Name, Value::Bool(_) | Value::Float(_) | Value::Int(..0))
        | (Lines, _) => "a string",
        (Flag, Value::Int(_) | Value::Float(_)) => "true or false",
        (Map | Texts, _) => "a map",
        (List, _) => "a list",
        (Keys, _) => "SSH keys",
        _ => match (field_type, field.scalar_text()) {
            (Data, Some(_)) => return None,
            (_, Some(text)) => return text_problem(text.trim(), field_type).map(Into::into),
            (TextList | StrList, None) => "a list of strings",
            (Switch, None) => "true or false",
            (Integer, None) => "an integer",
            (_, None) => "a string",
        },
    };
    Some(expected(what, field))
}

/// Returns the problem of a scalar's text.
fn text_problem(text: &str, field_type: FieldType) -> Option<&'static str> {
    line_problem(text).or(match field_type {
        _ if text.is_empty() => None,
        FieldType::Switch if parse_switch(text).is_none() => Some("expected true or false"),
        FieldType::Integer if text.parse::<i64>().is_err() => Some("expected an integer"),
        _ => None,
    })
}

fn expected(what: &str, found: &Node) -> String {
    format!("expected {what}, found {}", found.kind())
}

fn reject(path: &str, field: &mut Node, problem: &str) -> String {
    *field = Node::null();
    format!("{path}: {problem}; ignored")
}

/// Returns the SSH keys of a string, one on each line. Invalid lines are skipped; the first one is reported.
pub fn valid_keys(sys: &System, place: &str, text: &str) -> Vec<String> {
    // Some keys have a tab before their comment.
    let problem = |line: &str| line_problem(&line.replace('\t', " "));
    if let Some((at, problem)) = text.lines().enumerate().find_map(|(at, line)| Some((at, problem(line)?))) {
        warning!(sys, "{place}: line {}: {problem}; ignored", at + 1);
    }
    let keys = text.lines().filter(|line| problem(line).is_none()).map(str::trim);
    keys.filter(|key| !key.is_empty()).map(Into::into).collect()
}

/// Returns a string, or `None` if it is not a valid line, which is logged.
pub fn valid_line<'t>(sys: &System, place: &str, text: &'t str) -> Option<&'t str> {
    match line_problem(text.trim()) {
        Some(problem) => {
            warning!(sys, "{place}: {problem}; ignored");
            None
        }
        None => Some(text),
    }
}

/// Returns what is wrong with a string that should be a line.
pub fn line_problem(text: &str) -> Option<&'static str> {
    match text {
        _ if text.len() > MAX_LINE => Some("too long"),
        _ if text.contains(|c: char| c.is_control()) => Some("contains control characters"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_wrong_type_are_dropped_and_reported() {
        let fields = [
            ("id", FieldType::Text, true),
            ("name", FieldType::Text, true),
            ("os.user", FieldType::Text, false),
            ("os.index", FieldType::Integer, false),
            ("os.number", FieldType::Integer, false),
            ("os.missing", FieldType::Text, false),
            ("data", FieldType::Data, false),
            ("nics", FieldType::List, false),
            ("keys", FieldType::Keys, false),
            ("more", FieldType::Keys, false),
            ("disks", FieldType::Texts, false),
            ("users[].name", FieldType::Text, true),
            ("nets{}.servers", FieldType::TextList, false),
            ("nets{}.hosts[].mac", FieldType::Text, false),
            ("kinds{}[].mac", FieldType::Text, false),
        ];
        let text = r#"{"id": 7, "os": {"user": "a\u0007", "index": "1e300", "number": " 3"}, "data": "a\u0007", "nics": {}, "keys": ["k", 1, "b\u0000", "c\nd"],
            "more": {"x": "k", "y": ["k", {}], "z": 3, "w": {"openssh-key": ["k", "\u0007"]}}, "disks": {"a": "sda", "b": []},
            "users": [{"name": "u"}, 5, {"name": []}, {}],
            "nets": {"a": {"servers": ["s", "\u0007", 1], "hosts": [{"mac": {}}, {"mac": "m"}]}, "b": 1, "c": {"servers": {}},
                "d": {"servers": "s"}},
            "kinds": {"x": [{"mac": []}], "y": 3}}"#;
        let sys = System::new("/nonexistent");
        let mut document = config::json::parse(text).unwrap();
        drop_invalid(&sys, "doc", &mut document, &fields);
        let expected = serde_json::json!({
            "id": 7, "os": {"user": null, "index": null, "number": " 3"}, "data": "a\u{7}", "nics": null, "keys": ["k", null, null, "c\nd"],
            "more": {"x": "k", "y": ["k", null], "z": null, "w": {"openssh-key": ["k", null]}},
            "disks": {"a": "sda", "b": null},
            "users": [{"name": "u"}, null, null, null],
            "nets": {
                "a": {"servers": ["s", 1], "hosts": [{"mac": null}, {"mac": "m"}]},
                "b": null,
                "c": {"servers": null},
                "d": {"servers": "s"},
            },
            "kinds": {"x": [{"mac": null}], "y": 3},
        });
        assert_eq!(document.to_json(), expected);
        let logged: Vec<String> = sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
        assert_eq!(
            logged,
            [
                "doc: name is missing",
                "doc: os.user: contains control characters; ignored",
                "doc: os.index: expected an integer; ignored",
                "doc: nics: expected a list, found a map; ignored",
                "doc: keys[1]: expected a string, found an integer; ignored",
                "doc: keys[2]: contains control characters; ignored",
                "doc: more.y[1]: expected a string, found a map; ignored",
                "doc: more.z: expected SSH keys, found an integer; ignored",
                "doc: more.w.openssh-key[1]: contains control characters; ignored",
                "doc: disks.b: expected a string, found a list; ignored",
                "doc: users[1]: expected a map, found an integer; ignored",
                "doc: users[2].name: expected a string, found a list; ignored",
                "doc: users[3].name is missing",
                "doc: nets.a.servers[1]: contains control characters; ignored",
                "doc: nets.b: expected a map, found an integer; ignored",
                "doc: nets.c.servers: expected a list of strings, found a map; ignored",
                "doc: nets.a.hosts[0].mac: expected a string, found a map; ignored",
                "doc: kinds.x[0].mac: expected a string, found a list; ignored",
            ]
        );
        // Rejected fields are not reported again.
        drop_invalid(&sys, "doc", &mut document, &fields);
        assert_eq!(sys.log().logged_warnings().len(), 19);
    }

    #[test]
    fn numbers_are_valid_only_where_they_have_a_meaning() {
        let fields = [
            ("address", FieldType::Str, false),
            ("servers", FieldType::StrList, false),
            ("name", FieldType::Name, false),
            ("cidr", FieldType::Prefix, false),
            ("dhcp", FieldType::Flag, false),
            ("ssh", FieldType::Switch, false),
        ];
        for (given, expected) in [
            (
                r#"{"address": "10.0.0.1", "servers": ["1.1.1.1"], "name": 7, "cidr": 64, "dhcp": true}"#,
                &[][..],
            ),
            (r#"{"servers": "1.1.1.1", "name": "7", "cidr": "64", "dhcp": 0}"#, &[]),
            (r#"{"address": null, "name": null, "cidr": "ffff::", "dhcp": "no", "ssh": " Off "}"#, &[]),
            (r#"{"ssh": "maybe"}"#, &["ssh"]),
            (r#"{"ssh": -1}"#, &["ssh"]),
            (r#"{"ssh": ""}"#, &[]),
            (
                r#"{"address": 7, "servers": [7, "1.1.1.1"], "name": -1, "cidr": 129, "dhcp": 2}"#,
                &["address", "servers[0]", "name", "cidr", "dhcp"],
            ),
            (
                r#"{"address": true, "servers": [true], "name": true, "cidr": true, "dhcp": 1.5}"#,
                &["address", "servers[0]", "name", "cidr", "dhcp"],
            ),
            (
                r#"{"address": 1.5, "servers": 1.5, "name": 1.5, "cidr": -1}"#,
                &["address", "servers", "name", "cidr"],
            ),
        ] {
            let sys = System::new("/nonexistent");
            let mut document = config::json::parse(given).unwrap();
            drop_invalid(&sys, "doc", &mut document, &fields);
            let logged = sys.log().logged_warnings();
            let named: Vec<&str> = logged.iter().map(|(_, text)| text.split(": ").nth(1).unwrap()).collect();
            assert_eq!(named, expected, "{given}");
        }
    }
}
