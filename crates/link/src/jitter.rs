//! Jitter: how far the delay of single packets strays.

use crate::normal;
use std::time::Duration;

/// Amount by which the delay of single packets strays from the link's.
///
/// The mean of all distributions is 0, so the mean delay stays what it is, with two exceptions. No
/// delay is negative: where the spread is large beside the delay, what would be is 0, and the mean
/// grows. And a link that keeps the order of its packets lets none out before the one in front of it,
/// which moves the mean too, the more the closer together packets are.
///
/// Worked number: a delay of 25 ms, a uniform spread of 5 ms, and a packet each millisecond. A link that
/// may reorder delays by 25.00 ms in the mean, and 59 % of the packets arrive after a later one; a link
/// that keeps the order delays by 26.87 ms (both measured over 200,000 packets). With a packet each 10 ms, which is the whole width of the
/// spread, nothing overtakes, and both delay by 25.00 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Jitter {
    /// Measure of the spread: the half width of [`Uniform`](Distribution::Uniform), else the standard
    /// deviation. Zero for no jitter.
    pub spread: Duration,
    /// Distribution of the strayed delays.
    pub distribution: Distribution,
    /// True if packets may overtake each other. The default is that they keep their order, as they do
    /// on most paths: what varies there is the time spent in queues.
    pub may_reorder: bool,
}

/// Distribution of the delay of single packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Distribution {
    /// Evenly from −spread to +spread.
    #[default]
    Uniform,
    /// Normally, with the spread as standard deviation; cut at ±4.90 of them, a packet in a million.
    Normal,
    /// A Pareto distribution of shape 3, with the spread as standard deviation: few packets are very
    /// late, as on radio links. Nothing is earlier than −0.577 spreads; 1 packet in 100 comes more than
    /// 3.63 spreads late, 1 in 10,000 more than 23. Cut at +115 of them, a packet in a million.
    Pareto,
}

/// Parts of 1 in which a Pareto variable is counted.
const PARETO_ONE: i64 = 1 << 20;
/// The inverse of the standard deviation √3 / 2 of a Pareto variable of shape 3 and scale 1, in parts
/// of a billion.
const PARETO_PER_SIGMA: i128 = 1_154_700_538;
/// A Pareto variable is cut where it is exceeded with a probability of 2^-20.
const PARETO_CUT: u64 = 1 << 44;

