//! HTTP/2 on one TCP connection: carries bytes between its socket and the engine.
//!
//! [`Driver::turn`] tells the whole story: one receive, every answer that is ready, one send. The
//! engine (`altway-http2`) knows no sockets; [`transport`] knows no HTTP; [`responses`] knows what to
//! say. All connections of a worker share their [`WorkerBuffers`], so an idle one holds none; what else it has no need of
//! while it idles it gives back ([`Driver::rest_if_due`]).

mod buffers;
mod responses;
mod transport;
mod unsent_budget;

use super::measured::TcpPathSampler;
use super::socket::Departure;
use super::tunnel::KEEPALIVE;
use super::turns::Turns;
use crate::clients::AdmittedConnection;
use crate::held::{HeldBytes, MemoryReservation, UNFINISHED_HEAD};
use crate::request::check::MAX_HEAD_BYTES;
use crate::request::requests::ConnectionFacts;
use crate::request::turn_end::Turn;
use crate::setup::{ListenerConfig, Setup};
use crate::stop::StopSignal;
use altway_http2::{self as http2, Code, Connection, Output};
use altway_socket::KeepaliveWatch;
pub(super) use buffers::WorkerBuffers;
use responses::Responses;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::{sleep_until, timeout};
use transport::Transport;
use unsent_budget::UnsentBudget;

/// Bytes that one send takes: enough for the kernel to work in large pieces, few enough for the processor's cache. Also
/// the bytes that a connection may hold unsent before it reads no more.
const SEND_BYTES: usize = 256 << 10;

/// Bytes that one send takes when the worker's connections hold as much as they may.
const SCARCE_SEND_BYTES: usize = 16 << 10;

/// Bytes that are read at once then.
const SCARCE_READ_BYTES: usize = 16 << 10;

/// Bytes that a connection may send before the others have their turn.
const TURN_BYTES: usize = 1 << 20;

/// DATA frames of so many bytes fill a TLS record of 16 KiB with their header.
const DATA_PAYLOAD_OVER_TLS: usize = (16 << 10) - 9;

/// Time that a connection which has sent everything waits for its peer to close: closing at once would take back what
/// the peer has not read if it has sent more.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time without a request and without a byte after which a connection idles: what loads a page asks again sooner, and
/// visitors who go from page to page come back later. Then it gives back the memory that further requests would need, and
/// tells the client what was put off for the sake of the page.
const REST_AFTER: Duration = Duration::from_millis(300);

/// The engine's settings.
pub(super) fn config(setup: &Setup, listener: &ListenerConfig) -> Arc<http2::Config> {
    let limits = &setup.limits;
    let mut config = http2::Config {
        max_concurrent_streams: limits.max_concurrent_requests,
        max_header_list_size: 2 * MAX_HEAD_BYTES as u32,
        scheme: Some(listener.scheme),
        // For WebSockets (RFC 8441): always, for what is said at a connection's beginning has to hold for services that
        // a reload adds.
        extended_connect: true,
        ..http2::Config::default()
    };
    if listener.tls.is_some() {
        config.max_data_payload = DATA_PAYLOAD_OVER_TLS;
    }
    config.timeouts.preface = limits.handshake_timeout;
    config.timeouts.frame = limits.header_timeout;
    let (time, bytes) = limits.least_progress();
    config.timeouts.stall = time;
    config.timeouts.stall_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    config.timeouts.idle = limits.idle_timeout;
    Arc::new(config)
}

/// The parts of which a connection is made.
pub(super) struct Parts {
    pub(super) buffers: Rc<RefCell<WorkerBuffers>>,
    pub(super) config: Arc<http2::Config>,
    pub(super) connection: ConnectionFacts,
    pub(super) probe: Rc<TcpPathSampler>,
    pub(super) stream: Rc<TcpStream>,
    /// `None`: clear text.
    pub(super) tls: Option<rustls::ServerConnection>,
    /// The bytes that were read to find out that the connection is HTTP/2.
    pub(super) head: Vec<u8>,
}

