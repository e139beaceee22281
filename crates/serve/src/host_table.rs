//! Values by the hosts that requests and handshakes name.

use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::hash_map::Entry;

/// Values by names of hosts, among them `*.` and a name, which stands for one label more. A name of its own comes before
/// such a wildcard; case, a port and a last dot don't count.
#[derive(Debug, Clone)]
pub struct HostTable<T> {
    /// Entries by name in lower case, or by address as URIs have it; of a wildcard, by the text after its `*`, which begins
    /// with a dot as no name does.
    by_name: FxHashMap<Box<[u8]>, T>,
}

impl<T> Default for HostTable<T> {
    fn default() -> Self {
        Self {
            by_name: FxHashMap::default(),
        }
    }
}

impl<T> HostTable<T> {
    /// Sets the value of a host name, of `*.` and one, or of an address as URIs have it.
    pub fn insert(&mut self, name: &str, value: T) {
        self.entry(name).insert_entry(value);
    }

    pub(crate) fn entry(&mut self, name: &str) -> Entry<'_, Box<[u8]>, T> {
        let name = name.to_ascii_lowercase();
        let key = name.strip_prefix('*').unwrap_or(&name);
        self.by_name.entry(key.as_bytes().into())
    }

    /// Returns the value of the host that an authority names.
    #[must_use]
    pub fn find(&self, authority: &[u8]) -> Option<&T> {
        if self.by_name.is_empty() || authority.starts_with(b".") {
            return None;
        }
        let host = host(authority);
        let host = host.strip_suffix(b".").unwrap_or(host);
        let host = match host.iter().any(u8::is_ascii_uppercase) {
            true => Cow::Owned(host.to_ascii_lowercase()),
            false => Cow::Borrowed(host),
        };
        let wildcard = || {
            let dot = host.iter().position(|byte| *byte == b'.')?;
            self.by_name.get(&host[dot..])
        };
        self.by_name.get(&*host).or_else(wildcard)
    }
}

/// An authority without its port.
pub(crate) fn host(authority: &[u8]) -> &[u8] {
    let from = match authority.first() {
        Some(b'[') => authority.iter().position(|byte| *byte == b']'),
        _ => Some(0),
    };
    let from = from.unwrap_or(authority.len());
    let colon = authority[from..].iter().position(|byte| *byte == b':');
    &authority[..colon.map_or(authority.len(), |colon| from + colon)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_compared_as_names_are() {
        let mut table = HostTable::default();
        assert_eq!(table.find(b"a.example"), None);
        for (name, value) in [
            ("A.example", 1),
            ("[2001:db8::1]", 2),
            ("b.example", 3),
            ("*.B.example", 4),
            ("x.b.example", 5),
        ] {
            table.insert(name, value);
        }
        for (authority, expected) in [
            ("a.example", Some(1)),
            ("A.Example.:8443", Some(1)),
            ("[2001:db8::1]:443", Some(2)),
            ("[2001:DB8::1]", Some(2)),
            ("b.example", Some(3)),
            ("y.b.example:1", Some(4)),
            ("*.b.example", Some(4)),
            ("x.b.example", Some(5)),
            ("x.y.b.example", None),
            (".b.example", None),
            ("c.example", None),
            ("", None),
            ("[", None),
        ] {
            let found = table.find(authority.as_bytes()).copied();
            assert_eq!(found, expected, "{authority}");
        }
    }
}
