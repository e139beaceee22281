//! Events that the application receives, and the types in them.

use std::fmt;

use bytes::Bytes;

use crate::{Code, Head};

/// A stream of one connection (RFC 9113 section 5.1.1): 1, 3, 5, … in the order in which the client
/// opened them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(crate) u32);

impl StreamId {
    /// The number on the wire.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An event of the connection, in the order of happening. See each variant for what it asks for in return.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Server: a request came. Answer it or reset it. `end`: it has no body; else
    /// [`Event::Data`] follows.
    Request {
        /// The stream to answer on.
        stream: StreamId,
        /// Method, target and fields, checked by RFC 9113 section 8.
        head: Head<'a>,
        /// The request is complete.
        end: bool,
    },
    /// Server: a request came whose fields are above
    /// [`Config::max_header_list_size`](crate::Config::max_header_list_size). Answer it with 431
    /// and no body (the method is not known, and may be HEAD), or reset it. Its body is discarded.
    RequestTooLarge {
        /// The stream to answer on.
        stream: StreamId,
    },
    /// Server: a request's head was not there in [`Timeouts::frame`](crate::Timeouts::frame). What follows it can't be
    /// read without it (RFC 9113 section 4.3): answer it with 408 and no body, if at all, and then
    /// [close](crate::Turn::close) the connection.
    RequestLate {
        /// The stream to answer on.
        stream: StreamId,
    },
    /// Server: a request came whose head is malformed (RFC 9113 section 8.1.1). Its stream was reset with PROTOCOL_ERROR, and no
    /// other event tells of it.
    RequestMalformed,
    /// Client: an interim response (1xx) came; the final one is still to come.
    Informational {
        /// The request's stream.
        stream: StreamId,
        /// Status and fields.
        head: Head<'a>,
    },
    /// Client: the final response's head came. `end`: no body follows.
    Response {
        /// The request's stream.
        stream: StreamId,
        /// Status and fields.
        head: Head<'a>,
        /// The response is complete.
        end: bool,
    },
    /// Bytes of a body. Call [`Turn::release`](crate::Turn::release) for as many when they are no
    /// longer held: that is what lets the peer send more.
    Data {
        /// The stream of the body.
        stream: StreamId,
        /// The next bytes; empty only with `end`.
        data: &'a [u8],
        /// The message is complete, and its length agrees with Content-Length if there was one.
        end: bool,
    },
    /// Fields after the body; the message is complete.
    Trailers {
        /// The stream of the fields.
        stream: StreamId,
        /// The fields.
        head: Head<'a>,
    },
    /// The peer has let less move of an exchange than [`Timeouts::stall`](crate::Timeouts::stall) asks for:
    /// `StreamReset` follows.
    Stalled {
        /// The stream.
        stream: StreamId,
    },
    /// The exchange failed: the peer reset it or refused it, broke the protocol on it, or stalled.
    /// The stream is gone for both directions.
    StreamReset {
        /// The stream.
        stream: StreamId,
        /// The peer's code, or the one this side gave it.
        code: Code,
    },
    /// Client: after [`Error::StreamsExhausted`](crate::Error::StreamsExhausted), a request can be
    /// sent again.
    StreamsAvailable,
    /// Client: the server names alternative services (RFC 7838 section 4).
    AltSvc {
        /// The origin it speaks for; `None`: the one of `stream`.
        origin: Option<Bytes>,
        /// The request's stream, if it came on one.
        stream: Option<StreamId>,
        /// The Alt-Svc field value.
        value: Bytes,
    },
    /// The peer is shutting the connection down: no new requests. Those it will not process end in
    /// `StreamReset` with REFUSED_STREAM and may be sent again elsewhere.
    GoAway {
        /// Error code in GOAWAY.
        code: Code,
    },
    /// The last event. Send what is in the output, then close the transport.
    Closed {
        /// Reason of the end.
        reason: CloseReason,
    },
}

/// Reason for which a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The end came from this side: the application closed the connection, or the peer broke the
    /// protocol or a limit.
    Local {
        /// The code sent in GOAWAY.
        code: Code,
        /// Words for a log.
        reason: &'static str,
    },
    /// The connection had nothing left to do after either side had sent GOAWAY.
    Finished,
    /// The peer sent nothing for the idle time-out.
    Idle,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Local { code, reason } => write!(f, "closed by us: {code}: {reason}"),
            CloseReason::Finished => f.write_str("finished"),
            CloseReason::Idle => f.write_str("idle for too long"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_reason_prints_who_closed_and_why() {
        let reason = CloseReason::Local {
            code: Code::PROTOCOL_ERROR,
            reason: "no preface",
        };
        assert_eq!(
            reason.to_string(),
            "closed by us: PROTOCOL_ERROR: no preface"
        );
        assert_eq!(CloseReason::Idle.to_string(), "idle for too long");
    }
}
