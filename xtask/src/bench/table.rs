//! Lines become text for people and `summary.csv` for programs.

use super::bars::Figure;
use super::contender::Contender;
use super::latency_table;
use super::network::VETH;
use super::summary::{Line, Spread, Verdict};
use super::workload::{Cell, Transport, Workload};
use anyhow::Result;

/// One table for each cell; `legend`: what it says beside what holds of all.
pub(crate) fn text(lines: &[Line], legend: &str) -> String {
    let mut text = String::new();
    for cell in lines.chunk_by(|a, b| a.cell == b.cell) {
        if cell[0].cell.workload == Workload::ProxyLatency {
            text.push_str(&latency_table::of_cell(cell));
        } else {
            text.push_str(&heading(cell[0].cell));
            cell.iter().for_each(|line| text.push_str(&row(line)));
        }
        text.push('\n');
    }
    text + LEGEND + legend
}

const LEGEND: &str = "\
CPU: user + system time of the server's threads and processes. Figures are medians of the rounds
[smallest–largest]; a ratio is of two servers in the same round. MB is 10⁶ bytes, the highest of the
rounds, summed over processes. Requests/s is often the load client's limit, and judges nobody.
";

fn heading(cell: Cell) -> String {
    let memory = match (cell.workload, cell.transport) {
        (Workload::Idle, Transport::H3) => "KB/conn.",
        (Workload::Idle, _) => "MB/10,000",
        (Workload::ProxyIdle, _) => "added MB",
        _ => "MB",
    };
    format!(
        "{}\n{:<18}{:>3}  {:<24}{:>11}{memory:>10}  {:<31}bar\n",
        title(cell),
        "server",
        "n",
        unit(cell.workload),
        "requests/s",
        "altway / it"
    )
}

/// Title of a cell: what is measured.
pub(super) fn title(cell: Cell) -> String {
    let load = cell.workload.load();
    let streams = counted(load.streams, "stream");
    let size = match load.body_bytes {
        bytes if bytes >= 1_000_000 => format!("{} MB", bytes / 1_000_000),
        bytes => format!("{bytes} B"),
    };
    let pace = match (load.at_once, load.connection_every_ms) {
        (_, Some(ms)) => format!("one every {ms} ms"),
        (Some(connections), _) => format!("{connections} at a time"),
        _ => "at once".to_owned(),
    };
    let what = match cell.workload {
        Workload::Idle => "opened, one request each, then idle".to_owned(),
        Workload::ProxyIdle => format!(
            "from as many addresses, one request each for a file of {size} of an origin behind, then idle"
        ),
        Workload::ProxyLatency => format!(
            "with {} requests/s in an open loop, a file of {size} of an origin behind, over HTTP/1.1",
            load.per_second.unwrap_or_default()
        ),
        workload if workload.is_of_connections() => {
            format!("{pace}, one request each for a file of {size}")
        }
        workload if workload.is_over_veth() => {
            format!(
                "× {streams}, a file of {size}, over veth with an MTU of {}",
                VETH.mtu
            )
        }
        workload if workload.is_proxied() => {
            format!("× {streams}, a file of {size} of an origin behind, over HTTP/1.1")
        }
        _ if load.paths > 1 => format!("× {streams}, {} files of {size}", load.paths),
        _ => format!("× {streams}, a file of {size}"),
    };
    format!("{cell}: {} connections {what}", load.connections)
}

/// Unit that CPU time is counted by.
pub(super) fn unit(workload: Workload) -> &'static str {
    match workload {
        workload if workload.is_idle() => "CPU µs/opening",
        workload if workload.is_bulk() => "CPU s/GB",
        workload if workload.is_of_connections() => "CPU µs/connection",
        _ => "CPU µs/request",
    }
}

fn row(line: &Line) -> String {
    let cost = line.cost.map_or("–".into(), spread);
    let rate = line
        .requests_per_s
        .map(|rate| format!("{:.0}", rate.median));
    let memory = match (line.cell.workload, line.cell.transport) {
        (Workload::Idle, Transport::H3) => line.connection_kb,
        (Workload::ProxyIdle, _) => line.added_mb,
        _ => line.memory_mb,
    };
    let memory = memory.map(|figure| format!("{figure:.1}"));
    let ratio = line.ratio.map_or(String::new(), |ratio| {
        let of = if line.server.is_variant() {
            " (it / altway)"
        } else {
            ""
        };
        spread(ratio) + of
    });
    let mut row = format!(
        "{:<18}{:>3}  {cost:<24}{:>11}{:>10}  {ratio:<31}{}",
        line.server,
        line.rounds,
        rate.unwrap_or_default(),
        memory.unwrap_or_default(),
        verdicts(line)
    );
    row.push_str(&lost(line));
    row.push_str(&invalid(line));
    row.truncate(row.trim_end().len());
    row + "\n"
}

