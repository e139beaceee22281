//! HTTP/2 against a foreign server (the `h2` crate) that refuses, resets, stalls, says goodbye and
//! breaks the rules.
#![allow(clippy::unwrap_used, reason = "set-up that fails is a failed test")]

mod common;

use altway_load::Options;
use altway_record::{Protocol, RequestRecord};
use bytes::Bytes;
use common::{assert_sound, count, options, requests, run};
use h2::server::{Builder, SendResponse};
use h2::{Reason, SendStream};
use http::Response;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const PAGE: &[u8] = &[b'x'; 10_000];
const PAUSE: Duration = Duration::from_millis(60);

/// Behaviour of the server to the requests of a connection, of which the first is number 1.
#[derive(Clone, Copy)]
enum Script {
    Answer,
    /// Answers so many bytes.
    Large(usize),
    /// Allows so many streams, and takes its time.
    Narrow(u32),
    /// Refuses each third request.
    Refuse,
    /// Resets each second body in its middle.
    ResetBody,
    /// Sends the body in five pieces, with a pause before each.
    Drip,
    /// Stops in the middle of the body.
    Stall,
    /// Announces the end with this request, and answers what comes until the client knows.
    LeaveAt(usize),
    /// Says goodbye for a reason, without an answer, when this request comes.
    QuitAt(usize, Reason),
    /// Hangs up when this request comes.
    CutAt(usize),
}

/// Streams that the server saw.
#[derive(Default)]
struct Seen {
    open: AtomicUsize,
    most_open: AtomicUsize,
}

struct Peer {
    options: Options,
    seen: Arc<Seen>,
    /// The code of each reset that came for a stalled body.
    resets: mpsc::UnboundedReceiver<Reason>,
    _listener: JoinSet<()>,
}

async fn peer(script: Script) -> Peer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = options("http", Protocol::H2, listener.local_addr().unwrap());
    let seen = Arc::new(Seen::default());
    let (sender, resets) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    let shared = Arc::clone(&seen);
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            connections.spawn(serve(stream, script, Arc::clone(&shared), sender.clone()));
        }
    });
    Peer {
        options,
        seen,
        resets,
        _listener: tasks,
    }
}

async fn serve(
    stream: TcpStream,
    script: Script,
    seen: Arc<Seen>,
    resets: mpsc::UnboundedSender<Reason>,
) {
    let mut builder = Builder::new();
    if let Script::Narrow(limit) = script {
        builder.max_concurrent_streams(limit);
    }
    let mut connection = builder.handshake::<_, Bytes>(stream).await.unwrap();
    let (mut tasks, mut number) = (JoinSet::new(), 0);
    while let Some(Ok((request, respond))) = connection.accept().await {
        assert_eq!(request.uri().path(), "/page");
        number += 1;
        match script {
            Script::LeaveAt(n) if n == number => connection.graceful_shutdown(),
            Script::QuitAt(n, reason) if n == number => connection.abrupt_shutdown(reason),
            Script::CutAt(n) if n == number => return,
            _ => {}
        }
        let (seen, resets) = (Arc::clone(&seen), resets.clone());
        tasks.spawn(async move {
            let open = seen.open.fetch_add(1, Relaxed) + 1;
            seen.most_open.fetch_max(open, Relaxed);
            answer(script, number, respond, &resets).await;
            seen.open.fetch_sub(1, Relaxed);
        });
    }
}

async fn answer(
    script: Script,
    number: usize,
    mut respond: SendResponse<Bytes>,
    resets: &mpsc::UnboundedSender<Reason>,
) {
    match script {
        Script::Refuse if number.is_multiple_of(3) => respond.send_reset(Reason::REFUSED_STREAM),
        Script::QuitAt(..) | Script::CutAt(_) => std::future::pending().await,
        Script::Large(size) => send(&mut head(&mut respond), vec![b'x'; size].into(), true),
        Script::Narrow(_) => {
            tokio::time::sleep(PAUSE).await;
            send(&mut head(&mut respond), PAGE.into(), true);
        }
        Script::ResetBody if number.is_multiple_of(2) => {
            let mut body = half(&mut respond).await;
            body.send_reset(Reason::INTERNAL_ERROR);
        }
        Script::Drip => {
            let mut body = head(&mut respond);
            for piece in PAGE.chunks(PAGE.len() / 5) {
                tokio::time::sleep(PAUSE).await;
                send(&mut body, piece.into(), false);
            }
            send(&mut body, Bytes::new(), true);
        }
        Script::Stall => {
            let mut body = half(&mut respond).await;
            let reset = poll_fn(|cx| body.poll_reset(cx)).await;
            resets.send(reset.unwrap()).unwrap();
        }
        _ => send(&mut head(&mut respond), PAGE.into(), true),
    }
}

