//! HTTP/2 on one connection, driven by altway's own engine.
//!
//! [`Connection::work`] tells the whole story. It sends what is due, takes what has come, and does
//! both in the slot's own future: a permit is drawn when a stream is free for it and sent in the
//! next write, so nothing queues between the permits and the engine.
//!
//! A request that the server resets or refuses (REFUSED_STREAM, or above the last stream of a
//! GOAWAY) is a failed one and is not sent again, but for those that it refuses because they were
//! sent before it could say how many it allows: they wait for a stream like the others, and the
//! wait counts. A connection error fails every request in flight.

mod link;

use crate::error::Failure;
use crate::exchanges::Exchanges;
use crate::run::{Due, Job, Run};
use crate::send_permits::SendPermit;
use crate::tcp::{CLOSE_TIMEOUT, Wire};
use altway_http2::{self as http2, Code, Config, Error as Http2Error, Event, Rate, StreamId};
use altway_record::Protocol;
use link::Link;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::task::yield_now;
use tokio::time::{Sleep, sleep_until, timeout};

/// Receive windows (RFC 9113, section 5.2): those of the HTTP/3 client, so that neither protocol
/// has the better one, and above 1 Gbit/s × 100 ms = 12.5 MB. They are as large from the beginning
/// and stay so: a window that grows would be part of what is measured. The client holds no body,
/// so they cost no memory.
const STREAM_WINDOW: u32 = 16 << 20;
const CONNECTION_WINDOW: u32 = 32 << 20;

/// Streams opened before the server has said how many it allows: RFC 9113, section 6.5.2,
/// recommends that the number "be no smaller than 100".
const STREAMS_BEFORE_SETTINGS: usize = 100;

/// An open loop leaves a connection idle for as long as its rate says: at one request a second over
/// 65,535 ports less than a day.
const IDLE_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Frames without a body from a server that was asked for so many requests a second are no attack.
/// Their cost is the reading.
const FRAMES: Rate = Rate {
    burst: 1 << 20,
    per_second: 1 << 20,
};

/// The time for which a client that comes back keeps its connection after a session, unless it is told of HTTP/3 sooner: a browser's
/// stays open for minutes, and a server may tell it after the page (RFC 7838 section 4).
const LINGER: Duration = Duration::from_secs(1);

/// Bytes that are read at once. Shared by all connections, so that an idle one holds none.
const INBOUND_BYTES: usize = 64 << 10;

/// Sends `first` and keeps the connection's streams busy until it closes or the permits run out.
pub(crate) async fn serve(run: &Run<'_>, ordinal: u32, wire: Box<dyn Wire>, first: Due) {
    run.inbound.borrow_mut().resize(INBOUND_BYTES, 0);
    let now = Instant::now();
    let mut connection = Connection {
        run,
        engine: http2::Connection::client(Arc::new(config(run.job)), now),
        link: Link::new(wire),
        exchanges: Exchanges::new(run, ordinal),
        timer: Box::pin(sleep_until(first.deadline.into())),
        goaway: None,
        last_unrequested: None,
        heard: false,
        has_alt_svc_frame: false,
    };
    connection.send(first);
    if run.job.new_connections {
        connection.exchanges.drain();
    }
    connection.work().await;
    if run.job.alt_svc_port.is_some() {
        connection.linger().await;
    }
    connection.close().await;
}

fn config(job: &Job) -> Config {
    let mut config = Config {
        max_concurrent_streams: job.streams,
        stream_window: STREAM_WINDOW,
        max_stream_window: STREAM_WINDOW,
        connection_window: CONNECTION_WINDOW,
        max_connection_window: CONNECTION_WINDOW,
        ..Config::default()
    };
    // A server that is slow must run into the request's time-out, not into one of these.
    let times = &mut config.timeouts;
    for time in [
        &mut times.preface,
        &mut times.settings,
        &mut times.frame,
        &mut times.stall,
    ] {
        *time = job.timeout.max(*time);
    }
    times.idle = IDLE_TIMEOUT;
    config.floods.control = FRAMES;
    config.floods.resets = FRAMES;
    config
}

