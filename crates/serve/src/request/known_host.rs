//! The host that a request names: looked up once for requests of a connection that name the same one after another.

use crate::request::check::RequestHead;
use crate::request::content::Snapshot;
use crate::request::requests::Requests;
use crate::selection::NamedHost;
use http::StatusCode;

/// Bytes of the longest authority that a connection keeps: a name of 253 (RFC 1035 section 2.3.4) and a port.
pub(super) const MAX_AUTHORITY: usize = 259;

/// The facts that a snapshot has about a host.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostFacts {
    /// The number of the host by which a site is chosen; `None`: it is none of the server's. The status that refuses the
    /// request where it can't be found.
    pub(super) dispatched: Result<Option<usize>, StatusCode>,
    /// The host that decisions are made for.
    pub(super) named: NamedHost,
    /// The index of the demand for certificates of clients; `None`: none is asked for.
    pub(super) asked: Option<usize>,
}

/// The host of a connection's latest request.
pub(super) struct KnownHost {
    /// The number of the snapshot that has the facts.
    snapshot: u64,
    authority: Box<[u8]>,
    facts: HostFacts,
}

impl HostFacts {
    fn find(snapshot: &Snapshot, authority: &[u8]) -> Self {
        let asked_names = snapshot.asked_names.as_ref();
        Self {
            dispatched: snapshot.content.host(authority),
            named: snapshot.hosts.find(authority),
            asked: asked_names.and_then(|names| names.of_authority(authority)),
        }
    }
}

impl<I> Requests<I> {
    /// Returns the facts about the host that a request names, in the snapshot in use.
    pub(super) fn host_facts(&mut self, head: &impl RequestHead) -> HostFacts {
        let authority = head.authority().unwrap_or_default();
        let snapshot = self.responder.snapshot.borrow();
        let is_same =
            |it: &&KnownHost| it.snapshot == snapshot.number && *it.authority == *authority;
        if let Some(known) = self.known_host.as_deref().filter(is_same) {
            return known.facts;
        }
        let facts = HostFacts::find(&snapshot, authority);
        let is_kept = authority.len() <= MAX_AUTHORITY && facts.dispatched.is_ok();
        let known_host = is_kept.then(|| KnownHost {
            snapshot: snapshot.number,
            authority: authority.into(),
            facts,
        });
        self.known_host = known_host.map(Box::new);
        facts
    }
}
