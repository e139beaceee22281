//! The exchanges of one connection, from the request's head to the last byte of its response.
//!
//! The order of steps, and what each means to the log, to the limits and to selection, stand here once. What a
//! protocol does differently is its [`Carrier`]: HTTP/2's is one connection's engine, HTTP/3's one connection
//! among those of its endpoint. Over HTTP/1.1, where exchanges follow one another, hyper takes these steps.

use crate::RequestBody;
use crate::embed::Answering;
use crate::files::FileCache;
use crate::held::MemoryReservation;
use crate::incidents::Incident;
use crate::request::body::Body;
use crate::request::carrier::Carrier;
use crate::request::content::Route;
use crate::request::handler::BoxError;
use crate::request::outgoing::{Outgoing, Progress, Sent};
use crate::request::pending::{PendingWork, Ready, Work};
use crate::request::prepared::Prepared;
use crate::request::rejected_head::RejectedHead;
use crate::request::requests::{Answer, Now, PendingAnswer, Requests};
use crate::request::spares::Spares;
use crate::request::upload::Report;
use crate::selection::observer::Complete;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body as _;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::hash::Hash;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The means by which the exchanges of a connection go on.
pub(crate) struct ExchangeContext<'a, C: Carrier> {
    pub(crate) carrier: C,
    pub(crate) pending: &'a mut PendingWork<C::Key>,
    pub(crate) files: &'a RefCell<FileCache>,
    pub(crate) now: Now,
}

/// The room of tables of responses that are handed on, in responses: 5 KB. A larger one stays with its connection until that
/// idles.
const ROOM: usize = 14;

/// Tables of responses, of connections that send none.
pub(crate) type Tables<S> = Spares<FxHashMap<S, Outgoing>>;

/// The exchanges of one connection: its requests, and the responses that have not been handed over whole. `I`
/// tells heads apart, `S` streams. Bounded by the engine's limit of concurrent streams.
pub(crate) struct Exchanges<I, S> {
    pub(crate) requests: Requests<I>,
    sending: FxHashMap<S, Outgoing>,
    /// Tables of others, which has this one while nothing is sent.
    tables: Rc<Tables<S>>,
}

impl<I, S: Copy + Eq + Hash> Exchanges<I, S> {
    pub(crate) fn new(requests: Requests<I>, tables: Rc<Tables<S>>) -> Self {
        Self {
            requests,
            sending: FxHashMap::default(),
            tables,
        }
    }

    /// Returns whether a response is on its way.
    pub(crate) fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Drops every response.
    pub(crate) fn clear(&mut self) {
        self.sending.clear();
    }

    /// Returns whether a new request is to be sent back unanswered, because its client has not taken what
    /// it asked for before: see [`Requests::must_take_first`].
    pub(crate) fn must_take_first(&self) -> bool {
        self.requests.must_take_first(self.is_sending())
    }

