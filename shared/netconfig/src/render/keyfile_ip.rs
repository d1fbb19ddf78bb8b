//! The `[ipv4]` and `[ipv6]` sections of a NetworkManager profile.

use std::collections::HashSet;

use config::Node;

use crate::address::is_ipv6;
use crate::model::{Dns, Link, LinkKind, Method, Route};

use super::output::Rendered;
use super::sections::Sections;
use super::values::python_str;

const FAMILIES: [&str; 2] = ["ipv4", "ipv6"];

fn family(inet6: bool) -> &'static str {
    FAMILIES[usize::from(inet6)]
}

/// Returns the MTU of the device: that of the last IPv4 subnet that has one, else its own.
pub fn mtu(link: &Link) -> Option<&Node> {
    let of_subnet = link.subnets.iter().rev().filter(|s| !s.is_ipv6()).find_map(|s| s.mtu.as_ref());
    of_subnet.or(link.mtu.as_ref())
}

pub fn addresses(profile: &mut Sections, link: &Link, global: &Dns, rendered: &mut Rendered) {
    if link.subnets.is_empty() && link.is_bond() {
        for family in FAMILIES {
            profile.set(family, "method", "disabled");
            profile.set(family, "may-fail", "false");
        }
    }
    let mut count = Counters::default();
    for subnet in &link.subnets {
        let section = family(subnet.is_ipv6());
        method(profile, section, subnet.method);
        if let (Some(address), Some(prefix)) = (&subnet.address, subnet.prefix) {
            let number = count.next(section, Kind::Address);
            profile.add(section, format!("address{number}"), format!("{address}/{prefix}"));
        }
        match &subnet.gateway {
            Some(gateway) if subnet.method.is_static() => profile.set(section, "gateway", gateway),
            // NetworkManager would reject the whole profile.
            Some(_) => rendered.warn(format!("{}: gateway without an address; ignored", link.name)),
            None => {}
        }
        for item in &subnet.routes {
            route(profile, item, &mut count);
        }
        if let Some(metric) = &subnet.metric {
            profile.set(section, "route-metric", python_str(metric));
        }
    }
    // A family with routes only: it needs a method, and is not required to come up.
    for family in FAMILIES {
        if profile.has(family) && profile.get(family, "method").is_none() {
            profile.set(family, "method", "auto");
            profile.set(family, "may-fail", "true");
        }
    }
    let can_wait = |f: &str| {
        profile.get(f, "may-fail") == Some("false")
            && matches!(profile.get(f, "method"), Some("auto" | "dhcp"))
    };
    if FAMILIES.iter().all(|f| can_wait(f)) {
        for family in FAMILIES {
            profile.set(family, "may-fail", "true");
        }
    }
    if !matches!(link.kind, LinkKind::Loopback) {
        dns(profile, link, global, rendered);
    }
}

/// Sets the method of the family. A method that is set already is only extended.
fn method(profile: &mut Sections, section: &'static str, method: Method) {
    let (word, may_fail) = match method {
        Method::Static | Method::Static6 => ("manual", "false"),
        Method::Dhcp | Method::Dhcp4 | Method::Dhcp6 | Method::Slaac | Method::Dhcp6Stateless => {
            ("auto", "false")
        }
        Method::Dhcp6Stateful => ("dhcp", "false"),
        Method::Manual | Method::Loopback | Method::Auto => ("auto", "true"),
    };
    let rank = |word: &str| ["disabled", "manual", "auto", "dhcp"].iter().position(|w| *w == word);
    match profile.get(section, "method") {
        Some(now) if rank(now) >= rank(word) => {}
        _ => profile.set(section, "method", word),
    }
    if profile.get(section, "may-fail").is_none() || may_fail == "true" {
        profile.set(section, "may-fail", may_fail);
    }
    if matches!(method, Method::Slaac | Method::Dhcp6Stateless | Method::Dhcp6Stateful)
        && !profile.has("ipv4")
    {
        profile.set("ipv4", "method", "disabled");
    }
}

/// Running numbers of addresses and routes, for each family.
#[derive(Default)]
struct Counters([[u32; 2]; 2]);

#[derive(Clone, Copy)]
enum Kind {
    Address,
    Route,
}

impl Counters {
    fn next(&mut self, section: &str, kind: Kind) -> u32 {
        let number = &mut self.0[usize::from(section == "ipv6")][kind as usize];
        *number += 1;
        *number
    }
}

/// Adds a route to the section of its family. The metric of a default route is that of the whole family.
fn route(profile: &mut Sections, route: &Route, count: &mut Counters) {
    let section = family(is_ipv6(&route.network));
    let number = count.next(section, Kind::Route);
    let mut value = format!("{}/{}", route.network, route.prefix);
    let is_default = route.is_default();
    let metric = route.metric.map(|m| m.to_string());
    if is_default {
        profile.set_optional(section, "route-metric", metric.clone());
    }
    let in_route = metric.filter(|_| !is_default);
    match (&route.gateway, &in_route) {
        (Some(gateway), _) => value.push_str(&format!(",{gateway}")),
        (None, Some(_)) => value.push(','),
        (None, None) => {}
    }
    if let Some(metric) = in_route {
        value.push_str(&format!(",{metric}"));
    }
    profile.add(section, format!("route{number}"), value);
    if let Some(mtu) = &route.mtu {
        profile.add(section, format!("route{number}_options"), format!("mtu={}", python_str(mtu)));
    }
}

/// Writes the name servers of the subnets, then the link's own; the global ones if there are no others. Search domains are
/// written by the same rule.
fn dns(profile: &mut Sections, link: &Link, global: &Dns, rendered: &mut Rendered) {
    let collect = |of: fn(&Dns) -> &Vec<String>| -> Vec<String> {
        let mut all: Vec<String> = link.subnets.iter().flat_map(|subnet| of(&subnet.dns)).cloned().collect();
        let mut known: HashSet<String> = all.iter().cloned().collect();
        all.extend(link.dns.iter().flat_map(of).filter(|text| known.insert(text.to_string())).cloned());
        if all.is_empty() { of(global).clone() } else { all }
    };
    let takes = |profile: &Sections, section: &str| {
        profile.has(section) && profile.get(section, "method") != Some("disabled")
    };
    let list = |items: &[&String]| items.iter().map(|i| format!("{i};")).collect::<String>();
    let servers = collect(|d| &d.servers);
    for inet6 in [false, true] {
        let of_family: Vec<&String> = servers.iter().filter(|s| is_ipv6(s) == inet6).collect();
        let section = family(inet6);
        if of_family.is_empty() {
            continue;
        }
        if takes(profile, section) {
            profile.set(section, "dns", list(&of_family));
        } else if !link.subnets.is_empty() && link.dns.is_some() {
            rendered.warn(format!(
                "{}: name servers of an address family that the link does not use; ignored",
                link.name
            ));
        }
    }
    let search = collect(|d| &d.search);
    for section in FAMILIES {
        if !search.is_empty() && takes(profile, section) {
            profile.set(section, "dns-search", list(&search.iter().collect::<Vec<_>>()));
        }
    }
}
