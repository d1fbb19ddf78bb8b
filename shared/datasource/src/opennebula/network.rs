//! OpenNebula's network contextualisation (`ETH0_IP`, `ETH0_MASK`, …) as a configuration of version 2.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use config::{Map, Node};
use system::{Prefix, System, warning};

use crate::Nic;

type Context = BTreeMap<String, String>;

/// Returns whether the context describes a network: it has an `ETH<number>_IP…`.
pub fn has_network(context: &Context) -> bool {
    context.keys().any(|key| {
        let rest = key.strip_prefix("ETH").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
        rest.is_some_and(|rest| rest.starts_with("_IP") && rest.len() < key.len() - "ETH".len())
    })
}

/// Returns the configuration of these NICs. Every NIC has an entry, as those that the context does not describe have an
/// address by their MAC.
pub fn config(sys: &System, context: &Context, nics: &[Nic]) -> Node {
    let mut ethernets = Map::new();
    let has = |name: &str| {
        let start = format!("{name}_").to_uppercase();
        context.range(start.clone()..).next().is_some_and(|(key, _)| key.starts_with(&start))
    };
    // Proxmox names no MAC: its numbers are those of the NICs in their order.
    let is_by_number = !context.keys().any(|key| key.ends_with("_MAC"));
    for (number, nic) in nics.iter().enumerate() {
        let numbered = format!("ETH{number}");
        let is_numbered = is_by_number && !has(&nic.name) && has(&numbered);
        let own = if is_numbered { &numbered } else { &nic.name };
        let name = context_name(context, &nic.mac).unwrap_or(own);
        ethernets.insert(nic.name.as_str(), Device { sys, context, name }.config(&nic.mac));
    }
    Node::from([("version", 2.into()), ("ethernets", ethernets.into())])
}

/// Returns the name in the context (`ETH0`) of the NIC with this MAC.
pub fn context_name<'c>(context: &'c Context, mac: &str) -> Option<&'c str> {
    let with_mac = |(key, value): (&'c String, &String)| {
        let name = key.strip_suffix("_MAC").filter(|name| !name.is_empty())?;
        value.trim().eq_ignore_ascii_case(mac).then_some(name)
    };
    context.iter().find_map(with_mac)
}

/// The variables of one NIC.
struct Device<'a> {
    sys: &'a System,
    context: &'a Context,
    /// The name in the context, or the NIC's own.
    name: &'a str,
}

