//! Counts how often workers were started again after a panic: seldom is a defect, often is the end.

use crate::locks::lock;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Restarts of all workers in the time of [`WINDOW`]. One more panic ends the server.
const MAX_RESTARTS: usize = 5;

/// Time for which a restart counts.
const WINDOW: Duration = Duration::from_secs(60);

/// The restarts of all workers.
#[derive(Debug, Default)]
pub(crate) struct Restarts(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Restarts since the server began.
    total: u64,
    /// Times of the restarts that count, the oldest first: [`MAX_RESTARTS`] at most.
    recent: VecDeque<Instant>,
}

impl Restarts {
    /// Counts a restart, and returns how many there were; `None` if it would be one too many.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        let mut counts = lock(&self.0);
        let counts_still = |then: &Instant| now.saturating_duration_since(*then) < WINDOW;
        counts.recent.retain(counts_still);
        if counts.recent.len() >= MAX_RESTARTS {
            return None;
        }
        counts.recent.push_back(now);
        counts.total += 1;
        Some(counts.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_five_restarts_in_a_minute_are_too_many() {
        let restarts = Restarts::default();
        let start = Instant::now();
        let after = |seconds| restarts.admit(start + Duration::from_secs(seconds));
        let admitted = [0, 10, 20, 30, 59].map(after);
        assert_eq!(admitted, [Some(1), Some(2), Some(3), Some(4), Some(5)]);
        assert_eq!(after(59), None);
        assert_eq!(after(60), Some(6), "the first counts no more");
        assert_eq!(after(60), None);
        assert_eq!(after(70), Some(7));
    }
}
