//! Configuration of a server outside of its sites.

use crate::{Acme, Limits, ListenAddress, ServerId, Site};
use altway_document::words;
use altway_units::Network;
use std::fmt;
use std::num::{NonZeroU16, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

/// The port number of the address that a server listens at when none is given: 443 needs privileges.
pub const DEFAULT_PORT: u16 = 8443;

/// The most addresses that a server listens at.
pub const MAX_LISTENERS: usize = 16;

/// The most worker threads.
pub const MAX_THREADS: usize = 4_096;

/// A configuration as it was typed, with the defaults of what was left out. Each value is valid by its
/// type; whether they go together is seen when it becomes a [`Plan`](crate::Plan).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Folder that keeps what is learnt of clients over a restart; `None`: nothing is kept.
    pub state: Option<PathBuf>,
    /// Worker threads; `None`: one per core.
    pub threads: Option<NonZeroUsize>,
    /// The time for which a stop waits for requests that are being answered.
    pub grace: Duration,
    /// The Unix socket where the processes of this server meet, one after the other; `None`: no process
    /// takes over from another.
    pub takeover: Option<PathBuf>,
    /// The admin socket: a path, or an address of the loopback interface with a port; `None`: there is none.
    pub admin: Option<String>,
    /// The user, by name or number, as whom the server goes on once its sockets are bound and its keys read; `None`: it
    /// stays the one that started it.
    pub user: Option<String>,
    /// The group, likewise; `None`: the user's.
    pub group: Option<String>,
    /// The files that the process can reach.
    pub sandbox: Sandbox,
    /// Files of the keys of session tickets, of which the first encrypts; none: keys of the server's own.
    pub ticket_keys: Vec<PathBuf>,
    /// The addresses at which it listens, and their protection.
    pub listen: Listen,
    /// The options of TCP and QUIC.
    pub transport: Transport,
    /// The limits on what clients may cost.
    pub limits: Limits,
    /// The logs that are written.
    pub log: Log,
    /// The way to certificates that the server gets by itself; `None`: it gets none.
    pub acme: Option<Acme>,
    /// The sites, in the order in which they were written; those of included files follow.
    pub sites: Vec<Site>,
}

/// No sites, and the default of every other key.
impl Default for Config {
    fn default() -> Self {
        Self {
            state: None,
            threads: None,
            grace: Duration::from_secs(10),
            takeover: None,
            admin: None,
            user: None,
            group: None,
            sandbox: Sandbox::default(),
            ticket_keys: Vec::new(),
            listen: Listen::default(),
            transport: Transport::default(),
            limits: Limits::default(),
            log: Log::default(),
            acme: None,
            sites: Vec::new(),
        }
    }
}

/// The files that the process can reach: `sandbox`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// True if the kernel keeps the process from all others, where it can (Landlock).
    pub is_on: bool,
    /// Folders and files that it can read beside those that the configuration names.
    pub read: Vec<PathBuf>,
    /// Folders that it can write to beside those that the configuration names.
    pub write: Vec<PathBuf>,
}

/// A sandbox that is on, with what the configuration names.
impl Default for Sandbox {
    fn default() -> Self {
        Self {
            is_on: true,
            read: Vec::new(),
            write: Vec::new(),
        }
    }
}

/// The addresses at which a server listens, and their protection: `[listen]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The addresses, at most [`MAX_LISTENERS`]; those with TLS first.
    pub listeners: Vec<Listener>,
    /// The protocols that clients are given, unless their listener says something else.
    pub protocols: Protocols,
    /// The port number that clients see, where a NAT or a container changes it and their listener says nothing else;
    /// `None`: the one that they came by.
    pub alt_svc_port: Option<NonZeroU16>,
    /// Networks of proxies that say by the PROXY protocol whose connections they pass on.
    pub proxy_protocol_from: Vec<Network>,
    /// The way of new TCP connections to the workers.
    pub spread: Spread,
}

/// TLS at all addresses, [`DEFAULT_PORT`].
impl Default for Listen {
    fn default() -> Self {
        let address = ListenAddress {
            ip: None,
            port: DEFAULT_PORT,
        };
        Self {
            listeners: vec![Listener {
                address,
                security: Security::Tls,
                protocols: Protocols::default(),
                alt_svc_port: None,
            }],
            protocols: Protocols::default(),
            alt_svc_port: None,
            proxy_protocol_from: Vec::new(),
            spread: Spread::default(),
        }
    }
}

impl Listen {
    /// The listener that is bound first: the first one with TLS, if there is one.
    #[must_use]
    pub fn main(&self) -> Option<&Listener> {
        let tls = self
            .listeners
            .iter()
            .find(|it| it.security == Security::Tls);
        tls.or(self.listeners.first())
    }

    /// Returns true if clients of any address are given HTTP/3.
    #[must_use]
    pub fn has_http3(&self) -> bool {
        self.listeners.iter().any(Listener::has_http3)
    }

    /// Returns true if there is clear text for everybody, in which HTTP-01 can be answered (RFC 8555 section 8.3).
    #[must_use]
    pub fn has_plain_http(&self) -> bool {
        let plain = [Security::ClearText, Security::Redirect];
        self.listeners.iter().any(|it| plain.contains(&it.security))
    }

