//! Keys of packets, from TLS' for the engine.
//!
//! Under version 2 the engine's packets have version 1's types ([`long_header`]), and types are sealed
//! with the packet. So the keys of packets with long headers put the right type there just before they
//! seal, and as soon as a header that came is laid bare. The keys of packets with short headers, which
//! are nearly all packets, are TLS' own in either version.

use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{CryptoError, HeaderKey, KeyPair, Keys, PacketKey};
use rustls::quic::{DirectionalKeys, HeaderProtectionKey};

use super::deferral::SharedKey;
use super::padding::UnpaddingKey;
use super::truncation::{TruncatingKey, Truncation};
use crate::{Version, long_header};

/// Keys of one direction.
pub(super) type OneWay = (Box<dyn HeaderKey>, Box<dyn PacketKey>);

/// Keys of Initial or Handshake packets.
pub(super) fn of_long_headers(version: Version, keys: rustls::quic::Keys) -> Keys {
    paired(
        of_long_header(version, keys.local),
        of_long_header(version, keys.remote),
    )
}

/// Keys of 1-RTT packets, and once more the one of those that are sent.
pub(super) fn of_short_headers(
    keys: rustls::quic::Keys,
    by: &Arc<Truncation>,
) -> (Keys, SharedKey) {
    let mut keys = paired(of_short_header(keys.local), of_short_header(keys.remote));
    let local = SharedKey::new(keys.packet.local);
    keys.packet.local = Box::new(TruncatingKey::new(Box::new(local.clone()), by));
    keys.packet.remote = Box::new(UnpaddingKey::of_streams(keys.packet.remote));
    (keys, local)
}

/// Returns the keys of one direction, of packets with a short header.
pub(super) fn of_short_header(keys: DirectionalKeys) -> OneWay {
    (Box::new(keys.header), Box::new(keys.packet))
}

/// Keys of packets with long headers that go one way: all there is for early data.
pub(super) fn of_long_header(version: Version, keys: DirectionalKeys) -> OneWay {
    match version {
        Version::V1 => (Box::new(keys.header), Box::new(keys.packet)),
        Version::V2 => (
            Box::new(Version2Header(keys.header)),
            Box::new(Version2Packet(keys.packet)),
        ),
    }
}

fn paired(local: OneWay, remote: OneWay) -> Keys {
    Keys {
        header: KeyPair {
            local: local.0,
            remote: remote.0,
        },
        packet: KeyPair {
            local: local.1,
            remote: remote.1,
        },
    }
}

struct Version2Header(Box<dyn HeaderProtectionKey>);

impl HeaderKey for Version2Header {
    fn decrypt(&self, number_at: usize, packet: &mut [u8]) {
        HeaderKey::decrypt(&self.0, number_at, packet);
        // The engine has read the type already.
        packet[0] = long_header::to_version_2(packet[0]);
    }

    fn encrypt(&self, number_at: usize, packet: &mut [u8]) {
        HeaderKey::encrypt(&self.0, number_at, packet);
    }

    fn sample_size(&self) -> usize {
        HeaderKey::sample_size(&self.0)
    }
}

struct Version2Packet(Box<dyn rustls::quic::PacketKey>);

impl PacketKey for Version2Packet {
    fn encrypt(&self, number: u64, packet: &mut [u8], header_length: usize) {
        packet[0] = long_header::to_version_2(packet[0]);
        PacketKey::encrypt(&self.0, number, packet, header_length);
    }

    fn decrypt(
        &self,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        // What says that it is of another version has been read by other types than it was written by.
        match long_header::version_of(header) {
            Some(Version::V2) => PacketKey::decrypt(&self.0, number, header, payload),
            _ => Err(CryptoError),
        }
    }

    fn tag_len(&self) -> usize {
        PacketKey::tag_len(&self.0)
    }

    fn confidentiality_limit(&self) -> u64 {
        PacketKey::confidentiality_limit(&self.0)
    }

    fn integrity_limit(&self) -> u64 {
        PacketKey::integrity_limit(&self.0)
    }
}
