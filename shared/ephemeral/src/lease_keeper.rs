//! Extends a DHCP lease while the temporary network is needed, and acquires another one if it is lost. This is a thread, because the
//! stage may be in the middle of a long download, a pause between two attempts or a connection over TLS when the lease is due.

use std::io::{PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use system::{Deadline, Link, Result, System, debug, info, warning};

use crate::changed_link::ChangedLink;
use crate::dhcp_exchange::{Dhcp, apply_lease};
use crate::lease::Lease;

/// The thread that keeps a lease until the value is dropped.
#[derive(Debug)]
pub struct LeaseKeeper {
    /// Closed to end the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    has_lease: Arc<AtomicBool>,
}

impl LeaseKeeper {
    /// Starts to keep a lease whose address was added to the link. Without a thread it is not extended.
    pub fn start(dhcp: Dhcp, lease: Lease, link: &ChangedLink<'_>) -> Option<LeaseKeeper> {
        let has_lease = Arc::new(AtomicBool::new(true));
        let (open, info) = (link.sys.for_thread(), link.info.clone());
        let (dir, flag) = (link.journal_dir.clone(), Arc::clone(&has_lease));
        let started = std::io::pipe().and_then(|(reader, stop)| {
            let keep = move || keep(&open(), info, &dir, dhcp, lease, &reader, &flag);
            let thread = std::thread::Builder::new().name("lease".into()).spawn(keep)?;
            Ok(LeaseKeeper { stop: Some(stop), thread: Some(thread), has_lease })
        });
        started.map_err(|e| warning!(link.sys, "starting a thread: {e}; the lease is not extended")).ok()
    }

    /// Returns whether there is a lease at present.
    pub fn has_lease(&self) -> bool {
        self.has_lease.load(Ordering::Acquire)
    }
}

impl Drop for LeaseKeeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The thread waits for nothing but this, and for kernel calls.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn keep(
    sys: &System,
    info: Link,
    journal_dir: &str,
    dhcp: Dhcp,
    lease: Lease,
    stop: &PipeReader,
    has_lease: &AtomicBool,
) {
    system::block_signals();
    // A later lease may have other addresses and routes.
    let journal = format!("{}.lease", info.index);
    let mut link = ChangedLink::new(sys, info, journal_dir, journal);
    if let Err(e) = keep_lease(&mut link, dhcp, lease, stop, has_lease) {
        // If the address expires, the requests fail.
        info!(sys, "{}: the lease is not extended: {e}", link.info.name);
    }
}

fn keep_lease(
    link: &mut ChangedLink<'_>,
    mut dhcp: Dhcp,
    lease: Lease,
    stop: &PipeReader,
    has_lease: &AtomicBool,
) -> Result<()> {
    let sys = link.sys;
    dhcp.open_socket(link)?;
    let mut held = Some(lease);
    loop {
        let until = Deadline::after(dhcp.next_wait(link));
        let polled = sys.poll_fds(&[(stop.as_fd(), false), (dhcp.fd(), false)], until);
        if polled[0] {
            return Ok(());
        }
        let granted = dhcp.step(link)?;
        if dhcp.client.destination().is_none()
            && let Some(lost) = held.take()
        {
            has_lease.store(false, Ordering::Release);
            info!(sys, "{}: lost the lease of {}; acquiring another one", link.info.name, lost.address);
            link.roll_back();
            // The kernel removes the routes that use it.
            sys.remove_address(link.info.index, lost.address)?;
            dhcp.open_socket(link)?;
        }
        let Some(lease) = granted else { continue };
        if let Some(held) = &held {
            debug!(sys, "{}: extended the lease of {}", link.info.name, held.address);
            sys.extend_address(link.info.index, held.address, lease.lifetime)?;
        } else {
            apply_lease(&lease, link)?;
            dhcp.open_socket(link)?;
            has_lease.store(true, Ordering::Release);
        }
        held = Some(lease);
    }
}
