//! Bytes in: cuts the byte stream into frames and hands DATA on as it comes, piece by piece and
//! without a copy; every other frame is taken as a whole, by `heads` or `control`.

use super::Turn;
use crate::Code;
use crate::config::Role;
use crate::event::{Event, StreamId};
use crate::fault::Fault;
use crate::frame::{FrameHeader, HEADER_LEN, MAX_PAYLOAD, PREFACE, flag, kind};
use crate::stream::Progress;

/// The buffer for frames that come in pieces is given back when it holds more.
const MAX_RETAINED_CAPACITY: usize = 4 << 10;

/// Position in the byte stream.
#[derive(Debug)]
pub(super) struct Reading {
    /// Part of the client's preface that is still to come.
    preface: &'static [u8],
    /// The first frame, SETTINGS, has come.
    pub(super) received_preface: bool,
    /// The beginning of a frame that has not come whole; at most a header and `MAX_PAYLOAD` bytes.
    partial: Vec<u8>,
    /// The DATA frame of which the next bytes are.
    data: Option<DataFrame>,
}

impl Reading {
    pub(super) fn new(role: Role) -> Self {
        Self {
            preface: match role {
                Role::Server => PREFACE,
                Role::Client => &[],
            },
            received_preface: false,
            partial: Vec::new(),
            data: None,
        }
    }

    /// Returns true if the next byte belongs to a frame that has begun.
    pub(super) fn is_within_frame(&self) -> bool {
        !self.partial.is_empty()
    }

    /// The stream of a HEADERS frame that has not come whole.
    pub(super) fn unfinished_headers(&self) -> Option<u32> {
        let header = FrameHeader::parse(&self.partial)?;
        (header.kind == kind::HEADERS).then_some(header.stream)
    }

    /// Gives back the room for the beginning of a frame, if none has begun.
    pub(super) fn rest(&mut self) {
        self.partial.shrink_to_fit();
    }

    /// The stream is gone: what is left of its DATA goes nowhere.
    pub(super) fn forget(&mut self, stream: u32) {
        if let Some(data) = self.data.as_mut().filter(|data| data.stream == stream) {
            data.wanted = false;
        }
    }
}

/// A DATA frame that is being read.
#[derive(Clone, Copy, Debug)]
struct DataFrame {
    stream: u32,
    /// The pad length is still to come.
    pad_length_follows: bool,
    /// Bytes of data still to come.
    data: usize,
    /// Bytes of padding still to come.
    padding: usize,
    end: bool,
    /// The stream is there; else the bytes are only counted.
    wanted: bool,
}

/// An event that is about to be, without what it borrows from the connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signal<'i> {
    Request { end: bool },
    TooLarge,
    Informational,
    Response { end: bool },
    Trailers,
    Data { data: &'i [u8], end: bool },
}

/// Result of one step of reading.
enum Step<'i> {
    Event(u32, Signal<'i>),
    /// Go on: nothing for the application.
    Done,
    /// The step needs more input.
    NeedsInput,
}

/// The stream that an event is of, and the event.
pub(super) type Happened = Option<(u32, Signal<'static>)>;

impl From<Happened> for Step<'_> {
    fn from(happened: Happened) -> Self {
        happened.map_or(Step::Done, |(stream, signal)| Step::Event(stream, signal))
    }
}

