//! Addresses and routes through rtnetlink(7), without `ip`. Only the running machine has them; below another root changes are
//! recorded and have no effect.

use std::fmt;
use std::io::{Error as IoError, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;

use crate::netlink::{CREATE, attribute, attributes, change, dump, read_u32};
use crate::{Effect, Result, ResultExt, System, debug};

const ADDRESS_HEADER: usize = 8;
const ROUTE_HEADER: usize = 12;
/// The lifetime "forever" in IFA_CACHEINFO.
const FOREVER: u32 = u32::MAX;
/// The next hop is on the link although no route says so (RTNH_F_ONLINK, linux/rtnetlink.h).
const ON_LINK: u32 = 4;
/// Routes that DHCP asked for (RTPROT_DHCP), as other clients mark theirs.
const FROM_DHCP: u8 = 16;

/// An address with its prefix length: `192.0.2.7/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// The address; the bits of the host may be set.
    pub address: IpAddr,
    /// The number of bits of the network part.
    pub length: u8,
}

impl Prefix {
    /// Returns the prefix with this length, at most 32 or 128.
    pub fn new(address: impl Into<IpAddr>, length: u8) -> Prefix {
        let address = address.into();
        Prefix { address, length: length.min(if address.is_ipv4() { 32 } else { 128 }) }
    }

    /// Returns the destination of a default route.
    pub fn default_route(ipv6: bool) -> Prefix {
        Prefix {
            address: if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() },
            length: 0,
        }
    }

    /// Returns the length of the prefix that a netmask selects; `None` if the mask is not contiguous.
    pub fn length_of(netmask: impl Into<IpAddr>) -> Option<u8> {
        ipnet::ip_mask_to_prefix(netmask.into()).ok()
    }

    /// Returns whether an address is in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.net().contains(&address)
    }

    /// Returns the network: the bits of the host are zero.
    pub fn network(&self) -> Prefix {
        Prefix { address: self.net().network(), length: self.length }
    }

    /// Returns the netmask.
    pub fn netmask(&self) -> IpAddr {
        self.net().netmask()
    }

    /// Returns the last address of the network, which is IPv4's broadcast address.
    pub fn last_address(&self) -> IpAddr {
        self.net().broadcast()
    }

    fn net(&self) -> IpNet {
        IpNet::new(self.address, self.length).unwrap_or_else(|_| IpNet::from(self.address))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for Prefix {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Prefix, ()> {
        let net: IpNet = text.parse().map_err(drop)?;
        Ok(Prefix { address: net.addr(), length: net.prefix_len() })
    }
}

/// An address of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkAddress {
    /// The number of the link.
    pub index: u32,
    /// Whether this is an IPv6 address.
    pub ipv6: bool,
    /// Whether the address has global scope.
    pub global: bool,
    /// Whether the address has no lifetime.
    pub permanent: bool,
    /// Whether duplicate address detection has not finished, or has failed (RFC 4862).
    pub tentative: bool,
    /// The address with its prefix length.
    pub prefix: Prefix,
    /// The broadcast address, if the link has one.
    pub broadcast: Option<Ipv4Addr>,
}

/// A unicast route of the main table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The destination.
    pub to: Prefix,
    /// The gateway; `None` if the destination is on the link.
    pub via: Option<IpAddr>,
    /// The number of the link.
    pub link: u32,
    /// The preferred source address.
    pub source: Option<IpAddr>,
    /// Whether the gateway is on the link even if no other route says so.
    pub on_link: bool,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to)?;
        self.via.map_or(Ok(()), |via| write!(f, " via {via}"))
    }
}

impl System {
    /// Returns the addresses of the machine's links; none below a root other than `/`.
    ///
    /// # Errors
    /// Fails if the kernel does not answer the request.
    pub fn link_addresses(&self) -> Result<Vec<LinkAddress>> {
        if !self.is_live() {
            return Ok(Vec::new());
        }
        let messages =
            dump(libc::RTM_GETADDR, &[0; ADDRESS_HEADER]).context("listing addresses of network links")?;
        Ok(messages.iter().filter_map(|m| address_of(m)).collect())
    }

    /// Adds an address to the link of that number; after `lifetime` the kernel removes it. Returns `false` if the link has the
    /// address already.
    ///
    /// # Errors
    /// Fails if the kernel refuses the change.
    pub fn add_address(
        &self,
        link: u32,
        prefix: Prefix,
        broadcast: Option<Ipv4Addr>,
        lifetime: Option<Duration>,
    ) -> Result<bool> {
        let body = address_body(link, prefix, broadcast, lifetime);
        let what = format!("adding address {prefix} to network link {link}");
        self.change_network(libc::RTM_NEWADDR, CREATE, &body, what)
    }

    /// Sets the lifetime of an address that [`System::add_address`] added.
    ///
    /// # Errors
    /// Fails if the kernel refuses the change.
    pub fn extend_address(&self, link: u32, prefix: Prefix, lifetime: Option<Duration>) -> Result<bool> {
        let body = address_body(link, prefix, None, lifetime);
        let what = format!("extending the lifetime of address {prefix} of network link {link}");
        self.change_network(libc::RTM_NEWADDR, libc::NLM_F_REPLACE as u16, &body, what)
    }

