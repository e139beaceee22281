//! A worker: a thread with its own event loop and sockets; connections never leave it.

use crate::clients::Clients;
use crate::files::FileCache;
use crate::heap::HeapUse;
use crate::listen::Sockets;
use crate::metrics::WorkerCounters;
use crate::request::log::FLUSH_INTERVAL;
use crate::request::service::Service;
use crate::setup::{Setup, WorkerMemory};
use crate::stop::StopSignal;
use crate::{Error, h3, random, tcp};
use futures_util::future::join_all;
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Interval at which files are looked for that nobody asks for any more, and at memory that nobody uses.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which a worker without an access log checks whether a report of incidents is due.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// A worker on its own thread.
pub(crate) struct Worker<'a> {
    runtime: LocalRuntime,
    /// Acceptors, one for each address.
    tcp: Vec<tcp::Acceptor<'a>>,
    /// Drivers of HTTP/3, one for each address with it.
    h3: Vec<h3::Driver<'a>>,
    files: Rc<RefCell<FileCache>>,
    service: Arc<Service>,
    /// Interval at which the worker shows that its event loop turns.
    heartbeat: Option<Duration>,
    /// Collects the heap of the calling thread.
    collect_heap: Option<fn()>,
    clients: Clients,
    counters: Arc<WorkerCounters>,
}

impl<'a> Worker<'a> {
    /// Prepares a worker on the thread that will run it. It uses duplicates of the sockets.
    pub(crate) fn start(
        setup: &Arc<Setup>,
        sockets: &'a mut Sockets,
        worker_slots: &'a mut [h3::WorkerSlot],
    ) -> Result<Self, Error> {
        random::seed()?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default());
        let runtime = runtime.map_err(Error::Worker)?;
        // Sockets register with the event loop that is current.
        let guard = runtime.enter();
        let memory = WorkerMemory::new(setup);
        let tcp = tcp::acceptors(setup, &mut sockets.tcp, &memory).map_err(Error::Worker)?;
        let h3 = h3::drivers(setup, &sockets.udp, &memory, worker_slots)?;
        drop(guard);
        Ok(Self {
            runtime,
            tcp,
            h3,
            files: memory.files,
            service: Arc::clone(&setup.service),
            heartbeat: setup.heartbeat,
            collect_heap: setup.collect_heap,
            clients: memory.clients,
            counters: Arc::clone(&memory.responder.counters),
        })
    }

    /// Serves until the stop, and for the grace after it.
    pub(crate) fn run(self, stop: StopSignal) -> Result<(), Error> {
        let Self {
            runtime,
            tcp,
            h3,
            files,
            service,
            heartbeat,
            collect_heap,
            clients,
            counters,
        } = self;
        runtime.block_on(async move {
            let sweeping = tokio::task::spawn_local(sweep(files, Arc::clone(&service)));
            let looking = collect_heap.map(|collect| {
                let looking = collect_when_quiet(collect, clients, Arc::clone(&counters));
                tokio::task::spawn_local(looking)
            });
            let beating = heartbeat.map(|every| tokio::task::spawn_local(beat(every, counters)));
            let h3 = h3.into_iter().map(|driver| driver.run(stop.clone()));
            let tcp = tcp.into_iter().map(|acceptor| acceptor.run(stop.clone()));
            let serving = async { tokio::join!(join_all(tcp), join_all(h3)) };
            let (_, h3) = logging(&service, serving).await;
            sweeping.abort();
            for task in [beating, looking].into_iter().flatten() {
                task.abort();
            }
            let mut ends = h3.into_iter();
            ends.try_for_each(|end| end.map_err(Error::Worker))
        })
    }
}

/// Closes files that nobody asks for any more, and those of a folder that another has taken the place of.
async fn sweep(files: Rc<RefCell<FileCache>>, service: Arc<Service>) {
    let mut interval = ticks(SWEEP_INTERVAL);
    loop {
        interval.tick().await;
        let now = Instant::now();
        let content = Arc::clone(&service.current.get().content);
        content.files().for_each(|files| files.look_for_change(now));
        files.borrow_mut().sweep(now);
    }
}

/// Collects the heap once the worker holds much less than it did.
async fn collect_when_quiet(collect: fn(), clients: Clients, counters: Arc<WorkerCounters>) {
    let mut heap = HeapUse::default();
    let mut interval = ticks(SWEEP_INTERVAL);
    loop {
        interval.tick().await;
        let held = clients.bytes().saturating_add(counters.quic_pool_bytes());
        if heap.is_to_be_collected(held) {
            collect();
        }
    }
}

/// Shows that the worker's event loop turns.
async fn beat(every: Duration, counters: Arc<WorkerCounters>) {
    let mut interval = ticks(every);
    loop {
        interval.tick().await;
        counters.beat();
    }
}

/// Lets the log's lines out while `serving` goes on, and at its end; reports the minute's incidents.
async fn logging<T>(service: &Service, serving: impl Future<Output = T>) -> T {
    let mut serving = pin!(serving);
    let log = service.log.as_ref();
    let mut flush = ticks(log.map_or(REPORT_INTERVAL, |_| FLUSH_INTERVAL));
    let served = loop {
        tokio::select! {
            biased;
            served = serving.as_mut() => break served,
            _ = flush.tick() => {
                service.incidents.report_when_due(Instant::now());
                log.inspect(|log| log.flush());
            }
        }
    };
    log.inspect(|log| log.flush());
    served
}

/// Ticks that come this long after each other at least, a millisecond where it is less, also where one was late.
pub(crate) fn ticks(every: Duration) -> Interval {
    let mut interval = interval(every.max(Duration::from_millis(1)));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
