//! Space on a disk, and a file of it that the kernel can swap to.

use std::fs::File;
use std::io::{self, Write as _};

use nix::fcntl::{FallocateFlags, OFlag, fallocate};
use nix::sys::statfs::{BTRFS_SUPER_MAGIC, FsType, fstatfs};

use crate::resolved_path::TrailingLink;
use crate::{Effect, Result, ResultExt, System, WriteOptions, ioctl};

const MIB: usize = 1 << 20;
/// `XFS_SUPER_MAGIC` (linux/magic.h), which nix has only for glibc.
const XFS_SUPER_MAGIC: FsType = FsType(0x5846_5342);

impl System {
    /// Bytes that are free on the file system of a directory.
    pub fn free_space(&self, directory: &str) -> Result<u64> {
        let stat = nix::sys::statvfs::statvfs(&self.root().host_followed(directory))
            .context(format_args!("looking at the free space of {directory}"))?;
        #[allow(clippy::unnecessary_cast)] // The types differ between C libraries.
        Ok(stat.fragment_size() as u64 * stat.blocks_free() as u64)
    }

    /// The size of a page of memory.
    pub fn page_size(&self) -> usize {
        let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
        size.and_then(|n| usize::try_from(n).ok()).unwrap_or(4096)
    }

    /// A file of `size` bytes, 0600, without holes, that begins with `header`. A file that was there is gone
    /// first; one that cannot be finished is removed.
    pub fn create_swap_file(&self, path: &str, size: u64, header: &[u8]) -> Result<()> {
        let change = crate::Change::Created;
        let effect = Effect::Write {
            path: path.to_string(),
            mode: WriteOptions::secret().mode,
            owner: (None, None),
            change,
        };
        if self.is_dry_run() {
            self.record(effect);
            return Ok(());
        }
        let what = format!("making the swap file {path}");
        let resolved = self.root().find(path.as_ref(), TrailingLink::NoFollow, None).context(&what)?;
        if resolved.old.is_some() {
            resolved.remove().context(&what)?;
        }
        let result = (|| {
            let mut file = resolved.open(OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL, 0o600)?;
            let kind = fstatfs(&file)?.filesystem_type();
            if kind == BTRFS_SUPER_MAGIC {
                // Btrfs swaps only to files that it does not copy on write, which a new, empty one can become.
                ioctl::set_no_copy_on_write(&file)?;
            }
            // Before 4.18, XFS cannot swap to extents that were only reserved.
            let reserved = if kind == XFS_SUPER_MAGIC && kernel_is_older_than(4, 18) {
                Err(nix::errno::Errno::EOPNOTSUPP)
            } else {
                let length = i64::try_from(size).unwrap_or(i64::MAX);
                fallocate(&file, FallocateFlags::empty(), 0, length)
            };
            match reserved {
                Ok(()) => {}
                Err(nix::errno::Errno::ENOSPC) => return Err(nix::errno::Errno::ENOSPC.into()),
                Err(_) => write_zeros(&mut file, size)?,
            }
            use std::os::unix::fs::FileExt;
            file.write_all_at(header, 0)?;
            file.sync_all()
        })();
        if let Err(e) = result {
            let _ = resolved.remove();
            return Err(e).context(what);
        }
        self.record(effect);
        Ok(())
    }
}

fn write_zeros(file: &mut File, size: u64) -> io::Result<()> {
    let zeros = vec![0; MIB];
    let mut left = size;
    while left > 0 {
        let piece = usize::try_from(left).unwrap_or(MIB).min(MIB);
        file.write_all(&zeros[..piece])?;
        left -= piece as u64;
    }
    Ok(())
}

fn kernel_is_older_than(major: u32, minor: u32) -> bool {
    let Ok(name) = nix::sys::utsname::uname() else { return false };
    let release = name.release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0_u32));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < (major, minor)
}
