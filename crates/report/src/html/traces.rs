//! Transfers that were traced, each beside its files: for someone who wants to see what a figure of the page is made of.

use super::{escape, paragraph};
use crate::analysis::Analysis;
use crate::words;
use altway_record::{Sample, Traced, trace_content};

/// Files of a transfer that are named, at most: a browser may open a connection, with a qlog, for each session.
const MAX_NAMED: usize = 16;

/// The section, or nothing where no transfer was traced.
pub(super) fn section(analysis: &Analysis<'_>, traced: &[Traced]) -> String {
    if traced.is_empty() {
        return String::new();
    }
    let rows: String = traced.iter().map(|one| row(analysis, one)).collect();
    format!(
        "<section id=\"traces\">\n<h2>Traces</h2>\n{}<div class=\"scroll\"><table>\n<caption>Traced transfers and their files</caption>\n\
         <thead><tr><th scope=\"col\">Transfer</th><th scope=\"col\">Took</th><th scope=\"col\">Files</th></tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n</section>\n",
        paragraph(
            "note",
            "These were made once more when the run had ended, over links with the seeds of its first block, with \
             packets and logs written down. They are no part of the result, for writing costs time; their rows are in \
             traces/samples.csv."
        )
    )
}

fn row(analysis: &Analysis<'_>, traced: &Traced) -> String {
    let sample = &traced.sample;
    let cells = &analysis.cells;
    let cell = cells.iter().find(|one| one.cell.index == sample.cell);
    let link = cell.map_or_else(String::new, |one| {
        let (series, delay) = (words::series(&one.cell), words::delay(one.cell.delay));
        format!(" · {series} · {delay}")
    });
    let transfer = format!("cell {}{link} · {}", sample.cell, arm(sample));
    format!(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td><ul>\n{}</ul></td></tr>\n",
        escape(&transfer),
        escape(&took(sample)),
        files(&traced.files)
    )
}

/// The protocol that was asked for, or the policy of its server.
fn arm(sample: &Sample) -> String {
    match sample.policy {
        Some(policy) => format!("policy {policy}"),
        None => sample.protocol.name().to_owned(),
    }
}

fn took(sample: &Sample) -> String {
    match (sample.valid, sample.compared_us) {
        (true, Some(time)) => format!("{:.1} ms", time as f64 / 1e3),
        _ => format!("does not count: {}", sample.fault),
    }
}

fn files(files: &[String]) -> String {
    let item = |file: &String| {
        let name = file.splitn(3, '/').last().unwrap_or(file);
        let content = trace_content(file).map_or_else(String::new, |what| format!(": {what}"));
        format!(
            "<li><a href=\"{}\"><code>{}</code></a>{}</li>\n",
            escape(file),
            escape(name),
            escape(&content)
        )
    };
    let mut items: String = files.iter().take(MAX_NAMED).map(item).collect();
    if files.len() > MAX_NAMED {
        let more = format!("{} more in the same folder", files.len() - MAX_NAMED);
        items.push_str(&format!("<li>{more}</li>\n"));
    }
    items
}
