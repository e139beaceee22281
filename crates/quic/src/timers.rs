//! Timers of connections: a heap that leaves outdated entries in place until they surface, since
//! time-outs move far more often than they fire.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

/// The time-outs of an endpoint's connections, by slot.
///
/// Each slot has one armed time-out at most. When one is armed, the heap holds no more than twice as many entries as there
/// are armed slots, plus [`MAX_STALE_ENTRIES`]: beyond that it is swept.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Armed time-outs by slot: of a slot's entries in the heap, the one at that time counts.
    armed: Vec<Option<Instant>>,
    count: usize,
    /// The first time that was postponed, from which on grains count.
    first: Option<Instant>,
}

/// Delay by which a time-out may come later if nobody waits for it: with 1,000 of them a second, fifty
/// at once.
const COALESCING_DELAY: Duration = Duration::from_millis(50);

/// Outdated entries that are not worth a sweep.
const MAX_STALE_ENTRIES: usize = 64;

impl Timers {
    /// Sees to it that the slot surfaces at `at` or before. A time-out moved to later costs nothing
    /// here: the slot surfaces too early once, and is armed again.
    pub(crate) fn arm(&mut self, slot: usize, at: Instant) {
        if self.armed.len() <= slot {
            self.armed.resize(slot + 1, None);
        }
        match self.armed[slot] {
            Some(armed) if armed <= at => return,
            Some(_) => {}
            None => self.count += 1,
        }
        self.armed[slot] = Some(at);
        self.heap.push(Reverse((at, slot)));
        if self.heap.len() > 2 * self.count + MAX_STALE_ENTRIES {
            let armed = &self.armed;
            self.heap
                .retain(|Reverse((at, slot))| armed[*slot] == Some(*at));
        }
    }

    /// Sees to it that the slot surfaces at `at`, up to [`COALESCING_DELAY`] later and no earlier, together with
    /// others of its time.
    pub(crate) fn postpone(&mut self, slot: usize, at: Instant) {
        let first = *self.first.get_or_insert(at);
        let grain = COALESCING_DELAY.as_nanos();
        let past = at.saturating_duration_since(first).as_nanos() % grain;
        let rest = u64::try_from((grain - past) % grain).expect("less than a grain");
        let at = at + Duration::from_nanos(rest);
        if self.armed.get(slot).copied().flatten() != Some(at) {
            self.disarm(slot);
            self.arm(slot, at);
        }
    }

    /// Forgets the slot.
    pub(crate) fn disarm(&mut self, slot: usize) {
        if self.armed.get_mut(slot).and_then(Option::take).is_some() {
            self.count -= 1;
        }
    }

    /// The earliest time-out.
    pub(crate) fn next(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, slot))) = self.heap.peek() {
            if self.armed[*slot] == Some(*at) {
                return Some(*at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes out a slot that is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<usize> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, slot)) = self.heap.pop()?;
        self.disarm(slot);
        Some(slot)
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests need some instant to count from"
)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_earlier_time_out_replaces_a_later_one_and_not_the_other_way() {
        let base = Instant::now();
        let at = |ms| base + Duration::from_millis(ms);
        let mut timers = Timers::default();
        timers.arm(3, at(20));
        timers.arm(3, at(10));
        timers.arm(3, at(15));
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.pop(at(9)), None);
        assert_eq!(timers.pop(at(10)), Some(3));
        assert_eq!(timers.pop(at(100)), None);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn a_disarmed_slot_does_not_surface() {
        let base = Instant::now();
        let mut timers = Timers::default();
        timers.arm(0, base);
        timers.disarm(0);
        timers.disarm(7);
        assert_eq!(timers.pop(base), None);
    }

    #[test]
    fn what_nobody_waits_for_surfaces_together_and_a_little_later() {
        let base = Instant::now();
        let at = |ms| base + Duration::from_millis(ms);
        let mut timers = Timers::default();
        // An earlier time-out of the slot counts no more.
        timers.arm(1, at(1));
        for (slot, ms) in [(0, 10), (1, 11), (2, 60), (3, 61)] {
            timers.postpone(slot, at(ms));
            timers.postpone(slot, at(ms));
        }
        let mut surfaced = Vec::new();
        while let Some(next) = timers.next() {
            let together: Vec<_> = std::iter::from_fn(|| timers.pop(next)).collect();
            surfaced.push((next - base, together));
        }
        let ms = Duration::from_millis;
        let expected = [(ms(10), vec![0]), (ms(60), vec![1, 2]), (ms(110), vec![3])];
        assert_eq!(surfaced, expected);
        // Before the first of them, a time-out is not later than it should be.
        timers.postpone(0, at(5));
        assert_eq!(timers.next(), Some(at(5)));
    }

    proptest! {
        #[test]
        fn surfaces_in_order_and_stays_bounded(
            arms in prop::collection::vec((0..5usize, 0..1000u64), 0..500),
        ) {
            let base = Instant::now();
            let mut timers = Timers::default();
            let mut expected = [None; 5];
            for (slot, ms) in arms {
                let at = base + Duration::from_millis(ms);
                timers.arm(slot, at);
                let earliest = expected[slot].map_or(at, |e: Instant| e.min(at));
                expected[slot] = Some(earliest);
                prop_assert!(timers.heap.len() <= 2 * timers.count + MAX_STALE_ENTRIES);
            }
            let mut expected: Vec<Instant> = expected.into_iter().flatten().collect();
            expected.sort();
            for at in expected {
                prop_assert_eq!(timers.next(), Some(at));
                prop_assert!(timers.pop(at).is_some());
            }
            prop_assert_eq!(timers.next(), None);
        }
    }
}
