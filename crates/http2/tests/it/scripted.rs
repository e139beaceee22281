//! A scripted peer: writes any frame it likes, and reads what the engine says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use altway_http2::{CloseReason, Code, Config, Connection, Event, Output, StreamId, Turn};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const ALTSVC: u8 = 10;
pub(crate) const PRIORITY_UPDATE: u8 = 16;

pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const PRIORITISED: u8 = 0x20;

/// `GET https / `, all from the static table; a request in three bytes.
pub(crate) const GET: &[u8] = &[0x82, 0x87, 0x84];
/// `POST https /`.
pub(crate) const POST: &[u8] = &[0x83, 0x87, 0x84];
/// `:status: 200`.
pub(crate) const OK: &[u8] = &[0x88];

/// A frame as bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [len[1], len[2], len[3], kind, flags];
    [&head, &stream.to_be_bytes()[..], payload].concat()
}

/// A complete request.
pub(crate) fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, GET)
}

/// A literal field without indexing and without Huffman coding, for names and values under 127.
pub(crate) fn literal(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
    [&[0][..], &text(name), &text(value)].concat()
}

/// A setting.
pub(crate) fn setting(id: u16, value: u32) -> Vec<u8> {
    [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

/// A frame that the engine sent, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

pub(crate) fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let len = usize::from(bytes[0]) << 16 | usize::from(bytes[1]) << 8 | usize::from(bytes[2]);
        frames.push(Frame {
            kind: bytes[3],
            flags: bytes[4],
            stream: u32::from_be_bytes(bytes[5..9].try_into().unwrap()),
            payload: bytes[9..9 + len].to_vec(),
        });
        bytes = &bytes[9 + len..];
    }
    frames
}

/// An event, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Request(u32, bool),
    TooLarge(u32),
    Late(u32),
    Informational(u32, u16),
    Response(u32, u16, bool),
    Data(u32, usize, bool),
    Trailers(u32),
    Stalled(u32),
    Reset(u32, Code),
    StreamsAvailable,
    AltSvc(Option<u32>, Vec<u8>),
    GoAway(Code),
    Closed(CloseReason),
}

impl Seen {
    fn of(event: &Event<'_>) -> Self {
        match event {
            Event::Request { stream, end, .. } => Seen::Request(stream.get(), *end),
            Event::RequestTooLarge { stream } => Seen::TooLarge(stream.get()),
            Event::RequestLate { stream } => Seen::Late(stream.get()),
            Event::Informational { stream, head } => {
                Seen::Informational(stream.get(), head.status().unwrap())
            }
            Event::Response { stream, head, end } => {
                Seen::Response(stream.get(), head.status().unwrap(), *end)
            }
            Event::Data { stream, data, end } => Seen::Data(stream.get(), data.len(), *end),
            Event::Trailers { stream, .. } => Seen::Trailers(stream.get()),
            Event::Stalled { stream } => Seen::Stalled(stream.get()),
            Event::StreamReset { stream, code } => Seen::Reset(stream.get(), *code),
            Event::StreamsAvailable => Seen::StreamsAvailable,
            Event::AltSvc { stream, value, .. } => {
                Seen::AltSvc(stream.map(StreamId::get), value.to_vec())
            }
            Event::GoAway { code } => Seen::GoAway(*code),
            Event::Closed { reason } => Seen::Closed(reason.clone()),
            other => panic!("unknown event {other:?}"),
        }
    }
}

/// The engine under test, and the peer's pen.
pub(crate) struct Engine {
    pub(crate) connection: Connection,
    pub(crate) now: Instant,
    output: Output,
    /// Streams by number, to call the engine with.
    streams: Vec<StreamId>,
    /// Number of malformed requests that the engine has told of.
    pub(crate) malformed: usize,
}

impl Engine {
    /// A server that has got a client's preface and acknowledgement.
    pub(crate) fn server(config: Config) -> Self {
        let mut engine = Self::new_server(config);
        engine.feed(PREFACE);
        engine.feed(&frame(SETTINGS, 0, 0, &[]));
        engine.feed(&frame(SETTINGS, ACK, 0, &[]));
        engine.said();
        engine
    }

    pub(crate) fn new_server(config: Config) -> Self {
        let now = Instant::now();
        Self::of(Connection::server(Arc::new(config), now), now)
    }

