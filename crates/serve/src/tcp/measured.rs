//! Reports a TCP connection's path when a response has been handed over, and when it ends; and finds
//! out when the client has a whole response ([`delivery`](super::delivery) says how).

use super::delivery::{Answered, Found, MAX_LOOKS, MIN_RESPONSE, PAUSE, Watch};
use super::socket::Activity;
use super::write_ahead::WriteAhead;
use crate::clients::Admitted;
use crate::path_meter::{self, Meter, Paths};
use crate::request::body::Body;
use crate::request::handler::BoxError;
use crate::request::requests::Requests;
use crate::setup::Setup;
use altway_path::{ConnectionStatistics, Exchange, PathStatistics};
use altway_socket::tcp_info;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
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
    began: Instant,
    handshake: Cell<Option<Duration>>,
    meter: RefCell<Meter>,
    exchanges: Cell<Exchanges>,
    /// When it was last asked how long an exchange takes, and what is not known yet of it.
    watched: Cell<Option<Instant>>,
    watch: Cell<Option<Watch>>,
}

/// Those that were timed.
#[derive(Debug, Clone, Copy, Default)]
struct Exchanges {
    count: u64,
    latest: Option<Exchange>,
}

impl TcpPathSampler {
    pub(super) fn new(client: IpAddr, stream: Rc<TcpStream>) -> Self {
        Self {
            client,
            stream,
            began: Instant::now(),
            handshake: Cell::new(None),
            meter: RefCell::new(Meter::new(client)),
            exchanges: Cell::default(),
            watched: Cell::new(None),
            watch: Cell::new(None),
        }
    }

    /// Has the kernel hold no more than so many bytes that it has not sent (TCP_NOTSENT_LOWAT).
    pub(super) fn limit_unsent(&self, bytes: u32) {
        let socket = socket2::SockRef::from(&*self.stream);
        if let Err(error) = socket.set_tcp_notsent_lowat(bytes) {
            tracing::debug!(%error, "the kernel holds as much as it likes");
        }
    }

    /// Has the kernel drop what is not sent when the connection closes, and reset the connection.
    pub(super) fn abort_on_close(&self) {
        let socket = socket2::SockRef::from(&*self.stream);
        if let Err(error) = socket.set_linger(Some(Duration::ZERO)) {
            tracing::debug!(%error, "what is not sent stays with the kernel");
        }
    }

    /// TLS's hand-shake is done.
    pub(super) fn secured(&self) {
        self.handshake.set(Some(self.began.elapsed()));
    }

    /// Reports what is new of the path; what all of it is.
    pub(super) fn observe(&self, paths: &Paths) -> Option<ConnectionStatistics> {
        let handshake = self.handshake.get();
        // Perhaps the last occasion.
        let _ = self.look();
        let Exchanges { count, latest } = self.exchanges.get();
        let statistics = ConnectionStatistics {
            exchanges: count,
            exchange: latest,
            ..path_meter::of_tcp(&*self.stream, self.client, handshake)?
        };
        self.meter.borrow_mut().observe(statistics, paths);
        Some(statistics)
    }

    /// The path as this connection alone knew it at its latest report.
    pub(super) fn own(&self) -> Option<PathStatistics> {
        self.meter.borrow().own()
    }

    /// Finds out when the client has a response, now and then. To be called within the worker's
    /// runtime when the response was handed over. `written`: all of it is with the kernel.
    pub(super) fn answered(self: &Rc<Self>, answered: Answered, written: bool) {
        let now = Instant::now();
        let is_new = |watched: Instant| now.saturating_duration_since(watched) < PAUSE;
        let is_free = self.watch.get().is_none() && !self.watched.get().is_some_and(is_new);
        if answered.bytes < MIN_RESPONSE || !is_free {
            return;
        }
        self.watched.set(Some(now));
        self.watch.set(Some(Watch::new(answered, now)));
        // Where the response ends is known at this moment only.
        let wait = match written {
            true => self.look(),
            false => Some(FIRST_LOOK),
        };
        if let Some(wait) = wait {
            spawn_local(keep_looking(Rc::downgrade(self), wait));
        }
    }

    /// Looks whether the response is there that is waited for; how long to wait until the next look.
    fn look(&self) -> Option<Duration> {
        let mut watch = self.watch.take()?;
        match watch.look(Instant::now(), &tcp_info(&*self.stream)?) {
            Found::NotYet(wait) => {
                self.watch.set(Some(watch));
                Some(wait)
            }
            Found::Arrived(exchange) => {
                let count = self.exchanges.get().count + 1;
                let latest = Some(exchange);
                self.exchanges.set(Exchanges { count, latest });
                None
            }
            Found::Nothing => None,
        }
    }
}

/// By then the kernel has what hyper was given. If the socket is full, what hyper holds is missing from
/// what is waited for: its buffer of 64 KiB, and a chunk.
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// Looks until the response is there, or the connection has ended: it isn't held open for this.
async fn keep_looking(probe: Weak<TcpPathSampler>, mut wait: Duration) {
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

/// An HTTP/1.1 response's body: its end is an occasion to measure, and while it has nothing to
/// give the client's silence means nothing.
pub(super) struct Measured {
    body: Body,
    /// When the request came; gone once the body is complete.
    asked: Option<Instant>,
    /// What the body had until now.
    bytes: u64,
    activity: Activity,
    admitted: Rc<Admitted>,
    ahead: WriteAhead,
    probe: Rc<TcpPathSampler>,
    requests: Rc<RefCell<Requests<Infallible>>>,
    setup: Arc<Setup>,
}

impl Measured {
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a part of the connection's state"
    )]
    pub(super) fn new(
        body: Body,
        asked: Instant,
        activity: Activity,
        admitted: Rc<Admitted>,
        ahead: WriteAhead,
        probe: Rc<TcpPathSampler>,
        requests: Rc<RefCell<Requests<Infallible>>>,
        setup: Arc<Setup>,
    ) -> Self {
        Self {
            body,
            asked: Some(asked),
            bytes: 0,
            activity,
            admitted,
            ahead,
            probe,
            requests,
            setup,
        }
    }

    /// Counts what the body gives, and tells when that is all.
    fn count(&mut self, frame: &Poll<Option<Result<Frame<Bytes>, BoxError>>>) {
        let Poll::Ready(frame) = frame else {
            return;
        };
        let bytes = match frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) => return,
            None => 0,
        };
        self.bytes += bytes as u64;
        self.ahead.give(bytes);
        if (frame.is_none() || http_body::Body::is_end_stream(&self.body))
            && let Some(asked) = self.asked.take()
        {
            let bytes = self.bytes;
            self.probe.answered(Answered { asked, bytes }, false);
        }
    }
}

impl http_body::Body for Measured {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.ahead.must_wait(cx) {
            self.activity.answering(false);
            return Poll::Pending;
        }
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

impl Drop for Measured {
    fn drop(&mut self) {
        self.activity.engaged(false);
        self.admitted.set_requests(0);
        let now = Instant::now();
        // It may be dropped with the connection, while a request is begun.
        if let Ok(mut requests) = self.requests.try_borrow_mut()
            && requests.is_measurement_due(now)
        {
            self.probe.observe(&self.setup.service.paths);
            requests.measured(self.probe.own(), now);
        }
    }
}
