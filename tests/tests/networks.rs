//! The configurations of tests/networks, booted in a container with each network service: addresses, routes, rules, name servers and
//! links are those that the configuration asks for, and no others.
//!
//! A configuration begins with comments, one fact a line: `#: FACT`, or `#eni,netplan: FACT` for these services only. `NIC ADDRESS`,
//! `route` and `rule` are complete: what is not listed must not exist. The other facts are `dns NIC SERVER...`, `search NIC
//! DOMAIN...`, `link NIC KEY VALUE...`, `no link NIC` and `warning TEXT` (in the log). Settings are `services NAME...` (the only services),
//! `wire RA` (`tests/lib/wires`) and `words WORD...` (the kernel command line). `FIRSTLIGHT_CASE` selects configurations.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tests::{Facts, Machine, fail, tests_dir};

const SEED: &str = "/var/lib/cloud/seed/nocloud";
const NICS: &str = "eth0 52:54:00:80:00:00\neth1 52:54:00:80:00:01\neth2 52:54:00:80:00:02\n";
/// What a boot leaves of its network, beside a new instance.
const FORGET: &str = "rm -rf /var/lib/cloud /run/cloud-init /var/log/cloud-init* /etc/netplan/*cloud-init* \
    /etc/network/interfaces.d/* /etc/systemd/network/10-cloud-init* /etc/NetworkManager/system-connections/* \
    /etc/NetworkManager/conf.d/*cloud-init* /var/lib/NetworkManager /var/lib/systemd/network /etc/udev/rules.d/*persistent-net* \
    /etc/resolv.conf.dhclient* /var/lib/dhcp/*";

/// A configuration with what it asks for.
struct Case {
    name: String,
    file: PathBuf,
    text: String,
}

impl Case {
    fn all() -> Vec<Case> {
        let wanted = std::env::var("FIRSTLIGHT_CASE").unwrap_or_default();
        let entries = fs::read_dir(tests_dir().join("networks")).unwrap_or_else(|e| fail(&e.to_string()));
        let mut cases: Vec<Case> = entries
            .flatten()
            .map(|entry| Case {
                name: entry.file_name().to_string_lossy().into_owned(),
                file: entry.path(),
                text: fs::read_to_string(entry.path()).unwrap_or_default(),
            })
            .filter(|case| case.name.contains(&wanted))
            .collect();
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        cases
    }

    /// Returns the lines of the head that apply to a service.
    fn facts(&self, service: &str) -> Vec<&str> {
        let head = self.text.lines().map_while(|line| line.strip_prefix('#')?.split_once(':'));
        head.filter(|(only, _)| only.is_empty() || only.split(',').any(|s| s == service))
            .map(|(_, fact)| fact.trim())
            .collect()
    }

    /// Returns the words behind a setting.
    fn setting<'a>(facts: &[&'a str], name: &str) -> Option<&'a str> {
        facts.iter().find_map(|fact| fact.strip_prefix(name)?.strip_prefix(' '))
    }
}

/// A fact of the machine: its words up to the object, and the properties of the object.
type Fact = (String, BTreeMap<String, String>);

/// Reads `route [TYPE] TO KEY VALUE...`, `rule KEY VALUE...` and `link NIC KEY VALUE...`; `onlink` has no value.
fn listed(fact: &str) -> Fact {
    let words: Vec<&str> = fact.split_whitespace().collect();
    let mut head = usize::from(words[0] != "rule") + 1;
    let has_type =
        words[0] == "route" && ["blackhole", "unreachable", "prohibit", "throw", "local"].contains(&words[1]);
    head += usize::from(has_type);
    let mut properties = BTreeMap::new();
    let mut rest = words[head..].iter();
    while let Some(key) = rest.next() {
        let value = if *key == "onlink" { "yes" } else { rest.next().copied().unwrap_or_default() };
        properties.insert((*key).to_string(), value.to_string());
    }
    let type_ = if words[0] == "route" && !has_type { "route unicast " } else { "" };
    let begin = words[..head].join(" ");
    (begin.replacen("route ", if type_.is_empty() { "route " } else { type_ }, 1), properties)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), Into::into)
}

fn json(part: &str) -> Vec<Value> {
    serde_json::from_str(part).unwrap_or_default()
}

