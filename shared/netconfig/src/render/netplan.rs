//! netplan: `/etc/netplan/50-cloud-init.yaml`. Version 2 is netplan's own format and is written unchanged; version 1 is
//! converted here.

use std::collections::{HashMap, HashSet};

use config::yaml::{Style, emit, emit_entry};
use config::{Map, Node, Value};
use system::{System, debug};

use crate::address::is_in_subnet;
use crate::model::{Dhcp, Dns, Link, LinkKind, Method, Model, Route, Subnet};
use crate::parse::sanitize::Level;
use crate::parse::{BOND_OPTIONS, BRIDGE_OPTIONS};

use super::activator::{Activator, Stderr, run_program};
use super::has_program;
use super::netplan_generate::{PATH, post_write};
use super::netplan_prune::{ONE_DHCP, boolean, port_values, unify_overrides, without};
use super::output::{File, RenderResult, Rendered};
use super::renderer::Renderer;
use super::target::Target;
use super::unsupported::{Unsupported, has_other_mtu_in_ipv4_subnet, link, subnet};
use super::values::with_bond_name;

/// The row of [`super::RENDERERS`].
pub const RENDERER: Renderer = Renderer {
    name: "netplan",
    help: "netplan's YAML file",
    available,
    passthrough: Some(passthrough),
    render,
    post_write: Some(post_write),
    activator: Some(Activator { class: "NetplanActivator", bring_up }),
    keeps_imds_lock: true,
    has_patterns: true,
    unsupported: |_| Some(&UNSUPPORTED),
};

/// Converts version 1; version 2 is passed through.
const UNSUPPORTED: Unsupported = Unsupported {
    link: &[
        link::LOOPBACK,
        link::DRIVER,
        link::MTU.when(has_other_mtu_in_ipv4_subnet),
        link::NAMESERVERS.when(|l| l.subnets.is_empty()),
    ],
    subnet: &[
        subnet::CONTROL,
        subnet::BROADCAST,
        subnet::POINTOPOINT,
        subnet::SCOPE,
        subnet::ROUTES.when(|s| s.method == Method::Manual),
    ],
    route: &[],
    has_setting: |_, _| true,
    has_override: |_, _, _| true,
    has_bond_option: |name| {
        let bare = bond_option_name(name).unwrap_or_else(|| name.replace('_', "-"));
        BOND_OPTIONS.iter().any(|option| option.ifupdown == bare)
    },
    has_bridge_option: |name| BRIDGE_OPTIONS.iter().any(|option| option.ifupdown == name),
    global_ipv6_dns: false,
};

fn available(sys: &System) -> bool {
    has_program(sys, "netplan")
}

/// Writes a mapping of version 2 unchanged.
fn passthrough(config: &Node, target: &Target) -> RenderResult {
    file(&emit_entry("network", config, Style::PLAIN), target)
}

fn file(body: &str, target: &Target) -> RenderResult {
    let header = target.files.netplan_header.ok_or("no netplan settings for this distribution")?;
    let file = File::new(PATH, format!("{header}{body}"));
    Ok(Rendered::new(vec![File { mode: 0o600, keep_stricter_mode: true, ..file }]))
}

