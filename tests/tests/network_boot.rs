//! Two NICs that swap names, with fixed addresses of both families, a bond, and VLANs on a NIC and on the bond, booted with each
//! supported network service: names, addresses, routes and resolvers are as configured, and SSH is reachable at the NICs'
//! addresses. Also two NICs in different
//! subnets: replies leave through the NIC that received the request (policy routing).

use std::fmt::Write;

use tests::{Facts, Machine, fail, tests_dir};

/// With ifupdown's helper for bonds.
const SERVICES: &[&str] = &["ifenslave", "ifupdown", "netplan.io", "network-manager", "systemd-resolved"];

/// The kernel's eth0 is on the first link and is renamed to eth1; the second one vice versa.
const NICS: &str = "eth0 52:54:00:70:00:01\neth1 52:54:00:71:00:02\neth2 52:54:00:72:00:03\n";

const CONFIG: &str = r#"version: 2
ethernets:
  eth1:
    match: {macaddress: "52:54:00:70:00:01"}
    set-name: eth1
    addresses: [10.70.0.5/24, "fd00:70::5/64"]
    routes: [{to: 0.0.0.0/0, via: 10.70.0.1}, {to: "::/0", via: "fd00:70::1"}]
    nameservers: {addresses: [10.70.0.53, "fd00:70::53"], search: [one.test]}
  eth0:
    match: {macaddress: "52:54:00:71:00:02"}
    set-name: eth0
    addresses: [10.71.0.5/24, "fd00:71::5/64"]
    routes: [{to: 192.0.2.0/24, via: 10.71.0.1, metric: 50}, {to: "2001:db8:2::/48", via: "fd00:71::1"}]
    nameservers: {addresses: [10.71.0.53], search: [two.test]}
  eth2:
    match: {macaddress: "52:54:00:72:00:03"}
    set-name: eth2
bonds:
  bond0:
    interfaces: [eth2]
    parameters: {mode: active-backup, mii-monitor-interval: 100}
    addresses: [10.72.0.5/24]
vlans:
  bond0.7: {id: 7, link: bond0, addresses: [10.73.0.5/24]}
  lan9: {id: 9, link: eth0, mtu: 1400, addresses: [10.74.0.5/24, "fd00:74::5/64"]}
"#;

fn read(name: &str) -> String {
    std::fs::read_to_string(tests_dir().join(name)).unwrap_or_else(|e| fail(&format!("{name}: {e}")))
}

/// The program that reports the machine's network.
fn put_facts(machine: &Machine) {
    machine.put(&tests_dir().join("guest"), "/srv/guest");
    machine.run(&["install", "-m755", "/srv/guest/network-facts", "/usr/local/sbin/facts-more"]);
}

