//! A response's body on its way from whoever makes it to its protocol, whichever that is.

use crate::files::{Piece, Reading};
use crate::held::MemoryReservation;
use crate::request::body::Body;
use crate::request::carrier::Carrier;
use crate::request::exchanges::ExchangeContext;
use crate::request::handler::BoxError;
use crate::request::pending::{PendingWork, Work};
use crate::request::record::ResponseRecord;
use crate::request::trickle::Trickle;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame};
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Bytes of memory that a response takes which waits for its client, beside those of its body.
pub(crate) const RESPONSE_OVERHEAD: usize = 512;

/// A response's body that has not been handed over whole, and what it holds.
pub(crate) struct Outgoing {
    source: Source,
    /// Time at which bytes of it were last taken, or could first be.
    pub(crate) moved: Instant,
    held: MemoryReservation,
    /// Bytes that were handed over since it was asked.
    handed_over: usize,
    /// Bytes among those handed over that are a little of a stream of events.
    trickled: usize,
    /// True while the body has nothing to give, of which the observer was told, or is a stream of events that gives a little.
    waits: bool,
    /// True if the body has waited and does no more, of which the observer was not told.
    goes_on: bool,
    /// Notes of a stream of events or of a tunnel; `None`: the body is neither.
    trickle: Option<Box<Trickle>>,
    /// All of it was handed over.
    is_whole: bool,
}

enum Source {
    Body(Sending),
    File(Reading, Option<ResponseRecord>),
}

/// The progress of a body since it was asked.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Bytes that were handed over.
    pub(crate) bytes: usize,
    /// Bytes beside these that are a little of a stream of events, which is taken for waiting.
    pub(crate) trickled: usize,
    /// True if the body has waited and does no more.
    pub(crate) goes_on: bool,
}

/// The state of a body after it was handed over as far as it went.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The body has more to give.
    Part,
    /// The body has more to give, when its source has it: from now on.
    Waiting,
    All,
}

impl Outgoing {
    pub(crate) fn of(body: Body, held: MemoryReservation, now: Instant) -> Self {
        let trickle = body.trickle();
        let source = match body.into_file() {
            Ok((range, record)) => Source::File(Reading::File(range), record),
            Err(body) => Source::Body(Sending::new(body)),
        };
        let mut outgoing = Self::new(source, held, now);
        outgoing.trickle = trickle;
        outgoing
    }

    /// Makes one of the rest of a file.
    pub(crate) fn of_file(
        (reading, record): (Reading, Option<ResponseRecord>),
        held: MemoryReservation,
        now: Instant,
    ) -> Self {
        Self::new(Source::File(reading, record), held, now)
    }

    fn new(source: Source, held: MemoryReservation, now: Instant) -> Self {
        Self {
            source,
            moved: now,
            held,
            handed_over: 0,
            trickled: 0,
            waits: false,
            goes_on: false,
            trickle: None,
            is_whole: false,
        }
    }

    /// Takes a body back from where it waited, with what it gave.
    ///
    /// # Errors
    /// The body fails.
    pub(crate) fn resume(
        &mut self,
        body: Body,
        frame: Option<Result<Frame<Bytes>, BoxError>>,
        now: Instant,
    ) -> Result<(), BoxError> {
        // Only from now on can the client hold it up.
        self.moved = now;
        if self.trickle.is_none() {
            self.go_on();
        }
        match &mut self.source {
            Source::Body(sending) => sending.resume(body, frame),
            Source::File(..) => Ok(()),
        }
    }

    /// The progress since this was asked.
    pub(crate) fn take_progress(&mut self) -> Progress {
        let trickled = std::mem::take(&mut self.trickled);
        Progress {
            bytes: std::mem::take(&mut self.handed_over) - trickled,
            trickled,
            goes_on: std::mem::take(&mut self.goes_on),
        }
    }

