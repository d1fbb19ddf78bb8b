//! The model between parsers and renderers: links with their addresses, routes and name servers, plus the global
//! ones. Parsers fill it and renderers read it; neither knows the other.
//!
//! Scalars that are only copied (an MTU, a bond's option) stay [`Node`]s, because the rendered files show whether a
//! number was quoted.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use config::{Map, Node};
use system::Prefix;

use crate::address;
use crate::glob::glob_match;

/// A network configuration, independent of the format it was written in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    /// The version of the source: 1 or 2. Only version 1 applies global name servers to every link.
    pub version: u8,
    /// The links, in the order in which they are first mentioned.
    pub links: Vec<Link>,
    /// Routes that belong to no link (version 1, `type: route`).
    pub routes: Vec<Route>,
    /// Name servers and search domains that belong to no link (version 1, `type: nameserver`).
    pub dns: Dns,
}

impl Model {
    /// Returns the model with a link for each NIC that fits a link's patterns, for formats that have no patterns. A link that
    /// no NIC fits stays as it is.
    pub fn resolved(&self) -> Cow<'_, Model> {
        let nics: HashMap<&str, &Link> =
            self.links.iter().filter(|l| !l.matched.is_empty()).map(|l| (&*l.id, l)).collect();
        if nics.is_empty() {
            return Cow::Borrowed(self);
        }
        let nics_of =
            |id: &String| nics.get(id.as_str()).map_or_else(|| vec![id.clone()], |link| link.matched.clone());
        let mut model = Model { links: Vec::new(), ..self.clone() };
        for link in &self.links {
            let mut link = link.clone();
            link.ports = link.ports.iter().flat_map(nics_of).collect();
            link.vlan_link = link.vlan_link.as_ref().and_then(|id| nics_of(id).into_iter().next());
            link.match_names.retain(|_| link.matched.is_empty());
            match &*std::mem::take(&mut link.matched) {
                [] => model.links.push(link),
                nics => model.links.extend(nics.iter().map(|nic| Link {
                    id: nic.clone(),
                    name: nic.clone(),
                    ..link.clone()
                })),
            }
        }
        Cow::Owned(model)
    }

    /// Moves each global route to the subnet that reaches its gateway, or else to the first one of its family whose addresses a
    /// server gives; a link-local gateway is on any link. Returns whether every route has such a subnet.
    pub fn place_routes(&mut self) -> bool {
        let mut is_complete = true;
        let links = self.links.iter_mut().filter(|link| link.kind != LinkKind::Loopback);
        let mut subnets: Vec<&mut Subnet> = links.flat_map(|link| &mut link.subnets).collect();
        let networks = Networks::of(subnets.iter().map(|subnet| &**subnet));
        let mut others = HashMap::new();
        for route in std::mem::take(&mut self.routes) {
            let gateway = route.gateway.as_deref().unwrap_or_default();
            let kind = (gateway.is_empty(), address::is_ipv6(gateway), address::is_link_local(gateway));
            let place = networks.position(gateway).or_else(|| {
                *others.entry(kind).or_insert_with(|| {
                    let (is_empty, inet6, is_local) = kind;
                    let rank = |subnet: &Subnet| match subnet.is_ipv6() == inet6 {
                        _ if is_empty || subnet.address.is_none() && subnet.method == Method::Manual => 0,
                        true if is_local || subnet.address.is_none() => 2,
                        _ => u8::from(is_local),
                    };
                    let ranks = subnets.iter().enumerate().map(|(i, subnet)| (rank(subnet), i));
                    // The first of the highest rank.
                    let best = ranks.reduce(|best, next| if next.0 > best.0 { next } else { best });
                    best.filter(|(rank, _)| *rank > 0).map(|(_, i)| i)
                })
            });
            match place {
                Some(i) => subnets[i].routes.push(route),
                None => is_complete = false,
            }
        }
        is_complete
    }
}

