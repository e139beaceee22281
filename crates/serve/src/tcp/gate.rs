//! The gate before hyper: every byte of an HTTP/1.1 connection is read by a [`Scanner`] on its way.
//!
//! hyper takes LF for CR LF, drops a Content-Length beside Transfer-Encoding, makes one of equal
//! Content-Lengths, and cuts fragments off, and nothing of that can be seen in its requests. So heads
//! are checked as they arrive, and refused by their number: hyper hands over the request, and the
//! answer is the refusal's status and the connection's last. Content whose chunks or trailers break
//! their rules ends the connection. hyper refuses more by itself (400, 431), such as control bytes.

use crate::held::{HeldBytes, MemoryReservation, UNFINISHED_HEAD};
use crate::request::rejected_head::RejectedHead;
use crate::tcp::rejected_head::write_head;
use crate::tcp::socket::Activity;
use altway_message::{Refusal, Rules, Scanner, Scheme};
use bytes::{Buf as _, BytesMut};
use http::{HeaderMap, StatusCode};
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes of a head that has not arrived whole: more than what the service answers, less than what hyper would
/// refuse by itself.
const MAX_UNFINISHED: usize = 48 * 1024;

/// The gate of a connection.
#[derive(Clone, Debug)]
pub(super) struct Gate(Rc<RefCell<State>>);

#[derive(Debug)]
struct State {
    scanner: Scanner,
    /// Requests that hyper has handed over.
    requests: u64,
    /// Content was broken: nothing more is read.
    broken: Option<Refusal>,
    /// The end of a head with too many fields that hyper, which takes no more itself, is yet to be given instead of
    /// them.
    end: &'static [u8],
    /// Counts what a head holds that has not arrived whole.
    held: MemoryReservation,
    /// A head is larger than it may be: nothing more is read.
    is_too_large: bool,
    /// The latest bytes of a response have not all been taken.
    has_unsent: bool,
    /// Interim responses that hyper knows nothing of, and whether any of it has left.
    interim: BytesMut,
    has_begun: bool,
    /// Nothing was written since the stream was last flushed.
    is_flushed: bool,
    /// The task that has not been told of the end of what the client sends.
    untold_end: Option<Waker>,
}

impl Gate {
    /// `share`: the client's.
    pub(super) fn new(scheme: Scheme, share: &HeldBytes) -> Self {
        Self(Rc::new(RefCell::new(State {
            scanner: Scanner::new(Rules::http1(scheme)),
            requests: 0,
            broken: None,
            end: b"",
            held: share.holder(),
            is_too_large: false,
            has_unsent: false,
            interim: BytesMut::new(),
            has_begun: false,
            is_flushed: true,
            untold_end: None,
        })))
    }

    /// The reason to refuse the next request that hyper hands over, if there is one.
    pub(super) fn next_refusal(&self) -> Option<Refusal> {
        let mut state = self.0.borrow_mut();
        let number = state.requests;
        state.requests += 1;
        // Where hyper has found a request and the gate none, they don't agree where messages end.
        let unknown = || state.scanner.refused().unwrap_or(Refusal::Framing);
        (number >= state.scanner.heads()).then(unknown)
    }

    /// The reason for which a head is rejected before its end; `None` where there is no such head, or where what was said
    /// before it has not all left. `is_late`: hyper has waited for it in vain.
    pub(super) fn rejection(&self, is_late: bool) -> Option<RejectedHead> {
        let state = self.0.borrow();
        if state.has_unsent {
            return None;
        }
        if state.is_too_large {
            return Some(RejectedHead::TooLarge);
        }
        let is_slow = is_late && state.scanner.kept() > 0;
        is_slow.then_some(RejectedHead::Late)
    }

    /// Has an interim response leave before the next response, as soon as hyper has nothing to say.
    pub(super) fn queue_interim(&self, status: StatusCode, fields: &HeaderMap) {
        write_head(&mut self.0.borrow_mut().interim, status, fields);
    }

    /// The next response is there: an interim one that has not begun to leave is of no use any more.
    pub(super) fn discard_interim(&self) {
        let mut state = self.0.borrow_mut();
        if !state.has_begun {
            state.interim = BytesMut::new();
        }
    }

