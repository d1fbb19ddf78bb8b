//! A configuration that is rendered and parsed again is the same: through netplan's file and, as far as the format
//! permits, an interfaces file. Thousands of configurations are generated, the same ones in each run.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::convert;
use config::Node;
use netconfig::Facts;
use netconfig::model::{Link, LinkKind, Method, Model, Route};
use netconfig::parse;
use scratch::Random;

fn v4(random: &mut Random) -> String {
    format!("10.{}.{}.{}", random.roll(3), random.roll(256), 1 + random.roll(254))
}

fn v6(random: &mut Random) -> String {
    format!("2001:db8:{:x}::{:x}", random.roll(3), 1 + random.roll(0xfffe))
}

fn read(text: &str) -> Model {
    let root = config::yaml::parse("made up", text).unwrap().root;
    let parsed = parse::parse(&root, &Facts::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let messages: Vec<String> = parsed.findings.iter().map(ToString::to_string).collect();
    assert!(messages.is_empty(), "{messages:?}\n{text}");
    parsed.model
}

fn rendered(text: &str) -> String {
    let converted = convert("yaml", "made up", text, ("netplan", "debian"), &Facts::default()).unwrap();
    converted.files.into_iter().next().unwrap().content
}

/// Returns a version 1 document that netplan's format can express.
fn version_1(random: &mut Random) -> String {
    let nics = 1 + random.roll(4);
    let mut text = "version: 1\nconfig:\n".to_string();
    for i in 0..nics {
        text += &format!("- type: physical\n  name: eth{i}\n");
        if random.one_in_three() {
            text += &format!("  mac_address: '52:54:00:0{}:ab:{:02x}'\n", random.roll(10), i);
        }
        common(random, &mut text);
    }
    if nics > 2 && random.one_in_three() {
        text += "- type: bond\n  name: bond0\n  bond_interfaces: [eth0, eth1]\n  params: {bond-mode: active-backup, bond_miimon: 100, bond-xmit_hash_policy: layer2}\n";
        common(random, &mut text);
    }
    if nics > 3 && random.one_in_three() {
        text += "- type: bridge\n  name: br0\n  bridge_interfaces: [eth3, eth2]\n  params: {bridge_stp: 'off', bridge_fd: 4, bridge_ageing: 9}\n";
        common(random, &mut text);
    }
    if random.one_in_three() {
        text +=
            &format!("- type: vlan\n  name: v\n  vlan_id: {}\n  vlan_link: eth0\n", 1 + random.roll(4094));
        common(random, &mut text);
    }
    text
}

fn common(random: &mut Random, text: &mut String) {
    if random.one_in_three() {
        *text += &format!("  mtu: {}\n", 1280 + random.roll(8000));
    }
    *text += "  subnets:\n";
    let mut families = Vec::new();
    for (kind, say) in [("dhcp4", random.one_in_three()), ("dhcp6", random.one_in_three())] {
        if say {
            families.push(format!("  - type: {kind}\n"));
        }
    }
    for _ in 0..random.roll(3) {
        let (address, gateway, prefix) = if random.one_in_three() {
            (v6(random), v6(random), 48 + random.roll(80))
        } else {
            (v4(random), v4(random), 8 + random.roll(25))
        };
        let mut one = format!("  - type: static\n    address: '{address}/{prefix}'\n");
        if random.one_in_three() {
            one += &format!("    gateway: '{gateway}'\n");
        }
        if random.one_in_three() {
            one += &format!(
                "    dns_nameservers: ['{}', '{}']\n    dns_search: [a.test]\n",
                v4(random),
                v6(random)
            );
        }
        if random.one_in_three() {
            let metric = random.roll(500);
            one += &format!(
                "    routes:\n    - {{network: 10.9.0.0, netmask: 255.255.0.0, gateway: 10.0.0.1, metric: {metric}}}\n"
            );
            one += &format!("    - {{destination: '2001:db8:9::/48', gateway: '{}'}}\n", v6(random));
        }
        families.push(one);
    }
    if families.is_empty() {
        families.push("  - type: manual\n".into());
    }
    *text += &families.concat();
}

/// Returns the settings of a link that both formats can express.
#[derive(Debug, PartialEq)]
struct LinkMeaning {
    kind: LinkKind,
    mac: Option<String>,
    mtu: Option<String>,
    dynamic: BTreeSet<&'static str>,
    addresses: Vec<String>,
    routes: BTreeSet<String>,
    servers: Vec<String>,
    search: Vec<String>,
    bond: Option<String>,
    ports: BTreeSet<String>,
    vlan: Option<(String, String)>,
    params: BTreeMap<String, String>,
}

fn route(route: &Route) -> String {
    format!("{}/{} {:?} {:?}", route.network, route.prefix, route.gateway, route.metric)
}

fn link_meaning(link: &Link) -> LinkMeaning {
    let text = |node: &Option<Node>| node.as_ref().and_then(Node::scalar_text);
    let mut sense = LinkMeaning {
        kind: link.kind,
        mac: link.mac.clone(),
        mtu: text(&link.mtu),
        dynamic: BTreeSet::new(),
        addresses: Vec::new(),
        routes: BTreeSet::new(),
        servers: Vec::new(),
        search: Vec::new(),
        bond: link.bond.clone(),
        ports: link.ports.iter().cloned().collect(),
        vlan: text(&link.vlan_id).zip(link.vlan_link.clone()),
        params: BTreeMap::new(),
    };
    for subnet in &link.subnets {
        match subnet.method {
            Method::Dhcp4 => drop(sense.dynamic.insert("dhcp4")),
            Method::Dhcp6 => drop(sense.dynamic.insert("dhcp6")),
            _ => {}
        }
        if let (Some(address), Some(prefix)) = (&subnet.address, subnet.prefix) {
            sense.addresses.push(format!("{address}/{prefix}"));
        }
        if let Some(gateway) = &subnet.gateway {
            let network = if gateway.contains(':') { "::" } else { "0.0.0.0" };
            let gateway = Some(gateway.clone());
            sense.routes.insert(route(&Route { network: network.into(), gateway, ..Route::default() }));
        }
        sense.routes.extend(subnet.routes.iter().map(route));
        sense.servers.extend(subnet.dns.servers.iter().cloned());
        sense.search.extend(subnet.dns.search.iter().cloned());
    }
    sense.search.dedup();
    for (key, value) in link.params.iter().filter(|_| matches!(link.kind, LinkKind::Bond | LinkKind::Bridge))
    {
        let key = key.scalar_text().unwrap().replace('_', "-");
        sense.params.insert(key, value.scalar_text().unwrap());
    }
    sense
}

fn meanings(model: &Model) -> BTreeMap<String, LinkMeaning> {
    model.links.iter().map(|link| (link.name.clone(), link_meaning(link))).collect()
}

#[test]
fn version_1_survives_netplan() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut bonds, mut bridges, mut vlans) = (0, 0, 0);
    for _ in 0..1_000 {
        let text = version_1(&mut random);
        let before = read(&text);
        let netplan = rendered(&text);
        let after = read(&netplan);
        assert_eq!(meanings(&before), meanings(&after), "{text}\n{netplan}");
        let count = |kind| usize::from(before.links.iter().any(|l| l.kind == kind));
        bonds += count(LinkKind::Bond);
        bridges += count(LinkKind::Bridge);
        vlans += count(LinkKind::Vlan);
    }
    assert!(bonds > 50 && bridges > 50 && vlans > 50, "{bonds} {bridges} {vlans}");
}

