//! A connection whose protocol is another one now: a byte stream whose server may be silent for as long as it likes, and is found
//! out once it has vanished.

use crate::counters::OpenConnection;
use crate::http2::{KEEP_ALIVE, KEEP_ALIVE_TIMEOUT};
use crate::socket::{Socket, Stream};
use altway_socket::{Keepalive, KeepaliveWatch};
use bytes::Bytes;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Keep-alive as over HTTP/2, where PING asks.
const KEEPALIVE: Keepalive = Keepalive {
    idle: KEEP_ALIVE,
    interval: KEEP_ALIVE_TIMEOUT.checked_div(2).expect("2 is not 0"),
    probes: 2,
};

/// The connection, with what was read of the other protocol.
#[derive(Debug)]
pub(crate) struct Switched {
    input: Bytes,
    stream: Stream,
    /// `None`: a Unix socket, whose other end can't vanish without a word.
    watch: Option<KeepaliveWatch>,
    _open: OpenConnection,
}

impl Switched {
    pub(super) fn new(input: Bytes, stream: Stream, open: OpenConnection) -> Self {
        let watch = match stream.socket() {
            Socket::Tcp(socket) => Some(KeepaliveWatch::new(KEEPALIVE, socket)),
            Socket::Unix(_) => None,
        };
        Self {
            input,
            stream,
            watch,
            _open: open,
        }
    }

    fn poll_vanished(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match (&mut self.watch, self.stream.socket()) {
            (Some(watch), Socket::Tcp(socket)) => watch.poll(socket, cx),
            _ => Poll::Pending,
        }
    }
}

impl AsyncRead for Switched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.input.is_empty() {
            let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
            // Asked only where the task waits for it.
            if read.is_pending() && self.poll_vanished(cx).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            return read;
        }
        let n = self.input.len().min(buffer.remaining());
        buffer.put_slice(&self.input.split_to(n));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Switched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
