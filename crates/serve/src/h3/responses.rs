//! Requests in, responses out: what the engine's events mean to the server.

use super::admission;
use crate::RequestBody;
use crate::access::{Asked, Exchange};
use crate::body::Body;
use crate::clients::Admitted;
use crate::embed::Answering;
use crate::exchanges::{Exchanges, Ready, Taken, Work};
use crate::files::{Entry, FileCache, Reading, is_conditional};
use crate::handler::BoxError;
use crate::held::Held;
use crate::incidents::Incident;
use crate::path_meter::{self, Meter};
use crate::sending::{Next, RESPONSE_OVERHEAD, Sending};
use crate::service::{Answer, flaw};
use crate::worker::{Memory, Setup};
use altway_http3::{
    CloseReason, Code, ConnectionHandle, Endpoint, Error, Event, Received, StreamId,
};
use altway_path::ConnectionStatistics;
use altway_policy::Decision;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body as _;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ptr;
use std::rc::{self, Rc};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

/// So many bytes of an upload wait for their reader at most, beyond the last datagrams'.
const MAX_UNREAD: usize = 64 << 10;

/// A connection's path is measured, and its decision taken, at most so often.
const DECISION_AGE: Duration = Duration::from_millis(100);

/// Bytes of a file that are read to see whether a stream takes any. Those that it doesn't take are read
/// again when it does: a client that takes nothing holds nothing.
const FIRST_PIECE: usize = 4 << 10;

/// One exchange.
type Key = (ConnectionHandle, StreamId);

/// All responses that are on their way. Bounded by the engine's limits of connections and of
/// requests on each; a response holds one chunk of its body, an upload [`MAX_UNREAD`] bytes.
pub(super) struct Responses {
    setup: Arc<Setup>,
    /// Boxed: the table has room for up to twice as many as there are.
    connections: FxHashMap<ConnectionHandle, Box<Connection>>,
    exchanges: Exchanges<Key>,
    memory: Memory,
    /// When the turn began.
    now: Instant,
    /// The same for people.
    time: SystemTime,
    /// What exchanges go on with: at most two things each.
    ready: VecDeque<(Key, Ready)>,
}

struct Connection {
    peer: SocketAddr,
    admitted: Rc<Admitted>,
    /// Requests whose responses have not been handed over whole.
    in_progress: FxHashSet<StreamId>,
    meter: Meter,
    /// When the path was last.
    measured: Option<Instant>,
    /// What the policy says of it, and until when.
    verdict: Option<(Instant, Option<Decision>)>,
    /// The last request for a file, as long as the engine keeps it, and the file: the next one may be the
    /// same.
    found: Option<(Weak<Request<()>>, rc::Weak<Entry>)>,
    sending: FxHashMap<StreamId, Outgoing>,
}

/// A body that has not been handed over whole.
struct Outgoing {
    source: Source,
    moved: Instant,
    held: Held,
}

enum Source {
    Body(Sending),
    File(Reading, Option<Exchange>),
}

/// What became of a body when it was handed over as far as it went.
#[derive(PartialEq, Eq)]
enum Sent {
    All,
    Part,
}

impl Responses {
    pub(super) fn new(setup: Arc<Setup>, memory: Memory) -> Self {
        Self {
            setup,
            memory,
            now: Instant::now(),
            time: SystemTime::now(),
            connections: FxHashMap::default(),
            exchanges: Exchanges::new(),
            ready: VecDeque::new(),
        }
    }

    /// Whether nothing is on its way.
    pub(super) fn is_empty(&self) -> bool {
        let mut connections = self.connections.values();
        self.exchanges.is_idle() && connections.all(|connection| connection.sending.is_empty())
    }

