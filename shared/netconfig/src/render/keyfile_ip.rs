//! The `[ipv4]` and `[ipv6]` sections of a NetworkManager profile.

use config::Node;

use crate::address::is_ipv6;
use crate::model::{Dhcp, Dns, Link, LinkKind, Method, Route, Subnet};
use crate::parse::{ROUTE_ATTRIBUTES, is_on};

use super::output::Rendered;
use super::sections::Sections;
use super::values::{policy_rule, python_str, table_number};

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
    // The metric of a family is that of its default route by DHCP.
    for inet6 in [false, true].into_iter().filter(|inet6| link.is_dynamic(*inet6)) {
        count.next(family(inet6), Kind::Default);
    }
    for subnet in &link.subnets {
        let section = family(subnet.is_ipv6());
        method(profile, section, subnet);
        if let (Some(address), Some(prefix)) = (&subnet.address, subnet.prefix) {
            let number = count.next(section, Kind::Address);
            profile.add(section, format!("address{number}"), format!("{address}/{prefix}"));
        }
        match &subnet.gateway {
            Some(gateway) if subnet.method.is_static() => {
                profile.set(section, "gateway", gateway);
                count.next(section, Kind::Default);
            }
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
    for rule in &link.rules {
        let Some((inet6, words)) = policy_rule(rule, true) else {
            rendered.warn(format!(
                "{}: routing-policy: not supported by the network-manager renderer; ignored",
                link.name
            ));
            continue;
        };
        let section = family(inet6);
        let number = count.next(section, Kind::Rule);
        profile.add(section, format!("routing-rule{number}"), words);
    }
    overrides(profile, "ipv4", &link.dhcp4);
    overrides(profile, "ipv6", &link.dhcp6);
    complete(profile);
    advertisements(profile, link, rendered);
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
        complete(profile);
    }
}

/// A family with routes or other settings only: it needs a method, and is not required to come up.
pub fn complete(profile: &mut Sections) {
    for family in FAMILIES {
        if profile.has(family) && profile.get(family, "method").is_none() {
            profile.set(family, "method", "auto");
            profile.set(family, "may-fail", "true");
        }
    }
}

/// Adds the overrides of DHCP to a family that uses it.
fn overrides(profile: &mut Sections, section: &'static str, dhcp: &Dhcp) {
    if !matches!(profile.get(section, "method"), Some("auto" | "dhcp")) {
        return;
    }
    for (key, value) in dhcp.overrides.iter() {
        match (key.as_str().unwrap_or_default(), is_on(value)) {
            ("use-dns", false) => profile.set(section, "ignore-auto-dns", "true"),
            ("use-routes", false) => {
                profile.set(section, "ignore-auto-routes", "true");
                // Otherwise the gateway of the lease would remain.
                if profile.get(section, "gateway").is_none() {
                    profile.set(section, "never-default", "true");
                }
            }
            ("use-hostname", false) => profile.set("hostname", "from-dhcp", "0"),
            ("send-hostname", on) => profile.set(section, "dhcp-send-hostname", on.to_string()),
            ("hostname", _) if !value.is_falsy() => profile.set(section, "dhcp-hostname", python_str(value)),
            _ => {}
        }
    }
}

/// Sets whether router advertisements are accepted, and link-local addresses, by the method.
fn advertisements(profile: &mut Sections, link: &Link, rendered: &mut Rendered) {
    let local = link.settings.get("link-local").and_then(Node::as_str);
    let (has_local4, has_local6) =
        (matches!(local, Some("yes" | "ipv4")), !matches!(local, Some("no" | "ipv4")));
    match has_local4 {
        true if profile.has("ipv4") => profile.set("ipv4", "link-local", "3"),
        true => profile.set("ipv4", "method", "link-local"),
        false => {}
    }
    let has_address = link.subnets.iter().any(|s| s.is_ipv6() && s.address.is_some());
    if !has_local6 && profile.has("ipv6") {
        rendered.warn(format!("{}: NetworkManager keeps the link-local address beside others", link.name));
    }
    let method = match (profile.get("ipv6", "method"), link.accept_ra) {
        (None, _) if !has_local6 => "disabled",
        (None, Some(false)) => "link-local",
        (Some("auto"), Some(false)) if has_address => "manual",
        (Some("auto"), Some(false)) if link.subnets.iter().any(|s| is_dhcp6(s.method)) => "dhcp",
        (Some("auto"), Some(false)) => "link-local",
        (Some("manual"), Some(true)) => "auto",
        _ => return,
    };
    profile.set("ipv6", "method", method);
}

fn is_dhcp6(method: Method) -> bool {
    matches!(method, Method::Dhcp6 | Method::Dhcp6Stateful)
}

