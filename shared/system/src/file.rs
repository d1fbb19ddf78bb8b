//! Changing files: written whole or not at all, with their final mode from the first byte; links and directories.
//! Methods that end in an error have changed nothing, unless they say otherwise.

use std::borrow::Cow;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

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
pub struct Write {
    pub(crate) mode: u32,
    uid: Option<u32>,
    gid: Option<u32>,
    durable: bool,
}

impl Default for Write {
    fn default() -> Write {
        Write { mode: 0o644, uid: None, gid: None, durable: false }
    }
}

impl Write {
    /// The permission bits, set-id and sticky bits included; the umask does not count.
    pub fn mode(mode: u32) -> Write {
        Write { mode, ..Write::default() }
    }

    /// 0600: for whatever may hold a secret.
    pub fn secret() -> Write {
        Write::mode(0o600)
    }

    /// Given to that user and group before it has its name; `None` leaves that half alone. Without privileges and
    /// below another root than `/`, owners are left alone.
    pub fn owner(self, (uid, gid): (Option<u32>, Option<u32>)) -> Write {
        Write { uid, gid, ..self }
    }

    /// Whole after a power cut, old or new: for state that decides what the next boot does. Costs a disk's
    /// flush (a few milliseconds), so it is not for what the next boot throws away.
    pub fn durable(self) -> Write {
        Write { durable: true, ..self }
    }

    fn effect(self, path: &Path, change: Change) -> Effect {
        let path = path.display().to_string();
        Effect::Write { path, mode: self.mode, owner: (self.uid, self.gid), change }
    }
}

impl System {
    /// A directory and its missing parents, new ones with `mode`; existing ones are left as they are.
    pub fn make_dir(&self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        let path = path.as_ref();
        if self.is_dir(path) {
            return Ok(());
        }
        let what = format!("making the directory {}", path.display());
        let host = self.root().place_followed(path).doing(&what)?;
        fs::DirBuilder::new().recursive(true).mode(mode).create(&host).doing(&what)?;
        // DirBuilder's mode is cut by the umask; the one asked for is the one meant.
        fs::set_permissions(&host, fs::Permissions::from_mode(mode))
            .doing(format_args!("setting the mode of {}", path.display()))?;
        self.note(Effect::Directory { path: path.display().to_string(), mode });
        Ok(())
    }