/// The routes of every table that were configured or that a server gave.
fn routes(part: &str, default: &str) -> Vec<Fact> {
    let mut facts = Vec::new();
    for route in json(part) {
        let get = |key: &str| route.get(key).map(text);
        let (to, table) = (get("dst").unwrap_or_default(), get("table").unwrap_or("main".into()));
        let kind = get("type").unwrap_or("unicast".into());
        let own = get("protocol").as_deref() == Some("kernel") || table == "local";
        let link_local = ["fe80::/64", "ff00::/8"].contains(&to.as_str()) || kind == "multicast";
        // The way to a DHCP server or router itself, and the prefix of an advertisement.
        let on_link = ["dhcp", "ra"].map(Into::into).contains(&get("protocol").unwrap_or_default())
            && get("gateway").is_none()
            && get("via").is_none();
        if own || link_local || on_link {
            continue;
        }
        let mut properties = BTreeMap::new();
        let far = route.get("via").and_then(|v| v.get("host")).map(text);
        for (key, value) in [
            ("via", get("gateway").or(far)),
            ("dev", get("dev").filter(|_| kind == "unicast")),
            ("table", Some(table).filter(|t| t != "main")),
            ("scope", get("scope")),
            ("metric", get("metric")),
            ("src", get("prefsrc")),
        ] {
            properties.extend(value.map(|v| (key.to_string(), v)));
        }
        for flag in route.get("flags").and_then(Value::as_array).into_iter().flatten() {
            properties.insert(text(flag), "yes".into());
        }
        for metrics in route.get("metrics").and_then(Value::as_array).into_iter().flatten() {
            properties.extend(metrics.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), text(v))));
        }
        let to = if to == "default" { default } else { &to };
        facts.push((format!("route {kind} {to}"), properties));
    }
    facts
}

fn rules(part: &str) -> Vec<Fact> {
    let own = |rule: &Value| {
        ["local", "main", "default"].map(Value::from).contains(&rule["table"])
            && [0, 32766, 32767].map(Value::from).contains(&rule["priority"])
    };
    let read = |rule: Value| {
        let mut properties = BTreeMap::new();
        for (key, from, len) in [("from", "src", "srclen"), ("to", "dst", "dstlen")] {
            let Some(address) = rule.get(from).map(text).filter(|a| a != "all") else { continue };
            let len = rule.get(len).map(|l| format!("/{}", text(l))).unwrap_or_default();
            properties.insert(key.to_string(), address + &len);
        }
        for (key, name) in [
            ("lookup", "table"),
            ("priority", "priority"),
            ("fwmark", "fwmark"),
            ("iif", "iif"),
            ("action", "action"),
        ] {
            properties.extend(rule.get(name).map(|v| (key.to_string(), text(v))));
        }
        ("rule".to_string(), properties)
    };
    json(part).into_iter().filter(|rule| !own(rule)).map(read).collect()
}

fn links(part: &str) -> Vec<Fact> {
    let read = |link: &Value| {
        let mut properties = BTreeMap::new();
        let detail = &link["linkinfo"];
        let flags = link["flags"].as_array();
        let up = flags.is_some_and(|flags| flags.contains(&Value::from("UP")));
        properties.insert("state".to_string(), if up { "up" } else { "down" }.to_string());
        for (key, value) in [
            ("mtu", &link["mtu"]),
            ("address", &link["address"]),
            ("master", &link["master"]),
            ("link", &link["link"]),
            ("kind", &detail["info_kind"]),
            ("id", &detail["info_data"]["id"]),
            ("mode", &detail["info_data"]["mode"]),
            ("stp", &detail["info_data"]["stp_state"]),
        ] {
            properties.insert(key.to_string(), text(value));
        }
        (format!("link {}", text(&link["ifname"])), properties)
    };
    json(part).iter().map(read).collect()
}

/// Returns whether the machine has the listed fact. What decides where a packet goes must be listed.
fn matches(listed: &Fact, seen: &Fact) -> bool {
    const COMPLETE: [&str; 3] = ["via", "dev", "table"];
    let same = |(key, value): (&String, &String)| match value.split_once('*') {
        Some((begin, _)) => seen.1.get(key).is_some_and(|v| v.starts_with(begin)),
        None => seen.1.get(key) == Some(value),
    };
    let complete = listed.0.starts_with("link ")
        || COMPLETE.iter().all(|key| listed.1.contains_key(*key) == seen.1.contains_key(*key));
    listed.0 == seen.0 && listed.1.iter().all(same) && complete
}

