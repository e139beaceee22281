//! HTTP/3: one loop per worker and address that carries datagrams between its UDP socket and the engine.
//!
//! [`Driver::run`] tells the whole story: take in what came, answer it, send what there is to say,
//! sleep until the engine's next time-out or the next datagram. The engine (`altway-http3`) knows no
//! sockets; socket and timer (`altway-socket`) know no HTTP.
//!
//! A client that moves to another address stays with its worker: connection IDs name it, and
//! [`steering`] brings datagrams to it. They name its process as well: one that another has taken
//! over from no longer reads its sockets, and gets its datagrams by [`relay`]. One that had more workers leaves sockets
//! ([`surplus`]).

mod admission;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod idle_close;
mod predecessors;
mod relay;
mod responses;
mod steering;
mod surplus;

pub(crate) use predecessors::ProcessIds;
pub(crate) use relay::{PredecessorRelay, carry, datagram_channel};
pub(crate) use steering::{Inboxes, Routes, WorkerSlot, steer, worker_slots};

use crate::Error;
use crate::clients::Clients;
use crate::listen::WorkerUdp;
use crate::metrics::{EndpointGauge, WorkerCounters};
use crate::options::{Congestion, Options};
use crate::random::random;
use crate::request::turn_end::Turn;
use crate::setup::{Setup, WorkerMemory};
use crate::stop::StopSignal;
use crate::takeover::Secrets;
use crate::worker::ticks;
use altway_http3::{self as http3, Code, ConnectionHandle, Datagram};
use altway_socket::{SendOutcome, Settings, Timer, WatchedUdp};
use futures_util::future::try_join_all;
use responses::{Endpoint, Responses};
use std::future::{pending, poll_fn};
use std::io;
use std::mem;
use std::net::UdpSocket;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use steering::{DatagramRouter, Forwarded};
use surplus::SurplusSocket;
use tokio::task::yield_now;
use tokio::time::{Interval, sleep, timeout};

/// A socket of many peers, so that no error of it is final.
type Udp = altway_socket::Udp<WatchedUdp>;

/// Bytes that a connection may have sent and not had acknowledged: 4 MiB, where Linux's TCP stops
/// growing its own buffer by default (`net.ipv4.tcp_wmem`). Carries 1 Gbit/s over 33 ms, and bounds the
/// memory that a client which doesn't acknowledge can hold.
const SEND_WINDOW: u64 = 4 << 20;

/// Bytes of a datagram's payload that Linux's loopback device carries: its MTU of 65,536 without the
/// headers of IPv6 and UDP.
const LOOPBACK_MTU: u16 = 65_488;

/// A client that has acknowledged the end of a response may still be reading it, and some lose what
/// they have not read when the connection closes. At a stop, those that were being answered have so
/// long to go by themselves.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// The engine's settings.
pub(crate) fn config(
    tls: Arc<rustls::ServerConfig>,
    options: &Options,
    congestion: Congestion,
    secrets: &Secrets,
) -> http3::ServerConfig {
    let limits = options.limits.with_finite_times();
    let mut config = http3::ServerConfig::new(tls);
    (config.limits.stall, config.limits.stall_bytes) = limits.least_progress();
    config.limits.head = limits.header_timeout;
    config.limits.max_concurrent_requests = limits.max_concurrent_requests;
    let quic = &mut config.quic;
    quic.qlog = options.qlog.clone();
    quic.transport.congestion = congestion;
    quic.transport.initial_window = options.initial_window.clamp(2, 1_000);
    quic.transport.idle_timeout = limits.idle_timeout;
    quic.transport.send_window = SEND_WINDOW;
    quic.transport.loopback_mtu = Some(LOOPBACK_MTU);
    quic.limits.max_connections = limits.max_connections;
    quic.limits.max_held_bytes = limits.max_quic_held_bytes;
    quic.limits.retry = limits.retry;
    quic.limits.handshake_timeout = Some(limits.handshake_timeout);
    // A stateless reset is the server's word, whichever worker says it.
    quic.reset_key = Some(http3::ResetKey(secrets.reset_key));
    // The kernel may bring a client's answer to another worker than the one that gave the token.
    let tokens = http3::Tokens::new(secrets.token_key, Instant::now(), SystemTime::now());
    quic.tokens = Some(tokens);
    config
}

/// The HTTP/3 side of a worker at one address.
pub(crate) struct Driver<'a> {
    endpoint: Endpoint,
    udp: Udp,
    surplus: Vec<SurplusSocket>,
    timer: Timer,
    responses: Responses,
    counters: Arc<WorkerCounters>,
    /// The figures of the endpoint as the counters know them.
    figures: EndpointGauge,
    clients: Clients,
    /// The place of its address among the server's.
    listener: usize,
    /// Connections that have been told to go, and close once they have nothing in progress.
    leaving: Vec<ConnectionHandle>,
    setup: Arc<Setup>,
    /// `None`: nobody else has connections.
    router: Option<&'a mut DatagramRouter>,
    /// True if this process reads new datagrams from the socket; else another process does.
    reading: bool,
}

