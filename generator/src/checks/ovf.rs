//! OVF: an environment document in a seed, from the hypervisor, or on a CD-ROM.

use crate::checks::{firmware, vmware};
use crate::command::{CommandOutput, has_content};
use crate::facts::Facts;
use crate::verdict::{Verdict, found, not_found};

/// Labels of OVF's own discs.
const LABELS: [&str; 6] = ["OVF-TRANSPORT", "ovf-transport", "OVFENV", "ovfenv", "OVF ENV", "ovf env"];
/// Labels of others' discs: a config drive, NoCloud's, Azure's.
const OTHER_LABELS: [&str; 4] = ["config-2", "CONFIG-2", "cidata", "CIDATA"];
const OTHER_LABEL_PREFIX: &str = "rd_rdfe_stable";
/// The name space of the document's schema (DSP0243); its presence on a disc is the evidence.
const SCHEMA: &str = "http://schemas.dmtf.org/ovf/environment/1";
/// A disc of 10 MiB or more holds more than an environment, and is not read.
const MAX_SECTORS: u64 = 20480;

pub fn ovf(facts: &Facts<'_>) -> Verdict {
    if facts.has_seed("ovf", &["ovf-env.xml"]) {
        return found("seed directory ovf has ovf-env.xml");
    }
    if facts.virt() == "none" {
        return not_found("this is no virtual machine");
    }
    if facts.dmi().chassis_asset_tag == firmware::AZURE_ASSET_TAG {
        return not_found("this is Azure, which has discs of this kind too");
    }
    if facts.virt() == "vmware" && vmware::query(facts, "info-get guestinfo.ovfEnv", is_xml).is_some() {
        return found("guestinfo.ovfEnv is an XML document");
    }
    let isos = &facts.file_systems().iso9660;
    for (device, label) in isos {
        let name = device.strip_prefix("/dev/").unwrap_or(device);
        if !is_drive(name) || OTHER_LABELS.contains(&label.as_str()) || label.starts_with(OTHER_LABEL_PREFIX)
        {
            continue;
        }
        if LABELS.contains(&label.as_str()) {
            return found(format!("the disc in {device} is labelled {label}"));
        }
        let sectors = facts.roots.line(&facts.paths.block.join(&format!("{name}/size")));
        let Some(sectors) = sectors.and_then(|text| text.parse::<u64>().ok()) else { continue };
        if sectors >= MAX_SECTORS {
            facts.log.line(2, format!("{device} is too large for an OVF environment"));
            continue;
        }
        let deadline = facts.deadline;
        match blockdev::contains(
            &facts.roots.target,
            &format!("/dev/{name}"),
            SCHEMA,
            sectors * 512,
            deadline,
        ) {
            Ok(true) => return found(format!("the disc in {device} has an OVF environment")),
            Ok(false) => {}
            Err(e) => {
                facts.roots.device_hung.set(facts.roots.device_hung.get() || deadline.is_expired());
                facts.log.error(e.to_string());
            }
        }
    }
    not_found(match isos.len() {
        0 => "no seed directory, no ISO 9660 disc".to_string(),
        _ => "no seed directory, and no disc in a drive has an OVF environment".to_string(),
    })
}

/// `sr0`, `hda`: names of CD drives.
fn is_drive(name: &str) -> bool {
    let one = |rest: Option<&str>, fits: fn(&u8) -> bool| {
        rest.is_some_and(|rest| rest.len() == 1 && rest.as_bytes().first().is_some_and(fits))
    };
    one(name.strip_prefix("sr"), u8::is_ascii_digit) || one(name.strip_prefix("hd"), u8::is_ascii_lowercase)
}

/// Whether the first line with something in it begins an XML document.
pub(crate) fn is_xml(output: &CommandOutput) -> bool {
    let first = output.stdout.split(|b| *b == b'\n').find(|line| has_content(line));
    first.is_some_and(|line| line.starts_with(b"<?xml") || line.starts_with(b"<?XML"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives() {
        for (name, is) in [("sr0", true), ("sr10", false), ("hdb", true), ("hda1", false), ("vda", false)] {
            assert_eq!(is_drive(name), is, "{name}");
        }
    }

    #[test]
    fn documents() {
        for (text, is) in [
            ("<?xml version=\"1.0\"?>", true),
            ("\n \n<?XML ?>", true),
            ("No value found\n<?xml", false),
            ("", false),
        ] {
            let output = CommandOutput { stdout: text.into(), code: 0 };
            assert_eq!(is_xml(&output), is, "{text:?}");
        }
    }
}
