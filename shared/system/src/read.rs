//! Reading files and directories: always with a cap, and never waiting for a writer.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::file::is_temporary_name;
use crate::{Error, Result, ResultExt, System};

/// No configuration or state file is larger; what is, was not meant for us.
const READ_LIMIT: u64 = 64 << 20;

impl System {
    /// Whether there is anything, links followed; `false` where one may not look.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.root().host_followed(path).exists()
    }

    /// Whether it is a regular file, links followed.
    pub fn is_file(&self, path: impl AsRef<Path>) -> bool {
        self.root().host_followed(path).is_file()
    }

    /// Whether it is a directory, links followed.
    pub fn is_dir(&self, path: impl AsRef<Path>) -> bool {
        self.root().host_followed(path).is_dir()
    }

    /// Whether it is itself a symbolic link, wherever that leads.
    pub fn is_link(&self, path: impl AsRef<Path>) -> bool {
        self.root().host(path).is_symlink()
    }

    /// Whether it is the node of a block device, links followed.
    pub fn is_block_device(&self, path: impl AsRef<Path>) -> bool {
        fs::metadata(self.root().host_followed(path)).is_ok_and(|m| m.file_type().is_block_device())
    }

    /// What stat(2) says, links followed.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<fs::Metadata> {
        let path = path.as_ref();
        fs::metadata(self.root().host_followed(path)).context(format_args!("looking at {}", path.display()))
    }

    /// Where a symbolic link points, as written in it.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        let target = fs::read_link(self.root().host(path))
            .context(format_args!("reading the link {}", path.display()))?;
        Ok(target.to_string_lossy().into_owned())
    }

    /// A path with every link followed, as the machine sees it; `None` when there is nothing, or a link leads out of
    /// the root.
    pub fn real_path(&self, path: impl AsRef<Path>) -> Option<String> {
        if !self.root().is_plain() {
            let inside = self.root().resolve(path.as_ref());
            let real = Path::new("/").join(inside);
            return self.exists(&real).then(|| real.to_string_lossy().into_owned());
        }
        let real = fs::canonicalize(self.root().host_followed(path)).ok()?;
        Some(real.to_string_lossy().into_owned())
    }

    /// The whole content; an error beyond 64 MiB.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        self.read_at_most(path, READ_LIMIT)
    }

    /// The whole content; an error beyond `limit` bytes, and for anything but a regular file or a
    /// character device (a pipe would make us wait for its writer).
    pub fn read_at_most(&self, path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let (file, meta) = self.open_to_read(path)?;
        let too_large = |size| Error::too_large(format_args!("reading {}", path.display()), size, limit);
        // Told by its size alone, so that nothing of it is read; files of /proc and /sys have none.
        if meta.is_file() && meta.len() > limit {
            return Err(too_large(Some(meta.len())));
        }
        let mut bytes = Vec::with_capacity(meta.len().min(limit) as usize);
        file.take(limit + 1).read_to_end(&mut bytes).context(format_args!("reading {}", path.display()))?;
        if bytes.len() as u64 > limit {
            return Err(too_large(None));
        }
        Ok(bytes)
    }

    /// The first `limit` bytes, or all when there are fewer: for what is long but tells early. Errors as those of
    /// [`System::read_at_most`].
    pub fn read_head(&self, path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let (file, _) = self.open_to_read(path)?;
        let mut bytes = Vec::with_capacity(limit as usize);
        file.take(limit).read_to_end(&mut bytes).context(format_args!("reading {}", path.display()))?;
        Ok(bytes)
    }

    /// A regular file's content with what stat(2) says of it, both of the same file: a last link is not followed but an
    /// error, as is everything else that is no regular file. For what others may put in our way.
    pub fn read_no_follow(&self, path: impl AsRef<Path>, limit: u64) -> Result<(Vec<u8>, fs::Metadata)> {
        let path = path.as_ref();
        let what = format!("reading {}", path.display());
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY | libc::O_CLOEXEC)
            .open(self.root().host(path))
            .context(&what)?;
        let meta = file.metadata().context(&what)?;
        if !meta.is_file() {
            return Err(Error::new(format!("{what}: not a regular file")));
        }
        if meta.len() > limit {
            return Err(Error::too_large(&what, Some(meta.len()), limit));
        }
        let mut bytes = Vec::with_capacity(meta.len() as usize);
        // One that grows meanwhile is as long as it was.
        file.take(meta.len()).read_to_end(&mut bytes).context(&what)?;
        Ok((bytes, meta))
    }

    /// What waits in a FIFO, at most `limit` bytes, without waiting for more.
    pub fn drain_fifo(&self, path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let what = format!("reading {}", path.display());
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(self.root().host_followed(path))
            .context(&what)?;
        if !file.metadata().context(&what)?.file_type().is_fifo() {
            return Err(Error::new(format!("{what}: it is no FIFO")));
        }
        let mut bytes = Vec::new();
        match file.take(limit).read_to_end(&mut bytes) {
            // Somebody has it open to write, and has nothing to say now: what came before that is there.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(bytes),
            other => other.map(|_| bytes).context(&what),
        }
    }

    fn open_to_read(&self, path: &Path) -> Result<(fs::File, fs::Metadata)> {
        let what = || format!("reading {}", path.display());
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(self.root().host_followed(path))
            .context(what())?;
        let meta = file.metadata().context(what())?;
        if meta.is_dir() {
            return Err(Error::io(what(), &io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if meta.file_type().is_fifo() || meta.file_type().is_socket() {
            return Err(Error::new(format!("{}: not a regular file", what())));
        }
        Ok((file, meta))
    }

    /// The whole content as text; bytes that are not UTF-8 become U+FFFD.
    pub fn read_text(&self, path: impl AsRef<Path>) -> Result<String> {
        self.read(path).map(|bytes| match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(bad) => String::from_utf8_lossy(bad.as_bytes()).into_owned(),
        })
    }

    /// As [`System::read_text`]; `None` when there is no such file.
    pub fn read_text_if_exists(&self, path: impl AsRef<Path>) -> Result<Option<String>> {
        match self.read_text(path) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The names in a directory, sorted; none when it does not exist. What an interrupted write left is not
    /// listed: half a script must not be run, half a configuration not be read.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<String>> {
        let path = path.as_ref();
        let names = match self.root().names(path) {
            Ok(names) => names,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::io(format!("listing {}", path.display()), &e)),
        };
        let mut names: Vec<String> = names.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect();
        names.retain(|name| !is_temporary_name(name));
        names.sort();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use scratch::TempDir;

    use crate::{System, WriteOptions};

    #[test]
    fn too_large_and_not_a_file() {
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
    }
}
