//! The two directions of an HTTP/2 connection's transport, each as far as it goes without waiting.

use crate::tcp::Wire;
use altway_http2::Output;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncWriteExt as _, ReadBuf};

/// Number of unsent bytes with which nothing more is read, for it would make more to send.
const MAX_UNSENT: usize = 256 << 10;

pub(super) struct Link {
    wire: Box<dyn Wire>,
    /// Frames that the engine has made and that are not sent yet.
    pub(super) output: Output,
    /// Written, but perhaps held back by TLS.
    unflushed: bool,
    /// Reason why nothing can be sent any more.
    broken: Option<io::Error>,
}

impl Link {
    pub(super) fn new(wire: Box<dyn Wire>) -> Self {
        Self {
            wire,
            output: Output::new(),
            unflushed: false,
            broken: None,
        }
    }

    /// Sends the output as far as the socket takes it. An error is told by [`Self::poll_receive`],
    /// after what the peer said before it closed: that may be why.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) {
        if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
            self.output.clear();
            self.unflushed = false;
            self.broken = Some(error);
        }
    }

    /// Reads into `buffer`; 0 bytes are the end. TLS without close_notify is one too: frames have
    /// lengths, so nothing is cut unseen.
    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.output.len() >= MAX_UNSENT {
            return Poll::Pending;
        }
        let mut buffer = ReadBuf::new(buffer);
        let read = ready!(Pin::new(&mut *self.wire).poll_read(cx, &mut buffer));
        let broken = self.broken.take_if(|_| buffer.filled().is_empty());
        Poll::Ready(match (read, broken) {
            (_, Some(error)) => Err(error),
            (Err(error), None) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            (read, None) => read.map(|()| buffer.filled().len()),
        })
    }

    /// Sends what is left, and that nothing follows.
    pub(super) async fn close(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_flush(cx)).await?;
        self.wire.shutdown().await
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = Pin::new(&mut *self.wire);
        while !self.output.is_empty() {
            let bytes = self.output.slices().next().unwrap_or_default();
            let n = ready!(wire.as_mut().poll_write(cx, bytes))?;
            if n == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            self.output.advance(n);
            self.unflushed = true;
        }
        if self.unflushed {
            ready!(wire.poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}
