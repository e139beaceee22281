//! The content of a request on its way to a server: streamed as the client sends it, and kept for another attempt as
//! long as it is short.
//!
//! A [`Content`] belongs to the request, an [`Outgoing`] to one attempt. A later attempt is given again what was kept,
//! and then what is still to come.

use crate::{BoxError, heads, retry};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The form in which a request's content is given.
type Source = UnsyncBoxBody<Bytes, BoxError>;

/// The content of a request over all its attempts.
#[derive(Debug)]
pub(crate) struct Content(Option<Arc<Mutex<State>>>);

struct State {
    source: Source,
    /// The bytes that were read of the source, from its beginning; `None`: some of them are gone.
    kept: Option<RetainedContent>,
    keep: usize,
    /// The source has given something.
    is_touched: bool,
    is_finished: bool,
    /// Bytes that may still come.
    allowed: u64,
    fault: Option<Fault>,
    /// An attempt waits for the client.
    is_waiting: bool,
    /// Frames that were read, for whoever looks whether the client sends.
    frames: u64,
    /// Attempts made; only the last one may read.
    attempt: u64,
    /// The place of that one in what was kept.
    next: usize,
    /// No other attempt follows.
    is_last: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("kept", &self.kept)
            .field("is_finished", &self.is_finished)
            .finish_non_exhaustive()
    }
}

/// A fault of the content, and so of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The client ended it before its end, or broke the rules.
    Broken,
    /// The content is longer than it may be.
    TooLong,
}

/// The progress of a client that sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) frames: u64,
    pub(crate) is_finished: bool,
    pub(crate) is_waiting: bool,
}

