//! Subnets, routes and bonding options as keys of ifcfg files.

use std::net::Ipv4Addr;

use config::Value;
use system::Prefix;

use crate::address::is_ipv6;
use crate::model::{Link, Method, Route, Subnet};

use super::ifcfg_file::{HEADER, Ifcfg, shell_quoted};
use super::output::Rendered;
use super::values::python_str;

/// The options of a bond, in the order in which they are written.
const BOND_OPTIONS: [&str; 15] = [
    "mode",
    "xmit_hash_policy",
    "miimon",
    "min_links",
    "arp_interval",
    "arp_ip_target",
    "arp_validate",
    "ad_select",
    "num_grat_arp",
    "downdelay",
    "updelay",
    "lacp_rate",
    "fail_over_mac",
    "primary",
    "primary_reselect",
];

/// Returns whether ifcfg files have this option of a bond: `bond-` with hyphens or `bond_` with underscores.
pub fn has_bond_option(name: &str) -> bool {
    match name.strip_prefix("bond-") {
        Some(hyphens) => !hyphens.contains('_') && BOND_OPTIONS.contains(&hyphens.replace('-', "_").as_str()),
        None => name.strip_prefix("bond_").is_some_and(|bare| BOND_OPTIONS.contains(&bare)),
    }
}

/// Returns `mode=802.3ad miimon=100`. An option has the prefix `bond-` with hyphens or `bond_` with underscores.
pub fn bonding_options(link: &Link) -> String {
    let mut words = Vec::new();
    for name in BOND_OPTIONS {
        let hyphens = link.params.get(&format!("bond-{}", name.replace('_', "-")));
        let Some(value) = hyphens.or_else(|| link.params.get(&format!("bond_{name}"))) else { continue };
        let text = match &value.value {
            Value::Seq(items) => items.iter().map(python_str).collect::<Vec<_>>().join(" "),
            _ => python_str(value),
        };
        words.push(format!("{name}={text}"));
    }
    words.join(" ")
}

fn netmask(prefix: u8) -> String {
    Prefix::new(Ipv4Addr::UNSPECIFIED, prefix).netmask().to_string()
}

fn is_ipv6_autoconf(method: Method) -> bool {
    matches!(method, Method::Slaac | Method::Dhcp6Stateless | Method::Dhcp6Stateful)
}

pub fn red_hat(file: &mut Ifcfg, link: &Link, has_default_route: bool) {
    for subnet in &link.subnets {
        let lines: &[(&str, &str)] = match subnet.method {
            Method::Dhcp | Method::Dhcp4 => &[("BOOTPROTO", "dhcp")],
            Method::Dhcp6 => &[("IPV6INIT", "yes"), ("DHCPV6C", "yes")],
            Method::Dhcp6Stateful => &[
                ("IPV6INIT", "yes"),
                ("DHCPV6C", "yes"),
                ("IPV6_AUTOCONF", "no"),
                ("IPV6_FAILURE_FATAL", "yes"),
            ],
            Method::Dhcp6Stateless => &[
                ("IPV6INIT", "yes"),
                ("IPV6_AUTOCONF", "yes"),
                ("DHCPV6C", "yes"),
                ("DHCPV6C_OPTIONS", "-S"),
            ],
            Method::Slaac => &[("IPV6INIT", "yes"), ("IPV6_AUTOCONF", "yes")],
            Method::Static | Method::Static6 if subnet.is_ipv6() => {
                &[("IPV6INIT", "yes"), ("IPV6_AUTOCONF", "no"), ("IPV6_FORCE_ACCEPT_RA", "no")]
            }
            Method::Manual if file.get("MTU").is_some() => &[("ONBOOT", "yes")],
            Method::Manual => &[("ONBOOT", "no")],
            Method::Static | Method::Static6 | Method::Loopback | Method::Auto => &[],
        };
        for (key, value) in lines {
            file.set(*key, *value);
        }
        if let Some(mtu) = subnet.mtu.as_ref().filter(|_| subnet.method.is_static()) {
            file.set(if subnet.is_ipv6() { "IPV6_MTU" } else { "MTU" }, python_str(mtu));
        }
        if subnet.control.as_deref() == Some("manual") {
            file.set("ONBOOT", "no");
        }
    }
    let mut numbers = [0, 0];
    for subnet in &link.subnets {
        if let Some(metric) = &subnet.metric {
            let key = if subnet.is_ipv6() { "IPV6_ROUTE_METRIC" } else { "IPV4_ROUTE_METRIC" };
            file.set(key, python_str(metric));
        }
        if matches!(subnet.method, Method::Dhcp | Method::Dhcp4) {
            if has_default_route && file.get("BOOTPROTO") != Some("none") {
                file.set("DHCLIENT_SET_DEFAULT_ROUTE", "no");
            }
            continue;
        }
        if !subnet.method.is_static() {
            continue;
        }
        address(file, subnet, &mut numbers, true);
        if let Some(gateway) = &subnet.gateway {
            file.set("DEFROUTE", "yes");
            file.set(if is_ipv6(gateway) { "IPV6_DEFAULTGW" } else { "GATEWAY" }, gateway);
        }
        for (i, server) in subnet.dns.servers.iter().take(3).enumerate() {
            file.set(format!("DNS{}", i + 1), server);
        }
        if !subnet.dns.search.is_empty() {
            file.set("DOMAIN", subnet.dns.search.join(" "));
        }
    }
}

