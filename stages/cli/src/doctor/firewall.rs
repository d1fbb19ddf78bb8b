//! Rules of nftables and iptables that drop every packet of a kind. A rule that may accept one counts as accepting it: only what is
//! certain is reported.

use std::time::Duration;

use serde_json::Value;
use system::Command;

use super::page::Page;
use crate::finding::{Finding, Layer, Severity};
use crate::json;
use crate::machine::Machine;
use crate::units;

// Wait: doctor | nft, iptables-save and ip6tables-save, each | -
const TIMEOUT: Duration = Duration::from_secs(5);
/// The programs that print the rules of iptables.
const SAVE: &str = "iptables-save iptables-legacy-save ip6tables-save ip6tables-legacy-save";
/// Modules of iptables whose options are known, or that have no condition.
const MATCHES: [&str; 6] = ["tcp", "udp", "multiport", "conntrack", "state", "comment"];
/// Targets of iptables after which the next rule follows.
const WITHOUT_VERDICT: [&str; 8] = ["LOG", "NFLOG", "ULOG", "MARK", "CONNMARK", "AUDIT", "TRACE", "CT"];
/// The maximum size in bytes of a list of rules that is examined. Each packet would take seconds with the larger ones of cluster nodes.
const MAX_SIZE: usize = 256 << 10;
/// The maximum number of chains that call each other, and of calls. Beyond them a chain counts as one that accepts.
const MAX_DEPTH: usize = 16;
const MAX_CALLS: usize = 10_000;
/// Words of rules that give packets another destination.
const REDIRECTS: [&str; 4] = ["\"dnat\":", "\"redirect\"", "DNAT", "REDIRECT"];
/// Findings that packets which are dropped may cause: their places.
const SYMPTOMS: [&str; 3] = ["/etc/resolv.conf", "network", "datasource"];

