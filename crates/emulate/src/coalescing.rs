//! Interrupt coalescing of the link: a bound on how often packets are handed over.
//!
//! A hand-over takes the kernel some microseconds: it runs its whole receiving side and wakes a program.
//! At 1 Gbit/s a packet is due every 12 µs, and one by one they would take all of a processor, or more. So
//! where packets follow each other as close as that all the time, some wait for those after them, and are
//! handed over together. Network cards do the same with interrupts, for as long and for the same reason.

use altway_units::Timestamp;
use std::time::Duration;

/// The mean time between two hand-overs in the long run: a full packet every 100 µs is 120 Mbit/s, and below
/// it nothing waits. Where a hand-over takes 20 µs, as on a virtual machine whose processors have to wake
/// each other, that is 40 % of a processor for both directions.
const GAP: Duration = Duration::from_micros(100);

/// Number of packets that may follow each other closer than that: the first that a server sends at once
/// (RFC 6928), and some.
const BURST: u32 = 16;

/// Limiter of the rate of hand-overs (the generic cell rate algorithm of ITU-T I.371).
#[derive(Debug)]
pub(crate) struct Coalescing {
    earliest: Timestamp,
}

impl Coalescing {
    pub(crate) const fn new() -> Self {
        Self {
            earliest: Timestamp::ZERO,
        }
    }

    /// Time at which packets may be handed over again.
    pub(crate) fn earliest(&self) -> Timestamp {
        self.earliest
    }

    /// Packets were handed over.
    pub(crate) fn handed_over(&mut self, now: Timestamp) {
        let saved = (GAP * BURST).as_nanos() as u64;
        let oldest = Timestamp::from_nanos(now.as_nanos().saturating_sub(saved));
        self.earliest = self.earliest.max(oldest) + GAP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lateness of each of so many packets that are due one every `pause`.
    fn lateness(pause: Duration, packets: u32) -> Vec<Duration> {
        let mut coalescing = Coalescing::new();
        let mut late = Vec::new();
        let start = Timestamp::from_nanos(1_000_000_000);
        let due: Vec<_> = (0..packets).map(|packet| start + pause * packet).collect();
        let mut now = start;
        while let Some(next) = due.get(late.len()) {
            now = now.max(*next).max(coalescing.earliest());
            let together = due[late.len()..].iter().take_while(|due| **due <= now);
            late.extend(together.map(|due| now - *due));
            coalescing.handed_over(now);
        }
        late
    }

    #[test]
    fn nothing_waits_below_120_mbit_per_second() {
        let late = lateness(GAP, 1_000);
        assert!(late.iter().all(Duration::is_zero), "{late:?}");
    }

    #[test]
    fn the_first_packets_of_a_burst_do_not_wait() {
        let late = lateness(Duration::from_micros(12), 100);
        let first = late.iter().take_while(|late| late.is_zero()).count();
        assert!((16..20).contains(&first), "{late:?}");
    }

    #[test]
    fn nothing_waits_longer_than_the_gap() {
        let late = lateness(Duration::from_micros(12), 1_000);
        assert!(late.iter().all(|late| *late < GAP), "{late:?}");
    }

    #[test]
    fn there_are_10_000_hand_overs_a_second_at_most() {
        let (mut coalescing, mut now) = (Coalescing::new(), Timestamp::from_nanos(5));
        let mut hand_overs = 0;
        while now < Timestamp::from_nanos(1_000_000_000) {
            now = now.max(coalescing.earliest());
            coalescing.handed_over(now);
            hand_overs += 1;
        }
        assert!(
            (10_000..=10_000 + BURST).contains(&hand_overs),
            "{hand_overs}"
        );
    }

    #[test]
    fn what_was_not_used_is_not_saved_for_ever() {
        let mut coalescing = Coalescing::new();
        let late = Timestamp::from_nanos(3_600_000_000_000);
        let burst = (0..100).take_while(|_| {
            coalescing.handed_over(late);
            coalescing.earliest() <= late
        });
        assert_eq!(burst.count(), BURST as usize);
    }
}
