//! A byte stream that leaves whoever reads from it time to write.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads in a row after which there is nothing to read for a moment.
const MAX_READS: u32 = 16;

/// A stream whose reads pause, as tokio's do, but long before the task has used up its budget: h2 writes once it has nothing to
/// read, and tokio has tasks without budget neither read nor write. A server that sends faster than it is read from would
/// keep every request from being sent.
#[derive(Debug)]
pub(super) struct Yielding<S> {
    stream: S,
    /// Reads since the last pause.
    reads: u32,
}

impl<S> Yielding<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, reads: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Yielding<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = std::mem::take(&mut self.reads);
        if before == MAX_READS {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.reads = before + 1;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Yielding<S> {
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
        slices: &[IoSlice<'_>],
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
