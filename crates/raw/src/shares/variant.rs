//! The variants, and the certificate that their servers share.

use crate::error::Error;
use crate::options::{Cipher, TransportKind, Tuning};
use crate::{nocipher, tls};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, ServerConfig};
use serde::Serialize;
use std::num::NonZeroU64;
use std::sync::Arc;

/// UDP payload that Ethernet carries over IPv6, and most paths of the internet.
const ETHERNET: u16 = 1_452;

/// A transport as it is, or with one thing switched off or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Plain TCP.
    Tcp,
    /// Plain TCP whose payload isn't copied into the kernel nor out of it.
    TcpUncopied,
    /// TLS with AES-128-GCM.
    Tls,
    /// TLS with ChaCha20-Poly1305.
    TlsChaCha20,
    /// TLS whose records are in the clear.
    TlsUnencrypted,
    /// QUIC with AES-128-GCM, datagrams of 1,452 bytes, GSO, GRO and batches.
    Quic,
    /// QUIC with ChaCha20-Poly1305.
    QuicChaCha20,
    /// QUIC whose packets are in the clear.
    QuicUnencrypted,
    /// QUIC that hands the kernel each datagram by itself.
    QuicNoGso,
    /// QUIC that is handed each datagram by itself, several a call.
    QuicNoGro,
    /// QUIC with one datagram a call, each way.
    QuicOnePacket,
    /// QUIC with the smallest datagrams: 1,200 bytes of UDP payload.
    #[serde(rename = "quic-mtu-1200")]
    QuicMtu1200,
    /// QUIC in an Ethernet frame of 1,500 bytes over IPv4.
    #[serde(rename = "quic-mtu-1472")]
    QuicMtu1472,
    /// QUIC in a jumbo frame of 9,000 bytes over IPv4.
    #[serde(rename = "quic-mtu-8972")]
    QuicMtu8972,
    /// QUIC with the largest datagrams that IPv4 has.
    #[serde(rename = "quic-mtu-65507")]
    QuicMtu65507,
}

impl Variant {
    /// All, a transport's own before those derived from it.
    pub const ALL: [Self; 15] = [
        Self::Tcp,
        Self::TcpUncopied,
        Self::Tls,
        Self::TlsChaCha20,
        Self::TlsUnencrypted,
        Self::Quic,
        Self::QuicChaCha20,
        Self::QuicUnencrypted,
        Self::QuicNoGso,
        Self::QuicNoGro,
        Self::QuicOnePacket,
        Self::QuicMtu1200,
        Self::QuicMtu1472,
        Self::QuicMtu8972,
        Self::QuicMtu65507,
    ];

    /// The transport.
    #[must_use]
    pub fn over(self) -> TransportKind {
        match self {
            Self::Tcp | Self::TcpUncopied => TransportKind::Tcp,
            Self::Tls | Self::TlsChaCha20 | Self::TlsUnencrypted => TransportKind::Tls,
            _ => TransportKind::Quic,
        }
    }

    /// The same transport as it is.
    #[must_use]
    pub fn base(self) -> Self {
        match self.over() {
            TransportKind::Tcp => Self::Tcp,
            TransportKind::Tls => Self::Tls,
            TransportKind::Quic => Self::Quic,
        }
    }

    /// Returns the variant in words, for a table.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::TcpUncopied => "tcp, payload not copied",
            Self::Tls => "tls, AES-128-GCM",
            Self::TlsChaCha20 => "tls, ChaCha20-Poly1305",
            Self::TlsUnencrypted => "tls, not encrypted",
            Self::Quic => "quic, AES-128-GCM, 1452 B",
            Self::QuicChaCha20 => "quic, ChaCha20-Poly1305",
            Self::QuicUnencrypted => "quic, not encrypted",
            Self::QuicNoGso => "quic, no GSO",
            Self::QuicNoGro => "quic, no GRO",
            Self::QuicOnePacket => "quic, one packet a call",
            Self::QuicMtu1200 => "quic, 1200 B a packet",
            Self::QuicMtu1472 => "quic, 1472 B a packet",
            Self::QuicMtu8972 => "quic, 8972 B a packet",
            Self::QuicMtu65507 => "quic, 65507 B a packet",
        }
    }

    /// Transfers of a round, so that each variant is watched for about as long.
    pub(super) fn transfers(self) -> NonZeroU64 {
        const SOME: NonZeroU64 = NonZeroU64::new(4).expect("four is not zero");
        match self.over() {
            TransportKind::Tcp => SOME,
            TransportKind::Tls | TransportKind::Quic => NonZeroU64::MIN,
        }
    }

    pub(super) fn tuning(self) -> Tuning {
        let mut tuning = Tuning {
            mtu: Some(ETHERNET),
            ..Tuning::default()
        };
        match self {
            Self::TcpUncopied => tuning.copies = false,
            Self::TlsChaCha20 | Self::QuicChaCha20 => tuning.cipher = Cipher::ChaCha20,
            Self::QuicNoGso => tuning.gso = false,
            Self::QuicNoGro => tuning.gro = false,
            Self::QuicOnePacket => tuning.batches = false,
            Self::QuicMtu1200 => tuning.mtu = Some(1_200),
            Self::QuicMtu1472 => tuning.mtu = Some(1_472),
            Self::QuicMtu8972 => tuning.mtu = Some(8_972),
            Self::QuicMtu65507 => tuning.mtu = Some(65_507),
            Self::Tcp | Self::Tls | Self::TlsUnencrypted | Self::Quic | Self::QuicUnencrypted => {}
        }
        tuning
    }

    fn provider(self) -> CryptoProvider {
        match self {
            Self::TlsUnencrypted | Self::QuicUnencrypted => nocipher::provider(),
            _ => tls::provider(self.tuning().cipher),
        }
    }
}

/// A certificate that lives as long as this value, for the servers; nobody else is asked to trust it.
pub(super) struct Settings {
    made: rcgen::CertifiedKey<rcgen::KeyPair>,
}

impl Settings {
    pub(super) fn new() -> Result<Self, Error> {
        let names = ["127.0.0.1".to_owned()];
        Ok(Self {
            made: rcgen::generate_simple_self_signed(names)?,
        })
    }

    pub(super) fn server(&self, variant: Variant) -> Result<ServerConfig, Error> {
        let key = PrivatePkcs8KeyDer::from(self.made.signing_key.serialize_der());
        let chain = vec![self.made.cert.der().clone()];
        tls::server_config_of(variant.provider(), chain, PrivateKeyDer::Pkcs8(key))
    }

    pub(super) fn client(&self, variant: Variant) -> Result<ClientConfig, Error> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.made.cert.der().clone())?;
        let provider = variant.provider();
        let verifier = WebPkiServerVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::new(provider.clone()),
        );
        let verifier = verifier.build().expect("there is a root");
        tls::client_config_of(provider, verifier)
    }
}
