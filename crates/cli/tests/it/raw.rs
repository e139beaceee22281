//! `altway raw`: a server and clients of the binary, over loopback.

use crate::common::{Dir, refusal, success, text};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// A running `altway raw serve` on a free port of the loopback; ended with this value.
struct Serving {
    child: Child,
    port: String,
    authority: String,
}

impl Serving {
    fn start(dir: &Dir) -> Self {
        let mut serve = dir.altway(["raw", "serve", "--bind", "127.0.0.1", "-p", "0", "--json"]);
        let log = File::create(dir.path().join("log")).unwrap();
        let mut child = serve.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let listening: serde_json::Value = serde_json::from_str(&line).unwrap();
        let address = listening["address"].as_str().unwrap();
        let authority = dir.path().join("data/altway/certs/ca.pem");
        Self {
            child,
            port: address.rsplit(':').next().unwrap().into(),
            authority: authority.to_str().unwrap().into(),
        }
    }

    fn address(&self) -> String {
        format!("localhost:{}", self.port)
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
fn quic_is_measured_in_either_version() {
    let dir = Dir::new();
    let serving = Serving::start(&dir);
    for version in ["1", "2"] {
        let mut send = dir.altway(["raw", "send", "--size", "1MB", "--verify", "--over", "quic"]);
        send.args(["--quic-version", version, "--ca", &serving.authority]);
        let said = success(send.arg(serving.address()));
        assert!(said.contains("quic"), "{version}: {said}");
    }
}

#[test]
fn all_transports_are_measured_and_both_ends_are_told_of() {
    let dir = Dir::new();
    let serving = Serving::start(&dir);
    let mut send = dir.altway(["raw", "send", "--size", "1MB", "--verify", "--json", "--ca"]);
    let printed = success(send.args([&serving.authority, &serving.address()]));
    let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let runs = json["runs"].as_array().unwrap();
    let overs: Vec<_> = runs
        .iter()
        .map(|run| run["over"].as_str().unwrap())
        .collect();
    assert_eq!(overs, ["tcp", "tls", "quic"]);
    for run in runs {
        assert_eq!(run["down_bytes"], 1_000_000);
        assert_eq!(run["server"]["sent_bytes"], 1_000_000);
        assert_eq!(run["client"]["received_bytes"], 1_000_000);
    }
    assert!(json["failures"].as_array().unwrap().is_empty());
}

#[test]
fn a_person_gets_a_table() {
    let dir = Dir::new();
    let serving = Serving::start(&dir);
    let mut send = dir.altway([
        "raw",
        "send",
        "-n",
        "3",
        "--request-size",
        "10B",
        "--insecure",
    ]);
    let table = success(send.args(["--size", "10KB", &serving.address()]));
    assert!(
        table.starts_with("3 times a request of 10B and a response of 10KB"),
        "{table}"
    );
    for over in ["tcp", "tls", "quic"] {
        let lines = table
            .lines()
            .filter(|line| line.trim_start().starts_with(over));
        assert_eq!(lines.count(), 2, "{table}");
    }
    assert!(
        table.lines().all(|line| line.chars().count() <= 110),
        "{table}"
    );
}

#[test]
fn transports_that_fail_leave_the_others_their_figures() {
    let dir = Dir::new();
    let serving = Serving::start(&dir);
    // The authority is not among the system's.
    let mut send = dir.altway(["raw", "send", "--size", "1KB", &serving.address()]);
    let output = send.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let (table, said) = (text(&output.stdout), text(&output.stderr));
    assert!(table.contains("\n tcp "), "{table}");
    assert!(said.contains("tls failed: cannot connect to"), "{said}");
    assert!(said.contains("quic failed: cannot connect to"), "{said}");
    assert!(
        said.contains("hint: name the authority with --ca"),
        "{said}"
    );
}

#[test]
fn nobody_there_and_somebody_else_there_are_told_apart() {
    let dir = Dir::new();
    let said = refusal(&mut dir.altway(["raw", "send", "127.0.0.1:1", "--insecure"]));
    assert!(
        said.contains("cannot connect to 127.0.0.1:1 over quic"),
        "{said}"
    );
    assert!(
        said.contains("hint: start `altway raw serve` there"),
        "{said}"
    );
    dir.file("site/index.html", "hello");
    let web = crate::common::Serving::start(&dir, &["--h2c"]);
    let address = format!("127.0.0.1:{}", web.port);
    let said = refusal(&mut dir.altway(["raw", "send", "--over", "tcp", &address]));
    assert!(
        said.contains("is no `altway raw serve` (over tcp)"),
        "{said}"
    );
    assert!(
        said.contains("hint: start `altway raw serve` there"),
        "{said}"
    );
}

#[test]
fn a_server_that_is_killed_in_the_middle_is_one_sentence_and_a_hint() {
    let dir = Dir::new();
    for over in ["tcp", "tls", "quic"] {
        let killed_after = |millis| {
            let mut serving = Serving::start(&dir);
            let mut send = dir.altway(["raw", "send", "--size", "1000GB", "--timeout", "4s"]);
            send.args(["--insecure", "--over", over, &serving.address()]);
            let send = send.stdout(Stdio::piped()).stderr(Stdio::piped());
            let sending = send.spawn().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(millis));
            serving.kill();
            let output = sending.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{output:?}");
            text(&output.stderr)
        };
        // On a busy machine it takes longer to come to the middle.
        let mut all = [500, 2_000, 8_000].into_iter().map(killed_after);
        let said = all.find(|said| said.contains(" bytes"));
        let said = said.expect("it was in the middle within 8 s");
        assert_eq!(said.matches("error: ").count(), 1, "{said}");
        assert!(said.contains(&format!(" over {over} ")), "{said}");
        assert!(said.contains("of 1000000000000 bytes"), "{said}");
        assert!(
            said.contains("hint: see whether `altway raw serve` still runs"),
            "{said}"
        );
    }
}

#[test]
fn a_server_ends_with_the_first_signal() {
    use rustix::process::{Pid, Signal, kill_process};
    let dir = Dir::new();
    let mut serving = Serving::start(&dir);
    kill_process(Pid::from_child(&serving.child), Signal::INT).unwrap();
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
}

#[test]
fn wrong_words_are_refused_with_the_right_ones() {
    let dir = Dir::new();
    for (arguments, reason) in [
        (["--direction", "sideways"], "expected up, down or both"),
        (["--size", "12"], "expected one of the units"),
        (["--mtu", "900"], "1200..=65527"),
        (["--over", "sctp"], "possible values: tcp, tls, quic, all"),
    ] {
        let mut send = dir.altway(["raw", "send", "localhost:1"]);
        let said = refusal(send.args(arguments));
        assert!(said.contains(reason), "{said}");
    }
    let taken = Serving::start(&dir);
    let mut second = dir.altway(["raw", "serve", "--bind", "127.0.0.1", "-p"]);
    let said = refusal(second.arg(&taken.port));
    assert!(said.contains("is in use by another program"), "{said}");
    assert!(
        said.contains("hint: choose another port with `--port`"),
        "{said}"
    );
}

#[test]
fn shares_tell_where_the_time_goes() {
    let dir = Dir::new();
    let printed = success(&mut dir.altway(["raw", "shares", "--size", "1MB", "-r", "1", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let variants = json["variants"].as_array().unwrap();
    let names: Vec<_> = variants
        .iter()
        .map(|one| one["variant"].as_str().unwrap())
        .collect();
    for name in [
        "tcp",
        "tls",
        "quic",
        "quic-no-gso",
        "quic-one-packet",
        "quic-mtu-1200",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert_eq!(json["shares"].as_array().unwrap().len(), 12);
    let table = success(&mut dir.altway(["raw", "shares", "--size", "1MB", "-r", "1"]));
    assert!(table.contains("\nquic, one packet a call"), "{table}");
    assert!(table.contains("QUIC carries "), "{table}");
    // One round tells nothing of what is chance.
    assert!(
        json["shares"][1]["percent"].is_null(),
        "{}",
        json["shares"][1]
    );
    let why = "not separable here: copies of quic (fewer than 6 rounds give no interval)";
    assert!(table.contains(why), "{table}");
}
