//! The golden cases: the input in each directory as the files of each renderer, compared completely. `tests/compare`
//! compares the same directories with a packaged cloud-init.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::{convert, convert_for};
use netconfig::Facts;
use netconfig::render::OUTPUT_KINDS;

/// Path below the directory → mode and content.
type Tree = BTreeMap<String, (u32, String)>;

fn expected(top: &Path, below: &Path, tree: &mut Tree) {
    let Ok(entries) = fs::read_dir(top.join(below)) else { return };
    for entry in entries {
        let path = below.join(entry.unwrap().file_name());
        let host = top.join(&path);
        if host.is_dir() {
            expected(top, &path, tree);
        } else {
            // Git stores no modes but the executable bit, so they come from the renderers.
            let name = path.to_string_lossy();
            let profile = name.ends_with(".nmconnection") || name.ends_with("addr-gen-mode.conf");
            let mode = if profile || name.ends_with("50-cloud-init.yaml") { 0o600 } else { 0o644 };
            tree.insert(format!("/{}", path.display()), (mode, fs::read_to_string(host).unwrap()));
        }
    }
}

/// Returns the format of an input by its name.
const INPUTS: [(&str, &str); 5] = [
    ("input.yaml", "yaml"),
    ("network_data.json", "network_data.json"),
    ("input.eni", "eni"),
    ("imds.json", "azure-imds"),
    ("input.cfg", "vmware-imc"),
];

#[test]
fn rendered_files_are_the_golden_ones() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let folder = tests.join("cases");
    let outputs = fs::read_to_string(tests.join("outputs")).unwrap();
    let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    let mut compared = 0;
    for case in &names {
        let nics = fs::read_to_string(case.join("nics")).unwrap_or_default();
        let facts = netconfig::Facts::from_pairs(nics.lines().filter_map(|l| l.split_once(' ')));
        let (input, format) = INPUTS
            .iter()
            .map(|(name, format)| (case.join(name), *format))
            .find(|(path, _)| path.exists())
            .unwrap_or_else(|| panic!("{}: no input", case.display()));
        let text = fs::read_to_string(&input).unwrap();
        for output in outputs.lines() {
            let [label, renderer, distro] = output.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{output}")
            };
            let what = format!("{} as {label}", case.file_name().unwrap().display());
            let mut target = netconfig::Target::for_distro(distro);
            // Existing files on the machine.
            let before = |path: &str| fs::read_to_string(case.join("before").join(path)).ok();
            target.resolv_conf = before("etc/resolv.conf");
            target.sysconfig_network = before("etc/sysconfig/network");
            let converted = convert_for(format, "input", &text, (renderer, &target), &facts)
                .unwrap_or_else(|e| panic!("{what}: {e}"));
            let mut found = Tree::new();
            expected(&case.join("before"), Path::new(""), &mut found);
            found.extend(converted.files.into_iter().map(|f| (f.path, (f.mode, f.content))));
            let mut wanted = Tree::new();
            let recorded = case.join("expected").join(label);
            expected(&recorded, Path::new(""), &mut wanted);
            assert!(
                recorded.is_dir() || found.is_empty(),
                "{what}: not recorded: run tests/compare with WRITE=1"
            );
            assert_eq!(found, wanted, "{what}");
            compared += 1;
        }
    }
    assert!(compared >= 300, "only {compared} comparisons: where are the cases?");
}

/// A renderer without golden cases cannot be changed safely: its row needs a line in `outputs`.
#[test]
fn every_renderer_has_golden_cases() {
    let outputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outputs");
    let outputs = fs::read_to_string(outputs).unwrap();
    let tested: Vec<&str> = outputs.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    for name in OUTPUT_KINDS {
        assert!(tested.contains(name), "{name} has no line in tests/outputs");
    }
    assert!(tested.iter().all(|name| OUTPUT_KINDS.contains(name)), "{tested:?}");
}

/// Inputs without any usable configuration: an error with the position, and no file. The remaining parts would cut off the
/// machine, or nothing certain is left.
#[test]
fn unusable_inputs_are_rejected_with_their_position() {
    let facts = Facts::default();
    for (input, message) in [
        ("version: 3\nconfig: []\n", "input:1:10: network.version: expected 1 or 2, found an integer"),
        ("version: '3'\nconfig: []\n", "input:1:10: network.version: expected 1 or 2, found a string"),
        ("version: two\n", "input:1:10: network.version: expected 1 or 2, found a string"),
        ("ethernets: {}\n", "network.version: expected 1 or 2"),
        ("just text\n", "expected a map"),
        ("", "expected a map"),
        ("- 1\n", "network: expected a map with 'version', found a list"),
        ("version: 1\n", "network.config: expected a list of entries, found nothing"),
        (
            "version: 1\nconfig:\n- {type: phisical, name: eth0}\n",
            "input:3:10: network.config[0].type: expected",
        ),
        ("version: 1\nconfig: none\n", "expected a list"),
        ("version: 2\nethernets: [eth0]\n", "network.ethernets: expected a map of devices"),
        ("version: 2\nethernets: {../../x: {}}\n", "invalid name (a slash"),
        (
            "version: 2\nethernets: {e: {addresses: [10.0.0.1/33]}}\n",
            "input:2:29: network.ethernets.e.addresses[0]",
        ),
        (
            "version: 1\nconfig:\n- {type: nameserver, address: 1.1.1.1, interface: eth9}\n",
            "no such interface",
        ),
        (
            "version: 1\nconfig: [{type: route, destination: 10.0.0.0, netmask: 255.0.0.255, gateway: 10.0.0.1}]\n",
            "a contiguous netmask",
        ),
        (
            "version: 1\nconfig:\n- type: physical\n  name: eth0\n  subnets:\n  - {type: static, address: 10.0.0.1, netmask: 255.0.255.0}\n",
            "network.config[0].subnets[0].address: expected a contiguous netmask",
        ),
        (
            "version: 2\nethernets:\n  eth0:\n    addresses: [10.0.0.300/24]\n",
            "input:4:17: network.ethernets.eth0.addresses[0]: expected an IP address",
        ),
        (
            "version: 2\nethernets: {e: {dhcp4: true, dhcp4domain: 'true', dhcp4-overrides: {use-domains: true}}}\n",
            "use-domains",
        ),
    ] {
        let result = convert("yaml", "input", input, ("networkd", "debian"), &facts);
        let error = result.err().unwrap_or_else(|| panic!("accepted: {input}"));
        assert!(error.contains(message), "{error}");
        assert!(!error.contains("10.0.0.300") && !error.contains("phisical"), "shows the value: {error}");
    }
    let link = r#"{"links":[{"id":"a","type":"phy","ethernet_mac_address":"52:54:00:00:00:01"}]}"#;
    let error = convert("network_data.json", "x", link, ("networkd", "debian"), &facts).err().unwrap();
    assert!(error.contains("links[0].ethernet_mac_address: no NIC has this MAC address"), "{error}");
    let foreign = convert("yaml", "x", "version: 2\n", ("netplan", "fedora"), &facts).err().unwrap();
    assert!(foreign.contains("no netplan settings"), "{foreign}");
}

