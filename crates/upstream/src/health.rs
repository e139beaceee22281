//! The health of a server, as requests and checks have shown it.
//!
//! Pure: whoever sends requests says what became of them, and when. A server that fails [`FAILURES`] times in a row
//! is left alone for [`FIRST_EJECTION`], for twice as long whenever it fails at once after that, and for
//! [`LONGEST_EJECTION`] at most, but for a request each [`TRIAL_INTERVAL`] where no other server is there. One that comes
//! back gets its requests by and by over [`SLOW_START`].

use std::time::{Duration, Instant};

/// Failures in a row after which a server is left alone.
pub const FAILURES: u32 = 3;

/// Time for which a server is left alone at first.
pub const FIRST_EJECTION: Duration = Duration::from_secs(1);

/// The longest time for which a server is left alone by what requests have shown.
pub const LONGEST_EJECTION: Duration = Duration::from_secs(60);

/// Time after which a server that is left alone is tried by one request, where there is no other: an application that has been away
/// for a minute is not away for another one.
pub const TRIAL_INTERVAL: Duration = Duration::from_secs(1);

/// Time in which a server that comes back is given more and more requests.
pub const SLOW_START: Duration = Duration::from_secs(10);

/// The least share of its usual requests that a server is given in its slow start.
pub const LEAST_WEIGHT: f64 = 0.1;

/// Failed checks in a row after which a server is down.
pub const FAILED_CHECKS: u32 = 2;

/// Passed checks in a row after which a server that was down is up again.
pub const PASSED_CHECKS: u32 = 2;

/// The health of one server. New: healthy, and never checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Requests in a row that failed.
    failures: u32,
    ejection: Option<Ejection>,
    check: Check,
    /// The time at which it last came back.
    back: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ejection {
    until: Instant,
    lasts: Duration,
    /// Time of the latest trial, and before the first one of the ejection.
    tried: Instant,
    is_on_trial: bool,
}

/// The results of checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Check {
    /// No check has had a result yet; the server counts as up.
    #[default]
    Unchecked,
    Up {
        failed: u32,
    },
    Down {
        passed: u32,
    },
}

impl Health {
    /// Notes that a request got a response.
    pub fn succeeded(&mut self, now: Instant) {
        self.failures = 0;
        if let Some(ejection) = &mut self.ejection
            && ejection.is_on_trial
            && now < ejection.until
        {
            ejection.until = now;
            self.back = Some(now);
        }
        // The next time it fails it begins anew, once it has been well for as long as it was left alone.
        if let Some(ejection) = self.ejection
            && now >= ejection.until + ejection.lasts
        {
            self.ejection = None;
        }
    }

    /// Returns true if the server may be given requests at any time, and one that gets a response changes nothing.
    pub(crate) fn is_well(&self) -> bool {
        self.failures == 0 && self.ejection.is_none() && !self.is_down()
    }