/// Returns what is missing, and what is there without being asked for.
fn wrong(facts: &[&str], boot: &Facts) -> Vec<String> {
    let dump = boot.text("more");
    let parts: BTreeMap<&str, &str> = dump.split("## ").filter_map(|part| part.split_once('\n')).collect();
    let part = |name: &str| parts.get(name).copied().unwrap_or_default();
    let mut wrong = Vec::new();

    let mut addresses = Vec::new();
    for link in json(part("addresses")) {
        for address in link["addr_info"].as_array().into_iter().flatten() {
            let is_own = text(&link["ifname"]) == "lo" && address["scope"] == "host";
            if !is_own && address["scope"] != "link" {
                let (local, prefix) = (text(&address["local"]), text(&address["prefixlen"]));
                addresses.push(format!("{} {local}/{prefix}", text(&link["ifname"])));
            }
        }
    }
    let mut seen: Vec<Fact> = routes(part("routes4"), "default");
    seen.extend(routes(part("routes6"), "::/0"));
    seen.extend(rules(part("rules4")));
    seen.extend(rules(part("rules6")));
    let links = links(part("links"));
    let log = boot.file("/var/log/cloud-init.log").unwrap_or_default();
    let mut gateways = Vec::new();
    for fact in facts {
        let words: Vec<&str> = fact.split_whitespace().collect();
        match words[0] {
            "services" | "wire" | "words" => {}
            "route" | "rule" => {
                let wanted = listed(fact);
                gateways.extend(wanted.1.get("via").cloned());
                match seen.iter().position(|s| matches(&wanted, s)) {
                    Some(found) => drop(seen.remove(found)),
                    None => wrong.push(format!("missing: {fact}")),
                }
            }
            "link" => {
                if !links.iter().any(|s| matches(&listed(fact), s)) {
                    let now = links.iter().filter(|l| l.0 == words[..2].join(" "));
                    wrong.push(format!("missing: {fact}: {:?}", now.collect::<Vec<_>>()));
                }
            }
            "no" => {
                if links.iter().any(|l| l.0 == words[1..].join(" ")) {
                    wrong.push(format!("unexpected: {}", words[1..].join(" ")));
                }
            }
            "dns" | "search" => {
                let of = if words[1] == "Global" { "Global:".into() } else { format!("({}):", words[1]) };
                let line =
                    part(words[0]).lines().find_map(|l| l.split_once(&of)).map_or("", |(_, rest)| rest);
                // ifupdown configures resolved for one family after the other.
                let sorted = |mut words: Vec<&str>| {
                    words.sort_unstable();
                    words.join(" ")
                };
                let now = sorted(line.split_whitespace().collect());
                if now != sorted(words[2..].to_vec()) {
                    wrong.push(format!("missing: {fact}: '{now}'"));
                }
            }
            "warning" => {
                let text = words[1..].join(" ");
                if !log.lines().any(|l| l.contains("WARNING") && l.contains(&text)) {
                    wrong.push(format!("missing: {fact}"));
                }
            }
            _ => match addresses.iter().position(|a| match fact.split_once('*') {
                Some((begin, _)) => a.starts_with(begin),
                None => a == fact,
            }) {
                Some(found) => drop(addresses.remove(found)),
                None => wrong.push(format!("missing: {fact}")),
            },
        }
    }
    // NetworkManager adds the way to a gateway outside of the subnet.
    seen.retain(|s| !gateways.iter().any(|g| s.0.ends_with(&format!(" {g}")) && !s.1.contains_key("via")));
    wrong.extend(addresses.iter().map(|a| format!("unexpected: {a}")));
    wrong.extend(seen.iter().map(|(head, properties)| format!("unexpected: {head} {properties:?}")));
    wrong
}

/// Returns the line of an address or a gateway that `guest/network-dump` waits for.
fn awaited(fact: &str) -> Option<String> {
    let (first, rest) = fact.split_once(' ')?;
    match first {
        "route" => Some(format!("via {}\n", rest.split_once("via ")?.1.split(' ').next()?)),
        _ => (!rest.contains([' ', '=']) && rest.contains(['/', '*'])).then(|| format!("{rest}\n")),
    }
}

