//! The budget of unsent bytes of a connection: those that are encoded before the path takes them.
//!
//! Encoded bytes can't be overtaken any more, by however urgent a response (RFC 9218): neither what the kernel holds
//! nor what TLS has encrypted. So as much is encoded ahead as the path takes in some milliseconds: little on slow
//! paths, and on fast ones what makes system calls few. The speed of a path shows when the socket is full: in the bytes
//! that it takes again, and the time until then. The time is the path's and the worker's, so a busy worker that comes
//! late has more ahead, and its sockets don't run dry.

use super::SEND_BYTES;
use std::time::{Duration, Instant};

/// The least, and what a connection begins with: one DATA frame that fills a TLS record, a little more
/// than the initial window of ten segments (RFC 6928).
const MIN_BYTES: usize = 16 << 10;

/// The most that the kernel is asked to hold unsent: what its send buffer has by default.
const MAX_BYTES: usize = 4 << 20;

/// Time of which no more than its bytes are encoded ahead.
const MAX_TIME: Duration = Duration::from_millis(16);

/// Time of which no less than its bytes are encoded ahead: shorter by the factor of 2, or the budget would swing.
const MIN_TIME: Duration = Duration::from_millis(8);

/// The number of bytes that a connection encodes before it sends, and that its socket takes before its path does.
#[derive(Debug)]
pub(super) struct UnsentBudget {
    /// The kernel's part, in bytes: it says that there is room when half of it has left.
    kernel: usize,
    /// Ours: the same once the socket is full, and more as long as it takes everything.
    own: usize,
    /// Time since which the socket is full.
    full: Option<Instant>,
    /// Time for which the socket was full, until it had room; and the bytes that it has taken since.
    left: Option<(Duration, usize)>,
    /// The limit that the kernel was given last.
    set_lowat: Option<usize>,
}

impl Default for UnsentBudget {
    fn default() -> Self {
        Self {
            kernel: MIN_BYTES,
            own: MIN_BYTES,
            full: None,
            left: None,
            set_lowat: None,
        }
    }
}

impl UnsentBudget {
    /// Returns the number of bytes that may be encoded before they are sent: from 16 to 256 KiB.
    pub(super) fn bytes(&self) -> usize {
        self.own.min(SEND_BYTES)
    }

    /// The socket may have room again.
    pub(super) fn room(&mut self, now: Instant) {
        if let Some(since) = self.full {
            self.left = Some((now.saturating_duration_since(since), 0));
        }
    }

    /// The socket took so many bytes, and would take more.
    pub(super) fn took(&mut self, bytes: usize) {
        if bytes >= self.own {
            self.own = (self.own * 2).min(SEND_BYTES);
        }
        self.full = None;
        self.left = self.left.map(|(time, sum)| (time, sum + bytes));
    }

    /// The socket took so many bytes, and takes no more.
    pub(super) fn filled(&mut self, bytes: usize, now: Instant) {
        let left = self.left.take().map(|(time, sum)| (time, sum + bytes));
        let none = left.map_or(bytes, |(_, bytes)| bytes) == 0;
        if none && self.full.is_some() {
            // It had no room.
            return;
        }
        if let Some((time, bytes)) = left {
            self.kernel = self.measured(time, bytes);
        }
        self.own = self.kernel;
        self.full = Some(now);
    }

    /// Ends the measurement: the application has nothing more to send, and what leaves now tells nothing of the path.
    pub(super) fn silent(&mut self) {
        (self.full, self.left) = (None, None);
    }

    /// Returns the kernel's part for a path on which so many bytes leave it in so long a time.
    fn measured(&self, time: Duration, bytes: usize) -> usize {
        // Bytes a second; infinite when no time has passed.
        let rate = bytes as f64 / time.as_secs_f64();
        let kernel = self.kernel as f64;
        if kernel < rate * MIN_TIME.as_secs_f64() {
            (self.kernel * 2).min(MAX_BYTES)
        } else if kernel > rate * MAX_TIME.as_secs_f64() {
            (self.kernel / 2).max(MIN_BYTES)
        } else {
            self.kernel
        }
    }

    /// Returns the limit of unsent bytes in the kernel, if it has changed since it was last returned.
    pub(super) fn next_lowat(&mut self) -> Option<usize> {
        let next_lowat = (self.set_lowat != Some(self.kernel)).then_some(self.kernel);
        self.set_lowat = Some(self.kernel);
        next_lowat
    }
}

