//! The verifier that TLS asks about clients' certificates in a handshake.
//!
//! rustls asks the verifier without saying which name the client connects to. It asks the resolver of the server's
//! certificate right before, in the same call and so on the same thread: what that finds for the name stays there until
//! it is asked for ([`note`]). What a handshake leaves behind that never comes to ask is forgotten when the next one
//! begins ([`begin_handshake`]); with version 1.3, to which QUIC holds, nothing depends on that.

use crate::reload::InUse;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// True if the client whose handshake is at its first message is asked for a certificate.
    static IS_ASKED: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Forgets the question of the handshake before; called before a connection's TLS is made.
pub(crate) fn begin_handshake() {
    IS_ASKED.set(None);
}

/// Says whether the client whose first message is being read is asked for a certificate.
pub(crate) fn note(is_asked: bool) {
    IS_ASKED.set(Some(is_asked));
}

/// Asks for certificates by the names of those in use, and takes one that any of their roots has signed.
#[derive(Debug)]
pub(crate) struct Verifier {
    in_use: InUse,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    pub(crate) fn new(in_use: InUse, provider: Arc<CryptoProvider>) -> Self {
        Self { in_use, provider }
    }
}

impl ClientCertVerifier for Verifier {
    /// Asked when the connection's TLS is made, where the answer is whether anybody may be asked, and for the
    /// client's first message.
    fn offer_client_auth(&self) -> bool {
        let any = || self.in_use.with(|it| it.asked_names().is_some());
        IS_ASKED.take().unwrap_or_else(any)
    }

    /// Requests are refused, each with an answer, and not the handshake.
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// None: clients choose among all that they have.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verify = |names: &super::AskedNames| names.verify(end_entity, intermediates, now);
        self.in_use.with(|it| verify(it.asked_names()))?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
