//! Requests in, responses out: what the engine's events mean to the server.
//!
//! [`Requests`] finds out who answers a request, and [`Exchanges`] does what follows, as on the other protocols.

use super::WorkerBuffers;
use crate::RequestBody;
use crate::incidents::Incident;
use crate::request::body::Body;
use crate::request::carrier::Carrier;
use crate::request::content::Route;
use crate::request::exchanges::{ExchangeContext, Exchanges};
use crate::request::handler::BoxError;
use crate::request::log::Protocol;
use crate::request::pending::{PendingWork, Taken};
use crate::request::prepared::Prepared;
use crate::request::rejected_head::RejectedHead;
use crate::request::requests::{AnswerSource, ConnectionFacts, Now, Requests};
use crate::selection::counters::Counters;
use crate::tcp::measured::TcpPathSampler;
use altway_http2::{CloseReason, Code, Event, Head, HeadId, StreamId, Turn};
use altway_select::Decision;
use bytes::{Buf, Bytes};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use std::rc::Rc;
use std::task::Context;

/// Exchanges of a connection that have to be answered. Bounded by the engine's limit of concurrent streams.
pub(super) struct Responses {
    exchanges: Exchanges<HeadId, StreamId>,
    pending: PendingWork<StreamId>,
    probe: Rc<TcpPathSampler>,
    /// True if the acknowledgement of what was sent is to be watched for.
    watch: bool,
    /// The client has asked for a tunnel.
    has_tunnels: bool,
}

impl Responses {
    pub(super) fn new(
        buffers: &WorkerBuffers,
        connection: ConnectionFacts,
        probe: Rc<TcpPathSampler>,
    ) -> Self {
        let responder = Rc::clone(&buffers.responder);
        let requests = Requests::new(responder, Protocol::Http2, connection);
        Self {
            exchanges: Exchanges::new(requests, Rc::clone(&buffers.tables)),
            pending: PendingWork::new(Rc::clone(&buffers.work)),
            probe,
            watch: false,
            has_tunnels: false,
        }
    }

