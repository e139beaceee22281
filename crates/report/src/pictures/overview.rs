//! A whole run at a glance: who wins each cell, and by how much.

use super::axes;
use super::dimensions::{Curves, Dimension, Names, varied};
use super::finding::{self, Count};
use super::{evenly, map};
use crate::analysis::{Analysis, CellResult};
use crate::figure::{Figure, Mark, Panel, Table, Tile, Tiles};
use crate::{verdict, words};
use altway_record::Protocol;

/// Most rows and columns of the picture.
const MAX_ROWS: usize = 40;
const MAX_COLUMNS: usize = 24;

/// A row of the picture: cells that differ in their place along x, and whom they hold against the
/// baseline.
struct Row<'b> {
    name: String,
    other: Protocol,
    cells: Vec<&'b CellResult<'b>>,
}

pub(super) fn figure(analysis: &Analysis<'_>) -> Option<Figure> {
    let other = *analysis.others.first()?;
    let (curves, names) = (Curves::new(analysis), Names::new(analysis));
    let rows = rows(analysis, &curves, &names);
    let (all, count) = (rows.len(), analysis.cells.len());
    let shown = evenly(rows, MAX_ROWS);
    let cell = &shown.first()?.cells.first()?.cell;
    let title = match analysis.others.len() {
        1 => {
            let pairings = finding::pairings(analysis, other).map(|(_, pairing)| pairing);
            Count::of(pairings).sentence(analysis.baseline, other)
        }
        _ => format!(
            "who is faster than {} in {}",
            analysis.baseline.name(),
            words::count(count, "cell")
        ),
    };
    let rest = if shown.len() < all {
        format!(
            " Shown are {} of {all} rows; summary.csv holds all {count} cells.",
            shown.len()
        )
    } else {
        String::new()
    };
    Some(Figure {
        name: "overview".into(),
        title: format!("At a glance: {title}"),
        caption: analysis
            .others
            .iter()
            .map(|other| caption(analysis, &names, *other))
            .collect::<Vec<_>>()
            .join(" "),
        legend_text: format!(
            "In each cell the difference from {} in per cent: negative is faster. {}{}{rest}",
            analysis.baseline.name(),
            map::UNDECIDED,
            names.common(cell)
        ),
        legend: map::legend(analysis.protocols()),
        panels: vec![panel(analysis, &curves, &shown)],
        table: table(analysis.baseline, &curves, &shown),
    })
}

fn rows<'b>(analysis: &'b Analysis<'_>, curves: &Curves<'b, '_>, names: &Names) -> Vec<Row<'b>> {
    let mut rows = Vec::new();
    for curve in &curves.curves {
        for other in &analysis.others {
            if curve.iter().all(|cell| !cell.pairings.contains_key(other)) {
                continue;
            }
            let setting = names.of(&curve[0].cell, &[curves.dim]);
            let name = match (setting.is_empty(), analysis.others.len()) {
                (false, 1) => setting,
                (true, _) => other.name().to_owned(),
                (false, _) => format!("{setting} · {}", other.name()),
            };
            rows.push(Row {
                name,
                other: *other,
                cells: curve
                    .iter()
                    .map(|cell| -> &CellResult<'_> { cell })
                    .collect(),
            });
        }
    }
    rows
}

/// Says how often a protocol is faster at both ends of each quantity, and by how much at most.
fn caption(analysis: &Analysis<'_>, names: &Names, other: Protocol) -> String {
    let at_end = |dim: Dimension, end: &CellResult<'_>| {
        let order = |result: &CellResult<'_>| dim.order(&result.cell);
        let pairings = finding::pairings(analysis, other);
        let here = pairings.filter(|(result, _)| order(result) == order(end));
        Count::of(here.map(|(_, pairing)| pairing))
    };
    let wins = |dim: Dimension| {
        let order = |result: &&CellResult<'_>| dim.order(&result.cell);
        let least = analysis.cells.iter().min_by_key(order)?;
        let most = analysis.cells.iter().max_by_key(order)?;
        let (few, many) = (at_end(dim, least), at_end(dim, most));
        (few.all() > 1 && many.all() > 1).then(|| {
            format!(
                "in {} of {} cells at {} and {} of {} at {}",
                few.second,
                few.all(),
                dim.full_text(&least.cell),
                many.second,
                many.all(),
                dim.text(&most.cell)
            )
        })
    };
    let parts: Vec<String> = varied(analysis).into_iter().filter_map(wins).collect();
    let mut text = match parts.as_slice() {
        [] => String::new(),
        parts => format!("{} is faster {}.", other.name(), parts.join("; ")),
    };
    text.push_str(&finding::extremes(analysis, names, other));
    text.trim_start().to_owned()
}

fn panel(analysis: &Analysis<'_>, curves: &Curves<'_, '_>, rows: &[Row<'_>]) -> Panel {
    let mut columns = curves.ranks();
    columns.ticks = evenly(columns.ticks, MAX_COLUMNS);
    let kept: Vec<f64> = columns.ticks.iter().map(|(rank, _)| *rank).collect();
    let column = |cell: &CellResult<'_>| {
        let rank = curves.rank(&cell.cell);
        kept.iter().position(|known| *known == rank)
    };
    let mut tiles: Vec<(Protocol, Tile)> = Vec::new();
    for (from_top, row) in rows.iter().enumerate() {
        let y = (rows.len() - 1 - from_top) as f64;
        for cell in &row.cells {
            let Some(x) = column(cell) else { continue };
            let at = (x as f64, y);
            let tile = map::tile(Some(cell), at, analysis.baseline, row.other);
            tiles.push((row.other, tile));
        }
    }
    let limit = map::limit_of(tiles.iter().filter_map(|(_, tile)| tile.value));
    let of_protocol = |other: &Protocol| {
        let own = tiles.iter().filter(|(of, _)| of == other);
        Mark::Tiles(Tiles {
            below: *other,
            above: analysis.baseline,
            value: format!("difference of {} (%)", other.name()),
            limit,
            tiles: own.map(|(_, tile)| tile.clone()).collect(),
        })
    };
    let upwards = rows.iter().rev().map(|row| row.name.clone());
    Panel {
        title: String::new(),
        x: axes::ordered(
            curves.dim.name(),
            columns.ticks.into_iter().map(|tick| tick.1),
        ),
        y: axes::ordered("", upwards),
        marks: analysis.others.iter().map(of_protocol).collect(),
    }
}

fn table(baseline: Protocol, curves: &Curves<'_, '_>, rows: &[Row<'_>]) -> Table {
    let head = [
        "row",
        curves.dim.name(),
        "protocol",
        "pairs",
        "difference",
        "95 % interval",
        "winner",
    ];
    let mut texts = Vec::new();
    for row in rows {
        for cell in &row.cells {
            let Some(pairing) = cell.pairings.get(&row.other) else {
                continue;
            };
            texts.push(vec![
                row.name.clone(),
                curves.dim.text(&cell.cell),
                row.other.name().to_owned(),
                words::pairs_in_table(pairing.comparison.n),
                words::percent(pairing.comparison.percent()),
                words::interval(pairing.comparison.percent_interval()),
                verdict::winner(pairing, baseline, row.other).to_owned(),
            ]);
        }
    }
    Table {
        head: head.map(str::to_owned).to_vec(),
        rows: texts,
    }
}
