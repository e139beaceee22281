//! The place of a crossover in words, with its whole error: the noise of the pairs and what the delays
//! that were not measured leave open; and the command that measures between them.

use crate::analysis::{Analysis, Crossing};
use crate::verdict::SURE_SHARE;
use crate::words;
use altway_record::RUN_PLAN;
use altway_stats::{Crossover, Interval, Winner};
use altway_units::duration;
use std::time::Duration;

/// Parts that a bracket is at least cut into by the command that narrows it.
const FEWEST_PARTS: f64 = 5.0;

/// `at 47 ms one-way delay (95 % interval 40 to 60 ms)`, or `somewhere between 0 and 25 ms one-way delay
/// (95 % interval; delays in between would narrow it)` where the grid says no more.
pub(crate) fn of(found: &Crossover) -> String {
    let Crossover::At { x, interval, .. } = found else {
        return "nowhere".into();
    };
    if found.is_coarse() {
        let (range, level) = (range(interval), level(interval));
        return format!(
            "somewhere {range} one-way delay ({level} interval; delays in between would narrow it)"
        );
    }
    let place = words::milliseconds(*x);
    format!("at {place} one-way delay ({})", interval_words(interval))
}

/// Behind a sentence about the crossover: `, and is ahead by more than 3 % from 80 ms on (75 to 100 ms)`.
pub(crate) fn of_lead(found: &Crossover) -> String {
    let ahead = "ahead by more than 3 %";
    let is_ahead = "is ahead by more than 3 %";
    match found {
        Crossover::At { interval, .. } if found.is_coarse() => {
            format!(", and {is_ahead} from somewhere {} on", range(interval))
        }
        Crossover::At { x, interval, .. } => {
            let place = words::milliseconds(*x);
            format!(
                ", and {is_ahead} from {place} on ({})",
                interval_words(interval)
            )
        }
        Crossover::None {
            winner: Winner::First,
            share_of_resamples_without,
            ..
        } => match *share_of_resamples_without < SURE_SHARE {
            true => format!("; whether it is {ahead} anywhere in the measured range stays open"),
            false => format!(", but is nowhere in the measured range {ahead}"),
        },
        Crossover::None { .. } => String::new(),
    }
}

/// Phrase for a title: `becomes faster between 40 and 60 ms one-way delay`. A place without its interval would say
/// more than is known.
pub(crate) fn short(found: &Crossover) -> String {
    match found {
        Crossover::At { interval, .. } => {
            format!("becomes faster {} one-way delay", range(interval))
        }
        Crossover::None { .. } => "does not become faster".into(),
    }
}

/// Says how a run measures between the delays that leave a crossover open; `None` when none does.
pub(crate) fn narrowing(analysis: &Analysis<'_>) -> Option<String> {
    let crossings = analysis
        .series
        .iter()
        .flat_map(|series| series.crossings.values());
    let brackets = crossings.filter_map(|crossing| match crossing {
        Crossing::Fitted { zero, .. } if zero.is_coarse() => bracket(zero),
        _ => None,
    });
    let (low, high) = brackets.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    let [from, to] = two(low, high);
    let open = format!(
        "crossover: the measured delays leave open where it lies between {from} and {to} ms"
    );
    if analysis.run.manifest.from_samples {
        return Some(format!("{open}; others in between would tell."));
    }
    let delays: Vec<String> = between(low, high)
        .into_iter()
        .map(|delay| duration::format(Duration::from_micros((delay * 1e3).round() as u64)))
        .collect();
    Some(format!(
        "{open}. In the run's folder, `altway lab run {RUN_PLAN} --delays {}` measures in between.",
        delays.join(",")
    ))
}

/// The interval, or where it has no end in the measured range the crossing's neighbour there.
fn bracket(found: &Crossover) -> Option<(f64, f64)> {
    let Crossover::At {
        interval, between, ..
    } = found
    else {
        return None;
    };
    let within = |end: f64, neighbour| if end.is_finite() { end } else { neighbour };
    Some((
        within(interval.low, between.0),
        within(interval.high, between.1),
    ))
}

/// `between 0 and 25 ms`, `within 5 ms`, `beyond 20 ms`.
fn range(interval: &Interval) -> String {
    let (low, high) = (interval.low, interval.high);
    match (low.is_finite(), high.is_finite()) {
        (true, true) => {
            let [from, to] = two(low, high);
            format!("between {from} and {to} ms")
        }
        (false, true) => format!("within {}", words::milliseconds(high)),
        (true, false) => format!("beyond {}", words::milliseconds(low)),
        (false, false) => "at some".into(),
    }
}

