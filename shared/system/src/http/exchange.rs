//! One exchange that does not wait: begun, asked after, done. Whoever drives several of them at once (a race between
//! metadata addresses) waits for all their descriptors together. Plain http, no proxy, no redirects.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};

use super::url::Url;
use super::{Fetch, Fetched, Request, connect::addresses, message, shown};
use crate::{Deadline, Error, Result, ResultExt};

/// Beside the body: the head and the lines between chunks.
const MOST_BESIDE: usize = 512 << 10;

/// See the module.
#[derive(Debug)]
pub struct Exchange {
    stream: TcpStream,
    deadline: Deadline,
    is_connected: bool,
    /// What is still to be sent.
    unsent: Vec<u8>,
    received: Vec<u8>,
    limit: usize,
}

impl Fetch {
    fn plain_url(&self) -> Result<Url> {
        let url = Url::parse(&self.url)?;
        if url.https {
            return Err(Error::new("only http:// can be asked side by side"));
        }
        Ok(url)
    }

    /// Where it leads: an address as it is, a name as this machine resolves it, which may take until the deadline. A
    /// link-local address without a zone is meant on the link of that number.
    pub fn addresses(&self, link: u32, deadline: Deadline) -> Result<Vec<SocketAddr>> {
        let url = self.plain_url()?;
        let mut found = addresses(&url.host, url.port, deadline)?;
        for address in &mut found {
            if let SocketAddr::V6(address) = address
                && address.ip().is_unicast_link_local()
                && address.scope_id() == 0
            {
                address.set_scope_id(link);
            }
        }
        Ok(found)
    }

    /// Whether the host is a name, which has to be looked for, and no address.
    pub fn names_a_host(&self) -> bool {
        let is_address =
            |host: &str| host.split('%').next().is_some_and(|h| h.parse::<std::net::IpAddr>().is_ok());
        self.plain_url().is_ok_and(|url| !is_address(&url.host))
    }

    /// The URL as logs may have it.
    pub fn shown(&self) -> String {
        shown(&self.url)
    }

    /// Further tries, and the pause before each.
    pub fn tries(&self) -> (u32, Duration) {
        (self.retries, self.pause)
    }

    pub fn is_optional(&self) -> bool {
        self.optional
    }
}

impl Exchange {
    /// Begins to connect. The deadline is the earlier of the one given and that of the [`Fetch`].
    pub fn begin(fetch: &Fetch, to: SocketAddr, deadline: Deadline) -> Result<Exchange> {
        let ask = Request {
            url: fetch.plain_url()?,
            method: fetch.method,
            headers: &fetch.headers,
            body: fetch.body.as_deref(),
        };
        let unsent = message::request(&ask, false, None)?;
        let what = format!("connecting to {to}");
        let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket: OwnedFd = socket(family, SockType::Stream, flags, None).doing(&what)?;
        if let Some(port) = fetch.port {
            let any: IpAddr =
                if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            // A connection that ended a moment ago still has the port.
            setsockopt(&socket, sockopt::ReuseAddr, &true).doing(&what)?;
            let from = SockaddrStorage::from(SocketAddr::new(any, port));
            bind(socket.as_raw_fd(), &from).doing(format_args!("{what} from port {port}"))?;
        }
        match connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
            Ok(()) | Err(Errno::EINPROGRESS | Errno::EINTR) => {}
            Err(e) => return Err(e).doing(&what),
        }
        Ok(Exchange {
            stream: TcpStream::from(socket),
            deadline: deadline.earlier(Deadline::after(fetch.timeout)),
            is_connected: false,
            unsent,
            received: Vec::new(),
            limit: fetch.limit,
        })
    }

    /// What to wait for: to be written (`true`) or read.
    pub fn waits_to_write(&self) -> bool {
        !self.is_connected || !self.unsent.is_empty()
    }

    /// As far as it goes without waiting. `None`: not done yet.
    pub fn advance(&mut self) -> Option<Result<Fetched>> {
        match self.step() {
            Ok(None) if self.deadline.is_over() => Some(Err(Error::new("no answer in time"))),
            Ok(None) => None,
            Ok(Some(done)) => Some(Ok(done)),
            Err(e) => Some(Err(e)),
        }
    }

    fn step(&mut self) -> Result<Option<Fetched>> {
        if !self.is_connected {
            if let Some(e) = self.stream.take_error().doing("connecting")? {
                return Err(e).doing("connecting");
            }
            match self.stream.peer_addr() {
                Ok(_) => self.is_connected = true,
                Err(e) if e.kind() == ErrorKind::NotConnected => return Ok(None),
                Err(e) => return Err(e).doing("connecting"),
            }
        }
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e).doing("sending the request"),
            }
        }
        let mut piece = [0_u8; 16384];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return self.answer().map(Some),
                Ok(length) => {
                    self.received.extend_from_slice(&piece[..length]);
                    if self.received.len() > self.limit.saturating_add(MOST_BESIDE) {
                        return Err(Error::new(format!("the answer is larger than {} bytes", self.limit)));
                    }
                    if is_whole(&self.received) {
                        return self.answer().map(Some);
                    }
                    // A server that never stops sending must not keep us from the deadline.
                    if self.deadline.is_over() {
                        return Ok(None);
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e).doing("reading the answer"),
            }
        }
    }

    fn answer(&self) -> Result<Fetched> {
        message::read(&mut self.received.as_slice(), self.limit)
    }
}

