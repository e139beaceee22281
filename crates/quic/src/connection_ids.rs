//! Connection IDs that name the worker which made them (RFC 9000 section 5.1).
//!
//! A server of several workers has an [`Endpoint`](crate::Endpoint) for each, and a client that
//! changes its address keeps nothing but its connection ID. So the ID says whose the connection is:
//!
//! ```text
//! ┌───────────────────────┬────────────────┬──────────────────────────────┐
//! │ server: 0, 1, 2 bytes │ worker: 2 bytes│ random: the rest of 8 bytes  │
//! └───────────────────────┴────────────────┴──────────────────────────────┘
//! ```
//!
//! The worker's bytes are a [`WorkerId`]: 4 bits for its process, 12 for its number in it.
//!
//! The idea is that of draft-ietf-quic-load-balancers, whose plaintext form this resembles: whoever
//! sees the packets sees both numbers. They tell two connection IDs of a client apart less well
//! than random ones would when it changes its address, by as much as there are servers and workers:
//! with four workers, one of four clients that move at the same time has the same number.
//!
//! Left to others: which socket a worker has, and who hands datagrams on.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::hmac;

use crate::long_header::{self, PacketType};
use crate::{Error, WorkerId};

/// Bytes of every connection ID that an endpoint of ours makes. 4 or more of them are random, and
/// the same ones don't come twice while a connection holds them.
pub const CONNECTION_ID_BYTES: usize = 8;

/// The most bytes that name the server.
const MAX_SERVER_ID_BYTES: usize = 2;

/// The form bit of a first byte (RFC 8999 section 5): set in long headers.
const LONG_HEADER: u8 = 0x80;

/// Offsets of the length of a destination connection ID in a long header, and of the ID: after the first byte
/// and the version (RFC 8999 section 5.1).
const LONG_LENGTH_AT: usize = 5;
const LONG_ID_AT: usize = 6;

/// Offset of the destination connection ID in a short header (RFC 8999 section 5.2).
const SHORT_ID_AT: usize = 1;

/// Server ID by which a load balancer in front of several servers steers: 0 to 2 bytes at the beginning of
/// every connection ID, written in hexadecimal (`""`, `"7f"`, `"0102"`). Default: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServerId {
    bytes: [u8; MAX_SERVER_ID_BYTES],
    length: usize,
}

impl ServerId {
    /// # Errors
    /// More than two bytes.
    pub fn new(id: &[u8]) -> Result<Self, Error> {
        let mut bytes = [0; MAX_SERVER_ID_BYTES];
        let place = bytes.get_mut(..id.len()).ok_or_else(no_server_id)?;
        place.copy_from_slice(id);
        let length = id.len();
        Ok(Self { bytes, length })
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for ServerId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let digits: Option<Vec<_>> = text.chars().map(|digit| digit.to_digit(16)).collect();
        let digits = digits.filter(|digits| digits.len().is_multiple_of(2));
        let digits = digits.ok_or_else(no_server_id)?;
        let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).expect("two digits");
        let bytes: Vec<_> = digits.chunks(2).map(byte).collect();
        Self::new(&bytes)
    }
}

/// The beginning of the connection IDs of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConnectionIds {
    /// The server's ID, for a load balancer.
    pub server: ServerId,
    /// The worker's ID among those of the server. No two of them may have the same.
    pub worker: WorkerId,
}

/// The key of stateless resets (RFC 9000 section 10.3.2). Who knows it can end the connections of
/// who uses it.
#[derive(Clone, Copy)]
pub struct ResetKey(pub [u8; 32]);

impl fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetKey(..)")
    }
}

