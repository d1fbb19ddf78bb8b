//! TLS for the stages, as a program of its own, so that they stay small and what a server sends is taken apart
//! without privileges. `shared/system` starts it for an https URL:
//!
//! * standard input is the plain side, a socket. First comes the order (the server's name and the certificates that are
//!   trusted), then what is to be sent; what the server answers goes back the same way.
//! * standard output is the connection to the server.
//! * standard error gets one line if something went wrong; the exit code is 1 then, or 2 if the server is not to
//!   be trusted, which another try would not change.
//!
//! It opens no file, resolves no name, connects to nothing, and ends with whoever started it.

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
    let unusable = |e: std::io::Error| TlsError::new(format!("cloud-init-tls is not for hand use: {e}"));
    let mut plain = File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(unusable)?);
    let wire = File::from(std::io::stdout().as_fd().try_clone_to_owned().map_err(unusable)?);
    let request = request::read(&mut plain)?;
    let connection = trust::new_connection(&request)?;
    relay::relay(connection, request.name, plain, wire)
}
