//! Header of each packet that is read from or written to a TUN interface: `struct virtio_net_hdr` of
//! linux/virtio_net.h (Virtual I/O Device 1.2 §5.1.6), in the machine's byte order.

use crate::headers::Protocol;
use crate::ip::IpVersion;

/// The length in bytes.
pub(super) const LENGTH: usize = 10;

/// A packet's payload can be this long, and be of one piece still (RFC 791 §3.1).
pub(super) const PACKET_MAX: usize = 65_535;

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Beside a GSO of TCP: its first segment has CWR set (RFC 3168 §6.1.2).
const GSO_ECN: u8 = 0x80;

/// Work that was left to the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Offload {
    /// The checksum that is to be completed.
    pub(super) checksum: Option<Checksum>,
    /// The segmentation of the packet that is to be done.
    pub(super) segmentation: Option<Segmentation>,
}

/// A checksum that has only the sum of the pseudo-header yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checksum {
    /// Offset at which what it covers begins: the transport header.
    pub(super) start: u16,
    /// Offset at which it stands, counted from there.
    pub(super) offset: u16,
}

/// Several packets in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segmentation {
    pub(super) protocol: Protocol,
    /// The payload of each packet but the last, in bytes.
    pub(super) size: u16,
}

impl Offload {
    /// `None` of what this file doesn't know: nothing else was asked for.
    pub(super) fn decode(header: &[u8; LENGTH]) -> Option<Self> {
        let number = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let checksum = (header[0] & NEEDS_CSUM != 0).then(|| Checksum {
            start: number(6),
            offset: number(8),
        });
        let protocol = match header[1] & !GSO_ECN {
            GSO_NONE => None,
            GSO_TCPV4 | GSO_TCPV6 => Some(Protocol::Tcp),
            GSO_UDP_L4 => Some(Protocol::Udp),
            _ => return None,
        };
        let size = number(4);
        let segmentation = protocol.map(|protocol| Segmentation { protocol, size });
        (size > 0 || segmentation.is_none()).then_some(Self {
            checksum,
            segmentation,
        })
    }

    /// `payload` is where the payload of the first packet begins.
    pub(super) fn encode(&self, version: IpVersion, payload: u16) -> [u8; LENGTH] {
        let mut header = [0; LENGTH];
        let mut put = |at: usize, number: u16| {
            header[at..at + 2].copy_from_slice(&number.to_ne_bytes());
        };
        if let Some(segmentation) = self.segmentation {
            put(2, payload);
            put(4, segmentation.size);
        }
        if let Some(checksum) = self.checksum {
            put(6, checksum.start);
            put(8, checksum.offset);
            header[0] = NEEDS_CSUM;
        }
        header[1] = match (self.segmentation.map(|of| of.protocol), version) {
            (None, _) => GSO_NONE,
            (Some(Protocol::Tcp), IpVersion::V4) => GSO_TCPV4,
            (Some(Protocol::Tcp), IpVersion::V6) => GSO_TCPV6,
            (Some(Protocol::Udp), _) => GSO_UDP_L4,
        };
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_zeros_leaves_nothing_to_do() {
        let header = [0; LENGTH];
        assert_eq!(Offload::decode(&header), Some(Offload::default()));
        assert_eq!(Offload::default().encode(IpVersion::V4, 40), header);
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            for version in IpVersion::ALL {
                let offload = Offload {
                    checksum: Some(Checksum {
                        start: 20,
                        offset: 16,
                    }),
                    segmentation: Some(Segmentation {
                        protocol,
                        size: 1_448,
                    }),
                };
                assert_eq!(Offload::decode(&offload.encode(version, 52)), Some(offload));
            }
        }
    }

    #[test]
    fn segments_of_nothing_and_kinds_that_were_not_asked_for_are_refused() {
        assert_eq!(
            Offload::decode(&[0, GSO_TCPV4, 0, 0, 0, 0, 0, 0, 0, 0]),
            None
        );
        assert_eq!(Offload::decode(&[0, 3, 0, 0, 1, 1, 0, 0, 0, 0]), None);
    }
}
