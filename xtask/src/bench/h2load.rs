//! The load client h2load: its command line, and what it says at the end.
//!
//! A round counts only when every request brought a 2xx answer and all of its bytes.

use super::client::Outcome;
use super::placement::Placement;
use super::process::{self, Stop};
use super::site;
use super::workload::{Load, Transport};
use crate::shell;
use anyhow::{Context, Result, bail};
use std::net::SocketAddrV4;
use std::process::Command;
use std::time::Duration;

/// The Debian package that brings it.
pub(crate) const PACKAGE: &str = "nghttp2-client";

/// The cipher that every server offers and the client asks for.
pub(crate) const CIPHER: &str = "TLS_AES_128_GCM_SHA256";

/// A round takes seconds; a server that hangs shall not hold up the bench for ever.
const LIMIT: Duration = Duration::from_secs(120);

/// The report of h2load.
#[derive(Debug, Clone, PartialEq, Default)]
struct Report {
    seconds: f64,
    succeeded: u64,
    status_2xx: u64,
    /// Statuses of all answers, as h2load counts them.
    statuses: String,
    /// Body bytes.
    data_bytes: u64,
    /// Time from a request to the end of its answer, in seconds: the mean, and the longest.
    latency_mean: f64,
    latency_max: f64,
    /// Protocol and cipher; empty in clear text.
    tls: String,
}

impl Report {
    /// Reads the report of h2load 1.x.
    ///
    /// # Errors
    /// A line that every report has is missing or reads otherwise.
    fn parse(report: &str) -> Result<Self> {
        let line = |name: &str| {
            let found = report.lines().find_map(|line| line.strip_prefix(name));
            found.with_context(|| format!("no `{name}` in h2load's report:\n{report}"))
        };
        let traffic = line("traffic: ")?;
        let data = traffic.rsplit_once('(').map_or("", |(_, data)| data);
        let statuses = line("status codes: ")?;
        let latency: Vec<_> = line("time for request:")?.split_whitespace().collect();
        let [_min, max, mean, ..] = latency.as_slice() else {
            bail!("no latency in h2load's report:\n{report}");
        };
        let tls = [line("TLS Protocol: "), line("Cipher: ")];
        let tls = tls.into_iter().flatten().collect::<Vec<_>>();
        Ok(Self {
            seconds: seconds(line("finished in ")?)?,
            succeeded: count(line("requests: ")?, "succeeded")?,
            status_2xx: count(statuses, "2xx")?,
            statuses: statuses.to_owned(),
            data_bytes: leading_number(data)?,
            latency_mean: seconds(mean)?,
            latency_max: seconds(max)?,
            tls: tls.join(" "),
        })
    }

    fn outcome(self, load: Load, transport: Transport) -> Outcome {
        Outcome {
            seconds: self.seconds,
            body_bytes: self.data_bytes,
            latency_mean_us: self.latency_mean * 1e6,
            latency_max_us: self.latency_max * 1e6,
            latency_p50_us: None,
            latency_p99_us: None,
            fault: self.fault(load, transport),
            tls: self.tls,
        }
    }

    /// Reason for which the round doesn't count; `None` when it does.
    fn fault(&self, load: Load, transport: Transport) -> Option<String> {
        let asked = load.requests;
        if self.succeeded != asked || self.status_2xx != asked {
            let (succeeded, statuses) = (self.succeeded, &self.statuses);
            return Some(format!("{succeeded} of {asked} succeeded; {statuses}"));
        }
        if self.data_bytes != load.total_bytes() {
            let expected = load.total_bytes();
            return Some(format!("{} bytes, expected {expected}", self.data_bytes));
        }
        let is_right = transport == Transport::H2c || self.tls.ends_with(CIPHER);
        (!is_right).then(|| format!("the cipher was `{}`", self.tls))
    }
}

