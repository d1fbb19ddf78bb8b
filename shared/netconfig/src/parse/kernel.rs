//! The network that a kernel command line describes (in the kernel's own form, klibc's and dracut's), converted to
//! version 1: `ip=`, `ip6=`, `BOOTIF=`, `bootdev=`, `nameserver=`, `ifname=`, `vlan=`, `bond=`, `bridge=`, `team=`,
//! `rd.route=` and `rd.peerdns=0`. `rd.neednet=` and `rd.net.timeout.*=` concern the initramfs only. Files of an initramfs have precedence; this is for machines without them. A device is configured only
//! if it exists or is built here; what names no device is left to the fallback configuration, which also configures IPv6.

use std::collections::HashSet;
use std::net::IpAddr;

use config::{Findings, Map, Node, Position, shown_name};

use crate::address::{is_in_subnet, parse_network, parse_prefix};

use super::facts::Facts;
use super::klibc;
use super::scalar::is_ethernet_mac;
use super::section::version_1;

/// The words that build a device, with the value that each has without a parameter. Bonds and teams with a name only have its members.
const BUILDERS: [(&str, &str); 4] =
    [("bond", "bond0:eth0,eth1"), ("team", "team0:eth0,eth1"), ("bridge", "br0:eth0"), ("vlan", "")];

/// The runners of a team, which becomes a bond, and the mode of the bond.
const TEAM_RUNNERS: [(&str, &str); 6] = [
    ("activebackup", "active-backup"),
    ("broadcast", "broadcast"),
    ("lacp", "802.3ad"),
    ("loadbalance", "balance-xor"),
    ("random", "balance-rr"),
    ("roundrobin", "balance-rr"),
];

/// The metric of default routes by other devices than that of `bootdev=`.
const OTHER_METRIC: i64 = 2048;

/// Converts the kernel command line (a scalar) to version 1, without entries if it describes no device.
///
/// # Errors
/// Never fails.
pub fn to_v1(text: &Node, facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
    let words = words(text.as_str().unwrap_or_default());
    let at = Position { source: Some("kernel command line".into()), line: 0, column: 0 };
    let values = |key: &str| -> Vec<&str> {
        let of_key = |word: &'_ String| word.len() > key.len() && word.starts_with(key);
        let words = words.iter().filter(|word| of_key(word) && word.as_bytes()[key.len()] == b'=');
        words.map(|word| &word[key.len() + 1..]).collect()
    };
    let mut network = Network { facts, findings, at, devices: Vec::new(), boot_nic: None };
    values("ifname").into_iter().for_each(|value| network.rename(value));
    for (key, default) in BUILDERS {
        values(key).into_iter().for_each(|value| network.build(key, value, default));
    }
    network.keep_existing_members();
    let boot_mac = values("BOOTIF").last().copied().filter(|_| !values("rd.bootif").contains(&"0"));
    let boot_nic = boot_mac.and_then(parse_bootif).and_then(|mac| network.name_of(&mac));
    network.boot_nic = boot_nic.or_else(|| Some(network.resolved(values("bootdev").last()?)));
    let mut unnamed = Vec::new();
    for (key, value) in words.iter().filter_map(|word| word.split_once('=')) {
        if ["ip", "ip6"].contains(&key) {
            network.add_argument(key, value, &mut unnamed);
        }
    }
    let servers: Vec<&str> = values("nameserver").iter().map(|text| text.trim_matches(['[', ']'])).collect();
    let routes = values("rd.route");
    for argument in unnamed {
        network.add_unnamed(argument, !(servers.is_empty() && routes.is_empty()));
    }
    network.add_missing_subnets();
    routes.into_iter().for_each(|value| network.add_route(value));
    network.add_servers(&servers);
    if values("bootdev").last().is_some() {
        network.prefer_boot_nic();
    }
    let uses_servers = !values("rd.peerdns").contains(&"0");
    let entry = |device: &Device| device.entry(facts, &network.at, uses_servers);
    Ok(version_1(network.devices.iter().map(entry).collect()))
}

/// Returns the words of a command line; after an unbalanced quote, those between whitespace.
fn words(command_line: &str) -> Vec<String> {
    klibc::shell_words(command_line)
        .unwrap_or_else(|| command_line.split_whitespace().map(Into::into).collect())
}

/// Returns whether a command line configures a network before user space.
pub fn has_network_argument(command_line: &str) -> bool {
    words(command_line).iter().any(|word| word.starts_with("ip=") || word.starts_with("ip6="))
}

/// Returns whether a command line describes a network, with or without `ip=`.
pub fn describes_network(command_line: &str) -> bool {
    let builds = |word: &String| {
        word.split_once('=').is_some_and(|(key, _)| BUILDERS.iter().any(|(builder, _)| *builder == key))
    };
    has_network_argument(command_line) || words(command_line).iter().any(builds)
}

