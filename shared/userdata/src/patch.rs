//! `#cloud-config-jsonp`: a JSON patch (RFC 6902) for the cloud-config that was merged so far. A patch is applied
//! completely or not at all. Copies are limited: a patch that repeats its own copies must not exhaust the memory.

use config::{Node, Position, Value};

const HEADER: &[u8] = b"#cloud-config-jsonp";
/// The maximum number of values that `copy` operations may add.
const MAX_COPIED_VALUES: usize = 500_000;
const MAX_DEPTH: usize = 100;
const MAX_OPERATIONS: usize = 10_000;
/// The maximum number of items that additions and removals in lists and maps may move: as many as [`MAX_OPERATIONS`]
/// additions at the begin of one list.
const MAX_MOVED_ITEMS: usize = MAX_OPERATIONS * MAX_OPERATIONS / 2;

/// What the operations have done so far.
#[derive(Default)]
struct Work {
    copied_values: usize,
    moved_items: usize,
}

impl Work {
    fn charge_move(&mut self, items: usize) -> Result<(), String> {
        self.moved_items += items;
        match self.moved_items > MAX_MOVED_ITEMS {
            true => Err("additions and removals in long lists or maps exceed the limit".into()),
            false => Ok(()),
        }
    }
}

/// Applies a patch to a configuration and returns the result. Added values have their positions in `source`.
///
/// # Errors
///
/// Fails if the patch is invalid, an operation fails or the result is not a map. The error names the operation, never a
/// value.
pub fn apply(source: &str, text: &str, config: &Node) -> Result<Node, String> {
    let patch = parse(source, text)?;
    let operations = patch.as_seq().ok_or_else(|| format!("expected a list, found {}", patch.kind()))?;
    let mut patched = config.clone();
    let mut work = Work::default();
    if operations.len() > MAX_OPERATIONS {
        return Err(format!("more than {MAX_OPERATIONS} operations"));
    }
    for (number, operation) in operations.iter().enumerate() {
        apply_operation(operation, &mut patched, &mut work)
            .map_err(|e| format!("operation {}: {e}", number + 1))?;
    }
    if patched.as_map().is_none() {
        return Err(format!("the result must be a map, not {}", patched.kind()));
    }
    Ok(patched)
}

fn parse(source: &str, whole: &str) -> Result<Node, String> {
    let text = whole.trim_start();
    let body = match text.as_bytes().get(..HEADER.len()) {
        Some(begin) if begin.eq_ignore_ascii_case(HEADER) => &text[HEADER.len()..],
        _ => text,
    };
    let line = text[..text.len() - body.len()].matches('\n').count();
    let json = config::json::parse(body)
        .map_err(|e| format!("line {}, column {}: not valid JSON", e.line + line, e.column))?;
    // Most JSON is also YAML, and the YAML parser records positions.
    Ok(config::yaml::parse(source, whole)
        .map(|yaml| yaml.root)
        .ok()
        .filter(|yaml| *yaml == json)
        .unwrap_or(json))
}

fn apply_operation(operation: &Node, config: &mut Node, work: &mut Work) -> Result<(), String> {
    let text = |key: &str| {
        operation.get(key).and_then(Node::as_str).ok_or_else(|| format!("'{key}' is missing or not a string"))
    };
    let value = || operation.get("value").cloned().ok_or("'value' is missing".to_string());
    let path_of = |key: &str| pointer(text(key)?).map_err(|e| format!("'{key}': {e}"));
    let path = path_of("path")?;
    let at = operation.get("path").map(|path| path.at.clone()).unwrap_or_default();
    match text("op")? {
        "add" => add(config, &path, value()?, at, work),
        "remove" => remove(config, &path, work).map(drop),
        "replace" => {
            *find(config, &path)? = value()?;
            Ok(())
        }
        "move" => {
            let from = path_of("from")?;
            if path.len() > from.len() && path.starts_with(&from) {
                return Err("a value cannot be moved into itself".into());
            }
            let moved = remove(config, &from, work)?;
            add(config, &path, moved, at, work)
        }
        "copy" => {
            let from = find(config, &path_of("from")?)?.clone();
            let (count, depth) = count_and_depth(&from);
            work.copied_values += count;
            if work.copied_values > MAX_COPIED_VALUES || depth + path.len() > MAX_DEPTH {
                return Err("copies exceed the limit".into());
            }
            add(config, &path, from, at, work)
        }
        "test" => match is_equal(find(config, &path)?, &value()?) {
            true => Ok(()),
            false => Err("test failed".into()),
        },
        _ => Err("'op' must be add, remove, replace, move, copy or test".into()),
    }
}