    /// Writes the file whole: to a temporary name beside it with the final mode and owner, then renamed
    /// over it. A link is followed and its target replaced. The same content, mode and owner: no write.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>, how: Write) -> Result<Change> {
        self.write_pieces(path, &[content.as_ref().into()], how)
    }

    /// As [`System::write`], content that is too large to be put together first.
    pub fn write_pieces(
        &self,
        path: impl AsRef<Path>,
        content: &[Cow<'_, [u8]>],
        how: Write,
    ) -> Result<Change> {
        let path = path.as_ref();
        let mut host = self.root().host_followed(path);
        let mut old = fs::symlink_metadata(&host).ok();
        // On the machine itself the kernel follows the parents; a last link is followed by hand.
        if old.as_ref().is_some_and(|m| m.is_symlink()) && self.root().is_plain() {
            host = fs::canonicalize(&host).unwrap_or(host);
            old = fs::symlink_metadata(&host).ok();
        }
        if let Some(meta) = &old
            && meta.is_file()
            && meta.mode() & 0o7777 == how.mode
            && meta.len() == content.iter().map(|piece| piece.len() as u64).sum::<u64>()
            && self.owned_as(meta, how)
            && holds(&host, content).unwrap_or(false)
        {
            return Ok(Change::Unchanged);
        }
        if old.as_ref().is_some_and(|m| m.is_dir()) {
            return Err(Error::new(format!("writing {}: a directory is there", path.display())));
        }
        if old.is_none()
            && let Some(parent) = path.parent()
        {
            self.make_dir(parent, 0o755)?;
        }
        // A device (/dev/console, /dev/urandom) cannot be replaced; it is written to.
        if old.as_ref().is_some_and(|m| !m.is_file()) {
            return self.write_into(path, &host, content);
        }
        let host = match self.root().scratch() {
            Some(_) => self.root().place_followed(path).doing(format_args!("planning {}", path.display()))?,
            None => host,
        };
        if let Some(parent) = host.parent().filter(|p| !self.root().is_plain() && !p.exists()) {
            // A link that points to where nothing is yet.
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(parent)
                .doing(format_args!("making the directory for {}", path.display()))?;
        }
        match (self.write_beside(&host, content, how), &old) {
            (Err(e), Some(old)) if cannot_be_replaced(&e) => self.write_in_place(&host, content, how, old),
            (result, _) => result,
        }
        .doing(format_args!("writing {}", path.display()))?;
        let change = if old.is_some() { Change::Replaced } else { Change::Created };
        self.note(how.effect(path, change));
        Ok(change)
    }

    fn write_into(&self, path: &Path, host: &Path, content: &[Cow<'_, [u8]>]) -> Result<Change> {
        if self.is_planned() {
            self.note(Effect::Other { what: format!("write to {}", path.display()) });
            return Ok(Change::Replaced);
        }
        OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(host)
            .and_then(|mut f| put(&mut f, content))
            .doing(format_args!("writing to {}", path.display()))?;
        Ok(Change::Replaced)
    }

    /// For a file that is a mount point (containers bind /etc/hosts) or in /proc or /sys: nothing can be
    /// renamed over it. Its mode is narrowed before the content is there, or nothing is written.
    fn write_in_place(
        &self,
        host: &Path,
        content: &[Cow<'_, [u8]>],
        how: Write,
        old: &fs::Metadata,
    ) -> io::Result<()> {
        let mut file =
            OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(host)?;
        let fit = self
            .give(host, how.uid, how.gid)
            .and_then(|()| file.set_permissions(fs::Permissions::from_mode(how.mode)));
        match fit {
            // The kernel's own files keep their mode, which is fine unless others could read more than meant.
            Err(e) if old.mode() & 0o077 & !how.mode != 0 => return Err(e),
            _ => {}
        }
        file.set_len(0)?;
        put(&mut file, content)?;
        if how.durable { file.sync_data() } else { Ok(()) }
    }

    fn write_beside(&self, host: &Path, content: &[Cow<'_, [u8]>], how: Write) -> io::Result<()> {
        let name = host.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // A name of 255 bytes has no room for a suffix, so it is cut.
        let short: String = name.chars().take(60).collect();
        let temporary = host.with_file_name(format!(".{short}.{}.new", std::process::id()));
        let open = || {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(how.mode & 0o700)
                .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
                .open(&temporary)
        };
        let result = (|| {
            let mut file = match open() {
                // Left by a process of this number that was killed.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    fs::remove_file(&temporary)?;
                    open()?
                }
                other => other?,
            };
            self.give(&temporary, how.uid, how.gid)?;
            // After chown, which clears set-user-ID bits; before the content, so that it is never wider.
            file.set_permissions(fs::Permissions::from_mode(how.mode))?;
            put(&mut file, content)?;
            // Before the rename: else a power cut could leave the new name with nothing in it. That the rename
            // itself is on the disk is not waited for; the old file is as good as the new one.
            if how.durable && content.iter().any(|piece| !piece.is_empty()) {
                file.sync_data()?;
            }
            fs::rename(&temporary, host)
        })();
        if result.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        result
    }

    /// Adds to the end of a file, which is made with `how`'s mode when it is not there.
    pub fn append(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>, how: Write) -> Result<()> {
        let path = path.as_ref();
        if let Some(parent) = path.parent() {
            self.make_dir(parent, 0o755)?;
        }
        let new = !self.exists(path);
        let what = format!("appending to {}", path.display());
        let place = if new { self.root().place_followed(path) } else { self.root().copy(path) };
        let host = place.doing(&what)?;
        (|| {
            let mut file = OpenOptions::new()
                .append(true)
                .create(true)
                .mode(how.mode)
                .custom_flags(libc::O_NOCTTY | libc::O_CLOEXEC)
                .open(&host)?;
            if new {
                self.give(&host, how.uid, how.gid)?;
                file.set_permissions(fs::Permissions::from_mode(how.mode))?;
            }
            file.write_all(content.as_ref())
        })()
        .doing(what)?;
        self.note(how.effect(path, if new { Change::Created } else { Change::Replaced }));
        Ok(())
    }

    /// A symbolic link, replaced atomically when another target was there.
    pub fn link(&self, target: &str, path: impl AsRef<Path>) -> Result<Change> {
        let path = path.as_ref();
        let host = self.root().host(path);
        let old = fs::read_link(&host).ok();
        if old.as_deref() == Some(Path::new(target)) {
            return Ok(Change::Unchanged);
        }
        if let Some(parent) = path.parent() {
            self.make_dir(parent, 0o755)?;
        }
        let what = format!("linking {} to {target}", path.display());
        let host = self.root().place(path).doing(&what)?;
        let name = host.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let temporary = host.with_file_name(format!(".{name}.{}.new", std::process::id()));
        let _ = fs::remove_file(&temporary);
        std::os::unix::fs::symlink(target, &temporary).doing(&what)?;
        if let Err(e) = fs::rename(&temporary, &host) {
            let _ = fs::remove_file(&temporary);
            return Err(Error::io(what, &e));
        }
        self.note(Effect::Link { path: path.display().to_string(), target: target.to_string() });
        Ok(if old.is_some() { Change::Replaced } else { Change::Created })
    }

    /// Removes a file or a link; `false` when there was none.
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<bool> {
        let path = path.as_ref();
        let host = self.root().host(path);
        let removed = match host.symlink_metadata() {
            Ok(meta) if meta.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(_) => self.root().unplace(path),
            Err(e) => Err(e),
        };
        match removed {
            Ok(()) => {
                self.note(Effect::Remove { path: path.display().to_string() });
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::io(format_args!("removing {}", path.display()), &e)),
        }
    }

    /// Removes a file, a link or a whole directory (links inside are not followed); `false` when there was none. An
    /// error may leave a part of the directory.
    pub fn remove_tree(&self, path: impl AsRef<Path>) -> Result<bool> {
        let path = path.as_ref();
        let host = self.root().host(path);
        if !host.is_dir() || host.is_symlink() {
            return self.remove(path);
        }
        self.root().unplace(path).doing(format_args!("removing {}", path.display()))?;
        self.note(Effect::Remove { path: path.display().to_string() });
        Ok(true)
    }

    /// Removes an empty directory; one with something in it stays, as an error.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let removed = if !self.is_planned() {
            fs::remove_dir(self.root().host(path))
        } else if self.list(path)?.is_empty() {
            self.root().unplace(path)
        } else {
            Err(io::ErrorKind::DirectoryNotEmpty.into())
        };
        removed.doing(format_args!("removing {}", path.display()))
    }

    /// Gives a file another name in the same file system, over one that is there. Both paths' links are left links.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let what = format!("renaming {} to {}", from.display(), to.display());
        if self.is_planned() {
            let copied = self.root().copy(from).and_then(|copy| fs::rename(copy, self.root().place(to)?));
            copied.and_then(|()| self.root().unplace(from)).doing(&what)?;
        } else {
            fs::rename(self.root().host(from), self.root().host(to)).doing(&what)?;
        }
        self.note(Effect::Other { what });
        Ok(())
    }

    /// Sets the permission bits of a file, a link's target included.
    pub fn set_mode(&self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        let path = path.as_ref();
        (self.root().copy(path))
            .and_then(|host| fs::set_permissions(host, fs::Permissions::from_mode(mode)))
            .doing(format_args!("setting the mode of {}", path.display()))?;
        if self.is_planned() {
            self.note(Effect::Other { what: format!("mode of {}: {mode:04o}", path.display()) });
        }
        Ok(())
    }

    /// Gives a file to a user and a group; `None` leaves that half alone.
    pub fn set_owner(&self, path: impl AsRef<Path>, owner: (Option<u32>, Option<u32>)) -> Result<()> {
        let path = path.as_ref();
        if self.is_planned() {
            let what = format!("owner of {}: {}", path.display(), self.owner_shown(owner));
            self.note(Effect::Other { what });
            return Ok(());
        }
        let (uid, gid) = owner;
        self.give(&self.root().host_followed(path), uid, gid)
            .doing(format_args!("setting the owner of {}", path.display()))
    }

    fn give(&self, host: &Path, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        // A plan may be made by anybody; it knows the owner from the effect.
        if (uid.is_none() && gid.is_none()) || self.is_planned() {
            return Ok(());
        }
        match std::os::unix::fs::chown(host, uid, gid) {
            // An image in a folder may be built without privileges; its owner fixes the owners.
            Err(_) if !self.is_live() && !nix::unistd::geteuid().is_root() => Ok(()),
            // So may one in a user namespace, where root is root but only over the ids that are mapped in it.
            Err(e) if !self.is_live() && e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            other => other,
        }
    }

    fn owned_as(&self, meta: &fs::Metadata, how: Write) -> bool {
        let unprivileged = (!self.is_live() || self.is_planned()) && !nix::unistd::geteuid().is_root();
        unprivileged
            || (how.uid.is_none_or(|uid| uid == meta.uid()) && how.gid.is_none_or(|gid| gid == meta.gid()))
    }
}