/// A virtual machine with one of the services and without the others: its NICs have permanent addresses, which netplan
/// requires, and udev processes the same names.
fn boots(service: &str, unit: &str, file: &str) {
    let machine = Machine::with(&format!("network-{service}"), SERVICES);
    let others = ["ifupdown", "netplan.io", "network-manager"].into_iter().filter(|p| *p != service);
    // Its helper goes with it.
    let others = others.chain((service != "ifupdown").then_some("ifenslave"));
    machine.run(&[&["dpkg", "--purge"], &others.collect::<Vec<_>>()[..]].concat());
    if unit != "systemd-networkd" {
        machine.run(&["systemctl", "disable", "systemd-networkd.service", "systemd-networkd.socket"]);
    }
    machine.install();
    machine.write("/var/lib/cloud/seed/nocloud/meta-data", "instance-id: i-network\nlocal-hostname: wired\n");
    machine.write("/var/lib/cloud/seed/nocloud/user-data", "#cloud-config\nssh_genkeytypes: [ed25519]\n");
    machine.write("/var/lib/cloud/seed/nocloud/network-config", CONFIG);
    put_facts(&machine);
    machine.connect_nics(NICS, &read("lib/two-wires"));
    machine.make_disk();
    let boot = machine.boot_vm();

    let seen = boot.text("more");
    let diagnostics = format!("{seen}\n{}", boot.diagnostics());
    let has =
        |fact: &str| assert!(seen.lines().any(|l| l.trim() == fact), "{service}: no '{fact}'\n{diagnostics}");
    let begins = |fact: &str| {
        assert!(seen.lines().any(|l| l.starts_with(fact)), "{service}: no '{fact}'\n{diagnostics}")
    };
    for fact in [
        "eth1 link 52:54:00:70:00:01",
        "eth0 link 52:54:00:71:00:02",
        "eth1 address 10.70.0.5/24",
        "eth1 address fd00:70::5/64",
        "eth0 address 10.71.0.5/24",
        "eth0 address fd00:71::5/64",
        "eth2 master bond0",
        "bond0 bond active-backup 1",
        "bond0 address 10.72.0.5/24",
        "bond0.7 vlan 7",
        "bond0.7 address 10.73.0.5/24",
        "lan9 vlan 9",
        "lan9 mtu 1400",
        "lan9 address 10.74.0.5/24",
        "lan9 address fd00:74::5/64",
    ] {
        has(fact);
    }
    has(&format!("{unit} active"));
    for route in [
        "route default via 10.70.0.1 dev eth1",
        "route default via fd00:70::1 dev eth1",
        "route 192.0.2.0/24 via 10.71.0.1 dev eth0",
        "route 2001:db8:2::/48 via fd00:71::1 dev eth0",
    ] {
        begins(route);
    }
    let of = |kind: &str, nic: &str| {
        let line = seen.lines().find(|l| l.starts_with(kind) && l.contains(&format!("({nic})")));
        let line = line.and_then(|l| l.split_once("): ")).map(|(_, rest)| rest).unwrap_or_default();
        // ifupdown configures resolved for one family after the other.
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.sort_unstable();
        words.join(" ")
    };
    assert_eq!(of("dns", "eth1"), "10.70.0.53 fd00:70::53", "{service}: {diagnostics}");
    assert_eq!(of("dns", "eth0"), "10.71.0.53", "{service}: {diagnostics}");
    assert_eq!(of("domain", "eth1"), "one.test", "{service}: {diagnostics}");
    assert_eq!(of("domain", "eth0"), "two.test", "{service}: {diagnostics}");
    let reached = boot.text("reached");
    for address in ["10.70.0.5", "fd00:70::5", "10.71.0.5", "fd00:71::5"] {
        let greeting = format!("{address} SSH-2.0-");
        assert!(
            reached.lines().any(|l| l.starts_with(&greeting)),
            "{service}: {address} is silent\n{diagnostics}"
        );
    }
    assert!(boot.text("status").contains("errors: []"), "{service}: {diagnostics}");
    assert_eq!(boot.text("failed"), "", "{service}: {diagnostics}");
    assert!(
        boot.file(file).is_some() || seen.contains(file),
        "{service}: {file} was not written\n{diagnostics}"
    );
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn networkd_boots_with_swapped_nics() {
    boots("networkd", "systemd-networkd", "/etc/systemd/network/10-cloud-init-eth1.network");
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn ifupdown_boots_with_swapped_nics() {
    boots("ifupdown", "networking", "/etc/network/interfaces.d/50-cloud-init");
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn netplan_boots_with_swapped_nics() {
    boots("netplan.io", "systemd-networkd", "/etc/netplan/50-cloud-init.yaml");
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn network_manager_boots_with_swapped_nics() {
    let file = "/etc/NetworkManager/system-connections/cloud-init-eth1.nmconnection";
    boots("network-manager", "NetworkManager", file);
}

const SECOND: &str = "\
version: 2
ethernets:
  eth0:
    addresses: [10.70.0.5/24, \"fd00:70::5/64\"]
    routes: [{to: 0.0.0.0/0, via: 10.70.0.1}, {to: \"::/0\", via: \"fd00:70::1\"}]
  eth1:
    addresses: [10.71.0.5/24, \"fd00:71::5/64\"]
    routes: [{to: 0.0.0.0/0, via: 10.71.0.1, table: 101}, {to: \"::/0\", via: \"fd00:71::1\", table: 101}]
    routing-policy: [{from: 10.71.0.5, table: 101}, {from: \"fd00:71::5\", table: 101, priority: 30}]
";

/// Each address is requested from another subnet, and answered through its own NIC.
fn answers(boot: &Facts, of: &[(&str, &str)]) {
    let (seen, reached) = (boot.text("more"), boot.text("reached"));
    let diagnostics = format!("{seen}\n{reached}\n{}", boot.diagnostics());
    for (address, nic) in of {
        let answer = format!("answer from {address}: {nic}");
        assert!(seen.lines().any(|l| l == answer), "no '{answer}'\n{diagnostics}");
        let greeting = format!("{address} SSH-2.0-");
        assert!(reached.lines().any(|l| l.starts_with(&greeting)), "{address} is silent\n{diagnostics}");
    }
    assert!(boot.text("status").contains("errors: []"), "{diagnostics}");
    assert_eq!(boot.text("failed"), "", "{diagnostics}");
}

/// `routing-policy` of version 2 through networkd, in a container: names suffice to identify its NICs.
#[test]
fn second_nic_replies_by_its_routing_policy() {
    let machine = Machine::new("network-policy");
    let seed = "/var/lib/cloud/seed/nocloud";
    machine.write(&format!("{seed}/meta-data"), "instance-id: i-policy\nlocal-hostname: wired\n");
    machine.write(&format!("{seed}/user-data"), "#cloud-config\nssh_genkeytypes: [ed25519]\n");
    machine.write(&format!("{seed}/network-config"), SECOND);
    put_facts(&machine);
    let of = [("10.70.0.5", "eth0"), ("fd00:70::5", "eth0"), ("10.71.0.5", "eth1"), ("fd00:71::5", "eth1")];
    let ask = of.map(|(address, _)| address).join(" ");
    machine.connect_nics(NICS, &format!("ASK='{ask}'\n{}", read("lib/two-subnets")));
    answers(&machine.boot(), &of);
}

/// EC2's metadata of a second NIC through netplan: its router is queried by DHCP, its addresses have rules and a table.
/// In a virtual machine, because netplan requires permanent addresses.
#[test]
#[ignore = "a virtual machine: make slow"]
fn ec2_second_nic_gets_policy_routes() {
    let machine = Machine::with("network-ec2", SERVICES);
    machine.run(&["dpkg", "--purge", "ifupdown", "ifenslave", "network-manager"]);
    machine.install();
    put_facts(&machine);
    let served = machine.scratch("served");
    let nic = |number: usize, mac: &str, addresses: &str| {
        serde_json::json!({
            "device-number": number.to_string(), "mac": mac, "local-ipv4s": addresses,
            "subnet-ipv4-cidr-block": format!("10.7{number}.0.0/24"),
        })
    };
    let macs: Vec<&str> = NICS.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    let server = serde_json::json!({
        "versions": ["2021-03-23", "latest"],
        "token": {
            "method": "PUT", "path": "/latest/api/token", "ttl": "X-aws-ec2-metadata-token-ttl-seconds",
            "header": "X-aws-ec2-metadata-token",
        },
        "tree": {
            "meta-data": {
                "instance-id": "i-0policy", "local-hostname": "wired", "mac": macs[0],
                "network": { "interfaces": { "macs": {
                    macs[0]: nic(0, macs[0], "10.70.0.5"),
                    macs[1]: nic(1, macs[1], "10.71.0.5\n10.71.0.6"),
                } } },
            },
            "user-data": "#cloud-config\nssh_genkeytypes: [ed25519]\n",
        },
    });
    tests::write(&served.join("server.json"), server.to_string());
    let of = [("10.70.0.5", "eth0"), ("10.71.0.5", "eth1"), ("10.71.0.6", "eth1")];
    let mut cloud = String::new();
    let (lib, ask) = (tests_dir().join("lib"), of.map(|(address, _)| address).join(" "));
    let _ = writeln!(cloud, "LIB='{}' SERVER='{}' ASK='{ask}'", lib.display(), served.display());
    machine.connect_nics(NICS, &(cloud + &read("lib/two-subnets")));
    machine.make_disk();
    let id = "serial=ec2abc12-3456-7890-abcd-ef0123456789,uuid=ec2abc12-3456-7890-abcd-ef0123456789";
    let firmware = format!("type=1,manufacturer=Amazon EC2,product=t3.micro,{id}");
    let boot = machine.boot_vm_with(&["-smbios", &firmware]);
    answers(&boot, &of);
    let seen = boot.text("more");
    for rule in ["10.71.0.5", "10.71.0.6"] {
        let line = |l: &str| l.starts_with("rule ") && l.contains(&format!("from {rule} lookup 101"));
        assert!(seen.lines().any(line), "no rule for {rule}\n{seen}");
    }
    assert_eq!(boot.text("cloud-id"), "aws", "{seen}");
}