fn head(respond: &mut SendResponse<Bytes>) -> SendStream<Bytes> {
    respond.send_response(Response::new(()), false).unwrap()
}

/// The head, and 4,000 bytes that have left.
async fn half(respond: &mut SendResponse<Bytes>) -> SendStream<Bytes> {
    let mut body = head(respond);
    send(&mut body, PAGE[..4_000].into(), false);
    tokio::time::sleep(PAUSE).await;
    body
}

fn send(body: &mut SendStream<Bytes>, data: Bytes, end: bool) {
    body.send_data(data, end).unwrap();
}

fn errors(records: &[RequestRecord]) -> Vec<&str> {
    let errors = records.iter().map(|record| record.error.as_deref());
    errors.flatten().collect()
}

#[tokio::test]
async fn a_goodbye_in_the_middle_costs_no_request() {
    let peer = peer(Script::LeaveAt(10)).await;
    let mut options = peer.options.with_streams(count(4)).unwrap();
    options.stop = requests(100);
    let (records, summary) = run(&options).await;
    assert_sound(&records, Protocol::H2, PAGE.len() as u64);
    let connections = summary.unwrap().connections;
    assert!((5..=10).contains(&connections), "{connections}");
}

#[tokio::test]
async fn a_goodbye_for_a_reason_fails_what_is_in_flight_and_tells_it() {
    let peer = peer(Script::QuitAt(5, Reason::ENHANCE_YOUR_CALM)).await;
    let mut options = peer.options.with_streams(count(5)).unwrap();
    options.stop = requests(10);
    let (records, summary) = run(&options).await;
    assert_eq!(
        errors(&records),
        ["connection lost: closed by peer: ENHANCE_YOUR_CALM"; 10]
    );
    assert_eq!(summary.unwrap().connections, 2);
}

#[tokio::test]
async fn a_connection_that_is_cut_fails_its_requests_and_is_opened_anew() {
    let peer = peer(Script::CutAt(3)).await;
    let mut options = peer.options.with_streams(count(3)).unwrap();
    options.stop = requests(6);
    let (records, summary) = run(&options).await;
    let errors = errors(&records);
    assert_eq!(errors.len(), 6);
    assert!(
        errors.iter().all(|e| e.starts_with("connection lost: ")),
        "{errors:?}"
    );
    assert_eq!(summary.unwrap().connections, 2);
}

#[tokio::test]
async fn a_refused_request_has_failed_and_is_not_sent_again() {
    let peer = peer(Script::Refuse).await;
    let mut options = peer.options;
    options.stop = requests(9);
    let (records, summary) = run(&options).await;
    assert_eq!(errors(&records), ["stream reset: REFUSED_STREAM"; 3]);
    let summary = summary.unwrap();
    assert_eq!((summary.requests, summary.connections), (9, 1));
}

#[tokio::test]
async fn a_server_of_few_streams_makes_requests_wait_and_refuses_none() {
    let peer = peer(Script::Narrow(3)).await;
    for (streams, n) in [(10, 30), (12, 10)] {
        let mut options = peer.options.clone().with_streams(count(streams)).unwrap();
        options.stop = requests(n);
        let (records, summary) = run(&options).await;
        let sound: Vec<_> = records.iter().filter(|r| r.error.is_none()).collect();
        assert_eq!(sound.len() as u64, n, "{:?}", errors(&records));
        assert_eq!(summary.unwrap().connections, 1);
        // Three at a time: the last one waited for the others.
        let longest = records.iter().map(|record| record.total_us).max().unwrap();
        assert!(longest >= 3 * PAUSE.as_micros() as u64, "{longest}");
    }
    assert_eq!(peer.seen.most_open.load(Relaxed), 3);
}

#[tokio::test]
async fn a_reset_body_fails_its_request_alone() {
    let peer = peer(Script::ResetBody).await;
    let mut options = peer.options.with_streams(count(2)).unwrap();
    options.stop = requests(10);
    let (records, summary) = run(&options).await;
    assert_eq!(errors(&records), ["stream reset: INTERNAL_ERROR"; 5]);
    for record in &records {
        let bytes = if record.error.is_some() {
            4_000
        } else {
            10_000
        };
        assert_eq!((record.status, record.bytes), (Some(200), bytes));
        assert!(record.first_byte_us.is_some());
    }
    assert_eq!(summary.unwrap().connections, 1);
}

