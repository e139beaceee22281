//! The dynamic table (RFC 7541 sections 2.3.2 and 4), of either side.
//!
//! The bytes of all entries stand one behind the other in one buffer, oldest first. What is behind
//! the last one is the *draft*: a field is put together there, and then becomes an entry without
//! another copy or is dropped. Evicted bytes are moved away once there are more of them than the
//! table may hold, so inserting costs no allocation in the long run.

use std::collections::VecDeque;

use super::{DEFAULT_TABLE_SIZE, FIELD_OVERHEAD};

/// A table whose entries carry a `T`: the field's kind when decoding, its hash when encoding.
///
/// The table's buffer is at most four times as large as the table may be (or as it is by default),
/// plus the draft.
#[derive(Debug)]
pub(crate) struct DynamicTable<T> {
    /// Evicted bytes, then the entries', then the draft.
    bytes: Vec<u8>,
    /// Oldest first; at most `max_size / FIELD_OVERHEAD`.
    entries: VecDeque<Entry<T>>,
    /// Offset in `bytes` at which the draft begins.
    draft: usize,
    size: usize,
    max_size: usize,
    generation: u64,
}

#[derive(Debug)]
struct Entry<T> {
    /// Offset of the name in the buffer; the value follows the name.
    start: usize,
    name_len: usize,
    value_len: usize,
    tag: T,
}

impl<T> Entry<T> {
    fn size(&self) -> usize {
        self.name_len + self.value_len + FIELD_OVERHEAD
    }
}

/// A field in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field<'a, T> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) tag: T,
}

impl<T: Copy> DynamicTable<T> {
    /// An empty table of at most `max_size` bytes, as RFC 7541 section 4.1 counts them.
    pub(crate) fn new(max_size: usize) -> Self {
        Self {
            bytes: Vec::new(),
            entries: VecDeque::new(),
            draft: 0,
            size: 0,
            max_size,
            generation: 0,
        }
    }

    /// Sets the maximum size, bytes (section 4.3).
    pub(crate) fn resize(&mut self, max_size: usize) {
        self.generation += 1;
        self.max_size = max_size;
        self.evict_to(max_size);
    }

