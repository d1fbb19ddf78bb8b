//! Network links through netlink (rtnetlink(7)), without `ip`: listed, renamed, brought up and down. Only the
//! running machine has links; below another root changes are noted and nothing else happens.

use std::io::{Error as IoError, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt,
    socket, sockopt::ReceiveTimeout,
};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::{Effect, Error, Result, ResultExt, System, debug};

/// The kernel answers at once; longer means that it never will.
const TIMEOUT_SECONDS: i64 = 10;
/// More than any machine's links and addresses take (each part of an answer is at most this long).
const PART: usize = 64 << 10;
const MOST_PARTS: usize = 4096;

const NLMSG_ERROR: u16 = libc::NLMSG_ERROR as u16;
const NLMSG_DONE: u16 = libc::NLMSG_DONE as u16;
const HEADER: usize = 16;
const LINK_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;

/// A network interface as the kernel has it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// Lower case, with colons; empty when it has none.
    pub mac: String,
    pub up: bool,
}

/// An address that a link has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkAddress {
    pub index: u32,
    pub ipv6: bool,
    /// Reaches beyond the link.
    pub global: bool,
    /// Configured, not learned for a time.
    pub permanent: bool,
}

impl System {
    /// The machine's links; none below a root of its own.
    pub fn links(&self) -> Result<Vec<Link>> {
        if !self.is_live() {
            return Ok(Vec::new());
        }
        let mut body = [0_u8; LINK_HEADER];
        body[0] = libc::AF_UNSPEC as u8;
        let messages = dump(libc::RTM_GETLINK, &body).doing("listing network links")?;
        Ok(messages.iter().filter_map(|m| link_of(m)).collect())
    }

    /// The addresses of the machine's links; none below a root of its own.
    pub fn link_addresses(&self) -> Result<Vec<LinkAddress>> {
        if !self.is_live() {
            return Ok(Vec::new());
        }
        let messages =
            dump(libc::RTM_GETADDR, &[0; ADDRESS_HEADER]).doing("listing addresses of network links")?;
        Ok(messages.iter().filter_map(|m| address_of(m)).collect())
    }

    /// Gives a link another name. Most kernels want it down for that.
    pub fn rename_link(&self, from: &str, to: &str) -> Result<()> {
        let what = format!("renaming network link {from} to {to}");
        // The kernel's limit (IFNAMSIZ) with its reason, instead of its "numerical result out of range".
        if to.is_empty() || to.len() > 15 || to.contains(['/', ' ', '\0']) {
            return Err(Error::new(format!(
                "{what}: a link's name has 1 to 15 bytes, no blank and no slash"
            )));
        }
        if self.may_set_kernel() {
            let mut name = to.as_bytes().to_vec();
            name.push(0);
            change(from, 0, 0, &[(libc::IFLA_IFNAME, &name)]).doing(&what)?;
        }
        debug!(self, "{what}");
        self.note(Effect::Other { what });
        Ok(())
    }

    pub fn set_link_up(&self, name: &str, up: bool) -> Result<()> {
        let what = format!("setting network link {name} {}", if up { "up" } else { "down" });
        if self.may_set_kernel() {
            let flags = if up { libc::IFF_UP as u32 } else { 0 };
            change(name, flags, libc::IFF_UP as u32, &[]).doing(&what)?;
        }
        debug!(self, "{what}");
        self.note(Effect::Other { what });
        Ok(())
    }
}

