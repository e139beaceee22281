//! What passes over the crate's face: handles, datagrams in and out, and events.
//!
//! These types name nothing of the QUIC engine below, so that it can be exchanged.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use quinn_proto::VarInt;

use crate::Code;

/// A connection of one [`Endpoint`](crate::Endpoint). Small and dense, made to index a slab; a
/// number comes back for a later connection only after its [`Event::Closed`] was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(pub usize);

/// A request stream of one connection: the QUIC stream ID (RFC 9000 section 2.1), a multiple of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

impl StreamId {
    /// The number on the wire: 0, 4, 8, … in the order in which the client opened the streams.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn of(id: quinn_proto::StreamId) -> Self {
        Self(id.into())
    }

    pub(crate) fn to_quic(self) -> quinn_proto::StreamId {
        VarInt::from_u64(self.0)
            .expect("made from a stream ID, below 2^62")
            .into()
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The two ECN bits of an IP header (RFC 3168). `None` where they are 00 or not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// ECT(0), bits 10: what QUIC senders set.
    Ect0,
    /// ECT(1), bits 01.
    Ect1,
    /// Congestion experienced, bits 11.
    Ce,
}

impl Ecn {
    /// From the low two bits of the TOS or traffic-class byte.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits & 3 {
            0b10 => Some(Ecn::Ect0),
            0b01 => Some(Ecn::Ect1),
            0b11 => Some(Ecn::Ce),
            _ => None,
        }
    }

    /// The two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::Ect0 => 0b10,
            Ecn::Ect1 => 0b01,
            Ecn::Ce => 0b11,
        }
    }
}

/// One UDP datagram that came in. The shell splits GRO batches.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Where it came from.
    pub remote: SocketAddr,
    /// The address it was sent to, if the shell knows (IP_PKTINFO); answers leave from it.
    pub local_ip: Option<IpAddr>,
    /// Its ECN bits.
    pub ecn: Option<Ecn>,
    /// The UDP payload, up to 65,527 bytes.
    pub payload: &'a [u8],
}

/// A batch of datagrams to send to one address, whose bytes `poll_transmit` put into its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub destination: SocketAddr,
    /// The address to send from, if one was given with the datagrams of this connection.
    pub local_ip: Option<IpAddr>,
    /// ECN bits to set.
    pub ecn: Option<Ecn>,
    /// Set if the buffer holds several datagrams: each has this many bytes, the last may have
    /// fewer (UDP_SEGMENT).
    pub segment_size: Option<usize>,
    /// Number of bytes in the buffer.
    pub size: usize,
}

/// What the application learns of a connection. See each variant for what it owes in return.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The hand-shake is done. A server hears of a connection for the first time here: one that
    /// fails before gives no event at all.
    Connected,
    /// Server: a request came. `end`: it has no body (any more to come). Otherwise
    /// [`Event::Readable`] follows as soon as there is something to read. Answer it, or reset it;
    /// if the body is not wanted, stop reading.
    Request {
        /// The stream to answer on.
        stream: StreamId,
        /// Method, absolute URI (from `:scheme`, `:authority` or Host, and `:path`), fields.
        head: http::Request<()>,
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
    /// `send_data` left bytes over before; now some of them fit.
    Writable {
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
        /// Why.
        reason: CloseReason,
    },
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// This side closed it: the application did, or the peer broke HTTP/3.
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
    /// Nothing came from the peer for the idle time-out.
    TimedOut,
    /// The peer has lost the connection's state (a stateless reset: it was restarted).
    Reset,
    /// The peer speaks no QUIC version that this side speaks.
    VersionMismatch,
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
    /// Nothing now; [`Event::Readable`] will tell.
    Pending,
    /// The body is complete, and its length agrees with Content-Length if there was one.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecn_bits_round_trip() {
        for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            assert_eq!(Ecn::from_bits(ecn.bits() | 0xa4), Some(ecn));
        }
        assert_eq!(Ecn::from_bits(0), None);
    }

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
