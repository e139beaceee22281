//! Sources of a worker's TCP connections: its own listener, or the thread that accepts for all
//! ([`Dispatcher`]). Bound in [`listen`](crate::listen), served in [`tcp`](crate::tcp).

mod dispatcher;

use crate::throttle::Throttle;
pub(crate) use dispatcher::Dispatcher;
use std::future::{pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Accept fails when the process is out of descriptors; trying again at once would spin.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Lines about it: it fails ten times a second and worker as long as there are no descriptors.
static FAILURES: Throttle = Throttle::new();

/// A connection, not blocking, and who is at its other end.
pub(crate) type Accepted = (std::net::TcpStream, SocketAddr);

/// The source of a worker's connections. Outlives the worker, for the one that takes its place after a
/// panic.
#[derive(Debug)]
pub(crate) enum Accepting {
    /// The worker accepts by itself, usually from one listener; none once it has closed them.
    Own(Vec<std::net::TcpListener>),
    /// A dispatcher hands connections to the worker through a bounded queue.
    FromDispatcher(mpsc::Receiver<Accepted>),
}

/// The source of a worker's connections, on the worker's event loop.
#[derive(Debug)]
pub(crate) struct Arrivals<'a> {
    source: Source<'a>,
    /// True while nothing more is accepted: the kernel's queue holds it, for this process or for
    /// another one.
    held: bool,
}

#[derive(Debug)]
enum Source<'a> {
    Own {
        listeners: Vec<TcpListener>,
        /// The same sockets, which are closed with them.
        kept: &'a mut Vec<std::net::TcpListener>,
        /// The place of the listener that is asked first.
        first: usize,
    },
    FromDispatcher(&'a mut mpsc::Receiver<Accepted>),
    /// The source is closed.
    Closed,
}

impl<'a> Arrivals<'a> {
    /// # Errors
    /// The event loop that is current doesn't take the listener, or no descriptor is left for it.
    pub(crate) fn new(accepting: &'a mut Accepting) -> io::Result<Self> {
        let source = match accepting {
            Accepting::Own(kept) if kept.is_empty() => Source::Closed,
            Accepting::Own(kept) => {
                let listeners = kept.iter().map(|it| TcpListener::from_std(it.try_clone()?));
                Source::Own {
                    listeners: listeners.collect::<io::Result<_>>()?,
                    kept,
                    first: 0,
                }
            }
            Accepting::FromDispatcher(queue) => Source::FromDispatcher(queue),
        };
        let held = false;
        Ok(Self { source, held })
    }

    /// The next connection, whatever befalls others; `None` when there will be no more. When
    /// dropped before its end, no connection is lost.
    pub(crate) async fn next(&mut self) -> Option<(TcpStream, SocketAddr)> {
        loop {
            let arrival = match &mut self.source {
                Source::Own { .. } if self.held => pending().await,
                Source::Own {
                    listeners, first, ..
                } => poll_fn(|cx| poll_accept(listeners, first, cx)).await,
                Source::FromDispatcher(queue) => register(queue.recv().await?),
                Source::Closed => return None,
            };
            match arrival {
                Ok(arrival) => return Some(arrival),
                Err(error) => recover(&error).await,
            }
        }
    }

    /// Stops (`true`) or resumes accepting at the worker's own listeners. Connections that wait in a
    /// queue have been accepted and come either way.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Closes the worker's own listeners. What waits in a queue still comes, up to the end of the
    /// thread that fills it.
    pub(crate) fn close(&mut self) {
        if let Source::Own { kept, .. } = &mut self.source {
            kept.clear();
            self.source = Source::Closed;
        }
    }
}

/// Accepts from whichever listener has a connection; another one has the first turn then.
fn poll_accept(
    listeners: &[TcpListener],
    first: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
    for turn in 0..listeners.len() {
        let at = (*first + turn) % listeners.len();
        if let Poll::Ready(accepted) = listeners[at].poll_accept(cx) {
            *first = at + 1;
            return Poll::Ready(accepted);
        }
    }
    Poll::Pending
}

fn register((stream, peer): Accepted) -> io::Result<(TcpStream, SocketAddr)> {
    Ok((TcpStream::from_std(stream)?, peer))
}

/// Waits as long as it takes until accepting may work again.
async fn recover(error: &io::Error) {
    if !is_of_one_connection(error) {
        if let Some(suppressed) = FAILURES.admit(Instant::now()) {
            tracing::warn!(%error, suppressed, "cannot accept connections");
        }
        sleep(ACCEPT_RETRY_DELAY).await;
    }
}

/// Returns true if the error concerns only the connection that was about to be accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> (Accepting, SocketAddr) {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        (Accepting::Own(vec![listener]), address)
    }

    #[tokio::test]
    async fn what_waits_for_a_worker_comes_to_the_next_one() {
        let (mut own, address) = own();
        let (queue, end) = mpsc::channel(1);
        let mut handed = Accepting::FromDispatcher(end);
        let client = std::net::TcpStream::connect(address).unwrap();
        for accepting in [&mut own, &mut handed] {
            drop(Arrivals::new(accepting).unwrap());
        }
        let (stream, peer) = Arrivals::new(&mut own).unwrap().next().await.unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        queue.try_send((stream.into_std().unwrap(), peer)).unwrap();
        drop(Arrivals::new(&mut handed).unwrap());
        let again = Arrivals::new(&mut handed).unwrap().next().await;
        assert_eq!(again.unwrap().1, peer);
    }

    #[tokio::test]
    async fn a_listener_that_was_closed_is_closed_for_the_next_worker() {
        let (mut own, address) = own();
        Arrivals::new(&mut own).unwrap().close();
        assert!(std::net::TcpStream::connect(address).is_err());
        assert!(Arrivals::new(&mut own).unwrap().next().await.is_none());
    }
}
