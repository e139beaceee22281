//! Sentences about many cells at once: who wins how many, and where the extremes lie.

use super::dimensions::Names;
use crate::analysis::{Analysis, CellResult, Pairing};
use crate::verdict::{Verdict, Verdictless, has_sign};
use crate::words;
use altway_record::Protocol;
use altway_stats::Winner;

/// Number of cells that each side won, as the tables have it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) tie: usize,
    /// Undecided: the interval holds 0.
    pub(super) open: usize,
    /// Undecided: the difference is sure, but not beyond the margin.
    pub(super) little: usize,
    /// Undecided: too few pairs.
    pub(super) few: usize,
}

impl Count {
    pub(super) fn of<'b, 'r: 'b>(pairings: impl Iterator<Item = &'b Pairing<'r>>) -> Self {
        let mut count = Self::default();
        for pairing in pairings {
            *match (pairing.comparison.winner, Verdictless::of(pairing)) {
                (_, Some(Verdictless::FewPairs)) => &mut count.few,
                (_, Some(Verdictless::Little)) => &mut count.little,
                (_, Some(Verdictless::HoldsZero)) => &mut count.open,
                (Winner::First, None) => &mut count.first,
                (Winner::Second, None) => &mut count.second,
                (Winner::Tie | Winner::Unclear, None) => &mut count.tie,
            } += 1;
        }
        count
    }

    pub(super) fn all(self) -> usize {
        self.first + self.second + self.tie + self.open + self.little + self.few
    }

    /// `HTTP/3 is faster in 12 of 16 cells, HTTP/2 in 3; 1 leaves it open`, the winner of more first.
    pub(super) fn sentence(self, first: Protocol, second: Protocol) -> String {
        let (first, second) = ((first.name(), self.first), (second.name(), self.second));
        let (more, less) = if first.1 > second.1 {
            (first, second)
        } else {
            (second, first)
        };
        let all = words::count(self.all(), "cell");
        let mut text = match more.1 {
            0 => format!(
                "neither {} nor {} is faster in any of {all}",
                first.0, second.0
            ),
            won if won == self.all() && won > 1 => format!("{} is faster in all {all}", more.0),
            won => format!("{} is faster in {won} of {all}", more.0),
        };
        if less.1 > 0 {
            text.push_str(&format!(", {} in {}", less.0, less.1));
        }
        let rest = [
            (self.tie, "is a tie", "are ties"),
            (self.open, "leaves it open", "leave it open"),
            (self.little, "differs by little", "differ by little"),
            (self.few, "has too few pairs", "have too few pairs"),
        ];
        for (count, one, many) in rest.into_iter().filter(|(count, ..)| *count > 0) {
            let what = if count == 1 { one } else { many };
            text.push_str(&format!("; {count} {what}"));
        }
        text
    }
}

/// All comparisons of one protocol with the baseline.
pub(super) fn pairings<'b, 'r>(
    analysis: &'b Analysis<'r>,
    other: Protocol,
) -> impl Iterator<Item = (&'b CellResult<'r>, &'b Pairing<'r>)> {
    let of_cell = move |result: &'b CellResult<'r>| Some((result, result.pairings.get(&other)?));
    analysis.cells.iter().filter_map(of_cell)
}

/// Sums up the run: one curve at length, many in numbers.
pub(super) fn overall(analysis: &Analysis<'_>, along_delay: bool) -> String {
    let one = |other: &Protocol| match analysis.series.as_slice() {
        [series] if along_delay => Verdict::new(analysis, series, *other).sentence(),
        _ => {
            let count = Count::of(pairings(analysis, *other).map(|(_, pairing)| pairing));
            format!(
                "{}.",
                capitalised(&count.sentence(analysis.baseline, *other))
            )
        }
    };
    let all: Vec<String> = analysis.others.iter().map(one).collect();
    all.join(" ")
}

/// Sentence about where a protocol gains and loses most: `At most HTTP/3 takes 12.0 % less time (0.5 % loss, 50 ms)
/// and 3.0 % more (0 ms).` Cells whose pairs don't tell the sign are left out.
pub(super) fn extremes(analysis: &Analysis<'_>, names: &Names, other: Protocol) -> String {
    let percent = |(_, pairing): &(_, &Pairing<'_>)| pairing.comparison.percent();
    let all: Vec<_> = pairings(analysis, other)
        .filter(|(_, pairing)| has_sign(pairing))
        .collect();
    let least = all.iter().min_by(|a, b| percent(a).total_cmp(&percent(b)));
    let most = all.iter().max_by(|a, b| percent(a).total_cmp(&percent(b)));
    let place = |result: &CellResult<'_>| match names.of(&result.cell, &[]) {
        text if text.is_empty() => String::new(),
        text => format!(" ({text})"),
    };
    let mut parts = Vec::new();
    if let Some(one) = least.filter(|one| percent(one) < 0.0) {
        parts.push(format!("{:.1} % less time{}", -percent(one), place(one.0)));
    }
    if let Some(one) = most.filter(|one| percent(one) > 0.0) {
        parts.push(format!("{:.1} % more time{}", percent(one), place(one.0)));
    }
    if parts.is_empty() {
        return String::new();
    }
    let (name, baseline) = (other.name(), analysis.baseline.name());
    format!(
        " Against {baseline}, {name} takes up to {}.",
        parts.join(" and up to ")
    )
}

/// Returns the text with a capital letter.
pub(super) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().collect::<String>());
    first.unwrap_or_default() + chars.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(first: usize, second: usize, tie: usize, open: usize) -> String {
        let count = Count {
            first,
            second,
            tie,
            open,
            ..Count::default()
        };
        count.sentence(Protocol::H2, Protocol::H3)
    }

    #[test]
    fn a_count_reads_as_a_sentence() {
        assert_eq!(
            said(3, 12, 0, 1),
            "HTTP/3 is faster in 12 of 16 cells, HTTP/2 in 3; 1 leaves it open"
        );
        assert_eq!(said(2, 0, 0, 0), "HTTP/2 is faster in all 2 cells");
        assert_eq!(said(0, 1, 0, 0), "HTTP/3 is faster in 1 of 1 cell");
        assert_eq!(
            said(0, 6, 3, 0),
            "HTTP/3 is faster in 6 of 9 cells; 3 are ties"
        );
        assert_eq!(
            said(0, 0, 1, 3),
            "neither HTTP/2 nor HTTP/3 is faster in any of 4 cells; 1 is a tie; 3 leave it open"
        );
    }
}