    /// Returns true if the observer takes it for waiting.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    fn go_on(&mut self) {
        self.goes_on |= std::mem::take(&mut self.waits);
    }

    /// Notes what a body has given that was waited for: a little of a stream of events leaves it as one that waits.
    fn note(&mut self, given: usize, is_last: bool, now: Instant) {
        if !self.waits || (given == 0 && !is_last) {
            return;
        }
        let trickle = self.trickle.as_mut().filter(|_| !is_last);
        match trickle.is_some_and(|it| it.takes(given, now)) {
            true => self.trickled += given,
            false => self.go_on(),
        }
    }

    /// Returns true if bytes wait for the client, not for whoever makes them.
    pub(crate) fn is_held_up(&self) -> bool {
        match &self.source {
            Source::Body(sending) => sending.is_held_up(),
            Source::File(..) => true,
        }
    }

    /// Hands over as much as the protocol takes in this response's turn, and counts what is left in memory.
    ///
    /// # Errors
    /// The body fails, the file can't be read, or the stream is gone.
    pub(crate) fn hand_over<C: Carrier>(
        &mut self,
        stream: C::Stream,
        context: &mut ExchangeContext<'_, C>,
    ) -> Result<Sent, BoxError> {
        let mut sent = Ok(Sent::Part);
        let mut again = false;
        while let Ok(Sent::Part) = sent
            && let Some(room) = context.carrier.room(stream, again)
        {
            again = true;
            let before = self.handed_over;
            let taken = self.hand_over_piece(stream, room, context);
            let given = self.handed_over - before;
            let is_last = matches!(taken, Ok(Taken::Last));
            self.note(given, is_last, context.now.instant);
            match taken {
                Ok(Taken::All) => {}
                Ok(Taken::Part) => break,
                Ok(Taken::Nothing) => {
                    if !std::mem::replace(&mut self.waits, true) {
                        sent = Ok(Sent::Waiting);
                    }
                    break;
                }
                Ok(Taken::Last) => {
                    self.complete();
                    sent = Ok(Sent::All);
                }
                Err(error) => sent = Err(error),
            }
        }
        let waiting = match &self.source {
            Source::Body(sending) => sending.held(),
            Source::File(reading, _) => reading.held(),
        };
        self.held.set(RESPONSE_OVERHEAD + waiting);
        sent
    }

    /// All was handed over: a file that is sent by parts has an end that only is known here.
    fn complete(&mut self) {
        self.is_whole = true;
        if let Source::File(_, Some(record)) = &mut self.source {
            record.completed();
        }
    }

    fn hand_over_piece<C: Carrier>(
        &mut self,
        stream: C::Stream,
        room: usize,
        context: &mut ExchangeContext<'_, C>,
    ) -> Result<Taken, BoxError> {
        let ExchangeContext {
            carrier,
            pending,
            files,
            now,
        } = context;
        let (mut piece, mut nothing) = (Piece::nothing(), Bytes::new());
        let (chunk, last) = match &mut self.source {
            Source::File(reading, _) => {
                if room > 0 {
                    piece = reading.next(&mut files.borrow_mut(), room)?;
                }
                (&mut piece.bytes, piece.last)
            }
            // What can't leave is not asked for.
            Source::Body(sending) if room == 0 && !sending.is_at_end() => (&mut nothing, false),
            Source::Body(sending) => match sending.next(carrier.key(stream), pending)? {
                Next::Nothing => return Ok(Taken::Nothing),
                Next::Data { chunk, last } => (chunk, last),
                Next::Trailers(trailers) => {
                    carrier.send_trailers(stream, &trailers)?;
                    return Ok(Taken::Last);
                }
            },
        };
        let before = chunk.len();
        carrier.send_data(stream, chunk, last)?;
        let left = chunk.len();
        if left < before {
            self.moved = now.instant;
        }
        self.handed_over += before - left;
        if let Source::File(reading, record) = &mut self.source {
            reading.advance(before - left);
            if let Some(record) = record {
                record.sent(before - left);
            }
        }
        Ok(match (left, last) {
            (0, true) => Taken::Last,
            (0, false) => Taken::All,
            _ => Taken::Part,
        })
    }
}

