//! The status of a server: what `/status` answers as JSON and `altway status` prints.

use crate::UpstreamStatus;
use crate::process::{Process, udp_dropped};
use altway_select::{BeaconCounts, ClassTiming};
use altway_serve::{
    ArrivalMetrics, DurationMetrics, LatestVisit, Metrics, Monitor, OfferMetrics, ProtocolMetrics,
    QUIC_HANDSHAKE_RESULTS, SiteMetrics,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::{SystemTime, UNIX_EPOCH};

/// The status of a server: what it is and has done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Status {
    /// The version of altway.
    pub version: String,
    /// The address that it listens at, TCP and UDP.
    pub address: SocketAddr,
    /// The further addresses that it listens at.
    #[serde(default)]
    pub further: Vec<SocketAddr>,
    /// The number of worker threads; none where it is not told.
    #[serde(default)]
    pub threads: Option<NonZeroUsize>,
    /// The policy in its text form.
    pub policy: String,
    /// Begin of the process, in seconds since 1970.
    pub since: u64,
    /// Seconds since 1970 when this was told.
    pub now: u64,
    /// State of the sandbox, in which the kernel holds the process to the files of its configuration: `on`, `off`, or
    /// `unavailable`.
    pub sandbox: String,
    /// The kernel's figures of the process.
    pub process: ProcessStatus,
    /// HTTP/1.1, HTTP/2, HTTP/3.
    pub protocols: Vec<ProtocolStatus>,
    /// Requests in progress, tunnels included.
    pub active_requests: u64,
    /// Counts of responses by the protocol that they offered and the reason.
    pub offers: Vec<OfferStatus>,
    /// Counts of refusals and of limits struck, by kind.
    pub incidents: BTreeMap<String, u64>,
    /// The clients of which something is known.
    pub clients: ClientStatus,
    /// The certificates, the default first; none in clear text.
    pub certificates: Vec<CertificateStatus>,
    /// The names whose certificates come by ACME; none without `[acme]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acme: Option<AcmeStatus>,
    /// Lines that the access log did not take; none without a log.
    pub log_dropped: Option<u64>,
    /// Lines that the selection log did not take; none without one.
    pub selection_log_dropped: Option<u64>,
    /// Connections by protocol and by whether their client had been offered HTTP/3 before.
    pub arrivals: Vec<ArrivalStatus>,
    /// Mean predicted difference, ln of the time over HTTP/3 as a share of that over HTTP/2, of the responses that
    /// offered HTTP/2 and HTTP/3, in this order; none where nothing was predicted.
    pub predicted: [Option<f64>; 2],
    /// The latest visits, the newest first.
    pub latest: Vec<VisitStatus>,
    /// The reports of browsers on their pages' times; none where no site has the beacon, or none has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beacon: Option<BeaconStatus>,
    /// The sites: the names that are decided for and were asked for.
    pub sites: Vec<SiteStatus>,
    /// Memory that HTTP/3 connections hold, and may hold together, in bytes.
    pub quic_pool: PoolStatus,
    /// Handshakes over QUIC by what came of them: `completed`, `failed`, `timeout`, `refused`, `retry`.
    #[serde(default)]
    pub quic_handshakes: BTreeMap<String, u64>,
    /// The servers behind proxies, in the order of the configuration.
    pub upstreams: Vec<UpstreamStatus>,
    /// The latest reload; none since the server began.
    pub reload: Option<ReloadStatus>,
}

/// The kernel's figures of the process; those that it does not give are missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessStatus {
    /// The process number.
    pub id: u32,
    /// Memory in use, in bytes.
    pub resident_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_files: Option<u64>,
    /// The most open file descriptors that it may have; none where there is no limit.
    #[serde(default)]
    pub max_open_files: Option<u64>,
    /// Processor time so far, in milliseconds.
    pub cpu_ms: Option<u64>,
    /// Datagrams that the kernel dropped because the sockets' buffers were full.
    pub udp_dropped: Option<u64>,
}

