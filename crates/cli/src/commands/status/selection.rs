//! The choices of a running server and what came of them: pages, arrivals, sites and the latest visits, for a terminal.

use super::{Lines, span};
use crate::commands::half_within;
use altway_admin::{DurationStatus, PageStatus, Status};

/// Adds the parts of which there is something to tell.
pub(super) fn add(lines: &mut Lines, status: &Status) {
    pages(lines, status);
    arrivals(lines, status);
    sites(lines, status);
    latest(lines, status);
}

fn pages(lines: &mut Lines, status: &Status) {
    let each = status.protocols.iter().map(|it| (&it.protocol, &it.pages));
    let each: Vec<_> = each.filter(|(_, it)| count(&it.times) > 0).collect();
    if !each.is_empty() {
        lines.part("pages, as they were measured");
    }
    for (protocol, it) in each {
        let (pages, half) = (count(&it.times), half_within(&it.times.buckets));
        let against = against_the_other(protocol, it).unwrap_or_default();
        lines.add(format_args!("  {protocol}: {pages}, half {half}{against}"));
    }
    if let Some(difference) = status.predicted[1] {
        lines.add(format_args!(
            "  predicted gain of what was offered HTTP/3: {}",
            percent(-difference.exp_m1())
        ));
    }
}

/// The pages with a prediction beside what it says of the other transport; `None` where there are none.
fn against_the_other(protocol: &str, it: &PageStatus) -> Option<String> {
    let gain = percent(it.gain()?);
    let other = if protocol == "h3" { "TCP" } else { "h3" };
    let [took, elsewhere] = [it.took_s, it.elsewhere_s].map(|s| 1e3 * s / it.predicted as f64);
    let predicted = it.predicted;
    Some(format!(
        "; {predicted} of them took {took:.0} ms where {elsewhere:.0} ms were predicted over {other}: gain {gain}"
    ))
}

fn arrivals(lines: &mut Lines, status: &Status) {
    let each = || status.arrivals.iter().filter(|it| it.count > 0);
    if each().next().is_some() {
        lines.part("who came, and whether HTTP/3 had been offered before");
    }
    for it in each() {
        let offered = if it.offered { "offered" } else { "not offered" };
        lines.add(format_args!(
            "  {:<4} {offered:<12} {:>10}",
            it.protocol, it.count
        ));
    }
}

/// Width of the names of sites, in characters: with the figures a line has 80.
const SITE: usize = 40;

fn sites(lines: &mut Lines, status: &Status) {
    if status.sites.is_empty() {
        return;
    }
    lines.part(&format!(
        "{:<SITE$} {:>10} {:>8} {:>8} {:>10}",
        "site", "responses", "4xx", "5xx", "offered h3"
    ));
    for it in &status.sites {
        let name = if it.name.is_empty() {
            "other names"
        } else {
            &it.name
        };
        let [_, _, _, r4, r5] = it.responses;
        let offers: u64 = it.offers.iter().sum();
        let share =
            (offers > 0).then(|| format!("{:.0} %", 100.0 * it.offers[1] as f64 / offers as f64));
        let (all, share) = (
            it.responses.iter().sum::<u64>(),
            share.unwrap_or_else(|| "-".into()),
        );
        let figures = format_args!("{all:>10} {r4:>8} {r5:>8} {share:>10}");
        lines.row(name, SITE, figures);
    }
}

fn latest(lines: &mut Lines, status: &Status) {
    if !status.latest.is_empty() {
        lines.part("latest visits");
    }
    for it in &status.latest {
        let ago = span(status.now.saturating_sub(it.time));
        let before = if it.offered {
            ", offered h3 before"
        } else {
            ""
        };
        let reason = it.reason.replace('-', " ");
        let gain = it.difference.map(|it| percent(-it.exp_m1()));
        let gain = gain.map(|gain| format!(", predicted gain of h3 {gain}"));
        lines.add(format_args!(
            "  {ago} ago: {} over {}{before}; told {}: {reason}{}",
            it.class,
            it.protocol,
            it.offer,
            gain.unwrap_or_default()
        ));
    }
}

fn count(times: &DurationStatus) -> u64 {
    times.buckets.iter().sum()
}

/// A gain in percent, with its sign.
fn percent(share: f64) -> String {
    format!("{:+.0} %", 100.0 * share)
}
