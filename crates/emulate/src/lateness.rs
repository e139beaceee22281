//! Lateness of packets: the time by which they left the link later than the model wanted.

/// Each power of two is cut into that many steps, so a quantile is at most 1/32 = 3 % too high.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();
const BUCKETS: usize = (STEPS as usize) * (64 - STEP_BITS as usize + 1);

/// A log-linear histogram of nanoseconds: 15 KB, whatever it counts.
#[derive(Debug, Clone)]
pub(crate) struct Lateness {
    buckets: Box<[u64]>,
    count: u64,
    max: u64,
}

impl Lateness {
    pub(crate) fn new() -> Self {
        Self {
            buckets: vec![0; BUCKETS].into(),
            count: 0,
            max: 0,
        }
    }

    pub(crate) fn record(&mut self, nanos: u64) {
        self.buckets[bucket(nanos)] += 1;
        self.count += 1;
        self.max = self.max.max(nanos);
    }

    /// The value that `per_cent` of all values don't exceed, rounded up to the end of its bucket but
    /// never above the maximum; 0 when nothing was recorded.
    pub(crate) fn percentile(&self, per_cent: u64) -> u64 {
        let rank = (self.count * per_cent).div_ceil(100);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank && seen > 0 {
                return upper_end(index).min(self.max);
            }
        }
        0
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }
}

/// Values below `STEPS` have a bucket each; above, the highest `STEP_BITS + 1` bits choose it.
fn bucket(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - STEP_BITS;
    ((u64::from(shift) + 1) * STEPS + (value >> shift) - STEPS) as usize
}

/// The largest value of a bucket.
fn upper_end(index: usize) -> u64 {
    let index = index as u64;
    if index < STEPS {
        return index;
    }
    let (shift, step) = (index / STEPS - 1, index % STEPS);
    let next = u128::from(STEPS + step + 1) << shift;
    u64::try_from(next - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_where_the_next_one_begins() {
        for index in 0..BUCKETS - 1 {
            let end = upper_end(index);
            assert_eq!(bucket(end), index);
            assert_eq!(bucket(end + 1), index + 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(upper_end(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn percentiles_are_at_most_3_per_cent_too_high() {
        let mut lateness = Lateness::new();
        (1..=1_000_u64).for_each(|step| lateness.record(step * 1_000));
        for (per_cent, exact) in [(50, 500_000), (99, 990_000)] {
            let found = lateness.percentile(per_cent);
            assert!((exact..=exact + exact / 32).contains(&found), "{found}");
        }
        assert_eq!(lateness.percentile(100), 1_000_000);
        assert_eq!(lateness.max(), 1_000_000);
    }

    #[test]
    fn nothing_recorded_is_not_late() {
        let lateness = Lateness::new();
        assert_eq!((lateness.percentile(99), lateness.max()), (0, 0));
    }

    #[test]
    fn one_value_is_every_percentile() {
        let mut lateness = Lateness::new();
        lateness.record(77_777);
        assert_eq!(lateness.percentile(1), 77_777);
        assert_eq!(lateness.percentile(99), 77_777);
    }
}
