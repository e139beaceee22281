//! Connections over HTTP/2 (RFC 9113): the crate h2's, with a task that carries each and one that asks its server whether it is
//! there.
//!
//! The exchange that waits for a response takes its interim responses as they come. Content of requests is sent by a task of its own,
//! as far as the server's windows let it; a piece is read of it once the one before has been taken.

mod fields;
mod yielding;

use crate::BoxError;
use crate::backlog::{Backlog, MAX_BACKLOG, UnreadBytes};
use crate::content::Outgoing;
use crate::counters::OpenConnection;
use crate::exchange::Interim;
use crate::pool::SharedConnection;
use crate::retry::{Failure, Sent};
use altway_message::{InterimResponses, TooManyInterimResponses};
use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use yielding::Yielding;

/// Bytes that a stream may be ahead of its reader.
const STREAM_WINDOW: u32 = 256 << 10;

/// Bytes that a connection may be ahead of its readers.
const CONNECTION_WINDOW: u32 = 4 << 20;
const _: () = assert!(2 * MAX_BACKLOG <= CONNECTION_WINDOW as usize);

/// Bytes that a tunnel may be ahead of its reader: the least that a connection can have (RFC 9113 section 6.9.2), as every
/// WebSocket has its own.
pub(crate) const TUNNEL_WINDOW: u32 = (64 << 10) - 1;

/// Requests at a time before the server has said how many it takes (RFC 9113 section 6.5.2 recommends no fewer).
pub(crate) const FIRST_STREAMS: usize = 100;

/// Time after which a server that has requests is asked whether it is there: one that is gone without a word is found out
/// while they wait for it.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Time in which it has to answer.
pub(crate) const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// A handle on a connection. It goes on until the last handle and the last exchange have gone, or the server ends it.
#[derive(Debug, Clone)]
pub(crate) struct Http2 {
    /// A handle that never sends: it tells whether the connection takes requests, whoever waits for a stream.
    handle: SendRequest<Bytes>,
    /// Sends requests one after the other: nothing is known to the connection of those that wait for a stream.
    sender: Arc<Mutex<SendRequest<Bytes>>>,
    active: Active,
    backlog: Backlog,
    address: Option<IpAddr>,
}

/// The failure of a request, and what of it the server can have seen.
pub(crate) type Failed = (Fault, Sent);

/// The reason for which there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The connection or the stream ended.
    #[error(transparent)]
    Http2(#[from] h2::Error),
    /// The server sends interim responses without end.
    #[error(transparent)]
    Interim(#[from] TooManyInterimResponses),
    /// The response's head is too large.
    #[error(transparent)]
    Fields(#[from] fields::TooLarge),
}

impl Fault {
    /// Tells what it says of the server. `may_be_http1`: nothing has shown yet that the server speaks HTTP/2.
    pub(crate) fn failure(&self, may_be_http1: bool) -> Failure {
        let Self::Http2(error) = self else {
            return Failure::Malformed;
        };
        if error.is_reset() && error.is_library() {
            // This end has reset the stream for what has come on it.
            return Failure::Malformed;
        }
        // "HTTP/1.1", read as a frame, has a length that no frame may have.
        if may_be_http1
            && error.is_go_away()
            && error.is_library()
            && error.reason() == Some(Reason::FRAME_SIZE_ERROR)
        {
            return Failure::OtherVersion;
        }
        let is_refused = error.reason() == Some(Reason::REFUSED_STREAM);
        // Of a server that goes, only streams that it has not begun fail so (RFC 9113 section 6.8).
        let has_gone =
            error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR);
        match is_refused || has_gone {
            true => Failure::Unprocessed,
            false => Failure::Connection,
        }
    }
}

impl Http2 {
    /// Begins a connection over `stream`, which is to `address` and counts as `open` until it ends. It has `streams` requests at a
    /// time until the server says how many it takes.
    pub(crate) async fn begin<S>(
        stream: S,
        address: Option<IpAddr>,
        streams: usize,
        open: OpenConnection,
    ) -> Result<Self, h2::Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, mut connection) = builder(STREAM_WINDOW, CONNECTION_WINDOW)
            .initial_max_send_streams(streams)
            .handshake(Yielding::new(stream))
            .await?;
        let active = Active::default();
        let ping = connection.ping_pong();
        keep_alive(carry(connection, open), ping, Some(active.clone()));
        Ok(Self {
            handle: sender.clone(),
            sender: Arc::new(Mutex::new(sender)),
            active,
            backlog: Backlog::default(),
            address,
        })
    }

    /// Sends a request, and gives its response as it comes; `interim` hears of those before it. To drop either gives the
    /// exchange up.
    pub(crate) async fn send(
        &self,
        head: Request<()>,
        content: Outgoing,
        interim: Option<&Interim>,
    ) -> Result<Response<Http2Body>, Failed> {
        let is_whole = content.is_end_stream();
        let active = self.active.begin();
        let (responding, sending) = {
            let mut sender = self.sender.lock().await;
            let ready = poll_fn(|cx| sender.poll_ready(cx)).await;
            let sent = ready.and_then(|()| sender.send_request(head, is_whole));
            sent.map_err(|error| (error.into(), Sent::Nothing))?
        };
        if !is_whole {
            tokio::spawn(send_content(content, sending));
        }
        let response = response(responding, interim).await;
        let response = response.map_err(|fault| (fault, Sent::Some))?;
        let (head, receiving) = response.into_parts();
        let unread = self.backlog.begin();
        let body = Http2Body::new(&head.headers, receiving, (active, unread));
        Ok(Response::from_parts(head, body))
    }
}

