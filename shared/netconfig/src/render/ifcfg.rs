//! Subnets, routes and bonding options as keys of ifcfg files.

use std::net::Ipv4Addr;

use config::Node;
use distro::IfcfgDialect;
use system::Prefix;

use crate::address::{is_ipv6, is_link_local};
use crate::model::{Link, Method, Route, Subnet};
use crate::parse::{OPTION, Override, Place, ROUTE_ATTRIBUTES, SETTINGS, Setting, is_on};

use super::ifcfg_file::{HEADER, Ifcfg, shell_quoted};
use super::output::Rendered;
use super::values::{CONFLICTS, bond_value, has_effect, policy_rule, python_str, table_number, yes_no};

/// The options of a bond, in the order in which they are written.
const BOND_OPTIONS: &str = "mode xmit_hash_policy miimon min_links arp_interval arp_ip_target arp_validate ad_select \
    num_grat_arp downdelay updelay lacp_rate fail_over_mac primary primary_reselect";

/// Returns whether ifcfg files have this option of a bond: `bond-` with hyphens or `bond_` with underscores.
pub fn has_bond_option(name: &str) -> bool {
    let has = |bare: &str| BOND_OPTIONS.split(' ').any(|known| known == bare);
    match name.strip_prefix("bond-") {
        Some(hyphens) => !hyphens.contains('_') && has(&hyphens.replace('-', "_")),
        None => name.strip_prefix("bond_").is_some_and(has),
    }
}

/// Returns `mode=802.3ad miimon=100`. An option has the prefix `bond-` with hyphens or `bond_` with underscores. wicked rejects a
/// bond that monitors its members in no way.
pub fn bonding_options(link: &Link, dialect: IfcfgDialect, rendered: &mut Rendered) -> String {
    let is_suse = dialect == IfcfgDialect::Suse;
    let option = |name| {
        let hyphens = link.params.get(&format!("bond-{}", str::replace(name, "_", "-")));
        Some((name, bond_value(name, hyphens.or_else(|| link.params.get(&format!("bond_{name}")))?)))
    };
    let options: Vec<(&str, String)> = BOND_OPTIONS.split(' ').filter_map(option).collect();
    let mut words = Vec::new();
    for (name, value) in &options {
        if has_effect(name, &options, is_suse) {
            words.push(format!("{name}={value}"));
        } else {
            rendered.warn(format!("{}: {name} {CONFLICTS}", link.name));
        }
    }
    let monitors = |word: &String| word.starts_with("miimon=") || word.starts_with("arp_interval=");
    if is_suse && !words.iter().any(monitors) {
        words.push("miimon=100".into());
    }
    words.join(" ")
}

fn netmask(prefix: u8) -> String {
    Prefix::new(Ipv4Addr::UNSPECIFIED, prefix).netmask().to_string()
}

fn is_ipv6_autoconf(method: Method) -> bool {
    matches!(method, Method::Slaac | Method::Dhcp6Stateless | Method::Dhcp6Stateful)
}

pub fn red_hat(file: &mut Ifcfg, link: &Link, has_default_route: bool, is_lower: bool) {
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
            // What is above a link has only those links below it that are brought up.
            Method::Manual if is_lower || file.get("MTU").is_some() => &[("ONBOOT", "yes")],
            Method::Manual => &[("ONBOOT", "no")],
            Method::Static | Method::Static6 | Method::Loopback | Method::Auto => &[],
        };
        for (key, value) in lines {
            file.set(*key, *value);
        }
        if let Some(mtu) = &subnet.mtu {
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
            file.set(gateway_key(is_ipv6(gateway)), gateway);
        }
        for (i, server) in subnet.dns.servers.iter().take(3).enumerate() {
            file.set(format!("DNS{}", i + 1), server);
        }
        if !subnet.dns.search.is_empty() {
            file.set("DOMAIN", subnet.dns.search.join(" "));
        }
    }
    if let Some(on) = link.accept_ra {
        // The network scripts read the last key, NetworkManager the others.
        for (key, value) in
            [("IPV6INIT", "yes"), ("IPV6_AUTOCONF", yes_no(on)), ("IPV6_FORCE_ACCEPT_RA", yes_no(on))]
        {
            file.set(key, value);
        }
    }
}

