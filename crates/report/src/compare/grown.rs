//! Growth of times over the delays, in per cent: beside the slope, which is in milliseconds.

use crate::words;
use serde::Serialize;
use std::time::Duration;

/// Growth of both protocols' mean times from the least delay that both sides have to the greatest, in per
/// cent of the time at the least.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeGrowth {
    /// The least one-way delay.
    pub from_delay_us: u64,
    /// The greatest.
    pub to_delay_us: u64,
    /// The first protocol's in A; where a run is laid beside reference figures, the run is A.
    pub first_a_percent: f64,
    /// The first protocol's in B.
    pub first_b_percent: f64,
    /// The second protocol's in A.
    pub second_a_percent: f64,
    /// The second protocol's in B.
    pub second_b_percent: f64,
}

/// Mean times at a delay: the first protocol's in A and B, then the second's.
pub(super) type MeansAt = (u64, [f64; 4]);

impl TimeGrowth {
    /// The growth over `means`, whose delays rise; `None` with fewer than two delays.
    pub(super) fn over(means: impl Iterator<Item = MeansAt>) -> Option<Self> {
        let mut means = means.peekable();
        let (from_delay_us, least) = *means.peek()?;
        let (to_delay_us, greatest) = means.last()?;
        let percent = |which: usize| 100.0 * (greatest[which] / least[which] - 1.0);
        (from_delay_us < to_delay_us).then(|| Self {
            from_delay_us,
            to_delay_us,
            first_a_percent: percent(0),
            first_b_percent: percent(1),
            second_a_percent: percent(2),
            second_b_percent: percent(3),
        })
    }

    /// `From 0 ms to 150 ms HTTP/2 takes +105.7 % in A and +73.5 % in B, …`
    pub(super) fn sentence(&self, [first, second]: [&str; 2], [a, b]: [&str; 2]) -> String {
        format!(
            "From {} to {} the time of {first} grows by {} {a} and {} {b}, that of {second} by {} and {}.",
            words::delay(Duration::from_micros(self.from_delay_us)),
            words::delay(Duration::from_micros(self.to_delay_us)),
            words::percent(self.first_a_percent),
            words::percent(self.first_b_percent),
            words::percent(self.second_a_percent),
            words::percent(self.second_b_percent),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_told_in_per_cent_of_the_time_at_the_least_delay() {
        let means = [
            (0, [1_000.0, 2_000.0, 500.0, 100.0]),
            (1_000, [9.0, 9.0, 9.0, 9.0]),
            (50_000, [1_500.0, 2_000.0, 400.0, 300.0]),
        ];
        let grown = TimeGrowth::over(means.into_iter()).unwrap();
        let sentence = grown.sentence(["HTTP/2", "HTTP/3"], ["here", "there"]);
        assert_eq!(
            sentence,
            "From 0 ms to 50 ms the time of HTTP/2 grows by +50.0 % here and 0.0 % there, that of HTTP/3 \
             by −20.0 % and +200.0 %."
        );
        assert_eq!(TimeGrowth::over(means.into_iter().take(1)), None);
        assert_eq!(TimeGrowth::over(std::iter::empty()), None);
    }
}
