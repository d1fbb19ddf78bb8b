//! Routes as version 1 and version 2 write them. Pure; an error says what was expected, never what was found.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use config::Node;

use crate::address::{Network, is_valid_gateway, parse_integer, parse_network};
use crate::model::Route;

/// The keys of a route, of both versions.
#[derive(Debug, Default)]
pub struct RawRoute<'a> {
    pub to: Option<&'a str>,
    pub via: Option<&'a str>,
    pub prefix: Option<&'a Node>,
    pub netmask: Option<&'a Node>,
    pub metric: Option<&'a Node>,
    pub table: Option<&'a Node>,
    pub mtu: Option<&'a Node>,
}

/// Returns a normalized route. Fails with the invalid key and what was expected.
pub fn parse_route(raw: &RawRoute<'_>) -> Result<Route, (&'static str, &'static str)> {
    let to = raw.to.ok_or(("to", "a destination"))?;
    let network = if to == "default" {
        let via = raw.via.ok_or(("via", "a gateway, required with 'to: default'"))?;
        let any = match via.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.to_string(),
            Ok(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.to_string(),
            Err(_) => return Err(("via", "an IP address")),
        };
        Network { address: any, prefix: 0 }
    } else {
        parse_network(to, raw.prefix, raw.netmask).map_err(|wanted| ("to", wanted))?
    };
    if raw.via.is_some_and(|via| !is_valid_gateway(via)) {
        return Err(("via", "an IP address"));
    }
    let metric = match raw.metric {
        None => None,
        Some(node) => Some(parse_integer(node).ok_or(("metric", "an integer"))?),
    };
    Ok(Route {
        network: network.address,
        prefix: network.prefix,
        gateway: raw.via.map(str::to_string),
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
        let of = |via| parse_route(&RawRoute { to: Some("default"), via, ..RawRoute::default() });
        assert_eq!(of(Some("fe80::1")).unwrap().network, "::");
        assert_eq!(of(Some("10.0.0.1")).unwrap().network, "0.0.0.0");
        assert_eq!(of(None).unwrap_err().0, "via");
        assert_eq!(of(Some("gw")).unwrap_err().0, "via");
    }
}
