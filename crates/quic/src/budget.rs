//! What may be sent to an address before its owner has shown that it receives there.
//!
//! Sources of UDP datagrams are easily forged. "Prior to validating the client address, servers MUST
//! NOT send more than three times as many bytes as the number of bytes they have received" (RFC 9000
//! section 8.1), or a forger has them flood somebody else. The engine begins a last datagram as long
//! as one byte is left and so sends up to a datagram more than that; here none is begun that might
//! not fit.
//!
//! Only hand-shakes are held back. On a path to which an established connection moves the engine's
//! own rule holds.

/// How many times what was received may be sent (RFC 9000 section 8.1).
const FACTOR: u64 = 3;

/// Bytes that may be sent to the peer of a hand-shake.
#[derive(Debug)]
pub(crate) struct Budget {
    /// `None`: the address is validated.
    left: Option<u64>,
}

impl Budget {
    pub(crate) const UNLIMITED: Self = Self { left: None };

    /// Nothing, before anything was received.
    pub(crate) const EMPTY: Self = Self { left: Some(0) };

    pub(crate) fn is_limited(&self) -> bool {
        self.left.is_some()
    }

    /// The address is validated.
    pub(crate) fn lift(&mut self) {
        *self = Self::UNLIMITED;
    }

    pub(crate) fn on_received(&mut self, bytes: usize) {
        if let Some(left) = &mut self.left {
            *left += FACTOR * bytes as u64;
        }
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes as u64);
        }
    }

    /// Datagrams of up to this size that may be sent now, of those wanted.
    pub(crate) fn allows(&self, wanted: usize, size: u16) -> usize {
        let Some(left) = self.left else {
            return wanted;
        };
        let fitting = left / u64::from(size.max(1));
        wanted.min(usize::try_from(fitting).unwrap_or(usize::MAX))
    }
}

/// The parts of a long header (RFC 9000 section 17.2): form and type, and the type of a Handshake
/// packet in version 1.
const FORM_AND_TYPE: u8 = 0xb0;
const HANDSHAKE: u8 = 0xa0;

/// Where the first connection ID's length stands: after the first byte and the version.
const ID_LENGTH_AT: usize = 5;

/// Whether a datagram is one Handshake packet and nothing else. Its sender knows the keys, if it can
/// be decrypted, and so has received what the server sent: "receipt of a packet protected with
/// Handshake keys confirms that the peer successfully processed an Initial packet" (RFC 9000 section
/// 8.1). What else is in a datagram anybody can have made.
pub(crate) fn is_one_handshake_packet(datagram: &[u8]) -> bool {
    let is_handshake = |first| first & FORM_AND_TYPE == HANDSHAKE;
    datagram.first().copied().is_some_and(is_handshake)
        && rest_after_header(datagram).is_some_and(|(length, rest)| length == rest.len() as u64)
}

/// What a long header says of the length of the rest, and the rest.
fn rest_after_header(datagram: &[u8]) -> Option<(u64, &[u8])> {
    let rest = datagram.get(ID_LENGTH_AT..)?;
    integer(after_id(after_id(rest)?)?)
}

fn after_id(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first()?;
    rest.get(usize::from(*length)..)
}

/// An integer of variable length (RFC 9000 section 16), and what follows.
fn integer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let (number, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    let (_, low) = number.split_first()?;
    let high = u64::from(first & 0x3f);
    let value = low
        .iter()
        .fold(high, |value, byte| value << 8 | u64::from(*byte));
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A Handshake packet with connection IDs of 8 and 5 bytes that says it has `length` more.
    fn packet(length: &[u8], rest: usize) -> Vec<u8> {
        let header = [&[0xe3, 0, 0, 0, 1, 8][..], &[1; 8], &[5], &[2; 5], length];
        [&header.concat()[..], &vec![9; rest]].concat()
    }

    #[test]
    fn three_times_what_came_may_leave() {
        let mut budget = Budget::EMPTY;
        assert_eq!(budget.allows(10, 1200), 0);
        budget.on_received(1200);
        assert_eq!(budget.allows(10, 1200), 3);
        assert_eq!(budget.allows(2, 1200), 2);
        budget.on_sent(2400);
        assert_eq!(budget.allows(10, 1200), 1);
        budget.on_sent(1);
        assert_eq!(budget.allows(10, 1200), 0);
        assert_eq!(budget.allows(10, 1199), 1);
    }

    #[test]
    fn a_validated_address_gets_what_is_wanted() {
        let mut budget = Budget::EMPTY;
        budget.lift();
        budget.on_sent(5);
        assert!(!budget.is_limited());
        assert_eq!(budget.allows(10, 1200), 10);
    }

    #[test]
    fn a_handshake_packet_is_known_by_its_type_and_its_length() {
        for length in [&[30][..], &[0x40, 30], &[0x80, 0, 0, 30]] {
            assert!(is_one_handshake_packet(&packet(length, 30)), "{length:x?}");
            assert!(
                !is_one_handshake_packet(&packet(length, 31)),
                "more follows"
            );
            assert!(!is_one_handshake_packet(&packet(length, 29)), "cut off");
        }
        for first in [0xc0, 0xd0, 0xf0, 0x60, 0x20] {
            let mut other = packet(&[30], 30);
            other[0] = first;
            assert!(!is_one_handshake_packet(&other), "{first:#x}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_asked(mut datagram in vec(any::<u8>(), 0..60)) {
            is_one_handshake_packet(&datagram);
            if let Some(first) = datagram.first_mut() {
                *first = 0xe0;
            }
            is_one_handshake_packet(&datagram);
        }

        #[test]
        fn never_more_than_three_times_leaves(turns in vec((0..2000usize, 0..20usize, 1..1500u16), 0..50)) {
            let (mut budget, mut received, mut sent) = (Budget::EMPTY, 0, 0);
            for (came, wanted, size) in turns {
                received += came;
                budget.on_received(came);
                let leaves = budget.allows(wanted, size) * usize::from(size);
                sent += leaves;
                budget.on_sent(leaves);
                prop_assert!(sent <= 3 * received);
            }
        }
    }
}
