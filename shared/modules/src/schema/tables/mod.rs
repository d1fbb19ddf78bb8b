//! Tables of keys that no code in this crate reads: those of the boot itself, of modules that upstream has and this
//! version does not, and of network configurations.

mod boot;
mod machine;
pub mod network_v1;
pub mod network_v2;
mod packages;
mod provisioning;
mod services;

use super::Section;

/// Every section of these tables.
pub static SECTIONS: [&[Section]; 5] =
    [boot::SECTIONS, machine::SECTIONS, packages::SECTIONS, provisioning::SECTIONS, services::SECTIONS];
