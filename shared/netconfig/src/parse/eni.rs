//! ifupdown's interfaces file (old config drives and NoCloud metadata, `net-convert`), converted to version 1. Addresses,
//! DNS servers and which interfaces are up at boot are converted. Hooks, bonds, bridges and settings of a single address
//! family are not, as in upstream, and are named in a finding. Pure: files that the text includes with `source` come with
//! [`Facts`].
//!
//! Words are separated by any whitespace and lines may be continued, as in ifupdown itself (upstream splits at single
//! spaces).

use std::collections::HashMap;
use std::rc::Rc;

use config::{Findings, Map, Node, Position};

use super::facts::{Facts, Include};
use super::section::version_1;

/// The maximum nesting of included files.
const MAX_INCLUDE_DEPTH: usize = 8;

/// The options of a stanza that version 1 can express.
const COPIED_OPTIONS: [&str; 3] = ["netmask", "gateway", "broadcast"];

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
            words.extend(head.split_whitespace());
            line = rest.next().map_or("", |(line, _)| line);
        }
        words.extend(line.split_whitespace());
        Some((number, words))
    })
    .filter(|(_, words)| !words.is_empty())
}

/// One `iface` stanza.
#[derive(Debug)]
struct Stanza {
    at: Position,
    family: String,
    method: String,
    hwaddress: Option<Node>,
    options: HashMap<&'static str, Node>,
    servers: Vec<Node>,
    search: Vec<Node>,
}

#[derive(Debug)]
struct Interface {
    name: String,
    auto: bool,
    at: Position,
    stanzas: Vec<Stanza>,
}

/// The interfaces read so far, in the order in which they are first named.
#[derive(Default)]
struct Interfaces {
    all: Vec<Interface>,
    index: HashMap<String, usize>,
}

impl Interfaces {
    fn index_of(&mut self, name: &str, at: &Position) -> usize {
        let next = self.all.len();
        let index = *self.index.entry(name.to_string()).or_insert(next);
        if index == next {
            let name = name.to_string();
            self.all.push(Interface { name, auto: false, at: at.clone(), stanzas: Vec::new() });
        }
        index
    }
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
    let mut devices: Vec<(&str, Map, Vec<Node>)> = Vec::new();
    let mut index: HashMap<&str, usize> = HashMap::new();
    for interface in &interfaces.all {
        if interface.stanzas.is_empty() {
            findings.invalid(&interface.at, "auto", "no 'iface' stanza; ignored");
            continue;
        }
        // `eth0:1` is an alias: an additional address of eth0.
        let device = interface.name.split(':').next().unwrap_or_default();
        for stanza in &interface.stanzas {
            let next = devices.len();
            let index = *index.entry(device).or_insert(next);
            if index == next {
                let kind = if device == "lo" { "loopback" } else { "physical" };
                let name = Node { at: stanza.at.clone(), ..device.into() };
                let mut entry = Map::from([("type", kind.into()), ("name", name)]);
                entry.insert_some("mac_address", stanza.hwaddress.clone());
                devices.push((device, entry, Vec::new()));
            }
            devices[index].2.push(subnet(interface, stanza));
        }
    }
    sort::sort_by_key(&mut devices, |(name, ..)| *name);
    let entries = devices.into_iter().map(|(_, mut entry, subnets)| {
        entry.insert("subnets", subnets);
        Node::from(entry)
    });
    Ok(version_1(entries.collect()))
}

