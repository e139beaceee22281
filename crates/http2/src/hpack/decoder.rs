//! Field blocks in (RFC 7541 sections 3 and 6).

use altway_fields::{huffman, integer};

use super::DEFAULT_TABLE_SIZE;
use super::dynamic_table::DynamicTable;
use super::static_table::ENTRIES;
use altway_message::FieldKind;

/// Visitor of the fields of a block.
pub(crate) trait Visitor {
    /// The next field.
    fn field(&mut self, kind: FieldKind, name: &[u8], value: &[u8]);
}

/// Reason for which a field block can't be decoded: the connection fails with COMPRESSION_ERROR (RFC
/// 9113 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecompressionError {
    /// RFC 7541 section 5.1.
    #[error("an integer is cut off or too large")]
    Integer,
    /// RFC 7541 section 5.2.
    #[error("a string ends behind its block")]
    StringCutOff,
    /// RFC 7541 section 5.2.
    #[error("a string is no valid Huffman code")]
    Huffman,
    /// RFC 7541 section 2.3.3: "Indices strictly greater than the sum of the lengths of both tables
    /// MUST be treated as a decoding error"; section 6.1: so must an index of 0.
    #[error("an index points into no table")]
    Index,
    /// RFC 7541 section 4.2: a size update "MUST occur at the beginning of the first header block".
    #[error("a table size update stands behind a field")]
    SizeUpdateLate,
    /// RFC 7541 section 6.3: "The new maximum size MUST be lower than or equal to the limit".
    #[error("a table size update exceeds the limit")]
    SizeUpdateTooLarge,
    /// RFC 9113 section 4.3.1: an endpoint "MUST treat a field block that follows an acknowledgment
    /// of the reduction to the maximum dynamic table size as a connection error [...] if it does not
    /// start with a conformant Dynamic Table Size Update instruction".
    #[error("a smaller table was acknowledged but not taken on")]
    SizeUpdateMissing,
}

/// Decodes the field blocks of one connection, in the order of their arrival.
///
/// Nothing is allocated for a field unless the buffer of the dynamic table must grow; see there for
/// its bound.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: DynamicTable<FieldKind>,
    /// The SETTINGS_HEADER_TABLE_SIZE that this side announced.
    announced: usize,
    /// Limit of the table's size that the peer may set: until it has acknowledged our SETTINGS, what
    /// it may still take for the limit.
    limit: usize,
}

impl Decoder {
    /// `max_table_size`: our SETTINGS_HEADER_TABLE_SIZE, bytes. The table starts with the default of
    /// 4096 bytes, whatever that says: the peer starts before it has read our SETTINGS.
    pub(crate) fn new(max_table_size: usize) -> Self {
        Self {
            table: DynamicTable::new(DEFAULT_TABLE_SIZE),
            announced: max_table_size,
            limit: max_table_size.max(DEFAULT_TABLE_SIZE),
        }
    }

    /// The peer has acknowledged our SETTINGS: from now on their table size is the limit. Need not
    /// be told for a table size of 4096 bytes or more.
    pub(crate) fn on_settings_acknowledged(&mut self) {
        self.limit = self.announced;
    }

    /// Decodes one whole field block. What its Huffman strings become is at most 8/5 of its length,
    /// but indexed fields repeat for a byte what the table holds: the visitor must count.
    ///
    /// # Errors
    /// As [`DecompressionError`] says; the decoder can't be used any longer.
    pub(crate) fn decode(
        &mut self,
        mut block: &[u8],
        visitor: &mut impl Visitor,
    ) -> Result<(), DecompressionError> {
        let input = &mut block;
        self.take_size_updates(input)?;
        while let Some(first) = input.first() {
            match first {
                0x80.. => self.indexed(input, visitor)?,
                0x40.. => {
                    let (name_len, kind) = self.literal(input, 6, visitor)?;
                    self.table.insert_draft(name_len, kind);
                }
                0x20.. => return Err(DecompressionError::SizeUpdateLate),
                _ => {
                    self.literal(input, 4, visitor)?;
                    self.table.drop_draft();
                }
            }
        }
        Ok(())
    }

