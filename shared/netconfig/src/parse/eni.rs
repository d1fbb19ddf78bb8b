//! ifupdown's interfaces file (old config drives and NoCloud metadata, `net-convert`), converted to version 1: addresses,
//! DNS servers, which interfaces are up at boot, bonds, bridges, VLANs, and the routes and addresses that hooks add.
//! Everything else is named in a finding. Pure: files that the text includes with `source` come with [`Facts`].
//!
//! Words are separated by any number of blanks and tabs, and lines may be continued, as in ifupdown itself (upstream splits at single
//! spaces).

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use config::{Findings, Map, Node, Position};

use crate::address::is_ipv6;
use crate::glob::glob_match;

use super::characters::is_unsafe_in_files;
use super::facts::{Facts, Include, NicFacts};
use super::hook::{Effect, effects};
use super::section::version_1;

/// The maximum nesting of included files.
const MAX_INCLUDE_DEPTH: usize = 8;
/// Each stanza of a chain of templates repeats the words of all before it.
const MAX_INHERITED: usize = 1 << 16;

/// The options that a subnet of version 1 has by the same name, `address` only with a static one.
const SUBNET_OPTIONS: [&str; 5] = ["address", "broadcast", "netmask", "pointopoint", "scope"];

/// The options of a bridge with a value for each port, and a line for each of these.
const PORT_OPTIONS: [&str; 3] = ["bridge_pathcost", "bridge_portprio", "bridge_waitport"];

const UNSUPPORTED: &str = "not supported when converting an interfaces file; ignored";

/// Returns the files that a string names, so that the caller can read them into [`Facts::includes`].
pub fn includes(text: &str, dir: &str) -> Vec<Include> {
    logical_lines(text).filter_map(|(_, words)| include(&words, dir)).collect()
}

fn include(words: &[&str], dir: &str) -> Option<Include> {
    let is_directory = match *words.first()? {
        "source" => false,
        "source-directory" => true,
        _ => return None,
    };
    let pattern = words.get(1)?;
    let pattern = if pattern.starts_with('/') { pattern.to_string() } else { format!("{dir}/{pattern}") };
    Some(Include { pattern, is_directory })
}

/// The directory for relative paths in a string that was not read from a file (from metadata or an unmounted disk).
pub const DEFAULT_DIR: &str = "/etc/network";

/// Returns the directory of a file.
pub fn parent_dir(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(dir, _)| dir)
}

/// Returns the number and the words of each line with content; continued lines are one.
fn logical_lines(text: &str) -> impl Iterator<Item = (u32, Vec<&str>)> {
    let mut rest = text.lines().zip(1..);
    std::iter::from_fn(move || {
        let (mut line, number) = rest.next()?;
        if line.trim_start().starts_with('#') {
            return Some((number, Vec::new()));
        }
        let mut words = Vec::new();
        while let Some(head) = line.trim_end().strip_suffix('\\') {
            words.extend(words_of(head));
            line = rest.next().map_or("", |(line, _)| line);
        }
        words.extend(words_of(line));
        Some((number, words))
    })
    .filter(|(_, words)| !words.is_empty())
}

/// Returns the words of a line. Other whitespace stays in a word, and the line is not used.
fn words_of(line: &str) -> impl Iterator<Item = &str> {
    line.split([' ', '\t']).filter(|word| !word.is_empty())
}

/// One `iface` stanza. Hyphens replace underscores in the names of its options.
#[derive(Debug, Clone)]
struct Stanza {
    at: Position,
    family: String,
    method: String,
    options: Vec<(String, Vec<Node>)>,
}

impl Stanza {
    /// Returns the type of the subnet in version 1.
    fn subnet_type(&self) -> &str {
        let asks_dhcp = || self.options.iter().any(|(name, words)| name == "dhcp" && words.iter().all(is_1));
        match (&*self.family, &*self.method) {
            ("", _) if self.options.iter().any(|(name, _)| name == "address") => "static",
            ("", _) => "manual",
            ("inet6", "dhcp") => "dhcp6",
            ("inet6", "auto") if asks_dhcp() => "ipv6_dhcpv6-stateless",
            ("inet6", "auto") => "ipv6_slaac",
            (_, "bootp") => "dhcp",
            (_, method) => method,
        }
    }
}

