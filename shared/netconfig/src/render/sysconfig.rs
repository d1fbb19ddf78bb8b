//! ifcfg files below /etc/sysconfig, as the families of Red Hat and SUSE read them: two [dialects](IfcfgDialect) of one format.

use std::collections::{HashMap, HashSet};

use distro::IfcfgDialect;
use system::System;

use crate::model::{Link, LinkKind, Model, Route};

use super::ifcfg_file::{HEADER, Ifcfg, has_ifcfg_plugin};
use super::output::{File, RenderResult, Rendered};
use super::renderer::Renderer;
use super::target::{NETWORK_FUNCTIONS, SYSCONFIG_NETWORK, Target};
use super::unsupported::{Unsupported, has_other_mtu_in_ipv4_subnet, link, route, subnet};
use super::values::{python_str, table_number, time, yes_no};
use super::{has_program, ifcfg, resolv_conf, udev, wicked};

/// The row of [`super::RENDERERS`].
pub const RENDERER: Renderer = Renderer {
    name: "sysconfig",
    help: "ifcfg files of the Red Hat or SUSE family",
    available,
    passthrough: None,
    render,
    post_write: None,
    activator: None,
    keeps_imds_lock: false,
    has_patterns: false,
    unsupported: |target| target.files.ifcfg.map(unsupported),
};

const UNSUPPORTED_RED_HAT: Unsupported = Unsupported {
    link: &[
        link::LOOPBACK,
        link::OPTIONAL,
        link::KEEP_CONFIGURATION,
        link::MTU.when(has_other_mtu_in_ipv4_subnet),
    ],
    subnet: &[subnet::BROADCAST, subnet::POINTOPOINT, subnet::SCOPE, subnet::ROUTE_MSS],
    route: &[
        route::NO_GATEWAY.when(|r| !ifcfg::has_next_hop(r)),
        // NetworkManager ignores a route with the name of a table.
        route::TABLE.when(|r| r.table.as_ref().is_some_and(|table| table_number(table).is_none())),
    ],
    has_setting: |setting, value| ifcfg::has_setting(IfcfgDialect::RedHat, setting, value),
    has_override: |known, value, inet6| ifcfg::has_override(IfcfgDialect::RedHat, known, value, inet6),
    has_bond_option: ifcfg::has_bond_option,
    has_bridge_option: |name| {
        BRIDGE_OPTIONS.iter().any(|(known, [red_hat, _])| *known == name && !red_hat.is_empty())
    },
    global_ipv6_dns: false,
};

const UNSUPPORTED_SUSE: Unsupported = Unsupported {
    link: &[
        link::LOOPBACK.when(|l| l.kind == LinkKind::Loopback),
        link::OPTIONAL,
        link::KEEP_CONFIGURATION,
        link::MTU.when(has_other_mtu_in_ipv4_subnet),
    ],
    route: &[route::NO_GATEWAY.when(|r| !ifcfg::has_next_hop(r))],
    subnet: &[subnet::MTU.when(|s| s.is_ipv6()), subnet::METRIC6],
    has_setting: |setting, value| ifcfg::has_setting(IfcfgDialect::Suse, setting, value),
    has_override: |known, value, inet6| ifcfg::has_override(IfcfgDialect::Suse, known, value, inet6),
    has_bridge_option: |name| BRIDGE_OPTIONS.iter().any(|(known, _)| *known == name),
    ..UNSUPPORTED_RED_HAT
};

/// The options of bridges, with the keys of the Red Hat family and wicked's.
const BRIDGE_OPTIONS: [(&str, [&str; 2]); 6] = [
    ("bridge_ageing", ["AGEING", "BRIDGE_AGEINGTIME"]),
    ("bridge_bridgeprio", ["PRIO", "BRIDGE_PRIORITY"]),
    ("bridge_stp", ["STP", "BRIDGE_STP"]),
    ("bridge_fd", ["", "BRIDGE_FORWARDDELAY"]),
    ("bridge_hello", ["", "BRIDGE_HELLOTIME"]),
    ("bridge_maxage", ["", "BRIDGE_MAXAGE"]),
];

const NM_DNS_CONF: &str = "/etc/NetworkManager/conf.d/99-cloud-init.conf";

fn unsupported(dialect: IfcfgDialect) -> &'static Unsupported {
    match dialect {
        IfcfgDialect::RedHat => &UNSUPPORTED_RED_HAT,
        IfcfgDialect::Suse => &UNSUPPORTED_SUSE,
    }
}