    /// The buffer, to append to the draft.
    #[inline]
    pub(crate) fn append(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends the name of an entry to the draft and returns it; `position` as for `get`.
    pub(crate) fn append_name(&mut self, position: usize) -> Option<&[u8]> {
        let entry = self.entry(position)?;
        let range = entry.start..entry.start + entry.name_len;
        self.bytes.extend_from_within(range);
        Some(self.draft())
    }

    /// Makes the draft an entry, whose name are its first `name_len` bytes; evicts what it must
    /// (section 4.4). A draft larger than the table empties it and is dropped.
    pub(crate) fn insert_draft(&mut self, name_len: usize, tag: T) {
        let entry = Entry {
            start: self.draft,
            name_len,
            value_len: self.draft().len() - name_len,
            tag,
        };
        let size = entry.size();
        self.generation += 1;
        if size > self.max_size {
            self.drop_draft();
            return self.evict_to(0);
        }
        self.size += size;
        self.draft = self.bytes.len();
        self.entries.push_back(entry);
        self.evict_to(self.max_size);
    }

    /// Drops the draft.
    #[inline]
    pub(crate) fn drop_draft(&mut self) {
        self.bytes.truncate(self.draft);
        let kept = 4 * self.max_size.max(DEFAULT_TABLE_SIZE);
        if self.bytes.capacity() > kept {
            self.bytes.shrink_to(kept / 2);
        }
    }

    /// Gives back what the buffers have room for beside the entries.
    pub(crate) fn give_back_room(&mut self) {
        let evicted = self.entries.front().map_or(self.draft, |entry| entry.start);
        self.move_away(evicted);
        self.bytes.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    /// The draft.
    #[inline]
    pub(crate) fn draft(&self) -> &[u8] {
        &self.bytes[self.draft..]
    }

    /// The field at a position, 0 being the newest.
    #[inline]
    pub(crate) fn get(&self, position: usize) -> Option<Field<'_, T>> {
        self.entry(position).map(|entry| self.field(entry))
    }

    /// The position of the newest entry that satisfies `wanted`.
    #[inline]
    pub(crate) fn position(&self, wanted: impl Fn(Field<'_, T>) -> bool) -> Option<usize> {
        let mut newest_first = self.entries.iter().rev();
        newest_first.position(|entry| wanted(self.field(entry)))
    }

    /// The position of the newest entry that is the same as `wanted`, tag and all.
    #[inline]
    pub(crate) fn find(&self, wanted: Field<'_, T>) -> Option<usize>
    where
        T: PartialEq,
    {
        // Tags are at hand, and nearly every other entry has another one.
        let is_same = |it: &Entry<T>| it.tag == wanted.tag && self.field(it) == wanted;
        let (older, newer) = self.entries.as_slices();
        let newest = newer.iter().rposition(is_same);
        let newest = newest.map(|index| older.len() + index);
        let index = newest.or_else(|| older.iter().rposition(is_same))?;
        Some(self.entries.len() - 1 - index)
    }

    /// The maximum size, bytes.
    pub(crate) fn max_size(&self) -> usize {
        self.max_size
    }

    /// Changes whenever an entry enters or leaves, or the maximum size is set.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    #[inline]
    fn entry(&self, position: usize) -> Option<&Entry<T>> {
        let age = self.entries.len().checked_sub(position)?.checked_sub(1)?;
        self.entries.get(age)
    }

    #[inline]
    fn field(&self, entry: &Entry<T>) -> Field<'_, T> {
        let bytes = &self.bytes[entry.start..];
        let (name, rest) = bytes.split_at(entry.name_len);
        Field {
            name,
            value: &rest[..entry.value_len],
            tag: entry.tag,
        }
    }

    fn evict_to(&mut self, size: usize) {
        while self.size > size {
            let oldest = self.entries.pop_front();
            self.size -= oldest.expect("an empty table has the size 0").size();
        }
        let evicted = self.entries.front().map_or(self.draft, |entry| entry.start);
        if evicted > self.max_size {
            self.move_away(evicted);
        }
    }

    fn move_away(&mut self, evicted: usize) {
        self.bytes.drain(..evicted);
        self.draft -= evicted;
        for entry in &mut self.entries {
            entry.start -= evicted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(table: &mut DynamicTable<u8>, name: &str, value: &str, tag: u8) {
        table.append().extend_from_slice(name.as_bytes());
        table.append().extend_from_slice(value.as_bytes());
        table.insert_draft(name.len(), tag);
    }

    fn tags(table: &DynamicTable<u8>) -> Vec<u8> {
        let fields = (0..).map_while(|position| table.get(position));
        fields.map(|field| field.tag).collect()
    }

    #[test]
    fn the_newest_entry_comes_first_and_the_oldest_goes_first() {
        let mut table = DynamicTable::new(2 * (32 + 4));
        insert(&mut table, "aa", "bb", 1);
        insert(&mut table, "cc", "dd", 2);
        assert_eq!(tags(&table), [2, 1]);
        insert(&mut table, "", "ffff", 3);
        assert_eq!(tags(&table), [3, 2]);
        let (name, value) = (&b"cc"[..], &b"dd"[..]);
        assert_eq!(
            table.get(1),
            Some(Field {
                name,
                value,
                tag: 2
            })
        );
        // A byte more than the room that one eviction makes.
        insert(&mut table, "g", "hhhh", 4);
        assert_eq!(tags(&table), [4]);
    }

    #[test]
    fn an_entry_as_large_as_the_table_fits_and_a_larger_one_empties_it() {
        let mut table = DynamicTable::new(40);
        insert(&mut table, "12345678", "", 1);
        assert_eq!(tags(&table), [1]);
        insert(&mut table, "12345678", "9", 2);
        assert_eq!(tags(&table), []);
        assert_eq!(table.size, 0);
        insert(&mut table, "a", "", 3);
        assert_eq!(table.get(0).unwrap().name, b"a");
    }

    #[test]
    fn a_table_of_0_bytes_stays_empty() {
        let mut table = DynamicTable::new(0);
        insert(&mut table, "", "", 1);
        assert_eq!(table.get(0), None);
    }

    #[test]
    fn a_smaller_maximum_evicts_and_a_larger_one_brings_nothing_back() {
        let mut table = DynamicTable::new(4096);
        for tag in 0..4 {
            insert(&mut table, "a", "b", tag);
        }
        table.resize(3 * 34 - 1);
        assert_eq!(tags(&table), [3, 2]);
        table.resize(4096);
        assert_eq!(tags(&table), [3, 2]);
        table.resize(0);
        assert_eq!(tags(&table), []);
    }

    #[test]
    fn the_generation_tells_every_change_and_nothing_else() {
        let mut table = DynamicTable::new(100);
        let mut seen = vec![table.generation()];
        let mut check = |table: &DynamicTable<u8>| {
            assert!(!seen.contains(&table.generation()));
            seen.push(table.generation());
        };
        insert(&mut table, "a", "b", 1);
        check(&table);
        insert(&mut table, "larger than the table", &"x".repeat(100), 2);
        check(&table);
        table.resize(100);
        check(&table);
        let before = table.generation();
        table.append().push(b'x');
        table.drop_draft();
        assert_eq!(table.generation(), before);
    }

    #[test]
    fn names_are_copied_from_entries_that_the_copy_evicts() {
        let mut table = DynamicTable::new(40);
        insert(&mut table, "name", "old", 1);
        assert_eq!(table.append_name(0), Some(&b"name"[..]));
        assert_eq!(table.append_name(1), None);
        table.append().extend_from_slice(b"new");
        table.insert_draft(4, 2);
        assert_eq!(tags(&table), [2]);
        assert_eq!(table.get(0).unwrap().value, b"new");
    }

    #[test]
    fn without_its_room_a_table_has_the_same_entries_and_takes_more() {
        let mut table = DynamicTable::new(3 * (32 + 4));
        for tag in 1..=5 {
            insert(&mut table, "aa", "bb", tag);
        }
        let before = table.generation();
        table.give_back_room();
        assert_eq!(tags(&table), [5, 4, 3]);
        assert_eq!(table.generation(), before);
        assert_eq!(table.bytes.capacity(), 3 * 4);
        assert_eq!(table.entries.capacity(), 3);
        insert(&mut table, "cc", "dd", 6);
        assert_eq!(tags(&table), [6, 5, 4]);
        assert_eq!(table.get(0).unwrap().name, b"cc");
        assert_eq!(table.get(2).unwrap().value, b"bb");
        table.resize(0);
        table.give_back_room();
        assert_eq!(table.bytes.capacity(), 0);
    }

    #[test]
    fn the_buffer_stays_bounded_whatever_passes_through() {
        let mut table = DynamicTable::new(4096);
        for round in 0..10_000 {
            insert(&mut table, "a", &"x".repeat(round % 3000), 1);
        }
        assert!(table.bytes.len() <= 2 * 4096, "{}", table.bytes.len());
        table.append().resize(1 << 20, 0);
        table.drop_draft();
        insert(&mut table, "a", &"x".repeat(1 << 20), 1);
        assert!(table.bytes.capacity() <= 4 * 4096);
        assert_eq!(tags(&table), []);
    }
}
