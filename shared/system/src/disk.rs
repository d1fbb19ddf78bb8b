//! Disks, partitions and mounted file systems, as growing them at boot requires. Changes are made on the running machine
//! only.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::Duration;

use crate::large_files::{fstatfs, statvfs};
use crate::{Deadline, Effect, Error, Result, ResultExt, System, ioctl};

/// How long udev may hold the lock of a disk before the disk is changed anyway.
// Wait: growpart, disk_setup | udev to release a disk that is about to be changed; then it is changed | -
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// A file system that the kernel grows while it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowableFileSystem {
    /// ext2, ext3 and ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
}

/// The space of a mounted file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystemUse {
    /// The size in bytes.
    pub size: u64,
    /// The free bytes, those that are reserved for root included.
    pub free: u64,
    /// The number of files that can still be created; `None` if the file system has no such limit.
    pub free_files: Option<u64>,
    /// Whether it is mounted read-only.
    pub is_read_only: bool,
}

impl System {
    /// Returns the space of the file system of a directory.
    ///
    /// # Errors
    /// Fails if the directory does not exist.
    pub fn file_system_use(&self, directory: &str) -> Result<FileSystemUse> {
        let (stat, is_read_only) = statvfs(&self.root().host_followed(directory))
            .context(format_args!("getting the space of {directory}"))?;
        Ok(FileSystemUse {
            size: stat.f_frsize.saturating_mul(stat.f_blocks),
            free: stat.f_frsize.saturating_mul(stat.f_bfree),
            free_files: (stat.f_files > 0).then_some(stat.f_ffree),
            is_read_only,
        })
    }

    /// Returns the major and minor number of a block device.
    ///
    /// # Errors
    /// Fails if the path does not exist or is not a block device.
    pub fn device_number(&self, path: &str) -> Result<(u64, u64)> {
        let meta = self.metadata(path)?;
        use std::os::unix::fs::FileTypeExt;
        if !meta.file_type().is_block_device() {
            return Err(Error::new(format!("{path}: not a block device")));
        }
        let device = meta.rdev();
        Ok((nix::sys::stat::major(device), nix::sys::stat::minor(device)))
    }

    /// Returns the free bytes of the file system of a directory.
    ///
    /// # Errors
    /// Fails if the directory does not exist.
    pub fn free_space(&self, directory: &str) -> Result<u64> {
        self.file_system_use(directory).map(|space| space.free)
    }

    /// Returns `length` bytes of a device, from `offset` on.
    ///
    /// # Errors
    /// Fails if the device cannot be read, or is shorter.
    pub fn read_device(&self, path: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let file = File::open(self.root().host_followed(path))?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Writes pieces (offset and bytes) to a disk in this order, flushing each before the next. udev does not probe the
    /// disk in the meantime.
    ///
    /// # Errors
    /// Fails below a root other than `/`, or if a piece cannot be written; earlier ones are written then.
    pub fn write_device(&self, path: &str, pieces: &[(u64, &[u8])]) -> Result<()> {
        self.change_device(format!("writing to {path}"), || {
            let host = self.root().host_followed(path);
            let file = OpenOptions::new().write(true).custom_flags(libc::O_CLOEXEC).open(host)?;
            // udev does not probe block devices that are locked (systemd's "block device locking").
            let deadline = Deadline::after(LOCK_TIMEOUT);
            while file.try_lock().is_err() && !deadline.is_expired() {
                self.clock().sleep(Duration::from_millis(20));
            }
            pieces.iter().try_for_each(|(offset, bytes)| {
                file.write_all_at(bytes, *offset).and_then(|()| file.sync_all())
            })
        })
    }

    /// Tells the kernel the new length of a partition, mounted or not. `start` and `length` are in bytes.
    ///
    /// # Errors
    /// Fails below a root other than `/`, or if the kernel refuses the change.
    pub fn resize_partition(&self, disk: &str, number: u32, start: u64, length: u64) -> Result<()> {
        self.change_device(format!("resizing partition {number} of {disk}"), || {
            let file = File::open(self.root().host_followed(disk))?;
            let too_large = |_| io::Error::other("too large");
            let number = i32::try_from(number).map_err(too_large)?;
            let (start, length) =
                (i64::try_from(start).map_err(too_large)?, i64::try_from(length).map_err(too_large)?);
            ioctl::resize_partition(&file, number, start, length)
        })
    }

    /// Grows a mounted file system to `bytes`, the size of its device. A smaller size has no effect.
    ///
    /// # Errors
    /// Fails below a root other than `/`, or if the kernel refuses the change.
    pub fn grow_file_system(&self, point: &str, kind: GrowableFileSystem, bytes: u64) -> Result<()> {
        self.change_device(format!("growing the file system at {point}"), || {
            let mounted = File::open(self.root().host_followed(point))?;
            match kind {
                GrowableFileSystem::Ext4 => {
                    let (_, block) = fstatfs(&mounted)?;
                    ioctl::grow_ext4(&mounted, bytes / block.max(1))
                }
                GrowableFileSystem::Xfs => ioctl::grow_xfs(&mounted, bytes),
                GrowableFileSystem::Btrfs => ioctl::grow_btrfs(&mounted),
            }
        })
    }

    /// Records a change that a dry run below a root other than `/` cannot try, since the device is that of another machine.
    pub fn plan_device(&self, what: String) {
        self.record(Effect::Other { what });
    }

    /// Makes and records a change; in a dry run it is recorded only. Fails below a root other than `/`.
    fn change_device(&self, what: String, change: impl FnOnce() -> io::Result<()>) -> Result<()> {
        if !self.is_live() {
            return Err(Error::new(format!("{what}: only on the running machine")));
        }
        if !self.is_dry_run() {
            change().context(&what)?;
        }
        self.record(Effect::Other { what });
        Ok(())
    }
}
