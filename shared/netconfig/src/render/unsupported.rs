//! What a configuration says and a renderer's language has no words for: one row for each key. `net-convert` names
//! these keys in warnings, with the place where they were written.

use std::collections::HashSet;

use config::{FindingKind, Findings, Node, Position};

use crate::model::{Dns, Link, LinkKind, Method, Model, Subnet};
use crate::parse::address::is_ipv6;
use crate::parse::{BOND_OPTIONS, BRIDGE_OPTIONS};

use super::eni::is_inet6;
use super::positions::Positions;
use super::{Flavour, Target, python_str};

/// Who is asked to write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputFormat {
    /// From version 1: version 2 is passed through whole.
    Netplan,
    Networkd,
    NetworkManager,
    RedHat,
    Suse,
    Eni,
}

use OutputFormat::{Eni, Netplan, NetworkManager, Networkd, RedHat, Suse};

/// A key of a link, in version 1 and in version 2, and when it is lost.
struct LinkKey {
    v1: &'static str,
    v2: &'static str,
    is_unsupported: fn(&Link, OutputFormat) -> bool,
}

const LINK_KEYS: &[LinkKey] = &[
    LinkKey {
        v1: "wakeonlan",
        v2: "wakeonlan",
        is_unsupported: |l, f| l.wakeonlan == Some(true) && [Netplan, Networkd].contains(&f),
    },
    LinkKey {
        v1: "accept-ra",
        v2: "accept-ra",
        is_unsupported: |l, f| l.accept_ra.is_some() && unsupported_ra(l, f),
    },
    LinkKey {
        v1: "optional",
        v2: "optional",
        is_unsupported: |l, f| l.optional == Some(true) && ![Networkd, Eni].contains(&f),
    },
    LinkKey {
        v1: "keep_configuration",
        v2: "critical",
        is_unsupported: |l, f| {
            l.keep_configuration.as_ref().is_some_and(|k| !k.is_falsy()) && ![Netplan, Eni].contains(&f)
        },
    },
    LinkKey {
        v1: "params.driver",
        v2: "match.driver",
        is_unsupported: |l, f| l.driver.is_some() && [Netplan, NetworkManager].contains(&f),
    },
    LinkKey { v1: "mac_address", v2: "macaddress", is_unsupported: unsupported_mac },
    LinkKey { v1: "mtu", v2: "mtu", is_unsupported: unsupported_mtu },
    LinkKey { v1: "", v2: "routing-policy", is_unsupported: |l, f| !l.rules.is_empty() && f != Networkd },
    LinkKey {
        v1: "",
        v2: "dhcp4-overrides",
        is_unsupported: |l, f| unsupported_overrides(l, Method::Dhcp4, f),
    },
    LinkKey {
        v1: "",
        v2: "dhcp6-overrides",
        is_unsupported: |l, f| unsupported_overrides(l, Method::Dhcp6, f),
    },
    LinkKey { v1: "", v2: "nameservers", is_unsupported: unsupported_servers },
];

/// The same for what subnets have.
struct SubnetKey {
    v1: &'static str,
    v2: &'static str,
    is_unsupported: fn(&Subnet, OutputFormat) -> bool,
}

