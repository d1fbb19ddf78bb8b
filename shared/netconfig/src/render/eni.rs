//! ifupdown's interfaces file. Every subnet is a stanza; settings of the link itself (an MTU, the options of a bond)
//! are in its first stanza.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use config::{Map, Node, Value};
use system::{System, WriteOptions, warning};

use crate::address::{is_ipv6, is_link_local};
use crate::model::{Dns, Link, LinkKind, Method, Model, Networks, Route, Subnet};
use crate::parse::characters::is_shell_special;
use crate::parse::{OPTION, ROUTE_ATTRIBUTES, SETTINGS, SYSCTL, is_on};

use super::activator::{Activator, Stderr, run_program};
use super::output::{File, RenderResult, Rendered};
use super::renderer::Renderer;
use super::target::Target;
use super::unsupported::{Unsupported, has_other_mtu, link, route, subnet};
use super::values::{bond_value, policy_rule, python_str, time};
use super::{has_program, udev};

/// The row of [`super::RENDERERS`].
pub const RENDERER: Renderer = Renderer {
    name: "eni",
    help: "ifupdown's interfaces file",
    available,
    passthrough: None,
    render,
    post_write: Some(post_write),
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
    subnet: &[subnet::METRIC6],
    route: &[],
    has_setting: |setting, value| setting.eni.as_ref().is_some_and(|place| place.word(value).is_some()),
    has_override: |known, value, inet6| match known.netplan {
        "use-routes" => !inet6 || is_on(value),
        known => known == "route-metric" && !inet6,
    },
    has_bond_option: |name| !UNREAD.split(' ').any(|unread| unread == name.replace('_', "-")),
    has_bridge_option: |_| true,
    global_ipv6_dns: false,
};

/// The options of bonds that ifenslave does not read.
const UNREAD: &str =
    "bond-all-slaves-active bond-arp-all-targets bond-lp-interval bond-min-links bond-resend-igmp";

/// The old program `route` has gateways and metrics only.
const UNSUPPORTED_WITHOUT_IP: Unsupported = Unsupported {
    link: &[link::ROUTING_POLICY],
    has_override: |known, value, inet6| match known.netplan {
        "use-routes" => is_on(value),
        known => known == "route-metric" && !inet6,
    },
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
    let ports: HashSet<&String> = model.links.iter().flat_map(|link| &link.ports).collect();
    let described = with_gateway_metrics(&model.links, &ports, &mut rendered);
    let mut links: Vec<&Link> = described.iter().collect();
    if !links.iter().any(|l| l.kind == LinkKind::Loopback) {
        links.push(&loopback);
    }
    sort::sort_by_key(&mut links, |l| (rank(l, &ports), &l.name));
    let names = links.iter().map(|l| (l.id.as_str(), l.name.as_str())).collect();
    let mut blocks = Vec::new();
    for link in links {
        let is_port = link.bond.is_some() || ports.contains(&link.id) || ports.contains(&link.name);
        let writer = Writer { link, is_port, names: &names, global: &model.dns, has_ip: target.has_ip };
        blocks.extend(writer.stanzas(&mut rendered));
    }
    let content = format!("{}{}\n", target.files.eni_header, blocks.join("\n\n"));
    rendered.files = vec![File::new(target.files.eni_path, content), udev::rules(model, UDEV_RULES)];
    Ok(rendered)
}

