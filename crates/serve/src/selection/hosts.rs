//! The hosts that decisions are made for: the names of the certificate, and one for all others.
//!
//! A download host and a site differ in what their visitors load. A name that a client makes up gets no host of its
//! own: there are as many as the certificate names, [`MAX_HOSTS`] at most.

use crate::Identity;
use altway_select::Host;
use rustc_hash::FxHashMap;

/// Names of a certificate that have a host of their own; those beyond share one.
const MAX_HOSTS: usize = 256;

/// A host of [`Hosts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HostIndex(u16);

impl HostIndex {
    /// The host of all names that have none of their own.
    pub(crate) const OTHERS: Self = Self(0);
}

/// The hosts by their names. `*.example.org` is one host.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// The first has no name.
    hosts: Vec<Host>,
    /// In lower case.
    names: FxHashMap<Vec<u8>, HostIndex>,
}

impl Hosts {
    /// The hosts of a server with that certificate.
    pub(crate) fn of(identity: Option<&Identity>) -> Self {
        Self::named(identity.map(Identity::dns_names).unwrap_or_default())
    }

    fn named(names: Vec<String>) -> Self {
        let mut hosts = Self {
            hosts: vec![Host::default()],
            names: FxHashMap::default(),
        };
        for name in names.into_iter().take(MAX_HOSTS) {
            let index = HostIndex(u16::try_from(hosts.hosts.len()).unwrap_or(0));
            let key = name.to_ascii_lowercase().into_bytes();
            if let std::collections::hash_map::Entry::Vacant(place) = hosts.names.entry(key) {
                place.insert(index);
                hosts.hosts.push(Host::new(&name));
            }
        }
        hosts
    }

    pub(crate) fn get(&self, index: HostIndex) -> &Host {
        &self.hosts[usize::from(index.0)]
    }

    /// The host that a request's authority names, its port aside.
    pub(crate) fn find(&self, authority: Option<&[u8]>) -> HostIndex {
        let Some(authority) = authority.filter(|_| !self.names.is_empty()) else {
            return HostIndex::OTHERS;
        };
        let name = authority.split(|byte| *byte == b':').next();
        let name = name.unwrap_or_default().to_ascii_lowercase();
        let wildcard = || {
            let dot = name.iter().position(|byte| *byte == b'.')?;
            let key = [b"*", &name[dot..]].concat();
            self.names.get(&key)
        };
        let found = self.names.get(&name).or_else(wildcard);
        found.copied().unwrap_or(HostIndex::OTHERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_of_the_certificate_is_a_host_and_all_others_are_one() {
        let names = ["a.example", "*.b.example", "A.example"];
        let hosts = Hosts::named(names.map(String::from).to_vec());
        let find = |name: &str| hosts.find(Some(name.as_bytes()));
        let (a, b) = (find("a.example"), find("x.b.example"));
        assert_ne!(a, b);
        assert_eq!((find("A.EXAMPLE:8443"), find("y.b.example:443")), (a, b));
        for other in ["", "b.example", "x.y.b.example", "c.example", "[::1]:443"] {
            assert_eq!(find(other), HostIndex::OTHERS, "{other}");
        }
        assert_eq!(hosts.find(None), HostIndex::OTHERS);
        assert_eq!(hosts.hosts.len(), 3);
    }

    #[test]
    fn names_beyond_the_limit_share_a_host() {
        let names = (0..MAX_HOSTS + 10).map(|number| format!("{number}.example"));
        let hosts = Hosts::named(names.collect());
        assert_eq!(hosts.hosts.len(), MAX_HOSTS + 1);
        let last = format!("{}.example", MAX_HOSTS + 9);
        assert_eq!(hosts.find(Some(last.as_bytes())), HostIndex::OTHERS);
    }
}
