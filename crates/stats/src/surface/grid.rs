//! The pairs measured on a grid of cells, as over delay and loss at one rate.

use crate::hodges_lehmann::estimate_in_place;
use crate::scale::Scale;
use crate::surface::contour::Point;

/// The most cells of a grid. The model between cells takes time and memory with the square of it
/// and more, so a finer map is better made of several.
pub const MAX_GRID_CELLS: usize = 400;

/// An axis of a [`Grid`].
#[derive(Debug, Clone, PartialEq)]
pub struct GridAxis {
    places: Vec<f64>,
    scale: Scale,
}

impl GridAxis {
    /// `None` without places, when they do not rise, or when the scale does not allow one of them.
    #[must_use]
    pub fn new(places: &[f64], scale: Scale) -> Option<Self> {
        let rises = places.windows(2).all(|pair| pair[0] < pair[1]);
        let allowed = places.iter().all(|place| scale.allows(*place));
        (!places.is_empty() && rises && allowed).then(|| Self {
            places: places.to_vec(),
            scale,
        })
    }

    /// The places, rising, in the axis' unit.
    #[must_use]
    pub fn places(&self) -> &[f64] {
        &self.places
    }

    /// Returns the scale on which it is spaced.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Finds the two places between which `place` lies, and the share of the way between them, 0 to
    /// 1 on the axis' scale; `None` outside.
    pub(crate) fn locate(&self, place: f64) -> Option<(usize, f64)> {
        let last = self.places.len() - 1;
        if !(self.places[0] <= place && place <= self.places[last]) {
            return None;
        }
        let above = self.places.partition_point(|known| *known <= place);
        let before = (above - 1).min(last.saturating_sub(1));
        let Some(next) = self.places.get(before + 1) else {
            return Some((0, 0.0));
        };
        let spaced = |place: f64| self.scale.apply(place);
        let from = spaced(self.places[before]);
        Some((before, (spaced(place) - from) / (spaced(*next) - from)))
    }

    /// The axis with `parts` steps between neighbours, even on its scale.
    pub(crate) fn refined(&self, parts: usize) -> Self {
        let mut places = Vec::new();
        for pair in self.places.windows(2) {
            let (from, to) = (self.scale.apply(pair[0]), self.scale.apply(pair[1]));
            let part = |i: usize| {
                self.scale
                    .invert(from + (to - from) * i as f64 / parts as f64)
            };
            places.push(pair[0]);
            places.extend((1..parts).map(part));
        }
        places.extend(self.places.last());
        let scale = self.scale;
        Self { places, scale }
    }

    /// Returns the place from 0 at the first to 1 at the last, even on the axis' scale.
    pub(crate) fn normalised(&self, place: f64) -> f64 {
        let spaced = |place: f64| self.scale.apply(place);
        let (first, last) = (
            spaced(self.places[0]),
            spaced(self.places[self.places.len() - 1]),
        );
        if last > first {
            (spaced(place) - first) / (last - first)
        } else {
            0.0
        }
    }
}

/// Log-ratios ln(second / first) by cell. Cells are numbered row by row: the first axis is the
/// column's, the second the row's.
///
/// ```
/// use altway_stats::{Grid, GridAxis, Scale};
/// let delay = GridAxis::new(&[0.0, 25.0, 50.0], Scale::Linear).expect("they rise");
/// let loss = GridAxis::new(&[0.0, 1.0], Scale::Log1p).expect("they rise");
/// let mut grid = Grid::new(delay, loss).expect("six cells");
/// assert!(grid.add(4, &[-0.02, 0.01]));
/// let place = grid.place(4).expect("the fifth of six");
/// assert_eq!((place.x, place.y), (25.0, 1.0));
/// assert_eq!(grid.pairs(), 2);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    x: GridAxis,
    y: GridAxis,
    cells: Vec<Vec<f64>>,
}

impl Grid {
    /// A grid without pairs; `None` with more than [`MAX_GRID_CELLS`] cells.
    #[must_use]
    pub fn new(x: GridAxis, y: GridAxis) -> Option<Self> {
        let count = x.places.len().checked_mul(y.places.len())?;
        (count <= MAX_GRID_CELLS).then(|| Self {
            x,
            y,
            cells: vec![Vec::new(); count],
        })
    }