/// Returns whether an Alt-Svc field (RFC 7838) offers HTTP/3.
fn names_http3(field: &[u8]) -> bool {
    field.windows(3).any(|bytes| bytes == b"h3=")
}

struct Connection<'r, 'a> {
    run: &'r Run<'a>,
    engine: http2::Connection,
    link: Link,
    exchanges: Exchanges<'r, 'a, StreamId>,
    /// Rings at the next time-out or before.
    timer: Pin<Box<Sleep>>,
    /// Error code of the server's GOAWAY.
    goaway: Option<Code>,
    /// The last stream opened before the server said how many it allows.
    last_unrequested: Option<StreamId>,
    /// A first byte has come.
    heard: bool,
    /// An ALTSVC frame has come for the origin of the requests.
    has_alt_svc_frame: bool,
}

impl Connection<'_, '_> {
    /// Permits, bytes, time-outs; until there is nothing left to do.
    async fn work(&mut self) {
        loop {
            self.expire(Instant::now());
            if self.exchanges.is_done() {
                return;
            }
            let run = self.run;
            let unsendable = self.exchanges.take_unsendable();
            tokio::select! {
                biased;
                // Permits first: what is due now leaves in one write.
                permit = run.send_permits.next(Protocol::H2), if !unsendable && self.wants_permit() => {
                    self.on_permit(permit);
                },
                () = poll_fn(|cx| self.poll_turn(cx)) => {}
                () = yield_now(), if unsendable => {}
            }
        }
    }

    /// Takes in what the server says once all answers have come.
    async fn linger(&mut self) {
        let until = tokio::time::Instant::now() + LINGER;
        while !self.has_alt_svc_frame && !self.exchanges.is_closed() {
            tokio::select! {
                () = poll_fn(|cx| self.poll_turn(cx)) => {}
                () = sleep_until(until) => return,
            }
        }
    }

    /// Says goodbye, as far as the peer takes it in time.
    async fn close(mut self) {
        let mut turn = self.engine.turn(Instant::now(), &mut self.link.output);
        turn.shutdown();
        let _ = timeout(CLOSE_TIMEOUT, self.link.close()).await;
    }

    fn on_permit(&mut self, permit: Option<SendPermit>) {
        match permit {
            Some(permit) => self.send(Due::now(permit, self.run.job)),
            None => self.exchanges.drain(),
        }
    }

    fn send(&mut self, due: Due) {
        let mut turn = self.engine.turn(Instant::now(), &mut self.link.output);
        match turn.send_request(self.run.job.head(due.permit), None, true) {
            Ok(stream) => {
                self.exchanges.on_sent(stream, due);
                if !self.is_told() {
                    self.last_unrequested = Some(stream);
                }
            }
            Err(Http2Error::StreamsExhausted) => {
                self.exchanges.on_exhausted();
                self.run.send_permits.give_back(due.permit);
            }
            // The server went while the permit was awaited: the next connection takes it.
            Err(Http2Error::GoingAway) => {
                self.exchanges.drain();
                self.run.send_permits.give_back(due.permit);
            }
            Err(error) => self.exchanges.on_unsendable(&due, Failure::Http2(error)),
        }
    }