#[tokio::test]
async fn a_slow_body_is_timed_from_its_first_byte_to_its_last() {
    let peer = peer(Script::Drip).await;
    let (records, _) = run(&peer.options).await;
    assert_sound(&records, Protocol::H2, PAGE.len() as u64);
    let first_byte = records[0].first_byte_us.unwrap();
    let body = records[0].total_us - first_byte;
    assert!(
        body >= 4 * PAUSE.as_micros() as u64,
        "{first_byte} + {body} µs"
    );
}

#[tokio::test]
async fn a_stalled_body_times_out_and_is_cancelled_without_the_connection() {
    let mut peer = peer(Script::Stall).await;
    let mut options = peer.options.with_streams(count(2)).unwrap();
    options.timeout = Duration::from_secs(1);
    options.stop = requests(4);
    let (records, summary) = run(&options).await;
    assert_eq!(errors(&records), ["timed out after 1s"; 4]);
    for record in &records {
        assert_eq!((record.bytes, record.status), (4_000, Some(200)));
    }
    assert_eq!(summary.unwrap().connections, 1);
    assert_eq!(peer.resets.recv().await, Some(Reason::CANCEL));
}

#[tokio::test]
async fn bodies_larger_than_the_windows_arrive_whole() {
    let size = 40 << 20;
    let peer = peer(Script::Large(size)).await;
    let mut options = peer.options.with_streams(count(2)).unwrap();
    options.stop = requests(2);
    let (records, _) = run(&options).await;
    assert_sound(&records, Protocol::H2, size as u64);
}

#[tokio::test]
async fn an_open_loop_keeps_its_rate_over_streams() {
    let peer = peer(Script::Answer).await;
    let mut options = peer.options.with_streams(count(20)).unwrap();
    options.rate = Some(count(200));
    options.stop = requests(20);
    let (records, summary) = run(&options).await;
    assert_sound(&records, Protocol::H2, PAGE.len() as u64);
    let mut starts: Vec<_> = records.iter().map(|record| record.start_us).collect();
    starts.sort_unstable();
    assert_eq!(starts, (0..20).map(|k| k * 5_000).collect::<Vec<_>>());
    assert_eq!(summary.unwrap().connections, 1);
}

#[tokio::test]
async fn requests_that_cannot_be_sent_keep_no_other_connection_waiting() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = options("http", Protocol::H2, listener.local_addr().unwrap());
    options.connections = count(2);
    options.stop = requests(1_000);
    let _server = tokio::spawn(async move {
        let mut streams = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // SETTINGS_MAX_HEADER_LIST_SIZE of 10 bytes; the head of a 204 that ends stream 1.
            let said = b"\0\0\x06\x04\0\0\0\0\0\0\x06\0\0\0\x0a\0\0\x01\x01\x05\0\0\0\x01\x89";
            stream.write_all(said).await.unwrap();
            streams.push(stream);
        }
    });
    let (records, _) = run(&options).await;
    assert_eq!(records.len(), 1_000);
    let unsent = |connection| {
        let own = records.iter().filter(|it| it.connection == connection);
        let errors = own.filter_map(|it| it.error.as_deref());
        let too_large = errors.filter(|error| error.ends_with("exceeds the peer's limit of 10"));
        too_large.count()
    };
    let (one, other) = (unsent(0), unsent(1));
    assert_eq!(one + other, 998);
    assert!(one > 100 && other > 100, "{one} and {other}");
}

#[tokio::test]
async fn a_server_that_breaks_the_protocol_is_told_and_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = options("http", Protocol::H2, listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // SETTINGS; DATA on stream 7.
        let said = b"\0\0\0\x04\0\0\0\0\0\0\0\x01\0\0\0\0\0\x07x";
        stream.write_all(said).await.unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.unwrap();
        heard
    });
    let (records, _) = run(&options).await;
    assert_eq!(
        errors(&records),
        ["connection lost: closed by us: PROTOCOL_ERROR: DATA on an idle stream"]
    );
    // GOAWAY with last stream 0 and PROTOCOL_ERROR.
    let goaway = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x01";
    assert!(server.await.unwrap().ends_with(goaway));
}

#[tokio::test]
async fn a_run_ends_with_a_goodbye() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = options("http", Protocol::H2, listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // SETTINGS; the head of a 204 that ends stream 1.
        let said = b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x05\0\0\0\x01\x89";
        stream.write_all(said).await.unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.unwrap();
        heard
    });
    let (records, _) = run(&options).await;
    assert_eq!((records[0].status, errors(&records).len()), (Some(204), 0));
    let goaway = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";
    assert!(server.await.unwrap().ends_with(goaway));
}
