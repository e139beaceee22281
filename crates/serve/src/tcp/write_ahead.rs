//! The part of an HTTP/1.1 response that has left its body and not yet this process.
//!
//! hyper buffers what a body gives, and TLS what hyper gives it. Both are bounded for a connection; for
//! all connections of a worker they count as held, and while as much is held as may be, a body gives
//! nothing more until its client has taken what it gave.

use crate::held::{Held, HeldBytes};
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that TLS may hold for a connection over HTTP/1.1: two records.
pub(super) const TLS_BUFFER_BYTES: usize = 32 << 10;

/// Bytes that the kernel may hold of a connection over HTTP/1.1 that it has not sent.
pub(super) const KERNEL_UNSENT_BYTES: u32 = 64 << 10;

/// The bytes between a connection's response and its socket.
#[derive(Debug, Clone)]
pub(super) struct WriteAhead(Rc<State>);

#[derive(Debug)]
struct State {
    worker: HeldBytes,
    held: RefCell<Held>,
    /// Bytes that the response's body has given, and bytes that were taken of the response.
    given: Cell<u64>,
    taken: Cell<u64>,
    /// The body that waits for the client.
    waiting: RefCell<Option<Waker>>,
}

impl WriteAhead {
    pub(super) fn new(worker: &HeldBytes) -> Self {
        Self(Rc::new(State {
            held: RefCell::new(worker.holder()),
            worker: worker.clone(),
            given: Cell::new(0),
            taken: Cell::new(0),
            waiting: RefCell::new(None),
        }))
    }

    /// A response begins.
    pub(super) fn begin(&self) {
        self.0.given.set(0);
        self.0.taken.set(0);
        self.count();
    }

    /// The body gives so many bytes.
    pub(super) fn give(&self, bytes: usize) {
        self.0.given.set(self.0.given.get() + bytes as u64);
        self.count();
    }

    /// Whether the body has to wait until the client has taken something; wakes it then.
    pub(super) fn must_wait(&self, cx: &Context<'_>) -> bool {
        let waits = self.0.worker.is_full() && self.unsent() > 0;
        if waits {
            *self.0.waiting.borrow_mut() = Some(cx.waker().clone());
        }
        waits
    }

    fn take(&self, bytes: usize) {
        // The heads of responses count as well, and what encodes a body: at the end of a response more
        // than its body was taken.
        self.0.taken.set(self.0.taken.get() + bytes as u64);
        self.count();
        if let Some(waker) = self.0.waiting.borrow_mut().take() {
            waker.wake();
        }
    }

    fn unsent(&self) -> u64 {
        self.0.given.get().saturating_sub(self.0.taken.get())
    }

    fn count(&self) {
        let bytes = match usize::try_from(self.unsent()).unwrap_or(usize::MAX) {
            0 => 0,
            unsent => unsent.saturating_add(TLS_BUFFER_BYTES),
        };
        self.0.held.borrow_mut().set(bytes);
    }
}

/// A stream whose writes are counted.
pub(super) struct Counting<S> {
    stream: S,
    ahead: WriteAhead,
}

impl<S> Counting<S> {
    pub(super) fn new(stream: S, ahead: WriteAhead) -> Self {
        Self { stream, ahead }
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.ahead.take(*bytes);
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counting<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counting<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.count(written)
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    fn context() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    #[tokio::test]
    async fn a_body_waits_only_while_too_much_is_held_and_something_of_its_own() {
        let worker = HeldBytes::new(TLS_BUFFER_BYTES + 100);
        let [ahead, other] = [WriteAhead::new(&worker), WriteAhead::new(&worker)];
        ahead.begin();
        ahead.give(99);
        assert!(!ahead.must_wait(&context()));
        ahead.give(1);
        assert!(ahead.must_wait(&context()));
        assert!(!other.must_wait(&context()), "it holds nothing");
        let mut stream = Counting::new(tokio::io::sink(), ahead.clone());
        stream.write_all(&[0; 60]).await.unwrap();
        assert!(!ahead.must_wait(&context()));
        assert_eq!(worker.bytes(), TLS_BUFFER_BYTES + 40);
        stream.write_all(&[0; 60]).await.unwrap();
        assert_eq!(worker.bytes(), 0);
        drop(stream);
    }
}
