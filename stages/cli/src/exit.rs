//! Exit codes of commands, and how they print errors.

use std::process::ExitCode;

/// Returns the exit code of a command; an error is printed behind `prefix`.
pub fn exit_code<E: std::fmt::Display>(prefix: &str, done: Result<(), E>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{prefix}{e}");
            ExitCode::FAILURE
        }
    }
}

/// Prints an error as upstream does.
pub fn fail(message: &str) -> ExitCode {
    match message.starts_with("Config file ") {
        true => eprintln!("Error: {message}"),
        false => eprintln!("Error:\n{message}"),
    }
    ExitCode::FAILURE
}
