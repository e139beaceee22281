//! A histogram of durations, counted without a wait and without an allocation.

use super::counters::Count;
use std::time::Duration;

/// Upper bounds of the buckets in milliseconds: those that OpenTelemetry's semantic conventions give for
/// `http.server.request.duration`. What is longer is counted as well.
pub const DURATION_BUCKETS_MS: [u64; 14] = [
    5, 10, 25, 50, 75, 100, 250, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000,
];

/// The counters of one histogram.
#[derive(Debug, Default)]
pub(super) struct Durations {
    /// Counts, not cumulative; the last is of what is longer than all bounds.
    buckets: [Count; DURATION_BUCKETS_MS.len() + 1],
    micros: Count,
}

/// The figures of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DurationMetrics {
    /// Counts by the bound, of [`DURATION_BUCKETS_MS`], that they are within and the one before not; the last is of
    /// what is longer.
    pub buckets: [u64; DURATION_BUCKETS_MS.len() + 1],
    /// The sum of all durations.
    pub sum: Duration,
}

impl DurationMetrics {
    /// Returns how many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl Durations {
    /// Counts a duration that was measured so many `times`.
    pub(super) fn add(&self, duration: Duration, times: u64) {
        let within = |bound: &u64| duration <= Duration::from_millis(*bound);
        // Most are within the first.
        let place = DURATION_BUCKETS_MS.iter().position(within);
        self.buckets[place.unwrap_or(DURATION_BUCKETS_MS.len())].add(times);
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.micros.add(micros.wrapping_mul(times));
    }

    pub(super) fn add_all(&self, other: &Self) {
        for (own, other) in self.buckets.iter().zip(&other.buckets) {
            own.add(other.get());
        }
        self.micros.add(other.micros.get());
    }

    pub(super) fn metrics(&self) -> DurationMetrics {
        DurationMetrics {
            buckets: self.buckets.each_ref().map(Count::get),
            sum: Duration::from_micros(self.micros.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let durations = Durations::default();
        let nanosecond = Duration::from_nanos(1);
        let ms = Duration::from_millis;
        for (time, place) in [
            (Duration::ZERO, 0),
            (ms(5), 0),
            (ms(5) + nanosecond, 1),
            (ms(10_000), 13),
            (ms(10_000) + nanosecond, 14),
            (Duration::MAX, 14),
        ] {
            let before = durations.metrics().buckets[place];
            durations.add(time, 1);
            assert_eq!(durations.metrics().buckets[place], before + 1, "{time:?}");
        }
        assert_eq!(durations.metrics().count(), 6);
    }

    #[test]
    fn a_duration_of_several_responses_is_counted_as_often() {
        let durations = Durations::default();
        durations.add(Duration::from_millis(7), 3);
        let metrics = durations.metrics();
        assert_eq!((metrics.buckets[1], metrics.count()), (3, 3));
        assert_eq!(metrics.sum, Duration::from_millis(21));
    }
}
