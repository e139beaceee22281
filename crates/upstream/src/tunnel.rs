//! Byte streams to servers: a connection of HTTP/1.1 that has switched protocols (RFC 9110 section 7.8), or a stream of
//! HTTP/2 or HTTP/3 that an extended CONNECT has opened (RFC 8441, RFC 9220).

use crate::http1::Switched;
use crate::http2::{self, TUNNEL_WINDOW};
use crate::http3::Http3Stream;
use crate::pool::Lease;
use bytes::{Buf as _, Bytes};
use h2::client::SendRequest;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes of one write that are taken to a stream of HTTP/2.
const MAX_WRITE: usize = 64 << 10;

/// A byte stream to a server that has agreed to one. The request counts as in progress until it is dropped.
#[derive(Debug)]
pub struct Tunnel {
    carrier: Carrier,
    lease: Lease,
}

impl Tunnel {
    pub(crate) fn http1(stream: Switched, lease: Lease) -> Self {
        let carrier = Carrier::Http1(stream);
        Self { carrier, lease }
    }

    pub(crate) fn http2(stream: Http2Stream, lease: Lease) -> Self {
        let carrier = Carrier::Http2(stream);
        Self { carrier, lease }
    }

    pub(crate) fn http3(stream: Http3Stream, lease: Lease) -> Self {
        let carrier = Carrier::Http3(stream);
        Self { carrier, lease }
    }

    /// Bytes of memory that it may fill, however little is read of it, beside what [`Group::memory`] has: over HTTP/2 the
    /// window of its connection.
    ///
    /// [`Group::memory`]: crate::Group::memory
    #[must_use]
    pub fn held(&self) -> usize {
        match self.carrier {
            Carrier::Http2(_) => TUNNEL_WINDOW as usize,
            Carrier::Http1(_) | Carrier::Http3(_) => 0,
        }
    }

    /// The byte stream, which keeps its place at the server.
    #[must_use]
    pub fn open(self) -> TunnelStream {
        TunnelStream {
            carrier: self.carrier,
            _lease: self.lease,
        }
    }
}

/// The bytes of a [`Tunnel`] in both directions. To drop it before its end breaks it off.
#[derive(Debug)]
pub struct TunnelStream {
    carrier: Carrier,
    _lease: Lease,
}

#[derive(Debug)]
enum Carrier {
    Http1(Switched),
    Http2(Http2Stream),
    Http3(Http3Stream),
}