fn subnet(interface: &Interface, stanza: &Stanza) -> Node {
    // A single stanza keeps its method for any family; upstream rejects more than one, so this cannot differ from it.
    let method = match (&*stanza.family, &*stanza.method) {
        ("inet6", "dhcp") if interface.stanzas.len() > 1 => "dhcp6",
        ("inet6", "auto") if interface.stanzas.len() > 1 => "ipv6_slaac",
        (_, method) => method,
    };
    let mut subnet = Map::from([
        // The interface's name in its file, for people who read the stored configuration.
        ("_orig_eni_name", interface.name.as_str().into()),
        ("type", Node { at: stanza.at.clone(), ..method.into() }),
        ("control", if interface.auto { "auto" } else { "manual" }.into()),
    ]);
    let address = stanza.options.get("address").filter(|_| stanza.method == "static");
    subnet.insert_some("address", address.cloned());
    for key in COPIED_OPTIONS {
        subnet.insert_some(key, stanza.options.get(key).cloned());
    }
    subnet.insert_unless_empty("dns_nameservers", stanza.servers.clone());
    subnet.insert_unless_empty("dns_search", stanza.search.clone());
    Node { at: stanza.at.clone(), ..subnet.into() }
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
    let mut current: Option<usize> = None;
    for (line, words) in logical_lines(text) {
        let at = Position { source: Some(source.clone()), line, column: 1 };
        let text = |word: &str| Node { at: at.clone(), ..word.into() };
        let (option, rest) = (words[0], &words[1..]);
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
                continue;
            }
            "auto" => {
                for name in rest {
                    let index = interfaces.index_of(name, &at);
                    interfaces.all[index].auto = true;
                }
                continue;
            }
            "iface" => {
                current = None;
                let [name, family, method, ..] = rest else {
                    findings.invalid(&at, option, "expected a name, a family and a method; ignored");
                    continue;
                };
                let index = interfaces.index_of(name, &at);
                interfaces.all[index].stanzas.push(Stanza {
                    at,
                    family: family.to_string(),
                    method: method.to_string(),
                    hwaddress: None,
                    options: HashMap::new(),
                    servers: Vec::new(),
                    search: Vec::new(),
                });
                current = Some(index);
                continue;
            }
            _ => {}
        }
        let stanza = current.and_then(|index| interfaces.all[index].stanzas.last_mut());
        let Some(stanza) = stanza.filter(|_| !option.starts_with("allow-")) else {
            findings.unknown(&at, option, "not supported when converting an interfaces file; ignored");
            continue;
        };
        match (option, rest) {
            ("hwaddress", [mac]) | ("hwaddress", ["ether", mac, ..]) | ("hwaddress", [mac, ..]) => {
                stanza.hwaddress = Some(text(mac));
            }
            ("dns-nameservers", rest) => stanza.servers = rest.iter().map(|w| text(w)).collect(),
            ("dns-search", rest) => stanza.search = rest.iter().map(|w| text(w)).collect(),
            (_, [value, ..]) if option == "address" || COPIED_OPTIONS.contains(&option) => {
                let key = COPIED_OPTIONS.iter().find(|k| **k == option).copied().unwrap_or("address");
                stanza.options.insert(key, text(value));
            }
            ("hwaddress" | "address" | "netmask" | "gateway" | "broadcast", []) => {
                findings.invalid(&at, option, "expected a value");
            }
            _ => findings.unknown(&at, option, "not supported when converting an interfaces file; ignored"),
        }
    }
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

    #[test]
    fn invalid_lines_are_reported() {
        let text = "mtu 9000\nauto ghost\nallow-hotplug e\niface e inet\niface e inet static\n  mtu 9000\n  up x y\n  address\n";
        let (found, findings) = convert(text, &Facts::default());
        assert_eq!(found, "[{name:e,subnets:[{_orig_eni_name:e,control:manual,type:static}],type:physical}]");
        let places: Vec<_> = findings.iter().map(|f| f.split(": ").take(2).collect::<Vec<_>>()).collect();
        let position = |line: &str, key| vec![format!("/etc/network/interfaces:{line}:1"), String::from(key)];
        assert_eq!(
            places,
            [
                position("1", "mtu"),
                position("3", "allow-hotplug"),
                position("4", "iface"),
                position("6", "mtu"),
                position("7", "up"),
                position("8", "address"),
                position("2", "auto"),
            ]
        );
    }
}
