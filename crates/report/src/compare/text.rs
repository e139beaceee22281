//! A comparison for a terminal of 100 columns.

use super::findings::interval;
use super::{
    CellContrast, CellSide, Circumstance, Contrast, Estimate, FiguresCell, FiguresContrast,
    FiguresSeries, Growth, ReferenceCell, ReferenceContrast, ReferenceSeries, SeriesContrast,
    TimeGrowth,
};
use crate::table::{FEW, columns, wrapped_to};
use crate::verdict::{FEW_PAIRS_WORDS, LITTLE_WORDS};
use crate::words::{self, TimeUnit};
use altway_stats::{FEW_PAIRS, MIN_PAIRS_FOR_VERDICT};
use std::time::Duration;

pub(super) fn of(contrast: &Contrast) -> String {
    let mut text = format!("A: {}\nB: {}\n", contrast.a, contrast.b);
    if !contrast.also_different.is_empty() {
        text.push_str("\nThey also differ in:\n");
        text.push_str(&list(&contrast.also_different));
    }
    for series in &contrast.series {
        text.push_str(&of_series(series));
    }
    for (side, only) in [("A", &contrast.only_in_a), ("B", &contrast.only_in_b)] {
        if !only.is_empty() {
            text.push_str(&format!(
                "\nMeasured in {side} alone, and left out above:\n"
            ));
            text.push_str(&list(only));
        }
    }
    text.push_str("\nFindings\n");
    text.push_str(&list(&contrast.findings));
    text
}

pub(super) fn of_reference(contrast: &ReferenceContrast) -> String {
    let mut text = String::new();
    for series in &contrast.series {
        text.push_str(&beside(series));
    }
    if !contrast.only_in_reference.is_empty() {
        text.push_str("\nIn the reference alone:\n");
        text.push_str(&list(&contrast.only_in_reference));
    }
    text.push_str("\nFindings\n");
    text.push_str(&list(&contrast.findings));
    text.trim_start().to_owned()
}

pub(super) fn of_figures(contrast: &FiguresContrast) -> String {
    let mut text = format!("A: {}\nB: {}\n", contrast.a, contrast.b);
    for series in &contrast.series {
        text.push_str(&of_two_tables(series));
    }
    if contrast.unmatched > 0 {
        let unmatched = words::count(contrast.unmatched, "condition");
        text.push_str(&format!(
            "\n{unmatched} in one of the two alone, and left out above\n"
        ));
    }
    text.push_str("\nFindings\n");
    text.push_str(&list(&contrast.findings));
    text
}

fn of_two_tables(series: &FiguresSeries) -> String {
    let (first, second) = (series.first, series.second);
    let times = series.cells.iter().flat_map(|cell| [cell.a_us, cell.b_us]);
    let unit = TimeUnit::for_times(times.flatten());
    let head = [
        "delay".into(),
        format!("{first} A"),
        "B".into(),
        format!("{second} A"),
        "B".into(),
        "difference A, %".into(),
        "B".into(),
        "agrees".into(),
    ];
    let row = |cell: &FiguresCell| {
        vec![
            words::delay(Duration::from_micros(cell.delay_us)),
            unit.number(cell.a_us[0]),
            unit.number(cell.b_us[0]),
            unit.number(cell.a_us[1]),
            unit.number(cell.b_us[1]),
            words::signed(cell.difference_a_percent),
            words::signed(cell.difference_b_percent),
            if cell.agrees { "yes" } else { "no" }.into(),
        ]
    };
    let rows: Vec<_> = series.cells.iter().map(row).collect();
    let condition = match series.condition_a == series.condition_b {
        true => series.condition_a.clone(),
        false => format!("{} in A, {} in B", series.condition_a, series.condition_b),
    };
    let title = format!(
        "{} against {} · {condition}; means in {}",
        second.name(),
        first.name(),
        unit.name()
    );
    table(&title, &head, &rows)
}

fn beside(series: &ReferenceSeries) -> String {
    let (first, second) = (series.first, series.second);
    let times = series.cells.iter();
    let unit = TimeUnit::for_times(
        times.flat_map(|cell| [cell.first_reference_us, cell.first_mean_us.value]),
    );
    let head = [
        "delay".into(),
        format!("{first} here"),
        "there".into(),
        format!("{second} here"),
        "there".into(),
        "difference here, %".into(),
        "there".into(),
        "agrees".into(),
    ];
    let mean = |mean: &Estimate| {
        let half = mean
            .high
            .zip(mean.low)
            .map(|(high, low)| (high - low) / 2.0);
        let half = half.map(|half| format!(" ±{}", unit.number(half)));
        format!("{}{}", unit.number(mean.value), half.unwrap_or_default())
    };
    let row = |cell: &ReferenceCell| {
        vec![
            words::delay(Duration::from_micros(cell.delay_us)),
            mean(&cell.first_mean_us),
            unit.number(cell.first_reference_us),
            mean(&cell.second_mean_us),
            unit.number(cell.second_reference_us),
            number(&cell.difference_percent, 1),
            words::signed(cell.reference_difference_percent),
            if cell.agrees { "yes" } else { "no" }.into(),
        ]
    };
    let rows: Vec<_> = series.cells.iter().map(row).collect();
    let title = format!(
        "{} against {} · {}; means in {}",
        second.name(),
        first.name(),
        series.condition,
        unit.name()
    );
    table(&title, &head, &rows)
}

