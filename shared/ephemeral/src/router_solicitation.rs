//! Router solicitations (RFC 4861): the ICMPv6 packet that makes routers send advertisements. The kernel processes the
//! advertisements and creates addresses and routes. Pure.

use std::net::Ipv6Addr;

use crate::dhcp::packet::checksum;

const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 133;
const SOURCE_LINK_ADDRESS: u8 = 1;
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// The destination on Ethernet: the group of all routers (RFC 2464, 7).
pub const ALL_ROUTERS_ETHERNET: [u8; 6] = [0x33, 0x33, 0, 0, 0, 2];

/// Returns a router solicitation from this address, with its IPv6 header.
pub fn solicitation(from: Ipv6Addr, hardware: &[u8]) -> Vec<u8> {
    let mut body = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    // The option's length is in units of 8 bytes; it is omitted for hardware other than Ethernet.
    if hardware.len() == 6 {
        body.extend([SOURCE_LINK_ADDRESS, 1]);
        body.extend(hardware);
    }
    let length = body.len() as u16;
    let sum = checksum(&[
        &from.octets(),
        &ALL_ROUTERS.octets(),
        &u32::from(length).to_be_bytes(),
        &[0, 0, 0, ICMPV6],
        &body,
    ]);
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(length.to_be_bytes());
    // A hop limit of 255 proves that it was sent on this link.
    packet.extend([ICMPV6, 255]);
    packet.extend(from.octets());
    packet.extend(ALL_ROUTERS.octets());
    packet.extend(body);
    packet
}

/// Returns the link-local address for a hardware address (RFC 4291, appendix A), for kernels that create none.
pub fn eui64_link_local(hardware: &[u8]) -> Option<Ipv6Addr> {
    let [a, b, c, d, e, f] = *hardware else { return None };
    let half = |high: u8, low: u8| u16::from_be_bytes([high, low]);
    Some(Ipv6Addr::new(0xfe80, 0, 0, 0, half(a ^ 2, b), half(c, 0xff), half(0xfe, d), half(e, f)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solicitation_has_a_valid_checksum_and_the_mac() {
        let mac = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
        let from = eui64_link_local(&mac).unwrap();
        assert_eq!(from.to_string(), "fe80::5054:ff:fe12:3456");
        let packet = solicitation(from, &mac);
        assert_eq!(packet.len(), 56);
        assert_eq!(packet[..8], [0x60, 0, 0, 0, 0, 16, 58, 255]);
        assert_eq!(packet[40..42], [133, 0]);
        assert_eq!(packet[48..], [1, 1, 0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        let sum = checksum(&[&packet[8..40], &[0, 0, 0, 16, 0, 0, 0, 58], &packet[40..]]);
        assert_eq!(sum, 0);
        assert_eq!(solicitation(from, &[0; 20]).len(), 48);
        assert_eq!(eui64_link_local(&[0; 20]), None);
    }
}