/// Says so when datagrams found the server's socket full.
fn lost(line: &Line) -> String {
    match line.datagrams_lost {
        None | Some(0) => String::new(),
        Some(datagrams) => format!("  {} lost", counted(datagrams, "datagram")),
    }
}

/// Says so when rounds did not count.
pub(super) fn invalid(line: &Line) -> String {
    match line.invalid_rounds {
        0 => String::new(),
        rounds => format!("  INVALID: {}", counted(rounds as u64, "round")),
    }
}

fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// `median [smallest–largest]`.
pub(super) fn spread(spread: Spread) -> String {
    let [median, min, max] = [spread.median, spread.min, spread.max].map(number);
    format!("{median} [{min}–{max}]")
}

/// Three significant digits, as far as decimals go.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The bars of a line, and which are met.
pub(super) fn verdicts(line: &Line) -> String {
    let texts: Vec<_> = line.verdicts.iter().map(|bar| verdict(*bar)).collect();
    texts.join("; ")
}

fn verdict(verdict: Verdict) -> String {
    let met = if verdict.met { "met" } else { "MISSED" };
    let at_most = verdict.at_most;
    match verdict.figure {
        None => format!("≤ {at_most:.2} {met}"),
        Some(Figure::AddedP50Us) => format!("p50 ≤ {at_most:.0} µs {met}"),
        Some(Figure::AddedP99Us) => format!("p99 ≤ {at_most:.0} µs {met}"),
        Some(Figure::MemoryMb | Figure::AddedMb) => format!("≤ {at_most:.0} MB {met}"),
        Some(Figure::ConnectionKb) => format!("≤ {at_most:.0} KB {met}"),
        Some(Figure::DatagramsLost) => format!("≤ {at_most:.0} lost {met}"),
    }
}

const COLUMNS: [&str; 45] = [
    "workers",
    "workload",
    "transport",
    "server",
    "rounds",
    "invalid_rounds",
    "cpu_us_per_request_median",
    "cpu_us_per_request_min",
    "cpu_us_per_request_max",
    "cpu_s_per_gb_median",
    "cpu_s_per_gb_min",
    "cpu_s_per_gb_max",
    "requests_per_s_median",
    "memory_mb",
    "ratio_of",
    "ratio_to",
    "ratio_median",
    "ratio_min",
    "ratio_max",
    "bar",
    "bar_met",
    "latency_mean_us_median",
    "latency_mean_us_min",
    "latency_mean_us_max",
    "latency_max_us_median",
    "latency_max_us_min",
    "latency_max_us_max",
    "busiest_share_median",
    "busiest_share_min",
    "busiest_share_max",
    "memory_kb_per_connection",
    "datagrams_lost",
    "latency_p50_us_median",
    "latency_p50_us_min",
    "latency_p50_us_max",
    "latency_p99_us_median",
    "latency_p99_us_min",
    "latency_p99_us_max",
    "added_p50_us_median",
    "added_p50_us_min",
    "added_p50_us_max",
    "added_p99_us_median",
    "added_p99_us_min",
    "added_p99_us_max",
    "added_mb",
];

/// A row for each line, in the order given. What doesn't apply is empty; of several bars each is there, divided by
/// blanks.
///
/// # Errors
/// None that a buffer in memory can have.
pub(crate) fn csv(lines: &[Line]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for line in lines {
        writer.write_record(fields(line))?;
    }
    Ok(writer.into_inner()?)
}

