//! The firmware's DMI (SMBIOS) fields, as the kernel shows them. Where it shows none, dmidecode may know them: it
//! looks for the tables in places that nobody reads for pleasure (EFI's, the machine's memory).

use std::time::Duration;

use crate::facts::Facts;
use crate::paths::first_line;

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
    pub const EMPTY: Dmi = Dmi {
        sys_vendor: String::new(),
        board_name: String::new(),
        chassis_asset_tag: String::new(),
        product_name: String::new(),
        product_serial: String::new(),
        product_uuid: String::new(),
    };
}

pub fn read(facts: &Facts<'_>) -> Dmi {
    let (roots, directory) = (facts.roots, &facts.paths.dmi);
    if !roots.system_for(directory).is_dir(&directory.path) {
        return ask_dmidecode(facts);
    }
    let field = |name: &str| {
        let path = directory.join(name);
        match roots.line(&path) {
            Some(line) if !line.is_empty() => line,
            None if !roots.system_for(&path).exists(&path.path) => "unavailable".to_string(),
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
fn ask_dmidecode(facts: &Facts<'_>) -> Dmi {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let mut program = facts.find_host_program("dmidecode");
    let mut field = |keyword: &str| {
        let argument = format!("--string={keyword}");
        let output = program.as_deref().and_then(|path| facts.run(&[path, "--quiet", &argument], TIMEOUT));
        let Some(output) = output.filter(|output| output.code == 0) else {
            program = None;
            return "error".to_string();
        };
        first_line(&String::from_utf8_lossy(&output.stdout))
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
