//! `altway policy`: what the server chooses by, shown and tried without a server.

use crate::common::{Dir, refusal, success};

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