/// A kind of packets, which do not come from this machine or are not for it.
#[derive(Clone, Copy)]
struct Packet {
    /// The hooks that it passes.
    hooks: [&'static str; 2],
    protocol: &'static str,
    /// The first and the last port that may be its destination.
    ports: (u16, u16),
    /// The same of its source.
    sources: (u16, u16),
    /// The state of its connection.
    state: &'static str,
    is_ipv6: bool,
    /// Whether a rule gives packets another destination.
    may_be_redirected: bool,
}

const INPUT: [&str; 2] = ["prerouting", "input"];
const HTTP: Packet = Packet {
    hooks: ["output", "postrouting"],
    protocol: "tcp",
    ports: (80, 80),
    sources: (1024, 65535),
    state: "new",
    is_ipv6: false,
    may_be_redirected: false,
};
/// Answers of web and name servers, to any port of a client.
const ANSWER: Packet =
    Packet { hooks: INPUT, ports: (1025, 65535), sources: (80, 443), state: "established", ..HTTP };

enum Verdict {
    Continue,
    Accept,
    Drop,
    Return,
    /// To this chain of the table, and whether the rule after this one follows it.
    Jump(String, bool),
}

struct Rule {
    /// Whether it applies to the packet; `None` if that depends on more.
    applies: Option<bool>,
    verdict: Verdict,
}

/// A chain with its rules for one packet.
struct Chain {
    table: String,
    name: String,
    hook: String,
    /// Whether its policy drops what no rule decides.
    drops: bool,
    rules: Vec<Rule>,
}

/// The rules of this machine.
struct Firewall {
    /// The output of iptables-save, and whether it is for IPv6.
    saved: Vec<(String, bool)>,
    /// The output of nft, as JSON.
    nft: String,
}

/// Reports that no connection to these ports of sshd is let in.
pub fn connections(machine: &Machine, ports: &[u16], page: &mut Page) {
    // A socket of systemd may have others than sshd's configuration.
    let sockets = units::show(machine, &["ssh.socket", "sshd.socket"]).unwrap_or_default();
    let active = sockets.iter().filter(|unit| unit.get("ActiveState") == "active");
    let others = active
        .flat_map(|unit| unit.all("Listen"))
        .filter_map(|at| at.split(' ').next()?.rsplit(':').next()?.parse().ok());
    let ports: Vec<u16> = ports.iter().copied().chain(others).collect();
    let packet = |port: &u16| Packet { hooks: INPUT, ports: (*port, *port), ..HTTP };
    let packets: Vec<Packet> = ports.iter().map(packet).collect();
    let firewall = Firewall::read(machine, page);
    let (Some(chain), is_everywhere) = firewall.dropping(machine, &packets) else { return };
    let is_usual = ports.iter().all(|port| *port == 22);
    let is_of_ufw =
        chain.starts_with("iptables") && firewall.saved.iter().any(|(text, _)| text.contains("\n:ufw-"));
    let (severity, which) = match is_everywhere {
        true => (Severity::Error, "connection"),
        false => (Severity::Note, "connection of one version of IP"),
    };
    let remedy = match () {
        () if is_usual && is_of_ufw => "ufw allow OpenSSH",
        () if is_usual && chain.contains("firewalld") => {
            "firewall-cmd --permanent --add-service=ssh; firewall-cmd --reload"
        }
        () => {
            "accept TCP to sshd's port in that chain, and in the file that is loaded at boot (/etc/nftables.conf, /etc/iptables, /etc/sysconfig)"
        }
    };
    page.findings.add(severity, chain, format!("drops every new {which} to sshd"), remedy);
}

/// Reports that requests of this machine, or the answers to them, are dropped, if something failed that needs them.
pub fn requests(machine: &Machine, page: &mut Page) {
    let is_symptom = |finding: &&Finding| {
        SYMPTOMS.contains(&&*finding.place) || finding.problem.contains("did not answer")
    };
    if !machine.sys.is_live() || !page.findings.all.iter().any(|finding| is_symptom(&finding)) {
        return;
    }
    let firewall = Firewall::read(machine, page);
    page.findings.layer = Layer::Machine;
    // The usual ports of proxies, and name servers over TLS, too.
    let web = [80, 443, 3128, 8080].map(|port| Packet { ports: (port, port), ..HTTP });
    let names = [("udp", 53), ("tcp", 53), ("tcp", 853)];
    let names = names.map(|(protocol, port)| Packet { protocol, ports: (port, port), ..HTTP });
    for (what, packets) in [
        ("every request to a web server or proxy", &web[..]),
        ("every request to a name server", &names),
        ("the answers to all requests of this machine", &[ANSWER]),
    ] {
        if let (Some(chain), true) = firewall.dropping(machine, packets) {
            let remedy = "accept them in that chain; answers by their state: established, related";
            page.findings.error(chain, format!("drops {what}"), remedy);
        }
    }
}

impl Firewall {
    fn read(machine: &Machine, page: &mut Page) -> Firewall {
        let mut run = |argv: &[&str]| {
            machine.sys.which(argv[0])?;
            let command = Command::new(argv).timeout(TIMEOUT).read_only();
            let text = page.findings.read(machine.sys.run(&command))?.text();
            Some(text).filter(|text| text.len() <= MAX_SIZE)
        };
        let saved =
            SAVE.split(' ').filter_map(|program| Some((run(&[program])?, program.starts_with("ip6"))));
        let saved = saved.collect();
        let nft = run(&["nft", "--terse", "--json", "list", "ruleset"]).unwrap_or_default();
        Firewall { nft, saved }
    }

    /// Returns a chain that drops all of these packets, and whether this is so for each version of IP of which the machine has a
    /// global address.
    fn dropping(&self, machine: &Machine, packets: &[Packet]) -> (Option<String>, bool) {
        let addresses = machine.sys.link_addresses().unwrap_or_default();
        let has = |is_ipv6: &bool| addresses.iter().any(|a| a.global && a.ipv6 == *is_ipv6);
        let mut versions: Vec<bool> = [false, true].into_iter().filter(has).collect();
        if versions.is_empty() {
            versions.push(false);
        }
        let of_version = |is_ipv6: &bool| {
            let dropping = packets.iter().map(|packet| self.drops(Packet { is_ipv6: *is_ipv6, ..*packet }));
            dropping.collect::<Option<Vec<String>>>()?.pop()
        };
        let dropping: Vec<String> = versions.iter().filter_map(of_version).collect();
        (dropping.first().cloned(), dropping.len() == versions.len())
    }

