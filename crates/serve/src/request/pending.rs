//! The work that exchanges wait for: services that answer later, bodies
//! that wait for more, uploads that are read bit by bit.
//!
//! Everything is polled in the task of its connection: a request costs no task of its own, and what
//! is ready at once never comes here. HTTP/2 has one of these a connection, HTTP/3 one a worker. It holds
//! nothing before there is something to wait for, nor while it [rests](PendingWork::rest).

mod waits;

use crate::RequestBody;
use crate::embed::{Answering, Step};
use crate::held::MemoryReservation;
use crate::request::body::Body;
use crate::request::handler::BoxError;
use crate::request::panic_guard::catch_panic;
use crate::request::requests::{PendingAnswer, UnfinishedResponse};
use crate::request::spares::Spares;
use crate::request::upload::{Report, Upload, upload};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body::{Body as _, Frame};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::hash::Hash;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use waits::Waits;

/// Bytes that are taken of a request body that nobody reads, to let its client finish.
const MAX_UNWANTED: usize = 64 << 10;

/// Results and uploads for which there is room in memory that is handed on.
const ROOM: usize = 14;

/// Work that is going on, by the key of each exchange. Bounded by the engine's limit of streams: an
/// exchange waits for one thing, and has one upload, at a time.
pub(crate) struct PendingWork<K> {
    state: Option<Box<State<K>>>,
    spares: Rc<SpareWork<K>>,
}

/// Memory of work that is over, a dozen KB each at most.
pub(crate) type SpareWork<K> = Spares<Box<State<K>>>;

/// Work and uploads of a connection that are in progress.
pub(crate) struct State<K> {
    waits: Waits<K, Work>,
    uploads: FxHashMap<K, Receiving>,
    /// Bytes of uploads that wait for their readers.
    unread: usize,
    /// Sender of reports: at most one message an upload.
    reporter: UnboundedSender<K>,
    reports: UnboundedReceiver<K>,
    /// Results with which exchanges go on: at most two each.
    ready: VecDeque<(K, Ready)>,
}

/// A response or a frame to wait for.
pub(crate) enum Work {
    /// A response.
    Respond(Answering<PendingAnswer>),
    /// The next frame of a body.
    Frame(Body),
}

/// The fate of bytes of a request's body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The bytes wait for their reader.
    Kept,
    /// Nobody reads them. The client may send more, to come to its end.
    Unwanted,
    /// Nobody reads them, and the client has sent enough of them.
    Excess,
}

/// The work of an exchange that was cancelled.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Cancelled {
    /// True if a response, or more of it, was waited for.
    pub(crate) has_waited: bool,
    /// Bytes of its upload that came and that the client was not told it may send again.
    pub(crate) unread: usize,
}

/// The result with which an exchange goes on.
pub(crate) enum Ready {
    /// An interim response, and the one that is still waited for.
    Interim(Answering<PendingAnswer>, StatusCode, HeaderMap),
    Response(UnfinishedResponse),
    /// The body, and what [`http_body::Body::poll_frame`] gave.
    Frame(Body, Option<Result<Frame<Bytes>, BoxError>>),
    /// A report of the exchange's upload.
    Report(Report),
}

/// A request's body on its way in.
pub(crate) struct Receiving {
    pub(crate) upload: Upload,
    /// Counts what waits for the reader, where the connection doesn't.
    pub(crate) held: Option<MemoryReservation>,
    /// The client waits for 100 (RFC 9110 section 10.1.1).
    expects_continue: bool,
    /// The response to a request whose body nobody reads.
    early: Option<Response<Body>>,
    /// True once its response has been handed over whole.
    pub(crate) answered: bool,
    /// Bytes that came and that nobody will read.
    unwanted: usize,
}

