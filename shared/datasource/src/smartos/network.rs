//! The network configuration of SmartOS: `sdc:nics`, `sdc:routes`, `sdc:resolvers` and `sdc:dns_domain` become version 1.

use config::{Map, Node};
use system::{System, warning};

use crate::document;
use crate::document::v1;

/// Fields of a NIC of which each of its static addresses gets a copy.
const SUBNET_FIELDS: [&str; 6] =
    ["broadcast", "dns_nameservers", "dns_search", "metric", "pointopoint", "scope"];

/// Returns the configuration. Invalid entries are logged and ignored; the NIC's other entries are used.
pub fn config(
    sys: &System,
    nics: &[Node],
    routes: &[Node],
    resolvers: Option<&Node>,
    domain: Option<&str>,
) -> Node {
    let mut copies = v1::Copies::new();
    let mut routes = Node::from(routes_of(sys, routes));
    let count = nics.iter().map(|nic| document::items(nic, "ips").len()).sum();
    if let Err(problem) = copies.take(&routes, count) {
        warning!(sys, "SmartOS: sdc:routes: {problem}; ignored");
        routes = Vec::<Node>::new().into();
    }
    // Only the first gateway of each family is used, and only of a primary NIC.
    let mut has_gateway = [false; 2];
    let mut entries = Vec::new();
    for (i, nic) in nics.iter().enumerate() {
        let place = format!("sdc:nics[{i}]");
        let Some(name) = document::text(nic, "interface") else {
            warning!(sys, "SmartOS: {place}.interface: expected a string; ignoring the NIC");
            continue;
        };
        let mut entry = v1::map(&[("type", "physical"), ("name", &name)]);
        for (key, field) in [("mac_address", "mac"), ("mtu", "mtu"), ("params", "params")] {
            entry.insert_some(key, nic.get(field).filter(|value| !value.is_null()).cloned());
        }
        let ips = list(sys, nic, &place, "ips");
        let mut common = Map::new();
        for field in SUBNET_FIELDS {
            let Some(value) = nic.get(field).filter(|value| !value.is_null()) else { continue };
            match copies.take(value, ips.len()) {
                Ok(()) => drop(common.insert(field, value.clone())),
                Err(problem) => warning!(sys, "SmartOS: {place}.{field}: {problem}; ignored"),
            }
        }
        if !ips.is_empty() {
            common.insert_unless_empty("routes", routes.clone());
        }
        let is_primary = nic.get("primary").is_some_and(|primary| !primary.is_falsy());
        let gateways = if is_primary { list(sys, nic, &place, "gateways") } else { &[] };
        let with = |c: char| gateways.iter().filter_map(Node::as_str).find(|gateway| gateway.contains(c));
        let gateways = ['.', ':'].map(with);
        let mut subnets = Vec::new();
        for (j, ip) in ips.iter().enumerate() {
            let Some(ip) = ip.as_str().filter(|ip| !ip.is_empty()) else {
                warning!(sys, "SmartOS: {place}.ips[{j}]: expected an address, dhcp or addrconf; ignored");
                continue;
            };
            subnets.push(Node::from(match ip {
                "dhcp" => v1::map(&[("type", "dhcp4")]),
                "addrconf" => v1::map(&[("type", "dhcp6")]),
                _ => static_subnet(ip, gateways, &mut has_gateway, &common),
            }));
        }
        entry.insert("subnets", subnets);
        entries.push(entry);
    }
    let resolvers = match resolvers.filter(|node| !node.is_falsy()) {
        Some(node) if node.as_seq().is_some() => Some(node.clone()),
        Some(node) if node.as_str().is_some() => Some(Node::from(vec![node.clone()])),
        Some(_) => {
            warning!(sys, "SmartOS: sdc:resolvers: expected a list; ignored");
            None
        }
        None => None,
    };
    if let Some(resolvers) = resolvers {
        let mut entry = v1::nameserver(resolvers);
        let domain: Vec<Node> = domain.filter(|d| !d.is_empty()).map(Node::from).into_iter().collect();
        entry.insert("search", domain);
        entries.push(entry);
    }
    v1::config(entries)
}

fn static_subnet(ip: &str, gateways: [Option<&str>; 2], has_gateway: &mut [bool; 2], common: &Map) -> Map {
    let mut subnet = v1::map(&[("type", "static"), ("address", ip)]);
    for (field, value) in common.iter() {
        subnet.insert(field.clone(), value.clone());
    }
    // An IPv4 address in IPv6 notation has both characters.
    let family = |address: &str| usize::from(!address.contains('.'));
    let of = family(ip);
    if let (false, Some(gateway)) = (has_gateway[of], gateways[of]) {
        has_gateway[of] = true;
        subnet.insert("gateway", gateway);
    }
    subnet
}

