//! The crate's error type: why a call of the application could not be obeyed.
//!
//! A fault of the *peer* is no error of a call: it ends in [`Event::StreamReset`] or
//! [`Event::Closed`](crate::Event::Closed).
//!
//! [`Event::StreamReset`]: crate::Event::StreamReset

use crate::Code;

/// Reason for which a call on the [`Endpoint`](crate::Endpoint) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The handle names no open connection (never opened, or closed since).
    #[error("no such connection")]
    UnknownConnection,
    /// The stream is not open: never opened, finished, or reset by either side.
    #[error("no such request stream")]
    UnknownStream,
    /// The peer's stream limit, or [`Limits::max_concurrent_requests`], is reached. Wait for
    /// [`Event::StreamsAvailable`](crate::Event::StreamsAvailable).
    ///
    /// [`Limits::max_concurrent_requests`]: crate::Limits::max_concurrent_requests
    #[error("all request streams are in use")]
    StreamsExhausted,
    /// The peer, or this side, is shutting the connection down: no new requests on it.
    #[error("connection is going away")]
    GoingAway,
    /// The peer abandoned the stream; told once, here or by `Event::StreamReset`.
    #[error("stream reset by peer: {code}")]
    StreamReset {
        /// The peer's code, or the one this side gave to a malformed message.
        code: Code,
    },
    /// The head can't be expressed in HTTP/3.
    #[error("cannot send this message over HTTP/3: {reason}")]
    InvalidMessage {
        /// Fault of the message.
        reason: &'static str,
    },
    /// The head is larger than what the peer's SETTINGS_MAX_FIELD_SECTION_SIZE allows.
    #[error("head of {size} bytes exceeds the peer's limit of {limit}")]
    HeadTooLarge {
        /// Size of the head as RFC 9114 section 4.2.2 counts: names + values + 32 a field.
        size: u64,
        /// The peer's limit.
        limit: u64,
    },
    /// The call does not fit the state of the message: a second head, data before the head or
    /// after the end, or less data than the frame that an earlier call began announced.
    #[error("call out of order: {reason}")]
    OutOfOrder {
        /// Rule that was broken.
        reason: &'static str,
    },
    /// The endpoint plays the other role (a server sends no requests, a client no responses).
    #[error("not possible in this role: {reason}")]
    WrongRole {
        /// Rule that was broken.
        reason: &'static str,
    },
    /// A field of the configuration is out of range.
    #[error("{field} is out of range: {expected}")]
    InvalidConfig {
        /// Name of the field.
        field: &'static str,
        /// The range in words.
        expected: &'static str,
    },
    /// QUIC's part of the endpoint refused: a configuration out of range, a TLS configuration that
    /// can't carry QUIC, or a connection that can't be begun.
    #[error(transparent)]
    Quic(altway_quic::Error),
}

impl From<altway_quic::Error> for Error {
    fn from(error: altway_quic::Error) -> Self {
        match error {
            altway_quic::Error::UnknownStream => Error::UnknownStream,
            other => Error::Quic(other),
        }
    }
}
