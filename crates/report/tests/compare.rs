//! Two synthetic environments whose difference is known, held against each other.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod support;

use altway_record::{Manifest, Protocol, Sample, read_reference};
use altway_report::{
    Axis, CellContrast, Contrast, Error, Estimate, NamedRun, PartContrast, Run, compare,
    compare_by, compare_with_reference,
};
use support::{manifest, samples};

/// HTTP/3 crosses at 52 ms: 5 % of 1.664 s are 0.8 round trips.
const PLAN: &str = "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms..100ms by 50ms\"\nsize = \"1MB\"\n\
                    pairs = 15\n";

/// A run of its own: other noise than that of another seed.
struct Environment {
    manifest: Manifest,
    samples: Vec<Sample>,
}

impl Environment {
    fn new(toml: &str, seed: u64) -> Self {
        let manifest = manifest(&format!("{toml}seed = {seed}\n"));
        let samples = samples(&manifest.plan);
        Self { manifest, samples }
    }

    /// Later by so much in the set-up of a protocol's connections.
    fn slower_to_set_up(mut self, protocol: Protocol, micros: u64) -> Self {
        for sample in self
            .samples
            .iter_mut()
            .filter(|one| one.protocol == protocol)
        {
            for time in [
                &mut sample.connect_us,
                &mut sample.first_byte_us,
                &mut sample.total_us,
                &mut sample.compared_us,
            ] {
                *time = time.map(|time| time + micros);
            }
        }
        self
    }

    /// A protocol's times by a factor.
    fn times(mut self, protocol: Protocol, per_cent: u64) -> Self {
        for sample in self
            .samples
            .iter_mut()
            .filter(|one| one.protocol == protocol)
        {
            for time in [
                &mut sample.connect_us,
                &mut sample.first_byte_us,
                &mut sample.total_us,
                &mut sample.compared_us,
            ] {
                *time = time.map(|time| time * per_cent / 100);
            }
        }
        self
    }

    fn run(&self) -> Run<'_> {
        Run {
            manifest: &self.manifest,
            samples: &self.samples,
        }
    }
}

fn contrast(a: &Environment, b: &Environment) -> Result<Contrast, Error> {
    compare(
        &NamedRun {
            name: "runs/a",
            run: a.run(),
        },
        &NamedRun {
            name: "runs/b",
            run: b.run(),
        },
    )
}

fn cells(contrast: &Contrast) -> &[CellContrast] {
    assert_eq!(contrast.series.len(), 1);
    &contrast.series[0].cells
}

#[track_caller]
fn assert_covers(estimate: &Estimate, truth: f64) {
    let covers = estimate.low.unwrap() <= truth && truth <= estimate.high.unwrap();
    assert!(covers, "{truth} in {estimate:?}");
}

fn part<'a>(cell: &'a CellContrast, name: &str) -> &'a PartContrast {
    cell.parts.iter().find(|part| part.part == name).unwrap()
}

#[test]
fn two_runs_alike_have_no_clear_difference() {
    let contrast = contrast(&Environment::new(PLAN, 1), &Environment::new(PLAN, 2)).unwrap();
    for cell in cells(&contrast) {
        assert!(cell.change_percent.value.abs() < 2.0, "{cell:?}");
        assert_eq!((cell.a.pairs, cell.b.pairs), (15, 15));
    }
    let series = &contrast.series[0];
    assert_covers(&series.crossover_shift_ms.unwrap(), 0.0);
    assert_covers(&series.growth_a.unwrap().first, 10.0);
    assert_covers(&series.growth_b.unwrap().second, 8.4);
    let said = contrast.findings.join(" ");
    assert!(said.contains("At none of 3 delays"), "{said}");
    assert!(said.contains("which may be luck"), "{said}");
}