const SUBNET_KEYS: &[SubnetKey] = &[
    SubnetKey {
        v1: "control",
        v2: "",
        is_unsupported: |s, f| match s.control.as_deref() {
            Some("manual") => ![RedHat, Suse, Eni].contains(&f),
            Some("hotplug") => f != Eni,
            _ => false,
        },
    },
    SubnetKey { v1: "broadcast", v2: "", is_unsupported: |s, f| s.broadcast.is_some() && f != Eni },
    SubnetKey { v1: "pointopoint", v2: "", is_unsupported: |s, f| s.pointopoint.is_some() && f != Eni },
    SubnetKey { v1: "scope", v2: "", is_unsupported: |s, f| s.scope.is_some() && f != Eni },
    SubnetKey {
        v1: "metric",
        v2: "route-metric",
        is_unsupported: |s, f| s.metric.is_some() && (f == Suse || f == Networkd && s.method == Method::Dhcp),
    },
    SubnetKey {
        v1: "gateway",
        v2: "gateway",
        is_unsupported: |s, f| s.gateway.is_some() && (f == Suse || (s.address.is_none() && f == Networkd)),
    },
    SubnetKey {
        v1: "mtu",
        v2: "",
        is_unsupported: |s, f| {
            s.mtu.is_some() && (f == Networkd || (is_inet6(s) && [Suse, NetworkManager].contains(&f)))
        },
    },
    SubnetKey {
        v1: "dns_nameservers",
        v2: "",
        is_unsupported: |s, f| !s.dns.is_empty() && s.address.is_none() && [Netplan, Networkd].contains(&f),
    },
    SubnetKey {
        v1: "routes",
        v2: "routes",
        is_unsupported: |s, f| !s.routes.is_empty() && (f == Suse || f == Netplan && !s.method.is_static()),
    },
    SubnetKey {
        v1: "routes.table",
        v2: "routes.table",
        is_unsupported: |s, f| s.routes.iter().any(|r| r.table.is_some()) && f != Networkd,
    },
    SubnetKey {
        v1: "routes.mtu",
        v2: "routes.mtu",
        is_unsupported: |s, f| s.routes.iter().any(|r| r.mtu.is_some()) && f != NetworkManager,
    },
];

/// Members of version 2's routes that no renderer reads.
const UNREAD_ROUTE_KEYS: [&str; 5] = ["on-link", "scope", "type", "from", "advertised-mss"];

fn unsupported_ra(link: &Link, format: OutputFormat) -> bool {
    match format {
        NetworkManager | Suse => true,
        Eni => !link.subnets.first().is_some_and(|s| match s.method {
            Method::Static => is_inet6(s),
            method => {
                [Method::Dhcp4, Method::Dhcp6, Method::Dhcp6Stateful, Method::Static6].contains(&method)
            }
        }),
        Netplan | Networkd | RedHat => false,
    }
}

fn unsupported_mac(link: &Link, format: OutputFormat) -> bool {
    link.mac.is_some()
        && match link.kind {
            LinkKind::Bond => format == NetworkManager,
            LinkKind::Vlan => [NetworkManager, RedHat, Suse].contains(&format),
            LinkKind::Infiniband => format == NetworkManager && link.mtu.is_none(),
            LinkKind::Physical | LinkKind::Loopback => format == Eni && link.kind == LinkKind::Loopback,
            LinkKind::Bridge | LinkKind::Unknown => false,
        }
}

/// A link's own mtu, which gives way to that of a subnet.
fn unsupported_mtu(link: &Link, format: OutputFormat) -> bool {
    let Some(mtu) = &link.mtu else { return false };
    let differs = |s: &Subnet| s.mtu.as_ref().is_some_and(|m| python_str(m) != python_str(mtu));
    match format {
        NetworkManager if matches!(link.kind, LinkKind::Vlan | LinkKind::Bridge) => true,
        Networkd => false,
        Eni => link.subnets.first().is_some_and(differs),
        Netplan | NetworkManager | RedHat | Suse => link.subnets.iter().any(|s| !is_inet6(s) && differs(s)),
    }
}

/// Everything but the metric is networkd's alone, and that for NICs only.
fn unsupported_overrides(link: &Link, method: Method, format: OutputFormat) -> bool {
    let dhcp = if method == Method::Dhcp4 { &link.dhcp4 } else { &link.dhcp6 };
    let metric_alone = dhcp.overrides.iter().all(|(key, _)| key.as_str() == Some("route-metric"));
    let used = link.subnets.iter().any(|s| s.method == method) && dhcp.overrides.iter().next().is_some();
    match format {
        Networkd => used && link.kind != LinkKind::Physical,
        Suse => used,
        _ => used && !metric_alone,
    }
}