/// Returns a version 2 document with every section.
fn version_2(random: &mut Random) -> String {
    let mut text = "version: 2\nethernets:\n".to_string();
    let nics = 2 + random.roll(4);
    for i in 0..nics {
        text += &format!("  nic{i}:\n    dhcp4: {}\n", random.one_in_three());
        if random.one_in_three() {
            text += &format!(
                "    match: {{macaddress: '52:54:00:00:00:{i:02X}', driver: virtio_net}}\n    set-name: eth{i}\n"
            );
        }
        if random.one_in_three() {
            text += "    dhcp4-overrides: {route-metric: 7, use-dns: no}\n    dhcp6: yes\n    dhcp6-overrides: {route-metric: 7, use-dns: no}\n    wakeonlan: true\n    optional: on\n";
        }
        device(random, &mut text);
    }
    if random.one_in_three() {
        text += "bonds:\n  bond0:\n    interfaces: [nic0]\n    macaddress: '02:00:00:00:00:01'\n    parameters: {mode: 802.3ad, lacp-rate: fast, mii-monitor-interval: 100, arp-ip-targets: [10.0.0.1]}\n";
        device(random, &mut text);
    }
    if random.one_in_three() {
        text += "bridges:\n  br0:\n    interfaces: [nic1]\n    parameters: {stp: true, forward-delay: 0, path-cost: {nic1: 5}}\n";
        device(random, &mut text);
    }
    if random.one_in_three() {
        text += &format!("vlans:\n  v:\n    id: {}\n    link: nic0\n", 1 + random.roll(4094));
        device(random, &mut text);
    }
    text
}

