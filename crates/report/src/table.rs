//! The closing table of a run, for a terminal of 100 columns.

use crate::analysis::{Analysis, CellResult, Series};
use crate::verdict::{self, FEW_PAIRS_WORDS, LITTLE_WORDS, Verdict, Verdictless};
use crate::words::{self, TimeUnit};
use altway_record::Protocol;
use altway_stats::{FEW_PAIRS, MIN_PAIRS_FOR_VERDICT, Winner};

/// Text between columns.
const GAP: &str = "  ";
/// Marks cells with few pairs.
pub(crate) const FEW: &str = "*";

/// The whole text, with its line end.
pub(crate) fn closing(analysis: &Analysis<'_>) -> String {
    let mut text = String::new();
    for series in &analysis.series {
        if analysis
            .cells_of(series)
            .all(|cell| cell.arms.values().all(|arm| arm.valid.is_empty()))
        {
            continue;
        }
        if analysis.others.is_empty() {
            text.push_str(&described(analysis, series));
        }
        for other in &analysis.others {
            text.push_str(&compared(analysis, series, *other));
        }
    }
    if let Some(selection) = &analysis.selection {
        text.push_str(&selection.text());
    }
    for note in verdict::gaps(analysis).into_iter().chain(notes(analysis)) {
        text.push_str(&wrapped(&note));
        text.push('\n');
    }
    text
}

/// Column heads and rows of a comparison, also used by the page.
pub(crate) fn comparison_rows(
    analysis: &Analysis<'_>,
    series: &Series,
    other: Protocol,
) -> (Vec<String>, Vec<Vec<String>>) {
    let medians = analysis.cells_of(series).flat_map(|cell| {
        let median = |protocol| cell.arms[&protocol].summary.map(|summary| summary.median);
        [median(analysis.baseline), median(other)]
            .into_iter()
            .flatten()
    });
    let unit = TimeUnit::for_times(medians);
    let head = [
        "delay".into(),
        "pairs".into(),
        format!("{} median", analysis.baseline.name()),
        format!("{} median", other.name()),
        "difference".into(),
        "95 % interval".into(),
        "winner".into(),
    ];
    let row = |cell| comparison_row(analysis.baseline, other, unit, cell);
    (head.to_vec(), analysis.cells_of(series).map(row).collect())
}

/// Column heads and rows that describe the protocols alone.
pub(crate) fn description_rows(
    analysis: &Analysis<'_>,
    series: &Series,
) -> (Vec<String>, Vec<Vec<String>>) {
    let summaries = || {
        analysis
            .cells_of(series)
            .flat_map(|cell| cell.arms.values())
    };
    let unit = TimeUnit::for_times(summaries().filter_map(|arm| Some(arm.summary?.median)));
    let head = [
        "delay",
        "protocol",
        "transfers",
        "median",
        "P95",
        "std. dev.",
    ];
    let mut rows = Vec::new();
    for cell in analysis.cells_of(series) {
        for protocol in analysis.protocols() {
            let arm = &cell.arms[&protocol];
            let time = |value: Option<f64>| value.map_or_else(missing, |time| unit.text(time));
            rows.push(vec![
                words::delay(cell.cell.delay),
                protocol.name().into(),
                arm.valid.len().to_string(),
                time(arm.summary.map(|s| s.median)),
                time(arm.summary.map(|s| s.p95)),
                time(arm.summary.and_then(|s| s.std_dev)),
            ]);
        }
    }
    (head.map(str::to_owned).to_vec(), rows)
}

/// Lists what a reader of the tables must know: the terms, the marks, what is missing.
pub(crate) fn notes(analysis: &Analysis<'_>) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if !analysis.others.is_empty() && analysis.valid() > 0 {
        let baseline = analysis.baseline.name();
        notes.push(format!(
            "difference: time against {baseline}; negative is faster."
        ));
    }
    let comparisons = || {
        let pairings = analysis
            .cells
            .iter()
            .flat_map(|cell| cell.pairings.values());
        pairings.map(|pairing| &pairing.comparison)
    };
    if comparisons().any(|comparison| !comparison.few) {
        notes.push(analysis.judge.note());
    }
    if comparisons().any(|comparison| comparison.winner == Winner::Tie) {
        notes.push("tie: the whole interval lies within ±3 %, too little to matter.".into());
    }
    notes.extend(undecided(analysis));
    if comparisons().any(|comparison| comparison.few) {
        notes.push(format!(
            "{FEW} fewer than {FEW_PAIRS} pairs: the interval is of resamples, and narrower than it should be."
        ));
    }
    notes.extend(crate::place::narrowing(analysis));
    notes.extend(verdict::sound(analysis).filter(|_| analysis.valid() > 0));
    notes.extend(verdict::repeats(analysis));
    notes
}

