//! OCSP responses as a responder would write them (RFC 6960 section 4.2.1), put together from bytes
//! so that the server's reader meets another's writer. Their signatures are worthless.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

const BASIC: &[u8] = b"\x06\x09\x2b\x06\x01\x05\x05\x07\x30\x01\x01";
const SHA1: &[u8] = b"\x06\x05\x2b\x0e\x03\x02\x1a";
const ECDSA: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02";
const GOOD: &[u8] = b"\x80\x00";
const UNKNOWN: &[u8] = b"\x82\x00";

/// Status that an OCSP response tells.
pub(crate) enum Says<'a> {
    Good(Option<OffsetDateTime>),
    Revoked,
    Unknown,
    /// Good, but of a certificate with this issuer's name.
    OfIssuer(&'a [u8]),
}

/// A response about the certificate in a PEM file.
pub(crate) fn response(certificate: &Path, says: &Says<'_>) -> Vec<u8> {
    let der = CertificateDer::from_pem_file(certificate).unwrap();
    let (_, leaf) = X509Certificate::from_der(&der).unwrap();
    let now = moment(OffsetDateTime::now_utc());
    let revoked = tlv(0xa1, &[&now]);
    let (status, issuer, next) = match says {
        Says::Good(next) => (GOOD, leaf.issuer().as_raw(), *next),
        Says::Revoked => (&revoked[..], leaf.issuer().as_raw(), None),
        Says::Unknown => (UNKNOWN, leaf.issuer().as_raw(), None),
        Says::OfIssuer(issuer) => (GOOD, *issuer, None),
    };
    let name = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, issuer);
    let id = tlv(
        0x30,
        &[
            &tlv(0x30, &[SHA1, b"\x05\x00"]),
            &tlv(0x04, &[name.as_ref()]),
            &tlv(0x04, &[&[0; 20]]),
            &tlv(0x02, &[leaf.raw_serial()]),
        ],
    );
    let next = next.map_or(Vec::new(), |next| tlv(0xa0, &[&moment(next)]));
    let single = tlv(0x30, &[&id, status, &now, &next]);
    let responder = tlv(0xa2, &[&tlv(0x04, &[&[0; 20]])]);
    let data = tlv(0x30, &[&responder, &now, &tlv(0x30, &[&single])]);
    let signature = tlv(0x03, &[&[0; 9]]);
    let basic = tlv(0x30, &[&data, &tlv(0x30, &[ECDSA]), &signature]);
    let bytes = tlv(0x30, &[BASIC, &tlv(0x04, &[&basic])]);
    tlv(0x30, &[b"\x0a\x01\x00", &tlv(0xa0, &[&bytes])])
}

/// A responder's refusal: try later.
pub(crate) fn refusal() -> Vec<u8> {
    tlv(0x30, &[b"\x0a\x01\x03"])
}

fn moment(at: OffsetDateTime) -> Vec<u8> {
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second) = at.to_hms();
    let month = u8::from(month);
    let text = format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    tlv(0x18, &[text.as_bytes()])
}

/// Tag, length, value (X.690 section 8.1).
fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let value = parts.concat();
    let mut whole = vec![tag];
    match value.len() {
        length @ 0..=0x7f => whole.push(length as u8),
        length @ 0x80..=0xff => whole.extend([0x81, length as u8]),
        length => {
            whole.push(0x82);
            whole.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
    }
    whole.extend(value);
    whole
}
