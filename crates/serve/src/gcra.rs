//! The generic cell rate algorithm (ITU-T I.371 annex A, virtual scheduling): whether a request comes earlier
//! than a rate with a burst allows.
//!
//! A client is one moment: the theoretical arrival time of its next request. One request costs an interval of
//! the rate, a pause earns it back, and a request that comes more than a burst ahead is refused and costs
//! nothing. Pure: the caller says what time it is and keeps the moment.

use altway_units::RequestRate;
use std::time::{Duration, Instant};

/// The rule that a rate gives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gcra {
    /// Time between two requests of a steady stream.
    interval: Duration,
    /// The tolerance: how far ahead of its theoretical arrival time a request may come.
    tolerance: Duration,
}

impl Gcra {
    pub(crate) fn new(rate: RequestRate) -> Self {
        let interval = rate.interval();
        Self {
            interval,
            tolerance: interval.saturating_mul(rate.burst().get() - 1),
        }
    }

    /// The theoretical arrival time of the request after one that comes at `now`; `due`: of this one, `None`
    /// for a client of which nothing is known.
    ///
    /// # Errors
    /// The request comes too early: by so much.
    pub(crate) fn admit(&self, due: Option<Instant>, now: Instant) -> Result<Instant, Duration> {
        let due = due.map_or(now, |due| due.max(now));
        let early = due - now;
        match early.checked_sub(self.tolerance) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => Ok(due + self.interval),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Gcra {
        Gcra::new(text.parse().unwrap())
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_burst_is_admitted_at_once_and_then_one_an_interval() {
        let (rule, start) = (rule("10/s, burst 5"), Instant::now());
        let mut due = None;
        for n in 0..5 {
            due = Some(rule.admit(due, start).unwrap_or_else(|_| panic!("{n}")));
        }
        assert_eq!(rule.admit(due, start), Err(100 * MS));
        assert_eq!(rule.admit(due, start + 99 * MS), Err(MS));
        let next = rule.admit(due, start + 100 * MS).unwrap();
        assert_eq!(rule.admit(Some(next), start + 100 * MS), Err(100 * MS));
    }

    #[test]
    fn a_pause_earns_a_burst_and_no_more() {
        let (rule, start) = (rule("10/s, burst 5"), Instant::now());
        let mut due = None;
        let later = start + Duration::from_secs(3_600);
        for now in [start, later] {
            let admitted = (0..100).filter(|_| match rule.admit(due, now) {
                Ok(next) => {
                    due = Some(next);
                    true
                }
                Err(_) => false,
            });
            assert_eq!(admitted.count(), 5);
        }
    }

    #[test]
    fn a_steady_stream_at_the_rate_is_never_refused() {
        let (rule, start) = (rule("10/s, burst 1"), Instant::now());
        let mut due = None;
        for n in 0..10_000 {
            due = Some(rule.admit(due, start + n * 100 * MS).unwrap());
        }
        // A clock that seems to go back finds it too early, and nothing else.
        assert_eq!(rule.admit(due, start), Err(10_000 * 100 * MS));
    }
}