#[derive(Debug)]
struct Interface {
    name: String,
    /// The event at which the interface is brought up.
    control: &'static str,
    /// Other interfaces inherit its options.
    is_template: bool,
    at: Position,
    stanzas: Vec<Stanza>,
}

/// The interfaces read so far, in the order in which they are first named.
#[derive(Default)]
struct Interfaces {
    all: Vec<Interface>,
    index: HashMap<String, usize>,
    /// The number of words that stanzas have inherited.
    inherited: usize,
}

impl Interfaces {
    fn get_mut(&mut self, name: &str, at: &Position) -> &mut Interface {
        let next = self.all.len();
        let index = *self.index.entry(name.to_string()).or_insert(next);
        if index == next {
            let (name, at) = (name.to_string(), at.clone());
            self.all.push(Interface { name, control: "manual", is_template: false, at, stanzas: Vec::new() });
        }
        &mut self.all[index]
    }
}

/// A device of version 1, by all stanzas of its name and its aliases.
#[derive(Default)]
struct Device {
    entry: Map,
    params: Map,
    /// The members of a bond or bridge, or the parent of a VLAN.
    lower: Vec<String>,
    master: Option<String>,
    is_bridge: bool,
    is_bond: bool,
    subnets: Vec<Node>,
    rules: Vec<Node>,
    at: Position,
}

/// Converts the text (a scalar) to version 1.
///
/// # Errors
/// Fails if the node is not text.
pub fn to_v1(text: &Node, facts: &Facts, findings: &mut Findings) -> Result<Node, String> {
    let Some(content) = text.as_str() else {
        return Err(format!("{}: expected the text of an interfaces file, found {}", text.at, text.kind()));
    };
    let source = text.at.source.as_deref().unwrap_or("interfaces");
    let mut interfaces = Interfaces::default();
    let dir = facts.interfaces_dir.as_deref().unwrap_or(DEFAULT_DIR);
    parse_lines(&mut interfaces, content, dir, &mut vec![source.to_string()], facts, findings);
    let mut devices: sort::Named<Device> = sort::Named::default();
    for interface in &interfaces.all {
        if interface.stanzas.is_empty() {
            findings.invalid(&interface.at, "auto", "no 'iface' stanza; ignored");
        }
        if interface.is_template && interface.control == "manual" {
            continue;
        }
        // `eth0:1` is an alias: an additional address of eth0.
        let name = interface.name.split(':').next().unwrap_or_default();
        for stanza in &interface.stanzas {
            let device = devices.entry(name);
            if device.entry.is_empty() {
                device.at = stanza.at.clone();
                device.entry.insert("name", Node { at: stanza.at.clone(), ..name.into() });
                if let Some((parent, tag)) = name.rsplit_once('.')
                    && tag.parse::<u16>().is_ok()
                {
                    device.set_parent(name, &Node { at: stanza.at.clone(), ..parent.into() });
                }
            }
            device.add(interface, stanza, facts, findings);
        }
    }
    devices.sort();
    add_lower(&mut devices);
    devices.sort();
    let devices = devices.entries;
    let masters: HashSet<String> = devices.iter().filter_map(|(_, device)| device.master.clone()).collect();
    let entries = devices.into_iter().map(|(name, device)| device.into_entry(&name, masters.contains(&name)));
    Ok(version_1(entries.collect()))
}

/// Completes the bonds by the devices that name them as their master, and adds members and parents without a stanza.
fn add_lower(devices: &mut sort::Named<Device>) {
    let masters: Vec<_> =
        devices.entries.iter().filter_map(|(n, d)| Some((n.clone(), d.master.clone()?))).collect();
    let pairs = |(name, device): &(String, Device)| {
        device.lower.iter().map(|lower| (name.clone(), lower.clone())).collect::<Vec<_>>()
    };
    let known: HashSet<(String, String)> = devices.entries.iter().flat_map(pairs).collect();
    for (name, master) in masters {
        let options = devices.get_mut(&name).filter(|member| !member.is_bond && !member.is_bridge);
        let options = options.map(|member| std::mem::take(&mut member.params)).unwrap_or_default();
        let Some(bond) = devices.get_mut(&master) else { continue };
        // ifenslave reads the options of a bond in the stanzas of its members too.
        for (key, value) in options {
            if key.as_str().is_some_and(|key| bond.params.get(key).is_none()) {
                bond.params.insert(key, value);
            }
        }
        let pair = (master, name);
        if !known.contains(&pair) {
            bond.lower.push(pair.1);
        }
    }
    let lower: Vec<_> =
        devices.entries.iter().flat_map(|(_, d)| d.lower.iter().map(|l| (l.clone(), d.at.clone()))).collect();
    for (name, at) in lower {
        let device = devices.entry(&name);
        if device.entry.is_empty() {
            device.entry.insert("name", Node { at: at.clone(), ..name.into() });
            device.at = at;
        }
    }
}

