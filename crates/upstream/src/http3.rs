//! Connections over HTTP/3 (RFC 9114): each has a task that owns its socket and engine, and is told over a queue what
//! its requests want.
//!
//! Content moves one piece at a time in either direction: a task of the request reads the next piece of what is sent
//! once the one before has been taken by the engine, and the engine reads the next piece of what is received once
//! whoever has the response has taken the one before. So each exchange has three messages in the queue at most, its end among
//! them, and pieces in memory that its windows bound.

mod driver;
mod link;
mod tunnel;

use crate::BoxError;
use crate::backlog::Backlog;
use crate::content::Outgoing;
use crate::counters::Counters;
use crate::exchange::Interim;
use crate::pool::SharedConnection;
use crate::retry::{Failure, Sent};
use bytes::Bytes;
use driver::Driver;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use link::Link;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::oneshot;
pub(crate) use tunnel::Http3Stream;

/// A handle on a connection over HTTP/3. It goes on until the last handle and the last exchange have gone, or the
/// server ends it.
#[derive(Debug, Clone)]
pub(crate) struct Http3 {
    driver: UnboundedSender<Message>,
    shared: Arc<Shared>,
    opened: Instant,
    address: IpAddr,
}

#[derive(Debug, Default)]
struct Shared {
    exchanges: AtomicU64,
    /// Exchanges that are not over.
    in_progress: AtomicUsize,
    backlog: Backlog,
    /// The server has no stream for another request.
    is_full: AtomicBool,
    /// The server takes no more requests.
    is_going: AtomicBool,
    /// The server takes extended CONNECT.
    takes_tunnels: AtomicBool,
}

/// A message to the task of a connection. Of each exchange there are three at most.
#[derive(Debug)]
enum Message {
    NewRequest(u64, Box<NewRequest>),
    /// The next piece of the request's content; `None`: its end.
    Content(u64, Option<Frame<Bytes>>),
    /// Room for a piece of the response.
    Room(u64),
    /// Nobody waits for it any more, or its content has failed.
    Gone(u64),
}

/// A request that is to be sent.
#[derive(Debug)]
struct NewRequest {
    head: Request<()>,
    /// True if the request waits where the server has no stream for it; else it is given back.
    may_wait: bool,
    interim: Option<Interim>,
    answer: oneshot::Sender<Result<Answer, Failed>>,
    /// Asks for the next piece of the request's content; `None`: it has none.
    credit: Option<mpsc::Sender<()>>,
}

/// The head of a response, and its content.
type Answer = (Response<()>, Pieces);

/// The content of a response: what has come with its head, and the pieces that follow unless there are none.
type Pieces = (Bytes, Option<mpsc::Receiver<Piece>>);

/// A piece of a response's content, its end, or what came in between.
type Piece = Result<Option<Frame<Bytes>>, BoxError>;

/// The failure of a request.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The server has no stream for it over this connection, and it was not to wait for one.
    NoStream(Box<Request<()>>),
    /// No response came; and what of the request the server can have seen.
    NoResponse(Failure, Sent),
}

impl Http3 {
    /// Opens a connection to a server of that name, which counts as open from its handshake to its end; `pause`: the
    /// longest of a response.
    pub(crate) async fn connect(
        tls: Arc<rustls::ClientConfig>,
        (remote, name): (SocketAddr, &str),
        pause: Duration,
        counters: &Arc<Counters>,
    ) -> io::Result<Self> {
        let mut link = Link::connect(tls, remote, name, pause)?;
        driver::complete_handshake(&mut link).await?;
        let (sender, messages) = mpsc::unbounded_channel();
        let shared = Arc::<Shared>::default();
        let driver = Driver::new(link, messages, Arc::clone(&shared), counters.open());
        tokio::spawn(driver.run());
        Ok(Self {
            driver: sender,
            shared,
            opened: Instant::now(),
            address: remote.ip(),
        })
    }

    /// Sends a request, and gives its response as it comes. To drop either gives the exchange up. `may_wait`: for a stream.
    pub(crate) async fn send(
        &self,
        head: Request<()>,
        may_wait: bool,
        content: Outgoing,
        interim: Option<Interim>,
    ) -> Result<Response<Http3Body>, Failed> {
        let has_content = !content.is_end_stream();
        let (credit, wanted) = mpsc::channel(1);
        let exchange = self.begin();
        let number = exchange.number;
        let answered = exchange.send(head, may_wait, interim, has_content.then_some(credit))?;
        if has_content {
            tokio::spawn(send_content(content, number, self.driver.clone(), wanted));
        }
        let (head, pieces) = answer(answered).await?;
        let content = Http3Body::new(head.headers(), pieces, exchange);
        Ok(head.map(|()| content))
    }

