//! The metadata protocol of SmartOS, version 2: lines with a length and a checksum, over the second serial port of a virtual
//! machine or the socket of a zone. Values are base64, so that a line holds any value.

use std::collections::BTreeSet;
use std::time::Duration;

use system::{Channel, Deadline, Error, Result, System, debug, warning};

/// The limit of one response, base64 included.
const MAX_RESPONSE: usize = 16 << 20;
/// How long a port has to be silent before the first request.
const SILENCE: Duration = Duration::from_millis(100);
/// The interval at which the host is asked whether it listens.
// Wait: SmartOS | the next request at a serial port that does not respond | -
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// The maximum number of stale responses that are skipped.
const MAX_STALE: usize = 16;
/// The host's response to an empty line.
const READY: &[u8] = b"invalid command";

/// A connection to the metadata service.
pub struct Client<'a> {
    sys: &'a System,
    channel: Channel,
    /// The time limit for each pause in a response.
    timeout: Duration,
    /// The time limit for all requests.
    until: Deadline,
    request_id: u32,
}

/// The content of a response.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// The value, unless it is empty.
    Success(Option<Vec<u8>>),
    /// The key is not set.
    NotFound,
    /// The host could not read the key.
    Failure,
}

impl<'a> Client<'a> {
    /// Creates a client for an open serial port or socket.
    pub fn new(sys: &'a System, channel: Channel, timeout: Duration, until: Deadline) -> Client<'a> {
        // Starts at a random id, so that responses to an earlier program are recognised.
        let seed = sys.random_bytes(4).ok().and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        let request_id = seed.map_or(1, u32::from_le_bytes);
        Client { sys, channel, timeout, until, request_id }
    }

    /// Waits until the host reads commands from a serial port: an earlier program may have left half a command, and the
    /// service on the host may start later than this machine.
    ///
    /// # Errors
    ///
    /// Fails if the host does not respond within the time limit.
    pub fn synchronize(&mut self) -> Result<()> {
        let until = Deadline::after(self.timeout).earlier(self.until);
        self.channel.lock(until)?;
        self.channel.discard_input(SILENCE)?;
        let mut is_warned = false;
        loop {
            self.channel.send(b"\n", self.timeout)?;
            match self.channel.read_line(MAX_RESPONSE, PROBE_INTERVAL.min(self.timeout), until) {
                Ok(line) if line == READY => return Ok(()),
                Ok(line) if until.is_expired() => {
                    return Err(Error::new(format!("SmartOS: invalid response {}", printable(&line))));
                }
                Ok(line) if line == b"FAILURE" => debug!(self.sys, "SmartOS: the host failed; retrying"),
                Ok(line) => {
                    warning!(self.sys, "SmartOS: unexpected response {} to an empty line", printable(&line));
                    // Discards the rest of the response.
                    self.channel.discard_input(SILENCE)?;
                }
                Err(e) if e.kind() == Some(std::io::ErrorKind::TimedOut) && !until.is_expired() => {
                    if !std::mem::replace(&mut is_warned, true) {
                        warning!(self.sys, "SmartOS: {e}. Is the metadata service of the host running?");
                    }
                }
                Err(e) => return Err(e.context("SmartOS: waiting for the metadata service of the host")),
            }
        }
    }

    /// Negotiates version 2.
    ///
    /// # Errors
    ///
    /// Fails if the host does not respond, or does not support it.
    pub fn negotiate(&mut self) -> Result<()> {
        self.channel.send(b"NEGOTIATE V2\n", self.timeout)?;
        let line = self.channel.read_line(MAX_RESPONSE, self.timeout, self.until)?;
        if line != b"V2_OK" {
            let line = printable(&line);
            return Err(Error::new(format!("SmartOS: invalid response {line} to \"NEGOTIATE V2\"")));
        }
        Ok(())
    }

    /// Requests the value of a key.
    ///
    /// # Errors
    ///
    /// Fails if the host does not respond in time, or with an invalid response.
    pub fn get(&mut self, key: &str) -> Result<Reply> {
        self.request("GET", Some(key))
    }

    /// Returns the names of all keys.
    ///
    /// # Errors
    ///
    /// Fails as [`Client::get`] does, and if the host cannot list them.
    pub fn keys(&mut self) -> Result<BTreeSet<String>> {
        match self.request("KEYS", None)? {
            Reply::Success(names) => {
                let names = names.unwrap_or_default();
                Ok(sort::collect(String::from_utf8_lossy(&names).split('\n').map(String::from)))
            }
            Reply::NotFound => Ok(BTreeSet::new()),
            Reply::Failure => Err(Error::new("SmartOS: the host could not list the keys")),
        }
    }

    fn request(&mut self, verb: &str, key: Option<&str>) -> Result<Reply> {
        self.request_id = self.request_id.wrapping_add(1);
        let id = self.request_id;
        self.channel.send(request(id, verb, key).as_bytes(), self.timeout)?;
        let what = |e: Error| e.context(format_args!("SmartOS: {}", key.unwrap_or(verb)));
        for _ in 0..MAX_STALE {
            let line = self.channel.read_line(MAX_RESPONSE, self.timeout, self.until).map_err(what)?;
            if line == b"FAILURE" {
                return Ok(Reply::Failure);
            }
            match parse(&line).map_err(what)? {
                (of, reply) if of == id => return Ok(reply),
                (of, _) => debug!(self.sys, "SmartOS: skipping a response to request {of:08x}"),
            }
        }
        Err(what(Error::new("responses to other requests only")))
    }
}

/// Returns the line of a request.
fn request(id: u32, verb: &str, key: Option<&str>) -> String {
    let key = key.map(|key| format!(" {}", encoding::base64::encode(key.as_bytes()))).unwrap_or_default();
    let body = format!("{id:08x} {verb}{key}");
    format!("V2 {} {:08x} {body}\n", body.len(), encoding::gzip::crc32(body.as_bytes()))
}

/// Parses the line of a response: the request that it is for, and what it says.
pub(crate) fn parse(line: &[u8]) -> Result<(u32, Reply)> {
    let invalid = |what: &str| Error::new(format!("invalid response: {what}"));
    let line = std::str::from_utf8(line).map_err(|_| invalid("expected ASCII"))?;
    let mut parts = line.splitn(4, ' ');
    let mut next = || parts.next().unwrap_or_default();
    let (version, length, checksum, body) = (next(), next(), next(), next());
    if version != "V2" {
        return Err(invalid("expected a line of version 2"));
    }
    if length.parse() != Ok(body.len()) {
        return Err(invalid("wrong length"));
    }
    if u32::from_str_radix(checksum, 16) != Ok(encoding::gzip::crc32(body.as_bytes())) {
        return Err(invalid("wrong checksum"));
    }
    let mut parts = body.splitn(3, ' ');
    let mut next = || parts.next();
    let (id, status, payload) = (next().unwrap_or_default(), next().unwrap_or_default(), next());
    let id = u32::from_str_radix(id, 16).map_err(|_| invalid("expected a request id"))?;
    let reply = match status {
        "SUCCESS" => Reply::Success(match payload.filter(|payload| !payload.is_empty()) {
            Some(payload) => {
                let value = encoding::base64::decode(payload.as_bytes());
                Some(value.ok_or_else(|| invalid("expected base64"))?)
            }
            None => None,
        }),
        "NOTFOUND" => Reply::NotFound,
        "FAILURE" => Reply::Failure,
        _ => return Err(invalid("unknown status")),
    };
    Ok((id, reply))
}

/// Returns the beginning of an invalid response for a message. Only valid responses contain values.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(40)]).into_owned();
    format!("{text:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a line of version 2 with this body.
    fn line(body: &str) -> String {
        format!("V2 {} {:08x} {body}", body.len(), encoding::gzip::crc32(body.as_bytes()))
    }

    #[test]
    fn requests_are_framed_with_length_and_checksum() {
        // The example in the description of the protocol has these bodies.
        assert_eq!(request(0xdc4f_ae17, "KEYS", None), line("dc4fae17 KEYS") + "\n");
        assert_eq!(request(0x2a, "GET", Some("sdc:uuid")), line("0000002a GET c2RjOnV1aWQ=") + "\n");
        assert_eq!(encoding::gzip::crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn responses_with_a_wrong_frame_are_rejected() {
        let read = |line: &str| match parse(line.as_bytes()) {
            Ok((id, reply)) => format!("{id:x} {reply:?}"),
            Err(e) => e.to_string(),
        };
        let good = line("2a SUCCESS aGk=");
        for (text, expected) in [
            (good.as_str(), "2a Success(Some([104, 105]))"),
            (&line("2a SUCCESS"), "2a Success(None)"),
            (&line("2a SUCCESS "), "2a Success(None)"),
            (&line("2a NOTFOUND"), "2a NotFound"),
            (&line("2a FAILURE x"), "2a Failure"),
            (&line("2a GONE"), "invalid response: unknown status"),
            (&line("2a"), "invalid response: unknown status"),
            (&line("zz SUCCESS"), "invalid response: expected a request id"),
            (&line("2a SUCCESS !!"), "invalid response: expected base64"),
            (&good.replace("V2", "V3"), "invalid response: expected a line of version 2"),
            (&good.replace("aGk", "aGj"), "invalid response: wrong checksum"),
            (&good[..good.len() - 1], "invalid response: wrong length"),
            ("", "invalid response: expected a line of version 2"),
            ("V2", "invalid response: wrong length"),
            ("V2 0 zz ", "invalid response: wrong checksum"),
            ("V2 99999999999999999999 0 x", "invalid response: wrong length"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert!(parse(b"V2 1 0 \xff").is_err());
    }
}
