//! DHCP messages: bytes ↔ values (RFC 2131, 2132, 3396). Parsing terminates for any bytes, never panics, and allocates
//! no more than their size.

use std::net::Ipv4Addr;

/// The length of the fixed fields and of the magic cookie before the options.
const HEADER_SIZE: usize = 236;
const MAGIC_COOKIE: [u8; 4] = [99, 130, 83, 99];
/// The size that every relay and server accepts (RFC 1542: BOOTP messages were never shorter).
const MIN_SIZE: usize = 300;
/// The maximum size of a datagram.
const MAX_SIZE: usize = 65_507;

/// Codes of options (RFC 2132 and others).
pub mod option {
    /// The subnet mask.
    pub const SUBNET_MASK: u8 = 1;
    /// The routers of the subnet.
    pub const ROUTER: u8 = 3;
    /// DNS servers.
    pub const DNS: u8 = 6;
    /// The hostname.
    pub const HOST_NAME: u8 = 12;
    /// The domain name.
    pub const DOMAIN_NAME: u8 = 15;
    /// The interface's MTU.
    pub const INTERFACE_MTU: u8 = 26;
    /// The broadcast address.
    pub const BROADCAST_ADDRESS: u8 = 28;
    /// Static routes: pairs of a destination without a mask and a router.
    pub const STATIC_ROUTES: u8 = 33;
    /// The address that the client requests.
    pub const REQUESTED_ADDRESS: u8 = 50;
    /// The lease time in seconds.
    pub const LEASE_TIME: u8 = 51;
    /// Fixed fields that also hold options.
    pub const OVERLOAD: u8 = 52;
    /// The message type.
    pub const MESSAGE_TYPE: u8 = 53;
    /// The server's address.
    pub const SERVER_IDENTIFIER: u8 = 54;
    /// The options that the client requests.
    pub const PARAMETER_REQUEST_LIST: u8 = 55;
    /// A string, such as the reason of a refusal.
    pub const MESSAGE: u8 = 56;
    /// The largest message that the client accepts, in bytes.
    pub const MAX_MESSAGE_SIZE: u8 = 57;
    /// T1: the seconds after which the client renews its lease with the server.
    pub const RENEWAL_TIME: u8 = 58;
    /// T2: the seconds after which the client asks every server to extend its lease.
    pub const REBINDING_TIME: u8 = 59;
    /// The client's identifier.
    pub const CLIENT_IDENTIFIER: u8 = 61;
    /// Classless static routes (RFC 3442).
    pub const CLASSLESS_ROUTES: u8 = 121;
    /// The number of classless static routes before RFC 3442.
    pub const MICROSOFT_CLASSLESS_ROUTES: u8 = 249;
    /// Private use; Azure's wire server.
    pub const WIRE_SERVER: u8 = 245;
    pub(super) const PAD: u8 = 0;
    pub(super) const END: u8 = 255;
}

/// The type of a message (option 53). Only the types that a client for an address needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageType {
    /// DHCPDISCOVER.
    Discover = 1,
    /// DHCPOFFER.
    Offer = 2,
    /// DHCPREQUEST.
    Request = 3,
    /// DHCPACK.
    Ack = 5,
    /// DHCPNAK.
    Nak = 6,
}

/// A DHCP message, without its other two addresses (the next server, the relay).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Whether a server sent it to a client.
    pub is_reply: bool,
    /// ARP's hardware type.
    pub hardware: u8,
    /// The transaction ID.
    pub xid: u32,
    /// Seconds since the client began.
    pub seconds: u16,
    /// Whether the client cannot receive unicast packets yet.
    pub broadcast: bool,
    /// The client's current address, if it has a lease.
    pub ciaddr: Ipv4Addr,
    /// The address for the client.
    pub yiaddr: Ipv4Addr,
    /// The client's hardware address, at most 16 bytes.
    pub address: Vec<u8>,
    /// Codes and values, in order; an option in several pieces is joined.
    pub options: Vec<(u8, Vec<u8>)>,
}

