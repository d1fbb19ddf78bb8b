//! OpenStack's metadata service; a config drive has precedence over it.

use crate::checks::configdrive;
use crate::facts::Facts;
use crate::verdict::{Answer, Verdict, found, maybe, not_found};

/// Names that OpenStack itself puts into the firmware.
const PRODUCTS: [&str; 2] = ["OpenStack Nova", "OpenStack Compute"];

/// Asset tags of clouds that are OpenStack below.
const ASSET_TAGS: [&str; 6] = [
    "OpenTelekomCloud",
    "SAP CCloud VM",
    "HUAWEICLOUD",
    "Samsung Cloud Platform",
    "OpenStack Nova",
    "OpenStack Compute",
];

pub fn openstack(facts: &Facts<'_>) -> Verdict {
    let evidence = evidence(facts);
    if evidence.answer == Answer::NotFound {
        return evidence;
    }
    // Asked last, since it may open devices.
    let drive = configdrive::config_drive(facts);
    if drive.answer == Answer::Found {
        return not_found(format!("there is a config drive ({})", drive.reason));
    }
    evidence
}

fn evidence(facts: &Facts<'_>) -> Verdict {
    let dmi = facts.dmi();
    if PRODUCTS.contains(&dmi.product_name.as_str()) {
        return found(format!("dmi product_name is '{}'", dmi.product_name));
    }
    if facts.pid1_product_name() == "OpenStack Nova" {
        return found("product_name of PID 1 is 'OpenStack Nova'");
    }
    if ASSET_TAGS.contains(&dmi.chassis_asset_tag.as_str()) {
        return found(format!("dmi chassis_asset_tag is '{}'", dmi.chassis_asset_tag));
    }
    if !facts.is_pc() {
        return maybe("this machine need not have DMI");
    }
    not_found("neither dmi product_name nor chassis_asset_tag is one of OpenStack's")
}
