//! Other programs, for the little that only they know (a hypervisor's guest tools, Windows behind WSL). Looked
//! for along PATH when needed, with a deadline each; one that hung is not asked again.

use std::cell::RefCell;
use std::time::Duration;

use system::Command;

use crate::facts::Facts;

/// Directories that PATH is completed with: a manager may start generators with a short one.
const DEFAULT_PATH: [&str; 4] = ["/sbin", "/usr/sbin", "/bin", "/usr/bin"];

/// What a program said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOutput {
    pub stdout: Vec<u8>,
    pub code: i32,
}

/// Programs that hung.
#[derive(Debug, Default)]
pub struct TimedOut(RefCell<Vec<String>>);

impl Facts<'_> {
    /// Where a program is, if it is there.
    pub fn find_program(&self, name: &str) -> Option<String> {
        let host = self.roots.host();
        let path = search_path(self.env.get("PATH").map(String::as_str));
        let named = path.split(':').filter(|dir| dir.starts_with('/')).map(|dir| format!("{dir}/{name}"));
        named.into_iter().find_map(|candidate| host.which(&candidate))
    }

    /// A program that says something of the machine that it runs on: not asked about an image in a folder.
    pub fn find_host_program(&self, name: &str) -> Option<String> {
        let is_ours = self.roots.target.is_live() || self.env.contains_key("PATH_ROOT");
        is_ours.then(|| self.find_program(name)).flatten()
    }

    /// Runs a program by its path; whatever its exit code is, its output counts. `None`: it could not be run,
    /// or took too long.
    pub fn run(&self, argv: &[&str], timeout: Duration) -> Option<CommandOutput> {
        let program = argv.first()?.to_string();
        if self.timed_out.0.borrow().contains(&program) {
            return None;
        }
        let timeout = timeout.min(self.deadline.remaining());
        self.log.line(2, format!("asking {}", argv.join(" ")));
        let path = search_path(self.env.get("PATH").map(String::as_str));
        let command = Command::new(argv.iter().copied()).env("PATH", path).timeout(timeout).accept_all();
        match self.roots.host().run(&command) {
            Ok(output) => Some(CommandOutput { stdout: output.stdout, code: output.code }),
            Err(e) => {
                self.log.warning(e.to_string());
                self.timed_out.0.borrow_mut().push(program);
                None
            }
        }
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

/// Whether there is a letter or digit in what a program said: an answer, not just line ends.
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
