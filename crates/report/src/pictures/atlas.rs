//! Maps of the difference over two quantities, as over delay and loss, and their zero lines: one map for
//! each value of a third, as of the rate, and again for whatever else a run varies.

use super::dimensions::{Dimension, groups, varied};
use super::evenly;
use crate::analysis::{Analysis, CellResult};
use altway_record::{Cell, Protocol};
use altway_stats::{
    Bootstrap, Grid, GridAxis, ZeroLine, ZeroLineOptions, smooth_zero_line, zero_line,
};

/// Maximum of groups of maps that are drawn, and of maps in each.
const MAX_GROUPS: usize = 4;
const MAX_LAYERS: usize = 6;
/// Number of places of the fine grid between a map's cells, about.
const FINE_PLACES: usize = 2_500;

/// The quantities that a map can stand on, from the most natural pair on.
const PAIRS: [(Dimension, Dimension); 6] = [
    (Dimension::Delay, Dimension::Loss),
    (Dimension::Delay, Dimension::Rate),
    (Dimension::Loss, Dimension::Rate),
    (Dimension::Delay, Dimension::Size),
    (Dimension::Loss, Dimension::Size),
    (Dimension::Rate, Dimension::Size),
];
/// Quantities by which maps can be laid over each other.
const LAYERS: [Dimension; 4] = [
    Dimension::Rate,
    Dimension::Size,
    Dimension::Loss,
    Dimension::Delay,
];

/// All maps of one protocol against the baseline.
pub(super) struct Atlas<'b> {
    pub(super) other: Protocol,
    /// Ends the names of its pictures, when a run has several.
    pub(super) suffix: String,
    pub(super) x: Dimension,
    pub(super) y: Dimension,
    /// Quantity in which the maps of a group differ.
    pub(super) layer: Option<Dimension>,
    /// A cell for each place of x, rising, and of y.
    pub(super) columns: Vec<Cell>,
    pub(super) rows: Vec<Cell>,
    /// The maps that differ in the layer alone, by its order.
    pub(super) groups: Vec<Vec<Map<'b>>>,
    /// Number of maps that the run has, those left out included.
    pub(super) count: usize,
    /// True if cells without a place, those of an unlimited rate, are on no map.
    pub(super) placeless: bool,
}

/// The cells over x and y, all else being equal.
pub(super) struct Map<'b> {
    /// A cell of the map, for the conditions that all have in common.
    pub(super) cell: Cell,
    /// Results row by row, upwards.
    pub(super) results: Vec<Option<&'b CellResult<'b>>>,
    /// The line of equal times; `None` without pairs, or with more cells than a line is sought
    /// between.
    pub(super) line: Option<ZeroLine>,
}

/// The maps of each protocol but the first; none when no two quantities vary.
pub(super) fn all<'b>(analysis: &'b Analysis<'_>) -> Vec<Atlas<'b>> {
    let several = analysis.others.len() > 1;
    let atlas = |other: &Protocol| {
        let suffix = if several {
            format!("-{other}")
        } else {
            String::new()
        };
        Atlas::new(analysis, *other, suffix)
    };
    analysis.others.iter().filter_map(atlas).collect()
}

impl<'b> Atlas<'b> {
    fn new(analysis: &'b Analysis<'_>, other: Protocol, suffix: String) -> Option<Self> {
        let varied = varied(analysis);
        let all = || analysis.cells.iter().map(|result| &result.cell);
        let spans = |(x, y): &(Dimension, Dimension)| {
            [x, y]
                .iter()
                .all(|dim| varied.contains(dim) && places(all(), **dim).len() > 1)
        };
        let (x, y) = PAIRS.into_iter().find(spans)?;
        let layer = LAYERS
            .into_iter()
            .find(|dim| ![x, y].contains(dim) && varied.contains(dim));
        let (columns, rows) = (places(all(), x), places(all(), y));
        let placed = |result: &&'b CellResult<'_>| {
            x.place(&result.cell).is_some() && y.place(&result.cell).is_some()
        };
        let mut atlas = Self {
            other,
            suffix,
            x,
            y,
            layer,
            columns,
            rows,
            groups: Vec::new(),
            count: 0,
            placeless: !analysis.cells.iter().all(|result| placed(&result)),
        };
        let cells: Vec<&CellResult<'_>> = analysis.cells.iter().filter(placed).collect();
        atlas.count = groups(cells.iter().copied(), &[x, y]).len();
        atlas.fill(cells.into_iter(), analysis.run.manifest.plan.seed);
        let measured = atlas.maps().any(Map::is_measured);
        measured.then_some(atlas)
    }

