//! The bars: what altway's link has to reach. The one place where they stand.
//!
//! A missed bar is printed as missed; it fails nothing.

use super::topic::{By, Cell, Figure, Topic};
use crate::bench::summary::Spread;
use serde::Serialize;
use std::fmt;

/// The condition that a figure has to meet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    /// The median of the rounds.
    AtMost(f64),
    AtLeast(f64),
    /// The median of the rounds, above or below zero by so much at most.
    Within(f64),
    /// Each of the rounds.
    NeverAbove(f64),
    NeverBelow(f64),
}

impl Limit {
    pub(crate) fn is_met(self, spread: Spread) -> bool {
        match self {
            Self::AtMost(most) => spread.median <= most,
            Self::AtLeast(least) => spread.median >= least,
            Self::Within(most) => spread.median.abs() <= most,
            Self::NeverAbove(most) => spread.max <= most,
            Self::NeverBelow(least) => spread.min >= least,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "≤ {most}"),
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::Within(most) => write!(f, "± {most}"),
            Self::NeverAbove(most) => write!(f, "always ≤ {most}"),
            Self::NeverBelow(least) => write!(f, "always ≥ {least}"),
        }
    }
}

/// The bar of a figure; `None` of those that only tell more.
pub(crate) fn bar(cell: Cell, figure: Figure) -> Option<Limit> {
    use By::{Altway, AltwayNormal, Rattan};
    use Limit::{AtLeast, AtMost, NeverAbove, NeverBelow, Within};
    Some(match (cell.topic, cell.by, figure) {
        (Topic::Delay { .. }, Altway, Figure::ErrorUsP50) => AtMost(60.0),
        (Topic::Delay { ms: 25 }, Altway, Figure::ErrorUsP99) => AtMost(200.0),
        (Topic::Delay { ms: 25 }, AltwayNormal, Figure::ErrorUsP99) => AtMost(250.0),
        (Topic::Rate { .. }, Altway, Figure::RateErrorPercent) => Within(0.3),
        (Topic::Goodput { .. }, Altway, Figure::GoodputErrorPercent) => Within(0.5),
        (Topic::Loss { .. }, Altway, Figure::LossDeviations) => NeverAbove(2.0),
        (Topic::Loss { .. }, Altway, Figure::OthersLost) => NeverAbove(0.0),
        (Topic::LossyTcp, Altway, Figure::Retransmissions) => NeverBelow(1.0),
        (Topic::Unlimited, Altway, Figure::GoodputGbit) => AtLeast(2.5),
        (Topic::Unlimited, AltwayNormal, Figure::GoodputGbit) => AtLeast(1.0),
        (Topic::SetUp { .. }, Altway, Figure::MillisecondsP50) => AtMost(150.0),
        (Topic::SideBySide { processors: 2 }, Altway, Figure::InvalidLinks) => NeverAbove(0.0),
        (_, Rattan, Figure::ErrorRatioP50 | Figure::ErrorRatioP99 | Figure::GoodputRatio) => {
            AtLeast(2.0)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_kept_at_its_edge_and_not_beyond() {
        let spread = |min, median, max| Spread { median, min, max };
        assert!(Limit::AtMost(60.0).is_met(spread(1.0, 60.0, 99.0)));
        assert!(!Limit::AtMost(60.0).is_met(spread(1.0, 60.1, 99.0)));
        assert!(Limit::Within(0.3).is_met(spread(-9.0, -0.3, 0.0)));
        assert!(!Limit::Within(0.3).is_met(spread(-9.0, -0.31, 0.0)));
        assert!(!Limit::NeverAbove(0.0).is_met(spread(0.0, 0.0, 1.0)));
        assert!(!Limit::NeverBelow(1.0).is_met(spread(0.0, 5.0, 9.0)));
        assert!(Limit::AtLeast(2.5).is_met(spread(0.0, 2.5, 3.0)));
    }

    #[test]
    fn the_99th_percentile_has_a_bar_at_25_ms_only_and_by_priority() {
        let bar = |ms, by| {
            let topic = Topic::Delay { ms };
            bar(Cell { topic, by }, Figure::ErrorUsP99)
        };
        assert_eq!(bar(25, By::Altway), Some(Limit::AtMost(200.0)));
        assert_eq!(bar(25, By::AltwayNormal), Some(Limit::AtMost(250.0)));
        assert_eq!(bar(100, By::Altway), None);
        assert_eq!(bar(25, By::Rattan), None);
    }
}
