//! Adaptive sampling: which cells to measure next, so that the zero line is found with few
//! transfers.
//!
//! A full grid spends most of its transfers where the winner is plain. Here each round goes to the
//! cells whose sign is least sure: estimate near zero, and little known (the straddle rule of Bryan
//! et al. 2005). What is known between cells comes from the smooth surface through all of them, so
//! many cells need no transfer at all.
//!
//! Left to others: making the transfers, and putting a round's cells in random order (`lab`).

use super::ensemble::{observations, variance_of_estimate, variances_of_pairs};
use super::grid::Grid;
use super::kriging::{Kriging, Observation};
use statrs::distribution::{ContinuousCDF, Normal};

/// Options of adaptive sampling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptiveOptions {
    /// A cell is settled when one of the two is surely not slower by more than this log-ratio. Half
    /// of the band within which a comparison counts as equal, so that what lies between cells, and
    /// what the full grid itself does not know, stays within that band.
    pub band: f64,
    /// Probability with which the interval of a cell covers the truth; high, because several cells
    /// lie along the line and all of them should be right.
    pub level: f64,
    /// Pairs to measure in a cell of a round; at least 2, so that its spread is known.
    pub pairs_at_once: usize,
    /// The most cells of a round: the more, the better they are interleaved; the fewer, the better
    /// each is chosen.
    pub cells_at_once: usize,
    /// The most pairs of one cell.
    pub max_pairs_per_cell: usize,
    /// The most pairs of all cells together.
    pub max_pairs: usize,
}

impl AdaptiveOptions {
    /// Rounds of four cells with six pairs each, a band of 0.015, level 0.99, and at most `max_pairs`
    /// pairs, all of them in one cell if need be.
    #[must_use]
    pub fn up_to(max_pairs: usize) -> Self {
        Self {
            band: 0.015,
            level: 0.99,
            pairs_at_once: 6,
            cells_at_once: 4,
            max_pairs_per_cell: max_pairs,
            max_pairs,
        }
    }

    fn is_valid(&self) -> bool {
        let level = self.level > 0.0 && self.level < 1.0;
        let counts = self.pairs_at_once >= 2 && self.cells_at_once >= 1;
        level && counts && self.band.is_finite() && self.band >= 0.0
    }

    /// Returns how many standard deviations an interval of the level reaches to each side.
    fn reach(&self) -> f64 {
        Normal::standard().inverse_cdf(f64::midpoint(1.0, self.level))
    }
}

/// The next step of the sampling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Measure [`AdaptiveOptions::pairs_at_once`] pairs in each of these cells, the least sure first.
    Measure(Vec<usize>),
    /// Measure no more.
    Stop(AdaptiveStop),
}

/// Reason why sampling ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AdaptiveStop {
    /// Every cell is settled.
    Settled,
    /// The cells that are not settled may not be measured any more: the line is known less well
    /// than was asked for.
    Exhausted,
}

/// Knowledge of a cell, from its own pairs and its neighbours'.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellOutlook {
    /// Estimate of ln(second / first).
    pub estimate: f64,
    /// The standard deviation.
    pub std_dev: f64,
    /// Probability that the second is faster, 0 to 1.
    pub second_faster: f64,
    /// True if one of the two is surely not slower than the other by more than the band.
    pub settled: bool,
}

/// Returns what is known of each cell of a grid; `None` when no cell has pairs or the options
/// are out of range.
#[must_use]
pub fn outlook(grid: &Grid, options: &AdaptiveOptions) -> Option<Vec<CellOutlook>> {
    let model = Kriging::fit(&observations(grid)).filter(|_| options.is_valid())?;
    Some(predicted_outlooks(grid, &model, options))
}

