//! Links of plans in words, links that change, and transfers side by side: on real namespaces, as a
//! person would use them.

use crate::common::{Dir, TIME_LIMIT, refusal, success};
use crate::lab::can_emulate;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A plan over links that take most of half a second for a transfer.
fn plan(more: &str) -> String {
    format!("name = \"t\"\nrate = \"2mbit\"\nsize = \"100KB\"\nnull_arm = false\n{more}")
}

/// Rows of a file of rows, by column; names of links have no commas.
fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let header: Vec<_> = lines.next().unwrap().collect();
    lines
        .map(|row| header.iter().cloned().zip(row).collect())
        .collect()
}

fn only_run(dir: &Dir) -> PathBuf {
    let mut runs = fs::read_dir(dir.path().join("runs")).unwrap();
    let run = runs.next().unwrap().unwrap().path();
    assert!(runs.next().is_none());
    run
}

#[test]
fn links_that_can_not_be_are_refused_with_a_hint() {
    let dir = Dir::new();
    let refused = |more: &str| {
        dir.file(
            "t.toml",
            plan(&format!("pairs = 1\ndelay = \"5ms\"\n{more}")),
        );
        refusal(&mut dir.altway(["lab", "plan", "show", "t.toml"]))
    };
    let said = refused("link = \"jiter 5ms\"");
    assert!(
        said.contains("the link `jiter 5ms`: `jiter` is no setting"),
        "{said}"
    );
    assert!(said.contains("hint: `altway emulate set --help`"), "{said}");
    let said = refused("link = \"delay 40ms\"");
    assert!(
        said.contains("it sets what the plan's `delay` says"),
        "{said}"
    );
    assert!(said.contains("hint: say it by that key"), "{said}");
    let said = refused("side_by_side = \"many\"");
    assert!(said.contains("expected off, auto or 1 to 32"), "{said}");
}

#[test]
fn a_plan_tells_what_its_links_go_through() {
    let dir = Dir::new();
    let said = success(&mut dir.altway(["lab", "plan", "show", "turns-bad"]));
    assert!(
        said.contains("turns bad: at 1s loss 5%, jitter 10ms"),
        "{said}"
    );
    assert!(said.contains("stands still, delay 50ms"), "{said}");
}

#[test]
fn a_link_is_as_its_words_say_and_changes_at_its_times() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    let links = "pairs = 1\ndelay = \"5ms\"\nprotocols = \"h2\"\n[[link]]\nname = \"plain\"\n\
                 [[link]]\nname = \"twice\"\nset = \"duplicate 20%\"\n\
                 [[link]]\nname = \"far\"\n[link.at]\n100ms = \"delay 400ms\"";
    dir.file("t.toml", plan(links));
    success(&mut dir.altway(["lab", "run", "t.toml"]));
    let run = only_run(&dir);
    let rows = rows(&fs::read_to_string(run.join("samples.csv")).unwrap());
    let of = |link: &str| {
        let mut of_link = rows.iter().filter(|row| row["link"] == link);
        of_link.rfind(|row| row["valid"] == "true").unwrap().clone()
    };
    let number = |row: &BTreeMap<String, String>, column: &str| row[column].parse::<u64>().unwrap();
    let (plain, twice, far) = (of("plain"), of("twice"), of("far"));
    assert_eq!(number(&plain, "duplicated_packets"), 0);
    assert!(number(&twice, "duplicated_packets") > 5, "{twice:?}");
    let longer = number(&far, "compared_us").saturating_sub(number(&plain, "compared_us"));
    // One round trip more at least, and a window that grows by round trips.
    assert!(longer > 780_000, "{longer} µs");
    let manifest: Value =
        serde_json::from_slice(&fs::read(run.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["plan"]["links"][2]["at"][0]["time"], "100ms");
    assert_eq!(manifest["networks"][0]["topology"], "direct");
    let (wall, transfers) = (
        &manifest["running"]["wall_ms"],
        &manifest["running"]["transfers_ms"],
    );
    assert!(wall.as_u64() >= transfers.as_u64(), "{wall} {transfers}");
}

#[test]
fn a_run_side_by_side_that_is_killed_goes_on_without_a_row_lost_or_doubled() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    let text = plan("delay = [\"1ms\", \"5ms\", \"10ms\"]\npairs = 3");
    dir.file("t.toml", text);
    let mut lab = dir.altway(["lab", "run", "t.toml", "--side-by-side", "3"]);
    let mut lab = lab
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + TIME_LIMIT;
    let samples = || {
        let run = fs::read_dir(dir.path().join("runs"))
            .ok()?
            .flatten()
            .next()?;
        fs::read_to_string(run.path().join("samples.csv")).ok()
    };
    while samples().is_none_or(|text| text.lines().count() < 6) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    lab.kill().unwrap();
    lab.wait().unwrap();
    let run = only_run(&dir);
    let kept = samples().unwrap();
    success(&mut dir.altway(["lab", "resume", run.to_str().unwrap()]));
    let now = samples().unwrap();
    let kept = &kept[..kept.rfind('\n').unwrap() + 1];
    assert!(now.starts_with(kept), "{now}");
    let rows = rows(&now);
    let mut times: BTreeMap<[&str; 3], (usize, usize)> = BTreeMap::new();
    for row in &rows {
        let id = ["block", "cell", "protocol"].map(|column| row[column].as_str());
        let (valid, invalid) = times.entry(id).or_default();
        *(if row["valid"] == "true" {
            valid
        } else {
            invalid
        }) += 1;
    }
    assert_eq!(times.len(), 18, "{now}");
    // One that the machine disturbed every time is given up.
    let once = |(valid, invalid): &(usize, usize)| *valid == 1 || (*valid == 0 && *invalid == 3);
    assert!(times.values().all(once), "{times:?}");
    assert!(rows.iter().any(|row| row["beside"] == "2"), "{now}");
    let manifest: Value =
        serde_json::from_slice(&fs::read(run.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["running"]["side_by_side"], 3);
    assert_eq!(manifest["plan"]["side_by_side"], "3");
}
