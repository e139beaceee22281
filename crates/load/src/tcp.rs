//! HTTP/1.1 and HTTP/2: a connection over TCP, with TLS or in clear text, driven by hyper.

use crate::error::Failure;
use crate::run::{Answer, Job, Run, Sent};
use crate::slot::Opening;
use crate::tickets::Ticket;
use crate::tls;
use altway_record::Protocol;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderValue, Request, Response, Version, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// HTTP/2's flow-control windows (RFC 9113, section 5.2): more than 1 Gbit/s × 100 ms = 12.5 MB.
const STREAM_WINDOW: u32 = 16 << 20;
const CONNECTION_WINDOW: u32 = 32 << 20;

/// How long a connection may take to say goodbye (GOAWAY, close_notify, FIN).
const CLOSING: Duration = Duration::from_millis(250);

/// Opens a connection for the request of `opening` and keeps its streams busy until it closes or
/// the tickets run out.
///
/// # Errors
/// The connection could not be opened; nothing has been recorded.
pub(crate) async fn serve(run: &Run<'_>, opening: Opening) -> Result<(), Failure> {
    let job = run.job;
    let opened = tokio::time::timeout_at((opening.begun + job.timeout).into(), open(job)).await;
    let (sender, driver, connected) = opened.map_err(|_| Failure::TimedOut(job.timeout))??;
    run.on_connected();
    let connection = Connection {
        run,
        ordinal: opening.connection,
        streams: Cell::new(0),
    };
    let first = First {
        ticket: opening.ticket,
        connect: connected.duration_since(opening.begun),
        deadline: opening.begun + job.timeout,
    };
    connection.work(sender, first).await;
    driver.close().await;
    Ok(())
}

/// TCP, TLS, ALPN check, HTTP preface; and when TLS (or TCP, without) was through.
async fn open(job: &Job) -> Result<(Sender, Driver, Instant), Failure> {
    let tcp = dial(job).await.map_err(Failure::Connect)?;
    match &job.tls {
        None => {
            let connected = Instant::now();
            let (sender, driver) = start_http(job.protocol, tcp).await?;
            Ok((sender, driver, connected))
        }
        Some(config) => {
            let connector = TlsConnector::from(config.clone());
            let stream = secure(job, &connector, tcp).await?;
            let connected = Instant::now();
            let (sender, driver) = start_http(job.protocol, stream).await?;
            Ok((sender, driver, connected))
        }
    }
}

/// The first of the addresses that answers.
async fn dial(job: &Job) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(job.addresses.as_slice()).await?;
    // A request is one small write: waiting for more to send with it would only delay it.
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn secure(
    job: &Job,
    connector: &TlsConnector,
    tcp: TcpStream,
) -> Result<TlsStream<TcpStream>, Failure> {
    let name = ServerName::try_from(job.host.clone())
        .map_err(|error| Failure::Tls(io::Error::other(error)))?;
    let stream = connector.connect(name, tcp).await.map_err(Failure::Tls)?;
    let found = stream.get_ref().1.alpn_protocol();
    match (job.protocol, found) {
        // A server that knows no ALPN speaks HTTP/1.1.
        (Protocol::H1, None) => Ok(stream),
        (asked, Some(found)) if found == tls::alpn(asked).as_bytes() => Ok(stream),
        (asked, found) => Err(Failure::OtherProtocol {
            asked,
            found: found.map(|name| String::from_utf8_lossy(name).into_owned()),
        }),
    }
}

async fn start_http<S>(protocol: Protocol, stream: S) -> Result<(Sender, Driver), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    if protocol == Protocol::H1 {
        let (sender, connection) = http1::handshake(io).await?;
        return Ok((Sender::Http1(sender), Driver::spawn(connection)));
    }
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake(io)
        .await?;
    Ok((Sender::Http2(sender), Driver::spawn(connection)))
}

/// The task that moves the connection's bytes. Dropping it cuts the connection.
struct Driver(JoinHandle<()>);

impl Driver {
    fn spawn<E: Send>(connection: impl Future<Output = Result<(), E>> + Send + 'static) -> Self {
        // What went wrong with the connection, each of its requests is told as well.
        Self(tokio::spawn(async move { drop(connection.await) }))
    }