/// A link's own servers, where only those of its subnets are written.
fn unsupported_servers(link: &Link, format: OutputFormat) -> bool {
    let Some(own) = &link.dns else { return false };
    let in_subnets = |d: &Dns| {
        let has = |of: fn(&Dns) -> &Vec<String>, text: &String| {
            link.subnets.iter().any(|s| s.address.is_some() && of(&s.dns).contains(text))
        };
        d.servers.iter().all(|t| has(|d| &d.servers, t)) && d.search.iter().all(|t| has(|d| &d.search, t))
    };
    match format {
        Eni | Netplan => !in_subnets(own),
        NetworkManager => {
            let has = |inet6: bool| link.subnets.iter().any(|s| is_inet6(s) == inet6);
            own.servers.iter().any(|s| !has(is_ipv6(s)))
        }
        Networkd | RedHat | Suse => false,
    }
}

/// Options of bonds and bridges that are lost, by the names that they were written with.
fn unsupported_options(link: &Link, format: OutputFormat) -> impl Iterator<Item = &str> {
    let described = (link.kind == LinkKind::Bond && link.bond.is_none()) || link.kind == LinkKind::Bridge;
    let names = link.params.iter().filter(move |_| described).filter_map(|(key, _)| key.as_str());
    names.filter(move |name| {
        if link.kind == LinkKind::Bridge {
            return unsupported_bridge_option(name, format) && *name != "bridge_ports";
        }
        unsupported_bond_option(name, format)
    })
}

fn unsupported_bridge_option(name: &str, format: OutputFormat) -> bool {
    let known = BRIDGE_OPTIONS.iter().find(|k| k.ifupdown == name);
    match format {
        Eni => false,
        Netplan => known.is_none(),
        Networkd => known.is_none(),
        NetworkManager => !["bridge_stp", "bridge_bridgeprio"].contains(&name),
        RedHat | Suse => !["bridge_stp", "bridge_bridgeprio", "bridge_ageing"].contains(&name),
    }
}

fn unsupported_bond_option(name: &str, format: OutputFormat) -> bool {
    let bare = name.strip_prefix("bond-").or_else(|| name.strip_prefix("bond_")).unwrap_or(name);
    let hyphens = bare.replace('_', "-");
    let underscores = bare.replace('-', "_");
    let with_hyphen = name.starts_with("bond-");
    let all_hyphens = with_hyphen && !bare.contains('_');
    let all_underscores = name.starts_with("bond_") && !bare.contains('-');
    match format {
        Eni => false,
        Netplan => !BOND_OPTIONS.iter().any(|k| k.ifupdown == hyphens),
        Networkd => {
            !(all_hyphens && BOND_OPTIONS.iter().any(|k| k.ifupdown == hyphens && k.networkd.is_some()))
        }
        NetworkManager => {
            !(with_hyphen && super::network_manager::BOND_OPTIONS.contains(&underscores.as_str()))
        }
        RedHat | Suse => {
            !((all_hyphens || all_underscores) && super::ifcfg::BOND_OPTIONS.contains(&underscores.as_str()))
        }
    }
}