impl Device<'_> {
    fn key(&self, field: &str) -> String {
        format!("{}_{field}", self.name).to_uppercase()
    }

    /// Returns a variable, unless it is empty.
    fn text(&self, field: &str) -> Option<&str> {
        self.context.get(&self.key(field)).map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    fn is_on(&self, field: &str) -> bool {
        self.text(field).is_some_and(|text| text.eq_ignore_ascii_case("yes"))
    }

    /// Returns a variable as a value of this type. An invalid one is logged and ignored.
    fn parsed<T: FromStr>(&self, field: &str, expected: &str) -> Option<T> {
        let parsed = self.text(field)?.parse().ok();
        if parsed.is_none() {
            self.invalid(field, expected);
        }
        parsed
    }

    fn invalid(&self, field: &str, expected: &str) {
        warning!(self.sys, "context.sh: {}: expected {expected}; ignored", self.key(field));
    }

    /// Returns the words of a variable of the NIC and those of the variable for all NICs, each once.
    fn words(&self, field: &str) -> Vec<String> {
        let all = self.context.get(field).map(String::as_str).unwrap_or_default();
        let own = self.text(field).unwrap_or_default();
        let mut known = HashSet::new();
        let words = own.split_whitespace().chain(all.split_whitespace());
        words.filter(|word| known.insert(*word)).map(String::from).collect()
    }

    fn config(&self, mac: &str) -> Map {
        let matches = Node::from([("macaddress", mac.into())]);
        let mut config = Map::from([("match", matches), ("addresses", self.addresses(mac).into())]);
        for (key, field) in [("dhcp4", "DHCP"), ("dhcp6", "DHCP6"), ("accept-ra", "AUTO6")] {
            config.insert_some(key, self.is_on(field).then_some(true));
        }
        config.insert_some(
            "gateway4",
            self.parsed::<Ipv4Addr>("GATEWAY", "an IPv4 address").map(|gateway| gateway.to_string()),
        );
        let field = if self.text("IP6_GATEWAY").is_some() { "IP6_GATEWAY" } else { "GATEWAY6" };
        if self.parsed::<Ipv6Addr>(field, "an IPv6 address").is_some() {
            config.insert("gateway6", self.text(field).unwrap_or_default());
        }
        let mut nameservers = Map::new();
        for (key, field) in [("addresses", "DNS"), ("search", "SEARCH_DOMAIN")] {
            nameservers.insert_unless_empty(key, nodes(self.words(field)));
        }
        config.insert_unless_empty("nameservers", nameservers);
        config.insert_some("mtu", self.parsed::<u32>("MTU", "a number").map(i64::from));
        config.insert_unless_empty("routes", self.routes());
        config
    }

    fn addresses(&self, mac: &str) -> Vec<Node> {
        let prefix = match self.text("MASK") {
            None => 24,
            Some(text) => prefix_of(text).unwrap_or_else(|| {
                self.invalid("MASK", "a netmask");
                24
            }),
        };
        let v4 = match self.text("IP") {
            None if self.is_on("DHCP") => None,
            Some(_) => self.parsed::<Ipv4Addr>("IP", "an IPv4 address"),
            None => address_of_mac(mac),
        };
        let mut addresses: Vec<String> = v4.into_iter().map(|ip| format!("{ip}/{prefix}")).collect();
        let prefix = match self.parsed::<u8>("IP6_PREFIX_LENGTH", "a number up to 128") {
            Some(length @ 0..=128) => length,
            Some(_) => {
                self.invalid("IP6_PREFIX_LENGTH", "a number up to 128");
                64
            }
            None => 64,
        };
        for field in ["IP6", "IP6_ULA"] {
            if self.parsed::<Ipv6Addr>(field, "an IPv6 address").is_some() {
                addresses.push(format!("{}/{prefix}", self.text(field).unwrap_or_default()));
            }
        }
        nodes(addresses)
    }

    /// Returns the routes: `NETWORK via GATEWAY`, separated by commas.
    fn routes(&self) -> Vec<Node> {
        let mut routes = Vec::new();
        for entry in
            self.text("ROUTES").unwrap_or_default().split(',').filter(|entry| !entry.trim().is_empty())
        {
            let words: Vec<&str> = entry.split_whitespace().collect();
            match words.as_slice() {
                [to, "via", gateway] if gateway.parse::<IpAddr>().is_ok() => {
                    routes.push(Node::from([("to", (*to).into()), ("via", (*gateway).into())]));
                }
                _ => self.invalid("ROUTES", "entries of the form 'NETWORK via GATEWAY'"),
            }
        }
        routes
    }
}

fn nodes(texts: Vec<String>) -> Vec<Node> {
    texts.into_iter().map(Node::from).collect()
}

/// Returns the prefix length of a netmask, or of a string that is one already.
fn prefix_of(mask: &str) -> Option<u8> {
    match mask.parse() {
        Ok(length) => (length <= 32).then_some(length),
        Err(_) => Prefix::length_of(mask.parse::<Ipv4Addr>().ok()?),
    }
}

