//! Several sites of one server: told apart by name and path, each with its certificate, and replaced while
//! connections go on.

use crate::common::h3::H3;
use crate::common::websocket::ALL;
use crate::common::{Running, alt_svc, h1, h2, read, soon};
use altway_serve::ws::{WebSocket, WebSocketUpgrade};
use altway_serve::{
    Certificates, Dispatch, Error, Files, HostPolicy, Protocols, Security, Site, certs,
};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Request};
use http_body_util::Empty;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::Message;

/// The first two sites have these names, the third all that lies below `/app/`.
#[derive(Debug)]
struct ByName([&'static str; 2]);

const A_AND_B: ByName = ByName(["a.test", "b.test"]);

impl Dispatch for ByName {
    fn host(&self, authority: &[u8]) -> Option<usize> {
        let name = authority.split(|byte| *byte == b':').next();
        self.0.iter().position(|it| Some(it.as_bytes()) == name)
    }

    fn dispatch(&self, host: Option<usize>, path: &[u8]) -> Option<usize> {
        match path.starts_with(b"/app/") {
            true => Some(2),
            false => host,
        }
    }
}

/// Folders with an `index.html`, a large file and a folder `app`, each with its name in it.
fn folders() -> [tempfile::TempDir; 2] {
    ["a", "b"].map(|name| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("app")).unwrap();
        for file in ["index.html", "app/x.txt"] {
            std::fs::write(dir.path().join(file), format!("{file} of {name}")).unwrap();
        }
        dir
    })
}

fn app() -> Site {
    Site::service(axum::Router::new().fallback(async || "the application"))
}

fn sites(folders: &[tempfile::TempDir; 2]) -> Site {
    let [a, b] = folders.each_ref().map(|dir| Site::files(dir.path()));
    Site::dispatched(A_AND_B, vec![a, b, app()])
}

fn get(authority: &str, path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("https://{authority}{path}"))
        .header("host", authority)
        .body(Empty::new())
        .unwrap()
}

