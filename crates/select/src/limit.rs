//! The limit of a class of clients: bit/s that they take over QUIC, whatever their paths carry.
//!
//! Learnt from clients whose rate is known over both transports, on a grid of likelihoods. Who may vote, and
//! how often, is decided where clients are known by their prefixes; here each vote counts, but an odd one
//! counts little (Student's t with three degrees of freedom).

/// Points of the grid.
const POINTS: usize = 40;

/// Bit/s of the grid's ends.
const ENDS: (f64, f64) = (5e7, 6e9);

/// Width of a vote: ln of the spread of devices and measurements.
const VOTE_WIDTH: f64 = 0.4;

/// Degrees of freedom of a vote's distribution.
const DEGREES_OF_FREEDOM: f64 = 3.0;

/// Width of the prior of a class that was measured: ln.
pub(crate) const MEASURED: f64 = 0.7;

/// Width of the prior of a class that was not: ln.
pub(crate) const UNMEASURED: f64 = 1.0;

/// The rate in bit/s at which a client that takes `limit` bit/s at most receives over a path of `rate` bit/s: the smaller of both, a
/// little less where they are close.
#[must_use]
pub fn limited_rate(rate: f64, limit: f64) -> f64 {
    let (low, high) = if rate < limit {
        (rate, limit)
    } else {
        (limit, rate)
    };
    low * (1.0 + (low / high).powi(3)).cbrt().recip()
}

/// The rate that with `limit` gives `joined`: at most three times that, for close to the limit it is not
/// known.
#[must_use]
pub(crate) fn separate(joined: f64, limit: f64) -> f64 {
    let share = (1.0 - (joined / limit).powi(3)).max(3f64.powi(-3));
    joined / share.cbrt()
}

/// Likelihoods of a class's limit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grid {
    /// ln of the limit that is expected beforehand, and its width.
    prior: (f64, f64),
    /// ln-likelihood of the votes at each point.
    votes: [f32; POINTS],
}

impl Grid {
    /// A class of which nothing has been seen. `limit`: bit/s that are expected beforehand; `width`: ln.
    #[must_use]
    pub(crate) fn new(limit: f64, width: f64) -> Self {
        Self {
            prior: (limit.clamp(ENDS.0, ENDS.1).ln(), width),
            votes: [0.0; POINTS],
        }
    }

    /// Counts a client with a rate of `rate3` over QUIC and `rate2` over TCP, in bit/s.
    pub(crate) fn vote(&mut self, rate2: f64, rate3: f64) {
        let (Some(rate2), Some(rate3)) = (plausible(rate2), plausible(rate3)) else {
            return;
        };
        for (point, votes) in self.votes.iter_mut().enumerate() {
            let off = (rate3 / limited_rate(rate2, at(point))).ln();
            let odds = off * off / (DEGREES_OF_FREEDOM * VOTE_WIDTH * VOTE_WIDTH);
            *votes -= (f64::midpoint(DEGREES_OF_FREEDOM, 1.0) * odds.ln_1p()) as f32;
        }
    }

    /// Forgets: what was voted `half_lives` ago counts half as much for each.
    pub(crate) fn age(&mut self, half_lives: f64) {
        let kept = (-half_lives.max(0.0)).exp2() as f32;
        for votes in &mut self.votes {
            *votes *= kept;
        }
    }

    /// The limit in bit/s: the mean of its ln.
    #[must_use]
    pub(crate) fn value(&self) -> f64 {
        let (expected, width) = self.prior;
        let posterior = |point: usize| {
            let off = (at(point).ln() - expected) / width;
            f64::from(self.votes[point]) - 0.5 * off * off
        };
        let best = (0..POINTS).map(posterior).fold(f64::MIN, f64::max);
        let (sum, weights) = (0..POINTS).fold((0.0, 0.0), |(sum, weights), point| {
            let weight = (posterior(point) - best).exp();
            (sum + weight * at(point).ln(), weights + weight)
        });
        (sum / weights).exp()
    }

    /// Bit/s that were expected beforehand.
    #[must_use]
    pub(crate) fn prior(&self) -> f64 {
        self.prior.0.exp()
    }

