//! The DHCP exchange on a link, and the configuration of the link by a lease.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use system::{Level, PacketSocket, Prefix, Protocol, Result, debug, info, random_number, warning};

use crate::changed_link::{ChangedLink, POLL_INTERVAL};
use crate::dhcp::client::{Client, Event, Identity};
use crate::dhcp::packet::{self, CLIENT_PORT, SERVER_PORT};
use crate::journal::Rollback;
use crate::lease::Lease;

/// The limit for a NIC's carrier. Some never report one and are tried after this time.
// Wait: the temporary network | the carrier of a NIC | -
const CARRIER_WAIT: Duration = Duration::from_secs(5);
/// Larger than any Ethernet packet; DHCP messages allow 1500.
const BUFFER: usize = 4096;
/// The number of packets that are processed before the other family's turn.
const MAX_PACKETS_PER_TURN: usize = 64;
/// A smaller MTU would disable IPv6 on the link (RFC 8200).
const MIN_MTU: u32 = 1280;

/// The DHCP exchange.
#[derive(Debug)]
pub struct Dhcp {
    socket: Socket,
    pub client: Client,
    /// The time at which DHCP began; the client's times count from it.
    began: Duration,
    has_carrier: bool,
    last: String,
}

/// A socket for DHCP: below the kernel's IP, which needs an address, or, while there is a lease, above it.
#[derive(Debug)]
enum Socket {
    Packet(PacketSocket),
    Udp(UdpSocket),
}

impl Socket {
    /// Returns the sender and content of the next message, without waiting.
    fn receive<'b>(&self, buffer: &'b mut [u8]) -> std::io::Result<Option<(Ipv4Addr, &'b [u8])>> {
        match self {
            // Other packets are counted as empty messages.
            Socket::Packet(socket) => Ok(socket
                .receive(buffer)?
                .map(|packet| packet::parse_client_packet(packet).unwrap_or((Ipv4Addr::UNSPECIFIED, &[])))),
            Socket::Udp(socket) => match socket.recv_from(buffer) {
                Ok((length, SocketAddr::V4(from))) => Ok(Some((*from.ip(), &buffer[..length]))),
                Err(e) if !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Err(e),
                _ => Ok(None),
            },
        }
    }

    fn send(&self, message: &[u8], to: Ipv4Addr, link: &ChangedLink<'_>) -> std::io::Result<()> {
        match self {
            Socket::Packet(socket) => socket.send(&packet::broadcast_packet(message), &link.info.broadcast),
            Socket::Udp(socket) => socket.send_to(message, (to, SERVER_PORT)).map(drop),
        }
    }
}

impl Dhcp {
    /// Returns the exchange for a link at its start.
    ///
    /// # Errors
    /// Fails if the socket cannot be opened.
    pub fn new(identity: Identity, link: &ChangedLink<'_>) -> Result<Dhcp> {
        Ok(Dhcp {
            socket: Socket::Packet(link.sys.packet_socket(link.info.index, Protocol::Ipv4)?),
            client: Client::new(identity, random_number()),
            began: link.sys.clock().elapsed(),
            has_carrier: false,
            last: String::new(),
        })
    }

