//! The anti-amplification limit: bytes that may be sent to an address before its owner has shown
//! that it receives there.
//!
//! Sources of UDP datagrams are easily forged. "Prior to validating the client address, servers MUST
//! NOT send more than three times as many bytes as the number of bytes they have received" (RFC 9000
//! section 8.1), or a forger has them flood somebody else. The engine begins a last datagram as long
//! as one byte is left and so sends up to a datagram more than that; here none is begun that might
//! not fit.
//!
//! Handshakes are counted by the connection, and other paths of established connections by
//! [`Paths`](crate::engine::paths::Paths).

use crate::long_header::{self, PacketType};

/// Bytes that may be sent for each byte received (RFC 9000 section 8.1).
pub(crate) const FACTOR: u64 = 3;

/// Bytes that may be sent to an address.
#[derive(Debug)]
pub(crate) struct Budget {
    /// `None`: the address is validated.
    left: Option<u64>,
}

impl Budget {
    pub(crate) const UNLIMITED: Self = Self { left: None };

    /// The budget before anything was received: no bytes.
    pub(crate) const EMPTY: Self = Self { left: Some(0) };

    pub(crate) fn is_limited(&self) -> bool {
        self.left.is_some()
    }

    /// The address is validated.
    pub(crate) fn set_unlimited(&mut self) {
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

    /// Counts a datagram as sent, if it may be. Whether it may.
    pub(crate) fn spend(&mut self, bytes: usize) -> bool {
        let fits = self.left.is_none_or(|left| bytes as u64 <= left);
        if fits {
            self.on_sent(bytes);
        }
        fits
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

/// Returns true if a datagram is one Handshake packet and nothing else. Its sender knows the keys,
/// if it can be decrypted, and so has received what the server sent: "receipt of a packet protected
/// with Handshake keys confirms that the peer successfully processed an Initial packet" (RFC 9000
/// section 8.1). Anybody can have made the rest of a datagram.
pub(crate) fn is_one_handshake_packet(datagram: &[u8]) -> bool {
    long_header::type_of(datagram) == Some(PacketType::Handshake)
        && long_header::is_one_packet(datagram)
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
        budget.set_unlimited();
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

    #[test]
    fn a_handshake_packet_of_version_2_has_another_type() {
        let mut packet = packet(&[30], 30);
        packet[1..5].copy_from_slice(&[0x6b, 0x33, 0x43, 0xcf]);
        for (first, is_one) in [(0xc3, false), (0xd3, false), (0xe3, false), (0xf3, true)] {
            packet[0] = first;
            assert_eq!(is_one_handshake_packet(&packet), is_one, "{first:#x}");
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