fn available(sys: &System) -> bool {
    let target = Target::for_distro(sys.os_release().get("ID").unwrap_or_default());
    if target.files.ifcfg.is_none() {
        return false;
    }
    let has_programs = has_program(sys, "ifup") && has_program(sys, "ifdown");
    let scripts = [NETWORK_FUNCTIONS, "/etc/sysconfig/config"];
    // SUSE's systems have both services; this link selects one of them.
    let uses_wicked = || {
        let service = sys.read_link("/etc/systemd/system/network.service").unwrap_or_default();
        sys.is_file(wicked::NETCONFIG) && !service.ends_with("/NetworkManager.service")
    };
    let is_suse = target.files.ifcfg == Some(IfcfgDialect::Suse);
    let has_scripts = scripts.iter().any(|path| sys.is_file(path)) || is_suse && uses_wicked();
    has_programs && has_scripts || has_ifcfg_plugin(sys)
}

fn render(model: &Model, target: &Target) -> RenderResult {
    let dialect = target.files.ifcfg.ok_or("no sysconfig settings for this distribution")?;
    let (dir, udev_rules) = match dialect {
        IfcfgDialect::RedHat => {
            ("/etc/sysconfig/network-scripts", "/etc/udev/rules.d/70-persistent-net.rules")
        }
        IfcfgDialect::Suse => {
            ("/etc/sysconfig/network", "/etc/udev/rules.d/85-persistent-net-cloud-init.rules")
        }
    };
    let mut rendered = Rendered::default();
    let topology = Topology::of(model);
    let is_main_default = |route: &Route| route.is_default() && route.table.is_none();
    let has_default_route =
        model.links.iter().flat_map(|l| l.subnets.iter().flat_map(|s| &s.routes)).any(is_main_default);
    for link in model.links.iter().filter(|l| l.kind != LinkKind::Loopback) {
        let mut file = Ifcfg::default();
        device(&mut file, link, dialect);
        let mut files = Vec::new();
        match dialect {
            IfcfgDialect::RedHat => {
                let link = &*link.with_single_gateways();
                let is_lower = link.bond.is_some()
                    || topology.bridges.contains_key(&*link.id)
                    || topology.parents.contains(&*link.id);
                ifcfg::red_hat(&mut file, link, has_default_route, is_lower);
                if let Some([v4, v6]) = ifcfg::routes(&mut file, link)? {
                    files.extend([("route", v4), ("route6", v6)]);
                }
                files.extend(ifcfg::red_hat_rules(
                    &mut file,
                    link,
                    target.has_network_scripts,
                    &mut rendered,
                ));
            }
            IfcfgDialect::Suse => {
                ifcfg::suse(&mut file, link);
                files = wicked::files(link, &mut rendered);
            }
        }
        topology_keys(&mut file, link, &topology, dialect, &mut rendered);
        ifcfg::settings(&mut file, link, dialect);
        files.insert(0, ("ifcfg", file.text()));
        let path = |kind: &str| format!("{dir}/{kind}-{}", link.name);
        rendered.files.extend(files.into_iter().map(|(kind, content)| File::new(&path(kind), content)));
    }
    let dns = resolv_conf::all_dns(model);
    if !dns.is_empty() {
        let (content, too_many) = resolv_conf::merge(target.resolv_conf.as_deref().unwrap_or_default(), &dns);
        if too_many {
            rendered
                .warn("resolv.conf supports at most 6 search domains (256 characters); ignoring the rest");
        }
        rendered.files.push(File { optional: true, ..File::new(resolv_conf::PATH, content) });
        rendered
            .files
            .push(File { optional: true, ..File::new(NM_DNS_CONF, format!("{HEADER}[main]\ndns = none\n")) });
        if dialect == IfcfgDialect::Suse {
            let config = wicked::netconfig(target.netconfig.as_deref().unwrap_or_default(), &dns);
            let file = File::new(wicked::NETCONFIG, config);
            rendered.files.push(File { optional: true, keep_mode: true, ..file });
        }
    }
    if dialect == IfcfgDialect::RedHat {
        rendered.files.push(File::new(
            SYSCONFIG_NETWORK,
            sysconfig_network(model, target.sysconfig_network.as_deref().unwrap_or_default()),
        ));
    }
    rendered.files.push(udev::rules(model, udev_rules));
    Ok(rendered)
}