/// The overrides of DHCP: version 2's key, the keys of the Red Hat family for IPv4 and IPv6, and wicked's.
const OVERRIDES: [(&str, [[&str; 2]; 2]); 6] = [
    ("use-dns", [["PEERDNS", "IPV6_PEERDNS"], ["DHCLIENT_UPDATE", "DHCLIENT6_UPDATE"]]),
    ("use-routes", [["PEERROUTES", "IPV6_PEERROUTES"], ["DHCLIENT_SET_DEFAULT_ROUTE", ""]]),
    ("use-hostname", [["HOSTNAME_FROM_DHCP", ""], ["DHCLIENT_SET_HOSTNAME", "DHCLIENT6_SET_HOSTNAME"]]),
    ("route-metric", [["IPV4_ROUTE_METRIC", "IPV6_ROUTE_METRIC"], ["DHCLIENT_ROUTE_PRIORITY", ""]]),
    (
        "hostname",
        [["DHCP_HOSTNAME", "DHCPV6_HOSTNAME"], ["DHCLIENT_HOSTNAME_OPTION", "DHCLIENT6_HOSTNAME_OPTION"]],
    ),
    (
        "send-hostname",
        [
            ["DHCP_SEND_HOSTNAME", "DHCPV6_SEND_HOSTNAME"],
            ["DHCLIENT_HOSTNAME_OPTION", "DHCLIENT6_HOSTNAME_OPTION"],
        ],
    ),
];

/// Returns the key of an override in a dialect.
fn override_key(dialect: IfcfgDialect, netplan: &str, inet6: bool) -> Option<&'static str> {
    let (_, keys) = OVERRIDES.iter().find(|(name, _)| *name == netplan)?;
    Some(keys[usize::from(dialect == IfcfgDialect::Suse)][usize::from(inet6)]).filter(|key| !key.is_empty())
}

/// Returns whether a dialect has an override, or does the same without it.
pub fn has_override(dialect: IfcfgDialect, known: &Override, value: &Node, inet6: bool) -> bool {
    let uses = known.netplan.starts_with("use-") && is_on(value);
    uses || override_key(dialect, known.netplan, inet6).is_some()
}

/// Returns the place of a setting in a dialect's files.
pub fn place(dialect: IfcfgDialect, setting: &Setting) -> Option<&Place> {
    match dialect {
        IfcfgDialect::RedHat => setting.red_hat.as_ref(),
        IfcfgDialect::Suse => setting.suse.as_ref(),
    }
}

/// Returns the name of an offload in ethtool(8).
fn offload(setting: &Setting) -> Option<&'static str> {
    let option = setting.eni.as_ref().filter(|place| place.section == OPTION)?;
    option.key.strip_prefix("offload-")
}

/// Returns whether a dialect has a value of a setting.
pub fn has_setting(dialect: IfcfgDialect, setting: &Setting, value: &Node) -> bool {
    offload(setting).is_some() || place(dialect, setting).is_some_and(|place| place.word(value).is_some())
}

