//! mounts: lines of fstab from the user and the cloud, their mount points, a swap file, and mounting them.

use std::collections::BTreeSet;

use config::schema::{NULL, STR, Type, list};
use config::{FromNode, Node, Reader, Value};
use system::{Command, Result, System, WriteOptions, debug, warning};

use crate::disks::data_loss_notice;
use crate::disks::device_aliases::Aliases;
use crate::disks::fstab::{
    Devices, FIELD_COUNT, FstabEntry, MountConfig, plan_entries, render_fstab, resolve_device,
};
use crate::disks::metadata_devices::MetadataDevices;
use crate::disks::swap::{self, Swap};
use crate::{Context, Frequency, Module, or_warn};

pub const MODULE: Module = Module::of::<Keys>("mounts", Frequency::Instance, run).repeatable();

const FSTAB: &str = "/etc/fstab";

config::keys! {
    pub struct Keys {
        /// fstab entries, each a list of up to six fields. The device may be a name of `device_aliases` or of the cloud, such as `ephemeral0` for its temporary disk (EC2, Azure, SmartOS). A null mount point removes earlier entries of the device.
        mounts: Vec<FstabLine>, within min(1);
        /// Default values of the six fields. The first one is not used.
        mount_default_fields: Option<FstabLine>, types [list(&[STR, NULL]).range(6, 6)];
        /// The swap file to create.
        swap: Option<Swap>;
        /// Aliases for devices, also in `disk_setup` and `fs_setup`.
        device_aliases: Option<Aliases>;
    }
}

/// Fields of an fstab line, as far as they are given.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FstabLine(Vec<Option<String>>);

impl FromNode for FstabLine {
    const SCHEMA: &'static [Type] = &[list(&[STR]).range(1, 6)];
    fn read(node: &Node, reader: &mut Reader) -> Option<FstabLine> {
        let items = reader.list(node, "a list of fields of fstab")?;
        if items.len() > FIELD_COUNT {
            reader.add_finding(
                config::FindingKind::Invalid,
                node,
                "expected at most six fields; ignoring the others",
            );
        }
        let mut fields = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate().take(FIELD_COUNT) {
            let text = item.scalar_text().map(|text| text.trim_matches(' ').to_string());
            // A line end would begin another line, and an empty field would shift the following ones.
            let fits = |text: &String| !text.is_empty() && !text.contains(char::is_control);
            match (&item.value, text) {
                (Value::Null, _) => fields.push(None),
                (_, Some(text)) if fits(&text) => fields.push(Some(text)),
                _ => {
                    let wanted = "a single-line string, without control characters";
                    return reader.nested(&format!("[{i}]"), |r| r.type_error(item, wanted));
                }
            }
        }
        Some(FstabLine(fields))
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let (Some(mut keys), invalid) = context.read_keys_and_findings::<Keys>() else { return Ok(()) };
    if invalid.has_invalid("swap") && keys.swap.take().is_some() {
        // Without its limit it could fill the disk.
        warning!(sys, "swap is invalid; not creating a swap file");
    }
    let fstab = sys.read_text_if_exists(FSTAB)?.unwrap_or_default();
    let swap_file = match &keys.swap {
        Some(swap) => {
            sys.set_cause_key("swap");
            swap::ensure_swap_file(sys, swap)
        }
        None => None,
    };
    sys.set_cause_key(MODULE.configured_keys(context.config));
    let lines: Vec<_> = keys.mounts.into_iter().map(|FstabLine(fields)| check_device(sys, fields)).collect();
    let defaults = default_fields(sys, keys.mount_default_fields);
    let wanted = MountConfig {
        lines: &lines,
        defaults: &defaults,
        default_options: default_options(sys),
        swap_file: swap_file.as_deref(),
    };
    let aliases = keys.device_aliases.map(|a| a.0).unwrap_or_default();
    let devices = Devices { sys, metadata: MetadataDevices::new(sys, context.instance), aliases: &aliases };
    let mounts = plan_entries(&fstab, &wanted, &devices);
    if mounts.is_empty() {
        debug!(sys, "nothing to add to {FSTAB}");
        return Ok(());
    }
    create_mount_points(sys, &mounts);
    let new = render_fstab(&fstab, &mounts, invalid.has_invalid("mounts"));
    let changed = new != fstab;
    sys.write(FSTAB, new, WriteOptions::default().durable())?;
    if !sys.is_live() {
        return Ok(());
    }
    let mounted = activate(sys, &mounts, changed);
    for device in context.instance.temporary_devices.iter().filter_map(|name| resolve_device(name, &devices))
    {
        if let Some(entry) = mounts.iter().find(|entry| entry.device() == device) {
            data_loss_notice::write(sys, &device, entry.mount_point());
        }
    }
    mounted
}

/// A line without a device has no effect.
fn check_device(sys: &System, fields: Vec<Option<String>>) -> Vec<Option<String>> {
    if fields.first().is_none_or(|f| f.as_deref().is_none_or(str::is_empty)) {
        warning!(sys, "mounts: ignoring an entry without a device");
        return Vec::new();
    }
    fields
}

/// Returns the built-in default options.
fn default_options(sys: &System) -> &'static str {
    if has_systemd(sys) {
        "defaults,nofail,x-systemd.after=cloud-init-network.service,_netdev"
    } else {
        "defaults,nobootwait"
    }
}

