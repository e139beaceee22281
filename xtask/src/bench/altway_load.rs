//! `altway load` as the load client over HTTP/3, and over every protocol where requests have a rate: its
//! command line, and what it says at the end.
//!
//! It keeps its connections until all requests are done, so where they are to come some at a time it
//! is run again and again. A round counts only when every request was answered over the protocol asked for with status
//! 200 and all of its bytes, on as many connections as it asks for. At a rate each request is timed from when it was
//! due, so that one which has to wait for others is as slow as its user would find it.

use super::client::Outcome;
use super::placement::Placement;
use super::process::{self, Stop};
use super::server::ServerSetup;
use super::site;
use super::workload::Load;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::process::Command;
use std::time::Duration;

/// A round takes seconds; a server that hangs shall not hold up the bench for ever.
const LIMIT: Duration = Duration::from_secs(120);

const OK: u16 = 200;

/// A protocol that it asks over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1 in clear text.
    H1,
    /// HTTP/2 over TLS.
    H2,
    H3,
}

impl Protocol {
    const fn name(self) -> &'static str {
        match self {
            Self::H1 => "h1",
            Self::H2 => "h2",
            Self::H3 => "h3",
        }
    }

    const fn scheme(self) -> &'static str {
        match self {
            Self::H1 => "http",
            Self::H2 | Self::H3 => "https",
        }
    }

    /// Requests at the same time on a connection that the load wants `wanted` of.
    const fn streams(self, wanted: u64) -> u64 {
        match self {
            Self::H1 => 1,
            Self::H2 | Self::H3 => wanted,
        }
    }
}

/// The output of `--json` beside the requests.
#[derive(Debug, Deserialize)]
struct Output {
    summary: Summary,
}

/// The figures of a run, as far as they matter here.
#[derive(Debug, Clone, Default, Deserialize)]
struct Summary {
    failed: u64,
    errors: Vec<ErrorCount>,
    /// Requests by the protocol that answered.
    protocols: BTreeMap<String, u64>,
    statuses: BTreeMap<u16, u64>,
    connections: u64,
    body_bytes: u64,
    wall_us: u64,
    /// Time to the last byte.
    total: Option<Times>,
}

#[derive(Debug, Clone, Deserialize)]
struct ErrorCount {
    error: String,
    count: u64,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct Times {
    count: u64,
    mean_us: f64,
    /// `None` of several runs together.
    p50_us: Option<u64>,
    p99_us: Option<u64>,
    max_us: u64,
}

/// Runs `load` against `server` over `protocol` in `placement`.
///
/// # Errors
/// The program is missing, can't begin or hangs, or somebody asked to stop.
pub(crate) fn run(
    load: Load,
    protocol: Protocol,
    server: SocketAddrV4,
    place: ServerSetup,
    placement: Placement,
    stop: &Stop,
) -> Result<Outcome> {
    let mut whole = Summary::default();
    for part in load.parts() {
        let mut command = Command::new(place.programs.join("altway"));
        command.env("NO_COLOR", "1").env_remove("ALTWAY_LOG");
        command.args(arguments(part, protocol, server)?);
        if protocol.scheme() == "https" {
            command.arg("--ca").arg(&place.site.authority);
        }
        whole.add(run_once(&mut command, placement, stop)?);
    }
    Ok(whole.outcome(load, protocol))
}

fn run_once(command: &mut Command, placement: Placement, stop: &Stop) -> Result<Summary> {
    let ended = process::run(command, placement, LIMIT, stop).context("altway load failed")?;
    // It ends with a failure when a request failed, and still tells how it went.
    let Ok(output) = serde_json::from_str::<Output>(&ended.stdout) else {
        bail!("altway load failed: {}: {}", ended.status, ended.stderr);
    };
    Ok(output.summary)
}

fn arguments(load: Load, protocol: Protocol, server: SocketAddrV4) -> Result<Vec<String>> {
    let path = match site::paths(load).as_slice() {
        [path] => path.clone(),
        _ => bail!("altway load asks for one path"),
    };
    let (name, scheme) = (protocol.name(), protocol.scheme());
    let url = format!("{scheme}://localhost:{}{path}", server.port());
    let line = ["load", &url, "--protocol", name, "--json", "--connect-to"];
    let figures = [
        ("-n", load.requests.to_string()),
        ("-c", load.connections.to_string()),
        ("-m", protocol.streams(load.streams).to_string()),
    ];
    let figures = figures.into_iter().chain(pace(load));
    let figures = figures.map(|(name, value)| [name.to_owned(), value]);
    let line = line.map(str::to_owned).into_iter();
    Ok(line
        .chain([server.to_string()])
        .chain(figures.flatten())
        .collect())
}

fn pace(load: Load) -> Option<(&'static str, String)> {
    match (load.per_second, load.connection_every_ms) {
        (Some(rate), _) => Some(("--rate", rate.to_string())),
        // A request is due when its connection is: each opens one.
        (None, Some(ms)) if load.requests == load.connections => {
            Some(("--rate", (1000 / ms).to_string()))
        }
        (None, Some(ms)) => Some(("--ramp", format!("{}ms", ms * load.connections))),
        (None, None) => None,
    }
}

impl Summary {
    /// Adds a run that came after this one.
    fn add(&mut self, later: Self) {
        self.failed += later.failed;
        self.errors.extend(later.errors);
        for (protocol, count) in later.protocols {
            *self.protocols.entry(protocol).or_default() += count;
        }
        for (status, count) in later.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self.connections += later.connections;
        self.body_bytes += later.body_bytes;
        self.wall_us += later.wall_us;
        self.total = match (self.total, later.total) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => one.or(other),
        };
    }