#[cfg(test)]
impl UnsentBudget {
    /// Returns the budget of a connection whose path has been fast.
    pub(super) fn of_a_fast_path() -> Self {
        Self {
            kernel: MAX_BYTES,
            own: SEND_BYTES,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: f64 = 1e6 / 8.0;

    /// Returns the bytes that the kernel may hold once the budget has settled, for a path of so many bytes a second and a
    /// worker that comes so long after there is room.
    fn over(path: f64, late: Duration) -> usize {
        let (mut unsent_budget, mut now) = (UnsentBudget::default(), Instant::now());
        let mut last = [0; 4];
        unsent_budget.filled(0, now);
        for _ in 0..100 {
            let wait = Duration::from_secs_f64(unsent_budget.kernel as f64 / 2.0 / path) + late;
            now += wait;
            let left = (wait.as_secs_f64() * path) as usize;
            unsent_budget.room(now);
            unsent_budget.filled(left.min(unsent_budget.kernel), now);
            last.rotate_left(1);
            last[3] = unsent_budget.kernel;
        }
        assert!(
            last.iter().all(|one| *one == last[0]),
            "it swings: {last:?}"
        );
        last[0]
    }

    #[test]
    fn a_slow_path_has_little_ahead_and_a_fast_one_some_milliseconds() {
        let soon = Duration::from_micros(100);
        assert_eq!(over(MBIT, soon), MIN_BYTES);
        assert_eq!(over(10.0 * MBIT, soon), MIN_BYTES);
        for mbit in (20..5_000).step_by(20).map(f64::from) {
            let bytes = over(mbit * MBIT, soon);
            let time = Duration::from_secs_f64(bytes as f64 / (mbit * MBIT));
            assert!(bytes == MIN_BYTES || time <= MAX_TIME, "{mbit}: {time:?}");
        }
    }

    #[test]
    fn a_busy_worker_s_sockets_don_t_run_dry() {
        for mbit in [50.0, 100.0, 1_000.0] {
            let late = Duration::from_millis(5);
            let bytes = over(mbit * MBIT, late);
            let leaves = late.as_secs_f64() * mbit * MBIT;
            assert!(bytes as f64 > leaves, "{mbit}: {bytes}");
        }
    }

    #[test]
    fn what_the_socket_takes_at_once_makes_sends_larger_until_it_is_full() {
        let (mut unsent_budget, now) = (UnsentBudget::default(), Instant::now());
        let bytes: Vec<usize> = (0..6)
            .map(|_| {
                let bytes = unsent_budget.bytes();
                unsent_budget.took(bytes);
                bytes >> 10
            })
            .collect();
        assert_eq!(bytes, [16, 32, 64, 128, 256, 256]);
        let mut small = UnsentBudget::default();
        (0..100).for_each(|_| small.took(1_000));
        assert_eq!(
            small.bytes(),
            MIN_BYTES,
            "nobody knows how much it would have taken"
        );
        unsent_budget.filled(1, now);
        assert_eq!(unsent_budget.bytes(), MIN_BYTES);
    }

    #[test]
    fn only_a_socket_that_stayed_full_tells_of_its_path() {
        let (mut unsent_budget, now) = (UnsentBudget::default(), Instant::now());
        unsent_budget.filled(100 << 10, now);
        assert_eq!(unsent_budget.kernel, MIN_BYTES, "its buffer was empty");
        unsent_budget.room(now + MAX_TIME);
        unsent_budget.filled(0, now + MAX_TIME);
        assert_eq!(unsent_budget.full, Some(now), "no room yet");
        unsent_budget.silent();
        unsent_budget.room(now + MAX_TIME);
        unsent_budget.filled(100 << 10, now + MAX_TIME);
        assert_eq!(unsent_budget.kernel, MIN_BYTES, "it was idle");
        unsent_budget.room(now + MAX_TIME * 5 / 4);
        unsent_budget.filled(MIN_BYTES, now + MAX_TIME * 5 / 4);
        assert_eq!(unsent_budget.kernel, 2 * MIN_BYTES);
    }

    #[test]
    fn the_kernel_is_told_what_is_new_to_it() {
        let (mut unsent_budget, now) = (UnsentBudget::default(), Instant::now());
        assert_eq!(
            (unsent_budget.next_lowat(), unsent_budget.next_lowat()),
            (Some(MIN_BYTES), None)
        );
        unsent_budget.filled(0, now);
        unsent_budget.room(now);
        unsent_budget.filled(MIN_BYTES, now);
        assert_eq!(
            (unsent_budget.next_lowat(), unsent_budget.next_lowat()),
            (Some(2 * MIN_BYTES), None)
        );
    }
}
