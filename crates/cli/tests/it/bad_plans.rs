//! Plans that are none: each gets one clear sentence, a hint and exit code 2, and nothing is left behind.

use crate::common::{Dir, assert_error};

const PLAN: &str = "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms\"\nsize = \"1MB\"\npairs = 1\n";

fn assert_bad_plan(plan: &str, error: &str) {
    let dir = Dir::new();
    dir.file("p.toml", plan);
    assert_error(
        &mut dir.altway(["lab", "run", "p.toml"]),
        error,
        "the plans that ship are examples",
    );
    assert!(
        !dir.path().join("runs").exists(),
        "a run folder was left behind"
    );
}

#[test]
fn a_plan_with_an_unknown_key() {
    let plan = PLAN.replace("delay", "dealy");
    assert_bad_plan(
        &plan,
        "p.toml is not a plan: line 3, column 1: unknown key `dealy`; did you mean `delay`?",
    );
}

#[test]
fn a_plan_with_a_negative_rate() {
    let plan = PLAN.replace("5mbit", "-5mbit");
    assert_bad_plan(
        &plan,
        "line 2, column 1: `rate`: `-5mbit` is not a bandwidth: it can't be negative",
    );
}

#[test]
fn a_plan_with_a_loss_of_150_percent() {
    let plan = format!("{PLAN}loss = \"150%\"\n");
    assert_bad_plan(
        &plan,
        "line 6, column 1: `loss`: `150%` is not a ratio: it must be from 0% to 100%",
    );
}

#[test]
fn a_plan_whose_values_are_no_values() {
    for (more, error) in [
        (
            "timeout = \"60\"",
            "line 6, column 1: `timeout`: `60` is not a duration: ",
        ),
        (
            "warm_ups = \"one\"",
            "TOML parse error at line 6, column 12",
        ),
        (
            "loss = [\"1%\", \"1%\"]",
            "line 6, column 1: `loss`: `1%` stands twice",
        ),
    ] {
        assert_bad_plan(&format!("{PLAN}{more}\n"), error);
    }
}

#[test]
fn a_plan_that_is_not_there() {
    let dir = Dir::new();
    let mut run = dir.altway(["lab", "run", "nothing"]);
    let hint = "the plans that ship are quick, delay-sweep, ";
    assert_error(&mut run, "there is no plan `nothing`", hint);
}

#[test]
fn a_plan_with_a_loss_without_a_unit() {
    assert_bad_plan(
        &format!("{PLAN}loss = \"1\"\n"),
        "line 6, column 1: `loss`: `1` is not a ratio: without a unit it may mean 1% (as in tc), or 100%",
    );
}

#[test]
fn a_folder_as_a_plan() {
    let dir = Dir::new();
    dir.file("runs/a/plan.toml", PLAN);
    assert_error(
        &mut dir.altway(["lab", "run", "runs/a"]),
        "runs/a is a folder, and a plan is a TOML file",
        "`altway lab resume RUN` goes on with a run",
    );
}
