//! Records become lines: medians, spreads, and ratios within the same round.

use super::bars::{self, Figure, OwnBar};
use super::contender::Contender;
use super::record::Record;
use super::workload::{Cell, Workload};
use std::collections::BTreeMap;

/// Figures of one server in one cell.
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
    /// Memory that an idle connection added to it, KB; highest of the rounds.
    pub(crate) connection_kb: Option<f64>,
    /// Datagrams that found the server's socket full, in all rounds together.
    pub(crate) datagrams_lost: Option<u64>,
    /// Microseconds, mean of a round and longest of it.
    pub(crate) latency_mean_us: Option<Spread>,
    pub(crate) latency_max_us: Option<Spread>,
    pub(crate) latency_p50_us: Option<Spread>,
    pub(crate) latency_p99_us: Option<Spread>,
    /// Additions to them over asking the origin directly, in the same rounds.
    pub(crate) added_p50_us: Option<Spread>,
    pub(crate) added_p99_us: Option<Spread>,
    /// Memory that idle clients added, MB for as many as the workload has; highest of the rounds.
    pub(crate) added_mb: Option<f64>,
    /// Share of the connections that the worker with most of them has.
    pub(crate) busiest_share: Option<Spread>,
    /// altway's cost to this server's; of altway with another setting its cost to altway's.
    pub(crate) ratio: Option<Spread>,
    pub(crate) verdicts: Vec<Verdict>,
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
    /// Figure that it is of; `None`: a ratio.
    pub(crate) figure: Option<Figure>,
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
    let of = |server| by_server.get(&server).map_or(&[][..], Vec::as_slice);
    let beside = BaselineRecords {
        altway: costs(of(Contender::Altway)),
        direct: of(Contender::Direct),
    };
    let lines = by_server
        .iter()
        .map(|(server, records)| line(cell, *server, records, &beside));
    lines.collect()
}

/// Records that the servers of a cell are held against.
struct BaselineRecords<'a> {
    altway: Costs,
    /// The origin, where it is asked without a proxy.
    direct: &'a [&'a Record],
}

fn line(cell: Cell, server: Contender, records: &[&Record], beside: &BaselineRecords) -> Line {
    let valid: Vec<_> = records.iter().filter(|r| r.valid).copied().collect();
    let costs = costs(records);
    let rates: Vec<_> = valid.iter().map(|r| r.requests_per_s()).collect();
    let ratio = match server {
        Contender::Altway => None,
        variant if variant.is_variant() => ratios(&costs, &beside.altway),
        _ => ratios(&beside.altway, &costs),
    };
    let compares_cost = !cell.workload.is_idle() && cell.workload != Workload::ProxyLatency;
    let ratio = ratio.filter(|_| compares_cost);
    let memory_mb = valid.iter().map(|r| memory_mb(r)).reduce(f64::max);
    let connection_kb = valid.iter().filter_map(|r| r.connection_kb());
    let added_mb = valid.iter().filter_map(|r| r.added_mb());
    let spread = |figure: fn(&Record) -> Option<f64>| {
        let figures = valid.iter().filter_map(|record| figure(record));
        Spread::of(&figures.collect::<Vec<_>>())
    };
    let mut line = Line {
        cell,
        server,
        rounds: valid.len(),
        invalid_rounds: records.len() - valid.len(),
        cost: Spread::of(&costs.values().copied().collect::<Vec<_>>()),
        requests_per_s: Spread::of(&rates),
        memory_mb,
        connection_kb: connection_kb.reduce(f64::max),
        datagrams_lost: valid
            .iter()
            .filter_map(|r| r.datagrams_lost)
            .reduce(|a, b| a + b),
        latency_mean_us: spread(|record| record.latency_mean_us),
        latency_max_us: spread(|record| record.latency_max_us),
        latency_p50_us: spread(|record| record.latency_p50_us),
        latency_p99_us: spread(|record| record.latency_p99_us),
        added_p50_us: added(server, &valid, beside, |record| record.latency_p50_us),
        added_p99_us: added(server, &valid, beside, |record| record.latency_p99_us),
        added_mb: added_mb.reduce(f64::max),
        busiest_share: spread(|record| record.busiest_share),
        ratio,
        verdicts: Vec::new(),
    };
    line.verdicts = match server {
        Contender::Altway => own_verdicts(&line),
        _ => ratio_verdict(&line).into_iter().collect(),
    };
    line
}

/// The latency that `server` adds to the origin's, in the rounds in which both count.
fn added(
    server: Contender,
    valid: &[&Record],
    beside: &BaselineRecords,
    latency: fn(&Record) -> Option<f64>,
) -> Option<Spread> {
    let direct = beside.direct.iter().filter(|record| record.valid);
    let direct: BTreeMap<u32, f64> = direct
        .filter_map(|record| Some((record.round, latency(record)?)))
        .collect();
    let paired = valid
        .iter()
        .filter(|_| server != Contender::Direct)
        .filter_map(|record| Some(latency(record)? - direct.get(&record.round)?));
    Spread::of(&paired.collect::<Vec<_>>())
}

/// Cost by round, of the rounds that count.
type Costs = BTreeMap<u32, f64>;

fn costs(records: &[&Record]) -> Costs {
    let valid = records.iter().filter(|record| record.valid);
    valid.map(|record| (record.round, record.cost())).collect()
}

/// Ratios in the rounds in which both count.
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

