//! Metadata services that systemd-imds has locked: a prohibit route makes connecting fail with EACCES, unless a socket has
//! systemd's mark, for which a rule selects a table with a usable route. Without the mark (a container without
//! CAP_NET_ADMIN, or no such rule) systemd-imdsd fetches for us, over Varlink.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use serde_json::{Value, json};

use super::message::MAX_HEADERS;
use super::url::Url;
use crate::varlink::{self, Reply, Varlink};
use crate::{Error, Result};

/// The mark of sockets that may pass, and the number of the table with the route (systemd-imdsd@.service(8)).
pub const MARK: u32 = 0x7FFF_0815;

const SOCKET: &str = "/run/systemd/io.systemd.InstanceMetadata";
// Wait: systemd-imdsd | a connection | -
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The time limit of one response of systemd-imdsd, which retries by itself for longer.
// Wait: systemd-imdsd | one response | -
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit for the vendor's facts, which systemd-imdsd knows without a request to the service.
// Wait: systemd-imdsd | the name of the cloud | -
const VENDOR_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_REQUEST_HEAD: u64 = 64 << 10;
/// systemd-imdsd has a token of its own; a datasource that requests one gets this word, which is not sent to the service.
const TOKEN: &str = "systemd-imdsd";

/// Returns whether a connection failed because a route or a filter forbids it, as the lock of systemd-imds does.
pub fn is_locked(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}

/// The way to a locked service. A stage of the boot has one, which remembers whether systemd-imdsd is silent.
#[derive(Debug, Default)]
pub struct LockedService {
    is_silent: Silence,
}

/// Whether a request to systemd-imdsd has timed out. Every other one would cost the same, so that none is made.
type Silence = Arc<AtomicBool>;

impl LockedService {
    /// Connects to a locked service, within this time: with the mark, else through systemd-imdsd.
    ///
    /// # Errors
    ///
    /// Fails permanently if neither is possible, because the service stays locked.
    pub fn connect(&self, to: &SocketAddr, timeout: Duration) -> Result<TcpStream> {
        match connect_marked(to, timeout) {
            Err(Errno::EINPROGRESS) => {
                Err(Error::io(format_args!("connecting to {to}"), &ErrorKind::TimedOut.into()))
            }
            Err(e) => self.open_bridge(to, e),
            Ok(stream) => Ok(stream),
        }
    }

    /// Connects to systemd-imdsd, for a metadata service that sockets with the mark do not reach either. The connection leads to
    /// a thread of this process, which answers HTTP requests with the data of systemd-imdsd. Its Unix socket is typed as TCP's:
    /// only reads, writes and their timeouts are used, which are the same.
    ///
    /// # Errors
    ///
    /// Fails permanently if systemd-imdsd is not listening, does not respond or serves another address.
    pub fn open_bridge(&self, to: &SocketAddr, with_mark: Errno) -> Result<TcpStream> {
        let address = to.ip().to_string();
        self.begin_bridge(Path::new(SOCKET), address).map_err(|e| {
            let mark = io::Error::from(with_mark);
            let text = format!(
                "connecting to {to}: permission denied; with the mark of systemd-imds: {mark}; through systemd-imdsd: {e}"
            );
            Error::with_kind(ErrorKind::PermissionDenied, text).into_permanent()
        })
    }

    fn begin_bridge(&self, socket: &Path, address: String) -> io::Result<TcpStream> {
        if self.is_silent.load(Ordering::Relaxed) {
            return Err(response_timeout());
        }
        let varlink = Varlink::connect(socket, CONNECT_TIMEOUT)?;
        let mut imdsd = Imdsd::open(varlink, address, Arc::clone(&self.is_silent))?;
        let (ours, theirs) = UnixStream::pair()?;
        let serve = move || {
            // The end of the connection is the response to a failure.
            let _ = serve(theirs, &mut imdsd);
        };
        std::thread::Builder::new().name("imdsd".into()).spawn(serve)?;
        Ok(TcpStream::from(OwnedFd::from(ours)))
    }
}