/// Runs `load` against `server` in `placement` and reads the report.
///
/// # Errors
/// h2load is missing, fails or hangs, or somebody asked to stop.
pub(crate) fn run(
    load: Load,
    transport: Transport,
    server: SocketAddrV4,
    placement: Placement,
    stop: &Stop,
) -> Result<Outcome> {
    let program = shell::find("h2load").context("h2load is not installed")?;
    let mut command = Command::new(program);
    command.args(arguments(load, transport, server));
    let report = process::output(&mut command, placement, LIMIT, stop).context("h2load failed")?;
    Ok(Report::parse(&report)?.outcome(load, transport))
}

/// Runs as [`run`] does, and gives the time of each request besides: microseconds until the end of its response.
///
/// # Errors
/// As for [`run`]; or h2load's log can't be read.
pub(crate) fn run_logged(
    load: Load,
    transport: Transport,
    server: SocketAddrV4,
    placement: Placement,
    stop: &Stop,
) -> Result<(Outcome, Vec<f64>)> {
    let program = shell::find("h2load").context("h2load is not installed")?;
    let log = tempfile::NamedTempFile::new().context("cannot make a file for h2load's log")?;
    let mut command = Command::new(program);
    command.arg(format!("--log-file={}", log.path().display()));
    command.args(arguments(load, transport, server));
    let report = process::output(&mut command, placement, LIMIT, stop).context("h2load failed")?;
    let outcome = Report::parse(&report)?.outcome(load, transport);
    let log = std::fs::read_to_string(log.path()).context("cannot read h2load's log")?;
    Ok((outcome, times(&log)?))
}

/// The third column of h2load's log of those that succeeded.
fn times(log: &str) -> Result<Vec<f64>> {
    let row = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [_, status, time, ..] = columns.as_slice() else {
            bail!("no time in h2load's log: `{line}`");
        };
        let time: f64 = time
            .parse()
            .with_context(|| format!("no time in h2load's log: `{line}`"))?;
        Ok(status.starts_with('2').then_some(time))
    };
    let times: Vec<Option<f64>> = log.lines().map(row).collect::<Result<_>>()?;
    Ok(times.into_iter().flatten().collect())
}

fn arguments(load: Load, transport: Transport, server: SocketAddrV4) -> Vec<String> {
    let figures = [
        ("-n", load.requests),
        ("-c", load.connections),
        ("-m", load.streams),
    ];
    let figures = figures
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value.to_string()]);
    let base = format!("{}://{server}", transport.scheme());
    let pace = load.connection_every_ms.map(|ms| {
        let period = format!("--rate-period={ms}ms");
        ["--rate=1".to_owned(), period]
    });
    let cipher = format!("--tls13-ciphers={CIPHER}");
    figures
        .chain(pace.into_iter().flatten())
        .chain([cipher])
        .chain(
            site::paths(load)
                .into_iter()
                .map(|path| format!("{base}{path}")),
        )
        .collect()
}

/// The number before ` name` in a list such as `3 2xx, 0 3xx`.
fn count(list: &str, name: &str) -> Result<u64> {
    let mut items = list.split(", ");
    let found = items.find_map(|item| item.strip_suffix(name));
    found
        .and_then(|number| number.trim().parse().ok())
        .with_context(|| format!("no count of {name} in `{list}`"))
}

fn leading_number(text: &str) -> Result<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let digits = &text[..end.unwrap_or(text.len())];
    digits
        .parse()
        .with_context(|| format!("no number in `{text}`"))
}

