//! OCSP responses: whether a file is one, and whether it speaks for the certificate that it shall be
//! stapled to.
//!
//! A client that gets a response for another certificate, or one whose time is over, may refuse the
//! handshake; so such a file is refused here, by the operator's eyes. What only a client can judge
//! is left to it: the response's signature, and whom it trusts to sign.

use crate::Error;
use aws_lc_rs::digest::{self, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};
use der::Decode;
use der::oid::AssociatedOid;
use rustls::pki_types::CertificateDer;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use x509_ocsp::{
    BasicOcspResponse, CertId, CertStatus, OcspResponse, OcspResponseStatus, SingleResponse,
};
use x509_parser::prelude::{FromDer, X509Certificate};

/// A response that may be stapled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    /// The response as the file holds it, DER (RFC 6960 section 4.2.1).
    pub(crate) der: Vec<u8>,
    /// Time at which newer information will be there (`nextUpdate`); `None`: it always is.
    pub(crate) until: Option<SystemTime>,
}

/// Reads the response for `leaf` from a file.
///
/// # Errors
/// The file can't be read or is no OCSP response; it is for another certificate, doesn't call it
/// good, or is over at `now`.
pub(crate) fn read(
    path: &Path,
    leaf: &CertificateDer<'_>,
    now: SystemTime,
) -> Result<Response, Error> {
    let (der, _) = altway_folder::read_file(path).map_err(|source| Error::ReadOcsp {
        path: path.into(),
        source,
    })?;
    let single = answer(path, &der, leaf)?;
    let status = match single.cert_status {
        CertStatus::Good(_) => None,
        CertStatus::Revoked(_) => Some("revoked"),
        CertStatus::Unknown(_) => Some("unknown"),
    };
    if let Some(status) = status {
        let path = path.into();
        return Err(Error::OcspNotGood { path, status });
    }
    let until = single.next_update;
    let until = until.map(|time| UNIX_EPOCH + time.0.to_unix_duration());
    match until {
        Some(until) if until <= now => Err(Error::OcspExpired {
            path: path.into(),
            until: time::OffsetDateTime::from(until).to_string(),
        }),
        until => Ok(Response { der, until }),
    }
}

/// Returns the response's answer for `leaf`.
fn answer(path: &Path, der: &[u8], leaf: &CertificateDer<'_>) -> Result<SingleResponse, Error> {
    let not_ocsp = || Error::NotOcsp { path: path.into() };
    let response = OcspResponse::from_der(der).map_err(|_| not_ocsp())?;
    if response.response_status != OcspResponseStatus::Successful {
        return Err(Error::OcspFailed {
            path: path.into(),
            status: format!("{:?}", response.response_status),
        });
    }
    let bytes = response.response_bytes;
    let basic = bytes
        .filter(|bytes| bytes.response_type == BasicOcspResponse::OID)
        .and_then(|bytes| BasicOcspResponse::from_der(bytes.response.as_bytes()).ok())
        .ok_or_else(not_ocsp)?;
    let mut singles = basic.tbs_response_data.responses.into_iter();
    singles
        .find(|single| is_for(&single.cert_id, leaf))
        .ok_or_else(|| Error::OcspOfAnother { path: path.into() })
}

/// Returns true if serial number and issuer's name (RFC 6960 section 4.1.1) are the leaf's. The issuer's
/// key is not compared: its certificate need not be in the chain.
fn is_for(id: &CertId, leaf: &CertificateDer<'_>) -> bool {
    let Ok((_, leaf)) = X509Certificate::from_der(leaf) else {
        return false;
    };
    let name = id.issuer_name_hash.as_bytes();
    // The lengths tell them apart; a responder that uses another one matches nothing.
    let algorithms = [&SHA1_FOR_LEGACY_USE_ONLY, &SHA256, &SHA384, &SHA512];
    let is_issuer = algorithms
        .into_iter()
        .any(|algorithm| digest::digest(algorithm, leaf.issuer().as_raw()).as_ref() == name);
    is_issuer && number(id.serial_number.as_bytes()) == number(leaf.raw_serial())
}

/// A serial number without the zeros that DER and its readers put before it or don't.
fn number(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}