    /// Changes whenever the dynamic table changes: equal blocks under an equal generation give equal
    /// fields, and if the first one has not changed the table, neither would the second.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.table.generation()
    }

    /// Gives back the memory without which blocks are decoded to the same fields.
    pub(crate) fn rest(&mut self) {
        self.table.give_back_room();
    }

    /// Section 6.3, 001 and the size with a prefix of 5 bits.
    fn take_size_updates(&mut self, input: &mut &[u8]) -> Result<(), DecompressionError> {
        while matches!(input.first(), Some(0x20..0x40)) {
            let size = take_integer(input, 5)?;
            if size > self.limit {
                return Err(DecompressionError::SizeUpdateTooLarge);
            }
            self.table.resize(size);
        }
        if self.table.max_size() > self.limit {
            return Err(DecompressionError::SizeUpdateMissing);
        }
        Ok(())
    }

    /// Section 6.1, 1 and the index with a prefix of 7 bits.
    #[inline]
    fn indexed(
        &self,
        input: &mut &[u8],
        visitor: &mut impl Visitor,
    ) -> Result<(), DecompressionError> {
        match place(take_integer(input, 7)?)? {
            Place::Static(place) => {
                let entry = &ENTRIES[place];
                visitor.field(entry.kind, entry.name, entry.value);
            }
            Place::Dynamic(position) => {
                let field = self.table.get(position).ok_or(DecompressionError::Index)?;
                visitor.field(field.tag, field.name, field.value);
            }
        }
        Ok(())
    }

    /// Section 6.2, some bits and the name's index with a prefix of `bits`, 0 for a literal name;
    /// then the value. The field becomes the draft of the dynamic table; returns the length of its
    /// name, and its kind.
    fn literal(
        &mut self,
        input: &mut &[u8],
        bits: u32,
        visitor: &mut impl Visitor,
    ) -> Result<(usize, FieldKind), DecompressionError> {
        let kind = match take_integer(input, bits)? {
            0 => {
                take_string(input, self.table.append())?;
                FieldKind::of(self.table.draft())
            }
            index => self.indexed_name(index)?,
        };
        let name_len = self.table.draft().len();
        take_string(input, self.table.append())?;
        let (name, value) = self.table.draft().split_at(name_len);
        let kind = kind.with_value(value);
        visitor.field(kind, name, value);
        Ok((name_len, kind))
    }

    fn indexed_name(&mut self, index: usize) -> Result<FieldKind, DecompressionError> {
        match place(index)? {
            Place::Static(place) => {
                let entry = &ENTRIES[place];
                self.table.append().extend_from_slice(entry.name);
                Ok(entry.kind)
            }
            // The entry's own kind may come from its value.
            Place::Dynamic(position) => {
                let name = self.table.append_name(position);
                name.map(FieldKind::of).ok_or(DecompressionError::Index)
            }
        }
    }
}

enum Place {
    Static(usize),
    Dynamic(usize),
}

/// Section 2.3.3: the static table's entries come first, from 1 on, then the dynamic table's.
#[inline]
fn place(index: usize) -> Result<Place, DecompressionError> {
    let place = index.checked_sub(1).ok_or(DecompressionError::Index)?;
    Ok(match place.checked_sub(ENTRIES.len()) {
        Some(position) => Place::Dynamic(position),
        None => Place::Static(place),
    })
}

#[inline]
fn take_integer(input: &mut &[u8], bits: u32) -> Result<usize, DecompressionError> {
    let value = integer::decode(input, bits).ok_or(DecompressionError::Integer)?;
    usize::try_from(value).map_err(|_| DecompressionError::Integer)
}

