//! Events that the application receives, and the reasons for which a connection ends.

use std::fmt;
use std::sync::Arc;

use altway_quic as quic;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::{Code, StreamId};

/// An event of a connection, for the application. See each variant for what it owes in return.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is not done, but there may be requests already (0-RTT).
    ///
    /// A client may send requests of GET, HEAD and OPTIONS without a body, which are answered a round
    /// trip earlier. Whoever sees them on their way can send them again. A server that refuses them
    /// costs nothing: see [`Event::EarlyDataRefused`].
    ///
    /// A server hears of the connection for the first time here, if the client sends early data. Until
    /// [`Event::Connected`] it is given requests of those kinds only, each marked with
    /// [`EarlyData`](crate::EarlyData). It is not told of those of other methods, which are answered with
    /// status 425 (Too Early, RFC 8470 section 5.2); those with a body wait.
    EarlyData,
    /// Client: the server took none of the requests sent so far. [`Event::Connected`] follows, and with
    /// it they are sent again, on the same streams; nothing is to be done.
    EarlyDataRefused,
    /// The handshake is done. A server hears of a connection for the first time here, unless there was
    /// [`Event::EarlyData`]: one that fails before gives no event at all.
    Connected,
    /// Server: a request came. `end`: it has no body (any more to come). Otherwise
    /// [`Event::Readable`] follows as soon as there is something to read. Answer it, or reset it;
    /// if the body is not wanted, stop reading.
    Request {
        /// The stream to answer on.
        stream: StreamId,
        /// Method, absolute URI (from `:scheme`, `:authority` or Host, and `:path`), fields; with a
        /// [`Protocol`](crate::Protocol) in its extensions if it is an extended CONNECT. A request
        /// that repeats the one before may come as the same `Arc`, so that what was found for one can
        /// be used for the other.
        head: Arc<http::Request<()>>,
        /// The request is complete.
        end: bool,
    },
    /// Client: an interim response (1xx) came; the final one is still to come.
    Informational {
        /// The request's stream.
        stream: StreamId,
        /// Status and fields.
        head: http::Response<()>,
    },
    /// Client: the final response's head came. `end`: no body follows.
    Response {
        /// The request's stream.
        stream: StreamId,
        /// Status and fields.
        head: http::Response<()>,
        /// The response is complete.
        end: bool,
    },
    /// `recv_data` has something new: call it until it answers `Pending` or `End`; only then does
    /// the next `Readable` of this stream come.
    Readable {
        /// The stream.
        stream: StreamId,
    },
    /// `send_data` left bytes over before; now some of them fit. Of several streams the one whose
    /// priority is highest comes first.
    Writable {
        /// The stream.
        stream: StreamId,
    },
    /// Server: a request came whose head is above
    /// [`Limits::max_field_section_size`](crate::Limits::max_field_section_size), or for which there is no room. Answer
    /// it with 431 and no body (the method is not known, and may be HEAD), or reset it. Nothing more of it is read.
    RequestTooLarge {
        /// The stream to answer on.
        stream: StreamId,
    },
    /// Server: a request's head was not there in [`Limits::head`](crate::Limits::head). Answer it with 408 and no body, or
    /// reset it. Nothing more of it is read.
    RequestLate {
        /// The stream to answer on.
        stream: StreamId,
    },
    /// Server: a request came that is malformed (RFC 9114 section 4.1.2) by its head, or ends without the content that this announces. Its
    /// stream was reset with H3_MESSAGE_ERROR, and no other event tells of it.
    RequestMalformed,
    /// Server: a request was answered that no other event tells of: it came too early (425, RFC 8470).
    Answered {
        /// The stream.
        stream: StreamId,
        /// The status.
        status: StatusCode,
    },
    /// The peer has let less move of an exchange than [`Limits::stall`](crate::Limits::stall) asks for:
    /// `StreamReset` follows if the exchange was told of.
    Stalled {
        /// The stream.
        stream: StreamId,
    },
    /// The exchange failed: the peer reset it, cancelled it or rejected it, or sent a malformed
    /// message. The stream is gone for both directions.
    StreamReset {
        /// The stream.
        stream: StreamId,
        /// The peer's code, or the one this side gave it.
        code: Code,
    },
    /// Server: the peer has acknowledged all responses that have ended, and none is in progress; or others are, and it was
    /// [asked for](crate::Connection::watch_delivery). Not reported when the last exchange was given up.
    Delivered {
        /// True if responses are in progress that have not ended.
        in_progress: bool,
    },
    /// Client: the server wants no more of the request body; its response goes on. Further
    /// `send_data` answers `UnknownStream`.
    SendStopped {
        /// The stream.
        stream: StreamId,
        /// The server's code, usually H3_NO_ERROR.
        code: Code,
    },
    /// Client: after `Error::StreamsExhausted`, a request can be sent again.
    StreamsAvailable,
    /// The peer is shutting the connection down: no new requests. Those it will not process end
    /// in `StreamReset` with H3_REQUEST_REJECTED and may be sent again elsewhere.
    GoAway,
    /// The last event of a connection; its handle is void from here on.
    Closed {
        /// Reason of the end.
        reason: CloseReason,
    },
}

