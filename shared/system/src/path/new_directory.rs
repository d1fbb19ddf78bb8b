//! Creation of missing directories.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::geteuid;

use super::ownership::{Caller, chown, is_foreign, is_trusted, may_ignore_chown_error};
use crate::large_files::{FileStat, for_each_entry, fstat, lstat_at};

/// Mode and owner of missing directories.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewDirectory {
    pub mode: u32,
    pub owner: (Option<u32>, Option<u32>),
}

/// The parent directories of a file that is written.
pub(crate) const DEFAULT_PARENTS: Option<NewDirectory> =
    Some(NewDirectory { mode: 0o755, owner: (None, None) });

impl NewDirectory {
    /// Creates it with exactly this mode and owner. Returns `false` if the name exists already. `is_live` is as for
    /// [`may_ignore_chown_error`].
    pub(super) fn create(self, dir: &OwnedFd, name: &OsStr, is_live: bool) -> nix::Result<bool> {
        match mkdirat(dir, name, Mode::from_bits_truncate(self.mode)) {
            Ok(()) => {}
            Err(Errno::EEXIST) => return Ok(false),
            Err(e) => return Err(e),
        }
        let is_right = |stat: &FileStat| {
            let (uid, gid) = self.owner;
            uid.is_none_or(|uid| uid == stat.st_uid)
                && gid.is_none_or(|gid| gid == stat.st_gid)
                && stat.st_mode & 0o7777 == self.mode
        };
        if is_right(&lstat_at(dir, name)?) {
            return Ok(true);
        }
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let made = openat(dir, name, flags, Mode::empty())?;
        // Another user may have replaced it by a directory of theirs, which must not be opened up or given away.
        if is_foreign(&fstat(dir)?) && !(is_trusted(fstat(&made)?.st_uid) && is_empty(&made)?) {
            return Err(Errno::EACCES);
        }
        let caller = Caller { is_live, is_root: geteuid().is_root() };
        match chown(&made, self.owner) {
            Err(e) if may_ignore_chown_error(Some(e as i32), caller) => {}
            other => other?,
        }
        fchmod(&made, Mode::from_bits_truncate(self.mode))?;
        Ok(true)
    }
}

fn is_empty(dir: &OwnedFd) -> nix::Result<bool> {
    match for_each_entry(dir, |_, _| Err(Errno::ENOTEMPTY)) {
        Err(Errno::ENOTEMPTY) => Ok(false),
        other => other.map(|()| true),
    }
}
