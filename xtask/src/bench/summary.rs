//! Records become lines: medians, spreads, and ratios within the same round.

use super::bars;
use super::contender::Contender;
use super::record::Record;
use super::workload::{Cell, Workload};
use std::collections::BTreeMap;

/// What holds of one server in one cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) cell: Cell,
    pub(crate) server: Contender,
    /// Rounds that count.
    pub(crate) rounds: usize,
    pub(crate) invalid_rounds: usize,
    /// Microseconds of CPU time a request, or seconds a gigabyte.
    pub(crate) cost: Option<Spread>,
    pub(crate) requests_per_s: Option<Spread>,
    /// Highest of the rounds; for idle connections per 10,000 of them.
    pub(crate) memory_mb: Option<f64>,
    /// Microseconds, mean of a round and longest of it.
    pub(crate) latency_mean_us: Option<Spread>,
    pub(crate) latency_max_us: Option<Spread>,
    /// Of the connections, of the worker with most of them.
    pub(crate) busiest_share: Option<Spread>,
    /// altway's cost to this server's; of altway with another setting its cost to altway's.
    pub(crate) ratio: Option<Spread>,
    pub(crate) verdict: Option<Verdict>,
}

/// Median and range of the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// A bar, and whether it is reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) at_most: f64,
    pub(crate) met: bool,
    /// Of memory in MB; else of a ratio.
    pub(crate) is_memory: bool,
}

impl Spread {
    /// `None` of nothing.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        altway_stats::summarize(values).map(|summary| Self {
            median: summary.median,
            min: summary.min,
            max: summary.max,
        })
    }
}

/// A line for each server of each cell, cells in the order measured, servers in a fixed one.
pub(crate) fn summarize(records: &[Record]) -> Vec<Line> {
    let mut cells: Vec<Cell> = Vec::new();
    for record in records {
        if !cells.contains(&record.cell()) {
            cells.push(record.cell());
        }
    }
    let lines = cells.into_iter().flat_map(|cell| {
        let in_cell = records.iter().filter(|record| record.cell() == cell);
        lines(cell, &in_cell.collect::<Vec<_>>())
    });
    lines.collect()
}

fn lines(cell: Cell, records: &[&Record]) -> Vec<Line> {
    let mut by_server: BTreeMap<Contender, Vec<&Record>> = BTreeMap::new();
    for record in records {
        by_server.entry(record.server).or_default().push(record);
    }
    let altway = costs(by_server.get(&Contender::Altway).map_or(&[], Vec::as_slice));
    let lines = by_server
        .iter()
        .map(|(server, records)| line(cell, *server, records, &altway));
    lines.collect()
}

fn line(cell: Cell, server: Contender, records: &[&Record], altway: &Costs) -> Line {
    let valid: Vec<_> = records.iter().filter(|r| r.valid).copied().collect();
    let costs = costs(records);
    let rates: Vec<_> = valid.iter().map(|r| r.requests_per_s()).collect();
    let ratio = match server {
        Contender::Altway => None,
        variant if variant.is_variant() => ratios(&costs, altway),
        _ => ratios(altway, &costs),
    };
    let ratio = ratio.filter(|_| cell.workload != Workload::Idle);
    let memory_mb = valid.iter().map(|r| memory_mb(r)).reduce(f64::max);
    let spread = |figure: fn(&Record) -> Option<f64>| {
        let figures = valid.iter().filter_map(|record| figure(record));
        Spread::of(&figures.collect::<Vec<_>>())
    };
    Line {
        cell,
        server,
        rounds: valid.len(),
        invalid_rounds: records.len() - valid.len(),
        cost: Spread::of(&costs.values().copied().collect::<Vec<_>>()),
        requests_per_s: Spread::of(&rates),
        memory_mb,
        latency_mean_us: spread(|record| record.latency_mean_us),
        latency_max_us: spread(|record| record.latency_max_us),
        busiest_share: spread(|record| record.busiest_share),
        ratio,
        verdict: verdict(cell, server, ratio, memory_mb),
    }
}

/// Cost by round, of the rounds that count.
type Costs = BTreeMap<u32, f64>;

fn costs(records: &[&Record]) -> Costs {
    let valid = records.iter().filter(|record| record.valid);
    valid.map(|record| (record.round, record.cost())).collect()
}

/// Of the rounds in which both count.
fn ratios(ours: &Costs, theirs: &Costs) -> Option<Spread> {
    let paired = ours
        .iter()
        .filter_map(|(round, our)| Some(our / theirs.get(round)?));
    Spread::of(&paired.collect::<Vec<_>>())
}

fn memory_mb(record: &Record) -> f64 {
    let mb = record.memory_bytes as f64 / 1e6;
    match record.workload {
        Workload::Idle => mb * Workload::Idle.load().connections as f64 / record.connections as f64,
        _ => mb,
    }
}

