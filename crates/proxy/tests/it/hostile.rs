//! Servers of HTTP/2 that mean harm: what they do to one request ends with it, and keeps no other waiting.

use crate::common::{Client, Connection, TIME_LIMIT, VERSIONS, http2_origin, origin, proxy, tcp};
use altway_upstream::Protocol;
use h2::Reason;
use http::{Request, Version};
use http_body_util::BodyExt as _;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
/// A type that nobody knows.
const UNKNOWN: u8 = 0xfa;

/// Times that a request is sent again at most, beyond its attempts, where a server says that it has not begun.
const RESENDS: usize = 5;

/// Bytes that the kernel holds of what a server sends.
const SEND_BUFFER: usize = 64 << 10;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// Sections of fields: the status alone, and with a length, or two.
const OK: &[u8] = &[0x88];
const EARLY_HINTS: &[u8] = &[0x08, 3, b'1', b'0', b'3'];
const FIVE_BYTES: &[u8] = &[0x88, 0x0f, 0x0d, 1, b'5'];
const FIVE_OR_SIX_BYTES: &[u8] = &[0x88, 0x0f, 0x0d, 1, b'5', 0x0f, 0x0d, 1, b'6'];

/// A frame: its type, flags and payload.
#[derive(Clone, Copy)]
struct Frame(u8, u8, &'static [u8]);

impl Frame {
    /// The frame as it is sent on a stream, or on the connection where it is about that.
    fn bytes(self, stream: [u8; 4]) -> Vec<u8> {
        let Self(kind, flags, payload) = self;
        let stream = match kind {
            SETTINGS | PING | GOAWAY | WINDOW_UPDATE => [0; 4],
            _ => stream,
        };
        let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
        let header = [0, length[0], length[1], kind, flags];
        [&header[..], &stream, payload].concat()
    }
}

/// The answer to a request: frames, and frames that follow without end.
#[derive(Clone, Copy)]
struct Flood(&'static [Frame], Frame);

/// Messages to the task that writes to a connection.
enum Write {
    Once(Vec<u8>),
    WithoutEnd(Vec<u8>),
}

/// Writes what it is told, as long as the connection is there.
fn write(mut stream: TcpStream, told: &mpsc::Receiver<Write>) {
    let mut flood = Vec::new();
    loop {
        let next = match flood.is_empty() {
            true => told.recv().ok(),
            false => match told.try_recv() {
                Err(mpsc::TryRecvError::Empty) => Some(Write::Once(flood.clone())),
                told => told.ok(),
            },
        };
        let bytes = match next {
            None => return,
            Some(Write::Once(bytes)) => bytes,
            Some(Write::WithoutEnd(bytes)) => {
                flood = bytes.repeat(1_000);
                continue;
            }
        };
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// Speaks HTTP/2 on a connection, and has `answer` say what to write for a request on a stream.
fn serve(mut connection: Connection, mut answer: impl FnMut([u8; 4], &dyn Fn(Write))) {
    let (tell, told) = mpsc::channel();
    let stream = connection.reader.get_ref().try_clone().unwrap();
    // Else answers wait behind megabytes of a flood.
    let socket = socket2::SockRef::from(&stream);
    socket.set_send_buffer_size(SEND_BUFFER).unwrap();
    std::thread::spawn(move || write(stream, &told));
    let tell = |what| {
        // The proxy may have gone.
        let _ = tell.send(what);
    };
    let once = |frame: Frame| tell(Write::Once(frame.bytes([0; 4])));
    let Some([..]) = connection.try_read::<24>() else {
        return;
    };
    once(Frame(SETTINGS, 0, &[]));
    while let Some([_, high, low, kind, flags, stream @ ..]) = connection.try_read::<9>() {
        let len = u16::from_be_bytes([high, low]);
        let bytes = (0..len).filter_map(|_| connection.try_read::<1>());
        let payload: Vec<u8> = bytes.flatten().collect();
        match kind {
            PING if flags & ACK == 0 => {
                let header = Frame(PING, ACK, &[0; 8]).bytes(stream);
                tell(Write::Once([&header[..9], &payload].concat()));
            }
            SETTINGS if flags & ACK == 0 => once(Frame(SETTINGS, ACK, &[])),
            HEADERS => answer(stream, &tell),
            _ => {}
        }
    }
}

/// A server that answers the first request of all with a flood, of which the receiver is told, and others with 200.
fn flooding(flood: Flood) -> (altway_upstream::Server, UnboundedReceiver<()>) {
    let (begin, began) = unbounded_channel();
    let has_begun = Arc::new(AtomicBool::new(false));
    let address = origin(move |connection| {
        serve(connection, |stream, tell| {
            if has_begun.swap(true, Ordering::SeqCst) {
                let ok = Frame(HEADERS, END_HEADERS | END_STREAM, OK);
                return tell(Write::Once(ok.bytes(stream)));
            }
            let Flood(first, next) = flood;
            let first = first.iter().flat_map(|it| it.bytes(stream)).collect();
            tell(Write::Once(first));
            tell(Write::WithoutEnd(next.bytes(stream)));
            let _ = begin.send(());
        });
    });
    (tcp(address, Protocol::Http2), began)
}

/// A server that answers each request with these frames, and counts them.
fn answering(frames: &'static [Frame]) -> (altway_upstream::Server, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let address = origin(move |connection| {
        serve(connection, |stream, tell| {
            count.fetch_add(1, Ordering::SeqCst);
            let bytes = frames.iter().flat_map(|it| it.bytes(stream)).collect();
            tell(Write::Once(bytes));
        });
    });
    (tcp(address, Protocol::Http2), asked)
}

fn to(server: altway_upstream::Server) -> altway_upstream::Options {
    altway_upstream::Options::new(vec![server])
}

async fn status(address: SocketAddr, request: http::request::Builder) -> u16 {
    let mut client = Client::new(address, Version::HTTP_2).await;
    let answer = timeout(TIME_LIMIT, client.ask(request, "")).await;
    answer.expect("it is answered").status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interim_responses_without_end_are_no_response_and_keep_nobody_waiting() {
    for version in VERSIONS {
        let hints = Frame(HEADERS, END_HEADERS, EARLY_HINTS);
        let (server, _began) = flooding(Flood(&[], hints));
        let running = proxy(to(server));
        let mut client = Client::new(running.address, version).await;
        let answer = timeout(TIME_LIMIT, client.ask(Request::get("/"), "")).await;
        let answer = answer.expect("it is given up");
        assert_eq!(answer.status(), 502, "{version:?}");
        assert_eq!(status(running.address, Request::get("/")).await, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_lead_nowhere_keep_no_other_request_waiting() {
    for next in [
        Frame(PING, 0, &[0; 8]),
        Frame(PING, ACK, &[0; 8]),
        Frame(SETTINGS, 0, &[]),
        Frame(WINDOW_UPDATE, 0, &[0, 0, 0, 1]),
        Frame(UNKNOWN, 0, &[]),
    ] {
        let (server, mut began) = flooding(Flood(&[], next));
        let running = proxy(to(server));
        let mut client = Client::new(running.address, Version::HTTP_2).await;
        let flooded = client.ask(Request::get("/"), "");
        let others = async {
            timeout(TIME_LIMIT, began.recv()).await.unwrap().unwrap();
            assert_eq!(status(running.address, Request::get("/")).await, 200);
        };
        tokio::select! {
            biased;
            () = others => {}
            answer = flooded => panic!("{answer:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_or_content_without_end_ends_the_request() {
    const HEAD: Frame = Frame(HEADERS, END_HEADERS, OK);
    for Flood(first, next) in [
        Flood(&[], Frame(DATA, 0, &[])),
        Flood(&[Frame(HEADERS, 0, OK)], Frame(CONTINUATION, 0, &[])),
        Flood(
            &[Frame(HEADERS, 0, OK)],
            Frame(CONTINUATION, 0, &[0x8e; 1_000]),
        ),
        Flood(&[], HEAD),
        Flood(&[HEAD], Frame(DATA, 0, &[])),
    ] {
        let (server, _began) = flooding(Flood(first, next));
        let running = proxy(to(server));
        let mut client = Client::new(running.address, Version::HTTP_2).await;
        let asked = async {
            let response = client.send(Request::post("/"), "").await.unwrap();
            let status = response.status();
            match response.into_body().collect().await {
                Ok(_) => assert_eq!(status, 502),
                Err(_) => assert_eq!(status, 200),
            }
        };
        timeout(TIME_LIMIT, asked).await.expect("it is given up");
        assert_eq!(status(running.address, Request::get("/")).await, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_response_is_not_asked_for_again() {
    const END: u8 = END_HEADERS | END_STREAM;
    for frames in [
        &[Frame(HEADERS, END, FIVE_BYTES)][..],
        &[Frame(HEADERS, END, FIVE_OR_SIX_BYTES)],
        &[Frame(HEADERS, END_HEADERS, FIVE_OR_SIX_BYTES)],
        &[Frame(HEADERS, END, EARLY_HINTS)],
        &[Frame(HEADERS, END, &[])],
    ] {
        let (server, asked) = answering(frames);
        let running = proxy(to(server));
        for requests in 1..=2 {
            assert_eq!(status(running.address, Request::get("/")).await, 502);
            assert_eq!(asked.load(Ordering::SeqCst), requests);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_resets_each_request_is_asked_for_one_a_few_times() {
    for reason in [
        Reason::NO_ERROR,
        Reason::REFUSED_STREAM,
        Reason::CANCEL,
        Reason::ENHANCE_YOUR_CALM,
    ] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let address = http2_origin(move |_, mut respond| {
            count.fetch_add(1, Ordering::SeqCst);
            respond.send_reset(reason);
        });
        let options = to(tcp(address.await, Protocol::Http2));
        let most = options.attempts as usize + RESENDS;
        let running = proxy(options);
        for requests in 1..=3 {
            assert_eq!(status(running.address, Request::get("/")).await, 502);
            let asked = asked.load(Ordering::SeqCst);
            assert!(asked <= requests * most, "{reason:?}: {asked} times");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_at_once_is_connected_to_a_few_times_for_a_request() {
    for is_asked_first in [false, true] {
        for code in [0, 11] {
            let connections = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&connections);
            let address = origin(move |connection| {
                count.fetch_add(1, Ordering::SeqCst);
                let go = Frame(
                    GOAWAY,
                    0,
                    match code {
                        0 => &[0; 8],
                        _ => &[0, 0, 0, 0, 0, 0, 0, 11],
                    },
                );
                if !is_asked_first {
                    let mut stream = connection.reader.get_ref().try_clone().unwrap();
                    let settings = Frame(SETTINGS, 0, &[]).bytes([0; 4]);
                    let _ = stream.write_all(&[settings, go.bytes([0; 4])].concat());
                }
                serve(connection, |stream, tell| {
                    tell(Write::Once(go.bytes(stream)));
                });
            });
            let options = to(tcp(address, Protocol::Http2));
            let most = options.attempts as usize + RESENDS;
            let running = proxy(options);
            for requests in 1..=3 {
                assert_eq!(status(running.address, Request::get("/")).await, 502);
                let connections = connections.load(Ordering::SeqCst);
                assert!(connections <= requests * most, "{code}: {connections}");
            }
        }
    }
}
