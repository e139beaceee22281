//! Connections over HTTP/2 that requests share: servers that take few at a time, and clients that do not read.

use crate::common::{Client, Connection, TIME_LIMIT, http2_origin, origin, proxy, proxy_with, tcp};
use altway_proxy::Settings;
use altway_upstream::Protocol;
use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use http::{Request, Response, Version};
use http_body_util::BodyExt as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Requests that the server takes at a time over a connection.
const STREAMS: u32 = 2;

/// A server that begins a response to `/wait` at once, and ends it with a permit of `ends`.
async fn server(ends: Arc<Semaphore>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&ends)));
        }
    });
    address
}

async fn serve(stream: tokio::net::TcpStream, ends: Arc<Semaphore>) {
    let mut builder = h2::server::Builder::new();
    let builder = builder.max_concurrent_streams(STREAMS);
    let mut connection = builder.handshake::<_, Bytes>(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let ends = Arc::clone(&ends);
        tokio::spawn(async move {
            let mut sending = respond.send_response(Response::new(()), false).unwrap();
            if request.uri().path() == "/wait" {
                ends.acquire().await.unwrap().forget();
            }
            sending.send_data("done".into(), true).unwrap();
        });
    }
}

/// The statuses of so many POST requests for `/wait` that come at once from as many clients.
async fn burst<const REQUESTS: usize>(
    server: SocketAddr,
    attempts: u32,
    content: &'static str,
) -> [u16; REQUESTS] {
    let mut options = altway_upstream::Options::new(vec![tcp(server, Protocol::Http2)]);
    options.attempts = attempts;
    let running = proxy(options);
    let mut clients = Vec::new();
    for _ in 0..REQUESTS {
        clients.push(Client::new(running.address, Version::HTTP_2).await);
    }
    let asked = clients
        .iter_mut()
        .map(|client| client.ask(Request::post("/wait"), content));
    let answers = tokio::time::timeout(TIME_LIMIT, join_all(asked)).await;
    let answers = answers.expect("none waits for ever");
    std::array::from_fn(|place| answers[place].status().as_u16())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_come_at_once_are_all_answered_by_a_server_that_refuses_most_of_them() {
    const BURST: usize = 30;
    for (attempts, content) in [(1, ""), (2, ""), (1, "content"), (2, "content")] {
        let server = server(Arc::new(Semaphore::new(BURST))).await;
        let statuses = burst(server, attempts, content).await;
        assert_eq!(statuses, [200; BURST], "{attempts} {content}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_come_at_once_are_all_answered_by_a_server_that_ends_each_connection_after_one()
 {
    for (attempts, content) in [(1, ""), (2, ""), (1, "content"), (2, "content")] {
        let server = origin(|connection| answer_one(connection, LAST_IS_FIRST));
        let statuses = burst(server, attempts, content).await;
        assert_eq!(statuses, [200; 6], "{attempts} {content}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_without_end_keep_no_other_request_waiting() {
    const LONG: usize = 7;
    let ends = Arc::new(Semaphore::new(0));
    let server = tcp(server(Arc::clone(&ends)).await, Protocol::Http2);
    let options = altway_upstream::Options::new(vec![server]);
    let settings = Settings::default();
    let statistics = Arc::clone(&settings.statistics);
    let running = proxy_with(options, settings);
    let mut client = Client::new(running.address, Version::HTTP_2).await;
    let mut short = Client::new(running.address, Version::HTTP_2).await;
    let mut long = Vec::new();
    for _ in 0..LONG {
        let begun = client.send(Request::get("/wait"), "");
        let begun = tokio::time::timeout(TIME_LIMIT, begun).await;
        long.push(begun.expect("a stream is there").unwrap());
        let answer = tokio::time::timeout(TIME_LIMIT, short.ask(Request::get("/"), ""));
        let answer = answer.await.expect("it waits for no other");
        assert_eq!(
            (answer.status().as_u16(), answer.body().as_str()),
            (200, "done")
        );
    }
    let open = || statistics.upstreams()[0].1.open_connections;
    let (least, most) = (LONG as u64 / u64::from(STREAMS) + 1, LONG as u64);
    assert!((least..most).contains(&open()), "{} connections", open());
    ends.add_permits(LONG);
    for response in long {
        let content = response.into_body().collect().await.unwrap();
        assert_eq!(content.to_bytes(), "done");
    }
    // Those that nobody needs any more are closed.
    let give_up = Instant::now() + TIME_LIMIT;
    while open() > 1 {
        assert!(Instant::now() < give_up, "{} connections", open());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(short.ask(Request::get("/"), "").await.body(), "done");
}

/// The heads of so many responses to one client, which takes none of their content.
async fn unread(proxy: SocketAddr, responses: usize) -> Vec<Response<h2::RecvStream>> {
    let stream = tokio::net::TcpStream::connect(proxy).await.unwrap();
    let mut builder = h2::client::Builder::new();
    let handshake = builder.initial_window_size(0).handshake::<_, Bytes>(stream);
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let mut responding = Vec::new();
    for _ in 0..responses {
        let mut sender = sender.clone().ready().await.unwrap();
        let request = Request::get("http://a.test/large").body(()).unwrap();
        responding.push(sender.send_request(request, true).unwrap().0);
    }
    try_join_all(responding).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_that_nobody_reads_keep_no_other_waiting() {
    let large = Bytes::from(vec![0; 1 << 20]);
    let server = http2_origin(move |request, mut respond| {
        let mut sending = respond.send_response(Response::new(()), false).unwrap();
        let is_large = request.uri().path() == "/large";
        let content = is_large.then(|| large.clone());
        let _ = sending.send_data(content.unwrap_or("done".into()), true);
    });
    let server = tcp(server.await, Protocol::Http2);
    let running = proxy(altway_upstream::Options::new(vec![server]));
    let unread = tokio::time::timeout(TIME_LIMIT, unread(running.address, 40)).await;
    let unread = unread.expect("heads take nothing of a window");
    // One that is sent before the content of those has come may wait with them.
    let answered = async {
        loop {
            let mut client = Client::new(running.address, Version::HTTP_2).await;
            let answer = client.ask(Request::get("/"), "");
            if let Ok(answer) = tokio::time::timeout(Duration::from_secs(2), answer).await {
                return answer;
            }
        }
    };
    // They are let stay for a minute.
    let answer = tokio::time::timeout(TIME_LIMIT, answered).await;
    assert_eq!(answer.expect("it waits for no other").body(), "done");
    drop(unread);
}

/// SETTINGS that leave a connection no streams.
const NO_STREAMS: &[u8] = &[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0];

/// GOAWAY of a server that handles the first request of a connection alone.
const LAST_IS_FIRST: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];

/// Answers the first request of a connection over HTTP/2, and before that says `last`.
fn answer_one(mut connection: Connection, last: &[u8]) {
    let mut is_told = false;
    connection.read(24);
    let send = |connection: &mut Connection, frame: &[u8]| {
        // The proxy may have gone.
        let _ = connection.reader.get_mut().write_all(frame);
    };
    send(&mut connection, &[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    while let Some([_, high, low, kind, flags, stream @ ..]) = connection.try_read::<9>() {
        let payload = connection.read(usize::from(u16::from_be_bytes([high, low])));
        let [a, b, c, d] = stream;
        match (kind, flags) {
            (4, 0) => send(&mut connection, &[0, 0, 0, 4, 1, 0, 0, 0, 0]),
            (1, _) if !is_told => {
                is_told = true;
                send(&mut connection, last);
                // 200, with the end of the stream.
                send(&mut connection, &[0, 0, 1, 1, 5, a, b, c, d, 0x88]);
            }
            (6, 0) => {
                let answer = [&[0, 0, 8, 6, 1, 0, 0, 0, 0], &payload[..]].concat();
                send(&mut connection, &answer);
            }
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_left_no_streams_is_used_no_more() {
    let server = tcp(origin(|it| answer_one(it, NO_STREAMS)), Protocol::Http2);
    let running = proxy(altway_upstream::Options::new(vec![server]));
    let mut client = Client::new(running.address, Version::HTTP_2).await;
    for _ in 0..3 {
        let answer = tokio::time::timeout(TIME_LIMIT, client.ask(Request::get("/"), ""));
        let answer = answer.await.expect("another connection is there");
        assert_eq!(answer.status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_another_version_of_http_than_is_configured_is_told_as_one() {
    let http1 = origin(|mut connection: Connection| {
        // The beginning of HTTP/2 is the head of a request that nobody has.
        connection.head();
        let answer = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
        connection.write(answer);
        // Its end would reset what the proxy has yet to read, as more was sent than a head.
        while connection.try_read::<1>().is_some() {}
    });
    let http2 = server(Arc::new(Semaphore::new(0))).await;
    for (address, protocol) in [(http1, Protocol::Http2), (http2, Protocol::Http1)] {
        let statistics = Arc::<altway_proxy::Statistics>::default();
        let settings = Settings {
            statistics: Arc::clone(&statistics),
            ..Default::default()
        };
        let options = altway_upstream::Options::new(vec![tcp(address, protocol)]);
        let running = proxy_with(options, settings);
        let mut client = Client::new(running.address, Version::HTTP_2).await;
        let response = client.ask(Request::get("/"), "").await;
        assert_eq!(response.status(), 502, "{protocol:?}");
        let refusals = statistics.summary().refusals;
        let told = [(altway_upstream::Reason::OtherVersion, 1)];
        assert_eq!(refusals, told, "{protocol:?}");
    }
}

/// Answers the first request of a connection over HTTP/2, and the second with a frame that is longer than any may be.
fn answer_one_then_too_long_a_frame(mut connection: Connection) {
    let mut is_told = false;
    connection.read(24);
    let _ = connection
        .reader
        .get_mut()
        .write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    while let Some([_, high, low, kind, flags, stream @ ..]) = connection.try_read::<9>() {
        connection.read(usize::from(u16::from_be_bytes([high, low])));
        let [a, b, c, d] = stream;
        match (kind, flags) {
            (4, 0) => connection.write("\0\0\0\x04\x01\0\0\0\0"),
            // 200, with the end of the stream.
            (1, _) if !std::mem::replace(&mut is_told, true) => {
                let answer = [0, 0, 1, 1, 5, a, b, c, d, 0x88];
                let _ = connection.reader.get_mut().write_all(&answer);
            }
            (1, _) => connection.write("HTTP/1.1 400 Bad Request\r\n\r\n"),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_responded_over_http2_is_not_told_as_one_of_another_version() {
    let settings = Settings::default();
    let statistics = Arc::clone(&settings.statistics);
    let server = tcp(origin(answer_one_then_too_long_a_frame), Protocol::Http2);
    let running = proxy_with(altway_upstream::Options::new(vec![server]), settings);
    let mut client = Client::new(running.address, Version::HTTP_2).await;
    // Not sent again, as its method is not idempotent.
    for status in [200, 502] {
        let response = client.ask(Request::post("/"), "").await;
        assert_eq!(response.status(), status);
    }
    let told = [(altway_upstream::Reason::Closed, 1)];
    assert_eq!(statistics.summary().refusals, told);
}
