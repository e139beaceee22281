//! Tunnels: a byte stream in both directions between a client and a service, in place of a request's
//! body and a response's (RFC 6455, RFC 8441, RFC 9220).
//!
//! The client's bytes are a [`RequestBody`], with its back-pressure. Those to the client wait in a [`Pipe`], of which
//! the service has one end, the [`Tunnel`], and the connection the other, the [`ConnectionHalf`], which is sent as a response's
//! body is.

use crate::RequestBody;
use crate::request::body::BodyMemory;
use crate::request::handler::BoxError;
use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body as _, Frame};
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes that wait in a tunnel for the client at most, beside those that its connection holds.
const MAX_PIPE: usize = 64 << 10;

/// A byte stream to the client that asked for it, in both directions: [`OnUpgrade`](crate::OnUpgrade)
/// gives it.
///
/// Reading gives the client credit to send on, and writing waits while 64 KiB wait for the client. The client's end
/// (FIN, END_STREAM) reads as the end of the stream, and the service may write on.
/// [`shutdown`](tokio::io::AsyncWriteExt::shutdown) ends what the service writes, and so does dropping the tunnel;
/// the client then has a moment to end its own half. When the client resets its stream, or its connection is gone,
/// reading and writing fail. They also fail when no byte has moved in either direction for
/// [`Limits::idle_timeout`](crate::Limits::idle_timeout), or when the client has read nothing of what waits for it
/// for that time. A client over TCP that has vanished without a word is found out within 60 s (TCP keepalive).
///
/// Writing hands bytes to the connection at once: there is nothing to flush.
#[derive(Debug)]
pub struct Tunnel {
    incoming: RequestBody,
    /// Bytes that were received and not read.
    unread: Bytes,
    service_half: ServiceHalf,
}

impl Tunnel {
    pub(super) fn new(incoming: RequestBody, service_half: ServiceHalf) -> Self {
        Self {
            incoming,
            unread: Bytes::new(),
            service_half,
        }
    }

