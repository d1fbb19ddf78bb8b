//! A directory laid over a root, which takes every change: a plan's stages do all their work there, each sees what the
//! ones before it did, and the machine stays as it is.
//!
//! ```text
//! SCRATCH/files/…   what was written, at its path
//! SCRATCH/gone      what was removed: one path a line
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
pub(crate) struct Scratch {
    top: PathBuf,
    /// Hidden below the root, with all that is in them.
    gone: RefCell<BTreeSet<PathBuf>>,
}

impl Scratch {
    pub fn new(top: &Path) -> Scratch {
        let list = fs::read(top.join("gone")).unwrap_or_default();
        let paths = list.split(|b| *b == 0).filter(|p| !p.is_empty());
        let gone = paths.map(|p| PathBuf::from(OsStr::from_bytes(p))).collect();
        Scratch { top: top.to_path_buf(), gone: RefCell::new(gone) }
    }

    fn file(&self, inside: &Path) -> PathBuf {
        self.top.join("files").join(inside)
    }

    pub fn is_gone(&self, inside: &Path) -> bool {
        let gone = self.gone.borrow();
        !gone.is_empty() && inside.ancestors().any(|a| gone.contains(a))
    }

    /// Where a changed path is; `None` for one that is as it was.
    pub fn locate(&self, inside: &Path) -> Option<PathBuf> {
        let changed = self.file(inside);
        (changed.symlink_metadata().is_ok() || self.is_gone(inside)).then_some(changed)
    }

    fn hide(&self, inside: &Path) -> io::Result<()> {
        if !self.gone.borrow_mut().insert(inside.to_path_buf()) {
            return Ok(());
        }
        let mut list =
            fs::OpenOptions::new().append(true).create(true).mode(0o600).open(self.top.join("gone"))?;
        list.write_all(&[inside.as_os_str().as_bytes(), b"\0"].concat())
    }
}

/// Paths for whoever changes something. Without a scratch directory they are the root's own.
impl Root {
    /// Where something new is put at `path` (a last link is not followed).
    pub(crate) fn place(&self, path: &Path) -> io::Result<PathBuf> {
        let Some(scratch) = self.scratch() else { return Ok(self.host(path)) };
        let place = scratch.file(&self.inside(path));
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(place)
    }

    /// As [`Root::place`], at the end of a last link.
    pub(crate) fn place_followed(&self, path: &Path) -> io::Result<PathBuf> {
        if self.scratch().is_none() {
            return Ok(self.host_followed(path));
        }
        self.place(&self.resolve(path))
    }

    /// Where what is at `path` may be changed in place: with a scratch directory a copy.
    pub(crate) fn copy(&self, path: &Path) -> io::Result<PathBuf> {
        let now = self.host_followed(path);
        let place = self.place_followed(path)?;
        if place != now {
            copy_tree(&now, &place)?;
        }
        Ok(place)
    }

    /// With a scratch directory: removes what is at `path`, which is there; links are not followed.
    pub(crate) fn unplace(&self, path: &Path) -> io::Result<()> {
        let Some(scratch) = self.scratch() else { return Err(io::ErrorKind::Unsupported.into()) };
        let inside = self.inside(path);
        let changed = scratch.file(&inside);
        if changed.symlink_metadata().is_ok() {
            remove(&changed)?;
        }
        scratch.hide(&inside)
    }

    /// The names in a directory.
    pub(crate) fn names(&self, path: &Path) -> io::Result<Vec<Vec<u8>>> {
        let names = |dir: &Path| {
            fs::read_dir(dir)?.map(|e| Ok(e?.file_name().into_vec())).collect::<io::Result<Vec<_>>>()
        };
        let Some(scratch) = self.scratch() else { return names(&self.host_followed(path)) };
        let inside = self.resolve(path);
        let below = names(&self.as_path().join(&inside)).map(|mut names| {
            names.retain(|n| !scratch.is_gone(&inside.join(OsStr::from_bytes(n))));
            names
        });
        let mut all = match (names(&scratch.file(&inside)), below) {
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
pub fn make_scratch(top: &Path) -> Result<()> {
    fs::DirBuilder::new().mode(0o700).create(top).doing(format_args!("making {}", top.display()))
}
