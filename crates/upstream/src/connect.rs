//! New connections to a server: its name resolved, TCP or a Unix socket, TLS, and the protocol's beginning.

use crate::counters::Counters;
use crate::http1::Http1;
use crate::http2::{self, Http2};
use crate::http3::Http3;
use crate::resolve::Names;
use crate::socket::{Socket, Stream};
use crate::tls::Tls;
use crate::{Address, Protocol, Server};
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use h2::client::SendRequest;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

/// Time for which an address is waited for before the next one is tried beside it (RFC 8305 section 5: "a recommended value").
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

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
    /// Opens a connection over HTTP/1.1, which counts as open until it ends; with the address that it is to, `None` of a Unix
    /// socket. `header`: of the PROXY protocol, which stands before all else.
    pub(crate) async fn http1(
        &self,
        header: Option<&[u8]>,
        counters: &Arc<Counters>,
    ) -> io::Result<(Http1, Option<IpAddr>)> {
        let (stream, address) = in_time(self.timeout, self.stream(header)).await?;
        Ok((Http1::new(stream, counters.open()), address))
    }

    /// Opens a connection over HTTP/2, which tasks of this runtime carry, and which has `streams` requests at a time until the
    /// server says how many it takes; `header` and `counters` as for [`Self::http1`].
    pub(crate) async fn http2(
        &self,
        header: Option<&[u8]>,
        streams: usize,
        counters: &Arc<Counters>,
    ) -> io::Result<Http2> {
        let connecting = async {
            let (stream, address) = self.stream(header).await?;
            let begun = Http2::begin(stream, address, streams, counters.open()).await;
            begun.map_err(io::Error::other)
        };
        in_time(self.timeout, connecting).await
    }

    /// Opens a connection over HTTP/3, which a task of this runtime carries, to the first of the name's addresses that
    /// completes a handshake; `pause`: the longest of a response; `counters` as for [`Self::http1`].
    pub(crate) async fn http3(
        &self,
        pause: Duration,
        counters: &Arc<Counters>,
    ) -> io::Result<Http3> {
        let (Address::Tcp(host, port), Some(name), Some(tls)) =
            (&self.server.address, &self.server.tls, &self.tls)
        else {
            return Err(io::Error::other("HTTP/3 needs an address and TLS"));
        };
        let (name, tls) = (name.to_str(), tls.config(Protocol::Http3));
        let connecting = async {
            let addresses = self.names.resolve(host, *port).await?;
            let connect = |it| Http3::connect(Arc::clone(&tls), (it, &name), pause, counters);
            let (connection, address) = race(&addresses, connect).await?;
            self.prefer(address, &addresses);
            Ok(connection)
        };
        in_time(self.timeout, connecting).await
    }

    /// Opens a connection over HTTP/2 for a tunnel; `None`: the server takes no extended CONNECT.
    /// `header` and `counters` as for [`Self::http1`].
    pub(crate) async fn tunnel(
        &self,
        header: Option<&[u8]>,
        counters: &Arc<Counters>,
    ) -> io::Result<Option<SendRequest<Bytes>>> {
        let connecting = async {
            let (stream, _) = self.stream(header).await?;
            let begun = http2::begin_tunnel(stream, counters.open()).await;
            begun.map_err(io::Error::other)
        };
        in_time(self.timeout, connecting).await
    }

    /// A byte stream that begins with `header`, before TLS, to the first of the name's addresses that takes one, and that.
    async fn stream(&self, header: Option<&[u8]>) -> io::Result<(Stream, Option<IpAddr>)> {
        let addresses = match &self.server.address {
            Address::Unix(path) => {
                let socket = Socket::Unix(UnixStream::connect(path).await?);
                return Ok((self.begin(socket, header).await?, None));
            }
            Address::Tcp(host, port) => self.names.resolve(host, *port).await?,
        };
        let connect = |address: SocketAddr| async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            self.begin(Socket::Tcp(stream), header).await
        };
        let (stream, address) = race(&addresses, connect).await?;
        self.prefer(address, &addresses);
        Ok((stream, Some(address.ip())))
    }

    /// Begins a connected socket's byte stream.
    async fn begin(&self, mut socket: Socket, header: Option<&[u8]>) -> io::Result<Stream> {
        if let Some(header) = header {
            socket.write_all(header).await?;
        }
        let (Some(name), Some(tls)) = (&self.server.tls, &self.tls) else {
            return Ok(Stream::Plain(socket));
        };
        let connector = TlsConnector::from(tls.config(self.server.protocol));
        let stream = connector.connect(name.clone(), socket).await;
        let stream = stream.map_err(clear_text_told)?;
        let spoken = stream.get_ref().1.alpn_protocol();
        if self.server.protocol == Protocol::Http2 && spoken != Some(b"h2") {
            return Err(io::Error::other("the server does not speak HTTP/2"));
        }
        Ok(Stream::Tls(Box::new(stream)))
    }

    /// Has the next connection begin with the address that took this one.
    fn prefer(&self, address: SocketAddr, addresses: &[SocketAddr]) {
        if addresses.first() != Some(&address) {
            self.names.put_first(address);
        }
    }
}

