//! Field blocks out (RFC 7541 sections 3 and 6).

use altway_fields::indexing::hash;

use super::dynamic_table::{DynamicTable, Field};
use super::memo::Memo;
use super::representation::{
    Name, append_field, append_indexed, append_literal, append_size_update,
};
use super::static_table::{self, ENTRIES, Match};
use super::{DEFAULT_TABLE_SIZE, FIELD_OVERHEAD};
use crate::field_block::{Content, FieldBlock, Indexing};

/// Encodes the field blocks of one connection, in the order of their sending.
///
/// The dynamic table has the size that the peer offers, and at most 4096 bytes: more would let
/// peers decide what memory a connection costs.
#[derive(Debug)]
pub(crate) struct Encoder {
    /// Tagged with the hash of name and value.
    table: DynamicTable<u64>,
    /// Latest encoded blocks, in a box of their own, which a connection that idles gives back.
    memo: Option<Box<Memo>>,
    /// A size update that the peer has not been told of.
    pending: Option<SizeUpdate>,
}

/// RFC 7541 section 4.2: when the size changes more than once between two blocks, "the smallest
/// maximum table size that occurs in that interval MUST be signaled", and then the last one.
#[derive(Clone, Copy, Debug)]
struct SizeUpdate {
    smallest: usize,
    last: usize,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self {
            table: DynamicTable::new(DEFAULT_TABLE_SIZE),
            memo: None,
            pending: None,
        }
    }

    /// Takes the peer's SETTINGS_HEADER_TABLE_SIZE, bytes. The next block tells of it.
    pub(crate) fn set_peer_table_size(&mut self, size: u32) {
        let last =
            usize::try_from(size).map_or(DEFAULT_TABLE_SIZE, |size| size.min(DEFAULT_TABLE_SIZE));
        if self.pending.is_none() && last == self.table.max_size() {
            return;
        }
        let smallest = self
            .pending
            .map_or(last, |pending| pending.smallest.min(last));
        self.pending = Some(SizeUpdate { smallest, last });
    }

    /// Begins a block: appends the size updates that are due. To be called once, before any field.
    #[inline]
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(update) = self.pending.take() {
            self.update_size(update, out);
        }
    }

    /// Appends `:status`, three digits.
    #[inline]
    pub(crate) fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        let index = match status {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => return self.rare_status(status, out),
        };
        append_indexed(index, out);
    }

    /// Appends a field; the name is in lower case.
    ///
    /// [`Indexing::Incremental`] finds it in the dynamic table or puts it there, unless it would
    /// take more than three quarters of it. The others look into the static table alone.
    pub(crate) fn field(
        &mut self,
        name: &[u8],
        value: &[u8],
        indexing: Indexing,
        out: &mut Vec<u8>,
    ) {
        match indexing {
            Indexing::Incremental => self.indexed_field(name, value, hash(name, value), out),
            Indexing::Without | Indexing::Never => append_literal(name, value, indexing, out),
        }
    }

    /// Appends the fields of a block.
    #[inline]
    pub(crate) fn block(&mut self, block: &FieldBlock, out: &mut Vec<u8>) {
        match block.content() {
            Content::Encoded(bytes) => out.extend_from_slice(bytes),
            Content::Fields(_) if self.append_known(block, out) => {}
            Content::Fields(fields) => {
                let (start, generation) = (out.len(), self.table.generation());
                for field in fields {
                    match field.hash {
                        Some(hash) => self.indexed_field(field.name(), &field.value, hash, out),
                        None => append_literal(field.name(), &field.value, Indexing::Never, out),
                    }
                }
                // What changed the table would become something else the next time.
                if self.table.generation() == generation {
                    let memo = self.memo.get_or_insert_with(|| Box::new(Memo::new()));
                    memo.keep(block.id(), generation, &out[start..]);
                }
            }
        }
    }

    #[inline]
    fn append_known(&self, block: &FieldBlock, out: &mut Vec<u8>) -> bool {
        let Some(memo) = &self.memo else {
            return false;
        };
        memo.append(block.id(), self.table.generation(), out)
    }

    #[cfg(test)]
    pub(crate) fn has_memo(&self) -> bool {
        self.memo.is_some()
    }

    /// Gives back the memory without which fields are encoded to the same bytes.
    pub(crate) fn rest(&mut self) {
        self.memo = None;
        self.table.give_back_room();
    }

    fn update_size(&mut self, update: SizeUpdate, out: &mut Vec<u8>) {
        if update.smallest < update.last {
            self.table.resize(update.smallest);
            append_size_update(update.smallest, out);
        }
        self.table.resize(update.last);
        append_size_update(update.last, out);
    }

    fn rare_status(&mut self, status: u16, out: &mut Vec<u8>) {
        let digits =
            [status / 100, status / 10, status].map(|digits| b'0' + (digits % 10).to_le_bytes()[0]);
        self.field(b":status", &digits, Indexing::Incremental, out);
    }

    fn indexed_field(&mut self, name: &[u8], value: &[u8], hash: u64, out: &mut Vec<u8>) {
        let found = static_table::find(name, value);
        if let Some(Match::Field(index)) = found {
            return append_indexed(usize::from(index), out);
        }
        let wanted = Field {
            name,
            value,
            tag: hash,
        };
        if let Some(position) = self.table.find(wanted) {
            return append_indexed(dynamic_index(position), out);
        }
        let name_in_table = match Name::from_static_table(found, name) {
            Name::Text(name) => self.name(name),
            index @ Name::Index(_) => index,
        };
        if !self.is_worth_an_entry(name, value) {
            return append_field(name_in_table, value, Indexing::Without, out);
        }
        append_field(name_in_table, value, Indexing::Incremental, out);
        self.table.append().extend_from_slice(name);
        self.table.append().extend_from_slice(value);
        self.table.insert_draft(name.len(), hash);
    }

    /// The name as the dynamic table has it, or itself.
    fn name<'a>(&self, name: &'a [u8]) -> Name<'a> {
        let position = self.table.position(|field| field.name == name);
        position.map_or(Name::Text(name), |position| {
            Name::Index(dynamic_index(position))
        })
    }

    /// A larger entry would cost the table nearly all that it holds.
    fn is_worth_an_entry(&self, name: &[u8], value: &[u8]) -> bool {
        let size = name.len() + value.len() + FIELD_OVERHEAD;
        size <= self.table.max_size() / 4 * 3
    }
}

