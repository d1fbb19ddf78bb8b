//! Truncating files, which works on a full disk too.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::{Result, ResultExt, System};

impl System {
    /// Truncates a regular file to `length` bytes, in place.
    ///
    /// # Errors
    /// Fails if the path is a link or does not exist, or if the file cannot be written.
    pub fn truncate_file(&self, path: impl AsRef<Path>, length: u64) -> Result<()> {
        let path = path.as_ref();
        let what = format!("truncating {}", path.display());
        let host = self.root().copy_up(path).context(&what)?;
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(host)
            .context(&what)?;
        file.set_len(length).context(what)
    }
}
