//! Helper programs, for the few facts that only they know (a hypervisor's guest tools, Windows below WSL). They are
//! looked up in PATH, run with a deadline, and not run again after a timeout.

use std::cell::RefCell;
use std::time::Duration;

use system::{Command, Deadline};

use crate::log::Log;
use crate::paths::{Env, Roots};

/// Directories that are appended to PATH: a manager may start generators with a short one.
const DEFAULT_PATH: [&str; 4] = ["/sbin", "/usr/sbin", "/bin", "/usr/bin"];

/// The result of a program that ran to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOutput {
    pub stdout: Vec<u8>,
    pub code: i32,
}

/// Runs helper programs until a common deadline.
pub struct Commands<'a> {
    roots: &'a Roots,
    env: &'a Env,
    log: &'a Log,
    deadline: Deadline,
    /// Programs that failed to run or timed out.
    unusable: RefCell<Vec<String>>,
    /// The unusable programs that were requested since [`Commands::take_failed`] was called.
    failed: RefCell<Vec<String>>,
}

impl<'a> Commands<'a> {
    pub fn new(roots: &'a Roots, env: &'a Env, log: &'a Log, deadline: Deadline) -> Commands<'a> {
        Commands { roots, env, log, deadline, unusable: RefCell::default(), failed: RefCell::default() }
    }

    /// Returns the path of a program; `None` if it is not installed.
    pub fn find(&self, name: &str) -> Option<String> {
        let path = search_path(self.env.get("PATH").map(String::as_str));
        let named = path.split(':').filter(|dir| dir.starts_with('/')).map(|dir| format!("{dir}/{name}"));
        named.into_iter().find_map(|candidate| self.roots.host().which(&candidate))
    }

    /// Returns the path of a program that describes the machine it runs on, as [`Commands::find`] does; `None` for an
    /// image in a directory.
    pub fn find_on_machine(&self, name: &str) -> Option<String> {
        let is_this_machine = self.roots.target.is_live() || self.env.contains_key("PATH_ROOT");
        is_this_machine.then(|| self.find(name)).flatten()
    }

    /// Runs a program by its path and returns its output, whatever its exit status. `None`: it could not be run or timed
    /// out.
    pub fn run(&self, argv: &[&str], timeout: Duration) -> Option<CommandOutput> {
        let program = argv.first()?.to_string();
        if self.unusable.borrow().contains(&program) {
            self.failed.borrow_mut().push(program);
            return None;
        }
        let timeout = timeout.min(self.deadline.remaining());
        self.log.line(2, format!("running {}", argv.join(" ")));
        let path = search_path(self.env.get("PATH").map(String::as_str));
        let command = Command::new(argv.iter().copied()).env("PATH", path).timeout(timeout).accept_all();
        match self.roots.host().run(&command) {
            Ok(output) => Some(CommandOutput { stdout: output.stdout, code: output.code }),
            Err(e) => {
                self.log.warning(e.to_string());
                self.unusable.borrow_mut().push(program.clone());
                self.failed.borrow_mut().push(program);
                None
            }
        }
    }

    /// Returns the programs that did not answer since the previous call, each once.
    pub fn take_failed(&self) -> Vec<String> {
        let mut failed = self.failed.take();
        sort::sort(&mut failed);
        failed.dedup();
        failed
    }
}

fn search_path(given: Option<&str>) -> String {
    let mut path: Vec<&str> = given.unwrap_or_default().split(':').filter(|dir| !dir.is_empty()).collect();
    for dir in DEFAULT_PATH {
        if !path.contains(&dir) {
            path.push(dir);
        }
    }
    path.join(":")
}

/// Returns whether a program printed a letter or digit: a value, not just line ends.
pub fn has_content(output: &[u8]) -> bool {
    output.iter().any(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    #[test]
    fn search_path_is_completed() {
        assert_eq!(super::search_path(None), "/sbin:/usr/sbin:/bin:/usr/bin");
        assert_eq!(super::search_path(Some("/bin::/x")), "/bin:/x:/sbin:/usr/sbin:/usr/bin");
    }
}
