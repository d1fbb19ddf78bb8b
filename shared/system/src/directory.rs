//! Creating directories.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::path::{NewDirectory, ResolvedPath};
use crate::{Effect, Result, ResultExt, System};

impl System {
    /// Creates a directory and its missing parents with `mode`. Existing directories are left unchanged.
    ///
    /// # Errors
    /// Fails if a directory cannot be created, or if a component is not a directory. New parents may remain.
    pub fn create_dir_all(&self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        self.create_dir_all_owned(path, mode, (None, None))
    }

    /// Does the same as [`System::create_dir_all`], and gives new directories to that user and group.
    ///
    /// # Errors
    /// As for [`System::create_dir_all`], and if the owner cannot be set.
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
        let what = format!("creating the directory {}", path.display());
        let made = if self.is_dry_run() {
            let made = self.missing_directories(path);
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

    /// Returns the number of directories that are missing for a path to be one.
    pub(crate) fn missing_directories(&self, path: &Path) -> usize {
        path.ancestors().take_while(|directory| !self.is_dir(directory)).count()
    }

    /// Records the last `made` directories of a path as new.
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

    /// Records the parent directories that were created for a file.
    pub(crate) fn record_parents(&self, path: &Path, resolved: &ResolvedPath) {
        if let Some(parent) = path.parent().filter(|_| resolved.made > 0) {
            self.record_directories(parent, resolved.made, 0o755, (None, None));
        }
    }
}