/// The figures of one protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProtocolStatus {
    /// `h1`, `h2`, `h3`.
    pub protocol: String,
    /// Connections since the server began.
    pub connections: u64,
    /// Connections that are there.
    pub open_connections: u64,
    /// Responses by the first digit of their status, 1 to 5.
    pub responses: [u64; 5],
    /// Bytes of responses' contents.
    pub content_bytes: u64,
    /// Durations of responses by the first digit of their status, 1 to 5.
    pub durations: Vec<DurationStatus>,
    /// Pages that clients loaded over it.
    pub pages: PageStatus,
}

/// The pages that clients loaded over a protocol: responses with pauses of less than a second between them. None are
/// measured where there is no HTTP/3 to offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PageStatus {
    /// Times of the pages, from the first request to the acknowledgement of the last byte.
    pub times: DurationStatus,
    /// Pages for which there was a prediction.
    pub predicted: u64,
    /// Seconds that these took.
    pub took_s: f64,
    /// Seconds that these would have taken over the other transport, TCP or QUIC, by the prediction.
    pub elsewhere_s: f64,
}

impl PageStatus {
    /// The share of the predicted time over the other transport that the pages did not take: above 0, this protocol was
    /// the faster one. `None` where nothing was predicted.
    #[must_use]
    pub fn gain(&self) -> Option<f64> {
        (self.elsewhere_s > 0.0).then(|| 1.0 - self.took_s / self.elsewhere_s)
    }
}

/// A histogram of durations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DurationStatus {
    /// Counts of durations within 5, 10, 25, 50, 75, 100, 250, 500, 750 ms, 1, 2.5, 5, 7.5 and 10 s, each without those
    /// of the bound before; the last is of longer ones.
    pub buckets: Vec<u64>,
    /// The sum of the durations, in seconds.
    pub sum_s: f64,
}

/// Connections of a protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ArrivalStatus {
    /// `h1`, `h2`, `h3`.
    pub protocol: String,
    /// Their clients had been offered HTTP/3.
    pub offered: bool,
    /// Connections.
    pub count: u64,
}

/// A connection, and what its first response said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VisitStatus {
    /// The time, in seconds since 1970.
    pub time: u64,
    /// `h1`, `h2`, `h3`.
    pub protocol: String,
    /// The class of the client.
    pub class: String,
    /// The client had been offered HTTP/3 before.
    pub offered: bool,
    /// `h2` or `h3`.
    pub offer: String,
    /// The kind of reason.
    pub reason: String,
    /// Predicted difference, ln of the time over HTTP/3 as a share of that over HTTP/2; none without a prediction.
    pub difference: Option<f64>,
}

/// Reports of browsers since the server began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BeaconStatus {
    /// Reports that were taken.
    pub taken: u64,
    /// Reports among these whose page the server had timed.
    pub matched: u64,
    /// Reports beyond what their network may send.
    pub refused: u64,
    /// The timing's bias of each class and protocol of which there are reports.
    pub timing: Vec<TimingStatus>,
}

/// The bias of the server's timing of pages, for a class of clients and a protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TimingStatus {
    /// The class of the clients.
    pub class: String,
    /// `h2` or `h3`.
    pub protocol: String,
    /// Reports; halved above 10,000.
    pub reports: f64,
    /// Networks that they came from, 64 at most.
    pub networks: u32,
    /// Mean of ln of the server's time over the browser's: below 0, the server sees less than people wait.
    pub mean_ln: f64,
    /// Standard error of the mean.
    pub error_ln: f64,
}

/// A site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SiteStatus {
    /// The name, as it is configured; empty for all others together.
    pub name: String,
    /// Responses by the first digit of their status, 1 to 5.
    pub responses: [u64; 5],
    /// Responses that offered HTTP/2, and HTTP/3.
    pub offers: [u64; 2],
    /// The same by the reason.
    #[serde(default)]
    pub reasons: Vec<OfferStatus>,
    /// Connections whose first response was the site's.
    #[serde(default)]
    pub arrivals: Vec<ArrivalStatus>,
}

/// A pool of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolStatus {
    /// Bytes that are taken.
    pub bytes: u64,
    /// Bytes that there are; 0 without HTTP/3.
    pub limit_bytes: u64,
}

/// The count of responses that offered a protocol for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OfferStatus {
    /// `h2` or `h3`.
    pub offer: String,
    /// The kind of reason.
    pub reason: String,
    /// Responses.
    pub count: u64,
}

