//! The dynamic table (RFC 9204 section 3.2), of either side.
//!
//! Entries have absolute indices: the first one inserted is 0, and an index is never used again.
//! What may be evicted is its owner's concern: a decoder does what it is told, an encoder keeps what
//! is referred to.

use std::collections::VecDeque;

/// Bytes that section 3.2.1 adds to the length of an entry's name and value.
pub(super) const ENTRY_OVERHEAD: usize = 32;

/// A table whose entries carry a `T`. It holds up to `capacity / 32` entries.
#[derive(Debug)]
pub(super) struct DynamicTable<T> {
    /// Oldest first.
    entries: VecDeque<Entry<T>>,
    size: usize,
    capacity: usize,
    /// Number of entries that there ever were: the next one's absolute index.
    insert_count: u64,
    /// The size of all entries that there ever were.
    inserted: u64,
}

#[derive(Debug)]
struct Entry<T> {
    /// Name and value.
    text: Box<[u8]>,
    name_len: usize,
    /// `inserted` before this one.
    offset: u64,
    tag: T,
}

impl<T> Entry<T> {
    fn size(&self) -> usize {
        self.text.len() + ENTRY_OVERHEAD
    }
}

impl<T> DynamicTable<T> {
    /// An empty table that takes nothing before its capacity is set.
    pub(super) fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            size: 0,
            capacity: 0,
            insert_count: 0,
            inserted: 0,
        }
    }

    /// Sets the capacity, bytes; evicts what does not fit any more.
    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.evict_to(capacity);
    }

    /// Inserts an entry, and evicts the oldest ones until it fits; whether it can fit at all.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8], tag: T) -> bool {
        let size = entry_size(name, value);
        if size > self.capacity {
            return false;
        }
        self.evict_to(self.capacity - size);
        self.entries.push_back(Entry {
            text: [name, value].concat().into(),
            name_len: name.len(),
            offset: self.inserted,
            tag,
        });
        self.size += size;
        self.inserted += size as u64;
        self.insert_count += 1;
        true
    }

    /// Name and value of the entry with this absolute index.
    pub(super) fn get(&self, index: u64) -> Option<(&[u8], &[u8])> {
        let entry = self.entries.get(self.position(index)?)?;
        Some(entry.text.split_at(entry.name_len))
    }

    /// Returns the tag of the entry with this absolute index.
    pub(super) fn tag_mut(&mut self, index: u64) -> Option<&mut T> {
        let position = self.position(index)?;
        self.entries.get_mut(position).map(|entry| &mut entry.tag)
    }

    /// Absolute indices of the entries whose tag satisfies `wanted`, newest first.
    pub(super) fn find<'a>(
        &'a self,
        wanted: impl Fn(&T) -> bool + 'a,
    ) -> impl Iterator<Item = u64> + 'a {
        let newest_first = self.entries.iter().rev().zip((0..self.insert_count).rev());
        newest_first.filter_map(move |(entry, index)| wanted(&entry.tag).then_some(index))
    }

    /// Returns true if a new entry of `size` bytes fits once entries up to the first one that is not
    /// `expendable` are evicted; that is asked with an entry's absolute index and tag.
    pub(super) fn has_room(&self, size: usize, expendable: impl Fn(u64, &T) -> bool) -> bool {
        let mut left = self.size;
        let mut oldest_first = self.entries.iter().zip(self.oldest()..);
        while left + size > self.capacity {
            match oldest_first.next() {
                Some((entry, index)) if expendable(index, &entry.tag) => left -= entry.size(),
                _ => return false,
            }
        }
        true
    }

    /// The bytes that the entry and all newer ones take.
    pub(super) fn age(&self, index: u64) -> Option<u64> {
        let entry = self.entries.get(self.position(index)?)?;
        Some(self.inserted - entry.offset)
    }

    /// Returns the number of entries that there ever were.
    pub(super) fn insert_count(&self) -> u64 {
        self.insert_count
    }

    /// The capacity, bytes.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    fn oldest(&self) -> u64 {
        self.insert_count - self.entries.len() as u64
    }

    fn position(&self, index: u64) -> Option<usize> {
        usize::try_from(index.checked_sub(self.oldest())?).ok()
    }

    fn evict_to(&mut self, size: usize) {
        while self.size > size {
            let oldest = self.entries.pop_front();
            self.size -= oldest.expect("an empty table has the size 0").size();
        }
    }
}

/// Returns the bytes of the capacity that an entry takes (section 3.2.1).
pub(super) fn entry_size(name: &[u8], value: &[u8]) -> usize {
    name.len() + value.len() + ENTRY_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(capacity: usize) -> DynamicTable<u8> {
        let mut table = DynamicTable::new();
        table.set_capacity(capacity);
        table
    }

    #[test]
    fn indices_stay_while_the_oldest_entries_go() {
        let mut table = table(2 * 34);
        for (name, value) in [("a", "b"), ("c", "d"), ("e", "f")] {
            assert!(table.insert(name.as_bytes(), value.as_bytes(), 0));
        }
        assert_eq!(table.get(0), None);
        assert_eq!(table.get(1), Some((&b"c"[..], &b"d"[..])));
        assert_eq!(table.get(2), Some((&b"e"[..], &b"f"[..])));
        assert_eq!(table.get(3), None);
        assert_eq!(table.insert_count(), 3);
        assert_eq!((table.age(1), table.age(2)), (Some(68), Some(34)));
    }

    #[test]
    fn an_entry_larger_than_the_table_is_refused_and_harms_nothing() {
        let mut table = table(34);
        assert!(table.insert(b"a", b"b", 0));
        assert!(!table.insert(b"a", b"bc", 0));
        assert_eq!(table.get(0), Some((&b"a"[..], &b"b"[..])));
        table.set_capacity(33);
        assert_eq!(table.get(0), None);
    }

    #[test]
    fn room_is_made_only_of_what_is_expendable() {
        let mut table = table(2 * 34);
        assert!(table.has_room(68, |_, _| false));
        assert!(!table.has_room(69, |_, _| true));
        table.insert(b"a", b"b", 1);
        table.insert(b"a", b"b", 2);
        assert!(table.has_room(34, |index, _| index == 0));
        assert!(!table.has_room(34, |index, _| index == 1));
        assert!(!table.has_room(35, |_, tag| *tag == 1));
    }

    #[test]
    fn the_newest_match_is_found_first() {
        let mut table = table(200);
        for tag in [5, 6, 5] {
            table.insert(b"", b"", tag);
        }
        assert_eq!(table.find(|tag| *tag == 5).collect::<Vec<_>>(), [2, 0]);
        *table.tag_mut(2).unwrap() = 7;
        assert_eq!(table.find(|tag| *tag == 5).collect::<Vec<_>>(), [0]);
    }
}
