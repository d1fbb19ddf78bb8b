//! Routes as version 1 and version 2 write them. Pure; an error says what was expected, never what was found.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use config::Node;

use crate::address::{NUMBER, Network, is_valid_gateway, parse_network, parse_number};
use crate::model::Route;

/// The keys of a route, of both versions.
#[derive(Debug, Default)]
pub struct RawRoute<'a> {
    pub to: Option<&'a Node>,
    pub via: Option<&'a Node>,
    pub prefix: Option<&'a Node>,
    pub netmask: Option<&'a Node>,
    pub metric: Option<&'a Node>,
    pub table: Option<&'a Node>,
    pub mtu: Option<&'a Node>,
}

/// Returns a normalized route. Fails with the invalid key and what was expected.
pub fn parse_route(raw: &RawRoute<'_>) -> Result<Route, (&'static str, &'static str)> {
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