#[test]
fn a_factor_on_one_protocol_is_the_change_of_its_difference() {
    let b = Environment::new(PLAN, 2).times(Protocol::H3, 90);
    let contrast = contrast(&Environment::new(PLAN, 1), &b).unwrap();
    for cell in cells(&contrast) {
        assert_covers(&cell.change_percent, -10.0);
        assert!(cell.p_adjusted < 0.01);
        assert!(part(cell, "whole").second_ms.value < -150.0);
    }
    let said = contrast.findings.join(" ");
    assert!(said.contains("At 3 of 3 delays"), "{said}");
    assert!(said.contains("better there at 3, worse at 0"), "{said}");
}

#[test]
fn a_constant_in_the_set_up_moves_the_crossover_and_is_found_there() {
    // 32 ms are 0.8 round trips of 40 ms: the crossover moves by 20 ms.
    let plan = PLAN.replace("by 50ms", "by 25ms");
    let b = Environment::new(&plan, 2).slower_to_set_up(Protocol::H3, 32_000);
    let contrast = contrast(&Environment::new(&plan, 1), &b).unwrap();
    let series = &contrast.series[0];
    assert_covers(&series.crossover_a.at_ms.unwrap(), 52.0);
    assert_covers(&series.crossover_b.at_ms.unwrap(), 72.0);
    assert_covers(&series.crossover_shift_ms.unwrap(), 20.0);
    for cell in cells(&contrast) {
        let set_up = part(cell, "set-up");
        assert!((set_up.second_ms.value - 32.0).abs() < 3.0, "{set_up:?}");
        assert!(set_up.first_ms.value.abs() < 3.0, "{set_up:?}");
        assert!((set_up.lead_ms.value - 32.0).abs() < 3.0, "{set_up:?}");
        if let Some(share) = set_up.share_percent {
            let all: f64 = cell
                .parts
                .iter()
                .filter_map(|part| part.share_percent)
                .sum();
            assert!(
                (all - 100.0).abs() < 1e-6 && share > 50.0,
                "{share} of {all}"
            );
        }
    }
    let said = contrast.findings.join(" ");
    assert!(
        said.contains("HTTP/3 becomes faster at 72.7 ms (95 % 50.0 to 100.0)"),
        "{said}"
    );
    assert!(said.contains("At 50 ms HTTP/3 loses 3"), "{said}");
    assert!(said.contains("% in setting the connection up"), "{said}");
    // Of delays 25 ms apart a crossover may lie anywhere between two, so a move of 20 ms may be none.
    assert!(said.contains("which may be luck"), "{said}");
}

#[test]
fn the_same_records_give_the_same_comparison() {
    let (a, b) = (Environment::new(PLAN, 1), Environment::new(PLAN, 2));
    assert_eq!(contrast(&a, &b).unwrap(), contrast(&a, &b).unwrap());
}

#[test]
fn what_one_side_has_alone_is_named_and_not_dropped() {
    let more = PLAN.replace("\"5mbit\"", "[\"5mbit\", \"9mbit\"]");
    let other_delays = PLAN.replace("0ms..100ms by 50ms", "0ms..150ms by 75ms");
    let contrast = contrast(
        &Environment::new(&more, 1),
        &Environment::new(&other_delays, 2),
    )
    .unwrap();
    let delays: Vec<u64> = cells(&contrast).iter().map(|cell| cell.delay_us).collect();
    assert_eq!(delays, [0]);
    assert_eq!(
        contrast.only_in_a,
        [
            "5 Mbit/s · 0 % loss · 1 MB · client altway · server altway at 50 ms and 100 ms",
            "9 Mbit/s · 0 % loss · 1 MB · client altway · server altway"
        ]
    );
    assert_eq!(
        contrast.only_in_b,
        ["5 Mbit/s · 0 % loss · 1 MB · client altway · server altway at 75 ms and 150 ms"]
    );
    let table = contrast.table();
    assert!(
        table.contains("Measured in A alone, and left out above:"),
        "{table}"
    );
}

