//! Replaces each value of a cloud's documents, one at a time, and checks what that costs. Shared by `bad_fields.rs` and
//! `bad_media.rs`, and by `stages/common/tests/bad_network.rs`.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use state::Instance;
use system::{Result, System};

/// The documents of a cloud by path; text is a string.
pub type Documents = BTreeMap<String, Value>;

/// The length of a string that is too long for every field but user-data.
const HUGE: usize = 17 << 10;
/// The number of items of a list that are replaced: the others are of the same kind.
const MAX_ITEMS: usize = 2;

/// The names of fields and documents that have the instance-id.
const IDS: [&str; 12] = [
    "instance-id",
    "instance-v2-id",
    "uuid",
    "id",
    "droplet_id",
    "metadata",
    "sdc:uuid",
    "_id",
    "vm",
    "INSTANCE-ID",
    "instanceId",
    "instance_id",
];

/// The replacements of a field; `None` removes it. Documents are replaced by null, strings are removed: both mean that there is
/// no value.
fn replacements(is_container: bool) -> Vec<(&'static str, Option<Value>)> {
    let control = ("control characters", Some("a\u{7}b\nc\u{0}d\u{1b}[0m".into()));
    let list = ("a list", Some(json!([[1]])));
    let map = ("a map", Some(json!({"x": {"y": 1}})));
    match is_container {
        true => vec![("null", Some(Value::Null)), list, map, control],
        false => {
            let mut all =
                vec![("missing", None), list, map, ("huge", Some("x".repeat(HUGE).into())), control];
            all.extend(numbers().map(|(what, number, _)| (what, Some(number))));
            all
        }
    }
}

/// The names of non-string scalars, the scalars, and a part of the string that each converts to (an exponent can be written in
/// more than one way). In YAML a number with an exponent needs a point: without it, it is a string.
fn numbers() -> [(&'static str, Value, &'static str); 3] {
    [
        ("a number", json!(-1), "-1"),
        ("a boolean", json!(true), "rue"),
        ("a huge number", json!(1.5e300), "1.5e"),
    ]
}

/// The parts of an instance that a field can change. The metadata itself is not compared.
fn parts(instance: &Instance) -> Vec<(&'static str, String)> {
    let network = instance.network.as_ref().map(|network| match &network.content {
        // In VMware's text, lines that do not describe NICs are empty, so that the others keep their numbers.
        Value::String(text) => text.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n"),
        content => content.to_string(),
    });
    vec![
        ("id", instance.id.clone()),
        ("hostname", format!("{:?}", instance.local_hostname)),
        ("keys", instance.public_keys.join("\n")),
        ("user-data", format!("{:?}", instance.user_data)),
        ("vendor-data", format!("{:?} {:?}", instance.vendor_data, instance.vendor_data2)),
        ("network", network.unwrap_or_default()),
        ("place", format!("{:?} {:?}", instance.availability_zone, instance.region)),
        ("rest", format!("{:?} {:?} {}", instance.launch_index, instance.devices, instance.config)),
    ]
}

/// Pointers to every value of a document.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    if !at.is_empty() {
        all.push(at.into());
    }
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            pointers(value, &format!("{at}/{key}"), all);
        }),
        Value::Array(items) => {
            items
                .iter()
                .take(MAX_ITEMS)
                .enumerate()
                .for_each(|(i, value)| pointers(value, &format!("{at}/{i}"), all));
        }
        _ => {}
    }
}

/// Replaces the value at a pointer.
fn replace(document: &mut Value, pointer: &str, by: &Option<Value>) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    match (document.pointer_mut(parent).unwrap(), by) {
        (Value::Object(map), Some(by)) => drop(map.insert(key, by.clone())),
        (Value::Object(map), None) => drop(map.remove(&key)),
        (Value::Array(items), Some(by)) => items[key.parse::<usize>().unwrap()] = by.clone(),
        (Value::Array(items), None) => drop(items.remove(key.parse().unwrap())),
        _ => panic!("{pointer}"),
    }
}

/// The result of a search.
pub struct Run {
    pub found: std::result::Result<Instance, String>,
    warnings: Vec<String>,
}

