//! The ways to bring interfaces up through a network service. Each renderer that has a service declares an
//! [`Activator`] in its own file.

use system::{Command, System, debug};

/// The way to bring interfaces up through a network service.
pub struct Activator {
    /// The name of upstream's class, for the log.
    pub class: &'static str,
    /// Brings the named interfaces up and returns a message for each failure.
    pub bring_up: fn(&System, &[String]) -> Vec<String>,
}

/// The treatment by [`run_program`] of text that a successful program prints on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stderr {
    /// Reported as a failure.
    Report,
    /// Logged as a debug message.
    Log,
}

/// Runs a program and returns a message for each failure. Output on standard error counts as a failure even if the
/// program succeeds, unless `stderr` says otherwise.
pub fn run_program(sys: &System, argv: &[&str], stderr: Stderr) -> Vec<String> {
    match sys.run(&Command::new(argv.iter().copied())) {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).trim().to_string();
            if text.is_empty() {
                return Vec::new();
            }
            let message = format!("{}: {text}", argv.join(" "));
            if stderr == Stderr::Log {
                debug!(sys, "{message}");
                return Vec::new();
            }
            vec![message]
        }
        Err(e) => vec![e.to_string()],
    }
}