fn connect_marked(to: &SocketAddr, timeout: Duration) -> nix::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket: OwnedFd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::Mark, &MARK)?;
    let millis = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX).clamp(1, 86_400_000);
    setsockopt(&socket, sockopt::SendTimeout, &TimeVal::milliseconds(millis))?;
    connect(socket.as_raw_fd(), &SockaddrStorage::from(*to))?;
    Ok(TcpStream::from(socket))
}

fn response_timeout() -> io::Error {
    io::Error::other("timed out waiting for a response")
}

/// Answers requests until the client closes the connection, or until systemd-imdsd fails.
fn serve(client: UnixStream, imdsd: &mut Imdsd) -> io::Result<()> {
    let mut output = client.try_clone()?;
    let mut input = BufReader::new(client);
    loop {
        let Some((method, target)) = read_request(&mut input)? else { return Ok(()) };
        let (status, body) = match method.as_str() {
            "GET" => imdsd.get(&target),
            "PUT" => (200, TOKEN.as_bytes().to_vec()),
            _ => (405, Vec::new()),
        };
        write!(output, "HTTP/1.1 {status} systemd-imdsd\r\nContent-Length: {}\r\n\r\n", body.len())?;
        output.write_all(&body)?;
        if status == FAILED {
            // A late response could be read as the response to the next request, so that gets a new connection.
            return Ok(());
        }
    }
}

/// Reads the head of a request and returns its method and target; `None` at the end of the connection, and if the head is
/// malformed, incomplete or larger than [`MAX_REQUEST_HEAD`].
fn read_request(input: &mut impl BufRead) -> io::Result<Option<(String, String)>> {
    let mut input = input.take(MAX_REQUEST_HEAD);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if input.read_until(b'\n', &mut head)? == 0 {
            return Ok(None);
        }
    }
    let mut fields = vec![httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut fields);
    let is_valid = request.parse(&head).is_ok_and(|status| status.is_complete());
    let words = request.method.zip(request.path).filter(|_| is_valid);
    Ok(words.map(|(method, target)| (method.into(), target.into())))
}

/// The status for a connection to systemd-imdsd that failed.
const FAILED: u16 = 504;

/// A connection to systemd-imdsd.
struct Imdsd {
    varlink: Varlink,
    /// The vendor's base URL. `None`: it has a suffix, which selects another format than the one that datasources request.
    data_url: Option<String>,
    address: String,
    is_silent: Silence,
}

impl Imdsd {
    /// Returns the connection, if the metadata service at this address is systemd-imdsd's.
    fn open(varlink: Varlink, address: String, is_silent: Silence) -> io::Result<Imdsd> {
        let mut imdsd = Imdsd { varlink, data_url: None, address, is_silent };
        let vendor = imdsd.call("GetVendorInfo", &json!({}), VENDOR_TIMEOUT).map_err(varlink::explain)?;
        let vendor = vendor.map_err(|error| io::Error::other(format!("error {error}")))?;
        let text = |key: &str| vendor.get(key).and_then(Value::as_str).unwrap_or_default();
        let url = Url::parse(text("dataUrl")).ok().filter(|url| url.host == imdsd.address);
        if url.is_none() {
            return Err(io::Error::other("it does not serve the metadata of this address"));
        }
        imdsd.data_url = text("dataUrlSuffix").is_empty().then(|| text("dataUrl").to_string());
        Ok(imdsd)
    }

