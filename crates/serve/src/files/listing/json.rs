//! A listing for programs.

use super::{Entry, Listing};
use serde::Serialize;

#[derive(Serialize)]
struct Folder<'a> {
    path: &'a str,
    /// True if there are more entries than these.
    truncated: bool,
    entries: Vec<Member>,
}

#[derive(Serialize)]
struct Member {
    name: String,
    /// Relative to the folder.
    href: String,
    #[serde(rename = "type")]
    kind: &'static str,
    /// Size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    modified: String,
}

pub(super) fn write(listing: &Listing) -> String {
    let member = |entry: &Entry| Member {
        name: entry.text(),
        href: entry.reference(),
        kind: if entry.is_folder { "folder" } else { "file" },
        size: (!entry.is_folder).then_some(entry.size),
        modified: entry.time(),
    };
    let folder = Folder {
        path: &listing.path,
        truncated: listing.is_cut,
        entries: listing.entries.iter().map(member).collect(),
    };
    let mut text = serde_json::to_string(&folder).expect("texts and numbers");
    text.push('\n');
    text
}
