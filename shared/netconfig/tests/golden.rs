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
- {type: physical, name: eth0, keep_configuration: true, mtu: 9000, subnets: [{type: static, address: 10.0.0.2/8, mtu: 1400, scope: link, control: hotplug, metric: 3}]}
- {type: bridge, name: br0, bridge_interfaces: [eth0], mtu: 9, params: {bridge_fd: 3, bridge_waitport: [eth0 1]}}
- {type: bond, name: b, bond_interfaces: [eth1], params: {bond-xmit_hash_policy: layer2, bond-unheard: 1}}
- {type: route, destination: 10.0.0.0/8, gateway: 10.0.0.1}
- {type: nameserver, address: '::1'}
";
    let mut tested = Vec::new();
    for (input, renderer, distro, wanted) in [
        (V2, "netplan", "debian", &[][..]),
        (
            V2,
            "networkd",
            "debian",
            &[
                "5:16 eth0.wakeonlan",
                "11:61 eth0.routes.mtu",
                "4:19 eth0.match.name",
                "11:73 eth0.routes.on-link",
            ][..],
        ),
        (
            V2,
            "network-manager",
            "debian",
            &[
                "6:16 eth0.accept-ra",
                "7:15 eth0.optional",
                "4:32 eth0.match.driver",
                "12:21 eth0.routing-policy",
                "9:22 eth0.dhcp4-overrides",
                "11:53 eth0.routes.table",
                "4:19 eth0.match.name",
                "11:73 eth0.routes.on-link",
                "14:81 b.macaddress",
                "14:138 b.parameters.learn-packet-interval",
            ][..],
        ),
        (V2, "sysconfig", "rhel", &["7:15 eth0.optional", "14:138 b.parameters.learn-packet-interval"][..]),
        (V2, "sysconfig", "sles", &["7:15 eth0.optional", "14:138 b.parameters.learn-packet-interval"][..]),
        (
            V2,
            "eni",
            "debian",
            &[
                "12:21 eth0.routing-policy",
                "9:22 eth0.dhcp4-overrides",
                "10:18 eth0.nameservers",
                "11:53 eth0.routes.table",
                "11:61 eth0.routes.mtu",
                "4:19 eth0.match.name",
                "11:73 eth0.routes.on-link",
            ][..],
        ),
        (
            V1,
            "netplan",
            "debian",
            &[
                "3:63 eth0.mtu",
                "3:148 eth0.subnets.control",
                "3:133 eth0.subnets.scope",
                "4:104 br0.params.bridge_waitport",
                "5:104 b.params.bond-unheard",
                "6:3 global routes",
            ][..],
        ),
        (
            V1,
            "networkd",
            "debian",
            &[
                "3:52 eth0.keep_configuration",
                "3:148 eth0.subnets.control",
                "3:133 eth0.subnets.scope",
                "3:120 eth0.subnets.mtu",
                "4:104 br0.params.bridge_waitport",
                "5:82 b.params.bond-xmit_hash_policy",
                "5:104 b.params.bond-unheard",
            ][..],
        ),
        (
            V1,
            "network-manager",
            "debian",
            &[
                "3:52 eth0.keep_configuration",
                "3:63 eth0.mtu",
                "3:148 eth0.subnets.control",
                "3:133 eth0.subnets.scope",
                "4:61 br0.mtu",
                "4:84 br0.params.bridge_fd",
                "4:104 br0.params.bridge_waitport",
                "5:104 b.params.bond-unheard",
                "6:3 global routes",
            ][..],
        ),
        (
            V1,
            "sysconfig",
            "rhel",
            &[
                "3:52 eth0.keep_configuration",
                "3:63 eth0.mtu",
                "3:148 eth0.subnets.control",
                "3:133 eth0.subnets.scope",
                "4:84 br0.params.bridge_fd",
                "4:104 br0.params.bridge_waitport",
                "5:82 b.params.bond-xmit_hash_policy",
                "5:104 b.params.bond-unheard",
            ][..],
        ),
        (
            V1,
            "sysconfig",
            "sles",
            &[
                "3:52 eth0.keep_configuration",
                "3:63 eth0.mtu",
                "3:148 eth0.subnets.control",
                "4:104 br0.params.bridge_waitport",
                "5:82 b.params.bond-xmit_hash_policy",
                "5:104 b.params.bond-unheard",
            ][..],
        ),
        (V1, "eni", "debian", &["3:63 eth0.mtu", "7:3 global IPv6 name servers"][..]),
    ] {
        let converted = convert("yaml", "x", input, (renderer, distro), &Facts::default()).unwrap();
        let found: Vec<String> = converted
            .unsupported
            .iter()
            .map(|f| format!("{}:{} {}", f.at.line, f.at.column, f.key))
            .collect();
        assert_eq!(found, wanted, "{renderer} {distro}");
        tested.push(renderer);
    }
    assert!(OUTPUT_KINDS.iter().all(|name| tested.contains(name)), "{tested:?}");
}

