//! netplan: `/etc/netplan/50-cloud-init.yaml`. Version 2 is its own language and is written as it came; version 1
//! is turned into it here.

use std::collections::HashMap;

use config::yaml::{Style, emit, emit_entry};
use config::{Map, Node, Value};
use system::{Command, System, debug};

use crate::model::{Link, LinkKind, Method, Model, Route, Subnet};
use crate::parse::address::{is_in_subnet, is_ipv6};
use crate::parse::{BOND_OPTIONS, BRIDGE_OPTIONS};

use super::{File, RenderResult, Rendered, Target, bond_mode};

const PATH: &str = "/etc/netplan/50-cloud-init.yaml";

pub fn available(sys: &System) -> bool {
    ["/usr/sbin/netplan", "/sbin/netplan"].iter().any(|p| sys.is_file(p))
}

/// A mapping of version 2, as it came.
pub fn passthrough(config: &Node, target: &Target) -> RenderResult {
    file(&emit_entry("network", config, Style::PLAIN), target)
}

fn file(body: &str, target: &Target) -> RenderResult {
    let header = target.netplan_header.ok_or("this distribution has no settings for netplan")?;
    let file = File::new(PATH, format!("{header}{body}"));
    Ok(Rendered::new(vec![File { mode: 0o600, keep_stricter_mode: true, ..file }]))
}

pub fn render(model: &Model, target: &Target) -> RenderResult {
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
                if let Some(mac) = &link.mac {
                    device.insert("match", map([("macaddress", mac_with_colons(mac))]));
                    device.insert("set-name", link.name.as_str());
                }
                if let Some(keep) = &link.keep_configuration {
                    device.insert("critical", keep.clone());
                }
                &mut ethernets
            }
            // A member or a port that nothing describes is a NIC all the same: netplan refuses names that it
            // doesn't know.
            LinkKind::Bond if link.bond.is_some() => &mut ethernets,
            LinkKind::Unknown => &mut ethernets,
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
                if let Some(mac) = &link.mac {
                    device.insert("macaddress", mac_with_colons(mac));
                }
                &mut vlans
            }
            LinkKind::Loopback | LinkKind::Infiniband => continue,
        };
        addresses(&mut device, link);
        unify_dhcp_metrics(&mut device, link, &mut warnings);
        if !model.dns.is_empty() && device.get("addresses").is_some() && device.get("nameservers").is_none() {
            let lists =
                [("addresses", text_list(&model.dns.servers)), ("search", text_list(&model.dns.search))];
            device.insert("nameservers", map(lists));
        }
        section.insert(link.name.as_str(), device);
    }
    let mut body = "network:\n    version: 2\n".to_string();
    for (name, section) in
        [("ethernets", ethernets), ("bonds", bonds), ("bridges", bridges), ("vlans", vlans)]
    {
        if !section.is_empty() {
            // Each section is laid out by itself and then moved, so that texts fold where upstream folds them.
            for line in emit(&map([(name, Node::from(section))]), Style::PLAIN).lines() {
                body.push_str(if line.is_empty() { "" } else { "    " });
                body.push_str(line);
                body.push('\n');
            }
        }
    }
    Ok(Rendered { files: file(&body, target)?.files, ..warnings })
}

/// Both families' DHCP have one metric: netplan refuses the file where networkd shall have two.
fn unify_dhcp_metrics(device: &mut Map, link: &Link, warnings: &mut Rendered) {
    let metric = |key: &str| device.get(key).and_then(|o| o.get("route-metric")).cloned();
    if device.get("dhcp4").is_none() || device.get("dhcp6").is_none() {
        return;
    }
    let (v4, v6) = (metric("dhcp4-overrides"), metric("dhcp6-overrides"));
    if v4 == v6 {
        return;
    }
    if let Some(one) = v4.or(v6) {
        warnings.warn(format!("{}: netplan has one metric for DHCP of both families", link.name));
        for key in ["dhcp4-overrides", "dhcp6-overrides"] {
            device.insert(key, map([("route-metric", one.clone())]));
        }
    }
}

fn map<const N: usize>(entries: [(&str, Node); N]) -> Node {
    Node::from(entries.into_iter().map(|(k, v)| (Node::from(k), v)).collect::<Map>())
}

fn text_list(items: &[String]) -> Node {
    Node::from(items.iter().map(|i| Node::from(i.as_str())).collect::<Vec<Node>>())
}

/// netplan refuses the other way to write them.
fn mac_with_colons(mac: &str) -> Node {
    Node::from(mac.replace('-', ":"))
}

fn push(device: &mut Map, key: &str, item: Node) {
    if let Some(Value::Seq(items)) = device.get_mut(key).map(|n| &mut n.value) {
        items.push(item);
    } else {
        device.insert(key, vec![item]);
    }
}

