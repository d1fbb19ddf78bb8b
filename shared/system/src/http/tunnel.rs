//! TLS in a separate process: `cloud-init-tls` gets a connected socket, the machine's trusted certificates and the name
//! to verify, and relays the data. It is started for https only, knows no URL and no file, and drops privileges first
//! (see `tls/`).

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use super::connect::Connection;
use crate::{Error, Result, System, debug, libexec};

pub const PROGRAM: &str = "cloud-init-tls";
/// The files in which distributions store all trusted certificates.
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/var/lib/ca-certificates/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Variables that name another file: for OpenSSL, for Python's requests, for curl.
const VARIABLES: [&str; 3] = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];
/// Ten times the size of Mozilla's list.
const MAX_BUNDLE: u64 = 4 << 20;
/// The client certificate and its key.
const CERTIFICATE: &str = "cert.pem";
const KEY: &str = "key.pem";
/// The end of the first line of a private key in PEM.
const KEY_LABEL: &[u8] = b"PRIVATE KEY-----";
const MAX_CLIENT_CERTIFICATE: u64 = 256 << 10;
/// The program's exit code for an untrusted certificate: a retry would not help.
const EXIT_NOT_TRUSTED: i32 = 2;
/// The size limit of the program's messages.
const MAX_STDERR: u64 = 1024;

/// The time for closing the session, in milliseconds.
const SHUTDOWN_TIMEOUT_MS: usize = 50;

/// The plain side of a TLS connection.
pub struct Tunnel {
    /// The Unix socket to the program. It is typed as TCP's: only reads, writes and their timeouts are used, which are the same.
    pub plain: Connection,
    program: Child,
    /// Why the program failed, once it did.
    ended: Option<Error>,
}

impl System {
    /// Starts TLS over a connection, to a server that must prove to be `host`.
    pub(super) fn open_tunnel(
        &self,
        connection: Connection,
        host: &str,
        client_certificates: &[String],
    ) -> Result<Tunnel> {
        let Some(program) =
            self.libexec_dir().map(|dir| dir.join(PROGRAM)).or_else(|| libexec::find(PROGRAM))
        else {
            let message = format!("https requires {PROGRAM}, which is not installed");
            return Err(Error::new(message).into_permanent());
        };
        let roots = self.trusted_certificates().map_err(Error::into_permanent)?;
        let identity = self.identity(client_certificates).map_err(Error::into_permanent)?;
        let limits = connection.limits;
        let start = || -> std::io::Result<Tunnel> {
            let (plain, other) = UnixStream::pair()?;
            let program = std::process::Command::new(&program)
                .env_clear()
                .current_dir("/")
                .stdin(OwnedFd::from(other))
                .stdout(OwnedFd::from(connection.stream))
                .stderr(Stdio::piped())
                .spawn()?;
            let plain = Connection { stream: TcpStream::from(OwnedFd::from(plain)), limits };
            Ok(Tunnel { plain, program, ended: None })
        };
        let mut tunnel = start().map_err(|e| Error::new(format!("starting {}: {e}", program.display())))?;
        let name = host.split('%').next().unwrap_or(host);
        let mut header = format!("name {name}\nroots {}\n", roots.len());
        let mut texts = vec![roots];
        if let Some((certificate, key)) = identity {
            header.push_str(&format!("certificate {}\nkey {}\n", certificate.len(), key.len()));
            texts.extend([certificate, key]);
        }
        header.push('\n');
        texts.insert(0, header.into_bytes());
        match tunnel.plain.write_all(&texts.concat()) {
            Ok(()) => Ok(tunnel),
            Err(e) => {
                tunnel.wait_for_exit();
                Err(tunnel.failure(Error::io(PROGRAM, &e)))
            }
        }
    }

    /// Returns the client certificate and key from the first directory that has them. One file may have both.
    fn identity(&self, directories: &[String]) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some(dir) = directories.iter().find(|dir| self.exists(format!("{dir}/{CERTIFICATE}"))) else {
            return Ok(None);
        };
        let read = |name: &str| self.read_at_most(format!("{dir}/{name}"), MAX_CLIENT_CERTIFICATE);
        let certificate = read(CERTIFICATE)?;
        let has_key = certificate.windows(KEY_LABEL.len()).any(|window| window == KEY_LABEL);
        // An error about the key names its own file, unless the key is in the other one.
        let key =
            if has_key && !self.exists(format!("{dir}/{KEY}")) { certificate.clone() } else { read(KEY)? };
        Ok(Some((certificate, key)))
    }

    /// Returns the certificates of CAs that this machine trusts, as PEM.
    fn trusted_certificates(&self) -> Result<Vec<u8>> {
        let named = VARIABLES.iter().find_map(|v| std::env::var(v).ok().filter(|path| !path.is_empty()));
        if let Some(path) = named.filter(|_| self.is_live()) {
            return self.read_at_most(&path, MAX_BUNDLE);
        }
        for path in BUNDLES {
            match self.read_at_most(path, MAX_BUNDLE) {
                Ok(bytes) if !bytes.is_empty() => {
                    debug!(self, "using CA certificates from {path}");
                    return Ok(bytes);
                }
                Ok(_) => {}
                Err(e) if e.is_not_found() => {}
                Err(e) => return Err(e),
            }
        }
        Err(Error::new(
            "no CA certificates found, such as /etc/ssl/certs/ca-certificates.crt (package ca-certificates)",
        ))
    }
}

impl Tunnel {
    /// Returns the error: the program's message if it has exited, else the `symptom` on this side.
    pub fn failure(&self, symptom: Error) -> Error {
        self.ended.clone().unwrap_or(symptom)
    }

    /// Waits for the program's exit, after it has closed the plain side. `None`: it succeeded.
    fn wait_for_exit(&mut self) -> Option<&Error> {
        if self.ended.is_none() {
            let code = loop {
                match self.program.try_wait() {
                    Ok(Some(status)) => break status.code(),
                    Ok(None) if !self.plain.limits.deadline().is_expired() => {
                        std::thread::sleep(Duration::from_millis(1))
                    }
                    _ => {
                        self.ended = Some(self.plain.limits.error());
                        return self.ended.as_ref();
                    }
                }
            };
            let mut words = String::new();
            if let Some(stderr) = self.program.stderr.take() {
                let _ = stderr.take(MAX_STDERR).read_to_string(&mut words);
            }
            let line: String =
                words.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
            self.ended = match code {
                Some(0) => None,
                Some(EXIT_NOT_TRUSTED) => Some(Error::new(line).into_permanent()),
                Some(_) if !line.is_empty() => Some(Error::new(line)),
                _ => Some(Error::new(format!("{PROGRAM} exited unexpectedly"))),
            };
        }
        self.ended.as_ref()
    }
}

impl Read for Tunnel {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.plain.read(buffer);
        let is_end = match &read {
            Ok(n) => *n == 0 && !buffer.is_empty(),
            // The program exited before it had read the whole request.
            Err(e) => e.kind() == ErrorKind::ConnectionReset,
        };
        if !is_end {
            return read;
        }
        // The end of the stream is the end of the response only if TLS confirms it.
        match self.wait_for_exit() {
            Some(failure) => Err(std::io::Error::other(failure.to_string())),
            None => Ok(0),
        }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        // Gives the program time to close the session; otherwise the server may see a truncated connection.
        let _ = self.plain.stream.shutdown(std::net::Shutdown::Both);
        for _ in 0..SHUTDOWN_TIMEOUT_MS {
            if !matches!(self.program.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
