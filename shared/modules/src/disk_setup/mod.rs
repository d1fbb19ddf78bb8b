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

use config::join_key;
use system::{Result, debug, info, warning};

use self::keys::{Keys, Layout};
use self::target::Names;
use crate::disks::device_aliases::Aliases;
use crate::disks::metadata_devices::MetadataDevices;
use crate::{Context, Frequency, Module, ModuleFlag, Section};

pub const MODULE: Module = Module {
    // A disk that is partitioned as requested and a file system that exists are kept.
    flags: &[ModuleFlag::Repeatable],
    activation: &["disk_setup", "fs_setup"],
    ..Module::of::<Keys>("disk_setup", Frequency::Instance, run)
};

/// The module in the schema and the documentation.
pub const DOCS: Section = Section::of::<Keys>(MODULE.name);

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let (keys, invalid) = context.read_keys_and_errors(Keys::read_known);
    let Some(keys) = keys else { return Ok(()) };
    if !sys.is_live() {
        debug!(sys, "not a running system; skipping disk_setup");
        return Ok(());
    }
    let aliases = context.read_key::<Aliases>("device_aliases").unwrap_or_default();
    let names = Names { aliases: &aliases.0, metadata: MetadataDevices::new(sys, context.instance) };

    let disks = keys.disk_setup.unwrap_or_default().0;
    let mut overwritable = Vec::new();
    let mut partitioned = Vec::new();
    for (name, disk) in &disks {
        let place = join_key("disk_setup", name);
        let (Some(disk), false) = (disk, invalid.contains(&place)) else {
            warning!(sys, "{place}: invalid; this disk is not changed");
            continue;
        };
        let path = names.resolve(name);
        if path != *name && disks.iter().any(|(other, _)| *other == path) {
            info!(sys, "{place} replaces disk_setup.{path}");
        } else if disks.iter().any(|(other, _)| other != name && names.resolve(other) == *name) {
            continue;
        }
        sys.set_cause_key(&place);
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
        let (Some(file_system), false) = (file_system, invalid.contains(&place)) else {
            warning!(sys, "{place}: invalid; this file system is skipped");
            continue;
        };
        sys.set_cause_key(&place);
        let disks = file_system::Disks { overwritable: &overwritable, partitioned: &partitioned };
        if let Err(e) = file_system::set_up(context, &names, file_system, &disks) {
            warning!(sys, "{place}: {e}");
        }
    }
    Ok(())
}
