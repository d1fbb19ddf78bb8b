//! OpenStack's metadata service; a config drive has precedence over it.

use crate::checks::{configdrive, rules};
use crate::facts::Facts;
use crate::verdict::{Answer, Verdict, maybe, not_found};

pub fn openstack(facts: &Facts<'_>) -> Verdict {
    let firmware = rules::check(facts, "OpenStack");
    let evidence = match firmware.answer {
        Answer::Found => firmware,
        _ if !facts.is_pc() => maybe("machines of this architecture may lack DMI"),
        _ => return not_found("neither dmi product_name nor chassis_asset_tag is one of OpenStack's"),
    };
    // Last, since it may open devices.
    let drive = configdrive::config_drive(facts);
    if drive.answer == Answer::Found {
        return not_found(format!("a config drive has precedence ({})", drive.reason));
    }
    evidence
}
