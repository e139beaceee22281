//! The crate's error type: why a call of the application could not be obeyed.
//!
//! What the *peer* does wrong is no error of a call: it ends in [`Event::StreamReset`] or
//! [`Event::Closed`](crate::Event::Closed).
//!
//! [`Event::StreamReset`]: crate::Event::StreamReset

use std::net::SocketAddr;

use crate::Code;

/// Why a call on the [`Endpoint`](crate::Endpoint) failed.
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
    /// The endpoint holds [`Limits::max_connections`](crate::Limits::max_connections) already.
    #[error("connection limit of {limit} reached")]
    TooManyConnections {
        /// The limit.
        limit: usize,
    },
    /// The peer abandoned the stream; told once, here or by `Event::StreamReset`.
    #[error("stream reset by peer: {code}")]
    StreamReset {
        /// The peer's code, or the one this side gave to a malformed message.
        code: Code,
    },
    /// The head can't be expressed in HTTP/3.
    #[error("cannot send this message over HTTP/3: {reason}")]
    InvalidMessage {
        /// What is wrong with it.
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
        /// Which rule was broken.
        reason: &'static str,
    },
    /// The endpoint plays the other role (a server can't connect, a client can't respond).
    #[error("not possible in this role: {reason}")]
    WrongRole {
        /// Which rule was broken.
        reason: &'static str,
    },
    /// The name to connect to is neither a DNS name nor an IP address.
    #[error("invalid server name `{name}`")]
    InvalidServerName {
        /// The name given.
        name: String,
    },
    /// The address to connect to can't be one: port 0 or an unspecified address.
    #[error("cannot connect to address {address}")]
    InvalidAddress {
        /// The address given.
        address: SocketAddr,
    },
    /// A field of the configuration is out of range.
    #[error("{field} is out of range: {expected}")]
    InvalidConfig {
        /// Name of the field.
        field: &'static str,
        /// The range in words.
        expected: &'static str,
    },
    /// The TLS configuration can't carry QUIC.
    #[error("tls configuration is not usable for quic")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The QUIC engine refused the connection for a reason that has no variant of its own.
    #[error("quic engine refused to connect: {reason}")]
    Connect {
        /// The engine's words.
        reason: String,
    },
}
