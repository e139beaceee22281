//! New connections to a server: its name resolved, TCP or a Unix socket, TLS, and the protocol's beginning.

use crate::content::Outgoing;
use crate::http3::Http3;
use crate::resolve::Names;
use crate::socket::{Carrier, Meter, Shared, Socket, Stream};
use crate::tls::Tls;
use crate::{Address, Protocol, Server};
use bytes::Bytes;
use h2::Ping;
use h2::client::SendRequest;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The most bytes of a response's head over HTTP/1.1.
const MAX_HEAD: usize = 64 << 10;

/// The most bytes of the fields of a response over HTTP/2.
const MAX_FIELDS: u32 = 64 << 10;

/// Bytes that a stream of HTTP/2 may be ahead of its reader.
const STREAM_WINDOW: u32 = 256 << 10;

/// Bytes that a connection of HTTP/2 may be ahead of its readers.
const CONNECTION_WINDOW: u32 = 4 << 20;

/// A connection over HTTP/1.1.
#[derive(Debug)]
pub(crate) struct Http1 {
    pub(crate) sender: http1::SendRequest<Outgoing>,
    pub(crate) socket: Arc<Socket>,
    pub(crate) meter: Arc<Meter>,
    /// Whether it was opened for one client alone, as its header of the PROXY protocol says.
    pub(crate) is_of_one_client: bool,
}

/// A handle on a connection over HTTP/2.
pub(crate) type Http2 = http2::SendRequest<Outgoing>;

/// A maker of connections to a server.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) server: Server,
    pub(crate) names: Names,
    pub(crate) tls: Option<Tls>,
    /// The time for everything up to the protocol's beginning.
    pub(crate) timeout: Duration,
}

impl Connector {
    /// Opens a connection over HTTP/1.1, which a task of this runtime carries. `header`: of the PROXY protocol, which
    /// stands before all else.
    pub(crate) async fn http1(&self, header: Option<&[u8]>) -> io::Result<Http1> {
        let connecting = async {
            let (stream, socket) = self.stream(header).await?;
            let meter = Arc::clone(&stream.meter);
            let mut builder = http1::Builder::new();
            builder.max_buf_size(MAX_HEAD);
            let (sender, connection) = builder
                .handshake(TokioIo::new(stream))
                .await
                .map_err(io::Error::other)?;
            tokio::spawn(async move {
                // Whoever waits for a response is told the same.
                let _ = connection.with_upgrades().await;
            });
            Ok(Http1 {
                sender,
                socket,
                meter,
                is_of_one_client: header.is_some(),
            })
        };
        in_time(self.timeout, connecting).await
    }

    /// Opens a connection over HTTP/2, which tasks of this runtime carry; `header` as for [`Self::http1`].
    pub(crate) async fn http2(&self, header: Option<&[u8]>) -> io::Result<Http2> {
        let connecting = async {
            let (stream, _) = self.stream(header).await?;
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_header_list_size(MAX_FIELDS)
                // A server that is gone without a word is found out while requests wait for it.
                .keep_alive_interval(Duration::from_secs(20))
                .keep_alive_timeout(Duration::from_secs(10))
                .handshake(TokioIo::new(stream))
                .await
                .map_err(io::Error::other)?;
            tokio::spawn(async move {
                let _ = connection.await;
            });
            Ok(sender)
        };
        in_time(self.timeout, connecting).await
    }

    /// Opens a connection over HTTP/3, which a task of this runtime carries, to the first of the name's addresses that
    /// shakes hands; `pause`: the longest of a response.
    pub(crate) async fn http3(&self, pause: Duration) -> io::Result<Http3> {
        let (Address::Tcp(host, port), Some(name), Some(tls)) =
            (&self.server.address, &self.server.tls, &self.tls)
        else {
            return Err(io::Error::other("HTTP/3 needs an address and TLS"));
        };
        let (name, tls) = (name.to_str(), tls.config(Protocol::Http3));
        let connecting = async {
            let addresses = self.names.resolve(host, *port).await?;
            let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            let share = self.timeout / (addresses.len().max(1) as u32);
            for address in addresses {
                let opening = Http3::connect(Arc::clone(&tls), address, &name, pause);
                match in_time(share, opening).await {
                    Ok(connection) => return Ok(connection),
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        };
        in_time(self.timeout, connecting).await
    }

    /// Opens a connection over HTTP/2 for a tunnel; `None`: the server takes no extended CONNECT.
    pub(crate) async fn tunnel(
        &self,
        header: Option<&[u8]>,
    ) -> io::Result<Option<SendRequest<Bytes>>> {
        let connecting = async {
            let (stream, _) = self.stream(header).await?;
            let (sender, mut connection) = h2::client::Builder::new()
                .initial_window_size(STREAM_WINDOW)
                .initial_connection_window_size(STREAM_WINDOW)
                .max_header_list_size(MAX_FIELDS)
                .enable_push(false)
                .handshake(stream)
                .await
                .map_err(io::Error::other)?;
            let ping = connection.ping_pong();
            tokio::spawn(async move {
                let _ = connection.await;
            });
            if let Some(mut ping) = ping {
                // A server's settings are its first frame (RFC 9113 section 3.4): they are there when it answers.
                let answer = ping.ping(Ping::opaque()).await;
                answer.map_err(io::Error::other)?;
            }
            let takes_tunnels = sender.is_extended_connect_protocol_enabled();
            Ok(takes_tunnels.then_some(sender))
        };
        in_time(self.timeout, connecting).await
    }

    /// A byte stream that begins with `header`, before TLS.
    async fn stream(&self, header: Option<&[u8]>) -> io::Result<(Stream, Arc<Socket>)> {
        let socket = Arc::new(self.socket().await?);
        let mut shared = Shared(Arc::clone(&socket));
        if let Some(header) = header {
            shared.write_all(header).await?;
        }
        let carrier = match (&self.server.tls, &self.tls) {
            (Some(name), Some(tls)) => {
                let connector = TlsConnector::from(tls.config(self.server.protocol));
                let stream = connector.connect(name.clone(), shared).await?;
                let spoken = stream.get_ref().1.alpn_protocol();
                if self.server.protocol == Protocol::Http2 && spoken != Some(b"h2") {
                    return Err(io::Error::other("the server does not speak HTTP/2"));
                }
                Carrier::Tls(Box::new(stream))
            }
            _ => Carrier::Plain(shared),
        };
        let meter = Arc::default();
        Ok((Stream { carrier, meter }, socket))
    }

    /// The first of the name's addresses that takes a connection.
    async fn socket(&self) -> io::Result<Socket> {
        let addresses = match &self.server.address {
            Address::Unix(path) => return Ok(Socket::Unix(UnixStream::connect(path).await?)),
            Address::Tcp(host, port) => self.names.resolve(host, *port).await?,
        };
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        // One that doesn't answer leaves time for the next.
        let share = self.timeout / (addresses.len().max(1) as u32);
        for address in addresses {
            match in_time(share, TcpStream::connect(address)).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Socket::Tcp(stream));
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

async fn in_time<T>(time: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
    timeout(time, work).await.map_err(late)?
}
