//! An invalid value does not affect other keys: with an invalid value in place of each value of docs/examples, a module does
//! the same as without that key. Modules that do nothing instead are listed (`ALL_OR_NOTHING`), and so are single keys.

use std::collections::HashMap;

use config::{Finding, FindingKind, Map, Node, Reader, Value};
use scratch::{Worker, is_root};

use crate::tests::hostile_commands::{Machine, calls, check_keys_of_examples};
use crate::tests::hostile_values::{ALL_OR_NOTHING, mutations};
use crate::tests::sandbox::Sandbox;
use crate::{DOCS, Module};

/// Keys whose invalid value affects others: the module, the beginning of the path, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("install_hotplug", "updates.network.when[", "a list with an unknown event counts as empty, as upstream"),
    ("mounts", "mounts[", "earlier lines of fstab stay, because one of them may be of the invalid entry"),
    ("mounts", "swap.", "no swap file is made without its limit, which could fill the disk"),
    ("set_passwords", "chpasswd.expire", "nobody is locked out by a default that was not asked for"),
    ("ssh", "ssh_deletekeys", "host keys are not removed by a default that was not asked for"),
    ("users_groups", "users[1].expiredate", "an account that was to expire does not stay valid for ever"),
    ("ubuntu_autoinstall", "autoinstall", "the installer is looked for, whatever the value is, as upstream"),
];

/// Lists whose items may be skipped as a whole, and how many steps the path of an item has.
const WHOLE_ITEMS: &[(&str, usize)] = &[("write_files", 2), ("chpasswd", 3)];

/// The user of the examples whose password is random.
const RANDOM: &str = "olga:";

/// Every key type rejects at least one of these values.
fn wrong_values() -> [Node; 2] {
    let list = Node::from(vec![Node::from(vec![Node::null(), Node::from("x")])]);
    let map = [(Node::from("x"), list.clone())].into_iter().collect::<Map>();
    [list, map.into()]
}

/// Returns the places of maps and lists that lead to a finding's key, as far as they exist.
fn steps(node: &Node, path: &str) -> Vec<usize> {
    let next = match &node.value {
        Value::Map(map) => map.iter().enumerate().find_map(|(place, (key, value))| {
            let rest = path.trim_start_matches('.').strip_prefix(&key.scalar_text()?)?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some((place, value, rest))
        }),
        Value::Seq(items) => {
            path.strip_prefix('[').and_then(|path| path.split_once(']')).and_then(|(index, rest)| {
                let place = index.parse().ok()?;
                Some((place, items.get::<usize>(place)?, rest))
            })
        }
        _ => None,
    };
    next.map_or_else(Vec::new, |(place, value, rest)| [vec![place], steps(value, rest)].concat())
}

fn remove(node: &mut Node, steps: &[usize]) {
    let Some((place, rest)) = steps.split_first() else { return };
    match &mut node.value {
        Value::Map(map) => {
            let entries = map.iter().enumerate().filter(|(at, _)| at != place || !rest.is_empty());
            let stay = |(at, (key, value)): (usize, (&Node, &Node))| {
                let mut value = value.clone();
                if at == *place {
                    remove(&mut value, rest);
                }
                (key.clone(), value)
            };
            *map = entries.map(stay).collect();
        }
        Value::Seq(items) if rest.is_empty() => drop(items.remove(*place)),
        Value::Seq(items) => remove(&mut items[*place], rest),
        _ => {}
    }
}

/// Returns the document without the values that the findings are about, or without those on the way to them that have a depth.
fn without(document: &Node, depth: usize, findings: &[Finding]) -> Node {
    let mut all: Vec<Vec<usize>> = findings
        .iter()
        .map(|finding| steps(document, &finding.key).into_iter().take(depth).collect())
        .collect();
    all.sort();
    // A value inside another removed value is removed with it.
    let mut outer: Vec<Vec<usize>> = Vec::new();
    for steps in all {
        if !outer.iter().any(|other| steps.starts_with(other)) {
            outer.push(steps);
        }
    }
    let mut document = document.clone();
    // From the last one on, so that the remaining indexes stay valid.
    outer.iter().rev().for_each(|steps| remove(&mut document, steps));
    document
}