    /// Sends what there is to send; then takes in what has come or, if nothing has, is pending until
    /// something does or a time-out is due.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.link.poll_send(cx);
        let run = self.run;
        let mut inbound = run.inbound.borrow_mut();
        if let Poll::Ready(received) = self.link.poll_receive(cx, &mut inbound) {
            match received {
                Ok(0) => self.lost("closed by peer"),
                Ok(n) => self.on_bytes(&inbound[..n]),
                Err(error) => self.lost(&error.to_string()),
            }
            return Poll::Ready(());
        }
        ready!(self.poll_timer(cx));
        let now = Instant::now();
        if self.engine.poll_timeout().is_some_and(|due| due <= now) {
            let mut turn = self.engine.turn(now, &mut self.link.output);
            turn.handle_timeout();
            self.process_input(&[]);
        }
        Poll::Ready(())
    }

    /// Ready when a time-out may be due: most turns only put it off, so the timer may ring early.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let dues = [self.exchanges.deadline(), self.engine.poll_timeout()];
        if let Some(due) = dues.into_iter().flatten().min() {
            let due = due.into();
            if due < self.timer.deadline() || self.timer.is_elapsed() {
                self.timer.as_mut().reset(due);
            }
        }
        self.timer.as_mut().poll(cx)
    }

    fn on_bytes(&mut self, bytes: &[u8]) {
        let first = !std::mem::replace(&mut self.heard, true);
        // As a frame it would be above any size.
        if first && bytes.starts_with(b"HTTP/1.") {
            return self.exchanges.fail_all(|| Failure::OtherProtocol {
                asked: Protocol::H2,
                found: Some("http/1.1".into()),
            });
        }
        self.process_input(bytes);
    }

    /// Bytes in, events out. What the server can make the engine say to one read is about as large
    /// as the read; the link bounds the sum.
    fn process_input(&mut self, mut bytes: &[u8]) {
        let (now, run, exchanges) = (Instant::now(), self.run, &mut self.exchanges);
        let mut turn = self.engine.turn(now, &mut self.link.output);
        while let Some(event) = turn.receive(&mut bytes) {
            match event {
                Event::Response { stream, head, end } => {
                    let status = head.status().expect("the engine checked the response");
                    exchanges.on_alt_svc_field(stream, head.field("alt-svc"), now);
                    exchanges.on_head(stream, now, status, head.content_length());
                    if exchanges.learns_from(stream)
                        && head.field("alt-svc").is_some_and(names_http3)
                    {
                        exchanges.on_alt_svc(stream);
                    }
                    if end {
                        exchanges.complete(stream, now);
                    }
                }
                Event::Data { stream, data, end } => {
                    let len = data.len();
                    turn.release(stream, len);
                    exchanges.on_data(stream, len);
                    if end {
                        exchanges.complete(stream, now);
                    }
                }
                Event::Trailers { stream, .. } => exchanges.complete(stream, now),
                Event::StreamReset { stream, code } => {
                    let early = Some(stream) <= self.last_unrequested && self.goaway.is_none();
                    if code != Code::REFUSED_STREAM || !early || !exchanges.give_back(stream) {
                        exchanges.end(stream, now, Err(Failure::Reset(code.to_string())));
                    }
                }
                Event::AltSvc { origin, value, .. }
                    if origin.as_deref().is_none_or(|it| run.job.is_origin(it)) =>
                {
                    self.has_alt_svc_frame = true;
                    run.on_alt_svc_frame(&value, now);
                }
                Event::StreamsAvailable => exchanges.on_stream_free(),
                Event::GoAway { code } => {
                    self.goaway = Some(code);
                    exchanges.drain();
                }
                Event::Closed { reason } => {
                    exchanges.fail_all(|| Failure::Connection(reason.to_string()));
                }
                _ => {}
            }
        }
    }

    /// The transport ended. If the server has said why, that is told.
    fn lost(&mut self, why: &str) {
        let text = match self.goaway {
            Some(code) if code != Code::NO_ERROR => format!("closed by peer: {code}"),
            _ => why.to_owned(),
        };
        self.exchanges
            .fail_all(|| Failure::Connection(text.clone()));
    }

    /// Resets the requests whose time is over.
    fn expire(&mut self, now: Instant) {
        while let Some(stream) = self.exchanges.expire(now) {
            let mut turn = self.engine.turn(now, &mut self.link.output);
            turn.reset_stream(stream, Code::CANCEL);
            // It makes room for another one.
            self.process_input(&[]);
        }
    }

    fn wants_permit(&self) -> bool {
        let allowed = self.is_told() || self.exchanges.len() < STREAMS_BEFORE_SETTINGS;
        self.exchanges.wants_permit() && allowed
    }

    /// The server's SETTINGS came, for the acknowledgement of ours comes after them.
    fn is_told(&self) -> bool {
        self.engine.rtt().is_some()
    }
}