/// Parses `01-52-54-00-00-00-01`, as PXE loaders write it: the hardware type precedes the address.
fn parse_bootif(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split(['-', ':']).collect();
    let mac = if parts.len() == 7 { &parts[1..] } else { &parts[..] }.join(":");
    is_ethernet_mac(&mac).then(|| mac.to_ascii_lowercase())
}

/// The type of a device, with the devices below it in [`Device::lower`].
#[derive(Debug, PartialEq)]
enum Kind {
    Physical,
    Bond(Map),
    Bridge,
    Vlan(i64),
}

/// A device that the command line describes.
#[derive(Debug)]
struct Device {
    name: String,
    kind: Kind,
    lower: Vec<String>,
    /// The MAC address by which `ifname=` identifies it.
    mac: Option<String>,
    /// The MAC address to set.
    new_mac: Option<String>,
    mtu: Option<i64>,
    subnets: Vec<Subnet>,
}

#[derive(Debug, Default, Clone)]
struct Subnet {
    method: &'static str,
    address: Option<String>,
    mask: Option<String>,
    gateway: Option<String>,
    servers: Vec<String>,
    routes: Vec<Node>,
    metric: Option<i64>,
}

impl Device {
    fn new(name: &str, kind: Kind) -> Device {
        let (name, lower, subnets) = (name.to_string(), Vec::new(), Vec::new());
        Device { name, kind, lower, mac: None, new_mac: None, mtu: None, subnets }
    }

    /// Returns the entry of version 1.
    fn entry(&self, facts: &Facts, at: &Position, uses_servers: bool) -> Node {
        let mut entry = Map::from([("name", self.name.as_str().into())]);
        let kind = match &self.kind {
            Kind::Physical => {
                entry.insert_some("mac_address", self.mac.as_deref().or(facts.mac_of(&self.name)));
                entry.insert_some("macaddress", self.new_mac.as_deref());
                "physical"
            }
            Kind::Bond(params) => {
                entry.insert("bond_interfaces", strings(&self.lower));
                entry.insert("params", params.clone());
                "bond"
            }
            Kind::Bridge => {
                entry.insert("bridge_interfaces", strings(&self.lower));
                // As in dracut. NetworkManager's default is on, with a delay of 30 s.
                entry.insert("params", Map::from([("bridge_stp", false.into())]));
                "bridge"
            }
            Kind::Vlan(id) => {
                entry.insert("vlan_id", *id);
                entry.insert("vlan_link", self.lower.concat());
                "vlan"
            }
        };
        if self.kind != Kind::Physical {
            entry.insert_some("mac_address", self.new_mac.as_deref());
        }
        entry.insert("type", kind);
        entry.insert_some("mtu", self.mtu);
        let is_leased = self.subnets.iter().any(|subnet| subnet.method.starts_with("dhcp"));
        for key in ["dhcp4-overrides", "dhcp6-overrides"].into_iter().filter(|_| is_leased && !uses_servers) {
            entry.insert(key, Node::from([("use-dns", Node::from(false))]));
        }
        entry.insert("subnets", self.subnets.iter().map(|subnet| subnet.node(at)).collect::<Vec<_>>());
        Node { at: at.clone(), ..entry.into() }
    }
}

impl Subnet {
    fn node(&self, at: &Position) -> Node {
        let mut subnet = Map::from([("type", self.method.into())]);
        let fixed = [("address", &self.address), ("netmask", &self.mask), ("gateway", &self.gateway)];
        for (key, value) in fixed {
            subnet.insert_some(key, value.as_deref());
        }
        subnet.insert_unless_empty("dns_nameservers", strings(&self.servers));
        subnet.insert_unless_empty("routes", self.routes.clone());
        subnet.insert_some("metric", self.metric);
        Node { at: at.clone(), ..subnet.into() }
    }

    /// Returns whether an address is in this subnet.
    fn contains(&self, other: &str) -> bool {
        let network = self
            .address
            .as_deref()
            .and_then(|own| parse_network(own, None, self.mask.as_deref().map(Node::from).as_ref()).ok());
        network.is_some_and(|own| is_in_subnet(other, &own.address, own.prefix) == Some(true))
    }
}

struct Network<'a> {
    facts: &'a Facts,
    findings: &'a mut Findings,
    at: Position,
    devices: Vec<Device>,
    /// The NIC that `BOOTIF=` or `bootdev=` names.
    boot_nic: Option<String>,
}