impl Device {
    /// Returns the entry of version 1.
    fn into_entry(mut self, name: &str, is_master: bool) -> Node {
        let members = |lower: &[String]| lower.iter().map(|l| Node::from(l.as_str())).collect::<Vec<_>>();
        let kind = if name == "lo" {
            "loopback"
        } else if self.is_bridge {
            self.entry.insert("bridge_interfaces", members(&self.lower));
            self.entry.insert_unless_empty("params", self.params);
            "bridge"
        } else if self.is_bond || is_master {
            self.entry.insert("bond_interfaces", members(&self.lower));
            self.entry.insert("params", self.params);
            "bond"
        } else if self.entry.get("vlan_link").is_some() {
            "vlan"
        } else {
            "physical"
        };
        self.entry.insert("type", kind);
        self.entry.insert("subnets", self.subnets);
        self.entry.insert_unless_empty("routing-policy", self.rules);
        Node { at: self.at, ..self.entry.into() }
    }

    /// Makes the device a VLAN, with the number at the end of its name as the ID.
    fn set_parent(&mut self, name: &str, parent: &Node) {
        let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let id = name[digits..].parse::<i64>().ok().filter(|_| self.entry.get("vlan_id").is_none());
        self.entry.insert_some("vlan_id", id);
        self.lower = parent.as_str().map(String::from).into_iter().collect();
        self.entry.insert("vlan_link", parent.clone());
    }

    fn add(&mut self, interface: &Interface, stanza: &Stanza, facts: &Facts, findings: &mut Findings) {
        let name = &*self.entry.get("name").and_then(Node::as_str).unwrap_or_default().to_string();
        let text = |text: &str| Node { at: stanza.at.clone(), ..text.into() };
        let method = stanza.subnet_type();
        let mut subnets = Subnets {
            first: Map::from([
                // The interface's name in its file, for people who read the stored configuration.
                ("_orig_eni_name", text(&interface.name)),
                ("type", text(method)),
                ("control", text(interface.control)),
            ]),
            ..Subnets::default()
        };
        for (option, words) in &stanza.options {
            let Some(first) = words.first() else { continue };
            match option.as_str() {
                "address" if method != "static" => {}
                "mtu" if stanza.family != "inet6" => drop(self.entry.insert("mtu", number_or_text(first))),
                "dhcp" if stanza.method == "auto" => {}
                "up" | "post-up" | "pre-up" | "down" | "post-down" | "pre-down" => {
                    if !self.run(name, words, option.ends_with("up"), &mut subnets) {
                        findings.unknown(&first.at, option, UNSUPPORTED);
                    }
                }
                option if subnets.set(option, first, words) => {}
                option => self.set(name, option, words, facts, findings),
            }
        }
        subnets.first.insert_unless_empty("dns_nameservers", subnets.servers);
        subnets.first.insert_unless_empty("routes", subnets.routes);
        let further = subnets.more.iter().map(|address| {
            let fixed = [("type", "static"), ("control", interface.control), ("address", address)];
            Map::from(fixed.map(|(key, value)| (key, text(value))))
        });
        // ifupdown2 has addresses and gateways of both families in one stanza.
        let mut gateways = subnets.gateways;
        for mut subnet in std::iter::once(subnets.first).chain(further) {
            let own = subnet.get("address").and_then(Node::as_str).map(is_ipv6);
            let gateway = match own {
                Some(v6) => gateways[usize::from(v6)].pop_front(),
                None => gateways.iter_mut().find_map(VecDeque::pop_front),
            };
            subnet.insert_some("gateway", gateway);
            self.subnets.push(Node { at: stanza.at.clone(), ..subnet.into() });
        }
        for gateway in gateways.into_iter().flatten() {
            findings.invalid(&gateway.at, "gateway", "no address of its family; ignored");
        }
    }