fn device(random: &mut Random, text: &mut String) {
    if random.one_in_three() {
        *text += &format!("    mtu: {}\n", 1280 + random.roll(8000));
    }
    // A gateway is in the subnet: another one would be written as an on-link route.
    let has_gateways = random.one_in_three();
    let (four, six) = if has_gateways { (8, 32) } else { (8 + random.roll(25), 64) };
    *text += &format!("    addresses: ['{}/{four}', '{}/{six}']\n", v4(random), v6(random));
    if has_gateways {
        *text += &format!("    gateway4: {}\n    gateway6: '{}'\n", v4(random), v6(random));
    }
    if random.one_in_three() {
        *text += &format!(
            "    nameservers: {{addresses: ['{}', '{}'], search: [a.test, b.test]}}\n",
            v4(random),
            v6(random)
        );
    }
    if random.one_in_three() {
        *text += &format!(
            "    routes: [{{to: default, via: '{}', metric: {}}}, {{to: 10.8.0.0/16, via: 10.0.0.9, table: 5, mtu: 1400}}]\n",
            v4(random),
            random.roll(300)
        );
        *text += "    routing-policy: [{from: 10.8.0.0/16, table: 5, priority: 10}]\n";
    }
}

#[test]
fn version_2_survives_netplan() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for _ in 0..1_000 {
        let text = version_2(&mut random);
        let netplan = rendered(&text);
        // netplan's file has its sections and devices sorted: the order has no meaning.
        let sorted = |mut model: Model| {
            model.links.sort_by(|a, b| a.id.cmp(&b.id));
            model
        };
        assert_eq!(sorted(read(&text)), sorted(read(&netplan)), "{text}\n{netplan}");
    }
}

/// Returns addresses, gateways, and the other methods.
type EniLink = (Vec<String>, Vec<String>, BTreeSet<&'static str>);

/// Returns the parts of a link that an interfaces file can express and its parser reads: not hooks, options or settings of a
/// single family.
fn eni_links(model: &Model) -> BTreeMap<String, EniLink> {
    let of = |link: &Link| {
        let subnets = link.subnets.iter();
        let addresses =
            subnets.clone().filter_map(|s| Some(format!("{}/{}", s.address.as_ref()?, s.prefix?)));
        let gateways = subnets.clone().filter_map(|s| s.gateway.clone());
        let dynamic = subnets.filter_map(|s| match s.method {
            Method::Dhcp6 if link.subnets.len() > 1 => Some("dhcp6"),
            Method::Dhcp | Method::Dhcp4 | Method::Dhcp6 => Some("dhcp"),
            _ => None,
        });
        (addresses.collect(), gateways.collect(), dynamic.collect())
    };
    model.links.iter().filter(|l| l.name != "lo").map(|link| (link.name.clone(), of(link))).collect()
}

#[test]
fn both_versions_survive_interfaces_files() {
    let mut random = Random(0x853c_49e6_748f_ea9b);
    let facts = Facts::default();
    let mut stanzas = 0;
    for round in 0..1_000 {
        let text = if round % 2 == 0 { version_1(&mut random) } else { version_2(&mut random) };
        let files = convert("yaml", "made up", &text, ("eni", "debian"), &facts).unwrap().files;
        let file = files.iter().find(|f| f.path.contains("interfaces")).unwrap();
        let (config, _) = netconfig::parse_input("eni", "interfaces", &file.content, &facts).unwrap();
        let parsed = parse::parse(&config, &facts).unwrap_or_else(|e| panic!("{e}\n{}", file.content));
        assert_eq!(eni_links(&read(&text)), eni_links(&parsed.model), "{text}\n{}", file.content);
        stanzas += file.content.matches("iface ").count();
    }
    assert!(stanzas > 5_000, "{stanzas}");
}
