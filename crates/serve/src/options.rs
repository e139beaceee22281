//! Options that an operator can set. Every value that these types can hold is valid.

use crate::{
    AccessLog, Certificates, Challenges, KeyLog, Limits, Listener, PassedSocket, SelectionLog,
    Site, TicketKeys,
};
pub use altway_http3::{Congestion, UnknownCongestion};
use altway_http3::{Qlog, ServerId};
use altway_message::Scheme;
use altway_select::{Model, ModelKind};
use altway_units::{Network, Ratio};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The port when none is given, for TCP and UDP: 443 needs privileges.
pub const DEFAULT_PORT: u16 = 8443;

/// The policy by which a client's protocol is chosen, in the text form that `altway serve --policy` takes.
pub type Policy = ModelKind;

/// The options of a [`Server`](crate::Server). They are made by a constructor, then changed field by field.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The site that is served.
    pub site: Site,
    /// The address to listen on. Default: all, IPv6 and IPv4.
    pub bind: Bind,
    /// The port number, the same for TCP and UDP; 0 picks a free one. Default [`DEFAULT_PORT`].
    pub port: u16,
    /// TLS with HTTP/3, or clear text without it.
    pub security: Security,
    /// The protocols that clients may use. Default: all. Without HTTP/3 there is no UDP socket and no `Alt-Svc`.
    pub protocols: Protocols,
    /// Further addresses to listen at; [`MAX_LISTENERS`](Self::MAX_LISTENERS) at most. Those with HTTP/3 share what its
    /// connections may hold ([`Limits::max_quic_held_bytes`]) evenly, the main address included. Default: none.
    pub listeners: Vec<Listener>,
    /// The port number that clients see, where a NAT or a container changes it: what `Alt-Svc` names
    /// (RFC 7838 section 3), and the port to which [`ListenerKind::Redirect`](crate::ListenerKind::Redirect)
    /// redirects. Default `None`: the port that is listened at.
    pub alt_svc_port: Option<u16>,
    /// Sockets that another process has bound for this one, as service managers do. Those at an address of this
    /// server are used for it, and missing ones are bound; other sockets are ignored. Over TCP there may be one for
    /// each worker, or fewer, which are shared, and with [`Spread::RoundRobin`] one; over UDP one for each worker
    /// (`SO_REUSEPORT`), or one, with which a single worker handles all of HTTP/3. Default: none.
    pub passed: Vec<PassedSocket>,
    /// Interval at which each worker reports that its event loop is running, for
    /// [`Monitor::heartbeats`](crate::Monitor::heartbeats). Default `None`: never.
    pub heartbeat: Option<Duration>,
    /// A function that gives back what the calling thread has freed and its allocator keeps for it, such as `mi_collect`
    /// of mimalloc. Each worker calls it on its own thread once it has become quiet: when what it holds for clients was
    /// 1 MiB or more, and has been half of that or less for three seconds. Default `None`: nothing is called.
    pub collect_heap: Option<fn()>,
    /// Worker threads, each with its own sockets and event loop; 4,096 at most. Default: one per core.
    pub threads: NonZeroUsize,
    /// The way in which new TCP connections are given to workers. Default: each worker accepts its own.
    pub spread: Spread,
    /// The way in which datagrams of a QUIC connection reach its worker. Default: by the kernel.
    pub steering: Steering,
    /// The bytes that every QUIC connection ID begins with, for a load balancer that chooses among several servers by
    /// them. Anybody who sees the packets can read them. Default: none.
    pub server_id: ServerId,
    /// The policy by which a client's protocol is chosen. Default: learned.
    pub policy: Policy,
    /// A model of your own, which decides in place of the policy. It is asked on the threads of connections, so it should
    /// not block. Where it panics, the policy decides.
    pub model: Option<Arc<dyn Model>>,
    /// Names for which decisions are made separately, because their visitors may load different things, each with its
    /// own policy. At most 1,024 in the life of a process; decisions for names beyond that are made together. Default
    /// `None`: the names of the certificates, with `policy`.
    pub hosts: Option<Vec<HostPolicy>>,
    /// Folder that keeps what is learnt of clients, under keyed hashes of their addresses, over a restart. It is made
    /// if missing, for its owner only, and written every minute and at the end. A server that finds the folder in use by
    /// another one reads it, and writes nothing before that has ended. Default: none; what was learnt is lost when the
    /// process ends.
    pub state: Option<PathBuf>,
    /// User that the process becomes after the server is bound, where root starts it. Root takes `state` and the files in it
    /// only where they are root's or this user's, and follows links to them only of root, or of this user to what is
    /// this user's. Default `None`: whoever has the folder is taken for that user. Other users are not concerned.
    pub user: Option<u32>,
    /// Congestion control of TCP and QUIC. Default `None`: the system's for TCP (`net.ipv4.tcp_congestion_control`),
    /// and for QUIC the same if it is one of [`Congestion`], else CUBIC.
    /// [`Server::congestion`](crate::Server::congestion) returns both.
    pub congestion: Option<Congestion>,
    /// Congestion control of QUIC alone. Default `None`: as `congestion` says.
    pub quic_congestion: Option<Congestion>,
    /// Initial congestion window of a QUIC connection in packets, 2 … 1,000 (other values count as the nearest of
    /// these). TCP's is set by the route (`initcwnd` of `ip route`), and no socket can change it; the kernel's
    /// default is the same 10 (RFC 6928). Default: 10 (RFC 9002 section 7.2).
    pub initial_window: u32,
    /// Requests that are answered a round trip earlier, before the handshake is done, to clients that come back over
    /// HTTP/3 (0-RTT, RFC 9001 section 4.6): those of GET, HEAD and OPTIONS without content. Other methods are answered
    /// 425 (Too Early, RFC 8470), for the client to ask again; a request with content waits. Over TCP there is no early
    /// data. Default: [`EarlyDataFor::Files`].
    ///
    /// Anybody who sees such a request on its way can replay it. No copy is handled, because a session can be resumed
    /// only once, whichever worker gets it, and only in this process. A service finds [`EarlyData`](crate::EarlyData)
    /// in a request's extensions, and may answer 425 all the same.
    ///
    /// For this, sessions of HTTP/3 are kept in memory: 32,768 of about 300 bytes, of which the oldest are forgotten
    /// first. They end with the process, and are not shared between servers.
    pub early_data: EarlyDataFor,
    /// True if the certificate chain is sent compressed, with Brotli, to clients that support that (RFC 8879), as
    /// browsers do. The compressed forms of 64 chains are kept. Default: true.
    pub certificate_compression: bool,
    /// Keys of session tickets that several servers share, so that clients resume at any of them. With them
    /// [`EarlyDataFor::Files`] means nobody, because sessions that are kept in memory can't be shared; with
    /// [`EarlyDataFor::Everything`] they are used for TCP only. Default `None`: keys of the server's own, which it
    /// changes every six hours and forgets after twelve.
    pub ticket_keys: Option<TicketKeys>,
    /// The answers to challenges of certificate authorities, added while the server runs by whatever orders
    /// certificates. Requests for them in clear text are answered before any other check, and so are TLS handshakes
    /// over TCP that offer only the protocol `acme-tls/1`. Default `None`: there are none.
    pub challenges: Option<Challenges>,
    /// Networks of proxies that begin each TCP connection with a header of the PROXY protocol, version 2, which names
    /// the client: its address counts for limits, selection and log, and is the [`Peer`](crate::Peer). From these
    /// networks a connection without that header, or with version 1, is closed. Connections from other networks have
    /// no header. There is no such header over UDP. Default: none.
    pub proxy_protocol_from: Vec<Network>,
    /// The destination of the secrets of every connection, over TCP and QUIC, for debugging of packets. Whoever has
    /// them can read everything, and pose as either side. Default `None`: none are logged.
    pub key_log: Option<Arc<dyn KeyLog>>,
    /// The log of events on connections of HTTP/3 (qlog), for debugging of the transport. It costs some microseconds
    /// for each packet, and the time of writing. Default `None`: nothing is logged.
    pub qlog: Option<Qlog>,
    /// The time for which a stop waits for requests that are being answered. Default 10 s.
    pub shutdown_grace: Duration,
    /// The path of a Unix socket at which one process of this server takes over from another; only this user can use
    /// it. A server that runs there passes its sockets on, with no connection refused or broken, and ends; address and
    /// port must be the same, and HTTP/3 there. If none runs, the sockets are bound.
    /// In both cases the next process can take over from this one, which then runs for two more seconds and ends
    /// within its `shutdown_grace`. The file stays; nothing answers there once the server has ended. It costs a
    /// thread that sleeps. Default `None`.
    pub takeover: Option<PathBuf>,
    /// The log with a line for each request. Default: none.
    pub access_log: Option<AccessLog>,
    /// The log with a line for each page, with what was decided for its client, to estimate how other policies would
    /// have done. Default: none.
    pub selection_log: Option<SelectionLog>,
    /// Share of page views whose browsers report how long the page took, for names without a [`HostPolicy`]. `Some`:
    /// `/.well-known/altway/beacon.js` is a script that a page may name, and `/.well-known/altway/beacon` takes its
    /// reports, before the site's own routes, where there is HTTP/3 to offer. Reports are only numbers. They go to
    /// the [`selection_log`](Self::selection_log), show how far the server's timing is from the browsers', and decide
    /// nothing. Default `None`: neither path is there.
    pub beacon: Option<Ratio>,
    /// The limits on what clients may cost.
    pub limits: Limits,
}

