//! `altway emulate` while it runs: set, show, reset, what it writes down, and what is refused.

use crate::common::{Dir, eventually, installed, refusal, skipped, success, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// `altway` that looks for links in `DIR/run`, and for none that a test runs behind.
fn altway<const N: usize>(dir: &Dir, arguments: [&str; N]) -> Command {
    let mut command = dir.altway(arguments);
    command.env("XDG_RUNTIME_DIR", dir.path().join("run"));
    command.env_remove("ALTWAY_LINK");
    command
}

/// A folder for sockets, and whether links can be made here.
fn prepare() -> Option<Dir> {
    let dir = Dir::new();
    fs::create_dir(dir.path().join("run")).unwrap();
    let output = altway(&dir, ["emulate", "--server", "sleep 5", "--", "true"])
        .output()
        .unwrap();
    if output.status.success() {
        return Some(dir);
    }
    let reason = String::from_utf8_lossy(&output.stderr).into_owned();
    skipped(&format!("no emulated link can be made here: {reason}"));
    None
}

/// A link that runs until it is dropped.
struct Running {
    child: Child,
}

impl Running {
    /// Starts an emulation with a server that sleeps, and a client that sleeps.
    fn start(dir: &Dir, more: &[&str]) -> Self {
        let before = sockets(dir).len();
        let mut command = altway(dir, ["emulate", "--server", "sleep 60"]);
        command.args(["--server-wait", "0ms"]).args(more);
        let child = command.args(["--", "sleep", "60"]).stderr(Stdio::null());
        let running = Self {
            child: child.spawn().unwrap(),
        };
        eventually("the link's socket", || sockets(dir).len() > before);
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sockets(dir: &Dir) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.path().join("run/altway"))
        .into_iter()
        .flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "sock")
        })
        .collect()
}

fn json(command: &mut Command) -> Value {
    serde_json::from_str(&success(command.arg("--json"))).unwrap()
}

/// Asserts that a command prints one error line, and a hint.
fn assert_refused(command: &mut Command, error: &str, hint: &str) {
    let said = refusal(command);
    assert_eq!(said.matches("error: ").count(), 1, "{said}");
    assert!(said.contains(error), "expected `{error}` in:\n{said}");
    assert!(
        said.contains(&format!("hint: {hint}")),
        "expected the hint `{hint}` in:\n{said}"
    );
}

#[test]
fn a_running_link_is_shown_changed_and_reset_by_one_command_each() {
    let Some(dir) = prepare() else { return };
    let running = Running::start(&dir, &["--rate", "20mbit", "--set", "down loss 1%"]);
    let shown = success(&mut altway(&dir, ["emulate", "show"]));
    let first = format!("link of process {}, running for ", running.child.id());
    assert!(shown.starts_with(&first), "{shown}");
    assert!(
        shown.contains("up:      queue 250KB, rate 20mbit\n"),
        "{shown}"
    );
    assert!(
        shown.contains("down:    loss 1%, queue 250KB, rate 20mbit\n"),
        "{shown}"
    );

    let words = "delay 100ms, udp rate 5mbit";
    let set = ["emulate", "set", "--down", "--rate", "5mbit", words];
    let set = json(&mut altway(&dir, set));
    assert_eq!(
        (&set["up"]["udp"], &set["down"]["udp"]),
        (&"pass".into(), &"rate 5mbit burst 64KiB".into())
    );
    assert_eq!(
        (&set["up"]["rate"], &set["up"]["delay"]),
        (&"20mbit".into(), &"0ms".into())
    );
    assert_eq!(
        (&set["down"]["rate"], &set["down"]["delay"]),
        (&"5mbit".into(), &"100ms".into())
    );
    assert_eq!(set["down"]["loss"], "1%");
    assert_eq!(set["pid"], running.child.id());

    let reset = success(&mut altway(&dir, ["emulate", "reset"]));
    assert!(reset.contains("up:      not shaped\n"), "{reset}");
    assert!(reset.contains("down:    not shaped\n"), "{reset}");
    let shown = json(&mut altway(&dir, ["emulate", "show"]));
    assert_eq!(shown["up"], reset_settings());
    // Late it may be, if the machine is busy.
    let invalid = shown["invalid"].as_str();
    assert!(invalid.is_none_or(|it| it.contains("late")), "{shown}");
}

