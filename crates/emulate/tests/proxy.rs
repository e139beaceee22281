//! The proxies over the loopback interface: bytes both ways, ends, errors and bounds.
#![allow(
    clippy::unwrap_used,
    reason = "what can't fail here would be the test's own fault"
)]

use altway_emulate::Error;
use altway_emulate::proxy::{Forward, Limits, Proxy, ProxyReport};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// Time after which a test takes what it waits for as not coming.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(60);

fn forward(target: SocketAddr) -> Forward {
    format!("127.0.0.1:0:{target}").parse().unwrap()
}

fn proxy_tcp(target: SocketAddr) -> Proxy {
    Proxy::start(&[forward(target)], &[], Limits::default()).unwrap()
}

fn proxy_udp(target: SocketAddr, limits: Limits) -> Proxy {
    Proxy::start(&[], &[forward(target)], limits).unwrap()
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.tcp_addresses()[0]).unwrap();
    stream.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
    stream
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + SOCKET_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < end, "waited too long for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn is_reset(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}

#[test]
fn bytes_go_both_ways_and_are_counted() {
    let (listener, address) = listen();
    let proxy = proxy_tcp(address);
    let mut client = connect(&proxy);
    let (mut server, _) = listener.accept().unwrap();
    let mut buffer = [0; 5];
    client.write_all(b"hello").unwrap();
    server.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"hello");
    server.write_all(b"hey").unwrap();
    client.read_exact(&mut buffer[..3]).unwrap();
    assert_eq!(&buffer[..3], b"hey");
    let expected = ProxyReport {
        tcp_connections: 1,
        tcp_bytes_up: 5,
        tcp_bytes_down: 3,
        ..ProxyReport::default()
    };
    wait_for("the counters", || proxy.report() == expected);
}

#[test]
fn silent_connections_end_and_give_their_place_to_others() {
    let (listener, address) = listen();
    let limits = Limits {
        tcp_connections: 1,
        tcp_idle: Duration::from_secs(1),
        ..Limits::default()
    };
    let proxy = Proxy::start(&[forward(address)], &[], limits).unwrap();
    let mut silent = connect(&proxy);
    let (_kept, _) = listener.accept().unwrap();
    let mut waiting = connect(&proxy);
    waiting.write_all(b"hello").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut buffer = [0; 5];
    server.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"hello");
    assert!(is_reset(&silent.read(&mut [0; 1]).unwrap_err()));
}

#[test]
fn a_connection_with_bytes_in_one_direction_is_not_silent() {
    let (listener, address) = listen();
    let limits = Limits {
        tcp_idle: Duration::from_secs(2),
        ..Limits::default()
    };
    let proxy = Proxy::start(&[forward(address)], &[], limits).unwrap();
    let mut client = connect(&proxy);
    let (mut server, _) = listener.accept().unwrap();
    let end = Instant::now() + 2 * limits.tcp_idle;
    while Instant::now() < end {
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0; 1]).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    server.write_all(b"y").unwrap();
    client.read_exact(&mut [0; 1]).unwrap();
}

#[test]
fn the_end_of_one_direction_leaves_the_other_open() {
    let (listener, address) = listen();
    let proxy = proxy_tcp(address);
    let server = thread::spawn(move || {
        let (mut server, _) = listener.accept().unwrap();
        let mut question = String::new();
        // Ends because the client's half has.
        server.read_to_string(&mut question).unwrap();
        thread::sleep(Duration::from_millis(50));
        server
            .write_all(question.to_uppercase().as_bytes())
            .unwrap();
    });
    let mut client = connect(&proxy);
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "QUESTION");
    server.join().unwrap();
}

#[test]
fn a_target_that_refuses_resets_its_clients() {
    let (listener, address) = listen();
    drop(listener);
    let proxy = proxy_tcp(address);
    let mut client = connect(&proxy);
    let read = client.read(&mut [0; 1]);
    assert!(is_reset(&read.unwrap_err()));
    wait_for("the failure to be counted", || {
        proxy.report().tcp_unreachable == 1
    });
}

#[test]
fn a_reset_is_passed_on_as_one() {
    let (listener, address) = listen();
    let proxy = proxy_tcp(address);
    let mut client = connect(&proxy);
    let (server, _) = listener.accept().unwrap();
    socket2::SockRef::from(&server)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(server);
    let read = client.read(&mut [0; 1]);
    assert!(is_reset(&read.unwrap_err()));
}

#[test]
fn a_reader_that_rests_slows_the_sender_down() {
    let (listener, address) = listen();
    let proxy = proxy_tcp(address);
    let mut client = connect(&proxy);
    let (mut server, _) = listener.accept().unwrap();
    client.set_nonblocking(true).unwrap();
    // What the buffers on the way hold: once they are full nothing more is taken.
    let mut sent = 0;
    let mut full_since = None;
    while full_since.is_none_or(|since: Instant| since.elapsed() < Duration::from_millis(300)) {
        match client.write(&[7; 64 << 10]) {
            Ok(length) => {
                sent += length;
                full_since = None;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                full_since.get_or_insert_with(Instant::now);
                thread::sleep(Duration::from_millis(5));
            }
        }
        assert!(sent < 256 << 20, "nothing holds the sender back");
    }
    drop(client);
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), sent);
}

#[test]
fn many_clients_at_once_get_their_own_bytes() {
    const CLIENTS: usize = 100;
    let (listener, address) = listen();
    let proxy = proxy_tcp(address);
    let server = thread::spawn(move || {
        let echo = |_| {
            let (mut stream, _) = listener.accept().unwrap();
            thread::spawn(move || {
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).unwrap();
                stream.write_all(&bytes).unwrap();
            })
        };
        let echoes: Vec<_> = (0..CLIENTS).map(echo).collect();
        echoes.into_iter().for_each(|echo| echo.join().unwrap());
    });
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| connect(&proxy)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.write_all(&vec![number as u8; 10_000]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, vec![number as u8; 10_000]);
    }
    server.join().unwrap();
    assert_eq!(proxy.report().tcp_connections, CLIENTS as u64);
}