impl Options {
    /// The most of [`listeners`](Self::listeners).
    pub const MAX_LISTENERS: usize = 15;

    /// Makes options with TLS and HTTP/3 and the defaults of every other field, for [`serve`](crate::serve); the site
    /// is [`Site::nothing`].
    #[must_use]
    pub fn tls(certificates: impl Into<Certificates>) -> Self {
        Self::new(Site::nothing(), Security::tls(certificates))
    }

    /// Makes options as [`tls`](Self::tls) does, without TLS and HTTP/3 ([`Security::ClearText`]). Behind a proxy that
    /// terminates TLS, set [`security`](Self::security) to [`Security::BehindTlsProxy`].
    #[must_use]
    pub fn clear_text() -> Self {
        Self::new(Site::nothing(), Security::ClearText)
    }

    /// Sets [`bind`](Self::bind) and [`port`](Self::port), as in
    /// `Options::clear_text().with_address(([127, 0, 0, 1], 0))`. The zone of a link-local address of IPv6 is not among them:
    /// for one, bind a socket and have it [`passed`](Self::passed).
    #[must_use]
    pub fn with_address(mut self, address: impl Into<SocketAddr>) -> Self {
        let address = address.into();
        self.bind = Bind::Address(address.ip());
        self.port = address.port();
        self
    }

