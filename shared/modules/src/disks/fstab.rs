//! The content of fstab(5): device names as users write them are resolved, and lines are planned. `mounts`
//! applies the plan.

use std::collections::{BTreeMap, BTreeSet};

use system::System;

use crate::disks::metadata_devices::MetadataDevices;

/// The mark of this program's lines, by which the next instance finds them.
const CLOUDCONFIG_OPTION: &str = "comment=cloudconfig";
pub const FIELD_COUNT: usize = 6;

/// The facts about the machine's devices.
pub struct Devices<'a> {
    pub sys: &'a System,
    pub metadata: MetadataDevices<'a>,
    /// `device_aliases` of the configuration.
    pub aliases: &'a BTreeMap<String, String>,
}

impl Devices<'_> {
    /// Returns the kernel's name of a device path (links followed): `/dev/disk/by-label/x` → `vda1`.
    fn kernel_name(&self, path: &str) -> String {
        let real = self.sys.real_path(path).unwrap_or_else(|| path.to_string());
        real.rsplit('/').next().unwrap_or_default().to_string()
    }

    /// Returns whether the kernel has this block device: `vda`, `vda1`, or, as part of a disk, `vda/vda1`.
    fn in_sysfs(&self, name: &str) -> bool {
        // A partition alone is only below /sys/class, where upstream does not look: `sda1` stays unresolved there.
        let exists = |directory: &str| self.sys.exists(format!("{directory}/{name}"));
        !name.is_empty() && (exists("/sys/block") || (!name.contains('/') && exists("/sys/class/block")))
    }

    fn alias(&self, name: &str) -> Option<&str> {
        self.aliases.get(name).map(String::as_str)
    }
}

/// Returns the device of a name; `None` if it cannot be determined (a label, a UUID, a device that does not exist).
pub fn resolve_device(name: &str, devices: &Devices<'_>) -> Option<String> {
    let name = if name == "ephemeral" { "ephemeral0" } else { name };
    if name.contains(':') {
        return Some(name.to_string());
    }
    let (name, partition) = split_partition(devices.alias(name).unwrap_or(name));
    let name = devices.alias(name).unwrap_or(name);
    let path = if is_metadata_name(name) {
        devices.metadata.path(name)?
    } else if is_kernel_disk_name(name) {
        format!("/dev/{name}")
    } else {
        name.to_string()
    };
    if !path.starts_with('/') {
        return None;
    }
    let disk = devices.kernel_name(&path);
    let parts = ["", "p", "-part"].map(|middle| format!("{path}{middle}{}", partition.unwrap_or("1")));
    let part = parts.into_iter().find(|p| devices.sys.exists(p));
    match part {
        Some(part) => {
            let below = format!("{disk}/{}", devices.kernel_name(&part));
            devices.in_sysfs(&below).then_some(part)
        }
        None if partition.is_some() => None,
        None => devices.in_sysfs(&disk).then_some(path),
    }
}

/// Splits `name.N` into name and N.
fn split_partition(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('.') {
        Some((device, number)) if !device.is_empty() && !number.is_empty() => (device, Some(number)),
        _ => (name, None),
    }
}

fn is_metadata_name(name: &str) -> bool {
    matches!(name, "ami" | "root" | "swap") || name.starts_with("ephemeral") || name.starts_with("ebs")
}

/// Returns whether the name is a device's: `sda1`, `xvdb`, `vdc`, `hda`, `sr0`.
fn is_kernel_disk_name(name: &str) -> bool {
    let lower = |s: &str| s.bytes().all(|b| b.is_ascii_lowercase());
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let disk = |rest: &str| {
        let letters = rest.trim_end_matches(|c: char| c.is_ascii_digit());
        !letters.is_empty() && lower(letters) && digits(&rest[letters.len()..])
    };
    ["xvd", "sd", "hd", "vd"].iter().any(|p| name.strip_prefix(p).is_some_and(disk))
        || name.strip_prefix("sr").is_some_and(|n| !n.is_empty() && digits(n))
}

/// A line of fstab(5): a line of the configuration, completed to six fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FstabEntry(pub [String; FIELD_COUNT]);

impl FstabEntry {
    pub fn device(&self) -> &str {
        &self.0[0]
    }

    pub fn mount_point(&self) -> &str {
        &self.0[1]
    }

    pub fn is_swap(&self) -> bool {
        self.0[2] == "swap"
    }

