//! The four pictures: what each shows, and the sentences that go with it.
//!
//! A picture is built as plain data (panels of shapes) and only then drawn, so one renderer serves
//! all of them.

mod axis;
mod chart;
mod distribution;
mod gain;
mod response_time;
mod stability;

use crate::analysis::{Analysis, Series};
use crate::canvas;
use crate::{Error, Picture};
use chart::Chart;

/// A picture draws at most so many panels; a plan with more says so in the caption.
const MAX_PANELS: usize = 12;

/// A picture and the numbers behind it.
pub(crate) struct Figure {
    pub(crate) picture: Picture,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A picture before it is drawn.
struct Draft {
    name: &'static str,
    caption: String,
    chart: Chart,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Draws every picture that something was measured for.
pub(crate) fn draw_all(analysis: &Analysis<'_>) -> Result<Vec<Figure>, Error> {
    let drafts = [
        response_time::draft(analysis),
        gain::draft(analysis),
        stability::draft(analysis),
        distribution::draft(analysis),
    ];
    drafts.into_iter().flatten().map(Draft::draw).collect()
}

impl Draft {
    fn draw(self) -> Result<Figure, Error> {
        let (svg, png) = canvas::paint(self.name, &self.chart)?;
        let title = self.chart.title;
        let picture = Picture {
            name: self.name,
            title,
            caption: self.caption,
            svg,
            png,
        };
        Ok(Figure {
            picture,
            head: self.head,
            rows: self.rows,
        })
    }
}

/// The series that `has_data` holds for, at most [`MAX_PANELS`], and a sentence about the rest.
fn shown<'a>(
    analysis: &'a Analysis<'_>,
    has_data: impl Fn(&Series) -> bool,
) -> (Vec<&'a Series>, String) {
    let all: Vec<&Series> = analysis
        .series
        .iter()
        .filter(|series| has_data(series))
        .collect();
    let rest = left_out(all.len(), "series");
    (all.into_iter().take(MAX_PANELS).collect(), rest)
}

fn left_out(all: usize, noun: &str) -> String {
    if all <= MAX_PANELS {
        return String::new();
    }
    format!(" Shown are {MAX_PANELS} of {all} {noun}; summary.csv holds them all.")
}

/// A quantile of values in any order.
pub(crate) fn quantile_of(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    altway_stats::quantile(&sorted, q)
}

/// Every `n`-th value, so that at most `limit` are left.
fn thinned<T: Copy>(values: &[T], limit: usize) -> impl Iterator<Item = T> {
    let step = values.len().div_ceil(limit).max(1);
    values.iter().step_by(step).copied()
}
