//! Each field of each answer of a metadata service: missing, of another type, huge, with control characters. It costs
//! only itself, and one warning names it; the instance-id, the keys and the user-data survive.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/served.rs"]
mod served;

use scratch::TempDir;
use serde_json::{Value, json};
use served::{Answers, CASES, Server};
use state::Instance;

const CLOUDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/clouds");

/// Fields that are judged otherwise, by their fixture and a part of their path.
const EXCEPTIONS: [(&str, &str); 9] = [
    // All keys in one text.
    ("cloudstack", "/public-keys"),
    ("exoscale", "/public-keys"),
    // A document of its own.
    ("maas", "/vendor-data/cloud-init"),
    // Named by the name of the key.
    ("ec2", "/openssh-key"),
    // Lines of a tree are keys of their own.
    ("openstack", "/openssh-key"),
    // Without its encoding the user-data is reported too.
    ("gce", "/user-data-encoding"),
    // The list of versions.
    ("openstack", "/openstack"),
    // Named as vendor-data.
    ("openstack", "vendor_data.json"),
    ("openstack", "vendor_data2.json"),
];

/// Fields with several keys in one text, which is replaced as a whole.
const KEYS_IN_ONE_TEXT: [(&str, &str); 2] =
    [("oracle", "/ssh_authorized_keys"), ("maas", "/meta-data/public-keys")];

/// The length of a text that is too long for every field but user-data.
const HUGE: usize = 17 << 10;
/// Of a longer list only these items are replaced: the others are of the same kind.
const MAX_ITEMS: usize = 2;

/// What a field is replaced by; `None` removes it. Null is tried in the place of documents, and missing in that of texts: both
/// are no value.
fn replacements(is_container: bool) -> Vec<(&'static str, Option<Value>)> {
    let control = ("control characters", Some("a\u{7}b\nc\u{0}d\u{1b}[0m".into()));
    let list = ("a list", Some(json!([[1]])));
    let map = ("a map", Some(json!({"x": {"y": 1}})));
    match is_container {
        true => vec![("null", Some(Value::Null)), list, map, control],
        false => vec![("missing", None), list, map, ("huge", Some("x".repeat(HUGE).into())), control],
    }
}

/// The parts of an instance that a field can change. Of the metadata itself nothing is expected.
fn parts(instance: &Instance) -> Vec<(&'static str, String)> {
    let network = instance.network.as_ref().map(|network| network.content.to_string());
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

struct Run {
    found: Result<Instance, String>,
    warnings: Vec<String>,
}

fn run(case: (&str, &str, &str), server: &Server, answers: &Answers) -> Run {
    let (name, fixture, setting) = case;
    let top = TempDir::in_memory();
    server.set(served::bodies(answers));
    let fixture = served::fixture(CLOUDS, fixture);
    let (sys, found) = served::find(top.as_ref(), (name, &fixture, setting), server);
    let warnings = sys.log().logged_warnings().into_iter().map(|(_, text)| text).collect();
    let found = found.map_err(|e| e.to_string()).and_then(|found| found.ok_or_else(|| "none".to_string()));
    Run { found, warnings }
}

/// Returns what is wrong with a run after a field was replaced; empty if nothing is. `has_all`: the field has other fields, or
/// all keys.
fn problems(base: &Run, run: &Run, field: &str, what: &str, has_all: bool) -> Vec<String> {
    let name = field.rsplit('/').find(|part| part.parse::<u32>().is_err()).unwrap_or(field);
    let name = name.split('?').next().unwrap_or(name);
    let mut problems = Vec::new();
    let new: Vec<&String> = run.warnings.iter().filter(|text| !base.warnings.contains(text)).collect();
    let is_named = new.iter().any(|text| text.contains(name));
    for text in &new {
        if text.len() > 2000 || text.contains(['\u{7}', '\0', '\u{1b}']) {
            problems.push(format!("a warning contains the value: {:.200}", text));
        }
    }
    let (before, after) = match (&base.found, &run.found) {
        (Ok(before), Ok(after)) => (parts(before), parts(after)),
        (_, Err(e)) => {
            // Without its id an instance is not recognised.
            let is_id =
                ["instance-id", "instance-v2-id", "uuid", "id", "droplet_id", "metadata"].contains(&name);
            if !is_id || !e.contains(name) {
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
        // Another map is a valid one.
        if matches!(what, "missing" | "null" | "a map") || is_data || is_checked_later || is_named {
            continue;
        }
        problems.push(format!("{part} changes without a warning that names {name}: {new:.300?}"));
    }
    if new.len() > 1 && !has_all {
        problems.push(format!("{} warnings: {new:.300?}", new.len()));
    }
    problems
}

#[test]
fn each_field_costs_only_itself() {
    let selected = std::env::var("FIRSTLIGHT_CLOUD").ok();
    let cases = CASES.iter().filter(|(_, fixture, _)| selected.as_ref().is_none_or(|name| name == fixture));
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = cases.map(|case| scope.spawn(move || check(*case))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<String>>()
    });
    assert!(all.is_empty(), "{} problems:\n{}", all.len(), all.join("\n"));
}

fn check(case: (&str, &str, &str)) -> Vec<String> {
    let server = Server::start();
    let answers = served::answers(&served::fixture(CLOUDS, case.1));
    let base = run(case, &server, &answers);
    assert!(base.found.is_ok(), "{}: {:?}", case.1, base.found);
    let mut all = Vec::new();
    let mut judge = |answers: &Answers, field: &str, what: &str, is_container: bool| {
        let is_exception = |(fixture, part): &(&str, &str)| {
            *fixture == case.1 && (field.contains(part) && (*part != "/openstack" || field == *part))
        };
        if EXCEPTIONS.iter().any(is_exception) {
            return;
        }
        let run = run(case, &server, answers);
        let is_text_of_keys =
            KEYS_IN_ONE_TEXT.iter().any(|(name, part)| *name == case.1 && field.ends_with(part));
        for problem in problems(&base, &run, field, what, is_container || is_text_of_keys) {
            all.push(format!("{}: {field}: {what}: {problem}", case.1));
        }
    };
    for (path, value) in &answers {
        let mut fields = Vec::new();
        pointers(value, "", &mut fields);
        for field in fields {
            let original = value.pointer(&field).unwrap();
            let is_container = original.is_object() || original.is_array();
            for (what, by) in replacements(is_container) {
                let mut changed = answers.clone();
                replace(changed.get_mut(path).unwrap(), &field, &by);
                judge(&changed, &format!("{path}{field}"), what, is_container);
            }
        }
        // Of files only texts: one that is missing is not reported, and listings are not fields.
        if value.is_string() && !path.ends_with('/') {
            for (what, by) in
                replacements(false).into_iter().filter(|(_, by)| by.as_ref().is_some_and(Value::is_string))
            {
                let mut changed = answers.clone();
                changed.insert(path.clone(), by.unwrap());
                judge(&changed, path, what, false);
            }
        }
    }
    all
}
