//! Servers of HTTP/3 that mean harm: what they do to one request ends with it, and keeps no other waiting. And readers that do
//! not read.

use super::*;
use crate::content::Content;
use crate::heads::Received;
use crate::tls::Tls;
use crate::{Address, Group, Options, Protocol, Roots, Server};
use altway_http3::quic::{self, Direction, Event, QuicConnection as _, QuicEndpoint as _, Read};
use http::{Method, StatusCode, Version};
use http_body_util::{Empty, Full};
use std::net::UdpSocket;
use tokio::time::timeout;

/// Time after which a test takes what it waits for as not coming.
const TIME_LIMIT: Duration = Duration::from_secs(50);

/// Frames of HTTP/3: heads with the status alone, and content.
const OK: &[u8] = &[1, 3, 0, 0, 0xd9];
const EARLY_HINTS: &[u8] = &[1, 3, 0, 0, 0xd8];
const NO_CONTENT: &[u8] = &[0, 0];

/// The next request's connection and stream. What comes over streams is read and left.
fn next_request(endpoint: &mut quic::Endpoint) -> Option<(quic::ConnectionHandle, quic::StreamId)> {
    while let Some((handle, event)) = endpoint.poll_event() {
        let (Event::Readable { stream } | Event::Opened { stream }) = event else {
            continue;
        };
        let Some(connection) = endpoint.connection(handle) else {
            continue;
        };
        while let Read::Data(_) = connection.read(stream) {}
        let is_opened = matches!(event, Event::Opened { .. });
        if is_opened && stream.direction() == Direction::Bidirectional {
            return Some((handle, stream));
        }
    }
    None
}

/// A server that answers the first request of all with `first`, and `next` without end, and others with 200.
fn flooding(first: &'static [u8], next: &'static [u8]) -> (SocketAddr, Tls) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let next = Bytes::from(next.repeat(1_000));
    let (mut left, mut flooded) = (Bytes::from_static(first), None);
    let answer = move |endpoint: &mut quic::Endpoint| {
        while let Some((handle, stream)) = next_request(endpoint) {
            if flooded.is_some()
                && let Some(connection) = endpoint.connection(handle)
            {
                let _ = connection.write(stream, &mut [Bytes::from_static(OK)]);
                let _ = connection.finish(stream);
            }
            flooded.get_or_insert((handle, stream));
        }
        if let Some((handle, stream)) = flooded
            && let Some(connection) = endpoint.connection(handle)
        {
            while let Ok(true) = connection.write(stream, std::slice::from_mut(&mut left)) {
                left = next.clone();
            }
        }
    };
    (address, test_server::start(socket, answer))
}

async fn connect((address, tls): (SocketAddr, Tls)) -> Http3 {
    let remote = (address, "localhost");
    let tls = tls.config(Protocol::Http3);
    let counters = Arc::default();
    let connecting = Http3::connect(tls, remote, TIME_LIMIT, &counters);
    timeout(TIME_LIMIT, connecting).await.unwrap().unwrap()
}

async fn get(connection: &Http3, interim: Option<Interim>) -> Result<Response<Http3Body>, Failed> {
    let request = Request::get("https://localhost/").body(()).unwrap();
    let content = Content::new(Empty::<Bytes>::new(), 0, None);
    let sent = connection.send(request, true, content.attempt(None), interim);
    timeout(TIME_LIMIT, sent).await.expect("it is given up")
}

