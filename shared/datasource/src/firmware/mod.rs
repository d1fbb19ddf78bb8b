//! What the firmware, the hypervisor, the kernel command line and the initramfs say about the machine. DMI (SMBIOS) is not used
//! in a container, where it is the host's.

pub mod command_line;
pub mod guestinfo;

use std::collections::BTreeMap;

use system::{Error, Result, System};

/// Returns a value such as `system-uuid`; `None` in a container, where DMI is the host's.
pub fn dmi(sys: &System, key: &str) -> Option<String> {
    if sys.is_container() { None } else { sys.dmi(key) }
}

/// Returns the serial number, for clouds that use it as the instance-id.
///
/// # Errors
///
/// Fails if DMI has no serial number.
pub fn require_serial(sys: &System) -> Result<String> {
    let serial = dmi(sys, "system-serial-number");
    serial.ok_or_else(|| Error::new("DMI has no serial number, which is needed as the instance-id"))
}

/// Returns the settings that a value of DMI holds, as in `name=value;other=value`.
pub fn settings(sys: &System, key: &str) -> BTreeMap<String, String> {
    let text = dmi(sys, key).unwrap_or_default();
    let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
    sort::collect(pairs.map(|(name, value)| (name.trim().to_string(), value.trim().to_string())))
}

/// Returns whether the initramfs left a description of the network that it configured.
pub fn has_initramfs_network(sys: &System) -> bool {
    let names = sys.list("/run").unwrap_or_default();
    names
        .iter()
        .any(|name| (name.starts_with("net-") || name.starts_with("net6-")) && name.ends_with(".conf"))
}