    /// Adds the pairs measured in a cell; false, and nothing is added, when there is no such cell
    /// or a log-ratio is not finite.
    pub fn add(&mut self, cell: usize, log_ratios: &[f64]) -> bool {
        let finite = log_ratios.iter().all(|value| value.is_finite());
        match self.cells.get_mut(cell).filter(|_| finite) {
            Some(pairs) => {
                pairs.extend_from_slice(log_ratios);
                true
            }
            None => false,
        }
    }

    /// The axis of the columns.
    #[must_use]
    pub fn x(&self) -> &GridAxis {
        &self.x
    }

    /// The axis of the rows.
    #[must_use]
    pub fn y(&self) -> &GridAxis {
        &self.y
    }

    /// The log-ratios of each cell.
    #[must_use]
    pub fn cells(&self) -> &[Vec<f64>] {
        &self.cells
    }

    /// Index of a cell; `None` when there is no such cell.
    #[must_use]
    pub fn place(&self, cell: usize) -> Option<Point> {
        let columns = self.x.places.len();
        let (row, column) = (cell / columns, cell % columns);
        let y = *self.y.places.get(row)?;
        Some(Point {
            x: self.x.places[column],
            y,
        })
    }

    /// Returns how many pairs all cells have together.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.cells.iter().map(Vec::len).sum()
    }

    /// Position of a cell, both axes from 0 to 1.
    pub(crate) fn normalised(&self, cell: usize) -> (f64, f64) {
        let columns = self.x.places.len();
        let (row, column) = (cell / columns, cell % columns);
        let x = self.x.normalised(self.x.places[column]);
        (x, self.y.normalised(self.y.places[row]))
    }

    /// The Hodges–Lehmann estimate of a cell that has pairs.
    pub(crate) fn centre(&self, cell: usize) -> f64 {
        estimate_in_place(&mut self.cells[cell].clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(places: &[f64]) -> GridAxis {
        GridAxis::new(places, Scale::Linear).unwrap()
    }

    #[test]
    fn refuses_places_that_do_not_rise_or_do_not_fit_the_scale() {
        assert_eq!(GridAxis::new(&[], Scale::Linear), None);
        assert_eq!(GridAxis::new(&[1.0, 1.0], Scale::Linear), None);
        assert_eq!(GridAxis::new(&[f64::NAN], Scale::Linear), None);
        assert_eq!(GridAxis::new(&[-1.0, 1.0], Scale::Log1p), None);
        let long: Vec<f64> = (0..21).map(f64::from).collect();
        assert_eq!(Grid::new(axis(&long), axis(&long[..20])), None);
        assert!(Grid::new(axis(&long[..20]), axis(&long[..20])).is_some());
    }

    #[test]
    fn refuses_pairs_of_no_cell_and_pairs_that_are_no_number() {
        let mut grid = Grid::new(axis(&[0.0, 1.0]), axis(&[0.0])).unwrap();
        assert!(!grid.add(2, &[0.1]));
        assert!(!grid.add(1, &[0.1, f64::NAN]));
        assert_eq!((grid.pairs(), grid.place(2)), (0, None));
    }

    #[test]
    fn a_place_is_located_between_its_neighbours_on_the_scale() {
        let axis = GridAxis::new(&[0.0, 3.0, 5.0], Scale::Log1p).unwrap();
        assert_eq!(axis.locate(0.0), Some((0, 0.0)));
        assert_eq!(axis.locate(1.0), Some((0, 0.5)));
        assert_eq!(axis.locate(3.0), Some((1, 0.0)));
        assert_eq!(axis.locate(5.0), Some((1, 1.0)));
        assert_eq!(axis.locate(5.1), None);
        assert_eq!(axis.locate(f64::NAN), None);
        let single = GridAxis::new(&[2.0], Scale::Linear).unwrap();
        assert_eq!(single.locate(2.0), Some((0, 0.0)));
    }

    #[test]
    fn refining_keeps_the_places() {
        let fine = axis(&[0.0, 1.0, 3.0]).refined(2);
        assert_eq!(fine.places(), [0.0, 0.5, 1.0, 2.0, 3.0]);
        assert_eq!(axis(&[7.0]).refined(4).places(), [7.0]);
    }
}
