//! ifupdown's interfaces file. Every subnet is a stanza; settings of the link itself (an MTU, the options of a bond)
//! are in its first stanza.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::net::Ipv6Addr;

use config::{Map, Node, Value};
use system::System;

use crate::address::is_ipv6;
use crate::model::{Dns, Link, LinkKind, Method, Model, Route, Subnet};
use crate::parse::characters::is_shell_special;
use crate::parse::{OPTION, ROUTE_ATTRIBUTES, SETTINGS, SYSCTL};

use super::activator::{Activator, Stderr, run_program};
use super::output::{File, RenderResult, Rendered};
use super::renderer::Renderer;
use super::target::Target;
use super::unsupported::{Unsupported, has_other_mtu, link, route};
use super::values::{policy_rule, python_str};
use super::{has_program, udev};

/// The row of [`super::RENDERERS`].
pub const RENDERER: Renderer = Renderer {
    name: "eni",
    help: "ifupdown's interfaces file",
    available,
    passthrough: None,
    render,
    post_write: None,
    activator: Some(Activator { class: "IfUpDownActivator", bring_up }),
    keeps_imds_lock: false,
    has_patterns: false,
    unsupported: |target| Some(if target.has_ip { &UNSUPPORTED } else { &UNSUPPORTED_WITHOUT_IP }),
};

const UNSUPPORTED: Unsupported = Unsupported {
    link: &[
        link::MAC.when(|l| l.kind == LinkKind::Loopback),
        link::MTU.when(|l| l.subnets.first().is_some_and(|s| has_other_mtu(l, s))),
    ],
    subnet: &[],
    route: &[],
    has_setting: |setting, value| setting.eni.as_ref().is_some_and(|place| place.word(value).is_some()),
    has_override: |known, _, _| known.netplan == "route-metric",
    has_bond_option: |_| true,
    has_bridge_option: |_| true,
    global_routes: false,
    global_ipv6_dns: false,
};

/// The old program `route` has gateways and metrics only.
const UNSUPPORTED_WITHOUT_IP: Unsupported = Unsupported {
    link: &[link::ROUTING_POLICY],
    route: &[route::TABLE, route::TYPE, route::SCOPE, route::FROM, route::ON_LINK, route::NO_GATEWAY],
    ..UNSUPPORTED
};

const UDEV_RULES: &str = "/etc/udev/rules.d/70-persistent-net.rules";

/// Keys of a link that are not ifupdown's, in case they are among the options.
const NON_IFUPDOWN_KEYS: [&str; 12] = [
    "control",
    "device_id",
    "dns",
    "driver",
    "index",
    "inet",
    "mode",
    "name",
    "subnets",
    "type",
    "config_id",
    "bridge_ports",
];

fn available(sys: &System) -> bool {
    ["ifquery", "ifup", "ifdown"].iter().all(|program| has_program(sys, program))
        && sys.is_file("/etc/network/interfaces")
}

fn render(model: &Model, target: &Target) -> RenderResult {
    let mut rendered = Rendered::default();
    let loopback = Link {
        id: "lo".into(),
        name: "lo".into(),
        kind: LinkKind::Loopback,
        subnets: vec![Subnet { method: Method::Loopback, ..Subnet::default() }],
        ..Link::default()
    };
    let mut links: Vec<&Link> = model.links.iter().collect();
    if !links.iter().any(|l| l.kind == LinkKind::Loopback) {
        links.push(&loopback);
    }
    sort::sort_by_key(&mut links, |l| (rank(l), &l.name));
    let names = links.iter().map(|l| (l.id.as_str(), l.name.as_str())).collect();
    let mut blocks = Vec::new();
    for link in links {
        let writer = Writer { link, names: &names, has_ip: target.has_ip };
        blocks.extend(writer.stanzas(if link.name == "lo" { Some(&model.dns) } else { None }, &mut rendered));
    }
    blocks.extend(model.routes.iter().map(|route| route_commands(route, target.has_ip).join("\n")));
    let content = format!("{}{}\n", target.files.eni_header, blocks.join("\n\n"));
    rendered.files = vec![File::new(target.files.eni_path, content), udev::rules(model, UDEV_RULES)];
    Ok(rendered)
}

/// A link that is not described is treated as a NIC.
fn rank(link: &Link) -> u8 {
    match link.kind {
        LinkKind::Loopback => 0,
        LinkKind::Physical | LinkKind::Unknown => 1,
        LinkKind::Infiniband => 2,
        LinkKind::Bond => 3,
        LinkKind::Bridge => 4,
        LinkKind::Vlan => 5,
    }
}