/// Returns the worker that a datagram is for, by what its first packet says; whoever made up the packet may
/// name workers that don't exist. `server` is the [`ServerId`] of the endpoints' connection IDs; of it only
/// the length counts.
///
/// `None` is whoever gets it: of the long headers only those of Handshake packets are looked at.
/// Clients make up the connection ID that Initial and 0-RTT packets go to, so that these would let
/// everybody choose a worker; and a client doesn't move before its handshake is done (RFC 9000
/// section 9: "An endpoint MUST NOT initiate connection migration before the handshake is
/// confirmed").
///
/// ```
/// use altway_quic::{ServerId, worker_of};
///
/// let server = ServerId::new(&[0xaa])?;
/// let mut packet = [0x40, 0xaa, 0x10, 3, 1, 2, 3, 4, 5, 0xff];
/// let worker = worker_of(&packet, server).expect("a packet with a short header names its worker");
/// assert_eq!((worker.generation().number(), worker.number()), (1, 3));
/// packet[0] = 0xc0;
/// assert_eq!(worker_of(&packet, server), None);
/// # Ok::<(), altway_quic::Error>(())
/// ```
#[must_use]
pub fn worker_of(datagram: &[u8], server: ServerId) -> Option<WorkerId> {
    if datagram.first()? & LONG_HEADER == 0 {
        return named_at(SHORT_ID_AT, datagram, server);
    }
    match long_header::type_of(datagram)? {
        PacketType::Handshake => named_in_long_header(datagram, server),
        _ => None,
    }
}

/// Returns the worker that a datagram may be for whose first packet is an Initial or 0-RTT packet: a client's
/// first ones go to a connection ID of its own making, which seldom looks like one of ours but may, the others
/// to one of the server's (RFC 9000 section 7.2). So whoever passes such a datagram on should keep it too.
#[must_use]
pub fn worker_perhaps_of(datagram: &[u8], server: ServerId) -> Option<WorkerId> {
    match long_header::type_of(datagram)? {
        PacketType::Initial | PacketType::ZeroRtt => named_in_long_header(datagram, server),
        _ => None,
    }
}

/// Returns true if the connection ID that a datagram's first packet goes to begins with the bytes of `server`.
#[must_use]
pub fn names_server(datagram: &[u8], server: ServerId) -> bool {
    let is_long = datagram
        .first()
        .is_some_and(|first| first & LONG_HEADER != 0);
    let id_at = if is_long { LONG_ID_AT } else { SHORT_ID_AT };
    let id = datagram.get(id_at..);
    id.is_some_and(|id| id.starts_with(server.as_bytes()))
}

fn named_in_long_header(datagram: &[u8], server: ServerId) -> Option<WorkerId> {
    let length = datagram.get(LONG_LENGTH_AT).copied().map(usize::from);
    (length == Some(CONNECTION_ID_BYTES)).then(|| named_at(LONG_ID_AT, datagram, server))?
}

fn named_at(id_at: usize, datagram: &[u8], server: ServerId) -> Option<WorkerId> {
    let id = datagram.get(id_at..id_at + CONNECTION_ID_BYTES)?;
    let worker = id[server.length..].first_chunk()?;
    Some(WorkerId::from_bytes(*worker))
}

fn no_server_id() -> Error {
    Error::InvalidConfig {
        field: "server id",
        expected: "0, 2 or 4 hexadecimal digits",
    }
}

/// A secret for this purpose alone.
pub(crate) fn derive(seed: [u8; 32], purpose: &[u8]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &seed), purpose);
    *tag.as_ref().first_chunk().expect("32 bytes of SHA-256")
}

/// Makes connection IDs. Their random part is a keyed hash of their number, so that who sees some
/// can't tell which others are of the same client.
#[derive(Clone)]
pub(crate) struct Generator {
    ids: ConnectionIds,
    prefix: Vec<u8>,
    key: hmac::Key,
    made: u64,
}

