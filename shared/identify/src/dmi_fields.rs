//! The DMI (SMBIOS) fields that checks compare, from the kernel; if the kernel has none, from dmidecode, which also searches EFI's
//! tables and physical memory.

use std::time::Duration;

use clouds::DmiField;

use crate::command::Commands;
use crate::paths::{Paths, Roots};
use crate::text::first_line;

/// The fields that checks read. `unavailable` means that the firmware has no such field, `error` that it
/// could not be read; neither equals any cloud's value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dmi {
    pub sys_vendor: String,
    pub board_name: String,
    pub chassis_asset_tag: String,
    pub product_name: String,
    pub product_serial: String,
    pub product_uuid: String,
}

impl Dmi {
    /// The fields in a container, which must not see the host's.
    pub const EMPTY: Dmi = Dmi {
        sys_vendor: String::new(),
        board_name: String::new(),
        chassis_asset_tag: String::new(),
        product_name: String::new(),
        product_serial: String::new(),
        product_uuid: String::new(),
    };

    /// Returns the value of a field.
    pub fn get(&self, field: DmiField) -> &str {
        match field {
            DmiField::SysVendor => &self.sys_vendor,
            DmiField::ProductName => &self.product_name,
            DmiField::ProductSerial => &self.product_serial,
            DmiField::ChassisAssetTag => &self.chassis_asset_tag,
        }
    }
}

/// Reads the fields from the kernel, or else from dmidecode.
pub fn read(roots: &Roots, paths: &Paths, commands: &Commands<'_>) -> Dmi {
    if !roots.of(&paths.dmi).is_dir(&paths.dmi) {
        return read_with_dmidecode(commands);
    }
    read_each(|name, _| {
        let path = paths.dmi.join(name);
        match roots.line(&path) {
            Some(line) if !line.is_empty() => line,
            None if !roots.exists(&path) => "unavailable".to_string(),
            _ => "error".to_string(),
        }
    })
}

/// Reads the fields by dmidecode's keywords. If dmidecode fails once, it found no tables and is not run again.
fn read_with_dmidecode(commands: &Commands<'_>) -> Dmi {
    // Wait: the generator | one field from dmidecode, where /sys has none | -
    const TIMEOUT: Duration = Duration::from_secs(1);
    let mut program = commands.find_on_machine("dmidecode");
    read_each(|_, keyword| {
        let argument = format!("--string={keyword}");
        let path = program.as_deref().filter(|_| !keyword.is_empty());
        let output = path.and_then(|path| commands.run(&[path, "--quiet", &argument], TIMEOUT));
        let Some(output) = output.filter(|output| output.code == 0) else {
            program = program.take().filter(|_| keyword.is_empty());
            return "error".to_string();
        };
        first_line(&String::from_utf8_lossy(&output.stdout))
    })
}

/// Reads each field by the kernel's name and dmidecode's keyword, which is empty for the one that it does not print.
fn read_each(mut field: impl FnMut(&str, &str) -> String) -> Dmi {
    Dmi {
        sys_vendor: field("sys_vendor", "system-manufacturer"),
        product_name: field("product_name", "system-product-name"),
        product_uuid: field("product_uuid", "system-uuid"),
        product_serial: field("product_serial", "system-serial-number"),
        chassis_asset_tag: field("chassis_asset_tag", "chassis-asset-tag"),
        board_name: field("board_name", ""),
    }
}
