//! The counters of the workers. Each worker writes its own and no other reads them but when they are summed, so
//! that counting costs an addition to memory that is its own.

use super::{Metrics, OFFERS, OfferMetrics};
use crate::request::log::Protocol;
use altway_select::{Decision, Offer, Reason};
use http::StatusCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    offers: [[Count; Reason::KINDS.len()]; 2],
}

#[derive(Debug, Default)]
struct ProtocolCounters {
    opened: Count,
    closed: Count,
    responses: [Count; 5],
    content_bytes: Count,
}

/// A number that one thread adds to and any may read: no addition waits for another thread.
#[derive(Debug, Default)]
struct Count(AtomicU64);

/// A connection that is there until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    counters: Arc<WorkerCounters>,
    protocol: Protocol,
}

impl Count {
    fn add(&self, number: u64) {
        let sum = self.get().wrapping_add(number);
        self.0.store(sum, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl ServerCounters {
    /// ServerCounters for a worker that begins.
    pub(crate) fn worker(&self) -> Arc<WorkerCounters> {
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

    pub(crate) fn sum(&self) -> Metrics {
        let workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = WorkerCounters::default();
        sum.add_all(&workers.former);
        workers
            .running
            .iter()
            .for_each(|worker| sum.add_all(worker));
        drop(workers);
        sum.metrics()
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
        decision: Option<&Decision>,
    ) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.of(protocol).responses[class].add(1);
        if let Some(decision) = decision {
            let offer = usize::from(decision.offer == Offer::Http3);
            self.offers[offer][decision.reason.kind_index()].add(1);
        }
    }

    pub(crate) fn sent(&self, protocol: Protocol, bytes: u64) {
        self.of(protocol).content_bytes.add(bytes);
    }

    fn of(&self, protocol: Protocol) -> &ProtocolCounters {
        &self.protocols[protocol as usize]
    }

    fn add_all(&self, other: &Self) {
        for (own, other) in self.protocols.iter().zip(&other.protocols) {
            own.opened.add(other.opened.get());
            own.closed.add(other.closed.get());
            own.content_bytes.add(other.content_bytes.get());
            for (own, other) in own.responses.iter().zip(&other.responses) {
                own.add(other.get());
            }
        }
        let pairs = self.offers.iter().zip(&other.offers);
        for (own, other) in pairs.flat_map(|(own, other)| own.iter().zip(other)) {
            own.add(other.get());
        }
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
        }
        for ((_, offer), counts) in OFFERS.iter().zip(&self.offers) {
            let counts = Reason::KINDS.iter().zip(counts);
            let counts = counts.map(|(reason, count)| OfferMetrics {
                offer,
                reason,
                count: count.get(),
            });
            metrics.offers.extend(counts.filter(|it| it.count > 0));
        }
        metrics.offers.sort_unstable();
        metrics
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
    fn sums_outlive_the_worker_that_counted_them() {
        let counters = ServerCounters::default();
        let first = counters.worker();
        let open = first.open(Protocol::Http3);
        first.responded(Protocol::Http3, StatusCode::NOT_FOUND, None);
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
        let workers = counters.0.lock().unwrap();
        assert_eq!(workers.running.len(), 1, "former ones are summed up");
    }
}
