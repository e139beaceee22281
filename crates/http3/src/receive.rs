//! The receiving half of an exchange: from stream bytes to a head, a body and its end.
//!
//! The receiver reads ahead of the application by one piece of stream at most, so that QUIC's flow
//! control holds the peer back. A closure supplies the bytes; what a head means is the caller's to
//! know.

use altway_quic::Read;
use bytes::Bytes;

use crate::budget::Budget;
use crate::failure::{Failure, Violation};
use crate::frame::{Decoder, Frame};
use crate::{Code, Role};

/// Result of reading up to the final head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// A field section.
    Section(Bytes),
    /// A frame or section above the limit.
    TooLarge,
    /// Nothing that is complete yet.
    Pending,
}

/// Bytes, or the end, after a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// The stream has ended.
    End,
    /// Bytes that can be read.
    Some,
    /// No bytes yet.
    Pending,
}

/// Next piece of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The next bytes, never empty.
    Data(Bytes),
    /// The field section of trailers.
    Trailers(Bytes),
    /// No bytes now.
    Pending,
    /// The message is complete.
    End,
}

/// The next thing on a stream.
enum Input {
    Frame(Frame),
    /// No whole frame now.
    Pending,
    /// The stream has ended.
    End,
}

/// Length of the body that a head allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// Any length.
    Any,
    /// The length of the content-length field.
    Exactly(u64),
    /// None, whatever content-length says (answers to HEAD, status 204 and 304).
    Empty,
}

/// The receiving half of an exchange.
#[derive(Debug)]
pub(crate) struct Receiver {
    role: Role,
    frames: Decoder,
    /// Read from the stream and not yet decoded: one piece at most.
    rest: Bytes,
    body: Option<Body>,
    received: u64,
}

impl Receiver {
    /// `limit`: the largest field section, in bytes as RFC 9114 section 4.2.2 counts. An encoded
    /// section above it is taken as too large without a look at it.
    pub(crate) fn new(role: Role, limit: u64) -> Self {
        let frames = Decoder::request(limit);
        Self {
            role,
            frames,
            rest: Bytes::new(),
            body: None,
            received: 0,
        }
    }

    /// Returns true if the final head is still to come.
    pub(crate) fn in_head(&self) -> bool {
        self.body.is_none()
    }

    /// Bytes of memory that a section takes which has not arrived whole.
    pub(crate) fn kept(&self) -> usize {
        self.frames.kept()
    }

    /// Reads up to the next head.
    pub(crate) fn poll_head(
        &mut self,
        budget: &mut Budget,
        next: &mut impl FnMut() -> Read,
    ) -> Result<Head, Failure> {
        match self.poll_frame(budget, next)? {
            Input::Frame(Frame::Headers(section)) => Ok(Head::Section(section)),
            Input::Frame(Frame::OversizedHeaders) => Ok(Head::TooLarge),
            Input::Frame(frame) => Err(self.unexpected(&frame).into()),
            Input::Pending => Ok(Head::Pending),
            Input::End => {
                self.frames.finish()?;
                Err(Failure::Stream(self.incomplete()))
            }
        }
    }

    /// Tells that the head just read was the final one, and what body it allows.
    pub(crate) fn begin_body(&mut self, body: Body) {
        self.frames.head_done();
        self.body = Some(body);
    }

    /// Returns what follows the head, as far as it is there.
    pub(crate) fn poll_follow(
        &mut self,
        next: &mut impl FnMut() -> Read,
    ) -> Result<Follow, Failure> {
        if !self.rest.is_empty() {
            return Ok(Follow::Some);
        }
        match next() {
            Read::Data(data) => {
                self.rest = data;
                Ok(Follow::Some)
            }
            Read::Pending => Ok(Follow::Pending),
            Read::End => self.end().map(|()| Follow::End),
            Read::Reset(code) => Err(Failure::Reset(Code::new(code))),
        }
    }

    /// Reads on in the body.
    pub(crate) fn poll_body(
        &mut self,
        budget: &mut Budget,
        next: &mut impl FnMut() -> Read,
    ) -> Result<Piece, Failure> {
        match self.poll_frame(budget, next)? {
            Input::Frame(Frame::Data(data)) => {
                self.account(data.len())?;
                Ok(Piece::Data(data))
            }
            Input::Frame(Frame::Headers(section)) => Ok(Piece::Trailers(section)),
            Input::Frame(Frame::OversizedHeaders) => Err(Failure::Stream(Code::H3_EXCESSIVE_LOAD)),
            Input::Frame(frame) => Err(self.unexpected(&frame).into()),
            Input::Pending => Ok(Piece::Pending),
            Input::End => self.end().map(|()| Piece::End),
        }
    }

