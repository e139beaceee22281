//! Plans before they run, and runs of what plans can ask for beside a download: on real namespaces, as
//! a person would use them.

use crate::common::{Dir, refusal, success};
use crate::lab::can_emulate;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_plan_says_what_it_will_do_before_it_does_it() {
    let dir = Dir::new();
    let list = json(&success(&mut dir.altway(["lab", "plan", "list", "--json"])));
    let names: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|plan| &plan["name"])
        .collect();
    assert!(
        names.contains(&&Value::from("bandwidth-map-whole")),
        "{names:?}"
    );
    let show = json(&success(&mut dir.altway([
        "lab",
        "plan",
        "show",
        "delay-sweep",
        "--json",
    ])));
    assert_eq!(show["cells"].as_array().unwrap().len(), 9);
    assert_eq!(show["transfers"], 9 * 3 * 25);
    assert!(show["seconds"].as_u64().unwrap() > 600);
    let human = success(&mut dir.altway(["lab", "plan", "show", "--shard", "2/3"]));
    assert!(
        human.contains("3 cells × 3 arms (null arm included) × 5 pairs = 45 transfers"),
        "{human}"
    );
    assert!(human.contains("shard 2/3: 1 cell, 15 transfers"), "{human}");
    // By the number that samples.csv, `--traced` and the folders of traces have.
    assert!(human.contains("     1  delay 50ms\n"), "{human}");
}

#[test]
fn an_adaptive_plan_is_shared_by_maps_and_says_what_it_takes_at_least_and_at_most() {
    let dir = Dir::new();
    let show = ["lab", "plan", "show", "bandwidth-map-whole", "--shard"];
    let part = success(dir.altway(show).arg("10/10"));
    assert!(
        part.contains("shard 10/10: 36 cells, 648 transfers"),
        "{part}"
    );
    assert!(part.contains("162 transfers in about"), "{part}");
    assert!(part.contains(" at least, 648 in about"), "{part}");
    for verb in [&["run"][..], &["plan", "show"]] {
        let shard = ["bandwidth-map-whole", "--shard", "11/11"];
        let none = refusal(dir.altway(["lab"]).args(verb).args(shard));
        assert!(
            none.contains("shard 11/11 of the plan has nothing to measure"),
            "{none}"
        );
    }
}

#[test]
fn a_plan_that_ships_is_printed_to_begin_ones_own_with() {
    let dir = Dir::new();
    let text = success(&mut dir.altway(["lab", "plan", "print", "page"]));
    dir.file(
        "own.toml",
        text.replace("name = \"page\"", "name = \"own\""),
    );
    assert!(success(&mut dir.altway(["lab", "plan", "show", "own.toml"])).starts_with("own: "));
}

#[test]
fn what_does_not_go_together_is_refused_with_its_own_hint() {
    let dir = Dir::new();
    dir.file(
        "p.toml",
        "include = \"mixed\"\nname = \"p\"\nclient = \"curl\"",
    );
    let said = refusal(&mut dir.altway(["lab", "run", "p.toml"]));
    assert!(
        said.contains("the client `curl` can't do the scenario `mixed`"),
        "{said}"
    );
    assert!(said.contains("hint: it does `download`"), "{said}");
    let said = refusal(&mut dir.altway(["lab", "watch"]));
    assert!(said.contains("there is no run in runs"), "{said}");
}

/// A plan of one short cell.
fn plan(more: &str) -> String {
    format!("name = \"t\"\nrate = \"20mbit\"\ndelay = \"5ms\"\npairs = 1\nnull_arm = false\n{more}")
}

/// Rows of the newest run, by column.
fn rows(dir: &Dir) -> Vec<Vec<String>> {
    let runs = fs::read_dir(dir.path().join("runs")).unwrap();
    let newest: PathBuf = runs.map(|run| run.unwrap().path()).max().unwrap();
    let text = fs::read_to_string(newest.join("samples.csv")).unwrap();
    let split = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().map(split).collect()
}

fn column(rows: &[Vec<String>], name: &str) -> usize {
    rows[0].iter().position(|column| column == name).unwrap()
}

