//! disk_setup: partitions disks and makes file systems. Without `overwrite: true`, a disk, partition or file system that
//! holds anything is not changed. What cannot be read is treated as in use, and an entry with an invalid value does nothing.

#[cfg(test)]
mod device_tests;
mod file_system;
#[cfg(test)]
mod kept_tests;
mod keys;
mod layout;
mod partition;
#[cfg(test)]
mod power_cut_tests;
mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use config::join_key;
use system::{Result, System, debug, info, warning};

pub use self::keys::Keys;
use self::keys::Layout;
use self::target::Names;
use crate::disks::device_aliases;
use crate::disks::metadata_devices::MetadataDevices;
use crate::{Context, Frequency, Module, or_warn};

// Repeatable: it keeps a disk that is partitioned as requested, and an existing file system.
pub const MODULE: Module = Module::if_set::<Keys>("disk_setup", Frequency::Instance, run).repeatable();

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let (keys, invalid) = context.read_keys_and_findings::<Keys>();
    let Some(keys) = keys else { return Ok(()) };
    if !sys.is_live() && !sys.is_dry_run() {
        debug!(sys, "not a running system; skipping disk_setup");
        return Ok(());
    }
    let aliases =
        context.read_keys::<device_aliases::Keys>().and_then(|k| k.device_aliases).unwrap_or_default();
    let names = Names { aliases: &aliases.0, metadata: MetadataDevices::new(sys, context.instance) };

    let disks = keys.disk_setup.unwrap_or_default().0;
    let named: BTreeSet<&str> = sort::collect(disks.iter().map(|(name, _)| name.as_str()));
    let renamed =
        disks.iter().map(|(name, _)| (name, names.resolve(name))).filter(|(name, path)| *name != path);
    let replaced: BTreeSet<String> = sort::collect(renamed.map(|(_, path)| path));
    let mut overwritable = Vec::new();
    let mut partitioned = Vec::new();
    for (name, disk) in &disks {
        let place = join_key("disk_setup", name);
        let (Some(disk), false) = (disk, invalid.has_invalid(&place)) else {
            warning!(sys, "{place}: invalid; this disk is not changed");
            continue;
        };
        let path = names.resolve(name);
        if path != *name && named.contains(&*path) {
            info!(sys, "{place} replaces disk_setup.{path}");
        } else if replaced.contains(name) {
            continue;
        }
        sys.set_cause_key(&place);
        if !sys.is_live() {
            let kind = disk.table_type.as_str();
            match disk.layout {
                Layout::Nothing => {}
                Layout::Remove => plan(sys, format!("remove the partitions of {path}"), disk.overwrite),
                _ => plan(sys, format!("partition {path} ({kind})"), disk.overwrite),
            }
            continue;
        }
        match partition::set_up(sys, &path, disk) {
            Ok(changed) => {
                let real = sys.real_path(&path).filter(|_| disk.layout != Layout::Nothing);
                overwritable.extend(real.clone().filter(|_| disk.overwrite));
                partitioned.extend(real.filter(|_| changed));
            }
            Err(e) => warning!(sys, "{place}: {e}"),
        }
    }
    for (index, file_system) in keys.fs_setup.0.iter().enumerate() {
        let place = format!("fs_setup[{index}]");
        let (Some(file_system), false) = (file_system, invalid.has_invalid(&place)) else {
            warning!(sys, "{place}: invalid; this file system is skipped");
            continue;
        };
        sys.set_cause_key(&place);
        if let (false, Some(device)) = (sys.is_live(), &file_system.device) {
            let kind = file_system.filesystem.as_ref().map_or("cmd", |kind| kind.0.as_str());
            let (path, number) = names.resolve_dotted(sys, &device.0);
            let part = number.map_or(String::new(), |number| format!(", partition {number}"));
            plan(
                sys,
                format!("make a file system ({kind}) on {path}{part}"),
                file_system.overwrite.unwrap_or(false),
            );
            continue;
        }
        let disks = file_system::Disks { overwritable: &overwritable, partitioned: &partitioned };
        or_warn!(sys, file_system::set_up(context, &names, file_system, &disks), "{place}");
    }
    Ok(())
}

/// Records in the plan for a root that does not run what happens to a device, which it need not have.
fn plan(sys: &System, what: String, overwrite: bool) {
    let condition = if overwrite { "even if it holds data" } else { "unless it holds data" };
    sys.plan_device(format!("{what} when the machine boots, {condition}"));
}
