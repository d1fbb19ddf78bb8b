//! Routes as version 1 and version 2 write them. Pure; an error has the expected form, never the value.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use config::{Node, join_key};
use system::Prefix;

use crate::address::{
    NUMBER, Network, is_gateway, is_ipv6, is_unspecified, is_valid_gateway, parse_network, parse_number,
};
use crate::model::Route;

use super::builder::Builder;
use super::options::ROUTE_ATTRIBUTES;
use super::scalar::{is_true, name_text};

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
    pub fn route(&mut self, node: &Node, path: &dyn Fn() -> String, keys: &RouteKeys) -> Option<Route> {
        let value = |key: &str| node.get(key).filter(|n| !n.is_null() && n.as_str() != Some(""));
        let problem = match parse_route(&value, keys) {
            Ok(mut route) => {
                route.on_link = value("on-link").is_some_and(is_true);
                let attributes = ROUTE_ATTRIBUTES.iter().map(|attribute| attribute.netplan);
                for key in attributes.filter(|key| value(key).is_some()) {
                    route.attributes.insert_some(key, self.number(node, &path(), key));
                }
                if let Some(via) = route.gateway.as_deref().filter(|via| is_other_family(via, &route.network))
                {
                    let problem =
                        format!("expected an {} address, as the destination is", family(!is_ipv6(via)));
                    let key = join_key(&path(), keys.via);
                    self.report_invalid(&value(keys.via).unwrap_or(node).at, &key, problem);
                    // netplan would reject it.
                    self.parsed.discarded.insert(key);
                }
                return Some(route);
            }
            Err(problem) => problem,
        };
        let (key, wanted) = match problem {
            ("to", wanted) => (keys.to[0], wanted),
            ("via", wanted) => (keys.via, wanted),
            other => other,
        };
        self.discard_value(value(key).unwrap_or(node), &join_key(&path(), key), format!("expected {wanted}"));
        None
    }
}

pub fn family(is_v6: bool) -> &'static str {
    if is_v6 { "IPv6" } else { "IPv4" }
}

/// Returns whether a gateway is of another address family; a keyword is of every family.
pub fn is_other_family(gateway: &str, address: &str) -> bool {
    !gateway.starts_with('_') && is_ipv6(gateway) != is_ipv6(address)
}

/// The types that every network service has, except for `unicast`, which is the default.
pub const TYPES: &[&str] =
    &["anycast", "blackhole", "broadcast", "local", "multicast", "prohibit", "throw", "unreachable"];

/// Returns the prefix length of a destination without one: a host, as in netplan. In version 1 the address of a network keeps upstream's
/// prefix.
fn bare_prefix(network: &Network, keys: &RouteKeys) -> u8 {
    let Ok(ip) = network.address.parse::<IpAddr>() else { return network.prefix };
    let prefix = Prefix::new(ip, network.prefix);
    let is_network = keys.has_netmask && prefix == prefix.network();
    match ip {
        ip if ip.is_unspecified() => 0,
        _ if is_network => network.prefix,
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Returns a normalized route. Fails with the invalid key and the expected form: a route without its table, type or scope would
/// be another route.
fn parse_route<'n>(
    value: &dyn Fn(&str) -> Option<&'n Node>,
    keys: &RouteKeys,
) -> Result<Route, (&'static str, &'static str)> {
    let to = keys.to.iter().find_map(|key| value(key));
    let to = to.and_then(Node::as_str).ok_or(("to", "a destination"))?;
    let via = value(keys.via).map(|via| via.as_str().ok_or(("via", "an IP address"))).transpose()?;
    let word = |key, wanted, is_valid: &dyn Fn(&str) -> bool| {
        let text = |node| name_text(node).filter(|text| is_valid(text)).ok_or((key, wanted));
        value(key).map(text).transpose()
    };
    word("table", "the number or name of a routing table", &is_valid_gateway)?;
    let from = word("from", "an IP address", &|text| text.parse::<IpAddr>().is_ok())?;
    let scope = word("scope", "global, link or host", &|text| ["global", "link", "host"].contains(&text))?;
    let kind = match keys.has_netmask {
        // In version 1 an entry of its own has the type `route`, and upstream ignores any other.
        true => value("type").and_then(name_text).filter(|text| TYPES.contains(&&**text)),
        false => word("type", "a route's type", &|text| text == "unicast" || TYPES.contains(&text))?,
    };
    let (scope, kind) = (scope.filter(|scope| scope != "global"), kind.filter(|kind| kind != "unicast"));
    let network = if to == "default" {
        // Without a gateway, the source tells the family.
        let of_family = match (via, &from) {
            (None, None) if scope.is_some() || kind.is_some() => "0.0.0.0",
            (None, Some(from)) if scope.is_some() || kind.is_some() => from,
            (via, _) => via.ok_or(("via", "a gateway, required with 'to: default'"))?,
        };
        let any = match of_family.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.to_string(),
            Ok(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.to_string(),
            Err(_) => return Err(("via", "an IP address")),
        };
        Network { address: any, prefix: 0 }
    } else {
        let mask = |key: &str| value(key).filter(|_| keys.has_netmask);
        let masks = [mask("prefix"), mask("netmask")];
        let network = parse_network(to, masks[0], masks[1]).map_err(|wanted| ("to", wanted))?;
        let is_bare = !to.contains('/') && masks == [None, None];
        Network { prefix: if is_bare { bare_prefix(&network, keys) } else { network.prefix }, ..network }
    };
    if via.is_some_and(|via| !is_gateway(via)) {
        return Err(("via", "an IP address"));
    }
    // As route(8) prints it: without a gateway, on the link.
    let on_link = via.is_some_and(is_unspecified).then(|| "link".to_string());
    let via = via.filter(|via| !is_unspecified(via));
    // The kernel rejects a destination with other bits, and networkd and NetworkManager clear them.
    let address = match network.address.parse().map(|address: IpAddr| Prefix::new(address, network.prefix)) {
        Ok(prefix) if prefix.network() != prefix => prefix.network().address.to_string(),
        _ => network.address,
    };
    let metric = value("metric").map(|node| parse_number(node).ok_or(("metric", NUMBER))).transpose()?;
    Ok(Route {
        network: address,
        prefix: network.prefix,
        gateway: via.map(str::to_string),
        metric: metric.map(Into::into),
        table: value("table").cloned(),
        kind,
        scope: scope.or(on_link),
        from,
        ..Route::default()
    })
}
