//! Answers to the challenges by which a certificate authority finds out whose a name is (RFC 8555 section 8, RFC 8737).
//!
//! An ACME client puts answers here and takes them away; the server gives them to all who ask, over clear text and in
//! TLS handshakes, on all its threads. Answers are public.

use crate::locks::{read, write};
use crate::reload::InUse;
use crate::request::body::Body;
use crate::request::check::RequestHead;
use crate::tls;
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use rustc_hash::FxHashMap;
use rustls::InconsistentKeys;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SigningKey};
use std::sync::{Arc, RwLock};
use x509_parser::prelude::{FromDer, X509Certificate};

/// The path at which authorities look for an answer (RFC 8555 section 8.3).
pub(crate) const PATH: &[u8] = b"/.well-known/acme-challenge/";

/// The protocol that authorities offer in a handshake, and nothing else (RFC 8737 section 3).
pub(crate) const ALPN: &[u8] = b"acme-tls/1";

/// The media type of an answer (RFC 8555 section 8.3).
const TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The answers that a server gives to the challenges of certificate authorities. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Challenges(Arc<RwLock<Answers>>);

#[derive(Debug, Default)]
struct Answers {
    /// Key authorizations by their tokens.
    http: FxHashMap<Box<str>, Bytes>,
    /// Certificates by the names that they answer for, in lower case.
    tls: FxHashMap<Box<str>, Arc<CertifiedKey>>,
}

/// An answer that can't be given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidChallenge {
    /// No more answers may be put: as many as allowed are there.
    #[error("there are {} answers to challenges already", Challenges::MAX)]
    TooMany,
    /// The token has characters that are not allowed (RFC 8555 section 8.1).
    #[error("the token of a challenge is not base64url")]
    Token,
    /// The certificate and its key can't be used.
    #[error("the certificate that answers a challenge can't be used")]
    Certificate(#[source] rustls::Error),
}

impl Challenges {
    /// The most answers of each kind at the same time.
    pub const MAX: usize = 1_000;

    /// The longest token and the longest key authorization, in bytes.
    const MAX_BYTES: usize = 1_024;

    /// Adds the key authorization with which requests for `token` in clear text are answered
    /// (`http-01`).
    ///
    /// # Errors
    /// The token is not valid, or there are [`MAX`](Self::MAX) answers already.
    pub fn answer_http(&self, token: &str, authorization: &str) -> Result<(), InvalidChallenge> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_short = token.len().max(authorization.len()) <= Self::MAX_BYTES;
        if token.is_empty() || !is_short || !token.bytes().all(is_token) {
            return Err(InvalidChallenge::Token);
        }
        let authorization = Bytes::copy_from_slice(authorization.as_bytes());
        self.change(|answers| insert(&mut answers.http, token.into(), authorization))
    }

    /// Adds the certificate that handshakes for `name` are shown that offer `acme-tls/1` alone
    /// (`tls-alpn-01`).
    ///
    /// # Errors
    /// The two don't belong together, or there are [`MAX`](Self::MAX) already.
    pub fn answer_tls(
        &self,
        name: &str,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<(), InvalidChallenge> {
        let key = tls::provider().key_provider.load_private_key(key);
        let key = key.map_err(InvalidChallenge::Certificate)?;
        if !belongs(&*key, &certificate) {
            let mismatch = InconsistentKeys::KeyMismatch.into();
            return Err(InvalidChallenge::Certificate(mismatch));
        }
        let certified = Arc::new(CertifiedKey::new(vec![certificate], key));
        let name = name.to_ascii_lowercase().into_boxed_str();
        self.change(|answers| insert(&mut answers.tls, name, certified))
    }

    /// Removes the answer for a token.
    pub fn remove_http(&self, token: &str) {
        self.change(|answers| drop(answers.http.remove(token)));
    }

    /// Removes the certificate for a name.
    pub fn remove_tls(&self, name: &str) {
        let name = name.to_ascii_lowercase();
        self.change(|answers| drop(answers.tls.remove(name.as_str())));
    }

    /// The answer to a request, if it asks for one that is there.
    pub(crate) fn response(&self, head: &impl RequestHead) -> Option<Response<Body>> {
        let token = head.target()?.strip_prefix(PATH)?;
        let token = std::str::from_utf8(token).ok()?;
        if !matches!(head.method(), b"GET" | b"HEAD") {
            return None;
        }
        let answers = read(&self.0);
        let authorization = answers.http.get(token)?.clone();
        let mut response = Response::new(Body::bytes(authorization));
        response.headers_mut().insert(header::CONTENT_TYPE, TYPE);
        Some(response)
    }

    /// The resolver that answers challenges, and leaves other handshakes to the certificates in use.
    pub(crate) fn before(&self, certificates: InUse) -> Resolver {
        Resolver {
            challenges: self.clone(),
            certificates,
        }
    }

    fn certified(&self, hello: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?.to_ascii_lowercase();
        let answers = read(&self.0);
        answers.tls.get(name.as_str()).cloned()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Answers) -> T) -> T {
        change(&mut write(&self.0))
    }
}

