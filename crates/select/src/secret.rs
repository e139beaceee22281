//! The key of all hashes, so that no client can aim at a place of the store or choose its hold-out.

use siphasher::sip::SipHasher24;
use std::fmt;
use std::hash::Hasher;

/// 128 random bits from the caller. They must stay the same as long as a snapshot should be readable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 16]);

impl Secret {
    /// The key `bytes`, which should be random and known to nobody else.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// SipHash-2-4, a pseudo-random function under its key, of `parts` for the purpose `domain`.
    pub(crate) fn hash(&self, domain: Domain, parts: &[&[u8]]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write_u8(domain as u8);
        for part in parts {
            hasher.write(part);
        }
        hasher.finish()
    }

    /// A number in [0, 1) that is uniform over `parts` for the purpose `domain`.
    pub(crate) fn uniform(&self, domain: Domain, parts: &[&[u8]]) -> f64 {
        (self.hash(domain, parts) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The key itself is not shown.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The purpose of a hash: hashes of different purposes tell nothing of each other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Domain {
    Address = 1,
    Network = 2,
    Allocation = 3,
    HoldOut = 4,
    UdpRetry = 5,
    Snapshot = 6,
    Identity = 7,
    Assignment = 8,
    Host = 9,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_depends_on_key_purpose_and_bytes() {
        let hash = |key: u8, domain, bytes: &[u8]| Secret::new([key; 16]).hash(domain, &[bytes]);
        let one = hash(1, Domain::Address, b"a");
        assert_eq!(one, hash(1, Domain::Address, b"a"));
        for other in [
            hash(2, Domain::Address, b"a"),
            hash(1, Domain::Network, b"a"),
            hash(1, Domain::Address, b"b"),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn the_key_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new([7; 16])), "Secret");
    }
}
