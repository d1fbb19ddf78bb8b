//! What a configuration says and a renderer's language has no words for: one row for each key. `net-convert` names
//! these keys in warnings, with the place where they were written.

use std::collections::HashSet;

use config::{Findings, Kind, Mark, Node};

use crate::model::{Dns, Link, LinkKind, Method, Model, Subnet};
use crate::parse::address::is_ipv6;
use crate::parse::{BOND, BRIDGE};

use super::eni::is_inet6;
use super::places::Places;
use super::{Flavour, Target, python};

/// Who is asked to write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// From version 1: version 2 is passed through whole.
    Netplan,
    Networkd,
    NetworkManager,
    RedHat,
    Suse,
    Eni,
}

use Who::{Eni, Netplan, NetworkManager, Networkd, RedHat, Suse};

/// A key of a link, in version 1 and in version 2, and when it is lost.
struct Row {
    v1: &'static str,
    v2: &'static str,
    lost: fn(&Link, Who) -> bool,
}

const LINK: &[Row] = &[
    Row {
        v1: "wakeonlan",
        v2: "wakeonlan",
        lost: |l, w| l.wakeonlan == Some(true) && [Netplan, Networkd].contains(&w),
    },
    Row { v1: "accept-ra", v2: "accept-ra", lost: |l, w| l.accept_ra.is_some() && loses_ra(l, w) },
    Row {
        v1: "optional",
        v2: "optional",
        lost: |l, w| l.optional == Some(true) && ![Networkd, Eni].contains(&w),
    },
    Row {
        v1: "keep_configuration",
        v2: "critical",
        lost: |l, w| {
            l.keep_configuration.as_ref().is_some_and(|k| !k.is_falsy()) && ![Netplan, Eni].contains(&w)
        },
    },
    Row {
        v1: "params.driver",
        v2: "match.driver",
        lost: |l, w| l.driver.is_some() && [Netplan, NetworkManager].contains(&w),
    },
    Row { v1: "mac_address", v2: "macaddress", lost: loses_mac },
    Row { v1: "mtu", v2: "mtu", lost: loses_mtu },
    Row { v1: "", v2: "routing-policy", lost: |l, w| !l.rules.is_empty() && w != Networkd },
    Row { v1: "", v2: "dhcp4-overrides", lost: |l, w| loses_overrides(l, Method::Dhcp4, w) },
    Row { v1: "", v2: "dhcp6-overrides", lost: |l, w| loses_overrides(l, Method::Dhcp6, w) },
    Row { v1: "", v2: "nameservers", lost: loses_servers },
];

/// The same for what subnets have.
struct SubnetRow {
    v1: &'static str,
    v2: &'static str,
    lost: fn(&Subnet, Who) -> bool,
}

const SUBNET: &[SubnetRow] = &[
    SubnetRow {
        v1: "control",
        v2: "",
        lost: |s, w| match s.control.as_deref() {
            Some("manual") => ![RedHat, Suse, Eni].contains(&w),
            Some("hotplug") => w != Eni,
            _ => false,
        },
    },
    SubnetRow { v1: "broadcast", v2: "", lost: |s, w| s.broadcast.is_some() && w != Eni },
    SubnetRow { v1: "pointopoint", v2: "", lost: |s, w| s.pointopoint.is_some() && w != Eni },
    SubnetRow { v1: "scope", v2: "", lost: |s, w| s.scope.is_some() && w != Eni },
    SubnetRow {
        v1: "metric",
        v2: "route-metric",
        lost: |s, w| s.metric.is_some() && (w == Suse || w == Networkd && s.method == Method::Dhcp),
    },
    SubnetRow {
        v1: "gateway",
        v2: "gateway",
        lost: |s, w| s.gateway.is_some() && (w == Suse || (s.address.is_none() && w == Networkd)),
    },
    SubnetRow {
        v1: "mtu",
        v2: "",
        lost: |s, w| {
            s.mtu.is_some() && (w == Networkd || (is_inet6(s) && [Suse, NetworkManager].contains(&w)))
        },
    },
    SubnetRow {
        v1: "dns_nameservers",
        v2: "",
        lost: |s, w| !s.dns.is_empty() && s.address.is_none() && [Netplan, Networkd].contains(&w),
    },
    SubnetRow {
        v1: "routes",
        v2: "routes",
        lost: |s, w| !s.routes.is_empty() && (w == Suse || w == Netplan && !s.method.is_static()),
    },
    SubnetRow {
        v1: "routes.table",
        v2: "routes.table",
        lost: |s, w| s.routes.iter().any(|r| r.table.is_some()) && w != Networkd,
    },
    SubnetRow {
        v1: "routes.mtu",
        v2: "routes.mtu",
        lost: |s, w| s.routes.iter().any(|r| r.mtu.is_some()) && w != NetworkManager,
    },
];

