//! What this program gives up before it reads its first byte: privileges, ways to more of them, and files.

use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Uid, geteuid, setgid, setgroups, setuid};

/// nobody and nogroup, by number: the machine's tables are not read.
const NOBODY: u32 = 65534;
/// Eight times what a large list of authorities and a connection take.
const MOST_MEMORY: u64 = 256 << 20;

/// Each step is worth having without the others, so none is an error: in a namespace where root is nobody in
/// particular there may be no other user.
pub fn confine() {
    let _ = nix::sys::prctl::set_no_new_privs();
    if geteuid().is_root() {
        let _ = setgroups(&[]);
        let _ = setgid(Gid::from_raw(NOBODY));
        let _ = setuid(Uid::from_raw(NOBODY));
    }
    // Nobody else of that name may look into this process, and it leaves no image of its memory.
    let _ = nix::sys::prctl::set_dumpable(false);
    // It needs the descriptors that it has and their copies.
    for (what, most) in [
        (Resource::RLIMIT_NOFILE, 16),
        (Resource::RLIMIT_FSIZE, 0),
        (Resource::RLIMIT_NPROC, 0),
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_AS, MOST_MEMORY),
    ] {
        let _ = setrlimit(what, most, most);
    }
}
