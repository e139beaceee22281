//! Checksums of TCP and UDP that the sender left to its hardware.
//!
//! Between two interfaces of containers there is no hardware: the packet comes with the checksum of its
//! pseudo-header in the checksum's place, and whoever puts it on a wire has to do the rest.

use crate::ethernet::HEADER;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Puts the checksum of the transport layer into an Ethernet frame. What is no whole TCP segment or UDP
/// datagram over IPv4 or IPv6 is left as it is.
pub(crate) fn complete(frame: &mut [u8]) {
    // What doesn't parse can't be mended.
    let _ = try_complete(frame);
}

fn try_complete(frame: &mut [u8]) -> Option<()> {
    let packet = frame.get_mut(HEADER..)?;
    let (protocol, start, end, addresses) = match packet.first()? >> 4 {
        4 => {
            let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
            let header = usize::from(packet[0] & 0xf) * 4;
            (*packet.get(9)?, header, total, 12..20)
        }
        6 => {
            let payload = usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
            (*packet.get(6)?, 40, 40 + payload, 8..40)
        }
        _ => return None,
    };
    let place = match protocol {
        TCP => 16,
        UDP => 6,
        _ => return None,
    };
    let addresses = sum(packet.get(addresses)?);
    let segment = packet.get_mut(start..end)?;
    segment.get_mut(place..place + 2)?.fill(0);
    let length = u64::try_from(segment.len()).ok()?;
    let checksum = fold(addresses + u64::from(protocol) + length + sum(segment));
    // For UDP, 0 means that there is none (RFC 768).
    let checksum = if checksum == 0 && protocol == UDP {
        u16::MAX
    } else {
        checksum
    };
    segment[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
    Some(())
}

/// The sum of all 16-bit words, the last filled up with zeros (RFC 1071 §1).
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2);
    let word = |chunk: &[u8]| u16::from_be_bytes([chunk[0], chunk.get(1).copied().unwrap_or(0)]);
    words.map(|chunk| u64::from(word(chunk))).sum()
}

/// The complement of the sum in ones' complement arithmetic.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet header, then `packet`.
    fn frame(packet: &[u8]) -> Vec<u8> {
        [&[0; HEADER][..], packet].concat()
    }

    /// A datagram of two bytes, "hi", from 198.18.0.1:1 to 198.18.0.2:2, without its checksum.
    fn datagram() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 30, 0, 0, 0, 0, 64, UDP, 0, 0];
        packet.extend([198, 18, 0, 1, 198, 18, 0, 2]);
        packet.extend([0, 1, 0, 2, 0, 10, 0xaa, 0xaa, b'h', b'i']);
        frame(&packet)
    }

    #[test]
    fn the_checksum_of_a_datagram_is_that_of_a_calculation_by_hand() {
        let mut frame = datagram();
        complete(&mut frame);
        // c612 + 0001 + c612 + 0002 + 0011 + 000a + 0001 + 0002 + 000a + 6869 = 1f4b8 → f4b9.
        let expected = !0xf4b9_u16;
        assert_eq!(frame[HEADER + 26..HEADER + 28], expected.to_be_bytes());
    }

    #[test]
    fn what_is_completed_sums_up_to_nothing() {
        for length in 0..40_u8 {
            let mut packet = vec![0x60, 0, 0, 0, 0, 20 + length, TCP, 64];
            packet.extend((0..32).map(|byte| byte * 7));
            packet.extend((0..20 + length).map(|byte| byte.wrapping_mul(31)));
            let mut frame = frame(&packet);
            complete(&mut frame);
            let pseudo = sum(&frame[HEADER + 8..HEADER + 40]) + u64::from(TCP);
            let segment = &frame[HEADER + 40..];
            assert_eq!(fold(pseudo + segment.len() as u64 + sum(segment)), 0);
        }
    }

    #[test]
    fn a_frame_cut_short_or_of_another_protocol_stays_as_it_is() {
        let whole = datagram();
        for length in 0..whole.len() {
            let mut cut = whole[..length].to_vec();
            complete(&mut cut);
            assert_eq!(cut, whole[..length]);
        }
        let mut other = whole;
        other[HEADER + 9] = 1;
        let before = other.clone();
        complete(&mut other);
        assert_eq!(other, before);
    }
}