    fn begin(&self) -> Exchange {
        self.shared.in_progress.fetch_add(1, Ordering::Relaxed);
        Exchange {
            number: self.shared.exchanges.fetch_add(1, Ordering::Relaxed),
            shared: Arc::clone(&self.shared),
            driver: self.driver.clone(),
        }
    }
}

impl SharedConnection for Http3 {
    fn address(&self) -> Option<IpAddr> {
        Some(self.address)
    }

    fn is_closed(&self) -> bool {
        self.driver.is_closed() || self.shared.is_going.load(Ordering::Relaxed)
    }

    fn has_room(&self) -> bool {
        !self.shared.is_full.load(Ordering::Relaxed)
    }

    fn is_idle(&self) -> bool {
        self.shared.in_progress.load(Ordering::Relaxed) == 0
    }

    fn backlog(&self) -> usize {
        self.shared.backlog.bytes()
    }
}

/// Reads the content of a request piece by piece, the next one once the last one is with the engine.
async fn send_content(
    mut content: Outgoing,
    number: u64,
    driver: UnboundedSender<Message>,
    mut wanted: mpsc::Receiver<()>,
) {
    // It is asked for once the request is on its way, and no more once the exchange is over.
    while wanted.recv().await.is_some() {
        let frame = tokio::select! {
            frame = content.frame() => frame,
            _ = wanted.recv() => return,
        };
        let (message, is_last) = match frame {
            Some(Ok(frame)) => {
                let is_last = frame.is_trailers();
                (Message::Content(number, Some(frame)), is_last)
            }
            None => (Message::Content(number, None), true),
            Some(Err(_)) => (Message::Gone(number), true),
        };
        if driver.send(message).is_err() || is_last {
            return;
        }
    }
}

/// An exchange that somebody waits for. Given up when it is dropped.
#[derive(Debug)]
struct Exchange {
    number: u64,
    shared: Arc<Shared>,
    driver: UnboundedSender<Message>,
}

/// The response that a request waits for.
type Answered = oneshot::Receiver<Result<Answer, Failed>>;

impl Exchange {
    /// Sends the request; `credit`: that asks for its content, if it has some.
    fn send(
        &self,
        head: Request<()>,
        may_wait: bool,
        interim: Option<Interim>,
        credit: Option<mpsc::Sender<()>>,
    ) -> Result<Answered, Failed> {
        let (answer, answered) = oneshot::channel();
        let begin = NewRequest {
            head,
            may_wait,
            interim,
            answer,
            credit,
        };
        let begun = self
            .driver
            .send(Message::NewRequest(self.number, Box::new(begin)));
        match begun {
            Ok(()) => Ok(answered),
            Err(_) => Err(Failed::NoResponse(Failure::Connection, Sent::Nothing)),
        }
    }
}

async fn answer(answered: Answered) -> Result<Answer, Failed> {
    match answered.await {
        Ok(answer) => answer,
        Err(_) => Err(Failed::NoResponse(Failure::Connection, Sent::Some)),
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.shared.in_progress.fetch_sub(1, Ordering::Relaxed);
        // Else the connection has ended.
        let _ = self.driver.send(Message::Gone(self.number));
    }
}

/// The content of a response over HTTP/3.
#[derive(Debug)]
pub(crate) struct Http3Body {
    /// Content that has come with the head, and was not taken yet.
    first: Bytes,
    pieces: Option<mpsc::Receiver<Piece>>,
    is_at_end: bool,
    has_length: bool,
    exchange: Exchange,
}

impl Http3Body {
    /// The content that follows a head with `fields`.
    fn new(fields: &HeaderMap, (first, pieces): Pieces, exchange: Exchange) -> Self {
        Self {
            first,
            is_at_end: pieces.is_none(),
            has_length: pieces.is_none() || fields.contains_key(CONTENT_LENGTH),
            pieces,
            exchange,
        }
    }

    /// Takes the content that has come with the head.
    pub(crate) fn take_arrived(&mut self) -> Option<Bytes> {
        Some(std::mem::take(&mut self.first)).filter(|it| !it.is_empty())
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(first) = self.take_arrived() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Some(pieces) = self.pieces.as_mut().filter(|_| !self.is_at_end) else {
            return Poll::Ready(None);
        };
        let piece = ready!(pieces.poll_recv(cx));
        let piece = piece.unwrap_or_else(|| Err("the connection to the upstream ended".into()));
        self.is_at_end = !matches!(&piece, Ok(Some(frame)) if frame.is_data());
        if !self.is_at_end {
            let room = Message::Room(self.exchange.number);
            // Else the connection has ended, as the next piece tells.
            let _ = self.exchange.driver.send(room);
        }
        Poll::Ready(piece.transpose())
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.is_at_end
    }

    /// Returns whether the server has said how long it is.
    pub(crate) fn has_length(&self) -> bool {
        self.has_length
    }
}

#[cfg(test)]
pub(crate) mod test_server;
#[cfg(test)]
mod tests;
