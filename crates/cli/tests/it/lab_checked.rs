//! Runs that others can check: their plan, checksums and archive, rows alone, and traces of chosen transfers.

use crate::common::{Dir, installed, refusal, success};
use crate::lab::{can_emulate, only_run};
use altway_record::{Plan, read_samples};
use std::fs;
use std::path::Path;
use std::process::Command;

const MANIFEST: &str = include_str!("../../../report/tests/data/manifest.json");
const SAMPLES: &str = include_str!("../../../report/tests/data/samples.csv");

fn sums_hold(folder: &Path) -> bool {
    let mut command = Command::new("sha256sum");
    command.args(["--check", "--strict", "--quiet", "SHA256SUMS"]);
    command.current_dir(folder).status().unwrap().success()
}

#[test]
fn a_report_leaves_checksums_and_an_archive_is_refused_when_they_do_not_hold() {
    let dir = Dir::new();
    dir.file("run/manifest.json", MANIFEST);
    dir.file("run/samples.csv", SAMPLES);
    success(&mut dir.altway(["lab", "report", "run"]));
    let run = dir.path().join("run");
    assert!(sums_hold(&run) && run.join("plan.toml").exists());
    let export = ["lab", "export", "run", "--author", "Doe, Jo"];
    assert_eq!(success(&mut dir.altway(export)), "run.tar.gz\n");
    let mut unpack = Command::new("tar");
    unpack.args(["-xzf", "run.tar.gz", "--one-top-level=there"]);
    assert!(unpack.current_dir(dir.path()).status().unwrap().success());
    assert!(sums_hold(&dir.path().join("there/run")));
    dir.file(
        "run/samples.csv",
        SAMPLES.replacen(",5000000,", ",5000001,", 1),
    );
    let said = refusal(&mut dir.altway(export));
    assert!(
        said.contains("run is not what SHA256SUMS says: samples.csv"),
        "{said}"
    );
    let nobody = refusal(&mut dir.altway(["lab", "export", "run", "--author", " "]));
    assert!(nobody.contains("an author has no name"), "{nobody}");
}

#[test]
fn rows_alone_make_a_report_and_no_manifest() {
    let dir = Dir::new();
    dir.file("theirs/rows.csv", SAMPLES);
    let table = success(&mut dir.altway(["lab", "report", "theirs/rows.csv"]));
    assert!(table.contains("Made from samples.csv alone"), "{table}");
    assert!(
        table.contains("HTTP/3 becomes faster somewhere between 0 and 100 ms"),
        "{table}"
    );
    let theirs = dir.path().join("theirs");
    assert!(theirs.join("report.html").exists());
    assert!(!theirs.join("manifest.json").exists() && !theirs.join("SHA256SUMS").exists());
    dir.file("empty/samples.csv", altway_record::CSV_HEADER);
    let said = refusal(&mut dir.altway(["lab", "report", "empty"]));
    assert!(said.contains("it has no rows"), "{said}");
    assert!(
        said.contains("hint: name the samples.csv of one run"),
        "{said}"
    );
}

#[test]
fn a_run_whose_rows_are_gone_keeps_its_report() {
    let dir = Dir::new();
    dir.file("run/manifest.json", MANIFEST);
    dir.file("run/samples.csv", SAMPLES);
    success(&mut dir.altway(["lab", "report", "run"]));
    let page = dir.path().join("run/report.html");
    let before = fs::read(&page).unwrap();
    for rows in ["", altway_record::CSV_HEADER] {
        dir.file("run/samples.csv", rows);
        let said = refusal(&mut dir.altway(["lab", "report", "run"]));
        assert!(said.contains("samples.csv in run has no rows"), "{said}");
        assert!(said.contains("hint: "), "{said}");
        assert_eq!(fs::read(&page).unwrap(), before);
    }
}

