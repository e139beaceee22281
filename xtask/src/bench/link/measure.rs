//! The measurement of each topic: the packets sent over its link, and the figures computed from
//! them.

use super::rig::{PORT, Rig, RunOutput, quoted};
use super::topic::{By, Cell, Figure, Topic, Topology};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// IP bytes of a full packet.
const PACKET: u64 = 1_500;

/// The bytes of it that TCP over IPv4 can use: without 20 bytes of IP, 20 of TCP and 12 of its time
/// stamps.
const SEGMENT: u64 = 1_448;

/// The one-way delay under TCP. With the link's queue of 100 ms Cubic, which halves nothing but takes
/// three tenths off, never leaves the link idle once it is under way.
const TCP_DELAY: &str = "10ms";

/// The mean pause between datagrams whose delay is measured.
const DELAY_PAUSE_NS: u64 = 2_000_000;

/// Half of the link's queue of 100 ms.
const RATE_AHEAD_NS: u64 = 50_000_000;

/// The pause between datagrams of which some are lost: 40,000 a second.
const LOSS_PAUSE_NS: u64 = 25_000;

/// Given where a late link alone makes a measurement invalid: the lab, which judges so, keeps them awake.
const KEEP_AWAKE: &str = "--keep-awake";

/// Links side by side, and the rate of each.
const SIDE_BY_SIDE: usize = 8;
const SLOW: &str = "20mbit";

/// The time that a topology may take before it is reported as one that hangs.
const SET_UP_LIMIT: Duration = Duration::from_secs(20);

/// The result of a measurement.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) figures: Vec<(Figure, f64)>,
    /// The numbers of the datagrams that were lost: equal texts, equal losses.
    pub(crate) lost: Option<String>,
    /// The reason for which it does not count.
    pub(crate) fault: Option<String>,
}

/// The output of `bench-packets datagrams`.
#[derive(Debug, Deserialize)]
struct Datagrams {
    sent: u64,
    received: u64,
    overflowed: u64,
    error_ns: Quantiles,
    program_error_ns: Quantiles,
    ip_bits_per_s: f64,
    lost_digest: String,
}

#[derive(Debug, Deserialize)]
struct Quantiles {
    p50: f64,
    p99: f64,
}

/// The output of `bench-packets stream`.
#[derive(Debug, Deserialize)]
struct Stream {
    payload_bits_per_s: f64,
}

/// Measures a cell once.
///
/// # Errors
/// A program can't be started or fails, or its words make no sense.
pub(crate) fn measure(cell: Cell, rig: &Rig) -> Result<Outcome> {
    let by = cell.by;
    match cell.topic {
        Topic::Delay { ms } => delay(rig, by, ms),
        Topic::Rate { mbit } => rate(rig, by, mbit),
        Topic::Goodput { mbit } => goodput(rig, by, mbit),
        Topic::Loss { percent } => loss(rig, by, percent),
        Topic::LossyTcp => lossy_tcp(rig, by),
        Topic::Unlimited => unlimited(rig, by),
        Topic::SetUp { topology } => set_up(rig, by, topology),
        Topic::SideBySide { processors } => side_by_side(rig, by, processors),
    }
}

/// A link that only delays. Late packets are what is measured here: they are no reason not to count.
fn delay(rig: &Rig, by: By, ms: u32) -> Result<Outcome> {
    let count = rig.scale.delays;
    let question = format!(
        "datagrams --count {count} --every-ns {DELAY_PAUSE_NS} --uneven --delay-us {}",
        u64::from(ms) * 1_000
    );
    let told = match by {
        By::Rattan => rig.ask_rattan(ms, &question)?,
        _ => rig.ask(by, &["--delay", &format!("{ms}ms")], &question)?,
    };
    let report: Datagrams = told.report()?;
    let us = |ns: f64| ns / 1_000.0;
    let (link, program) = (&report.error_ns, &report.program_error_ns);
    Ok(Outcome {
        figures: vec![
            (Figure::ErrorUsP50, us(link.p50)),
            (Figure::ErrorUsP99, us(link.p99)),
            (Figure::ProgramErrorUsP50, us(program.p50)),
        ],
        fault: report.missing().or_else(|| hidden_drops(&told)),
        lost: None,
    })
}