#[tokio::test]
async fn interim_responses_without_end_are_no_response_and_keep_nobody_waiting() {
    let connection = connect(flooding(&[], EARLY_HINTS)).await;
    let heard = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&heard);
    let interim = Interim::new(move |_, _| _ = count.fetch_add(1, Ordering::Relaxed));
    let flooded = get(&connection, Some(interim)).await;
    let is_malformed = |it: &Failed| matches!(it, Failed::NoResponse(Failure::Malformed, _));
    assert!(flooded.is_err_and(|it| is_malformed(&it)));
    assert_eq!(heard.load(Ordering::Relaxed), 1_024);
    for _ in 0..3 {
        let other = get(&connection, None).await.unwrap();
        assert_eq!(other.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_no_response() {
    // The length of a head beyond the limit, and the beginning of it.
    const LARGE: &[u8] = &[1, 0x80, 1, 0, 1];
    let connection = connect(flooding(LARGE, &[0])).await;
    let failed = get(&connection, None).await;
    let is_malformed = |it: &Failed| matches!(it, Failed::NoResponse(Failure::Malformed, _));
    assert!(failed.is_err_and(|it| is_malformed(&it)));
    let other = get(&connection, None).await.unwrap();
    assert_eq!(other.status(), StatusCode::OK);
}

#[tokio::test]
async fn content_that_nobody_reads_counts_until_its_response_is_given_up() {
    const CONTENT: &[u8] = &[0, 4, 1, 2, 3, 4];
    let connection = connect(flooding(OK, CONTENT)).await;
    let response = get(&connection, None).await.unwrap();
    let waits = async |bytes| {
        while connection.backlog() != bytes {
            tokio::task::yield_now().await;
        }
    };
    let counted = timeout(TIME_LIMIT, waits(link::STREAM_WINDOW as usize)).await;
    counted.expect("its window may be full");
    drop(response);
    let given_up = timeout(TIME_LIMIT, waits(0)).await;
    given_up.expect("nothing waits");
}

#[tokio::test]
async fn content_of_nothing_without_end_ends_the_connection() {
    let connection = connect(flooding(OK, NO_CONTENT)).await;
    let Ok(response) = get(&connection, None).await else {
        return assert!(connection.is_closed());
    };
    let mut content = response.into_body();
    let next = std::future::poll_fn(|cx| content.poll_frame(cx));
    let next = timeout(TIME_LIMIT, next).await.expect("it is given up");
    assert!(next.unwrap().is_err());
    assert!(connection.is_closed());
}

/// A server's refusal of the first request of all, in place of an answer.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    /// GOAWAY, with the ID of the first stream.
    GoAway,
    /// The same, and the end of the connection at once.
    GoAwayAndClose,
    /// H3_REQUEST_REJECTED on the stream.
    Reset,
}

/// Error codes (RFC 9114 section 8.1).
const H3_NO_ERROR: u64 = 0x100;
const H3_REQUEST_REJECTED: u64 = 0x10b;

/// The control stream of a server that takes no request: its type, empty SETTINGS, and GOAWAY.
const GOAWAY: &[u8] = &[0, 4, 0, 7, 1, 0];

/// A server that has not begun the first request of all, and answers others with 200. Returns the authority to trust.
fn refusing(refusal: Refusal) -> (SocketAddr, tempfile::NamedTempFile) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let (mut is_first, mut ending) = (true, None);
    let answer = move |endpoint: &mut quic::Endpoint| {
        if let Some(handle) = ending.take()
            && let Some(connection) = endpoint.connection(handle)
        {
            connection.close(H3_NO_ERROR, b"");
        }
        while let Some((handle, stream)) = next_request(endpoint) {
            let Some(connection) = endpoint.connection(handle) else {
                continue;
            };
            if !std::mem::take(&mut is_first) {
                let _ = connection.write(stream, &mut [Bytes::from_static(OK)]);
                let _ = connection.finish(stream);
                continue;
            }
            if let Refusal::Reset = refusal {
                connection.reset(stream, H3_REQUEST_REJECTED);
                connection.stop(stream, H3_REQUEST_REJECTED);
                continue;
            }
            let control = connection.open(Direction::Unidirectional).unwrap();
            let said = connection.write(control, &mut [Bytes::from_static(GOAWAY)]);
            assert!(said.unwrap());
            if let Refusal::GoAwayAndClose = refusal {
                // Once that has been sent.
                ending = Some(handle);
            }
        }
    };
    (address, test_server::start_trusted(socket, answer))
}

#[tokio::test]
async fn a_request_that_a_server_has_not_begun_is_sent_again_whatever_its_method_and_content() {
    for refusal in [Refusal::GoAway, Refusal::GoAwayAndClose, Refusal::Reset] {
        for (method, content) in [
            (Method::GET, ""),
            (Method::POST, ""),
            (Method::POST, "content"),
            (Method::PUT, "content"),
        ] {
            let (address, roots) = refusing(refusal);
            let mut options = Options::new(vec![Server {
                address: Address::Tcp(address.ip().to_string(), address.port()),
                protocol: Protocol::Http3,
                tls: Some("localhost".try_into().unwrap()),
            }]);
            options.roots = Roots::File(roots.path().to_owned());
            let group = Group::new(options).unwrap();
            let request = Request::builder().method(&method).uri("/");
            let request = request.body(Full::from(content)).unwrap();
            let received = Received {
                peer: address.ip(),
                port: 1,
                client: None,
                local: None,
                is_trusted: false,
                scheme: "https",
                version: Version::HTTP_3,
                is_early: false,
                began: Instant::now(),
                client_cert: None,
            };
            let sent = timeout(TIME_LIMIT, group.send(request, received, None, false));
            let answer = sent.await.expect("it is not waited for in vain");
            let status = answer.map(|(response, _)| response.status());
            assert_eq!(status, Ok(StatusCode::OK), "{refusal:?} {method} {content}");
        }
    }
}
