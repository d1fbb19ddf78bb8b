//! Reading files and directories: always with a size limit, and never waiting for a writer. Links are followed by the
//! methods that do not say otherwise.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

use crate::path::{TrailingLink, is_refused, is_temporary_name};
use crate::{Error, Result, ResultExt, System};

/// The size limit of [`System::read`], larger than any configuration or state file.
const READ_LIMIT: u64 = 64 << 20;

impl System {
    /// Returns whether the path exists; `false` if it cannot be looked up.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.root().host_followed(path).exists()
    }

    /// Returns whether the path is a regular file.
    pub fn is_file(&self, path: impl AsRef<Path>) -> bool {
        self.root().host_followed(path).is_file()
    }

    /// Returns whether the path is a directory.
    pub fn is_dir(&self, path: impl AsRef<Path>) -> bool {
        self.root().host_followed(path).is_dir()
    }

    /// Returns whether the path itself is a symbolic link, dangling or not.
    pub fn is_link(&self, path: impl AsRef<Path>) -> bool {
        self.root().host(path).is_symlink()
    }

    /// Returns whether the path is a block device.
    pub fn is_block_device(&self, path: impl AsRef<Path>) -> bool {
        fs::metadata(self.root().host_followed(path)).is_ok_and(|m| m.file_type().is_block_device())
    }

    /// Returns the metadata of a file (stat(2)).
    ///
    /// # Errors
    /// Fails if the file does not exist or cannot be looked up.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<fs::Metadata> {
        let path = path.as_ref();
        fs::metadata(self.root().host_followed(path)).context(format_args!("looking up {}", path.display()))
    }

    /// Returns the target of a symbolic link, as it is written in the link.
    ///
    /// # Errors
    /// Fails if the path does not exist or is not a link.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        let target = fs::read_link(self.root().host(path))
            .context(format_args!("reading the link {}", path.display()))?;
        Ok(target.to_string_lossy().into_owned())
    }

    /// Returns the path with every link followed, as the machine sees it; `None` if it does not exist.
    pub fn real_path(&self, path: impl AsRef<Path>) -> Option<String> {
        if !self.root().is_plain() {
            let inside = self.root().resolve(path.as_ref());
            let real = Path::new("/").join(inside);
            return self.exists(&real).then(|| real.to_string_lossy().into_owned());
        }
        let real = fs::canonicalize(self.root().host_followed(path)).ok()?;
        Some(real.to_string_lossy().into_owned())
    }

    /// Returns the content of a file of at most 64 MiB.
    ///
    /// # Errors
    /// As for [`System::read_at_most`].
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        self.read_at_most(path, READ_LIMIT)
    }

    /// Returns the content of a file of at most `limit` bytes.
    ///
    /// # Errors
    /// Fails if the file does not exist, is larger ([`Error::is_too_large`]), cannot be read, or is neither a regular file
    /// nor a device: a FIFO would have to be waited for.
    pub fn read_at_most(&self, path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let (file, meta) = self.open_to_read(path)?;
        let too_large = |size| Error::too_large(format_args!("reading {}", path.display()), size, limit);
        // Rejected by size, before anything is read; files of procfs and sysfs have no size.
        if meta.is_file() && meta.len() > limit {
            return Err(too_large(Some(meta.len())));
        }
        // A device has no size. Pages that are never written are not in memory, and a vector that grows is there twice.
        let size = if meta.is_file() { meta.len().min(limit) } else { limit + 1 };
        let mut bytes = Vec::new();
        _ = bytes.try_reserve_exact(size as usize);
        file.take(limit + 1).read_to_end(&mut bytes).context(format_args!("reading {}", path.display()))?;
        if bytes.len() as u64 > limit {
            return Err(too_large(None));
        }
        Ok(bytes)
    }

    /// Returns the first `limit` bytes of a file, or all if it is shorter.
    ///
    /// # Errors
    /// Fails as [`System::read_at_most`] does, but not for a larger file.
    pub fn read_head(&self, path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let (file, _) = self.open_to_read(path)?;
        let mut bytes = Vec::with_capacity(limit as usize);
        file.take(limit).read_to_end(&mut bytes).context(format_args!("reading {}", path.display()))?;
        Ok(bytes)
    }

    /// Returns the content of a regular file of at most `limit` bytes with its metadata, both of the same file. For paths
    /// that other users can change.
    ///
    /// # Errors
    /// Fails if the path is a link or anything else than a regular file, or if the file is larger or cannot be read.
    pub fn read_no_follow(&self, path: impl AsRef<Path>, limit: u64) -> Result<(Vec<u8>, fs::Metadata)> {
        let path = path.as_ref();
        let what = format!("reading {}", path.display());
        let file = open(&self.root().host(path), libc::O_NOFOLLOW | libc::O_NOCTTY).context(&what)?;
        read_regular(file, &what, limit)
    }

    /// Returns the bytes that are in a FIFO, at most `limit`, without waiting for more.
    ///
    /// # Errors
    /// Fails if the path is not a FIFO or cannot be read.
    pub fn drain_fifo(&self, path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let what = format!("reading {}", path.display());
        let file = open(&self.root().host_followed(path), 0).context(&what)?;
        if !file.metadata().context(&what)?.file_type().is_fifo() {
            return Err(Error::new(format!("{what}: not a FIFO")));
        }
        let mut bytes = Vec::new();
        match file.take(limit).read_to_end(&mut bytes) {
            // A writer has it open and has written nothing more; the bytes before that were read.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(bytes),
            other => other.map(|_| bytes).context(&what),
        }
    }

    fn open_to_read(&self, path: &Path) -> Result<(fs::File, fs::Metadata)> {
        let what = || format!("reading {}", path.display());
        let file = open(&self.root().host_followed(path), 0).context(what())?;
        let meta = file.metadata().context(what())?;
        if meta.is_dir() {
            return Err(Error::io(what(), &io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if meta.file_type().is_fifo() || meta.file_type().is_socket() {
            return Err(Error::new(format!("{}: not a regular file", what())));
        }
        Ok((file, meta))
    }

    /// Returns the content of a file of at most 64 MiB as text. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// As for [`System::read_at_most`].
    pub fn read_text(&self, path: impl AsRef<Path>) -> Result<String> {
        self.read(path).map(|bytes| match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(bad) => String::from_utf8_lossy(bad.as_bytes()).into_owned(),
        })
    }

    /// Returns the same as [`System::read_text`], or `None` if the file does not exist.
    ///
    /// # Errors
    /// As for [`System::read_at_most`], except for a missing file.
    pub fn read_text_if_exists(&self, path: impl AsRef<Path>) -> Result<Option<String>> {
        match self.read_text(path) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Returns the names in a directory, sorted; empty if it does not exist. Temporary files of interrupted writes are not
    /// listed, since an incomplete script must not run and an incomplete configuration must not be read.
    ///
    /// # Errors
    /// Fails if the path is not a directory or cannot be read.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<String>> {
        let path = path.as_ref();
        let names = match self.root().names(path) {
            Ok(names) => names,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::io(format!("listing {}", path.display()), &e)),
        };
        let names = names.iter().filter(|name| !is_temporary_name(name));
        let mut names: Vec<String> = names.map(|n| String::from_utf8_lossy(n).into_owned()).collect();
        sort::sort(&mut names);
        Ok(names)
    }

    /// Returns the content of a regular file of at most `limit` bytes, with its metadata; `None` if it does not exist. The
    /// path is resolved as for a change: a user's link is followed only to a target that the user owns.
    ///
    /// # Errors
    /// Fails if the file is larger, is not a regular file, cannot be read, or may have been hard-linked there by another
    /// user.
    pub fn read_to_change(
        &self,
        path: impl AsRef<Path>,
        limit: u64,
    ) -> Result<Option<(Vec<u8>, fs::Metadata)>> {
        let path = path.as_ref();
        let what = format!("reading {}", path.display());
        let opened = match self.root().find(path, TrailingLink::Follow, None) {
            Ok(resolved) if !self.is_dry_run() => resolved.open_for_change(OFlag::O_RDONLY),
            Err(e) if !self.is_dry_run() || is_refused(&e) => Err(e),
            _ => open(&self.root().host_followed(path), 0),
        };
        match opened {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => read_regular(opened.context(&what)?, &what, limit).map(Some),
        }
    }
}

