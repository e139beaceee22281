//! Differences of another server's answers from altway's.

use super::All;
use super::answer::Answer;
use super::rows;
use super::servers::{Protocol, Software};
use super::table::Row;

/// Something that one server answers otherwise than altway to a request of the table.
#[derive(Debug, Clone)]
pub(super) struct Difference {
    pub(super) row: Row,
    pub(super) peer: Software,
    /// Over which protocols that are asked it is so.
    pub(super) protocols: Vec<Protocol>,
    /// `status`, `content` or a field's name.
    pub(super) field: &'static str,
    pub(super) ours: String,
    pub(super) theirs: String,
}

/// All differences between the answers of `peer` and altway's over the protocols that both have.
pub(super) fn between(peer: Software, ours: &All, theirs: &All) -> Vec<Difference> {
    let mut all: Vec<Difference> = Vec::new();
    for (at, row) in rows().into_iter().enumerate() {
        let begin = all.len();
        for (protocol, answers) in theirs {
            let Some(our) = ours.get(protocol) else {
                continue;
            };
            for (field, ours, theirs) in of_answers(&our[at], &answers[at]) {
                let is_same = |it: &&mut Difference| {
                    it.field == field && it.ours == ours && it.theirs == theirs
                };
                if let Some(known) = all[begin..].iter_mut().find(is_same) {
                    known.protocols.push(*protocol);
                    continue;
                }
                all.push(Difference {
                    row: row.clone(),
                    peer,
                    protocols: vec![*protocol],
                    field,
                    ours,
                    theirs,
                });
            }
        }
    }
    all
}

/// Fields that follow from the content.
const OF_CONTENT: [&str; 3] = ["content-length", "content-range", "content-encoding"];

/// Finds the differences. Of unlike statuses the rest follows, but for the place that redirects lead to.
fn of_answers(ours: &Answer, theirs: &Answer) -> Vec<(&'static str, String, String)> {
    let is_other = ours.status != theirs.status;
    let both_lead = ours.is_redirect() && theirs.is_redirect();
    let mut found = Vec::new();
    if is_other {
        found.push(("status", status(ours), status(theirs)));
    }
    let mut has_other_content = false;
    for ((name, our), (_, their)) in ours.values().zip(theirs.values()) {
        has_other_content |= name == "content" && our != their;
        let follows = match is_other {
            true => !(both_lead && name == "location"),
            false => has_other_content && OF_CONTENT.contains(&name),
        };
        if !follows && our != their {
            found.push((name, our.to_owned(), their.to_owned()));
        }
    }
    found
}

fn status(answer: &Answer) -> String {
    match answer.status {
        0 => "none".to_owned(),
        status => status.to_string(),
    }
}
