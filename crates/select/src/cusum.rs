//! A change detector: notices that a class of clients has become faster or slower over HTTP/3, within days.
//!
//! A two-sided CUSUM (Page, "Continuous Inspection Schemes", Biometrika 1954) over the means of days, where
//! several days are one until there are pages enough.

use crate::residuals::NOISE;

/// A mean counts as a step once its standard error is below this.
const PRECISE: f64 = 0.015;

/// ln: a drift below this is none, and a sum above this is a change.
const SLACK: f64 = 0.01;
const THRESHOLD: f64 = 0.06;

/// Share by which a step moves what is usual.
const SMOOTHING: f64 = 0.1;

/// Sums of a class's residuals over both protocols, against what was usual.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Cusum {
    /// Pages and sums of residuals over HTTP/2 and HTTP/3, since the latest step.
    pages: [f64; 2],
    sums: [f64; 2],
    usual: Option<f64>,
    above: f64,
    below: f64,
}

/// Numbers of a detector, to be kept.
pub(crate) const NUMBERS: usize = 8;

impl Cusum {
    pub(crate) fn add(&mut self, http3: bool, residual: f64) {
        self.pages[usize::from(http3)] += 1.0;
        self.sums[usize::from(http3)] += residual;
    }

    /// A day ends. By how much (ln) HTTP/3 has become slower, if it has changed.
    pub(crate) fn day(&mut self) -> Option<f64> {
        let error = NOISE
            * self
                .pages
                .iter()
                .map(|pages| 1.0 / pages)
                .sum::<f64>()
                .sqrt();
        if error > PRECISE {
            return None;
        }
        let mean = |which: usize| self.sums[which] / self.pages[which];
        let seen = mean(1) - mean(0);
        (self.pages, self.sums) = ([0.0; 2], [0.0; 2]);
        let usual = *self.usual.get_or_insert(seen);
        let off = seen - usual;
        self.above = (self.above + off - SLACK).max(0.0);
        self.below = (self.below - off - SLACK).max(0.0);
        if self.above.max(self.below) > THRESHOLD {
            *self = Self {
                usual: Some(seen),
                ..Self::default()
            };
            return Some(off);
        }
        self.usual = Some(usual + SMOOTHING * off);
        None
    }

    pub(crate) fn numbers(&self) -> [f64; NUMBERS] {
        let usual = self.usual.unwrap_or(f64::NAN);
        let [[p2, p3], [s2, s3]] = [self.pages, self.sums];
        [p2, p3, s2, s3, usual, self.above, self.below, 0.0]
    }

    /// The detector that gave `numbers`; `None` if none can have.
    pub(crate) fn of(numbers: [f64; NUMBERS]) -> Option<Self> {
        let [p2, p3, s2, s3, usual, above, below, _] = numbers;
        let sane = [p2, p3, s2, s3, above, below]
            .iter()
            .all(|it| it.abs() < 1e15);
        let positive = [p2, p3, above, below].iter().all(|it| *it >= 0.0);
        (sane && positive).then_some(Self {
            pages: [p2, p3],
            sums: [s2, s3],
            usual: (usual.abs() < 10.0).then_some(usual),
            above,
            below,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(cusum: &mut Cusum, pages: u32, difference: f64) -> Option<f64> {
        for page in 0..pages {
            // Noise whose mean is nothing.
            let noise = if page % 2 == 0 { 0.3 } else { -0.3 };
            cusum.add(false, noise);
            cusum.add(true, noise + difference);
        }
        cusum.day()
    }

    #[test]
    fn few_pages_are_gathered_until_they_are_enough() {
        let mut cusum = Cusum::default();
        for _ in 0..10 {
            assert_eq!(day(&mut cusum, 100, 0.0), None);
            assert_eq!(cusum.usual, None);
        }
        day(&mut cusum, 100, 0.0);
        assert_eq!(cusum.usual, Some(0.0));
    }

    #[test]
    fn what_stays_as_it_is_raises_no_alarm() {
        let mut cusum = Cusum::default();
        for number in 0..365 {
            let wobble = if number % 2 == 0 { 0.009 } else { -0.009 };
            assert_eq!(day(&mut cusum, 2_000, 0.05 + wobble), None);
        }
    }

    #[test]
    fn a_browser_that_becomes_slower_by_an_eighth_is_noticed_on_the_first_day() {
        let mut cusum = Cusum::default();
        day(&mut cusum, 2_000, 0.0);
        assert_eq!(day(&mut cusum, 2_000, 0.0), None);
        let change = day(&mut cusum, 2_000, 0.12).unwrap();
        assert!((change - 0.12).abs() < 0.01, "{change}");
        assert_eq!(day(&mut cusum, 2_000, 0.12), None, "it is usual now");
    }

    #[test]
    fn three_percent_are_noticed_within_a_week_in_both_directions() {
        for change in [0.03, -0.03] {
            let mut cusum = Cusum::default();
            day(&mut cusum, 2_000, 0.0);
            let noticed = (0..7).find_map(|_| day(&mut cusum, 2_000, change));
            assert!(
                noticed.is_some_and(|it| it.signum() == change.signum()),
                "{noticed:?}"
            );
        }
    }

    #[test]
    fn a_watch_gives_back_what_it_kept_and_refuses_what_none_can_be() {
        let mut cusum = Cusum::default();
        cusum.add(true, 0.5);
        assert_eq!(Cusum::of(cusum.numbers()), Some(cusum));
        assert_eq!(Cusum::of([f64::NAN; NUMBERS]), None);
        assert_eq!(Cusum::of([-1.0; NUMBERS]), None);
    }
}