/// Members of version 2's routes that no renderer reads.
const UNREAD: [&str; 5] = ["on-link", "scope", "type", "from", "advertised-mss"];

fn loses_ra(link: &Link, who: Who) -> bool {
    match who {
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

fn loses_mac(link: &Link, who: Who) -> bool {
    link.mac.is_some()
        && match link.kind {
            LinkKind::Bond => who == NetworkManager,
            LinkKind::Vlan => [NetworkManager, RedHat, Suse].contains(&who),
            LinkKind::Infiniband => who == NetworkManager && link.mtu.is_none(),
            LinkKind::Physical | LinkKind::Loopback => who == Eni && link.kind == LinkKind::Loopback,
            LinkKind::Bridge | LinkKind::Unknown => false,
        }
}

/// A link's own mtu, which gives way to that of a subnet.
fn loses_mtu(link: &Link, who: Who) -> bool {
    let Some(mtu) = &link.mtu else { return false };
    let differs = |s: &Subnet| s.mtu.as_ref().is_some_and(|m| python(m) != python(mtu));
    match who {
        NetworkManager if matches!(link.kind, LinkKind::Vlan | LinkKind::Bridge) => true,
        Networkd => false,
        Eni => link.subnets.first().is_some_and(differs),
        Netplan | NetworkManager | RedHat | Suse => link.subnets.iter().any(|s| !is_inet6(s) && differs(s)),
    }
}

/// Everything but the metric is networkd's alone, and that for NICs only.
fn loses_overrides(link: &Link, method: Method, who: Who) -> bool {
    let dhcp = if method == Method::Dhcp4 { &link.dhcp4 } else { &link.dhcp6 };
    let metric_alone = dhcp.overrides.iter().all(|(key, _)| key.as_str() == Some("route-metric"));
    let used = link.subnets.iter().any(|s| s.method == method) && dhcp.overrides.iter().next().is_some();
    match who {
        Networkd => used && link.kind != LinkKind::Physical,
        Suse => used,
        _ => used && !metric_alone,
    }
}

/// A link's own servers, where only those of its subnets are written.
fn loses_servers(link: &Link, who: Who) -> bool {
    let Some(own) = &link.dns else { return false };
    let in_subnets = |d: &Dns| {
        let has = |of: fn(&Dns) -> &Vec<String>, text: &String| {
            link.subnets.iter().any(|s| s.address.is_some() && of(&s.dns).contains(text))
        };
        d.servers.iter().all(|t| has(|d| &d.servers, t)) && d.search.iter().all(|t| has(|d| &d.search, t))
    };
    match who {
        Eni | Netplan => !in_subnets(own),
        NetworkManager => {
            let has = |inet6: bool| link.subnets.iter().any(|s| is_inet6(s) == inet6);
            own.servers.iter().any(|s| !has(is_ipv6(s)))
        }
        Networkd | RedHat | Suse => false,
    }
}

/// Options of bonds and bridges that are lost, by the names that they were written with.
fn lost_options(link: &Link, who: Who) -> impl Iterator<Item = &str> {
    let described = (link.kind == LinkKind::Bond && link.bond.is_none()) || link.kind == LinkKind::Bridge;
    let names = link.params.iter().filter(move |_| described).filter_map(|(key, _)| key.as_str());
    names.filter(move |name| {
        if link.kind == LinkKind::Bridge {
            return loses_bridge_option(name, who) && *name != "bridge_ports";
        }
        loses_bond_option(name, who)
    })
}

fn loses_bridge_option(name: &str, who: Who) -> bool {
    let known = BRIDGE.iter().find(|k| k.flat == name);
    match who {
        Eni => false,
        Netplan => known.is_none(),
        Networkd => known.is_none(),
        NetworkManager => !["bridge_stp", "bridge_bridgeprio"].contains(&name),
        RedHat | Suse => !["bridge_stp", "bridge_bridgeprio", "bridge_ageing"].contains(&name),
    }
}

fn loses_bond_option(name: &str, who: Who) -> bool {
    let bare = name.strip_prefix("bond-").or_else(|| name.strip_prefix("bond_")).unwrap_or(name);
    let hyphens = bare.replace('_', "-");
    let underscores = bare.replace('-', "_");
    let with_hyphen = name.starts_with("bond-");
    let all_hyphens = with_hyphen && !bare.contains('_');
    let all_underscores = name.starts_with("bond_") && !bare.contains('-');
    match who {
        Eni => false,
        Netplan => !BOND.iter().any(|k| k.flat == hyphens),
        Networkd => !(all_hyphens && BOND.iter().any(|k| k.flat == hyphens && k.networkd.is_some())),
        NetworkManager => {
            !(with_hyphen && super::network_manager::BOND_OPTIONS.contains(&underscores.as_str()))
        }
        RedHat | Suse => {
            !((all_hyphens || all_underscores) && super::ifcfg::BONDING.contains(&underscores.as_str()))
        }
    }
}

/// Everything that is not in the files, each key of a link once.
pub fn of(model: &Model, config: &Node, renderer: &str, target: &Target) -> Findings {
    let who = match (renderer, target.sysconfig) {
        ("netplan", _) => Netplan,
        ("networkd", _) => Networkd,
        ("network-manager", _) => NetworkManager,
        ("eni", _) => Eni,
        (_, Some(Flavour::Suse)) => Suse,
        _ => RedHat,
    };
    let mut lost = Lost { places: Places::of(model.version, config), findings: Findings::default(), who };
    for link in &model.links {
        for row in LINK {
            let key = if model.version == 1 { row.v1 } else { row.v2 };
            if (row.lost)(link, who) {
                let key = if key.is_empty() { "address" } else { key };
                lost.note(link, key);
            }
        }
        let mut keys = HashSet::new();
        for subnet in &link.subnets {
            for row in SUBNET.iter().filter(|row| (row.lost)(subnet, who)) {
                keys.insert(if model.version == 1 { row.v1 } else { row.v2 });
            }
        }
        for row in SUBNET {
            let key = if model.version == 1 { row.v1 } else { row.v2 };
            if !key.is_empty() && keys.contains(key) {
                lost.note_subnet(link, key, model.version);
            }
        }
        for option in lost_options(link, who) {
            lost.note_option(link, option, model.version);
        }
        lost.unread(link);
    }
    if !model.routes.is_empty() && [Netplan, NetworkManager, RedHat, Suse].contains(&who) {
        lost.machine("route", "routes of the whole machine");
    }
    if who == Eni && model.dns.servers.iter().any(|s| is_ipv6(s)) {
        lost.machine("nameserver", "IPv6 name servers of the whole machine");
    }
    lost.findings
}

struct Lost<'a> {
    places: Places<'a>,
    findings: Findings,
    who: Who,
}

impl Lost<'_> {
    fn add(&mut self, at: &Mark, key: String) {
        let name = match self.who {
            Netplan => "netplan's file",
            Networkd => "networkd's files",
            NetworkManager => "NetworkManager's profiles",
            RedHat | Suse => "ifcfg files",
            Eni => "the interfaces file",
        };
        self.findings.add(Kind::Unknown, at, key, format!("cannot be said in {name}: left out"));
    }

    fn note(&mut self, link: &Link, key: &str) {
        let words: Vec<&str> = key.split('.').collect();
        let at = self.places.find(&link.id, &words);
        self.add(&at, format!("{}.{key}", link.id));
    }

    fn note_subnet(&mut self, link: &Link, key: &str, version: u8) {
        match (version, key) {
            (1, _) => self.note(link, &format!("subnets.{key}")),
            (_, "gateway") => {
                for (key, inet6) in [("gateway4", false), ("gateway6", true)] {
                    if link.subnets.iter().any(|s| s.gateway.as_deref().is_some_and(|g| is_ipv6(g) == inet6))
                    {
                        self.note(link, key);
                    }
                }
            }
            // Said of the overrides already.
            (_, "route-metric") => {}
            _ => self.note(link, key),
        }
    }

    fn note_option(&mut self, link: &Link, option: &str, version: u8) {
        if version == 1 {
            return self.note(link, &format!("params.{option}"));
        }
        let bare = option.trim_start_matches("bond-");
        let bond = BOND.iter().find(|k| k.flat == bare).map(|k| k.netplan);
        let name = bond.or_else(|| BRIDGE.iter().find(|k| k.flat == option).map(|k| k.netplan));
        self.note(link, &format!("parameters.{}", name.unwrap_or(option)));
    }

    /// What only netplan reads of a device of version 2.
    fn unread(&mut self, link: &Link) {
        let Some(device) = self.places.devices.get(link.id.as_str()).copied() else { return };
        if let Some(name) = device.at_path(&["match", "name"]) {
            let at = name.at.clone();
            self.add(&at, format!("{}.match.name", link.id));
        }
        let routes = device.get("routes").and_then(Node::as_seq).unwrap_or_default();
        for key in UNREAD {
            if let Some(value) = routes.iter().find_map(|r| r.get(key)) {
                let at = value.at.clone();
                self.add(&at, format!("{}.routes.{key}", link.id));
            }
        }
    }

    fn machine(&mut self, kind: &str, what: &str) {
        let at = self.places.entries.get(kind).cloned().unwrap_or_default();
        self.add(&at, what.to_string());
    }
}
