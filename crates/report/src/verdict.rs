//! The sentences: who is faster where. One place, so that the terminal, the pictures' titles and
//! the page never contradict each other.

use crate::analysis::{Analysis, Crossing, Pairing, Series};
use crate::{null_arm, place, words};
use altway_record::{Protocol, transfers};
use altway_stats::{Crossover, MIN_PAIRS_FOR_VERDICT, Winner};

/// Share of resamples with a crossing below which the sentence says how few there were.
pub(crate) const SURE_SHARE: f64 = 0.95;

/// Verdict of a series on one protocol against the baseline.
pub(crate) struct Verdict<'a> {
    analysis: &'a Analysis<'a>,
    series: &'a Series,
    other: Protocol,
}

/// Number of measured delays at which each side won.
#[derive(Default)]
struct Tally {
    first: usize,
    second: usize,
    tie: usize,
    /// Undecided, with 0 in the interval.
    unclear: usize,
    /// Undecided though the interval leaves out 0: the difference is little.
    little: usize,
    /// Undecided for having too few pairs.
    few: usize,
}

impl Tally {
    fn total(&self) -> usize {
        self.first + self.second + self.tie + self.unclear + self.little + self.few
    }

    /// Returns whether no measured delay says that there is a difference, and some allow one.
    fn is_open(&self) -> bool {
        self.first + self.second + self.little + self.few == 0
    }
}

impl<'a> Verdict<'a> {
    pub(crate) fn new(analysis: &'a Analysis<'a>, series: &'a Series, other: Protocol) -> Self {
        Self {
            analysis,
            series,
            other,
        }
    }

    /// The whole finding in one or two sentences, with its interval.
    pub(crate) fn sentence(&self) -> String {
        let tally = self.tally();
        match self.series.crossings.get(&self.other) {
            None => format!("{} and {} have no pair yet.", self.first(), self.second()),
            Some(Crossing::Contradicted) => self.turns(),
            Some(Crossing::Fitted {
                zero:
                    zero @ Crossover::At {
                        share_of_resamples, ..
                    },
                lead,
            }) => {
                let (place, crossing_share) =
                    (place::of(zero), crossing_share(*share_of_resamples));
                if tally.first + tally.second == 0 {
                    return format!(
                        "No measured delay has a clear winner; the estimated difference changes its \
                         sign {place}{crossing_share}."
                    );
                }
                let lead = place::of_lead(lead);
                format!(
                    "{} becomes faster {place}{crossing_share}{lead}.",
                    self.second()
                )
            }
            Some(Crossing::Fitted { .. }) => self.without_crossover(&tally),
        }
    }

    /// The same for a picture's title: short, without interval.
    pub(crate) fn title(&self) -> String {
        let tally = self.tally();
        let (first, second) = (self.first(), self.second());
        match self.series.crossings.get(&self.other) {
            None => format!("{first} and {second} have no pair yet"),
            Some(Crossing::Fitted { zero, .. })
                if matches!(zero, Crossover::At { .. }) && tally.first + tally.second > 0 =>
            {
                format!("{second} {}", place::short(zero))
            }
            crossing
                if matches!(crossing, Some(Crossing::Contradicted))
                    || tally.first > 0 && tally.second > 0 =>
            {
                format!("{first} and {second} take turns at being faster")
            }
            _ if tally.first == tally.total() => format!("{first} is faster {}", self.everywhere()),
            _ if tally.second == tally.total() => {
                format!("{second} is faster {}", self.everywhere())
            }
            _ if tally.first > 0 => format!("{first} is faster at some of the measured delays"),
            _ if tally.second > 0 => format!("{second} is faster at some of the measured delays"),
            _ if tally.tie == tally.total() => {
                format!("{first} and {second} are equally fast, within 3 %")
            }
            _ if tally.is_open() => format!("Whether {first} or {second} is faster stays open"),
            _ if tally.few > 0 => {
                format!("Too few pairs to say whether {first} or {second} is faster")
            }
            _ => format!("{first} and {second} differ by little"),
        }
    }

    fn without_crossover(&self, tally: &Tally) -> String {
        let (first, second) = (self.first(), self.second());
        let range = self.range();
        if tally.total() == 1 {
            return self.at_one_delay(tally, &range);
        }
        if tally.first > 0 && tally.second > 0 {
            return self.turns();
        }
        let (winner, won) = if tally.first > 0 {
            (first, tally.first)
        } else {
            (second, tally.second)
        };
        match (won, tally.total() - won) {
            (0, _) => self.without_winner(tally, &range),
            (_, 0) => format!("{winner} was faster at every measured delay {range}: no crossover."),
            (won, rest) => format!(
                "No crossover {range}: {winner} was faster at {won} of {} delays, and {} no clear \
                 winner.",
                tally.total(),
                if rest == 1 {
                    "one had".into()
                } else {
                    format!("{rest} had")
                },
            ),
        }
    }

