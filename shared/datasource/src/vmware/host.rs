//! Facts about the host that are added to the metadata, in upstream's structure: names, the addresses of the default
//! routes' links, and all addresses by MAC and by address. Pure.

use std::net::IpAddr;

use serde_json::{Map, Value, json};
use system::{Link, LinkAddress, Prefix, Route};

/// ARPHRD_ETHER.
const ETHERNET: u16 = 1;

/// The addresses and routes that the kernel reports.
#[derive(Debug, Default)]
pub struct Network {
    pub links: Vec<Link>,
    pub addresses: Vec<LinkAddress>,
    pub routes: Vec<Route>,
}

impl Network {
    /// Returns whether a link has an address of the family that other machines can reach.
    pub fn has_address(&self, ipv6: bool) -> bool {
        self.addresses.iter().any(|a| a.ipv6 == ipv6 && is_reachable(a.prefix.address))
    }

    fn of_link(&self, index: u32, ipv6: bool) -> impl Iterator<Item = &LinkAddress> {
        self.addresses.iter().filter(move |a| a.index == index && a.ipv6 == ipv6)
    }

    /// Returns the only address of the link that has the default route.
    fn default_address(&self, ipv6: bool) -> Option<&LinkAddress> {
        let default = Prefix::default_route(ipv6);
        let link = self.routes.iter().find(|route| route.to == default)?.link;
        only(self.of_link(link, ipv6))
    }

    /// Returns the default addresses as text. A family without one has the only address of the other's link.
    fn default_addresses(&self) -> [Option<String>; 2] {
        let found = [false, true].map(|ipv6| self.default_address(ipv6));
        let beside = |other: Option<&LinkAddress>, ipv6| only(self.of_link(other?.index, ipv6));
        let (v4, v6) =
            (found[0].or_else(|| beside(found[1], false)), found[1].or_else(|| beside(found[0], true)));
        // As upstream, with the length of the prefix for IPv6 alone.
        [v4.map(|a| a.prefix.address.to_string()), v6.map(|a| a.prefix.to_string())]
    }
}

fn only<'a>(mut all: impl Iterator<Item = &'a LinkAddress>) -> Option<&'a LinkAddress> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

/// Returns whether an address is neither loopback nor link-local nor unspecified.
fn is_reachable(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    };
    !is_link_local && !address.is_loopback() && !address.is_unspecified()
}

/// Returns the facts.
pub fn facts(network: &Network, hostname: &str) -> Value {
    let mut facts = Map::new();
    for key in ["hostname", "local-hostname", "local_hostname"] {
        if !hostname.is_empty() {
            facts.insert(key.into(), hostname.into());
        }
    }
    for (key, address) in ["local-ipv4", "local-ipv6"].into_iter().zip(network.default_addresses()) {
        if let Some(address) = address {
            facts.insert(key.into(), address.into());
        }
    }
    let (mut by_mac, mut by_address) = (Map::new(), [Map::new(), Map::new()]);
    for link in &network.links {
        let mac = Some(&link.mac).filter(|mac| link.kind == ETHERNET && !mac.is_empty());
        if mac.is_some_and(|mac| mac == "00:00:00:00:00:00") {
            continue;
        }
        let mut of_mac = Map::new();
        for (ipv6, name, by_address) in
            [false, true].into_iter().zip(["ipv4", "ipv6"]).zip(&mut by_address).map(|((f, n), b)| (f, n, b))
        {
            let all: Vec<_> = network.of_link(link.index, ipv6).collect();
            if all.is_empty() {
                continue;
            }
            let reachable = all.into_iter().filter(|a| is_reachable(a.prefix.address));
            let described: Vec<Value> = reachable.map(describe).collect();
            for address in &described {
                let mut entry = address.as_object().cloned().unwrap_or_default();
                let Some(Value::String(key)) = entry.remove("addr") else { continue };
                if let Some(mac) = mac {
                    entry.insert("mac".into(), mac.as_str().into());
                }
                by_address.insert(key, entry.into());
            }
            of_mac.insert(name.into(), described.into());
        }
        if let Some(mac) = mac.filter(|_| !of_mac.is_empty()) {
            by_mac.insert(mac.clone(), of_mac.into());
        }
    }
    let [by_ipv4, by_ipv6] = by_address;
    let interfaces = json!({ "by-mac": by_mac, "by-ipv4": by_ipv4, "by-ipv6": by_ipv6 });
    facts.insert("network".into(), json!({ "interfaces": interfaces }));
    facts.into()
}

fn describe(address: &LinkAddress) -> Value {
    let (ip, netmask) = (address.prefix.address, address.prefix.netmask());
    match ip {
        IpAddr::V4(_) => json!({
            "addr": ip.to_string(),
            "netmask": netmask.to_string(),
            "broadcast": address.broadcast.map(|b| b.to_string()).unwrap_or_default(),
        }),
        IpAddr::V6(_) => json!({
            "addr": ip.to_string(),
            "netmask": format!("{netmask}/{}", address.prefix.length),
        }),
    }
}

