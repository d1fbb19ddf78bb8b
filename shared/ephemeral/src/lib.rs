//! A network for as long as metadata is read: before the machine's own networking is configured, because the
//! configuration is in the metadata. Everything that it changes is changed back when it goes, on every way out; what a
//! killed process leaves is undone by the next one ([`clear`]).
//!
//! ```text
//! held     a lease that networkd or NetworkManager has already         (facts)
//! dhcp/    message ◄─► bytes, the client as a state machine             (pure)
//! lease    what a server granted ──► addresses and routes               (pure)
//! v4, v6   the two families, brought up side by side on one link        (effects)
//! race     URLs asked side by side, each once its family is up          (effects)
//! record   what to change back, on disk before each change
//! ```
//!
//! Datasources say what they want ([`Wants`]) and fetch; they see no sockets, addresses or routes.

pub mod dhcp;
mod held;
pub mod lease;
mod race;
mod record;
mod solicit;
mod v4;
mod v6;

use std::os::fd::BorrowedFd;
use std::time::Duration;

use system::{Deadline, Error, Fetch, Fetched, Link, Result, System, debug, info};

pub use lease::Lease;
pub use record::clear;

use record::{Record, Undo};

/// Below the run directory: one file for each link that is changed.
pub const RECORDS: &str = "ephemeral";
/// Longer is not waited, whatever is configured: a boot must come to its end.
const LONGEST: Duration = Duration::from_secs(600);
/// How often links and addresses are looked at while something about them is awaited.
const LOOK: Duration = Duration::from_millis(25);

/// How IPv4 is to come up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum V4 {
    /// By DHCP; options to ask for beyond the usual ones ([`dhcp::message::option`]).
    Dhcp(Vec<u8>),
    /// With an address of 169.254.0.0/16 that nobody grants.
    LinkLocal,
}

/// How IPv6 is to come up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum V6 {
    /// The link's own address suffices: metadata is at a link-local address.
    LinkLocal,
    /// A route from a router's advertisement, and an address if that gives one.
    Routed,
}

/// What a datasource wants. With both families they are brought up side by side, and the first that is up will do.
#[derive(Debug, Clone)]
pub struct Wants<'a> {
    /// The link's name now.
    pub nic: &'a str,
    pub v4: Option<V4>,
    pub v6: Option<V6>,
    /// Where the record of changes is kept: [`RECORDS`] below the run directory.
    pub records: &'a str,
}

/// One family's progress.
#[derive(Debug)]
enum Side<T> {
    Unwanted,
    Pending(T),
    Ready,
    Failed(String),
}

/// A network that is up, until it is dropped.
pub struct Ephemeral<'a> {
    sys: &'a System,
    records: String,
    link: Link,
    record: Record,
    v4: Side<v4::V4>,
    v6: Side<v6::V6>,
    lease: Option<Lease>,
    deadline: Deadline,
}