/// Section 5.2: the Huffman bit, the length with a prefix of 7 bits, the bytes.
fn take_string(input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), DecompressionError> {
    let coded = matches!(input.first(), Some(0x80..));
    let len = take_integer(input, 7)?;
    let Some((bytes, rest)) = input.split_at_checked(len) else {
        return Err(DecompressionError::StringCutOff);
    };
    *input = rest;
    if coded {
        return huffman::decode(bytes, usize::MAX, out).map_err(|_| DecompressionError::Huffman);
    }
    out.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD_VALUE: FieldKind = FieldKind::Refused(altway_message::Refusal::FieldValue);

    #[derive(Default)]
    struct Kinds(Vec<FieldKind>);

    impl Visitor for Kinds {
        fn field(&mut self, kind: FieldKind, _: &[u8], _: &[u8]) {
            self.0.push(kind);
        }
    }

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<FieldKind>, DecompressionError> {
        let mut kinds = Kinds::default();
        decoder.decode(block, &mut kinds).map(|()| kinds.0)
    }

    #[test]
    fn indices_beyond_the_tables_and_0_are_errors() {
        let mut decoder = Decoder::new(4096);
        // a: b, indexed.
        assert!(decode(&mut decoder, &[0x40, 1, b'a', 1, b'b']).is_ok());
        assert_eq!(decode(&mut decoder, &[0xbe]), Ok(vec![FieldKind::Regular]));
        for block in [
            &[0x80][..],                                 // index 0
            &[0xbf],                                     // index 63
            &[0x7f, 0, 0],                               // name index 63
            &[0x0f, 63 - 15, 0],                         // name index 63, not indexed
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], // index near 2^42
        ] {
            let error = decode(&mut decoder, block);
            assert_eq!(error, Err(DecompressionError::Index), "{block:x?}");
        }
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        for (block, error) in [
            (&[0xff][..], DecompressionError::Integer),
            (&[0x3f], DecompressionError::Integer),
            (&[0x40], DecompressionError::Integer),
            (&[0xff; 12], DecompressionError::Integer),
            (&[0x40, 1], DecompressionError::StringCutOff),
            (&[0x40, 1, b'a'], DecompressionError::Integer),
            (&[0x44, 2, b'/'], DecompressionError::StringCutOff),
            (&[0x44, 0x82, 0xff], DecompressionError::StringCutOff),
            (&[0x44, 0x81, 0xff], DecompressionError::Huffman),
            (&[0x44, 0x81, 0x06], DecompressionError::Huffman),
        ] {
            let mut decoder = Decoder::new(4096);
            assert_eq!(decode(&mut decoder, block), Err(error), "{block:x?}");
        }
    }

    #[test]
    fn an_empty_block_has_no_fields() {
        assert_eq!(decode(&mut Decoder::new(4096), &[]), Ok(vec![]));
    }

    #[test]
    fn size_updates_stand_before_the_first_field() {
        let mut decoder = Decoder::new(4096);
        // To 0, to 4096, :method GET.
        let block = [0x20, 0x3f, 0xe1, 0x1f, 0x82];
        assert_eq!(decode(&mut decoder, &block), Ok(vec![FieldKind::Method]));
        let late = Err(DecompressionError::SizeUpdateLate);
        assert_eq!(decode(&mut decoder, &[0x82, 0x20]), late);
    }

    #[test]
    fn size_updates_keep_to_the_limit() {
        let too_large = Err(DecompressionError::SizeUpdateTooLarge);
        // 4096 and 4097.
        assert_eq!(
            decode(&mut Decoder::new(4096), &[0x3f, 0xe1, 0x1f]),
            Ok(vec![])
        );
        assert_eq!(
            decode(&mut Decoder::new(4096), &[0x3f, 0xe2, 0x1f]),
            too_large
        );
        assert_eq!(
            decode(&mut Decoder::new(4097), &[0x3f, 0xe2, 0x1f]),
            Ok(vec![])
        );
    }

    #[test]
    fn a_smaller_table_holds_once_it_is_acknowledged_and_must_be_taken_on() {
        let mut decoder = Decoder::new(100);
        let insertion = [0x44, 1, b'/'];
        assert!(decode(&mut decoder, &insertion).is_ok());
        assert!(decode(&mut decoder, &[0x3f, 0xe1, 0x1f, 0xbe]).is_ok());
        decoder.on_settings_acknowledged();
        let missing = Err(DecompressionError::SizeUpdateMissing);
        assert_eq!(decode(&mut decoder, &[0x82]), missing);
        let too_large = Err(DecompressionError::SizeUpdateTooLarge);
        assert_eq!(decode(&mut decoder, &[0x3f, 0x46, 0x82]), too_large);
        // 100, then what was there is still there.
        assert!(decode(&mut decoder, &[0x3f, 0x45, 0xbe]).is_ok());
        assert!(decode(&mut decoder, &[0x82]).is_ok());
    }

    #[test]
    fn a_table_of_0_bytes_takes_nothing_in() {
        let mut decoder = Decoder::new(0);
        decoder.on_settings_acknowledged();
        assert!(decode(&mut decoder, &[0x20, 0x44, 1, b'/']).is_ok());
        let index = Err(DecompressionError::Index);
        assert_eq!(decode(&mut decoder, &[0xbe]), index);
    }

    #[test]
    fn only_incremental_indexing_adds_an_entry() {
        let mut decoder = Decoder::new(4096);
        let before = decoder.generation();
        // :path /, without indexing and never indexed.
        let block = [0x04, 1, b'/', 0x14, 1, b'/'];
        assert_eq!(decode(&mut decoder, &block), Ok(vec![FieldKind::Path; 2]));
        assert_eq!(decoder.generation(), before);
        let index = Err(DecompressionError::Index);
        assert_eq!(decode(&mut decoder, &[0xbe]), index);
    }

    #[test]
    fn a_name_taken_from_a_malformed_field_is_good_with_a_good_value() {
        let mut decoder = Decoder::new(4096);
        // a: NUL, indexed; then a: b with the name of that.
        let malformed = decode(&mut decoder, &[0x40, 1, b'a', 1, 0]);
        assert_eq!(malformed, Ok(vec![BAD_VALUE]));
        let kinds = decode(&mut decoder, &[0xbe, 0x7e, 1, b'b']);
        assert_eq!(kinds, Ok(vec![BAD_VALUE, FieldKind::Regular]));
    }

    #[test]
    fn a_static_name_with_a_bad_value_is_malformed() {
        let kinds = decode(&mut Decoder::new(4096), &[0x44, 1, b'\n', 0xbe]);
        assert_eq!(kinds, Ok(vec![BAD_VALUE; 2]));
    }
}
