//! Long headers (RFC 9000 section 17.2, RFC 9369 section 3.2): what they say of their packet, and
//! version 2's types in the engine's words.
//!
//! The engine knows version 1's types alone. Those of version 2 are the same four in another order, so a
//! datagram's are rewritten before the engine sees it ([`translate`]), and the keys of version 2, which
//! seal the header with the packet, put the right ones back ([`to_version_2`]). Neither touches short
//! headers, which are the same in both versions, nor version 1.

use crate::Version;

/// The form bit of a first byte (RFC 8999 section 5): set in long headers.
const LONG_HEADER: u8 = 0x80;

/// The type bits of a long header (RFC 9000 section 17.2), and the lowest of them.
const TYPE: u8 = 0x30;
const NEXT_TYPE: u8 = 0x10;

/// Offsets of the version, and of the first connection ID's length.
const VERSION_AT: usize = 1;
const ID_LENGTH_AT: usize = 5;

/// Type of a packet with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketType {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
}

/// The version of a datagram's first packet, if it has a long header and the version is spoken.
#[inline]
pub(crate) fn version_of(datagram: &[u8]) -> Option<Version> {
    Version::from_number(number_of(datagram)?)
}

/// Returns the type of a datagram's first packet, if it has a long header. A packet of a version that
/// isn't spoken is read by the types of version 1.
pub(crate) fn type_of(datagram: &[u8]) -> Option<PacketType> {
    let first = *datagram.first()?;
    if first & LONG_HEADER == 0 {
        return None;
    }
    let first = match version_of(datagram) {
        Some(Version::V2) => to_version_1(first),
        _ => first,
    };
    Some(match (first & TYPE) / NEXT_TYPE {
        0 => PacketType::Initial,
        1 => PacketType::ZeroRtt,
        2 => PacketType::Handshake,
        _ => PacketType::Retry,
    })
}

/// Rewrites the types of a datagram's packets, of which the first is one of version 2, to version 1's.
///
/// Goes from packet to packet by their lengths as the engine does, and stops at the first that isn't
/// version 2's, or whose header is cut off. What is left as it came nobody can decrypt.
pub(crate) fn translate(mut datagram: &mut [u8]) {
    while version_of(datagram) == Some(Version::V2) {
        let end = end_of(datagram);
        datagram[0] = to_version_1(datagram[0]);
        let Some(rest) = end.and_then(|end| datagram.get_mut(end..)) else {
            return;
        };
        datagram = rest;
    }
}

/// The first byte of a version 2 packet, from that of a version 1 packet of the same type. RFC 9369
/// section 3.2: "Initial: 0b01, 0-RTT: 0b10, Handshake: 0b11, Retry: 0b00".
pub(crate) fn to_version_2(first: u8) -> u8 {
    first & !TYPE | first.wrapping_add(NEXT_TYPE) & TYPE
}

/// The other way round.
fn to_version_1(first: u8) -> u8 {
    first & !TYPE | first.wrapping_sub(NEXT_TYPE) & TYPE
}

/// Returns true if a datagram is one packet with a long header that has a length, and nothing else.
pub(crate) fn is_one_packet(datagram: &[u8]) -> bool {
    end_of(datagram) == Some(datagram.len())
}

#[inline]
fn number_of(datagram: &[u8]) -> Option<u32> {
    if datagram.first()? & LONG_HEADER == 0 {
        return None;
    }
    let number = datagram.get(VERSION_AT..)?.first_chunk()?;
    Some(u32::from_be_bytes(*number))
}

/// Returns the end of a datagram's first packet, by its length; `None` if it has none. May be beyond the
/// datagram's end.
fn end_of(datagram: &[u8]) -> Option<usize> {
    let rest = after_id(after_id(datagram.get(ID_LENGTH_AT..)?)?)?;
    let rest = match type_of(datagram)? {
        PacketType::Initial => {
            let (length, rest) = integer(rest)?;
            rest.get(usize::try_from(length).ok()?..)?
        }
        PacketType::ZeroRtt | PacketType::Handshake => rest,
        PacketType::Retry => return None,
    };
    let (length, rest) = integer(rest)?;
    (datagram.len() - rest.len()).checked_add(usize::try_from(length).ok()?)
}

fn after_id(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first()?;
    rest.get(usize::from(*length)..)
}