    /// Returns the chain that certainly drops a packet.
    fn drops(&self, mut packet: Packet) -> Option<String> {
        let texts = || self.saved.iter().map(|(text, _)| text).chain([&self.nft]);
        packet.may_be_redirected = texts().any(|text| REDIRECTS.iter().any(|word| text.contains(word)));
        // The rules before a redirection see other ports than those after it.
        let hooks = &packet.hooks[usize::from(packet.may_be_redirected)..];
        if packet.may_be_redirected && packet.hooks != INPUT {
            return None;
        }
        let saved = self.saved.iter().filter(|(_, is_ipv6)| *is_ipv6 == packet.is_ipv6);
        let saved = saved.map(|(text, _)| ("iptables", packet.chains_of_iptables(text)));
        saved.chain([("nftables", packet.chains_of_nft(&self.nft))]).find_map(|(kind, chains)| {
            let drops = |chain: &&Chain| {
                let (accepts, ends) = outcome(&chains, chain, MAX_DEPTH, &mut MAX_CALLS.clone());
                hooks.contains(&&*chain.hook) && !accepts && (!ends || chain.drops)
            };
            let chain = chains.iter().find(drops)?;
            Some(format!("{kind}: table {}, chain {}", chain.table, chain.name))
        })
    }
}

/// Returns whether a chain may accept the packet, and whether its end, or a rule that returns, may be reached.
fn outcome(chains: &[Chain], chain: &Chain, depth: usize, calls: &mut usize) -> (bool, bool) {
    let mut may_return = false;
    for rule in chain.rules.iter().filter(|rule| rule.applies != Some(false)) {
        let (accepts, goes_on) = match &rule.verdict {
            Verdict::Continue => (false, true),
            Verdict::Accept => (true, false),
            Verdict::Drop => (false, false),
            Verdict::Return => {
                may_return = true;
                (false, false)
            }
            Verdict::Jump(name, returns_here) => {
                let called = chains.iter().find(|other| other.table == chain.table && other.name == *name);
                *calls = calls.saturating_sub(1);
                let (accepts, ends) = match called.filter(|_| depth > 0 && *calls > 0) {
                    Some(called) => outcome(chains, called, depth - 1, calls),
                    None => (true, true),
                };
                may_return |= ends && !returns_here;
                (accepts, ends && *returns_here)
            }
        };
        if accepts {
            return (true, true);
        }
        if !goes_on && rule.applies == Some(true) {
            return (false, may_return);
        }
    }
    (false, true)
}

impl Packet {
    /// Returns whether a condition holds: the name that nftables or iptables has for it, and a list of values with commas between them.
    fn fulfils(&self, name: &str, values: &str) -> Option<bool> {
        let words = || values.split(',');
        if values.is_empty() || values.contains(['*', '@']) {
            return None;
        }
        match name {
            "-i" | "-o" | "iif" | "iifname" | "oif" | "oifname" => (values == "lo").then_some(false),
            "-p" | "l4proto" | "protocol" | "nexthdr" => {
                let is_number = |word: &str| word.parse::<u8>().is_ok();
                (!words().any(is_number)).then(|| words().any(|word| [self.protocol, "all"].contains(&word)))
            }
            "nfproto" | "family" => {
                let names = if self.is_ipv6 { ["ipv6", "ip6"] } else { ["ipv4", "ip"] };
                Some(words().any(|word| names.contains(&word)))
            }
            "status" => (values == "dnat" && !self.may_be_redirected).then_some(false),
            "state" | "--state" | "--ctstate" => {
                let has = |state: &str| words().any(|word| word.eq_ignore_ascii_case(state));
                // Packets without tracking have another state.
                let may_be_other =
                    has("untracked") || has("invalid") || has("dnat") && self.may_be_redirected;
                (has(self.state) || !may_be_other).then(|| has(self.state))
            }
            "dport" | "--dport" | "--dports" | "sport" | "--sport" | "--sports" => {
                let range = |word: &str| {
                    let (from, to) = word.split_once([':', '-']).unwrap_or((word, word));
                    Some((from.parse::<u16>().ok()?, to.parse::<u16>().ok()?))
                };
                let ranges: Vec<(u16, u16)> = words().map(range).collect::<Option<_>>()?;
                let (first, last) = if name.contains("sport") { self.sources } else { self.ports };
                match ranges.iter().any(|(from, to)| *from <= last && *to >= first) {
                    false => Some(false),
                    true => ranges.iter().any(|(from, to)| *from <= first && *to >= last).then_some(true),
                }
            }
            _ => None,
        }
    }

