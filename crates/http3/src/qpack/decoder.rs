//! Field sections in (RFC 9204 section 4.5), the peer's encoder stream, and what is to be said on
//! this side's decoder stream.

use altway_fields::integer;

use super::dynamic_table::DynamicTable;
use super::instructions::{DecoderInstruction, EncoderInstruction, Malformed, Partial};
use super::static_table::ENTRIES;
use super::text::{Text, Undecodable};
use super::{FIELD_OVERHEAD, max_entries};
use crate::Code;
use crate::failure::Violation;

/// Bytes of acknowledgements that wait for others: a dozen and more.
const MAX_WAITING: usize = 32;

/// Reason for which a field section could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error<E> {
    /// The section needs entries that have not come: to be decoded again once
    /// [`Decoder::insert_count`] is this.
    Blocked {
        /// The section's Required Insert Count.
        required: u64,
    },
    /// The section is no valid encoding, or refers to what is not in a table:
    /// QPACK_DECOMPRESSION_FAILED.
    Decompression,
    /// The section exceeds the limit.
    TooLarge,
    /// The visitor's own.
    Visitor(E),
}

impl<E> From<Undecodable> for Error<E> {
    fn from(error: Undecodable) -> Self {
        match error {
            Undecodable::TooLong => Error::TooLarge,
            Undecodable::Malformed => Error::Decompression,
        }
    }
}

/// State on which the meaning of a section depends, apart from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Basis {
    /// Required Insert Count of the section; 0: nothing of the dynamic table.
    required: u64,
    /// Number of changes of the dynamic table until then.
    changes: u64,
}

/// Decodes the field sections of one connection.
///
/// The decoder holds the dynamic table, an instruction that is not whole (at most 8 times the
/// capacity), and what the peer has not been told yet.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: DynamicTable<()>,
    max_capacity: usize,
    partial: Partial,
    /// Insertions that the peer has been told of.
    known: u64,
    /// Instructions of the peer that were obeyed.
    changes: u64,
    /// Instructions for the decoder stream.
    instructions: Vec<u8>,
    /// True if one of them is more than an acknowledgement of a section.
    urgent: bool,
}

impl Decoder {
    /// A decoder whose connection announces a dynamic table of up to `max_capacity` bytes.
    pub(crate) fn new(max_capacity: usize) -> Self {
        Self {
            table: DynamicTable::new(),
            max_capacity,
            partial: Partial::default(),
            known: 0,
            changes: 0,
            instructions: Vec::new(),
            urgent: false,
        }
    }

    /// Takes a piece of the peer's encoder stream. How many instructions that were.
    pub(crate) fn on_encoder_stream(&mut self, piece: &[u8]) -> Result<u32, Violation> {
        let mut partial = std::mem::take(&mut self.partial);
        let fed = partial.feed(piece, |input| {
            let instruction = EncoderInstruction::take(input, self.max_capacity)?;
            instruction.map_or(Ok(false), |it| self.apply_instruction(it).map(|()| true))
        });
        self.partial = partial;
        let instructions = fed.map_err(|Malformed| {
            let reason = "wrong instruction on the encoder stream";
            Violation::new(Code::QPACK_ENCODER_STREAM_ERROR, reason)
        })?;
        self.changes += u64::from(instructions);
        let news = self.table.insert_count() - self.known;
        if news > 0 {
            self.known += news;
            DecoderInstruction::Increment(news).put(&mut self.instructions);
            self.urgent = true;
        }
        Ok(instructions)
    }

