//! The difference over two quantities: a cell each, coloured by who is faster, with the zero line and
//! its band.

use super::atlas::{Atlas, Map};
use super::axes;
use super::dimensions::{Dimension, Names};
use super::finding::{self, Count};
use super::{MAX_PANELS, evenly, left_out, quantile_of, zero_lines};
use crate::analysis::{Analysis, CellResult, Pairing};
use crate::figure::{
    Axis, Datum, Figure, Form, LegendEntry, Mark, MarkColor, Panel, Series, Spread, Table, Tile,
    Tiles,
};
use crate::{verdict, words};
use altway_record::{Cell, Protocol};
use altway_stats::{Point, Polyline};

/// Differences below this, in per cent, never take a map's full colour.
const LEAST_LIMIT: f64 = 5.0;

/// Meaning of the hatching of a map's cells.
pub(super) const UNDECIDED: &str = "Hatched: undecided, neither a winner nor a tie within ±3 %.";

pub(super) fn figure(analysis: &Analysis<'_>, atlas: &Atlas<'_>) -> Figure {
    let names = Names::new(analysis);
    let maps: Vec<&Map<'_>> = atlas.maps().collect();
    let shown = evenly(maps, MAX_PANELS);
    let limit = limit(&shown, atlas.other);
    let cell = &shown[0].cell;
    let panels = shown
        .iter()
        .map(|map| panel(analysis, atlas, &names, map, limit))
        .collect();
    let all = finding::pairings(analysis, atlas.other).map(|(_, pairing)| pairing);
    let sentence = Count::of(all).sentence(analysis.baseline, atlas.other);
    Figure {
        name: format!("map{}", atlas.suffix),
        title: finding::capitalised(&sentence),
        caption: caption(analysis, atlas, &names),
        legend_text: legend_text(analysis, atlas, &shown) + &names.common(cell),
        legend: legend([analysis.baseline, atlas.other].into_iter()),
        panels,
        table: table(analysis, atlas, &names, &shown),
    }
}

fn caption(analysis: &Analysis<'_>, atlas: &Atlas<'_>, names: &Names) -> String {
    let extremes = finding::extremes(analysis, names, atlas.other);
    let lines = zero_lines::region(analysis, atlas);
    format!(
        "{}{extremes}",
        lines.map_or_else(String::new, |finding| finding.title + ".")
    )
    .trim_start()
    .to_owned()
}

