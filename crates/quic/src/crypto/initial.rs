//! Keys of Initial packets, which follow from the client's first destination ID.
//!
//! A server meets one for every connection that somebody begins, and two things make them dear with the
//! engine: it asks for the keys of a connection's first packet twice, and it reads padding, of which most
//! of such a packet consists, byte by byte. Here they are derived once, and padding ends with the packet
//! key, but for the first packet's.

use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{CryptoError, HeaderKey, KeyPair, Keys, PacketKey};
use quinn_proto::{ConnectionId, Side};
use rustls::quic::Suite;

use super::keys;
use crate::Version;
use crate::long_header::integer;

/// The keys that follow from one ID.
#[derive(Clone)]
pub(super) struct InitialKeys {
    id: ConnectionId,
    side: Side,
    keys: Arc<Keys>,
}

impl InitialKeys {
    pub(super) fn new(version: Version, suite: &Suite, id: &ConnectionId, side: Side) -> Self {
        let of_tls = match side {
            Side::Client => rustls::Side::Client,
            Side::Server => rustls::Side::Server,
        };
        let keys = keys::of_long_headers(version, suite.keys(id, of_tls, version.tls()));
        Self {
            id: *id,
            side,
            keys: Arc::new(keys),
        }
    }

    /// Whether they are of this ID, for this side.
    pub(super) fn are_of(&self, id: &ConnectionId, side: Side) -> bool {
        self.id == *id && self.side == side
    }

    /// For a connection's packets.
    pub(super) fn lend(&self) -> Keys {
        let mut keys = self.lend_for_first();
        keys.packet.remote = Box::new(Unpadded(keys.packet.remote));
        keys
    }

    /// For the first packet, whose padding counts: by it the engine tells how much was received, and so
    /// may be sent, before the client's address is validated. After it datagrams count as they come.
    pub(super) fn lend_for_first(&self) -> Keys {
        let header = |of| Box::new(LentHeader(Arc::clone(&self.keys), of));
        let packet = |of| Box::new(LentPacket(Arc::clone(&self.keys), of));
        Keys {
            header: KeyPair {
                local: header(|keys| &*keys.header.local),
                remote: header(|keys| &*keys.header.remote),
            },
            packet: KeyPair {
                local: packet(|keys| &*keys.packet.local),
                remote: packet(|keys| &*keys.packet.remote),
            },
        }
    }
}

struct LentHeader(Arc<Keys>, fn(&Keys) -> &dyn HeaderKey);

impl LentHeader {
    fn key(&self) -> &dyn HeaderKey {
        self.1(&self.0)
    }
}

impl HeaderKey for LentHeader {
    fn decrypt(&self, number_at: usize, packet: &mut [u8]) {
        self.key().decrypt(number_at, packet);
    }

    fn encrypt(&self, number_at: usize, packet: &mut [u8]) {
        self.key().encrypt(number_at, packet);
    }

    fn sample_size(&self) -> usize {
        self.key().sample_size()
    }
}

struct LentPacket(Arc<Keys>, fn(&Keys) -> &dyn PacketKey);

impl LentPacket {
    fn key(&self) -> &dyn PacketKey {
        self.1(&self.0)
    }
}

impl PacketKey for LentPacket {
    fn encrypt(&self, number: u64, packet: &mut [u8], header_length: usize) {
        self.key().encrypt(number, packet, header_length);
    }

    fn decrypt(
        &self,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.key().decrypt(number, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.key().tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key().confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key().integrity_limit()
    }
}

/// Opens Initial packets without the padding at their end.
struct Unpadded(Box<dyn PacketKey>);

impl PacketKey for Unpadded {
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
        payload.truncate(without_padding(payload));
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

/// The frames of RFC 9000 section 19 that an Initial packet may have besides CONNECTION_CLOSE.
const PADDING: u8 = 0x00;
const PING: u8 = 0x01;
const ACK: u8 = 0x02;
const ACK_ECN: u8 = 0x03;
const CRYPTO: u8 = 0x06;

/// How long a payload is without the padding at its end: at least a byte, as a packet without frames is
/// an error (RFC 9000 section 12.4). What isn't understood stays whole, for the engine to judge.
fn without_padding(payload: &[u8]) -> usize {
    let mut rest = payload;
    while let Some((kind, after)) = rest.split_first() {
        if *kind == PADDING && after.iter().all(|byte| *byte == PADDING) {
            return (payload.len() - rest.len()).max(1);
        }
        let Some(next) = after_frame(*kind, after) else {
            break;
        };
        rest = next;
    }
    payload.len()
}

/// What follows a frame of this type, whose other fields are at the front of `bytes`.
fn after_frame(kind: u8, bytes: &[u8]) -> Option<&[u8]> {
    match kind {
        PADDING | PING => Some(bytes),
        ACK | ACK_ECN => {
            let (_largest, rest) = integer(bytes)?;
            let (_delay, rest) = integer(rest)?;
            let (ranges, rest) = integer(rest)?;
            let counts = if kind == ACK { 0 } else { 3 };
            // The first range is one integer, the others two; each takes a byte at least.
            let integers = ranges.checked_mul(2)?.checked_add(1 + counts)?;
            (0..integers).try_fold(rest, |rest, _| Some(integer(rest)?.1))
        }
        CRYPTO => {
            let (_offset, rest) = integer(bytes)?;
            let (length, rest) = integer(rest)?;
            rest.get(usize::try_from(length).ok()?..)
        }
        _ => None,
    }
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
        let both = [&ack[..], HELLO].concat();
        let apart = [HELLO, &[PADDING, PADDING, PING], HELLO].concat();
        for frames in [HELLO, &ack, &ack_ecn, &both, &apart, &[PING]] {
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
    fn what_an_initial_packet_can_not_have_is_left_to_the_engine() {
        let stream = padded(&[0x08, 0, 1], 50);
        let cut_off = padded(&[CRYPTO, 0, 0x40, 200], 50);
        let endless = padded(
            &[ACK, 9, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            50,
        );
        for payload in [stream, cut_off, endless] {
            assert_eq!(without_padding(&payload), payload.len());
        }
    }

    proptest! {
        #[test]
        fn what_goes_is_zeros(payload in vec(prop_oneof![0..8u8, any::<u8>()], 0..80)) {
            let kept = without_padding(&payload);
            prop_assert!(payload[kept..].iter().all(|byte| *byte == 0));
            prop_assert!(kept > 0 || payload.is_empty());
        }
    }
}
