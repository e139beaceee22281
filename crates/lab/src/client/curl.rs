//! curl as the client: single objects, over a new connection or after a first request.

use super::{FetchJob, Fetched, run};
use crate::{Error, presets};
use altway_record::{Client, Plan, Protocol, RequestRecord};
use serde::Deserialize;
use std::sync::atomic::AtomicBool;

/// Whether curl is there and speaks what the plan asks for: its version.
pub(super) fn check(plan: &Plan) -> Result<String, Error> {
    let said = presets::ask("curl", "--version").ok_or(Error::NoClient {
        client: Client::Curl,
    })?;
    let version = said.lines().next().unwrap_or_default().to_owned();
    let features = said.lines().find(|line| line.starts_with("Features:"));
    let has = |feature| features.is_some_and(|line| line.split(' ').any(|one| one == feature));
    let speaks = |protocol: &&Protocol| match protocol {
        Protocol::H1 => true,
        Protocol::H2 => has("HTTP2"),
        Protocol::H3 => has("HTTP3"),
    };
    match plan.protocols.iter().find(|protocol| !speaks(protocol)) {
        None => Ok(version),
        Some(protocol) => Err(Error::Unspoken {
            program: version.split(" (").next().unwrap_or_default().to_owned(),
            protocol: *protocol,
        }),
    }
}

/// What `--write-out '%{json}'` says of a request; times are in seconds since its start.
#[derive(Deserialize)]
struct Written {
    time_appconnect: f64,
    time_starttransfer: f64,
    time_total: f64,
    num_connects: u32,
    size_download: u64,
    response_code: u16,
    http_version: String,
    exitcode: i32,
    errormsg: Option<String>,
}

pub(super) fn fetch(job: &FetchJob<'_>, stop: &AtomicBool) -> Fetched {
    let testbed = job.testbed;
    let mut command = testbed.network.client_command("curl");
    command.arg(match job.protocol {
        Protocol::H1 => "--http1.1",
        Protocol::H2 => "--http2",
        Protocol::H3 => "--http3-only",
    });
    // No file of the user's may change what is measured.
    command.args(["--disable", "--silent", "--show-error", "--noproxy", "*"]);
    command.args(["--write-out", "%{json}\\n", "--cacert"]);
    command.arg(
        &testbed
            .workspace
            .certificates(testbed.certificate)
            .ca_certificate,
    );
    command
        .arg("--max-time")
        .arg(job.patience().as_secs_f64().to_string());
    for request in &job.visit.requests {
        let url = format!("{}{}", job.origin(), request.path);
        command.args(["--output", "/dev/null", &url]);
    }
    match run(command, job, stop) {
        Ok(ended) => match parse(&ended.stdout, job.protocol) {
            Some(records) => Fetched::Measured {
                records,
                involuntary_switches: ended.involuntary_switches,
                cpu: ended.cpu,
            },
            None => {
                let said = ended.stderr.trim();
                Fetched::Failed(format!("`curl` gave no measurement: {said}"))
            }
        },
        Err(fetched) => fetched,
    }
}

/// A line a request, in their order; each begins when the one before has ended.
fn parse(text: &str, protocol: Protocol) -> Option<Vec<RequestRecord>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let written: Result<Vec<Written>, _> = lines.map(serde_json::from_str).collect();
    let mut start_us = 0;
    let mut records = Vec::new();
    for (item, written) in (0..).zip(written.ok()?) {
        let record = record(&written, item, start_us, protocol);
        start_us += record.total_us;
        records.push(record);
    }
    (!records.is_empty()).then_some(records)
}

fn record(written: &Written, item: u32, start_us: u64, protocol: Protocol) -> RequestRecord {
    let failed = written.exitcode != 0;
    let why = || {
        written
            .errormsg
            .clone()
            .unwrap_or_else(|| "it failed".into())
    };
    RequestRecord {
        connection: 0,
        stream: item,
        item,
        protocol,
        protocol_used: match written.http_version.as_str() {
            "1" | "1.1" => Some(Protocol::H1),
            "2" => Some(Protocol::H2),
            "3" => Some(Protocol::H3),
            _ => None,
        },
        start_us,
        connect_us: (written.num_connects > 0).then(|| micros(written.time_appconnect)),
        first_byte_us: (written.time_starttransfer > 0.0)
            .then(|| micros(written.time_starttransfer)),
        total_us: micros(written.time_total),
        bytes: written.size_download,
        status: (written.response_code > 0).then_some(written.response_code),
        alt_svc: false,
        alt_svc_ma_s: None,
        error: failed.then(|| format!("curl: {}", why())),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of floats saturates, and curl's times are not negative"
)]
fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"time_appconnect":0.102,"time_starttransfer":0.2051,"time_total":2.5,"num_connects":1,"size_download":1000000,"response_code":200,"http_version":"2","exitcode":0,"errormsg":null,"more":1}"#;

    #[test]
    fn times_are_read_in_microseconds_and_follow_each_other() {
        let second = LINE.replace("\"num_connects\":1", "\"num_connects\":0");
        let records = parse(&format!("{LINE}\n{second}\n"), Protocol::H2).unwrap();
        assert_eq!(records[0].connect_us, Some(102_000));
        assert_eq!(records[0].first_byte_us, Some(205_100));
        assert_eq!(
            (records[1].connect_us, records[1].start_us),
            (None, 2_500_000)
        );
        assert_eq!(records[1].protocol_used, Some(Protocol::H2));
    }

    #[test]
    fn a_failure_is_told_in_curls_words() {
        let failed = LINE
            .replace("\"exitcode\":0", "\"exitcode\":28")
            .replace("null", "\"timed out\"");
        let record = &parse(&failed, Protocol::H2).unwrap()[0];
        assert_eq!(record.error.as_deref(), Some("curl: timed out"));
        assert!(parse("", Protocol::H2).is_none());
        assert!(parse("curl: (7) refused", Protocol::H2).is_none());
    }
}