/// Returns true if a key is that of a certificate. rustls would refuse the certificate, for its extension is critical
/// (RFC 8737 section 3) and unknown to it.
fn belongs(key: &dyn SigningKey, certificate: &CertificateDer<'_>) -> bool {
    let parsed = X509Certificate::from_der(certificate).ok();
    let of_certificate = parsed.as_ref().map(|(_, parsed)| parsed.public_key().raw);
    let of_key = key.public_key();
    of_key.is_some() && of_key.as_deref() == of_certificate
}

fn insert<T>(
    map: &mut FxHashMap<Box<str>, T>,
    key: Box<str>,
    value: T,
) -> Result<(), InvalidChallenge> {
    if map.len() >= Challenges::MAX && !map.contains_key(&key) {
        return Err(InvalidChallenge::TooMany);
    }
    map.insert(key, value);
    Ok(())
}

/// The certificates of handshakes, those of challenges among them.
#[derive(Debug)]
pub(crate) struct Resolver {
    challenges: Challenges,
    certificates: InUse,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut offered = hello.alpn().into_iter().flatten();
        // A client that can do anything else wants that, and is shown the site's certificate.
        if offered.next() == Some(ALPN) && offered.next().is_none() {
            return self.challenges.certified(&hello);
        }
        self.certificates.resolve(hello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn get(uri: &str) -> Request<()> {
        Request::get(uri)
            .header("host", "a.example")
            .body(())
            .unwrap()
    }

    #[test]
    fn a_token_is_answered_while_it_is_there() {
        let challenges = Challenges::default();
        let request = get("/.well-known/acme-challenge/abc-_1");
        assert!(challenges.response(&request).is_none());
        challenges.answer_http("abc-_1", "abc-_1.thumb").unwrap();
        let response = challenges.clone().response(&request).unwrap();
        assert_eq!(
            response.headers()["content-type"],
            "application/octet-stream"
        );
        assert!(
            challenges
                .response(&get("/.well-known/acme-challenge/abc-_12"))
                .is_none()
        );
        assert!(challenges.response(&get("/abc-_1")).is_none());
        challenges.remove_http("abc-_1");
        assert!(challenges.response(&request).is_none());
    }

    #[test]
    fn tokens_are_base64url_and_there_is_a_bound_to_their_number() {
        let challenges = Challenges::default();
        for token in ["", "a/b", "a.b", "é", &"a".repeat(1_025)] {
            let refused = challenges.answer_http(token, "x");
            assert!(matches!(refused, Err(InvalidChallenge::Token)), "{token}");
        }
        for index in 0..Challenges::MAX {
            challenges.answer_http(&index.to_string(), "x").unwrap();
        }
        let refused = challenges.answer_http("more", "x");
        assert!(matches!(refused, Err(InvalidChallenge::TooMany)));
        challenges.answer_http("0", "again").unwrap();
        challenges.remove_http("1");
        challenges.answer_http("more", "x").unwrap();
    }

    #[test]
    fn a_certificate_needs_its_own_key() {
        let made = |name: &str| rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let (a, b) = (made("a.example"), made("b.example"));
        let key = |of: &rcgen::CertifiedKey<rcgen::KeyPair>| {
            PrivateKeyDer::try_from(of.signing_key.serialize_der()).unwrap()
        };
        // As an authority wants it, which rustls would not take for a site.
        let mut params = rcgen::CertificateParams::new(["c.example".to_owned()]).unwrap();
        let acme = rcgen::CustomExtension::new_acme_identifier(&[7; 32]);
        params.custom_extensions = vec![acme];
        let c = params.self_signed(&a.signing_key).unwrap();
        let challenges = Challenges::default();
        challenges
            .answer_tls("c.example", c.der().clone(), key(&a))
            .unwrap();
        let refused = challenges.answer_tls("a.example", a.cert.der().clone(), key(&b));
        assert!(matches!(refused, Err(InvalidChallenge::Certificate(_))));
        let taken = challenges.answer_tls("A.example", a.cert.der().clone(), key(&a));
        taken.unwrap();
    }
}
