//! Each network field of each answer of a metadata service: missing, of another type, huge, with control characters. It
//! changes the files of at most one link, one warning names it, and none of its lines is in a rendered file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../shared/datasource/tests/common/mutated.rs"]
mod mutated;
#[path = "../../../shared/datasource/tests/common/served.rs"]
mod served;

use std::collections::{BTreeMap, BTreeSet};

use config::{Findings, source_map};
use mutated::{Documents, Mutation, Rules, Run, mutate};
use netconfig::parse::{Facts, Format};
use netconfig::{Target, render};
use scratch::TempDir;
use served::{Case, Server};
use state::NetworkConfig;

const CLOUDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/clouds");
/// The longest line that a rendered file may have, whatever the metadata contains.
const MAX_LINE: usize = 16 << 10;
/// The first writes a file for each link.
const RENDERERS: [&str; 2] = ["networkd", "eni"];
/// The links of the fixtures.
const LINKS: [(&str, &str); 3] =
    [("eth0", "02:00:00:00:0a:01"), ("eth1", "02:00:00:00:0a:99"), ("eth2", "02:00:00:00:0a:77")];

/// Fields by which EC2's NICs are ordered: the metrics of all links follow from each.
const ORDERING: [&str; 2] = ["device-number", "network-card"];

/// The files that the renderers write for an instance's network configuration.
#[derive(Default)]
struct Rendered {
    /// The files of all renderers, by their paths.
    files: BTreeMap<String, String>,
    /// The messages of the conversion and of the first renderer.
    messages: Vec<String>,
}

impl Rendered {
    fn of(network: &NetworkConfig) -> Rendered {
        let facts = Facts { fallback: Some("eth0".into()), ..Facts::from_pairs(LINKS) };
        let content = source_map::from_json(&network.content, &network.source, &network.positions);
        let mut findings = Findings::default();
        let format = Format::of(&network.format).unwrap();
        let converted = format.convert(&content, &facts, &mut findings);
        let mut rendered = Rendered::default();
        rendered.add_messages(&findings);
        let config = match converted {
            Ok(config) => config,
            Err(e) => {
                rendered.messages.push(e);
                return rendered;
            }
        };
        for name in RENDERERS {
            let renderer = render::by_name(name).unwrap();
            match render::render(&config, renderer, &Target::for_distro("debian"), &facts) {
                Ok(done) => {
                    rendered.files.extend(done.files.into_iter().map(|file| (file.path, file.content)));
                    if name == RENDERERS[0] {
                        rendered.add_messages(&done.findings);
                    }
                }
                Err(e) if name == RENDERERS[0] => rendered.messages.push(e),
                Err(_) => {}
            }
        }
        rendered
    }

    fn add_messages(&mut self, findings: &Findings) {
        self.messages.extend(findings.iter().map(ToString::to_string));
    }
}

#[test]
fn each_network_field_costs_only_itself() {
    let selected = std::env::var("FIRSTLIGHT_CLOUD").ok();
    let cases = served::cases(CLOUDS);
    let cases = cases.iter().filter(|case| selected.as_ref().is_none_or(|name| *name == case.name));
    let results: Vec<(usize, Vec<String>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = cases.map(|case| scope.spawn(move || check(case))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let count: usize = results.iter().map(|(count, _)| count).sum();
    let all: Vec<String> = results.into_iter().flat_map(|(_, problems)| problems).collect();
    assert!(all.is_empty(), "{} problems of {count}:\n{}", all.len(), all.join("\n"));
    assert!(selected.is_some() || count > 300, "only {count} network configurations");
}

/// Returns the number of configurations that differ from the fixture's, and what is wrong with them.
fn check(case: &Case) -> (usize, Vec<String>) {
    let server = Server::start();
    let run = |answers: &Documents| {
        let top = TempDir::in_memory();
        server.set(served::bodies(answers));
        let (sys, found) = served::find(top.as_ref(), case, &server);
        Run::new(&sys, found)
    };
    let answers = served::answers(case);
    let base = run(&answers);
    let Some(network) = base.found.as_ref().unwrap().network.as_ref() else { return (0, Vec::new()) };
    let expected = Rendered::of(network);
    assert!(!expected.files.is_empty(), "{}: {:?}", case.name, expected.messages);
    let (mut count, mut all) = (0, Vec::new());
    mutate(&answers, &Rules::default(), &mut |mutation| {
        // Another value of the same type, such as `true` for `false`, is valid.
        if mutation.is_same_type {
            return;
        }
        let run = run(&mutation.documents);
        // The datasource's own tests check how it reads a field.
        let Ok(instance) = &run.found else { return };
        if instance.network.as_ref().is_some_and(|found| found.content == network.content) {
            return;
        }
        count += 1;
        let found = instance.network.as_ref().map(Rendered::of).unwrap_or_default();
        let new = |all: &[String], before: &[String]| -> Vec<String> {
            all.iter().filter(|text| !before.contains(text)).cloned().collect()
        };
        let mut messages = new(run.warnings(), base.warnings());
        messages.extend(new(&found.messages, &expected.messages));
        for problem in problems(mutation, &expected, &found, &messages) {
            all.push(format!("{}: {}: {}: {problem}", case.name, mutation.field, mutation.what));
        }
    });
    eprintln!("{}: {count} network configurations", case.name);
    (count, all)
}

/// Returns what is wrong with the files and messages after a field was replaced; empty if nothing is.
fn problems(mutation: &Mutation, expected: &Rendered, found: &Rendered, messages: &[String]) -> Vec<String> {
    let mut problems = Vec::new();
    let name = mutation.name();
    for text in messages {
        if text.len() > 2000 || text.contains(|c: char| c.is_control()) {
            problems.push(format!("a message contains the value: {text:.200?}"));
        }
    }
    // The second line of the value with control characters begins with this letter alone.
    let is_bad = |line: &str| {
        line.len() >= MAX_LINE || line.contains(|c: char| c.is_control() && c != '\t') || line.trim() == "c"
    };
    for (path, content) in &found.files {
        if path.contains(|c: char| c.is_control()) || content.lines().any(is_bad) {
            problems.push(format!("{path} contains the value: {content:.300?}"));
        }
    }
    let mut changed: Vec<&String> = expected
        .files
        .iter()
        .filter(|(path, text)| found.files.get(*path) != Some(text))
        .map(|f| f.0)
        .collect();
    changed.extend(found.files.keys().filter(|path| !expected.files.contains_key(*path)));
    let links = changed.iter().filter(|path| path.contains("/systemd/network/")).count();
    if links > 1 && !mutation.is_container && !ORDERING.contains(&name) {
        problems.push(format!("changes {changed:?}: {messages:.300?}"));
    }
    let is_reported = messages.iter().any(|text| text.contains(name));
    if !changed.is_empty() && !is_reported && !matches!(mutation.what, "missing" | "null" | "a map") {
        problems.push(format!("changes {changed:?} without a message that names {name}: {messages:.300?}"));
    }
    // If no link is left, the reason is another message.
    let lists: BTreeSet<&str> = messages.iter().map(|text| list_of(text)).collect();
    if lists.len() > 1 && !found.files.is_empty() && !mutation.is_container {
        problems.push(format!("{} messages: {messages:.300?}", messages.len()));
    }
    problems
}

/// Returns a message up to the index of a list's item: each line of a string that is read as a list is a value of its own, which
/// the sanitizer reports by itself.
fn list_of(message: &str) -> &str {
    let start = message.find("]: ").and_then(|end| message[..end].rfind('['));
    &message[..start.unwrap_or(message.len())]
}
