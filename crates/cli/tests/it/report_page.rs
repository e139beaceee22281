//! report.html as its readers open it: in a browser, from a file, whatever a plan says of itself.

use crate::common::{Dir, installed, success, text};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// A run that is kept.
const RUN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../results/2026-11-21-2core-vm-delay-sweep"
);

/// What a browser made of a page.
struct Opened {
    /// The document when the scripts had run.
    dom: String,
    /// What went to the console.
    console: Vec<String>,
    /// What was asked for, from the browser's own log.
    requests: Vec<String>,
}

/// Opens a file in Chromium.
fn open(dir: &Dir, page: &Path) -> Opened {
    let log = dir.path().join("net.json");
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
    chromium.args(["--enable-logging=stderr", "--timeout=8000", "--dump-dom"]);
    chromium.arg(format!("--log-net-log={}", log.display()));
    chromium.arg(format!(
        "--user-data-dir={}",
        dir.path().join("profile").display()
    ));
    chromium.arg(format!("file://{}", page.display()));
    chromium.env("HOME", dir.path()).stdin(Stdio::null());
    let output = chromium.output().unwrap();
    let console = text(&output.stderr)
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .map(str::to_owned)
        .collect();
    Opened {
        dom: text(&output.stdout),
        console,
        requests: requests(&fs::read_to_string(log).unwrap()),
    }
}

/// The addresses in a log of Chromium's network.
fn requests(log: &str) -> Vec<String> {
    let addresses = log.split("\"url\":\"").skip(1);
    addresses
        .map(|rest| rest.split('"').next().unwrap_or_default().to_owned())
        .collect()
}

/// A copy of the kept run whose manifest `change` has changed, with a new report, and its summary.
fn reported(dir: &Dir, change: impl Fn(&mut Value)) -> Vec<Value> {
    let kept = |name: &str| fs::read_to_string(Path::new(RUN).join(name)).unwrap();
    let mut manifest: Value = serde_json::from_str(&kept("manifest.json")).unwrap();
    change(&mut manifest);
    dir.file("run/manifest.json", manifest.to_string());
    dir.file("run/samples.csv", kept("samples.csv"));
    let summary = success(&mut dir.altway(["lab", "report", "run", "--json"]));
    serde_json::from_str(&summary).unwrap()
}

#[test]
fn a_report_opens_with_all_its_charts_and_asks_for_nothing() {
    if !installed("chromium") {
        return;
    }
    let dir = Dir::new();
    let summary = reported(&dir, |_| ());
    let page = dir.path().join("run/report.html");
    let opened = open(&dir, &page);

    assert!(opened.console.is_empty(), "{:?}", opened.console);
    let page_itself = format!("file://{}", page.display());
    let foreign: Vec<_> = opened
        .requests
        .iter()
        .filter(|url| **url != page_itself && !url.starts_with("data:"))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");

    let count = |part: &str| opened.dom.matches(part).count();
    assert!(count("<figure data-figure=") >= 4);
    assert_eq!(
        count("<div class=\"interactive\">"),
        count("<figure data-figure=")
    );
    assert_eq!(
        count("class=\"picture\" hidden"),
        count("<figure data-figure=")
    );
    assert!(count("Arrow keys read the values") >= count("<figure data-figure="));

    let figure = opened
        .dom
        .split("data-figure=\"response-time\"")
        .nth(1)
        .unwrap();
    let table = figure
        .split("<tbody>")
        .nth(1)
        .unwrap()
        .split("</tbody>")
        .next()
        .unwrap();
    let measured = summary.iter().filter(|row| row["null_arm"] == false);
    assert_eq!(table.matches("<tr>").count(), measured.count());
}

#[test]
fn a_hostile_plan_cannot_leave_its_place_in_the_report() {
    if !installed("chromium") {
        return;
    }
    const HOSTILE: &str = "</script><script>document.title = 'broken out'</script>\
        <img src=\"https://altway.test/x\" onerror=\"document.title = 'broken out'\">\
        --><!-- '\"]]> \u{2028}";
    let dir = Dir::new();
    reported(&dir, |manifest| {
        manifest["plan"]["description"] = HOSTILE.into();
        manifest["host"]["cpu"] = HOSTILE.into();
        manifest["started_at"] = HOSTILE.into();
        manifest["command"] = vec![HOSTILE].into();
    });
    let opened = open(&dir, &dir.path().join("run/report.html"));
    assert!(
        opened
            .dom
            .contains("<title>altway lab: delay-sweep</title>")
    );
    assert!(opened.dom.contains("<div class=\"interactive\">"));
    assert!(!opened.dom.contains("<img"));
    assert!(opened.console.is_empty(), "{:?}", opened.console);
    assert!(
        !opened
            .requests
            .iter()
            .any(|url| url.contains("altway.test"))
    );
}