impl Network<'_> {
    fn report(&mut self, key: &str, message: impl Into<String>) {
        self.findings.invalid(&self.at, key, message);
    }

    /// Returns the name of the NIC with a MAC address.
    fn name_of(&self, mac: &str) -> Option<String> {
        let renamed = self.devices.iter().find(|device| device.mac.as_deref() == Some(mac));
        renamed.map(|device| device.name.as_str()).or_else(|| self.facts.name_of_needed(mac)).map(Into::into)
    }

    /// Returns the name that a word stands for: a name, the MAC address of a NIC, or `BOOTIF`.
    fn resolved(&self, word: &str) -> String {
        let mac = Some(word.replace('-', ":").to_ascii_lowercase()).filter(|mac| is_ethernet_mac(mac));
        let name = match (mac, &self.boot_nic) {
            (Some(mac), _) => self.name_of(&mac),
            (None, Some(boot_nic)) if word == "BOOTIF" => Some(boot_nic.clone()),
            _ => None,
        };
        name.unwrap_or_else(|| word.to_string())
    }

    /// Returns the device of this name; adds it if it is a NIC of the machine.
    fn device(&mut self, name: &str) -> Option<&mut Device> {
        let known = self.devices.iter().position(|device| device.name == name);
        let index = known.unwrap_or(self.devices.len());
        if known.is_none() {
            if self.facts.with_name(name).is_none() {
                self.facts.is_nic_missing.set(true);
                return None;
            }
            self.devices.push(Device::new(name, Kind::Physical));
        }
        self.devices.get_mut(index)
    }

    /// Adds the NIC of `ifname=NAME:MAC`.
    fn rename(&mut self, value: &str) {
        let parsed = value.split_once(':').and_then(|(name, mac)| Some((name, parse_bootif(mac)?)));
        let Some((name, mac)) = parsed.filter(|(name, _)| !name.is_empty()) else {
            return self.report("ifname", "expected a name and a MAC address; ignored");
        };
        if self.facts.name_of_needed(&mac).is_some() {
            self.devices.push(Device { mac: Some(mac), ..Device::new(name, Kind::Physical) });
        }
    }

    /// Adds the device of `bond=`, `team=`, `bridge=` or `vlan=`.
    fn build(&mut self, key: &'static str, value: &str, default: &str) {
        let fields = split_fields(if value.is_empty() { default } else { value });
        let field = |i: usize| fields.get(i).map_or("", String::as_str);
        let name = field(0);
        let members = match default.split_once(':') {
            Some((_, members)) if fields.len() == 1 && key != "bridge" => members,
            _ => field(1),
        };
        let mut lower: Vec<String> =
            members.split(',').filter(|l| !l.is_empty()).map(|l| self.resolved(l)).collect();
        let kind = match key {
            "vlan" => {
                let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
                let Some(id) = name[name.len() - digits..].parse().ok().filter(|id| *id <= 4094) else {
                    return self
                        .report(key, "expected a name that ends in a VLAN ID from 0 to 4094; ignored");
                };
                // Without a parent in a field of its own it is in the name: eth0.5.
                lower
                    .extend(name.rsplit_once('.').filter(|_| fields.len() == 1).map(|(link, _)| link.into()));
                Kind::Vlan(id)
            }
            "bridge" => Kind::Bridge,
            "team" => {
                self.report(key, "team devices are not supported; building a bond");
                let mode = TEAM_RUNNERS.iter().find(|(runner, _)| *runner == field(2));
                Kind::Bond(Map::from([("bond-mode", mode.unwrap_or(&TEAM_RUNNERS[0]).1.into())]))
            }
            _ => Kind::Bond(bond_options(field(2))),
        };
        let mtu = if key == "bond" { field(3).parse().ok() } else { None };
        if name.is_empty() || lower.is_empty() {
            return self.report(key, "expected a name and the devices below it; ignored");
        }
        self.devices.push(Device { lower, mtu, ..Device::new(name, kind) });
    }

    /// Removes members that neither exist nor are built, and the devices that have no others; adds the NICs among them.
    fn keep_existing_members(&mut self) {
        loop {
            let names: HashSet<String> = self.devices.iter().map(|device| device.name.clone()).collect();
            let exists = |name: &String| names.contains(name) || self.facts.with_name(name).is_some();
            let mut missing = Vec::new();
            for device in &mut self.devices {
                let name = &device.name;
                device.lower.retain(|lower| {
                    let is_usable = lower != name && exists(lower);
                    missing.extend((!is_usable).then(|| lower.clone()));
                    is_usable
                });
            }
            self.devices.retain(|device| device.kind == Kind::Physical || !device.lower.is_empty());
            if missing.is_empty() {
                break;
            }
            self.facts.is_nic_missing.set(true);
            for name in missing {
                self.report("bond, bridge, vlan", format!("no device {}; ignored", shown_name(&name)));
            }
        }
        let lower: Vec<String> = self.devices.iter().flat_map(|device| device.lower.clone()).collect();
        for name in lower {
            self.device(&name);
        }
        // Members precede what is built of them.
        sort::sort_by_key(&mut self.devices, |device| device.kind != Kind::Physical);
    }

    /// Adds an `ip=` to its device; one that names no device is left for later.
    fn add_argument(&mut self, key: &str, value: &str, unnamed: &mut Vec<IpArgument>) {
        let mut argument = match parse_ip_argument(value, key == "ip6") {
            Ok(argument) => argument,
            Err(wanted) => return self.report(key, format!("expected {wanted}; ignored")),
        };
        for problem in std::mem::take(&mut argument.problems) {
            self.report(key, format!("expected {problem}; ignored"));
        }
        let named = argument.device.take().map(|device| self.resolved(&device));
        let Some(name) = named.filter(|name| name != "BOOTIF") else {
            unnamed.extend((!argument.subnets.is_empty()).then_some(argument));
            return;
        };
        let is_off = argument.subnets.is_empty();
        match self.device(&name) {
            // Without an address it is not a description.
            Some(device) if is_off && device.kind == Kind::Physical => {}
            Some(device) => device.add(argument),
            None => self.report(key, format!("no device {}; ignored", shown_name(&name))),
        }
    }

    /// Adds an `ip=` that names no device: to the NIC that the machine booted from, else to the devices without an
    /// address that others are not built of, else to the preferred NIC, unless that is what the fallback does.
    fn add_unnamed(&mut self, argument: IpArgument, has_settings: bool) {
        let is_static = argument.subnets.iter().any(|subnet| subnet.address.is_some());
        let lower = self.lower();
        let mut names: Vec<String> =
            self.boot_nic.iter().filter(|nic| !lower.contains(*nic)).cloned().collect();
        if names.is_empty() {
            let free = |device: &&Device| device.subnets.is_empty() && !lower.contains(&device.name);
            names = self.devices.iter().filter(free).map(|device| device.name.clone()).collect();
        }
        if names.is_empty() && (is_static || has_settings) {
            if self.facts.fallback.is_none() {
                self.facts.is_nic_missing.set(true);
            }
            names.extend(self.facts.fallback.clone());
        }
        for name in names.into_iter().take(if is_static { 1 } else { usize::MAX }) {
            if let Some(device) = self.device(&name) {
                device.add(argument.clone());
            }
        }
    }

    /// Returns the names of the devices that others are built of.
    fn lower(&self) -> HashSet<String> {
        self.devices.iter().flat_map(|device| device.lower.iter().cloned()).collect()
    }

    /// Sets DHCP on what is built without `ip=`, and removes NICs that have only a name.
    fn add_missing_subnets(&mut self) {
        let lower = self.lower();
        self.devices.retain(|device| {
            device.kind != Kind::Physical || !device.subnets.is_empty() || lower.contains(&device.name)
        });
        for device in self.devices.iter_mut().filter(|device| device.kind != Kind::Physical) {
            if device.subnets.is_empty() && !lower.contains(&device.name) {
                device.subnets.push(Subnet { method: "dhcp", ..Subnet::default() });
            }
        }
    }

    /// Adds the route of `rd.route=DESTINATION:GATEWAY:DEVICE` to its device, else to the one whose subnet has the gateway.
    fn add_route(&mut self, value: &str) {
        let fields = split_fields(value);
        let field = |i: usize| fields.get(i).map(String::as_str).filter(|field| !field.is_empty());
        let gateway = field(1);
        let is_valid = field(0).is_some_and(|to| parse_network(to, None, None).is_ok())
            && gateway.is_none_or(|gateway| gateway.parse::<IpAddr>().is_ok());
        if !is_valid {
            return self.report("rd.route", "expected a destination, a gateway and a device; ignored");
        }
        let mut route = Map::new();
        route.insert_some("destination", field(0));
        route.insert_some("gateway", gateway);
        let named = field(2).map(|name| self.resolved(name));
        let contains = |device: &Device| {
            named.is_none() && gateway.is_some_and(|g| device.subnets.iter().any(|subnet| subnet.contains(g)))
        };
        let is_target = |device: &Device| match &named {
            Some(name) => device.name == *name,
            None => !device.subnets.is_empty(),
        };
        let devices = &mut self.devices;
        let index = devices.iter().position(contains).or_else(|| devices.iter().position(is_target));
        let device = index.and_then(|index| devices.get_mut(index));
        match device.and_then(|device| {
            let fitting =
                device.subnets.iter().position(|subnet| gateway.is_some_and(|g| subnet.contains(g)));
            device.subnets.get_mut(fitting.unwrap_or(0))
        }) {
            Some(subnet) => subnet.routes.push(route.into()),
            None => self.report("rd.route", "no device with an address for it; ignored"),
        }
    }

    /// Gives the default routes of the other devices a higher metric than that of `bootdev=` has in any network service.
    fn prefer_boot_nic(&mut self) {
        let others = self.devices.iter_mut().filter(|device| Some(&device.name) != self.boot_nic.as_ref());
        others.flat_map(|device| &mut device.subnets).for_each(|subnet| subnet.metric = Some(OTHER_METRIC));
    }

    /// Adds the servers of `nameserver=` to the first subnet of each device.
    fn add_servers(&mut self, servers: &[&str]) {
        for server in servers {
            if server.parse::<IpAddr>().is_err() {
                self.report("nameserver", "expected an IP address; ignored");
                continue;
            }
            for subnet in self.devices.iter_mut().filter_map(|device| device.subnets.first_mut()) {
                if !subnet.servers.iter().any(|known| known == server) {
                    subnet.servers.push(server.to_string());
                }
            }
        }
    }
}