/// Invalid parts that leave something to render are reported with their positions.
#[test]
fn invalid_parts_are_reported_with_their_position() {
    let input = "version: 2\nethernets:\n  eth0:\n    dhcp4: true\n    adresses: [10.0.0.1/8]\n    match: {mac: x}\nvrfs: {}\n";
    for (renderer, supported) in [("networkd", false), ("netplan", true)] {
        let converted = convert("yaml", "seed", input, (renderer, "debian"), &Facts::default()).unwrap();
        let messages: Vec<String> = converted.findings.iter().map(ToString::to_string).collect();
        let all = [
            "seed:7:1: network.vrfs: supported by netplan only; ignored",
            "seed:5:5: network.ethernets.eth0.adresses: unknown key; did you mean 'addresses'?",
            "seed:6:13: network.ethernets.eth0.match.mac: unknown key",
        ];
        assert_eq!(messages, all[usize::from(supported)..], "{renderer}");
        assert_eq!(converted.files.len(), 1);
        // netplan gets version 2 unchanged, so that its new keys work.
        assert_eq!(converted.files[0].content.contains("adresses:"), supported, "{renderer}");
    }
}

/// Keys that a format cannot express: each renderer with the same two configurations, position and key.
#[test]
fn unsupported_keys_are_reported_by_each_renderer() {
    const V2: &str = "\
version: 2
ethernets:
  eth0:
    match: {name: en*, driver: d}
    wakeonlan: true
    accept-ra: false
    optional: true
    dhcp4: true
    dhcp4-overrides: {use-dns: false}
    nameservers: {addresses: [1.1.1.1]}
    routes: [{to: 10.0.0.0/8, via: 10.0.0.1, table: 5, mtu: 9, on-link: true}]
    routing-policy: [{from: 10.0.0.0/8, table: 5}]
bonds:
  b: {interfaces: [eth0], addresses: ['::1/64'], gateway6: fe80::1, macaddress: '52:54:00:00:00:01', parameters: {learn-packet-interval: 3}}
";
    const V1: &str = "\
version: 1
config:
- {type: physical, name: eth0, keep_configuration: true, mtu: 9000, subnets: [{type: static, address: 10.0.0.2/8, mtu: 1400, scope: link, control: manual, metric: 3}]}
- {type: bridge, name: br0, bridge_interfaces: [eth0], mtu: 9, params: {bridge_fd: 3, bridge_waitport: [eth0 1]}}
- {type: bond, name: b, bond_interfaces: [eth1], params: {bond-xmit_hash_policy: layer2, bond-unheard: 1}}
- {type: route, destination: 10.0.0.0/8, gateway: 10.0.0.1}
- {type: nameserver, address: '::1'}
";
    const LOOPBACK_V1: &str = "\
version: 1
config:
- {type: loopback, name: lo, subnets: [{type: static, address: 192.0.2.1/32}]}
- {type: physical, name: eth0, subnets: [{type: dhcp4}]}
";
    const LOOPBACK_V2: &str = "{version: 2, ethernets: {lo: {addresses: [192.0.2.1/32]}, eth0: {dhcp4: on}}}";
    // Those with `!` are warnings at boot.
    const OF_BOTH: &str = "7:15 eth0.optional|14:138 b.parameters.learn-packet-interval";
    const LEARN: &str = "14:138 b.parameters.learn-packet-interval";
    const KEEP: &str = "3:52 eth0.keep_configuration";
    const MTU: &str = "3:63 eth0.mtu";
    const CONTROL: &str = "3:148 eth0.subnets.control";
    const SCOPE: &str = "3:133 eth0.subnets.scope";
    const FD: &str = "4:84 br0.params.bridge_fd";
    const OTHERS: &str = "4:104 br0.params.bridge_waitport|5:104 b.params.bond-unheard";
    let mut tested = Vec::new();
    for (input, renderer, distro, wanted) in [
        (V2, "netplan", "debian", &[][..]),
        (V2, "networkd", "debian", &["5:16 eth0.wakeonlan"]),
        (V2, "network-manager", "debian", &["7:15 eth0.optional"]),
        (V2, "sysconfig", "rhel", &[OF_BOTH]),
        (V2, "sysconfig", "sles", &[OF_BOTH]),
        (V2, "eni", "debian", &["!9:32 eth0.dhcp4-overrides.use-dns", LEARN]),
        (V1, "netplan", "debian", &[MTU, CONTROL, SCOPE, OTHERS]),
        (V1, "networkd", "debian", &[CONTROL, SCOPE, OTHERS]),
        (V1, "network-manager", "debian", &[KEEP, MTU, CONTROL, SCOPE, OTHERS]),
        (V1, "sysconfig", "rhel", &[KEEP, MTU, SCOPE, FD, OTHERS]),
        (V1, "sysconfig", "sles", &[KEEP, MTU, OTHERS]),
        (V1, "eni", "debian", &[MTU]),
        (LOOPBACK_V1, "netplan", "debian", &["!3:64 lo.subnets.address"]),
        (LOOPBACK_V1, "network-manager", "debian", &["!3:64 lo.subnets.address"]),
        (LOOPBACK_V1, "sysconfig", "sles", &["!3:64 lo.subnets.address"]),
        (LOOPBACK_V1, "eni", "debian", &[]),
        (LOOPBACK_V2, "network-manager", "debian", &["!1:42 lo.addresses"]),
        (LOOPBACK_V2, "sysconfig", "rhel", &["!1:42 lo.addresses"]),
        (LOOPBACK_V2, "sysconfig", "sles", &[]),
        (LOOPBACK_V2, "networkd", "debian", &[]),
    ] {
        let converted = convert("yaml", "x", input, (renderer, distro), &Facts::default()).unwrap();
        let shown = |mark, f: &config::Finding| format!("{mark}{}:{} {}", f.at.line, f.at.column, f.key);
        let essential = converted.findings.iter().filter(|f| f.message.contains("not supported by"));
        let found: Vec<String> = essential
            .map(|f| shown("!", f))
            .chain(converted.unsupported.iter().map(|f| shown("", f)))
            .collect();
        assert_eq!(found.join("|"), wanted.join("|"), "{renderer} {distro}");
        tested.push(renderer);
    }
    for name in OUTPUT_KINDS {
        assert!(tested.contains(name), "{name} has no row with the configurations V1 and V2");
    }
}