impl Run {
    pub fn new(sys: &System, found: Result<Option<Instance>>) -> Run {
        let warnings = sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
        let found =
            found.map_err(|e| e.to_string()).and_then(|found| found.ok_or_else(|| "none".to_string()));
        Run { found, warnings }
    }

    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Returns the problems of a run after a field was replaced. `has_all`: the field contains other fields, or all keys.
fn problems(base: &Run, run: &Run, mutation: &Mutation, has_all: bool) -> Vec<String> {
    let what = mutation.what;
    let name = mutation.name();
    let is_id = IDS.contains(&name);
    let mut problems = Vec::new();
    let new: Vec<&String> = run.warnings.iter().filter(|text| !base.warnings.contains(text)).collect();
    let path = mutation.path();
    let is_named = |text: &str| path.iter().all(|part| text.contains(part));
    let is_reported = new.iter().any(|text| is_named(text));
    for text in &new {
        if text.len() > 2000 || text.contains(['\u{7}', '\0', '\u{1b}']) {
            problems.push(format!("a warning contains the value: {:.200}", text));
        }
    }
    let (before, after) = match (&base.found, &run.found) {
        (Ok(before), Ok(after)) => (parts(before), parts(after)),
        (_, Err(e)) => {
            // Without its id an instance is not recognised.
            if !is_id || !is_named(e) {
                problems.push(format!("error: {e:.300}"));
            }
            return problems;
        }
        _ => panic!("the fixture is not found"),
    };
    let changed: Vec<_> = before.iter().zip(&after).filter(|(a, b)| a != b).collect();
    let names: Vec<&str> = changed.iter().map(|((name, _), _)| *name).collect();
    if !has_all && names.len() > 1 {
        problems.push(format!("changes {names:?}"));
    }
    for ((part, before), (_, after)) in &changed {
        // The text of Python's None, which a rejected field must not become.
        let none = format!("{:?}", b"None");
        if after.contains("Some(\"None\")") || after.contains(&none) {
            problems.push(format!("{part} is the text None"));
        }
        if *part == "id" && !is_id {
            problems.push(format!("another instance: {after:.100}"));
        }
        let is_data =
            matches!(*part, "user-data" | "vendor-data") && matches!(what, "huge" | "control characters");
        // The network configuration is checked by its parser.
        let is_checked_later = *part == "network";
        if !is_data && !is_checked_later {
            if after.len() >= HUGE {
                problems.push(format!("{part} is huge"));
            }
            if after.chars().any(|c| c.is_control() && c != '\n') || after.contains("\\u{7}") {
                problems.push(format!("{part} has control characters"));
            }
        }
        if *part == "keys" && !has_all {
            let lost = before
                .lines()
                .filter(|key| !key.is_empty() && !after.lines().any(|line| line == *key))
                .count();
            if lost > 1 {
                problems.push(format!("{lost} keys are lost"));
            }
        }
        // Valid replacements: a map for a map or list, and a number that is read as a string (of data: as bytes).
        let blobs = |text: &str| text.matches('[').count();
        let is_text = |text| match *part {
            "user-data" | "vendor-data" => blobs(after) == blobs(before),
            _ => after.contains(text),
        };
        let is_valid = mutation.is_container && what == "a map"
            || numbers().iter().any(|(number, _, text)| *number == what && is_text(text));
        if matches!(what, "missing" | "null") || is_valid || is_data || is_checked_later || is_reported {
            continue;
        }
        problems.push(format!("{part} changes without a warning that names {}: {new:.300?}", path.join(".")));
    }
    if new.len() > 1 && !has_all {
        problems.push(format!("{} warnings: {new:.300?}", new.len()));
    }
    problems
}

/// Exceptions for the documents of a cloud.
#[derive(Default)]
pub struct Rules<'r> {
    /// Parts of the paths of fields that are not checked. With `: NAME` at the end, only the replacement NAME is not checked.
    pub exceptions: &'r [&'r str],
    /// Ends of the paths of strings with several keys, which are replaced as a whole.
    pub keys_in_one_text: &'r [&'r str],
    /// Ends of the paths of files, and the names of these files in messages.
    pub other_names: &'r [(&'r str, &'r str)],
    /// Ends of the paths of documents that have only strings.
    pub texts_only: &'r [&'r str],
}