    /// Ready when an exchange can go on.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Poll::Ready(ready) = self.exchanges.poll(cx) {
            self.ready.push_back(ready);
        }
        if self.ready.is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }

    /// Whether a connection is there and has to make room for others.
    pub(super) fn is_evicted(&self, handle: ConnectionHandle) -> bool {
        let connection = self.connections.get(&handle);
        connection.is_some_and(|connection| connection.admitted.is_evicted())
    }

    pub(super) fn connections(&self) -> impl Iterator<Item = ConnectionHandle> {
        self.connections.keys().copied()
    }

    /// Handles every event that the engine has, and goes on with every exchange that can.
    pub(super) fn answer(&mut self, now: Instant, endpoint: &mut Endpoint) {
        (self.now, self.time) = (now, SystemTime::now());
        while let Some((handle, event)) = endpoint.poll_event() {
            match event {
                Event::EarlyData => self.connected(handle, endpoint),
                Event::Connected => {
                    self.connected(handle, endpoint);
                    if let Some(connection) = self.connections.get(&handle) {
                        connection.admitted.handshake_done();
                    }
                }
                Event::Request { stream, head, end } => {
                    self.request((handle, stream), head, end, endpoint);
                }
                Event::Readable { stream } => self.receive((handle, stream), endpoint),
                Event::Writable { stream } => self.go_on((handle, stream), endpoint),
                Event::StreamReset { stream, .. } => self.forget((handle, stream)),
                Event::Closed { reason } => {
                    tracing::debug!(?handle, %reason, "connection closed");
                    if is_fault_of_peer(&reason) {
                        self.record(handle, Incident::Misbehaviour);
                    }
                    self.closed(handle, endpoint);
                }
                _ => {}
            }
        }
        while let Some((key, ready)) = self.ready.pop_front() {
            self.proceed(key, ready, endpoint);
        }
    }

    /// Gives up responses whose clients have taken nothing of them for the idle time-out, and what is
    /// kept of requests that don't come again.
    pub(super) fn cut_off_stalled(&mut self, endpoint: &mut Endpoint) {
        let limit = self.setup.limits.idle_timeout;
        for (handle, connection) in &mut self.connections {
            let Connection {
                found,
                sending,
                in_progress,
                admitted,
                ..
            } = &mut **connection;
            found.take_if(|(request, _)| request.strong_count() == 0);
            sending.retain(|stream, outgoing| {
                let held_up = outgoing.source.is_held_up();
                let stalled = held_up && outgoing.moved.elapsed() >= limit;
                if stalled {
                    endpoint.reset_stream(*handle, *stream, Code::H3_REQUEST_CANCELLED);
                    in_progress.remove(stream);
                    admitted.set_requests(in_progress.len());
                }
                !stalled
            });
        }
    }

    fn connected(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        let Some(remote) = endpoint.remote_address(handle) else {
            return;
        };
        let Some(admitted) = endpoint.guard(handle).and_then(admission::admitted) else {
            return;
        };
        admitted.name(handle);
        let client = remote.ip().to_canonical();
        // One with early data is told of twice.
        self.connections.entry(handle).or_insert_with(|| {
            Box::new(Connection {
                peer: SocketAddr::new(client, remote.port()),
                admitted,
                in_progress: FxHashSet::default(),
                meter: Meter::new(client),
                measured: None,
                verdict: None,
                found: None,
                sending: FxHashMap::default(),
            })
        });
    }

    fn closed(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        let statistics = self.observe(handle, endpoint);
        tracing::debug!(?handle, ?statistics, "connection ended");
        self.connections.remove(&handle);
        self.exchanges.cancel_all(|(of, _)| of == handle);
        self.ready.retain(|((of, _), _)| *of != handle);
    }

    /// The whole file that a request asks for, if it does.
    fn file_for(
        &mut self,
        connection: ConnectionHandle,
        head: &Arc<Request<()>>,
    ) -> Option<Rc<Entry>> {
        let found = &mut self.connections.get_mut(&connection)?.found;
        if let Some((known, entry)) = found
            && ptr::eq(known.as_ptr(), Arc::as_ptr(head))
            && let Some(entry) = entry.upgrade()
            && entry.is_fresh(self.now)
        {
            return Some(entry);
        }
        let files = self.setup.service.files()?;
        let mut fields = head.headers().keys();
        let is_plain = *head.method() == Method::GET
            && flaw(head).is_none()
            && !fields.any(|name| is_conditional(name.as_str().as_bytes()));
        let path = is_plain.then(|| head.uri().path().as_bytes())?;
        let entry = self.memory.files.borrow_mut().find(files, path, self.now)?;
        // The engine has kept it, so that it may come once more.
        if Arc::strong_count(head) > 1 {
            *found = Some((Arc::downgrade(head), Rc::downgrade(&entry)));
        }
        Some(entry)
    }

    /// Answers with a file of the cache, as [`Service::respond`](crate::service::Service::respond)
    /// would, but with a head that is made once a second.
    fn send_file(
        &mut self,
        key: Key,
        request: &Request<()>,
        entry: &Entry,
        endpoint: &mut Endpoint,
    ) {
        let Some((client, decision)) = self.decision(key.0) else {
            return;
        };
        let service = &self.setup.service;
        let offer = decision.map(|decision| decision.alt_svc);
        let complete = |headers: &mut _| service.complete(headers, decision.as_ref());
        let head = entry.head(self.time, offer, complete);
        let mut data = entry.whole().cloned().unwrap_or_default();
        let (whole, end) = (data.len(), data.len() as u64 == entry.size);
        let sent = endpoint.send_message(key.0, key.1, &head, &mut data, end);
        let taken = whole - data.len();
        let exchange = service.log.as_ref().map(|log| {
            let asked = Asked::of(client, request);
            let mut exchange = Exchange::begin(log, asked, StatusCode::OK, decision);
            exchange.sent(taken);
            exchange
        });
        match sent {
            Err(error) => self.cut_off(key, &error.into(), endpoint),
            // The usual case: it is small, and the window is open.
            Ok(()) if end && data.is_empty() => self.answered(key, endpoint),
            Ok(()) => {
                let source = Source::File(entry.reading(taken), exchange);
                self.start(key, source, endpoint);
            }
        }
    }

    /// A connection's client, and what the policy says of its path; `None`: it is gone.
    fn decision(&mut self, handle: ConnectionHandle) -> Option<(IpAddr, Option<Decision>)> {
        let connection = self.connections.get_mut(&handle)?;
        let client = connection.peer.ip();
        if let Some((until, decision)) = connection.verdict
            && self.now < until
        {
            return Some((client, decision));
        }
        let own = connection.meter.own();
        let decision = self.setup.service.decide(client, own);
        connection.verdict = Some((self.now + DECISION_AGE, decision));
        Some((client, decision))
    }

    fn request(&mut self, key: Key, head: Arc<Request<()>>, end: bool, endpoint: &mut Endpoint) {
        let Some(connection) = self.connections.get_mut(&key.0) else {
            return;
        };
        if connection.admitted.held().is_full() && !connection.sending.is_empty() {
            // Its client is to take first what it has asked for (RFC 9114 section 4.1.1).
            return endpoint.reset_stream(key.0, key.1, Code::H3_REQUEST_REJECTED);
        }
        if !connection.begin(key.1) {
            let response = self
                .setup
                .service
                .overloaded(connection.peer.ip(), connection.meter.own());
            self.respond(key, response, endpoint);
            // Nobody wants its content (RFC 9114 section 4.1).
            return endpoint.stop_reading(key.0, key.1, Code::H3_NO_ERROR);
        }
        if end && let Some(entry) = self.file_for(key.0, &head) {
            return self.send_file(key, &head, &entry, endpoint);
        }
        let Some(connection) = self.connections.get(&key.0) else {
            return;
        };
        let (peer, own) = (connection.peer, connection.meter.own());
        let head = Arc::unwrap_or_clone(head);
        let body = if end {
            RequestBody::empty()
        } else {
            self.exchanges.receive(key, &head)
        };
        let request = head.map(|()| body);
        match self.setup.service.respond(peer, own, request) {
            Answer::Now(response) => self.respond(key, response, endpoint),
            Answer::Later(answering) => self.await_response(key, answering, endpoint),
        }
    }

    fn await_response(&mut self, key: Key, answering: Answering, endpoint: &mut Endpoint) {
        if let Some(ready) = self.exchanges.begin(key, Work::Respond(answering)) {
            self.proceed(key, ready, endpoint);
        }
    }

    fn proceed(&mut self, key: Key, ready: Ready, endpoint: &mut Endpoint) {
        match ready {
            Ready::Hints(answering, fields) => {
                send_interim(key, StatusCode::EARLY_HINTS, fields, endpoint);
                self.await_response(key, answering, endpoint);
            }
            Ready::Response(response) => self.respond(key, response, endpoint),
            Ready::Frame(body, frame) => {
                let connection = self.connections.get_mut(&key.0);
                let Some(outgoing) = connection.and_then(|it| it.sending.get_mut(&key.1)) else {
                    return;
                };
                // Only from now on can the client hold it up.
                outgoing.moved = self.now;
                let Source::Body(sending) = &mut outgoing.source else {
                    return;
                };
                match sending.resume(body, frame) {
                    Ok(()) => self.go_on(key, endpoint),
                    Err(error) => self.cut_off(key, &error, endpoint),
                }
            }
            Ready::Report(report) => {
                let upload = self.exchanges.upload(key);
                if upload.is_some_and(|receiving| receiving.must_continue(&report)) {
                    // For a client that waits to be told so.
                    send_interim(key, StatusCode::CONTINUE, HeaderMap::new(), endpoint);
                }
                // Its reader has taken something: there is room for more.
                self.receive(key, endpoint);
            }
        }
    }

    /// Reads on in an upload, as far as its reader keeps up. The engine lets the client send as much
    /// more as was read.
    fn receive(&mut self, key: Key, endpoint: &mut Endpoint) {
        while let Some(receiving) = self.exchanges.upload(key)
            && receiving.upload.waiting() < MAX_UNREAD
        {
            match endpoint.recv_data(key.0, key.1) {
                Ok(Received::Data(data)) => {
                    if self.exchanges.take(key, data.len(), || data) != Taken::Kept {
                        // Nobody wants it (RFC 9114 section 4.1).
                        endpoint.stop_reading(key.0, key.1, Code::H3_NO_ERROR);
                        self.exchanges.end_upload(key);
                        return;
                    }
                }
                Ok(Received::Trailers(fields)) => receiving.upload.keep_trailers(fields),
                Ok(Received::End) => {
                    receiving.upload.complete();
                    return self.settle(key);
                }
                Ok(Received::Pending) | Err(_) => return,
            }
        }
    }

    fn respond(&mut self, key: Key, response: Response<Body>, endpoint: &mut Endpoint) {
        let (handle, stream) = key;
        let (parts, body) = response.into_parts();
        let head = Response::from_parts(parts, ());
        let end = body.is_end_stream();
        if let Err(error) = endpoint.send_response(handle, stream, &head, end) {
            return self.cut_off(key, &error.into(), endpoint);
        }
        if end {
            return self.answered(key, endpoint);
        }
        self.start(key, Source::of(body), endpoint);
    }

    fn start(&mut self, key: Key, source: Source, endpoint: &mut Endpoint) {
        if let Some(connection) = self.connections.get_mut(&key.0) {
            let moved = self.now;
            let held = connection.admitted.held().holder();
            let outgoing = Outgoing {
                source,
                moved,
                held,
            };
            connection.sending.insert(key.1, outgoing);
            self.go_on(key, endpoint);
        }
    }

    fn go_on(&mut self, key: Key, endpoint: &mut Endpoint) {
        let connection = self.connections.get_mut(&key.0);
        let Some(outgoing) = connection.and_then(|it| it.sending.get_mut(&key.1)) else {
            return;
        };
        let mut sources = Sources {
            exchanges: &mut self.exchanges,
            files: &self.memory.files,
            now: self.now,
        };
        let sent = outgoing.hand_over(key, &mut sources, endpoint);
        match sent {
            Ok(Sent::Part) => {}
            Ok(Sent::All) => {
                if let Some(connection) = self.connections.get_mut(&key.0) {
                    connection.sending.remove(&key.1);
                }
                self.answered(key, endpoint);
            }
            Err(error) => self.cut_off(key, &error, endpoint),
        }
    }

    /// The response has been handed over whole.
    fn answered(&mut self, key: Key, endpoint: &mut Endpoint) {
        if let Some(connection) = self.connections.get_mut(&key.0) {
            connection.end(key.1);
        }
        if let Some(receiving) = self.exchanges.upload(key) {
            receiving.answered = true;
            self.settle(key);
        }
        self.observe_often(key.0, endpoint);
    }

    /// Forgets an exchange that is over.
    fn settle(&mut self, key: Key) {
        if self.exchanges.upload(key).is_some_and(|it| it.is_over()) {
            self.forget(key);
        }
    }

    /// The promised length can't be kept, and the client must notice.
    fn cut_off(&mut self, key: Key, error: &BoxError, endpoint: &mut Endpoint) {
        tracing::debug!(%error, "cannot send a response on");
        // What the client took back it may take back as often as the engine bears.
        let is_taken_back = matches!(
            error.downcast_ref(),
            Some(Error::StreamReset { .. } | Error::UnknownConnection)
        );
        if !is_taken_back {
            self.record(key.0, Incident::BrokenResponse);
        }
        endpoint.reset_stream(key.0, key.1, Code::H3_INTERNAL_ERROR);
        self.forget(key);
    }

    fn record(&self, handle: ConnectionHandle, incident: Incident) {
        if let Some(connection) = self.connections.get(&handle) {
            let incidents = &self.setup.service.incidents;
            incidents.record(connection.peer.ip(), incident);
        }
    }

    fn forget(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(&key.0) {
            connection.sending.remove(&key.1);
            connection.end(key.1);
        }
        self.exchanges.cancel(key);
        self.ready.retain(|(of, _)| *of != key);
    }

    /// Measures the path, now and then.
    fn observe_often(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        let now = self.now;
        let is_new = |measured: Instant| now.saturating_duration_since(measured) < DECISION_AGE;
        let connection = self.connections.get_mut(&handle);
        if let Some(connection) = connection.filter(|it| !it.measured.is_some_and(is_new)) {
            connection.measured = Some(now);
            connection.verdict = None;
            self.observe(handle, endpoint);
        }
    }

    /// Reports what is new of a connection's path; what all of it is.
    fn observe(
        &mut self,
        handle: ConnectionHandle,
        endpoint: &mut Endpoint,
    ) -> Option<ConnectionStatistics> {
        let connection = self.connections.get_mut(&handle)?;
        let path = endpoint.path_statistics(handle)?;
        let statistics = path_meter::of_quic(&path, endpoint.deliveries(handle));
        let paths = &self.setup.service.paths;
        connection.meter.observe(statistics, paths);
        Some(statistics)
    }
}

