//! Requests in, responses out: what the engine's events mean to the server.
//!
//! Most requests ask for a file, whole: [`ShortCut`] answers those in place. All others go to
//! [`Service`](crate::service::Service), as on the other protocols.

mod outgoing;
mod short_cut;

use super::Desk;
use crate::RequestBody;
use crate::body::Body;
use crate::clients::Admitted;
use crate::embed::Answering;
use crate::exchanges::{Exchanges, Ready, Receiving, Taken, Work};
use crate::handler::BoxError;
use crate::held::Held;
use crate::incidents::Incident;
use crate::request_body::Report;
use crate::service::Answer;
use crate::tcp::delivery::{Answered, MIN_RESPONSE};
use crate::tcp::measured::Probe;
use crate::worker::Setup;
use altway_http2::{CloseReason, Code, Event, StreamId, Turn};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Body as _;
use outgoing::{Outgoing, Sent};
use rustc_hash::FxHashMap;
use short_cut::ShortCut;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A connection's path is measured, and its decision taken, at most so often.
const DECISION_AGE: Duration = Duration::from_millis(100);

/// What a connection has to answer. Bounded by the engine's limit of concurrent streams.
pub(super) struct Answers {
    setup: Arc<Setup>,
    peer: SocketAddr,
    admitted: Rc<Admitted>,
    probe: Rc<Probe>,
    /// When the path was.
    measured: Option<Instant>,
    /// Since then something was answered.
    answered: bool,
    /// The exchange of which it is to be found out how long it takes: one that is not answered at
    /// once.
    timed: Option<Timed>,
    /// Its response, when that is complete and not yet with the kernel.
    complete: Option<Answered>,
    short_cut: ShortCut,
    sending: FxHashMap<StreamId, Waiting>,
    /// `None` on connections that have only asked for whole files.
    open: Option<Box<Open>>,
}

/// An exchange that is timed. One that never ends keeps others from it.
struct Timed {
    stream: StreamId,
    asked: Instant,
    /// Of its response, frame headers included.
    sent: u64,
}

/// A response that has not been handed over whole, and what it holds.
struct Waiting {
    outgoing: Outgoing,
    held: Held,
}

/// Exchanges that take more than a turn.
struct Open {
    exchanges: Exchanges<StreamId>,
    /// What they go on with: at most two things each.
    ready: VecDeque<(StreamId, Ready)>,
}

impl Answers {
    pub(super) fn new(
        setup: Arc<Setup>,
        peer: SocketAddr,
        admitted: Rc<Admitted>,
        probe: Rc<Probe>,
    ) -> Self {
        Self {
            short_cut: ShortCut::new(Arc::clone(&setup), peer.ip(), Rc::clone(&probe)),
            setup,
            peer,
            admitted,
            probe,
            measured: None,
            answered: false,
            timed: None,
            complete: None,
            sending: FxHashMap::default(),
            open: None,
        }
    }