/// A driver for each address that has a socket.
///
/// # Errors
/// A socket, a timer, or an engine can't be set up.
pub(crate) fn drivers<'a>(
    setup: &Arc<Setup>,
    sockets: &[WorkerUdp],
    memory: &WorkerMemory,
    worker_slots: &'a mut [WorkerSlot],
) -> Result<Vec<Driver<'a>>, Error> {
    let mut drivers = Vec::new();
    for (listener, (sockets, place)) in sockets.iter().zip(worker_slots).enumerate() {
        let Some((config, socket)) = setup.quic.clone().zip(sockets.own.as_ref()) else {
            continue;
        };
        let surplus = sockets.surplus.iter().map(|socket| {
            let udp = open_udp(socket.try_clone()?)?;
            Ok(SurplusSocket::new(udp, place.surplus.clone()))
        });
        let surplus: io::Result<_> = surplus.collect();
        let surplus = surplus.map_err(Error::Worker)?;
        let socket = socket.try_clone().map_err(Error::Worker)?;
        let driver = Driver::new(setup, config, socket, memory, place, listener)?;
        drivers.push(Driver { surplus, ..driver });
    }
    Ok(drivers)
}

impl<'a> Driver<'a> {
    /// # Errors
    /// The socket, a timer, or the engine can't be set up.
    fn new(
        setup: &Arc<Setup>,
        mut config: http3::ServerConfig,
        socket: UdpSocket,
        memory: &WorkerMemory,
        place: &'a mut WorkerSlot,
        listener: usize,
    ) -> Result<Self, Error> {
        let udp = open_udp(socket).map_err(Error::Worker)?;
        let segments = &mut config.quic.transport.max_segments;
        *segments = udp.max_segments().min(*segments);
        config.quic.connection_ids = Some(place.ids);
        let endpoint = Endpoint::server(&config, random()?)?;
        Ok(Self {
            endpoint,
            udp,
            surplus: Vec::new(),
            timer: Timer::new().map_err(Error::Worker)?,
            responses: Responses::new(Arc::clone(setup), memory.clone(), listener),
            counters: Arc::clone(&memory.responder.counters),
            figures: EndpointGauge::default(),
            clients: memory.clients.clone(),
            listener,
            leaving: Vec::new(),
            setup: Arc::clone(setup),
            router: place.router.as_mut(),
            reading: true,
        })
    }

    /// Serves until the stop, and then until all responses are delivered or the grace is over.
    pub(crate) async fn run(mut self, stop: StopSignal) -> io::Result<()> {
        let surplus = mem::take(&mut self.surplus).into_iter();
        let surplus: Vec<_> = surplus.map(|it| it.run(stop.clone())).collect();
        let serving = self.serve(stop);
        if surplus.is_empty() {
            return serving.await;
        }
        tokio::select! {
            end = serving => end,
            failed = try_join_all(surplus) => failed.map(drop),
        }
    }

    async fn serve(mut self, mut stop: StopSignal) -> io::Result<()> {
        // Often enough to find responses that don't move soon after the limit.
        let limit = self.setup.limits.least_progress().0;
        let mut sweep = ticks(limit / 4);
        let mut accept_permit = stop.accept_permit();
        self.take_in(accept_permit.is_open());
        loop {
            let progress = self.turn()?;
            tokio::select! {
                () = accept_permit.changed() => {
                    if stop.is_requested() {
                        break;
                    }
                    self.take_in(accept_permit.is_open());
                }
                () = self.next(progress, &mut sweep) => {}
            }
        }
        let (grace, linger) = (self.setup.grace, self.linger());
        self.begin_end();
        // What is not finished when the grace is over, or when no datagrams come any more, never will
        // be.
        tokio::select! {
            finished = timeout(grace, self.finish(linger, &mut sweep)) => {
                finished.unwrap_or(Ok(()))?;
            }
            () = stop.sockets_lost() => {}
        }
        self.close();
        Ok(())
    }

    /// Serves until what is on its way is delivered, and then until the clients have gone, at most
    /// for `linger`.
    async fn finish(&mut self, linger: Duration, sweep: &mut Interval) -> io::Result<()> {
        while !self.is_idle() {
            let progress = self.turn()?;
            self.next(progress, sweep).await;
        }
        let mut over = pin!(sleep(linger));
        while !linger.is_zero() && self.endpoint.states().any(|(_, it)| it.is_open()) {
            let progress = self.turn()?;
            tokio::select! {
                () = over.as_mut() => break,
                () = self.next(progress, sweep) => {}
            }
        }
        Ok(())
    }

    /// Returns true if nothing is left to answer or to deliver.
    fn is_idle(&self) -> bool {
        self.responses.is_empty(&self.endpoint) && self.endpoint.is_idle()
    }

    /// Returns the time that clients have to close their connections themselves.
    fn linger(&self) -> Duration {
        match self.is_idle() {
            true => Duration::ZERO,
            false => STOP_GRACE,
        }
    }

    /// Reads the socket, or leaves it and whoever comes newly to another process.
    fn take_in(&mut self, reading: bool) {
        self.reading = reading;
        self.endpoint.ignore_new_connections(!reading);
    }

