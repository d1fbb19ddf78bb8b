//! rtnetlink(7) for links, addresses and routes: one request on a socket of its own, and the kernel's replies, whose lengths are
//! checked like those of any other input.

use std::io::{Error as IoError, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt,
    socket, sockopt::ReceiveTimeout,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// The time limit for a reply; the kernel replies at once.
// Wait: everything | the kernel to answer about NICs | -
const TIMEOUT_SECONDS: i64 = 10;
/// More than any machine's links and addresses take (each part of an answer is at most this long).
const BUFFER_SIZE: usize = 64 << 10;
const MAX_PARTS: usize = 4096;

const NLMSG_ERROR: u16 = libc::NLMSG_ERROR as u16;
const NLMSG_DONE: u16 = libc::NLMSG_DONE as u16;
const HEADER: usize = 16;

/// Creates an object; fails if it exists.
pub(crate) const CREATE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;

/// Requests one change and waits for the acknowledgement.
pub(crate) fn change(kind: u16, flags: u16, body: &[u8]) -> std::io::Result<()> {
    let socket = subscribe(0)?;
    send_request(&socket, kind, libc::NLM_F_ACK as u16 | flags, body)?;
    receive_replies(&socket, |_| {})
}

/// Appends an attribute to a message.
pub(crate) fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Returns all messages of a dump, without their netlink headers.
pub(crate) fn dump(kind: u16, body: &[u8]) -> std::io::Result<Vec<Vec<u8>>> {
    let socket = subscribe(0)?;
    send_request(&socket, kind, libc::NLM_F_DUMP as u16, body)?;
    let mut messages = Vec::new();
    receive_replies(&socket, |message| messages.push(message.to_vec()))?;
    Ok(messages)
}

/// Opens a socket to which the kernel sends the messages of these multicast groups (a bit for each; 0 for replies only).
pub(crate) fn subscribe(groups: u32) -> std::io::Result<OwnedFd> {
    let socket =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    setsockopt(&socket, ReceiveTimeout, &TimeVal::seconds(TIMEOUT_SECONDS))?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(socket)
}

fn send_request(socket: &OwnedFd, kind: u16, flags: u16, body: &[u8]) -> std::io::Result<()> {
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((libc::NLM_F_REQUEST as u16 | flags).to_ne_bytes());
    // One request per socket: the sequence number is not needed.
    message.extend(1_u32.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend_from_slice(body);
    send(socket.as_raw_fd(), &message, MsgFlags::empty())?;
    Ok(())
}

/// Reads replies until the last one; an error that the kernel reports is returned.
fn receive_replies(socket: &OwnedFd, mut take: impl FnMut(&[u8])) -> std::io::Result<()> {
    let mut buffer = vec![0_u8; BUFFER_SIZE];
    for _ in 0..MAX_PARTS {
        let length = match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Err(nix::errno::Errno::EINTR) => continue,
            other => other?,
        };
        let mut rest = &buffer[..length];
        while let Some((kind, message, after)) = next_message(rest) {
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => {
                    return match read_u32(message, 0) {
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

/// Returns the first message of a part: its type, its content, and the rest of the part.
pub(crate) fn next_message(part: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = read_u32(part, 0)? as usize;
    let kind = u16::from_ne_bytes(part.get(4..6)?.try_into().ok()?);
    let message = part.get(HEADER..length)?;
    Some((kind, message, part.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

pub(crate) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the attributes (type and value) after a message's fixed part.
pub(crate) fn attributes(mut rest: &[u8]) -> Vec<(u16, &[u8])> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_with_wrong_lengths_end_the_iteration() {
        for bytes in [&[][..], &[255; 15], &[0; 64], &[16, 0, 0, 0], &[255; 64]] {
            let mut rest = bytes;
            while let Some((_, message, after)) = next_message(rest) {
                let _ = attributes(message);
                assert!(after.len() < rest.len());
                rest = after;
            }
        }
        let mut made = Vec::new();
        attribute(&mut made, 3, b"lo\0");
        assert_eq!(attributes(&made), [(3, &b"lo\0"[..])]);
        assert_eq!(attributes(&[8, 0, 3, 0, b'l', b'o', 0, 0, 3, 0, 1, 0]), [(3, &b"lo\0\0"[..])]);
    }
}