fn boots(service: &str, package: &str) {
    let services = ["ifupdown", "netplan.io", "network-manager"];
    // ifupdown's helpers: a DHCP client, and bridges.
    let packages = [&services[..], &["isc-dhcp-client", "bridge-utils", "systemd-resolved"]].concat();
    let machine = Machine::with(&format!("networks-{service}"), &packages);
    let others = services.into_iter().filter(|p| *p != package);
    machine.run(&[&["dpkg", "--purge"], &others.collect::<Vec<_>>()[..]].concat());
    if !["networkd", "netplan"].contains(&service) {
        machine.run(&["systemctl", "disable", "systemd-networkd.service", "systemd-networkd.socket"]);
    }
    machine.install();
    let renderer =
        format!("system_info: {{network: {{renderers: [{service}], activators: [{service}, networkd]}}}}\n");
    machine.write("/etc/cloud/cloud.cfg.d/90_network.cfg", &renderer);
    // NICs without a profile get none.
    machine.write("/etc/NetworkManager/conf.d/00-test.conf", "[main]\nno-auto-default=*\n");
    machine.put(&tests_dir().join("guest"), "/srv/guest");
    machine.run(&["install", "-m755", "/srv/guest/network-dump", "/usr/local/sbin/facts-more"]);
    // The facts wait for the addresses, so that a network that does not come up as meant is reported soon.
    for (unit, lines) in [
        (
            "systemd-networkd-wait-online",
            "ExecStart=\nExecStart=/usr/lib/systemd/systemd-networkd-wait-online --timeout=8",
        ),
        ("NetworkManager-wait-online", "Environment=NM_ONLINE_TIMEOUT=8"),
        ("networking", "TimeoutStartSec=30"),
    ] {
        let path = format!("/etc/systemd/system/{unit}.service.d/quick.conf");
        machine.write(&path, &format!("[Service]\n{lines}\n"));
    }
    let wires = fs::read_to_string(tests_dir().join("lib/wires")).unwrap_or_default();

    let (mut report, mut tried) = (Vec::new(), 0);
    for case in Case::all() {
        let facts = case.facts(service);
        if Case::setting(&facts, "services").is_some_and(|only| !only.split(' ').any(|s| s == service)) {
            continue;
        }
        tried += 1;
        machine.run(&["sh", "-c", FORGET]);
        let is = |kind: &str| case.file.extension().is_some_and(|e| e == kind);
        let mut metadata = format!("instance-id: i-{}\nlocal-hostname: wired\n", case.name);
        if is("interfaces") {
            metadata.push_str("network-interfaces: |\n");
            case.text.lines().for_each(|line| metadata.push_str(&format!("  {line}\n")));
        }
        machine.write(&format!("{SEED}/meta-data"), &metadata);
        machine.write(&format!("{SEED}/user-data"), "#cloud-config\nssh_genkeytypes: [ed25519]\n");
        if is("yaml") {
            machine.write(&format!("{SEED}/network-config"), &case.text);
        }
        // What may come after the boot: addresses, and routes by their gateways.
        let awaited: String = facts.iter().filter_map(|fact| awaited(fact)).collect();
        machine.write("/srv/awaited", &awaited);
        let wire = Case::setting(&facts, "wire").unwrap_or_default();
        machine.connect_nics(NICS, &format!("WIRES=3 RA={wire}\n{wires}"));
        let words = Case::setting(&facts, "words").unwrap_or_default();
        machine.kernel_words(words);
        let boot = machine.boot();
        let wrong = wrong(&facts, &boot);
        eprintln!("{service} {}: {}", case.name, if wrong.is_empty() { "as meant" } else { "wrong" });
        if !wrong.is_empty() {
            report.push(format!(
                "{} ({service}): {}\n  {}",
                case.name,
                boot.diagnostics(),
                wrong.join("\n  ")
            ));
        }
    }
    assert!(report.is_empty(), "{} of {tried} wrong:\n{}", report.len(), report.join("\n"));
    assert!(tried > 0, "no configuration was tried");
}

#[test]
#[ignore = "many boots: make slow"]
fn networkd_has_the_network() {
    boots("networkd", "networkd");
}

#[test]
#[ignore = "many boots: make slow"]
fn netplan_has_the_network() {
    boots("netplan", "netplan.io");
}

#[test]
#[ignore = "many boots: make slow"]
fn eni_has_the_network() {
    boots("eni", "ifupdown");
}

#[test]
#[ignore = "many boots: make slow"]
fn network_manager_has_the_network() {
    boots("network-manager", "network-manager");
}
