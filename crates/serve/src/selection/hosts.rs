//! The hosts that decisions are made for: names that are configured, or those of the certificates, and one for all
//! others.
//!
//! A download host and a site differ in what their visitors load, and may differ in their policy. A name that a client
//! makes up gets no host of its own: there are as many as are configured, [`MAX_HOSTS`] at most in the life of a
//! process.

use crate::host_table::HostTable;
use altway_select::{Host, Model};
use altway_units::Ratio;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Names that have a host of their own; those beyond share one, and those with a policy of their own one for each
/// policy. About 2 KiB each, as they come.
const MAX_HOSTS: usize = 1024;

/// Hosts beside those: of names beyond, by their policies; of what has no name.
const MAX_SHARED: usize = 64;

/// A name that decisions are made for, with its policy.
pub(crate) struct HostPolicyEntry<'a> {
    /// A host name, or `*.` and one.
    pub(crate) name: &'a str,
    /// The text form of the policy, and its model; `None`: the server's.
    pub(crate) policy: Option<(String, Arc<dyn Model>)>,
    /// Share of page views that report their times; `None`: the site has no beacon.
    pub(crate) beacon: Option<Ratio>,
}

/// A host of [`Hosts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HostIndex(u16);

impl HostIndex {
    /// The host of all names that have none of their own.
    pub(crate) const OTHERS: Self = Self(0);

    /// The largest number of hosts.
    pub(crate) const COUNT: usize = MAX_HOSTS + MAX_SHARED + 1;

    /// All that there may be, with their places.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(|place| Self(u16::try_from(place).unwrap_or(0)))
    }

    /// The place, below [`COUNT`](Self::COUNT).
    pub(crate) fn place(self) -> usize {
        self.0.into()
    }
}

/// The hosts that there have been since the server began: a name keeps its host as long as its policy is the same,
/// whatever names come and go.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// The first has no name.
    hosts: Box<[OnceLock<Box<Host>>]>,
    assigned: Mutex<AssignedHosts>,
}

/// The places of hosts.
#[derive(Debug, Default)]
struct AssignedHosts {
    /// Places by the name in lower case, a zero and the policy; without a name for those beyond
    /// [`MAX_HOSTS`].
    places: FxHashMap<Vec<u8>, HostIndex>,
    shared: usize,
    /// Slots of hosts, in which clients' states keep what they were told; that of the first is its own.
    taken_slots: u8,
}

/// The names in use, with their hosts. `*.example.org` is one host.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostNames {
    names: Arc<HostTable<NamedHost>>,
    /// The beacon of all other names.
    others: Option<Ratio>,
}

/// The host of a name in use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedHost {
    pub(crate) index: HostIndex,
    /// Share of page views that report their times; `None`: the name's site has no beacon.
    pub(crate) beacon: Option<Ratio>,
}

impl Hosts {
    pub(crate) fn new() -> Self {
        let places = 0..HostIndex::COUNT;
        let hosts: Box<[OnceLock<Box<Host>>]> = places.map(|_| OnceLock::new()).collect();
        hosts[0].get_or_init(Box::default);
        Self {
            hosts,
            assigned: Mutex::default(),
        }
    }

    /// The hosts of these names; new names get hosts while there are any left. `others`: the beacon of all others.
    pub(crate) fn names<'a>(
        &self,
        names: impl IntoIterator<Item = HostPolicyEntry<'a>>,
        others: Option<Ratio>,
    ) -> HostNames {
        let mut assigned = self.assigned.lock().unwrap_or_else(PoisonError::into_inner);
        let mut in_use = HostTable::default();
        for HostPolicyEntry {
            name,
            policy,
            beacon,
        } in names
        {
            let name = name.to_ascii_lowercase();
            let own = self.place(&mut assigned, &name, policy.as_ref());
            let place = own.or_else(|| self.place(&mut assigned, "", policy.as_ref()));
            if place.is_some() || beacon != others {
                let index = place.unwrap_or_default();
                in_use.insert(&name, NamedHost { index, beacon });
            }
        }
        HostNames {
            names: Arc::new(in_use),
            others,
        }
    }

    /// The place of a name with a policy, or of all names beyond with that policy (`""`); `None` where there is
    /// none left, and where the first one does.
    fn place(
        &self,
        assigned: &mut AssignedHosts,
        name: &str,
        policy: Option<&(String, Arc<dyn Model>)>,
    ) -> Option<HostIndex> {
        let text = policy.map_or("", |(text, _)| text.as_str());
        let key = [name.as_bytes(), text.as_bytes()].join(&0);
        if let Some(index) = assigned.places.get(&key) {
            return Some(*index);
        }
        let is_shared = name.is_empty();
        let free = match is_shared {
            true if policy.is_none() => return None,
            true if assigned.shared == MAX_SHARED => return None,
            true => MAX_HOSTS + assigned.shared + 1,
            false => assigned.places.len() - assigned.shared + 1,
        };
        if !is_shared && free > MAX_HOSTS {
            return None;
        }
        let first = Host::default().taken_slot();
        let host = self.hosts[free].get_or_init(|| {
            let host = Host::new(name).avoiding(assigned.taken_slots | first);
            Box::new(match policy {
                Some((_, model)) => host.with_model(Box::new(Arc::clone(model))),
                None => host,
            })
        });
        assigned.taken_slots |= host.taken_slot();
        assigned.shared += usize::from(is_shared);
        let index = HostIndex(u16::try_from(free).unwrap_or(0));
        assigned.places.insert(key, index);
        Some(index)
    }

    /// All hosts, that of all names that have none of their own first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter_map(OnceLock::get).map(Box::as_ref)
    }

    pub(crate) fn get(&self, index: HostIndex) -> &Host {
        let host = self.hosts[usize::from(index.0)].get();
        host.expect("an index is made after its host")
    }
}

