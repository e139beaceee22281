//! QUIC's variable-length integers (RFC 9000 section 16): the two high bits of the first byte
//! give the length, 1, 2, 4 or 8 bytes.

use bytes::BufMut;

/// Largest value.
pub(crate) const MAX: u64 = (1 << 62) - 1;

/// Longest encoding, in bytes.
pub(crate) const MAX_LEN: usize = 8;

/// Reads one integer from the front: its value and length. `None`: there are bytes missing.
pub(crate) fn decode(input: &[u8]) -> Option<(u64, usize)> {
    let first = *input.first()?;
    let len = 1 << (first >> 6);
    let rest = input.get(1..len)?;
    let high = u64::from(first & 0x3f);
    Some((
        rest.iter()
            .fold(high, |value, byte| value << 8 | u64::from(*byte)),
        len,
    ))
}

/// Appends the shortest encoding of `value`, which must not exceed [`MAX`].
pub(crate) fn encode(value: u64, out: &mut impl BufMut) {
    debug_assert!(value <= MAX);
    match value {
        0..0x40 => out.put_uint(value, 1),
        0x40..0x4000 => out.put_uint(value | 0x4000, 2),
        0x4000..0x4000_0000 => out.put_uint(value | 0x8000_0000, 4),
        _ => out.put_u64(value | 0xc000_0000_0000_0000),
    }
}

/// Length of the encoding of `value`, bytes.
pub(crate) fn len(value: u64) -> u64 {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decodes_the_examples_of_rfc_9000_appendix_a() {
        for (bytes, value) in [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            assert_eq!(decode(bytes), Some((value, bytes.len())));
            assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_and_is_shortest(value in 0..=MAX, shift in 0..62u32) {
            let value = value >> shift;
            let mut out = Vec::new();
            encode(value, &mut out);
            prop_assert_eq!(decode(&out), Some((value, out.len())));
            prop_assert_eq!(len(value), out.len() as u64);
            let shorter = out.len() / 2;
            prop_assert!(shorter == 0 || value >= 1 << (shorter * 8 - 2));
        }
    }
}
