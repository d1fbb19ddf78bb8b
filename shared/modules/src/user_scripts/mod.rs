//! The scripts of users and vendors: how they are written and run, and the requests of their exit codes.

use state::Layout;
use system::Result;

use crate::Context;

pub mod exit_codes;
pub mod run_parts;
pub mod shell;

/// The scripts that a module runs.
#[derive(Debug, Clone, Copy)]
pub struct ScriptDirectory {
    /// Returns their directory.
    pub path: fn(&Layout) -> String,
    /// Returns the command that gets the path of each script; an empty one runs the script itself.
    pub prefix: fn(&Context<'_>) -> Result<Vec<String>>,
}

impl ScriptDirectory {
    /// Returns the scripts of a directory, which run without a prefix.
    pub const fn new(path: fn(&Layout) -> String) -> ScriptDirectory {
        ScriptDirectory { path, prefix: |_| Ok(Vec::new()) }
    }
}

/// A script that one module writes and another one runs.
#[derive(Debug, Clone, Copy)]
pub struct WrittenScript {
    /// Returns its path.
    pub path: fn(&Layout) -> String,
    /// The module that runs it.
    pub run_by: &'static str,
}
