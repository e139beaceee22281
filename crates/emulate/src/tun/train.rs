//! Packets that leave at the same time and follow each other, handed to the kernel in one piece.
//!
//! Does what hardware does that joins received packets, and the kernel itself where hardware doesn't
//! (generic receive offload). The rules are the kernel's: the packets are of one flow and alike but for
//! their place in it, all but the last have the same size, and their checksums are right. So what was
//! corrupted stays alone, and is the receiver's to find.

use super::tcp::{ACK, FLAGS, PSH, SEQUENCE};
use super::virtio::{Checksum, LENGTH, Offload, PACKET_MAX, Segmentation};
use crate::checksum::{is_right, is_right_ipv4, pseudo_header};
use crate::headers::{Headers, Protocol, u16_at};
use crate::ip::IpVersion;
use std::ops::Range;

/// The most packets in one piece: more of UDP are refused by kernels before Linux 6.9 (UDP_MAX_SEGMENTS).
const PACKETS_MAX: usize = 64;

/// An IPv4 header without options.
const IPV4_HEADER: usize = 20;

/// Bytes of a header that are the same in all packets of a train: all but lengths, the identification,
/// checksums, the sequence number and the flags.
const EQUAL_BYTES_IPV4: &[Range<usize>] = &[0..2, 6..10, 12..20];
const EQUAL_BYTES_IPV6: &[Range<usize>] = &[0..4, 6..40];
const EQUAL_BYTES_UDP: &[Range<usize>] = &[0..2, 2..4];
const EQUAL_BYTES_TCP: &[Range<usize>] = &[0..4, 8..13, 14..16, 18..20];
const TCP_OPTIONS: usize = 20;

/// Packets that may be handed over in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joins {
    /// No packets: each comes by itself.
    Nothing,
    /// Segments of TCP.
    Tcp,
    /// TCP segments and UDP datagrams.
    TcpAndUdp,
}

/// Packets that wait to be handed over.
#[derive(Debug)]
pub(super) struct Train {
    /// The header of [`super::virtio`], the first packet, and the payloads of the others.
    bytes: Vec<u8>,
    packets: usize,
    /// Head of the first packet, if others may follow it.
    head: Option<Head>,
    /// True if another packet may follow the last.
    is_open: bool,
    joins: Joins,
}

/// Values that the packets that follow are compared with.
#[derive(Debug, Clone, Copy)]
struct Head {
    headers: Headers,
    /// The payload of the first, in bytes.
    size: usize,
}

impl Train {
    pub(super) fn new(joins: Joins) -> Self {
        Self {
            bytes: Vec::with_capacity(LENGTH + PACKET_MAX),
            packets: 0,
            head: None,
            is_open: false,
            joins,
        }
    }

    /// Returns the number of packets in it.
    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    /// Begins anew, with nothing.
    pub(super) fn clear(&mut self) {
        self.packets = 0;
        self.is_open = false;
    }

