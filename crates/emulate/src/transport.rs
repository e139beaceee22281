//! Transport protocol of a packet, as a router on its path reads it.

use crate::headers::u16_at;
use crate::ip::IpVersion;
use altway_link::Transport;

/// Protocol number of UDP (RFC 768).
const UDP: u8 = 17;

/// Offset of the fixed header's field Protocol (RFC 791 section 3.1).
const IPV4_PROTOCOL: usize = 9;

/// Length of the fixed header, and offset of its field Next Header (RFC 8200 section 3).
const IPV6_HEADER: usize = 40;
const IPV6_NEXT_HEADER: usize = 6;

/// The extension headers that may stand before a transport header (RFC 8200 section 4; RFC 4302).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// Returns the transport protocol of an IP packet.
///
/// All fragments of a datagram are of its protocol, but for those of IPv6 behind the first whose first one
/// has further extension headers after that of the fragment: they do not tell it, and count as
/// [`Transport::Other`]. So does what is cut off before its transport header, or encrypted.
pub(crate) fn of(packet: &[u8]) -> Transport {
    match protocol(packet) {
        Some(UDP) => Transport::Udp,
        _ => Transport::Other,
    }
}

/// Number of the protocol behind the headers of IP.
fn protocol(packet: &[u8]) -> Option<u8> {
    match IpVersion::of_packet(packet)? {
        IpVersion::V4 => packet.get(IPV4_PROTOCOL).copied(),
        IpVersion::V6 => behind_extensions(packet),
    }
}

/// Walks over the extension headers, each of which takes 8 bytes at least, to the last Next Header.
fn behind_extensions(packet: &[u8]) -> Option<u8> {
    let (mut next, mut at) = (*packet.get(IPV6_NEXT_HEADER)?, IPV6_HEADER);
    loop {
        let length = |unit: usize, more: usize| {
            let units = usize::from(*packet.get(at + 1)?);
            Some(units * unit + more)
        };
        let length = match next {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => length(8, 8)?,
            AUTHENTICATION => length(4, 8)?,
            FRAGMENT if is_first(packet, at)? => 8,
            FRAGMENT => return packet.get(at).copied(),
            _ => return Some(next),
        };
        next = *packet.get(at)?;
        at += length;
    }
}

/// Returns whether the fragment whose header begins at `at` has an offset of 0 (RFC 8200 section 4.5).
fn is_first(packet: &[u8], at: usize) -> Option<bool> {
    Some(u16_at(packet, at + 2)? >> 3 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: u8 = 6;

    fn ipv4(protocol: u8, fragment: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet.extend([0; 16]);
        packet
    }

    /// An IPv6 packet of these extension headers, each with what stands in its bytes but the first.
    fn ipv6(extensions: &[(u8, &[u8])], protocol: u8) -> Vec<u8> {
        let numbers = extensions.iter().map(|(number, _)| *number);
        let mut numbers = numbers.chain([protocol]);
        let mut packet = vec![0x60, 0, 0, 0, 0, 0];
        packet.extend(numbers.next());
        packet.resize(IPV6_HEADER, 0);
        for (_, rest) in extensions {
            packet.extend(numbers.next());
            packet.extend(*rest);
        }
        packet.extend([0; 8]);
        packet
    }

    fn is_udp(packet: &[u8]) -> bool {
        of(packet) == Transport::Udp
    }

    #[test]
    fn the_protocol_field_of_ipv4_tells_also_in_fragments() {
        for fragment in [0, 0x2000, 0x2005, 5] {
            assert!(is_udp(&ipv4(UDP, fragment)), "{fragment:x}");
            assert!(!is_udp(&ipv4(TCP, fragment)), "{fragment:x}");
        }
        assert!(!is_udp(&ipv4(1, 0)), "ICMP");
    }

    #[test]
    fn extension_headers_are_walked_over() {
        let options: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let short: &[u8] = &[0; 7];
        let authentication: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for protocol in [UDP, TCP] {
            let packets = [
                ipv6(&[], protocol),
                ipv6(&[(HOP_BY_HOP, options)], protocol),
                ipv6(
                    &[(ROUTING, short), (DESTINATION_OPTIONS, options)],
                    protocol,
                ),
                ipv6(&[(AUTHENTICATION, authentication)], protocol),
                ipv6(&[(FRAGMENT, short), (DESTINATION_OPTIONS, short)], protocol),
            ];
            for packet in packets {
                assert_eq!(is_udp(&packet), protocol == UDP, "{packet:?}");
            }
        }
    }

    #[test]
    fn later_fragments_of_ipv6_are_of_the_protocol_that_they_name() {
        let later: &[u8] = &[0, 0, 9, 0, 0, 0, 0];
        assert!(is_udp(&ipv6(&[(FRAGMENT, later)], UDP)));
        assert!(!is_udp(&ipv6(&[(FRAGMENT, later)], TCP)));
        // The payload that follows is none of the headers: it is not looked at.
        let hidden = ipv6(&[(FRAGMENT, later), (DESTINATION_OPTIONS, &[0; 7])], UDP);
        assert!(!is_udp(&hidden));
    }

    #[test]
    fn what_is_cut_off_before_it_tells_is_no_udp() {
        let whole = ipv6(&[(HOP_BY_HOP, &[0; 7]), (FRAGMENT, &[0; 7])], UDP);
        for length in 0..IPV6_HEADER + 9 {
            assert!(!is_udp(&whole[..length]), "{length}");
        }
        assert!(!is_udp(&[]) && !is_udp(&[0x45; 9]) && !is_udp(&[0; 40]));
    }
}
