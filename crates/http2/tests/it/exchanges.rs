//! Whole exchanges between two of our own ends over an emulated path.

use std::collections::HashMap;
use std::time::Duration;

use altway_http2::{Config, Error, StreamId, Turn};
use altway_link::{Config as Link, Queue, Rate};
use bytes::Bytes;
use http::{HeaderMap, Request};

use crate::pair::{App, Owned, Pair};

/// A body to be sent, and what follows it.
struct Body {
    data: Bytes,
    trailers: Option<HeaderMap>,
}

/// Sends bodies as far as the engine takes them.
#[derive(Default)]
struct Bodies(HashMap<StreamId, Body>);

impl Bodies {
    fn start(&mut self, turn: &mut Turn<'_>, stream: StreamId, body: Body) {
        self.0.insert(stream, body);
        self.go_on(turn, stream);
    }

    fn go_on(&mut self, turn: &mut Turn<'_>, stream: StreamId) {
        let Some(body) = self.0.get_mut(&stream) else {
            return;
        };
        let end = body.trailers.is_none();
        let sent = turn.send_data(stream, &body.data, end).unwrap();
        body.data = body.data.slice(sent..);
        if !body.data.is_empty() {
            return;
        }
        if let Some(trailers) = &body.trailers {
            turn.send_trailers(stream, trailers).unwrap();
        }
        self.0.remove(&stream);
    }

    fn pump(&mut self, turn: &mut Turn<'_>) {
        while turn.output_len() < 64 << 10 {
            let Some(stream) = turn.next_sendable() else {
                return;
            };
            self.go_on(turn, stream);
        }
    }
}

/// Answers a request with the body it came with, and its trailers; a GET with `size` bytes.
#[derive(Default)]
struct Echo {
    size: usize,
    sending: Bodies,
    received: HashMap<StreamId, Vec<u8>>,
}

impl Echo {
    fn answer(&mut self, turn: &mut Turn<'_>, stream: StreamId, trailers: Option<HeaderMap>) {
        let data = match self.received.remove(&stream) {
            Some(body) => Bytes::from(body),
            None => Bytes::from(vec![b'x'; self.size]),
        };
        let mut fields = HeaderMap::new();
        fields.insert("content-length", data.len().into());
        turn.send_response(stream, 200, &fields, false).unwrap();
        self.sending.start(turn, stream, Body { data, trailers });
    }
}

impl App for Echo {
    fn event(&mut self, turn: &mut Turn<'_>, event: Owned) {
        match event {
            Owned::Request(stream, head, end) => {
                if head.headers().contains_key("expect") {
                    turn.send_informational(stream, 100, &HeaderMap::new())
                        .unwrap();
                }
                if end {
                    self.answer(turn, stream, None);
                } else {
                    self.received.insert(stream, Vec::new());
                }
            }
            Owned::Data(stream, data, end) => {
                self.received
                    .get_mut(&stream)
                    .unwrap()
                    .extend_from_slice(&data);
                turn.release(stream, data.len());
                if end {
                    self.answer(turn, stream, None);
                }
            }
            Owned::Trailers(stream, fields) => self.answer(turn, stream, Some(fields)),
            other => panic!("unexpected {other:?}"),
        }
    }

    fn pump(&mut self, turn: &mut Turn<'_>) {
        self.sending.pump(turn);
    }
}

/// Sends its requests as streams become free, and keeps what comes back.
#[derive(Default)]
struct Client {
    waiting: Vec<(Request<()>, Option<Body>)>,
    sending: Bodies,
    /// Streams that wait for 100 before their body.
    holding: HashMap<StreamId, Body>,
    bodies: HashMap<StreamId, Vec<u8>>,
    trailers: Vec<HeaderMap>,
    done: usize,
}

impl App for Client {
    fn event(&mut self, turn: &mut Turn<'_>, event: Owned) {
        match event {
            Owned::Response(head, end) => {
                assert_eq!(head.status(), 200);
                self.done += usize::from(end);
            }
            Owned::Data(stream, data, end) => {
                self.bodies
                    .entry(stream)
                    .or_default()
                    .extend_from_slice(&data);
                turn.release(stream, data.len());
                self.done += usize::from(end);
            }
            Owned::Trailers(_, fields) => {
                self.trailers.push(fields);
                self.done += 1;
            }
            Owned::Informational(100) => {
                let held: Vec<_> = self.holding.drain().collect();
                for (stream, body) in held {
                    self.sending.start(turn, stream, body);
                }
            }
            Owned::Other(event) => assert!(event.contains("StreamsAvailable"), "{event}"),
            other => panic!("unexpected {other:?}"),
        }
    }

    fn pump(&mut self, turn: &mut Turn<'_>) {
        while let Some((request, body)) = self.waiting.pop() {
            match turn.send_request(&request, None, body.is_none()) {
                Err(Error::StreamsExhausted) => {
                    self.waiting.push((request, body));
                    break;
                }
                stream => {
                    let Some(body) = body else { continue };
                    if request.headers().contains_key("expect") {
                        self.holding.insert(stream.unwrap(), body);
                    } else {
                        self.sending.start(turn, stream.unwrap(), body);
                    }
                }
            }
        }
        self.sending.pump(turn);
    }
}

