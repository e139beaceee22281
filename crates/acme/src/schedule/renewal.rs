//! The time of renewal: within the window that the authority suggests (ARI, RFC 9773), else after two thirds of the
//! certificate's lifetime.
#![warn(clippy::disallowed_methods)]

use fastrand::Rng;
use std::time::{Duration, SystemTime};

/// The time in which a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// First second of the validity.
    pub not_before: SystemTime,
    /// Last second of the validity.
    pub not_after: SystemTime,
}

impl Validity {
    /// The time from the first to the last second.
    #[must_use]
    pub fn lifetime(&self) -> Duration {
        let lifetime = self.not_after.duration_since(self.not_before);
        lifetime.unwrap_or_default()
    }
}

/// The time within which an authority suggests to renew a certificate (RFC 9773 section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Beginning of the window.
    pub start: SystemTime,
    /// End of the window.
    pub end: SystemTime,
}

/// A certificate, and when it is renewed.
#[derive(Debug, Clone)]
pub(super) struct Renewal {
    pub(super) validity: Validity,
    /// Moment without a window.
    usual: SystemTime,
    suggested: Option<Suggestion>,
}

/// A window, and the moment in it that was drawn.
#[derive(Debug, Clone, Copy)]
struct Suggestion {
    window: Window,
    moment: SystemTime,
}

impl Renewal {
    /// Draws a moment a little before two thirds of the lifetime: certificates that were ordered together are not renewed
    /// together for ever.
    pub(super) fn new(validity: Validity, rng: &mut Rng) -> Self {
        let lifetime = validity.lifetime();
        let early = lifetime.mul_f64(rng.f64() / 30.0);
        let usual = validity.not_before + (lifetime * 2 / 3).saturating_sub(early);
        Self {
            validity,
            usual,
            suggested: None,
        }
    }

    /// The moment from which on a new certificate is ordered.
    pub(super) fn moment(&self) -> SystemTime {
        let moment = self.suggested.map_or(self.usual, |it| it.moment);
        // A window beyond would leave no time for an authority that is away.
        moment.min(self.validity.not_after - self.validity.lifetime() / 10)
    }

    /// Takes a window, and draws a moment in it unless it is the same as before. One that ends before it begins says
    /// nothing (RFC 9773 section 4.2).
    pub(super) fn suggest(&mut self, window: Window, rng: &mut Rng) {
        let Ok(length) = window.end.duration_since(window.start) else {
            return;
        };
        if length.is_zero() || self.suggested.is_some_and(|it| it.window == window) {
            return;
        }
        let moment = window.start + length.mul_f64(rng.f64());
        self.suggested = Some(Suggestion { window, moment });
    }

    /// The time for which no further certificate is ordered after this one was: whatever a clock or an authority says,
    /// a tenth of the lifetime, between 10 s and a day.
    pub(super) fn least_interval(&self) -> Duration {
        let tenth = self.validity.lifetime() / 10;
        tenth.clamp(Duration::from_secs(10), Duration::from_secs(86_400))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn day(days: u32) -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY * days
    }

    fn renewal(seed: u64) -> Renewal {
        let validity = Validity {
            not_before: day(100),
            not_after: day(190),
        };
        Renewal::new(validity, &mut Rng::with_seed(seed))
    }

    #[test]
    fn without_a_window_it_is_two_thirds_of_the_lifetime_or_a_thirtieth_earlier() {
        let moments: Vec<_> = (0..100).map(|seed| renewal(seed).moment()).collect();
        assert!(moments.iter().all(|it| (day(157)..=day(160)).contains(it)));
        let spread = |from, to| moments.iter().any(|it| (day(from)..day(to)).contains(it));
        assert!(spread(157, 158) && spread(159, 160));
    }

    #[test]
    fn a_window_counts_from_its_beginning_to_its_end() {
        for seed in 0..100 {
            let mut renewal = renewal(seed);
            let (start, end) = (day(120), day(122));
            renewal.suggest(Window { start, end }, &mut Rng::with_seed(seed));
            let moment = renewal.moment();
            assert!((start..end).contains(&moment));
            renewal.suggest(Window { start, end }, &mut Rng::with_seed(seed + 1));
            assert_eq!(renewal.moment(), moment, "the same window, the same moment");
            let (start, end) = (day(101), day(102));
            renewal.suggest(Window { start, end }, &mut Rng::with_seed(seed));
            assert!((start..end).contains(&renewal.moment()), "it has moved");
        }
    }

    #[test]
    fn a_window_without_length_is_none_and_one_beyond_is_not_waited_for() {
        let mut renewal = renewal(1);
        let usual = renewal.moment();
        for (start, end) in [(day(130), day(129)), (day(130), day(130))] {
            renewal.suggest(Window { start, end }, &mut Rng::with_seed(1));
            assert_eq!(renewal.moment(), usual);
        }
        let (start, end) = (day(1_000), day(1_001));
        renewal.suggest(Window { start, end }, &mut Rng::with_seed(1));
        assert_eq!(renewal.moment(), day(181));
    }

    #[test]
    fn a_lifetime_of_nothing_is_no_fault() {
        let validity = Validity {
            not_before: day(2),
            not_after: day(1),
        };
        let renewal = Renewal::new(validity, &mut Rng::with_seed(1));
        assert_eq!(renewal.validity.lifetime(), Duration::ZERO);
        assert_eq!(renewal.least_interval(), Duration::from_secs(10));
        assert_eq!(renewal.moment(), day(1));
    }
}