impl Connection {
    /// A request has come; whether its client may have one more.
    fn begin(&mut self, stream: StreamId) -> bool {
        self.in_progress.insert(stream);
        self.admitted.set_requests(self.in_progress.len())
    }

    /// Its response has been handed over whole, or never will be.
    fn end(&mut self, stream: StreamId) {
        if self.in_progress.remove(&stream) {
            self.admitted.set_requests(self.in_progress.len());
        }
    }
}

impl Source {
    fn of(body: Body) -> Self {
        match body.into_file() {
            Ok((range, exchange)) => Self::File(Reading::File(range), exchange),
            Err(body) => Self::Body(Sending::new(body)),
        }
    }

    /// Bytes in memory that wait for the client.
    fn held(&self) -> usize {
        match self {
            Self::Body(sending) => sending.held(),
            Self::File(reading, _) => reading.held(),
        }
    }

    /// Whether bytes wait for the client, not for whoever makes them.
    fn is_held_up(&self) -> bool {
        match self {
            Self::Body(sending) => sending.is_held_up(),
            Self::File(..) => true,
        }
    }
}

/// Where bodies come from.
struct Sources<'a> {
    exchanges: &'a mut Exchanges<Key>,
    files: &'a RefCell<FileCache>,
    now: Instant,
}