impl Device {
    fn add(&mut self, argument: IpArgument) {
        self.mtu = argument.mtu.or(self.mtu);
        self.new_mac = argument.mac.or(self.new_mac.take());
        self.subnets.extend(argument.subnets);
        if self.subnets.is_empty() {
            self.subnets.push(Subnet { method: "manual", ..Subnet::default() });
        }
    }
}

fn strings(list: &[String]) -> Vec<Node> {
    list.iter().map(|text| Node::from(text.as_str())).collect()
}

/// Returns a bond's options: `mode=802.3ad,miimon=100`.
fn bond_options(text: &str) -> Map {
    let mut options = Map::from([("bond-mode", "balance-rr".into())]);
    for (key, value) in text.split(',').filter_map(|option| option.split_once('=')) {
        let number = value.parse::<i64>().ok().filter(|_| key != "mode").map(Node::from);
        let value = number.unwrap_or_else(|| value.replace(';', ",").into());
        options.insert(format!("bond-{}", key.replace('_', "-")), value);
    }
    options
}

/// Returns the configuration in one word.
#[derive(Debug, Default, Clone)]
struct IpArgument {
    device: Option<String>,
    subnets: Vec<Subnet>,
    mtu: Option<i64>,
    mac: Option<String>,
    /// The expectations of the fields that are ignored.
    problems: Vec<&'static str>,
}

