//! The moment at which a worker has the heap of its thread collected.
//!
//! An allocator keeps what a thread has freed until the thread needs it again or asks for a collection. A worker that
//! held much for its clients and has become quiet would keep a part of that for good.

/// Bytes that a worker must have held before a collection is worth its time.
const MIN_PEAK: usize = 1 << 20;

/// Looks, one after the other, that find little held before the heap is collected: what is between two crowds is not
/// quiet.
const QUIET_LOOKS: u32 = 3;

/// Memory that a worker has held for its clients since its heap was last collected.
#[derive(Debug, Default)]
pub(crate) struct HeapUse {
    /// The most bytes at any look.
    peak: usize,
    /// Looks since the latest at which more than half of that was held.
    quiet: u32,
}

impl HeapUse {
    /// Returns true if the heap is to be collected, at a look that finds `held` bytes held. To be called at even
    /// intervals.
    pub(crate) fn is_to_be_collected(&mut self, held: usize) -> bool {
        self.peak = self.peak.max(held);
        if self.peak < MIN_PEAK || held > self.peak / 2 {
            self.quiet = 0;
            return false;
        }
        self.quiet += 1;
        if self.quiet < QUIET_LOOKS {
            return false;
        }
        *self = Self {
            peak: held,
            quiet: 0,
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// The places of the looks at which the heap is collected.
    fn collections(held: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut heap = HeapUse::default();
        let looks = held.into_iter().enumerate();
        let collected = looks.filter(|(_, held)| heap.is_to_be_collected(*held));
        collected.map(|(place, _)| place).collect()
    }

    #[test]
    fn a_worker_that_held_much_and_is_quiet_collects_once() {
        let crowd = [100 * MIB; 5].into_iter().chain([0; 1_000]);
        assert_eq!(collections(crowd), [7]);
    }

    #[test]
    fn one_that_never_held_much_or_goes_on_holding_it_does_not_collect() {
        assert!(collections([0; 1_000]).is_empty());
        assert!(collections([MIN_PEAK - 1, 0, 0, 0, 0, 0]).is_empty());
        assert!(collections([100 * MIB; 1_000]).is_empty());
        let a_little_less = (0..1_000).map(|look| (100 - look % 50) * MIB);
        assert!(collections(a_little_less).is_empty());
    }

    #[test]
    fn a_moment_between_two_crowds_is_no_quiet() {
        let crowds = (0..1_000).map(|look| if look % 3 == 0 { 100 * MIB } else { 0 });
        assert!(collections(crowds).is_empty());
    }

    #[test]
    fn what_goes_little_by_little_is_collected_in_halves() {
        let held = (0..=200).rev().map(|it| it * MIB / 2);
        let times = collections(held.chain([0; 10]));
        // 100 MiB and its halves down to the least peak, each once.
        assert!((5..=8).contains(&times.len()), "{times:?}");
        assert!(*times.last().unwrap() > 190, "{times:?}");
    }

    #[test]
    fn another_crowd_is_collected_after_again() {
        let crowd = [[50 * MIB; 4], [0; 4]].concat();
        assert_eq!(collections(crowd.repeat(3)), [6, 14, 22]);
    }
}
