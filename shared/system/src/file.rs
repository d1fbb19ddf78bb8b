//! Types that all changes of files share: the options of a write, its result, and where a change is made. The changes themselves
//! are in `write.rs`, `directory.rs`, `entry.rs` (links, renaming, removal) and `attributes.rs`. A method that fails has
//! changed nothing, unless its documentation says otherwise.

use std::io;
use std::path::Path;

use crate::large_files::lstat;
use crate::path::{NewDirectory, ResolvedPath, TrailingLink, is_refused};
use crate::{Effect, System};

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The file is new.
    Created,
    /// The file existed and has new content, mode or owner.
    Replaced,
    /// The file had the same content, mode and owner; nothing was written.
    Unchanged,
}

/// The mode, owner and durability of a file that is written. The default is mode 0644, the owner unchanged, and no flush to
/// the disk. Missing parent directories are created with mode 0755.
#[derive(Debug, Clone, Copy)]
pub struct WriteOptions {
    pub(crate) mode: u32,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) durable: bool,
    pub(crate) in_place: bool,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions { mode: 0o644, uid: None, gid: None, durable: false, in_place: false }
    }
}

impl WriteOptions {
    /// Returns the defaults with these permission bits (set-ID and sticky bits included). The umask is ignored.
    pub fn mode(mode: u32) -> WriteOptions {
        WriteOptions { mode, ..WriteOptions::default() }
    }

    /// Returns the defaults with mode 0600, for a file that may hold a secret.
    pub fn secret() -> WriteOptions {
        WriteOptions::mode(0o600)
    }

    /// Sets the user and group, which the file gets before it gets its name; `None` leaves that half unchanged. Below a root
    /// other than `/`, owners are not set without privileges.
    pub fn owner(self, (uid, gid): (Option<u32>, Option<u32>)) -> WriteOptions {
        WriteOptions { uid, gid, ..self }
    }

    /// Flushes the content to the disk before the rename, so that after a power failure the file has either its old or its
    /// new content. For state that the next boot depends on; a flush costs a few milliseconds.
    pub fn durable(self) -> WriteOptions {
        WriteOptions { durable: true, ..self }
    }

    /// Writes the file itself, with one write, instead of another one that is renamed. For the generator: SELinux policies let it
    /// create and write files of cloud-init, but not rename, remove or change the mode of any.
    pub fn in_place(self) -> WriteOptions {
        WriteOptions { in_place: true, ..self }
    }

    pub(crate) fn effect(self, path: &Path, change: Change) -> Effect {
        let path = path.display().to_string();
        Effect::Write { path, mode: self.mode, owner: (self.uid, self.gid), change }
    }
}

impl System {
    /// Resolves a path for a change. In a dry run the result is in the overlay, unless the machine would refuse the change.
    pub(crate) fn resolve(
        &self,
        path: &Path,
        last: TrailingLink,
        missing: Option<NewDirectory>,
    ) -> io::Result<ResolvedPath> {
        if !self.is_dry_run() {
            return self.root().find(path, last, missing);
        }
        if let Err(e) = self.root().find(path, last, None)
            && is_refused(&e)
        {
            return Err(e);
        }
        // Counted before the overlay gets the directories.
        let made = missing.and(path.parent()).map_or(0, |parent| self.missing_directories(parent));
        let host = match last {
            TrailingLink::Follow => self.root().overlay_path_followed(path),
            TrailingLink::NoFollow => self.root().overlay_path(path),
        };
        let old = match last {
            TrailingLink::Follow => self.root().host_followed(path),
            TrailingLink::NoFollow => self.root().host(path),
        };
        Ok(ResolvedPath::from_host_path(&host?)?.with_state(lstat(&old).ok(), made))
    }

    /// Resolves the path of a file that is changed in place: in a dry run, that of a copy.
    pub(crate) fn resolve_to_change(
        &self,
        path: &Path,
        missing: Option<NewDirectory>,
    ) -> io::Result<ResolvedPath> {
        let resolved = self.resolve(path, TrailingLink::Follow, missing)?;
        if !self.is_dry_run() || resolved.old.is_none() {
            return Ok(resolved);
        }
        ResolvedPath::from_host_path(&self.root().copy_up(path)?)
    }

    /// Resolves the path of a file that is removed. In a dry run the result is for looking only.
    pub(crate) fn resolve_to_remove(&self, path: &Path) -> io::Result<ResolvedPath> {
        match (self.is_dry_run(), self.root().find(path, TrailingLink::NoFollow, None)) {
            (true, Err(e)) if is_refused(&e) => Err(e),
            (true, _) => ResolvedPath::from_host_path(&self.root().host(path)),
            (false, resolved) => resolved,
        }
    }
}
