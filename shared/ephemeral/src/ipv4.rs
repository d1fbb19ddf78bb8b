//! IPv4 on the link: an existing lease, DHCP on a packet socket, or a link-local address.

use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use system::{Prefix, Result, info, random_number};

use crate::changed_link::{ChangedLink, FamilyState, Reachability};
use crate::dhcp::client::Identity;
use crate::dhcp_exchange::{Dhcp, apply_lease, assign_address};
use crate::lease::Lease;
use crate::lease_keeper::LeaseKeeper;

/// The method of configuring IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ipv4Method {
    /// By DHCP, requesting these options in addition to the default ones ([`crate::dhcp::message::option`]).
    Dhcp(&'static [u8]),
    /// With a self-assigned address of 169.254.0.0/16.
    LinkLocal,
}

/// IPv4 on a link.
#[derive(Debug)]
pub struct Ipv4 {
    pub state: FamilyState<Dhcp>,
    /// The first lease, once there is one.
    pub lease: Option<Lease>,
    keeper: Option<LeaseKeeper>,
}

impl Ipv4 {
    /// Starts the configuration. A failure becomes the state of this family.
    pub fn begin(method: Option<&Ipv4Method>, link: &mut ChangedLink<'_>) -> Ipv4 {
        let mut this = Ipv4 { state: FamilyState::Disabled, lease: None, keeper: None };
        let started = match method {
            None => Ok(FamilyState::Disabled),
            Some(Ipv4Method::LinkLocal) => assign_link_local(link).map(|()| FamilyState::Ready),
            Some(Ipv4Method::Dhcp(options)) => this.begin_dhcp(options, link),
        };
        this.state = started.unwrap_or_else(|e| FamilyState::Failed(e.to_string()));
        this
    }

    fn begin_dhcp(&mut self, options: &[u8], link: &ChangedLink<'_>) -> Result<FamilyState<Dhcp>> {
        let addresses = link.sys.link_addresses()?;
        if link.info.up
            && let Some((who, lease)) =
                crate::existing_lease::find(link.sys, link.info.index, &link.info.name, &addresses)
        {
            info!(link.sys, "{}: using the existing lease of {who}: {}", link.info.name, lease.address);
            self.lease = Some(lease);
            return Ok(FamilyState::Ready);
        }
        let identity = Identity {
            hardware: u8::try_from(link.info.kind).unwrap_or(1),
            address: link.info.hardware_address(),
            options: options.to_vec(),
        };
        if identity.address.is_empty() || link.info.broadcast.is_empty() {
            return Ok(FamilyState::Failed("the link has no hardware address".into()));
        }
        Dhcp::new(identity, link).map(FamilyState::Pending)
    }

    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            FamilyState::Pending(dhcp) => Some(dhcp.fd()),
            _ => None,
        }
    }

    /// Returns whether addresses are reachable. They are not while a lost lease is acquired again.
    pub fn reachability(&self) -> Reachability {
        match &self.keeper {
            Some(keeper) if !keeper.has_lease() => Reachability::Pending,
            _ => self.state.reachability(),
        }
    }

    /// Returns the time until there is something to do.
    pub fn next_wait(&self, link: &ChangedLink<'_>) -> Option<Duration> {
        let FamilyState::Pending(dhcp) = &self.state else { return None };
        Some(dhcp.next_wait(link))
    }

    pub fn advance(&mut self, link: &mut ChangedLink<'_>) {
        let FamilyState::Pending(dhcp) = &mut self.state else { return };
        let applied = match dhcp.step(link) {
            Ok(None) => return,
            Ok(Some(lease)) => apply_lease(&lease, link).map(|is_added| (lease, is_added)),
            Err(e) => Err(e),
        };
        self.state = match (applied, std::mem::replace(&mut self.state, FamilyState::Ready)) {
            (Err(e), _) => FamilyState::Failed(e.to_string()),
            (Ok((lease, is_added)), FamilyState::Pending(dhcp)) => {
                if is_added && lease.lifetime.is_some() {
                    self.keeper = LeaseKeeper::start(dhcp, lease.clone(), link);
                }
                self.lease = Some(lease);
                FamilyState::Ready
            }
            (Ok(_), state) => state,
        };
    }
}

/// Returns an address in the range of RFC 3927. It is used for seconds, so conflicts are not probed.
fn assign_link_local(link: &mut ChangedLink<'_>) -> Result<()> {
    let [a, b, ..] = random_number().to_ne_bytes();
    let address = Prefix::new(Ipv4Addr::new(169, 254, 1 + a % 254, b), 16);
    assign_address(link, address, Some(Ipv4Addr::new(169, 254, 255, 255)), None).map(drop)
}