pub fn suse(file: &mut Ifcfg, link: &Link) {
    let mut numbers = [0, 0];
    for subnet in &link.subnets {
        let now = file.get("BOOTPROTO");
        match subnet.method {
            Method::Dhcp | Method::Dhcp4 => {
                let both = matches!(now, Some("dhcp6" | "dhcp"));
                file.set("BOOTPROTO", if both { "dhcp" } else { "dhcp4" });
            }
            method if method == Method::Dhcp6 || is_ipv6_autoconf(method) => {
                let both = matches!(now, Some("dhcp4" | "dhcp"));
                file.set("BOOTPROTO", if both { "dhcp" } else { "dhcp6" });
                let managed = matches!(method, Method::Dhcp6 | Method::Dhcp6Stateful);
                file.set("DHCLIENT6_MODE", if managed { "managed" } else { "info" });
            }
            _ => {}
        }
        if let Some(mtu) = subnet.mtu.as_ref().filter(|_| subnet.method.is_static() && !subnet.is_ipv6()) {
            file.set("MTU", python_str(mtu));
        }
        if subnet.control.as_deref() == Some("manual") {
            file.set("STARTMODE", "manual");
        }
        if subnet.method.is_static() {
            address(file, subnet, &mut numbers, false);
        }
    }
}

/// Adds an address. IPv4 addresses are numbered from the second on, IPv6 ones as the flavour numbers them.
fn address(file: &mut Ifcfg, subnet: &Subnet, numbers: &mut [usize; 2], red_hat: bool) {
    let (Some(address), Some(prefix)) = (&subnet.address, subnet.prefix) else { return };
    let inet6 = subnet.is_ipv6();
    let number = numbers[usize::from(inet6)];
    numbers[usize::from(inet6)] += 1;
    let suffix = if number == 0 { String::new() } else { number.to_string() };
    match (inet6, red_hat) {
        (false, _) => {
            file.set(format!("IPADDR{suffix}"), address);
            file.set(format!("NETMASK{suffix}"), netmask(prefix));
        }
        (true, true) => {
            let whole = format!("{address}/{prefix}");
            if number == 0 {
                file.set("IPV6ADDR", whole);
            } else {
                file.append("IPV6ADDR_SECONDARIES", &whole);
            }
        }
        (true, false) => {
            let underscore = if number == 0 { "" } else { "_" };
            file.set(format!("IPADDR6{underscore}{suffix}"), format!("{address}/{prefix}"));
        }
    }
}

/// Returns the files with a NIC's routes, none without routes. Default routes are in the ifcfg file.
pub fn routes(file: &mut Ifcfg, link: &Link, rendered: &mut Rendered) -> Result<Option<[String; 2]>, String> {
    let mut number = 0;
    let mut lists = [Vec::new(), Vec::new()];
    let mut seen = [false, false];
    for subnet in &link.subnets {
        for route in &subnet.routes {
            let Some(gateway) = &route.gateway else {
                rendered.warn(format!("{}: route without a gateway; ignored", link.name));
                continue;
            };
            if route.is_default() && subnet.method != Method::Dhcp6 && !is_ipv6_autoconf(subnet.method) {
                default_route(file, link, subnet, route, gateway, &mut seen)?;
            } else {
                number += 1;
                lists[usize::from(is_ipv6(&route.network))].push((number.to_string(), route, gateway));
            }
        }
    }
    if lists.iter().all(Vec::is_empty) {
        return Ok(None);
    }
    // Sorted by their numbers as text, as in upstream: the tenth precedes the second.
    let [v4, v6] = lists.map(|mut list| {
        sort::sort_by(&mut list, |a, b| a.0.cmp(&b.0));
        list
    });
    let mut texts = [HEADER.to_string(), HEADER.to_string()];
    for (n, (_, route, gateway)) in v4.into_iter().enumerate() {
        let (network, mask) = (&route.network, netmask(route.prefix));
        let gateway = shell_quoted(gateway);
        texts[0].push_str(&format!("ADDRESS{n}={network}\nGATEWAY{n}={gateway}\nNETMASK{n}={mask}\n"));
        texts[0].extend(route.metric.map(|m| format!("METRIC{n}={m}\n")));
    }
    for (_, route, gateway) in v6 {
        let metric = route.metric.map(|m| format!("metric {m}")).unwrap_or_default();
        let (network, prefix, name) = (&route.network, route.prefix, &link.name);
        texts[1].push_str(&format!("{network}/{prefix} via {gateway} {metric} dev {name}\n"));
    }
    Ok(Some(texts))
}

fn default_route(
    file: &mut Ifcfg,
    link: &Link,
    subnet: &Subnet,
    route: &Route,
    gateway: &str,
    seen: &mut [bool; 2],
) -> Result<(), String> {
    let inet6 = subnet.is_openstack_ipv6 || is_ipv6(gateway);
    if subnet.is_openstack_ipv4 || subnet.is_openstack_ipv6 {
        if seen[usize::from(inet6)] {
            return Err(format!("{}: more than one default gateway of one address family", link.name));
        }
        seen[usize::from(inet6)] = true;
    }
    if file.get("BOOTPROTO") == Some("dhcp") {
        file.set("DHCLIENT_SET_DEFAULT_ROUTE", "yes");
    }
    file.set("DEFROUTE", "yes");
    file.set(if inet6 { "IPV6_DEFAULTGW" } else { "GATEWAY" }, gateway);
    if let Some(metric) = route.metric {
        let key = if subnet.is_ipv6() { "IPV6_ROUTE_METRIC" } else { "IPV4_ROUTE_METRIC" };
        file.set(key, metric.to_string());
    }
    Ok(())
}