/// The flat name of a bond's option without its prefix, hyphens inside, whichever spelling it has.
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
                ("mode", Value::Int(_) | Value::Str(_)) => Node::from(bond_mode(value)),
                // netplan wants a list.
                ("arp-ip-target", Value::Str(text)) => {
                    let targets = text.split([',', ' ']).filter(|t| !t.is_empty());
                    Node::from(targets.map(Node::from).collect::<Vec<Node>>())
                }
                _ => value.clone(),
            };
            parameters.insert(known.netplan_name(), value);
        }
    }
    if !parameters.is_empty() {
        device.insert("parameters", parameters);
    }
    if let Some(mac) = &link.mac {
        device.insert("macaddress", mac_with_colons(mac));
    }
    if let Some(members) = members.get(link.id.as_str()) {
        let mut members = members.clone();
        members.sort();
        device.insert("interfaces", text_list(&members));
    }
}

fn bridge(device: &mut Map, link: &Link) {
    let mut ports = link.ports.clone();
    ports.sort();
    device.insert("interfaces", text_list(&ports));
    let mut parameters = Map::new();
    for key in BRIDGE_OPTIONS {
        let Some(value) = link.params.get(key.ifupdown) else { continue };
        parameters.insert(key.netplan, if key.per_port { port_values(value) } else { value.clone() });
    }
    if !parameters.is_empty() {
        device.insert("parameters", parameters);
    }
    if let Some(mac) = &link.mac {
        device.insert("macaddress", mac_with_colons(mac));
    }
}

/// `["eth0 50"]` as `{eth0: 50}`.
fn port_values(value: &Node) -> Node {
    let items = match &value.value {
        Value::Seq(items) => items.as_slice(),
        Value::Str(_) => std::slice::from_ref(value),
        _ => return value.clone(),
    };
    let mut ports = Map::new();
    for item in items.iter().filter_map(Node::as_str) {
        if let Some((port, number)) = item.trim().split_once(char::is_whitespace)
            && let Ok(number) = number.trim().parse::<i64>()
        {
            ports.insert(port, number);
        }
    }
    Node::from(ports)
}

fn addresses(device: &mut Map, link: &Link) {
    let mut mtu4 = None;
    let mut nameservers = (Vec::new(), Vec::new());
    for subnet in &link.subnets {
        match subnet.method {
            Method::Dhcp | Method::Dhcp4 => dhcp(device, subnet, "dhcp4", "dhcp4-overrides"),
            Method::Dhcp6 | Method::Slaac | Method::Dhcp6Stateless | Method::Dhcp6Stateful => {
                dhcp(device, subnet, "dhcp6", "dhcp6-overrides");
            }
            Method::Static | Method::Static6 => {
                let (Some(address), Some(prefix)) = (&subnet.address, subnet.prefix) else { continue };
                push(device, "addresses", Node::from(format!("{address}/{prefix}")));
                if let Some(gateway) = &subnet.gateway {
                    let mut route = Map::new();
                    route.insert("to", "default");
                    route.insert("via", gateway.as_str());
                    if is_in_subnet(gateway, address, prefix) == Some(false) {
                        route.insert("on-link", true);
                    }
                    if let Some(metric) = &subnet.metric {
                        route.insert("metric", metric.clone());
                    }
                    push(device, "routes", Node::from(route));
                }
                for route in &subnet.routes {
                    push(device, "routes", route_entry(route, subnet));
                }
                nameservers.0.extend(subnet.dns.servers.iter().cloned());
                nameservers.1.extend(subnet.dns.search.iter().cloned());
                match &subnet.mtu {
                    Some(mtu) if is_ipv6(address) => {
                        device.insert("ipv6-mtu", mtu.clone());
                    }
                    Some(mtu) => mtu4 = Some(mtu.clone()),
                    None => {}
                }
            }
            Method::Manual | Method::Loopback | Method::Auto => {}
        }
    }
    // An IPv4 subnet's mtu is the device's; the device's own gives way.
    if let Some(mtu) = mtu4.or_else(|| link.mtu.clone()) {
        device.insert("mtu", mtu);
    }
    if let Some(on) = link.accept_ra {
        device.insert("accept-ra", on);
    }
    let lists = [("addresses", nameservers.0), ("search", nameservers.1)];
    let entries: Map = lists
        .iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(key, list)| (Node::from(*key), text_list(list)))
        .collect();
    if !entries.is_empty() {
        device.insert("nameservers", entries);
    }
}

fn dhcp(device: &mut Map, subnet: &Subnet, key: &str, overrides: &str) {
    device.insert(key, true);
    if let Some(metric) = &subnet.metric {
        device.insert(overrides, map([("route-metric", metric.clone())]));
    }
}

fn route_entry(route: &Route, subnet: &Subnet) -> Node {
    let mut entry = Map::new();
    entry.insert("to", format!("{}/{}", route.network, route.prefix));
    if let Some(via) = &route.gateway {
        entry.insert("via", via.as_str());
    }
    match (route.metric, &subnet.metric) {
        (Some(metric), _) => {
            entry.insert("metric", metric);
        }
        (None, Some(metric)) => {
            entry.insert("metric", metric.clone());
        }
        (None, None) => {}
    }
    Node::from(entry)
}

