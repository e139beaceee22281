//! A surface on a fine grid: what a picture draws, and what a server asks for its client's place.

use super::contour::{Polyline, contour};
use super::grid::GridAxis;
use super::region::regions;
use crate::bootstrap::Interval;
use crate::comparison::gain;

/// Knowledge of one place of a surface; log-ratios ln(second / first).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// The estimate: below 0 the second is faster.
    pub estimate: f64,
    /// Lower end of the band.
    pub low: f64,
    /// Upper end of the band.
    pub high: f64,
    /// Share of the ensemble in which the second is faster, 0 to 1.
    pub second_faster: f64,
}

impl Place {
    /// The estimate as the gain (T_first − T_second) / T_second.
    #[must_use]
    pub fn gain(&self) -> f64 {
        gain(self.estimate)
    }

    /// Returns whether it stays open who is faster here: the band contains 0.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.low <= 0.0 && self.high >= 0.0
    }
}

/// A surface on a fine grid, bilinear in between on the scales of its axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub(super) x: GridAxis,
    pub(super) y: GridAxis,
    pub(super) places: Vec<Place>,
    /// Level of the band.
    pub(super) level: f64,
}

/// Place where the winner changes along one axis of a [`Field`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FieldCrossing {
    /// Place where the estimate is zero.
    pub x: f64,
    /// Stretch on which the band is open, to both sides of it; infinite where it is still open at
    /// the end of the measured range.
    pub interval: Interval,
}

impl Field {
    /// A field from its parts, as they were written down: `places` row by row along `x`.
    ///
    /// `None` when there are not as many places as the axes cross, when a value is not finite, when a
    /// band has its ends the wrong way round, when a probability or the level is not between 0 and 1.
    ///
    /// ```
    /// use altway_stats::{Field, GridAxis, Place, Scale};
    /// let axis = |to: f64| GridAxis::new(&[0.0, to], Scale::Linear).expect("rises");
    /// let place = |estimate: f64| Place {
    ///     estimate,
    ///     low: estimate - 0.02,
    ///     high: estimate + 0.02,
    ///     second_faster: f64::from(u8::from(estimate < 0.0)),
    /// };
    /// let places = [0.1, -0.1, 0.0, -0.2].map(place).to_vec();
    /// let field = Field::new(axis(100.0), axis(5.0), places, 0.95).expect("two by two");
    /// assert!(field.at(50.0, 0.0).is_some_and(|place| place.is_open()));
    /// ```
    #[must_use]
    pub fn new(x: GridAxis, y: GridAxis, places: Vec<Place>, level: f64) -> Option<Self> {
        let usable = |place: &Place| {
            let numbers = [place.estimate, place.low, place.high];
            let finite = numbers.iter().all(|value| value.is_finite());
            finite && place.low <= place.high && (0.0..=1.0).contains(&place.second_faster)
        };
        let complete = x.places().len().checked_mul(y.places().len()) == Some(places.len());
        let in_range = level > 0.0 && level < 1.0;
        (complete && in_range && places.iter().all(usable)).then_some(Self {
            x,
            y,
            places,
            level,
        })
    }

    /// Level of the band, as 0.95.
    #[must_use]
    pub fn level(&self) -> f64 {
        self.level
    }

    /// The first axis.
    #[must_use]
    pub fn x(&self) -> &GridAxis {
        &self.x
    }

    /// The second axis.
    #[must_use]
    pub fn y(&self) -> &GridAxis {
        &self.y
    }

    /// The places of the fine grid, row by row along the first axis.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Returns what is known at a place; `None` outside the measured range.
    #[must_use]
    pub fn at(&self, x: f64, y: f64) -> Option<Place> {
        let (column, right) = self.x.locate(x)?;
        let (row, up) = self.y.locate(y)?;
        let columns = self.x.places().len();
        // On the last row or column the neighbour beyond has weight 0: any index will do.
        let next = |index: usize, count: usize| (index + 1).min(count - 1);
        let (above, beside) = (next(row, self.y.places().len()), next(column, columns));
        let corners = [
            (row * columns + column, (1.0 - right) * (1.0 - up)),
            (row * columns + beside, right * (1.0 - up)),
            (above * columns + column, (1.0 - right) * up),
            (above * columns + beside, right * up),
        ];
        let mixed = |of: fn(&Place) -> f64| -> f64 {
            let parts = corners
                .iter()
                .map(|(at, weight)| weight * of(&self.places[*at]));
            parts.sum()
        };
        Some(Place {
            estimate: mixed(|place| place.estimate),
            low: mixed(|place| place.low),
            high: mixed(|place| place.high),
            second_faster: mixed(|place| place.second_faster),
        })
    }

