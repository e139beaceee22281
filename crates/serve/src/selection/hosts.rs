//! The hosts that decisions are made for: the names of the certificates, and one for all others.
//!
//! A download host and a site differ in what their visitors load. A name that a client makes up gets no host of its
//! own: there are as many as the certificates name, [`MAX_HOSTS`] at most in the life of a process.

use altway_select::Host;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Names of certificates that have a host of their own; those beyond share one.
const MAX_HOSTS: usize = 256;

/// A host of [`Hosts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HostIndex(u16);

impl HostIndex {
    /// The host of all names that have none of their own.
    pub(crate) const OTHERS: Self = Self(0);
}

/// The hosts that there have been since the server began: a name keeps its host, whatever certificates come and go.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// The first has no name.
    hosts: Box<[OnceLock<Host>]>,
    /// In lower case.
    assigned: Mutex<FxHashMap<Vec<u8>, HostIndex>>,
}

/// The names in use, with their hosts. `*.example.org` is one host.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostNames(Arc<FxHashMap<Vec<u8>, HostIndex>>);

impl Hosts {
    pub(crate) fn new() -> Self {
        let hosts: Box<[OnceLock<Host>]> = (0..=MAX_HOSTS).map(|_| OnceLock::new()).collect();
        hosts[0].get_or_init(Host::default);
        Self {
            hosts,
            assigned: Mutex::default(),
        }
    }

    /// The hosts of these names; new names get hosts while there are any left.
    pub(crate) fn names(&self, names: impl IntoIterator<Item = String>) -> HostNames {
        let mut assigned = self.assigned.lock().unwrap_or_else(PoisonError::into_inner);
        let mut in_use = FxHashMap::default();
        for name in names {
            let key = name.to_ascii_lowercase().into_bytes();
            if let Some(index) = assigned.get(&key) {
                in_use.insert(key, *index);
                continue;
            }
            let free = assigned.len() + 1;
            let Some(place) = self.hosts.get(free) else {
                continue;
            };
            place.get_or_init(|| Host::new(&name));
            let index = HostIndex(u16::try_from(free).unwrap_or(0));
            assigned.insert(key.clone(), index);
            in_use.insert(key, index);
        }
        HostNames(Arc::new(in_use))
    }

    pub(crate) fn get(&self, index: HostIndex) -> &Host {
        let host = self.hosts[usize::from(index.0)].get();
        host.expect("an index is made after its host")
    }
}

impl HostNames {
    /// The host that a request's authority names, its port aside.
    pub(crate) fn find(&self, authority: Option<&[u8]>) -> HostIndex {
        let Some(authority) = authority.filter(|_| !self.0.is_empty()) else {
            return HostIndex::OTHERS;
        };
        let name = authority.split(|byte| *byte == b':').next();
        let name = name.unwrap_or_default().to_ascii_lowercase();
        let wildcard = || {
            let dot = name.iter().position(|byte| *byte == b'.')?;
            let key = [b"*", &name[dot..]].concat();
            self.0.get(&key)
        };
        let found = self.0.get(&name).or_else(wildcard);
        found.copied().unwrap_or(HostIndex::OTHERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_of_a_certificate_is_a_host_and_all_others_are_one() {
        let hosts = Hosts::new();
        let names = hosts.names(["a.example", "*.b.example", "A.example"].map(String::from));
        let find = |name: &str| names.find(Some(name.as_bytes()));
        let (a, b) = (find("a.example"), find("x.b.example"));
        assert_ne!(a, b);
        assert_eq!((find("A.EXAMPLE:8443"), find("y.b.example:443")), (a, b));
        for other in ["", "b.example", "x.y.b.example", "c.example", "[::1]:443"] {
            assert_eq!(find(other), HostIndex::OTHERS, "{other}");
        }
        assert_eq!(names.find(None), HostIndex::OTHERS);
        assert_eq!(names.0.len(), 2);
    }

    #[test]
    fn a_name_keeps_its_host_when_others_come_and_go() {
        let hosts = Hosts::new();
        let find = |names: &HostNames, name: &str| names.find(Some(name.as_bytes()));
        let first = hosts.names(["a.example".to_owned()]);
        let second = hosts.names(["b.example".to_owned()]);
        let third = hosts.names(["b.example".to_owned(), "a.example".to_owned()]);
        assert_eq!(find(&second, "a.example"), HostIndex::OTHERS);
        assert_eq!(find(&third, "a.example"), find(&first, "a.example"));
        assert_eq!(find(&third, "b.example"), find(&second, "b.example"));
        assert_ne!(find(&third, "a.example"), find(&third, "b.example"));
    }

    #[test]
    fn names_beyond_the_limit_share_a_host() {
        let hosts = Hosts::new();
        let names = (0..MAX_HOSTS + 10).map(|number| format!("{number}.example"));
        let names = hosts.names(names);
        assert_eq!(names.0.len(), MAX_HOSTS);
        let last = format!("{}.example", MAX_HOSTS + 9);
        assert_eq!(names.find(Some(last.as_bytes())), HostIndex::OTHERS);
    }
}