/// Parses the value of `ip=` or `ip6=`.
fn parse_ip_argument(value: &str, is_v6: bool) -> Result<IpArgument, &'static str> {
    let fields = split_fields(value);
    let filled = |i: usize| fields.get(i).map(String::as_str).filter(|f| !f.is_empty());
    let of_word = |i: usize| filled(i).and_then(|word| parse_methods(word, is_v6));
    let dynamic = |methods: Vec<&'static str>| {
        methods.into_iter().map(|method| Subnet { method, ..Subnet::default() }).collect()
    };
    let mut argument = IpArgument::default();
    if fields.len() == 1 {
        let Some(only) = filled(0) else { return Ok(argument) };
        match (of_word(0), parse_network(only, None, None)) {
            (Some(methods), _) => argument.subnets = dynamic(methods),
            (None, Ok(_)) => argument.subnets = vec![fixed(only, None, None, &mut argument.problems)?],
            // klibc's `ip=NAME`.
            _ => {
                argument.device = Some(only.into());
                argument.subnets = dynamic(vec![if is_v6 { "dhcp6" } else { "dhcp" }]);
            }
        }
        return Ok(argument);
    }
    let rest = match (of_word(0), of_word(1)) {
        // dracut's NAME:METHOD[:MTU[:MAC]].
        (None, Some(methods)) if fields.len() <= 4 => {
            (argument.device, argument.subnets) = (filled(0).map(Into::into), dynamic(methods));
            2
        }
        (Some(methods), None) if fields.len() <= 4 => {
            (argument.device, argument.subnets) = (filled(1).map(Into::into), dynamic(methods));
            2
        }
        // CLIENT:SERVER:GATEWAY:MASK:HOST:DEVICE:METHOD, then DNS servers or MTU and MAC.
        _ => {
            argument.device = filled(5).map(Into::into);
            argument.subnets = match (filled(0), filled(6)) {
                (Some(address), _) => vec![fixed(address, filled(3), filled(2), &mut argument.problems)?],
                (None, Some(_)) => dynamic(of_word(6).ok_or("a method in the seventh field")?),
                (None, None) => dynamic(vec!["dhcp"]),
            };
            7
        }
    };
    for (field, is_first) in fields.iter().skip(rest).zip([true, false]).filter(|(f, _)| !f.is_empty()) {
        if let Some(mac) = parse_bootif(field) {
            argument.mac = Some(mac);
        } else if let Ok(mtu) = field.parse() {
            argument.mtu = Some(mtu);
        } else if field.parse::<IpAddr>().is_ok() {
            let first = argument.subnets.first_mut();
            first.into_iter().for_each(|subnet| subnet.servers.push(field.clone()));
        } else {
            argument.problems.push(if is_first {
                "a number as the MTU, or an IP address"
            } else {
                "a MAC address"
            });
        }
    }
    Ok(argument)
}

