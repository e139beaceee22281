//! The crate's error type: why a call of the application could not be obeyed.
//!
//! A fault of the *peer* is no error of a call: it ends in [`Event::Closed`](crate::Event::Closed).

use std::net::SocketAddr;

/// Reason for which a call on an [`Endpoint`](crate::Endpoint) or a
/// [`Connection`](crate::Connection) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stream can't be sent on: never opened, finished, reset, stopped by the peer, or the
    /// peer's alone.
    #[error("stream is not open for sending")]
    UnknownStream,
    /// The endpoint takes and makes no new connections any more.
    #[error("endpoint is shutting down")]
    ShuttingDown,
    /// The endpoint holds [`Limits::max_connections`](crate::Limits::max_connections) already.
    #[error("connection limit of {limit} reached")]
    TooManyConnections {
        /// The limit.
        limit: usize,
    },
    /// A server's endpoint opens no connections.
    #[error("a server opens no connections")]
    NotAClient,
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
    /// The engine refused the connection for a reason that has no variant of its own.
    #[error("quic engine refused to connect: {reason}")]
    Connect {
        /// The engine's words.
        reason: String,
    },
}
