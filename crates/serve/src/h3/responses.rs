//! Requests in, responses out: what the engine's events mean to the server.
//!
//! [`Requests`] finds out who answers a request, and [`Exchanges`] does what follows, as on the other protocols.

use super::idle_close::{IdleClose, IdleCloses};
use crate::RequestBody;
use crate::client_auth::Presented;
use crate::client_prefix::canonical;
use crate::clients::AdmittedConnection;
use crate::incidents::Incident;
use crate::request::carrier::Carrier;
use crate::request::exchanges::{ExchangeContext, Exchanges, Tables};
use crate::request::handler::BoxError;
use crate::request::listener_policy::ListenerPolicy;
use crate::request::log::Protocol;
use crate::request::pending::{PendingWork, Ready, Taken};
use crate::request::prepared::Prepared;
use crate::request::rejected_head::RejectedHead;
use crate::request::requests::{AnswerSource, ConnectionFacts, Now, Requests};
use crate::selection::counters::Counters;
use crate::setup::{Setup, WorkerMemory};
use altway_http3::{
    self as http3, CloseReason, Code, ConnectionHandle, Error, Event, QuicConnection, Received,
    StreamId, quic,
};
use altway_select::Decision;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

/// Bytes of an upload that wait for their reader at most, beyond the last datagrams'.
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
    pending: PendingWork<Key>,
    /// Memory for responses that don't leave at once.
    tables: Rc<Tables<StreamId>>,
    memory: WorkerMemory,
    /// The place of the address among the server's.
    listener: usize,
    /// The policy of its requests: a response over HTTP/3 says again whether it is offered.
    listener_policy: ListenerPolicy,
    /// Time at which the turn began.
    now: Now,
    /// Connections of which a request has come to its end in this turn.
    changed: Vec<ConnectionHandle>,
    idle_closes: IdleCloses,
}

/// The endpoint of a worker, which has the table of its connections.
pub(super) type Endpoint = http3::Endpoint<Connection>;

/// State of the server's that is kept with each connection.
pub(super) struct Connection {
    admitted: Rc<AdmittedConnection>,
    /// The open connection: from the handshake, or early data, until its end was reported.
    open: Option<Box<Open>>,
}

/// The exchanges of one connection.
type Http3Exchanges = Exchanges<Weak<Request<()>>, StreamId>;

struct Open {
    exchanges: Http3Exchanges,
    in_progress: InProgress,
    idle_close: IdleClose,
}

impl Connection {
    pub(super) fn new(admitted: Rc<AdmittedConnection>) -> Self {
        Self {
            admitted,
            open: None,
        }
    }

    /// Returns true if the connection's beginning has been reported, and its end has not.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The state of the connection's close for idling; `None` if it is not open.
    pub(super) fn idle_close(&mut self) -> Option<&mut IdleClose> {
        self.open.as_mut().map(|open| &mut open.idle_close)
    }

    /// Returns true if the connection has to make room for others.
    pub(super) fn is_evicted(&self) -> bool {
        self.is_open() && self.admitted.is_evicted()
    }
}

/// The requests of a connection whose responses have not been handed over whole.
#[derive(Default)]
struct InProgress {
    /// Streams in no order. Bounded by the engine's limit of requests: most connections have a few, of which a list is
    /// quicker than a table.
    streams: Vec<StreamId>,
    /// True if there are fewer of them than the table of clients has noted.
    has_changed: bool,
}

impl Responses {
    pub(super) fn new(setup: Arc<Setup>, memory: WorkerMemory, listener: usize) -> Self {
        Self {
            listener_policy: setup.listeners[listener].listener_policy,
            setup,
            memory,
            listener,
            now: Now::read(),
            pending: PendingWork::new(Rc::default()),
            tables: Rc::default(),
            changed: Vec::new(),
            idle_closes: IdleCloses::default(),
        }
    }

    /// Returns true if no response is on its way.
    pub(super) fn is_empty(&self, endpoint: &Endpoint) -> bool {
        let mut open = endpoint.states().filter_map(|(_, it)| it.open.as_ref());
        self.pending.is_idle() && !open.any(|it| it.exchanges.is_sending())
    }