fn reset_settings() -> Value {
    serde_json::json!({
        "rate": "none", "delay": "0ms", "jitter": "0ms uniform", "loss": "0%", "duplicate": "0%",
        "reorder": "0%", "corrupt": "0%", "queue": "none", "discipline": "drop-tail",
        "udp": "pass",
    })
}

#[test]
fn the_socket_of_a_killed_link_is_cleaned_away_and_that_of_a_running_one_stays() {
    let Some(dir) = prepare() else { return };
    let clean = || json(&mut altway(&dir, ["emulate", "clean"]));
    let killed = Running::start(&dir, &[]);
    let left = serde_json::json!({"kind": "socket", "path": sockets(&dir)[0]});
    let takes = |taken: Value| taken.as_array().unwrap().contains(&left);
    assert!(!takes(clean()), "its process lives");
    drop(killed);
    let _running = Running::start(&dir, &[]);
    assert_eq!(sockets(&dir).len(), 2);
    assert!(takes(clean()) && !takes(clean()));
    assert_eq!(sockets(&dir).len(), 1);
}

#[test]
fn a_warning_that_nobody_reads_any_more_is_no_failure() {
    let dir = Dir::new();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let of_another_network = serde_json::json!({
        "boot": boot.trim(), "network": 1,
        "interfaces": [{"name": "wire0", "index": 3, "offloads": [], "netem": false}],
    });
    let record = "altway-scratch-1/interfaces.json";
    dir.file(record, of_another_network.to_string());
    let clean = || {
        let mut clean = altway(&dir, ["emulate", "clean"]);
        clean.env("TMPDIR", dir.path());
        clean
    };
    let warned = clean().output().unwrap();
    let said = String::from_utf8_lossy(&warned.stderr);
    assert!(said.contains("WARN"), "{said}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = clean().stdout(Stdio::null()).stderr(writer).status();
    assert_eq!(ended.unwrap().code(), Some(0));
}

#[test]
fn a_link_between_two_interfaces_is_changed_while_it_runs() {
    let Some(dir) = prepare() else { return };
    let interfaces = [0, 1].map(|n| {
        format!("ip link add wire{n} type veth peer name end{n} && ip link set wire{n} up && ")
    });
    let link = "emulate --between wire0 wire1 --backend packet --delay 1ms --name wire";
    let script = format!("{}exec \"$0\" {link}", interfaces.concat());
    let mut unshare = Command::new("unshare");
    unshare.args(["-Urn", "sh", "-c", &script, env!("CARGO_BIN_EXE_altway")]);
    unshare.env("XDG_RUNTIME_DIR", dir.path().join("run"));
    let mut running = Running {
        child: unshare.stderr(Stdio::null()).spawn().unwrap(),
    };
    let mut ended = false;
    eventually("the link's socket", || {
        ended = running.child.try_wait().unwrap().is_some();
        ended || !sockets(&dir).is_empty()
    });
    if ended {
        return skipped("no interfaces can be made here");
    }
    let set = [
        "emulate",
        "set",
        "--link",
        "wire",
        "up rate 5mbit, down loss 1%",
    ];
    let set = json(&mut altway(&dir, set));
    assert_eq!(
        (&set["up"]["rate"], &set["up"]["delay"]),
        (&"5mbit".into(), &"1ms".into())
    );
    assert_eq!(set["down"]["loss"], "1%");
    let shown = success(&mut altway(&dir, ["emulate", "show"]));
    assert!(shown.starts_with("link of wire (process "), "{shown}");
    let reset = success(&mut altway(&dir, ["emulate", "reset"]));
    assert!(reset.contains("down:    not shaped\n"), "{reset}");
}

#[test]
fn one_of_several_links_is_chosen_by_name_or_process() {
    let Some(dir) = prepare() else { return };
    let show = |link: &str| json(&mut altway(&dir, ["emulate", "show", "--link", link]));
    let hint = "start one with `altway emulate";
    assert_refused(
        &mut altway(&dir, ["emulate", "show"]),
        "no emulated link runs",
        hint,
    );
    let near = Running::start(&dir, &["--name", "near"]);
    let far = Running::start(&dir, &["--name", "far", "--delay", "200ms"]);
    assert_eq!(show("far")["up"]["delay"], "200ms");
    assert_eq!(show(&near.child.id().to_string())["name"], "near");
    let hint = "choose one with `--link`";
    let both = format!("near (process {})", near.child.id());
    assert_refused(&mut altway(&dir, ["emulate", "reset"]), &both, hint);
    let mut third = altway(&dir, ["emulate", "show", "--link", "third"]);
    assert_refused(
        &mut third,
        "no emulated link is called `third`: there is",
        hint,
    );
    // A killed process can't take its socket away; the next who looks does.
    drop(far);
    assert_eq!(sockets(&dir).len(), 2);
    assert_eq!(json(&mut altway(&dir, ["emulate", "show"]))["name"], "near");
    assert_eq!(sockets(&dir).len(), 1);
}

#[test]
fn a_command_behind_a_link_changes_its_own() {
    let Some(dir) = prepare() else { return };
    let _other = Running::start(&dir, &["--delay", "1ms"]);
    let altway_path = env!("CARGO_BIN_EXE_altway");
    let line = format!("{altway_path} emulate set delay 7ms --json");
    let mut emulate = altway(
        &dir,
        ["emulate", "--server", "sleep 60", "--", "sh", "-c", &line],
    );
    let state: Value = serde_json::from_str(&success(&mut emulate)).unwrap();
    assert_eq!(state["up"]["delay"], "7ms");
    assert_eq!(sockets(&dir).len(), 1, "its socket went with it");
}

#[test]
fn a_path_turns_bad_at_the_time_that_was_set() {
    let Some(dir) = prepare() else { return };
    let altway_path = env!("CARGO_BIN_EXE_altway");
    let show = format!("{altway_path} emulate show");
    let line = format!(
        "{show}; until {show} | grep -q 'up: .*delay 100ms'; do sleep 0.1; done; {show} --json | tr -d '\\n '"
    );
    let turns = |seconds: &&str| {
        let mut emulate = altway(&dir, ["emulate", "--server", "sleep 60", "--at", seconds]);
        emulate.args(["loss 5%, delay 100ms", "--at", "1h", "loss 0%"]);
        success(emulate.args(["--", "sh", "-c", &line]))
    };
    // A busy machine may not have looked before the path turns: then it turns later.
    let mut all = ["500ms", "4s", "20s"].iter().map(|it| (*it, turns(it)));
    let before = |(_, shown): &(_, String)| shown.contains(" s: loss 5%, delay 100ms\n");
    let (time, shown) = all.find(before).expect("it was seen before its turn");
    let soon = time != "500ms" || shown.contains("to come: in 0.");
    assert!(soon && shown.contains("to come: in "), "{shown}");
    assert!(
        shown.contains(r#""delay":"100ms""#) && shown.contains(r#""loss":"5%""#),
        "{shown}"
    );
    assert!(shown.contains(r#""change":"loss0%""#), "{shown}");
}

#[test]
fn packets_are_logged_for_wireshark() {
    let Some(dir) = prepare() else { return };
    if !installed("bash") {
        return;
    }
    let mut emulate = altway(
        &dir,
        ["emulate", "--server", "sleep 60", "--pcap", "log.pcapng"],
    );
    // Nobody listens there, so each datagram brings an ICMP message back.
    let talk = "for i in 1 2 3; do echo $i >/dev/udp/$ALTWAY_SERVER/9; sleep 0.4; done";
    emulate.args(["--json", "--", "bash", "-c", talk]);
    let output = emulate.output().unwrap();
    let told = counted(&output);
    assert_eq!(told["packet_log"]["packets_logged"], 12, "{told}");
    assert_eq!(told["packet_log"]["packets_missed"], 0);
    if installed("tshark") {
        check_with_tshark(&dir.path().join("log.pcapng"));
    }
}

/// The command stops the link's own process for a while, as a machine that halts does.
#[test]
fn a_link_that_was_late_says_so_in_words_and_in_json() {
    let Some(dir) = prepare() else { return };
    if !installed("bash") {
        return;
    }
    // A thread that runs on another processor stops a moment after the signal was sent.
    let halt = "link=$PPID; (sleep 0.5; kill -CONT $link) & kill -STOP $link; sleep 0.1; \
                echo x >/dev/udp/$ALTWAY_SERVER/9; wait";
    let late = |words: &[&str]| {
        let mut emulate = altway(&dir, ["emulate", "--server", "sleep 60"]);
        let output = emulate
            .args(words)
            .args(["--", "bash", "-c", halt])
            .output();
        output.unwrap()
    };
    let told = counted(&late(&["--json"]));
    let invalid = told["invalid"].as_str().unwrap_or_default();
    assert!(invalid.contains("late"), "{told}");
    let said = String::from_utf8(late(&[]).stderr).unwrap();
    let warned = "the link did not do what it was asked to: ";
    assert!(said.contains(warned) && said.contains("late"), "{said}");
}

/// The link's counters, in JSON: the last line of stderr.
fn counted(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

/// Wireshark's own reader finds three datagrams and three answers at both ends.
fn check_with_tshark(log: &Path) {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(log);
    tshark.args([
        "-T",
        "fields",
        "-e",
        "frame.interface_name",
        "-e",
        "_ws.col.Protocol",
    ]);
    let found = success(&mut tshark);
    for line in ["client\tUDP", "server\tUDP", "server\tICMP", "client\tICMP"] {
        // A port that tshark knows has a protocol of its own.
        let line = line.replace("UDP", "DISCARD");
        let lines = found.replace("UDP", "DISCARD");
        assert_eq!(
            lines.lines().filter(|found| **found == line).count(),
            3,
            "{found}"
        );
    }
}

#[test]
fn programs_are_pinned_and_their_interruptions_counted() {
    let Some(dir) = prepare() else { return };
    let mut emulate = altway(
        &dir,
        [
            "emulate",
            "--server",
            "sleep 60",
            "--pin-client",
            "0",
            "--json",
        ],
    );
    emulate.args(["--", "sh", "-c", "grep Cpus_allowed_list /proc/self/status"]);
    let output = emulate.output().unwrap();
    assert_eq!(output.stdout, b"Cpus_allowed_list:\t0\n");
    let told = counted(&output);
    assert_eq!(told["client_processors"], "0");
    for count in [
        "involuntary_switches",
        "client_involuntary_switches",
        "server_involuntary_switches",
    ] {
        assert!(told[count].is_u64(), "{told}");
    }
}

#[test]
fn isolation_says_what_was_done_and_what_was_not() {
    let Some(dir) = prepare() else { return };
    let output = altway(
        &dir,
        ["emulate", "--server", "sleep 60", "--isolate", "--", "true"],
    )
    .output()
    .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let done = said.contains("isolated: the link on processor") && said.contains("not moved away");
    assert!(done || said.contains("nothing is isolated"), "{said}");
}

#[test]
fn what_can_not_be_is_refused_before_anything_is_made() {
    let dir = Dir::new();
    let hint = "`altway emulate set --help` has examples";
    let mut set = altway(&dir, ["emulate", "set", "loss 150%"]);
    assert_refused(
        &mut set,
        "`loss`: `150%` is not a ratio: it must be from 0% to 100%",
        hint,
    );
    let mut set = altway(&dir, ["emulate", "set", "lots 5%"]);
    assert_refused(
        &mut set,
        "`lots` is no setting of a link: expected rate, delay",
        hint,
    );
    assert_refused(
        &mut altway(&dir, ["emulate", "set"]),
        "nothing to change",
        hint,
    );
    let mut both = altway(&dir, ["emulate", "set", "--up", "--down", "loss 5%"]);
    assert!(refusal(&mut both).contains("cannot be used with"));
    let mut at = altway(&dir, ["emulate", "--at", "3s", "los 5%", "--", "true"]);
    assert_refused(
        &mut at,
        "--at 3s 'los 5%': `los` is no setting of a link",
        hint,
    );
    let mut at = altway(&dir, ["emulate", "--at", "3", "loss 5%", "--", "true"]);
    assert!(refusal(&mut at).contains("`3` is not a duration"));
    for (option, value, reason) in [
        ("--name", "7", "is no name for a link"),
        ("--name", "a/b", "is no name for a link"),
        ("--pin-client", "x", "names no processors"),
        ("--set", "delay 5", "is not a duration"),
    ] {
        let said = refusal(&mut altway(&dir, ["emulate", option, value, "--", "true"]));
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn a_processor_and_a_log_that_can_not_be_are_refused_and_nothing_is_left_behind() {
    let Some(dir) = prepare() else { return };
    let server = ["emulate", "--server", "sleep 60"];
    let mut pinned = altway(&dir, server);
    pinned.args(["--pin-link", "1000", "--", "true"]);
    let hint = "leave the pinning out";
    assert_refused(
        &mut pinned,
        "cannot pin to processor 1000: this process may use",
        hint,
    );
    let mut logged = altway(&dir, server);
    logged.args(["--pcap", "no/log.pcapng", "--", "true"]);
    let hint = "give --pcap a file in a folder that is there";
    assert_refused(
        &mut logged,
        "cannot write the packet log `no/log.pcapng`: No such file",
        hint,
    );
    assert!(sockets(&dir).is_empty());
}

#[test]
fn a_command_that_can_not_be_run_has_a_hint_and_nothing_is_left_behind() {
    let Some(dir) = prepare() else { return };
    let plain = dir.file("plain", "true\n");
    let is_a_folder = dir.path().display().to_string();
    for (command, reason, hint) in [
        (
            "no-such-program",
            "No such file",
            "it has to be in a folder of PATH",
        ),
        (
            "curl -k https://a.example/",
            "No such file",
            "it has to be in a folder of PATH",
        ),
        (
            plain.to_str().unwrap(),
            "Permission denied",
            "name a program that this user may run",
        ),
        (
            &is_a_folder,
            "Permission denied",
            "name a program that this user may run",
        ),
    ] {
        let mut emulate = altway(&dir, ["emulate", "--server", "sleep 60", "--", command]);
        assert_refused(
            &mut emulate,
            &format!("cannot run `{command}`: {reason}"),
            hint,
        );
    }
    assert!(sockets(&dir).is_empty());
}

/// A server that puts itself into the background twice, as daemons do, and then runs on.
fn daemon(dir: &Dir) -> String {
    let worker = dir.file("worker.sh", "while :; do sleep 0.1; done\n");
    let middle = format!("setsid sh {} >/dev/null 2>&1 &\n", worker.display());
    let middle = dir.file("middle.sh", middle);
    let first = format!("setsid sh {} >/dev/null 2>&1 &\nexit 0\n", middle.display());
    dir.file("daemon.sh", first).display().to_string()
}

/// Returns whether a process runs the daemon's last script.
fn worker_runs(dir: &Dir) -> bool {
    let worker = dir.path().join("worker.sh").display().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.map(|process| fs::read(process.path().join("cmdline")));
    let mut lines = lines.map(|line| text(&line.unwrap_or_default()));
    lines.any(|line| line == format!("sh\0{worker}\0"))
}

#[test]
fn a_server_command_is_a_line_of_a_shell() {
    let Some(dir) = prepare() else { return };
    let server = "SAID=hello env > said; mkdir -p sub && cd sub && sleep 60";
    let line = "while ! [ -d sub ]; do sleep 0.05; done";
    let mut emulate = altway(
        &dir,
        ["emulate", "--server", server, "--", "sh", "-c", line],
    );
    success(&mut emulate);
    let said = fs::read_to_string(dir.path().join("said")).unwrap();
    assert!(said.contains("SAID=hello"), "{said}");
}

#[test]
fn a_server_that_goes_into_the_background_serves_on_and_ends_with_the_command() {
    let Some(dir) = prepare() else { return };
    let server = format!("sh {}", daemon(&dir));
    let wait = "while ! [ -f over ]; do sleep 0.05; done";
    let mut emulate = altway(
        &dir,
        ["emulate", "--server", &server, "--", "sh", "-c", wait],
    );
    let emulate = emulate.stderr(Stdio::null()).spawn().unwrap();
    let mut running = Running { child: emulate };
    eventually("the daemon runs", || worker_runs(&dir));
    dir.file("over", "");
    assert!(running.child.wait().unwrap().success());
    assert!(!worker_runs(&dir), "it outlived the run");
}

#[test]
fn a_server_in_the_background_ends_with_a_killed_emulation() {
    let Some(dir) = prepare() else { return };
    let server = format!("sh {}", daemon(&dir));
    let mut emulate = altway(&dir, ["emulate", "--server", &server, "--", "sleep", "60"]);
    let emulate = emulate.stderr(Stdio::null()).spawn().unwrap();
    let running = Running { child: emulate };
    eventually("the daemon runs", || worker_runs(&dir));
    // Its drop kills.
    drop(running);
    eventually("the daemon has ended", || !worker_runs(&dir));
}