    /// Notes that the server could not be reached, or gave no response that is one.
    pub fn failed(&mut self, now: Instant) {
        if self.ejection.is_some_and(|it| now < it.until) {
            // Requests that began before.
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures < FAILURES {
            return;
        }
        let lasts = self
            .ejection
            .map_or(FIRST_EJECTION, |it| (it.lasts * 2).min(LONGEST_EJECTION));
        let until = now + lasts;
        self.ejection = Some(Ejection {
            until,
            lasts,
            tried: now,
            is_on_trial: false,
        });
        self.back = Some(until);
        // One more failure tells that nothing has changed.
        self.failures = FAILURES - 1;
    }

    /// Returns whether a request may find out now if it is back, and notes that one does: to be asked where no server is
    /// available. A server that checks have found down is for them to find up.
    pub fn begin_trial(&mut self, now: Instant) -> bool {
        if self.trial_in(now) != Some(Duration::ZERO) {
            return false;
        }
        if let Some(ejection) = &mut self.ejection {
            ejection.tried = now;
            ejection.is_on_trial = true;
        }
        true
    }

    /// Time after which it may be given a request, be it for trial; `None`: that is for checks to say.
    #[must_use]
    pub fn trial_in(&self, now: Instant) -> Option<Duration> {
        let available = self.available_in(now)?;
        let trial = self.ejection.map_or(now, |it| it.tried + TRIAL_INTERVAL);
        Some(available.min(trial.saturating_duration_since(now)))
    }

    /// Notes what a check has found. The first one decides at once.
    pub fn checked(&mut self, passed: bool, now: Instant) {
        self.check = match (self.check, passed) {
            (Check::Unchecked, true) => Check::Up { failed: 0 },
            (Check::Unchecked, false) => Check::Down { passed: 0 },
            (Check::Up { .. }, true) => Check::Up { failed: 0 },
            (Check::Up { failed }, false) if failed + 1 >= FAILED_CHECKS => {
                Check::Down { passed: 0 }
            }
            (Check::Up { failed }, false) => Check::Up { failed: failed + 1 },
            (Check::Down { .. }, false) => Check::Down { passed: 0 },
            (Check::Down { passed }, true) if passed + 1 >= PASSED_CHECKS => {
                self.back = Some(now);
                self.failures = 0;
                self.ejection = None;
                Check::Up { failed: 0 }
            }
            (Check::Down { passed }, true) => Check::Down { passed: passed + 1 },
        };
    }

    /// The same without what checks have found.
    #[must_use]
    pub fn unchecked(&self) -> Self {
        Self {
            check: Check::Unchecked,
            ..self.clone()
        }
    }

    /// Returns whether it may be given requests.
    #[must_use]
    pub fn is_available(&self, now: Instant) -> bool {
        let is_ejected = self.ejection.is_some_and(|it| now < it.until);
        !is_ejected && !self.is_down()
    }

    /// Returns whether checks have found it down.
    #[must_use]
    pub fn is_down(&self) -> bool {
        matches!(self.check, Check::Down { .. })
    }

    /// Share of its usual requests that it is given: [`LEAST_WEIGHT`] when it has just come back, 1 after
    /// [`SLOW_START`].
    #[must_use]
    pub fn weight(&self, now: Instant) -> f64 {
        let Some(back) = self.back else { return 1.0 };
        let share = now.saturating_duration_since(back).as_secs_f64() / SLOW_START.as_secs_f64();
        share.clamp(LEAST_WEIGHT, 1.0)
    }

    /// Time after which it may be given requests again; `None`: that is for checks to say.
    #[must_use]
    pub fn available_in(&self, now: Instant) -> Option<Duration> {
        if self.is_down() {
            return None;
        }
        let until = self.ejection.map_or(now, |it| it.until);
        Some(until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(health: &mut Health, times: u32, now: Instant) {
        for _ in 0..times {
            health.failed(now);
        }
    }

    #[test]
    fn some_failures_in_a_row_eject_and_a_success_between_them_counts() {
        let now = Instant::now();
        let mut health = Health::default();
        fail(&mut health, FAILURES - 1, now);
        assert!(health.is_available(now));
        health.succeeded(now);
        fail(&mut health, FAILURES - 1, now);
        assert!(health.is_available(now));
        health.failed(now);
        assert!(!health.is_available(now));
        assert_eq!(health.available_in(now), Some(FIRST_EJECTION));
        assert!(health.is_available(now + FIRST_EJECTION));
    }

    #[test]
    fn each_ejection_is_twice_as_long_up_to_the_longest() {
        let mut now = Instant::now();
        let mut health = Health::default();
        fail(&mut health, FAILURES, now);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let lasts = Duration::from_secs(seconds);
            assert_eq!(health.available_in(now), Some(lasts));
            now += lasts;
            // Failures of requests that began before count for nothing.
            health.failed(now - Duration::from_millis(1));
            assert_eq!(health.available_in(now), Some(Duration::ZERO));
            health.failed(now);
        }
    }

    #[test]
    fn a_server_that_was_well_for_long_enough_begins_anew() {
        let now = Instant::now();
        let mut health = Health::default();
        fail(&mut health, FAILURES, now);
        let well = now + FIRST_EJECTION * 2;
        health.succeeded(well);
        fail(&mut health, FAILURES, well);
        assert_eq!(health.available_in(well), Some(FIRST_EJECTION));
        // One that fails right after it has come back does not.
        let back = well + FIRST_EJECTION;
        health.succeeded(back);
        fail(&mut health, FAILURES, back);
        assert_eq!(health.available_in(back), Some(FIRST_EJECTION * 2));
    }

    #[test]
    fn a_server_that_is_left_alone_is_tried_by_one_request_a_second_and_comes_back_with_its_response()
     {
        let now = Instant::now();
        let mut health = Health::default();
        fail(&mut health, FAILURES, now);
        let again = now + FIRST_EJECTION;
        fail(&mut health, 1, again);
        let lasts = FIRST_EJECTION * 2;
        assert!(!health.begin_trial(again));
        let trial = again + TRIAL_INTERVAL;
        // A response to a request that began before.
        health.succeeded(trial);
        assert_eq!(health.trial_in(trial), Some(Duration::ZERO));
        assert!(health.begin_trial(trial) && !health.begin_trial(trial));
        assert_eq!(health.trial_in(trial), Some(lasts - TRIAL_INTERVAL));
        health.failed(trial);
        assert!(!health.is_available(trial));
        let soon = trial + TRIAL_INTERVAL / 2;
        health.succeeded(soon);
        assert!(health.is_available(soon) && health.weight(soon) < 0.2);
        // Whoever fails again is left alone for longer.
        health.failed(soon);
        health.failed(soon);
        health.failed(soon);
        assert_eq!(health.available_in(soon), Some(lasts * 2));
        health.checked(false, soon);
        assert!(!health.begin_trial(soon + TRIAL_INTERVAL));
    }

    #[test]
    fn checks_take_a_server_out_and_bring_it_back() {
        let now = Instant::now();
        let mut health = Health::default();
        health.checked(true, now);
        health.checked(false, now);
        assert!(health.is_available(now), "one failure may be chance");
        health.checked(false, now);
        assert!(!health.is_available(now));
        assert_eq!(health.available_in(now), None);
        health.checked(true, now);
        assert!(!health.is_available(now));
        health.checked(false, now);
        health.checked(true, now);
        health.checked(true, now);
        assert!(health.is_available(now));
    }

    #[test]
    fn the_first_check_decides_at_once() {
        let now = Instant::now();
        let mut health = Health::default();
        health.checked(false, now);
        assert!(!health.is_available(now));
    }

    #[test]
    fn without_its_checks_a_server_is_what_requests_have_shown() {
        let now = Instant::now();
        let mut health = Health::default();
        fail(&mut health, FAILURES, now);
        health.checked(false, now);
        let unchecked = health.unchecked();
        assert_eq!(unchecked.available_in(now), Some(FIRST_EJECTION));
        assert!(unchecked.is_available(now + FIRST_EJECTION));
    }

    #[test]
    fn a_server_that_comes_back_has_more_and_more() {
        let now = Instant::now();
        let mut health = Health::default();
        assert!((health.weight(now) - 1.0).abs() < 1e-9);
        fail(&mut health, FAILURES, now);
        let back = now + FIRST_EJECTION;
        for (after, expected) in [(0.0, 0.1), (0.1, 0.1), (0.5, 0.5), (1.0, 1.0), (9.0, 1.0)] {
            let weight = health.weight(back + SLOW_START.mul_f64(after));
            assert!((weight - expected).abs() < 1e-6, "{after}: {weight}");
        }
    }
}
