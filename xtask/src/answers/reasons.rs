//! The reasons for differences: `differences.toml` beside the table, in which a rule stands for many of them.

use super::differences::Difference;
use super::pattern::fits;
use super::servers::Software;
use super::table::Row;
use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use std::fmt::Write as _;

const FILE: &str = include_str!("../../../crates/serve/tests/requests/differences.toml");

/// Rules in the order in which they are tried.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reasons {
    rule: Vec<Rule>,
}

/// A reason, and the differences that have it. In patterns `*` stands for anything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    /// Servers that answer otherwise.
    peers: Vec<String>,
    /// Parts that they answer otherwise: `status`, `content` or names of fields.
    pub(super) fields: Vec<String>,
    /// Patterns of lines of the table, or `[group]`.
    #[serde(default = "anything")]
    requests: Vec<String>,
    /// Patterns of what altway answers there.
    #[serde(default = "anything")]
    ours: Vec<String>,
    /// Patterns of what they answer.
    #[serde(default = "anything")]
    theirs: Vec<String>,
    /// One sentence.
    pub(super) reason: String,
    /// The section that decides, where one does.
    #[serde(default)]
    pub(super) decides: String,
}

fn anything() -> Vec<String> {
    vec!["*".to_owned()]
}

/// Differences by the rules that give their reasons, in the rules' order.
pub(super) struct Explained {
    pub(super) by_rule: Vec<(Rule, Vec<Difference>)>,
    without: Vec<Difference>,
    /// Names of the servers that were not asked.
    missing: Vec<&'static str>,
}

impl Reasons {
    /// # Errors
    /// The file is not as it should be.
    pub(super) fn read() -> Result<Self> {
        toml::from_str(FILE).context("differences.toml can't be read")
    }

    /// Gives each difference the first rule that fits.
    pub(super) fn explain(self, differences: Vec<Difference>, missing: &[Software]) -> Explained {
        let rules = self.rule.into_iter().map(|rule| (rule, Vec::new()));
        let mut explained = Explained {
            by_rule: rules.collect(),
            without: Vec::new(),
            missing: missing.iter().map(|it| it.name()).collect(),
        };
        for difference in differences {
            let mut rules = explained.by_rule.iter_mut();
            match rules.find(|(rule, _)| rule.fits(&difference)) {
                Some((_, those)) => those.push(difference),
                None => explained.without.push(difference),
            }
        }
        explained
    }
}

impl Rule {
    fn fits(&self, difference: &Difference) -> bool {
        let has = |patterns: &[String], text: &str| patterns.iter().any(|it| fits(it, text));
        has(&self.peers, difference.peer.name())
            && has(&self.fields, difference.field)
            && self.is_for(&difference.row)
            && has(&self.ours, &difference.ours)
            && has(&self.theirs, &difference.theirs)
    }

    fn is_for(&self, row: &Row) -> bool {
        let group = format!("[{}]", row.group);
        let is_for = |pattern: &String| *pattern == group || fits(pattern, row.line);
        self.requests.iter().any(is_for)
    }
}

impl Explained {
    /// Every difference, a line each.
    pub(super) fn list(&self) -> String {
        let mut text = String::new();
        for (rule, differences) in &self.by_rule {
            writeln!(text, "{}", rule.reason).expect("a String takes all");
            for difference in differences {
                text.push_str(&line(difference));
            }
        }
        text
    }

    /// # Errors
    /// A difference has no reason, or a reason no difference.
    pub(super) fn must_be_whole(&self) -> Result<()> {
        let lines: String = self.without.iter().map(line).collect();
        ensure!(
            lines.is_empty(),
            "{} differences have no reason in differences.toml:\n{lines}",
            self.without.len()
        );
        let is_asked = |rule: &Rule| !rule.peers.iter().any(|it| self.missing.contains(&&**it));
        let unused = self.by_rule.iter().filter(|(rule, differences)| {
            let is_used = !differences.is_empty();
            !is_used && is_asked(rule)
        });
        let unused: Vec<_> = unused.map(|(rule, _)| rule.reason.as_str()).collect();
        ensure!(
            unused.is_empty(),
            "reasons of differences that there are not:\n{}",
            unused.join("\n")
        );
        Ok(())
    }
}

fn line(difference: &Difference) -> String {
    let Difference {
        row,
        peer,
        field,
        ours,
        theirs,
        protocols,
    } = difference;
    let over: Vec<_> = protocols.iter().map(ToString::to_string).collect();
    let over = over.join(", ");
    format!(
        "  {peer} [{}] {}: {field} {ours} -> {theirs} ({over})\n",
        row.group, row.line
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

    use super::super::rows;
    use super::super::servers::Protocol;
    use super::*;

    fn difference(field: &'static str, theirs: &str) -> Difference {
        let mut rows = rows().into_iter();
        Difference {
            row: rows.find(|row| row.line == "POST /a.txt").unwrap(),
            peer: Software::Nginx,
            protocols: vec![Protocol::Http1],
            field,
            ours: "405".into(),
            theirs: theirs.into(),
        }
    }

    fn reasons(requests: &str) -> Reasons {
        let rule = format!(
            "[[rule]]\npeers = [\"nginx\"]\nfields = [\"status\"]\nrequests = [{requests:?}]\n\
             theirs = [\"2*\"]\nreason = \"r\"\n"
        );
        toml::from_str(&rule).unwrap()
    }

    #[test]
    fn a_difference_without_a_reason_and_a_reason_without_a_difference_are_faults() {
        for requests in ["POST *", "[methods]", "*"] {
            let explained = reasons(requests).explain(vec![difference("status", "200")], &[]);
            explained.must_be_whole().unwrap();
        }
        for (requests, field, theirs) in [
            ("GET *", "status", "200"),
            ("*", "content", "200"),
            ("*", "status", "300"),
        ] {
            let explained = reasons(requests).explain(vec![difference(field, theirs)], &[]);
            let fault = explained.must_be_whole().unwrap_err().to_string();
            assert!(fault.contains("no reason"), "{fault}");
        }
        let fault = reasons("*").explain(Vec::new(), &[]).must_be_whole();
        assert!(fault.unwrap_err().to_string().ends_with("\nr"));
        let missing = reasons("*").explain(Vec::new(), &[Software::Nginx]);
        missing.must_be_whole().unwrap();
    }

    #[test]
    fn every_reason_names_servers_and_requests_that_there_are() {
        let rows = rows();
        for rule in Reasons::read().unwrap().rule {
            let known = Software::PEERS.map(Software::name);
            let is_known = |name: &String| known.contains(&&**name);
            assert!(rule.peers.iter().all(is_known), "{:?}", rule.peers);
            assert!(rows.iter().any(|row| rule.is_for(row)), "{}", rule.reason);
        }
    }
}
