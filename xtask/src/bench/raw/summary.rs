//! Transfers become a line for each transport over each link, for people and for programs.

use super::contestant::Contestant;
use super::link::Link;
use super::record::Record;
use crate::bench::summary::Spread;
use crate::bench::table;
use altway_stats::{CompareOptions, compare};
use anyhow::Result;
use serde::Serialize;

/// The rate of QUIC over another transport's below which its cause is to be found.
const LEVEL: f64 = 0.95;

/// A transport over a link.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    link: Link,
    bytes: u64,
    transport: Contestant,
    /// Valid ones.
    rounds: usize,
    invalid_rounds: usize,
    mb_per_s: Option<Spread>,
    /// QUIC's rate over its own, seed by seed.
    ratio: Option<Ratio>,
    packets: Option<Spread>,
    lost: Option<Spread>,
    dropped: Option<Spread>,
}

/// The Hodges–Lehmann estimate of the ratio of two rates with the same seed, and its interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ratio {
    estimate: f64,
    interval: Option<(f64, f64)>,
}

#[derive(Serialize)]
struct Row {
    link: Link,
    transport: Contestant,
    rounds: usize,
    invalid_rounds: usize,
    mb_per_s_median: Option<f64>,
    mb_per_s_min: Option<f64>,
    mb_per_s_max: Option<f64>,
    quic_over_it: Option<f64>,
    quic_over_it_low: Option<f64>,
    quic_over_it_high: Option<f64>,
    packets_median: Option<f64>,
    packets_lost_median: Option<f64>,
    packets_queue_dropped_median: Option<f64>,
}

/// Links and transports in their own order.
pub(crate) fn summarize(records: &[Record]) -> Vec<Line> {
    let mut lines = Vec::new();
    for link in Link::ALL {
        for transport in Contestant::ALL {
            let is_it = |record: &&Record| record.link == link && record.transport == transport;
            let mine: Vec<_> = records.iter().filter(is_it).collect();
            if !mine.is_empty() {
                lines.push(Line::of(&mine, records));
            }
        }
    }
    lines
}

/// The tables, one for each link.
pub(crate) fn text(lines: &[Line]) -> String {
    let mut text = String::new();
    for of_link in lines.chunk_by(|a, b| a.link == b.link) {
        let Line { link, bytes, .. } = &of_link[0];
        text.push_str(&format!(
            "{}; {} kB down\n",
            link.describe(1),
            bytes / 1_000
        ));
        text.push_str(&columns([
            "transport",
            "n",
            "MB/s",
            "quic / it",
            "packets",
            "lost",
            "dropped",
        ]));
        for line in of_link {
            text.push_str(&row(line));
        }
        text.push('\n');
    }
    text + LEGEND
}

const LEGEND: &str = "\
MB/s: 10⁶ bytes of payload a second, median of the seeds [smallest–largest]. quic / it: altway's QUIC over
the transport in MB/s, of transfers with the same seed: Hodges–Lehmann estimate [interval of 95 %].
Packets: those that the server put on the link; of them lost at random, and dropped by the full queue.
";

/// # Errors
/// Memory is gone.
pub(crate) fn csv(lines: &[Line]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for line in lines {
        writer.serialize(Row::from(line))?;
    }
    Ok(writer.into_inner()?)
}

impl Line {
    fn of(mine: &[&Record], all: &[Record]) -> Self {
        let first = mine[0];
        let valid: Vec<_> = mine.iter().copied().filter(|record| record.valid).collect();
        let spread = |figure: fn(&Record) -> f64| {
            let figures: Vec<_> = valid.iter().map(|record| figure(record)).collect();
            Spread::of(&figures)
        };
        Self {
            link: first.link,
            bytes: first.bytes,
            transport: first.transport,
            rounds: valid.len(),
            invalid_rounds: mine.len() - valid.len(),
            mb_per_s: spread(Record::mb_per_s),
            ratio: Ratio::of(&valid, all),
            packets: spread(|record| record.packets as f64),
            lost: spread(|record| record.packets_lost as f64),
            dropped: spread(|record| record.packets_queue_dropped as f64),
        }
    }
}