impl<K: Copy + Eq + Hash + Unpin + Send + 'static> PendingWork<K> {
    pub(crate) fn new(spares: Rc<SpareWork<K>>) -> Self {
        Self {
            state: None,
            spares,
        }
    }

    fn state(&mut self) -> &mut State<K> {
        let spare = || self.spares.take();
        self.state
            .get_or_insert_with(|| spare().unwrap_or_else(|| Box::new(State::new())))
    }

    /// Returns whether nothing is going on.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.as_deref().is_none_or(State::is_empty)
    }

    /// Drops everything that is going on.
    pub(crate) fn clear(&mut self) {
        self.state = None;
    }

    /// Hands on the memory for what is waited for, if nothing is going on.
    pub(crate) fn rest(&mut self) {
        let over = self
            .state
            .take_if(|state| state.is_empty() && state.ready.is_empty());
        if let Some(mut state) = over.filter(|state| state.is_forgotten()) {
            state.rest();
            self.spares.give(state);
        }
    }

    /// The body of a request that has one.
    pub(crate) fn receive<B>(&mut self, key: K, request: &Request<B>) -> RequestBody {
        let field = |name| request.headers().get(name)?.to_str().ok();
        let length = field(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let expects = field(header::EXPECT);
        let state = self.state();
        let (upload, body) = upload(key, &state.reporter, length);
        let receiving = Receiving {
            upload,
            held: None,
            expects_continue: expects
                .is_some_and(|expects| expects.eq_ignore_ascii_case("100-continue")),
            early: None,
            answered: false,
            unwanted: 0,
        };
        state.uploads.insert(key, receiving);
        body
    }

    pub(crate) fn upload(&mut self, key: K) -> Option<&mut Receiving> {
        self.state.as_mut()?.uploads.get_mut(&key)
    }

    /// Bytes of uploads that wait for their readers.
    pub(crate) fn unread(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.unread)
    }

    /// Takes `len` bytes of a request's body. Those that are read by somebody are reported when they
    /// are.
    pub(crate) fn take(&mut self, key: K, len: usize, data: impl FnOnce() -> Bytes) -> Taken {
        let Some(state) = &mut self.state else {
            return Taken::Excess;
        };
        let Some(receiving) = state.uploads.get_mut(&key) else {
            return Taken::Excess;
        };
        if receiving.upload.push(data) {
            state.unread += len;
            return Taken::Kept;
        }
        receiving.unwanted += len;
        if receiving.unwanted > MAX_UNWANTED {
            Taken::Excess
        } else {
            Taken::Unwanted
        }
    }

    /// The exchanges that wait for something, or for the rest of their request.
    pub(crate) fn unfinished(&self) -> Vec<K> {
        let Some(state) = &self.state else {
            return Vec::new();
        };
        let uploads = state.uploads.keys().copied();
        state.waits.keys().chain(uploads).collect()
    }

    /// Does the part that can be done at once; [`poll`](Self::poll) gives the rest, if there is
    /// any.
    pub(crate) fn begin(&mut self, key: K, mut work: Work) -> Option<Ready> {
        // Nothing is to be woken: what isn't ready is polled again before anybody waits.
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(ready) = Pin::new(&mut work).poll(&mut context) {
            return Some(ready);
        }
        self.wait(key, work);
        None
    }

    /// Has work polled that is not ready.
    pub(crate) fn wait(&mut self, key: K, work: Work) {
        self.state().waits.push(key, work);
    }

    /// Finds out which exchanges can go on; whether any can. Wakes the task when that changes.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(state) = &mut self.state else {
            return false;
        };
        state.poll_reports(cx);
        let State { waits, ready, .. } = &mut **state;
        waits.poll(cx, |key, it| ready.push_back((key, it)));
        !ready.is_empty()
    }

    /// The next exchange that can go on.
    pub(crate) fn next_ready(&mut self) -> Option<(K, Ready)> {
        self.state.as_mut()?.ready.pop_front()
    }

    /// Drops an upload: nothing more of it will come. Gives how many bytes of it came that the
    /// client was not told it may send again.
    pub(crate) fn end_upload(&mut self, key: K) -> usize {
        let state = self.state.as_mut();
        state.map_or(0, |state| state.end_upload(key))
    }

    /// Drops what `key` waits for, and its upload, as [`end_upload`](Self::end_upload) does.
    pub(crate) fn cancel(&mut self, key: K) -> Cancelled {
        let Some(state) = &mut self.state else {
            return Cancelled::default();
        };
        let mut cancelled = Cancelled {
            has_waited: state.waits.cancel(key),
            unread: 0,
        };
        state.ready.retain(|(of, ready)| {
            if *of == key {
                match ready {
                    Ready::Report(report) => cancelled.unread += report.read,
                    _ => cancelled.has_waited = true,
                }
            }
            *of != key
        });
        cancelled.unread += state.end_upload(key);
        cancelled
    }

    /// Drops everything of the exchanges that `are` meant.
    pub(crate) fn cancel_all(&mut self, are: impl Fn(K) -> bool) {
        let Some(state) = &mut self.state else {
            return;
        };
        for (_, ended) in state.uploads.extract_if(|key, _| are(*key)) {
            state.unread -= ended.unread();
        }
        state.waits.cancel_all(&are);
        state.ready.retain(|(of, _)| !are(*of));
    }
}

