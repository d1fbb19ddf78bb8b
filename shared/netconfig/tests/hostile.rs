//! Hostile values: each key of each golden case and of each datasource's format gets a value that would be a line, a
//! section, a command or a rule of its own, and is rendered by every renderer. Keys of new cases are covered
//! automatically, and the keys of version 2's tables are added here.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use config::{Findings, Map, Node, Value};
use netconfig::parse::{Facts, Format, NicFacts};
use netconfig::render;
use scratch::Worker;

/// Text that no file may contain: it would be at the beginning of a line, or be run.
const MARK: &str = "INJECTED";

/// The suffix (or replacement) of a value, and whether a file may contain it in quotes.
const HOSTILE: [(&str, bool); 9] = [
    ("\nup INJECTED\n[INJECTED]\nINJECTED=1", false),
    ("\rup INJECTED", false),
    ("\0INJECTED", false),
    ("\u{85}INJECTED=1", false),
    ("\u{2028}INJECTED=1", false),
    ("\\nINJECTED", false),
    ("$(touch INJECTED)", true),
    ("`touch INJECTED`\"; touch INJECTED; '", true),
    ("\", RUN+=\"touch INJECTED\", NAME=\"x", true),
];

/// Returns the paths of all scalars, without indices so that each key is tried once; and each as a way to it.
fn leaves(node: &Node, path: &str, way: &mut Vec<usize>, found: &mut Vec<(String, Vec<usize>)>) {
    let mut visit = |i: usize, path: String, child: &Node| {
        way.push(i);
        leaves(child, &path, way, found);
        way.pop();
    };
    match &node.value {
        Value::Seq(items) => {
            items.iter().enumerate().for_each(|(i, item)| visit(i, format!("{path}[]"), item));
        }
        Value::Map(map) => {
            for (i, (key, value)) in map.iter().enumerate() {
                visit(i, format!("{path}.{}", key.scalar_text().unwrap_or_default()), value);
            }
        }
        _ => found.push((path.to_string(), way.clone())),
    }
}

/// Returns a copy with the scalar at the end of the way changed; `in_key` changes its key instead.
fn with(node: &Node, way: &[usize], hostile: &str, in_key: bool) -> Node {
    let Some((first, rest)) = way.split_first() else {
        return Node::from(format!("{}{hostile}", node.scalar_text().unwrap_or_default()));
    };
    match &node.value {
        Value::Seq(items) => {
            let mut items = items.clone();
            items[*first] = with(&items[*first], rest, hostile, in_key);
            Node::from(items)
        }
        Value::Map(map) => {
            let mut changed = Map::new();
            for (i, (key, value)) in map.iter().enumerate() {
                if i != *first {
                    changed.insert(key.clone(), value.clone());
                } else if in_key && rest.is_empty() {
                    changed.insert(with(key, &[], hostile, false), value.clone());
                } else {
                    changed.insert(key.clone(), with(value, rest, hostile, in_key));
                }
            }
            Node::from(changed)
        }
        _ => node.clone(),
    }
}

/// The renderers and distributions of the golden cases: one line `NAME RENDERER DISTRIBUTION` each.
const OUTPUTS: &str = include_str!("outputs");

/// Files as a shell reads them, so that a single shell checks all files of a case.
#[derive(Default)]
struct Sourced(String);

impl Sourced {
    fn run(&self, what: &str) {
        if self.0.is_empty() {
            return;
        }
        let top = scratch::TempDir::new();
        let script = top.join("files");
        fs::write(&script, &self.0).unwrap();
        let done = Command::new("sh").arg("./files").current_dir(&top).output().unwrap();
        assert!(!top.join(MARK).exists(), "{what}: a command was run: {done:?}\n{}", self.0);
    }
}

fn check(config: &Node, facts: &Facts, what: &str, may_be_quoted: bool, sourced: &mut Sourced) -> usize {
    let mut rendered = 0;
    for output in OUTPUTS.lines() {
        let (renderer, distro) = output.split_once(' ').unwrap().1.split_once(' ').unwrap();
        let target = netconfig::Target::for_distro(distro);
        let renderer = render::by_name(renderer).unwrap();
        let Ok(done) = render::render(config, renderer, &target, facts) else { continue };
        rendered += 1;
        for finding in done.findings.iter() {
            assert!(!finding.to_string().contains("\n"), "{what}: a finding of two lines");
        }
        for file in done.files {
            let name = format!("{what} as {} {distro}: {}", renderer.name, file.path);
            assert!(!file.path.contains(MARK), "{name}");
            if renderer.name == "netplan" {
                // YAML quotes it; netplan may read a value that it must not pass on.
                let read = config::yaml::parse("netplan", &file.content).unwrap().root;
                assert!(may_be_quoted || !unfit(&read), "{name}\n{}", file.content);
                continue;
            }
            let is_sourced = ["/ifcfg-", "/route-"].iter().any(|kind| file.path.contains(kind));
            if !may_be_quoted {
                // A list of words may have it as an item.
                let begins =
                    |line: &str| ["up INJECTED", "[INJECTED", MARK].iter().any(|m| line.starts_with(m));
                let mut lines = file.content.split(|c: char| c.is_control() || c == '\u{2028}');
                assert!(!lines.any(|line| begins(line.trim())), "{name}\n{}", file.content);
                assert!(!file.content.contains("\\n"), "{name}\n{}", file.content);
            } else if is_sourced {
                sourced.0.push_str(&file.content);
            } else if renderer.name == "eni" || file.path.contains("udev") {
                let mut lines = file.content.lines().filter(|line| !line.starts_with('#'));
                assert!(!lines.any(|line| line.contains(MARK)), "{name}\n{}", file.content);
            }
        }
    }
    rendered
}