fn put(file: &mut fs::File, content: &[Cow<'_, [u8]>]) -> io::Result<()> {
    if let [whole] = content {
        return file.write_all(whole);
    }
    // Small pieces are many, and large ones pass it by.
    let mut file = io::BufWriter::new(file);
    content.iter().try_for_each(|piece| file.write_all(piece))?;
    file.flush()
}

/// Whether a file holds just this.
fn holds(host: &Path, content: &[Cow<'_, [u8]>]) -> io::Result<bool> {
    let most = content.iter().map(|piece| piece.len()).max().unwrap_or(0).clamp(1, 64 << 10);
    let (mut file, mut buffer) = (fs::File::open(host)?, vec![0; most]);
    for chunk in content.iter().flat_map(|piece| piece.chunks(most)) {
        let have = &mut buffer[..chunk.len()];
        file.read_exact(have)?;
        if !same(have, chunk) {
            return Ok(false);
        }
    }
    Ok(file.read(&mut buffer[..1])? == 0)
}

/// Whether two texts of one length are the same: eight bytes at a time, where musl's memcmp(3) looks at each.
fn same(a: &[u8], b: &[u8]) -> bool {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    a.iter().zip(b).all(|(a, b)| u64::from_ne_bytes(*a) == u64::from_ne_bytes(*b)) && a_rest == b_rest
}

/// Whether a write failed because of where the file is, not because of what it is.
fn cannot_be_replaced(e: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(e.kind(), ResourceBusy | PermissionDenied | NotFound | ReadOnlyFilesystem)
}

/// Whether a name is that of a write's temporary file: `.NAME.PID.new`.
pub(crate) fn is_unfinished(name: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|n| n.strip_suffix(".new"));
    let pid = inner.and_then(|n| n.rsplit_once('.')).map(|(_, pid)| pid);
    pid.is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::Scratch;

    fn sandbox() -> (System, Scratch) {
        let top = Scratch::new();
        (System::new(&top), top)
    }

    #[test]
    fn written_once_with_mode() {
        let (sys, top) = sandbox();
        assert_eq!(sys.write("/a/b", "x", Write::secret()).unwrap(), Change::Created);
        assert_eq!(sys.write("/a/b", "x", Write::secret()).unwrap(), Change::Unchanged);
        assert_eq!(sys.write("/a/b", "x", Write::mode(0o4755)).unwrap(), Change::Replaced);
        assert_eq!(sys.metadata("/a/b").unwrap().mode() & 0o7777, 0o4755);
        // What a kill leaves is as if it were not there; a user's own name may look much like it.
        for name in [".b.77.new", ".c.new", "d.77.new"] {
            fs::write(top.join("a").join(name), "half").unwrap();
        }
        assert_eq!(sys.list("/a").unwrap(), [".c.new", "b", "d.77.new"]);
        assert!(sys.write("/a", "x", Write::default()).is_err());
    }

    #[test]
    fn in_pieces() {
        let (sys, _top) = sandbox();
        let large = vec![b'x'; 100_000];
        let write = |pieces: &[&[u8]]| {
            let pieces: Vec<Cow<'_, [u8]>> = pieces.iter().map(|p| (*p).into()).collect();
            sys.write_pieces("/a", &pieces, Write::default()).unwrap()
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
        sys.make_dir("/etc", 0o755).unwrap();
        sys.link("/run/real", "/etc/name").unwrap();
        sys.write("/etc/name", "x", Write::default()).unwrap();
        assert_eq!(sys.read_text("/run/real").unwrap(), "x");
        assert!(sys.is_link("/etc/name"));
    }

    #[test]
    fn a_file_of_the_kernel_is_written_in_place() {
        // Its own, so harmless; the directory takes no other file.
        let sys = System::new("/");
        let path = format!("/proc/{}/coredump_filter", std::process::id());
        assert_eq!(sys.write(&path, "0x31", Write::default()).unwrap(), Change::Replaced);
        assert_eq!(sys.read_text(&path).unwrap(), "00000031\n");
        assert!(sys.write("/proc/version", "x", Write::default()).is_err());
    }
}
