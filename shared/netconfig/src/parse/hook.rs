//! The commands of ifupdown's hooks that add a route, an address or a policy rule with `ip` or `route`, as version 1 has them. Pure.

use std::net::IpAddr;

use config::{Map, Node};

use super::route::TYPES;

/// The effect of a command.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// A route of version 1.
    Route(Map),
    /// An address with its prefix.
    Address(String),
    /// A policy rule of version 2.
    Rule(Map),
    /// The MTU of the interface.
    Mtu(String),
    /// One that the network service has by itself, such as a link that is up.
    None,
}

/// Returns the effects of the commands of a line on an interface, `None` for each that is not known, or on another one. Of commands
/// that depend on each other all are known or none.
pub fn effects(words: &[&str], interface: &str) -> Vec<Option<Effect>> {
    const COMPOUND: [&str; 7] = ["if", "for", "while", "until", "case", "{", "("];
    if words.iter().any(|word| COMPOUND.contains(word)) {
        return vec![effect(words, interface)];
    }
    let line = words.join(" ").replace(';', " ; ").replace("&&", " && ");
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let mut effects = Vec::new();
    for list in words.split(|word| *word == ";").filter(|list| !list.is_empty()) {
        let commands = list.split(|word| *word == "&&").map(|command| effect(command, interface));
        match commands.collect::<Option<Vec<_>>>() {
            Some(known) => effects.extend(known.into_iter().map(Some)),
            None => effects.push(None),
        }
    }
    effects
}

/// Returns a word of a command with the name of the interface for the variable.
fn expanded(word: &str, interface: &str) -> String {
    let word = word.trim_matches(['"', '\'']).replace("${IFACE}", interface);
    match word.strip_prefix("$IFACE") {
        Some(rest) if !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') => {
            format!("{interface}{rest}")
        }
        _ => word,
    }
}

/// Returns the effect of a command on an interface; `None` if it is not known, or on another one.
fn effect(words: &[&str], interface: &str) -> Option<Effect> {
    // What is written after it is for a command that fails, or its output.
    let end = words.iter().position(|word| *word == "||" || word.contains('>')).unwrap_or(words.len());
    let words: Vec<String> = words[..end].iter().map(|word| expanded(word, interface)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words == ["true"] {
        return Some(Effect::None);
    }
    if words.iter().any(|word| word.contains(['|', '&', ';', '`', '(', '$'])) {
        return None;
    }
    let options = |word: &&&str| word.starts_with('-') && !["-net", "-host"].contains(*word);
    let is_v6 = words.iter().any(|word| ["-6", "inet6", "--inet6"].contains(word));
    let mut rest = words.iter().skip(1).filter(|word| !options(word) && !word.starts_with("inet")).copied();
    let program = words.first()?.rsplit('/').next()?;
    let object = if program == "ip" { rest.next()? } else { program };
    let is_object = |name: &str| !object.is_empty() && name.starts_with(object);
    let action = rest.next()?;
    let rest: Vec<&str> = rest.collect();
    let is_addition = ["add", "append", "replace", "a", "change"].contains(&action);
    match () {
        () if program == "route" || program == "ip" && is_object("route") => {
            if !is_addition {
                return action.starts_with("del").then_some(Effect::None);
            }
            route(&rest, interface, is_v6, program == "route").map(Effect::Route)
        }
        () if program == "ip" && is_object("rule") => {
            let rule = || rule(&rest, is_v6).map(Effect::Rule);
            if is_addition { rule() } else { action.starts_with("del").then_some(Effect::None) }
        }
        () if program == "ip" && is_object("address") => {
            if is_addition {
                return address(&rest, interface).map(Effect::Address);
            }
            action.starts_with("del").then_some(Effect::None)
        }
        () if program == "ip" && is_object("link") && action == "set" => link(&rest, interface),
        () => None,
    }
}

/// Returns the address by the arguments of `ip address add`.
fn address(words: &[&str], interface: &str) -> Option<String> {
    let (mut is_own, mut address) = (false, None);
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "dev" => is_own = words.next()? == interface,
            "label" | "broadcast" | "brd" | "scope" => drop(words.next()?),
            "local" => address = words.next(),
            word if address.is_none() && word.contains(['.', ':']) => address = Some(word),
            _ => return None,
        }
    }
    address.filter(|_| is_own).map(String::from)
}

/// Returns the effect of the arguments of `ip link set`.
fn link(words: &[&str], interface: &str) -> Option<Effect> {
    let (mut is_set, mut effect) = (false, Effect::None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "dev" | "up" | "down" => {}
            "mtu" => effect = Effect::Mtu(words.next()?.to_string()),
            word if word == interface => is_set = true,
            _ => return None,
        }
    }
    is_set.then_some(effect)
}