struct Writer<'a> {
    link: &'a Link,
    /// The names of all links by their IDs.
    names: &'a HashMap<&'a str, &'a str>,
    /// Uses `ip` if it exists, else the old `route`.
    has_ip: bool,
}

impl Writer<'_> {
    fn stanzas(&self, global: Option<&Dns>, rendered: &mut Rendered) -> Vec<String> {
        let link = self.link;
        let name = &link.name;
        let is_manual = link.settings.get("activation-mode").is_some();
        let auto = if link.match_names.is_empty() || link.mac.is_some() {
            format!("auto {name}")
        } else if link.drivers.is_empty() {
            // No NIC fits yet.
            let names =
                link.match_names.iter().map(|pattern| format!(" /{pattern}={name}")).collect::<String>();
            format!("auto{names}\nallow-hotplug{names}")
        } else {
            rendered.warn(format!("{name}: no NIC has one of the drivers; ignored"));
            return Vec::new();
        };
        if link.subnets.is_empty() {
            let is_part = link.is_bond() || link.bond.is_some();
            let auto = if is_part && !is_manual { format!("{auto}\n") } else { String::new() };
            let mut lines = vec![format!("{auto}iface {name} inet manual")];
            lines.extend(self.drop_unsafe_lines(self.link_options(None), rendered));
            lines.extend(self.commands(None, rendered));
            return vec![indent(&lines)];
        }
        let mut blocks: Vec<Vec<String>> = Vec::new();
        let mut is_auto = false;
        let mut control = String::new();
        let mut inherited_dns = Dns::default();
        let mut pending_routes: Vec<&Route> = Vec::new();
        for (i, subnet) in link.subnets.iter().enumerate() {
            control = match subnet.control.as_deref().unwrap_or("auto") {
                _ if is_manual => format!("# control-manual {name}"),
                _ if is_auto => format!("# control-alias {name}"),
                "auto" => {
                    is_auto = true;
                    auto.clone()
                }
                "hotplug" => format!("allow-hotplug {name}"),
                other => format!("# control-{other} {name}"),
            };
            let inet6 = subnet.is_ipv6();
            let (family, method) = (if inet6 { "inet6" } else { "inet" }, method_name(subnet.method));
            let mut lines = vec![format!("{control}\niface {name} {family} {method}")];
            // The global servers are on the loopback interface and replace those of its first subnet.
            let own = global.filter(|g| i == 0 && !g.is_empty()).unwrap_or(&subnet.dns);
            if inherited_dns.is_empty() {
                inherited_dns = own.clone();
            }
            let dns = if own.is_empty() { &inherited_dns } else { own };
            lines.extend(self.drop_unsafe_lines(subnet_options(subnet, dns, i == 0), rendered));
            if i == 0 {
                lines.extend(self.drop_unsafe_lines(self.link_options(Some(subnet)), rendered));
                lines.extend(self.commands(Some(subnet), rendered));
            } else if let Some(on) = link.accept_ra.filter(|_| inet6 && takes_accept_ra(subnet)) {
                lines.push(format!("accept-ra {}", u8::from(on)));
            }
            let waiting = if inet6 { std::mem::take(&mut pending_routes) } else { Vec::new() };
            for route in subnet.routes.iter().chain(waiting) {
                if is_ipv6(&route.network) && !inet6 {
                    pending_routes.push(route);
                } else {
                    lines.extend(route_commands(route, self.has_ip));
                }
            }
            blocks.push(lines);
        }
        // IPv6 routes that belong to no stanza of their family.
        if !pending_routes.is_empty() {
            // Not static as in upstream, because ifupdown rejects that without an address.
            let mut lines = vec![format!("{control}\niface {name} inet6 manual")];
            lines.extend(self.drop_unsafe_lines(dns_options(&inherited_dns, true), rendered));
            lines.extend(pending_routes.iter().flat_map(|route| route_commands(route, self.has_ip)));
            blocks.push(lines);
        }
        let own = link.subnets.iter().map(|s| &s.dns).filter(|_| global.is_none_or(Dns::is_empty));
        self.add_missing_dns(&mut blocks, own.chain(&link.dns).chain(global), rendered);
        blocks.iter().map(|lines| indent(lines)).collect()
    }

    /// Adds to the first stanza the servers and search domains that are in none: those of another family than the stanzas',
    /// and those beside DHCP.
    fn add_missing_dns<'d>(
        &self,
        blocks: &mut [Vec<String>],
        all: impl Iterator<Item = &'d Dns> + Clone,
        rendered: &mut Rendered,
    ) {
        let servers = all.clone().flat_map(|dns| &dns.servers).collect::<Vec<_>>();
        let domains = all.flat_map(|dns| &dns.search).collect::<Vec<_>>();
        for (key, wanted) in [("dns-nameservers", servers), ("dns-search", domains)] {
            let lines = || blocks.iter().flatten().filter(|line| line.split(' ').next() == Some(key));
            let mut known: HashSet<&str> = lines().flat_map(|line| line.split(' ')).collect();
            let missing: Vec<&str> =
                wanted.into_iter().map(String::as_str).filter(|w| known.insert(w)).collect();
            let line = self.drop_unsafe_lines(vec![format!("{key} {}", missing.join(" "))], rendered);
            if let (Some(line), Some(first), false) =
                (line.into_iter().next(), blocks.first_mut(), missing.is_empty())
            {
                match first.iter_mut().find(|line| line.split(' ').next() == Some(key)) {
                    Some(there) => there.push_str(&line[key.len()..]),
                    None => first.insert(1, line),
                }
            }
        }
    }

    /// Returns the commands of the first stanza: policy rules, and what ifupdown has no option for.
    fn commands(&self, first: Option<&Subnet>, rendered: &mut Rendered) -> Vec<String> {
        let link = self.link;
        let mut lines = Vec::new();
        let settings = SETTINGS.iter().filter_map(|s| Some((s.eni.as_ref()?, link.settings.get(s.netplan)?)));
        let settings = settings.filter(|(place, _)| place.section == SYSCTL);
        let mut kernel: Vec<(&str, String)> =
            settings.filter_map(|(place, value)| Some((place.key, place.word(value)?))).collect();
        let is_option = first.is_some_and(|s| s.is_ipv6() && takes_accept_ra(s));
        if link.accept_ra == Some(false) && !is_option {
            kernel.push(("accept_ra", "0".into()));
        }
        for (key, value) in kernel {
            // Before a device of this program exists, or the NIC has its MTU, the kernel would not take it.
            let is_early = key != "mtu" && link.kind == LinkKind::Physical;
            let when = if is_early { "pre-up" } else { "post-up" };
            lines.push(format!("{when} echo {value} >/proc/sys/net/ipv6/conf/$IFACE/{key} || true"));
        }
        for rule in link.rules.iter().filter(|_| self.has_ip) {
            let Some((inet6, words)) = policy_rule(rule, false) else {
                rendered.warn(format!("{}: routing-policy: invalid rule; ignored", link.name));
                continue;
            };
            let family = if inet6 { " -6" } else { "" };
            lines.push(format!("post-up ip{family} rule add {words} || true"));
            lines.push(format!("pre-down ip{family} rule del {words} || true"));
        }
        lines
    }

    /// Returns the lines without those that a shell would not read as plain values: ifupdown runs them as commands.
    fn drop_unsafe_lines(&self, mut lines: Vec<String>, rendered: &mut Rendered) -> Vec<String> {
        lines.retain(|line| {
            let is_safe = !line.contains(is_shell_special);
            if !is_safe {
                let key = line.split(' ').next().unwrap_or_default();
                rendered.warn(format!("{}: {key}: contains shell metacharacters; ignored", self.link.name));
            }
            is_safe
        });
        lines
    }

    /// Returns the name of the link that version 2 refers to by its ID.
    fn name_of<'t>(&'t self, id: &'t str) -> &'t str {
        self.names.get(id).copied().unwrap_or(id)
    }

    /// Returns an option with a value for each port with the names of the ports.
    fn with_port_names<'t>(&self, value: &'t Node) -> Cow<'t, Node> {
        let Some(ports) = value.as_map() else { return Cow::Borrowed(value) };
        let mut named = Map::new();
        for (port, number) in ports.iter() {
            let name = port.as_str().map_or_else(|| port.clone(), |id| Node::from(self.name_of(id)));
            named.insert(name, number.clone());
        }
        Cow::Owned(Node { value: Value::Map(named), at: value.at.clone() })
    }

    /// Returns all settings of the link except subnets, sorted.
    fn link_options(&self, first: Option<&Subnet>) -> Vec<String> {
        let link = self.link;
        let mut lines = Vec::new();
        for (key, value) in link.params.iter() {
            let key = key.scalar_text().unwrap_or_default();
            // Any other key would be a line of another kind: a command, or another stanza.
            let is_option = ["bond", "bridge"].iter().any(|kind| key.starts_with(kind));
            if is_option && !key.contains(' ') && !NON_IFUPDOWN_KEYS.contains(&key.as_str()) {
                push_option(&mut lines, &key.replace('_', "-"), &self.with_port_names(value));
            }
        }
        if let Some(bond) = &link.bond {
            lines.push(format!("bond-master {bond}"));
        }
        if link.is_bond() {
            lines.push("bond-slaves none".into());
        }
        if !link.ports.is_empty() {
            let ports = link.ports.iter().map(|port| self.name_of(port));
            lines.push(format!("bridge-ports {}", ports.collect::<Vec<_>>().join(" ")));
        }
        if let Some(id) = &link.vlan_id {
            // 0 is an ID, unlike the other options, for which it means that they are not set.
            lines.push(format!("vlan-id {}", python_str(id)));
        }
        if let Some(below) = &link.vlan_link {
            lines.push(format!("vlan-raw-device {}", self.name_of(below)));
        }
        let has_hwaddress = !matches!(link.kind, LinkKind::Physical | LinkKind::Loopback | LinkKind::Unknown);
        if let Some(mac) = link.mac.as_ref().filter(|_| has_hwaddress).or(link.set_mac.as_ref()) {
            lines.push(format!("hwaddress {mac}"));
        }
        // A stanza has one MTU; that of the subnet has precedence.
        if let Some(mtu) = link.mtu.as_ref().filter(|_| first.is_none_or(|s| s.mtu.is_none())) {
            push_option(&mut lines, "mtu", mtu);
        }
        if let Some(on) = link.accept_ra.filter(|_| first.is_some_and(takes_accept_ra)) {
            lines.push(format!("accept-ra {}", u8::from(on)));
        }
        match first.map(|subnet| subnet.method) {
            // ifupdown's default; upstream writes it in the first stanza only.
            Some(Method::Slaac) => lines.push("dhcp 0".into()),
            Some(Method::Dhcp6Stateless) => lines.push("dhcp 1".into()),
            _ => {}
        }
        if link.wakeonlan == Some(true) {
            lines.push("ethernet-wol g".into());
        }
        if let Some(on) = link.optional {
            lines.push(format!("optional {}", if on { "on" } else { "off" }));
        }
        if let Some(keep) = &link.keep_configuration {
            push_option(&mut lines, "keep-configuration", keep);
        }
        let settings = SETTINGS.iter().filter_map(|s| Some((s.eni.as_ref()?, link.settings.get(s.netplan)?)));
        for (place, value) in settings.filter(|(place, _)| place.section == OPTION) {
            lines.extend(place.word(value).map(|word| format!("{} {word}", place.key)));
        }
        sort::sort(&mut lines);
        lines
    }
}