    /// Reads the output of iptables-save.
    fn chains_of_iptables(&self, text: &str) -> Vec<Chain> {
        let (mut chains, mut table): (Vec<Chain>, &str) = (Vec::new(), "");
        for line in text.lines() {
            let quoted = line.split('"').enumerate();
            let words: Vec<&str> = quoted
                .flat_map(|(at, part)| match at % 2 {
                    0 => part.split_whitespace().collect(),
                    _ => vec![part],
                })
                .collect();
            match words[..] {
                [name] if name.starts_with('*') => table = &name[1..],
                [name, policy, ..] if name.starts_with(':') => {
                    // Only a built-in chain has a policy.
                    let hook = if policy == "-" { String::new() } else { name[1..].to_lowercase() };
                    chains.push(Chain::new(table, &name[1..], &hook, policy == "DROP"));
                }
                ["-A", name, ref rest @ ..] => {
                    if let Some(chain) = chains.iter_mut().rfind(|chain| chain.name == name) {
                        // A quotation mark in a comment has a backslash.
                        let is_known = !line.contains('\\');
                        let rule = if is_known { self.rule_of_iptables(rest) } else { Rule::UNKNOWN };
                        chain.rules.push(rule);
                    }
                }
                _ => {}
            }
        }
        chains
    }

    fn rule_of_iptables(&self, words: &[&str]) -> Rule {
        let mut rule = Rule { applies: Some(true), verdict: Verdict::Continue };
        let (mut words, mut is_not) = (words.iter().copied().peekable(), false);
        while let Some(word) = words.next() {
            let value = words.next_if(|next| !next.starts_with(['-', '!'])).unwrap_or_default();
            match word {
                "!" => is_not = true,
                "--comment" => {}
                "-m" if MATCHES.contains(&value) => {}
                "-j" | "-g" => {
                    rule.verdict = match value {
                        "ACCEPT" => Verdict::Accept,
                        "DROP" | "REJECT" => Verdict::Drop,
                        "RETURN" => Verdict::Return,
                        _ if WITHOUT_VERDICT.contains(&value) => Verdict::Continue,
                        // Another target is no chain, and counts as one that accepts.
                        name => Verdict::Jump(name.to_string(), word == "-j"),
                    };
                    break;
                }
                option => {
                    let holds = self.fulfils(option, value).map(|holds| holds != is_not);
                    rule.applies = both(rule.applies, holds);
                    is_not = false;
                }
            }
        }
        rule
    }

    /// Reads the output of nft, in libnftables-json(5).
    fn chains_of_nft(&self, text: &str) -> Vec<Chain> {
        let mut chains: Vec<Chain> = Vec::new();
        let all = config::json::value(text.as_bytes()).unwrap_or_default();
        let tables = || json::items(&all, "nftables").map(|item| &item["table"]);
        for item in json::items(&all, "nftables") {
            let (chain, rule) = (&item["chain"], &item["rule"]);
            let of = if chain.is_object() { chain } else { rule };
            let family = json::text(of, "family");
            if family != "inet" && family != if self.is_ipv6 { "ip6" } else { "ip" } {
                continue;
            }
            let name = json::text(of, "table");
            // A dormant table has no effect; nft has printed its flag in several ways.
            let has_flags = |table: &Value| {
                json::text(table, "family") == family
                    && json::text(table, "name") == name
                    && !table["flags"].is_null()
            };
            if tables().any(has_flags) {
                continue;
            }
            let table = format!("{family} {name}");
            if chain.is_object() {
                let drops = json::text(chain, "policy") == "drop";
                chains.push(Chain::new(&table, json::text(chain, "name"), json::text(chain, "hook"), drops));
            } else if let Some(chain) = chains
                .iter_mut()
                .find(|chain| chain.table == table && chain.name == json::text(rule, "chain"))
            {
                self.rules_of_nft(rule, &mut chain.rules);
            }
        }
        chains
    }