impl<K: Copy + Eq + Hash + Unpin + Send + 'static> State<K> {
    fn new() -> Self {
        let (reporter, reports) = unbounded_channel();
        Self {
            waits: Waits::new(),
            uploads: FxHashMap::default(),
            unread: 0,
            reporter,
            reports,
            ready: VecDeque::new(),
        }
    }

    /// Returns true if there is nothing to poll.
    fn is_empty(&self) -> bool {
        self.waits.is_empty() && self.uploads.is_empty()
    }

    /// Returns true if nobody can report any more to the uploads that were here, by whose keys the next owner may have
    /// others.
    fn is_forgotten(&self) -> bool {
        self.reporter.strong_count() == 1
    }

    /// Makes ready for whoever has it next.
    fn rest(&mut self) {
        debug_assert_eq!(self.unread, 0, "an upload without its exchange");
        while self.reports.try_recv().is_ok() {}
        self.waits.rest();
        self.ready.shrink_to(ROOM);
        self.uploads.shrink_to(ROOM);
    }

    /// Takes what readers of uploads report.
    fn poll_reports(&mut self, cx: &mut Context<'_>) {
        // Without uploads nobody reports but those that have ended.
        while !self.uploads.is_empty()
            && let Poll::Ready(Some(key)) = self.reports.poll_recv(cx)
        {
            // One of an upload that has ended says nothing any more.
            if let Some(receiving) = self.uploads.get(&key) {
                let report = receiving.upload.report();
                self.unread -= report.read;
                self.ready.push_back((key, Ready::Report(report)));
            }
        }
    }

    fn end_upload(&mut self, key: K) -> usize {
        let Some(receiving) = self.uploads.remove(&key) else {
            return 0;
        };
        let unread = receiving.unread();
        self.unread -= unread;
        unread
    }
}

impl Receiving {
    /// Keeps a response that needs nothing of the body until the body is complete, or has cost
    /// enough: only then is it certain that the request is well-formed, and a client that sends
    /// before it reads has not got stuck.
    pub(crate) fn answer_later(&mut self, response: Response<Body>) {
        self.early = Some(response);
    }

    /// The response to a request whose body nobody reads, when its time has come.
    pub(crate) fn early_response(&mut self) -> Option<Response<Body>> {
        if self.upload.is_complete() || self.unwanted > MAX_UNWANTED {
            self.early.take()
        } else {
            None
        }
    }

    /// Returns whether more is to be taken for the reader, for which `most` bytes may wait; none while
    /// the client holds as much as it may and some of it is here.
    pub(crate) fn has_room(&self, most: usize) -> bool {
        let waiting = self.upload.waiting();
        let is_scarce = || self.held.as_ref().is_some_and(MemoryReservation::is_scarce);
        waiting < most && (waiting == 0 || !is_scarce())
    }

    /// Counts what waits for the reader.
    pub(crate) fn count(&mut self) {
        if let Some(held) = &mut self.held {
            held.set(self.upload.waiting());
        }
    }

    /// Returns whether the client sends nothing before it has an answer: 100, or the response (RFC 9110 section 10.1.1).
    pub(crate) fn expects_continue(&self) -> bool {
        self.expects_continue
    }

    /// Returns whether the client is to be told that it may send: once, when its content is asked
    /// for.
    pub(crate) fn must_continue(&mut self, report: &Report) -> bool {
        report.waits && std::mem::take(&mut self.expects_continue)
    }

    /// Returns whether nobody reads the rest that the client may still send, and no response waits
    /// for it.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.answered && self.upload.is_dropped()
    }

    /// Returns whether nothing is left to do: the response has been handed over, and the request is
    /// complete. An engine ends one that isn't.
    pub(crate) fn is_over(&self) -> bool {
        self.answered && self.upload.is_complete()
    }

    /// Bytes that came and that no report has told of as read.
    fn unread(&self) -> usize {
        self.upload.report().read + self.upload.waiting()
    }
}