    /// Adds what the command of a hook does; one that takes it down does nothing at boot. Returns whether it is known.
    fn run(&mut self, name: &str, words: &[Node], is_up: bool, subnets: &mut Subnets) -> bool {
        let command: Vec<&str> = words.iter().filter_map(Node::as_str).collect();
        let at = |node: Node| Node { at: words[0].at.clone(), ..node };
        let effects = effects(&command, name);
        let is_known = effects.iter().all(Option::is_some);
        for effect in effects.into_iter().flatten().filter(|_| is_up) {
            match effect {
                Effect::Route(route) => subnets.routes.push(at(route.into())),
                Effect::Address(address) => subnets.more.push(address),
                Effect::Mtu(mtu) => drop(self.entry.insert("mtu", number_or_text(&at(mtu.as_str().into())))),
                Effect::Rule(rule) => self.rules.push(at(rule.into())),
                Effect::None => {}
            }
        }
        is_known
    }

    /// Sets an option of the link.
    fn set(&mut self, name: &str, option: &str, words: &[Node], facts: &Facts, findings: &mut Findings) {
        let first = &words[0];
        let texts = || words.iter().filter_map(Node::as_str);
        let names = || texts().filter(|name| *name != "none").map(String::from);
        let text = |text: &str| Node { at: first.at.clone(), ..text.into() };
        let joined = |separator: &str| text(&texts().collect::<Vec<_>>().join(separator));
        match option {
            "hwaddress" => {
                let is_keyword = |word: &&Node| ["ether", "random"].map(Some).contains(&word.as_str());
                let mac = words.iter().find(|word| !is_keyword(word)).cloned();
                // ifupdown gives it to the interface. As in upstream it identifies a NIC that has it.
                let new = mac.as_ref().and_then(Node::as_str).filter(|_| facts.mac_of(name).is_some());
                let is_new = new.is_some_and(|new| facts.name_of(&new.to_ascii_lowercase()).is_none());
                let key = if is_new { "macaddress" } else { "mac_address" };
                if self.entry.get(key).is_none() {
                    self.entry.insert_some(key, mac);
                }
            }
            "accept-ra" => drop(self.entry.insert(option, first.as_str() != Some("0"))),
            "autoconf" if is_1(first) => drop(self.entry.insert("accept-ra", true)),
            // The network follows from the address.
            "autoconf" | "network" => {}
            "vlan-raw-device" => self.set_parent(name, first),
            "vlan-id" => drop(self.entry.insert("vlan_id", number_or_text(first))),
            "bond-slaves" | "slaves" => {
                self.is_bond = true;
                self.lower.extend(names());
            }
            "bond-master" => self.master = names().next(),
            "bridge-ports" => {
                self.is_bridge = true;
                match bridge_ports(texts(), facts) {
                    Some(ports) if ports.is_empty() && names().next().is_some() => {
                        findings.invalid(&first.at, option, "no NIC fits; ignored");
                    }
                    Some(ports) => self.lower.extend(ports),
                    None => findings.unknown(&first.at, option, UNSUPPORTED),
                }
            }
            "bridge-hw" => self.entry.insert_some("mac_address", words.last().cloned()),
            // The first one that is there.
            "bond-primary" => drop(self.params.insert(option, first.clone())),
            _ if option.starts_with("bond-") => drop(self.params.insert(option, joined(","))),
            _ if option.starts_with("bridge-") => {
                let key = option.replace('-', "_");
                let value = match first.as_str() {
                    _ if PORT_OPTIONS.contains(&&*key) => {
                        let mut known =
                            self.params.get(&key).map_or_else(Vec::new, |value| value.items().to_vec());
                        known.push(joined(" "));
                        Node::from(known)
                    }
                    Some("yes") => text("on"),
                    Some("no") => text("off"),
                    _ => first.clone(),
                };
                self.params.insert(key, value);
            }
            _ => findings.unknown(&first.at, option, UNSUPPORTED),
        }
    }
}

