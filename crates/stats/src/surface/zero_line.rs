//! The line on which neither of two is faster, and how sure its course is.
//!
//! The counterpart of one axis's crossover: on one side of the line the first wins, on the other the
//! second. Within its band the measurements leave open who does; a server that knows its client's
//! place to be inside had better not switch (the zone of indifference).

use super::contour::Polyline;
use super::ensemble::Ensemble;
use super::field::{Field, Place};
use super::grid::{Grid, GridAxis};
use crate::bootstrap::Bootstrap;

/// The most steps between neighbouring places of an axis in a [`Field`].
pub const MAX_REFINEMENT: usize = 32;

/// Promise of the band of a zero line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Band {
    /// Level at each place by itself: percentiles of the ensemble there. For a decision about one
    /// place.
    #[default]
    Pointwise,
    /// Level for the line as a whole: the true line lies inside the band along its whole course
    /// with the level's probability. Wider: all places' deviations in multiples of their spread
    /// are held under the level's quantile of the largest.
    Simultaneous,
}

/// Options of the search for a zero line. The default is 2,000 resamples at level 0.95, eight
/// steps and [`Band::Pointwise`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ZeroLineOptions {
    /// Number of surfaces in the ensemble, level of the band and seed. Costs, per resample, an
    /// estimate and 8 bytes for each cell, and a value for each place of the field.
    pub bootstrap: Bootstrap,
    /// Steps of the field between neighbouring places of each axis, 1 to [`MAX_REFINEMENT`]: what
    /// makes the band's borders smooth.
    pub refinement: usize,
    /// Promise of the band.
    pub band: Band,
}

impl Default for ZeroLineOptions {
    fn default() -> Self {
        Self {
            bootstrap: Bootstrap {
                resamples: 2_000,
                ..Bootstrap::default()
            },
            refinement: 8,
            band: Band::Pointwise,
        }
    }
}

/// Result of [`zero_line`] and [`smooth_zero_line`].
#[derive(Debug, Clone, PartialEq)]
pub struct ZeroLine {
    /// Place where the estimate is zero: none, one or several lines.
    pub lines: Vec<Polyline>,
    /// The border of the band towards the first: beyond it the first is faster.
    pub first_from: Vec<Polyline>,
    /// The border of the band towards the second: beyond it the second is faster.
    pub second_from: Vec<Polyline>,
    /// Share of the ensemble's surfaces that are on one side everywhere, 0 to 1.
    pub share_without: f64,
    /// Share of the measured range in which the first is faster, 0 to 1, both axes on their scales;
    /// 0 on a grid of one row or column.
    pub first_share: f64,
    /// The same of each surface of the ensemble: its quantiles are the share's interval, and of two
    /// grids the differences, one by one, tell whether the first's region has grown.
    pub first_shares: Vec<f64>,
    /// The surface itself.
    pub field: Field,
}

/// Finds where the winner changes on a grid whose cells are all measured: from each cell its own
/// estimate, in between bilinear.
///
/// `None` when a cell has fewer than two pairs, or the options are out of range.
///
/// ```
/// use altway_stats::{Grid, GridAxis, Scale, ZeroLineOptions, zero_line};
///
/// let delay = GridAxis::new(&[0.0, 50.0, 100.0], Scale::Linear).expect("rises");
/// let loss = GridAxis::new(&[0.0, 1.0], Scale::Log1p).expect("rises");
/// let mut grid = Grid::new(delay, loss).expect("six cells");
/// for (cell, middle) in [0.10, 0.02, -0.06, 0.02, -0.06, -0.14].iter().enumerate() {
///     grid.add(cell, &[-0.010, -0.005, 0.0, 0.005, 0.010].map(|noise| middle + noise));
/// }
/// let found = zero_line(&grid, &ZeroLineOptions::default()).expect("all cells have pairs");
/// assert_eq!(found.lines.len(), 1);
/// let open = found.field.at(62.5, 0.0).expect("in the measured range");
/// assert!(open.is_open() && open.estimate.abs() < 1e-9);
/// let clear = found.field.at(100.0, 1.0).expect("in the measured range");
/// assert!(clear.second_faster == 1.0 && clear.gain() > 0.1);
/// ```
#[must_use]
pub fn zero_line(grid: &Grid, options: &ZeroLineOptions) -> Option<ZeroLine> {
    if !is_valid(options) {
        return None;
    }
    let ensemble = Ensemble::resampled(grid, &options.bootstrap)?;
    Some(traced(grid, &ensemble, options))
}

