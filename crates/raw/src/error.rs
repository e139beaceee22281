//! Errors for which a run could not be, or broke off.

use crate::options::TransportKind;
use crate::protocol::Fault;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Reason why a server could not be set up, or a run not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host's name has no address.
    #[error("cannot resolve `{host}`")]
    Resolve {
        /// The name.
        host: String,
        /// Error of the resolver.
        source: io::Error,
    },
    /// The peer or the path: nobody answers there.
    #[error("cannot connect to {authority} over {over}")]
    Connect {
        /// Host and port.
        authority: String,
        /// The transport.
        over: TransportKind,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The peer: the handshake failed.
    #[error("cannot connect to {authority} over {over}: {reason}")]
    Handshake {
        /// Host and port.
        authority: String,
        /// The transport.
        over: TransportKind,
        /// Reason that TLS or QUIC gives.
        reason: String,
    },
    /// The peer: something else is listening there.
    #[error("what listens at {authority} is no `altway raw serve` (over {over})")]
    Foreign {
        /// Host and port.
        authority: String,
        /// The transport.
        over: TransportKind,
    },
    /// The peer or the path: the connection ended before the transfers did.
    #[error("lost {authority} over {over} after {moved} of {wanted} bytes: {reason}")]
    Lost {
        /// Host and port.
        authority: String,
        /// The transport.
        over: TransportKind,
        /// Payload bytes that had passed, either way.
        moved: u64,
        /// Payload bytes that should have.
        wanted: u64,
        /// Reason for its end.
        reason: String,
    },
    /// The peer or the path: nothing moved any more.
    #[error(
        "{authority} over {over} was silent for {silence_timeout:?}, after {moved} of {wanted} bytes"
    )]
    Silent {
        /// Host and port.
        authority: String,
        /// The transport.
        over: TransportKind,
        /// Time that was waited.
        silence_timeout: Duration,
        /// Payload bytes that had passed, either way.
        moved: u64,
        /// Payload bytes that should have.
        wanted: u64,
    },
    /// The path or either end: a payload was changed.
    #[error("byte {at} of a transfer over {over} is not what was sent")]
    WrongByte {
        /// The transport.
        over: TransportKind,
        /// The position in the transfer.
        at: u64,
    },
    /// The peer: it counted other bytes than it was sent.
    #[error("the server took {taken} of {sent} bytes over {over}")]
    WrongCount {
        /// The transport.
        over: TransportKind,
        /// Payload bytes that were sent.
        sent: u64,
        /// Payload bytes that the server counted.
        taken: u64,
    },
    /// The authority that is to be believed can't be had.
    #[error("cannot set up whose certificates are believed")]
    Trust(#[source] altway_load::Error),
    /// The TLS library refuses the configuration.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    /// A certificate for the measurement of shares can't be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The QUIC engine refuses the configuration, or the server's name.
    #[error("cannot set up QUIC")]
    Quic(#[from] altway_quic::Error),
    /// A PEM file is not there, or holds no certificate or key.
    #[error("cannot use `{}`", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Fault that was found in it.
        source: rustls::pki_types::pem::Error,
    },
    /// The port is in use by another program.
    #[error("{transport} port {} of {} is in use by another program", address.port(), address.ip())]
    PortInUse {
        /// The address that was wanted.
        address: SocketAddr,
        /// TCP or UDP.
        transport: &'static str,
    },
    /// The kernel lacks the congestion control, or keeps it from this user.
    #[error("cannot use the TCP congestion control `{name}`")]
    Congestion {
        /// The name.
        name: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The address can't be listened on.
    #[error("cannot listen on {address} ({transport})")]
    Listen {
        /// The address that was wanted.
        address: SocketAddr,
        /// TCP or UDP.
        transport: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The machine gives no thread, timer or descriptor.
    #[error("cannot set up {what}")]
    Setup {
        /// The thing that was wanted, with its article.
        what: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
}

/// Cause of a connection's end, before it is known to whom it belonged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionFailure {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error("the peer closed the connection")]
    Closed,
    #[error("nothing moved")]
    Silent,
    #[error("the end was asked for")]
    Stopped,
    #[error("{0}")]
    Quic(altway_quic::CloseReason),
    #[error("the peer does not keep to the protocol")]
    Peer(Fault),
}

impl From<Fault> for ConnectionFailure {
    fn from(fault: Fault) -> Self {
        Self::Peer(fault)
    }
}
