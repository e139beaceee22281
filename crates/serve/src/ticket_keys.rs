//! Keys of session tickets (RFC 8446 section 2.2, RFC 5077 section 4): those that several servers share, so that a client
//! may resume at one what it began at another, and, in [`rotating`], the server's own.
//!
//! A ticket is the name of its key, a salt, and the session, encrypted by AES-256-GCM under a key that HKDF-SHA256
//! derives from that key and the salt: each ticket has a key of its own, so that no nonce can come twice
//! however many servers make tickets, and for however long.

mod rotating;

pub(crate) use rotating::Rotating;

use crate::Error;
use crate::locks::{read, write};
use altway_folder::read_file_start;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use rustls::server::ProducesTickets;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

/// Bytes of a file that are read as a key at most.
const MAX_BYTES: u64 = 1 << 10;

const NAME_BYTES: usize = 16;
const SALT_BYTES: usize = 32;

/// The life of a ticket in seconds: twelve hours.
const LIFETIME: u32 = 12 * 60 * 60;

/// Keys of session tickets: the first encrypts, all decrypt. Clones share them.
#[derive(Clone)]
pub struct TicketKeys(Arc<[TicketKey]>);

struct TicketKey {
    /// The name with which a ticket of this key begins.
    name: [u8; NAME_BYTES],
    secret: Prk,
}

impl TicketKeys {
    /// The most keys, as each ticket is compared with the names of all.
    pub const MAX_KEYS: usize = 16;

    /// The least size of a key's file in bytes.
    pub const MIN_BYTES: usize = 32;

    /// Reads keys from files of random bytes, of which the first encrypts: 32 to 1,024 bytes each, such as `openssl
    /// rand -out FILE 48` writes. Whoever has a key can decrypt what was sent without forward secrecy in sessions
    /// that were resumed with it (RFC 8446 section 2.3), and pose as its clients: replace keys often, and let only
    /// the server's user read their files.
    ///
    /// # Errors
    /// There is none, there are too many, or a file can't be read, or is too short or too long.
    pub fn from_files(files: &[PathBuf]) -> Result<Self, Error> {
        if files.is_empty() || files.len() > Self::MAX_KEYS {
            let (found, max) = (files.len(), Self::MAX_KEYS);
            return Err(Error::TicketKeys { found, max });
        }
        let keys = files.iter().map(|file| TicketKey::from_file(file));
        Ok(Self(keys.collect::<Result<_, _>>()?))
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.first()?.encrypt(plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.0.iter().find_map(|key| key.decrypt(ticket))
    }
}

/// Prints none of the keys.
impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKeys({})", self.0.len())
    }
}

impl TicketKey {
    fn from_file(path: &Path) -> Result<Self, Error> {
        let read = read_file_start(path, MAX_BYTES + 1);
        let (bytes, _) = read.map_err(|source| Error::ReadTicketKey {
            path: path.into(),
            source,
        })?;
        if bytes.len() < TicketKeys::MIN_BYTES || bytes.len() as u64 > MAX_BYTES {
            return Err(Error::TicketKeySize { path: path.into() });
        }
        Self::new(&bytes).ok_or_else(|| Error::TicketKeySize { path: path.into() })
    }

    fn new(bytes: &[u8]) -> Option<Self> {
        let secret = Salt::new(HKDF_SHA256, b"altway session tickets").extract(bytes);
        let mut name = [0; NAME_BYTES];
        let info = [&b"name"[..]];
        secret
            .expand(&info, Length(NAME_BYTES))
            .ok()?
            .fill(&mut name)
            .ok()?;
        Some(Self { name, secret })
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut salt = [0; SALT_BYTES];
        aws_lc_rs::rand::fill(&mut salt).ok()?;
        let mut content = plain.to_vec();
        let aead = self.aead(&salt)?;
        aead.seal_in_place_append_tag(nonce(), Aad::from(self.name), &mut content)
            .ok()?;
        Some([&self.name[..], &salt, &content].concat())
    }

    /// `None`: the ticket is another key's, or none.
    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (salt, content) = rest.split_first_chunk::<SALT_BYTES>()?;
        // A name is no secret: every ticket of the key has it.
        if self.name != *name {
            return None;
        }
        let mut content = content.to_vec();
        let aead = self.aead(salt)?;
        let plain = aead.open_in_place(nonce(), Aad::from(self.name), &mut content);
        let length = plain.ok()?.len();
        content.truncate(length);
        Some(content)
    }

    /// The key of the ticket that has this salt.
    fn aead(&self, salt: &[u8; SALT_BYTES]) -> Option<LessSafeKey> {
        let mut key = [0; 32];
        let info = [&b"key"[..], salt];
        let derived = self.secret.expand(&info, Length(key.len())).ok()?;
        derived.fill(&mut key).ok()?;
        Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).ok()?))
    }
}

/// The one nonce of a key that encrypts one ticket.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// The number of bytes that HKDF derives.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// The keys in use, which can be replaced while the server runs.
#[derive(Debug, Clone)]
pub(crate) struct InUse(Arc<RwLock<TicketKeys>>);

impl InUse {
    pub(crate) fn new(keys: TicketKeys) -> Self {
        Self(Arc::new(RwLock::new(keys)))
    }

    pub(crate) fn replace(&self, keys: TicketKeys) {
        *write(&self.0) = keys;
    }

    fn get(&self) -> TicketKeys {
        read(&self.0).clone()
    }
}

impl ProducesTickets for InUse {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.get().encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.get().decrypt(cipher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(seeds: &[u8]) -> TicketKeys {
        let keys = seeds
            .iter()
            .map(|seed| TicketKey::new(&[*seed; 48]).unwrap());
        TicketKeys(keys.collect())
    }

    #[test]
    fn the_first_key_encrypts_and_all_decrypt() {
        let (old, both, new) = (keys(&[1]), keys(&[2, 1]), keys(&[2]));
        let [by_old, by_both] = [&old, &both].map(|keys| keys.encrypt(b"session").unwrap());
        for ticket in [&by_old, &by_both] {
            assert_eq!(both.decrypt(ticket).as_deref(), Some(&b"session"[..]));
        }
        assert_eq!(new.decrypt(&by_both).as_deref(), Some(&b"session"[..]));
        assert_eq!(new.decrypt(&by_old), None, "the key is gone");
        assert_ne!(
            by_old,
            old.encrypt(b"session").unwrap(),
            "each has its salt"
        );
    }

    #[test]
    fn what_is_changed_or_cut_is_no_ticket() {
        let keys = keys(&[1]);
        let ticket = keys.encrypt(b"session").unwrap();
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(keys.decrypt(&changed), None, "{at}");
            assert_eq!(keys.decrypt(&ticket[..at]), None, "{at}");
        }
    }

    #[test]
    fn files_that_are_no_keys_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: usize| {
            let path = folder.path().join(name);
            std::fs::write(&path, vec![7; bytes]).unwrap();
            path
        };
        assert!(TicketKeys::from_files(&[file("good", 32), file("long", 1_024)]).is_ok());
        for path in [
            file("short", 31),
            file("huge", 1_025),
            folder.path().join("none"),
        ] {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let error = TicketKeys::from_files(&[path]).unwrap_err().to_string();
            assert!(error.contains(&name), "{error}");
        }
        assert!(TicketKeys::from_files(&[]).is_err());
        assert!(!format!("{:?}", keys(&[7])).contains("secret"));
    }
}
