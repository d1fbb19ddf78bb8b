//! Tables of the machine's links, addresses and routes, for the console at the beginning of the network stage. Each line
//! begins with `ci-info: `, by which scripts and people find them in a console log.

use std::net::IpAddr;

use system::{Link, LinkAddress, Prefix, Result, Route, System};

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
    let devices = devices(sys);
    let routes = sys.links().and_then(|links| Ok((links, sys.routes()?)));
    let mut blocks = vec![match devices {
        Ok((links, addresses)) => device_table(&links, &addresses),
        Err(e) => center(&format!("Net device info failed ({e})"), '!', WIDTH),
    }];
    match routes {
        Ok((links, routes)) => blocks.extend(route_tables(&links, &routes)),
        Err(e) => blocks.push(center(&format!("Route info failed ({e})"), '!', WIDTH)),
    }
    let lines: Vec<String> =
        blocks.iter().flat_map(|block| block.lines()).map(|line| format!("{PREFIX}{line}")).collect();
    lines.join("\n")
}

fn devices(sys: &System) -> Result<(Vec<Link>, Vec<LinkAddress>)> {
    Ok((sys.links()?, sys.link_addresses()?))
}

fn device_table(links: &[Link], addresses: &[LinkAddress]) -> String {
    let mut links: Vec<&Link> = links.iter().collect();
    sort::sort_by(&mut links, |a, b| a.name.cmp(&b.name));
    let mut rows = Vec::new();
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
    table("Net device info", &["Device", "Up", "Address", "Mask", "Scope", "Hw-Address"], &rows)
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

/// Returns the tables of both families that have a route. Routes of the loopback link are left out for IPv6.
fn route_tables(links: &[Link], routes: &[Route]) -> Vec<String> {
    let name = |route: &Route| {
        let link = links.iter().find(|link| link.index == route.link);
        link.map_or(EMPTY.to_string(), |link| link.name.clone())
    };
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for route in routes {
        let (is_host, link) = (route.to.length == 32, name(route));
        let gateway = |none: &str| route.via.map_or(none.to_string(), |via| via.to_string());
        let flags = if route.via.is_some() { "UG" } else { "U" };
        if route.to.address.is_ipv4() {
            let flags = format!("{flags}{}", if is_host { "H" } else { "" });
            let to = route.to.address.to_string();
            v4.push(vec![v4.len().to_string(), to, gateway("0.0.0.0"), netmask(route.to), link, flags]);
        } else if link != "lo" {
            v6.push(vec![v6.len().to_string(), route.to.to_string(), gateway("::"), link, flags.to_string()]);
        }
    }
    let mut tables = Vec::new();
    if !v4.is_empty() {
        let fields = ["Route", "Destination", "Gateway", "Genmask", "Interface", "Flags"];
        tables.push(table("Route IPv4 info", &fields, &v4));
    }
    if !v6.is_empty() {
        let fields = ["Route", "Destination", "Gateway", "Interface", "Flags"];
        tables.push(table("Route IPv6 info", &fields, &v6));
    }
    tables
}

/// Draws a table with a title above it.
fn table(title: &str, fields: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = fields
        .iter()
        .enumerate()
        .map(|(i, field)| rows.iter().map(|row| row[i].len()).fold(field.len(), usize::max) + 2)
        .collect();
    let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let border = format!("+{}+", dashes.join("+"));
    let draw = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = cells.zip(&widths).map(|(cell, width)| center_cell(cell, *width)).collect();
        format!("|{}|", cells.join("|"))
    };
    let mut lines = vec![center(title, '+', border.len()), border.clone()];
    lines.push(draw(&mut fields.iter().copied()));
    lines.push(border.clone());
    lines.extend(rows.iter().map(|row| draw(&mut row.iter().map(String::as_str))));
    lines.push(border);
    lines.join("\n")
}

/// Centres a title; the right side gets one more character if their number is odd.
fn center(text: &str, fill: char, width: usize) -> String {
    let space = width.saturating_sub(text.chars().count());
    let side = |count: usize| fill.to_string().repeat(count);
    format!("{}{text}{}", side(space / 2), side(space - space / 2))
}

/// Centres a cell. If the number of spaces is odd, the left side gets one more in a cell of odd width.
fn center_cell(text: &str, width: usize) -> String {
    let space = width.saturating_sub(text.len());
    let left = space / 2 + (space & width & 1);
    format!("{}{text}{}", " ".repeat(left), " ".repeat(space - left))
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
            device_table(&links, &addresses),
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
        let tables = route_tables(&links, &routes);
        assert_eq!(tables.len(), 2);
        assert!(
            tables[0].contains("|   0   |   0.0.0.0   | 10.20.0.1 |     0.0.0.0     |    eth0   |   UG  |"),
            "{}",
            tables[0]
        );
        assert!(tables[0].contains("  UGH  "), "{}", tables[0]);
        assert!(tables[1].contains("|   0   |  fe80::/64  |    ::   |    eth0   |   U   |"), "{}", tables[1]);
        assert_eq!(route_tables(&links, &[]), Vec::<String>::new());
    }
}
