//! The rows of `summary.csv`.

use crate::analysis::{Analysis, Arm, CellResult, Pairing};
use altway_record::{Protocol, SummaryRow};
use altway_stats::Winner;

/// The rows of the summary: one per cell and protocol, in the plan's order, and one of the null arm
/// where there is one.
pub(crate) fn rows(analysis: &Analysis<'_>) -> Vec<SummaryRow> {
    let baseline = analysis.baseline;
    let protocols: Vec<Protocol> = analysis.protocols().collect();
    let mut rows = Vec::new();
    for cell in &analysis.cells {
        for protocol in &protocols {
            let pairing = cell.pairings.get(protocol);
            rows.push(row(
                baseline,
                cell,
                *protocol,
                &cell.arms[protocol],
                pairing,
            ));
        }
        if analysis.run.manifest.plan.null_arm {
            let pairing = cell.null_pairing.as_ref();
            let row = row(baseline, cell, baseline, &cell.null_arm, pairing);
            rows.push(SummaryRow {
                null_arm: true,
                verdict: (row.n > 0).then(|| null_verdict(pairing).into()),
                ..row
            });
        }
    }
    rows
}

/// Returns the verdict of the null arm on its cell.
fn null_verdict(pairing: Option<&Pairing<'_>>) -> &'static str {
    match pairing {
        None => "unclear",
        Some(pairing) if pairing.excludes_zero() => "suspect",
        Some(_) => "sound",
    }
}

/// The rows as CSV with a header.
pub(crate) fn to_csv(rows: &[SummaryRow]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer
            .serialize(row)
            .expect("a row is flat and memory does not fail");
    }
    let bytes = writer.into_inner().expect("memory does not fail");
    String::from_utf8(bytes).expect("csv writes the UTF-8 it was given")
}

/// Rounded to `decimals`: digits that no measurement has would only hinder readers.
fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}

/// The verdict's name in the files.
fn verdict(winner: Winner, baseline: Protocol, other: Protocol) -> String {
    match winner {
        Winner::First => baseline.to_string(),
        Winner::Second => other.to_string(),
        Winner::Tie => "tie".into(),
        Winner::Unclear => "unclear".into(),
    }
}

fn row(
    baseline: Protocol,
    result: &CellResult<'_>,
    protocol: Protocol,
    arm: &Arm<'_>,
    pairing: Option<&Pairing<'_>>,
) -> SummaryRow {
    let cell = &result.cell;
    let value =
        |of: fn(&altway_stats::Summary) -> f64| arm.summary.as_ref().map(|s| rounded(of(s), 1));
    let end = |of| value(of).filter(|end| end.is_finite());
    let compared = |of: &dyn Fn(&Pairing<'_>) -> Option<f64>| pairing.and_then(of);
    SummaryRow {
        cell: cell.index,
        topology: cell.topology,
        server: cell.server,
        client: cell.client,
        congestion: cell.congestion,
        initial_window_packets: cell.initial_window,
        certificate: cell.certificate,
        certificate_compression: cell.certificate_compression,
        connection: cell.connection,
        link: cell.link,
        queue: cell.queue,
        rate_bps: cell.rate.limit().map(altway_units::Bandwidth::as_bps),
        delay_us: u64::try_from(cell.delay.as_micros()).unwrap_or(u64::MAX),
        loss_ppb: cell.loss.as_parts_per_billion(),
        size_bytes: cell.size.as_bytes(),
        protocol,
        null_arm: false,
        n: arm.valid.len() as u64,
        invalid: arm.invalid as u64,
        mean_us: value(|s| s.mean),
        median_us: value(|s| s.median),
        fastest_fifth_mean_us: value(|s| s.fastest_fifth_mean),
        p90_us: value(|s| s.p90),
        p95_us: value(|s| s.p95),
        p99_us: value(|s| s.p99),
        p99_low_us: end(|s| s.p99_interval.low),
        p99_high_us: end(|s| s.p99_interval.high),
        std_dev_us: arm
            .summary
            .and_then(|s| s.std_dev)
            .map(|spread| rounded(spread, 1)),
        coefficient_of_variation: arm
            .summary
            .and_then(|s| s.coefficient_of_variation)
            .map(|spread| rounded(spread, 6)),
        involuntary_switches_mean: involuntary_switches_mean(arm),
        loss_counted_percent: loss_counted_percent(arm).map(|loss| rounded(loss, 3)),
        pairs: pairing.map(|p| p.comparison.n as u64),
        difference_percent: compared(&|p| Some(rounded(p.comparison.percent(), 3))),
        difference_low_percent: compared(&|p| Some(rounded(p.comparison.percent_interval()?.0, 3))),
        difference_high_percent: compared(&|p| {
            Some(rounded(p.comparison.percent_interval()?.1, 3))
        }),
        interval: pairing.map(|p| p.method.name().into()),
        gain_percent: compared(&|_| gain_percent(&result.arms[&baseline], arm)),
        p: compared(&|p| Some(p.comparison.p)),
        p_adjusted: compared(&|p| Some(p.p_adjusted)),
        probability_faster: compared(&|p| Some(rounded(p.comparison.probability_second_faster, 6))),
        verdict: pairing.map(|p| verdict(p.comparison.winner, baseline, protocol)),
    }
}

fn involuntary_switches_mean(arm: &Arm<'_>) -> Option<f64> {
    let switches = arm
        .valid
        .iter()
        .map(|sample| sample.client_involuntary_switches as f64);
    (!arm.valid.is_empty()).then(|| rounded(switches.sum::<f64>() / arm.valid.len() as f64, 3))
}

/// Lost over all that entered the link, both directions, in per cent; of UDP also what was blocked or policed.
pub(crate) fn loss_counted_percent(arm: &Arm<'_>) -> Option<f64> {
    let lost: u64 = arm
        .valid
        .iter()
        .map(|s| s.up_lost_packets + s.down_lost_packets)
        .sum();
    let packets: u64 = arm
        .valid
        .iter()
        .map(|s| s.up_packets + s.down_packets)
        .sum();
    (packets > 0).then(|| 100.0 * lost as f64 / packets as f64)
}

/// The lead as the study of per-client selection has it: (T baseline − T other) / T other, of the means.
fn gain_percent(baseline: &Arm<'_>, other: &Arm<'_>) -> Option<f64> {
    let (first, this) = (baseline.summary?.mean, other.summary?.mean);
    Some(rounded(100.0 * (first - this) / this, 3))
}