/// Returns the links with a metric for each default gateway after the first one of its family, and without those that the
/// link has already: ifup would fail for that interface, because such a route exists. As with other services, a fixed
/// gateway is preferred to those of leases.
fn with_gateway_metrics<'a>(
    described: &'a [Link],
    ports: &HashSet<&String>,
    rendered: &mut Rendered,
) -> Cow<'a, [Link]> {
    const METRIC: i64 = 100;
    // Above those that dhcpcd chooses: 1000 and the number of the interface.
    const LEASE_METRIC: i64 = 2000;
    let mut links = Cow::Borrowed(described);
    let mut count = [0, 0];
    let all = described.iter().enumerate().flat_map(|(i, link)| (0..link.subnets.len()).map(move |j| (i, j)));
    let mut first_of_gateway = HashMap::new();
    for (i, j) in all.clone() {
        first_of_gateway.entry((i, described[i].subnets[j].gateway.as_deref())).or_insert(j);
    }
    let is_fixed = |&(i, j): &(usize, usize)| described[i].subnets[j].method.is_static();
    let (fixed, others): (Vec<_>, Vec<_>) = all.partition(is_fixed);
    for (i, j) in fixed {
        let subnet = &described[i].subnets[j];
        let Some(gateway) = subnet.gateway.as_deref().filter(|_| subnet.metric.is_none()) else { continue };
        if first_of_gateway.get(&(i, Some(gateway))).is_some_and(|first| *first < j) {
            links.to_mut()[i].subnets[j].gateway = None;
            continue;
        }
        let count = &mut count[usize::from(is_ipv6(gateway))];
        if *count > 0 {
            let metric = METRIC * *count;
            rendered
                .warn(format!("{}: another default gateway; using metric {metric} for it", links[i].name));
            links.to_mut()[i].subnets[j].metric = Some(metric.into());
        }
        *count += 1;
    }
    let place = |link: &Link, j: usize| (rank(link, ports), link.name.clone(), j);
    let has_default = |subnet: &Subnet| {
        let is_default =
            |r: &Route| r.network == "0.0.0.0" && r.is_default() && r.metric.is_none() && r.table.is_none();
        let gateway = subnet.gateway.as_deref().filter(|_| subnet.metric.is_none());
        gateway.is_some_and(|gateway| !is_ipv6(gateway)) || subnet.routes.iter().any(is_default)
    };
    let places = links.iter().flat_map(|link| {
        let own = link.subnets.iter().enumerate().filter(|(_, subnet)| has_default(subnet));
        own.map(|(j, _)| place(link, j))
    });
    let first = places.min();
    let mut metric = LEASE_METRIC;
    for (i, j) in others {
        let subnet = &links[i].subnets[j];
        let is_lease = matches!(subnet.method, Method::Dhcp | Method::Dhcp4) && subnet.metric.is_none();
        let is_before = first.as_ref().is_some_and(|first| place(&links[i], j) <= *first);
        if is_lease && is_before && links[i].dhcp4.overrides.get("use-routes").is_none_or(is_on) {
            links.to_mut()[i].subnets[j].metric = Some(metric.into());
            metric += METRIC;
        }
    }
    links
}

/// Returns the place of a link, which follows those of the links below it. One that is not described is treated as a NIC.
fn rank(link: &Link, ports: &HashSet<&String>) -> u8 {
    match link.kind {
        LinkKind::Loopback => 0,
        LinkKind::Physical | LinkKind::Unknown => 1,
        LinkKind::Bond if link.bond.is_some() => 1,
        LinkKind::Infiniband => 2,
        LinkKind::Bond => 3,
        LinkKind::Vlan if ports.contains(&link.id) => 4,
        LinkKind::Bridge => 5,
        LinkKind::Vlan => 6,
    }
}

struct Writer<'a> {
    link: &'a Link,
    /// Whether it is a port of a bond or bridge.
    is_port: bool,
    /// The names of all links by their IDs.
    names: &'a HashMap<&'a str, &'a str>,
    /// The global name servers and search domains.
    global: &'a Dns,
    /// Uses `ip` if it exists, else the old `route`.
    has_ip: bool,
}

