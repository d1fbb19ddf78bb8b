//! A DHCP lease, and the addresses and routes that result from it. Pure.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use system::{Prefix, Route};

use crate::dhcp::message::{Message, option};

/// A smaller MTU is not valid for IPv4 (RFC 791); servers send one by mistake.
const MIN_MTU: u32 = 576;
/// The limit of routes: more are an attack or an error.
const MAX_ROUTES: usize = 256;

/// A granted address and its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The address and its prefix length.
    pub address: Prefix,
    /// The broadcast address, if the server sent one.
    pub broadcast: Option<Ipv4Addr>,
    /// The routers, by preference.
    pub routers: Vec<Ipv4Addr>,
    /// Classless static routes, which replace the routers (RFC 3442).
    pub routes: Option<Vec<(Prefix, Ipv4Addr)>>,
    /// Static routes beside the router, if there are no classless ones.
    pub static_routes: Vec<(Prefix, Ipv4Addr)>,
    /// The interface's MTU.
    pub mtu: Option<u32>,
    /// The server's address.
    pub server: Option<Ipv4Addr>,
    /// The domain name.
    pub domain: Option<String>,
    /// The lifetime of the lease; `None` if the server sent none or the lease is permanent.
    pub lifetime: Option<Duration>,
    /// All options as received, for those that only one cloud uses (245: Azure's wire server).
    pub options: Vec<(u8, Vec<u8>)>,
}

impl Lease {
    /// Returns the lease of an acknowledgement.
    ///
    /// # Errors
    /// Fails with the reason if the message has no usable address or an invalid subnet mask.
    pub fn from_message(message: &Message) -> Result<Lease, &'static str> {
        let given = message.yiaddr;
        if given.is_unspecified() || given.is_broadcast() || given.is_multicast() || given.is_loopback() {
            return Err("no usable address");
        }
        let length = match message.address_option(option::SUBNET_MASK) {
            Some(mask) => Prefix::length_of(mask).ok_or("non-contiguous subnet mask")?,
            None => classful_prefix_length(given),
        };
        let domain = message.option(option::DOMAIN_NAME).map(String::from_utf8_lossy).unwrap_or_default();
        let domain = domain.trim_end_matches('\0').trim();
        // Characters that no name has could have a meaning in a file or log.
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let routes = [option::CLASSLESS_ROUTES, option::MICROSOFT_CLASSLESS_ROUTES]
            .into_iter()
            .find_map(|code| message.option(code).map(parse_classless_routes))
            .filter(|routes| !routes.is_empty());
        let time = message.number_option(option::LEASE_TIME).filter(|s| *s != u32::MAX && *s != 0);
        Ok(Lease {
            address: Prefix::new(given, length),
            broadcast: message.address_option(option::BROADCAST_ADDRESS).filter(|a| !a.is_unspecified()),
            routers: message.addresses(option::ROUTER).into_iter().filter(|a| !a.is_unspecified()).collect(),
            routes,
            static_routes: static_routes(&message.addresses(option::STATIC_ROUTES)),
            mtu: message.number_option(option::INTERFACE_MTU).filter(|m| *m >= MIN_MTU),
            server: message.address_option(option::SERVER_IDENTIFIER),
            domain: (!domain.is_empty() && domain.chars().all(is_name)).then(|| domain.to_string()),
            lifetime: time.map(|s| Duration::from_secs(s.into())),
            options: message.options.clone(),
        })
    }

    /// Returns the value of an option of four bytes.
    pub fn four_bytes(&self, code: u8) -> Option<[u8; 4]> {
        let (_, value) = self.options.iter().find(|(given, _)| *given == code)?;
        value.as_slice().try_into().ok()
    }

    /// Returns the four bytes of option 245 as an address.
    pub fn wire_server(&self) -> Option<Ipv4Addr> {
        self.four_bytes(option::WIRE_SERVER).map(Into::into)
    }

    /// Returns the default gateway: the classless default route, else the first router.
    pub fn router(&self) -> Option<Ipv4Addr> {
        match &self.routes {
            Some(routes) => routes.iter().find(|(to, _)| to.length == 0).map(|(_, via)| *via),
            None => self.routers.first().copied(),
        }
    }

    /// Returns the address.
    pub fn ip(&self) -> Ipv4Addr {
        match self.address.address {
            IpAddr::V4(ip) => ip,
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        }
    }

    /// Returns the broadcast address: the server's, else the network's last; `None` in a network without room for one.
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        let last = match self.address.last_address() {
            IpAddr::V4(last) if self.address.length < 31 => Some(last),
            _ => None,
        };
        self.broadcast.or(last)
    }

    /// Returns the routes of the lease for the link with this index. `has_default`: the machine already has a default
    /// route, so the router option adds none.
    pub fn plan_routes(&self, link: u32, has_default: bool) -> Vec<Route> {
        let route = |to: Prefix, via: Option<Ipv4Addr>| Route {
            to,
            via: via.map(IpAddr::V4),
            link,
            source: Some(self.address.address),
            // Whether the next hop is in the lease's own network; with a /32, for example, it never is.
            on_link: via.is_some_and(|via| !self.address.contains(via.into())),
        };
        let mut routes = Vec::new();
        for (to, via) in self.routes.as_ref().unwrap_or(&self.static_routes) {
            let via = Some(*via).filter(|via| !via.is_unspecified() && *via != self.ip());
            // The route that the address implies.
            if via.is_some() || to.network() != self.address.network() {
                routes.push(route(to.network(), via));
            }
        }
        if let (None, Some(router)) = (&self.routes, self.routers.first())
            && !has_default
            && *router != self.ip()
        {
            routes.push(route(Prefix::default_route(false), Some(*router)));
        }
        // Routes without a next hop come first, because the others' next hops are reached through them.
        sort::sort_by_key(&mut routes, |r| (r.via.is_some(), std::cmp::Reverse(r.to.length)));
        routes.dedup_by_key(|r| r.to);
        routes
    }
}