fn list(lines: &[String]) -> String {
    let item = |line: &String| format!("- {}\n", wrapped_to(line, 98).replace('\n', "\n  "));
    lines.iter().map(item).collect()
}

fn of_series(series: &SeriesContrast) -> String {
    let (first, second) = (series.first, series.second);
    let mut text = format!(
        "\n{} against {} · {}\n",
        second.name(),
        first.name(),
        series.condition
    );
    text.push_str(&times(series));
    text.push_str(&differences(series));
    text.push_str(&additions(series));
    text.push_str(&leads(series));
    text.push_str(&along_the_delay(series));
    text.push_str(&circumstances(series));
    text
}

fn table(title: &str, head: &[String], rows: &[Vec<String>]) -> String {
    format!("\n{title}\n{}", columns(head, rows, head.len()))
}

fn delay(cell: &CellContrast) -> String {
    words::delay(Duration::from_micros(cell.delay_us))
}

fn times(series: &SeriesContrast) -> String {
    let of_side = |side: &CellSide| {
        [
            side.first_mean_us,
            side.first_median_us,
            side.second_mean_us,
            side.second_median_us,
        ]
    };
    let all = series.cells.iter().flat_map(|cell| [&cell.a, &cell.b]);
    let unit = TimeUnit::for_times(all.flat_map(of_side));
    let (first, second) = (series.first, series.second);
    let head = [
        "delay".into(),
        format!("{first} mean A"),
        "B".into(),
        "median A".into(),
        "B".into(),
        format!("{second} mean A"),
        "B".into(),
        "median A".into(),
        "B".into(),
    ];
    let row = |cell: &CellContrast| {
        let (a, b) = (of_side(&cell.a), of_side(&cell.b));
        let mut row = vec![delay(cell)];
        row.extend(
            a.iter()
                .zip(&b)
                .flat_map(|(a, b)| [unit.number(*a), unit.number(*b)]),
        );
        row
    };
    let rows: Vec<_> = series.cells.iter().map(row).collect();
    table(&format!("Times in {}", unit.name()), &head, &rows)
}

fn differences(series: &SeriesContrast) -> String {
    let head = ["delay", "A", "", "B", "", "change", ""].map(str::to_owned);
    let row = |cell: &CellContrast| {
        vec![
            delay(cell),
            number(&cell.a.difference_percent, 1),
            winner(&cell.a),
            number(&cell.b.difference_percent, 1),
            winner(&cell.b),
            number(&cell.change_percent, 1),
            if cell.p_adjusted < 0.05 { "clear" } else { "" }.into(),
        ]
    };
    let title = format!(
        "{} against {} in %, negative is faster; and how much that is another in B",
        series.second.name(),
        series.first.name()
    );
    let rows: Vec<_> = series.cells.iter().map(row).collect();
    let sides = || series.cells.iter().flat_map(|cell| [&cell.a, &cell.b]);
    let few = match sides().any(|side| side.pairs < FEW_PAIRS) {
        true => format!(
            "  {FEW} fewer than {FEW_PAIRS} pairs: the interval is narrower than it should be\n"
        ),
        false => String::new(),
    };
    table(&title, &head, &rows) + &few
}

/// Names who is faster in an environment, or the reason why that is not said; marked where pairs are few.
fn winner(side: &CellSide) -> String {
    let mark = if side.pairs < FEW_PAIRS { FEW } else { "" };
    let word = match side.winner.as_str() {
        "unclear" if side.pairs < MIN_PAIRS_FOR_VERDICT => FEW_PAIRS_WORDS,
        "unclear" if side.difference_percent.excludes_zero() => LITTLE_WORDS,
        word => word,
    };
    format!("{word}{mark}")
}

/// `−1.2 (−1.5…−0.9)`: the estimate and its interval.
fn number(estimate: &Estimate, decimals: usize) -> String {
    let signed = |value: f64| words::signed_to(value, decimals);
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => {
            format!(
                "{} ({}…{})",
                signed(estimate.value),
                signed(low),
                signed(high)
            )
        }
        _ => signed(estimate.value),
    }
}