#[test]
fn topologies_of_one_run_are_held_against_the_first() {
    let plan = format!("{PLAN}topology = [\"direct\", \"router\", \"proxied\"]\n");
    let mut run = Environment::new(&plan, 1);
    let behind_proxies =
        |one: &&mut Sample| one.topology.to_string() == "proxied" && one.protocol == Protocol::H2;
    for sample in run.samples.iter_mut().filter(behind_proxies) {
        sample.compared_us = sample.compared_us.map(|time| time * 11 / 10);
        sample.total_us = sample.compared_us;
    }
    let found = compare_by(&run.run(), Axis::Topology).unwrap();
    let names: Vec<_> = found
        .iter()
        .map(|one| (one.a.as_str(), one.b.as_str()))
        .collect();
    assert_eq!(names, [("direct", "router"), ("direct", "proxied")]);
    assert_eq!(
        found[0].series[0].condition,
        "5 Mbit/s · 0 % loss · 1 MB · client altway · server altway"
    );
    let change = |contrast: &Contrast| cells(contrast)[1].change_percent.value;
    assert!(change(&found[0]).abs() < 2.0);
    assert!(
        (change(&found[1]) - -9.1).abs() < 2.0,
        "{}",
        change(&found[1])
    );
    let added = part(&cells(&found[1])[0], "transfer");
    assert!((added.first_ms.value - 166.0).abs() < 10.0, "{added:?}");
}

#[test]
fn two_runs_of_one_topology_each_are_compared_over_it() {
    let proxied = format!("{PLAN}topology = \"proxied\"\n");
    let contrast = contrast(&Environment::new(PLAN, 1), &Environment::new(&proxied, 2)).unwrap();
    assert_eq!(contrast.a, "direct (runs/a)");
    assert_eq!(contrast.b, "proxied (runs/b)");
    assert_eq!(cells(&contrast).len(), 3);
    assert!(contrast.only_in_a.is_empty());
}

#[test]
fn one_delay_is_compared_without_talk_of_crossovers() {
    let plan = PLAN.replace("0ms..100ms by 50ms", "50ms");
    let b = Environment::new(&plan, 2).times(Protocol::H3, 90);
    let contrast = contrast(&Environment::new(&plan, 1), &b).unwrap();
    let table = contrast.table();
    assert!(!table.to_lowercase().contains("crossover"), "{table}");
    assert!(
        table.contains("HTTP/3's difference from HTTP/2 is clearly another"),
        "{table}"
    );
    assert!(table.contains("At 50 ms HTTP/3 gains"), "{table}");
}

#[test]
fn tables_fit_a_terminal_of_100_columns() {
    let a = Environment::new(PLAN, 1);
    let b = Environment::new(PLAN, 2).times(Protocol::H2, 140);
    let table = contrast(&a, &b).unwrap().table();
    let widest = table.lines().map(|line| line.chars().count()).max();
    assert!(widest.unwrap() <= 100, "{table}");
}

#[test]
fn what_differs_beside_the_conditions_is_said() {
    let mut b = Environment::new(PLAN, 2);
    b.manifest.link.backend = "netem".into();
    b.manifest.altway_commit = None;
    let contrast = contrast(&Environment::new(PLAN, 1), &b).unwrap();
    assert_eq!(
        contrast.also_different,
        [
            "altway: 0.1.0 (0123456789ab) in A, 0.1.0 (no commit) in B",
            "backend: tun in A, netem in B"
        ]
    );
}

