//! A link while it is changed: each change is recorded before it is made, and all are rolled back when this is dropped.

use std::time::Duration;

use system::{Link, Result, System, debug, info};

use crate::journal::{self, Journal, Rollback};

/// The interval at which links and addresses are polled.
pub const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// One family's progress on a link.
#[derive(Debug)]
pub enum FamilyState<T> {
    Disabled,
    Pending(T),
    Ready,
    Failed(String),
}

impl<T> FamilyState<T> {
    pub fn is_pending(&self) -> bool {
        matches!(self, FamilyState::Pending(_))
    }

    pub fn is_ready(&self) -> bool {
        matches!(self, FamilyState::Ready)
    }

    /// Returns whether addresses of the family are reachable. One that was not requested may have been up before.
    pub fn reachability(&self) -> Reachability {
        match self {
            FamilyState::Ready | FamilyState::Disabled => Reachability::Reachable,
            FamilyState::Pending(_) => Reachability::Pending,
            FamilyState::Failed(_) => Reachability::Unreachable,
        }
    }

    /// Returns why the family is not up: its failure, or the condition that it waits for.
    pub fn reason(&self, waiting_for: impl Fn(&T) -> String) -> Option<String> {
        match self {
            FamilyState::Failed(why) => Some(why.clone()),
            FamilyState::Pending(pending) => Some(waiting_for(pending)),
            FamilyState::Ready | FamilyState::Disabled => None,
        }
    }

    /// Continues a pending family: `step` returns whether it is up.
    pub fn advance(&mut self, step: impl FnOnce(&mut T) -> Result<bool>) {
        let FamilyState::Pending(pending) = self else { return };
        match step(pending) {
            Ok(true) => *self = FamilyState::Ready,
            Ok(false) => {}
            Err(e) => *self = FamilyState::Failed(e.to_string()),
        }
    }
}

/// Whether an address is reachable, or may become reachable once its family is up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reachability {
    Reachable,
    Pending,
    Unreachable,
}

/// A link with the changes made to it.
pub struct ChangedLink<'a> {
    pub sys: &'a System,
    /// The state of the link, as last read from the kernel.
    pub info: Link,
    journal: Journal,
    pub journal_dir: String,
}

impl<'a> ChangedLink<'a> {
    /// Returns the link with an empty journal in the file with this name.
    pub fn new(sys: &'a System, info: Link, journal_dir: &str, journal: String) -> ChangedLink<'a> {
        let journal = Journal::new(sys, info.index, journal);
        ChangedLink { sys, info, journal, journal_dir: journal_dir.to_string() }
    }

    /// Records the IPv6 settings of the link, which a router advertisement changes too: it is the first step, so that nothing
    /// changes them again once they are restored.
    pub fn record_settings(&mut self) {
        let settings = journal::sysctls(self.sys, &self.info.name);
        self.journal.push(self.sys, &self.journal_dir, settings);
    }

    /// Sets the link up if it is down.
    pub fn set_up(&mut self) -> Result<()> {
        if !self.info.up {
            self.journal.push(self.sys, &self.journal_dir, [Rollback::Down]);
            self.sys.set_link_up(&self.info.name, true)?;
        }
        Ok(())
    }

    /// Makes one change, recorded before it is made. Returns `false` if it was made already.
    pub fn change(&mut self, rollback: Rollback, make: impl FnOnce(&System) -> Result<bool>) -> Result<bool> {
        self.journal.push(self.sys, &self.journal_dir, [rollback]);
        let made = make(self.sys);
        if !matches!(made, Ok(true)) {
            self.journal.pop(self.sys, &self.journal_dir);
        }
        made
    }

    /// Reads the state of the link from the kernel again.
    pub fn refresh(&mut self) {
        if let Ok(links) = self.sys.links()
            && let Some(info) = links.into_iter().find(|l| l.index == self.info.index)
        {
            let had = std::mem::replace(&mut self.info, info).carrier;
            if !had && self.info.carrier {
                debug!(self.sys, "{} has a carrier", self.info.name);
            }
        }
    }
}

impl ChangedLink<'_> {
    /// Reverts the changes.
    pub fn roll_back(&mut self) {
        if !self.journal.is_empty() {
            info!(self.sys, "{}: tearing down the ephemeral network", self.info.name);
        }
        self.journal.roll_back(self.sys, &self.journal_dir);
    }
}

impl Drop for ChangedLink<'_> {
    fn drop(&mut self) {
        self.roll_back();
    }
}
