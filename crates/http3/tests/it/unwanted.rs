//! Request bodies that the server's application does not want: dropped up to a bound, so that a client
//! that sends before it reads has its response; and none keeps a connection.

use std::time::Duration;

use altway_http3::{Code, StreamId};
use bytes::Bytes;
use http::{Response, StatusCode};

use crate::apps::{Fetch, pattern, post};
use crate::misbehaviour::{DATA, request};
use crate::pair::{Pair, Path};
use crate::raw::{Raw, frame};

/// The defaults of `Limits::max_unwanted` and `Limits::linger`, and how late the latter may run out.
const MAX_UNWANTED: usize = 16 << 20;
const LINGER: Duration = Duration::from_secs(5);
const LATE: Duration = Duration::from_secs(1);

/// A while in which packets come and go.
const BRIEF: Duration = Duration::from_millis(500);

fn is_answered(fetch: &Fetch) -> bool {
    let status = fetch.head.as_ref().map(Response::status);
    status == Some(StatusCode::OK) && fetch.reset.is_none()
}

impl Pair {
    /// Begins an upload that does not end.
    fn begin(&mut self, path: &str, bytes: usize) -> StreamId {
        let sent = self.client.with(self.connection, |it, quic| {
            it.send_request(quic, &post(path), false)
        });
        let stream = sent.unwrap();
        self.fetches.fetches.insert(stream, Fetch::default());
        self.send(stream, bytes);
        stream
    }

    fn send(&mut self, stream: StreamId, bytes: usize) {
        let mut data = pattern(bytes);
        // Refused once the server has had enough.
        let _ = self.client.with(self.connection, |it, quic| {
            it.send_data(quic, stream, &mut data, false)
        });
    }

    /// Sends so many bytes again and again. When the client was stopped, if it was in that time.
    fn trickle(
        &mut self,
        stream: StreamId,
        bytes: usize,
        every: Duration,
        time: Duration,
    ) -> Option<Duration> {
        let began = self.now;
        while self.now - began < time {
            if self.fetches.fetches[&stream].stopped.is_some() {
                return Some(self.now - began);
            }
            self.send(stream, bytes);
            self.run_for(every);
        }
        None
    }
}

#[test]
fn an_unwanted_body_is_taken_to_its_end() {
    for (path, size) in [
        (Path::default(), 1),
        (Path::default(), 5_000_000),
        (Path::default(), MAX_UNWANTED - 10_000),
        (
            Path {
                delay: Duration::from_millis(30),
                loss: 0.05,
                overtaken: 0.1,
                ..Path::default()
            },
            2_000_000,
        ),
    ] {
        let mut pair = Pair::over(path).connected();
        let fetch = pair.fetch(&post("/early"), pattern(size));
        assert!(is_answered(fetch), "{size}");
        assert!(pair.run_until(|pair| pair.client.is_idle() && pair.server.is_idle()));
        let fetch = pair.fetches.fetches.values().next().unwrap();
        assert_eq!(fetch.stopped, None, "{size}");
        assert!(pair.elapsed() < LINGER * 20, "{size}");
        assert_eq!((pair.files.received, pair.files.delivered), (0, 1));
        let sent = pair.client.path_statistics(pair.connection).unwrap();
        assert!(sent.bytes_sent >= size as u64, "{size}");
    }
}

#[test]
fn an_unwanted_body_beyond_the_bound_is_stopped_and_the_response_arrives() {
    let mut pair = Pair::new().connected();
    let fetch = pair.fetch(&post("/early"), pattern(30_000_000));
    assert!(is_answered(fetch));
    assert!(pair.run_until(|pair| pair.client.is_idle() && pair.server.is_idle()));
    let fetch = pair.fetches.fetches.values().next().unwrap();
    assert_eq!(fetch.stopped, Some(Code::H3_NO_ERROR));
    let sent = pair.client.path_statistics(pair.connection).unwrap();
    assert!(sent.bytes_sent as usize > MAX_UNWANTED);
}

#[test]
fn no_bound_stops_at_once() {
    let mut pair = Pair::with(Path::default(), |_, server| server.limits.max_unwanted = 0);
    pair = pair.connected();
    let stream = pair.begin("/early", 0);
    pair.run_for(BRIEF);
    let fetch = &pair.fetches.fetches[&stream];
    assert!(is_answered(fetch));
    assert_eq!(fetch.stopped, Some(Code::H3_NO_ERROR));
}

#[test]
fn an_unwanted_body_that_rests_is_stopped() {
    let mut pair = Pair::new().connected();
    let stream = pair.begin("/early", 10_000);
    pair.run_for(LINGER - BRIEF);
    let fetch = &pair.fetches.fetches[&stream];
    assert!(is_answered(fetch));
    assert_eq!(fetch.stopped, None);
    pair.run_for(LATE + 2 * BRIEF);
    let fetch = &pair.fetches.fetches[&stream];
    assert_eq!(fetch.stopped, Some(Code::H3_NO_ERROR));
    assert!(pair.server.is_idle());
}