    /// Finds out which exchanges can go on; whether any can. Wakes the task when that changes.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        self.pending.poll(cx)
    }

    /// Returns true if the client has asked for a tunnel.
    pub(super) fn has_tunnels(&self) -> bool {
        self.has_tunnels
    }

    /// Returns true if no exchange is in progress.
    pub(super) fn is_idle(&self) -> bool {
        !self.exchanges.is_sending() && self.pending.is_idle()
    }

    /// Hands on the memory that exchanges need, while there are none.
    pub(super) fn hand_on(&mut self) {
        self.pending.rest();
    }

    /// Gives back the rest of it as well, of which other exchanges have no use.
    pub(super) fn rest(&mut self) {
        self.pending.rest();
        self.exchanges.rest();
    }

    /// Bytes of uploads that wait for their readers.
    pub(super) fn unread(&self) -> usize {
        self.pending.unread()
    }

    /// The exchanges, and with what they go on.
    fn split<'a, 't>(
        &'a mut self,
        turn: &'a mut Turn<'t>,
        buffers: &'a WorkerBuffers,
    ) -> (
        &'a mut Exchanges<HeadId, StreamId>,
        ExchangeContext<'a, Http2Carrier<'a, 't>>,
    ) {
        let carrier = Http2Carrier {
            turn,
            probe: &self.probe,
            watch: &mut self.watch,
        };
        let context = ExchangeContext {
            carrier,
            pending: &mut self.pending,
            files: &buffers.files,
            now: buffers.now,
        };
        (&mut self.exchanges, context)
    }

    /// Tells the client of HTTP/3 if that was put off until the connection idles, which it does now.
    pub(super) fn tell_later(&mut self, turn: &mut Turn<'_>, buffers: &WorkerBuffers) {
        let read = || self.probe.counters();
        let requests = &mut self.exchanges.requests;
        if let Some((origin, value)) = requests.tell_later(buffers.now, read) {
            tracing::debug!(client = %requests.client(), origin, value, "HTTP/3 is offered after the page");
            // Origin and value are far shorter than a frame.
            let _ = turn.send_alt_svc(&origin, &value);
        }
    }

    /// Goes on with the next exchange that can; false when there is none.
    pub(super) fn go_on(&mut self, turn: &mut Turn<'_>, buffers: &WorkerBuffers) -> bool {
        let Some((stream, ready)) = self.pending.next_ready() else {
            return false;
        };
        let (exchanges, mut context) = self.split(turn, buffers);
        exchanges.go_on(stream, ready, &mut context);
        true
    }

    /// Handles the engine's next event; false when there is none.
    pub(super) fn next(
        &mut self,
        turn: &mut Turn<'_>,
        input: &mut &[u8],
        buffers: &WorkerBuffers,
    ) -> bool {
        let in_progress = turn.open_streams() + 1;
        let Some(event) = turn.receive(input) else {
            return false;
        };
        match event {
            Event::Request { stream, .. } if self.exchanges.must_take_first() => {
                turn.reset_stream(stream, Code::REFUSED_STREAM);
            }
            Event::Request { stream, head, end } => {
                let step = self.screen(head, end, in_progress, buffers);
                let is_tunnel = |it: &Request<()>| it.method() == Method::CONNECT;
                self.has_tunnels |= matches!(&step, Step::Ask(_, request) if is_tunnel(request));
                let (exchanges, mut context) = self.split(turn, buffers);
                match step {
                    Step::Refuse(response) => exchanges.respond(stream, response, &mut context),
                    Step::Send(prepared) => {
                        exchanges.send_prepared(stream, &prepared, &mut context);
                    }
                    Step::Ask(route, request) => {
                        let body = match end {
                            true => RequestBody::empty(),
                            false => context.pending.receive(stream, &request),
                        };
                        let request = request.map(|()| body);
                        exchanges.ask(stream, (route, request), &mut context);
                    }
                }
            }
            Event::RequestTooLarge { stream } => {
                let (exchanges, mut context) = self.split(turn, buffers);
                exchanges.reject_head(stream, RejectedHead::TooLarge, &mut context);
            }
            Event::RequestLate { stream } => {
                let (exchanges, mut context) = self.split(turn, buffers);
                exchanges.reject_head(stream, RejectedHead::Late, &mut context);
                turn.close(Code::NO_ERROR);
            }
            Event::Data { stream, data, end } => {
                let len = data.len();
                let bytes = || Bytes::copy_from_slice(data);
                match self.pending.take(stream, len, bytes) {
                    Taken::Kept => {}
                    Taken::Unwanted => turn.release(stream, len),
                    Taken::Excess => turn.discard(len),
                }
                if end {
                    self.complete(stream, None);
                }
                self.received(turn, stream, buffers);
            }
            Event::Trailers { stream, head } => {
                self.complete(stream, head.to_headers().ok());
                self.received(turn, stream, buffers);
            }
            Event::RequestMalformed => {
                self.exchanges.requests.record(Incident::RefusedRequest);
            }
            Event::Stalled { .. } => self.exchanges.requests.record(Incident::SlowClient),
            Event::StreamReset { stream, .. } => {
                let (exchanges, mut context) = self.split(turn, buffers);
                exchanges.cancelled(stream, &mut context);
            }
            Event::Closed { reason } => self.closed(&reason),
            _ => {}
        }
        true
    }

    fn closed(&mut self, reason: &CloseReason) {
        let requests = &self.exchanges.requests;
        let client = requests.client();
        tracing::debug!(%client, %reason, "connection closed");
        if let CloseReason::Local { code, .. } = reason {
            let incident = Incident::of_close(*code, Code::ENHANCE_YOUR_CALM, Code::NO_ERROR);
            incident.into_iter().for_each(|it| requests.record(it));
        }
        self.exchanges.clear();
        self.pending.clear();
    }

    /// Notes that the client sends nothing more, and may be gone: exchanges that wait, for it or for a service, end.
    /// Content that is there and fits the windows is sent.
    pub(super) fn input_ended(&mut self, turn: &mut Turn<'_>, buffers: &WorkerBuffers) {
        for stream in self.pending.unfinished() {
            turn.reset_stream(stream, Code::CANCEL);
            let (exchanges, mut context) = self.split(turn, buffers);
            exchanges.forget(stream, &mut context);
        }
        turn.input_ended();
    }

    /// Hands bodies over until the output is full or nothing more can be sent.
    pub(super) fn send_bodies(
        &mut self,
        turn: &mut Turn<'_>,
        buffers: &WorkerBuffers,
        limit: usize,
    ) {
        while turn.output_len() < limit {
            let Some(stream) = turn.next_sendable() else {
                return;
            };
            let (exchanges, mut context) = self.split(turn, buffers);
            exchanges.send(stream, &mut context);
        }
    }

    /// Called when all that was sent is with the kernel: finds out when the client has it.
    pub(super) fn written(&mut self, buffers: &WorkerBuffers) {
        if std::mem::take(&mut self.watch) && !self.probe.watch(true) {
            self.exchanges
                .requests
                .observer()
                .unwatched(buffers.now.instant);
        }
    }

    /// Finds out who answers a request, while its head is there.
    fn screen(
        &mut self,
        head: Head<'_>,
        end: bool,
        in_progress: usize,
        buffers: &WorkerBuffers,
    ) -> Step {
        let read = || self.probe.counters();
        let requests = &mut self.exchanges.requests;
        match requests.screen(&head, end, in_progress, buffers.now, read) {
            AnswerSource::Refused(response) => Step::Refuse(response),
            AnswerSource::Prepared(prepared) => Step::Send(prepared),
            AnswerSource::Service(route) => match head.to_request() {
                Ok(request) => Step::Ask(route, request),
                // No request that the gate accepts: the fuzz targets `gate` and `frames` ask.
                Err(_) => {
                    let status = StatusCode::BAD_REQUEST;
                    Step::Refuse(requests.refuse(&head, status, buffers.now))
                }
            },
        }
    }

    fn complete(&mut self, stream: StreamId, trailers: Option<HeaderMap>) {
        if let Some(receiving) = self.pending.upload(stream) {
            if let Some(trailers) = trailers {
                receiving.upload.keep_trailers(trailers);
            }
            receiving.upload.complete();
        }
    }

    /// More of a request has come.
    fn received(&mut self, turn: &mut Turn<'_>, stream: StreamId, buffers: &WorkerBuffers) {
        let (exchanges, mut context) = self.split(turn, buffers);
        exchanges.received(stream, &mut context);
    }
}

