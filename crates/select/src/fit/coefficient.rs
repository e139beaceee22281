//! The coefficients of a surface by name, each in the scale that it is fitted in.

use super::MeasuredCell;
use crate::Surface;
use crate::surface::Coefficients;
use std::collections::BTreeSet;

/// Bit/s; limits that can be told from each other.
const LIMITS: (f64, f64) = (1e6, 1e11);

/// The scale in which a coefficient is fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scale {
    /// The logarithm of the value: a factor e is 1.
    Log,
    /// The value itself: this much is 1.
    Linear(f64),
}

/// Name, scale, least and largest value.
type Kind = (&'static str, Scale, f64, f64);

const KINDS: [Kind; Coefficients::COUNT] = [
    ("loss.numerator", Scale::Log, 1.0, 100.0),
    ("loss.softness", Scale::Log, 1.0, 20.0),
    ("lead.base", Scale::Linear(0.05), 0.0, 1.0),
    ("lead.growth", Scale::Log, 0.1, 50.0),
    ("lead.pace", Scale::Log, 0.01, 10.0),
    ("lead.objects", Scale::Linear(0.5), 0.0, 5.0),
    ("quic.handshake-bytes", Scale::Linear(2600.0), 0.0, 1e5),
    ("quic.handshake-seconds", Scale::Linear(1e-3), 0.0, 1.0),
    ("quic.request-seconds", Scale::Linear(1e-3), 0.0, 1.0),
];

impl Surface {
    /// A coefficient by its name in the file, as `lead.objects` or `limits.chromium-linux`.
    #[must_use]
    pub fn coefficient(&self, name: &str) -> Option<f64> {
        if let Some(class) = name.strip_prefix("limits.") {
            return class.parse().ok().and_then(|class| self.limit(class));
        }
        let index = KINDS.iter().position(|(known, ..)| *known == name)?;
        Some(self.coefficients().0[index])
    }
}

/// The place of a coefficient in a surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// One of [`KINDS`].
    Shared(usize),
    /// The limit of a class.
    Limit(String),
}

/// All places that cells may say something of: those of every surface, and the limits of their classes, which are
/// put into `surface` where it has none.
pub(super) fn places(cells: &[MeasuredCell], surface: &mut Surface) -> Vec<Place> {
    let classes: BTreeSet<String> = cells.iter().map(|cell| cell.class.to_string()).collect();
    for cell in cells {
        let expected = surface.expected_limit(cell.class);
        surface.set_limit(cell.class, expected);
    }
    let shared = (0..KINDS.len()).map(Place::Shared);
    shared
        .chain(classes.into_iter().map(Place::Limit))
        .collect()
}

impl Place {
    /// Name as in the file.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Shared(index) => KINDS[*index].0.into(),
            Self::Limit(class) => format!("limits.{class}"),
        }
    }

    fn kind(&self) -> (Scale, f64, f64) {
        match self {
            Self::Shared(index) => {
                let (_, scale, low, high) = KINDS[*index];
                (scale, low, high)
            }
            Self::Limit(_) => (Scale::Log, LIMITS.0, LIMITS.1),
        }
    }

    /// The value in the file's unit.
    pub(super) fn get(&self, surface: &Surface) -> f64 {
        match self {
            Self::Shared(index) => surface.coefficients().0[*index],
            Self::Limit(class) => class
                .parse()
                .ok()
                .and_then(|class| surface.limit(class))
                .unwrap_or(LIMITS.1),
        }
    }

    fn put(&self, surface: &mut Surface, value: f64) {
        let (_, low, high) = self.kind();
        let value = if value.is_nan() {
            low
        } else {
            value.clamp(low, high)
        };
        match self {
            Self::Shared(index) => {
                let mut all = surface.coefficients();
                all.0[*index] = value;
                surface.set_coefficients(all);
            }
            Self::Limit(class) => {
                if let Ok(class) = class.parse() {
                    surface.set_limit(class, value);
                }
            }
        }
    }

    /// The value in the coefficient's own scale.
    pub(super) fn scaled(&self, surface: &Surface) -> f64 {
        let (scale, low, _) = self.kind();
        match scale {
            Scale::Log => self.get(surface).max(low).ln(),
            Scale::Linear(unit) => self.get(surface) / unit,
        }
    }

    /// The nearest value that makes sense, in that scale.
    pub(super) fn within(&self, scaled: f64) -> f64 {
        let (scale, low, high) = self.kind();
        let (low, high) = match scale {
            Scale::Log => (low.ln(), high.ln()),
            Scale::Linear(unit) => (low / unit, high / unit),
        };
        scaled.clamp(low, high)
    }

    /// Puts a value in that scale, or the nearest that makes sense.
    pub(super) fn set(&self, surface: &mut Surface, scaled: f64) {
        let value = match self.kind().0 {
            Scale::Log => scaled.exp(),
            Scale::Linear(unit) => scaled * unit,
        };
        self.put(surface, value);
    }

    /// Leaves four digits of the value.
    pub(super) fn round(&self, surface: &mut Surface) {
        let value = self.get(surface);
        let rounded = format!("{value:.3e}").parse();
        self.put(surface, rounded.unwrap_or(value));
    }

    /// An error in that scale, in the file's unit.
    pub(super) fn in_unit(&self, value: f64, error: f64) -> f64 {
        match self.kind().0 {
            Scale::Log => value * error,
            Scale::Linear(unit) => unit * error,
        }
    }

    /// Changes the growth and the pace of the lead by factors: another place to begin at.
    pub(super) fn scale(&self, surface: &mut Surface, growth: f64, pace: f64) {
        let factor = match self.name().as_str() {
            "lead.growth" => growth,
            "lead.pace" => pace,
            _ => return,
        };
        let value = self.get(surface);
        self.put(surface, value * factor);
    }
}
