//! Our own programs: where one of them finds another.

use std::path::PathBuf;

/// Where they are installed, the first that has them. `packaging/install` links the first to any other LIBEXECDIR.
pub const DIRECTORIES: [&str; 2] = ["/usr/lib/cloud-init", "/usr/libexec/cloud-init"];

/// The program beside this one, that of the same prefix (a command in `/opt/x/bin` starts stages below `/opt/x`),
/// else the installed one.
pub fn find(name: &str) -> Option<PathBuf> {
    let here = std::env::current_exe().ok().and_then(|p| Some(p.parent()?.to_path_buf()));
    // Beside first: a build that is tried must not run the installed ones.
    let own = here
        .iter()
        .flat_map(|dir| ["", "../lib/cloud-init", "../libexec/cloud-init"].map(|way| dir.join(way)));
    own.chain(DIRECTORIES.map(PathBuf::from)).map(|dir| dir.join(name)).find(|p| p.is_file())
}
