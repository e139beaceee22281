//! curl as the client: single objects, over a new connection or after a first request. One that comes back is a new
//! process for each session, with one file of what `Alt-Svc` said.

use super::{FetchJob, Fetched, run};
use crate::server::in_url;
use crate::{Error, presets};
use altway_record::{Client, Plan, Protocol, RequestRecord};
use serde::Deserialize;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Checks that curl is there and speaks what the plan asks for; returns its version.
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
    if !plan.policies.is_empty() && has("HTTP2") {
        if !has("alt-svc") {
            return Err(Error::NoAltSvc {
                program: short(&version),
            });
        }
        if !has("HTTP3") {
            let curl = short(&version);
            tracing::warn!("{curl} has no HTTP/3: it stays on HTTP/2, whatever it is offered");
        }
        return Ok(version);
    }
    match plan.protocols.iter().find(|protocol| !speaks(protocol)) {
        None => Ok(version),
        Some(protocol) => Err(Error::UnsupportedProtocol {
            program: short(&version),
            protocol: *protocol,
        }),
    }
}

/// `curl 7.88.1`, without the system that it was built for.
fn short(version: &str) -> String {
    version.split(" (").next().unwrap_or_default().to_owned()
}

/// The output of `--write-out '%{json}'` for a request; times are in seconds since its start.
#[derive(Deserialize)]
struct CurlReport {
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
    match job.visit.sessions.is_some() {
        true => fetch_returning(job, stop),
        false => fetch_once(job, None, stop).unwrap_or_else(|other| other),
    }
}

/// All sessions of a visit, which share what they were offered.
fn fetch_returning(job: &FetchJob<'_>, stop: &AtomicBool) -> Fetched {
    let kept = match tempfile::NamedTempFile::new() {
        Ok(kept) => kept,
        Err(error) => return Fetched::Failed(format!("curl's file can't be made: {error}")),
    };
    let mut all = Vec::new();
    let (mut switches, mut time) = (0, Some(Duration::ZERO));
    for session in 0..job.visit.session_count() {
        let aged = job
            .visit
            .apart(session)
            .map(|apart| age(kept.path(), apart));
        if let Some(Err(error)) = aged {
            return Fetched::Failed(format!("curl's file can't be made older: {error}"));
        }
        let made = fetch_once(job, Some(kept.path()), stop);
        let Ok(Fetched::Measured {
            records,
            involuntary_switches,
            cpu,
        }) = made
        else {
            return made.unwrap_or_else(|other| other);
        };
        let (first, start) = (all.len(), end_of(&all));
        all.extend(
            records
                .into_iter()
                .map(|record| later(record, first, start)),
        );
        switches += involuntary_switches;
        time = time.zip(cpu).map(|(time, cpu)| time + cpu);
    }
    Fetched::Measured {
        records: all,
        involuntary_switches: switches,
        cpu: time,
    }
}

/// Time at which the last of these requests ended, in microseconds.
fn end_of(records: &[RequestRecord]) -> u64 {
    records
        .last()
        .map_or(0, |record| record.start_us + record.total_us)
}

/// The same request in a session that begins at `start`, before which `first` were made.
fn later(record: RequestRecord, first: usize, start: u64) -> RequestRecord {
    let first = u32::try_from(first).unwrap_or(u32::MAX);
    RequestRecord {
        item: record.item.saturating_add(first),
        stream: record.stream.saturating_add(first),
        start_us: record.start_us.saturating_add(start),
        ..record
    }
}

/// Ages the offers that curl keeps by `time`: each line has the end of an entry in UTC, between quotes.
fn age(file: &Path, time: Duration) -> io::Result<()> {
    let text = std::fs::read_to_string(file)?;
    let lines: Vec<String> = text.lines().map(|line| aged(line, time)).collect();
    std::fs::write(file, lines.join("\n") + "\n")
}