impl Turn<'_> {
    /// Takes in bytes from the peer, up to the next event. `input` is moved past what was read; call
    /// again until there is no event, and after every other call that may have led to one. What is
    /// left unread in `input` then belongs to the next call.
    ///
    /// To bound what a peer can make us say at once, stop calling while
    /// [`output_len`](Turn::output_len) is large, send, and go on with the rest of the input.
    pub fn receive<'t, 'i: 't>(&'t mut self, input: &mut &'i [u8]) -> Option<Event<'t>> {
        if !input.is_empty() {
            self.send_preface();
            self.connection.clock.active = self.now;
        }
        loop {
            if let Some(event) = self.connection.events.pop_front() {
                return Some(event);
            }
            if self.connection.state.closed {
                *input = &[];
                return None;
            }
            match self.step(input) {
                Ok(Step::Event(stream, signal)) => return Some(self.event(stream, signal)),
                Ok(Step::Done) => {}
                Ok(Step::NeedsInput) => {
                    self.connection.note_unfinished_frame(self.now);
                    return None;
                }
                Err(fault) => self.fail(fault),
            }
        }
    }

    fn event<'t, 'i: 't>(&'t self, stream: u32, signal: Signal<'i>) -> Event<'t> {
        let stream = StreamId(stream);
        let head = || self.connection.head.get().view();
        match signal {
            Signal::Request { end } => Event::Request {
                stream,
                head: head(),
                end,
            },
            Signal::TooLarge => Event::RequestTooLarge { stream },
            Signal::Informational => Event::Informational {
                stream,
                head: head(),
            },
            Signal::Response { end } => Event::Response {
                stream,
                head: head(),
                end,
            },
            Signal::Trailers => Event::Trailers {
                stream,
                head: head(),
            },
            Signal::Data { data, end } => Event::Data { stream, data, end },
        }
    }

    fn step<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        if self.connection.reading.data.is_some() {
            return self.data(input);
        }
        if !self.connection.reading.preface.is_empty() {
            self.preface(input)?;
        }
        if self.connection.reading.partial.is_empty() {
            self.whole_frame(input)
        } else {
            self.partial_frame(input)
        }
    }

    fn preface(&mut self, input: &mut &[u8]) -> Result<(), Fault> {
        let expected = &mut self.connection.reading.preface;
        let n = expected.len().min(input.len());
        if expected[..n] != input[..n] {
            return Err(Fault::protocol("no HTTP/2 preface"));
        }
        *expected = &expected[n..];
        *input = &input[n..];
        Ok(())
    }

    /// The usual case: a frame begins at the input's first byte.
    fn whole_frame<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        let Some(header) = FrameHeader::parse(input) else {
            return Ok(self.keep(input));
        };
        self.check(header)?;
        if header.kind == kind::DATA {
            *input = &input[HEADER_LEN..];
            return self.begin_data(header).map(|()| Step::Done);
        }
        let Some((frame, rest)) = input.split_at_checked(HEADER_LEN + header.len) else {
            return Ok(self.keep(input));
        };
        *input = rest;
        self.frame(header, &frame[HEADER_LEN..]).map(Step::from)
    }

    /// A frame whose beginning came with earlier input.
    fn partial_frame<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        self.complete(HEADER_LEN, input);
        let Some(header) = FrameHeader::parse(&self.connection.reading.partial) else {
            return Ok(Step::NeedsInput);
        };
        if self.connection.reading.partial.len() == HEADER_LEN {
            self.check(header)?;
            if header.kind == kind::DATA {
                self.connection.reading.partial.clear();
                self.connection.clock.frame = None;
                return self.begin_data(header).map(|()| Step::Done);
            }
        }
        self.complete(HEADER_LEN + header.len, input);
        if self.connection.reading.partial.len() < HEADER_LEN + header.len {
            return Ok(Step::NeedsInput);
        }
        let mut frame = std::mem::take(&mut self.connection.reading.partial);
        let happened = self.frame(header, &frame[HEADER_LEN..]);
        if frame.capacity() <= MAX_RETAINED_CAPACITY {
            frame.clear();
            self.connection.reading.partial = frame;
        }
        happened.map(Step::from)
    }

    /// Keeps what is the beginning of a frame.
    fn keep<'i>(&mut self, input: &mut &'i [u8]) -> Step<'i> {
        self.connection.reading.partial.extend_from_slice(input);
        *input = &[];
        Step::NeedsInput
    }

    /// Brings the kept bytes up to `len` as far as the input allows.
    fn complete(&mut self, len: usize, input: &mut &[u8]) {
        let partial = &mut self.connection.reading.partial;
        let n = len.saturating_sub(partial.len()).min(input.len());
        partial.extend_from_slice(&input[..n]);
        *input = &input[n..];
    }

    /// Checks what can be checked of a frame before its payload is there.
    fn check(&mut self, header: FrameHeader) -> Result<(), Fault> {
        if header.len > MAX_PAYLOAD {
            return Err(Fault::Connection(
                Code::FRAME_SIZE_ERROR,
                "frame above SETTINGS_MAX_FRAME_SIZE",
            ));
        }
        let connection = &*self.connection;
        // Section 3.4: the preface is followed by "a SETTINGS frame (which might be empty)".
        let is_settings = header.kind == kind::SETTINGS && !header.has(flag::ACK);
        if !connection.reading.received_preface && !is_settings {
            return Err(Fault::protocol("no SETTINGS in the preface"));
        }
        // Section 6.10: "A CONTINUATION frame MUST be preceded by a HEADERS, PUSH_PROMISE or
        // CONTINUATION frame without the END_HEADERS flag set", and nothing may come between.
        let continues = connection.assembly.as_ref().map(|assembly| assembly.stream);
        let is_continuation = header.kind == kind::CONTINUATION;
        match continues {
            Some(stream) if !is_continuation || stream != header.stream => {
                Err(Fault::protocol("field block interrupted"))
            }
            None if is_continuation => Err(Fault::protocol("CONTINUATION of nothing")),
            _ => Ok(()),
        }
    }

    /// A whole frame that is not DATA.
    fn frame(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Happened, Fault> {
        let happened = match header.kind {
            kind::HEADERS => self.headers(header, payload),
            kind::CONTINUATION => self.continuation(header, payload),
            _ => self.control(header, payload).map(|()| None),
        };
        if self.connection.assembly.is_none() {
            self.connection.clock.frame = None;
        }
        happened
    }

    /// Returns true if a stream has never been opened.
    pub(super) fn is_idle(&self, stream: u32) -> bool {
        // Even numbers would be pushed streams, which don't exist here.
        stream.is_multiple_of(2) || stream > self.connection.last_stream
    }

    fn begin_data(&mut self, header: FrameHeader) -> Result<(), Fault> {
        let id = header.stream;
        if self.is_idle(id) {
            return Err(Fault::protocol("DATA on an idle stream"));
        }
        let padded = header.has(flag::PADDED);
        if padded && header.len == 0 {
            return Err(Fault::Connection(Code::FRAME_SIZE_ERROR, "no pad length"));
        }
        if self.connection.receive_window.receive(header.len).is_err() {
            return Err(Fault::Connection(
                Code::FLOW_CONTROL_ERROR,
                "DATA above the connection's window",
            ));
        }
        let end = header.has(flag::END_STREAM);
        // Nothing in it, or perhaps nothing but padding.
        if padded || (header.len == 0 && !end) {
            self.spend()?;
        }
        let admitted = self.admit(id, header.len);
        self.connection.reading.data = Some(DataFrame {
            stream: id,
            pad_length_follows: padded,
            data: header.len - usize::from(padded),
            padding: 0,
            end,
            wanted: admitted == Ok(true),
        });
        admitted.map(drop)
    }

    /// Checks that DATA of `len` bytes may come on a stream; returns true if it is wanted.
    fn admit(&mut self, id: u32, len: usize) -> Result<bool, Fault> {
        let streams = &mut self.connection.streams;
        let Some(stream) = streams.get_mut(id) else {
            if streams.was_reset(id) {
                return Ok(false);
            }
            return Err(Fault::Connection(
                Code::STREAM_CLOSED,
                "DATA on a closed stream",
            ));
        };
        match stream.receiving {
            Progress::Done => Err(Fault::Stream(id, Code::STREAM_CLOSED)),
            Progress::Head => Err(Fault::Stream(id, Code::PROTOCOL_ERROR)),
            Progress::Body if stream.receive_window.receive(len).is_err() => {
                Err(Fault::Stream(id, Code::FLOW_CONTROL_ERROR))
            }
            Progress::Body => Ok(stream.wanted),
        }
    }

    /// The next bytes of a DATA frame.
    fn data<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Fault> {
        let Some(frame) = &mut self.connection.reading.data else {
            return Ok(Step::Done);
        };
        let mut overhead = 0;
        if frame.pad_length_follows {
            let Some((pad, rest)) = input.split_first() else {
                return Ok(Step::NeedsInput);
            };
            *input = rest;
            overhead = 1;
            frame.unpad(usize::from(*pad))?;
        }
        let data = take(input, &mut frame.data);
        overhead += take(input, &mut frame.padding).len();
        let whole = frame.data == 0 && frame.padding == 0;
        let frame = *frame;
        if whole {
            self.connection.reading.data = None;
        }
        let end = whole && frame.end;
        if !frame.wanted {
            self.release_connection(overhead + data.len());
            if end {
                self.received_all(frame.stream);
            }
            return Ok(if whole { Step::Done } else { Step::NeedsInput });
        }
        if let Err(fault) = self.count_content(frame.stream, data.len(), end) {
            self.release_connection(overhead + data.len());
            return Err(fault);
        }
        let least = self.connection.config.timeouts.stall_bytes;
        if let Some(stream) = self.connection.streams.get_mut(frame.stream) {
            stream.moved(data.len(), least, self.now);
        }
        self.release(StreamId(frame.stream), overhead);
        if end {
            self.received_all(frame.stream);
        }
        if !data.is_empty() || end {
            return Ok(Step::Event(frame.stream, Signal::Data { data, end }));
        }
        Ok(if whole { Step::Done } else { Step::NeedsInput })
    }

    /// Section 8.1.1: the body's length must be what Content-Length says.
    pub(super) fn count_content(&mut self, id: u32, len: usize, end: bool) -> Result<(), Fault> {
        let stream = self.connection.streams.get_mut(id);
        let Some(left) = stream.and_then(|stream| stream.content_left.as_mut()) else {
            return Ok(());
        };
        match left.checked_sub(len as u64) {
            Some(rest) if !end || rest == 0 => {
                *left = rest;
                Ok(())
            }
            _ => Err(Fault::Stream(id, Code::PROTOCOL_ERROR)),
        }
    }

    /// The peer's half of a stream is complete.
    pub(super) fn received_all(&mut self, id: u32) {
        if let Some(stream) = self.connection.streams.get_mut(id) {
            stream.receiving = Progress::Done;
            self.settle(id);
        }
    }
}

impl DataFrame {
    /// The pad length came.
    fn unpad(&mut self, padding: usize) -> Result<(), Fault> {
        self.pad_length_follows = false;
        self.padding = padding;
        self.data = self
            .data
            .checked_sub(padding)
            .ok_or(Fault::protocol("too much padding"))?;
        Ok(())
    }
}

/// Takes up to `left` bytes off the input.
fn take<'i>(input: &mut &'i [u8], left: &mut usize) -> &'i [u8] {
    let (taken, rest) = input.split_at((*left).min(input.len()));
    *left -= taken.len();
    *input = rest;
    taken
}
