//! An ephemeral network for reading metadata, before the machine's own networking is configured: the configuration is in
//! the metadata. All changes are rolled back at its end, also after an error; those of a killed process are rolled back
//! by the next one ([`roll_back_stale`]).
//!
//! ```text
//! existing_lease  a lease that networkd or NetworkManager already has     (facts)
//! dhcp/           message ◄─► bytes, the client as a state machine        (pure)
//! lease           a server's grant ──► addresses and routes               (pure)
//! lease_keeper    extends the lease while the network is needed           (effects)
//! changed_link    a link, and the journal that each change goes through   (effects)
//! ipv4, ipv6      the two families, brought up side by side on one link   (effects)
//! happy_eyeballs  URLs fetched in parallel, each once its family is up    (effects)
//! journal         changes to revert, on disk before each change
//! ```
//!
//! Datasources describe the network ([`NetworkRequest`]) and fetch; they see no sockets, addresses or routes.

#![warn(missing_docs)]

mod changed_link;
pub mod dhcp;
mod dhcp_exchange;
mod existing_lease;
mod happy_eyeballs;
mod ipv4;
mod ipv6;
mod journal;
pub mod lease;
mod lease_keeper;
mod router_solicitation;

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use system::{Deadline, Error, Request, Result, System};

pub use happy_eyeballs::FirstResponse;
pub use ipv4::Ipv4Method;
pub use ipv6::Ipv6Method;
pub use journal::roll_back_stale;
pub use lease::Lease;

use changed_link::{ChangedLink, FamilyState, POLL_INTERVAL, Reachability};
use ipv4::Ipv4;
use ipv6::PendingIpv6;

/// The directory below the run directory with one file for each changed link.
pub const JOURNAL_DIR: &str = "ephemeral";
/// The limit of every wait, also if a longer one is configured: a boot has to finish.
// Wait: the temporary network | whatever is configured, at most | -
const MAX_WAIT: Duration = Duration::from_secs(600);

/// The network that a datasource needs. Both families come up in parallel; the first one suffices.
#[derive(Debug, Clone)]
pub struct NetworkRequest<'a> {
    /// The current name of the interface.
    pub nic: &'a str,
    /// The configuration method of IPv4, if it is used.
    pub v4: Option<Ipv4Method>,
    /// The configuration method of IPv6, if it is used.
    pub v6: Option<Ipv6Method>,
    /// The directory of the journal: [`JOURNAL_DIR`] below the run directory.
    pub journal_dir: &'a str,
}

/// A network that is up until the value is dropped.
pub struct EphemeralNetwork<'a> {
    // Before the link: its thread ends before the changes are reverted.
    v4: Ipv4,
    link: ChangedLink<'a>,
    v6: FamilyState<PendingIpv6>,
    deadline: Deadline,
}

