//! `altway load` as the load client over HTTP/3: its command line, and what it says at the end.
//!
//! A round counts only when every request was answered over HTTP/3 with status 200 and all of its
//! bytes, on as many connections as it asks for.

use super::client::Outcome;
use super::process::{self, Stop};
use super::seat::Seat;
use super::server::Place;
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

/// What `--json` prints beside the requests.
#[derive(Debug, Deserialize)]
struct Output {
    summary: Summary,
}

/// The figures of a run, as far as they matter here.
#[derive(Debug, Clone, Deserialize)]
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

#[derive(Debug, Clone, Copy, Deserialize)]
struct Times {
    mean_us: f64,
    max_us: u64,
}

/// Runs `load` against `server` in `seat`.
///
/// # Errors
/// The program is missing, can't begin or hangs, or somebody asked to stop.
pub(crate) fn run(
    load: Load,
    server: SocketAddrV4,
    place: Place,
    seat: Seat,
    stop: &Stop,
) -> Result<Outcome> {
    let mut command = Command::new(place.programs.join("altway"));
    command.env("NO_COLOR", "1").env_remove("ALTWAY_LOG");
    command.args(arguments(load, server)?);
    command.arg("--ca").arg(&place.site.authority);
    let ended = process::run(&mut command, seat, LIMIT, stop).context("altway load failed")?;
    // It ends with a failure when a request failed, and still tells how it went.
    let Ok(output) = serde_json::from_str::<Output>(&ended.stdout) else {
        bail!("altway load failed: {}: {}", ended.status, ended.stderr);
    };
    Ok(output.summary.outcome(load))
}

fn arguments(load: Load, server: SocketAddrV4) -> Result<Vec<String>> {
    let path = match site::paths(load).as_slice() {
        [path] => path.clone(),
        _ => bail!("altway load asks for one path"),
    };
    let url = format!("https://localhost:{}{path}", server.port());
    let line = ["load", &url, "--protocol", "h3", "--json", "--connect-to"];
    let figures = [
        ("-n", Some(load.requests)),
        ("-c", Some(load.connections)),
        ("-m", Some(load.streams)),
        // A request is due when its connection is: each opens one.
        ("--rate", load.connection_every_ms.map(|ms| 1000 / ms)),
    ];
    let figures = figures
        .into_iter()
        .filter_map(|(name, value)| Some([name.to_owned(), value?.to_string()]));
    let line = line.map(str::to_owned).into_iter();
    Ok(line
        .chain([server.to_string()])
        .chain(figures.flatten())
        .collect())
}

impl Summary {
    fn outcome(&self, load: Load) -> Outcome {
        let total = self.total.unwrap_or(Times {
            mean_us: 0.0,
            max_us: 0,
        });
        Outcome {
            seconds: Duration::from_micros(self.wall_us).as_secs_f64(),
            body_bytes: self.body_bytes,
            latency_mean_us: total.mean_us,
            latency_max_us: total.max_us as f64,
            tls: String::new(),
            fault: self.fault(load),
        }
    }

    fn fault(&self, load: Load) -> Option<String> {
        let asked = load.requests;
        let answered = self.statuses.get(&OK).copied().unwrap_or(0);
        if self.failed > 0 || answered != asked {
            let (failed, errors) = (self.failed, self.errors());
            return Some(format!(
                "{answered} of {asked} succeeded, {failed} failed{errors}"
            ));
        }
        let over_h3 = self.protocols.get("h3").copied().unwrap_or(0);
        [
            ("over HTTP/3", over_h3, asked),
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

#[cfg(test)]
mod tests {
    use super::super::workload::Workload;
    use super::*;
    use std::net::Ipv4Addr;

    const OUTPUT: &str = r#"{
        "requests": [{"connection": 0, "stream": 0}],
        "summary": {
            "protocol": "h3", "requests": 500, "failed": 0, "unsent": 0, "errors": [],
            "protocols": {"h3": 500}, "statuses": {"200": 500}, "connections": 500,
            "body_bytes": 300000, "wall_us": 250000, "requests_per_s": 2000.0,
            "total": {"count": 500, "min_us": 1, "mean_us": 1500.5, "p50_us": 2, "max_us": 9000}
        }
    }"#;

    fn summary() -> Summary {
        serde_json::from_str::<Output>(OUTPUT).unwrap().summary
    }

    #[test]
    fn reads_the_summary() {
        let outcome = summary().outcome(Workload::Hq3.load());
        let expected = Outcome {
            seconds: 0.25,
            body_bytes: 300_000,
            latency_mean_us: 1500.5,
            latency_max_us: 9000.0,
            tls: String::new(),
            fault: None,
        };
        assert_eq!(outcome, expected);
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
                statuses: BTreeMap::from([(OK, 499), (404, 1)]),
                ..summary()
            },
            Summary {
                protocols: BTreeMap::from([("h2".to_owned(), 500)]),
                ..summary()
            },
            Summary {
                connections: 499,
                ..summary()
            },
            Summary {
                body_bytes: 299_999,
                ..summary()
            },
        ];
        let faults = faulty.map(|summary| summary.fault(Workload::Hq3.load()).unwrap());
        assert!(faults[0].ends_with("; timed out (1 times)"), "{faults:?}");
        assert_eq!(faults[3], "499 connections, expected 500");
    }

    #[test]
    fn a_ramp_has_its_pace_and_asks_the_address_for_the_name() {
        let server = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 1), 443);
        let line = |workload: Workload| arguments(workload.load(), server).unwrap().join(" ");
        let ramp = line(Workload::Ramp);
        assert!(ramp.ends_with("-n 2000 -c 2000 -m 1 --rate 500"), "{ramp}");
        let bulk = line(Workload::Hq2);
        assert!(bulk.contains(" https://localhost:443/10m.txt "), "{bulk}");
        assert!(bulk.contains(" --connect-to 198.18.0.1:443 "), "{bulk}");
        assert!(!bulk.contains("--rate"), "{bulk}");
    }
}
