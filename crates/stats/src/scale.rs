//! Spacing of the places along an axis, for interpolation.

/// Spacing of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scale {
    /// Places as they are: for delays.
    #[default]
    Linear,
    /// ln(1 + x): for loss in per cent, whose first per cent does more than the fifth. Only for
    /// places that are not negative.
    Log1p,
}

impl Scale {
    /// Returns whether a place can stand on an axis of this scale.
    pub(crate) fn allows(self, place: f64) -> bool {
        place.is_finite() && (self == Self::Linear || place >= 0.0)
    }

    /// Converts from the axis' unit to evenly spaced.
    ///
    /// ```
    /// use altway_stats::Scale;
    /// assert_eq!(Scale::Linear.apply(5.0), 5.0);
    /// assert_eq!(Scale::Log1p.apply(0.0), 0.0);
    /// ```
    #[must_use]
    pub fn apply(self, place: f64) -> f64 {
        match self {
            Self::Linear => place,
            Self::Log1p => place.ln_1p(),
        }
    }

    /// Back to the axis' unit.
    pub(crate) fn invert(self, spaced: f64) -> f64 {
        match self {
            Self::Linear => spaced,
            Self::Log1p => spaced.exp_m1(),
        }
    }
}