/// A tenth more than the rate arrives at the link, and half a queue of it at once, so that it always has
/// something to send.
fn rate(rig: &Rig, by: By, mbit: u32) -> Result<Outcome> {
    let bits_per_ms = u64::from(mbit) * 1_000;
    let every_ns = PACKET * 8 * 1_000_000 * 10 / 11 / bits_per_ms;
    let count = (rig.scale.rate_ms * 1_000_000 / every_ns).max(2);
    let question =
        format!("datagrams --count {count} --every-ns {every_ns} --ahead-ns {RATE_AHEAD_NS}");
    let told = rig.ask(by, &["--down-rate", &format!("{mbit}mbit")], &question)?;
    let report: Datagrams = told.report()?;
    let rate = bits_per_ms as f64 * 1e3;
    let error = (report.ip_bits_per_s / rate - 1.0) * 100.0;
    Ok(Outcome {
        figures: vec![(Figure::RateErrorPercent, error)],
        fault: report.overflow().or_else(|| hidden_drops(&told)),
        lost: None,
    })
}

fn goodput(rig: &Rig, by: By, mbit: u32) -> Result<Outcome> {
    let rate = format!("{mbit}mbit");
    let options = ["--rate", &rate, "--delay", TCP_DELAY, KEEP_AWAKE];
    let (told, goodput) = stream(rig, by, &options)?;
    let ideal = f64::from(mbit) * 1e6 * SEGMENT as f64 / PACKET as f64;
    Ok(Outcome {
        figures: vec![(Figure::GoodputErrorPercent, (goodput / ideal - 1.0) * 100.0)],
        fault: told.link.and_then(|link| link.fault()),
        lost: None,
    })
}

/// Measures goodput without a limit: neither lateness nor datagrams that found a buffer full are a
/// fault here.
fn unlimited(rig: &Rig, by: By) -> Result<Outcome> {
    let goodput = match by {
        By::Rattan => {
            let told = rig.ask_rattan(0, &question_for_a_stream(rig))?;
            told.report::<Stream>()?.payload_bits_per_s
        }
        _ => stream(rig, by, &[])?.1,
    };
    Ok(Outcome {
        figures: vec![(Figure::GoodputGbit, goodput / 1e9)],
        ..Outcome::default()
    })
}

/// Payload bits a second of TCP over a link of altway's.
fn stream(rig: &Rig, by: By, options: &[&str]) -> Result<(RunOutput, f64)> {
    if by == By::Iperf3 {
        return iperf3(rig, options);
    }
    let told = rig.ask(by, options, &question_for_a_stream(rig))?;
    let goodput = told.report::<Stream>()?.payload_bits_per_s;
    Ok((told, goodput))
}

fn question_for_a_stream(rig: &Rig) -> String {
    format!(
        "stream --warm-up-ms {} --for-ms {}",
        rig.scale.warm_up_ms, rig.scale.stream_ms
    )
}

/// The goodput that iperf3 finds, which knows whole seconds only.
fn iperf3(rig: &Rig, options: &[&str]) -> Result<(RunOutput, f64)> {
    let whole = |ms: u64| ms.div_ceil(1_000);
    let server = format!("iperf3 --server --one-off --port {PORT} > /dev/null");
    let client = format!(
        "iperf3 --client \"$ALTWAY_SERVER\" --port {PORT} --reverse --congestion cubic --json \
         --omit {} --time {}",
        whole(rig.scale.warm_up_ms),
        whole(rig.scale.stream_ms)
    );
    let told = rig.emulate(By::Iperf3, options, &server, &client)?;
    let report: serde_json::Value = told.report()?;
    let goodput = report.pointer("/end/sum_received/bits_per_second");
    let goodput = goodput.and_then(serde_json::Value::as_f64);
    Ok((told, goodput.context("iperf3 told no rate")?))
}

fn loss(rig: &Rig, by: By, percent: u32) -> Result<Outcome> {
    let count = rig.scale.losses;
    let question = format!("datagrams --count {count} --every-ns {LOSS_PAUSE_NS}");
    let told = rig.ask(by, &["--down-loss", &format!("{percent}%")], &question)?;
    let report: Datagrams = told.report()?;
    let (sent, share) = (report.sent as f64, f64::from(percent) / 100.0);
    let lost = sent - report.received as f64;
    let deviation = (sent * share * (1.0 - share)).sqrt();
    Ok(Outcome {
        figures: vec![
            (Figure::LossPercent, lost / sent * 100.0),
            (
                Figure::LossDeviations,
                (lost - sent * share).abs() / deviation,
            ),
        ],
        fault: report.overflow().or_else(|| hidden_drops(&told)),
        lost: Some(report.lost_digest),
    })
}

