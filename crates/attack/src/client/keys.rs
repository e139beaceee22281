//! A TLS session that leaves a copy of the keys of its 1-RTT packets, for packets made by hand.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use bytes::BytesMut;
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey,
    Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

/// The keys that protect 1-RTT packets, of the client and of the server.
#[derive(Clone)]
pub(super) struct Sealing {
    pub(super) header: Arc<dyn HeaderKey>,
    pub(super) packet: Arc<dyn PacketKey>,
    pub(super) servers_header: Arc<dyn HeaderKey>,
    pub(super) servers_packet: Arc<dyn PacketKey>,
}

/// The place where a session leaves its keys when it has them.
pub(super) type KeySlot = Arc<OnceLock<Sealing>>;

/// A configuration whose sessions leave their keys.
pub(super) struct KeyCapturingConfig {
    pub(super) inner: Arc<dyn ClientConfig>,
    pub(super) place: KeySlot,
}

impl ClientConfig for KeyCapturingConfig {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = Arc::clone(&self.inner).start_session(version, server_name, params)?;
        Ok(Box::new(KeyCapturingSession {
            inner,
            handed: 0,
            place: Arc::clone(&self.place),
        }))
    }
}

struct KeyCapturingSession {
    inner: Box<dyn Session>,
    /// Sets of keys handed out: those of the handshake, then those of 1-RTT.
    handed: u32,
    place: KeySlot,
}

impl KeyCapturingSession {
    fn share(&self, keys: Keys) -> Keys {
        let sealing = Sealing {
            header: keys.header.local.into(),
            packet: keys.packet.local.into(),
            servers_header: keys.header.remote.into(),
            servers_packet: keys.packet.remote.into(),
        };
        let shared = Keys {
            header: KeyPair {
                local: Box::new(Shared(Arc::clone(&sealing.header))),
                remote: Box::new(Shared(Arc::clone(&sealing.servers_header))),
            },
            packet: KeyPair {
                local: Box::new(Shared(Arc::clone(&sealing.packet))),
                remote: Box::new(Shared(Arc::clone(&sealing.servers_packet))),
            },
        };
        let _ = self.place.set(sealing);
        shared
    }
}

impl Session for KeyCapturingSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(dst_cid, side)
    }
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }
    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }
    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }
    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }
    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }
    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(buf)
    }
    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }
    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.inner.write_handshake(buf)?;
        self.handed += 1;
        Some(match self.handed {
            2 => self.share(keys),
            _ => keys,
        })
    }
    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.inner.next_1rtt_keys()
    }
    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }
    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

/// A key that two hold.
struct Shared<T: ?Sized>(Arc<T>);

impl HeaderKey for Shared<dyn HeaderKey> {
    fn decrypt(&self, number_offset: usize, packet: &mut [u8]) {
        self.0.decrypt(number_offset, packet);
    }
    fn encrypt(&self, number_offset: usize, packet: &mut [u8]) {
        self.0.encrypt(number_offset, packet);
    }
    fn sample_size(&self) -> usize {
        self.0.sample_size()
    }
}

impl PacketKey for Shared<dyn PacketKey> {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        self.0.encrypt(packet, buf, header_len);
    }
    fn decrypt(
        &self,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.0.decrypt(packet, header, payload)
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
