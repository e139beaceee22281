//! The engine's cryptography in versions 1 and 2 of QUIC (RFC 9001, RFC 9369 section 3.3): TLS by rustls,
//! its keys, and the tags of Retry packets.
//!
//! The engine's own provider speaks version 1 alone and says nothing of versions in the handshake. This
//! one stands in its place, a configuration for each version.

mod deferral;
mod initial;
mod keys;
mod next_keys;
mod padding;
mod retry;
mod session;
mod truncation;
#[cfg(test)]
mod vectors;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quinn_proto::crypto::{self, Keys, UnsupportedVersion};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, Connection, ServerConnection, Suite};

use self::initial::InitialKeys;
pub(crate) use self::session::KeySettings;
use self::session::Session;
use crate::{Error, PeerIdentity, Role, Version, version_information};

/// Bytes of the authentication tag of each packet, whatever the cipher suite (RFC 9001 section 5.3).
const TAG_BYTES: usize = 16;

/// A server's side of one version.
pub(crate) struct ServerCrypto {
    version: Version,
    tls: Arc<rustls::ServerConfig>,
    initial: Suite,
    /// Keys of the latest Initial packet, for the connection that it may begin.
    latest: Mutex<Option<InitialKeys>>,
}

impl ServerCrypto {
    /// # Errors
    /// [`Error::Tls`]: the configuration can't carry QUIC.
    pub(crate) fn new(version: Version, tls: Arc<rustls::ServerConfig>) -> Result<Self, Error> {
        // The engine can't be told on the first connection that TLS 1.3 is missing: ask here.
        ServerConnection::new(Arc::clone(&tls), version.tls(), Vec::new())
            .map_err(|error| Error::Tls(error.into()))?;
        let initial = initial_suite(tls.crypto_provider())?;
        Ok(Self {
            version,
            tls,
            initial,
            latest: Mutex::new(None),
        })
    }

    fn latest(&self) -> MutexGuard<'_, Option<InitialKeys>> {
        // Nothing that holds it can panic.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl crypto::ServerConfig for ServerCrypto {
    fn initial_keys(&self, number: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        if number != self.version.number() {
            return Err(UnsupportedVersion);
        }
        let keys = InitialKeys::new(self.version, &self.initial, id, Side::Server);
        let lent = keys.lend_for_first();
        *self.latest() = Some(keys);
        Ok(lent)
    }

    fn retry_tag(&self, _number: u32, id: &ConnectionId, packet: &[u8]) -> [u8; TAG_BYTES] {
        retry::tag(self.version, id, &[packet])
    }

    fn start_session(
        self: Arc<Self>,
        _number: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let parameters = encode(parameters, Role::Server, self.version);
        let tls = ServerConnection::new(Arc::clone(&self.tls), self.version.tls(), parameters)
            .expect("the configuration was tried when the endpoint was made");
        let tls = Connection::Server(tls);
        let keys = self.latest().take();
        Box::new(Session::new(self.version, tls, self.initial, keys))
    }
}

/// Returns what may be set of the keys of a connection's 1-RTT packets.
pub(crate) fn key_settings(connection: &quinn_proto::Connection) -> KeySettings {
    let data = connection.crypto_session().handshake_data();
    let settings = data.and_then(|data| data.downcast::<KeySettings>().ok());
    *settings.expect("every session has them")
}

/// Returns what the peer has shown of itself in the handshake so far.
pub(crate) fn peer_identity(connection: &quinn_proto::Connection) -> PeerIdentity {
    let identity = connection.crypto_session().peer_identity();
    let identity = identity.and_then(|it| it.downcast::<PeerIdentity>().ok());
    identity.map(|it| *it).unwrap_or_default()
}

/// A client's side of one version.
pub(crate) struct ClientCrypto {
    version: Version,
    tls: Arc<rustls::ClientConfig>,
    /// The same without a memory of earlier connections.
    without_resumption: Arc<rustls::ClientConfig>,
    initial: Suite,
}

impl ClientCrypto {
    /// # Errors
    /// [`Error::Tls`]: the configuration can't carry QUIC.
    pub(crate) fn new(version: Version, tls: rustls::ClientConfig) -> Result<Self, Error> {
        let initial = initial_suite(tls.crypto_provider())?;
        let mut without_resumption = tls.clone();
        without_resumption.resumption = Resumption::disabled();
        let crypto = Self {
            version,
            tls: Arc::new(tls),
            without_resumption: Arc::new(without_resumption),
            initial,
        };
        let name = "localhost".try_into().expect("localhost is a DNS name");
        crypto
            .begin(&crypto.without_resumption, name, Vec::new())
            .map_err(|error| Error::Tls(error.into()))?;
        Ok(crypto)
    }

    fn begin(
        &self,
        tls: &Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
        parameters: Vec<u8>,
    ) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(tls), self.version.tls(), name, parameters)
    }

    /// RFC 9369 section 5: "Clients MUST NOT use a session ticket or token from a QUIC version 1
    /// connection to initiate a QUIC version 2 connection, and vice versa." Endpoints of both versions
    /// may share what TLS remembers, so a ticket of the other version is thrown away here.
    fn resume(
        &self,
        name: &ServerName<'static>,
        parameters: &[u8],
    ) -> Result<ClientConnection, rustls::Error> {
        let begun = self.begin(&self.tls, name.clone(), parameters.to_vec())?;
        match begun.quic_transport_parameters() {
            // What the server said on the connection that the ticket is from.
            Some(remembered) if !version_information::is_of(remembered, self.version) => {
                self.begin(&self.without_resumption, name.clone(), parameters.to_vec())
            }
            _ => Ok(begun),
        }
    }
}

impl crypto::ClientConfig for ClientCrypto {
    fn start_session(
        self: Arc<Self>,
        number: u32,
        server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        if number != self.version.number() {
            return Err(ConnectError::UnsupportedVersion);
        }
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| ConnectError::InvalidServerName(server_name.to_owned()))?;
        let parameters = encode(parameters, Role::Client, self.version);
        let tls = self
            .resume(&name, &parameters)
            .expect("the configuration was tried when the endpoint was made");
        let tls = Connection::Client(tls);
        Ok(Box::new(Session::new(
            self.version,
            tls,
            self.initial,
            None,
        )))
    }
}

/// The cipher suite of Initial packets (RFC 9001 section 5.2).
fn initial_suite(provider: &CryptoProvider) -> Result<Suite, Error> {
    let aes_128_gcm = rustls::CipherSuite::TLS13_AES_128_GCM_SHA256;
    let mut suites = provider.cipher_suites.iter();
    suites
        .find(|suite| suite.suite() == aes_128_gcm)
        .and_then(|suite| suite.tls13()?.quic_suite())
        .ok_or_else(|| Error::Tls("no cipher suite for initial packets".into()))
}

/// Encodes this side's parameters as TLS carries them.
fn encode(parameters: &TransportParameters, side: Role, version: Version) -> Vec<u8> {
    let mut encoded = Vec::new();
    parameters.write(&mut encoded);
    version_information::append(&mut encoded, side, version);
    encoded
}
