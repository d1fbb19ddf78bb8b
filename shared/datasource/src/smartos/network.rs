//! The network configuration of SmartOS: `sdc:nics`, `sdc:routes`, `sdc:resolvers` and `sdc:dns_domain` become version 1.

use config::{Map, Node};
use system::{System, warning};

use crate::document;
use crate::document::v1;

/// Fields of a NIC that each of its static addresses gets.
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
    let routes = routes_of(sys, routes);
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
        let mut subnets = Vec::new();
        for (j, ip) in list(sys, nic, &place, "ips").iter().enumerate() {
            let Some(ip) = ip.as_str().filter(|ip| !ip.is_empty()) else {
                warning!(sys, "SmartOS: {place}.ips[{j}]: expected an address, dhcp or addrconf; ignored");
                continue;
            };
            subnets.push(Node::from(match ip {
                "dhcp" => v1::map(&[("type", "dhcp4")]),
                "addrconf" => v1::map(&[("type", "dhcp6")]),
                _ => static_subnet(sys, nic, &place, ip, &mut has_gateway, &routes),
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

fn static_subnet(
    sys: &System,
    nic: &Node,
    place: &str,
    ip: &str,
    has_gateway: &mut [bool; 2],
    routes: &[Node],
) -> Map {
    let mut subnet = v1::map(&[("type", "static"), ("address", ip)]);
    for field in SUBNET_FIELDS {
        subnet.insert_some(field, nic.get(field).filter(|value| !value.is_null()).cloned());
    }
    // An IPv4 address in IPv6 notation has both characters.
    let family = |address: &str| usize::from(!address.contains('.'));
    let of = family(ip);
    if nic.get("primary").is_some_and(|primary| !primary.is_falsy()) && !has_gateway[of] {
        let gateways = list(sys, nic, place, "gateways").iter().filter_map(Node::as_str);
        let mut gateways = gateways.filter(|gateway| gateway.contains(if of == 0 { '.' } else { ':' }));
        if let Some(gateway) = gateways.next() {
            has_gateway[of] = true;
            subnet.insert("gateway", gateway);
        }
    }
    if !routes.is_empty() {
        subnet.insert("routes", routes.to_vec());
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
}
