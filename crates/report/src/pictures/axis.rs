//! Axes: their range, and ticks at places worth naming.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// A linear axis.
#[derive(Clone)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) range: Range<f64>,
    /// Places with their texts.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis over `range` with ticks at round numbers.
    pub(super) fn round(label: String, range: Range<f64>) -> Self {
        let ticks = round_ticks(&range);
        Self {
            label,
            range,
            ticks,
        }
    }

    /// An axis that holds all `values`, with a little air at both ends.
    pub(super) fn around(label: String, values: impl Iterator<Item = f64>) -> Self {
        Self::round(label, padded(values))
    }

    /// Lengthened at both ends, so that a line of text fits beyond the data.
    pub(super) fn with_room_for_notes(self) -> Self {
        let room = self.span() / 14.0;
        Self::round(self.label, self.range.start - room..self.range.end + room)
    }

    /// The axis of one-way delays; ticks at what was measured while they do not crowd.
    pub(super) fn delays(delays_ms: &[f64]) -> Self {
        let range = padded(delays_ms.iter().copied());
        let label = "one-way delay (ms)".to_owned();
        let closest = delays_ms
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .fold(f64::MAX, f64::min);
        if closest < (range.end - range.start) / 18.0 {
            let axis = Self::round(label, range);
            let ticks = axis
                .ticks
                .into_iter()
                .filter(|(place, _)| *place >= 0.0)
                .collect();
            return Self { ticks, ..axis };
        }
        let ticks = delays_ms
            .iter()
            .map(|delay| (*delay, plain(*delay)))
            .collect();
        Self {
            label,
            range,
            ticks,
        }
    }

    /// From one end to the other.
    pub(super) fn span(&self) -> f64 {
        self.range.end - self.range.start
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / self.span();
        start + (share * f64::from(end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.ticks.iter().map(|(place, _)| *place).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|(place, _)| place == value);
        tick.map_or_else(String::new, |(_, text)| text.clone())
    }
}

/// The range of `values` with a twentieth of air; one unit of air when they are all the same.
fn padded(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    if low > high {
        return 0.0..1.0;
    }
    let air = if high > low {
        (high - low) / 20.0
    } else {
        high.abs().max(1.0) / 20.0
    };
    low - air..high + air
}

/// Multiples of 1, 2 or 5 times a power of ten: four to nine in the range.
fn round_ticks(range: &Range<f64>) -> Vec<(f64, String)> {
    let span = range.end - range.start;
    let power = 10_f64.powf((span / 8.0).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let step = factors
        .map(|f| f * power)
        .into_iter()
        .find(|step| span / step <= 8.0);
    let step = step.unwrap_or(10.0 * power);
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let first = (range.start / step).ceil() as i64;
    let last = (range.end / step).floor() as i64;
    let text = |value: f64| {
        format!("{value:.decimals$}")
            .replace("-0.0", "0.0")
            .replace('-', "−")
    };
    (first..=last)
        .map(|i| (i as f64 * step, text(i as f64 * step)))
        .collect()
}

/// A number with at most three decimals.
fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(range: Range<f64>) -> Vec<String> {
        round_ticks(&range)
            .into_iter()
            .map(|(_, text)| text)
            .collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(texts(0.0..1.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(texts(-12.0..7.0), ["−10", "−5", "0", "5"]);
        assert_eq!(texts(1.72..1.91), ["1.75", "1.80", "1.85", "1.90"]);
    }

    #[test]
    fn an_axis_of_equal_values_still_has_a_length() {
        let range = padded([3.0, 3.0].into_iter());
        assert!(range.start < 3.0 && 3.0 < range.end);
        assert_eq!(padded(std::iter::empty()), 0.0..1.0);
    }

    #[test]
    fn crowded_delays_get_round_ticks() {
        let crowded = Axis::delays(&[0.0, 0.25, 0.5, 100.0]);
        assert!(crowded.ticks.iter().all(|(place, _)| place % 10.0 == 0.0));
        let even = Axis::delays(&[0.0, 12.5, 25.0]);
        assert_eq!(even.ticks[1].1, "12.5");
    }
}
