//! IPv4 on the link: an existing lease, DHCP on a packet socket, or a link-local address.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use system::{PacketSocket, Prefix, Protocol, Result, debug, info, random_number, warning};

use crate::changed_link::{ChangedLink, FamilyState, POLL_INTERVAL, Reachability};
use crate::dhcp::client::{Client, Event, Identity};
use crate::dhcp::packet::{self, CLIENT_PORT, SERVER_PORT};
use crate::journal::Rollback;
use crate::lease::Lease;
use crate::lease_keeper::LeaseKeeper;

/// The limit for a NIC's carrier. Some never report one and are tried after this time.
// Wait: the temporary network | the carrier of a NIC | -
const CARRIER_WAIT: Duration = Duration::from_secs(5);
/// Larger than any Ethernet packet; DHCP messages allow 1500.
const BUFFER: usize = 4096;
/// The number of packets that are processed before the other family's turn.
const MAX_PACKETS_PER_TURN: usize = 64;
/// A smaller MTU would disable IPv6 on the link (RFC 8200).
const MIN_MTU: u32 = 1280;

/// The method of configuring IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ipv4Method {
    /// By DHCP, requesting these options in addition to the default ones ([`crate::dhcp::message::option`]).
    Dhcp(&'static [u8]),
    /// With a self-assigned address of 169.254.0.0/16.
    LinkLocal,
}

/// IPv4 on a link.
#[derive(Debug)]
pub struct Ipv4 {
    pub state: FamilyState<Dhcp>,
    /// The first lease, once there is one.
    pub lease: Option<Lease>,
    keeper: Option<LeaseKeeper>,
}

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
    pub fn waiting_for(&self) -> String {
        if self.last.is_empty() { "no DHCP server responded".into() } else { self.last.clone() }
    }
}

impl Ipv4 {
    /// Starts the configuration. A failure becomes the state of this family.
    pub fn begin(method: Option<&Ipv4Method>, link: &mut ChangedLink<'_>) -> Ipv4 {
        let mut this = Ipv4 { state: FamilyState::Disabled, lease: None, keeper: None };
        let started = match method {
            None => Ok(FamilyState::Disabled),
            Some(Ipv4Method::LinkLocal) => assign_link_local(link).map(|()| FamilyState::Ready),
            Some(Ipv4Method::Dhcp(options)) => this.begin_dhcp(options, link),
        };
        this.state = started.unwrap_or_else(|e| FamilyState::Failed(e.to_string()));
        this
    }

    fn begin_dhcp(&mut self, options: &[u8], link: &ChangedLink<'_>) -> Result<FamilyState<Dhcp>> {
        let addresses = link.sys.link_addresses()?;
        if link.info.up
            && let Some((who, lease)) =
                crate::existing_lease::find(link.sys, link.info.index, &link.info.name, &addresses)
        {
            info!(link.sys, "{}: using the existing lease of {who}: {}", link.info.name, lease.address);
            self.lease = Some(lease);
            return Ok(FamilyState::Ready);
        }
        let identity = Identity {
            hardware: u8::try_from(link.info.kind).unwrap_or(1),
            address: link.info.hardware_address(),
            options: options.to_vec(),
        };
        if identity.address.is_empty() || link.info.broadcast.is_empty() {
            return Ok(FamilyState::Failed("the link has no hardware address".into()));
        }
        Ok(FamilyState::Pending(Dhcp {
            socket: Socket::Packet(link.sys.packet_socket(link.info.index, Protocol::Ipv4)?),
            client: Client::new(identity, random_number()),
            began: link.sys.clock().elapsed(),
            has_carrier: false,
            last: String::new(),
        }))
    }

    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            FamilyState::Pending(dhcp) => Some(dhcp.fd()),
            _ => None,
        }
    }

    /// Returns whether addresses are reachable. They are not while a lost lease is acquired again.
    pub fn reachability(&self) -> Reachability {
        match &self.keeper {
            Some(keeper) if !keeper.has_lease() => Reachability::Pending,
            _ => self.state.reachability(),
        }
    }

    /// Returns the time until there is something to do.
    pub fn next_wait(&self, link: &ChangedLink<'_>) -> Option<Duration> {
        let FamilyState::Pending(dhcp) = &self.state else { return None };
        Some(dhcp.next_wait(link))
    }

    pub fn advance(&mut self, link: &mut ChangedLink<'_>) {
        let FamilyState::Pending(dhcp) = &mut self.state else { return };
        let applied = match dhcp.step(link) {
            Ok(None) => return,
            Ok(Some(lease)) => apply_lease(&lease, link).map(|is_added| (lease, is_added)),
            Err(e) => Err(e),
        };
        self.state = match (applied, std::mem::replace(&mut self.state, FamilyState::Ready)) {
            (Err(e), _) => FamilyState::Failed(e.to_string()),
            (Ok((lease, is_added)), FamilyState::Pending(dhcp)) => {
                if is_added && lease.lifetime.is_some() {
                    self.keeper = LeaseKeeper::start(dhcp, lease.clone(), link);
                }
                self.lease = Some(lease);
                FamilyState::Ready
            }
            (Ok(_), state) => state,
        };
    }
}

impl Dhcp {
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

/// Returns an address in the range of RFC 3927. It is used for seconds, so conflicts are not probed.
fn assign_link_local(link: &mut ChangedLink<'_>) -> Result<()> {
    let [a, b, ..] = random_number().to_ne_bytes();
    let address = Prefix::new(Ipv4Addr::new(169, 254, 1 + a % 254, b), 16);
    assign_address(link, address, Some(Ipv4Addr::new(169, 254, 255, 255)), None).map(drop)
}

/// Adds an address. Returns `false` if the link has it already.
fn assign_address(
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
        if let Err(e) = link.change(Rollback::Mtu(before), |sys| sys.set_link_mtu(&name, mtu).map(|()| true))
        {
            warning!(link.sys, "{e}");
        }
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
