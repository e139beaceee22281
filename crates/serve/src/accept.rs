//! How TCP connections come to a worker: from its own listener, or from the thread that accepts for
//! all ([`Dispatcher`]). Bound in [`listen`](crate::listen), served in [`tcp`](crate::tcp).

mod dispatcher;

pub(crate) use dispatcher::Dispatcher;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Accept fails when the process is out of descriptors; trying again at once would spin.
const PAUSE: Duration = Duration::from_millis(100);

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
pub(crate) enum Arrivals {
    Own(TcpListener),
    Handed(mpsc::Receiver<Accepted>),
    /// From nowhere any more.
    Closed,
}

impl Arrivals {
    /// # Errors
    /// The event loop that is current doesn't take the listener.
    pub(crate) fn new(accepting: Accepting) -> io::Result<Self> {
        Ok(match accepting {
            Accepting::Own(listener) => Self::Own(TcpListener::from_std(listener)?),
            Accepting::Handed(queue) => Self::Handed(queue),
        })
    }

    /// The next connection, whatever befalls others; `None` when there will be no more. When
    /// dropped before its end, no connection is lost.
    pub(crate) async fn next(&mut self) -> Option<(TcpStream, SocketAddr)> {
        loop {
            let arrival = match self {
                Self::Own(listener) => listener.accept().await,
                Self::Handed(queue) => register(queue.recv().await?),
                Self::Closed => return None,
            };
            match arrival {
                Ok(arrival) => return Some(arrival),
                Err(error) => recover(&error).await,
            }
        }
    }

    /// Closes the worker's own listener. What waits in a queue has been accepted and still comes,
    /// up to the end of the thread that fills it.
    pub(crate) fn close(&mut self) {
        if matches!(self, Self::Own(_)) {
            *self = Self::Closed;
        }
    }
}

fn register((stream, peer): Accepted) -> io::Result<(TcpStream, SocketAddr)> {
    Ok((TcpStream::from_std(stream)?, peer))
}

/// Waits as long as it takes until accepting may work again.
async fn recover(error: &io::Error) {
    if !is_of_one_connection(error) {
        tracing::warn!(%error, "cannot accept connections");
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
