//! Notifications to the service manager (sd_notify(3)), for waits that a time limit of a unit cannot foresee.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::{System, debug};

impl System {
    /// Tells the service manager that this stage goes on for at most `time` more, whatever limit its unit has, and what it is
    /// doing. Does nothing without a service manager. The unit has `NotifyAccess=main`.
    pub fn extend_start_timeout(&self, time: Duration, status: &str) {
        let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
        if !self.is_live() || self.is_dry_run() {
            return;
        }
        let text = message(time, status);
        let sent = address(socket.as_encoded_bytes())
            .and_then(|to| UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &to));
        if let Err(e) = sent {
            debug!(self, "notifying the service manager: {e}");
        }
    }
}

fn message(time: Duration, status: &str) -> String {
    let status: String = status.chars().filter(|c| !c.is_control()).collect();
    format!("EXTEND_TIMEOUT_USEC={}\nSTATUS={status}", time.as_micros())
}

/// Returns the address in `NOTIFY_SOCKET`: a path, or after `@` a name in the abstract namespace.
fn address(socket: &[u8]) -> std::io::Result<SocketAddr> {
    use std::os::unix::ffi::OsStrExt;
    match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(socket)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_cannot_have_further_lines() {
        let text = message(Duration::from_secs(90), "waiting\nREADY=1");
        assert_eq!(text, "EXTEND_TIMEOUT_USEC=90000000\nSTATUS=waitingREADY=1");
        let name = format!("firstlight-notify-{}", std::process::id());
        let to = address(format!("@{name}").as_bytes()).unwrap();
        let socket = UnixDatagram::bind_addr(&to).unwrap();
        UnixDatagram::unbound().unwrap().send_to_addr(b"x", &to).unwrap();
        assert_eq!(socket.recv(&mut [0; 8]).unwrap(), 1);
        assert_eq!(address(b"/run/x").unwrap().as_pathname(), Some(std::path::Path::new("/run/x")));
        assert!(address(&[b'/'; 200]).is_err());
    }
}
