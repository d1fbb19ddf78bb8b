//! Prefixes by which later stages and later runs recognize errors in status.json. An upgrade may replace the programs between
//! two stages, so the old text of a changed prefix must be recognized as well.

use crate::StageName;

/// The error while user-data and vendor-data are not consumed.
pub(crate) const UNCONSUMED: &str = "user-data and vendor-data: ";

/// Returns the error of a stage that a signal ended; the signal's name follows.
pub(crate) fn interrupted(name: StageName) -> String {
    format!("stage {} was interrupted by ", name.status_key())
}

/// Returns the error of a NIC that was plugged in and could not be configured.
pub(crate) fn hotplug(nic: &str) -> String {
    format!("hotplug of {nic}: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_stable() {
        assert_eq!(UNCONSUMED, "user-data and vendor-data: ");
        assert_eq!(interrupted(StageName::Local), "stage init-local was interrupted by ");
        assert_eq!(hotplug("eth1"), "hotplug of eth1: ");
    }
}
