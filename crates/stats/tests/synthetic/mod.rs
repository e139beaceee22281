//! Synthetic surfaces over delay and loss whose truth is known, and what holds for found lines.
//!
//! Shared by the tests and, through `#[path]`, by the examples.
#![allow(dead_code, reason = "each of those that include it uses a part")]

use crate::noise::{Noise, Shape};
use altway_stats::{
    AdaptiveOptions, Band, Bootstrap, Grid, GridAxis, Next, Point, Scale, ZeroLine,
    ZeroLineOptions, next_cells, smooth_zero_line, zero_line,
};

/// A surface of ln(h3 / h2) over delay in ms and loss in per cent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Study {
    delays: [f64; 6],
    losses: [f64; 6],
    /// Difference with neither delay nor loss, and what the ends of both axes add to it.
    origin: f64,
    by_delay: f64,
    by_loss: f64,
    /// Degree to which the delay's part is bent: 0 is straight.
    bend: f64,
    /// Noise of a pair without loss and what the highest loss adds to it.
    noise: (f64, f64),
}

impl Study {
    /// Straight between its cells, so that the line through them is the true one.
    pub(crate) const STRAIGHT: Self = Self {
        delays: [0.0, 5.0, 10.0, 15.0, 20.0, 25.0],
        losses: [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
        origin: 0.15,
        by_delay: -0.25,
        by_loss: -0.25,
        bend: 0.0,
        noise: (0.08, 0.0),
    };

    /// Bent along the delay, and the noisier the more is lost.
    pub(crate) const CURVED: Self = Self {
        origin: 0.2,
        by_delay: -0.25,
        by_loss: -0.45,
        bend: 0.5,
        noise: (0.05, 0.2),
        ..Self::STRAIGHT
    };

    /// The truth at a place.
    pub(crate) fn at(&self, place: Point) -> f64 {
        let (x, y) = (place.x / 25.0, place.y.ln_1p() / 5.0_f64.ln_1p());
        self.origin + self.by_delay * (x + self.bend * x * (1.0 - x)) + self.by_loss * y
    }

    /// The delay at which the true line crosses a loss; `None` when it lies outside.
    fn crossing(&self, loss: f64) -> Option<f64> {
        let at = |x| self.at(Point { x, y: loss });
        let (mut low, mut high) = (0.0, 25.0);
        if at(low) <= 0.0 || at(high) >= 0.0 {
            return None;
        }
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if at(middle) > 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(low)
    }

    fn grid(&self) -> Grid {
        let delay = GridAxis::new(&self.delays, Scale::Linear).expect("rises");
        let loss = GridAxis::new(&self.losses, Scale::Log1p).expect("rises");
        Grid::new(delay, loss).expect("36 cells")
    }

    fn measure(&self, grid: &mut Grid, cell: usize, pairs: usize, noise: &mut Noise) {
        let place = grid.place(cell).expect("a cell of the grid");
        let scale = self.noise.0 + self.noise.1 * place.y / 5.0;
        let values = noise.log_ratios(pairs, self.at(place), scale, Shape::Losses);
        assert!(grid.add(cell, &values));
    }
}

/// Every cell with so many pairs.
pub(crate) fn fully(study: &Study, pairs: usize, seed: u64) -> Grid {
    let (mut grid, mut noise) = (study.grid(), Noise::new(seed));
    for cell in 0..grid.cells().len() {
        study.measure(&mut grid, cell, pairs, &mut noise);
    }
    grid
}

/// The cells that adaptive sampling asks for, until it asks for no more.
pub(crate) fn adaptively(study: &Study, options: &AdaptiveOptions, seed: u64) -> Grid {
    let (mut grid, mut noise) = (study.grid(), Noise::new(seed + 1_000_000));
    while let Next::Measure(cells) = next_cells(&grid, options).expect("valid options") {
        for cell in cells {
            study.measure(&mut grid, cell, options.pairs_at_once, &mut noise);
        }
    }
    grid
}

/// Returns whether the whole true line lies in the band; how many of its places do, and of how
/// many.
pub(crate) fn truth_inside(study: &Study, found: &ZeroLine) -> (bool, u32, u32) {
    let losses = (0..=50).map(|i| f64::from(i) / 10.0);
    let line = losses.filter_map(|loss| Some((study.crossing(loss)?, loss)));
    let (mut inside, mut all) = (0, 0);
    for (delay, loss) in line {
        let place = found.field.at(delay, loss).expect("in the measured range");
        inside += u32::from(place.is_open());
        all += 1;
    }
    (inside == all, inside, all)
}

/// The largest difference that the full grid sees on the line of the partial one, and in how many
/// cells beyond the band of 0.03 the two disagree about the winner.
pub(crate) fn agreement(full: &Grid, partial: &Grid, seed: u64) -> (f64, usize) {
    let options = ZeroLineOptions {
        bootstrap: Bootstrap {
            resamples: 50,
            seed,
            ..Bootstrap::default()
        },
        refinement: 4,
        band: Band::Pointwise,
    };
    let whole = zero_line(full, &options).expect("all cells are measured");
    let found = smooth_zero_line(partial, &options).expect("some cells are measured");
    let seen = |point: &Point| {
        whole
            .field
            .at(point.x, point.y)
            .expect("the same range")
            .estimate
    };
    let points = found.lines.iter().flat_map(|line| &line.points);
    let off = points.map(|point| seen(point).abs()).fold(0.0, f64::max);
    let differs = |cell: &usize| {
        let Point { x, y } = full.place(*cell).expect("a cell of the grid");
        let ours = found.field.at(x, y).expect("the same range").estimate;
        let theirs = seen(&Point { x, y });
        theirs.abs() > 0.03 && (ours < 0.0) != (theirs < 0.0)
    };
    let wrong = (0..full.cells().len()).filter(differs).count();
    (off, wrong)
}