    /// A client that has got a server's preface and acknowledgement, and has sent `requests`.
    pub(crate) fn client(config: Config, requests: usize) -> Self {
        let now = Instant::now();
        let mut engine = Self::of(Connection::client(Arc::new(config), now), now);
        for _ in 0..requests {
            engine.get();
        }
        engine.feed(&frame(SETTINGS, 0, 0, &[]));
        engine.feed(&frame(SETTINGS, ACK, 0, &[]));
        engine.said();
        engine
    }

    fn of(connection: Connection, now: Instant) -> Self {
        Self {
            connection,
            now,
            output: Output::new(),
            streams: Vec::new(),
            malformed: 0,
        }
    }

    /// Client: sends a GET.
    pub(crate) fn get(&mut self) -> StreamId {
        let request = http::Request::get("https://a.example/").body(()).unwrap();
        let stream = self.turn(|turn| turn.send_request(&request, None, true).unwrap());
        self.streams.push(stream);
        stream
    }

    /// Gives the engine bytes; what it makes of them.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Seen> {
        let mut turn = self.connection.turn(self.now, &mut self.output);
        let (mut input, mut seen) = (bytes, Vec::new());
        while let Some(event) = turn.receive(&mut input) {
            if let Event::Request { stream, .. }
            | Event::RequestTooLarge { stream }
            | Event::RequestLate { stream } = &event
            {
                self.streams.push(*stream);
            }
            if let Event::RequestMalformed = event {
                self.malformed += 1;
                continue;
            }
            seen.push(Seen::of(&event));
        }
        assert!(input.is_empty(), "all input is read");
        seen
    }

    /// Several frames at once.
    pub(crate) fn feed_all(&mut self, frames: &[Vec<u8>]) -> Vec<Seen> {
        self.feed(&frames.concat())
    }

    pub(crate) fn turn<T>(&mut self, act: impl FnOnce(&mut Turn<'_>) -> T) -> T {
        act(&mut self.connection.turn(self.now, &mut self.output))
    }

    /// The handle of a stream that was seen.
    pub(crate) fn stream(&self, id: u32) -> StreamId {
        let found = self.streams.iter().find(|stream| stream.get() == id);
        *found.unwrap()
    }

    /// Returns the frames that the engine sent since it was last asked.
    pub(crate) fn said(&mut self) -> Vec<Frame> {
        let bytes: Vec<u8> = self.output.slices().flatten().copied().collect();
        self.output.clear();
        let bytes = bytes.strip_prefix(PREFACE).unwrap_or(&bytes);
        frames(bytes)
    }

    /// Lets time pass, with the time-outs that fall due on the way.
    pub(crate) fn wait(&mut self, time: Duration) -> Vec<Seen> {
        let end = self.now + time;
        let mut seen = Vec::new();
        while let Some(due) = self.connection.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.turn(|turn| {
                turn.handle_timeout();
            });
            seen.extend(self.feed(&[]));
        }
        self.now = end;
        seen
    }

    /// The connection must have ended with `code`, said in GOAWAY.
    #[track_caller]
    pub(crate) fn assert_ended(&mut self, seen: &[Seen], code: Code) {
        let reason = seen.iter().find_map(|seen| match seen {
            Seen::Closed(CloseReason::Local { code, .. }) => Some(*code),
            _ => None,
        });
        assert_eq!(reason, Some(code), "{seen:?}");
        let said = self.said();
        let goaway = said.iter().find(|frame| frame.kind == GOAWAY).unwrap();
        assert_eq!(goaway.payload[4..8], code.get().to_be_bytes());
        assert!(self.connection.is_closed());
    }

    /// The engine must have reset `stream` with `code`, and go on.
    #[track_caller]
    pub(crate) fn assert_reset(&mut self, stream: u32, code: Code) {
        let said = self.said();
        let reset = said.iter().find(|frame| frame.kind == RST_STREAM);
        let reset = reset.unwrap_or_else(|| panic!("no RST_STREAM in {said:?}"));
        assert_eq!(reset.stream, stream);
        assert_eq!(reset.payload, code.get().to_be_bytes());
        assert!(!self.connection.is_closed());
    }
}
