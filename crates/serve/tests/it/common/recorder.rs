//! A client's judge of certificates that keeps what it was shown.

use super::Site;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::{Arc, Mutex};

/// Certificates that a server showed.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    /// Certificate of the server itself, DER.
    pub(crate) leaf: Vec<u8>,
    /// Empty without one.
    pub(crate) ocsp: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    judge: Arc<WebPkiServerVerifier>,
    shown: Mutex<Vec<Shown>>,
}

impl Recorder {
    pub(crate) fn new(site: &Site) -> Arc<Self> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let judge = WebPkiServerVerifier::builder_with_provider(Arc::new(site.roots()), provider);
        Arc::new(Self {
            judge: judge.build().unwrap(),
            shown: Mutex::default(),
        })
    }

    /// A client that asks this judge, with a memory of sessions of its own.
    pub(crate) fn client(
        self: &Arc<Self>,
        alpn: &[&[u8]],
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(self) as Arc<dyn ServerCertVerifier>)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config
    }

    pub(crate) fn last(&self) -> Shown {
        let shown = self.shown.lock().unwrap();
        shown.last().expect("a certificate was shown").clone()
    }

    /// Number of times that a certificate was shown.
    pub(crate) fn count(&self) -> usize {
        self.shown.lock().unwrap().len()
    }
}

impl ServerCertVerifier for Recorder {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.shown.lock().unwrap().push(Shown {
            leaf: leaf.to_vec(),
            ocsp: ocsp.to_vec(),
        });
        self.judge.verify_server_cert(leaf, more, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.judge.verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.judge.verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.judge.supported_verify_schemes()
    }
}
