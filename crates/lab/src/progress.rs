//! The progress of a run: transfers done, time left, and the estimate so far.

use crate::scheduler::{RemainingTransfers, repeated};
use crate::side_by_side::Sharing;
use altway_record::{Arm, Cell, Connection, Plan, Protocol, Sample, TimeOut};
use altway_stats::hodges_lehmann;
use altway_units::Bandwidth;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time that every transfer costs beside the link: two processes' start and the look at the link.
const OVERHEAD: Duration = Duration::from_millis(150);

/// Time that a transfer costs beside when a browser is started and ended for it.
const BROWSER: Duration = Duration::from_secs(4);

/// Packet headers over the body, about: 52 of 1,500 bytes.
const HEADER_SHARE: f64 = 1.04;

/// Round trips of a transfer beside the body: handshake, request and a short slow start.
const ROUND_TRIPS: u32 = 4;

/// Bytes of body in a full packet.
const SEGMENT: f64 = 1_448.0;

/// Least time-out of a request where the plan leaves it to the link.
const MIN_AUTO_TIMEOUT: Duration = Duration::from_secs(60);

/// Multiple of the guess after which a request is cut off there: beyond it, something is broken.
const AUTO_TIMEOUT_FACTOR: u32 = 10;

/// A time-out of less than so many times the guess may cut off what is merely slow.
const TIGHT_TIMEOUT_FACTOR: u32 = 3;

/// Progress of a run after a transfer.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Planned transfers that are finished, those before a resume included.
    pub done: u64,
    /// Planned transfers; fewer when cells are known early.
    pub total: u64,
    /// Time that the rest will take, about.
    pub remaining: Duration,
    /// The estimate for the cell last measured, by the transfers so far; `None` before its first
    /// pair.
    pub estimate: Option<Estimate>,
}

/// The difference between a protocol and the plan's first one, so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The condition.
    pub cell: Cell,
    /// The protocol held against the first.
    pub protocol: Protocol,
    /// Pairs so far.
    pub pairs: u64,
    /// Difference in time, in per cent; below 0: faster than the plan's first protocol.
    pub difference_percent: f64,
}

/// The time that transfers take: the model's guess, corrected by the times seen.
#[derive(Debug, Clone, Default)]
pub struct DurationEstimate {
    seen: BTreeMap<(u32, Arm), (Duration, u32)>,
    seen_total: Duration,
    guessed_total: Duration,
    /// Sessions of a transfer but the first.
    further_sessions: u32,
}

impl DurationEstimate {
    /// The progress of a run of `plan` that has not begun.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        Self {
            further_sessions: u32::try_from(plan.apart.len()).unwrap_or(u32::MAX),
            ..Self::default()
        }
    }

    /// The model's guess of a whole transfer.
    fn guess(&self, cell: &Cell) -> Duration {
        guess(cell).saturating_mul(self.further_sessions.saturating_add(1))
    }

    /// A transfer took `wall`, all around it included.
    pub fn learn(&mut self, cell: &Cell, arm: Arm, wall: Duration) {
        let arm = repeated(arm);
        let (sum, count) = self.seen.entry((cell.index, arm)).or_default();
        *sum += wall;
        *count += 1;
        self.seen_total += wall;
        self.guessed_total += self.guess(cell);
    }

    /// Time that what is left will take.
    #[must_use]
    pub fn predict(&self, left: &[RemainingTransfers]) -> Duration {
        let one = |left: &RemainingTransfers| match self.seen.get(&(left.cell.index, left.arm)) {
            Some((sum, count)) => *sum / *count,
            None => self.guess(&left.cell).mul_f64(self.correction()),
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "counts of transfers are below 2^53"
        )]
        let seconds = left
            .iter()
            .map(|left| one(left).as_secs_f64() * left.count as f64);
        Duration::try_from_secs_f64(seconds.sum()).unwrap_or(Duration::MAX)
    }

    /// The same where the transfers of some cells are made by so many workers at once.
    #[must_use]
    pub(crate) fn predict_shared(
        &self,
        left: &[RemainingTransfers],
        workers: u32,
        sharing: &Sharing,
    ) -> Duration {
        let (shared, others): (Vec<RemainingTransfers>, Vec<RemainingTransfers>) =
            left.iter().partition(|left| sharing.has(&left.cell));
        self.predict(&shared) / workers.max(1) + self.predict(&others)
    }

    fn correction(&self) -> f64 {
        if self.guessed_total.is_zero() {
            return 1.0;
        }
        self.seen_total.as_secs_f64() / self.guessed_total.as_secs_f64()
    }
}

