//! The null arm: one protocol measured against itself.
//!
//! The true difference is 0, so its intervals tell whether the intervals of the same run can be
//! believed. A 95 % interval leaves 0 out in one of 20 cells by luck alone; a run is suspect when
//! there are more of them than luck explains.

use crate::bootstrap::Bootstrap;
use crate::comparison::{CompareOptions, Comparison, IntervalMethod, compare_log_ratios};
use statrs::distribution::{Binomial, DiscreteCDF};

/// Chance below which the flags of a whole run are no luck any more.
const SUSPECT_BELOW: f64 = 0.01;

/// Result of the null arm of one cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NullCell {
    /// The arm compared with itself, with the signed-rank interval.
    pub comparison: Comparison,
    /// The interval leaves 0 out: what else was measured in this cell is to be read with doubt.
    pub flagged: bool,
}

/// Checks the null arm of a cell: `log_ratios` are ln(second / first) of one protocol against
/// itself.
///
/// Takes [`IntervalMethod::SignedRank`] whatever method the cell's verdict takes, because its promise
/// is exact here: log-ratios of two transfers that differ in nothing are symmetric about 0 whatever
/// the noise. At most 1 − `level` of sound cells are flagged.
///
/// `None` when there are too few pairs for the level (below six for 0.95), when a log-ratio is not
/// finite, or when the level is not between 0 and 1.
#[must_use]
pub fn check_null(log_ratios: &[f64], level: f64) -> Option<NullCell> {
    let options = CompareOptions {
        interval: IntervalMethod::SignedRank,
        bootstrap: Bootstrap {
            level,
            ..Bootstrap::default()
        },
        ..CompareOptions::default()
    };
    let comparison = compare_log_ratios(log_ratios, &options)?;
    let flagged = !comparison.interval?.contains(0.0);
    Some(NullCell {
        comparison,
        flagged,
    })
}

/// Result of the null arms of all cells of a run together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NullArm {
    /// Cells that were checked.
    pub cells: usize,
    /// Cells whose interval leaves 0 out.
    pub flagged: usize,
    /// Chance of so many flags or more if all is well, 0 to 1.
    pub chance: f64,
}

impl NullArm {
    /// Counts the flags of cells checked at `level`; `None` when the level is not between 0 and 1.
    ///
    /// ```
    /// let arm = altway_stats::NullArm::new(36, 4, 0.95).expect("a level between 0 and 1");
    /// assert!(!arm.is_suspect(), "four of 36 are luck: {}", arm.chance);
    /// let arm = altway_stats::NullArm::new(36, 8, 0.95).expect("a level between 0 and 1");
    /// assert!(arm.is_suspect());
    /// ```
    #[must_use]
    pub fn new(cells: usize, flagged: usize, level: f64) -> Option<Self> {
        if !(level > 0.0 && level < 1.0) {
            return None;
        }
        let flags = Binomial::new(1.0 - level, cells as u64).ok()?;
        let fewer = flagged.checked_sub(1);
        let chance = fewer.map_or(1.0, |fewer| flags.sf(fewer as u64));
        Some(Self {
            cells,
            flagged,
            chance,
        })
    }

    /// Returns whether luck no longer explains the flags: a chance below one in a hundred. Then no verdict of
    /// the run is to be believed before the cause is found.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.chance < SUSPECT_BELOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_without_zero_flags_the_cell() {
        let off: Vec<f64> = (1..=12).map(|i| f64::from(i) / 100.0).collect();
        assert!(check_null(&off, 0.95).unwrap().flagged);
        let around: Vec<f64> = (1..=12).map(|i| (f64::from(i) - 6.5) / 100.0).collect();
        assert!(!check_null(&around, 0.95).unwrap().flagged);
    }

    #[test]
    fn too_few_pairs_say_nothing() {
        assert_eq!(check_null(&[0.1; 5], 0.95), None);
        assert_eq!(check_null(&[0.1; 6], 1.0), None);
        assert!(check_null(&[0.1; 6], 0.95).is_some());
    }

    #[test]
    fn no_flag_is_no_surprise() {
        let arm = NullArm::new(20, 0, 0.95).unwrap();
        assert_eq!(arm.chance, 1.0);
        assert_eq!(NullArm::new(0, 0, 0.95).unwrap().chance, 1.0);
        assert_eq!(NullArm::new(20, 1, f64::NAN), None);
        // 1 − 0.95^20
        let one = NullArm::new(20, 1, 0.95).unwrap();
        assert!((one.chance - 0.641_514).abs() < 1e-6);
    }
}