    /// Hands each field of a stream's section to `visit`, up to `limit` bytes as RFC 9114 section
    /// 4.2.2 counts. What it gives is for [`decode_again`](Self::decode_again).
    pub(crate) fn decode<E>(
        &mut self,
        stream: u64,
        section: &[u8],
        limit: u64,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<Basis, Error<E>> {
        let mut rest = section;
        let input = &mut rest;
        let prefix = self.prefix(input).ok_or(Error::Decompression)?;
        if prefix.required > self.table.insert_count() {
            let required = prefix.required;
            return Err(Error::Blocked { required });
        }
        let lines = Lines {
            table: &self.table,
            prefix,
        };
        lines.decode(input, limit, &mut visit)?;
        self.acknowledge(stream, prefix.required);
        Ok(Basis {
            required: prefix.required,
            changes: self.changes,
        })
    }

    /// A section of a stream has the same bytes as one that was decoded on this basis. Whether it
    /// means the same; if so, it counts as decoded.
    pub(crate) fn decode_again(&mut self, stream: u64, basis: Basis) -> bool {
        let same = basis.required == 0 || basis.changes == self.changes;
        if same {
            self.acknowledge(stream, basis.required);
        }
        same
    }

    /// Sections of this stream will not be decoded any more (section 2.2.2.2).
    pub(crate) fn cancel(&mut self, stream: u64) {
        // "A decoder with a maximum dynamic table capacity equal to zero MAY omit sending Stream
        // Cancellations, because the encoder cannot have any dynamic table references."
        if self.max_capacity > 0 {
            DecoderInstruction::Cancel(stream).put(&mut self.instructions);
            self.urgent = true;
        }
    }

    /// Returns the number of entries that there ever were in the dynamic table.
    pub(crate) fn insert_count(&self) -> u64 {
        self.table.insert_count()
    }

    /// Returns true if the instructions are to be sent now. The peer learns of its insertions by Insert Count
    /// Increments: an acknowledgement of a section only tells it that what the section refers to may be evicted (RFC 9204
    /// section 2.1.1), and a dozen of them wait for each other, as each STREAM frame costs both sides what ten fields do.
    pub(crate) fn is_due(&self) -> bool {
        self.urgent || self.instructions.len() >= MAX_WAITING
    }

    /// Returns the instructions to be sent on the decoder stream; to be emptied by the caller.
    pub(crate) fn instructions(&mut self) -> &mut Vec<u8> {
        self.urgent = false;
        &mut self.instructions
    }

    /// Section 2.2.2.1: "After the decoder finishes decoding a field section encoded using
    /// representations containing dynamic table references, it MUST emit a Section Acknowledgment
    /// instruction".
    fn acknowledge(&mut self, stream: u64, required: u64) {
        if required > 0 {
            DecoderInstruction::Acknowledge(stream).put(&mut self.instructions);
            self.known = self.known.max(required);
        }
    }

    fn apply_instruction(&mut self, instruction: EncoderInstruction<'_>) -> Result<(), Malformed> {
        match instruction {
            EncoderInstruction::SetCapacity(capacity) => {
                let capacity = usize::try_from(capacity).map_err(|_| Malformed)?;
                if capacity > self.max_capacity {
                    return Err(Malformed);
                }
                self.table.set_capacity(capacity);
                Ok(())
            }
            EncoderInstruction::InsertWithReference {
                static_table,
                index,
                value,
            } => {
                let name = match static_table {
                    true => static_entry(index).ok_or(Malformed)?.0.to_vec(),
                    false => self.relative(index)?.0.to_vec(),
                };
                let mut buffer = Vec::new();
                let value = value.decode(self.table.capacity(), &mut buffer)?;
                self.insert(&name, value)
            }
            EncoderInstruction::Insert { name, value } => {
                let (mut names, mut values) = (Vec::new(), Vec::new());
                let name = name.decode(self.table.capacity(), &mut names)?;
                let value = value.decode(self.table.capacity(), &mut values)?;
                self.insert(name, value)
            }
            EncoderInstruction::Duplicate(index) => {
                let (name, value) = self.relative(index)?;
                let (name, value) = (name.to_vec(), value.to_vec());
                self.insert(&name, &value)
            }
        }
    }

    /// Section 3.2.2: "It is an error if the encoder attempts to add an entry that is larger than
    /// the dynamic table capacity".
    fn insert(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        let fitted = self.table.insert(name, value, ());
        fitted.then_some(()).ok_or(Malformed)
    }

    /// The entry of a relative index on the encoder stream: 0 is the newest (section 3.2.5).
    fn relative(&self, index: u64) -> Result<(&[u8], &[u8]), Malformed> {
        let absolute = self.table.insert_count().checked_sub(1);
        let absolute = absolute.and_then(|newest| newest.checked_sub(index));
        absolute
            .and_then(|index| self.table.get(index))
            .ok_or(Malformed)
    }

    /// Section 4.5.1: Required Insert Count and Base.
    fn prefix(&self, input: &mut &[u8]) -> Option<Prefix> {
        let required = self.required_insert_count(integer::decode(input, 8)?)?;
        let negative = *input.first()? & 0x80 != 0;
        let delta = integer::decode(input, 7)?;
        let base = match negative {
            false => required.checked_add(delta)?,
            true => required.checked_sub(delta)?.checked_sub(1)?,
        };
        Some(Prefix { required, base })
    }

    /// Section 4.5.1.1, the algorithm as it stands there.
    fn required_insert_count(&self, encoded: u64) -> Option<u64> {
        if encoded == 0 {
            return Some(0);
        }
        let max_entries = max_entries(self.max_capacity as u64);
        let full_range = 2 * max_entries;
        if encoded > full_range {
            return None;
        }
        let max_value = self.table.insert_count() + max_entries;
        let max_wrapped = max_value / full_range * full_range;
        let mut required = max_wrapped + encoded - 1;
        if required > max_value {
            required = required
                .checked_sub(full_range)
                .filter(|_| required > full_range)?;
        }
        (required > 0).then_some(required)
    }
}

#[derive(Clone, Copy)]
struct Prefix {
    required: u64,
    base: u64,
}

/// The field lines of one section, and what they refer to.
struct Lines<'t> {
    table: &'t DynamicTable<()>,
    prefix: Prefix,
}

