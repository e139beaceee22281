//! A page with the beacon's script in Chromium: the browser's own times reach the selection log.

use crate::admin_page::Browser;
use crate::common::{Dir, Serving, eventually, installed};
use serde_json::Value;

const PAGE: &str = r#"<!doctype html><title>page</title><img src="/o.svg">
<script src="/.well-known/altway/beacon.js" async></script>"#;

const IMAGE: &str = r#"<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>"#;

/// The first report in a selection log.
fn report(dir: &Dir) -> Option<Value> {
    let text = std::fs::read_to_string(dir.path().join("selection.jsonl")).ok()?;
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.into_iter().find(|line| line.get("beacon").is_some())
}

#[test]
fn chromium_reports_how_long_a_page_took_under_a_strict_policy_of_content() {
    if !installed("chromium") || !installed("mkfifo") {
        return;
    }
    let dir = Dir::new();
    dir.file("site/page.html", PAGE);
    dir.file("site/o.svg", IMAGE);
    let log = dir.path().join("selection.jsonl");
    let log = log.to_str().unwrap();
    let options = ["--beacon", "100%", "--selection-log", log, "--header"];
    let policy = "Content-Security-Policy: default-src 'self'";
    let serving = Serving::start(&dir, &[&options[..], &[policy]].concat());
    let mut browser = Browser::start(&dir, "--ignore-certificate-errors");
    browser.open(&serving.url("/page.html"));
    eventually("the report is in the log", || report(&dir).is_some());
    let line = report(&dir).unwrap();
    let beacon = &line["beacon"];
    assert!(beacon["seconds"].as_f64().unwrap() > 0.0, "{line}");
    assert!(beacon["load_seconds"].as_f64().unwrap() > 0.0, "{line}");
    // The page, its picture, and the script unless it came after the load event.
    assert!(
        (2..=3).contains(&beacon["responses"].as_u64().unwrap()),
        "{line}"
    );
    assert_eq!(line["protocol"], "h2", "{line}");
    drop(browser);
    assert_eq!(serving.terminate(), Some(0));
}
