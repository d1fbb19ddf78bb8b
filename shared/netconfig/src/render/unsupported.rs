//! The parts of a configuration that a renderer's format cannot express. Each renderer declares them in its own file, as
//! an [`Unsupported`]; `net-convert` reports these keys with the position where they were written.

use config::{Findings, Node, Position, shown_name};

use crate::address::is_ipv6;
use crate::model::{Link, LinkKind, Method, Model, Route, Subnet};
use crate::parse::{BOND_OPTIONS, BRIDGE_OPTIONS, OVERRIDES, Override, SETTINGS, Setting};

use super::positions::Positions;

/// The parts of a configuration that a renderer's format cannot express.
pub struct Unsupported {
    /// Keys of links, in the order in which they are reported; see [`link`].
    pub link: &'static [Key<Link>],
    /// Keys of subnets, in the order in which they are reported; see [`subnet`].
    pub subnet: &'static [Key<Subnet>],
    /// Keys of routes; see [`route`]. A route that has one would become another route, so that it is left out.
    pub route: &'static [Key<Route>],
    /// Returns whether the format has a value of one of [`SETTINGS`].
    pub has_setting: fn(&Setting, &Node) -> bool,
    /// Returns whether the format has one of [`OVERRIDES`] with this value, for IPv6 or for IPv4.
    pub has_override: fn(&Override, &Node, bool) -> bool,
    /// Returns whether the format has a bond's option, by the name that the configuration uses.
    pub has_bond_option: fn(&str) -> bool,
    /// Returns whether the format has a bridge's option, by the name that the configuration uses.
    pub has_bridge_option: fn(&str) -> bool,
    /// Whether this includes IPv6 name servers that belong to no link.
    pub global_ipv6_dns: bool,
}

/// A key of a link, a subnet or a route that a format cannot express if it is set and a condition holds.
pub struct Key<T> {
    /// The path in version 1 and in version 2; empty in a version that does not have the key.
    v1: &'static str,
    v2: &'static str,
    is_set: fn(&T) -> bool,
    condition: fn(&T) -> bool,
    /// Whether it changes what is reachable: addresses, routes, name resolution.
    is_essential: bool,
}

impl<T> Key<T> {
    const fn new(v1: &'static str, v2: &'static str, is_set: fn(&T) -> bool) -> Key<T> {
        Key { v1, v2, is_set, condition: |_| true, is_essential: false }
    }

    const fn essential(v1: &'static str, v2: &'static str, is_set: fn(&T) -> bool) -> Key<T> {
        Key { is_essential: true, ..Key::new(v1, v2, is_set) }
    }

    /// Restricts the row: the format cannot express the key only where the condition holds.
    pub const fn when(self, condition: fn(&T) -> bool) -> Key<T> {
        let Key { v1, v2, is_set, is_essential, .. } = self;
        Key { v1, v2, is_set, condition, is_essential }
    }

    fn name(&self, version: u8) -> &'static str {
        if version == 1 { self.v1 } else { self.v2 }
    }

    fn is_unsupported(&self, item: &T) -> bool {
        (self.is_set)(item) && (self.condition)(item)
    }
}

/// The keys of links that some format cannot express.
pub mod link {
    use super::Key;
    use crate::model::Link;

    // Not essential: VMware's configurations ask for it, whatever the service.
    pub const WAKE_ON_LAN: Key<Link> = Key::new("wakeonlan", "wakeonlan", |l| l.wakeonlan == Some(true));
    pub const OPTIONAL: Key<Link> = Key::new("optional", "optional", |l| l.optional == Some(true));
    pub const KEEP_CONFIGURATION: Key<Link> = Key::new("keep_configuration", "critical", |l| {
        l.keep_configuration.as_ref().is_some_and(|k| !k.is_falsy())
    });
    pub const DRIVER: Key<Link> = Key::new("params.driver", "match.driver", |l| !l.drivers.is_empty());
    pub const MAC: Key<Link> = Key::new("mac_address", "macaddress", |l| l.mac.is_some());
    pub const MTU: Key<Link> = Key::new("mtu", "mtu", |l| l.mtu.is_some());
    pub const LOOPBACK: Key<Link> = Key::essential("subnets.address", "addresses", |l| {
        l.name == "lo" && l.subnets.iter().any(|s| s.address.is_some())
    });
    pub const ROUTING_POLICY: Key<Link> = Key::essential("", "routing-policy", |l| !l.rules.is_empty());
    pub const RULE_TABLE: Key<Link> = Key::essential("", "routing-policy.table", |l| {
        l.rules.iter().any(|rule| rule.get("table").is_some())
    });
    pub const NAMESERVERS: Key<Link> = Key::essential("", "nameservers", |l| l.dns.is_some());
}

