//! Types and owners of files: who is trusted, who could have created a name, and how a file is given away.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::unistd::{Gid, Uid, fchown};

use crate::large_files::{FileStat, lstat_at};

fn kind(stat: &FileStat) -> u32 {
    stat.st_mode & libc::S_IFMT
}

pub(crate) fn is_link(stat: &FileStat) -> bool {
    kind(stat) == libc::S_IFLNK
}

pub(crate) fn is_directory(stat: &FileStat) -> bool {
    kind(stat) == libc::S_IFDIR
}

pub(crate) fn is_regular(stat: &FileStat) -> bool {
    kind(stat) == libc::S_IFREG
}

/// Returns whether the user is root or the caller, who need not be kept from anything.
pub(super) fn is_trusted(user: u32) -> bool {
    user == 0 || user == nix::unistd::geteuid().as_raw()
}

/// Returns whether other users can create names in a directory. Group 0 counts as root.
pub(super) fn is_foreign(dir: &FileStat) -> bool {
    !is_trusted(dir.st_uid) || dir.st_mode & 0o002 != 0 || (dir.st_mode & 0o020 != 0 && dir.st_gid != 0)
}

/// Returns whether users can rename or replace the files of others in a directory.
pub(super) fn is_unprotected(dir: &FileStat) -> bool {
    dir.st_mode & 0o002 != 0 && dir.st_mode & libc::S_ISVTX == 0
}

/// Gives an open file to a user and a group; `(None, None)` makes no system call.
pub(super) fn chown(file: impl AsFd, (uid, gid): (Option<u32>, Option<u32>)) -> nix::Result<()> {
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    fchown(file, uid.map(Uid::from_raw), gid.map(Gid::from_raw))
}

/// The process that changes an owner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    /// It changes the running machine, not an image.
    pub is_live: bool,
    /// It runs as root.
    pub is_root: bool,
}

/// Returns whether a failed change of owner is ignored. On the running machine no error is. Below another root an image
/// may be built without privileges (EPERM), or in a user namespace, whose root can use mapped ids only (EINVAL).
pub(crate) fn may_ignore_chown_error(error: Option<i32>, caller: Caller) -> bool {
    match error {
        Some(libc::EPERM) => !caller.is_live && !caller.is_root,
        Some(libc::EINVAL) => !caller.is_live,
        _ => false,
    }
}

/// Returns the status of a name in a directory, links not followed; `None` if it does not exist.
pub(super) fn stat_of(dir: &OwnedFd, name: &OsStr) -> nix::Result<Option<FileStat>> {
    match lstat_at(dir, name) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT) => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chown_errors_are_ignored_only_in_images() {
        for (error, is_live, is_root, ignored) in [
            (libc::EPERM, false, false, true),
            (libc::EPERM, false, true, false),
            (libc::EPERM, true, false, false),
            (libc::EINVAL, false, true, true),
            (libc::EINVAL, false, false, true),
            (libc::EINVAL, true, true, false),
            (libc::EROFS, false, false, false),
            (libc::ENOENT, false, false, false),
        ] {
            let caller = Caller { is_live, is_root };
            assert_eq!(may_ignore_chown_error(Some(error), caller), ignored, "{error} {caller:?}");
            assert!(!may_ignore_chown_error(None, caller));
        }
    }
}