/// Everything that is not in the files, each key of a link once.
pub fn find(model: &Model, config: &Node, renderer: &str, target: &Target) -> Findings {
    let format = match (renderer, target.sysconfig) {
        ("netplan", _) => Netplan,
        ("networkd", _) => Networkd,
        ("network-manager", _) => NetworkManager,
        ("eni", _) => Eni,
        (_, Some(Flavour::Suse)) => Suse,
        _ => RedHat,
    };
    let mut reporter =
        Reporter { positions: Positions::new(model.version, config), findings: Findings::default(), format };
    for link in &model.links {
        for row in LINK_KEYS {
            let key = if model.version == 1 { row.v1 } else { row.v2 };
            if (row.is_unsupported)(link, format) {
                let key = if key.is_empty() { "address" } else { key };
                reporter.report(link, key);
            }
        }
        let mut keys = HashSet::new();
        for subnet in &link.subnets {
            for row in SUBNET_KEYS.iter().filter(|row| (row.is_unsupported)(subnet, format)) {
                keys.insert(if model.version == 1 { row.v1 } else { row.v2 });
            }
        }
        for row in SUBNET_KEYS {
            let key = if model.version == 1 { row.v1 } else { row.v2 };
            if !key.is_empty() && keys.contains(key) {
                reporter.report_subnet_key(link, key, model.version);
            }
        }
        for option in unsupported_options(link, format) {
            reporter.report_option(link, option, model.version);
        }
        reporter.report_unread_keys(link);
    }
    if !model.routes.is_empty() && [Netplan, NetworkManager, RedHat, Suse].contains(&format) {
        reporter.report_global("route", "routes of the whole machine");
    }
    if format == Eni && model.dns.servers.iter().any(|s| is_ipv6(s)) {
        reporter.report_global("nameserver", "IPv6 name servers of the whole machine");
    }
    reporter.findings
}

struct Reporter<'a> {
    positions: Positions<'a>,
    findings: Findings,
    format: OutputFormat,
}

impl Reporter<'_> {
    fn add(&mut self, at: &Position, key: String) {
        let name = match self.format {
            Netplan => "netplan's file",
            Networkd => "networkd's files",
            NetworkManager => "NetworkManager's profiles",
            RedHat | Suse => "ifcfg files",
            Eni => "the interfaces file",
        };
        self.findings.add(FindingKind::Unknown, at, key, format!("cannot be said in {name}: left out"));
    }

    fn report(&mut self, link: &Link, key: &str) {
        let words: Vec<&str> = key.split('.').collect();
        let at = self.positions.find(&link.id, &words);
        self.add(&at, format!("{}.{key}", link.id));
    }

    fn report_subnet_key(&mut self, link: &Link, key: &str, version: u8) {
        match (version, key) {
            (1, _) => self.report(link, &format!("subnets.{key}")),
            (_, "gateway") => {
                for (key, inet6) in [("gateway4", false), ("gateway6", true)] {
                    if link.subnets.iter().any(|s| s.gateway.as_deref().is_some_and(|g| is_ipv6(g) == inet6))
                    {
                        self.report(link, key);
                    }
                }
            }
            // Said of the overrides already.
            (_, "route-metric") => {}
            _ => self.report(link, key),
        }
    }

    fn report_option(&mut self, link: &Link, option: &str, version: u8) {
        if version == 1 {
            return self.report(link, &format!("params.{option}"));
        }
        let bare = option.trim_start_matches("bond-");
        let bond = BOND_OPTIONS.iter().find(|k| k.ifupdown == bare).map(|k| k.netplan);
        let name = bond.or_else(|| BRIDGE_OPTIONS.iter().find(|k| k.ifupdown == option).map(|k| k.netplan));
        self.report(link, &format!("parameters.{}", name.unwrap_or(option)));
    }

    /// What only netplan reads of a device of version 2.
    fn report_unread_keys(&mut self, link: &Link) {
        let Some(device) = self.positions.devices.get(link.id.as_str()).copied() else { return };
        if let Some(name) = device.at_path(&["match", "name"]) {
            let at = name.at.clone();
            self.add(&at, format!("{}.match.name", link.id));
        }
        let routes = device.get("routes").and_then(Node::as_seq).unwrap_or_default();
        for key in UNREAD_ROUTE_KEYS {
            if let Some(value) = routes.iter().find_map(|r| r.get(key)) {
                let at = value.at.clone();
                self.add(&at, format!("{}.routes.{key}", link.id));
            }
        }
    }

    fn report_global(&mut self, kind: &str, what: &str) {
        let at = self.positions.entries.get(kind).cloned().unwrap_or_default();
        self.add(&at, what.to_string());
    }
}
