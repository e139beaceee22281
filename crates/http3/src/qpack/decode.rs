//! Field sections in (RFC 9204 section 4.5).

use altway_fields::{huffman, integer};

use super::static_table::ENTRIES;

/// Why a field section could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error<E> {
    /// It is no valid encoding, or refers to the dynamic table: QPACK_DECOMPRESSION_FAILED.
    Decompression,
    /// It exceeds the limit.
    TooLarge,
    /// The visitor's own.
    Visitor(E),
}

/// What RFC 9114 section 4.2.2 adds to each field's name and value when it counts.
pub(crate) const FIELD_OVERHEAD: u64 = 32;

/// Hands each field of `section` to `visit`, up to `limit` bytes as RFC 9114 section 4.2.2 counts.
pub(crate) fn decode<E>(
    mut section: &[u8],
    limit: u64,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
) -> Result<(), Error<E>> {
    let input = &mut section;
    prefix(input).ok_or(Error::Decompression)?;
    let mut room = limit;
    let (mut name_buffer, mut value_buffer) = (Vec::new(), Vec::new());
    while !input.is_empty() {
        room = room.checked_sub(FIELD_OVERHEAD).ok_or(Error::TooLarge)?;
        let (name, value) = line(input).ok_or(Error::Decompression)?;
        let name = name.resolve(&mut room, &mut name_buffer)?;
        let value = value.resolve(&mut room, &mut value_buffer)?;
        visit(name, value).map_err(Error::Visitor)?;
    }
    Ok(())
}

/// A string as it stands in the section or the static table.
enum Text<'a> {
    Plain(&'a [u8]),
    Huffman(&'a [u8]),
}

impl<'a> Text<'a> {
    /// The decoded string; takes its length from `room`.
    fn resolve<'b, E>(&self, room: &mut u64, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Error<E>>
    where
        'a: 'b,
    {
        let bytes = match self {
            Text::Plain(bytes) => bytes,
            Text::Huffman(bytes) => {
                buffer.clear();
                let limit = usize::try_from(*room).unwrap_or(usize::MAX);
                huffman::decode(bytes, limit, buffer).map_err(|error| match error {
                    huffman::Error::TooLong { .. } => Error::TooLarge,
                    _ => Error::Decompression,
                })?;
                buffer.as_slice()
            }
        };
        *room = room
            .checked_sub(bytes.len() as u64)
            .ok_or(Error::TooLarge)?;
        Ok(bytes)
    }
}

/// The section's prefix: without a dynamic table the Required Insert Count is 0, and then the base
/// means nothing.
fn prefix(input: &mut &[u8]) -> Option<()> {
    if integer::decode(input, 8)? != 0 {
        return None;
    }
    integer::decode(input, 7).map(|_| ())
}

/// One field line: 1T index, 01NT name index, 001N literal name; the forms that refer to the
/// dynamic table (T = 0, 0001, 0000) fail.
fn line<'a>(input: &mut &'a [u8]) -> Option<(Text<'a>, Text<'a>)> {
    let first = *input.first()?;
    if first & 0xc0 == 0xc0 {
        let (name, value) = entry(integer::decode(input, 6)?)?;
        return Some((Text::Plain(name), Text::Plain(value)));
    }
    let name = if first & 0xd0 == 0x50 {
        Text::Plain(entry(integer::decode(input, 4)?)?.0)
    } else if first & 0xe0 == 0x20 {
        text(input, 3)?
    } else {
        return None;
    };
    Some((name, text(input, 7)?))
}

fn entry(index: u64) -> Option<(&'static [u8], &'static [u8])> {
    let (name, value) = ENTRIES.get(usize::try_from(index).ok()?)?;
    Some((name.as_bytes(), value.as_bytes()))
}

/// A string literal whose length has a prefix of `bits`, with the Huffman bit before it.
fn text<'a>(input: &mut &'a [u8], bits: u32) -> Option<Text<'a>> {
    let coded = *input.first()? >> bits & 1 == 1;
    let len = usize::try_from(integer::decode(input, bits)?).ok()?;
    let (bytes, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(if coded {
        Text::Huffman(bytes)
    } else {
        Text::Plain(bytes)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Encoder;
    use super::*;

    type Fields = Vec<(Vec<u8>, Vec<u8>)>;

    fn decoded(section: &[u8], limit: u64) -> Result<Fields, Error<()>> {
        let mut fields = Vec::new();
        decode(section, limit, |name, value| {
            fields.push((name.to_vec(), value.to_vec()));
            Ok(())
        })?;
        Ok(fields)
    }

    #[test]
    fn decodes_the_example_of_rfc_9204_appendix_b_1() {
        // Literal field line with name reference: :path = /index.html
        let section = [&[0x00, 0x00, 0x51, 0x0b][..], &b"/index.html"[..]].concat();
        let expected = vec![(b":path".to_vec(), b"/index.html".to_vec())];
        assert_eq!(decoded(&section, 1000), Ok(expected));
    }

    #[test]
    fn whatever_needs_a_dynamic_table_fails() {
        for section in [
            &[0x01, 0x00][..],         // required insert count 1
            &[0x00, 0x00, 0x80],       // indexed, dynamic
            &[0x00, 0x00, 0x10],       // indexed, post-base
            &[0x00, 0x00, 0x40, 0],    // name reference, dynamic
            &[0x00, 0x00, 0x00, 0],    // name reference, post-base
            &[0x00, 0x00, 0xff, 0x24], // static index 99
            &[0x00],
            &[],
        ] {
            assert_eq!(
                decoded(section, 1000),
                Err(Error::Decompression),
                "{section:?}"
            );
        }
    }

    #[test]
    fn the_limit_counts_names_values_and_32_a_field() {
        // :path = / twice: 2 × (5 + 1 + 32).
        let section = [0x00, 0x00, 0xc1, 0xc1];
        assert_eq!(decoded(&section, 76).unwrap().len(), 2);
        assert_eq!(decoded(&section, 75), Err(Error::TooLarge));
        // A Huffman value of five zeroes against a limit of four.
        let section = [0x00, 0x00, 0x51, 0x84, 0, 0, 0, 0x7f];
        assert_eq!(decoded(&section, 32 + 5 + 4), Err(Error::TooLarge));
    }

    proptest! {
        #[test]
        fn random_sections_never_panic_and_keep_to_the_limit(
            section: Vec<u8>, limit in 0..2000u64,
        ) {
            if let Ok(fields) = decoded(&[&[0, 0], &section[..]].concat(), limit) {
                let size: usize = fields.iter().map(|(n, v)| n.len() + v.len() + 32).sum();
                prop_assert!(size as u64 <= limit);
            }
        }

        #[test]
        fn what_is_encoded_decodes(fields: Fields) {
            let mut encoder = Encoder::new();
            for (name, value) in &fields {
                encoder.field(name, value, value.len() % 2 == 0);
            }
            let size: usize = fields.iter().map(|(n, v)| n.len() + v.len() + 32).sum();
            prop_assert_eq!(encoder.size(), size as u64);
            prop_assert_eq!(decoded(encoder.section(), size as u64), Ok(fields));
        }
    }
}
