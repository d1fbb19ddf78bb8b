//! Changing files: written whole or not at all, with their final mode from the first byte; links and directories.
//! Methods that end in an error have changed nothing, unless they say otherwise.

use std::borrow::Cow;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, lstat};

use crate::resolved_path::{
    DEFAULT_PARENTS, NewDirectory, ResolvedPath, TrailingLink, is_directory, is_link, is_refused, is_regular,
};
use crate::{Effect, Error, Result, ResultExt, System};

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Created,
    Replaced,
    /// Same content, mode and owner were there already: nothing was written.
    Unchanged,
}

/// How a file is to be written. The default: 0644, owner left alone, parents made 0755, not synced.
#[derive(Debug, Clone, Copy)]
pub struct WriteOptions {
    pub(crate) mode: u32,
    uid: Option<u32>,
    gid: Option<u32>,
    durable: bool,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions { mode: 0o644, uid: None, gid: None, durable: false }
    }
}

impl WriteOptions {
    /// The permission bits, set-id and sticky bits included; the umask does not count.
    pub fn mode(mode: u32) -> WriteOptions {
        WriteOptions { mode, ..WriteOptions::default() }
    }

    /// 0600: for whatever may hold a secret.
    pub fn secret() -> WriteOptions {
        WriteOptions::mode(0o600)
    }

    /// Given to that user and group before it has its name; `None` leaves that half alone. Without privileges and
    /// below another root than `/`, owners are left alone.
    pub fn owner(self, (uid, gid): (Option<u32>, Option<u32>)) -> WriteOptions {
        WriteOptions { uid, gid, ..self }
    }

    /// Whole after a power cut, old or new: for state that decides what the next boot does. Costs a disk's
    /// flush (a few milliseconds), so it is not for what the next boot throws away.
    pub fn durable(self) -> WriteOptions {
        WriteOptions { durable: true, ..self }
    }

    fn effect(self, path: &Path, change: Change) -> Effect {
        let path = path.display().to_string();
        Effect::Write { path, mode: self.mode, owner: (self.uid, self.gid), change }
    }
}

impl System {
    /// Where a change is made. A plan's are in its overlay, unless the machine would refuse them.
    fn resolve(
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
        // Before the overlay has it.
        let made = missing.and(path.parent()).map_or(0, |parent| self.missing(parent));
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

    /// The place of what is there and is changed, not replaced: in a plan a copy of it.
    fn resolve_to_change(&self, path: &Path, missing: Option<NewDirectory>) -> io::Result<ResolvedPath> {
        let resolved = self.resolve(path, TrailingLink::Follow, missing)?;
        if !self.is_dry_run() || resolved.old.is_none() {
            return Ok(resolved);
        }
        ResolvedPath::from_host_path(&self.root().copy_up(path)?)
    }

    /// The place of what is removed: in a plan it is only looked at.
    fn resolve_to_remove(&self, path: &Path) -> io::Result<ResolvedPath> {
        match (self.is_dry_run(), self.root().find(path, TrailingLink::NoFollow, None)) {
            (true, Err(e)) if is_refused(&e) => Err(e),
            (true, _) => ResolvedPath::from_host_path(&self.root().host(path)),
            (false, resolved) => resolved,
        }
    }

    /// A directory and its missing parents, new ones with `mode`; existing ones are left as they are.
    pub fn create_dir_all(&self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        self.create_dir_all_owned(path, mode, (None, None))
    }

    /// As [`System::create_dir_all`]; new ones are given to that user and group.
    pub fn create_dir_all_owned(
        &self,
        path: impl AsRef<Path>,
        mode: u32,
        owner: (Option<u32>, Option<u32>),
    ) -> Result<()> {
        let path = path.as_ref();
        if self.is_dir(path) {
            return Ok(());
        }
        let what = format!("making the directory {}", path.display());
        let made = if self.is_dry_run() {
            let made = self.missing(path);
            let host = self.root().overlay_path_followed(path).context(&what)?;
            DirBuilder::new().recursive(true).mode(mode).create(&host).context(&what)?;
            ResolvedPath::from_host_path(&host)
                .and_then(|resolved| resolved.set_attributes((None, None), Some(mode)))
                .context(&what)?;
            made
        } else {
            self.root().make_directory(path, NewDirectory { mode, owner }).context(&what)?
        };
        self.record_directories(path, made, mode, owner);
        Ok(())
    }

    /// How many directories there are to be made for a path to be one.
    fn missing(&self, path: &Path) -> usize {
        path.ancestors().take_while(|directory| !self.is_dir(directory)).count()
    }

    /// The last `made` directories of a path are new.
    fn record_directories(&self, path: &Path, made: usize, mode: u32, owner: (Option<u32>, Option<u32>)) {
        for directory in path.ancestors().take(made).collect::<Vec<_>>().into_iter().rev() {
            let path = directory.display().to_string();
            if self.is_dry_run() && owner != (None, None) {
                let what = format!("owner of {path}: {}", self.format_owner(owner));
                self.record(Effect::Directory { path, mode });
                self.record(Effect::Other { what });
            } else {
                self.record(Effect::Directory { path, mode });
            }
        }
    }

    /// The parents of what is written that were made for it.
    fn record_parents(&self, path: &Path, resolved: &ResolvedPath) {
        if let Some(parent) = path.parent().filter(|_| resolved.made > 0) {
            self.record_directories(parent, resolved.made, 0o755, (None, None));
        }
    }

    /// Writes the file whole: to a temporary name beside it with the final mode and owner, then renamed
    /// over it. A link is followed and its target made or replaced, but a user's link only to what that user
    /// owns. The same content, mode and owner: no write.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        content: impl AsRef<[u8]>,
        how: WriteOptions,
    ) -> Result<Change> {
        self.write_pieces(path, &[content.as_ref().into()], how)
    }

