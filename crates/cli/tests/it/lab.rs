//! `altway emulate` and `altway lab` on real namespaces, as a person would use them.
//!
//! Without the right to make namespaces each test says that it is skipped.

use crate::common::{Dir, TIME_LIMIT, refusal, skipped, success, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A transfer takes most of a second, and so suffers a link that the machine makes milliseconds late.
const PLAN: &str = "\
name = \"tiny\"
rate = \"1mbit\"
delay = [\"0ms\", \"10ms\"]
size = \"100KB\"
pairs = 2
";

/// An altway that serves at the link's far end, and what is run at the near one once it listens, as it says itself.
pub(crate) fn between_ends<'a>(
    emulate: &'a mut Command,
    server: &str,
    script: &str,
) -> &'a mut Command {
    let folder = emulate.get_current_dir().unwrap();
    let _ = fs::remove_file(folder.join("listening"));
    let server = format!("{server} --json > listening");
    // One that does not begin is the script's to tell of.
    let wait = "n=0; until [ -s listening ] || [ $n = 600 ]; do n=$((n + 1)); sleep 0.1; done";
    emulate.args(["--server", &server, "--server-wait", "0ms"]);
    emulate.args(["--", "sh", "-c", &format!("{wait}; {script}")])
}

/// Returns whether this machine lets us make the namespaces; asked with the smallest real use.
pub(crate) fn can_emulate(dir: &Dir) -> bool {
    let output = dir
        .altway(["emulate", "--server", "sleep 5", "--", "true"])
        .output()
        .unwrap();
    if !output.status.success() {
        skipped(&format!("no namespaces here: {}", text(&output.stderr)));
    }
    output.status.success()
}

pub(crate) fn only_run(dir: &Dir) -> PathBuf {
    let mut runs = fs::read_dir(dir.path().join("runs"))
        .unwrap()
        .map(|run| run.unwrap().path());
    let run = runs.next().unwrap();
    assert_eq!(runs.next(), None);
    run
}

fn rows(run: &Path) -> Vec<String> {
    let text = fs::read_to_string(run.join("samples.csv")).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().skip(1).map(str::to_owned).collect()
}

/// Number of times that a transfer that did not count is made again.
const ATTEMPTS: usize = 3;

/// Block, cell, protocol and null arm of a row.
fn identity(row: &str) -> String {
    let columns: Vec<_> = row.split(',').collect();
    [columns[1], columns[2], columns[6], columns[7]].join(" ")
}

/// Each transfer counts once and only once. One that the machine disturbed every time is the only
/// kind that may be given up.
fn assert_whole(run: &Path) {
    let rows = rows(run);
    let expected = (0..2).flat_map(|block| {
        (0..2).flat_map(move |cell| {
            ["h2 false", "h2 true", "h3 false"].map(|arm| format!("{block} {cell} {arm}"))
        })
    });
    let mut known = 0;
    for transfer in expected {
        let of_it = rows.iter().filter(|row| identity(row) == transfer);
        let (valid, invalid): (Vec<&String>, Vec<&String>) =
            of_it.partition(|row| row.ends_with(",true,"));
        let given_up = valid.is_empty() && invalid.len() == ATTEMPTS;
        assert!(valid.len() == 1 || given_up, "{transfer}: {rows:#?}");
        let disturbed = invalid.iter().all(|row| row.contains("link late"));
        assert!(disturbed, "{transfer}: {invalid:#?}");
        known += valid.len() + invalid.len();
    }
    assert_eq!(known, rows.len(), "{rows:#?}");
}

/// Asserts that both ends of each transfer that counts took processor time, and less than the whole
/// run took.
fn assert_processor_time(run: &Path, took: Duration) {
    let text = fs::read_to_string(run.join("samples.csv")).unwrap();
    let samples = altway_record::read_samples(&text).unwrap();
    for sample in samples.iter().filter(|sample| sample.valid) {
        for end in [sample.client_cpu_us, sample.server_cpu_us] {
            let time = Duration::from_micros(end.unwrap());
            assert!(Duration::ZERO < time && time < took, "{sample:#?}");
        }
    }
}

#[test]
fn emulate_delays_both_directions_and_passes_the_exit_code_on() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    dir.file("site/index.html", "hello");
    let altway = env!("CARGO_BIN_EXE_altway");
    let server = format!("{altway} serve site --h2c -p 8080");
    let client = format!("{altway} load http://$ALTWAY_SERVER:8080/ --protocol h1 --json");
    let measure = || {
        let mut emulate = dir.altway(["emulate", "--delay", "40ms"]);
        let output = success(between_ends(&mut emulate, &server, &client));
        let output: serde_json::Value = serde_json::from_str(&output).unwrap();
        let request = &output["requests"][0];
        ["connect_us", "total_us"].map(|time| request[time].as_u64().unwrap())
    };
    // One round trip, and two. Other programs may make the ends wait.
    let mut times = Vec::new();
    let is_right = (0..10).any(|_| {
        let [connect, total] = measure();
        times.push([connect, total]);
        assert!(connect >= 80_000 && total >= 160_000, "{times:?}");
        connect < 95_000 && total < 190_000
    });
    assert!(is_right, "{times:?}");

    let status = dir
        .altway(["emulate", "--server", "sleep 5", "--", "sh", "-c", "exit 7"])
        .status();
    assert_eq!(status.unwrap().code(), Some(7));
}