/// The same as [`zero_line`], on a grid of which some cells, or all, are measured, as adaptive
/// sampling leaves it: a smooth surface through them (a Gaussian process), and an ensemble of what it
/// might be.
///
/// `None` when no cell has pairs, or the options are out of range.
#[must_use]
pub fn smooth_zero_line(grid: &Grid, options: &ZeroLineOptions) -> Option<ZeroLine> {
    if !is_valid(options) {
        return None;
    }
    let ensemble = Ensemble::smoothed(grid, &options.bootstrap)?;
    Some(traced(grid, &ensemble, options))
}

fn is_valid(options: &ZeroLineOptions) -> bool {
    options.bootstrap.is_valid() && (1..=MAX_REFINEMENT).contains(&options.refinement)
}

fn traced(grid: &Grid, ensemble: &Ensemble, options: &ZeroLineOptions) -> ZeroLine {
    let fine = Fine::new(grid, options.refinement);
    let places = match options.band {
        Band::Pointwise => fine.pointwise(ensemble, options),
        Band::Simultaneous => fine.simultaneous(ensemble, options),
    };
    let field = Field {
        x: fine.x,
        y: fine.y,
        places,
        level: options.bootstrap.level,
    };
    let one_side = |member: &&Vec<f64>| {
        member.iter().all(|value| *value < 0.0) || member.iter().all(|value| *value >= 0.0)
    };
    let without = ensemble.members.iter().filter(one_side).count();
    let shares = ensemble
        .members
        .iter()
        .map(|member| share_above(grid, member));
    ZeroLine {
        lines: field.lines(|place| place.estimate, 0.0),
        first_from: field.lines(|place| place.low, 0.0),
        second_from: field.lines(|place| place.high, 0.0),
        share_without: without as f64 / ensemble.members.len() as f64,
        first_share: share_above(grid, &ensemble.centre),
        first_shares: shares.collect(),
        field,
    }
}

/// Returns how much of the range between the cells' places the bilinear surface through `cells`
/// lies above zero: exact along the rows of a fine grid, by the trapezoid rule across them.
fn share_above(grid: &Grid, cells: &[f64]) -> f64 {
    const ROWS: usize = 8;
    let columns = grid.x().places().len();
    let at = |axis: &GridAxis, i: usize| axis.normalised(axis.places()[i]);
    let of_row = |row: &[f64]| -> f64 {
        let step = |i: usize| {
            let width = at(grid.x(), i + 1) - at(grid.x(), i);
            width * part_above(row[i], row[i + 1])
        };
        (0..columns - 1).map(step).sum()
    };
    let mut share = 0.0;
    for row in 1..grid.y().places().len() {
        let (low, high) = (&cells[(row - 1) * columns..], &cells[row * columns..]);
        let height = at(grid.y(), row) - at(grid.y(), row - 1);
        for step in 0..=ROWS {
            let up = step as f64 / ROWS as f64;
            let mix = |i: usize| (1.0 - up) * low[i] + up * high[i];
            let values: Vec<f64> = (0..columns).map(mix).collect();
            let weight = if step == 0 || step == ROWS { 0.5 } else { 1.0 };
            share += of_row(&values) * height * weight / ROWS as f64;
        }
    }
    share
}

/// Returns how much of a straight line from `a` to `b` lies above zero.
fn part_above(a: f64, b: f64) -> f64 {
    match (a > 0.0, b > 0.0) {
        (true, true) => 1.0,
        (false, false) => 0.0,
        (true, false) => a / (a - b),
        (false, true) => b / (b - a),
    }
}

/// The places of a fine grid, each as a mixture of up to four cells.
struct Fine {
    x: GridAxis,
    y: GridAxis,
    mixtures: Vec<[(usize, f64); 4]>,
}

impl Fine {
    fn new(grid: &Grid, refinement: usize) -> Self {
        let (x, y) = (grid.x().refined(refinement), grid.y().refined(refinement));
        let (columns, rows) = (grid.x().places().len(), grid.y().places().len());
        let mut mixtures = Vec::with_capacity(x.places().len() * y.places().len());
        // Place i of the fine axis lies i % refinement steps beyond the cell i / refinement.
        let split = |i: usize, count: usize| {
            let before = i / refinement;
            let part = (i % refinement) as f64 / refinement as f64;
            (before, (before + 1).min(count - 1), part)
        };
        for row in 0..y.places().len() {
            let (low, high, up) = split(row, rows);
            for column in 0..x.places().len() {
                let (left, right, along) = split(column, columns);
                mixtures.push([
                    (low * columns + left, (1.0 - along) * (1.0 - up)),
                    (low * columns + right, along * (1.0 - up)),
                    (high * columns + left, (1.0 - along) * up),
                    (high * columns + right, along * up),
                ]);
            }
        }
        Self { x, y, mixtures }
    }

