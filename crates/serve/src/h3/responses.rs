//! Requests in, responses out: what the engine's events mean to the server.

use super::admission;
use crate::RequestBody;
use crate::embed::Answering;
use crate::held::Held;
use crate::incidents::Incident;
use crate::request::body::Body;
use crate::request::handler::BoxError;
use crate::request::log::Protocol;
use crate::request::outgoing::{Carrier, Outgoing, Sent};
use crate::request::pending::{Exchanges, Ready, Taken, Work};
use crate::request::prepared::Prepared;
use crate::request::requests::{Answer, Answered, Now, Requests, Screened};
use crate::request::terms::Terms;
use crate::selection::counters::Counters;
use crate::setup::{Memory, Setup};
use altway_http3::{
    CloseReason, Code, ConnectionHandle, Endpoint, Error, Event, Received, StreamId,
};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Body as _;
use rustc_hash::{FxHashMap, FxHashSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime};

/// So many bytes of an upload wait for their reader at most, beyond the last datagrams'.
const MAX_UNREAD: usize = 64 << 10;

/// Bytes of a file that are read to see whether a stream takes any. Those that it doesn't take are read
/// again when it does: a client that takes nothing holds nothing.
const FIRST_PIECE: usize = 4 << 10;

/// HTTP/3 is always over TLS, and a response over it says again whether it is offered.
const TERMS: Terms = Terms {
    is_secure: true,
    offers_http3: true,
    redirect: None,
};

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
    now: Now,
}

struct Connection {
    requests: Requests<Weak<Request<()>>>,
    /// Those whose responses have not been handed over whole.
    in_progress: FxHashSet<StreamId>,
    sending: FxHashMap<StreamId, Outgoing>,
}

impl Responses {
    pub(super) fn new(setup: Arc<Setup>, memory: Memory) -> Self {
        Self {
            setup,
            memory,
            now: Now::read(),
            connections: FxHashMap::default(),
            exchanges: Exchanges::new(),
        }
    }

    /// Whether nothing is on its way.
    pub(super) fn is_empty(&self) -> bool {
        let mut connections = self.connections.values();
        self.exchanges.is_idle() && connections.all(|connection| connection.sending.is_empty())
    }

    /// Ready when an exchange can go on.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.exchanges.poll(cx) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Whether a connection is there and has to make room for others.
    pub(super) fn is_evicted(&self, handle: ConnectionHandle) -> bool {
        let connection = self.connections.get(&handle);
        connection.is_some_and(|connection| connection.requests.admitted().is_evicted())
    }

    pub(super) fn connections(&self) -> impl Iterator<Item = ConnectionHandle> {
        self.connections.keys().copied()
    }