/// The clients of which something is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientStatus {
    /// Addresses and classes of which something is known.
    pub known: u64,
    /// The classes of clients, the largest first.
    pub classes: Vec<ClassStatus>,
}

/// The clients of one class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClassStatus {
    /// Name of the class, such as `chromium-windows`.
    pub class: String,
    /// Addresses that are known.
    pub clients: usize,
    /// Addresses whose rate over TCP is known, and over QUIC.
    pub rated: [usize; 2],
    /// Addresses that HTTP/3 was offered and that never came over it.
    pub udp_blocked: usize,
    /// bit/s that the class takes over QUIC, as learnt.
    pub limit_bps: f64,
}

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CertificateStatus {
    /// The names that it is for.
    pub names: Vec<String>,
    /// End of the certificate's validity, in seconds since 1970; missing where it can't be read.
    pub not_after: Option<u64>,
}

/// Certificates that are ordered by ACME.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AcmeStatus {
    /// Certificates that were issued since the process began.
    pub issued: u64,
    /// Failures of orders and renewals since then.
    pub failed: u64,
    /// The names, in alphabetical order.
    pub names: Vec<AcmeNameStatus>,
}

/// A name whose certificate comes by ACME.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AcmeNameStatus {
    /// The name.
    pub name: String,
    /// The last second of its certificate, since 1970; none where there is no certificate yet.
    pub not_after: Option<u64>,
    /// The time of its renewal, since 1970.
    pub renew_at: Option<u64>,
    /// True while a new one is on its way.
    pub is_ordering: bool,
    /// Seconds until it is tried again, after a failure.
    pub retry_in_s: Option<u64>,
    /// Failures one after the other.
    pub failures: u32,
    /// The latest failure, since the certificate was issued.
    pub error: Option<String>,
}

/// A reload of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReloadStatus {
    /// The time, in seconds since 1970.
    pub at: u64,
    /// True if the new configuration is in use.
    pub success: bool,
    /// Lines that say what changed, or why nothing did.
    pub report: String,
}

/// The facts of a server that do not change while it runs.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) address: SocketAddr,
    pub(crate) further: Vec<SocketAddr>,
    pub(crate) threads: Option<NonZeroUsize>,
    pub(crate) policy: String,
    pub(crate) sandbox: &'static str,
    pub(crate) since: SystemTime,
}

impl Status {
    pub(crate) fn of(
        monitor: &Monitor,
        identity: &Identity,
        upstreams: Vec<UpstreamStatus>,
        reload: Option<ReloadStatus>,
    ) -> Self {
        let Metrics {
            protocols,
            active_requests,
            offers,
            incidents,
            known_clients,
            log_dropped,
            selection_log_dropped,
            arrivals,
            predicted,
            latest,
            sites,
            quic_pool_bytes,
            quic_pool_limit_bytes,
            quic_handshakes,
            ..
        } = monitor.metrics();
        let names = ProtocolMetrics::NAMES.iter().zip(&protocols);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            address: identity.address,
            further: identity.further.clone(),
            threads: identity.threads,
            policy: identity.policy.clone(),
            sandbox: identity.sandbox.to_owned(),
            since: seconds(identity.since),
            now: seconds(SystemTime::now()),
            process: process(identity),
            protocols: names.map(|(name, it)| protocol(name, it)).collect(),
            active_requests,
            offers: offers.iter().map(offer).collect(),
            incidents: incidents
                .into_iter()
                .map(|(kind, count)| (kind.to_owned(), count))
                .collect(),
            clients: clients(monitor, known_clients),
            certificates: certificates(monitor),
            acme: None,
            log_dropped,
            selection_log_dropped,
            arrivals: arrivals.iter().map(arrival).collect(),
            predicted,
            latest: latest.iter().map(visit).collect(),
            beacon: beacon(monitor),
            sites: sites.into_iter().map(site).collect(),
            quic_pool: PoolStatus {
                bytes: quic_pool_bytes,
                limit_bytes: quic_pool_limit_bytes,
            },
            quic_handshakes: handshakes(quic_handshakes),
            upstreams,
            reload,
        }
    }
}

