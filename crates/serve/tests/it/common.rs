//! A running server with its directory, and plain clients of each protocol.

pub(crate) mod access_log;
pub(crate) mod h3;
pub(crate) mod ocsp;
pub(crate) mod raw;
mod recorder;
pub(crate) mod websocket;

use altway_serve::{
    Bind, BoxError, Certificates, Identity, Monitor, Options, ReloadHandle, Security, Serve,
    Server, Spread, TicketKeys, certs, stop_channel,
};
pub(crate) use altway_testkit::free_port;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Incoming};
use hyper::client::conn;
use hyper_util::rt::{TokioExecutor, TokioIo};
pub(crate) use recorder::Recorder;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;

/// The size of `/large`: more than all buffers between a server and a client that doesn't read.
pub(crate) const LARGE: usize = 24 * LARGE_PERIOD;
const LARGE_PERIOD: usize = 1_000_003;

/// Distribution of connections over the workers: `tests/round_robin.rs` runs tests of connections once more.
pub(crate) fn spread() -> Spread {
    match env!("CARGO_CRATE_NAME") {
        "round_robin" => Spread::RoundRobin,
        _ => Spread::PerWorker,
    }
}

pub(crate) struct Site {
    dir: tempfile::TempDir,
    /// Folder of `store`: the same for several servers in a row.
    certificates: Arc<tempfile::TempDir>,
    store: certs::Store,
}

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    /// Addresses of further listeners.
    pub(crate) further: Vec<SocketAddr>,
    pub(crate) site: Site,
    reload: Option<ReloadHandle>,
    monitor: Option<Monitor>,
    stop: Box<dyn Fn() + Send + Sync>,
    thread: Option<JoinHandle<Result<(), altway_serve::Error>>>,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::with(Arc::new(tempfile::tempdir().unwrap()))
    }

    /// Another folder, with the same certificates.
    pub(crate) fn next(&self) -> Self {
        Self::with(Arc::clone(&self.certificates))
    }

    fn with(certificates: Arc<tempfile::TempDir>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = certs::Store::open(certificates.path().join("certs")).unwrap();
        let site = dir.path().join("site");
        std::fs::create_dir(&site).unwrap();
        std::fs::write(site.join("index.html"), "<p>home").unwrap();
        std::fs::write(site.join("large"), large()).unwrap();
        Self {
            dir,
            certificates,
            store,
        }
    }

    /// A file to be served.
    pub(crate) fn write(&self, name: &str, content: &str) {
        std::fs::write(self.folder().join(name), content).unwrap();
    }

    fn options(&self, security: Security) -> Options {
        let served = altway_serve::Site::files(self.dir.path().join("site"));
        let mut options = Options::new(served, security);
        options.bind = Bind::Address(Ipv4Addr::LOCALHOST.into());
        options.port = 0;
        options.threads = NonZeroUsize::new(2).unwrap();
        options.spread = spread();
        options
    }

    /// Folder that is served.
    pub(crate) fn folder(&self) -> PathBuf {
        self.dir.path().join("site").canonicalize().unwrap()
    }

    /// The certificate that is there.
    pub(crate) fn leaf(&self) -> certs::Leaf {
        self.store.leaf::<&str>(&[]).unwrap()
    }

    /// Another certificate in its place.
    pub(crate) fn new_leaf(&self) -> certs::Leaf {
        std::fs::remove_file(self.leaf().certificate).unwrap();
        self.leaf()
    }

    pub(crate) fn leaf_der(&self) -> Vec<u8> {
        let der = CertificateDer::from_pem_file(self.leaf().certificate);
        der.unwrap().to_vec()
    }

    /// The certificate of the authority.
    pub(crate) fn authority(&self) -> PathBuf {
        self.store.authority()
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(self.store.authority()).unwrap();
        roots.add(authority).unwrap();
        roots
    }

    pub(crate) fn client_tls(&self, alpn: &[&[u8]]) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots())
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config
    }
}

/// Bytes of the large file: a period that no chunk or packet size divides.
pub(crate) fn large() -> Vec<u8> {
    let period: Vec<u8> = (0..LARGE_PERIOD).map(|i| (i % 251) as u8).collect();
    period.repeat(LARGE / LARGE_PERIOD)
}