/// netplan would reject the whole file.
#[test]
fn invalid_parts_are_not_passed_through() {
    for (given, expected) in [
        (
            "ethernets: {e: {dhcp4: true, addresses: [auto, 10.0.0.300/24, 10.0.0.5/8], mtu: 7}}",
            "ethernets: {e: {addresses: [10.0.0.5/8], dhcp4: true}}",
        ),
        (
            "ethernets: {e: {dhcp4: true, match: {macaddress: x}, set-name: f, gateway6: 10.0.0.1}}",
            "ethernets: {e: {dhcp4: true}}",
        ),
        (
            "ethernets: {e: {dhcp4: true, match: {macaddress: x, name: 'en*'}, mtu: 7}}",
            "ethernets: {e: {dhcp4: true}}",
        ),
        (
            "ethernets: {e: {dhcp4: true, routes: [{to: 10.0.0.0/8, via: x}, {to: 10.0.0.0/8, via: 10.0.0.1}]}}",
            "ethernets: {e: {dhcp4: true, routes: [{to: 10.0.0.0/8, via: 10.0.0.1}]}}",
        ),
        (
            "bonds: {b: {dhcp4: true, interfaces: [e, w], parameters: {mode: [1]}}}, wifis: {w: {mtu: x, addresses: [1.1.1.1111/8, 10.0.0.5/8]}},\
             vrfs: {v: {table: x, interfaces: []}, w: {table: 5, routes: [{to: default, via: 10.0.0.1}, {to: default, via: x}]}}",
            "bonds: {b: {dhcp4: true, interfaces: [e, w], parameters: {}}}, ethernets: {e: {}}, wifis: {w: {addresses: [10.0.0.5/8]}},\
             vrfs: {w: {table: 5, routes: [{to: default, via: 10.0.0.1}]}}",
        ),
        (
            "bonds: {b: {dhcp4: true, interfaces: [], mtu: 7, parameters: {mode: 1}}, c: {interfaces: [], parameters: {mode: '4'}}}",
            "bonds: {b: {dhcp4: true, interfaces: [], parameters: {mode: active-backup}}, c: {interfaces: [], parameters: {mode: 802.3ad}}}",
        ),
        (
            "ethernets: {e: {activation-mode: off}, f: {mtu: 7, macaddress: -1}}",
            "ethernets: {e: {activation-mode: 'off'}, f: {}}",
        ),
        (
            "ethernets: {e: {addresses: [10.0.0.5/32], gateway4: 10.0.0.1, mtu: 7}}",
            "ethernets: {e: {addresses: [10.0.0.5/32], routes: [{to: 0.0.0.0/0, via: 10.0.0.1, on-link: true}]}}",
        ),
        (
            "ethernets: {e: {dhcp4: true}}, vlans: {v: {id: 5000, link: e}, w: {id: 5, link: f}}",
            "ethernets: {e: {dhcp4: true}, f: {}}, vlans: {w: {id: 5, link: f}}",
        ),
        (
            "ethernets: {e: {addresses: 10.0.0.5/8, nameservers: {addresses: 1.1.1.1 9.9.9.9, search: a.b}, mtu: 7}}",
            "ethernets: {e: {addresses: [10.0.0.5/8], nameservers: {addresses: [1.1.1.1, 9.9.9.9], search: [a.b]}}}",
        ),
        (
            "ethernets: {e: {dhcp4: true, wakeonlan: often, activation-mode: later, routing-policy: [{from: x}, {to: 10.0.0.1, table: 7}]}}",
            "ethernets: {e: {dhcp4: true, routing-policy: [{to: 10.0.0.1, table: 7}]}}",
        ),
        // Two families with different settings, which netplan rejects for networkd.
        (
            "ethernets: {e: {dhcp4: true, dhcp6: true, dhcp4-overrides: {use-dns: false}, dhcp6-overrides: {route-metric: 5}}}",
            "ethernets: {e: {dhcp4: true, dhcp6: true, dhcp4-overrides: {use-dns: false, route-metric: 5}, dhcp6-overrides: {use-dns: false, route-metric: 5}}}",
        ),
        (
            "ethernets: {e: {dhcp4: true, nameservers: {addresses: 'bad 8.8.8.8'}}}",
            "ethernets: {e: {dhcp4: true, nameservers: {addresses: [8.8.8.8]}}}",
        ),
    ] {
        let network = |sections: &str| format!("network: {{{sections}, version: 2}}");
        let converted =
            convert("yaml", "x", &network(given), ("netplan", "ubuntu"), &Facts::default()).unwrap();
        let parsed = |text: &str| config::yaml::parse("y", text).unwrap().root.to_json();
        assert_eq!(parsed(&converted.files[0].content), parsed(&network(expected)), "{given}");
        assert!(!converted.findings.is_empty(), "{given}");
    }
}

