//! Requests in, responses out: what the engine's events mean to the server.
//!
//! Who answers a request is found out by [`Requests`], and what follows is done by [`Exchanges`], as on the other
//! protocols.

use super::admission;
use crate::RequestBody;
use crate::client_auth::Presented;
use crate::incidents::Incident;
use crate::request::carrier::Carrier;
use crate::request::exchanges::{Exchanges, Means};
use crate::request::handler::BoxError;
use crate::request::log::Protocol;
use crate::request::pending::{PendingWork, Ready, Taken};
use crate::request::prepared::Prepared;
use crate::request::requests::{Now, Requests, Screened};
use crate::request::terms::Terms;
use crate::selection::counters::Counters;
use crate::setup::{Memory, Setup};
use altway_http3::{
    CloseReason, Code, ConnectionHandle, Endpoint, Error, Event, Received, StreamId,
};
use altway_select::Decision;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
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

/// One exchange.
type Key = (ConnectionHandle, StreamId);

/// All responses that are on their way. Bounded by the engine's limits of connections and of
/// requests on each; a response holds one chunk of its body, an upload [`MAX_UNREAD`] bytes.
pub(super) struct Responses {
    setup: Arc<Setup>,
    /// Boxed: the table has room for up to twice as many as there are.
    connections: FxHashMap<ConnectionHandle, Box<Connection>>,
    pending: PendingWork<Key>,
    memory: Memory,
    /// The place of the address among the server's.
    listener: usize,
    /// The terms of its requests: a response over HTTP/3 says again whether it is offered.
    terms: Terms,
    /// When the turn began.
    now: Now,
    /// Connections of which a request has come to its end in this turn.
    changed: Vec<ConnectionHandle>,
}

struct Connection {
    exchanges: Exchanges<Weak<Request<()>>, StreamId>,
    in_progress: InProgress,
}

/// The requests of a connection whose responses have not been handed over whole.
#[derive(Default)]
struct InProgress {
    streams: FxHashSet<StreamId>,
    /// Whether they are fewer than the table of clients was told of.
    has_changed: bool,
}

impl Responses {
    pub(super) fn new(setup: Arc<Setup>, memory: Memory, listener: usize) -> Self {
        Self {
            terms: setup.listeners[listener].terms,
            setup,
            memory,
            listener,
            now: Now::read(),
            connections: FxHashMap::default(),
            pending: PendingWork::new(),
            changed: Vec::new(),
        }
    }

    /// Whether nothing is on its way.
    pub(super) fn is_empty(&self) -> bool {
        let mut connections = self.connections.values();
        self.pending.is_idle() && !connections.any(|it| it.exchanges.is_sending())
    }

