//! SmartOS: a virtual machine by its firmware, a zone by its kernel and the socket of its metadata.

use crate::checks::rules;
use crate::facts::Facts;
use crate::verdict::{Answer, Verdict, found, not_found};

pub fn smartos(facts: &Facts<'_>) -> Verdict {
    const SOCKET: &str = "/native/.zonecontrol/metadata.sock";
    let firmware = rules::check(facts, "SmartOS");
    if firmware.answer == Answer::Found {
        return firmware;
    }
    let [_, version, _] = facts.kernel();
    if version == "BrandZ virtual linux" && facts.roots.target.exists(SOCKET) {
        return found(format!("the kernel is a zone's, and {SOCKET} exists"));
    }
    not_found(format!("{}, and this is not a zone", firmware.reason))
}
