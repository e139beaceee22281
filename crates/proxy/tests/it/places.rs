//! Servers behind Unix sockets, and servers that are told their clients by the PROXY protocol.

use crate::common::{Client, Connection, TIME_LIMIT, VERSIONS, origin, proxy, to};
use altway_upstream::{Address, Check, Protocol};
use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn unix(path: &Path, protocol: Protocol) -> altway_upstream::Options {
    let server = altway_upstream::Server {
        address: Address::Unix(path.to_owned()),
        protocol,
        tls: None,
    };
    altway_upstream::Options::new(vec![server])
}

#[tokio::test]
async fn a_server_behind_a_unix_socket_is_reached_over_http1() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while stream.read_exact(&mut byte).is_ok() {
                    head.push(byte[0]);
                    if head.ends_with(b"\r\n\r\n") {
                        head.clear();
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere";
                        stream.write_all(answer).unwrap();
                    }
                }
            });
        }
    });
    let running = proxy(unix(&path, Protocol::Http1));
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        for _ in 0..3 {
            let response = client.ask(Request::get("/"), "").await;
            let found = (response.status().as_u16(), response.into_body());
            assert_eq!(found, (200, "here".to_owned()), "{version:?}");
        }
    }
}

#[tokio::test]
async fn a_server_behind_a_unix_socket_is_reached_over_http2() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = service_fn(async |request: Request<hyper::body::Incoming>| {
                let text = format!("{:?} {}", request.version(), request.uri());
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(text)))
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), answer));
        }
    });
    let running = proxy(unix(&path, Protocol::Http2));
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        let response = client.ask(Request::get("/x"), "").await;
        assert_eq!(response.body(), "HTTP/2.0 http://a.test/x", "{version:?}");
    }
}

#[tokio::test]
async fn a_socket_that_is_not_there_is_answered_502_until_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.sock");
    let running = proxy(unix(&path, Protocol::Http1));
    let mut client = Client::new(running.address, Version::HTTP_2).await;
    assert_eq!(client.ask(Request::get("/"), "").await.status(), 502);
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut some = [0; 1_024];
        let _ = stream.read(&mut some).unwrap();
        stream
            .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
            .unwrap();
    });
    assert_eq!(client.ask(Request::get("/"), "").await.status(), 204);
}

/// Reads a header of the PROXY protocol, version 2: the ends of the client's connection as text, or `LOCAL`.
fn introduced(connection: &mut Connection) -> String {
    let fixed = connection.read(16);
    assert_eq!(fixed[..12], *b"\r\n\r\n\0\r\nQUIT\n");
    let len = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let rest = connection.read(len);
    match (fixed[12], fixed[13]) {
        (0x20, _) => "LOCAL".into(),
        (0x21, 0x11) => {
            let port = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
            let ip = |at: usize| std::net::Ipv4Addr::from(*rest[at..].first_chunk::<4>().unwrap());
            format!("{}:{}>{}:{}", ip(0), port(8), ip(4), port(10))
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_request_has_a_connection_that_names_its_client() {
    let address = origin(|mut connection| {
        let client = introduced(&mut connection);
        let mut requests = 0;
        while connection.head().is_some() {
            requests += 1;
            connection.ok(&format!("{client} {requests}"));
        }
    });
    let mut options = to(address);
    options.send_proxy_protocol = true;
    let running = proxy(options);
    let mut seen = Vec::new();
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        for _ in 0..3 {
            let response = client.ask(Request::get("/"), "").await;
            assert_eq!(response.status(), 200, "{version:?}");
            let (client, requests) = response.body().split_once(' ').unwrap();
            let (client, reached) = client.split_once('>').unwrap();
            assert!(client.starts_with("127.0.0.1:"), "{client}");
            assert_eq!(reached, running.address.to_string());
            assert_eq!(requests, "1", "{version:?}");
            seen.push(client.to_owned());
        }
    }
    // Three from one connection, three from the other.
    assert!(seen[0] == seen[2] && seen[3] == seen[5], "{seen:?}");
    assert_ne!(seen[0], seen[3]);
}

#[tokio::test]
async fn a_health_check_speaks_for_itself() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let address = origin(move |mut connection| {
        let who = introduced(&mut connection);
        if let Some(head) = connection.head() {
            telling.lock().unwrap().push((who, head[0].clone()));
            connection.ok("well");
        }
    });
    let mut options = to(address);
    options.send_proxy_protocol = true;
    options.check = Some(Check {
        path: "/healthz".into(),
        every: Duration::from_millis(100),
    });
    let running = proxy(options);
    let mut client = Client::new(running.address, Version::HTTP_11).await;
    assert_eq!(client.ask(Request::get("/"), "").await.status(), 200);
    let asked = async {
        while !told.lock().unwrap().iter().any(|(who, _)| who == "LOCAL") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIME_LIMIT, asked).await.unwrap();
    for (who, line) in told.lock().unwrap().iter() {
        assert_eq!(who == "LOCAL", line.starts_with("get /healthz "), "{line}");
    }
}
