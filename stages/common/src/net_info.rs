//! Tables of the machine's links, addresses and routes, for the console at the beginning of the network stage. Each line
//! begins with `ci-info: `, by which scripts and people find them in a console log.

use std::net::IpAddr;

use encoding::table::{centered, framed};
use system::{Link, LinkAddress, Prefix, Route, System};

use crate::Boot;

const PREFIX: &str = "ci-info: ";
/// The text of an empty cell.
const EMPTY: &str = ".";
/// The width of a line that reports an error.
const WIDTH: usize = 80;
/// The type of an Ethernet link (ARPHRD_ETHER, linux/if_arp.h).
const ETHERNET: u16 = 1;

/// Prints the tables, on a running machine.
pub fn print_network(boot: &Boot) {
    if boot.sys.is_live() && !boot.is_plan() {
        boot.sys.print(&text(&boot.sys));
    }
}

fn text(sys: &System) -> String {
    let devices = sys.links().and_then(|links| Ok(device_table(&links, &sys.link_addresses()?)));
    let routes = sys.links().and_then(|links| Ok(route_tables(&links, &sys.routes()?)));
    let failed = |what: &str, e| vec![centered(&format!("{what} info failed ({e})"), '!', WIDTH)];
    let mut lines = devices.unwrap_or_else(|e| failed("Net device", e));
    lines.extend(routes.unwrap_or_else(|e| failed("Route", e)));
    lines.iter().map(|line| format!("{PREFIX}{line}")).collect::<Vec<_>>().join("\n")
}

fn device_table(links: &[Link], addresses: &[LinkAddress]) -> Vec<String> {
    let mut links: Vec<&Link> = links.iter().collect();
    sort::sort_by(&mut links, |a, b| a.name.cmp(&b.name));
    let mut rows = vec![header(&["Device", "Up", "Address", "Mask", "Scope", "Hw-Address"])];
    for link in links {
        let up = if link.up && link.carrier { "True" } else { "False" };
        let mac = if link.kind == ETHERNET && !link.mac.is_empty() { &link.mac } else { EMPTY };
        let mut of_link: Vec<_> = addresses.iter().filter(|address| address.index == link.index).collect();
        sort::sort_by_key(&mut of_link, |address| address.ipv6);
        let row = |address: &str, mask: &str, scope: &str| {
            [&link.name, up, address, mask, scope, mac].map(String::from).to_vec()
        };
        for address in &of_link {
            let scope = scope(address);
            match address.prefix.address {
                IpAddr::V4(ip) => rows.push(row(&ip.to_string(), &netmask(address.prefix), scope)),
                IpAddr::V6(_) => rows.push(row(&address.prefix.to_string(), EMPTY, scope)),
            }
        }
        if of_link.is_empty() {
            rows.push(row(EMPTY, EMPTY, EMPTY));
        }
    }
    framed("Net device info", &rows)
}

fn header(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn scope(address: &LinkAddress) -> &'static str {
    match address.global {
        true => "global",
        false if address.prefix.address.is_loopback() => "host",
        false => "link",
    }
}

fn netmask(prefix: Prefix) -> String {
    prefix.netmask().to_string()
}