    /// Once every sender is gone: lets the connection close in good order.
    async fn close(mut self) {
        let _ = tokio::time::timeout(CLOSING, &mut self.0).await;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What sends requests on a connection.
enum Sender {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

impl Sender {
    /// One for each stream: `streams` over HTTP/2, one over HTTP/1.1.
    fn split(self, streams: u32) -> Vec<Self> {
        match self {
            Self::Http1(sender) => vec![Self::Http1(sender)],
            Self::Http2(sender) => (0..streams).map(|_| Self::Http2(sender.clone())).collect(),
        }
    }

    /// Waits until the next request can be sent; false when the connection is closed.
    async fn ready(&mut self) -> bool {
        match self {
            Self::Http1(sender) => sender.ready().await.is_ok(),
            Self::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    fn is_closed(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_closed(),
            Self::Http2(sender) => sender.is_closed(),
        }
    }

    /// Whether a request that went wrong leaves the others unharmed.
    fn outlives_failures(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    async fn send(&mut self, request: Request<Empty<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => sender.send_request(request).await,
            Self::Http2(sender) => sender.send_request(request).await,
        }
    }
}

/// The request that opened the connection.
struct First {
    ticket: Ticket,
    connect: Duration,
    deadline: Instant,
}

struct Connection<'r, 'a> {
    run: &'r Run<'a>,
    ordinal: u32,
    /// Requests sent so far.
    streams: Cell<u32>,
}

impl Connection<'_, '_> {
    /// Sends the first request and, beside it on the other streams, further ones.
    async fn work(&self, sender: Sender, first: First) {
        let mut first = Some(first);
        let senders = sender.split(self.run.job.streams).into_iter();
        join_all(senders.map(|sender| self.stream(sender, first.take()))).await;
    }

    /// One request after the other.
    async fn stream(&self, mut sender: Sender, first: Option<First>) {
        if let Some(first) = first {
            let sent = self.sent(first.ticket, Some(first.connect));
            let complete = self.request(&mut sender, &sent, first.deadline).await;
            if !complete && !sender.outlives_failures() {
                return;
            }
        }
        while sender.ready().await {
            let Some(ticket) = self.run.tickets.next().await else {
                return;
            };
            if sender.is_closed() {
                // The peer went while the ticket was awaited: the next connection takes it.
                return self.run.tickets.give_back(ticket);
            }
            let sent = self.sent(ticket, None);
            let deadline = Instant::now() + self.run.job.timeout;
            let complete = self.request(&mut sender, &sent, deadline).await;
            if !complete && !sender.outlives_failures() {
                return;
            }
        }
    }

    fn sent(&self, ticket: Ticket, connect: Option<Duration>) -> Sent {
        let stream = self.streams.get();
        self.streams.set(stream.saturating_add(1));
        Sent {
            connection: self.ordinal,
            stream,
            start: ticket.start,
            connect,
            protocol_used: Some(self.run.job.protocol),
        }
    }

    /// Sends a request and records what came of it; true when it was answered in full.
    async fn request(&self, sender: &mut Sender, sent: &Sent, deadline: Instant) -> bool {
        let mut answer = Answer::default();
        let exchange = exchange(sender, request(self.run.job), &mut answer);
        let result = tokio::time::timeout_at(deadline.into(), exchange).await;
        let end = Instant::now();
        let result = result.unwrap_or(Err(Failure::TimedOut(self.run.job.timeout)));
        let complete = result.is_ok();
        self.run.record(sent, &answer, end, result);
        complete
    }
}

async fn exchange(
    sender: &mut Sender,
    request: Request<Empty<Bytes>>,
    answer: &mut Answer,
) -> Result<(), Failure> {
    let response = sender.send(request).await?;
    answer.on_head(Instant::now(), &response);
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            answer.on_data(data.len());
        }
    }
    answer.complete()
}

/// A GET in the form that the protocol wants: path and Host over HTTP/1.1 (RFC 9112, section
/// 3.2.1), the whole URI over HTTP/2, which makes pseudo-header fields of it.
fn request(job: &Job) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    let headers = request.headers_mut();
    headers.insert(
        header::USER_AGENT,
        HeaderValue::from_static(crate::USER_AGENT),
    );
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    if job.protocol == Protocol::H1 {
        if let Ok(host) = HeaderValue::from_str(job.authority()) {
            headers.insert(header::HOST, host);
        }
        *request.uri_mut() = job.path();
    } else {
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = job.uri.clone();
    }
    request
}
