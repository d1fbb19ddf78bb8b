//! The connection to the system log.

use std::io::{ErrorKind, Result};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::packet::poll_fds;
use crate::{Deadline, Root, System};

/// The socket of the log daemon.
const SOCKET: &str = "/dev/log";
/// The socket of systemd's journal.
const JOURNAL: &str = "/run/systemd/journal/socket";
/// How long the first line waits for a log daemon that does not read. Later lines do not wait.
// Wait: every stage | a log daemon that does not read | -
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// A connection that never blocks a boot: a line is lost if the daemon does not read, or is not there.
pub(crate) struct Syslog {
    root: Root,
    socket: UnixDatagram,
}

impl Syslog {
    /// Creates the socket, which is not connected yet.
    ///
    /// # Errors
    /// Fails if the process has no file descriptor left.
    pub fn new(root: Root) -> Result<Syslog> {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(TIME_LIMIT))?;
        Ok(Syslog { root, socket })
    }

    /// Connects to the log daemon. The path is resolved each time: before the daemon starts it may not be a link yet.
    ///
    /// # Errors
    /// Fails if no daemon listens.
    pub fn connect(&self) -> Result<()> {
        self.socket.connect(self.root.host_followed(SOCKET))
    }

    /// Sends one message. If no daemon was there until now, or it was restarted, this connects once before.
    ///
    /// # Errors
    /// Fails if the message is lost.
    pub fn send(&mut self, message: &[u8]) -> Result<()> {
        let error = match self.socket.send(message) {
            Ok(_) => return Ok(()),
            Err(e) => e,
        };
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                self.socket.set_nonblocking(true)?;
                Err(error)
            }
            ErrorKind::ConnectionRefused | ErrorKind::NotConnected | ErrorKind::ConnectionReset => {
                self.connect()?;
                self.socket.send(message).map(drop)
            }
            _ => Err(error),
        }
    }
}

impl System {
    /// Returns whether there is a log daemon that does not read: a program that sends it a line waits until it does.
    pub fn is_log_stuck(&self) -> bool {
        let Ok(socket) = UnixDatagram::unbound() else { return false };
        socket.connect(self.root().host_followed(SOCKET)).is_ok()
            && poll_fds(&[(socket.as_fd(), true)], Deadline::after(TIME_LIMIT)) == [false]
    }

    /// Sends an entry with these fields to systemd's journal, if it is there and reads; otherwise the entry is lost. Line breaks become
    /// blanks.
    pub fn send_to_journal(&self, fields: &[(&str, &str)]) {
        if self.is_dry_run() {
            return;
        }
        let entry: String =
            fields.iter().map(|(key, value)| format!("{key}={}\n", value.replace('\n', " "))).collect();
        let send = || {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.send_to(entry.as_bytes(), self.root().host_followed(JOURNAL))
        };
        // There is no place left to report that it is lost.
        let _: Result<usize> = send();
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use scratch::TempDir;

    /// Returns the path of the daemon's socket, on a machine without a daemon.
    fn socket(top: &TempDir) -> PathBuf {
        top.put("/dev/null", "");
        top.join("dev/log")
    }

    fn syslog(top: &TempDir) -> Syslog {
        Syslog::new(Root::new(top.into())).unwrap()
    }

    fn received(daemon: &UnixDatagram) -> String {
        let mut line = [0; 64];
        daemon.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let length = daemon.recv(&mut line).unwrap();
        String::from_utf8_lossy(&line[..length]).into_owned()
    }

    #[test]
    fn follows_the_daemon_through_start_and_restart() {
        let top = TempDir::new();
        let path = socket(&top);
        let mut log = syslog(&top);
        log.connect().unwrap_err();
        log.send(b"<14>lost").unwrap_err();
        let daemon = UnixDatagram::bind(&path).unwrap();
        log.send(b"<14>one").unwrap();
        assert_eq!(received(&daemon), "<14>one");
        drop(daemon);
        assert!(log.send(b"<14>lost").is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(log.send(b"<14>lost").is_err());
        let daemon = UnixDatagram::bind(&path).unwrap();
        log.send(b"<14>two").unwrap();
        assert_eq!(received(&daemon), "<14>two");
    }

    /// With systemd /dev/log is a link to the journal's socket.
    #[test]
    fn follows_a_link_that_appears_later() {
        let top = TempDir::new();
        let path = socket(&top);
        let mut log = syslog(&top);
        log.send(b"<14>lost").unwrap_err();
        top.put("/run/systemd/journal/placeholder", "");
        let daemon = UnixDatagram::bind(top.join("run/systemd/journal/dev-log")).unwrap();
        log.send(b"<14>lost").unwrap_err();
        std::os::unix::fs::symlink("/run/systemd/journal/dev-log", path).unwrap();
        log.send(b"<14>one").unwrap();
        assert_eq!(received(&daemon), "<14>one");
    }

    #[test]
    fn does_not_wait_for_a_daemon_that_does_not_read() {
        let top = TempDir::new();
        let daemon = UnixDatagram::bind(socket(&top)).unwrap();
        let mut log = syslog(&top);
        let began = std::time::Instant::now();
        let sent = (0..5_000).filter(|_| log.send(b"<14>line").is_ok()).count();
        assert!(began.elapsed() >= std::time::Duration::from_millis(500), "{:?}", began.elapsed());
        assert!((1..5_000).contains(&sent), "{sent}");
        // After the first wait the socket no longer blocks.
        let flags = nix::fcntl::fcntl(&log.socket, nix::fcntl::FcntlArg::F_GETFL).unwrap();
        assert!(nix::fcntl::OFlag::from_bits_truncate(flags).contains(nix::fcntl::OFlag::O_NONBLOCK));
        // What was sent before is there, and later lines arrive as soon as the daemon reads again.
        assert_eq!(received(&daemon), "<14>line");
        log.send(b"<14>line").unwrap();
    }

    #[test]
    fn journal_entries_have_one_line_for_each_field() {
        let root = scratch::TempDir::new();
        let sys = System::new(&root);
        sys.send_to_journal(&[("MESSAGE", "nobody reads")]);
        std::fs::create_dir_all(root.join("run/systemd/journal")).unwrap();
        let journal = UnixDatagram::bind(root.join("run/systemd/journal/socket")).unwrap();
        sys.send_to_journal(&[("MESSAGE", "a\nPRIORITY=0"), ("MESSAGE_ID", "5")]);
        let mut bytes = [0; 100];
        let length = journal.recv(&mut bytes).unwrap();
        assert_eq!(std::str::from_utf8(&bytes[..length]), Ok("MESSAGE=a PRIORITY=0\nMESSAGE_ID=5\n"));
    }
}
