//! Tables of keys that no code in this crate reads: those of the boot itself and of network configurations.

mod boot;
pub mod network_v1;
pub mod network_v2;

use super::Section;

/// Every section of these tables.
pub static SECTIONS: [&[Section]; 1] = [boot::SECTIONS];
