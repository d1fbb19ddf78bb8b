//! IPv4 and UDP around a DHCP message, for a machine that has no address yet. Pure.

use std::net::Ipv4Addr;

/// The port of servers.
pub const SERVER_PORT: u16 = 67;
/// The port of clients.
pub const CLIENT_PORT: u16 = 68;
const UDP: u8 = 17;
const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

/// Returns the Internet checksum (RFC 1071) of all parts together.
pub(crate) fn checksum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.iter().copied().flatten().enumerate();
    let mut sum: u64 = bytes.map(|(i, byte)| u64::from(*byte) << if i % 2 == 0 { 8 } else { 0 }).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns a packet from 0.0.0.0 to the broadcast address, as a client without an address sends it.
pub fn broadcast_packet(message: &[u8]) -> Vec<u8> {
    let (from, to) = (Ipv4Addr::UNSPECIFIED.octets(), Ipv4Addr::BROADCAST.octets());
    let length = (UDP_HEADER + message.len()) as u16;
    let mut udp = Vec::with_capacity(usize::from(length));
    for part in [CLIENT_PORT, SERVER_PORT, length, 0] {
        udp.extend(part.to_be_bytes());
    }
    udp.extend_from_slice(message);
    let sum = match checksum(&[&from, &to, &[0, UDP], &length.to_be_bytes(), &udp]) {
        // 0 would mean that there is no checksum.
        0 => 0xffff,
        sum => sum,
    };
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    let total = (IP_HEADER + udp.len()) as u16;
    // Version and header length, low delay, total length, no fragments, 64 hops.
    let mut packet = vec![0x45, 0x10, 0, 0, 0, 0, 0, 0, 64, UDP, 0, 0];
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet.extend(from);
    packet.extend(to);
    let sum = checksum(&[&packet]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(udp);
    packet
}

/// Returns the message of a packet for a DHCP client, and its sender. The UDP checksum is not verified: between virtual
/// machines of one host it is not set.
pub fn parse_client_packet(packet: &[u8]) -> Option<(Ipv4Addr, &[u8])> {
    let first = *packet.first()?;
    let header = usize::from(first & 15) * 4;
    if first >> 4 != 4 || header < IP_HEADER || checksum(&[packet.get(..header)?]) != 0 {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff;
    if packet[9] != UDP || fragment != 0 {
        return None;
    }
    let udp = packet.get(header..total)?;
    let length = usize::from(u16::from_be_bytes([*udp.get(4)?, *udp.get(5)?]));
    if u16::from_be_bytes([udp[2], udp[3]]) != CLIENT_PORT {
        return None;
    }
    Some((Ipv4Addr::new(packet[12], packet[13], packet[14], packet[15]), udp.get(UDP_HEADER..length)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(message: &[u8]) -> Vec<u8> {
        let mut packet = broadcast_packet(message);
        // A server's packet: the ports are swapped.
        packet[20..24].copy_from_slice(&[0, 67, 0, 68]);
        packet
    }

    #[test]
    fn checksums_match_rfc_1071() {
        // The example of RFC 1071, 3: the sum is ddf2.
        assert_eq!(checksum(&[&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
        assert_eq!(checksum(&[&[0, 1, 0xf2], &[3, 0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
        let packet = broadcast_packet(b"odd");
        assert_eq!(checksum(&[&packet[..20]]), 0);
        let length = (packet.len() - 20) as u16;
        assert_eq!(checksum(&[&packet[12..20], &[0, 17], &length.to_be_bytes(), &packet[20..]]), 0);
    }

    #[test]
    fn packets_for_others_are_ignored() {
        let packet = answer(b"hello");
        assert_eq!(parse_client_packet(&packet), Some((Ipv4Addr::UNSPECIFIED, &b"hello"[..])));
        let mut padded = packet.clone();
        padded.extend([0; 20]);
        assert_eq!(parse_client_packet(&padded), Some((Ipv4Addr::UNSPECIFIED, &b"hello"[..])));
        assert_eq!(parse_client_packet(&broadcast_packet(b"hello")), None, "another client's");
        for length in 0..packet.len() {
            assert_eq!(parse_client_packet(&packet[..length]), None);
        }
        // Every byte of the headers except those that may differ: source port, UDP checksum.
        for at in (0..20).chain([22, 23, 24]) {
            let mut bad = packet.clone();
            bad[at] ^= 0x21;
            assert_eq!(parse_client_packet(&bad), None, "{at}");
        }
    }
}
