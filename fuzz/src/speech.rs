//! Rules of RFC 9113 for a sender, checked by the frames alone.
//!
//! Independent of the engine: it knows the frames received and sent, nothing of its state.
//! The targets check what the frames carry (bodies, fields).

use std::collections::BTreeMap;

use crate::wire::{self, Frame, PREFACE, Scanner};

/// Windows begin with so many bytes (section 6.9.2), and end there (section 6.9.1).
const DEFAULT_WINDOW: i64 = 65_535;
const MAX_WINDOW: i64 = (1 << 31) - 1;

/// Every endpoint takes frames with so large a payload (section 4.2).
const MIN_FRAME_SIZE: usize = 16_384;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// An engine's speech.
#[derive(Debug)]
pub(crate) struct Speech {
    role: Role,
    /// Part of the client's preface that is still to come.
    preface: &'static [u8],
    scanner: Scanner,
    greeted: bool,
    /// The stream whose field block is not complete.
    block_of: Option<u32>,
    last_goaway: Option<u32>,
    streams: BTreeMap<u32, Stream>,
    // What the peer allows.
    window: i64,
    initial_window: i64,
    max_frame_size: usize,
    max_streams: usize,
    /// Bytes that the connection's window was opened by, its first size included.
    pub(crate) granted: i64,
}

#[derive(Debug, Default)]
struct Stream {
    /// Difference of the window from its initial size.
    window: i64,
    /// True if the stream is not idle: one end has sent its HEADERS.
    open: bool,
    head: bool,
    ended: bool,
    reset: bool,
}

impl Speech {
    pub(crate) fn new(role: Role) -> Self {
        Self {
            role,
            preface: if role == Role::Client { PREFACE } else { &[] },
            scanner: Scanner::default(),
            greeted: false,
            block_of: None,
            last_goaway: None,
            streams: BTreeMap::new(),
            window: DEFAULT_WINDOW,
            initial_window: DEFAULT_WINDOW,
            max_frame_size: MIN_FRAME_SIZE,
            max_streams: usize::MAX,
            granted: DEFAULT_WINDOW,
        }
    }

    /// Returns true if SETTINGS were sent.
    pub(crate) fn has_greeted(&self) -> bool {
        self.greeted
    }

    /// Returns true if the peer's SETTINGS_MAX_CONCURRENT_STREAMS allows so many.
    pub(crate) fn may_open(&self, streams: usize) -> bool {
        streams <= self.max_streams
    }

