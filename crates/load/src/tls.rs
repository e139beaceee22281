//! The client's side of TLS: which protocol is offered and whose certificates are believed.
//!
//! One protocol is offered, never a choice, so that a server can't answer with another. Sessions
//! are not resumed: every connection of a run pays the same full handshake, whatever was opened
//! before it. Where early data is asked for, the HTTP/3 engine puts its own memory in place.

use crate::Error;
use crate::options::Trust;
use altway_record::Protocol;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::compress::{CertDecompressor, DecompressionFailed};
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateCompressionAlgorithm, ClientConfig, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// TLS 1.2 and 1.3, as the server likes; TLS 1.3 alone for QUIC (RFC 9001, section 4.2).
pub(crate) fn client_config(protocol: Protocol, trust: &Trust) -> Result<ClientConfig, Error> {
    let provider = Arc::new(browser_like());
    warm_up(&provider)?;
    let versions = match protocol {
        Protocol::H1 | Protocol::H2 => rustls::ALL_VERSIONS,
        Protocol::H3 => &[&rustls::version::TLS13],
    };
    let verifier = trust.verifier(&provider)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn(protocol).into()];
    config.resumption = Resumption::disabled();
    // As Chromium does, which offers Brotli alone (RFC 8879).
    config.cert_decompressors = vec![&Brotli];
    Ok(config)
}

/// Compressed certificate chains (RFC 8879) of Brotli (RFC 7932).
#[derive(Debug)]
struct Brotli;

/// Bytes of the decompressor's buffer.
const BUFFER: usize = 4096;

impl CertDecompressor for Brotli {
    fn decompress(&self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressionFailed> {
        let mut reader = brotli::Decompressor::new(input, BUFFER);
        let filled = reader.read_exact(output);
        filled.map_err(|_| DecompressionFailed)?;
        match reader.read(&mut [0]) {
            Ok(0) => Ok(()),
            _ => Err(DecompressionFailed),
        }
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Brotli
    }
}

/// Key exchanges in the order of browsers: X25519MLKEM768 first, whose share goes with the first flight
/// together with that of X25519. The hello has some 1,500 bytes so, and fills two datagrams over QUIC,
/// of which a server may send three times as much before the address is validated.
fn browser_like() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    let first = kx_group::X25519MLKEM768.name();
    provider
        .kx_groups
        .sort_by_key(|group| group.name() != first);
    provider
}

/// Makes the cryptographic library gather its entropy, which takes it some 50 ms of processor time
/// once a thread and would else be part of the first connection's set-up.
fn warm_up(provider: &CryptoProvider) -> Result<(), rustls::Error> {
    provider.secure_random.fill(&mut [0; 32])?;
    Ok(())
}

/// The protocol's name in ALPN (RFC 7301; the registry's names).
pub(crate) fn alpn(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::H1 => "http/1.1",
        Protocol::H2 => "h2",
        Protocol::H3 => "h3",
    }
}

impl Trust {
    /// Returns the verifier of a server's certificate.
    ///
    /// # Errors
    /// The authorities can't be read, or there are none.
    pub fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        let (certificates, place) = match self {
            Self::Insecure => return Ok(Arc::new(AnyCertificate(Arc::clone(provider)))),
            Self::CaFile(path) => (read_pem(path)?, path.display().to_string()),
            Self::System => {
                let found = rustls_native_certs::load_native_certs();
                (found.certs, "the system's store".into())
            }
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates);
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map(|verifier| verifier as Arc<dyn ServerCertVerifier>)
            .map_err(|_| Error::NoCa { place })
    }
}

fn read_pem(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|source| Error::CaFile {
            path: path.into(),
            source,
        })
}

/// Believes any certificate, but still demands that the peer holds its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(trust: &Trust) -> String {
        client_config(Protocol::H2, trust).unwrap_err().to_string()
    }

    #[test]
    fn offers_exactly_the_protocol_asked_for() {
        let config = client_config(Protocol::H1, &Trust::Insecure).unwrap();
        assert_eq!(config.alpn_protocols, [b"http/1.1".to_vec()]);
    }

    #[test]
    fn the_hello_is_as_large_as_that_of_browsers() {
        for protocol in [Protocol::H2, Protocol::H3] {
            let mut config = client_config(protocol, &Trust::Insecure).unwrap();
            config.enable_sni = true;
            let name = ServerName::try_from("altway.test").unwrap();
            let mut hello = Vec::new();
            if protocol == Protocol::H2 {
                let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
                client.write_tls(&mut hello).unwrap();
            } else {
                let version = rustls::quic::Version::V1;
                let config = Arc::new(config);
                let connection =
                    rustls::quic::ClientConnection::new(config, version, name, vec![0; 60]);
                connection.unwrap().write_hs(&mut hello);
            }
            assert!((1_400..1_900).contains(&hello.len()), "{}", hello.len());
        }
    }

    #[test]
    fn a_chain_is_as_long_as_it_was_said_to_be_or_refused() {
        let chain = b"CN=altway.test, O=altway, ".repeat(40);
        let mut compressed = Vec::new();
        let params = brotli::enc::BrotliEncoderParams::default();
        brotli::BrotliCompress(&mut chain.as_slice(), &mut compressed, &params).unwrap();
        let read = |length: usize| {
            let mut output = vec![0; length];
            Brotli.decompress(&compressed, &mut output).map(|()| output)
        };
        assert_eq!(read(chain.len()).unwrap(), chain);
        assert!(read(chain.len() - 1).is_err() && read(chain.len() + 1).is_err());
        assert!(Brotli.decompress(b"no brotli", &mut [0; 9]).is_err());
    }

    #[test]
    fn a_missing_ca_file_is_named() {
        let text = refusal(&Trust::CaFile("/nowhere/ca.pem".into()));
        assert_eq!(text, "cannot read CA certificates from /nowhere/ca.pem");
    }

    #[test]
    fn a_ca_file_without_certificates_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = refusal(&Trust::CaFile(file.path().into()));
        assert!(text.starts_with("no CA certificate found in "), "{text}");
    }
}
