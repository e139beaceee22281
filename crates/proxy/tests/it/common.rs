//! A proxy that runs, servers made of sockets, and a client.

use altway_proxy::{Proxy, Settings};
use altway_serve::{Bind, Options, Server, Site, StopHandle, stop_channel};
use altway_upstream::{Address, Group, Protocol};
use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::thread::JoinHandle;
use std::time::Duration;

/// Time after which a test takes what it waits for as not coming: long, because a machine at full load takes long, and
/// only a test that fails waits for it.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(50);

pub(crate) const VERSIONS: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
}

pub(crate) fn tcp(address: SocketAddr, protocol: Protocol) -> altway_upstream::Server {
    altway_upstream::Server {
        address: Address::Tcp(address.ip().to_string(), address.port()),
        protocol,
        tls: None,
    }
}

pub(crate) fn to(address: SocketAddr) -> altway_upstream::Options {
    altway_upstream::Options::new(vec![tcp(address, Protocol::Http1)])
}

pub(crate) fn proxy(options: altway_upstream::Options) -> Running {
    proxy_with(options, Settings::default())
}

pub(crate) fn proxy_with(options: altway_upstream::Options, settings: Settings) -> Running {
    proxy_of(options, settings, |_| {})
}

/// A proxy that is served with changed options.
pub(crate) fn proxy_of(
    options: altway_upstream::Options,
    settings: Settings,
    change: impl FnOnce(&mut Options),
) -> Running {
    let site = Site::responder(Proxy::new(Group::new(options).unwrap(), settings));
    let mut options = Options::clear_text();
    options.site = site;
    options.bind = Bind::Address(Ipv4Addr::LOCALHOST.into());
    options.port = 0;
    options.threads = NonZeroUsize::MIN;
    change(&mut options);
    let server = Server::bind(&options).unwrap();
    let address = server.local_addr();
    let (stop, signal) = stop_channel();
    Running {
        address,
        stop,
        thread: Some(std::thread::spawn(move || server.run(&signal).unwrap())),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// A server that gives each connection to `serve`, on a thread of its own.
pub(crate) fn origin(serve: impl Fn(Connection) + Send + Sync + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            std::thread::spawn(move || serve(Connection::new(stream)));
        }
    });
    address
}

/// An address at which nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    // Bound for as long as the tests run, so that none of them listens there.
    std::mem::forget(socket);
    address
}

pub(crate) struct Connection {
    pub(crate) reader: BufReader<TcpStream>,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self {
            reader: BufReader::new(stream),
        }
    }

    /// The lines of a request's head, in lower case; `None` at the end.
    pub(crate) fn head(&mut self) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => return Some(lines),
                line => lines.push(line.to_ascii_lowercase()),
            }
        }
    }

    pub(crate) fn read(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.reader.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The next bytes; `None` at the end.
    pub(crate) fn try_read<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    pub(crate) fn write(&mut self, text: &str) {
        // The proxy may have gone.
        let _ = self.reader.get_mut().write_all(text.as_bytes());
    }

    pub(crate) fn ok(&mut self, body: &str) {
        let len = body.len();
        self.write(&format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n{body}"
        ));
    }
}

/// A connection to a proxy over either protocol.
pub(crate) enum Client {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    pub(crate) async fn new(address: SocketAddr, version: Version) -> Self {
        let io = TokioIo::new(tokio::net::TcpStream::connect(address).await.unwrap());
        if version == Version::HTTP_2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            return Self::Http2(sender);
        }
        let builder = http1::Builder::new().max_headers(1_000).handshake(io);
        let (sender, connection) = builder.await.unwrap();
        tokio::spawn(connection);
        Self::Http1(sender)
    }

    pub(crate) async fn send(
        &mut self,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> hyper::Result<Response<Incoming>> {
        let mut request: Request<Full<Bytes>> = request.body(Full::new(body.into())).unwrap();
        match self {
            Self::Http1(sender) => {
                request
                    .headers_mut()
                    .insert("host", "a.test".parse().unwrap());
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Http2(sender) => {
                let target = request.uri().path_and_query().unwrap().to_string();
                *request.uri_mut() = format!("http://a.test{target}").parse().unwrap();
                sender.send_request(request).await
            }
        }
    }

    /// The response with its content as text.
    pub(crate) async fn ask(
        &mut self,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> Response<String> {
        let response = self.send(request, body).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Response::from_parts(parts, String::from_utf8(body.to_vec()).unwrap())
    }
}

/// A server of HTTP/2 in clear text that has `answer` take each request.
pub(crate) async fn http2_origin(
    answer: impl Fn(Request<h2::RecvStream>, h2::server::SendResponse<Bytes>) + Clone + Send + 'static,
) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, respond))) = connection.accept().await {
                    answer(request, respond);
                }
            });
        }
    });
    address
}
