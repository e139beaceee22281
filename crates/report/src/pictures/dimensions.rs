//! The quantities that a plan may vary, and what sets the cells of a run apart.

use crate::analysis::{Analysis, CellResult};
use crate::words::{self, PARTS};
use altway_record::{Cell, Rate};
use altway_stats::Scale;
use altway_units::{Bandwidth, DataSize, Ratio};
use std::time::Duration;

/// A quantity of the link or of what is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dimension {
    Delay,
    Loss,
    Rate,
    Size,
}

impl Dimension {
    /// All quantities, the most natural x-axis first.
    pub(super) const ALL: [Self; 4] = [Self::Delay, Self::Loss, Self::Rate, Self::Size];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Delay => "one-way delay",
            Self::Loss => "loss",
            Self::Rate => "rate",
            Self::Size => "size",
        }
    }

    /// Returns the unit of [`Self::place`].
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Delay => "ms",
            Self::Loss => "%",
            Self::Rate => "Mbit/s",
            Self::Size => "kB",
        }
    }

    /// Position of a cell; `None` without a limit of the rate.
    pub(super) fn place(self, cell: &Cell) -> Option<f64> {
        match self {
            Self::Delay => Some(cell.delay.as_secs_f64() * 1e3),
            Self::Loss => Some(f64::from(cell.loss.as_parts_per_billion()) / 1e7),
            Self::Rate => Some(cell.rate.limit()?.as_bps() as f64 / 1e6),
            Self::Size => Some(cell.size.as_bytes() as f64 / 1e3),
        }
    }

    /// The same as text with its unit.
    pub(super) fn text(self, cell: &Cell) -> String {
        match self {
            Self::Delay => words::delay(cell.delay),
            Self::Loss => words::ratio(cell.loss),
            Self::Rate => words::rate(cell.rate),
            Self::Size => words::size(cell.size),
        }
    }

    /// The same where it stands without a head: `5 % loss`.
    pub(super) fn full_text(self, cell: &Cell) -> String {
        match self {
            Self::Delay | Self::Loss => format!("{} {}", self.text(cell), self.name()),
            Self::Rate | Self::Size => self.text(cell),
        }
    }

    /// Returns the scale by which something is sought between its places.
    pub(super) fn scale(self) -> Scale {
        match self {
            Self::Delay => Scale::Linear,
            Self::Loss | Self::Rate | Self::Size => Scale::Log1p,
        }
    }

    /// Grows along the quantity; no limit is the most.
    pub(super) fn order(self, cell: &Cell) -> u64 {
        match self {
            Self::Delay => u64::try_from(cell.delay.as_nanos()).unwrap_or(u64::MAX),
            Self::Loss => u64::from(cell.loss.as_parts_per_billion()),
            Self::Rate => cell.rate.limit().map_or(u64::MAX, Bandwidth::as_bps),
            Self::Size => cell.size.as_bytes(),
        }
    }

    fn forget(self, cell: &mut Cell) {
        match self {
            Self::Delay => cell.delay = Duration::ZERO,
            Self::Loss => cell.loss = Ratio::ZERO,
            Self::Rate => cell.rate = Rate::Unlimited,
            Self::Size => cell.size = DataSize::ZERO,
        }
    }

    /// Returns the index of its name in [`words::parts`]; `None` for the delay, which is none of them.
    fn part(self) -> Option<usize> {
        match self {
            Self::Delay => None,
            Self::Rate => Some(0),
            Self::Loss => Some(1),
            Self::Size => Some(2),
        }
    }
}

/// The cell without its index and without these quantities: equal cells differ in them alone.
pub(super) fn without(cell: &Cell, dimensions: &[Dimension]) -> Cell {
    let mut bare = Cell { index: 0, ..*cell };
    for dim in dimensions {
        dim.forget(&mut bare);
    }
    bare
}

