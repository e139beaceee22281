//! The engine's configurations of a server's connections: one for each version of QUIC, and those of
//! clients on the same machine.

use std::net::SocketAddr;
use std::sync::Arc;

use quinn_proto::TransportConfig;

use super::{loopback, transport};
use crate::validation::Clock;
use crate::{Error, ServerConfig, Tokens, Version};

/// Configurations with which the connections of a server begin.
pub(crate) struct Servers {
    /// Configurations for each of [`Version::ALL`] in turn.
    all: [Arc<quinn_proto::ServerConfig>; Version::ALL.len()],
    /// The same for clients on this machine; `None`: they are like others.
    near: Option<[Arc<quinn_proto::ServerConfig>; Version::ALL.len()]>,
}

impl Servers {
    /// # Errors
    /// As [`Endpoint::server`](crate::Endpoint::server).
    pub(crate) fn new(
        config: &ServerConfig,
        tokens: &Tokens,
        clock: &Arc<Clock>,
    ) -> Result<Self, Error> {
        let server = |version| {
            let mut quic = transport::server(config, version)?;
            super::tokens::install(tokens, &mut quic, version, clock);
            Ok::<_, Error>(Arc::new(quic))
        };
        let all = [server(Version::V1)?, server(Version::V2)?];
        let near = transport::near(&config.transport, &config.limits)?;
        let near = near.map(Arc::new);
        Ok(Self {
            near: near.map(|transport| all.each_ref().map(|of| with(of, &transport))),
            all,
        })
    }

    /// Returns the configuration of a version, for clients anywhere.
    pub(crate) fn of(&self, version: Version) -> Arc<quinn_proto::ServerConfig> {
        Arc::clone(&self.all[version.index()])
    }

    /// Returns the configuration of a version for a client at this address, if it is not the one for
    /// clients anywhere.
    pub(crate) fn of_client(
        &self,
        version: Version,
        client: SocketAddr,
    ) -> Option<Arc<quinn_proto::ServerConfig>> {
        let near = self
            .near
            .as_ref()
            .filter(|_| loopback::is_local_peer(client))?;
        Some(Arc::clone(&near[version.index()]))
    }

    /// Returns the configuration of a version, over another transport.
    pub(crate) fn over(
        &self,
        version: Version,
        transport: &Arc<TransportConfig>,
    ) -> Arc<quinn_proto::ServerConfig> {
        with(&self.all[version.index()], transport)
    }
}

fn with(
    server: &Arc<quinn_proto::ServerConfig>,
    transport: &Arc<TransportConfig>,
) -> Arc<quinn_proto::ServerConfig> {
    let mut config = quinn_proto::ServerConfig::clone(server);
    config.transport_config(Arc::clone(transport));
    Arc::new(config)
}