/// Returns the canonical name that a string in the format of /etc/hosts has for a name, as `hostname --fqdn` prints it.
pub fn canonical_name(hosts: &str, name: &str) -> Option<String> {
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
    let mut entries = lines.map(|line| line.split_ascii_whitespace().skip(1).collect::<Vec<_>>());
    let entry = entries.find(|names| names.iter().any(|n| n.eq_ignore_ascii_case(name)))?;
    entry.first().map(|first| (*first).to_string())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(index: u32, text: &str, broadcast: Option<[u8; 4]>) -> LinkAddress {
        let prefix: Prefix = text.parse().unwrap();
        let ipv6 = prefix.address.is_ipv6();
        let broadcast = broadcast.map(Ipv4Addr::from);
        LinkAddress { index, ipv6, global: true, permanent: true, tentative: false, prefix, broadcast }
    }

    fn network(addresses: &[(u32, &str)], routes: &[(&str, u32)]) -> Network {
        let link = |index: u32, name: &str, mac: &str, kind| Link {
            index,
            name: name.into(),
            mac: mac.into(),
            kind,
            ..Link::default()
        };
        let route = |(to, link): &(&str, u32)| Route {
            to: to.parse().unwrap(),
            via: None,
            link: *link,
            source: None,
            on_link: false,
        };
        Network {
            links: vec![
                link(1, "lo", "00:00:00:00:00:00", 772),
                link(2, "ens192", "00:50:56:00:00:02", ETHERNET),
                link(3, "ens224", "00:50:56:00:00:03", ETHERNET),
                link(4, "tun0", "", 65534),
            ],
            addresses: addresses.iter().map(|(index, text)| address(*index, text, None)).collect(),
            routes: routes.iter().map(route).collect(),
        }
    }

    #[test]
    fn default_addresses_are_those_of_the_default_route() {
        let one = [(2, "192.0.2.7/24"), (3, "198.51.100.7/24"), (3, "2001:db8::7/64")];
        for (addresses, routes, expected) in [
            (&one[..], &[("0.0.0.0/0", 2)][..], ["192.0.2.7", ""]),
            (&one, &[("0.0.0.0/0", 3)], ["198.51.100.7", "2001:db8::7/64"]),
            (&one, &[("::/0", 3)], ["198.51.100.7", "2001:db8::7/64"]),
            (&one, &[("192.0.2.0/24", 2)], ["", ""]),
            (&[(2, "192.0.2.7/24"), (2, "192.0.2.8/24")], &[("0.0.0.0/0", 2)], ["", ""]),
        ] {
            let found = network(addresses, routes).default_addresses().map(Option::unwrap_or_default);
            assert_eq!(found, expected, "{addresses:?} {routes:?}");
        }
    }

    #[test]
    fn loopback_and_link_local_addresses_are_omitted() {
        let mut network = network(
            &[
                (1, "127.0.0.1/8"),
                (3, "169.254.1.1/16"),
                (3, "fe80::1/64"),
                (2, "2001:db8::7/56"),
                (4, "10.9.0.1/32"),
            ],
            &[],
        );
        network.addresses.push(address(2, "192.0.2.7/25", Some([192, 0, 2, 127])));
        assert!(network.has_address(false) && network.has_address(true));
        let facts = facts(&network, "vm");
        let expected = json!({
            "hostname": "vm", "local-hostname": "vm", "local_hostname": "vm",
            "network": {"interfaces": {
                "by-mac": {
                    "00:50:56:00:00:02": {
                        "ipv4": [{"addr": "192.0.2.7", "netmask": "255.255.255.128", "broadcast": "192.0.2.127"}],
                        "ipv6": [{"addr": "2001:db8::7", "netmask": "ffff:ffff:ffff:ff00::/56"}],
                    },
                    "00:50:56:00:00:03": {"ipv4": [], "ipv6": []},
                },
                "by-ipv4": {
                    "192.0.2.7": {
                        "netmask": "255.255.255.128", "broadcast": "192.0.2.127", "mac": "00:50:56:00:00:02",
                    },
                    "10.9.0.1": {"netmask": "255.255.255.255", "broadcast": ""},
                },
                "by-ipv6": {
                    "2001:db8::7": {"netmask": "ffff:ffff:ffff:ff00::/56", "mac": "00:50:56:00:00:02"},
                },
            }},
        });
        assert_eq!(facts, expected);
        assert!(!Network::default().has_address(false));
    }

    #[test]
    fn canonical_name_is_the_first_of_a_hosts_line() {
        let hosts = "# 127.0.1.1 x.no x\n127.0.0.1 localhost\n127.0.1.1 vm.example.org vm # alias\n::1 ip6-localhost\n";
        for (name, expected) in
            [("vm", Some("vm.example.org")), ("VM", Some("vm.example.org")), ("x", None), ("127.0.0.1", None)]
        {
            assert_eq!(canonical_name(hosts, name).as_deref(), expected, "{name}");
        }
    }
}
