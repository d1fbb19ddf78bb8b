//! What wicked reads besides ifcfg files: routes, rules and the kernel's settings of a NIC, and netconfig's name servers.

use std::collections::HashSet;

use distro::IfcfgDialect;

use crate::address::{is_ipv6, is_link_local, parse_number};
use crate::model::{Dns, Link, Method, Networks, Route, Subnet};
use crate::parse::{SETTINGS, SYSCTL};

use super::ifcfg::{applies, discards, place, route_options, rules};
use super::ifcfg_file::{HEADER, shell_quoted};
use super::output::Rendered;

/// The configuration of netconfig, which writes resolv.conf.
pub const NETCONFIG: &str = "/etc/sysconfig/network/config";

/// Returns the further files of a NIC that are not empty: the beginnings of their names, and their contents.
pub fn files(link: &Link, rendered: &mut Rendered) -> Vec<(&'static str, String)> {
    let rules = rules(link, false, rendered).into_iter().map(|(inet6, rule)| {
        let family = if inet6 { "ipv6" } else { "ipv4" };
        format!("{family} {rule}\n")
    });
    let files = [("ifroute", routes(link)), ("ifrule", rules.collect()), ("ifsysctl", kernel_settings(link))];
    let files = files.into_iter().filter(|(_, lines)| !lines.is_empty());
    files.map(|(kind, lines)| (kind, format!("{HEADER}{}", lines.concat()))).collect()
}

/// Returns the lines of the routes: destination, gateway, an unused column, NIC, options.
fn routes(link: &Link) -> Vec<String> {
    let (mut lines, mut known) = (Vec::new(), HashSet::new());
    let networks = Networks::of(&link.subnets);
    let gateways = link.subnets.iter().filter_map(|subnet| {
        let gateway = subnet.gateway.as_ref()?;
        let network = if is_ipv6(gateway) { "::" } else { "0.0.0.0" };
        let metric = subnet.metric.as_ref().and_then(parse_number).map(Into::into);
        Some(Route { network: network.into(), gateway: Some(gateway.clone()), metric, ..Route::default() })
    });
    let gateways: Vec<Route> = gateways.collect();
    for route in gateways.iter().chain(link.subnets.iter().flat_map(|subnet| &subnet.routes)) {
        let mut add = |line: String| {
            if known.insert(line.clone()) {
                lines.push(line);
            }
        };
        let options = route_options(route, None);
        let gateway = route.gateway.as_deref().filter(|_| !discards(route));
        if let Some(gateway) =
            gateway.filter(|gateway| !is_reachable(link, &networks, gateway, route.on_link))
        {
            // wicked has no `onlink`; the kernel looks the gateway up in the table of the route, and in the main one.
            let width = if is_ipv6(gateway) { 128 } else { 32 };
            add(format!("{gateway}/{width} - - {}\n", link.name));
        }
        let to = match gateway {
            Some(_) if route.is_default() => "default".to_string(),
            _ => format!("{}/{}", route.network, route.prefix),
        };
        let kind = route.kind.as_ref().map(|kind| format!(" {kind}")).unwrap_or_default();
        let metric = route.metric.map(|metric| format!(" metric {metric}")).unwrap_or_default();
        add(format!("{to} {} - {}{kind}{metric}{options}\n", gateway.unwrap_or("-"), link.name));
    }
    lines
}

/// Returns whether a NIC reaches a gateway without a route to it: through one of its subnets, also one that a server assigns.
fn is_reachable(link: &Link, networks: &Networks, gateway: &str, on_link: bool) -> bool {
    let (inet6, known) = (is_ipv6(gateway), is_link_local(gateway) || networks.position(gateway).is_some());
    let assigns = |s: &Subnet| s.address.is_none() && s.is_ipv6() == inet6 && s.method != Method::Manual;
    known || !on_link && link.subnets.iter().any(assigns)
}

/// Returns the lines of the settings that are the kernel's.
fn kernel_settings(link: &Link) -> Vec<String> {
    let places = SETTINGS.iter().filter_map(|setting| {
        let place =
            place(IfcfgDialect::Suse, setting).filter(|p| p.section == SYSCTL && applies(setting, link))?;
        Some((place.key, place.word(link.settings.get(setting.netplan)?)?))
    });
    // 2: also of a machine that forwards packets.
    let accept_ra = link.accept_ra.map(|on| ("accept_ra", if on { "2" } else { "0" }.to_string()));
    let line = |(key, value): (&str, String)| format!("net/ipv6/conf/{}/{key} = {value}\n", link.name);
    accept_ra.into_iter().chain(places).map(line).collect()
}

/// Returns netconfig's configuration with these name servers and search domains. Its other lines are kept.
pub fn netconfig(existing: &str, dns: &Dns) -> String {
    let keys = ["NETCONFIG_DNS_STATIC_SERVERS", "NETCONFIG_DNS_STATIC_SEARCHLIST"];
    let values = [dns.servers.join(" "), dns.search.join(" ")];
    let mut lines: Vec<String> = existing.lines().map(Into::into).collect();
    for (key, value) in keys.iter().zip(values) {
        let line = format!("{key}=\"{}\"", shell_quoted(&value).trim_matches(['"', '\'']));
        match lines.iter_mut().find(|line| line.split_once('=').is_some_and(|(name, _)| name.trim() == *key))
        {
            Some(there) => *there = line,
            None => lines.push(line),
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lines_of_netconfig_are_kept() {
        let dns = Dns { servers: vec!["10.0.0.1".into(), "::1".into()], search: vec!["a.b".into()] };
        let written = "NETCONFIG_DNS_STATIC_SERVERS=\"10.0.0.1 ::1\"\n";
        let domains = "NETCONFIG_DNS_STATIC_SEARCHLIST=\"a.b\"\n";
        for (before, after) in [
            (String::new(), format!("{written}{domains}")),
            (
                "# x\nNETCONFIG_DNS_STATIC_SERVERS=\"9.9.9.9\"\nNETCONFIG_DNS_POLICY=auto\n".into(),
                format!("# x\n{written}NETCONFIG_DNS_POLICY=auto\n{domains}"),
            ),
        ] {
            assert_eq!(netconfig(&before, &dns), after);
            assert_eq!(netconfig(&after, &dns), after);
        }
    }
}