/// The same request twice on one connection of each protocol: by look-up, and from memory.
async fn ask(server: &Running, authority: &str, path: &str) -> (u16, String) {
    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let mut over_h3 = H3::connect(server);
    let mut answers = Vec::new();
    for _ in 0..2 {
        soon(over_h1.ready()).await.unwrap();
        for response in [
            soon(over_h1.send_request(get(authority, path))).await,
            soon(over_h2.send_request(get(authority, path))).await,
        ] {
            let response = response.unwrap();
            answers.push((response.status().as_u16(), soon(read(response)).await));
        }
        let (_, head, body) = over_h3.ask(get(authority, path).map(|_| Bytes::new()));
        answers.push((head.status().as_u16(), body));
    }
    let first = answers[0].clone();
    assert!(answers.iter().all(|answer| *answer == first), "{answers:?}");
    (first.0, String::from_utf8(first.1).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sites_are_told_apart_by_name_and_path_over_every_protocol() {
    let folders = folders();
    let server = Running::tls(|options| options.site = sites(&folders));
    for (authority, path, expected) in [
        ("a.test", "/", "index.html of a"),
        ("b.test:8443", "/", "index.html of b"),
        ("a.test", "/app/x.txt", "the application"),
        ("b.test", "/%61pp/x.txt", "the application"),
        ("b.test", "//app//x.txt", "the application"),
    ] {
        let answer = ask(&server, authority, path).await;
        assert_eq!(answer, (200, expected.into()), "{authority}{path}");
    }
    for (authority, path, status) in [
        ("c.test", "/", 404),
        ("a.test", "/%2e%2e/app/", 400),
        ("a.test", "/none", 404),
    ] {
        let answer = ask(&server, authority, path).await;
        assert_eq!(answer.0, status, "{authority}{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_site_answers_the_next_request_of_connections_that_are_there() {
    let folders = folders();
    let server = Running::tls(|options| options.site = Site::files(folders[0].path()));
    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let mut over_h3 = H3::connect(&server);
    for (site, expected) in [
        (None, "index.html of a"),
        (Some(Site::files(folders[1].path())), "index.html of b"),
        (Some(app()), "the application"),
        (Some(sites(&folders)), "index.html of a"),
    ] {
        if let Some(site) = site {
            server.replace_site(&site).unwrap();
        }
        for round in 0..2 {
            let request = || get("a.test", "/");
            let one = soon(over_h1.send_request(request())).await.unwrap();
            let two = soon(over_h2.send_request(request())).await.unwrap();
            assert_eq!(soon(read(one)).await, expected.as_bytes(), "{round}");
            assert_eq!(soon(read(two)).await, expected.as_bytes(), "{round}");
            let (_, _, body) = over_h3.ask(request().map(|_| Bytes::new()));
            assert_eq!(body, expected.as_bytes(), "{round}");
        }
    }
}

/// Hosts in turn on one connection, and other sites between two requests for the same host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_goes_to_the_site_of_its_own_host_whatever_its_connection_has_asked_for() {
    let folders = folders();
    let server = Running::tls(|options| options.site = sites(&folders));
    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let mut over_h3 = H3::connect(&server);
    let long = format!("{}.test", "a".repeat(300));
    let [a, b] = ["index.html of a", "index.html of b"];
    let [first, second] = folders.each_ref().map(|dir| Site::files(dir.path()));
    let exchanged = ByName(["b.test", "a.test"]);
    let exchanged = Site::dispatched(exchanged, vec![first, second, app()]);
    for (site, [of_a, of_b]) in [(None, [a, b]), (Some(exchanged), [b, a])] {
        if let Some(site) = site {
            server.replace_site(&site).unwrap();
        }
        for (authority, path, expected) in [
            ("a.test", "/", Some(of_a)),
            ("b.test", "/", Some(of_b)),
            ("b.test:8443", "/", Some(of_b)),
            ("b.test", "/app/", Some("the application")),
            (&long, "/", None),
            ("c.test", "/", None),
            ("a.test", "/", Some(of_a)),
        ] {
            soon(over_h1.ready()).await.unwrap();
            let one = soon(over_h1.send_request(get(authority, path))).await;
            let two = soon(over_h2.send_request(get(authority, path))).await;
            let (_, head, body) = over_h3.ask(get(authority, path).map(|_| Bytes::new()));
            let mut answers = vec![(head.status(), body)];
            for response in [one.unwrap(), two.unwrap()] {
                answers.push((response.status(), soon(read(response)).await));
            }
            for (status, body) in answers {
                assert_eq!(status == 200, expected.is_some(), "{authority}{path}");
                let is_expected = expected.is_none_or(|text| body == text.as_bytes());
                assert!(is_expected, "{authority}{path}: {body:?}");
            }
        }
    }
}

/// `/ws` sends back what it is sent.
fn echo() -> Site {
    let echo = async |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async |mut socket: WebSocket| {
            while let Some(Ok(message)) = socket.recv().await {
                let _ = socket.send(message).await;
            }
        })
    };
    Site::service(axum::Router::new().route("/ws", axum::routing::any(echo)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_a_reload_adds_has_websockets_over_every_protocol_and_files_refuse_them() {
    let folders = folders();
    let server = Running::tls(|options| options.site = Site::files(folders[0].path()));
    for over in ALL {
        let refused = soon(over.open(&server, "/ws", HeaderMap::new())).await;
        let status = refused.head.status().as_u16();
        assert!(matches!(status, 404 | 405), "{over:?}: {status}");
    }
    server.replace_site(&echo()).unwrap();
    for over in ALL {
        let (mut socket, _gone) = over.connect(&server, "/ws").await;
        soon(socket.send(Message::text("hello"))).await.unwrap();
        let answer = soon(socket.next()).await.unwrap().unwrap();
        assert_eq!(answer, Message::text("hello"), "{over:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_cannot_be_served_changes_nothing() {
    let folders = folders();
    let server = Running::tls(|options| options.site = sites(&folders));
    let missing = server.replace_site(&Site::files("/nowhere/at/all"));
    assert!(matches!(missing, Err(Error::Root { .. })), "{missing:?}");
    let nested = Site::dispatched(A_AND_B, vec![sites(&folders)]);
    let nested = server.replace_site(&nested);
    assert!(matches!(nested, Err(Error::NestedDispatch)), "{nested:?}");
    let answer = ask(&server, "a.test", "/").await;
    assert_eq!(answer, (200, "index.html of a".into()));
}

/// An exchange that began before the change ends under it: a file of the former folder is sent to its
/// last byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_goes_on_when_its_site_is_replaced() {
    let folders = folders();
    let server = Running::tls(|_| {});
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    let response = soon(client.send_request(get("localhost", "/large"))).await;
    server
        .replace_site(&Site::files(folders[0].path()))
        .unwrap();
    let gone = soon(client.send_request(get("localhost", "/large"))).await;
    assert_eq!(gone.unwrap().status(), 404);
    assert!(soon(read(response.unwrap())).await == crate::common::large());
}

fn trusting(authorities: &[&Path], alpn: &[&[u8]]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let authority = CertificateDer::from_pem_file(authority).unwrap();
        roots.add(authority).unwrap();
    }
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config
}

async fn connect_as(
    name: &str,
    server: &Running,
    tls: ClientConfig,
) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let stream = server.connect().await;
    TlsConnector::from(Arc::new(tls))
        .connect(name, stream)
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_shown_the_certificate_for_the_name_that_it_asks_for() {
    let (dir, folders) = (tempfile::tempdir().unwrap(), folders());
    let store = certs::Store::open(dir.path()).unwrap();
    let other = || store.leaf(&["b.test"]).unwrap().identity().unwrap();
    let server = Running::tls(|options| {
        let Security::Tls(default) = options.security.clone() else {
            panic!("TLS");
        };
        options.security = Security::Tls(default.with(other()));
        options.site = sites(&folders);
    });
    let (own, theirs) = (server.site.authority(), store.authority());
    for (name, authority, is_shown) in [
        ("b.test", &theirs, true),
        ("b.test", &own, false),
        ("localhost", &own, true),
        ("127.0.0.1", &own, true),
    ] {
        let tls = trusting(&[authority], &[b"h2"]);
        let connected = soon(connect_as(name, &server, tls)).await;
        assert_eq!(connected.is_ok(), is_shown, "{name}");
    }
    let tls = trusting(&[&theirs], &[]);
    let mut over_h3 = H3::connect_as("b.test", server.address, tls.clone());
    let (_, _, body) = over_h3.ask(get("b.test", "/").map(|_| Bytes::new()));
    assert_eq!(body, b"index.html of b");

    server.replace_certificates(Certificates::new(other()).strict());
    let refused = soon(connect_as(
        "a.test",
        &server,
        trusting(&[&theirs], &[b"h2"]),
    ))
    .await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("alert"), "{refused}");
    H3::connect_as("b.test", server.address, tls);
}

#[test]
fn a_folder_of_several_sites_can_be_one() {
    let folders = folders();
    let files = Files::open(folders[0].path()).unwrap();
    let server = Running::tls(|options| {
        let same = vec![Site::service(files.clone()), Site::files(folders[0].path())];
        options.site = Site::dispatched(A_AND_B, same);
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ask = |name| runtime.block_on(ask(&server, name, "/"));
    assert_eq!(ask("a.test"), ask("b.test"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_have_policies_of_their_own_that_can_be_replaced() {
    let by = |name: &str, policy: &str| HostPolicy::new(name, policy.parse().unwrap());
    let server = Running::tls(|options| {
        options.policy = "h3".parse().unwrap();
        options.hosts = Some(vec![by("a.test", "h2"), by("*.b.test", "h3")]);
    });
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    let mut offers = async |authority: &str| {
        let response = soon(client.send_request(get(authority, "/"))).await;
        let response = response.unwrap();
        alt_svc(&response).map(|value| value.starts_with("h3="))
    };
    for _ in 0..2 {
        assert_eq!(offers("a.test").await, Some(false));
        assert_eq!(offers("x.b.test:8443").await, Some(true));
        assert_eq!(offers("other.test").await, Some(true));
    }
    server.replace_hosts(&[by("a.test", "h3"), by("other.test", "h2")]);
    for _ in 0..2 {
        assert_eq!(offers("other.test").await, Some(false));
        assert_eq!(offers("a.test").await, Some(true));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn protocols_that_are_not_given_are_refused() {
    for (http1, http2) in [(true, false), (false, true)] {
        let only = Protocols {
            http1,
            http2,
            http3: false,
        };
        let server = Running::tls(|options| options.protocols = only);
        let names = [
            (&b"http/1.0"[..], http1),
            (b"http/1.1", http1),
            (b"h2", http2),
        ];
        for (name, is_given) in names {
            let tls = server.site.client_tls(&[name]);
            let connected = soon(connect_as("localhost", &server, tls)).await;
            assert_eq!(connected.is_ok(), is_given, "{only:?}");
        }
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server.address).unwrap();
        socket.send(b"x").unwrap();
        let refused = socket.recv(&mut [0]).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }
    let server = Running::clear(|options| options.protocols.http1 = false);
    let mut over_h1 = h1::<Empty<Bytes>>(server.connect().await).await;
    let refused = soon(over_h1.send_request(crate::common::get_over(false, "/"))).await;
    assert!(refused.is_err());
    let mut over_h2 = h2(server.connect().await).await;
    let given = soon(over_h2.send_request(crate::common::get_over(false, "/"))).await;
    let given = given.unwrap();
    assert_eq!((given.status().as_u16(), alt_svc(&given)), (200, None));
}