/// One RTM_NEWLINK for an existing link, acknowledged.
fn change(name: &str, flags: u32, mask: u32, attributes: &[(u16, &[u8])]) -> std::io::Result<()> {
    let index = nix::net::if_::if_nametoindex(name)?;
    let mut body = vec![0_u8; 4];
    body.extend(index.to_ne_bytes());
    body.extend(flags.to_ne_bytes());
    body.extend(mask.to_ne_bytes());
    for (kind, value) in attributes {
        body.extend((4 + value.len() as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend_from_slice(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let socket = open()?;
    ask(&socket, libc::RTM_NEWLINK, libc::NLM_F_ACK as u16, &body)?;
    answers(&socket, |_| {})
}

/// All messages of a dump, each without its netlink header.
fn dump(kind: u16, body: &[u8]) -> std::io::Result<Vec<Vec<u8>>> {
    let socket = open()?;
    ask(&socket, kind, libc::NLM_F_DUMP as u16, body)?;
    let mut messages = Vec::new();
    answers(&socket, |message| messages.push(message.to_vec()))?;
    Ok(messages)
}

fn open() -> std::io::Result<OwnedFd> {
    let socket =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    setsockopt(&socket, ReceiveTimeout, &TimeVal::seconds(TIMEOUT_SECONDS))?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    Ok(socket)
}

fn ask(socket: &OwnedFd, kind: u16, flags: u16, body: &[u8]) -> std::io::Result<()> {
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((libc::NLM_F_REQUEST as u16 | flags).to_ne_bytes());
    // One question for each socket: the sequence number tells nothing.
    message.extend(1_u32.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend_from_slice(body);
    send(socket.as_raw_fd(), &message, MsgFlags::empty())?;
    Ok(())
}

/// Reads answers until the kernel says that it is done; an error that it reports is ours.
fn answers(socket: &OwnedFd, mut take: impl FnMut(&[u8])) -> std::io::Result<()> {
    let mut buffer = vec![0_u8; PART];
    for _ in 0..MOST_PARTS {
        let length = match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Err(nix::errno::Errno::EINTR) => continue,
            other => other?,
        };
        let mut rest = &buffer[..length];
        while let Some((kind, message, after)) = next_message(rest) {
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => {
                    return match number(message, 0) {
                        Some(0) => Ok(()),
                        Some(code) => Err(IoError::from_raw_os_error((code as i32).wrapping_neg())),
                        None => Err(ErrorKind::InvalidData.into()),
                    };
                }
                _ => take(message),
            }
            rest = after;
        }
    }
    Err(ErrorKind::InvalidData.into())
}

/// The first message of a part: its type, its content, and what follows it.
fn next_message(part: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = number(part, 0)? as usize;
    let kind = u16::from_ne_bytes(part.get(4..6)?.try_into().ok()?);
    let message = part.get(HEADER..length)?;
    Some((kind, message, part.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The attributes behind a message's fixed part: type and value.
fn attributes(mut rest: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while rest.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        let kind = u16::from_ne_bytes([rest[2], rest[3]]);
        let Some(value) = rest.get(4..length) else { break };
        found.push((kind, value));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn link_of(message: &[u8]) -> Option<Link> {
    let mut link = Link {
        index: number(message, 4)?,
        name: String::new(),
        mac: String::new(),
        up: number(message, 8)? & libc::IFF_UP as u32 != 0,
    };
    for (kind, value) in attributes(message.get(LINK_HEADER..)?) {
        match kind {
            libc::IFLA_IFNAME => {
                link.name = String::from_utf8_lossy(value).trim_end_matches('\0').to_string()
            }
            libc::IFLA_ADDRESS => {
                link.mac = value.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":");
            }
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

fn address_of(message: &[u8]) -> Option<LinkAddress> {
    let (family, flags, scope) = (*message.first()?, *message.get(2)?, *message.get(3)?);
    Some(LinkAddress {
        index: number(message, 4)?,
        ipv6: i32::from(family) == libc::AF_INET6,
        global: scope == libc::RT_SCOPE_UNIVERSE,
        permanent: u32::from(flags) & libc::IFA_F_PERMANENT != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_lie_about_their_length() {
        for bytes in [&[][..], &[255; 15], &[0; 64], &[16, 0, 0, 0], &[255; 64]] {
            let mut rest = bytes;
            while let Some((_, message, after)) = next_message(rest) {
                let _ = (link_of(message), address_of(message), attributes(message));
                assert!(after.len() < rest.len());
                rest = after;
            }
        }
        assert_eq!(attributes(&[8, 0, 3, 0, b'l', b'o', 0, 0, 3, 0, 1, 0]), [(3, &b"lo\0\0"[..])]);
    }

    #[test]
    fn the_loopback_is_there() {
        let links = System::new("/").links().unwrap();
        assert!(links.iter().any(|l| l.name == "lo" && l.mac == "00:00:00:00:00:00"), "{links:?}");
        assert!(System::new("/nonexistent").links().unwrap().is_empty());
    }

    #[test]
    fn elsewhere_changes_are_only_noted() {
        let sys = System::new("/nonexistent");
        sys.rename_link("a", "b").unwrap();
        assert!(sys.rename_link("a", "a-name-beyond-15").is_err());
        assert_eq!(sys.effects(), [Effect::Other { what: "renaming network link a to b".into() }]);
    }
}
