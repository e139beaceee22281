//! The table of `cargo xtask bench spread`: what a hand-over costs, and what even shares are worth.

use super::summary::{Line, Spread};
use super::table;

/// The tables, one for each cell.
pub(crate) fn text(lines: &[Line]) -> String {
    let mut text = String::new();
    for cell in lines.chunk_by(|a, b| a.cell == b.cell) {
        let unit = table::unit(cell[0].cell.workload);
        text.push_str(&table::title(cell[0].cell));
        text.push('\n');
        text.push_str(&columns([
            "server",
            "n",
            unit,
            "it / altway",
            "requests/s",
            "latency ms",
            "longest ms",
            "busiest worker's share",
        ]));
        for line in cell {
            text.push_str(&row(line));
        }
        text.push('\n');
    }
    text + LEGEND
}

const LEGEND: &str = "\
altway: a listener for each worker (SO_REUSEPORT). altway-rr: one acceptor hands connections to the
workers in turn. CPU: user + system time of all the server's threads. Figures are medians of the rounds
[smallest–largest]; a ratio is of CPU times in the same round. Latency is the mean of a round's
requests, longest the longest of them. Share: of as many connections, opened after the round.
";

fn row(line: &Line) -> String {
    let figure = |figure: Option<Spread>| figure.map_or("–".into(), table::spread);
    let ms = |us: Option<Spread>| {
        figure(us.map(|us| Spread {
            median: us.median / 1e3,
            min: us.min / 1e3,
            max: us.max / 1e3,
        }))
    };
    let share = figure(line.busiest_share) + &table::invalid(line);
    columns([
        line.server.name(),
        &line.rounds.to_string(),
        &figure(line.cost),
        &line.ratio.map_or(String::new(), table::spread),
        &figure(line.requests_per_s),
        &ms(line.latency_mean_us),
        &ms(line.latency_max_us),
        &share,
    ])
}

fn columns(cells: [&str; 8]) -> String {
    let [server, n, cost, ratio, rate, mean, max, share] = cells;
    let row =
        format!("{server:<10}{n:>3}  {cost:<21}{ratio:<21}{rate:<25}{mean:<22}{max:<22}{share}");
    row.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::contender::Contender;
    use super::super::summary::summarize;
    use super::super::summary::tests::record;
    use super::super::workload::Workload;
    use super::*;

    #[test]
    fn the_cost_of_handing_over_is_told_beside_the_shares() {
        let text = text(&summarize(&[
            record(Contender::Altway, Workload::Storm, 1, 100),
            record(Contender::AltwayRoundRobin, Workload::Storm, 1, 110),
        ]));
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(
            row("storm h2c")
                .ends_with("4000 connections at once, one request each for a file of 600 B")
        );
        assert!(row("server").contains("CPU µs/connection"));
        let handed = row("altway-rr");
        assert!(handed.contains(" 110 [110–110] "), "{handed}");
        assert!(handed.contains(" 1.10 [1.10–1.10] "), "{handed}");
        assert!(handed.contains(" 2.40 [2.40–2.40] "), "{handed}");
        assert!(handed.ends_with(" 0.550 [0.550–0.550]"), "{handed}");
    }
}