    /// Reads up to the next frame that leads somewhere.
    fn poll_frame(
        &mut self,
        budget: &mut Budget,
        next: &mut impl FnMut() -> Read,
    ) -> Result<Input, Failure> {
        loop {
            match self.frames.decode(&mut self.rest)? {
                Some(Frame::Ignored(cost)) => budget.spend(cost)?,
                Some(frame) => return Ok(Input::Frame(frame)),
                None => {}
            }
            if !self.rest.is_empty() {
                continue;
            }
            match next() {
                Read::Data(data) => self.rest = data,
                Read::Pending => return Ok(Input::Pending),
                Read::End => return Ok(Input::End),
                Read::Reset(code) => return Err(Failure::Reset(Code::new(code))),
            }
        }
    }

    fn end(&self) -> Result<(), Failure> {
        self.frames.finish()?;
        match self.body {
            // RFC 9114 section 4.1.2: a message is malformed if "the value of the Content-Length
            // header field does not equal the sum of the DATA frame lengths received".
            Some(Body::Exactly(length)) if length != self.received => {
                Err(Failure::Stream(Code::H3_MESSAGE_ERROR))
            }
            _ => Ok(()),
        }
    }

    fn account(&mut self, len: usize) -> Result<(), Failure> {
        self.received = self.received.saturating_add(len as u64);
        let allowed = match self.body {
            Some(Body::Exactly(length)) => length,
            Some(Body::Empty) => 0,
            Some(Body::Any) | None => u64::MAX,
        };
        match self.received <= allowed {
            true => Ok(()),
            false => Err(Failure::Stream(Code::H3_MESSAGE_ERROR)),
        }
    }

    /// The decoder lets PUSH_PROMISE through on request streams, and nothing else that this half
    /// does not handle.
    fn unexpected(&self, frame: &Frame) -> Violation {
        match (self.role, frame) {
            // Section 7.2.5: "A client MUST treat receipt of a PUSH_PROMISE frame that contains a
            // larger Push ID than the client has advertised as a connection error of H3_ID_ERROR."
            // This client never advertised one.
            (Role::Client, Frame::PushPromise) => {
                Violation::new(Code::H3_ID_ERROR, "push was never allowed")
            }
            _ => Violation::new(
                Code::H3_FRAME_UNEXPECTED,
                "frame not allowed on this stream",
            ),
        }
    }

    fn incomplete(&self) -> Code {
        match self.role {
            Role::Server => Code::H3_REQUEST_INCOMPLETE,
            Role::Client => Code::H3_MESSAGE_ERROR,
        }
    }
}