    /// Returns the status and body of a resource.
    fn get(&mut self, target: &str) -> (u16, Vec<u8>) {
        let key = self.data_url.as_deref().and_then(|url| key_of(url, &self.address, target));
        let Some(key) = key else { return (403, Vec::new()) };
        match self.call("Get", &json!({ "key": key }), ANSWER_TIMEOUT) {
            Ok(Ok(reply)) => match reply.get("data").and_then(Value::as_str) {
                Some(data) => match encoding::base64::decode(data.as_bytes()) {
                    Some(body) => (200, body),
                    None => (502, Vec::new()),
                },
                None => (502, Vec::new()),
            },
            Ok(Err(error)) => (status_of(&error), Vec::new()),
            Err(e) => {
                if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
                    self.is_silent.store(true, Ordering::Relaxed);
                }
                (FAILED, Vec::new())
            }
        }
    }

    /// Calls a method of io.systemd.InstanceMetadata.
    fn call(&mut self, method: &str, parameters: &Value, timeout: Duration) -> io::Result<Reply> {
        self.varlink.call(&format!("io.systemd.InstanceMetadata.{method}"), parameters, timeout)
    }
}

/// Returns the HTTP status for an error of systemd-imdsd. Only 5xx are worth a retry.
fn status_of(error: &str) -> u16 {
    match error.strip_prefix("io.systemd.InstanceMetadata.") {
        Some("KeyNotFound" | "WellKnownKeyUnset") => 404,
        Some("CommunicationFailure") => 502,
        _ => 403,
    }
}