    fn pointwise(&self, ensemble: &Ensemble, options: &ZeroLineOptions) -> Vec<Place> {
        let (lower, upper) = options.bootstrap.tails();
        let last = (ensemble.members.len() - 1) as f64;
        let mut values = Vec::with_capacity(ensemble.members.len());
        let mut place = |mixture: &[(usize, f64); 4]| {
            values.clear();
            values.extend(ensemble.members.iter().map(|member| mixed(mixture, member)));
            // The outer neighbours, as for the interval of a crossover.
            let (low, high) = ((lower * last).floor(), (upper * last).ceil());
            Place {
                estimate: mixed(mixture, &ensemble.centre),
                second_faster: share_below(&values),
                low: *values
                    .select_nth_unstable_by(low as usize, f64::total_cmp)
                    .1,
                high: *values
                    .select_nth_unstable_by(high as usize, f64::total_cmp)
                    .1,
            }
        };
        self.mixtures.iter().map(&mut place).collect()
    }

    fn simultaneous(&self, ensemble: &Ensemble, options: &ZeroLineOptions) -> Vec<Place> {
        let mut largest = vec![0.0_f64; ensemble.members.len()];
        let mut places = Vec::with_capacity(self.mixtures.len());
        for mixture in &self.mixtures {
            let estimate = mixed(mixture, &ensemble.centre);
            let of_member = |member: &Vec<f64>| mixed(mixture, member);
            let values: Vec<f64> = ensemble.members.iter().map(of_member).collect();
            let squares: f64 = values.iter().map(|value| (value - estimate).powi(2)).sum();
            let spread = (squares / values.len() as f64).sqrt();
            if spread > 0.0 {
                for (largest, value) in largest.iter_mut().zip(&values) {
                    *largest = largest.max((value - estimate).abs() / spread);
                }
            }
            places.push((estimate, spread, share_below(&values)));
        }
        largest.sort_by(f64::total_cmp);
        let last = (largest.len() - 1) as f64;
        let reach = largest[(options.bootstrap.level * last).ceil() as usize];
        let place = |(estimate, spread, second_faster)| Place {
            estimate,
            low: estimate - reach * spread,
            high: estimate + reach * spread,
            second_faster,
        };
        places.into_iter().map(place).collect()
    }
}

fn mixed(mixture: &[(usize, f64); 4], cells: &[f64]) -> f64 {
    mixture
        .iter()
        .map(|(cell, weight)| weight * cells[*cell])
        .sum()
}