impl Http2 {
    /// Requests at a time that it takes, as far as the server's settings are known.
    pub(crate) fn streams(&self) -> usize {
        self.handle.current_max_send_streams()
    }
}

impl SharedConnection for Http2 {
    fn address(&self) -> Option<IpAddr> {
        self.address
    }

    fn is_closed(&self) -> bool {
        let ready = self
            .handle
            .clone()
            .poll_ready(&mut Context::from_waker(Waker::noop()));
        matches!(ready, Poll::Ready(Err(_)))
    }

    fn has_room(&self) -> bool {
        self.active.count() < self.streams()
    }

    fn is_idle(&self) -> bool {
        self.active.count() == 0
    }

    fn backlog(&self) -> usize {
        self.backlog.bytes()
    }
}

/// The settings of a connection whose streams, and all of them together, may be so many bytes ahead of their readers.
fn builder(stream_window: u32, connection_window: u32) -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_window_size(stream_window)
        .initial_connection_window_size(connection_window)
        .max_header_list_size(fields::H2_MAX_FIELDS)
        .enable_push(false);
    builder
}

/// Begins a connection over `stream` for one tunnel, which counts as `open` until it ends; `None`: the server takes no
/// extended CONNECT (RFC 8441).
pub(crate) async fn begin_tunnel<S>(
    stream: S,
    open: OpenConnection,
) -> Result<Option<SendRequest<Bytes>>, h2::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, mut connection) = builder(TUNNEL_WINDOW, TUNNEL_WINDOW)
        .handshake(Yielding::new(stream))
        .await?;
    let mut ping = connection.ping_pong();
    let carrier = carry(connection, open);
    if let Some(ping) = &mut ping {
        // A server's settings are its first frame (RFC 9113 section 3.4): they are there when it answers.
        ping.ping(Ping::opaque()).await?;
    }
    keep_alive(carrier, ping, None);
    let takes_tunnels = sender.is_extended_connect_protocol_enabled();
    Ok(takes_tunnels.then_some(sender))
}

/// Waits for a response; `interim` hears of those before it.
pub(crate) async fn response(
    mut responding: ResponseFuture,
    interim: Option<&Interim>,
) -> Result<Response<RecvStream>, Fault> {
    let mut before = InterimResponses::default();
    let poll = |cx: &mut Context<'_>| {
        while let Some(head) = ready!(responding.poll_informational(cx)) {
            let head = head?;
            before.count(head.headers())?;
            Interim::pass(interim, &head);
        }
        let response = ready!(Pin::new(&mut responding).poll(cx))?;
        fields::check(response.headers())?;
        Poll::Ready(Ok(response))
    };
    poll_fn(poll).await
}

/// Carries a connection in a task of its own.
fn carry<S>(connection: Connection<S, Bytes>, open: OpenConnection) -> JoinHandle<()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("a connection to an upstream over HTTP/2 ended: {error}");
        }
        drop(open);
    })
}

/// The exchanges of a connection that are not over, with those that wait for a stream.
#[derive(Debug, Clone, Default)]
struct Active(Arc<AtomicUsize>);

/// An exchange, counted until it is dropped.
#[derive(Debug)]
struct ActiveExchange(Active);

impl Active {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn begin(&self) -> ActiveExchange {
        self.0.fetch_add(1, Ordering::Relaxed);
        ActiveExchange(self.clone())
    }
}

