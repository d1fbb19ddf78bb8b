//! The root directory of the machine's files: `/` for this machine, another directory for an image or a sandbox.

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use crate::overlay::{self, Overlay};

/// The maximum number of links in a path; more are a loop, as for the kernel (path_resolution(7)).
pub(crate) const MAX_SYMLINKS: usize = 40;

/// The maximum length of a name in a directory, in bytes.
const NAME_MAX: usize = 255;

/// The results that path resolution keeps for the next path.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResolverCache {
    /// Whether openat2(2) is missing or forbidden.
    pub no_openat2: Cell<bool>,
    /// The last link that was followed and that no user can change, with its target: `/var/lib/cloud/instance`.
    pub link: RefCell<Option<(PathBuf, PathBuf)>>,
}

/// The directory to which a machine's absolute paths are relative. In a dry run an overlay directory on top of it takes
/// all changes.
#[derive(Debug, Clone)]
pub struct Root {
    top: PathBuf,
    overlay: Option<Overlay>,
    cache: ResolverCache,
}

impl Root {
    /// Returns the root at `root`, a path of the host. A relative path is made absolute.
    pub fn new(root: PathBuf) -> Root {
        // A relative root would move with the working directory of a later stage.
        Root {
            top: std::path::absolute(&root).unwrap_or(root),
            overlay: None,
            cache: ResolverCache::default(),
        }
    }

    /// Returns the root at `root` with an overlay: changes go to `overlay` and are seen as if they were made below `root`,
    /// which stays unchanged.
    pub fn with_overlay(root: PathBuf, overlay: &Path) -> Root {
        Root { overlay: Some(Overlay::new(overlay)), ..Root::new(root) }
    }

    /// Returns whether this is `/`, the root of the running machine.
    pub fn is_machine(&self) -> bool {
        self.top == Path::new("/")
    }

    /// Returns the directory on the host.
    pub fn as_path(&self) -> &Path {
        &self.top
    }

    pub(crate) fn cache(&self) -> &ResolverCache {
        &self.cache
    }

    pub(crate) fn overlay(&self) -> Option<&Overlay> {
        self.overlay.as_ref()
    }

    /// Returns the host's path of a machine's path. Below a root other than `/`, symbolic links are followed as the machine
    /// itself would follow them (an absolute target starts at the root, `..` stops there), so that an image's link never
    /// leads out of the image. A last component that is a link is not followed.
    pub fn host(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        if self.is_plain() {
            return Path::new("/").join(path);
        }
        self.locate(&self.resolve_parent(path))
    }

    /// Returns the same as [`Root::host`], but follows a last component that is a link.
    pub fn host_followed(&self, path: impl AsRef<Path>) -> PathBuf {
        if self.is_plain() {
            return Path::new("/").join(path);
        }
        self.locate(&self.resolve(path.as_ref()))
    }