/// RFC 7541 section 2.3.3: behind the static table, the newest entry first.
fn dynamic_index(position: usize) -> usize {
    ENTRIES.len() + 1 + position
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(encoder: &mut Encoder, name: &str, value: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let (name, value) = (name.as_bytes(), value.as_bytes());
        encoder.field(name, value, Indexing::Incremental, &mut out);
        out
    }

    fn begun(encoder: &mut Encoder) -> Vec<u8> {
        let mut out = Vec::new();
        encoder.begin(&mut out);
        out
    }

    #[test]
    fn a_field_is_spelt_out_once_and_an_index_from_then_on() {
        let mut encoder = Encoder::new();
        assert_eq!(encoded(&mut encoder, "~", "1"), [0x40, 1, b'~', 1, b'1']);
        assert_eq!(encoded(&mut encoder, "~", "2"), [0x40 | 62, 1, b'2']);
        assert_eq!(encoded(&mut encoder, "~", "2"), [0x80 | 62]);
        assert_eq!(encoded(&mut encoder, "~", "1"), [0x80 | 63]);
    }

    #[test]
    fn statuses_in_the_static_table_are_one_byte_and_others_enter_the_dynamic_one() {
        let mut encoder = Encoder::new();
        for entry in ENTRIES.iter().filter(|entry| entry.name == b":status") {
            let status = std::str::from_utf8(entry.value).unwrap().parse().unwrap();
            let mut out = Vec::new();
            encoder.status(status, &mut out);
            assert_eq!(out, encoded(&mut encoder, ":status", &status.to_string()));
            assert_eq!(out.len(), 1);
        }
        let mut out = Vec::new();
        encoder.status(431, &mut out);
        encoder.status(431, &mut out);
        assert_eq!(out, [0x48, 3, b'4', b'3', b'1', 0xbe]);
    }

    #[test]
    fn size_updates_go_out_once_with_the_smallest_first() {
        let mut encoder = Encoder::new();
        assert_eq!(begun(&mut encoder), []);
        encoder.set_peer_table_size(4096);
        encoder.set_peer_table_size(65_536);
        assert_eq!(begun(&mut encoder), [], "the table stays at 4096");
        encoder.set_peer_table_size(100);
        assert_eq!(begun(&mut encoder), [0x3f, 100 - 31]);
        assert_eq!(begun(&mut encoder), []);
        for size in [50, 10, 20] {
            encoder.set_peer_table_size(size);
        }
        assert_eq!(begun(&mut encoder), [0x20 | 10, 0x20 | 20]);
        encoder.set_peer_table_size(0);
        encoder.set_peer_table_size(u32::MAX);
        assert_eq!(begun(&mut encoder), [0x20, 0x3f, 0xe1, 0x1f]);
    }

    #[test]
    fn a_size_in_between_empties_the_table_even_when_the_last_is_the_same() {
        let mut encoder = Encoder::new();
        let first = encoded(&mut encoder, "~", "1");
        encoder.set_peer_table_size(0);
        encoder.set_peer_table_size(4096);
        assert_eq!(begun(&mut encoder), [0x20, 0x3f, 0xe1, 0x1f]);
        assert_eq!(encoded(&mut encoder, "~", "1"), first);
    }

    #[test]
    fn without_a_table_fields_go_out_without_indexing() {
        let mut encoder = Encoder::new();
        encoder.set_peer_table_size(0);
        begun(&mut encoder);
        for _ in 0..2 {
            assert_eq!(encoded(&mut encoder, "~", "1"), [0, 1, b'~', 1, b'1']);
        }
    }

    #[test]
    fn a_field_that_takes_more_than_three_quarters_of_the_table_does_not_enter() {
        let mut encoder = Encoder::new();
        encoder.set_peer_table_size(400);
        begun(&mut encoder);
        let most = "0".repeat(300 - FIELD_OVERHEAD - 1);
        assert_eq!(encoded(&mut encoder, "~", &format!("{most}0"))[0], 0);
        assert_eq!(encoded(&mut encoder, "~", &most)[0], 0x40);
        assert_eq!(encoded(&mut encoder, "~", &most), [0xbe]);
    }

    #[test]
    fn a_full_table_forgets_the_oldest_field() {
        let mut encoder = Encoder::new();
        encoder.set_peer_table_size(3 * 34);
        begun(&mut encoder);
        for value in ["1", "2", "3", "4"] {
            assert!(encoded(&mut encoder, "~", value).len() > 1);
        }
        assert_eq!(encoded(&mut encoder, "~", "2"), [0x80 | 64]);
        assert_eq!(encoded(&mut encoder, "~", "1"), [0x40 | 62, 1, b'1']);
    }
}