    /// Adds a rule, and before it those that are the rows of its map of verdicts.
    fn rules_of_nft(&self, rule: &Value, rules: &mut Vec<Rule>) {
        let mut applies = Some(true);
        let mut last = Verdict::Continue;
        let statements = json::items(rule, "expr").filter_map(Value::as_object).flatten();
        for (name, value) in statements {
            match name.as_str() {
                "match" => {
                    let holds = self.fulfils_nft(&value["left"], &value["right"], json::text(value, "op"));
                    applies = both(applies, holds);
                }
                "vmap" => {
                    let rows = value["data"]["set"].as_array();
                    // The map is not shown.
                    last = if rows.is_some() { Verdict::Continue } else { Verdict::Accept };
                    for row in rows.into_iter().flatten() {
                        let applies = both(applies, self.fulfils_nft(&value["key"], &row[0], "=="));
                        let verdict = row[1].as_object().and_then(|row| row.iter().next());
                        let verdict =
                            verdict.map_or(Verdict::Accept, |(name, value)| verdict_of(name, value));
                        rules.push(Rule { applies, verdict });
                    }
                }
                "counter" | "log" => {}
                name => {
                    last = verdict_of(name, value);
                    if matches!(last, Verdict::Accept) {
                        applies = both(applies, None);
                    }
                }
            }
        }
        rules.push(Rule { applies, verdict: last });
    }

    fn fulfils_nft(&self, left: &Value, right: &Value, operator: &str) -> Option<bool> {
        let (protocol, name) = match left.as_object()?.iter().next()? {
            (kind, value) if kind == "payload" => (json::text(value, "protocol"), json::text(value, "field")),
            (_, value) => match json::text(value, "key") {
                "protocol" => ("", "family"),
                name => ("", name),
            },
        };
        let is_of_protocol = match protocol {
            "" | "th" => Some(true),
            "ip" | "ip6" => Some((protocol == "ip6") == self.is_ipv6),
            "tcp" | "udp" | "icmp" | "icmpv6" | "sctp" | "dccp" | "esp" | "ah" => {
                self.fulfils("-p", protocol)
            }
            _ => None,
        };
        let holds = self.fulfils(name, &values(right));
        let holds = match operator {
            "==" | "in" => holds,
            "!=" => holds.map(|holds| !holds),
            _ => None,
        };
        both(is_of_protocol, holds)
    }
}

impl Chain {
    fn new(table: &str, name: &str, hook: &str, drops: bool) -> Chain {
        Chain { table: table.into(), name: name.into(), hook: hook.into(), drops, rules: Vec::new() }
    }
}

impl Rule {
    const UNKNOWN: Rule = Rule { applies: None, verdict: Verdict::Accept };
}

/// Returns the verdict of a statement of nftables. One that is not known counts as one that accepts.
fn verdict_of(name: &str, value: &Value) -> Verdict {
    match name {
        "drop" | "reject" => Verdict::Drop,
        "return" => Verdict::Return,
        "continue" => Verdict::Continue,
        "jump" | "goto" => Verdict::Jump(json::text(value, "target").to_string(), name == "jump"),
        _ => Verdict::Accept,
    }
}

/// Returns the values of a condition of nftables with commas between them. `*` stands for one that is not known.
fn values(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Array(all) => all.iter().map(values).collect::<Vec<_>>().join(","),
        value => match (&value["set"], &value["range"]) {
            (Value::Null, Value::Array(ends)) => ends.iter().map(values).collect::<Vec<_>>().join("-"),
            (Value::Null, _) => "*".into(),
            (set, _) => values(set),
        },
    }
}