/// Returns whether ifupdown reads `accept-ra` in the stanza of this subnet.
fn takes_accept_ra(subnet: &Subnet) -> bool {
    match subnet.method {
        Method::Dhcp4 | Method::Dhcp6 | Method::Dhcp6Stateful | Method::Static6 => true,
        Method::Static => subnet.is_ipv6(),
        _ => false,
    }
}

/// Returns the lines of a block; all but the first are indented.
fn indent(lines: &[String]) -> String {
    lines.join("\n    ")
}

fn method_name(method: Method) -> &'static str {
    match method {
        Method::Dhcp | Method::Dhcp4 | Method::Dhcp6 | Method::Dhcp6Stateful => "dhcp",
        Method::Static | Method::Static6 => "static",
        Method::Slaac | Method::Dhcp6Stateless | Method::Auto => "auto",
        Method::Manual => "manual",
        Method::Loopback => "loopback",
    }
}

fn subnet_options(subnet: &Subnet, dns: &Dns, is_first: bool) -> Vec<String> {
    let mut lines = dns_options(dns, subnet.is_ipv6());
    match (&subnet.address, subnet.prefix) {
        (Some(address), Some(prefix)) => lines.push(format!("address {address}/{prefix}")),
        (Some(address), None) => lines.push(format!("address {address}")),
        (None, _) => {}
    }
    let texts = [
        ("broadcast", &subnet.broadcast),
        ("gateway", &subnet.gateway),
        ("pointopoint", &subnet.pointopoint),
        ("scope", &subnet.scope),
    ];
    lines.extend(texts.iter().filter_map(|(key, text)| text.as_ref().map(|t| format!("{key} {t}"))));
    let nodes = [("metric", &subnet.metric), ("mtu", &subnet.mtu)];
    lines.extend(
        nodes.iter().filter_map(|(key, node)| node.as_ref().map(|n| format!("{key} {}", python_str(n)))),
    );
    // In the first stanza it is among the settings of the link, as in upstream.
    if subnet.method == Method::Dhcp6Stateless && !is_first {
        lines.push("dhcp 1".into());
    }
    sort::sort(&mut lines);
    lines
}

