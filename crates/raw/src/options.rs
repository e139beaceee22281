//! Options of a run, and settings of its transports. Every value is valid by type; what is left to
//! refuse is what the machine and the network say.

use altway_load::Trust;
use altway_quic::{Congestion, Version};
use std::fmt;
use std::net::IpAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The port when none is given, for TCP and UDP.
pub const DEFAULT_PORT: u16 = 9_443;

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportKind {
    /// TCP of the kernel, without encryption.
    Tcp,
    /// TLS 1.3 over the same.
    Tls,
    /// QUIC, one bidirectional stream.
    Quic,
}

impl TransportKind {
    /// All, in the order in which they are reported.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Tls, Self::Quic];

    /// The name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Quic => "quic",
        }
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The end that sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The client sends, the server takes.
    Up,
    /// The server sends, the client takes.
    Down,
    /// Both ends, at the same time.
    Both,
}

impl FromStr for Direction {
    type Err = UnknownDirection;

    fn from_str(text: &str) -> Result<Self, UnknownDirection> {
        match text {
            "up" => Ok(Self::Up),
            "down" => Ok(Self::Down),
            "both" => Ok(Self::Both),
            _ => Err(UnknownDirection),
        }
    }
}

/// The text names no direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected up, down or both")]
pub struct UnknownDirection;

/// The sizes of one transfer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes from the client to the server.
    pub up: u64,
    /// Bytes from the server to the client.
    pub down: u64,
    /// True if both directions go at the same time; else the server answers once it has all.
    pub together: bool,
}

impl Sizes {
    /// A bulk transfer of `bytes` in each direction that `direction` names.
    #[must_use]
    pub fn bulk(direction: Direction, bytes: u64) -> Self {
        let (up, down) = match direction {
            Direction::Up => (bytes, 0),
            Direction::Down => (0, bytes),
            Direction::Both => (bytes, bytes),
        };
        Self {
            up,
            down,
            together: true,
        }
    }

    /// A request of so many bytes, and then a response of so many.
    #[must_use]
    pub fn exchange(request: u64, response: u64) -> Self {
        Self {
            up: request,
            down: response,
            together: false,
        }
    }
}

/// Cipher that TLS and QUIC use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cipher {
    /// AES-128-GCM, which processors have instructions for. The default.
    #[default]
    Aes,
    /// ChaCha20-Poly1305, which needs none.
    ChaCha20,
}

/// Settings of this end's transports: each field switches off one thing that makes them fast, to
/// show what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// The cipher; the client's choice. Default AES.
    pub cipher: Cipher,
    /// QUIC: its version; the client's choice. Default 1.
    pub quic_version: Version,
    /// Congestion control of what this end sends. Default `None`: over TCP the system's choice, over
    /// QUIC Cubic. Two transports are compared fairly only with the same at work.
    pub congestion: Option<Congestion>,
    /// Plain TCP: the kernel copies payload in and out. Off: it sends from a file in memory (sendfile)
    /// and throws away what comes (MSG_TRUNC), so no payload crosses its border and none can be
    /// verified. Default on.
    pub copies: bool,
    /// QUIC: the kernel splits one large buffer into datagrams (GSO). Default on.
    pub gso: bool,
    /// QUIC: the kernel joins datagrams that arrive together (GRO). Default on.
    pub gro: bool,
    /// QUIC: several datagrams, or joined ones, may pass in one call. Off: one datagram a call, each
    /// way, which also switches GSO and GRO off. Default on.
    pub batches: bool,
    /// QUIC: the largest UDP payload that either end sends, 1,200 to 65,527 bytes, if path MTU
    /// discovery finds that the path carries it; 1,200 switches the search off. Default `None`: what the
    /// client's interface carries, as TCP has it; over loopback 64 KiB.
    pub mtu: Option<u16>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            cipher: Cipher::Aes,
            quic_version: Version::default(),
            congestion: None,
            copies: true,
            gso: true,
            gro: true,
            batches: true,
            mtu: None,
        }
    }
}

/// Options of a client.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server: host name or address.
    pub host: String,
    /// The port number.
    pub port: u16,
    /// The transport.
    pub over: TransportKind,
    /// Payload of each transfer.
    pub sizes: Sizes,
    /// Number of transfers, one after the other on one connection. Default 1.
    pub requests: NonZeroU64,
    /// True if both ends compare every byte with what it should be; costs processor time that the
    /// report counts. Default off.
    pub verify: bool,
    /// Certificates that are believed over TLS and QUIC.
    pub trust: Trust,
    /// Time that nothing may move before the run is given up. Default 30 s.
    pub silence_timeout: Duration,
    /// Settings of this end.
    pub tuning: Tuning,
}

impl Options {
    /// A transfer of `sizes` over `over`, with the defaults of every other field.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16, over: TransportKind, sizes: Sizes) -> Self {
        Self {
            host: host.into(),
            port,
            over,
            sizes,
            requests: NonZeroU64::MIN,
            verify: false,
            trust: Trust::System,
            silence_timeout: Duration::from_secs(30),
            tuning: Tuning::default(),
        }
    }

    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Options of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The address to listen on; `None`: all, IPv6 and IPv4.
    pub ip: Option<IpAddr>,
    /// The port number, the same for TCP and UDP; 0 picks one that is free.
    pub port: u16,
    /// PEM file of the certificate chain, the server's own first.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
    /// TCP connections at a time, each on a thread of its own; further ones wait to be accepted.
    /// Default 4. QUIC has a thread for all of its connections, 64 at a time.
    pub tcp_threads: NonZeroUsize,
    /// Time that a client may be silent. Default 30 s.
    pub silence_timeout: Duration,
    /// Settings of this end; its cipher is the client's choice.
    pub tuning: Tuning,
}

impl ServerOptions {
    /// The defaults of every other field.
    #[must_use]
    pub fn new(ip: Option<IpAddr>, port: u16, certificate: PathBuf, key: PathBuf) -> Self {
        Self {
            ip,
            port,
            certificate,
            key,
            tcp_threads: NonZeroUsize::new(4).expect("four is not zero"),
            silence_timeout: Duration::from_secs(30),
            tuning: Tuning::default(),
        }
    }
}