impl Drop for Responses {
    fn drop(&mut self) {
        let probe = Rc::clone(&self.probe);
        self.exchanges.requests.ended(|| probe.counters());
    }
}

/// The answer to a request: a refusal, a prepared response, or that of the service.
enum Step {
    Refuse(Response<Body>),
    Send(Prepared),
    Ask(Route, Request<()>),
}

/// A connection's engine in a turn, and what samples its path.
struct Http2Carrier<'a, 't> {
    turn: &'a mut Turn<'t>,
    probe: &'a TcpPathSampler,
    watch: &'a mut bool,
}

impl Carrier for Http2Carrier<'_, '_> {
    type Stream = StreamId;
    type Key = StreamId;

    const ANSWERS_EARLY: bool = false;

    fn key(&self, stream: StreamId) -> StreamId {
        stream
    }

    fn send_informational(&mut self, stream: StreamId, status: StatusCode, fields: HeaderMap) {
        let _ = self
            .turn
            .send_informational(stream, status.as_u16(), &fields);
    }

    fn send_head(
        &mut self,
        stream: StreamId,
        head: Response<()>,
        end: bool,
    ) -> Result<(), BoxError> {
        let status = head.status().as_u16();
        Ok(self
            .turn
            .send_response(stream, status, head.headers(), end)?)
    }

    /// Sends fields that are encoded already: those of the file, and those of all responses of a second.
    fn send_prepared<I>(
        &mut self,
        stream: StreamId,
        requests: &Requests<I>,
        prepared: &Prepared,
        decision: Option<&Decision>,
        now: Now,
    ) -> Result<usize, BoxError> {
        let entry = &prepared.entry;
        let fields = match prepared.repeated {
            true => &entry.repeated,
            false => &entry.fields,
        };
        let end = entry.size == 0;
        let offered = requests.offered(decision);
        let mut all = requests.fields();
        let (common, offer) = all.encoded(entry.has_server, offered, now.unix);
        match offer {
            Some(offer) => self
                .turn
                .send_response(stream, 200, &[fields, common, offer], end)?,
            None => self
                .turn
                .send_response(stream, 200, &[fields, common], end)?,
        }
        match entry.whole() {
            Some(whole) if !end => Ok(self.turn.send_data(stream, whole, true)?),
            _ => Ok(0),
        }
    }

    /// Returns the send window's room, once: what the windows don't take is not read, and after each frame the
    /// scheduler chooses the next stream.
    fn room(&self, stream: StreamId, again: bool) -> Option<usize> {
        (!again).then(|| self.turn.send_capacity(stream))
    }

    fn send_data(
        &mut self,
        stream: StreamId,
        data: &mut Bytes,
        last: bool,
    ) -> Result<(), BoxError> {
        let sent = self.turn.send_data(stream, data, last)?;
        data.advance(sent);
        Ok(())
    }

    fn send_trailers(&mut self, stream: StreamId, fields: &HeaderMap) -> Result<(), BoxError> {
        Ok(self.turn.send_trailers(stream, fields)?)
    }

    fn release(&mut self, stream: StreamId, bytes: usize) {
        self.turn.release(stream, bytes);
    }

    /// Leaves nothing: what still comes is given to the application, which lets the client send some of it.
    fn leave_content(&mut self, _: StreamId) -> bool {
        false
    }

    fn abandon(&mut self, stream: StreamId) {
        self.turn.reset_stream(stream, Code::INTERNAL_ERROR);
    }

    /// The engine tells of a stream's end before anything is sent on it.
    fn is_taken_back(_: &BoxError) -> bool {
        false
    }

    /// The engine counts its streams itself.
    fn over(&mut self, _: StreamId) {}

    fn in_progress(&self) -> usize {
        self.turn.open_streams()
    }

    /// Watches from when all of it is with the kernel.
    fn watch(&mut self) {
        *self.watch = true;
    }

    fn counters(&mut self) -> Option<Counters> {
        self.probe.counters()
    }
}
