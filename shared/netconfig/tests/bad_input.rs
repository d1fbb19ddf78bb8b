//! Invalid configurations: the findings with their positions, and the links that remain. Random input causes no
//! panic and no endless loop.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use config::{Map, Node};
use netconfig::Facts;
use netconfig::parse::{self, FORMATS, Syntax};
use scratch::Random;

fn facts() -> Facts {
    Facts::from_pairs([("ens3", "52:54:00:00:00:01")])
}

/// Returns the messages, and the links with the number of their subnets.
fn read(text: &str) -> Result<(Vec<String>, Vec<String>), String> {
    let root = config::yaml::parse("net", text).map_err(|e| e.to_string())?.root;
    let parsed = parse::parse(&root, &facts())?;
    let messages = parsed.findings.iter().map(ToString::to_string).collect();
    let links = parsed.model.links.iter().map(|l| format!("{}:{}", l.name, l.subnets.len())).collect();
    Ok((messages, links))
}

#[test]
fn findings_have_positions_and_the_rest_is_parsed() {
    let v1 = "version: 1\nconfig:\n- {type: physical, name: good, subnets: [{type: dhcp}]}\n";
    let v2 = "version: 2\nethernets:\n  good: {dhcp4: true}\n";
    let mut wrong = String::new();
    for (head, text, messages, links) in [
        (
            v1,
            "- {type: phisical, name: eth0}\n- 7\n",
            &[
                "net:4:10: network.config[1].type: expected one of physical bond bridge vlan nameserver route loopback infiniband; ignored",
                "net:5:3: network.config[2]: expected a map, found an integer; ignored",
            ][..],
            &["good:1"][..],
        ),
        (
            v1,
            "- type: physical\n  name: eth0\n  mtu: large\n  subnets:\n  - {type: static, address: 10.0.0.300}\n  - {type: static}\n  - {type: DHCP}\n  - {type: dhcp, routes: [{network: 10.0.0.0/8, gateway: x, metric: low}, {}]}\n",
            &[
                "net:6:8: network.config[1].mtu: expected a number from 0 to 4294967295, found a string; ignored",
                "net:8:29: network.config[1].subnets[0].address: expected an IP address with an optional /prefix; ignored",
                "net:9:5: network.config[1].subnets[1].address: expected an address; ignored",
                "net:10:12: network.config[1].subnets[2].type: expected one of dhcp dhcp4 dhcp6 static static6 manual …; ignored",
                "net:11:58: network.config[1].subnets[3].routes[0].gateway: expected an IP address; ignored",
                "net:11:75: network.config[1].subnets[3].routes[1].destination: expected a destination; ignored",
            ],
            &["good:1", "eth0:1"],
        ),
        (
            v1,
            "- type: physical\n  name: eth0\n  subnets:\n  - {type: static, address: 10.0.0.3/24, gatway: 10.0.0.1, routes: [{destination: 10.0.0.0/8, gateway: 10.0.0.1, metrik: 7, services: []}]}\n- {type: route, destination: 11.0.0.0/8, gateways: 10.0.0.1, gateway: 10.0.0.1}\n- {type: nameserver, address: 10.0.0.1, searches: [a]}\n",
            &[
                "net:7:42: network.config[1].subnets[0].gatway: unknown key; did you mean 'gateway'?",
                "net:7:114: network.config[1].subnets[0].routes[0].metrik: unknown key; did you mean 'metric'?",
                "net:8:42: network.config[2].gateways: unknown key; did you mean 'gateway'?",
                "net:9:41: network.config[3].searches: unknown key; did you mean 'search'?",
            ],
            &["good:1", "eth0:1"],
        ),
        (
            v1,
            "- {type: bond, name: b}\n- {type: bridge, name: r, bridge_interfaces: [good], params: {bridge_stp: maybe}}\n- {type: physical, name: eth1, subnets: {type: dhcp}, params: []}\n",
            &[
                "net:4:3: network.config[1].bond_interfaces: required, but missing; ignored",
                "net:4:3: network.config[1].params: required, but missing; ignored",
                "net:5:75: network.config[2].params.bridge_stp: expected on or off; ignored",
                "net:6:41: network.config[3].subnets: expected a list, found a map; ignored",
                "net:6:63: network.config[3].params: expected a map, found a list; ignored",
            ],
            &["good:1", "r:0", "eth1:0"],
        ),
        (
            v1,
            "- {type: bond, name: b, bond_interfaces: [good, stranger], params: {}}\n- {type: vlan, name: v, vlan_id: 3, vlan_link: nowhere}\n",
            &[
                "net:4:3: network.config[1]: undefined member stranger",
                "net:5:3: network.config[2]: undefined parent device nowhere",
            ],
            &["good:1", "b:0", "stranger:0", "v:0", "nowhere:0"],
        ),
        (
            v1,
            "- {type: bridge, name: a, bridge_interfaces: [b]}\n- {type: bridge, name: b, bridge_interfaces: [c]}\n- {type: vlan, name: c, vlan_id: 1, vlan_link: a}\n",
            &["net:6:3: network.config[3]: dependency cycle through a; ignoring that dependency"],
            &["good:1", "a:0", "b:0", "c:0"],
        ),
        (
            v1,
            "- {type: bridge, name: a, bridge_interfaces: [a]}\n- {type: physical, name: 'x y'}\n",
            &[
                "net:5:3: network.config[2]: invalid name (a slash, whitespace, a control character or a shell metacharacter); \
                 ignoring the device",
                "net:4:3: network.config[1]: dependency cycle through a; ignoring that dependency",
            ],
            &["good:1", "a:0"],
        ),
        (
            v2,
            "  e:\n    addresses: [10.0.0.1/8]\n    activation-mode: maybe\n    link-local: [ipv5]\n    ipv6-mtu: -1\n    ipv6-privacy: 7\n    routes:\n    - {to: 1.0.0.0/8, via: 10.0.0.2, table: [1]}\n    - {to: 1.0.0.0/8, type: hole}\n    - {to: 1.0.0.0/8, scope: lnk}\n    - {to: 1.0.0.0/8, via: 10.0.0.2, from: me}\n    - {to: default}\n",
            &[
                "net:6:22: network.ethernets.e.activation-mode: expected manual or off; ignored",
                "net:8:15: network.ethernets.e.ipv6-mtu: expected a number from 0 to 4294967295; ignored",
                "net:9:19: network.ethernets.e.ipv6-privacy: expected true or false, found an integer; ignored",
                "net:7:18: network.ethernets.e.link-local[0]: expected a list of ipv4 and ipv6, found a string; ignored",
                "net:11:45: network.ethernets.e.routes[0].table: expected the number or name of a routing table; ignored",
                "net:12:29: network.ethernets.e.routes[1].type: expected a route's type; ignored",
                "net:13:30: network.ethernets.e.routes[2].scope: expected global, link or host; ignored",
                "net:14:44: network.ethernets.e.routes[3].from: expected an IP address; ignored",
                "net:15:7: network.ethernets.e.routes[4].via: expected a gateway, required with 'to: default'; ignored",
            ],
            &["good:1", "e:1"],
        ),
        (
            v2,
            "  two: {set-name: good}\n  three: [dhcp4]\n  four: {addresses: 10.0.0.1/8, routes: {to: default}, match: eth0, nameservers: [1.1.1.1]}\nbonds: none\n",
            &[
                "net:5:10: network.ethernets.three: expected a map, found a list; ignored",
                "net:6:63: network.ethernets.four.match: expected a map, found a string; ignored",
                "net:6:82: network.ethernets.four.nameservers: expected a map, found a list; ignored",
                "net:6:21: network.ethernets.four.addresses: expected a list, found a string; using its words as items",
                "net:6:41: network.ethernets.four.routes: expected a list, found a map; ignored",
                "net:7:8: network.bonds: expected a map of devices, found a string; ignored",
                "net:4:3: network.ethernets.two: has the same name as good",
            ],
            &["good:1", "good:0", "four:1"],
        ),
        (
            v2,
            "bridges:\n  br0: {interfaces: [good, br1], parameters: {sp: 1}}\n  br1: {interfaces: [br0, good]}\n  br2: {}\nvlans:\n  v: {id: 3}\n",
            &[
                "net:5:47: network.bridges.br0.parameters.sp: unknown key; did you mean 'stp'?",
                "net:9:6: network.vlans.v.link: required, but missing; ignored",
                "net:6:3: network.bridges.br1: port good is already a port of br0",
                "net:6:3: network.bridges.br1: dependency cycle through br0; ignoring that dependency",
            ],
            &["good:1", "br0:0", "br1:0", "br2:0"],
        ),
        (
            v2,
            "  e:\n    dhcp4: true\n    match: {macaddress: '52:54'}\n    addresses: [x, {10.0.0.1/8: {label: y}}, []]\n    routing-policy: [1]\n    routes: [{to: default}, {to: 10.0.0.0/40, via: 10.0.0.1}]\n",
            &[
                "net:8:22: network.ethernets.e.routing-policy[0]: expected a map, found an integer; ignored",
                "net:7:17: network.ethernets.e.addresses[0]: expected an IP address with an optional /prefix; ignored",
                "net:7:34: network.ethernets.e.addresses[1].label: supported by netplan only; ignored",
                "net:7:46: network.ethernets.e.addresses[2]: expected an IP address with an optional /prefix; ignored",
                "net:9:14: network.ethernets.e.routes[0].via: expected a gateway, required with 'to: default'; ignored",
                "net:9:34: network.ethernets.e.routes[1].to: expected a prefix length within the address's width; ignored",
                "net:6:25: network.ethernets.e.match.macaddress: expected a MAC address of two-digit hexadecimal bytes; ignored",
            ],
            &["good:1", "e:2"],
        ),
        (
            v2,
            "  e: {dhcp4: true, addresses: [10.0.0.1/255.0.255.0], routes: [{to: 10.0.0.1/0.255.0.0, via: 1.1.1.1}]}\n",
            &[
                "net:4:32: network.ethernets.e.addresses[0]: expected a contiguous netmask; ignored",
                "net:4:69: network.ethernets.e.routes[0].to: expected a contiguous netmask; ignored",
            ],
            &["good:1", "e:1"],
        ),
        (
            v1,
            "- {type: physical, name: e, subnets: [{type: static, address: 10.0.0.1, netmask: 255.0.255.0}, {type: dhcp}]}\n- {type: nameserver, address: [1.1.1.1], interface: f}\n",
            &[
                "net:4:63: network.config[1].subnets[0].address: expected a contiguous netmask; ignored",
                "net:5:3: network.config.interface: no such interface; ignored",
            ],
            &["good:1", "e:1"],
        ),
        (
            v1,
            "- {type: physical, name: -1}\n- {type: physical, name: true}\n- {type: physical, name: []}\n- {type: physical, name: 7, mtu: -1, accept-ra: -1, subnets: [{type: dhcp, gateway: true, dns_nameservers: [-1, 1.5, 1.1.1.1], dns_search: [7, no], metric: -1, control: 1, routes: [{destination: 10.0.0.0/8, gateway: 1}, {destination: 10.0.0.0/8, gateway: 10.0.0.1, mtu: 1500, table: 1.5}]}]}\n- {type: vlan, name: v, vlan_link: good, vlan_id: true}\n- {type: nameserver, address: [true]}\n",
            &[
                "net:4:26: network.config[1].name: expected a name, found a negative number; ignored",
                "net:5:26: network.config[2].name: expected a name, found a boolean; ignored",
                "net:6:26: network.config[3].name: expected a name, found a list; ignored",
                "net:7:34: network.config[4].mtu: expected a number from 0 to 4294967295; ignored",
                "net:7:49: network.config[4].accept-ra: expected true or false, found a negative number; ignored",
                "net:7:85: network.config[4].subnets[0].gateway: expected a string, found a boolean; ignored",
                "net:7:109: network.config[4].subnets[0].dns_nameservers[0]: expected a string, found a negative number; ignored",
                "net:7:113: network.config[4].subnets[0].dns_nameservers[1]: expected a string, found a decimal number; ignored",
                "net:7:144: network.config[4].subnets[0].dns_search[1]: expected a string, found a boolean; ignored",
                "net:7:157: network.config[4].subnets[0].metric: expected a number from 0 to 4294967295; ignored",
                "net:7:170: network.config[4].subnets[0].control: expected a string, found an integer; ignored",
                "net:7:217: network.config[4].subnets[0].routes[0].gateway: expected an IP address; ignored",
                "net:7:284: network.config[4].subnets[0].routes[1].table: expected the number or name of a routing table; ignored",
                "net:8:51: network.config[5].vlan_id: expected a VLAN ID from 0 to 4094; ignored",
                "net:9:32: network.config[6].address[0]: expected a string, found a boolean; ignored",
            ],
            &["good:1", "7:1"],
        ),
        (
            v2,
            "  true: {dhcp4: true}\n  8: {set-name: -1, match: {macaddress: '52:54:00:00:00:01'}, gateway4: 1, nameservers: {addresses: [-1, 1.1.1.1], search: [true]}, addresses: [10.0.0.2/8, 5], wakeonlan: 1.5}\nvlans:\n  v: {id: -1, link: good}\n  w: {id: '3', link: 8}\n",
            &[
                "net:4:3: network.ethernets.True: expected a device's name, found a boolean; ignored",
                "net:5:17: network.ethernets.8.set-name: expected a name, found a negative number; ignored",
                "net:5:73: network.ethernets.8.gateway4: expected a string, found an integer; ignored",
                "net:5:102: network.ethernets.8.nameservers.addresses[0]: expected a string, found a negative number; ignored",
                "net:5:125: network.ethernets.8.nameservers.search[0]: expected a string, found a boolean; ignored",
                "net:5:157: network.ethernets.8.addresses[1]: expected an IP address with an optional /prefix; ignored",
                "net:5:172: network.ethernets.8.wakeonlan: expected true or false, found a decimal number; ignored",
                "net:7:11: network.vlans.v.id: expected a VLAN ID from 0 to 4094; ignored",
            ],
            &["good:1", "ens3:1", "w:0"],
        ),
        (
            v1,
            "- type: bond\n  name: b\n  bond_interfaces: [good]\n  params: {bond-mode: true, bond_miimon: fast, bond-primary: [good], bond-min-links: -1, bond-arp_ip_target: [10.0.0.1, 7],\n    bond-all-slaves-active: maybe, bond-resend_igmp: yes, bond-unheard-of: {x: 1}, bond-updelay: 1.5, bond-downdelay: null}\n",
            &[
                "net:7:23: network.config[1].params.bond-mode: expected a name, found a boolean; ignored",
                "net:7:42: network.config[1].params.bond_miimon: expected a number or a time, found a string; ignored",
                "net:7:62: network.config[1].params.bond-primary: expected a name, found a list; ignored",
                "net:7:86: network.config[1].params.bond-min-links: expected a number from 0 to 4294967295; ignored",
                "net:7:121: network.config[1].params.bond-arp_ip_target[1]: expected a string or a list of strings, found an integer; ignored",
                "net:8:29: network.config[1].params.bond-all-slaves-active: expected true or false, found a string; ignored",
                "net:8:54: network.config[1].params.bond-resend_igmp: expected a number from 0 to 4294967295, found a boolean; ignored",
                "net:8:76: network.config[1].params.bond-unheard-of: expected a string, a number or a boolean, found a map; ignored",
            ],
            &["good:1", "b:0"],
        ),
        (
            v1,
            "- type: bridge\n  name: r\n  bridge_interfaces: [good]\n  params: {bridge_fd: true, bridge_ageing: -1, bridge_bridgeprio: [1], bridge_pathcost: 50, bridge_portprio: [good 2, 3], bridge-hw: [[]]}\n",
            &[
                "net:7:23: network.config[1].params.bridge_fd: expected a number or a time, found a boolean; ignored",
                "net:7:44: network.config[1].params.bridge_ageing: expected a number or a time, found a negative number; ignored",
                "net:7:67: network.config[1].params.bridge_bridgeprio: expected a number from 0 to 4294967295, found a list; ignored",
                "net:7:89: network.config[1].params.bridge_pathcost: expected ports, each with a number, found an integer; ignored",
                "net:7:119: network.config[1].params.bridge_portprio[1]: expected ports, each with a number, found an integer; ignored",
                "net:7:135: network.config[1].params.bridge-hw[0]: expected a string, a number or a boolean, found a list; ignored",
            ],
            &["good:1", "r:0"],
        ),
        (
            v2,
            "bonds:\n  b: {interfaces: [good], parameters: {mode: false, arp-ip-targets: 7, up-delay: []}}\nbridges:\n  r: {interfaces: [b], parameters: {stp: 2, path-cost: {b: true}, priority: high}}\n",
            &[
                "net:5:46: network.bonds.b.parameters.mode: expected a name, found a boolean; ignored",
                "net:5:69: network.bonds.b.parameters.arp-ip-targets: expected a string or a list of strings, found an integer; ignored",
                "net:5:82: network.bonds.b.parameters.up-delay: expected a number or a time, found a list; ignored",
                "net:7:42: network.bridges.r.parameters.stp: expected true or false, found an integer; ignored",
                "net:7:60: network.bridges.r.parameters.path-cost.b: expected a number from 0 to 4294967295, found a boolean; ignored",
                "net:7:77: network.bridges.r.parameters.priority: expected a number from 0 to 4294967295, found a string; ignored",
            ],
            &["good:1", "b:0", "r:0"],
        ),
        (
            v2,
            "  a: {dhcp4: 2, dhcp6: maybe}\n  c: {dhcp4: [true], dhcp6: 1.5}\n  d: {dhcp4: 'yes', dhcp6: 1}\n  e: {dhcp4: true, dhcp4-overrides: {hostname: true, route-metric: low, use-dns: [], use-domains: perhaps, use-mtu: 2, use-ntp: later}, dhcp6: On, dhcp6-overrides: {use-dns: {}, use-domains: route, route-metric: '7'}}\n",
            &[
                "net:4:14: network.ethernets.a.dhcp4: expected true or false, found an integer; ignored",
                "net:4:24: network.ethernets.a.dhcp6: expected true or false, found a string; ignored",
                "net:5:14: network.ethernets.c.dhcp4: expected true or false, found a list; ignored",
                "net:5:29: network.ethernets.c.dhcp6: expected true or false, found a decimal number; ignored",
                "net:7:48: network.ethernets.e.dhcp4-overrides.hostname: expected a name, found a boolean; ignored",
                "net:7:68: network.ethernets.e.dhcp4-overrides.route-metric: expected a number from 0 to 4294967295, found a string; ignored",
                "net:7:82: network.ethernets.e.dhcp4-overrides.use-dns: expected true or false, found a list; ignored",
                "net:7:99: network.ethernets.e.dhcp4-overrides.use-domains: expected true, false or route, found a string; ignored",
                "net:7:117: network.ethernets.e.dhcp4-overrides.use-mtu: expected true or false, found an integer; ignored",
                "net:7:129: network.ethernets.e.dhcp4-overrides.use-ntp: expected true or false, found a string; ignored",
                "net:7:175: network.ethernets.e.dhcp6-overrides.use-dns: expected true or false, found a map; ignored",
            ],
            &["good:1", "a:0", "c:0", "d:2", "e:2"],
        ),
        (
            v2,
            "  e: {dhcp4: true, dhcp4-overrides: {use-dns: null, use-ntp: 1.5}, dhcp4domain: maybe, dhcp6domain: [true]}\n  f: {dhcp4: true, dhcp4domain: Route, dhcp6domain: null}\n",
            &[
                "net:4:62: network.ethernets.e.dhcp4-overrides.use-ntp: expected true or false, found a decimal number; ignored",
                "net:4:81: network.ethernets.e.dhcp4domain: expected true, false or route, found a string; ignored",
                "net:4:101: network.ethernets.e.dhcp6domain: expected true, false or route, found a list; ignored",
            ],
            &["good:1", "e:1", "f:1"],
        ),
        (
            v2,
            "  e: {addresses: '10.0.0.5/24,10.0.0.6/24', routing-policy: [{to: 10.0.0.0/8, mark: 'x//'}, {to: 10.0.0.0/8, mark: ''}, {to: 10.0.0.0/8, table: -1}, {from: 'fd00::1', to: 10.0.0.0/8}, {to: 10.0.0.0/8, priority: +5x}]}\n",
            &[
                "net:4:18: network.ethernets.e.addresses: expected a list, found a string; using its words as items",
                "net:4:85: network.ethernets.e.routing-policy[0].mark: expected a number, or two with a slash between them; ignored",
                "net:4:116: network.ethernets.e.routing-policy[1].mark: expected a number, or two with a slash between them; ignored",
                "net:4:145: network.ethernets.e.routing-policy[2].table: expected the number or name of a routing table; ignored",
                "net:4:150: network.ethernets.e.routing-policy[3]: expected addresses of one family in from and to; ignored",
                "net:4:212: network.ethernets.e.routing-policy[4].priority: expected a number from 0 to 4294967295; ignored",
            ],
            &["good:1", "e:2"],
        ),
        (
            v1,
            "- {type: physical, name: a, keep_configuration: forever}\n- {type: physical, name: b, keep_configuration: 'yes'}\n- {type: physical, name: c, keep_configuration: [true]}\n- {type: physical, name: d, keep_configuration: null}\n",
            &[
                "net:4:49: network.config[1].keep_configuration: expected true or false, found a string; ignored",
                "net:6:49: network.config[3].keep_configuration: expected true or false, found a list; ignored",
            ],
            &["good:1", "a:0", "b:0", "c:0", "d:0"],
        ),
        (
            v1,
            "- {type: physical, name: 'good:1', mtu: 9000, mac_address: '52:54:00:00:00:02', subnets: [{type: dhcp6}]}\n",
            &[
                "net:4:3: network.config[1].mac_address: an alias has that of its device; ignored",
                "net:4:3: network.config[1].mtu: an alias has that of its device; ignored",
            ],
            &["good:2"],
        ),
        (
            v1,
            "- {type: physical, name: 'a b'}\n- {type: physical, name: 'c/d'}\n- {type: bridge, name: r, bridge_interfaces: ['c/d', good, 'a b']}\n",
            &[
                "net:4:3: network.config[1]: invalid name (a slash, whitespace, a control character or a shell metacharacter); \
                 ignoring the device",
                "net:5:3: network.config[2]: invalid name (a slash, whitespace, a control character or a shell metacharacter); \
                 ignoring the device",
            ],
            &["good:1", "r:0"],
        ),
    ] {
        let (mut reported, found) = read(&format!("{head}{text}")).unwrap();
        let mut messages: Vec<String> = messages.iter().map(ToString::to_string).collect();
        reported.sort();
        messages.sort();
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        if (&reported, &found[..]) != (&messages, links) {
            wrong += &format!("{text}\n{}\n{found:?}\n", reported.join("\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Only a NIC has aliases: a colon in another name means nothing.
#[test]
fn aliases_are_their_devices() {
    let mac = "mac_address: '52:54:00:00:00:01'";
    let nic = format!("{{type: physical, name: eth0, mtu: 1400, {mac}}}");
    let shown = |entries: &str| {
        let text = format!("{{version: 1, config: [{entries}]}}");
        let root = config::yaml::parse("net", &text).unwrap().root;
        let parsed = parse::parse(&root, &facts()).unwrap();
        let links = parsed.model.links.iter().map(|l| {
            let mtu = l.mtu.as_ref().map_or(0, |mtu| mtu.as_int().unwrap());
            let servers = l.dns.iter().flat_map(|dns| &dns.servers).count();
            let members = [&l.bond, &l.vlan_link].map(|name| name.as_deref().unwrap_or("-").to_string());
            let ports = l.ports.join(",");
            format!(
                "{} {:?} {} {mtu} {} {servers} {} [{ports}]",
                l.name,
                l.kind,
                l.mac.is_some(),
                l.subnets.len(),
                members.join(" ")
            )
        });
        (Vec::from_iter(links), parsed.findings.iter().count())
    };
    for (entries, links, findings) in [
        (
            format!("{{type: physical, name: 'eth0:1', mtu: 1400, {mac}, subnets: [{{type: dhcp}}]}}"),
            &["eth0 Physical true 1400 1 0 - - []"][..],
            0,
        ),
        (
            format!("{nic}, {{type: physical, name: 'eth0:x', mtu: 1400, {mac}, subnets: [{{type: dhcp}}]}}"),
            &["eth0 Physical true 1400 1 0 - - []"],
            0,
        ),
        (
            "{type: physical, name: 'lo:1', subnets: [{type: manual}]}, {type: physical, name: 'a:x'}".into(),
            &["a:x Physical false 0 0 0 - - []", "lo Loopback false 0 1 0 - - []"],
            0,
        ),
        (
            "{type: bond, name: 'x:1', bond_interfaces: [], params: {}, subnets: [{type: dhcp}]}, {type: bridge, name: 'x:2', \
             bridge_interfaces: []}, {type: vlan, name: 'x:3', vlan_id: 3, vlan_link: 'x:1'}"
                .into(),
            &[
                "x:1 Bond false 0 1 0 - - []",
                "x:2 Bridge false 0 0 0 - - []",
                "x:3 Vlan false 0 0 0 - x:1 []",
            ],
            0,
        ),
        (
            format!(
                "{nic}, {{type: physical, name: 'eth0:1'}}, {{type: physical, name: 'eth1:1'}}, \
                 {{type: bridge, name: r, bridge_interfaces: ['eth0:1', eth0, 'eth1:1']}}, \
                 {{type: vlan, name: v, vlan_id: 3, vlan_link: 'eth0:1'}}, \
                 {{type: nameserver, address: 1.1.1.1, interface: 'eth0:1'}}"
            ),
            &[
                "eth0 Physical true 1400 0 1 - - []",
                "r Bridge false 0 0 0 - - [eth0,eth1]",
                "v Vlan false 0 0 0 - eth0 []",
                "eth1 Physical false 0 0 0 - - []",
            ],
            0,
        ),
        (
            format!(
                "{{type: bond, name: b, bond_interfaces: ['eth0:1', 'eth1:1'], params: {{}}}}, {nic}, \
                 {{type: physical, name: 'eth0:1'}}, {{type: physical, name: 'eth1:1'}}"
            ),
            &[
                "b Bond false 0 0 0 - - []",
                "eth0 Physical true 1400 0 0 b - []",
                "eth1 Physical false 0 0 0 b - []",
            ],
            0,
        ),
    ] {
        let links = links.iter().map(ToString::to_string).collect();
        assert_eq!(shown(&entries), (links, findings), "{entries}");
    }
}

/// Values of the right type that no network service accepts: those that it would ignore are ignored, the others are reported.
#[test]
fn impossible_values_are_reported() {
    let v1 = |entry: &str| format!("{{version: 1, config: [{entry}]}}");
    let static_v1 = |more: &str| {
        v1(&format!("{{type: physical, name: e, subnets: [{{type: static, address: 10.0.0.5/8, {more}}}]}}"))
    };
    let v2 = |device: &str| format!("{{version: 2, ethernets: {{e: {{dhcp4: true, {device}}}}}}}");
    let two = |more: &str| v1(&format!("{{type: physical, name: e, subnets: [{{type: dhcp}}]}}, {more}"));
    for (text, key, message) in [
        (static_v1("gateway: 10.0.0.300"), "config[0].subnets[0].gateway", "expected an IP address; ignored"),
        (
            static_v1("gateway: fe80::1"),
            "config[0].subnets[0].gateway",
            "expected an IPv4 address, as `address` is",
        ),
        (
            static_v1("dns_nameservers: [dns.example]"),
            "config[0].subnets[0].dns_nameservers[0]",
            "expected an IP address; ignored",
        ),
        (
            static_v1("dns_nameservers: 1.1.1.1 dns"),
            "config[0].subnets[0].dns_nameservers",
            "expected IP addresses; using the others",
        ),
        (static_v1("dns_nameservers: ['1.1.1.1%eth0', '[fd00::1]:53#a', '9.9.9.9:53']"), "", ""),
        (
            static_v1("gateway: 'fe80::1%e'"),
            "config[0].subnets[0].gateway",
            "expected an IPv4 address, as `address` is",
        ),
        (static_v1("mtu: 67"), "config[0].subnets[0].mtu", "expected an MTU from 68 to 65536; ignored"),
        (
            two("{type: nameserver, address: dns}"),
            "config[1].address",
            "expected IP addresses; using the others",
        ),
        (
            two("{type: vlan, name: v, vlan_link: e, vlan_id: '5000'}"),
            "config[1].vlan_id",
            "expected a VLAN ID from 0 to 4094; ignored",
        ),
        (two("{type: physical, name: e}"), "config[1]", "described twice; using the last one"),
        (
            two("{type: physical, name: f, mac_address: '00:00:00:00:00:00'}"),
            "config[1].mac_address",
            "the MAC address of no NIC; ignored",
        ),
        (two("{type: loopback, name: lo, mac_address: '00:00:00:00:00:00'}"), "", ""),
        (v2("mtu: 70000"), "ethernets.e.mtu", "expected an MTU from 68 to 65536; ignored"),
        (v2("mtu: 0"), "", ""),
        (v2("gateway4: _dhcp4"), "", ""),
        (v2("gateway4: fd00::1"), "ethernets.e.gateway4", "expected an IPv4 address"),
        (v2("gateway4: 0.0.0.0"), "ethernets.e.gateway4", "the address of no gateway; ignored"),
        (
            v2("macaddress: 5"),
            "ethernets.e.macaddress",
            "expected a quoted MAC address, found an integer; ignored",
        ),
        (
            v2("macaddress: true"),
            "ethernets.e.macaddress",
            "expected a MAC address, found a boolean; ignored",
        ),
        (v2("wakeonlan: often"), "ethernets.e.wakeonlan", "expected true or false, found a string; ignored"),
        (v2("optional: 'on', accept-ra: 2"), "", ""),
        (v2("activation-mode: later"), "ethernets.e.activation-mode", "expected manual or off; ignored"),
        (v2("gateway6: 10.0.0.1"), "ethernets.e.gateway6", "expected an IPv6 address"),
        (
            v2("nameservers: {addresses: [1.1.1.1, x]}"),
            "ethernets.e.nameservers.addresses[1]",
            "expected an IP address; ignored",
        ),
        (
            v2("routes: [{to: 10.0.0.0/8, via: 10.0.0.300}]"),
            "ethernets.e.routes[0].via",
            "expected an IP address; ignored",
        ),
        (
            v2("routes: [{to: 10.0.0.0/8, via: fd00::1}]"),
            "ethernets.e.routes[0].via",
            "expected an IPv4 address, as the destination is",
        ),
        (
            "{version: 2, dummy-devices: {d: {}}, bridges: {b: {interfaces: [d, f], dhcp4: true}}}".into(),
            "bridges.b",
            "undefined member f",
        ),
        ("{version: 2, tunnels: {t: {local: x}}}".into(), "tunnels.t.local", "expected an IP address; ignored"),
        (
            "{version: 2, openvswitch: {x: {mtu: y}}, vrfs: {v: {table: 99999999999, routes: [{to: default, via: 1.1.1.1}]}}}".into(),
            "vrfs.v.table",
            "expected a number from 0 to 4294967295; ignored",
        ),
        (
            v2("routing-policy: [{from: 10.0.0.300, table: 7}]"),
            "ethernets.e.routing-policy[0].from",
            "expected an IP address with an optional /prefix; ignored",
        ),
        (
            v2("routing-policy: [{from: 10.0.0.3, table: x y}]"),
            "ethernets.e.routing-policy[0].table",
            "expected the number or name of a routing table; ignored",
        ),
        (
            v2("routing-policy: [{to: fd00::/8, table: 7, priority: -4}]"),
            "ethernets.e.routing-policy[0].priority",
            "expected a number from 0 to 4294967295; ignored",
        ),
        (
            v2("routing-policy: [{from: 10.0.0.0/8, to: ~, mark: 0x7, type-of-service: 8, priority: '4'}]"),
            "",
            "",
        ),
        (
            "{ethernets: {e: {dhcp4: true}}}".into(),
            "version",
            "required, but missing; reading the configuration as version 2",
        ),
        (
            "{config: [{type: physical, name: e, subnets: [{type: dhcp}]}]}".into(),
            "version",
            "required, but missing; reading the configuration as version 1",
        ),
        (
            "{version: '1', config: [{type: physical, name: e, subnets: [{type: dhcp}]}]}".into(),
            "version",
            "expected a number without quotes; reading the configuration as version 1",
        ),
        (
            "{version: '2', ethernets: {e: {dhcp4: true}}}".into(),
            "version",
            "expected a number without quotes; reading the configuration as version 2",
        ),
    ] {
        let root = config::yaml::parse("net", &text).unwrap().root;
        let parsed = parse::parse(&root, &facts()).unwrap();
        let found = parsed.findings.iter().filter(|f| f.kind == config::FindingKind::Invalid);
        let found: Vec<_> = found.map(|f| (f.key.as_str(), f.message.as_str())).collect();
        let key = format!("network.{key}");
        let expected = if message.is_empty() { Vec::new() } else { vec![(key.as_str(), message)] };
        assert_eq!(found, expected, "{text}");
    }
}

/// Without a valid address nothing is written, but only if an invalid part may have had one.
#[test]
fn only_a_lost_address_makes_a_configuration_unusable() {
    for (entry, is_usable) in [
        (
            "{type: bridge, name: b, bridge_interfaces: [e], params: {bridge_maxwait: [e 0], bridge_stp: maybe}}",
            true,
        ),
        ("{type: physical, name: e, mac_address: x, mtu: 7, params: {driver: [1]}}", true),
        ("{type: physical, name: e, subnets: [{type: static, address: 10.0.0.300}]}", false),
        ("{type: physical, name: [e]}", false),
        ("{type: physical, name: 'a b'}", false),
        ("{type: vlan, name: v, vlan_link: e, vlan_id: 5000}", false),
    ] {
        let text = format!("{{version: 1, config: [{{type: physical, name: lo0}}, {entry}]}}");
        assert_eq!(read(&text).is_ok(), is_usable, "{text}");
    }
}

/// Renderers get the valid options and overrides as they are written.
#[test]
fn options_of_a_wrong_type_do_not_affect_the_others() {
    let json = |map: &Map| Node::from(map.clone()).to_json().to_string();
    for (given, expected) in [
        (
            "{bond-mode: 4, bond_miimon: '100', bond-arp_ip_target: [1.1.1.1, true], bond-min-links: [], bond-x: yes}",
            r#"{"bond-arp-ip-target":["1.1.1.1"],"bond-miimon":"100","bond-mode":4,"bond-x":true}"#,
        ),
        ("{bond-mode: 1.5, bond-arp_ip_target: [1], bond-lacp-rate: fast}", r#"{"bond-lacp-rate":"fast"}"#),
    ] {
        let text = format!(
            "{{version: 1, config: [{{type: bond, name: b, bond_interfaces: [], params: {given}, subnets: [{{type: dhcp}}]}}]}}"
        );
        let root = config::yaml::parse("net", &text).unwrap().root;
        assert_eq!(json(&parse::parse(&root, &facts()).unwrap().model.links[0].params), expected);
    }
    let text = "{version: 2, ethernets: {e: {dhcp4: 'on', dhcp4-overrides: {use-dns: no, use-ntp: '1', use-mtu: 7, \
                route-metric: true, hostname: 12}}}}";
    let root = config::yaml::parse("net", text).unwrap().root;
    let link = &parse::parse(&root, &facts()).unwrap().model.links[0];
    assert_eq!(json(&link.dhcp4.overrides), r#"{"hostname":12,"use-dns":false,"use-ntp":"1"}"#);
    assert_eq!(link.subnets[0].metric, None);
}

/// Returns the keys of all maps in the inputs of the golden cases and of the formats.
fn keys_of_cases() -> Vec<String> {
    fn collect(node: &Node, keys: &mut BTreeSet<String>) {
        for (key, value) in node.entries() {
            keys.extend(key.scalar_text());
            collect(value, keys);
        }
        node.items().iter().for_each(|item| collect(item, keys));
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut keys = BTreeSet::new();
    for folder in fs::read_dir(tests.join("cases"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .chain([tests.join("formats")])
    {
        for file in
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
        {
            let text = fs::read_to_string(file).unwrap();
            if let Ok(parsed) = config::yaml::parse("case", &text) {
                collect(&parsed.root, &mut keys);
            }
        }
    }
    assert!(keys.len() > 150, "{}", keys.len());
    keys.into_iter().collect()
}

/// Values, separated by commas; the last ones are empty or have whitespace.
const WORDS: &str = "physical,bond,bridge,vlan,static,dhcp,dhcp6,eth0,br0,eth1,10.0.0.1/8,fd00::1,default,::/0,255.0.255.0,\
                     52:54:00:00:00:01,a/b,0.0.0.0,route,nameserver,1e9,phy,ipv4,ipv4_dhcp,\u{fffd}\u{301},10.0.0.1/,/24,:,[,\
                     -1,999999999999999999999,on,525400000001,52540000000é,x y,";
/// Pieces of text, separated by commas.
const PIECES: &str = "auto,iface,eth0,inet,static,source,*,\\,\n,\n, ,\t,address,#,',\",DEVICE=,IPV4ADDR=,[,],=,:,NICS,\
                      [NIC-CONFIG]\n,MACADDR,ip=,ip6=,BOOTIF=,::,dhcp,é,10.0.0.1,dns-search,hwaddress,IPv6ADDR|1,nic1";

fn random_node(random: &mut Random, keys: &[String], depth: usize) -> Node {
    let words: Vec<&str> = WORDS.split(',').collect();
    match random.roll(if depth == 0 { 5 } else { 9 }) {
        0 => Node::null(),
        1 => Node::from(random.roll(2) == 0),
        2 => Node::from(*random.pick(&[0, 1, -1, 64, 9000, i64::MAX])),
        3 | 4 => Node::from(*random.pick(&words)),
        5 | 6 => {
            Node::from((0..random.roll(4)).map(|_| random_node(random, keys, depth - 1)).collect::<Vec<_>>())
        }
        _ => Node::from(
            (0..random.roll(7))
                .map(|_| (Node::from(random.pick(keys).as_str()), random_node(random, keys, depth - 1)))
                .collect::<Map>(),
        ),
    }
}

#[test]
fn random_documents_do_not_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let keys = keys_of_cases();
    let facts = Facts { fallback: Some("ens3".into()), netplan: true, ..facts() };
    let (mut taken, mut refused) = (0, 0);
    for round in 0..4_000 {
        let mut root = random_node(&mut random, &keys, 5);
        if let Some(map) = root.as_map_mut() {
            map.insert("version", 1 + round % 2);
            for section in ["config", "ethernets", "bridges", "bonds", "vlans", "network", "links", "vnics"] {
                if random.roll(2) == 0 {
                    map.insert(section, random_node(&mut random, &keys, 4));
                }
            }
        }
        for format in FORMATS {
            let mut findings = config::Findings::default();
            let input = if format.syntax == Syntax::Text {
                Node::from(root.to_json().to_string())
            } else {
                root.clone()
            };
            match (format.to_config)(&input, &facts, &mut findings).and_then(|c| parse::parse(&c, &facts)) {
                Ok(_) => taken += 1,
                Err(message) => {
                    assert!(!message.is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(taken > 1_000 && refused > 1_000, "{taken} taken, {refused} refused");
}

#[test]
fn random_text_does_not_panic() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let pieces: Vec<&str> = PIECES.split(',').collect();
    for _ in 0..4_000 {
        let text: String = (0..random.roll(40)).map(|_| *random.pick(&pieces)).collect();
        for format in FORMATS.iter().filter(|f| f.syntax == Syntax::Text) {
            let mut findings = config::Findings::default();
            let node = format.parse("text", &text, &mut findings).unwrap();
            if let Ok(config) = (format.to_config)(&node, &facts(), &mut findings) {
                drop(parse::parse(&config, &facts()));
            }
        }
    }
}
