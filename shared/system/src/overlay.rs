//! A directory laid over a root, which takes every change: a plan's stages do all their work there, each sees what the
//! ones before it did, and the machine stays as it is.
//!
//! ```text
//! OVERLAY/files/…   what was written, at its path
//! OVERLAY/gone      what was removed: one path a line
//! ```

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::{Result, ResultExt, Root};

#[derive(Debug, Clone)]
pub(crate) struct Overlay {
    top: PathBuf,
    /// Hidden below the root, with all that is in them.
    removed: RefCell<BTreeSet<PathBuf>>,
}

impl Overlay {
    pub fn new(top: &Path) -> Overlay {
        let list = fs::read(top.join("gone")).unwrap_or_default();
        let paths = list.split(|b| *b == 0).filter(|p| !p.is_empty());
        let removed = paths.map(|p| PathBuf::from(OsStr::from_bytes(p))).collect();
        Overlay { top: top.to_path_buf(), removed: RefCell::new(removed) }
    }

    fn file(&self, inside: &Path) -> PathBuf {
        self.top.join("files").join(inside)
    }

    pub fn is_removed(&self, inside: &Path) -> bool {
        let removed = self.removed.borrow();
        !removed.is_empty() && inside.ancestors().any(|a| removed.contains(a))
    }

    /// Where a changed path is; `None` for one that is as it was.
    pub fn locate(&self, inside: &Path) -> Option<PathBuf> {
        let changed = self.file(inside);
        (changed.symlink_metadata().is_ok() || self.is_removed(inside)).then_some(changed)
    }

    fn hide(&self, inside: &Path) -> io::Result<()> {
        if !self.removed.borrow_mut().insert(inside.to_path_buf()) {
            return Ok(());
        }
        let mut list =
            fs::OpenOptions::new().append(true).create(true).mode(0o600).open(self.top.join("gone"))?;
        list.write_all(&[inside.as_os_str().as_bytes(), b"\0"].concat())
    }
}

/// Paths for whoever changes something. Without an overlay they are the root's own.
impl Root {
    /// Where something new is put at `path` (a last link is not followed).
    pub(crate) fn overlay_path(&self, path: &Path) -> io::Result<PathBuf> {
        let Some(overlay) = self.overlay() else { return Ok(self.host(path)) };
        let host = overlay.file(&self.resolve_parent(path));
        if let Some(parent) = host.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(host)
    }

    /// As [`Root::overlay_path`], at the end of a last link.
    pub(crate) fn overlay_path_followed(&self, path: &Path) -> io::Result<PathBuf> {
        if self.overlay().is_none() {
            return Ok(self.host_followed(path));
        }
        self.overlay_path(&self.resolve(path))
    }

    /// Where what is at `path` may be changed in place: with an overlay a copy.
    pub(crate) fn copy_up(&self, path: &Path) -> io::Result<PathBuf> {
        let now = self.host_followed(path);
        let host = self.overlay_path_followed(path)?;
        if host != now {
            copy_tree(&now, &host)?;
        }
        Ok(host)
    }

    /// With an overlay: removes what is at `path`, which is there; links are not followed.
    pub(crate) fn whiteout(&self, path: &Path) -> io::Result<()> {
        let Some(overlay) = self.overlay() else { return Err(io::ErrorKind::Unsupported.into()) };
        let inside = self.resolve_parent(path);
        let changed = overlay.file(&inside);
        if changed.symlink_metadata().is_ok() {
            remove(&changed)?;
        }
        overlay.hide(&inside)
    }

    /// The names in a directory.
    pub(crate) fn names(&self, path: &Path) -> io::Result<Vec<Vec<u8>>> {
        let names = |dir: &Path| {
            fs::read_dir(dir)?.map(|e| Ok(e?.file_name().into_vec())).collect::<io::Result<Vec<_>>>()
        };
        let Some(overlay) = self.overlay() else { return names(&self.host_followed(path)) };
        let inside = self.resolve(path);
        let below = names(&self.as_path().join(&inside)).map(|mut names| {
            names.retain(|n| !overlay.is_removed(&inside.join(OsStr::from_bytes(n))));
            names
        });
        let mut all = match (names(&overlay.file(&inside)), below) {
            (Ok(changed), Ok(below)) => [changed, below].concat(),
            (Ok(names), Err(_)) | (Err(_), Ok(names)) => names,
            (Err(_), Err(e)) => return Err(e),
        };
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }
}

fn remove(host: &Path) -> io::Result<()> {
    if host.is_dir() && !host.is_symlink() { fs::remove_dir_all(host) } else { fs::remove_file(host) }
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
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

/// Room for a plan: a directory that nobody else may look into, since secrets are written below it.
pub fn create_overlay_dir(top: &Path) -> Result<()> {
    fs::DirBuilder::new().mode(0o700).create(top).context(format_args!("making {}", top.display()))
}