    /// Returns the path below the root, with every link but a last one followed.
    pub(crate) fn resolve_parent(&self, path: &Path) -> PathBuf {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => self.resolve(parent).join(name),
            _ => PathBuf::new(),
        }
    }

    /// Returns whether paths can be left to the kernel: no other root, no overlay.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_machine() && self.overlay.is_none()
    }

    /// Returns the host's path of a path without links: in the overlay if it was changed, else below the root.
    fn locate(&self, inside: &Path) -> PathBuf {
        match &self.overlay {
            Some(overlay) => overlay.locate(inside).unwrap_or_else(|| self.top.join(inside)),
            None => self.top.join(inside),
        }
    }

    /// Returns the path below the root, with every link followed. Of a loop it is one that the kernel refuses: it would follow a link
    /// that remained from the host's root.
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        let mut todo: Vec<Vec<u8>> = components(path);
        todo.reverse();
        let mut inside = PathBuf::new();
        let mut links = 0;
        while let Some(name) = todo.pop() {
            let name: &Path = Path::new(OsStr::from_bytes(&name));
            if name == Path::new("..") {
                inside.pop();
                continue;
            }
            let next = inside.join(name);
            match fs::read_link(self.locate(&next)) {
                Ok(target) if links < MAX_SYMLINKS => {
                    links += 1;
                    if target.is_absolute() {
                        inside = PathBuf::new();
                    }
                    todo.extend(components(&target).into_iter().rev());
                }
                Ok(_) => return PathBuf::from("links-loop-".repeat(NAME_MAX / 8)),
                Err(_) => inside = next,
            }
        }
        inside
    }

    /// Returns the host's path at which something new is created for `path` (a last link is not followed). With an overlay
    /// it is there, and its parent directories are created.
    pub(crate) fn overlay_path(&self, path: &Path) -> io::Result<PathBuf> {
        let Some(overlay) = self.overlay() else { return Ok(self.host(path)) };
        let host = overlay.file(&self.resolve_parent(path));
        if let Some(parent) = host.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(host)
    }

    /// Returns the same as [`Root::overlay_path`], but follows a last link.
    pub(crate) fn overlay_path_followed(&self, path: &Path) -> io::Result<PathBuf> {
        if self.overlay().is_none() {
            return Ok(self.host_followed(path));
        }
        self.overlay_path(&self.resolve(path))
    }

    /// Returns the host's path at which the file `path` may be changed in place: with an overlay, that of a copy.
    pub(crate) fn copy_up(&self, path: &Path) -> io::Result<PathBuf> {
        let now = self.host_followed(path);
        let host = self.overlay_path_followed(path)?;
        if host != now {
            overlay::copy_tree(&now, &host)?;
        }
        Ok(host)
    }

    /// Removes the existing file or directory `path` from the overlay's view, without following links. Fails without an
    /// overlay.
    pub(crate) fn whiteout(&self, path: &Path) -> io::Result<()> {
        let Some(overlay) = self.overlay() else { return Err(io::ErrorKind::Unsupported.into()) };
        let inside = self.resolve_parent(path);
        let changed = overlay.file(&inside);
        if changed.symlink_metadata().is_ok() {
            overlay::remove(&changed)?;
        }
        overlay.hide(&inside)
    }

    /// Returns the names in a directory.
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
        sort::sort(&mut all);
        all.dedup();
        Ok(all)
    }
}

/// Returns the components of a path that count: names and `..`.
pub(crate) fn components(path: &Path) -> Vec<Vec<u8>> {
    path.components()
        .filter_map(|c| match c {
            Component::Normal(name) => Some(name.as_bytes().to_vec()),
            Component::ParentDir => Some(b"..".to_vec()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::TempDir;

    #[test]
    fn links_do_not_leave_the_root() {
        let top = TempDir::new();
        fs::create_dir_all(top.join("usr/lib")).unwrap();
        std::os::unix::fs::symlink("/usr/lib", top.join("lib")).unwrap();
        std::os::unix::fs::symlink("../../../../etc/passwd", top.join("usr/up")).unwrap();
        std::os::unix::fs::symlink("loop", top.join("loop")).unwrap();
        let root = Root::new((&top).into());
        assert_eq!(root.host("/lib/x"), top.join("usr/lib/x"));
        assert_eq!(root.host_followed("/usr/up"), top.join("etc/passwd"));
        assert_eq!(root.host("/lib"), top.join("lib"));
        assert_eq!(root.host("/../../x"), top.join("x"));
        for path in ["/loop", "/loop/y"] {
            let e = fs::metadata(root.host_followed(path)).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::InvalidFilename, "{path}: {e}");
        }
    }

    /// The kernel would follow a link that was left in the path from the root of the host.
    #[test]
    fn loops_do_not_lead_to_the_host() {
        let top = TempDir::new();
        fs::create_dir_all(top.join("etc")).unwrap();
        for target in ["/etc/hostname", "../../../../../../../../../../../../etc/hostname"] {
            let _ = fs::remove_file(top.join("etc/hostname"));
            std::os::unix::fs::symlink(target, top.join("etc/hostname")).unwrap();
            let sys = crate::System::new(&top);
            assert!(sys.read("/etc/hostname").is_err() && !sys.exists("/etc/hostname"), "{target}");
        }
    }
}