/// Sets the method of the family. A method that is set already is only extended.
fn method(profile: &mut Sections, section: &'static str, subnet: &Subnet) {
    let (word, may_fail) = match subnet.method {
        Method::Static | Method::Static6 => ("manual", "false"),
        // `dhcp` for stateful DHCPv6, as in upstream, ignores router advertisements and so has no default route.
        Method::Dhcp
        | Method::Dhcp4
        | Method::Dhcp6
        | Method::Slaac
        | Method::Dhcp6Stateless
        | Method::Dhcp6Stateful => ("auto", "false"),
        Method::Manual if subnet.address.is_none() => ("disabled", "true"),
        Method::Manual | Method::Loopback | Method::Auto => ("auto", "true"),
    };
    let rank = |word: &str| ["disabled", "manual", "auto"].iter().position(|w| *w == word);
    match profile.get(section, "method") {
        Some(now) if rank(now) >= rank(word) => {}
        _ => profile.set(section, "method", word),
    }
    if profile.get(section, "may-fail").is_none() || may_fail == "true" {
        profile.set(section, "may-fail", may_fail);
    }
}

/// Running numbers of addresses, routes, rules and default routes, for each family.
#[derive(Default)]
struct Counters([[u32; 4]; 2]);

#[derive(Clone, Copy)]
enum Kind {
    Address,
    Route,
    Rule,
    Default,
}

impl Counters {
    fn next(&mut self, section: &str, kind: Kind) -> u32 {
        let number = &mut self.0[usize::from(section == "ipv6")][kind as usize];
        *number += 1;
        *number
    }
}

/// Adds a route to the section of its family. The metric of the first default route of the main table is that of the whole family.
fn route(profile: &mut Sections, route: &Route, count: &mut Counters) {
    let section = family(is_ipv6(&route.network));
    let number = count.next(section, Kind::Route);
    let mut value = format!("{}/{}", route.network, route.prefix);
    let is_default = route.is_default() && route.table.is_none() && route.kind.is_none();
    let metric = route.metric.map(|m| m.to_string());
    let is_of_family = is_default && count.next(section, Kind::Default) == 1;
    if is_of_family {
        profile.set_optional(section, "route-metric", metric.clone());
    }
    let in_route = metric.filter(|_| !is_of_family);
    match (&route.gateway, &in_route) {
        (Some(gateway), _) => value.push_str(&format!(",{gateway}")),
        (None, Some(_)) => value.push(','),
        (None, None) => {}
    }
    if let Some(metric) = in_route {
        value.push_str(&format!(",{metric}"));
    }
    profile.add(section, format!("route{number}"), value);
    let is_ipv4 = section == "ipv4";
    let named = [
        ("table", route.table.as_ref().and_then(table_number)),
        ("type", route.kind.clone()),
        // IPv6 has no scopes of routes.
        (
            "scope",
            route.scope.as_ref().filter(|_| is_ipv4).map(|s| if s == "host" { "254" } else { "253" }.into()),
        ),
        ("src", route.from.clone()),
        ("onlink", route.on_link.then(|| "true".to_string())),
    ];
    let attributes = ROUTE_ATTRIBUTES.iter().map(|a| (a.ip, route.attributes.get(a.netplan).map(python_str)));
    let options =
        named.into_iter().chain(attributes).filter_map(|(key, value)| Some(format!("{key}={}", value?)));
    let options = options.collect::<Vec<_>>().join(",");
    if !options.is_empty() {
        profile.add(section, format!("route{number}_options"), options);
    }
}

/// Writes the name servers and search domains in the sections of the families that the link uses.
fn dns(profile: &mut Sections, link: &Link, global: &Dns, rendered: &mut Rendered) {
    let all = link.all_dns(global);
    let takes = |profile: &Sections, section: &str| {
        profile.has(section) && !matches!(profile.get(section, "method"), Some("disabled" | "link-local"))
    };
    let list = |items: &[&String]| items.iter().map(|i| format!("{i};")).collect::<String>();
    for inet6 in [false, true] {
        let of_family: Vec<&String> = all.servers.iter().filter(|s| is_ipv6(s) == inet6).collect();
        let section = family(inet6);
        if of_family.is_empty() {
            continue;
        }
        // `[ipv4]` alone would turn on DHCP.
        if takes(profile, section) || inet6 && !profile.has(section) && !link.subnets.is_empty() {
            profile.set(section, "dns", list(&of_family));
        } else if !link.subnets.is_empty() && link.dns.is_some() {
            rendered.warn(format!(
                "{}: name servers of an address family that the link does not use; ignored",
                link.name
            ));
        }
    }
    for section in FAMILIES {
        if !all.search.is_empty() && takes(profile, section) {
            profile.set(section, "dns-search", list(&all.search.iter().collect::<Vec<_>>()));
        }
    }
}
