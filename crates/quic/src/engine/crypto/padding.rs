//! Padding at the end of packets, which the engine reads byte by byte, as frames of their own. It is most of
//! a client's first datagrams, of which the last packet is padded, whatever its kind; and nearly all of a
//! probe for a path's MTU. Here it ends with the packet's key.

use bytes::BytesMut;
use quinn_proto::crypto::{CryptoError, PacketKey};

use crate::long_header::integer;

/// Opens packets without the padding at their end.
pub(super) struct UnpaddingKey(Box<dyn PacketKey>, BufferAccounting);

/// Party that counts what is held of the packets of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BufferAccounting {
    /// quinn-proto alone.
    Uncounted,
    /// [`Pins`](crate::engine::pins::Pins), which count by the datagram.
    Counted,
}

impl UnpaddingKey {
    /// Wraps a key of a handshake.
    pub(super) fn new(key: Box<dyn PacketKey>) -> Self {
        Self(key, BufferAccounting::Uncounted)
    }

    /// Wraps a 1-RTT key of an established connection.
    pub(super) fn of_streams(key: Box<dyn PacketKey>) -> Self {
        Self(key, BufferAccounting::Counted)
    }
}

impl PacketKey for UnpaddingKey {
    fn encrypt(&self, number: u64, packet: &mut [u8], header_length: usize) {
        self.0.encrypt(number, packet, header_length);
    }

