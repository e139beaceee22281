//! Requests in, responses out: what the engine's events mean to the server.
//!
//! Who answers a request is found out by [`Requests`], as on the other protocols.

use super::WorkerBuffers;
use crate::RequestBody;
use crate::clients::Admitted;
use crate::embed::Answering;
use crate::incidents::Incident;
use crate::request::body::Body;
use crate::request::handler::BoxError;
use crate::request::log::Protocol;
use crate::request::outgoing::{Carrier, Outgoing, Sent};
use crate::request::pending::{Exchanges, Ready, Receiving, Taken, Work};
use crate::request::prepared::Prepared;
use crate::request::requests::{self, Answer, Requests, Responder, Screened};
use crate::request::terms::Terms;
use crate::request::upload::Report;
use crate::selection::visit::Complete;
use crate::tcp::measured::TcpPathSampler;
use altway_http2::{CloseReason, Code, Event, FieldBlock, Head, HeadId, StreamId, Turn};
use bytes::{Buf, Bytes};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Body as _;
use rustc_hash::FxHashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Context;

/// What a connection has to answer. Bounded by the engine's limit of concurrent streams.
pub(super) struct Answers {
    requests: Requests<HeadId>,
    probe: Rc<TcpPathSampler>,
    /// It is to be found out when the client has what was said.
    watch: bool,
    sending: FxHashMap<StreamId, Outgoing>,
    exchanges: Exchanges<StreamId>,
}

impl Answers {
    pub(super) fn new(
        responder: Rc<Responder>,
        peer: SocketAddr,
        admitted: Rc<Admitted>,
        probe: Rc<TcpPathSampler>,
        terms: Terms,
    ) -> Self {
        let began = probe.began;
        Self {
            requests: Requests::new(responder, Protocol::Http2, peer, admitted, began, terms),
            probe,
            watch: false,
            sending: FxHashMap::default(),
            exchanges: Exchanges::new(),
        }
    }

