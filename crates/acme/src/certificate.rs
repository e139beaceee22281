//! Certificates as files have them: their time, whose they are, and requests for new ones.

use crate::Folder;
use crate::schedule::Validity;
use instant_acme::CertificateIdentifier;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// A chain whose first certificate was read.
#[derive(Debug)]
pub(crate) struct Issued {
    leaf: CertificateDer<'static>,
    pub(crate) validity: Validity,
}

impl Issued {
    /// Reads a chain and its key from one PEM text.
    ///
    /// # Errors
    /// The text is no chain, the key is another's, or the certificate is for another name; in words.
    pub(crate) fn read(text: &str, name: &str) -> Result<Self, String> {
        let chain = CertificateDer::pem_slice_iter(text.as_bytes());
        let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(in_words)?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(in_words)?;
        let leaf = chain.first().cloned().ok_or("there is no certificate")?;
        CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(in_words)?;
        let (_, parsed) = X509Certificate::from_der(&leaf).map_err(in_words)?;
        if !is_for(&parsed, name) {
            return Err(format!("it is not for {name}"));
        }
        let validity = Validity {
            not_before: parsed.validity().not_before.to_datetime().into(),
            not_after: parsed.validity().not_after.to_datetime().into(),
        };
        Ok(Self { leaf, validity })
    }

    /// Reads the certificate of a name that a folder keeps; `None`: there is none that can be used.
    pub(crate) fn kept(folder: &Folder, name: &str) -> Option<Self> {
        let text = folder.read_certificate(name).ok()??;
        let read = Self::read(&text, name);
        let warn = |error: &String| {
            let path = folder.certificate(name);
            let path = path.display();
            tracing::warn!("the certificate `{path}` can't be used, a new one is ordered: {error}");
        };
        read.inspect_err(warn).ok()
    }

    /// The certificate's identifier for questions about its renewal (RFC 9773 section 4.1).
    pub(crate) fn identifier(&self) -> Option<CertificateIdentifier<'static>> {
        let identifier = CertificateIdentifier::try_from(&self.leaf).ok()?;
        Some(identifier.into_owned())
    }
}

fn is_for(leaf: &X509Certificate<'_>, name: &str) -> bool {
    let names = leaf.subject_alternative_name().ok().flatten();
    let names = names.map(|names| names.value.general_names.as_slice());
    names.unwrap_or_default().iter().any(
        |found| matches!(found, GeneralName::DNSName(found) if found.eq_ignore_ascii_case(name)),
    )
}

/// A request for a certificate (RFC 2986) for one name, DER.
pub(crate) fn request(name: &str, key: &KeyPair) -> Result<Vec<u8>, rcgen::Error> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(key)?.der().to_vec())
}

/// The certificate that answers a challenge in a handshake (RFC 8737 section 3), with its key.
pub(crate) fn answer(
    name: &str,
    digest: &[u8],
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let made = params.self_signed(&key)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((made.der().clone(), key.into()))
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` passes it")]
fn in_words(error: impl ToString) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn made(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_chain_is_taken_with_its_own_key_and_for_its_name() {
        let ((chain, key), (_, other)) = (made("a.example"), made("a.example"));
        let issued = Issued::read(&(chain.clone() + &key), "A.example").unwrap();
        assert!(issued.validity.not_before < SystemTime::now());
        assert!(issued.validity.not_after > SystemTime::now());
        for (text, name) in [
            (chain.clone() + &key, "b.example"),
            (chain.clone() + &other, "a.example"),
            (chain.clone(), "a.example"),
            (key.clone(), "a.example"),
            (String::new(), "a.example"),
            (chain[..chain.len() / 2].to_owned() + &key, "a.example"),
        ] {
            assert!(Issued::read(&text, name).is_err(), "{text}");
        }
    }

    #[test]
    fn an_answer_is_for_the_name_and_has_the_digest() {
        let (certificate, _) = answer("a.example", &[7; 32]).unwrap();
        let (_, parsed) = X509Certificate::from_der(&certificate).unwrap();
        assert!(is_for(&parsed, "a.example"));
        // id-pe-acmeIdentifier (RFC 8737 section 6.1), critical.
        let mut extensions = parsed.extensions().iter();
        let found = extensions.find(|it| it.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
        let found = found.unwrap();
        assert!(found.critical);
        assert_eq!(found.value, [[4, 32].as_slice(), &[7; 32]].concat());
    }

    #[test]
    fn a_request_can_be_made_of_the_key_that_a_file_has() {
        let key = KeyPair::generate().unwrap();
        let again = KeyPair::from_pem(&key.serialize_pem()).unwrap();
        assert!(!request("a.example", &again).unwrap().is_empty());
    }
}
