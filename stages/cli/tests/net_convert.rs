//! Files, messages and exit codes of `devel net-convert`. Exit codes are those of Debian's cloud-init 26.2 on the same
//! command lines.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{CommandResult, Machine, split};

fn run(line: &str) -> CommandResult {
    common::run_as("cloud-init", None, &split(line))
}

/// Returns path → mode and content of every file below a directory.
fn tree(top: &Path) -> BTreeMap<String, (u32, String)> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = BTreeMap::new();
    let mut dirs = vec![top.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let mode = path.metadata().unwrap().permissions().mode() & 0o777;
                let name = path.strip_prefix(top).unwrap().display().to_string();
                found.insert(name, (mode, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

#[test]
fn net_convert_writes_files_and_reports_unsupported_keys() {
    let machine = Machine::new();
    let dir = machine.root.display().to_string();
    let input =
        "version: 2\nethernets:\n  eth0:\n    match: {name: en*}\n    dhcp4: true\n    wakeonlan: true\n";
    machine.put("in.yaml", input);
    let convert =
        |rest: &str| run(&format!("devel net-convert -p {dir}/in.yaml -k yaml -d {dir}/out {rest}"));
    let (code, out, err) = convert("-D debian -O networkd");
    assert_eq!((code, out.as_str()), (0, ""));
    // Unsupported settings are reported with their place, followed by upstream's two lines.
    assert!(err.contains("in.yaml:6:16: eth0.wakeonlan: not supported"), "{err}");
    let last = format!(
        "Read input format 'yaml' from '{dir}/in.yaml'.\nWrote output format 'networkd' to '{dir}/out/'\n\n"
    );
    assert!(err.ends_with(&last), "{err}");
    let files = tree(&machine.root.join("out"));
    let unit = "[Match]\nName=en*\nType=!loopback bridge bond vlan\n\n[Network]\nDHCP=ipv4\n".to_string();
    assert_eq!(files.len(), 1);
    assert_eq!(files["etc/systemd/network/10-cloud-init-eth0.network"], (0o644, unit));
    // Into an existing directory with a file of a stricter mode.
    machine.put("out/etc/netplan/50-cloud-init.yaml", "old");
    let netplan = machine.root.join("out/etc/netplan/50-cloud-init.yaml");
    let strict = std::os::unix::fs::PermissionsExt::from_mode(0o400);
    std::fs::set_permissions(&netplan, strict).unwrap();
    let (code, _, err) = convert("-D ubuntu --output-kind=netplan --debug");
    assert_eq!(code, 0, "{err}");
    assert!(err.starts_with("Input YAML\n---\n") && !err.contains("not supported by"), "{err}");
    let (mode, text) = &tree(&machine.root.join("out"))["etc/netplan/50-cloud-init.yaml"];
    assert!(*mode == 0o400 && text.contains("wakeonlan: true"), "{mode:o} {text}");
    machine.put("in.yaml", "network: {version: 1, config: [{type: nameserver, address: 10.0.0.53}]}\n");
    machine.put("out/etc/resolv.conf", "nameserver 192.0.2.1\n");
    assert_eq!(convert("-D rhel -O sysconfig").0, 0);
    let files = tree(&machine.root.join("out"));
    assert!(files["etc/resolv.conf"].1.ends_with("\nnameserver 192.0.2.1\nnameserver 10.0.0.53\n"));
    assert_eq!(files["etc/udev/rules.d/70-persistent-net.rules"], (0o644, String::new()));
    let lan = "{version: 2, ethernets: {lan: {match: {macaddress: '52:54:00:00:00:01'}, dhcp4: true}}}";
    machine.put("in.yaml", lan);
    for (option, name) in [("", "lan"), ("-m ens3,52:54:00:00:00:01", "ens3")] {
        let (code, _, err) = convert(&format!("-D debian -O eni {option}"));
        assert!(code == 0 && !err.contains("no effect"), "{err}");
        let files = tree(&machine.root.join("out"));
        let interfaces = &files["etc/network/interfaces.d/50-cloud-init"].1;
        assert!(interfaces.contains(&format!("iface {name} inet dhcp")), "{interfaces}");
    }
    // A converted value has no line, but it has a file.
    machine.put("interfaces", "auto eth0\niface eth0 inet dhcp\nauto b\niface b inet dhcp\n  bond-slaves eth0\n  vlan-raw-device eth0\n");
    let line = format!("devel net-convert -p {dir}/interfaces -k eni -d {dir}/out -D ubuntu -O netplan");
    let (code, _, err) = run(&line);
    assert!(code == 0 && err.contains("/interfaces: network.config[0].vlan_link: "), "{err}");
}

#[test]
fn net_convert_rejects_invalid_input() {
    let machine = Machine::new();
    let dir = machine.root.display().to_string();
    machine.put("good", "version: 1\nconfig: []\n");
    machine.put("empty", "");
    machine.put("third", "version: 3\n");
    machine.put("broken", "{[");
    machine.put("maybe", "version: 2\nethernets: {e: {dhcp4: maybe}}\n");
    machine.put("mask", "version: 1\nconfig:\n- {type: physical, name: a, subnets: [{type: static, address: 1.2.3.4/255.0.255.0}]}\n");
    for (file, rest, code, message) in [
        ("good", "-k yaml -D debian -O eni", 0, "Wrote output format 'eni'"),
        ("good", "-k yaml -D debian -O eni -m eth0", 1, "--mac: expected NAME,MAC"),
        ("good", "-k yaml -D debian -O sysconfig", 1, "no sysconfig settings for this distribution"),
        ("good", "-k yaml -D fedora -O netplan", 1, "no netplan settings"),
        ("maybe", "-k yaml -D debian -O networkd", 1, "found a string; without it no device has an address"),
        // netplan gets the value, and rejects it.
        ("maybe", "-k yaml -D debian -O netplan", 0, "found a string; without it no device has an address"),
        ("good", "-k yaml -D debian -O eni more", 2, "unrecognized arguments: more"),
        ("good", "-k xml -D debian -O eni", 2, "argument -k/--kind: invalid choice: 'xml'"),
        ("good", "-k yaml -D debian", 2, "the following arguments are required: -O/--output-kind"),
        ("none", "-k yaml -D debian -O eni", 1, "none"),
        ("empty", "-k yaml -D debian -O eni", 1, "expected a map"),
        ("third", "-k yaml -D debian -O eni", 1, "third:1:10: network.version: expected 1 or 2"),
        ("broken", "-k yaml -D debian -O eni", 1, "broken:"),
        ("mask", "-k yaml -D debian -O eni", 1, "expected a contiguous netmask"),
    ] {
        let line = format!("devel net-convert -p {dir}/{file} -d {dir}/out-{file} {rest}");
        let (found, out, err) = run(&line);
        assert_eq!((found, out.as_str()), (code, ""), "{line}: {err}");
        assert!(err.contains(message), "{line}: {err}");
        assert!(
            code == 0 || file == "good" || !machine.root.join(format!("out-{file}/etc")).exists(),
            "{line}"
        );
    }
    assert_eq!(run("devel").0, 2);
    assert_eq!(run("devel net-convert --help").0, 0);
}
