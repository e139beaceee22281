//! Further addresses: the way from clear text to TLS, sites in clear text, other protocols, other ports.

use crate::common::h3::H3;
use crate::common::{H2, Running, alt_svc, free_port, get, get_over, h1, h2, large, read, soon};
use altway_serve::{Bind, FilesOptions, HeaderRule, Listener, ListenerKind, Options, Policy, Site};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

fn listener(kind: ListenerKind) -> Listener {
    Listener::new(kind, Bind::Address(Ipv4Addr::LOCALHOST.into()), 0)
}

/// HTTP/3 for everybody, and these listeners.
fn start(kinds: &[ListenerKind], change: impl FnOnce(&mut Options)) -> Running {
    Running::tls(|options| {
        options.policy = Policy::FixedH3;
        options.listeners = kinds.iter().map(|kind| listener(*kind)).collect();
        change(options);
    })
}

async fn ask(address: SocketAddr, method: Method, path: &str) -> Response<Incoming> {
    let mut client = h1(TcpStream::connect(address).await.unwrap()).await;
    let request = Request::builder().method(method).uri(path);
    let request = request.header("host", "localhost:80");
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    soon(client.send_request(request)).await.unwrap()
}

fn location<B>(response: &Response<B>) -> &str {
    response.headers()["location"].to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_in_clear_text_leads_to_tls_and_leaves_challenges_to_the_site() {
    let server = start(&[ListenerKind::Redirect], |_| {});
    let folder = server.site.folder().join(".well-known/acme-challenge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("token"), "answer").unwrap();
    let (plain, port) = (server.further[0], server.address.port());
    for (method, status) in [
        (Method::GET, 301),
        (Method::HEAD, 301),
        (Method::POST, 308),
        (Method::DELETE, 308),
    ] {
        let response = ask(plain, method.clone(), "/a%20b?q=1").await;
        assert_eq!(response.status(), status, "{method}");
        let expected = format!("https://localhost:{port}/a%20b?q=1");
        assert_eq!(location(&response), expected, "{method}");
        assert_eq!(alt_svc(&response), None);
    }
    let response = ask(plain, Method::GET, "/.well-known/acme-challenge/token").await;
    assert_eq!(soon(read(response)).await, b"answer");
    let response = ask(plain, Method::GET, "/.well-known/acme-challenge/none").await;
    assert_eq!(response.status(), 404);
    // HTTP/2 by prior knowledge as well.
    let mut over_h2: H2 = h2(TcpStream::connect(plain).await.unwrap()).await;
    let response = soon(over_h2.send_request(get_over(false, "/")))
        .await
        .unwrap();
    assert_eq!(response.status(), 301);
    assert_eq!(location(&response), format!("https://localhost:{port}/"));
    let metrics = server.monitor().metrics();
    assert_eq!(metrics.incidents, [], "nobody was refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_port_that_clients_see_is_offered_and_led_to() {
    let server = start(&[ListenerKind::Redirect], |options| {
        options.alt_svc_port = Some(443);
    });
    let mut over_tls = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let response = soon(over_tls.send_request(get("/"))).await.unwrap();
    assert_eq!(alt_svc(&response), Some("h3=\":443\"; ma=2592000"));
    let response = ask(server.further[0], Method::GET, "/").await;
    assert_eq!(location(&response), "https://localhost/");
}

/// RFC 6797 section 7.2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_transport_security_is_not_said_in_clear_text() {
    const NAME: &str = "strict-transport-security";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "a").unwrap();
    let kinds = [ListenerKind::ClearText, ListenerKind::BehindTlsProxy];
    let server = start(&kinds, |options| {
        let mut files = FilesOptions::default();
        let rule = HeaderRule::always(NAME, "max-age=31536000").unwrap();
        files.headers.push(rule);
        options.site = Site::files_with(folder.path(), files);
    });
    let mut over_tls = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    // From the disk, from memory, and what is not there.
    for path in ["/a.txt", "/a.txt", "/a.txt", "/none"] {
        let secure = soon(over_tls.send_request(get(path))).await.unwrap();
        assert!(secure.headers().contains_key(NAME), "{path}");
        soon(read(secure)).await;
        let plain = ask(server.further[0], Method::GET, path).await;
        assert!(!plain.headers().contains_key(NAME), "{path}");
        assert_eq!(alt_svc(&plain), None);
        let stream = TcpStream::connect(server.further[0]).await.unwrap();
        let mut over_h2: H2 = h2(stream).await;
        for _ in 0..2 {
            let plain = soon(over_h2.send_request(get_over(false, path)))
                .await
                .unwrap();
            assert!(!plain.headers().contains_key(NAME), "{path}");
            soon(read(plain)).await;
        }
        let behind = ask(server.further[1], Method::GET, path).await;
        assert!(behind.headers().contains_key(NAME), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_gives_its_own_protocols() {
    let server = start(&[], |options| {
        let mut h1 = listener(ListenerKind::Tls);
        (h1.protocols.http2, h1.protocols.http3) = (false, false);
        options.listeners = vec![h1, listener(ListenerKind::Tls)];
    });
    let connect = async |at: usize, alpn: &[&[u8]]| {
        let tls = TlsConnector::from(std::sync::Arc::new(server.site.client_tls(alpn)));
        let stream = TcpStream::connect(server.further[at]).await.unwrap();
        soon(tls.connect("localhost".try_into().unwrap(), stream)).await
    };
    assert!(connect(0, &[b"h2"]).await.is_err(), "refused by ALPN");
    let mut only_h1 = h1(connect(0, &[b"http/1.1"]).await.unwrap()).await;
    let response = soon(only_h1.send_request(get("/"))).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), alt_svc(&response)),
        (200, None)
    );
    let mut all: H2 = h2(connect(1, &[b"h2"]).await.unwrap()).await;
    let response = soon(all.send_request(get("/"))).await.unwrap();
    let offer = format!("h3=\":{}\"; ma=2592000", server.further[1].port());
    assert_eq!(alt_svc(&response), Some(offer.as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_takes_over_may_listen_at_other_further_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("takeover");
    let takeover = |options: &mut Options| {
        options.takeover = Some(path.clone());
        options.shutdown_grace = Duration::from_secs(60);
    };
    let first = start(&[ListenerKind::Redirect, ListenerKind::Tls], takeover);
    let (former, kept) = (first.further[0], first.further[1]);
    let mut client = H3::connect_to(kept, first.site.client_tls(&[]));
    let stream = client.send("/large");
    client.head(stream);

    // One stays, at another place among them; one goes; one is new.
    let second = first.next(|options| {
        takeover(options);
        options.listeners = [ListenerKind::Tls, ListenerKind::ClearText]
            .map(listener)
            .to_vec();
        options.listeners[0].port = kept.port();
        options.listeners[1].port = free_port();
    });
    let second = second.unwrap();
    second.site.write("name", "second");
    assert_eq!((second.further.len(), second.further[0]), (2, kept));
    let (_, name) = H3::connect_to(kept, second.site.client_tls(&[])).get("/name");
    assert_eq!(name, b"second");
    let response = ask(second.further[1], Method::GET, "/name").await;
    assert_eq!(read(response).await, b"second");
    assert!(client.body(stream) == large(), "what the first began");
    drop(client);
    first.join().unwrap();
    let refused = TcpStream::connect(former).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    // HTTP/3 at an address that had none, and none where it was.
    let third = second.next(|options| {
        takeover(options);
        options.listeners = vec![
            listener(ListenerKind::ClearText),
            listener(ListenerKind::Tls),
        ];
        options.listeners[0].port = kept.port();
        options.listeners[1].port = second.further[1].port();
    });
    let third = third.unwrap();
    third.site.write("name", "third");
    let (_, name) = H3::connect_to(third.further[1], third.site.client_tls(&[])).get("/name");
    assert_eq!(name, b"third");
    assert_eq!(read(ask(kept, Method::GET, "/name").await).await, b"third");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_address_gives_http3_and_offers_it_at_the_port_that_its_clients_came_by() {
    let server = start(&[ListenerKind::Tls, ListenerKind::Tls], |options| {
        options.listeners[1].alt_svc_port = Some(443);
    });
    server.site.write("a.txt", "a");
    let ports = [server.address.port(), server.further[0].port(), 443];
    let addresses = [server.address, server.further[0], server.further[1]];
    // A file from the disk, and from memory with fields that were made for another address's client.
    for _ in 0..3 {
        for (address, port) in addresses.into_iter().zip(ports) {
            let expected = format!("h3=\":{port}\"; ma=2592000");
            let connect = async |alpn: &[u8]| {
                let tls = std::sync::Arc::new(server.site.client_tls(&[alpn]));
                let stream = TcpStream::connect(address).await.unwrap();
                let name = "localhost".try_into().unwrap();
                soon(TlsConnector::from(tls).connect(name, stream))
                    .await
                    .unwrap()
            };
            let mut over_h1 = h1(connect(b"http/1.1").await).await;
            let mut over_h2: H2 = h2(connect(b"h2").await).await;
            let mut over_h3 = H3::connect_to(address, server.site.client_tls(&[]));
            for path in ["/a.txt", "/none"] {
                let response = soon(over_h1.send_request(get(path))).await.unwrap();
                assert_eq!(alt_svc(&response), Some(&*expected), "{path}");
                soon(read(response)).await;
                let response = soon(over_h2.send_request(get(path))).await.unwrap();
                assert_eq!(alt_svc(&response), Some(&*expected), "{path}");
                soon(read(response)).await;
                let (response, _) = over_h3.get(path);
                assert_eq!(alt_svc(&response), Some(&*expected), "{path}");
            }
        }
    }
}

#[test]
fn http3_at_each_address_goes_on_while_another_process_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("takeover");
    let first = start(&[ListenerKind::Tls], |options| {
        options.takeover = Some(path.clone());
    });
    first.site.write("name", "first");
    let connect = |server: &Running, address| H3::connect_to(address, server.site.client_tls(&[]));
    let mut before: Vec<_> = [first.address, first.further[0]]
        .into_iter()
        .map(|address| {
            let mut client = connect(&first, address);
            let stream = client.send("/large");
            client.head(stream);
            (client, stream)
        })
        .collect();
    let second = first.next(|options| {
        options.takeover = Some(path.clone());
        options.listeners = vec![listener(ListenerKind::Tls)];
        options.listeners[0].port = first.further[0].port();
    });
    let second = second.unwrap();
    second.site.write("name", "second");
    for address in [second.address, second.further[0]] {
        let (_, name) = connect(&second, address).get("/name");
        assert_eq!(name, b"second");
    }
    for (client, stream) in &mut before {
        client.move_away();
        assert!(client.body(*stream) == large());
    }
}

/// Everything that the server answers to these bytes, on a connection of their own.
async fn answer_to(server: &Running, bytes: &[u8]) -> Vec<u8> {
    let mut stream = server.connect().await;
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    soon(stream.read_to_end(&mut answer)).await.unwrap();
    answer
}

#[tokio::test]
async fn http_in_clear_text_where_tls_is_spoken_is_told_of_https() {
    let server = Running::tls(|_| {});
    for request in [
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\n",
    ] {
        let answer = answer_to(&server, request.as_bytes()).await;
        let answer = String::from_utf8(answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
            "{answer}"
        );
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
        assert!(
            answer.ends_with("begin the URL with https://\n"),
            "{answer}"
        );
    }
    // An alert: what begins otherwise is no HTTP.
    assert_eq!(answer_to(&server, b"get / HTTP/1.1\r\n\r\n").await[0], 21);
    let mut client: H2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let response = soon(client.send_request(get("/"))).await.unwrap();
    assert_ne!(response.status(), 400);
}
