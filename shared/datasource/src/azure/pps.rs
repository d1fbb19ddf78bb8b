//! Pre-provisioning (PPS): Azure boots machines for a pool. Such a machine reports that it is ready and waits. When a customer
//! creates a machine, Azure connects one from the pool to the customer's network, and IMDS serves the customer's ovf-env.xml
//! (reprovisiondata).
//!
//! How the machine gets to the other network depends on the pool ([`PoolKind`]). A marker on disk, written before the wait,
//! tells a boot that the machine was in a pool when it was restarted.

use std::time::Duration;

use config::Node;
use state::Layout;
use system::{Deadline, LinkEvent, LinkEvents, Result, System, WriteOptions, info, warning};

use super::imds::text;
use super::ovf::Ovf;

/// The time limit for the whole wait. A machine has no other work in a pool, and does not know how long it stays there.
// Wait: Azure | a pre-provisioned machine (PPS) to be assigned | -
pub const POOL_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);
/// The interval at which the service manager is notified that the wait continues.
// No wait: the wait itself is bounded by POOL_TIMEOUT.
const TICK: Duration = Duration::from_secs(60);
/// The time that the service manager allows from one notification to the next, and after the last one for the rest of the
/// stage: the limit of its unit.
// Wait: Azure | the rest of the local stage, after each notification of a pre-provisioned machine | `TimeoutStartSec=` of `cloud-init-local.service`
const START_TIMEOUT: Duration = Duration::from_secs(600);

encoding::words! {
    /// The way in which a machine waits in a pool, in Azure's word.
    pub enum PoolKind {
        /// Its NIC loses the carrier and gets it back, on the other network.
        Running = "Running",
        /// Its NIC is removed and others are added.
        Savable = "Savable",
        /// It is shut down. Its disk becomes that of another machine.
        OsDisk = "PreprovisionedOSDisk",
        /// It was restarted in a pool.
        Unknown = "Unknown",
    }
}

impl PoolKind {
    /// Returns the kind of the pool that the machine is in, if any.
    pub fn find(ovf: &Ovf, document: &Node, has_marker: bool) -> Option<PoolKind> {
        let of_service = text(document, &["extended", "compute", "ppsType"]);
        let is = |kind: PoolKind| {
            let name = Some(kind.as_str());
            ovf.pps_type.as_deref() == name || of_service.as_deref() == name
        };
        match has_marker {
            true => Some(PoolKind::Unknown),
            false => {
                [PoolKind::Savable, PoolKind::OsDisk, PoolKind::Running].into_iter().find(|kind| is(*kind))
            }
        }
    }
}

fn marker(layout: &Layout) -> String {
    layout.data("reported_ready")
}

/// Returns whether an earlier boot waited in a pool.
pub fn has_marker(sys: &System, layout: &Layout) -> bool {
    sys.is_file(marker(layout))
}

/// Writes the marker, with upstream's content.
///
/// # Errors
///
/// Fails if it cannot be written: after a restart, the machine would not know that it is in a pool.
pub fn write_marker(sys: &System, layout: &Layout) -> Result<()> {
    let text = format!("{}: {}\n", std::process::id(), sys.clock().wall().as_secs_f64());
    sys.write(marker(layout), text, WriteOptions::default().durable()).map(drop)
}

/// Removes the marker, after reprovisioning.
pub fn remove_marker(sys: &System, layout: &Layout) {
    if let Err(e) = sys.remove(marker(layout)) {
        warning!(sys, "Azure: {e}");
    }
}

/// Tells the service manager that the stage still waits.
pub fn tick(sys: &System) {
    sys.extend_start_timeout(START_TIMEOUT, "Azure: pre-provisioned; waiting for reprovisioning");
}

/// A NIC that the host is going to connect to another network.
#[derive(Debug)]
pub struct MediaSwitch<'n> {
    nic: &'n str,
    /// The kernel's count of carrier changes before the switch. The kernel reports changes at most once per second, so that
    /// a short loss of the carrier may show in this count only.
    changes_before: Option<u64>,
    was_lost: bool,
}