fn render(model: &Model, target: &Target) -> RenderResult {
    let mut warnings = Rendered::default();
    let mut members: HashMap<&str, Vec<String>> = HashMap::new();
    for link in &model.links {
        if let Some(bond) = &link.bond {
            members.entry(bond).or_default().push(link.id.clone());
        }
    }
    let mut ethernets = Map::new();
    let mut bonds = Map::new();
    let mut bridges = Map::new();
    let mut vlans = Map::new();
    for link in &model.links {
        let mut device = Map::new();
        let section = match link.kind {
            LinkKind::Physical => {
                if let Some(mac) = link.mac.as_ref().filter(|_| !link.has_temporary_mac) {
                    device.insert("match", Node::from([("macaddress", Node::from(mac.as_str()))]));
                    device.insert("set-name", link.name.as_str());
                }
                device.insert_some("macaddress", link.set_mac.as_deref());
                device.insert_some("optional", link.optional.filter(|on| *on));
                device.insert_some("wakeonlan", link.wakeonlan.filter(|on| *on));
                device.insert_some("critical", link.keep_configuration.as_ref().map(boolean));
                &mut ethernets
            }
            // A member or port that is not described is treated as a NIC, because netplan rejects unknown names.
            LinkKind::Bond if link.bond.is_some() => &mut ethernets,
            LinkKind::Unknown | LinkKind::Infiniband => &mut ethernets,
            LinkKind::Bond => {
                bond(&mut device, link, &members);
                &mut bonds
            }
            LinkKind::Bridge => {
                bridge(&mut device, link);
                &mut bridges
            }
            LinkKind::Vlan => {
                device.insert("id", link.vlan_id.clone().unwrap_or_default());
                device.insert("link", link.vlan_link.clone().unwrap_or_default());
                device.insert_some("macaddress", link.mac.as_deref());
                &mut vlans
            }
            LinkKind::Loopback => continue,
        };
        addresses(&mut device, link, &model.dns);
        if unify_overrides(&mut device) {
            warnings.warn(format!("{}: {ONE_DHCP}", link.name));
        }
        section.insert(link.name.as_str(), device);
    }
    let mut body = "network:\n    version: 2\n".to_string();
    for (name, section) in
        [("ethernets", ethernets), ("bonds", bonds), ("bridges", bridges), ("vlans", vlans)]
    {
        if !section.is_empty() {
            // Each section is formatted by itself and then indented, so that lines are folded where upstream folds them.
            for line in emit(&Node::from([(name, Node::from(section))]), Style::PLAIN).lines() {
                body.push_str(if line.is_empty() { "" } else { "    " });
                body.push_str(line);
                body.push('\n');
            }
        }
    }
    Ok(Rendered { files: file(&body, target)?.files, ..warnings })
}

fn text_list(items: &[String]) -> Node {
    Node::from(items.iter().map(|i| Node::from(i.as_str())).collect::<Vec<Node>>())
}

fn push(device: &mut Map, key: &str, item: Node) {
    if let Some(Value::Seq(items)) = device.get_mut(key).map(|n| &mut n.value) {
        items.push(item);
    } else {
        device.insert(key, vec![item]);
    }
}

/// Returns the flat name of a bond's option without its prefix and with hyphens, in either spelling.
fn bond_option_name(name: &str) -> Option<String> {
    let bare = name.strip_prefix("bond-").or_else(|| name.strip_prefix("bond_"))?;
    Some(bare.replace('_', "-"))
}

fn bond(device: &mut Map, link: &Link, members: &HashMap<&str, Vec<String>>) {
    let mut parameters = Map::new();
    for (key, value) in link.params.iter() {
        let name = key.as_str().and_then(bond_option_name);
        if let Some(known) = BOND_OPTIONS.iter().find(|k| Some(k.ifupdown) == name.as_deref()) {
            let value = match (known.ifupdown, &value.value) {
                // netplan requires a list.
                ("arp-ip-target", Value::Str(text)) => {
                    let targets = text.split([',', ' ']).filter(|t| !t.is_empty());
                    Node::from(targets.map(Node::from).collect::<Vec<Node>>())
                }
                _ => with_bond_name(known.ifupdown, value),
            };
            parameters.insert(known.netplan_name(), value);
        }
    }
    device.insert_unless_empty("parameters", parameters);
    device.insert_some("macaddress", link.mac.as_deref());
    if let Some(members) = members.get(link.id.as_str()) {
        let mut members = members.clone();
        sort::sort(&mut members);
        device.insert("interfaces", text_list(&members));
    }
}

fn bridge(device: &mut Map, link: &Link) {
    let mut ports = link.ports.clone();
    sort::sort(&mut ports);
    device.insert("interfaces", text_list(&ports));
    let mut parameters = Map::new();
    for key in BRIDGE_OPTIONS {
        let Some(value) = link.params.get(key.ifupdown) else { continue };
        parameters.insert(key.netplan, if key.per_port { port_values(value) } else { value.clone() });
    }
    device.insert_unless_empty("parameters", parameters);
    device.insert_some("macaddress", link.mac.as_deref());
}