    /// Sentence for when no measured delay has a winner and the fitted difference does not change its sign.
    fn without_winner(&self, tally: &Tally, range: &str) -> String {
        let (first, second) = (self.first(), self.second());
        if tally.tie == tally.total() {
            return format!("{first} and {second} were equally fast, within 3 %, {range}.");
        }
        let mut reasons = Vec::new();
        if tally.few > 0 {
            let few = words::count(tally.few, "delay");
            reasons.push(format!(
                "{few} with fewer than {MIN_PAIRS_FOR_VERDICT} pairs"
            ));
        }
        if tally.little > 0 {
            let little = words::count(tally.little, "delay");
            reasons.push(format!(
                "{little} with a difference that is sure and not beyond 3 %"
            ));
        }
        if tally.unclear > 0 {
            let unclear = words::count(tally.unclear, "delay");
            reasons.push(format!(
                "{unclear} whose interval holds 0 and reaches beyond 3 %"
            ));
        }
        if tally.tie > 0 {
            reasons.push(words::count(tally.tie, "tie"));
        }
        format!(
            "No crossover and no winner {range}: {}.",
            words::list(&reasons)
        )
    }

    fn turns(&self) -> String {
        let (first, second, range) = (self.first(), self.second(), self.range());
        format!(
            "Who is faster changes {range}, but not once from {first} to {second}: there is no \
             crossover to name."
        )
    }

    fn at_one_delay(&self, tally: &Tally, range: &str) -> String {
        let (first, second) = (self.first(), self.second());
        let who = match tally {
            Tally { first: 1, .. } => format!("{first} was faster {range}"),
            Tally { second: 1, .. } => format!("{second} was faster {range}"),
            Tally { tie: 1, .. } => {
                format!("{first} and {second} were equally fast, within 3 %, {range}")
            }
            Tally { unclear: 1, .. } => format!("who is faster {range} stays open"),
            Tally { little: 1, .. } => format!("{first} and {second} differ by little {range}"),
            _ => format!(
                "fewer than {MIN_PAIRS_FOR_VERDICT} pairs are too few to say who was faster {range}"
            ),
        };
        format!("With one measured delay there is no crossover to find; {who}.")
    }

    /// `between 0 ms and 200 ms`, `at 50 ms`.
    fn range(&self) -> String {
        let delays: Vec<String> = self
            .analysis
            .cells_of(self.series)
            .filter(|cell| cell.pairings.contains_key(&self.other))
            .map(|cell| words::delay(cell.cell.delay))
            .collect();
        match delays.as_slice() {
            [first, .., last] => format!("between {first} and {last}"),
            _ => format!("at {}", delays.concat()),
        }
    }

    fn everywhere(&self) -> String {
        match self.tally().total() {
            1 => self.range(),
            _ => "at every measured delay".into(),
        }
    }

    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for cell in self.analysis.cells_of(self.series) {
            let Some(pairing) = cell.pairings.get(&self.other) else {
                continue;
            };
            *match (pairing.comparison.winner, Verdictless::of(pairing)) {
                (_, Some(Verdictless::FewPairs)) => &mut tally.few,
                (_, Some(Verdictless::Little)) => &mut tally.little,
                (_, Some(Verdictless::HoldsZero)) => &mut tally.unclear,
                (Winner::First, None) => &mut tally.first,
                (Winner::Second, None) => &mut tally.second,
                (Winner::Tie | Winner::Unclear, None) => &mut tally.tie,
            } += 1;
        }
        tally
    }

    fn first(&self) -> &'static str {
        self.analysis.baseline.name()
    }

    fn second(&self) -> &'static str {
        self.other.name()
    }
}

/// Names the winner of a cell, for a table: a name, `tie`, or the reason why there is no verdict. `unclear` stands
/// only where the interval holds 0.
pub(crate) fn winner(pairing: &Pairing<'_>, baseline: Protocol, other: Protocol) -> &'static str {
    match Verdictless::of(pairing) {
        Some(Verdictless::FewPairs) => FEW_PAIRS_WORDS,
        Some(Verdictless::Little) => LITTLE_WORDS,
        Some(Verdictless::HoldsZero) => "unclear",
        None => match pairing.comparison.winner {
            Winner::First => baseline.name(),
            Winner::Second => other.name(),
            Winner::Tie | Winner::Unclear => "tie",
        },
    }
}

/// Returns whether a cell has a winner or is a tie.
pub(crate) fn is_decided(pairing: &Pairing<'_>) -> bool {
    Verdictless::of(pairing).is_none()
}

/// Returns whether the pairs of a cell suffice to tell which protocol is faster, or that none is.
pub(crate) fn has_sign(pairing: &Pairing<'_>) -> bool {
    matches!(Verdictless::of(pairing), None | Some(Verdictless::Little))
}

/// Word in tables for cells of too few pairs for any verdict.
pub(crate) const FEW_PAIRS_WORDS: &str = "too few pairs";
/// Word in tables for cells whose difference is sure, and is hardly one.
pub(crate) const LITTLE_WORDS: &str = "by little";

/// Reason why a cell has neither a winner nor a tie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdictless {
    /// Fewer pairs than a verdict takes, whatever their interval says.
    FewPairs,
    /// The interval leaves out 0, the estimate lies within the margin, and the interval reaches beyond.
    Little,
    /// The interval holds 0 and reaches beyond the margin.
    HoldsZero,
}

