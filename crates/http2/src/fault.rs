//! Faults of the peer, and how far they reach (RFC 9113 section 5.4).

use crate::Code;

/// A fault of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Makes the whole connection useless: GOAWAY, then close.
    Connection(Code, &'static str),
    /// Ends one stream: RST_STREAM.
    Stream(u32, Code),
}

impl Fault {
    /// A connection error PROTOCOL_ERROR.
    pub(crate) const fn protocol(reason: &'static str) -> Self {
        Fault::Connection(Code::PROTOCOL_ERROR, reason)
    }
}
