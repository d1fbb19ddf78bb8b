//! IPv4 on the link: an existing lease, DHCP on a packet socket, or a link-local address.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use system::{PacketSocket, Prefix, Protocol, Result, debug, info, warning};

use crate::changed_link::{ChangedLink, FamilyState, POLL_INTERVAL};
use crate::dhcp::client::{Client, Event, Identity};
use crate::dhcp::packet;
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
    pub state: FamilyState<PendingIpv4>,
    /// The lease, once there is one.
    pub lease: Option<Lease>,
}

/// The DHCP exchange.
#[derive(Debug)]
pub struct PendingIpv4 {
    socket: PacketSocket,
    client: Client,
    /// The time at which DHCP began; the client's times count from it.
    began: Duration,
    has_carrier: bool,
    last: String,
}

impl PendingIpv4 {
    pub fn waiting_for(&self) -> String {
        if self.last.is_empty() { "no DHCP server responded".into() } else { self.last.clone() }
    }
}

impl Ipv4 {
    /// Starts the configuration. A failure becomes the state of this family.
    pub fn begin(method: Option<&Ipv4Method>, link: &mut ChangedLink<'_>) -> Ipv4 {
        let mut this = Ipv4 { state: FamilyState::Disabled, lease: None };
        let started = match method {
            None => Ok(FamilyState::Disabled),
            Some(Ipv4Method::LinkLocal) => assign_link_local(link).map(|()| FamilyState::Ready),
            Some(Ipv4Method::Dhcp(options)) => this.begin_dhcp(options, link),
        };
        this.state = started.unwrap_or_else(|e| FamilyState::Failed(e.to_string()));
        this
    }

    fn begin_dhcp(&mut self, options: &[u8], link: &ChangedLink<'_>) -> Result<FamilyState<PendingIpv4>> {
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
        Ok(FamilyState::Pending(PendingIpv4 {
            socket: link.sys.packet_socket(link.info.index, Protocol::Ipv4)?,
            client: Client::new(identity, random()),
            began: link.sys.clock().elapsed(),
            has_carrier: false,
            last: String::new(),
        }))
    }

    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            FamilyState::Pending(v4) => Some(v4.socket.as_fd()),
            _ => None,
        }
    }

    /// Returns the time until there is something to do.
    pub fn next_wait(&self, link: &ChangedLink<'_>) -> Option<Duration> {
        let FamilyState::Pending(v4) = &self.state else { return None };
        let now = link.sys.clock().elapsed().saturating_sub(v4.began);
        if v4.has_carrier {
            v4.client.next_poll().map(|at| at.saturating_sub(now))
        } else {
            Some(POLL_INTERVAL)
        }
    }

    pub fn advance(&mut self, link: &mut ChangedLink<'_>) {
        let lease = &mut self.lease;
        self.state.advance(|pending| {
            let Some(granted) = pending.step(link)? else { return Ok(false) };
            apply_lease(&granted, link)?;
            *lease = Some(granted);
            Ok(true)
        });
    }
}

impl PendingIpv4 {
    /// Sends the next message if it is due, and processes received packets. Returns the lease, once it is granted.
    fn step(&mut self, link: &mut ChangedLink<'_>) -> Result<Option<Lease>> {
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
            let Some(packet) =
                self.socket.receive(&mut buffer).map_err(|e| system::Error::io("receiving DHCP", &e))?
            else {
                break;
            };
            let Some((source, message)) = packet::parse_client_packet(packet) else { continue };
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
        if let Some(message) = self.client.poll(now)
            && let Err(e) = self.socket.send(&packet::broadcast_packet(&message), &link.info.broadcast)
        {
            // The link is coming up or went down: it is tried again later.
            self.last = format!("sending on {}: {e}", link.info.name);
            debug!(link.sys, "{}", self.last);
        }
        Ok(None)
    }
}

/// Returns a number that is random enough for jitter, transaction IDs and link-local addresses. It must not wait until the
/// kernel's generator is seeded, as [`System::random_bytes`] does: the seed may be in the metadata that this DHCP is for. std
/// takes the keys of its hash maps from getrandom(2) with `GRND_INSECURE`, or from /dev/urandom on older kernels.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns an address in the range of RFC 3927. It is used for seconds, so conflicts are not probed.
fn assign_link_local(link: &mut ChangedLink<'_>) -> Result<()> {
    let [a, b, ..] = random().to_ne_bytes();
    let address = Prefix::new(Ipv4Addr::new(169, 254, 1 + a % 254, b), 16);
    assign_address(link, address, Some(Ipv4Addr::new(169, 254, 255, 255)), None)
}

fn assign_address(
    link: &mut ChangedLink<'_>,
    address: Prefix,
    broadcast: Option<Ipv4Addr>,
    time: Option<Duration>,
) -> Result<()> {
    let index = link.info.index;
    let has_address =
        link.sys.link_addresses()?.iter().any(|a| a.index == index && a.prefix.address == address.address);
    if has_address {
        debug!(link.sys, "{} has {address} already", link.info.name);
        return Ok(());
    }
    link.change(Rollback::Address(address), |sys| sys.add_address(index, address, broadcast, time))?;
    Ok(())
}

/// Configures the link and the routing table as granted.
fn apply_lease(lease: &Lease, link: &mut ChangedLink<'_>) -> Result<()> {
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
    assign_address(link, lease.address, lease.broadcast(), lease.lifetime)?;
    let all = link.sys.routes()?;
    let has_default = all.iter().any(|r| r.to == Prefix::default_route(false));
    for route in lease.plan_routes(link.info.index, has_default) {
        let made = link.change(Rollback::Route(route.to, route.via), |sys| sys.add_route(&route));
        if let Err(e) = made {
            // The other routes may suffice: the path to the metadata is usually one of several.
            warning!(link.sys, "{}: {e}", link.info.name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn random_numbers_differ() {
        let mut drawn: Vec<u64> = (0..100).map(|_| super::random()).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 100);
        // Every bit is used: jitter takes the lower ones, an address the bytes.
        assert_eq!(drawn.iter().fold(0, |all, one| all | one), u64::MAX);
    }
}