/// Writes the overrides of DHCP and the further settings of a link.
pub fn settings(file: &mut Ifcfg, link: &Link, dialect: IfcfgDialect) {
    let is_suse = dialect == IfcfgDialect::Suse;
    for (dhcp, inet6) in [(&link.dhcp4, false), (&link.dhcp6, true)] {
        let uses = |s: &Subnet| s.method == if inet6 { Method::Dhcp6 } else { Method::Dhcp4 };
        for (name, _) in OVERRIDES.iter().filter(|_| link.subnets.iter().any(uses)) {
            let Some(value) = dhcp.overrides.get(name).filter(|value| !value.is_null()) else { continue };
            let Some(key) = override_key(dialect, name, inet6) else { continue };
            let text = match (*name, is_suse, is_on(value)) {
                ("hostname", ..) => python_str(value),
                ("route-metric", ..) if value.is_falsy() => continue,
                ("route-metric", ..) => python_str(value),
                ("use-dns" | "send-hostname", true, true) => continue,
                ("use-dns", true, false) => "default,-dns".into(),
                ("send-hostname", true, false) => String::new(),
                (_, _, on) => yes_no(on).into(),
            };
            // Otherwise the gateway of the lease would remain.
            if *name == "use-routes" && !is_suse && !is_on(value) && file.get(gateway_key(inet6)).is_none() {
                file.set(if inet6 { "IPV6_DEFROUTE" } else { "DEFROUTE" }, "no");
            }
            file.set(key, text);
        }
    }
    for (setting, value) in SETTINGS.iter().filter_map(|s| Some((s, link.settings.get(s.netplan)?))) {
        if let Some(feature) = offload(setting) {
            let words = format!("-K {} {feature} {}", link.name, if is_on(value) { "on" } else { "off" });
            match is_suse {
                true => file.set(format!("ETHTOOL_OPTIONS_{feature}"), words),
                false => {
                    let before =
                        file.get("ETHTOOL_OPTS").map(|before| format!("{before}; ")).unwrap_or_default();
                    file.set("ETHTOOL_OPTS", before + &words);
                }
            }
        }
        let place =
            place(dialect, setting).filter(|place| place.section.is_empty() && applies(setting, link));
        if let Some((place, word)) = place.and_then(|place| Some((place, place.word(value)?))) {
            file.set(place.key, word);
        }
    }
}

/// Returns whether a setting does not conflict with a link's addresses.
pub fn applies(setting: &Setting, link: &Link) -> bool {
    setting.netplan != "link-local" || !link.subnets.iter().any(Subnet::is_ipv6)
}

/// Returns the policy rules of a link in ip-rule(8)'s syntax, each with whether it is for IPv6.
pub fn rules(link: &Link, is_complete: bool, rendered: &mut Rendered) -> Vec<(bool, String)> {
    let mut rules = Vec::new();
    for (i, rule) in link.rules.iter().enumerate() {
        match policy_rule(rule, is_complete) {
            Some(rule) => rules.push(rule),
            None => rendered
                .warn(format!("{}: routing-policy[{i}]: invalid or not supported; ignored", link.name)),
        }
    }
    rules
}

/// Writes the policy rules of a link: as keys for NetworkManager, which ignores a NIC's routes beside a file of rules, or as files
/// for the network scripts.
pub fn red_hat_rules(
    file: &mut Ifcfg,
    link: &Link,
    has_network_scripts: bool,
    rendered: &mut Rendered,
) -> Vec<(&'static str, String)> {
    let rules = rules(link, !has_network_scripts, rendered);
    let mut files = Vec::new();
    for (inet6, kind, key) in [(false, "rule", "ROUTING_RULE_"), (true, "rule6", "ROUTING_RULE6_")] {
        let of_family: Vec<&String> =
            rules.iter().filter(|rule| rule.0 == inet6).map(|rule| &rule.1).collect();
        if has_network_scripts && !of_family.is_empty() {
            files.push((kind, of_family.iter().fold(HEADER.to_string(), |text, rule| text + rule + "\n")));
        } else {
            of_family.iter().enumerate().for_each(|(i, rule)| file.set(format!("{key}{}", i + 1), *rule));
        }
    }
    files
}

