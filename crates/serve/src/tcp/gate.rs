//! The gate before hyper: every byte of an HTTP/1.1 connection is read by a [`Scanner`] on its way.
//!
//! hyper takes LF for CR LF, drops a Content-Length beside Transfer-Encoding, makes one of equal
//! Content-Lengths, and cuts fragments off, and nothing of that can be seen in its requests. So heads
//! are checked as they arrive, and refused by their number: hyper hands over the request, and the
//! answer is the refusal's status and the connection's last. Content whose chunks or trailers break
//! their rules ends the connection. hyper refuses more by itself (400, 431), such as control bytes.

use crate::held::{Held, HeldBytes, UNFINISHED_HEAD};
use altway_message::{Refusal, Rules, Scanner, Scheme};
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

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
    /// Counts what a head holds that has not arrived whole.
    held: Held,
}

impl Gate {
    /// `share`: the client's.
    pub(super) fn new(scheme: Scheme, share: &HeldBytes) -> Self {
        Self(Rc::new(RefCell::new(State {
            scanner: Scanner::new(Rules::http1(scheme)),
            requests: 0,
            broken: None,
            held: share.holder(),
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

    /// Checks whether a head has begun that is not complete.
    pub(super) fn is_within_head(&self) -> bool {
        self.0.borrow().scanner.kept() > 0
    }

    /// Reads the bytes that have arrived, and gives how many of them may be read by others.
    fn admit(&self, bytes: &[u8]) -> usize {
        let mut state = self.0.borrow_mut();
        let admitted = match state.scanner.scan(bytes) {
            Ok(()) => bytes.len(),
            Err(broken) => {
                state.broken = Some(broken.refusal);
                broken.at
            }
        };
        // hyper keeps it as well.
        let kept = 2 * state.scanner.kept();
        state.held.set(kept);
        admitted
    }

    /// # Errors
    /// The connection's content is broken, or its head takes more than there is room for: the rest would
    /// not be told of when there is.
    fn check(&self) -> io::Result<()> {
        let state = self.0.borrow();
        if let Some(refusal) = state.broken {
            return Err(io::Error::new(io::ErrorKind::InvalidData, refusal));
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
}

impl<S> Gated<S> {
    pub(super) fn new(stream: S, gate: Gate) -> Self {
        Self { stream, gate }
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
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let arrived = buffer.filled().len() - before;
        let admitted = self.gate.admit(&buffer.filled()[before..]);
        buffer.set_filled(before + admitted);
        // Nothing admitted must not look like the end of the stream.
        if admitted == 0 && arrived > 0 {
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
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
