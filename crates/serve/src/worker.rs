//! One worker: a thread with its own event loop and sockets; connections never leave it.

use crate::access::{self, AccessLog};
use crate::files::FileCache;
use crate::held::HeldBytes;
use crate::listen::Sockets;
use crate::options::Limits;
use crate::server::Restarts;
use crate::service::Service;
use crate::stop::StopSignal;
use crate::{Error, h3, sys, tcp};
use std::cell::RefCell;
use std::net::UdpSocket;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::time::{MissedTickBehavior, interval};

/// Bytes of files that a worker keeps, or has read for more than one response.
const MAX_CACHED_BYTES: usize = 48 << 20;

/// How often files are looked at that nobody asks for any more.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// What all workers share.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) service: Arc<Service>,
    /// `None`: clear text.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    /// `None`: no HTTP/3.
    pub(crate) quic: Option<altway_http3::ServerConfig>,
    pub(crate) limits: Limits,
    pub(crate) grace: Duration,
    pub(crate) restarts: Restarts,
}

/// The memory that all connections of a worker share.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) files: Rc<RefCell<FileCache>>,
    pub(crate) held: HeldBytes,
}

/// A worker on its own thread.
pub(crate) struct Worker<'a> {
    runtime: LocalRuntime,
    tcp: tcp::Acceptor<'a>,
    h3: Option<h3::Driver<'a>>,
    files: Rc<RefCell<FileCache>>,
    log: Option<AccessLog>,
}

impl<'a> Worker<'a> {
    /// Prepares a worker on the thread that will run it. It uses duplicates of the sockets.
    pub(crate) fn start(
        setup: &Arc<Setup>,
        sockets: &'a mut Sockets,
        place: &'a mut h3::Place,
    ) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default());
        let runtime = runtime.map_err(Error::Worker)?;
        // Sockets register with the event loop that is current.
        let guard = runtime.enter();
        let files = FileCache::new(MAX_CACHED_BYTES, sys::open_files_of_a_cache());
        let memory = Memory {
            files: Rc::new(RefCell::new(files)),
            held: HeldBytes::new(setup.limits.max_held_bytes),
        };
        let tcp = tcp::Acceptor::new(setup, &mut sockets.tcp, &memory);
        let tcp = tcp.map_err(Error::Worker)?;
        let udp = sockets.udp.as_ref().map(UdpSocket::try_clone);
        let udp = udp.transpose().map_err(Error::Worker)?;
        let h3 = setup.quic.clone().zip(udp);
        let h3 = h3.map(|(config, udp)| h3::Driver::new(setup, config, udp, &memory, place));
        let h3 = h3.transpose()?;
        drop(guard);
        let log = setup.service.log.clone();
        Ok(Self {
            runtime,
            tcp,
            h3,
            files: memory.files,
            log,
        })
    }

    /// Serves until the stop, and for the grace after it.
    pub(crate) fn run(self, stop: StopSignal) -> Result<(), Error> {
        let Self {
            runtime,
            tcp,
            h3,
            files,
            log,
        } = self;
        runtime.block_on(async move {
            let sweeping = tokio::task::spawn_local(sweep(files));
            let h3_stop = stop.clone();
            let h3 = async move {
                match h3 {
                    Some(driver) => driver.run(h3_stop).await,
                    None => Ok(()),
                }
            };
            let serving = async { tokio::join!(tcp.run(stop), h3) };
            let ((), h3) = match log {
                Some(log) => flushing(&log, serving).await,
                None => serving.await,
            };
            sweeping.abort();
            h3.map_err(Error::Worker)
        })
    }
}

/// Closes files that nobody asks for any more.
async fn sweep(files: Rc<RefCell<FileCache>>) {
    let mut interval = interval(SWEEP_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        files.borrow_mut().sweep(Instant::now());
    }
}

/// Lets the log's lines out while `serving` goes on, and at its end.
async fn flushing<T>(log: &AccessLog, serving: impl Future<Output = T>) -> T {
    let mut serving = pin!(serving);
    let mut flush = interval(access::FLUSH_INTERVAL);
    flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let served = loop {
        tokio::select! {
            biased;
            served = serving.as_mut() => break served,
            _ = flush.tick() => log.flush(),
        }
    };
    log.flush();
    served
}
