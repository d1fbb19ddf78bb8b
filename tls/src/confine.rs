//! What this program gives up before it reads its first byte: privileges, ways to more of them, and files.

use nix::errno::Errno;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Uid, geteuid, getuid, setgid, setgroups, setuid};

use crate::error::TlsError;

/// nobody and nogroup, by number: the machine's tables are not read.
const NOBODY: u32 = 65534;
/// Eight times what a large list of authorities and a connection take.
const MAX_MEMORY: u64 = 256 << 20;

/// Gives up what can be given up. An error if privileges would be left: then nothing may be read.
pub fn confine() -> Result<(), TlsError> {
    nix::sys::prctl::set_no_new_privs().map_err(|e| not_dropped("no_new_privs", e))?;
    if geteuid().is_root() {
        drop_root()?;
    }
    // The rest is worth having, and no privilege: it may fail where a sandbox forbids it.
    // Nobody else of that name may look into this process, and it leaves no image of its memory.
    let _ = nix::sys::prctl::set_dumpable(false);
    // It needs the descriptors that it has and their copies.
    for (what, most) in [
        (Resource::RLIMIT_NOFILE, 16),
        (Resource::RLIMIT_FSIZE, 0),
        (Resource::RLIMIT_NPROC, 0),
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_AS, MAX_MEMORY),
    ] {
        let _ = setrlimit(what, most, most);
    }
    Ok(())
}

fn drop_root() -> Result<(), TlsError> {
    let groups = setgroups(&[]);
    let group = setgid(Gid::from_raw(NOBODY));
    let user = setuid(Uid::from_raw(NOBODY));
    if (group, user) == (Err(Errno::EINVAL), Err(Errno::EINVAL)) {
        // A user namespace that has no such user: its root is somebody without privileges outside of it.
        return Ok(());
    }
    groups.map_err(|e| not_dropped("setgroups", e))?;
    group.map_err(|e| not_dropped("setgid", e))?;
    user.map_err(|e| not_dropped("setuid", e))?;
    if getuid().is_root() || geteuid().is_root() {
        return Err(not_dropped("setuid", Errno::EPERM));
    }
    Ok(())
}

/// Another try would not change it.
fn not_dropped(what: &str, e: Errno) -> TlsError {
    TlsError::untrusted(format!(
        "cloud-init-tls: cannot drop privileges ({what}: {}); refusing to connect",
        e.desc()
    ))
}