    /// The engine said `bytes`.
    ///
    /// # Panics
    /// The engine may not say that, or said half a frame.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        let rest = match bytes.strip_prefix(self.preface) {
            Some(rest) => rest,
            None => return assert!(bytes.is_empty(), "no preface"),
        };
        self.preface = &[];
        let mut scanner = std::mem::take(&mut self.scanner);
        scanner.feed(rest, |frame| self.check(frame));
        assert!(scanner.is_between_frames(), "said half a frame");
        self.scanner = scanner;
    }

    /// The engine was told a frame, and has acted on it.
    pub(crate) fn hear(&mut self, frame: Frame<'_>) {
        match frame.kind {
            wire::SETTINGS if !frame.has(wire::ACK) => {
                for (id, value) in frame.settings() {
                    self.hear_setting(id, value);
                }
            }
            wire::WINDOW_UPDATE => {
                let increment = i64::from(frame.number().unwrap_or(0) & 0x7fff_ffff);
                match frame.stream {
                    0 => self.window += increment,
                    stream => self.stream(stream).window += increment,
                }
            }
            // Of an end that opens streams itself, what the other one says opens none.
            wire::HEADERS if self.role == Role::Server => self.stream(frame.stream).open = true,
            _ => {}
        }
    }

    fn hear_setting(&mut self, id: u16, value: u32) {
        match id {
            wire::INITIAL_WINDOW_SIZE => self.initial_window = value.into(),
            // A value below the least one ends the connection by a frame that is above it.
            wire::MAX_FRAME_SIZE => {
                let size = value.try_into().unwrap_or(usize::MAX);
                self.max_frame_size = size.max(MIN_FRAME_SIZE);
            }
            wire::MAX_CONCURRENT_STREAMS => {
                self.max_streams = value.try_into().unwrap_or(usize::MAX);
            }
            _ => {}
        }
    }

    fn stream(&mut self, id: u32) -> &mut Stream {
        self.streams.entry(id).or_default()
    }

    fn check(&mut self, frame: Frame<'_>) {
        let first = !std::mem::replace(&mut self.greeted, true);
        let settings = frame.kind == wire::SETTINGS && !frame.has(wire::ACK);
        assert!(!first || settings, "no SETTINGS first: {frame:?}");
        assert!(frame.payload.len() <= self.max_frame_size, "large");
        let continues = frame.kind == wire::CONTINUATION;
        let stream = continues.then_some(frame.stream);
        assert_eq!(self.block_of, stream, "CONTINUATION: {frame:?}");
        match frame.kind {
            wire::DATA => self.check_data(frame),
            wire::HEADERS => self.check_headers(frame),
            wire::CONTINUATION if frame.has(wire::END_HEADERS) => self.block_of = None,
            wire::CONTINUATION => {}
            wire::RST_STREAM => self.check_reset(frame),
            wire::WINDOW_UPDATE => self.check_window_update(frame),
            wire::GOAWAY => self.check_goaway(frame),
            _ => self.check_form(frame),
        }
    }

    fn check_data(&mut self, frame: Frame<'_>) {
        let len = i64::try_from(frame.payload.len()).expect("a payload");
        let initial = self.initial_window;
        let stream = self.stream(frame.stream);
        assert!(stream.head && !stream.ended && !stream.reset, "{frame:?}");
        stream.ended = frame.has(wire::END_STREAM);
        stream.window -= len;
        let enough = len == 0 || initial + stream.window >= 0;
        assert!(enough, "above the window of stream {}", frame.stream);
        self.window -= len;
        assert!(
            len == 0 || self.window >= 0,
            "above the connection's window"
        );
    }

    fn check_headers(&mut self, frame: Frame<'_>) {
        let (id, role) = (frame.stream, self.role);
        let newest = self.streams.range(id..).all(|(_, stream)| !stream.open);
        let stream = self.stream(id);
        let opens = role == Role::Client && id % 2 == 1 && newest;
        assert!(stream.open || opens, "HEADERS on an idle stream: {frame:?}");
        assert!(!stream.ended && !stream.reset, "{frame:?}");
        (stream.open, stream.head) = (true, true);
        stream.ended = frame.has(wire::END_STREAM);
        self.block_of = (!frame.has(wire::END_HEADERS)).then_some(id);
    }

    fn check_reset(&mut self, frame: Frame<'_>) {
        assert_eq!(frame.payload.len(), 4);
        let stream = self.stream(frame.stream);
        // Section 6.4: "RST_STREAM frames MUST NOT be sent for a stream in the "idle" state."
        assert!(stream.open, "RST_STREAM on an idle stream: {frame:?}");
        assert!(!stream.reset, "RST_STREAM twice: {frame:?}");
        stream.reset = true;
    }

    fn check_window_update(&mut self, frame: Frame<'_>) {
        let increment = frame.number().expect("four bytes");
        assert!(frame.payload.len() == 4 && increment > 0 && increment >> 31 == 0);
        if frame.stream == 0 {
            self.granted += i64::from(increment);
            return;
        }
        let stream = self.stream(frame.stream);
        assert!(stream.open && !stream.reset, "{frame:?}");
    }

    fn check_goaway(&mut self, frame: Frame<'_>) {
        assert!(frame.stream == 0 && frame.payload.len() >= 8);
        let last = frame.number().expect("a stream");
        // Section 6.8: "Endpoints MUST NOT increase the value they send".
        assert!(self.last_goaway.is_none_or(|before| last <= before));
        self.last_goaway = Some(last);
    }

    fn check_form(&self, frame: Frame<'_>) {
        let len = frame.payload.len();
        let fine = match frame.kind {
            wire::SETTINGS if frame.has(wire::ACK) => len == 0,
            wire::SETTINGS => len.is_multiple_of(6),
            wire::PING => len == 8,
            wire::ALTSVC => self.role == Role::Server,
            _ => false,
        };
        assert!(fine && frame.stream == 0, "{frame:?}");
    }
}

/// Flow control of what one end lets the other send, seen from both sides.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Bytes of DATA frames that came, padding included.
    pub(crate) data: i64,
}

impl Received {
    pub(crate) fn hear(&mut self, frame: Frame<'_>) {
        if frame.kind == wire::DATA {
            self.data += i64::try_from(frame.payload.len()).expect("a payload");
        }
    }

    /// The connection's window as the peer knows it at the latest may not exceed its end, and with
    /// what the application still holds not its bound either.
    pub(crate) fn check(&self, speech: &Speech, held: usize, bound: u32) {
        let open = speech.granted - self.data;
        assert!(open <= MAX_WINDOW);
        let held = i64::try_from(held).expect("bytes in memory");
        assert!(open + held <= DEFAULT_WINDOW.max(bound.into()));
    }
}