/// One connection.
pub(super) struct Driver {
    buffers: Rc<RefCell<WorkerBuffers>>,
    transport: Transport,
    engine: Connection,
    responses: Responses,
    unsent_budget: UnsentBudget,
    /// Bytes that are encoded and not sent. Empty between turns unless the socket is full.
    output: Output,
    /// Bytes that were read and not handed to the engine yet, because the socket was full.
    backlog: Vec<u8>,
    /// Whether there is input that no event of the socket will tell of.
    more: bool,
    /// Time until which the remaining output of a connection that is over may still leave.
    giving_up: Option<Instant>,
    /// The peer has closed its half.
    ended: bool,
    /// The beginning of the idle time in which memory was given back.
    rested: Option<Instant>,
    /// Tells that the client has left while nothing is read of it; `None` while it is read.
    departure: Option<Pin<Box<dyn Future<Output = Departure>>>>,
    /// Looks after the client of a tunnel; `None`: it has asked for none.
    watch: Option<Box<KeepaliveWatch>>,
    admitted: Rc<AdmittedConnection>,
    /// Memory that the connections of its client hold.
    share: HeldBytes,
    /// Memory that it holds and that is freed, by sending or reading, without further input of the peer.
    held: MemoryReservation,
    /// True if `held` is not empty.
    holds: bool,
}

/// The state in which a turn leaves the connection.
enum TurnOutcome {
    /// Nothing to do until something happens.
    Waiting,
    /// Nothing to do until the socket takes more, whatever has been read.
    Blocked,
    /// More to do, after the others.
    More,
    /// The connection is over.
    Over,
}

/// Reasons for which a turn is taken.
#[derive(Default)]
struct Wake {
    readable: bool,
    writable: bool,
    due: bool,
    stop: bool,
    /// Exchanges can go on.
    ready: bool,
    /// The client of a tunnel is gone.
    vanished: bool,
}

impl Wake {
    fn is_some(&self) -> bool {
        self.readable || self.writable || self.due || self.stop || self.ready || self.vanished
    }
}

fn ready(poll: Poll<io::Result<()>>) -> io::Result<bool> {
    match poll {
        Poll::Ready(ready) => ready.map(|()| true),
        Poll::Pending => Ok(false),
    }
}

impl Driver {
    pub(super) fn new(parts: Parts) -> Self {
        let now = Instant::now();
        let admitted = Rc::clone(&parts.connection.admitted);
        let share = admitted.held();
        let transport = Transport::new(parts.stream, parts.tls, &parts.probe);
        let responses = Responses::new(&parts.buffers.borrow(), parts.connection, parts.probe);
        Self {
            buffers: parts.buffers,
            transport,
            engine: Connection::server(parts.config, now),
            responses,
            unsent_budget: UnsentBudget::default(),
            output: Output::new(),
            backlog: parts.head,
            more: false,
            giving_up: None,
            ended: false,
            rested: None,
            departure: None,
            watch: None,
            admitted,
            held: share.holder(),
            share,
            holds: false,
        }
    }

    /// Serves the connection to its end; returns in a turn in which it may be forgotten. Borrowed: a future that had
    /// it by value would have room for it twice, for as long as the connection idles.
    pub(super) async fn run(&mut self, stop: StopSignal, turns: &Turns) -> io::Result<()> {
        let end = self.serve(stop).await;
        turns.step().await;
        end
    }

