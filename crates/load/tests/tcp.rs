//! HTTP/1.1 and HTTP/2 against servers that behave, misbehave and vanish.
#![allow(clippy::unwrap_used, reason = "set-up that fails is a failed test")]

mod common;

use altway_load::{Error, Options, Stop, Trust};
use altway_record::Protocol;
use bytes::Bytes;
use common::{Identity, assert_sound, count, options, requests, run};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

const PAGE: &[u8] = &[b'x'; 10_000];

/// Answer of a server, and the time after which it is sent.
#[derive(Clone)]
struct Answer {
    status: u16,
    header: Option<(&'static str, &'static str)>,
    delay: Duration,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            status: 200,
            header: None,
            delay: Duration::ZERO,
        }
    }
}

async fn answer(answer: Answer, request: Request<Incoming>) -> Response<Full<Bytes>> {
    assert_eq!(request.uri().path(), "/page");
    tokio::time::sleep(answer.delay).await;
    let mut response = Response::builder().status(answer.status);
    if let Some((name, value)) = answer.header {
        response = response.header(name, value);
    }
    response.body(Full::new(Bytes::from_static(PAGE))).unwrap()
}

async fn serve_http<S>(stream: S, http2: bool, what: Answer)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    let service = service_fn(move |request| {
        let what = what.clone();
        async { Ok::<_, Infallible>(answer(what, request).await) }
    });
    if http2 {
        let server = http2::Builder::new(TokioExecutor::new());
        let _ = server.serve_connection(io, service).await;
    } else {
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new());
        let _ = server.serve_connection(io, service).await;
    }
}

/// Serves each connection by `serve` until the handle is aborted.
async fn listen<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> (SocketAddr, JoinHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let handle = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            connections.spawn(serve(stream));
        }
    });
    (address, handle)
}

async fn clear_text(http2: bool, what: Answer) -> SocketAddr {
    let serve = move |stream| serve_http(stream, http2, what.clone());
    listen(serve).await.0
}

async fn with_tls(identity: &Identity, alpn: &[&str], what: Answer) -> SocketAddr {
    let acceptor = TlsAcceptor::from(Arc::new(identity.server_config(alpn)));
    let serve = move |stream| {
        let (acceptor, what) = (acceptor.clone(), what.clone());
        async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            serve_http(stream, http2, what).await;
        }
    };
    listen(serve).await.0
}

/// Reads the request's head, writes `bytes`, hangs up.
async fn scripted(bytes: &'static [u8]) -> SocketAddr {
    let serve = move |mut stream: TcpStream| async move {
        let mut head = [0; 1_024];
        let _ = stream.read(&mut head).await;
        let _ = stream.write_all(bytes).await;
    };
    listen(serve).await.0
}

async fn secure_options(protocol: Protocol, alpn: &[&str], what: Answer) -> (Options, Identity) {
    let identity = Identity::new();
    let server = with_tls(&identity, alpn, what).await;
    let mut options = options("https", protocol, server);
    options.trust = identity.trust();
    (options, identity)
}

#[tokio::test]
async fn one_request_over_tls_opens_one_connection() {
    for (protocol, alpn) in [(Protocol::H1, "http/1.1"), (Protocol::H2, "h2")] {
        let (options, _identity) = secure_options(protocol, &[alpn], Answer::default()).await;
        let (records, summary) = run(&options).await;
        assert_eq!(records.len(), 1);
        assert_sound(&records, protocol, PAGE.len() as u64);
        let summary = summary.unwrap();
        assert_eq!(
            (summary.requests, summary.failed, summary.connections),
            (1, 0, 1)
        );
        assert_eq!(summary.connect.unwrap().count, 1);
    }
}