/// Returns a subnet with a fixed address. Without a mask, IPv4 has that of its class.
fn fixed(
    address: &str,
    mask: Option<&str>,
    gateway: Option<&str>,
    problems: &mut Vec<&'static str>,
) -> Result<Subnet, &'static str> {
    let bare = address.split('/').next().unwrap_or_default();
    let ip: IpAddr = bare.parse().map_err(|_| "an address in the first field")?;
    let of_class = match ip {
        IpAddr::V4(ip) => Some(if ip.octets()[0] < 128 {
            "8"
        } else if ip.octets()[0] < 192 {
            "16"
        } else {
            "24"
        }),
        IpAddr::V6(_) => None,
    };
    let has_prefix = parse_network(address, None, None).is_ok() && address != bare;
    let valid_mask = mask.filter(|mask| parse_prefix(mask, ip).is_ok());
    let valid_gateway = gateway.filter(|gateway| gateway.parse::<IpAddr>().is_ok());
    problems.extend((mask != valid_mask).then_some("a netmask or a prefix length in the fourth field"));
    problems.extend((gateway != valid_gateway).then_some("an address in the third field"));
    Ok(Subnet {
        method: "static",
        address: Some(if has_prefix { address } else { bare }.into()),
        mask: if has_prefix { None } else { valid_mask.or(of_class).map(Into::into) },
        gateway: valid_gateway.map(Into::into),
        ..Subnet::default()
    })
}

