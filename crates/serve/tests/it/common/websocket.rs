//! Clients that open WebSockets over each protocol: hyper's over HTTP/1.1 and HTTP/2, the project's own
//! engine over HTTP/3.

use super::{Running, Stream, h2};
use altway_http3::{
    ClientConfig, Code, ConnectionHandle, Datagram, Endpoint, Event, Protocol, Received, StreamId,
};
use bytes::{Buf, Bytes};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Http1,
    Http2,
    Http3,
}

pub(crate) const ALL: [Over; 3] = [Over::Http1, Over::Http2, Over::Http3];

/// The byte stream of a tunnel, and what makes its client vanish.
pub(crate) struct Opened {
    pub(crate) head: Response<()>,
    pub(crate) stream: Box<dyn Stream>,
    vanish: Vanish,
}

enum Vanish {
    /// Dropping the stream, which resets it.
    Drop,
    Tell(oneshot::Sender<()>),
}

impl Opened {
    pub(crate) async fn socket(self) -> (WebSocketStream<Box<dyn Stream>>, Gone) {
        let socket = WebSocketStream::from_raw_socket(self.stream, Role::Client, None).await;
        (socket, Gone(self.vanish))
    }
}

/// Has the client of a WebSocket vanish: it resets its stream.
pub(crate) struct Gone(Vanish);

/// Sockets whose clients have vanished, kept as long as the tests run: to drop one would be an end with a word.
static VANISHED: Mutex<Vec<WebSocketStream<Box<dyn Stream>>>> = Mutex::new(Vec::new());

impl Gone {
    pub(crate) fn vanish(self, socket: WebSocketStream<Box<dyn Stream>>) {
        match self.0 {
            Vanish::Drop => drop(socket),
            Vanish::Tell(tell) => {
                tell.send(()).unwrap();
                VANISHED.lock().unwrap().push(socket);
            }
        }
    }
}

impl Over {
    /// Asks for a WebSocket at `path`, with these fields more.
    pub(crate) async fn open(self, server: &Running, path: &str, fields: HeaderMap) -> Opened {
        match self {
            Self::Http1 => open_http1(server, path, fields).await,
            Self::Http2 => open_http2(server, path, fields).await,
            Self::Http3 => open_http3(server, path, fields, "websocket").await,
        }
    }

    /// The same, with success.
    pub(crate) async fn connect(
        self,
        server: &Running,
        path: &str,
    ) -> (WebSocketStream<Box<dyn Stream>>, Gone) {
        let opened = self.open(server, path, HeaderMap::new()).await;
        assert_eq!(opened.head.status(), self.success(), "{self:?}");
        opened.socket().await
    }

    pub(crate) fn success(self) -> StatusCode {
        match self {
            Self::Http1 => StatusCode::SWITCHING_PROTOCOLS,
            Self::Http2 | Self::Http3 => StatusCode::OK,
        }
    }
}

async fn open_http1(server: &Running, path: &str, fields: HeaderMap) -> Opened {
    let stream = server.connect_tls(&[b"http/1.1"]).await;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut client, connection) = handshake.unwrap();
    tokio::spawn(connection.with_upgrades());
    let mut request = Request::get(path)
        .header("host", "localhost")
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    request.headers_mut().unwrap().extend(fields);
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    upgraded(client.send_request(request).await.unwrap(), Over::Http1).await
}

async fn open_http2(server: &Running, path: &str, fields: HeaderMap) -> Opened {
    let mut client = h2::<Empty<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
    // Refused until the server's settings have come.
    let settings = client.send_request(super::get("/")).await.unwrap();
    drop(settings);
    let mut request = Request::connect(format!("https://localhost{path}"))
        .header("sec-websocket-version", "13")
        .extension(hyper::ext::Protocol::from_static("websocket"));
    request.headers_mut().unwrap().extend(fields);
    let request = request.body(Empty::new()).unwrap();
    let response = client.send_request(request).await.unwrap();
    upgraded(response, Over::Http2).await
}

async fn upgraded(mut response: Response<hyper::body::Incoming>, over: Over) -> Opened {
    let on_upgrade = hyper::upgrade::on(&mut response);
    let (parts, body) = response.into_parts();
    let stream: Box<dyn Stream> = match parts.status == over.success() {
        true => Box::new(TokioIo::new(on_upgrade.await.unwrap())),
        false => {
            drop(body);
            Box::new(tokio::io::empty())
        }
    };
    Opened {
        head: Response::from_parts(parts, ()),
        stream,
        vanish: Vanish::Drop,
    }
}

/// An extended CONNECT over HTTP/3 for any protocol.
pub(crate) async fn open_http3(
    server: &Running,
    path: &str,
    fields: HeaderMap,
    protocol: &str,
) -> Opened {
    let mut request = Request::builder()
        .method(Method::CONNECT)
        .uri(format!("https://localhost{path}"))
        .header("sec-websocket-version", "13")
        .extension(Protocol::new(protocol));
    request.headers_mut().unwrap().extend(fields);
    let (far, near) = duplex(64 << 10);
    let (vanish, vanished) = oneshot::channel();
    let (opened, head) = oneshot::channel();
    let config = ClientConfig::new(Arc::new(server.site.client_tls(&[])));
    let mut endpoint = <Endpoint>::client(&config, [7; 32]).unwrap();
    let now = Instant::now();
    let connection = endpoint
        .connect(now, server.address, "localhost", ())
        .unwrap();
    let client = Client {
        endpoint,
        connection,
        socket: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap(),
        request: request.body(()).unwrap(),
        stream: None,
        opened: Some(opened),
        incoming: Bytes::new(),
        outgoing: Bytes::new(),
        read_all: false,
        ended: false,
    };
    tokio::spawn(client.run(far, vanished));
    Opened {
        head: head.await.unwrap(),
        stream: Box::new(near),
        vanish: Vanish::Tell(vanish),
    }
}