impl<'t> Lines<'t> {
    fn decode<'a, E>(
        &self,
        input: &mut &'a [u8],
        limit: u64,
        visit: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), Error<E>>
    where
        't: 'a,
    {
        let mut room = usize::try_from(limit).unwrap_or(usize::MAX);
        let (mut names, mut values) = (Vec::new(), Vec::new());
        while !input.is_empty() {
            let (name, value) = self.line(input).ok_or(Error::Decompression)?;
            room = room
                .checked_sub(FIELD_OVERHEAD as usize)
                .ok_or(Error::TooLarge)?;
            let name = name.decode(room, &mut names)?;
            room -= name.len();
            let value = value.decode(room, &mut values)?;
            room -= value.len();
            visit(name, value).map_err(Error::Visitor)?;
        }
        Ok(())
    }

    /// Reads a field line: 1T index, 01NT name index, 001N literal name, 0001 post-base index,
    /// 0000N post-base name index (sections 4.5.2 to 4.5.6).
    fn line<'a>(&self, input: &mut &'a [u8]) -> Option<(Text<'a>, Text<'a>)>
    where
        't: 'a,
    {
        let first = *input.first()?;
        let name = if first & 0x80 != 0 {
            let index = integer::decode(input, 6)?;
            let (name, value) = self.entry(first & 0x40 != 0, index)?;
            return Some((Text::Plain(name), Text::Plain(value)));
        } else if first & 0x40 != 0 {
            let index = integer::decode(input, 4)?;
            Text::Plain(self.entry(first & 0x10 != 0, index)?.0)
        } else if first & 0x20 != 0 {
            Text::take(input, 3)?
        } else if first & 0x10 != 0 {
            let (name, value) = self.post_base(integer::decode(input, 4)?)?;
            return Some((Text::Plain(name), Text::Plain(value)));
        } else {
            Text::Plain(self.post_base(integer::decode(input, 3)?)?.0)
        };
        Some((name, Text::take(input, 7)?))
    }

    /// The entry of an index that counts from the base downwards, or in the static table.
    fn entry(&self, static_table: bool, index: u64) -> Option<(&'t [u8], &'t [u8])> {
        if static_table {
            return static_entry(index);
        }
        self.dynamic(self.prefix.base.checked_sub(1)?.checked_sub(index)?)
    }

    fn post_base(&self, index: u64) -> Option<(&'t [u8], &'t [u8])> {
        self.dynamic(self.prefix.base.checked_add(index)?)
    }

    /// Section 2.2.3: a reference "to an entry that has already been evicted or that has an absolute
    /// index greater than or equal to the declared Required Insert Count" is an error.
    fn dynamic(&self, index: u64) -> Option<(&'t [u8], &'t [u8])> {
        if index >= self.prefix.required {
            return None;
        }
        self.table.get(index)
    }
}

