//! How TCP connections come to a worker: from its own listener, or from the thread that accepts for
//! all ([`Dispatcher`]). Bound in [`listen`](crate::listen), served in [`tcp`](crate::tcp).

mod dispatcher;

use crate::throttle::Throttle;
pub(crate) use dispatcher::Dispatcher;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Accept fails when the process is out of descriptors; trying again at once would spin.
const PAUSE: Duration = Duration::from_millis(100);

/// Lines about it: it fails ten times a second and worker as long as there are no descriptors.
static FAILURES: Throttle = Throttle::new();

/// A connection, not blocking, and who is at its other end.
pub(crate) type Accepted = (std::net::TcpStream, SocketAddr);

/// Where a worker's connections come from, before the worker runs.
#[derive(Debug)]
pub(crate) enum Accepting {
    /// The worker accepts by itself.
    Own(std::net::TcpListener),
    /// They are handed to it through a bounded queue.
    Handed(mpsc::Receiver<Accepted>),
}

/// Where a worker's connections come from, on the worker's event loop.
#[derive(Debug)]
pub(crate) struct Arrivals {
    source: Source,
    /// Nothing more is accepted: the kernel's queue holds it, for us or for another process.
    held: bool,
}

#[derive(Debug)]
enum Source {
    Own(TcpListener),
    Handed(mpsc::Receiver<Accepted>),
    /// From nowhere any more.
    Closed,
}

impl Arrivals {
    /// # Errors
    /// The event loop that is current doesn't take the listener.
    pub(crate) fn new(accepting: Accepting) -> io::Result<Self> {
        let source = match accepting {
            Accepting::Own(listener) => Source::Own(TcpListener::from_std(listener)?),
            Accepting::Handed(queue) => Source::Handed(queue),
        };
        let held = false;
        Ok(Self { source, held })
    }

    /// The next connection, whatever befalls others; `None` when there will be no more. When
    /// dropped before its end, no connection is lost.
    pub(crate) async fn next(&mut self) -> Option<(TcpStream, SocketAddr)> {
        loop {
            let arrival = match &mut self.source {
                Source::Own(_) if self.held => pending().await,
                Source::Own(listener) => listener.accept().await,
                Source::Handed(queue) => register(queue.recv().await?),
                Source::Closed => return None,
            };
            match arrival {
                Ok(arrival) => return Some(arrival),
                Err(error) => recover(&error).await,
            }
        }
    }

    /// Whether to leave alone what waits at the worker's own listener. What waits in a queue has been
    /// accepted and comes either way.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Closes the worker's own listener. What waits in a queue still comes, up to the end of the
    /// thread that fills it.
    pub(crate) fn close(&mut self) {
        if matches!(self.source, Source::Own(_)) {
            self.source = Source::Closed;
        }
    }
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
        sleep(PAUSE).await;
    }
}

/// Whether only the connection that was about to be accepted is concerned.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    )
}