/// A connection with one tunnel.
struct Client {
    endpoint: Endpoint,
    connection: ConnectionHandle,
    socket: UdpSocket,
    request: Request<()>,
    stream: Option<StreamId>,
    /// Told of the response's head.
    opened: Option<oneshot::Sender<Response<()>>>,
    incoming: Bytes,
    outgoing: Bytes,
    /// Whether there is no more to send.
    read_all: bool,
    /// The server sends no more.
    ended: bool,
}

impl Client {
    async fn run(mut self, pipe: DuplexStream, mut vanished: oneshot::Receiver<()>) {
        let (mut from, mut to) = tokio::io::split(pipe);
        let (mut datagram, mut data) = ([0; 65_535], [0; 16 << 10]);
        let mut gone = false;
        while self.go_on() {
            if self.ended && self.incoming.is_empty() {
                to.shutdown().await.unwrap();
            }
            self.transmit().await;
            let due = self.endpoint.poll_timeout();
            let due = due.unwrap_or_else(|| Instant::now() + Duration::from_secs(1));
            let reads = self.stream.is_some() && self.outgoing.is_empty() && !self.read_all;
            tokio::select! {
                received = self.socket.recv_from(&mut datagram) => {
                    let (size, remote) = received.unwrap();
                    let payload = &datagram[..size];
                    let datagram = Datagram { remote, local_ip: None, ecn: None, payload };
                    self.endpoint.handle_datagram(Instant::now(), datagram);
                }
                () = tokio::time::sleep_until(due.into()) => {
                    self.endpoint.handle_timeout(Instant::now());
                }
                n = to.write(&self.incoming), if !self.incoming.is_empty() => match n {
                    Ok(n) => self.incoming.advance(n),
                    Err(_) => return self.close().await,
                },
                n = from.read(&mut data), if reads => match n.unwrap_or(0) {
                    0 => self.read_all = true,
                    n => self.outgoing = Bytes::copy_from_slice(&data[..n]),
                },
                told = &mut vanished, if !gone => {
                    gone = true;
                    if told.is_ok() && let Some(stream) = self.stream {
                        let code = Code::H3_REQUEST_CANCELLED;
                        if let Some((it, quic, _)) = self.endpoint.connection(self.connection) { it.reset_stream(quic, stream, code); }
                    }
                }
            }
        }
    }

    /// Everything that can be done without waiting; false once the connection is closed.
    fn go_on(&mut self) -> bool {
        while let Some((_, event)) = self.endpoint.poll_event() {
            match event {
                Event::Closed { .. } => return false,
                Event::Response { head, .. } => drop(self.opened.take().unwrap().send(head)),
                Event::StreamReset { .. } => self.ended = true,
                _ => {}
            }
        }
        if self.stream.is_none()
            && let Some((it, ..)) = self.endpoint.connection(self.connection)
            && it.peer_takes_extended_connect()
        {
            let sent = self.endpoint.with(self.connection, |it, quic| {
                it.send_request(quic, &self.request, false)
            });
            self.stream = Some(sent.unwrap());
        }
        let Some(stream) = self.stream else {
            return true;
        };
        if !self.outgoing.is_empty() || self.read_all {
            // Refused once the end was sent, or the server wants no more.
            let (endpoint, data) = (&mut self.endpoint, &mut self.outgoing);
            if endpoint
                .with(self.connection, |it, quic| {
                    it.send_data(quic, stream, data, self.read_all)
                })
                .is_err()
            {
                data.clear();
            }
        }
        while self.opened.is_none() && self.incoming.is_empty() && !self.ended {
            match self
                .endpoint
                .with(self.connection, |it, quic| it.recv_data(quic, stream))
            {
                Ok(Received::Data(data)) => self.incoming = data,
                Ok(Received::Trailers(_)) => {}
                Ok(Received::Pending) => break,
                Ok(Received::End) | Err(_) => self.ended = true,
            }
        }
        true
    }

    async fn transmit(&mut self) {
        let mut batch = Vec::new();
        while let Some(transmit) = self.endpoint.poll_transmit(Instant::now(), &mut batch) {
            let size = transmit.segment_size.unwrap_or(transmit.size);
            for datagram in batch[..transmit.size].chunks(size) {
                // A failure is a loss.
                let _ = self.socket.send_to(datagram, transmit.destination).await;
            }
        }
    }

    async fn close(mut self) {
        if let Some((it, quic, _)) = self.endpoint.connection(self.connection) {
            it.close(quic, Code::H3_NO_ERROR, b"");
        }
        self.transmit().await;
    }
}
