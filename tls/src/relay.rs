//! Passing on what goes through, both ways at once: neither side waits for the other, and at most some pages wait
//! in between.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustls::ClientConnection;

use crate::error::{TlsError, from_rustls};

/// Bytes from the server that the plain side has not taken yet.
const MAX_PENDING: usize = 256 << 10;

/// Until the server has said that it is done, or the plain side is gone.
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
    /// It said so.
    Closed,
    /// The connection was cut: what came may not be all.
    Truncated,
}

struct Relay {
    connection: ClientConnection,
    plain: File,
    wire: File,
    pending: Vec<u8>,
    end: Option<End>,
    /// The server takes nothing more.
    write_closed: bool,
    name: String,
    buffer: Vec<u8>,
}

impl Relay {
    /// Waits for something to do, and does it. False when all is done.
    fn poll_once(&mut self) -> Result<bool, TlsError> {
        if self.pending.is_empty()
            && let Some(end) = self.end
        {
            return match end {
                End::Closed => Ok(false),
                End::Truncated if self.connection.is_handshaking() => {
                    Err(TlsError::new("the server ended the connection before it was secure"))
                }
                End::Truncated => {
                    Err(TlsError::new("the connection was cut before the server said that all was sent"))
                }
            };
        }
        let (plain, wire) = self.wait()?;
        // A plain side that is gone wants nothing more.
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

    /// Not while much of it waits to go out, and not before anybody is known to be there.
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
        // poll(2) tells of a hang-up whether it was asked or not; a wire of which all is known is left out.
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

    /// False at the plain side's end.
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
            // The server may be told why.
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
                // Nothing more for now, or the cut, which is noted already.
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
                // It takes nothing more, but what it answered before may still be there to read.
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
                Err(_) => return Err(TlsError::new("nobody wants the answer any more")),
            }
        }
        self.pending.drain(..sent);
        Ok(())
    }

    /// Tells the server, if it takes that at once.
    fn close(&mut self) {
        self.connection.send_close_notify();
        self.write_wire();
    }
}

fn is_retryable(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
