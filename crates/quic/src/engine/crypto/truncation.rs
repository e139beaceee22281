//! 1-RTT packets that are shorter than quinn-proto makes them.
//!
//! quinn-proto pads a packet with a PATH_CHALLENGE to 1,200 bytes, and fills it with what there is to send,
//! whatever the path may be sent (RFC 9000 sections 8.1 and 8.2.1). But it leaves the room for the tag at the
//! packet's end to the key. A key that asks for more than its tag needs, seals the front alone and leaves
//! the rest as it is has the packet end earlier, and the rest is cut off after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use bytes::BytesMut;
use quinn_proto::crypto::{CryptoError, PacketKey};

use super::TAG_BYTES;

/// Bytes at the end of the 1-RTT packets of a connection that are none of theirs: 0, unless a packet is made
/// for an unvalidated path.
#[derive(Debug, Default)]
pub(crate) struct Truncation(AtomicU16);

impl Truncation {
    /// Sets the bytes for the packets made from now on.
    pub(crate) fn set(&self, bytes: u16) {
        // A connection and its keys are used by one thread at a time.
        self.0.store(bytes, Ordering::Relaxed);
    }

    fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed).into()
    }
}

/// The key of packets that are sent.
pub(super) struct TruncatingKey {
    key: Box<dyn PacketKey>,
    by: Arc<Truncation>,
}

impl TruncatingKey {
    pub(super) fn new(key: Box<dyn PacketKey>, by: &Arc<Truncation>) -> Self {
        Self {
            key,
            by: Arc::clone(by),
        }
    }
}

impl PacketKey for TruncatingKey {
    /// Encrypts the shortened packet. The rest is enough for the sample of header protection: quinn-proto's
    /// packets have at least 22 bytes more than their connection ID, the tag included, as if they were to be
    /// like a stateless reset.
    fn encrypt(&self, number: u64, packet: &mut [u8], header_length: usize) {
        let end = packet.len() - self.by.bytes();
        self.key.encrypt(number, &mut packet[..end], header_length);
    }

    fn decrypt(
        &self,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.key.decrypt(number, header, payload)
    }

    fn tag_len(&self) -> usize {
        TAG_BYTES + self.by.bytes()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills the tag's place.
    struct Filling;

    impl PacketKey for Filling {
        fn encrypt(&self, _: u64, packet: &mut [u8], header_length: usize) {
            let tag = packet.len() - TAG_BYTES;
            assert!(header_length <= tag);
            packet[tag..].fill(9);
        }

        fn decrypt(&self, _: u64, _: &[u8], _: &mut BytesMut) -> Result<(), CryptoError> {
            Ok(())
        }

        fn tag_len(&self) -> usize {
            TAG_BYTES
        }

        fn confidentiality_limit(&self) -> u64 {
            1
        }

        fn integrity_limit(&self) -> u64 {
            2
        }
    }

    #[test]
    fn the_tag_stands_where_the_shortened_packet_ends() {
        let by = Arc::new(Truncation::default());
        let key = TruncatingKey::new(Box::new(Filling), &by);
        for less in [0, 1, 15, 16, 1_120, 0] {
            by.set(less);
            let less = usize::from(less);
            assert_eq!(key.tag_len(), TAG_BYTES + less);
            // As quinn-proto has it: what it wrote, and zeros for the tag.
            let mut packet = [&[5; 80][..], &vec![0; key.tag_len()]].concat();
            key.encrypt(0, &mut packet, 10);
            let expected = [&[5; 80][..], &[9; TAG_BYTES], &vec![0; less]].concat();
            assert_eq!(packet, expected, "shorter by {less}");
        }
        assert_eq!((key.confidentiality_limit(), key.integrity_limit()), (1, 2));
    }
}