#[test]
fn each_scenario_gives_a_row_a_request() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    let scenarios = [
        (
            "scenario = \"page\"\n[page]\nhtml = \"2KB\"\nobjects = \"5 x 3KB\"",
            6,
        ),
        (
            "scenario = \"mixed\"\nsize = \"200KB\"\n[mixed]\ncount = 3",
            4,
        ),
        ("scenario = \"repeat\"\nsize = \"3KB\"", 3),
        ("size = \"3KB\"\nconnection = \"warm\"", 2),
    ];
    for (scenario, requests) in scenarios {
        dir.file("t.toml", plan(scenario));
        success(&mut dir.altway(["lab", "run", "t.toml"]));
        let rows = rows(&dir);
        let (of, valid) = (column(&rows, "requests"), column(&rows, "valid"));
        let of_valid: Vec<_> = rows[1..]
            .iter()
            .filter(|row| row[valid] == "true")
            .collect();
        assert_eq!(of_valid.len(), 2 * requests, "{scenario}: {rows:?}");
        assert!(
            of_valid.iter().all(|row| row[of] == requests.to_string()),
            "{rows:?}"
        );
    }
}

#[test]
fn shards_are_merged_into_the_whole_run_and_what_is_missing_is_resumed() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    let two = plan("size = \"30KB\"").replace("\"5ms\"", "[\"0ms\", \"5ms\"]");
    dir.file("t.toml", two);
    success(&mut dir.altway(["lab", "run", "t.toml", "--shard", "1/2", "--runs", "parts"]));
    let part = fs::read_dir(dir.path().join("parts"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    success(&mut dir.altway(["lab", "merge", part.to_str().unwrap()]));
    let status = |dir: &Dir| {
        json(&success(
            &mut dir.altway(["lab", "watch", "--once", "--json"]),
        ))
    };
    assert_eq!(
        (&status(&dir)["done"], &status(&dir)["left"]),
        (&2.into(), &2.into())
    );
    let merged = fs::read_dir(dir.path().join("runs"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let watch = dir.altway(["lab", "watch", "--once"]).output().unwrap();
    let said = String::from_utf8(watch.stderr).unwrap();
    assert!(
        said.contains("it is not being measured now: `altway lab resume runs/"),
        "{said}"
    );
    success(&mut dir.altway(["lab", "resume", merged.to_str().unwrap()]));
    assert_eq!(
        (&status(&dir)["done"], &status(&dir)["left"]),
        (&4.into(), &0.into())
    );
    let twice = [part.to_str().unwrap(), part.to_str().unwrap()];
    let said = refusal(&mut dir.altway(["lab", "merge", twice[0], twice[1]]));
    assert!(said.contains("both are shard 1/2"), "{said}");
    assert!(success(&mut dir.altway(["lab", "show"])).contains("HTTP/3 against HTTP/2"));
}

#[test]
fn a_plan_says_which_processors_and_which_priority_the_ends_have() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    let more = "size = \"30KB\"\n[processors]\nisolate = true\nserver = \"0\"\nnice = 12";
    dir.file("t.toml", plan(more));
    success(&mut dir.altway(["lab", "run", "t.toml"]));
    let rows = rows(&dir);
    let valid = column(&rows, "valid");
    assert!(rows.iter().any(|row| row[valid] == "true"), "{rows:?}");
    let report = fs::read_to_string(crate::lab::only_run(&dir).join("report.html")).unwrap();
    let told = "each on its own, as far as there are enough, server on 0, nice value 12";
    assert!(report.contains(told), "the report does not say: {told}");
}

#[test]
fn all_topologies_of_a_plan_are_measured_in_one_run() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    dir.file(
        "t.toml",
        plan("size = \"30KB\"\ntopology = [\"direct\", \"router\", \"proxied\", \"egress\", \"egress-packets\"]"),
    );
    success(&mut dir.altway(["lab", "run", "t.toml"]));
    let rows = rows(&dir);
    let (topology, valid) = (column(&rows, "topology"), column(&rows, "valid"));
    for wanted in ["direct", "router", "proxied", "egress", "egress-packets"] {
        let valid = rows
            .iter()
            .filter(|row| row[topology] == wanted && row[valid] == "true");
        assert_eq!(valid.count(), 2, "{wanted}: {rows:?}");
    }
}