/// A comment, or a line of another form, stays as it is.
fn aged(line: &str, time: Duration) -> String {
    const FORM: &str = "%Y%m%d %H:%M:%S";
    let older = || {
        let (before, rest) = line.split_once('"')?;
        let (end, after) = rest.split_once('"')?;
        let end = jiff::civil::DateTime::strptime(FORM, end).ok()?;
        let earlier = end
            .checked_sub(jiff::SignedDuration::try_from(time).ok()?)
            .ok()?;
        Some(format!("{before}\"{}\"{after}", earlier.strftime(FORM)))
    };
    older().unwrap_or_else(|| line.to_owned())
}

/// The requests of one session in one process, which keeps what it is offered in a file, if it is given one and may
/// go where it is led.
fn fetch_once(
    job: &FetchJob<'_>,
    kept: Option<&Path>,
    stop: &AtomicBool,
) -> Result<Fetched, Fetched> {
    let testbed = job.testbed;
    let mut command = testbed.network.client_command("curl");
    command.args(version_option(kept.is_some(), job.protocol));
    if let Some(file) = kept {
        command.arg("--alt-svc").arg(file);
    }
    if let Some(address) = job.named_address() {
        let (host, ip) = (testbed.host(), in_url(address.ip()));
        command.args(["--resolve", &format!("{host}:{}:{ip}", job.port)]);
    }
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
        .arg(job.request_timeout().as_secs_f64().to_string());
    for request in &job.visit.requests {
        let url = format!("{}{}", job.origin(), request.path);
        command.args(["--output", "/dev/null", &url]);
    }
    let ended = run(command, job, stop)?;
    Ok(match parse(&ended.stdout, job.protocol) {
        Some(records) => Fetched::Measured {
            records,
            involuntary_switches: ended.involuntary_switches,
            cpu: ended.cpu,
        },
        None => {
            let said = ended.stderr.trim();
            Fetched::Failed(format!("`curl` gave no measurement: {said}"))
        }
    })
}

/// The option for `protocol`. One that is to follow offers gets none: over TLS curl asks for HTTP/2 by itself, and with `--http2`
/// a curl that has HTTP/3 (8.14) follows no offer of it.
fn version_option(follows_offers: bool, protocol: Protocol) -> Option<&'static str> {
    match protocol {
        _ if follows_offers => None,
        Protocol::H1 => Some("--http1.1"),
        Protocol::H2 => Some("--http2"),
        Protocol::H3 => Some("--http3-only"),
    }
}

/// A line a request, in their order; each begins when the one before has ended.
fn parse(text: &str, protocol: Protocol) -> Option<Vec<RequestRecord>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let written: Result<Vec<CurlReport>, _> = lines.map(serde_json::from_str).collect();
    let mut start_us = 0;
    let mut records = Vec::new();
    for (item, written) in (0..).zip(written.ok()?) {
        let record = record(&written, item, start_us, protocol);
        start_us += record.total_us;
        records.push(record);
    }
    (!records.is_empty()).then_some(records)
}

fn record(written: &CurlReport, item: u32, start_us: u64, protocol: Protocol) -> RequestRecord {
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
    fn a_curl_that_is_to_follow_offers_is_confined_to_no_version() {
        for protocol in [Protocol::H2, Protocol::H3] {
            assert_eq!(version_option(true, protocol), None);
        }
        assert_eq!(version_option(false, Protocol::H2), Some("--http2"));
        assert_eq!(version_option(false, Protocol::H3), Some("--http3-only"));
    }

    #[test]
    fn what_curl_was_offered_grows_older() {
        let line = r#"h2 altway.test 8443 h3 altway.test 8443 "20261225 00:30:00" 0 0"#;
        let hour = Duration::from_secs(3_600);
        assert_eq!(
            aged(line, hour),
            line.replace("20261225 00:30", "20261224 23:30")
        );
        for other in ["# Your alt-svc cache.", "h2 a 1 h3 a 1 \"soon\" 0 0", ""] {
            assert_eq!(aged(other, hour), other);
        }
    }

    #[test]
    fn sessions_follow_each_other() {
        let records = parse(LINE, Protocol::H2).unwrap();
        let second = later(records[0].clone(), 1, end_of(&records));
        assert_eq!((second.item, second.start_us), (1, 2_500_000));
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