/// The keys of subnets that some format cannot express.
pub mod subnet {
    use super::Key;
    use crate::model::Subnet;

    // Not essential: the initramfs has brought up the NICs for which it leaves this.
    pub const CONTROL: Key<Subnet> = Key::new("control", "", |s| s.control.as_deref() == Some("manual"));
    pub const BROADCAST: Key<Subnet> = Key::new("broadcast", "", |s| s.broadcast.is_some());
    pub const POINTOPOINT: Key<Subnet> = Key::essential("pointopoint", "", |s| s.pointopoint.is_some());
    pub const SCOPE: Key<Subnet> = Key::new("scope", "", |s| s.scope.is_some());
    pub const GATEWAY: Key<Subnet> = Key::essential("gateway", "gateway", |s| s.gateway.is_some());
    pub const MTU: Key<Subnet> = Key::new("mtu", "", |s| s.mtu.is_some());
    /// Of DHCPv6, for which version 2 has an override.
    pub const METRIC6: Key<Subnet> =
        Key::essential("metric", "", |s| s.metric.is_some() && s.is_ipv6() && !s.method.is_static());
    pub const ROUTES: Key<Subnet> = Key::essential("routes", "routes", |s| !s.routes.is_empty());
    pub const ROUTE_MSS: Key<Subnet> = Key::new("", "routes.advertised-mss", |s| {
        s.routes.iter().any(|r| r.attributes.get("advertised-mss").is_some())
    });
}

/// The keys of routes without which a route would be another one.
pub mod route {
    use super::Key;
    use crate::model::Route;

    pub const TABLE: Key<Route> = Key::essential("table", "table", |r| r.table.is_some());
    pub const TYPE: Key<Route> = Key::essential("", "type", |r| r.kind.is_some());
    pub const SCOPE: Key<Route> = Key::essential("scope", "scope", |r| r.scope.is_some());
    pub const FROM: Key<Route> = Key::essential("from", "from", |r| r.from.is_some());
    pub const ON_LINK: Key<Route> = Key::essential("on-link", "on-link", |r| r.on_link);
    pub const NO_GATEWAY: Key<Route> = Key::essential("gateway", "via", |r| r.gateway.is_none());
}

impl Unsupported {
    /// Returns whether the format can express a route.
    pub fn has_route(&self, route: &Route) -> bool {
        !self.route.iter().any(|key| key.is_unsupported(route))
    }
}

/// Returns whether an IPv4 subnet has another MTU than its link: files with one MTU take the subnet's.
pub fn has_other_mtu_in_ipv4_subnet(link: &Link) -> bool {
    link.subnets.iter().any(|s| !s.is_ipv6() && has_other_mtu(link, s))
}

/// Returns whether a subnet has another MTU than its link.
pub fn has_other_mtu(link: &Link, subnet: &Subnet) -> bool {
    let text = super::values::python_str;
    match (&link.mtu, &subnet.mtu) {
        (Some(own), Some(other)) => text(own) != text(other),
        _ => false,
    }
}