/// The type of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LinkKind {
    /// An Ethernet NIC.
    #[default]
    Physical,
    /// The loopback interface.
    Loopback,
    /// An InfiniBand NIC.
    Infiniband,
    /// A bond, or a link that is only known as a bond's member; see [`Link::is_bond`].
    Bond,
    /// A bridge.
    Bridge,
    /// A VLAN.
    Vlan,
    /// A bridge's port or the parent of a VLAN that the configuration does not describe.
    Unknown,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Link {
    /// The name that other links refer to: the ID in version 2, the interface's name in version 1.
    pub id: String,
    /// The interface's name in the kernel.
    pub name: String,
    /// The type of the link.
    pub kind: LinkKind,
    /// The MAC address, in lower case: of a NIC, the one that identifies it.
    pub mac: Option<String>,
    /// Whether that is not the permanent address of the NIC, the only one that netplan compares.
    pub has_temporary_mac: bool,
    /// The MAC address that a NIC gets in place of its own, in lower case.
    pub set_mac: Option<String>,
    /// Patterns of names in place of `name`: the link stands for every NIC whose name fits one of them (`*` and `?`), and which
    /// has the MAC address and the driver. Empty for a link with a known name, which `name` is.
    pub match_names: Vec<String>,
    /// The names of the NICs that the system has and that fit `match_names`.
    pub matched: Vec<String>,
    /// The names of the kernel drivers to match, of which the NIC has one; empty for any driver.
    pub drivers: Vec<String>,
    /// The PCI or USB device ID; renaming compares it in addition to the driver.
    pub device_id: Option<String>,
    /// The MTU in bytes.
    pub mtu: Option<Node>,
    /// Whether IPv6 router advertisements are accepted.
    pub accept_ra: Option<bool>,
    /// Whether Wake-on-LAN is enabled.
    pub wakeonlan: Option<bool>,
    /// Whether the boot may continue without the link being online.
    pub optional: Option<bool>,
    /// Whether the configuration stays when the network service stops (`critical` in netplan).
    pub keep_configuration: Option<Node>,
    /// Addresses and ways to get them.
    pub subnets: Vec<Subnet>,
    /// The link's own name servers, in addition to those of its subnets.
    pub dns: Option<Dns>,
    /// The ID of the bond that this link is a member of.
    pub bond: Option<String>,
    /// The IDs of a bridge's ports.
    pub ports: Vec<String>,
    /// The VLAN ID.
    pub vlan_id: Option<Node>,
    /// The parent device of a VLAN as written: an ID or a name.
    pub vlan_link: Option<String>,
    /// Options of bonds and bridges by their ifupdown names (`bond-mode`, `bridge_fd`), spelled as written: renderers
    /// differ in the spellings that they accept.
    pub params: Map,
    /// Settings of DHCPv4.
    pub dhcp4: Dhcp,
    /// Settings of DHCPv6.
    pub dhcp6: Dhcp,
    /// Routing policy rules, with netplan's keys.
    pub rules: Vec<Node>,
    /// Further keys of version 2: those of [`crate::parse::SETTINGS`].
    pub settings: Map,
}

impl Link {
    /// Returns whether this is a bond that the configuration describes, rather than a bond's member that is only known
    /// by its membership.
    pub fn is_bond(&self) -> bool {
        self.kind == LinkKind::Bond && self.bond.is_none()
    }

    /// Returns whether the network service makes the device.
    pub fn is_made(&self) -> bool {
        self.is_bond() || matches!(self.kind, LinkKind::Bridge | LinkKind::Vlan)
    }

