//! `cargo xtask bench table`: latency, processor time and memory of servers over their number of threads.

use super::arguments::{Common, Transports, chosen_or_all, one_of};
use super::contender::Contender;
use super::cores::{self, Cores};
use super::experiment::{Experiment, cells};
use super::folder::{Folder, Setup};
use super::network::Network;
use super::placement::Placements;
use super::process::Stop;
use super::server::{Server, ServerSetup};
use super::site::Site;
use super::workload::{Cell, Load, Transport, Workload};
use super::{build, client, cpu, h2load, idle, install};
use crate::shell;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::time::Duration;

/// 100 connections of 10 streams, and 1,000 of 100.
const WORKLOADS: [Workload; 2] = [Workload::W1, Workload::W2];

const PEERS: [Contender; 3] = [Contender::Nghttpd, Contender::H2o, Contender::Nginx];

/// The most threads of a server.
const MAX_THREADS: i64 = 64;

/// A warm-up has this fraction of a round's requests.
const WARM_UP_DIVISOR: u64 = 10;

/// Time from the client's end until processor time is read.
const SETTLE: Duration = Duration::from_millis(50);

/// Print P50, P90 and P99 of the response times, processor time a request and memory of altway and of its
/// peers from Debian, at 1 to 8 threads, over TLS and in clear text.
///
/// Response times are of every request, from h2load's log, by the client's clock; with the load client on the
/// same machine they are as much its as the server's. Where threads outnumber the cores that are left for them
/// the row says so. Prints the table and writes a folder with every round under results/ (a quick run: runs/).
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Workloads
  W1    -c100 -m10: 100 connections × 10 streams, 300,000 requests for a file of 600 B
  W2    -c1000 -m100: 1,000 connections × 100 streams, 400,000 requests for a file of 600 B

Examples:
  cargo xtask bench table                              # the whole of it
  cargo xtask bench table --quick --threads 1,2 --tls  # does it work?")]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    transports: Transports,
    /// Measure only these workloads.
    #[arg(
        long,
        value_name = "WORKLOADS",
        value_delimiter = ',',
        ignore_case = true,
        value_parser = one_of(&WORKLOADS)
    )]
    only: Vec<Workload>,
    /// Threads of each server.
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "1,2,4,8"
    )]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=MAX_THREADS))]
    threads: Vec<u16>,
    /// Measure only these peers.
    #[arg(long, value_name = "PEERS", value_delimiter = ',', value_parser = one_of(&PEERS))]
    peers: Vec<Contender>,
}

/// A server in one round: a line of `records.csv`.
#[derive(Debug, Clone, Serialize)]
struct Row {
    threads: usize,
    workload: Workload,
    transport: Transport,
    server: Contender,
    /// Number of the round, from 1.
    round: u32,
    requests: u64,
    duration_s: f64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    server_cpu_us_per_request: f64,
    /// The peak of this cell so far.
    memory_bytes: u64,
    /// True if the server's threads and the load client are more than their cores.
    threads_outnumber_cores: bool,
    /// The reason for which the round does not count; empty when it does.
    fault: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let common = &arguments.common;
    let programs = build::programs(common.no_build)?;
    // From here on there is something to put back.
    let stop = Stop::on_signals()?;
    let peers = install::peers(&chosen_or_all(&arguments.peers, &PEERS), &programs)?;
    stop.check()?;
    let experiment = arguments.experiment(peers)?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let altway = Contender::Altway
        .program(&programs)
        .context("altway was built")?;
    let site = Site::make(temporary.path(), &altway)?;
    let setup = Setup::of(&experiment, &programs)?;
    let name = setup.folder_name("thread-table");
    let mut folder = Folder::create(&common.parent(), &name, &setup)?;
    let place = ServerSetup {
        folder: temporary.path(),
        site: &site,
        programs: &programs,
    };
    let mut rows = Vec::new();
    let result = measure_all(&experiment, place, &stop, &mut |row: Row| {
        folder.keep(&row)?;
        rows.push(row);
        Ok(())
    });
    // What was measured before a failure is worth as much as without it.
    let text = table(&rows);
    folder.finish(&csv(&rows)?, &text)?;
    shell::data(&text)?;
    shell::say(&format!("written to {}", folder.path().display()));
    result?;
    if stop.is_asked_for() {
        bail!("stopped: the rounds above are all there is");
    }
    Ok(())
}

