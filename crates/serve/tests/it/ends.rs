//! Ends of connections and of the server: graceful stop, its limit, and time-outs.

use crate::common::{Running, get, h1, h2, h3::H3, large, read, soon};
use altway_http3::{CloseReason, Code};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::task::spawn_blocking;

/// A grace that no stop needs, below the time-outs of connections.
const GRACE: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_lets_running_downloads_finish() {
    let server = Running::tls(|options| options.shutdown_grace = GRACE);
    let mut over_h1 = h1(server.connect_tls(&[]).await).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let first = soon(over_h1.send_request(get("/large"))).await.unwrap();
    let second = soon(over_h2.send_request(get("/large"))).await.unwrap();
    let mut over_h3 = H3::connect(&server);
    let stream = over_h3.send("/large");
    over_h3.head(stream);

    server.ask_to_stop();
    let third = spawn_blocking(move || over_h3.body(stream));
    let (first, second, third) =
        soon(async { tokio::join!(read(first), read(second), third) }).await;
    let expected = large();
    assert!(first == expected, "HTTP/1.1");
    assert!(second == expected, "HTTP/2");
    assert!(third.unwrap() == expected, "HTTP/3");
    let address = server.address;
    soon(spawn_blocking(|| server.join()))
        .await
        .unwrap()
        .unwrap();
    assert!(
        std::net::TcpStream::connect(address).is_err(),
        "nobody listens"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_without_requests_is_at_once() {
    let server = Running::tls(|options| options.shutdown_grace = GRACE);
    let mut idle = h2(server.connect_tls(&[b"h2"]).await).await;
    soon(read(soon(idle.send_request(get("/"))).await.unwrap())).await;
    let mut over_h3 = H3::connect(&server);
    over_h3.get("/");
    server.ask_to_stop();
    let begin = Instant::now();
    let closed = spawn_blocking(move || drop(over_h3.closed()));
    soon(spawn_blocking(|| server.join()))
        .await
        .unwrap()
        .unwrap();
    let waited = begin.elapsed();
    assert!(waited < Duration::from_secs(3), "{waited:?}");
    soon(closed).await.unwrap();
}

#[test]
fn a_client_has_time_to_read_what_it_has_acknowledged_before_a_stop_closes() {
    let server = Running::tls(|options| options.shutdown_grace = GRACE);
    let mut client = H3::connect(&server);
    let stream = client.send("/large");
    client.head(stream);
    server.ask_to_stop();
    // The client acknowledges the last of it here.
    client.body(stream);
    let begin = Instant::now();
    client.closed();
    let waited = begin.elapsed();
    assert!(waited > Duration::from_millis(500), "{waited:?}");
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    server.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_no_longer_than_its_grace() {
    let grace = Duration::from_millis(300);
    let server = Running::tls(|options| options.shutdown_grace = grace);
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    let unread = soon(client.send_request(get("/large"))).await.unwrap();
    let mut over_h3 = H3::connect(&server);
    let stream = over_h3.send("/large");
    over_h3.head(stream);
    let begin = Instant::now();
    server.ask_to_stop();
    soon(spawn_blocking(|| server.join()))
        .await
        .unwrap()
        .unwrap();
    let waited = begin.elapsed();
    assert!(
        waited >= grace && waited < Duration::from_secs(5),
        "{waited:?}"
    );
    drop(unread);
}

#[test]
fn a_stop_tells_a_client_whose_response_is_cut_off_that_it_is_over() {
    let server = Running::tls(|options| options.shutdown_grace = Duration::from_millis(300));
    let mut client = H3::connect(&server);
    let stream = client.send("/large");
    client.head(stream);
    server.ask_to_stop();
    let stopped = std::thread::spawn(|| server.join());
    // It acknowledges nothing meanwhile, so that the server's window is full.
    client.hold_until(|| stopped.is_finished());
    stopped.join().unwrap().unwrap();
    let reason = client.closed();
    let code = Code::H3_NO_ERROR;
    assert!(
        matches!(&reason, CloseReason::Peer { code: it, .. } if *it == code),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_are_closed_after_their_time_outs() {
    let server = Running::tls(|options| {
        // A handshake of the test's own has to be done within it.
        options.limits.handshake_timeout = Duration::from_secs(3);
        options.limits.idle_timeout = Duration::from_millis(400);
    });
    let mut no_hello = server.connect().await;
    let mut no_request = server.connect_tls(&[b"http/1.1"]).await;
    let end = soon(no_request.read(&mut [0; 8])).await;
    assert_eq!(end.unwrap_or(0), 0);
    assert_eq!(soon(no_hello.read(&mut [0; 8])).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_nobody_reads_is_given_up() {
    let server = Running::tls(|options| {
        // Of the connection as well, which lives as long as the client is heard.
        options.limits.idle_timeout = Duration::from_secs(2);
    });
    let mut client = H3::connect(&server);
    let unread = client.send("/large");
    client.head(unread);
    client.cut_off(unread);
    assert_eq!(client.get("/").0.status(), 200, "the connection lives");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unfinished_head_is_not_waited_for() {
    let server = Running::clear(|options| {
        options.limits.header_timeout = Duration::from_millis(300);
    });
    let mut stream = server.connect().await;
    for byte in b"GET / HTTP/1.1\r\nx: " {
        tokio::io::AsyncWriteExt::write_all(&mut stream, &[*byte])
            .await
            .unwrap();
    }
    let mut rest = Vec::new();
    let _ = soon(stream.read_to_end(&mut rest)).await;
    assert!(!rest.starts_with(b"HTTP/1.1 200"), "{rest:?}");
}
