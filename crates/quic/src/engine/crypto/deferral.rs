//! The first change of a connection's keys (RFC 9001 section 6), put off for as long as the first keys are good for.
//!
//! quinn-proto changes keys after 10 to 1,000 packets, for peers that can't follow to fail soon. Firefox 153 follows, and for three
//! probe time-outs afterwards reads a packet's number (RFC 9000 appendix A.3) by the last one before the change. It misreads a number of
//! one byte that lies more than 128 further on, and drops the packet: one in seven of its downloads over a path of 200 Mbit/s and 50 ms lost up to fifteen in a
//! row in slow start, and took twice the time.
//!
//! So packets go on with the first key after the engine has changed over to the second, without the bit that says so: to the peer the change comes
//! later. It comes once half of what the first key is good for has been sent, at once when the peer changes keys, as RFC 9001 section 6.2 demands, and when
//! somebody asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::BytesMut;
use quinn_proto::crypto::{CryptoError, KeyPair, PacketKey};

use super::TAG_BYTES;

/// The bit of a short header's first byte that changes with the keys (RFC 9000 section 17.3.1).
const KEY_PHASE: u8 = 0x04;

/// Packets before the end of what a key is good for at which quinn-proto changes it.
const ENGINE_MARGIN: u64 = 10_000;

/// The packets that may still be sent with the first key once the engine has gone over to the second.
#[derive(Debug, Default)]
pub(crate) struct Deferral(AtomicU64);

impl Deferral {
    /// Puts off the change of a key that is good for so many packets. The engine counts those since its own change, and wants to make
    /// the next one in time: half of them leave the peer the time to follow.
    pub(super) fn begin(&self, limit: u64) {
        let packets = limit.saturating_sub(ENGINE_MARGIN) / 2;
        self.0.store(packets, Ordering::Relaxed);
    }

    /// Puts nothing off any more.
    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns whether the next packet goes with the first key, and counts it.
    fn defers(&self) -> bool {
        // A connection and its keys are used by one thread at a time.
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        left > 0
    }
}

/// A key that the engine has, and that goes on after it has let go of it.
#[derive(Clone)]
pub(super) struct SharedKey(Arc<dyn PacketKey>);

impl SharedKey {
    pub(super) fn new(key: Box<dyn PacketKey>) -> Self {
        Self(key.into())
    }
}

/// Returns the second keys of a connection as the engine is to have them, where `first` is the key that encrypted before.
pub(super) fn put_off(
    second: KeyPair<Box<dyn PacketKey>>,
    first: Box<dyn PacketKey>,
    deferral: &Arc<Deferral>,
) -> KeyPair<Box<dyn PacketKey>> {
    let deferred = |first, second| {
        Box::new(SecondKey {
            first,
            second,
            deferral: Arc::clone(deferral),
        })
    };
    KeyPair {
        local: deferred(Some(first), second.local),
        remote: deferred(None, second.remote),
    }
}

/// The second key of one direction.
struct SecondKey {
    /// The key that packets which are sent go on with.
    first: Option<Box<dyn PacketKey>>,
    second: Box<dyn PacketKey>,
    deferral: Arc<Deferral>,
}

impl PacketKey for SharedKey {
    fn encrypt(&self, number: u64, packet: &mut [u8], header_length: usize) {
        self.0.encrypt(number, packet, header_length);
    }

    fn decrypt(
        &self,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.0.decrypt(number, header, payload)
    }

    fn tag_len(&self) -> usize {
        TAG_BYTES
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

impl PacketKey for SecondKey {
    fn encrypt(&self, number: u64, packet: &mut [u8], header_length: usize) {
        match &self.first {
            Some(first) if self.deferral.defers() => {
                packet[0] &= !KEY_PHASE;
                first.encrypt(number, packet, header_length);
            }
            _ => self.second.encrypt(number, packet, header_length),
        }
    }

    /// Decrypts a packet: with the first one the peer has changed its keys, which ends the deferral.
    fn decrypt(
        &self,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.second.decrypt(number, header, payload)?;
        self.deferral.end();
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.second.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.second.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.second.integrity_limit()
    }
}