impl Arguments {
    fn experiment(&self, peers: Vec<Contender>) -> Result<Experiment> {
        let threads: Vec<usize> = self
            .threads
            .iter()
            .map(|count| usize::from(*count))
            .collect();
        let workloads = chosen_or_all(&self.only, &WORKLOADS);
        let mut contenders = vec![Contender::Altway];
        contenders.extend(peers);
        Ok(Experiment {
            cells: cells(&threads, &workloads, self.transports.chosen()),
            contenders,
            rounds: self.common.rounds(),
            divisor: self.common.divisor(),
            seed: self.common.seed(),
            file_limit: idle::raise_file_limit(),
            cores: cores::available()?,
            looks_at_shares: false,
        })
    }
}

fn measure_all(
    experiment: &Experiment,
    place: ServerSetup,
    stop: &Stop,
    keep: &mut impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(experiment.seed);
    for cell in &experiment.cells {
        let cores = Cores::shared_out(&experiment.cores, cell.workers);
        let placements = Placements::new(cores, Network::of(cell.workload)?);
        let load = experiment.load(cell.workload);
        let start = |contender: &Contender| {
            Server::start(*contender, None, place, *cell, &placements, stop)
        };
        let servers = experiment.contenders.iter().map(start);
        let mut servers: Vec<Server> = servers.collect::<Result<_>>()?;
        for server in &servers {
            client::run(
                load.divided(WARM_UP_DIVISOR),
                server,
                place,
                placements.client(),
                stop,
            )?;
        }
        for round in 1..=experiment.rounds {
            shell::say(&format!("{cell}: round {round} of {}", experiment.rounds));
            random.shuffle(&mut servers);
            for server in &servers {
                stop.check()?;
                let row = measure(*cell, load, server, &placements, stop)?;
                keep(Row {
                    round,
                    threads_outnumber_cores: cell.workers >= experiment.cores.len(),
                    ..row
                })?;
            }
        }
    }
    Ok(())
}

/// Measures one round of one server; the caller sets its number, and the mark for missing cores.
fn measure(
    cell: Cell,
    load: Load,
    server: &Server,
    placements: &Placements,
    stop: &Stop,
) -> Result<Row> {
    let before = server.cpu()?;
    let (transport, address) = (server.transport, server.address);
    let (outcome, mut times) =
        h2load::run_logged(load, transport, address, placements.client(), stop)?;
    std::thread::sleep(SETTLE);
    let used = server.cpu()?.since(&before);
    times.sort_by(f64::total_cmp);
    let at = |share| altway_stats::quantile(&times, share);
    Ok(Row {
        threads: cell.workers,
        workload: cell.workload,
        transport,
        server: server.contender,
        round: 0,
        requests: load.requests,
        duration_s: outcome.seconds,
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        server_cpu_us_per_request: used.nanoseconds as f64 / 1e3 / load.requests as f64,
        memory_bytes: cpu::peak_memory(server.pid())?,
        threads_outnumber_cores: false,
        fault: outcome.fault.unwrap_or_default(),
    })
}

/// The rounds that count, as `summary.csv`: it is theirs to summarize who reads them.
fn csv(rows: &[Row]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows.iter().filter(|row| row.fault.is_empty()) {
        writer.serialize(row)?;
    }
    Ok(writer.into_inner()?)
}

const LEGEND: &str = "\
Medians of the rounds that count. Response times in ms, of every request, by the clock of a load client on the same
machine. CPU: user and system time of the server, µs a request. MB is 10⁶ bytes, the highest of the rounds.
* the server's threads and the client have fewer cores than they are: nothing is bound to one, and times are the
  kernel's choice as much as the server's.
";

