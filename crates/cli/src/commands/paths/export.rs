//! `altway paths export`: what is known of each client, a line for each.

use altway_select::{ClientRecord, UnixTime};
use altway_serve::KeptPaths;
use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// The form of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Csv,
    Json,
}

/// A client. What is not known is empty in CSV, and null in JSON.
#[derive(Debug, PartialEq, Serialize)]
struct Line {
    /// Twelve hexadecimal digits.
    key: String,
    class: String,
    tcp_rate_bps: Option<u64>,
    quic_rate_bps: Option<u64>,
    /// The path carries at least so much.
    least_rate_bps: u64,
    tcp_rtt_ms: Option<f64>,
    quic_rtt_ms: Option<f64>,
    /// Older packets and pages count less.
    packets_sent: f64,
    packets_lost: f64,
    tcp_pages: f64,
    /// Mean of ln of the pages' time over what was predicted.
    tcp_residual: f64,
    quic_pages: f64,
    quic_residual: f64,
    offers: u8,
    arrivals: u8,
    udp_blocked: bool,
    held: bool,
    /// Beginning of the latest visit, in seconds since 1970.
    last_visit: u64,
}

impl Line {
    fn of(record: &ClientRecord) -> Self {
        let [tcp_rate_bps, quic_rate_bps] = record.rates.map(|rate| rate.map(|it| it as u64));
        let [tcp_rtt_ms, quic_rtt_ms] = record.rtts.map(|rtt| rtt.map(|it| rounded(1e3 * it)));
        let [tcp, quic] = record.pages;
        Self {
            key: record.key.to_string(),
            class: record.class.to_string(),
            tcp_rate_bps,
            quic_rate_bps,
            least_rate_bps: record.floor as u64,
            tcp_rtt_ms,
            quic_rtt_ms,
            packets_sent: rounded(record.packets.0),
            packets_lost: rounded(record.packets.1),
            tcp_pages: rounded(tcp.0),
            tcp_residual: rounded(tcp.1),
            quic_pages: rounded(quic.0),
            quic_residual: rounded(quic.1),
            offers: record.offers.0,
            arrivals: record.offers.1,
            udp_blocked: record.udp_blocked,
            held: record.held,
            last_visit: record.last_visit.as_secs(),
        }
    }
}

/// Four decimals.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

pub(super) fn run(kept: &KeptPaths, format: Format) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = UnixTime::from_secs(now.unwrap_or_default().as_secs());
    let mut lines = Vec::new();
    kept.selector()
        .each_client(now, |record| lines.push(Line::of(record)));
    lines.sort_by(|a, b| (&a.key, &a.class).cmp(&(&b.key, &b.class)));
    let out = BufWriter::new(io::stdout().lock());
    match format {
        Format::Csv => write_csv(&lines, out)?,
        Format::Json => write_json(&lines, out)?,
    }
    Ok(())
}

/// Lines of comma-separated values (RFC 4180) under a head, which is there without a client as well.
fn write_csv(lines: &[Line], out: impl Write) -> io::Result<()> {
    const HEAD: [&str; 18] = [
        "key",
        "class",
        "tcp_rate_bps",
        "quic_rate_bps",
        "least_rate_bps",
        "tcp_rtt_ms",
        "quic_rtt_ms",
        "packets_sent",
        "packets_lost",
        "tcp_pages",
        "tcp_residual",
        "quic_pages",
        "quic_residual",
        "offers",
        "arrivals",
        "udp_blocked",
        "held",
        "last_visit",
    ];
    let mut writer = csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(out);
    writer.write_record(HEAD).map_err(io_error)?;
    for line in lines {
        writer.serialize(line).map_err(io_error)?;
    }
    writer.flush()
}

fn write_json(lines: &[Line], mut out: impl Write) -> io::Result<()> {
    for line in lines {
        serde_json::to_writer(&mut out, line)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// The error of the system's that is in it, as who reads our stdout may go away.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_select::{Client, Secret};

    fn line() -> Line {
        let address = "192.0.2.7".parse().unwrap();
        let class = "firefox-linux".parse().unwrap();
        let client = Client::new(&Secret::new([1; 16]), address, class);
        Line::of(&ClientRecord {
            key: client.key(),
            class,
            rates: [Some(9e7), None],
            floor: 1e6,
            rtts: [Some(0.020_000_1), None],
            packets: (1_000.0, 0.5),
            pages: [(2.0, 0.123_456), (0.0, 0.0)],
            offers: (3, 1),
            udp_blocked: false,
            held: true,
            last_visit: UnixTime::from_secs(1_795_392_000),
        })
    }

    #[test]
    fn both_forms_have_the_same_names_and_values() {
        let (mut csv, mut json) = (Vec::new(), Vec::new());
        write_csv(&[line()], &mut csv).unwrap();
        write_json(&[line()], &mut json).unwrap();
        let json: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(&json).unwrap();
        let mut reader = csv::Reader::from_reader(&csv[..]);
        let head: Vec<String> = reader.headers().unwrap().iter().map(Into::into).collect();
        let row = reader.records().next().unwrap().unwrap();
        assert_eq!(head.len(), json.len());
        for (name, text) in head.iter().zip(&row) {
            let value = match &json[name] {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(text, value, "{name}");
        }
        assert_eq!(json["tcp_residual"], 0.1235);
        assert_eq!(json["quic_rate_bps"], serde_json::Value::Null);
    }

    #[test]
    fn without_a_client_there_is_a_head_alone() {
        let mut csv = Vec::new();
        write_csv(&[], &mut csv).unwrap();
        assert!(csv.starts_with(b"key,class,") && csv.ends_with(b",last_visit\n"));
        assert_eq!(csv.iter().filter(|byte| **byte == b'\n').count(), 1);
    }
}