/// The members of each device, by id.
struct Topology<'a> {
    by_id: HashMap<&'a str, &'a Link>,
    /// The members of each bond, by the bond's ID.
    members: HashMap<&'a str, Vec<&'a str>>,
    bridges: HashMap<&'a str, &'a Link>,
    /// The parents of VLANs, by their IDs.
    parents: HashSet<&'a str>,
}

impl Topology<'_> {
    fn of(model: &Model) -> Topology<'_> {
        let by_id = model.links.iter().map(|l| (l.id.as_str(), l)).collect();
        let mut members: HashMap<&str, Vec<&str>> = HashMap::new();
        let mut bridges = HashMap::new();
        for link in &model.links {
            if let Some(bond) = &link.bond {
                members.entry(bond).or_default().push(&link.name);
            }
            for port in &link.ports {
                bridges.insert(port.as_str(), link);
            }
        }
        for names in members.values_mut() {
            sort::sort(names);
        }
        let parents = model.links.iter().filter_map(|link| link.vlan_link.as_deref()).collect();
        Topology { by_id, members, bridges, parents }
    }
}

/// Writes the keys at the beginning of every file: the device, its address and MTU.
fn device(file: &mut Ifcfg, link: &Link, dialect: IfcfgDialect) {
    let red_hat = dialect == IfcfgDialect::RedHat;
    if red_hat {
        file.set("DEVICE", &link.name);
        file.set("ONBOOT", "yes");
        file.set("USERCTL", "no");
        file.set("BOOTPROTO", "none");
    } else {
        file.set("BOOTPROTO", "static");
        file.set("STARTMODE", "auto");
    }
    let kind = match link.kind {
        LinkKind::Infiniband => Some("InfiniBand"),
        LinkKind::Bond if red_hat && link.bond.is_none() => Some("Bond"),
        LinkKind::Bridge if red_hat => Some("Bridge"),
        LinkKind::Vlan => None,
        _ => red_hat.then_some("Ethernet"),
    };
    if let Some(kind) = kind {
        file.set("TYPE", kind);
    }
    let (identity, own) = match (link.kind, red_hat) {
        (LinkKind::Bond | LinkKind::Bridge | LinkKind::Vlan, true) => ("MACADDR", "MACADDR"),
        (_, true) => ("HWADDR", "MACADDR"),
        (_, false) => ("LLADDR", "LLADDR"),
    };
    for (key, mac) in [(identity, &link.mac), (own, &link.set_mac)] {
        if let Some(mac) = mac {
            file.set(key, mac);
        }
    }
    if let Some(mtu) = &link.mtu {
        file.set("MTU", python_str(mtu));
    }
    if link.wakeonlan == Some(true) && link.kind == LinkKind::Physical {
        file.set(if red_hat { "ETHTOOL_OPTS" } else { "ETHTOOL_OPTIONS" }, "wol g");
    }
}

/// Writes bonds, bridges and vlans, and the membership in them.
fn topology_keys(
    file: &mut Ifcfg,
    link: &Link,
    topology: &Topology<'_>,
    dialect: IfcfgDialect,
    rendered: &mut Rendered,
) {
    let red_hat = dialect == IfcfgDialect::RedHat;
    match link.kind {
        LinkKind::Bond if link.bond.is_none() => {
            file.set("BONDING_MASTER", "yes");
            let options = ifcfg::bonding_options(link, dialect, rendered);
            if !options.is_empty() {
                file.set(if red_hat { "BONDING_OPTS" } else { "BONDING_MODULE_OPTS" }, options);
            }
            for (i, name) in topology.members.get(link.id.as_str()).into_iter().flatten().enumerate() {
                file.set(format!("BONDING_SLAVE{}{i}", if red_hat { "" } else { "_" }), *name);
            }
        }
        LinkKind::Bridge => {
            for (flat, keys) in BRIDGE_OPTIONS {
                let Some(value) = link.params.get(flat) else { continue };
                let on = !value.is_falsy();
                match (keys[usize::from(!red_hat)], flat) {
                    ("", _) => {}
                    (key, "bridge_stp") if red_hat => file.set(key, yes_no(on)),
                    (key, "bridge_stp") => file.set(key, if on { "on" } else { "off" }),
                    (key, _) => file.set(key, time(value, 1000.0)),
                }
            }
            if !red_hat {
                file.set("BRIDGE", "yes");
            }
            if !red_hat && !link.ports.is_empty() {
                let names = link
                    .ports
                    .iter()
                    .map(|id| topology.by_id.get(id.as_str()).map_or(id.as_str(), |l| &l.name));
                file.set("BRIDGE_PORTS", names.collect::<Vec<_>>().join(" "));
            }
        }
        LinkKind::Vlan => {
            let below = link.vlan_link.as_deref().unwrap_or_default();
            let below = topology.by_id.get(below).map_or(below, |l| l.name.as_str());
            let id = link.vlan_id.as_ref().map(python_str).unwrap_or_default();
            if red_hat {
                file.set("VLAN", "yes");
            }
            file.set(if red_hat { "PHYSDEV" } else { "ETHERDEVICE" }, below);
            // The readers of the Red Hat family find the ID in these names.
            if !red_hat || ![format!("{below}.{id}"), format!("vlan{id}")].contains(&link.name) {
                file.set("VLAN_ID", id);
            }
        }
        _ => {}
    }
    if let Some(bond) = &link.bond {
        if red_hat {
            file.set("MASTER", bond);
            file.set("SLAVE", "yes");
        } else {
            file.set("BOOTPROTO", "none");
            file.set("STARTMODE", "hotplug");
        }
    }
    if let Some(bridge) = topology.bridges.get(link.id.as_str()) {
        match red_hat {
            true => file.set("BRIDGE", bridge.name.as_str()),
            false => file.set("BOOTPROTO", "none"),
        }
    }
}