    /// Sends the interim responses, or goes on with them.
    fn poll_interim<S: AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.borrow_mut();
        while !state.interim.is_empty() {
            let written = ready!(Pin::new(&mut *stream).poll_write(cx, &state.interim))?;
            state.interim.advance(written);
            state.has_begun = !state.interim.is_empty();
        }
        Poll::Ready(Ok(()))
    }

    /// Finishes an interim response of which a part has left.
    fn poll_begun<S: AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let has_begun = self.0.borrow().has_begun;
        match has_begun {
            true => self.poll_interim(stream, cx),
            false => Poll::Ready(Ok(())),
        }
    }

    /// Notes whether a write has taken all that it was given.
    fn wrote(&self, written: &Poll<io::Result<usize>>, given: usize) {
        let has_taken_all = matches!(written, Poll::Ready(Ok(taken)) if *taken == given);
        let mut state = self.0.borrow_mut();
        state.has_unsent = !has_taken_all;
        state.is_flushed = false;
    }

    /// Notes that all is with the kernel. `is_sending`: a response goes on.
    fn flushed(&self, is_sending: bool) {
        let mut state = self.0.borrow_mut();
        state.is_flushed = true;
        let untold = state.untold_end.take_if(|_| !is_sending);
        drop(state);
        if let Some(task) = untold {
            task.wake();
        }
    }

    /// Keeps the end of what the client sends from hyper, which would break off a response that the client still takes; returns
    /// whether it did. `is_sending`: such a response goes on.
    fn keeps_end(&self, is_sending: bool, cx: &Context<'_>) -> bool {
        let mut state = self.0.borrow_mut();
        let is_kept = is_sending || !state.is_flushed;
        if is_kept {
            state.untold_end = Some(cx.waker().clone());
        }
        is_kept
    }

    /// Reads the bytes that have arrived, and gives how many of them may be read by others.
    fn admit(&self, bytes: &[u8]) -> usize {
        let mut state = self.0.borrow_mut();
        let admitted = match state.scanner.scan(bytes) {
            Ok(()) => bytes.len(),
            Err(broken) => {
                match state.scanner.refused() {
                    Some(_) => state.end = b"\r\n",
                    None => state.broken = Some(broken.refusal),
                }
                broken.at
            }
        };
        state.is_too_large = state.scanner.unfinished() > MAX_UNFINISHED;
        // hyper keeps it as well.
        let kept = state.scanner.kept();
        state.held.set(2 * kept);
        admitted
    }

    /// Ends a head that was cut off, and returns whether it did.
    fn end_head(&self, buffer: &mut ReadBuf<'_>) -> bool {
        let end = &mut self.0.borrow_mut().end;
        let (now, later) = end.split_at(end.len().min(buffer.remaining()));
        buffer.put_slice(now);
        *end = later;
        !now.is_empty()
    }

    /// # Errors
    /// The connection's content is broken, or its head takes more than there is room for: the rest would
    /// not be told of when there is.
    fn check(&self) -> io::Result<()> {
        let state = self.0.borrow();
        if let Some(refusal) = state.broken {
            return Err(io::Error::new(io::ErrorKind::InvalidData, refusal));
        }
        if state.is_too_large {
            return Err(io::Error::other("the head is too large"));
        }
        if 2 * state.scanner.kept() > UNFINISHED_HEAD && state.held.is_scarce() {
            return Err(io::Error::other("as much is held as may be"));
        }
        Ok(())
    }
}

/// A stream that is read through the gate.
pub(super) struct Gated<S> {
    stream: S,
    gate: Gate,
    activity: Activity,
}

impl<S> Gated<S> {
    pub(super) fn new(stream: S, gate: Gate, activity: Activity) -> Self {
        Self {
            stream,
            gate,
            activity,
        }
    }

    /// The stream, for what is no longer HTTP.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gated<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.gate.check()?;
        if self.gate.end_head(buffer) {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let arrived = buffer.filled().len() - before;
        if arrived == 0 && self.gate.keeps_end(self.activity.is_sending(), cx) {
            return Poll::Pending;
        }
        let admitted = self.gate.admit(&buffer.filled()[before..]);
        buffer.set_filled(before + admitted);
        self.gate.end_head(buffer);
        // Nothing admitted must not look like the end of the stream; of a head that is too large nothing is shown.
        if (admitted == 0 && arrived > 0) || self.gate.0.borrow().is_too_large {
            self.gate.check()?;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gated<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, gate, .. } = &mut *self;
        ready!(gate.poll_begun(stream, cx))?;
        let written = Pin::new(stream).poll_write(cx, bytes);
        gate.wrote(&written, bytes.len());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, gate, .. } = &mut *self;
        ready!(gate.poll_begun(stream, cx))?;
        let written = Pin::new(stream).poll_write_vectored(cx, slices);
        let given = slices.iter().map(|slice| slice.len()).sum();
        gate.wrote(&written, given);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper asks for it when it has written all that it had: what it had not begun to say may wait for what
    /// precedes it.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self {
            stream,
            gate,
            activity,
        } = &mut *self;
        ready!(gate.poll_interim(stream, cx))?;
        ready!(Pin::new(stream).poll_flush(cx))?;
        gate.flushed(activity.is_sending());
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_not_too_large_by_the_way_in_which_it_is_cut() {
        let (query, value) = ("q".repeat(10_000), "y".repeat(MAX_UNFINISHED - 10_100));
        let head = format!("GET /?{query} HTTP/1.1\r\nHost: a\r\nX: {value}");
        for len in [1, 1_000, 8_192, head.len()] {
            let gate = Gate::new(Scheme::Http, &HeldBytes::new(1 << 20));
            for part in head.as_bytes().chunks(len) {
                assert_eq!(gate.admit(part), part.len());
                assert!(gate.check().is_ok(), "in parts of {len}");
            }
            gate.admit(&[b'y'; 100]);
            assert!(gate.check().is_err(), "in parts of {len}");
        }
    }
}