/// The files of snapd's image build, and what netplan made of them, which would bring up every NIC.
const SNAPD_CONFIG: &str = "/etc/netplan/00-snapd-config.yaml";
const SNAPD_GENERATED: &[&str] = &[
    "/run/systemd/network/10-netplan-all-en.network",
    "/run/systemd/network/10-netplan-all-eth.network",
    "/run/systemd/generator/netplan.stamp",
];

/// What that file holds as long as nobody has touched it.
const SNAPD_DEFAULT: &str = "\
# This is the initial network config.
# It can be overwritten by cloud-init or console-conf.
network:
    version: 2
    ethernets:
        all-en:
            match:
                name: \"en*\"
            dhcp4: true
        all-eth:
            match:
                name: \"eth*\"
            dhcp4: true
";

/// The place in our file that netplan complains of. Not its words, which may hold a value.
fn error_position(stderr: &str) -> Option<&str> {
    let begin = stderr.find(&format!("{PATH}:"))?;
    let rest = &stderr[begin..];
    let place =
        rest.len() - rest[PATH.len()..].trim_start_matches(|c: char| c == ':' || c.is_ascii_digit()).len();
    Some(rest[..place].trim_end_matches(':'))
}

/// Removes snapd's default if nobody changed it, has netplan write its backends' files, and applies `set-name`. An error means
/// that netplan refuses the file.
pub fn post_write(sys: &System) -> system::Result<()> {
    let default = sys.read_text_if_exists(SNAPD_CONFIG).inspect_err(|e| system::warning!(sys, "{e}"));
    if default.ok().flatten().is_some_and(|text| text == SNAPD_DEFAULT) {
        debug!(sys, "removing snapd's default {SNAPD_CONFIG} and what netplan made of it");
        for path in std::iter::once(&SNAPD_CONFIG).chain(SNAPD_GENERATED) {
            if let Err(e) = sys.remove(path) {
                system::warning!(sys, "{e}");
            }
        }
    }
    if !sys.is_live() {
        return Ok(());
    }
    match sys.run(&Command::new(["netplan", "generate"]).accept_all()) {
        Ok(finished) if finished.code != 0 => {
            if let Some(place) = error_position(&String::from_utf8_lossy(&finished.stderr)) {
                return Err(system::Error::new(format!("netplan refuses the configuration: {place}")));
            }
            // No fault of the file (systemd could not be told, say): netplan reads it again at the next reload.
            system::warning!(sys, "netplan generate: exit code {}", finished.code);
        }
        Ok(_) => {}
        // Nor is a program that does not start: the file is right until netplan has said otherwise.
        Err(e) => system::warning!(sys, "{e}"),
    }
    if sys.kernel_command_line().split_whitespace().any(|w| w == "net.ifnames=0") {
        debug!(sys, "predictable interface names are off: udev is not asked to set names");
        return Ok(());
    }
    if sys.which("udevadm").is_none() {
        debug!(sys, "no udevadm: udev is not asked to set names");
        return Ok(());
    }
    for nic in sys.list("/sys/class/net").unwrap_or_default() {
        let path = format!("/sys/class/net/{nic}");
        // A NIC that vanishes meanwhile is no reason to give up the rest.
        if sys.is_link(&path)
            && let Err(e) = sys.run(&Command::new(["udevadm", "test-builtin", "net_setup_link", &path]))
        {
            system::warning!(sys, "{e}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_in_netplan_errors() {
        for (said, place) in [
            ("", None),
            ("Failed to reload daemon", None),
            ("/etc/netplan/90-mine.yaml:1:2: Error in network definition: x", None),
            (
                "** WARNING **: a: /etc/netplan/50-cloud-init.yaml:1:39: Error in network definition: unknown key 'k'",
                Some("/etc/netplan/50-cloud-init.yaml:1:39"),
            ),
            ("/etc/netplan/50-cloud-init.yaml:", Some("/etc/netplan/50-cloud-init.yaml")),
        ] {
            assert_eq!(error_position(said), place, "{said}");
        }
    }

    #[test]
    fn only_unmodified_snapd_config_is_removed() {
        let top = scratch::TempDir::new();
        let sys = System::new(&top);
        for (text, stays) in [(SNAPD_DEFAULT.to_string(), false), (format!("{SNAPD_DEFAULT}# mine\n"), true)]
        {
            sys.write(SNAPD_CONFIG, &text, system::WriteOptions::default()).unwrap();
            sys.write(SNAPD_GENERATED[0], "", system::WriteOptions::default()).unwrap();
            post_write(&sys).unwrap();
            assert_eq!((sys.exists(SNAPD_CONFIG), sys.exists(SNAPD_GENERATED[0])), (stays, stays));
        }
    }
}
