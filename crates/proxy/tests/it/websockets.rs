//! WebSockets: bytes pass in both directions once client and server have agreed.

use crate::common::{TIME_LIMIT, origin, proxy, proxy_of, proxy_with, to};
use altway_proxy::Settings;
use socket2::{SockFilter, SockRef};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const HANDSHAKE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

fn connect(address: SocketAddr) -> TcpStream {
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
        let settings = Settings {
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

const ACCEPTED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// The addresses of a socket's peers whose kernel asks them whether they are there: those with the keepalive timer. `port`: the
/// socket's own.
fn asked_from(port: u16) -> Vec<u16> {
    let port_of = |address: &str| u16::from_str_radix(address.split(':').nth(1)?, 16).ok();
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let line = |line: &str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let is_asked = columns[5].starts_with("02:");
        (is_asked && port_of(columns[1]) == Some(port)).then(|| port_of(columns[2]))?
    };
    sockets.lines().skip(1).filter_map(line).collect()
}

/// An origin that accepts WebSockets, and gives away their streams.
fn accepting() -> (SocketAddr, mpsc::Receiver<TcpStream>) {
    let (streams, accepted) = mpsc::channel();
    let address = origin(move |mut connection| {
        connection.head();
        connection.write(ACCEPTED);
        streams.send(connection.reader.into_inner()).unwrap();
    });
    (address, accepted)
}

fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < TIME_LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn port(address: std::io::Result<SocketAddr>) -> u16 {
    address.unwrap().port()
}

#[test]
fn both_peers_of_a_tunnel_are_asked_whether_they_are_there_and_no_other_client_is() {
    let (address, accepted) = accepting();
    let running = proxy(to(address));
    let idle = TcpStream::connect(running.address).unwrap();
    let mut client = connect(running.address);
    read_head(&mut client);
    let client_port = port(client.local_addr());
    let server = accepted.recv().unwrap();
    let proxy_port = port(server.peer_addr());
    soon("the server is asked", || {
        asked_from(proxy_port) == [address.port()]
    });
    soon("the client is asked", || {
        asked_from(running.address.port()) == [client_port]
    });
    drop(idle);
}

/// Has the kernel drop every segment that comes for `stream`, as if its host were gone.
fn vanish(stream: &TcpStream) {
    let drop_all = SockFilter::new(6, 0, 0, 0); // BPF_RET | BPF_K: 0 bytes are kept.
    SockRef::from(stream).attach_filter(&[drop_all]).unwrap();
}

/// Takes a minute.
#[test]
#[ignore = "waits for the time in which a peer may be silent"]
fn a_tunnel_ends_once_either_peer_has_vanished_whether_something_is_under_way_or_not() {
    let (address, accepted) = accepting();
    let running = proxy_of(to(address), Settings::default(), |options| {
        options.limits.idle_timeout = Duration::from_secs(3_600);
    });
    let tunnel = || {
        let mut client = connect(running.address);
        read_head(&mut client);
        client.set_read_timeout(Some(2 * TIME_LIMIT)).unwrap();
        let server = accepted.recv().unwrap();
        server.set_read_timeout(Some(2 * TIME_LIMIT)).unwrap();
        (client, server)
    };
    let ends = |mut stream: TcpStream| match stream.read(&mut [0]) {
        Ok(read) => assert_eq!(read, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    };
    let vanishing = [(true, true), (true, false), (false, true), (false, false)];
    let waiting = vanishing.map(|(is_server, is_silent)| {
        let (client, server) = tunnel();
        let (gone, mut there) = match is_server {
            true => (server, client),
            false => (client, server),
        };
        vanish(&gone);
        if !is_silent {
            there.write_all(b"anybody there?").unwrap();
        }
        std::thread::spawn(move || {
            let began = Instant::now();
            ends(there);
            drop(gone);
            (is_server, is_silent, began.elapsed())
        })
    });
    for waiting in waiting {
        let (is_server, is_silent, took) = waiting.join().unwrap();
        println!("server {is_server}, silent {is_silent}: {took:?}");
        assert!(took < 2 * TIME_LIMIT);
    }
}
