//! Directions for reading the page, and the files that it was made of: for someone who has never seen one.

use super::{escape, paragraph};
use crate::analysis::Analysis;
use crate::words;

/// Questions that the tables and pictures raise, with their answers.
pub(super) fn section(analysis: &Analysis<'_>) -> String {
    let mut text = "<section id=\"reading\">\n<h2>How to read this page</h2>\n<dl>\n".to_owned();
    for (term, meaning) in terms(analysis) {
        text.push_str(&format!(
            "<dt>{}</dt><dd>{}</dd>\n",
            escape(term),
            escape(&meaning)
        ));
    }
    text + "</dl>\n</section>\n"
}

/// Returns the list of the files beside the page in its folder.
pub(super) fn files() -> String {
    let files = [
        (
            "samples.csv",
            "a row a request, as measured; everything else is made from it",
        ),
        ("manifest.json", "the plan, the machine and the link"),
        ("plan.toml", "the plan, as altway lab run takes it"),
        (
            "summary.csv",
            "a row for each cell and protocol: the numbers of this page",
        ),
    ];
    let items: String = files
        .iter()
        .map(|(name, what)| {
            format!("<li><a href=\"{name}\"><code>{name}</code></a>: {what}</li>\n")
        })
        .collect();
    format!(
        "<section id=\"data\">\n<h2>Data</h2>\n<ul>\n{items}<li>the pictures, as SVG and PNG: below each of \
         them</li>\n</ul>\n{}</section>\n",
        paragraph(
            "note",
            "altway lab report FOLDER makes this page, the summary and the pictures again, byte for byte."
        )
    )
}

fn terms(analysis: &Analysis<'_>) -> Vec<(&'static str, String)> {
    let mut terms = vec![
        (
            "Cell",
            "One link and one size of what is fetched: a rate, a delay, a loss. Delays are one way; \
             a round trip takes twice as long."
                .to_owned(),
        ),
        (
            "Median and P90",
            "Half of the transfers took at most the median, nine of ten at most the P90.".into(),
        ),
    ];
    if let Some(other) = analysis.others.first() {
        let (first, second) = (analysis.baseline.name(), other.name());
        terms.extend([
            (
                "Difference",
                format!(
                    "The time of {second} against that of {first}, from pairs of transfers that \
                     followed each other closely over the same link. −5 % means that {second} \
                     takes 5 % less time."
                ),
            ),
            (
                "95 % interval",
                "Where the true value lies, as far as chance allows to tell: of 20 such intervals \
                 19 hold it. A difference whose interval holds 0 may be none at all; more pairs \
                 make it narrower."
                    .into(),
            ),
            (
                "Winner",
                "Named when the interval leaves out 0 and the difference is more than 3 %. A tie: the \
                 whole interval lies within 3 %, too little to change a protocol for. Else it is \
                 undecided: unclear, by little, or of too few pairs, as the notes below the table say."
                    .into(),
            ),
            (
                "Crossover",
                format!(
                    "The delay from which {second} is the faster one; over several axes, the line \
                     where the difference is 0. Its interval ends at measured delays, since between two \
                     of them nothing is known; closer delays make it narrower."
                ),
            ),
        ]);
    }
    let invalid = analysis.invalid();
    terms.push((
        "Transfers that do not count",
        format!(
            "A transfer is made again when the measurement failed, as when the link was late; never \
             for being slow, unless it runs into the plan's time-out. Here: {}.",
            match invalid {
                0 => "none".to_owned(),
                n => words::count(n, "transfer"),
            }
        ),
    ));
    terms
}