    /// Ready when an exchange can go on.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.pending.poll(cx) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Whether a connection is there and has to make room for others.
    pub(super) fn is_evicted(&self, handle: ConnectionHandle) -> bool {
        let connection = self.connections.get(&handle);
        connection.is_some_and(|it| it.exchanges.requests.admitted().is_evicted())
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
                        connection.exchanges.requests.visit().early();
                    }
                }
                Event::Connected => {
                    self.connected(handle, endpoint);
                    if let Some(connection) = self.connections.get(&handle) {
                        connection.exchanges.requests.admitted().handshake_done();
                    }
                }
                Event::Request { stream, head, end } => {
                    self.request((handle, stream), head, end, endpoint);
                }
                Event::Readable { stream } => self.receive((handle, stream), endpoint),
                Event::Writable { stream } => {
                    self.with(handle, endpoint, |it, means| it.send(stream, means));
                }
                Event::Answered { status, .. } => self.answered_below(handle, status),
                Event::Stalled { .. } => self.record(handle, Incident::SlowClient),
                Event::StreamReset { stream, .. } => self.cancelled((handle, stream), endpoint),
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
        while let Some((key, ready)) = self.pending.next_ready() {
            self.go_on(key, ready, endpoint);
        }
        self.count_requests();
    }

    /// Gives up responses whose clients have taken nothing of them for as long as they may, and what is
    /// kept of requests that don't come again.
    pub(super) fn cut_off_stalled(&mut self, endpoint: &mut Endpoint) {
        let (limit, _) = self.setup.limits.least_progress();
        let handles: Vec<_> = self.connections.keys().copied().collect();
        for handle in handles {
            self.with(handle, endpoint, |exchanges, means| {
                let requests = &mut exchanges.requests;
                requests.forget_latest_if(|request| request.strong_count() == 0);
                for stream in exchanges.stalled(limit) {
                    exchanges.requests.record(Incident::SlowClient);
                    means.carrier.reset(stream, Code::H3_REQUEST_CANCELLED);
                    exchanges.forget(stream, means);
                }
            });
        }
        self.count_requests();
    }

    /// Does something to a connection's exchanges; `None`: it has gone.
    fn with<T>(
        &mut self,
        handle: ConnectionHandle,
        endpoint: &mut Endpoint,
        work: impl FnOnce(
            &mut Exchanges<Weak<Request<()>>, StreamId>,
            &mut Means<'_, Http3Carrier<'_>>,
        ) -> T,
    ) -> Option<T> {
        let Connection {
            exchanges,
            in_progress,
        } = &mut **self.connections.get_mut(&handle)?;
        let carrier = Http3Carrier {
            endpoint,
            handle,
            in_progress,
            changed: &mut self.changed,
        };
        let mut means = Means {
            carrier,
            pending: &mut self.pending,
            files: &self.memory.files,
            now: self.now,
        };
        Some(work(exchanges, &mut means))
    }

    /// Tells the table of clients of requests that have come to their end: once a turn, not once a request.
    fn count_requests(&mut self) {
        for handle in self.changed.drain(..) {
            if let Some(connection) = self.connections.get_mut(&handle) {
                let Connection {
                    exchanges,
                    in_progress,
                } = &mut **connection;
                in_progress.has_changed = false;
                let admitted = exchanges.requests.admitted();
                admitted.set_requests(in_progress.streams.len());
            }
        }
    }

    fn connected(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        let Some(remote) = endpoint.remote_address(handle) else {
            return;
        };
        let Some(admitted) = endpoint.guard(handle).and_then(admission::admitted) else {
            return;
        };
        admitted.name(self.listener, handle);
        let client = remote.ip().to_canonical();
        // One with early data is told of twice.
        let (responder, terms) = (Rc::clone(&self.memory.responder), self.terms);
        let peer = SocketAddr::new(client, remote.port());
        let handshake = endpoint.path_statistics(handle).and_then(|it| it.handshake);
        let began = self.now.instant.checked_sub(handshake.unwrap_or_default());
        let began = began.unwrap_or(self.now.instant);
        let asks = self.setup.service.current.get().asked_names.is_some();
        self.connections.entry(handle).or_insert_with(|| {
            let identity = asks.then(|| endpoint.peer_identity(handle)).flatten();
            let presented = identity
                .map(|it| Rc::new(Presented::new(it.server_name.as_deref(), &it.certificates)));
            let requests = Requests::new(responder, Protocol::Http3, peer, admitted, began, terms);
            Box::new(Connection {
                exchanges: Exchanges::new(requests.presented(presented)),
                in_progress: InProgress::default(),
            })
        });
    }

    fn closed(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        let counters = counters(endpoint, handle);
        tracing::debug!(?handle, ?counters, "connection ended");
        if let Some(mut connection) = self.connections.remove(&handle) {
            connection.exchanges.requests.ended(|| counters);
        }
        self.pending.cancel_all(|(of, _)| of == handle);
    }

    fn request(
        &mut self,
        (handle, stream): Key,
        head: Arc<Request<()>>,
        end: bool,
        endpoint: &mut Endpoint,
    ) {
        self.with(handle, endpoint, |exchanges, means| {
            if exchanges.must_take_first() {
                return means.carrier.reset(stream, Code::H3_REQUEST_REJECTED);
            }
            let in_progress = means.carrier.begin(stream);
            let (requests, now) = (&mut exchanges.requests, means.now);
            let read = || means.carrier.counters();
            match requests.screen(&head, end, in_progress, now, read) {
                Screened::Refused(response) => {
                    exchanges.respond(stream, response, means);
                    means.carrier.leave_content(stream);
                }
                Screened::Prepared(prepared) => exchanges.send_prepared(stream, &prepared, means),
                Screened::Service => {
                    let head = Arc::unwrap_or_clone(head);
                    let body = match end {
                        true => RequestBody::empty(),
                        false => {
                            let held = exchanges.requests.admitted().held().holder();
                            let body = means.pending.receive((handle, stream), &head);
                            if let Some(receiving) = means.pending.upload((handle, stream)) {
                                receiving.held = Some(held);
                            }
                            body
                        }
                    };
                    exchanges.ask(stream, head.map(|()| body), means);
                }
            }
        });
    }

    fn go_on(&mut self, key: Key, ready: Ready, endpoint: &mut Endpoint) {
        let has_read = matches!(ready, Ready::Report(_));
        self.with(key.0, endpoint, |it, means| it.go_on(key.1, ready, means));
        if has_read {
            // There is room for more.
            self.receive(key, endpoint);
        }
    }

    /// Reads on in an upload, as far as its reader keeps up. The engine lets the client send as much
    /// more as was read.
    fn receive(&mut self, key: Key, endpoint: &mut Endpoint) {
        self.read_on(key, endpoint);
        self.with(key.0, endpoint, |it, means| it.received(key.1, means));
    }

    fn read_on(&mut self, key: Key, endpoint: &mut Endpoint) {
        while let Some(receiving) = self.pending.upload(key)
            && receiving.has_room(MAX_UNREAD)
        {
            match endpoint.recv_data(key.0, key.1) {
                Ok(Received::Data(data)) => {
                    if self.pending.take(key, data.len(), || data) != Taken::Kept {
                        // Nobody wants it (RFC 9114 section 4.1).
                        endpoint.stop_reading(key.0, key.1, Code::H3_NO_ERROR);
                        self.pending.end_upload(key);
                        return;
                    }
                }
                Ok(Received::Trailers(fields)) => receiving.upload.keep_trailers(fields),
                Ok(Received::End) => return receiving.upload.complete(),
                Ok(Received::Pending) => return,
                Err(Error::StreamReset { .. }) => return self.cancelled(key, endpoint),
                Err(_) => {
                    // Nothing more of it will come, for instance as its response has arrived.
                    self.pending.end_upload(key);
                    return;
                }
            }
        }
    }

    /// The client has given an exchange up.
    fn cancelled(&mut self, (handle, stream): Key, endpoint: &mut Endpoint) {
        self.with(handle, endpoint, |it, means| it.cancelled(stream, means));
    }

    /// Counts a request that the engine has answered by itself.
    fn answered_below(&mut self, handle: ConnectionHandle, status: StatusCode) {
        if let Some(connection) = self.connections.get(&handle) {
            connection.exchanges.requests.answered_below(status);
        }
    }

    fn record(&self, handle: ConnectionHandle, incident: Incident) {
        if let Some(connection) = self.connections.get(&handle) {
            connection.exchanges.requests.record(incident);
        }
    }

    /// The client has everything that it asked for.
    fn delivered(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        if let Some(connection) = self.connections.get_mut(&handle) {
            let visit = connection.exchanges.requests.visit();
            visit.arrived(self.now.instant, || counters(endpoint, handle));
        }
    }
}