/// Returns the address that OpenNebula derives a NIC's MAC from: the last four bytes.
fn address_of_mac(mac: &str) -> Option<Ipv4Addr> {
    let bytes: Option<Vec<u8>> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    match bytes?.as_slice() {
        [_, _, a, b, c, d] => Some(Ipv4Addr::new(*a, *b, *c, *d)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(pairs: &[(&str, &str)]) -> Context {
        pairs.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string())).collect()
    }

    fn of(pairs: &[(&str, &str)]) -> (String, usize) {
        let sys = System::new("/nonexistent");
        let nic = Nic { name: "eth0".into(), mac: "02:00:c0:a8:05:09".into(), driver: None };
        let config = config(&sys, &context(pairs), &[nic]);
        let text = config.at_path(&["ethernets", "eth0"]).unwrap().to_json().to_string().replace('"', "");
        (text, sys.log().logged_warnings().len())
    }

    #[test]
    fn addresses_are_derived_from_the_mac_unless_set() {
        for (pairs, expected) in [
            (&[][..], "addresses:[192.168.5.9/24]"),
            (&[("ETH0_IP", "10.1.2.3"), ("ETH0_MASK", "255.255.0.0")], "addresses:[10.1.2.3/16]"),
            (&[("ETH0_IP", ""), ("ETH0_MASK", "")], "addresses:[192.168.5.9/24]"),
            (&[("ETH7_MAC", "02:00:C0:A8:05:09"), ("ETH7_IP", "10.0.0.1")], "addresses:[10.0.0.1/24]"),
            (&[("ETH0_IP6", "fd00::2"), ("ETH0_IP6_PREFIX_LENGTH", "48")], "fd00::2/48"),
            (&[("ETH0_IP6_ULA", "fd00::3")], "fd00::3/64"),
            (&[("ETH0_GATEWAY6", "fd00::1"), ("ETH0_IP6_GATEWAY", "fd00::f")], "gateway6:fd00::f"),
            (&[("ETH0_DNS", "9.9.9.9 8.8.8.8"), ("DNS", "8.8.8.8 1.1.1.1")], "[9.9.9.9,8.8.8.8,1.1.1.1]"),
            (&[("SEARCH_DOMAIN", "a.example b.example")], "search:[a.example,b.example]"),
            (&[("ETH0_MTU", "1400")], "mtu:1400"),
            (&[("ETH0_DHCP", "YES"), ("ETH0_DHCP6", "no")], "addresses:[],dhcp4:true,match"),
            (&[("ETH0_DHCP6", "YES")], "dhcp6:true,match"),
            (&[("ETH0_IP", "10.1.2.3"), ("ETH0_AUTO6", "YES")], "accept-ra:true,addresses:[10.1.2.3/24]"),
            (&[("ETH0_ROUTES", "10.0.0.0/8 via 10.1.0.1, ")], "routes:[{to:10.0.0.0/8,via:10.1.0.1}]"),
        ] {
            let (text, warnings) = of(pairs);
            assert!(text.contains(expected), "{pairs:?}: {text}");
            assert_eq!(warnings, 0, "{pairs:?}");
        }
    }

    /// The MACs of Proxmox' NICs are not in its context, and their names are those of slots.
    #[test]
    fn nics_without_a_mac_are_numbered() {
        let sys = System::new("/nonexistent");
        let nic = |name: &str, mac: &str| Nic { name: name.into(), mac: mac.into(), driver: None };
        let nics = [nic("ens18", "bc:24:11:00:00:01"), nic("ens19", "bc:24:11:00:00:02")];
        let context = context(&[("ETH0_IP", "10.0.0.1"), ("ETH0_MASK", "255.0.0.0"), ("ETH1_DHCP", "YES")]);
        let text = config(&sys, &context, &nics).to_json().to_string().replace('"', "");
        assert!(
            text.contains("addresses:[10.0.0.1/8]")
                && text.contains("addresses:[],dhcp4:true,match:{macaddress:bc:24:11:00:00:02}"),
            "{text}"
        );
    }

    #[test]
    fn invalid_values_do_not_affect_the_others() {
        for (key, value) in [
            ("ETH0_IP", "10.0.0.1/24"),
            ("ETH0_MASK", "255.0.255.0"),
            ("ETH0_MASK", "33"),
            ("ETH0_IP6", "10.0.0.1"),
            ("ETH0_IP6_PREFIX_LENGTH", "129"),
            ("ETH0_GATEWAY", "\u{1b}[2J"),
            ("ETH0_IP6_GATEWAY", "x"),
            ("ETH0_MTU", "9e9"),
            ("ETH0_ROUTES", "10.0.0.0/8 10.1.0.1"),
        ] {
            let (text, warnings) = of(&[("DNS", "9.9.9.9"), (key, value)]);
            assert!(text.contains("addresses:[9.9.9.9]") && warnings == 1, "{key}: {warnings}\n{text}");
        }
    }

    #[test]
    fn only_addresses_of_numbered_nics_are_a_network() {
        for (key, expected) in [
            ("ETH0_IP", true),
            ("ETH12_IP6_ULA", true),
            ("ETH_IP", false),
            ("ETH0_MASK", false),
            ("XETH0_IP", false),
        ] {
            assert_eq!(has_network(&context(&[(key, "")])), expected, "{key}");
        }
        assert_eq!(prefix_of("0.0.0.0"), Some(0));
        assert_eq!(prefix_of("255.255.255.255"), Some(32));
        assert_eq!(address_of_mac("02:00"), None);
    }
}