fn own_verdicts(line: &Line) -> Vec<Verdict> {
    let verdict = |bar: OwnBar| {
        let value = match bar.figure {
            Figure::MemoryMb => line.memory_mb,
            Figure::ConnectionKb => line.connection_kb,
            Figure::DatagramsLost => line.datagrams_lost.map(|lost| lost as f64),
            Figure::AddedMb => line.added_mb,
            Figure::AddedP50Us => line.added_p50_us.map(|added| added.median),
            Figure::AddedP99Us => line.added_p99_us.map(|added| added.median),
        };
        Some(Verdict {
            at_most: bar.at_most,
            met: value? <= bar.at_most,
            figure: Some(bar.figure),
        })
    };
    bars::own_bars(line.cell).filter_map(verdict).collect()
}

fn ratio_verdict(line: &Line) -> Option<Verdict> {
    let at_most = bars::ratio(line.cell, line.server)?;
    Some(Verdict {
        at_most,
        met: line.ratio?.median <= at_most,
        figure: None,
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
        record_over(Transport::H2c, server, workload, round, us)
    }

    /// The same over another transport.
    pub(crate) fn record_over(
        transport: Transport,
        server: Contender,
        workload: Workload,
        round: u32,
        us: u64,
    ) -> Record {
        let cell = Cell {
            workers: 1,
            workload,
            transport,
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
            let verdict = find(&lines, Contender::H2o).verdicts[0];
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
        assert!(!line.verdicts[0].met);
    }

    #[test]
    fn idle_memory_is_given_for_ten_thousand_connections() {
        let mut idle = record_over(Transport::Tls, Contender::Altway, Workload::Idle, 1, 1);
        idle.connections = 1000;
        let lines = summarize(&[idle]);
        let line = find(&lines, Contender::Altway);
        assert_eq!(line.memory_mb, Some(400.0));
        assert!(!line.verdicts[0].met);
    }

    #[test]
    fn an_idle_connection_of_http3_costs_what_it_added() {
        for (added_kb, met) in [(30, true), (31, false)] {
            let mut idle = record_over(Transport::H3, Contender::Altway, Workload::Idle, 1, 1);
            let before = 8_000_000;
            idle.memory_before_bytes = Some(before);
            idle.memory_bytes = before + added_kb * 1000 * idle.connections;
            let lines = summarize(&[idle]);
            assert_eq!(lines[0].connection_kb, Some(added_kb as f64));
            let verdict = lines[0].verdicts[0];
            assert_eq!(
                (verdict.met, verdict.figure),
                (met, Some(Figure::ConnectionKb))
            );
        }
    }

    fn paced(server: Contender, round: u32, p50: f64, p99: f64) -> Record {
        Record {
            latency_p50_us: Some(p50),
            latency_p99_us: Some(p99),
            ..record_over(Transport::Tls, server, Workload::ProxyLatency, round, 1)
        }
    }

    #[test]
    fn what_a_proxy_adds_is_over_the_origin_in_the_same_round() {
        // In round 2 the machine is slower for both.
        let records = [
            paced(Contender::Direct, 1, 100.0, 300.0),
            paced(Contender::Altway, 1, 180.0, 1_200.0),
            paced(Contender::Direct, 2, 900.0, 4_000.0),
            paced(Contender::Altway, 2, 1_000.0, 5_200.0),
            // Without a round of the origin there is nothing to hold it against.
            paced(Contender::Altway, 3, 9_000.0, 9_000.0),
        ];
        let lines = summarize(&records);
        let line = find(&lines, Contender::Altway);
        let added = line.added_p50_us.unwrap();
        assert_eq!((added.min, added.max), (80.0, 100.0));
        let met: Vec<_> = line.verdicts.iter().map(|bar| bar.met).collect();
        assert_eq!(met, [true, false]);
        assert_eq!(find(&lines, Contender::Direct).added_p50_us, None);
        assert_eq!(find(&lines, Contender::Direct).ratio, None);
    }

    #[test]
    fn idle_clients_of_a_proxy_count_with_what_they_add() {
        for (added_kb, met) in [(15, true), (16, false)] {
            let cell = |server| record_over(Transport::Tls, server, Workload::ProxyIdle, 1, 1);
            let mut idle = cell(Contender::Altway);
            idle.connections = 5_000;
            idle.memory_before_bytes = Some(30_000_000);
            idle.memory_bytes = 30_000_000 + added_kb * 1000 * idle.connections;
            let lines = summarize(&[idle]);
            assert_eq!(lines[0].added_mb, Some(added_kb as f64 * 10.0));
            assert_eq!(lines[0].verdicts[0].met, met);
        }
    }

    #[test]
    fn a_ramp_may_lose_no_datagram_in_any_round() {
        let ramp = |round, lost| Record {
            datagrams_lost: Some(lost),
            ..record_over(Transport::H3, Contender::Altway, Workload::Ramp, round, 1)
        };
        let verdict = |lost| summarize(&[ramp(1, 0), ramp(2, lost)])[0].verdicts[0];
        assert!(verdict(0).met);
        assert!(!verdict(1).met);
    }

    #[test]
    fn http3_is_set_beside_our_own_http2_in_the_same_round() {
        let over = |server, us| record_over(Transport::H3, server, Workload::Hq2, 1, us);
        let lines = summarize(&[over(Contender::Altway, 14), over(Contender::AltwayH2, 10)]);
        let line = find(&lines, Contender::AltwayH2);
        assert_eq!(line.ratio.unwrap().median, 1.4);
        assert!(line.verdicts[0].met);
    }

    #[test]
    fn bulk_is_counted_in_seconds_a_gigabyte() {
        // 160 requests of 10 MB at 5000 µs: 0.8 s for 1.6 GB.
        let lines = summarize(&[record(Contender::Altway, Workload::W3, 1, 5000)]);
        assert_eq!(lines[0].cost.unwrap().median, 0.5);
    }
}