fn counters(endpoint: &mut Endpoint, handle: ConnectionHandle) -> Option<Counters> {
    endpoint
        .path_statistics(handle)
        .map(|path| Counters::of_quic(&path))
}

/// A connection among those of its endpoint.
struct Http3Carrier<'a> {
    endpoint: &'a mut Endpoint,
    handle: ConnectionHandle,
    in_progress: &'a mut InProgress,
    changed: &'a mut Vec<ConnectionHandle>,
}

impl Http3Carrier<'_> {
    /// A request has come; how many are in progress with it.
    fn begin(&mut self, stream: StreamId) -> usize {
        self.in_progress.streams.insert(stream);
        self.in_progress.streams.len()
    }

    fn reset(&mut self, stream: StreamId, code: Code) {
        self.endpoint.reset_stream(self.handle, stream, code);
    }
}

impl Carrier for Http3Carrier<'_> {
    type Stream = StreamId;
    type Key = Key;

    /// The engine drops what nobody reads, for as long as the client needs to see its answer.
    const ANSWERS_EARLY: bool = true;

    fn key(&self, stream: StreamId) -> Key {
        (self.handle, stream)
    }

    fn send_informational(&mut self, stream: StreamId, status: StatusCode, fields: HeaderMap) {
        let mut head = Response::new(());
        *head.status_mut() = status;
        *head.headers_mut() = fields;
        let _ = self
            .endpoint
            .send_response(self.handle, stream, &head, false);
    }

    fn send_head(
        &mut self,
        stream: StreamId,
        head: Response<()>,
        end: bool,
    ) -> Result<(), BoxError> {
        let sent = self.endpoint.send_response(self.handle, stream, &head, end);
        Ok(sent?)
    }

    /// Sends a head that is made once a second.
    fn send_prepared<I>(
        &mut self,
        stream: StreamId,
        requests: &Requests<I>,
        prepared: &Prepared,
        decision: Option<&Decision>,
        now: Now,
    ) -> Result<usize, BoxError> {
        let entry = &prepared.entry;
        let head = requests.prepared_head(prepared, decision, now);
        let mut data = entry.whole().cloned().unwrap_or_default();
        let (whole, end) = (data.len(), data.len() as u64 == entry.size);
        let endpoint = &mut self.endpoint;
        endpoint.send_message(self.handle, stream, &head, &mut data, end)?;
        Ok(whole - data.len())
    }

    /// What a stream takes can't be asked: a little is tried first.
    fn room(&self, _: StreamId, again: bool) -> Option<usize> {
        Some(if again { usize::MAX } else { FIRST_PIECE })
    }

    fn send_data(
        &mut self,
        stream: StreamId,
        data: &mut Bytes,
        last: bool,
    ) -> Result<(), BoxError> {
        Ok(self.endpoint.send_data(self.handle, stream, data, last)?)
    }

    fn send_trailers(&mut self, stream: StreamId, fields: &HeaderMap) -> Result<(), BoxError> {
        let sent = self.endpoint.send_trailers(self.handle, stream, fields);
        Ok(sent?)
    }

    /// Does nothing: the engine gives credit for what is read.
    fn release(&mut self, _: StreamId, _: usize) {}

    fn leave_content(&mut self, stream: StreamId) -> bool {
        // Nobody wants it (RFC 9114 section 4.1).
        let code = Code::H3_NO_ERROR;
        self.endpoint.stop_reading(self.handle, stream, code);
        true
    }

    fn abandon(&mut self, stream: StreamId) {
        self.reset(stream, Code::H3_INTERNAL_ERROR);
    }

    fn is_taken_back(error: &BoxError) -> bool {
        matches!(
            error.downcast_ref(),
            Some(Error::StreamReset { .. } | Error::UnknownConnection)
        )
    }

    fn over(&mut self, stream: StreamId) {
        let in_progress = &mut self.in_progress;
        let is_news = in_progress.streams.remove(&stream) && !in_progress.has_changed;
        if is_news {
            in_progress.has_changed = true;
            self.changed.push(self.handle);
        }
    }

    fn in_progress(&self) -> usize {
        self.in_progress.streams.len()
    }

    /// An event of the engine's tells it.
    fn watch(&mut self) {}

    fn counters(&mut self) -> Option<Counters> {
        counters(self.endpoint, self.handle)
    }
}

fn is_fault_of_peer(reason: &CloseReason) -> bool {
    matches!(reason, CloseReason::Local { code, .. } if *code != Code::H3_NO_ERROR)
}
