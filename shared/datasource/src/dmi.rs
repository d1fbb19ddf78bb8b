//! DMI values (SMBIOS), which the kernel exports below /sys/class/dmi/id.

use std::collections::BTreeMap;

use system::{Error, Result, System};

/// The DMI keys of configurations and the names of their sysfs files.
const FILES: &[(&str, &str)] = &[
    ("baseboard-asset-tag", "board_asset_tag"),
    ("baseboard-manufacturer", "board_vendor"),
    ("baseboard-product-name", "board_name"),
    ("baseboard-serial-number", "board_serial"),
    ("baseboard-version", "board_version"),
    ("bios-release-date", "bios_date"),
    ("bios-vendor", "bios_vendor"),
    ("bios-version", "bios_version"),
    ("chassis-asset-tag", "chassis_asset_tag"),
    ("chassis-manufacturer", "chassis_vendor"),
    ("chassis-serial-number", "chassis_serial"),
    ("chassis-version", "chassis_version"),
    ("system-manufacturer", "sys_vendor"),
    ("system-product-name", "product_name"),
    ("system-serial-number", "product_serial"),
    ("system-uuid", "product_uuid"),
    ("system-version", "product_version"),
];

/// Returns whether `key` is the name of a value.
pub fn is_known(key: &str) -> bool {
    FILES.iter().any(|(name, _)| *name == key)
}

/// Returns a value such as `system-uuid`; `None` in a container, where DMI is the host's.
pub fn read(sys: &System, key: &str) -> Option<String> {
    if sys.is_container() {
        return None;
    }
    let (_, file) = FILES.iter().find(|(name, _)| *name == key)?;
    let bytes = sys.read_at_most(format!("/sys/class/dmi/id/{file}"), 4096).ok()?;
    // Erased flash memory, which the firmware never wrote.
    if bytes.iter().all(|b| *b == 0xff || b.is_ascii_whitespace()) {
        return None;
    }
    let text = String::from_utf8_lossy(&bytes).trim().to_string();
    (!text.is_empty()).then_some(text)
}

/// Returns the serial number, for clouds that use it as the instance-id.
///
/// # Errors
///
/// Fails if DMI has no serial number.
pub fn require_serial(sys: &System) -> Result<String> {
    let serial = read(sys, "system-serial-number");
    serial.ok_or_else(|| Error::new("DMI has no serial number, which is the instance-id"))
}

/// Returns the settings that a value of DMI holds, as in `name=value;other=value`.
pub fn settings(sys: &System, key: &str) -> BTreeMap<String, String> {
    let text = read(sys, key).unwrap_or_default();
    let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
    sort::collect(pairs.map(|(name, value)| (name.trim().to_string(), value.trim().to_string())))
}
