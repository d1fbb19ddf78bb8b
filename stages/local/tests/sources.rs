//! Machines with several sources of data at once: user-data, vendor-data and vendor-data2 in every form, settings of one
//! that affect another, and `cloud-config-url` of the kernel command line. The stored, written and merged results are those
//! of Python's cloud-init 26.2 (`documents/record_sources.py`), or the difference is listed.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

mod common;

use std::collections::BTreeMap;

use config::{Node, Value};

use common::{Files, Machine, decode, entries, recorded, text};

/// Names of cases, and the reason for the difference.
const DIFFERENCES: &[(&[&str], &str)] = &[
    (
        &[
            "vendor-include-broken-0",
            "vendor-gzip-include-broken-0",
            "vendor-once-broken-0",
            "vendor-gzip-once-broken-0",
            "vendor2-include-broken-0",
            "vendor2-multipart-include-broken-0",
            "vendor2-once-broken-0",
            "vendor2-multipart-once-broken-0",
            "vendor-fails",
            "vendor2-fails",
            "user-fails",
        ],
        "upstream does not store what follows a failing include, and combines nothing",
    ),
    (
        &["form-1", "form2-1", "forms-1", "form-3", "form2-3", "forms-3"],
        "upstream's documentation has lists of vendor-data; 26.2 ends in an error with them",
    ),
    (
        &["form-10", "form2-10", "forms-10", "form-13", "form2-13", "forms-13"],
        "an item other than a string in a list of vendor-data is an error upstream; here it is ignored, with a warning",
    ),
    (&["form-9", "form2-9", "forms-9"], "upstream ignores the whole drive if vendor-data is a number"),
    (
        &["form-14", "form2-14", "forms-14", "form-15", "form2-15", "forms-15"],
        "upstream ignores the whole drive if vendor-data is not JSON",
    ),
    (&["url-6"], "upstream fails for cloud-config-url without a value"),
    (&["url-19"], "upstream fails for a file of cloud.cfg.d that is not UTF-8"),
];

/// The same as in `documents/record_sources.py`.
const CONFIG: &str = "datasource: {ConfigDrive: {dsmode: local}}\ndatasource_list: [ConfigDrive, NoCloud]\nnetwork: {config: disabled}\n";
const FETCHED: &str = "etc/cloud/cloud.cfg.d/91_kernel_cmdline_url.cfg";
/// The keys of the documents that are compared: the image's own configuration differs between the programs.
const KEYS: &[&str] = &["a", "b", "c", "h", "l", "name", "p", "included", "k1", "k2"];

#[derive(Debug, PartialEq)]
struct Outcome {
    scripts: Files,
    /// The merged cloud-config of each source.
    configs: BTreeMap<String, Node>,
    combined: Option<Node>,
    fetched: Option<Vec<u8>>,
    raw: Files,
    failed: bool,
}

fn expected(case: &Node) -> Outcome {
    let there = |key| case.get(key).filter(|node: &&Node| !node.is_null());
    Outcome {
        scripts: recorded(case, "scripts"),
        configs: entries(case.get("configs")).map(|(name, config)| (name, config.clone())).collect(),
        combined: there("combined").cloned(),
        fetched: there("fetched").map(decode),
        raw: recorded(case, "raw"),
        failed: case.get("failed").and_then(Node::as_bool).unwrap(),
    }
}

/// Returns the outcome of one boot, and the warnings and errors of the log.
fn boot(case: &Node) -> (Outcome, Vec<String>) {
    let inputs = recorded(case, "inputs");
    let inputs = inputs.iter().map(|(path, content)| (&**path, content.clone()));
    let machine = Machine::boot(&format!("{CONFIG}{}", text(case, "image")), text(case, "line"), inputs);
    let read = |path: &str| std::fs::read(machine.root.join(path)).ok();
    let configs = ["cloud-config.txt", "vendor-cloud-config.txt", "vendor2-cloud-config.txt"].iter();
    let raw = ["vendor-data.txt", "vendor-data2.txt"].iter();
    let combined = read("run/cloud-init/combined-cloud-config.json");
    let mut combined = combined.map(|bytes| config::yaml::parse_bytes("combined", &bytes).unwrap().root);
    if let Some(Value::Map(map)) = combined.as_mut().map(|node| &mut node.value) {
        let kept = map.iter().filter(|(key, _)| {
            let key = key.as_str().unwrap_or_default();
            key.starts_with("t_") || KEYS.contains(&key)
        });
        *map = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    }
    let outcome = Outcome {
        scripts: machine.scripts(),
        configs: configs.filter_map(|name| Some((name.to_string(), machine.config(name)?))).collect(),
        combined,
        fetched: read(FETCHED),
        raw: raw.filter_map(|name| Some((name.to_string(), machine.instance_file(name)?))).collect(),
        failed: machine.failed,
    };
    (outcome, machine.warnings)
}

#[test]
fn results_match_upstream() {
    let wrong = scratch::in_parallel(1, |share| {
        let cases = config::yaml::parse("sources", include_str!("documents/sources.json")).unwrap().root;
        let cases = cases.as_seq().unwrap();
        assert!(cases.len() >= 200, "machines are missing");
        cases.iter().filter(|_| share.is_mine()).flat_map(problems).collect::<Vec<_>>()
    });
    let wrong = wrong.concat();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Boots the machine of a case, and returns the problems of its result.
fn problems(case: &Node) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = text(case, "name");
    let ((ours, warnings), upstream) = (boot(case), expected(case));
    if DIFFERENCES.iter().any(|(names, _)| names.contains(&name)) {
        if ours == upstream {
            wrong.push(format!("{name}: listed as a difference, but equal"));
        }
    } else if ours != upstream {
        wrong.push(format!("{name}:\n  ours {ours:?}\n  upstream {upstream:?}\n  {warnings:?}"));
    }
    let has_odd_form = ["form-9", "form2-10", "forms-13"].contains(&name);
    if (name.contains("-broken-") || has_odd_form) && warnings.is_empty() {
        wrong.push(format!("{name}: no warning"));
    }
    wrong
}