fn share_below(values: &[f64]) -> f64 {
    values.iter().filter(|value| **value < 0.0).count() as f64 / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Scale;
    use crate::surface::contour::Point;

    /// The distance of `point` from the nearest corner of `lines`, each axis from 0 to 1; infinite
    /// without lines.
    fn distance(point: &Point, lines: &[Polyline], field: &Field) -> f64 {
        let at = |point: &Point| (field.x.normalised(point.x), field.y.normalised(point.y));
        let (x, y) = at(point);
        let corners = lines.iter().flat_map(|line| &line.points).map(at);
        corners.fold(f64::INFINITY, |nearest, (a, b)| {
            nearest.min((a - x).hypot(b - y))
        })
    }

    /// Three by three cells; the difference falls along both axes.
    fn grid(noise: f64) -> Grid {
        let delay = GridAxis::new(&[0.0, 50.0, 100.0], Scale::Linear).unwrap();
        let loss = GridAxis::new(&[0.0, 1.0, 3.0], Scale::Log1p).unwrap();
        let mut grid = Grid::new(delay, loss).unwrap();
        for cell in 0..9 {
            let middle = 0.10 - 0.08 * ((cell % 3) as f64 + (cell / 3) as f64);
            let pairs: Vec<f64> = (0..10)
                .map(|i| middle + noise * (f64::from(i) - 4.5))
                .collect();
            assert!(grid.add(cell, &pairs));
        }
        grid
    }

    fn options(band: Band) -> ZeroLineOptions {
        ZeroLineOptions {
            bootstrap: Bootstrap {
                resamples: 400,
                ..Bootstrap::default()
            },
            band,
            ..ZeroLineOptions::default()
        }
    }

    #[test]
    fn without_spread_line_and_borders_are_one() {
        let found = zero_line(&grid(0.0), &options(Band::Pointwise)).unwrap();
        assert_eq!(found.lines.len(), 1);
        assert_eq!(found.share_without, 0.0);
        for border in [&found.first_from, &found.second_from] {
            for point in border.iter().flat_map(|line| &line.points) {
                assert!(distance(point, &found.lines, &found.field) < 1e-9);
            }
        }
        // The line runs from 62.5 ms without loss to 0 ms with 1.38 %: ln(1 + x) in between.
        let place = found.field.at(62.5, 0.0).unwrap();
        assert!(place.estimate.abs() < 1e-9 && place.gain().abs() < 1e-9);
        let place = found.field.at(0.0, 2.0_f64.powf(1.25) - 1.0).unwrap();
        assert!(place.estimate.abs() < 1e-3, "{place:?}");
    }

    #[test]
    fn the_first_wins_below_and_the_second_above_the_band() {
        let found = zero_line(&grid(0.01), &options(Band::Pointwise)).unwrap();
        assert_eq!(found.field.at(0.0, 0.0).unwrap().second_faster, 0.0);
        assert_eq!(found.field.at(100.0, 3.0).unwrap().second_faster, 1.0);
        assert!(found.field.at(62.5, 0.0).unwrap().is_open());
        let first = &found.first_from[0].points;
        let second = &found.second_from[0].points;
        let at_no_loss = |points: &[Point]| points.iter().find(|p| p.y == 0.0).unwrap().x;
        assert!(at_no_loss(first) < 62.0 && at_no_loss(second) > 63.0);
        assert_eq!(found.field.at(101.0, 0.0), None);
    }

    #[test]
    fn a_band_for_the_whole_line_is_wider_than_one_for_a_place() {
        let width = |band| {
            let found = zero_line(&grid(0.01), &options(band)).unwrap();
            let place = found.field.at(40.0, 0.5).unwrap();
            place.high - place.low
        };
        let (one, whole) = (width(Band::Pointwise), width(Band::Simultaneous));
        assert!(whole > 1.2 * one && whole < 2.5 * one, "{one} {whole}");
    }

    #[test]
    fn a_surface_on_one_side_has_no_line_and_says_how_surely() {
        let mut grid = grid(0.0);
        for cell in 0..9 {
            grid.add(cell, &[1.0; 30]);
        }
        let found = zero_line(&grid, &options(Band::Pointwise)).unwrap();
        assert!(found.lines.is_empty() && found.second_from.is_empty());
        assert_eq!(found.share_without, 1.0);
    }

    #[test]
    fn needs_pairs_in_every_cell_unless_it_may_smooth() {
        let axis = || GridAxis::new(&[0.0, 1.0, 2.0], Scale::Linear).unwrap();
        let mut partial = Grid::new(axis(), axis()).unwrap();
        assert_eq!(smooth_zero_line(&partial, &options(Band::Pointwise)), None);
        for (cell, middle) in [(0, 0.1), (2, 0.02), (4, 0.0), (6, -0.02), (8, -0.1)] {
            partial.add(cell, &[middle - 0.01, middle, middle + 0.01]);
        }
        assert_eq!(zero_line(&partial, &options(Band::Pointwise)), None);
        let found = smooth_zero_line(&partial, &options(Band::Pointwise)).unwrap();
        assert_eq!(found.lines.len(), 1);
        assert!(found.field.at(1.0, 1.0).unwrap().is_open());
        assert!(found.field.at(0.0, 0.0).unwrap().low > 0.0);
        let broken = ZeroLineOptions {
            refinement: 0,
            ..options(Band::Pointwise)
        };
        assert_eq!(zero_line(&grid(0.0), &broken), None);
    }

    #[test]
    fn the_seed_alone_decides_the_band() {
        let with = |seed| {
            let bootstrap = Bootstrap {
                seed,
                resamples: 200,
                ..Bootstrap::default()
            };
            let options = ZeroLineOptions {
                bootstrap,
                ..ZeroLineOptions::default()
            };
            zero_line(&grid(0.01), &options).unwrap()
        };
        assert_eq!(with(1), with(1));
        assert_ne!(with(1).field, with(2).field);
    }

    #[test]
    fn one_row_is_a_field_without_lines() {
        let delay = GridAxis::new(&[0.0, 50.0], Scale::Linear).unwrap();
        let rate = GridAxis::new(&[5.0], Scale::Linear).unwrap();
        let mut row = Grid::new(delay, rate).unwrap();
        row.add(0, &[0.1, 0.1]);
        row.add(1, &[-0.1, -0.1]);
        let found = zero_line(&row, &options(Band::Pointwise)).unwrap();
        assert!(found.lines.is_empty());
        assert!(found.field.at(25.0, 5.0).unwrap().estimate.abs() < 1e-12);
    }
}