impl Future for Work {
    type Output = Ready;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ready> {
        match &mut *self {
            Self::Respond(answering) => match ready!(answering.poll_step(cx)) {
                Step::Interim(status, fields) => {
                    Poll::Ready(Ready::Interim(answering.take(), status, fields))
                }
                Step::Response(response) => Poll::Ready(Ready::Response(response)),
            },
            Self::Frame(body) => {
                // A service catches its own panics; a body that panics must not take the other
                // connections of its worker along.
                let frame = match catch_panic(|| Pin::new(&mut *body).poll_frame(cx)) {
                    Ok(frame) => ready!(frame),
                    Err(panic) => Some(Err(panic)),
                };
                let body = std::mem::replace(body, Body::empty());
                Poll::Ready(Ready::Frame(body, frame))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::HeldBytes;

    #[test]
    fn what_waits_for_a_reader_counts_and_stops_what_comes_when_too_much_is_held() {
        let client = HeldBytes::new(100);
        let mut exchanges = PendingWork::new(Rc::default());
        let body = exchanges.receive(1, &Request::new(()));
        exchanges.upload(1).unwrap().held = Some(client.holder());
        let take = |exchanges: &mut PendingWork<u8>, len| {
            let taken = exchanges.take(1, len, || Bytes::from(vec![0; len]));
            assert_eq!(taken, Taken::Kept);
            let receiving = exchanges.upload(1).unwrap();
            receiving.count();
            receiving.has_room(1_000)
        };
        assert!(take(&mut exchanges, 99));
        assert_eq!(client.bytes(), 99);
        assert!(!take(&mut exchanges, 1), "as much is held as may be");
        exchanges.end_upload(1);
        assert_eq!(client.bytes(), 0);
        drop(body);
    }

    #[tokio::test]
    async fn bytes_whose_reading_was_reported_are_given_back_with_an_exchange_that_ends() {
        let mut work = PendingWork::new(Rc::default());
        let mut body = work.receive(1, &Request::new(()));
        for _ in 0..2 {
            let taken = work.take(1, 50, || Bytes::from(vec![0; 50]));
            assert_eq!(taken, Taken::Kept);
        }
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut body).poll_frame(&mut context).is_ready());
        assert!(work.poll(&mut context), "it is told of");
        assert_eq!(work.cancel(1).unread, 100);
        assert!(work.next_ready().is_none());
    }

    /// Waits for a body that gives nothing.
    fn wait(work: &mut PendingWork<u8>, key: u8) {
        type Frames = Result<Frame<Bytes>, BoxError>;
        let frames = futures_util::stream::pending::<Frames>();
        let body = Body::stream(http_body_util::StreamBody::new(frames), None);
        assert!(work.begin(key, Work::Frame(body)).is_none());
        assert!(!work.poll(&mut Context::from_waker(Waker::noop())));
    }

    #[test]
    fn whoever_waits_for_nothing_hands_its_memory_on() {
        let spares = Rc::<SpareWork<u8>>::default();
        let mut works = [(); 2].map(|()| PendingWork::new(Rc::clone(&spares)));
        wait(&mut works[0], 1);
        works[0].rest();
        assert!(!works[0].is_idle(), "what is waited for is kept");
        works[0].cancel(1);
        let handed_on = std::ptr::from_ref(&**works[0].state.as_ref().unwrap());
        works[0].rest();
        assert!(works[0].state.is_none() && spares.len() == 1);
        wait(&mut works[1], 1);
        assert_eq!(spares.len(), 0);
        assert_eq!(
            works[1].state.as_deref().map(std::ptr::from_ref),
            Some(handed_on)
        );
        assert_eq!(works[1].unfinished(), [1]);
    }

    #[test]
    fn memory_to_whose_uploads_somebody_may_report_is_not_handed_on() {
        let spares = Rc::<SpareWork<u8>>::default();
        let mut work = PendingWork::new(Rc::clone(&spares));
        let body = work.receive(1, &Request::new(()));
        work.end_upload(1);
        work.rest();
        assert!(work.state.is_none());
        assert_eq!(spares.len(), 0, "its reader has the reporter yet");
        drop(body);
        drop(work.receive(1, &Request::new(())));
        work.end_upload(1);
        work.rest();
        assert_eq!(spares.len(), 1);
        let mut state = spares.take().unwrap();
        assert!(
            state.reports.try_recv().is_err(),
            "what was reported is forgotten"
        );
    }
}