/// Returns systemd-imdsd's key for a resource: its path below the vendor's base URL. A base that is a version (`/latest`) also
/// stands for a version of a date.
fn key_of(data_url: &str, address: &str, target: &str) -> Option<String> {
    let base = Url::parse(data_url).ok().filter(|url| url.host == address)?;
    let base = base.target.trim_end_matches('/');
    let (parent, last) = base.rsplit_once('/').unwrap_or_default();
    let rest = target.strip_prefix(base).or_else(|| {
        let (version, rest) = target.strip_prefix(parent)?.strip_prefix('/')?.split_once('/')?;
        let is_date = version.len() == 10 && version.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        (last == "latest" && is_date).then(|| &target[target.len() - rest.len() - 1..])
    })?;
    (rest.starts_with('/') && rest.is_ascii()).then(|| rest.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "169.254.169.254";
    const LATEST: &str = "http://169.254.169.254/latest";

    #[test]
    fn only_paths_below_the_data_url_have_a_key() {
        for (data_url, target, expected) in [
            (LATEST, "/latest/meta-data/instance-id", Some("/meta-data/instance-id")),
            (LATEST, "/2021-03-23/meta-data/", Some("/meta-data/")),
            (LATEST, "/2021-03-23x/meta-data/", None),
            (LATEST, "/openstack/latest/meta_data.json", None),
            (LATEST, "/latestx/a", None),
            (LATEST, "/latest", None),
            ("http://169.254.169.254/hetzner/v1", "/hetzner/v1/userdata", Some("/userdata")),
            ("http://169.254.169.254/hetzner/v1", "/hetzner/2021-03-23/userdata", None),
            ("http://192.0.2.1/latest", "/latest/meta-data/", None),
            ("", "/latest/meta-data/", None),
            ("http://169.254.169.254", "/a", Some("/a")),
        ] {
            assert_eq!(key_of(data_url, ADDRESS, target).as_deref(), expected, "{data_url} {target}");
        }
    }

    /// Connects to a daemon that gives these replies and then closes the connection.
    fn open(replies: Vec<String>) -> (io::Result<Imdsd>, std::thread::JoinHandle<()>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let daemon = std::thread::spawn(move || {
            for reply in replies {
                let mut call = Vec::new();
                BufReader::new(&theirs).read_until(0, &mut call).unwrap();
                theirs.write_all(reply.as_bytes()).unwrap();
            }
        });
        (Imdsd::open(Varlink::from(ours), ADDRESS.into(), Silence::default()), daemon)
    }

    fn error(name: &str) -> String {
        format!("{{\"error\": \"io.systemd.InstanceMetadata.{name}\"}}\0")
    }

    #[test]
    fn errors_of_imdsd_become_http_statuses() {
        let vendor = json!({"parameters": {"vendor": "amazon-ec2", "dataUrl": LATEST}}).to_string() + "\0";
        for (reply, expected) in [
            ("{\"parameters\": {\"data\": \"aGk=\", \"interface\": 2}}\0".to_string(), (200, "hi")),
            ("{\"parameters\": {\"data\": 7}}\0".into(), (502, "")),
            ("{\"parameters\": []}\0".into(), (502, "")),
            ("{}\0".into(), (502, "")),
            ("[]\0".into(), (504, "")),
            (error("KeyNotFound"), (404, "")),
            (error("NotAvailable"), (403, "")),
            (error("CommunicationFailure"), (502, "")),
            ("{\"error\": 1}\0".into(), (403, "")),
            ("no JSON\0".into(), (504, "")),
            ("{\"parameters\"".into(), (504, "")),
        ] {
            let (imdsd, daemon) = open(vec![vendor.clone(), reply.clone()]);
            let (status, body) = imdsd.unwrap().get("/latest/meta-data/a");
            assert_eq!((status, &*String::from_utf8_lossy(&body)), expected, "{reply}");
            daemon.join().unwrap();
        }
        let suffix = json!({"parameters": {"dataUrl": LATEST, "dataUrlSuffix": "?a"}}).to_string() + "\0";
        let (imdsd, _) = open(vec![suffix]);
        assert_eq!(imdsd.unwrap().get("/latest/meta-data/a").0, 403);
    }

    #[test]
    fn unusable_daemons_are_errors() {
        let other = json!({"parameters": {"dataUrl": "http://192.0.2.1/latest"}}).to_string() + "\0";
        for (first, expected) in [
            (error("NotSupported"), "error io.systemd.InstanceMetadata.NotSupported"),
            ("{\"error\": \"a\\nb\"}\0".into(), "error invalid"),
            (
                "{\"parameters\": {\"dataUrl\": []}}\0".into(),
                "it does not serve the metadata of this address",
            ),
            (other, "it does not serve the metadata of this address"),
            ("{}\0".into(), "it does not serve the metadata of this address"),
            ("no JSON\0".into(), "invalid response"),
            ("{\"parameters\"".into(), "the service closed the connection"),
        ] {
            let (imdsd, daemon) = open(vec![first.clone()]);
            assert_eq!(imdsd.map(drop).unwrap_err().to_string(), expected, "{first}");
            daemon.join().unwrap();
        }
        // Silent.
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let e = Imdsd::open(Varlink::from(ours), ADDRESS.into(), Silence::default())
            .map(drop)
            .unwrap_err()
            .to_string();
        assert_eq!(e, "timed out waiting for a response");
    }

    #[test]
    fn malformed_requests_are_ignored() {
        let request = |text: &str| read_request(&mut text.as_bytes()).unwrap();
        let expected = Some(("GET".into(), "/a?b".into()));
        assert_eq!(request("GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n"), expected);
        for bad in ["", "\r\n", "\r\n\r\n", "GET\r\n\r\n", "GET /a\r\n\r\n", "GET /a HTTP/1.1\r\nHost: h\r\n"]
        {
            assert_eq!(request(bad), None, "{bad:?}");
        }
        let sized = |size: usize| {
            let (begin, end) = ("GET /a?b HTTP/1.1\r\nA: ", "\r\n\r\n");
            format!("{begin}{}{end}", "a".repeat(size - begin.len() - end.len()))
        };
        assert_eq!(request(&sized(MAX_REQUEST_HEAD as usize)), expected);
        assert_eq!(request(&sized(MAX_REQUEST_HEAD as usize + 1)), None);
        // Each request of a connection is read to its end.
        let mut two = "GET /a?b HTTP/1.1\r\n\r\nPUT /c HTTP/1.1\r\nA: b\r\n\r\n".as_bytes();
        assert_eq!(read_request(&mut two).unwrap(), expected);
        assert_eq!(read_request(&mut two).unwrap(), Some(("PUT".into(), "/c".into())));
        assert_eq!(read_request(&mut two).unwrap(), None);
    }
}
