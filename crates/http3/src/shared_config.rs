//! Configuration that the connections of one endpoint have in common.

use crate::settings::Settings;
use crate::{ClientConfig, Error, Limits, Role, ServerConfig};

/// Configuration that the connections of one endpoint have in common: their role, their limits, and what is announced to
/// peers.
#[derive(Debug)]
pub struct SharedConfig {
    pub(crate) role: Role,
    pub(crate) limits: Limits,
    pub(crate) settings: Settings,
}

impl SharedConfig {
    /// Returns the shared configuration of a server's connections.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`] names a field out of range.
    pub fn server(config: &ServerConfig) -> Result<Self, Error> {
        Self::new(Role::Server, &config.limits, config.extended_connect)
    }

    /// Returns the shared configuration of a client's connections. Errors as for [`server`](Self::server).
    ///
    /// # Errors
    /// See [`server`](Self::server).
    pub fn client(config: &ClientConfig) -> Result<Self, Error> {
        Self::new(Role::Client, &config.limits, false)
    }

    fn new(role: Role, limits: &Limits, extended_connect: bool) -> Result<Self, Error> {
        limits.check()?;
        Ok(Self {
            role,
            limits: limits.clone(),
            settings: limits.settings(extended_connect),
        })
    }
}