    fn line(&self) -> String {
        let [device, point, kind, options, dump, pass] = &self.0;
        [device, point, kind, &format!("{options},{CLOUDCONFIG_OPTION}"), dump, pass]
            .map(|field| escape(field))
            .join("\t")
    }
}

/// Escapes whitespace in a field as in fstab(5).
fn escape(field: &str) -> String {
    field.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012")
}

/// The requested content.
pub struct MountConfig<'a> {
    /// The lines of `mounts`, with the fields that are set.
    pub lines: &'a [Vec<Option<String>>],
    /// `mount_default_fields`.
    pub defaults: &'a [String; FIELD_COUNT],
    /// The options of mounts that the configuration does not mention.
    pub default_options: &'a str,
    /// An existing swap file.
    pub swap_file: Option<&'a str>,
}

/// Returns the entries to add, in order: those of the configuration, and the defaults for devices that clouds provide
/// unless the configuration mentions them.
pub fn plan_entries(fstab: &str, wanted: &MountConfig<'_>, devices: &Devices<'_>) -> Vec<FstabEntry> {
    let have = listed_devices(fstab);
    let mut asked: Vec<FstabEntry> = Vec::new();
    // The devices that the configuration mentions, each with the number of mounts before the line that removes its own.
    let mut mentioned: BTreeMap<String, usize> = BTreeMap::new();
    for line in wanted.lines {
        let Some(Some(name)) = line.first() else { continue };
        let device = resolve_device(name, devices).unwrap_or_else(|| name.clone());
        if line.get(1).is_none_or(Option::is_none) && wanted.defaults[1].is_empty() {
            mentioned.insert(device, asked.len());
            continue;
        }
        let mut fields = wanted.defaults.clone();
        for (field, given) in fields.iter_mut().zip(line) {
            if let Some(given) = given {
                field.clone_from(given);
            }
        }
        fields[0].clone_from(&device);
        mentioned.entry(device).or_default();
        asked.push(FstabEntry(fields));
    }
    let options = wanted.default_options;
    for (name, rest) in
        [("ephemeral0", ["/mnt", "auto", options, "0", "2"]), ("swap", ["none", "swap", "sw", "0", "0"])]
    {
        let Some(device) = resolve_device(name, devices) else { continue };
        if !have.contains(&device) && !mentioned.contains_key(&device) {
            let [a, b, c, d, e] = rest.map(String::from);
            mentioned.entry(device.clone()).or_default();
            asked.push(FstabEntry([device, a, b, c, d, e]));
        }
    }
    let is_left =
        |at: usize, entry: &FstabEntry| mentioned.get(entry.device()).is_none_or(|before| at >= *before);
    let mounts = asked.into_iter().enumerate().filter(|(at, entry)| is_left(*at, entry));
    let mut mounts: Vec<FstabEntry> = mounts.map(|(_, entry)| entry).collect();
    if let Some(file) = wanted.swap_file {
        mounts.push(FstabEntry([file, "none", "swap", "sw", "0", "0"].map(String::from)));
    }
    mounts
}

/// Returns whether a line was written by this module.
fn is_cloudconfig_line(line: &str) -> bool {
    let options = line.split_whitespace().nth(3).unwrap_or_default();
    !line.trim_start().starts_with('#') && options.split(',').any(|o| o == CLOUDCONFIG_OPTION)
}

fn listed_devices(fstab: &str) -> Vec<String> {
    let foreign =
        fstab.lines().filter(|line| !is_cloudconfig_line(line) && !line.trim_start().starts_with('#'));
    foreign.filter_map(|line| line.split_whitespace().next().map(String::from)).collect()
}

