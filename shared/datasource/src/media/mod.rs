//! Seeds on disks: finds the file system by its label and mounts it read-only while it is read.

pub mod credentials;
pub mod seed;

use std::time::Duration;

use blockdev::{Device, Superblock};
use system::{Deadline, Error, Level, Result, System, debug, info, warning};

use self::seed::Seed;
use crate::Search;

/// The time limit for probing all devices: a drive that hangs must not delay the boot.
// Wait: the local stage | all disks and drives that may have a seed | -
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The file systems of seeds.
const SEED_FILE_SYSTEMS: &[&str] = &["vfat", "iso9660"];
/// The file systems of Azure's discs, which are recognized by their drive.
const DISC_FILE_SYSTEMS: &[&str] = &["iso9660", "udf"];
const FIRST_DRIVE: &str = "/dev/sr0";

/// The result of probing all devices.
struct FileSystems {
    /// The file systems, the last device first.
    found: Vec<(Device, Superblock)>,
    /// Why other devices were not read. If no seed is found, it may be on one of them.
    unread: Vec<Error>,
}

/// Returns the file systems; none below another root, or in a container, where devices are the host's.
fn file_systems(ctx: &Search<'_>) -> FileSystems {
    let sys = ctx.sys;
    if sys.is_container() {
        return FileSystems { found: Vec::new(), unread: Vec::new() };
    }
    let scan = blockdev::scan(sys, Deadline::after(PROBE_TIMEOUT));
    let mut found = scan.superblocks;
    // The device that was attached last is most likely the intended one.
    sort::sort_by(&mut found, |(a, _), (b, _)| b.path.cmp(&a.path));
    // A device without a node was removed meanwhile.
    let is_present = |e: &Error| !e.is_not_found();
    FileSystems { found, unread: scan.failed.into_iter().map(|(_, e)| e).filter(is_present).collect() }
}

/// Reads a file; returns `None` if it does not exist.
///
/// # Errors
///
/// Fails if the file exists and cannot be read.
pub fn read_optional(sys: &System, path: &str) -> Result<Option<Vec<u8>>> {
    if_found(sys.read(path))
}

/// Returns what was read; `None` if it does not exist.
///
/// # Errors
///
/// Fails as `read` did for any other reason.
pub fn if_found<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(e) if e.is_not_found() => Ok(None),
        read => read.map(Some),
    }
}

/// Returns the first file system labelled `label` (in upper or lower case too) that is a complete seed.
///
/// # Errors
///
/// Fails if no seed was found and a file system with the label, or, unless `has_other_seed`, a device could not be read.
pub fn find_nocloud_seed(
    ctx: &Search<'_>,
    label: Option<&str>,
    has_other_seed: bool,
) -> Result<Option<(String, Seed)>> {
    let Some(label) = label else { return Ok(None) };
    let names = [label.to_string(), label.to_uppercase(), label.to_lowercase()];
    let FileSystems { found, mut unread } = file_systems(ctx);
    if has_other_seed {
        log_skipped(ctx, Vec::new(), std::mem::take(&mut unread));
    }
    let is_seed = |(_, superblock): &(Device, Superblock)| {
        has_type(superblock, SEED_FILE_SYSTEMS) && names.iter().any(|name| superblock.has_label(name))
    };
    first_found(ctx, found.into_iter().filter(is_seed), unread, |at, device| {
        let seed = seed::read_directory(ctx.sys, at, &format!("{device}:"))?;
        if seed.is_none() {
            warning!(ctx.sys, "{device}, labelled {label}, lacks user-data or meta-data: not a seed");
        }
        Ok(seed.map(|seed| (device.to_string(), seed)))
    })
}

fn has_type(superblock: &Superblock, kinds: &[&str]) -> bool {
    kinds.contains(&superblock.fstype.as_str())
}

/// Returns the first device on which `read` finds a config drive, and its result: labelled file systems first, whatever
/// their type, then other whole disks with a file system of config drives. File systems that `is_other` accepts are those of
/// another datasource. `read` gets the mount point.
pub fn find_config_drive<T>(
    ctx: &Search<'_>,
    is_other: impl Fn(&Superblock) -> bool,
    read: impl Fn(&str) -> Result<Option<T>>,
) -> Result<Option<(String, T)>> {
    let labelled = |s: &Superblock| s.has_label("config-2") || s.has_label("CONFIG-2");
    let FileSystems { found, unread } = file_systems(ctx);
    let all = found.into_iter().filter(|(_, s)| !is_other(s));
    let (first, rest): (Vec<_>, Vec<_>) = all.partition(|(_, s)| labelled(s));
    let rest = rest.into_iter().filter(|(device, s)| !device.is_partition && has_type(s, SEED_FILE_SYSTEMS));
    first_found(ctx, first.into_iter().chain(rest), unread, |at, device| {
        Ok(read(at)?.map(|drive| (device.to_string(), drive)))
    })
}

/// Returns the first disc on which `read` finds something; `read` gets the mount point and the device.
pub fn find_disc<T>(ctx: &Search<'_>, read: impl Fn(&str, &str) -> Result<Option<T>>) -> Result<Option<T>> {
    let FileSystems { found, unread } = file_systems(ctx);
    let all = found.into_iter().filter(|(_, s)| has_type(s, DISC_FILE_SYSTEMS));
    let (first, rest): (Vec<_>, Vec<_>) = all.partition(|(device, _)| device.path == FIRST_DRIVE);
    first_found(ctx, first.into_iter().chain(rest), unread, read)
}

