//! The crate's error type: why a call of the application could not be obeyed.
//!
//! A fault of the *peer* is no error of a call: it ends in
//! [`Event::StreamReset`](crate::Event::StreamReset) or [`Event::Closed`](crate::Event::Closed).

/// Reason for which a call on a [`Turn`](crate::Turn) failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stream is not open: never opened, finished, or reset by either side.
    #[error("no such stream")]
    UnknownStream,
    /// The server's SETTINGS_MAX_CONCURRENT_STREAMS, or our own limit, is reached. Wait for
    /// [`Event::StreamsAvailable`](crate::Event::StreamsAvailable).
    #[error("all streams are in use")]
    StreamsExhausted,
    /// The connection is closed, or either side is shutting it down: no new requests on it.
    #[error("connection is going away")]
    GoingAway,
    /// The head can't be expressed in HTTP/2.
    #[error("cannot send this message over HTTP/2: {reason}")]
    InvalidMessage {
        /// Fault of the message.
        reason: &'static str,
    },
    /// The head is larger than what the peer's SETTINGS_MAX_HEADER_LIST_SIZE allows.
    #[error("head of {size} bytes exceeds the peer's limit of {limit}")]
    HeadTooLarge {
        /// Size of the head as RFC 9113 section 6.5.2 counts: names + values + 32 a field.
        size: usize,
        /// The peer's limit.
        limit: usize,
    },
    /// The call does not fit the state of the message: a second head, data before the head or
    /// after the end.
    #[error("call out of order: {reason}")]
    OutOfOrder {
        /// Rule that was broken.
        reason: &'static str,
    },
    /// The connection plays the other role (a server can't send requests, a client no responses).
    #[error("not possible in this role: {reason}")]
    WrongRole {
        /// Rule that was broken.
        reason: &'static str,
    },
}
