//! Field blocks in: puts them together, decodes them, and finds out what they are: a request, a
//! response, or trailers.
//!
//! Clients send the same request many times, as the same few bytes once the dynamic table knows its
//! fields. [`Memo`] recognises such a block before anything is decoded.

use super::receive::{Happened, Signal};
use super::{Connection, Turn};
use crate::config::Role;
use crate::fault::Fault;
use crate::frame::{self, FrameHeader, flag};
use crate::head::{Filling, HeadBuffer};
use crate::stream::Progress;
use crate::{Code, Event, Priority};

/// A field block whose frames have not all come.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) stream: u32,
    first: Opening,
    pub(super) block: Vec<u8>,
    continuations: u32,
}

/// Flags of the HEADERS frame itself.
#[derive(Clone, Copy, Debug)]
struct Opening {
    end: bool,
    depends_on_itself: bool,
}

/// The last block that was a complete request without a body: while the dynamic table stays as it
/// is, the same bytes mean the same request.
#[derive(Debug)]
struct Memo {
    block: [u8; Memo::LEN],
    len: usize,
    generation: u64,
}

impl Default for Memo {
    fn default() -> Self {
        Self {
            block: [0; Memo::LEN],
            len: 0,
            generation: 0,
        }
    }
}

impl Memo {
    /// Longer blocks hold literals, which seldom repeat.
    const LEN: usize = 64;

    fn matches(&self, block: &[u8], generation: u64) -> bool {
        self.len > 0 && self.generation == generation && self.block[..self.len] == *block
    }

    fn keep(&mut self, block: &[u8], generation: u64) {
        self.len = 0;
        if let Some(place) = self.block.get_mut(..block.len()) {
            place.copy_from_slice(block);
            self.len = block.len();
            self.generation = generation;
        }
    }

    fn forget(&mut self) {
        self.len = 0;
    }
}

/// The latest head that came, apart from its connection, which gives it back when it rests.
#[derive(Debug, Default)]
pub(super) struct LatestHead {
    /// `None` before the first, and after a rest.
    kept: Option<Box<Kept>>,
    /// Number of the latest that was given back: no other one has it.
    id: u64,
}

#[derive(Debug)]
struct Kept {
    buffer: HeadBuffer,
    memo: Memo,
}

impl LatestHead {
    /// Makes room for another one.
    fn begin(&mut self) -> &mut HeadBuffer {
        let id = self.id;
        let kept = self.kept.get_or_insert_with(|| {
            Box::new(Kept {
                buffer: HeadBuffer::after(id),
                memo: Memo::default(),
            })
        });
        // What it stands for is overwritten.
        kept.memo.forget();
        kept.buffer.begin();
        &mut kept.buffer
    }

    /// Returns true if a block is the one that it came in.
    fn is(&self, block: &[u8], generation: u64) -> bool {
        let kept = self.kept.as_ref();
        kept.is_some_and(|kept| kept.memo.matches(block, generation))
    }

    /// Remembers the block that it came in.
    fn remember(&mut self, block: &[u8], generation: u64) {
        if let Some(kept) = &mut self.kept {
            kept.memo.keep(block, generation);
        }
    }

    /// Gives its memory back.
    pub(super) fn rest(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.id = kept.buffer.id();
        }
    }

    /// The head of an event that is being told of, or is about to be.
    pub(super) fn get(&self) -> &HeadBuffer {
        let kept = self.kept.as_ref();
        &kept
            .expect("heads are decoded before they are told of")
            .buffer
    }

    fn get_mut(&mut self) -> &mut HeadBuffer {
        let kept = self.kept.as_mut();
        &mut kept
            .expect("heads are decoded before they are checked")
            .buffer
    }

    #[cfg(test)]
    pub(super) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }
}