/// The duration at the head of `1.25s, 800.00 req/s, …`; h2load writes us, ms or s.
fn seconds(text: &str) -> Result<f64> {
    let word = text.split(',').next().unwrap_or(text);
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let parsed = units.into_iter().find_map(|(unit, scale)| {
        let number = word.strip_suffix(unit)?.parse::<f64>().ok()?;
        Some(number * scale)
    });
    parsed.with_context(|| format!("no duration in `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::super::workload::Workload;
    use super::*;

    const REPORT: &str = "\
TLS Protocol: TLSv1.3
Cipher: TLS_AES_128_GCM_SHA256
Application protocol: h2
progress: 100% done

finished in 850.25ms, 352837.00 req/s, 214.94MB/s
requests: 300000 total, 300000 started, 300000 done, 300000 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 300000 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 182.76MB (191636300) total, 8.58MB (9002300) headers (space savings 70.30%), 171.66MB (180000000) data
                     min         max         mean         sd        +/- sd
time for request:      312us     14.20ms      2.40ms       890us    71.20%
";

    fn server(port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port)
    }

    #[test]
    fn reads_the_times_of_a_log() {
        let log =
            "1790000000000000\t200\t345\n1790000000000100\t-1\t900\n1790000000000200\t204\t12\n";
        assert_eq!(times(log).unwrap(), [345.0, 12.0]);
        assert!(times("1\t200\n").is_err());
        assert!(times("1\t200\tsoon\n").is_err());
    }

    #[test]
    fn reads_a_report() {
        let report = Report::parse(REPORT).unwrap();
        assert!((report.seconds - 0.85025).abs() < 1e-9);
        assert_eq!(report.succeeded, 300_000);
        assert_eq!(report.status_2xx, 300_000);
        assert_eq!(report.data_bytes, 180_000_000);
        assert!((report.latency_mean - 0.0024).abs() < 1e-9);
        assert!((report.latency_max - 0.0142).abs() < 1e-9);
        assert_eq!(report.tls, "TLSv1.3 TLS_AES_128_GCM_SHA256");
        let outcome = report.outcome(Workload::W1.load(), Transport::Tls);
        assert!((outcome.latency_max_us - 14_200.0).abs() < 1e-6);
        assert_eq!(outcome.fault, None);
    }

    #[test]
    fn a_report_without_a_line_is_an_error() {
        let error = Report::parse("finished in 1s, 2 req/s\n").unwrap_err();
        assert!(error.to_string().contains("traffic"), "{error}");
    }

    #[test]
    fn whatever_is_missing_makes_the_round_invalid() {
        let load = Workload::W1.load();
        let good = Report::parse(REPORT).unwrap();
        let faulty = [
            Report {
                succeeded: 299_999,
                ..good.clone()
            },
            Report {
                status_2xx: 299_999,
                ..good.clone()
            },
            Report {
                data_bytes: 179_999_999,
                ..good.clone()
            },
            Report {
                tls: "TLSv1.3 TLS_AES_256_GCM_SHA384".into(),
                ..good.clone()
            },
        ];
        for report in faulty {
            assert!(report.fault(load, Transport::Tls).is_some(), "{report:?}");
        }
        let clear = Report {
            tls: String::new(),
            ..good
        };
        assert_eq!(clear.fault(load, Transport::H2c), None);
    }

    #[test]
    fn durations_have_three_units() {
        for (text, expected) in [("2.50s, x", 2.5), ("4.00ms, x", 0.004), ("5us", 5e-6)] {
            assert!((seconds(text).unwrap() - expected).abs() < 1e-12, "{text}");
        }
        assert!(seconds("soon").is_err());
    }

    #[test]
    fn a_trickle_has_its_pace() {
        let arguments =
            |workload: Workload| arguments(workload.load(), Transport::Tls, server(443));
        let trickle = arguments(Workload::Trickle).join(" ");
        assert!(
            trickle.contains(" --rate=1 --rate-period=1ms "),
            "{trickle}"
        );
        assert!(!arguments(Workload::Storm).join(" ").contains("--rate"));
    }

    #[test]
    fn each_workload_asks_for_its_files() {
        let uris = |workload: Workload| {
            let arguments = arguments(workload.load(), Transport::H2c, server(80));
            let uris = arguments.into_iter().filter(|a| a.starts_with("http://"));
            uris.collect::<Vec<_>>()
        };
        assert_eq!(uris(Workload::W2), ["http://127.0.0.1:80/600.txt"]);
        assert_eq!(uris(Workload::W3), ["http://127.0.0.1:80/10m.txt"]);
        assert_eq!(uris(Workload::W5).len(), 200);
    }
}