    fn outcome(&self, load: Load, protocol: Protocol) -> Outcome {
        let total = self.total.unwrap_or_default();
        Outcome {
            seconds: Duration::from_micros(self.wall_us).as_secs_f64(),
            body_bytes: self.body_bytes,
            latency_mean_us: total.mean_us,
            latency_max_us: total.max_us as f64,
            latency_p50_us: total.p50_us.map(|us| us as f64),
            latency_p99_us: total.p99_us.map(|us| us as f64),
            tls: String::new(),
            fault: self.fault(load, protocol),
        }
    }

    fn fault(&self, load: Load, protocol: Protocol) -> Option<String> {
        let asked = load.requests;
        let answered = self.statuses.get(&OK).copied().unwrap_or(0);
        if self.failed > 0 || answered != asked {
            let (failed, errors) = (self.failed, self.errors());
            return Some(format!(
                "{answered} of {asked} succeeded, {failed} failed{errors}"
            ));
        }
        let over_it = self.protocols.get(protocol.name()).copied().unwrap_or(0);
        [
            ("over the protocol", over_it, asked),
            ("connections", self.connections, load.connections),
            ("bytes", self.body_bytes, load.total_bytes()),
        ]
        .into_iter()
        .find(|(_, found, expected)| found != expected)
        .map(|(what, found, expected)| format!("{found} {what}, expected {expected}"))
    }

    fn errors(&self) -> String {
        let errors = self.errors.iter();
        let errors = errors.map(|kind| format!("; {} ({} times)", kind.error, kind.count));
        errors.collect()
    }
}

