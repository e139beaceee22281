//! Failures that a peer causes: of a stream or of the connection.

use crate::Code;

/// The peer broke HTTP/3 in a way that ends the connection (RFC 9114 section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The connection's error code.
    pub(crate) code: Code,
    /// Fault of the peer, for the CONNECTION_CLOSE frame and the log.
    pub(crate) reason: &'static str,
}

impl Violation {
    pub(crate) const fn new(code: Code, reason: &'static str) -> Self {
        Self { code, reason }
    }
}

/// Failure of an exchange, or of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The exchange is to be reset with this code; the connection goes on.
    Stream(Code),
    /// The peer reset the stream with this code.
    Reset(Code),
    /// The connection is to be closed.
    Connection(Violation),
}

impl From<Violation> for Failure {
    fn from(violation: Violation) -> Self {
        Failure::Connection(violation)
    }
}