impl Outgoing {
    /// Hands over as much as the engine takes, and counts what is left in memory.
    fn hand_over(
        &mut self,
        key: Key,
        sources: &mut Sources<'_>,
        endpoint: &mut Endpoint,
    ) -> Result<Sent, BoxError> {
        let sent = self.send(key, sources, endpoint);
        self.held.set(RESPONSE_OVERHEAD + self.source.held());
        sent
    }

    fn send(
        &mut self,
        key: Key,
        sources: &mut Sources<'_>,
        endpoint: &mut Endpoint,
    ) -> Result<Sent, BoxError> {
        let mut limit = FIRST_PIECE;
        loop {
            let mut piece;
            let (chunk, last) = match &mut self.source {
                Source::File(reading, _) => {
                    piece = reading.next(&mut sources.files.borrow_mut(), limit)?;
                    (&mut piece.bytes, piece.last)
                }
                Source::Body(sending) => match sending.next(key, sources.exchanges)? {
                    Next::Nothing => return Ok(Sent::Part),
                    Next::Data { chunk, last } => (chunk, last),
                    Next::Trailers(trailers) => {
                        endpoint.send_trailers(key.0, key.1, &trailers)?;
                        return Ok(Sent::All);
                    }
                },
            };
            let before = chunk.len();
            endpoint.send_data(key.0, key.1, chunk, last)?;
            let left = chunk.len();
            if left < before {
                self.moved = sources.now;
            }
            if let Source::File(reading, exchange) = &mut self.source {
                reading.advance(before - left);
                if let Some(exchange) = exchange {
                    exchange.sent(before - left);
                }
            }
            match (left, last) {
                (0, true) => return Ok(Sent::All),
                (0, false) => limit = usize::MAX,
                _ => return Ok(Sent::Part),
            }
        }
    }
}

fn is_fault_of_peer(reason: &CloseReason) -> bool {
    matches!(reason, CloseReason::Local { code, .. } if *code != Code::H3_NO_ERROR)
}

fn send_interim(key: Key, status: StatusCode, fields: HeaderMap, endpoint: &mut Endpoint) {
    let mut head = Response::new(());
    *head.status_mut() = status;
    *head.headers_mut() = fields;
    // Refused where the response has begun: then the client has its answer.
    let _ = endpoint.send_response(key.0, key.1, &head, false);
}