fn fields(line: &Line) -> Vec<String> {
    let is_bulk = line.cell.workload.is_bulk();
    let [per_request, per_gb] = [!is_bulk, is_bulk].map(|is_it| line.cost.filter(|_| is_it));
    let (of, to) = match (line.ratio, line.server) {
        (None, _) => ("", ""),
        (_, variant) if variant.is_variant() => (variant.name(), Contender::Altway.name()),
        (_, peer) => (Contender::Altway.name(), peer.name()),
    };
    let mut fields = vec![
        line.cell.workers.to_string(),
        line.cell.workload.to_string(),
        line.cell.transport.to_string().to_lowercase(),
        line.server.to_string(),
        line.rounds.to_string(),
        line.invalid_rounds.to_string(),
    ];
    fields.extend(plain(per_request));
    fields.extend(plain(per_gb));
    fields.push(exact(line.requests_per_s.map(|rate| rate.median)));
    fields.push(exact(line.memory_mb));
    fields.extend([of.into(), to.into()]);
    fields.extend(plain(line.ratio));
    let bars = |text: fn(&Verdict) -> String| {
        let texts: Vec<_> = line.verdicts.iter().map(text).collect();
        texts.join(" ")
    };
    fields.push(bars(|bar| bar.at_most.to_string()));
    fields.push(bars(|bar| bar.met.to_string()));
    for figure in [
        line.latency_mean_us,
        line.latency_max_us,
        line.busiest_share,
    ] {
        fields.extend(plain(figure));
    }
    fields.push(exact(line.connection_kb));
    fields.push(
        line.datagrams_lost
            .map_or(String::new(), |lost| lost.to_string()),
    );
    for figure in [
        line.latency_p50_us,
        line.latency_p99_us,
        line.added_p50_us,
        line.added_p99_us,
    ] {
        fields.extend(plain(figure));
    }
    fields.push(exact(line.added_mb));
    fields
}

fn plain(spread: Option<Spread>) -> [String; 3] {
    let values = [
        spread.map(|s| s.median),
        spread.map(|s| s.min),
        spread.map(|s| s.max),
    ];
    values.map(exact)
}

fn exact(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.4}"))
}

#[cfg(test)]
mod tests {
    use super::super::summary::summarize;
    use super::super::summary::tests::{record, record_over};
    use super::*;

    fn lines() -> Vec<Line> {
        summarize(&[
            record(Contender::Altway, Workload::W1, 1, 2),
            record(Contender::AltwayLog, Workload::W1, 1, 3),
            record(Contender::H2o, Workload::W1, 1, 4),
        ])
    }

    #[test]
    fn a_table_names_ratio_and_bar() {
        let text = text(&lines(), "");
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(row("h2o").contains(" 0.500 [0.500–0.500] "));
        assert!(row("h2o").ends_with(" ≤ 0.45 MISSED"));
        assert!(row("altway-log").contains("1.50 [1.50–1.50] (it / altway)"));
        assert!(row("W1 h2c, 1 worker").contains("100 connections × 10 streams"));
    }

    #[test]
    fn what_is_less_than_nothing_has_as_many_digits() {
        let less = Spread::of(&[-1234.5, -12.34, -1.0]).unwrap();
        assert_eq!(spread(less), "-12.3 [-1234–-1.00]");
    }

    #[test]
    fn an_invalid_round_is_seen() {
        let mut broken = record(Contender::Nginx, Workload::W1, 1, 1);
        broken.valid = false;
        let text = text(&summarize(&[broken]), "");
        assert!(text.contains("INVALID: 1 round"), "{text}");
    }

    #[test]
    fn lost_datagrams_stand_beside_the_bar() {
        let ramp = |server, lost| {
            let mut record = record_over(Transport::H3, server, Workload::Ramp, 1, 1);
            record.datagrams_lost = Some(lost);
            record
        };
        let records = [ramp(Contender::Altway, 0), ramp(Contender::QuicGo, 7)];
        let text = text(&summarize(&records), "");
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(row("ramp h3, 1 worker").contains("2000 connections one every 2 ms"));
        assert!(row("altway").ends_with("≤ 0 lost met"), "{text}");
        assert!(row("quic-go").ends_with("  7 datagrams lost"), "{text}");
    }

    #[test]
    fn every_row_of_the_csv_has_every_column() {
        let bytes = csv(&lines()).unwrap();
        let mut reader = csv::Reader::from_reader(bytes.as_slice());
        assert_eq!(reader.headers().unwrap().len(), COLUMNS.len());
        let rows: Vec<_> = reader.records().collect::<Result<_, _>>().unwrap();
        assert_eq!(rows.len(), 3);
        assert_eq!(&rows[1][14], "altway-log");
        assert_eq!(&rows[2][20], "false");
    }
}