/// Names the usual cause where what a server sends is no TLS: its scheme. Passes other failures of handshakes on.
fn clear_text_told(error: io::Error) -> io::Error {
    let source = error.get_ref().and_then(|it| it.downcast_ref());
    match source {
        Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
            io::Error::other(
                "the server does not speak TLS; in clear text it is `http://`, or `h2c://`",
            )
        }
        _ => error,
    }
}

/// Connects to the addresses one after the other, each as soon as the one before has failed or is not there after
/// [`ATTEMPT_DELAY`], until one has a connection (RFC 8305 section 5). Returns that with its address; the other
/// attempts are dropped.
///
/// # Errors
/// Errors are those of the last one to fail.
async fn race<T, F: Future<Output = io::Result<T>>>(
    addresses: &[SocketAddr],
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<(T, SocketAddr)> {
    let attempt = async |address| (connect(address).await, address);
    let mut waiting = addresses.iter();
    let mut attempts = FuturesUnordered::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        attempts.extend(waiting.next().map(|it| attempt(*it)));
        tokio::select! {
            ended = attempts.next() => match ended {
                Some((Ok(connection), address)) => return Ok((connection, address)),
                Some((Err(error), _)) => failure = error,
                None => return Err(failure),
            },
            () = sleep(ATTEMPT_DELAY), if !waiting.as_slice().is_empty() => {}
        }
    }
}

