//! The part of an HTTP/1.1 response that has left its body and not yet this process.
//!
//! hyper buffers what a body gives, and TLS what hyper gives it. Both are bounded for a connection; for
//! all connections of a worker they count as held, and while as much is held as may be, a body gives
//! nothing more until its client has taken what it gave.

use super::socket::Socket;
use crate::held::{HeldBytes, MemoryReservation};
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

/// Bytes of a body that are read at once while as much is held as may be: what each connection then has of its own,
/// however many there are.
pub(super) const SCARCE_CHUNK: usize = 4 << 10;

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
    held: RefCell<MemoryReservation>,
    /// Bytes that the response's body has given, and bytes that were taken of the response.
    given: Cell<u64>,
    taken: Cell<u64>,
    /// The stream below holds bytes that it has taken.
    buffered: Cell<bool>,
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
            buffered: Cell::new(false),
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

    /// Returns true if as much is held as may be, by the client or by all.
    pub(super) fn is_scarce(&self) -> bool {
        self.0.worker.is_full()
    }

    /// Returns true if the body has to wait until the client has taken something; wakes its task then.
    pub(super) fn must_wait(&self, cx: &Context<'_>) -> bool {
        let waits = self.is_scarce() && (self.unsent() > 0 || self.0.buffered.get());
        if waits {
            *self.0.waiting.borrow_mut() = Some(cx.waker().clone());
        }
        waits
    }

    /// The stream below has taken so many bytes, and holds some of them or none.
    fn take(&self, bytes: usize, buffered: bool) {
        // The heads of responses count as well, and what encodes a body: at the end of a response more
        // than its body was taken.
        self.0.taken.set(self.0.taken.get() + bytes as u64);
        let emptied = self.0.buffered.replace(buffered) && !buffered;
        if bytes == 0 && !emptied {
            return;
        }
        self.count();
        if let Some(waker) = self.0.waiting.borrow_mut().take() {
            waker.wake();
        }
    }

    fn unsent(&self) -> u64 {
        self.0.given.get().saturating_sub(self.0.taken.get())
    }

    fn count(&self) {
        let unsent = usize::try_from(self.unsent()).unwrap_or(usize::MAX);
        let below = if self.0.buffered.get() {
            TLS_BUFFER_BYTES
        } else {
            0
        };
        let bytes = unsent.saturating_add(below);
        self.0.held.borrow_mut().set(bytes);
    }
}

/// A stream that may hold bytes that were written to it.
pub(super) trait Buffering {
    /// Returns true if the stream holds such bytes.
    fn is_buffering(&self) -> bool;
}

impl Buffering for Socket {
    fn is_buffering(&self) -> bool {
        false
    }
}

impl Buffering for TlsStream<Socket> {
    fn is_buffering(&self) -> bool {
        self.get_ref().1.wants_write()
    }
}

impl<S: Buffering> Buffering for Box<S> {
    fn is_buffering(&self) -> bool {
        (**self).is_buffering()
    }
}

/// A stream whose writes are counted.
pub(super) struct Counting<S> {
    stream: S,
    ahead: WriteAhead,
}

impl<S: Buffering> Counting<S> {
    pub(super) fn new(stream: S, ahead: WriteAhead) -> Self {
        Self { stream, ahead }
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let bytes = match &written {
            Poll::Ready(Ok(bytes)) => *bytes,
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        self.ahead.take(bytes, self.stream.is_buffering());
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

impl<S: AsyncWrite + Buffering + Unpin> AsyncWrite for Counting<S> {
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
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.ahead.take(0, self.stream.is_buffering());
        flushed
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

    /// A stream like TLS: holds what was written to it until it is flushed.
    struct Buffer {
        holds: bool,
        blocked: Rc<Cell<bool>>,
    }

    impl Buffering for Buffer {
        fn is_buffering(&self) -> bool {
            self.holds
        }
    }

    impl AsyncWrite for Buffer {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.holds = true;
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if self.blocked.get() {
                return Poll::Pending;
            }
            self.holds = false;
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_body_waits_only_while_too_much_is_held_and_something_of_its_own() {
        let worker = HeldBytes::new(100);
        let [ahead, other] = [WriteAhead::new(&worker), WriteAhead::new(&worker)];
        ahead.begin();
        ahead.give(99);
        assert!(!ahead.must_wait(&context()));
        ahead.give(1);
        assert!(ahead.must_wait(&context()));
        assert!(!other.must_wait(&context()), "it holds nothing");
        let (blocked, holds) = (Rc::new(Cell::new(false)), false);
        let buffer = Buffer {
            holds,
            blocked: Rc::clone(&blocked),
        };
        let mut stream = Counting::new(buffer, ahead.clone());
        stream.write_all(&[0; 60]).await.unwrap();
        assert_eq!(worker.bytes(), TLS_BUFFER_BYTES + 40);
        stream.flush().await.unwrap();
        assert_eq!(worker.bytes(), 40);
        stream.write_all(&[0; 60]).await.unwrap();
        blocked.set(true);
        let flushed = Pin::new(&mut stream).poll_flush(&mut context());
        assert!(
            flushed.is_pending() && ahead.must_wait(&context()),
            "TLS holds it"
        );
        blocked.set(false);
        stream.flush().await.unwrap();
        assert!(!ahead.must_wait(&context()));
        assert_eq!(worker.bytes(), 0);
        drop(stream);
    }
}