/// An integer of variable length (RFC 9000 section 16), and what follows.
pub(crate) fn integer(bytes: &[u8]) -> Option<(u64, &[u8])> {
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

    const TYPES: [PacketType; 4] = [
        PacketType::Initial,
        PacketType::ZeroRtt,
        PacketType::Handshake,
        PacketType::Retry,
    ];

    /// A packet with connection IDs of 8 and 5 bytes whose first byte is this, and which says that it has
    /// `length` more.
    fn packet(first: u8, version: Version, length: &[u8], rest: usize) -> Vec<u8> {
        let version = version.number().to_be_bytes();
        let header = [&[first][..], &version, &[8], &[1; 8], &[5], &[2; 5]].concat();
        let is_initial = type_of(&header) == Some(PacketType::Initial);
        let token: &[u8] = if is_initial { &[3, 7, 7, 7] } else { &[] };
        [&header[..], token, length, &vec![9; rest]].concat()
    }

    /// Returns the datagram as the engine gets it.
    fn translated(datagram: &[u8]) -> Vec<u8> {
        let mut datagram = datagram.to_vec();
        translate(&mut datagram);
        datagram
    }

    #[test]
    fn types_are_those_of_the_version() {
        let of = |version| [0xc0, 0xd0, 0xe0, 0xf0].map(|first| (first, version));
        let types = |version: Version| {
            of(version).map(|(first, version)| {
                type_of(&packet(first, version, &[20], 20)).expect("a long header")
            })
        };
        assert_eq!(types(Version::V1), TYPES);
        let [initial, zero_rtt, handshake, retry] = TYPES;
        assert_eq!(types(Version::V2), [retry, initial, zero_rtt, handshake]);
        assert_eq!(type_of(&packet(0x50, Version::V2, &[20], 20)), None);
    }

    #[test]
    fn every_packet_of_a_datagram_is_translated() {
        let initial = packet(0xd3, Version::V2, &[0x40, 30], 30);
        let handshake = packet(0xf1, Version::V2, &[20], 20);
        let short = [0x70, 1, 2, 3];
        let came = [&initial[..], &handshake, &short].concat();
        let mut expected = came.clone();
        expected[0] = 0xc3;
        expected[initial.len()] = 0xe1;
        assert_eq!(translated(&came), expected);
    }

    #[test]
    fn what_follows_another_versions_packet_or_a_retry_stays_as_it_is() {
        let ours = packet(0xf1, Version::V2, &[20], 20);
        let other = packet(0xe1, Version::V1, &[20], 20);
        let came = [&other[..], &ours].concat();
        assert_eq!(translated(&came), came);
        let came = [&ours[..], &other, &ours].concat();
        let (first, rest) = (&translated(&came)[..ours.len()], &came[ours.len()..]);
        assert_eq!(first[0], 0xe1);
        assert_eq!(&translated(&came)[ours.len()..], rest);
        let retry = packet(0xc0, Version::V2, &[], 20);
        let came = [&retry[..], &ours].concat();
        assert_eq!(translated(&came)[0], 0xf0);
        assert_eq!(translated(&came)[1..], came[1..]);
    }

    #[test]
    fn a_packet_longer_than_its_datagram_is_the_last() {
        for length in [&[21][..], &[0x7f, 0xff], &[0xff; 8]] {
            let came = packet(0xf1, Version::V2, length, 20);
            assert_eq!(translated(&came)[0], 0xe1);
            assert_eq!(translated(&came)[1..], came[1..]);
            assert!(!is_one_packet(&came));
        }
    }

    #[test]
    fn a_packet_is_a_datagram_of_its_own_if_its_length_says_so() {
        for (first, version) in [(0xe3, Version::V1), (0xf3, Version::V2)] {
            for length in [&[30][..], &[0x40, 30], &[0x80, 0, 0, 30]] {
                assert!(is_one_packet(&packet(first, version, length, 30)));
                assert!(!is_one_packet(&packet(first, version, length, 31)));
                assert!(!is_one_packet(&packet(first, version, length, 29)));
            }
        }
    }

    fn version_2() -> impl Strategy<Value = Vec<u8>> {
        let length = prop_oneof![Just(vec![20]), vec(any::<u8>(), 1..8)];
        let one = (0x80..=0xff_u8, length, 0..40_usize)
            .prop_map(|(first, length, rest)| packet(first, Version::V2, &length, rest));
        vec(one, 1..6).prop_map(|packets| packets.concat())
    }

    proptest! {
        #[test]
        fn types_there_and_back_are_the_same(first: u8) {
            prop_assert_eq!(to_version_1(to_version_2(first)), first);
            prop_assert_eq!(to_version_2(to_version_1(first)), first);
            prop_assert_eq!((to_version_2(first) ^ first) & !TYPE, 0);
        }

        #[test]
        fn any_bytes_can_be_asked(mut datagram in vec(any::<u8>(), 0..80)) {
            is_one_packet(&datagram);
            translate(&mut datagram);
        }

        #[test]
        fn short_headers_and_other_versions_are_not_touched(
            came in vec(any::<u8>(), 0..80),
            rest in version_2(),
        ) {
            if version_of(&came) != Some(Version::V2) && came.len() > ID_LENGTH_AT {
                let came = [came, rest].concat();
                prop_assert_eq!(translated(&came), came);
            }
        }

        #[test]
        fn only_types_of_version_2_change_and_can_be_told_back(came in version_2()) {
            let engine = translated(&came);
            prop_assert_eq!(engine[0], to_version_1(came[0]));
            for (at, (before, after)) in came.iter().zip(&engine).enumerate() {
                if before != after {
                    prop_assert_eq!(version_of(&came[at..]), Some(Version::V2));
                    prop_assert_eq!(to_version_2(*after), *before);
                }
            }
        }
    }
}
