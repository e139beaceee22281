//! Keys that change while a connection goes on (RFC 9001 section 6). What is witness is TLS' own cipher
//! suite, wrapped to count the keys it makes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use altway_quic::{CloseReason, Direction};
use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{Error, SupportedCipherSuite, Tls13CipherSuite};

use crate::engine::QuicConnection;
use crate::pair::{Pair, delay, pattern};
use crate::tls;

/// The suite's keys, counted, each good for a number of packets.
struct Counting {
    inner: &'static dyn Algorithm,
    made: AtomicU64,
    /// Packets that were encrypted with the bit that says that keys have changed.
    changed: Arc<AtomicU64>,
    packets: u64,
}

/// The bit of a short header's first byte that changes with the keys (RFC 9000 section 17.3.1).
const KEY_PHASE: u8 = 0x04;

impl Counting {
    /// One for each test: it lives as long as the process.
    fn suite(packets: u64) -> (&'static Self, Arc<CryptoProvider>) {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        let aes_128_gcm = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
        let suite = aes_128_gcm.tls13().unwrap();
        let counting: &'static Self = Box::leak(Box::new(Self {
            inner: suite.quic.unwrap(),
            made: AtomicU64::new(0),
            changed: Arc::default(),
            packets,
        }));
        let suite = Tls13CipherSuite {
            common: rustls::crypto::CipherSuiteCommon {
                suite: suite.common.suite,
                hash_provider: suite.common.hash_provider,
                confidentiality_limit: suite.common.confidentiality_limit,
            },
            hkdf_provider: suite.hkdf_provider,
            aead_alg: suite.aead_alg,
            quic: Some(counting),
        };
        let suite = SupportedCipherSuite::Tls13(Box::leak(Box::new(suite)));
        provider.cipher_suites = vec![suite];
        (counting, Arc::new(provider))
    }

    fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    fn changed(&self) -> u64 {
        self.changed.load(Ordering::Relaxed)
    }
}

impl Algorithm for Counting {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        self.made.fetch_add(1, Ordering::Relaxed);
        Box::new(Key {
            inner: self.inner.packet_key(key, iv),
            changed: Arc::clone(&self.changed),
            packets: self.packets,
        })
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.inner.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.inner.aead_key_len()
    }
}

struct Key {
    inner: Box<dyn PacketKey>,
    changed: Arc<AtomicU64>,
    packets: u64,
}

impl PacketKey for Key {
    fn encrypt_in_place(
        &self,
        number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        let is_changed = header[0] & 0x80 == 0 && header[0] & KEY_PHASE != 0;
        self.changed
            .fetch_add(u64::from(is_changed), Ordering::Relaxed);
        self.inner.encrypt_in_place(number, header, payload)
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.inner.decrypt_in_place(number, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.packets
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}

/// A connected pair over a path with loss and reordering enough to mix packets of two keys, and the
/// server's counted keys, each good for so many packets.
fn pair(packets: u64) -> (Pair, &'static Counting) {
    let (keys, provider) = Counting::suite(packets);
    let link = altway_link::Config {
        loss: altway_units::Ratio::from_percent(2).unwrap().into(),
        ..delay(10)
    };
    let pair = Pair::with(link, |_, server| {
        server.tls = tls::server_with_provider(provider);
    });
    (pair.connected(), keys)
}

/// Megabytes both ways, in whose middle `update` is called over and over. How many more keys the server
/// has made.
fn transfer(mut pair: Pair, keys: &Counting, mut update: impl FnMut(&mut Pair)) -> u64 {
    let before = keys.made();
    let bytes = pattern(2_000_000);
    let (up, down) = (
        pair.client.open(Direction::Unidirectional),
        pair.server.open(Direction::Unidirectional),
    );
    pair.client.send(up, bytes.clone());
    pair.server.send(down, bytes.clone());
    let is_over = |pair: &Pair| pair.server.ended == [up] && pair.client.ended == [down];
    while !is_over(&pair) {
        update(&mut pair);
        pair.run_for(Duration::from_millis(50));
        assert!(pair.elapsed() < Duration::from_secs(60), "it stands still");
    }
    assert!(pair.server.received[&up] == bytes && pair.client.received[&down] == bytes);
    assert_eq!((&pair.client.closed, &pair.server.closed), (&None, &None));
    keys.made() - before
}

/// Packets that one key of AES-GCM may protect (RFC 9001 section 6.6).
const AES_GCM: u64 = 1 << 23;

#[test]
fn without_a_reason_keys_stay_as_they_are() {
    let (pair, keys) = pair(AES_GCM);
    // The engine changes them once, early, for peers that can't follow to fail soon. The peer sees none of it.
    assert_eq!(transfer(pair, keys, |_| {}), 2);
    assert_eq!(keys.changed(), 0);
}

/// Each change makes a key for either direction.
#[test]
fn either_side_changes_keys_in_the_middle_of_transfers_both_ways() {
    type Update = fn(&mut Pair);
    let by: [(&str, Update); 3] = [
        ("client", |pair| pair.client.quic().update_keys()),
        ("server", |pair| pair.server.quic().update_keys()),
        ("both", |pair| {
            pair.client.quic().update_keys();
            pair.server.quic().update_keys();
        }),
    ];
    for (who, update) in by {
        let (pair, keys) = pair(AES_GCM);
        let made = transfer(pair, keys, update);
        assert!(made >= 2 + 2 * 3, "{made} keys by {who}");
        assert!(keys.changed() > 100, "{who}");
    }
}

#[test]
fn a_key_that_has_encrypted_too_much_changes_by_itself() {
    // The engine changes ten thousand packets before the end, and 2 MB are some 1,400 packets.
    let (pair, keys) = pair(10_000 + 200);
    let made = transfer(pair, keys, |_| {});
    assert!(made >= 2 + 2 * 3, "{made} keys");
    assert!(keys.changed() > 100);
}

#[test]
fn a_connection_in_its_hand_shake_has_no_keys_to_change() {
    let mut pair = Pair::new();
    pair.client.quic().update_keys();
    let mut pair = pair.connected();
    pair.client.quic().close(1, b"");
    pair.run_for(Duration::from_secs(1));
    assert!(matches!(
        pair.server.closed,
        Some(CloseReason::Peer { code: 1, .. })
    ));
}
