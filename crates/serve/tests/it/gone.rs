//! Clients that go away, or take their requests back: the service's work ends at once, and is counted.

use crate::common::{LARGE, Running, get, h2, h3::H3, read, soon};
use altway_serve::{BoxError, Limits, RequestBodyError, Site};
use axum::Router;
use axum::body::Body;
use axum::routing::{get as on_get, post as on_post};
use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt as _;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// Tells when it is dropped.
struct Guard(mpsc::UnboundedSender<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// A body that never gives anything.
struct Silent(#[expect(dead_code, reason = "for its drop")] Guard);

impl http_body::Body for Silent {
    type Data = Bytes;
    type Error = BoxError;
    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Pending
    }
}

struct Seen {
    /// Requests that have come to the service.
    began: mpsc::UnboundedReceiver<()>,
    /// Reports of requests whose work was dropped.
    dropped: mpsc::UnboundedReceiver<()>,
}

/// One worker: `/` never answers, `/stream` never ends.
fn waiting(clear: bool) -> (Running, Seen) {
    waiting_with(clear, |_| {})
}

fn waiting_with(clear: bool, limit: impl FnOnce(&mut Limits)) -> (Running, Seen) {
    let (begin, began) = mpsc::unbounded_channel();
    let (drops, dropped) = mpsc::unbounded_channel();
    let (stream_begin, stream_drops) = (begin.clone(), drops.clone());
    // It keeps the request, whose content it doesn't read.
    let forever = move |request: axum::extract::Request| async move {
        let _kept = (request, Guard(drops));
        begin.send(()).unwrap();
        std::future::pending::<&'static str>().await
    };
    let stream = move || async move {
        stream_begin.send(()).unwrap();
        Body::new(Silent(Guard(stream_drops)))
    };
    let router = Router::new().route("/", on_get(forever.clone()).post(forever));
    let site = Site::service(router.route("/stream", on_get(stream)));
    let change = |options: &mut altway_serve::Options| {
        options.site = site;
        options.threads = NonZeroUsize::MIN;
        limit(&mut options.limits);
    };
    let server = match clear {
        true => Running::clear(change),
        false => Running::tls(change),
    };
    (server, Seen { began, dropped })
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// `GET http /` of localhost on stream 1.
const HTTP2_GET: &[u8] = b"\0\0\x0e\x01\x05\0\0\0\x01\x82\x86\x84\x01\x09localhost";
const GOAWAY: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const CANCEL: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8];

const SETTINGS_ACK: &[u8] = &[0, 0, 0, 4, 1, 0, 0, 0, 0];

/// Reads until these bytes have come.
async fn read_until(client: &mut TcpStream, expected: &[u8]) {
    let mut received = Vec::new();
    while !received.windows(expected.len()).any(|it| it == expected) {
        let n = soon(client.read_buf(&mut received)).await.unwrap();
        assert!(n > 0, "the connection has ended");
    }
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Fin,
    GoAwayAndFin,
    ResetStream,
    Rst,
}

async fn leave(mut client: TcpStream, way: Way) -> Option<TcpStream> {
    match way {
        Way::Fin => client.shutdown().await.unwrap(),
        Way::GoAwayAndFin => {
            client.write_all(GOAWAY).await.unwrap();
            client.shutdown().await.unwrap();
        }
        Way::ResetStream => client.write_all(CANCEL).await.unwrap(),
        Way::Rst => {
            client.set_zero_linger().unwrap();
            return None;
        }
    }
    Some(client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_whose_client_of_http2_leaves_is_dropped() {
    let (server, mut seen) = waiting(true);
    for way in [Way::Fin, Way::GoAwayAndFin, Way::ResetStream, Way::Rst] {
        let mut client = server.connect().await;
        client
            .write_all(&[PREFACE, HTTP2_GET].concat())
            .await
            .unwrap();
        soon(seen.began.recv()).await.unwrap();
        assert!(seen.dropped.try_recv().is_err(), "{way:?}");
        let _open = leave(client, way).await;
        soon(seen.dropped.recv()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_whose_client_of_http1_leaves_is_dropped() {
    let (server, mut seen) = waiting(true);
    for way in [Way::Fin, Way::Rst] {
        let mut client = server.connect().await;
        let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
        client.write_all(request).await.unwrap();
        soon(seen.began.recv()).await.unwrap();
        let _open = leave(client, way).await;
        soon(seen.dropped.recv()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_whose_client_of_http1_leaves_something_unread_is_dropped() {
    let (server, mut seen) = waiting(true);
    let post = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\nx";
    let get = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\nGET";
    for request in [post, get] {
        for way in [Way::Fin, Way::Rst] {
            let mut client = server.connect().await;
            client.write_all(request.as_bytes()).await.unwrap();
            soon(seen.began.recv()).await.unwrap();
            let _open = leave(client, way).await;
            soon(seen.dropped.recv()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_whose_client_of_http2_leaves_while_its_share_of_memory_is_full_is_dropped() {
    const NEVER: Duration = Duration::from_secs(24 * 60 * 60);
    let (server, mut seen) = waiting_with(true, |limits| {
        limits.max_held_bytes_per_client = Some(1);
        limits.idle_timeout = NEVER;
    });
    // `POST http /` of localhost on stream 1, and content that nobody reads.
    let post = b"\0\0\x0e\x01\x04\0\0\0\x01\x83\x86\x84\x01\x09localhost";
    let content = b"\0\0\x05\0\0\0\0\0\x01hello";
    let [ping, pong] = [0, 1].map(|ack| [0, 0, 8, 6, ack, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7]);
    for way in [Way::Fin, Way::GoAwayAndFin, Way::Rst] {
        let mut client = server.connect().await;
        let begin = [PREFACE, SETTINGS_ACK].concat();
        client.write_all(&begin).await.unwrap();
        read_until(&mut client, SETTINGS_ACK).await;
        // All of it is read at once, and then nothing any more.
        let request = [&post[..], content, &ping].concat();
        client.write_all(&request).await.unwrap();
        read_until(&mut client, &pong).await;
        soon(seen.began.recv()).await.unwrap();
        assert!(seen.dropped.try_recv().is_err(), "{way:?}");
        let _open = leave(client, way).await;
        soon(seen.dropped.recv()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_whose_client_of_http3_stops_its_response_is_dropped() {
    let (server, mut seen) = waiting(false);
    let mut client = H3::connect(&server);
    let stream = client.send("/");
    client.wait_until(|| seen.began.try_recv().is_ok());
    client.stop(stream);
    client.wait_until(|| seen.dropped.try_recv().is_ok());
    client.send("/");
    client.wait_until(|| seen.began.try_recv().is_ok());
    client.close();
    soon(seen.dropped.recv()).await.unwrap();
}

/// A service that reads what it is sent, tells that it has begun, and then how its content has failed.
fn reading(tell: mpsc::UnboundedSender<Option<BoxError>>) -> Site {
    let read = move |mut body: Body| async move {
        // The handler itself is dropped with its client.
        let reader = tokio::spawn(async move {
            body.frame().await.unwrap().unwrap();
            tell.send(None).unwrap();
            let error = body.collect().await.unwrap_err();
            tell.send(Some(error.into_inner())).unwrap();
        });
        reader.await.unwrap();
    };
    Site::service(Router::new().route("/", on_post(read)))
}

fn is_incomplete(error: &BoxError) -> bool {
    let error = error.downcast_ref();
    matches!(error, Some(RequestBodyError::Incomplete))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_reads_learns_that_its_client_has_left_and_over_http1_that_it_breaks_rules()
{
    let (tell, mut told) = mpsc::unbounded_channel();
    let site = reading(tell);
    let server = Running::clear(|options| options.site = site);
    let head = "POST / HTTP/1.1\r\nhost: localhost\r\n";
    let sized = format!("{head}content-length: 9\r\n\r\nabc");
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n5\r\nabc");
    // `POST http /` of localhost on stream 1, and a part of its content.
    let post = b"\0\0\x0e\x01\x04\0\0\0\x01\x83\x86\x84\x01\x09localhost";
    let http2 = [PREFACE, post, b"\0\0\x03\0\0\0\0\0\x01abc"].concat();
    let over_tcp: [(&[u8], &[Way]); 3] = [
        (sized.as_bytes(), &[Way::Fin, Way::Rst]),
        (chunked.as_bytes(), &[Way::Fin, Way::Rst]),
        (&http2, &[Way::Fin, Way::ResetStream, Way::Rst]),
    ];
    for (request, ways) in over_tcp {
        for way in ways {
            let mut client = server.connect().await;
            client.write_all(request).await.unwrap();
            assert!(soon(told.recv()).await.unwrap().is_none());
            let _open = leave(client, *way).await;
            let error = soon(told.recv()).await.unwrap().unwrap();
            assert!(is_incomplete(&error), "{way:?}: {error:?}");
        }
    }
    let mut client = server.connect().await;
    client.write_all(chunked.as_bytes()).await.unwrap();
    assert!(soon(told.recv()).await.unwrap().is_none());
    client.write_all(b"de\r\nno size\r\n").await.unwrap();
    let error = soon(told.recv()).await.unwrap().unwrap();
    let error = error.downcast_ref();
    assert!(
        matches!(error, Some(RequestBodyError::Http1(_))),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_reads_learns_that_its_client_of_http3_has_left() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let site = reading(tell);
    let server = Running::tls(|options| options.site = site);
    let mut client = H3::connect(&server);
    for _ in 0..2 {
        let stream = client.begin_endless_post("/", b"abc".to_vec());
        client.wait_until(|| matches!(told.try_recv(), Ok(None)));
        client.give_up(stream);
        let error = soon(told.recv()).await.unwrap().unwrap();
        assert!(is_incomplete(&error), "{error:?}");
    }
}

/// Requests of one connection that wait at a time.
const MANY: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_http3_that_leaves_many_requests_behind_costs_nobody_else_the_connection() {
    let (server, mut seen) = waiting(false);
    let mut other = H3::connect(&server);
    let mut client = H3::connect(&server);
    for _ in 0..MANY {
        client.send("/");
    }
    let mut began = 0;
    client.wait_until(|| {
        while seen.began.try_recv().is_ok() {
            began += 1;
        }
        began == MANY
    });
    client.close();
    for _ in 0..MANY {
        soon(seen.dropped.recv()).await.unwrap();
    }
    assert_eq!(other.get("/nobody").0.status(), 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_a_service_ends_when_its_client_of_http2_has_closed_its_half() {
    let (server, mut seen) = waiting(true);
    let mut client = server.connect().await;
    // `GET http /stream` of localhost
    let request = b"\0\0\x16\x01\x05\0\0\0\x01\x82\x86\x04\x07/stream\x01\x09localhost";
    client
        .write_all(&[PREFACE, request].concat())
        .await
        .unwrap();
    soon(seen.began.recv()).await.unwrap();
    assert!(seen.dropped.try_recv().is_err());
    client.shutdown().await.unwrap();
    soon(seen.dropped.recv()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_fits_the_windows_comes_after_the_client_has_closed_its_half() {
    let server = Running::clear(|_| {});
    let mut client = server.connect().await;
    client
        .write_all(&[PREFACE, HTTP2_GET].concat())
        .await
        .unwrap();
    client.shutdown().await.unwrap();
    let mut received = Vec::new();
    soon(client.read_to_end(&mut received)).await.unwrap();
    let home = b"<p>home";
    assert!(received.windows(home.len()).any(|bytes| bytes == home));
}

/// Asks for a file twice over HTTP/1.1 and closes its half; how much has come at the end.
async fn half_closed(mut client: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> usize {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(2);
    client.write_all(request.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    let mut received = Vec::new();
    soon(client.read_to_end(&mut received)).await.unwrap();
    received.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_come_whole_over_http1_after_the_client_has_closed_its_half() {
    let (clear, tls) = (Running::clear(|_| {}), Running::tls(|_| {}));
    let home = "<p>home".len();
    for (path, size) in [("/", home), ("/large", LARGE)] {
        assert!(
            half_closed(clear.connect().await, path).await > 2 * size,
            "{path}"
        );
        let client = tls.connect_tls(&[b"http/1.1"]).await;
        assert!(
            half_closed(client, path).await > 2 * size,
            "{path} over TLS"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_reads_learns_that_its_client_of_http1_has_closed_its_half() {
    const NEVER: Duration = Duration::from_secs(24 * 60 * 60);
    let echo = |request: axum::extract::Request| async move { request.into_body() };
    let router = Router::new().route("/", on_get(echo).post(echo));
    let server = Running::clear(|options| {
        options.site = Site::service(router);
        options.limits.idle_timeout = NEVER;
        options.limits.header_timeout = NEVER;
    });
    for content in [&b""[..], b"5\r\nhello\r\n"] {
        let mut client = server.connect().await;
        let head = b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
        client.write_all(&[head, content].concat()).await.unwrap();
        let mut received = [0; 1024];
        let n = soon(client.read(&mut received)).await.unwrap();
        assert!(received[..n].starts_with(b"HTTP/1.1 200"));
        client.shutdown().await.unwrap();
        let mut rest = Vec::new();
        soon(client.read_to_end(&mut rest)).await.unwrap();
        assert!(!rest.ends_with(b"0\r\n\r\n"), "the response is cut off");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_is_given_up_when_the_client_has_closed_its_half() {
    let server = Running::clear(|_| {});
    let mut client = server.connect().await;
    // `GET http /large` of localhost
    let request = b"\0\0\x15\x01\x05\0\0\0\x01\x82\x86\x04\x06/large\x01\x09localhost";
    client
        .write_all(&[PREFACE, request].concat())
        .await
        .unwrap();
    client.shutdown().await.unwrap();
    let mut received = Vec::new();
    soon(client.read_to_end(&mut received)).await.unwrap();
    // What the windows allow, and RST_STREAM with CANCEL.
    assert!(received.len() > 65_535 && received.len() < 100_000);
    assert!(received.windows(CANCEL.len()).any(|bytes| bytes == CANCEL));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_http3_whose_responses_are_stopped_are_counted() {
    let server = Running::tls(|options| options.threads = NonZeroUsize::MIN);
    let mut client = H3::connect(&server);
    for _ in 0..80 {
        // Fewer at once than may be open.
        for _ in 0..10 {
            if !client.ask_and_stop("/") {
                break;
            }
        }
        client.pump();
        if let Some(reason) = client.ended() {
            assert!(reason.contains("EXCESSIVE_LOAD"), "{reason}");
            // Nobody else is concerned.
            assert_eq!(H3::connect(&server).get("/").1, b"<p>home");
            let mut other = h2(server.connect_tls(&[b"h2"]).await).await;
            let response = soon(other.send_request(get("/"))).await.unwrap();
            assert_eq!(soon(read(response)).await, b"<p>home");
            return;
        }
    }
    panic!("800 requests were stopped, and the connection goes on");
}
