//! Names that clients connect to, and hosts of requests, for which certificates of clients are asked for.

use super::ClientAuth;
use crate::host_table::HostTable;
use rustls::pki_types::{CertificateDer, UnixTime};
use std::net::IpAddr;

/// The names of which clients are asked for certificates, and of which not.
#[derive(Debug, Clone, Default)]
pub(crate) struct AskedNames {
    /// Demands of all names, each once.
    all: Vec<ClientAuth>,
    /// Indices of the demands. `None`: no certificate is asked for.
    by_name: HostTable<Option<usize>>,
    /// The index of the demand for every other name, and without one.
    other: Option<usize>,
    /// The index of the demand of the first address: of clients without a name, for those connect by one.
    address: Option<Option<usize>>,
}

impl AskedNames {
    /// Asks clients of that name for a certificate, or for none.
    pub(crate) fn add(&mut self, name: &str, auth: Option<&ClientAuth>) {
        let index = auth.map(|auth| self.index(auth));
        if is_address(name) {
            self.address.get_or_insert(index);
        }
        self.by_name.insert(name, index);
    }

    /// Asks clients of every other name, and of none, for a certificate.
    pub(crate) fn add_others(&mut self, auth: &ClientAuth) {
        self.other = Some(self.index(auth));
    }

    fn index(&mut self, auth: &ClientAuth) -> usize {
        let known = self.all.iter().position(|it| it.is(auth));
        known.unwrap_or_else(|| {
            self.all.push(auth.clone());
            self.all.len() - 1
        })
    }

    /// Returns true if any client is asked for a certificate.
    pub(crate) fn is_some(&self) -> bool {
        !self.all.is_empty()
    }

    pub(crate) fn get(&self, index: usize) -> &ClientAuth {
        &self.all[index]
    }

    /// Returns the index of the demand for clients that connect to a name; `None`: no certificate is asked for.
    pub(crate) fn of_name(&self, name: Option<&str>) -> Option<usize> {
        match name {
            Some(name) => self.of_authority(name.as_bytes()),
            None => self.address.unwrap_or(self.other),
        }
    }

    /// Returns the index of the demand of the site that has an authority's host.
    pub(crate) fn of_authority(&self, authority: &[u8]) -> Option<usize> {
        let found = self.by_name.find(authority);
        found.copied().unwrap_or(self.other)
    }

    /// # Errors
    /// No root of any name has signed it, or not for now.
    pub(super) fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let mut failure = rustls::Error::General("no certificate was asked for".into());
        for auth in &self.all {
            match auth.verify(leaf, intermediates, now) {
                Ok(()) => return Ok(()),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

/// Returns true if it is an address as URIs have it.
fn is_address(name: &str) -> bool {
    name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::Store;

    fn auth() -> ClientAuth {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("certs")).unwrap();
        store.leaf(&["a.example"]).unwrap();
        ClientAuth::from_pem_file(&store.authority()).unwrap()
    }

    #[test]
    fn names_and_hosts_are_read_alike_and_no_spelling_escapes() {
        let (first, second) = (auth(), auth().optional());
        let mut names = AskedNames::default();
        assert!(!names.is_some());
        names.add("a.example", Some(&first));
        names.add("*.b.example", Some(&second));
        names.add("open.b.example", None);
        names.add("[2001:db8::1]", Some(&first));
        assert!(names.is_some() && names.get(0).is_required() && !names.get(1).is_required());
        for (authority, expected) in [
            (&b"a.example"[..], Some(0)),
            (b"A.Example.:8443", Some(0)),
            (b"a.example:", Some(0)),
            (b"x.b.example", Some(1)),
            (b"open.b.example:443", None),
            (b"b.example", None),
            (b".b.example", None),
            (b"x.y.b.example", None),
            (b"[2001:DB8::1]:443", Some(0)),
            (b"c.example", None),
            (b"\xff.b.example", Some(1)),
            (b"", None),
        ] {
            let text = String::from_utf8_lossy(authority);
            assert_eq!(names.of_authority(authority), expected, "{text}");
        }
        assert_eq!(names.of_name(Some("X.B.example")), Some(1));
        names.add_others(&second);
        for authority in [&b"c.example"[..], b"\xff", b""] {
            assert_eq!(names.of_authority(authority), Some(1));
        }
        assert_eq!(names.of_authority(b"open.b.example"), None);
    }

    #[test]
    fn who_names_nothing_has_connected_by_an_address() {
        let (first, second) = (auth(), auth().optional());
        let mut names = AskedNames::default();
        assert_eq!(names.of_name(None), None);
        names.add_others(&first);
        names.add("a.example", None);
        assert_eq!(names.of_name(None), Some(0));
        names.add("[2001:db8::1]", Some(&second));
        names.add("192.0.2.1", None);
        assert_eq!(names.of_name(None), Some(1), "the first address");
    }
}