impl Verdictless {
    pub(crate) fn of(pairing: &Pairing<'_>) -> Option<Self> {
        if pairing.comparison.winner != Winner::Unclear {
            return None;
        }
        let few = pairing.comparison.n < MIN_PAIRS_FOR_VERDICT;
        Some(match (few, pairing.excludes_zero()) {
            (true, _) => Self::FewPairs,
            (false, true) => Self::Little,
            (false, false) => Self::HoldsZero,
        })
    }
}

/// All findings of a run, each with the series it is about when there are several.
pub(crate) fn findings(analysis: &Analysis<'_>) -> Vec<String> {
    let one = analysis.series.len() == 1;
    let mut sentences = Vec::new();
    for other in &analysis.others {
        for series in &analysis.series {
            let sentence = Verdict::new(analysis, series, *other).sentence();
            let cell = &analysis.cells[series.cells[0]].cell;
            sentences.push(if one {
                sentence
            } else {
                format!("{}: {sentence}", words::series(cell))
            });
        }
    }
    sentences
}

/// Note on all that a report of rows alone can't tell.
const FROM_SAMPLES: &str = "Made from samples.csv alone, which does not tell which machine and altway measured it, by which plan, \
     what its scenario and named links were, and how many transfers were planned. Intervals are those of a \
     number of pairs that was fixed beforehand: where cells were left early they are too narrow.";

/// Lists in sentences what the run lacks.
pub(crate) fn gaps(analysis: &Analysis<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    if analysis.valid() == 0 {
        sentences.push("No transfer has been measured yet.".to_owned());
        return sentences;
    }
    if analysis.others.is_empty() {
        let name = analysis.baseline.name();
        sentences.push(format!(
            "Only {name} was measured: there is nothing to compare it with."
        ));
    }
    let manifest = analysis.run.manifest;
    if manifest.from_samples {
        sentences.push(FROM_SAMPLES.to_owned());
        sentences.extend(cut_off(analysis));
        sentences.extend(suspects(analysis));
        return sentences;
    }
    let plan = &manifest.plan;
    let valid = analysis.valid() as u64;
    match plan.planned(manifest.shard) {
        None => sentences.push(format!(
            "{valid} transfers are measured, where the winner was least sure; cells without any were clear from their \
             neighbours, or not reached."
        )),
        Some(planned) if valid < planned => {
            let early = match plan.stopping {
                Some(_) => "; cells that are clear are left early",
                None => "",
            };
            sentences.push(format!(
                "{valid} of {planned} planned transfers are measured{early}."
            ));
        }
        Some(_) => (),
    }
    sentences.extend(cut_off(analysis));
    sentences.extend(suspects(analysis));
    sentences
}

/// Names the protocols and policies whose slowest transfers may be missing.
fn cut_off(analysis: &Analysis<'_>) -> impl Iterator<Item = String> {
    analysis.timed_out().into_iter().map(|(name, count)| {
        let transfers = words::count(count, "transfer");
        let was = if count == 1 { "was" } else { "were" };
        format!(
            "{transfers} of {name} ran into the time-out and {was} made again: its times, which are of the others, \
             may be too short."
        )
    })
}

/// Cells whose null arm says that a protocol differs from itself.
fn suspects(analysis: &Analysis<'_>) -> Option<String> {
    let check = null_arm::of_analysis(analysis).filter(|check| check.flagged > 0);
    check.map(|check| check.sentence())
}

/// Says that no cell's null arm differs, or that it can't be told.
pub(crate) fn sound(analysis: &Analysis<'_>) -> Option<String> {
    let check = null_arm::of_analysis(analysis).filter(|check| check.flagged == 0);
    check.map(|check| check.sentence())
}

/// Number of transfers that were invalid, if any.
pub(crate) fn repeats(analysis: &Analysis<'_>) -> Option<String> {
    let invalid = analysis.invalid();
    let all = words::count(transfers(analysis.run.samples).count(), "transfer");
    let was = if invalid == 1 { "was" } else { "were" };
    (invalid > 0).then(|| format!("{invalid} of {all} {was} invalid and measured again."))
}

fn crossing_share(share: f64) -> String {
    if share >= SURE_SHARE {
        return String::new();
    }
    format!("; only {:.0} % of resamples cross at all", share * 100.0)
}
