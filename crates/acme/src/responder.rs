//! The interface by which challenges are handed to whoever serves.

use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An error of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A server that answers challenges. Answers hold from the call on; one that is put again replaces the former.
pub trait Responder: Send + Sync {
    /// Makes the server answer `GET /.well-known/acme-challenge/TOKEN` in clear text with the key authorization (RFC
    /// 8555 section 8.3).
    ///
    /// # Errors
    /// The server can't take the answer; its reason.
    fn answer_http(&self, token: &str, authorization: &str) -> Result<(), BoxError>;

    /// Makes the server show this certificate in handshakes for `name` that offer `acme-tls/1` alone (RFC
    /// 8737 section 3).
    ///
    /// # Errors
    /// The server can't use the certificate; its reason.
    fn answer_tls(
        &self,
        name: &str,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<(), BoxError>;

    /// Takes an answer over HTTP away.
    fn remove_http(&self, token: &str);

    /// Takes an answer over TLS away.
    fn remove_tls(&self, name: &str);
}
