//! A single non-blocking HTTP exchange: started, polled, completed. A caller that drives several at once (a race between
//! metadata addresses) waits for all their descriptors together. Plain http, no proxy, no redirects.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};

use super::connect::PendingLookup;
use super::imds;
use super::incoming::Incoming;
use super::limits::TimeLimits;
use super::message;
use super::request::{Request, RequestParts, Response};
use super::url::{Url, redact_except};
use crate::{Deadline, Error, Result, ResultExt, System};

/// A non-blocking connection without a request: it is being established, or the server keeps it open after a response.
#[derive(Debug)]
pub struct KeptConnection {
    stream: TcpStream,
    /// The server.
    pub(super) to: SocketAddr,
    is_connected: bool,
    /// A response was received. The server may close the connection at any time then.
    has_served: bool,
}

/// One HTTP request on a non-blocking connection, for exchanges that run in parallel.
#[derive(Debug)]
pub struct Exchange {
    connection: KeptConnection,
    limits: TimeLimits,
    /// The bytes that are not sent yet.
    unsent: Vec<u8>,
    incoming: Incoming,
    /// Whether the response is complete and the server keeps the connection open.
    is_reusable: bool,
}

/// Starts to connect from a local port, if one is given; with systemd's mark if `marked`.
fn start(port: Option<u16>, to: SocketAddr, marked: bool) -> nix::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket: OwnedFd = socket(family, SockType::Stream, flags, None)?;
    if marked {
        setsockopt(&socket, sockopt::Mark, &imds::MARK)?;
    }
    if let Some(port) = port {
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        // A connection that was closed just before still occupies the port.
        setsockopt(&socket, sockopt::ReuseAddr, &true)?;
        bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(any, port)))?;
    }
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS | Errno::EINTR) => Ok(socket),
        Err(e) => Err(e),
    }
}

impl KeptConnection {
    /// Starts to connect, from a local port if one is given.
    pub(super) fn open(sys: &System, port: Option<u16>, to: SocketAddr) -> Result<KeptConnection> {
        let what = format!("connecting to {to}");
        let (stream, is_connected) = match start(port, to, false) {
            Err(e) if imds::is_locked(&e.into()) => match start(port, to, true) {
                Ok(socket) => (TcpStream::from(socket), false),
                Err(e) => (sys.locked_service.open_bridge(&to, e)?, true),
            },
            started => (TcpStream::from(started.context(&what)?), false),
        };
        stream.set_nonblocking(true).context(&what)?;
        Ok(KeptConnection { stream, to, is_connected, has_served: false })
    }

    /// Sends a request when the connection is established. The deadline is for the whole exchange, the request's timeout
    /// for each wait.
    pub(super) fn send(self, request: &Request, deadline: Deadline) -> Result<Exchange> {
        Ok(self.exchange(request, request.plain_message()?, deadline))
    }

    fn exchange(self, request: &Request, unsent: Vec<u8>, deadline: Deadline) -> Exchange {
        Exchange {
            connection: self,
            limits: TimeLimits::new(request.timeout, Some(deadline)),
            unsent,
            incoming: Incoming::new(request.limit),
            is_reusable: false,
        }
    }

    /// Returns whether the connection is established, without waiting.
    pub(super) fn is_established(&mut self) -> Result<bool> {
        if !self.is_connected {
            if let Some(e) = self.stream.take_error().context("connecting")? {
                return Err(e).context("connecting");
            }
            match self.stream.peer_addr() {
                Ok(_) => self.is_connected = true,
                Err(e) if e.kind() == ErrorKind::NotConnected => {}
                Err(e) => return Err(e).context("connecting"),
            }
        }
        Ok(self.is_connected)
    }

    /// Returns whether the connection has served a request.
    pub(super) fn has_served(&self) -> bool {
        self.has_served
    }

    /// Returns whether the server has closed the connection, or has sent unrequested data.
    pub(super) fn is_closed(&self) -> bool {
        let received = self.stream.peek(&mut [0]);
        !received.is_err_and(|e| matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected))
    }
}

impl Request {
    /// Returns whether the URL is one of https, which [`Exchange`] cannot fetch.
    pub fn is_https(&self) -> bool {
        Url::parse(&self.url).is_ok_and(|url| url.https)
    }

    /// Returns the bytes to send to an http server.
    fn plain_message(&self) -> Result<Vec<u8>> {
        let url = Url::parse(&self.url)?;
        if url.https {
            return Err(Error::new("only http:// URLs can be fetched over a plain connection"));
        }
        let ask =
            RequestParts { url, method: self.method, headers: &self.headers, body: self.body.as_deref() };
        message::request(&ask, false, None)
    }

    /// Starts resolving the host, for at most the timeout of one attempt. A link-local address without a zone is on the
    /// link with this index.
    ///
    /// # Errors
    /// Fails if the URL is invalid, or if the resolver cannot be started.
    pub fn resolve(&self, link: u32) -> Result<PendingLookup> {
        let url = Url::parse(&self.url)?;
        PendingLookup::begin(&url.host, url.port, link, Deadline::after(self.timeout))
    }

