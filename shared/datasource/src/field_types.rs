//! The expected types of a document's fields: invalid fields are removed before the document is used as a whole.

use config::{Node, Value};
use system::{System, warning};

use crate::fields::line_problem;

/// The number of invalid fields of one document that are reported one by one.
const MAX_REPORTED: usize = 20;

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
/// field costs only itself. Each of them, and each missing required one, is reported in a warning.
pub fn drop_invalid(sys: &System, source: &str, document: &mut Node, fields: &[Field]) {
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
    for problem in problems.iter().take(MAX_REPORTED) {
        warning!(sys, "{source}: {problem}");
    }
    if let Some(more @ 1..) = problems.len().checked_sub(MAX_REPORTED) {
        warning!(sys, "{source}: {more} more invalid fields; ignored");
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
        drop_invalid(&sys, "doc", &mut document, &fields);
        let expected = serde_json::json!({
            "id": 7, "os": {"user": null}, "data": "a\u{7}", "nics": null, "keys": ["k", null, null, "c\nd"],
            "more": {"x": "k", "y": ["k", null], "z": null}, "disks": {"a": "sda", "b": null},
            "users": [{"name": "u"}, null, null, null],
        });
        assert_eq!(document.to_json(), expected);
        let logged: Vec<String> = sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
        assert_eq!(
            logged,
            [
                "doc: name is missing",
                "doc: os.user: contains control characters; ignored",
                "doc: nics: expected a list, found a map; ignored",
                "doc: keys[1]: expected text, found an integer; ignored",
                "doc: keys[2]: contains control characters; ignored",
                "doc: more.y[1]: expected text, found a map; ignored",
                "doc: more.z: expected SSH keys, found an integer; ignored",
                "doc: disks.b: expected text, found a list; ignored",
                "doc: users[1]: expected a map, found an integer; ignored",
                "doc: users[2].name: expected text, found a list; ignored",
                "doc: users[3].name is missing",
            ]
        );
        // What was found is not found again.
        drop_invalid(&sys, "doc", &mut document, &fields);
        assert_eq!(sys.log().logged_warnings().len(), 12);
    }
}