/// The subnets of a stanza: the first one, the addresses of the others, and gateways of IPv4 and of IPv6.
#[derive(Default)]
struct Subnets {
    first: Map,
    more: Vec<String>,
    gateways: [VecDeque<Node>; 2],
    routes: Vec<Node>,
    servers: Vec<Node>,
}

impl Subnets {
    /// Sets an option of a subnet; returns whether it is one.
    fn set(&mut self, option: &str, first: &Node, words: &[Node]) -> bool {
        match option {
            "address" if self.first.get(option).is_some() => {
                self.more.extend(first.as_str().map(String::from));
            }
            "gateway" => {
                self.gateways[usize::from(first.as_str().is_some_and(is_ipv6))].push_back(first.clone());
            }
            // The MTU of IPv6.
            "metric" | "mtu" => drop(self.first.insert(option, number_or_text(first))),
            _ if SUBNET_OPTIONS.contains(&option) => drop(self.first.insert(option, first.clone())),
            "dns-nameservers" => self.servers = words.to_vec(),
            "dns-nameserver" => self.servers.extend(words.iter().cloned()),
            "dns-search" | "dns-domain" => drop(self.first.insert("dns_search", words.to_vec())),
            _ => return false,
        }
        true
    }
}

fn is_1(word: &Node) -> bool {
    word.as_str() == Some("1")
}

/// Returns the ports of a bridge as in bridge-utils-interfaces(5): names, and the NICs that fit a pattern between `regex` and
/// `noregex` or those of `all`. `None` if a pattern has other operators than glob(7).
fn bridge_ports<'a>(words: impl Iterator<Item = &'a str>, facts: &Facts) -> Option<Vec<String>> {
    const OPERATORS: [char; 10] = ['*', '+', '?', '(', ')', '|', '{', '}', '^', '$'];
    let mut is_pattern = false;
    let mut ports: Vec<String> = Vec::new();
    for word in words {
        let patterns = match word {
            "regex" | "noregex" => {
                is_pattern = word == "regex";
                continue;
            }
            "none" => continue,
            "all" => ["eth*", "em*", "en*", "p[0-9]*"].map(String::from).to_vec(),
            name if !is_pattern => {
                ports.push(name.into());
                continue;
            }
            pattern => {
                let is_plain = |part: &&str| !part.contains(OPERATORS);
                let parts: Vec<&str> = pattern.split(".*").collect();
                if !parts.iter().all(is_plain) {
                    return None;
                }
                vec![parts.join("*").replace('.', "?")]
            }
        };
        let fits = |nic: &&NicFacts| nic.name != "lo" && patterns.iter().any(|p| glob_match(p, &nic.name));
        ports.extend(facts.nics.iter().filter(fits).map(|nic| nic.name.clone()));
    }
    Some(ports)
}

/// Returns a word as a number if it is one: no renderer quotes it then.
fn number_or_text(word: &Node) -> Node {
    let number = word
        .as_str()
        .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|t| t.parse::<i64>().ok());
    number.map_or_else(|| word.clone(), |number| Node { at: word.at.clone(), ..number.into() })
}

