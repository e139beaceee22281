//! String literals (RFC 9204 section 4.1.2): a Huffman bit, a length with a prefix, and bytes.

use altway_fields::{huffman, integer};

/// A string as it stands in what came, or in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text<'a> {
    Plain(&'a [u8]),
    Huffman(&'a [u8]),
}

/// Reason for which a string can't be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undecodable {
    /// The text is longer than the limit.
    TooLong,
    /// The text is no Huffman code.
    Malformed,
}

impl<'a> Text<'a> {
    /// Takes a literal whose length has a prefix of `bits`, with the Huffman bit before it. `None`:
    /// bytes are missing, or the length is none.
    pub(super) fn take(input: &mut &'a [u8], bits: u32) -> Option<Self> {
        let coded = *input.first()? >> bits & 1 == 1;
        let len = usize::try_from(integer::decode(input, bits)?).ok()?;
        let (bytes, rest) = input.split_at_checked(len)?;
        *input = rest;
        Some(match coded {
            true => Text::Huffman(bytes),
            false => Text::Plain(bytes),
        })
    }

    /// The string itself, up to `limit` bytes of it; `buffer` may hold it.
    pub(super) fn decode<'b>(
        self,
        limit: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], Undecodable>
    where
        'a: 'b,
    {
        match self {
            Text::Plain(bytes) if bytes.len() > limit => Err(Undecodable::TooLong),
            Text::Plain(bytes) => Ok(bytes),
            Text::Huffman(bytes) => {
                buffer.clear();
                huffman::decode(bytes, limit, buffer).map_err(|error| match error {
                    huffman::Error::TooLong { .. } => Undecodable::TooLong,
                    _ => Undecodable::Malformed,
                })?;
                Ok(buffer)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use altway_fields::string;

    use super::*;

    #[test]
    fn a_literal_is_coded_if_that_is_shorter_and_comes_back() {
        for (value, first) in [(&b"no-cache"[..], 0x80 | 6), (b"\x01", 1), (b"", 0)] {
            let mut out = Vec::new();
            string::encode(value, 7, 0, &mut out);
            assert_eq!(out[0], first);
            let mut buffer = Vec::new();
            let text = Text::take(&mut &out[..], 7).unwrap();
            assert_eq!(text.decode(8, &mut buffer), Ok(value));
            let cut = Text::take(&mut &out[..out.len() - 1], 7);
            assert_eq!(cut, None);
        }
    }

    #[test]
    fn the_limit_counts_decoded_bytes() {
        let mut buffer = Vec::new();
        let coded = Text::Huffman(&[0, 0, 0, 0x7f]);
        assert_eq!(coded.decode(5, &mut buffer), Ok(&b"00000"[..]));
        assert_eq!(coded.decode(4, &mut buffer), Err(Undecodable::TooLong));
        let plain = Text::Plain(b"00000");
        assert_eq!(plain.decode(4, &mut buffer), Err(Undecodable::TooLong));
        let wrong = Text::Huffman(&[0]);
        assert_eq!(wrong.decode(9, &mut buffer), Err(Undecodable::Malformed));
    }
}
