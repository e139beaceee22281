//! Pacing at a rate that a congestion controller sets: quanta of datagrams with time between them
//! (draft-ietf-ccwg-bbr-05 sections 5.6.2 and 5.6.3).
//!
//! quinn-proto paces by itself, at 1.25 windows a round trip. A controller whose rate is not its window's
//! tells it by its metrics, and what leaves is held back here as well: whole, acknowledgements too, for from
//! outside nobody knows what the next datagram has in it. So none waits longer than a peer expects
//! of acknowledgements.

use std::time::{Duration, Instant};

/// RFC 9000 section 18.2: of max_ack_delay, "a default of 25 milliseconds is assumed".
const LONGEST: Duration = Duration::from_millis(25);

/// Duration of a quantum, and of what may be caught up with after a late timer.
const QUANTUM: Duration = Duration::from_millis(1);

/// Bytes that a quantum has at most.
const MOST: u64 = 64 << 10;

/// The departures of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    /// Bytes per second; `None`: at any.
    rate: Option<u64>,
    /// The earliest time of the next quantum.
    next: Option<Instant>,
    /// Time at which what is held back may leave.
    due: Option<Instant>,
    /// Bytes of the quantum that may leave.
    quantum: usize,
    /// The last quantum wasn't used up: quinn-proto is asked once more at once, and so learns that the
    /// application had no more to send. Else an acknowledgement in the time in between would make
    /// the application's rate the path's.
    spare: bool,
}

impl Pacer {
    /// Returns the number of datagrams of this size that may leave at once, `datagrams` at most; none before
    /// [`due`](Self::due).
    pub(crate) fn allows(
        &mut self,
        now: Instant,
        rate: Option<u64>,
        mtu: u16,
        datagrams: usize,
    ) -> usize {
        self.rate = rate.filter(|rate| *rate > 0);
        let Some(rate) = self.rate else {
            (self.next, self.due) = (None, None);
            return datagrams;
        };
        self.due = self.next.filter(|next| *next > now);
        let has_spare = std::mem::take(&mut self.spare);
        if self.due.is_some() && !has_spare {
            return 0;
        }
        let mtu = u64::from(mtu).max(1);
        let quantum = rate / 1_000 * u64::try_from(QUANTUM.as_millis()).unwrap_or(1);
        let quantum = quantum.min(MOST).max(2 * mtu) / mtu;
        let datagrams = datagrams.min(usize::try_from(quantum).unwrap_or(usize::MAX));
        self.quantum = datagrams.saturating_mul(usize::try_from(mtu).unwrap_or(usize::MAX));
        datagrams
    }

    /// Notes that so many bytes left.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: usize) {
        let Some(rate) = self.rate else {
            return;
        };
        self.spare = bytes < self.quantum;
        let time = bytes as f64 / rate as f64;
        let from = self.next.unwrap_or(now).max(now - QUANTUM.min(LONGEST));
        let time = Duration::try_from_secs_f64(time).unwrap_or(LONGEST);
        self.next = Some((from + time.min(LONGEST)).min(now + LONGEST));
    }

    /// Notes that there was nothing to send, though some was allowed: nothing is held back.
    pub(crate) fn on_nothing(&mut self) {
        self.due = None;
    }

    /// Returns the time at which what is held back may leave; `None` if nothing is.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "an instant to count from")]
mod tests {
    use super::*;

    const MTU: u16 = 1_000;

    /// Bytes that leave in a second at this rate, by a loop whose timers are so late, and the largest
    /// quantum of datagrams.
    fn second(rate: u64, late: Duration) -> (usize, usize) {
        let mut pacer = Pacer::default();
        let began = Instant::now() + Duration::from_secs(1);
        let (mut now, mut bytes, mut largest) = (began, 0, 0);
        while now < began + Duration::from_secs(1) {
            match pacer.allows(now, Some(rate), MTU, 44) {
                0 => now = pacer.due().unwrap() + late,
                datagrams => {
                    largest = largest.max(datagrams);
                    bytes += datagrams * usize::from(MTU);
                    pacer.on_sent(now, datagrams * usize::from(MTU));
                }
            }
        }
        (bytes, largest)
    }

    #[test]
    fn what_leaves_in_a_second_is_the_rate() {
        for (rate, quantum) in [
            (100_000, 2),
            (2_500_000, 2),
            (10_000_000, 10),
            (100_000_000, 44),
        ] {
            for late in [0, 300] {
                let (bytes, largest) = second(rate, Duration::from_micros(late));
                let error = (bytes as f64 / rate as f64 - 1.0).abs();
                assert!(error < 0.05, "{bytes} of {rate}");
                assert_eq!(largest, quantum);
            }
        }
    }

    #[test]
    fn no_datagram_waits_longer_than_an_acknowledgement_may() {
        let mut pacer = Pacer::default();
        let now = Instant::now() + Duration::from_secs(1);
        pacer.allows(now, Some(10), MTU, 44);
        pacer.on_sent(now, 2_000);
        assert_eq!(pacer.allows(now, Some(10), MTU, 44), 0);
        assert_eq!(pacer.due(), Some(now + LONGEST));
    }

    #[test]
    fn a_quantum_that_was_not_used_up_leaves_one_more_question() {
        let mut pacer = Pacer::default();
        let now = Instant::now() + Duration::from_secs(1);
        pacer.allows(now, Some(100_000), MTU, 44);
        pacer.on_sent(now, 1_999);
        assert_eq!(pacer.allows(now, Some(100_000), MTU, 44), 2);
        assert_eq!(pacer.allows(now, Some(100_000), MTU, 44), 0);
    }

    #[test]
    fn nothing_is_held_back_of_an_application_that_has_no_more_to_send() {
        let mut pacer = Pacer::default();
        let now = Instant::now() + Duration::from_secs(1);
        pacer.allows(now, Some(100_000), MTU, 44);
        pacer.on_sent(now, 1_999);
        assert!(pacer.allows(now, Some(100_000), MTU, 44) > 0);
        pacer.on_nothing();
        assert_eq!(pacer.due(), None);
        // It has something after all.
        assert_eq!(pacer.allows(now, Some(100_000), MTU, 44), 0);
        assert!(pacer.due().is_some_and(|due| due > now));
    }

    #[test]
    fn without_a_rate_all_leaves_at_once() {
        let mut pacer = Pacer::default();
        let now = Instant::now();
        for rate in [None, Some(0)] {
            assert_eq!(pacer.allows(now, rate, MTU, 44), 44);
            pacer.on_sent(now, 44_000);
            assert_eq!(pacer.allows(now, rate, MTU, 44), 44);
            assert_eq!(pacer.due(), None);
        }
    }

    #[test]
    fn a_pause_saves_up_a_millisecond_and_no_more() {
        let mut pacer = Pacer::default();
        let now = Instant::now() + Duration::from_secs(1);
        let mut left = 0;
        pacer.allows(now, Some(2_000_000), MTU, 44);
        pacer.on_sent(now, 2_000);
        let later = now + Duration::from_secs(60);
        while pacer.allows(later, Some(2_000_000), MTU, 44) > 0 {
            pacer.on_sent(later, 2_000);
            left += 2_000;
        }
        assert_eq!(left, 4_000);
    }
}