/// netplan rejects a file with one value of another type, so values that have a meaning are written as netplan writes them.
#[test]
fn values_are_written_in_the_types_of_netplan() {
    for (given, expected) in [
        (
            "dhcp4: '1', accept-ra: 1, optional: 'Yes ', dhcp6: null, gateway4: '', mtu: 1400",
            "dhcp4: true, accept-ra: true, optional: 'Yes', mtu: 1400",
        ),
        (
            "addresses: [10.0.0.5, fd00::5, 10.0.0.6/255.0.0.0], routes: null",
            "addresses: [10.0.0.5/24, 'fd00::5/64', 10.0.0.6/8]",
        ),
        (
            "dhcp4: true, routes: [{to: 10.1.0.0/16, via: 0.0.0.0}, {to: default, scope: link, table: local}]",
            "dhcp4: true, routes: [{to: 10.1.0.0/16, scope: link}, {to: 0.0.0.0/0, scope: link, table: '255'}]",
        ),
        (
            "dhcp4: true, routing-policy: [{table: main, mark: '0x10'}]",
            "dhcp4: true, routing-policy: [{table: '254', mark: 16, from: 0.0.0.0/0}]",
        ),
        ("dhcp4: true, set-name: e", "dhcp4: true"),
        // networkd ignores the file of an empty match.
        ("dhcp4: true, match: {}", "dhcp4: true, match: {name: '*'}"),
        ("dhcp4: true, set-name: lan", "dhcp4: true, match: {name: e}, set-name: lan"),
        // NetworkManager's own settings are not changed.
        (
            "dhcp4: true, networkmanager: {passthrough: {ipv4.addresses: 1.1.1.1 2.2.2.2, search: a b, x: null}}",
            "dhcp4: true, networkmanager: {passthrough: {ipv4.addresses: 1.1.1.1 2.2.2.2, search: a b, x: null}}",
        ),
    ] {
        let network = |device: &str, version: &str| {
            format!("network: {{ethernets: {{e: {{{device}}}}}, version: {version}}}")
        };
        let converted =
            convert("yaml", "x", &network(given, "'+2'"), ("netplan", "ubuntu"), &Facts::default()).unwrap();
        let parsed = |text: &str| config::yaml::parse("y", text).unwrap().root.to_json();
        assert_eq!(parsed(&converted.files[0].content), parsed(&network(expected, "2")), "{given}");
    }
}

/// netplan rejects DHCP settings of two families that differ, also those of a wireless device, which only netplan reads.
#[test]
fn dhcp_settings_are_the_same_for_both_families_of_netplan() {
    let device = "{dhcp4: true, dhcp6: true, dhcp4-overrides: {use-dns: false}";
    let unified = "dhcp6-overrides: {use-dns: false}}";
    for (section, is_changed) in
        [("ethernets", true), ("wifis", true), ("renderer: NetworkManager, wifis", false)]
    {
        let network = |device: &str| format!("network: {{version: 2, {section}: {{e: {device}}}}}");
        let converted =
            convert("yaml", "x", &network(&format!("{device}}}")), ("netplan", "ubuntu"), &Facts::default());
        let converted = converted.unwrap();
        let parsed = |text: &str| config::yaml::parse("y", text).unwrap().root.to_json();
        let expected = if is_changed { format!("{device}, {unified}") } else { format!("{device}}}") };
        assert_eq!(parsed(&converted.files[0].content), parsed(&network(&expected)), "{section}");
        let findings: Vec<String> = converted.findings.iter().map(ToString::to_string).collect();
        assert_eq!(findings.iter().any(|f| f.contains("for both")), is_changed, "{findings:?}");
    }
}

