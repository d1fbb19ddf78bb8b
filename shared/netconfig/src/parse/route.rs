//! Routes as version 1 and version 2 write them. Pure; an error has the expected form, never the value.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use config::{Node, join_key};

use crate::address::{NUMBER, Network, is_valid_gateway, parse_network, parse_number};
use crate::model::Route;

use super::builder::Builder;

/// The keys of a route, of both versions.
#[derive(Debug, Default)]
struct RawRoute<'a> {
    pub to: Option<&'a Node>,
    pub via: Option<&'a Node>,
    pub prefix: Option<&'a Node>,
    pub netmask: Option<&'a Node>,
    pub metric: Option<&'a Node>,
    pub table: Option<&'a Node>,
    pub mtu: Option<&'a Node>,
}

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
        let raw = RawRoute {
            to: keys.to.iter().find_map(|key| value(key)),
            via: value(keys.via),
            prefix: value("prefix").filter(|_| keys.has_netmask),
            netmask: value("netmask").filter(|_| keys.has_netmask),
            metric: value("metric"),
            table: value("table").filter(|_| self.name(node, path, "table").is_some()),
            mtu: mtu.as_ref(),
        };
        let problem = match parse_route(&raw) {
            Ok(route) => return Some(route),
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
fn parse_route(raw: &RawRoute<'_>) -> Result<Route, (&'static str, &'static str)> {
    let to = raw.to.and_then(Node::as_str).ok_or(("to", "a destination"))?;
    let via = raw.via.map(|via| via.as_str().ok_or(("via", "an IP address"))).transpose()?;
    let network = if to == "default" {
        let via = via.ok_or(("via", "a gateway, required with 'to: default'"))?;
        let any = match via.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.to_string(),
            Ok(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.to_string(),
            Err(_) => return Err(("via", "an IP address")),
        };
        Network { address: any, prefix: 0 }
    } else {
        parse_network(to, raw.prefix, raw.netmask).map_err(|wanted| ("to", wanted))?
    };
    if via.is_some_and(|via| !is_valid_gateway(via)) {
        return Err(("via", "an IP address"));
    }
    let metric = match raw.metric {
        None => None,
        Some(node) => Some(parse_number(node).ok_or(("metric", NUMBER))?.into()),
    };
    Ok(Route {
        network: network.address,
        prefix: network.prefix,
        gateway: via.map(str::to_string),
        metric,
        table: raw.table.cloned(),
        mtu: raw.mtu.cloned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_route_has_the_gateway_family() {
        let of = |via: Option<&str>| {
            let via = via.map(Node::from);
            let to = Node::from("default");
            parse_route(&RawRoute { to: Some(&to), via: via.as_ref(), ..RawRoute::default() })
        };
        assert_eq!(of(Some("fe80::1")).unwrap().network, "::");
        assert_eq!(of(Some("10.0.0.1")).unwrap().network, "0.0.0.0");
        assert_eq!(of(None).unwrap_err().0, "via");
        assert_eq!(of(Some("gw")).unwrap_err().0, "via");
    }
}