/// Two places with as many decimals as tell them apart.
fn two(low: f64, high: f64) -> [String; 2] {
    let short = [low, high].map(words::significant);
    if short[0] != short[1] {
        return short;
    }
    [low, high].map(|end| format!("{end:.2}"))
}

/// Evenly from `low` to `high` in steps of 1, 2 or 5 times a power of ten.
fn between(low: f64, high: f64) -> Vec<f64> {
    let widest = (high - low) / FEWEST_PARTS;
    let power = 10_f64.powf(widest.log10().floor());
    let steps = [5.0, 2.0, 1.0].map(|digit| digit * power);
    let step = steps
        .into_iter()
        .find(|step| *step <= widest * (1.0 + 1e-9));
    let step = step.unwrap_or(power).max(1e-3);
    let count = ((high - low) / step - 1e-6).ceil() as u32;
    let inner = (0..count).map(|i| low + f64::from(i) * step);
    inner.chain([high]).collect()
}

fn level(interval: &Interval) -> String {
    format!("{:.0} %", interval.level * 100.0)
}

fn interval_words(interval: &Interval) -> String {
    let level = level(interval);
    let (low, high) = (interval.low, interval.high);
    match (low.is_finite(), high.is_finite()) {
        (true, true) => {
            let [from, to] = two(low, high);
            format!("{level} interval {from} to {to} ms")
        }
        (true, false) => {
            format!(
                "{level} interval from {} on, with no end in the range",
                words::milliseconds(low)
            )
        }
        (false, true) => {
            format!(
                "{level} interval up to {}, with no start in the range",
                words::milliseconds(high)
            )
        }
        (false, false) => format!("{level} interval wider than the range"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(x: f64, sampling: (f64, f64), interval: (f64, f64)) -> Crossover {
        let interval_of = |(low, high)| Interval {
            low,
            high,
            level: 0.95,
        };
        Crossover::At {
            x,
            between: (0.0, 25.0),
            sampling: interval_of(sampling),
            interval: interval_of(interval),
            share_of_resamples: 1.0,
        }
    }

    #[test]
    fn a_coarse_grid_gives_a_bracket_and_no_place() {
        let coarse = found(2.9, (2.7, 3.0), (0.0, 25.0));
        assert_eq!(
            of(&coarse),
            "somewhere between 0 and 25 ms one-way delay (95 % interval; delays in between would narrow it)"
        );
        assert_eq!(
            short(&coarse),
            "becomes faster between 0 and 25 ms one-way delay"
        );
        assert_eq!(
            of_lead(&coarse),
            ", and is ahead by more than 3 % from somewhere between 0 and 25 ms on"
        );
    }

    #[test]
    fn a_fine_grid_gives_the_place_with_its_interval() {
        let fine = found(47.2, (30.0, 61.0), (25.0, 75.0));
        assert_eq!(
            of(&fine),
            "at 47 ms one-way delay (95 % interval 25 to 75 ms)"
        );
        assert_eq!(
            short(&fine),
            "becomes faster between 25 and 75 ms one-way delay"
        );
        let open = found(20.0, (0.0, f64::INFINITY), (0.0, f64::INFINITY));
        assert_eq!(
            of(&open),
            "at 20 ms one-way delay (95 % interval from 0 ms on, with no end in the range)"
        );
    }

    #[test]
    fn a_bracket_without_a_start_is_no_place_either() {
        let below = f64::NEG_INFINITY;
        let mut open = found(0.34, (below, 0.6), (below, 5.0));
        if let Crossover::At { between, .. } = &mut open {
            *between = (0.0, 5.0);
        }
        assert_eq!(
            of(&open),
            "somewhere within 5 ms one-way delay (95 % interval; delays in between would narrow it)"
        );
        assert_eq!(short(&open), "becomes faster within 5 ms one-way delay");
        assert_eq!(bracket(&open), Some((0.0, 5.0)));
    }

    #[test]
    fn a_lead_that_is_never_reached_is_said() {
        let none = |winner| Crossover::None {
            share_of_resamples_without: 1.0,
            winner,
            interval: Interval {
                low: 25.0,
                high: f64::INFINITY,
                level: 0.95,
            },
        };
        assert_eq!(
            of_lead(&none(Winner::First)),
            ", but is nowhere in the measured range ahead by more than 3 %"
        );
        assert_eq!(of_lead(&none(Winner::Second)), "");
    }

    #[test]
    fn delays_in_between_are_even_and_round() {
        assert_eq!(between(0.0, 25.0), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]);
        assert_eq!(between(2.0, 3.0), [2.0, 2.2, 2.4, 2.6, 2.8, 3.0]);
        assert_eq!(between(50.0, 200.0).len(), 9);
        assert_eq!(between(0.0, 0.25).last(), Some(&0.25));
    }
}
