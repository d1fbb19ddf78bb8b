//! An ephemeral network for reading metadata, before the machine's own networking is configured: the configuration is in
//! the metadata. All changes are rolled back at its end, whatever the reason; those of a killed process are rolled back
//! by the next one ([`roll_back_stale`]).
//!
//! ```text
//! existing_lease a lease that networkd or NetworkManager has already         (facts)
//! dhcp/    message ◄─► bytes, the client as a state machine             (pure)
//! lease    what a server granted ──► addresses and routes               (pure)
//! ipv4, ipv6  the two families, brought up side by side on one link        (effects)
//! happy_eyeballs  URLs fetched in parallel, each once its family is up          (effects)
//! journal   what to change back, on disk before each change
//! ```
//!
//! Datasources describe the network ([`NetworkRequest`]) and fetch; they see no sockets, addresses or routes.

#![warn(missing_docs)]

pub mod dhcp;
mod existing_lease;
mod happy_eyeballs;
mod ipv4;
mod ipv6;
mod journal;
pub mod lease;
mod router_solicitation;

use std::os::fd::BorrowedFd;
use std::time::Duration;

use system::{Deadline, Error, Link, Request, Response, Result, System, debug, info};

pub use journal::roll_back_stale;
pub use lease::Lease;

use journal::{Journal, Rollback};

/// Below the run directory: one file for each link that is changed.
pub const JOURNAL_DIR: &str = "ephemeral";
/// The limit of every wait, whatever is configured: a boot has to finish.
const MAX_WAIT: Duration = Duration::from_secs(600);
/// The interval at which links and addresses are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// How IPv4 comes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ipv4Method {
    /// By DHCP, requesting these options in addition to the default ones ([`dhcp::message::option`]).
    Dhcp(&'static [u8]),
    /// With a self-assigned address of 169.254.0.0/16.
    LinkLocal,
}

/// How IPv6 comes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ipv6Method {
    /// The link's own address suffices: metadata is at a link-local address.
    LinkLocal,
    /// A route from a router's advertisement, and an address if that gives one.
    RouterAdvertisement,
}

/// The network that a datasource needs. Both families come up in parallel; the first one suffices.
#[derive(Debug, Clone)]
pub struct NetworkRequest<'a> {
    /// The current name of the interface.
    pub nic: &'a str,
    /// How IPv4 comes up, if it is used.
    pub v4: Option<Ipv4Method>,
    /// How IPv6 comes up, if it is used.
    pub v6: Option<Ipv6Method>,
    /// The directory of the journal: [`JOURNAL_DIR`] below the run directory.
    pub journal_dir: &'a str,
}

/// One family's progress.
#[derive(Debug)]
enum FamilyState<T> {
    Disabled,
    Pending(T),
    Ready,
    Failed(String),
}

/// A network that is up, until it is dropped.
pub struct EphemeralNetwork<'a> {
    sys: &'a System,
    journal_dir: String,
    link: Link,
    journal: Journal,
    v4: FamilyState<ipv4::PendingIpv4>,
    v6: FamilyState<ipv6::PendingIpv6>,
    lease: Option<Lease>,
    deadline: Deadline,
}

