//! Addresses, masks and routes as users write them, normalized to an address text (kept as written) and a prefix length.
//! Pure; an error has the expected form, never the value, which may be a secret.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use config::{Node, Value};
use system::Prefix;

/// An address (host bits allowed) and its prefix length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    pub address: String,
    pub prefix: u8,
}

/// The expectation that [`parse_prefix`] reports for a mask that is not contiguous.
pub const CONTIGUOUS_MASK: &str = "a contiguous netmask";

pub fn is_ipv6(address: &str) -> bool {
    address.contains(':')
}

/// Returns whether this is a link-local IPv6 address.
pub fn is_link_local(address: &str) -> bool {
    address.parse::<Ipv6Addr>().is_ok_and(|a| a.is_unicast_link_local())
}

/// Returns whether this is 0.0.0.0 or ::, which no gateway has.
pub fn is_unspecified(address: &str) -> bool {
    address.parse::<IpAddr>().is_ok_and(|a| a.is_unspecified())
}

/// Returns the prefix length if the configuration has none: the common subnet size of the address family.
fn default_prefix(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 24 } else { 64 }
}

/// Parses `24`, `255.255.255.0`, `ffff:ffff::`; an inverted IPv4 mask (`0.0.0.255`) is accepted too.
pub fn parse_prefix(text: &str, ip: IpAddr) -> Result<u8, &'static str> {
    let max = if ip.is_ipv4() { 32 } else { 128 };
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().filter(|n| *n <= max).ok_or("a prefix length within the address's width");
    }
    match (ip, text.parse::<IpAddr>()) {
        (IpAddr::V4(_), Ok(IpAddr::V4(mask))) => Prefix::length_of(mask).or_else(|| Prefix::length_of(!mask)),
        (IpAddr::V6(_), Ok(IpAddr::V6(mask))) => Prefix::length_of(mask),
        _ => return Err("a prefix length or a netmask of the address's family"),
    }
    .ok_or(CONTIGUOUS_MASK)
}

/// Parses a number or text, as `prefix` and `netmask` are written.
fn parse_prefix_node(given: &Node, ip: IpAddr) -> Result<u8, &'static str> {
    match &given.value {
        Value::Int(_) | Value::Str(_) => parse_prefix(given.scalar_text().unwrap_or_default().trim(), ip),
        _ => Err("a prefix length or a netmask"),
    }
}

/// Returns an address with its prefix: the one after a slash, else `prefix`, else `netmask`, else the family's default.
pub fn parse_network(
    raw: &str,
    prefix: Option<&Node>,
    netmask: Option<&Node>,
) -> Result<Network, &'static str> {
    let (address, behind) = match raw.split_once('/') {
        Some((address, behind)) => (address, Some(behind)),
        None => (raw, None),
    };
    let ip: IpAddr = address.parse().map_err(|_| "an IP address with an optional /prefix")?;
    // 0 is the length of a default route's prefix, not a missing value.
    let prefix = prefix.filter(|n| n.as_int() == Some(0) || !n.is_falsy());
    let prefix = match (behind, prefix, netmask.filter(|n| !n.is_falsy())) {
        (Some(behind), ..) => parse_prefix(behind, ip)?,
        (None, Some(prefix), _) => parse_prefix_node(prefix, ip)?,
        (None, None, Some(mask)) => parse_prefix_node(mask, ip)?,
        _ => default_prefix(ip),
    };
    Ok(Network { address: address.to_string(), prefix })
}

/// Returns whether a gateway's text is an address (optionally with a zone) or a single word.
pub fn is_valid_gateway(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:%-".contains(&b))
}

/// Returns whether a gateway is an address, optionally with a zone, or a keyword of networkd (`_dhcp4`).
pub fn is_gateway(text: &str) -> bool {
    let address = text.split('%').next().unwrap_or_default();
    is_valid_gateway(text) && (address.parse::<IpAddr>().is_ok() || text.starts_with('_'))
}

