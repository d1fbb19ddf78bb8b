//! Compares conversions to version 1 and 2 with those of a packaged cloud-init's functions: formats/FORMAT.yaml has the
//! cases, formats/recorded/FORMAT.json the results, which `record` wrote. An intended difference has a field `why` in the
//! case, and the result of this crate.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::HashMap;
use std::path::Path;

use config::{Findings, Node, Position};
use netconfig::parse::{Facts, Format, Include, NicFacts, eni, kernel, klibc};
use netconfig::source;

/// Returns the facts of the case about the machine.
fn facts(case: &Node) -> Facts {
    let nics = case.get("nics").or_else(|| case.get("here"));
    let nics = nics.and_then(Node::as_seq).unwrap_or_default().iter().map(|nic| {
        let text = |key: &str| nic.get(key).and_then(Node::as_str).map(String::from);
        NicFacts {
            name: text("name").unwrap(),
            mac: text("mac").unwrap(),
            driver: text("driver"),
            is_failover_master: nic.get("failover").is_some(),
            ..NicFacts::default()
        }
    });
    Facts {
        nics: nics.collect(),
        fallback: case.get("fallback").and_then(Node::as_str).map(Into::into),
        netplan: case.get("netplan").is_some(),
        initramfs: case.get("initramfs").cloned(),
        iscsi_root: case.get("iscsi").is_some(),
        ..Facts::default()
    }
}

fn files(case: &Node) -> Vec<(String, String)> {
    let files = case.get("files").and_then(Node::as_map).into_iter().flat_map(config::Map::iter);
    files.map(|(path, text)| (path.as_str().unwrap().into(), text.as_str().unwrap().into())).collect()
}

/// Reads the facts as facts.rs does on a machine, below a root of its own.
fn includes(case: &Node, text: &str) -> HashMap<Include, Vec<(String, String)>> {
    let top = scratch::TempDir::new();
    let sys = system::System::new(&top);
    for (path, text) in files(case) {
        sys.write(path, text, system::WriteOptions::default()).unwrap();
    }
    netconfig::facts::interfaces_files(&sys, text, eni::DEFAULT_DIR)
}

fn outcome(format: &str, case: &Node) -> Result<Node, String> {
    let input = case.get("input").cloned().unwrap_or_default();
    let mut findings = Findings::default();
    let mut facts = facts(case);
    let format = match format {
        "klibc" => return Ok(klibc::files_to_v1(&files(case), &facts, &mut findings)),
        "klibc-condition" => return Ok(kernel::has_network_argument(input.as_str().unwrap()).into()),
        "command-line" => {
            return source::from_command_line(input.as_str().unwrap()).unwrap_or(Ok(Node::null()));
        }
        "eni" => {
            facts.includes = includes(case, input.as_str().unwrap());
            format
        }
        "vmware-imc" if case.get("here").is_some() => "vmware-imc-here",
        other => other,
    };
    let at = Position { source: Some("interfaces".into()), line: 0, column: 0 };
    (Format::from_name(format).unwrap().to_config)(&Node { at, ..input }, &facts, &mut findings)
}

#[test]
fn formats_convert_like_upstream() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let (mut equal, mut different) = (0, 0);
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(format) = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".yaml"))
        else {
            continue;
        };
        let text = std::fs::read_to_string(&path).unwrap();
        let cases = config::yaml::parse(format, &text).unwrap().root;
        let recorded = std::fs::read_to_string(folder.join(format!("recorded/{format}.json"))).unwrap();
        let recorded: serde_json::Value = serde_json::from_str(&recorded).unwrap();
        let cases = cases.as_seq().unwrap();
        assert_eq!(cases.len(), recorded.as_object().unwrap().len(), "{format}: record the outcomes again");
        for case in cases {
            let name = case.get("name").and_then(Node::as_str).unwrap();
            let ours = outcome(format, case);
            let theirs = recorded[name].get("config");
            // An error is null, in upstream's results and in these.
            let found = ours.as_ref().map_or(serde_json::Value::Null, Node::to_json);
            let wanted = theirs.cloned().unwrap_or_default();
            if case.get("why").is_some() {
                assert_eq!(found, case.get("ours").unwrap().to_json(), "{format}: {name}: {ours:?}");
                let is_same = found == wanted && ours.is_ok() == theirs.is_some();
                assert!(!is_same, "{format}: {name}: as upstream by now");
                different += 1;
            } else {
                assert_eq!(found, wanted, "{format}: {name}: {ours:?}");
                assert_eq!(ours.is_ok(), theirs.is_some(), "{format}: {name}: {ours:?}");
                equal += 1;
            }
        }
    }
    assert!(equal > 100 && different > 10, "{equal} equal, {different} different: where are the cases?");
}
