//! Places of the headers of a TCP segment or a UDP datagram within its IP packet.

use crate::checksum::complete_ipv4;
use crate::ip::IpVersion;
use std::ops::Range;

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

/// A transport protocol whose checksum covers a pseudo-header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
}

impl Protocol {
    /// The number in the headers of IP.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }

    /// Offset at which its checksum stands, from the beginning of its header.
    pub(crate) const fn checksum(self) -> usize {
        match self {
            Self::Tcp => 16,
            Self::Udp => 6,
        }
    }

    fn of(number: u8) -> Option<Self> {
        [Self::Tcp, Self::Udp]
            .into_iter()
            .find(|protocol| protocol.number() == number)
    }
}

/// The places of the headers within one packet. All of them lie within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) version: IpVersion,
    pub(crate) protocol: Protocol,
    /// Offset at which the transport header begins: the length of the IP header.
    pub(crate) transport: usize,
    /// Offset at which the payload begins.
    pub(crate) payload: usize,
    /// Offset at which the packet ends by its IP header; what a frame was padded with comes after it.
    pub(crate) end: usize,
}

impl Headers {
    /// The headers of an unfragmented packet of TCP or UDP that is all there; `None` of any other. IPv6
    /// with extension headers is among the others.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let (number, transport) = match IpVersion::of_packet(packet)? {
            IpVersion::V4 if u16_at(packet, 6)? & 0x3fff != 0 => return None,
            IpVersion::V4 => (packet.get(9)?, usize::from(packet[0] & 0xf) * 4),
            IpVersion::V6 => (packet.get(6)?, IPV6_HEADER),
        };
        Self::at(packet, Protocol::of(*number)?, transport)
    }

    /// The same where the transport header is known to begin at `transport`, whatever stands before it.
    pub(crate) fn at(packet: &[u8], protocol: Protocol, transport: usize) -> Option<Self> {
        let version = IpVersion::of_packet(packet)?;
        let (ip, end) = match version {
            IpVersion::V4 => (IPV4_HEADER, usize::from(u16_at(packet, 2)?)),
            IpVersion::V6 => (IPV6_HEADER, IPV6_HEADER + usize::from(u16_at(packet, 4)?)),
        };
        let length = match protocol {
            Protocol::Tcp => usize::from(packet.get(transport + 12)? >> 4) * 4,
            Protocol::Udp => 8,
        };
        let (least, payload) = (protocol.checksum() + 2, transport + length);
        let whole = transport >= ip && length >= least && payload <= end && end <= packet.len();
        whole.then_some(Self {
            version,
            protocol,
            transport,
            payload,
            end,
        })
    }

    /// Offset at which the checksum of the transport protocol stands.
    pub(crate) fn checksum(&self) -> Range<usize> {
        let start = self.transport + self.protocol.checksum();
        start..start + 2
    }

    /// Writes the length of the packet, which is that of the slice, where its headers have it, and completes
    /// the checksum of an IPv4 header.
    pub(crate) fn put_length(&self, packet: &mut [u8]) {
        let (length, transport) = (packet.len(), self.transport);
        let mut put = |at: usize, length: usize| {
            packet[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
        };
        if self.protocol == Protocol::Udp {
            put(transport + 4, length - transport);
        }
        match self.version {
            IpVersion::V4 => {
                put(2, length);
                complete_ipv4(&mut packet[..transport]);
            }
            IpVersion::V6 => put(4, length - IPV6_HEADER),
        }
    }

    /// Range of the two addresses.
    pub(crate) fn addresses(&self) -> Range<usize> {
        match self.version {
            IpVersion::V4 => 12..20,
            IpVersion::V6 => 8..40,
        }
    }
}

/// A number of 16 bits; `None` beyond the end.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([field[0], field[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet of TCP with 4 bytes of options and 3 of payload.
    fn segment() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 47, 0, 0, 0x40, 0, 64, 6, 0, 0];
        packet.extend([198, 18, 0, 1, 198, 18, 0, 2]);
        packet.extend([0; 12]);
        packet.push(6 << 4);
        packet.extend([0; 14]);
        packet
    }

    #[test]
    fn the_headers_of_a_segment_are_found() {
        let headers = Headers::of(&segment()).unwrap();
        assert_eq!(headers.protocol, Protocol::Tcp);
        assert_eq!((headers.transport, headers.payload), (20, 44));
        assert_eq!(headers.end, 47);
        assert_eq!(headers.checksum(), 36..38);
    }

    #[test]
    fn padding_is_no_part_of_the_packet() {
        let mut padded = segment();
        padded.extend([0; 9]);
        assert_eq!(Headers::of(&padded).unwrap().end, 47);
    }

    #[test]
    fn a_packet_cut_short_anywhere_has_none() {
        let whole = segment();
        for length in 0..whole.len() {
            assert_eq!(Headers::of(&whole[..length]), None, "{length}");
        }
    }

    #[test]
    fn fragments_have_none() {
        for (place, bits) in [(6, 0x60), (7, 1), (6, 0x41)] {
            let mut fragment = segment();
            fragment[place] = bits;
            assert_eq!(Headers::of(&fragment), None);
        }
    }

    #[test]
    fn a_header_shorter_than_its_protocol_knows_is_none() {
        let mut short = segment();
        short[32] = 4 << 4;
        assert_eq!(Headers::of(&short), None);
    }

    #[test]
    fn other_protocols_and_extension_headers_have_none() {
        let mut icmp = segment();
        icmp[9] = 1;
        assert_eq!(Headers::of(&icmp), None);
        let mut fragmented = vec![0x60, 0, 0, 0, 0, 40, 44, 64];
        fragmented.extend([0; 72]);
        assert_eq!(Headers::of(&fragmented), None);
    }
}