impl Message {
    /// Returns the value of an option.
    pub fn option(&self, code: u8) -> Option<&[u8]> {
        self.options.iter().find(|(c, _)| *c == code).map(|(_, value)| value.as_slice())
    }

    /// Returns an option that is an address, or the first address of a list.
    pub fn address_option(&self, code: u8) -> Option<Ipv4Addr> {
        self.addresses(code).into_iter().next()
    }

    /// Returns the addresses of an option that is a list of them. An incomplete address at its end is ignored.
    pub fn addresses(&self, code: u8) -> Vec<Ipv4Addr> {
        let value = self.option(code).unwrap_or_default();
        value.chunks_exact(4).map(|c| Ipv4Addr::new(c[0], c[1], c[2], c[3])).collect()
    }

    /// Returns an option of two or four bytes as a number.
    pub fn number_option(&self, code: u8) -> Option<u32> {
        match *self.option(code)? {
            [a, b] => Some(u32::from(u16::from_be_bytes([a, b]))),
            [a, b, c, d] => Some(u32::from_be_bytes([a, b, c, d])),
            _ => None,
        }
    }

    /// Returns the message type; `None` for the types of other exchanges.
    pub fn kind(&self) -> Option<MessageType> {
        use MessageType::{Ack, Discover, Nak, Offer, Request};
        let [number] = *self.option(option::MESSAGE_TYPE)? else { return None };
        [Discover, Offer, Request, Ack, Nak].into_iter().find(|kind| *kind as u8 == number)
    }

    /// Returns the message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![if self.is_reply { 2 } else { 1 }, self.hardware, 0, 0];
        let address = &self.address[..self.address.len().min(16)];
        bytes[2] = address.len() as u8;
        bytes.extend(self.xid.to_be_bytes());
        bytes.extend(self.seconds.to_be_bytes());
        bytes.extend(if self.broadcast { 0x8000_u16 } else { 0 }.to_be_bytes());
        bytes.extend(self.ciaddr.octets());
        bytes.extend(self.yiaddr.octets());
        bytes.resize(28, 0);
        bytes.extend(address);
        bytes.resize(HEADER_SIZE, 0);
        bytes.extend(MAGIC_COOKIE);
        for (code, value) in &self.options {
            let mut rest = value.as_slice();
            loop {
                let (piece, after) = rest.split_at(rest.len().min(255));
                bytes.extend([*code, piece.len() as u8]);
                bytes.extend(piece);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
        }
        bytes.push(option::END);
        bytes.resize(bytes.len().max(MIN_SIZE), 0);
        bytes
    }