/// Opens a file of the host for reading, without waiting for a writer.
fn open(host: &Path, flags: libc::c_int) -> io::Result<fs::File> {
    OpenOptions::new().read(true).custom_flags(flags | libc::O_NONBLOCK | libc::O_CLOEXEC).open(host)
}

/// Reads a regular file of at most `limit` bytes. A file that grows in the meantime is read up to its old length.
fn read_regular(file: fs::File, what: &str, limit: u64) -> Result<(Vec<u8>, fs::Metadata)> {
    let meta = file.metadata().context(what)?;
    if !meta.is_file() {
        return Err(Error::new(format!("{what}: not a regular file")));
    }
    if meta.len() > limit {
        return Err(Error::too_large(what, Some(meta.len()), limit));
    }
    let mut bytes = Vec::with_capacity(meta.len() as usize);
    file.take(meta.len()).read_to_end(&mut bytes).context(what)?;
    Ok((bytes, meta))
}

#[cfg(test)]
mod tests {
    use scratch::TempDir;

    use crate::{System, WriteOptions};

    #[test]
    fn oversized_and_special_files_are_not_read() {
        let top = TempDir::new();
        let sys = System::new(&top);
        sys.write("/x", "12345", WriteOptions::default()).unwrap();
        assert!(sys.read_at_most("/x", 4).is_err());
        assert_eq!(sys.read_at_most("/x", 5).unwrap(), b"12345");
        assert_eq!(sys.read_head("/x", 4).unwrap(), b"1234");
        assert_eq!(sys.read_head("/x", 9).unwrap(), b"12345");
        assert!(sys.read("/").is_err());
        assert_eq!(sys.read_no_follow("/x", 5).unwrap().0, b"12345");
        sys.link("x", "/y").unwrap();
        for (path, limit) in [("/x", 4), ("/y", 5), ("/", 5), ("/none", 5)] {
            assert!(sys.read_no_follow(path, limit).is_err(), "{path}");
        }
        assert!(sys.read("/none").unwrap_err().is_not_found());
        assert_eq!((sys.lock_holder("/none"), sys.lock_holder("/x")), (None, None));
    }
}
