//! Files that the kernel can swap to.

use std::fs::File;
use std::io::{self, Write as _};

use nix::fcntl::OFlag;

use crate::large_files::{BTRFS, XFS, fallocate, fstatfs};
use crate::path::TrailingLink;
use crate::{Effect, Result, ResultExt, System, WriteOptions, ioctl};

const MIB: usize = 1 << 20;

impl System {
    /// Creates a file of `size` bytes with mode 0600 and no holes that starts with `header`. An existing file is removed first.
    ///
    /// # Errors
    /// Fails if the file cannot be created or the file system has too little space; an incomplete file is removed.
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
        let what = format!("creating the swap file {path}");
        let resolved = self.root().find(path.as_ref(), TrailingLink::NoFollow, None).context(&what)?;
        if resolved.old.is_some() {
            resolved.remove().context(&what)?;
        }
        let result = (|| {
            let mut file = resolved.open(OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL, 0o600)?;
            let (kind, _) = fstatfs(&file)?;
            if kind == BTRFS {
                // Btrfs requires a file without copy-on-write, a flag that only an empty file can get.
                ioctl::set_no_copy_on_write(&file)?;
            }
            // Before Linux 4.18, XFS cannot swap to preallocated extents.
            let reserved = if kind == XFS && kernel_is_older_than(4, 18) {
                Err(nix::errno::Errno::EOPNOTSUPP)
            } else {
                fallocate(&file, size)
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
