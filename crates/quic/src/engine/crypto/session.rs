//! The handshake of one connection: TLS by rustls as the engine wants it.
//!
//! An idle connection should cost little: a server's state of TLS goes when the handshake is over and its
//! tickets are written, for no client has anything more to say to it; and the keys that packets go over to
//! one day are derived then ([`LazyNextKeys`]).

use std::any::Any;
use std::sync::Arc;

use quinn_proto::coding::Codec;
use quinn_proto::crypto::{self, ExportKeyingMaterialError, KeyPair, Keys, PacketKey};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::quic::{Connection, KeyChange, Secrets, Suite};

use super::deferral::{self, Deferral, SharedKey};
use super::initial::InitialKeys;
use super::next_keys::LazyNextKeys;
use super::padding::UnpaddingKey;
use super::truncation::{TruncatingKey, Truncation};
use super::{keys, retry};
use crate::version_information::{self, Fault};
use crate::{PeerIdentity, Role, Version};

/// TLS' `unexpected_message` (RFC 8446 section 6).
const UNEXPECTED_MESSAGE: u8 = 10;

/// The state of TLS.
pub(super) struct Session {
    version: Version,
    side: Side,
    /// `None`: a server has no more use for it.
    tls: Option<Box<Connection>>,
    initial: Suite,
    /// Keys that were derived before the connection began, until it has others.
    derived: Option<InitialKeys>,
    next: Option<Next>,
    settings: KeySettings,
    /// The first key of 1-RTT packets that are sent, until the second is there.
    first: Option<SharedKey>,
    /// Identity that the client has shown, once `tls` is gone.
    identity: Option<Box<PeerIdentity>>,
}

/// Settings of the keys of a connection's 1-RTT packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeySettings {
    /// Setting that they shorten packets by.
    pub(crate) truncation: Arc<Truncation>,
    /// Packets that their first change is put off by.
    pub(crate) deferral: Arc<Deferral>,
}

/// Source of the next keys of 1-RTT packets.
enum Next {
    Secrets(Secrets),
    /// The secrets that follow those that the engine has.
    After(Arc<LazyNextKeys>),
}

impl Session {
    pub(super) fn new(
        version: Version,
        tls: Connection,
        initial: Suite,
        derived: Option<InitialKeys>,
    ) -> Self {
        let side = match tls {
            Connection::Client(_) => Side::Client,
            Connection::Server(_) => Side::Server,
        };
        Self {
            version,
            side,
            tls: Some(Box::new(tls)),
            initial,
            derived,
            next: None,
            settings: KeySettings::default(),
            first: None,
            identity: None,
        }
    }

    /// Lets go of what a server needs no more once nothing is left to write.
    fn forget_if_over(&mut self) {
        if self.side == Side::Server
            && self.next.is_some()
            && !crypto::Session::is_handshaking(self)
        {
            let identity = self.tls.take().map(|tls| PeerIdentity::of(&tls));
            self.identity = identity.filter(|it| !it.is_empty()).map(Box::new);
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

    /// Nobody here asks quinn-proto for what it is meant for: TLS refuses peers without a common protocol by
    /// itself. So the connection asks for the [`KeySettings`] by it.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(self.settings.clone()))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        let identity = match &self.tls {
            Some(tls) => PeerIdentity::of(tls),
            None => self.identity.as_deref()?.clone(),
        };
        Some(Box::new(identity))
    }

    fn early_crypto(&self) -> Option<keys::OneWay> {
        let keys = self.tls.as_ref()?.zero_rtt_keys()?;
        Some(keys::of_long_header(self.version, keys))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        match self.tls.as_deref()? {
            Connection::Client(tls) => Some(tls.is_early_data_accepted()),
            Connection::Server(_) => None,
        }
    }

    fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let Some(tls) = &mut self.tls else {
            // Clients have nothing to say after their Finished: KeyUpdate has no place in QUIC (RFC 9001
            // section 6), and certificates are asked for in the hand-shake alone (section 4.4).
            let code = TransportErrorCode::crypto(UNEXPECTED_MESSAGE);
            return Err(fatal(code, "message after the hand-shake".to_owned()));
        };
        let read = tls.read_hs(bytes);
        read.map_err(|error| {
            // RFC 9001 section 4.8: "A TLS alert is converted into a QUIC connection error."
            let code = tls
                .alert()
                .map_or(TransportErrorCode::PROTOCOL_VIOLATION, |alert| {
                    TransportErrorCode::crypto(alert.into())
                });
            fatal(code, error.to_string())
        })?;
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let tls = self.tls.as_ref();
        let Some(encoded) = tls.and_then(|tls| tls.quic_transport_parameters()) else {
            return Ok(None);
        };
        let parameters = TransportParameters::read(self.side, &mut &encoded[..])?;
        let peer = match self.side {
            Side::Client => Role::Server,
            Side::Server => Role::Client,
        };
        version_information::check(encoded, peer, self.version).map_err(refusal)?;
        Ok(Some(parameters))
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        match self.tls.as_mut()?.write_hs(buf) {
            Some(KeyChange::Handshake { keys }) => {
                self.derived = None;
                let mut keys = keys::of_long_headers(self.version, keys);
                keys.packet.remote = Box::new(UnpaddingKey::new(keys.packet.remote));
                Some(keys)
            }
            Some(KeyChange::OneRtt { keys, next }) => {
                self.next = Some(Next::Secrets(next));
                let (keys, first) = keys::of_short_headers(keys, &self.settings.truncation);
                let limit = keys.packet.local.confidentiality_limit();
                self.settings.deferral.begin(limit);
                self.first = Some(first);
                Some(keys)
            }
            None => {
                if buf.is_empty() {
                    self.forget_if_over();
                }
                None
            }
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let next_keys = Arc::new(match self.next.take()? {
            Next::Secrets(secrets) => LazyNextKeys::new(secrets),
            Next::After(former) => former.after()?,
        });
        let by = &self.settings.truncation;
        let keys = next_keys.lend(by);
        self.next = Some(Next::After(next_keys));
        Some(match self.first.take() {
            Some(first) => {
                let first = Box::new(TruncatingKey::new(Box::new(first), by));
                deferral::put_off(keys, first, &self.settings.deferral)
            }
            None => keys,
        })
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
        let tls = self.tls.as_ref().ok_or(ExportKeyingMaterialError)?;
        let exported = tls.export_keying_material(output, label, Some(context));
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

    /// Returns a server's verdict, speaking `version`, on a client whose parameters are these.
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

    /// A handshake to its end; the server's side, and what it wrote after that.
    fn after_the_hand_shake() -> (Session, Vec<u8>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
        let mut server = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.unwrap())
            .unwrap();
        server.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
        let initial = initial_suite(server.crypto_provider()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let client = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (tls, name) = (Version::V1.tls(), "localhost".try_into().unwrap());
        let mut client = ClientConnection::new(Arc::new(client), tls, name, Vec::new()).unwrap();
        let server = ServerConnection::new(Arc::new(server), tls, Vec::new()).unwrap();
        let server = Connection::Server(server);
        let mut session = Session::new(Version::V1, server, initial, None);
        let mut written = Vec::new();
        while session.is_handshaking() {
            let mut hello = Vec::new();
            while client.write_hs(&mut hello).is_some() {}
            session.read_handshake(&hello).unwrap();
            // Nothing may come with other keys than its own.
            loop {
                written.clear();
                let more = session.write_handshake(&mut written).is_some();
                client.read_hs(&written).unwrap();
                if !more {
                    break;
                }
            }
        }
        (session, written)
    }

    #[test]
    fn a_server_keeps_tls_until_its_tickets_are_written_and_its_keys_for_good() {
        let (mut session, tickets) = after_the_hand_shake();
        assert!(!tickets.is_empty() && session.tls.is_some());
        assert!(session.next_1rtt_keys().is_some());
        assert!(session.write_handshake(&mut Vec::new()).is_none());
        assert!(session.tls.is_none() && !session.is_handshaking());
        assert!(session.next_1rtt_keys().is_some());
    }

    #[test]
    fn who_goes_on_with_tls_after_the_hand_shake_is_refused_with_its_code() {
        let key_update = [24, 0, 0, 1, 0];
        for is_kept in [true, false] {
            let (mut session, _) = after_the_hand_shake();
            if !is_kept {
                session.write_handshake(&mut Vec::new());
            }
            assert_eq!(session.tls.is_some(), is_kept);
            let read = session.read_handshake(&key_update);
            let expected = TransportErrorCode::crypto(UNEXPECTED_MESSAGE);
            assert_eq!(read.map_err(|error| error.code), Err(expected));
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
