//! The block devices that the kernel has, from /sys/class/block, and how one is opened.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use system::{Error, Result, ResultExt, System};

/// A block device with a readable medium.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The kernel's name, for example `vda1` or `sr0`.
    pub name: String,
    /// The device node, for example `/dev/vda1`.
    pub path: String,
    /// Whether this is a partition.
    pub is_partition: bool,
    /// Whether this is a CD or DVD drive.
    pub is_optical: bool,
    /// The size in sectors of 512 bytes.
    pub sectors: u64,
}

/// The size in sectors up to which a partition is an extended one: the kernel shows only its first sectors. It is a
/// container and has no file system.
const EXTENDED_PARTITION_SECTORS: u64 = 2;

/// Returns all devices that can have a file system, sorted by name. Excluded are devices without a medium (unconfigured loop
/// and network block devices, empty drives), RAM disks, floppies (probing an absent drive takes seconds), and disks with
/// partitions, which are listed instead.
pub fn devices(sys: &System) -> Vec<Device> {
    const DIRECTORY: &str = "/sys/class/block";
    let names = match sys.list(DIRECTORY) {
        Ok(names) => names,
        Err(e) => {
            system::error!(sys, "{e}");
            return Vec::new();
        }
    };
    let mut devices: Vec<Device> = Vec::with_capacity(names.len());
    for (at, name) in names.iter().enumerate().filter(|(_, name)| !is_excluded(name)) {
        let directory = format!("{DIRECTORY}/{name}");
        let sectors = sys.read_text(format!("{directory}/size")).unwrap_or_default();
        let sectors: u64 = sectors.trim().parse().unwrap_or(0);
        if sectors <= EXTENDED_PARTITION_SECTORS {
            continue;
        }
        // The disk must be listed too, which is cheaper to check than asking the kernel about every device.
        let is_partition = has_disk(&names[..at], name) && sys.exists(format!("{directory}/partition"));
        // In sorted order a disk precedes its partitions, though not always directly (sda, sdaa, sda1).
        if is_partition {
            devices.retain(|d| d.is_partition || !is_partition_name(name, &d.name));
        }
        devices.push(Device {
            // The kernel writes ! where the node's name has a slash (cciss!c0d0).
            path: format!("/dev/{}", name.replace('!', "/")),
            is_optical: name.strip_prefix("sr").is_some_and(is_number),
            is_partition,
            sectors,
            name: name.clone(),
        });
    }
    devices
}

