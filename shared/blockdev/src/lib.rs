//! Block devices and what is on them: `devices` lists what the kernel has, `probe` reads the superblock of
//! one through libblkid, `find` does both. The generator and the local stage's datasources call this.
//! Devices are opened read-only and never waited for; nothing is mounted or changed.

mod device;
mod superblock;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

pub use device::{Device, devices};
pub use superblock::{Superblock, probe};
use system::{Deadline, Error, Result, ResultExt, System};

/// One pass over the machine's devices.
#[derive(Debug, Default)]
pub struct Found {
    /// Devices with a file system, in the order of their names.
    pub superblocks: Vec<(Device, Superblock)>,
    /// Devices that could not be read, and why; the others were looked at all the same.
    pub failed: Vec<(Device, Error)>,
}

/// Opens a device (or an image of one) of the machine without waiting for it.
pub fn open(sys: &System, path: &str) -> Result<File> {
    let what = || format!("opening {path}");
    let host = sys.root().host_followed(path);
    // O_NONBLOCK: a drive whose tray is open answers at once instead of pulling it in.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY)
        .open(host)
        .doing(what())?;
    let kind = file.metadata().doing(what())?.file_type();
    // Only an image below another root is a plain file; a pipe or a tape under a disk's name is no disk.
    if kind.is_block_device() || kind.is_file() {
        return Ok(file);
    }
    Err(Error::new(format!("{}: not a block device", what())))
}

/// The file system on one device, by its path (`/dev/vda1`); `None` when there is none.
pub fn probe_path(sys: &System, path: &str) -> Result<Option<Superblock>> {
    let file = open(sys, path)?;
    if device::is_drive_without_medium(&file) {
        return Ok(None);
    }
    probe(&file).doing(format_args!("probing {path}"))
}

/// The file systems on all of the machine's devices, as far as the deadline allows.
pub fn find(sys: &System, deadline: Deadline) -> Found {
    let mut found = Found::default();
    for device in devices(sys) {
        if deadline.is_over() {
            let late = Error::new(format!("probing {}: no time was left for it", device.path));
            found.failed.push((device, late));
            continue;
        }
        match probe_path(sys, &device.path) {
            Ok(Some(superblock)) => found.superblocks.push((device, superblock)),
            Ok(None) => {}
            Err(e) => found.failed.push((device, e)),
        }
    }
    found
}