/// The times that count so far, by cell, protocol and block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times(BTreeMap<(u32, Protocol), BTreeMap<u32, u64>>);

impl Times {
    /// Takes in a transfer's first row.
    pub(crate) fn add(&mut self, sample: &Sample) {
        let time = sample
            .compared_us
            .filter(|_| sample.valid && !sample.null_arm && !sample.is_chosen());
        if let Some(time) = time {
            let arm = self.0.entry((sample.cell, sample.protocol)).or_default();
            arm.insert(sample.block, time);
        }
    }

    /// The estimate for `cell` and `protocol` against `first`, by the times so far.
    pub(crate) fn estimate(
        &self,
        cell: Cell,
        protocol: Protocol,
        first: Protocol,
    ) -> Option<Estimate> {
        let times = |protocol| self.0.get(&(cell.index, protocol));
        let (first, other) = (times(first)?, times(protocol)?);
        let log_ratio = |(block, time): (&u32, &u64)| {
            #[expect(
                clippy::cast_precision_loss,
                reason = "microseconds of a transfer fit 2^53"
            )]
            first
                .get(block)
                .map(|base| (*time as f64 / *base as f64).ln())
        };
        let log_ratios: Vec<f64> = other.iter().filter_map(log_ratio).collect();
        let difference_percent = (hodges_lehmann(&log_ratios)?.exp() - 1.0) * 100.0;
        Some(Estimate {
            cell,
            protocol,
            pairs: log_ratios.len() as u64,
            difference_percent,
        })
    }
}

/// Time that a transfer of the cell takes, before any was seen.
pub(crate) fn guess(cell: &Cell) -> Duration {
    let on_the_link = cell
        .rate
        .limit()
        .map_or(Duration::ZERO, |rate| cell.size / rate)
        .max(lossy_pace(cell).map_or(Duration::ZERO, |rate| cell.size / rate));
    let opener = u32::from(cell.connection == Connection::Warm);
    let around = match cell.client.is_browser() {
        true => OVERHEAD + BROWSER,
        false => OVERHEAD,
    };
    on_the_link.mul_f64(HEADER_SHARE) + cell.delay * 2 * (ROUND_TRIPS + opener) + around
}

/// Time that a request of the cell may take.
pub(crate) fn request_timeout(plan: &Plan, cell: &Cell) -> Duration {
    match plan.timeout {
        TimeOut::After(time) => time,
        TimeOut::Auto => (guess(cell) * AUTO_TIMEOUT_FACTOR).max(MIN_AUTO_TIMEOUT),
    }
}

/// Returns whether the plan's time-out may cut off transfers of the cell that are slow and nothing else.
pub(crate) fn has_tight_timeout(plan: &Plan, cell: &Cell) -> bool {
    request_timeout(plan, cell) < guess(cell) * TIGHT_TIMEOUT_FACTOR
}

