//! A request on its way to a server over HTTP/1.1: its head, and its content as the client sends it.

use super::Fault;
use super::head::{ContentLength, write_field};
use crate::content::Outgoing;
use bytes::{Buf as _, Bytes};
use http_body::Body as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncWrite, WriteHalf};
use tokio::task::JoinHandle;

/// A request, as far as it was not handed to the kernel.
#[derive(Debug)]
pub(super) struct Upload {
    /// Head, or the line before a chunk; then content, and the end of its chunk.
    before: Bytes,
    data: Bytes,
    after: &'static [u8],
    body: Outgoing,
    /// Content that is to come: bytes, or chunks.
    left: ContentLength,
    /// Bytes wait in a layer below, for nothing more is written.
    needs_flush: bool,
    /// True if any byte was taken.
    pub(super) has_begun: bool,
}

impl Upload {
    /// `head` is the request's, with `length` in it.
    pub(super) fn new(head: Vec<u8>, body: Outgoing, length: ContentLength) -> Self {
        Self {
            before: head.into(),
            data: Bytes::new(),
            after: b"",
            body,
            left: match length {
                ContentLength::Known(0) => ContentLength::None,
                length => length,
            },
            needs_flush: true,
            has_begun: false,
        }
    }

    fn has_bytes(&self) -> bool {
        !self.before.is_empty() || !self.data.is_empty() || !self.after.is_empty()
    }

    /// Hands over as much as the connection takes; ready when that was all.
    ///
    /// # Errors
    /// The connection, or the content's source, fails.
    pub(super) fn poll<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        loop {
            // Content that is there goes along with what precedes it.
            if self.data.is_empty() && self.after.is_empty() && self.left != ContentLength::None {
                match self.poll_content(cx) {
                    Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault)),
                    Poll::Ready(Ok(())) => {}
                    Poll::Pending if self.has_bytes() => {}
                    Poll::Pending => {
                        ready!(self.poll_flush(stream, cx))?;
                        return Poll::Pending;
                    }
                }
            }
            if self.has_bytes() {
                let written = ready!(self.poll_write(stream, cx)).map_err(Fault::Connection)?;
                if written == 0 {
                    let error = io::ErrorKind::WriteZero.into();
                    return Poll::Ready(Err(Fault::Connection(error)));
                }
                self.has_begun = true;
                self.needs_flush = true;
                self.advance(written);
            } else if self.left == ContentLength::None {
                return self.poll_flush(stream, cx);
            }
        }
    }

    fn poll_flush<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        if self.needs_flush {
            ready!(Pin::new(stream).poll_flush(cx)).map_err(Fault::Connection)?;
            self.needs_flush = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write<S: AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let stream = Pin::new(stream);
        if self.data.is_empty() && self.after.is_empty() {
            return stream.poll_write(cx, &self.before);
        }
        let slices = [&self.before, &self.data, self.after].map(IoSlice::new);
        stream.poll_write_vectored(cx, &slices)
    }

    fn advance(&mut self, written: usize) {
        let mut left = written;
        for part in [&mut self.before, &mut self.data] {
            let n = left.min(part.len());
            part.advance(n);
            left -= n;
        }
        self.after = &self.after[left..];
    }

    /// Takes the next of the content, once what was taken before is gone.
    fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Err(Fault::Content(error))),
            None => return Poll::Ready(self.end(&[])),
        };
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                let mut lines = Vec::new();
                for (name, value) in &frame.into_trailers().unwrap_or_default() {
                    write_field(&mut lines, name.as_str(), value.as_bytes());
                }
                return Poll::Ready(self.end(&lines));
            }
        };
        match &mut self.left {
            ContentLength::Known(left) => match left.checked_sub(data.len() as u64) {
                Some(0) => self.left = ContentLength::None,
                Some(rest) => *left = rest,
                // The server would take the rest for another request.
                None => return Poll::Ready(Err(Fault::Content("it is too long".into()))),
            },
            // An empty chunk would be the end.
            _ if data.is_empty() => return Poll::Ready(Ok(())),
            _ => {
                let line = format!("{:x}\r\n", data.len());
                self.put_before(line.as_bytes());
                self.after = b"\r\n";
            }
        }
        self.data = data;
        Poll::Ready(Ok(()))
    }

    /// The source has no more to give.
    fn end(&mut self, trailers: &[u8]) -> Result<(), Fault> {
        if let ContentLength::Known(_) = self.left {
            return Err(Fault::Content("it is too short".into()));
        }
        self.left = ContentLength::None;
        self.put_before(b"0\r\n");
        self.put_before(trailers);
        self.after = b"\r\n";
        Ok(())
    }

    fn put_before(&mut self, bytes: &[u8]) {
        self.before = match self.before.is_empty() {
            true => Bytes::copy_from_slice(bytes),
            false => [&self.before, bytes].concat().into(),
        };
    }
}

/// The rest of a request whose response has begun already, sent by a task. To drop it ends the task.
#[derive(Debug)]
pub(super) struct UploadTask<S>(JoinHandle<Option<WriteHalf<S>>>);

impl<S: AsyncWrite + Unpin + Send + 'static> UploadTask<S> {
    pub(super) fn send(mut upload: Upload, half: WriteHalf<S>) -> Self
    where
        WriteHalf<S>: Send,
    {
        let mut half = half;
        Self(tokio::spawn(async move {
            let sent = std::future::poll_fn(|cx| upload.poll(&mut half, cx)).await;
            sent.is_ok().then_some(half)
        }))
    }

    /// The connection's half, if the request was sent whole.
    pub(super) fn finish(mut self) -> Option<WriteHalf<S>> {
        use futures_util::FutureExt as _;
        (&mut self.0).now_or_never()?.ok()?
    }
}

impl<S> Drop for UploadTask<S> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