/// Splits a word at colons, except within the brackets of an IPv6 address and within a MAC address.
fn split_fields(value: &str) -> Vec<String> {
    let (mut fields, mut start, mut is_bracketed) = (Vec::new(), 0, false);
    if value.parse::<std::net::Ipv6Addr>().is_ok() {
        return vec![value.to_string()];
    }
    for (i, c) in value.char_indices() {
        match c {
            '[' => is_bracketed = true,
            ']' => is_bracketed = false,
            ':' if !is_bracketed => {
                fields.push(&value[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    fields.push(&value[start..]);
    let is_byte = |field: &&str| field.len() == 2 && field.bytes().all(|b| b.is_ascii_hexdigit());
    let mut joined: Vec<String> = Vec::new();
    for (i, field) in fields.iter().enumerate() {
        joined.push(field.trim_start_matches('[').trim_end_matches(']').to_string());
        let first = joined.len().saturating_sub(6);
        let mac = joined[first..].join(":");
        // A name before it may look like a byte, too.
        if is_ethernet_mac(&mac) && !fields.get(i + 1).is_some_and(is_byte) {
            joined.truncate(first);
            joined.push(mac);
        }
    }
    joined
}

/// Returns the subnets of methods with commas between them, none for `off`; `None` if a word is not a method.
fn parse_methods(words: &str, is_v6: bool) -> Option<Vec<&'static str>> {
    let methods = words.split(',').map(|word| {
        Some(match word {
            "on" | "any" | "dhcp" | "single-dhcp" if is_v6 => &["dhcp6"][..],
            "on" | "any" | "dhcp" | "dhcp4" | "bootp" | "rarp" | "both" | "single-dhcp" => &["dhcp"],
            "dhcp6" => &["dhcp6"],
            "auto" => &["dhcp", "ipv6_slaac"],
            "either6" => &["ipv6_dhcpv6-stateless"],
            "auto6" => &["ipv6_slaac"],
            "link6" | "link-local" => &["manual"],
            // With an address in its field `none` means static, which the caller checks.
            "off" | "none" | "ibft" => &[],
            _ => return None,
        })
    });
    Some(methods.collect::<Option<Vec<_>>>()?.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(line: &str) -> (String, usize, bool) {
        let nics = [("ens3", "52:54:00:00:00:01"), ("ens4", "52:54:00:00:00:02")];
        let facts = Facts { fallback: Some("ens3".into()), ..Facts::from_pairs(nics) };
        let mut findings = Findings::default();
        let config = to_v1(&line.into(), &facts, &mut findings).unwrap();
        let parsed = crate::parse::parse(&config, &facts).unwrap();
        let problems: Vec<_> = parsed.findings.iter().map(ToString::to_string).collect();
        assert!(problems.is_empty(), "{line}: {problems:?}");
        let text = config.get("config").unwrap().to_json().to_string().replace(['"'], "");
        let text = text.replace("mac_address:52:54:00:00:00:0", "mac:");
        (text, findings.iter().count(), facts.is_nic_missing.get())
    }

    #[test]
    fn devices_are_described_by_the_command_line() {
        let ens3 = |subnets: &str| format!("{{mac:1,name:ens3,subnets:[{subnets}],type:physical}}");
        let ens4 = "{mac:2,name:ens4,subnets:[],type:physical}";
        let (dhcp, coreos) = (
            "{type:dhcp}",
            "{address:10.0.0.2,dns_nameservers:[8.8.8.8,1.1.1.1],gateway:10.0.0.1,netmask:255.255.255.0,type:static}",
        );
        let fixed = |more: &str| format!("{{address:10.0.0.5,{more}type:static}}");
        let bond = |params: &str, subnets: &str| {
            format!(
                "{},{ens4},{{bond_interfaces:[ens3,ens4],name:bond0,params:{{{params}}},subnets:[{subnets}],type:bond}}",
                ens3("")
            )
        };
        for (line, expected) in [
            ("quiet ip=ens3:dhcp", ens3(dhcp)),
            ("ip=dhcp:ens3", ens3(dhcp)),
            ("ip=ens3", ens3(dhcp)),
            ("ip=:::::ens3:dhcp", ens3(dhcp)),
            ("ip=::::host::dhcp BOOTIF=01-52-54-00-00-00-01", ens3(dhcp)),
            ("ip=:::::BOOTIF: ip6=off BOOTIF=52:54:00:00:00:01", ens3(dhcp)),
            ("ip=dhcp bootdev=ens3", ens3(dhcp)),
            ("ip=52-54-00-00-00-01:dhcp", ens3(dhcp)),
            ("ip=52:54:00:00:00:01:on", ens3(dhcp)),
            ("ip=ens3:dhcp,dhcp6", ens3("{type:dhcp},{type:dhcp6}")),
            ("ip=ens3:auto", ens3("{type:dhcp},{type:ipv6_slaac}")),
            ("ip=ens3:auto6", ens3("{type:ipv6_slaac}")),
            ("ip=ens3:either6", ens3("{type:ipv6_dhcpv6-stateless}")),
            ("ip=ens3:link6", ens3("{type:manual}")),
            ("ip=ens3:dhcp:1400 ip6=ens3", "{mac:1,mtu:1400,name:ens3,subnets:[{type:dhcp},{type:dhcp6}],type:physical}".into()),
            (
                "ip=ens3:dhcp:1500:02-00-00-00-00-09",
                "{mac:1,macaddress:02:00:00:00:00:09,mtu:1500,name:ens3,subnets:[{type:dhcp}],type:physical}".into(),
            ),
            ("ip=10.0.0.2::10.0.0.1:255.255.255.0:host:ens3:none:8.8.8.8:1.1.1.1", ens3(coreos)),
            ("ip=10.0.0.2::10.0.0.1:255.255.255.0:db:52:54:00:00:00:01:none:8.8.8.8:1.1.1.1:10.0.0.3", ens3(coreos)),
            (
                "ip=[fd00::5]::[fd00::1]:64::ens3:none:9000 nameserver=fd00::2",
                "{mac:1,mtu:9000,name:ens3,subnets:[{address:fd00::5,dns_nameservers:[fd00::2],gateway:fd00::1,netmask:64,type:static}],type:physical}".into(),
            ),
            // Without a mask, that of the class.
            ("ip=10.0.0.5", ens3(&fixed("netmask:8,"))),
            ("ip=10.0.0.5/24::10.0.0.1", ens3(&fixed("gateway:10.0.0.1,").replace(".5", ".5/24"))),
            // An invalid field does not affect the others.
            ("ip=10.0.0.5::10.0.0.300:24::ens3:none:x 2", ens3(&fixed("netmask:24,"))),
            ("ip=10.0.0.5::10.0.0.1:255.0.255.0::ens3:off 1", ens3(&fixed("gateway:10.0.0.1,netmask:8,"))),
            // Settings that the fallback would lose.
            ("ip=dhcp nameserver=[fd00::2]", ens3("{dns_nameservers:[fd00::2],type:dhcp}")),
            (
                "ip=10.0.0.5:::24::ens3:none rd.route=10.9.0.0/16:10.0.0.1 rd.route=[fd01::/64]::ens3",
                ens3(&fixed("netmask:24,routes:[{destination:10.9.0.0/16,gateway:10.0.0.1},{destination:fd01::/64}],")),
            ),
            (
                "ip=ens3:dhcp rd.peerdns=0 nameserver=10.0.0.3",
                "{dhcp4-overrides:{use-dns:false},dhcp6-overrides:{use-dns:false},mac:1,name:ens3,subnets:[{dns_nameservers:[10.0.0.3],type:dhcp}],type:physical}".into(),
            ),
            (
                "ip=ens3:dhcp ip=ens4:dhcp bootdev=ens4",
                format!("{},{}", ens3("{metric:2048,type:dhcp}"), ens3(dhcp).replace("mac:1,name:ens3", "mac:2,name:ens4")),
            ),
            ("ifname=lan0:52:54:00:00:00:01 ip=lan0:dhcp", ens3(dhcp).replace("ens3", "lan0")),
            ("ifname=lan0:52:54:00:00:00:01 ip=dhcp", ens3(dhcp).replace("ens3", "lan0")),
            (
                "ip=v.0005:dhcp vlan=v.0005:ens3",
                format!("{},{{name:v.0005,subnets:[{{type:dhcp}}],type:vlan,vlan_id:5,vlan_link:ens3}}", ens3("")),
            ),
            (
                "bond=bond0:ens3,ens4:mode=802.3ad,miimon=100,lacp_rate=fast,arp_ip_target=10.0.0.1;10.0.0.2 ip=bond0:dhcp",
                bond("bond-arp-ip-target:10.0.0.1,10.0.0.2,bond-lacp-rate:fast,bond-miimon:100,bond-mode:802.3ad", dhcp),
            ),
            ("bond=bond0:ens3,ens4:mode=active-backup:1400 rd.neednet=1", bond("bond-mode:active-backup", dhcp).replace("name:bond0", "mtu:1400,name:bond0")),
            ("bond=bond0:ens3,ens4 ip=bond0:off", bond("bond-mode:balance-rr", "{type:manual}")),
            ("team=bond0:ens3,ens4:lacp ip=dhcp 1", bond("bond-mode:802.3ad", dhcp)),
            (
                "vlan=bond0.7:bond0 ip=bond0.7:dhcp bond=bond0:ens3,ens4,eth9 1 missing",
                bond("bond-mode:balance-rr", "") + ",{name:bond0.7,subnets:[{type:dhcp}],type:vlan,vlan_id:7,vlan_link:bond0}",
            ),
            (
                "bridge=br0:ens3 ip=10.0.0.5:::8::br0:none",
                format!("{},{{bridge_interfaces:[ens3],name:br0,params:{{bridge_stp:false}},subnets:[{}],type:bridge}}", ens3(""), fixed("netmask:8,")),
            ),
            // Nothing that exists, and nothing that the fallback does not do.
            ("", String::new()),
            ("ip=off", String::new()),
            ("ip=none quiet", String::new()),
            ("ip=on", String::new()),
            ("ip=single-dhcp", String::new()),
            ("ip=link-local", String::new()),
            ("ip=ens3:none", String::new()),
            // The members are eth0 and eth1.
            ("bond=bond0 team=team1 bridge=br0 6 missing", String::new()),
            ("ifname=lan0:52:54:00:00:00:01", String::new()),
            ("ip=what 1 missing", String::new()),
            ("ip=x:::::: 1", String::new()),
            ("ip=:::::ens3:what 1", String::new()),
            ("ip=192.0.2.10::192.0.2.1:24::ens9:none 1 missing", String::new()),
            ("ip=02-00-00-00-00-09:dhcp 1 missing", String::new()),
            ("ifname=lan0:02:00:00:00:00:09 ip=lan0:dhcp 1 missing", String::new()),
            ("vlan=eth1.5:eth1 ip=eth1.5:dhcp 2 missing", String::new()),
            ("vlan=a:b bond=b:c bridge=c:a 3 missing", String::new()),
            ("ip=dhcp BOOTIF=01-02-00-00-00-00-09 missing", String::new()),
        ] {
            let (found, findings, is_missing) = convert(line);
            assert_eq!(found, format!("[{expected}]"), "{line}");
            let wanted = line.split(' ').filter_map(|word| word.parse().ok()).next().unwrap_or(0);
            assert_eq!((findings, is_missing), (wanted, line.ends_with("missing")), "{line}");
        }
    }

    #[test]
    fn network_arguments_are_recognised() {
        for (line, has_ip, describes) in [
            ("a b", false, false),
            ("ip=off", true, true),
            ("x ip6=e", true, true),
            ("'ip=a'", true, true),
            ("zip=1 'ip", false, false),
            ("bond=bond0", false, true),
            ("vlans=1", false, false),
        ] {
            assert_eq!((has_network_argument(line), describes_network(line)), (has_ip, describes), "{line}");
        }
    }
}