/// netplan, and networkd for a NIC that gets another address, compare permanent addresses only, which a NIC of a container and one with a random address do not have.
#[test]
fn a_temporary_mac_is_matched_by_name() {
    let nic = netconfig::parse::NicFacts {
        name: "eth1".into(),
        mac: "52:54:00:00:00:01".into(),
        temporary_mac: true,
        ..Default::default()
    };
    let facts = Facts { nics: vec![nic], ..Facts::default() };
    for (input, expected) in [
        (
            "{version: 2, ethernets: {eth1: {match: {macaddress: '52:54:00:00:00:01'}, set-name: eth1, dhcp4: true}}}",
            "eth1: {dhcp4: true}",
        ),
        (
            "{version: 2, ethernets: {a: {match: {macaddress: '52-54-00-00-00-01'}, dhcp4: true}}}",
            "a: {match: {name: eth1}, dhcp4: true}",
        ),
        (
            "{version: 1, config: [{type: physical, name: eth1, mac_address: '52:54:00:00:00:01', subnets: [{type: dhcp}]}]}",
            "eth1: {dhcp4: true}",
        ),
    ] {
        let converted = convert("yaml", "x", input, ("netplan", "ubuntu"), &facts).unwrap();
        let parsed = |text: &str| config::yaml::parse("y", text).unwrap().root.to_json();
        let expected = format!("network: {{version: 2, ethernets: {{{expected}}}}}");
        assert_eq!(parsed(&converted.files[0].content), parsed(&expected), "{input}");
    }
    let input = "{version: 2, ethernets: {a: {match: {macaddress: '52:54:00:00:00:01'}, macaddress: '52:54:00:00:00:02', dhcp4: true}}}";
    let unit = convert("yaml", "x", input, ("networkd", "debian"), &facts).unwrap().files.remove(0);
    assert!(unit.content.contains("[Match]\nName=eth1\n\n"), "{}", unit.content);
}

fn rendered(input: &str, renderer: &str, distro: &str) -> (String, Vec<String>) {
    let converted = convert("yaml", "x", input, (renderer, distro), &Facts::default()).unwrap();
    let files: Vec<String> =
        converted.files.iter().map(|file| format!("{}\n{}", file.path, file.content)).collect();
    (files.join("\n"), converted.findings.iter().map(ToString::to_string).collect())
}

/// YAML 1.1 reads a MAC address of decimal digits without quotes as a number in base 60.
#[test]
fn a_mac_without_quotes_is_restored() {
    for (input, renderer, expected) in [
        (
            "version: 1, config: [{type: physical, name: e, mac_address: 52:54:00:12:34:56, subnets: [{type: dhcp}]}]",
            "networkd",
            "\nMACAddress=52:54:00:12:34:56\n",
        ),
        (
            "version: 2, ethernets: {e: {match: {macaddress: 52:54:00:12:34:56}, dhcp4: true}}",
            "netplan",
            "macaddress: '52:54:00:12:34:56'\n",
        ),
    ] {
        let (files, findings) = rendered(&format!("{{{input}}}"), renderer, "debian");
        assert!(files.contains(expected), "{files}");
        assert!(findings.len() == 1 && findings[0].contains("quote it"), "{findings:?}");
    }
}

#[test]
fn networkd_writes_gateway_metrics_and_bridges_without_ports() {
    let input = "version: 1\nconfig:\n- {type: physical, name: e, subnets: [{type: static, address: 10.0.0.5/24, gateway: 10.0.0.1, metric: 7}]}\n\
                 - {type: bridge, name: b, bridge_interfaces: [], subnets: [{type: static, address: 10.1.0.5/24}]}\n";
    let (files, _) = rendered(input, "networkd", "debian");
    assert!(files.contains("Gateway=10.0.0.1\nMetric=7\n"), "{files}");
    assert_eq!(files.matches("ConfigureWithoutCarrier=yes").count(), 1, "{files}");
    let input = "{version: 2, bridges: {b: {dhcp4: true, interfaces: [], optional: true}}}";
    let (files, _) = rendered(input, "networkd", "debian");
    assert!(files.contains("[Match]\nName=b\n") && files.contains("RequiredForOnline=no\n"), "{files}");
}

/// NetworkManager's metric of a family is that of every route without its own, and ifcfg files have one gateway.
#[test]
fn metrics_of_further_default_routes_are_their_own() {
    for (first, metrics, in_ifcfg) in [
        (
            "routes: [{to: 0.0.0.0/0, via: 10.0.0.1}, ",
            "route1=0.0.0.0/0,10.0.0.1\nroute2=0.0.0.0/0,10.0.0.2,500\n",
            "GATEWAY=10.0.0.1\n",
        ),
        (
            "gateway4: 10.0.0.1, routes: [",
            "gateway=10.0.0.1\nroute1=0.0.0.0/0,10.0.0.2,500\n",
            "GATEWAY=10.0.0.1\n",
        ),
        (
            "routes: [",
            "route-metric=500\nroute1=0.0.0.0/0,10.0.0.2\n",
            "GATEWAY=10.0.0.2\nIPADDR=10.0.0.5\nIPV4_ROUTE_METRIC=500\n",
        ),
    ] {
        let input = format!(
            "version: 2\nethernets: {{e: {{addresses: [10.0.0.5/24], {first}{{to: default, via: 10.0.0.2, metric: 500}}]}}}}\n"
        );
        let (files, _) = rendered(&input, "network-manager", "debian");
        assert!(files.contains(metrics), "{files}");
        let (files, _) = rendered(&input, "sysconfig", "rhel");
        assert!(files.contains(in_ifcfg), "{files}");
        let is_further = in_ifcfg.contains("10.0.0.1");
        let further = "ADDRESS0=0.0.0.0\nGATEWAY0=10.0.0.2\nNETMASK0=0.0.0.0\nMETRIC0=500\n";
        assert_eq!(files.contains(further), is_further, "{files}");
    }
}