    /// Handles every event that the engine has, and goes on with every exchange that can.
    pub(super) fn answer(&mut self, now: Instant, endpoint: &mut Endpoint) {
        self.now = Now {
            instant: now,
            system: SystemTime::now(),
        };
        while let Some((handle, event)) = endpoint.poll_event() {
            match event {
                Event::EarlyData => {
                    self.connected(handle, endpoint);
                    if let Some(connection) = self.connections.get_mut(&handle) {
                        connection.requests.visit().early();
                    }
                }
                Event::Connected => {
                    self.connected(handle, endpoint);
                    if let Some(connection) = self.connections.get(&handle) {
                        connection.requests.admitted().handshake_done();
                    }
                }
                Event::Request { stream, head, end } => {
                    self.request((handle, stream), head, end, endpoint);
                }
                Event::Readable { stream } => self.receive((handle, stream), endpoint),
                Event::Writable { stream } => self.go_on((handle, stream), endpoint),
                Event::Answered { status, .. } => self.answered_below(handle, status),
                Event::Stalled { .. } => self.record(handle, Incident::SlowClient),
                Event::StreamReset { stream, .. } => self.cancelled((handle, stream)),
                Event::Delivered => self.delivered(handle, endpoint),
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
        while let Some((key, ready)) = self.exchanges.next_ready() {
            self.proceed(key, ready, endpoint);
        }
    }

    /// Gives up responses whose clients have taken nothing of them for as long as they may, and what is
    /// kept of requests that don't come again.
    pub(super) fn cut_off_stalled(&mut self, endpoint: &mut Endpoint) {
        let (limit, _) = self.setup.limits.least_progress();
        let exchanges = &mut self.exchanges;
        for (handle, connection) in &mut self.connections {
            let Connection {
                requests,
                sending,
                in_progress,
                ..
            } = &mut **connection;
            requests.forget_latest_if(|request| request.strong_count() == 0);
            sending.retain(|stream, outgoing| {
                let held_up = outgoing.is_held_up();
                let stalled = held_up && outgoing.moved.elapsed() >= limit;
                if stalled {
                    requests.record(Incident::SlowClient);
                    endpoint.reset_stream(*handle, *stream, Code::H3_REQUEST_CANCELLED);
                    exchanges.cancel((*handle, *stream));
                    in_progress.remove(stream);
                    requests.admitted().set_requests(in_progress.len());
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
        let responder = Rc::clone(&self.memory.responder);
        let peer = SocketAddr::new(client, remote.port());
        let handshake = endpoint.path_statistics(handle).and_then(|it| it.handshake);
        let began = self.now.instant.checked_sub(handshake.unwrap_or_default());
        let began = began.unwrap_or(self.now.instant);
        self.connections.entry(handle).or_insert_with(|| {
            Box::new(Connection {
                requests: Requests::new(responder, Protocol::Http3, peer, admitted, began, TERMS),
                in_progress: FxHashSet::default(),
                sending: FxHashMap::default(),
            })
        });
    }

    fn closed(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        let counters = counters(endpoint, handle);
        tracing::debug!(?handle, ?counters, "connection ended");
        if let Some(mut connection) = self.connections.remove(&handle) {
            connection.requests.ended(|| counters);
        }
        self.exchanges.cancel_all(|(of, _)| of == handle);
    }

    fn request(&mut self, key: Key, head: Arc<Request<()>>, end: bool, endpoint: &mut Endpoint) {
        let Some(connection) = self.connections.get_mut(&key.0) else {
            return;
        };
        let requests = &mut connection.requests;
        if requests.must_take_first(!connection.sending.is_empty()) {
            return endpoint.reset_stream(key.0, key.1, Code::H3_REQUEST_REJECTED);
        }
        connection.in_progress.insert(key.1);
        let read = || counters(endpoint, key.0);
        let in_progress = connection.in_progress.len();
        match requests.screen(&head, end, in_progress, self.now, read) {
            Screened::Refused(response) => {
                self.respond(key, response, endpoint);
                // Nobody wants its content (RFC 9114 section 4.1).
                endpoint.stop_reading(key.0, key.1, Code::H3_NO_ERROR);
            }
            Screened::Prepared(prepared) => self.send_prepared(key, &prepared, endpoint),
            Screened::Service => self.ask(key, Arc::unwrap_or_clone(head), end, endpoint),
        }
    }

    /// Answers with a file of the cache, by a head that is made once a second.
    fn send_prepared(&mut self, key: Key, prepared: &Prepared, endpoint: &mut Endpoint) {
        let Some(connection) = self.connections.get_mut(&key.0) else {
            return;
        };
        let (requests, now, entry) = (&mut connection.requests, self.now, &prepared.entry);
        let decision = requests.decision(Some(entry.size), now);
        let head = requests.prepared_head(prepared, decision.as_ref(), now);
        let mut data = entry.whole().cloned().unwrap_or_default();
        let (whole, end) = (data.len(), data.len() as u64 == entry.size);
        if let Err(error) = endpoint.send_message(key.0, key.1, &head, &mut data, end) {
            return self.cut_off(key, &error.into(), endpoint);
        }
        let sent = whole - data.len();
        let rest = requests.sent_prepared(prepared, decision, sent, now);
        self.sent(key.0, sent, endpoint);
        match rest {
            // The usual case: it is small, and the window is open.
            None => self.answered(key, endpoint),
            Some(rest) => self.start(
                key,
                |held, now| Outgoing::of_file(rest, held, now),
                endpoint,
            ),
        }
    }

    fn ask(&mut self, key: Key, head: Request<()>, end: bool, endpoint: &mut Endpoint) {
        let Some(connection) = self.connections.get_mut(&key.0) else {
            return;
        };
        let body = if end {
            RequestBody::empty()
        } else {
            let held = connection.requests.admitted().held().holder();
            let body = self.exchanges.receive(key, &head);
            if let Some(receiving) = self.exchanges.upload(key) {
                receiving.held = Some(held);
            }
            body
        };
        match connection.requests.ask(head.map(|()| body), self.now) {
            Answer::Now(response) => self.respond(key, response, endpoint),
            Answer::Later(answering) => self.await_response(key, answering, endpoint),
        }
    }

    fn await_response(
        &mut self,
        key: Key,
        answering: Answering<Answered>,
        endpoint: &mut Endpoint,
    ) {
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
            Ready::Response(answered) => {
                if let Some(connection) = self.connections.get_mut(&key.0) {
                    let response = connection.requests.finish(answered, self.now);
                    self.respond(key, response, endpoint);
                }
            }
            Ready::Frame(body, frame) => {
                let connection = self.connections.get_mut(&key.0);
                let Some(outgoing) = connection.and_then(|it| it.sending.get_mut(&key.1)) else {
                    return;
                };
                match outgoing.resume(body, frame, self.now.instant) {
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
                self.settle(key, endpoint);
            }
        }
    }

    /// Reads on in an upload, as far as its reader keeps up. The engine lets the client send as much
    /// more as was read.
    fn receive(&mut self, key: Key, endpoint: &mut Endpoint) {
        self.read_on(key, endpoint);
        if let Some(receiving) = self.exchanges.upload(key) {
            receiving.count();
            self.leave_unwanted(key, endpoint);
        }
    }

    /// Leaves to the engine what is still to come of an upload that is answered and has no reader.
    fn leave_unwanted(&mut self, key: Key, endpoint: &mut Endpoint) {
        let upload = self.exchanges.upload(key);
        if upload.is_some_and(|it| it.answered && it.upload.is_dropped()) {
            endpoint.stop_reading(key.0, key.1, Code::H3_NO_ERROR);
            self.exchanges.end_upload(key);
        }
    }

    fn read_on(&mut self, key: Key, endpoint: &mut Endpoint) {
        while let Some(receiving) = self.exchanges.upload(key)
            && receiving.has_room(MAX_UNREAD)
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
                    return self.settle(key, endpoint);
                }
                Ok(Received::Pending) => return,
                Err(Error::StreamReset { .. }) => return self.cancelled(key),
                Err(_) => {
                    // Nothing more of it will come, for instance as its response has arrived.
                    self.exchanges.end_upload(key);
                    return;
                }
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
        self.start(key, |held, now| Outgoing::of(body, held, now), endpoint);
    }

    /// Begins to send what is left of a response.
    fn start(
        &mut self,
        key: Key,
        outgoing: impl FnOnce(Held, Instant) -> Outgoing,
        endpoint: &mut Endpoint,
    ) {
        if let Some(connection) = self.connections.get_mut(&key.0) {
            let held = connection.requests.admitted().held().holder();
            let outgoing = outgoing(held, self.now.instant);
            connection.sending.insert(key.1, outgoing);
            self.go_on(key, endpoint);
        }
    }

    fn go_on(&mut self, key: Key, endpoint: &mut Endpoint) {
        let connection = self.connections.get_mut(&key.0);
        let Some(outgoing) = connection.and_then(|it| it.sending.get_mut(&key.1)) else {
            return;
        };
        let sent = outgoing.hand_over(
            key,
            &mut Http3Carrier(endpoint),
            &mut self.exchanges,
            &self.memory.files,
            self.now.instant,
        );
        let bytes = outgoing.take_handed_over();
        self.sent(key.0, bytes, endpoint);
        match sent {
            Ok(Sent::Part) => {}
            Ok(Sent::Waiting) => {
                if let Some(connection) = self.connections.get_mut(&key.0) {
                    connection.requests.starve();
                }
            }
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
            // What tells when the client has everything is an event of the engine's.
            let _ = connection
                .requests
                .completed(self.now, || counters(endpoint, key.0));
        }
        if let Some(receiving) = self.exchanges.upload(key) {
            receiving.answered = true;
            self.settle(key, endpoint);
            self.leave_unwanted(key, endpoint);
        }
    }

    /// Forgets an exchange that is over, or is but for what nobody will read.
    fn settle(&mut self, key: Key, endpoint: &mut Endpoint) {
        let Some(receiving) = self.exchanges.upload(key) else {
            return;
        };
        if receiving.is_unwanted() {
            endpoint.stop_reading(key.0, key.1, Code::H3_NO_ERROR);
        } else if !receiving.is_over() {
            return;
        }
        self.forget(key);
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

    /// Counts a request that the engine has answered by itself.
    fn answered_below(&mut self, handle: ConnectionHandle, status: StatusCode) {
        if let Some(connection) = self.connections.get(&handle) {
            connection.requests.answered_below(status);
        }
    }

    fn record(&self, handle: ConnectionHandle, incident: Incident) {
        if let Some(connection) = self.connections.get(&handle) {
            connection.requests.record(incident);
        }
    }

    fn forget(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(&key.0) {
            connection.sending.remove(&key.1);
            connection.end(key.1);
        }
        self.exchanges.cancel(key);
    }

    /// The client has given an exchange up.
    fn cancelled(&mut self, key: Key) {
        self.forget(key);
        if let Some(connection) = self.connections.get_mut(&key.0)
            && connection.in_progress.is_empty()
        {
            connection.requests.visit().cancelled(self.now.instant);
        }
    }

    /// The client has everything that it asked for.
    fn delivered(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        if let Some(connection) = self.connections.get_mut(&handle) {
            let visit = connection.requests.visit();
            visit.arrived(self.now.instant, || counters(endpoint, handle));
        }
    }

    /// Counts what was handed over of a response.
    fn sent(&mut self, handle: ConnectionHandle, bytes: usize, endpoint: &mut Endpoint) {
        if let Some(connection) = self.connections.get_mut(&handle) {
            let now = self.now.instant;
            connection
                .requests
                .sent(bytes as u64, now, || counters(endpoint, handle));
        }
    }
}

fn counters(endpoint: &mut Endpoint, handle: ConnectionHandle) -> Option<Counters> {
    endpoint
        .path_statistics(handle)
        .map(|path| Counters::of_quic(&path))
}

impl Connection {
    /// Its response has been handed over whole, or never will be.
    fn end(&mut self, stream: StreamId) {
        if self.in_progress.remove(&stream) {
            let in_progress = self.in_progress.len();
            self.requests.admitted().set_requests(in_progress);
        }
    }
}

/// How responses' bodies leave.
struct Http3Carrier<'a>(&'a mut Endpoint);

impl Carrier for Http3Carrier<'_> {
    type Key = Key;

    /// What a stream takes can't be asked: a little is tried first.
    fn room(&self, _: Key, again: bool) -> Option<usize> {
        Some(if again { usize::MAX } else { FIRST_PIECE })
    }

    fn send_data(&mut self, key: Key, data: &mut Bytes, last: bool) -> Result<(), BoxError> {
        Ok(self.0.send_data(key.0, key.1, data, last)?)
    }

    fn send_trailers(&mut self, key: Key, fields: &HeaderMap) -> Result<(), BoxError> {
        Ok(self.0.send_trailers(key.0, key.1, fields)?)
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
