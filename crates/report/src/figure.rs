//! Content of a picture, apart from its drawing: its sentences, its axes and its numbers.
//!
//! One figure is drawn twice, for files and print by plotters, and on the page as an interactive
//! chart with a table behind it. So all that a reader may learn from a picture stands here, with
//! names and units, and nothing about pixels or colours. Left to others: which figures a run has and
//! what they say (`pictures`), and drawing them (`draw`, `html`).

use altway_record::Protocol;
use std::ops::Range;

/// A picture's contents.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Names its files and its place on the page: lower-case letters, digits and `-`.
    pub name: String,
    /// The title: what is seen, in a sentence without full stop.
    pub title: String,
    /// The conclusion, with the run's numbers: one to three sentences for readers who have not
    /// read the manual.
    pub caption: String,
    /// Directions for reading: what lines, bands and marks are, and what was left out.
    pub legend_text: String,
    /// Meaning of each colour; empty when the panels say it themselves.
    pub legend: Vec<LegendEntry>,
    /// Panels of the figure, at least one.
    pub panels: Vec<Panel>,
    /// The numbers behind it.
    pub table: Table,
}

/// An entry of a legend.
#[derive(Debug, Clone, PartialEq)]
pub struct LegendEntry {
    /// Colour of the marks that have this meaning.
    pub color: MarkColor,
    /// Text beside the colour, such as `HTTP/3` or `20 Mbit/s`.
    pub name: String,
}

/// Rows of texts under a head of as many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Headings of the columns.
    pub head: Vec<String>,
    /// The first column names the row.
    pub rows: Vec<Vec<String>>,
}

/// A pair of axes with its series.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Value that sets the panel apart from the others; empty when it is the only one.
    pub title: String,
    /// Axis to the right.
    pub x: Axis,
    /// Axis upwards.
    pub y: Axis,
    /// Marks, from back to front.
    pub marks: Vec<Mark>,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Name of the measured quantity, without its unit.
    pub name: String,
    /// Unit, such as `ms` or `%`; empty for counts, and for places that are no quantity.
    pub unit: String,
    /// Beginning and end of the axis, both finite; above 0 when it is logarithmic.
    pub range: Range<f64>,
    /// Spacing of the places between the two ends.
    pub spacing: Spacing,
    /// Places worth naming, with their texts, in rising order.
    pub ticks: Vec<(f64, String)>,
}

/// Spacing of the places of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spacing {
    /// Equal steps are equally far.
    #[default]
    Linear,
    /// Equal factors are equally far: for rates and sizes.
    Logarithmic,
}

/// Colour of a mark, by its meaning: the same for a protocol in every picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkColor {
    /// A protocol.
    Protocol(Protocol),
    /// The protocol once more, as the null arm: its colour, faint.
    Null(Protocol),
    /// A member of an ordered group, as of rates from slow to fast.
    Step {
        /// Number of this one, from 0.
        at: usize,
        /// Number of all of them.
        of: usize,
    },
    /// Text, zero lines, frames.
    Plain,
    /// Background: bands within which a difference does not matter.
    Faint,
}

/// Mark that can stand in a panel; all places in the units of its axes.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// Values along x.
    Series(Series),
    /// A map's cells.
    Tiles(Tiles),
    /// A filled outline, lightly: a band.
    Area {
        /// Name of the area inside, for a tooltip.
        name: String,
        /// The colour, thinned.
        color: MarkColor,
        /// The corners.
        outline: Vec<(f64, f64)>,
    },
    /// Spans of x, each at its height: a time line.
    Bars(Vec<Bar>),
    /// A straight line.
    Rule {
        /// Name of the place that it marks; may be empty.
        name: String,
        /// The colour.
        color: MarkColor,
        /// The beginning.
        from: (f64, f64),
        /// The end.
        to: (f64, f64),
        /// True if it is dashed.
        dashed: bool,
    },
    /// A text at a place.
    Note {
        /// The place.
        at: (f64, f64),
        /// The text.
        text: String,
        /// Side of the place on which the text stands.
        align: (Align, Align),
    },
}

/// Position of a text along an axis, seen from its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Align {
    /// Towards smaller values: its end is at the place.
    Before,
    /// Around the place.
    #[default]
    Centre,
    /// Towards larger values: its beginning is at the place.
    After,
}

