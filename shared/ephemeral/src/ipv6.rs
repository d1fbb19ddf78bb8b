//! IPv6 on the link. Addresses and routes are the kernel's to make; it is helped where a setting keeps it from that,
//! and routers are asked when it has no reason to ask them.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use system::{Error, LinkAddress, Prefix, Protocol, Result, debug};

use crate::journal::{self, Rollback};
use crate::router_solicitation::{ALL_ROUTERS_ETHERNET, eui64_link_local, solicitation};
use crate::{EphemeralNetwork, FamilyState, POLL_INTERVAL};

/// Between solicitations, and how many there are (RFC 4861, 10). A router that has not answered the last one is waited for
/// only where IPv4 does not work either.
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(4);
const MAX_SOLICITATIONS: u32 = 3;
/// A kernel that makes a link-local address has begun to by then: it may take a second to note the carrier.
const KERNEL_ADDRESS_TIMEOUT: Duration = Duration::from_millis(2000);

/// IPv6 under way.
#[derive(Debug)]
pub struct PendingIpv6 {
    needs_route: bool,
    began: Duration,
    sent: u32,
    next: Duration,
    has_local: bool,
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

impl EphemeralNetwork<'_> {
    pub(crate) fn begin_v6(&mut self, wanted: crate::Ipv6Method) -> FamilyState<PendingIpv6> {
        match self.prepare_v6(wanted) {
            Ok(side) => side,
            Err(e) => FamilyState::Failed(e.to_string()),
        }
    }

    fn prepare_v6(&mut self, wanted: crate::Ipv6Method) -> Result<FamilyState<PendingIpv6>> {
        let name = self.link.name.clone();
        match journal::read_sysctl(self.sys, &name, "disable_ipv6").as_deref() {
            None => return Ok(FamilyState::Failed("IPv6 is not available".into())),
            Some("1") => {
                return Ok(FamilyState::Failed(format!(
                    "it is disabled on {name} (net.ipv6.conf.{name}.disable_ipv6)"
                )));
            }
            Some(_) => {}
        }
        let needs_route = wanted == crate::Ipv6Method::RouterAdvertisement;
        if needs_route {
            // 2: advertisements count even where packets are forwarded.
            for (key, value) in [("accept_ra", "2"), ("autoconf", "1")] {
                let before = journal::read_sysctl(self.sys, &name, key).unwrap_or_default();
                if before != value && !before.is_empty() {
                    let rollback = Rollback::Sysctl(key.into(), before);
                    self.change(rollback, |sys| {
                        journal::write_sysctl(sys, &name, key, value).map(|()| true)
                    })?;
                }
            }
        }
        let began = self.sys.clock().elapsed();
        Ok(FamilyState::Pending(PendingIpv6 {
            needs_route,
            began,
            sent: 0,
            next: Duration::ZERO,
            has_local: false,
        }))
    }

    /// How long there is nothing to do for it.
    pub(crate) fn v6_waits(&self) -> Option<Duration> {
        matches!(self.v6, FamilyState::Pending(_)).then_some(POLL_INTERVAL)
    }

    pub(crate) fn advance_v6(&mut self) {
        if !matches!(self.v6, FamilyState::Pending(_)) {
            return;
        }
        let FamilyState::Pending(mut v6) = std::mem::replace(&mut self.v6, FamilyState::Disabled) else {
            return;
        };
        self.v6 = match self.step_v6(&mut v6) {
            Ok(true) => FamilyState::Ready,
            Ok(false) => FamilyState::Pending(v6),
            Err(e) => FamilyState::Failed(e.to_string()),
        };
    }

    fn step_v6(&mut self, v6: &mut PendingIpv6) -> Result<bool> {
        let now = self.sys.clock().elapsed().saturating_sub(v6.began);
        let index = self.link.index;
        let addresses = self.sys.link_addresses()?;
        let mine: Vec<&LinkAddress> = addresses.iter().filter(|a| a.index == index && a.ipv6).collect();
        let local = mine.iter().find(|a| is_local(a.prefix.address));
        let Some(local) = local else {
            if now >= KERNEL_ADDRESS_TIMEOUT
                && let Some(address) = eui64_link_local(&self.link.hardware_address())
            {
                // A setting (addr_gen_mode) keeps the kernel from making one.
                let address = Prefix::new(address, 64);
                self.change(Rollback::Address(address), |sys| sys.add_address(index, address, None, None))?;
            }
            return Ok(false);
        };
        v6.has_local = !local.tentative;
        if local.tentative || !v6.needs_route {
            return Ok(v6.has_local);
        }
        // Where addresses are DHCPv6's to give (EC2), the router gives the way alone, and the link's own address will do.
        if !mine.iter().any(|a| a.global && a.tentative)
            && self.sys.routes()?.iter().any(|r| r.link == index && r.via.is_some() && r.to.address.is_ipv6())
        {
            return Ok(true);
        }
        if v6.sent < MAX_SOLICITATIONS && now >= v6.next {
            v6.sent += 1;
            v6.next = now + SOLICITATION_INTERVAL;
            if let IpAddr::V6(from) = local.prefix.address {
                self.solicit_routers(from)?;
            }
        } else if v6.sent == MAX_SOLICITATIONS && now >= v6.next && self.has_v4() {
            return Err(Error::new("no router advertisement received"));
        }
        Ok(false)
    }

    fn solicit_routers(&self, from: Ipv6Addr) -> Result<()> {
        let hardware = self.link.hardware_address();
        let to: &[u8] = if hardware.len() == 6 { &ALL_ROUTERS_ETHERNET } else { &self.link.broadcast };
        let socket = self.sys.packet_socket(self.link.index, Protocol::Ipv6)?;
        match socket.send(&solicitation(from, &hardware), to) {
            Ok(()) => debug!(self.sys, "{}: asked for IPv6 routers", self.link.name),
            Err(e) => debug!(self.sys, "{}: asking for IPv6 routers: {e}", self.link.name),
        }
        Ok(())
    }
}

fn is_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(a) if a.is_unicast_link_local())
}
