//! Drops privileges and limits resources before the first byte is read.

use nix::errno::Errno;
use nix::sys::resource::{Resource, rlim_t, setrlimit};
use nix::unistd::{Gid, Uid, geteuid, getuid, setgid, setgroups, setuid};

use crate::error::TlsError;

/// ID of the user `nobody` and of the group `nogroup`, as a number because /etc/passwd is not read.
const NOBODY: u32 = 65534;
/// Bytes of address space: eight times what a large list of CAs and a connection take.
const MAX_MEMORY: rlim_t = 256 << 20;

/// Drops root, forbids new privileges, and sets resource limits.
///
/// # Errors
/// Fails if privileges would remain: then no byte may be read.
pub fn confine() -> Result<(), TlsError> {
    nix::sys::prctl::set_no_new_privs().map_err(|e| not_dropped("no_new_privs", e))?;
    if geteuid().is_root() {
        drop_root()?;
    }
    // A sandbox may forbid the following steps, so failures are ignored.
    // No other process of the same user may read this one's memory, and it leaves no core dump.
    let _ = nix::sys::prctl::set_dumpable(false);
    // No file is opened: the three descriptors and their copies are enough.
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
        // A user namespace without that user; its root has no privileges outside of it.
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

/// Returns the error of a privilege that was not dropped; another attempt would fail as well.
fn not_dropped(what: &str, e: Errno) -> TlsError {
    TlsError::untrusted(format!(
        "cloud-init-tls: cannot drop privileges ({what}: {}); refusing to connect",
        e.desc()
    ))
}
