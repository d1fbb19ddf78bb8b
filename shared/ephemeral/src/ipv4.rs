//! IPv4 on the link: an existing lease, DHCP on a packet socket, or a link-local address.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use system::{PacketSocket, Prefix, Protocol, Result, debug, info, warning};

use crate::dhcp::client::{Client, Event, Identity};
use crate::dhcp::packet;
use crate::journal::Rollback;
use crate::{EphemeralNetwork, FamilyState, Lease, POLL_INTERVAL};

/// A NIC may take so long to find its carrier; some never say that they have one, so they are tried then.
const CARRIER_WAIT: Duration = Duration::from_secs(5);
/// Larger than any Ethernet packet; DHCP messages say 1500.
const BUFFER: usize = 4096;
/// Packets that are looked at before the other family gets its turn.
const MAX_PACKETS_PER_TURN: usize = 64;
/// Less would end IPv6 on the link (RFC 8200).
const MIN_MTU: u32 = 1280;

/// DHCP under way.
#[derive(Debug)]
pub struct PendingIpv4 {
    socket: PacketSocket,
    client: Client,
    /// When DHCP was wanted; times of the client count from here.
    began: Duration,
    has_carrier: bool,
    last: String,
}

impl PendingIpv4 {
    pub fn waiting_for(&self) -> String {
        if self.last.is_empty() { "no DHCP server responded".into() } else { self.last.clone() }
    }
}

