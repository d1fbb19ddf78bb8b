//! Routes as version 1 and version 2 write them. Pure; an error has the expected form, never the value.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use config::{Node, join_key};

use crate::address::{NUMBER, Network, is_valid_gateway, parse_network, parse_number};
use crate::model::Route;

use super::builder::Builder;

/// The names of a route's keys: version 1's and version 2's.
pub struct RouteKeys {
    /// The destination, by the first of these that is set.
    pub to: &'static [&'static str],
    /// The gateway.
    pub via: &'static str,
    /// Whether a route may have `prefix` or `netmask`.
    pub has_netmask: bool,
}

impl Builder {
    /// Returns a route; an invalid one is reported and ignored.
    pub fn route(&mut self, node: &Node, path: &str, keys: &RouteKeys) -> Option<Route> {
        let value = |key: &str| node.get(key).filter(|n| !n.is_null() && n.as_str() != Some(""));
        let mtu = self.number(node, path, "mtu");
        let table = value("table").filter(|_| self.name(node, path, "table").is_some());
        let problem = match parse_route(&value, keys) {
            Ok(route) => return Some(Route { table: table.cloned(), mtu, ..route }),
            Err(problem) => problem,
        };
        let (key, wanted) = match problem {
            ("to", wanted) => (keys.to[0], wanted),
            ("via", wanted) => (keys.via, wanted),
            other => other,
        };
        self.discard(value(key).unwrap_or(node), &join_key(path, key), format!("expected {wanted}"));
        None
    }
}

/// Returns a normalized route. Fails with the invalid key and the expected form.
fn parse_route<'n>(
    value: &dyn Fn(&str) -> Option<&'n Node>,
    keys: &RouteKeys,
) -> Result<Route, (&'static str, &'static str)> {
    let to = keys.to.iter().find_map(|key| value(key));
    let to = to.and_then(Node::as_str).ok_or(("to", "a destination"))?;
    let via = value(keys.via).map(|via| via.as_str().ok_or(("via", "an IP address"))).transpose()?;
    let network = if to == "default" {
        let via = via.ok_or(("via", "a gateway, required with 'to: default'"))?;
        let any = match via.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.to_string(),
            Ok(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.to_string(),
            Err(_) => return Err(("via", "an IP address")),
        };
        Network { address: any, prefix: 0 }
    } else {
        let mask = |key: &str| value(key).filter(|_| keys.has_netmask);
        parse_network(to, mask("prefix"), mask("netmask")).map_err(|wanted| ("to", wanted))?
    };
    if via.is_some_and(|via| !is_valid_gateway(via)) {
        return Err(("via", "an IP address"));
    }
    let metric = value("metric").map(|node| parse_number(node).ok_or(("metric", NUMBER))).transpose()?;
    Ok(Route {
        network: network.address,
        prefix: network.prefix,
        gateway: via.map(str::to_string),
        metric: metric.map(Into::into),
        ..Route::default()
    })
}
