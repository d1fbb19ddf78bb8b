//! Shared by the tests of commands: a machine below a temporary directory, and running the program on it.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]
#![allow(dead_code, reason = "each test has a part of it")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use scratch::TempDir;

/// Exit code, standard output, standard error.
pub type CommandResult = (i32, String, String);

/// A user without privileges.
const UNPRIVILEGED: u32 = 65534;

/// Removed with the value.
pub struct Machine {
    pub root: TempDir,
}

impl Machine {
    pub fn new() -> Machine {
        Machine { root: TempDir::new() }
    }

    pub fn put(&self, path: &str, text: &str) {
        self.root.put(path, text);
    }

    pub fn exists(&self, path: &str) -> bool {
        self.root.join(path).symlink_metadata().is_ok()
    }

    /// Runs `cloud-init` on this machine with the words of a string.
    pub fn run(&self, words: &str) -> CommandResult {
        run_as("cloud-init", Some(&self.root), &split(words))
    }

    /// Runs `cloud-init` on this machine with words that may contain blanks.
    pub fn run_words(&self, words: &[&str]) -> CommandResult {
        run_as("cloud-init", Some(&self.root), words)
    }
}

pub fn split(words: &str) -> Vec<&str> {
    words.split_whitespace().collect()
}

/// Runs the program by another name, on the machine below `root`.
pub fn run_as(name: &str, root: Option<&Path>, words: &[&str]) -> CommandResult {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-init"));
    command.arg0(name).args(words).env("DEBUG_PROC_CMDLINE", "quiet");
    if let Some(root) = root {
        command.arg("--root").arg(root);
    }
    run_to_end(&mut command)
}

/// Runs `cloud-init` without root's rights on an empty machine, from a directory that every user may read.
pub fn run_unprivileged(words: &[&str]) -> CommandResult {
    let dir = TempDir::new();
    let program = dir.join("cloud-init");
    scratch::copy_program(env!("CARGO_BIN_EXE_cloud-init"), &program);
    fs::set_permissions(&*dir, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.args(words).arg("--root").arg(&*dir);
    if nix::unistd::geteuid().is_root() {
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    run_to_end(&mut command)
}

pub fn run_to_end(command: &mut Command) -> CommandResult {
    let done = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code().unwrap(), text(&done.stdout), text(&done.stderr))
}