impl EphemeralNetwork<'_> {
    pub(crate) fn begin_v4(&mut self, wanted: &crate::Ipv4Method) -> FamilyState<PendingIpv4> {
        let started = match wanted {
            crate::Ipv4Method::LinkLocal => self.assign_link_local().map(|()| FamilyState::Ready),
            crate::Ipv4Method::Dhcp(options) => self.begin_dhcp(options),
        };
        started.unwrap_or_else(|e| FamilyState::Failed(e.to_string()))
    }

    fn begin_dhcp(&mut self, options: &[u8]) -> Result<FamilyState<PendingIpv4>> {
        let addresses = self.sys.link_addresses()?;
        if self.link.up
            && let Some((who, lease)) =
                crate::existing_lease::find(self.sys, self.link.index, &self.link.name, &addresses)
        {
            info!(self.sys, "{}: using the existing lease of {who}: {}", self.link.name, lease.address);
            self.lease = Some(lease);
            return Ok(FamilyState::Ready);
        }
        let identity = Identity {
            hardware: u8::try_from(self.link.kind).unwrap_or(1),
            address: self.link.hardware_address(),
            options: options.to_vec(),
        };
        if identity.address.is_empty() || self.link.broadcast.is_empty() {
            return Ok(FamilyState::Failed("the link has no hardware address".into()));
        }
        Ok(FamilyState::Pending(PendingIpv4 {
            socket: self.sys.packet_socket(self.link.index, Protocol::Ipv4)?,
            client: Client::new(identity, self.random()),
            began: self.sys.clock().elapsed(),
            has_carrier: false,
            last: String::new(),
        }))
    }

    /// Enough of it for jitter, transaction numbers and link-local addresses.
    fn random(&self) -> u64 {
        let drawn = self.sys.read_head("/dev/urandom", 8).ok().and_then(|b| b.try_into().ok());
        let clock = self.sys.clock().wall().as_nanos() as u64 ^ u64::from(std::process::id()) << 32;
        drawn.map_or(clock, u64::from_ne_bytes)
    }

    /// An address of RFC 3927's range. It lasts for seconds, so conflicts are not probed.
    fn assign_link_local(&mut self) -> Result<()> {
        let [a, b, ..] = self.random().to_ne_bytes();
        let address = Prefix::new(Ipv4Addr::new(169, 254, 1 + a % 254, b), 16);
        self.assign_address(address, Some(Ipv4Addr::new(169, 254, 255, 255)), None)
    }

    fn assign_address(
        &mut self,
        address: Prefix,
        broadcast: Option<Ipv4Addr>,
        time: Option<Duration>,
    ) -> Result<()> {
        let index = self.link.index;
        let has_address = self
            .sys
            .link_addresses()?
            .iter()
            .any(|a| a.index == index && a.prefix.address == address.address);
        if has_address {
            debug!(self.sys, "{} has {address} already", self.link.name);
            return Ok(());
        }
        self.change(Rollback::Address(address), |sys| sys.add_address(index, address, broadcast, time))?;
        Ok(())
    }

    pub(crate) fn v4_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.v4 {
            FamilyState::Pending(v4) => Some(v4.socket.as_fd()),
            _ => None,
        }
    }

    /// How long there is nothing to do for it.
    pub(crate) fn v4_waits(&self) -> Option<Duration> {
        let FamilyState::Pending(v4) = &self.v4 else { return None };
        let now = self.sys.clock().elapsed().saturating_sub(v4.began);
        if v4.has_carrier {
            v4.client.next_poll().map(|at| at.saturating_sub(now))
        } else {
            Some(POLL_INTERVAL)
        }
    }

    pub(crate) fn advance_v4(&mut self) {
        if !matches!(self.v4, FamilyState::Pending(_)) {
            return;
        }
        let FamilyState::Pending(mut v4) = std::mem::replace(&mut self.v4, FamilyState::Disabled) else {
            return;
        };
        let granted = self.step_v4(&mut v4).and_then(|lease| match lease {
            Some(lease) => self.apply_lease(lease).map(|()| true),
            None => Ok(false),
        });
        self.v4 = match granted {
            Ok(true) => FamilyState::Ready,
            Ok(false) => FamilyState::Pending(v4),
            Err(e) => FamilyState::Failed(e.to_string()),
        };
    }

    /// Sends what is due and reads what came. The lease, once it is granted.
    fn step_v4(&mut self, v4: &mut PendingIpv4) -> Result<Option<Lease>> {
        let now = self.sys.clock().elapsed();
        if !v4.has_carrier {
            self.refresh_link();
            if !self.link.carrier && now.saturating_sub(v4.began) < CARRIER_WAIT {
                return Ok(None);
            }
            v4.has_carrier = true;
            v4.began = now;
        }
        let now = now.saturating_sub(v4.began);
        let mut buffer = [0; BUFFER];
        for _ in 0..MAX_PACKETS_PER_TURN {
            let Some(packet) =
                v4.socket.receive(&mut buffer).map_err(|e| system::Error::io("receiving DHCP", &e))?
            else {
                break;
            };
            let Some((source, message)) = packet::parse_client_packet(packet) else { continue };
            match v4.client.receive(now, source, message) {
                Event::Ignored(why) => {
                    debug!(self.sys, "{}: ignoring DHCP message from {source}: {why}", self.link.name)
                }
                Event::Offered(server) => {
                    debug!(self.sys, "{}: the DHCP server {server} made an offer", self.link.name);
                    v4.last = format!("the DHCP server {server} offered an address and has not granted it");
                }
                Event::Refused(words) => {
                    warning!(self.sys, "{}: DHCPNAK from {source}: {words}", self.link.name);
                    v4.last = format!("DHCP server {source} withdrew its offer (DHCPNAK)");
                }
                Event::Granted(lease) => return Ok(Some(*lease)),
            }
        }
        if let Some(message) = v4.client.poll(now)
            && let Err(e) = v4.socket.send(&packet::broadcast_packet(&message), &self.link.broadcast)
        {
            // A link that is just coming up, or just went down: it is tried again in its time.
            v4.last = format!("sending on {}: {e}", self.link.name);
            debug!(self.sys, "{}", v4.last);
        }
        Ok(None)
    }

    /// Gives the link and the routing table what was granted.
    fn apply_lease(&mut self, lease: Lease) -> Result<()> {
        let server = lease.server.map_or("an unidentified server".into(), |s| s.to_string());
        let time = lease.lifetime.map_or("without a lease time".into(), |t| format!("for {} s", t.as_secs()));
        info!(self.sys, "{}: {} from {server}, {time}", self.link.name, lease.address);
        let name = self.link.name.clone();
        if let Some(mtu) = lease.mtu.filter(|m| *m >= MIN_MTU && *m < self.link.mtu) {
            let before = self.link.mtu;
            // Larger packets than the path takes would be lost without a word. A smaller one is never a must.
            if let Err(e) =
                self.change(Rollback::Mtu(before), |sys| sys.set_link_mtu(&name, mtu).map(|()| true))
            {
                warning!(self.sys, "{e}");
            }
        }
        self.assign_address(lease.address, lease.broadcast(), lease.lifetime)?;
        let all = self.sys.routes()?;
        let has_default = all.iter().any(|r| r.to == Prefix::default_route(false));
        for route in lease.plan_routes(self.link.index, has_default) {
            let made = self.change(Rollback::Route(route.to, route.via), |sys| sys.add_route(&route));
            if let Err(e) = made {
                // The others may do: the way to the metadata is mostly one of several.
                warning!(self.sys, "{}: {e}", self.link.name);
            }
        }
        self.lease = Some(lease);
        Ok(())
    }
}