impl HostNames {
    /// The host that a request's authority names, its port aside.
    pub(crate) fn find(&self, authority: &[u8]) -> NamedHost {
        let named = self.names.find(authority).copied();
        named.unwrap_or(NamedHost {
            index: HostIndex::OTHERS,
            beacon: self.others,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_select::ModelKind;

    fn plain<'a>(names: &[&'a str]) -> Vec<HostPolicyEntry<'a>> {
        let named = |name: &&'a str| HostPolicyEntry {
            name,
            policy: None,
            beacon: None,
        };
        names.iter().map(named).collect()
    }

    fn by<'a>(name: &'a str, policy: &str) -> HostPolicyEntry<'a> {
        let kind: ModelKind = policy.parse().unwrap();
        let model = kind.build(altway_select::Surface::embedded());
        HostPolicyEntry {
            name,
            policy: Some((policy.to_owned(), model.into())),
            beacon: None,
        }
    }

    fn find(names: &HostNames, name: &str) -> HostIndex {
        names.find(name.as_bytes()).index
    }

    #[test]
    fn each_name_is_a_host_and_all_others_are_one() {
        let hosts = Hosts::new();
        let names = hosts.names(plain(&["a.example", "*.b.example", "A.example"]), None);
        let find = |name: &str| find(&names, name);
        let (a, b) = (find("a.example"), find("x.b.example"));
        assert_ne!(a, b);
        assert_eq!((find("A.EXAMPLE:8443"), find("y.b.example:443")), (a, b));
        for other in ["", "b.example", "x.y.b.example", "c.example", "[::1]:443"] {
            assert_eq!(find(other), HostIndex::OTHERS, "{other}");
        }
        assert_eq!(hosts.assigned.lock().unwrap().places.len(), 2);
    }

    #[test]
    fn seven_hosts_and_that_of_all_others_keep_apart_what_clients_were_told() {
        let hosts = Hosts::new();
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| format!("{name}.example"));
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let in_use = hosts.names(plain(&names), None);
        let slot = |index| hosts.get(index).taken_slot();
        let slots = |count: usize| {
            let named = names[..count].iter().map(|name| slot(find(&in_use, name)));
            named.fold(slot(HostIndex::OTHERS), |all, slot| all | slot)
        };
        assert_eq!(slots(7).count_ones(), 8);
        let again = Hosts::new();
        let again_in_use = again.names(plain(&names), None);
        for name in &names {
            let of_again = again.get(find(&again_in_use, name)).taken_slot();
            assert_eq!(of_again, slot(find(&in_use, name)), "{name}");
        }
    }

    #[test]
    fn a_name_keeps_its_host_when_others_come_and_go() {
        let hosts = Hosts::new();
        let first = hosts.names(plain(&["a.example"]), None);
        let second = hosts.names(plain(&["b.example"]), None);
        let third = hosts.names(plain(&["b.example", "a.example"]), None);
        assert_eq!(find(&second, "a.example"), HostIndex::OTHERS);
        assert_eq!(find(&third, "a.example"), find(&first, "a.example"));
        assert_eq!(find(&third, "b.example"), find(&second, "b.example"));
        assert_ne!(find(&third, "a.example"), find(&third, "b.example"));
    }

    #[test]
    fn another_policy_is_another_host() {
        let hosts = Hosts::new();
        let first = hosts.names([by("a.example", "h2"), by("b.example", "h3")], None);
        let second = hosts.names([by("a.example", "h3"), by("b.example", "h3")], None);
        assert_ne!(find(&first, "a.example"), find(&second, "a.example"));
        assert_eq!(find(&first, "b.example"), find(&second, "b.example"));
    }

    #[test]
    fn each_site_has_its_own_beacon_or_none() {
        let (hosts, share) = (Hosts::new(), |text: &str| Some(text.parse().unwrap()));
        let named = |name, beacon| HostPolicyEntry {
            name,
            policy: None,
            beacon,
        };
        let sites = [named("a.example", share("2%")), named("*.b.example", None)];
        let names = hosts.names(sites, share("1%"));
        let beacon = |names: &HostNames, name: &str| names.find(name.as_bytes()).beacon;
        assert_eq!(beacon(&names, "A.example:8443"), share("2%"));
        assert_eq!(beacon(&names, "x.b.example"), None);
        assert_eq!(beacon(&names, "192.0.2.1"), share("1%"));
        assert_eq!(beacon(&names, ""), share("1%"));
        let off = hosts.names([named("a.example", None)], None);
        assert_eq!(beacon(&off, "a.example"), None);
        assert_eq!(find(&off, "a.example"), find(&names, "a.example"));
    }

    #[test]
    fn names_beyond_the_limit_share_a_host_for_each_policy() {
        let hosts = Hosts::new();
        let names: Vec<_> = (0..MAX_HOSTS)
            .map(|number| format!("{number}.example"))
            .collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        hosts.names(plain(&names), None);
        let mut more = vec![
            by("a.example", "h2"),
            by("b.example", "h2"),
            by("c.example", "h3"),
        ];
        more.extend(plain(&["d.example"]));
        let more = hosts.names(more, None);
        assert_eq!(find(&more, "a.example"), find(&more, "b.example"));
        assert_ne!(find(&more, "a.example"), find(&more, "c.example"));
        assert_eq!(find(&more, "d.example"), HostIndex::OTHERS);
        hosts.get(find(&more, "c.example"));
        for threshold in 0..2 * MAX_SHARED {
            let policy = format!("threshold:rtt={}ms,loss=1%", threshold + 1);
            hosts.names([by("e.example", &policy)], None);
        }
        assert_eq!(hosts.assigned.lock().unwrap().shared, MAX_SHARED);
    }
}