fn static_entry(index: u64) -> Option<(&'static [u8], &'static [u8])> {
    let (name, value) = ENTRIES.get(usize::try_from(index).ok()?)?;
    Some((name.as_bytes(), value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Fields = Vec<(Vec<u8>, Vec<u8>)>;

    fn decoded(decoder: &mut Decoder, section: &[u8], limit: u64) -> Result<Fields, Error<()>> {
        let mut fields = Vec::new();
        decoder.decode(4, section, limit, |name, value| {
            fields.push((name.to_vec(), value.to_vec()));
            Ok(())
        })?;
        Ok(fields)
    }

    /// A decoder with one entry, `a: b`, whose arrival it has told.
    fn decoder() -> Decoder {
        let mut decoder = Decoder::new(100);
        let insert = [0x3f, 69, 0x41, b'a', 0x01, b'b'];
        decoder.on_encoder_stream(&insert).unwrap();
        assert_eq!(std::mem::take(decoder.instructions()), [0x01]);
        decoder
    }

    fn field(name: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
        (name.into(), value.into())
    }

    #[test]
    fn every_form_of_reference_finds_its_entry_and_is_acknowledged() {
        for (section, expected) in [
            (&[0x02, 0x00, 0x80][..], field("a", "b")),
            (&[0x02, 0x80, 0x10], field("a", "b")),
            (&[0x02, 0x00, 0x40, 1, b'c'], field("a", "c")),
            (&[0x02, 0x80, 0x00, 1, b'c'], field("a", "c")),
        ] {
            let mut decoder = decoder();
            assert_eq!(decoded(&mut decoder, section, 1000), Ok(vec![expected]));
            assert_eq!(*decoder.instructions(), [0x84], "{section:?}");
        }
    }

    #[test]
    fn a_section_without_references_is_not_acknowledged() {
        let mut decoder = decoder();
        let fields = decoded(&mut decoder, &[0x00, 0x00, 0xd1], 1000);
        assert_eq!(fields, Ok(vec![field(":method", "GET")]));
        assert_eq!(*decoder.instructions(), [0_u8; 0]);
    }

    #[test]
    fn a_section_waits_for_its_entries() {
        let mut decoder = decoder();
        let section = [0x03, 0x00, 0x80];
        let blocked = decoded(&mut decoder, &section, 1000);
        assert_eq!(blocked, Err(Error::Blocked { required: 2 }));
        decoder.on_encoder_stream(&[0x00]).unwrap();
        assert_eq!(decoder.insert_count(), 2);
        let fields = decoded(&mut decoder, &section, 1000);
        assert_eq!(fields, Ok(vec![field("a", "b")]));
        assert_eq!(*decoder.instructions(), [0x01, 0x84]);
    }

    #[test]
    fn what_refers_to_nothing_fails() {
        for section in [
            &[0x00, 0x00, 0x80][..],   // a dynamic index, none required
            &[0x02, 0x00, 0x81],       // before the first entry
            &[0x02, 0x01, 0x80],       // an index not below the required count
            &[0x02, 0x00, 0x10],       // the same, post-base
            &[0x02, 0x00, 0x41, 0],    // the name of none
            &[0x02, 0x00, 0x00, 0],    // the name of none, post-base
            &[0x00, 0x00, 0xff, 0x24], // static index 99
            &[0x00, 0x80, 0xd1],       // a negative base
            &[0x07, 0x00, 0xd1],       // more entries than fit twice
            &[0x01, 0x00, 0xd1],       // encoded, and yet 0
            &[0x00],
            &[],
        ] {
            let mut decoder = decoder();
            assert_eq!(
                decoded(&mut decoder, section, 1000),
                Err(Error::Decompression),
                "{section:?}"
            );
        }
    }

    #[test]
    fn an_evicted_entry_is_gone() {
        let mut decoder = decoder();
        decoder.on_encoder_stream(&[0x00, 0x00, 0x20]).unwrap();
        let gone = decoded(&mut decoder, &[0x04, 0x00, 0x80], 1000);
        assert_eq!(gone, Err(Error::Decompression));
    }

    #[test]
    fn instructions_that_cannot_be_obeyed_are_encoder_stream_errors() {
        for wrong in [
            &[0x3f, 70][..],                 // capacity 101
            &[0x81, 1, b'x'],                // the name of an entry that is not there
            &[0xff, 0x24, 1, b'x'],          // static index 99
            &[0x01],                         // a duplicate of what is not there
            &[0xc0, 0x7f, 0x00],             // longer than the table
            &[0x3f, 2, 0x41, b'a', 1, b'b'], // into a table of 33 bytes
            &[0xc0, 0x81, 0x00],             // no Huffman code
            &[0xff; 10],
        ] {
            let violation = decoder().on_encoder_stream(wrong).unwrap_err();
            let code = Code::QPACK_ENCODER_STREAM_ERROR;
            assert_eq!(violation.code, code, "{wrong:?}");
        }
    }

    #[test]
    fn without_a_table_cancellations_say_nothing() {
        let mut decoder = Decoder::new(0);
        decoder.cancel(4);
        assert_eq!(*decoder.instructions(), [0_u8; 0]);
        assert!(decoder.on_encoder_stream(&[0x20]).is_ok());
        assert!(decoder.on_encoder_stream(&[0x21]).is_err());
        let section = [0x01, 0x00, 0x80];
        let failed = decoded(&mut decoder, &section, 1000);
        assert_eq!(failed, Err(Error::Decompression));
    }

    #[test]
    fn the_limit_counts_names_values_and_32_a_field() {
        // :path = / twice: 2 × (5 + 1 + 32).
        let section = [0x00, 0x00, 0xc1, 0xc1];
        let decoded = |section: &[u8], limit| decoded(&mut decoder(), section, limit);
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
            if let Ok(fields) = decoded(&mut decoder(), &section, limit) {
                let size: usize = fields.iter().map(|(n, v)| n.len() + v.len() + 32).sum();
                prop_assert!(size as u64 <= limit);
            }
        }

        #[test]
        fn random_instructions_do_the_same_wherever_they_are_cut(
            bytes: Vec<u8>, cuts in 1..9usize,
        ) {
            let mut whole = decoder();
            let once = whole.on_encoder_stream(&bytes);
            let mut cut = decoder();
            let mut pieces = bytes.chunks(cuts);
            let pieces = pieces.try_fold(0, |sum, piece| Ok(sum + cut.on_encoder_stream(piece)?));
            prop_assert_eq!(once, pieces);
            if once.is_ok() {
                prop_assert_eq!(whole.insert_count(), cut.insert_count());
                prop_assert_eq!(whole.partial.len(), cut.partial.len());
            }
        }
    }
}
