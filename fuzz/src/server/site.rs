//! The servers that clients come to, and the bystander.

use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use altway_serve::{
    Bind, BoxError, Limits, Options, RequestBody, Security, Server, Site, stop_channel,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use tower_service::Service;

/// Memory that clients may make a server hold in all, in bytes: `--max-memory`.
pub(super) const MAX_MEMORY: usize = Limits::MIN_MEMORY.as_bytes() as usize;

/// The large file: larger than the buffers of a connection, so that some of it waits for its client.
pub(super) const LARGE: usize = 1 << 20;

/// Bytes of a piece of the service's large response.
const PIECE: usize = 16 << 10;

/// Files of the site, which the server may keep open.
pub(super) const FILES: usize = 3;

/// Longer than any run: no time-out helps the server to let go.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// Time that the bystander waits on a machine that is busy.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(8);

/// A server of files and one of a service, of one worker each, and a connection of the bystander to each.
pub(super) struct Sites {
    _dir: tempfile::TempDir,
    servers: [(SocketAddr, TcpStream); 2],
}

impl Sites {
    pub(super) fn start() -> Self {
        let dir = tempfile::tempdir().expect("a folder can be made");
        let files = [("index.html", 8), ("small", 100), ("large", LARGE)];
        for (name, size) in files {
            std::fs::write(dir.path().join(name), vec![b'x'; size]).expect("a file can be made");
        }
        let sites = [Site::files(dir.path()), Site::service(Answers)];
        let servers = sites.map(|site| {
            let address = start(site);
            let bystander = TcpStream::connect(address).expect("the server takes connections");
            let patience = bystander.set_read_timeout(Some(RESPONSE_TIMEOUT));
            patience.expect("an open socket");
            (address, bystander)
        });
        Self { _dir: dir, servers }
    }

    /// The address of one of them.
    pub(super) fn address(&self, which: usize) -> SocketAddr {
        self.servers[which % 2].0
    }

    /// The bystander asks one of them, whose worker has then done what was there to do for others.
    pub(super) fn ask(&mut self, which: usize) {
        let (_, bystander) = &mut self.servers[which % 2];
        bystander
            .write_all(b"GET / HTTP/1.1\r\nHost: bystander\r\n\r\n")
            .expect("the bystander's connection stays");
        let mut answer = Vec::new();
        while !is_whole(&answer) {
            let mut piece = [0; 1024];
            let n = match bystander.read(&mut piece) {
                // By libFuzzer's timer.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.expect("the bystander waits long"),
            };
            assert_ne!(n, 0, "the bystander's connection stays");
            answer.extend_from_slice(&piece[..n]);
        }
        assert!(
            answer.starts_with(b"HTTP/1.1 200 "),
            "the bystander is served"
        );
    }

    pub(super) fn ask_all(&mut self) {
        (0..self.servers.len()).for_each(|which| self.ask(which));
    }

    /// Waits until the servers hold what they go on to hold.
    pub(super) fn settle(&mut self) {
        self.ask_all();
        thread::sleep(Duration::from_millis(500));
        self.ask_all();
    }
}

/// Returns true if a response to the bystander has come, which has 8 bytes of content.
fn is_whole(answer: &[u8]) -> bool {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    end.is_some_and(|end| answer.len() >= end + 4 + 8)
}

/// Starts a server, which runs as long as the process.
fn start(site: Site) -> SocketAddr {
    let mut options = Options::new(site, Security::ClearText);
    options.bind = Bind::Address(Ipv4Addr::LOCALHOST.into());
    options.port = 0;
    options.threads = NonZeroUsize::MIN;
    options.limits = Limits::for_memory(Limits::MIN_MEMORY).expect("not too little");
    options.limits.header_timeout = NEVER;
    options.limits.idle_timeout = NEVER;
    let server = Server::bind(&options).expect("a port can be bound");
    let address = server.local_addr();
    thread::spawn(move || {
        let (_handle, signal) = stop_channel();
        server.run(&signal).expect("the server never stops");
    });
    address
}

/// Returns as many bytes as the large file has, each piece made when it is asked for.
fn frames() -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> {
    let frame = || Ok(Frame::data(Bytes::from(vec![b'x'; PIECE])));
    stream::repeat_with(frame).take(LARGE / PIECE)
}

/// A service: `/echo` sends back what came, `/large` much, and other paths read nothing.
#[derive(Clone)]
struct Answers;

impl Service<Request<RequestBody>> for Answers {
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        Box::pin(async move {
            let full = |bytes| {
                Full::new(bytes)
                    .map_err(|never| match never {})
                    .boxed_unsync()
            };
            let (status, body) = match request.uri().path() {
                "/echo" => (
                    StatusCode::OK,
                    request.into_body().map_err(Into::into).boxed_unsync(),
                ),
                "/large" => (StatusCode::OK, StreamBody::new(frames()).boxed_unsync()),
                "/" if request.method() == http::Method::GET => {
                    (StatusCode::OK, full(Bytes::from_static(b"the home")))
                }
                _ => (
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    full(Bytes::from_static(b"no")),
                ),
            };
            let mut response = Response::new(body);
            *response.status_mut() = status;
            Ok(response)
        })
    }
}