    pub fn waiting_for(&self) -> String {
        if self.last.is_empty() { "no DHCP server responded".into() } else { self.last.clone() }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Packet(socket) => socket.as_fd(),
            Socket::Udp(socket) => socket.as_fd(),
        }
    }

    /// Returns the time until there is something to do.
    pub fn next_wait(&self, link: &ChangedLink<'_>) -> Duration {
        let now = link.sys.clock().elapsed().saturating_sub(self.began);
        if self.has_carrier { self.client.next_poll().saturating_sub(now) } else { POLL_INTERVAL }
    }

    /// Opens the socket for the client's state, with or without a lease.
    pub fn open_socket(&mut self, link: &ChangedLink<'_>) -> Result<()> {
        self.socket = match self.client.destination() {
            Some(_) => Socket::Udp(link.sys.udp_socket(&link.info.name, CLIENT_PORT)?),
            None => Socket::Packet(link.sys.packet_socket(link.info.index, Protocol::Ipv4)?),
        };
        Ok(())
    }

    /// Sends the next message if it is due, and processes received packets. Returns the lease, once it is granted.
    pub fn step(&mut self, link: &mut ChangedLink<'_>) -> Result<Option<Lease>> {
        let now = link.sys.clock().elapsed();
        if !self.has_carrier {
            link.refresh();
            if !link.info.carrier && now.saturating_sub(self.began) < CARRIER_WAIT {
                return Ok(None);
            }
            self.has_carrier = true;
            self.began = now;
        }
        let now = now.saturating_sub(self.began);
        let mut buffer = [0; BUFFER];
        for _ in 0..MAX_PACKETS_PER_TURN {
            let Some((source, message)) =
                self.socket.receive(&mut buffer).map_err(|e| system::Error::io("receiving DHCP", &e))?
            else {
                break;
            };
            if message.is_empty() {
                continue;
            }
            match self.client.receive(now, source, message) {
                Event::Ignored(why) => {
                    debug!(link.sys, "{}: ignoring DHCP message from {source}: {why}", link.info.name)
                }
                Event::Offered(server) => {
                    debug!(link.sys, "{}: received DHCPOFFER from {server}", link.info.name);
                    self.last = format!("DHCP server {server} sent DHCPOFFER but no DHCPACK");
                }
                Event::Refused(words) => {
                    warning!(link.sys, "{}: DHCPNAK from {source}: {words}", link.info.name);
                    self.last = format!("DHCP server {source} withdrew its offer (DHCPNAK)");
                }
                Event::Granted(lease) => return Ok(Some(*lease)),
            }
        }
        let Some(message) = self.client.poll(now) else { return Ok(None) };
        let to = self.client.destination().unwrap_or(Ipv4Addr::BROADCAST);
        if let Err(e) = self.socket.send(&message, to, link) {
            // The link is coming up or went down: it is tried again later.
            self.last = format!("sending on {}: {e}", link.info.name);
            debug!(link.sys, "{}", self.last);
        }
        Ok(None)
    }
}

/// Adds an address. Returns `false` if the link has it already.
pub fn assign_address(
    link: &mut ChangedLink<'_>,
    address: Prefix,
    broadcast: Option<Ipv4Addr>,
    time: Option<Duration>,
) -> Result<bool> {
    let index = link.info.index;
    let has_address =
        link.sys.link_addresses()?.iter().any(|a| a.index == index && a.prefix.address == address.address);
    if has_address {
        debug!(link.sys, "{} has {address} already", link.info.name);
        return Ok(false);
    }
    link.change(Rollback::Address(address), |sys| sys.add_address(index, address, broadcast, time))
}

/// Configures the link and the routing table as granted. Returns `false` if the link has had the address.
pub fn apply_lease(lease: &Lease, link: &mut ChangedLink<'_>) -> Result<bool> {
    let server = lease.server.map_or("an unidentified server".into(), |s| s.to_string());
    let time = lease.lifetime.map_or("without a lease time".into(), |t| format!("for {} s", t.as_secs()));
    info!(link.sys, "{}: {} from {server}, {time}", link.info.name, lease.address);
    let name = link.info.name.clone();
    if let Some(mtu) = lease.mtu.filter(|m| *m >= MIN_MTU && *m < link.info.mtu) {
        let before = link.info.mtu;
        // Packets larger than the path's MTU would be lost silently. A smaller MTU is not required.
        let changed = link.change(Rollback::Mtu(before), |sys| sys.set_link_mtu(&name, mtu).map(|()| true));
        link.sys.log_error(Level::Warning, changed);
    }
    let is_added = assign_address(link, lease.address, lease.broadcast(), lease.lifetime)?;
    let all = link.sys.routes()?;
    let has_default = all.iter().any(|r| r.to == Prefix::default_route(false));
    for route in lease.plan_routes(link.info.index, has_default) {
        let made = link.change(Rollback::Route(route.to, route.via), |sys| sys.add_route(&route));
        if let Err(e) = made {
            // The other routes may suffice: the path to the metadata is usually one of several.
            warning!(link.sys, "{}: {e}", link.info.name);
        }
    }
    Ok(is_added)
}