/// Does `work`, for which there is so much time.
///
/// # Errors
/// Errors are those of `work`; `TimedOut`: it took longer.
pub(crate) async fn in_time<T>(
    time: Duration,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
    timeout(time, work).await.map_err(late)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::Received;
    use crate::http3::test_server;
    use crate::pool::SharedConnection as _;
    use crate::{Check, Group, Options, Roots};
    use altway_http3::quic::QuicEndpoint as _;
    use altway_testkit::SilentAddress;
    use http::{Request, Version};
    use http_body_util::Empty;
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use std::net::UdpSocket;
    use std::time::Instant;
    use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    #[tokio::test]
    async fn an_address_that_does_not_answer_costs_a_connection_little_and_the_next_one_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        let silent = SilentAddress::new(([127, 0, 0, 2], there.port())).unwrap();
        let gone = silent.address();
        let connector = Connector {
            server: Server {
                address: Address::Tcp("half.test".into(), there.port()),
                protocol: Protocol::Http1,
                tls: None,
            },
            names: Names::default(),
            tls: None,
            timeout: Duration::from_secs(60),
        };
        connector.names.keep(&[gone, there]);
        let began = Instant::now();
        let (_, address) = connector.stream(None).await.unwrap();
        assert_eq!(address, Some(there.ip()));
        assert!(began.elapsed() < Duration::from_secs(15));
        let known = connector.names.resolve("half.test", 0).await.unwrap();
        assert_eq!(known, [there, gone]);
    }

    /// A server that answers each connection's first request, and one that ends each connection before it says anything, at the
    /// same port of two addresses.
    async fn answering_and_ending(protocol: Protocol, tls: Option<TlsAcceptor>) -> [SocketAddr; 2] {
        let (answering, ending) = loop {
            let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = first.local_addr().unwrap().port();
            if let Ok(second) = TcpListener::bind(("127.0.0.2", port)).await {
                break (first, second);
            }
        };
        let addresses = [&answering, &ending].map(|it| it.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((stream, _)) = answering.accept().await {
                match (&tls, protocol) {
                    (Some(tls), _) => answer(tls.accept(stream).await.unwrap()).await,
                    (None, Protocol::Http1) => answer(stream).await,
                    (None, _) => answer_http2(stream).await,
                }
            }
        });
        tokio::spawn(async move { while ending.accept().await.is_ok() {} });
        addresses
    }

    async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(answer).await.unwrap();
        stream.flush().await.unwrap();
    }

    async fn answer_http2(stream: TcpStream) {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let response = http::Response::new(());
            respond.send_response(response, true).unwrap();
        }
    }

    /// A group of a server that has these addresses.
    fn group(options: Options, addresses: &[SocketAddr]) -> Group {
        let group = Group::new(options).unwrap();
        group.0.members[0].connector.names.keep(addresses);
        group
    }

    /// Asks for something, and gives the status.
    async fn ask(group: &Group) -> u16 {
        let request = Request::get("/").body(Empty::<Bytes>::new()).unwrap();
        let received = Received {
            peer: [127, 0, 0, 1].into(),
            port: 1,
            client: None,
            local: None,
            is_trusted: false,
            scheme: "http",
            version: Version::HTTP_11,
            is_early: false,
            began: Instant::now(),
            client_cert: None,
        };
        let sent = group.send(request, received, None, false).await;
        let status = sent.map_or_else(|it| it.status, |(response, _)| response.status());
        status.as_u16()
    }

    fn half_there(protocol: Protocol, port: u16) -> Options {
        Options::new(vec![Server {
            address: Address::Tcp("half.invalid".into(), port),
            protocol,
            tls: None,
        }])
    }

    #[tokio::test]
    async fn a_request_that_an_address_ends_is_sent_to_the_server_s_next_one() {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let [there, ending] = answering_and_ending(protocol, None).await;
            let group = group(half_there(protocol, there.port()), &[ending, there]);
            assert_eq!(ask(&group).await, 200, "{protocol:?}");
        }
    }

    #[tokio::test]
    async fn a_check_that_an_address_ends_is_sent_to_the_server_s_next_one() {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let [there, ending] = answering_and_ending(protocol, None).await;
            let mut options = half_there(protocol, there.port());
            options.check = Some(Check {
                path: "/".into(),
                every: Duration::from_millis(300),
            });
            let group = Group::new(options).unwrap();
            let turns = async |is_up: bool| {
                let up = || group.servers().all(|(_, is_up)| is_up);
                while up() != is_up {
                    sleep(Duration::from_millis(20)).await;
                }
            };
            let found_up = async {
                // Its name has no address.
                turns(false).await;
                group.0.members[0].connector.names.keep(&[ending, there]);
                turns(true).await;
            };
            let found_up = timeout(Duration::from_secs(50), found_up).await;
            assert!(found_up.is_ok(), "{protocol:?}");
        }
    }

    #[tokio::test]
    async fn an_address_where_tls_fails_costs_a_connection_no_more_than_one_that_refuses() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let roots = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(roots.path(), made.cert.pem()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let [there, ending] = answering_and_ending(Protocol::Http1, Some(acceptor)).await;
        let mut options = half_there(Protocol::Http1, there.port());
        options.servers[0].tls = Some(ServerName::try_from("localhost").unwrap());
        options.roots = Roots::File(roots.path().into());
        let group = group(options, &[ending, there]);
        assert_eq!(ask(&group).await, 200);
    }

    #[tokio::test]
    async fn a_server_in_clear_text_that_is_asked_over_tls_is_told_as_one() {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let mut hello = [0; 64];
                    stream.read_exact(&mut hello).await.unwrap();
                    let answer = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
                    stream.write_all(answer).await.unwrap();
                    // Its end would reset what the client has yet to read, as it has not read all itself.
                    let mut rest = Vec::new();
                    let _ = stream.read_to_end(&mut rest).await;
                }
            });
            let mut server = half_there(protocol, address.port()).servers.remove(0);
            server.tls = Some(ServerName::try_from("localhost").unwrap());
            let connector = Connector {
                server,
                names: Names::default(),
                tls: Some(Tls::new(&Roots::System, None).unwrap()),
                timeout: Duration::from_secs(60),
            };
            connector.names.keep(&[address]);
            let failed = connector.stream(None).await.unwrap_err();
            assert!(failed.to_string().contains("http://"), "{failed}");
        }
    }

    /// A server at `socket` that has HTTP/3 connections begin, and a client's TLS that believes its certificate.
    fn http3_server(socket: UdpSocket) -> Tls {
        test_server::start(socket, |endpoint| while endpoint.poll_event().is_some() {})
    }

    #[tokio::test]
    async fn an_address_without_http3_costs_a_connection_little() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let there = socket.local_addr().unwrap();
        // Takes what comes, and says nothing.
        let silent = UdpSocket::bind(("127.0.0.2", there.port())).unwrap();
        let gone = silent.local_addr().unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connector = Connector {
            server: Server {
                address: Address::Tcp("half.test".into(), there.port()),
                protocol: Protocol::Http3,
                tls: Some(name),
            },
            names: Names::default(),
            tls: Some(http3_server(socket)),
            timeout: Duration::from_secs(60),
        };
        connector.names.keep(&[gone, there]);
        let began = Instant::now();
        let counters = Arc::default();
        let connection = connector.http3(Duration::from_secs(60), &counters).await;
        assert_eq!(connection.unwrap().address(), Some(there.ip()));
        assert!(began.elapsed() < Duration::from_secs(15));
        let known = connector.names.resolve("half.test", 0).await.unwrap();
        assert_eq!(known, [there, gone]);
    }

    #[tokio::test]
    async fn where_no_address_takes_a_connection_the_last_failure_tells_why() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let refused = race(&[address, address], TcpStream::connect).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let none = race(&[], TcpStream::connect).await.unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }
}