/// Runs the module, and returns what programs got and what was changed: without comments and the state, which have dates, and
/// without random passwords.
fn work(machine: &mut Machine, module: &Module, config: &Node) -> Vec<String> {
    let sandbox: &mut Sandbox = machine.unchanged(crate::tests::hostile_commands::distros_of(module)[0]);
    sandbox.config = config.clone();
    let _ = sandbox.run(module);
    let is_random = |line: &&str| line.starts_with(RANDOM);
    let mut done: Vec<String> = calls(sandbox)
        .into_iter()
        .map(|call| {
            let input: Vec<&str> =
                call.input.lines().map(|line| if is_random(&line) { RANDOM } else { line }).collect();
            format!("{} {:?} {input:?}", call.name, call.arguments)
        })
        .collect();
    for effect in sandbox.sys.effects() {
        match effect {
            system::Effect::Run { .. } => {}
            system::Effect::Write { path, .. } if path.starts_with("/var/lib/cloud/") => {}
            system::Effect::Write { path, mode, owner, .. } => {
                let text = std::fs::read(sandbox.top.join(&path[1..])).unwrap_or_default();
                let text = String::from_utf8_lossy(&text).into_owned();
                let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
                done.push(format!("{path} {mode:o} {owner:?} {lines:?}"));
            }
            other => done.push(format!("{other:?}")),
        }
    }
    done
}

fn invalid(read: fn(&Node, &mut Reader), config: &Node) -> Vec<Finding> {
    let mut reader = Reader::new();
    read(config, &mut reader);
    reader.into_findings().of_kind(FindingKind::Invalid).cloned().collect()
}

/// Checks a key of a module in an example. Returns the number of documents, and adds their problems.
fn check_key(
    module: &Module,
    read: fn(&Node, &mut Reader),
    config: &Map,
    key: &str,
    machine: &mut Machine,
    worker: &mut Worker<'_>,
    bad: &mut Vec<String>,
) -> usize {
    let mut count = 0;
    let mut expected: HashMap<String, Vec<String>> = HashMap::new();
    for wrong in wrong_values() {
        let mut all = Vec::new();
        mutations(config.get(key).unwrap(), &wrong, key, &mut all);
        for (path, value) in all {
            let is_exception =
                |(of, begin, _): &(&str, &str, &str)| *of == module.name && path.starts_with(begin);
            if !worker.is_mine() || EXCEPTIONS.iter().any(is_exception) {
                continue;
            }
            let mut document = config.clone();
            document.insert(key, value);
            let document = Node::from(document);
            let findings = invalid(read, &document);
            if findings.is_empty() {
                continue;
            }
            count += 1;
            let done = work(machine, module, &document);
            let whole = WHOLE_ITEMS.iter().find(|(of, _)| *of == key).map(|(_, depth)| *depth);
            let mut wanted = Vec::new();
            for depth in [Some(usize::MAX), whole].into_iter().flatten() {
                let without = without(&document, depth, &findings);
                let id = without.to_json().to_string();
                wanted = expected.entry(id).or_insert_with(|| work(machine, module, &without)).clone();
                if done == wanted {
                    break;
                }
            }
            if done != wanted {
                let more: Vec<_> = done.iter().filter(|line| !wanted.contains(line)).collect();
                let less: Vec<_> = wanted.iter().filter(|line| !done.contains(line)).collect();
                bad.push(format!(
                    "{}: {path} is {}: {:?}:\n  it does not {less:?}\n  but {more:?}",
                    module.name,
                    wrong.to_json(),
                    findings.iter().map(|finding| &finding.key).collect::<Vec<_>>(),
                ));
            }
        }
    }
    count
}

#[test]
fn an_invalid_value_does_not_affect_other_keys() {
    if !is_root("an_invalid_value_does_not_affect_other_keys") {
        return;
    }
    check_keys_of_examples(scratch::one_in(3), 500, |module, config, key, machine, worker, bad| {
        let section = DOCS.iter().find(|section| section.keys.iter().any(|field| field.name == key));
        match section.and_then(|section| section.read) {
            Some(read) if !ALL_OR_NOTHING.contains(&module.name) => {
                check_key(module, read, config, key, machine, worker, bad)
            }
            _ => 0,
        }
    });
}
