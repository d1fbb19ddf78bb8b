//! OVF: an environment document in a seed, from the hypervisor, or on a CD-ROM.

use crate::checks::{rules, vmware};
use crate::command::{CommandOutput, has_content};
use crate::facts::Facts;
use crate::verdict::{Answer, Verdict, found, not_found};

/// The datasources whose discs are not OVF's.
const OTHERS: [&str; 2] = ["ConfigDrive", "NoCloud"];
/// The start of the labels of Azure's discs.
const AZURE_LABEL_PREFIX: &str = "rd_rdfe_stable";
/// The namespace of the document's schema (DSP0243); its presence on a disc is the evidence.
const SCHEMA: &str = "http://schemas.dmtf.org/ovf/environment/1";
/// The size limit of a disc in sectors. A disc of 10 MiB or more is not read: an environment document is small.
const MAX_SECTORS: u64 = 20480;

pub fn ovf(facts: &Facts<'_>) -> Verdict {
    let seed = rules::check_seed(facts, "OVF");
    if seed.answer == Answer::Found {
        return seed;
    }
    if facts.virt() == "none" {
        return not_found("this is not a virtual machine");
    }
    if rules::evidence_in_dmi(facts.dmi(), "Azure").is_some() {
        return not_found("this is Azure, which has discs of this kind too");
    }
    if facts.virt() == "vmware" && vmware::query(facts, "info-get guestinfo.ovfEnv", is_xml).is_some() {
        return found("guestinfo.ovfEnv is an XML document");
    }
    let mut unreadable = Vec::new();
    let isos = &facts.file_systems().iso9660;
    for (device, label) in isos {
        let name = device.strip_prefix("/dev/").unwrap_or(device);
        let has_label_of = |cloud: &str| rules::labels(cloud).contains(&label.as_str());
        let is_other = OTHERS.into_iter().any(has_label_of) || label.starts_with(AZURE_LABEL_PREFIX);
        if !is_drive(name) || is_other {
            continue;
        }
        if has_label_of("OVF") {
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
                unreadable.push(format!("the disc in {device}"));
            }
        }
    }
    let verdict = not_found(match isos.len() {
        0 => "no seed directory, no ISO 9660 disc".to_string(),
        _ => "no seed directory, and no disc in a drive has an OVF environment".to_string(),
    });
    verdict.with_unanswered(&unreadable)
}

/// Returns whether the name is that of a CD drive: `sr0`, `hda`.
fn is_drive(name: &str) -> bool {
    let one = |rest: Option<&str>, fits: fn(&u8) -> bool| {
        rest.is_some_and(|rest| rest.len() == 1 && rest.as_bytes().first().is_some_and(fits))
    };
    one(name.strip_prefix("sr"), u8::is_ascii_digit) || one(name.strip_prefix("hd"), u8::is_ascii_lowercase)
}

/// Returns whether the first line that is not blank begins an XML document.
pub(crate) fn is_xml(output: &CommandOutput) -> bool {
    let first = output.stdout.split(|b| *b == b'\n').find(|line| has_content(line));
    first.is_some_and(|line| line.starts_with(b"<?xml") || line.starts_with(b"<?XML"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Log;
    use crate::paths::{Env, Paths, Roots};

    /// If a disc cannot be read, the answer is unknown, unless another disc has an environment.
    #[test]
    fn unreadable_disc_leaves_the_answer_unknown() {
        let top = scratch::TempDir::new();
        let discs = "DI_BLKID_EXPORT_OUT='DEVNAME=/dev/sr0\nLABEL=a\nTYPE=iso9660\n\n\
                     DEVNAME=/dev/sr1\nLABEL=b\nTYPE=iso9660\n'\n";
        top.put("presets", discs);
        for drive in ["sr0", "sr1"] {
            top.put(&format!("sys/class/block/{drive}/size"), "8\n");
        }
        let presets = top.join("presets").to_string_lossy().into_owned();
        let env: Env = [("PATH_DI_ENV".to_string(), presets)].into();
        let (roots, paths, log) = (Roots::new(&top.to_string_lossy()), Paths::new(&env), Log::silent());
        let check = || {
            let facts = Facts::new(crate::facts::EARLY, &env, &roots, &paths, &log);
            facts.virt.set("kvm".into()).unwrap();
            ovf(&facts)
        };
        let verdict = check();
        assert_eq!(verdict.answer, Answer::Unknown, "{}", verdict.reason);
        assert!(verdict.reason.ends_with("; no answer from the disc in /dev/sr0 and the disc in /dev/sr1"));
        top.put("dev/sr1", "<Environment xmlns=\"http://schemas.dmtf.org/ovf/environment/1\">");
        assert_eq!(check().answer, Answer::Found);
        top.put("dev/sr1", "<Environment>");
        assert_eq!(check().answer, Answer::Unknown);
        top.put("dev/sr0", "");
        assert_eq!(check().answer, Answer::NotFound);
    }

    #[test]
    fn only_optical_drives_are_searched() {
        for (name, is) in [("sr0", true), ("sr10", false), ("hdb", true), ("hda1", false), ("vda", false)] {
            assert_eq!(is_drive(name), is, "{name}");
        }
    }

    #[test]
    fn output_of_the_tool_must_begin_like_xml() {
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
