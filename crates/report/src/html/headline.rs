//! The top of the page: what the run found, in a sentence, and what it lacks.

use super::{paragraph, unbroken};
use crate::analysis::Analysis;
use crate::{verdict, words};
use altway_record::Protocol;
use altway_stats::Winner;

/// Number of links beyond which the findings stand with their tables, and the page opens with a count.
pub(super) const MAX_FINDINGS: usize = 4;

pub(super) fn section(analysis: &Analysis<'_>) -> String {
    let manifest = analysis.run.manifest;
    let over = format!(
        "altway lab · {} · {}",
        manifest.plan.name, manifest.started_at
    );
    let findings = verdict::findings(analysis);
    let mut text = paragraph("over", &over);
    text.push_str(&format!(
        "<h1>{}</h1>\n",
        unbroken(&heading(analysis, &findings))
    ));
    if (2..=MAX_FINDINGS).contains(&findings.len()) && analysis.valid() > 0 {
        let items: String = findings
            .iter()
            .map(|finding| format!("<li>{}</li>\n", unbroken(finding)))
            .collect();
        text.push_str(&format!("<ul class=\"findings\">\n{items}</ul>\n"));
    }
    text.push_str(&paragraph("about", &conditions(analysis)));
    if !manifest.plan.description.is_empty() {
        text.push_str(&paragraph("about", &manifest.plan.description));
    }
    for gap in verdict::gaps(analysis) {
        text.push_str(&paragraph("warning", &gap));
    }
    text
}

/// The conditions under which all of it holds: those of the one series, or clients and servers.
fn conditions(analysis: &Analysis<'_>) -> String {
    let mut all: Vec<String> = Vec::new();
    for series in &analysis.series {
        let cell = &analysis.cells[series.cells[0]].cell;
        let one = match analysis.series.as_slice() {
            [_] => words::series(cell),
            _ => format!("client {} · server {}", cell.client, cell.server),
        };
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all.join("; ")
}

fn heading(analysis: &Analysis<'_>, findings: &[String]) -> String {
    match findings {
        _ if analysis.valid() == 0 => "Nothing has been measured yet".into(),
        [] => format!("{} on its own", analysis.baseline.name()),
        [one] => one.trim_end_matches('.').to_owned(),
        _ => counts(analysis),
    }
}

/// Number of cells that each protocol wins and loses against the first, as the tables have it.
fn counts(analysis: &Analysis<'_>) -> String {
    let of_protocol = |other: &Protocol| {
        let winners: Vec<Winner> = analysis
            .cells
            .iter()
            .filter_map(|cell| Some(cell.pairings.get(other)?.comparison.winner))
            .collect();
        let count = |winner| winners.iter().filter(|one| **one == winner).count();
        format!(
            "{} is faster than {} by more than 3 % in {} of {}, slower in {}",
            other.name(),
            analysis.baseline.name(),
            count(Winner::Second),
            words::count(winners.len(), "cell"),
            count(Winner::First),
        )
    };
    let parts: Vec<String> = analysis.others.iter().map(of_protocol).collect();
    parts.join("; ")
}
