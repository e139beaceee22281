//! The transports, the two programs that speak each, and what they and the link have to tell.

use super::link::Transfer;
use crate::bench::placement::Placement;
use crate::bench::process::{self, Stop};
use crate::bench::site::Site;
use crate::go;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The time that a transfer may take in all.
const LIMIT: Duration = Duration::from_secs(600);

/// The time for which nothing may move in a transfer. Several time-outs in a row are part of life
/// under loss.
const IDLE_TIMEOUT: &str = "60s";

/// A transport, in the order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contestant {
    Quic,
    Tcp,
    Tls,
    QuicGo,
}

/// The result of a transfer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    /// Time from the request to the last byte, by the client's clock, in seconds.
    pub(crate) seconds: f64,
    pub(crate) link: LinkReport,
}

/// The output of `altway emulate --json`, as far as it matters.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct LinkReport {
    pub(crate) down: DirectionReport,
    pub(crate) lateness_us_p99: f64,
    lateness_limit_us: f64,
    hidden_drops: u64,
}

/// Counters of the direction from the server to the client.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct DirectionReport {
    pub(crate) packets_in: u64,
    pub(crate) packets_lost: u64,
    pub(crate) packets_queue_dropped: u64,
}

impl Contestant {
    pub(crate) const ALL: [Self; 4] = [Self::Quic, Self::Tcp, Self::Tls, Self::QuicGo];

    /// # Errors
    /// A program can't be started or fails, or the link's or the client's words make no sense.
    pub(crate) fn measure(
        self,
        transfer: &Transfer,
        altway: &Path,
        site: &Site,
        stop: &Stop,
    ) -> Result<Outcome> {
        let (server, client) = self.programs(transfer.bytes, altway, site)?;
        let mut command = Command::new(altway);
        command.env("NO_COLOR", "1").env_remove("ALTWAY_LOG");
        command.arg("emulate").args(&transfer.link);
        command.args(["--seed", &transfer.seed.to_string()]);
        // Links this slow leave processors idle, and a virtual one that idles wakes milliseconds late.
        command.arg("--keep-awake");
        command.args(["--congestion", "cubic", "--json", "--server", &server]);
        command.args(["--", "sh", "-c", &client]);
        let placement = Placement {
            cores: &[],
            namespace: None,
        };
        let ended = process::run(&mut command, placement, LIMIT, stop)?;
        ensure!(ended.status.success(), "{}: {}", ended.status, ended.stderr);
        outcome(&ended.stdout, &ended.stderr)
    }

    /// Server and client as command lines of a shell, in which `$ALTWAY_SERVER` is the server's
    /// address.
    fn programs(self, bytes: u64, altway: &Path, site: &Site) -> Result<(String, String)> {
        let (certificate, key) = (quoted(&site.certificate), quoted(&site.key));
        if self == Self::QuicGo {
            let program = quoted(&go::quic_go_raw().context("bench-quic-go-raw is missing")?);
            return Ok((
                format!("{program} -serve 0.0.0.0:9443 -certificate {certificate} -key {key}"),
                format!("{program} -ask \"$ALTWAY_SERVER:9443\" -size {bytes}"),
            ));
        }
        let altway = quoted(altway);
        Ok((
            format!("{altway} raw serve --bind 0.0.0.0 --cert {certificate} --key {key}"),
            format!(
                "{altway} raw send \"$ALTWAY_SERVER\" --over {self} --size {bytes}B \
                 --insecure --timeout {IDLE_TIMEOUT} --json"
            ),
        ))
    }
}

impl LinkReport {
    /// The reason for which the transfer doesn't count, if it doesn't.
    pub(crate) fn fault(&self) -> Option<String> {
        let late = self.lateness_us_p99 > self.lateness_limit_us;
        match (self.hidden_drops, late) {
            (0, false) => None,
            (0, true) => Some(format!(
                "the link was late by {:.0} µs",
                self.lateness_us_p99
            )),
            (drops, _) => Some(format!("{drops} packets were dropped outside of the link")),
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no transport is hidden");
        f.pad(value.get_name())
    }
}

/// The version of quic-go, by the program around it.
pub(crate) fn quic_go_version() -> String {
    let program = go::quic_go_raw().context("it is missing");
    let output = program.and_then(|program| Ok(Command::new(program).arg("-version").output()?));
    output.map_or("unknown".into(), |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}

/// The client writes its figures to standard output, the link a line to standard error, where the
/// server's words are as well.
fn outcome(stdout: &str, stderr: &str) -> Result<Outcome> {
    let figures: serde_json::Value = serde_json::from_str(stdout)?;
    let run = figures.pointer("/runs/0").unwrap_or(&figures);
    let wall_us = run["wall_us"].as_u64().context("no time of the client's")?;
    if let Some(control) = run.pointer("/server/path/congestion") {
        ensure!(
            control == "cubic",
            "the server's congestion control is {control}"
        );
    }
    let mut reports = stderr
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    Ok(Outcome {
        seconds: wall_us as f64 / 1e6,
        link: reports.next_back().context("no report of the link")?,
    })
}

/// The path, quoted for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: &str = r#"{"up":{},"down":{"packets_in":800,"packets_lost":40,
        "packets_queue_dropped":1},"lateness_us_p99":99.5,"lateness_limit_us":1000.0,"hidden_drops":0}"#;

    fn read(stdout: &str) -> Result<Outcome> {
        outcome(
            stdout,
            &format!("listening\n{}\nbye", LINK.replace('\n', "")),
        )
    }

    #[test]
    fn both_clients_tell_their_time() {
        let theirs = read(r#"{"bytes":1,"wall_us":2500000}"#).unwrap();
        let ours = r#"{"runs":[{"wall_us":2500000,"server":{"path":{"congestion":"cubic"}}}]}"#;
        assert_eq!(read(ours).unwrap(), theirs);
        assert_eq!(theirs.seconds, 2.5);
        assert_eq!(theirs.link.down.packets_lost, 40);
        assert_eq!(theirs.link.fault(), None);
    }

    #[test]
    fn another_congestion_control_is_no_measurement() {
        let bbr = r#"{"runs":[{"wall_us":2500000,"server":{"path":{"congestion":"bbr"}}}]}"#;
        assert!(read(bbr).unwrap_err().to_string().contains("bbr"));
    }

    #[test]
    fn a_late_link_is_a_fault() {
        let mut report: LinkReport = serde_json::from_str(LINK).unwrap();
        report.lateness_us_p99 = 1_001.0;
        assert!(report.fault().unwrap().contains("1001 µs"));
        report.hidden_drops = 3;
        assert!(report.fault().unwrap().contains("3 packets"));
    }

    #[test]
    fn a_path_with_a_quote_stays_one_word() {
        assert_eq!(quoted(Path::new("/it's")), r"'/it'\''s'");
    }
}