fn unfit(node: &Node) -> bool {
    match &node.value {
        Value::Str(text) => text.contains(|c: char| c.is_control() || c == '\u{2028}'),
        Value::Seq(items) => items.iter().any(unfit),
        Value::Map(map) => map.iter().any(|(key, value)| unfit(key) || unfit(value)),
        _ => false,
    }
}

/// Tries every key that was not tried before. The keys are distributed among the threads.
fn try_all(
    document: &Node,
    name: &str,
    tried: &mut BTreeSet<String>,
    worker: &mut Worker<'_>,
    render: &mut dyn FnMut(&Node, &str, bool, &mut Sourced) -> usize,
) -> usize {
    let (mut found, mut count) = (Vec::new(), 0);
    leaves(document, "", &mut Vec::new(), &mut found);
    let mut sourced = Sourced::default();
    for (path, way) in found {
        if !tried.insert(path.clone()) {
            continue;
        }
        for (i, (hostile, may_be_quoted)) in HOSTILE.into_iter().enumerate() {
            for in_key in [false, true] {
                // For names, a line end and shell characters suffice.
                if in_key && ![0, 7].contains(&i) || !worker.is_mine() {
                    continue;
                }
                let changed = with(document, &way, hostile, in_key);
                let what = format!("{name}{path} {}{hostile:?}", if in_key { "(key) " } else { "" });
                count += render(&changed, &what, may_be_quoted, &mut sourced);
            }
        }
    }
    sourced.run(name);
    count
}

/// Returns a document of version 2 for each section, with every key of the tables and a value of any type.
fn all_of_version_2() -> Vec<Node> {
    let documents = netconfig::parse::known_keys().map(|(section, keys, _)| {
        let mut device = Map::new();
        for key in keys {
            let inner = netconfig::parse::known_inner_keys(section, key);
            if inner.is_empty() {
                device.insert(key, "1");
                continue;
            }
            let map: Map = inner.iter().map(|k| (Node::from(*k), Node::from("1"))).collect();
            let is_list = ["routes", "routing-policy"].contains(&key);
            device.insert(key, if is_list { Node::from(vec![Node::from(map)]) } else { Node::from(map) });
        }
        // Keys without which the others are ignored.
        for key in ["dhcp4", "dhcp6"] {
            device.insert(key, true);
        }
        device.insert("addresses", vec![Node::from("10.0.0.2/24"), Node::from("fd00::2/64")]);
        let route = "[{to: 10.1.0.0/16, via: 10.0.0.1, metric: 1, table: 1, mtu: 9}]";
        device.insert("routes", config::yaml::parse("t", route).unwrap().root);
        device.insert("interfaces", vec![Node::from("nic")]);
        device.insert("macaddress", "02:00:00:00:00:01");
        let devices: Map = [(Node::from("nic0"), Node::from(device))].into_iter().collect();
        let sections = [(Node::from("version"), Node::from(2)), (Node::from(section), Node::from(devices))];
        Node::from(sections.into_iter().collect::<Map>())
    });
    documents.collect()
}

#[test]
fn no_configuration_value_injects_lines_or_commands() {
    let one_in = scratch::one_in(5);
    let results = scratch::in_parallel(one_in, try_configurations);
    let (tried, count) = (results[0].0, results.iter().map(|(_, count)| count).sum::<usize>());
    assert!(tried > 250 && count > 8_000 / one_in, "{tried} keys, {count} renderings");
}

/// Returns the number of keys of all threads, and of this thread's renderings.
fn try_configurations(worker: &mut Worker<'_>) -> (usize, usize) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let (mut tried, mut count) = (BTreeSet::new(), 0);
    let facts = Facts::default();
    let mut plain = |node: &Node, what: &str, may_be_quoted: bool, sourced: &mut Sourced| {
        check(node, &facts, what, may_be_quoted, sourced)
    };
    for document in all_of_version_2() {
        count += try_all(&document, "all of version 2", &mut tried, worker, &mut plain);
    }
    let mut names: Vec<_> = fs::read_dir(tests.join("cases")).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    for case in &names {
        let name = case.file_name().unwrap().display().to_string();
        if let Ok(text) = fs::read_to_string(case.join("input.yaml")) {
            let Ok(parsed) = config::yaml::parse("t", &text) else { continue };
            count += try_all(&parsed.root, &name, &mut tried, worker, &mut plain);
        }
    }
    (tried.len(), count)
}

