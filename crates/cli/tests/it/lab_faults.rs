//! A run of the lab in which something dies: every transfer that suffers is made again, and the run is whole.

use crate::common::{Dir, eventually, skipped, text};
use crate::lab::{can_emulate, only_run};
use altway_record::Sample;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A transfer takes two and a half seconds, and may take three times as long.
const PLAN: &str = "\
name = \"faults\"
rate = \"1mbit\"
delay = \"10ms\"
size = \"300KB\"
pairs = 1
timeout = \"8s\"
";

/// Time into a transfer after which something dies, at least.
const SOON: Duration = Duration::from_millis(800);

/// A run whose first transfer is under way.
struct Running {
    dir: Dir,
    lab: Child,
    client: Pid,
    server: Pid,
}

impl Running {
    fn start(dir: Dir) -> Self {
        dir.file("faults.toml", PLAN);
        let mut command = dir.altway(["lab", "run", "faults.toml"]);
        let piped = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let lab = piped.spawn().unwrap();
        let mut client = None;
        eventually("a transfer is under way", || {
            client = child_of(&lab, "load");
            std::thread::sleep(SOON);
            client.is_some() && child_of(&lab, "load") == client
        });
        let server = child_of(&lab, "serve");
        Self {
            dir,
            lab,
            client: client.unwrap(),
            server: server.unwrap(),
        }
    }

    /// The rows of the run when it is over. Each transfer counts once.
    fn samples(&mut self) -> Vec<Sample> {
        let mut said = String::new();
        let mut stderr = self.lab.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        let status = self.lab.wait().unwrap();
        assert!(status.success(), "{said}");
        let rows = fs::read_to_string(only_run(&self.dir).join("samples.csv")).unwrap();
        let samples = altway_record::read_samples(&rows).unwrap();
        let arms = samples.iter().filter(|sample| sample.valid);
        let mut arms: Vec<_> = arms
            .map(|sample| (sample.protocol.to_string(), sample.null_arm))
            .collect();
        arms.sort();
        let expected = [("h2", false), ("h2", true), ("h3", false)];
        let expected = expected.map(|(protocol, null_arm)| (protocol.to_owned(), null_arm));
        assert_eq!(arms, expected, "{samples:#?}");
        samples
    }
}

/// A run whose test has failed ends as when it is stopped at a terminal: nothing is left behind.
impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.lab.try_wait() {
            let _ = kill_process(Pid::from_child(&self.lab), Signal::INT);
            let _ = self.lab.wait();
        }
    }
}

/// A process of a transfer, which the lab started with this command of altway's.
fn child_of(lab: &Child, command: &str) -> Option<Pid> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let found = processes.into_iter().find(|process| {
        let read = |name| fs::read_to_string(process.path().join(name)).unwrap_or_default();
        let pid = process
            .file_name()
            .to_str()
            .and_then(|pid| pid.parse().ok());
        let line = read("cmdline");
        // One that looks whether the server answers has a second for it.
        line.split('\0').nth(1) == Some(command)
            && !line.contains("--timeout\x001s\x00")
            && pid.is_some_and(|pid| descends_from(pid, lab.id()))
    })?;
    Pid::from_raw(found.file_name().to_str()?.parse().ok()?)
}

fn descends_from(mut process: u32, ancestor: u32) -> bool {
    while process > 1 {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:\t"));
        process = parent.and_then(|parent| parent.parse().ok()).unwrap_or(0);
        if process == ancestor {
            return true;
        }
    }
    false
}

fn first_fault(samples: &[Sample]) -> &str {
    let first = samples.first().unwrap();
    assert!(!first.valid, "{first:#?}");
    &first.fault
}

#[test]
fn a_server_that_is_killed_is_started_again_and_its_transfer_made_again() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    let mut run = Running::start(dir);
    kill_process(run.server, Signal::KILL).unwrap();
    let samples = run.samples();
    let fault = first_fault(&samples);
    // TCP tells it at once; over UDP nothing does.
    let told = ["connection lost", "timed out"];
    assert!(told.iter().any(|words| fault.contains(words)), "{fault}");
}

#[test]
fn the_transfer_of_a_client_that_is_killed_is_made_again() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    let mut run = Running::start(dir);
    kill_process(run.client, Signal::KILL).unwrap();
    let samples = run.samples();
    let fault = first_fault(&samples);
    assert!(fault.contains("signal: 9 (SIGKILL)"), "{fault}");
    let mut others = samples[1..].iter().filter(|sample| !sample.valid);
    let disturbed = others.all(|sample| sample.fault.contains("link late"));
    assert!(
        disturbed,
        "nothing else suffers but for the machine: {samples:#?}"
    );
}

#[test]
fn a_link_that_is_unplugged_for_a_while_costs_the_transfers_of_that_while_only() {
    let dir = Dir::alone();
    if !rustix::process::geteuid().is_root() {
        return skipped("interfaces of others can be switched off as root only");
    }
    if !can_emulate(&dir) {
        return;
    }
    let mut run = Running::start(dir);
    let pid = run.server.as_raw_nonzero().to_string();
    let at_the_server = |arguments: &[&str]| {
        let within = ["-t", &pid, "-n", "ip"];
        let mut command = Command::new("nsenter");
        let output = command.args(within).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let links = at_the_server(&["-o", "link"]);
    let names = links.lines().filter_map(|line| line.split(": ").nth(1));
    let name = names
        .into_iter()
        .find(|name| *name != "lo")
        .unwrap()
        .to_owned();
    at_the_server(&["link", "set", &name, "down"]);
    std::thread::sleep(Duration::from_secs(10));
    at_the_server(&["link", "set", &name, "up"]);
    let samples = run.samples();
    let fault = first_fault(&samples);
    assert!(fault.contains("timed out"), "{fault}");
}
