//! The names that a certificate holds.

use crate::Error;
use rcgen::SanType;
use rustls::pki_types::ServerName;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Names that every leaf has.
const ALWAYS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The most names of a leaf: its handshake shall fit into few packets.
const MAX_NAMES: usize = 64;

/// Valid names in one spelling: hosts in lower case, addresses as Rust prints them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// The names that every leaf has, and `more`.
    ///
    /// # Errors
    /// One of them is no name; there are too many.
    pub(super) fn new<S: AsRef<str>>(more: &[S]) -> Result<Self, Error> {
        let more = more.iter().map(AsRef::as_ref);
        let names: BTreeSet<String> = ALWAYS
            .into_iter()
            .chain(more)
            .map(checked)
            .collect::<Result<_, _>>()?;
        let count = names.len();
        if count > MAX_NAMES {
            let max = MAX_NAMES;
            return Err(Error::TooManyNames { count, max });
        }
        Ok(Self(names))
    }

    /// The given names as a certificate may hold them.
    pub(super) fn listed(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        other.0.is_subset(&self.0)
    }

    /// The names together with those of `former`, if that isn't too many.
    pub(super) fn with(self, former: &Self) -> Self {
        let both: BTreeSet<_> = self.0.union(&former.0).cloned().collect();
        if both.len() > MAX_NAMES {
            self
        } else {
            Self(both)
        }
    }

    pub(super) fn to_vec(&self) -> Vec<String> {
        self.0.iter().cloned().collect()
    }

    pub(super) fn subject_alternatives(&self) -> Result<Vec<SanType>, Error> {
        let alternative = |name: &String| match name.parse() {
            Ok(address) => Ok(SanType::IpAddress(address)),
            Err(_) => {
                let name = name.as_str().try_into().map_err(Error::generate)?;
                Ok(SanType::DnsName(name))
            }
        };
        self.0.iter().map(alternative).collect()
    }
}

/// A host name (in ASCII: international ones as `xn--…`), one with `*` as its first label, or an IP
/// address.
fn checked(name: &str) -> Result<String, Error> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    let host = name.strip_prefix("*.").unwrap_or(name);
    match ServerName::try_from(host) {
        Ok(ServerName::DnsName(_)) if !host.ends_with('.') => Ok(name.to_ascii_lowercase()),
        _ => Err(Error::BadName { name: name.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_leaf_is_for_this_machine() {
        let names = Names::new::<&str>(&[]).unwrap();
        assert_eq!(names.to_vec(), ["127.0.0.1", "::1", "localhost"]);
    }

    #[test]
    fn hosts_wildcards_and_addresses_are_names() {
        let names = Names::new(&["Altway.Test", "*.altway.test", "192.0.2.1", "2001:DB8::0"]);
        let names = names.unwrap().to_vec();
        for name in ["altway.test", "*.altway.test", "192.0.2.1", "2001:db8::"] {
            assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused_by_name() {
        for bad in [
            "",
            "*",
            "a b",
            "a.*.b",
            "*.*.b",
            "*.192.0.2.1",
            "ä.test",
            "a/b",
            "-a",
            "a.",
            ".a",
        ] {
            let error = Names::new(&[bad]).unwrap_err();
            assert!(
                matches!(&error, Error::BadName { name } if name == bad),
                "{bad}"
            );
        }
    }

    #[test]
    fn there_is_room_for_64_names() {
        let hosts = |count: usize| (0..count).map(|i| format!("h{i}.test")).collect::<Vec<_>>();
        assert!(Names::new(&hosts(61)).is_ok());
        let error = Names::new(&hosts(62)).unwrap_err();
        assert!(matches!(error, Error::TooManyNames { count: 65, max: 64 }));
    }
}
