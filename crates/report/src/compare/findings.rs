//! Conclusions of a comparison, in sentences: where the crossover lies, how the lead changes, and from which
//! part of the time that comes.

use super::{CellContrast, Circumstance, Contrast, Estimate, PartContrast, SeriesContrast};
use crate::words;
use std::cmp::Ordering;
use std::time::Duration;

/// A change counts as clear below this p after Benjamini–Hochberg.
const CLEAR: f64 = 0.05;

/// The sentences of all series; each begins with its condition when there are several.
pub(super) fn of(contrast: &Contrast) -> Vec<String> {
    let several = contrast.series.len() > 1;
    let mut sentences = Vec::new();
    for series in &contrast.series {
        let (first, second) = (series.first.name(), series.second.name());
        let about = format!("{second} against {first} · {}: ", series.condition);
        let of_series = [
            crossover(series),
            Some(changed(series)),
            explained(series),
            growth(series),
            series
                .grown
                .map(|grown| grown.sentence([first, second], ["in A", "in B"])),
            dropped(series),
        ];
        let named = |sentence: String| match several {
            true => format!("{about}{sentence}"),
            false => sentence,
        };
        sentences.extend(of_series.into_iter().flatten().map(named));
    }
    sentences
}

/// Says from which delay on the second is faster in B instead of in A; nothing where one delay was measured.
fn crossover(series: &SeriesContrast) -> Option<String> {
    if series.growth_a.is_none() && series.growth_b.is_none() {
        return None;
    }
    let second = series.second.name();
    let places = series.crossover_a.at_ms.zip(series.crossover_b.at_ms);
    let Some((a, b)) = places else {
        return Some(format!(
            "In A: {} In B: {}",
            series.crossover_a.finding, series.crossover_b.finding
        ));
    };
    let shift = series.crossover_shift_ms.map_or_else(String::new, |shift| {
        let luck = match shift.excludes_zero() {
            true => "",
            false => ", which may be luck",
        };
        format!("; difference {}{luck}", interval(&shift, "ms"))
    });
    Some(format!(
        "{second} becomes faster at {} one-way delay in B instead of {} in A{shift}.",
        interval(&b, "ms"),
        interval(&a, "ms"),
    ))
}

/// Says in how many cells the lead is another one.
fn changed(series: &SeriesContrast) -> String {
    let difference = format!(
        "{}'s difference from {}",
        series.second.name(),
        series.first.name()
    );
    let clear: Vec<_> = series.cells.iter().filter(|cell| is_clear(cell)).collect();
    let better = clear.iter().filter(|cell| cell.change_percent.value < 0.0);
    let (better, all) = (better.count(), series.cells.len());
    match (clear.len(), all) {
        (0, 1) => format!("{difference} is not clearly another one in B."),
        (0, _) => format!("At none of {all} delays {difference} is clearly another one in B."),
        (1, 1) => format!("{difference} is clearly another one in B."),
        (clear, _) => format!(
            "At {clear} of {all} delays {difference} is clearly another one in B: it does better there at \
             {better}, worse at {}.",
            clear - better,
        ),
    }
}

fn is_clear(cell: &CellContrast) -> bool {
    cell.p_adjusted < CLEAR && cell.change_percent.excludes_zero()
}

/// Says what the lead gains or loses by B, and in which part of the time, at the delay that matters most:
/// the one nearest to A's crossover, else to B's, else the one with the largest change.
fn explained(series: &SeriesContrast) -> Option<String> {
    let cell = most_telling(series)?;
    let whole = cell.parts.last()?;
    let (first, second) = (series.first.name(), series.second.name());
    let lead = &whole.lead_ms;
    let gains = if lead.value < 0.0 {
        format!("gains {} on {first}", size(lead))
    } else {
        format!("loses {} against {first}", size(lead))
    };
    let delay = words::delay(Duration::from_micros(cell.delay_us));
    Some(format!(
        "At {delay} {second} {gains} by B: {first} takes {} there, {second} {}.{}",
        more_or_less(&whole.first_ms),
        more_or_less(&whole.second_ms),
        shares(&cell.parts[..cell.parts.len() - 1]),
    ))
}

fn most_telling(series: &SeriesContrast) -> Option<&CellContrast> {
    let crossings = [&series.crossover_a, &series.crossover_b];
    let place = crossings.iter().find_map(|crossing| crossing.at_ms);
    let clear = series.cells.iter().filter(|cell| is_clear(cell));
    clear.min_by(|a, b| match place {
        Some(place) => {
            let off = |cell: &CellContrast| (cell.delay_us as f64 / 1e3 - place.value).abs();
            off(a).total_cmp(&off(b))
        }
        None => largest_first(a, b),
    })
}

fn largest_first(a: &CellContrast, b: &CellContrast) -> Ordering {
    let size = |cell: &CellContrast| cell.change_percent.value.abs();
    size(b).total_cmp(&size(a))
}