/// Returns the new text. Upstream does not mark the line of its swap file, which counts as marked. `keep`: part of the
/// configuration is invalid, so earlier lines of this module are kept, except those of devices and mount points that are
/// written again.
pub fn render_fstab(fstab: &str, mounts: &[FstabEntry], keep: bool) -> String {
    let swaps: BTreeSet<String> = sort::collect(mounts.iter().filter(|m| m.is_swap()).map(|m| m.0.join(" ")));
    let again = |line: &str| swaps.contains(&line.split_whitespace().collect::<Vec<_>>().join(" "));
    let [devices, points] =
        [0, 1].map(|at| sort::collect::<BTreeSet<_>, _>(mounts.iter().map(|m| escape(&m.0[at]))));
    let is_new = |line: &str| {
        let mut words = line.split_whitespace();
        let (device, point) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        devices.contains(device) || (point != "none" && points.contains(point))
    };
    let stays = |line: &&str| {
        !line.trim().is_empty() && !again(line) && (!is_cloudconfig_line(line) || (keep && !is_new(line)))
    };
    let lines = fstab.lines().filter(stays).map(String::from).chain(mounts.iter().map(FstabEntry::line));
    lines.map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use system::WriteOptions;

    use super::*;
    use crate::tests::sandbox::Sandbox;

    /// A machine with disks, of which two have partitions, and with names for them.
    fn with_devices<T>(work: impl FnOnce(&Devices<'_>) -> T) -> T {
        let mut sandbox = Sandbox::new("{}");
        for path in ["vda", "vda/vda1", "vdb", "nvme0n1", "nvme0n1/nvme0n1p1", "nvme0n1/nvme0n1p3", "sr0"] {
            let name = path.rsplit('/').next().unwrap();
            for path in [format!("/sys/block/{path}/size"), format!("/sys/class/block/{name}/size")] {
                sandbox.sys.write(path, "1", WriteOptions::default()).unwrap();
            }
            sandbox.sys.write(format!("/dev/{name}"), "", WriteOptions::default()).unwrap();
        }
        for (link, target) in [("x", "vda"), ("x-part1", "vda1")] {
            sandbox.sys.link(&format!("../../{target}"), format!("/dev/disk/by-id/{link}")).unwrap();
        }
        sandbox.instance.devices.insert("ephemeral0".into(), "vdb".into());
        sandbox.instance.devices.insert("swap".into(), "nvme0n1p3".into());
        work(&Devices {
            sys: &sandbox.sys,
            metadata: MetadataDevices::new(&sandbox.sys, &sandbox.instance),
            aliases: &BTreeMap::from([("data".to_string(), "/dev/nvme0n1".to_string())]),
        })
    }

    #[test]
    fn device_names_are_resolved_to_existing_partitions() {
        for (name, device) in [
            ("vda", Some("/dev/vda1")),
            ("/dev/vda", Some("/dev/vda1")),
            ("vdb", Some("/dev/vdb")),
            ("vda1", Some("/dev/vda1")),
            ("vda.1", Some("/dev/vda1")),
            ("vda.2", None),
            ("nvme0n1", None),
            ("/dev/nvme0n1", Some("/dev/nvme0n1p1")),
            ("/dev/nvme0n1.3", Some("/dev/nvme0n1p3")),
            ("data", Some("/dev/nvme0n1p1")),
            ("data.3", Some("/dev/nvme0n1p3")),
            ("/dev/disk/by-id/x", Some("/dev/disk/by-id/x-part1")),
            ("ephemeral", Some("/dev/vdb")),
            ("ephemeral0", Some("/dev/vdb")),
            ("ephemeral1", None),
            ("ebs0", None),
            ("sr0", Some("/dev/sr0")),
            ("server:/export", Some("server:/export")),
            ("UUID=1-2.3", None),
            ("LABEL=x", None),
            ("tmpfs", None),
            ("sdz9", None),
        ] {
            assert_eq!(with_devices(|d| resolve_device(name, d)).as_deref(), device, "{name}");
        }
    }

    fn lines(rows: &[&[Option<&str>]]) -> Vec<Vec<Option<String>>> {
        rows.iter().map(|row| row.iter().map(|f| f.map(String::from)).collect()).collect()
    }

    fn plan(fstab: &str, rows: &[&[Option<&str>]], swap_file: Option<&str>) -> String {
        let defaults = ["", "", "auto", "defaults,nofail", "0", "2"].map(String::from);
        let rows = lines(rows);
        let wanted =
            MountConfig { lines: &rows, defaults: &defaults, default_options: "built-in", swap_file };
        render_fstab(fstab, &with_devices(|devices| plan_entries(fstab, &wanted, devices)), false)
    }
    #[test]
    fn a_swap_file_has_one_line() {
        let ours = "/swap.img\tnone\tswap\tsw,comment=cloudconfig\t0\t0\n";
        let nothing_else: &[&[Option<&str>]] = &[&[Some("swap"), None], &[Some("ephemeral0"), None]];
        // By Python's cloud-init, and by this program for an earlier instance.
        for before in ["/swap.img\tnone\tswap\tsw\t0\t0\n", "/swap.img none swap sw 0 0\n", ours] {
            assert_eq!(plan(before, nothing_else, Some("/swap.img")), ours, "{before}");
        }
        // Another program's line is not changed.
        let other = "/swap.img none swap sw,pri=5 0 0\n";
        assert_eq!(plan(other, nothing_else, Some("/swap.img")), format!("{other}{ours}"));
    }
}