    /// Makes options that serve `site`, with the defaults of every other field.
    #[must_use]
    pub fn new(site: Site, security: Security) -> Self {
        Self {
            site,
            bind: Bind::default(),
            port: DEFAULT_PORT,
            security,
            protocols: Protocols::default(),
            listeners: Vec::new(),
            alt_svc_port: None,
            passed: Vec::new(),
            heartbeat: None,
            collect_heap: None,
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            spread: Spread::default(),
            steering: Steering::default(),
            server_id: ServerId::default(),
            policy: Policy::default(),
            model: None,
            hosts: None,
            state: None,
            user: None,
            congestion: None,
            quic_congestion: None,
            initial_window: 10,
            early_data: EarlyDataFor::default(),
            certificate_compression: true,
            ticket_keys: None,
            challenges: None,
            proxy_protocol_from: Vec::new(),
            key_log: None,
            qlog: None,
            shutdown_grace: Duration::from_secs(10),
            takeover: None,
            access_log: None,
            selection_log: None,
            beacon: None,
            limits: Limits::default(),
        }
    }
}

/// The protocols that clients may use. Over TLS a handshake whose client offers none of them fails
/// (`no_application_protocol`, RFC 7301 section 3.2); in clear text, or where the client offers no list, a connection
/// that uses another protocol is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocols {
    /// HTTP/1.1 over TCP.
    pub http1: bool,
    /// HTTP/2 over TCP.
    pub http2: bool,
    /// HTTP/3 over QUIC. Never in clear text.
    pub http3: bool,
}

impl Default for Protocols {
    fn default() -> Self {
        Self {
            http1: true,
            http2: true,
            http3: true,
        }
    }
}

/// A name for whose clients decisions are made separately.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostPolicy {
    /// A host name, or `*.` and a host name, which stands for one more label.
    pub name: String,
    /// The policy by which its clients' protocol is chosen.
    pub policy: Policy,
    /// Share of page views that report their times, as [`Options::beacon`].
    pub beacon: Option<Ratio>,
}

impl HostPolicy {
    /// Makes a policy for a name, without a beacon.
    #[must_use]
    pub fn new(name: impl Into<String>, policy: Policy) -> Self {
        Self {
            name: name.into(),
            policy,
            beacon: None,
        }
    }
}

/// The addresses to listen at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bind {
    /// All addresses: `::` with IPv4 on the same socket, or `0.0.0.0` where IPv6 is switched off.
    #[default]
    All,
    /// A single address (`::` means IPv6 and IPv4).
    Address(IpAddr),
}