    /// Removes an address from a link. Returns `false` if the link does not have it.
    ///
    /// # Errors
    /// Fails if the kernel refuses the change.
    pub fn remove_address(&self, link: u32, prefix: Prefix) -> Result<bool> {
        let what = format!("removing address {prefix} from network link {link}");
        self.change_network(libc::RTM_DELADDR, 0, &address_body(link, prefix, None, None), what)
    }

    /// Returns the unicast routes of the main table; none below a root other than `/`.
    ///
    /// # Errors
    /// Fails if the kernel does not answer the request.
    pub fn routes(&self) -> Result<Vec<Route>> {
        if !self.is_live() {
            return Ok(Vec::new());
        }
        let messages = dump(libc::RTM_GETROUTE, &[0; ROUTE_HEADER]).context("listing routes")?;
        Ok(messages.iter().filter_map(|m| route_of(m)).collect())
    }

    /// Adds a route. Returns `false` if a route to the destination exists already; that is left unchanged.
    ///
    /// # Errors
    /// Fails if the kernel refuses the change.
    pub fn add_route(&self, route: &Route) -> Result<bool> {
        self.change_network(libc::RTM_NEWROUTE, CREATE, &route_body(route), format!("adding route {route}"))
    }

    /// Removes a route. Returns `false` if it does not exist.
    ///
    /// # Errors
    /// Fails if the kernel refuses the change.
    pub fn remove_route(&self, route: &Route) -> Result<bool> {
        self.change_network(libc::RTM_DELROUTE, 0, &route_body(route), format!("removing route {route}"))
    }

    /// Makes one change. Returns `false` if nothing had to be changed.
    fn change_network(&self, kind: u16, flags: u16, body: &[u8], what: String) -> Result<bool> {
        let mut changed = true;
        if self.may_set_kernel() {
            changed = match change(kind, flags, body) {
                Err(e) if is_already_done(&e) => false,
                other => other.map(|()| true).context(&what)?,
            };
        }
        debug!(self, "{what}{}", if changed { "" } else { ": unchanged" });
        self.record(Effect::Other { what });
        Ok(changed)
    }
}

/// Returns whether an error means that the object exists already, or does not exist any more.
fn is_already_done(e: &IoError) -> bool {
    const NOT_FOUND: [i32; 4] = [libc::EADDRNOTAVAIL, libc::ESRCH, libc::ENODEV, libc::ENXIO];
    e.kind() == ErrorKind::AlreadyExists || e.raw_os_error().is_some_and(|code| NOT_FOUND.contains(&code))
}

fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// struct ifaddrmsg, the address and its properties.
fn address_body(
    link: u32,
    prefix: Prefix,
    broadcast: Option<Ipv4Addr>,
    lifetime: Option<Duration>,
) -> Vec<u8> {
    let is_local = match prefix.address {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    };
    let scope = if is_local { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
    let mut body = vec![family(prefix.address), prefix.length, 0, scope];
    body.extend(link.to_ne_bytes());
    attribute(&mut body, libc::IFA_LOCAL, &bytes(prefix.address));
    attribute(&mut body, libc::IFA_ADDRESS, &bytes(prefix.address));
    if let Some(broadcast) = broadcast {
        attribute(&mut body, libc::IFA_BROADCAST, &broadcast.octets());
    }
    if let Some(time) = lifetime {
        let seconds = u32::try_from(time.as_secs()).unwrap_or(FOREVER).max(1);
        let mut times = [0_u8; 16];
        times[..4].copy_from_slice(&seconds.to_ne_bytes());
        times[4..8].copy_from_slice(&seconds.to_ne_bytes());
        attribute(&mut body, libc::IFA_CACHEINFO, &times);
    }
    body
}

/// struct rtmsg and its attributes.
fn route_body(route: &Route) -> Vec<u8> {
    let scope = if route.via.is_some() { libc::RT_SCOPE_UNIVERSE } else { libc::RT_SCOPE_LINK };
    let table = libc::RT_TABLE_MAIN;
    let mut body =
        vec![family(route.to.address), route.to.length, 0, 0, table, FROM_DHCP, scope, libc::RTN_UNICAST];
    body.extend(if route.on_link && route.via.is_some() { ON_LINK } else { 0 }.to_ne_bytes());
    if route.to.length > 0 {
        attribute(&mut body, libc::RTA_DST, &bytes(route.to.network().address));
    }
    if let Some(via) = route.via {
        attribute(&mut body, libc::RTA_GATEWAY, &bytes(via));
    }
    attribute(&mut body, libc::RTA_OIF, &route.link.to_ne_bytes());
    if let Some(source) = route.source {
        attribute(&mut body, libc::RTA_PREFSRC, &bytes(source));
    }
    body
}

fn address_of(message: &[u8]) -> Option<LinkAddress> {
    let (family, length, flags, scope) =
        (*message.first()?, *message.get(1)?, *message.get(2)?, *message.get(3)?);
    let mut flags = u32::from(flags);
    let (mut local, mut peer, mut broadcast) = (None, None, None);
    for (kind, value) in attributes(message.get(ADDRESS_HEADER..)?) {
        match kind {
            libc::IFA_LOCAL => local = ip(value),
            libc::IFA_ADDRESS => peer = ip(value),
            libc::IFA_BROADCAST => broadcast = ip(value),
            libc::IFA_FLAGS => flags = read_u32(value, 0)?,
            _ => {}
        }
    }
    Some(LinkAddress {
        index: read_u32(message, 4)?,
        ipv6: i32::from(family) == libc::AF_INET6,
        global: scope == libc::RT_SCOPE_UNIVERSE,
        permanent: flags & libc::IFA_F_PERMANENT != 0,
        tentative: flags & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) != 0
            && flags & libc::IFA_F_OPTIMISTIC == 0,
        prefix: Prefix::new(local.or(peer)?, length),
        broadcast: broadcast.and_then(|ip| if let IpAddr::V4(ip) = ip { Some(ip) } else { None }),
    })
}

