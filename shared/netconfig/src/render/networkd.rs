//! systemd-networkd: a `.network` for each link, a `.netdev` for each device to create. Sections are in alphabetical
//! order, lines in a section are sorted, and equal lines are written once.

use std::collections::{HashMap, HashSet};

use config::{Node, Value};
use system::System;

use crate::address::{is_in_subnet, is_ipv6, parse_prefix};
use crate::model::{Dhcp, Link, LinkKind, Method, Model, Route};
use crate::parse::{
    BOND_OPTIONS, BRIDGE_OPTIONS, OVERRIDES, Override, ROUTE_ATTRIBUTES, SETTINGS, Unit, is_on,
};

use super::activator::{Activator, Stderr, run_program};
use super::output::{File, RenderResult, Rendered};
use super::renderer::Renderer;
use super::sections::Sections;
use super::target::Target;
use super::unsupported::{Unsupported, link, route, subnet};
use super::values::{bond_name, python_str, table_number, yes_no};

/// The row of [`super::RENDERERS`].
pub const RENDERER: Renderer = Renderer {
    name: "networkd",
    help: "systemd-networkd's units",
    available,
    passthrough: None,
    render,
    post_write: None,
    activator: Some(Activator { class: "NetworkdActivator", bring_up }),
    keeps_imds_lock: true,
    has_patterns: true,
    unsupported: |_| Some(&UNSUPPORTED),
};

const UNSUPPORTED: Unsupported = Unsupported {
    link: &[link::WAKE_ON_LAN, link::RULE_TABLE.when(|l| l.rules.iter().any(has_named_table))],
    subnet: &[
        subnet::CONTROL,
        subnet::BROADCAST,
        subnet::SCOPE,
        subnet::GATEWAY.when(|s| s.address.is_none()),
    ],
    route: &[route::TABLE.when(|r| r.table.as_ref().is_some_and(|table| table_number(table).is_none()))],
    has_setting: |setting, value| setting.networkd.as_ref().is_some_and(|place| place.word(value).is_some()),
    has_override: |known, _, inet6| !inet6 || known.networkd6.is_some(),
    has_bond_option: |name| {
        let bare = name.strip_prefix("bond-");
        MEMBERS.iter().any(|(key, _)| *key == name)
            || BOND_OPTIONS.iter().any(|option| Some(option.ifupdown) == bare && option.networkd.is_some())
    },
    has_bridge_option: |name| BRIDGE_OPTIONS.iter().any(|option| option.ifupdown == name),
    global_ipv6_dns: false,
};

/// The options of bonds that name a member, with the key of that member.
const MEMBERS: [(&str, &str); 2] = [("bond-primary", "PrimarySlave"), ("bond-active-slave", "ActiveSlave")];

/// Returns whether systemd-networkd can be used. Upstream looks for `ip` and `systemctl`; a minimal image has the service
/// without `ip`, which the service does not need.
fn available(sys: &System) -> bool {
    let there = |dirs: &[&str], program: &str| dirs.iter().any(|dir| sys.is_file(format!("{dir}/{program}")));
    let programs = ["/usr/sbin", "/bin"];
    there(&programs, "systemctl")
        && (there(&programs, "ip") || there(&["/usr/lib/systemd", "/lib/systemd"], "systemd-networkd"))
}

fn render(model: &Model, _: &Target) -> RenderResult {
    let topology = Topology::of(model);
    let mut files = Vec::new();
    for link in &model.links {
        // The first file that matches counts. Patterns that would precede another NIC's file are read after all names.
        let later = model.links.iter().filter(|other| link.name < other.name);
        let mark = if link.is_broader_than_any(later) { "~" } else { "" };
        files.push(file(&format!("{mark}{}", link.name), "network", &network(link, model, &topology)?));
        if let Some(netdev) = netdev(link, &topology) {
            files.push(file(&link.name, "netdev", &netdev));
        }
    }
    Ok(Rendered::new(files))
}

fn file(name: &str, kind: &str, unit: &Sections) -> File {
    let path = format!("/etc/systemd/network/10-cloud-init-{name}.{kind}");
    File { owner: Some("systemd-network"), ..File::new(&path, unit.sorted_text()) }
}