#[test]
fn a_run_is_whole_and_its_report_is_drawn_again_byte_for_byte() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    dir.file("tiny.toml", PLAN);
    let begun = Instant::now();
    let table = success(&mut dir.altway(["lab", "run", "tiny.toml"]));
    let took = begun.elapsed();
    assert!(
        table.contains("HTTP/2") && table.contains("HTTP/3"),
        "{table}"
    );
    let run = only_run(&dir);
    assert_whole(&run);
    assert_processor_time(&run, took);

    let made = |name: &&str| !["samples.csv", "manifest.json"].contains(name);
    let names: Vec<_> = fs::read_dir(&run)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    let names: Vec<_> = names
        .iter()
        .map(|name| name.to_str().unwrap())
        .filter(made)
        .collect();
    assert!(
        names.contains(&"report.html") && names.contains(&"summary.csv"),
        "{names:?}"
    );
    assert!(names.iter().any(|name| name.ends_with(".png")), "{names:?}");
    assert!(names.iter().any(|name| name.ends_with(".svg")), "{names:?}");
    let read = |name: &&str| fs::read(run.join(name)).unwrap();
    let before: Vec<_> = names.iter().map(read).collect();
    names
        .iter()
        .for_each(|name| fs::remove_file(run.join(name)).unwrap());
    success(&mut dir.altway(["lab", "report", run.to_str().unwrap()]));
    assert_eq!(names.iter().map(read).collect::<Vec<_>>(), before);
}

#[test]
fn a_killed_run_is_resumed_without_a_row_lost_or_doubled() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    dir.file("tiny.toml", PLAN);
    let mut lab = dir.altway(["lab", "run", "tiny.toml"]);
    let mut lab = lab
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + TIME_LIMIT;
    let samples = || {
        let runs = fs::read_dir(dir.path().join("runs")).ok()?;
        fs::read_to_string(runs.flatten().next()?.path().join("samples.csv")).ok()
    };
    while samples().is_none_or(|text| text.lines().count() < 4) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    lab.kill().unwrap();
    lab.wait().unwrap();
    let run = only_run(&dir);
    let kept = rows(&run);
    // What a crash in the middle of a write leaves.
    let cut = fs::read_to_string(run.join("samples.csv")).unwrap() + "9,1,1,1,h";
    fs::write(run.join("samples.csv"), cut).unwrap();
    success(&mut dir.altway(["lab", "resume", run.to_str().unwrap()]));
    assert_whole(&run);
    assert!(rows(&run).starts_with(&kept));
}

#[test]
fn ctrl_c_ends_the_run_at_once_and_names_the_way_on() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    // One transfer takes longer than the test waits.
    dir.file(
        "slow.toml",
        PLAN.replace("1mbit", "10kbit").replace("tiny", "slow"),
    );
    let mut lab = dir.altway(["lab", "run", "slow.toml"]);
    let lab = lab
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + TIME_LIMIT;
    while fs::read_dir(dir.path().join("runs")).map_or(0, Iterator::count) == 0 {
        assert!(Instant::now() < deadline, "the run did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&lab);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = lab.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("stopped after 0 transfers, all kept in runs/"),
        "{said}"
    );
    assert!(
        said.contains("hint: go on with `altway lab resume runs/"),
        "{said}"
    );
}

#[test]
fn a_full_disk_loses_nothing_that_was_measured() {
    let dir = Dir::alone();
    if !rustix::process::geteuid().is_root() || !can_emulate(&dir) {
        return skipped("a small disk can be mounted as root only");
    }
    dir.file("tiny.toml", PLAN);
    fs::create_dir(dir.path().join("runs")).unwrap();
    // Five pages: two for the manifest, one for the plan, and little for the rows.
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=20k", "tmpfs", "runs"])
        .current_dir(dir.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skipped("no small disk can be mounted here");
    }
    let disk = Disk(dir.path().join("runs"));
    let many = PLAN.replace("pairs = 2", "pairs = 40");
    dir.file("tiny.toml", many.replace("1mbit", "2mbit"));
    let said = refusal(&mut dir.altway(["lab", "run", "tiny.toml"]));
    assert!(said.contains("transfers, all kept in "), "{said}");
    assert!(said.to_lowercase().contains("no space left"), "{said}");
    assert!(said.contains("hint: make room on the disk"), "{said}");
    let run = only_run(&dir);
    assert!(rows(&run).len() > 3, "{:?}", rows(&run));
    drop(disk);
}

/// A mounted folder; taken away with this value.
struct Disk(PathBuf);

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn without_the_right_to_make_namespaces_the_hint_names_doctor() {
    let dir = Dir::alone();
    // A namespace in which there may be no further one, and in it no capability.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces; \
                  exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
    let without_rights = |program: &str, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "sh",
            "-c",
            script,
            "sh",
            program,
        ]);
        command.args(arguments).current_dir(dir.path()).output()
    };
    if !without_rights("true", &[]).is_ok_and(|output| output.status.success()) {
        return skipped("rights can't be given up here");
    }
    let altway = env!("CARGO_BIN_EXE_altway");
    for arguments in [&["lab", "run"][..], &["emulate", "--", "true"]] {
        let output = without_rights(altway, arguments).unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("error: cannot create a user namespace"),
            "{said}"
        );
        assert!(said.contains("hint: run `altway doctor`"), "{said}");
    }
    assert!(!dir.path().join("runs").exists());
    // It is no fault of a server's.
    let output = without_rights(altway, &["doctor"]).unwrap();
    let said = text(&output.stdout);
    assert!(said.contains("The lab can't run on this machine"), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
}
