//! WebSockets: bytes pass in both directions once client and server have agreed.

use crate::common::{TIME_LIMIT, origin, proxy, proxy_with, to};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

const HANDSHAKE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

fn connect(address: std::net::SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream.write_all(HANDSHAKE.as_bytes()).unwrap();
    stream
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap().to_ascii_lowercase()
}

#[test]
fn bytes_pass_in_both_directions_until_one_end_closes() {
    let address = origin(|mut connection| {
        let head = connection.head().unwrap();
        for line in [
            "connection: upgrade",
            "upgrade: websocket",
            "sec-websocket-version: 13",
        ] {
            assert!(head.iter().any(|it| it == line), "{head:?}");
        }
        connection.write(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: chat\r\n\r\n",
        );
        // Whoever speaks first.
        connection.write("hello");
        let said = connection.read(4);
        connection.write(&format!("you said {}", String::from_utf8_lossy(&said)));
    });
    let running = proxy(to(address));
    for _ in 0..3 {
        let mut stream = connect(running.address);
        let head = read_head(&mut stream);
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        assert_eq!(
            head.matches("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=")
                .count(),
            1,
            "{head}"
        );
        assert!(head.contains("sec-websocket-protocol: chat"), "{head}");
        stream.write_all(b"ping").unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        assert_eq!(all, "helloyou said ping");
    }
}

#[test]
fn a_server_that_wants_none_is_heard() {
    let address = origin(|mut connection| {
        connection.head();
        connection.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    });
    let running = proxy(to(address));
    let mut stream = connect(running.address);
    let head = read_head(&mut stream);
    assert!(head.starts_with("http/1.1 403 "), "{head}");
    let mut body = [0; 2];
    stream.read_exact(&mut body).unwrap();
    assert_eq!(&body, b"no");
}

#[test]
fn a_server_that_answers_another_handshake_is_not_believed() {
    for accept in [
        "",
        "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n",
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n",
    ] {
        let address = origin(move |mut connection| {
            connection.head();
            connection.write(&format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{accept}\r\n"
            ));
            // The proxy has closed it.
            assert_eq!(connection.head(), None);
        });
        let statistics = std::sync::Arc::<altway_proxy::Statistics>::default();
        let settings = altway_proxy::Settings {
            statistics: std::sync::Arc::clone(&statistics),
            ..Default::default()
        };
        let running = proxy_with(to(address), settings);
        let mut stream = connect(running.address);
        let head = read_head(&mut stream);
        assert!(head.starts_with("http/1.1 502 "), "{head}");
        let refusals = statistics.summary().refusals;
        assert_eq!(refusals, [(altway_upstream::Reason::Handshake, 1)]);
    }
}