fn rendered(input: &str, renderer: &str, distro: &str) -> (String, Vec<String>) {
    let converted = convert("yaml", "x", input, (renderer, distro), &Facts::default()).unwrap();
    let files: Vec<String> =
        converted.files.iter().map(|file| format!("{}\n{}", file.path, file.content)).collect();
    (files.join("\n"), converted.findings.iter().map(ToString::to_string).collect())
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
    let message = |i: usize| format!("network.ethernets.i.match.driver[{i}]: expected a driver's name");
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

/// Settings of a NIC, and lines of the ifcfg, route, rule and kernel files that have them.
#[test]
fn ifcfg_files_have_what_their_readers_have() {
    let (rhel, suse) = ("rhel", "sles");
    for (device, distro, file, lines) in [
        (
            "addresses: [10.0.0.5/24, 'fd00::5/64'], gateway4: 10.0.0.1, gateway6: 'fd00::1'",
            suse,
            "ifroute-eth0",
            "default 10.0.0.1 - eth0\ndefault fd00::1 - eth0\n",
        ),
        (
            "addresses: [192.0.2.5/32], gateway4: 172.31.1.1",
            suse,
            "ifroute-eth0",
            "172.31.1.1/32 - - eth0\ndefault 172.31.1.1 - eth0\n",
        ),
        (
            "addresses: ['2001:db8::1/128'], routes: [{to: default, via: 'FE80::1', on-link: true}]",
            suse,
            "ifroute-eth0",
            "default FE80::1 - eth0\n",
        ),
        (
            "dhcp4: true, routes: [{to: 10.9.0.0/16, via: 10.0.0.1, metric: 5, table: main, mtu: 1400, advertised-mss: 9, from: 10.0.0.7}]",
            suse,
            "ifroute-eth0",
            "10.9.0.0/16 10.0.0.1 - eth0 metric 5 src 10.0.0.7 advmss 9 mtu 1400\n",
        ),
        (
            "dhcp4: true, routes: [{to: 10.9.0.0/16, type: blackhole, table: 7}, {to: 10.8.0.0/16, scope: link}]",
            suse,
            "ifroute-eth0",
            "10.9.0.0/16 - - eth0 blackhole table 7\n10.8.0.0/16 - - eth0 scope link\n",
        ),
        (
            "dhcp4: true, routing-policy: [{from: 10.0.0.5, to: 10.1.0.0/16, table: 102, priority: 3}, {from: 'fd00::5', table: 1}]",
            suse,
            "ifrule-eth0",
            "ipv4 priority 3 from 10.0.0.5 to 10.1.0.0/16 table 102\nipv6 from fd00::5 table 1\n",
        ),
        (
            "dhcp4: true, accept-ra: false, ipv6-privacy: true, link-local: []",
            suse,
            "ifsysctl-eth0",
            "net/ipv6/conf/eth0/accept_ra = 0\nnet/ipv6/conf/eth0/use_tempaddr = 2\nnet/ipv6/conf/eth0/disable_ipv6 = 1\n",
        ),
        (
            "dhcp4: true, dhcp4-overrides: {use-dns: false, use-routes: false, route-metric: 7, send-hostname: false}",
            suse,
            "ifcfg-eth0",
            "DHCLIENT_HOSTNAME_OPTION=\nDHCLIENT_ROUTE_PRIORITY=7\nDHCLIENT_SET_DEFAULT_ROUTE=no\nDHCLIENT_UPDATE=default,-dns\n",
        ),
        (
            "dhcp4: true, activation-mode: manual, dhcp-identifier: mac, wakeonlan: true, generic-receive-offload: false",
            suse,
            "ifcfg-eth0",
            "DHCLIENT_CREATE_CID=hwaddr\nETHTOOL_OPTIONS=\"wol g\"\nETHTOOL_OPTIONS_gro=\"-K eth0 gro off\"\nSTARTMODE=manual\n",
        ),
        (
            "dhcp4: true, match: {macaddress: '52:54:00:00:00:01'}, macaddress: '52:54:00:00:00:02'",
            suse,
            "ifcfg-eth0",
            "LLADDR=52:54:00:00:00:02\n",
        ),
        (
            "dhcp4: true, match: {macaddress: '52:54:00:00:00:01'}, macaddress: '52:54:00:00:00:02'",
            rhel,
            "ifcfg-eth0",
            "HWADDR=52:54:00:00:00:01\nMACADDR=52:54:00:00:00:02\n",
        ),
        (
            "addresses: ['fd00::5/64'], accept-ra: true",
            rhel,
            "ifcfg-eth0",
            "IPV6INIT=yes\nIPV6_AUTOCONF=yes\nIPV6_FORCE_ACCEPT_RA=yes\n",
        ),
        (
            "dhcp6: true, accept-ra: false",
            rhel,
            "ifcfg-eth0",
            "DHCPV6C=yes\nIPV6INIT=yes\nIPV6_AUTOCONF=no\nIPV6_FORCE_ACCEPT_RA=no\n",
        ),
        (
            "dhcp4: true, accept-ra: false",
            rhel,
            "ifcfg-eth0",
            "IPV6INIT=yes\nIPV6_AUTOCONF=no\nIPV6_FORCE_ACCEPT_RA=no\n",
        ),
        (
            "addresses: [192.0.2.5/32], routes: [{to: default, via: 172.31.1.1, on-link: true}]",
            rhel,
            "route-eth0",
            "0.0.0.0/0 via 172.31.1.1  dev eth0 onlink\n",
        ),
        (
            "dhcp4: true, routes: [{to: 10.9.0.0/16, via: 10.0.0.1, table: 7}, {to: 10.8.0.0/16, type: prohibit}]",
            rhel,
            "route-eth0",
            "10.9.0.0/16 via 10.0.0.1  dev eth0 table 7\nprohibit 10.8.0.0/16 \n",
        ),
        (
            "dhcp4: true, routes: [{to: 'fd01::/64', via: 'fd00::1', metric: 4, mtu: 1300}]",
            rhel,
            "route6-eth0",
            "fd01::/64 via fd00::1 metric 4 dev eth0 mtu 1300\n",
        ),
        (
            "dhcp4: true, routing-policy: [{from: 10.0.0.5, table: main}, {to: 'fd00::/64', table: 1, priority: 9}]",
            rhel,
            "ifcfg-eth0",
            "ROUTING_RULE6_1=\"priority 9 to fd00::/64 table 1\"\nROUTING_RULE_1=\"priority 32765 from 10.0.0.5 table 254\"\n",
        ),
        (
            "dhcp4: true, dhcp6: true, dhcp4-overrides: {use-dns: false, hostname: a}, dhcp6-overrides: {use-dns: false}",
            rhel,
            "ifcfg-eth0",
            "DHCP_HOSTNAME=a\nIPV6_PEERDNS=no\nPEERDNS=no\n",
        ),
        (
            "dhcp4: true, activation-mode: 'off', dhcp-identifier: mac, ipv6-mtu: 1400, link-local: [], wakeonlan: true, large-receive-offload: true",
            rhel,
            "ifcfg-eth0",
            "DHCP_CLIENT_ID=mac\nETHTOOL_OPTS='wol g; -K eth0 lro on'\nIPV6_DISABLED=yes\nIPV6_MTU=1400\nONBOOT=no\n",
        ),
        ("match: {name: 'e*'}, dhcp4: true", suse, "ifcfg-eth1", "BOOTPROTO=dhcp4\n"),
    ] {
        let input = format!("version: 2\nethernets: {{eth0: {{{device}}}}}\n");
        let facts = Facts::from_pairs([("eth1", "52:54:00:00:00:07")]);
        let found = convert("yaml", "x", &input, ("sysconfig", distro), &facts).unwrap();
        assert_eq!(
            (found.findings.iter().count(), found.unsupported.iter().count()),
            (0, 0),
            "{device}: {:?}",
            found.findings.iter().map(ToString::to_string).collect::<Vec<_>>()
        );
        let content = found.files.iter().find(|f| f.path.ends_with(file)).map_or("", |f| f.content.as_str());
        let has = |line: &&str| !content.lines().any(|l| l == *line);
        let missing: Vec<&str> = lines.lines().filter(has).collect();
        assert!(missing.is_empty(), "{device}: no {missing:?} in {file}:\n{content}");
    }
    let config = "version: 2\nbonds: {bond0: {interfaces: [eth1], parameters: {mode: active-backup}}}\n\
        bridges: {br0: {interfaces: [eth2], parameters: {stp: true, forward-delay: 4}}}\n";
    let (files, _) = rendered(config, "sysconfig", "sles");
    for lines in [
        "BRIDGE=yes\nBRIDGE_FORWARDDELAY=4\nBRIDGE_PORTS=eth2\nBRIDGE_STP=on\n",
        "BONDING_MODULE_OPTS=\"mode=active-backup miimon=100\"\n",
    ] {
        assert!(files.contains(lines), "{files}");
    }
    assert!(
        !files.contains(
            "ifcfg-eth2\n# Created by cloud-init automatically, do not edit.\n#\nBOOTPROTO=none\nBRIDGE"
        ),
        "{files}"
    );
}
