//! The location of this package's own programs.

use std::path::PathBuf;

/// The directories in which the programs are installed, in order of precedence. `packaging/install` links the first one to any
/// other LIBEXECDIR.
pub const DIRECTORIES: [&str; 2] = ["/usr/lib/cloud-init", "/usr/libexec/cloud-init"];

/// Returns the directories to look in, the first one with a file of that name counts: the one of the current program, those of the
/// same prefix (a command in `/opt/x/bin` starts stages below `/opt/x`), [`DIRECTORIES`].
pub fn directories() -> impl Iterator<Item = PathBuf> {
    let here = std::env::current_exe().ok().and_then(|p| Some(p.parent()?.to_path_buf()));
    // A build under test must not run the installed programs.
    let own = here
        .into_iter()
        .flat_map(|dir| ["", "../lib/cloud-init", "../libexec/cloud-init"].map(|way| dir.join(way)));
    own.chain(DIRECTORIES.map(PathBuf::from))
}

/// Returns the program of that name on the host, from the first of the [`directories`] that has it.
pub fn find(name: &str) -> Option<PathBuf> {
    directories().map(|dir| dir.join(name)).find(|p| p.is_file())
}
