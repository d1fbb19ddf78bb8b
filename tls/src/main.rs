//! TLS for the stages, in a program of its own: the stages stay small, and data from a server is parsed without
//! privileges. `shared/system` starts it for an https URL:
//!
//! * Standard input is a socket for the plain text. It carries the request first (the server's name and the trusted
//!   certificates, see `request.rs`), then the data to send; the server's data is written to it.
//! * Standard output is the connection to the server.
//! * Standard error gets one line on an error. The exit code is 1, or 2 if the server is not trusted, so that another attempt
//!   would fail as well.
//!
//! The program opens no file, resolves no name, makes no connection, and ends with the process that started it.

mod confine;
mod error;
mod relay;
mod request;
mod trust;

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::process::ExitCode;

use error::TlsError;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{}", error.text);
            ExitCode::from(error.code)
        }
    }
}

fn run() -> Result<(), TlsError> {
    confine::confine()?;
    let unusable =
        |e: std::io::Error| TlsError::new(format!("cloud-init-tls is an internal helper program: {e}"));
    let mut plain = File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(unusable)?);
    let wire = File::from(std::io::stdout().as_fd().try_clone_to_owned().map_err(unusable)?);
    let request = request::read(&mut plain)?;
    let connection = trust::new_connection(&request)?;
    relay::relay(connection, request.name, plain, wire)
}