impl Running {
    /// TLS and HTTP/3.
    pub(crate) fn tls(change: impl FnOnce(&mut Options)) -> Self {
        Self::tls_of(Site::new(), change)
    }

    /// A server as by [`tls`](Self::tls), of a site that has its files already.
    pub(crate) fn tls_of(site: Site, change: impl FnOnce(&mut Options)) -> Self {
        let identity = site.leaf().identity().unwrap();
        Self::start(site, Security::tls(identity), change)
    }

    /// `--h2c`.
    pub(crate) fn clear(change: impl FnOnce(&mut Options)) -> Self {
        Self::start(Site::new(), Security::ClearText, change)
    }

    /// `--behind-tls-proxy`.
    pub(crate) fn behind_tls_proxy() -> Self {
        Self::start(Site::new(), Security::BehindTlsProxy, |_| {})
    }

    fn start(site: Site, security: Security, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = site.options(security);
        change(&mut options);
        Self::run(site, &options).unwrap()
    }

    /// A program with a runtime of its own, in which a server runs over TLS and HTTP/3.
    pub(crate) fn embedded(
        runtime: Runtime,
        serve: impl FnOnce(Options) -> Serve + Send + 'static,
    ) -> Self {
        let site = Site::new();
        let identity = site.leaf().identity().unwrap();
        let options = site.options(Security::tls(identity));
        Self::program(site, options, runtime, serve)
    }

    /// The same in clear text.
    pub(crate) fn embedded_clear(
        runtime: Runtime,
        serve: impl FnOnce(Options) -> Serve + Send + 'static,
    ) -> Self {
        let site = Site::new();
        let options = site.options(Security::ClearText);
        Self::program(site, options, runtime, serve)
    }

    fn program(
        site: Site,
        options: Options,
        runtime: Runtime,
        serve: impl FnOnce(Options) -> Serve + Send + 'static,
    ) -> Self {
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let (tell, told) = std::sync::mpsc::channel();
        let program = async move {
            let serve = serve(options);
            let serve = serve.with_graceful_shutdown(async move { stopped.notified().await });
            let handles = (serve.local_addr(), serve.reload_handle(), serve.monitor());
            tell.send(handles).unwrap();
            serve.await
        };
        let thread = std::thread::spawn(move || runtime.block_on(program));
        let (address, reload, monitor) = told.recv().unwrap();
        Self {
            address: address.unwrap(),
            further: Vec::new(),
            site,
            reload: reload.ok(),
            monitor: monitor.ok(),
            stop: Box::new(move || stop.notify_one()),
            thread: Some(thread),
        }
    }

    fn run(site: Site, options: &Options) -> Result<Self, altway_serve::Error> {
        let server = Server::bind(options)?;
        let address = server.local_addr();
        let further = server.further_addrs().to_vec();
        let (reload, monitor) = (Some(server.reload_handle()), Some(server.monitor()));
        let (stop, signal) = stop_channel();
        let thread = Some(std::thread::spawn(move || server.run(&signal)));
        Ok(Self {
            address,
            further,
            site,
            reload,
            monitor,
            stop: Box::new(move || stop.stop()),
            thread,
        })
    }

    /// Another server for the same port, with the same certificates.
    pub(crate) fn next(
        &self,
        change: impl FnOnce(&mut Options),
    ) -> Result<Self, altway_serve::Error> {
        self.next_of(self.site.next(), change)
    }

    /// A server as by [`next`](Self::next), of a site that has its files already.
    pub(crate) fn next_of(
        &self,
        site: Site,
        change: impl FnOnce(&mut Options),
    ) -> Result<Self, altway_serve::Error> {
        let identity = site.leaf().identity()?;
        let mut options = site.options(Security::tls(identity));
        options.port = self.address.port();
        change(&mut options);
        Self::run(site, &options)
    }

    /// Has new handshakes use another certificate.
    pub(crate) fn replace(&self, identity: Identity) {
        self.reload.as_ref().unwrap().replace_certificates(identity);
    }

    /// Looks at the server.
    pub(crate) fn monitor(&self) -> &Monitor {
        self.monitor.as_ref().unwrap()
    }

    /// Has new handshakes use these certificates.
    pub(crate) fn replace_certificates(&self, certificates: Certificates) {
        let reload = self.reload.as_ref().unwrap();
        reload.replace_certificates(certificates);
    }