#[track_caller]
fn assert_refused(a: &str, b: &str, words: &str) {
    let error = contrast(&Environment::new(a, 1), &Environment::new(b, 2)).unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn runs_that_have_nothing_in_common_are_refused() {
    assert_refused(PLAN, &PLAN.replace("1MB", "2MB"), "1 MB against 2 MB");
    let ten = PLAN.replace("0ms..100ms by 50ms", "10ms");
    assert_refused(
        &ten,
        &PLAN.replace("5mbit", "6mbit"),
        "5 Mbit/s against 6 Mbit/s",
    );
    let page = PLAN.replace("size = \"1MB\"\n", "scenario = \"page\"\n");
    assert_refused(PLAN, &page, "their times are of different kinds");
    let others = format!("{PLAN}protocols = [\"h3\", \"h2\"]\n");
    assert_refused(PLAN, &others, "against HTTP/2, the other against HTTP/3");
    let one = format!("{PLAN}protocols = [\"h2\", \"h1\"]\n");
    assert_refused(PLAN, &one, "no protocol in common");
    let alone = format!("{PLAN}protocols = \"h2\"\n");
    assert_refused(PLAN, &alone, "no pair of two protocols");
}

#[test]
fn a_run_with_one_topology_has_nothing_to_be_held_against() {
    let error = compare_by(&Environment::new(PLAN, 1).run(), Axis::Topology).unwrap_err();
    let text = "the run has one topology only, direct: there is nothing to compare it with";
    assert_eq!(error.to_string(), text);
    let mut empty = Environment::new(PLAN, 1);
    empty.samples.clear();
    assert!(matches!(
        compare_by(&empty.run(), Axis::Topology),
        Err(Error::NothingMeasured)
    ));
}

/// The published means of an earlier lab, its direct environment.
const REFERENCE: &str = "\
rate_bps,delay_us,size_bytes,protocol,mean_us
5000000,0,1000000,h2,1761000
5000000,0,1000000,h3,1888000
5000000,50000,1000000,h2,2169000
5000000,50000,1000000,h3,2166000
5000000,100000,1000000,h2,2608000
5000000,100000,1000000,h3,2000000
5000000,170000,1000000,h2,2608000
";

#[test]
fn reference_figures_stand_beside_a_run_s_own() {
    let run = Environment::new(PLAN, 1);
    let rows = read_reference(REFERENCE).unwrap();
    let found = compare_with_reference(&run.run(), &rows).unwrap();
    let series = &found.series[0];
    let cells = &series.cells;
    assert_eq!(cells.len(), 3);
    assert_eq!(
        cells.iter().map(|cell| cell.agrees).collect::<Vec<_>>(),
        [true, true, false]
    );
    assert!((cells[0].reference_difference_percent - 7.2).abs() < 0.05);
    assert_covers(&cells[0].first_mean_us, 1_664_000.0);
    assert!((series.reference_crossovers_ms[0] - 48.8).abs() < 0.1);
    assert_eq!(
        found.only_in_reference,
        ["direct · 5 Mbit/s · 0 % loss · 1 MB at 170 ms"]
    );
    let table = found.table();
    assert!(table.contains("agrees at 2 of 3 delays"), "{table}");
    assert!(
        table.lines().all(|line| line.chars().count() <= 100),
        "{table}"
    );
}

#[test]
fn a_reference_of_other_conditions_is_refused() {
    let run = Environment::new(PLAN, 1);
    let rows = read_reference(&REFERENCE.replace("1000000,h", "7000000,h")).unwrap();
    let error = compare_with_reference(&run.run(), &rows).unwrap_err();
    assert!(
        error.to_string().contains("no measured cell in common"),
        "{error}"
    );
}

/// Returns the server's processor time, in the order of the columns.
fn processor_time(a: &Environment, b: &Environment) -> Option<[Option<f64>; 4]> {
    let contrast = contrast(a, b).unwrap();
    let name = "processor time of the server (ms)";
    let mut rows = contrast.series[0].circumstances.iter();
    let row = rows.find(|row| row.name == name);
    assert_eq!(contrast.table().contains(name), row.is_some());
    row.map(|row| [row.first_a, row.first_b, row.second_a, row.second_b])
}

#[test]
fn processor_time_is_held_against_each_other_where_both_runs_have_it() {
    let a = Environment::new(PLAN, 1);
    let mut b = Environment::new(PLAN, 2);
    let second = |one: &&mut Sample| one.protocol == Protocol::H3;
    for sample in b.samples.iter_mut().filter(second) {
        sample.server_cpu_us = Some(12_500);
    }
    let expected = [10.0, 10.0, 10.0, 12.5].map(Some);
    assert_eq!(processor_time(&a, &b), Some(expected));
    for sample in &mut b.samples {
        sample.server_cpu_us = None;
    }
    assert_eq!(processor_time(&a, &b), None);
}