    /// Returns whether the host is a name, not an address.
    pub fn has_host_name(&self) -> bool {
        let is_address =
            |host: &str| host.split('%').next().is_some_and(|h| h.parse::<std::net::IpAddr>().is_ok());
        Url::parse(&self.url).is_ok_and(|url| !is_address(&url.host))
    }

    /// Returns the URL without credentials, query and path components that may be secret, for logs.
    pub fn redacted_url(&self) -> String {
        redact_except(&self.url, self.visible_paths)
    }
}

impl Exchange {
    /// Starts connecting to `to`. The deadline is for the whole exchange, the request's timeout for each wait.
    ///
    /// # Errors
    /// Fails if the URL or a header is invalid, or if the connection cannot be started.
    pub fn begin(sys: &System, request: &Request, to: SocketAddr, deadline: Deadline) -> Result<Exchange> {
        let unsent = request.plain_message()?;
        Ok(KeptConnection::open(sys, request.port, to)?.exchange(request, unsent, deadline))
    }

    /// Returns the connection of a complete exchange, if the server accepts another request on it.
    pub fn into_connection(self) -> Option<KeptConnection> {
        self.is_reusable.then_some(KeptConnection { has_served: true, ..self.connection })
    }

    /// Returns whether the connection has served a request before.
    pub(super) fn is_reused(&self) -> bool {
        self.connection.has_served
    }

    /// Returns whether the connection is established; otherwise nothing of the request was sent.
    pub(super) fn is_connected(&self) -> bool {
        self.connection.is_connected
    }

    /// Returns whether to wait for the socket to become writable (`true`) or readable.
    pub fn wants_write(&self) -> bool {
        !self.connection.is_connected || !self.unsent.is_empty()
    }

    /// Continues the exchange without waiting. Returns `None` if it is not finished.
    pub fn poll(&mut self) -> Option<Result<Response>> {
        match self.step() {
            Ok(None) if self.limits.deadline().is_expired() => Some(Err(self.limits.error())),
            Ok(None) => None,
            Ok(Some(done)) => Some(Ok(done)),
            Err(e) => Some(Err(e)),
        }
    }

    fn step(&mut self) -> Result<Option<Response>> {
        if !self.connection.is_connected {
            if !self.connection.is_established()? {
                return Ok(None);
            }
            self.limits.begin_phase();
        }
        while !self.unsent.is_empty() {
            match self.connection.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e).context("sending the request"),
            }
            if self.unsent.is_empty() {
                self.limits.begin_phase();
            }
        }
        let mut piece = [0_u8; 16384];
        loop {
            match self.connection.stream.read(&mut piece) {
                Ok(0) => return self.finish().map(Some),
                Ok(length) => {
                    self.limits.record_bytes(length);
                    if self.incoming.receive(&piece[..length])? {
                        return self.finish().map(Some);
                    }
                    // The deadline applies even if a server never stops sending.
                    if self.limits.deadline().is_expired() {
                        return Ok(None);
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e).context("reading the response"),
            }
        }
    }

    fn finish(&mut self) -> Result<Response> {
        let (response, is_reusable) = self.incoming.finish()?;
        self.is_reusable = is_reusable;
        Ok(response)
    }
}

impl AsFd for Exchange {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn exchange_works_over_ipv6() {
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
        let request = Request::get(format!("http://[::1]:{port}/x"));
        let deadline = Deadline::after(Duration::from_secs(10));
        let to = request.resolve(1).unwrap().poll().unwrap().unwrap()[0];
        let mut exchange = Exchange::begin(&System::new("/nonexistent"), &request, to, deadline).unwrap();
        let response = loop {
            if let Some(done) = exchange.poll() {
                break done.unwrap();
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        assert_eq!((response.status, response.body.as_slice()), (200, &b"hi"[..]));
        assert!(server.join().unwrap().1.starts_with(&format!("GET /x HTTP/1.1\r\nHost: [::1]:{port}\r\n")));
    }

    #[test]
    fn literal_addresses_get_port_and_zone() {
        for (url, expected) in [
            ("http://169.254.169.254/x", "169.254.169.254:80"),
            ("http://[fe80::a9fe:a9fe]/", "[fe80::a9fe:a9fe%7]:80"),
            ("http://[fe80::1%25lo]:81/", "[fe80::1%1]:81"),
            ("http://[fd00:ec2::254]/", "[fd00:ec2::254]:80"),
            ("https://10.0.0.1/", "10.0.0.1:443"),
        ] {
            let request = Request::get(url);
            assert_eq!(request.resolve(7).unwrap().poll().unwrap().unwrap()[0].to_string(), expected);
            assert!(!request.has_host_name());
        }
        assert!(Request::get("http://name/").has_host_name());
        assert!(Request::get("https://10.0.0.1/").plain_message().is_err());
    }
}