impl AsyncRead for TunnelStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.carrier {
            Carrier::Http1(stream) => Pin::new(stream).poll_read(cx, buffer),
            Carrier::Http2(stream) => stream.poll_read(cx, buffer),
            Carrier::Http3(stream) => stream.poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.carrier {
            Carrier::Http1(stream) => Pin::new(stream).poll_write(cx, bytes),
            Carrier::Http2(stream) => stream.poll_write(cx, bytes),
            Carrier::Http3(stream) => stream.poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.carrier {
            Carrier::Http1(stream) => Pin::new(stream).poll_flush(cx),
            Carrier::Http2(_) | Carrier::Http3(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.carrier {
            Carrier::Http1(stream) => Pin::new(stream).poll_shutdown(cx),
            Carrier::Http2(stream) => Poll::Ready(stream.shut_down()),
            Carrier::Http3(stream) => stream.poll_shutdown(cx),
        }
    }
}

/// A stream of HTTP/2 as a byte stream: its content in both directions.
#[derive(Debug)]
pub(crate) struct Http2Stream {
    sending: SendStream<Bytes>,
    receiving: RecvStream,
    /// Received, and not read.
    received: Bytes,
    has_sent_all: bool,
}

/// Sends an extended CONNECT; gives the response, and the stream for what follows one that agrees.
pub(crate) async fn connect(
    mut sender: SendRequest<Bytes>,
    request: Request<()>,
) -> Result<(Response<()>, Http2Stream), http2::Fault> {
    let (responding, sending) = sender.send_request(request, false)?;
    let (parts, receiving) = http2::response(responding, None).await?.into_parts();
    let stream = Http2Stream {
        sending,
        receiving,
        received: Bytes::new(),
        has_sent_all: false,
    };
    Ok((Response::from_parts(parts, ()), stream))
}

impl Http2Stream {
    /// The content of a response that does not agree. Nothing more is sent.
    pub(crate) fn refused(self) -> RecvStream {
        self.receiving
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.received.is_empty() {
            match ready!(self.receiving.poll_data(cx)) {
                Some(data) => self.received = data.map_err(broken)?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let len = self.received.len().min(buffer.remaining());
        buffer.put_slice(&self.received[..len]);
        self.received.advance(len);
        // What is read makes room for as much.
        let released = self.receiving.flow_control().release_capacity(len);
        Poll::Ready(released.map_err(broken))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.sending.reserve_capacity(bytes.len().min(MAX_WRITE));
        while self.sending.capacity() == 0 {
            match ready!(self.sending.poll_capacity(cx)) {
                Some(capacity) => capacity.map_err(broken)?,
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            };
        }
        let len = bytes.len().min(MAX_WRITE).min(self.sending.capacity());
        let data = Bytes::copy_from_slice(&bytes[..len]);
        let sent = self.sending.send_data(data, false).map_err(broken);
        Poll::Ready(sent.map(|()| len))
    }

    /// RFC 8441 section 5: the end of the stream is that of a connection.
    fn shut_down(&mut self) -> io::Result<()> {
        if self.has_sent_all {
            return Ok(());
        }
        self.has_sent_all = true;
        self.sending.send_data(Bytes::new(), true).map_err(broken)
    }
}

fn broken(error: h2::Error) -> io::Error {
    match error.reason() {
        // RFC 8441 section 5: a connection that was reset.
        Some(Reason::CANCEL) => io::Error::new(io::ErrorKind::ConnectionReset, error),
        _ => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use crate::http2::begin_tunnel;
    use crate::pool::Pool;
    use http::Method;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::{Instant, timeout};

    /// A tunnel to a server that is there for so long after it has agreed, and then vanishes without a word.
    async fn vanishing(after: Duration) -> (TunnelStream, tokio::task::JoinHandle<impl Sized>) {
        let (near, far) = tokio::io::duplex(64 << 10);
        let serving = tokio::spawn(async move {
            let mut builder = h2::server::Builder::new();
            let server = builder.enable_connect_protocol().handshake::<_, Bytes>(far);
            let mut connection = server.await.unwrap();
            let (request, mut respond) = connection.accept().await.unwrap().unwrap();
            let sending = respond.send_response(Response::new(()), false).unwrap();
            let carried = timeout(after, connection.accept()).await;
            assert!(carried.is_err(), "there is one request");
            // The end of its connection stays open.
            (connection, request, sending)
        });
        let counters = Arc::<Counters>::default();
        let sender = begin_tunnel(near, counters.open()).await.unwrap().unwrap();
        let mut request = Request::new(());
        *request.method_mut() = Method::CONNECT;
        *request.uri_mut() = "http://a.test/".parse().unwrap();
        request
            .extensions_mut()
            .insert(h2::ext::Protocol::from_static("websocket"));
        let (response, stream) = connect(sender, request).await.unwrap();
        assert!(response.status().is_success());
        let pool = Arc::new(Pool::new(1, false, Arc::default(), counters));
        let lease = pool.turn_now(None).unwrap();
        (Tunnel::http2(stream, lease).open(), serving)
    }

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_ends_where_its_server_of_http2_has_vanished_and_no_sooner() {
        let there = Duration::from_secs(1_000);
        let began = Instant::now();
        let (mut stream, serving) = vanishing(there).await;
        stream.write_all(b"to nobody").await.unwrap();
        let read = timeout(2 * there, stream.read(&mut [0])).await.unwrap();
        assert!(read.is_err(), "{read:?}");
        let after = began.elapsed();
        let most = there + Duration::from_secs(60);
        assert!(after > there && after < most, "{after:?}");
        drop(serving);
    }
}