/// Returns the servers of the stanza's family. Search domains are with them, or alone if there are no servers.
fn dns_options(dns: &Dns, inet6: bool) -> Vec<String> {
    let own: Vec<&str> = dns.servers.iter().map(String::as_str).filter(|s| is_ipv6(s) == inet6).collect();
    let mut lines = Vec::new();
    if !own.is_empty() {
        lines.push(format!("dns-nameservers {}", own.join(" ")));
    }
    if !dns.search.is_empty() && (dns.servers.is_empty() || !own.is_empty()) {
        lines.push(format!("dns-search {}", dns.search.join(" ")));
    }
    lines
}

/// Returns one option as ifupdown's hooks read it. Empty values, null and zero are omitted.
fn push_option(lines: &mut Vec<String>, key: &str, value: &Node) {
    let per_port = matches!(key, "bridge-pathcost" | "bridge-portprio" | "bridge-waitport");
    match &value.value {
        Value::Bool(on) => lines.push(format!("{key} {}", if *on { "on" } else { "off" })),
        _ if value.is_falsy() => {}
        Value::Seq(items) if per_port => {
            lines.extend(items.iter().map(|i| format!("{key} {}", python_str(i))))
        }
        Value::Map(map) if per_port => {
            lines.extend(map.iter().map(|(port, n)| format!("{key} {} {}", python_str(port), python_str(n))));
        }
        Value::Seq(items) => {
            lines.push(format!("{key} {}", items.iter().map(python_str).collect::<Vec<_>>().join(" ")));
        }
        _ => lines.push(format!("{key} {}", python_str(value))),
    }
}

