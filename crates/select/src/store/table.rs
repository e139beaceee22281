//! A hash table of fixed size whose entries are bytes: open addressing within a window, and CLOCK.
//!
//! An entry stands in one of sixteen places after that of its hash, all of which a look-up tries, so that an
//! entry can go without a trace. A full window gives the place of a forgotten entry, or of one that was not
//! asked for since the window was looked through before: addresses that come once go first.

/// Places in which an entry may stand.
const WINDOW: usize = 16;

/// The ninth byte: the class in six bits, the place is taken, and it was asked for.
const CLASS: u8 = 0x3f;
const OCCUPIED: u8 = 0x40;
const REFERENCED: u8 = 0x80;

/// Table of at most as many entries as places, of `N` bytes each. Memory is touched as entries come.
#[derive(Debug, Clone)]
pub(crate) struct Table<const N: usize> {
    places: Vec<[u8; N]>,
    len: usize,
    hand: usize,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(places: usize) -> Self {
        Self {
            places: vec![[0; N]; places.max(WINDOW)],
            len: 0,
            hand: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of all places.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.places.len() * N
    }

    /// The entry of `hash` and `class`.
    pub(crate) fn get(&self, hash: u64, class: u8) -> Option<&[u8; N]> {
        self.find(hash, class).map(|place| &self.places[place])
    }

    /// The entry of `hash` and `class`, which counts as asked for; zeros but for its first nine bytes if it is
    /// new. May take the place of an entry that `is_forgotten`, or of another.
    pub(crate) fn entry(
        &mut self,
        hash: u64,
        class: u8,
        is_forgotten: impl Fn(&[u8; N]) -> bool,
    ) -> &mut [u8; N] {
        if let Some(place) = self.find(hash, class) {
            self.places[place][8] |= REFERENCED;
            return &mut self.places[place];
        }
        let place = self.free(hash, class, is_forgotten);
        self.len += usize::from(!is_taken(&self.places[place]));
        let entry = &mut self.places[place];
        *entry = [0; N];
        entry[..8].copy_from_slice(&hash.to_le_bytes());
        entry[8] = OCCUPIED | class & CLASS;
        entry
    }

    /// Takes up an entry of a table that was like this one; the caller writes its other bytes.
    pub(crate) fn restore(&mut self, entry: &[u8; N]) -> &mut [u8; N] {
        let (hash, class) = Self::name(entry);
        let place = self.entry(hash, class, |_| false);
        place[8] |= entry[8] & REFERENCED;
        place
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8; N]> {
        self.places.iter().filter(|entry| is_taken(entry))
    }

    /// Hash and class of an entry.
    pub(crate) fn name(entry: &[u8; N]) -> (u64, u8) {
        let mut hash = [0; 8];
        hash.copy_from_slice(&entry[..8]);
        (u64::from_le_bytes(hash), entry[8] & CLASS)
    }

    fn window(&self, hash: u64, class: u8) -> impl Iterator<Item = usize> + use<N> {
        let spread = hash ^ u64::from(class & CLASS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let places = self.places.len();
        let first = ((u128::from(spread) * places as u128) >> 64) as usize;
        // A table has at least as many places as a window.
        (first..first + WINDOW).map(move |place| match place < places {
            true => place,
            false => place - places,
        })
    }

    fn find(&self, hash: u64, class: u8) -> Option<usize> {
        let name = (hash, class & CLASS);
        self.window(hash, class).find(|place| {
            let entry = &self.places[*place];
            is_taken(entry) && Self::name(entry) == name
        })
    }

    fn free(&mut self, hash: u64, class: u8, is_forgotten: impl Fn(&[u8; N]) -> bool) -> usize {
        let window: Vec<usize> = self.window(hash, class).collect();
        let free = |place: &&usize| !is_taken(&self.places[**place]);
        let forgotten = |place: &&usize| is_forgotten(&self.places[**place]);
        if let Some(place) = window
            .iter()
            .find(free)
            .or_else(|| window.iter().find(forgotten))
        {
            return *place;
        }
        self.hand = self.hand.wrapping_add(1);
        for step in 0..WINDOW {
            let place = window[self.hand.wrapping_add(step) % WINDOW];
            let tag = &mut self.places[place][8];
            if *tag & REFERENCED == 0 {
                return place;
            }
            *tag &= !REFERENCED;
        }
        window[self.hand % WINDOW]
    }
}

fn is_taken<const N: usize>(entry: &[u8; N]) -> bool {
    entry[8] & OCCUPIED != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const KEEP: fn(&[u8; 16]) -> bool = |_| false;

    /// Hashes of a keyed function look like this.
    fn hash(number: u64) -> u64 {
        let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn finds_what_it_holds() {
        let mut table = Table::<16>::new(1024);
        for number in 0..500 {
            table.entry(hash(number), 3, KEEP)[15] = number as u8;
        }
        assert_eq!((table.len(), table.iter().count()), (500, 500));
        for number in 0..500 {
            assert_eq!(table.get(hash(number), 3).unwrap()[15], number as u8);
            assert_eq!(table.get(hash(number), 4), None);
        }
    }

    #[test]
    fn those_that_come_once_go_before_those_that_come_again() {
        let mut table = Table::<16>::new(256);
        for number in 0..64 {
            table.entry(hash(number), 0, KEEP);
        }
        for number in 1_000..100_000 {
            if number % 10 == 0 {
                for regular in 0..64 {
                    table.entry(hash(regular), 0, KEEP);
                }
            }
            table.entry(hash(number), 0, KEEP);
        }
        let left = (0..64)
            .filter(|number| table.get(hash(*number), 0).is_some())
            .count();
        assert!(left >= 60, "{left}");
        assert!(table.len() <= 256);
    }

    #[test]
    fn the_forgotten_go_first() {
        let mut table = Table::<16>::new(WINDOW);
        for number in 0..16 {
            table.entry(hash(number), 0, KEEP)[15] = number as u8;
        }
        table.entry(hash(99), 0, |entry| entry[15] == 11);
        assert_eq!(table.get(hash(11), 0), None);
        assert_eq!(table.len(), 16);
    }

    proptest! {
        #[test]
        fn never_holds_more_than_its_places_nor_one_twice(
            numbers in proptest::collection::vec((0_u64..200, 0_u8..3), 0..150),
        ) {
            let mut table = Table::<16>::new(64);
            for (number, class) in numbers {
                table.entry(hash(number), class, KEEP)[14] = class;
                prop_assert_eq!(table.get(hash(number), class).unwrap()[14], class);
                let mut names = HashMap::new();
                for entry in table.iter() {
                    *names.entry(Table::name(entry)).or_insert(0) += 1;
                }
                prop_assert!(names.values().all(|count| *count == 1));
                prop_assert_eq!(names.len(), table.len());
            }
        }
    }
}
