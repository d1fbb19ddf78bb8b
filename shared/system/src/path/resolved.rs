//! Operations at a resolved path.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{Gid, Uid, UnlinkatFlags, symlinkat, unlinkat};

use super::ownership::{chown, is_directory, is_foreign, is_regular, is_trusted, stat_of};
use super::temporary::{self, with_temporary_name};
use super::user_link::refuse;
use crate::large_files::{FileStat, for_each_entry, fstat, stat_at};

/// An open directory and a name in it. Every method fails with the error of the system call that it makes.
#[derive(Debug)]
pub(crate) struct ResolvedPath {
    dir: OwnedFd,
    name: OsString,
    /// The file of that name, if one exists; a link only if links were not to be followed.
    pub old: Option<FileStat>,
    /// The number of directories that were created for it.
    pub made: usize,
    /// Whether the name is a link of procfs, which only the kernel can follow (`/proc/self/fd/1`).
    is_magic: bool,
}

impl ResolvedPath {
    /// Returns a name in an open directory, for which `made` directories were created.
    pub(super) fn new(dir: OwnedFd, name: OsString, old: Option<FileStat>, made: usize) -> ResolvedPath {
        ResolvedPath { dir, name, old, made, is_magic: false }
    }

    /// Returns a link of procfs. Fails if its target does not exist.
    pub(super) fn magic(dir: OwnedFd, name: OsString, made: usize) -> nix::Result<ResolvedPath> {
        let old = Some(stat_at(&dir, &name)?);
        Ok(ResolvedPath { dir, name, old, made, is_magic: true })
    }