/// Returns whether two conditions hold.
fn both(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SSH: Packet = Packet { hooks: INPUT, ports: (22, 22), ..HTTP };

    /// Each of the packets is dropped by the chain, or not.
    fn check(firewall: &Firewall, rules: &str, expected: [bool; 3]) {
        for (packet, is_dropped) in [SSH, ANSWER, HTTP].into_iter().zip(expected) {
            let chain = firewall.drops(packet);
            assert_eq!(chain.is_some(), is_dropped, "{:?}: {chain:?}: {rules}", packet.ports);
        }
    }

    #[test]
    fn rules_of_iptables_that_drop_everything_are_found() {
        let all_drop = ":INPUT DROP [0:0]\n";
        for (rules, expected) in [
            (":INPUT ACCEPT [0:0]\n", [false, false, false]),
            (all_drop, [true, true, false]),
            (
                ":OUTPUT DROP [0:0]\n-A OUTPUT -o lo -j ACCEPT\n-A OUTPUT -p tcp -m tcp --sport 22 -j ACCEPT\n",
                [false, false, true],
            ),
            (":INPUT DROP [0:0]\n-A INPUT -p tcp -m tcp --sport 443 -j ACCEPT\n", [true, false, false]),
            (
                ":INPUT DROP [0:0]\n-A INPUT -i lo -j ACCEPT\n-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A INPUT -p icmp -j ACCEPT\n-A INPUT -p tcp -m multiport --dports 80,443 -j ACCEPT\n-A INPUT -p udp -m udp --dport 22 -j ACCEPT\n",
                [true, false, false],
            ),
            // Who may is not known.
            (
                ":INPUT DROP [0:0]\n-A INPUT -s 192.0.2.0/24 -p tcp -m tcp --dport 22 -j ACCEPT\n",
                [false, true, false],
            ),
            (
                ":INPUT DROP [0:0]\n-A INPUT -m recent --rcheck --rttl --name x --rsource -j ACCEPT\n",
                [false, false, false],
            ),
            (
                ":INPUT DROP [0:0]\n-A INPUT -m comment --comment \"a \\\" -p udp\" -j ACCEPT\n",
                [false, false, false],
            ),
            (
                ":INPUT DROP [0:0]\n-A INPUT -i lo -m comment --comment \"-j DROP\" -j ACCEPT\n",
                [true, true, false],
            ),
            (":INPUT DROP [0:0]\n-A INPUT ! -i lo -j ACCEPT\n", [false, false, false]),
            (":INPUT DROP [0:0]\n-A INPUT -j NFQUEUE --queue-num 0\n", [false, false, false]),
            (
                ":INPUT DROP [0:0]\n-A INPUT -m conntrack --ctstate INVALID,UNTRACKED -j SYNPROXY\n",
                [false, false, false],
            ),
            (
                ":INPUT ACCEPT [0:0]\n:input - [0:0]\n-A INPUT -i eth1 -j input\n-A input -j DROP\n",
                [false, false, false],
            ),
            (":INPUT ACCEPT [0:0]\n-A INPUT -p tcp -m tcp --dport 22 -j DROP\n", [true, false, false]),
            (
                ":INPUT ACCEPT [0:0]\n-A INPUT -s 192.0.2.1 -p tcp -m tcp --dport 22 -j DROP\n",
                [false, false, false],
            ),
            (
                ":INPUT ACCEPT [0:0]\n-A INPUT -p tcp -m tcp --dport 1:1024 -j ACCEPT\n-A INPUT -j REJECT\n",
                [false, true, false],
            ),
            // As ufw's.
            (
                ":INPUT DROP [0:0]\n:user - [0:0]\n:local - [0:0]\n-A INPUT -m addrtype --dst-type LOCAL -j RETURN\n-A INPUT -j local\n-A local -m addrtype --dst-type LOCAL -j RETURN\n-A local -j DROP\n-A INPUT -j LOG --log-prefix \"[UFW BLOCK] \"\n",
                [true, true, false],
            ),
            (
                ":INPUT DROP [0:0]\n:user - [0:0]\n-A INPUT -g user\n-A user -p tcp -m tcp --dport 22 -j ACCEPT\n",
                [false, true, false],
            ),
            (
                ":INPUT ACCEPT [0:0]\n:loop - [0:0]\n-A INPUT -j loop\n-A loop -j loop\n-A loop -j DROP\n",
                [false, false, false],
            ),
        ] {
            let saved = vec![(format!("*filter\n{rules}COMMIT\n"), false)];
            check(&Firewall { saved, nft: String::new() }, rules, expected);
        }
        // Each chain calls the next one four times.
        let calls = |at: usize| format!("-A c{at} -s 192.0.2.1 -j c{}\n", at + 1).repeat(4);
        let names: String = (0..16).map(|at| format!(":c{at} - [0:0]\n")).collect();
        let rules = format!(
            "*filter\n:INPUT DROP [0:0]\n{names}-A INPUT -j c0\n{}",
            (0..15).map(calls).collect::<String>()
        );
        assert_eq!(Firewall { saved: vec![(rules, false)], nft: String::new() }.drops(SSH), None);
        let of_ipv6 = Firewall { saved: vec![(format!("*filter\n{all_drop}"), true)], nft: String::new() };
        assert_eq!(of_ipv6.drops(SSH), None);
        let chain = of_ipv6.drops(Packet { is_ipv6: true, ..SSH });
        assert_eq!(chain.as_deref(), Some("iptables: table filter, chain INPUT"));
    }

    #[test]
    fn rules_of_nftables_that_drop_everything_are_found() {
        let port = |port: &str| {
            format!(
                r#"{{"match":{{"op":"==","left":{{"payload":{{"protocol":"tcp","field":"dport"}}}},"right":{port}}}}}"#
            )
        };
        let key = |kind: &str, key: &str, right: &str| {
            format!(r#"{{"match":{{"op":"in","left":{{"{kind}":{{"key":"{key}"}}}},"right":{right}}}}}"#)
        };
        let accept = r#"{"accept":null}"#;
        let both = r#"{"set":["ip","ip6","ipv4","ipv6"]}"#;
        let of_ether = r#"{"match":{"op":"==","left":{"payload":{"protocol":"ether","field":"saddr"}},"right":"52:54:00:00:00:01"}}"#;
        let states = r#"{"vmap":{"key":{"ct":{"key":"state"}},"data":{"set":[["invalid",{"drop":null}],["established",{"accept":null}]]}}}"#;
        for (policy, rules, expected) in [
            ("accept", vec![], [false, false, false]),
            ("drop", vec![], [true, true, false]),
            ("drop", vec![states.to_string()], [true, false, false]),
            (
                "drop",
                vec![
                    key("meta", "iifname", "\"lo\"") + "," + accept,
                    key("meta", "l4proto", r#"{"set":["icmp","ipv6-icmp"]}"#) + "," + accept,
                ],
                [true, true, false],
            ),
            (
                "drop",
                vec![
                    key("ct", "state", r#"["established","related"]"#) + "," + accept,
                    port("80") + "," + accept,
                ],
                [true, false, false],
            ),
            ("drop", vec![port(r#"{"set":[80,{"range":[20,25]}]}"#) + "," + accept], [false, true, false]),
            ("drop", vec![port(r#""@ports""#) + "," + accept], [false, false, false]),
            ("drop", vec![key("meta", "iifname", "\"wg0\"") + "," + accept], [false, false, false]),
            ("drop", vec![r#"{"xt":{"type":"target","name":"ACCEPT"}}"#.into()], [false, false, false]),
            ("drop", vec![key("ct", "status", "\"dnat\"") + "," + accept], [true, true, false]),
            ("drop", vec![key("meta", "nfproto", "\"ipv6\"") + "," + accept], [true, true, false]),
            (
                "drop",
                vec![key("meta", "nfproto", both) + "," + &port("22") + "," + accept],
                [false, true, false],
            ),
            (
                "drop",
                vec![key("meta", "protocol", both) + "," + &port("22") + "," + accept],
                [false, true, false],
            ),
            ("drop", vec![key("meta", "protocol", "\"arp\"") + "," + accept], [true, true, false]),
            ("drop", vec![of_ether.to_string() + "," + accept], [false, false, false]),
            (
                "drop",
                vec![key("ct", "state", r#"["established","untracked"]"#) + "," + accept],
                [false, false, false],
            ),
            (
                "accept",
                vec![
                    r#"{"jump":{"target":"own"}}"#.into(),
                    r#"{"counter":{"packets":1}},{"reject":{"type":"icmpx"}}"#.into(),
                ],
                [false, true, false],
            ),
        ] {
            let all: Vec<String> = rules
                .iter()
                .map(|rule| {
                    format!(r#",{{"rule":{{"family":"inet","table":"f","chain":"in","expr":[{rule}]}}}}"#)
                })
                .collect();
            let own = port("22") + "," + accept;
            let nft = format!(
                r#"{{"nftables":[{{"chain":{{"family":"inet","table":"f","name":"in","hook":"input","policy":"{policy}"}}}},
                {{"chain":{{"family":"inet","table":"f","name":"own"}}}},
                {{"rule":{{"family":"inet","table":"f","chain":"own","expr":[{own}]}}}}{}]}}"#,
                all.concat()
            );
            assert!(config::json::value(nft.as_bytes()).is_ok(), "{nft}");
            check(&Firewall { saved: Vec::new(), nft }, &format!("{policy} {rules:?}"), expected);
        }
        for (table, is_active) in [("", true), (r#","flags":["dormant"]"#, false)] {
            let nft = format!(
                r#"{{"nftables":[{{"table":{{"family":"inet","name":"f"{table}}}}},
                {{"chain":{{"family":"inet","table":"f","name":"in","hook":"input","policy":"drop"}}}}]}}"#
            );
            check(&Firewall { saved: Vec::new(), nft }, table, [is_active, is_active, false]);
        }
    }
}
