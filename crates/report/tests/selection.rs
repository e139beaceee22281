//! The tables of policies, from synthetic sessions with a known truth.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod support;

use altway_record::{Manifest, Plan, Policy, Protocol, Sample};
use altway_report::{Run, render};
use support::{manifest, sample};

const PLAN: &str = "name = \"p\"\nrate = \"50mbit\"\ndelay = [\"0ms\", \"25ms\"]\nsize = \"1MB\"\npairs = 4\n\
                    policy = [\"h2\", \"h3\", \"study\", \"learned\"]";

/// Seconds of the sessions of a policy: over HTTP/2 one session takes 100 ms. Over HTTP/3 it takes 120 ms at
/// 0 ms and 80 ms at 25 ms, and the session that moves there 10 % more.
fn sessions(policy: Policy, far: bool) -> [(u64, Protocol); 3] {
    let h2 = (100_000, Protocol::H2);
    let (h3, moving) = match far {
        true => ((80_000, Protocol::H3), (88_000, Protocol::H3)),
        false => ((120_000, Protocol::H3), (132_000, Protocol::H3)),
    };
    match policy {
        Policy::H2 => [h2; 3],
        Policy::H3 => [moving, h3, h3],
        // It moves, stays, and has forgotten.
        Policy::Study => [moving, h3, h2],
        Policy::Learned if far => [moving, h3, h3],
        Policy::Learned => [h2; 3],
    }
}

fn run(plan: &Plan) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut ordinal = 0;
    for block in 0..plan.pairs {
        for cell in plan.cells() {
            for arm in plan.arms() {
                let policy = arm.policy.unwrap();
                let made = sessions(policy, !cell.delay.is_zero());
                let sum = made.iter().map(|(time, _)| time).sum();
                let mut start = 0;
                for (session, (time, used)) in (0..).zip(made) {
                    samples.push(Sample {
                        request: session,
                        requests: 3,
                        session,
                        null_arm: arm.null_arm,
                        policy: arm.policy,
                        protocol_used: Some(used),
                        start_us: start,
                        compared_us: Some(sum),
                        ..sample(ordinal, block, &cell, arm.protocol, time)
                    });
                    start += time + 1_000;
                }
                ordinal += 1;
            }
        }
    }
    samples
}

#[test]
fn transfers_whose_server_chose_count_as_the_others() {
    let manifest = manifest(PLAN);
    let mut samples = run(&manifest.plan);
    let all = samples.iter().map(|sample| sample.ordinal).max().unwrap() + 1;
    let learned = samples.iter().find(|it| it.policy == Some(Policy::Learned));
    let failed = learned.unwrap().ordinal;
    for sample in samples.iter_mut().filter(|it| it.ordinal == failed) {
        sample.valid = false;
        sample.fault = "request 0: timed out after 60s".into();
    }
    let rendered = render(&Run {
        manifest: &manifest,
        samples: &samples,
    })
    .unwrap();
    let sentence = format!("1 of {all} transfers was invalid and measured again.");
    assert!(rendered.table.contains(&sentence), "{}", rendered.table);
    let sentence = "1 transfer of learned ran into the time-out and was made again";
    assert!(rendered.html.contains(sentence), "{}", rendered.table);
    let counted = format!("{} of {all}", all - 1);
    assert!(rendered.html.contains(&counted), "no {counted}");
}

/// The cells of the line that begins like this.
fn line<'t>(table: &'t str, begin: &str) -> Vec<&'t str> {
    let found = table
        .lines()
        .find(|line| line.trim_start().starts_with(begin));
    let columns = found.unwrap_or_else(|| panic!("no {begin} in\n{table}"));
    columns
        .split("  ")
        .map(str::trim)
        .filter(|one| !one.is_empty())
        .collect()
}

