//! The counters of the workers. Each worker writes its own and no other reads them but when they are summed, so
//! that counting costs an addition to memory that is its own.

use super::durations::Durations;
use super::latest::{LatestVisits, MAX_VISITS};
use super::{
    ArrivalMetrics, LatestVisit, Metrics, OFFERS, OfferMetrics, PageMetrics, ProtocolMetrics,
    QUIC_HANDSHAKE_RESULTS, SiteMetrics,
};
use crate::locks::lock;
use crate::request::log::Protocol;
use crate::selection::HostIndex;
use crate::selection::observer::FinishedPage;
use altway_http3::{EndpointStatistics, HandshakeCounts};
use altway_select::{Decision, Offer, Reason, Transport};
use http::StatusCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The counters of all workers that there are and were.
#[derive(Debug, Default)]
pub(crate) struct ServerCounters(Mutex<Workers>);

#[derive(Debug, Default)]
struct Workers {
    /// Workers that run, and those whose sums have not gone to `former` yet.
    running: Vec<Arc<WorkerCounters>>,
    /// Sums of workers that were started again after a panic.
    former: WorkerCounters,
}

/// The counters of one worker, which alone writes them.
#[derive(Debug, Default)]
pub(crate) struct WorkerCounters {
    protocols: [ProtocolCounters; 3],
    /// Counts of responses that offered HTTP/2 and HTTP/3: how many had a prediction, and the sum of its difference, in
    /// millionths.
    predicted: [[Count; 2]; 2],
    /// The counters of each host, by its place; made as its first response comes.
    sites: Sites,
    visits: LatestVisits,
    /// Gauges: bytes of QUIC's pools that are taken, and that there are, over the worker's endpoints.
    quic_pool: [Count; 2],
    /// Handshakes by what came of them.
    quic_handshakes: [Count; QUIC_HANDSHAKE_RESULTS.len()],
    /// Counted up as long as the worker's event loop turns.
    beats: Count,
    requests: Gauge,
}

/// 17 KiB, and some 300 bytes for each site that is asked for.
#[derive(Debug)]
struct Sites(Box<[OnceLock<Box<SiteCounters>>]>);

impl Default for Sites {
    fn default() -> Self {
        Self((0..HostIndex::COUNT).map(|_| OnceLock::new()).collect())
    }
}

#[derive(Debug, Default)]
struct SiteCounters {
    responses: [Count; 5],
    /// Counts of offers of HTTP/2 and of HTTP/3, by the kind of reason.
    offers: [[Count; Reason::KINDS.len()]; 2],
    /// Connections of each protocol whose client had not been offered HTTP/3 before, and that had.
    arrivals: [[Count; 2]; 3],
}

#[derive(Debug, Default)]
struct ProtocolCounters {
    opened: Count,
    closed: Count,
    responses: [Count; 5],
    content_bytes: Count,
    /// Counts by the first digit of the status.
    durations: [Durations; 5],
    pages: PageCounters,
}

/// Counters of what clients loaded in one go.
#[derive(Debug, Default)]
struct PageCounters {
    times: Durations,
    /// Pages for which there was a prediction, microseconds that they took, and that they would have taken over the
    /// other transport by that.
    predicted: [Count; 3],
}

/// The largest predicted difference, ln(T3 / T2), that is counted as it is: a factor of 20.
const MOST_DIFFERENCE: f64 = 3.0;

/// A number that one thread adds to and any may read: no addition waits for another thread.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

/// A number of things that are there, which one thread sets and any may read. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gauge(Arc<AtomicUsize>);

/// The fill of one endpoint's pool and its counts of handshakes, as its worker's counters know them.
#[derive(Debug, Default)]
pub(crate) struct EndpointGauge {
    pool: [u64; 2],
    handshakes: [u64; QUIC_HANDSHAKE_RESULTS.len()],
}

/// A connection that is there until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    counters: Arc<WorkerCounters>,
    protocol: Protocol,
}

