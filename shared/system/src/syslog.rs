//! The connection to the system log.

use std::io::{ErrorKind, Result};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

/// How long the first line waits for a log daemon that does not read. Later lines do not wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// A connection that never blocks a boot: a line is lost if the daemon does not read, or is not there.
pub(crate) struct Syslog {
    path: PathBuf,
    socket: UnixDatagram,
}

impl Syslog {
    /// Connects to the socket of the log daemon.
    ///
    /// # Errors
    /// Fails if no daemon listens on the path.
    pub fn connect(path: PathBuf) -> Result<Syslog> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(&path)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Syslog { path, socket })
    }

    /// Sends one message. After a restart of the daemon the socket at the path is another one, and is connected to.
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
                self.socket.connect(&self.path)?;
                self.socket.send(message).map(drop)
            }
            _ => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::TempDir;

    fn received(daemon: &UnixDatagram) -> String {
        let mut line = [0; 64];
        daemon.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let length = daemon.recv(&mut line).unwrap();
        String::from_utf8_lossy(&line[..length]).into_owned()
    }

    #[test]
    fn follows_the_daemon_through_a_restart() {
        let top = TempDir::new();
        let path = top.join("log");
        assert!(Syslog::connect(path.clone()).is_err());
        let daemon = UnixDatagram::bind(&path).unwrap();
        let mut log = Syslog::connect(path.clone()).unwrap();
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

    #[test]
    fn does_not_wait_for_a_daemon_that_does_not_read() {
        let top = TempDir::new();
        let path = top.join("log");
        let daemon = UnixDatagram::bind(&path).unwrap();
        let mut log = Syslog::connect(path).unwrap();
        let begun = std::time::Instant::now();
        let sent = (0..5_000).filter(|_| log.send(b"<14>line").is_ok()).count();
        assert!((1..5_000).contains(&sent), "{sent}");
        assert!(begun.elapsed() < 3 * PATIENCE, "{:?}", begun.elapsed());
        // What was sent before is there, and later lines arrive as soon as the daemon reads again.
        assert_eq!(received(&daemon), "<14>line");
        log.send(b"<14>line").unwrap();
    }
}