/// Returns whether a name server is an address, optionally with what systemd-resolved takes: `1.1.1.1:53%eth0#name`.
pub fn is_name_server(text: &str) -> bool {
    let address = text.split(['%', '#']).next().unwrap_or_default();
    address.parse::<IpAddr>().is_ok() || address.parse::<SocketAddr>().is_ok()
}

/// Returns an integer, also one that is written as text.
pub fn parse_integer(node: &Node) -> Option<i64> {
    match &node.value {
        Value::Int(n) => i64::try_from(*n).ok(),
        Value::Bool(b) => Some(i64::from(*b)),
        Value::Str(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// The expectation that is reported for a value that [`parse_number`] rejects.
pub const NUMBER: &str = "a number from 0 to 4294967295";

/// Returns a number of 32 bits, as MTUs and metrics are, also one that is written as text.
pub fn parse_number(node: &Node) -> Option<u32> {
    parse_integer(node).filter(|_| node.as_bool().is_none()).and_then(|n| n.try_into().ok())
}

/// Returns whether a gateway is within a subnet; `None` if one of them is not an address.
pub fn is_in_subnet(gateway: &str, subnet: &str, prefix: u8) -> Option<bool> {
    let (gateway, subnet): (IpAddr, IpAddr) = (gateway.parse().ok()?, subnet.parse().ok()?);
    Some(Prefix::new(subnet, prefix).contains(gateway))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_read_from_address_prefix_or_netmask() {
        for (address, prefix, netmask, expected) in [
            ("10.0.0.5/8", None, None, Ok(8)),
            ("10.0.0.5/255.255.0.0", None, None, Ok(16)),
            ("10.0.0.5/0.0.0.255", None, None, Ok(24)),
            ("10.0.0.5", Some(Node::from(20)), Some(Node::from("255.0.0.0")), Ok(20)),
            ("10.0.0.5", None, Some(Node::from("255.255.255.255")), Ok(32)),
            ("10.0.0.5", None, Some(Node::from("0.0.0.0")), Ok(0)),
            ("0.0.0.0", Some(Node::from(0)), None, Ok(0)),
            ("::", Some(Node::from(0)), Some(Node::from("ffff::")), Ok(0)),
            ("10.0.0.5", Some(Node::from("")), None, Ok(24)),
            ("10.0.0.5", None, None, Ok(24)),
            ("2001:DB8::1", None, Some(Node::from("ffff:ffff::")), Ok(32)),
            ("2001:DB8::1", None, None, Ok(64)),
            ("2001:DB8::1/129", None, None, Err(())),
            ("10.0.0.5/255.0.255.0", None, None, Err(())),
            ("10.0.0.05/8", None, None, Err(())),
            ("10.0.0/8", None, None, Err(())),
            ("", None, None, Err(())),
            ("10.0.0.1/", None, None, Err(())),
        ] {
            let found = parse_network(address, prefix.as_ref(), netmask.as_ref());
            assert_eq!(found.map(|n| n.prefix).map_err(drop), expected, "{address}");
        }
        assert_eq!(parse_network("2001:DB8::0010/64", None, None).unwrap().address, "2001:DB8::0010");
    }

    #[test]
    fn gateway_is_compared_with_the_subnet() {
        assert_eq!(is_in_subnet("10.0.0.1", "10.0.0.77", 24), Some(true));
        assert_eq!(is_in_subnet("10.0.1.1", "10.0.0.77", 24), Some(false));
        assert_eq!(is_in_subnet("172.16.0.1", "10.0.0.77", 0), Some(true));
        assert_eq!(is_in_subnet("fe80::1", "2001:db8::5", 64), Some(false));
        assert_eq!(is_in_subnet("fe80::1", "10.0.0.1", 8), Some(false));
        assert_eq!(is_in_subnet("fe80::1", "2001:db8::5", 0), Some(true));
        assert_eq!(is_in_subnet("10.0.0.1", "10.0.0.1", 64), Some(true));
        assert_eq!(is_in_subnet("10.0.0.2", "10.0.0.1", 64), Some(false));
        assert_eq!(is_in_subnet("x", "10.0.0.1", 8), None);
    }
}
