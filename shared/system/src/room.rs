//! Room for a plan: a directory that nobody else may look into, since secrets are written below it, and that is gone with
//! the process. Where mounts are allowed, what is in it is in memory, in a mount namespace of this process and those that
//! it starts: whatever ends them, nothing is left. Elsewhere a kill leaves it, and the next plan removes it.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, MsFlags};

use crate::scratch::make_scratch;
use crate::{Result, ResultExt, System};

const NAME: &str = "cloud-init-plan.";

/// Lives as long as this value.
#[derive(Debug)]
pub struct Room {
    path: PathBuf,
    is_mounted: bool,
    /// Tells the next plan that this one lives; the kernel takes it away with the process.
    _lock: Flock<fs::File>,
}

impl Room {
    /// A new one in the directory for temporary files, where those of plans that were killed are removed.
    pub fn new(sys: &System) -> Result<Room> {
        let top = std::env::temp_dir();
        sweep(&top);
        // Process ids repeat in other namespaces that share the directory.
        let chance: String = sys.random_bytes(8)?.iter().map(|b| format!("{b:02x}")).collect();
        Room::at(top.join(format!("{NAME}{chance}")))
    }

    fn at(path: PathBuf) -> Result<Room> {
        let doing = format!("making {}", path.display());
        make_scratch(&path)?;
        let itself = || {
            let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
            fs::OpenOptions::new().read(true).custom_flags(flags).open(&path)
        };
        let lock = itself().and_then(|dir| {
            let lock = Flock::lock(dir, FlockArg::LockExclusive).map_err(|(_, e)| io::Error::from(e))?;
            // Another plan took it for a dead one's, in the instant before; or somebody put another in its place.
            let (there, locked) = (path.symlink_metadata()?, lock.metadata()?);
            let is_ours = locked.uid() == nix::unistd::geteuid().as_raw();
            if is_ours && there.ino() == locked.ino() { Ok(lock) } else { Err(ErrorKind::NotFound.into()) }
        });
        let _lock = lock.doing(doing)?;
        let is_mounted = cover(&path).is_ok();
        Ok(Room { path, is_mounted, _lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = nix::mount::umount2(&self.path, MntFlags::MNT_DETACH);
        }
        if let Err(e) = fs::remove_dir_all(&self.path) {
            eprintln!(
                "error: removing {}: {e}: it holds what the plan would write, secrets too",
                self.path.display()
            );
        }
    }
}

/// Memory in place of the directory, for this process and those that it will start. Takes privileges.
fn cover(path: &Path) -> nix::Result<()> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
    // What the machine mounts from now on is seen here; not the other way round.
    nix::mount::mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    nix::mount::mount(Some("tmpfs"), path, Some("tmpfs"), flags, Some("mode=0700"))
}

/// Removes what killed plans of this user left. What cannot be removed is the next one's to try.
fn sweep(top: &Path) {
    let ours = nix::unistd::geteuid().as_raw();
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        let is_plan = entry.file_name().to_string_lossy().starts_with(NAME);
        // Anybody may put a name of this kind there.
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
    fn uncovered(path: &Path) -> Room {
        make_scratch(path).unwrap();
        let lock = Flock::lock(fs::File::open(path).unwrap(), FlockArg::LockExclusive).unwrap();
        Room { path: path.to_path_buf(), is_mounted: false, _lock: lock }
    }

    #[test]
    fn what_a_dead_plan_left_goes_and_what_lives_stays() {
        let top = ::scratch::Scratch::new();
        let living = uncovered(&top.join(format!("{NAME}1")));
        let dead = top.join(format!("{NAME}2"));
        make_scratch(&dead).unwrap();
        fs::write(dead.join("secret"), "s").unwrap();
        fs::write(top.join(format!("{NAME}3")), "a file").unwrap();
        fs::create_dir(top.join("another")).unwrap();
        std::os::unix::fs::symlink("another", top.join(format!("{NAME}4"))).unwrap();
        sweep(&top);
        let mut left: Vec<_> = fs::read_dir(&top).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["another", "cloud-init-plan.1", "cloud-init-plan.3", "cloud-init-plan.4"]);
        let path = living.path().to_path_buf();
        drop(living);
        assert!(!path.exists());
    }
}