pub fn suse(file: &mut Ifcfg, link: &Link) {
    let mut numbers = [0, 0];
    for subnet in &link.subnets {
        let now = file.get("BOOTPROTO");
        match subnet.method {
            Method::Dhcp | Method::Dhcp4 => {
                let both = matches!(now, Some("dhcp6" | "dhcp"));
                file.set("BOOTPROTO", if both { "dhcp" } else { "dhcp4" });
                if let Some(metric) = &subnet.metric {
                    file.set("DHCLIENT_ROUTE_PRIORITY", python_str(metric));
                }
            }
            method if method == Method::Dhcp6 || is_ipv6_autoconf(method) => {
                let both = matches!(now, Some("dhcp4" | "dhcp"));
                file.set("BOOTPROTO", if both { "dhcp" } else { "dhcp6" });
                let managed = matches!(method, Method::Dhcp6 | Method::Dhcp6Stateful);
                file.set("DHCLIENT6_MODE", if managed { "managed" } else { "info" });
            }
            _ => {}
        }
        if let Some(mtu) = subnet.mtu.as_ref().filter(|_| !subnet.is_ipv6()) {
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

/// Adds an address. IPv4 addresses are numbered from the second on, IPv6 ones as the dialect numbers them.
fn address(file: &mut Ifcfg, subnet: &Subnet, numbers: &mut [usize; 2], red_hat: bool) {
    let (Some(address), Some(prefix)) = (&subnet.address, subnet.prefix) else { return };
    let inet6 = subnet.is_ipv6();
    let number = numbers[usize::from(inet6)];
    numbers[usize::from(inet6)] += 1;
    let suffix = match (inet6, number) {
        (false, 0) => String::new(),
        // wicked's key of a seventh address would be that of the first IPv6 address.
        (false, 6..) if !red_hat => format!("_{number}"),
        (false, _) => number.to_string(),
        (true, 0) => "6".into(),
        (true, _) => format!("6_{number}"),
    };
    let whole = format!("{address}/{prefix}");
    match (inet6, red_hat) {
        (false, _) => {
            file.set(format!("IPADDR{suffix}"), address);
            file.set(format!("NETMASK{suffix}"), netmask(prefix));
        }
        (true, true) if number == 0 => file.set("IPV6ADDR", whole),
        (true, true) => file.append("IPV6ADDR_SECONDARIES", &whole),
        (true, false) => file.set(format!("IPADDR{suffix}"), whole),
    }
    let further =
        [("BROADCAST", &subnet.broadcast), ("REMOTE_IPADDR", &subnet.pointopoint), ("SCOPE", &subnet.scope)];
    for (key, value) in further.into_iter().filter(|_| !red_hat) {
        if let Some(value) = value {
            file.set(format!("{key}{suffix}"), value);
        }
    }
}

/// Returns the files with a NIC's routes, none without routes. Plain default routes are in the ifcfg file, which has one gateway
/// and one metric for each family.
pub fn routes(file: &mut Ifcfg, link: &Link) -> Result<Option<[String; 2]>, String> {
    let mut number = 0;
    let mut lists = [Vec::new(), Vec::new()];
    let mut seen = [false, false];
    for subnet in &link.subnets {
        let is_openstack = subnet.is_openstack_ipv4 || subnet.is_openstack_ipv6;
        for route in &subnet.routes {
            let gateway = route.gateway.as_deref().filter(|_| route.is_default() && is_plain(route));
            // The one metric is that of the default route by DHCP.
            let is_other =
                !is_openstack && route.metric.is_some() && link.is_dynamic(is_ipv6(&route.network));
            if is_other && gateway.is_some() && file.get("DHCLIENT_SET_DEFAULT_ROUTE").is_some() {
                file.set("DHCLIENT_SET_DEFAULT_ROUTE", "yes");
            }
            let is_first = |gateway: &str| {
                is_openstack || file.get(gateway_key(is_ipv6(gateway))).is_none_or(|known| known == gateway)
            };
            let gateway = gateway.filter(|_| !is_other);
            match gateway.filter(|gateway| is_first(gateway)) {
                Some(gateway) if subnet.method != Method::Dhcp6 && !is_ipv6_autoconf(subnet.method) => {
                    default_route(file, link, subnet, route, gateway, &mut seen)?;
                }
                _ => {
                    number += 1;
                    lists[usize::from(is_ipv6(&route.network))].push((number.to_string(), route));
                }
            }
        }
    }
    if lists.iter().all(Vec::is_empty) {
        return Ok(None);
    }
    // Sorted by their numbers as text, as in upstream: the tenth precedes the second.
    let [v4, v6] = lists.map(|mut list| {
        sort::sort_by(&mut list, |a, b| a.0.cmp(&b.0));
        list.into_iter().map(|(_, route)| route).collect::<Vec<_>>()
    });
    let mut texts = [HEADER.to_string(), HEADER.to_string()];
    // Only the syntax of ip-route(8) has all attributes, and a file has one syntax.
    let numbered = v4.iter().all(|route| is_plain(route));
    for (n, route) in v4.iter().enumerate().filter(|_| numbered) {
        let (network, mask) = (&route.network, netmask(route.prefix));
        let gateway = shell_quoted(route.gateway.as_deref().unwrap_or_default());
        texts[0].push_str(&format!("ADDRESS{n}={network}\nGATEWAY{n}={gateway}\nNETMASK{n}={mask}\n"));
        texts[0].extend(route.metric.map(|m| format!("METRIC{n}={m}\n")));
    }
    texts[0].extend(v4.iter().filter(|_| !numbered).map(|route| ip_route(route, &link.name)));
    texts[1].extend(v6.iter().map(|route| ip_route(route, &link.name)));
    Ok(Some(texts))
}

/// Returns whether a route has a gateway, or needs none.
pub fn has_next_hop(route: &Route) -> bool {
    route.gateway.is_some() || route.kind.is_some() || route.scope.is_some()
}

/// Returns whether a route discards packets: it has neither gateway nor device.
pub fn discards(route: &Route) -> bool {
    matches!(route.kind.as_deref(), Some("blackhole" | "prohibit" | "throw" | "unreachable"))
}

/// Returns whether destination, gateway and metric are all of a route.
fn is_plain(route: &Route) -> bool {
    let is_link_local = route.gateway.as_deref().is_some_and(is_link_local);
    route.gateway.is_some()
        && route.kind.is_none()
        && (!route.on_link || is_link_local)
        && route_options(route, None).is_empty()
}

/// Returns a line of ip-route(8).
fn ip_route(route: &Route, name: &str) -> String {
    let kind = route.kind.as_ref().map(|kind| format!("{kind} ")).unwrap_or_default();
    let via = route.gateway.as_ref().map(|gateway| format!(" via {gateway}")).unwrap_or_default();
    let metric = route.metric.map(|m| format!("metric {m}")).unwrap_or_default();
    let device = if discards(route) { String::new() } else { format!(" dev {name}") };
    // NetworkManager ignores a route with an attribute that it does not know.
    let options = route_options(route, Some("advmss"));
    let on_link = if route.on_link { " onlink" } else { "" };
    format!("{kind}{}/{}{via} {metric}{device}{options}{on_link}\n", route.network, route.prefix)
}

/// Returns the further words of a route in ip-route(8), each with a space before it, except for one.
pub fn route_options(route: &Route, without: Option<&str>) -> String {
    let table = route.table.as_ref().map(|table| table_number(table).unwrap_or_else(|| python_str(table)));
    // IPv6 has no scopes of routes.
    let scope = route.scope.clone().filter(|_| !is_ipv6(&route.network));
    let attributes = ROUTE_ATTRIBUTES.iter().map(|a| (a.ip, route.attributes.get(a.netplan).map(python_str)));
    let words =
        [("table", table.filter(|table| table != "254")), ("scope", scope), ("src", route.from.clone())];
    let words = words.into_iter().chain(attributes).filter(|(word, _)| Some(*word) != without);
    words.filter_map(|(word, value)| Some(format!(" {word} {}", value?))).collect()
}

fn gateway_key(inet6: bool) -> &'static str {
    if inet6 { "IPV6_DEFAULTGW" } else { "GATEWAY" }
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
    file.set(gateway_key(inet6), gateway);
    if let Some(metric) = route.metric {
        let key = if inet6 { "IPV6_ROUTE_METRIC" } else { "IPV4_ROUTE_METRIC" };
        file.set(key, metric.to_string());
    }
    Ok(())
}
