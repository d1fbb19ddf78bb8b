//! Changes of network links as the kernel reports them (the group RTNLGRP_LINK of rtnetlink(7)): a link appears, changes or
//! disappears. Only the running machine has links.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use crate::link::{Link, link_of};
use crate::netlink::{next_message, subscribe};
use crate::{Deadline, Error, Result, ResultExt, System};

/// More than the kernel sends in one part.
const BUFFER_SIZE: usize = 64 << 10;
/// The bit of the group RTNLGRP_LINK.
const LINK_GROUP: u32 = 1 << (libc::RTNLGRP_LINK - 1);

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// The link appeared or changed: its new state.
    Present(Link),
    /// The link disappeared: its last state.
    Removed(Link),
}

/// The changes of links since this was created.
#[derive(Debug)]
pub struct LinkEvents {
    socket: OwnedFd,
    pending: VecDeque<LinkEvent>,
}

impl System {
    /// Subscribes to changes of links.
    ///
    /// # Errors
    /// Fails below a root other than `/`, and if the kernel refuses the socket.
    pub fn link_events(&self) -> Result<LinkEvents> {
        let what = "subscribing to changes of network links";
        if !self.is_live() {
            return Err(Error::new(format!("{what}: not the running machine")));
        }
        Ok(LinkEvents { socket: subscribe(LINK_GROUP).context(what)?, pending: VecDeque::new() })
    }
}

impl LinkEvents {
    /// Returns the next change; `None` if there is none by the deadline.
    ///
    /// # Errors
    /// Fails if the socket cannot be read, in particular if the kernel had more changes to report than the socket holds:
    /// some are lost then.
    pub fn next(&mut self, sys: &System, deadline: Deadline) -> Result<Option<LinkEvent>> {
        let mut buffer = vec![0_u8; BUFFER_SIZE];
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(Some(event));
            }
            let readable = sys.poll_fds(&[(self.socket.as_fd(), false)], deadline);
            if readable.first() != Some(&true) {
                if deadline.is_expired() {
                    return Ok(None);
                }
                continue;
            }
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => self.pending.extend(events(buffer.get(..length).unwrap_or_default())),
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(e) => return Err(e).context("reading changes of network links"),
            }
        }
    }
}

/// Returns the changes in what the kernel sent.
fn events(mut rest: &[u8]) -> Vec<LinkEvent> {
    let mut found = Vec::new();
    while let Some((kind, message, after)) = next_message(rest) {
        // Bridges report their ports in the same group, as a family of their own.
        let is_link = message.first() == Some(&(libc::AF_UNSPEC as u8));
        match (kind, link_of(message).filter(|_| is_link)) {
            (libc::RTM_NEWLINK, Some(link)) => found.push(LinkEvent::Present(link)),
            (libc::RTM_DELLINK, Some(link)) => found.push(LinkEvent::Removed(link)),
            _ => {}
        }
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn message(kind: u16, family: u8, flags: u32, name: &[u8]) -> Vec<u8> {
        let mut body = vec![family, 0];
        body.extend(1_u16.to_ne_bytes());
        body.extend(7_u32.to_ne_bytes());
        body.extend(flags.to_ne_bytes());
        body.extend(0_u32.to_ne_bytes());
        crate::netlink::attribute(&mut body, libc::IFLA_IFNAME, name);
        let mut message = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend([0; 10]);
        message.extend(body);
        message
    }

    #[test]
    fn only_messages_about_links_are_events() {
        let up = (libc::IFF_UP | libc::IFF_LOWER_UP) as u32;
        let all = [
            message(libc::RTM_NEWLINK, 0, up, b"eth0\0"),
            message(libc::RTM_NEWLINK, libc::AF_BRIDGE as u8, up, b"eth0\0"),
            message(libc::RTM_NEWADDR, 0, up, b"eth0\0"),
            message(libc::RTM_DELLINK, 0, 0, b"eth0\0"),
        ];
        let link = |up| Link { index: 7, name: "eth0".into(), kind: 1, up, carrier: up, ..Link::default() };
        let expected = [LinkEvent::Present(link(true)), LinkEvent::Removed(link(false))];
        assert_eq!(events(&all.concat()), expected);
        for end in 0..all[0].len() {
            assert!(events(&all[0][..end]).is_empty(), "{end}");
        }
        for bytes in [&[][..], &[255; 15], &[0; 64], &[16, 0, 0, 0], &[255; 64]] {
            assert!(events(bytes).is_empty());
        }
    }

    #[test]
    fn a_wait_ends_at_the_deadline() {
        assert!(System::new("/nonexistent").link_events().is_err());
        let sys = System::new("/");
        let mut events = sys.link_events().unwrap();
        // Another test of this machine may change a link.
        let _ = events.next(&sys, Deadline::after(Duration::from_millis(20))).unwrap();
    }
}