    /// Finds out which exchanges can go on; whether any can. Wakes the task when that changes.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        self.exchanges.poll(cx)
    }

    /// Whether nothing is going on.
    pub(super) fn is_idle(&self) -> bool {
        self.sending.is_empty() && self.exchanges.is_idle()
    }

    /// Bytes of uploads that wait for their readers.
    pub(super) fn unread(&self) -> usize {
        self.exchanges.unread()
    }

    /// Goes on with the next exchange that can; false when there is none.
    pub(super) fn go_on(&mut self, turn: &mut Turn<'_>, buffers: &mut WorkerBuffers) -> bool {
        let Some((stream, ready)) = self.exchanges.next_ready() else {
            return false;
        };
        self.proceed(turn, stream, ready, buffers);
        true
    }

    /// Handles the engine's next event; false when there is none.
    pub(super) fn next(
        &mut self,
        turn: &mut Turn<'_>,
        input: &mut &[u8],
        buffers: &mut WorkerBuffers,
    ) -> bool {
        let in_progress = turn.open_streams() + 1;
        let Some(event) = turn.receive(input) else {
            return false;
        };
        match event {
            Event::Request { stream, .. }
                if self.requests.must_take_first(!self.sending.is_empty()) =>
            {
                turn.reset_stream(stream, Code::REFUSED_STREAM);
            }
            Event::Request { stream, head, end } => {
                match self.screen(head, end, in_progress, buffers) {
                    Step::Refuse(response) => self.respond(turn, stream, response, buffers),
                    Step::Send(prepared) => self.send_prepared(turn, stream, &prepared, buffers),
                    Step::Ask(request) => self.request(turn, stream, request, end, buffers),
                }
            }
            Event::RequestTooLarge { stream } => {
                let response = self.requests.too_large(buffers.clocks);
                self.respond(turn, stream, response, buffers);
            }
            Event::Data { stream, data, end } => {
                let (taken, len) = (self.take(stream, data), data.len());
                match taken {
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
            Event::Stalled { .. } => self.requests.record(Incident::SlowClient),
            Event::StreamReset { stream, .. } => self.forget(turn, stream),
            Event::Closed { reason } => {
                let client = self.requests.client();
                tracing::debug!(%client, %reason, "connection closed");
                if matches!(reason, CloseReason::Local { code, .. } if code != Code::NO_ERROR) {
                    self.requests.record(Incident::Misbehaviour);
                }
                self.sending.clear();
                self.exchanges = Exchanges::new();
            }
            _ => {}
        }
        true
    }

    /// The client sends nothing more, and may be gone: what waits, for it or for a service, ends.
    /// What is there and fits the windows is sent.
    pub(super) fn input_ended(&mut self, turn: &mut Turn<'_>) {
        for stream in self.exchanges.unfinished() {
            turn.reset_stream(stream, Code::CANCEL);
            self.forget(turn, stream);
        }
        turn.input_ended();
    }

    /// Hands bodies over until the output is full or nothing more can be sent.
    pub(super) fn send_bodies(
        &mut self,
        turn: &mut Turn<'_>,
        buffers: &mut WorkerBuffers,
        limit: usize,
    ) {
        while turn.output_len() < limit {
            let Some(stream) = turn.next_sendable() else {
                return;
            };
            self.send(turn, stream, buffers);
        }
    }

    /// To be called when all that was said is with the kernel: finds out when the client has it.
    pub(super) fn written(&mut self, buffers: &WorkerBuffers) {
        if std::mem::take(&mut self.watch) && !self.probe.watch(true) {
            self.requests.visit().unwatched(buffers.now);
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
        let screened = self
            .requests
            .screen(&head, end, in_progress, buffers.clocks, read);
        match screened {
            Screened::Refused(response) => Step::Refuse(response),
            Screened::Prepared(prepared) => Step::Send(prepared),
            Screened::Service => match head.to_request() {
                Ok(request) => Step::Ask(request),
                // No request that the gate accepts: the fuzz targets `gate` and `frames` ask.
                Err(_) => Step::Refuse(self.requests.refuse(
                    &head,
                    StatusCode::BAD_REQUEST,
                    buffers.clocks,
                )),
            },
        }
    }

    /// Answers with a file of the cache. What doesn't fit into one frame, or not into the windows, waits.
    fn send_prepared(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        prepared: &Prepared,
        buffers: &mut WorkerBuffers,
    ) {
        let decision = self
            .requests
            .decision(Some(prepared.entry.size), buffers.clocks);
        let sent = {
            let mut fields = self.requests.fields();
            let (common, offer) = fields.encoded(decision.as_ref(), buffers.clocks.system);
            put_prepared(turn, stream, prepared, common, offer)
        };
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => return self.cut_off(turn, stream, &error.into()),
        };
        let rest = self
            .requests
            .sent_prepared(prepared, decision, sent, buffers.clocks);
        self.sent(sent, buffers);
        match rest {
            None => self.completed(buffers),
            Some(rest) => {
                let held = self.requests.admitted().held().holder();
                let outgoing = Outgoing::of_file(rest, held, buffers.now);
                self.start(turn, stream, outgoing, buffers);
            }
        }
    }

    fn request(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        request: Request<()>,
        end: bool,
        buffers: &mut WorkerBuffers,
    ) {
        let body = if end {
            RequestBody::empty()
        } else {
            self.exchanges.receive(stream, &request)
        };
        let request = request.map(|()| body);
        match self.requests.ask(request, buffers.clocks) {
            Answer::Now(response) => match self.upload(stream) {
                Some(receiving) => receiving.answer_later(response),
                None => self.respond(turn, stream, response, buffers),
            },
            Answer::Later(answering) => self.await_response(turn, stream, answering, buffers),
        }
    }

    fn await_response(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        answering: Answering<requests::Answered>,
        buffers: &mut WorkerBuffers,
    ) {
        let work = Work::Respond(answering);
        if let Some(ready) = self.exchanges.begin(stream, work) {
            self.proceed(turn, stream, ready, buffers);
        }
    }

    fn proceed(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        ready: Ready,
        buffers: &mut WorkerBuffers,
    ) {
        match ready {
            Ready::Hints(answering, fields) => {
                // Refused where a field may not be sent; the response goes on all the same.
                let _ = turn.send_informational(stream, 103, &fields);
                self.await_response(turn, stream, answering, buffers);
            }
            Ready::Response(answered) => {
                let response = self.requests.finish(answered, buffers.clocks);
                self.respond(turn, stream, response, buffers);
            }
            Ready::Frame(body, frame) => {
                let Some(outgoing) = self.sending.get_mut(&stream) else {
                    return;
                };
                match outgoing.resume(body, frame, buffers.now) {
                    Ok(()) => self.send(turn, stream, buffers),
                    Err(error) => self.cut_off(turn, stream, &error),
                }
            }
            Ready::Report(report) => self.report(turn, stream, &report),
        }
    }

    /// The reader of an upload has taken something, or waits for it.
    fn report(&mut self, turn: &mut Turn<'_>, stream: StreamId, report: &Report) {
        turn.release(stream, report.read);
        let upload = self.upload(stream);
        if upload.is_some_and(|receiving| receiving.must_continue(report)) {
            // Refused where the response has begun: then the client has its answer.
            let _ = turn.send_informational(stream, 100, &HeaderMap::new());
        }
    }

    /// Takes bytes of a request's body.
    fn take(&mut self, stream: StreamId, data: &[u8]) -> Taken {
        let bytes = || Bytes::copy_from_slice(data);
        self.exchanges.take(stream, data.len(), bytes)
    }

    fn upload(&mut self, stream: StreamId) -> Option<&mut Receiving> {
        self.exchanges.upload(stream)
    }

    fn complete(&mut self, stream: StreamId, trailers: Option<HeaderMap>) {
        if let Some(receiving) = self.upload(stream) {
            if let Some(trailers) = trailers {
                receiving.upload.keep_trailers(trailers);
            }
            receiving.upload.complete();
        }
    }

    /// More of a request has come.
    fn received(&mut self, turn: &mut Turn<'_>, stream: StreamId, buffers: &mut WorkerBuffers) {
        let receiving = self.upload(stream);
        match receiving.and_then(Receiving::early_response) {
            Some(response) => self.respond(turn, stream, response, buffers),
            None => self.settle(turn, stream),
        }
    }

    fn sent(&mut self, bytes: usize, buffers: &WorkerBuffers) {
        let read = || self.probe.counters();
        self.requests.sent(bytes as u64, buffers.now, read);
    }

    fn completed(&mut self, buffers: &WorkerBuffers) {
        let read = || self.probe.counters();
        self.watch |= self.requests.completed(buffers.clocks, read) == Complete::Watch;
    }

    /// The response has been handed over whole.
    fn answered(&mut self, turn: &mut Turn<'_>, stream: StreamId, buffers: &WorkerBuffers) {
        self.completed(buffers);
        if let Some(receiving) = self.upload(stream) {
            receiving.answered = true;
            self.settle(turn, stream);
        }
    }

    /// Forgets an exchange that is over. A request whose rest nobody wants, and which the client does
    /// not end, is ended by the engine.
    fn settle(&mut self, turn: &mut Turn<'_>, stream: StreamId) {
        if self.upload(stream).is_some_and(|it| it.is_over()) {
            self.forget(turn, stream);
        }
    }

    fn respond(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        response: Response<Body>,
        buffers: &mut WorkerBuffers,
    ) {
        let (parts, body) = response.into_parts();
        let end = body.is_end_stream();
        match turn.send_response(stream, parts.status.as_u16(), &parts.headers, end) {
            Err(error) => self.cut_off(turn, stream, &error.into()),
            Ok(()) if end => self.answered(turn, stream, buffers),
            Ok(()) => {
                let held = self.requests.admitted().held().holder();
                let outgoing = Outgoing::of(body, held, buffers.now);
                self.start(turn, stream, outgoing, buffers);
            }
        }
    }

    /// Begins to send what is left of a response.
    fn start(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        outgoing: Outgoing,
        buffers: &mut WorkerBuffers,
    ) {
        self.sending.insert(stream, outgoing);
        self.send(turn, stream, buffers);
    }

    /// Sends the next frame of a body.
    fn send(&mut self, turn: &mut Turn<'_>, stream: StreamId, buffers: &mut WorkerBuffers) {
        let Some(outgoing) = self.sending.get_mut(&stream) else {
            return;
        };
        let sent = outgoing.hand_over(
            stream,
            &mut Http2Carrier(turn),
            &mut self.exchanges,
            &buffers.files,
            buffers.now,
        );
        let bytes = outgoing.take_handed_over();
        self.sent(bytes, buffers);
        match sent {
            Ok(Sent::Part) => {}
            Ok(Sent::Waiting) => self.requests.starve(),
            Ok(Sent::All) => {
                self.sending.remove(&stream);
                self.answered(turn, stream, buffers);
            }
            Err(error) => self.cut_off(turn, stream, &error),
        }
    }

    /// The promised length can't be kept, and the client must notice.
    fn cut_off(&mut self, turn: &mut Turn<'_>, stream: StreamId, error: &BoxError) {
        let client = self.requests.client();
        tracing::debug!(%error, %client, "cannot send a response on");
        self.requests.record(Incident::BrokenResponse);
        turn.reset_stream(stream, Code::INTERNAL_ERROR);
        self.forget(turn, stream);
    }

    /// Drops what is left of an exchange whose stream is gone.
    fn forget(&mut self, turn: &mut Turn<'_>, stream: StreamId) {
        self.sending.remove(&stream);
        // The connection's window has them still.
        turn.release(stream, self.exchanges.cancel(stream));
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        let probe = Rc::clone(&self.probe);
        self.requests.ended(|| probe.counters());
    }
}

/// What is done with a request.
enum Step {
    Refuse(Response<Body>),
    Send(Prepared),
    Ask(Request<()>),
}

/// Sends a prepared answer; how many bytes of its body.
fn put_prepared(
    turn: &mut Turn<'_>,
    stream: StreamId,
    prepared: &Prepared,
    common: &FieldBlock,
    offer: Option<&FieldBlock>,
) -> Result<usize, altway_http2::Error> {
    let entry = &prepared.entry;
    let fields = match prepared.repeated {
        true => &entry.repeated,
        false => &entry.fields,
    };
    let end = entry.size == 0;
    match offer {
        Some(offer) => turn.send_response(stream, 200, &[fields, common, offer], end)?,
        None => turn.send_response(stream, 200, &[fields, common], end)?,
    }
    // The usual case: it is small, and the windows are open.
    match entry.whole() {
        Some(whole) if !end => turn.send_data(stream, whole, true),
        _ => Ok(0),
    }
}

/// How responses' bodies leave.
struct Http2Carrier<'a, 't>(&'a mut Turn<'t>);

impl Carrier for Http2Carrier<'_, '_> {
    type Key = StreamId;

    /// What the windows don't take is not read; after each frame the scheduler says whose turn it is.
    fn room(&self, stream: StreamId, again: bool) -> Option<usize> {
        (!again).then(|| self.0.send_capacity(stream))
    }

    fn send_data(
        &mut self,
        stream: StreamId,
        data: &mut Bytes,
        last: bool,
    ) -> Result<(), BoxError> {
        let sent = self.0.send_data(stream, data, last)?;
        data.advance(sent);
        Ok(())
    }

    fn send_trailers(&mut self, stream: StreamId, fields: &HeaderMap) -> Result<(), BoxError> {
        Ok(self.0.send_trailers(stream, fields)?)
    }
}
