//! Figures of what a server has done: counted by each worker for itself, and summed when asked.

mod counters;
mod durations;
mod latest;

pub(crate) use counters::{EndpointGauge, Gauge, OpenConnection, ServerCounters, WorkerCounters};
pub use durations::{DURATION_BUCKETS_MS, DurationMetrics};
pub use latest::LatestVisit;

use crate::request::log::AccessLog;
use crate::request::service::Service;
use crate::selection::{HostIndex, Selection, SelectionLog};
use crate::{Certificates, reload};
use altway_select::{
    BeaconCounts, ClassSummary, ClassTiming, ClientClass, DecisionRequest, Explanation,
};
use altway_select::{Offer, Transport, UnixTime};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Looks at a server from outside; can be used from any thread, before, while and after the server runs, and
/// dropped without consequence.
#[derive(Debug, Clone)]
pub struct Monitor {
    pub(crate) service: Arc<Service>,
    /// `None`: clear text.
    pub(crate) certificates: Option<reload::InUse>,
}

/// The figures of a server since it began, summed over its workers. Those of requests that are being
/// answered meanwhile may or may not be in them.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// HTTP/1.1, HTTP/2 and HTTP/3, in this order.
    pub protocols: [ProtocolMetrics; 3],
    /// Requests in progress, tunnels included: those whose responses have not ended.
    pub active_requests: u64,
    /// Counts of responses by what was decided for them; none where there is no HTTP/3 to offer. Sorted.
    pub offers: Vec<OfferMetrics>,
    /// Counts of refusals and of limits struck, by kind. Sorted by name; kinds that never occurred are
    /// left out.
    pub incidents: Vec<(&'static str, u64)>,
    /// Clients (address and class) of which something is known.
    pub known_clients: u64,
    /// Lines that the access log did not take; `None` without a log.
    pub log_dropped: Option<u64>,
    /// The same of the selection log.
    pub selection_log_dropped: Option<u64>,
    /// Connections by whether their client had been offered HTTP/3 before; each has had a request.
    pub arrivals: Vec<ArrivalMetrics>,
    /// Mean predicted difference, ln(T3 / T2), over the responses that offered HTTP/2 and HTTP/3 on a prediction;
    /// `None` where none did.
    pub predicted: [Option<f64>; 2],
    /// The names that are decided for, of which there are 1,089 at most; none where there is no HTTP/3 to offer.
    pub sites: Vec<SiteMetrics>,
    /// The latest visits, the newest first, 16 at most.
    pub latest: Vec<LatestVisit>,
    /// Bytes that HTTP/3 connections hold of what they may hold together.
    pub quic_pool_bytes: u64,
    /// Bytes that they may hold, over all workers ([`Limits::max_quic_held_bytes`](crate::Limits) of each); 0 without
    /// HTTP/3.
    pub quic_pool_limit_bytes: u64,
    /// Handshakes over QUIC by what came of them, in the order of [`QUIC_HANDSHAKE_RESULTS`].
    pub quic_handshakes: [u64; QUIC_HANDSHAKE_RESULTS.len()],
}

/// Results of handshakes over QUIC: done; given up by either side over what the other sent; without an end in the time
/// that it may take; refused at the first packet, beyond a limit; answered by Retry (RFC 9000 section 8.1.2), after which
/// a client that receives it begins another one.
pub const QUIC_HANDSHAKE_RESULTS: [&str; 5] =
    ["completed", "failed", "timeout", "refused", "retry"];

/// The connections of one protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrivalMetrics {
    /// `h1`, `h2` or `h3`.
    pub protocol: &'static str,
    /// Their clients had been offered HTTP/3.
    pub offered: bool,
    /// Connections.
    pub count: u64,
}

/// The figures of one name that is decided for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SiteMetrics {
    /// The name, as it is configured; empty for all others together.
    pub name: String,
    /// Responses by the first digit of their status, 1 to 5.
    pub responses: [u64; 5],
    /// Responses that offered HTTP/2, and HTTP/3.
    pub offers: [u64; 2],
    /// The same by the kind of reason, as [`Metrics::offers`].
    pub reasons: Vec<OfferMetrics>,
    /// Connections whose first response was the site's, as [`Metrics::arrivals`].
    pub arrivals: Vec<ArrivalMetrics>,
    host: HostIndex,
}

