//! Any bytes into one engine, cut anywhere.
//!
//! An engine that is told the same must do the same wherever the bytes were cut; and one whose
//! application answers must say nothing but what a peer may hear.

use std::collections::BTreeMap;
use std::time::Instant;

use altway_http2::{Code, Config, Event, StreamId};
use http::HeaderMap;

use crate::body;
use crate::config;
use crate::cuts::cuts;
use crate::end::End;
use crate::input::Input;
use crate::speech::Role;
use crate::wire::{self, PREFACE, frame};

/// Body of an application's response to each request, in bytes.
const ANSWER: usize = 70_000;

/// The header of an input: how its bytes are given to which engine. Each field is one bit of the
/// first byte, from the lowest on.
#[derive(Clone, Copy, Debug)]
struct Mode {
    client: bool,
    /// The preface, SETTINGS and an acknowledgement go before.
    greeted: bool,
    /// The bytes are not frames but say which; see [`framed`].
    framed: bool,
    /// The application answers; else the engine is asked twice, with different cuts.
    answers: bool,
    /// Limits follow.
    configured: bool,
}

/// The first byte is a `Mode`, the second one seeds the cuts; then limits if the mode says so, and
/// then what the engine is told.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let mode = Mode::from(input.byte());
    let seed = input.byte();
    let config = if mode.configured {
        config::read(&mut input)
    } else {
        Config::default()
    };
    let mut script = if mode.greeted {
        mode.greeting()
    } else {
        Vec::new()
    };
    if mode.framed {
        script.extend(framed(input));
    } else {
        script.extend_from_slice(input.0);
    }
    if mode.answers {
        answer(mode, config, cuts(&script, seed));
    } else {
        let whole = listen(mode, &config, [&script[..]].into_iter());
        let cut = listen(mode, &config, cuts(&script, seed));
        assert_eq!(whole, cut, "it matters where the input is cut");
    }
}

impl From<u8> for Mode {
    fn from(bits: u8) -> Self {
        let bit = |n: u8| bits >> n & 1 == 1;
        Self {
            client: bit(0),
            greeted: bit(1),
            framed: bit(2),
            answers: bit(3),
            configured: bit(4),
        }
    }
}

impl Mode {
    /// The engine, and the requests that it has sent if it is a client.
    fn end(self, config: Config, now: Instant) -> (End, Vec<StreamId>) {
        if !self.client {
            return (End::new(Role::Server, config, now), Vec::new());
        }
        let (mut end, mut requests) = (End::new(Role::Client, config, now), Vec::new());
        for method in ["GET", "HEAD", "POST"] {
            let request = http::Request::builder();
            let request = request.method(method).uri("https://a.example/b");
            let request = request.body(()).expect("a good request");
            let last = method != "POST";
            // The limits may refuse it.
            requests.extend(end.turn(now).send_request(&request, None, last));
        }
        (end, requests)
    }

    fn greeting(self) -> Vec<u8> {
        let preface = if self.client { &[] } else { PREFACE };
        let settings = frame(wire::SETTINGS, 0, 0, &[]);
        let acknowledgement = frame(wire::SETTINGS, wire::ACK, 0, &[]);
        [preface, &settings, &acknowledgement].concat()
    }
}

/// Frames of four bytes each for type, flags, stream and length, and then so many bytes.
fn framed(mut input: Input<'_>) -> Vec<u8> {
    let mut script = Vec::new();
    while let Some([kind, flags, stream, len]) = input.array() {
        let payload = input.take(len.into());
        script.extend(frame(kind, flags, stream.into(), payload));
    }
    script
}

/// Result of a script in an engine: its events, pieces of one body joined, and what it sends.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    events: Vec<String>,
    bodies: BTreeMap<u32, Vec<u8>>,
    said: Vec<u8>,
    open: usize,
}

/// Feeds an engine the pieces, without answers, without bytes being released, and with windows
/// that no input fills: when a window opens depends on the cuts.
fn listen<'a>(mode: Mode, config: &Config, pieces: impl Iterator<Item = &'a [u8]>) -> Heard {
    let now = Instant::now();
    let config = Config {
        stream_window: Config::default().stream_window,
        connection_window: Config::default().connection_window,
        ..config.clone()
    };
    let (mut end, _) = mode.end(config, now);
    let mut heard = Heard {
        said: end.said(),
        ..Heard::default()
    };
    let mut held = 0;
    for piece in pieces {
        end.receive(now, piece, |event| {
            if let Event::Data { stream, data, end } = event {
                held += data.len();
                let body = heard.bodies.entry(stream.get()).or_default();
                body.extend_from_slice(data);
                if *end {
                    heard.events.push(format!("end of body {stream}"));
                }
            } else {
                heard.events.push(format!("{event:?}"));
            }
            None
        });
        heard.said.extend(end.said());
        end.check(held);
    }
    heard.open = end.connection.open_streams();
    heard
}

/// The application of a server answers every request, that of a client listens; both take what comes.
fn answer<'a>(mode: Mode, config: Config, pieces: impl Iterator<Item = &'a [u8]>) {
    let now = Instant::now();
    let (mut end, mut streams) = mode.end(config, now);
    let mut answers = BTreeMap::new();
    for piece in pieces {
        let mut requests = Vec::new();
        end.receive(now, piece, |event| match event {
            Event::Request { stream, head, .. } => {
                let accepted = head.refusal().is_none();
                assert!(!accepted || head.to_request().is_ok(), "{head:?}");
                requests.push(*stream);
                None
            }
            Event::RequestTooLarge { stream } => {
                requests.push(*stream);
                None
            }
            Event::Data { stream, data, .. } => Some((*stream, data.len())),
            _ => None,
        });
        streams.extend_from_slice(&requests);
        for stream in requests {
            let mut turn = end.turn(now);
            // It may be gone again.
            let sent = turn.send_response(stream, 200, &HeaderMap::new(), false);
            if sent.is_ok() {
                answers.insert(stream, 0);
                go_on(&mut end, now, stream, &mut answers);
            }
        }
        while let Some(stream) = end.turn(now).next_sendable() {
            let before = answers[&stream];
            go_on(&mut end, now, stream, &mut answers);
            assert!(answers[&stream] > before, "named, so it can send");
        }
        // What was said may have been the last.
        end.receive(now, &[], |_| None);
        end.said();
        end.check(0);
    }
    for stream in streams {
        end.turn(now).reset_stream(stream, Code::CANCEL);
    }
    end.wind_down(now);
}

/// Sends of an answer what goes out at once.
fn go_on(end: &mut End, now: Instant, stream: StreamId, answers: &mut BTreeMap<StreamId, usize>) {
    let offset = answers.get_mut(&stream).expect("it is answered");
    let len = (ANSWER - *offset).min(body::MAX_PIECE);
    let piece = body::piece(stream.get(), true, *offset, len);
    let last = *offset + len == ANSWER;
    if let Ok(n) = end.turn(now).send_data(stream, &piece, last) {
        *offset += n;
    }
}