    /// As [`System::write`], content that is too large to be put together first.
    pub fn write_pieces(
        &self,
        path: impl AsRef<Path>,
        content: &[Cow<'_, [u8]>],
        how: WriteOptions,
    ) -> Result<Change> {
        let path = path.as_ref();
        let what = || format!("writing {}", path.display());
        let resolved = self.resolve(path, TrailingLink::Follow, DEFAULT_PARENTS).context(what())?;
        self.record_parents(path, &resolved);
        let old = resolved.old.as_ref();
        if old.is_some_and(|old| self.is_unchanged(path, &resolved, old, content, how)) {
            return Ok(Change::Unchanged);
        }
        if old.is_some_and(is_directory) {
            return Err(Error::new(format!("{}: a directory is there", what())));
        }
        // A device (/dev/console, /dev/urandom) cannot be replaced; it is written to.
        if old.is_some_and(|old| !is_regular(old)) {
            return self.write_to_device(path, &resolved, content);
        }
        match (self.write_and_rename(&resolved, content, how), old) {
            (Err(e), Some(old)) if must_write_in_place(&e) => {
                self.write_in_place(&resolved, content, how, old)
            }
            (result, _) => result,
        }
        .context(what())?;
        let change = if old.is_some() { Change::Replaced } else { Change::Created };
        self.record(how.effect(path, change));
        Ok(change)
    }

    fn is_unchanged(
        &self,
        path: &Path,
        resolved: &ResolvedPath,
        old: &FileStat,
        content: &[Cow<'_, [u8]>],
        how: WriteOptions,
    ) -> bool {
        let length = content.iter().map(|piece| piece.len() as u64).sum::<u64>();
        let open = || match self.is_dry_run() {
            true => fs::File::open(self.root().host_followed(path)),
            false => resolved.open(OFlag::O_RDONLY, 0),
        };
        is_regular(old)
            && old.st_mode & 0o7777 == how.mode
            && u64::try_from(old.st_size) == Ok(length)
            && self.has_owner(old, how)
            && open().and_then(|file| has_content(file, content)).unwrap_or(false)
    }

    fn write_to_device(
        &self,
        path: &Path,
        resolved: &ResolvedPath,
        content: &[Cow<'_, [u8]>],
    ) -> Result<Change> {
        if self.is_dry_run() {
            self.record(Effect::Other { what: format!("write to {}", path.display()) });
            return Ok(Change::Replaced);
        }
        (resolved.open_for_change(OFlag::O_WRONLY).and_then(|mut f| write_pieces_to(&mut f, content)))
            .context(format_args!("writing to {}", path.display()))?;
        Ok(Change::Replaced)
    }

    /// For a file that is a mount point (containers bind /etc/hosts) or in /proc or /sys: nothing can be
    /// renamed over it. Its mode is narrowed before the content is there, or nothing is written.
    fn write_in_place(
        &self,
        resolved: &ResolvedPath,
        content: &[Cow<'_, [u8]>],
        how: WriteOptions,
        old: &FileStat,
    ) -> io::Result<()> {
        let mut file = resolved.open_for_change(OFlag::O_WRONLY)?;
        let fit = self
            .chown(&file, how.uid, how.gid)
            .and_then(|()| file.set_permissions(fs::Permissions::from_mode(how.mode)));
        match fit {
            // The kernel's own files keep their mode, which is fine unless others could read more than meant.
            Err(e) if old.st_mode & 0o077 & !how.mode != 0 => return Err(e),
            _ => {}
        }
        file.set_len(0)?;
        write_pieces_to(&mut file, content)?;
        if how.durable { file.sync_data() } else { Ok(()) }
    }

    fn write_and_rename(
        &self,
        resolved: &ResolvedPath,
        content: &[Cow<'_, [u8]>],
        how: WriteOptions,
    ) -> io::Result<()> {
        let (temporary, mut file) = resolved.temporary(how.mode)?;
        let result = (|| {
            self.chown(&file, how.uid, how.gid)?;
            // After chown, which clears set-user-ID bits; before the content, so that it is never wider.
            file.set_permissions(fs::Permissions::from_mode(how.mode))?;
            write_pieces_to(&mut file, content)?;
            // Before the rename: else a power cut could leave the new name with nothing in it. That the rename
            // itself is on the disk is not waited for; the old file is as good as the new one.
            if how.durable && content.iter().any(|piece| !piece.is_empty()) {
                file.sync_data()?;
            }
            resolved.replace_with(&temporary)
        })();
        if result.is_err() {
            resolved.discard(&temporary);
        }
        result
    }

    /// Adds to the end of a file, which is made with `how`'s mode and owner when it is not there. Links are followed
    /// as by [`System::write`].
    pub fn append(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>, how: WriteOptions) -> Result<()> {
        self.append_to(path.as_ref(), content.as_ref(), how, false)
    }

    /// As [`System::append`]; a file that is there is given `how`'s mode and owner too.
    pub fn append_as(
        &self,
        path: impl AsRef<Path>,
        content: impl AsRef<[u8]>,
        how: WriteOptions,
    ) -> Result<()> {
        self.append_to(path.as_ref(), content.as_ref(), how, true)
    }

    fn append_to(&self, path: &Path, content: &[u8], how: WriteOptions, change_old: bool) -> Result<()> {
        let what = || format!("appending to {}", path.display());
        let (mut file, is_new) = self.open_append(path, how.mode).context(what())?;
        (|| {
            if is_new || change_old {
                self.chown(&file, how.uid, how.gid)?;
                // After the owner, since a change of owner clears set-user-ID bits.
                file.set_permissions(fs::Permissions::from_mode(how.mode))?;
            }
            file.write_all(content)
        })()
        .context(what())?;
        self.record(how.effect(path, if is_new { Change::Created } else { Change::Replaced }));
        Ok(())
    }

    /// A file open at its end, and whether it is new: then it has the owner's bits of `mode`. A FIFO that nobody
    /// reads is an error.
    pub(crate) fn open_append(&self, path: &Path, mode: u32) -> io::Result<(fs::File, bool)> {
        // Others may make and remove it at the same time.
        const MAX_TRIES: usize = 8;
        let resolved = self.resolve_to_change(path, DEFAULT_PARENTS)?;
        self.record_parents(path, &resolved);
        let mut make = resolved.old.is_none();
        for _ in 0..MAX_TRIES {
            let end = OFlag::O_WRONLY | OFlag::O_APPEND;
            let opened = match make {
                true => resolved.open(end | OFlag::O_CREAT | OFlag::O_EXCL, mode & 0o700),
                false => resolved.open_for_change(end),
            };
            match opened {
                Err(e) if matches!(e.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {}
                opened => return opened.map(|file| (file, make)),
            }
            make = !make;
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// The content of a regular file, at most `limit` bytes, with what stat(2) says of it, as a change to the file
    /// would find it: a user's link is followed only to what that user owns, and a file that somebody else may have
    /// linked there is an error. `None` when there is none.
    pub fn read_to_change(
        &self,
        path: impl AsRef<Path>,
        limit: u64,
    ) -> Result<Option<(Vec<u8>, fs::Metadata)>> {
        let path = path.as_ref();
        let what = || format!("reading {}", path.display());
        let opened = if self.is_dry_run() {
            match self.root().find(path, TrailingLink::Follow, None) {
                Err(e) if is_refused(&e) => Err(e),
                _ => OpenOptions::new()
                    .read(true)
                    .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
                    .open(self.root().host_followed(path)),
            }
        } else {
            self.root()
                .find(path, TrailingLink::Follow, None)
                .and_then(|resolved| resolved.open_for_change(OFlag::O_RDONLY))
        };
        let file = match opened {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.context(what())?,
        };
        let meta = file.metadata().context(what())?;
        if !meta.is_file() || meta.len() > limit {
            let why = if meta.is_file() {
                format!("larger than {limit} bytes")
            } else {
                "not a regular file".into()
            };
            return Err(Error::new(format!("{}: {why}", what())));
        }
        let mut bytes = Vec::with_capacity(meta.len() as usize);
        // One that grows meanwhile is as long as it was.
        file.take(meta.len()).read_to_end(&mut bytes).context(what())?;
        Ok(Some((bytes, meta)))
    }

    /// A symbolic link, replaced atomically when another target was there.
    pub fn link(&self, target: &str, path: impl AsRef<Path>) -> Result<Change> {
        let path = path.as_ref();
        let what = format!("linking {} to {target}", path.display());
        let resolved = self.resolve(path, TrailingLink::NoFollow, DEFAULT_PARENTS).context(&what)?;
        self.record_parents(path, &resolved);
        let old = match &resolved.old {
            Some(old) if is_link(old) && self.is_dry_run() => fs::read_link(self.root().host(path)).ok(),
            Some(old) if is_link(old) => resolved.read_link(),
            _ => None,
        };
        if old.as_deref() == Some(Path::new(target)) {
            return Ok(Change::Unchanged);
        }
        resolved.link(target).context(what)?;
        self.record(Effect::Link { path: path.display().to_string(), target: target.to_string() });
        Ok(if old.is_some() { Change::Replaced } else { Change::Created })
    }

    /// Removes a file or a link; `false` when there was none.
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<bool> {
        self.remove_what(path.as_ref(), false)
    }

    /// Removes what a write that was cut off by a kill or a power cut has left in a directory and, down to `depth`, below
    /// it: temporary files and links from before this process. What is not certainly one stays. How many there were.
    pub fn remove_stale_temporaries(&self, top: impl AsRef<Path>, depth: usize) -> Result<usize> {
        let top = top.as_ref();
        if self.is_dry_run() {
            return Ok(0);
        }
        let before = self.clock().wall().saturating_sub(self.clock().elapsed());
        (self
            .root()
            .find(top, TrailingLink::Follow, None)
            .and_then(|resolved| resolved.remove_stale_temporaries(depth, before)))
        .context(format_args!("looking for temporary files below {}", top.display()))
    }

    /// Removes a file, a link or a whole directory (links inside are not followed); `false` when there was none. An
    /// error may leave a part of the directory.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<bool> {
        self.remove_what(path.as_ref(), true)
    }

    fn remove_what(&self, path: &Path, trees: bool) -> Result<bool> {
        let removed = self.resolve_to_remove(path).and_then(|resolved| match &resolved.old {
            None => Err(io::ErrorKind::NotFound.into()),
            Some(old) if is_directory(old) && !trees => Err(io::ErrorKind::IsADirectory.into()),
            Some(_) if self.is_dry_run() => self.root().whiteout(path),
            Some(old) if is_directory(old) => resolved.remove_dir_all(),
            Some(_) => resolved.remove(),
        });
        match removed {
            Ok(()) => {
                self.record(Effect::Remove { path: path.display().to_string() });
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::io(format_args!("removing {}", path.display()), &e)),
        }
    }

    /// Removes an empty directory; one with something in it stays, as an error.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let removed = if !self.is_dry_run() {
            self.resolve_to_remove(path).and_then(|resolved| resolved.remove_dir())
        } else if self.list(path)?.is_empty() {
            self.root().whiteout(path)
        } else {
            Err(io::ErrorKind::DirectoryNotEmpty.into())
        };
        removed.context(format_args!("removing {}", path.display()))
    }

    /// Gives a file another name in the same file system, over one that is there. Both paths' links are left links.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let what = format!("renaming {} to {}", from.display(), to.display());
        if self.is_dry_run() {
            let copied =
                self.root().copy_up(from).and_then(|copy| fs::rename(copy, self.root().overlay_path(to)?));
            copied.and_then(|()| self.root().whiteout(from)).context(&what)?;
        } else {
            let find = |path| self.root().find(path, TrailingLink::NoFollow, None);
            find(from).and_then(|resolved| resolved.rename_to(&find(to)?)).context(&what)?;
        }
        self.record(Effect::Other { what });
        Ok(())
    }

    /// Sets the permission bits of a file, a link's target included (by the rule of [`System::write`]).
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

    /// Gives a file to a user and a group, a link's target included (by the rule of [`System::write`]); `None` leaves
    /// that half alone.
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
        // A plan may be made by anybody; it knows the owner from the effect.
        if (uid.is_none() && gid.is_none()) || self.is_dry_run() {
            return Ok(());
        }
        self.ignore_unprivileged(std::os::unix::fs::fchown(file, uid, gid))
    }

    /// Where owners cannot be set, and need not be.
    fn ignore_unprivileged(&self, result: io::Result<()>) -> io::Result<()> {
        match result {
            Err(e) if is_refused(&e) => Err(e),
            // An image in a folder may be built without privileges; its owner fixes the owners.
            Err(_) if !self.is_live() && !nix::unistd::geteuid().is_root() => Ok(()),
            // So may one in a user namespace, where root is root but only over the ids that are mapped in it.
            Err(e) if !self.is_live() && e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            other => other,
        }
    }

    fn has_owner(&self, old: &FileStat, how: WriteOptions) -> bool {
        let unprivileged = (!self.is_live() || self.is_dry_run()) && !nix::unistd::geteuid().is_root();
        unprivileged
            || (how.uid.is_none_or(|uid| uid == old.st_uid) && how.gid.is_none_or(|gid| gid == old.st_gid))
    }
}

fn write_pieces_to(file: &mut fs::File, content: &[Cow<'_, [u8]>]) -> io::Result<()> {
    if let [whole] = content {
        return file.write_all(whole);
    }
    // Small pieces are many, and large ones pass it by.
    let mut file = io::BufWriter::new(file);
    content.iter().try_for_each(|piece| file.write_all(piece))?;
    file.flush()
}

/// Whether a file holds just this.
fn has_content(mut file: fs::File, content: &[Cow<'_, [u8]>]) -> io::Result<bool> {
    let most = content.iter().map(|piece| piece.len()).max().unwrap_or(0).clamp(1, 64 << 10);
    let mut buffer = vec![0; most];
    for chunk in content.iter().flat_map(|piece| piece.chunks(most)) {
        let have = &mut buffer[..chunk.len()];
        file.read_exact(have)?;
        if !is_equal(have, chunk) {
            return Ok(false);
        }
    }
    Ok(file.read(&mut buffer[..1])? == 0)
}

/// Whether two texts of one length are the same: eight bytes at a time, where musl's memcmp(3) looks at each.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    a.iter().zip(b).all(|(a, b)| u64::from_ne_bytes(*a) == u64::from_ne_bytes(*b)) && a_rest == b_rest
}

/// Whether a write failed because of where the file is, not because of what it is.
fn must_write_in_place(e: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(e.kind(), ResourceBusy | PermissionDenied | NotFound | ReadOnlyFilesystem)
}

/// Whether a name is that of a write's temporary file: `.NAME.NUMBER.new`.
pub(crate) fn is_temporary_name(name: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|n| n.strip_suffix(".new"));
    let pid = inner.and_then(|n| n.rsplit_once('.')).map(|(_, pid)| pid);
    pid.is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::TempDir;
    use std::os::unix::fs::MetadataExt;

    fn sandbox() -> (System, TempDir) {
        let top = TempDir::new();
        (System::new(&top), top)
    }

    #[test]
    fn write_sets_the_mode_and_skips_unchanged_files() {
        let (sys, top) = sandbox();
        assert_eq!(sys.write("/a/b", "x", WriteOptions::secret()).unwrap(), Change::Created);
        assert_eq!(sys.write("/a/b", "x", WriteOptions::secret()).unwrap(), Change::Unchanged);
        assert_eq!(sys.write("/a/b", "x", WriteOptions::mode(0o4755)).unwrap(), Change::Replaced);
        assert_eq!(sys.metadata("/a/b").unwrap().mode() & 0o7777, 0o4755);
        // What a kill leaves is as if it were not there; a user's own name may look much like it.
        for name in [".b.77.new", ".c.new", "d.77.new"] {
            fs::write(top.join("a").join(name), "half").unwrap();
        }
        assert_eq!(sys.list("/a").unwrap(), [".c.new", "b", "d.77.new"]);
        assert!(sys.write("/a", "x", WriteOptions::default()).is_err());
    }

    #[test]
    fn write_in_pieces() {
        let (sys, _top) = sandbox();
        let large = vec![b'x'; 100_000];
        let write = |pieces: &[&[u8]]| {
            let pieces: Vec<Cow<'_, [u8]>> = pieces.iter().map(|p| (*p).into()).collect();
            sys.write_pieces("/a", &pieces, WriteOptions::default()).unwrap()
        };
        assert_eq!(write(&[b"begin ", &large, b"", b" end"]), Change::Created);
        assert_eq!(sys.read("/a").unwrap(), [b"begin ", &large[..], b" end"].concat());
        assert_eq!(write(&[b"begin", b" ", &large, b" end"]), Change::Unchanged);
        assert_eq!(write(&[b"begin ", &large, b" enD"]), Change::Replaced);
        assert_eq!(sys.read("/a").unwrap(), [b"begin ", &large[..], b" enD"].concat());
        assert_eq!((write(&[]), write(&[b""])), (Change::Replaced, Change::Unchanged));
    }

    #[test]
    fn a_link_is_followed_inside_the_root() {
        let (sys, _top) = sandbox();
        sys.create_dir_all("/etc", 0o755).unwrap();
        sys.link("/run/real", "/etc/name").unwrap();
        sys.write("/etc/name", "x", WriteOptions::default()).unwrap();
        assert_eq!(sys.read_text("/run/real").unwrap(), "x");
        assert!(sys.is_link("/etc/name"));
    }

    #[test]
    fn proc_files_are_written_in_place() {
        // Its own, so harmless; the directory takes no other file.
        let sys = System::new("/");
        let path = format!("/proc/{}/coredump_filter", std::process::id());
        assert_eq!(sys.write(&path, "0x31", WriteOptions::default()).unwrap(), Change::Replaced);
        assert_eq!(sys.read_text(&path).unwrap(), "00000031\n");
        assert!(sys.write("/proc/version", "x", WriteOptions::default()).is_err());
    }
}