/// The figures of one protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ProtocolMetrics {
    /// Connections that spoke it, since the server began.
    pub connections: u64,
    /// Connections that are there now.
    pub open_connections: u64,
    /// Responses by the first digit of their status, 1 to 5. Interim responses (1xx) count with the others.
    pub responses: [u64; 5],
    /// Bytes of responses' contents, handed over to the protocol.
    pub content_bytes: u64,
    /// Durations of responses by the first digit of their status, 1 to 5: from when the head was screened to when the
    /// last byte was handed to the transport's buffers. Tunnels are not in them.
    pub durations: [DurationMetrics; 5],
    /// Pages that clients loaded; none where there is no HTTP/3 to offer.
    pub pages: PageMetrics,
}

/// The figures of pages over one protocol: of responses with pauses of less than a second between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PageMetrics {
    /// Times of the pages, from the first request to the acknowledgement of the last byte.
    pub times: DurationMetrics,
    /// Pages for which there was a prediction.
    pub predicted: u64,
    /// Time that these took.
    pub predicted_took: Duration,
    /// Time that these would have taken over the other transport, TCP or QUIC, by the prediction.
    pub predicted_elsewhere: Duration,
}

/// The count of responses that offered a protocol for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct OfferMetrics {
    /// `h2` or `h3`.
    pub offer: &'static str,
    /// The kind of reason, in a word such as `predicted` or `hold-out`.
    pub reason: &'static str,
    /// Responses.
    pub count: u64,
}

impl ProtocolMetrics {
    /// The protocols' names in the order of [`Metrics::protocols`], as in the access log.
    pub const NAMES: [&'static str; 3] = ["h1", "h2", "h3"];
}

/// A certificate that a server shows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShownCertificate {
    /// The names that it is for, in lower case.
    pub names: Vec<String>,
    /// The end of its validity; `None` where it can't be read.
    pub not_after: Option<SystemTime>,
}

impl Monitor {
    /// Returns how often each worker that runs has shown that it turns ([`Options::heartbeat`](crate::Options)): one
    /// whose number stays the same for longer is stuck.
    #[must_use]
    pub fn heartbeats(&self) -> Vec<u64> {
        self.service.counters.beats()
    }

    /// Sums the counters of all workers.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let service = &self.service;
        let mut metrics = service.counters.sum();
        metrics.incidents = service.incidents.totals();
        metrics.known_clients = service.selection().map_or(0, |it| it.clients() as u64);
        metrics.log_dropped = service.log.as_ref().map(AccessLog::dropped);
        if let Some(selection) = service.selection() {
            metrics.selection_log_dropped = selection.log().map(SelectionLog::dropped);
            for site in &mut metrics.sites {
                selection.host_name(site.host).clone_into(&mut site.name);
            }
        }
        metrics
    }

    /// Says what a client would be told, and why: for each class that is known at `address`, or for `class` alone,
    /// known or not. `host` is the name that it asks for. Empty where nothing is known, and
    /// where there is no HTTP/3 to offer.
    #[must_use]
    pub fn explain(
        &self,
        address: IpAddr,
        class: Option<ClientClass>,
        host: Option<&str>,
        now: UnixTime,
    ) -> Vec<Explanation> {
        let Some(selection) = self.service.selection() else {
            return Vec::new();
        };
        let snapshot = self.service.current.get();
        let host = snapshot.hosts.find(host.unwrap_or_default().as_bytes());
        let moment = DecisionRequest::new(now, Transport::Tcp);
        selection.explain(address, class, host.index, &moment)
    }

    /// Returns what has been learnt of each class of clients; empty where there is no HTTP/3 to offer.
    #[must_use]
    pub fn classes(&self) -> Vec<ClassSummary> {
        let selection = self.service.selection();
        selection.map_or_else(Vec::new, Selection::summary)
    }

    /// Returns how far the server's timing of pages is from what browsers reported ([`Options::beacon`](crate::Options)),
    /// for each class of which there are reports, and counts of these.
    #[must_use]
    pub fn timing(&self) -> (Vec<ClassTiming>, BeaconCounts) {
        let selection = self.service.selection();
        selection.map_or_else(Default::default, Selection::timing)
    }

    /// Returns the certificates in use, the default first; empty in clear text.
    #[must_use]
    pub fn certificates(&self) -> Vec<ShownCertificate> {
        let shown = |certificates: &Certificates| {
            let each = certificates.iter().map(|identity| ShownCertificate {
                names: identity.dns_names(),
                not_after: identity.not_after(),
            });
            each.collect()
        };
        let in_use = self.certificates.as_ref();
        in_use.map_or_else(Vec::new, |in_use| in_use.with(shown))
    }
}

/// The place of an offer in counters and its name.
const OFFERS: [(Offer, &str); 2] = [(Offer::Http2, "h2"), (Offer::Http3, "h3")];
