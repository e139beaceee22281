//! Properties of an Ethernet frame that the link needs: whether it is traffic of the ends, and how
//! large.

use crate::headers::u16_at;
use altway_units::DataSize;

/// Destination, source and type.
pub(crate) const HEADER: usize = 14;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const IPV6_HEADER: usize = 40;

/// Next headers of IPv6.
const HOP_BY_HOP: u8 = 0;
const ICMPV6: u8 = 58;

/// Returns the IP bytes of a frame, without what Ethernet pads short ones with. `None` for frames that
/// keep an Ethernet together and are no traffic: ARP and other protocols than IP, and of IPv6 the
/// discovery of neighbours and routers and the reports of multicast listeners.
///
/// A packet that claims to be longer than its frame counts as the frame.
pub(crate) fn ip_size(frame: &[u8]) -> Option<DataSize> {
    let packet = frame.get(HEADER..)?;
    let claimed = match u16_at(frame, 12)? {
        IPV4 => usize::from(u16_at(packet, 2)?),
        IPV6 if is_housekeeping(packet) => return None,
        IPV6 => IPV6_HEADER + usize::from(u16_at(packet, 4)?),
        _ => return None,
    };
    Some(DataSize::from_bytes(claimed.min(packet.len()) as u64))
}

/// RFC 4861 §4 (133 to 137), RFC 2710 §3 (130 to 132), RFC 3810 §5.2 (143).
fn is_housekeeping(packet: &[u8]) -> bool {
    let kind = match packet.get(6) {
        Some(&ICMPV6) => packet.get(IPV6_HEADER),
        // Multicast listeners put a router alert in front: eight bytes.
        Some(&HOP_BY_HOP) if packet.get(IPV6_HEADER) == Some(&ICMPV6) => {
            packet.get(IPV6_HEADER + 8)
        }
        _ => None,
    };
    matches!(kind, Some(130..=137 | 143))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u16, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; HEADER];
        frame[12..].copy_from_slice(&kind.to_be_bytes());
        frame.extend(packet);
        frame
    }

    fn ipv4(total: u16, length: usize) -> Vec<u8> {
        let mut packet = vec![0; length];
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        frame(IPV4, &packet)
    }

    fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; IPV6_HEADER];
        let length = u16::try_from(payload.len()).unwrap();
        packet[4..6].copy_from_slice(&length.to_be_bytes());
        packet[6] = next;
        packet.extend(payload);
        frame(IPV6, &packet)
    }

    fn bytes(frame: &[u8]) -> Option<u64> {
        ip_size(frame).map(DataSize::as_bytes)
    }

    #[test]
    fn ip_bytes_are_counted_without_header_and_padding() {
        assert_eq!(bytes(&ipv4(1_500, 1_500)), Some(1_500));
        // The least frame of Ethernet carries 46 bytes.
        assert_eq!(bytes(&ipv4(40, 46)), Some(40));
        assert_eq!(bytes(&ipv6(17, &[0; 100])), Some(140));
    }

    #[test]
    fn a_packet_is_never_longer_than_its_frame() {
        assert_eq!(bytes(&ipv4(65_535, 28)), Some(28));
    }

    #[test]
    fn what_keeps_the_ethernet_together_is_no_traffic() {
        assert_eq!(bytes(&frame(0x0806, &[0; 28])), None);
        for kind in [133, 134, 135, 136, 137] {
            assert_eq!(bytes(&ipv6(ICMPV6, &[kind, 0, 0, 0])), None);
        }
        let report = [ICMPV6, 0, 5, 2, 0, 0, 1, 0, 143, 0];
        assert_eq!(bytes(&ipv6(HOP_BY_HOP, &report)), None);
    }

    #[test]
    fn an_echo_request_is_traffic() {
        assert_eq!(bytes(&ipv6(ICMPV6, &[128, 0, 0, 0])), Some(44));
    }

    #[test]
    fn a_frame_cut_short_anywhere_is_read_within_its_bounds() {
        let whole = ipv6(HOP_BY_HOP, &[ICMPV6, 0, 5, 2, 0, 0, 1, 0, 143, 0]);
        for length in 0..whole.len() {
            let _ = ip_size(&whole[..length]);
        }
    }
}
