//! Frames on the wire (RFC 9113 sections 4 and 6): the nine bytes before each, types and flags.
//!
//! The meaning of a frame belongs to `connection`; the layout of SETTINGS to `settings`.

use crate::Code;
use crate::fault::Fault;

/// Every frame begins with so many bytes (section 4.1).
pub(crate) const HEADER_LEN: usize = 9;

/// Largest payload that this side takes: the value that every endpoint must accept and that we
/// never raise (section 4.2).
pub(crate) const MAX_PAYLOAD: usize = 16_384;

/// Connection preface, which a client sends first (section 3.4).
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Stream identifiers have 31 bits; the reserved bit "MUST be ignored when receiving".
const STREAM_MASK: u32 = 0x7fff_ffff;

/// Frame types.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0x00;
    pub(crate) const HEADERS: u8 = 0x01;
    pub(crate) const PRIORITY: u8 = 0x02;
    pub(crate) const RST_STREAM: u8 = 0x03;
    pub(crate) const SETTINGS: u8 = 0x04;
    pub(crate) const PUSH_PROMISE: u8 = 0x05;
    pub(crate) const PING: u8 = 0x06;
    pub(crate) const GOAWAY: u8 = 0x07;
    pub(crate) const WINDOW_UPDATE: u8 = 0x08;
    pub(crate) const CONTINUATION: u8 = 0x09;
    /// RFC 7838 section 4.
    pub(crate) const ALTSVC: u8 = 0x0a;
    /// RFC 9218 section 7.1.
    pub(crate) const PRIORITY_UPDATE: u8 = 0x10;
}

/// Flags; which ones a frame has depends on its type.
pub(crate) mod flag {
    pub(crate) const NONE: u8 = 0x00;
    pub(crate) const ACK: u8 = 0x01;
    pub(crate) const END_STREAM: u8 = 0x01;
    pub(crate) const END_HEADERS: u8 = 0x04;
    pub(crate) const PADDED: u8 = 0x08;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// Bytes of the payload, 24 bits on the wire.
    pub(crate) len: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    /// 0: the connection as a whole.
    pub(crate) stream: u32,
}

impl FrameHeader {
    /// Reads it; `None` while `bytes` are too few.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let [l2, l1, l0, kind, flags, stream @ ..] = bytes.first_chunk::<HEADER_LEN>()?;
        Some(Self {
            len: usize::from(*l2) << 16 | usize::from(*l1) << 8 | usize::from(*l0),
            kind: *kind,
            flags: *flags,
            stream: u32::from_be_bytes(*stream) & STREAM_MASK,
        })
    }

    /// Appends it.
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes());
    }

    /// Writes it over the nine bytes at `at`, which were left for it.
    pub(crate) fn put_at(self, at: usize, out: &mut [u8]) {
        out[at..at + HEADER_LEN].copy_from_slice(&self.bytes());
    }

    fn bytes(self) -> [u8; HEADER_LEN] {
        let [_, l2, l1, l0] = u32::try_from(self.len)
            .expect("a payload has at most 2^24 - 1 bytes")
            .to_be_bytes();
        let [s3, s2, s1, s0] = self.stream.to_be_bytes();
        [l2, l1, l0, self.kind, self.flags, s3, s2, s1, s0]
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame whose payload is there already.
pub(crate) fn put(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let header = FrameHeader {
        len: payload.len(),
        kind,
        flags,
        stream,
    };
    header.put(out);
    out.extend_from_slice(payload);
}

/// A number of four bytes.
pub(crate) fn be32(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes)
}

/// A stream identifier or window increment: 31 bits of four bytes.
pub(crate) fn be31(bytes: [u8; 4]) -> u32 {
    be32(bytes) & STREAM_MASK
}

/// A payload that must have exactly `N` bytes.
pub(crate) fn exactly<const N: usize>(payload: &[u8]) -> Result<[u8; N], Fault> {
    payload
        .try_into()
        .map_err(|_| Fault::Connection(Code::FRAME_SIZE_ERROR, "frame of a wrong size"))
}

/// Takes the padding off a HEADERS payload (section 6.2).
pub(crate) fn unpad(header: FrameHeader, payload: &[u8]) -> Result<&[u8], Fault> {
    if !header.has(flag::PADDED) {
        return Ok(payload);
    }
    let (pad, rest) = payload
        .split_first()
        .ok_or(Fault::Connection(Code::FRAME_SIZE_ERROR, "no pad length"))?;
    // "If the length of the padding is the length of the frame payload or greater, the recipient
    // MUST treat this as a connection error [...] of type PROTOCOL_ERROR."
    rest.len()
        .checked_sub(usize::from(*pad))
        .map(|len| &rest[..len])
        .ok_or(Fault::Connection(Code::PROTOCOL_ERROR, "too much padding"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_wire_and_the_reserved_bit_is_ignored() {
        let header = FrameHeader {
            len: 0x0001_0203,
            kind: kind::HEADERS,
            flags: flag::END_HEADERS,
            stream: 0x7fff_fffd,
        };
        let mut wire = Vec::new();
        header.put(&mut wire);
        assert_eq!(wire, [1, 2, 3, 1, 4, 0x7f, 0xff, 0xff, 0xfd]);
        wire[5] |= 0x80;
        assert_eq!(FrameHeader::parse(&wire), Some(header));
        assert_eq!(FrameHeader::parse(&wire[..8]), None);
    }

    #[test]
    fn padding_is_taken_off_or_refused() {
        let header = |flags| FrameHeader {
            len: 0,
            kind: kind::HEADERS,
            flags,
            stream: 1,
        };
        assert_eq!(unpad(header(0), &[2, 7]).unwrap(), &[2, 7]);
        assert_eq!(unpad(header(flag::PADDED), &[1, 7, 0]).unwrap(), &[7]);
        assert_eq!(unpad(header(flag::PADDED), &[2, 0, 0]).unwrap(), &[0; 0]);
        assert!(unpad(header(flag::PADDED), &[3, 0, 0]).is_err());
        assert!(unpad(header(flag::PADDED), &[]).is_err());
    }
}
