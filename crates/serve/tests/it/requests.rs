//! The table of requests for a folder: the same answers over every protocol.

use super::one_way::{By, case, check_one_way};
use altway_serve::{ContentCoding, Files, FilesOptions, Site};
use std::collections::BTreeSet;

#[path = "../requests/table.rs"]
mod table;

fn options() -> FilesOptions {
    let mut options = FilesOptions::default();
    options.listing = true;
    options.precompressed = vec![ContentCoding::Brotli, ContentCoding::Gzip];
    options.error_pages = vec![(404, "404.html".into())];
    options
}

/// The entity tag of a file: time of change and length.
fn etag(target: &str) -> String {
    let files = table::files();
    let file = files.iter().find(|(name, _)| target == format!("/{name}"));
    let nanos = u128::from(table::CHANGED) * 1_000_000_000;
    format!("\"{nanos:x}-{:x}\"", file.unwrap().1.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_of_the_table_has_the_same_answer_over_every_protocol() {
    let rows = table::requests(etag);
    let groups: BTreeSet<_> = rows.iter().map(|row| row.group).collect();
    assert_eq!(groups.len(), 8, "{groups:?}");
    assert!(rows.iter().all(|row| row.line.starts_with(row.method)));
    let cases: Vec<_> = rows
        .into_iter()
        .map(|row| {
            let mut case = case(row.method.parse().unwrap(), row.target);
            case.fields = row.fields;
            case
        })
        .collect();
    assert!(cases.len() >= 150, "{}", cases.len());
    let answers = check_one_way(&cases, |by, folder| {
        let folder = folder.join("site");
        table::make(&folder);
        match by {
            By::Files => Site::files_with(&folder, options()),
            By::Service => Site::service(Files::open_with(&folder, options()).unwrap()),
        }
    })
    .await;
    let is_seen = |status| answers.iter().any(|answer| answer.status == status);
    for status in [200, 204, 206, 304, 308, 400, 404, 405, 412, 416] {
        assert!(is_seen(status), "{status} is among them");
    }
    for answer in &answers {
        let content = String::from_utf8_lossy(&answer.body);
        let is_secret = content == "hidden" || content.contains("outside the folder");
        assert!(!is_secret, "{content}");
    }
}