/// Returns the keys of a configuration that a renderer's format cannot express, each key of a link once: those that change
/// what is reachable, and the others.
pub fn find(model: &Model, config: &Node, renderer: &str, unsupported: &Unsupported) -> [Findings; 2] {
    let positions = Positions::new(model.version, config);
    let mut reporter = Reporter {
        version: model.version,
        positions,
        essential: Findings::default(),
        other: Findings::default(),
        renderer,
        outcome: "ignored",
    };
    for link in &model.links {
        for key in unsupported.link.iter().filter(|key| key.is_unsupported(link)) {
            let name = key.name(model.version);
            // Version 1 has name servers of a link in an entry of their own.
            reporter.report(link, if name.is_empty() { "address" } else { name }, key.is_essential);
        }
        for (name, dhcp, method) in
            [("dhcp4-overrides", &link.dhcp4, Method::Dhcp4), ("dhcp6-overrides", &link.dhcp6, Method::Dhcp6)]
        {
            let (inet6, is_used) = (method == Method::Dhcp6, link.subnets.iter().any(|s| s.method == method));
            for known in OVERRIDES.iter().filter(|_| is_used) {
                let value = dhcp.overrides.get(known.netplan);
                if value.is_some_and(|value| !(unsupported.has_override)(known, value, inet6)) {
                    reporter.report(link, &format!("{name}.{}", known.netplan), known.is_essential);
                }
            }
        }
        for known in SETTINGS {
            let value = link.settings.get(known.netplan);
            if value.is_some_and(|value| !(unsupported.has_setting)(known, value)) {
                reporter.report(link, known.netplan, known.is_essential);
            }
        }
        for key in unsupported.subnet {
            let name = key.name(model.version);
            if !name.is_empty() && link.subnets.iter().any(|s| key.is_unsupported(s)) {
                reporter.report_subnet_key(link, name, key.is_essential);
            }
        }
        for key in unsupported.route {
            if link.subnets.iter().flat_map(|s| &s.routes).any(|route| key.is_unsupported(route)) {
                reporter.outcome = "ignoring the route";
                reporter.report_subnet_key(link, &format!("routes.{}", key.name(model.version)), true);
                reporter.outcome = "ignored";
            }
        }
        for option in unsupported_options(link, unsupported) {
            reporter.report_option(link, option);
        }
    }
    if unsupported.global_ipv6_dns && model.dns.servers.iter().any(|s| is_ipv6(s)) {
        reporter.report_global("nameserver", "global IPv6 name servers");
    }
    [reporter.essential, reporter.other]
}

/// Returns the options of a bond or bridge that the format does not have, by the names in the configuration.
fn unsupported_options<'a>(link: &'a Link, unsupported: &Unsupported) -> impl Iterator<Item = &'a str> {
    let is_bridge = link.kind == LinkKind::Bridge;
    let has_option = if is_bridge { unsupported.has_bridge_option } else { unsupported.has_bond_option };
    let names = link.params.iter().filter(move |_| is_bridge || link.is_bond());
    let names = names.filter_map(|(key, _)| key.as_str());
    names.filter(move |name| !(has_option(name) || is_bridge && *name == "bridge_ports"))
}

struct Reporter<'a> {
    version: u8,
    positions: Positions<'a>,
    /// Findings on what changes what is reachable, and on the rest.
    essential: Findings,
    other: Findings,
    renderer: &'a str,
    /// What happens to what is reported.
    outcome: &'static str,
}

impl Reporter<'_> {
    fn add(&mut self, at: &Position, key: String, is_essential: bool) {
        let message = format!("not supported by the {} renderer; {}", self.renderer, self.outcome);
        let findings = if is_essential { &mut self.essential } else { &mut self.other };
        findings.unknown(at, key, message);
    }

    fn report(&mut self, link: &Link, key: &str, is_essential: bool) {
        let words: Vec<&str> = key.split('.').collect();
        let at = self.positions.find(&link.id, &words);
        self.add(&at, format!("{}.{key}", shown_name(&link.id)), is_essential);
    }

    fn report_subnet_key(&mut self, link: &Link, key: &str, is_essential: bool) {
        match (self.version, key) {
            (1, _) => self.report(link, &format!("subnets.{key}"), is_essential),
            (_, "gateway") => {
                for (key, ipv6) in [("gateway4", false), ("gateway6", true)] {
                    let is_family = |s: &Subnet| s.gateway.as_deref().is_some_and(|g| is_ipv6(g) == ipv6);
                    if link.subnets.iter().any(is_family) {
                        self.report(link, key, is_essential);
                    }
                }
            }
            _ => self.report(link, key, is_essential),
        }
    }

    fn report_option(&mut self, link: &Link, option: &str) {
        if self.version == 1 {
            return self.report(link, &format!("params.{option}"), false);
        }
        let bare = option.trim_start_matches("bond-");
        let bond = BOND_OPTIONS.iter().find(|k| k.ifupdown == bare).map(|k| k.netplan);
        let name = bond.or_else(|| BRIDGE_OPTIONS.iter().find(|k| k.ifupdown == option).map(|k| k.netplan));
        self.report(link, &format!("parameters.{}", name.unwrap_or(option)), false);
    }

    fn report_global(&mut self, kind: &str, what: &str) {
        let at = self.positions.entries.get(kind).cloned().unwrap_or_default();
        self.add(&at, what.to_string(), true);
    }
}
