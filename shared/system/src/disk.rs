//! Disks: their bytes, partitions and mounted file systems, for what grows at boot. Only on the running machine.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::Duration;

use crate::{Deadline, Effect, Error, Result, ResultExt, System, ioctl};

/// How long udev may hold a disk before it is changed all the same.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// A file system that the kernel grows while it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowableFileSystem {
    Ext4,
    Xfs,
    Btrfs,
}

impl System {
    /// Major and minor number of a block device's file.
    pub fn device_number(&self, path: &str) -> Result<(u64, u64)> {
        let meta = self.metadata(path)?;
        use std::os::unix::fs::FileTypeExt;
        if !meta.file_type().is_block_device() {
            return Err(Error::new(format!("{path} is no block device")));
        }
        let device = meta.rdev();
        Ok((nix::sys::stat::major(device), nix::sys::stat::minor(device)))
    }

    /// Bytes of a device.
    pub fn read_device(&self, path: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let file = File::open(self.root().host_followed(path))?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Writes pieces of a disk in order, each on the disk before the next. udev is kept from looking at it meanwhile.
    pub fn write_device(&self, path: &str, pieces: &[(u64, &[u8])]) -> Result<()> {
        let what = format!("writing to {path}");
        if self.record_if_dry_run(&what)? {
            return Ok(());
        }
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(self.root().host_followed(path))
            .context(&what)?;
        // Block devices that are locked are left alone by udev (systemd's "block device locking").
        let deadline = Deadline::after(LOCK_TIMEOUT);
        while file.try_lock().is_err() && !deadline.is_expired() {
            self.clock().sleep(Duration::from_millis(20));
        }
        for (offset, bytes) in pieces {
            file.write_all_at(bytes, *offset).and_then(|()| file.sync_all()).context(&what)?;
        }
        self.record(Effect::Other { what });
        Ok(())
    }

    /// Tells the kernel that a partition, mounted or not, has another length; all in bytes.
    pub fn resize_partition(&self, disk: &str, number: u32, start: u64, length: u64) -> Result<()> {
        let what = format!("resizing partition {number} of {disk}");
        if self.record_if_dry_run(&what)? {
            return Ok(());
        }
        let file = File::open(self.root().host_followed(disk)).context(&what)?;
        let too_large = |_| Error::new(format!("{what}: too large"));
        let number = i32::try_from(number).map_err(too_large)?;
        let (start, length) =
            (i64::try_from(start).map_err(too_large)?, i64::try_from(length).map_err(too_large)?);
        ioctl::resize_partition(&file, number, start, length).context(&what)?;
        self.record(Effect::Other { what });
        Ok(())
    }

    /// Grows a mounted file system to `bytes`, the size of its device. It does not shrink.
    pub fn grow_file_system(&self, point: &str, kind: GrowableFileSystem, bytes: u64) -> Result<()> {
        let what = format!("growing the file system at {point}");
        if self.record_if_dry_run(&what)? {
            return Ok(());
        }
        let mounted = File::open(self.root().host_followed(point)).context(&what)?;
        match kind {
            GrowableFileSystem::Ext4 => {
                let stat = nix::sys::statfs::fstatfs(&mounted).context(&what)?;
                #[allow(clippy::unnecessary_cast)] // The types differ between C libraries.
                let block = (stat.block_size() as u64).max(1);
                ioctl::grow_ext4(&mounted, bytes / block)
            }
            GrowableFileSystem::Xfs => ioctl::grow_xfs(&mounted, bytes),
            GrowableFileSystem::Btrfs => ioctl::grow_btrfs(&mounted),
        }
        .context(&what)?;
        self.record(Effect::Other { what });
        Ok(())
    }

    /// An error for an image; noted in a plan, which goes no further.
    fn record_if_dry_run(&self, what: &str) -> Result<bool> {
        if !self.is_live() {
            return Err(Error::new(format!("{what}: only on the running machine")));
        }
        if self.is_dry_run() {
            self.record(Effect::Other { what: what.to_string() });
        }
        Ok(self.is_dry_run())
    }
}