    /// Begins anew, with this packet.
    pub(super) fn begin(&mut self, packet: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&[0; LENGTH]);
        self.bytes.extend_from_slice(packet);
        self.packets = 1;
        self.head = self.head_of(packet);
        self.is_open = self.head.is_some();
    }

    /// Appends a packet; returns whether it could follow the last.
    pub(super) fn join(&mut self, packet: &[u8]) -> bool {
        let Some(head) = self.head.filter(|_| self.is_open) else {
            return false;
        };
        let Some(headers) = self.follower(&head, packet) else {
            return false;
        };
        let payload = &packet[headers.payload..];
        // A shorter one is the last, and so is one that doesn't want to wait.
        self.is_open = payload.len() == head.size;
        if headers.protocol == Protocol::Tcp && packet[headers.transport + FLAGS] & PSH != 0 {
            self.bytes[LENGTH + headers.transport + FLAGS] |= PSH;
            self.is_open = false;
        }
        self.bytes.extend_from_slice(payload);
        self.packets += 1;
        true
    }

    /// Returns what to hand over, in one piece.
    pub(super) fn seal(&mut self) -> &[u8] {
        if let Some(head) = self.head.filter(|_| self.packets > 1) {
            let packet = &mut self.bytes[LENGTH..];
            let headers = Headers {
                end: packet.len(),
                ..head.headers
            };
            headers.put_length(packet);
            let sum = pseudo_header(packet, &headers, headers.end - headers.transport).bytes();
            packet[headers.checksum()].copy_from_slice(&sum);
            let offload = head
                .offload()
                .encode(headers.version, headers.payload as u16);
            self.bytes[..LENGTH].copy_from_slice(&offload);
        }
        self.is_open = false;
        &self.bytes
    }

    /// `None` when no packet may follow this one.
    fn head_of(&self, packet: &[u8]) -> Option<Head> {
        let headers = Headers::of(packet)?;
        let has_options = headers.version == IpVersion::V4 && headers.transport != IPV4_HEADER;
        let is_plain = match (headers.protocol, self.joins) {
            (_, Joins::Nothing) | (Protocol::Udp, Joins::Tcp) => false,
            (Protocol::Tcp, _) => packet[headers.transport + FLAGS] == ACK,
            (Protocol::Udp, _) => has_own_length(packet, &headers),
        };
        let size = headers.end - headers.payload;
        let may_lead = is_plain && !has_options && size > 0 && headers.end == packet.len();
        may_lead.then_some(Head { headers, size })
    }

    /// The headers of a packet that may follow the last.
    fn follower(&self, head: &Head, packet: &[u8]) -> Option<Headers> {
        let headers = Headers::of(packet)?;
        let first = &self.bytes[LENGTH..][..head.headers.end];
        let size = headers.end - headers.payload;
        let fits = (1..=head.size).contains(&size)
            && headers.end == packet.len()
            && self.bytes.len() + size <= LENGTH + PACKET_MAX
            && self.packets < PACKETS_MAX;
        let joined = self.bytes.len() - LENGTH - head.headers.payload;
        let follows = fits
            && headers.payload == head.headers.payload
            && (headers.version, headers.protocol) == (head.headers.version, head.headers.protocol)
            && is_alike(first, packet, &headers)
            && comes_next(first, packet, &headers, joined);
        // Sums take longest, so they come last, and that of the first when a second may follow.
        let is_whole = |packet: &[u8], headers: &Headers| {
            is_right(packet, headers)
                && (headers.version == IpVersion::V6 || is_right_ipv4(&packet[..headers.transport]))
        };
        let all_whole = follows
            && is_whole(packet, &headers)
            && (self.packets > 1 || is_whole(first, &head.headers));
        all_whole.then_some(headers)
    }
}

impl Head {
    /// Returns what the kernel would have to do to have the packets one by one.
    fn offload(&self) -> Offload {
        let (protocol, transport) = (self.headers.protocol, self.headers.transport);
        Offload {
            checksum: Some(Checksum {
                start: transport as u16,
                offset: protocol.checksum() as u16,
            }),
            segmentation: Some(Segmentation {
                protocol,
                size: self.size as u16,
            }),
        }
    }
}

/// Returns whether two packets whose headers are of the same kind and length differ in nothing but their place
/// within a flow.
fn is_alike(first: &[u8], packet: &[u8], headers: &Headers) -> bool {
    let same = |places: &[Range<usize>], from: usize| {
        places.iter().all(|place| {
            let place = from + place.start..from + place.end;
            first[place.clone()] == packet[place]
        })
    };
    let transport = headers.transport;
    let options = transport + TCP_OPTIONS..headers.payload;
    let ip = match headers.version {
        IpVersion::V4 => EQUAL_BYTES_IPV4,
        IpVersion::V6 => EQUAL_BYTES_IPV6,
    };
    same(ip, 0)
        && match headers.protocol {
            Protocol::Tcp => {
                same(EQUAL_BYTES_TCP, transport) && first[options.clone()] == packet[options]
            }
            Protocol::Udp => same(EQUAL_BYTES_UDP, transport),
        }
}

/// Returns whether a packet follows `joined` bytes of payload that begin with the first's.
fn comes_next(first: &[u8], packet: &[u8], headers: &Headers, joined: usize) -> bool {
    match headers.protocol {
        Protocol::Udp => has_own_length(packet, headers),
        Protocol::Tcp => {
            let sequence = |packet: &[u8]| {
                let field = packet[headers.transport + SEQUENCE..].first_chunk();
                field.map_or(0, |bytes| u32::from_be_bytes(*bytes))
            };
            let next = sequence(first).wrapping_add(joined as u32);
            let flags = packet[headers.transport + FLAGS];
            sequence(packet) == next && flags & !PSH == ACK
        }
    }
}

/// Returns whether the length in a header of UDP is what IP says.
fn has_own_length(packet: &[u8], headers: &Headers) -> bool {
    u16_at(packet, headers.transport + 4).map(usize::from) == Some(headers.end - headers.transport)
}