/// Compares as RFC 6902 (4.6) does: numbers by their value, so that 1 equals 1.0.
fn is_equal(one: &Node, other: &Node) -> bool {
    match (&one.value, &other.value) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "an integer that a float cannot hold does not equal one"
        )]
        (Value::Int(n), Value::Float(f)) | (Value::Float(f), Value::Int(n)) => {
            *n as f64 == *f && *f as i128 == *n
        }
        (Value::Seq(one), Value::Seq(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_equal(a, b))
        }
        (Value::Map(one), Value::Map(other)) => {
            let in_other = |(key, value)| other.get_node(key).is_some_and(|found| is_equal(value, found));
            one.len() == other.len() && one.iter().all(in_other)
        }
        (one, other) => one == other,
    }
}

/// Returns the number of values in a node, including itself, and its depth.
fn count_and_depth(node: &Node) -> (usize, usize) {
    let below = |found: (usize, usize), node: &Node| {
        let (count, depth) = count_and_depth(node);
        (found.0 + count, found.1.max(depth + 1))
    };
    match &node.value {
        Value::Seq(items) => items.iter().fold((1, 1), below),
        Value::Map(map) => map.iter().map(|(_, value)| value).fold((1, 1), below),
        _ => (1, 1),
    }
}

/// Splits a JSON pointer (RFC 6901) into keys.
fn pointer(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let rest = text.strip_prefix('/').ok_or("must begin with '/'")?;
    if let Some(at) = rest.split('~').skip(1).position(|after| !after.starts_with(['0', '1'])) {
        let before: usize = rest.split('~').take(at + 1).map(|part| part.chars().count() + 1).sum();
        return Err(format!("character {}: '~' must be followed by 0 or 1", before + 1));
    }
    let keys: Vec<String> = rest.split('/').map(|key| key.replace("~1", "/").replace("~0", "~")).collect();
    if keys.len() > MAX_DEPTH { Err(format!("more than {MAX_DEPTH} keys")) } else { Ok(keys) }
}

/// The end of the error about a path that the document does not have.
pub const MISSING: &str = "path does not exist";

/// Parses an array index: decimal digits without leading zeros, at most `max`.
fn array_index(key: &str, max: usize) -> Result<usize, String> {
    let digits = key.bytes().all(|b| b.is_ascii_digit()) && (key == "0" || !key.starts_with('0'));
    let place = key.parse().ok().filter(|_| digits).ok_or("invalid array index")?;
    if place <= max { Ok(place) } else { Err(MISSING.into()) }
}

fn find<'n>(config: &'n mut Node, path: &[String]) -> Result<&'n mut Node, String> {
    path.iter().try_fold(config, |node, key| match &mut node.value {
        Value::Map(map) => map.get_mut(key).ok_or_else(|| MISSING.to_string()),
        Value::Seq(items) => {
            let at = array_index(key, items.len())?;
            items.get_mut(at).ok_or_else(|| MISSING.to_string())
        }
        _ => Err(MISSING.into()),
    })
}

/// Adds a value. A new key gets the position `at`.
fn add(config: &mut Node, path: &[String], value: Node, at: Position, work: &mut Work) -> Result<(), String> {
    let Some((key, parents)) = path.split_last() else {
        *config = value;
        return Ok(());
    };
    match &mut find(config, parents)?.value {
        Value::Map(map) => drop(map.insert(Node { value: Value::Str(key.clone()), at }, value)),
        Value::Seq(items) if key == "-" => items.push(value),
        Value::Seq(items) => {
            let at = array_index(key, items.len())?;
            work.charge_move(items.len() - at)?;
            items.insert(at, value);
        }
        _ => return Err(MISSING.into()),
    }
    Ok(())
}