fn legend_text(analysis: &Analysis<'_>, atlas: &Atlas<'_>, shown: &[&Map<'_>]) -> String {
    let (first, second) = (analysis.baseline.name(), atlas.other.name());
    let mut text = format!(
        "In each cell the difference of {second} from {first} in per cent: negative is faster. {UNDECIDED} \
         Line: neither is faster; shaded around it: it stays open who is."
    );
    if atlas.placeless {
        text.push_str(" Cells without a rate limit have no place here.");
    }
    text + &left_out(shown.len(), atlas.count, "maps")
}

/// Colours as words.
pub(super) fn legend(protocols: impl Iterator<Item = Protocol>) -> Vec<LegendEntry> {
    let key = |protocol: Protocol| LegendEntry {
        color: MarkColor::Protocol(protocol),
        name: format!("{} faster", protocol.name()),
    };
    protocols.map(key).collect()
}

/// Difference from which on the colour is full: most cells stay below it, so that one does not pale all.
fn limit(maps: &[&Map<'_>], other: Protocol) -> f64 {
    let results = maps.iter().flat_map(|map| map.results.iter().flatten());
    let found = results.filter_map(|result| Some(difference(result.pairings.get(&other)?)));
    limit_of(found)
}

/// The same, of differences in per cent.
pub(super) fn limit_of(differences: impl Iterator<Item = f64>) -> f64 {
    let sizes: Vec<f64> = differences.map(f64::abs).collect();
    if sizes.is_empty() {
        return LEAST_LIMIT;
    }
    quantile_of(&sizes, 0.9).max(LEAST_LIMIT)
}

fn difference(pairing: &Pairing<'_>) -> f64 {
    pairing.comparison.percent()
}

/// A cell of a map, at a place.
pub(super) fn tile(
    result: Option<&CellResult<'_>>,
    at: (f64, f64),
    baseline: Protocol,
    other: Protocol,
) -> Tile {
    let pairing = result.and_then(|result| result.pairings.get(&other));
    let Some(pairing) = pairing else {
        return Tile {
            at,
            value: None,
            sure: true,
            text: "–".into(),
            note: "not measured".into(),
        };
    };
    let value = difference(pairing);
    let interval = pairing.comparison.percent_interval().map_or_else(
        || "no interval".to_owned(),
        |(low, high)| {
            let (low, high) = (words::signed(low), words::signed(high));
            format!("95 % interval {low} to {high} %")
        },
    );
    Tile {
        at,
        value: Some(value),
        sure: verdict::is_decided(pairing),
        text: words::signed(value),
        note: format!(
            "{} against {}: {} time, {interval}, {}: {}",
            other.name(),
            baseline.name(),
            words::percent(value),
            words::pairs(pairing.comparison.n),
            verdict::winner(pairing, baseline, other),
        ),
    }
}

fn panel(
    analysis: &Analysis<'_>,
    atlas: &Atlas<'_>,
    names: &Names,
    map: &Map<'_>,
    limit: f64,
) -> Panel {
    let ordered = |dim: Dimension, cells: &[Cell]| -> Axis {
        axes::ordered(dim.name(), cells.iter().map(|cell| dim.text(cell)))
    };
    let columns = atlas.columns.len();
    let at = |i: usize| ((i % columns) as f64, (i / columns) as f64);
    let results = map.results.iter().enumerate();
    let tiles = results.map(|(i, result)| tile(*result, at(i), analysis.baseline, atlas.other));
    let mut marks = vec![Mark::Tiles(Tiles {
        below: atlas.other,
        above: analysis.baseline,
        value: format!("difference of {} (%)", atlas.other.name()),
        limit,
        tiles: tiles.collect(),
    })];
    marks.extend(line(atlas, map));
    Panel {
        title: names.of(&map.cell, &[atlas.x, atlas.y]),
        x: ordered(atlas.x, &atlas.columns),
        y: ordered(atlas.y, &atlas.rows),
        marks,
    }
}

/// The zero line and its band, where cells are squares whatever the distance of their places.
fn line(atlas: &Atlas<'_>, map: &Map<'_>) -> Vec<Mark> {
    let Some(line) = &map.line else {
        return Vec::new();
    };
    let places = |dim: Dimension, cells: &[Cell]| -> Vec<f64> {
        cells.iter().filter_map(|cell| dim.place(cell)).collect()
    };
    let (xs, ys) = (
        places(atlas.x, &atlas.columns),
        places(atlas.y, &atlas.rows),
    );
    let squared = |point: &Point| {
        let x = rank_of(atlas.x, &xs, point.x);
        (x, rank_of(atlas.y, &ys, point.y))
    };
    let open = line.field.open_regions();
    let area = |outline: &Polyline| Mark::Area {
        name: "it stays open who is faster".into(),
        color: MarkColor::Plain,
        outline: outline.points.iter().map(squared).collect(),
    };
    let curve = |curve: &Polyline| {
        let datum = |point: &Point| {
            let (x, y) = squared(point);
            let interval = None;
            Datum {
                x,
                y,
                interval,
                of: None,
            }
        };
        let closing = curve.points.first().filter(|_| curve.closed);
        Mark::Series(Series {
            name: "zero line".into(),
            value: atlas.y.name().into(),
            interval: String::new(),
            color: MarkColor::Plain,
            form: Form::Line,
            spread: Spread::None,
            aside: 0.0,
            points: curve.points.iter().chain(closing).map(datum).collect(),
        })
    };
    open.iter()
        .map(area)
        .chain(line.lines.iter().map(curve))
        .collect()
}

/// Position of a place among measured ones that are drawn one apart.
fn rank_of(dim: Dimension, places: &[f64], place: f64) -> f64 {
    let above = places.partition_point(|known| *known <= place);
    let before = above.clamp(1, places.len() - 1) - 1;
    let spaced = |place: f64| dim.scale().apply(place);
    let (from, to) = (spaced(places[before]), spaced(places[before + 1]));
    before as f64 + (spaced(place) - from) / (to - from)
}

fn table(analysis: &Analysis<'_>, atlas: &Atlas<'_>, names: &Names, shown: &[&Map<'_>]) -> Table {
    let head = ["cell", "pairs", "difference", "95 % interval", "winner"];
    let row = |result: &&CellResult<'_>| {
        let pairing = result.pairings.get(&atlas.other)?;
        let comparison = &pairing.comparison;
        let interval = words::interval(comparison.percent_interval());
        let winner = verdict::winner(pairing, analysis.baseline, atlas.other);
        Some(vec![
            names.row(&result.cell),
            words::pairs_in_table(comparison.n),
            words::percent(difference(pairing)),
            interval,
            winner.to_owned(),
        ])
    };
    let results = shown.iter().flat_map(|map| map.results.iter().flatten());
    Table {
        head: head.map(str::to_owned).to_vec(),
        rows: results.filter_map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_between_cells_are_drawn_between_them() {
        let delays = [0.0, 5.0, 15.0, 25.0];
        let rank = |place| rank_of(Dimension::Delay, &delays, place);
        assert_eq!([0.0, 5.0, 10.0, 25.0].map(rank), [0.0, 1.0, 1.5, 3.0]);
    }

    #[test]
    fn one_outlier_does_not_pale_a_map() {
        let gains = (0..20).map(|i| if i == 0 { 900.0 } else { 10.0 });
        assert!(limit_of(gains) < 20.0);
        assert_eq!(limit_of(std::iter::empty()), LEAST_LIMIT);
    }
}