/// A block for each workload and transport, a row for each server and number of threads.
fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut groups: Vec<(Workload, Transport)> = Vec::new();
    for row in rows {
        let group = (row.workload, row.transport);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    for (workload, transport) in groups {
        let load = workload.load();
        text.push_str(&format!(
            "{workload} {transport}: -c{} -m{}, a file of {} B\n{:<9}{:>8}{:>4}{:>9}{:>9}{:>9}{:>9}{:>9}{:>12}\n",
            load.connections, load.streams, load.body_bytes,
            "server", "threads", "n", "P50", "P90", "P99", "CPU", "MB", "requests/s",
        ));
        let of = |row: &&Row| (row.workload, row.transport) == (workload, transport);
        let mut seen: Vec<(Contender, usize)> = Vec::new();
        for row in rows.iter().filter(of) {
            if !seen.contains(&(row.server, row.threads)) {
                seen.push((row.server, row.threads));
            }
        }
        seen.sort();
        for (server, threads) in seen {
            let same = |row: &&Row| row.server == server && row.threads == threads;
            let rows: Vec<&Row> = rows.iter().filter(of).filter(same).collect();
            text.push_str(&line(server, threads, &rows));
        }
        text.push('\n');
    }
    text + LEGEND
}

fn line(server: Contender, threads: usize, rows: &[&Row]) -> String {
    let counted: Vec<&&Row> = rows.iter().filter(|row| row.fault.is_empty()).collect();
    let crowded = rows.iter().any(|row| row.threads_outnumber_cores);
    let mark = if crowded { "*" } else { "" };
    let middle = |of: &dyn Fn(&Row) -> f64| {
        let mut values: Vec<f64> = counted.iter().map(|row| of(row)).collect();
        values.sort_by(f64::total_cmp);
        altway_stats::quantile(&values, 0.5)
    };
    let threads = format!("{threads}{mark}");
    if counted.is_empty() {
        let fault = rows.first().map_or("", |row| row.fault.as_str());
        return format!("{:<9}{threads:>8}   0  {fault}\n", server.name());
    }
    let memory = counted
        .iter()
        .map(|row| row.memory_bytes)
        .max()
        .unwrap_or(0);
    format!(
        "{:<9}{threads:>8}{:>4}{:>9.2}{:>9.2}{:>9.2}{:>9.2}{:>9.1}{:>12.0}\n",
        server.name(),
        counted.len(),
        middle(&|row| row.p50_us / 1e3),
        middle(&|row| row.p90_us / 1e3),
        middle(&|row| row.p99_us / 1e3),
        middle(&|row| row.server_cpu_us_per_request),
        memory as f64 / 1e6,
        middle(&|row| row.requests as f64 / row.duration_s),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(server: Contender, threads: usize, round: u32, p99_us: f64, fault: &str) -> Row {
        Row {
            threads,
            workload: Workload::W1,
            transport: Transport::Tls,
            server,
            round,
            requests: 1_000,
            duration_s: 0.5,
            p50_us: 1_000.0,
            p90_us: 2_000.0,
            p99_us,
            server_cpu_us_per_request: 3.25,
            memory_bytes: 20_000_000 + u64::from(round),
            threads_outnumber_cores: threads > 1,
            fault: fault.into(),
        }
    }

    #[test]
    fn a_row_has_the_median_of_the_rounds_that_count_and_says_where_threads_outnumber_cores() {
        let rows = [
            row(Contender::Altway, 1, 1, 3_000.0, ""),
            row(Contender::Altway, 1, 2, 5_000.0, ""),
            row(Contender::Altway, 1, 3, 90_000.0, "7 of 1000 succeeded"),
            row(Contender::Nginx, 8, 1, 4_000.0, ""),
            row(Contender::H2o, 8, 1, 4_000.0, "it ended"),
        ];
        let text = table(&rows);
        let expected = [
            "W1 TLS: -c100 -m10, a file of 600 B",
            "altway          1   2     1.00     2.00     4.00     3.25     20.0        2000",
            "nginx          8*   1     1.00     2.00     4.00     3.25     20.0        2000",
            "h2o            8*   0  it ended",
        ];
        for line in expected {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
