//! Calls of systemd's services over Varlink: a JSON object for each call and each reply, followed by a NUL byte, over a Unix
//! socket.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use encoding::json::has_too_many_values;
use serde_json::{Value, json};

use crate::{Deadline, Error, Result, System, channel};

/// How long a service may take to accept a call.
// Wait: everything | a service of systemd to accept a call | -
const SEND_TIMEOUT: Duration = Duration::from_secs(1);
/// The size limit of a reply, with its NUL. systemd-imdsd returns up to 4 MiB, which base64 makes larger by a third.
const MAX_REPLY: usize = 8 << 20;

/// The parameters of a reply, or the name of the error that the service returned instead.
pub(crate) type Reply = std::result::Result<Value, String>;

/// A connection to a service.
#[derive(Debug)]
pub struct Varlink {
    socket: UnixStream,
}

impl System {
    /// Connects to the service that listens on a Unix socket, within this time.
    ///
    /// # Errors
    /// Fails if the socket does not exist, or if nothing accepts in time.
    pub fn connect_varlink(&self, path: &str, timeout: Duration) -> Result<Varlink> {
        let connected = Varlink::connect(&self.root().host_followed(path), timeout);
        connected.map_err(|e| Error::io(format_args!("connecting to {path}"), &e))
    }
}

impl Varlink {
    pub(crate) fn connect(socket: &Path, timeout: Duration) -> io::Result<Varlink> {
        Ok(Varlink { socket: UnixStream::from(channel::connect_unix(socket, timeout)?) })
    }

    /// Calls a method for which only success matters.
    ///
    /// # Errors
    /// Fails if the service returns an error, or no valid reply in time. The connection cannot be used after that: a late
    /// reply would be taken for that of the next call.
    pub fn request(&mut self, method: &str, parameters: &Value, timeout: Duration) -> Result<()> {
        match self.call(method, parameters, timeout).map_err(explain) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Error::new(format!("{method}: error {error}"))),
            Err(e) => Err(Error::io(method, &e)),
        }
    }

    /// Calls a method and returns its reply.
    ///
    /// # Errors
    /// Fails without a valid reply in time, as [`Varlink::request`] does.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value, timeout: Duration) -> io::Result<Reply> {
        let mut call = json!({ "method": method, "parameters": parameters }).to_string().into_bytes();
        call.push(0);
        self.socket.set_write_timeout(Some(SEND_TIMEOUT))?;
        self.socket.write_all(&call)?;
        let deadline = Deadline::after(timeout);
        let mut reply = Vec::new();
        let mut piece = vec![0; 64 << 10];
        // A service sends nothing that was not requested: what ends in a NUL is one reply.
        while reply.last() != Some(&0) && reply.len() <= MAX_REPLY {
            // A timeout of zero would mean no timeout.
            self.socket.set_read_timeout(Some(deadline.remaining().max(Duration::from_millis(1))))?;
            match self.socket.read(&mut piece)? {
                0 => break,
                length => reply.extend_from_slice(&piece[..length]),
            }
            if deadline.is_expired() {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        if reply.len() > MAX_REPLY {
            return Err(ErrorKind::FileTooLarge.into());
        }
        if reply.pop() != Some(0) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if has_too_many_values(&reply) {
            return Err(ErrorKind::InvalidData.into());
        }
        let reply: Value = serde_json::from_slice(&reply).map_err(|_| ErrorKind::InvalidData)?;
        if !reply.is_object() {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(match reply.get("error").map(error_name) {
            Some(error) => Err(error),
            None => Ok(reply.get("parameters").cloned().unwrap_or_default()),
        })
    }
}

/// Returns the name of an error, for a message.
fn error_name(error: &Value) -> String {
    let is_name = |name: &&str| {
        name.len() < 256 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    error.as_str().filter(is_name).unwrap_or("invalid").to_string()
}

/// Returns an error of [`Varlink::call`] in the words of a message.
pub(crate) fn explain(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => io::Error::other("timed out waiting for a response"),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            io::Error::other("the service closed the connection")
        }
        ErrorKind::InvalidData => io::Error::other("invalid response"),
        ErrorKind::FileTooLarge => {
            io::Error::other(format!("the response is larger than {} MiB", MAX_REPLY >> 20))
        }
        _ => error,
    }
}

#[cfg(test)]
impl From<UnixStream> for Varlink {
    fn from(socket: UnixStream) -> Varlink {
        Varlink { socket }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    use scratch::TempDir;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Calls a service that returns this and closes the connection; returns the result and the call.
    fn request(reply: &str) -> (String, String) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let reply = reply.to_string();
        let service = std::thread::spawn(move || {
            let mut call = Vec::new();
            BufReader::new(&theirs).read_until(0, &mut call).unwrap();
            // The caller may close the connection before it has read a reply that is too large.
            let _ = theirs.write_all(reply.as_bytes());
            String::from_utf8(call).unwrap()
        });
        let done = Varlink::from(ours).request("org.example.Do", &json!({"n": 7}), SECOND * 60);
        (done.map_or_else(|e| e.to_string(), |()| "done".into()), service.join().unwrap())
    }

    #[test]
    fn reply_is_accepted_or_reported_as_an_error() {
        for (reply, expected) in [
            ("{}\0", "done"),
            ("{\"parameters\": {}}\0", "done"),
            ("{\"error\": \"org.example.Full\"}\0", "org.example.Do: error org.example.Full"),
            ("{\"error\": \"a\\u001b[31m\"}\0", "org.example.Do: error invalid"),
            ("{\"error\": 7}\0", "org.example.Do: error invalid"),
            ("7\0", "org.example.Do: invalid response"),
            ("[]\0", "org.example.Do: invalid response"),
            ("{}\0{}\0", "org.example.Do: invalid response"),
            ("{}", "org.example.Do: the service closed the connection"),
            ("", "org.example.Do: the service closed the connection"),
        ] {
            let (result, call) = request(reply);
            assert_eq!(result, expected, "{reply}");
            assert_eq!(call, "{\"method\":\"org.example.Do\",\"parameters\":{\"n\":7}}\0");
        }
        let long = format!("{{\"x\": [{}0]}}\0", "0,".repeat(encoding::json::MAX_VALUES));
        assert_eq!(request(&long).0, "org.example.Do: invalid response");
    }

    #[test]
    fn larger_replies_than_the_limit_are_refused() {
        let reply = |size: usize| format!("{{{}}}\0", " ".repeat(size - 3));
        assert_eq!(request(&reply(MAX_REPLY)).0, "done");
        let refused = "org.example.Do: the response is larger than 8 MiB";
        for size in [MAX_REPLY + 1, MAX_REPLY + 1000] {
            assert_eq!(request(&reply(size)).0, refused, "{size}");
        }
    }

    #[test]
    fn call_to_a_silent_service_times_out() {
        let top = TempDir::new();
        let sys = System::new(&top);
        assert!(sys.connect_varlink("/run/s", SECOND).unwrap_err().is_not_found());
        std::fs::create_dir(top.join("run")).unwrap();
        let _listener = UnixListener::bind(top.join("run/s")).unwrap();
        let mut service = sys.connect_varlink("/run/s", SECOND).unwrap();
        let e = service.request("a.B", &json!({}), Duration::from_millis(200)).unwrap_err();
        assert_eq!(e.to_string(), "a.B: timed out waiting for a response");
    }
}
