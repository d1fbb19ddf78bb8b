//! Modes and owners of files.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::large_files::FileStat;
use crate::path::{Caller, TrailingLink, may_ignore_chown_error};
use crate::{Effect, Result, ResultExt, System, WriteOptions};

impl System {
    /// Returns the permission bits of a file; `None` if it does not exist or its metadata cannot be read.
    pub fn mode(&self, path: impl AsRef<Path>) -> Option<u32> {
        self.metadata(path).ok().map(|metadata| metadata.mode() & 0o7777)
    }

    /// Sets the permission bits of a file. A link is followed by the rule of [`System::write`].
    ///
    /// # Errors
    /// Fails if the file does not exist, or its mode cannot be set.
    pub fn set_mode(&self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        let path = path.as_ref();
        (self.resolve_to_change(path, None))
            .and_then(|resolved| resolved.set_attributes((None, None), Some(mode)))
            .context(format_args!("setting the mode of {}", path.display()))?;
        if self.is_dry_run() {
            self.record(Effect::Other { what: format!("mode of {}: {mode:04o}", path.display()) });
        }
        Ok(())
    }

    /// Gives a file to a user and a group; `None` leaves that half unchanged. A link is followed by the rule of
    /// [`System::write`]. Below a root other than `/`, owners are not set without privileges.
    ///
    /// # Errors
    /// Fails if the file does not exist, or its owner cannot be set.
    pub fn set_owner(&self, path: impl AsRef<Path>, owner: (Option<u32>, Option<u32>)) -> Result<()> {
        let path = path.as_ref();
        if self.is_dry_run() {
            let what = format!("owner of {}: {}", path.display(), self.format_owner(owner));
            self.record(Effect::Other { what });
            return Ok(());
        }
        (self.root().find(path, TrailingLink::Follow, None))
            .and_then(|resolved| self.ignore_unprivileged(resolved.set_attributes(owner, None)))
            .context(format_args!("setting the owner of {}", path.display()))
    }

    /// Gives an open file to a user and a group.
    pub(crate) fn chown(&self, file: &fs::File, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        // A dry run needs no privileges: the effect has the owner.
        if (uid.is_none() && gid.is_none()) || self.is_dry_run() {
            return Ok(());
        }
        self.ignore_unprivileged(std::os::unix::fs::fchown(file, uid, gid))
    }

    /// Ignores an error that [`may_ignore_chown_error`] allows.
    fn ignore_unprivileged(&self, result: io::Result<()>) -> io::Result<()> {
        let caller = Caller { is_live: self.is_live(), is_root: nix::unistd::geteuid().is_root() };
        match result {
            Err(e) if may_ignore_chown_error(e.raw_os_error(), caller) => Ok(()),
            other => other,
        }
    }

    /// Returns whether a file has the owner that a write would give it, or could not give it.
    pub(crate) fn has_owner(&self, old: &FileStat, how: WriteOptions) -> bool {
        let unprivileged = (!self.is_live() || self.is_dry_run()) && !nix::unistd::geteuid().is_root();
        unprivileged
            || (how.uid.is_none_or(|uid| uid == old.st_uid) && how.gid.is_none_or(|gid| gid == old.st_gid))
    }
}
