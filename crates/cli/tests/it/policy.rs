//! `altway policy`: what the server chooses by, shown and tried without a server.

use crate::common::{Dir, refusal, success};
use altway_record::{CSV_HEADER, Protocol, csv_rows};
use altway_select::{Congestion, Exchange, Surface};
use std::path::Path;

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
    let gain = |congestion: &str| {
        let arguments = ["policy", "show", "--json", "--loss=2%", congestion];
        let json: serde_json::Value =
            serde_json::from_str(&success(&mut dir.altway(arguments))).unwrap();
        let mut cells = json["cells"].as_array().unwrap().iter();
        let cell = cells.find(|cell| cell["rate_bps"] == 50_000_000 && cell["delay_ms"] == 10.0);
        cell.unwrap()["gain_percent"].as_f64().unwrap()
    };
    assert!(gain("--congestion=cubic") > 3.0);
    assert!(
        gain("--congestion=bbr,cubic") < -30.0,
        "TCP has the better one"
    );
}

#[test]
fn what_has_no_surface_cannot_be_shown() {
    let dir = Dir::new();
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
        let terms = truth.terms(class, rate, rtt, loss, [Congestion::LossBased; 2]);
        let times = truth.times(&terms, &Exchange::object(sample.size_bytes as f64, true));
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

/// What the runs below leave open: they have no pages, no open connections and no fast links.
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
    let said = refusal(&mut dir.altway(["policy", "fit", ".", "-o", "x.toml"]));
    assert!(said.contains("is not a run folder"), "{said}");
}