fn parse_lines(
    interfaces: &mut Interfaces,
    text: &str,
    dir: &str,
    open: &mut Vec<String>,
    facts: &Facts,
    findings: &mut Findings,
) {
    let source: Rc<str> = open.last().map_or("interfaces", String::as_str).into();
    let mut current: Option<String> = None;
    for (line, words) in logical_lines(text) {
        let at = Position { source: Some(source.clone()), line, column: 1 };
        let (option, rest) = (words[0], &words[1..]);
        if words.iter().any(|word| word.contains(is_unsafe_in_files)) {
            findings.invalid(&at, "line", "control characters and backslashes are not allowed; ignored");
            continue;
        }
        match option {
            "source" | "source-directory" => {
                let files = include(&words, dir).and_then(|i| facts.includes.get(&i));
                for (path, content) in files.into_iter().flatten() {
                    if open.contains(path) || open.len() > MAX_INCLUDE_DEPTH {
                        findings.invalid(&at, option, "include cycle; ignored");
                        continue;
                    }
                    open.push(path.clone());
                    parse_lines(interfaces, content, parent_dir(path), open, facts, findings);
                    open.pop();
                }
            }
            "auto" | "allow-auto" => {
                rest.iter().for_each(|name| interfaces.get_mut(name, &at).control = "auto");
            }
            "allow-hotplug" => {
                for name in rest {
                    let interface = interfaces.get_mut(name, &at);
                    interface.control = if interface.control == "auto" { "auto" } else { "hotplug" };
                }
            }
            "iface" => {
                current = begin_stanza(interfaces, rest, &at);
                if interfaces.inherited > MAX_INHERITED {
                    let message = format!("more than {MAX_INHERITED} words are inherited; ignoring the rest");
                    return findings.invalid(&at, option, message);
                }
                if current.is_none() {
                    findings.invalid(&at, option, "expected a name, a family and a method; ignored");
                }
            }
            _ => {
                let stanza =
                    current.as_ref().and_then(|name| interfaces.get_mut(name, &at).stanzas.last_mut());
                let Some(stanza) = stanza.filter(|_| !option.starts_with("allow-") && option != "mapping")
                else {
                    current = current.filter(|_| option != "mapping");
                    findings.unknown(&at, option, UNSUPPORTED);
                    continue;
                };
                let value = |word: &&str| Node { at: at.clone(), ..(*word).into() };
                match rest {
                    [] => findings.invalid(&at, option, "expected a value"),
                    _ => stanza.options.push((option.replace('_', "-"), rest.iter().map(value).collect())),
                }
            }
        }
    }
}

