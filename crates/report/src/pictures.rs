//! The pictures of a run: what each shows, and what follows from it.
//!
//! A picture is built as plain data ([`Figure`]); `draw` makes files of it and `html` a chart. Plans
//! may have any number of cells, so each picture bounds what it shows and says what it left out.

mod atlas;
mod axes;
mod dimensions;
mod distribution;
mod finding;
mod gain;
mod map;
mod overview;
mod response_time;
mod stability;
mod timeline;
mod zero_lines;

use crate::analysis::Analysis;
use crate::draw;
use crate::figure::{Figure, LegendEntry, MarkColor};
use crate::{Error, Picture};
use altway_record::Protocol;

/// A figure has at most so many panels, among which readers of the page choose; paper has room for
/// fewer ([`draw::MAX_PANELS`]). A plan with more says so.
const MAX_PANELS: usize = 240;

/// Draws every picture that something was measured for.
pub(crate) fn draw_all(analysis: &Analysis<'_>) -> Result<Vec<Picture>, Error> {
    figures(analysis).into_iter().map(draw::draw).collect()
}

/// Every figure that something was measured for, from what to look at first on.
fn figures(analysis: &Analysis<'_>) -> Vec<Figure> {
    let atlases = atlas::all(analysis);
    let mut figures: Vec<Figure> = Vec::new();
    figures.extend(response_time::figure(analysis));
    figures.extend(gain::figure(analysis));
    figures.extend(atlases.iter().map(|atlas| map::figure(analysis, atlas)));
    figures.extend(
        atlases
            .iter()
            .filter_map(|atlas| zero_lines::figure(analysis, atlas)),
    );
    figures.extend(overview::figure(analysis));
    figures.extend(stability::figure(analysis));
    figures.extend(distribution::figure(analysis));
    figures.extend(timeline::figure(analysis));
    figures
}

/// A legend of protocols.
fn keys(protocols: impl Iterator<Item = Protocol>) -> Vec<LegendEntry> {
    let key = |protocol: Protocol| LegendEntry {
        color: MarkColor::Protocol(protocol),
        name: protocol.name().to_owned(),
    };
    protocols.map(key).collect()
}

/// Returns at most `limit` of them, evenly spread, the first and last included.
pub(crate) fn evenly<T>(all: Vec<T>, limit: usize) -> Vec<T> {
    let count = all.len();
    if count <= limit {
        return all;
    }
    let mut wanted = (0..limit).map(|i| i * (count - 1) / (limit - 1)).peekable();
    let mut kept = Vec::with_capacity(limit);
    for (i, one) in all.into_iter().enumerate() {
        if wanted.next_if_eq(&i).is_some() {
            kept.push(one);
        }
    }
    kept
}

/// A sentence about what a picture leaves out; empty when it shows everything.
pub(crate) fn left_out(shown: usize, all: usize, noun: &str) -> String {
    if shown >= all {
        return String::new();
    }
    format!(" Shown are {shown} of {all} {noun}; summary.csv holds them all.")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_many_is_spread_evenly_and_holds_both_ends() {
        assert_eq!(evenly((0..5).collect(), 9), [0, 1, 2, 3, 4]);
        assert_eq!(evenly((0..100).collect(), 4), [0, 33, 66, 99]);
        assert_eq!(left_out(4, 100, "cells").matches("4 of 100").count(), 1);
        assert_eq!(left_out(5, 5, "cells"), "");
    }
}
