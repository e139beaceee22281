//! Errors: a group that can't be made, and a request that has no response.

use crate::retry::Failure;
use http::StatusCode;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A group of servers that can't be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file of authorities can't be read.
    #[error("cannot read the authorities in `{path}`")]
    Roots {
        /// The file.
        path: PathBuf,
        /// The fault of the file.
        source: rustls::pki_types::pem::Error,
    },
    /// The place of the trusted authorities has none.
    #[error("{place} has no certificate of an authority")]
    NoRoots {
        /// The place that has none.
        place: String,
    },
    /// The file of a client certificate can't be read.
    #[error("cannot read the client certificate `{path}`")]
    ClientChain {
        /// The file.
        path: PathBuf,
        /// The fault of the file.
        source: rustls::pki_types::pem::Error,
    },
    /// The key of a client certificate can't be read.
    #[error("cannot read the key of the client certificate in {place}")]
    ClientKey {
        /// The place in which it was found.
        place: String,
        /// The fault of the text.
        source: rustls::pki_types::pem::Error,
    },
    /// A client certificate and its key don't belong to each other, or can't be used.
    #[error("the client certificate `{path}` cannot be used with the key in {place}")]
    ClientCertificate {
        /// The chain's file.
        path: PathBuf,
        /// The place in which the key was found.
        place: String,
        /// The fault.
        source: rustls::Error,
    },
    /// A client certificate that TLS does not take, because it is of an old version of X.509.
    #[error("the client certificate `{path}` is of version 1 or 2 of X.509, which servers refuse")]
    ClientCertificateVersion {
        /// The chain's file.
        path: PathBuf,
    },
    /// TLS can't be set up.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    /// The group has no servers.
    #[error("a group has one server at least")]
    NoServers,
    /// The thread that looks after the servers can't be started.
    #[error("cannot start the thread that checks servers")]
    Thread(#[source] std::io::Error),
}

/// The reason for which a request has no response of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// No server is healthy.
    NoServer,
    /// The servers have as many requests as they may, and as many wait for them as may.
    Busy,
    /// No connection to a server.
    Connect,
    /// A server ended the connection before its response.
    Closed,
    /// A server sent no head of a response in time.
    TimedOut,
    /// A server sent what is no response.
    Malformed,
    /// A server speaks HTTP/2 where HTTP/1.1 is configured, or the other way round.
    OtherVersion,
    /// A server of HTTP/2 or HTTP/3 takes no WebSockets.
    NoTunnel,
    /// A server of HTTP/1.1 has answered another WebSocket handshake than it was sent (RFC 6455 section 4.1).
    Handshake,
    /// The client did not send its content in time, or broke off.
    Client,
    /// The client's content is longer than [`Options::max_body`](crate::Options::max_body).
    TooLong,
    /// The request has come through this server, or others of its kind, too often.
    Loop,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::NoServer,
        Self::Busy,
        Self::Connect,
        Self::Closed,
        Self::TimedOut,
        Self::Malformed,
        Self::OtherVersion,
        Self::NoTunnel,
        Self::Handshake,
        Self::Client,
        Self::TooLong,
        Self::Loop,
    ];

    /// The reason of a request whose last attempt failed so.
    pub(crate) fn of(failure: Failure) -> Self {
        match failure {
            Failure::Connect => Self::Connect,
            Failure::Connection | Failure::Unprocessed => Self::Closed,
            Failure::TimedOut => Self::TimedOut,
            Failure::Malformed => Self::Malformed,
            Failure::OtherVersion => Self::OtherVersion,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NoServer => "no upstream is healthy",
            Self::Busy => "the upstreams have all requests that they may have",
            Self::Connect => "no connection to the upstream",
            Self::Closed => "the upstream closed the connection before its response",
            Self::TimedOut => "the upstream did not respond in time",
            Self::Malformed => "the upstream's response is malformed",
            Self::OtherVersion => {
                "the upstream speaks another version of HTTP: `http://` is HTTP/1.1, `h2c://` HTTP/2 in clear text"
            }
            Self::NoTunnel => "the upstream takes no WebSockets over its protocol",
            Self::Handshake => {
                "the upstream's Sec-WebSocket-Accept is not that of the handshake (RFC 6455 section 4.1)"
            }
            Self::Client => "the client did not send its content",
            Self::TooLong => "the client's content is longer than it may be",
            Self::Loop => {
                "the request has come through altway 16 times: the upstream passes it on to where it came from"
            }
        })
    }
}

/// The answer to a request that has no response of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// 502, 503, 504; 408, 400 or 413 where it is for the client; 508 of a loop.
    pub status: StatusCode,
    /// The reason.
    pub reason: Reason,
    /// The time after which it may be better.
    pub retry_after: Option<Duration>,
}
