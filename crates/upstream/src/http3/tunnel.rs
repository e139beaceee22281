//! Extended CONNECT (RFC 9220): a stream of HTTP/3 as a byte stream.

use super::{Exchange, Failed, Http3, Http3Body, Message, Piece, answer};
use crate::pool::SharedConnection as _;
use bytes::{Buf as _, Bytes};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use std::io;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::ReadBuf;
use tokio::sync::mpsc;

/// The most bytes of one write.
const MAX_WRITE: usize = 64 << 10;

/// Time after the handshake in which a server's settings are waited for.
const SETTINGS_WAIT: Duration = Duration::from_secs(1);

/// The time between two looks whether they have arrived.
const SETTINGS_POLL_INTERVAL: Duration = Duration::from_millis(5);

impl Http3 {
    /// Returns whether the server takes extended CONNECT. Waits for its settings where the connection
    /// is new.
    pub(crate) async fn takes_tunnels(&self) -> bool {
        while !self.shared.takes_tunnels.load(Ordering::Relaxed) {
            if self.is_closed() || self.opened.elapsed() > SETTINGS_WAIT {
                return false;
            }
            tokio::time::sleep(SETTINGS_POLL_INTERVAL).await;
        }
        true
    }

    /// Sends an extended CONNECT; gives the response with the stream for what follows one that agrees. `may_wait`: for
    /// a stream.
    pub(crate) async fn connect_tunnel(
        &self,
        head: Request<()>,
        may_wait: bool,
    ) -> Result<(Response<()>, Http3Stream), Failed> {
        let (credit, wanted) = mpsc::channel(1);
        let exchange = self.begin();
        let answered = exchange.send(head, may_wait, None, Some(credit))?;
        let (head, (received, pieces)) = answer(answered).await?;
        let stream = Http3Stream {
            pieces,
            received,
            wanted,
            has_sent_all: false,
            exchange,
        };
        Ok((head, stream))
    }
}

/// A stream of HTTP/3 as a byte stream. Broken off when it is dropped before its end.
#[derive(Debug)]
pub(crate) struct Http3Stream {
    /// `None`: the server has said all.
    pieces: Option<mpsc::Receiver<Piece>>,
    /// Received, and not read.
    received: Bytes,
    /// Each message lets one piece be sent.
    wanted: mpsc::Receiver<()>,
    has_sent_all: bool,
    exchange: Exchange,
}

impl Http3Stream {
    /// The content of a response that does not agree, whose head has `fields`.
    pub(crate) fn refused(self, fields: &HeaderMap) -> Http3Body {
        Http3Body::new(fields, (self.received, self.pieces), self.exchange)
    }

    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.received.is_empty() {
            let Some(pieces) = &mut self.pieces else {
                return Poll::Ready(Ok(()));
            };
            match ready!(pieces.poll_recv(cx)) {
                Some(Ok(Some(frame))) => {
                    // There are no trailers after CONNECT.
                    self.received = frame.into_data().unwrap_or_default();
                    let _ = self.handle_interim(Message::Room(self.exchange.number));
                }
                Some(Ok(None)) => self.pieces = None,
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            }
        }
        let len = self.received.len().min(buffer.remaining());
        buffer.put_slice(&self.received[..len]);
        self.received.advance(len);
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if ready!(self.wanted.poll_recv(cx)).is_none() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let len = bytes.len().min(MAX_WRITE);
        let data = Frame::data(Bytes::copy_from_slice(&bytes[..len]));
        let sent = self.handle_interim(Message::Content(self.exchange.number, Some(data)));
        Poll::Ready(sent.map(|()| len))
    }

    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.has_sent_all {
            return Poll::Ready(Ok(()));
        }
        // A server that takes no more needs no end.
        let is_wanted = ready!(self.wanted.poll_recv(cx)).is_some();
        self.has_sent_all = true;
        Poll::Ready(match is_wanted {
            true => self.handle_interim(Message::Content(self.exchange.number, None)),
            false => Ok(()),
        })
    }

    fn handle_interim(&self, message: Message) -> io::Result<()> {
        let told = self.exchange.driver.send(message);
        told.map_err(|_| io::ErrorKind::ConnectionReset.into())
    }
}
