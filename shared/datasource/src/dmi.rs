//! Firmware's facts (SMBIOS), as the kernel shows them below /sys/class/dmi/id.

use std::collections::BTreeMap;

use system::{Error, Result, System};

/// Names that configurations use, and the kernel's files for them.
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

/// Whether `key` is one that can be asked for.
pub fn is_known(key: &str) -> bool {
    FILES.iter().any(|(name, _)| *name == key)
}

/// The value of a key such as `system-uuid`. A container sees its host's firmware, which is not its own.
pub fn read(sys: &System, key: &str) -> Option<String> {
    if sys.is_container() {
        return None;
    }
    let (_, file) = FILES.iter().find(|(name, _)| *name == key)?;
    let bytes = sys.read_at_most(format!("/sys/class/dmi/id/{file}"), 4096).ok()?;
    // Firmware that never set a value leaves the flash's ones.
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
    pairs.map(|(name, value)| (name.trim().to_string(), value.trim().to_string())).collect()
}