#[test]
fn policies_are_held_against_the_better_protocol_of_each_cell() {
    let manifest = manifest(PLAN);
    let samples = run(&manifest.plan);
    let rendered = render(&Run {
        manifest: &manifest,
        samples: &samples,
    })
    .unwrap();
    let table = &rendered.table;
    // 120 for 100 at 0 ms, 100 for 80 at 25 ms; the better one is right by itself from the second session on.
    assert_eq!(
        line(table, "0 ms   h2"),
        [
            "0 ms",
            "h2",
            "0.0",
            "+23.9",
            "+16.6 (67)",
            "0.0 (0)",
            "+10.0"
        ]
    );
    assert_eq!(
        line(table, "25 ms  h3"),
        [
            "25 ms",
            "h3",
            "+25.0",
            "+3.2",
            "+11.2 (67)",
            "+3.2 (100)",
            "+10.0"
        ]
    );
    assert_eq!(
        line(table, "learned "),
        [
            "learned", "8", "+4.9 %", "0.0 %", "0.0 %", "+1.6 %", "+3.2 %", "50 %"
        ]
    );
    assert_eq!(
        line(table, "study "),
        [
            "study", "8", "+20.5 %", "+9.5 %", "+11.8 %", "+13.9 %", "+16.6 %", "67 %"
        ]
    );
    assert!(
        table.lines().all(|line| line.chars().count() <= 100),
        "{table}"
    );
    // Against `h2`, eight pairs of which four are equal and four are shorter by 17 %.
    assert!(
        table.contains("No winner: learned had the shortest sessions, −9.1 % (95 %:"),
        "{table}"
    );
    assert!(!table.contains("never went over HTTP/3"), "{table}");
    assert!(rendered.html.contains("Policies of the server"));
    assert!(!table.contains("planned transfers are measured"), "{table}");
}

#[test]
fn the_null_arm_says_how_much_is_noise() {
    let with_null = Manifest {
        plan: Plan {
            null_arm: true,
            ..manifest(PLAN).plan
        },
        ..manifest(PLAN)
    };
    let mut samples = run(&with_null.plan);
    for sample in samples.iter_mut().filter(|one| one.null_arm) {
        sample.total_us = sample.total_us.map(|time| time * 11 / 10);
    }
    let run = Run {
        manifest: &with_null,
        samples: &samples,
    };
    let table = render(&run).unwrap().table;
    // HTTP/2 is right at 0 ms and takes a quarter more at 25 ms; the null arm takes 10 % more than it.
    let of = |name| line(&table, name)[1..6].to_vec();
    assert_eq!(
        of("h2  "),
        ["8", "+11.8 %", "+11.8 %", "+11.8 %", "+11.8 %"]
    );
    assert_eq!(
        of("h2 again"),
        ["8", "+23.0 %", "+23.0 %", "+23.0 %", "+23.0 %"]
    );
    assert!(table.contains("is noise"), "{table}");
}

#[test]
fn what_chose_the_protocol_is_no_transfer_of_either() {
    let manifest = manifest(PLAN);
    let samples = run(&manifest.plan);
    let rendered = render(&Run {
        manifest: &manifest,
        samples: &samples,
    })
    .unwrap();
    let of = |protocol| {
        let rows = rendered
            .summary
            .iter()
            .filter(move |row| row.protocol == protocol);
        rows.map(|row| (row.n, row.median_us)).collect::<Vec<_>>()
    };
    assert_eq!(
        of(Protocol::H3),
        [(4, Some(372_000.0)), (4, Some(248_000.0))]
    );
}

#[test]
fn a_run_that_has_not_begun_has_no_cells_to_tell() {
    let manifest = manifest(PLAN);
    let rendered = render(&Run {
        manifest: &manifest,
        samples: &[],
    })
    .unwrap();
    assert!(
        rendered.table.contains("No transfer has been measured yet"),
        "{}",
        rendered.table
    );
}

#[test]
fn a_choice_stands_beside_what_was_measured() {
    let manifest = manifest(PLAN);
    let samples = run(&manifest.plan);
    let run = Run {
        manifest: &manifest,
        samples: &samples,
    };
    let choose = |cell: &altway_record::Cell| altway_report::Choice {
        protocol: Protocol::H2,
        predicted: -cell.delay.as_secs_f64(),
    };
    let text = altway_report::choices(&run, &choose).unwrap().unwrap();
    let link = "50 Mbit/s · 0 % loss · 1 MB · client altway · server altway";
    assert_eq!(
        line(&text, "0 ms "),
        [
            "0 ms", "300.0 ms", "372.0 ms", "+24.0 %", "0.0 %", "HTTP/2", link
        ]
    );
    assert_eq!(
        line(&text, "25 ms "),
        [
            "25 ms",
            "300.0 ms",
            "248.0 ms",
            "−17.3 %",
            "−2.5 %",
            "HTTP/2",
            link
        ]
    );
    assert!(text.contains("The faster median in 1 of 2 cells"), "{text}");
    let none = Run {
        samples: &[],
        ..run
    };
    assert_eq!(altway_report::choices(&none, &choose).unwrap(), None);
}
