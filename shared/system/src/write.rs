//! Writing files: atomically, with their final mode from the first byte on, and not at all if they are unchanged.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

use crate::large_files::FileStat;
use crate::path::{DEFAULT_PARENTS, ResolvedPath, TrailingLink, is_directory, is_regular};
use crate::{Change, Effect, Error, Result, ResultExt, System, WriteOptions};

/// What [`System::begin_write`] has done.
pub(crate) enum Begun {
    /// Everything.
    Done(Change),
    /// The content is written.
    Unnamed(Box<UnnamedFile>),
}

/// A file with its content, mode and owner, whose name is still a temporary one.
pub(crate) struct UnnamedFile {
    resolved: ResolvedPath,
    temporary: OsString,
    pub(crate) file: fs::File,
    pub(crate) must_be_flushed: bool,
}

impl UnnamedFile {
    pub(crate) fn discard(&self) {
        self.resolved.discard(&self.temporary);
    }
}

impl System {
    /// Writes a file atomically: to a temporary name in the same directory, with the final mode and owner, which is then
    /// renamed. A file with the same content, mode and owner is not written. A link is followed, and its target created or
    /// replaced; a user's link is followed only to a target that the user owns. Devices, bind mounts and files of procfs
    /// and sysfs are written in place.
    ///
    /// # Errors
    /// Fails if the path is a directory, or if a system call fails. A file that is written in place may be incomplete then.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        content: impl AsRef<[u8]>,
        how: WriteOptions,
    ) -> Result<Change> {
        self.write_pieces(path, &[content.as_ref().into()], how)
    }

    /// Does the same as [`System::write`] with content in pieces, for content that is too large to be joined first.
    ///
    /// # Errors
    /// As for [`System::write`].
    pub fn write_pieces(
        &self,
        path: impl AsRef<Path>,
        content: &[Cow<'_, [u8]>],
        how: WriteOptions,
    ) -> Result<Change> {
        let path = path.as_ref();
        match self.begin_write(path, content, how)? {
            Begun::Done(change) => Ok(change),
            Begun::Unnamed(new) => {
                let flushed = if new.must_be_flushed { new.file.sync_data() } else { Ok(()) };
                self.end_write(path, &new, flushed, content, how)
            }
        }
    }

    /// Does what [`System::write`] does until the file is flushed and gets its name.
    pub(crate) fn begin_write(
        &self,
        path: &Path,
        content: &[Cow<'_, [u8]>],
        how: WriteOptions,
    ) -> Result<Begun> {
        let what = || format!("writing {}", path.display());
        let resolved = self.resolve(path, TrailingLink::Follow, DEFAULT_PARENTS).context(what())?;
        self.record_parents(path, &resolved);
        let old = resolved.old.as_ref();
        if old.is_some_and(|old| self.is_unchanged(path, &resolved, old, content, how)) {
            return Ok(Begun::Done(Change::Unchanged));
        }
        if old.is_some_and(is_directory) {
            return Err(Error::new(format!("{}: is a directory", what())));
        }
        // A device (/dev/console, /dev/urandom) must not be replaced; it is written to.
        if old.is_some_and(|old| !is_regular(old)) {
            return self.write_to_device(path, &resolved, content).map(Begun::Done);
        }
        if how.in_place {
            let mut written = self.write_in_place(&resolved, content, how);
            let is_new = |e: &io::Error| old.is_none() && e.kind() == io::ErrorKind::AlreadyExists;
            if written.as_ref().is_err_and(is_new) {
                // Another process has created it since: of the generator, several runs are possible.
                let again = self.resolve(path, TrailingLink::Follow, DEFAULT_PARENTS).context(what())?;
                if again.old.as_ref().is_some_and(is_regular) {
                    written = self.write_in_place(&again, content, how);
                }
            }
            written.context(what())?;
            return Ok(Begun::Done(self.written(path, &resolved, how)));
        }
        match (self.write_temporary(&resolved, content, how), old) {
            (Ok((temporary, file)), _) => {
                // Before the rename: else a power failure could leave an empty file with the new name. The rename itself is
                // not flushed: either file is complete.
                let must_be_flushed = (how.durable || self.replaces_data(path, old))
                    && content.iter().any(|piece| !piece.is_empty());
                Ok(Begun::Unnamed(UnnamedFile { resolved, temporary, file, must_be_flushed }.into()))
            }
            (Err(e), Some(_)) if must_write_in_place(&e) => {
                self.write_in_place(&resolved, content, how).context(what())?;
                Ok(Begun::Done(self.written(path, &resolved, how)))
            }
            (Err(e), _) => Err(e).context(what()),
        }
    }

    /// Gives a file its name, if it is flushed.
    pub(crate) fn end_write(
        &self,
        path: &Path,
        new: &UnnamedFile,
        flushed: io::Result<()>,
        content: &[Cow<'_, [u8]>],
        how: WriteOptions,
    ) -> Result<Change> {
        let UnnamedFile { resolved, temporary, .. } = new;
        let named = flushed.and_then(|()| resolved.replace_with(temporary));
        if named.is_err() {
            new.discard();
        }
        match (named, &resolved.old) {
            (Err(e), Some(_)) if must_write_in_place(&e) => self.write_in_place(resolved, content, how),
            (named, _) => named,
        }
        .context(format_args!("writing {}", path.display()))?;
        Ok(self.written(path, resolved, how))
    }

    /// Records a file that was written, and returns what that changed.
    fn written(&self, path: &Path, resolved: &ResolvedPath, how: WriteOptions) -> Change {
        let change = if resolved.old.is_some() { Change::Replaced } else { Change::Created };
        self.record(how.effect(path, change));
        change
    }

    /// Returns whether a power failure could lose both versions of a file that is not of this program: it replaces content.
    fn replaces_data(&self, path: &Path, old: Option<&FileStat>) -> bool {
        let is_own = ["/run", "/var/lib/cloud", "/var/log"].iter().any(|own| path.starts_with(own));
        self.is_live() && !is_own && old.is_some_and(|old| old.st_size > 0)
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

    /// Writes to a file that no other can be renamed to: a mount point (containers bind /etc/hosts), a file in /proc or
    /// /sys, one of [`WriteOptions::in_place`]. Its mode is narrowed before the content is written, or nothing is.
    fn write_in_place(
        &self,
        resolved: &ResolvedPath,
        content: &[Cow<'_, [u8]>],
        how: WriteOptions,
    ) -> io::Result<()> {
        let mut file = match resolved.old {
            Some(_) => resolved.open_for_change(OFlag::O_WRONLY)?,
            None => resolved.open(OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL, how.mode)?,
        };
        let mode = file.metadata()?.permissions().mode() & 0o7777;
        let fit = self.chown(&file, how.uid, how.gid).and_then(|()| match mode == how.mode {
            true => Ok(()),
            false => file.set_permissions(fs::Permissions::from_mode(how.mode)),
        });
        match fit {
            // The kernel's own files keep their mode, which is acceptable unless it is wider than requested.
            Err(e) if mode & 0o077 & !how.mode != 0 => return Err(e),
            _ => {}
        }
        file.set_len(0)?;
        write_pieces_to(&mut file, content)?;
        if how.durable { file.sync_data() } else { Ok(()) }
    }

    /// Writes a temporary file in the directory of a file. Returns its name and the file.
    fn write_temporary(
        &self,
        resolved: &ResolvedPath,
        content: &[Cow<'_, [u8]>],
        how: WriteOptions,
    ) -> io::Result<(OsString, fs::File)> {
        let (temporary, mut file) = resolved.temporary(how.mode)?;
        let result = (|| {
            self.chown(&file, how.uid, how.gid)?;
            // After chown, which clears set-user-ID bits; before the content, so that it is never wider.
            file.set_permissions(fs::Permissions::from_mode(how.mode))?;
            write_pieces_to(&mut file, content)
        })();
        match result {
            Ok(()) => Ok((temporary, file)),
            Err(e) => {
                resolved.discard(&temporary);
                Err(e)
            }
        }
    }

    /// Appends to a file, which is created with the mode and owner of `how` if it is missing. Links are followed as by
    /// [`System::write`].
    ///
    /// # Errors
    /// Fails if the file cannot be opened or written. A part may be written then.
    pub fn append(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>, how: WriteOptions) -> Result<()> {
        self.append_to(path.as_ref(), content.as_ref(), how, false)
    }

    /// Does the same as [`System::append`], and gives an existing file the mode and owner of `how` too.
    ///
    /// # Errors
    /// As for [`System::append`], and if the mode or owner cannot be set.
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
        let mode = if how.in_place { how.mode } else { how.mode & 0o700 };
        let (mut file, is_new) = self.open_append(path, mode).context(what())?;
        (|| {
            if is_new && !how.in_place || change_old {
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

    /// Opens a file for appending. Returns the file and whether it is new; a new file has this mode, less the umask. Fails
    /// for a FIFO without a reader.
    pub(crate) fn open_append(&self, path: &Path, mode: u32) -> io::Result<(fs::File, bool)> {
        // Another process may create and remove it at the same time.
        const MAX_TRIES: usize = 8;
        let resolved = self.resolve_to_change(path, DEFAULT_PARENTS)?;
        self.record_parents(path, &resolved);
        let mut make = resolved.old.is_none();
        for _ in 0..MAX_TRIES {
            let end = OFlag::O_WRONLY | OFlag::O_APPEND;
            let opened = match make {
                true => resolved.open(end | OFlag::O_CREAT | OFlag::O_EXCL, mode),
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
}

/// The maximum number of bytes in one write. For a larger one, ext4 and XFS allocate folios of 2 MiB and more, and few of
/// these are memory that was in use before. In a virtual machine the host has to provide the others: one write of 16 MB took
/// up to 38 ms, writes of at most 1 MiB took 4 ms as long as there was memory in smaller pieces.
const MAX_WRITE: usize = 512 << 10;
/// The maximum number of pieces in one write (`IOV_MAX`).
const MAX_PIECES: usize = 1024;

fn write_pieces_to(file: &mut fs::File, content: &[Cow<'_, [u8]>]) -> io::Result<()> {
    let (mut slices, mut size) = (Vec::new(), 0);
    for piece in content {
        let mut rest = &**piece;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(MAX_WRITE - size));
            slices.push(io::IoSlice::new(now));
            (size, rest) = (size + now.len(), later);
            if size == MAX_WRITE || slices.len() == MAX_PIECES {
                write_slices(file, &mut slices)?;
                (slices, size) = (Vec::new(), 0);
            }
        }
    }
    write_slices(file, &mut slices)
}

/// Writes slices completely.
fn write_slices(file: &mut impl io::Write, mut slices: &mut [io::IoSlice<'_>]) -> io::Result<()> {
    while !slices.is_empty() {
        match file.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => io::IoSlice::advance_slices(&mut slices, written),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Returns whether the file has exactly this content.
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

/// Returns whether two slices of one length are equal: eight bytes at a time, since musl's memcmp(3) compares single bytes.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    a.iter().zip(b).all(|(a, b)| u64::from_ne_bytes(*a) == u64::from_ne_bytes(*b)) && a_rest == b_rest
}

/// Returns whether a write failed because of the directory, not because of the file.
fn must_write_in_place(e: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(e.kind(), ResourceBusy | PermissionDenied | NotFound | ReadOnlyFilesystem)
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
        // The temporary file of a killed process is not listed; similar names of users are.
        for name in [".b.77.new", ".c.new", "d.77.new"] {
            fs::write(top.join("a").join(name), "half").unwrap();
        }
        assert_eq!(sys.list("/a").unwrap(), [".c.new", "b", "d.77.new"]);
        assert!(sys.write("/a", "x", WriteOptions::default()).is_err());
    }

    /// SELinux's policies deny the generator renames, removals and changes of modes.
    #[test]
    fn a_file_that_is_written_in_place_stays_the_same_file() {
        let (sys, top) = sandbox();
        let how = WriteOptions::default().in_place();
        assert_eq!(sys.write("/a/b", "long", how).unwrap(), Change::Created);
        let before = sys.metadata("/a/b").unwrap();
        assert_eq!(sys.write("/a/b", "x", how).unwrap(), Change::Replaced);
        assert_eq!(sys.write("/a/b", "x", how).unwrap(), Change::Unchanged);
        sys.append("/a/b", "y", how).unwrap();
        let after = sys.metadata("/a/b").unwrap();
        assert_eq!((after.ino(), after.mode() & 0o777), (before.ino(), 0o644));
        assert_eq!(sys.read("/a/b").unwrap(), b"xy");
        assert_eq!(fs::read_dir(top.join("a")).unwrap().count(), 1);
        assert_eq!(sys.write("/a/b", "z", WriteOptions::secret().in_place()).unwrap(), Change::Replaced);
        assert_eq!(sys.metadata("/a/b").unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn pieces_are_written_and_compared_as_one_file() {
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
    fn pieces_beyond_the_limits_of_one_write_are_written() {
        let (sys, _top) = sandbox();
        let numbered = |bytes: usize| -> Vec<u8> { (0..bytes).map(|n| (n / 7 % 251) as u8).collect() };
        for (count, size) in [
            (1, MAX_WRITE),
            (1, MAX_WRITE + 1),
            (1, 3 * MAX_WRITE + 5),
            (3, MAX_WRITE - 1),
            (5, MAX_WRITE / 2),
            (MAX_PIECES, 1),
            (2 * MAX_PIECES + 1, 3),
        ] {
            let all = numbered(count * size);
            let pieces: Vec<Cow<'_, [u8]>> = all.chunks(size).map(Cow::from).collect();
            assert_eq!(pieces.len(), count);
            sys.write_pieces("/a", &pieces, WriteOptions::default()).unwrap();
            assert!(sys.read("/a").unwrap() == all, "{count} pieces of {size} bytes");
        }
    }

    #[test]
    fn a_partial_or_interrupted_write_is_continued() {
        /// Takes up to seven bytes, and is interrupted before each write.
        #[derive(Default)]
        struct Reluctant(Vec<u8>, bool);
        impl io::Write for Reluctant {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.1 = !self.1;
                if self.1 {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                self.0.extend(bytes.iter().take(7));
                Ok(bytes.len().min(7))
            }

            fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
                let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
                self.write(&bytes)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut out = Reluctant::default();
        let mut slices = [&b"abc"[..], b"defghijklm", b"n", b"opqrstuvwxyz"].map(io::IoSlice::new);
        write_slices(&mut out, &mut slices).unwrap();
        assert_eq!(out.0, b"abcdefghijklmnopqrstuvwxyz");
        let mut full: &mut [u8] = &mut [0; 2];
        let error = write_slices(&mut full, &mut [io::IoSlice::new(b"abc")]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }

    #[test]
    fn a_file_may_grow_beyond_2_gib() {
        use std::os::unix::fs::FileExt;
        const LARGE: u64 = 3 << 30;
        let (sys, _top) = sandbox();
        let resolved = sys.resolve_to_change(Path::new("/large"), DEFAULT_PARENTS).unwrap();
        let new = resolved.open(OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL, 0o600).unwrap();
        let (_, temporary) = resolved.temporary(0o600).unwrap();
        // With holes.
        for file in [new, temporary] {
            file.write_all_at(b"x", LARGE).unwrap();
            assert_eq!(file.metadata().unwrap().len(), LARGE + 1);
        }
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
        // A harmless setting of this process; no temporary file can be created in /proc.
        let sys = System::new("/");
        let path = format!("/proc/{}/coredump_filter", std::process::id());
        assert_eq!(sys.write(&path, "0x31", WriteOptions::default()).unwrap(), Change::Replaced);
        assert_eq!(sys.read_text(&path).unwrap(), "00000031\n");
        assert!(sys.write("/proc/version", "x", WriteOptions::default()).is_err());
    }
}