fn verdict(
    cell: Cell,
    server: Contender,
    ratio: Option<Spread>,
    memory_mb: Option<f64>,
) -> Option<Verdict> {
    let is_memory = server == Contender::Altway;
    let (value, at_most) = if is_memory {
        (memory_mb?, bars::memory_mb(cell)?)
    } else {
        (ratio?.median, bars::ratio(cell, server)?)
    };
    Some(Verdict {
        at_most,
        met: value <= at_most,
        is_memory,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::cpu::{CpuTime, Source};
    use super::super::record::{Observation, Turn};
    use super::super::workload::Transport;
    use super::*;

    /// A record of W1 (or another workload) in clear text with a cost of `us` microseconds a request.
    pub(crate) fn record(server: Contender, workload: Workload, round: u32, us: u64) -> Record {
        let cell = Cell {
            workers: 1,
            workload,
            transport: Transport::H2c,
        };
        let load = workload.load();
        let turn = Turn {
            cell,
            round,
            turn: 1,
            server,
        };
        let seen = Observation {
            duration_s: 1.0,
            body_bytes: load.total_bytes(),
            cpu: CpuTime {
                nanoseconds: us * 1000 * load.requests,
                source: Source::Schedstat,
            },
            memory_bytes: 40_000_000,
            latency_mean_us: Some(2400.0),
            latency_max_us: Some(14_200.0),
            busiest_share: Some(0.55),
            ..Observation::default()
        };
        Record::new(turn, load, seen)
    }

    fn find(lines: &[Line], server: Contender) -> &Line {
        lines.iter().find(|line| line.server == server).unwrap()
    }

    #[test]
    fn ratios_pair_the_same_round() {
        // The machine is ten times slower in round 2: the ratios don't see it.
        let mut records = Vec::new();
        for (round, slow) in [(1, 1), (2, 10), (3, 1)] {
            records.push(record(Contender::Altway, Workload::W1, round, 2 * slow));
            records.push(record(Contender::H2o, Workload::W1, round, 5 * slow));
        }
        let lines = summarize(&records);
        let ratio = find(&lines, Contender::H2o).ratio.unwrap();
        assert_eq!((ratio.median, ratio.min, ratio.max), (0.4, 0.4, 0.4));
        let cost = find(&lines, Contender::H2o).cost.unwrap();
        assert_eq!((cost.median, cost.min, cost.max), (5.0, 5.0, 50.0));
    }

    #[test]
    fn an_invalid_round_counts_for_nothing() {
        let mut broken = record(Contender::H2o, Workload::W1, 1, 1);
        broken.valid = false;
        let records = [
            record(Contender::Altway, Workload::W1, 1, 2),
            broken,
            record(Contender::Altway, Workload::W1, 2, 2),
            record(Contender::H2o, Workload::W1, 2, 4),
        ];
        let lines = summarize(&records);
        let line = find(&lines, Contender::H2o);
        assert_eq!((line.rounds, line.invalid_rounds), (1, 1));
        assert_eq!(line.ratio.unwrap().median, 0.5);
    }

    #[test]
    fn a_bar_is_met_at_its_value_and_missed_above() {
        for (us, met) in [(45, true), (46, false)] {
            let records = [
                record(Contender::Altway, Workload::W1, 1, us),
                record(Contender::H2o, Workload::W1, 1, 100),
            ];
            let lines = summarize(&records);
            let verdict = find(&lines, Contender::H2o).verdict.unwrap();
            assert_eq!((verdict.at_most, verdict.met), (0.45, met));
        }
    }

    #[test]
    fn the_log_is_measured_against_altway_without_it() {
        let records = [
            record(Contender::Altway, Workload::W1, 1, 10),
            record(Contender::AltwayLog, Workload::W1, 1, 12),
        ];
        let lines = summarize(&records);
        let line = find(&lines, Contender::AltwayLog);
        assert_eq!(line.ratio.unwrap().median, 1.2);
        assert!(!line.verdict.unwrap().met);
    }

    #[test]
    fn idle_memory_is_given_for_ten_thousand_connections() {
        let mut idle = record(Contender::Altway, Workload::Idle, 1, 1);
        idle.connections = 1000;
        let lines = summarize(&[idle]);
        let line = find(&lines, Contender::Altway);
        assert_eq!(line.memory_mb, Some(400.0));
        assert!(!line.verdict.unwrap().met);
    }

    #[test]
    fn bulk_is_counted_in_seconds_a_gigabyte() {
        // 160 requests of 10 MB at 5000 µs: 0.8 s for 1.6 GB.
        let lines = summarize(&[record(Contender::Altway, Workload::W3, 1, 5000)]);
        assert_eq!(lines[0].cost.unwrap().median, 0.5);
    }
}