    /// Resolves a path of the host in a directory that no other user can enter: a dry run's overlay.
    pub fn from_host_path(path: &Path) -> io::Result<ResolvedPath> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let dir = openat(AT_FDCWD, parent, flags, Mode::empty())?;
        let old = stat_of(&dir, name)?;
        Ok(ResolvedPath { dir, name: name.into(), old, made: 0, is_magic: false })
    }

    /// Sets the previous file and the number of new directories, which a dry run's overlay does not show.
    pub fn with_state(self, old: Option<FileStat>, made: usize) -> ResolvedPath {
        ResolvedPath { old, made, ..self }
    }

    /// Opens the file, or creates it with `mode` (with `O_CREAT`). Does not follow a link or wait for a FIFO.
    pub fn open(&self, flags: OFlag, mode: u32) -> io::Result<File> {
        let no_follow = if self.is_magic { OFlag::empty() } else { OFlag::O_NOFOLLOW };
        // On 32-bit machines glibc's openat does not set it: without it a file cannot grow beyond 2 GiB.
        let flags = flags | no_follow | OFlag::O_LARGEFILE;
        let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NOCTTY | OFlag::O_NONBLOCK;
        Ok(openat(&self.dir, &*self.name, flags, Mode::from_bits_truncate(mode))?.into())
    }

    /// Opens the file for a change in place, which is refused if another user may have put it there, by a hard link for
    /// example.
    pub fn open_for_change(&self, flags: OFlag) -> io::Result<File> {
        let file = self.open(flags, 0)?;
        self.check(&fstat(&file)?)?;
        Ok(file)
    }

    /// Fails if an open file must not be changed in place.
    pub fn check(&self, file: &FileStat) -> io::Result<()> {
        // Other users could only abuse the privileges of root.
        if !nix::unistd::geteuid().is_root() {
            return Ok(());
        }
        let dir = fstat(&self.dir)?;
        if self.is_magic || !is_foreign(&dir) || (!is_trusted(dir.st_uid) && file.st_uid == dir.st_uid) {
            return Ok(());
        }
        let is_ours = is_trusted(file.st_uid) || is_trusted(dir.st_uid);
        // This is its only name, now as when it was opened.
        let is_only = |stat: &FileStat| {
            (stat.st_dev, stat.st_ino) == (file.st_dev, file.st_ino)
                && (stat.st_nlink == 1 || is_directory(stat))
        };
        if is_ours && is_only(file) && stat_of(&self.dir, &self.name)?.as_ref().is_some_and(is_only) {
            return Ok(());
        }
        Err(refuse(format!(
            "refusing a file of uid {} with {} hard links in a directory of uid {}",
            file.st_uid, file.st_nlink, dir.st_uid
        )))
    }

    /// Changes the owner, the mode, or both.
    pub fn set_attributes(&self, owner: (Option<u32>, Option<u32>), mode: Option<u32>) -> io::Result<()> {
        let stat = self.old.map_or_else(|| stat_of(&self.dir, &self.name), |stat| Ok(Some(stat)))?;
        let stat = stat.ok_or(Errno::ENOENT)?;
        let opened = if is_regular(&stat) || is_directory(&stat) {
            self.open(OFlag::O_RDONLY, 0)
        } else {
            Err(Errno::EACCES.into())
        };
        match opened {
            Ok(file) => {
                self.check(&fstat(&file)?)?;
                chown(&file, owner)?;
                // After the owner, since that clears set-user-ID bits.
                mode.map_or(Ok(()), |mode| fchmod(&file, Mode::from_bits_truncate(mode)))?;
            }
            // A file that cannot be read, or whose opening has an effect.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                let file = self.open(OFlag::O_PATH, 0)?;
                self.check(&fstat(&file)?)?;
                let (uid, gid) = owner;
                if uid.is_some() || gid.is_some() {
                    nix::unistd::fchownat(
                        &file,
                        "",
                        uid.map(Uid::from_raw),
                        gid.map(Gid::from_raw),
                        AtFlags::AT_EMPTY_PATH,
                    )?;
                }
                if let Some(mode) = mode {
                    use std::os::fd::AsRawFd;
                    use std::os::unix::fs::PermissionsExt;
                    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
                }
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Creates a temporary file in the same directory. Returns its name and the file, open for writing, with the owner's bits
    /// of `mode`.
    pub fn temporary(&self, mode: u32) -> io::Result<(OsString, File)> {
        with_temporary_name(&self.name, |name| {
            let new = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
            openat(
                &self.dir,
                name,
                new | OFlag::O_LARGEFILE | OFlag::O_CLOEXEC,
                Mode::from_bits_truncate(mode & 0o700),
            )
        })
        .map(|(name, file)| (name, file.into()))
    }

    /// Removes from this directory, and from those below it down to `depth`, the temporary files and links that were changed
    /// before the time `before` (since the epoch): links and regular files with one name, owned by root or the caller. Does
    /// not follow links or enter directories of other users. Returns the number of removed ones.
    ///
    /// Fails if there are more than 50,000 names, or with the error of the system call.
    pub fn remove_stale_temporaries(&self, depth: usize, before: Duration) -> io::Result<usize> {
        let Some(old) = self.old.filter(is_directory) else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        let mut left = temporary::MAX_SCANNED;
        Ok(temporary::remove_stale_temporaries(
            &self.dir,
            &self.name,
            (depth, before, old.st_dev),
            &mut left,
        )?)
    }

    /// Renames the temporary file of that name to this one.
    pub fn replace_with(&self, temporary: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.dir, temporary, &self.dir, &*self.name)?)
    }

    /// Removes the temporary file of that name.
    pub fn discard(&self, temporary: &OsStr) {
        let _ = unlinkat(&self.dir, temporary, UnlinkatFlags::NoRemoveDir);
    }

    /// Creates a symbolic link, replacing the file that has the name.
    pub fn link(&self, target: &str) -> io::Result<()> {
        let (temporary, ()) = with_temporary_name(&self.name, |name| symlinkat(target, &self.dir, name))?;
        self.replace_with(&temporary).inspect_err(|_| self.discard(&temporary))
    }

    /// Returns the target of the link.
    pub fn read_link(&self) -> Option<PathBuf> {
        readlinkat(&self.dir, &*self.name).ok().map(PathBuf::from)
    }

    /// Renames the file, replacing the one that has the new name.
    pub fn rename_to(&self, to: &ResolvedPath) -> io::Result<()> {
        Ok(renameat(&self.dir, &*self.name, &to.dir, &*to.name)?)
    }

    /// Removes a file or a link.
    pub fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.dir, &*self.name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self) -> io::Result<()> {
        Ok(unlinkat(&self.dir, &*self.name, UnlinkatFlags::RemoveDir)?)
    }

    /// Removes a directory with its content, without following links.
    pub fn remove_dir_all(&self) -> io::Result<()> {
        Ok(remove_dir_all(&self.dir, &self.name)?)
    }
}

fn remove_dir_all(dir: &OwnedFd, name: &OsStr) -> nix::Result<()> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let inner = openat(dir, name, flags, Mode::empty())?;
    let mut names = Vec::new();
    for_each_entry(&inner, |name, _| {
        names.push(name.to_os_string());
        Ok(())
    })?;
    for name in &names {
        match unlinkat(&inner, &**name, UnlinkatFlags::NoRemoveDir) {
            Err(Errno::EISDIR) => remove_dir_all(&inner, name)?,
            Err(Errno::ENOENT) => {}
            other => other?,
        }
    }
    unlinkat(dir, name, UnlinkatFlags::RemoveDir)
}
