//! Machines whose data come from several sources at once: user-data, vendor-data and vendor-data2 in every form, what
//! each may say of the others, and `cloud-config-url` of the kernel command line. What is stored, written and merged
//! is what Python's cloud-init 26.2 made of them (`documents/record_sources.py`), or the difference is listed.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use config::Node;
use scratch::Scratch;

/// Names, and why we answer otherwise.
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
        "what comes behind a failing include is not stored upstream, and nothing is combined",
    ),
    (
        &["form-1", "form2-1", "forms-1", "form-3", "form2-3", "forms-3"],
        "upstream's documentation has lists of vendor-data; 26.2 ends in an error with them",
    ),
    (
        &["form-10", "form2-10", "forms-10", "form-13", "form2-13", "forms-13"],
        "what is no text in a list of vendor-data is an error upstream; here it is left out, and said",
    ),
    (&["form-9", "form2-9", "forms-9"], "vendor-data that are a number cost upstream the whole drive"),
    (&["url-6"], "the word cloud-config-url without a value ends upstream in an error"),
    (&["url-19"], "a file of cloud.cfg.d that is not UTF-8 ends upstream in an error"),
];

/// As `documents/record_sources.py` has them.
const CONFIG: &str = "datasource: {ConfigDrive: {dsmode: local}}\ndatasource_list: [ConfigDrive, NoCloud]\nnetwork: {config: disabled}\n";
const FETCHED: &str = "etc/cloud/cloud.cfg.d/91_kernel_cmdline_url.cfg";
/// Keys of the documents: the image's own configuration is each program's.
const KEYS: &[&str] = &["a", "b", "c", "h", "l", "name", "p", "included", "k1", "k2"];

type Files = BTreeMap<String, Vec<u8>>;

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

fn decode(node: &Node) -> Vec<u8> {
    encoding::base64::decode(node.as_str().unwrap().as_bytes()).unwrap()
}

fn entries(node: Option<&Node>) -> impl Iterator<Item = (String, &Node)> {
    let map = node.and_then(Node::as_map);
    map.into_iter().flat_map(|map| map.iter()).map(|(key, value)| (key.as_str().unwrap().to_string(), value))
}

fn recorded(case: &Node) -> Outcome {
    let files = |key| entries(case.get(key)).map(|(name, content)| (name, decode(content))).collect();
    let there = |key| case.get(key).filter(|node: &&Node| !node.is_null());
    Outcome {
        scripts: files("scripts"),
        configs: entries(case.get("configs")).map(|(name, config)| (name, config.clone())).collect(),
        combined: there("combined").cloned(),
        fetched: there("fetched").map(decode),
        raw: files("raw"),
        failed: case.get("failed").and_then(Node::as_bool).unwrap(),
    }
}

fn files(base: &Path, below: &str, found: &mut Files) {
    let Ok(entries) = std::fs::read_dir(base.join(below)) else { return };
    for entry in entries.map(|e| e.unwrap()) {
        let name = format!("{below}/{}", entry.file_name().into_string().unwrap());
        if entry.path().is_dir() {
            files(base, &name, found);
        } else {
            found.insert(name, std::fs::read(entry.path()).unwrap());
        }
    }
}

/// One boot as far as the local stage, in a directory. The outcome, and what was logged from WARNING on.
fn boot(case: &Node) -> (Outcome, Vec<String>) {
    let root = Scratch::new();
    let text = |key: &str| case.get(key).and_then(Node::as_str).unwrap();
    root.put("etc/cloud/cloud.cfg", format!("{CONFIG}disable_network_activation: true\n{}", text("image")));
    root.put("proc/cmdline", text("line"));
    let seed = "var/lib/cloud/seed/included";
    root.put(&format!("{seed}/script"), b"#!/bin/sh\necho included\n");
    root.put(&format!("{seed}/config"), b"#cloud-config\nincluded: 1\n");
    root.put(&format!("{seed}/gzip"), include_bytes!("documents/included.gz"));
    for (path, content) in entries(case.get("inputs")) {
        root.put(&path, decode(content));
    }
    let done = Command::new(env!("CARGO_BIN_EXE_cloud-init-local"))
        .args(["--root", root.to_str().unwrap()])
        .env_remove("DEBUG_PROC_CMDLINE")
        .output()
        .unwrap();
    assert!(done.status.code().is_some_and(|c| c < 101), "{done:?}");
    let instance = root.join("var/lib/cloud/instances/i-1");
    let mut scripts = Files::new();
    files(&instance, "scripts", &mut scripts);
    files(&instance, "boothooks", &mut scripts);
    let read = |path: &Path| std::fs::read(path).ok();
    let parse = |name: &str, bytes: Vec<u8>| config::yaml::parse_bytes(name, &bytes).unwrap().root;
    let configs = ["cloud-config.txt", "vendor-cloud-config.txt", "vendor2-cloud-config.txt"].iter();
    let raw = ["vendor-data.txt", "vendor-data2.txt"].iter();
    let mut combined =
        read(&root.join("run/cloud-init/combined-cloud-config.json")).map(|b| parse("combined", b));
    if let Some(config::Value::Map(map)) = combined.as_mut().map(|node| &mut node.value) {
        let kept = map.iter().filter(|(key, _)| {
            let key = key.as_str().unwrap_or_default();
            key.starts_with("t_") || KEYS.contains(&key)
        });
        *map = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    }
    let log = String::from_utf8(read(&root.join("var/log/cloud-init.log")).unwrap()).unwrap();
    let outcome = Outcome {
        scripts,
        configs: configs
            .filter_map(|name| Some((name.to_string(), parse(name, read(&instance.join(name))?))))
            .collect(),
        combined,
        fetched: read(&root.join(FETCHED)),
        raw: raw.filter_map(|name| Some((name.to_string(), read(&instance.join(name))?))).collect(),
        failed: log.contains("[ERROR]: user-data and vendor-data: "),
    };
    let levels = ["[WARNING]", "[ERROR]"];
    let said = log.lines().filter(|line| levels.iter().any(|l| line.contains(l))).map(str::to_string);
    (outcome, said.collect())
}

#[test]
fn as_upstream() {
    let cases = config::yaml::parse("sources", include_str!("documents/sources.json")).unwrap().root;
    let cases = cases.as_seq().unwrap();
    assert!(cases.len() >= 200, "machines are missing");
    let mut wrong = Vec::new();
    for case in cases {
        let name = case.get("name").and_then(Node::as_str).unwrap();
        let ((ours, said), upstream) = (boot(case), recorded(case));
        if DIFFERENCES.iter().any(|(names, _)| names.contains(&name)) {
            if ours == upstream {
                wrong.push(format!("{name}: is listed as a difference, and is none"));
            }
        } else if ours != upstream {
            wrong.push(format!("{name}:\n  ours {ours:?}\n  upstream {upstream:?}\n  {said:?}"));
        }
        let has_odd_form = ["form-9", "form2-10", "forms-13"].contains(&name);
        if (name.contains("-broken-") || has_odd_form) && said.is_empty() {
            wrong.push(format!("{name}: nothing is said"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