/// Table of the time that B's environment adds to each protocol, by the parts of the time.
fn additions(series: &SeriesContrast) -> String {
    let names: Vec<&str> = parts_of(series).collect();
    let mut head = vec!["delay".to_owned()];
    for protocol in [series.first, series.second] {
        head.extend(names.iter().map(|name| match *name {
            "set-up" => format!("{protocol} set-up"),
            name => name.to_owned(),
        }));
    }
    let row = |cell: &CellContrast| {
        let signed = |estimate: &Estimate| words::signed(estimate.value);
        let mut row = vec![delay(cell)];
        row.extend(cell.parts.iter().map(|part| signed(&part.first_ms)));
        row.extend(cell.parts.iter().map(|part| signed(&part.second_ms)));
        row
    };
    let rows: Vec<_> = series.cells.iter().map(row).collect();
    if names.len() < 2 || rows.iter().any(|row| row.len() != head.len()) {
        return String::new();
    }
    table("What B adds to each, in ms", &head, &rows)
}

/// Table of the time that B adds to the second beyond that which it adds to the first.
fn leads(series: &SeriesContrast) -> String {
    let names: Vec<&str> = parts_of(series).collect();
    let mut head = vec!["delay".to_owned()];
    head.extend(names.iter().map(|name| (*name).to_owned()));
    let row = |cell: &CellContrast| {
        let mut row = vec![delay(cell)];
        row.extend(cell.parts.iter().map(|part| match part.part {
            "whole" => number(&part.lead_ms, 1),
            _ => words::signed(part.lead_ms.value),
        }));
        row
    };
    let rows: Vec<_> = series.cells.iter().map(row).collect();
    if rows.iter().any(|row| row.len() != head.len()) {
        return String::new();
    }
    let title = format!(
        "What B adds to {} beyond what it adds to {}, in ms; negative: it gains by B",
        series.second.name(),
        series.first.name()
    );
    table(&title, &head, &rows)
}

fn parts_of(series: &SeriesContrast) -> impl Iterator<Item = &'static str> {
    let cell = series.cells.first().into_iter();
    cell.flat_map(|cell| cell.parts.iter().map(|part| part.part))
}

fn along_the_delay(series: &SeriesContrast) -> String {
    let (first, second) = (series.first.name(), series.second.name());
    if series.growth_a.is_none() && series.growth_b.is_none() {
        return String::new();
    }
    let mut text = String::new();
    if let Some((a, b)) = series.growth_a.zip(series.growth_b) {
        let head = ["ms a ms of one-way delay", "A", "B"].map(str::to_owned);
        let row = |name: String, of: fn(&Growth) -> &Estimate| {
            vec![name, number(of(&a), 2), number(of(&b), 2)]
        };
        let rows = [
            row(first.into(), |growth| &growth.first),
            row(second.into(), |growth| &growth.second),
            row(format!("{second} less {first}"), |growth| {
                &growth.difference
            }),
        ];
        text.push_str(&table("How times grow with the delay", &head, &rows));
    }
    if let Some(grown) = &series.grown {
        text.push_str(&grown_table(grown, [first, second]));
    }
    let place = |crossing: &super::Crossing| match &crossing.at_ms {
        Some(at) => interval(at, "ms"),
        None => "none".into(),
    };
    text.push_str(&format!(
        "\nCrossover, one-way delay: {} in A, {} in B",
        place(&series.crossover_a),
        place(&series.crossover_b)
    ));
    if let Some(shift) = &series.crossover_shift_ms {
        text.push_str(&format!("; shift {}", interval(shift, "ms")));
    }
    text + "\n"
}

fn grown_table(grown: &TimeGrowth, [first, second]: [&str; 2]) -> String {
    let head = ["per cent of the first", "A", "B"].map(str::to_owned);
    let row = |name: &str, a, b| vec![name.to_owned(), words::percent(a), words::percent(b)];
    let rows = [
        row(first, grown.first_a_percent, grown.first_b_percent),
        row(second, grown.second_a_percent, grown.second_b_percent),
    ];
    let [from, to] = [grown.from_delay_us, grown.to_delay_us]
        .map(|delay| words::delay(Duration::from_micros(delay)));
    table(
        &format!("How mean times grow from {from} to {to}"),
        &head,
        &rows,
    )
}

fn circumstances(series: &SeriesContrast) -> String {
    let (first, second) = (series.first, series.second);
    let head = [
        String::new(),
        format!("{first} A"),
        "B".into(),
        format!("{second} A"),
        "B".into(),
    ];
    let number = |value: Option<f64>| match value {
        None => "–".to_owned(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    };
    let row = |one: &Circumstance| {
        let values = [one.first_a, one.first_b, one.second_a, one.second_b];
        let mut row = vec![one.name.to_owned()];
        row.extend(values.map(number));
        row
    };
    let rows: Vec<_> = series.circumstances.iter().map(row).collect();
    table("What a transfer met, on average", &head, &rows)
}
