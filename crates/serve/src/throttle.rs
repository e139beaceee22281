//! A limit to how often one kind of line is logged: what a peer can cause must not fill a disk.

use crate::locks::lock;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time in which a kind of line is logged once at most.
const INTERVAL: Duration = Duration::from_secs(10);

/// A kind of line, for a `static` beside the place that logs it.
#[derive(Debug)]
pub(crate) struct Throttle(Mutex<State>);

#[derive(Debug)]
struct State {
    logged: Option<Instant>,
    suppressed: u64,
}

impl Throttle {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(State {
            logged: None,
            suppressed: 0,
        }))
    }

    /// Returns the number of lines suppressed since the last one, if one may be logged now.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = lock(&self.0);
        let age = |logged| now.saturating_duration_since(logged);
        if state.logged.is_some_and(|logged| age(logged) < INTERVAL) {
            state.suppressed += 1;
            return None;
        }
        state.logged = Some(now);
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_logged_at_a_time_and_tells_how_many_were_not() {
        let throttle = Throttle::new();
        let start = Instant::now();
        assert_eq!(throttle.admit(start), Some(0));
        for millis in 1..1_000 {
            let now = start + Duration::from_millis(millis);
            assert_eq!(throttle.admit(now), None);
        }
        assert_eq!(throttle.admit(start + INTERVAL), Some(999));
        assert_eq!(throttle.admit(start + 2 * INTERVAL), Some(0));
    }
}