/// The violation of a field section that can't be decoded.
pub(crate) fn decompression_failed() -> Violation {
    Violation::new(
        Code::QPACK_DECOMPRESSION_FAILED,
        "field section can't be decoded",
    )
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests need some instant to count from"
)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Instant;

    use super::*;
    use crate::Rate;
    use crate::frame::{encode_header, kind};

    const SECTION: &[u8] = &[0, 0, 0xd1];

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_header(kind, payload.len() as u64, &mut out);
        out.extend_from_slice(payload);
        out
    }

    fn budget() -> Budget {
        let rate = Rate {
            burst: 3,
            per_second: 0,
        };
        Budget::new(rate, Instant::now(), "flood")
    }

    fn source(chunks: Vec<Read>) -> impl FnMut() -> Read {
        let mut chunks = VecDeque::from(chunks);
        move || chunks.pop_front().unwrap_or(Read::Pending)
    }

    fn receiver(role: Role, body: Body) -> Receiver {
        let mut receiver = Receiver::new(role, 1000);
        let head = Read::Data(frame(kind::HEADERS, SECTION).into());
        let section = receiver
            .poll_head(&mut budget(), &mut source(vec![head]))
            .unwrap();
        assert_eq!(section, Head::Section(Bytes::from_static(SECTION)));
        receiver.begin_body(body);
        receiver
    }

    /// Reads everything up to the end or the failure, as one.
    fn body(mut receiver: Receiver, chunks: Vec<Read>) -> Result<Vec<u8>, Failure> {
        let (mut next, mut whole) = (source(chunks), Vec::new());
        let mut budget = budget();
        loop {
            match receiver.poll_body(&mut budget, &mut next)? {
                Piece::Data(data) | Piece::Trailers(data) => whole.extend_from_slice(&data),
                Piece::End => return Ok(whole),
                Piece::Pending => panic!("the source ran dry"),
            }
        }
    }

    fn data(payload: &[u8]) -> Read {
        Read::Data(frame(kind::DATA, payload).into())
    }

    #[test]
    fn a_body_ends_with_its_stream_after_its_trailers() {
        let trailers = Read::Data(frame(kind::HEADERS, b"trailers").into());
        let chunks = vec![data(b"ab"), data(b""), data(b"c"), trailers, Read::End];
        assert_eq!(
            body(receiver(Role::Server, Body::Any), chunks),
            Ok(b"abctrailers".to_vec())
        );
    }

    #[test]
    fn frames_that_lead_nowhere_are_counted() {
        let chunks = |n| [vec![data(b""); n], vec![data(b"x"), Read::End]].concat();
        let run = |n| body(receiver(Role::Server, Body::Any), chunks(n));
        assert_eq!(run(3), Ok(b"x".to_vec()));
        let Err(Failure::Connection(violation)) = run(4) else {
            panic!("a flood passed")
        };
        assert_eq!(violation.code, Code::H3_EXCESSIVE_LOAD);
    }

    #[test]
    fn a_body_keeps_to_its_announced_length() {
        let malformed = Err(Failure::Stream(Code::H3_MESSAGE_ERROR));
        let run = |body_rule, payload: &[u8]| {
            body(
                receiver(Role::Client, body_rule),
                vec![data(payload), Read::End],
            )
        };
        assert_eq!(run(Body::Exactly(3), b"abc"), Ok(b"abc".to_vec()));
        assert_eq!(run(Body::Exactly(3), b"ab"), malformed);
        assert_eq!(run(Body::Exactly(3), b"abcd"), malformed);
        assert_eq!(run(Body::Empty, b"a"), malformed);
        assert_eq!(run(Body::Empty, b""), Ok(vec![]));
    }

    #[test]
    fn a_cut_frame_costs_the_connection_and_a_missing_head_the_stream() {
        let cut = Read::Data(Bytes::from_static(&[0, 5, b'x']));
        match body(receiver(Role::Server, Body::Any), vec![cut, Read::End]) {
            Err(Failure::Connection(violation)) => {
                assert_eq!(violation.code, Code::H3_FRAME_ERROR);
            }
            other => panic!("{other:?}"),
        }
        for (role, code) in [
            (Role::Server, Code::H3_REQUEST_INCOMPLETE),
            (Role::Client, Code::H3_MESSAGE_ERROR),
        ] {
            let result =
                Receiver::new(role, 1000).poll_head(&mut budget(), &mut source(vec![Read::End]));
            assert_eq!(result, Err(Failure::Stream(code)));
        }
    }

    #[test]
    fn push_promise_is_an_error_in_either_role() {
        for (role, code) in [
            (Role::Server, Code::H3_FRAME_UNEXPECTED),
            (Role::Client, Code::H3_ID_ERROR),
        ] {
            let push = Read::Data(frame(kind::PUSH_PROMISE, &[0]).into());
            match Receiver::new(role, 1000).poll_head(&mut budget(), &mut source(vec![push])) {
                Err(Failure::Connection(violation)) => assert_eq!(violation.code, code),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_follows_the_head_is_told_without_reading_it() {
        let mut next = source(vec![Read::Pending, data(b"x"), Read::End]);
        let mut receiver = receiver(Role::Server, Body::Any);
        assert_eq!(receiver.poll_follow(&mut next), Ok(Follow::Pending));
        assert_eq!(receiver.poll_follow(&mut next), Ok(Follow::Some));
        assert_eq!(
            receiver.poll_body(&mut budget(), &mut next),
            Ok(Piece::Data(Bytes::from_static(b"x")))
        );
        assert_eq!(receiver.poll_follow(&mut next), Ok(Follow::End));
    }
}