/// Whether an answer says by itself that it has ended, for servers that leave the connection open though they were
/// asked to close it.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let field = |name: &str| {
        head.lines()
            .find_map(|line| line.split_once(':').filter(|(n, _)| n.trim() == name))
            .map(|(_, v)| v.trim())
    };
    let body = &bytes[end + 4..];
    match (field("transfer-encoding"), field("content-length")) {
        (Some(_), _) => body == b"0\r\n\r\n" || body.ends_with(b"\r\n0\r\n\r\n"),
        (None, Some(length)) => length.parse().is_ok_and(|length: usize| body.len() >= length),
        (None, None) => false,
    }
}

impl AsFd for Exchange {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_over_ipv6() {
        let listener = std::net::TcpListener::bind("[::1]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut asked = [0; 1000];
            let length = peer.read(&mut asked).unwrap();
            // In two pieces, and the connection stays open.
            peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh").unwrap();
            std::thread::sleep(Duration::from_millis(20));
            peer.write_all(b"i").unwrap();
            (peer, String::from_utf8_lossy(&asked[..length]).into_owned())
        });
        let fetch = Fetch::get(format!("http://[::1]:{port}/x"));
        let deadline = Deadline::after(Duration::from_secs(10));
        let to = fetch.addresses(1, deadline).unwrap()[0];
        let mut exchange = Exchange::begin(&fetch, to, deadline).unwrap();
        let answer = loop {
            if let Some(done) = exchange.advance() {
                break done.unwrap();
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"hi"[..]));
        assert!(server.join().unwrap().1.starts_with(&format!("GET /x HTTP/1.1\r\nHost: [::1]:{port}\r\n")));
    }

    #[test]
    fn addresses_of_urls() {
        let deadline = Deadline::after(Duration::from_secs(1));
        for (url, expected) in [
            ("http://169.254.169.254/x", "169.254.169.254:80"),
            ("http://[fe80::a9fe:a9fe]/", "[fe80::a9fe:a9fe%7]:80"),
            ("http://[fe80::1%25lo]:81/", "[fe80::1%1]:81"),
            ("http://[fd00:ec2::254]/", "[fd00:ec2::254]:80"),
        ] {
            let fetch = Fetch::get(url);
            assert_eq!(fetch.addresses(7, deadline).unwrap()[0].to_string(), expected);
            assert!(!fetch.names_a_host());
        }
        assert!(Fetch::get("http://name/").names_a_host());
        assert!(Fetch::get("https://10.0.0.1/").addresses(0, deadline).is_err());
    }

    #[test]
    fn ends() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", true),
            ("HTTP/1.1 200 OK\r\ncontent-length : 0\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", false),
            ("HTTP/1.1 200 OK\r\n\r\nhi", false),
            ("HTTP/1.1 200 OK\r\n", false),
        ] {
            assert_eq!(is_whole(text.as_bytes()), expected, "{text:?}");
        }
    }
}