/// The VLANs, bridges and bonds above each link. Version 2 refers to links by their IDs, which may differ from their names.
#[derive(Default)]
struct Topology<'a> {
    /// The VLANs on a link, by its name.
    vlans: HashMap<&'a str, Vec<&'a str>>,
    /// The bridges that a link is a port of, by its name.
    bridges: HashMap<&'a str, Vec<&'a Link>>,
    /// Bonds that have members, by id.
    bonds: HashSet<&'a str>,
}

impl Topology<'_> {
    fn of(model: &Model) -> Topology<'_> {
        let mut topology = Topology::default();
        let mut names: HashMap<&str, &str> = HashMap::new();
        for link in &model.links {
            names.entry(&link.id).or_insert(&link.name);
        }
        for link in &model.links {
            if let Some(below) = link.vlan_link.as_deref() {
                let below = names.get(below).copied().unwrap_or(below);
                topology.vlans.entry(below).or_default().push(&link.name);
            }
            topology.bonds.extend(link.bond.as_deref());
            for port in &link.ports {
                let port = names.get(port.as_str()).copied().unwrap_or(port);
                topology.bridges.entry(port).or_default().push(link);
            }
        }
        topology
    }
}

fn network(link: &Link, model: &Model, topology: &Topology<'_>) -> Result<Sections, String> {
    let mut unit = Sections::default();
    if link.match_names.is_empty() {
        unit.add("Match", "Name", &link.name);
    } else {
        unit.add("Match", "Name", link.match_names.join(" "));
        // Devices on top of the NIC, which may have its address and a name of the same pattern.
        unit.add("Match", "Type", "!loopback bridge bond vlan");
    }
    if !link.drivers.is_empty() {
        unit.add("Match", "Driver", link.drivers.join(" "));
    }
    match (&link.mac, &link.set_mac) {
        (Some(mac), _) if link.kind != LinkKind::Physical => unit.add("Link", "MACAddress", mac),
        (Some(mac), None) => unit.add("Match", "MACAddress", mac),
        // It has the other address after the first time.
        (Some(mac), Some(_)) if !link.has_temporary_mac => unit.add("Match", "PermanentMACAddress", mac),
        (_, _) => {}
    }
    if let Some(mac) = &link.set_mac {
        unit.add("Link", "MACAddress", mac);
    }
    let of_subnet =
        |inet6| link.subnets.iter().filter(move |s| s.is_ipv6() == inet6).find_map(|s| s.mtu.as_ref());
    if let Some(mtu) = link.mtu.as_ref().or_else(|| of_subnet(false)).filter(|n| !n.is_falsy()) {
        unit.add("Link", "MTUBytes", python_str(mtu));
    }
    // A router would replace it.
    if let Some(mtu) = of_subnet(true).or(link.settings.get("ipv6-mtu")) {
        unit.add("Network", "IPv6MTUBytes", python_str(mtu));
        unit.add("IPv6AcceptRA", "UseMTU", "no");
    }
    for setting in SETTINGS {
        let value = link.settings.get(setting.netplan).zip(setting.networkd.as_ref());
        if let Some((place, word)) = value.and_then(|(value, place)| Some((place, place.word(value)?))) {
            unit.add(place.section, place.key, word);
        }
    }
    if link.keep_configuration.as_ref().is_some_and(is_on) {
        unit.add("Network", "KeepConfiguration", "yes");
    }
    if link.optional == Some(true) {
        unit.add("Link", "RequiredForOnline", "no");
    }
    // A bridge without ports has no carrier.
    if link.kind == LinkKind::Bridge && link.ports.is_empty() && link.settings.get("ignore-carrier").is_none()
    {
        unit.add("Network", "ConfigureWithoutCarrier", "yes");
    }
    let (dhcp4, dhcp6) = dhcp_families(link);
    let dhcp = match (dhcp4, dhcp6) {
        (true, true) => "yes",
        (true, false) => "ipv4",
        (false, true) => "ipv6",
        (false, false) => "no",
    };
    unit.add("Network", "DHCP", dhcp);
    if let Some(on) = link.accept_ra {
        unit.add("Network", "IPv6AcceptRA", yes_no(on));
    }
    for vlan in topology.vlans.get(&*link.name).into_iter().flatten() {
        unit.add("Network", "VLAN", *vlan);
    }
    if let Some(bond) = &link.bond {
        unit.add("Network", "Bond", bond);
        // A member has the options of its bond.
        for (option, key) in MEMBERS {
            let member = link.params.get(option).map(python_str);
            if member.is_some_and(|member| member == link.name || link.matched.contains(&member)) {
                unit.add("Network", key, "yes");
            }
        }
    }
    for bridge in topology.bridges.get(&*link.name).into_iter().flatten() {
        unit.add("Network", "Bridge", &bridge.name);
        for (flat, key) in [("bridge_pathcost", "Cost"), ("bridge_portprio", "Priority")] {
            if let Some(value) = bridge.params.get(flat).and_then(|n| port_value(n, link)) {
                unit.add("Bridge", key, value);
            }
        }
    }
    for dns in link.dns.iter().chain([&model.dns]).chain(link.subnets.iter().map(|s| &s.dns)) {
        if !dns.servers.is_empty() {
            unit.add("Network", "DNS", dns.servers.join(" "));
        }
        if !dns.search.is_empty() {
            unit.add("Network", "Domains", dns.search.join(" "));
        }
    }
    addresses_and_routes(&mut unit, link);
    for subnet in link.subnets.iter().filter(|s| s.address.is_none()) {
        if let Some(metric) = &subnet.metric {
            let section = if subnet.is_ipv6() { "IPv6AcceptRA" } else { "DHCPv4" };
            unit.add(section, "RouteMetric", python_str(metric));
        }
    }
    dhcp_settings(&mut unit, "DHCPv4", &link.dhcp4, dhcp4, |key| Some(("DHCPv4", key.networkd)))?;
    dhcp_settings(&mut unit, "DHCPv6", &link.dhcp6, dhcp6, |key| key.networkd6)?;
    for rule in link.rules.iter().filter(|rule| !has_named_table(rule)) {
        let lines = rule.entries();
        let lines = lines.map(|(key, value)| (policy_rule_key(&python_str(key)), python_str(value)));
        unit.add_section("RoutingPolicyRule", lines.collect());
    }
    Ok(unit)
}