    /// Has new session tickets encrypted by the first of these keys.
    pub(crate) fn replace_ticket_keys(&self, keys: TicketKeys) {
        self.reload.as_ref().unwrap().replace_ticket_keys(keys);
    }

    /// Has new requests answered by that site.
    pub(crate) fn replace_site(
        &self,
        site: &altway_serve::Site,
    ) -> Result<(), altway_serve::Error> {
        self.reload.as_ref().unwrap().replace_site(site)
    }

    /// Has these names decided for separately.
    pub(crate) fn replace_hosts(&self, hosts: &[altway_serve::HostPolicy]) {
        self.reload.as_ref().unwrap().replace_hosts(hosts).unwrap();
    }

    pub(crate) fn ask_to_stop(&self) {
        (self.stop)();
    }

    /// Waits for the end of the server.
    pub(crate) fn join(mut self) -> Result<(), altway_serve::Error> {
        self.thread.take().unwrap().join().unwrap()
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    pub(crate) async fn connect_tls(
        &self,
        alpn: &[&[u8]],
    ) -> tokio_rustls::client::TlsStream<TcpStream> {
        self.connect_with(Arc::new(self.site.client_tls(alpn)))
            .await
    }

    pub(crate) async fn connect_with(
        &self,
        tls: Arc<ClientConfig>,
    ) -> tokio_rustls::client::TlsStream<TcpStream> {
        let connector = TlsConnector::from(tls);
        let name = ServerName::try_from("localhost").unwrap();
        connector.connect(name, self.connect().await).await.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        (self.stop)();
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            if !std::thread::panicking() {
                result.unwrap().unwrap();
            }
        }
    }
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for T {}

/// Content that a request carries.
pub(crate) trait Content:
    Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static
{
}
impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static> Content for B {}

pub(crate) type H2 = conn::http2::SendRequest<Empty<Bytes>>;

/// A client of HTTP/1.1 whose connection is kept.
pub(crate) struct H1<B>(conn::http1::SendRequest<B>);

impl<B: Content> H1<B> {
    /// Sends a request once the connection is free: hyper refuses one until it has seen that the response before is over.
    pub(crate) async fn send_request(
        &mut self,
        request: Request<B>,
    ) -> hyper::Result<Response<Incoming>> {
        self.0.ready().await?;
        self.0.send_request(request).await
    }
}

impl<B> Deref for H1<B> {
    type Target = conn::http1::SendRequest<B>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<B> DerefMut for H1<B> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

pub(crate) async fn h1<B: Content>(stream: impl Stream) -> H1<B> {
    let (client, connection) = conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    H1(client)
}

pub(crate) async fn h2<B: Content + Unpin>(stream: impl Stream) -> conn::http2::SendRequest<B> {
    let io = TokioIo::new(stream);
    let handshake = conn::http2::handshake(TokioExecutor::new(), io).await;
    let (client, connection) = handshake.unwrap();
    tokio::spawn(connection);
    client
}

pub(crate) fn get(path: &str) -> Request<Empty<Bytes>> {
    get_over(true, path)
}

/// A request whose scheme is that of the connection: TLS or clear text.
pub(crate) fn get_over(tls: bool, path: &str) -> Request<Empty<Bytes>> {
    let scheme = if tls { "https" } else { "http" };
    Request::get(format!("{scheme}://localhost{path}"))
        .header("host", "localhost")
        .body(Empty::new())
        .unwrap()
}

pub(crate) async fn read(response: Response<Incoming>) -> Vec<u8> {
    response
        .into_body()
        .collect()
        .await
        .unwrap()
        .to_bytes()
        .to_vec()
}

pub(crate) fn alt_svc<B>(response: &Response<B>) -> Option<&str> {
    let value = response.headers().get("alt-svc")?;
    Some(value.to_str().unwrap())
}

/// Time after which a test takes what it waits for as not coming: long, because a machine at full load takes long and
/// only a test that fails waits for it, but below the server's usual time-out of a silent connection, a minute, so that
/// what nothing but a time-out brings counts as not coming.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(50);

/// No test may hang.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIME_LIMIT, future)
        .await
        .expect("within the time limit")
}

/// Says, where a person who reads the tests' output sees it, that nothing was tested and why.
pub(crate) fn skipped(reason: &str) {
    // Past the test harness, which would keep what `eprintln!` says to itself.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}
