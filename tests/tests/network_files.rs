//! The files of the network renderers, loaded by their readers: netplan, ifupdown, networkd and NetworkManager of Debian. The
//! reader must reject what a case's file `refused` names, because its input demands it, and accept everything else.

use std::collections::BTreeMap;
use std::fs;

use tests::{Machine, fail, script, suite, tests_dir};

#[test]
fn network_services_accept_rendered_files() {
    accept(&suite());
}

#[test]
#[ignore = "older and newer releases: make slow"]
fn network_services_of_other_releases_accept_rendered_files() {
    ["bookworm", "sid"].iter().for_each(|suite| accept(suite));
}

fn accept(suite: &str) {
    let cases = tests_dir().join("../shared/netconfig/tests/cases");
    let root = script("root", &[suite, "ifupdown", "network-manager", "netplan.io"]);
    let machine = Machine::from_root(&format!("network-files-{suite}"), &root);
    machine.put(&cases, "/srv/cases");
    machine.put(&tests_dir().join("guest"), "/srv/guest");
    let printed = machine.run(&["bash", "/srv/guest/network-consumers", "/srv/cases"]);
    let mut verdicts: BTreeMap<(String, String), String> = BTreeMap::new();
    for line in printed.lines() {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        if let [case, output, verdict] = words[..] {
            verdicts.insert((case.into(), output.into()), verdict.into());
        }
    }
    let mut wrong = Vec::new();
    let mut accepted = BTreeMap::new();
    for ((case, output), verdict) in &verdicts {
        let listed = fs::read_to_string(cases.join(case).join("refused")).unwrap_or_default();
        let is_listed = |line: &str| {
            line.strip_prefix(&format!("{suite} ")).unwrap_or(line).starts_with(&format!("{output}:"))
        };
        let may = !listed.lines().any(is_listed);
        if may != (verdict == "accepted") {
            wrong.push(format!("{suite}: {case}: {output}: {verdict}"));
        }
        *accepted.entry(output.as_str()).or_insert(0) += usize::from(verdict == "accepted");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for output in ["netplan", "eni", "networkd", "network-manager"] {
        if accepted.get(output).is_none_or(|n| *n < 70) {
            fail(&format!("only {accepted:?} were accepted: did {output} run?\n{printed}"));
        }
    }
}
