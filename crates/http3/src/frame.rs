//! HTTP/3 frames (RFC 9114 section 7): a streaming decoder that also watches the order of frames.
//!
//! The decoder takes the bytes of one stream in pieces of any size and yields whole frames, except
//! DATA, which it hands through piece by piece without copying. It never holds more than one
//! frame's payload, and of that no more than the limit it was given; everything else is skipped as
//! it streams by. What a frame means is left to the caller.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::failure::Violation;
use crate::{Code, varint};

/// Frame types of RFC 9114 section 7.2.
pub(crate) mod kind {
    pub(crate) const DATA: u64 = 0x00;
    pub(crate) const HEADERS: u64 = 0x01;
    pub(crate) const CANCEL_PUSH: u64 = 0x03;
    pub(crate) const SETTINGS: u64 = 0x04;
    pub(crate) const PUSH_PROMISE: u64 = 0x05;
    pub(crate) const GOAWAY: u64 = 0x07;
    pub(crate) const MAX_PUSH_ID: u64 = 0x0d;
    /// PRIORITY_UPDATE (RFC 9218 section 7.2) of a request, and of a push.
    pub(crate) const PRIORITY_UPDATE: u64 = 0xf0700;
    pub(crate) const PRIORITY_UPDATE_PUSH: u64 = 0xf0701;
}

/// Largest PRIORITY_UPDATE payload that is accepted, bytes. Real ones have less than ten.
const MAX_PRIORITY_UPDATE: u64 = 1024;

/// A frame that leads nowhere costs one token, and one more for each so many bytes.
const BYTES_PER_TOKEN: u64 = 16 << 10;

const NOT_ONE_ID: Violation = Violation::new(Code::H3_FRAME_ERROR, "frame does not hold one ID");

/// Longest frame header: type and length.
pub(crate) const MAX_HEADER_LEN: usize = 2 * varint::MAX_LEN;

/// A frame, or a piece of one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A piece of a DATA frame's payload, never empty.
    Data(Bytes),
    /// A HEADERS frame's payload.
    Headers(Bytes),
    /// A HEADERS frame above the limit; its payload will be skipped.
    OversizedHeaders,
    /// A SETTINGS frame's payload.
    Settings(Bytes),
    /// GOAWAY with its ID.
    GoAway(u64),
    /// MAX_PUSH_ID with its ID.
    MaxPushId(u64),
    /// CANCEL_PUSH; its ID does not matter to an endpoint that never pushes nor allows it.
    CancelPush,
    /// A PUSH_PROMISE frame's header; its payload will be skipped.
    PushPromise,
    /// PRIORITY_UPDATE of a request, with its stream and the Priority field's value.
    PriorityUpdate(u64, Bytes),
    /// PRIORITY_UPDATE of a push.
    PushPriorityUpdate,
    /// A frame that leads nowhere: DATA without a payload, or one of an unknown type, whose payload
    /// will be skipped. What it costs the peer, in tokens of a [`Budget`](crate::budget::Budget).
    Ignored(u32),
}

/// Phase of a stream, which decides what frames may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Request stream, before the final HEADERS.
    Head,
    /// Request stream, DATA or trailers may come.
    Body,
    /// Request stream, nothing but extensions may come.
    Trailers,
    /// Control stream, before SETTINGS.
    BeforeSettings,
    /// Control stream.
    Control,
}

#[derive(Debug)]
enum State {
    Header {
        bytes: [u8; MAX_HEADER_LEN],
        filled: usize,
    },
    Payload {
        kind: u64,
        len: usize,
        bytes: BytesMut,
    },
    Data {
        remaining: u64,
    },
    Skip {
        remaining: u64,
    },
}

impl State {
    const START: State = State::Header {
        bytes: [0; MAX_HEADER_LEN],
        filled: 0,
    };

    fn payload(kind: u64, len: usize) -> Self {
        let bytes = BytesMut::new();
        State::Payload { kind, len, bytes }
    }
}

/// The frames of one stream.
#[derive(Debug)]
pub(crate) struct Decoder {
    phase: Phase,
    max_payload: u64,
    state: State,
}

impl Decoder {
    /// Makes a reader for a request stream; HEADERS beyond `max_headers` encoded bytes are not
    /// taken in.
    pub(crate) fn request(max_headers: u64) -> Self {
        Self::new(Phase::Head, max_headers)
    }

    /// Makes a reader for a control stream; SETTINGS beyond `max_payload` bytes are an error.
    pub(crate) fn control(max_payload: u64) -> Self {
        Self::new(Phase::BeforeSettings, max_payload)
    }

