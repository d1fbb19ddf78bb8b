//! DMI values (SMBIOS), as datasources use them: not in a container, where they are the host's.

use std::collections::BTreeMap;

use system::{Error, Result, System};

/// Returns a value such as `system-uuid`; `None` in a container, where DMI is the host's.
pub fn read(sys: &System, key: &str) -> Option<String> {
    if sys.is_container() { None } else { sys.dmi(key) }
}

/// Returns the serial number, for clouds that use it as the instance-id.
///
/// # Errors
///
/// Fails if DMI has no serial number.
pub fn require_serial(sys: &System) -> Result<String> {
    let serial = read(sys, "system-serial-number");
    serial.ok_or_else(|| Error::new("DMI has no serial number, which is needed as the instance-id"))
}

/// Returns the settings that a value of DMI holds, as in `name=value;other=value`.
pub fn settings(sys: &System, key: &str) -> BTreeMap<String, String> {
    let text = read(sys, key).unwrap_or_default();
    let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
    sort::collect(pairs.map(|(name, value)| (name.trim().to_string(), value.trim().to_string())))
}