    async fn serve(&mut self, mut stop: StopSignal) -> io::Result<()> {
        let signal = stop.clone();
        let mut stop = pin!(stop.requested());
        let mut stopping = false;
        let mut timer = pin!(sleep_until(self.deadline()));
        // Stop and timer are registered with the task once and then only looked at: a connection
        // waits for bytes many times before one of them rings.
        let mut registered = false;
        let mut wake = Wake::default();
        self.set_notsent_lowat();
        loop {
            match self.turn(&wake)? {
                TurnOutcome::Over => break,
                TurnOutcome::More => {
                    yield_now().await;
                    wake = Wake {
                        readable: true,
                        ..Wake::default()
                    };
                    continue;
                }
                TurnOutcome::Waiting | TurnOutcome::Blocked => {}
            }
            let deadline = self.deadline();
            // Most turns only put the deadline off: then the timer may ring early, once.
            if deadline < timer.deadline() || timer.is_elapsed() {
                timer.as_mut().reset(deadline);
                registered = false;
            }
            wake = poll_fn(|cx| {
                let mut wake = self.poll_socket(cx)?;
                wake.vanished = self.poll_vanished(cx).is_ready();
                wake.ready = self.responses.poll(cx) && !self.is_output_full();
                let is_to_end = || signal.is_requested() || self.admitted.is_evicted();
                if !registered || timer.is_elapsed() || (!stopping && is_to_end()) {
                    registered = true;
                    wake.due = timer.as_mut().poll(cx).is_ready();
                    let evicted = self.admitted.poll_evicted(cx).is_ready();
                    wake.stop = !stopping && (evicted || stop.as_mut().poll(cx).is_ready());
                    stopping |= wake.stop;
                }
                if wake.is_some() {
                    Poll::Ready(io::Result::Ok(wake))
                } else {
                    Poll::Pending
                }
            })
            .await?;
            if wake.vanished {
                self.transport.abort_on_close();
                return Ok(());
            }
        }
        if !self.output.is_empty() || self.transport.wants_write() {
            // The kernel would keep for minutes what the client doesn't read.
            self.transport.abort_on_close();
            return Ok(());
        }
        // Apart: it has a timer and a buffer, for which the connection would have room all its life.
        let closing = Box::pin(timeout(CLOSE_TIMEOUT, self.transport.close()));
        closing.await.unwrap_or(Ok(()))
    }

    /// The engine's next time-out, or the time to rest; after its end, the time to give up.
    fn deadline(&mut self) -> tokio::time::Instant {
        let rest = self.rest_due();
        let due = self.engine.poll_timeout().unwrap_or_else(|| {
            *self
                .giving_up
                .get_or_insert_with(|| Instant::now() + CLOSE_TIMEOUT)
        });
        rest.map_or(due, |rest| rest.min(due)).into()
    }

    /// Time at which to give memory back; `None` while the connection doesn't idle, and once it has.
    fn rest_due(&self) -> Option<Instant> {
        let since = self.engine.idle_since()?;
        (self.rested != Some(since)).then(|| since + REST_AFTER)
    }

    /// Gives memory back if it is time.
    fn rest_if_due(&mut self, now: Instant) {
        if self.rest_due().is_some_and(|due| due <= now) {
            self.rested = self.engine.idle_since();
            self.engine.turn(now, &mut self.output).rest();
            self.responses.rest();
            self.backlog.shrink_to_fit();
        }
    }

    fn poll_vanished(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.watch {
            Some(watch) => self.transport.poll_vanished(watch, cx),
            None => Poll::Pending,
        }
    }

    /// Polls the socket for reading and writing, as far as there is something to do for either.
    fn poll_socket(&mut self, cx: &mut Context<'_>) -> io::Result<Wake> {
        let mut wake = Wake::default();
        let blocked = !self.output.is_empty() || self.transport.wants_write();
        if blocked {
            wake.writable = ready(self.transport.poll_writable(cx))?;
        }
        // A path that is slower than the server keeps the socket full for as long as a response takes: what
        // comes meanwhile is read as often as the socket takes something.
        let full = self.is_output_full() && !wake.writable;
        let crowded = blocked && self.unsent() >= SEND_BYTES;
        // What it holds tells when it has left. What waits for a window must not stop the reading: the
        // window is opened by what is read.
        let scarce = self.holds && self.share.is_full();
        if !self.ended && !full && !crowded && !scarce {
            wake.readable = ready(self.transport.poll_readable(cx))?;
        }
        if self.ended || !scarce {
            self.departure = None;
        } else if let Poll::Ready(departure) = self.poll_departure(cx) {
            match departure {
                Departure::Reset => return Err(io::ErrorKind::ConnectionReset.into()),
                // What it has asked for ends by that, whatever is unread.
                Departure::HalfClosed => (self.ended, wake.readable) = (true, true),
            }
        }
        Ok(wake)
    }