impl Generator {
    pub(crate) fn new(ids: ConnectionIds, key: [u8; 32]) -> Self {
        Self {
            ids,
            prefix: [ids.server.as_bytes(), &ids.worker.to_bytes()].concat(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            made: 0,
        }
    }

    /// The next one.
    pub(crate) fn generate(&mut self) -> [u8; CONNECTION_ID_BYTES] {
        let random = hmac::sign(&self.key, &self.made.to_be_bytes());
        self.made += 1;
        let mut id = [0; CONNECTION_ID_BYTES];
        let (prefix, rest) = id.split_at_mut(self.prefix.len());
        prefix.copy_from_slice(&self.prefix);
        rest.copy_from_slice(&random.as_ref()[..rest.len()]);
        id
    }

    /// Returns true if an ID may be of a connection that this worker has lost. IDs that the process's other
    /// workers made, or another server, are answered with no stateless reset. Of another process's connections
    /// those come here that have ended with it: while it lives, their datagrams are passed on to it.
    pub(crate) fn is_answerable(&self, id: &[u8]) -> bool {
        let made_by = id.strip_prefix(self.ids.server.as_bytes());
        let made_by = made_by.and_then(|rest| rest.first_chunk());
        made_by.is_some_and(|worker| {
            let (made_by, ours) = (WorkerId::from_bytes(*worker), self.ids.worker);
            made_by == ours || made_by.generation() != ours.generation()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Generation;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn worker(generation: u8, number: usize) -> WorkerId {
        WorkerId::new(Generation::new(generation).unwrap(), number).unwrap()
    }

    fn ids(server: &[u8], worker: WorkerId) -> ConnectionIds {
        let server = ServerId::new(server).unwrap();
        ConnectionIds { server, worker }
    }

    fn generator(ids: ConnectionIds, seed: u8) -> Generator {
        Generator::new(ids, [seed; 32])
    }

    /// A packet's first bytes: `first`, and the ID where the header has it.
    fn packet(first: u8, id: &[u8]) -> Vec<u8> {
        let length = u8::try_from(id.len()).unwrap();
        let header: &[u8] = match first & LONG_HEADER {
            0 => &[first],
            _ => &[first, 0, 0, 0, 1, length],
        };
        [header, id, &[0; 20]].concat()
    }

    #[test]
    fn an_id_names_server_and_worker_and_is_random_for_the_rest() {
        let mut generator = generator(ids(&[0xaa, 0xbb], worker(3, 0x102)), 1);
        let made: HashSet<_> = (0..1000).map(|_| generator.generate()).collect();
        assert_eq!(made.len(), 1000);
        assert!(made.iter().all(|id| id[..4] == [0xaa, 0xbb, 0x31, 2]));
        let last: HashSet<_> = made.iter().map(|id| id[7]).collect();
        assert!(last.len() > 200, "{} values of a byte", last.len());
    }

    #[test]
    fn the_same_seed_makes_the_same_ids_and_another_one_others() {
        let made = |seed| {
            let mut generator = generator(ids(&[], worker(0, 0)), seed);
            (generator.generate(), generator.generate())
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }

    #[test]
    fn an_id_of_a_colleague_or_of_another_server_is_not_ours() {
        let mut ours = generator(ids(&[7], worker(2, 1)), 1);
        let id = ours.generate();
        assert!(ours.is_answerable(&id));
        let is_valid = |ids| generator(ids, 2).is_answerable(&id);
        assert!(is_valid(ids(&[7], worker(2, 1))));
        assert!(!is_valid(ids(&[7], worker(2, 0))));
        assert!(!is_valid(ids(&[8], worker(2, 1))));
        assert!(!is_valid(ids(&[8], worker(3, 1))));
        assert!(is_valid(ids(&[7], worker(3, 0))), "its process has ended");
    }

    #[test]
    fn packets_name_the_server_that_their_id_begins_with() {
        let id = generator(ids(&[7, 8], worker(0, 1)), 1).generate();
        for packet in [packet(0x40, &id), packet(0xe0, &id), packet(0xc0, &id)] {
            for (server, expected) in [
                (&[][..], true),
                (&[7], true),
                (&[7, 8], true),
                (&[8], false),
            ] {
                let server = ServerId::new(server).unwrap();
                assert_eq!(names_server(&packet, server), expected, "{packet:x?}");
            }
        }
        let seven = ServerId::new(&[7]).unwrap();
        for short in [&[][..], &[0x40], &[0xc0, 0, 0, 0, 1, 8]] {
            assert!(!names_server(short, seven), "{short:x?}");
        }
    }

    #[test]
    fn packets_with_ids_of_ours_name_their_worker() {
        for server in [&[][..], &[1], &[1, 2]] {
            let ids = ids(server, worker(0xf, 0xedc));
            let id = generator(ids, 1).generate();
            for first in [0x00, 0x40, 0x7f, 0xe0, 0xef, 0xa0] {
                let packet = packet(first, &id);
                assert_eq!(
                    worker_of(&packet, ids.server),
                    Some(ids.worker),
                    "{first:#x}"
                );
                assert_eq!(worker_perhaps_of(&packet, ids.server), None, "{first:#x}");
            }
        }
    }

    #[test]
    fn packets_with_ids_that_clients_make_up_name_a_worker_perhaps() {
        let id = generator(ids(&[], worker(1, 2)), 1).generate();
        let (server, named) = (ServerId::default(), Some(worker(1, 2)));
        let types = [
            (0xc0, "Initial", named),
            (0xd0, "0-RTT", named),
            (0xf0, "Retry", None),
        ];
        for (first, what, perhaps) in types {
            let packet = packet(first, &id);
            assert_eq!(worker_of(&packet, server), None, "{what}");
            assert_eq!(worker_perhaps_of(&packet, server), perhaps, "{what}");
        }
    }

    #[test]
    fn types_are_those_of_the_packets_version() {
        let id = generator(ids(&[], worker(1, 2)), 1).generate();
        let (server, named) = (ServerId::default(), Some(worker(1, 2)));
        let types = [
            (0xd0, "Initial", None, named),
            (0xe0, "0-RTT", None, named),
            (0xf0, "Handshake", named, None),
            (0xc0, "Retry", None, None),
        ];
        for (first, what, certainly, perhaps) in types {
            let mut packet = packet(first, &id);
            packet[1..5].copy_from_slice(&crate::Version::V2.number().to_be_bytes());
            assert_eq!(worker_of(&packet, server), certainly, "{what}");
            assert_eq!(worker_perhaps_of(&packet, server), perhaps, "{what}");
        }
    }

    #[test]
    fn an_id_of_another_length_is_not_ours() {
        let server = ServerId::default();
        for length in [0, 7, 9, 20] {
            let id = vec![0; length];
            assert_eq!(worker_of(&packet(0xe0, &id), server), None);
            assert_eq!(worker_perhaps_of(&packet(0xc0, &id), server), None);
        }
    }

    #[test]
    fn a_datagram_too_short_for_an_id_names_none() {
        for (first, whole) in [(0x40, 9), (0xe0, 14)] {
            let packet = packet(first, &[0; CONNECTION_ID_BYTES]);
            let server = ServerId::new(&[1, 2]).unwrap();
            for length in 0..whole {
                assert_eq!(worker_of(&packet[..length], server), None, "{length}");
            }
            assert_eq!(worker_of(&packet[..whole], server), Some(worker(0, 0)));
        }
    }

    #[test]
    fn a_server_id_that_is_none_is_refused() {
        for text in ["1", "123", "010203", "0g", "0x01", "é", " 01"] {
            let error = text.parse::<ServerId>().unwrap_err().to_string();
            assert!(error.starts_with("server id is out of range"), "{text}");
        }
    }

    #[test]
    fn a_reset_key_does_not_print_itself() {
        assert_eq!(format!("{:?}", ResetKey([42; 32])), "ResetKey(..)");
    }

    proptest! {
        #[test]
        fn a_server_id_reads_what_it_prints(bytes in vec(any::<u8>(), 0..=MAX_SERVER_ID_BYTES)) {
            let id = ServerId::new(&bytes).unwrap();
            prop_assert_eq!(id.to_string().parse::<ServerId>().unwrap(), id);
            prop_assert_eq!(id.as_bytes(), &bytes);
        }

        #[test]
        fn any_bytes_can_be_asked(
            datagram in vec(any::<u8>(), 0..40),
            server in vec(any::<u8>(), 0..=MAX_SERVER_ID_BYTES),
        ) {
            let server = ServerId::new(&server).unwrap();
            let named = worker_of(&datagram, server);
            let perhaps = worker_perhaps_of(&datagram, server);
            prop_assert!(named.is_none() || perhaps.is_none());
            prop_assert!(named.or(perhaps).is_none() || datagram.len() > CONNECTION_ID_BYTES);
        }
    }
}
