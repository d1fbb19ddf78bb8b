//! The one model between parsers and renderers: links with their addresses, routes and servers, plus what is
//! said for the whole machine. A parser fills it, a renderer reads it; neither knows the other.
//!
//! Scalars that only travel through (an mtu, a bond's option) stay [`Node`]s as they were written, because the
//! files show whether somebody quoted a number.

use config::{Map, Node};

use crate::address;

/// What a configuration says, whatever language it was written in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    /// Version 1 gives its global name servers to every link, version 2 has none.
    pub version: u8,
    /// In the order in which they were first named.
    pub links: Vec<Link>,
    /// Routes of no link in particular (version 1 `type: route`).
    pub routes: Vec<Route>,
    pub dns: Dns,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LinkKind {
    #[default]
    Physical,
    Loopback,
    Infiniband,
    Bond,
    Bridge,
    Vlan,
    /// Named as a bridge's port and described nowhere.
    Unknown,
}

/// One network interface.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Link {
    /// What other links call it: version 2's ID, else its name.
    pub id: String,
    /// What the kernel shall call it.
    pub name: String,
    pub kind: LinkKind,
    /// Lower case.
    pub mac: Option<String>,
    pub driver: Option<String>,
    /// The device id that renames compare beside the driver.
    pub device_id: Option<String>,
    pub mtu: Option<Node>,
    pub accept_ra: Option<bool>,
    pub wakeonlan: Option<bool>,
    pub optional: Option<bool>,
    /// Kept when the network service stops (netplan's `critical`).
    pub keep_configuration: Option<Node>,
    pub subnets: Vec<Subnet>,
    /// Its own servers, beside those of its subnets.
    pub dns: Option<Dns>,
    /// The bond that it is a member of, by id.
    pub bond: Option<String>,
    /// A bridge's ports, by id.
    pub ports: Vec<String>,
    pub vlan_id: Option<Node>,
    /// What a vlan lies on, as written: an id or a name.
    pub vlan_link: Option<String>,
    /// Options of bonds and bridges under their flat names (`bond-mode`, `bridge_fd`), spelled as written:
    /// renderers differ in the spellings that they take.
    pub params: Map,
    pub dhcp4: Dhcp,
    pub dhcp6: Dhcp,
    /// Policy rules, keys as netplan names them.
    pub rules: Vec<Node>,
}

impl Link {
    /// Returns whether this is a bond that the configuration describes, rather than a bond's member that is only known
    /// by its membership.
    pub fn is_bond(&self) -> bool {
        self.kind == LinkKind::Bond && self.bond.is_none()
    }
}

/// What version 2 says about DHCP beyond "on".
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dhcp {
    pub overrides: Map,
    /// VMware's `dhcp4domain` and `dhcp6domain`.
    pub domain: Option<Node>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dns {
    pub servers: Vec<String>,
    pub search: Vec<String>,
}

impl Dns {
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.search.is_empty()
    }
}

/// How addresses are come by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Method {
    #[default]
    Dhcp,
    Dhcp4,
    Dhcp6,
    Static,
    Static6,
    Slaac,
    Dhcp6Stateless,
    Dhcp6Stateful,
    Manual,
    Loopback,
    Auto,
}

impl Method {
    /// Every spelling of version 1, and what it means.
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

    pub fn is_static(self) -> bool {
        matches!(self, Method::Static | Method::Static6)
    }
}

/// One address, or one way to get addresses, with what hangs on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Subnet {
    pub method: Method,
    /// `auto` (also when nothing is said), `manual` or `hotplug`.
    pub control: Option<String>,
    /// As written, without its prefix.
    pub address: Option<String>,
    pub prefix: Option<u8>,
    pub gateway: Option<String>,
    pub dns: Dns,
    pub routes: Vec<Route>,
    pub metric: Option<Node>,
    pub mtu: Option<Node>,
    pub broadcast: Option<String>,
    pub pointopoint: Option<String>,
    pub scope: Option<String>,
    /// OpenStack's marks of a subnet of that family, where each family has one default gateway.
    pub is_openstack_ipv4: bool,
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

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Route {
    /// As written, without its prefix.
    pub network: String,
    pub prefix: u8,
    pub gateway: Option<String>,
    pub metric: Option<i64>,
    pub table: Option<Node>,
    pub mtu: Option<Node>,
}

impl Route {
    /// Returns whether this is the default route of its family.
    pub fn is_default(&self) -> bool {
        self.prefix == 0 && ["0.0.0.0", "::"].contains(&self.network.as_str())
    }
}
