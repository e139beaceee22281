//! The figures of runs as a table.

use altway_raw::{Costs, Path, Run};
use std::time::Duration;

/// One line for each run, under `what` was transferred.
pub(super) fn of(runs: &[Run], what: &str) -> String {
    let mut text = format!(
        "{what}\n\n\
         {:>4} {:>9} {:>10} {:>11} {:>15} {:>15} {:>9} {:>7} {:>17}\n\
         {:>4} {:>9} {:>10} {:>11} {:>7} {:>7} {:>7} {:>7} {:>9} {:>7} {:>17}\n",
        "",
        "",
        "",
        "",
        "CPU s/GB",
        "calls/MB",
        "",
        "",
        "",
        "",
        "MB/s",
        "seconds",
        "connect ms",
        "client",
        "server",
        "client",
        "server",
        "packets",
        "again",
        "RTT ms (min)",
    );
    for run in runs {
        text.push_str(&line(run));
    }
    if runs.iter().any(|run| run.transfer.is_some()) {
        text.push_str(&distribution(runs));
    }
    text
}

fn line(run: &Run) -> String {
    let paths = [run.client.costs.path, run.server.costs.path];
    let sum = |count: fn(&Path) -> u64| -> String {
        let counts = paths.iter().flatten().map(count);
        counts.sum::<u64>().to_string()
    };
    let seconds = Duration::from_micros(run.wall_us).as_secs_f64();
    format!(
        "{:>4} {:>9} {seconds:>10.4} {:>11.3} {:>7} {:>7} {:>7} {:>7} {:>9} {:>7} {:>17}\n",
        run.over,
        figure(run.mb_per_s, 1),
        run.connect_us as f64 / 1e3,
        figure(run.client.cpu_s_per_gb, 3),
        figure(run.server.cpu_s_per_gb, 3),
        figure(run.client.calls_per_mb, 1),
        figure(run.server.calls_per_mb, 1),
        sum(|path| path.packets_sent),
        sum(|path| path.retransmissions),
        round_trip(&sender(run)),
    )
}

/// The end that sends more: it is the one that measures the path.
fn sender(run: &Run) -> Costs {
    match run.up_bytes > run.down_bytes {
        true => run.client.costs,
        false => run.server.costs,
    }
}

fn round_trip(costs: &Costs) -> String {
    let ms = |us: Option<u64>| figure(us.map(|us| us as f64 / 1e3), 3);
    let path = costs.path.unwrap_or_default();
    format!("{} ({})", ms(path.rtt_us), ms(path.min_rtt_us))
}

fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
}

fn distribution(runs: &[Run]) -> String {
    let mut text = format!(
        "\n{:>4} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        "ms", "n", "min", "mean", "p50", "p90", "p99", "max"
    );
    for run in runs {
        let Some(times) = &run.transfer else { continue };
        let ms = |us: u64| us as f64 / 1e3;
        text.push_str(&format!(
            "{:>4} {:>9} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3}\n",
            run.over,
            times.count,
            ms(times.min_us),
            times.mean_us / 1e3,
            ms(times.p50_us),
            ms(times.p90_us),
            ms(times.p99_us),
            ms(times.max_us),
        ));
    }
    text
}
