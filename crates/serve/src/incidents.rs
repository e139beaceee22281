//! Refused requests and limits struck, counted by client prefix and told once a minute.
//!
//! A line for each would let a peer fill the disk and hide the line that matters. A sum a minute
//! tells an operator, at the default level of logging, who is turned away and why.

use crate::PrefixLengths;
use crate::client_prefix::ClientPrefix;
use crate::locks::lock;
use http::StatusCode;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Interval at which sums are reported.
const INTERVAL: Duration = Duration::from_secs(60);

/// Pairs of prefix and kind that are counted one by one; what comes beyond them is counted by kind alone.
const MAX_ENTRIES: usize = 1024;

/// Lines of one report; the rest is summed up in one more.
const MAX_LINES: usize = 20;

macro_rules! incidents {
    ($($(#[$about:meta])* $kind:ident = $name:literal,)*) => {
        /// A refusal, or a limit that was struck.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub(crate) enum Incident {
            $($(#[$about])* $kind,)*
        }

        /// Kinds of refusals and of limits struck ([`Metrics::incidents`](crate::Metrics::incidents)), each by its name.
        pub const INCIDENT_KINDS: [&str; [$($name),*].len()] = [$($name),*];

        impl Incident {
            fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

incidents! {
    /// A request that the rules of requests refuse: 400, 421, 501 or a stream error.
    RefusedRequest = "refused request",
    /// A request whose head, or target, is larger than it may be: 431, 414.
    HeadLimit = "head limit",
    /// A request without the client certificate that its site requires: 403.
    ClientCertificate = "client certificate",
    /// A request for a name that begins with a dot, where those are not served: 404.
    HiddenName = "hidden name",
    /// A connection beyond the client's share, or beyond the worker's limit.
    ConnectionLimit = "connection limit",
    /// A handshake beyond the client's share.
    HandshakeLimit = "handshake limit",
    /// A request beyond the client's share.
    RequestLimit = "request limit",
    /// A connection of a proxy that did not begin with a header of the PROXY protocol, or not in time.
    ProxyHeader = "no PROXY header",
    /// A request that came earlier than the client's rate allows.
    RequestRate = "request rate",
    /// A client that holds its share of memory.
    MemoryLimit = "memory limit",
    /// An idle connection that was closed to make room for others.
    EvictedConnection = "idle connection closed to make room",
    /// A client that reads, or sends, more slowly than is allowed.
    SlowClient = "slow client",
    /// A connection that was closed because of what its peer did: an error of the protocol.
    Misbehaviour = "misbehaviour",
    /// A connection that was closed because its peer asked for more than leads anywhere: a flood of control frames, of
    /// streams that are reset, or of large heads.
    ExcessiveLoad = "excessive load",
    /// Content of a request that is longer than it may be: 413.
    ContentLimit = "content limit",
    /// A response that could not be sent to its end for a reason that the peer can bring about.
    BrokenResponse = "broken response",
}

impl Incident {
    /// The incident of a request that is refused with that status for its head.
    pub(crate) fn of_refusal(status: StatusCode) -> Self {
        match status {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE | StatusCode::URI_TOO_LONG => {
                Self::HeadLimit
            }
            StatusCode::FORBIDDEN => Self::ClientCertificate,
            _ => Self::RefusedRequest,
        }
    }

    /// The incident of a connection that this side has closed with an error code because of what its peer did; `excessive`
    /// and `none`: the protocol's codes of excessive load and of no error.
    pub(crate) fn of_close<C: Copy + PartialEq>(code: C, excessive: C, none: C) -> Option<Self> {
        match code == excessive {
            true => Some(Self::ExcessiveLoad),
            false => (code != none).then_some(Self::Misbehaviour),
        }
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Mark of a 413 (Content Too Large, RFC 9110 section 15.5.14), in a response's extensions: a limit of this server was
/// struck, which is counted, and not one of a server behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentTooLong;

/// Mark of a 404 for a name that is there or not, and that is not served because it begins with a dot, in a response's
/// extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HiddenName;

/// The counters of a server, shared by its workers. One mutex: it is taken where something is refused,
/// which is no hot path, and held for a look-up.
#[derive(Debug)]
pub(crate) struct Incidents {
    lengths: PrefixLengths,
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Counts {
    /// Incidents by client prefix: at most [`MAX_ENTRIES`].
    by_client: HashMap<(ClientPrefix, Incident), u64>,
    /// Incidents of the prefixes for which there was no room.
    others: HashMap<Incident, u64>,
    /// All since the server began.
    totals: BTreeMap<Incident, u64>,
    since: Instant,
}

impl Incidents {
    pub(crate) fn new(lengths: PrefixLengths, now: Instant) -> Self {
        Self {
            lengths,
            counts: Mutex::new(Counts {
                by_client: HashMap::new(),
                others: HashMap::new(),
                totals: BTreeMap::new(),
                since: now,
            }),
        }
    }

    /// Counts one.
    pub(crate) fn record(&self, client: IpAddr, incident: Incident) {
        let key = (ClientPrefix::of(client, self.lengths), incident);
        let mut counts = lock(&self.counts);
        *counts.totals.entry(incident).or_default() += 1;
        let has_room = counts.by_client.len() < MAX_ENTRIES;
        if let Some(count) = counts.by_client.get_mut(&key) {
            *count += 1;
        } else if has_room {
            counts.by_client.insert(key, 1);
        } else {
            *counts.others.entry(incident).or_default() += 1;
        }
    }

    /// Returns the incidents counted since the server began, by kind.
    pub(crate) fn totals(&self) -> Vec<(&'static str, u64)> {
        let counts = lock(&self.counts);
        let totals = counts.totals.iter();
        totals
            .map(|(incident, count)| (incident.name(), *count))
            .collect()
    }

    /// Logs what was counted, once a minute however often and by however many threads it is called.
    pub(crate) fn report_when_due(&self, now: Instant) {
        let mut counts = lock(&self.counts);
        if now.saturating_duration_since(counts.since) < INTERVAL {
            return;
        }
        counts.since = now;
        log(counts);
    }

    /// Logs what was counted and not told yet: at the end of the server.
    pub(crate) fn report(&self) {
        log(lock(&self.counts));
    }
}

/// Logs what was counted, and holds nobody up meanwhile.
fn log(mut counts: MutexGuard<'_, Counts>) {
    let lines = counts.take_lines();
    drop(counts);
    for line in lines {
        tracing::warn!("{line}");
    }
}

impl Counts {
    /// The most frequent first; empties the counters.
    fn take_lines(&mut self) -> Vec<String> {
        let mut counted: Vec<_> = self.by_client.drain().collect();
        counted.sort_unstable_by(|(a, n), (b, m)| m.cmp(n).then(a.cmp(b)));
        let shown = counted.len().min(MAX_LINES);
        for ((_, incident), count) in counted.drain(shown..) {
            *self.others.entry(incident).or_default() += count;
        }
        let line = |((client, incident), count)| format!("client {client}: {count} × {incident}");
        let mut lines: Vec<_> = counted.into_iter().map(line).collect();
        let mut others: Vec<_> = self.others.drain().collect();
        others.sort_unstable();
        let line = |(incident, count)| format!("other clients: {count} × {incident}");
        lines.extend(others.into_iter().map(line));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn lines(incidents: &Incidents) -> Vec<String> {
        incidents.counts.lock().unwrap().take_lines()
    }

    #[test]
    fn incidents_are_summed_by_client_and_kind() {
        let incidents = Incidents::new(PrefixLengths::default(), Instant::now());
        let [a, b] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        (0..3).for_each(|_| incidents.record(a, Incident::RefusedRequest));
        incidents.record(a, Incident::SlowClient);
        (0..2).for_each(|_| incidents.record(b, Incident::RefusedRequest));
        let expected = [
            "client 192.0.2.1/32: 3 × refused request",
            "client 192.0.2.2/32: 2 × refused request",
            "client 192.0.2.1/32: 1 × slow client",
        ];
        assert_eq!(lines(&incidents), expected);
        assert!(lines(&incidents).is_empty(), "told once");
        let totals = [("refused request", 5), ("slow client", 1)];
        assert_eq!(incidents.totals(), totals, "kept");
    }

    #[test]
    fn however_many_clients_there_are_memory_and_lines_are_bounded() {
        let incidents = Incidents::new(PrefixLengths::default(), Instant::now());
        for bits in 0..5_000 {
            incidents.record(Ipv4Addr::from_bits(bits).into(), Incident::ConnectionLimit);
        }
        assert_eq!(
            incidents.counts.lock().unwrap().by_client.len(),
            MAX_ENTRIES
        );
        let lines = lines(&incidents);
        assert_eq!(lines.len(), MAX_LINES + 1);
        let rest = 5_000 - MAX_LINES;
        let last = format!("other clients: {rest} × connection limit");
        assert_eq!(lines[MAX_LINES], last);
    }
}