impl<'a> EphemeralNetwork<'a> {
    /// Brings a link up with what is wanted; returns as soon as one family is up. An error when none is by the deadline
    /// (ten minutes at most): then everything is as it was.
    pub fn up(
        sys: &'a System,
        wants: &NetworkRequest<'_>,
        deadline: Deadline,
    ) -> Result<EphemeralNetwork<'a>> {
        roll_back_stale(sys, wants.journal_dir);
        let mut this = EphemeralNetwork::begin(sys, wants, deadline)?;
        while !this.is_ready() {
            if this.has_failed() || this.deadline.is_expired() {
                return Err(Error::new(format!("no network on {}: {}", wants.nic, this.failure_reasons())));
            }
            this.poll_once(&[], this.deadline);
        }
        Ok(this)
    }

    fn begin(
        sys: &'a System,
        wants: &NetworkRequest<'_>,
        deadline: Deadline,
    ) -> Result<EphemeralNetwork<'a>> {
        let links = sys.links()?;
        let Some(link) = links.into_iter().find(|l| l.name == wants.nic) else {
            return Err(Error::new(format!("no such network interface: {}", wants.nic)));
        };
        let mut this = EphemeralNetwork {
            sys,
            journal_dir: wants.journal_dir.to_string(),
            journal: Journal::new(sys, link.index),
            link,
            v4: FamilyState::Disabled,
            v6: FamilyState::Disabled,
            lease: None,
            deadline: deadline.earlier(Deadline::after(MAX_WAIT)),
        };
        if let Some(wanted) = &wants.v4 {
            this.v4 = this.begin_v4(wanted);
        }
        if let Some(wanted) = wants.v6 {
            // Before the link goes up, since that is when the kernel asks for routers.
            this.v6 = this.begin_v6(wanted);
        }
        if !this.link.up {
            this.journal.push(sys, &this.journal_dir, Rollback::Down)?;
            sys.set_link_up(&this.link.name, true)?;
        }
        Ok(this)
    }

    /// The lease, once there is one.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The link's name: the zone for link-local addresses in URLs.
    pub fn nic(&self) -> &str {
        &self.link.name
    }

    /// Returns whether IPv4 is up.
    pub fn has_v4(&self) -> bool {
        matches!(self.v4, FamilyState::Ready)
    }

    /// Returns whether IPv6 is up.
    pub fn has_v6(&self) -> bool {
        matches!(self.v6, FamilyState::Ready)
    }

    fn is_ready(&self) -> bool {
        self.has_v4() || self.has_v6()
    }

    /// Which families are still on their way.
    fn pending(&self) -> (bool, bool) {
        (matches!(self.v4, FamilyState::Pending(_)), matches!(self.v6, FamilyState::Pending(_)))
    }

    fn has_failed(&self) -> bool {
        self.pending() == (false, false)
    }

    /// Fetches from the first of these that answers well, and says which that was. They are asked side by side, 150 ms
    /// apart, each as soon as its family is up; each has the tries that it asks for.
    pub fn fetch(&mut self, candidates: &[Request], deadline: Deadline) -> Result<(usize, Response)> {
        happy_eyeballs::fetch(self, candidates, deadline)
    }

    /// Goes on with both families and waits for the earliest of: something came for them or for these descriptors
    /// (to be read, or written where that is `true`), it is time to do something, the deadline.
    fn poll_once(&mut self, others: &[(BorrowedFd<'_>, bool)], deadline: Deadline) {
        if self.deadline.is_expired() {
            self.expire();
        }
        let before = self.pending();
        self.advance_v4();
        self.advance_v6();
        if self.pending() != before {
            // That is what the caller waits for.
            return;
        }
        let mut until = if self.has_failed() { deadline } else { deadline.earlier(self.deadline) };
        for wait in [self.v4_waits(), self.v6_waits()].into_iter().flatten() {
            until = until.earlier(Deadline::after(wait));
        }
        let mut fds = others.to_vec();
        fds.extend(self.v4_fd().map(|fd| (fd, false)));
        if !fds.is_empty() {
            self.sys.poll_fds(&fds, until);
        } else {
            self.sys.clock().sleep(until.remaining());
        }
    }

    /// A family that is not up by now is not waited for any longer.
    fn expire(&mut self) {
        if let FamilyState::Pending(v4) = &self.v4 {
            self.v4 = FamilyState::Failed(v4.waiting_for());
        }
        if let FamilyState::Pending(v6) = &self.v6 {
            self.v6 = FamilyState::Failed(v6.waiting_for().into());
        }
    }

    /// Why there is no network: the failure of each family, or what it waits for.
    fn failure_reasons(&self) -> String {
        let carrier = if self.link.carrier { "" } else { " (the link has no carrier)" };
        let v4 = match &self.v4 {
            FamilyState::Failed(why) => Some(format!("IPv4: {why}")),
            FamilyState::Pending(v4) => Some(format!("IPv4: {}{carrier}", v4.waiting_for())),
            _ => None,
        };
        let v6 = match &self.v6 {
            FamilyState::Failed(why) => Some(format!("IPv6: {why}")),
            FamilyState::Pending(v6) => Some(format!("IPv6: {}{carrier}", v6.waiting_for())),
            _ => None,
        };
        v4.into_iter().chain(v6).collect::<Vec<_>>().join("; ")
    }

    /// Makes one change, recorded before it is made. `false`: it was so already.
    fn change(&mut self, rollback: Rollback, make: impl FnOnce(&System) -> Result<bool>) -> Result<bool> {
        self.journal.push(self.sys, &self.journal_dir, rollback)?;
        let made = make(self.sys);
        if !matches!(made, Ok(true)) {
            self.journal.pop(self.sys, &self.journal_dir)?;
        }
        made
    }

    fn refresh_link(&mut self) {
        if let Ok(links) = self.sys.links()
            && let Some(link) = links.into_iter().find(|l| l.index == self.link.index)
        {
            let had = std::mem::replace(&mut self.link, link).carrier;
            if !had && self.link.carrier {
                debug!(self.sys, "{} has a carrier", self.link.name);
            }
        }
    }
}

impl Drop for EphemeralNetwork<'_> {
    fn drop(&mut self) {
        info!(self.sys, "{}: tearing down the ephemeral network", self.link.name);
        self.journal.roll_back(self.sys, &self.journal_dir);
    }
}

/// Returns the lease that a network service (networkd, NetworkManager) or dhclient has for a NIC, if the NIC still has its
/// address.
pub fn existing_lease(sys: &System, nic: &str) -> Option<Lease> {
    let link = sys.links().ok()?.into_iter().find(|link| link.name == nic)?;
    let addresses = sys.link_addresses().ok()?;
    let found = existing_lease::find(sys, link.index, nic, &addresses).map(|(_, lease)| lease);
    // NetworkManager may keep no file of its lease.
    let is_known = |lease: &Lease| lease.server.is_some();
    found.filter(is_known).or_else(|| existing_lease::of_dhclient(sys, link.index, nic, &addresses))
}

/// As [`EphemeralNetwork::fetch`], with the network that there is.
pub fn fetch(sys: &System, candidates: &[Request], deadline: Deadline) -> Result<(usize, Response)> {
    happy_eyeballs::fetch_without_link(sys, candidates, deadline.earlier(Deadline::after(MAX_WAIT)))
}

/// Whether one of these answers with the network that there is, asked side by side: then none has to be made.
pub fn find_responding(sys: &System, candidates: &[Request], deadline: Deadline) -> Option<usize> {
    happy_eyeballs::fetch_without_link(sys, candidates, deadline).ok().map(|(which, _)| which)
}
