//! The keys that 1-RTT packets go over to one day (RFC 9001 section 6), derived when they first do.
//!
//! The engine wants them as soon as it has the ones before. Most connections end, or idle, without a
//! change of keys; these two cost 1.4 KB, and deriving them a fiftieth of a handshake. RFC 9001 section
//! 6.3: an endpoint "MAY generate new keys as part of packet processing, but this creates a timing signal
//! that could be used by an attacker to learn when key updates happen", once for each change. What it
//! asks for against that is to keep both keys.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::BytesMut;
use quinn_proto::crypto::{CryptoError, KeyPair, PacketKey};
use rustls::quic::{PacketKeySet, Secrets};

use super::TAG_BYTES;
use super::truncation::{TruncatingKey, Truncation};

/// The next keys of both directions.
pub(super) struct LazyNextKeys {
    keys: OnceLock<PacketKeySet>,
    /// Secrets that the keys are derived from; once there are keys, those of the next. `None`: these were
    /// taken.
    secrets: Mutex<Option<Secrets>>,
    /// Packets that each key may encrypt, as far as that is known before there are keys.
    limit: Option<u64>,
}

impl LazyNextKeys {
    /// The first.
    pub(super) fn new(secrets: Secrets) -> Self {
        Self {
            keys: OnceLock::new(),
            secrets: Mutex::new(Some(secrets)),
            limit: None,
        }
    }

    /// The ones after these. `None`: somebody has them.
    pub(super) fn after(&self) -> Option<Self> {
        // The engine asks for it, and all keys of a suite have the same.
        let limit = PacketKey::confidentiality_limit(&self.keys().local);
        Some(Self {
            limit: Some(limit),
            ..Self::new(self.secrets().take()?)
        })
    }

    /// Lends the keys to the engine.
    pub(super) fn lend(self: &Arc<Self>, by: &Arc<Truncation>) -> KeyPair<Box<dyn PacketKey>> {
        let local = Box::new(NextKey(Arc::clone(self), |keys| &keys.local));
        KeyPair {
            local: Box::new(TruncatingKey::new(local, by)),
            remote: Box::new(NextKey(Arc::clone(self), |keys| &keys.remote)),
        }
    }

    fn keys(&self) -> &PacketKeySet {
        self.keys.get_or_init(|| {
            let mut secrets = self.secrets();
            let secrets = secrets.as_mut();
            secrets
                .expect("they are taken after this")
                .next_packet_keys()
        })
    }

    fn secrets(&self) -> MutexGuard<'_, Option<Secrets>> {
        // Nothing that holds it can panic halfway.
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key of the pair, as it is lent.
struct NextKey(Arc<LazyNextKeys>, fn(&PacketKeySet) -> &dyn PacketKey);

impl NextKey {
    fn key(&self) -> &dyn PacketKey {
        self.1(self.0.keys())
    }
}

impl PacketKey for NextKey {
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
        TAG_BYTES
    }

    fn confidentiality_limit(&self) -> u64 {
        let known = self.0.limit;
        known.unwrap_or_else(|| self.key().confidentiality_limit())
    }

    fn integrity_limit(&self) -> u64 {
        self.key().integrity_limit()
    }
}
