//! Connections that a proxy passes on, and says whose they are.

use crate::common::{Running, alt_svc, get, get_over, h1, h2, read, soon};
use altway_serve::{Options, Peer, Policy, RequestBody, Site};
use http::{Request, Response};
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

/// A header for a client over IPv4, by hand.
fn header(client: [u8; 4], port: u16) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend(client);
    header.extend([127, 0, 0, 1, high, low, 0x01, 0xbb]);
    header
}

/// A service that says who asks; proxies are at 127.0.0.1.
fn options(options: &mut Options) {
    options.threads = NonZeroUsize::MIN;
    options.policy = Policy::FixedH3;
    options.proxy_protocol_from = vec!["127.0.0.1/32".parse().unwrap()];
    options.limits.handshake_timeout = Duration::from_millis(500);
    options.site = Site::service(tower::service_fn(|request: Request<RequestBody>| {
        let peer = request.extensions().get::<Peer>().unwrap().address;
        std::future::ready(Ok::<_, Infallible>(Response::new(peer.to_string())))
    }));
}

async fn connect(server: &Running, first: &[u8]) -> TcpStream {
    let mut stream = server.connect().await;
    stream.write_all(first).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_a_proxy_names_is_the_peer_over_tls_and_in_clear_text() {
    let server = Running::tls(options);
    let from = header([192, 0, 2, 7], 50_001);
    let tls = std::sync::Arc::new(server.site.client_tls(&[b"h2"]));
    let stream = connect(&server, &from).await;
    let name = "localhost".try_into().unwrap();
    let session = soon(TlsConnector::from(tls).connect(name, stream))
        .await
        .unwrap();
    let mut over_h2 = h2(session).await;
    let response = soon(over_h2.send_request(get("/"))).await.unwrap();
    assert!(alt_svc(&response).is_some());
    assert_eq!(soon(read(response)).await, b"192.0.2.7:50001");
    let known = server.monitor().metrics().known_clients;
    assert_eq!(known, 1, "selection knows the client");

    let plain = Running::clear(options);
    // With the first byte of what follows in the same segment, and cut in two.
    for cut in [0, 1, 13, from.len()] {
        let mut stream = connect(&plain, &from[..cut]).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        stream.write_all(&from[cut..]).await.unwrap();
        let mut over_h1 = h1(stream).await;
        let response = soon(over_h1.send_request(get_over(false, "/")))
            .await
            .unwrap();
        assert_eq!(soon(read(response)).await, b"192.0.2.7:50001");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_without_a_header_is_not_answered_and_is_counted() {
    let server = Running::clear(options);
    let mut version = header([192, 0, 2, 7], 1);
    version[12] = 0x31;
    let mut long = header([192, 0, 2, 7], 1);
    long[14] = 0xff;
    for bytes in [
        &b"PROXY TCP4 192.0.2.7 127.0.0.1 50001 443\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        &version,
        &long,
        // Never whole, and never begun: until the handshake's time is over.
        &header([192, 0, 2, 7], 1)[..20],
        b"",
    ] {
        let mut stream = connect(&server, bytes).await;
        let mut answer = Vec::new();
        let _ = soon(stream.read_to_end(&mut answer)).await;
        assert_eq!(answer, b"", "{bytes:?}");
    }
    let incidents = server.monitor().metrics().incidents;
    assert_eq!(incidents, [("no PROXY header", 6)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_else_can_name_another_client() {
    let server = Running::clear(options);
    let connect = async |first: &[u8]| {
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind((Ipv4Addr::new(127, 0, 0, 2), 0).into())
            .unwrap();
        let mut stream = socket.connect(server.address).await.unwrap();
        stream.write_all(first).await.unwrap();
        stream
    };
    let mut over_h1 = h1(connect(b"").await).await;
    let response = soon(over_h1.send_request(get_over(false, "/")))
        .await
        .unwrap();
    assert!(soon(read(response)).await.starts_with(b"127.0.0.2:"));
    let mut stream = connect(&header([192, 0, 2, 7], 1)).await;
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = soon(stream.read_to_end(&mut answer)).await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(!text.contains("192.0.2.7"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_are_those_of_the_client_that_is_named() {
    let server = Running::clear(|it| {
        options(it);
        it.limits.requests_per_prefix = Some("1/h, burst 2".parse().unwrap());
    });
    let ask = async |last: u8| {
        let mut client = h1(connect(&server, &header([192, 0, 2, last], 1)).await).await;
        let response = soon(client.send_request(get_over(false, "/"))).await;
        response.unwrap().status().as_u16()
    };
    for expected in [200, 200, 429] {
        assert_eq!(ask(1).await, expected);
    }
    assert_eq!(ask(2).await, 200);
    // A proxy that looks whether the server is well speaks for itself.
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    let mut client = h1(connect(&server, local).await).await;
    let response = soon(client.send_request(get_over(false, "/")))
        .await
        .unwrap();
    assert!(soon(read(response)).await.starts_with(b"127.0.0.1:"));
}