/// Returns the mask of the address's class, for servers that send none (RFC 2132, 3.3 requires one).
fn classful_prefix_length(address: Ipv4Addr) -> u8 {
    match address.octets()[0] {
        0..128 => 8,
        128..192 => 16,
        _ => 24,
    }
}

/// RFC 2132 (5.8): pairs of a destination, which is a network of its class or a host, and a router. A default route is not allowed.
fn static_routes(pairs: &[Ipv4Addr]) -> Vec<(Prefix, Ipv4Addr)> {
    let route = |pair: &[Ipv4Addr]| {
        let network = Prefix::new(pair[0], classful_prefix_length(pair[0]));
        let to = if network == network.network() { network } else { Prefix::new(pair[0], 32) };
        (!pair[0].is_unspecified()).then_some((to, pair[1]))
    };
    pairs.chunks_exact(2).take(MAX_ROUTES).filter_map(route).collect()
}

/// RFC 3442: each route is a prefix length, as many bytes of the destination as it needs, and a router. After an invalid
/// route the remaining bytes cannot be interpreted and are ignored.
fn parse_classless_routes(mut value: &[u8]) -> Vec<(Prefix, Ipv4Addr)> {
    let mut routes = Vec::new();
    while let [length @ 0..=32, rest @ ..] = value {
        let used = usize::from(*length).div_ceil(8);
        let (Some(destination), Some(&[a, b, c, d])) = (rest.get(..used), rest.get(used..used + 4)) else {
            break;
        };
        let mut address = [0; 4];
        address[..used].copy_from_slice(destination);
        let to = Prefix::new(Ipv4Addr::from(address), *length).network();
        routes.push((to, Ipv4Addr::new(a, b, c, d)));
        if routes.len() == MAX_ROUTES {
            break;
        }
        value = &rest[used + 4..];
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dhcp::message::tests::message;

    fn lease(options: Vec<(u8, Vec<u8>)>) -> Lease {
        Lease::from_message(&message(options)).unwrap()
    }

    fn planned(lease: &Lease, has_default: bool) -> Vec<String> {
        let routes = lease.plan_routes(3, has_default);
        routes.iter().map(|r| format!("{r}{}", if r.on_link { " onlink" } else { "" })).collect()
    }

    #[test]
    fn non_contiguous_masks_are_rejected() {
        assert_eq!(lease(vec![]).address.to_string(), "192.0.2.7/24");
        assert_eq!(
            Lease::from_message(&message(vec![(1, vec![255, 0, 255, 0])])),
            Err("non-contiguous subnet mask")
        );
    }

    #[test]
    fn unusable_addresses_are_rejected() {
        for bytes in [[0, 0, 0, 0], [255, 255, 255, 255], [224, 0, 0, 1], [127, 0, 0, 1]] {
            let mut bad = message(vec![]);
            bad.yiaddr = bytes.into();
            assert!(Lease::from_message(&bad).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn every_used_option_of_a_lease_is_read() {
        let all = lease(vec![
            (1, vec![255, 255, 255, 0]),
            (3, vec![192, 0, 2, 1, 192, 0, 2, 2]),
            (15, b"a.example\0".to_vec()),
            (26, vec![5, 180]),
            (51, vec![0, 0, 14, 16]),
            (54, vec![192, 0, 2, 3]),
            (245, vec![168, 63, 129, 16]),
        ]);
        assert_eq!((all.domain.as_deref(), all.mtu), (Some("a.example"), Some(1460)));
        assert_eq!(all.lifetime, Some(Duration::from_secs(3600)));
        assert_eq!(all.server, Some(Ipv4Addr::new(192, 0, 2, 3)));
        assert_eq!(all.wire_server(), Some(Ipv4Addr::new(168, 63, 129, 16)));
        let bad = lease(vec![(15, b"a; rm".into()), (26, vec![0, 9]), (51, vec![255; 4]), (245, vec![1])]);
        assert_eq!(
            (bad.domain.as_deref(), bad.mtu, bad.lifetime, bad.wire_server()),
            (None, None, None, None)
        );
    }

    #[test]
    fn broadcast_address_defaults_to_the_last_of_the_subnet() {
        for (mask, given, expected) in [
            ([255, 255, 255, 0], None, Some([192, 0, 2, 255])),
            ([255, 255, 255, 0], Some([192, 0, 2, 63]), Some([192, 0, 2, 63])),
            ([255, 255, 255, 254], None, None),
            ([255, 255, 255, 255], None, None),
        ] {
            let mut options = vec![(1, mask.to_vec())];
            options.extend(given.map(|g: [u8; 4]| (28, g.to_vec())));
            assert_eq!(lease(options).broadcast(), expected.map(Ipv4Addr::from));
        }
    }

    #[test]
    fn classless_routes_override_the_router() {
        let mask = (1, vec![255, 255, 255, 0]);
        let router = (3, vec![192, 0, 2, 1]);
        let host = (1, vec![255, 255, 255, 255]);
        let far = (3, vec![10, 0, 0, 1]);
        for (name, options, has_default, expected) in [
            ("router", vec![mask.clone(), router.clone()], false, vec!["0.0.0.0/0 via 192.0.2.1"]),
            ("there is a default", vec![mask.clone(), router.clone()], true, vec![]),
            ("no router", vec![mask.clone()], false, vec![]),
            ("a /32", vec![host.clone(), far.clone()], false, vec!["0.0.0.0/0 via 10.0.0.1 onlink"]),
            ("itself", vec![host.clone(), (3, vec![192, 0, 2, 7])], false, vec![]),
            (
                "classless wins",
                vec![mask.clone(), router.clone(), (121, vec![16, 10, 9, 192, 0, 2, 5, 0, 192, 0, 2, 6])],
                true,
                vec!["10.9.0.0/16 via 192.0.2.5", "0.0.0.0/0 via 192.0.2.6"],
            ),
            (
                "on the link, and a next hop behind it",
                vec![host.clone(), (121, vec![0, 10, 0, 0, 1, 32, 10, 0, 0, 1, 0, 0, 0, 0])],
                false,
                vec!["10.0.0.1/32", "0.0.0.0/0 via 10.0.0.1 onlink"],
            ),
            (
                "the old number",
                vec![mask.clone(), router.clone(), (249, vec![0, 192, 0, 2, 9])],
                false,
                vec!["0.0.0.0/0 via 192.0.2.9"],
            ),
            (
                "static, a host and a network, beside the router",
                vec![
                    mask.clone(),
                    router.clone(),
                    (
                        33,
                        vec![
                            169, 254, 169, 254, 192, 0, 2, 5, 10, 0, 0, 0, 192, 0, 2, 6, 0, 0, 0, 0, 192, 0,
                            2, 9, 1,
                        ],
                    ),
                ],
                false,
                vec![
                    "169.254.169.254/32 via 192.0.2.5",
                    "10.0.0.0/8 via 192.0.2.6",
                    "0.0.0.0/0 via 192.0.2.1",
                ],
            ),
            (
                "static, and classless",
                vec![mask.clone(), (33, vec![10, 0, 0, 0, 192, 0, 2, 6]), (121, vec![0, 192, 0, 2, 9])],
                false,
                vec!["0.0.0.0/0 via 192.0.2.9"],
            ),
            (
                "what is cut or impossible",
                vec![mask.clone(), (121, vec![8, 10, 192, 0, 2, 5, 33, 1, 2, 3, 4, 5, 0, 1, 1, 1, 1])],
                false,
                vec!["10.0.0.0/8 via 192.0.2.5"],
            ),
            (
                "nothing usable",
                vec![mask.clone(), router, (121, vec![24, 1])],
                false,
                vec!["0.0.0.0/0 via 192.0.2.1"],
            ),
            (
                "bits beyond the length",
                vec![mask, (121, vec![4, 0xff, 192, 0, 2, 1])],
                false,
                vec!["240.0.0.0/4 via 192.0.2.1"],
            ),
        ] {
            assert_eq!(planned(&lease(options), has_default), expected, "{name}");
        }
    }
}