/// The rate that random loss lets a connection have, about: a segment a round trip times the root of 1.5
/// over the loss (Mathis, Semke, Mahdavi, Ott: The macroscopic behavior of the TCP congestion avoidance
/// algorithm, 1997). `None` without loss, or without delay.
pub(crate) fn lossy_pace(cell: &Cell) -> Option<Bandwidth> {
    let window = SEGMENT * 8.0 * (1.5 / cell.loss.as_f64()).sqrt();
    let pace = window / (2.0 * cell.delay.as_secs_f64());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is finite and above 0"
    )]
    let pace = pace.is_finite().then_some(pace as u64)?;
    Bandwidth::from_bps(pace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::schedule;
    use altway_record::{CSV_HEADER, Plan, Shard, read_samples};

    fn plan() -> Plan {
        let text = "name = \"p\"\nrate = \"8mbit\"\ndelay = [\"0ms\", \"100ms\"]\nsize = \"1MB\"\npairs = 1\nnull_arm = false";
        text.parse().unwrap()
    }

    fn left() -> Vec<RemainingTransfers> {
        crate::Scheduler::new(&plan(), Shard::WHOLE, &[]).left()
    }

    #[test]
    fn guesses_from_size_rate_and_delay_before_anything_was_seen() {
        // Two at 1.04 s + 0.15 s, two at 1.04 s + 0.8 s + 0.15 s.
        let predicted = DurationEstimate::default().predict(&left());
        assert_eq!(predicted, Duration::from_millis(6_360));
    }

    #[test]
    fn each_session_takes_as_long_as_the_first() {
        let text = "name = \"p\"\nrate = \"8mbit\"\ndelay = \"0ms\"\nsize = \"1MB\"\npairs = 1\n\
                    null_arm = false\npolicy = [\"h2\", \"h3\"]";
        let plan: Plan = text.parse().unwrap();
        let left = crate::Scheduler::new(&plan, Shard::WHOLE, &[]).left();
        // Two arms of three sessions, 1.04 s + 0.15 s each.
        let predicted = DurationEstimate::of(&plan).predict(&left);
        assert_eq!(predicted, Duration::from_millis(7_140));
    }

    #[test]
    fn loss_on_a_long_path_makes_transfers_longer() {
        let pace = |more: &str| {
            let text =
                format!("name = \"p\"\nrate = \"100mbit\"\nsize = \"1MB\"\npairs = 1\n{more}");
            let plan: Plan = text.parse().unwrap();
            let cell = plan.cells()[0];
            (lossy_pace(&cell), guess(&cell))
        };
        let (none, without) = pace("delay = \"25ms\"");
        assert_eq!(
            (none, pace("delay = \"0ms\"\nloss = \"3%\"").0),
            (None, None)
        );
        let (lossy, with) = pace("delay = \"25ms\"\nloss = \"1%\"");
        // 12.2 segments in 50 ms.
        let mbit = lossy.unwrap().as_bps() / 100_000;
        assert_eq!(mbit, 28);
        assert!(with > without + Duration::from_secs(2), "{with:?}");
    }

    #[test]
    fn a_time_out_is_far_from_what_the_link_needs_unless_the_plan_says_it() {
        let with = |more: &str| {
            let text =
                format!("name = \"p\"\nrate = \"10mbit\"\ndelay = \"50ms\"\npairs = 1\n{more}");
            let plan: Plan = text.parse().unwrap();
            let cell = plan.cells()[0];
            (
                request_timeout(&plan, &cell),
                has_tight_timeout(&plan, &cell),
            )
        };
        assert_eq!(with("size = \"1MB\""), (MIN_AUTO_TIMEOUT, false));
        let (request_timeout, hurried) = with("size = \"5MB\"\nloss = \"3%\"");
        assert!(
            request_timeout > Duration::from_secs(480),
            "{request_timeout:?}"
        );
        assert!(!hurried);
        let minute = "timeout = \"1min\"\nsize = \"5MB\"";
        assert_eq!(with(minute), (MIN_AUTO_TIMEOUT, false));
        assert!(with(&format!("{minute}\nloss = \"3%\"")).1);
    }

    #[test]
    fn what_was_seen_corrects_the_guess() {
        let first = schedule(&plan(), Shard::WHOLE)[0];
        let mut pace = DurationEstimate::default();
        pace.learn(&first.cell, first.arm, guess(&first.cell) * 2);
        let predicted = pace.predict(&left()).as_secs_f64();
        assert!((predicted - 2.0 * 6.36).abs() < 1e-6, "{predicted}");
        pace.learn(&first.cell, first.arm, guess(&first.cell) * 4);
        let of_first = RemainingTransfers {
            cell: first.cell,
            arm: first.arm,
            count: 1,
        };
        assert_eq!(pace.predict(&[of_first]), guess(&first.cell) * 3);
    }

    #[test]
    fn the_estimate_pairs_transfers_of_the_same_block() {
        let row = |block, protocol, total, valid| {
            format!(
                "0,{block},0,1,0,1,{protocol},false,,direct,altway,altway,cubic,10,ecdsa,true,cold,plain,default,8000000,0,0,1,0,0,0,1,1,{total},{total},1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,,,,0,,{valid},\n"
            )
        };
        let rows = [
            row(0, "h2", 1_000, true),
            row(0, "h3", 900, true),
            row(1, "h2", 1_000, true),
            row(1, "h3", 500, false),
        ];
        let samples = read_samples(&format!("{CSV_HEADER}{}", rows.concat())).unwrap();
        let cell = plan().cells()[0];
        let mut times = Times::default();
        samples.iter().for_each(|sample| times.add(sample));
        let estimate = times.estimate(cell, Protocol::H3, Protocol::H2).unwrap();
        assert_eq!(estimate.pairs, 1);
        assert!((estimate.difference_percent + 10.0).abs() < 1e-9);
        let other = plan().cells()[1];
        assert_eq!(times.estimate(other, Protocol::H3, Protocol::H2), None);
    }
}