impl Drop for Outgoing {
    /// A body may have given its last bytes, and they were not handed over.
    fn drop(&mut self) {
        if !self.is_whole
            && let Source::Body(Sending {
                body: Some(body), ..
            }) = &mut self.source
        {
            body.cut_off();
        }
    }
}

/// The part of a piece that a protocol has taken.
enum Taken {
    All,
    Part,
    /// Nothing, because there is no piece yet.
    Nothing,
    /// All of it, and it was the last.
    Last,
}

/// A body that has not been handed over whole. Holds one chunk of it.
struct Sending {
    /// `None` while it is waited for.
    body: Option<Body>,
    chunk: Bytes,
    trailers: Option<HeaderMap>,
    /// The body has given all that it has.
    is_read: bool,
}

/// The next thing to hand over.
enum Next<'a> {
    /// Bytes to hand over: those that are handed over are to be taken away. `last`: the content
    /// ends with them.
    Data { chunk: &'a mut Bytes, last: bool },
    /// The content's end, with fields.
    Trailers(HeaderMap),
    /// Nothing yet, because the body is waited for.
    Nothing,
}

impl Sending {
    fn new(body: Body) -> Self {
        Self {
            is_read: body.is_end_stream(),
            body: Some(body),
            chunk: Bytes::new(),
            trailers: None,
        }
    }

    /// Finds what to hand over next for `key`; what is not there yet is waited for in `pending`.
    ///
    /// # Errors
    /// The body fails.
    fn next<K: Copy + Eq + Hash + Unpin + Send + 'static>(
        &mut self,
        key: K,
        pending: &mut PendingWork<K>,
    ) -> Result<Next<'_>, BoxError> {
        while self.chunk.is_empty() && !self.is_read {
            let Some(body) = &mut self.body else {
                return Ok(Next::Nothing);
            };
            // Nothing is to be woken: what isn't ready is polled again before anybody waits.
            let mut context = Context::from_waker(Waker::noop());
            match Pin::new(body).poll_frame(&mut context) {
                Poll::Ready(frame) => self.take_frame(frame)?,
                Poll::Pending => {
                    let body = self.body.take().map(Work::Frame);
                    body.into_iter().for_each(|work| pending.wait(key, work));
                }
            }
        }
        if self.chunk.is_empty()
            && let Some(trailers) = self.trailers.take()
        {
            return Ok(Next::Trailers(trailers));
        }
        Ok(Next::Data {
            last: self.is_read && self.trailers.is_none(),
            chunk: &mut self.chunk,
        })
    }

    /// Takes the body back from where it waited, with what it gave.
    ///
    /// # Errors
    /// The body fails.
    fn resume(
        &mut self,
        body: Body,
        frame: Option<Result<Frame<Bytes>, BoxError>>,
    ) -> Result<(), BoxError> {
        self.body = Some(body);
        self.take_frame(frame)
    }

    /// Takes what the body gave, which is gone if it fails.
    fn take_frame(
        &mut self,
        frame: Option<Result<Frame<Bytes>, BoxError>>,
    ) -> Result<(), BoxError> {
        let frame = frame.transpose().inspect_err(|_| self.body = None)?;
        self.is_read = frame.is_none() || self.body.as_ref().is_none_or(Body::is_end_stream);
        match frame.map(Frame::into_data) {
            Some(Ok(data)) => self.chunk = data,
            Some(Err(frame)) => {
                // Nothing follows trailers.
                self.trailers = frame.into_trailers().ok();
                self.is_read |= self.trailers.is_some();
            }
            None => {}
        }
        Ok(())
    }

    /// Returns true if nothing is left but the end, or trailers: neither waits for a window.
    fn is_at_end(&self) -> bool {
        self.chunk.is_empty() && self.is_read
    }

    /// Bytes in memory that wait for the client.
    fn held(&self) -> usize {
        self.chunk.len() + self.body.as_ref().map_or(0, Body::held)
    }

    /// Returns true if bytes wait for the client, not for the body.
    fn is_held_up(&self) -> bool {
        !self.chunk.is_empty()
    }
}
