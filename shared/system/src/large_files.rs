//! System calls whose results need 64 bits on every machine. glibc's 32-bit versions of them, which nix calls on armv7, fail
//! with `EOVERFLOW` for inode numbers, directory offsets, sizes, times and numbers of blocks that a 64-bit kernel or a large
//! file system has. rustix calls the kernel's 64-bit ones; errors are converted to those of nix.

use std::ffi::OsStr;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::Path;

use nix::errno::Errno;
use rustix::fs::{AtFlags, FallocateFlags, RawDir, StatVfs, StatVfsMountFlags};
pub(crate) use rustix::fs::{FileType, Stat as FileStat};

/// The size of musl's readdir buffer: a few dozen names are read by one system call, followed by one that returns the end.
const DIRECTORY_BUFFER: usize = 2048;

/// Types of file systems (linux/magic.h), as [`fstatfs`] returns them.
pub(crate) const BTRFS: u32 = 0x9123_683e;
pub(crate) const PROC: u32 = 0x9fa0;
pub(crate) const XFS: u32 = 0x5846_5342;

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_raw(error.raw_os_error())
}

/// Returns the status of an open file, which may be open with `O_PATH`.
pub(crate) fn fstat(file: impl AsFd) -> nix::Result<FileStat> {
    rustix::fs::fstat(file).map_err(errno)
}

/// Returns the status of a name in a directory, a link followed.
pub(crate) fn stat_at(dir: impl AsFd, name: &OsStr) -> nix::Result<FileStat> {
    rustix::fs::statat(dir, name, AtFlags::empty()).map_err(errno)
}

/// Returns the status of a name in a directory, a link not followed.
pub(crate) fn lstat_at(dir: impl AsFd, name: &OsStr) -> nix::Result<FileStat> {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(errno)
}

/// Returns the status of a path, a link not followed.
pub(crate) fn lstat(path: &Path) -> nix::Result<FileStat> {
    rustix::fs::lstat(path).map_err(errno)
}

/// Calls `visit` with the name and type of each entry of an open directory, but not with `.` and `..`, until it fails. Reads
/// on from where the descriptor is.
pub(crate) fn for_each_entry(
    dir: impl AsFd,
    mut visit: impl FnMut(&OsStr, FileType) -> nix::Result<()>,
) -> nix::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let mut buffer = [MaybeUninit::uninit(); DIRECTORY_BUFFER];
    let mut entries = RawDir::new(dir, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Ok(entry) => entry,
            // The directory was removed in the meantime.
            Err(rustix::io::Errno::NOENT) => break,
            Err(e) => return Err(errno(e)),
        };
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            visit(OsStr::from_bytes(name), entry.file_type())?;
        }
    }
    Ok(())
}

/// Returns the type and the size of a block of an open file's file system.
#[allow(clippy::cast_sign_loss, clippy::unnecessary_cast)] // The types differ between machines.
pub(crate) fn fstatfs(file: impl AsFd) -> nix::Result<(u32, u64)> {
    let stat = rustix::fs::fstatfs(file).map_err(errno)?;
    Ok((stat.f_type as u32, stat.f_bsize as u64))
}

/// Returns the space of the file system of a path, and whether it is mounted read-only.
pub(crate) fn statvfs(path: &Path) -> nix::Result<(StatVfs, bool)> {
    let stat = rustix::fs::statvfs(path).map_err(errno)?;
    let is_read_only = stat.f_flag.contains(StatVfsMountFlags::RDONLY);
    Ok((stat, is_read_only))
}

/// Reserves the first `length` bytes of a file, which grows to them.
pub(crate) fn fallocate(file: &File, length: u64) -> nix::Result<()> {
    rustix::fs::fallocate(file, FallocateFlags::empty(), 0, length).map_err(errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_more_names_than_the_buffer_holds_is_read_whole() {
        let top = scratch::TempDir::new();
        let mut expected: Vec<String> = (0..300).map(|n| format!("{n:040}")).collect();
        for name in &expected {
            std::fs::write(top.join(name), "").unwrap();
        }
        std::fs::create_dir(top.join("below")).unwrap();
        expected.push("below".into());
        let mut found = Vec::new();
        for_each_entry(File::open(&top).unwrap(), |name, kind| {
            assert_eq!(kind == FileType::Directory, name == "below", "{name:?}");
            found.push(name.to_str().unwrap().to_string());
            Ok(())
        })
        .unwrap();
        found.sort();
        assert_eq!(found, expected);
        let mut calls = 0;
        let stopped = for_each_entry(File::open(&top).unwrap(), |_, _| {
            calls += 1;
            Err(Errno::E2BIG)
        });
        assert_eq!((stopped, calls), (Err(Errno::E2BIG), 1));
    }

    #[test]
    fn a_removed_directory_has_no_entries() {
        let top = scratch::TempDir::new();
        std::fs::create_dir(top.join("gone")).unwrap();
        let dir = File::open(top.join("gone")).unwrap();
        std::fs::remove_dir(top.join("gone")).unwrap();
        assert_eq!(for_each_entry(&dir, |_, _| Err(Errno::E2BIG)), Ok(()));
    }

    #[test]
    fn sizes_beyond_32_bits_are_reported() {
        let top = scratch::TempDir::new();
        let file = File::create(top.join("large")).unwrap();
        // 5 GiB with one hole, modified in 2040.
        file.set_len(5 << 30).unwrap();
        let later = std::time::UNIX_EPOCH + std::time::Duration::from_secs(2_208_988_800);
        file.set_modified(later).unwrap();
        let dir = File::open(&top).unwrap();
        for stat in [
            fstat(&file),
            stat_at(&dir, "large".as_ref()),
            lstat_at(&dir, "large".as_ref()),
            lstat(&top.join("large")),
        ] {
            let stat = stat.unwrap();
            assert_eq!((stat.st_size, stat.st_mtime), (5 << 30, 2_208_988_800));
        }
        assert_eq!(lstat_at(&dir, "none".as_ref()).err(), Some(Errno::ENOENT));
    }
}