#[test]
fn one_that_moves_may_go_on_and_one_that_trickles_may_not() {
    let mut pair = Pair::new().connected();
    let stream = pair.begin("/early", 1);
    let minute = Duration::from_secs(60);
    let every = Duration::from_secs(2);
    assert_eq!(pair.trickle(stream, 1000, every, minute), None);
    let every = Duration::from_millis(100);
    let stopped = pair.trickle(stream, 10, every, minute);
    let allowed = LINGER * 2 + LATE;
    assert!(stopped.is_some_and(|it| it < allowed), "{stopped:?}");
    assert!(is_answered(&pair.fetches.fetches[&stream]));
}

#[test]
fn nothing_is_asked_of_an_unwanted_body_before_its_response() {
    let mut pair = Pair::new().connected();
    let stream = pair.begin("/hang", 10_000);
    pair.run_for(BRIEF);
    let connection = pair.server_connection.unwrap();
    if let Some((it, quic, _)) = pair.server.connection(connection) {
        it.stop_reading(quic, stream, Code::H3_NO_ERROR);
    }
    pair.run_for(Duration::from_secs(20));
    let fetch = &pair.fetches.fetches[&stream];
    assert_eq!((fetch.stopped, fetch.reset), (None, None));
    let head = Response::new(());
    pair.server
        .with(connection, |it, quic| {
            it.send_response(quic, stream, &head, true)
        })
        .unwrap();
    pair.run_for(LINGER + LATE + BRIEF);
    let fetch = &pair.fetches.fetches[&stream];
    assert!(is_answered(fetch));
    assert_eq!(fetch.stopped, Some(Code::H3_NO_ERROR));
}

#[test]
fn a_server_going_away_waits_for_no_unwanted_body() {
    let mut pair = Pair::new().connected();
    let resting = pair.begin("/early", 10_000);
    let moving = pair.begin("/early", 10_000);
    let every = Duration::from_millis(500);
    let twice = LINGER * 2;
    assert_eq!(pair.trickle(moving, 2_000, every, twice), None);
    pair.server.shutdown();
    assert!(!pair.server.is_idle());
    let stopped = pair.trickle(moving, 2_000, every, twice);
    assert!(stopped.is_some_and(|it| it <= LINGER + LATE + every));
    assert!(pair.server.is_idle());
    for stream in [resting, moving] {
        assert!(is_answered(&pair.fetches.fetches[&stream]));
    }
}

#[test]
fn unwanted_bodies_count_as_requests_in_progress() {
    let mut pair = Pair::with(Path::default(), |_, server| {
        server.limits.max_concurrent_requests = 2;
    });
    pair = pair.connected();
    for _ in 0..2 {
        pair.begin("/early", 10_000);
    }
    pair.run_for(BRIEF);
    let third = pair.client.with(pair.connection, |it, quic| {
        it.send_request(quic, &post("/"), true)
    });
    assert!(third.is_err(), "{third:?}");
    pair.run_for(LINGER + LATE);
    assert!(pair.fetches.streams_available);
    pair.fetch(&post("/"), Bytes::new());
}

/// RFC 9114 section 4.1.1 has a client reset the stream to give a request up; of a request that nobody
/// wants it gives up nothing.
#[test]
fn a_client_that_resets_an_unwanted_body_has_its_response() {
    let mut peer = Raw::client();
    let id = peer.bi(&[request(&[]), frame(DATA, b"some")].concat());
    let stream = peer.stream_of_request();
    let connection = peer.connection;
    if let Some((it, quic, _)) = peer.endpoint.connection(connection) {
        it.stop_reading(quic, stream, Code::H3_NO_ERROR);
    }
    peer.reset(id, 0x10c);
    assert_eq!(peer.reset_code(), None);
    let head = Response::new(());
    let sent = peer.endpoint.with(connection, |it, quic| {
        it.send_response(quic, stream, &head, true)
    });
    sent.unwrap();
    peer.run();
    assert!(!peer.read(id).unwrap().is_empty());
    assert!(peer.endpoint.is_idle());
}

#[test]
fn what_is_dropped_need_not_be_well_formed() {
    let mut peer = Raw::client();
    let id = peer.bi(&request(&[]));
    let stream = peer.stream_of_request();
    let connection = peer.connection;
    let head = Response::new(());
    let sent = peer.endpoint.with(connection, |it, quic| {
        it.send_response(quic, stream, &head, true)
    });
    sent.unwrap();
    if let Some((it, quic, _)) = peer.endpoint.connection(connection) {
        it.stop_reading(quic, stream, Code::H3_NO_ERROR);
    }
    // SETTINGS may not stand on a request stream.
    peer.write(id, &frame(0x04, b""));
    peer.finish(id);
    peer.run();
    assert!(peer.lost.is_none());
    assert!(!peer.read(id).unwrap().is_empty());
    assert!(peer.closed.is_none());
}