#[tokio::test]
async fn connections_begin_evenly_over_the_ramp() {
    let accepted = Arc::new(Mutex::new(Vec::new()));
    let times = Arc::clone(&accepted);
    let serve = move |stream| {
        times.lock().unwrap().push(Instant::now());
        let answer = Answer {
            delay: Duration::from_millis(10),
            ..Answer::default()
        };
        serve_http(stream, true, answer)
    };
    let (server, _) = listen(serve).await;
    let mut options = options("http", Protocol::H2, server);
    options.connections = count(4);
    options.stop = Stop::Time(Duration::from_secs(2));
    options.ramp = Duration::from_millis(400);
    let begun = Instant::now();
    let (records, summary) = run(&options).await;
    assert_sound(&records, Protocol::H2, PAGE.len() as u64);
    assert_eq!(summary.unwrap().connections, 4);
    let accepted = accepted.lock().unwrap();
    for (ordinal, accepted) in (0..).zip(accepted.iter()) {
        let after = *accepted - begun;
        assert!(
            after >= Duration::from_millis(100) * ordinal,
            "{ordinal}: {after:?}"
        );
    }
}

#[tokio::test]
async fn a_run_ends_before_its_ramp_when_nothing_is_left_to_send() {
    let server = clear_text(true, Answer::default()).await;
    let mut options = options("http", Protocol::H2, server);
    options.connections = count(3);
    options.stop = requests(20);
    options.ramp = Duration::from_secs(3600);
    let (records, summary) = run(&options).await;
    assert_sound(&records, Protocol::H2, PAGE.len() as u64);
    let summary = summary.unwrap();
    assert_eq!((summary.requests, summary.connections), (20, 1));
    assert!(summary.wall_us < 600_000_000);
}

#[tokio::test]
async fn requests_are_exactly_n_over_all_connections_and_streams() {
    let (mut options, _identity) =
        secure_options(Protocol::H2, &["h2", "http/1.1"], Answer::default()).await;
    options.connections = count(3);
    options.stop = requests(100);
    let options = options.with_streams(count(7)).unwrap();
    let (records, summary) = run(&options).await;
    assert_eq!(records.len(), 100);
    assert_sound(&records, Protocol::H2, PAGE.len() as u64);
    let summary = summary.unwrap();
    assert_eq!((summary.requests, summary.connections), (100, 3));
    assert_eq!(summary.body_bytes, 100 * PAGE.len() as u64);
}

#[tokio::test]
async fn streams_of_a_connection_run_side_by_side() {
    // One after the other they would take five seconds.
    let delay = Duration::from_millis(500);
    let what = Answer {
        delay,
        ..Answer::default()
    };
    let mut options = options("http", Protocol::H2, clear_text(true, what).await);
    options.stop = requests(10);
    let (records, summary) = run(&options.with_streams(count(10)).unwrap()).await;
    assert_sound(&records, Protocol::H2, PAGE.len() as u64);
    assert!(summary.unwrap().wall_us < 6 * delay.as_micros() as u64);
}

#[tokio::test]
async fn more_connections_than_requests_open_only_what_is_needed() {
    let mut options = options(
        "http",
        Protocol::H1,
        clear_text(false, Answer::default()).await,
    );
    options.connections = count(20);
    options.stop = requests(2);
    let (records, summary) = run(&options).await;
    assert_sound(&records, Protocol::H1, PAGE.len() as u64);
    assert_eq!((records.len(), summary.unwrap().connections), (2, 2));
}

#[tokio::test]
async fn http2_is_not_spoken_with_a_server_of_http1() {
    let (options, _identity) = secure_options(Protocol::H2, &["http/1.1"], Answer::default()).await;
    let (records, summary) = run(&options).await;
    assert_eq!((records.len(), records[0].protocol_used), (1, None));
    let error = records[0].error.as_ref().unwrap();
    assert!(error.starts_with("TLS handshake failed"), "{error}");
    assert!(
        matches!(summary, Err(Error::NeverConnected { .. })),
        "{summary:?}"
    );
}

#[tokio::test]
async fn http2_is_not_spoken_with_a_server_that_chooses_nothing() {
    let (options, _identity) = secure_options(Protocol::H2, &[], Answer::default()).await;
    let (records, summary) = run(&options).await;
    let error = records[0].error.as_deref();
    assert_eq!(
        error,
        Some("asked for h2, but the server chose no protocol")
    );
    assert!(matches!(summary, Err(Error::NeverConnected { .. })));
}

