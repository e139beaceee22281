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
use super::padding::UnpaddingKey;
use crate::Version;

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

    /// Returns true if the keys are of this ID, for this side.
    pub(super) fn are_of(&self, id: &ConnectionId, side: Side) -> bool {
        self.id == *id && self.side == side
    }

    /// Lends the keys for a connection's packets.
    pub(super) fn lend(&self) -> Keys {
        let mut keys = self.lend_for_first();
        keys.packet.remote = Box::new(UnpaddingKey::new(keys.packet.remote));
        keys
    }

    /// Lends the keys for the first packet, whose padding counts: by it the engine tells how much was
    /// received, and so may be sent, before the client's address is validated. After it datagrams count
    /// as they come.
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