fn remove(config: &mut Node, path: &[String], work: &mut Work) -> Result<Node, String> {
    let (key, parents) = path.split_last().ok_or("cannot remove the whole document")?;
    let taken = match &mut find(config, parents)?.value {
        Value::Map(map) => {
            work.charge_move(map.len())?;
            map.remove(key)
        }
        Value::Seq(items) => {
            let at = array_index(key, items.len())?;
            work.charge_move(items.len() - at)?;
            (at < items.len()).then(|| items.remove(at))
        }
        _ => None,
    };
    taken.ok_or_else(|| MISSING.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_applied_in_order() {
        let base = "{a: 1, l: [x, y], m: {k: v, n/o: 1, p~q: 2}}";
        for (patch, expected) in [
            ("[]", base),
            (
                r#"[{"op": "add", "path": "/b", "value": [1]}]"#,
                "{a: 1, l: [x, y], m: {k: v, n/o: 1, p~q: 2}, b: [1]}",
            ),
            (
                r#"[{"op": "add", "path": "/a", "value": null}]"#,
                "{a: null, l: [x, y], m: {k: v, n/o: 1, p~q: 2}}",
            ),
            (
                r#"[{"op": "add", "path": "/l/1", "value": "z"}, {"op": "remove", "path": "/m"}]"#,
                "{a: 1, l: [x, z, y]}",
            ),
            (
                r#"[{"op": "add", "path": "/l/-", "value": "z"}, {"op": "remove", "path": "/m"}]"#,
                "{a: 1, l: [x, y, z]}",
            ),
            (
                r#"[{"op": "add", "path": "/l/2", "value": "z"}, {"op": "remove", "path": "/m"}]"#,
                "{a: 1, l: [x, y, z]}",
            ),
            (
                r#"[{"op": "replace", "path": "/m/n~1o", "value": 3}]"#,
                "{a: 1, l: [x, y], m: {k: v, n/o: 3, p~q: 2}}",
            ),
            (r#"[{"op": "remove", "path": "/m/p~0q"}]"#, "{a: 1, l: [x, y], m: {k: v, n/o: 1}}"),
            (
                r#"[{"op": "move", "from": "/m/k", "path": "/k"}, {"op": "remove", "path": "/m"}]"#,
                "{a: 1, l: [x, y], k: v}",
            ),
            (r#"[{"op": "copy", "from": "/l", "path": "/m"}]"#, "{a: 1, l: [x, y], m: [x, y]}"),
            (r#"[{"op": "test", "path": "/l/0", "value": "x"}]"#, base),
            (r#"[{"op": "test", "path": "/a", "value": 1.0}]"#, base),
            (
                r#"[{"op": "add", "path": "/l", "value": [{"k": 2.0}]}, {"op": "test", "path": "/l", "value": [{"k": 2}]}]"#,
                "{a: 1, l: [{k: 2.0}], m: {k: v, n/o: 1, p~q: 2}}",
            ),
            (r#"[{"op": "replace", "path": "", "value": {"q": 1}}]"#, "{q: 1}"),
            ("#cloud-config-jsonp\n[{\"op\": \"remove\", \"path\": \"/m\"}]", "{a: 1, l: [x, y]}"),
        ] {
            let yaml = |text: &str| config::yaml::parse("test", text).unwrap().root;
            assert_eq!(apply("t", patch, &yaml(base)), Ok(yaml(expected)), "{patch}");
        }
    }

    #[test]
    fn the_items_that_operations_move_are_limited() {
        let repeated = |operation: &str, times: usize| format!("[{}]", vec![operation; times].join(","));
        let (list, map) =
            (vec!["1"; 10_000].join(","), (0..10_000).map(|n| format!("k{n}: 1")).collect::<Vec<_>>());
        let config = config::yaml::parse("", &format!("{{a: [{list}], e: [], m: {{{}}}}}", map.join(",")))
            .unwrap()
            .root;
        let moved = r#"{"op": "move", "from": "/m/k1", "path": "/m/k1"}"#;
        for (operation, allowed) in [
            (r#"{"op": "add", "path": "/e/0", "value": 1}"#, MAX_OPERATIONS),
            (r#"{"op": "add", "path": "/a/-", "value": 1}"#, MAX_OPERATIONS),
            (r#"{"op": "remove", "path": "/a/9000"}"#, 1000),
            (r#"{"op": "add", "path": "/a/0", "value": 1}"#, 4000),
            (r#"{"op": "move", "from": "/a/0", "path": "/a/0"}"#, 2500),
            (moved, 5000),
        ] {
            apply("patch", &repeated(operation, allowed), &config).unwrap();
            let more = apply("patch", &repeated(operation, MAX_OPERATIONS), &config).map(drop);
            let expected = match allowed {
                MAX_OPERATIONS => Ok(()),
                1000 => Err("operation 1001: path does not exist".to_string()),
                _ => Err("additions and removals in long lists or maps exceed the limit".to_string()),
            };
            let more =
                more.map_err(|e| if allowed == 1000 { e } else { e.split_once(": ").unwrap().1.to_string() });
            assert_eq!(more, expected, "{operation}");
        }
    }

    #[test]
    fn added_values_have_positions() {
        let base = config::yaml::parse("base", "{a: 1}").unwrap().root;
        let patch = "#cloud-config-jsonp\n[{\"op\": \"add\", \"path\": \"/b\",\n  \"value\": [1]}]";
        let patched = apply("part", patch, &base).unwrap();
        let places = |(key, value): &(Node, Node)| format!("{} {}", key.at, value.at);
        let found: Vec<String> =
            patched.as_map().unwrap().iter().map(|(k, v)| places(&(k.clone(), v.clone()))).collect();
        assert_eq!(found, ["base:1:2 base:1:5", "part:2:24 part:3:12"]);
    }

    #[test]
    fn failed_operations_are_reported_without_values() {
        for (patch, expected) in [
            ("", "line 1, column 1: not valid JSON"),
            ("#cloud-config-jsonp\n\n{secret", "line 3, column 2: not valid JSON"),
            ("{}", "expected a list, found a map"),
            ("[1]", "operation 1: 'path' is missing or not a string"),
            (r#"[{"op": "add", "path": "/b"}]"#, "operation 1: 'value' is missing"),
            (
                r#"[{"op": "pull", "path": "/b"}]"#,
                "operation 1: 'op' must be add, remove, replace, move, copy or test",
            ),
            (r#"[{"op": "add", "path": "b", "value": 1}]"#, "operation 1: 'path': must begin with '/'"),
            // RFC 6901, section 3: a tilde is part of an escape, or an error.
            (
                r#"[{"op": "add", "path": "/m/é~2", "value": 1}]"#,
                "operation 1: 'path': character 5: '~' must be followed by 0 or 1",
            ),
            (
                r#"[{"op": "add", "path": "/m~0/a~1~", "value": 1}]"#,
                "operation 1: 'path': character 9: '~' must be followed by 0 or 1",
            ),
            (
                r#"[{"op": "remove", "path": "/a"}, {"op": "copy", "from": "/~/m", "path": "/x"}]"#,
                "operation 2: 'from': character 2: '~' must be followed by 0 or 1",
            ),
            (r#"[{"op": "add", "path": "/b/c", "value": 1}]"#, "operation 1: path does not exist"),
            (r#"[{"op": "add", "path": "/l/3", "value": 1}]"#, "operation 1: path does not exist"),
            (r#"[{"op": "add", "path": "/l/01", "value": 1}]"#, "operation 1: invalid array index"),
            (r#"[{"op": "remove", "path": "/l/2"}]"#, "operation 1: path does not exist"),
            (r#"[{"op": "remove", "path": "/q"}]"#, "operation 1: path does not exist"),
            (r#"[{"op": "replace", "path": "/q", "value": 1}]"#, "operation 1: path does not exist"),
            (
                r#"[{"op": "move", "from": "/m", "path": "/m/x"}]"#,
                "operation 1: a value cannot be moved into itself",
            ),
            (r#"[{"op": "test", "path": "/a", "value": "secret"}]"#, "operation 1: test failed"),
            (r#"[{"op": "test", "path": "/a", "value": 1.5}]"#, "operation 1: test failed"),
            (r#"[{"op": "test", "path": "/a", "value": true}]"#, "operation 1: test failed"),
            (
                r#"[{"op": "remove", "path": "/a"}, {"op": "remove", "path": "/a"}]"#,
                "operation 2: path does not exist",
            ),
            (r#"[{"op": "remove", "path": ""}]"#, "operation 1: cannot remove the whole document"),
            (r#"[{"op": "replace", "path": "", "value": [1]}]"#, "the result must be a map, not a list"),
        ] {
            let base = config::yaml::parse("test", "{a: 1, l: [x, y], m: {}}").unwrap().root;
            assert_eq!(apply("t", patch, &base).unwrap_err(), expected, "{patch}");
        }
    }

    #[test]
    fn repeated_copies_are_bounded() {
        let double = r#"{"op": "copy", "from": "", "path": "/m"},"#.repeat(200);
        let base = config::yaml::parse("test", "{a: [1, 2, 3, 4]}").unwrap().root;
        let message = apply("t", &format!("[{}]", double.trim_end_matches(',')), &base).unwrap_err();
        assert!(message.ends_with("copies exceed the limit"), "{message}");
        let insert = r#"{"op": "add", "path": "/a/0", "value": 1},"#.repeat(MAX_OPERATIONS + 1);
        let message = apply("t", &format!("[{}]", insert.trim_end_matches(',')), &base).unwrap_err();
        assert_eq!(message, "more than 10000 operations");
    }
}