/// Returns whether a rule has a table whose name networkd does not know: without it, it would be a rule for the main table.
fn has_named_table(rule: &Node) -> bool {
    rule.get("table").is_some_and(|table| table_number(table).is_none())
}

fn dhcp_families(link: &Link) -> (bool, bool) {
    let has = |wanted: &[Method]| link.subnets.iter().any(|s| wanted.contains(&s.method));
    (has(&[Method::Dhcp, Method::Dhcp4]), has(&[Method::Dhcp6]))
}

/// Adds the addresses and the routes: gateways first, then the routes of the subnets.
fn addresses_and_routes(unit: &mut Sections, link: &Link) {
    // The gateways first, then by their running number as text, as in upstream: the tenth precedes the second.
    let (mut routes, mut addresses) = (Vec::new(), Vec::new());
    let mut number = 0;
    for subnet in &link.subnets {
        for route in &subnet.routes {
            routes.push((true, number.to_string(), route_lines(route)));
            number += 1;
        }
        let Some(address) = &subnet.address else { continue };
        let with_prefix = |address: &String| match subnet.prefix {
            Some(prefix) => format!("{address}/{prefix}"),
            None => address.clone(),
        };
        let peer = subnet.pointopoint.as_ref().filter(|peer| is_ipv6(peer) == is_ipv6(address));
        addresses.push((with_prefix(address), peer.map(with_prefix)));
        let Some(gateway) = &subnet.gateway else { continue };
        let mut lines = vec![("Gateway".to_string(), gateway.clone())];
        if gateway_in_subnet(address, subnet.prefix, gateway) == Some(false) {
            lines.push(("GatewayOnLink".into(), "yes".into()));
        }
        lines.extend(subnet.metric.as_ref().map(|metric| ("Metric".into(), python_str(metric))));
        routes.push((false, number.to_string(), lines));
        number += 1;
    }
    sort::sort(&mut addresses);
    addresses.dedup();
    for (address, peer) in addresses {
        let lines = [("Address", Some(address)), ("Peer", peer)];
        let lines = lines.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?)));
        unit.add_section("Address", lines.collect());
    }
    sort::sort(&mut routes);
    for (_, _, lines) in routes {
        unit.add_section("Route", lines);
    }
}

