//! Events that the application receives of a connection.

use std::fmt;

use bytes::Bytes;

use crate::{Direction, StreamId};

/// A connection of one [`Endpoint`](crate::Endpoint). Small and dense, made to index a slab; a
/// number comes back for a later connection only after its [`Event::Closed`] was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(pub usize);

/// An event of a connection. Events are edge-triggered: each stands for a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is not done, but streams can be used already (0-RTT, RFC 9001 section 4.6).
    ///
    /// A client may open streams and write; whoever sees that on its way can send it to the server
    /// again, so it must be harmless to repeat. The server may take nothing of it
    /// ([`Event::EarlyDataRefused`]).
    ///
    /// A server hears of the connection for the first time here, if the client sends early data. What
    /// comes before [`Event::Connected`] may be a copy, and the client's address may be borrowed.
    EarlyData,
    /// Client: the server took nothing of what was sent before the handshake. Every stream is gone,
    /// their numbers are free again; [`Event::Connected`] follows, and then all can be sent anew.
    EarlyDataRefused,
    /// The handshake is done. A server hears of a connection for the first time here, unless there was
    /// [`Event::EarlyData`]: one that fails before gives no event at all.
    Connected,
    /// The peer opened a stream. Read it at once: no [`Event::Readable`] tells of what came with it.
    Opened {
        /// The stream.
        stream: StreamId,
    },
    /// The stream may have something new to read, or the peer reset it. Read until
    /// [`Read::Pending`], or the next one may not come.
    Readable {
        /// The stream.
        stream: StreamId,
    },
    /// A write did not take everything before; now it takes some.
    Writable {
        /// The stream.
        stream: StreamId,
    },
    /// The peer has acknowledged all that was sent on the stream, its end included.
    Finished {
        /// The stream.
        stream: StreamId,
    },
    /// The peer wants no more of what is sent on the stream (STOP_SENDING). RFC 9000 section 3.5 asks
    /// for a reset with the same code.
    Stopped {
        /// The stream.
        stream: StreamId,
        /// The peer's application code.
        code: u64,
    },
    /// The peer allows more streams to be opened.
    StreamsAvailable {
        /// Direction of the streams.
        direction: Direction,
    },
    /// The last event of a connection; its handle is void from here on.
    Closed {
        /// Reason of the end.
        reason: CloseReason,
    },
}

/// The answer of [`QuicConnection::read`](crate::QuicConnection::read).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The next bytes, never empty.
    Data(Bytes),
    /// No bytes now, [`Event::Readable`] will tell; or the stream is over, and no bytes ever will
    /// come.
    Pending,
    /// The peer has said all. Told once.
    End,
    /// The peer gave the stream up, with this application code. Told once.
    Reset(u64),
}

/// Reason for which a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The connection was closed by this side's application.
    Local {
        /// The code sent to the peer.
        code: u64,
        /// Words for a log.
        reason: String,
    },
    /// The peer's application closed it.
    Peer {
        /// The peer's code.
        code: u64,
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

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Local { code, reason } => write!(f, "closed by us: {code:#x} {reason}"),
            CloseReason::Peer { code, reason } => write!(f, "closed by peer: {code:#x} {reason}"),
            CloseReason::Transport { reason } => f.write_str(reason),
            CloseReason::TimedOut => f.write_str("timed out"),
            CloseReason::Reset => f.write_str("reset by peer"),
            CloseReason::VersionMismatch => f.write_str("peer speaks no common quic version"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_reason_prints_who_closed_and_why() {
        let reason = CloseReason::Peer {
            code: 0x100,
            reason: "done".into(),
        };
        assert_eq!(reason.to_string(), "closed by peer: 0x100 done");
        assert_eq!(CloseReason::TimedOut.to_string(), "timed out");
    }
}