impl<'a> Ephemeral<'a> {
    /// Brings a link up with what is wanted; returns as soon as one family is up. An error when none is by the deadline
    /// (ten minutes at most): then everything is as it was.
    pub fn up(sys: &'a System, wants: &Wants<'_>, deadline: Deadline) -> Result<Ephemeral<'a>> {
        clear(sys, wants.records);
        let mut this = Ephemeral::begin(sys, wants, deadline)?;
        while !this.is_ready() {
            if this.is_hopeless() || this.deadline.is_over() {
                return Err(Error::new(format!("no network on {}: {}", wants.nic, this.reasons())));
            }
            this.turn(&[], this.deadline);
        }
        Ok(this)
    }

    fn begin(sys: &'a System, wants: &Wants<'_>, deadline: Deadline) -> Result<Ephemeral<'a>> {
        let links = sys.links()?;
        let Some(link) = links.into_iter().find(|l| l.name == wants.nic) else {
            return Err(Error::new(format!("there is no network link {}", wants.nic)));
        };
        let mut this = Ephemeral {
            sys,
            records: wants.records.to_string(),
            record: Record::new(sys, link.index),
            link,
            v4: Side::Unwanted,
            v6: Side::Unwanted,
            lease: None,
            deadline: deadline.earlier(Deadline::after(LONGEST)),
        };
        if let Some(wanted) = &wants.v4 {
            this.v4 = this.begin_v4(wanted);
        }
        if let Some(wanted) = wants.v6 {
            // Before the link goes up, since that is when the kernel asks for routers.
            this.v6 = this.begin_v6(wanted);
        }
        if !this.link.up {
            this.record.push(sys, &this.records, Undo::Down)?;
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

    pub fn has_v4(&self) -> bool {
        matches!(self.v4, Side::Ready)
    }

    pub fn has_v6(&self) -> bool {
        matches!(self.v6, Side::Ready)
    }

    fn is_ready(&self) -> bool {
        self.has_v4() || self.has_v6()
    }

    /// Which families are still on their way.
    fn pending(&self) -> (bool, bool) {
        (matches!(self.v4, Side::Pending(_)), matches!(self.v6, Side::Pending(_)))
    }

    fn is_hopeless(&self) -> bool {
        self.pending() == (false, false)
    }

    /// Fetches from the first of these that answers well, and says which that was. They are asked side by side, 150 ms
    /// apart, each as soon as its family is up; each has the tries that it asks for.
    pub fn fetch(&mut self, candidates: &[Fetch], deadline: Deadline) -> Result<(usize, Fetched)> {
        race::run(self, candidates, deadline)
    }

    /// Goes on with both families and waits for the earliest of: something came for them or for these descriptors
    /// (to be read, or written where that is `true`), it is time to do something, the deadline.
    fn turn(&mut self, others: &[(BorrowedFd<'_>, bool)], deadline: Deadline) {
        if self.deadline.is_over() {
            self.expire();
        }
        let before = self.pending();
        self.advance_v4();
        self.advance_v6();
        if self.pending() != before {
            // That is what the caller waits for.
            return;
        }
        let mut until = if self.is_hopeless() { deadline } else { deadline.earlier(self.deadline) };
        for wait in [self.v4_waits(), self.v6_waits()].into_iter().flatten() {
            until = until.earlier(Deadline::after(wait));
        }
        let mut fds = others.to_vec();
        fds.extend(self.v4_fd().map(|fd| (fd, false)));
        if !fds.is_empty() {
            self.sys.wait_for(&fds, until);
        } else {
            self.sys.clock().sleep(until.left());
        }
    }

    /// A family that is not up by now is not waited for any longer.
    fn expire(&mut self) {
        if let Side::Pending(v4) = &self.v4 {
            self.v4 = Side::Failed(v4.waiting_for());
        }
        if let Side::Pending(v6) = &self.v6 {
            self.v6 = Side::Failed(v6.waiting_for().into());
        }
    }

    /// Why there is no network: the failure of each family, or what it waits for.
    fn reasons(&self) -> String {
        let carrier = if self.link.carrier { "" } else { " (the link has no carrier)" };
        let v4 = match &self.v4 {
            Side::Failed(why) => Some(format!("IPv4: {why}")),
            Side::Pending(v4) => Some(format!("IPv4: {}{carrier}", v4.waiting_for())),
            _ => None,
        };
        let v6 = match &self.v6 {
            Side::Failed(why) => Some(format!("IPv6: {why}")),
            Side::Pending(v6) => Some(format!("IPv6: {}{carrier}", v6.waiting_for())),
            _ => None,
        };
        v4.into_iter().chain(v6).collect::<Vec<_>>().join("; ")
    }

    /// Makes one change, recorded before it is made. `false`: it was so already.
    fn change(&mut self, undo: Undo, make: impl FnOnce(&System) -> Result<bool>) -> Result<bool> {
        self.record.push(self.sys, &self.records, undo)?;
        let made = make(self.sys);
        if !matches!(made, Ok(true)) {
            self.record.pop(self.sys, &self.records)?;
        }
        made
    }

    fn look_at_link(&mut self) {
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

impl Drop for Ephemeral<'_> {
    fn drop(&mut self) {
        info!(self.sys, "{}: the network for metadata ends", self.link.name);
        self.record.undo(self.sys, &self.records);
    }
}

/// As [`Ephemeral::fetch`], with the network that there is.
pub fn fetch(sys: &System, candidates: &[Fetch], deadline: Deadline) -> Result<(usize, Fetched)> {
    race::without_link(sys, candidates, deadline.earlier(Deadline::after(LONGEST)))
}

/// Whether one of these answers with the network that there is, asked side by side: then none has to be made.
pub fn answers(sys: &System, candidates: &[Fetch], deadline: Deadline) -> Option<usize> {
    race::without_link(sys, candidates, deadline).ok().map(|(which, _)| which)
}