/// ifenslave reads ARP targets as words, networkd has a key in the file of the active member, and netplan the MTU of IPv6 beside DHCP.
#[test]
fn options_are_written_as_services_read_them() {
    let bond = "version: 1\nconfig:\n- {type: bond, name: b, bond_interfaces: [e, f], params: {bond-mode: 1, bond-active_slave: f, \
                bond-arp-interval: 9, bond-arp-ip-target: '10.0.0.1,10.0.0.2', bond-lp-interval: 3, bond-resend-igmp: 2}, subnets: [{type: dhcp}]}\n";
    let dhcp = "version: 1\nconfig: [{type: physical, name: e, subnets: [{type: dhcp4, metric: 40, mtu: 1400, \
                routes: [{network: 10.9.0.0/16, gateway: 10.0.0.2}]}, {type: dhcp6, mtu: 1300}]}]\n";
    for (input, renderer, expected) in [
        (bond, "eni", "bond-arp-ip-target 10.0.0.1 10.0.0.2\n"),
        (bond, "networkd", "[Network]\nActiveSlave=yes\nBond=b\n"),
        (bond, "networkd", "LearnPacketIntervalSec=3\nMode=active-backup\nResendIGMP=2\n"),
        (
            bond,
            "netplan",
            "learn-packet-interval: 3\n                mode: active-backup\n                resend-igmp: 2\n",
        ),
        // The metric of a lease is not that of other routes.
        (
            dhcp,
            "netplan",
            "ipv6-mtu: 1300\n            mtu: 1400\n            routes:\n            -   to: 10.9.0.0/16\n",
        ),
    ] {
        let (files, _) = rendered(input, renderer, "debian");
        assert!(files.contains(expected), "{renderer}: {files}");
    }
}

/// ifup fails for a NIC whose gateway another has by DHCP.
#[test]
fn eni_prefers_fixed_gateways_to_those_of_leases() {
    for (input, metrics) in [
        (
            "a: {dhcp4: true}, b: {addresses: [10.0.0.5/24], gateway4: 10.0.0.1}, c: {dhcp4: true}",
            &["metric 2000"][..],
        ),
        (
            "a: {dhcp4: true}, b: {addresses: [10.0.0.5/24], routes: [{to: default, via: 10.0.0.1}]}",
            &["metric 2000"],
        ),
        (
            "a: {dhcp4: true, dhcp4-overrides: {use-routes: false}}, b: {addresses: [10.0.0.5/24], gateway4: 10.0.0.1}",
            &[],
        ),
        (
            "a: {dhcp4: true}, b: {addresses: [10.0.0.5/24], routes: [{to: default, via: 10.0.0.1, table: 7}]}",
            &[],
        ),
        ("a: {dhcp4: true}, b: {addresses: ['fd00::5/64'], gateway6: 'fd00::1'}", &[]),
        ("a: {dhcp4: true}, b: {dhcp4: true}", &[]),
    ] {
        let (files, _) = rendered(&format!("version: 2\nethernets: {{{input}}}\n"), "eni", "debian");
        let found: Vec<&str> =
            files.lines().map(str::trim).filter(|line| line.starts_with("metric")).collect();
        assert_eq!(found, metrics, "{input}");
    }
}

/// Otherwise both default routes would have one metric.
#[test]
fn a_default_route_beside_dhcp_has_its_own_metric() {
    let v2 =
        "version: 2\nethernets: {e: {dhcp4: true, routes: [{to: default, via: 10.0.0.254, metric: 10}]}}\n";
    let v1 = |dhcp: &str| {
        format!(
            "version: 1\nconfig: [{{type: physical, name: e, subnets: [{{type: dhcp4{dhcp}}}, \
             {{type: static, address: 10.0.0.5/24, gateway: 10.0.0.254, metric: 10}}]}}]\n"
        )
    };
    for (input, metric) in [(v2.to_string(), None), (v1(""), None), (v1(", metric: 50"), Some("50"))] {
        let (files, findings) = rendered(&input, "network-manager", "debian");
        assert!(files.contains("route1=0.0.0.0/0,10.0.0.254,10\n") && !files.contains("gateway="), "{files}");
        let line = files.lines().find_map(|line| line.strip_prefix("route-metric="));
        assert_eq!((line, findings.len()), (metric, 0), "{input}: {files}");
        let (files, findings) = rendered(&input, "sysconfig", "rhel");
        let route = "ADDRESS0=0.0.0.0\nGATEWAY0=10.0.0.254\nNETMASK0=0.0.0.0\nMETRIC0=10\n";
        assert!(files.contains(route) && !files.contains("DEFAULT_ROUTE=no"), "{files}");
        let line = files.lines().find_map(|line| line.strip_prefix("IPV4_ROUTE_METRIC="));
        assert_eq!((line, findings.len()), (metric, 0), "{input}: {files}");
    }
}

/// NetworkManager rejects a profile with a time out of its range.
#[test]
fn network_manager_writes_the_times_of_bridges() {
    let input = "version: 2\nbridges: {b: {dhcp4: true, interfaces: [], parameters: {forward-delay: 4, max-age: '20', hello-time: 90, ageing-time: 2s}}}\n";
    let (files, _) = rendered(input, "network-manager", "debian");
    assert!(files.contains("[bridge]\nageing-time=2\nforward-delay=4\nmax-age=20\n\n"), "{files}");
}

#[test]
fn quoted_booleans_are_booleans() {
    for (value, dhcp) in [("'no'", "no"), ("'0'", "no"), ("off", "no"), ("'yes'", "ipv4"), ("1", "ipv4")] {
        let (files, _) = rendered(
            &format!("version: 2\nethernets: {{e: {{addresses: [10.0.0.5/24], dhcp4: {value}}}}}\n"),
            "networkd",
            "debian",
        );
        assert!(files.contains(&format!("DHCP={dhcp}\n")), "{value}: {files}");
    }
}