impl Count {
    pub(super) fn add(&self, number: u64) {
        let sum = self.get().wrapping_add(number);
        self.0.store(sum, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Gauge {
    pub(crate) fn set(&self, number: usize) {
        self.0.store(number, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl ServerCounters {
    /// ServerCounters for a worker that begins.
    pub(crate) fn worker(&self) -> Arc<WorkerCounters> {
        let mut workers = lock(&self.0);
        let Workers { running, former } = &mut *workers;
        running.retain(|worker| {
            let is_over = Arc::strong_count(worker) == 1;
            if is_over {
                former.add_all(worker);
            }
            !is_over
        });
        let worker = Arc::new(WorkerCounters::default());
        running.push(Arc::clone(&worker));
        worker
    }

    /// The heartbeats of the workers that run.
    pub(crate) fn beats(&self) -> Vec<u64> {
        let workers = lock(&self.0);
        let running = workers.running.iter();
        // One that nobody else holds has ended.
        let running = running.filter(|it| Arc::strong_count(it) > 1);
        running.map(|it| it.beats.get()).collect()
    }

    pub(crate) fn sum(&self) -> Metrics {
        let workers = lock(&self.0);
        let sum = WorkerCounters::default();
        sum.add_all(&workers.former);
        workers
            .running
            .iter()
            .for_each(|worker| sum.add_all(worker));
        let pool = |place: usize| {
            workers
                .running
                .iter()
                .map(|it| it.quic_pool[place].get())
                .sum()
        };
        let quic_pool = (pool(0), pool(1));
        let requests = workers.running.iter().map(|it| it.requests.get() as u64);
        let requests = requests.sum();
        let mut latest = Vec::new();
        for worker in &workers.running {
            worker.visits.append_to(&mut latest);
        }
        drop(workers);
        // Those of one second as they came.
        latest.reverse();
        latest.sort_by_key(|visit| std::cmp::Reverse(visit.time));
        latest.truncate(MAX_VISITS);
        let mut metrics = sum.metrics();
        metrics.latest = latest;
        (metrics.quic_pool_bytes, metrics.quic_pool_limit_bytes) = quic_pool;
        metrics.active_requests = requests;
        metrics
    }
}

impl WorkerCounters {
    /// Counts a connection until what is returned is dropped.
    pub(crate) fn open(self: &Arc<Self>, protocol: Protocol) -> OpenConnection {
        self.of(protocol).opened.add(1);
        OpenConnection {
            counters: Arc::clone(self),
            protocol,
        }
    }

    /// Counts a response with what was decided for it.
    pub(crate) fn responded(
        &self,
        protocol: Protocol,
        status: StatusCode,
        host: HostIndex,
        decision: Option<&Decision>,
    ) {
        let class = class(status);
        self.of(protocol).responses[class].add(1);
        // Without HTTP/3 there are no hosts to tell apart.
        if let Some(decision) = decision {
            let offer = usize::from(decision.offer == Offer::Http3);
            let site = self.site(host);
            site.responses[class].add(1);
            site.offers[offer][decision.reason.kind_index()].add(1);
            if let Some(prediction) = &decision.prediction {
                let [count, sum] = &self.predicted[offer];
                count.add(1);
                sum.add((prediction.difference * 1e6) as i64 as u64);
            }
        }
    }

    /// Counts the time from a request's head to its response's last byte, of so many `responses` alike.
    pub(crate) fn timed(
        &self,
        protocol: Protocol,
        status: StatusCode,
        duration: Duration,
        responses: u64,
    ) {
        self.of(protocol).durations[class(status)].add(duration, responses);
    }

    /// Counts a connection with its first response, of this host; `offered`: its client had been offered HTTP/3.
    pub(crate) fn arrived(&self, protocol: Protocol, host: HostIndex, offered: bool) {
        self.site(host).arrivals[protocol as usize][usize::from(offered)].add(1);
    }

    /// Counts what a client has loaded in one go.
    pub(crate) fn loaded(&self, protocol: Protocol, page: FinishedPage) {
        let pages = &self.of(protocol).pages;
        pages.times.add(page.time, 1);
        let Some(difference) = page.difference else {
            return;
        };
        // Beyond that a prediction says that nobody knows.
        let ratio = difference.clamp(-MOST_DIFFERENCE, MOST_DIFFERENCE).exp();
        let (took, path) = (page.time.as_secs_f64(), page.path_time.as_secs_f64());
        let other_path = match protocol.transport() {
            Transport::Quic => path / ratio,
            Transport::Tcp => path * ratio,
        };
        // The application takes its time over either.
        let other = took - path + other_path;
        let [count, own_sum, other_sum] = &pages.predicted;
        count.add(1);
        own_sum.add((took * 1e6) as u64);
        other_sum.add((other * 1e6) as u64);
    }

    /// Notes a connection with its first response.
    pub(crate) fn visited(&self, visit: LatestVisit) {
        self.visits.add(visit);
    }

    /// The number of the worker's requests in progress, for whoever knows it.
    pub(crate) fn requests(&self) -> Gauge {
        self.requests.clone()
    }

    /// Notes that the worker's event loop turns.
    pub(crate) fn beat(&self) {
        self.beats.add(1);
    }

    /// The bytes of QUIC's pools that are taken, over the worker's endpoints.
    pub(crate) fn quic_pool_bytes(&self) -> usize {
        usize::try_from(self.quic_pool[0].get()).unwrap_or(usize::MAX)
    }

    /// Notes how full the pool of a QUIC endpoint is, and what came of its handshakes. `gauge`: what was noted of it
    /// before.
    pub(crate) fn set_quic(&self, gauge: &mut EndpointGauge, endpoint: &EndpointStatistics) {
        let pool = [endpoint.held_bytes, endpoint.max_held_bytes];
        add_difference(&self.quic_pool, &mut gauge.pool, pool);
        let HandshakeCounts {
            completed,
            failed,
            timed_out,
            refused,
            ..
        } = endpoint.handshakes;
        let handshakes = [completed, failed, timed_out, refused, endpoint.retries];
        add_difference(&self.quic_handshakes, &mut gauge.handshakes, handshakes);
    }

    pub(crate) fn sent(&self, protocol: Protocol, bytes: u64) {
        self.of(protocol).content_bytes.add(bytes);
    }

    fn of(&self, protocol: Protocol) -> &ProtocolCounters {
        &self.protocols[protocol as usize]
    }

    fn site(&self, host: HostIndex) -> &SiteCounters {
        self.sites.0[host.place()].get_or_init(Box::default)
    }

    fn add_all(&self, other: &Self) {
        for (own, other) in self.protocols.iter().zip(&other.protocols) {
            own.pages.times.add_all(&other.pages.times);
            add_each(&own.pages.predicted, &other.pages.predicted);
            own.opened.add(other.opened.get());
            own.closed.add(other.closed.get());
            own.content_bytes.add(other.content_bytes.get());
            add_each(&own.responses, &other.responses);
            for (own, other) in own.durations.iter().zip(&other.durations) {
                own.add_all(other);
            }
        }
        for (own, other) in self.predicted.iter().zip(&other.predicted) {
            add_each(own, other);
        }
        for (own, other) in self.sites.0.iter().zip(&other.sites.0) {
            if let Some(other) = other.get() {
                let own = own.get_or_init(Box::default);
                add_each(&own.responses, &other.responses);
                add_each(own.offers.as_flattened(), other.offers.as_flattened());
                add_each(own.arrivals.as_flattened(), other.arrivals.as_flattened());
            }
        }
        add_each(&self.quic_handshakes, &other.quic_handshakes);
    }

    fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        for (metrics, counters) in metrics.protocols.iter_mut().zip(&self.protocols) {
            metrics.connections = counters.opened.get();
            // A connection may be counted out between the two readings.
            let closed = counters.closed.get();
            metrics.open_connections = metrics.connections.saturating_sub(closed);
            metrics.content_bytes = counters.content_bytes.get();
            metrics.responses = counters.responses.each_ref().map(Count::get);
            metrics.durations = counters.durations.each_ref().map(Durations::metrics);
            let [predicted, own, other] = counters.pages.predicted.each_ref().map(Count::get);
            metrics.pages = PageMetrics {
                times: counters.pages.times.metrics(),
                predicted,
                predicted_took: Duration::from_micros(own),
                predicted_elsewhere: Duration::from_micros(other),
            };
        }
        metrics.quic_handshakes = self.quic_handshakes.each_ref().map(Count::get);
        metrics.predicted = self.predicted.each_ref().map(|[count, sum]| {
            let count = count.get();
            let mean = sum.get() as i64 as f64 / 1e6 / count as f64;
            (count > 0).then_some(mean)
        });
        metrics.sites = self.sites();
        let all = SiteCounters::default();
        for site in self.sites.0.iter().filter_map(OnceLock::get) {
            add_each(all.offers.as_flattened(), site.offers.as_flattened());
            add_each(all.arrivals.as_flattened(), site.arrivals.as_flattened());
        }
        metrics.offers = all.offers();
        metrics.arrivals = all.arrivals();
        metrics
    }

    /// The sites that were asked for, by their places.
    fn sites(&self) -> Vec<SiteMetrics> {
        let each = HostIndex::all().zip(&self.sites.0);
        let each = each.filter_map(|(host, counters)| {
            let counters = counters.get()?;
            let offered = |counts: &[Count; _]| counts.iter().map(Count::get).sum();
            Some(SiteMetrics {
                host,
                name: String::new(),
                responses: counters.responses.each_ref().map(Count::get),
                offers: counters.offers.each_ref().map(offered),
                reasons: counters.offers(),
                arrivals: counters.arrivals(),
            })
        });
        each.collect()
    }
}

impl SiteCounters {
    /// The counts of offers that occurred, sorted.
    fn offers(&self) -> Vec<OfferMetrics> {
        let each = OFFERS.iter().zip(&self.offers);
        let each = each.flat_map(|((_, offer), counts)| {
            let counts = Reason::KINDS.iter().zip(counts);
            counts.map(|(reason, count)| OfferMetrics {
                offer,
                reason,
                count: count.get(),
            })
        });
        let mut occurred: Vec<_> = each.filter(|it| it.count > 0).collect();
        occurred.sort_unstable();
        occurred
    }

    fn arrivals(&self) -> Vec<ArrivalMetrics> {
        let each = self.arrivals.iter().zip(ProtocolMetrics::NAMES);
        let each = each.flat_map(|(counts, protocol)| {
            [false, true].map(|offered| ArrivalMetrics {
                protocol,
                offered,
                count: counts[usize::from(offered)].get(),
            })
        });
        each.collect()
    }
}

/// The place of a status's class.
fn class(status: StatusCode) -> usize {
    usize::from(status.as_u16() / 100).clamp(1, 5) - 1
}

fn add_each(own: &[Count], other: &[Count]) {
    for (own, other) in own.iter().zip(other) {
        own.add(other.get());
    }
}

/// Adds to each sum what a figure of it has grown by since `before`, and notes the figure.
fn add_difference<const N: usize>(sums: &[Count; N], before: &mut [u64; N], now: [u64; N]) {
    for ((sum, before), now) in sums.iter().zip(before).zip(now) {
        sum.add(now.wrapping_sub(*before));
        *before = now;
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.counters.of(self.protocol).closed.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_took_stands_beside_what_the_other_transport_would_have() {
        let counters = ServerCounters::default();
        let worker = counters.worker();
        let page = |ms, difference| FinishedPage {
            time: Duration::from_millis(ms),
            path_time: Duration::from_millis(ms),
            difference,
        };
        // HTTP/3 takes half the time.
        let half = Some(0.5_f64.ln());
        worker.loaded(Protocol::Http3, page(100, half));
        worker.loaded(Protocol::Http3, page(700, None));
        worker.loaded(Protocol::Http2, page(100, half));
        worker.loaded(Protocol::Http2, page(10, Some(f64::INFINITY)));
        let pages = counters.sum().protocols.map(|it| it.pages);
        assert_eq!(pages[2].times.count(), 2);
        assert_eq!(pages[2].predicted, 1);
        let rounded = |time: Duration| (time.as_secs_f64() * 1e3).round();
        assert_eq!(rounded(pages[2].predicted_took), 100.0);
        assert_eq!(rounded(pages[2].predicted_elsewhere), 200.0);
        assert_eq!(rounded(pages[1].predicted_elsewhere), 251.0);
        assert_eq!(pages[0], PageMetrics::default());
    }

    #[test]
    fn what_the_application_takes_of_a_page_it_takes_over_either_transport() {
        let counters = ServerCounters::default();
        let page = FinishedPage {
            time: Duration::from_millis(1_000),
            path_time: Duration::from_millis(50),
            difference: Some(0.5_f64.ln()),
        };
        counters.worker().loaded(Protocol::Http3, page);
        let page = counters.sum().protocols[2].pages;
        let elsewhere = page.predicted_elsewhere.as_secs_f64();
        assert!((elsewhere - 1.05).abs() < 1e-3, "{elsewhere}");
    }

    #[test]
    fn handshakes_of_all_endpoints_are_summed_and_outlive_them() {
        let counters = ServerCounters::default();
        let worker = counters.worker();
        let mut statistics = EndpointStatistics::default();
        let [mut one, mut other] = [EndpointGauge::default(), EndpointGauge::default()];
        for (completed, retries) in [(1, 0), (4, 2)] {
            statistics.handshakes.completed = completed;
            statistics.retries = retries;
            statistics.max_held_bytes = 100;
            worker.set_quic(&mut one, &statistics);
        }
        worker.set_quic(&mut other, &statistics);
        let sum = counters.sum();
        assert_eq!(sum.quic_handshakes, [8, 0, 0, 0, 4]);
        assert_eq!(sum.quic_pool_limit_bytes, 200);
        drop(worker);
        counters.worker();
        let sum = counters.sum();
        assert_eq!(sum.quic_handshakes, [8, 0, 0, 0, 4]);
        assert_eq!(sum.quic_pool_limit_bytes, 0, "their memory is free");
    }

    #[test]
    fn sums_outlive_the_worker_that_counted_them() {
        let counters = ServerCounters::default();
        let first = counters.worker();
        let open = first.open(Protocol::Http3);
        first.responded(
            Protocol::Http3,
            StatusCode::NOT_FOUND,
            HostIndex::OTHERS,
            None,
        );
        let time = Duration::from_millis(30);
        first.timed(Protocol::Http3, StatusCode::NOT_FOUND, time, 1);
        first.arrived(Protocol::Http3, HostIndex::OTHERS, true);
        first.sent(Protocol::Http3, 7);
        let sum = counters.sum().protocols[2];
        assert_eq!((sum.connections, sum.open_connections), (1, 1));
        drop((open, first));
        for _ in 0..3 {
            let next = counters.worker();
            next.sent(Protocol::Http3, 1);
        }
        let sum = counters.sum().protocols[2];
        assert_eq!((sum.connections, sum.open_connections), (1, 0));
        assert_eq!(sum.responses, [0, 0, 0, 1, 0]);
        assert_eq!(sum.content_bytes, 10);
        assert_eq!((sum.durations[3].count(), sum.durations[3].sum), (1, time));
        let arrivals = counters.sum().arrivals;
        let came = arrivals.iter().filter(|it| it.count > 0);
        let came: Vec<_> = came.map(|it| (it.protocol, it.offered, it.count)).collect();
        assert_eq!(came, [("h3", true, 1)]);
        let [site] = &counters.sum().sites[..] else {
            panic!("one was asked for");
        };
        assert_eq!(site.arrivals, arrivals);
        let workers = counters.0.lock().unwrap();
        assert_eq!(workers.running.len(), 1, "former ones are summed up");
    }
}