/// Like [`find_disc`], for ISO 9660 discs in CD drives.
pub fn find_on_drive<T>(
    ctx: &Search<'_>,
    read: impl Fn(&str, &str) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let is_disc = |device: &Device, s: &Superblock| has_type(s, &["iso9660"]) && is_drive(&device.name);
    let FileSystems { found, unread } = file_systems(ctx);
    first_found(ctx, found.into_iter().filter(|(device, s)| is_disc(device, s)), unread, read)
}

/// Returns whether udev takes a device of this name for a CD drive: `sr0`, `hda`, `xvda1`.
fn is_drive(name: &str) -> bool {
    let begins = |prefix: &str, fits: fn(&char) -> bool| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.chars().next().is_some_and(|c| fits(&c)))
    };
    begins("sr", char::is_ascii_digit) || begins("hd", char::is_ascii_lowercase) || name.starts_with("xvd")
}

fn first_found<T>(
    ctx: &Search<'_>,
    devices: impl Iterator<Item = (Device, Superblock)>,
    unread: Vec<Error>,
    read: impl Fn(&str, &str) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let mut failures = Vec::new();
    for (device, superblock) in devices {
        match read_mounted(ctx.sys, &device.path, &superblock.fstype, |at| read(at, &device.path)) {
            Ok(Some(found)) => {
                log_skipped(ctx, failures, unread);
                return Ok(Some(found));
            }
            Ok(None) => debug!(ctx.sys, "no metadata or user-data on {}", device.path),
            Err(e) => failures.push(Error::new(format!("{}: {e}", device.path))),
        }
    }
    first_failure(ctx, failures, unread)
}

/// Reads the file system on a device; no other device is probed.
///
/// # Errors
///
/// Fails if the device has no known file system, or cannot be mounted, or as `read` does.
pub fn read_device<T>(
    sys: &System,
    device: &str,
    read: impl Fn(&str) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let path = device.to_string();
    let root = sys.root().as_path().to_path_buf();
    let probe = move || blockdev::probe_path(&System::new(root), &path);
    let superblock = blockdev::run_within(Deadline::after(PROBE_TIMEOUT), probe)
        .unwrap_or_else(|| Err(Error::new(format!("probing {device}: timed out"))))?;
    match superblock {
        Some(superblock) => read_mounted(sys, device, &superblock.fstype, read),
        None => Err(Error::new(format!("{device}: no known file system"))),
    }
}

/// Reads the file systems to which `rank` gives a number, in the order of that number and then of the devices' names,
/// until `read` finds something. `read` gets the mount point and the device.
///
/// # Errors
///
/// Fails with the first failure if nothing was found: the one that could not be read may be the right one.
pub fn find_ranked<T>(
    ctx: &Search<'_>,
    rank: impl Fn(&Superblock) -> Option<u8>,
    read: impl Fn(&str, &str) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let FileSystems { found, unread } = file_systems(ctx);
    let mut all: Vec<_> = found.into_iter().filter_map(|(d, s)| Some((rank(&s)?, d, s))).collect();
    sort::sort_by(&mut all, |(a, x, _), (b, y, _)| (a, &x.path).cmp(&(b, &y.path)));
    first_found(ctx, all.into_iter().map(|(_, device, superblock)| (device, superblock)), unread, read)
}

/// Logs the failures that have no effect because a seed was found: of file systems that looked like it, and of other devices.
fn log_skipped(ctx: &Search<'_>, failures: Vec<Error>, unread: Vec<Error>) {
    failures.iter().for_each(|e| warning!(ctx.sys, "skipped: {e}"));
    unread.iter().for_each(|e| info!(ctx.sys, "skipped: {e}"));
}

/// Returns the first failure if nothing was found, because the seed may be on a device that could not be read.
fn first_failure<T>(ctx: &Search<'_>, failures: Vec<Error>, unread: Vec<Error>) -> Result<Option<T>> {
    let mut all = failures.into_iter().chain(unread);
    let Some(first) = all.next() else { return Ok(None) };
    log_skipped(ctx, all.collect(), Vec::new());
    Err(first)
}

/// Reads a device at its mount point, or mounts it for that and unmounts it in any case.
pub fn read_mounted<T>(
    sys: &System,
    device: &str,
    kind: &str,
    read: impl Fn(&str) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let mounts = sys.read_text("/proc/mounts").unwrap_or_default();
    if let Some(at) = mount_point(&mounts, device) {
        return read(&at);
    }
    // In a directory that only root can write to: elsewhere another user could redirect the mount.
    let at = format!("/run/cloud-init/media-{}", std::process::id());
    sys.create_dir_all("/run/cloud-init", 0o755)?;
    sys.create_dir_all(&at, 0o700)?;
    let result = match sys.mount_read_only(device, &at, kind) {
        Ok(()) => {
            let result = read(&at);
            sys.log_error(Level::Warning, sys.unmount(&at));
            result
        }
        Err(e) => Err(Error::new(format!("{e} (is the kernel module {kind} available?)"))),
    };
    sys.log_error(Level::Debug, sys.remove_dir(&at));
    result
}

/// Returns the mount point of a device from the text of /proc/mounts (proc_mounts(5): spaces are octal escapes).
fn mount_point(mounts: &str, device: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        (fields.next()? == device).then_some(())?;
        Some(system::unescape(fields.next()?))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn escaped_mount_points_are_decoded() {
        let text = "/dev/vda1 / ext4 rw 0 0\n/dev/sr0 /media/my\\040cd iso9660 ro 0 0\n";
        assert_eq!(super::mount_point(text, "/dev/sr0").as_deref(), Some("/media/my cd"));
        assert_eq!(super::mount_point(text, "/dev/sr1"), None);
    }
}
