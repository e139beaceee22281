//! A figure of one round: a line of `records.csv`.

use super::measure::Outcome;
use super::topic::{By, Cell, Figure, Topic};
use crate::shell;
use anyhow::Result;
use serde::Serialize;
use std::collections::HashMap;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Record {
    pub(crate) topic: Topic,
    pub(crate) by: By,
    /// Number of the round, from 1.
    pub(crate) round: u32,
    /// `None` when the measurement failed.
    pub(crate) figure: Option<Figure>,
    pub(crate) value: Option<f64>,
    /// True if the figure counts.
    pub(crate) valid: bool,
    /// The reason for which it does not count; empty when it does.
    pub(crate) fault: String,
    /// The numbers of the datagrams that were lost: equal texts, equal losses.
    pub(crate) lost: String,
}

/// The losses in the first round that measured a cell.
#[derive(Debug, Default)]
pub(crate) struct Losses(HashMap<Cell, String>);

impl Record {
    pub(crate) fn cell(&self) -> Cell {
        Cell {
            topic: self.topic,
            by: self.by,
        }
    }

    /// A line for each figure of a measurement, or one that says why there is none. Says so when it
    /// does not count.
    pub(crate) fn of(
        cell: Cell,
        round: u32,
        outcome: Result<Outcome>,
        losses: &mut Losses,
    ) -> Vec<Self> {
        let outcome = outcome.unwrap_or_else(|error| Outcome {
            fault: Some(format!("{error:#}")),
            ..Outcome::default()
        });
        if let Some(fault) = &outcome.fault {
            shell::say(&format!("INVALID {cell}: {fault}"));
        }
        let others = losses.are_others(cell, &outcome);
        let figures = outcome.figures.iter().copied().chain(others);
        let mut figures: Vec<_> = figures.map(Some).collect();
        if figures.is_empty() {
            figures.push(None);
        }
        let line = |figure: Option<(Figure, f64)>| Self {
            topic: cell.topic,
            by: cell.by,
            round,
            figure: figure.map(|(figure, _)| figure),
            value: figure.map(|(_, value)| value),
            valid: outcome.fault.is_none(),
            fault: outcome.fault.clone().unwrap_or_default().replace('\n', " "),
            lost: outcome.lost.clone().unwrap_or_default(),
        };
        figures.into_iter().map(line).collect()
    }
}

impl Losses {
    /// The figure that says if other datagrams were lost than before; `None` for the first time and
    /// of a cell without loss.
    fn are_others(&mut self, cell: Cell, outcome: &Outcome) -> Option<(Figure, f64)> {
        let lost = outcome.lost.as_ref().filter(|_| outcome.fault.is_none())?;
        let Some(before) = self.0.get(&cell) else {
            self.0.insert(cell, lost.clone());
            return None;
        };
        Some((Figure::OthersLost, f64::from(u8::from(before != lost))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: Cell = Cell {
        topic: Topic::Loss { percent: 1 },
        by: By::Altway,
    };

    fn lost(text: &str) -> Result<Outcome> {
        Ok(Outcome {
            figures: vec![(Figure::LossPercent, 1.0)],
            lost: Some(text.into()),
            fault: None,
        })
    }

    #[test]
    fn rounds_are_held_against_the_first() {
        let mut losses = Losses::default();
        let others: Vec<_> = ["a", "a", "b"]
            .into_iter()
            .map(|text| {
                let records = Record::of(CELL, 1, lost(text), &mut losses);
                let others = records
                    .iter()
                    .find(|record| record.figure == Some(Figure::OthersLost));
                others.and_then(|record| record.value)
            })
            .collect();
        assert_eq!(others, [None, Some(0.0), Some(1.0)]);
    }

    #[test]
    fn a_failure_leaves_a_line_that_says_why() {
        let failed = Err(anyhow::anyhow!("no\nluck"));
        let records = Record::of(CELL, 2, failed, &mut Losses::default());
        assert_eq!(records.len(), 1);
        assert_eq!(
            (records[0].valid, records[0].fault.as_str()),
            (false, "no luck")
        );
        assert_eq!(records[0].figure, None);
    }
}