impl Turn<'_> {
    pub(super) fn headers(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Happened, Fault> {
        let id = header.stream;
        if id.is_multiple_of(2) {
            return Err(Fault::protocol("HEADERS on a stream that no client opens"));
        }
        let mut block = frame::unpad(header, payload)?;
        let mut depends_on_itself = false;
        if header.has(flag::PRIORITY) {
            let cut = Fault::Connection(Code::FRAME_SIZE_ERROR, "cut HEADERS");
            let (dependency, rest) = block.split_first_chunk().ok_or(cut)?;
            let (_weight, rest) = rest.split_first().ok_or(cut)?;
            depends_on_itself = frame::be31(*dependency) == id;
            block = rest;
        }
        let first = Opening {
            end: header.has(flag::END_STREAM),
            depends_on_itself,
        };
        if header.has(flag::END_HEADERS) {
            return self.block(id, first, block);
        }
        self.connection.assembly = Some(Assembly {
            stream: id,
            first,
            block: block.to_vec(),
            continuations: 0,
        });
        Ok(None)
    }

    pub(super) fn continuation(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Happened, Fault> {
        let connection = &mut *self.connection;
        let Some(assembly) = &mut connection.assembly else {
            return Err(Fault::protocol("CONTINUATION of nothing"));
        };
        assembly.continuations += 1;
        assembly.block.extend_from_slice(payload);
        let too_many = assembly.continuations > connection.config.floods.max_continuations;
        if too_many || assembly.block.len() > connection.config.max_block() {
            return Err(Fault::Connection(
                Code::ENHANCE_YOUR_CALM,
                "field block too long",
            ));
        }
        if !header.has(flag::END_HEADERS) {
            return Ok(None);
        }
        let whole = connection.assembly.take();
        whole.map_or(Ok(None), |whole| {
            self.block(whole.stream, whole.first, &whole.block)
        })
    }

    /// A whole field block. It is decoded even if nobody wants it: the compression state of all
    /// that follow depends on it (section 4.3).
    fn block(&mut self, id: u32, first: Opening, block: &[u8]) -> Result<Happened, Fault> {
        let connection = &mut *self.connection;
        let generation = connection.decoder.generation();
        let repeatable = connection.role == Role::Server && first.end && !first.depends_on_itself;
        let is_new = id > connection.last_stream;
        let repeated = repeatable && is_new && connection.head.is(block, generation);
        if !repeated {
            connection.decode(block)?;
        }
        match connection.role {
            Role::Server if is_new => {
                let happened = self.request(id, first, repeated)?;
                // A block that changes the dynamic table must be decoded each time.
                let unchanged = self.connection.decoder.generation() == generation;
                let is_request = matches!(happened, Some((_, Signal::Request { end: true })));
                if !repeated && unchanged && is_request {
                    self.connection.head.remember(block, generation);
                }
                Ok(happened)
            }
            Role::Server => self.trailers(id, first),
            Role::Client => self.response(id, first),
        }
    }

    /// A new stream. `checked`: the same head was found to be good before.
    fn request(&mut self, id: u32, first: Opening, checked: bool) -> Result<Happened, Fault> {
        let connection = &mut *self.connection;
        connection.last_stream = id;
        if connection.state.last_processed.is_some() {
            // It was told in GOAWAY that this one is not processed.
            return Err(Fault::Stream(id, Code::REFUSED_STREAM));
        }
        if first.depends_on_itself {
            return Err(Fault::Stream(id, Code::PROTOCOL_ERROR));
        }
        if connection.streams.len() >= connection.max_streams() {
            return Err(Fault::Stream(id, Code::REFUSED_STREAM));
        }
        let too_large = connection.head_is_too_large();
        let rules = connection.config.rules();
        let length = connection.head.get().content_length();
        if !too_large && !checked {
            let malformed = connection.head.get_mut().check_request(rules).is_err();
            if malformed || (first.end && length.is_some_and(|length| length > 0)) {
                connection.events.push_back(Event::RequestMalformed);
                return Err(Fault::Stream(id, Code::PROTOCOL_ERROR));
            }
        }
        let mut stream = self.new_stream(id);
        stream.receiving = if first.end {
            Progress::Done
        } else {
            Progress::Body
        };
        stream.wanted = !too_large;
        stream.tunnel = self.connection.head.get().is_method(b"CONNECT");
        stream.content_left = length.filter(|_| !too_large);
        stream.priority = self.connection.priority_of(id);
        self.connection.streams.insert(stream);
        let signal = if too_large {
            Signal::TooLarge
        } else {
            Signal::Request { end: first.end }
        };
        Ok(Some((id, signal)))
    }

    fn response(&mut self, id: u32, first: Opening) -> Result<Happened, Fault> {
        let now = self.now;
        let connection = &mut *self.connection;
        let too_large = connection.head_is_too_large();
        let checked = connection.head.get_mut().check_response();
        let length = connection.head.get().content_length();
        let Some(stream) = connection.streams.get_mut(id) else {
            return self.gone(id);
        };
        match stream.receiving {
            Progress::Head => {}
            Progress::Body => return self.trailers(id, first),
            Progress::Done => return Err(Fault::Stream(id, Code::STREAM_CLOSED)),
        }
        stream.progressed = now;
        if too_large {
            return Err(Fault::Stream(id, Code::CANCEL));
        }
        let status = checked.map_err(|_| Fault::Stream(id, Code::PROTOCOL_ERROR))?;
        if status < 200 {
            // Section 8.1: a final response is to come, so the stream can't end here.
            if first.end {
                return Err(Fault::Stream(id, Code::PROTOCOL_ERROR));
            }
            self.spend()?;
            return Ok(Some((id, Signal::Informational)));
        }
        // Section 8.1.1: responses to HEAD, and 204 and 304, have no content whatever
        // Content-Length says.
        let bodiless = stream.bodiless || status == 204 || status == 304;
        stream.content_left = if bodiless { Some(0) } else { length };
        stream.receiving = Progress::Body;
        if first.end {
            self.count_content(id, 0, true)?;
            self.received_all(id);
        }
        Ok(Some((id, Signal::Response { end: first.end })))
    }

    /// A second field block on a stream, or one on a stream that is gone.
    fn trailers(&mut self, id: u32, first: Opening) -> Result<Happened, Fault> {
        let connection = &mut *self.connection;
        let too_large = connection.head_is_too_large();
        let malformed = connection.head.get_mut().check_trailers().is_err();
        let Some(stream) = connection.streams.get_mut(id) else {
            return self.gone(id);
        };
        if stream.receiving == Progress::Done {
            return Err(Fault::Stream(id, Code::STREAM_CLOSED));
        }
        // Section 8.1: trailers end the message.
        if malformed || !first.end {
            return Err(Fault::Stream(id, Code::PROTOCOL_ERROR));
        }
        let wanted = stream.wanted;
        if too_large && wanted {
            return Err(Fault::Stream(id, Code::CANCEL));
        }
        self.count_content(id, 0, true)?;
        self.received_all(id);
        Ok(wanted.then_some((id, Signal::Trailers)))
    }

    /// Fields for a stream that is not open: too late if we reset it, else a fault.
    fn gone(&mut self, id: u32) -> Result<Happened, Fault> {
        if self.connection.streams.was_reset(id) {
            return self.spend().map(|()| None);
        }
        if self.is_idle(id) {
            return Err(Fault::protocol("HEADERS on an idle stream"));
        }
        Err(Fault::Connection(
            Code::STREAM_CLOSED,
            "HEADERS on a closed stream",
        ))
    }
}

impl Connection {
    fn decode(&mut self, block: &[u8]) -> Result<(), Fault> {
        let mut filling = Filling {
            limit: usize::try_from(self.config.max_header_list_size).unwrap_or(usize::MAX),
            buffer: self.head.begin(),
        };
        let decoded = self.decoder.decode(block, &mut filling);
        decoded.map_err(|_| Fault::Connection(Code::COMPRESSION_ERROR, "bad field block"))
    }

    fn head_is_too_large(&self) -> bool {
        let limit = usize::try_from(self.config.max_header_list_size).unwrap_or(usize::MAX);
        self.head.get().size() > limit
    }

    /// PRIORITY_UPDATE wins over the field (RFC 9218 section 8).
    fn priority_of(&mut self, id: u32) -> Priority {
        if !self.early_priorities.is_empty() {
            self.early_priorities.retain(|(stream, _)| *stream >= id);
            let early = &mut self.early_priorities;
            if let Some(index) = early.iter().rposition(|(stream, _)| *stream == id) {
                let (_, priority) = early[index];
                early.retain(|(stream, _)| *stream != id);
                return priority;
            }
        }
        self.head.get().priority()
    }
}