    /// Sorts the cells into maps, and seeks the line of each.
    fn fill(&mut self, cells: impl Iterator<Item = &'b CellResult<'b>>, seed: u64) {
        let mut dimensions = vec![self.x, self.y];
        dimensions.extend(self.layer);
        let by_group = groups(cells, &dimensions);
        for group in evenly(by_group, MAX_GROUPS) {
            let mut layers = groups(group.into_iter(), &[self.x, self.y]);
            if let Some(layer) = self.layer {
                layers.sort_by_key(|cells| layer.order(&cells[0].cell));
            }
            let maps: Vec<Map<'_>> = evenly(layers, MAX_LAYERS)
                .into_iter()
                .enumerate()
                .map(|(i, cells)| self.map(&cells, seed.wrapping_add(i as u64)))
                .collect();
            self.groups.push(maps);
        }
    }

    fn map(&self, cells: &[&'b CellResult<'b>], seed: u64) -> Map<'b> {
        let at = |column: &Cell, row: &Cell| {
            let here = |result: &&&'b CellResult<'b>| {
                self.x.order(&result.cell) == self.x.order(column)
                    && self.y.order(&result.cell) == self.y.order(row)
            };
            cells.iter().find(here).copied()
        };
        let row = |row: &Cell| {
            let across = self.columns.iter().map(|column| at(column, row));
            across.collect::<Vec<_>>()
        };
        let results: Vec<_> = self.rows.iter().flat_map(row).collect();
        Map {
            cell: cells[0].cell,
            line: self.line(&results, seed),
            results,
        }
    }

    fn line(&self, results: &[Option<&CellResult<'_>>], seed: u64) -> Option<ZeroLine> {
        let axis = |dim: Dimension, cells: &[Cell]| {
            let places: Vec<f64> = cells.iter().filter_map(|cell| dim.place(cell)).collect();
            GridAxis::new(&places, dim.scale())
        };
        let mut grid = Grid::new(axis(self.x, &self.columns)?, axis(self.y, &self.rows)?)?;
        for (i, result) in results.iter().enumerate() {
            if let Some(pairing) = result.and_then(|result| result.pairings.get(&self.other)) {
                grid.add(i, &pairing.log_ratios);
            }
        }
        let steps = (FINE_PLACES as f64 / results.len() as f64).sqrt();
        let options = ZeroLineOptions {
            bootstrap: Bootstrap {
                seed,
                ..ZeroLineOptions::default().bootstrap
            },
            refinement: (steps as usize).clamp(1, 8),
            ..ZeroLineOptions::default()
        };
        zero_line(&grid, &options).or_else(|| smooth_zero_line(&grid, &options))
    }

    /// All maps that are drawn.
    pub(super) fn maps(&self) -> impl Iterator<Item = &Map<'b>> {
        self.groups.iter().flatten()
    }

    /// Names the two axes of the map: `delay and loss`.
    pub(super) fn ground(&self) -> String {
        format!("{} and {}", self.x.name(), self.y.name())
    }
}

impl Map<'_> {
    fn is_measured(&self) -> bool {
        let mut cells = self.results.iter().flatten();
        cells.any(|result| !result.pairings.is_empty())
    }
}

/// The first cell of each place of a quantity, rising.
fn places<'c>(cells: impl Iterator<Item = &'c Cell>, dim: Dimension) -> Vec<Cell> {
    let mut cells: Vec<Cell> = cells
        .filter(|cell| dim.place(cell).is_some())
        .copied()
        .collect();
    cells.sort_by_key(|cell| dim.order(cell));
    cells.dedup_by_key(|cell| dim.order(cell));
    cells
}