impl<'n> MediaSwitch<'n> {
    /// Reads the NIC's state before the host is asked to switch it.
    pub fn of(sys: &System, nic: &'n str) -> MediaSwitch<'n> {
        MediaSwitch { nic, changes_before: carrier_attribute(sys, nic, "carrier_changes"), was_lost: false }
    }

    /// Waits until the NIC lost its carrier and got it back.
    pub fn wait(mut self, sys: &System, events: &mut LinkEvents, deadline: Deadline) {
        info!(sys, "Azure: waiting until the host has switched {} to another network", self.nic);
        await_event(sys, events, deadline, &mut |event| {
            self.is_done_after(event) || {
                let changes = carrier_attribute(sys, self.nic, "carrier_changes");
                self.is_done(changes, carrier_attribute(sys, self.nic, "carrier") == Some(1))
            }
        });
    }

    /// Returns whether the switch is complete after this event.
    fn is_done_after(&mut self, event: Option<&LinkEvent>) -> bool {
        match event {
            Some(LinkEvent::Present(link)) if link.name == self.nic => {
                self.was_lost |= !link.carrier;
                self.was_lost && link.carrier
            }
            _ => false,
        }
    }

    /// Returns whether the switch is complete with this number of changes: a loss and a return are two.
    fn is_done(&self, changes: Option<u64>, has_carrier: bool) -> bool {
        let counted = self.changes_before.zip(changes);
        has_carrier && counted.is_some_and(|(before, now)| now >= before.saturating_add(2))
    }
}

fn carrier_attribute(sys: &System, nic: &str, name: &str) -> Option<u64> {
    sys.read_text(format!("/sys/class/net/{nic}/{name}")).ok()?.trim().parse().ok()
}

/// Waits until a NIC was removed and then another one was added.
pub fn await_nic_exchange(sys: &System, events: &mut LinkEvents, deadline: Deadline) {
    info!(sys, "Azure: waiting until the host has replaced the NIC");
    let mut was_removed = false;
    await_event(sys, events, deadline, &mut |event| event.is_some_and(|e| is_exchanged(&mut was_removed, e)));
}

/// Returns whether this change completes an exchange. `was_removed`: a NIC was removed before.
fn is_exchanged(was_removed: &mut bool, event: &LinkEvent) -> bool {
    match event {
        LinkEvent::Present(_) => *was_removed,
        LinkEvent::Removed(_) => {
            *was_removed = true;
            false
        }
    }
}

/// Waits for the event that `is_last` accepts. It is also called at the end of each minute, without an event. Returns
/// at once if events cannot be read: the caller then polls for reprovisiondata, which works on any network.
fn await_event(
    sys: &System,
    events: &mut LinkEvents,
    deadline: Deadline,
    is_last: &mut dyn FnMut(Option<&LinkEvent>) -> bool,
) {
    while !deadline.is_expired() {
        tick(sys);
        match events.next(sys, deadline.earlier(Deadline::after(TICK))) {
            Ok(event) if is_last(event.as_ref()) => return,
            Ok(_) => {}
            Err(e) => {
                warning!(sys, "Azure: {e}; no longer waiting for the NIC; polling IMDS for reprovisiondata");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use system::Link;

    fn present(name: &str, carrier: bool) -> LinkEvent {
        LinkEvent::Present(Link { name: name.into(), carrier, ..Link::default() })
    }

    #[test]
    fn file_overrides_the_service_about_the_pool() {
        let of = |in_file: Option<&str>, of_service: &str, has_marker: bool| {
            let ovf = Ovf { pps_type: in_file.map(Into::into), ..Ovf::default() };
            let document = json!({"extended": {"compute": {"ppsType": of_service}}});
            PoolKind::find(&ovf, &Node::from_json(&document), has_marker).map(PoolKind::as_str)
        };
        for (in_file, of_service, expected) in [
            (None, "None", None),
            (None, "Other", None),
            (None, "Savable", Some("Savable")),
            (Some("Running"), "None", Some("Running")),
            (Some("Running"), "Savable", Some("Savable")),
            (Some("PreprovisionedOSDisk"), "Running", Some("PreprovisionedOSDisk")),
        ] {
            assert_eq!(of(in_file, of_service, false), expected, "{in_file:?} {of_service}");
            assert_eq!(of(in_file, of_service, true), Some("Unknown"));
        }
        assert_eq!(PoolKind::find(&Ovf::default(), &Node::null(), false), None);
    }

    #[test]
    fn end_of_media_switch_and_nic_exchange_is_recognised() {
        let mut switch = MediaSwitch { nic: "eth0", changes_before: Some(3), was_lost: false };
        for (changes, has_carrier, expected) in
            [(3, true, false), (4, false, false), (4, true, false), (5, false, false), (5, true, true)]
        {
            assert_eq!(switch.is_done(Some(changes), has_carrier), expected, "{changes}");
        }
        assert!(!switch.is_done(None, true));
        for (event, expected) in [
            (present("eth0", true), false),
            (present("eth1", false), false),
            (present("eth0", true), false),
            (present("eth0", false), false),
            (present("eth1", true), false),
            (present("eth0", false), false),
            (present("eth0", true), true),
        ] {
            assert_eq!(switch.is_done_after(Some(&event)), expected, "{event:?}");
        }
        let mut was_removed = false;
        for (event, expected) in [
            (present("eth0", false), false),
            (LinkEvent::Removed(Link::default()), false),
            (LinkEvent::Removed(Link::default()), false),
            (present("eth0", false), true),
        ] {
            assert_eq!(is_exchanged(&mut was_removed, &event), expected, "{event:?}");
        }
    }
}
