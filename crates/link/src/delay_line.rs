//! The packets on their way, by the time at which they are due.

use altway_units::Timestamp;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Packets on their way. Those that are due no earlier than all that entered before stand in a row;
/// only those that overtake need a heap.
#[derive(Debug, Clone)]
pub(crate) struct DelayLine<T> {
    row: VecDeque<Entry<T>>,
    overtaking: BinaryHeap<Reverse<Entry<T>>>,
    entered: u64,
}

/// A packet with its due time; of equal times, the one that entered first goes first.
#[derive(Debug, Clone)]
struct Entry<T> {
    due: Timestamp,
    number: u64,
    item: T,
}

impl<T> DelayLine<T> {
    pub(crate) fn new() -> Self {
        Self {
            row: VecDeque::new(),
            overtaking: BinaryHeap::new(),
            entered: 0,
        }
    }

    pub(crate) fn push(&mut self, due: Timestamp, item: T) {
        let number = self.entered;
        self.entered += 1;
        let entry = Entry { due, number, item };
        if self.row.back().is_none_or(|last| last.due <= due) {
            self.row.push_back(entry);
        } else {
            self.overtaking.push(Reverse(entry));
        }
    }

    /// Takes the first packet out if it is due at `now`, with the time at which it was.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<(Timestamp, T)> {
        if self.next_due()? > now {
            return None;
        }
        let entry = match (self.row.front(), self.overtaking.peek()) {
            (Some(front), Some(Reverse(other))) if other.key() < front.key() => None,
            (Some(_), _) => self.row.pop_front(),
            (None, _) => None,
        };
        let entry = entry.or_else(|| self.overtaking.pop().map(|Reverse(entry)| entry))?;
        Some((entry.due, entry.item))
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let overtaking = self.overtaking.peek().map(|Reverse(entry)| entry.due);
        let front = self.row.front().map(|entry| entry.due);
        front.into_iter().chain(overtaking).min()
    }

    /// Returns whether there is a packet on its way that did not overtake.
    pub(crate) fn has_row(&self) -> bool {
        !self.row.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.row.len() + self.overtaking.len()
    }

    /// All packets, by their due times.
    pub(crate) fn into_items(self) -> impl Iterator<Item = T> {
        let overtaking = self.overtaking.into_iter().map(|Reverse(entry)| entry);
        let mut entries: Vec<_> = self.row.into_iter().chain(overtaking).collect();
        entries.sort_by_key(Entry::key);
        entries.into_iter().map(|entry| entry.item)
    }
}

impl<T> Entry<T> {
    fn key(&self) -> (Timestamp, u64) {
        (self.due, self.number)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_out_by_due_time_and_then_by_entry(dues in prop::collection::vec(0..50_u64, 0..200)) {
            let mut line = DelayLine::new();
            for (number, due) in dues.iter().enumerate() {
                line.push(Timestamp::from_nanos(*due), number);
            }
            let mut expected: Vec<_> = (0..dues.len()).collect();
            expected.sort_by_key(|number| dues[*number]);
            prop_assert_eq!(line.clone().into_items().collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(line.len(), dues.len());
            let end = Timestamp::from_nanos(50);
            let popped: Vec<_> = std::iter::from_fn(|| line.pop(end)).map(|(_, item)| item).collect();
            prop_assert_eq!(popped, expected);
            prop_assert_eq!(line.next_due(), None);
        }

        #[test]
        fn nothing_comes_out_before_it_is_due(dues in prop::collection::vec(0..50_u64, 1..50), now in 0..50_u64) {
            let mut line = DelayLine::new();
            for due in &dues {
                line.push(Timestamp::from_nanos(*due), *due);
            }
            let popped = std::iter::from_fn(|| line.pop(Timestamp::from_nanos(now))).count();
            prop_assert_eq!(popped, dues.iter().filter(|due| **due <= now).count());
        }
    }
}
