//! A directory of a test's own: empty when it is made, gone when the test has ended, whichever way it ends. Tests of
//! all crates make their machines in one. Only a development dependency: no program contains it.

// Helpers of tests fail by panicking.
#![allow(clippy::panic)]

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The directory, which is removed with the value. It is used as the path that it is.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// A new one below the system's directory for temporary files, named by process and number: tests run side by side.
    pub fn new() -> TempDir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("firstlight-{}-{number}", std::process::id()));
        // Of a test that was killed, whose process had the same number.
        let _ = std::fs::remove_dir_all(&path);
        if let Err(e) = std::fs::create_dir(&path) {
            panic!("making {}: {e}", path.display());
        }
        TempDir(path)
    }

    /// Writes a file below it, directories included.
    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.0.join(path.trim_start_matches('/'));
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(e) = written.and_then(|()| std::fs::write(&path, content)) {
            panic!("writing {}: {e}", path.display());
        }
    }
}

impl Default for TempDir {
    fn default() -> TempDir {
        TempDir::new()
    }
}

impl Deref for TempDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for TempDir {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl From<&TempDir> for PathBuf {
    fn from(dir: &TempDir) -> PathBuf {
        dir.0.clone()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_removes_the_directory() {
        let (one, other) = (TempDir::new(), TempDir::new());
        one.put("/a/b", "x");
        assert_eq!(std::fs::read(one.join("a/b")).unwrap(), b"x");
        assert!(!other.join("a").exists());
        let path = PathBuf::from(&one);
        drop(one);
        assert!(!path.exists() && other.exists());
    }
}
