//! Renames of real links in a network namespace: the outer test starts this program again inside it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::Command;

use netconfig::{nics, rename};
use system::System;

/// Set for the inner tests, so that `--ignored` cannot rename the links of a machine.
const INSIDE: &str = "NETCONFIG_TEST_IN_NAMESPACE";

fn assert_inside() {
    assert!(std::env::var_os(INSIDE).is_some(), "only in a namespace of its own");
}

/// Runs one of the ignored tests below in a user, network and mount namespace, with its own view of sysfs.
fn inside(test: &str) {
    let program = std::env::current_exe().unwrap();
    let script = "mount -t sysfs sysfs /sys && exec \"$0\" --ignored --exact --nocapture \"$1\"";
    // Root needs no user namespace, which some machines do not allow.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    let user = if is_root { "--net" } else { "--map-root-user" };
    let output = Command::new("unshare")
        .args([user, "--net", "--mount", "sh", "-c", script])
        .arg(program)
        .arg(test)
        .env(INSIDE, "1")
        .output()
        .expect("this test needs unshare (util-linux), ip (iproute2) and leave to make namespaces");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn ip(line: &str) {
    let output = Command::new("ip").args(line.split(' ')).output().expect("ip (iproute2)");
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the name and address of every link but the loopback, sorted, with `+` if it is up.
fn links(sys: &System) -> Vec<String> {
    let mut links: Vec<String> = sys
        .links()
        .unwrap()
        .into_iter()
        .filter(|l| l.name != "lo" && l.mac.starts_with("52:54"))
        .map(|l| format!("{}{} {}", if l.up { "+" } else { "" }, l.name, &l.mac[15..]))
        .collect();
    links.sort();
    links
}

/// Creates `eth0`…: veth links with the addresses 52:54:00:00:00:00 and up; the other ends are not configurable.
fn make_links(count: usize) {
    for i in 0..count {
        ip(&format!("link add eth{i} type veth peer name far{i}"));
        ip(&format!("link set eth{i} address 52:54:00:00:00:0{i}"));
    }
}

fn rename_to(sys: &System, names: &[(&str, u8)]) -> Vec<String> {
    let desired: Vec<rename::DesiredLink> = names
        .iter()
        .map(|(name, last)| rename::DesiredLink {
            name: name.to_string(),
            mac: format!("52:54:00:00:00:0{last}"),
            ..rename::DesiredLink::default()
        })
        .collect();
    let nics = nics::read(sys);
    let counted = nics::configurable(&nics);
    let current = rename::current_links(sys, &counted).unwrap();
    rename::apply(sys, &desired, &rename::plan(&desired, &current)).1
}

#[test]
fn links_are_renamed() {
    inside("links_are_renamed_inside");
}

#[test]
#[ignore = "changes links: started by `links_are_renamed` in a namespace"]
fn links_are_renamed_inside() {
    assert_inside();
    let sys = System::new("/");
    make_links(3);
    assert_eq!(links(&sys), ["eth0 00", "eth1 01", "eth2 02"]);
    assert_eq!(rename_to(&sys, &[("wan", 0)]), [""; 0]);
    assert_eq!(links(&sys), ["eth1 01", "eth2 02", "wan 00"]);
    // A swap of two links, one of which is up: it is up again afterwards.
    ip("link set eth2 up");
    assert_eq!(rename_to(&sys, &[("eth2", 1), ("eth1", 2)]), [""; 0]);
    assert_eq!(links(&sys), ["+eth1 02", "eth2 01", "wan 00"]);
    // A cycle of three links.
    assert_eq!(rename_to(&sys, &[("eth1", 0), ("eth2", 2), ("wan", 1)]), [""; 0]);
    assert_eq!(links(&sys), ["+eth2 02", "eth1 00", "wan 01"]);
    // A link in use keeps its name, so another one cannot get it.
    ip("address add 192.0.2.1/24 dev eth2");
    let problems = rename_to(&sys, &[("lan", 2), ("eth2", 0), ("dmz", 1)]);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert_eq!(links(&sys), ["+eth2 02", "dmz 01", "eth1 00"]);
    // A name that the kernel would refuse.
    assert_eq!(rename_to(&sys, &[("a-name-beyond-15", 1)]).len(), 1);
    // A link that no configuration describes has the name.
    assert_eq!(rename_to(&sys, &[("far0", 0)]), [""; 0]);
    assert!(sys.links().unwrap().iter().any(|l| l.name == "cirename0"));
    assert_eq!(links(&sys), ["+eth2 02", "dmz 01", "far0 00"]);
}

#[test]
fn fallback_sees_real_links() {
    inside("fallback_sees_real_links_inside");
}

#[test]
#[ignore = "makes links: started by `fallback_sees_real_links` in a namespace"]
fn fallback_sees_real_links_inside() {
    assert_inside();
    let sys = System::new("/");
    make_links(2);
    ip("link set eth1 up");
    ip("link set far1 up");
    ip("link add br0 type bridge");
    let nics = nics::read(&sys);
    let config = nics::fallback_config(&nics).unwrap().to_json().to_string();
    assert!(config.contains(r#""ethernets":{"eth1""#) && config.contains("52:54:00:00:00:01"), "{config}");
    let counted: Vec<&str> = nics::configurable(&nics).iter().map(|n| n.name.as_str()).collect();
    assert_eq!(counted, ["eth0", "eth1", "far0", "far1", "lo"]);
}
