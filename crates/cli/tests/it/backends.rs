//! `--backend` and `--between`: what is taken, what is refused, and a run of the lab over the kernel's
//! own emulation, under a kernel that has it.

use crate::common::{Dir, refusal, skipped, text};
use altway_testkit::uml::{self, Kernel};
use std::process::Command;
use std::time::Duration;

/// Time that the machine may take: 20 s to two minutes, by how fast it changes between processes.
const KERNEL_TIMEOUT: Duration = Duration::from_secs(600);

const PLAN: &str = "\
name = \"tiny\"\nrate = \"10mbit\"\ndelay = \"10ms\"\nloss = \"0%\"\nsize = \"50kB\"\npairs = 2\n";

/// The first process of that kernel, when this program is it; else nothing.
#[test]
fn first_process() {
    if uml::is_init() {
        uml::init();
    }
}

#[test]
fn the_lab_runs_over_the_kernels_own_emulation() {
    let kernel = match Kernel::find() {
        Ok(kernel) => kernel.with_arguments(&["--exact", "backends::first_process"]),
        Err(reason) => return skipped(&reason),
    };
    let dir = Dir::alone();
    let plan = dir.file("tiny.toml", PLAN);
    let script = format!(
        "{} lab run {} --backend netem --runs runs && cat runs/*/manifest.json runs/*/samples.csv",
        env!("CARGO_BIN_EXE_altway"),
        plan.display()
    );
    let ran = kernel
        .run(&["sh", "-c", &script], &[], KERNEL_TIMEOUT)
        .unwrap();
    assert_eq!(ran.status, 0, "{}", ran.output);
    for expected in [
        "\"backend\": \"netem\"",
        "\"realtime_priority\": null",
        "netem keeps no seeds",
    ] {
        assert!(ran.output.contains(expected), "{}", ran.output);
    }
    // Lateness stands between the backlog and the hidden drops: unknown is empty, and none was hidden.
    let late: Vec<_> = ran
        .output
        .lines()
        .filter(|line| line.contains(",,0,"))
        .collect();
    // Two blocks of both protocols and the null arm.
    assert_eq!(late.len(), 6, "{}", ran.output);
}

#[test]
fn a_backend_that_there_is_not() {
    let dir = Dir::new();
    for command in [
        ["emulate", "--backend=fast", "--", "true"],
        ["lab", "run", "--backend=fast", "quick"],
    ] {
        let said = refusal(&mut dir.altway(command));
        assert!(
            said.contains("expected auto, tun, packet or netem"),
            "{said}"
        );
    }
}

#[test]
fn an_interface_that_is_missing() {
    let dir = Dir::new();
    let said = refusal(&mut dir.altway(["emulate", "--between", "altway-none", "lo"]));
    assert!(
        said.contains("error: there is no interface `altway-none`"),
        "{said}"
    );
    assert!(said.contains("hint: `ip link` lists"), "{said}");
}

#[test]
fn one_interface_and_a_command_beside_two_are_refused() {
    let dir = Dir::new();
    let said = refusal(&mut dir.altway(["emulate", "--between", "eth0"]));
    assert!(said.contains("2 values required"), "{said}");
    let mut both = dir.altway(["emulate", "--between", "a", "b", "--", "true"]);
    assert!(refusal(&mut both).contains("cannot be used with"));
}

#[test]
fn a_tun_interface_between_two_interfaces() {
    let dir = Dir::new();
    let mut tun = dir.altway(["emulate", "--backend=tun", "--between", "lo", "lo"]);
    let said = refusal(&mut tun);
    assert!(
        said.contains("lo` can't be both sides") || said.contains("tun joins"),
        "{said}"
    );
}

#[test]
fn netem_without_tc_or_without_netem_leaves_nothing_behind() {
    if !can_make_namespaces() {
        return skipped("no namespaces can be made here");
    }
    let dir = Dir::new();
    let emulate = || dir.altway(["emulate", "--backend=netem", "--server=true", "--", "true"]);
    let said = refusal(emulate().env("PATH", "/nowhere"));
    assert!(said.contains("error: cannot run `tc`"), "{said}");
    assert!(said.contains("hint: install iproute2"), "{said}");
    let output = emulate().args(["--json"]).output().unwrap();
    if output.status.code() == Some(2) {
        let said = text(&output.stderr);
        assert!(said.contains("error: this kernel has no netem"), "{said}");
    }
    let interfaces = std::fs::read_to_string("/proc/net/dev").unwrap();
    assert!(!interfaces.contains("altway"), "{interfaces}");
}

#[test]
fn what_netem_does_not_do_is_refused_in_one_sentence() {
    if !can_make_namespaces() {
        return skipped("no namespaces can be made here");
    }
    let dir = Dir::new();
    let command = [
        "emulate",
        "--backend=netem",
        "--pcap=log.pcapng",
        "--server=true",
        "--",
        "true",
    ];
    let said = refusal(&mut dir.altway(command));
    let error = "error: the backend netem can't do a packet log\n";
    assert!(said.contains(error), "{said}");
    assert!(said.contains("hint: use `--backend tun`"), "{said}");
}

fn can_make_namespaces() -> bool {
    let mut unshare = Command::new("unshare");
    let status = unshare.args(["-Urn", "true"]).status();
    status.is_ok_and(|status| status.success())
}