    /// Returns true if no listener has TLS.
    #[must_use]
    pub fn is_clear_text(&self) -> bool {
        self.listeners.iter().all(|it| it.security != Security::Tls)
    }
}

/// One address to listen at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Listener {
    /// The address, for TCP and UDP alike.
    pub address: ListenAddress,
    /// The protection of its connections.
    pub security: Security,
    /// The protocols that its clients are given; HTTP/3 with TLS alone.
    pub protocols: Protocols,
    /// The port number that its clients see, where a NAT or a container changes it; `None`: as
    /// [`Listen::alt_svc_port`] says.
    pub alt_svc_port: Option<NonZeroU16>,
}

impl Listener {
    /// Returns true if the listener's clients are given HTTP/3.
    #[must_use]
    pub fn has_http3(&self) -> bool {
        self.security == Security::Tls && self.protocols.contains(Protocol::H3)
    }
}

/// The protection of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Security {
    /// TLS over TCP, and QUIC: `https`.
    Tls,
    /// Clear text over TCP, without HTTP/3: `http`.
    ClearText,
    /// The same from a proxy that terminates TLS: `http`, with `behind-tls-proxy`.
    BehindTlsProxy,
    /// Clear text that leads to `https`: `http` beside `https`, unless `redirect = false`.
    Redirect,
}

words! {
    /// A protocol that clients are given.
    Protocol, "a protocol" {
        /// HTTP/1.1 over TCP.
        H1 = "h1",
        /// HTTP/2 over TCP.
        H2 = "h2",
        /// HTTP/3 over QUIC.
        H3 = "h3",
    }
}

/// A set of protocols. Default: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocols([bool; 3]);

impl Protocols {
    /// No protocol.
    pub const NONE: Self = Self([false; 3]);

    /// These and another.
    #[must_use]
    pub fn with(mut self, protocol: Protocol) -> Self {
        self.0[protocol as usize] = true;
        self
    }

    /// Returns true if a protocol is among them.
    #[must_use]
    pub fn contains(self, protocol: Protocol) -> bool {
        self.0[protocol as usize]
    }

    /// The protocols, HTTP/1.1 first.
    pub fn iter(self) -> impl Iterator<Item = Protocol> {
        let all = Protocol::ALL.iter().copied();
        all.filter(move |protocol| self.contains(*protocol))
    }
}

impl Default for Protocols {
    fn default() -> Self {
        Self([true; 3])
    }
}

/// `h1, h2`.
impl fmt::Display for Protocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Protocol::name).collect();
        f.pad(&names.join(", "))
    }
}

words! {
    /// The way of new TCP connections to the workers.
    Spread, "a way of spreading connections" {
        /// Each worker accepts by itself: no hand-over.
        PerWorker = "per-worker",
        /// One thread accepts for all: even shares.
        RoundRobin = "round-robin",
    }
}

words! {
    /// Format in which the access log writes a request down.
    LogFormat, "a format of the access log" {
        /// `key=value`.
        KeyValue = "key-value",
        /// A JSON object a line.
        Json = "json",
        /// The combined format of Apache and nginx.
        Combined = "combined",
    }
}

words! {
    /// A congestion control that both transports have.
    Congestion, "a congestion control" {
        /// RFC 9438.
        Cubic = "cubic",
        /// RFC 6582 (TCP), RFC 9002 section 7 (QUIC).
        Reno = "reno",
        /// The kernel's version of TCP's; QUIC's is after draft-ietf-ccwg-bbr.
        Bbr = "bbr",
    }
}

words! {
    /// Requests that are answered before the handshake is done, to clients that come back over HTTP/3 (RFC 8470).
    EarlyData, "what early data is for" {
        /// Nothing.
        Off = "off",
        /// Files: routes to other servers are answered 425.
        Files = "files",
        /// Files and routes to other servers.
        All = "all",
    }
}

/// The options of TCP and QUIC: `[transport]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transport {
    /// Congestion control of TCP and QUIC; `None`: the system's.
    pub congestion: Option<Congestion>,
    /// Congestion control of QUIC alone; `None`: as `congestion`.
    pub quic_congestion: Option<Congestion>,
    /// Packets in the first congestion window of a QUIC connection, 2 to 1,000.
    pub initial_window: u32,
    /// Requests that are answered a round trip earlier, to clients that come back over HTTP/3; `Files` means `Off` with
    /// ticket keys, and where there is no HTTP/3.
    pub early_data: EarlyData,
    /// True if clients that can read it are sent the certificate chain compressed (RFC 8879).
    pub certificate_compression: bool,
    /// The bytes with which every connection ID of QUIC begins.
    pub server_id: ServerId,
}

impl Default for Transport {
    fn default() -> Self {
        Self {
            congestion: None,
            quic_congestion: None,
            initial_window: 10,
            early_data: EarlyData::Files,
            certificate_compression: true,
            server_id: ServerId::default(),
        }
    }
}

/// The logs that are written: `[log]`. Default: none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Log {
    /// File with a line for each request, or `-` for stderr.
    pub access: Option<PathBuf>,
    /// The format of a line.
    pub format: LogFormat,
    /// File with a line for each page and what was decided for its client.
    pub selection: Option<PathBuf>,
    /// Folder with a qlog of each HTTP/3 connection.
    pub qlog: Option<PathBuf>,
    /// File with the TLS secrets of every connection.
    pub keylog: Option<PathBuf>,
}
