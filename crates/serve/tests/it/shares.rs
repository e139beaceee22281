//! One address that takes all it can, and another that is served all the same.

use crate::common::h3::H3;
use crate::common::{H2, Running, TIME_LIMIT, get, get_over, h1, h2, read, soon};
use altway_serve::Options;
use http_body_util::Empty;
use hyper::body::Bytes;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Less than any time-out of these servers, and more than a busy machine takes.
const WITHOUT_WAITING: Duration = Duration::from_secs(20);

/// One worker for 40 connections over each transport, five of each client.
fn start(tls: bool, change: impl FnOnce(&mut Options)) -> Running {
    let small = |options: &mut Options| {
        options.threads = NonZeroUsize::MIN;
        options.limits.max_connections = 40;
        options.limits.handshake_timeout = 3 * WITHOUT_WAITING;
        change(options);
    };
    if tls {
        Running::tls(small)
    } else {
        Running::clear(small)
    }
}

/// A TCP connection from an address of its own: 127.0.0.2 and on.
pub(crate) async fn connect_from(server: SocketAddr, last: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let own = Ipv4Addr::new(127, 0, 0, last);
    socket.bind((own, 0).into()).unwrap();
    socket.connect(server).await.unwrap()
}

/// A connection that has been served, and idles.
async fn idle(server: &Running, last: u8) -> H2 {
    let mut client = h2(connect_from(server.address, last).await).await;
    let answer = soon(client.send_request(get_over(false, "/")))
        .await
        .unwrap();
    assert_eq!(soon(read(answer)).await, b"<p>home");
    client
}

/// Returns true if the server closes a connection on which nothing is sent.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    let read = tokio::time::timeout(WITHOUT_WAITING, stream.read(&mut byte)).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_beyond_its_share_is_closed_at_once_and_another_is_served() {
    let server = start(false, |_| {});
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(idle(&server, 1).await);
    }
    let mut beyond = connect_from(server.address, 1).await;
    assert!(is_closed(&mut beyond).await);
    let other = tokio::time::timeout(WITHOUT_WAITING, idle(&server, 2)).await;
    let mut other = other.expect("it waits for nobody");
    let mut plain = h1::<Empty<Bytes>>(connect_from(server.address, 3).await).await;
    assert_eq!(
        soon(plain.send_request(get_over(false, "/")))
            .await
            .unwrap()
            .status(),
        200
    );
    for client in held.iter_mut().chain([&mut other]) {
        assert_eq!(
            soon(client.send_request(get_over(false, "/")))
                .await
                .unwrap()
                .status(),
            200
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_of_many_clients_make_room_for_newcomers() {
    let server = start(false, |_| {});
    let mut held = Vec::new();
    for last in 1..=60 {
        let client = tokio::time::timeout(WITHOUT_WAITING, idle(&server, last)).await;
        held.push(client.expect("nobody waits"));
    }
    // The first were told to go; the last are there.
    assert!(
        soon(held[0].send_request(get_over(false, "/")))
            .await
            .is_err()
    );
    assert!(
        soon(held[59].send_request(get_over(false, "/")))
            .await
            .is_ok()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_hold_over_both_transports_together() {
    let server = start(true, |options| {
        options.limits.max_connections_per_client = Some(2);
    });
    let mut first = H3::connect(&server);
    assert_eq!(first.get("/").1, b"<p>home");
    let second = server.connect_tls(&[b"h2"]).await;
    let mut third = server.connect().await;
    assert!(is_closed(&mut third).await);
    drop(second);
    let mut again = loop {
        let mut stream = server.connect().await;
        let closed = tokio::time::timeout(Duration::from_millis(100), stream.read_u8()).await;
        if closed.is_err() {
            break stream;
        }
    };
    assert_eq!(first.get("/").1, b"<p>home");
    let other = connect_from(server.address, 2).await;
    assert!(
        tokio::time::timeout(Duration::from_millis(100), again.read_u8())
            .await
            .is_err()
    );
    drop((again, other));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_beyond_a_share_are_answered_503_over_each_protocol() {
    let server = start(true, |options| {
        options.limits.max_requests_per_client = Some(1);
    });
    // Its response is never taken, so it stays in progress.
    let mut held = h2::<Empty<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
    let unread = soon(held.send_request(get("/large"))).await.unwrap();
    let mut over_h2 = h2::<Empty<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
    let mut over_h1 = h1::<Empty<Bytes>>(server.connect_tls(&[b"http/1.1"]).await).await;
    for answer in [
        soon(over_h2.send_request(get("/"))).await.unwrap(),
        soon(over_h1.send_request(get("/"))).await.unwrap(),
    ] {
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.headers()["retry-after"], "1");
    }
    let (head, _) = H3::connect(&server).get("/");
    assert_eq!(
        (head.status().as_u16(), &head.headers()["retry-after"]),
        (503, &"1".parse().unwrap())
    );
    drop((unread, held));
    let free = async {
        while over_h2.send_request(get("/")).await.unwrap().status() == 503 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(free).await;
}

/// The beginning of a head over HTTP/1.1, with so many bytes.
fn beginning(bytes: usize) -> Vec<u8> {
    format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\nx: {}",
        "y".repeat(bytes)
    )
    .into()
}

/// HEADERS of HTTP/2 that goes on in CONTINUATION, and does not end.
fn endless_block() -> Vec<u8> {
    let frame = |kind: u8| {
        let header = [0, 0x40, 0, kind, 0, 0, 0, 0, 1];
        [&header[..], &[0; 16 << 10]].concat()
    };
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let continuation = frame(9);
    [&preface[..], &frame(1), &continuation, &continuation].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_are_not_complete_count_as_held() {
    let server = start(false, |options| {
        options.limits.max_held_bytes_per_client = Some(40 << 10);
        options.limits.header_timeout = 3 * TIME_LIMIT;
        options.limits.idle_timeout = 3 * TIME_LIMIT;
    });
    for bytes in [beginning(20_000), endless_block()] {
        let mut client = connect_from(server.address, 2).await;
        client.write_all(&bytes).await.unwrap();
        let mut answer = Vec::new();
        // Closed, and maybe reset: long before a time-out.
        let _ = soon(client.read_to_end(&mut answer)).await;
        let calm = answer.windows(4).any(|it| it == [0, 0, 0, 11]);
        assert_eq!(calm, bytes.starts_with(b"PRI"), "{answer:?}");
    }
    // A small one has its time, whatever others hold; a large one where there is room.
    let roomy = start(false, |_| {});
    for (server, bytes) in [(&server, 5_000), (&roomy, 20_000)] {
        let mut client = connect_from(server.address, 2).await;
        client.write_all(&beginning(bytes)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let rest = b"\r\nconnection: close\r\n\r\n";
        client.write_all(rest).await.unwrap();
        let mut answer = Vec::new();
        soon(client.read_to_end(&mut answer)).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{bytes}");
    }
}
