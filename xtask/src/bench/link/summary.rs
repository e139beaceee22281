//! Records become a line for each figure of each cell, with its bar, for people and for programs.

use super::bars::{Limit, bar};
use super::record::Record;
use super::topic::{By, Cell, Figure};
use crate::bench::summary::Spread;
use anyhow::Result;
use serde::Serialize;

/// A figure of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    cell: Cell,
    figure: Figure,
    /// Rounds that count, and those that don't.
    rounds: usize,
    invalid_rounds: usize,
    spread: Option<Spread>,
    limit: Option<Limit>,
}

/// The verdict on a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Met,
    Missed,
    NotMeasured,
}

#[derive(Serialize)]
struct Row {
    topic: String,
    by: By,
    figure: Figure,
    rounds: usize,
    invalid_rounds: usize,
    median: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    bar: Option<String>,
    verdict: Option<Verdict>,
}

/// Cells in their order, whether there are records of them or not.
pub(crate) fn summarize(cells: &[Cell], records: &[Record]) -> Vec<Line> {
    let of = |cell: &Cell| {
        let figures = cell.figures().iter();
        figures
            .map(|figure| Line::of(*cell, *figure, records))
            .collect::<Vec<_>>()
    };
    cells.iter().flat_map(of).collect()
}

/// A table for each group of topics, and what became of the bars.
pub(crate) fn text(lines: &[Line]) -> String {
    let mut text = String::new();
    for group in lines.chunk_by(|a, b| a.cell.topic.group() == b.cell.topic.group()) {
        text.push_str(&columns(["", "", "figure", "n", "median [min–max]", "bar"]));
        for of_cell in group.chunk_by(|a, b| a.cell == b.cell) {
            for (place, line) in of_cell.iter().enumerate() {
                text.push_str(&row(line, place == 0));
            }
        }
        text.push('\n');
    }
    text + LEGEND + "\n" + &tally(lines)
}

const LEGEND: &str = "\
altway: its link over TUN interfaces, the thread with SCHED_FIFO; -normal: with normal priority; -awake:
processors kept from sleeping, as the lab does. iperf3: its figure over altway's link. rattan: its link.
Error of the delay: between two stamps of one clock, before the datagram is sent and when the kernel has
received it, beside the delay asked for. Rate: of IP bytes, by full datagrams that are a tenth too many.
Goodput: of TCP with Cubic once it is under way, 10 ms each way; the ideal is 1448/1500 of the rate, for
of 1,500 bytes on the link 20 are IP's, 20 TCP's and 12 its time stamps. Set-up: all of `altway emulate`
around a command that does nothing. Side by side: 8 links of 20 Mbit/s, each on one of two processors with
its ends, or all links on one and all ends on the other. Goodput, and links side by side, don't count where
the link was late, and have processors kept from sleeping. Medians are over the rounds; ratios are of the
same round.
";

/// # Errors
/// Memory is gone.
pub(crate) fn csv(lines: &[Line]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for line in lines {
        writer.serialize(Row::from(line))?;
    }
    Ok(writer.into_inner()?)
}

impl Line {
    fn of(cell: Cell, figure: Figure, records: &[Record]) -> Self {
        let values = match figure {
            Figure::ErrorRatioP50 => {
                ratios(records, cell, Figure::ErrorUsP50, |its, ours| its / ours)
            }
            Figure::ErrorRatioP99 => {
                ratios(records, cell, Figure::ErrorUsP99, |its, ours| its / ours)
            }
            Figure::GoodputRatio => {
                ratios(records, cell, Figure::GoodputGbit, |its, ours| ours / its)
            }
            _ => values(records, cell, figure)
                .map(|(_, value)| value)
                .collect(),
        };
        let mine = || records.iter().filter(|record| record.cell() == cell);
        let mut invalid: Vec<_> = mine()
            .filter(|record| !record.valid)
            .map(|it| it.round)
            .collect();
        invalid.dedup();
        Self {
            cell,
            figure,
            rounds: values.len(),
            invalid_rounds: invalid.len(),
            spread: Spread::of(&values),
            limit: bar(cell, figure),
        }
    }

    fn verdict(&self) -> Option<Verdict> {
        let limit = self.limit?;
        Some(match self.spread {
            None => Verdict::NotMeasured,
            Some(spread) if limit.is_met(spread) => Verdict::Met,
            Some(_) => Verdict::Missed,
        })
    }
}

/// The values that count, with their rounds.
fn values(records: &[Record], cell: Cell, figure: Figure) -> impl Iterator<Item = (u32, f64)> {
    let is_it = move |record: &&Record| {
        record.valid && record.cell() == cell && record.figure == Some(figure)
    };
    let found = records.iter().filter(is_it);
    found.filter_map(|record| Some((record.round, record.value?)))
}

/// The ratios of a cell's figure to altway's in the same round.
fn ratios(
    records: &[Record],
    cell: Cell,
    figure: Figure,
    ratio: impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    let ours = |round| {
        let mut ours = values(records, cell.of_altway(), figure);
        ours.find(|(other, _)| *other == round)
    };
    values(records, cell, figure)
        .filter_map(|(round, its)| Some(ratio(its, ours(round)?.1)))
        .collect()
}

