//! Connections: names are resolved and addresses tried within the deadline, through a proxy if the environment names one.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpStream, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;

use super::imds;
use super::limits::TimeLimits;
use super::message;
use super::url::Url;
use crate::{Deadline, Error, Mailbox, Prefix, Result, ResultExt, System, channel};

/// glibc loads parts of its resolver at run time, which a static binary cannot do; musl's resolver is complete.
const RESOLVES_NAMES: bool = !cfg!(all(target_env = "gnu", target_feature = "crt-static"));
/// The size limit of a proxy's response to CONNECT.
const MAX_PROXY_HEAD: usize = 16 << 10;

/// A TCP connection whose reads and writes are limited by [`TimeLimits`].
pub struct Connection {
    pub stream: TcpStream,
    pub limits: TimeLimits,
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(Some(self.limits.timeout()?))?;
        let read = self.stream.read(buffer)?;
        self.limits.record_bytes(read);
        Ok(read)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(Some(self.limits.timeout()?))?;
        let written = self.stream.write(bytes)?;
        self.limits.record_bytes(written);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Connects to a host: each of its addresses gets its share of the time. Resolving its name may take as long again.
pub fn connect(sys: &System, host: &str, port: u16, mut limits: TimeLimits) -> Result<Connection> {
    limits.begin_phase();
    let addresses = addresses(host, port, limits.deadline())?;
    limits.begin_phase();
    let deadline = limits.deadline();
    let mut last = Error::new(format!("no addresses found for {host}"));
    for (i, address) in addresses.iter().enumerate() {
        let share = deadline.remaining() / (addresses.len() - i) as u32;
        let share = share.max(Duration::from_millis(1));
        let connected = match TcpStream::connect_timeout(address, share) {
            Err(e) if imds::is_locked(&e) => sys.locked_service.connect(address, share),
            Err(e) if e.kind() == ErrorKind::TimedOut => {
                Err(Error::new(format!("connecting to {host} port {port} timed out")))
            }
            connected => connected.context(format_args!("connecting to {host} port {port}")),
        };
        match connected {
            Ok(stream) => {
                // Nagle's algorithm would only delay a request, which is sent in one piece.
                let _ = stream.set_nodelay(true);
                limits.begin_phase();
                return Ok(Connection { stream, limits });
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// Connects to a Unix socket. Its stream is typed as TCP's: only reads, writes and their timeouts are used, which are
/// the same.
pub fn connect_unix(path: &Path, name: &str, mut limits: TimeLimits) -> Result<Connection> {
    limits.begin_phase();
    let socket = channel::connect_unix(path, limits.deadline().remaining());
    let stream = TcpStream::from(socket.context(format_args!("connecting to {name}"))?);
    limits.begin_phase();
    Ok(Connection { stream, limits })
}

/// Returns the addresses of a host, if they are known by the deadline.
pub fn addresses(host: &str, port: u16, deadline: Deadline) -> Result<Vec<SocketAddr>> {
    PendingLookup::begin(host, port, 0, deadline)?.wait()
}

/// Returns whether a packet can be sent to a host or, for a name, to a server that may know its address. The resolver waits for
/// its whole time limit if none can.
pub fn is_routed(sys: &System, host: &str) -> bool {
    // The resolver reads the files of the running system, whatever the root is.
    let text = |path| System::new("/").read_text(path).unwrap_or_default();
    let has_network =
        || !sys.is_live() || sys.link_addresses().map_or(true, |all| all.iter().any(|a| a.global));
    is_routed_by(host, &text("/etc/hosts"), &text("/etc/resolv.conf"), &has_route, &has_network)
}

fn is_routed_by(
    host: &str,
    hosts: &str,
    resolv_conf: &str,
    has_route: &dyn Fn(SocketAddr) -> bool,
    has_network: &dyn Fn() -> bool,
) -> bool {
    if let Ok(Some(address)) = parse_address(host, DNS_PORT) {
        return has_route(address);
    }
    let is_known = |line: &str| line.split_whitespace().skip(1).any(|name| name.eq_ignore_ascii_case(host));
    if host == "localhost" || hosts.lines().any(is_known) {
        return true;
    }
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| *word == "nameserver").and(words.next());
        address.and_then(|address| parse_address(address, DNS_PORT).ok()?)
    };
    let mut servers = resolv_conf.lines().filter_map(server).peekable();
    if servers.peek().is_none() {
        return has_network();
    }
    // A server on this machine asks others.
    servers.any(|server| if server.ip().is_loopback() { has_network() } else { has_route(server) })
}

const DNS_PORT: u16 = 53;

/// Returns whether the kernel has a route to an address. Sends nothing.
fn has_route(address: SocketAddr) -> bool {
    let any: IpAddr =
        if address.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let connected = UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(address));
    let failed = connected.err().and_then(|e| e.raw_os_error()).map(Errno::from_raw);
    // Another failure says nothing of the network.
    !matches!(
        failed,
        Some(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL | Errno::ENETUNREACH | Errno::EHOSTUNREACH)
    )
}

/// A name resolution in progress. The resolver does not support deadlines: after one it is abandoned with its thread.
#[derive(Debug)]
pub struct PendingLookup {
    host: String,
    found: Mailbox<std::io::Result<Vec<SocketAddr>>>,
    /// The link of link-local addresses without a zone; 0 if it is unknown.
    link: u32,
    until: Deadline,
}

impl PendingLookup {
    /// Begins a resolution; that of an address is complete at once.
    pub(super) fn begin(host: &str, port: u16, link: u32, until: Deadline) -> Result<PendingLookup> {
        let found = Mailbox::default();
        let lookup = PendingLookup { host: host.to_string(), found: found.clone(), link, until };
        if let Some(address) = parse_address(host, port)? {
            found.put(Ok(vec![address]));
            return Ok(lookup);
        }
        if !RESOLVES_NAMES {
            let message = "name resolution is not available in static glibc builds; use an address";
            return Err(Error::new(message));
        }
        let name = (host.to_string(), port);
        let look = move || found.put(name.to_socket_addrs().map(Vec::from_iter));
        let started = std::thread::Builder::new().name("resolver".into()).spawn(look);
        started.map(|_| lookup).context(format_args!("resolving {host}"))
    }

    /// Returns the addresses, or why the resolution failed; `None` while it is in progress.
    pub fn poll(&self) -> Option<Result<Vec<SocketAddr>>> {
        match self.found.take() {
            Some(found) => Some(self.check(found)),
            None => self.until.is_expired().then(|| Err(self.timeout_error())),
        }
    }

    fn wait(&self) -> Result<Vec<SocketAddr>> {
        self.found.wait(Some(self.until)).map_or_else(|| Err(self.timeout_error()), |found| self.check(found))
    }

    fn check(&self, found: std::io::Result<Vec<SocketAddr>>) -> Result<Vec<SocketAddr>> {
        let mut found = found.map_err(|_| Error::new(format!("could not resolve {}", self.host)))?;
        for address in &mut found {
            if let SocketAddr::V6(address) = address
                && address.ip().is_unicast_link_local()
                && address.scope_id() == 0
            {
                address.set_scope_id(self.link);
            }
        }
        Ok(found)
    }

    fn timeout_error(&self) -> Error {
        Error::new(format!("resolving {} timed out", self.host))
    }
}

/// Parses a host that is an address, `fe80::1%eth0` included.
fn parse_address(host: &str, port: u16) -> Result<Option<SocketAddr>> {
    let (bare, zone) = host.split_once('%').map_or((host, None), |(bare, zone)| (bare, Some(zone)));
    let Ok(address) = bare.parse::<IpAddr>() else { return Ok(None) };
    Ok(Some(match (address, zone) {
        (IpAddr::V6(address), Some(zone)) => {
            let scope = zone.parse().or_else(|_| nix::net::if_::if_nametoindex(zone));
            let scope = scope.map_err(|_| Error::new(format!("no network interface named {zone}")))?;
            SocketAddrV6::new(address, port, 0, scope).into()
        }
        _ => (address, port).into(),
    }))
}

/// A proxy from the environment.
#[derive(Debug, PartialEq, Eq)]
pub struct Proxy {
    pub url: Url,
}

impl Proxy {
    /// Returns the proxy as Python's requests selects it: `https_proxy` or `http_proxy`, else `all_proxy`, unless
    /// `no_proxy` names the host; in lower or upper case. Loopback and link-local addresses, at which metadata services
    /// are, are specific to this machine and never requested through a proxy.
    pub fn from_environment(
        url: &Url,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Proxy>> {
        let variable = |name: &str| {
            let value = environment(name).or_else(|| environment(&name.to_ascii_uppercase()));
            value.map(|v| v.trim().to_string()).filter(|v| !v.is_empty())
        };
        let Some(proxy) =
            variable(if url.https { "https_proxy" } else { "http_proxy" }).or_else(|| variable("all_proxy"))
        else {
            return Ok(None);
        };
        if is_local(&url.host)
            || variable("no_proxy").is_some_and(|list| matches_no_proxy(&url.host, url.port, &list))
        {
            return Ok(None);
        }
        let proxy = if proxy.contains("://") { proxy } else { format!("http://{proxy}") };
        match Url::parse(&proxy) {
            Ok(parsed) if !parsed.https => Ok(Some(Proxy { url: parsed })),
            Ok(_) => Err(Error::new("https:// proxies are not supported (from the environment)")),
            Err(e) => Err(Error::new(format!("invalid proxy in the environment: {e}"))),
        }
    }

    pub fn connect(&self, sys: &System, limits: TimeLimits) -> Result<Connection> {
        connect(sys, &self.url.host, self.url.port, limits).context("proxy")
    }

    /// Connects to the host of `url` through the proxy.
    pub fn tunnel(&self, sys: &System, url: &Url, limits: TimeLimits) -> Result<Connection> {
        let mut connection = self.connect(sys, limits)?;
        self.open_tunnel(&mut connection, url).map_err(|e| match e.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                Error::new(format!("proxy: {}", connection.limits.error()))
            }
            ErrorKind::Other => Error::new(e.to_string()),
            _ => Error::io("proxy: opening a tunnel", &e),
        })?;
        connection.limits.begin_phase();
        Ok(connection)
    }

    fn open_tunnel(&self, connection: &mut Connection, url: &Url) -> std::io::Result<()> {
        connection.write_all(&message::connect(url, self.url.user.as_deref()))?;
        connection.limits.begin_phase();
        // One byte at a time: what follows the head belongs to the tunneled connection.
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_PROXY_HEAD {
            connection.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        match message::parse_head(&head) {
            Ok(Some(response)) if (200..300).contains(&response.status) => Ok(()),
            Ok(Some(response)) => {
                Err(std::io::Error::other(format!("proxy: no tunnel, status {}", response.status)))
            }
            Ok(None) | Err(_) => Err(std::io::Error::other("proxy: invalid HTTP response")),
        }
    }
}

/// Returns whether an address is a loopback or link-local one.
fn is_local(host: &str) -> bool {
    match host.split('%').next().unwrap_or(host).parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => address.is_loopback() || address.is_unicast_link_local(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// Returns whether `no_proxy` names the host: `*`, hosts, domains (with or without a leading dot), networks, each with
/// an optional port.
fn matches_no_proxy(host: &str, port: u16, list: &str) -> bool {
    let host = host.to_ascii_lowercase();
    list.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        if entry == "*" || entry == host {
            return true;
        }
        if let (Some((network, bits)), Ok(address)) = (entry.split_once('/'), host.parse::<IpAddr>()) {
            return in_network(address, network, bits).unwrap_or(false);
        }
        let (name, of_port) = entry.rsplit_once(':').unwrap_or((&entry, ""));
        let name = name.trim_start_matches('.');
        let is_in_domain =
            || host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        !name.is_empty() && (of_port.is_empty() || of_port.parse() == Ok(port)) && is_in_domain()
    })
}

fn in_network(address: IpAddr, network: &str, bits: &str) -> Option<bool> {
    let (network, bits): (IpAddr, u8) = (network.parse().ok()?, bits.parse().ok()?);
    let prefix = Prefix::new(network, bits);
    (prefix.length == bits).then(|| prefix.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_is_chosen_from_the_environment() {
        type Case = (&'static str, &'static [(&'static str, &'static str)], &'static str);
        let table: [Case; 16] = [
            ("http://h/", &[], "-"),
            ("http://h/", &[("http_proxy", "http://p:3128"), ("https_proxy", "q:1")], "p:3128"),
            ("https://h/", &[("http_proxy", "http://p:3128"), ("HTTPS_PROXY", "q:1")], "q:1"),
            ("https://h/", &[("all_proxy", "http://u:p@q:1/")], "q:1"),
            ("https://h/", &[("https_proxy", ""), ("ALL_PROXY", "q:1")], "q:1"),
            ("https://h/", &[("https_proxy", "q:1"), ("no_proxy", "*")], "-"),
            ("https://a.h.test/", &[("https_proxy", "q:1"), ("NO_PROXY", "x, .H.test")], "-"),
            ("https://ah.test/", &[("https_proxy", "q:1"), ("no_proxy", "h.test,ah.test:80")], "q:1"),
            ("https://10.1.2.3/", &[("https_proxy", "q:1"), ("no_proxy", "10.0.0.0/8")], "-"),
            ("https://11.1.2.3/", &[("https_proxy", "q:1"), ("no_proxy", "10.0.0.0/8,fd00::/8,x/y")], "q:1"),
            ("https://[fd00::7]/", &[("https_proxy", "q:1"), ("no_proxy", "::/0")], "-"),
            (
                "https://10.1.2.3/",
                &[("https_proxy", "q:1"), ("no_proxy", "10.1.2.3/33,::/0,10.1.2/24")],
                "q:1",
            ),
            ("http://127.0.0.1/", &[("http_proxy", "q:1")], "-"),
            ("http://[::1]/", &[("http_proxy", "q:1")], "-"),
            ("http://169.254.169.254/", &[("http_proxy", "q:1")], "-"),
            ("http://[fe80::1%25eth0]/", &[("http_proxy", "q:1")], "-"),
        ];
        for (url, variables, expected) in table {
            let environment =
                |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string());
            let proxy = Proxy::from_environment(&Url::parse(url).unwrap(), &environment).unwrap();
            let shown = proxy.map_or("-".into(), |p| p.url.host_and_port());
            assert_eq!(shown, expected, "{url} {variables:?}");
        }
        for bad in ["https://p/", "socks5://u:secret@p/", "http://u:secret@p:x/"] {
            let e = Proxy::from_environment(&Url::parse("http://h/").unwrap(), &|n| {
                (n == "http_proxy").then(|| bad.into())
            });
            assert!(!e.unwrap_err().to_string().contains("secret"));
        }
    }

    #[test]
    fn without_a_route_to_a_host_or_a_name_server_nothing_is_tried() {
        const STUB: &str = "# x\nnameserver 127.0.0.53\noptions edns0\n";
        const LAN: &str = "nameserver 192.0.2.1\nnameserver 10.0.0.2\n";
        let routes =
            |address: SocketAddr| address.ip().is_loopback() || address.to_string().starts_with("10.");
        for (host, resolv_conf, has_network, expected) in [
            ("127.0.0.1", "", false, true),
            ("10.1.2.3", "", false, true),
            ("192.0.2.7", LAN, true, false),
            ("2001:db8::1", LAN, true, false),
            ("localhost", "", false, true),
            ("MIRROR", STUB, false, true),
            ("a.example", STUB, false, false),
            ("a.example", STUB, true, true),
            ("a.example", "", false, false),
            ("a.example", LAN, false, true),
            ("a.example", "nameserver 192.0.2.1\n", true, false),
        ] {
            let hosts = "127.0.0.1 localhost\n10.0.0.9 x mirror\n";
            let routed = is_routed_by(host, hosts, resolv_conf, &routes, &|| has_network);
            assert_eq!(routed, expected, "{host} {resolv_conf} {has_network}");
        }
        assert!(has_route(SocketAddr::from(([127, 0, 0, 1], 1))));
    }

    /// Opens a tunnel through a proxy with each response, with a limit of half a second for a silence.
    #[test]
    fn failing_proxies_are_reported() {
        type Answer = fn(&mut TcpStream) -> std::io::Result<()>;
        let table: [(Answer, &str); 6] = [
            (
                |_| {
                    std::thread::sleep(Duration::from_secs(9));
                    Ok(())
                },
                "proxy: no response in time (0.5 s)",
            ),
            (|_| Ok(()), "proxy: opening a tunnel: "),
            (|s| write!(s, "HTTP/1.1 407 No\r\n\r\n"), "proxy: no tunnel, status 407"),
            (|s| write!(s, "SSH-2.0-x\r\n\r\n"), "proxy: invalid HTTP response"),
            (
                |s| loop {
                    s.write_all(b"H")?;
                    std::thread::sleep(Duration::from_millis(100));
                },
                "proxy: too slow: less than 4096 bytes per second",
            ),
            (
                |s| loop {
                    s.write_all(b"HTTP/1.1 200 X\r\nX: y\r\n")?;
                },
                "proxy: invalid HTTP response",
            ),
        ];
        for (answer, expected) in table {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let place = listener.local_addr().unwrap();
            std::thread::spawn(move || {
                let (mut peer, _) = listener.accept().unwrap();
                let _ = peer.read(&mut [0; 1000]);
                answer(&mut peer)
            });
            let proxy = Proxy { url: Url::parse(&format!("http://{place}")).unwrap() };
            let limits = TimeLimits::new(Duration::from_millis(500), None);
            let e = match proxy.tunnel(
                &System::new("/nonexistent"),
                &Url::parse("https://h/").unwrap(),
                limits,
            ) {
                Ok(_) => "a tunnel".to_string(),
                Err(e) => e.to_string(),
            };
            assert!(e.starts_with(expected), "{expected}: {e}");
        }
    }
}
