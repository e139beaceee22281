//! One connection's hand-shake: TLS by rustls as the engine wants it.

use std::any::Any;

use quinn_proto::coding::Codec;
use quinn_proto::crypto::{self, ExportKeyingMaterialError, KeyPair, Keys, PacketKey};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::pki_types::CertificateDer;
use rustls::quic::{Connection, KeyChange, Secrets, Suite};

use super::initial::InitialKeys;
use super::{keys, retry};
use crate::version_information::{self, Fault};
use crate::{Role, Version};

/// The state of TLS.
pub(super) struct Session {
    version: Version,
    tls: Connection,
    initial: Suite,
    /// Keys that were derived before the connection began, until it has others.
    derived: Option<InitialKeys>,
    /// From which the next keys follow, once there are keys for 1-RTT packets.
    next: Option<Secrets>,
}

impl Session {
    pub(super) fn new(
        version: Version,
        tls: Connection,
        initial: Suite,
        derived: Option<InitialKeys>,
    ) -> Self {
        Self {
            version,
            tls,
            initial,
            derived,
            next: None,
        }
    }

    fn side(&self) -> Side {
        match self.tls {
            Connection::Client(_) => Side::Client,
            Connection::Server(_) => Side::Server,
        }
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        match &self.derived {
            Some(keys) if keys.are_of(id, side) => keys.lend(),
            _ => InitialKeys::new(self.version, &self.initial, id, side).lend(),
        }
    }

    /// Nobody here asks the engine for it: TLS refuses peers without a common protocol by itself.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        let chain = self.tls.peer_certificates()?;
        let chain: Vec<CertificateDer<'static>> =
            chain.iter().map(|one| one.clone().into_owned()).collect();
        Some(Box::new(chain))
    }

    fn early_crypto(&self) -> Option<keys::OneWay> {
        let keys = self.tls.zero_rtt_keys()?;
        Some(keys::of_long_header(self.version, keys))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        match &self.tls {
            Connection::Client(tls) => Some(tls.is_early_data_accepted()),
            Connection::Server(_) => None,
        }
    }

    fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let read = self.tls.read_hs(bytes);
        read.map_err(|error| {
            // RFC 9001 section 4.8: "A TLS alert is converted into a QUIC connection error."
            let code = self
                .tls
                .alert()
                .map_or(TransportErrorCode::PROTOCOL_VIOLATION, |alert| {
                    TransportErrorCode::crypto(alert.into())
                });
            fatal(code, error.to_string())
        })?;
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(encoded) = self.tls.quic_transport_parameters() else {
            return Ok(None);
        };
        let parameters = TransportParameters::read(self.side(), &mut &encoded[..])?;
        let peer = match self.side() {
            Side::Client => Role::Server,
            Side::Server => Role::Client,
        };
        version_information::check(encoded, peer, self.version).map_err(refusal)?;
        Ok(Some(parameters))
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        match self.tls.write_hs(buf)? {
            KeyChange::Handshake { keys } => {
                self.derived = None;
                Some(keys::of_long_headers(self.version, keys))
            }
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(next);
                Some(keys::of_short_headers(keys))
            }
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(keys::updated(keys))
    }

    fn is_valid_retry(&self, id: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        retry::is_valid(self.version, id, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let exported = self
            .tls
            .export_keying_material(output, label, Some(context));
        exported.map(drop).map_err(|_| ExportKeyingMaterialError)
    }
}

fn refusal(fault: Fault) -> TransportError {
    match fault {
        Fault::Malformed => fatal(
            TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
            "malformed version information".to_owned(),
        ),
        Fault::OtherVersion => fatal(
            version_negotiation_error(),
            "version information is about another version".to_owned(),
        ),
    }
}

/// VERSION_NEGOTIATION_ERROR (RFC 9368 section 10.2), for which the engine has no name.
fn version_negotiation_error() -> TransportErrorCode {
    TransportErrorCode::decode(&mut &[0x11][..]).expect("a byte below 64 is an integer")
}

fn fatal(code: TransportErrorCode, reason: String) -> TransportError {
    TransportError {
        code,
        frame: None,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quinn_proto::crypto::Session as _;
    use rustls::quic::{ClientConnection, ServerConnection};

    use super::super::initial_suite;
    use super::*;

    /// What a server of `version` makes of a client whose parameters are these.
    fn read(version: Version, parameters: Vec<u8>) -> Result<(), TransportError> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
        let server = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.unwrap())
            .unwrap();
        let initial = initial_suite(server.crypto_provider()).unwrap();
        let client = rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let mut client =
            ClientConnection::new(Arc::new(client), version.tls(), name, parameters).unwrap();
        let mut hello = Vec::new();
        client.write_hs(&mut hello);
        let server = ServerConnection::new(Arc::new(server), version.tls(), Vec::new()).unwrap();
        let mut session = Session::new(version, Connection::Server(server), initial, None);
        session.read_handshake(&hello).unwrap();
        session.transport_parameters().map(|read| {
            assert!(read.is_some());
        })
    }

    #[test]
    fn a_client_that_means_another_version_is_refused_with_the_rfcs_code() {
        for version in Version::ALL {
            for said in Version::ALL {
                let mut parameters = Vec::new();
                version_information::append(&mut parameters, Role::Client, said);
                let code = read(version, parameters).map_err(|error| error.code.into());
                let expected = if said == version { Ok(()) } else { Err(0x11) };
                assert_eq!(code, expected, "{said} over {version}");
            }
        }
    }

    #[test]
    fn parameters_that_cannot_be_read_are_refused_with_their_own_code() {
        for version in Version::ALL {
            let malformed = vec![0x11, 3, 0, 0, 0];
            let code = read(version, malformed).map_err(|error| error.code);
            assert_eq!(code, Err(TransportErrorCode::TRANSPORT_PARAMETER_ERROR));
            assert_eq!(read(version, Vec::new()), Ok(()));
        }
    }
}