    fn new(phase: Phase, max_payload: u64) -> Self {
        let state = State::START;
        Self {
            phase,
            max_payload,
            state,
        }
    }

    /// Tells that the final head was seen, so that DATA may follow.
    pub(crate) fn head_done(&mut self) {
        if self.phase == Phase::Head {
            self.phase = Phase::Body;
        }
    }

    /// Takes bytes from the front of `input` up to the end of the next frame, or all of them.
    pub(crate) fn decode(&mut self, input: &mut Bytes) -> Result<Option<Frame>, Violation> {
        while !input.is_empty() {
            if let Some(frame) = self.step(input)? {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    /// Bytes of memory that a frame takes which has not arrived whole.
    pub(crate) fn kept(&self) -> usize {
        match &self.state {
            State::Payload { bytes, .. } => bytes.capacity(),
            _ => 0,
        }
    }

    /// Checks that the stream may end here. RFC 9114 section 7.1: "When a stream terminates
    /// cleanly, if the last frame on the stream was truncated, this MUST be treated as a connection
    /// error of type H3_FRAME_ERROR."
    pub(crate) fn finish(&self) -> Result<(), Violation> {
        match self.state {
            State::Header { filled: 0, .. } => Ok(()),
            _ => Err(Violation::new(
                Code::H3_FRAME_ERROR,
                "stream ended within a frame",
            )),
        }
    }

    fn step(&mut self, input: &mut Bytes) -> Result<Option<Frame>, Violation> {
        match &mut self.state {
            State::Header { bytes, filled } => {
                let Some((kind, len)) = take_header(bytes, filled, input) else {
                    return Ok(None);
                };
                self.begin(kind, len)
            }
            State::Payload { kind, len, bytes } => {
                if bytes.is_empty() && input.len() >= *len {
                    let (kind, payload) = (*kind, input.split_to(*len));
                    self.state = State::START;
                    return whole(kind, payload).map(Some);
                }
                let take = input.len().min(*len - bytes.len());
                bytes.put(input.split_to(take));
                if bytes.len() < *len {
                    return Ok(None);
                }
                let (kind, payload) = (*kind, bytes.split().freeze());
                self.state = State::START;
                whole(kind, payload).map(Some)
            }
            State::Data { remaining } => {
                let piece = take_some(remaining, input);
                self.end_if_done();
                Ok(Some(Frame::Data(piece)))
            }
            State::Skip { remaining } => {
                take_some(remaining, input);
                self.end_if_done();
                Ok(None)
            }
        }
    }

    fn end_if_done(&mut self) {
        if let State::Data { remaining: 0 } | State::Skip { remaining: 0 } = self.state {
            self.state = State::START;
        }
    }

    /// A frame header is complete: is the frame allowed here, and what becomes of its payload?
    fn begin(&mut self, kind: u64, len: u64) -> Result<Option<Frame>, Violation> {
        self.check_order(kind)?;
        let mut announced = None;
        self.state = match kind {
            kind::DATA => {
                announced = (len == 0).then_some(Frame::Ignored(1));
                State::Data { remaining: len }
            }
            kind::HEADERS if len > self.max_payload => {
                announced = Some(Frame::OversizedHeaders);
                State::Skip { remaining: len }
            }
            kind::PUSH_PROMISE => {
                announced = Some(Frame::PushPromise);
                State::Skip { remaining: len }
            }
            kind::HEADERS | kind::SETTINGS => payload(kind, len, self.max_payload)?,
            kind::GOAWAY | kind::MAX_PUSH_ID | kind::CANCEL_PUSH => id_payload(kind, len)?,
            kind::PRIORITY_UPDATE | kind::PRIORITY_UPDATE_PUSH => {
                payload(kind, len, MAX_PRIORITY_UPDATE)?
            }
            _ => {
                announced = Some(Frame::Ignored(cost(len)));
                State::Skip { remaining: len }
            }
        };
        self.end_if_done();
        if let State::Payload { len: 0, .. } = self.state {
            self.state = State::START;
            announced = Some(whole(kind, Bytes::new())?);
        }
        Ok(announced)
    }

    /// Checks that a frame of this type may come now: the table of RFC 9114 section 7.2.
    fn check_order(&mut self, kind: u64) -> Result<(), Violation> {
        let unexpected = |what| Err(Violation::new(Code::H3_FRAME_UNEXPECTED, what));
        if self.phase == Phase::BeforeSettings {
            if kind != kind::SETTINGS {
                // Section 6.2.1: "If the first frame of the control stream is any other frame
                // type, this MUST be treated as a connection error of type H3_MISSING_SETTINGS."
                let reason = "control stream did not begin with SETTINGS";
                return Err(Violation::new(Code::H3_MISSING_SETTINGS, reason));
            }
            self.phase = Phase::Control;
            return Ok(());
        }
        match (kind, self.phase) {
            // Section 7.2.8: "Frame types that were used in HTTP/2 where there is no corresponding
            // HTTP/3 frame type have also been reserved [...] receipt MUST be treated as a
            // connection error of type H3_FRAME_UNEXPECTED."
            (0x02 | 0x06 | 0x08 | 0x09, _) => unexpected("frame type reserved by HTTP/2"),
            (kind::SETTINGS, Phase::Control) => unexpected("second SETTINGS"),
            (kind::DATA | kind::HEADERS | kind::PUSH_PROMISE, Phase::Control) => {
                unexpected("request frame on the control stream")
            }
            (_, Phase::Control) => Ok(()),
            (
                kind::SETTINGS
                | kind::GOAWAY
                | kind::MAX_PUSH_ID
                | kind::CANCEL_PUSH
                | kind::PRIORITY_UPDATE
                | kind::PRIORITY_UPDATE_PUSH,
                _,
            ) => unexpected("control frame on a request stream"),
            (kind::DATA, Phase::Head) => unexpected("DATA before HEADERS"),
            (kind::DATA, Phase::Trailers) => unexpected("DATA after trailers"),
            (kind::HEADERS, Phase::Trailers) => unexpected("HEADERS after trailers"),
            (kind::HEADERS, Phase::Body) => {
                self.phase = Phase::Trailers;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Appends a frame header.
pub(crate) fn encode_header(kind: u64, len: u64, out: &mut impl BufMut) {
    varint::encode(kind, out);
    varint::encode(len, out);
}

fn payload(kind: u64, len: u64, limit: u64) -> Result<State, Violation> {
    if len > limit {
        return Err(Violation::new(Code::H3_EXCESSIVE_LOAD, "frame too large"));
    }
    let len = usize::try_from(len).expect("limits are far below 4 GiB");
    Ok(State::payload(kind, len))
}

fn cost(len: u64) -> u32 {
    u32::try_from(len / BYTES_PER_TOKEN).map_or(u32::MAX, |more| more.saturating_add(1))
}

fn id_payload(kind: u64, len: u64) -> Result<State, Violation> {
    match usize::try_from(len) {
        Ok(len @ 1..=varint::MAX_LEN) => Ok(State::payload(kind, len)),
        _ => Err(NOT_ONE_ID),
    }
}

fn whole(kind: u64, payload: Bytes) -> Result<Frame, Violation> {
    match kind {
        kind::HEADERS => return Ok(Frame::Headers(payload)),
        kind::SETTINGS => return Ok(Frame::Settings(payload)),
        _ => {}
    }
    let update = matches!(kind, kind::PRIORITY_UPDATE | kind::PRIORITY_UPDATE_PUSH);
    let (id, rest) = match varint::decode(&payload) {
        Some((id, len)) if len == payload.len() || update => (id, payload.slice(len..)),
        _ => return Err(NOT_ONE_ID),
    };
    Ok(match kind {
        kind::PRIORITY_UPDATE => Frame::PriorityUpdate(id, rest),
        kind::PRIORITY_UPDATE_PUSH => Frame::PushPriorityUpdate,
        kind::GOAWAY => Frame::GoAway(id),
        kind::MAX_PUSH_ID => Frame::MaxPushId(id),
        _ => Frame::CancelPush,
    })
}

/// Moves bytes of a frame header from `input` to `bytes`; the type and length once it is whole.
fn take_header(
    bytes: &mut [u8; MAX_HEADER_LEN],
    filled: &mut usize,
    input: &mut Bytes,
) -> Option<(u64, u64)> {
    let before = *filled;
    let copied = input.len().min(MAX_HEADER_LEN - before);
    bytes[before..before + copied].copy_from_slice(&input[..copied]);
    let seen = &bytes[..before + copied];
    let header = varint::decode(seen).and_then(|(kind, kind_len)| {
        varint::decode(&seen[kind_len..]).map(|(len, len_len)| (kind, len, kind_len + len_len))
    });
    let Some((kind, len, used)) = header else {
        *filled += copied;
        input.advance(copied);
        return None;
    };
    input.advance(used - before);
    Some((kind, len))
}

fn take_some(remaining: &mut u64, input: &mut Bytes) -> Bytes {
    let take = usize::try_from(*remaining)
        .unwrap_or(usize::MAX)
        .min(input.len());
    *remaining -= take as u64;
    input.split_to(take)
}

#[cfg(test)]
mod tests;