/// Returns a policy rule of version 2 by the arguments of ip-rule(8).
fn rule(words: &[&str], is_v6: bool) -> Option<Map> {
    let mut rule = Map::new();
    for pair in words.chunks(2) {
        let [key, value] = *pair else { return None };
        let key = match key {
            "from" | "to" => key,
            "table" | "lookup" => "table",
            "priority" | "pref" | "prio" | "preference" => "priority",
            "fwmark" => "mark",
            _ => return None,
        };
        let number = value.parse::<i64>().ok().map(Node::from);
        rule.insert_some(key, (value != "all").then(|| number.unwrap_or_else(|| value.into())));
    }
    if is_v6 && rule.get("from").is_none() && rule.get("to").is_none() {
        rule.insert("from", "::/0");
    }
    Some(rule)
}

/// Returns a route of version 1 by the arguments of ip-route(8) or route(8).
fn route(words: &[&str], interface: &str, is_v6: bool, is_old: bool) -> Option<Map> {
    let is_host = words.contains(&"-host");
    let mut words = words.iter().filter(|word| !word.starts_with('-')).copied();
    let mut route = Map::new();
    if let Some(kind) = words.clone().next().filter(|kind| !is_old && TYPES.contains(kind)) {
        route.insert("type", kind);
        words.next();
    }
    let (mut to, mut mask) = (None, None);
    while let Some(word) = words.next() {
        let key = match word {
            "via" | "gw" => "gateway",
            "metric" | "table" | "mtu" | "scope" => word,
            "src" => "from",
            "onlink" => {
                route.insert("on-link", true);
                continue;
            }
            "netmask" => {
                mask = Some(words.next()?);
                continue;
            }
            "dev" if words.next()? == interface => continue,
            "to" => {
                to = Some(words.next()?);
                continue;
            }
            "proto" | "protocol" => {
                words.next()?;
                continue;
            }
            word if is_old && word == interface => continue,
            word if to.is_none() && word != "dev" => {
                to = Some(word);
                continue;
            }
            _ => return None,
        };
        let value = words.next()?;
        let number = value.parse::<i64>().ok().map(Node::from);
        route.insert(key, number.unwrap_or_else(|| value.into()));
    }
    let mut to = to?.to_string();
    if ["gateway", "scope", "type"].iter().all(|key| route.get(key).is_none()) {
        route.insert("scope", "link");
    }
    let gateway = route.get("gateway").and_then(Node::as_str);
    if to == "default" {
        let is_v6 = is_v6 || gateway.is_some_and(|gateway| gateway.contains(':'));
        to = if is_v6 { "::/0" } else { "0.0.0.0/0" }.into();
    } else if let (false, Ok(ip)) = (to.contains('/'), to.parse::<IpAddr>()) {
        let prefix = match ip {
            IpAddr::V4(ip) if is_old && !is_host && ip.octets()[3] == 0 => "24",
            IpAddr::V4(_) => "32",
            IpAddr::V6(_) => "128",
        };
        to = format!("{to}/{}", mask.unwrap_or(prefix));
    }
    route.insert("destination", to);
    Some(route)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_and_addresses_of_commands_are_known() {
        for (command, expected) in [
            ("ip route add 10.9.0.0/16 via 10.0.0.1", "10.9.0.0/16 gateway=10.0.0.1"),
            ("ip rule add from 10.0.0.5 lookup 7 prio 9", "rule from=10.0.0.5 priority=9 table=7"),
            ("ip -6 rule add to all fwmark 0x1 table x", "rule from=::/0 mark=0x1 table=x"),
            ("ip rule del from 10.0.0.5 table 7", "-"),
            ("ip rule add from 10.0.0.5 iif eth0 table 7", ""),
            ("ip rule add from", ""),
            (
                "/sbin/ip -4 r a 10.9.0.0/16 via 10.0.0.1 dev $IFACE metric 5 table 7 || true",
                "10.9.0.0/16 gateway=10.0.0.1 metric=5 table=7",
            ),
            (
                "ip -6 route replace default via fe80::1 dev eth0 onlink proto static",
                "::/0 gateway=fe80::1 on-link=true",
            ),
            ("ip route add default via 10.0.0.1 src 10.0.0.5", "0.0.0.0/0 from=10.0.0.5 gateway=10.0.0.1"),
            ("ip route add 10.0.0.1 dev ${IFACE} scope link", "10.0.0.1/32 scope=link"),
            ("ip r a blackhole 10.0.0.0/8 metric 9", "10.0.0.0/8 metric=9 type=blackhole"),
            ("ip ro add fd01::1 via fd00::1 >/dev/null 2>&1", "fd01::1/128 gateway=fd00::1"),
            ("route add default gw 10.0.0.1", "0.0.0.0/0 gateway=10.0.0.1"),
            (
                "route add -net 10.9.0.0 netmask 255.255.0.0 gw 10.0.0.1 eth0 metric 7",
                "10.9.0.0/255.255.0.0 gateway=10.0.0.1 metric=7",
            ),
            ("route add -net 10.9.0.0/16 gw 10.0.0.1 dev eth0", "10.9.0.0/16 gateway=10.0.0.1"),
            ("route add -net 192.168.9.0 dev eth0", "192.168.9.0/24 scope=link"),
            ("route add -host 10.9.0.0 gw 10.0.0.1", "10.9.0.0/32 gateway=10.0.0.1"),
            ("route -A inet6 add fd01::/64 gw fd00::1", "fd01::/64 gateway=fd00::1"),
            ("route --inet6 add default gw fd00::1", "::/0 gateway=fd00::1"),
            ("ip addr add 10.0.0.6/24 dev eth0 label eth0:1", "address 10.0.0.6/24"),
            ("ip addr add 10.0.0.6/24 brd + dev $IFACE label $IFACE:1", "address 10.0.0.6/24"),
            ("ip addr add dev ${IFACE} fd00::6/64", "address fd00::6/64"),
            ("ip addr add 10.0.0.6/24 dev $IFACE_2", ""),
            ("ip addr add 10.0.0.6/24 dev eth1", ""),
            ("ip addr add 10.0.0.6/24 dev eth0 peer 10.0.0.7", ""),
            ("ip addr del 10.0.0.6/24 dev eth0", "-"),
            ("ip route add to 10.9.0.0/16 via 10.0.0.1", "10.9.0.0/16 gateway=10.0.0.1"),
            ("ip route add dev eth0 10.9.0.0/16", "10.9.0.0/16 scope=link"),
            ("ip route add via 10.0.0.1", ""),
            ("true", "-"),
            ("ip link set dev $IFACE up", "-"),
            ("ip l set eth0 up mtu 1400", "mtu 1400"),
            ("ip link set mtu 1400 dev eth1", ""),
            ("ip route del 10.9.0.0/16", "-"),
            ("route del -net 10.9.0.0/16 gw 10.0.0.1", "-"),
            ("ip route add 10.9.0.0/16 via 10.0.0.1 dev eth1", ""),
            ("ip route add 10.9.0.0/16 via $GATEWAY", ""),
            ("ip route add 10.9.0.0/16 via 10.0.0.1 && reboot", ""),
            (
                "ip addr add 10.0.0.6/24 dev eth0; ip route add 10.9.0.0/16 via 10.0.0.2;",
                "address 10.0.0.6/24, 10.9.0.0/16 gateway=10.0.0.2",
            ),
            (
                "ip link set eth0 up&&ip addr add 10.0.0.6/24 dev $IFACE ; echo 1 ; ip link set eth0 mtu 1400 || true",
                "-, address 10.0.0.6/24, , mtu 1400",
            ),
            ("test -e /x && ip addr add 10.0.0.6/24 dev eth0", ""),
            ("ip link set eth0 up || reboot ; ip addr add 10.0.0.6/24 dev eth0", "-, address 10.0.0.6/24"),
            ("if true ; then ip addr add 10.0.0.6/24 dev eth0 ; ip link set eth0 mtu 1400 ; fi", ""),
            ("ip link set eth0 promisc on", ""),
            ("echo 1", ""),
            ("ip", ""),
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            let found = effects(&words, "eth0").into_iter().map(|effect| match effect {
                None => String::new(),
                Some(Effect::None) => "-".into(),
                Some(Effect::Address(address)) => format!("address {address}"),
                Some(Effect::Mtu(mtu)) => format!("mtu {mtu}"),
                Some(Effect::Route(route) | Effect::Rule(route)) => {
                    let pair = |(key, value): (&Node, &Node)| {
                        let text = value.to_json().to_string().replace('"', "");
                        format!(" {}={text}", key.as_str().unwrap())
                    };
                    let pairs = route.iter().filter(|(key, _)| key.as_str() != Some("destination")).map(pair);
                    let mut pairs: Vec<String> = pairs.collect();
                    pairs.sort();
                    let to = route.get("destination").and_then(Node::as_str).unwrap_or("rule");
                    format!("{to}{}", pairs.concat())
                }
            });
            assert_eq!(found.collect::<Vec<_>>().join(", "), expected, "{command}");
        }
    }
}
