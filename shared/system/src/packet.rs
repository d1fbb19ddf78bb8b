//! Packets on one link below the kernel's IP, for protocols that run before there is an address (packet(7)).

use std::io::{Error as IoError, Result as IoResult};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrIn, bind, recv, setsockopt, socket, sockopt,
};

use crate::{Deadline, Result, ResultExt, System};

/// The protocol of a packet (EtherType).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// IPv4 (0x0800).
    Ipv4,
    /// IPv6 (0x86dd).
    Ipv6,
}

impl Protocol {
    fn number(self) -> u16 {
        match self {
            Protocol::Ipv4 => libc::ETH_P_IP as u16,
            Protocol::Ipv6 => libc::ETH_P_IPV6 as u16,
        }
    }
}

/// struct sockaddr_ll of linux/if_packet.h with room for the 20 bytes of an InfiniBand address, which the kernel
/// reads although its own struct ends after 8. That is why bind(2) and sendto(2) are called directly: nix's `LinkAddr` has
/// the kernel's struct, and no constructor.
#[repr(C)]
struct SockaddrLl {
    family: u16,
    /// In network byte order.
    protocol: u16,
    index: i32,
    hardware: u16,
    kind: u8,
    length: u8,
    address: [u8; 20],
}

const SOCKADDR_LL_SIZE: usize = size_of::<libc::sockaddr_ll>();

/// A packet socket. The kernel adds and removes the link-layer header.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    index: u32,
    protocol: Protocol,
}

impl System {
    /// Opens a socket for packets of one protocol on the link of that number. Requires CAP_NET_RAW.
    ///
    /// # Errors
    /// Fails without the capability, or if the link does not exist.
    pub fn packet_socket(&self, link: u32, protocol: Protocol) -> Result<PacketSocket> {
        open(link, protocol).context(format_args!("opening a packet socket on network link {link}"))
    }

    /// Opens a non-blocking UDP socket for IPv4 on a port of one link, which may also broadcast.
    ///
    /// # Errors
    /// Fails if the link does not exist, or if another socket has the port.
    pub fn udp_socket(&self, link: &str, port: u16) -> Result<UdpSocket> {
        let open = || -> nix::Result<UdpSocket> {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let socket = socket(AddressFamily::Inet, SockType::Datagram, flags, None)?;
            setsockopt(&socket, sockopt::ReuseAddr, &true)?;
            setsockopt(&socket, sockopt::Broadcast, &true)?;
            setsockopt(&socket, sockopt::BindToDevice, &link.into())?;
            bind(socket.as_raw_fd(), &SockaddrIn::new(0, 0, 0, 0, port))?;
            Ok(UdpSocket::from(socket))
        };
        open().map_err(IoError::from).context(format_args!("opening UDP port {port} on network link {link}"))
    }

    /// Sends a datagram to a server and waits for any answer.
    ///
    /// # Errors
    /// Fails if the server cannot be reached or does not answer in time.
    pub fn ask_udp(&self, server: SocketAddr, request: &[u8], timeout: Duration) -> Result<()> {
        let local: SocketAddr = if server.is_ipv4() { ([0_u8; 4], 0).into() } else { ([0_u16; 8], 0).into() };
        let ask = || {
            let socket = UdpSocket::bind(local)?;
            socket.set_read_timeout(Some(timeout))?;
            socket.connect(server)?;
            socket.send(request)?;
            socket.recv(&mut [0; 512])
        };
        ask().map(drop).context(format_args!("asking {server}"))
    }

    /// Waits until one of the descriptors is readable (`false`) or writable (`true`), or until the deadline. Returns
    /// for each whether it is.
    pub fn poll_fds(&self, fds: &[(BorrowedFd<'_>, bool)], deadline: Deadline) -> Vec<bool> {
        poll_fds(fds, deadline)
    }
}

/// Does the work of [`System::poll_fds`].
pub(crate) fn poll_fds(fds: &[(BorrowedFd<'_>, bool)], deadline: Deadline) -> Vec<bool> {
    let flags = |write| if write { PollFlags::POLLOUT } else { PollFlags::POLLIN };
    let mut polled: Vec<PollFd> = fds.iter().map(|(fd, write)| PollFd::new(*fd, flags(*write))).collect();
    // Rounded up: a wait of 0 would turn the last millisecond into a busy loop.
    let left = deadline.remaining().as_millis().saturating_add(1).min(60_000);
    let timeout = if deadline.is_expired() { 0 } else { left as u16 };
    match poll(&mut polled, PollTimeout::from(timeout)) {
        Ok(_) => polled.iter().map(|p| p.any().unwrap_or(true)).collect(),
        // Interrupted by a signal: the caller checks its deadline and calls again.
        Err(_) => vec![false; fds.len()],
    }
}

fn address(index: u32, protocol: Protocol, to: &[u8]) -> SockaddrLl {
    let mut address = SockaddrLl {
        family: libc::AF_PACKET as u16,
        protocol: protocol.number().to_be(),
        index: index as i32,
        hardware: 0,
        kind: 0,
        length: to.len().min(20) as u8,
        address: [0; 20],
    };
    for (place, byte) in address.address.iter_mut().zip(to) {
        *place = *byte;
    }
    address
}

#[allow(unsafe_code)]
fn open(index: u32, protocol: Protocol) -> IoResult<PacketSocket> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    // Without a protocol no packet is queued before bind(2) has named the link.
    let socket = socket(AddressFamily::Packet, SockType::Datagram, flags, None)?;
    let address = address(index, protocol, &[]);
    // SAFETY: the address lives through the call and is not shorter than the given length.
    let done = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), SOCKADDR_LL_SIZE as libc::socklen_t)
    };
    if done < 0 { Err(IoError::last_os_error()) } else { Ok(PacketSocket { socket, index, protocol }) }
}

impl PacketSocket {
    /// Sends one packet to a hardware address.
    ///
    /// # Errors
    /// Fails if the kernel does not send the packet.
    #[allow(unsafe_code)]
    pub fn send(&self, packet: &[u8], to: &[u8]) -> IoResult<()> {
        let address = address(self.index, self.protocol, to);
        let length = SOCKADDR_LL_SIZE.max(SOCKADDR_LL_SIZE - 8 + to.len()).min(size_of::<SockaddrLl>());
        // SAFETY: packet and address live through the call; both lengths are correct.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                0,
                (&raw const address).cast(),
                length as libc::socklen_t,
            )
        };
        if sent < 0 { Err(IoError::last_os_error()) } else { Ok(()) }
    }

    /// Returns the next received packet without waiting; `None` if there is none. A packet longer than the buffer is
    /// truncated.
    ///
    /// # Errors
    /// Fails if the socket cannot be read.
    pub fn receive<'a>(&self, buffer: &'a mut [u8]) -> IoResult<Option<&'a [u8]>> {
        match recv(self.socket.as_raw_fd(), buffer, MsgFlags::empty()) {
            Ok(length) => Ok(buffer.get(..length)),
            // ENETDOWN is what a link that goes down leaves in the socket; it may come up again.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