/// Returns the commands that add and remove a route.
fn route_commands(route: &Route, has_ip: bool) -> [String; 2] {
    let gateway = route.gateway.as_deref().unwrap_or_default();
    let inet6 = is_ipv6(&route.network);
    let default = route.is_default();
    let to = if default { "default".to_string() } else { format!("{}/{}", route.network, route.prefix) };
    let metric = route.metric.map(|m| format!(" metric {m}")).unwrap_or_default();
    let line = |verb: &str| {
        if has_ip {
            let family = if inet6 { "-family inet6 " } else { "" };
            return format!("ip {family}route {verb} {}{metric} || true", ip_route(route, &to));
        }
        let kind = match (inet6, default) {
            (true, _) => "-A inet6 ",
            (false, true) => "",
            (false, false) if route.prefix == 32 => "-host ",
            (false, false) => "-net ",
        };
        format!("route {verb} {kind}{to} gw {gateway}{metric} || true")
    };
    [format!("post-up {}", line("add")), format!("pre-down {}", line("del"))]
}

/// Returns a route as ip-route(8) writes it, without its metric.
fn ip_route(route: &Route, to: &str) -> String {
    let is_local =
        |gateway: &str| gateway.parse::<Ipv6Addr>().is_ok_and(|a| a.segments()[0] & 0xffc0 == 0xfe80);
    let needs_device = match &route.gateway {
        Some(gateway) => route.on_link || is_local(gateway),
        None => !["blackhole", "prohibit", "throw", "unreachable"]
            .iter()
            .any(|k| route.kind.as_deref() == Some(k)),
    };
    let named = [
        ("via", route.gateway.clone()),
        ("dev", needs_device.then(|| "$IFACE".to_string())),
        ("src", route.from.clone()),
        ("scope", route.scope.clone()),
        ("table", route.table.as_ref().map(python_str)),
    ];
    let attributes = ROUTE_ATTRIBUTES.iter().map(|a| (a.ip, route.attributes.get(a.netplan).map(python_str)));
    let words =
        named.into_iter().chain(attributes).filter_map(|(word, value)| Some(format!(" {word} {}", value?)));
    let kind = route.kind.as_ref().map(|kind| format!("{kind} ")).unwrap_or_default();
    let on_link = if route.on_link { " onlink" } else { "" };
    format!("{kind}{to}{}{on_link}", words.collect::<String>())
}

fn bring_up(sys: &System, links: &[String]) -> Vec<String> {
    links.iter().flat_map(|link| run_program(sys, &["ifup", link], Stderr::Report)).collect()
}