impl Bind {
    /// The addresses to try, best first.
    pub(crate) fn candidates(self) -> Vec<IpAddr> {
        match self {
            Self::All => vec![Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()],
            Self::Address(address) => vec![address],
        }
    }
}

/// The protection of connections.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Security {
    /// TLS: HTTP/1.1 and HTTP/2 on TCP (1.2 and 1.3), HTTP/3 on UDP (1.3).
    Tls(Certificates),
    /// Clear text on TCP: HTTP/1.1, and HTTP/2 by prior knowledge (RFC 9113 section 3.3). No HTTP/3, no `Alt-Svc`.
    /// For tests, and behind a proxy that uses clear text. Requests that name the scheme `https` are answered 421
    /// (Misdirected Request, RFC 9110 section 7.4).
    ClearText,
    /// The same from a proxy that terminates TLS: requests have the scheme `https`, and those that name `http` are
    /// answered 421. Nobody but the proxy may reach the port: whoever does is treated as a client over TLS.
    BehindTlsProxy,
}

impl Security {
    /// TLS with one certificate, an [`Identity`](crate::Identity), or with several.
    #[must_use]
    pub fn tls(certificates: impl Into<Certificates>) -> Self {
        Self::Tls(certificates.into())
    }

    /// The scheme of what the connections carry.
    pub(crate) fn scheme(&self) -> Scheme {
        match self {
            Self::ClearText => Scheme::Http,
            Self::Tls(_) | Self::BehindTlsProxy => Scheme::Https,
        }
    }
}

/// Requests that are answered in early data (RFC 8470), before the server knows that they are no replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EarlyDataFor {
    /// No requests: no client sends early data.
    Nobody,
    /// Requests for files. Those to services are answered 425, and clients send them again after the handshake, which
    /// takes as long as without early data. The same as `Nobody` for a server that has no files, and for one that
    /// asks clients for certificates.
    #[default]
    Files,
    /// Requests for files and to services: what a service does for GET, HEAD and OPTIONS must do no harm when it is
    /// repeated.
    Everything,
}

/// The way in which new TCP connections are given to workers. The kernel spreads QUIC connections in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Spread {
    /// Each worker has a listener of its own, and the kernel picks one by a hash of both ends' addresses
    /// (`SO_REUSEPORT`): no hand-over, but shares that differ by chance: of few connections one worker may get most.
    #[default]
    PerWorker,
    /// A further thread accepts all connections, and hands them to the workers in turn: each gets as many as the
    /// others, at the price of waking another thread for each. Up to 256 wait for a worker; a worker that is behind
    /// is skipped, and when all are behind, connections wait in the kernel's queue.
    RoundRobin,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::PerWorker => "per-worker",
            Self::RoundRobin => "round-robin",
        })
    }
}

impl FromStr for Spread {
    type Err = UnknownSpread;

    fn from_str(text: &str) -> Result<Self, UnknownSpread> {
        match text {
            "per-worker" => Ok(Self::PerWorker),
            "round-robin" => Ok(Self::RoundRobin),
            _ => Err(UnknownSpread(text.into())),
        }
    }
}

/// The way in which datagrams of a QUIC connection reach its worker, also after the client's address or port has
/// changed. With one worker there is no difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Steering {
    /// The kernel picks the worker's socket by the connection ID, with a program of classic BPF
    /// (`SO_ATTACH_REUSEPORT_CBPF`). If the system refuses that, as with [`Steering::Workers`].
    #[default]
    Kernel,
    /// The kernel picks a socket by both ends' addresses, and a worker that gets another's datagram passes it on,
    /// which costs a copy and wakes a thread. Up to 512 wait for a worker.
    Workers,
}

/// A text that names no [`Spread`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no way of spreading connections: expected per-worker or round-robin")]
pub struct UnknownSpread(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_of_spreading_parse_what_they_print() {
        for spread in [Spread::PerWorker, Spread::RoundRobin] {
            assert_eq!(spread.to_string().parse(), Ok(spread));
        }
        let error = "random".parse::<Spread>().unwrap_err();
        assert!(error.to_string().contains("per-worker or round-robin"));
    }

    #[test]
    fn all_addresses_means_ipv6_first() {
        assert!(Bind::All.candidates()[0].is_ipv6());
        assert!(Bind::All.candidates()[1].is_ipv4());
    }
}
