//! AltCloud: RHEV and vSphere without guest agents, with user-data on a floppy disk or a CD-ROM. The answer is at most
//! "maybe".

use crate::checks::rules::labels;
use crate::facts::Facts;
use crate::paths::RootedPath;
use crate::verdict::{Verdict, maybe, not_found};

/// The virtualization platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Rhev,
    Vsphere,
}

pub fn altcloud(facts: &Facts<'_>) -> Verdict {
    if facts.is_container() {
        return not_found("this is a container");
    }
    let info = RootedPath::in_root("/etc/sysconfig/cloud-info");
    let kind = if facts.roots.is_file(&info) {
        kind_of(&facts.roots.line(&info).unwrap_or_default())
    } else {
        kind_of(&facts.raw_dmi().product_name)
    };
    match kind {
        None => not_found("neither /etc/sysconfig/cloud-info nor dmi product_name is rhev or vsphere"),
        Some(Kind::Rhev) => {
            // The module floppy is not loaded: that needs a program, and udev does not run yet.
            match ["/dev/floppy", "/dev/fd0"].into_iter().find(|dev| facts.roots.target.is_block_device(dev))
            {
                Some(device) => maybe(format!("RHEV, and {device} exists")),
                None => not_found("RHEV, but no floppy drive"),
            }
        }
        Some(Kind::Vsphere) => {
            let link = facts.paths.disk.join("by-label/CDROM");
            if facts.roots.of(&link).is_block_device(&link) {
                return maybe(format!("vSphere, and {link} exists"));
            }
            // udev creates that link after generators have run.
            match facts.find_label(labels("AltCloud")) {
                Some((device, label)) => {
                    maybe(format!("vSphere, and the file system on {device} is labelled {label}"))
                }
                None => not_found("vSphere, but no file system labelled CDROM"),
            }
        }
    }
}

/// Returns the kind that a string names, ignoring case.
pub(crate) fn kind_of(text: &str) -> Option<Kind> {
    match text.trim().to_ascii_lowercase().as_str() {
        "rhev" => Some(Kind::Rhev),
        "vsphere" => Some(Kind::Vsphere),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rhev_and_vsphere_are_kinds() {
        for (text, kind) in [
            ("RHEV", Some(Kind::Rhev)),
            (" vSphere ", Some(Kind::Vsphere)),
            ("", None),
            ("VMware Virtual Platform", None),
        ] {
            assert_eq!(kind_of(text), kind, "{text}");
        }
    }
}