    /// Returns whether the patterns may fit the NIC of one of these links, which is named or has a MAC address. That link takes
    /// precedence.
    pub fn is_broader_than_any<'a>(&self, others: impl IntoIterator<Item = &'a Link>) -> bool {
        let fits = |name: &str| self.match_names.iter().any(|pattern| glob_match(pattern, name));
        let precedes = |other: &Link| {
            let is_nic = other.bond.is_some()
                || matches!(other.kind, LinkKind::Physical | LinkKind::Infiniband | LinkKind::Unknown);
            is_nic && if other.match_names.is_empty() { fits(&other.name) } else { other.mac.is_some() }
        };
        !self.match_names.is_empty() && self.mac.is_none() && others.into_iter().any(precedes)
    }

    /// Returns whether a server or router gives addresses of a family, and with them a default route.
    pub fn is_dynamic(&self, inet6: bool) -> bool {
        let is_dhcp4 = |s: &Subnet| matches!(s.method, Method::Dhcp | Method::Dhcp4);
        self.subnets.iter().any(|s| if inet6 { s.is_ipv6() && !s.method.is_static() } else { is_dhcp4(s) })
    }

    /// Returns the link with one gateway and one metric for each family, for formats with one place for it: other gateways become
    /// routes, and so does one with another metric than DHCP's.
    pub fn with_single_gateways(&self) -> Cow<'_, Link> {
        let mut link = Cow::Borrowed(self);
        for inet6 in [false, true] {
            let is_dynamic = self.is_dynamic(inet6);
            let mut first = None;
            for (i, subnet) in self.subnets.iter().enumerate() {
                let is_other = is_dynamic && subnet.method.is_static() && subnet.metric.is_some();
                let of_family = |gateway: &&String| address::is_ipv6(gateway) == inet6;
                let Some(gateway) = subnet.gateway.as_ref().filter(of_family) else {
                    if is_other && subnet.gateway.is_none() && subnet.is_ipv6() == inet6 {
                        link.to_mut().subnets[i].metric = None;
                    }
                    continue;
                };
                if first.is_none() && !is_other {
                    first = Some(gateway);
                    continue;
                }
                let subnet = &mut link.to_mut().subnets[i];
                let metric = subnet.metric.take().as_ref().and_then(address::parse_number).map(Into::into);
                subnet.gateway = None;
                if first != Some(gateway) || is_other {
                    subnet.routes.insert(0, Route { metric, ..Route::default_by(gateway.clone()) });
                }
            }
        }
        link
    }

    /// Returns the name servers and search domains of the subnets, the link's own, and then the global ones, each once.
    pub fn all_dns(&self, global: &Dns) -> Dns {
        Dns::merged(self.subnets.iter().map(|s| &s.dns).chain(&self.dns).chain([global]))
    }
}

/// Settings of DHCP in version 2 other than enabling it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dhcp {
    /// `dhcp4-overrides` or `dhcp6-overrides`.
    pub overrides: Map,
    /// VMware's `dhcp4domain` or `dhcp6domain`.
    pub domain: Option<Node>,
}

/// Name servers and search domains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dns {
    /// Addresses of name servers, in order of preference.
    pub servers: Vec<String>,
    /// Search domains, in order of preference.
    pub search: Vec<String>,
}

impl Dns {
    /// Returns all servers and all search domains, each once.
    pub fn merged<'a>(all: impl Iterator<Item = &'a Dns> + Clone) -> Dns {
        let list = |of: fn(&'a Dns) -> &'a Vec<String>| {
            let mut known = HashSet::new();
            all.clone().flat_map(of).filter(|text| known.insert(*text)).cloned().collect()
        };
        Dns { servers: list(|dns| &dns.servers), search: list(|dns| &dns.search) }
    }

    /// Returns whether there are neither servers nor search domains.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.search.is_empty()
    }
}

/// The method by which a subnet gets its addresses: the values of `type` in version 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Method {
    /// DHCP; IPv4 unless the renderer treats it as both families.
    #[default]
    Dhcp,
    /// DHCPv4.
    Dhcp4,
    /// DHCPv6, stateful or stateless as the network service chooses.
    Dhcp6,
    /// A static address of either family.
    Static,
    /// A static IPv6 address.
    Static6,
    /// IPv6 stateless address autoconfiguration.
    Slaac,
    /// IPv6 autoconfiguration with other settings from DHCPv6.
    Dhcp6Stateless,
    /// Addresses from DHCPv6.
    Dhcp6Stateful,
    /// The interface is configured by other means.
    Manual,
    /// The loopback interface's method.
    Loopback,
    /// ifupdown's `auto`.
    Auto,
}

impl Method {
    /// The spellings of version 1.
    pub const NAMES: &'static [(&'static str, Method)] = &[
        ("dhcp", Method::Dhcp),
        ("dhcp4", Method::Dhcp4),
        ("dhcp6", Method::Dhcp6),
        ("static", Method::Static),
        ("static6", Method::Static6),
        ("ipv6_slaac", Method::Slaac),
        ("ipv6_dhcpv6-stateless", Method::Dhcp6Stateless),
        ("ipv6_dhcpv6-stateful", Method::Dhcp6Stateful),
        ("manual", Method::Manual),
        ("loopback", Method::Loopback),
        ("auto", Method::Auto),
    ];

    /// Returns whether the configuration gives the address.
    pub fn is_static(self) -> bool {
        matches!(self, Method::Static | Method::Static6)
    }
}

