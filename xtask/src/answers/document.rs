//! `docs/answers.md`: the differences by their reasons.

use super::differences::Difference;
use super::reasons::{Explained, Rule};
use super::rows;
use super::servers::Software;
use crate::shell;
use anyhow::{Context as _, Result, ensure};
use std::fmt::Write as _;
use std::fs;

const FILE: &str = "docs/answers.md";

const BEFORE: &str = "\
# What others answer
<!-- Written by `cargo xtask answers --write` from crates/serve/tests/requests/differences.toml. -->

altway answers the requests of a table
([crates/serve/tests/requests/table.txt](../crates/serve/tests/requests/table.txt)) the same over HTTP/1.1, HTTP/2 and
HTTP/3, as a test of every build shows. Here is where other servers answer otherwise, and why. Each has the same
folder and a plain configuration: listings on, forms that are compressed beforehand, a page for 404, all else as it has it
by itself. The wording of errors, redirects and listings is not compared; where statuses differ, the rest follows from them
and is not counted.
";

/// Says of a field whether a part of the document is about it.
type IsAbout = fn(&str) -> bool;

/// Headings, and what each is about; the last has what is left.
const PARTS: [(&str, IsAbout); 4] = [
    ("Status", |field| field == "status"),
    ("Where redirects lead", |field| field == "location"),
    ("Content", |field| {
        ["content", "content-length", "content-range"].contains(&field)
    }),
    ("Fields", |_| true),
];

/// Head of each table.
const HEAD: &str =
    "| differences | first of them | field | altway | they | why |\n|---|---|---|---|---|---|\n";

/// The document.
pub(super) fn text(explained: &Explained, versions: &[(Software, String)]) -> String {
    let mut text = String::from(BEFORE);
    text.push_str("\n| | compared over | differences |\n|---|---|---|\n");
    let all = || explained.by_rule.iter().flat_map(|(_, those)| those);
    for (peer, version) in versions {
        let count = all().filter(|it| it.peer == *peer).count();
        let over = match peer {
            Software::StaticWebServer => "HTTP/1.1",
            _ => "HTTP/1.1, HTTP/2",
        };
        writeln!(text, "| {peer} {version} | {over} | {count} |").expect("a String takes all");
    }
    let rules = explained.by_rule.len();
    let summary = format!(
        "\n{} differences in the answers to {} requests, for {rules} reasons.\n",
        all().count(),
        rows().len()
    );
    text.push_str(&summary);
    let mut left: Vec<_> = explained.by_rule.iter().collect();
    for (heading, is_part) in PARTS {
        let (here, others): (Vec<_>, Vec<_>) = left
            .into_iter()
            .partition(|(rule, _)| rule.fields.iter().any(|field| is_part(field)));
        left = others;
        if !here.is_empty() {
            write!(text, "\n## {heading}\n{HEAD}").expect("a String takes all");
            for (rule, differences) in here {
                text.push_str(&row(rule, differences));
            }
        }
    }
    text
}

fn row(rule: &Rule, differences: &[Difference]) -> String {
    let counts = Software::PEERS.map(|peer| {
        let those = differences.iter().filter(|it| it.peer == peer);
        (peer, those.count())
    });
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    let counts: Vec<_> = counts
        .map(|(peer, count)| format!("{peer} {count}"))
        .collect();
    let decides = match rule.decides.as_str() {
        "" => String::new(),
        decides => format!(" ({decides})"),
    };
    let example = differences.first().map_or("", |it| it.row.line);
    let field = |it: &Difference| match rule.fields.len() {
        1 => String::new(),
        _ => format!("{}: ", it.field),
    };
    let ours = values(differences, |it| format!("{}{}", field(it), it.ours));
    let theirs = values(differences, |it| format!("{}{}", field(it), it.theirs));
    let (counts, fields) = (counts.join(", "), rule.fields.join(", "));
    let (example, reason) = (escaped(example), &rule.reason);
    format!("| {counts} | `{example}` | {fields} | {ours} | {theirs} | {reason}{decides} |\n")
}

/// The values that there are, the most frequent ones first, three at most.
fn values(differences: &[Difference], value: impl Fn(&Difference) -> String) -> String {
    let mut values: Vec<(String, usize)> = Vec::new();
    for difference in differences {
        let value = escaped(&value(difference));
        match values.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += 1,
            None => values.push((value, 1)),
        }
    }
    values.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let rest = values.len() > 3;
    let shown: Vec<_> = values.into_iter().take(3).map(|(value, _)| value).collect();
    shown.join("; ") + if rest { " …" } else { "" }
}

/// Formats a value as a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Writes the document, or compares it with the one that is there.
///
/// # Errors
/// They differ.
pub(super) fn settle(text: &str, write: bool) -> Result<()> {
    if write {
        return fs::write(FILE, text).with_context(|| format!("cannot write {FILE}"));
    }
    let there = fs::read_to_string(FILE).unwrap_or_default();
    ensure!(
        there == text,
        "{FILE} is not what the answers are: `cargo xtask answers --write`"
    );
    shell::say(&format!("{FILE} is what the answers are"));
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

    use super::super::reasons::Reasons;
    use super::*;

    #[test]
    fn every_reason_stands_in_the_document() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let document = fs::read_to_string(format!("{root}/{FILE}")).unwrap();
        let reasons = Reasons::read().unwrap().explain(Vec::new(), &[]);
        for (rule, _) in reasons.by_rule {
            assert!(document.contains(&rule.reason), "{}", rule.reason);
        }
    }
}