/// Documents in which one value was replaced.
pub struct Mutation {
    pub documents: Documents,
    /// The path of the document and the pointer to the value.
    pub field: String,
    /// The pointer to the value; empty if it is the whole document.
    pointer: String,
    /// The name of the value in messages, if it is not its path.
    other_name: Option<String>,
    /// The name of the replacement.
    pub what: &'static str,
    /// The value is a map or a list.
    pub is_container: bool,
    /// Another value of the same type.
    pub is_same_type: bool,
}

impl Mutation {
    /// Returns the name of the field, as messages have it.
    pub fn name(&self) -> &str {
        name_of(&self.field)
    }

    /// Returns the names of the maps that have the field, and its own.
    fn path(&self) -> Vec<String> {
        if let Some(name) = &self.other_name {
            return vec![name.clone()];
        }
        let parts = self.pointer.split('/').filter(|part| !part.is_empty() && part.parse::<u32>().is_err());
        let path: Vec<String> = parts.map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
        if path.is_empty() { vec![self.name().into()] } else { path }
    }
}

/// Returns the last part of a pointer that is not an index, without a query.
fn name_of(field: &str) -> &str {
    let name = field.rsplit('/').find(|part| part.parse::<u32>().is_err()).unwrap_or(field);
    name.split('?').next().unwrap_or(name)
}

/// Calls `check` for each value and each replacement of it, with a few exceptions of `rules`.
pub fn mutate(documents: &Documents, rules: &Rules<'_>, check: &mut dyn FnMut(&Mutation)) {
    for (path, value) in documents {
        let texts_only = rules.texts_only.iter().any(|end| path.ends_with(end));
        let mut fields = Vec::new();
        pointers(value, "", &mut fields);
        for field in fields {
            let original = value.pointer(&field).unwrap();
            let is_container = original.is_object() || original.is_array();
            if texts_only && is_container {
                continue;
            }
            for (what, by) in replacements(is_container) {
                if texts_only && by.as_ref().is_some_and(|by| !by.is_string()) {
                    continue;
                }
                let mut documents = documents.clone();
                replace(documents.get_mut(path).unwrap(), &field, &by);
                let pointer = field.clone();
                let is_same_type = original.is_boolean() && what == "a boolean";
                let field = format!("{path}{field}");
                check(&Mutation {
                    documents,
                    field,
                    pointer,
                    other_name: None,
                    what,
                    is_container,
                    is_same_type,
                });
            }
        }
        // Whole files are replaced by strings only: a missing one is not reported, and listings are not fields.
        if value.is_string() && !path.ends_with('/') {
            for (what, by) in
                replacements(false).into_iter().filter(|(_, by)| by.as_ref().is_some_and(Value::is_string))
            {
                let mut documents = documents.clone();
                documents.insert(path.clone(), by.unwrap());
                let pointer = String::new();
                let other_name = rules.other_names.iter().find(|(end, _)| path.ends_with(end));
                let other_name = other_name.map(|(_, name)| (*name).to_string());
                let (field, is_container, is_same_type) = (path.clone(), false, false);
                check(&Mutation { documents, field, pointer, other_name, what, is_container, is_same_type });
            }
        }
    }
}

/// Replaces each value by each replacement, and returns what is wrong with the results.
pub fn check(
    name: &str,
    documents: &Documents,
    rules: &Rules<'_>,
    run: &dyn Fn(&Documents) -> Run,
) -> Vec<String> {
    let base = run(documents);
    assert!(base.found.is_ok(), "{name}: {:?}", base.found);
    let mut all = Vec::new();
    mutate(documents, rules, &mut |mutation| {
        let Mutation { documents, field, what, is_container, .. } = mutation;
        // An exception that ends with `$` is a whole path.
        let with_what = format!("{field}: {what}");
        let is_exception =
            |part: &&str| part.strip_suffix('$').map_or(with_what.contains(part), |path| field == path);
        if rules.exceptions.iter().any(is_exception) {
            return;
        }
        let has_all = *is_container || rules.keys_in_one_text.iter().any(|end| field.ends_with(end));
        for problem in problems(&base, &run(documents), mutation, has_all) {
            all.push(format!("{name}: {field}: {what}: {problem}"));
        }
    });
    all
}