    fn poll_departure(&mut self, cx: &mut Context<'_>) -> Poll<Departure> {
        let transport = &self.transport;
        let departure = self.departure.get_or_insert_with(|| transport.departure());
        departure.as_mut().poll(cx)
    }

    /// The socket is full, and so is what may be said ahead of it: until it takes more there is nothing
    /// to do, whatever else is ready.
    fn is_output_full(&self) -> bool {
        let blocked = !self.output.is_empty() || self.transport.wants_write();
        blocked && self.output.len() >= self.room()
    }

    fn unsent(&self) -> usize {
        self.output.len() + self.backlog.len() + self.transport.unsent()
    }

    /// Returns the number of bytes that may be encoded before they are sent. Zero rather than frames that are far
    /// shorter than a record, while TLS holds something.
    fn room(&self) -> usize {
        let unsent = self.transport.unsent();
        let room = WorkerBuffers::send_bytes(&self.share).min(self.unsent_budget.bytes());
        match room.saturating_sub(unsent) {
            little if unsent > 0 && little < DATA_PAYLOAD_OVER_TLS => 0,
            room => room,
        }
    }

    fn set_notsent_lowat(&mut self) {
        if let Some(bytes) = self.unsent_budget.next_lowat() {
            self.transport.limit_unsent(bytes);
        }
    }

    /// Sends what is said; whether the socket took all of it.
    fn send(&mut self, now: Instant) -> io::Result<bool> {
        let ahead = self.output.len() + self.transport.unsent();
        let all = self.transport.send(&mut self.output, now)?;
        let took = ahead.saturating_sub(self.output.len() + self.transport.unsent());
        if !all {
            self.unsent_budget.filled(took, now);
        } else if took > 0 {
            self.unsent_budget.took(took);
        }
        Ok(all)
    }

    /// Does everything that can be done without waiting, with the worker's buffers.
    fn turn(&mut self, wake: &Wake) -> io::Result<TurnOutcome> {
        let buffers = Rc::clone(&self.buffers);
        let mut buffers = buffers.borrow_mut();
        let _turn = Turn::begin();
        buffers.begin_turn();
        if self.output.is_empty() {
            std::mem::swap(&mut self.output, &mut buffers.output);
        }
        if wake.writable {
            self.unsent_budget.room(buffers.now.instant);
        }
        let progress = self.work(wake, &mut buffers);
        self.set_notsent_lowat();
        if self.output.is_empty() {
            std::mem::swap(&mut self.output, &mut buffers.output);
        }
        let held = self.unsent() + self.responses.unread();
        self.held.set(held + self.engine.unfinished_block());
        self.holds = held > 0;
        self.admitted.set_requests(self.engine.open_streams());
        if self.responses.has_tunnels() && self.watch.is_none() {
            self.watch = Some(Box::new(self.transport.watch(KEEPALIVE)));
        }
        if self.engine.open_streams() == 0 {
            self.responses.hand_on();
        }
        if wake.due {
            self.rest_if_due(buffers.now.instant);
        }
        match progress {
            // The next turn ends it.
            Ok(TurnOutcome::Waiting)
                if holds_too_much(self.engine.unfinished_block(), &self.share) =>
            {
                Ok(TurnOutcome::More)
            }
            progress => progress,
        }
    }