/// The cells in groups that differ in `dimensions` alone, in the order of the first of each.
pub(super) fn groups<'b, 'a>(
    cells: impl Iterator<Item = &'b CellResult<'a>>,
    dimensions: &[Dimension],
) -> Vec<Vec<&'b CellResult<'a>>>
where
    'a: 'b,
{
    let mut all: Vec<(Cell, Vec<&CellResult<'a>>)> = Vec::new();
    for result in cells {
        let bare = without(&result.cell, dimensions);
        match all.iter_mut().find(|(known, _)| *known == bare) {
            Some((_, group)) => group.push(result),
            None => all.push((bare, vec![result])),
        }
    }
    all.into_iter().map(|(_, group)| group).collect()
}

/// The quantities that a run varies.
pub(super) fn varied(analysis: &Analysis<'_>) -> Vec<Dimension> {
    let differs = |dim: &Dimension| {
        let mut places = analysis.cells.iter().map(|result| dim.order(&result.cell));
        let first = places.next();
        places.any(|place| Some(place) != first)
    };
    Dimension::ALL.into_iter().filter(differs).collect()
}

/// Conditions that set the cells of a run apart, and those that they have in common.
pub(super) struct Names {
    varying: [bool; PARTS],
    delays: bool,
}

impl Names {
    pub(super) fn new(analysis: &Analysis<'_>) -> Self {
        let mut varying = [false; PARTS];
        let mut delays = false;
        if let Some((first, rest)) = analysis.cells.split_first() {
            let parts = words::parts(&first.cell);
            for result in rest {
                for (i, part) in words::parts(&result.cell).iter().enumerate() {
                    varying[i] |= *part != parts[i];
                }
                delays |= result.cell.delay != first.cell.delay;
            }
        }
        Self { varying, delays }
    }

    /// Names the conditions that set a cell apart, but for `except`: empty when there are none.
    pub(super) fn of(&self, cell: &Cell, except: &[Dimension]) -> String {
        let left_out = |i: usize| except.iter().any(|dim| dim.part() == Some(i));
        let parts = words::parts(cell).into_iter().enumerate();
        let mut told: Vec<String> = parts
            .filter(|(i, _)| self.varying[*i] && !left_out(*i))
            .map(|(_, part)| part)
            .collect();
        if self.delays && !except.contains(&Dimension::Delay) {
            told.push(format!("{} delay", words::delay(cell.delay)));
        }
        told.join(" · ")
    }

    /// A cell's name at the head of a table's row: what sets it apart, or else its series and delay.
    pub(super) fn row(&self, cell: &Cell) -> String {
        match self.of(cell, &[]) {
            text if text.is_empty() => {
                format!("{} · {}", words::series(cell), words::delay(cell.delay))
            }
            text => text,
        }
    }

    /// Names the conditions that all cells have in common, in a sentence: `All at 5 Mbit/s, 0 % loss and 1 MB.`
    pub(super) fn common(&self, cell: &Cell) -> String {
        let parts = words::parts(cell).into_iter().zip(words::telling(cell));
        let mut told: Vec<String> = parts
            .zip(self.varying)
            .filter(|((_, tells), varies)| *tells && !varies)
            .map(|((part, _), _)| part)
            .collect();
        if !self.delays {
            told.push(format!("{} delay", words::delay(cell.delay)));
        }
        match told.as_slice() {
            [] => String::new(),
            parts => format!(" All at {}.", words::list(parts)),
        }
    }
}

/// The cells of a run in curves: each along the quantity that is the x-axis of its pictures.
pub(super) struct Curves<'b, 'a> {
    pub(super) dim: Dimension,
    pub(super) curves: Vec<Vec<&'b CellResult<'a>>>,
    /// Every place of the quantity as text, when their distances do not matter.
    texts: Vec<(u64, String)>,
}

impl<'b, 'a> Curves<'b, 'a> {
    /// Along the delay, or else along the first quantity that varies.
    pub(super) fn new(analysis: &'b Analysis<'a>) -> Self {
        let dim = varied(analysis)
            .first()
            .copied()
            .unwrap_or(Dimension::Delay);
        Self::along(analysis, dim)
    }

    fn along(analysis: &'b Analysis<'a>, dim: Dimension) -> Self {
        let mut curves = groups(analysis.cells.iter(), &[dim]);
        for curve in &mut curves {
            curve.sort_by_key(|result| dim.order(&result.cell));
        }
        let mut texts: Vec<(u64, String)> = analysis
            .cells
            .iter()
            .map(|result| (dim.order(&result.cell), dim.text(&result.cell)))
            .collect();
        texts.sort();
        texts.dedup();
        Self { dim, curves, texts }
    }

    /// Returns whether places lie on the axis as the quantity does, and not just in its order.
    fn is_to_scale(&self) -> bool {
        matches!(self.dim, Dimension::Delay | Dimension::Loss)
    }

    /// Position of a cell on the x-axis.
    pub(super) fn place(&self, cell: &Cell) -> f64 {
        match self.dim.place(cell).filter(|_| self.is_to_scale()) {
            Some(place) => place,
            None => self.rank(cell),
        }
    }

    /// Position of a cell when only the order counts: 0, 1, 2.
    pub(super) fn rank(&self, cell: &Cell) -> f64 {
        let order = self.dim.order(cell);
        let rank = self.texts.iter().position(|(known, _)| *known == order);
        rank.unwrap_or(0) as f64
    }

    /// The x-axis, the same for all curves.
    pub(super) fn axis(&self, cells: &[&CellResult<'_>]) -> crate::figure::Axis {
        if !self.is_to_scale() {
            return self.ranks();
        }
        let places: Vec<f64> = cells
            .iter()
            .filter_map(|result| self.dim.place(&result.cell))
            .collect();
        super::axes::measured(self.dim.name(), self.dim.unit(), &places)
    }

    /// The x-axis when only the order counts.
    pub(super) fn ranks(&self) -> crate::figure::Axis {
        super::axes::ordered(
            self.dim.name(),
            self.texts.iter().map(|(_, text)| text.clone()),
        )
    }
}
