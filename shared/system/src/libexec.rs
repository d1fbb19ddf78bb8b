//! Our own programs: where one of them finds another.

use std::path::PathBuf;

/// Where they are installed, the first that has them. A packager's LIBEXECDIR is compiled in.
pub const PLACES: [&str; 2] = ["/usr/lib/cloud-init", "/usr/libexec/cloud-init"];

/// The program beside this one, else the installed one.
pub fn find(name: &str) -> Option<PathBuf> {
    let libexec = option_env!("LIBEXECDIR").into_iter().chain(PLACES).map(PathBuf::from);
    let beside = std::env::current_exe().ok().and_then(|p| p.parent().map(Into::into));
    // Beside first: a build that is tried must not run the installed ones.
    beside.into_iter().chain(libexec).map(|dir| dir.join(name)).find(|p| p.is_file())
}
