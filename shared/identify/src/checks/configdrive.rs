//! ConfigDrive, and IBMCloud, whose config drives the datasource ConfigDrive must ignore.

use std::os::unix::fs::MetadataExt;

use crate::checks::rules::labels;
use crate::facts::Facts;
use crate::paths::RootedPath;
use crate::verdict::{Verdict, found, not_found};

pub fn config_drive(facts: &Facts<'_>) -> Verdict {
    let seed = facts.paths.cloud.join("seed/config_drive");
    for path in [RootedPath::in_root("/config-drive"), seed.clone()] {
        if let Some(path) = dated_metadata(facts, &path) {
            return found(format!("{path} exists"));
        }
    }
    let latest = seed.join("openstack/latest/meta_data.json");
    if facts.roots.exists(&latest) {
        return found(format!("{latest} exists"));
    }
    let candidates = &facts.candidates().names;
    if candidates.iter().any(|name| name == "IBMCloud")
        && let Some(reason) = ibm(facts)
    {
        return not_found(format!("this is IBM Cloud: {reason}"));
    }
    match facts.find_label(labels("ConfigDrive")) {
        Some((device, label)) => found(format!("file system on {device} is labelled {label}")),
        None => not_found(format!("no seed directory, {}", facts.missing_label("config-2"))),
    }
}

/// Returns the first `openstack/2???-??-??/meta_data.json`, if it is a regular file.
fn dated_metadata(facts: &Facts<'_>, path: &RootedPath) -> Option<RootedPath> {
    let versions = path.join("openstack");
    let names = facts.roots.of(&versions).list(&versions).ok()?;
    let file = |name: &String| versions.join(name).join("meta_data.json");
    let first = names.iter().filter(|n| is_version(n)).map(file).find(|p| facts.roots.exists(p))?;
    facts.roots.is_file(&first).then_some(first)
}

/// Returns whether the name is a date such as `2015-10-15`: versions are named by theirs.
fn is_version(name: &str) -> bool {
    let chars: Vec<char> = name.chars().collect();
    chars.len() == 10 && chars[0] == '2' && chars[4] == '-' && chars[7] == '-'
}

pub fn ibmcloud(facts: &Facts<'_>) -> Verdict {
    if is_provisioning(facts) {
        return not_found("the machine is being provisioned");
    }
    match ibm(facts) {
        Some(reason) => found(reason),
        None => not_found("not Xen, or no file system of IBM Cloud labelled METADATA or config-2"),
    }
}

/// Returns the evidence for IBM Cloud.
fn ibm(facts: &Facts<'_>) -> Option<String> {
    const CONFIG_DRIVE_UUID: &str = "9796-932E";
    if facts.virt() != "xen" {
        return None;
    }
    if is_provisioning(facts) {
        return Some("Xen, and the machine is being provisioned".into());
    }
    if let Some((device, label)) = facts.find_label(labels("IBMCloud")) {
        return Some(format!("Xen, and the file system on {device} is labelled {label}"));
    }
    let has_uuid = facts.file_systems().uuids.iter().any(|uuid| uuid == CONFIG_DRIVE_UUID);
    let (device, label) = facts.find_label(labels("ConfigDrive")).filter(|_| has_uuid)?;
    Some(format!("Xen, the file system on {device} is labelled {label}, and one has IBM's UUID"))
}

/// Returns whether this is the first boot on IBM Cloud: its configuration exists, and its log is missing or of this boot.
fn is_provisioning(facts: &Facts<'_>) -> bool {
    if !facts.roots.target.is_file("/root/provisioningConfiguration.cfg") {
        return false;
    }
    let changed = |path: &RootedPath| {
        let meta = facts.roots.of(path).metadata(path).ok()?;
        Some((meta.mtime(), meta.mtime_nsec()))
    };
    let Some(log) = changed(&RootedPath::in_root("/root/swinstall.log")) else { return true };
    let current = changed(&facts.paths.pid1_environment).is_some_and(|start| log > start);
    let boot = if current { "current" } else { "previous" };
    facts.log.line(2, format!("/root/swinstall.log is from {boot} boot"));
    current
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_are_recognised_by_their_form() {
        for (name, is) in
            [("2015-10-15", true), ("latest", false), ("1999-01-01", false), ("2x!?-ab-é.", true)]
        {
            assert_eq!(super::is_version(name), is, "{name}");
        }
    }
}