impl Jitter {
    /// `delay` as these 64 random bits change it. The greater the bits as a number, the longer it gets.
    pub(crate) fn apply(&self, delay: Duration, draw: u64) -> Duration {
        if self.spread.is_zero() {
            return delay;
        }
        // Whoever asks for more than 146 years gets that.
        let spread = i64::try_from(self.spread.as_nanos()).unwrap_or(i64::MAX) / 2;
        let spread = i128::from(spread) * 2;
        let offset = match self.distribution {
            Distribution::Uniform => uniform(draw, spread),
            Distribution::Normal => {
                spread * i128::from(normal::quantile(draw)) / i128::from(normal::SIGMA)
            }
            Distribution::Pareto => pareto(draw, spread),
        };
        let nanos = i128::try_from(delay.as_nanos()).unwrap_or(i128::MAX);
        let nanos = nanos.saturating_add(offset).max(0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn uniform(draw: u64, spread: i128) -> i128 {
    // At most 2^64 × (2^64 − 1), which an i128 would not hold.
    let width = spread.unsigned_abs() * 2 + 1;
    let scaled = (u128::from(draw) * width) >> 64;
    i128::try_from(scaled).expect("below 2^64") - spread
}

/// Mean 1.5 and standard deviation √3 / 2 are brought to 0 and the spread.
fn pareto(draw: u64, spread: i128) -> i128 {
    let tail = u128::from((!draw).max(PARETO_CUT));
    // (tail / 2^64)^(-1/3), in parts of PARETO_ONE = 2^20: the cube root of 2^64 × 2^60 / tail.
    let value = cube_root((1 << 124) / tail);
    let above_mean = i128::from(value) - i128::from(PARETO_ONE * 3 / 2);
    above_mean * PARETO_PER_SIGMA / 1_000 * spread / (i128::from(PARETO_ONE) * 1_000_000)
}

/// The cube root, rounded down, of a number of up to 84 bits.
fn cube_root(number: u128) -> i64 {
    let mut root: u64 = 0;
    for bit in (0..28).rev() {
        let more = root | 1 << bit;
        if u128::from(more).pow(3) <= number {
            root = more;
        }
    }
    root as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::Streams;
    use proptest::prelude::*;
    use rand_core::Rng;

    const SPREAD: Duration = Duration::from_millis(5);
    const DELAY: Duration = Duration::from_secs(1);

    fn jitter(distribution: Distribution) -> Jitter {
        Jitter {
            spread: SPREAD,
            distribution,
            may_reorder: true,
        }
    }

    /// Returns how much later than the mean a packet is, in spreads, for a million draws.
    fn offsets(distribution: Distribution) -> Vec<f64> {
        let mut generator = Streams::new(7).next();
        let jitter = jitter(distribution);
        let mut offset = || {
            let delay = jitter.apply(DELAY, generator.next_u64());
            (delay.as_secs_f64() - DELAY.as_secs_f64()) / SPREAD.as_secs_f64()
        };
        (0..1_000_000).map(|_| offset()).collect()
    }

    fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        (mean, square.sqrt())
    }

    /// The share of the values above a limit.
    fn above(values: &[f64], limit: f64) -> f64 {
        values.iter().filter(|v| **v > limit).count() as f64 / values.len() as f64
    }

    #[test]
    fn uniform_is_even_between_its_bounds() {
        let offsets = offsets(Distribution::Uniform);
        let (mean, deviation) = mean_and_deviation(&offsets);
        assert!(mean.abs() < 0.003, "{mean}");
        assert!((deviation - 3_f64.sqrt().recip()).abs() < 0.002);
        assert!((above(&offsets, 0.5) - 0.25).abs() < 0.003);
        assert!(offsets.iter().all(|offset| offset.abs() < 1.000_001));
    }

    #[test]
    fn normal_has_the_spread_as_standard_deviation() {
        let offsets = offsets(Distribution::Normal);
        let (mean, deviation) = mean_and_deviation(&offsets);
        assert!(mean.abs() < 0.005, "{mean}");
        assert!((deviation - 1.0).abs() < 0.005, "{deviation}");
        // The normal distribution's tails, each within five standard deviations.
        assert!((above(&offsets, 1.0) - 0.158_655).abs() < 0.002);
        assert!((above(&offsets, 3.0) - 0.001_350).abs() < 0.000_2);
    }

    #[test]
    fn pareto_is_late_now_and_then_and_never_very_early() {
        let offsets = offsets(Distribution::Pareto);
        let (mean, deviation) = mean_and_deviation(&offsets);
        assert!(mean.abs() < 0.005, "{mean}");
        // The fourth moment is infinite, so the sample's deviation converges slowly.
        assert!((0.95..1.1).contains(&deviation), "{deviation}");
        let least = offsets.iter().copied().fold(f64::INFINITY, f64::min);
        assert!((least + 0.577_35).abs() < 1e-4, "{least}");
        assert!((above(&offsets, 3.627) - 0.01).abs() < 0.000_5);
        assert!((above(&offsets, 23.14) - 0.000_1).abs() < 0.000_05);
    }

    /// Recorded runs name a seed, so these values must never change, whatever the platform.
    #[test]
    fn these_draws_give_these_nanoseconds_for_ever() {
        let nanos = |distribution| {
            let draws = [0, 1 << 60, 1 << 62, 0xdead_beef_dead_beef, u64::MAX];
            draws.map(|draw| jitter(distribution).apply(DELAY, draw).as_nanos())
        };
        assert_eq!(
            nanos(Distribution::Uniform),
            [
                995_000_000,
                995_625_000,
                997_500_000,
                1_003_698_387,
                1_005_000_000
            ]
        );
        assert_eq!(
            nanos(Distribution::Normal),
            [
                975_495_179,
                992_329_398,
                996_627_552,
                1_005_629_013,
                1_024_504_821
            ]
        );
        assert_eq!(
            nanos(Distribution::Pareto),
            [
                997_113_249,
                997_238_798,
                997_694_307,
                1_002_732_059,
                1_577_891_055
            ]
        );
    }

    #[test]
    fn no_delay_is_negative() {
        let delay = jitter(Distribution::Normal).apply(Duration::from_millis(1), 0);
        assert_eq!(delay, Duration::ZERO);
    }

    proptest! {
        #[test]
        fn a_greater_draw_is_never_a_shorter_delay(nanos: u64, spread: u64, draws: [u64; 2]) {
            let delay = Duration::from_nanos(nanos);
            for distribution in [Distribution::Uniform, Distribution::Normal, Distribution::Pareto] {
                let spread = Duration::from_nanos(spread);
                let jitter = Jitter { spread, distribution, may_reorder: false };
                let [less, more] = [draws[0].min(draws[1]), draws[0].max(draws[1])];
                prop_assert!(jitter.apply(delay, less) <= jitter.apply(delay, more));
            }
        }
    }
}