/// Metadata and the kernel command line are converted to version 1 or 2 first.
#[test]
fn no_metadata_value_injects_lines_or_commands() {
    let one_in = scratch::one_in(5);
    let results = scratch::in_parallel(one_in, try_metadata);
    let sum = |of: fn(&(usize, usize)) -> usize| results.iter().map(of).sum::<usize>();
    let (count, lines) = (sum(|result| result.0), sum(|result| result.1));
    assert!(
        count > 2_000 / one_in && lines > 500 / one_in,
        "{count} renderings of documents, {lines} of texts"
    );
}

/// Returns the number of this thread's renderings of documents, and of strings.
fn try_metadata(worker: &mut Worker<'_>) -> (usize, usize) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let (mut count, mut lines) = (0, 0);
    let mut through = |format: &'static str,
                       document: &Node,
                       facts: &Facts,
                       name: &str,
                       tried: &mut BTreeSet<String>,
                       worker: &mut Worker<'_>| {
        let format = Format::from_name(format).unwrap();
        let mut one = |node: &Node, what: &str, may_be_quoted: bool, sourced: &mut Sourced| {
            let mut findings = Findings::default();
            match format.convert(node, facts, &mut findings) {
                Ok(config) => check(&config, facts, what, may_be_quoted, sourced),
                Err(message) => {
                    assert!(!message.contains('\n'), "{what}: {message}");
                    0
                }
            }
        };
        count += try_all(document, name, tried, worker, &mut one);
    };
    let mut tried = BTreeSet::new();
    let mut names: Vec<_> = fs::read_dir(tests.join("cases")).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    for case in &names {
        let nics = fs::read_to_string(case.join("nics")).unwrap_or_default();
        let facts = Facts::from_pairs(nics.lines().filter_map(|l| l.split_once(' ')));
        for (file, format) in [("network_data.json", "network_data.json"), ("imds.json", "azure-imds")] {
            if let Ok(text) = fs::read_to_string(case.join(file)) {
                let document = Node::from_json(&serde_json::from_str(&text).unwrap());
                through(format, &document, &facts, &case.display().to_string(), &mut tried, worker);
            }
        }
    }
    for format in ["azure-imds", "ec2-imds", "aliyun-imds", "oracle-imds", "vmware-imc", "eni"] {
        let text = fs::read_to_string(tests.join(format!("formats/{format}.yaml"))).unwrap();
        let cases = config::yaml::parse(format, &text).unwrap().root;
        let mut tried = BTreeSet::new();
        for case in cases.as_seq().unwrap() {
            let nics = case.get("nics").and_then(Node::as_seq).unwrap_or_default();
            let nic = |nic: &Node| NicFacts {
                name: nic.get("name").and_then(Node::scalar_text).unwrap(),
                mac: nic.get("mac").and_then(Node::scalar_text).unwrap(),
                ..NicFacts::default()
            };
            let facts = Facts {
                nics: nics.iter().map(nic).collect(),
                netplan: true,
                fallback: case.get("fallback").and_then(Node::as_str).map(Into::into),
                ..Facts::default()
            };
            let input = case.get("input").cloned().unwrap_or_default();
            match input.as_str() {
                // A string of lines: each of its values.
                Some(text) => {
                    for (i, line) in text.lines().enumerate() {
                        let key =
                            line.split([' ', '=']).find(|w| !w.is_empty()).unwrap_or_default().to_string();
                        if !tried.insert(key) {
                            continue;
                        }
                        for (hostile, may_be_quoted) in HOSTILE[1..].iter().filter(|_| worker.is_mine()) {
                            let changed: Vec<String> = text
                                .lines()
                                .enumerate()
                                .map(|(j, l)| if i == j { format!("{l}{hostile}") } else { l.into() })
                                .collect();
                            let node = Node { at: input.at.clone(), ..Node::from(changed.join("\n")) };
                            let mut sourced = Sourced::default();
                            let mut findings = Findings::default();
                            if let Ok(config) =
                                Format::from_name(format).unwrap().convert(&node, &facts, &mut findings)
                            {
                                let what = format!("{format}: {line}{hostile:?}");
                                lines += check(&config, &facts, &what, *may_be_quoted, &mut sourced);
                            }
                            sourced.run(line);
                        }
                    }
                }
                None => through(format, &input, &facts, format, &mut tried, worker),
            }
        }
    }
    (count, lines)
}