#[test]
fn two_tables_of_figures_are_compared() {
    let dir = Dir::new();
    let reference = include_str!("../../../../results/reference/environments.csv");
    for topology in ["direct", "proxied"] {
        let of = |line: &&str| line.starts_with("topology") || line.starts_with(topology);
        let lines: Vec<&str> = reference.lines().filter(of).collect();
        dir.file(&format!("{topology}.csv"), lines.join("\n") + "\n");
    }
    let table = success(&mut dir.altway(["lab", "compare", "direct.csv", "proxied.csv"]));
    let lines_joined: Vec<&str> = table.split_whitespace().collect();
    assert!(
        lines_joined
            .join(" ")
            .contains("cross at 49 ms and 145 ms in A and at 0.63 ms in B"),
        "{table}"
    );
    let said = refusal(&mut dir.altway(["lab", "compare", "direct.csv", "nowhere"]));
    assert!(
        said.contains("direct.csv is a table of figures, nowhere is none"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_traced_is_said_before_anything_is_measured() {
    let dir = Dir::new();
    let refused = |more: [&str; 2]| {
        let [first, second] = more;
        refusal(&mut dir.altway(["lab", "run", "quick", first, second]))
    };
    assert!(refused(["--traced", "0"]).contains("but not what to keep of them"));
    assert!(refused(["--pcap", "--traced=99"]).contains("there is no cell 99 in this plan"));
    assert!(refused(["--netlog", "--pcap"]).contains("--netlog is Chromium's"));
    let said = refused(["--delays", "soon"]);
    assert!(
        said.contains("the delays can't be used") && said.contains("hint: as in --delays"),
        "{said}"
    );
    assert!(!dir.path().join("runs").exists());
}

fn the_report_and_the_archive_lead_to_the_traces(dir: &Dir, run: &Path) {
    let report = fs::read_to_string(run.join("report.html")).unwrap();
    let section = report.split("<section id=\"traces\">").nth(1).unwrap();
    let section = section.split("</section>").next().unwrap();
    let links: Vec<&str> = section
        .split("href=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    for wanted in [
        "traces/cell-1-h2/link.pcapng",
        "traces/cell-1-h3/keys.log",
        "traces/cell-1-h3/client-qlog/",
        "traces/cell-1-h3/server-qlog/",
    ] {
        let there = |link: &&str| link.starts_with(wanted);
        assert!(links.iter().any(there), "{wanted}: {links:?}");
    }
    assert!(
        links.iter().all(|link| run.join(link).is_file()),
        "{links:?}"
    );
    for told in ["<a href=\"#traces\">", "10 ms · HTTP/3"] {
        assert!(report.contains(told), "{told}");
    }
    let mut export = dir.altway(["lab", "export", "--author", "Doe, Jo"]);
    success(export.arg(run).args(["-o", "traced.tar.gz"]));
    let mut unpack = Command::new("tar");
    unpack.args([
        "-xzf",
        "traced.tar.gz",
        "--one-top-level=traced",
        "--strip-components=1",
    ]);
    assert!(unpack.current_dir(dir.path()).status().unwrap().success());
    let there = dir.path().join("traced");
    let dictionary = fs::read_to_string(there.join("data-dictionary.csv")).unwrap();
    for link in links {
        let row = format!("\n{link},,");
        assert!(
            dictionary.contains(&row) && there.join(link).exists(),
            "{link}"
        );
    }
    assert!(sums_hold(&there));
}

#[test]
fn chosen_transfers_are_traced_beside_the_run_and_not_in_its_rows() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    let plan = "name = \"tiny\"\nrate = \"5mbit\"\ndelay = \"7ms\"\nsize = \"50KB\"\npairs = 1\nnull_arm = false\n";
    dir.file("plan.toml", plan);
    let run = ["lab", "run", "plan.toml", "--delays", "0ms,10ms", "--pcap"];
    let mut command = dir.altway(run);
    success(command.args(["--qlog", "--keylog", "--traced", "1"]));
    let run = only_run(&dir);
    let text = fs::read_to_string(run.join("plan.toml")).unwrap();
    assert_eq!(text.parse::<Plan>().unwrap().delays.len(), 2);
    let rows = |name: &str| read_samples(&fs::read_to_string(run.join(name)).unwrap()).unwrap();
    let traced = rows("traces/samples.csv");
    assert_eq!(traced.len(), 2);
    assert!(traced.iter().all(|row| row.cell == 1), "{traced:#?}");
    assert!(rows("samples.csv").iter().any(|row| row.cell == 0));
    for protocol in ["h2", "h3"] {
        let folder = run.join(format!("traces/cell-1-{protocol}"));
        let pcap = fs::read(folder.join("link.pcapng")).unwrap();
        // A section header block, and 50 KB of packets seen at both ends.
        assert!(pcap.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) && pcap.len() > 100_000);
        let keys = fs::read_to_string(folder.join("keys.log")).unwrap();
        assert!(keys.contains("CLIENT_TRAFFIC_SECRET_0"), "{keys}");
        let has_qlog = |end: &str| {
            let files = fs::read_dir(folder.join(end));
            files.is_ok_and(|mut files| files.next().is_some())
        };
        assert_eq!(has_qlog("client-qlog"), protocol == "h3");
        assert_eq!(has_qlog("server-qlog"), protocol == "h3");
    }
    assert!(sums_hold(&run));
    the_report_and_the_archive_lead_to_the_traces(&dir, &run);
    if installed("tshark") {
        let folder = run.join("traces/cell-1-h2");
        let mut tshark = Command::new("tshark");
        tshark.args([
            "-r",
            "link.pcapng",
            "-o",
            "tls.keylog_file:keys.log",
            "-Y",
            "http2",
        ]);
        let output = tshark.current_dir(folder).output().unwrap();
        assert!(
            !output.stdout.is_empty(),
            "no HTTP/2 is read with the secrets"
        );
    }
}
