//! Where the machine's files are: `/` for this machine, a folder for an image or a sandbox.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::overlay::Overlay;
use crate::resolved_path::ResolverCache;

/// Links followed before a path is given up as a loop, as the kernel does (path_resolution(7)).
pub(crate) const MAX_SYMLINKS: usize = 40;

/// The directory that a machine's absolute paths are below; for a plan with a overlay directory laid over it, which
/// takes every change.
#[derive(Debug, Clone)]
pub struct Root {
    top: PathBuf,
    overlay: Option<Overlay>,
    cache: ResolverCache,
}

impl Root {
    pub fn new(root: PathBuf) -> Root {
        // A relative root would move with the working directory of a later stage.
        Root {
            top: std::path::absolute(&root).unwrap_or(root),
            overlay: None,
            cache: ResolverCache::default(),
        }
    }

    /// Changes go to `overlay` and are seen as if they were below `root`, which stays as it is.
    pub fn with_overlay(root: PathBuf, overlay: &Path) -> Root {
        Root { overlay: Some(Overlay::new(overlay)), ..Root::new(root) }
    }

    /// Whether it is `/`: the running machine's own.
    pub fn is_machine(&self) -> bool {
        self.top == Path::new("/")
    }

    /// The directory on the host.
    pub fn as_path(&self) -> &Path {
        &self.top
    }

    pub(crate) fn cache(&self) -> &ResolverCache {
        &self.cache
    }

    pub(crate) fn overlay(&self) -> Option<&Overlay> {
        self.overlay.as_ref()
    }

    /// The host's path of a machine's path. Below a root of its own, symbolic links are followed as the
    /// machine itself would see them (an absolute target starts at the root, `..` stops there), so that an
    /// image's link never leads out of the image. The last component is left as it is, link or not.
    pub fn host(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        if self.is_plain() {
            return Path::new("/").join(path);
        }
        self.locate(&self.resolve_parent(path))
    }

    /// Like [`Root::host`], the last component followed too if it is a link.
    pub fn host_followed(&self, path: impl AsRef<Path>) -> PathBuf {
        if self.is_plain() {
            return Path::new("/").join(path);
        }
        self.locate(&self.resolve(path.as_ref()))
    }

    /// Below the root, with every link but a last one followed.
    pub(crate) fn resolve_parent(&self, path: &Path) -> PathBuf {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => self.resolve(parent).join(name),
            _ => PathBuf::new(),
        }
    }

    /// The kernel follows the links of the machine itself.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_machine() && self.overlay.is_none()
    }

    /// Where a path without links is: in the overlay directory if it was changed, else below the root.
    fn locate(&self, inside: &Path) -> PathBuf {
        match &self.overlay {
            Some(overlay) => overlay.locate(inside).unwrap_or_else(|| self.top.join(inside)),
            None => self.top.join(inside),
        }
    }

    /// Below the root, with every link followed.
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
            match std::fs::read_link(self.locate(&next)) {
                Ok(target) if links < MAX_SYMLINKS => {
                    links += 1;
                    if target.is_absolute() {
                        inside = PathBuf::new();
                    }
                    todo.extend(components(&target).into_iter().rev());
                }
                _ => inside = next,
            }
        }
        inside
    }
}

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
        std::fs::create_dir_all(top.join("usr/lib")).unwrap();
        std::os::unix::fs::symlink("/usr/lib", top.join("lib")).unwrap();
        std::os::unix::fs::symlink("../../../../etc/passwd", top.join("usr/up")).unwrap();
        std::os::unix::fs::symlink("loop", top.join("loop")).unwrap();
        let root = Root::new((&top).into());
        assert_eq!(root.host("/lib/x"), top.join("usr/lib/x"));
        assert_eq!(root.host_followed("/usr/up"), top.join("etc/passwd"));
        assert_eq!(root.host("/lib"), top.join("lib"));
        assert_eq!(root.host("/../../x"), top.join("x"));
        let _ = root.host_followed("/loop/y");
    }
}
