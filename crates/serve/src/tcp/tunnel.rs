//! A tunnel over HTTP/1.1: the bytes that follow a 101 response, in both directions, once hyper has given
//! the stream back (RFC 9110 section 7.8).

use super::socket::Activity;
use crate::RequestBody;
use crate::held::MemoryReservation;
use crate::request::body::Body;
use crate::request::handler::BoxError;
use crate::request::upgrade::is_handshake;
use crate::request::upload::{Upload, upload};
use altway_socket::{Keepalive, KeepaliveWatch};
use bytes::{Buf, Bytes};
use http::Request;
use http_body::Body as _;
use hyper::upgrade::OnUpgrade;
use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

/// Bytes that wait for a service that doesn't read, beyond one read.
const MAX_UNREAD: usize = 64 << 10;

/// Bytes that are read at once.
const READ_BYTES: usize = 8 << 10;

/// Time that the client has to close its half once the service has ended the stream.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Keep-alive of tunnels, as patient as the idle time-out of QUIC is by default: a client in a lift comes back, and is not
/// asked so often that it costs a phone its battery.
pub(super) const KEEPALIVE: Keepalive = Keepalive {
    idle: Duration::from_secs(30),
    interval: Duration::from_secs(10),
    probes: 3,
};

/// Waits until a client that has a tunnel is found to have reset its connection, or to have vanished. Reading would tell of
/// it, but nothing is read once the client has closed its half, nor while the service reads too little.
pub(super) async fn vanished(stream: &TcpStream) {
    let mut watch = KeepaliveWatch::new(KEEPALIVE, stream);
    tokio::select! {
        () = poll_fn(|cx| watch.poll(stream, cx)) => {}
        _ = stream.ready(Interest::ERROR) => {}
    }
}

/// Returns true if hyper takes a request for one that asks for another protocol: CONNECT, or one with Upgrade.
pub(super) fn is_upgradable<B>(request: &Request<B>) -> bool {
    request.extensions().get::<OnUpgrade>().is_some()
}

/// The client's bytes, for a request that may open a tunnel.
pub(super) struct Incoming {
    upload: Upload,
    /// Reports that the service has read something, at most one at a time.
    reports: UnboundedReceiver<()>,
    /// The service's end.
    body: Option<RequestBody>,
}

impl Incoming {
    /// Makes one for a request that asks for a WebSocket; `None` for others. Takes hyper's own offer out
    /// of the request: hyper would give the stream to other threads, and this one is bound to its
    /// worker.
    pub(super) fn of<B: http_body::Body>(request: &mut Request<B>) -> Option<Self> {
        let upgradable = request.extensions_mut().remove::<OnUpgrade>().is_some();
        if !upgradable || !is_handshake(request) || !request.body().is_end_stream() {
            return None;
        }
        let (reporter, reports) = unbounded_channel();
        let (upload, body) = upload((), &reporter, None);
        Some(Self {
            upload,
            reports,
            body: Some(body),
        })
    }

    /// The service's end.
    pub(super) fn body(&mut self) -> RequestBody {
        self.body.take().unwrap_or_else(RequestBody::empty)
    }
}

/// Carries bytes between a stream and a tunnel's ends.
pub(super) struct Relay<S> {
    stream: S,
    incoming: Incoming,
    /// The bytes that the service writes.
    outgoing: Body,
    activity: Activity,
    /// Counts what waits for the service, and what waits for the client.
    held: MemoryReservation,
    /// Bytes that the service has written and the stream has not taken.
    chunk: Bytes,
    unflushed: bool,
    /// The client has closed its half.
    received_all: bool,
    /// True if this side has ended.
    sent_all: bool,
    closed: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Relay<S> {
    /// `read`: bytes that were read behind the request.
    pub(super) fn new(
        stream: S,
        read: Bytes,
        incoming: Incoming,
        outgoing: Body,
        activity: Activity,
        held: MemoryReservation,
    ) -> Self {
        incoming.upload.push(|| read);
        Self {
            stream,
            incoming,
            outgoing,
            activity,
            held,
            chunk: Bytes::new(),
            unflushed: false,
            received_all: false,
            sent_all: false,
            closed: false,
        }
    }

    /// Carries bytes until both halves are closed, or the client has had its time to close its own.
    /// `sent` is told how many bytes of the service's the stream has taken.
    ///
    /// # Errors
    /// The stream fails.
    pub(super) async fn run(mut self, mut sent: impl FnMut(usize)) -> Result<(), BoxError> {
        poll_fn(|cx| self.poll(cx, &mut sent, |relay| relay.closed)).await?;
        let end = poll_fn(|cx| self.poll(cx, &mut sent, |relay| relay.received_all));
        timeout(CLOSE_TIMEOUT, end).await.unwrap_or(Ok(()))
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        sent: &mut impl FnMut(usize),
        is_over: impl Fn(&Self) -> bool,
    ) -> Poll<Result<(), BoxError>> {
        let received = self.poll_receive(cx);
        let written = self.poll_send(cx, sent);
        let waiting = self.incoming.upload.waiting();
        let unsent = match self.chunk.len() {
            0 => 0,
            // The service goes on writing meanwhile.
            chunk => chunk + self.outgoing.held(),
        };
        self.held.set(waiting + unsent);
        // Only what the client doesn't take is its affair; a silent tunnel ends by itself.
        self.activity.answering(self.chunk.is_empty());
        for direction in [received, written] {
            if let Poll::Ready(Err(error)) = direction {
                return Poll::Ready(Err(error));
            }
        }
        match is_over(self) {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    /// Reads what the client sends, as far as the service keeps up. Ready once nothing more comes.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        while !self.received_all {
            let waiting = self.incoming.upload.waiting();
            if waiting >= MAX_UNREAD || (waiting > 0 && self.held.is_scarce()) {
                // Woken by the service when it has read.
                let _ = self.incoming.upload.report();
                if self.incoming.reports.poll_recv(cx).is_pending() {
                    return Poll::Pending;
                }
                continue;
            }
            let mut space = [MaybeUninit::uninit(); READ_BYTES];
            let mut buffer = ReadBuf::uninit(&mut space);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            match buffer.filled() {
                [] => {
                    self.received_all = true;
                    self.incoming.upload.complete();
                }
                // What nobody reads any more is thrown away.
                bytes => {
                    let bytes = || Bytes::copy_from_slice(bytes);
                    self.incoming.upload.push(bytes);
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what the service has written, then the end. Ready once that is done.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        sent: &mut impl FnMut(usize),
    ) -> Poll<Result<(), BoxError>> {
        while !self.sent_all {
            if self.chunk.is_empty() {
                match Pin::new(&mut self.outgoing).poll_frame(cx) {
                    Poll::Ready(Some(frame)) => {
                        self.chunk = frame?.into_data().unwrap_or_default();
                    }
                    Poll::Ready(None) => self.sent_all = true,
                    Poll::Pending => {
                        self.poll_flush(cx)?;
                        return Poll::Pending;
                    }
                }
                continue;
            }
            let n = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.chunk))?;
            if n == 0 {
                return Poll::Ready(Err("the stream takes nothing".into()));
            }
            self.chunk.advance(n);
            self.unflushed = true;
            sent(n);
        }
        if !self.closed {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.closed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// # Errors
    /// The stream fails.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        if self.unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.stream).poll_flush(cx)
        {
            flushed?;
            self.unflushed = false;
        }
        Ok(())
    }
}