    /// Finds out which exchanges can go on; whether any can. Wakes the task when that changes.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(open) = &mut self.open else {
            return false;
        };
        while !open.exchanges.is_empty()
            && let Poll::Ready(ready) = open.exchanges.poll(cx)
        {
            open.ready.push_back(ready);
        }
        !open.ready.is_empty()
    }

    /// Whether nothing is going on.
    pub(super) fn is_idle(&self) -> bool {
        let open = self.open.as_ref();
        self.sending.is_empty() && open.is_none_or(|open| open.exchanges.is_idle())
    }

    /// Bytes of uploads that wait for their readers.
    pub(super) fn unread(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.exchanges.unread())
    }

    /// Goes on with the next exchange that can; false when there is none.
    pub(super) fn go_on(&mut self, turn: &mut Turn<'_>, desk: &mut Desk) -> bool {
        let ready = self.open.as_mut().and_then(|open| open.ready.pop_front());
        let Some((stream, ready)) = ready else {
            return false;
        };
        self.proceed(turn, stream, ready, desk);
        true
    }

    /// Handles the engine's next event; false when there is none.
    pub(super) fn next(&mut self, turn: &mut Turn<'_>, input: &mut &[u8], desk: &mut Desk) -> bool {
        let requests = turn.open_streams() + 1;
        let Some(event) = turn.receive(input) else {
            return false;
        };
        match event {
            Event::Request { stream, .. } if self.must_take_first() => {
                turn.reset_stream(stream, Code::REFUSED_STREAM);
            }
            Event::Request { stream, .. } if !self.admitted.set_requests(requests) => {
                let response = self
                    .setup
                    .service
                    .overloaded(self.peer.ip(), self.probe.own());
                self.respond(turn, stream, response, desk);
            }
            Event::Request { stream, head, end } => {
                if end && let Some(found) = self.short_cut.find(head, desk) {
                    self.answered = true;
                    let path = self.short_cut.path_for_log(&found, head);
                    let before = turn.output_len();
                    let rest = self.short_cut.send(turn, stream, &found, path, desk);
                    let sent = turn.output_len() - before;
                    if sent as u64 >= MIN_RESPONSE || rest.is_some() {
                        self.time(stream, desk.now);
                        self.note_sent(stream, sent);
                    }
                    if rest.is_none() {
                        self.complete_timed(stream);
                    }
                    return self.start(turn, stream, rest, desk);
                }
                match head.to_request() {
                    Ok(request) => self.request(turn, stream, request, end, desk),
                    Err(_) => self.refuse(turn, stream, StatusCode::BAD_REQUEST, desk),
                }
            }
            Event::RequestTooLarge { stream } => {
                let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                self.refuse(turn, stream, status, desk);
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
                self.received(turn, stream, desk);
            }
            Event::Trailers { stream, head } => {
                self.complete(stream, head.to_headers().ok());
                self.received(turn, stream, desk);
            }
            Event::StreamReset { stream, .. } => self.forget(turn, stream),
            Event::Closed { reason } => {
                tracing::debug!(client = %self.peer, %reason, "connection closed");
                if matches!(reason, CloseReason::Local { code, .. } if code != Code::NO_ERROR) {
                    let incidents = &self.setup.service.incidents;
                    incidents.record(self.peer.ip(), Incident::Misbehaviour);
                }
                self.sending.clear();
                self.open = None;
                self.timed = None;
            }
            _ => {}
        }
        true
    }

    /// Whether a new request is refused (RFC 9113 section 8.7), for the client has not taken what it
    /// asked for before and the client, or the worker, holds as much as it may.
    fn must_take_first(&self) -> bool {
        self.admitted.held().is_full() && !self.sending.is_empty()
    }

    /// The client sends nothing more, and may be gone: what waits, for it or for a service, ends.
    /// What is there and fits the windows is sent.
    pub(super) fn input_ended(&mut self, turn: &mut Turn<'_>) {
        let open = self.open.as_ref();
        let unfinished = open.map(|open| open.exchanges.unfinished());
        for stream in unfinished.into_iter().flatten() {
            turn.reset_stream(stream, Code::CANCEL);
            self.forget(turn, stream);
        }
        turn.input_ended();
    }

    /// Hands bodies over until the output is full or nothing more can be sent.
    pub(super) fn send_bodies(&mut self, turn: &mut Turn<'_>, desk: &mut Desk, limit: usize) {
        while turn.output_len() < limit {
            let Some(stream) = turn.next_sendable() else {
                return;
            };
            self.send(turn, stream, desk);
        }
    }

    /// To be called when a turn is about to send what it has to say: measures now and then.
    pub(super) fn measure(&mut self, now: Instant) {
        let is_new = |measured: Instant| now.saturating_duration_since(measured) < DECISION_AGE;
        if std::mem::take(&mut self.answered) && !self.measured.is_some_and(is_new) {
            self.probe.observe(&self.setup.service.paths);
            self.measured = Some(now);
            self.short_cut.decide_anew();
        }
    }

    /// To be called when all that was said is with the kernel: finds out when the client has it.
    pub(super) fn written(&mut self) {
        if let Some(answered) = self.complete.take() {
            self.probe.answered(answered, true);
        }
    }

    fn request(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        request: Request<()>,
        end: bool,
        desk: &mut Desk,
    ) {
        self.time(stream, desk.now);
        let body = if end {
            RequestBody::empty()
        } else {
            exchanges(&mut self.open).receive(stream, &request)
        };
        let request = request.map(|()| body);
        match self
            .setup
            .service
            .respond(self.peer, self.probe.own(), request)
        {
            Answer::Now(response) => match self.upload(stream) {
                Some(receiving) => receiving.answer_later(response),
                None => self.respond(turn, stream, response, desk),
            },
            Answer::Later(answering) => self.await_response(turn, stream, answering, desk),
        }
    }

    fn await_response(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        answering: Answering,
        desk: &mut Desk,
    ) {
        let work = Work::Respond(answering);
        if let Some(ready) = exchanges(&mut self.open).begin(stream, work) {
            self.proceed(turn, stream, ready, desk);
        }
    }

    fn proceed(&mut self, turn: &mut Turn<'_>, stream: StreamId, ready: Ready, desk: &mut Desk) {
        match ready {
            Ready::Hints(answering, fields) => {
                // Refused where a field may not be sent; the response goes on all the same.
                let _ = turn.send_informational(stream, 103, &fields);
                self.await_response(turn, stream, answering, desk);
            }
            Ready::Response(response) => self.respond(turn, stream, response, desk),
            Ready::Frame(body, frame) => {
                let waiting = self.sending.get_mut(&stream);
                let Some(Outgoing::Body(sending)) = waiting.map(|it| &mut it.outgoing) else {
                    return;
                };
                match sending.resume(body, frame) {
                    Ok(()) => self.send(turn, stream, desk),
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
        let Some(open) = &mut self.open else {
            return Taken::Excess;
        };
        let bytes = || Bytes::copy_from_slice(data);
        open.exchanges.take(stream, data.len(), bytes)
    }

    fn upload(&mut self, stream: StreamId) -> Option<&mut Receiving> {
        self.open.as_mut()?.exchanges.upload(stream)
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
    fn received(&mut self, turn: &mut Turn<'_>, stream: StreamId, desk: &mut Desk) {
        let receiving = self.upload(stream);
        match receiving.and_then(Receiving::early_response) {
            Some(response) => self.respond(turn, stream, response, desk),
            None => self.settle(turn, stream),
        }
    }

    /// Times an exchange that begins, if none is timed.
    fn time(&mut self, stream: StreamId, asked: Instant) {
        let begin = || Timed {
            stream,
            asked,
            sent: 0,
        };
        self.timed.get_or_insert_with(begin);
    }

    fn note_sent(&mut self, stream: StreamId, bytes: usize) {
        if let Some(timed) = self.timed.as_mut().filter(|timed| timed.stream == stream) {
            timed.sent += bytes as u64;
        }
    }

    /// A response is complete. What is sent of others after it would be timed with it: then it isn't.
    fn complete_timed(&mut self, stream: StreamId) {
        let timed = self.timed.take_if(|timed| timed.stream == stream);
        if let Some(timed) = timed.filter(|_| self.sending.is_empty()) {
            self.complete = Some(Answered {
                asked: timed.asked,
                bytes: timed.sent,
            });
        }
    }

    /// The response has been handed over whole.
    fn answered(&mut self, turn: &mut Turn<'_>, stream: StreamId) {
        self.complete_timed(stream);
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

    fn refuse(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        status: StatusCode,
        desk: &mut Desk,
    ) {
        let service = &self.setup.service;
        let response = service.refuse(self.peer.ip(), self.probe.own(), status);
        self.respond(turn, stream, response, desk);
    }

    fn respond(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        response: Response<Body>,
        desk: &mut Desk,
    ) {
        self.answered = true;
        let (parts, body) = response.into_parts();
        let end = body.is_end_stream();
        match turn.send_response(stream, parts.status.as_u16(), &parts.headers, end) {
            Err(error) => self.cut_off(turn, stream, &error.into()),
            Ok(()) if end => self.answered(turn, stream),
            Ok(()) => {
                self.start(turn, stream, Some(Outgoing::body(body)), desk);
            }
        }
    }

    /// Begins to send what is left of a response; true, for there was an event.
    fn start(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        rest: Option<Outgoing>,
        desk: &mut Desk,
    ) -> bool {
        if let Some(outgoing) = rest {
            let held = self.admitted.held().holder();
            self.sending.insert(stream, Waiting { outgoing, held });
            self.send(turn, stream, desk);
        }
        true
    }

    /// Sends the next frame of a body.
    fn send(&mut self, turn: &mut Turn<'_>, stream: StreamId, desk: &mut Desk) {
        let before = turn.output_len();
        let Some(waiting) = self.sending.get_mut(&stream) else {
            return;
        };
        let sent = match &mut waiting.outgoing {
            Outgoing::File(file) => file.send(turn, stream, desk),
            Outgoing::Body(sending) => {
                outgoing::send(sending, turn, stream, exchanges(&mut self.open))
            }
        };
        waiting.held.set(waiting.outgoing.held());
        self.note_sent(stream, turn.output_len() - before);
        match sent {
            Ok(Sent::Part) => {}
            Ok(Sent::All) => {
                self.sending.remove(&stream);
                self.answered(turn, stream);
            }
            Err(error) => self.cut_off(turn, stream, &error),
        }
    }

    /// The promised length can't be kept, and the client must notice.
    fn cut_off(&mut self, turn: &mut Turn<'_>, stream: StreamId, error: &BoxError) {
        tracing::debug!(%error, client = %self.peer, "cannot send a response on");
        let incidents = &self.setup.service.incidents;
        incidents.record(self.peer.ip(), Incident::BrokenResponse);
        turn.reset_stream(stream, Code::INTERNAL_ERROR);
        self.forget(turn, stream);
    }

    /// Drops what is left of an exchange whose stream is gone.
    fn forget(&mut self, turn: &mut Turn<'_>, stream: StreamId) {
        self.sending.remove(&stream);
        self.timed.take_if(|timed| timed.stream == stream);
        let Some(open) = &mut self.open else {
            return;
        };
        // The connection's window has them still.
        turn.release(stream, open.exchanges.cancel(stream));
        open.ready.retain(|(of, _)| *of != stream);
    }
}

fn exchanges(open: &mut Option<Box<Open>>) -> &mut Exchanges<StreamId> {
    let open = open.get_or_insert_with(|| {
        Box::new(Open {
            exchanges: Exchanges::new(),
            ready: VecDeque::new(),
        })
    });
    &mut open.exchanges
}
