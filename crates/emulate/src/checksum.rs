//! The checksums of IPv4, TCP and UDP (RFC 1071).
//!
//! Without hardware to compute them, as between two interfaces of containers or at a TUN interface with
//! offloads, packets come with the sum of their pseudo-header in the checksum's place, and whoever puts
//! them on a wire has to do the rest.

use crate::headers::{Headers, Protocol};

/// A sum of 16-bit words in ones' complement arithmetic. The words are in the machine's byte order, which
/// leaves the sum's own bytes where they belong (RFC 1071 §2 B).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// The sum of `bytes`, filled up with zeros to whole words.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // Words of 32 bits add up to the same, and no carry is lost below 2^32 of them.
        let words = chunks
            .iter()
            .chain([&last])
            .map(|chunk| u64::from_ne_bytes(*chunk));
        Self(words.map(|word| (word & 0xffff_ffff) + (word >> 32)).sum())
    }

    /// The two sums together; each but the last must be of whole words.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// The sum itself, as it stands in a packet.
    pub(crate) fn bytes(self) -> [u8; 2] {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (sum as u16).to_ne_bytes()
    }

    /// The checksum: the sum's complement.
    pub(crate) fn complement(self) -> [u8; 2] {
        self.bytes().map(|byte| !byte)
    }
}

/// The sum of the pseudo-header of a packet whose transport header and payload are `length` bytes
/// (RFC 9293 §3.1, RFC 768, RFC 8200 §8.1).
pub(crate) fn pseudo_header(packet: &[u8], headers: &Headers, length: usize) -> Sum {
    let mut rest = [0; 8];
    rest[..4].copy_from_slice(&(length as u32).to_be_bytes());
    rest[7] = headers.protocol.number();
    Sum::of(&packet[headers.addresses()]).and(Sum::of(&rest))
}

/// Puts the checksum of the transport layer into a packet. What is no whole TCP segment or UDP datagram
/// over IPv4 or IPv6 is left as it is.
pub(crate) fn complete(packet: &mut [u8]) {
    if let Some(headers) = Headers::of(packet) {
        complete_with(packet, &headers);
    }
}

/// The same for a packet whose headers are known.
pub(crate) fn complete_with(packet: &mut [u8], headers: &Headers) {
    packet[headers.checksum()].fill(0);
    let segment = &packet[headers.transport..headers.end];
    let sum = pseudo_header(packet, headers, segment.len()).and(Sum::of(segment));
    let checksum = match (sum.complement(), headers.protocol) {
        // For UDP, 0 means that there is none (RFC 768).
        ([0, 0], Protocol::Udp) => [u8::MAX; 2],
        (checksum, _) => checksum,
    };
    packet[headers.checksum()].copy_from_slice(&checksum);
}

/// Puts the checksum into an IPv4 header.
pub(crate) fn complete_ipv4(header: &mut [u8]) {
    header[10..12].fill(0);
    let checksum = Sum::of(header).complement();
    header[10..12].copy_from_slice(&checksum);
}

/// Returns whether the checksum of the transport layer is there and right.
pub(crate) fn is_right(packet: &[u8], headers: &Headers) -> bool {
    let segment = &packet[headers.transport..headers.end];
    let sum = pseudo_header(packet, headers, segment.len()).and(Sum::of(segment));
    sum.complement() == [0, 0] && packet[headers.checksum()] != [0, 0]
}

/// Returns whether the checksum of an IPv4 header is right.
pub(crate) fn is_right_ipv4(header: &[u8]) -> bool {
    Sum::of(header).complement() == [0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram of two bytes, "hi", from 198.18.0.1:1 to 198.18.0.2:2, without its checksums.
    fn datagram() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0];
        packet.extend([198, 18, 0, 1, 198, 18, 0, 2]);
        packet.extend([0, 1, 0, 2, 0, 10, 0xaa, 0xaa, b'h', b'i']);
        packet
    }

    #[test]
    fn the_checksum_of_a_datagram_is_that_of_a_calculation_by_hand() {
        let mut packet = datagram();
        complete(&mut packet);
        // c612 + 0001 + c612 + 0002 + 0011 + 000a + 0001 + 0002 + 000a + 6869 = 1f4b8 → f4b9.
        let expected = !0xf4b9_u16;
        assert_eq!(packet[26..28], expected.to_be_bytes());
    }

    #[test]
    fn the_checksum_of_a_header_is_that_of_a_calculation_by_hand() {
        let mut packet = datagram();
        complete_ipv4(&mut packet[..20]);
        // 4500 + 001e + 0000 + 0000 + 4011 + c612 + 0001 + c612 + 0002 = 21156 → 1158.
        assert_eq!(packet[10..12], (!0x1158_u16).to_be_bytes());
        assert!(is_right_ipv4(&packet[..20]));
        packet[8] -= 1;
        assert!(!is_right_ipv4(&packet[..20]));
    }

    /// A TCP segment over IPv6 with so many bytes of payload.
    fn segment(length: u8) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 20 + length, 6, 64];
        packet.extend((0..32).map(|byte| byte * 7));
        packet.extend((0..20 + length).map(|byte| byte.wrapping_mul(31)));
        packet[52] = 5 << 4;
        packet
    }

    #[test]
    fn what_is_completed_is_right_whatever_its_length() {
        for length in 0..40 {
            let mut packet = segment(length);
            complete(&mut packet);
            let headers = Headers::of(&packet).unwrap();
            assert!(is_right(&packet, &headers), "{length}");
        }
    }

    #[test]
    fn a_flipped_bit_is_seen_wherever_it_is() {
        let mut packet = segment(9);
        complete(&mut packet);
        let headers = Headers::of(&packet).unwrap();
        // The fields that tell where all else stands come first.
        for bit in (64..packet.len() * 8).filter(|bit| bit / 8 != 52) {
            packet[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_right(&packet, &headers), "{bit}");
            packet[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_datagram_without_a_checksum_is_not_right() {
        let mut packet = datagram();
        packet[26..28].fill(0);
        let headers = Headers::of(&packet).unwrap();
        assert!(!is_right(&packet, &headers));
    }

    #[test]
    fn a_packet_cut_short_or_of_another_protocol_stays_as_it_is() {
        let whole = datagram();
        for length in 0..whole.len() {
            let mut cut = whole[..length].to_vec();
            complete(&mut cut);
            assert_eq!(cut, whole[..length]);
        }
        let mut other = whole;
        other[9] = 1;
        let before = other.clone();
        complete(&mut other);
        assert_eq!(other, before);
    }
}