impl Content {
    /// `keep` bytes of it are kept for another attempt; `most` bytes may come at all. One of which the client says that it is
    /// longer has its fault at once.
    pub(crate) fn new<B>(body: B, keep: usize, most: Option<u64>) -> Self
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        if body.is_end_stream() {
            return Self(None);
        }
        let most = most.unwrap_or(u64::MAX);
        let is_too_long = body.size_hint().lower() > most;
        let state = State {
            source: body.map_err(Into::into).boxed_unsync(),
            kept: Some(RetainedContent::default()),
            keep,
            is_touched: false,
            is_finished: false,
            allowed: most,
            fault: is_too_long.then_some(Fault::TooLong),
            is_waiting: false,
            frames: 0,
            attempt: 0,
            next: 0,
            is_last: false,
        };
        Self(Some(Arc::new(Mutex::new(state))))
    }

    /// The body of the next attempt. `continue_signal`: it begins when that is open.
    pub(crate) fn attempt(&self, continue_signal: Option<ContinueSignal>) -> Outgoing {
        let Some(state) = &self.0 else {
            return Outgoing(None);
        };
        let mut locked = lock(state);
        locked.attempt += 1;
        locked.next = 0;
        let attempt = locked.attempt;
        drop(locked);
        Outgoing(Some(Attempt {
            state: Arc::clone(state),
            attempt,
            continue_signal,
        }))
    }

    /// Tells what is left of the content for another attempt.
    pub(crate) fn left(&self) -> retry::Content {
        let Some(state) = &self.0 else {
            return retry::Content::None;
        };
        let state = lock(state);
        match (state.is_touched, &state.kept) {
            (false, _) => retry::Content::Untouched,
            (true, Some(_)) => retry::Content::Kept,
            (true, None) => retry::Content::Taken,
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        let Some(state) = &self.0 else {
            return Progress {
                frames: 0,
                is_finished: true,
                is_waiting: false,
            };
        };
        let state = lock(state);
        Progress {
            frames: state.frames,
            is_finished: state.is_finished || state.is_at_end(),
            is_waiting: state.is_waiting,
        }
    }

    /// Returns what is wrong with it, as far as it has come.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.0.as_ref().and_then(|state| lock(state).fault)
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

/// The request has its response: what is still sent of its content, which may take for ever, is not kept as well.
impl Drop for Content {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            let mut state = lock(state);
            state.is_last = true;
            state.forget_sent();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The content of a request as one attempt sends it.
#[derive(Debug, Default)]
pub(crate) struct Outgoing(Option<Attempt>);

#[derive(Debug)]
struct Attempt {
    state: Arc<Mutex<State>>,
    attempt: u64,
    continue_signal: Option<ContinueSignal>,
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(attempt) = &self.0 else {
            return Poll::Ready(None);
        };
        if attempt
            .continue_signal
            .as_ref()
            .is_some_and(|continue_signal| !continue_signal.poll_open(cx))
        {
            return Poll::Pending;
        }
        let mut state = lock(&attempt.state);
        if state.attempt != attempt.attempt {
            return Poll::Ready(Some(Err("another attempt goes on with the content".into())));
        }
        let kept = state.kept.as_ref();
        let again = kept.and_then(|kept| kept.pieces.get(state.next).cloned());
        let frame = match again {
            Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            None => state.read(cx),
        };
        if let Poll::Ready(Some(Ok(_))) = &frame {
            state.next += 1;
            state.forget_sent();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        let Some(attempt) = &self.0 else { return true };
        let state = lock(&attempt.state);
        let kept = state.kept.as_ref().map_or(0, |it| it.pieces.len());
        state.next >= kept && (state.is_finished || state.is_at_end())
    }

    fn size_hint(&self) -> SizeHint {
        let Some(attempt) = &self.0 else {
            return SizeHint::with_exact(0);
        };
        let state = lock(&attempt.state);
        let hint = state.source.size_hint();
        let kept = state.kept.as_ref().map_or(&[][..], |it| &it.pieces);
        let again = kept.iter().skip(state.next).map(Bytes::len).sum::<usize>() as u64;
        match hint.exact() {
            Some(rest) => SizeHint::with_exact(rest + again),
            None => SizeHint::new(),
        }
    }
}

impl State {
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.is_finished {
            return Poll::Ready(None);
        }
        let mut frame = Pin::new(&mut self.source).poll_frame(cx);
        self.is_waiting = frame.is_pending();
        if let Poll::Ready(Some(Ok(data))) = &frame
            && !self.allow(data)
        {
            frame = Poll::Ready(Some(Err("the content is longer than it may be".into())));
        }
        match &mut frame {
            Poll::Pending => {}
            Poll::Ready(None) => self.is_finished = true,
            Poll::Ready(Some(Err(_))) => {
                self.fault.get_or_insert(Fault::Broken);
                self.kept = None;
                self.is_touched = true;
            }
            Poll::Ready(Some(Ok(frame))) => {
                self.frames += 1;
                self.is_touched = true;
                if let Some(trailers) = frame.trailers_mut() {
                    heads::pass_trailers(trailers);
                }
                self.keep(frame);
                self.is_finished = self.is_at_end();
            }
        }
        frame
    }

    /// Counts a frame; false: with it the content is longer than it may be.
    fn allow(&mut self, frame: &Frame<Bytes>) -> bool {
        let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
        match self.allowed.checked_sub(bytes) {
            Some(left) => self.allowed = left,
            None => self.fault = Some(Fault::TooLong),
        }
        self.fault.is_none()
    }

    /// Tells whether nothing is to come; where the length is known, the sender may not ask again.
    fn is_at_end(&self) -> bool {
        self.source.is_end_stream() || self.source.size_hint().upper() == Some(0)
    }

    /// Lets go of what is kept for an attempt that will not be, once this one has been given it.
    fn forget_sent(&mut self) {
        let is_sent = |kept: &RetainedContent| self.next >= kept.pieces.len();
        if self.is_last && self.kept.as_ref().is_some_and(is_sent) {
            self.kept = None;
        }
    }

    fn keep(&mut self, frame: &Frame<Bytes>) {
        let Some(kept) = &mut self.kept else { return };
        match frame.data_ref() {
            // Of an empty frame nothing would be known of what it holds.
            Some(data) if kept.add(data, self.keep) => {}
            // What is too long, and trailers, which come last, are sent once.
            _ => self.kept = None,
        }
    }
}

/// The most bytes that requests of all workers together keep for another attempt: content beyond that is sent once.
pub const MAX_KEPT: usize = 16 << 20;

/// The most pieces of one content that are kept.
const MAX_PIECES: usize = 64;

static KEPT: Budget = Budget::new(MAX_KEPT);

/// A bound on bytes, for all threads.
#[derive(Debug)]
struct Budget {
    taken: AtomicUsize,
    most: usize,
}

impl Budget {
    const fn new(most: usize) -> Self {
        Self {
            taken: AtomicUsize::new(0),
            most,
        }
    }

    fn take(&self, bytes: usize) -> bool {
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if taken > self.most {
            self.give_back(bytes);
        }
        taken <= self.most
    }

    fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Content that is kept, and counts as long as it is.
#[derive(Debug, Default)]
struct RetainedContent {
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl RetainedContent {
    /// Keeps one piece more, if that is not too much for the content or for all of them.
    fn add(&mut self, data: &Bytes, most: usize) -> bool {
        let fits = self.bytes + data.len() <= most && self.pieces.len() < MAX_PIECES;
        if !fits || !KEPT.take(data.len()) {
            return false;
        }
        self.bytes += data.len();
        self.pieces.push(data.clone());
        true
    }
}

impl Drop for RetainedContent {
    fn drop(&mut self) {
        KEPT.give_back(self.bytes);
    }
}

/// Holds content back until the server asks for it (RFC 9110 section 10.1.1).
#[derive(Debug, Clone, Default)]
pub(crate) struct ContinueSignal(Arc<ContinueState>);

#[derive(Debug, Default)]
struct ContinueState {
    is_open: AtomicBool,
    waiting: Mutex<Option<Waker>>,
}

impl ContinueSignal {
    pub(crate) fn open(&self) {
        self.0.is_open.store(true, Ordering::Release);
        let mut waiting = self
            .0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = waiting.take() {
            waker.wake();
        }
    }

    fn poll_open(&self, cx: &Context<'_>) -> bool {
        if self.0.is_open.load(Ordering::Acquire) {
            return true;
        }
        let mut waiting = self
            .0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *waiting = Some(cx.waker().clone());
        // It may have been opened in between.
        self.0.is_open.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::StreamBody;

    #[test]
    fn what_is_kept_goes_with_the_request_once_its_attempt_was_given_it() {
        let frames = ["one", "two"].map(|data| Ok::<_, BoxError>(Frame::data(data.into())));
        let body = StreamBody::new(futures_util::stream::iter(frames));
        let content = Content::new(body, 100, None);
        let next = |attempt: &mut Outgoing| {
            let mut context = Context::from_waker(Waker::noop());
            match Pin::new(attempt).poll_frame(&mut context) {
                Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
                _ => None,
            }
        };
        assert_eq!(next(&mut content.attempt(None)).unwrap(), "one");
        let mut again = content.attempt(None);
        let state = Arc::clone(content.0.as_ref().unwrap());
        let kept = || lock(&state).kept.as_ref().map(|kept| kept.pieces.len());
        drop(content);
        assert_eq!(kept(), Some(1), "it is yet to be sent again");
        assert_eq!(next(&mut again).unwrap(), "one");
        assert_eq!(kept(), None);
        assert_eq!(next(&mut again).unwrap(), "two");
        assert_eq!(kept(), None);
        assert_eq!(next(&mut again), None);
    }

    #[test]
    fn what_is_kept_is_bounded_for_all_contents_together_and_given_back() {
        let budget = Budget::new(100);
        assert!(budget.take(60) && !budget.take(41) && budget.take(40));
        assert!(!budget.take(1));
        budget.give_back(60);
        assert!(budget.take(60));
    }

    #[test]
    fn what_is_kept_of_one_content_is_bounded_in_bytes_and_pieces() {
        let data = Bytes::from_static(b"data");
        let mut kept = RetainedContent::default();
        assert!(kept.add(&data, 8) && kept.add(&data, 8));
        assert!(!kept.add(&data, 8), "nine bytes or more");
        let mut kept = RetainedContent::default();
        let added = (0..2 * MAX_PIECES).filter(|_| kept.add(&data, usize::MAX));
        assert_eq!(added.count(), MAX_PIECES);
    }
}