/// A route by 0.0.0.0 is on the link, as route(8) prints it and OpenStack and others write it; no service takes that gateway.
#[test]
fn routes_without_a_next_hop_are_on_the_link() {
    let input = "version: 1\nconfig:\n- type: physical\n  name: e\n  subnets:\n  - type: static\n    address: 192.0.2.5/32\n    \
                 routes: [{network: 172.31.1.1, netmask: 255.255.255.255, gateway: 0.0.0.0}, {destination: 0.0.0.0/0, gateway: 172.31.1.1}]\n";
    for (renderer, distro, expected) in [
        ("networkd", "debian", "[Route]\nDestination=172.31.1.1/32\nScope=link\n"),
        ("network-manager", "debian", "route1=172.31.1.1/32\nroute1_options=scope=253\n"),
        ("eni", "debian", "post-up ip route add 172.31.1.1/32 dev $IFACE scope link || true\n"),
        ("netplan", "debian", "scope: link\n                to: 172.31.1.1/32\n"),
        ("sysconfig", "rhel", "172.31.1.1/32  dev e scope link\n"),
        ("sysconfig", "opensuse", "172.31.1.1/32 - - e scope link\n"),
    ] {
        let (files, findings) = rendered(input, renderer, distro);
        assert!(files.contains(expected) && !files.contains("via 0.0.0.0"), "{renderer}, {distro}: {files}");
        assert!(findings.is_empty(), "{renderer}, {distro}: {findings:?}");
    }
    let input = "{version: 2, ethernets: {e: {dhcp4: true, routes: [{to: 'fd00::/16', via: '::'}]}}}";
    let (files, _) = rendered(input, "networkd", "debian");
    assert!(files.contains("Destination=fd00::/16\n") && !files.contains("Gateway"), "{files}");
}

/// Only the server that gives the addresses knows which of its routers reach the gateway.
#[test]
fn routes_of_no_link_are_on_the_first_with_dhcp_or_advertisements() {
    let input = "version: 1\nconfig:\n- {type: physical, name: a, subnets: [{type: static, address: 10.0.0.2/24}]}\n\
                 - {type: physical, name: b, subnets: [{type: dhcp4}]}\n- {type: physical, name: c, subnets: [{type: ipv6_slaac}]}\n\
                 - {type: route, destination: 203.0.113.0/24, gateway: 198.51.100.9}\n\
                 - {type: route, destination: '2001:db8:9::/48', gateway: '2001:db8::9'}\n";
    let (files, _) = rendered(input, "networkd", "debian");
    let files: Vec<&str> = files.split("/etc/systemd/network/10-cloud-init-").collect();
    for (nic, to) in [("b.network", "=203.0.113.0/24\n"), ("c.network", "=2001:db8:9::/48\n")] {
        let with: Vec<_> = files.iter().filter(|file| file.contains(to)).collect();
        assert!(with.len() == 1 && with[0].starts_with(nic), "{to}: {with:?}");
    }
}

/// NetworkManager rejects the bond, and reads rules of ifcfg files from another file than the network scripts.
#[test]
fn sysconfig_writes_what_its_services_read() {
    let input = "{version: 2, bonds: {b: {interfaces: [], dhcp4: true, parameters: {mode: active-backup, lacp-rate: fast}}}}";
    let (files, findings) = rendered(input, "sysconfig", "rhel");
    assert!(!files.contains("lacp_rate"), "{files}");
    assert!(
        findings.iter().any(|f| f.contains("lacp_rate conflicts with other bond options")),
        "{findings:?}"
    );
    let target = netconfig::Target { has_network_scripts: true, ..netconfig::Target::for_distro("rhel") };
    let input =
        "{version: 2, ethernets: {e: {dhcp4: true, routing-policy: [{from: 192.0.2.0/24, table: 101}]}}}";
    let converted = convert_for("yaml", "x", input, ("sysconfig", &target), &Facts::default()).unwrap();
    let rules = converted.files.iter().find(|file| file.path.ends_with("/rule-e")).unwrap();
    assert!(rules.content.contains("from 192.0.2.0/24 table 101"), "{}", rules.content);
}

/// A destination without a prefix is a host, as netplan reads it; ip-route(8) rejects one with bits beyond its prefix.
#[test]
fn destinations_without_a_prefix_are_hosts() {
    for (routes, expected) in [
        ("routes: [{to: 10.6.0.7, via: 10.0.0.1}]", "Destination=10.6.0.7/32\n"),
        ("routes: [{to: 10.6.0.0, via: 10.0.0.1}]", "Destination=10.6.0.0/32\n"),
        ("routes: [{to: 'fd01::7', via: 'fd00::1'}]", "Destination=fd01::7/128\n"),
        ("routes: [{to: 0.0.0.0, via: 10.0.0.1}]", "Destination=0.0.0.0/0\n"),
        ("routes: [{network: 10.6.0.7, gateway: 10.0.0.1}]", "Destination=10.6.0.7/32\n"),
        ("routes: [{network: 10.6.0.0, gateway: 10.0.0.1}]", "Destination=10.6.0.0/24\n"),
        ("routes: [{network: 'fd01::7', gateway: 'fd00::1'}]", "Destination=fd01::7/128\n"),
        ("routes: [{network: '::', gateway: 'fd00::1'}]", "Destination=::/0\n"),
    ] {
        let input = match routes.contains("via") {
            true => format!("version: 2\nethernets: {{e: {{dhcp4: true, {routes}}}}}\n"),
            false => format!(
                "version: 1\nconfig: [{{type: physical, name: e, subnets: [{{type: dhcp, {routes}}}]}}]\n"
            ),
        };
        let (files, _) = rendered(&input, "networkd", "debian");
        assert!(files.contains(expected), "{routes}: {files}");
    }
}

/// NetworkManager would use DHCP for a family that only a name server asks for.
#[test]
fn ipv4_name_servers_do_not_turn_on_dhcp() {
    let input = "version: 2\nethernets: {e: {addresses: ['fd00::5/64'], nameservers: {addresses: [10.0.0.1, 'fd00::53']}}}\n";
    let (files, findings) = rendered(input, "network-manager", "debian");
    assert!(files.contains("[ipv4]\nmethod=disabled\n") && files.contains("dns=fd00::53;\n"), "{files}");
    assert!(findings.len() == 1 && findings[0].contains("does not use; ignored"), "{findings:?}");
}