#[tokio::test]
async fn http2_in_clear_text_fails_on_a_server_of_http1() {
    let server = scripted(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
    let (records, _) = run(&options("http", Protocol::H2, server)).await;
    assert_eq!((records.len(), records[0].status), (1, None));
    let error = records[0].error.as_deref();
    assert_eq!(error, Some("asked for h2, but the server chose http/1.1"));
}

#[tokio::test]
async fn a_certificate_of_another_ca_is_refused() {
    let (mut options, _identity) =
        secure_options(Protocol::H1, &["http/1.1"], Answer::default()).await;
    let other = Identity::new();
    options.trust = other.trust();
    let (records, _) = run(&options).await;
    let error = records[0].error.as_ref().unwrap();
    assert!(error.contains("invalid peer certificate"), "{error}");
    options.trust = Trust::Insecure;
    assert_sound(&run(&options).await.0, Protocol::H1, PAGE.len() as u64);
}

#[tokio::test]
async fn a_status_is_a_fact_and_no_error() {
    let what = Answer {
        status: 500,
        ..Answer::default()
    };
    let options = options("http", Protocol::H1, clear_text(false, what).await);
    let (records, summary) = run(&options).await;
    assert_eq!((records[0].status, &records[0].error), (Some(500), &None));
    let summary = summary.unwrap();
    assert_eq!((summary.failed, summary.statuses[&500]), (0, 1));
}

#[tokio::test]
async fn a_truncated_body_is_an_error_and_the_run_goes_on() {
    let server = scripted(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc").await;
    let mut options = options("http", Protocol::H1, server);
    options.stop = requests(3);
    let (records, summary) = run(&options).await;
    let summary = summary.unwrap();
    assert_eq!(
        (summary.requests, summary.failed, summary.connections),
        (3, 3, 3)
    );
    assert_eq!((records[2].bytes, records[2].status), (3, Some(200)));
    assert_eq!(summary.errors.len(), 1, "{:?}", summary.errors);
}

#[tokio::test]
async fn a_body_shorter_than_announced_fails_over_http2() {
    let what = Answer {
        header: Some(("content-length", "20000")),
        ..Answer::default()
    };
    let mut options = options("http", Protocol::H2, clear_text(true, what).await);
    options.stop = requests(3);
    let (records, summary) = run(&options).await;
    assert_eq!(records.len(), 3);
    assert_eq!(summary.unwrap().failed, 3);
}

#[tokio::test]
async fn a_server_that_never_answers_times_out_every_request() {
    let silent = Answer {
        delay: Duration::from_secs(60),
        ..Answer::default()
    };
    for (protocol, http2) in [(Protocol::H1, false), (Protocol::H2, true)] {
        let mut options = options("http", protocol, clear_text(http2, silent.clone()).await);
        options.timeout = Duration::from_millis(500);
        options.stop = requests(3);
        let (records, summary) = run(&options).await;
        assert_eq!(records.len(), 3);
        for record in &records {
            assert_eq!(record.error.as_deref(), Some("timed out after 500ms"));
            assert_eq!((record.first_byte_us, record.status), (None, None));
            assert!(
                (500_000..30_000_000).contains(&record.total_us),
                "{record:?}"
            );
        }
        let connections = if http2 { 1 } else { 3 };
        assert_eq!(summary.unwrap().connections, connections);
    }
}

#[tokio::test]
async fn a_server_that_never_ends_its_handshake_times_out() {
    let serve = |stream| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop::<TcpStream>(stream);
    };
    let (server, _) = listen(serve).await;
    let mut options = options("https", Protocol::H2, server);
    options.trust = Trust::Insecure;
    options.timeout = Duration::from_millis(40);
    let (records, summary) = run(&options).await;
    assert_eq!(records[0].error.as_deref(), Some("timed out after 40ms"));
    assert!(matches!(summary, Err(Error::NeverConnected { .. })));
}

#[tokio::test]
async fn connections_that_the_server_closes_are_opened_anew() {
    let what = Answer {
        header: Some(("connection", "close")),
        ..Answer::default()
    };
    let mut options = options("http", Protocol::H1, clear_text(false, what).await);
    options.connections = count(2);
    options.stop = requests(10);
    let (records, summary) = run(&options).await;
    assert_sound(&records, Protocol::H1, PAGE.len() as u64);
    let summary = summary.unwrap();
    assert_eq!((summary.requests, summary.connections), (10, 10));
}

#[tokio::test]
async fn a_refused_connection_is_a_record_and_a_clear_error() {
    let (server, handle) = listen(|_| async {}).await;
    handle.abort();
    let _ = handle.await;
    let (records, summary) = run(&options("http", Protocol::H1, server)).await;
    assert_eq!((records.len(), records[0].connect_us), (1, None));
    let text = summary.unwrap_err().to_string();
    let authority = format!("localhost:{}", server.port());
    assert!(
        text.starts_with(&format!("cannot connect to {authority}: ")),
        "{text}"
    );
    assert!(text.to_lowercase().contains("connection refused"), "{text}");
}

#[tokio::test]
async fn a_server_that_vanishes_ends_the_run_with_what_was_measured() {
    let serve = |stream| serve_http(stream, false, Answer::default());
    let (server, handle) = listen(serve).await;
    let mut options = options("http", Protocol::H1, server);
    options.stop = requests(1_000_000);
    let mut records = 0_u64;
    let result = altway_load::run(&options, |_| {
        records += 1;
        if records == 50 {
            handle.abort();
        }
    });
    let error = result.await.unwrap_err();
    assert!(
        matches!(error, Error::Lost { requests, .. } if requests == records),
        "{error}"
    );
    assert!((60..100).contains(&records), "{records}");
}

#[tokio::test]
async fn a_timed_run_starts_nothing_after_its_end_and_awaits_the_rest() {
    let what = Answer {
        delay: Duration::from_millis(300),
        ..Answer::default()
    };
    let mut options = options("http", Protocol::H1, clear_text(false, what).await);
    options.stop = Stop::Time(Duration::from_secs(1));
    let (records, summary) = run(&options).await;
    assert_sound(&records, Protocol::H1, PAGE.len() as u64);
    assert!(records.iter().all(|record| record.start_us < 1_000_000));
    assert!((1..=4).contains(&records.len()), "{}", records.len());
    let last = records.last().unwrap();
    assert_eq!(summary.unwrap().wall_us, last.start_us + last.total_us);
}

#[tokio::test]
async fn an_open_loop_keeps_its_rate_and_counts_the_wait() {
    let what = Answer {
        delay: Duration::from_millis(20),
        ..Answer::default()
    };
    let mut options = options("http", Protocol::H1, clear_text(false, what).await);
    options.rate = Some(count(200));
    options.stop = requests(10);
    let (records, _) = run(&options).await;
    assert_sound(&records, Protocol::H1, PAGE.len() as u64);
    let starts: Vec<_> = records.iter().map(|record| record.start_us).collect();
    assert_eq!(starts, (0..10).map(|k| k * 5_000).collect::<Vec<_>>());
    // One stream that needs 20 ms a request, fed every 5 ms: the last one waits 9 × 15 ms first.
    assert!(records[9].total_us >= 155_000 - 2_000, "{:?}", records[9]);
}

#[tokio::test]
async fn an_open_loop_over_its_capacity_says_what_it_left_out() {
    let what = Answer {
        delay: Duration::from_millis(50),
        ..Answer::default()
    };
    let mut options = options("http", Protocol::H1, clear_text(false, what).await);
    options.rate = Some(count(100));
    options.stop = Stop::Time(Duration::from_secs(1));
    let (records, summary) = run(&options).await;
    assert_eq!(summary.unwrap().unsent, 100 - records.len() as u64);
}

#[tokio::test]
async fn names_are_resolved_and_a_missing_one_is_an_error() {
    let server = clear_text(false, Answer::default()).await;
    let mut options = options("http", Protocol::H1, server);
    options.connect_to = None;
    assert_sound(&run(&options).await.0, Protocol::H1, PAGE.len() as u64);
    let missing = Options::new("http://missing.invalid/", Protocol::H1).unwrap();
    let (records, result) = run(&missing).await;
    assert_eq!(records.len(), 0);
    assert_eq!(
        result.unwrap_err().to_string(),
        "cannot resolve `missing.invalid`"
    );
}
