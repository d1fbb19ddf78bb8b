//! Names in directories: symbolic links, renaming and removal.

use std::fs;
use std::io;
use std::path::Path;

use crate::path::{DEFAULT_PARENTS, TrailingLink, is_directory, is_link};
use crate::{Change, Effect, Error, Result, ResultExt, System};

impl System {
    /// Creates a symbolic link. A file or link of that name is replaced atomically.
    ///
    /// # Errors
    /// Fails if the link cannot be created, or if a directory has the name.
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

    /// Removes a file or a link. Returns `false` if it does not exist.
    ///
    /// # Errors
    /// Fails if it is a directory or cannot be removed.
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<bool> {
        self.remove_what(path.as_ref(), false)
    }

    /// Removes the temporary files and links that interrupted writes of earlier processes left in a directory and, down to
    /// `depth`, below it. Files that may be something else are kept. Returns the number of removed ones.
    ///
    /// # Errors
    /// Fails if the directory cannot be read, or has more than 50,000 candidates.
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

    /// Removes a file, a link, or a directory with its content, without following links. Returns `false` if it does not
    /// exist.
    ///
    /// # Errors
    /// Fails if something cannot be removed. A part of the directory may be gone then.
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

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Fails if it is not empty, does not exist, or cannot be removed.
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

    /// Renames a file within its file system. A file of the new name is replaced; links are not followed.
    ///
    /// # Errors
    /// Fails if the file does not exist or cannot be renamed.
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
}