    /// Answers with a file of the cache. What does not leave at once waits.
    pub(crate) fn send_prepared<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        prepared: &Prepared,
        context: &mut ExchangeContext<'_, C>,
    ) {
        let now = context.now;
        let decision = self.requests.decision(Some(prepared.entry.size), now);
        let carrier = &mut context.carrier;
        let sent = carrier.send_prepared(stream, &self.requests, prepared, decision.as_ref(), now);
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => return self.cut_off(stream, &error, context),
        };
        let rest = self
            .requests
            .sent_prepared(prepared, decision.as_ref(), sent, now);
        self.sent(sent, context);
        match rest {
            // The usual case: it is small, and the windows are open.
            None => self.answered(stream, context),
            Some(rest) => self.start(
                stream,
                |held, now| Outgoing::of_file(rest, held, now),
                context,
            ),
        }
    }

    /// Asks the service for a response. `body` comes by an upload of `context.pending`, if the request has any.
    pub(crate) fn ask<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        (route, request): (Route, Request<RequestBody>),
        context: &mut ExchangeContext<'_, C>,
    ) {
        // Whoever asks for a tunnel sends nothing, and no end, before it has its answer.
        let may_wait = !C::ANSWERS_EARLY && request.method() != Method::CONNECT;
        match self.requests.ask(route, request, context.now) {
            Answer::Now(response) => {
                let upload = context.pending.upload(context.carrier.key(stream));
                match upload.filter(|receiving| may_wait && !receiving.expects_continue()) {
                    Some(receiving) => receiving.answer_later(response),
                    None => self.respond(stream, response, context),
                }
            }
            Answer::Later(answering) => self.await_response(stream, answering, context),
        }
    }

    fn await_response<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        answering: Answering<PendingAnswer>,
        context: &mut ExchangeContext<'_, C>,
    ) {
        let key = context.carrier.key(stream);
        if let Some(ready) = context.pending.begin(key, Work::Respond(answering)) {
            self.go_on(stream, ready, context);
        }
    }

    /// Goes on with an exchange for which something was waited; what its reader did with an upload is left to
    /// the caller.
    pub(crate) fn go_on<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        ready: Ready,
        context: &mut ExchangeContext<'_, C>,
    ) {
        match ready {
            Ready::Interim(answering, status, fields) => {
                context.carrier.send_informational(stream, status, fields);
                self.await_response(stream, answering, context);
            }
            Ready::Response(answered) => {
                let response = self.requests.finish(answered, context.now);
                self.respond(stream, response, context);
            }
            Ready::Frame(body, frame) => {
                let Some(outgoing) = self.sending.get_mut(&stream) else {
                    return;
                };
                match outgoing.resume(body, frame, context.now.instant) {
                    Ok(()) => self.send(stream, context),
                    Err(error) => {
                        let progress = outgoing.take_progress();
                        self.progressed(progress, context);
                        self.cut_off(stream, &error, context);
                    }
                }
            }
            Ready::Report(report) => self.report(stream, &report, context),
        }
    }

    /// The reader of an upload has taken something, or waits for it.
    fn report<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        report: &Report,
        context: &mut ExchangeContext<'_, C>,
    ) {
        context.carrier.release(stream, report.read);
        let upload = context.pending.upload(context.carrier.key(stream));
        if upload.is_some_and(|receiving| receiving.must_continue(report)) {
            let carrier = &mut context.carrier;
            carrier.send_informational(stream, StatusCode::CONTINUE, HeaderMap::new());
        }
    }

    pub(crate) fn respond<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        response: Response<Body>,
        context: &mut ExchangeContext<'_, C>,
    ) {
        let (parts, body) = response.into_parts();
        let head = Response::from_parts(parts, ());
        let end = body.is_end_stream();
        match context.carrier.send_head(stream, head, end) {
            Err(error) => self.cut_off(stream, &error, context),
            Ok(()) if end => self.answered(stream, context),
            Ok(()) => self.start(stream, |held, now| Outgoing::of(body, held, now), context),
        }
    }

    /// Answers a request whose head was rejected before its end.
    pub(crate) fn reject_head<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        rejected: RejectedHead,
        context: &mut ExchangeContext<'_, C>,
    ) {
        let response = self.requests.reject_head(rejected, context.now);
        self.respond(stream, response, context);
    }

    /// Begins to send what is left of a response. One that leaves at once, as short ones do, needs no place in the table.
    fn start<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        outgoing: impl FnOnce(MemoryReservation, Instant) -> Outgoing,
        context: &mut ExchangeContext<'_, C>,
    ) {
        let held = self.requests.admitted().held().holder();
        let mut outgoing = outgoing(held, context.now.instant);
        let sent = outgoing.hand_over(stream, context);
        let progress = outgoing.take_progress();
        match &sent {
            Ok(Sent::Part | Sent::Waiting) => self.put_in(stream, outgoing),
            Ok(Sent::All) | Err(_) => drop(outgoing),
        }
        self.handed_over(stream, (sent, progress), context);
    }

    fn put_in(&mut self, stream: S, outgoing: Outgoing) {
        if self.sending.capacity() == 0
            && let Some(table) = self.tables.take()
        {
            self.sending = table;
        }
        self.sending.insert(stream, outgoing);
    }

    /// Takes a response out of the table, and hands the table on if it was the last. Returns true if the observer takes it for
    /// waiting.
    fn take_out(&mut self, stream: S) -> bool {
        let outgoing = self.sending.remove(&stream);
        let room = self.sending.capacity();
        if self.sending.is_empty() && (1..=ROOM).contains(&room) {
            self.tables.give(std::mem::take(&mut self.sending));
        }
        outgoing.is_some_and(|it| it.waits())
    }

    /// Gives the table back, whatever its room, if nothing is sent, and what is known of the latest request's host.
    pub(crate) fn rest(&mut self) {
        self.requests.known_host = None;
        if self.sending.is_empty() {
            self.sending = FxHashMap::default();
        }
    }

    /// Hands over as much of a response's content as the protocol takes in its turn.
    pub(crate) fn send<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        context: &mut ExchangeContext<'_, C>,
    ) {
        let Some(outgoing) = self.sending.get_mut(&stream) else {
            return;
        };
        let sent = outgoing.hand_over(stream, context);
        let progress = outgoing.take_progress();
        self.handed_over(stream, (sent, progress), context);
    }

    /// Goes on after a response's content was handed over as far as it went.
    fn handed_over<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        (sent, progress): (Result<Sent, BoxError>, Progress),
        context: &mut ExchangeContext<'_, C>,
    ) {
        self.progressed(progress, context);
        match sent {
            Ok(Sent::Part) => {}
            Ok(Sent::Waiting) => self.requests.observer().waits_for_more(context.now.instant),
            Ok(Sent::All) => {
                self.take_out(stream);
                self.answered(stream, context);
            }
            Err(error) => self.cut_off(stream, &error, context),
        }
    }

    /// Tells of what was handed over of a response's content.
    fn progressed<C: Carrier>(&mut self, progress: Progress, context: &mut ExchangeContext<'_, C>) {
        let now = context.now.instant;
        if progress.goes_on {
            self.requests.observer().goes_on(now);
        }
        if progress.trickled > 0 {
            self.requests.trickled(progress.trickled as u64, now);
        }
        self.sent(progress.bytes, context);
    }

    /// Counts what was handed over of responses.
    fn sent<C: Carrier>(&mut self, bytes: usize, context: &mut ExchangeContext<'_, C>) {
        let (carrier, now) = (&mut context.carrier, context.now.instant);
        self.requests.sent(bytes as u64, now, || carrier.counters());
    }

    /// The response has been handed over whole.
    fn answered<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        context: &mut ExchangeContext<'_, C>,
    ) {
        let carrier = &mut context.carrier;
        carrier.over(stream);
        if self.requests.completed(context.now, || carrier.counters()) == Complete::Watch {
            carrier.watch();
        }
        if let Some(receiving) = context.pending.upload(carrier.key(stream)) {
            receiving.answered = true;
            self.settle(stream, context);
        }
    }

    /// Takes more of a request's content, or its end.
    pub(crate) fn received<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        context: &mut ExchangeContext<'_, C>,
    ) {
        let Some(receiving) = context.pending.upload(context.carrier.key(stream)) else {
            return;
        };
        receiving.count();
        match receiving.early_response() {
            Some(response) => self.respond(stream, response, context),
            None => self.settle(stream, context),
        }
    }

    /// Forgets an exchange that is over, or is but for content that nobody will read.
    fn settle<C: Carrier<Stream = S>>(&mut self, stream: S, context: &mut ExchangeContext<'_, C>) {
        let Some(receiving) = context.pending.upload(context.carrier.key(stream)) else {
            return;
        };
        let (is_over, is_unwanted) = (receiving.is_over(), receiving.is_unwanted());
        if is_over || (is_unwanted && context.carrier.leave_content(stream)) {
            self.forget(stream, context);
        }
    }

    /// The promised length can't be kept, and the client must notice.
    fn cut_off<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        error: &BoxError,
        context: &mut ExchangeContext<'_, C>,
    ) {
        let client = self.requests.client();
        tracing::debug!(%error, %client, "cannot send a response on");
        // What the client took back it may take back as often as the engine bears.
        if !C::is_taken_back(error) {
            self.requests.record(Incident::BrokenResponse);
        }
        context.carrier.abandon(stream);
        self.forget(stream, context);
    }

    /// The client has given an exchange up.
    pub(crate) fn cancelled<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        context: &mut ExchangeContext<'_, C>,
    ) {
        self.forget(stream, context);
        if context.carrier.in_progress() == 0 {
            self.requests.observer().cancelled(context.now.instant);
        }
    }

    /// The streams of responses of which the client has taken nothing for `limit`.
    pub(crate) fn stalled(&self, limit: Duration) -> Vec<S> {
        let is_stalled = |it: &Outgoing| it.is_held_up() && it.moved.elapsed() >= limit;
        let stalled = self.sending.iter().filter(|(_, it)| is_stalled(it));
        stalled.map(|(stream, _)| *stream).collect()
    }

    /// Drops what is left of an exchange whose stream is gone.
    pub(crate) fn forget<C: Carrier<Stream = S>>(
        &mut self,
        stream: S,
        context: &mut ExchangeContext<'_, C>,
    ) {
        let waits = self.take_out(stream);
        let cancelled = context.pending.cancel(context.carrier.key(stream));
        if waits || cancelled.has_waited {
            self.requests.observer().given_up(context.now.instant);
        }
        // The connection's window has them still.
        context.carrier.release(stream, cancelled.unread);
        context.carrier.over(stream);
    }
}
