//! The lead of a connection over its path: bytes that are encoded before the path takes them.
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
const LEAST: usize = 16 << 10;

/// The most that the kernel is asked to hold unsent: what its send buffer has by default.
const MOST: usize = 4 << 20;

/// Time of which no more than its bytes are encoded ahead.
const LONGEST: Duration = Duration::from_millis(16);

/// Time of which no less than its bytes are encoded ahead: shorter by the factor of 2, or the lead would swing.
const SHORTEST: Duration = Duration::from_millis(8);

/// The number of bytes that a connection encodes before it sends, and that its socket takes before its path does.
#[derive(Debug)]
pub(super) struct Lead {
    /// The kernel's part, in bytes: it says that there is room when half of it has left.
    kernel: usize,
    /// Ours: the same once the socket is full, and more as long as it takes everything.
    own: usize,
    /// Time since which the socket is full.
    full: Option<Instant>,
    /// Time for which the socket was full, until it had room; and the bytes that it has taken since.
    left: Option<(Duration, usize)>,
    /// The limit that the kernel was given last.
    told: Option<usize>,
}

impl Default for Lead {
    fn default() -> Self {
        Self {
            kernel: LEAST,
            own: LEAST,
            full: None,
            left: None,
            told: None,
        }
    }
}

impl Lead {
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

    /// There is nothing more to say: what leaves now tells nothing of the path.
    pub(super) fn silent(&mut self) {
        (self.full, self.left) = (None, None);
    }

    /// Returns the kernel's part for a path on which so many bytes leave it in so long a time.
    fn measured(&self, time: Duration, bytes: usize) -> usize {
        // Bytes a second; infinite when no time has passed.
        let rate = bytes as f64 / time.as_secs_f64();
        let kernel = self.kernel as f64;
        if kernel < rate * SHORTEST.as_secs_f64() {
            (self.kernel * 2).min(MOST)
        } else if kernel > rate * LONGEST.as_secs_f64() {
            (self.kernel / 2).max(LEAST)
        } else {
            self.kernel
        }
    }

    /// Returns the limit of unsent bytes in the kernel, if it has changed since it was last returned.
    pub(super) fn news(&mut self) -> Option<usize> {
        let news = (self.told != Some(self.kernel)).then_some(self.kernel);
        self.told = Some(self.kernel);
        news
    }
}

#[cfg(test)]
impl Lead {
    /// Returns the lead of a connection whose path has been fast.
    pub(super) fn of_a_fast_path() -> Self {
        Self {
            kernel: MOST,
            own: SEND_BYTES,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: f64 = 1e6 / 8.0;

    /// Returns the bytes that the kernel may hold once the lead has settled, for a path of so many bytes a second and a
    /// worker that comes so long after there is room.
    fn over(path: f64, late: Duration) -> usize {
        let (mut lead, mut now) = (Lead::default(), Instant::now());
        let mut last = [0; 4];
        lead.filled(0, now);
        for _ in 0..100 {
            let wait = Duration::from_secs_f64(lead.kernel as f64 / 2.0 / path) + late;
            now += wait;
            let left = (wait.as_secs_f64() * path) as usize;
            lead.room(now);
            lead.filled(left.min(lead.kernel), now);
            last.rotate_left(1);
            last[3] = lead.kernel;
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
        assert_eq!(over(MBIT, soon), LEAST);
        assert_eq!(over(10.0 * MBIT, soon), LEAST);
        for mbit in (20..5_000).step_by(20).map(f64::from) {
            let bytes = over(mbit * MBIT, soon);
            let time = Duration::from_secs_f64(bytes as f64 / (mbit * MBIT));
            assert!(bytes == LEAST || time <= LONGEST, "{mbit}: {time:?}");
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
        let (mut lead, now) = (Lead::default(), Instant::now());
        let bytes: Vec<usize> = (0..6)
            .map(|_| {
                let bytes = lead.bytes();
                lead.took(bytes);
                bytes >> 10
            })
            .collect();
        assert_eq!(bytes, [16, 32, 64, 128, 256, 256]);
        let mut small = Lead::default();
        (0..100).for_each(|_| small.took(1_000));
        assert_eq!(
            small.bytes(),
            LEAST,
            "nobody knows how much it would have taken"
        );
        lead.filled(1, now);
        assert_eq!(lead.bytes(), LEAST);
    }

    #[test]
    fn only_a_socket_that_stayed_full_tells_of_its_path() {
        let (mut lead, now) = (Lead::default(), Instant::now());
        lead.filled(100 << 10, now);
        assert_eq!(lead.kernel, LEAST, "its buffer was empty");
        lead.room(now + LONGEST);
        lead.filled(0, now + LONGEST);
        assert_eq!(lead.full, Some(now), "no room yet");
        lead.silent();
        lead.room(now + LONGEST);
        lead.filled(100 << 10, now + LONGEST);
        assert_eq!(lead.kernel, LEAST, "it was idle");
        lead.room(now + LONGEST * 5 / 4);
        lead.filled(LEAST, now + LONGEST * 5 / 4);
        assert_eq!(lead.kernel, 2 * LEAST);
    }

    #[test]
    fn the_kernel_is_told_what_is_new_to_it() {
        let (mut lead, now) = (Lead::default(), Instant::now());
        assert_eq!((lead.news(), lead.news()), (Some(LEAST), None));
        lead.filled(0, now);
        lead.room(now);
        lead.filled(LEAST, now);
        assert_eq!((lead.news(), lead.news()), (Some(2 * LEAST), None));
    }
}