impl Drop for ActiveExchange {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Ends a connection whose server has vanished while it has exchanges, by a task that ends with it. `active`: counts them;
/// `None`: there is one as long as there is the connection.
fn keep_alive(carrier: JoinHandle<()>, ping: Option<PingPong>, active: Option<Active>) {
    let Some(ping) = ping else { return };
    let handle = carrier.abort_handle();
    tokio::spawn(async move {
        tokio::select! {
            _ = carrier => {}
            () = vanished(ping, active) => {
                tracing::debug!("an upstream over HTTP/2 does not answer any more");
                handle.abort();
            }
        }
    });
}

/// Waits until the server does not answer.
async fn vanished(mut ping: PingPong, active: Option<Active>) {
    loop {
        sleep(KEEP_ALIVE).await;
        if active.as_ref().is_some_and(|it| it.count() == 0) {
            continue;
        }
        match timeout(KEEP_ALIVE_TIMEOUT, ping.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // It ends by itself.
            Ok(Err(_)) => std::future::pending().await,
            Err(_) => return,
        }
    }
}

/// Sends the content of a request as far as the server takes it.
async fn send_content(mut content: Outgoing, mut sending: SendStream<Bytes>) {
    loop {
        let frame = tokio::select! {
            biased;
            // The server wants no more.
            _ = poll_fn(|cx| sending.poll_reset(cx)) => return,
            frame = content.frame() => frame,
        };
        let sent = match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(data))) => {
                let is_last = content.is_end_stream();
                match send_piece(&mut sending, data, is_last).await {
                    Some(()) if !is_last => continue,
                    _ => return,
                }
            }
            Some(Ok(Err(frame))) => {
                sending.send_trailers(frame.into_trailers().unwrap_or_default())
            }
            None => sending.send_data(Bytes::new(), true),
            Some(Err(_)) => return sending.send_reset(Reason::CANCEL),
        };
        if let Err(error) = sent {
            tracing::debug!("the end of a request's content was not sent: {error}");
        }
        return;
    }
}

/// Sends a piece of content; `None`: the server takes no more.
async fn send_piece(sending: &mut SendStream<Bytes>, mut data: Bytes, is_last: bool) -> Option<()> {
    if data.is_empty() && is_last {
        return sending.send_data(data, true).ok();
    }
    while !data.is_empty() {
        // Not before there is something to send: what is reserved, other streams don't have.
        sending.reserve_capacity(data.len());
        while sending.capacity() == 0 {
            poll_fn(|cx| sending.poll_capacity(cx)).await?.ok()?;
        }
        let piece = data.split_to(data.len().min(sending.capacity()));
        let is_end = is_last && data.is_empty();
        sending.send_data(piece, is_end).ok()?;
    }
    Some(())
}

/// The content of a response.
#[derive(Debug)]
pub(crate) struct Http2Body {
    receiving: RecvStream,
    /// Bytes that are still to come, where the server has said how many; h2 sees to it that they do.
    left: Option<u64>,
    unread: UnreadBytes,
    _active: ActiveExchange,
}

impl Http2Body {
    /// The content that follows a head with `fields`.
    fn new(
        fields: &HeaderMap,
        receiving: RecvStream,
        (active, unread): (ActiveExchange, UnreadBytes),
    ) -> Self {
        let length = fields.get(CONTENT_LENGTH);
        let length = length.and_then(|it| it.to_str().ok()?.parse().ok());
        let mut body = Self {
            // A response to HEAD has the length of another one.
            left: if receiving.is_end_stream() {
                Some(0)
            } else {
                length
            },
            receiving,
            unread,
            _active: active,
        };
        body.note_unread();
        body
    }

    /// Notes that as much may wait as its window lets come: how much has come shows only to a reader, which may not ask for long.
    fn note_unread(&mut self) {
        let left = match self.receiving.is_end_stream() {
            true => 0,
            false => self.left.unwrap_or(u64::MAX),
        };
        let most = left.min(STREAM_WINDOW.into());
        self.unread.set(usize::try_from(most).unwrap_or(usize::MAX));
    }

    /// Takes the next piece of content, where it is there.
    pub(crate) fn take_arrived(&mut self) -> Option<Bytes> {
        // What is not there, or fails, is asked for again.
        match self.poll_data(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(data))) => Some(data),
            _ => None,
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, h2::Error>>> {
        let polled = ready!(self.receiving.poll_data(cx));
        if !matches!(polled, Some(Ok(_))) {
            self.unread.set(0);
        }
        let data = match polled {
            None => return Poll::Ready(None),
            Some(Err(error)) if self.is_end(&error) => return Poll::Ready(None),
            Some(data) => data?,
        };
        self.receiving.flow_control().release_capacity(data.len())?;
        self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
        self.note_unread();
        Poll::Ready(Some(Ok(data)))
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(data) = ready!(self.poll_data(cx)) {
            return Poll::Ready(Some(Ok(Frame::data(data?))));
        }
        let trailers = match ready!(self.receiving.poll_trailers(cx)) {
            Err(error) if self.is_end(&error) => None,
            trailers => trailers?,
        };
        let Some(trailers) = trailers else {
            return Poll::Ready(None);
        };
        fields::check(&trailers)?;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    /// Tells whether a failure is the content's end: a server resets a stream without an error once its response is complete (RFC
    /// 9113 section 8.1). Node.js does in place of END_STREAM, where content is piped into its streams.
    fn is_end(&self, error: &h2::Error) -> bool {
        let has_error = error.reason() != Some(Reason::NO_ERROR);
        error.is_reset() && error.is_remote() && !has_error && self.left.unwrap_or(0) == 0
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.receiving.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests;
