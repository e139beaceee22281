//! quinn-proto's configuration of connections that are logged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::{
    ConnectionId, ConnectionIdGenerator, QlogConfig, RandomConnectionIdGenerator, TransportConfig,
};

use super::{loopback, transport};
use crate::{Limits, Qlog, Role, Transport};

/// Bytes of the ID that a client chooses for its server at first: the most there may be (RFC 9000
/// section 7.2 asks for 8 at least).
const FIRST_ID_BYTES: usize = 20;

/// Makes the engine's configuration of logged connections.
#[derive(Debug)]
pub(crate) struct Logging {
    pub(crate) qlog: Qlog,
    pub(crate) transport: Transport,
    pub(crate) limits: Limits,
    pub(crate) role: Role,
}

impl Logging {
    /// Returns the transport of a connection to this peer that begins now; `None` if it is not to
    /// be logged.
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
            && loopback::is_local_peer(peer)
        {
            loopback::adapt(&mut transport, &self.transport, most);
        }
        transport.qlog_stream(log.into_stream());
        Some(Arc::new(transport))
    }

    /// Returns the configuration of a client's connection that begins now, with its log.
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