    /// Returns `None` for anything but a DHCP message. An option that is longer than the rest of the message is ignored.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let bytes = &bytes[..bytes.len().min(MAX_SIZE)];
        let fixed = bytes.get(..HEADER_SIZE)?;
        let area = bytes.get(HEADER_SIZE..)?.strip_prefix(&MAGIC_COOKIE)?;
        let is_reply = match fixed[0] {
            1 => false,
            2 => true,
            _ => return None,
        };
        let length = usize::from(fixed[2]);
        let mut message = Message {
            is_reply,
            hardware: fixed[1],
            xid: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            seconds: u16::from_be_bytes([fixed[8], fixed[9]]),
            broadcast: fixed[10] & 0x80 != 0,
            ciaddr: Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]),
            yiaddr: Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]),
            address: fixed.get(28..28 + length.min(16))?.to_vec(),
            options: Vec::new(),
        };
        message.read_options(area);
        // If the options did not fit, the two name fields have more: first the boot file's.
        let overload = message.option(option::OVERLOAD).and_then(|v| v.first().copied()).unwrap_or(0);
        if overload & 1 != 0 {
            message.read_options(&fixed[108..HEADER_SIZE]);
        }
        if overload & 2 != 0 {
            message.read_options(&fixed[44..108]);
        }
        Some(message)
    }

    fn read_options(&mut self, mut area: &[u8]) {
        while let [code, after @ ..] = area {
            match *code {
                option::PAD => area = after,
                option::END => return,
                code => {
                    let Some((length, after)) = after.split_first() else { return };
                    let Some(value) = after.get(..usize::from(*length)) else { return };
                    // The pieces of an option are one value (RFC 3396).
                    match self.options.iter_mut().find(|(c, _)| *c == code) {
                        Some((_, whole)) => whole.extend_from_slice(value),
                        None => self.options.push((code, value.to_vec())),
                    }
                    area = &after[usize::from(*length)..];
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn message(options: Vec<(u8, Vec<u8>)>) -> Message {
        Message {
            is_reply: true,
            hardware: 1,
            xid: 0x0102_0304,
            seconds: 3,
            broadcast: true,
            ciaddr: Ipv4Addr::new(192, 0, 2, 8),
            yiaddr: Ipv4Addr::new(192, 0, 2, 7),
            address: vec![2, 0, 0, 0, 0, 1],
            options,
        }
    }

    #[test]
    fn encoded_messages_are_decoded_to_themselves() {
        let long: Vec<u8> = (0..700).map(|n| n as u8).collect();
        for options in [
            vec![],
            vec![(53, vec![5])],
            vec![(53, vec![2]), (12, b"name".to_vec()), (80, vec![]), (121, long)],
        ] {
            let sent = message(options);
            let bytes = sent.encode();
            assert!(bytes.len() >= MIN_SIZE);
            assert_eq!(Message::decode(&bytes), Some(sent));
        }
    }

    #[test]
    fn fields_are_encoded_at_their_offsets() {
        let bytes = message(vec![(53, vec![2]), (54, vec![192, 0, 2, 1])]).encode();
        assert_eq!(bytes[..12], [2, 1, 6, 0, 1, 2, 3, 4, 0, 3, 0x80, 0]);
        assert_eq!(bytes[12..20], [192, 0, 2, 8, 192, 0, 2, 7]);
        assert_eq!(bytes[28..36], [2, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(bytes[236..250], [99, 130, 83, 99, 53, 1, 2, 54, 4, 192, 0, 2, 1, 255]);
    }

    #[test]
    fn options_in_overloaded_fields_are_joined() {
        let mut bytes = message(vec![(53, vec![5]), (52, vec![3])]).encode();
        bytes[108..117].copy_from_slice(&[0, 3, 4, 192, 0, 2, 9, 255, 12]);
        bytes[44..52].copy_from_slice(&[121, 2, 0, 10, 121, 1, 9, 255]);
        let message = Message::decode(&bytes).unwrap();
        assert_eq!(message.address_option(3), Some(Ipv4Addr::new(192, 0, 2, 9)));
        assert_eq!(message.option(121), Some(&[0, 10, 9][..]));
        assert_eq!(message.option(12), None);
        assert_eq!(message.kind(), Some(MessageType::Ack));
    }

    #[test]
    fn options_of_wrong_lengths_are_ignored() {
        let m =
            message(vec![(26, vec![5, 220]), (51, vec![0, 1, 0, 0]), (3, vec![1, 2, 3, 4, 5]), (6, vec![1])]);
        assert_eq!((m.number_option(26), m.number_option(51)), (Some(1500), Some(65536)));
        assert_eq!(m.addresses(3), [Ipv4Addr::new(1, 2, 3, 4)]);
        assert_eq!((m.address_option(6), m.number_option(6), m.kind()), (None, None, None));
    }

    /// A small substitute for a fuzzer, fast enough for every test run; the fuzz target `network` covers more.
    #[test]
    fn random_bytes_do_not_panic() {
        let good = message(vec![(53, vec![2]), (52, vec![3]), (121, vec![1; 300])]).encode();
        for length in 0..good.len() {
            let _ = Message::decode(&good[..length]);
        }
        for bytes in scratch::mutations(&good, 20_000) {
            if let Some(message) = Message::decode(&bytes) {
                let length: usize = message.options.iter().map(|(_, v)| v.len()).sum();
                assert!(length <= bytes.len());
                let again = Message::decode(&message.encode()).map(|m| m.options.len());
                assert!(again.is_some());
            }
        }
    }
}
