//! A TCP stream that can be read while it is measured, and that knows when it was last active.

use super::kernel::shutdown_write;
use futures_util::FutureExt as _;
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Time between two looks whether a client of which nothing is read is still there.
const LOOK_PERIOD: Duration = Duration::from_secs(5);

/// The end of a connection, or of its client's half, that is found while nothing is read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Departure {
    /// The client has closed its half some seconds ago. What it sent before is still unread.
    HalfClosed,
    /// The client has reset the connection, or is found to have vanished.
    Reset,
}

/// Returns once the client of a connection of which nothing is read has left.
pub(super) async fn departure(stream: &TcpStream) -> Departure {
    loop {
        let reset = timeout(LOOK_PERIOD, stream.ready(Interest::ERROR));
        if reset.await.is_ok() {
            return Departure::Reset;
        }
        if is_read_closed(stream) {
            return Departure::HalfClosed;
        }
    }
}

fn is_read_closed(stream: &TcpStream) -> bool {
    let state = stream.ready(Interest::READABLE).now_or_never();
    state.is_some_and(|state| state.is_ok_and(Ready::is_read_closed))
}

/// Time at which bytes last moved on a connection, and whether the server or the client is to move them.
#[derive(Debug, Clone)]
pub(super) struct Activity(Rc<State>);

#[derive(Debug)]
struct State {
    /// Fewer bytes are no progress: as over HTTP/2 and HTTP/3, a client that trickles is one that lets nothing
    /// move.
    least: usize,
    moved: Cell<Instant>,
    /// Bytes since then.
    progress: Cell<usize>,
    /// A request is being answered.
    answering: Cell<bool>,
    /// A request has come whose answer has not been handed over whole.
    engaged: Cell<bool>,
    /// The service has not been found to wait for something yet.
    is_new: Cell<bool>,
    /// The response's content is a file's.
    sends_file: Cell<bool>,
    /// The service waits for the request's body.
    reading: Arc<AtomicBool>,
}

impl Activity {
    /// `least`: bytes below which nothing has moved.
    pub(super) fn new(least: u64) -> Self {
        Self(Rc::new(State {
            least: usize::try_from(least).unwrap_or(usize::MAX),
            moved: Cell::new(Instant::now()),
            progress: Cell::new(0),
            answering: Cell::new(false),
            engaged: Cell::new(false),
            is_new: Cell::new(false),
            sends_file: Cell::new(false),
            reading: Arc::default(),
        }))
    }

    /// Returns once the client has let nothing move for `limit`.
    pub(super) async fn silence(&self, limit: Duration) {
        loop {
            if self.is_ours() {
                self.begin_anew();
            }
            let end = self.0.moved.get() + limit;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }

    /// Returns once the client has let nothing move for `idle` between requests, or for `stalled`
    /// during one.
    pub(super) async fn until_idle(&self, idle: Duration, stalled: Duration) {
        loop {
            let limit = if self.0.engaged.get() { stalled } else { idle };
            // Looks again before a limit is over that was another one's.
            if timeout(idle.min(stalled), self.silence(limit))
                .await
                .is_ok()
            {
                return;
            }
        }
    }

    /// Returns once the client is found to have closed its half, or the connection, some seconds ago, while it waits for the server.
    /// hyper sees that by itself only where it reads on: not while a request's body is left unread, nor before another request.
    pub(super) async fn left(&self, stream: &TcpStream) {
        let mut look = pin!(sleep(LOOK_PERIOD));
        let mut is_looking = false;
        poll_fn(|cx| {
            // Polled with every change. A connection that idles is not woken for it.
            while self.is_ours() {
                if !std::mem::replace(&mut is_looking, true) {
                    look.as_mut().reset(Instant::now() + LOOK_PERIOD);
                }
                ready!(look.as_mut().poll(cx));
                is_looking = false;
                if is_read_closed(stream) {
                    return Poll::Ready(());
                }
            }
            is_looking = false;
            Poll::Pending
        })
        .await;
    }

    /// Notes that a request is there (`true`), or that its answer is handed over.
    pub(super) fn engaged(&self, engaged: bool) {
        self.0.engaged.set(engaged);
        self.0.sends_file.set(false);
        self.answering(engaged);
        self.0.is_new.set(engaged);
        self.begin_anew();
    }

    /// Returns true if a request has come whose answer has not been handed over whole.
    pub(super) fn is_engaged(&self) -> bool {
        self.0.engaged.get()
    }

    /// Awaits the answer to a request, and notes whether the service waits for something.
    pub(super) async fn asked<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        poll_fn(|cx| {
            let polled = answer.as_mut().poll(cx);
            self.0.is_new.set(polled.is_ready());
            polled
        })
        .await
    }

