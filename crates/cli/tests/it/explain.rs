//! `altway explain` and `altway paths`: what a server has kept of its clients.

use crate::common::{Dir, Serving, eventually, refusal, success};
use serde_json::Value;

/// Bytes of a download that shows the rate of any path to loopback.
const BULK: usize = 64 << 20;

/// A folder that a server has left, after altway's own client has downloaded something from it.
fn kept() -> Dir {
    let dir = Dir::new();
    std::fs::create_dir_all(dir.path().join("site")).unwrap();
    dir.file("site/bulk", vec![0; BULK]);
    let serving = Serving::start(&dir, &["--state-dir", "state"]);
    let url = serving.url("/bulk");
    success(&mut dir.altway(["load", &url, "--protocol", "h2", "--insecure", "-n", "2"]));
    assert_eq!(serving.terminate(), Some(0));
    dir
}

fn json(dir: &Dir, arguments: &[&str]) -> Value {
    let text = success(dir.altway([]).args(arguments));
    serde_json::from_str(&text).unwrap()
}

fn log(dir: &Dir) -> String {
    std::fs::read_to_string(dir.path().join("log")).unwrap()
}

const IN_USE: &str = "is in use by another process: what is learnt of clients here is not kept";

#[test]
fn a_state_folder_is_neither_reset_nor_kept_by_another_server_while_one_runs_with_it() {
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    let first = Serving::start(&dir, &["--state-dir", "state"]);
    let reset = ["paths", "reset", "state"];
    let said = refusal(&mut dir.altway(reset));
    let expected = "error: a server runs with `state`, and would write what it knows again: nothing was forgotten\n\n\
                    hint: stop the server first\n";
    assert_eq!(said, expected);
    assert!(!log(&dir).contains(IN_USE), "{}", log(&dir));
    let second = Serving::start(&dir, &["--state-dir", "state"]);
    eventually("a warning", || log(&dir).contains(IN_USE));
    assert_eq!(first.terminate(), Some(0));
    assert_eq!(second.terminate(), Some(0));
    success(&mut dir.altway(reset));
}

#[test]
fn a_process_that_takes_over_has_the_state_folder_as_well() {
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    let options = ["--state-dir", "state", "--takeover", "meeting"];
    let first = Serving::start(&dir, &options);
    let second = Serving::start_on(&dir, first.port, &options);
    assert_eq!(second.predecessor, Some(first.process()));
    assert_eq!(first.wait(), Some(0));
    let reset = ["paths", "reset", "state"];
    refusal(&mut dir.altway(reset));
    assert!(!log(&dir).contains(IN_USE), "{}", log(&dir));
    assert_eq!(second.terminate(), Some(0));
    success(&mut dir.altway(reset));
}

#[test]
fn what_a_server_has_learnt_is_shown_explained_supposed_and_forgotten() {
    let dir = kept();
    let shown = json(&dir, &["paths", "show", "state", "--json"]);
    assert_eq!(shown["clients"], 1, "{shown}");
    assert_eq!(shown["classes"][0]["rated_tcp"], 1, "{shown}");

    let explain = ["explain", "127.0.0.1", "--state-dir", "state"];
    let explained = json(&dir, &[&explain[..], &["--json"]].concat());
    assert_eq!(explained[0]["offer"], "h2", "{explained}");
    assert!(
        explained[0]["tcp_bps"].as_f64().unwrap() > 1e8,
        "{explained}"
    );
    let text = success(&mut dir.altway(explain));
    assert!(text.contains("HTTP/3 predicted"), "{text}");

    let what_if = ["--json", "--what-if", "rate=20mbit,rtt=60ms"];
    let supposed = json(&dir, &[&explain[..], &what_if].concat());
    assert_eq!(supposed[0]["offer"], "h3", "{supposed}");
    let again = json(&dir, &[&explain[..], &["--json"]].concat());
    assert_eq!(
        again[0]["tcp_bps"], explained[0]["tcp_bps"],
        "nothing is changed"
    );

    let csv = success(&mut dir.altway(["paths", "export", "state"]));
    let rows: Vec<&str> = csv.lines().collect();
    assert!(rows[0].starts_with("key,class,tcp_rate_bps,"), "{csv}");
    assert!(
        rows[1].contains(",altway-other,") && rows.len() == 2,
        "{csv}"
    );
    assert!(!csv.contains("127.0.0.1"), "{csv}");
    let exported = json(&dir, &["paths", "export", "state", "--format", "json"]);
    let rate = exported["tcp_rate_bps"].as_f64().unwrap();
    assert!((rate / explained[0]["tcp_bps"].as_f64().unwrap() - 1.0).abs() < 1e-3);

    success(&mut dir.altway(["paths", "reset", "state"]));
    success(&mut dir.altway(["paths", "reset", "state"]));
    let error = refusal(&mut dir.altway(explain));
    assert!(
        error.contains("no server has kept anything in it"),
        "{error}"
    );
}