/// Returns the cells to measure next: first the corners, the middles of the sides and the centre,
/// then where the sign is least sure. Ends when every cell is settled, or may not be measured any
/// more.
///
/// A function of the grid alone, so that a run can be resumed. `None` when the options are out of
/// range.
///
/// ```
/// use altway_stats::{AdaptiveOptions, AdaptiveStop, Grid, GridAxis, Next, Scale, next_cells};
///
/// let delay: Vec<f64> = (0..=20).map(|i| 10.0 * f64::from(i)).collect();
/// let delay = GridAxis::new(&delay, Scale::Linear).expect("rises");
/// let loss = GridAxis::new(&[0.0], Scale::Log1p).expect("one place");
/// let mut grid = Grid::new(delay, loss).expect("21 cells");
/// let options = AdaptiveOptions::up_to(500);
/// while let Some(Next::Measure(cells)) = next_cells(&grid, &options) {
///     for cell in cells {
///         // Stands for six pairs of transfers: HTTP/3 is faster beyond 80 ms.
///         let middle = 0.001 * (80.0 - 10.0 * cell as f64);
///         grid.add(cell, &[-0.01, -0.006, -0.002, 0.002, 0.006, 0.01].map(|noise| middle + noise));
///     }
/// }
/// assert_eq!(next_cells(&grid, &options), Some(Next::Stop(AdaptiveStop::Settled)));
/// assert!(grid.pairs() < 60, "instead of 6 in each of 21 cells: {}", grid.pairs());
/// ```
#[must_use]
pub fn next_cells(grid: &Grid, options: &AdaptiveOptions) -> Option<Next> {
    if !options.is_valid() {
        return None;
    }
    let left = options.max_pairs.saturating_sub(grid.pairs()) / options.pairs_at_once;
    let most = left.min(options.cells_at_once);
    let missing = |cell: &usize| grid.cells()[*cell].is_empty();
    let first: Vec<usize> = first_cells(grid).into_iter().filter(missing).collect();
    if !first.is_empty() && left > 0 && options.max_pairs_per_cell >= options.pairs_at_once {
        return Some(Next::Measure(first.into_iter().take(left).collect()));
    }
    let (cells, open) = least_sure(grid, options, most);
    Some(if !cells.is_empty() {
        Next::Measure(cells)
    } else if open {
        Next::Stop(AdaptiveStop::Exhausted)
    } else {
        Next::Stop(AdaptiveStop::Settled)
    })
}

/// Corners, middles of the sides, centre.
fn first_cells(grid: &Grid) -> Vec<usize> {
    let (columns, rows) = (grid.x().places().len(), grid.y().places().len());
    let three = |count: usize| [0, count / 2, count - 1];
    let mut cells: Vec<usize> = three(rows)
        .iter()
        .flat_map(|row| three(columns).map(|column| row * columns + column))
        .collect();
    cells.sort_unstable();
    cells.dedup();
    cells
}

/// Up to `most` cells that may be measured, the least sure first, and whether any cell is open.
///
/// After each choice the surface is asked again as if its pairs were measured and had said what is
/// expected, so that a round does not spend itself on one spot.
fn least_sure(grid: &Grid, options: &AdaptiveOptions, most: usize) -> (Vec<usize>, bool) {
    let mut observed = observations(grid);
    let variances = variances_of_pairs(grid.cells());
    let (mut chosen, mut open) = (Vec::new(), false);
    loop {
        let Some(model) = Kriging::fit(&observed) else {
            // Nothing is measured, and nothing may be.
            return (chosen, true);
        };
        let cells = predicted_outlooks(grid, &model, options);
        open |= cells.iter().any(|cell| !cell.settled);
        if chosen.len() >= most {
            return (chosen, open);
        }
        let allowed = |cell: &usize| {
            let pairs = grid.cells()[*cell].len() + options.pairs_at_once;
            pairs <= options.max_pairs_per_cell && !chosen.contains(cell)
        };
        let doubt =
            |cell: usize| options.reach() * cells[cell].std_dev - cells[cell].estimate.abs();
        let unsettled = (0..cells.len()).filter(|cell| !cells[*cell].settled);
        let next = unsettled
            .filter(allowed)
            .max_by(|a, b| doubt(*a).total_cmp(&doubt(*b)));
        let Some(next) = next else {
            return (chosen, open);
        };
        observed.push(Observation {
            at: grid.normalised(next),
            value: cells[next].estimate,
            variance: variance_of_estimate(variances[next], options.pairs_at_once),
        });
        chosen.push(next);
    }
}