impl Times {
    fn and(self, other: Self) -> Self {
        let sum = |times: Self| times.mean_us * times.count as f64;
        let count = self.count + other.count;
        Self {
            count,
            p50_us: None,
            p99_us: None,
            mean_us: (sum(self) + sum(other)) / count as f64,
            max_us: self.max_us.max(other.max_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::Workload;
    use super::*;
    use std::net::Ipv4Addr;

    const OUTPUT: &str = r#"{
        "requests": [{"connection": 0, "stream": 0}],
        "summary": {
            "protocol": "h3", "requests": 1000, "failed": 0, "unsent": 0, "errors": [],
            "protocols": {"h3": 1000}, "statuses": {"200": 1000}, "connections": 1000,
            "body_bytes": 600000, "wall_us": 250000, "requests_per_s": 2000.0,
            "total": {"count": 1000, "min_us": 1, "mean_us": 1500.5, "p50_us": 2, "p99_us": 8000, "max_us": 9000}
        }
    }"#;

    fn summary() -> Summary {
        serde_json::from_str::<Output>(OUTPUT).unwrap().summary
    }

    #[test]
    fn reads_the_summary() {
        let outcome = summary().outcome(Workload::Hq3.load(), Protocol::H3);
        let expected = Outcome {
            seconds: 0.25,
            body_bytes: 600_000,
            latency_mean_us: 1500.5,
            latency_max_us: 9000.0,
            latency_p50_us: Some(2.0),
            latency_p99_us: Some(8000.0),
            tls: String::new(),
            fault: None,
        };
        assert_eq!(outcome, expected);
    }

    #[test]
    fn runs_add_up_and_a_slower_one_shows() {
        let slow = Times {
            count: 3000,
            mean_us: 3500.5,
            max_us: 50_000,
            ..Times::default()
        };
        let mut whole = Summary::default();
        whole.add(summary());
        whole.add(Summary {
            total: Some(slow),
            ..summary()
        });
        let outcome = whole.outcome(Workload::Hq3.load(), Protocol::H3);
        assert_eq!(outcome.latency_p99_us, None);
        assert!((outcome.seconds - 0.5).abs() < 1e-9);
        assert!((outcome.latency_mean_us - 3000.5).abs() < 1e-9);
        assert!((outcome.latency_max_us - 50_000.0).abs() < 1e-9);
        assert_eq!((whole.connections, whole.statuses[&OK]), (2000, 2000));
    }

    #[test]
    fn whatever_is_missing_makes_the_round_invalid() {
        let timed_out = ErrorCount {
            error: "timed out".into(),
            count: 1,
        };
        let faulty = [
            Summary {
                failed: 1,
                errors: vec![timed_out],
                ..summary()
            },
            Summary {
                statuses: BTreeMap::from([(OK, 999), (404, 1)]),
                ..summary()
            },
            Summary {
                protocols: BTreeMap::from([("h2".to_owned(), 1000)]),
                ..summary()
            },
            Summary {
                connections: 999,
                ..summary()
            },
            Summary {
                body_bytes: 599_999,
                ..summary()
            },
        ];
        let fault = |summary: Summary| summary.fault(Workload::Hq3.load(), Protocol::H3);
        let faults = faulty.map(|summary| fault(summary).unwrap());
        assert!(faults[0].ends_with("; timed out (1 times)"), "{faults:?}");
        assert_eq!(faults[3], "999 connections, expected 1000");
    }

    #[test]
    fn a_ramp_has_its_pace_and_asks_the_address_for_the_name() {
        let server = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 1), 443);
        let over = |workload: Workload, protocol| {
            let line = arguments(workload.load(), protocol, server).unwrap();
            line.join(" ")
        };
        let line = |workload| over(workload, Protocol::H3);
        let ramp = line(Workload::Ramp);
        assert!(ramp.ends_with("-n 2000 -c 2000 -m 1 --rate 500"), "{ramp}");
        let small = line(Workload::Hq1);
        assert!(small.ends_with("-c 100 -m 10 --ramp 200ms"), "{small}");
        let bulk = line(Workload::Hq2);
        assert!(bulk.contains(" https://localhost:443/10m.txt "), "{bulk}");
        assert!(bulk.contains(" --connect-to 198.18.0.1:443 "), "{bulk}");
        assert!(bulk.ends_with("-n 80 -c 8 -m 1"), "{bulk}");
        let paced = over(Workload::ProxyLatency, Protocol::H2);
        assert!(
            paced.ends_with("-n 10000 -c 10 -m 10 --rate 1000"),
            "{paced}"
        );
        let direct = over(Workload::ProxyLatency, Protocol::H1);
        assert!(direct.contains("load http://localhost:443/600.txt --protocol h1 "));
        assert!(
            direct.ends_with("-n 10000 -c 10 -m 1 --rate 1000"),
            "{direct}"
        );
    }
}
