//! IPv6 on the link. The kernel creates addresses and routes; settings that prevent it are changed, and routers are
//! solicited if the kernel does not solicit them.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use system::{Error, LinkAddress, Prefix, Protocol, Result, Route, debug};

use crate::changed_link::{ChangedLink, FamilyState};
use crate::journal::{self, Rollback};
use crate::router_solicitation::{ALL_ROUTERS_ETHERNET, eui64_link_local, solicitation};

/// The interval and number of solicitations (RFC 4861, 10). After the last one, an advertisement is awaited only if IPv4
/// does not work either.
// Wait: the temporary network | the answer to a router solicitation, of which there are three | -
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(4);
const MAX_SOLICITATIONS: u32 = 3;
/// The time after which a kernel that creates a link-local address has begun to do so: it may notice the carrier a second late.
// Wait: the temporary network | the kernel to begin with a link-local address | -
const KERNEL_ADDRESS_TIMEOUT: Duration = Duration::from_millis(2000);

/// The method of configuring IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ipv6Method {
    /// The link's own address suffices: the metadata has a link-local address.
    LinkLocal,
    /// A route from a router advertisement, and an address if the advertisement provides one.
    RouterAdvertisement,
}

/// The progress of IPv6.
#[derive(Debug)]
pub struct PendingIpv6 {
    needs_route: bool,
    began: Duration,
    sent: u32,
    next: Duration,
    has_local: bool,
    /// The networks that were on the link before.
    on_link: Vec<Prefix>,
}

impl PendingIpv6 {
    pub fn waiting_for(&self) -> &'static str {
        match (self.has_local, self.needs_route) {
            (false, _) => "the link has no usable link-local address",
            (true, true) => "no router advertisement received",
            (true, false) => "not ready",
        }
    }
}

/// Starts the configuration by this method. A failure becomes the state of the family.
pub fn begin(method: Option<Ipv6Method>, link: &mut ChangedLink<'_>) -> FamilyState<PendingIpv6> {
    match method.map(|method| prepare(method, link)) {
        None => FamilyState::Disabled,
        Some(Ok(pending)) => FamilyState::Pending(pending),
        Some(Err(e)) => FamilyState::Failed(e.to_string()),
    }
}

impl PendingIpv6 {
    /// Makes the next step if it is due, and returns whether IPv6 is up. If IPv4 works, routers are awaited no longer than
    /// their solicitations take.
    pub fn step(&mut self, link: &mut ChangedLink<'_>, has_v4: bool) -> Result<bool> {
        let now = link.sys.clock().elapsed().saturating_sub(self.began);
        let index = link.info.index;
        let addresses = link.sys.link_addresses()?;
        let mine: Vec<&LinkAddress> = addresses.iter().filter(|a| a.index == index && a.ipv6).collect();
        let local = mine.iter().find(|a| is_local(a.prefix.address));
        let Some(local) = local else {
            if now >= KERNEL_ADDRESS_TIMEOUT
                && let Some(address) = eui64_link_local(&link.info.hardware_address())
            {
                // A setting (addr_gen_mode) prevents the kernel from creating one.
                let address = Prefix::new(address, 64);
                link.change(Rollback::Address(address), |sys| sys.add_address(index, address, None, None))?;
            }
            return Ok(false);
        };
        self.has_local = !local.tentative;
        if local.tentative || !self.needs_route {
            return Ok(self.has_local);
        }
        // If DHCPv6 assigns addresses (EC2), the router provides the route only, and the link-local address suffices.
        // An advertisement may also have nothing but the network of the link, in which the metadata is. The kernel adds this after
        // the routes. A network that was there before counts once a router has had the time to answer.
        let has_answered =
            |r: &Route| r.via.is_some() || !self.on_link.contains(&r.to) || self.sent > 0 && now >= self.next;
        if !mine.iter().any(|a| a.global && a.tentative) && routes(link)?.iter().any(has_answered) {
            return Ok(true);
        }
        if self.sent < MAX_SOLICITATIONS && now >= self.next {
            self.sent += 1;
            self.next = now + SOLICITATION_INTERVAL;
            if let IpAddr::V6(from) = local.prefix.address {
                solicit_routers(from, link)?;
            }
        } else if self.sent == MAX_SOLICITATIONS && now >= self.next && has_v4 {
            return Err(Error::new("no router advertisement received"));
        }
        Ok(false)
    }
}

fn prepare(method: Ipv6Method, link: &mut ChangedLink<'_>) -> Result<PendingIpv6> {
    let name = link.info.name.clone();
    match journal::read_sysctl(link.sys, &name, "conf/disable_ipv6").as_deref() {
        None => return Err(Error::new("IPv6 is not available")),
        Some("1") => {
            let message = format!("it is disabled on {name} (net.ipv6.conf.{name}.disable_ipv6)");
            return Err(Error::new(message));
        }
        Some(_) => {}
    }
    let needs_route = method == Ipv6Method::RouterAdvertisement;
    if needs_route {
        // 2: advertisements are accepted even if packets are forwarded. The kernel ignores routes in them (RFC 4191) by default.
        for (key, value) in
            [("conf/accept_ra", "2"), ("conf/autoconf", "1"), ("conf/accept_ra_rt_info_max_plen", "128")]
        {
            let before = journal::read_sysctl(link.sys, &name, key).unwrap_or_default();
            if before != value && !before.is_empty() {
                journal::write_sysctl(link.sys, &name, key, value)?;
            }
        }
    }
    let began = link.sys.clock().elapsed();
    let on_link = routes(link)?.iter().map(|route| route.to).collect();
    Ok(PendingIpv6 { needs_route, began, sent: 0, next: Duration::ZERO, has_local: false, on_link })
}

/// Returns the IPv6 routes of the link, except those that every link has.
fn routes(link: &ChangedLink<'_>) -> Result<Vec<Route>> {
    let mut routes = link.sys.routes()?;
    let is_common = |to: Prefix| is_local(to.address) || to.address.is_multicast();
    routes.retain(|r| r.link == link.info.index && r.to.address.is_ipv6() && !is_common(r.to));
    Ok(routes)
}

fn solicit_routers(from: Ipv6Addr, link: &ChangedLink<'_>) -> Result<()> {
    let hardware = link.info.hardware_address();
    let to: &[u8] = if hardware.len() == 6 { &ALL_ROUTERS_ETHERNET } else { &link.info.broadcast };
    let socket = link.sys.packet_socket(link.info.index, Protocol::Ipv6)?;
    match socket.send(&solicitation(from, &hardware), to) {
        Ok(()) => debug!(link.sys, "{}: sent a router solicitation", link.info.name),
        Err(e) => debug!(link.sys, "{}: sending a router solicitation: {e}", link.info.name),
    }
    Ok(())
}

fn is_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(a) if a.is_unicast_link_local())
}
