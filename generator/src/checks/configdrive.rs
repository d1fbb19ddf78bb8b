//! ConfigDrive, and IBMCloud, whose config drives are not for ConfigDrive.

use std::os::unix::fs::MetadataExt;

use crate::facts::Facts;
use crate::paths::RootedPath;
use crate::verdict::{Verdict, found, not_found};

const LABELS: [&str; 2] = ["CONFIG-2", "config-2"];

pub fn config_drive(facts: &Facts<'_>) -> Verdict {
    let seed = facts.paths.cloud.join("seed/config_drive");
    for path in [RootedPath::in_root("/config-drive"), seed.clone()] {
        if let Some(path) = dated_metadata(facts, &path) {
            return found(format!("{path} is there"));
        }
    }
    let latest = seed.join("openstack/latest/meta_data.json");
    if facts.roots.system_for(&latest).exists(&latest.path) {
        return found(format!("{} is there", latest.path));
    }
    let candidates = &facts.candidates().names;
    if candidates.iter().any(|name| name == "IBMCloud")
        && let Some(reason) = ibm(facts)
    {
        return not_found(format!("this is IBM's cloud: {reason}"));
    }
    match facts.find_label(&LABELS) {
        Some((device, label)) => found(format!("file system on {device} is labelled {label}")),
        None => not_found(format!("no seed directory, {}", facts.missing_label("config-2"))),
    }
}

/// `openstack/2???-??-??/meta_data.json`; of several the first has to be a regular file.
fn dated_metadata(facts: &Facts<'_>, path: &RootedPath) -> Option<String> {
    let versions = path.join("openstack");
    let sys = facts.roots.system_for(&versions);
    let names = sys.list(&versions.path).ok()?;
    let file = |name: &String| versions.join(name).join("meta_data.json");
    let first = names.iter().filter(|n| is_version(n)).map(file).find(|p| sys.exists(&p.path))?;
    sys.is_file(&first.path).then_some(first.path)
}

/// `2015-10-15`: a version is named by its date.
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
        None => not_found("not Xen, or no file system labelled METADATA or config-2 that is IBM's"),
    }
}

/// Why this is IBM's cloud, if it is.
fn ibm(facts: &Facts<'_>) -> Option<String> {
    const CONFIG_DRIVE_UUID: &str = "9796-932E";
    if facts.virt() != "xen" {
        return None;
    }
    if is_provisioning(facts) {
        return Some("Xen, and the machine is being provisioned".into());
    }
    if let Some((device, label)) = facts.find_label(&["METADATA", "metadata"]) {
        return Some(format!("Xen, and the file system on {device} is labelled {label}"));
    }
    let has_uuid = facts.file_systems().uuids.iter().any(|uuid| uuid == CONFIG_DRIVE_UUID);
    let (device, label) = facts.find_label(&LABELS).filter(|_| has_uuid)?;
    Some(format!("Xen, the file system on {device} is labelled {label}, and one has IBM's UUID"))
}

/// IBM's first boot: its configuration is there, and its log is missing or of this boot.
fn is_provisioning(facts: &Facts<'_>) -> bool {
    if !facts.roots.is_file(&RootedPath::in_root("/root/provisioningConfiguration.cfg")) {
        return false;
    }
    let changed = |path: &RootedPath| {
        let meta = facts.roots.system_for(path).metadata(&path.path).ok()?;
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
    fn versions() {
        for (name, is) in
            [("2015-10-15", true), ("latest", false), ("1999-01-01", false), ("2x!?-ab-é.", true)]
        {
            assert_eq!(super::is_version(name), is, "{name}");
        }
    }
}