fn is_excluded(name: &str) -> bool {
    ["ram", "zram", "fd"].iter().any(|kind| name.strip_prefix(kind).is_some_and(is_number))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Returns whether these (sorted) names include the disk of a partition of that name.
fn has_disk(names: &[String], partition: &str) -> bool {
    let digits = partition.bytes().rev().take_while(u8::is_ascii_digit).count();
    let disk = &partition[..partition.len() - digits];
    let exists = |disk: &str| names.binary_search_by(|name| name.as_str().cmp(disk)).is_ok();
    digits > 0 && (exists(disk) || disk.strip_suffix('p').is_some_and(exists))
}

/// Returns whether a name is that of a partition of the disk: `sda1` on `sda`, `nvme0n1p2` on `nvme0n1`.
fn is_partition_name(partition: &str, disk: &str) -> bool {
    partition.strip_prefix(disk).is_some_and(|rest| {
        let after_digit = disk.ends_with(|c: char| c.is_ascii_digit());
        is_number(if after_digit { rest.strip_prefix('p').unwrap_or_default() } else { rest })
    })
}

/// Opens a device (or an image of one) read-only, without waiting for it.
///
/// # Errors
/// Fails if the device cannot be opened, or if the path is neither a block device nor a regular file.
pub fn open(sys: &System, path: &str) -> Result<File> {
    let what = || format!("opening {path}");
    let host = sys.root().host_followed(path);
    // O_NONBLOCK: a drive with an open tray must not close it.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY)
        .open(host)
        .context(what())?;
    let kind = file.metadata().context(what())?.file_type();
    // Only an image below another root is a plain file; a pipe or a tape with a disk's name is not a disk.
    if kind.is_block_device() || kind.is_file() {
        return Ok(file);
    }
    Err(Error::new(format!("{}: not a block device", what())))
}

// linux/cdrom.h: a drive's answers about its disc.
const CDS_NO_INFO: libc::c_int = 0;
const CDS_DRIVE_NOT_READY: libc::c_int = 3;
const CDS_DISC_OK: libc::c_int = 4;

/// Returns whether this is a CD drive without a readable disc. Reading from one fails slowly.
pub(crate) fn has_no_medium(file: &File) -> bool {
    let status = drive_status(file);
    status > CDS_NO_INFO && status != CDS_DISC_OK
}

/// Returns whether this is a CD drive that is still detecting its disc.
pub fn is_drive_not_ready(file: &File) -> bool {
    drive_status(file) == CDS_DRIVE_NOT_READY
}

#[allow(unsafe_code)]
fn drive_status(file: &File) -> libc::c_int {
    // linux/cdrom.h: the request, and "the current slot".
    const CDROM_DRIVE_STATUS: libc::Ioctl = 0x5326;
    const CDSL_CURRENT: libc::c_int = libc::c_int::MAX;
    // SAFETY: this request takes an integer and accesses no memory of this process; other devices return -1.
    unsafe { libc::ioctl(file.as_raw_fd(), CDROM_DRIVE_STATUS, CDSL_CURRENT) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::TempDir;

    #[test]
    fn partition_names_extend_the_name_of_their_disk() {
        for (partition, disk, is) in [
            ("sda1", "sda", true),
            ("sdaa1", "sda", false),
            ("nvme0n1p2", "nvme0n1", true),
            ("nvme0n12", "nvme0n1", false),
            ("loop1", "loop", true),
            ("vda", "vda", false),
        ] {
            assert_eq!(is_partition_name(partition, disk), is, "{partition} on {disk}");
        }
    }

    #[test]
    fn partitions_of_listed_disks_are_recognised() {
        let names = ["loop", "mmcblk0", "nvme0n1", "sda", "sdp", "vda"].map(String::from);
        for (partition, has) in [
            ("sda1", true),
            ("sda12", true),
            ("sdp1", true),
            ("sdb1", false),
            ("nvme0n1p2", true),
            ("nvme0n1", false),
            ("mmcblk0boot0", false),
            ("loop1", true),
            ("dm-0", false),
            ("1", false),
            ("sda", false),
        ] {
            assert_eq!(has_disk(&names, partition), has, "{partition}");
        }
    }

    #[test]
    fn only_devices_that_can_hold_data_are_listed() {
        let top = TempDir::new();
        let sys = System::new(&top);
        for (name, size, partition) in [
            ("sda", "1000", false),
            ("sda1", "900", true),
            ("sda2", "2", true),
            ("sdaa", "50", false),
            ("sr0", "700", false),
            ("sr1", "0", false),
            ("loop0", "0", false),
            ("loop1", "64", false),
            ("ram0", "8192", false),
            ("zram0", "8192", false),
            ("fd0", "8", false),
            ("cciss!c0d0", "12", false),
            ("broken", "many", false),
        ] {
            let directory = format!("/sys/class/block/{name}");
            sys.write(format!("{directory}/size"), format!("{size}\n"), system::WriteOptions::default())
                .unwrap();
            if partition {
                sys.write(format!("{directory}/partition"), "1\n", system::WriteOptions::default()).unwrap();
            }
        }
        let seen: Vec<_> =
            devices(&sys).into_iter().map(|d| (d.path, d.is_partition, d.is_optical)).collect();
        let expected = [
            ("/dev/cciss/c0d0", false, false),
            ("/dev/loop1", false, false),
            ("/dev/sda1", true, false),
            ("/dev/sdaa", false, false),
            ("/dev/sr0", false, true),
        ];
        assert_eq!(seen, expected.map(|(path, p, o)| (path.to_string(), p, o)));
    }
}
