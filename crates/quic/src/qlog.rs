//! qlog: what happens on connections, written down for tools such as qvis (draft-ietf-quic-qlog).
//!
//! The engine writes it: packets sent, received and lost, round-trip times and the congestion window, as
//! a sequence of JSON texts (RFC 7464). Where to is the shell's business. It names a connection by the
//! destination ID of the client's first packet, which both ends know; so their logs can be matched.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::{
    ConnectionId, ConnectionIdGenerator, QlogConfig, RandomConnectionIdGenerator, TransportConfig,
};

use crate::{Limits, Role, Transport, loopback, transport};

/// Bytes of the ID that a client chooses for its server at first: the most there may be (RFC 9000
/// section 7.2 asks for 8 at least).
const FIRST_ID_BYTES: usize = 20;

/// Where the log of one connection goes. It is written to at every packet: see to it that this is quick.
/// It is dropped with the connection.
pub type QlogWriter = Box<dyn io::Write + Send + Sync>;

type Open = dyn Fn(&str) -> Option<QlogWriter> + Send + Sync;

/// Decides which connections are logged, and where to. Clones are the same.
#[derive(Clone)]
pub struct Qlog(Arc<Open>);

impl Qlog {
    /// `open` is asked at the beginning of each connection, with its name: 16 to 40 hexadecimal digits,
    /// the destination ID of the client's first packet. A client chooses its own, so names may
    /// repeat. `None`: this one is not logged, and costs nothing.
    #[must_use]
    pub fn new(open: impl Fn(&str) -> Option<QlogWriter> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }

    /// Asks for the log of a connection that begins.
    #[must_use]
    pub fn open(&self, name: &str) -> Option<QlogWriter> {
        (self.0)(name)
    }
}

impl fmt::Debug for Qlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qlog").finish_non_exhaustive()
    }
}

/// Makes the engine's configuration of logged connections.
#[derive(Debug)]
pub(crate) struct Logging {
    pub(crate) qlog: Qlog,
    pub(crate) transport: Transport,
    pub(crate) limits: Limits,
    pub(crate) role: Role,
}

impl Logging {
    /// Of a connection to this peer that begins now; `None` if it is not to be logged.
    pub(crate) fn transport(
        &self,
        name: &ConnectionId,
        peer: SocketAddr,
        now: Instant,
    ) -> Option<Arc<TransportConfig>> {
        let writer = self.qlog.open(&name.to_string())?;
        let mut log = QlogConfig::default();
        let title = match self.role {
            Role::Client => "altway client",
            Role::Server => "altway server",
        };
        log.writer(writer)
            .title(Some(title.to_owned()))
            .start_time(now);
        // The engine knows a connection's log by its transport alone.
        let mut transport = transport::engine(&self.transport, &self.limits, self.role)
            .expect("the configuration was checked when the endpoint was made");
        if let Some(most) = self.transport.loopback_mtu
            && self.role == Role::Server
            && loopback::is_near(peer)
        {
            loopback::adapt(&mut transport, &self.transport, most);
        }
        transport.qlog_stream(log.into_stream());
        Some(Arc::new(transport))
    }

    /// Of a client's connection that begins now.
    pub(crate) fn client(
        &self,
        mut config: quinn_proto::ClientConfig,
        server: SocketAddr,
        now: Instant,
    ) -> quinn_proto::ClientConfig {
        let name = RandomConnectionIdGenerator::new(FIRST_ID_BYTES).generate_cid();
        if let Some(transport) = self.transport(&name, server, now) {
            config.initial_dst_cid_provider(Arc::new(move || name));
            config.transport_config(transport);
        }
        config
    }
}
