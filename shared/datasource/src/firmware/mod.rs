//! What the firmware, the hypervisor and the kernel command line say about the machine.

pub mod command_line;
pub mod dmi;
pub mod guestinfo;
