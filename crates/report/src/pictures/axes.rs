//! Axes: their range, and ticks at places worth naming.

use crate::figure::{Axis, Spacing};
use crate::words;
use std::ops::Range;

/// An axis over `range` with ticks at round numbers.
pub(super) fn round(name: impl Into<String>, unit: &str, range: Range<f64>) -> Axis {
    Axis {
        name: name.into(),
        unit: unit.to_owned(),
        ticks: round_ticks(&range),
        range,
        spacing: Spacing::Linear,
    }
}

/// An axis that holds all `values`, with a little air at both ends.
pub(super) fn around(
    name: impl Into<String>,
    unit: &str,
    values: impl Iterator<Item = f64>,
) -> Axis {
    round(name, unit, padded(values))
}

/// Lengthened at both ends, so that a line of text fits beyond the data.
pub(super) fn with_room_for_notes(axis: Axis) -> Axis {
    let room = span(&axis) / 12.0;
    round(
        axis.name,
        &axis.unit,
        axis.range.start - room..axis.range.end + room,
    )
}

/// The axis of a quantity; ticks at what was measured while they do not crowd.
pub(super) fn measured(name: &str, unit: &str, places: &[f64]) -> Axis {
    let axis = round(name, unit, padded(places.iter().copied()));
    let closest = places
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .fold(f64::MAX, f64::min);
    let ticks = if closest < span(&axis) / 18.0 {
        let in_range = |(place, _): &(f64, String)| *place >= 0.0;
        axis.ticks.into_iter().filter(in_range).collect()
    } else {
        places.iter().map(|place| (*place, plain(*place))).collect()
    };
    Axis { ticks, ..axis }
}

/// Places that are no quantity, or whose distances don't matter: 0, 1, 2, each with its text.
pub(super) fn ordered(name: &str, texts: impl Iterator<Item = String>) -> Axis {
    let ticks: Vec<(f64, String)> = (0..).map(f64::from).zip(texts).collect();
    Axis {
        name: name.to_owned(),
        unit: String::new(),
        range: -0.5..(ticks.len() as f64 - 0.5).max(0.5),
        spacing: Spacing::Linear,
        ticks,
    }
}

/// Returns the distance from one end to the other.
pub(super) fn span(axis: &Axis) -> f64 {
    axis.range.end - axis.range.start
}

/// A number with at most three decimals.
pub(super) fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
        let digits = format!("{value:.decimals$}").replace("-0.0", "0.0");
        words::with_minus(&digits)
    };
    (first..=last)
        .map(|i| (i as f64 * step, text(i as f64 * step)))
        .collect()
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
    fn crowded_places_get_round_ticks() {
        let crowded = measured("delay", "ms", &[0.0, 0.25, 0.5, 100.0]);
        assert!(crowded.ticks.iter().all(|(place, _)| place % 10.0 == 0.0));
        let even = measured("delay", "ms", &[0.0, 12.5, 25.0]);
        assert_eq!(even.ticks[1].1, "12.5");
    }
}