    /// Notes that the response's content is a file's, which waits for no service.
    pub(super) fn sends_file(&self) {
        self.0.sends_file.set(true);
    }

    /// Returns true if an answer goes on that waits for no service, nor a service for the client.
    pub(super) fn is_sending(&self) -> bool {
        let state = &*self.0;
        let waits = || state.answering.get() || state.reading.load(Ordering::Relaxed);
        self.is_engaged() && (state.is_new.get() || state.sends_file.get() || !waits())
    }

    /// Notes that the client waits for the server (`true`), or no longer.
    pub(super) fn answering(&self, answering: bool) {
        // Whether the service waits is known from here on.
        self.0.is_new.set(false);
        if self.0.answering.replace(answering) != answering {
            self.begin_anew();
        }
    }

    fn begin_anew(&self) {
        self.0.moved.set(Instant::now());
        self.0.progress.set(0);
    }

    /// Set while the service waits for the client.
    pub(super) fn reading(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.reading)
    }

    fn is_ours(&self) -> bool {
        self.0.answering.get() && !self.0.reading.load(Ordering::Relaxed)
    }

    fn note(&self, moved: usize) {
        let progress = self.0.progress.get().saturating_add(moved);
        if progress < self.0.least {
            self.0.progress.set(progress);
        } else {
            self.begin_anew();
        }
    }
}

/// A shared stream: the HTTP engine drives it, and the connection's probe reads its counters. The
/// socket closes when the last holder is gone.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Rc<TcpStream>,
    /// Bytes that were read before, to be read again.
    head: Vec<u8>,
    activity: Activity,
}

impl Socket {
    /// `head`: what was read of the stream already.
    pub(super) fn new(stream: Rc<TcpStream>, head: Vec<u8>, activity: Activity) -> Self {
        Self {
            stream,
            head,
            activity,
        }
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        send: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            match send(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => {
                    self.activity.note(*sent.as_ref().unwrap_or(&0));
                    return Poll::Ready(sent);
                }
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.head.is_empty() {
            let n = self.head.len().min(buffer.remaining());
            buffer.put_slice(&self.head[..n]);
            self.head.drain(..n);
            return Poll::Ready(Ok(()));
        }
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read(buffer.initialize_unfilled()) {
                Ok(received) => {
                    buffer.advance(received);
                    self.activity.note(received);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown_write(&self.stream).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{advance, timeout};

    const LEAST_PROGRESS: usize = 1 << 10;

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn progress_puts_the_silence_off_and_a_trickle_does_not() {
        let activity = Activity::new(LEAST_PROGRESS as u64);
        let limit = Duration::from_secs(60);
        advance(Duration::from_secs(59)).await;
        activity.note(LEAST_PROGRESS - 1);
        activity.note(1);
        advance(Duration::from_secs(59)).await;
        activity.note(LEAST_PROGRESS - 1);
        let begin = Instant::now();
        activity.silence(limit).await;
        assert_eq!(begin.elapsed(), Duration::from_secs(1));
        let again = timeout(Duration::ZERO, activity.silence(limit)).await;
        assert!(again.is_ok(), "the silence goes on");
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn a_lull_is_longer_during_a_request() {
        let activity = Activity::new(LEAST_PROGRESS as u64);
        let [idle, stalled] = [5, 60].map(Duration::from_secs);
        let until_idle = async || {
            let begin = Instant::now();
            activity.until_idle(idle, stalled).await;
            begin.elapsed()
        };
        assert_eq!(until_idle().await, idle);
        activity.engaged(true);
        activity.answering(false);
        assert_eq!(until_idle().await, stalled);
        activity.engaged(true);
        let answer = async {
            sleep(Duration::from_secs(100)).await;
            activity.engaged(false);
        };
        let (took, ()) = tokio::join!(until_idle(), answer);
        assert_eq!(took, Duration::from_secs(105));
    }
}