/// Adds a stanza by the words after `iface`: `NAME FAMILY METHOD`, and `inherits OTHER`. Returns the name of its interface.
fn begin_stanza(interfaces: &mut Interfaces, words: &[&str], at: &Position) -> Option<String> {
    let own = words.iter().position(|word| *word == "inherits");
    let (words, template) = words.split_at(own.unwrap_or(words.len()));
    let template = template.get(1).and_then(|name| {
        let template = interfaces.get_mut(name, at);
        template.is_template = true;
        template.stanzas.last().cloned()
    });
    let count = |t: &Stanza| t.options.iter().map(|(_, words)| 1 + words.len()).sum();
    interfaces.inherited += template.as_ref().map_or(0, count);
    let (family, method, options) = match (words, template) {
        ([_, family, method, ..], template) => {
            (family.to_string(), method.to_string(), template.map(|t| t.options).unwrap_or_default())
        }
        ([_], Some(template)) => (template.family, template.method, template.options),
        // ifupdown2: the options tell both.
        ([_], None) => Default::default(),
        _ => return None,
    };
    interfaces.get_mut(words[0], at).stanzas.push(Stanza { at: at.clone(), family, method, options });
    Some(words[0].to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(text: &str, facts: &Facts) -> (String, Vec<String>) {
        let mark = Position { source: Some("/etc/network/interfaces".into()), line: 0, column: 0 };
        let mut findings = Findings::default();
        let node = Node { at: mark, ..text.into() };
        let config = to_v1(&node, facts, &mut findings).unwrap();
        let entries = config.get("config").unwrap().to_json().to_string();
        (entries.replace('"', ""), findings.iter().map(ToString::to_string).collect())
    }

    /// Other conversions are compared with upstream's in tests/formats.
    #[test]
    fn autoconfiguration_beside_another_stanza_is_of_ipv6() {
        let (found, findings) = convert("iface e inet dhcp\niface e inet6 auto\n", &Facts::default());
        assert!(found.contains("control:manual,type:ipv6_slaac}"), "{found}");
        assert!(findings.is_empty(), "{findings:?}");
    }

    /// Otherwise no NIC would be configured.
    #[test]
    fn hwaddress_of_no_nic_is_the_one_to_set() {
        let facts = Facts::from_pairs([("e", "02:00:00:00:00:01"), ("f", "02:00:00:00:00:02")]);
        for (name, mac, key) in [
            ("e", "ether 02:00:00:00:00:01", "mac_address"),
            ("e", "02:00:00:00:00:02", "mac_address"),
            ("e", "02:00:00:00:00:AA", "macaddress"),
            ("late", "02:00:00:00:00:AA", "mac_address"),
        ] {
            let text = format!("auto {name}\niface {name} inet dhcp\n  hwaddress {mac}\n");
            let (found, findings) = convert(&text, &facts);
            assert!(found.contains(&format!("{{{key}:{}", &mac[mac.len() - 17..])), "{text}: {found}");
            assert!(findings.is_empty(), "{findings:?}");
        }
    }

    #[test]
    fn stanzas_of_ifupdown2_have_addresses_of_both_families() {
        let text = "iface e\n  address fd00::5/64\n  address 10.0.0.5/24\n  address 10.0.0.6/24\n  gateway 10.0.0.1\n\
                    gateway fd00::1\niface b\n  bridge-ports e\niface s inet static\n  address 10.1.0.5/24\n  gateway fd00::1\n";
        let (found, findings) = convert(text, &Facts::default());
        for expected in [
            "{_orig_eni_name:e,address:fd00::5/64,control:manual,gateway:fd00::1,type:static}",
            "{address:10.0.0.5/24,control:manual,gateway:10.0.0.1,type:static}",
            "{address:10.0.0.6/24,control:manual,type:static}",
            "{_orig_eni_name:b,control:manual,type:manual}",
            "{_orig_eni_name:s,address:10.1.0.5/24,control:manual,type:static}",
        ] {
            assert!(found.contains(expected), "{expected}: {found}");
        }
        assert_eq!(findings, ["/etc/network/interfaces:11:1: gateway: no address of its family; ignored"]);
    }

    /// bridge-utils-interfaces(5).
    #[test]
    fn ports_of_a_bridge_are_names_or_patterns_of_nics() {
        let nics = ["lo", "eth0", "eth10", "ens3", "wlan0", "p2p1"].map(|nic| (nic, "02:00:00:00:00:01"));
        let facts = Facts::from_pairs(nics);
        for (ports, expected) in [
            ("eth0 eth7", "eth0,eth7"),
            ("none", ""),
            ("all", "eth0,eth10,ens3,p2p1"),
            ("regex eth.* noregex tap0", "eth0,eth10,tap0"),
            ("regex (wlan|eth).* noregex", "!"),
            ("regex e..[0-9] noregex", "eth0,ens3"),
            ("regex br.*", "!"),
        ] {
            let (found, findings) = convert(&format!("iface b inet dhcp\n  bridge_ports {ports}\n"), &facts);
            let expected = expected.trim_start_matches('!');
            assert!(found.contains(&format!("bridge_interfaces:[{expected}]")), "{ports}: {found}");
            assert_eq!(findings.len(), usize::from(expected.is_empty() && ports != "none"), "{findings:?}");
        }
    }

    /// As ifenslave(5) has it.
    #[test]
    fn options_of_a_bond_may_be_in_the_stanzas_of_its_members() {
        let text = "iface e inet manual\n  bond-master b\n  bond-primary e\n  bond-mode 4\niface f inet manual\n  bond-master b\n\
                    iface b inet dhcp\n  bond-slaves none\n  bond-mode 1\n";
        let (found, findings) = convert(text, &Facts::default());
        assert!(found.contains("bond_interfaces:[e,f]"), "{found}");
        assert!(found.contains("params:{bond-mode:1,bond-primary:e}"), "{found}");
        assert!(findings.is_empty(), "{findings:?}");
    }

    #[test]
    fn invalid_lines_are_reported() {
        let text = "mtu 9000\nauto ghost\nallow-hotplug e\niface e inet\niface e inet static\n  mtu 9000\n  up x y\n  address\n";
        let (found, findings) = convert(text, &Facts::default());
        assert_eq!(
            found,
            "[{mtu:9000,name:e,subnets:[{_orig_eni_name:e,control:hotplug,type:static}],type:physical}]"
        );
        let places: Vec<_> = findings.iter().map(|f| f.split(": ").take(2).collect::<Vec<_>>()).collect();
        let position = |line: &str, key| vec![format!("/etc/network/interfaces:{line}:1"), String::from(key)];
        assert_eq!(
            places,
            [
                position("1", "mtu"),
                position("4", "iface"),
                position("8", "address"),
                position("2", "auto"),
                position("7", "up"),
            ]
        );
    }
}