#[test]
fn an_assumed_path_is_explained_without_a_server() {
    let dir = Dir::new();
    let offer = |path: &str| {
        let arguments = ["explain", "192.0.2.7", "--json", "--what-if", path];
        json(&dir, &arguments)[0]["offer"].clone()
    };
    assert_eq!(offer("rate=1gbit,rtt=1ms"), "h2");
    assert_eq!(offer("rate=20mbit,rtt=60ms"), "h3");
    let policy = ["explain", "192.0.2.7", "--json", "--policy", "h2"];
    assert_eq!(json(&dir, &policy)[0]["offer"], "h2");
}

#[test]
fn a_server_that_is_not_there_is_named_with_what_to_do() {
    let dir = Dir::new();
    let error = refusal(
        dir.altway(["explain", "192.0.2.7"])
            .env("ALTWAY_ADMIN", "gone.sock"),
    );
    assert!(
        error.contains("gone.sock") && error.contains("--admin ADDRESS"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_explained_is_refused_with_a_hint() {
    let dir = Dir::new();
    for (arguments, error) in [
        (
            vec!["explain", "192.0.2.7", "--state-dir", "gone"],
            "cannot read the state folder `gone`",
        ),
        (
            vec!["explain", "nobody", "--state-dir", "gone"],
            "invalid value 'nobody'",
        ),
        (
            vec![
                "explain",
                "192.0.2.7",
                "--state-dir",
                "gone",
                "--policy",
                "surface:x",
            ],
            "cannot read the surface x: ",
        ),
        (
            vec!["explain", "192.0.2.7", "--what-if", "loss=41%"],
            "loss: times are predicted up to 40%",
        ),
        (
            vec!["paths", "reset", "gone"],
            "there is no folder `gone`: nothing was forgotten",
        ),
        (
            vec!["paths", "show", "gone"],
            "cannot read the state folder `gone`",
        ),
    ] {
        let text = refusal(dir.altway([]).args(arguments));
        assert!(text.contains(error), "{text}");
    }
    for address in [
        "192.0.2.0/24",
        "192.0.2.7:443",
        "[::1]",
        "fe80::1%eth0",
        "example.org",
        "",
    ] {
        let text = refusal(&mut dir.altway(["explain", address, "--policy=learned"]));
        assert!(
            text.contains("expected one address, like 192.0.2.7"),
            "{text}"
        );
    }
}

#[test]
fn a_large_loss_is_explained_as_it_is() {
    let dir = Dir::new();
    let assumed = ["explain", "::ffff:192.0.2.7", "--what-if=loss=20%,rtt=40ms"];
    let said = success(&mut dir.altway(assumed));
    assert!(said.contains("loss 19.96 %"), "{said}");
    assert!(said.contains("4000.0 of 20000 packets lost"), "{said}");
}