impl From<&Line> for Row {
    fn from(line: &Line) -> Self {
        Self {
            topic: line.cell.topic.to_string(),
            by: line.cell.by,
            figure: line.figure,
            rounds: line.rounds,
            invalid_rounds: line.invalid_rounds,
            median: line.spread.map(|spread| spread.median),
            min: line.spread.map(|spread| spread.min),
            max: line.spread.map(|spread| spread.max),
            bar: line.limit.map(|limit| limit.to_string()),
            verdict: line.verdict(),
        }
    }
}

fn row(line: &Line, is_first: bool) -> String {
    let (words, unit) = line.figure.words();
    let (topic, by) = match is_first {
        true => (line.cell.topic.to_string(), line.cell.by.to_string()),
        false => Default::default(),
    };
    let figures = line.spread.map_or("–".into(), |spread| {
        let [median, min, max] = [spread.median, spread.min, spread.max].map(number);
        format!("{median} [{min}–{max}] {unit}")
    });
    let bar = line.limit.zip(line.verdict()).map(|(limit, verdict)| {
        let verdict = match verdict {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
            Verdict::NotMeasured => "NOT MEASURED",
        };
        format!("{limit} {verdict}")
    });
    let rounds = line.rounds.to_string();
    let row = columns([
        &topic,
        &by,
        words,
        &rounds,
        &figures,
        &bar.unwrap_or_default(),
    ]);
    match line.invalid_rounds {
        0 => row,
        n => format!("{}  {n} INVALID\n", row.trim_end()),
    }
}

fn columns(cells: [&str; 6]) -> String {
    let [topic, by, figure, rounds, spread, bar] = cells;
    let row = format!("{topic:<18}{by:<15}{figure:<35}{rounds:>2}  {spread:<31}{bar}");
    row.trim_end().to_owned() + "\n"
}

/// Three significant digits, as far as decimals go.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn tally(lines: &[Line]) -> String {
    let count = |wanted| {
        lines
            .iter()
            .filter(|line| line.verdict() == Some(wanted))
            .count()
    };
    let [met, missed, open] = [Verdict::Met, Verdict::Missed, Verdict::NotMeasured].map(count);
    let mut text = format!("{} bars: {met} met, {missed} MISSED", met + missed + open);
    if open > 0 {
        text.push_str(&format!(", {open} NOT MEASURED"));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::topic::Topic;
    use super::*;

    const TOPIC: Topic = Topic::Delay { ms: 25 };

    fn record(by: By, round: u32, figure: Figure, value: f64) -> Record {
        Record {
            topic: TOPIC,
            by,
            round,
            figure: Some(figure),
            value: Some(value),
            valid: true,
            fault: String::new(),
            lost: String::new(),
        }
    }

    fn cells(by: &[By]) -> Vec<Cell> {
        by.iter()
            .map(|by| Cell {
                topic: TOPIC,
                by: *by,
            })
            .collect()
    }

    #[test]
    fn a_peer_is_held_against_altway_in_the_same_round() {
        let p50 = Figure::ErrorUsP50;
        let records = [
            record(By::Altway, 1, p50, 30.0),
            record(By::Rattan, 1, p50, 90.0),
            record(By::Altway, 2, p50, 100.0),
            record(By::Rattan, 2, p50, 100.0),
            // altway's is missing.
            record(By::Rattan, 3, p50, 9_999.0),
        ];
        let lines = summarize(&cells(&[By::Altway, By::Rattan]), &records);
        let ratio = lines
            .iter()
            .find(|line| line.figure == Figure::ErrorRatioP50)
            .unwrap();
        assert_eq!((ratio.rounds, ratio.spread.unwrap().max), (2, 3.0));
        assert_eq!(ratio.verdict(), Some(Verdict::Met));
    }

    #[test]
    fn what_was_not_measured_is_said_loudly() {
        let text = text(&summarize(&cells(&[By::Rattan]), &[]));
        assert!(text.contains("≥ 2 NOT MEASURED"), "{text}");
        assert!(
            text.contains("2 bars: 0 met, 0 MISSED, 2 NOT MEASURED"),
            "{text}"
        );
    }

    #[test]
    fn a_round_that_does_not_count_is_counted_and_no_more() {
        let mut late = record(By::Altway, 2, Figure::ErrorUsP50, 5_000.0);
        late.valid = false;
        let records = [record(By::Altway, 1, Figure::ErrorUsP50, 31.4), late];
        let lines = summarize(&cells(&[By::Altway]), &records);
        let text = text(&lines);
        assert!(text.contains("31.4 [31.4–31.4] µs"), "{text}");
        assert!(text.contains("≤ 60 met  1 INVALID\n"), "{text}");
        let csv = String::from_utf8(csv(&lines).unwrap()).unwrap();
        let row = "delay-25ms,altway,error_us_p50,1,1,31.4,31.4,31.4,≤ 60,met";
        assert_eq!(csv.lines().nth(1), Some(row));
    }

    #[test]
    fn numbers_have_three_digits_either_side_of_nothing() {
        let shown = [0.0, -0.0123, 1.234, -12.34, 1234.5].map(number);
        assert_eq!(shown, ["0", "-0.012", "1.23", "-12.3", "1234"]);
    }
}
