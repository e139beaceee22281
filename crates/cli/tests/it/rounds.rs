//! `altway load` over several protocols: they take turns, and what comes of it is compared.

use crate::common::{Dir, Serving, success, text};

fn load(more: &[&str]) -> std::process::Output {
    let dir = Dir::new();
    dir.file("site/page", "hello");
    let server = Serving::start(&dir, &[]);
    let mut command = dir.altway(["load", &server.url("/page"), "--insecure"]);
    command.args(more).output().unwrap()
}

#[test]
fn each_protocol_is_first_in_turn_and_connections_are_numbered_throughout() {
    let output = load(&["-p", "h2,h3", "--rounds", "2", "-n", "2", "--csv"]);
    let rows = text(&output.stdout);
    let begun: Vec<_> = rows
        .lines()
        .skip(1)
        .map(|row| row.split(',').take(4).collect::<Vec<_>>().join(" "))
        .collect();
    let expected = [
        "0 0 0 h2", "0 1 0 h2", "1 0 0 h3", "1 1 0 h3", "2 0 0 h3", "2 1 0 h3", "3 0 0 h2",
        "3 1 0 h2",
    ];
    assert_eq!(begun, expected, "{rows}");
    let told = text(&output.stderr);
    assert!(
        told.contains("2 rounds, each over new connections"),
        "{told}"
    );
    assert!(told.contains("HTTP/3 beside HTTP/2: "), "{told}");
}

#[test]
fn the_others_are_compared_with_the_first() {
    let output = load(&["-p", "h2,h1,h3", "--rounds", "3", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["requests"].as_array().unwrap().len(), 9);
    assert_eq!(told["turns"].as_array().unwrap().len(), 9);
    for (comparison, second) in [(0, "h1"), (1, "h3")] {
        let compared = &told["comparisons"][comparison];
        assert_eq!(
            (&compared["first"], &compared["second"]),
            (&"h2".into(), &second.into())
        );
        assert_eq!(compared["rounds"], 3);
        assert!(compared["difference_percent"].is_f64(), "{compared}");
    }
}

#[test]
fn a_failed_request_is_counted_and_its_round_compared_with_none() {
    let dir = Dir::new();
    dir.file("site/page", "hello");
    let server = Serving::start(&dir, &["--h2c"]);
    let url = format!("http://127.0.0.1:{}/page", server.port);
    // Nothing is answered within no time.
    let mut command = dir.altway(["load", &url, "-p", "h1,h2", "--rounds", "2"]);
    assert!(success(&mut command).contains("HTTP/2 beside HTTP/1.1"));
    let output = command.args(["--timeout", "1us"]).output().unwrap();
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("HTTP/2           2         –"), "{told}");
    assert!(!told.contains("beside"), "{told}");
}