fn handshakes(counts: [u64; QUIC_HANDSHAKE_RESULTS.len()]) -> BTreeMap<String, u64> {
    let each = QUIC_HANDSHAKE_RESULTS.iter().zip(counts);
    each.map(|(result, count)| ((*result).to_owned(), count))
        .collect()
}

fn process(identity: &Identity) -> ProcessStatus {
    let process = Process::read();
    let addresses = [&identity.address].into_iter().chain(&identity.further);
    let ports: Vec<_> = addresses.map(SocketAddr::port).collect();
    ProcessStatus {
        id: std::process::id(),
        resident_bytes: process.resident_bytes,
        open_files: process.open_files,
        max_open_files: process.max_open_files,
        cpu_ms: process.cpu_ms,
        udp_dropped: udp_dropped(&ports),
    }
}

fn protocol(name: &str, it: &ProtocolMetrics) -> ProtocolStatus {
    ProtocolStatus {
        protocol: name.to_owned(),
        connections: it.connections,
        open_connections: it.open_connections,
        responses: it.responses,
        content_bytes: it.content_bytes,
        durations: it.durations.iter().map(durations).collect(),
        pages: PageStatus {
            times: durations(&it.pages.times),
            predicted: it.pages.predicted,
            took_s: it.pages.predicted_took.as_secs_f64(),
            elsewhere_s: it.pages.predicted_elsewhere.as_secs_f64(),
        },
    }
}

fn offer(it: &OfferMetrics) -> OfferStatus {
    OfferStatus {
        offer: it.offer.to_owned(),
        reason: it.reason.to_owned(),
        count: it.count,
    }
}

fn arrival(it: &ArrivalMetrics) -> ArrivalStatus {
    ArrivalStatus {
        protocol: it.protocol.to_owned(),
        offered: it.offered,
        count: it.count,
    }
}

fn site(it: SiteMetrics) -> SiteStatus {
    SiteStatus {
        responses: it.responses,
        offers: it.offers,
        reasons: it.reasons.iter().map(offer).collect(),
        arrivals: it.arrivals.iter().map(arrival).collect(),
        name: it.name,
    }
}

fn certificates(monitor: &Monitor) -> Vec<CertificateStatus> {
    let each = monitor.certificates().into_iter();
    let each = each.map(|it| CertificateStatus {
        names: it.names,
        not_after: it.not_after.map(seconds),
    });
    each.collect()
}

fn visit(it: &LatestVisit) -> VisitStatus {
    VisitStatus {
        time: it.time.as_secs(),
        protocol: it.protocol.to_owned(),
        class: it.class.to_string(),
        offered: it.offered,
        offer: it.offer.to_owned(),
        reason: it.reason.to_owned(),
        difference: it.difference,
    }
}

fn beacon(monitor: &Monitor) -> Option<BeaconStatus> {
    let (classes, counts) = monitor.timing();
    if counts == BeaconCounts::default() {
        return None;
    }
    let of = |class: ClassTiming| {
        let protocols = ["h2", "h3"].into_iter().zip(class.bias);
        let known = protocols.filter(|(_, bias)| bias.reports > 0.0);
        known.map(move |(protocol, bias)| TimingStatus {
            class: class.class.to_string(),
            protocol: protocol.to_owned(),
            reports: bias.reports,
            networks: bias.networks,
            mean_ln: bias.mean,
            error_ln: bias.error,
        })
    };
    Some(BeaconStatus {
        taken: counts.taken,
        matched: counts.matched,
        refused: counts.refused,
        timing: classes.into_iter().flat_map(of).collect(),
    })
}

fn durations(metrics: &DurationMetrics) -> DurationStatus {
    DurationStatus {
        buckets: metrics.buckets.into(),
        sum_s: metrics.sum.as_secs_f64(),
    }
}

fn clients(monitor: &Monitor, known: u64) -> ClientStatus {
    let classes = monitor.classes().into_iter().map(|it| ClassStatus {
        class: it.class.to_string(),
        clients: it.clients,
        rated: it.rated,
        udp_blocked: it.udp_blocked,
        limit_bps: it.limit,
    });
    ClientStatus {
        known,
        classes: classes.collect(),
    }
}

/// Whole seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}
