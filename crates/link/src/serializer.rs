//! The stage that puts packets on the wire one after the other, at the rate.

use altway_units::{Bandwidth, DataSize, Timestamp};
use std::collections::VecDeque;

const NANOS_PER_SECOND: u128 = 1_000_000_000;
const BITS_PER_BYTE: u128 = 8;

/// A transmitter with a virtual clock.
///
/// The moment when it falls idle is kept as whole nanoseconds and a remainder in units of
/// 1/rate ns, so that nothing is lost to rounding while it is busy.
#[derive(Debug, Clone)]
pub(crate) struct Serializer {
    rate: Bandwidth,
    idle_at: u64,
    remainder: u64,
    /// Packets not yet wholly on the wire: when they will be, and their size. Bounded by the queue
    /// in front and by `Direction::MAX_PACKETS`.
    unfinished: VecDeque<(Timestamp, DataSize)>,
    backlog: u64,
}

impl Serializer {
    pub(crate) fn new(rate: Bandwidth) -> Self {
        Self {
            rate,
            idle_at: 0,
            remainder: 0,
            unfinished: VecDeque::new(),
            backlog: 0,
        }
    }

    /// Puts a packet behind those that are there; returns when its last bit will have passed.
    pub(crate) fn push(&mut self, now: Timestamp, size: DataSize) -> Timestamp {
        if self.idle_at < now.as_nanos() {
            self.idle_at = now.as_nanos();
            self.remainder = 0;
        }
        let rate = u128::from(self.rate.as_bps());
        let work = u128::from(size.as_bytes()) * BITS_PER_BYTE * NANOS_PER_SECOND
            + u128::from(self.remainder);
        let nanos = u64::try_from(work / rate).unwrap_or(u64::MAX);
        self.idle_at = self.idle_at.saturating_add(nanos);
        self.remainder = u64::try_from(work % rate).expect("less than the rate, which is a u64");
        let finished = self.finished();
        self.unfinished.push_back((finished, size));
        self.backlog = self.backlog.saturating_add(size.as_bytes());
        finished
    }

    /// The bytes that wait for or are in serialisation at `now`.
    pub(crate) fn backlog(&mut self, now: Timestamp) -> DataSize {
        while let Some(&(finished, size)) = self.unfinished.front() {
            if finished > now {
                break;
            }
            self.backlog = self.backlog.saturating_sub(size.as_bytes());
            self.unfinished.pop_front();
        }
        DataSize::from_bytes(self.backlog)
    }

    /// The first whole nanosecond at which everything pushed has passed.
    fn finished(&self) -> Timestamp {
        Timestamp::from_nanos(self.idle_at.saturating_add(u64::from(self.remainder > 0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: DataSize = DataSize::from_bytes(1_500);

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    fn serializer(bps: u64) -> Serializer {
        Serializer::new(Bandwidth::from_bps(bps).unwrap())
    }

    #[test]
    fn carries_the_part_of_a_nanosecond_that_is_left_over() {
        let mut link = serializer(7_000_000);
        let finished: Vec<_> = (0..7)
            .map(|_| link.push(at(0), PACKET).as_nanos())
            .collect();
        assert_eq!(finished[..3], [1_714_286, 3_428_572, 5_142_858]);
        assert_eq!(finished[6], 12_000_000);
    }

    #[test]
    fn an_idle_link_starts_at_the_packets_arrival() {
        let mut link = serializer(7_000_000);
        link.push(at(0), PACKET);
        assert_eq!(link.push(at(5_000_000), PACKET), at(6_714_286));
    }

    #[test]
    fn a_packet_that_arrives_within_the_last_nanosecond_still_carries_the_remainder() {
        let mut link = serializer(7_000_000);
        link.push(at(0), PACKET);
        // The first packet ends at 1,714,285.714… ns: at 1,714,285 the link is still busy.
        assert_eq!(link.push(at(1_714_285), PACKET), at(3_428_572));
    }

    #[test]
    fn a_packet_leaves_the_backlog_when_its_last_bit_has_passed() {
        let mut link = serializer(12_000_000);
        link.push(at(0), PACKET);
        link.push(at(0), PACKET);
        assert_eq!(link.backlog(at(999_999)), DataSize::from_bytes(3_000));
        assert_eq!(link.backlog(at(1_000_000)), PACKET);
        assert_eq!(link.backlog(at(2_000_000)), DataSize::ZERO);
    }

    #[test]
    fn the_slowest_link_and_the_largest_packet_saturate() {
        let mut link = serializer(1);
        let end = link.push(at(0), DataSize::MAX);
        assert_eq!(end, at(u64::MAX));
        assert_eq!(link.push(at(0), DataSize::MAX), at(u64::MAX));
    }
}
