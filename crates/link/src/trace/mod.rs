//! Rates that change with time, and how much passes until when.

use crate::Error;
use crate::serializer::{BITS_PER_BYTE, NANOS_PER_SECOND};
use altway_units::Bandwidth;
use std::time::Duration;

mod text;

/// A rate that changes with time, in one of two forms: steps of a rate each, or single delivery
/// opportunities of 1,500 bytes each, as mahimahi records them.
///
/// Both are a function of how much has passed by when. Capacity that no packet waits for is lost.
///
/// Worked numbers. Steps of 12 Mbit/s for 3 s, then 1.2 Mbit/s: a packet of 1,500 bytes takes 1 ms
/// before the step and 10 ms after it, and one that enters 0.5 ms before the step takes
/// 0.5 ms + 5 ms, because half of it passes at each rate. Opportunities at 2 and 5 ms: a packet of
/// 1,500 bytes that enters at 1 ms has passed at 2 ms, one of 1,501 bytes at 5 ms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    shape: Shape,
    /// Time after which it begins anew; `None` when the last step holds for ever.
    period: Option<u64>,
    /// Amount that passes in one period, or in all the steps but the last.
    lap: u128,
}

/// A step of a [`Trace`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Time at which it begins, since the beginning of the trace.
    pub at: Duration,
    /// The rate from then on; `None` for a link that passes nothing.
    pub rate: Option<Bandwidth>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    Steps(Vec<Segment>),
    /// Times in ns, each that of 1,500 bytes.
    Opportunities(Vec<u64>),
}

/// A step with what has passed before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    at: u64,
    /// Bit/s, which is [work](crate::serializer) per ns.
    rate: u64,
    before: u128,
}

impl Trace {
    /// The most steps or opportunities: 17 minutes of a step a millisecond.
    pub const MAX_ENTRIES: usize = 1 << 20;

    /// The IP bytes of one delivery opportunity.
    pub const OPPORTUNITY_BYTES: u64 = 1_500;

    /// A rate in steps. With `period` the trace begins anew after that time, else the last step holds
    /// for ever.
    ///
    /// # Errors
    /// No step or more than [`MAX_ENTRIES`](Self::MAX_ENTRIES), the first not at time 0, one that does
    /// not come after the one before it, a period that ends before or with the last step, or no rate
    /// in any of them.
    pub fn stepped(steps: &[Step], period: Option<Duration>) -> Result<Self, Error> {
        check_count(steps.len())?;
        if steps[0].at != Duration::ZERO {
            return Err(Error::TraceStart);
        }
        if let Some(earlier) = steps.windows(2).position(|pair| pair[0].at >= pair[1].at) {
            return Err(Error::TraceOrder { entry: earlier + 2 });
        }
        if steps.iter().all(|step| step.rate.is_none()) {
            return Err(Error::TraceZero);
        }
        let period = period.map(nanos);
        let segments = segments(steps);
        let last = segments[segments.len() - 1];
        if period.is_some_and(|period| period <= last.at) {
            return Err(Error::TraceEnd);
        }
        let lap = last.passed(period.unwrap_or(last.at));
        let shape = Shape::Steps(segments);
        Ok(Self { shape, period, lap })
    }

