//! The files of the network renderers, loaded by their readers: netplan, ifupdown, networkd and NetworkManager of Debian; netplan
//! also loads the network of each cloud of `tests/clouds`. The reader must reject what a case's file `refused` names, because its input demands it, and accept everything else.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use tests::{Machine, binaries, fail, script, suite, tests_dir};

#[test]
fn network_services_accept_rendered_files() {
    accept(&suite());
}

#[test]
#[ignore = "older and newer releases: make slow"]
fn network_services_of_other_releases_accept_rendered_files() {
    ["bookworm", "sid"].iter().for_each(|suite| accept(suite));
}

/// Writes the network of each cloud for netplan, below a directory for the cloud.
fn write_networks_of_clouds(top: &Path) {
    for cloud in fs::read_dir(tests_dir().join("clouds")).into_iter().flatten().flatten() {
        let network = cloud.path().join("upstream/network-config.json");
        if fs::read_to_string(&network).is_ok_and(|text| text != "null\n") {
            let expected = top.join(cloud.file_name()).join("expected/netplan");
            let mut convert = Command::new(binaries().join("cloud-init"));
            convert.args(["devel", "net-convert", "-k", "yaml", "-D", "ubuntu", "-O", "netplan", "-p"]);
            let made = convert.arg(&network).arg("-d").arg(&expected).output();
            assert!(made.as_ref().is_ok_and(|made| made.status.success()), "{}: {made:?}", network.display());
        }
    }
}

fn accept(suite: &str) {
    let cases = tests_dir().join("../shared/netconfig/tests/cases");
    let root = script("root", &[suite, "ifupdown", "network-manager", "netplan.io"]);
    let machine = Machine::from_root(&format!("network-files-{suite}"), &root);
    machine.put(&cases, "/srv/cases");
    machine.put(&tests_dir().join("guest"), "/srv/guest");
    let clouds = scratch::TempDir::new();
    write_networks_of_clouds(&clouds);
    machine.put(&clouds, "/srv/clouds");
    let of_clouds = machine.run(&["bash", "/srv/guest/network-consumers", "/srv/clouds", "netplan"]);
    let accepted = of_clouds.lines().filter(|line| line.ends_with(" netplan accepted")).count();
    assert!(accepted > 70 && accepted == of_clouds.lines().count(), "{suite}: {of_clouds}");
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
