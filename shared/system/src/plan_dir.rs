//! The overlay directory of a plan. Other users have no access to it, since secrets are written below it, and it is removed
//! with the process. Where mounts are permitted, it is a tmpfs in a mount namespace of this process and its children, so that
//! nothing remains however they exit. Elsewhere a killed process leaves the directory, and the next plan removes it.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, MsFlags};

use crate::overlay::create_overlay_dir;
use crate::{Result, ResultExt, System};

const PREFIX: &str = "cloud-init-plan.";
/// How often a directory is made.
const ATTEMPTS: usize = 5;

/// A directory that exists as long as this value.
#[derive(Debug)]
pub struct PlanDir {
    path: PathBuf,
    is_mounted: bool,
    /// Shows the next plan that this one is in use; the kernel releases it when the process exits.
    _lock: Flock<fs::File>,
}

impl PlanDir {
    /// Creates a directory in the system's directory for temporary files, and removes those of killed plans there.
    ///
    /// # Errors
    /// Fails if the directory cannot be created or locked.
    pub fn new(sys: &System) -> Result<PlanDir> {
        let top = std::env::temp_dir();
        remove_stale(&top);
        let at = || {
            // Process ids repeat in other namespaces that share the directory.
            let suffix = encoding::hex::encode(&sys.random_bytes(8)?);
            PlanDir::at(top.join(format!("{PREFIX}{suffix}")))
        };
        retried(at)
    }

    fn at(path: PathBuf) -> Result<PlanDir> {
        let what = format!("creating {}", path.display());
        create_overlay_dir(&path)?;
        let open_dir = || {
            let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
            fs::OpenOptions::new().read(true).custom_flags(flags).open(&path)
        };
        let lock = open_dir().and_then(|dir| {
            let lock = Flock::lock(dir, FlockArg::LockExclusive).map_err(|(_, e)| io::Error::from(e))?;
            // Another plan may have removed it in the meantime as stale, or another user may have replaced it.
            let (there, locked) = (path.symlink_metadata()?, lock.metadata()?);
            let is_ours = locked.uid() == nix::unistd::geteuid().as_raw();
            if is_ours && there.ino() == locked.ino() { Ok(lock) } else { Err(ErrorKind::NotFound.into()) }
        });
        let _lock = lock.context(what)?;
        let is_mounted = mount_tmpfs(&path).is_ok();
        Ok(PlanDir { path, is_mounted, _lock })
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes the directory again if another plan removes it before it is locked.
fn retried(mut make: impl FnMut() -> Result<PlanDir>) -> Result<PlanDir> {
    for _ in 1..ATTEMPTS {
        match make() {
            Err(e) if e.is_not_found() => {}
            result => return result,
        }
    }
    make()
}

impl Drop for PlanDir {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = nix::mount::umount2(&self.path, MntFlags::MNT_DETACH);
        }
        if let Err(e) = fs::remove_dir_all(&self.path) {
            eprintln!("error: removing {}: {e}: it may contain secrets", self.path.display());
        }
    }
}

/// Mounts a tmpfs on the directory in a new mount namespace, for this process and its future children. Requires privileges.
fn mount_tmpfs(path: &Path) -> nix::Result<()> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
    // Mounts of the machine propagate into the namespace, but not out of it.
    nix::mount::mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    nix::mount::mount(Some("tmpfs"), path, Some("tmpfs"), flags, Some("mode=0700"))
}

/// Removes the directories of this user's killed plans, as far as possible.
fn remove_stale(top: &Path) {
    let ours = nix::unistd::geteuid().as_raw();
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        let is_plan = entry.file_name().to_string_lossy().starts_with(PREFIX);
        // Any user can create such a name.
        let is_ours = || entry.metadata().is_ok_and(|m| m.is_dir() && m.uid() == ours);
        if is_plan && is_ours() {
            let dead = fs::File::open(entry.path())
                .is_ok_and(|dir| Flock::lock(dir, FlockArg::LockExclusiveNonblock).is_ok());
            if dead {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the namespace, which the tests' other threads would be left out of.
    fn without_tmpfs(path: &Path) -> PlanDir {
        create_overlay_dir(path).unwrap();
        let lock = Flock::lock(fs::File::open(path).unwrap(), FlockArg::LockExclusive).unwrap();
        PlanDir { path: path.to_path_buf(), is_mounted: false, _lock: lock }
    }

    #[test]
    fn a_directory_that_another_plan_removes_is_made_again() {
        let top = ::scratch::TempDir::new();
        let mut attempts = 0;
        let mut make = || {
            attempts += 1;
            let path = top.join(format!("{PREFIX}{attempts}"));
            if attempts < 3 {
                Err(io::Error::from(ErrorKind::NotFound)).context("x")
            } else {
                Ok(without_tmpfs(&path))
            }
        };
        assert!(retried(&mut make).unwrap().path().ends_with("cloud-init-plan.3"));
        let mut attempts = 0;
        let failed = retried(|| {
            attempts += 1;
            Err(io::Error::from(ErrorKind::PermissionDenied)).context("x")
        });
        assert!(failed.is_err() && attempts == 1);
    }

    #[test]
    fn directories_of_killed_plans_are_removed() {
        let top = ::scratch::TempDir::new();
        let living = without_tmpfs(&top.join(format!("{PREFIX}1")));
        let dead = top.join(format!("{PREFIX}2"));
        create_overlay_dir(&dead).unwrap();
        fs::write(dead.join("secret"), "s").unwrap();
        fs::write(top.join(format!("{PREFIX}3")), "a file").unwrap();
        fs::create_dir(top.join("another")).unwrap();
        std::os::unix::fs::symlink("another", top.join(format!("{PREFIX}4"))).unwrap();
        remove_stale(&top);
        let mut left: Vec<_> = fs::read_dir(&top).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["another", "cloud-init-plan.1", "cloud-init-plan.3", "cloud-init-plan.4"]);
        let path = living.path().to_path_buf();
        drop(living);
        assert!(!path.exists());
    }
}
