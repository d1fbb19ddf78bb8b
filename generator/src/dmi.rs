//! The firmware's DMI (SMBIOS) fields, as the kernel shows them.

use crate::places::{Doors, Place};

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
    /// What a container may know of it.
    pub const NOTHING: Dmi = Dmi {
        sys_vendor: String::new(),
        board_name: String::new(),
        chassis_asset_tag: String::new(),
        product_name: String::new(),
        product_serial: String::new(),
        product_uuid: String::new(),
    };
}

pub fn read(doors: &Doors, directory: &Place) -> Dmi {
    // Without the directory the kernel found no DMI; dmidecode would look at the same memory again.
    let there = doors.to(directory).is_dir(&directory.path);
    let field = |name: &str| {
        let place = directory.join(name);
        if !there {
            return "error".to_string();
        }
        match doors.line(&place) {
            Some(line) if !line.is_empty() => line,
            None if !doors.to(&place).exists(&place.path) => "unavailable".to_string(),
            _ => "error".to_string(),
        }
    };
    Dmi {
        sys_vendor: field("sys_vendor"),
        board_name: field("board_name"),
        chassis_asset_tag: field("chassis_asset_tag"),
        product_name: field("product_name"),
        product_serial: field("product_serial"),
        product_uuid: field("product_uuid"),
    }
}
