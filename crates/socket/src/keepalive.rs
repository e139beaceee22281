//! Signs of life of a TCP peer, for connections on which both ends may be silent for as long as they like: one that
//! vanished without a word (a power cut, a NAT that has forgotten the connection) is found out, and one that is there is
//! never taken for gone.
//!
//! The kernel asks a peer to which nothing is under way (`SO_KEEPALIVE`), and sends what is under way again for a quarter of an hour.
//! `TCP_USER_TIMEOUT` would end that sooner, but also connections whose peer is there and only doesn't read; so a
//! [`KeepaliveWatch`] looks at what the peer has acknowledged.

use crate::{TcpInfo, tcp_info};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{KeepAlive, TcpKeepCount, TcpKeepIdle, TcpKeepInterval};
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// Segments sent again, or asking whether a window is still closed, that stay without an answer before a peer counts as
/// gone: while a window is closed the kernel asks so seldom that two may be lost.
const MIN_UNANSWERED: u64 = 3;

/// The silence of a peer after which it is asked whether it is there, and after which it counts as gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence after which it is asked, in whole seconds, at least one.
    pub idle: Duration,
    /// Time in which it has to answer before it is asked again, in whole seconds, at least one.
    pub interval: Duration,
    /// Questions without an answer after which it counts as gone; at least one.
    pub probes: u32,
}

impl Keepalive {
    /// The silence after which a peer counts as gone.
    #[must_use]
    pub fn limit(self) -> Duration {
        self.idle + self.interval * self.probes
    }

    /// Has the kernel ask the peer of a TCP socket: once it counts as gone, reading fails with `TimedOut`.
    ///
    /// # Errors
    /// The socket is none of TCP, or a time is out of the range of 1 to 32,767 s.
    pub fn enable(self, socket: impl AsFd) -> io::Result<()> {
        let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        setsockopt(&socket, TcpKeepIdle, &seconds(self.idle))?;
        setsockopt(&socket, TcpKeepInterval, &seconds(self.interval))?;
        setsockopt(&socket, TcpKeepCount, &self.probes)?;
        Ok(setsockopt(&socket, KeepAlive, &true)?)
    }

    /// Returns whether the peer has acknowledged nothing for so long, though the kernel sends again and again.
    fn is_unanswered(self, info: &TcpInfo) -> bool {
        info.unanswered >= MIN_UNANSWERED && info.since_acknowledgement >= self.limit()
    }
}

/// Looks from time to time whether the peer of a connection still acknowledges what it is sent.
#[derive(Debug)]
pub struct KeepaliveWatch {
    keepalive: Keepalive,
    next_look: Pin<Box<Sleep>>,
}

impl KeepaliveWatch {
    /// Begins to look after a TCP socket, of which the kernel asks what is not under way. Within a runtime of tokio.
    pub fn new(keepalive: Keepalive, socket: impl AsFd) -> Self {
        if let Err(error) = keepalive.enable(socket) {
            tracing::debug!(%error, "a silent peer is not asked whether it is there");
        }
        Self {
            keepalive,
            next_look: Box::pin(sleep(keepalive.interval)),
        }
    }

    /// Ready once the peer counts as gone while something is under way to it; `socket`: that of [`Self::new`]. Each look, one
    /// every [`interval`](Keepalive::interval), costs a system call.
    pub fn poll(&mut self, socket: impl AsFd, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.next_look.as_mut().poll(cx));
            if tcp_info(&socket).is_some_and(|info| self.keepalive.is_unanswered(&info)) {
                return Poll::Ready(());
            }
            let next = Instant::now() + self.keepalive.interval;
            self.next_look.as_mut().reset(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{SockFilter, SockRef};
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    const QUICK: Keepalive = Keepalive {
        idle: Duration::from_secs(1),
        interval: Duration::from_secs(1),
        probes: 1,
    };

    /// Longer than [`QUICK`] takes, also on a machine at full load.
    const TIME_LIMIT: Duration = Duration::from_secs(50);

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap());
        let (near, far) = tokio::join!(near, listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    /// Has the kernel drop every segment that comes for `stream`, as if its host were gone.
    fn vanish(stream: &TcpStream) {
        let drop_all = SockFilter::new(6, 0, 0, 0); // BPF_RET | BPF_K: 0 bytes are kept.
        SockRef::from(stream).attach_filter(&[drop_all]).unwrap();
    }

    async fn vanished(near: &TcpStream, watch: &mut KeepaliveWatch) {
        poll_fn(|cx| watch.poll(near, cx)).await;
    }

    #[tokio::test]
    async fn a_peer_that_vanishes_while_nothing_is_under_way_fails_whoever_reads() {
        let (mut near, far) = pair().await;
        let _watch = KeepaliveWatch::new(QUICK, &near);
        vanish(&far);
        let read = timeout(TIME_LIMIT, near.read(&mut [0])).await.unwrap();
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_vanishes_while_something_is_under_way_is_found_out() {
        let (mut near, far) = pair().await;
        let mut watch = KeepaliveWatch::new(QUICK, &near);
        vanish(&far);
        near.write_all(b"x").await.unwrap();
        timeout(TIME_LIMIT, vanished(&near, &mut watch))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_is_there_stays_whether_it_is_silent_or_does_not_read() {
        let ((mut silent, _far), (mut full, _unread)) = (pair().await, pair().await);
        let [mut silence, mut fullness] = [&silent, &full].map(|it| KeepaliveWatch::new(QUICK, it));
        let (mut silent, mut full) = (silent.split(), full.split());
        let (mut byte, content) = ([0], vec![0; 16 << 20]);
        let lasting = QUICK.limit() * 3;
        let ends = async {
            tokio::select! {
                () = poll_fn(|cx| silence.poll(silent.1.as_ref(), cx)) => {}
                () = poll_fn(|cx| fullness.poll(full.0.as_ref(), cx)) => {}
                _ = silent.0.read(&mut byte) => {}
                _ = full.1.write_all(&content) => {}
            }
        };
        assert!(timeout(lasting, ends).await.is_err());
    }

    #[test]
    fn silence_counts_only_where_it_is_long_and_something_was_sent_again() {
        let of = |unanswered, millis| {
            let info = TcpInfo {
                unanswered,
                since_acknowledgement: Duration::from_millis(millis),
                ..TcpInfo::default()
            };
            QUICK.is_unanswered(&info)
        };
        assert!(of(3, 2_000));
        assert!(!of(2, 2_000) && !of(3, 1_999) && !of(0, 1_000_000));
    }
}
