//! Byte channels to the host of a virtual machine or container: a serial port, or a Unix socket. Exchanges of lines, each with
//! a time limit and a size limit.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt};
use nix::sys::termios::{self, ControlFlags, FlushArg, SetArg};
use nix::sys::time::{TimeVal, TimeValLike as _};

use crate::lock::lock_file;
use crate::packet::poll_fds;
use crate::{Deadline, Error, Result, ResultExt, System};

/// In bytes per second: half of what a line of 9600 baud carries. A slower response is ended.
const MIN_RATE: u64 = 512;
/// The limit of what [`Channel::discard_input`] reads.
const MAX_DISCARDED: usize = 1 << 20;

/// A serial port or a connected Unix socket that transports lines.
#[derive(Debug)]
pub struct Channel {
    fd: OwnedFd,
    /// Its path, for messages.
    name: String,
    /// The bytes after the last line that was read.
    received: Vec<u8>,
}

impl System {
    /// Opens a serial port in raw mode (9600 baud, 8 bits, no parity), without making it the controlling terminal. Bytes that
    /// were received earlier are discarded.
    ///
    /// # Errors
    /// Fails if the path cannot be opened, or is not a serial port that works: a port without hardware can be opened, but has
    /// no settings.
    pub fn open_serial_port(&self, path: &str) -> Result<Channel> {
        let what = format!("opening the serial port {path}");
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(self.root().host_followed(path))
            .context(&what)?;
        let fd = OwnedFd::from(file);
        set_raw(&fd).context(&what)?;
        Ok(Channel { fd, name: path.to_string(), received: Vec::new() })
    }

    /// Connects to a Unix stream socket, within this time.
    ///
    /// # Errors
    /// Fails if the path is not a socket, or if no program listens or accepts in time.
    pub fn connect_unix_socket(&self, path: &str, timeout: Duration) -> Result<Channel> {
        let what = format!("connecting to {path}");
        let fd = connect_unix(&self.root().host_followed(path), timeout).context(&what)?;
        let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL).context(&what)?);
        fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).context(&what)?;
        Ok(Channel { fd, name: path.to_string(), received: Vec::new() })
    }
}

/// Connects a blocking Unix stream socket. A listener whose queue is full is waited for.
pub(crate) fn connect_unix(path: &Path, timeout: Duration) -> io::Result<OwnedFd> {
    let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // 0 would mean no limit.
    let millis = i64::try_from(timeout.as_millis().max(1)).unwrap_or(i64::MAX);
    setsockopt(&fd, sockopt::SendTimeout, &TimeVal::milliseconds(millis.min(86_400_000)))?;
    match connect(fd.as_raw_fd(), &UnixAddr::new(path)?) {
        Ok(()) => Ok(fd),
        Err(Errno::EAGAIN) => Err(io::ErrorKind::TimedOut.into()),
        Err(e) => Err(e.into()),
    }
}

fn set_raw(fd: &OwnedFd) -> io::Result<()> {
    let mut settings = termios::tcgetattr(fd)?;
    termios::cfmakeraw(&mut settings);
    // The modem lines of a virtual port have no meaning.
    settings.control_flags |= ControlFlags::CLOCAL | ControlFlags::CREAD;
    settings.control_flags &= !(ControlFlags::CSTOPB | ControlFlags::CRTSCTS);
    // Not by cfsetspeed(3): the libc crate asks for it by a symbol version, which a static glibc does not have.
    settings.control_flags &= !ControlFlags::CBAUD;
    settings.control_flags |= ControlFlags::from_bits_retain(nix::libc::B9600);
    termios::tcsetattr(fd, SetArg::TCSANOW, &settings)?;
    termios::tcflush(fd, FlushArg::TCIFLUSH)?;
    Ok(())
}

