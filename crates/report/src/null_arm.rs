//! Joint verdict of the null arms of a run, or of several: can their intervals be believed?

use crate::analysis::Analysis;
use crate::judge::LEVEL;
use crate::{Error, Run, words};
use altway_record::Protocol;
use altway_stats::NullArm;
use serde::Serialize;

/// Number of cells whose intervals say that a protocol differs from itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NullCheck {
    /// The protocol that was held against itself.
    pub protocol: Protocol,
    /// Cells with enough pairs for an interval.
    pub cells: usize,
    /// Cells whose 95 % interval leaves 0 out.
    pub flagged: usize,
    /// Chance of so many or more if all is well, 0 to 1.
    pub chance: f64,
    /// True if luck no longer explains them: a chance below one in a hundred.
    pub suspect: bool,
}

impl NullCheck {
    fn new(protocol: Protocol, cells: usize, flagged: usize) -> Option<Self> {
        let arm = NullArm::new(cells, flagged, LEVEL)?;
        Some(Self {
            protocol,
            cells,
            flagged,
            chance: arm.chance,
            suspect: arm.is_suspect(),
        })
    }

    /// Adds the checks of several runs up; `None` without any, or when they are not all of one protocol.
    #[must_use]
    pub fn together(checks: &[Self]) -> Option<Self> {
        let first = checks.first()?;
        let alike = checks.iter().all(|one| one.protocol == first.protocol);
        let sum = |of: fn(&Self) -> usize| checks.iter().map(of).sum();
        alike.then(|| Self::new(first.protocol, sum(|one| one.cells), sum(|one| one.flagged)))?
    }

    /// `HTTP/2 against itself: 9 of 180 intervals exclude 0 (5.0 %, at most 5 % expected)`, and what
    /// follows.
    #[must_use]
    pub fn sentence(&self) -> String {
        let (name, flagged) = (self.protocol.name(), self.flagged);
        if self.cells == 0 {
            return format!("{name} against itself: too few pairs for an interval.");
        }
        let share = 100.0 * flagged as f64 / self.cells as f64;
        let counted = format!(
            "{name} against itself (null arm): {flagged} of {} intervals exclude 0 ({share:.1} %; 5 % do by \
             luck)",
            self.cells
        );
        if flagged == 0 {
            return format!("{counted}.");
        }
        let chance = words::chance(self.chance);
        let follows = match self.suspect {
            true => ": believe no verdict before the cause is found",
            false => "",
        };
        format!("{counted}. As many or more come by luck in {chance} of sound runs{follows}.")
    }
}

/// Counts what the null arms of a run say; `None` when its plan has none.
///
/// # Errors
/// A sample that does not belong to the plan.
pub fn null_check(run: &Run<'_>) -> Result<Option<NullCheck>, Error> {
    Ok(of_analysis(&Analysis::of_cells(run)?))
}

/// The same as [`null_check`], for a run that is computed already.
pub(crate) fn of_analysis(analysis: &Analysis<'_>) -> Option<NullCheck> {
    if !analysis.run.manifest.plan.null_arm {
        return None;
    }
    let pairings = || {
        analysis
            .cells
            .iter()
            .filter_map(|cell| cell.null_pairing.as_ref())
    };
    let flagged = pairings().filter(|pairing| pairing.excludes_zero());
    NullCheck::new(analysis.baseline, pairings().count(), flagged.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cells: usize, flagged: usize) -> NullCheck {
        NullCheck::new(Protocol::H2, cells, flagged).unwrap()
    }

    #[test]
    fn the_sentence_counts_and_says_what_luck_does() {
        let text =
            "HTTP/2 against itself (null arm): 0 of 9 intervals exclude 0 (0.0 %; 5 % do by luck).";
        assert_eq!(check(9, 0).sentence(), text);
        let one = check(9, 1).sentence();
        assert!(
            one.ends_with("As many or more come by luck in 37 % of sound runs."),
            "{one}"
        );
        let five = check(9, 5).sentence();
        assert!(
            five.contains("in less than 0.1 % of sound runs: believe no verdict"),
            "{five}"
        );
        assert!(check(0, 0).sentence().contains("too few pairs"));
    }

    #[test]
    fn runs_are_added_up_only_when_they_are_of_one_protocol() {
        let both = NullCheck::together(&[check(90, 3), check(90, 6)]).unwrap();
        assert_eq!((both.cells, both.flagged, both.suspect), (180, 9, false));
        assert_eq!(NullCheck::together(&[]), None);
        let other = NullCheck {
            protocol: Protocol::H1,
            ..check(9, 0)
        };
        assert_eq!(NullCheck::together(&[check(9, 0), other]), None);
    }
}
