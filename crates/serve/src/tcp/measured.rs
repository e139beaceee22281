//! Reads what the kernel counts of a TCP connection, and finds out when the client has all that it was sent
//! ([`delivery`](super::delivery) says how).

use super::delivery::{AckStatus, AckWatch, MAX_LOOKS, MEASUREMENT_INTERVAL};
use super::socket::Activity;
use super::turns::{StepPermit, Turns};
use super::write_ahead::{SCARCE_CHUNK, WriteAhead};
use crate::clients::AdmittedConnection;
use crate::incidents::Incident;
use crate::request::body::{Body, CHUNK};
use crate::request::handler::BoxError;
use crate::request::requests::{Now, Requests};
use crate::request::trickle::Trickle;
use crate::selection::counters::{Counters, congestion_of};
use crate::selection::observer::Complete;
use altway_select::Congestion;
use altway_socket::tcp_info;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::cell::{Cell, OnceCell, RefCell};
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio::time::sleep;

/// Reads the kernel's counters of one connection.
#[derive(Debug)]
pub(super) struct TcpPathSampler {
    client: IpAddr,
    stream: Rc<TcpStream>,
    /// A proxy is at the other end: what the kernel counts is not of the client's path.
    relayed: bool,
    /// The kernel's congestion control, asked for once.
    congestion: OnceCell<Option<Congestion>>,
    /// Time at which the connection was accepted.
    pub(super) began: Instant,
    /// Time at which the client had everything, and the bytes acknowledged then.
    arrived: Cell<Option<(Instant, u64)>>,
    /// Time of the latest look, and the wait that goes on.
    watched: Cell<Option<Instant>>,
    watch: Cell<Option<AckWatch>>,
}

impl TcpPathSampler {
    /// `relayed`: by a proxy, on a connection of its own.
    pub(super) fn new(client: IpAddr, stream: Rc<TcpStream>, relayed: bool) -> Self {
        Self {
            client,
            stream,
            relayed,
            congestion: OnceCell::new(),
            began: Instant::now(),
            arrived: Cell::new(None),
            watched: Cell::new(None),
            watch: Cell::new(None),
        }
    }

    /// Returns the kernel's counters, with the time at which the client had what was waited for.
    pub(super) fn counters(&self) -> Option<Counters> {
        if self.relayed {
            return None;
        }
        // Perhaps the last occasion.
        let _ = self.look();
        Some(Counters {
            arrived: self.arrived.get(),
            congestion: *self.congestion.get_or_init(|| congestion_of(&*self.stream)),
            ..Counters::of_tcp(&*self.stream, self.client)?
        })
    }

    /// Returns the shortest round trip that the kernel has seen to the client; `None` if it is not known.
    pub(super) fn min_rtt(&self) -> Option<Duration> {
        if self.relayed {
            return None;
        }
        tcp_info(&*self.stream)?.min_rtt
    }

    /// Finds out when the client has everything that it was sent, now and then; whether it does. To be called
    /// within the worker's runtime. `written`: all of it is with the kernel.
    pub(super) fn watch(self: &Rc<Self>, written: bool) -> bool {
        if self.relayed {
            return false;
        }
        let now = Instant::now();
        let is_new =
            |watched: Instant| now.saturating_duration_since(watched) < MEASUREMENT_INTERVAL;
        self.arrived.set(None);
        let is_looking = self.watch.take().is_some();
        if !is_looking && self.watched.get().is_some_and(is_new) {
            return false;
        }
        self.watched.set(Some(now));
        self.watch.set(Some(AckWatch::new(now)));
        // Where it ends is known at this moment only.
        let wait = match written {
            true => self.look(),
            false => Some(FIRST_POLL_DELAY),
        };
        if let Some(wait) = wait.filter(|_| !is_looking) {
            spawn_local(poll_until_acked(Rc::downgrade(self), wait));
        }
        true
    }

    /// Looks whether that has arrived which is waited for; how long to wait until the next look.
    fn look(&self) -> Option<Duration> {
        let mut watch = self.watch.take()?;
        match watch.look(Instant::now(), &tcp_info(&*self.stream)?) {
            AckStatus::NotYet(wait) => {
                self.watch.set(Some(watch));
                Some(wait)
            }
            AckStatus::Arrived(at, acked) => {
                self.arrived.set(Some((at, acked)));
                None
            }
            AckStatus::Nothing => None,
        }
    }
}

/// Time after which the kernel has what hyper was given. If the socket is full, what hyper holds is missing from
/// what is waited for: its buffer of 64 KiB, and a chunk.
const FIRST_POLL_DELAY: Duration = Duration::from_millis(1);

/// Looks until everything is there, or the connection has ended: it isn't held open for this.
async fn poll_until_acked(probe: Weak<TcpPathSampler>, mut wait: Duration) {
    for _ in 0..MAX_LOOKS {
        sleep(wait).await;
        let next = probe.upgrade().and_then(|probe| probe.look());
        let Some(next) = next else {
            return;
        };
        wait = next;
    }
    if let Some(probe) = probe.upgrade() {
        probe.watch.set(None);
    }
}

