//! A certificate authority, options and a run for the tests of every protocol.
#![allow(dead_code, reason = "each test file uses its share")]

use altway_load::{Error, LoadSummary, Options, Stop, Trust};
use altway_record::{Protocol, RequestRecord};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use tempfile::NamedTempFile;

/// A CA in a PEM file, and a leaf for `localhost` that it signed.
pub(crate) struct Identity {
    pub(crate) ca_file: NamedTempFile,
    chain: Vec<CertificateDer<'static>>,
    key: KeyPair,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(["localhost".into()]).unwrap();
        let leaf = leaf.signed_by(&key, &ca).unwrap();
        let ca_file = NamedTempFile::new().unwrap();
        std::fs::write(ca_file.path(), ca.pem()).unwrap();
        Self {
            ca_file,
            chain: vec![leaf.der().clone()],
            key,
        }
    }

    pub(crate) fn trust(&self) -> Trust {
        Trust::CaFile(self.ca_file.path().into())
    }

    pub(crate) fn server_config(&self, alpn: &[&str]) -> rustls::ServerConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), key)
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| (*name).into()).collect();
        config
    }
}

/// Options of one request for a page of `localhost`, wherever that is.
pub(crate) fn options(scheme: &str, protocol: Protocol, server: SocketAddr) -> Options {
    let url = format!("{scheme}://localhost:{}/page", server.port());
    let mut options = Options::new(&url, protocol).unwrap();
    options.connect_to = Some(server);
    options
}

pub(crate) fn requests(n: u64) -> Stop {
    Stop::Requests(NonZeroU64::new(n).unwrap())
}

pub(crate) fn count(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

/// Runs and collects the records.
pub(crate) async fn run(options: &Options) -> (Vec<RequestRecord>, Result<LoadSummary, Error>) {
    let mut records = Vec::new();
    let result = altway_load::run(options, |record| records.push(record.clone())).await;
    (records, result)
}

/// Asserts what holds for every record of a run without failures.
pub(crate) fn assert_sound(records: &[RequestRecord], protocol: Protocol, bytes: u64) {
    for record in records {
        assert_eq!(record.error, None, "{record:?}");
        assert_eq!(record.protocol_used, Some(protocol));
        assert_eq!((record.status, record.bytes), (Some(200), bytes));
        assert_eq!(record.connect_us.is_some(), record.stream == 0);
        let first_byte = record.first_byte_us.unwrap();
        assert!(record.connect_us.unwrap_or(0) <= first_byte);
        assert!(first_byte <= record.total_us, "{record:?}");
    }
}
