//! The latest piece read from a TUN interface, cut up into the packets that a wire would carry.
//!
//! A sender's kernel hands several segments of TCP or datagrams of UDP over in one piece where the
//! interface says that it can cut them up, as nearly every one of hardware can. This does what that
//! hardware does, so that the link sees one packet of the wire after the other, with its own checksum.

use super::tcp::{CWR, FIN, FLAGS, PSH, SEQUENCE};
use super::virtio::{Checksum, LENGTH, Offload, PACKET_MAX, Segmentation};
use crate::checksum::{Sum, complete_with};
use crate::headers::{Headers, Protocol};
use crate::ip::IpVersion;

/// Room for one piece, and what is left of it.
#[derive(Debug)]
pub(super) struct Inbox {
    /// The header of [`super::virtio`], then the packet.
    bytes: Box<[u8]>,
    left: RemainingPiece,
    unfit: u64,
}

/// Part of the piece that has not been taken yet.
#[derive(Debug, Clone, Copy)]
enum RemainingPiece {
    Nothing,
    /// A single packet of this length.
    Whole(usize),
    Segments(Segments),
}

/// Several packets in one piece.
#[derive(Debug, Clone, Copy)]
struct Segments {
    headers: Headers,
    /// The payload of each packet but the last.
    size: usize,
    /// Number of packets taken.
    taken: usize,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; LENGTH + PACKET_MAX].into_boxed_slice(),
            left: RemainingPiece::Nothing,
            unfit: 0,
        }
    }

    /// Place where the next piece goes; what is left of the one before it is thrown away.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.left = RemainingPiece::Nothing;
        &mut self.bytes
    }

    /// A piece of this length was read into the room, with the header.
    pub(super) fn filled(&mut self, length: usize) {
        self.left = self.look(length).unwrap_or_else(|| {
            self.unfit += 1;
            RemainingPiece::Nothing
        });
    }

    /// Writes the next packet to `buffer` and returns its length; `None` when nothing is left.
    pub(super) fn take(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let written = match self.left {
            RemainingPiece::Nothing => return None,
            RemainingPiece::Whole(length) => copy(&self.bytes[LENGTH..][..length], buffer),
            RemainingPiece::Segments(segments) => segments.write(&self.bytes[LENGTH..], buffer),
        };
        self.left = match self.left {
            RemainingPiece::Segments(segments) if written.is_some() => segments.after_one(),
            _ => RemainingPiece::Nothing,
        };
        self.unfit += u64::from(written.is_none());
        written
    }

    /// Number of pieces, since this was called last, that are no packets of the wire.
    pub(super) fn take_unfit(&mut self) -> u64 {
        std::mem::take(&mut self.unfit)
    }

    fn look(&mut self, length: usize) -> Option<RemainingPiece> {
        let (header, packet) = self.bytes.get_mut(..length)?.split_first_chunk_mut()?;
        let offload = Offload::decode(header)?;
        let Some(Segmentation { protocol, size }) = offload.segmentation else {
            if let Some(checksum) = offload.checksum {
                complete_from(packet, checksum)?;
            }
            return Some(RemainingPiece::Whole(packet.len()));
        };
        let transport = usize::from(offload.checksum?.start);
        let headers = Headers::at(packet, protocol, transport)?;
        let segments = Segments {
            headers,
            size: usize::from(size),
            taken: 0,
        };
        Some(RemainingPiece::Segments(segments))
    }
}

impl Segments {
    /// Returns what is left after the next one.
    fn after_one(mut self) -> RemainingPiece {
        self.taken += 1;
        if self.start() < self.headers.end {
            RemainingPiece::Segments(self)
        } else {
            RemainingPiece::Nothing
        }
    }

    /// Offset at which the payload of the next one begins.
    fn start(&self) -> usize {
        self.headers.payload + self.taken * self.size
    }

    /// Writes the next one to `to`; `None` when it doesn't fit there.
    fn write(&self, from: &[u8], to: &mut [u8]) -> Option<usize> {
        let (head, start) = (self.headers.payload, self.start());
        let end = self.headers.end.min(start + self.size);
        let length = head + end - start;
        let packet = to.get_mut(..length)?;
        packet[..head].copy_from_slice(&from[..head]);
        packet[head..].copy_from_slice(&from[start..end]);
        self.fix_headers(packet, end == self.headers.end);
        Some(length)
    }

    /// Makes the headers of a copy those of its own packet.
    fn fix_headers(&self, packet: &mut [u8], is_last: bool) {
        let headers = Headers {
            end: packet.len(),
            ..self.headers
        };
        if headers.version == IpVersion::V4 {
            // Each has a number of its own (RFC 6864 §4 asks for no more).
            let identification = u16::from_be_bytes([packet[4], packet[5]]);
            let identification = identification.wrapping_add(self.taken as u16);
            packet[4..6].copy_from_slice(&identification.to_be_bytes());
        }
        headers.put_length(packet);
        if headers.protocol == Protocol::Tcp {
            self.continue_tcp(&mut packet[headers.transport..], is_last);
        }
        complete_with(packet, &headers);
    }

    fn continue_tcp(&self, header: &mut [u8], is_last: bool) {
        let passed = (self.taken * self.size) as u32;
        if let Some(sequence) = header[SEQUENCE..].first_chunk_mut::<4>() {
            *sequence = u32::from_be_bytes(*sequence)
                .wrapping_add(passed)
                .to_be_bytes();
        }
        if !is_last {
            header[FLAGS] &= !(FIN | PSH);
        }
        if self.taken > 0 {
            header[FLAGS] &= !CWR;
        }
    }
}

fn copy(from: &[u8], to: &mut [u8]) -> Option<usize> {
    to.get_mut(..from.len())?.copy_from_slice(from);
    Some(from.len())
}

/// Completes the checksum of any protocol: all that it covers is summed up, with the sum of the
/// pseudo-header that stands in its place.
fn complete_from(packet: &mut [u8], checksum: Checksum) -> Option<()> {
    let covered = packet.get_mut(usize::from(checksum.start)..)?;
    let sum = match Sum::of(covered).complement() {
        // 0 would mean that there is none in UDP (RFC 768), and says the same as this elsewhere.
        [0, 0] => [u8::MAX; 2],
        sum => sum,
    };
    let place = usize::from(checksum.offset);
    covered.get_mut(place..place + 2)?.copy_from_slice(&sum);
    Some(())
}