fn predicted_outlooks(grid: &Grid, model: &Kriging, options: &AdaptiveOptions) -> Vec<CellOutlook> {
    let reach = options.reach();
    let of_cell = |cell: usize| {
        let found = model.predict(grid.normalised(cell));
        let (low, high) = (
            found.mean - reach * found.std_dev,
            found.mean + reach * found.std_dev,
        );
        CellOutlook {
            estimate: found.mean,
            std_dev: found.std_dev,
            second_faster: found.below_zero,
            settled: high < options.band || low > -options.band,
        }
    };
    (0..grid.cells().len()).map(of_cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Scale;
    use crate::surface::grid::GridAxis;

    fn grid(columns: usize, rows: usize) -> Grid {
        let places = |count: usize| (0..count).map(|i| i as f64).collect::<Vec<_>>();
        let axis = |count| GridAxis::new(&places(count), Scale::Linear).unwrap();
        Grid::new(axis(columns), axis(rows)).unwrap()
    }

    /// Six pairs with a spread of about 1 %.
    fn six(middle: f64) -> [f64; 6] {
        [-0.013, -0.008, -0.003, 0.003, 0.008, 0.013].map(|noise| middle + noise)
    }

    #[test]
    fn begins_at_corners_sides_and_centre() {
        let options = AdaptiveOptions::up_to(1_000);
        let nine = Next::Measure(vec![0, 2, 4, 10, 12, 14, 20, 22, 24]);
        assert_eq!(next_cells(&grid(5, 5), &options), Some(nine));
        assert_eq!(
            next_cells(&grid(1, 1), &options),
            Some(Next::Measure(vec![0]))
        );
        let row = Next::Measure(vec![0, 4, 8]);
        assert_eq!(next_cells(&grid(9, 1), &options), Some(row));
        let poor = AdaptiveOptions::up_to(13);
        assert_eq!(
            next_cells(&grid(9, 1), &poor),
            Some(Next::Measure(vec![0, 4]))
        );
    }

    #[test]
    fn goes_where_the_sign_is_least_sure() {
        let mut row = grid(11, 1);
        for cell in [0, 5, 10] {
            row.add(cell, &six(0.25 - 0.1 * cell as f64));
        }
        let options = AdaptiveOptions {
            cells_at_once: 1,
            band: 0.0,
            ..AdaptiveOptions::up_to(1_000)
        };
        let Some(Next::Measure(cells)) = next_cells(&row, &options) else {
            panic!("the line is open");
        };
        assert!(cells == [2] || cells == [3], "{cells:?}");
        let seen = outlook(&row, &options).unwrap();
        assert!(seen[0].second_faster < 0.01 && seen[10].second_faster > 0.99);
        assert!(seen[0].settled && !seen[cells[0]].settled);
    }

    #[test]
    fn a_plain_surface_is_settled_after_the_first_cells() {
        let mut plain = grid(6, 6);
        let options = AdaptiveOptions::up_to(1_000);
        let Some(Next::Measure(cells)) = next_cells(&plain, &options) else {
            panic!("nothing is measured");
        };
        for cell in cells {
            plain.add(cell, &six(-0.4));
        }
        assert_eq!(
            next_cells(&plain, &options),
            Some(Next::Stop(AdaptiveStop::Settled))
        );
    }

    #[test]
    fn ends_when_the_pairs_are_spent() {
        let mut row = grid(3, 1);
        for cell in 0..3 {
            row.add(cell, &[-0.5, 0.5, -0.4, 0.4, -0.3, 0.3]);
        }
        let exhausted = Some(Next::Stop(AdaptiveStop::Exhausted));
        assert_eq!(next_cells(&row, &AdaptiveOptions::up_to(23)), exhausted);
        let per_cell = AdaptiveOptions {
            max_pairs_per_cell: 11,
            ..AdaptiveOptions::up_to(1_000)
        };
        assert_eq!(next_cells(&row, &per_cell), exhausted);
        let one = next_cells(&row, &AdaptiveOptions::up_to(24));
        assert!(matches!(one, Some(Next::Measure(cells)) if cells.len() == 1));
        assert_eq!(
            next_cells(&grid(3, 1), &AdaptiveOptions::up_to(5)),
            exhausted
        );
    }

    #[test]
    fn refuses_options_out_of_range() {
        let good = AdaptiveOptions::up_to(100);
        let broken = [
            AdaptiveOptions { band: -1.0, ..good },
            AdaptiveOptions { level: 1.0, ..good },
            AdaptiveOptions {
                pairs_at_once: 1,
                ..good
            },
            AdaptiveOptions {
                cells_at_once: 0,
                ..good
            },
        ];
        for options in broken {
            assert_eq!(next_cells(&grid(3, 3), &options), None, "{options:?}");
            assert_eq!(outlook(&grid(3, 3), &options), None);
        }
        assert_eq!(outlook(&grid(3, 3), &good), None);
    }
}