/// Returns `/etc/sysconfig/network`, which enables networking. Other programs' lines are kept.
fn sysconfig_network(model: &Model, existing: &str) -> String {
    const OWN_KEYS: [&str; 3] = ["NETWORKING", "NETWORKING_IPV6", "IPV6_AUTOCONF"];
    let mut text = format!("{HEADER}NETWORKING=yes\n");
    if model.links.iter().flat_map(|l| &l.subnets).any(uses_ipv6) {
        text.push_str("NETWORKING_IPV6=yes\nIPV6_AUTOCONF=no\n");
    }
    let foreign = existing.lines().filter(|line| {
        !OWN_KEYS.iter().any(|word| line.contains(word)) && !HEADER.lines().any(|h| h == *line)
    });
    for line in foreign {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Autoconfiguration alone does not count.
fn uses_ipv6(subnet: &crate::model::Subnet) -> bool {
    use crate::model::Method;
    let automatic = matches!(subnet.method, Method::Slaac | Method::Dhcp6Stateless | Method::Dhcp6Stateful);
    let literal = subnet.address.as_deref().is_some_and(crate::address::is_ipv6);
    literal || (subnet.is_ipv6() && !automatic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Method, Subnet};

    /// Both services are installed; a link selects one.
    #[test]
    fn suse_uses_it_where_wicked_is_selected() {
        for (service, expected) in [("wicked", true), ("NetworkManager", false)] {
            let top = scratch::TempDir::new();
            let sys = System::new(&*top);
            let files = ["/usr/sbin/ifup", "/usr/sbin/ifdown", wicked::NETCONFIG];
            for (path, text) in
                files.map(|path| (path, "")).into_iter().chain([("/etc/os-release", "ID=sles\n")])
            {
                sys.write(path, text, system::WriteOptions::default()).unwrap();
            }
            let unit = format!("/usr/lib/systemd/system/{service}.service");
            sys.link(&unit, "/etc/systemd/system/network.service").unwrap();
            assert_eq!(available(&sys), expected, "{service}");
        }
    }

    #[test]
    fn foreign_lines_of_sysconfig_network_are_kept() {
        let before =
            format!("{HEADER}# by hand\nNETWORKING=no\nHOSTNAME=old\nIPV6_AUTOCONF=yes\nNOZEROCONF=yes\n\n");
        let text = sysconfig_network(&Model::default(), &before);
        assert_eq!(text, format!("{HEADER}NETWORKING=yes\n# by hand\nHOSTNAME=old\nNOZEROCONF=yes\n\n"));
        assert_eq!(sysconfig_network(&Model::default(), &text), text);
        for (method, ipv6) in [(Method::Dhcp6, true), (Method::Slaac, false), (Method::Dhcp4, false)] {
            let link = Link { subnets: vec![Subnet { method, ..Subnet::default() }], ..Link::default() };
            let model = Model { links: vec![link], ..Model::default() };
            assert_eq!(
                sysconfig_network(&model, "").contains("NETWORKING_IPV6=yes\nIPV6_AUTOCONF=no\n"),
                ipv6
            );
        }
    }
}
