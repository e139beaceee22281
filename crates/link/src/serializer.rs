//! The stage that puts packets on the wire one after the other, at the rate.
//!
//! Everything is counted in *work*: bits times 10⁹, so that a rate of r bit/s does r work in a
//! nanosecond and every step of the arithmetic is whole. What the link has done since an origin is a
//! function of time, a packet ends where that function reaches the work of all before it and its own,
//! and so nothing is lost to rounding while the link is busy, whatever the rate does meanwhile.

use crate::Rate;
use altway_units::{DataSize, Timestamp};

pub(crate) const NANOS_PER_SECOND: u128 = 1_000_000_000;
pub(crate) const BITS_PER_BYTE: u128 = 8;

/// A transmitter with a virtual clock.
#[derive(Debug, Clone)]
pub(crate) struct Serializer {
    rate: Rate,
    /// Place where the rate's time begins; set by the first packet.
    origin: Option<Timestamp>,
    /// The work up to the last bit of the last packet, counted from the origin.
    served: u128,
}

impl Serializer {
    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            rate,
            origin: None,
            served: 0,
        }
    }

    pub(crate) fn rate(&self) -> &Rate {
        &self.rate
    }

    pub(crate) fn is_unlimited(&self) -> bool {
        self.rate == Rate::Unlimited
    }

    /// Puts a packet on the wire at `start`: `after_another` if one has just ended there, whose part
    /// of a nanosecond this one uses. Returns when its last bit will have passed.
    pub(crate) fn begin(
        &mut self,
        start: Timestamp,
        size: DataSize,
        after_another: bool,
    ) -> Timestamp {
        if !after_another {
            self.served = self.served.max(self.passed(start));
        }
        let work = u128::from(size.as_bytes()) * BITS_PER_BYTE * NANOS_PER_SECOND;
        self.served = self.served.saturating_add(work);
        self.end(start)
    }

    /// Changes the rate at `now`. A trace begins then; the same rate as before just goes on.
    pub(crate) fn change(&mut self, now: Timestamp, rate: &Rate) {
        if self.rate == *rate {
            return;
        }
        self.served = self.served.saturating_sub(self.passed(now));
        self.rate = rate.clone();
        self.origin = Some(now);
    }

    /// Time at which the last bit of the last packet will have passed: a whole nanosecond, not before
    /// `earliest`.
    pub(crate) fn end(&self, earliest: Timestamp) -> Timestamp {
        let since = match &self.rate {
            Rate::Unlimited => 0,
            Rate::Fixed(rate) => {
                let nanos = self.served.div_ceil(u128::from(rate.as_bps()));
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
            Rate::Trace(trace) => trace.reaches(self.served),
        };
        let origin = self.origin.unwrap_or(earliest).as_nanos();
        Timestamp::from_nanos(origin.saturating_add(since)).max(earliest)
    }

    /// The work done by `time`. The first question sets the origin.
    fn passed(&mut self, time: Timestamp) -> u128 {
        let origin = *self.origin.get_or_insert(time);
        let nanos = time.as_nanos().saturating_sub(origin.as_nanos());
        match &self.rate {
            // Whatever was asked for has been done.
            Rate::Unlimited => self.served,
            Rate::Fixed(rate) => u128::from(nanos) * u128::from(rate.as_bps()),
            Rate::Trace(trace) => trace.passed(nanos),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_units::Bandwidth;

    const PACKET: DataSize = DataSize::from_bytes(1_500);

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    fn serializer(bps: u64) -> Serializer {
        Serializer::new(Bandwidth::from_bps(bps).into())
    }

    #[test]
    fn carries_the_part_of_a_nanosecond_that_is_left_over() {
        let mut link = serializer(7_000_000);
        let mut finished = vec![link.begin(at(0), PACKET, false)];
        for _ in 1..7 {
            let last = finished[finished.len() - 1];
            finished.push(link.begin(last, PACKET, true));
        }
        assert_eq!(finished[..3], [at(1_714_286), at(3_428_572), at(5_142_858)]);
        assert_eq!(finished[6], at(12_000_000));
    }

    #[test]
    fn an_idle_link_starts_at_the_packets_arrival() {
        let mut link = serializer(7_000_000);
        link.begin(at(0), PACKET, false);
        assert_eq!(link.begin(at(5_000_000), PACKET, false), at(6_714_286));
    }

    #[test]
    fn a_packet_in_the_middle_goes_on_at_the_new_rate() {
        let mut link = serializer(12_000_000);
        assert_eq!(link.begin(at(0), PACKET, false), at(1_000_000));
        link.change(at(250_000), &Bandwidth::from_mbit(1).into());
        // Three quarters of 12,000 bits at 1 Mbit/s.
        assert_eq!(link.end(at(250_000)), at(9_250_000));
        link.change(at(1_250_000), &Rate::Unlimited);
        assert_eq!(link.end(at(1_250_000)), at(1_250_000));
        link.change(at(2_000_000), &Bandwidth::from_mbit(12).into());
        assert_eq!(link.begin(at(2_000_000), PACKET, false), at(3_000_000));
    }

    #[test]
    fn the_same_rate_again_changes_nothing() {
        let mut link = serializer(7_000_000);
        link.begin(at(0), PACKET, false);
        link.change(at(1_000), &Bandwidth::from_bps(7_000_000).into());
        assert_eq!(link.begin(at(1_714_286), PACKET, true), at(3_428_572));
    }

    #[test]
    fn the_slowest_link_and_the_largest_packet_saturate() {
        let mut link = serializer(1);
        let end = link.begin(at(0), DataSize::MAX, false);
        assert_eq!(end, at(u64::MAX));
        assert_eq!(link.begin(end, DataSize::MAX, true), at(u64::MAX));
    }
}
