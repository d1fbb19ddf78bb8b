//! Relays data between the plain side and the server, in both directions at once, with bounded buffers.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustls::ClientConnection;

use crate::error::{TlsError, from_rustls};

/// Bytes from the server that are not written to the plain side yet.
const MAX_PENDING: usize = 256 << 10;

/// Relays until the server has closed the TLS session, or the plain side has hung up.
///
/// # Errors
/// Fails on a TLS error, and if the connection ends before the server has closed the session.
pub fn relay(connection: ClientConnection, name: String, plain: File, wire: File) -> Result<(), TlsError> {
    for file in [&plain, &wire] {
        fcntl(file, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .map_err(|e| TlsError::new(format!("cloud-init-tls: {e}")))?;
    }
    let (pending, buffer) = (Vec::new(), vec![0; 16 << 10]);
    let mut relay = Relay { connection, plain, wire, pending, end: None, write_closed: false, name, buffer };
    while relay.poll_once()? {}
    Ok(())
}

/// How the server's side ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// With a close_notify alert.
    Closed,
    /// Without one: the data may be incomplete.
    Truncated,
}

struct Relay {
    connection: ClientConnection,
    plain: File,
    wire: File,
    pending: Vec<u8>,
    end: Option<End>,
    /// The server no longer accepts data.
    write_closed: bool,
    name: String,
    buffer: Vec<u8>,
}

impl Relay {
    /// Waits for an event and handles it. Returns false when the relay is done.
    fn poll_once(&mut self) -> Result<bool, TlsError> {
        if self.pending.is_empty()
            && let Some(end) = self.end
        {
            return match end {
                End::Closed => Ok(false),
                End::Truncated if self.connection.is_handshaking() => {
                    Err(TlsError::new("the server closed the connection during the handshake"))
                }
                End::Truncated => Err(TlsError::new(
                    "the connection was closed without close_notify; the data may be truncated",
                )),
            };
        }
        let (plain, wire) = self.wait()?;
        // The plain side has hung up.
        if plain.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
            self.close();
            return Ok(false);
        }
        if self.can_read_plain() && plain.contains(PollFlags::POLLIN) && !self.read_plain()? {
            self.close();
            return Ok(false);
        }
        if self.end.is_none() && wire.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR)
        {
            self.read_wire()?;
        }
        self.write_wire();
        self.write_plain()?;
        Ok(true)
    }

    /// Returns whether to read from the plain side: not during the handshake, and not while data waits to be sent.
    fn can_read_plain(&self) -> bool {
        !self.connection.is_handshaking() && !self.connection.wants_write() && self.end.is_none()
    }

    fn wait(&self) -> Result<(PollFlags, PollFlags), TlsError> {
        let flag = |wanted: bool, flag| if wanted { flag } else { PollFlags::empty() };
        let plain = flag(self.can_read_plain(), PollFlags::POLLIN)
            | flag(!self.pending.is_empty(), PollFlags::POLLOUT);
        let wire = flag(self.end.is_none() && self.pending.len() < MAX_PENDING, PollFlags::POLLIN)
            | flag(self.has_to_write() && self.end.is_none(), PollFlags::POLLOUT);
        let mut fds = [PollFd::new(self.plain.as_fd(), plain), PollFd::new(self.wire.as_fd(), wire)];
        // poll(2) always reports a hang-up; a connection that has ended is not polled any more.
        let watched = if wire.is_empty() { 1 } else { 2 };
        loop {
            match poll(&mut fds[..watched], PollTimeout::NONE) {
                Ok(_) => break,
                Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(TlsError::new(format!("cloud-init-tls: {e}"))),
            }
        }
        let seen = |fd: &PollFd<'_>| fd.revents().unwrap_or(PollFlags::empty());
        Ok((seen(&fds[0]), if watched == 2 { seen(&fds[1]) } else { PollFlags::empty() }))
    }

    /// Returns false at the end of the plain side.
    fn read_plain(&mut self) -> Result<bool, TlsError> {
        match self.plain.read(&mut self.buffer) {
            Ok(0) => Ok(false),
            Ok(n) => match self.connection.writer().write_all(&self.buffer[..n]) {
                Ok(()) => Ok(true),
                Err(e) => Err(TlsError::new(format!("TLS: {e}"))),
            },
            Err(e) if is_retryable(&e) => Ok(true),
            Err(_) => Ok(false),
        }
    }

    fn read_wire(&mut self) -> Result<(), TlsError> {
        match self.connection.read_tls(&mut self.wire) {
            Ok(0) => self.end = Some(End::Truncated),
            Ok(_) => {}
            Err(e) if is_retryable(&e) => return Ok(()),
            Err(_) => self.end = Some(End::Truncated),
        }
        if let Err(e) = self.connection.process_new_packets() {
            // Sends the alert that names the reason.
            self.write_wire();
            return Err(from_rustls(&e, &self.name));
        }
        loop {
            match self.connection.reader().read(&mut self.buffer) {
                Ok(0) => {
                    self.end = Some(End::Closed);
                    return Ok(());
                }
                Ok(n) => self.pending.extend_from_slice(&self.buffer[..n]),
                // No more data for now, or the truncation that is recorded above.
                Err(_) => return Ok(()),
            }
        }
    }

    fn has_to_write(&self) -> bool {
        self.connection.wants_write() && !self.write_closed
    }

    fn write_wire(&mut self) {
        while self.has_to_write() {
            match self.connection.write_tls(&mut self.wire) {
                Ok(_) => {}
                Err(e) if is_retryable(&e) => return,
                // It accepts no more data, but an earlier answer may still be there to read.
                Err(_) => self.write_closed = true,
            }
        }
    }

    fn write_plain(&mut self) -> Result<(), TlsError> {
        let mut sent = 0;
        while sent < self.pending.len() {
            match self.plain.write(&self.pending[sent..]) {
                Ok(n) => sent += n,
                Err(e) if is_retryable(&e) => break,
                Err(_) => return Err(TlsError::new("the client closed the connection")),
            }
        }
        self.pending.drain(..sent);
        Ok(())
    }

    /// Sends close_notify, if the server accepts it at once.
    fn close(&mut self) {
        self.connection.send_close_notify();
        self.write_wire();
    }
}

fn is_retryable(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
