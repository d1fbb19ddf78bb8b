//! A pseudo-terminal, for programs whose output to a terminal differs from that to a file.

use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio};

use nix::pty::openpty;

use crate::fail;

/// Runs a command whose standard output and standard error are a terminal. Returns its exit code and what it wrote, with the
/// line breaks as the program writes them.
pub fn on_terminal(mut command: Command) -> (Option<i32>, String) {
    let pty = openpty(None, None).unwrap_or_else(|e| fail(&format!("openpty: {e}")));
    let copy = pty.slave.try_clone().unwrap_or_else(|e| fail(&e.to_string()));
    command.stdin(Stdio::null()).stdout(pty.slave).stderr(copy);
    let mut child = command.spawn().unwrap_or_else(|e| fail(&format!("{command:?}: {e}")));
    // The terminal's other end is closed only after the command has let go of it.
    drop(command);
    let (mut terminal, mut written, mut buffer) = (File::from(pty.master), Vec::new(), [0; 4096]);
    // EIO is the end: no program has the terminal open.
    while let Ok(length @ 1..) = terminal.read(&mut buffer) {
        written.extend_from_slice(&buffer[..length]);
    }
    let status = child.wait().unwrap_or_else(|e| fail(&e.to_string()));
    (status.code(), String::from_utf8_lossy(&written).replace("\r\n", "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_a_terminal() {
        let mut command = Command::new("sh");
        command.args(["-c", "test -t 1 && test -t 2 && echo yes && echo more >&2; exit 3"]);
        assert_eq!(on_terminal(command), (Some(3), "yes\nmore\n".into()));
    }
}
