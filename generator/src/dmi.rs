//! The firmware's DMI (SMBIOS) fields, as the kernel shows them. Where it shows none, dmidecode may know them: it
//! looks for the tables in places that nobody reads for pleasure (EFI's, the machine's memory).

use std::time::Duration;

use crate::facts::Facts;
use crate::places::first_line;

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

pub fn read(facts: &Facts<'_>) -> Dmi {
    let (doors, directory) = (facts.doors, &facts.places.dmi);
    if !doors.to(directory).is_dir(&directory.path) {
        return ask(facts);
    }
    let field = |name: &str| {
        let place = directory.join(name);
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

/// dmidecode's keywords; it has none for board_name. Where it fails once it finds no tables, and is not asked again.
fn ask(facts: &Facts<'_>) -> Dmi {
    const LIMIT: Duration = Duration::from_secs(1);
    let mut program = facts.program_of_machine("dmidecode");
    let mut field = |keyword: &str| {
        let argument = format!("--string={keyword}");
        let said = program.as_deref().and_then(|path| facts.ask(&[path, "--quiet", &argument], LIMIT));
        let Some(said) = said.filter(|said| said.code == 0) else {
            program = None;
            return "error".to_string();
        };
        first_line(&String::from_utf8_lossy(&said.stdout))
    };
    Dmi {
        sys_vendor: field("system-manufacturer"),
        product_name: field("system-product-name"),
        product_uuid: field("system-uuid"),
        product_serial: field("system-serial-number"),
        chassis_asset_tag: field("chassis-asset-tag"),
        board_name: "error".into(),
    }
}