    fn begin_end(&mut self) {
        self.endpoint.shutdown();
        if let Some(router) = &mut self.router
            && !self.reading
        {
            router.forget_predecessors();
        }
    }

    /// Does everything that can be done without waiting.
    fn turn(&mut self) -> io::Result<SendOutcome> {
        let now = Instant::now();
        let _turn = Turn::begin();
        self.receive(now)?;
        if self.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
        }
        self.responses.answer(now, &mut self.endpoint);
        let mut progress = self.send(now)?;
        if self.close_leaving() && progress != SendOutcome::Blocked {
            progress = SendOutcome::More;
        }
        let dues = [self.endpoint.poll_timeout(), self.responses.poll_timeout()];
        self.timer.arm(dues.into_iter().flatten().min(), now)?;
        let statistics = self.endpoint.statistics();
        self.counters.set_quic(&mut self.figures, &statistics);
        Ok(progress)
    }

    /// Tells connections to go that have to make room for others.
    fn evict(&mut self, connections: Vec<ConnectionHandle>) {
        for handle in connections {
            if let Some((http3, quic, connection)) = self.endpoint.connection(handle)
                && connection.is_evicted()
            {
                http3.shutdown(quic);
                self.leaving.push(handle);
            }
        }
    }

    /// Closes those that were told to go, and have nothing in progress; whether there were any.
    fn close_leaving(&mut self) -> bool {
        let before = self.leaving.len();
        let Self {
            leaving, endpoint, ..
        } = self;
        leaving.retain(|handle| match endpoint.connection(*handle) {
            Some((http3, quic, connection)) if connection.is_evicted() => {
                let at_rest = http3.is_idle();
                if at_rest {
                    http3.close(quic, Code::H3_NO_ERROR, b"");
                }
                !at_rest
            }
            // It has gone, and its handle may be another one's.
            _ => false,
        });
        leaving.len() < before
    }

    /// Takes in what came, and passes on what is for others.
    fn receive(&mut self, now: Instant) -> io::Result<()> {
        let Self {
            udp,
            endpoint,
            clients,
            setup,
            router,
            ..
        } = self;
        let mut take = |datagram: Datagram<'_>| take(endpoint, clients, setup, now, datagram);
        let Some(router) = router else {
            return udp.receive(take);
        };
        if self.reading {
            udp.receive(|datagram| {
                if !router.pass_on(&datagram) {
                    take(datagram);
                }
            })?;
        }
        for forwarded in router.arrived() {
            take(forwarded.datagram());
        }
        Ok(())
    }

    /// Waits for the next reason to take a turn.
    async fn next(&mut self, progress: SendOutcome, sweep: &mut Interval) {
        if progress == SendOutcome::More {
            // The worker's TCP connections have their turn.
            return yield_now().await;
        }
        tokio::select! {
            // Errors of either show at the next call.
            _ = self.udp.socket().readable(), if self.reading => {}
            _ = self.udp.socket().writable(), if progress == SendOutcome::Blocked => {}
            () = self.timer.expired() => {}
            forwarded = next_of(&mut self.router) => {
                let Self { endpoint, clients, setup, .. } = self;
                take(endpoint, clients, setup, Instant::now(), forwarded.datagram());
            }
            () = poll_fn(|cx| self.responses.poll(cx)) => {}
            evicted = poll_fn(|cx| self.clients.poll_evicted(self.listener, cx)) => self.evict(evicted),
            _ = sweep.tick() => self.responses.cut_off_stalled(&mut self.endpoint),
        }
    }

    /// Says goodbye to the clients that are still there; what doesn't leave at once never will.
    fn close(&mut self) {
        for handle in responses::open(&self.endpoint) {
            // Else it has ended by itself.
            if let Some((http3, quic, _)) = self.endpoint.connection(handle) {
                http3.close(quic, Code::H3_NO_ERROR, b"");
            }
        }
        while matches!(self.send(Instant::now()), Ok(SendOutcome::More)) {}
    }

    /// Sends what the engine has, as far as the socket takes it.
    fn send(&mut self, now: Instant) -> io::Result<SendOutcome> {
        let Self { udp, endpoint, .. } = self;
        udp.send(|batch| endpoint.poll_transmit(now, batch))
    }
}

fn open_udp(socket: UdpSocket) -> io::Result<Udp> {
    Udp::new(WatchedUdp::new(socket)?, Settings::default())
}

/// Takes a datagram in.
fn take(
    endpoint: &mut Endpoint,
    clients: &Clients,
    setup: &Setup,
    now: Instant,
    datagram: Datagram<'_>,
) {
    endpoint.handle_datagram_by(now, datagram, |remote, validated| {
        admission::admit(clients, setup.limits.retry, remote, validated)
    });
}

/// The next datagram of this worker's that comes to somebody else; never where there is nobody.
async fn next_of(router: &mut Option<&mut DatagramRouter>) -> Forwarded {
    match router {
        Some(router) => router.next().await,
        None => pending().await,
    }
}