    /// Returns the places where the estimate changes its sign along the first axis, `y` held fast, and
    /// how far to both sides it stays open who is faster. Empty outside the measured range.
    ///
    /// For a grid with a single row this is the crossover, with as many cells measured as there
    /// were.
    #[must_use]
    pub fn crossings_at(&self, y: f64) -> Vec<FieldCrossing> {
        let spaced = |x: &f64| Some((self.x.scale().apply(*x), self.at(*x, y)?));
        let along: Vec<(f64, Place)> = self.x.places().iter().filter_map(spaced).collect();
        let changes = |i: &usize| (along[i - 1].1.estimate < 0.0) != (along[*i].1.estimate < 0.0);
        let crossing = |i: usize| {
            let x = zero_between(&along[i - 1], &along[i], |place| place.estimate);
            let low = border(along[..=i].iter().rev()).unwrap_or(f64::NEG_INFINITY);
            let high = border(along[i - 1..].iter()).unwrap_or(f64::INFINITY);
            let back = |spaced: f64| self.x.scale().invert(spaced);
            FieldCrossing {
                x: back(x),
                // The estimate of all pairs may lie outside what the resamples say.
                interval: Interval {
                    low: back(low.min(x)),
                    high: back(high.max(x)),
                    level: self.level,
                },
            }
        };
        (1..along.len()).filter(changes).map(crossing).collect()
    }

    /// Lines along which `of` has the value `level`: for the lines of a gain, or of a band that
    /// counts as equal.
    ///
    /// ```
    /// # use altway_stats::{Grid, GridAxis, Scale, ZeroLineOptions, zero_line};
    /// # let axis = |to: f64| GridAxis::new(&[0.0, to], Scale::Linear).expect("rises");
    /// # let mut grid = Grid::new(axis(100.0), axis(1.0)).expect("four cells");
    /// # for (cell, middle) in [0.1, -0.1, 0.1, -0.1].iter().enumerate() {
    /// #     grid.add(cell, &[*middle; 5]);
    /// # }
    /// # let found = zero_line(&grid, &ZeroLineOptions::default()).expect("all cells have pairs");
    /// // Where HTTP/3 takes 5 % less time.
    /// let lines = found.field.lines(|place| place.estimate, (0.95_f64).ln());
    /// assert!((lines[0].points[0].x - 75.6).abs() < 0.1);
    /// ```
    #[must_use]
    pub fn lines(&self, of: impl Fn(&Place) -> f64, level: f64) -> Vec<Polyline> {
        let values: Vec<f64> = self.places.iter().map(of).collect();
        // A field's axes rise and its values are finite: `None` says nothing but a level that isn't.
        contour(self.x.places(), self.y.places(), &values, level).unwrap_or_default()
    }

    /// Outlines of where it stays open who is faster, as [`Place::is_open`] says: what a picture
    /// fills. All are closed; one with a hole is cut open along a line to it, so that its outline is
    /// one. Where the band is narrower than a 240th of an axis, it may be left out. None on a grid of
    /// one row or column.
    ///
    /// ```
    /// # use altway_stats::{Field, GridAxis, Place, Scale};
    /// # let axis = |to: f64| GridAxis::new(&[0.0, to], Scale::Linear).expect("rises");
    /// # let places = [0.1, -0.1, 0.1, -0.1].map(|estimate| Place {
    /// #     estimate,
    /// #     low: estimate - 0.02,
    /// #     high: estimate + 0.02,
    /// #     second_faster: f64::from(u8::from(estimate < 0.0)),
    /// # });
    /// # let field = Field::new(axis(100.0), axis(5.0), places.to_vec(), 0.95).expect("two by two");
    /// let open = field.open_regions();
    /// let from = open[0].points.iter().map(|point| point.x).fold(f64::MAX, f64::min);
    /// assert!(open.len() == 1 && (from - 40.0).abs() < 0.5, "from 40 to 60 along the first axis");
    /// ```
    #[must_use]
    pub fn open_regions(&self) -> Vec<Polyline> {
        const STEPS: usize = 240;
        let finer = |axis: &GridAxis| {
            let steps = axis.places().len() - 1;
            axis.refined(STEPS.div_ceil(steps.max(1)))
        };
        let (x, y) = (finer(&self.x), finer(&self.y));
        // Below 0 where 0 lies within the band.
        let beyond = |x: f64, y: f64| {
            let place = self.at(x, y);
            place.map_or(1.0, |place| place.low.max(-place.high))
        };
        let rows = y.places().iter();
        let values: Vec<f64> = rows
            .flat_map(|row| x.places().iter().map(move |column| (*column, *row)))
            .map(|(column, row)| beyond(column, row))
            .collect();
        regions(x.places(), y.places(), &values)
    }
}

