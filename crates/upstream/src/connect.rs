//! New connections to a server: its name resolved, TCP or a Unix socket, TLS, and the protocol's beginning.

use crate::content::Outgoing;
use crate::counters::Counters;
use crate::http1::Http1;
use crate::resolve::Names;
use crate::socket::{Socket, Stream};
use crate::tls::Tls;
use crate::{Address, Protocol, Server};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The most bytes of the fields of a response over HTTP/2.
const MAX_FIELDS: u32 = 64 << 10;

/// Bytes that a stream of HTTP/2 may be ahead of its reader.
const STREAM_WINDOW: u32 = 256 << 10;

/// Bytes that a connection of HTTP/2 may be ahead of its readers.
const CONNECTION_WINDOW: u32 = 4 << 20;

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
    /// Opens a connection over HTTP/1.1, which counts as open until it ends.
    pub(crate) async fn http1(&self, counters: &Arc<Counters>) -> io::Result<Http1> {
        let stream = in_time(self.timeout, self.stream()).await?;
        Ok(Http1::new(stream, counters.open()))
    }

    /// Opens a connection over HTTP/2, which tasks of this runtime carry.
    pub(crate) async fn http2(&self, counters: &Arc<Counters>) -> io::Result<Http2> {
        let connecting = async {
            let stream = self.stream().await?;
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
            let open = counters.open();
            tokio::spawn(async move {
                let _ = connection.await;
                drop(open);
            });
            Ok(sender)
        };
        in_time(self.timeout, connecting).await
    }

    async fn stream(&self) -> io::Result<Stream> {
        let socket = self.socket().await?;
        let (Some(name), Some(tls)) = (&self.server.tls, &self.tls) else {
            return Ok(Stream::Plain(socket));
        };
        let connector = TlsConnector::from(tls.config(self.server.protocol));
        let stream = connector.connect(name.clone(), socket).await?;
        let spoken = stream.get_ref().1.alpn_protocol();
        if self.server.protocol == Protocol::Http2 && spoken != Some(b"h2") {
            return Err(io::Error::other("the server does not speak HTTP/2"));
        }
        Ok(Stream::Tls(Box::new(stream)))
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
