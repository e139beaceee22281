//! Keys of the server's own, which change by themselves.
//!
//! rustls has such keys as well (`TicketRotator`). It reads the clock itself, and after a pause of any length it still
//! takes tickets of the key before the pause: here the time is an argument of the decision, and a ticket is never good
//! for longer than its life.

use super::{LIFETIME, TicketKey};
use crate::locks::{read, write};
use crate::{Error, random};
use rustls::server::ProducesTickets;
use std::fmt;
use std::sync::RwLock;
use std::time::{Duration, Instant};

/// The time for which a key encrypts new tickets. For as long again it decrypts, so that a ticket is good for six to
/// twelve hours.
const ENCRYPTS: Duration = Duration::from_secs(LIFETIME as u64 / 2);

/// Keys that change with time, which `clock` tells.
pub(crate) struct Rotating<C> {
    keys: RwLock<Rotation>,
    clock: C,
}

/// The keys at one moment: the newest encrypts, both decrypt.
struct Rotation {
    newest: TicketKey,
    former: Option<TicketKey>,
    /// Time since which the newest encrypts.
    since: Instant,
}

impl Rotation {
    fn is_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= ENCRYPTS
    }

    /// Puts `fresh` in the newest key's place, if that is due. A server that nobody came to for long has no use for
    /// either of its keys.
    fn rotate(&mut self, fresh: TicketKey, now: Instant) {
        if !self.is_due(now) {
            return;
        }
        let next = self.since + ENCRYPTS;
        let newest = std::mem::replace(&mut self.newest, fresh);
        let is_in_time = now < next + ENCRYPTS;
        self.former = is_in_time.then_some(newest);
        self.since = if is_in_time { next } else { now };
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.newest.encrypt(plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let keys = [Some(&self.newest), self.former.as_ref()];
        keys.into_iter()
            .flatten()
            .find_map(|key| key.decrypt(ticket))
    }
}

impl<C: Fn() -> Instant> Rotating<C> {
    /// # Errors
    /// The system has no randomness.
    pub(crate) fn new(clock: C) -> Result<Self, Error> {
        let keys = Rotation {
            newest: fresh()?,
            former: None,
            since: clock(),
        };
        Ok(Self {
            keys: RwLock::new(keys),
            clock,
        })
    }

    /// Lends the keys as they are now; `None`: there is no randomness for a new one.
    fn with<T>(&self, lend: impl Fn(&Rotation) -> Option<T>) -> Option<T> {
        let now = (self.clock)();
        {
            let keys = read(&self.keys);
            if !keys.is_due(now) {
                return lend(&keys);
            }
        }
        let fresh = fresh().ok()?;
        let mut keys = write(&self.keys);
        keys.rotate(fresh, now);
        lend(&keys)
    }
}

fn fresh() -> Result<TicketKey, Error> {
    Ok(TicketKey::new(&random::random()?).expect("HKDF gives a name and a key"))
}

impl<C: Fn() -> Instant + Send + Sync> ProducesTickets for Rotating<C> {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.with(|keys| keys.encrypt(plain))
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.with(|keys| keys.decrypt(cipher))
    }
}

/// Prints none of the keys.
impl<C> fmt::Debug for Rotating<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rotating").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::Store;
    use crate::{Certificates, Options, tls};
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use rustls::version::{TLS12, TLS13};
    use rustls::{ClientConfig, ClientConnection, Connection, HandshakeKind, RootCertStore};
    use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    /// A clock that a test sets.
    #[derive(Clone)]
    struct Clock(Arc<Mutex<Instant>>);

    impl Clock {
        fn pass(&self, time: Duration) {
            *self.0.lock().unwrap() += time;
        }
    }

    fn keys() -> (Clock, Rotating<impl Fn() -> Instant + Send + Sync>) {
        let clock = Clock(Arc::new(Mutex::new(Instant::now())));
        let told = clock.clone();
        let keys = Rotating::new(move || *told.0.lock().unwrap()).unwrap();
        (clock, keys)
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_ticket_is_good_for_six_to_twelve_hours() {
        for (age_of_key, good) in [
            (Duration::ZERO, 2 * ENCRYPTS),
            (ENCRYPTS - SECOND, ENCRYPTS + SECOND),
        ] {
            let (clock, keys) = keys();
            clock.pass(age_of_key);
            let ticket = keys.encrypt(b"session").unwrap();
            clock.pass(good - SECOND);
            assert_eq!(keys.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
            clock.pass(SECOND);
            assert_eq!(keys.decrypt(&ticket), None, "{age_of_key:?}");
        }
    }

    #[test]
    fn what_was_encrypted_before_a_long_pause_is_good_no_more() {
        let (clock, keys) = keys();
        let ticket = keys.encrypt(b"session").unwrap();
        clock.pass(2 * ENCRYPTS);
        assert_eq!(keys.decrypt(&ticket), None);
        let ticket = keys.encrypt(b"session").unwrap();
        clock.pass(ENCRYPTS);
        assert!(keys.decrypt(&ticket).is_some(), "the new key's time begins");
    }

    #[test]
    fn keys_that_are_not_due_stay() {
        let (_, keys) = keys();
        let ticket = keys.encrypt(b"session").unwrap();
        let now = (keys.clock)();
        keys.keys.write().unwrap().rotate(fresh().unwrap(), now);
        assert!(keys.keys.read().unwrap().former.is_none());
        assert!(keys.decrypt(&ticket).is_some());
        assert!(!format!("{keys:?}").contains("secret"));
    }

    fn client(root: &Path, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let read = CertificateDer::pem_file_iter(root).unwrap();
        roots.add_parsable_certificates(read.map(Result::unwrap));
        let client = ClientConfig::builder_with_provider(Arc::new(tls::provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        let mut client = client.with_no_client_auth();
        client.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(client)
    }

    /// Carries what one end has to say to the other.
    fn carry(from: &mut Connection, to: &mut Connection) {
        let mut bytes = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            to.read_tls(&mut rest).unwrap();
            to.process_new_packets().unwrap();
        }
    }

    /// A handshake to its end, after which the client has tickets.
    fn handshake(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> Option<HandshakeKind> {
        let name = "localhost".try_into().unwrap();
        let client = ClientConnection::new(Arc::clone(client), name).unwrap();
        let server = ServerConnection::new(Arc::clone(server)).unwrap();
        let (mut client, mut server) = (Connection::Client(client), Connection::Server(server));
        for _ in 0..4 {
            carry(&mut client, &mut server);
            carry(&mut server, &mut client);
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        server.handshake_kind()
    }

    #[test]
    fn clients_resume_after_one_rotation_and_not_after_two() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let identity = store.leaf::<&str>(&[]).unwrap().identity().unwrap();
        let certificates = Certificates::new(identity);
        let tls = tls::configs(certificates, &Options::clear_text(), false).unwrap();
        for version in [&TLS12, &TLS13] {
            let (clock, keys) = keys();
            let mut server = (*tls.tcp).clone();
            server.ticketer = Arc::new(keys);
            let server = Arc::new(server);
            for (rotations, kind) in [(1, HandshakeKind::Resumed), (2, HandshakeKind::Full)] {
                let client = client(&store.authority(), version);
                let first = handshake(&client, &server);
                assert_eq!(first, Some(HandshakeKind::Full));
                clock.pass(rotations * ENCRYPTS);
                let then = handshake(&client, &server);
                assert_eq!(then, Some(kind), "{rotations} {version:?}");
            }
        }
    }
}