#[test]
fn connections_beyond_the_bound_wait_for_one_to_end() {
    let (listener, address) = listen();
    let limits = Limits {
        tcp_connections: 1,
        ..Limits::default()
    };
    let proxy = Proxy::start(&[forward(address)], &[], limits).unwrap();
    let first = connect(&proxy);
    let (server, _) = listener.accept().unwrap();
    let mut second = connect(&proxy);
    second.write_all(b"x").unwrap();
    listener.set_nonblocking(true).unwrap();
    thread::sleep(Duration::from_millis(100));
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    drop((first, server));
    wait_for("the second connection", || listener.accept().is_ok());
}

/// Sends datagrams back with the sender's port in front, which the client can't know.
fn echo() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let echo = socket.try_clone().unwrap();
    socket.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 65_535];
        while let Ok((length, from)) = echo.recv_from(&mut buffer) {
            let answer = [&from.port().to_be_bytes(), &buffer[..length]].concat();
            let _ = echo.send_to(&answer, from);
        }
    });
    (socket, address)
}

fn udp_client(proxy: &Proxy) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(proxy.udp_addresses()[0]).unwrap();
    client.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
    client
}

/// Sends a datagram; returns the port that the target saw it come from.
fn ask(client: &UdpSocket, payload: &[u8]) -> u16 {
    client.send(payload).unwrap();
    let mut buffer = vec![0; 65_535];
    let length = client.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[2..length], payload);
    u16::from_be_bytes([buffer[0], buffer[1]])
}

#[test]
fn each_client_has_a_port_of_its_own_towards_the_target_and_keeps_it() {
    let (_server, address) = echo();
    let proxy = proxy_udp(address, Limits::default());
    let (one, other) = (udp_client(&proxy), udp_client(&proxy));
    let ports = [ask(&one, b"1"), ask(&other, b"2")];
    assert_ne!(ports[0], ports[1]);
    assert_eq!([ask(&one, b"3"), ask(&other, b"4")], ports);
    let expected = ProxyReport {
        udp_flows: 2,
        udp_datagrams_up: 4,
        udp_datagrams_down: 4,
        ..ProxyReport::default()
    };
    wait_for("the counters", || proxy.report() == expected);
}

#[test]
fn datagrams_of_every_size_keep_their_borders() {
    let (_server, address) = echo();
    let proxy = proxy_udp(address, Limits::default());
    let client = udp_client(&proxy);
    // 65,507 bytes are all that a packet of IPv4 holds, of which the echo needs two.
    for size in [0, 1, 1_472, 9_000, 65_505] {
        ask(&client, &vec![3; size]);
    }
}

#[test]
fn one_client_too_many_takes_the_place_of_the_one_silent_longest() {
    let (_server, address) = echo();
    let limits = Limits {
        udp_flows: 2,
        ..Limits::default()
    };
    let proxy = proxy_udp(address, limits);
    let clients = [(); 3].map(|()| udp_client(&proxy));
    let first = ask(&clients[0], b"a");
    let second = ask(&clients[1], b"b");
    assert_eq!(ask(&clients[0], b"c"), first);
    ask(&clients[2], b"d");
    assert_eq!(ask(&clients[0], b"e"), first, "it was used last");
    assert_ne!(ask(&clients[1], b"f"), second, "it was forgotten");
    assert_eq!(proxy.report().udp_flows, 4);
    assert_eq!(proxy.report().udp_dropped, 0);
}

#[test]
fn a_client_that_is_silent_for_long_is_forgotten() {
    let (_server, address) = echo();
    let limits = Limits {
        udp_idle: Duration::from_secs(1),
        ..Limits::default()
    };
    let proxy = proxy_udp(address, limits);
    let client = udp_client(&proxy);
    let port = ask(&client, b"1");
    assert_eq!(ask(&client, b"2"), port);
    thread::sleep(3 * limits.udp_idle);
    assert_ne!(ask(&client, b"3"), port);
    assert_eq!(proxy.report().udp_flows, 2);
}

#[test]
fn a_target_that_was_not_there_is_found_when_it_is() {
    let probe = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = probe.local_addr().unwrap();
    drop(probe);
    let proxy = proxy_udp(address, Limits::default());
    let client = udp_client(&proxy);
    client.send(b"nobody").unwrap();
    wait_for("the datagram to pass", || {
        proxy.report().udp_datagrams_up == 1
    });
    let server = UdpSocket::bind(address).unwrap();
    server.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
    client.send(b"somebody").unwrap();
    let mut buffer = [0; 16];
    let (length, _) = server.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"somebody");
}

#[test]
fn a_port_in_use_is_an_error() {
    let (_taken, address) = listen();
    let taken = Forward {
        listen: address,
        ..forward(address)
    };
    let error = Proxy::start(&[taken], &[], Limits::default()).unwrap_err();
    let text = format!("the proxy cannot listen on TCP {address}");
    assert_eq!(error.to_string(), text);
    assert!(matches!(error, Error::ProxyListen { .. }));
}

#[test]
fn the_end_of_a_proxy_ends_its_connections_and_frees_its_ports() {
    let (listener, address) = listen();
    let proxy = proxy_tcp(address);
    let mut client = connect(&proxy);
    let (_server, _) = listener.accept().unwrap();
    let port = proxy.tcp_addresses()[0];
    drop(proxy);
    assert!(matches!(client.read(&mut [0; 1]), Ok(0) | Err(_)));
    TcpListener::bind(port).unwrap();
}