/// Explains the words for cells without a verdict, each that stands somewhere.
fn undecided(analysis: &Analysis<'_>) -> Vec<String> {
    let pairings = || {
        let cells = analysis.cells.iter();
        cells.flat_map(|cell| cell.pairings.values())
    };
    let has = |why| pairings().any(|pairing| Verdictless::of(pairing) == Some(why));
    let mut notes = Vec::new();
    if has(Verdictless::HoldsZero) {
        notes.push("unclear: the interval holds 0; more pairs would tell.".into());
    }
    if has(Verdictless::Little) {
        notes.push(format!(
            "{LITTLE_WORDS}: the interval leaves out 0, but the difference is not more than 3 %."
        ));
    }
    if has(Verdictless::FewPairs) {
        notes.push(format!(
            "{FEW_PAIRS_WORDS}: fewer than {MIN_PAIRS_FOR_VERDICT} decide nothing, whatever their interval says."
        ));
    }
    notes
}

fn comparison_row(
    baseline: Protocol,
    other: Protocol,
    unit: TimeUnit,
    cell: &CellResult<'_>,
) -> Vec<String> {
    let median = |protocol| {
        let summary = cell.arms[&protocol].summary;
        summary.map_or_else(missing, |summary| unit.text(summary.median))
    };
    let mut row = vec![words::delay(cell.cell.delay)];
    let Some(pairing) = cell.pairings.get(&other) else {
        row.extend(["0".into(), median(baseline), median(other)]);
        row.extend([missing(), missing(), "not measured".into()]);
        return row;
    };
    let comparison = &pairing.comparison;
    let mark = if comparison.few { FEW } else { "" };
    let interval = words::interval(comparison.percent_interval());
    row.extend([
        format!("{mark}{}", comparison.n),
        median(baseline),
        median(other),
        words::percent(comparison.percent()),
        interval,
        verdict::winner(pairing, baseline, other).into(),
    ]);
    row
}

fn missing() -> String {
    "–".into()
}

fn compared(analysis: &Analysis<'_>, series: &Series, other: Protocol) -> String {
    let (head, rows) = comparison_rows(analysis, series, other);
    let cell = &analysis.cells[series.cells[0]].cell;
    let (first, second) = (analysis.baseline.name(), other.name());
    let sentence = Verdict::new(analysis, series, other).sentence();
    format!(
        "{second} against {first} · {}\n\n{}\n{}\n\n",
        words::series(cell),
        aligned(&head, &rows),
        wrapped(&sentence)
    )
}

fn described(analysis: &Analysis<'_>, series: &Series) -> String {
    let (head, rows) = description_rows(analysis, series);
    let cell = &analysis.cells[series.cells[0]].cell;
    format!("{}\n\n{}\n", words::series(cell), aligned(&head, &rows))
}

/// Columns as wide as their widest text, numbers to the right, the last column to the left.
fn aligned(head: &[String], rows: &[Vec<String>]) -> String {
    columns(head, rows, head.len() - 1)
}

/// Columns as wide as their widest text; from `left` on to the left, those before to the right.
pub(crate) fn columns(head: &[String], rows: &[Vec<String>], left: usize) -> String {
    let width = |column: usize| {
        let texts = rows.iter().map(|row| &row[column]).chain([&head[column]]);
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |texts: &[String]| {
        let column = |(i, (text, width)): (usize, (&String, &usize))| match i < left {
            true => format!("{text:>width$}"),
            false => format!("{text:<width$}"),
        };
        let columns: Vec<_> = texts.iter().zip(&widths).enumerate().map(column).collect();
        format!("{GAP}{}\n", columns.join(GAP).trim_end())
    };
    std::iter::once(line(head))
        .chain(rows.iter().map(|row| line(row)))
        .collect()
}

/// Breaks a sentence before column 100.
fn wrapped(sentence: &str) -> String {
    wrapped_to(sentence, 100)
}

/// Breaks a sentence before a column, but not between a number and its unit.
pub(crate) fn wrapped_to(sentence: &str, columns: usize) -> String {
    let mut text = String::new();
    let mut column = 0;
    let whole = sentence.replace(" %", "\u{a0}%").replace(" ms", "\u{a0}ms");
    for word in whole.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > columns {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    text.replace('\u{a0}', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_by_characters_not_bytes() {
        let rows = [
            vec!["−1".to_owned(), "x".into()],
            vec!["+10".into(), "y".into()],
        ];
        let text = aligned(&["a".into(), "b".into()], &rows);
        assert_eq!(text, "    a  b\n   −1  x\n  +10  y\n");
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(
            wrapped_to("all of 95 % and 3 ms", 9),
            "all of\n95 % and\n3 ms"
        );
    }

    #[test]
    fn long_sentences_are_broken_between_words() {
        let text = wrapped(&"word ".repeat(60));
        assert!(text.lines().all(|line| line.chars().count() <= 100));
        assert_eq!(text.split_whitespace().count(), 60);
    }
}
