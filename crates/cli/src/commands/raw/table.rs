//! The figures of runs as a table.

use altway_raw::{Path, Run};
use std::time::Duration;

/// The table of a transfer: a line for each run, under `what` was transferred.
pub(super) fn of(runs: &[Run], what: &str) -> String {
    let mut text = format!(
        "{what}\n\n\
         {:>49} {:>15}\n\
         {:>4} {:>7} {:>8} {:>9} {:>10} {:>6} {:>6} {:>8} {:>8} {:>8} {:>6} {:>17}\n",
        "CPU s/GB",
        "calls/MB", //
        "",
        "control",
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
    for run in runs.iter().filter(|run| run.server.costs.connections > 1) {
        text.push_str(&format!(
            "over {} the server's processor time is that of {} connections\n",
            run.over, run.server.costs.connections
        ));
    }
    if runs.iter().any(|run| run.transfer.is_some()) {
        text.push_str(&distribution(runs));
    }
    text
}

fn line(run: &Run) -> String {
    let paths = [&run.client.costs.path, &run.server.costs.path];
    let sum = |count: fn(&Path) -> u64| -> u64 { paths.into_iter().flatten().map(count).sum() };
    let seconds = Duration::from_micros(run.wall_us).as_secs_f64();
    let sender = sender(run).unwrap_or_default();
    format!(
        "{:>4} {:>7} {:>8} {seconds:>9.4} {:>10.3} {:>6} {:>6} {:>8} {:>8} {:>8} {:>6} {:>17}\n",
        run.over,
        sender.congestion,
        figure(run.mb_per_s, 1),
        run.connect_us as f64 / 1e3,
        figure(run.client.cpu_s_per_gb, 3),
        figure(run.server.cpu_s_per_gb, 3),
        figure(run.client.calls_per_mb, 1),
        figure(run.server.calls_per_mb, 1),
        sum(|path| path.packets_sent),
        sum(|path| path.retransmissions),
        round_trip(&sender),
    )
}

/// The path as it is known to the end that sends more, which is the one that measures it.
fn sender(run: &Run) -> Option<Path> {
    let side = match run.up_bytes > run.down_bytes {
        true => &run.client,
        false => &run.server,
    };
    side.costs.path.clone()
}

fn round_trip(path: &Path) -> String {
    let ms = |us: Option<u64>| figure(us.map(|us| us as f64 / 1e3), 3);
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