/// Returns the lines of the tables of both families that have a route. Routes of the loopback link are left out for IPv6.
fn route_tables(links: &[Link], routes: &[Route]) -> Vec<String> {
    let name = |route: &Route| {
        let link = links.iter().find(|link| link.index == route.link);
        link.map_or(EMPTY.to_string(), |link| link.name.clone())
    };
    let mut v4 = vec![header(&["Route", "Destination", "Gateway", "Genmask", "Interface", "Flags"])];
    let mut v6 = vec![header(&["Route", "Destination", "Gateway", "Interface", "Flags"])];
    for route in routes {
        let (is_host, link) = (route.to.length == 32, name(route));
        let gateway = |none: &str| route.via.map_or(none.to_string(), |via| via.to_string());
        let flags = if route.via.is_some() { "UG" } else { "U" };
        if route.to.address.is_ipv4() {
            let flags = format!("{flags}{}", if is_host { "H" } else { "" });
            let to = route.to.address.to_string();
            v4.push(vec![(v4.len() - 1).to_string(), to, gateway("0.0.0.0"), netmask(route.to), link, flags]);
        } else if link != "lo" {
            v6.push(vec![
                (v6.len() - 1).to_string(),
                route.to.to_string(),
                gateway("::"),
                link,
                flags.to_string(),
            ]);
        }
    }
    let tables = [("Route IPv4 info", v4), ("Route IPv6 info", v6)];
    tables.iter().filter(|(_, rows)| rows.len() > 1).flat_map(|(title, rows)| framed(title, rows)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, mac: &str, kind: u16) -> Link {
        let (mac, broadcast) = (mac.into(), Vec::new());
        Link { index, name: name.into(), mac, up: true, carrier: true, mtu: 1500, kind, broadcast }
    }

    fn address(index: u32, prefix: &str, global: bool) -> LinkAddress {
        let prefix: Prefix = prefix.parse().unwrap();
        let ipv6 = prefix.address.is_ipv6();
        LinkAddress { index, ipv6, global, permanent: true, tentative: false, prefix, broadcast: None }
    }

    /// As upstream draws the same machine.
    #[test]
    fn tables_are_drawn_like_by_upstream() {
        let down = Link { carrier: false, ..link(3, "eth1", "02:00:00:00:00:02", 1) };
        let links = [link(1, "lo", "00:00:00:00:00:00", 772), link(2, "eth0", "02:00:00:00:00:01", 1), down];
        let addresses = [
            address(2, "fe80::1/64", false),
            address(1, "127.0.0.1/8", false),
            address(1, "::1/128", false),
            address(2, "10.20.0.5/20", true),
        ];
        assert_eq!(
            device_table(&links, &addresses).join("\n"),
            "\
++++++++++++++++++++++++++++++Net device info+++++++++++++++++++++++++++++++
+--------+-------+------------+---------------+--------+-------------------+
| Device |   Up  |  Address   |      Mask     | Scope  |     Hw-Address    |
+--------+-------+------------+---------------+--------+-------------------+
|  eth0  |  True | 10.20.0.5  | 255.255.240.0 | global | 02:00:00:00:00:01 |
|  eth0  |  True | fe80::1/64 |       .       |  link  | 02:00:00:00:00:01 |
|  eth1  | False |     .      |       .       |   .    | 02:00:00:00:00:02 |
|   lo   |  True | 127.0.0.1  |   255.0.0.0   |  host  |         .         |
|   lo   |  True |  ::1/128   |       .       |  host  |         .         |
+--------+-------+------------+---------------+--------+-------------------+"
        );
        let route = |to: &str, via: Option<&str>| Route {
            to: to.parse().unwrap(),
            via: via.map(|via| via.parse().unwrap()),
            link: 2,
            source: None,
            on_link: false,
        };
        let routes = [
            route("0.0.0.0/0", Some("10.20.0.1")),
            route("10.20.0.0/20", None),
            route("10.9.9.9/32", Some("10.20.0.1")),
            route("fe80::/64", None),
            route("::/0", Some("fe80::2")),
        ];
        let lines = route_tables(&links, &routes);
        let first = "|   0   |   0.0.0.0   | 10.20.0.1 |     0.0.0.0     |    eth0   |   UG  |";
        assert!(lines[4].starts_with(first), "{lines:?}");
        assert!(lines[6].contains("|  UGH  |"), "{lines:?}");
        let first = "|   0   |  fe80::/64  |    ::   |    eth0   |   U   |";
        assert!(lines.len() == 15 && lines[12] == first, "{lines:?}");
        assert_eq!(route_tables(&links, &[]), Vec::<String>::new());
    }
}