/// Reason for which a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The connection was closed by this side: the application closed it, or the peer broke HTTP/3.
    Local {
        /// The code sent to the peer.
        code: Code,
        /// Words for a log.
        reason: String,
    },
    /// The peer's HTTP/3 layer closed it.
    Peer {
        /// The peer's code.
        code: Code,
        /// The peer's words, as text.
        reason: String,
    },
    /// The QUIC or TLS layer of either side closed it, for instance over an untrusted certificate.
    Transport {
        /// Words for a log or a user.
        reason: String,
    },
    /// The peer sent nothing for the idle time-out.
    TimedOut,
    /// The peer has lost the connection's state (a stateless reset: it was restarted).
    Reset,
    /// The peer speaks no QUIC version that this side speaks.
    VersionMismatch,
}

impl From<quic::CloseReason> for CloseReason {
    fn from(reason: quic::CloseReason) -> Self {
        match reason {
            quic::CloseReason::Local { code, reason } => CloseReason::Local {
                code: Code::new(code),
                reason,
            },
            quic::CloseReason::Peer { code, reason } => CloseReason::Peer {
                code: Code::new(code),
                reason,
            },
            quic::CloseReason::Transport { reason } => CloseReason::Transport { reason },
            quic::CloseReason::TimedOut => CloseReason::TimedOut,
            quic::CloseReason::Reset => CloseReason::Reset,
            quic::CloseReason::VersionMismatch => CloseReason::VersionMismatch,
            other => CloseReason::Transport {
                reason: other.to_string(),
            },
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Local { code, reason } if reason.is_empty() => {
                write!(f, "closed by us: {code}")
            }
            CloseReason::Local { code, reason } => write!(f, "closed by us: {code}: {reason}"),
            CloseReason::Peer { code, reason } if reason.is_empty() => {
                write!(f, "closed by peer: {code}")
            }
            CloseReason::Peer { code, reason } => write!(f, "closed by peer: {code}: {reason}"),
            CloseReason::Transport { reason } => f.write_str(reason),
            CloseReason::TimedOut => f.write_str("timed out"),
            CloseReason::Reset => f.write_str("reset by peer"),
            CloseReason::VersionMismatch => f.write_str("peer speaks no common quic version"),
        }
    }
}

/// The answer of `recv_data`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// The next bytes of the body, never empty.
    Data(Bytes),
    /// Fields after the body, which is complete. [`Received::End`] comes once the message is.
    Trailers(HeaderMap),
    /// No bytes now; [`Event::Readable`] will tell.
    Pending,
    /// The message is complete, and its body's length agrees with Content-Length if there was one.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_reason_prints_who_closed_and_why() {
        let reason = CloseReason::Peer {
            code: Code::H3_NO_ERROR,
            reason: String::new(),
        };
        assert_eq!(reason.to_string(), "closed by peer: H3_NO_ERROR");
        let reason = CloseReason::Local {
            code: Code::H3_FRAME_ERROR,
            reason: "cut".into(),
        };
        assert_eq!(reason.to_string(), "closed by us: H3_FRAME_ERROR: cut");
    }
}