impl Writer<'_> {
    fn stanzas(&self, rendered: &mut Rendered) -> Vec<String> {
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
            // The addresses are advertised.
            let is_slaac = link.accept_ra == Some(true) && !self.is_port;
            let is_made = matches!(link.kind, LinkKind::Bond | LinkKind::Bridge | LinkKind::Vlan);
            let is_part = is_made || link.bond.is_some() || is_slaac;
            let auto = if is_part && !is_manual { format!("{auto}\n") } else { String::new() };
            let method = if is_slaac { "inet6 auto" } else { "inet manual" };
            let mut lines = vec![format!("{auto}iface {name} {method}")];
            lines.extend(self.drop_unsafe_lines(self.link_options(None), rendered));
            lines.extend(self.commands(None, rendered));
            return vec![indent(&lines)];
        }
        let mut blocks: Vec<Vec<String>> = Vec::new();
        let mut is_auto = false;
        let mut control = String::new();
        let mut inherited_dns = Dns::default();
        // As in upstream the global servers replace those of the loopback interface. resolvconf reads them there, but not
        // systemd-resolved.
        let is_loopback = name == "lo" && !self.global.is_empty();
        let mut routes = self.routes();
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
            let own = if i == 0 && is_loopback { self.global } else { &subnet.dns };
            if inherited_dns.is_empty() {
                inherited_dns = own.clone();
            }
            let dns = if own.is_empty() { &inherited_dns } else { own };
            lines.extend(self.drop_unsafe_lines(subnet_options(subnet, dns, i == 0), rendered));
            if i == 0 {
                lines.extend(self.drop_unsafe_lines(self.link_options(Some(subnet)), rendered));
                lines.extend(self.commands(Some(subnet), rendered));
            } else if let Some(on) = link.accept_ra.filter(|_| inet6 && takes_accept_ra(subnet)) {
                lines.extend(accept_ra(subnet, on));
            }
            let has_no_routes = link.dhcp4.overrides.get("use-routes").is_some_and(|on| !is_on(on));
            if subnet.method == Method::Dhcp4 && self.has_ip && has_no_routes {
                lines.push("post-up ip route flush dev $IFACE scope global || true".into());
            }
            lines.extend(routes[i].drain(..).flat_map(|route| route_commands(route, self.has_ip)));
            blocks.push(lines);
        }
        // IPv6 routes that belong to no stanza of their family.
        if let Some(others) = routes.pop().filter(|routes| !routes.is_empty()) {
            // Not static as in upstream, because ifupdown rejects that without an address.
            let mut lines = vec![format!("{control}\niface {name} inet6 manual")];
            lines.extend(self.drop_unsafe_lines(dns_options(&inherited_dns, true), rendered));
            lines.extend(others.into_iter().flat_map(|route| route_commands(route, self.has_ip)));
            blocks.push(lines);
        }
        // Each stanza resets it, and so would a router.
        if let (Some(mtu), Some(last)) = (link.settings.get("ipv6-mtu"), blocks.last_mut()) {
            for (key, value) in [("accept_ra_mtu", "0"), ("mtu", &*python_str(mtu))] {
                last.push(format!("post-up echo {value} >/proc/sys/net/ipv6/conf/$IFACE/{key} || true"));
            }
        }
        let is_manual = link.subnets.iter().all(|s| s.method == Method::Manual);
        let dns = match (is_loopback, is_manual) {
            (true, _) => self.global.clone(),
            (_, true) => link.all_dns(&Dns::default()),
            (..) => link.all_dns(self.global),
        };
        self.add_missing_dns(&mut blocks, &dns, rendered);
        for block in blocks.iter_mut().filter(|block| block[0].ends_with(" dhcp")) {
            let value = |key: &str| block.iter().find_map(|line| line.strip_prefix(key));
            if let (Some(domains), None) = (value("dns-search "), value("dns-nameservers ")) {
                // The hooks of systemd-resolved ignore domains without servers. With this file they use them in place of the lease's.
                let is_inet6 = block[0].contains(" inet6 ");
                let (family, key) = if is_inet6 { ("inet6", "DOMAINS6") } else { ("inet", "DOMAINS") };
                let command = format!("echo '{key}=\"{domains}\"' >/run/network/ifupdown-{family}-$IFACE");
                block.push(format!("pre-up {command} || true"));
            }
        }
        blocks.iter().map(|lines| indent(lines)).collect()
    }

    /// Returns the routes of each stanza, and those for a further one of IPv6. The stanzas are brought up one after the other, so that
    /// a route waits for its family, its source address, and the subnet of its gateway.
    fn routes(&self) -> Vec<Vec<&Route>> {
        let subnets = &self.link.subnets;
        let networks = Networks::of(subnets);
        let (mut sources, mut families) = (HashMap::new(), [Vec::new(), Vec::new()]);
        for (i, subnet) in subnets.iter().enumerate() {
            families[usize::from(subnet.is_ipv6())].push(i);
            if let Some(address) = subnet.address.as_deref() {
                sources.entry(address).or_insert(i);
            }
        }
        let mut routes = vec![Vec::new(); subnets.len() + 1];
        for (i, subnet) in subnets.iter().enumerate() {
            for route in &subnet.routes {
                let inet6 = is_ipv6(&route.network);
                let of_source = route.from.as_deref().and_then(|from| sources.get(from).copied());
                let of_gateway = route.gateway.as_deref().and_then(|gateway| networks.position(gateway));
                let begin = of_source.into_iter().chain(of_gateway).fold(i, usize::max);
                let family = &families[usize::from(inet6)];
                let of_family = family.get(family.partition_point(|j| *j < begin)).copied();
                routes[of_family.unwrap_or(if inet6 { subnets.len() } else { begin })].push(route);
            }
        }
        routes
    }

    /// Adds to the first stanza the servers and search domains that are in none: those of another family than the stanzas',
    /// and those beside DHCP.
    fn add_missing_dns(&self, blocks: &mut [Vec<String>], all: &Dns, rendered: &mut Rendered) {
        for (key, wanted) in [("dns-nameservers", &all.servers), ("dns-search", &all.search)] {
            let lines = || blocks.iter().flatten().filter(|line| line.split(' ').next() == Some(key));
            let known: HashSet<&str> = lines().flat_map(|line| line.split(' ')).collect();
            let missing: Vec<&str> =
                wanted.iter().map(String::as_str).filter(|w| !known.contains(w)).collect();
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
        if let Some((below, id)) = link.vlan_link.as_deref().zip(link.vlan_id.as_ref().map(python_str)) {
            let below = self.name_of(below);
            let is_special = |c: char| c.is_whitespace() || is_shell_special(c);
            let is_word = |text: &str| !text.starts_with('-') && !text.contains(is_special);
            // ifupdown itself creates only those that are named by the link below and the ID.
            if link.name != format!("{below}.{id}") && is_word(below) && is_word(&id) {
                lines.push(format!("pre-up ip link add link {below} name $IFACE type vlan id {id} || true"));
                lines.push("post-down ip link del $IFACE || true".into());
            }
        }
        let settings = SETTINGS.iter().filter_map(|s| Some((s.eni.as_ref()?, link.settings.get(s.netplan)?)));
        let settings = settings.filter(|(place, _)| place.section == SYSCTL);
        let words = settings.filter_map(|(place, value)| Some((place.key, place.word(value)?)));
        let mut kernel: Vec<(&str, String)> = words.filter(|(key, _)| *key != "mtu").collect();
        let is_option = first.is_some_and(|s| s.is_ipv6() && takes_accept_ra(s));
        if link.accept_ra == Some(false) && !is_option {
            kernel.push(("accept_ra", "0".into()));
        }
        for (key, value) in kernel {
            // ifupdown's hooks make other devices after this.
            let when = if link.kind == LinkKind::Physical { "pre-up" } else { "post-up" };
            lines.push(format!("{when} echo {value} >/proc/sys/net/ipv6/conf/$IFACE/{key} || true"));
        }
        // Only stanzas with fixed addresses, and those without any, have an option for it.
        let mtu = first
            .filter(|s| !s.method.is_static() && s.method != Method::Manual)
            .and_then(|s| s.mtu.as_ref().filter(|_| !s.is_ipv6()).or(link.mtu.as_ref()));
        let mtu = mtu
            .map(python_str)
            .filter(|text| self.has_ip && text != "0" && text.bytes().all(|b| b.is_ascii_digit()));
        lines.extend(mtu.map(|mtu| format!("post-up ip link set dev $IFACE mtu {mtu} || true")));
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
        // Without the option no bridge is made.
        if link.ports.is_empty() && link.kind == LinkKind::Bridge {
            lines.push("bridge-ports none".into());
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
        if let Some((on, first)) = link.accept_ra.zip(first.filter(|s| takes_accept_ra(s))) {
            lines.extend(accept_ra(first, on));
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

/// Returns the options for router advertisements. A static stanza turns off addresses of advertised prefixes by default. ifupdown
/// reads the first with an underscore only; as in upstream it has a hyphen where it asks for what the kernel does anyway.
fn accept_ra(subnet: &Subnet, on: bool) -> impl Iterator<Item = String> {
    let autoconf = (on && subnet.method.is_static()).then(|| "autoconf 1".to_string());
    let option = if on { "accept-ra 1" } else { "accept_ra 0" };
    [option.to_string()].into_iter().chain(autoconf)
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
        // Otherwise a bridge forwards nothing for 15 s.
        _ if value.is_falsy() && !(key == "bridge-fd" && value.as_int() == Some(0)) => {}
        Value::Seq(items) if per_port => {
            lines.extend(items.iter().map(|i| format!("{key} {}", python_str(i))))
        }
        Value::Map(map) if per_port => {
            lines.extend(map.iter().map(|(port, n)| format!("{key} {} {}", python_str(port), python_str(n))));
        }
        Value::Seq(items) => {
            lines.push(format!("{key} {}", items.iter().map(python_str).collect::<Vec<_>>().join(" ")));
        }
        _ => {
            let text = match key.strip_prefix("bond-") {
                // ifenslave adds one word after the other.
                Some(option) => bond_value(&option.replace('-', "_"), value).replace(',', " "),
                None if ["bridge-ageing", "bridge-fd", "bridge-hello", "bridge-maxage"].contains(&key) => {
                    time(value, 1000.0)
                }
                None => python_str(value),
            };
            lines.push(format!("{key} {text}"));
        }
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
    let needs_device = match &route.gateway {
        Some(gateway) => route.on_link || is_link_local(gateway),
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

/// Has networking.service bring up the hotplug interfaces too: udev has added the NICs of this boot before the files were written.
fn post_write(sys: &System) -> system::Result<()> {
    if sys.is_live()
        && let Err(e) = sys.write("/run/network/restart-hotplug", "", WriteOptions::default())
    {
        warning!(sys, "{e}");
    }
    Ok(())
}

fn bring_up(sys: &System, links: &[String]) -> Vec<String> {
    links.iter().flat_map(|link| run_program(sys, &["ifup", link], Stderr::Report)).collect()
}