impl Channel {
    /// Locks the port (fcntl(2)) against other programs that use it, until this is dropped.
    ///
    /// # Errors
    /// Fails if another process holds the lock until the deadline.
    pub fn lock(&self, deadline: Deadline) -> Result<()> {
        lock_file(&self.fd, deadline).context(format_args!("locking {}", self.name))
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// Fails if the other end does not take them in time, or has closed the channel.
    pub fn send(&mut self, mut bytes: &[u8], timeout: Duration) -> Result<()> {
        let deadline = Deadline::after(timeout);
        while !bytes.is_empty() {
            match nix::unistd::write(&self.fd, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if self.wait(true, deadline) => {}
                Err(Errno::EAGAIN) => return Err(self.timeout("request not accepted in time")),
                Err(e) => return Err(e).context(format_args!("writing to {}", self.name)),
            }
        }
        Ok(())
    }

    /// Returns the next line without its line feed. `timeout` is the longest silence; a line that takes longer has to come at
    /// 512 bytes per second, and be complete by the deadline.
    ///
    /// # Errors
    /// Fails if no complete line arrives in time ([`io::ErrorKind::TimedOut`]), if the line is longer than `limit`
    /// ([`Error::is_too_large`]), or if the channel is closed.
    pub fn read_line(&mut self, limit: usize, timeout: Duration, until: Deadline) -> Result<Vec<u8>> {
        let mut slowest = Deadline::after(timeout).earlier(until);
        let mut searched = 0;
        loop {
            if let Some(end) = self.received[searched..].iter().position(|b| *b == b'\n') {
                let mut line: Vec<u8> = self.received.drain(..=searched + end).collect();
                line.pop();
                return Ok(line);
            }
            searched = self.received.len();
            if searched > limit {
                self.received.clear();
                return Err(Error::too_large(format_args!("{}: response", self.name), None, limit as u64));
            }
            match self.receive(Deadline::after(timeout).earlier(slowest))? {
                Some(count) => slowest = slowest.later(time_of(count)).earlier(until),
                None if searched == 0 => return Err(self.timeout("no response in time")),
                None => {
                    let why = format!("response not complete in time ({searched} bytes received)");
                    return Err(self.timeout(&why));
                }
            }
        }
    }

    /// Discards received bytes until there were none for this time.
    ///
    /// # Errors
    /// Fails if the other end does not stop sending, or has closed the channel.
    pub fn discard_input(&mut self, silence: Duration) -> Result<()> {
        let mut discarded = std::mem::take(&mut self.received).len();
        while let Some(count) = self.receive(Deadline::after(silence))? {
            self.received.clear();
            discarded += count;
            if discarded > MAX_DISCARDED {
                let what = format!("{}: unexpected input", self.name);
                return Err(Error::too_large(what, None, MAX_DISCARDED as u64));
            }
        }
        Ok(())
    }

    /// Appends what arrives first to `received` and returns its length; `None` at the deadline.
    fn receive(&mut self, deadline: Deadline) -> Result<Option<usize>> {
        let what = format_args!("reading {}", self.name);
        let mut piece = [0; 4096];
        loop {
            match nix::unistd::read(&self.fd, &mut piece) {
                Ok(0) => {
                    let closed = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Err(Error::io(what, &closed));
                }
                Ok(count) => {
                    self.received.extend_from_slice(&piece[..count]);
                    return Ok(Some(count));
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if self.wait(false, deadline) => {}
                Err(Errno::EAGAIN) => return Ok(None),
                Err(e) => return Err(e).context(what),
            }
        }
    }

    /// Waits until the descriptor is readable, or writable; returns `false` at the deadline.
    fn wait(&self, to_write: bool, deadline: Deadline) -> bool {
        while !deadline.is_expired() {
            if poll_fds(&[(self.fd.as_fd(), to_write)], deadline) == [true] {
                return true;
            }
        }
        false
    }

    fn timeout(&self, why: &str) -> Error {
        Error::with_kind(io::ErrorKind::TimedOut, format!("{}: {why}", self.name))
    }
}

fn time_of(bytes: usize) -> Duration {
    Duration::from_micros(bytes as u64 * 1_000_000 / MIN_RATE)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;

    use nix::pty::openpty;
    use scratch::TempDir;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn line(channel: &mut Channel, limit: usize, millis: u64) -> String {
        let until = Deadline::after(SECOND * 5);
        match channel.read_line(limit, Duration::from_millis(millis), until) {
            Ok(line) => String::from_utf8_lossy(&line).into_owned(),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn socket_lines_have_a_limit_and_a_deadline() {
        let top = TempDir::new();
        let sys = System::new(&top);
        assert!(sys.connect_unix_socket("/s", SECOND).unwrap_err().is_not_found());
        let listener = UnixListener::bind(top.join("s")).unwrap();
        let mut channel = sys.connect_unix_socket("/s", SECOND).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"one\ntwo\nhalf").unwrap();
        assert_eq!(line(&mut channel, 9, 100), "one");
        assert_eq!(line(&mut channel, 9, 100), "two");
        assert_eq!(line(&mut channel, 9, 50), "/s: response not complete in time (4 bytes received)");
        peer.write_all(b"-and the rest").unwrap();
        assert_eq!(line(&mut channel, 9, 50), "/s: response: larger than 9 bytes");
        assert_eq!(line(&mut channel, 9, 50), "/s: no response in time");
        peer.write_all(b"noise").unwrap();
        channel.discard_input(Duration::from_millis(50)).unwrap();
        channel.send(b"hello", SECOND).unwrap();
        let mut heard = [0; 5];
        peer.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
        // More than the socket's buffers hold.
        let e = channel.send(&vec![0; 4 << 20], Duration::ZERO);
        assert!(e.is_ok() || e.is_err_and(|e| e.kind() == Some(io::ErrorKind::TimedOut)));
        drop(peer);
        assert!(line(&mut channel, 9, 50).starts_with("reading /s: "));
    }

    #[test]
    fn serial_port_is_raw_and_without_echo() {
        let top = TempDir::new();
        let sys = System::new(&top);
        let pair = openpty(None, None).unwrap();
        let name = nix::unistd::ttyname(&pair.slave).unwrap();
        let sys = System::new("/").with_libexec_dir(sys.root().as_path());
        let mut port = sys.open_serial_port(name.to_str().unwrap()).unwrap();
        port.lock(Deadline::after(SECOND)).unwrap();
        let mut host = std::fs::File::from(pair.master);
        // Nothing is echoed, and no byte is special.
        host.write_all(b"a\r\x03\x04\x7f\nb\n").unwrap();
        assert_eq!(line(&mut port, 99, 500), "a\r\x03\x04\x7f");
        assert_eq!(line(&mut port, 99, 500), "b");
        port.send(b"x\n", SECOND).unwrap();
        let mut heard = [0; 9];
        let count = host.read(&mut heard).unwrap();
        assert_eq!(&heard[..count], b"x\n");
        drop((host, pair.slave));
        assert!(line(&mut port, 99, 50).starts_with("reading /dev/pts/"));
        assert!(sys.open_serial_port("/dev/null").is_err());
        assert!(sys.open_serial_port("/dev/none").unwrap_err().is_not_found());
    }
}