/// A route without its table or type would be another one: it is left out, with a warning, and the others are written.
#[test]
fn routes_that_would_be_others_are_left_out() {
    for (renderer, has_ip, key, is_written) in [
        ("networkd", true, "table: uplink", false),
        ("networkd", true, "table: local", true),
        ("network-manager", true, "table: uplink", false),
        ("network-manager", true, "type: multicast", false),
        ("network-manager", true, "type: throw", true),
        ("eni", false, "table: 7", false),
        ("eni", false, "on-link: true", false),
        ("eni", true, "table: uplink", true),
        ("eni", true, "on-link: true", true),
        ("sysconfig", true, "table: uplink", false),
        ("sysconfig", true, "table: 7", true),
    ] {
        let distro = if renderer == "sysconfig" { "rhel" } else { "debian" };
        let input = format!(
            "version: 2\nethernets: {{e: {{dhcp4: true, routes: [{{to: 10.7.0.0/16, via: 10.0.0.1, {key}}}, \
             {{to: 10.8.0.0/16, via: 10.0.0.1}}]}}}}\n"
        );
        let target = netconfig::Target { has_ip, ..netconfig::Target::for_distro(distro) };
        let converted = convert_for("yaml", "x", &input, (renderer, &target), &Facts::default()).unwrap();
        let text: String = converted.files.iter().map(|file| file.content.as_str()).collect();
        let (name, _) = key.split_once(':').unwrap();
        let finding =
            format!("e.routes.{name}: not supported by the {renderer} renderer; ignoring the route");
        assert!(text.contains("10.8.0.0"), "{renderer}, {key}: {text}");
        assert_eq!(text.contains("10.7.0.0"), is_written, "{renderer}, {key}: {text}");
        let is_reported = converted.findings.iter().any(|found| found.to_string().contains(&finding));
        assert_eq!(is_reported, !is_written, "{renderer}, {key}: {:?}", converted.findings);
    }
}

/// A NIC matches if it has one of the drivers.
#[test]
fn all_drivers_of_a_list_are_matched() {
    let with = |drivers: &str| {
        format!(
            "version: 2\nethernets: {{i: {{match: {{macaddress: '52:54:00:00:00:01', driver: {drivers}}}, set-name: eth0, dhcp4: true}}}}"
        )
    };
    for (drivers, networkd, udev) in [
        ("[virtio_net, e1000]", "Driver=virtio_net e1000\n", r#"DRIVERS=="virtio_net|e1000""#),
        ("[virtio_net]", "Driver=virtio_net\n", r#"DRIVERS=="virtio_net""#),
        ("virtio_net", "Driver=virtio_net\n", r#"DRIVERS=="virtio_net""#),
        ("[]", "[Match]\nMACAddress=52:54:00:00:00:01\nName=eth0\n", r#"DRIVERS=="?*""#),
    ] {
        for (renderer, distro, expected) in [
            ("networkd", "debian", networkd),
            ("eni", "debian", udev),
            ("sysconfig", "rhel", udev),
            ("sysconfig", "suse", udev),
        ] {
            let (files, findings) = rendered(&with(drivers), renderer, distro);
            assert!(files.contains(expected), "{renderer}, {drivers}: {files}");
            assert!(findings.is_empty(), "{renderer}, {drivers}: {findings:?}");
        }
    }
    // Each invalid name is reported, and the others are used.
    let (files, findings) = rendered(&with(r#"[a, 'b c', 'd"', 7, e]"#), "networkd", "debian");
    assert!(files.contains("Driver=a e\n"), "{files}");
    let message =
        |i: usize| format!("network.ethernets.i.match.driver[{i}]: expected a name or a pattern of names");
    assert_eq!(findings.len(), 3, "{findings:?}");
    for i in 1..4 {
        assert!(findings.iter().any(|finding| finding.contains(&message(i))), "{findings:?}");
    }
    let target = ("network-manager", "debian");
    let converted = convert("yaml", "x", &with("[a, b]"), target, &Facts::default()).unwrap();
    assert!(converted.unsupported.iter().any(|found| found.key.ends_with(".match.driver")));
}

/// 0 is an ID like any other (frames with a priority only); without an ID there is no VLAN.
#[test]
fn vlan_id_may_be_0_but_not_missing() {
    let with = |id: &str| {
        format!(
            "version: 2\nethernets: {{eth0: {{dhcp4: true}}}}\nvlans: {{tagged: {{link: eth0{id}, dhcp4: true}}}}"
        )
    };
    for (renderer, distro, expected) in [
        ("sysconfig", "suse", "VLAN_ID=0\n"),
        ("networkd", "debian", "Id=0\n"),
        ("network-manager", "debian", "id=0\n"),
        ("eni", "debian", "vlan-id 0\n"),
        ("netplan", "debian", "tagged:"),
    ] {
        let (files, findings) = rendered(&with(", id: 0"), renderer, distro);
        assert!(files.contains(expected) && findings.is_empty(), "{renderer}: {files} {findings:?}");
        if renderer == "netplan" {
            continue;
        }
        let v1 = "version: 1\nconfig: [{type: physical, name: eth0, subnets: [{type: dhcp}]}, {type: vlan, name: tagged, vlan_link: eth0, vlan_id: null}]";
        for none in [with(""), with(", id: null"), v1.to_string()] {
            let (files, findings) = rendered(&none, renderer, distro);
            assert!(!files.contains("tagged"), "{renderer}: {files}");
            assert!(findings.iter().any(|finding| finding.contains("required, but missing")), "{findings:?}");
        }
    }
}