/// ` 80 % of that is the transfer, 15 % the first byte and 5 % the set-up.`
fn shares(parts: &[PartContrast]) -> String {
    let mut shares: Vec<(f64, &str)> = parts
        .iter()
        .filter_map(|part| Some((part.share_percent?, part.part)))
        .collect();
    if shares.is_empty() {
        return String::new();
    }
    shares.sort_by(|a, b| b.0.total_cmp(&a.0));
    let said: Vec<String> = shares
        .iter()
        .map(|(share, part)| match *part {
            "first byte" => format!("{} between set-up and first byte", whole_percent(*share)),
            "set-up" => format!("{} in setting the connection up", whole_percent(*share)),
            part => format!("{} in the {part}", whole_percent(*share)),
        })
        .collect();
    format!(" Of that arise {}.", words::list(&said))
}

fn growth(series: &SeriesContrast) -> Option<String> {
    let (a, b) = series.growth_a.zip(series.growth_b)?;
    let per = |estimate: &Estimate| format!("{:.1}", estimate.value);
    Some(format!(
        "A millisecond of one-way delay costs {} {} ms in A and {} ms in B, {} {} ms and {} ms.",
        series.first.name(),
        per(&a.first),
        per(&b.first),
        series.second.name(),
        per(&a.second),
        per(&b.second),
    ))
}

/// A queue that drops in one environment alone explains much, and is easily overlooked.
fn dropped(series: &SeriesContrast) -> Option<String> {
    let queue = |one: &&Circumstance| one.name.starts_with("dropped by");
    let one = series.circumstances.iter().find(queue)?;
    let any = |values: [Option<f64>; 2]| values.iter().flatten().any(|value| *value > 0.0);
    let side = match (
        any([one.first_a, one.second_a]),
        any([one.first_b, one.second_b]),
    ) {
        (true, false) => "A",
        (false, true) => "B",
        _ => return None,
    };
    Some(format!("The full queue dropped packets in {side} alone."))
}

/// `4.0 ms (95 % 3.0 to 5.0) less`; what may be 0 is neither more nor less.
fn more_or_less(estimate: &Estimate) -> String {
    if !estimate.excludes_zero() && estimate.low.is_some() {
        let off = interval(estimate, "ms")
            .replace(" (", ", ")
            .replace(')', "");
        return format!("about as long ({off})");
    }
    let word = if estimate.value < 0.0 { "less" } else { "more" };
    format!("{} {word}", size(estimate))
}

/// `74 ms (95 % 70 to 78)`, without sign.
fn size(estimate: &Estimate) -> String {
    let positive = match estimate.value < 0.0 {
        true => Estimate {
            value: -estimate.value,
            low: estimate.high.map(|end| -end),
            high: estimate.low.map(|end| -end),
        },
        false => *estimate,
    };
    interval(&positive, "ms")
}

/// `−4.1 ms (95 % −5.0 to −3.2)`.
pub(super) fn interval(estimate: &Estimate, unit: &str) -> String {
    let value = words::signed(estimate.value).replace('+', "");
    let end = |end: Option<f64>, open: &str| {
        end.map_or_else(
            || open.to_owned(),
            |end| words::signed(end).replace('+', ""),
        )
    };
    match (estimate.low, estimate.high) {
        (None, None) => format!("{value} {unit}"),
        (low, high) => format!(
            "{value} {unit} (95 % {} to {})",
            end(low, "below the range"),
            end(high, "above the range")
        ),
    }
}

fn whole_percent(share: f64) -> String {
    words::with_minus(&format!("{share:.0} %"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate {
            value,
            low: Some(low),
            high: Some(high),
        }
    }

    #[test]
    fn sizes_have_no_sign_and_their_ends_in_order() {
        let less = estimate(-4.0, -5.0, -3.0);
        assert_eq!(more_or_less(&less), "4.0 ms (95 % 3.0 to 5.0) less");
        let around = estimate(-0.5, -2.0, 1.0);
        assert_eq!(size(&around), "0.5 ms (95 % −1.0 to 2.0)");
        assert_eq!(
            more_or_less(&around),
            "about as long (−0.5 ms, 95 % −2.0 to 1.0)"
        );
    }

    #[test]
    fn an_open_end_is_said_in_words() {
        let open = Estimate {
            high: None,
            ..estimate(30.0, 20.0, 0.0)
        };
        assert_eq!(
            interval(&open, "ms"),
            "30.0 ms (95 % 20.0 to above the range)"
        );
    }

    #[test]
    fn shares_begin_with_the_largest() {
        let part = |part, share| PartContrast {
            part,
            first_ms: estimate(0.0, 0.0, 0.0),
            second_ms: estimate(0.0, 0.0, 0.0),
            lead_ms: estimate(0.0, 0.0, 0.0),
            share_percent: share,
        };
        let said = shares(&[
            part("set-up", Some(-5.0)),
            part("first byte", Some(15.0)),
            part("transfer", Some(90.0)),
        ]);
        assert_eq!(
            said,
            " Of that arise 90 % in the transfer, 15 % between set-up and first byte and −5 % in setting \
             the connection up."
        );
        assert_eq!(shares(&[part("set-up", None)]), "");
    }
}
