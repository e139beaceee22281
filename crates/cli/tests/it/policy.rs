//! `altway policy`: what the server chooses by, shown and tried without a server.

use crate::common::{Dir, Serving, refusal, success, text};
use altway_record::{CSV_HEADER, Protocol, csv_rows};
use altway_select::{Congestion, Exchange, Surface};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

#[test]
fn a_surface_is_drawn_in_the_terminal_and_as_svg() {
    let dir = Dir::new();
    let text = success(&mut dir.altway([
        "policy",
        "show",
        "--size=10MB",
        "--class=firefox-windows",
        "--svg=map.svg",
    ]));
    assert!(
        text.starts_with("surface: 10MB on a new connection, 0% loss, firefox-windows"),
        "{text}"
    );
    let near = text.lines().find(|line| line.contains("0.5 ms")).unwrap();
    assert!(near.ends_with(" 2"), "1 Gbit/s near by is HTTP/2's: {near}");
    let svg = std::fs::read_to_string(dir.path().join("map.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("one-way delay (ms)"));
}

#[test]
fn what_congestion_control_changes_is_in_the_json() {
    let dir = Dir::new();
    let difference = |congestion: &str| {
        let arguments = ["policy", "show", "--json", "--loss=2%", congestion];
        let json: serde_json::Value =
            serde_json::from_str(&success(&mut dir.altway(arguments))).unwrap();
        let mut cells = json["cells"].as_array().unwrap().iter();
        let cell = cells.find(|cell| cell["rate_bps"] == 50_000_000 && cell["delay_ms"] == 10.0);
        cell.unwrap()["difference_percent"].as_f64().unwrap()
    };
    assert!(difference("--congestion=cubic") < -2.5);
    assert!(
        difference("--congestion=bbr,cubic") > 40.0,
        "TCP has the better one"
    );
}

#[test]
fn what_has_no_surface_cannot_be_shown() {
    let dir = Dir::new();
    let said = refusal(&mut dir.altway(["policy", "show", "--loss=41%"]));
    assert!(said.contains("times are predicted up to 40%"), "{said}");
    dir.file("bad.toml", "version = 1\nwater = 3\n");
    for (model, error, hint) in [
        ("h3", "`h3` predicts no times", "name `surface`"),
        (
            "gone.toml",
            "cannot read the surface gone.toml",
            "name `surface`",
        ),
        ("bad.toml", "bad.toml is no surface", "`altway policy fit"),
        (
            "surface:bad.toml",
            "unknown field `water`",
            "`altway policy fit",
        ),
    ] {
        let said = refusal(&mut dir.altway(["policy", "show", model]));
        assert!(
            said.contains(error) && said.contains(&format!("hint: {hint}")),
            "{said}"
        );
    }
    let said = refusal(&mut dir.altway(["policy", "show", "--class=netscape"]));
    assert!(said.contains("netscape"), "{said}");
}

#[test]
fn simulated_policies_meet_the_same_clients() {
    let dir = Dir::new();
    let small = [
        "--clients=300",
        "--days=7",
        "--seed=1",
        "--population=metro-bulk",
    ];
    let [clients, days, seed, population] = small;
    let arguments = [
        "policy", "simulate", "--json", clients, days, seed, population,
    ];
    let json: serde_json::Value =
        serde_json::from_str(&success(&mut dir.altway(arguments))).unwrap();
    let rows = json.as_array().unwrap();
    let policies: Vec<_> = rows
        .iter()
        .map(|row| row["policy"].as_str().unwrap())
        .collect();
    assert_eq!(policies, ["h2", "h3", "learned", "clairvoyant"]);
    assert!(rows.iter().all(|row| row["pages"] == rows[0]["pages"]));
    let regret = |row: usize| rows[row]["mean_regret"].as_f64().unwrap();
    assert!(regret(3) < regret(0) && regret(3) < regret(1), "{json}");
    let arguments = ["policy", "simulate", clients, days, seed, population];
    let text = success(
        dir.altway(arguments)
            .args(["--policy", "threshold:rtt=20ms,loss=1%"]),
    );
    assert!(text.contains("\nthreshold:rtt=20ms,loss=1%"), "{text}");
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let dir = Dir::new();
    for (argument, reason) in [
        ("--population=suburbs", "suburbs"),
        ("--clients=10", "200..=10000000"),
        ("--visits=0", "expected a number from 0.001 to 100"),
        ("--policy=best", "`best` is not a policy"),
        ("--policy=best", "or `clairvoyant`"),
        (
            "--policy=surface:gone.toml",
            "cannot read the surface gone.toml",
        ),
    ] {
        let said = refusal(&mut dir.altway(["policy", "simulate", argument]));
        assert!(said.contains(reason), "{said}");
    }
}

/// A published run whose times are those that `truth` predicts, off by up to 1 %.
fn run_as_predicted(dir: &Dir, name: &str, truth: &Surface) {
    let published = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../results")
        .join(name);
    let manifest = std::fs::read_to_string(published.join("manifest.json")).unwrap();
    let samples = std::fs::read_to_string(published.join("samples.csv")).unwrap();
    let mut samples = altway_record::read_samples(&samples).unwrap();
    let class = "altway-linux".parse().unwrap();
    for sample in &mut samples {
        let cell = sample.condition();
        let (rate, rtt) = (
            sample.rate_bps.unwrap() as f64,
            2.0 * cell.delay.as_secs_f64(),
        );
        let loss = cell.loss.as_f64();
        let path_properties =
            truth.path_properties(class, rate, rtt, loss, [Congestion::LossBased; 2]);
        let times = truth.times(
            &path_properties,
            &Exchange::object(sample.size_bytes as f64, true),
        );
        let time = if sample.protocol == Protocol::H3 {
            times.h3
        } else {
            times.h2
        };
        let off = 1.0 + 0.01 * (sample.ordinal as f64 * 2.4).sin();
        sample.compared_us = Some((time * off * 1e6) as u64);
    }
    dir.file(&format!("{name}/manifest.json"), manifest);
    dir.file(
        &format!("{name}/samples.csv"),
        CSV_HEADER.to_owned() + &csv_rows(&samples),
    );
}

/// Coefficients that the runs below leave open: they have no pages, no open connections and no fast
/// links.
const OPEN: &str = "lead.objects,quic.request-seconds,limits.altway-linux";

#[test]
fn a_surface_is_fitted_to_runs_and_shown() {
    let dir = Dir::new();
    let text = Surface::embedded().to_toml();
    let text = text.replace("numerator = 4.926", "numerator = 3.2");
    let truth = Surface::parse(&text.replace("growth = 15.7", "growth = 8.0")).unwrap();
    let (map, sweep) = (
        "2026-11-22-2core-vm-bandwidth-map",
        "2026-11-22-2core-vm-delay-sweep",
    );
    run_as_predicted(&dir, map, &truth);
    run_as_predicted(&dir, sweep, &truth);
    let said = refusal(&mut dir.altway(["policy", "fit", map, sweep, "-o", "mine.toml"]));
    for name in OPEN.split(',') {
        assert!(said.contains(name), "{said}");
    }
    assert!(said.contains("hint: measure what tells them"), "{said}");
    assert!(!dir.path().join("mine.toml").exists(), "nothing is written");

    let mut fit = dir.altway([
        "policy",
        "fit",
        map,
        sweep,
        "-o",
        "mine.toml",
        "--svg=residuals.svg",
    ]);
    let table = success(fit.args([
        "--keep",
        "lead.base,lead.pace,quic.handshake-bytes,quic.handshake-seconds",
        "--keep",
        OPEN,
    ]));
    assert!(table.starts_with("57 cells\n"), "{table}");
    let fitted = std::fs::read_to_string(dir.path().join("mine.toml")).unwrap();
    let fitted = Surface::parse(&fitted).unwrap();
    for (name, known, error) in [("loss.numerator", 3.2, 0.1), ("lead.growth", 8.0, 0.5)] {
        let found = fitted.coefficient(name).unwrap();
        assert!((found - known).abs() < error, "{name}: {found} for {known}");
    }
    let sources = fitted.sources();
    assert_eq!((sources.cells, sources.runs.len()), (57, 2));
    assert!(sources.median_error < 0.01 && sources.held_out_error.unwrap() < 0.01);
    let svg = std::fs::read_to_string(dir.path().join("residuals.svg")).unwrap();
    assert!(svg.starts_with("<svg"));
    let shown = success(&mut dir.altway(["policy", "show", "mine.toml"]));
    assert!(shown.starts_with("mine.toml: 1MB"), "{shown}");
}

#[test]
fn the_surface_that_ships_holds_under_bbr_at_both_ends() {
    let dir = Dir::new();
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results");
    let runs = ["congestion", "lossy-paths"]
        .map(|plan| results.join("2026-11-25-2core-vm-".to_owned() + plan));
    let all = "loss.numerator,loss.softness,lead.base,lead.growth,lead.pace,quic.handshake-bytes,quic.handshake-seconds";
    let mut fit = dir.altway([
        "policy",
        "fit",
        "-o",
        "same.toml",
        "--json",
        "--keep",
        all,
        "--keep",
        OPEN,
    ]);
    let output = fit.args(runs).output().unwrap();
    let fit: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells = fit["cells"].as_array().unwrap().iter();
    let cells = cells.filter(|cell| {
        cell["cell"]
            .as_str()
            .unwrap()
            .ends_with(", altway-linux, bbr")
    });
    let number = |cell: &serde_json::Value, key: &str| cell[key].as_f64().unwrap();
    let cells: Vec<_> = cells
        .map(|cell| {
            (
                number(cell, "measured_difference"),
                number(cell, "residual"),
            )
        })
        .collect();
    assert_eq!(cells.len(), 60);
    // A difference that matters.
    let decided = cells.iter().filter(|(measured, _)| measured.abs() > 0.03);
    let right = decided
        .clone()
        .filter(|(measured, residual)| measured * (measured + residual) > 0.0);
    assert_eq!((decided.count(), right.count()), (46, 46));
    let mut errors: Vec<f64> = cells.iter().map(|(_, residual)| residual.abs()).collect();
    errors.sort_by(f64::total_cmp);
    assert!(errors[30] < 0.06, "{errors:?}");
}

#[test]
fn a_fit_that_cannot_be_made_is_refused() {
    let dir = Dir::new();
    let run = "2026-11-22-2core-vm-delay-sweep";
    run_as_predicted(&dir, run, Surface::embedded());
    for (more, error) in [
        (
            "--keep=lead.weight",
            "there is no coefficient `lead.weight`",
        ),
        (
            "--keep=lead.objects",
            "9 cells are too few for 9 coefficients",
        ),
        ("--from=gone.toml", "cannot read the surface gone.toml"),
        ("--folds=1", "1 is not in 2..=100"),
    ] {
        let said = refusal(&mut dir.altway(["policy", "fit", run, "-o", "x.toml", more]));
        assert!(said.contains(error), "{said}");
    }
    let samples = dir.path().join(run).join("samples.csv");
    let text = std::fs::read_to_string(samples).unwrap();
    let alone: String = text
        .split_inclusive('\n')
        .filter(|it| !it.contains(",h3,"))
        .collect();
    let manifest = std::fs::read_to_string(dir.path().join(run).join("manifest.json")).unwrap();
    dir.file("alone/manifest.json", &manifest);
    dir.file("alone/samples.csv", alone);
    dir.file("none/manifest.json", manifest);
    let whole = format!("./{run}");
    for (runs, error) in [
        (&["."][..], ". is not a run folder"),
        (
            &["alone/samples.csv"],
            "alone/samples.csv is not a run folder",
        ),
        (
            &["alone"],
            "all cells of the runs were left out: 9 with fewer than three pairs",
        ),
        (&["none"], "the runs have no transfers"),
        (&[run, &whole], "is named twice"),
    ] {
        let said = refusal(dir.altway(["policy", "fit", "-o", "x.toml"]).args(runs));
        assert!(said.contains(error) && said.contains("hint: "), "{said}");
    }
    assert!(!dir.path().join("x.toml").exists());
}

#[test]
fn a_log_of_a_server_is_evaluated_and_damaged_lines_are_named() {
    let dir = Dir::new();
    let simulate = [
        "policy",
        "simulate",
        "--population",
        "metro-web",
        "--policy",
        "learned",
    ];
    let one = [
        "--seed",
        "3",
        "--clients",
        "2000",
        "--days",
        "21",
        "--selection-log",
        "log",
    ];
    success(dir.altway([]).args(simulate).args(one));
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    dir.file("log", format!("nonsense\n{log}{{\"v\":1"));
    let evaluate = ["policy", "evaluate", "log", "--policy", "surface", "--json"];
    let output = dir.altway(evaluate).output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["damaged_lines"], 2);
    let named = text(&output.stderr);
    let last = log.lines().count() + 2;
    assert!(
        named.contains("2 lines are damaged and left out:"),
        "{named}"
    );
    assert!(named.contains("log:1: no JSON object"), "{named}");
    assert!(named.contains(&format!("log:{last}: EOF")), "{named}");
    let policies = said["policies"].as_array().unwrap();
    let names: Vec<&str> = policies
        .iter()
        .map(|it| it["policy"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["h2", "h3", "surface"]);
    for it in policies {
        let [low, high] = ["low", "high"].map(|end| it["doubly_robust"][end].as_f64().unwrap());
        assert!(low < high, "{it}");
    }
    // HTTP/3 for all costs more processor time.
    let [h2, h3] = [&policies[0], &policies[1]];
    assert_eq!(
        (&h2["offers_h3"], &h3["offers_h3"]),
        (&0.0.into(), &1.0.into())
    );
    assert!(h2["over_h3"].as_f64().unwrap() < h3["over_h3"].as_f64().unwrap());
    assert!(h2["processor"].as_f64().unwrap() < h3["processor"].as_f64().unwrap());
    assert_eq!(piped(&dir, &["--policy", "surface", "--json"], "log"), said);
    let table = success(&mut dir.altway(["policy", "evaluate", "log"]));
    assert!(
        table.contains("Hold-out: ") && table.contains("To see a difference of 2 %"),
        "{table}"
    );
}

/// Evaluates a log that comes through a pipe, which can be read once.
fn piped(dir: &Dir, more: &[&str], log: &str) -> serde_json::Value {
    let log = std::fs::read(dir.path().join(log)).unwrap();
    let mut evaluate = dir.altway(["policy", "evaluate", "/dev/stdin"]);
    let evaluate = evaluate.args(more).stdin(Stdio::piped());
    let evaluate = evaluate.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut evaluate = evaluate.spawn().unwrap();
    let mut stdin = evaluate.stdin.take().unwrap();
    std::thread::spawn(move || stdin.write_all(&log));
    let output = evaluate.wait_with_output().unwrap();
    let mut said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let named = said["damaged"].to_string().replace("/dev/stdin:", "log:");
    said["damaged"] = serde_json::from_str(&named).unwrap();
    said
}

/// A page of a client that had been told `offer` by chance or not.
fn line(client: u64, time: u64, offer: &str, propensity: f64) -> String {
    format!(
        r#"{{"v":1,"time":{time},"client":"{client:012x}","class":"firefox-linux","protocol":"h2","page":{{"start":"cold","first":20000,"rest":400000,"responses":9,"seconds":0.{client}}},"offer":"{offer}","reason":"predicted","propensity":{propensity},"path":{{"limit_bps":4e8}}}}
"#
    )
}

#[test]
fn a_policy_that_chance_gave_to_fewer_than_ten_clients_is_not_estimated() {
    let dir = Dir::new();
    for turned in [0, 9, 10] {
        let visits = |client: u64| {
            let (offer, propensity) = match client - 10 < turned {
                true => ("h2", 0.025),
                false => ("h3", 0.975),
            };
            [0, 3_600].map(|later| line(client, 1_795_392_000 + later, offer, propensity))
        };
        dir.file("log", (10..90).flat_map(visits).collect::<String>());
        let evaluate = ["policy", "evaluate", "log"];
        let said = success(dir.altway(evaluate).arg("--json"));
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        let [h2, h3] = [0, 1].map(|place| &said["policies"][place]);
        assert_eq!(h2["turned_clients"], turned);
        assert_eq!(h2["doubly_robust"].is_null(), turned < 10, "{h2}");
        assert_eq!(h2["snips"].is_null(), turned < 10, "{h2}");
        // It is the server's own.
        assert!(!h3["doubly_robust"].is_null(), "{h3}");
        let table = success(&mut dir.altway(evaluate));
        let note = format!("h2: chance told {turned} clients what it wants");
        assert_eq!(table.contains(&note), turned < 10, "{table}");
    }
}

#[test]
fn logs_that_would_give_wrong_numbers_are_refused() {
    let dir = Dir::new();
    let good = line(10, 1_795_392_000, "h3", 0.975);
    dir.file("log", &good);
    dir.file("log.gz", b"\x1f\x8b\x08\0\0\0\0\0");
    dir.file("ms", good.replace("1795392000", "1795392000000"));
    dir.file("escape", good.replace("predicted", "\\u001b[31m"));
    for (logs, error, hint) in [
        (
            &["log", "./log"][..],
            "the log ./log is named twice",
            "name each file once",
        ),
        (
            &["log.gz"],
            "the log log.gz is compressed",
            "zcat log.gz | altway",
        ),
        (
            &["log", "/dev/null"],
            "/dev/null is no file",
            "into one pipe",
        ),
        (
            &["ms"],
            "ms:1: 1795392000000 is no time: expected seconds",
            "name a file",
        ),
        (
            &["escape"],
            "escape:1: `\u{fffd}[31m` is no reason",
            "name a file",
        ),
    ] {
        let text = refusal(dir.altway(["policy", "evaluate"]).args(logs));
        assert!(text.contains(error) && text.contains(hint), "{text}");
    }
}

#[test]
fn a_server_writes_a_line_for_each_page_and_no_address() {
    let dir = Dir::new();
    std::fs::create_dir_all(dir.path().join("site")).unwrap();
    dir.file("site/a", "a");
    let state = ["--selection-log", "log", "--state-dir", "state"];
    let load = |serving: &Serving, protocol: &str| {
        let url = serving.url("/a");
        success(&mut dir.altway([
            "load",
            &url,
            "--protocol",
            protocol,
            "--insecure",
            "-n",
            "2",
        ]));
    };
    let serving = Serving::start(&dir, &state);
    load(&serving, "h2");
    assert_eq!(serving.terminate(), Some(0));
    let text = refusal(&mut dir.altway(["policy", "evaluate", "log"]));
    assert!(
        text.contains("none of 1 pages is of a client that had been told anything"),
        "{text}"
    );
    // The key is kept, so that the next server knows the client.
    let serving = Serving::start(&dir, &state);
    load(&serving, "h3");
    assert_eq!(serving.terminate(), Some(0));
    let said = success(&mut dir.altway(["policy", "evaluate", "log", "--json"]));
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["pages"], &said["trials"]),
        (&2.into(), &1.into()),
        "{said}"
    );
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(
        !log.contains("127.0.0.1") && log.contains("\"protocol\":\"h3\""),
        "{log}"
    );
}

#[test]
fn a_log_that_tells_nothing_says_what_to_switch_on() {
    let dir = Dir::new();
    dir.file("empty", "");
    dir.file("access", "2026-11-25T06:27:45.067Z client=127.0.0.1\n");
    for (log, error, hint) in [
        (
            "empty",
            "the log has no page",
            "altway serve --selection-log FILE",
        ),
        (
            "access",
            "none of 1 lines is one of a selection log",
            "an access log is none",
        ),
        (
            "gone",
            "cannot read the log gone",
            "altway serve --selection-log FILE",
        ),
    ] {
        let text = refusal(&mut dir.altway(["policy", "evaluate", log]));
        assert!(text.contains(error) && text.contains(hint), "{text}");
    }
    let two = [
        "policy",
        "simulate",
        "--clients",
        "200",
        "--days",
        "1",
        "--selection-log",
        "x",
    ];
    let text = refusal(&mut dir.altway(two));
    assert!(text.contains("one log can't be that of 32 runs"), "{text}");
}