/// Returns whether a gateway is within an address's subnet. The text of an address that is not static still has its
/// prefix; without one it is a single address. `None` if that cannot be determined.
fn gateway_in_subnet(address: &str, prefix: Option<u8>, gateway: &str) -> Option<bool> {
    let (ip, behind) = address.split_once('/').unwrap_or((address, ""));
    let parsed = ip.parse().ok()?;
    let prefix = match (prefix, behind) {
        (Some(prefix), _) => prefix,
        (None, "") if is_ipv6(ip) => 128,
        (None, "") => 32,
        (None, text) => parse_prefix(text, parsed).ok()?,
    };
    is_in_subnet(gateway, ip, prefix)
}

fn route_lines(route: &Route) -> Vec<(String, String)> {
    let values = [
        ("Destination", Some(format!("{}/{}", route.network, route.prefix))),
        ("Gateway", route.gateway.clone()),
        ("Metric", route.metric.map(|metric| metric.to_string())),
        ("Table", route.table.as_ref().map(python_str)),
        ("Type", route.kind.clone()),
        // IPv6 has no scopes of routes.
        ("Scope", route.scope.clone().filter(|_| !is_ipv6(&route.network))),
        ("PreferredSource", route.from.clone()),
        ("GatewayOnLink", route.on_link.then(|| "yes".to_string())),
    ];
    let attributes =
        ROUTE_ATTRIBUTES.iter().map(|a| (a.networkd, route.attributes.get(a.netplan).map(python_str)));
    values.into_iter().chain(attributes).filter_map(|(key, value)| Some((key.to_string(), value?))).collect()
}

/// Adds the settings of DHCP for one family: the overrides if it is enabled, and VMware's domain key in any case, because
/// a router's advertisement starts DHCPv6 without `DHCP=`.
fn dhcp_settings(
    unit: &mut Sections,
    section: &'static str,
    dhcp: &Dhcp,
    is_enabled: bool,
    place: impl Fn(&Override) -> Option<(&'static str, &'static str)>,
) -> Result<(), String> {
    for key in OVERRIDES.iter().filter(|_| is_enabled) {
        if let Some(((section, name), value)) = place(key).zip(dhcp.overrides.get(key.netplan)) {
            let text = python_str(value);
            // networkd accepts this word in lower case only.
            let is_route = key.netplan == "use-domains" && text.trim().eq_ignore_ascii_case("route");
            unit.add(section, name, if is_route { "route" } else { &text });
        }
    }
    let Some(domain) = &dhcp.domain else { return Ok(()) };
    if let Some(twice) = dhcp.overrides.get("use-domains").filter(|_| is_enabled) {
        return Err(format!("{}: use-domains: conflicts with {section}'s domain key", twice.at));
    }
    let use_domains = match python_str(domain).trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "yes" | "y" => "yes",
        "route" => "route",
        _ => "no",
    };
    unit.add(section, "UseDomains", use_domains);
    Ok(())
}

/// Returns the `.netdev` file that creates the link, if one is needed.
fn netdev(link: &Link, topology: &Topology<'_>) -> Option<Sections> {
    let mut unit = Sections::default();
    let kind = match link.kind {
        LinkKind::Vlan => {
            unit.add("VLAN", "Id", python_str(link.vlan_id.as_ref()?));
            "vlan"
        }
        LinkKind::Bond => {
            if link.bond.is_some() || !topology.bonds.contains(link.id.as_str()) {
                return None;
            }
            bond(&mut unit, link);
            "bond"
        }
        LinkKind::Bridge => {
            for key in BRIDGE_OPTIONS {
                let value = link.params.get(key.ifupdown).filter(|n| !n.is_falsy());
                if let (Some(name), Some(value)) = (key.networkd, value) {
                    unit.add("Bridge", name, if name == "STP" { "yes".into() } else { python_str(value) });
                }
            }
            "bridge"
        }
        _ => return None,
    };
    unit.add("NetDev", "Name", &link.name);
    unit.add("NetDev", "Kind", kind);
    // A bridge takes the smallest MTU of its ports unless it is set once it exists.
    if let Some(mtu) = link.mtu.as_ref().filter(|n| link.kind != LinkKind::Bridge && !n.is_falsy()) {
        unit.add("NetDev", "MTUBytes", python_str(mtu));
    }
    if let Some(mac) = &link.mac {
        unit.add("NetDev", "MACAddress", mac);
    }
    Some(unit)
}