    /// Ready when an exchange can go on.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.pending.poll(cx) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Handles every event that the engine has, and goes on with every exchange that can.
    pub(super) fn answer(&mut self, now: Instant, endpoint: &mut Endpoint) {
        self.now = Now::at(now);
        self.idle_closes.close(now, endpoint);
        while let Some((handle, event)) = endpoint.poll_event() {
            match event {
                Event::EarlyData => {
                    if let Some(open) = self.connected(handle, endpoint) {
                        open.exchanges.requests.observer().early();
                    }
                }
                Event::Connected => {
                    if let Some(open) = self.connected(handle, endpoint) {
                        open.exchanges.requests.admitted().handshake_done();
                    }
                }
                Event::Request { stream, head, end } => {
                    self.request((handle, stream), head, end, endpoint);
                }
                Event::Readable { stream } => self.receive((handle, stream), endpoint),
                Event::Writable { stream } => {
                    self.with(handle, endpoint, |it, context| it.send(stream, context));
                }
                Event::RequestTooLarge { stream } => {
                    self.reject_head((handle, stream), RejectedHead::TooLarge, endpoint);
                }
                Event::RequestLate { stream } => {
                    self.reject_head((handle, stream), RejectedHead::Late, endpoint);
                }
                Event::RequestMalformed => record(endpoint, handle, Incident::RefusedRequest),
                Event::Answered { status, .. } => {
                    if let Some(open) = opened(endpoint, handle) {
                        open.exchanges.requests.answered_below(status);
                    }
                }
                Event::Stalled { .. } => record(endpoint, handle, Incident::SlowClient),
                Event::StreamReset { stream, .. } => self.cancelled((handle, stream), endpoint),
                Event::Delivered { in_progress } => self.delivered(handle, in_progress, endpoint),
                Event::Closed { reason } => {
                    tracing::debug!(?handle, %reason, "connection closed");
                    if let CloseReason::Local { code, .. } = reason
                        && let Some(incident) =
                            Incident::of_close(code, Code::H3_EXCESSIVE_LOAD, Code::H3_NO_ERROR)
                    {
                        record(endpoint, handle, incident);
                    }
                    self.closed(handle, endpoint);
                }
                _ => {}
            }
        }
        while let Some((key, ready)) = self.pending.next_ready() {
            self.go_on(key, ready, endpoint);
        }
        self.count_requests(endpoint);
    }

    /// Gives up responses whose clients have taken nothing of them for as long as they may, and what is
    /// kept of requests that don't come again.
    pub(super) fn cut_off_stalled(&mut self, endpoint: &mut Endpoint) {
        let (limit, _) = self.setup.limits.least_progress();
        for handle in open(endpoint) {
            let is_sending = opened(endpoint, handle).is_some_and(|open| {
                let requests = &mut open.exchanges.requests;
                requests.forget_latest_if(|request| request.strong_count() == 0);
                open.exchanges.is_sending()
            });
            if !is_sending {
                // To be lent a connection is to have it looked after in this turn, and all may be idle.
                continue;
            }
            self.with(handle, endpoint, |exchanges, context| {
                for stream in exchanges.stalled(limit) {
                    exchanges.requests.record(Incident::SlowClient);
                    context.carrier.reset(stream, Code::H3_REQUEST_CANCELLED);
                    exchanges.forget(stream, context);
                }
            });
        }
        self.count_requests(endpoint);
    }

    /// Does something to a connection's exchanges; `None`: it has gone.
    fn with<T>(
        &mut self,
        handle: ConnectionHandle,
        endpoint: &mut Endpoint,
        work: impl FnOnce(&mut Http3Exchanges, &mut ExchangeContext<'_, Http3Carrier<'_>>) -> T,
    ) -> Option<T> {
        let (http3, quic, connection) = endpoint.connection(handle)?;
        let Open {
            exchanges,
            in_progress,
            ..
        } = &mut **connection.open.as_mut()?;
        let address = quic.remote_address().ip().to_canonical();
        let requests = &mut exchanges.requests;
        requests.follow(address, quic.is_remote_validated(), self.now);
        let carrier = Http3Carrier {
            http3,
            quic,
            handle,
            in_progress,
            changed: &mut self.changed,
        };
        let mut context = ExchangeContext {
            carrier,
            pending: &mut self.pending,
            files: &self.memory.files,
            now: self.now,
        };
        Some(work(exchanges, &mut context))
    }

    /// Tells the table of clients of requests that have come to their end: once a turn, not once a request.
    fn count_requests(&mut self, endpoint: &mut Endpoint) {
        for handle in self.changed.drain(..) {
            if let Some(open) = opened(endpoint, handle) {
                open.in_progress.has_changed = false;
                let admitted = open.exchanges.requests.admitted();
                admitted.set_requests(open.in_progress.streams.len());
            }
        }
    }