    fn work(&mut self, wake: &Wake, buffers: &mut WorkerBuffers) -> io::Result<TurnOutcome> {
        if self
            .giving_up
            .is_some_and(|until| until <= buffers.now.instant)
        {
            return Ok(TurnOutcome::Over);
        }
        let rests = wake.due
            && self
                .rest_due()
                .is_some_and(|due| due <= buffers.now.instant);
        let mut turn = self.engine.turn(buffers.now.instant, &mut self.output);
        if wake.due {
            turn.handle_timeout();
        }
        if rests {
            self.responses.tell_later(&mut turn, buffers);
        }
        if wake.stop {
            turn.shutdown();
        }
        if holds_too_much(turn.unfinished_block(), &self.share) {
            turn.close(Code::ENHANCE_YOUR_CALM);
        }
        // Borrowed, so that it comes back if this unwinds.
        let buffer = Rc::clone(&buffers.buffer);
        let mut buffer = buffer.borrow_mut();
        let most = match self.share.is_full() {
            true => SCARCE_READ_BYTES,
            false => buffer.len(),
        };
        let received = self.receive(wake, &mut buffer[..most]);
        received.and_then(|n| {
            let progress = self.process_input(&buffer[..n], buffers)?;
            Ok(match progress {
                TurnOutcome::Waiting if self.more => TurnOutcome::More,
                progress => progress,
            })
        })
    }

    /// Puts what came, now or before, into `buffer`; how many bytes.
    fn receive(&mut self, wake: &Wake, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.backlog.is_empty() {
            let n = self.backlog.len().min(buffer.len());
            buffer[..n].copy_from_slice(&self.backlog[..n]);
            self.backlog.drain(..n);
            self.more = true;
            return Ok(n);
        }
        let may_be_there = wake.readable || std::mem::take(&mut self.more);
        if !may_be_there || self.ended {
            return Ok(0);
        }
        let received = self.transport.receive(buffer)?;
        (self.more, self.ended) = (received.more, received.end);
        Ok(received.len)
    }

    /// Input in, answers out, as long as the socket takes them.
    fn process_input(
        &mut self,
        mut input: &[u8],
        buffers: &mut WorkerBuffers,
    ) -> io::Result<TurnOutcome> {
        let mut sent = 0;
        loop {
            let room = self.room();
            let mut turn = self.engine.turn(buffers.now.instant, &mut self.output);
            while turn.output_len() < room {
                let went_on = self.responses.go_on(&mut turn, buffers);
                if !went_on && !self.responses.next(&mut turn, &mut input, buffers) {
                    break;
                }
            }
            if self.ended && input.is_empty() && self.backlog.is_empty() {
                self.responses.input_ended(&mut turn, buffers);
            }
            self.responses.send_bodies(&mut turn, buffers, room);
            let said = self.output.len();
            sent += said;
            let blocked = !self.send(buffers.now.instant)?;
            if !blocked {
                self.responses.written(buffers);
            }
            if blocked || sent >= TURN_BYTES {
                self.backlog.splice(..0, input.iter().copied());
                return Ok(if blocked {
                    TurnOutcome::Blocked
                } else {
                    TurnOutcome::More
                });
            }
            if said == 0 && room > 0 {
                self.unsent_budget.silent();
                break;
            }
        }
        let idle = self.engine.open_streams() == 0;
        debug_assert!(
            !idle || self.responses.is_idle(),
            "an exchange without its stream"
        );
        let over = self.engine.is_closed() || (self.ended && idle);
        Ok(if over {
            TurnOutcome::Over
        } else {
            TurnOutcome::Waiting
        })
    }
}

/// Returns true if the beginning of a head takes more memory than there is room for. Nothing would tell when its rest
/// may come.
fn holds_too_much(unfinished: usize, share: &HeldBytes) -> bool {
    unfinished > UNFINISHED_HEAD && share.is_full()
}

#[cfg(test)]
mod tests;
