//! The overlay of a dry run: a directory on top of the root that takes all changes. The stages of a plan write to it, each
//! sees the changes of the previous ones, and the machine stays unchanged.
//!
//! ```text
//! OVERLAY/files/…   written files, at their paths
//! OVERLAY/gone      removed paths, each followed by a NUL byte
//! ```

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::{Result, ResultExt};

/// An overlay directory and the paths that were removed.
#[derive(Debug, Clone)]
pub(crate) struct Overlay {
    top: PathBuf,
    /// Removed paths in their order, which hide what is below the root, directories with their content.
    removed: RefCell<Vec<PathBuf>>,
}

impl Overlay {
    /// Opens the overlay below the directory `top`.
    pub fn new(top: &Path) -> Overlay {
        let list = fs::read(top.join("gone")).unwrap_or_default();
        let paths = list.split(|b| *b == 0).filter(|p| !p.is_empty());
        let mut removed: Vec<_> = paths.map(|p| PathBuf::from(OsStr::from_bytes(p))).collect();
        sort::sort(&mut removed);
        Overlay { top: top.to_path_buf(), removed: RefCell::new(removed) }
    }

    /// Returns the host's path of a path in the overlay, changed or not.
    pub fn file(&self, inside: &Path) -> PathBuf {
        self.top.join("files").join(inside)
    }

    /// Returns whether a path, or a directory above it, was removed.
    pub fn is_removed(&self, inside: &Path) -> bool {
        let removed = self.removed.borrow();
        !removed.is_empty() && inside.ancestors().any(|a| position(&removed, a).is_ok())
    }

    /// Returns the host's path of a changed path; `None` for an unchanged one.
    pub fn locate(&self, inside: &Path) -> Option<PathBuf> {
        let changed = self.file(inside);
        (changed.symlink_metadata().is_ok() || self.is_removed(inside)).then_some(changed)
    }

    /// Hides a path below the root from now on.
    pub fn hide(&self, inside: &Path) -> io::Result<()> {
        let mut removed = self.removed.borrow_mut();
        let Err(place) = position(&removed, inside) else { return Ok(()) };
        removed.insert(place, inside.to_path_buf());
        let mut list =
            fs::OpenOptions::new().append(true).create(true).mode(0o600).open(self.top.join("gone"))?;
        list.write_all(&[inside.as_os_str().as_bytes(), b"\0"].concat())
    }
}

fn position(removed: &[PathBuf], path: &Path) -> std::result::Result<usize, usize> {
    removed.binary_search_by(|known| known.as_path().cmp(path))
}

/// Removes a file, a link or a directory with its content.
pub(crate) fn remove(host: &Path) -> io::Result<()> {
    if host.is_dir() && !host.is_symlink() { fs::remove_dir_all(host) } else { fs::remove_file(host) }
}

/// Copies a file, a link or a directory with its content; other types are skipped.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    let meta = from.symlink_metadata()?;
    if meta.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    if meta.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy_tree(&from.join(&name), &to.join(&name))?;
        }
        return fs::set_permissions(to, fs::Permissions::from_mode(meta.permissions().mode() | 0o700));
    }
    if meta.is_file() {
        fs::copy(from, to)?;
    }
    Ok(())
}

/// Creates an overlay directory. Other users have no access to it, since secrets are written below it.
pub fn create_overlay_dir(top: &Path) -> Result<()> {
    fs::DirBuilder::new().mode(0o700).create(top).context(format_args!("creating {}", top.display()))
}