/// Values of one kind along x.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name of the series: `HTTP/2`, `20 Mbit/s`.
    pub name: String,
    /// Meaning of y: `median`, `difference`.
    pub value: String,
    /// Meaning of the intervals: `95 % interval`; empty when there are none.
    pub interval: String,
    /// The colour.
    pub color: MarkColor,
    /// Form in which values are drawn.
    pub form: Form,
    /// Form in which their intervals are drawn.
    pub spread: Spread,
    /// Distance of the marks from their places, in the unit of x, so that those of several
    /// series do not hide each other.
    pub aside: f64,
    /// The values, along x.
    pub points: Vec<Datum>,
}

/// A value at a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Datum {
    /// The place.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// Range in which the value is uncertain, or spreads.
    pub interval: Option<(f64, f64)>,
    /// Number of transfers, or of pairs of them, behind the value; `None` when that is of no interest.
    pub of: Option<usize>,
}

/// Form in which the values of a series are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A line.
    Line,
    /// A marker each.
    Points,
    /// A line with markers.
    LineAndPoints,
    /// A staircase that rises at each value, as of a distribution.
    Steps,
    /// Small and light markers: single transfers.
    SmallPoints,
}

/// Form in which the intervals of a series are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spread {
    /// No intervals.
    #[default]
    None,
    /// A band along the line.
    Ribbon,
    /// A line with caps at each value.
    Whiskers,
    /// A broad bar at each value.
    Bars,
}

/// The cells of a map, coloured from that of one protocol over white to that of another.
#[derive(Debug, Clone, PartialEq)]
pub struct Tiles {
    /// The protocol that is faster where a value is below 0.
    pub below: Protocol,
    /// The protocol that is faster where a value is above 0.
    pub above: Protocol,
    /// Meaning of the values: `difference of HTTP/3 (%)`.
    pub value: String,
    /// Size from which on the colour is full; above 0.
    pub limit: f64,
    /// The cells.
    pub tiles: Vec<Tile>,
}

/// A cell of a map: a square of side 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Tile {
    /// The middle.
    pub at: (f64, f64),
    /// The value; `None` when nothing was measured.
    pub value: Option<f64>,
    /// True if the sign of the value is sure; else the cell is hatched.
    pub sure: bool,
    /// Text in the cell: short.
    pub text: String,
    /// The same at length, for a tooltip.
    pub note: String,
}

/// A span of x.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Event that fills the time: `waiting for the first byte`.
    pub name: String,
    /// The colour.
    pub color: MarkColor,
    /// Share of the colour, above 0 up to 1.
    pub strength: f64,
    /// The middle along y.
    pub y: f64,
    /// The breadth along y.
    pub breadth: f64,
    /// Beginning and end along x.
    pub x: Range<f64>,
}

impl Axis {
    /// The name with its unit, as it stands beside the axis.
    #[must_use]
    pub fn label(&self) -> String {
        match self.unit.as_str() {
            "" => self.name.clone(),
            unit => format!("{} ({unit})", self.name),
        }
    }

    /// Position of a place, 0 at the beginning of the axis to 1 at its end.
    #[must_use]
    pub fn share(&self, place: f64) -> f64 {
        let spaced = |place: f64| match self.spacing {
            Spacing::Linear => place,
            Spacing::Logarithmic => place.ln(),
        };
        let (start, end) = (spaced(self.range.start), spaced(self.range.end));
        (spaced(place) - start) / (end - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(range: Range<f64>, spacing: Spacing) -> Axis {
        Axis {
            name: "rate".into(),
            unit: "Mbit/s".into(),
            range,
            spacing,
            ticks: vec![],
        }
    }

    #[test]
    fn equal_factors_are_equally_far_on_a_logarithmic_axis() {
        let rates = axis(1.0..100.0, Spacing::Logarithmic);
        assert!((rates.share(10.0) - 0.5).abs() < 1e-12);
        let even = axis(1.0..101.0, Spacing::Linear);
        assert!((even.share(51.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_label_names_the_unit_once() {
        let rates = axis(1.0..100.0, Spacing::Linear);
        assert_eq!(rates.label(), "rate (Mbit/s)");
        let bare = Axis {
            unit: String::new(),
            ..rates
        };
        assert_eq!(bare.label(), "rate");
    }
}