    /// Resolves when the client disconnects before the service has ended the stream, and never after that. Of several
    /// futures the one that was polled last is woken.
    pub fn gone(&self) -> impl Future<Output = ()> + Send + use<> {
        let pipe = Arc::clone(&self.service_half.0);
        std::future::poll_fn(move |cx| {
            let mut state = lock(&pipe);
            if state.is_gone() {
                return Poll::Ready(());
            }
            state.watcher = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.unread.is_empty() {
            match Pin::new(&mut this.incoming).poll_frame(cx) {
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Ok(frame))) => {
                    this.unread = frame.into_data().unwrap_or_default();
                }
                Poll::Ready(Some(Err(error))) => {
                    let error = io::Error::new(io::ErrorKind::ConnectionReset, error);
                    return Poll::Ready(Err(error));
                }
                // Its half may be there for seconds after what it takes no more.
                Poll::Pending if this.service_half.poll_gone(cx) => {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        let n = this.unread.len().min(buffer.remaining());
        buffer.put_slice(&this.unread[..n]);
        this.unread.advance(n);
        lock(&this.service_half.0).moved = Instant::now();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.service_half.0);
        if state.gone || state.finished {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let n = bytes.len().min(MAX_PIPE - state.bytes.len());
        if n == 0 && !bytes.is_empty() {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.bytes.extend_from_slice(&bytes[..n]);
        state.moved = Instant::now();
        let carrier = state.carrier.take();
        wake(state, carrier);
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match lock(&self.service_half.0).gone {
            true => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            false => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.service_half.finish();
        Poll::Ready(Ok(()))
    }
}

/// State that both ends share.
#[derive(Debug)]
struct Pipe {
    stage: Stage,
    /// Bytes on their way to the client; [`MAX_PIPE`] at most.
    bytes: BytesMut,
    /// The service writes no more.
    finished: bool,
    /// The client takes no more.
    gone: bool,
    /// Time at which bytes were last written or read.
    moved: Instant,
    /// The service, when it waits for room.
    writer: Option<Waker>,
    /// The service, when it waits for bytes of the client.
    reader: Option<Waker>,
    /// The connection, when it waits for bytes.
    carrier: Option<Waker>,
    /// Task that waits for the tunnel to open, and then for its client to go.
    watcher: Option<Waker>,
}

impl Pipe {
    /// Returns true if the client is gone, before the service has ended the stream.
    fn is_gone(&self) -> bool {
        self.gone && !self.finished
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Offered,
    /// The service wants it.
    Accepted,
    /// The client has been told so, or is about to be.
    Open,
}

/// Makes the two ends of a pipe.
pub(super) fn pipe() -> (ServiceHalf, ConnectionHalf) {
    let pipe = Arc::new(Mutex::new(Pipe {
        stage: Stage::Offered,
        bytes: BytesMut::new(),
        finished: false,
        gone: false,
        moved: Instant::now(),
        writer: None,
        reader: None,
        carrier: None,
        watcher: None,
    }));
    let connection_half = ConnectionHalf {
        pipe: Arc::clone(&pipe),
        idle_timeout: Duration::MAX,
        memory: None,
        timer: None,
    };
    (ServiceHalf(pipe), connection_half)
}

/// The service's end, which ends the stream when it is dropped.
#[derive(Debug)]
pub(super) struct ServiceHalf(Arc<Mutex<Pipe>>);

impl ServiceHalf {
    pub(super) fn accept(&self) {
        lock(&self.0).stage = Stage::Accepted;
    }

    /// Returns once the tunnel is open; whether it is.
    pub(super) fn poll_open(&self, cx: &Context<'_>) -> Poll<bool> {
        let mut state = lock(&self.0);
        if state.gone || state.stage == Stage::Open {
            return Poll::Ready(!state.gone);
        }
        state.watcher = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns true if the client is gone, before the service has ended the stream. With `false` the reader is woken then.
    fn poll_gone(&self, cx: &Context<'_>) -> bool {
        let mut state = lock(&self.0);
        let is_gone = state.is_gone();
        if !is_gone {
            state.reader = Some(cx.waker().clone());
        }
        is_gone
    }

    fn finish(&self) {
        let mut state = lock(&self.0);
        state.finished = true;
        let carrier = state.carrier.take();
        wake(state, carrier);
    }
}

impl Drop for ServiceHalf {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The connection's end. To drop it tells the service that the client is gone.
pub(crate) struct ConnectionHalf {
    pipe: Arc<Mutex<Pipe>>,
    idle_timeout: Duration,
    /// The memory that the service holds for the tunnel beside the pipe.
    memory: Option<BodyMemory>,
    /// Set while nothing is there to be sent.
    timer: Option<Pin<Box<Sleep>>>,
}

impl fmt::Debug for ConnectionHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionHalf").finish_non_exhaustive()
    }
}

impl ConnectionHalf {
    /// Returns a handle that tells whether the service has accepted the tunnel.
    pub(super) fn acceptance(&self) -> Acceptance {
        Acceptance(Arc::clone(&self.pipe))
    }

    /// Sets the counter of the memory that the service says it holds.
    pub(super) fn set_memory(&mut self, memory: Option<BodyMemory>) {
        self.memory = memory;
    }

    /// Bytes in memory that wait for the client, or may at any moment.
    pub(super) fn held(&self) -> usize {
        // The service goes on writing while the client takes nothing.
        MAX_PIPE + self.memory.as_ref().map_or(0, BodyMemory::get)
    }

    /// Opens a tunnel that is accepted. It ends by itself once nothing has moved in it for `idle_timeout`.
    pub(super) fn open(&mut self, idle_timeout: Duration) {
        self.idle_timeout = idle_timeout;
        let mut state = lock(&self.pipe);
        state.stage = Stage::Open;
        state.moved = Instant::now();
        let watcher = state.watcher.take();
        wake(state, watcher);
    }

    /// Returns true if nothing is left to send.
    pub(super) fn has_ended(&self) -> bool {
        let state = lock(&self.pipe);
        state.finished && state.bytes.is_empty()
    }

    /// The next bytes; `None` at the end.
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let moved = {
            let mut state = lock(&self.pipe);
            if !state.bytes.is_empty() {
                let bytes = state.bytes.split().freeze();
                let writer = state.writer.take();
                wake(state, writer);
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if state.finished || state.gone {
                return Poll::Ready(None);
            }
            state.carrier = Some(cx.waker().clone());
            state.moved
        };
        ready!(self.poll_idle(moved, cx));
        self.leave();
        Poll::Ready(None)
    }

    /// Ready when nothing has moved for so long that the tunnel ends.
    fn poll_idle(&mut self, mut moved: Instant, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(until) = moved.checked_add(self.idle_timeout) else {
                return Poll::Pending;
            };
            if until <= Instant::now() {
                return Poll::Ready(());
            }
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(sleep_until(until)));
            // Most bytes only put the end off: the timer rings early, once.
            if timer.is_elapsed() {
                timer.as_mut().reset(until);
            }
            ready!(timer.as_mut().poll(cx));
            moved = lock(&self.pipe).moved;
        }
    }

    fn leave(&self) {
        let mut state = lock(&self.pipe);
        state.gone = true;
        state.bytes = BytesMut::new();
        let wakers = [
            state.writer.take(),
            state.reader.take(),
            state.watcher.take(),
        ];
        drop(state);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

impl Drop for ConnectionHalf {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Handle that tells whether a tunnel is accepted, for whoever has neither of its ends.
#[derive(Debug, Clone)]
pub(crate) struct Acceptance(Arc<Mutex<Pipe>>);

impl Acceptance {
    pub(super) fn is_given(&self) -> bool {
        lock(&self.0).stage == Stage::Accepted
    }
}

fn lock(pipe: &Mutex<Pipe>) -> MutexGuard<'_, Pipe> {
    // A panic between two of its lines leaves nothing half done.
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake(state: MutexGuard<'_, Pipe>, waker: Option<Waker>) {
    // Whoever is woken may look at once.
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::upload::upload;
    use std::future::poll_fn;
    use std::task::Waker;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::mpsc::unbounded_channel;
    use tokio::time::{advance, timeout};

    const IDLE: Duration = Duration::from_secs(60);

    fn open() -> (Tunnel, ConnectionHalf) {
        let (service_half, mut connection_half) = pipe();
        service_half.accept();
        connection_half.open(IDLE);
        (
            Tunnel::new(RequestBody::empty(), service_half),
            connection_half,
        )
    }

    async fn next(connection_half: &mut ConnectionHalf) -> Option<Bytes> {
        let frame = poll_fn(|cx| connection_half.poll_frame(cx)).await?;
        frame.unwrap().into_data().ok()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_written_waits_up_to_its_bound_and_goes_on_when_it_is_taken() {
        let (mut tunnel, mut connection_half) = open();
        let content = vec![7; MAX_PIPE + 1];
        let writing = timeout(Duration::from_secs(1), tunnel.write_all(&content)).await;
        assert!(writing.is_err(), "one byte too many");
        assert_eq!(next(&mut connection_half).await.unwrap().len(), MAX_PIPE);
        tunnel.write_all(b"x").await.unwrap();
        assert_eq!(next(&mut connection_half).await.unwrap(), "x");
        tunnel.shutdown().await.unwrap();
        assert!(connection_half.has_ended());
        assert_eq!(next(&mut connection_half).await, None);
        assert!(tunnel.write_all(b"x").await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_written_before_the_end_are_sent_also_when_the_tunnel_is_dropped() {
        let (mut tunnel, mut connection_half) = open();
        tunnel.write_all(b"last words").await.unwrap();
        drop(tunnel);
        assert_eq!(next(&mut connection_half).await.unwrap(), "last words");
        assert_eq!(next(&mut connection_half).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_goes_fails_whoever_writes() {
        let (mut tunnel, connection_half) = open();
        let content = vec![7; 2 * MAX_PIPE];
        let write = tokio::spawn(async move { tunnel.write_all(&content).await });
        tokio::task::yield_now().await;
        drop(connection_half);
        let error = write.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_ends_when_nothing_has_moved_for_the_idle_time_out() {
        let (mut tunnel, mut connection_half) = open();
        let began = Instant::now();
        let end = tokio::spawn(async move {
            assert_eq!(next(&mut connection_half).await.unwrap(), "x");
            assert_eq!(next(&mut connection_half).await, None);
        });
        tokio::task::yield_now().await;
        advance(IDLE - Duration::from_secs(1)).await;
        tunnel.write_all(b"x").await.unwrap();
        end.await.unwrap();
        let took = began.elapsed();
        let expected = IDLE * 2 - Duration::from_secs(1);
        assert!(took >= expected && took < expected + Duration::from_secs(1));
        assert!(tunnel.write_all(b"x").await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_puts_the_end_off_and_a_reset_is_an_error() {
        let (reports, _reported) = unbounded_channel();
        let (from_client, body) = upload((), &reports, None);
        let (service_half, mut connection_half) = pipe();
        service_half.accept();
        connection_half.open(IDLE);
        let mut tunnel = Tunnel::new(body, service_half);
        from_client.push(|| Bytes::from_static(b"ab"));
        advance(IDLE - Duration::from_secs(1)).await;
        let mut byte = [0];
        tunnel.read_exact(&mut byte).await.unwrap();
        advance(IDLE - Duration::from_secs(1)).await;
        let mut cx = Context::from_waker(Waker::noop());
        assert!(connection_half.poll_frame(&mut cx).is_pending());
        drop(from_client);
        tunnel.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte, *b"b");
        let error = tunnel.read_exact(&mut byte).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_goes_fails_whoever_reads_before_the_end_of_its_half() {
        let (reports, _reported) = unbounded_channel();
        let (_from_client, body) = upload((), &reports, None);
        let (service_half, connection_half) = pipe();
        let mut tunnel = Tunnel::new(body, service_half);
        let read = tokio::spawn(async move { tunnel.read(&mut [0]).await });
        tokio::task::yield_now().await;
        drop(connection_half);
        let error = read.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test(start_paused = true)]
    async fn the_client_s_half_is_read_to_its_end_after_the_service_has_ended_its_own() {
        let (reports, _reported) = unbounded_channel();
        let (from_client, body) = upload((), &reports, None);
        let (service_half, connection_half) = pipe();
        let mut tunnel = Tunnel::new(body, service_half);
        tunnel.shutdown().await.unwrap();
        drop(connection_half);
        let read = tokio::spawn(async move {
            let mut content = Vec::new();
            tunnel.read_to_end(&mut content).await.map(|_| content)
        });
        tokio::task::yield_now().await;
        from_client.push(|| Bytes::from_static(b"late"));
        from_client.complete();
        assert_eq!(read.await.unwrap().unwrap(), b"late");
    }
}
