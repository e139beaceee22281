//! Packets in which a bit is wrong.

/// The size of an IPv6 header (RFC 8200 §3).
const IPV6_HEADER: usize = 40;

/// The bit of a packet that is flipped: one behind its IP header, each with the same probability.
///
/// The model only says which; who owns the bytes flips it. One flipped bit always breaks the checksum
/// of TCP and UDP (RFC 9293 §3.1, RFC 768), so that the receiver throws the packet away, unless the
/// checksum of a UDP datagram over IPv4 says that there is none. The IP header is left alone: a wrong
/// address would send the packet elsewhere, which is another fault than a corrupt one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitFlip {
    /// The place, as a fraction of 2^64 of the bits that there are.
    place: u64,
}

impl BitFlip {
    /// `place` is 64 random bits.
    pub(crate) fn new(place: u64) -> Self {
        Self { place }
    }

    /// Flips the bit in these bytes of an IPv4 or IPv6 packet; twice is as before.
    ///
    /// If nothing stands behind the header, or it is no IP packet, the bit is one of all its bytes. An
    /// empty packet stays as it is.
    pub fn apply(self, packet: &mut [u8]) {
        let header = header_size(packet);
        let body = if header < packet.len() {
            &mut packet[header..]
        } else {
            packet
        };
        let bits = body.len() as u128 * 8;
        let bit = ((u128::from(self.place) * bits) >> 64) as usize;
        if let Some(byte) = body.get_mut(bit / 8) {
            *byte ^= 0x80 >> (bit % 8);
        }
    }
}

/// The bytes of the IP header at the front.
fn header_size(packet: &[u8]) -> usize {
    match packet.first() {
        // Version and IHL, the length of the header in words of 32 bits (RFC 791 §3.1).
        Some(first) if first >> 4 == 4 => usize::from(first & 0xf) * 4,
        Some(first) if first >> 4 == 6 => IPV6_HEADER,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offset at which a flip of `place` changes a packet of zeroes but for its first byte.
    fn flipped(first: u8, len: usize, place: u64) -> Vec<(usize, u8)> {
        let mut packet = vec![0; len];
        packet[0] = first;
        let before = packet.clone();
        BitFlip::new(place).apply(&mut packet);
        let changed = before.iter().zip(&packet).map(|(a, b)| a ^ b).enumerate();
        changed.filter(|(_, bits)| *bits != 0).collect()
    }

    #[test]
    fn flips_one_bit_from_the_first_behind_the_header_to_the_last() {
        assert_eq!(flipped(0x45, 100, 0), [(20, 0x80)]);
        assert_eq!(flipped(0x45, 100, u64::MAX), [(99, 0x01)]);
        assert_eq!(flipped(0x46, 100, 0), [(24, 0x80)]);
        assert_eq!(flipped(0x60, 100, 0), [(40, 0x80)]);
        assert_eq!(flipped(0x60, 100, 1 << 63), [(70, 0x80)]);
    }

    #[test]
    fn a_packet_without_a_body_is_flipped_anywhere() {
        assert_eq!(flipped(0x45, 20, 0), [(0, 0x80)]);
        assert_eq!(flipped(0x4f, 10, u64::MAX), [(9, 0x01)]);
        assert_eq!(flipped(0x00, 1, 0), [(0, 0x80)]);
        BitFlip::new(7).apply(&mut []);
    }
}