fn addresses(device: &mut Map, link: &Link, global: &Dns) {
    let mut mtu4 = None;
    for subnet in &link.subnets {
        match subnet.method {
            Method::Dhcp | Method::Dhcp4 => dhcp(device, subnet, "dhcp4", &link.dhcp4),
            Method::Dhcp6 | Method::Slaac | Method::Dhcp6Stateless | Method::Dhcp6Stateful => {
                dhcp(device, subnet, "dhcp6", &link.dhcp6);
            }
            Method::Static | Method::Static6 => {
                let (Some(address), Some(prefix)) = (&subnet.address, subnet.prefix) else { continue };
                push(device, "addresses", Node::from(format!("{address}/{prefix}")));
                if let Some(gateway) = &subnet.gateway {
                    let mut route = Map::from([("to", "default".into()), ("via", gateway.as_str().into())]);
                    if is_in_subnet(gateway, address, prefix) == Some(false) {
                        route.insert("on-link", true);
                    }
                    route.insert_some("metric", subnet.metric.clone());
                    push(device, "routes", Node::from(route));
                }
            }
            Method::Manual | Method::Loopback | Method::Auto => {}
        }
        if subnet.is_ipv6() {
            device.insert_some("ipv6-mtu", subnet.mtu.clone());
        } else {
            mtu4 = subnet.mtu.clone().or(mtu4);
        }
        for route in subnet.routes.iter().filter(|_| subnet.method != Method::Manual) {
            push(device, "routes", route_entry(route, subnet));
        }
    }
    let rules = Node { value: Value::Seq(link.rules.clone()), ..Node::default() };
    let rules = without(&rules, "network.routing-policy", Level::Inner, &HashSet::new());
    device.insert_unless_empty("routing-policy", rules.as_seq().unwrap_or_default().to_vec());
    // The MTU of an IPv4 subnet replaces that of the device.
    device.insert_some("mtu", mtu4.or_else(|| link.mtu.clone()));
    device.insert_some("accept-ra", link.accept_ra);
    let dns = link.all_dns(global);
    let is_global = dns == *global;
    let mut lists = Map::new();
    for (key, list) in [("addresses", &dns.servers), ("search", &dns.search)] {
        if is_global || !list.is_empty() {
            lists.insert(key, text_list(list));
        }
    }
    if !dns.is_empty() && link.subnets.iter().any(|s| s.method != Method::Manual) {
        device.insert("nameservers", lists);
    }
}

fn dhcp(device: &mut Map, subnet: &Subnet, key: &str, settings: &Dhcp) {
    device.insert(key, true);
    let mut overrides = settings.overrides.clone();
    overrides.insert_some("route-metric", subnet.metric.clone());
    device.insert_unless_empty(format!("{key}-overrides"), overrides);
}

fn route_entry(route: &Route, subnet: &Subnet) -> Node {
    let mut entry = Map::from([("to", format!("{}/{}", route.network, route.prefix).into())]);
    entry.insert_some("via", route.gateway.as_deref());
    // The metric of a lease is that of its own routes.
    let of_subnet = subnet.metric.as_ref().filter(|_| subnet.method.is_static());
    entry.insert_some("metric", route.metric.map(Node::from).or_else(|| of_subnet.cloned()));
    entry.insert_some("table", route.table.clone());
    entry.insert_some("from", route.from.as_deref());
    entry.insert_some("scope", route.scope.as_deref());
    entry.insert_some("type", route.kind.as_deref());
    entry.insert_some("on-link", route.on_link.then_some(true));
    for (key, value) in route.attributes.iter() {
        entry.insert(key.clone(), value.clone());
    }
    Node::from(entry)
}

fn bring_up(sys: &System, _: &[String]) -> Vec<String> {
    debug!(sys, "Calling 'netplan apply' rather than altering individual interfaces");
    // Its standard error also has warnings that do not concern the configuration.
    run_program(sys, &["netplan", "apply"], Stderr::Log)
}