fn route_of(message: &[u8]) -> Option<Route> {
    let (family, length, kind) = (*message.first()?, *message.get(1)?, *message.get(7)?);
    let mut table = u32::from(*message.get(4)?);
    let flags = read_u32(message, 8)?;
    let ipv6 = i32::from(family) == libc::AF_INET6;
    let mut to = Prefix::default_route(ipv6);
    let (mut via, mut link, mut source) = (None, 0, None);
    for (kind, value) in attributes(message.get(ROUTE_HEADER..)?) {
        match kind {
            libc::RTA_DST => to = Prefix::new(ip(value)?, length),
            libc::RTA_GATEWAY => via = ip(value),
            libc::RTA_OIF => link = read_u32(value, 0)?,
            libc::RTA_PREFSRC => source = ip(value),
            libc::RTA_TABLE => table = read_u32(value, 0)?,
            _ => {}
        }
    }
    let is_usual = kind == libc::RTN_UNICAST && table == u32::from(libc::RT_TABLE_MAIN);
    (is_usual && link != 0).then_some(Route { to, via, link, source, on_link: flags & ON_LINK != 0 })
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(value).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(value).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_with_wrong_lengths_do_not_panic() {
        for bytes in [&[][..], &[255; 15], &[0; 64], &[16, 0, 0, 0], &[255; 64]] {
            let _ = (address_of(bytes), route_of(bytes));
        }
    }

    #[test]
    fn prefixes_contain_the_addresses_of_their_network() {
        for (text, inside, outside, network) in [
            ("192.0.2.7/24", "192.0.2.255", "192.0.3.0", "192.0.2.0/24"),
            ("10.0.0.1/32", "10.0.0.1", "10.0.0.2", "10.0.0.1/32"),
            ("2001:db8::7/64", "2001:db8::1", "2001:db8:0:1::1", "2001:db8::/64"),
        ] {
            let prefix: Prefix = text.parse().unwrap();
            assert_eq!(prefix.to_string(), text);
            assert!(prefix.contains(inside.parse().unwrap()), "{text} {inside}");
            assert!(!prefix.contains(outside.parse().unwrap()), "{text} {outside}");
            assert_eq!(prefix.network().to_string(), network);
        }
        for text in ["", "1.2.3.4", "1.2.3.4/33", "1.2.3/8", "::1/129", "::1/x", "/8"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }

    #[test]
    fn contiguous_netmasks_have_a_length() {
        for (mask, expected) in [
            ("0.0.0.0", Some(0)),
            ("255.255.252.0", Some(22)),
            ("255.255.255.255", Some(32)),
            ("0.0.0.255", None),
            ("ffff:ffff::", Some(32)),
            ("ffff::ffff", None),
        ] {
            assert_eq!(Prefix::length_of(mask.parse::<IpAddr>().unwrap()), expected, "{mask}");
        }
    }

    #[test]
    fn routes_and_addresses_round_trip() {
        let route = Route {
            to: "198.51.100.9/24".parse().unwrap(),
            via: Some("192.0.2.1".parse().unwrap()),
            link: 7,
            source: Some("192.0.2.9".parse().unwrap()),
            on_link: true,
        };
        let read = route_of(&route_body(&route)).unwrap();
        assert_eq!(read, Route { to: route.to.network(), ..route });
        for (at, other) in [(7, libc::RTN_BLACKHOLE), (4, libc::RT_TABLE_LOCAL)] {
            let mut body = route_body(&route);
            body[at] = other;
            assert!(route_of(&body).is_none());
        }
        let address = address_of(&address_body(3, "fe80::1/64".parse().unwrap(), None, None)).unwrap();
        assert_eq!((address.index, address.ipv6, address.global), (3, true, false));
        assert_eq!(address.prefix.to_string(), "fe80::1/64");
    }

    #[test]
    fn loopback_address_is_listed() {
        let addresses = System::new("/").link_addresses().unwrap();
        assert!(addresses.iter().any(|a| a.prefix.to_string() == "127.0.0.1/8"), "{addresses:?}");
        assert!(System::new("/").routes().is_ok());
    }
}