impl Ratio {
    /// `None` of QUIC itself, and without a seed that both have.
    fn of(theirs: &[&Record], all: &[Record]) -> Option<Self> {
        let quic_of = |it: &Record| {
            let is_quic = |quic: &&Record| {
                let same = (quic.link, quic.seed) == (it.link, it.seed);
                same && quic.valid && quic.transport == Contestant::Quic
            };
            all.iter().find(is_quic)
        };
        let others = theirs.iter().filter(|it| it.transport != Contestant::Quic);
        let pairs = others.filter_map(|it| Some((it.duration_s, quic_of(it)?.duration_s)));
        let (theirs, quic): (Vec<_>, Vec<_>) = pairs.unzip();
        let comparison = compare(&theirs, &quic, &CompareOptions::default())?;
        // Times become rates: the ends change places.
        let interval = comparison.interval;
        Some(Self {
            estimate: (-comparison.estimate).exp(),
            interval: interval.map(|it| ((-it.high).exp(), (-it.low).exp())),
        })
    }
}

impl From<&Line> for Row {
    fn from(line: &Line) -> Self {
        let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
        let interval = line.ratio.and_then(|ratio| ratio.interval);
        Self {
            link: line.link,
            transport: line.transport,
            rounds: line.rounds,
            invalid_rounds: line.invalid_rounds,
            mb_per_s_median: median(line.mb_per_s),
            mb_per_s_min: line.mb_per_s.map(|spread| spread.min),
            mb_per_s_max: line.mb_per_s.map(|spread| spread.max),
            quic_over_it: line.ratio.map(|ratio| ratio.estimate),
            quic_over_it_low: interval.map(|(low, _)| low),
            quic_over_it_high: interval.map(|(_, high)| high),
            packets_median: median(line.packets),
            packets_lost_median: median(line.lost),
            packets_queue_dropped_median: median(line.dropped),
        }
    }
}

fn row(line: &Line) -> String {
    let whole =
        |spread: Option<Spread>| spread.map_or("–".into(), |it| format!("{:.0}", it.median));
    let row = columns([
        &line.transport.to_string(),
        &line.rounds.to_string(),
        &line.mb_per_s.map_or("–".into(), table::spread),
        &line.ratio.map_or(String::new(), ratio),
        &whole(line.packets),
        &whole(line.lost),
        &whole(line.dropped),
    ]);
    match line.invalid_rounds {
        0 => row,
        n => format!("{}  {n} INVALID\n", row.trim_end()),
    }
}

fn ratio(ratio: Ratio) -> String {
    let interval = ratio.interval.map_or(String::new(), |(low, high)| {
        format!(" [{low:.2}–{high:.2}]")
    });
    let slower = if ratio.estimate < LEVEL {
        " SLOWER"
    } else {
        ""
    };
    format!("{:.2}{interval}{slower}", ratio.estimate)
}

fn columns(cells: [&str; 7]) -> String {
    let [transport, n, rate, ratio, packets, lost, dropped] = cells;
    let row =
        format!("{transport:<11}{n:>3}  {rate:<24}{ratio:<26}{packets:>8}{lost:>7}{dropped:>9}");
    row.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(transport: Contestant, seed: u64, duration_s: f64) -> Record {
        Record {
            link: Link::Loss5,
            transport,
            round: 1,
            seed,
            bytes: 1_000_000,
            duration_s,
            packets: 750,
            packets_lost: 40,
            packets_queue_dropped: 0,
            lateness_us_p99: 100.0,
            valid: true,
            fault: String::new(),
        }
    }

    #[test]
    fn rates_are_compared_seed_by_seed() {
        let records = vec![
            record(Contestant::Quic, 1, 20.0),
            record(Contestant::QuicGo, 1, 10.0),
            record(Contestant::Quic, 2, 40.0),
            record(Contestant::QuicGo, 2, 20.0),
            // No other has this seed.
            record(Contestant::Quic, 3, 1.0),
        ];
        let text = text(&summarize(&records));
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(row("loss-5").contains("1000 kB down"), "{text}");
        assert!(row("quic-go").contains("0.075 [0.050–0.100]"), "{text}");
        assert!(row("quic-go").contains("0.50 [0.50–0.50] SLOWER"), "{text}");
    }

    #[test]
    fn what_is_not_valid_is_counted_and_no_more() {
        let mut late = record(Contestant::Tcp, 2, 1.0);
        late.valid = false;
        let lines = summarize(&[record(Contestant::Tcp, 1, 10.0), late]);
        assert_eq!((lines[0].rounds, lines[0].invalid_rounds), (1, 1));
        assert!(text(&lines).contains("1 INVALID"));
        let csv = String::from_utf8(csv(&lines).unwrap()).unwrap();
        assert!(
            csv.lines()
                .nth(1)
                .unwrap()
                .starts_with("loss-5,tcp,1,1,0.1,"),
            "{csv}"
        );
    }
}