/// Returns the routes, which every static address gets: the kernel accepts those that its subnet can reach.
fn routes_of(sys: &System, routes: &[Node]) -> Vec<Node> {
    let mut all = Vec::new();
    for (i, route) in routes.iter().enumerate() {
        match (document::text(route, "dst"), document::text(route, "gateway")) {
            (Some(network), Some(gateway)) => {
                all.push(Node::from(v1::map(&[("network", &network), ("gateway", &gateway)])));
            }
            (network, _) => {
                let field = if network.is_some() { "gateway" } else { "dst" };
                warning!(sys, "SmartOS: sdc:routes[{i}].{field}: expected a string; ignoring the route");
            }
        }
    }
    all
}

/// Returns the items of a list. Another type is logged and ignored.
fn list<'n>(sys: &System, map: &'n Node, place: &str, key: &str) -> &'n [Node] {
    let Some(node) = map.get(key).filter(|node| !node.is_null()) else { return &[] };
    node.as_seq().unwrap_or_else(|| {
        warning!(sys, "SmartOS: {place}.{key}: expected a list; ignored");
        &[]
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn converted(nics: Value, routes: Value, resolvers: Value, domain: Option<&str>) -> (Value, usize) {
        let sys = System::new("/nonexistent");
        let [nics, routes, resolvers] = [nics, routes, resolvers].map(|json| Node::from_json(&json));
        let of = |node: &Node| node.as_seq().unwrap_or_default().to_vec();
        let config = config(&sys, &of(&nics), &of(&routes), Some(&resolvers), domain);
        (config.to_json()["config"].clone(), sys.log().logged_warnings().len())
    }

    #[test]
    fn gateways_routes_and_resolvers_are_converted() {
        let (config, warnings) = converted(
            json!([
                {"interface": "net0", "mac": "90:b8:d0:00:00:01", "mtu": 1500, "ips": ["dhcp", "addrconf"]},
                {
                    "interface": "net1", "mac": "90:b8:d0:00:00:02", "primary": true, "nic_tag": "x",
                    "ips": ["192.0.2.5/24", "192.0.2.6/24", "2001:db8::5/64"],
                    "gateways": ["192.0.2.1", "192.0.2.2", "2001:db8::1"], "metric": 5,
                },
                {"interface": "net2", "ips": ["198.51.100.7/24"], "gateways": ["198.51.100.1"]},
            ]),
            json!([{"linklocal": false, "dst": "203.0.113.0/24", "gateway": "192.0.2.9"}]),
            json!(["192.0.2.53"]),
            Some("example.test"),
        );
        let routes = json!([{"network": "203.0.113.0/24", "gateway": "192.0.2.9"}]);
        let subnet = |address: &str, gateway: Option<&str>, metric: Option<u32>| {
            let mut subnet = json!({"type": "static", "address": address, "routes": routes});
            if let Some(gateway) = gateway {
                subnet["gateway"] = gateway.into();
            }
            if let Some(metric) = metric {
                subnet["metric"] = metric.into();
            }
            subnet
        };
        let expected = json!([
            {
                "type": "physical", "name": "net0", "mac_address": "90:b8:d0:00:00:01", "mtu": 1500,
                "subnets": [{"type": "dhcp4"}, {"type": "dhcp6"}],
            },
            {
                "type": "physical", "name": "net1", "mac_address": "90:b8:d0:00:00:02",
                "subnets": [
                    subnet("192.0.2.5/24", Some("192.0.2.1"), Some(5)),
                    subnet("192.0.2.6/24", None, Some(5)),
                    subnet("2001:db8::5/64", Some("2001:db8::1"), Some(5)),
                ],
            },
            {"type": "physical", "name": "net2", "subnets": [subnet("198.51.100.7/24", None, None)]},
            {"type": "nameserver", "address": ["192.0.2.53"], "search": ["example.test"]},
        ]);
        assert_eq!((config, warnings), (expected, 0));
    }

    #[test]
    fn routes_and_fields_are_not_copied_to_too_many_addresses() {
        let nic = json!({"interface": "net0", "ips": vec!["192.0.2.5/24"; 2000], "dns_search": vec!["a"; 2000], "metric": 5});
        let route = json!({"dst": "203.0.113.0/24", "gateway": "192.0.2.9"});
        let (config, warnings) = converted(json!([nic]), json!(vec![route; 2000]), Value::Null, None);
        let subnet = json!({"type": "static", "address": "192.0.2.5/24", "metric": 5});
        assert_eq!((&config[0]["subnets"], warnings), (&json!(vec![subnet; 2000]), 2));
    }
}