/// An address or a way to get addresses, with the settings that belong to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Subnet {
    /// The method by which the addresses are obtained.
    pub method: Method,
    /// The event at which the interface is brought up: `auto` (the default), `manual` or `hotplug`.
    pub control: Option<String>,
    /// The address as written, without its prefix.
    pub address: Option<String>,
    /// The length of the prefix in bits.
    pub prefix: Option<u8>,
    /// The address of the default gateway.
    pub gateway: Option<String>,
    /// Name servers and search domains.
    pub dns: Dns,
    /// Routes through this subnet.
    pub routes: Vec<Route>,
    /// The metric of the routes.
    pub metric: Option<Node>,
    /// The MTU in bytes.
    pub mtu: Option<Node>,
    /// The broadcast address.
    pub broadcast: Option<String>,
    /// The peer's address of a point-to-point link.
    pub pointopoint: Option<String>,
    /// The scope of the address.
    pub scope: Option<String>,
    /// Whether the subnet comes from OpenStack and is IPv4: the link may have one default gateway of that family.
    pub is_openstack_ipv4: bool,
    /// Whether the subnet comes from OpenStack and is IPv6: the link may have one default gateway of that family.
    pub is_openstack_ipv6: bool,
}

impl Subnet {
    /// Returns whether the subnet configures IPv6.
    pub fn is_ipv6(&self) -> bool {
        match self.method {
            Method::Dhcp6
            | Method::Static6
            | Method::Slaac
            | Method::Dhcp6Stateless
            | Method::Dhcp6Stateful => true,
            Method::Static => self.address.as_deref().is_some_and(address::is_ipv6),
            _ => false,
        }
    }
}

/// The positions of subnets with known addresses, by the length of their prefix and their network: there may be thousands of
/// both subnets and gateways.
pub struct Networks {
    lengths: Vec<u8>,
    positions: HashMap<(u8, IpAddr), usize>,
}

impl Networks {
    /// Finds the networks of the subnets.
    pub fn of<'a>(subnets: impl IntoIterator<Item = &'a Subnet>) -> Networks {
        let mut networks = Networks { lengths: Vec::new(), positions: HashMap::new() };
        for (i, subnet) in subnets.into_iter().enumerate() {
            let address = subnet.address.as_deref().and_then(|address| address.parse::<IpAddr>().ok());
            if let Some((address, length)) = address.zip(subnet.prefix) {
                let network = Prefix::new(address, length).network().address;
                networks.positions.entry((length, network)).or_insert(i);
                if !networks.lengths.contains(&length) {
                    networks.lengths.push(length);
                }
            }
        }
        networks
    }

    /// Returns the position of the first subnet that a gateway is in.
    pub fn position(&self, gateway: &str) -> Option<usize> {
        let gateway: IpAddr = gateway.parse().ok()?;
        let of_length = |length: &u8| {
            self.positions.get(&(*length, Prefix::new(gateway, *length).network().address)).copied()
        };
        self.lengths.iter().filter_map(of_length).min()
    }
}

/// A static route.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Route {
    /// The destination network as written, without its prefix.
    pub network: String,
    /// The length of the destination's prefix in bits.
    pub prefix: u8,
    /// The gateway's address.
    pub gateway: Option<String>,
    /// The metric.
    pub metric: Option<i64>,
    /// The number or name of the routing table.
    pub table: Option<Node>,
    /// The type, as ip-route(8) names it: `blackhole`, for example; `None` for `unicast`.
    pub kind: Option<String>,
    /// The scope: `link` or `host`; `None` for `global`.
    pub scope: Option<String>,
    /// The source address of packets that take the route.
    pub from: Option<String>,
    /// Whether the gateway is reachable without a route to it.
    pub on_link: bool,
    /// Further attributes by their names in version 2: those of [`crate::parse::ROUTE_ATTRIBUTES`].
    pub attributes: Map,
}

impl Route {
    /// Returns the default route by a gateway.
    pub fn default_by(gateway: String) -> Route {
        let network = if address::is_ipv6(&gateway) { "::" } else { "0.0.0.0" }.into();
        Route { network, gateway: Some(gateway), ..Route::default() }
    }

    /// Returns whether this is the default route of its family.
    pub fn is_default(&self) -> bool {
        self.prefix == 0 && ["0.0.0.0", "::"].contains(&self.network.as_str())
    }
}