/// Place where the band closes on the way from the first place, which lies beyond the crossing, along the
/// others; `None` when it never does.
fn border<'a>(mut places: impl Iterator<Item = &'a (f64, Place)>) -> Option<f64> {
    let mut before = places.next()?;
    for at in places {
        if at.1.low > 0.0 {
            return Some(zero_between(before, at, |place| place.low));
        }
        if at.1.high < 0.0 {
            return Some(zero_between(before, at, |place| place.high));
        }
        before = at;
    }
    None
}

/// Place where the straight line of `of` from one place to the next is zero.
fn zero_between(a: &(f64, Place), b: &(f64, Place), of: impl Fn(&Place) -> f64) -> f64 {
    let (from, to) = (of(&a.1), of(&b.1));
    if from == to {
        return b.0;
    }
    a.0 + from / (from - to) * (b.0 - a.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Scale;

    /// A row from 0 to 4 with a band of ± `half` around each estimate.
    fn row(estimates: [f64; 5], half: f64) -> Field {
        let place = |estimate: f64| Place {
            estimate,
            low: estimate - half,
            high: estimate + half,
            second_faster: f64::from(u8::from(estimate < 0.0)),
        };
        Field {
            x: GridAxis::new(&[0.0, 1.0, 2.0, 3.0, 4.0], Scale::Linear).unwrap(),
            y: GridAxis::new(&[7.0], Scale::Linear).unwrap(),
            places: estimates.map(place).to_vec(),
            level: 0.95,
        }
    }

    fn found(estimates: [f64; 5], half: f64) -> Vec<(f64, f64, f64)> {
        let crossings = row(estimates, half).crossings_at(7.0);
        let rounded = |value: f64| (value * 1e6).round() / 1e6;
        let plain = |one: &FieldCrossing| {
            (
                rounded(one.x),
                rounded(one.interval.low),
                rounded(one.interval.high),
            )
        };
        crossings.iter().map(plain).collect()
    }

    #[test]
    fn a_crossing_reaches_as_far_as_the_band_is_open() {
        let falling = [0.2, 0.1, 0.0, -0.1, -0.2];
        assert_eq!(found(falling, 0.0), [(2.0, 2.0, 2.0)]);
        assert_eq!(found(falling, 0.05), [(2.0, 1.5, 2.5)]);
        assert_eq!(found(falling, 0.15), [(2.0, 0.5, 3.5)]);
        let open = [(2.0, f64::NEG_INFINITY, f64::INFINITY)];
        assert_eq!(found(falling, 0.3), open);
    }

    #[test]
    fn every_change_of_sign_is_a_crossing() {
        let there_and_back = [0.1, -0.1, -0.1, 0.1, 0.1];
        assert_eq!(
            found(there_and_back, 0.05),
            [(0.5, 0.25, 0.75), (2.5, 2.25, 2.75)]
        );
        assert!(found([0.1; 5], 0.2).is_empty());
        assert!(
            row([0.1, 0.1, -0.1, -0.1, -0.1], 0.0)
                .crossings_at(8.0)
                .is_empty()
        );
    }

    #[test]
    fn is_rebuilt_from_its_parts_and_from_nothing_else() {
        let whole = row([0.2, 0.1, 0.0, -0.1, -0.2], 0.05);
        let rebuilt = |places: &[Place], level: f64| {
            Field::new(whole.x().clone(), whole.y().clone(), places.to_vec(), level)
        };
        assert_eq!(
            rebuilt(whole.places(), whole.level()).as_ref(),
            Some(&whole)
        );
        assert_eq!(rebuilt(&whole.places()[1..], 0.95), None);
        assert_eq!(rebuilt(whole.places(), 1.0), None);
        let spoilt = |spoil: fn(&mut Place)| {
            let mut places = whole.places().to_vec();
            spoil(&mut places[2]);
            rebuilt(&places, 0.95)
        };
        assert_eq!(spoilt(|place| place.estimate = f64::NAN), None);
        assert_eq!(spoilt(|place| place.low = place.high + 0.1), None);
        assert_eq!(spoilt(|place| place.second_faster = 1.1), None);
    }

    #[test]
    fn a_place_between_two_is_their_mixture() {
        let place = row([0.2, 0.1, 0.0, -0.1, -0.2], 0.05).at(0.5, 7.0).unwrap();
        assert!((place.estimate - 0.15).abs() < 1e-12 && (place.low - 0.1).abs() < 1e-12);
        assert!(!place.is_open());
        assert!((place.gain() - (-0.15_f64).exp_m1()).abs() < 1e-12);
        assert_eq!(row([0.0; 5], 0.0).at(4.1, 7.0), None);
        assert_eq!(row([0.0; 5], 0.0).at(1.0, 7.1), None);
    }
}