    /// A connection has come; one with early data is told of twice.
    fn connected<'e>(
        &self,
        handle: ConnectionHandle,
        endpoint: &'e mut Endpoint,
    ) -> Option<&'e mut Open> {
        let (_, quic, connection) = endpoint.connection(handle)?;
        let Connection { admitted, open } = connection;
        admitted.name(self.listener, handle);
        Some(open.get_or_insert_with(|| {
            let local = quic
                .local_ip()
                .map(|ip| (ip, self.listener_policy.port).into());
            let handshake = quic.path_statistics().and_then(|it| it.handshake);
            let began = self.now.instant.checked_sub(handshake.unwrap_or_default());
            let asks = self.setup.service.current.get().asked_names.is_some();
            let presented = asks.then(|| {
                let identity = quic.peer_identity();
                let name = identity.server_name.as_deref();
                Rc::new(Presented::new(name, &identity.certificates))
            });
            let connection = ConnectionFacts {
                peer: canonical(quic.remote_address()),
                local: local.map(canonical),
                admitted: Rc::clone(admitted),
                began: began.unwrap_or(self.now.instant),
                listener_policy: self.listener_policy,
                presented,
            };
            let responder = Rc::clone(&self.memory.responder);
            let requests = Requests::new(responder, Protocol::Http3, connection);
            Box::new(Open {
                exchanges: Exchanges::new(requests, Rc::clone(&self.tables)),
                in_progress: InProgress::default(),
                idle_close: IdleClose::default(),
            })
        }))
    }

    fn closed(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        let path = endpoint.path_statistics(handle);
        let counters = path.as_ref().map(Counters::of_quic);
        tracing::debug!(?handle, ?counters, "connection ended");
        let connection = endpoint.state(handle);
        if let Some(mut open) = connection.and_then(|it| it.open.take()) {
            let requests = &mut open.exchanges.requests;
            if let Some(path) = path {
                requests.follow(path.remote.ip().to_canonical(), false, self.now);
            }
            requests.ended(|| counters);
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
        self.with(handle, endpoint, |exchanges, context| {
            if exchanges.must_take_first() {
                return context.carrier.reset(stream, Code::H3_REQUEST_REJECTED);
            }
            let in_progress = context.carrier.begin(stream);
            let (requests, now) = (&mut exchanges.requests, context.now);
            let read = || context.carrier.counters();
            match requests.screen(&head, end, in_progress, now, read) {
                AnswerSource::Refused(response) => {
                    exchanges.respond(stream, response, context);
                    context.carrier.leave_content(stream);
                }
                AnswerSource::Prepared(prepared) => {
                    exchanges.send_prepared(stream, &prepared, context);
                }
                AnswerSource::Service(route) => {
                    let head = Arc::unwrap_or_clone(head);
                    let body = match end {
                        true => RequestBody::empty(),
                        false => {
                            let held = exchanges.requests.admitted().held().holder();
                            let body = context.pending.receive((handle, stream), &head);
                            if let Some(receiving) = context.pending.upload((handle, stream)) {
                                receiving.held = Some(held);
                            }
                            body
                        }
                    };
                    exchanges.ask(stream, (route, head.map(|()| body)), context);
                }
            }
        });
    }

    fn reject_head(
        &mut self,
        (handle, stream): Key,
        rejected: RejectedHead,
        endpoint: &mut Endpoint,
    ) {
        self.with(handle, endpoint, |exchanges, context| {
            exchanges.reject_head(stream, rejected, context);
        });
    }

    fn go_on(&mut self, key: Key, ready: Ready, endpoint: &mut Endpoint) {
        let has_read = matches!(ready, Ready::Report(_));
        self.with(key.0, endpoint, |it, context| {
            it.go_on(key.1, ready, context);
        });
        if has_read {
            // There is room for more.
            self.receive(key, endpoint);
        }
    }

    /// Reads on in an upload, as far as its reader keeps up. The engine lets the client send as much
    /// more as was read.
    fn receive(&mut self, key: Key, endpoint: &mut Endpoint) {
        self.read_on(key, endpoint);
        self.with(key.0, endpoint, |it, context| it.received(key.1, context));
    }

    fn read_on(&mut self, key: Key, endpoint: &mut Endpoint) {
        let Some((http3, quic, _)) = endpoint.connection(key.0) else {
            self.pending.end_upload(key);
            return;
        };
        while let Some(receiving) = self.pending.upload(key)
            && receiving.has_room(MAX_UNREAD)
        {
            match http3.recv_data(quic, key.1) {
                Ok(Received::Data(data)) => {
                    if self.pending.take(key, data.len(), || data) != Taken::Kept {
                        // Nobody wants it (RFC 9114 section 4.1).
                        http3.stop_reading(quic, key.1, Code::H3_NO_ERROR);
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
        self.with(handle, endpoint, |it, context| {
            it.cancelled(stream, context);
        });
    }

    /// The client has every response that has ended; whether others are in progress.
    fn delivered(&mut self, handle: ConnectionHandle, in_progress: bool, endpoint: &mut Endpoint) {
        let now = self.now.instant;
        let is_to_go_back = self.with(handle, endpoint, |exchanges, context| {
            let observer = exchanges.requests.observer();
            observer.arrived(now, || context.carrier.counters());
            !in_progress && observer.is_to_go_back()
        });
        if is_to_go_back == Some(true)
            && let Some(state) = endpoint.state(handle).and_then(Connection::idle_close)
        {
            self.idle_closes.add(handle, state, now);
        }
    }

    /// The time at which a connection may have to be closed because it idles.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.idle_closes.due()
    }
}

/// The connections that have been told of, and whose end has not.
pub(super) fn open(endpoint: &Endpoint) -> Vec<ConnectionHandle> {
    let open = endpoint.states().filter(|(_, it)| it.is_open());
    open.map(|(handle, _)| handle).collect()
}

/// The state of a connection that has been told of, and whose end has not.
fn opened(endpoint: &mut Endpoint, handle: ConnectionHandle) -> Option<&mut Open> {
    endpoint.state(handle)?.open.as_deref_mut()
}

fn record(endpoint: &mut Endpoint, handle: ConnectionHandle, incident: Incident) {
    if let Some(open) = opened(endpoint, handle) {
        open.exchanges.requests.record(incident);
    }
}

/// A connection among those of its endpoint.
struct Http3Carrier<'a> {
    http3: &'a mut http3::Connection,
    quic: &'a mut quic::Connection,
    handle: ConnectionHandle,
    in_progress: &'a mut InProgress,
    changed: &'a mut Vec<ConnectionHandle>,
}

impl Http3Carrier<'_> {
    /// A request has come; how many are in progress with it.
    fn begin(&mut self, stream: StreamId) -> usize {
        self.in_progress.streams.push(stream);
        self.in_progress.streams.len()
    }

    fn reset(&mut self, stream: StreamId, code: Code) {
        self.http3.reset_stream(self.quic, stream, code);
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
        let _ = self.http3.send_response(self.quic, stream, &head, false);
    }

    fn send_head(
        &mut self,
        stream: StreamId,
        head: Response<()>,
        end: bool,
    ) -> Result<(), BoxError> {
        Ok(self.http3.send_response(self.quic, stream, &head, end)?)
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
        self.http3
            .send_message(self.quic, stream, &head, &mut data, end)?;
        Ok(whole - data.len())
    }

    /// Returns a small size first, then no limit: the stream can't be asked how much it takes.
    fn room(&self, _: StreamId, again: bool) -> Option<usize> {
        Some(if again { usize::MAX } else { FIRST_PIECE })
    }

    fn send_data(
        &mut self,
        stream: StreamId,
        data: &mut Bytes,
        last: bool,
    ) -> Result<(), BoxError> {
        Ok(self.http3.send_data(self.quic, stream, data, last)?)
    }

    fn send_trailers(&mut self, stream: StreamId, fields: &HeaderMap) -> Result<(), BoxError> {
        Ok(self.http3.send_trailers(self.quic, stream, fields)?)
    }

    /// Does nothing: the engine gives credit for what is read.
    fn release(&mut self, _: StreamId, _: usize) {}

    fn leave_content(&mut self, stream: StreamId) -> bool {
        // Nobody wants it (RFC 9114 section 4.1).
        self.http3
            .stop_reading(self.quic, stream, Code::H3_NO_ERROR);
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
        let Some(at) = in_progress.streams.iter().position(|it| *it == stream) else {
            return;
        };
        in_progress.streams.swap_remove(at);
        if !std::mem::replace(&mut in_progress.has_changed, true) {
            self.changed.push(self.handle);
        }
    }

    fn in_progress(&self) -> usize {
        self.in_progress.streams.len()
    }

    /// An event of the engine's tells it.
    fn watch(&mut self) {
        self.http3.watch_delivery();
    }

    fn counters(&mut self) -> Option<Counters> {
        self.quic.path_statistics().as_ref().map(Counters::of_quic)
    }
}