    fn decrypt(
        &self,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.0.decrypt(number, header, payload)?;
        let kept = without_padding(payload);
        if kept < payload.len() / 2 && self.1 == BufferAccounting::Uncounted {
            // quinn-proto counts what it holds by what is left. A part would hold the whole datagram.
            *payload = BytesMut::from(&payload[..kept]);
        } else {
            payload.truncate(kept);
        }
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

/// Frames of RFC 9000 section 19 (IMMEDIATE_ACK: draft-ietf-quic-ack-frequency) that may stand before
/// padding.
const PADDING: u8 = 0x00;
const PING: u8 = 0x01;
const ACK: u8 = 0x02;
const ACK_ECN: u8 = 0x03;
const CRYPTO: u8 = 0x06;
const NEW_TOKEN: u8 = 0x07;
const STREAM: u8 = 0x08;
const STREAM_LAST: u8 = 0x0f;
const MAX_DATA: u8 = 0x10;
const MAX_STREAM_DATA: u8 = 0x11;
const MAX_STREAMS_BIDI: u8 = 0x12;
const MAX_STREAMS_UNI: u8 = 0x13;
const NEW_CONNECTION_ID: u8 = 0x18;
const RETIRE_CONNECTION_ID: u8 = 0x19;
const HANDSHAKE_DONE: u8 = 0x1e;
const IMMEDIATE_ACK: u8 = 0x1f;

/// Bits of a STREAM frame's type: it has an offset, it has a length.
const WITH_OFFSET: u8 = 0x04;
const WITH_LENGTH: u8 = 0x02;

/// Length of a stateless reset token, bytes.
const TOKEN_BYTES: usize = 16;

/// Returns the number of zeros at the end of a payload, of which most of a client's first packet may consist.
fn zeros_at_end(payload: &[u8]) -> usize {
    let mut rest = payload;
    while let Some((before, last)) = rest.split_last_chunk()
        && u128::from_ne_bytes(*last) == 0
    {
        rest = before;
    }
    let last = rest.iter().rev().take_while(|byte| **byte == 0).count();
    payload.len() - rest.len() + last
}

/// Returns the length of a payload without the padding at its end: at least a byte, as a packet without
/// frames is an error (RFC 9000 section 12.4). A payload that isn't understood stays whole, for the engine
/// to judge.
fn without_padding(payload: &[u8]) -> usize {
    if payload.last() != Some(&PADDING) {
        return payload.len();
    }
    // Zeros may be the end of a frame's content as well: what is padding, the frames before it tell.
    let zeros = zeros_at_end(payload);
    let mut rest = payload;
    while rest.len() > zeros {
        let next = match rest.split_first() {
            Some((&PADDING, _)) => rest
                .iter()
                .position(|byte| *byte != 0)
                .map(|at| &rest[at..]),
            Some((kind, after)) => after_frame(*kind, after),
            None => None,
        };
        match next {
            Some(next) => rest = next,
            None => return payload.len(),
        }
    }
    (payload.len() - rest.len()).max(1)
}

/// Returns the bytes after a frame of this type, whose other fields are at the front of `bytes`.
fn after_frame(kind: u8, bytes: &[u8]) -> Option<&[u8]> {
    match kind {
        PING | HANDSHAKE_DONE | IMMEDIATE_ACK => Some(bytes),
        ACK | ACK_ECN => {
            let (ranges, rest) = integer(after_integers(2, bytes)?)?;
            let counts = if kind == ACK { 0 } else { 3 };
            // The first range is one integer, the others two; each takes a byte at least.
            after_integers(ranges.checked_mul(2)?.checked_add(1 + counts)?, rest)
        }
        CRYPTO => after_content(after_integers(1, bytes)?),
        NEW_TOKEN => after_content(bytes),
        STREAM..=STREAM_LAST if kind & WITH_LENGTH != 0 => {
            let id_and_offset = if kind & WITH_OFFSET == 0 { 1 } else { 2 };
            after_content(after_integers(id_and_offset, bytes)?)
        }
        MAX_DATA | MAX_STREAMS_BIDI | MAX_STREAMS_UNI | RETIRE_CONNECTION_ID => {
            after_integers(1, bytes)
        }
        MAX_STREAM_DATA => after_integers(2, bytes),
        NEW_CONNECTION_ID => {
            let (length, rest) = after_integers(2, bytes)?.split_first()?;
            rest.get(usize::from(*length) + TOKEN_BYTES..)
        }
        _ => None,
    }
}

fn after_integers(count: u64, bytes: &[u8]) -> Option<&[u8]> {
    (0..count).try_fold(bytes, |rest, _| Some(integer(rest)?.1))
}

/// Returns the bytes after a length and so many bytes.
fn after_content(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = integer(bytes)?;
    rest.get(usize::try_from(length).ok()?..)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const HELLO: &[u8] = &[CRYPTO, 0, 3, 7, 0, 0];

    fn padded(frames: &[u8], padding: usize) -> Vec<u8> {
        [frames, &vec![PADDING; padding]].concat()
    }

    #[test]
    fn padding_at_the_end_goes_and_nothing_else() {
        let ack = [ACK, 9, 0, 1, 0, 0, 0];
        let ack_ecn = [ACK_ECN, 9, 0, 0, 0, 0, 0, 0];
        let id = [&[NEW_CONNECTION_ID, 1, 0, 2, 8, 0][..], &[0; TOKEN_BYTES]].concat();
        let both = [&ack[..], HELLO].concat();
        let apart = [HELLO, &[PADDING, PADDING, PING], HELLO].concat();
        let frames: [&[u8]; 15] = [
            HELLO,
            &ack,
            &ack_ecn,
            &both,
            &apart,
            &id,
            &[PING],
            &[PING, IMMEDIATE_ACK],
            &[NEW_TOKEN, 2, 5, 0],
            &[STREAM | WITH_LENGTH, 4, 3, 1, 0, 0],
            &[STREAM | WITH_LENGTH | WITH_OFFSET, 4, 0, 1, 0],
            &[STREAM_LAST, 4, 0x40, 0, 0],
            &[MAX_DATA, 0, MAX_STREAM_DATA, 4, 0],
            &[MAX_STREAMS_BIDI, 1, MAX_STREAMS_UNI, 0],
            &[RETIRE_CONNECTION_ID, 0, HANDSHAKE_DONE],
        ];
        for frames in frames {
            for padding in [0, 1, 2, 1_100] {
                let payload = padded(frames, padding);
                assert_eq!(without_padding(&payload), frames.len(), "{payload:?}");
            }
        }
    }

    #[test]
    fn a_packet_of_padding_alone_keeps_some() {
        assert_eq!(without_padding(&padded(&[], 1_100)), 1);
        assert_eq!(without_padding(&[]), 0);
    }

    #[test]
    fn what_is_not_understood_is_left_to_the_engine() {
        let to_the_end = padded(&[STREAM, 0, 1], 50);
        let unknown = padded(&[0x21, 1], 50);
        let cut_off = padded(&[CRYPTO, 0, 0x40, 200], 50);
        let endless = padded(
            &[ACK, 9, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            50,
        );
        for payload in [to_the_end, unknown, cut_off, endless] {
            assert_eq!(without_padding(&payload), payload.len());
        }
    }

    #[test]
    fn padding_between_frames_costs_no_more_than_its_length() {
        let payload = [padded(&[], 60_000), vec![PING], padded(&[], 1)].concat();
        assert_eq!(without_padding(&payload), 60_001);
    }

    proptest! {
        #[test]
        fn what_goes_is_zeros(payload in vec(prop_oneof![0..0x20u8, any::<u8>()], 0..80)) {
            let kept = without_padding(&payload);
            prop_assert!(payload[kept..].iter().all(|byte| *byte == 0));
            prop_assert!(kept > 0 || payload.is_empty());
        }
    }
}