impl<'a> EphemeralNetwork<'a> {
    /// Brings a link up as requested; returns as soon as one family is up.
    ///
    /// # Errors
    /// Fails if the link does not exist or cannot be changed, or if no family is up by the deadline, at most ten minutes. All
    /// changes are then rolled back.
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
        let journal = link.index.to_string();
        let mut link = ChangedLink::new(sys, link, wants.journal_dir, journal);
        link.record_settings();
        let v4 = Ipv4::begin(wants.v4.as_ref(), &mut link);
        // Before the link is set up, because the kernel then solicits routers.
        let v6 = ipv6::begin(wants.v6, &mut link);
        link.set_up()?;
        Ok(EphemeralNetwork { link, v4, v6, deadline: deadline.earlier(Deadline::after(MAX_WAIT)) })
    }

    /// Returns the first lease, once there is one. If it is lost, the next one may have another address.
    pub fn lease(&self) -> Option<&Lease> {
        self.v4.lease.as_ref()
    }

    /// Returns the link's name: the zone for link-local addresses in URLs.
    pub fn nic(&self) -> &str {
        &self.link.info.name
    }

    /// Returns whether IPv4 is up.
    pub fn has_v4(&self) -> bool {
        self.v4.state.is_ready()
    }

    /// Returns whether a family is up, so that names can be resolved.
    fn is_ready(&self) -> bool {
        self.has_v4() || self.v6.is_ready()
    }

    /// Returns the families that are still coming up.
    fn pending(&self) -> (bool, bool) {
        (self.v4.state.is_pending(), self.v6.is_pending())
    }

    fn has_failed(&self) -> bool {
        self.pending() == (false, false)
    }

    /// Fetches from the candidates and returns the first successful response. They are requested in parallel, 150 ms
    /// apart, each as soon as its family is up, and retried as each request says.
    ///
    /// # Errors
    /// Fails if all candidates failed, or if none answered by the deadline, at most ten minutes. The message has the last error
    /// of each and the problems of the network.
    pub fn fetch(&mut self, candidates: &[Request], deadline: Deadline) -> Result<FirstResponse> {
        let deadline = deadline.earlier(Deadline::after(MAX_WAIT));
        happy_eyeballs::fetch(self.link.sys, Some(self), candidates, deadline)
    }

    /// Continues with both families and waits for the earliest of: data for them or for these descriptors (readable, or
    /// writable where the value is `true`), the time of the next step, the deadline.
    fn poll_once(&mut self, others: &[(BorrowedFd<'_>, bool)], deadline: Deadline) {
        if self.deadline.is_expired() {
            self.expire();
        }
        let before = self.pending();
        self.v4.advance(&mut self.link);
        let has_v4 = self.has_v4();
        self.v6.advance(|pending| pending.step(&mut self.link, has_v4));
        if self.pending() != before {
            // The caller waits for these descriptors.
            return;
        }
        let mut until = if self.has_failed() { deadline } else { deadline.earlier(self.deadline) };
        let v6_wait = self.v6.is_pending().then_some(POLL_INTERVAL);
        for wait in [self.v4.next_wait(&self.link), v6_wait].into_iter().flatten() {
            until = until.earlier(Deadline::after(wait));
        }
        let mut fds = others.to_vec();
        fds.extend(self.v4.fd().map(|fd| (fd, false)));
        if !fds.is_empty() {
            self.link.sys.poll_fds(&fds, until);
        } else {
            self.link.sys.clock().sleep(until.remaining());
        }
    }

    /// Stops waiting for a family that is not up by now.
    fn expire(&mut self) {
        if let FamilyState::Pending(v4) = &self.v4.state {
            self.v4.state = FamilyState::Failed(v4.waiting_for());
        }
        if let FamilyState::Pending(v6) = &self.v6 {
            self.v6 = FamilyState::Failed(v6.waiting_for().into());
        }
    }

    /// Returns why there is no network: the failure of each family, or what it waits for.
    fn failure_reasons(&self) -> String {
        let carrier = if self.link.info.carrier { "" } else { " (the link has no carrier)" };
        let v4 = self.v4.state.reason(|v4| v4.waiting_for() + carrier).map(|why| format!("IPv4: {why}"));
        let v6 =
            self.v6.reason(|v6| v6.waiting_for().to_string() + carrier).map(|why| format!("IPv6: {why}"));
        v4.into_iter().chain(v6).collect::<Vec<_>>().join("; ")
    }

    fn reachability(&self, to: SocketAddr) -> Reachability {
        match to {
            SocketAddr::V4(_) => self.v4.reachability(),
            SocketAddr::V6(_) => self.v6.reachability(),
        }
    }
}

/// Returns the lease that a network service (networkd, NetworkManager) or dhclient has for a NIC, if the NIC still has its
/// address.
pub fn existing_lease(sys: &System, nic: &str) -> Option<Lease> {
    let link = sys.links().ok()?.into_iter().find(|link| link.name == nic)?;
    let addresses = sys.link_addresses().ok()?;
    let found = existing_lease::find(sys, link.index, nic, &addresses).map(|(_, lease)| lease);
    // NetworkManager may have no file for its lease.
    let is_known = |lease: &Lease| lease.server.is_some();
    found.filter(is_known).or_else(|| existing_lease::of_dhclient(sys, link.index, nic, &addresses))
}

/// Does the same as [`EphemeralNetwork::fetch`] with the machine's existing network.
///
/// # Errors
/// Fails if all candidates failed, or if none answered by the deadline, at most ten minutes.
pub fn fetch(sys: &System, candidates: &[Request], deadline: Deadline) -> Result<FirstResponse> {
    happy_eyeballs::fetch(sys, None, candidates, deadline.earlier(Deadline::after(MAX_WAIT)))
}

/// Returns the index of the first URL that responds over the existing network, so that no ephemeral one is needed. They are
/// requested in parallel.
pub fn find_responding(sys: &System, candidates: &[Request], deadline: Deadline) -> Option<usize> {
    happy_eyeballs::fetch(sys, None, candidates, deadline).ok().map(|first| first.index)
}
