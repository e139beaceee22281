//! Servers behind that speak TLS: whom they are taken for, the name that they are asked for, and the certificate that
//! they ask for.

use crate::common::{Client, VERSIONS, proxy, to};
use altway_upstream::{Address, ClientCertificate, Protocol, Roots};
use http::{Request, Version};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// An authority, and a folder for the files that it writes.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
}

/// A certificate with its key.
struct Leaf {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self {
            issuer: CertifiedIssuer::self_signed(params, key).unwrap(),
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn leaf(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Leaf {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Leaf { certificate, key }
    }

    fn roots(&self) -> PathBuf {
        let path = self.dir.path().join("roots.pem");
        std::fs::write(&path, self.issuer.pem()).unwrap();
        path
    }

    fn store(&self) -> Arc<RootCertStore> {
        let mut store = RootCertStore::empty();
        store.add(self.issuer.der().clone()).unwrap();
        Arc::new(store)
    }
}

impl Leaf {
    /// Shows it to clients; with an authority it asks them for certificates of that one.
    fn server(&self, clients: Option<&Authority>) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(authority.store(), provider)
                    .build()
                    .unwrap(),
            ),
        };
        let chain = vec![CertificateDer::clone(self.certificate.der())];
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        builder.with_single_cert(chain, key).unwrap()
    }
}

/// A server that answers each connection's first request with the name that it was asked for (SNI), and whether it was
/// shown a certificate.
fn origin(config: ServerConfig) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream);
            std::thread::spawn(move || {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    // Whoever does not believe the certificate goes.
                    if stream.read_exact(&mut byte).is_err() {
                        return;
                    }
                    head.push(byte[0]);
                }
                let name = stream.conn.server_name().unwrap_or("none").to_owned();
                let is_known = stream.conn.peer_certificates().is_some();
                let body = format!("{name} {is_known}");
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", body.len());
                let answer = format!("{head}Connection: close\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            });
        }
    });
    address
}

/// A group of that server, with this name in TLS.
fn group(address: SocketAddr, name: &str, roots: PathBuf) -> altway_upstream::Options {
    let mut options = to(address);
    options.servers[0] = altway_upstream::Server {
        address: Address::Tcp(address.ip().to_string(), address.port()),
        protocol: Protocol::Http1,
        tls: Some(ServerName::try_from(name.to_owned()).unwrap()),
    };
    options.roots = Roots::File(roots);
    options
}

/// Status and content of a request through a proxy.
async fn ask(options: altway_upstream::Options) -> (u16, String) {
    let running = proxy(options);
    let mut client = Client::new(running.address, Version::HTTP_2).await;
    let response = client.ask(Request::get("/"), "").await;
    (response.status().as_u16(), response.into_body())
}

const NO_CONNECTION: (u16, &str) = (502, "502 Bad Gateway\n");

fn is(found: &(u16, String), expected: (u16, &str)) {
    assert_eq!((found.0, found.1.as_str()), expected);
}

#[tokio::test]
async fn a_server_is_taken_for_whom_its_certificate_says_by_roots_of_its_own() {
    let ours = Authority::new();
    let address = origin(ours.leaf("api.internal", |_| {}).server(None));
    let answer = ask(group(address, "api.internal", ours.roots())).await;
    is(&answer, (200, "api.internal false"));
    // Another authority, another name.
    let theirs = Authority::new();
    let answer = ask(group(address, "api.internal", theirs.roots())).await;
    is(&answer, NO_CONNECTION);
    let answer = ask(group(address, "other.internal", ours.roots())).await;
    is(&answer, NO_CONNECTION);
}

#[tokio::test]
async fn an_address_is_compared_with_the_certificate_and_not_asked_for() {
    let ours = Authority::new();
    let address = origin(ours.leaf("127.0.0.1", |_| {}).server(None));
    let answer = ask(group(address, "127.0.0.1", ours.roots())).await;
    is(&answer, (200, "none false"));
    let answer = ask(group(address, "127.0.0.2", ours.roots())).await;
    is(&answer, NO_CONNECTION);
}

#[tokio::test]
async fn a_certificate_that_is_no_longer_valid_is_no_one_s() {
    let ours = Authority::new();
    let expired = ours.leaf("api.internal", |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 2);
    });
    let address = origin(expired.server(None));
    let answer = ask(group(address, "api.internal", ours.roots())).await;
    is(&answer, NO_CONNECTION);
    let early = ours.leaf("api.internal", |params| {
        params.not_before = date_time_ymd(2200, 1, 1);
        params.not_after = date_time_ymd(2200, 1, 2);
    });
    let address = origin(early.server(None));
    let answer = ask(group(address, "api.internal", ours.roots())).await;
    is(&answer, NO_CONNECTION);
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_is_shown_ours() {
    let ours = Authority::new();
    let address = origin(ours.leaf("api.internal", |_| {}).server(Some(&ours)));
    let group = || group(address, "api.internal", ours.roots());
    // Without one it ends the connection: over TLS 1.3 after the handshake, as far as the client sees.
    let (status, _) = ask(group()).await;
    assert_eq!(status, 502);
    let client = ours.leaf("altway", |_| {});
    let chain = ours.dir.path().join("client.pem");
    std::fs::write(&chain, client.certificate.pem()).unwrap();
    let key = client.key.serialize_pem();
    let mut options = group();
    let shown = ClientCertificate::from_pem(&chain, "here", key.as_bytes()).unwrap();
    options.client_certificate = Some(shown);
    is(&ask(options).await, (200, "api.internal true"));
    let other = KeyPair::generate().unwrap().serialize_pem();
    let error = ClientCertificate::from_pem(&chain, "here", other.as_bytes()).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("cannot be used with the key in here"),
        "{said}"
    );
}

#[tokio::test]
async fn each_protocol_in_front_reaches_a_server_over_tls() {
    let ours = Authority::new();
    let address = origin(ours.leaf("localhost", |_| {}).server(None));
    let running = proxy(group(address, "localhost", ours.roots()));
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        for _ in 0..3 {
            let response = client.ask(Request::get("/"), "").await;
            assert_eq!(response.status(), 200, "{version:?}");
        }
    }
}

#[tokio::test]
async fn requests_that_wait_for_one_connection_wait_no_longer_than_for_a_connection() {
    const TIME: Duration = Duration::from_secs(1);
    let authority = Authority::new();
    // The kernel takes the connections, and nobody shakes hands.
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for (address, protocol) in [
        (tcp.local_addr().unwrap(), Protocol::Http2),
        (udp.local_addr().unwrap(), Protocol::Http3),
    ] {
        let mut options = to(address);
        options.servers[0].protocol = protocol;
        options.servers[0].tls = Some(ServerName::try_from("localhost").unwrap());
        options.roots = Roots::File(authority.roots());
        options.connect_timeout = TIME;
        options.attempts = 1;
        let running = proxy(options);
        let mut clients = Vec::new();
        for _ in 0..20 {
            clients.push(Client::new(running.address, Version::HTTP_2).await);
        }
        let began = Instant::now();
        let asked = clients
            .iter_mut()
            .map(|client| client.ask(Request::get("/"), ""));
        for response in futures_util::future::join_all(asked).await {
            assert!(response.status().is_server_error(), "{protocol:?}");
        }
        // One after the other they took twenty times as long.
        assert!(began.elapsed() < 8 * TIME, "{:?}", began.elapsed());
    }
}