/// An HTTP/1.1 response's body: tells how it is handed over, and while it has nothing to give the client's
/// silence means nothing.
pub(super) struct MeasuredBody {
    body: Body,
    is_complete: bool,
    /// True while the body has nothing to give, of which the observer was told, or is a stream of events that gives a little.
    waits: bool,
    /// Notes of a stream of events; `None`: the body is none.
    trickle: Option<Box<Trickle>>,
    activity: Activity,
    admitted: Rc<AdmittedConnection>,
    ahead: WriteAhead,
    turns: Rc<Turns>,
    /// The place in the queue for the next part of a file.
    ticket: Option<StepPermit>,
    probe: Rc<TcpPathSampler>,
    requests: Rc<RefCell<Requests<Infallible>>>,
}

impl MeasuredBody {
    pub(super) fn new(
        body: Body,
        activity: Activity,
        admitted: Rc<AdmittedConnection>,
        ahead: WriteAhead,
        turns: Rc<Turns>,
        probe: Rc<TcpPathSampler>,
        requests: Rc<RefCell<Requests<Infallible>>>,
    ) -> Self {
        if body.is_file() {
            activity.sends_file();
        }
        Self {
            trickle: body.trickle(),
            body,
            is_complete: false,
            waits: false,
            activity,
            admitted,
            ahead,
            turns,
            ticket: None,
            probe,
            requests,
        }
    }

    /// Counts what the body gives, and tells when that is all.
    fn count(&mut self, frame: &Poll<Polled>) {
        let trickled = self.trickled(frame);
        // It may be asked within the connection, while a request is begun.
        let Ok(mut requests) = self.requests.try_borrow_mut() else {
            return;
        };
        if let Some(bytes) = trickled {
            self.ahead.give(bytes);
            return requests.trickled(bytes as u64, Instant::now());
        }
        if self.waits != frame.is_pending() {
            self.waits = frame.is_pending();
            let now = Instant::now();
            match self.waits {
                true => requests.observer().waits_for_more(now),
                false => requests.observer().goes_on(now),
            }
        }
        let Poll::Ready(frame) = frame else {
            return;
        };
        let bytes = match frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            Some(Err(error)) => {
                let client = requests.client();
                tracing::debug!(%error, %client, "cannot send a response on");
                return requests.record(Incident::BrokenResponse);
            }
            None => 0,
        };
        self.ahead.give(bytes);
        let now = Now::read();
        requests.sent(bytes as u64, now.instant, || self.probe.counters());
        let is_last = frame.is_none() || http_body::Body::is_end_stream(&self.body);
        if is_last && !std::mem::replace(&mut self.is_complete, true) {
            complete(&mut requests, &self.probe, now);
        }
    }

    /// The bytes of a frame that is a little of a stream of events, which is taken for waiting.
    fn trickled(&mut self, frame: &Poll<Polled>) -> Option<usize> {
        let Poll::Ready(Some(Ok(frame))) = frame else {
            return None;
        };
        let bytes = frame.data_ref()?.len();
        let is_last = http_body::Body::is_end_stream(&self.body);
        let trickle = self.trickle.as_mut().filter(|_| self.waits && !is_last)?;
        trickle.takes(bytes, Instant::now()).then_some(bytes)
    }
}

/// A response was handed to hyper as a whole.
fn complete(requests: &mut Requests<Infallible>, probe: &Rc<TcpPathSampler>, now: Now) {
    if requests.completed(now, || probe.counters()) == Complete::Watch && !probe.watch(false) {
        requests.observer().unwatched(now.instant);
    }
}

/// A frame of a body, or its end.
type Polled = Option<Result<Frame<Bytes>, BoxError>>;

impl http_body::Body for MeasuredBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Polled> {
        if self.ahead.must_wait(cx) {
            self.activity.answering(false);
            return Poll::Pending;
        }
        let this = &mut *self;
        if this.body.is_file() && !this.turns.may_go_on(&mut this.ticket, cx) {
            this.activity.answering(true);
            return Poll::Pending;
        }
        let largest = if self.ahead.is_scarce() {
            SCARCE_CHUNK
        } else {
            CHUNK
        };
        self.body.limit_frames(largest);
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.activity.answering(frame.is_pending());
        self.count(&frame);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for MeasuredBody {
    fn drop(&mut self) {
        self.activity.engaged(false);
        self.admitted.set_requests(0);
        // A body without content is dropped unasked.
        let is_whole = http_body::Body::is_end_stream(&self.body);
        if is_whole
            && !self.is_complete
            && let Ok(mut requests) = self.requests.try_borrow_mut()
        {
            complete(&mut requests, &self.probe, Now::read());
        }
    }
}
