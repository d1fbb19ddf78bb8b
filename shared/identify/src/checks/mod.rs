//! The check of each cloud: facts in, verdict with its reason out. No check writes or waits for a device to appear.
//!
//! Most clouds are identified by the rules of their row alone (`rules`). The others have a function here.

pub(crate) mod altcloud;
mod configdrive;
pub(crate) mod ec2;
mod lxd;
mod nocloud;
mod openstack;
pub(crate) mod ovf;
mod rules;
mod smartos;
mod vmware;
pub(crate) mod wsl;

use crate::facts::Facts;
use crate::verdict::{Verdict, not_found};

type Check = fn(&Facts<'_>) -> Verdict;

/// The checks of clouds that need more than the rules of their row.
const SPECIAL: [(&str, Check); 12] = [
    ("AltCloud", altcloud::altcloud),
    ("ConfigDrive", configdrive::config_drive),
    ("Ec2", ec2::ec2),
    ("IBMCloud", configdrive::ibmcloud),
    ("LXD", lxd::lxd),
    ("NoCloud", nocloud::nocloud),
    ("None", |_| not_found("it is the fallback, which is not identified")),
    ("OpenStack", openstack::openstack),
    ("OVF", ovf::ovf),
    ("SmartOS", smartos::smartos),
    ("VMware", vmware::vmware),
    ("WSL", wsl::wsl),
];

/// Checks whether this machine runs on the cloud of this name. `None`: there is no such cloud, or no check for it, and
/// its datasource is used only if named explicitly, or alone in the list.
pub fn check(name: &str, facts: &Facts<'_>) -> Option<Verdict> {
    let cloud = clouds::cloud(name)?;
    match SPECIAL.iter().find(|(special, _)| *special == cloud.name) {
        Some((_, check)) => Some(check(facts)),
        None if cloud.rules.is_empty() => None,
        None => Some(rules::check(facts, cloud.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_checks_name_clouds() {
        for (name, _) in SPECIAL {
            assert!(clouds::cloud(name).is_some(), "{name}");
        }
    }
}