fn get() -> Request<()> {
    Request::get("https://a.example/file").body(()).unwrap()
}

fn post(size: usize, trailers: Option<HeaderMap>) -> (Request<()>, Option<Body>) {
    let data = (0..size).map(|i| (i % 251) as u8).collect();
    let request = Request::post("https://a.example/echo").body(()).unwrap();
    (request, Some(Body { data, trailers }))
}

fn path(rate: &str, delay: u64) -> Link {
    Link {
        rate: Rate::Fixed(rate.parse().unwrap()),
        delay: Duration::from_millis(delay),
        queue: Queue::Unlimited,
        ..Link::default()
    }
}

fn run(client: Client, size: usize, config: &Config, link: &Link) -> Pair<Client, Echo> {
    let wanted = client.waiting.len();
    let server = Echo {
        size,
        ..Echo::default()
    };
    let mut pair = Pair::new(client, server, config, link);
    pair.run_until(|pair| pair.client().done == wanted);
    assert!(pair.server().received.is_empty());
    pair
}

#[test]
fn a_small_response_takes_one_round_trip() {
    let client = Client {
        waiting: vec![(get(), None)],
        ..Client::default()
    };
    let pair = run(client, 600, &Config::default(), &path("1gbit", 40));
    let elapsed = pair.elapsed();
    assert!(elapsed >= Duration::from_millis(80), "{elapsed:?}");
    assert!(elapsed < Duration::from_millis(81), "{elapsed:?}");
}

#[test]
fn a_thousand_requests_pass_through_a_hundred_streams() {
    let client = Client {
        waiting: (0..1000).map(|_| (get(), None)).collect(),
        ..Client::default()
    };
    let mut pair = run(client, 600, &Config::default(), &path("100mbit", 5));
    assert_eq!(pair.client().bodies.len(), 1000);
    assert!(
        pair.client()
            .bodies
            .values()
            .all(|body| *body == vec![b'x'; 600])
    );
}

#[test]
fn a_download_is_bound_by_the_rate_once_its_windows_have_grown() {
    let client = Client {
        waiting: vec![(get(), None)],
        ..Client::default()
    };
    let size = 20_000_000;
    let mut pair = run(client, size, &Config::default(), &path("50mbit", 20));
    let body = pair.client().bodies.values().next().unwrap();
    assert_eq!(body.len(), size);
    // 3.2 s of rate, headers of TCP and frames, and the windows' start.
    let elapsed = pair.elapsed();
    assert!(elapsed < Duration::from_millis(3_700), "{elapsed:?}");
}

#[test]
fn uploads_come_back_byte_for_byte_with_their_trailers() {
    let mut trailers = HeaderMap::new();
    trailers.insert("checksum", "abc".parse().unwrap());
    let client = Client {
        waiting: vec![
            post(0, None),
            post(1, Some(trailers.clone())),
            post(16_384, None),
            post(300_000, Some(trailers)),
            post(1_000_001, None),
        ],
        ..Client::default()
    };
    let mut pair = run(client, 0, &Config::default(), &path("100mbit", 10));
    let client = pair.client();
    assert_eq!(client.trailers.len(), 2);
    assert_eq!(client.trailers[0]["checksum"], "abc");
    let mut sizes: Vec<usize> = client.bodies.values().map(Vec::len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0, 1, 16_384, 300_000, 1_000_001]);
    let is_right = |body: &Vec<u8>| body.iter().enumerate().all(|(i, b)| *b == (i % 251) as u8);
    assert!(client.bodies.values().all(is_right));
}

#[test]
fn a_body_waits_for_100_continue() {
    let (mut request, body) = post(1000, None);
    request
        .headers_mut()
        .insert("expect", "100-continue".parse().unwrap());
    let client = Client {
        waiting: vec![(request, body)],
        ..Client::default()
    };
    let pair = run(client, 0, &Config::default(), &path("1gbit", 40));
    assert!(
        pair.elapsed() >= Duration::from_millis(160),
        "two round trips"
    );
}

#[test]
fn tiny_windows_are_slow_and_right() {
    let config = Config {
        stream_window: 7,
        connection_window: 65_535,
        max_stream_window: 7,
        ..Config::default()
    };
    let client = Client {
        waiting: vec![post(500, None)],
        ..Client::default()
    };
    let mut pair = run(client, 0, &config, &path("100mbit", 1));
    let body = pair.client().bodies.values().next().unwrap();
    assert_eq!(body.len(), 500);
}

#[test]
fn a_head_beyond_one_frame_goes_out_in_continuations() {
    let mut request = get();
    let value = "v".repeat(7_000);
    for name in ["a", "b", "c"] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let client = Client {
        waiting: vec![(request, None)],
        ..Client::default()
    };
    run(client, 10, &Config::default(), &path("100mbit", 1));
}
