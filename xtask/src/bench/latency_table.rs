//! The table of a cell of latency: what each proxy's requests took, and what it added to asking the origin directly.

use super::summary::{Line, Spread};
use super::table;

/// The heading and a row for each of `lines`, which are of one cell.
pub(super) fn of_cell(lines: &[Line]) -> String {
    let heading = columns([
        "server",
        "n",
        "p50 µs",
        "p99 µs",
        "added p50 µs",
        "added p99 µs",
        "bar",
    ]);
    let rows = lines.iter().map(row).collect::<String>();
    format!("{}\n{heading}{rows}", table::title(lines[0].cell))
}

fn row(line: &Line) -> String {
    let figure = |figure: Option<Spread>| figure.map_or("–".into(), table::spread);
    columns([
        line.server.name(),
        &line.rounds.to_string(),
        &figure(line.latency_p50_us),
        &figure(line.latency_p99_us),
        &figure(line.added_p50_us),
        &figure(line.added_p99_us),
        &(table::verdicts(line) + &table::invalid(line)),
    ])
}

fn columns(cells: [&str; 7]) -> String {
    let [server, n, p50, p99, added_p50, added_p99, bar] = cells;
    let row =
        format!("{server:<11}{n:>3}  {p50:<21}{p99:<24}{added_p50:<21}{added_p99:<24}  {bar}");
    row.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::contender::Contender;
    use super::super::record::Record;
    use super::super::summary::summarize;
    use super::super::summary::tests::record_over;
    use super::super::workload::{Transport, Workload};
    use super::*;

    fn paced(server: Contender, p50: f64, p99: f64) -> Record {
        Record {
            latency_p50_us: Some(p50),
            latency_p99_us: Some(p99),
            ..record_over(Transport::Tls, server, Workload::ProxyLatency, 1, 1)
        }
    }

    #[test]
    fn what_is_added_stands_beside_its_bars() {
        let records = [
            paced(Contender::Direct, 120.0, 400.0),
            paced(Contender::Altway, 190.0, 1_500.0),
        ];
        let text = table::text(&summarize(&records), "");
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(
            row("latency TLS").contains("10 connections with 1000 requests/s in an open loop"),
            "{text}"
        );
        assert!(row("altway").contains(" 70.0 [70.0–70.0] "), "{text}");
        assert!(
            row("altway").ends_with("p50 ≤ 100 µs met; p99 ≤ 1000 µs MISSED"),
            "{text}"
        );
        assert!(row("direct").contains(" 120 [120–120] "), "{text}");
    }
}