    /// ln-likelihoods of the votes, to be kept.
    #[must_use]
    pub(crate) fn votes(&self) -> &[f32] {
        &self.votes
    }

    /// Takes up kept votes; `false` if they are none.
    pub(crate) fn restore(&mut self, votes: &[f32]) -> bool {
        let fits =
            votes.len() == POINTS && votes.iter().all(|vote| vote.is_finite() && *vote <= 0.0);
        if fits {
            self.votes.copy_from_slice(votes);
        }
        fits
    }
}

/// Bit/s at a point of the grid.
fn at(point: usize) -> f64 {
    let step = point as f64 / (POINTS - 1) as f64;
    ENDS.0 * (ENDS.1 / ENDS.0).powf(step)
}

fn plausible(rate: f64) -> Option<f64> {
    (rate.is_finite() && rate >= 1.0).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_class_begins_where_it_is_expected() {
        let limit = Grid::new(735e6, MEASURED).value();
        assert!((limit / 735e6).ln().abs() < 0.05, "{limit}");
    }

    #[test]
    fn votes_lead_to_the_limit() {
        let mut grid = Grid::new(735e6, MEASURED);
        for _ in 0..50 {
            grid.vote(900e6, limited_rate(900e6, 260e6));
        }
        assert!((grid.value() / 260e6).ln().abs() < 0.1, "{}", grid.value());
    }

    #[test]
    fn votes_over_slow_paths_say_nothing_of_a_high_limit() {
        let mut grid = Grid::new(735e6, MEASURED);
        for _ in 0..50 {
            grid.vote(20e6, 20e6);
        }
        assert!(grid.value() > 500e6, "{}", grid.value());
    }

    #[test]
    fn a_few_odd_votes_move_little() {
        let mut grid = Grid::new(735e6, MEASURED);
        for vote in 0..100 {
            let rate3 = if vote % 20 == 0 {
                5e6
            } else {
                limited_rate(900e6, 735e6)
            };
            grid.vote(900e6, rate3);
        }
        assert!((grid.value() / 735e6).ln().abs() < 0.1, "{}", grid.value());
    }

    #[test]
    fn what_is_forgotten_makes_room() {
        let mut grid = Grid::new(735e6, MEASURED);
        for _ in 0..100 {
            grid.vote(900e6, limited_rate(900e6, 450e6));
        }
        grid.age(6.0);
        for _ in 0..20 {
            grid.vote(900e6, limited_rate(900e6, 180e6));
        }
        assert!((grid.value() / 180e6).ln().abs() < 0.2, "{}", grid.value());
    }

    proptest! {
        #[test]
        fn joined_rates_come_apart_again(rate in 1e6..1e9f64, limit in 2e7..6e9f64) {
            let joined = limited_rate(rate, limit);
            prop_assert!(joined <= rate && joined <= limit);
            let apart = separate(joined, limit);
            prop_assert!(apart >= joined * 0.999 && apart <= 3.001 * joined);
            if rate < 2.0 * limit {
                prop_assert!((apart / rate).ln().abs() < 1e-6);
            }
        }

        #[test]
        fn the_limit_stays_on_the_grid_whatever_is_voted(
            votes in prop::collection::vec((any::<f64>(), any::<f64>()), 0..50), aged in any::<f64>(),
        ) {
            let mut grid = Grid::new(735e6, MEASURED);
            for (rate2, rate3) in votes {
                grid.vote(rate2, rate3);
            }
            if !aged.is_nan() {
                grid.age(aged);
            }
            prop_assert!((4.9e7..6.1e9).contains(&grid.value()), "{}", grid.value());
        }

        #[test]
        fn a_higher_vote_never_lowers_the_limit(rate3 in 5e7..8e8f64) {
            let value = |rate3| {
                let mut grid = Grid::new(735e6, MEASURED);
                grid.vote(1e9, rate3);
                grid.value()
            };
            prop_assert!(value(rate3 * 1.02) >= value(rate3) * 0.98);
        }
    }
}
