//! report.html as its readers open it: in a browser, from a file, whatever a plan says of itself.

use crate::common::{Dir, installed, success, text};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// A run that is kept.
const RUN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../results/2026-11-22-2core-vm-delay-sweep"
);
/// Number of blocks, as many as a test needs.
const BLOCKS: u32 = 6;

/// A text that tries to leave its place in a page: by each end that a place may have.
const HOSTILE: &str = "</script><script>document.title = 'broken out'</script>\
    <img src=\"https://altway.test/x\" onerror=\"document.title = 'broken out'\">\
    --><!-- '\"]]> \u{2028}";

/// The page as a browser has opened it.
struct Opened {
    /// The document when the scripts had run.
    dom: String,
    /// Lines that went to the console.
    console: Vec<String>,
    /// Requests of the page beyond itself, from the browser's log of its network.
    requests: Vec<String>,
}

/// Opens a file in Chromium, which knows no address.
fn open(dir: &Dir, page: &Path) -> Opened {
    let log = dir.path().join("net.json");
    let profile = dir.path().join("profile");
    let mut chromium = Command::new("chromium");
    chromium.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
    ]);
    chromium.args([
        "--disable-background-networking",
        "--disable-component-update",
    ]);
    chromium.args([
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--enable-logging=stderr",
    ]);
    chromium.arg(format!("--log-net-log={}", log.display()));
    chromium.arg(format!("--user-data-dir={}", profile.display()));
    chromium.arg("--dump-dom").arg(page);
    chromium.env("HOME", dir.path()).stdin(Stdio::null());
    let output = chromium.output().unwrap();
    let stderr = text(&output.stderr);
    let said = stderr.lines().filter(|line| line.contains("CONSOLE"));
    let log = fs::read_to_string(log).unwrap();
    Opened {
        dom: text(&output.stdout),
        console: said.map(str::to_owned).collect(),
        requests: log
            .lines()
            .filter(|line| is_of_page(line))
            .map(str::to_owned)
            .collect(),
    }
}

/// Returns whether an event of the log is a request that a page made: the browser's own have no
/// origin.
fn is_of_page(event: &str) -> bool {
    event.contains("\"initiator\":\"") && !event.contains("\"initiator\":\"not an origin\"")
}

/// A report of the first blocks of the kept run, with hostile texts wherever a manifest takes any, and
/// its summary.
fn report(dir: &Dir) -> Vec<Value> {
    let kept = |name: &str| fs::read_to_string(Path::new(RUN).join(name)).unwrap();
    let mut manifest: Value = serde_json::from_str(&kept("manifest.json")).unwrap();
    manifest["plan"]["description"] = HOSTILE.into();
    manifest["host"]["cpu"] = HOSTILE.into();
    manifest["started_at"] = HOSTILE.into();
    manifest["command"] = vec![HOSTILE].into();
    dir.file("run/manifest.json", manifest.to_string());
    let samples = kept("samples.csv");
    let is_early = |row: &&str| {
        let block = row.split(',').nth(1).unwrap().parse();
        block.map_or(true, |block: u32| block < BLOCKS)
    };
    let early: Vec<&str> = samples.lines().filter(is_early).collect();
    dir.file("run/samples.csv", early.join("\n") + "\n");
    let summary = success(&mut dir.altway(["lab", "report", "run", "--json"]));
    serde_json::from_str(&summary).unwrap()
}

#[test]
fn a_report_opens_with_all_its_charts_asks_for_nothing_and_lets_no_text_break_out() {
    if !installed("chromium") {
        return;
    }
    let dir = Dir::new();
    let summary = report(&dir);
    let opened = open(&dir, &dir.path().join("run/report.html"));
    assert!(opened.console.is_empty(), "{:?}", opened.console);
    assert!(opened.requests.is_empty(), "{:?}", opened.requests);
    assert!(
        opened
            .dom
            .contains("<title>altway lab: delay-sweep</title>")
    );
    assert!(!opened.dom.contains("<img"));

    let count = |part: &str| opened.dom.matches(part).count();
    let figures = count("<figure data-figure=");
    assert!(figures >= 4, "{figures}");
    assert_eq!(count("<div class=\"interactive\">"), figures);
    assert_eq!(count("class=\"picture\" hidden"), figures);
    assert!(count("Arrow keys read the values") >= figures);

    let figure = opened
        .dom
        .split("data-figure=\"response-time\"")
        .nth(1)
        .unwrap();
    let table = figure.split("<tbody>").nth(1).unwrap();
    let table = table.split("</tbody>").next().unwrap();
    let measured = summary.iter().filter(|row| row["null_arm"] == false);
    assert_eq!(table.matches("<tr>").count(), measured.count());
}

#[test]
fn a_request_of_a_page_would_be_seen() {
    if !installed("chromium") {
        return;
    }
    let dir = Dir::new();
    let page = dir.file(
        "page.html",
        "<!doctype html><img src=\"https://altway.test/x\">",
    );
    let opened = open(&dir, &page);
    assert!(
        opened
            .requests
            .iter()
            .any(|event| event.contains("altway.test/x"))
    );
}