/// Measures retransmissions by the server's TCP_INFO: segments that the kernel had to send again.
fn lossy_tcp(rig: &Rig, by: By) -> Result<Outcome> {
    let altway = quoted(&rig.altway);
    let (certificate, key) = (quoted(&rig.site.certificate), quoted(&rig.site.key));
    let server = format!("{altway} raw serve --bind 0.0.0.0 --cert {certificate} --key {key}");
    let client = format!(
        "{altway} raw send \"$ALTWAY_SERVER\" --over tcp --size {}B --insecure --json",
        rig.scale.lossy_bytes
    );
    let options = ["--delay", TCP_DELAY, "--down-loss", "1%"];
    let told = rig.emulate(by, &options, &server, &client)?;
    let report: serde_json::Value = told.report()?;
    let run = report.pointer("/runs/0").unwrap_or(&report);
    let sent_again = run.pointer("/server/path/retransmissions");
    let sent_again = sent_again.and_then(serde_json::Value::as_f64);
    Ok(Outcome {
        figures: vec![(
            Figure::Retransmissions,
            sent_again.context("the server told no retransmissions")?,
        )],
        ..Outcome::default()
    })
}

/// Measures all of `altway emulate` around a command that does nothing: what there is to build and to take down,
/// and the program's own start.
fn set_up(rig: &Rig, by: By, topology: Topology) -> Result<Outcome> {
    let mut times = Vec::new();
    for _ in 0..rig.scale.set_ups {
        rig.stop.check()?;
        let mut command = rig.altway(by);
        command.args(["--topology", topology.name(), "--server", "sleep 60"]);
        command.args(["--server-wait", "0ms", "--", "true"]);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        let status = command.status().context("cannot start altway")?;
        let took = start.elapsed();
        ensure!(status.success() && took < SET_UP_LIMIT, "{status}");
        times.push(took.as_secs_f64() * 1e3);
    }
    let summary = altway_stats::summarize(&times).context("there is one at least")?;
    Ok(Outcome {
        figures: vec![
            (Figure::MillisecondsP50, summary.median),
            (Figure::MillisecondsMax, summary.max),
        ],
        ..Outcome::default()
    })
}

/// Measures links all at once, each with a stream of TCP, and judged as the lab judges a transfer. Over two processors each
/// link shares one with its own ends; else the links share one, and the ends the other.
fn side_by_side(rig: &Rig, by: By, processors: u32) -> Result<Outcome> {
    let rigs = match processors {
        1 => [rig.clone(), rig.clone()],
        _ => rig.on_one_processor(),
    };
    let options = ["--rate", SLOW, "--delay", TCP_DELAY, KEEP_AWAKE];
    let one = |link: usize| stream(&rigs[link % 2], by, &options);
    let all = thread::scope(|scope| {
        let start = |link| scope.spawn(move || one(link));
        let threads: Vec<_> = (0..SIDE_BY_SIDE).map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("it can't panic");
        threads.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    let faults = all
        .iter()
        .filter_map(|(told, _)| told.link.as_ref()?.fault());
    let late = |told: &RunOutput| told.link.as_ref()?.lateness_us_p99;
    let latest = all.iter().filter_map(|(told, _)| late(told));
    let slowest = all.iter().map(|(_, goodput)| *goodput);
    Ok(Outcome {
        figures: vec![
            (Figure::InvalidLinks, faults.count() as f64),
            (Figure::LatestUsP99, latest.fold(0.0, f64::max)),
            (
                Figure::SlowestMbit,
                slowest.fold(f64::INFINITY, f64::min) / 1e6,
            ),
        ],
        ..Outcome::default()
    })
}

impl Datagrams {
    /// The fault of a measurement in which nothing was to be lost, and something was.
    fn missing(&self) -> Option<String> {
        let Self { sent, received, .. } = self;
        (sent != received).then(|| format!("{received} of {sent} datagrams came"))
    }

    fn overflow(&self) -> Option<String> {
        let overflowed = self.overflowed;
        (overflowed > 0).then(|| format!("{overflowed} datagrams found the receiver too slow"))
    }
}

fn hidden_drops(told: &RunOutput) -> Option<String> {
    let drops = told.link.as_ref()?.hidden_drops;
    (drops > 0).then(|| format!("{drops} packets were dropped outside of the link"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagrams(received: u64, overflowed: u64) -> Datagrams {
        let quantiles = || Quantiles { p50: 1.0, p99: 2.0 };
        Datagrams {
            sent: 10,
            received,
            overflowed,
            error_ns: quantiles(),
            program_error_ns: quantiles(),
            ip_bits_per_s: 1.0,
            lost_digest: String::new(),
        }
    }

    #[test]
    fn what_the_receiver_had_no_room_for_is_no_loss_of_the_link() {
        assert_eq!(datagrams(10, 0).missing(), None);
        assert_eq!(datagrams(9, 0).missing().unwrap(), "9 of 10 datagrams came");
        assert_eq!(datagrams(9, 0).overflow(), None);
        assert!(datagrams(9, 1).overflow().unwrap().contains("too slow"));
    }
}