/// Returns `mount_default_fields` with the built-in defaults.
fn default_fields(sys: &System, given: Option<FstabLine>) -> [String; FIELD_COUNT] {
    let mut fields = ["", "", "auto", default_options(sys), "0", "2"].map(String::from);
    let Some(FstabLine(given)) = given else { return fields };
    if given.len() != FIELD_COUNT {
        warning!(
            sys,
            "mount_default_fields: expected {FIELD_COUNT} fields, found {}; using the defaults",
            given.len()
        );
        return fields;
    }
    for (field, given) in fields.iter_mut().zip(given) {
        if let Some(given) = given {
            *field = given;
        }
    }
    fields
}

/// Returns whether systemd is in use: a machine runs it, an image contains it.
fn has_systemd(sys: &System) -> bool {
    let booted = sys.is_dir("/run/systemd/system");
    booted || (!sys.is_live() && sys.exists("/usr/lib/systemd/systemd"))
}

/// Creates mount points. A failure is logged; the mount then fails too.
fn create_mount_points(sys: &System, mounts: &[FstabEntry]) {
    for mount in mounts.iter().filter(|m| m.mount_point().starts_with('/')) {
        if !sys.exists(mount.mount_point()) {
            or_warn!(sys, sys.create_dir_all(mount.mount_point(), 0o755), "mounts");
        }
    }
}

/// Activates swap areas and mounts file systems. A failure of one does not prevent the other.
fn activate(sys: &System, mounts: &[FstabEntry], changed: bool) -> Result<()> {
    let mut swapped = Ok(());
    if mounts.iter().any(FstabEntry::is_swap) {
        let swapon = sys.run(&Command::new(["swapon", "-a"]));
        swapped = swapon.map(drop).inspect_err(|e| warning!(sys, "mounts: {e}"));
    }
    let have = sys.mounts()?;
    let have: BTreeSet<&str> = sort::collect(have.iter().map(|mount| mount.mount_point.as_str()));
    let mut points = mounts.iter().map(FstabEntry::mount_point).filter(|p| p.starts_with('/'));
    if !changed && points.all(|p| have.contains(if p.len() > 1 { p.trim_end_matches('/') } else { p })) {
        debug!(sys, "all filesystems are already mounted");
        return swapped;
    }
    let mounted = sys.run(&Command::new(["mount", "-a"]));
    if has_systemd(sys) {
        or_warn!(sys, sys.run(&Command::new(["systemctl", "daemon-reload"])), "mounts");
    }
    mounted.map(drop).and(swapped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    const DEFAULT_OPTIONS: &str =
        "defaults,nofail,x-systemd.after=cloud-init-network.service,_netdev,comment=cloudconfig";

    /// An image with systemd and a disk.
    fn image(config: &str, fstab: &str) -> Sandbox {
        let sandbox = Sandbox::new(config);
        for (path, text) in [
            ("/usr/lib/systemd/systemd", ""),
            ("/sys/block/vda/vda1/size", "1"),
            ("/sys/block/vdb/size", "1"),
            ("/dev/vda1", ""),
            (FSTAB, fstab),
        ] {
            sandbox.sys.write(path, text, WriteOptions::default()).unwrap();
        }
        sandbox
    }

    #[test]
    fn an_image_gets_fstab_lines_and_mount_points() {
        let mut sandbox = image(
            "mounts:\n- [vda, /data]\n- [db, '/d b', ext4, null, '1']\n- [UUID=x, none, swap, sw, 0, 0]\n\
             device_aliases: {db: /dev/vdb}\nswap: {size: auto}\n",
            "# kept\n",
        );
        sandbox.instance.devices.insert("ephemeral0".into(), "vda".into());
        sandbox.run(&MODULE).unwrap();
        assert_eq!(
            sandbox.file(FSTAB),
            (
                format!(
                    "# kept\n/dev/vda1\t/data\tauto\t{DEFAULT_OPTIONS}\t0\t2\n\
                     /dev/vdb\t/d\\040b\text4\t{DEFAULT_OPTIONS}\t1\t2\n\
                     UUID=x\tnone\tswap\tsw,comment=cloudconfig\t0\t0\n"
                ),
                0o644
            )
        );
        assert!(sandbox.sys.is_dir("/data") && sandbox.sys.is_dir("/d b") && !sandbox.sys.exists("/none"));
        assert!(
            sandbox.commands().is_empty() && sandbox.logged_warnings().is_empty(),
            "{:?}",
            sandbox.logged_warnings()
        );
        let again = sandbox.file(FSTAB).0;
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.file(FSTAB).0, again);
    }
}