fn bond(unit: &mut Sections, link: &Link) {
    for key in BOND_OPTIONS {
        let Some(name) = key.networkd else { continue };
        let Some(value) = link.params.get(&format!("bond-{}", key.ifupdown)) else { continue };
        let text = bond_name(key.ifupdown, value);
        unit.add(
            "Bond",
            name,
            match key.unit {
                Unit::None => text,
                Unit::Boolean => text.to_ascii_lowercase(),
                Unit::Milliseconds if text.bytes().all(|b| b.is_ascii_digit()) => format!("{text}ms"),
                // The value includes its unit.
                Unit::Milliseconds => text,
                Unit::List => value.as_seq().map_or(text.replace(',', " "), |items| {
                    items.iter().map(python_str).collect::<Vec<_>>().join(" ")
                }),
            },
        );
    }
}

/// Returns the value of a port in `{eth0: 50}`, or in version 1's `["eth0 50"]`.
fn port_value(values: &Node, port: &Link) -> Option<String> {
    let keys = [port.id.as_str(), port.name.as_str()];
    match &values.value {
        Value::Map(map) => keys.iter().find_map(|key| map.get(key)).map(python_str),
        Value::Seq(items) => items.iter().filter_map(Node::as_str).find_map(|item| {
            let (name, value) = item.trim().split_once(char::is_whitespace)?;
            keys.contains(&name).then(|| value.trim().to_string())
        }),
        _ => None,
    }
}

/// Returns networkd's name for a key of a policy rule.
fn policy_rule_key(word: &str) -> String {
    match word {
        "mark" => return "FirewallMark".into(),
        "type-of-service" => return "TypeOfService".into(),
        _ => {}
    }
    let mut chars = word.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(chars.map(|c| c.to_ascii_lowercase())).collect()
}

fn bring_up(sys: &System, _: &[String]) -> Vec<String> {
    let command = ["systemctl", "restart", "systemd-networkd", "systemd-resolved"];
    let words = if sys.exists("/usr/lib/systemd/systemd-resolved") { 4 } else { 3 };
    run_program(sys, &command[..words], Stderr::Report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::TempDir;

    #[test]
    fn resolved_is_restarted_only_where_it_is_installed() {
        for (file, units) in [
            ("/usr/lib/systemd/systemd-resolved", "systemd-networkd systemd-resolved"),
            ("/x", "systemd-networkd"),
        ] {
            let (top, overlay) = (TempDir::new(), TempDir::new());
            top.put(file, "");
            top.put("/usr/bin/systemctl", "");
            let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(top.join("usr/bin/systemctl"), executable).unwrap();
            let sys = System::dry_run(&*top, &overlay);
            assert_eq!(bring_up(&sys, &[]), [""; 0]);
            let [system::Effect::Run { command, .. }] = &sys.effects()[..] else {
                panic!("{:?}", sys.effects())
            };
            assert!(command.ends_with(&format!("systemctl restart {units}")), "{command}");
        }
    }

    #[test]
    fn networkd_is_available_with_systemctl_and_a_tool() {
        for (files, expected) in [
            (&["/bin/systemctl", "/usr/sbin/ip"][..], true),
            (&["/bin/systemctl", "/bin/ip"], true),
            (&["/bin/systemctl", "/usr/lib/systemd/systemd-networkd"], true),
            (&["/bin/systemctl"], false),
            (&["/bin/ip", "/usr/lib/systemd/systemd-networkd"], false),
            (&[], false),
        ] {
            let top = TempDir::new();
            for file in files {
                top.put(file, "");
            }
            assert_eq!(available(&System::new(&*top)), expected, "{files:?}");
        }
    }
}
