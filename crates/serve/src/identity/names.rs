//! The names that a certificate is for, and which names of hosts are among them.

use rustls::pki_types::CertificateDer;
use std::fmt;
use std::net::IpAddr;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The most names that are printed.
const MOST: usize = 8;

/// The names that a certificate is for, those in its `subjectAltName` (RFC 5280 section 4.2.1.6): clients go by no other
/// part of it (RFC 9525 section 2). [`Display`](fmt::Display) lists the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateNames {
    dns: Vec<String>,
    addresses: Vec<IpAddr>,
}

impl CertificateNames {
    /// The names of a certificate; none where it can't be parsed.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Self {
        let mut names = Self::default();
        let parsed = X509Certificate::from_der(certificate).ok();
        let extension = parsed
            .as_ref()
            .and_then(|(_, parsed)| parsed.subject_alternative_name().ok()?);
        for name in extension.iter().flat_map(|it| &it.value.general_names) {
            match name {
                GeneralName::DNSName(name) => names.dns.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => names.addresses.extend(address(bytes)),
                _ => {}
            }
        }
        names
    }

    /// Returns true if the certificate is valid for a host name, for `*.` and one, or for an address, in brackets or not.
    ///
    /// A certificate's `*.` stands for one whole label, the first, and for nothing else (RFC 9525 section 6.3).
    #[must_use]
    pub fn include(&self, name: &str) -> bool {
        match name.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => self.addresses.contains(&address),
            Err(_) => self.dns.iter().any(|found| stands_for(found, name)),
        }
    }

    /// The host names.
    pub(super) fn into_dns(self) -> Vec<String> {
        self.dns
    }
}

impl fmt::Display for CertificateNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = self.addresses.iter().map(ToString::to_string);
        let all: Vec<_> = self.dns.iter().cloned().chain(addresses).collect();
        if all.is_empty() {
            return f.write_str("no name");
        }
        f.write_str(&all[..all.len().min(MOST)].join(", "))?;
        match all.len().saturating_sub(MOST) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Returns true if a certificate's host name, perhaps with a wildcard, stands for a name.
fn stands_for(found: &str, name: &str) -> bool {
    let is_below = || {
        let (label, rest) = name.split_once('.')?;
        let parent = found.strip_prefix("*.")?;
        Some(!label.is_empty() && parent.eq_ignore_ascii_case(rest))
    };
    found.eq_ignore_ascii_case(name) || is_below().unwrap_or_default()
}

/// The address of 4 or 16 bytes.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    v4.or(v6).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> CertificateNames {
        let of: Vec<_> = of.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(of).unwrap();
        CertificateNames::of(made.cert.der())
    }

    #[test]
    fn a_wildcard_of_a_certificate_stands_for_one_whole_label() {
        let names = names(&["a.example", "*.b.example", "w*.c.example"]);
        for (name, is_included) in [
            ("a.example", true),
            ("A.Example", true),
            ("x.a.example", false),
            ("example", false),
            ("x.b.example", true),
            ("X.B.EXAMPLE", true),
            ("*.b.example", true),
            ("b.example", false),
            (".b.example", false),
            ("y.x.b.example", false),
            ("*.x.b.example", false),
            ("*.a.example", false),
            ("www.c.example", false),
        ] {
            assert_eq!(names.include(name), is_included, "{name}");
        }
    }

    #[test]
    fn an_address_is_a_name_of_its_own_kind() {
        let names = names(&["a.example", "192.0.2.1", "2001:db8::1"]);
        for (name, is_included) in [
            ("192.0.2.1", true),
            ("192.0.2.2", false),
            ("[2001:db8::1]", true),
            ("2001:0db8::0:1", true),
            ("[2001:db8::2]", false),
        ] {
            assert_eq!(names.include(name), is_included, "{name}");
        }
        // No name of a host stands for an address, also where it is spelt like one (RFC 9525 section 6.5).
        let spelt = CertificateNames {
            dns: vec!["192.0.2.1".into(), "*.0.2.1".into()],
            addresses: Vec::new(),
        };
        assert!(!spelt.include("192.0.2.1"));
    }

    #[test]
    fn names_are_listed_up_to_a_bound() {
        assert_eq!(CertificateNames::default().to_string(), "no name");
        let two = names(&["a.example", "192.0.2.1"]);
        assert_eq!(two.to_string(), "a.example, 192.0.2.1");
        let many: Vec<_> = (0..20).map(|number| format!("{number}.example")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let text = names(&many).to_string();
        assert!(text.ends_with(", 7.example and 12 more"), "{text}");
    }
}