    /// Delivery opportunities at these times, of [`OPPORTUNITY_BYTES`](Self::OPPORTUNITY_BYTES) each.
    /// The trace begins anew with the last of them.
    ///
    /// # Errors
    /// None or more than [`MAX_ENTRIES`](Self::MAX_ENTRIES), one before the one in front of it, or the
    /// last at time 0.
    pub fn opportunities(times: &[Duration]) -> Result<Self, Error> {
        check_count(times.len())?;
        if let Some(earlier) = times.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(Error::TraceOrder { entry: earlier + 2 });
        }
        let times: Vec<u64> = times.iter().copied().map(nanos).collect();
        let period = times[times.len() - 1];
        if period == 0 {
            return Err(Error::TraceEnd);
        }
        Ok(Self {
            lap: times.len() as u128 * OPPORTUNITY,
            shape: Shape::Opportunities(times),
            period: Some(period),
        })
    }

    /// The mean rate, rounded down but at least 1 bit/s: over a period, or over the time before the
    /// last step when that holds for ever; of a single step, its rate.
    #[must_use]
    pub fn mean(&self) -> Bandwidth {
        let bps = match (&self.shape, self.period) {
            (_, Some(period)) => self.lap / u128::from(period),
            (Shape::Steps(segments), None) => match segments.as_slice() {
                [only] => u128::from(only.rate),
                [.., last] => self.lap / u128::from(last.at),
                [] => 0,
            },
            (Shape::Opportunities(_), None) => 0,
        };
        let bps = u64::try_from(bps).unwrap_or(u64::MAX);
        Bandwidth::from_bps(bps.max(1)).expect("at least 1")
    }

    /// The work that passes in the first `time` ns; an opportunity at that very moment not counted.
    pub(crate) fn passed(&self, time: u64) -> u128 {
        let (laps, rest) = match self.period {
            // The end of a lap belongs to that lap, because its last opportunity is there.
            Some(period) => {
                let laps = time.saturating_sub(1) / period;
                (laps, time - laps * period)
            }
            None => (0, time),
        };
        let in_lap = match &self.shape {
            Shape::Steps(segments) => {
                let next = segments.partition_point(|segment| segment.at < rest);
                next.checked_sub(1)
                    .map_or(0, |last| segments[last].passed(rest))
            }
            Shape::Opportunities(times) => {
                times.partition_point(|time| *time < rest) as u128 * OPPORTUNITY
            }
        };
        u128::from(laps)
            .saturating_mul(self.lap)
            .saturating_add(in_lap)
    }

    /// The first ns at which all of `work` has passed; `u64::MAX` if that never comes.
    pub(crate) fn reaches(&self, work: u128) -> u64 {
        let Some(before) = work.checked_sub(1) else {
            return 0;
        };
        let (laps, period) = match self.period {
            Some(period) => (before / self.lap, period),
            None => (0, 0),
        };
        let rest = work - laps * self.lap;
        let in_lap = match &self.shape {
            Shape::Steps(segments) => reached(segments, rest),
            // `rest` is at least 1 and at most a lap.
            Shape::Opportunities(times) => times[(rest.div_ceil(OPPORTUNITY) - 1) as usize],
        };
        let begun = u64::try_from(laps).map_or(u64::MAX, |laps| laps.saturating_mul(period));
        begun.saturating_add(in_lap)
    }
}

/// The work of one opportunity.
const OPPORTUNITY: u128 = Trace::OPPORTUNITY_BYTES as u128 * BITS_PER_BYTE * NANOS_PER_SECOND;

impl Segment {
    /// The work that has passed at `time`, which lies in this segment or at its end.
    fn passed(self, time: u64) -> u128 {
        self.before + u128::from(time - self.at) * u128::from(self.rate)
    }
}

fn check_count(count: usize) -> Result<(), Error> {
    let most = Trace::MAX_ENTRIES;
    match count {
        0 => Err(Error::EmptyTrace),
        count if count > most => Err(Error::LongTrace { most }),
        _ => Ok(()),
    }
}

/// 2^64 ns are 584 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn segments(steps: &[Step]) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::with_capacity(steps.len());
    for step in steps {
        let at = nanos(step.at);
        let before = segments.last().map_or(0, |last| last.passed(at));
        let rate = step.rate.map_or(0, Bandwidth::as_bps);
        segments.push(Segment { at, rate, before });
    }
    segments
}

/// The first ns at which these segments have passed `work`, which is more than 0.
fn reached(segments: &[Segment], work: u128) -> u64 {
    let next = segments.partition_point(|segment| segment.before < work);
    let Some(segment) = next.checked_sub(1).map(|last| segments[last]) else {
        return 0;
    };
    let left = work - segment.before;
    // Nothing passes any more: the last segment, or else the next one's `before` would be less too.
    if segment.rate == 0 {
        return u64::MAX;
    }
    let time = u64::try_from(left.div_ceil(u128::from(segment.rate))).unwrap_or(u64::MAX);
    segment.at.saturating_add(time)
}

#[cfg(test)]
mod tests;
