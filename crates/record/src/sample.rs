//! One measured transfer, and the CSV file that holds them.

use crate::{Cell, Protocol, Rate};
use altway_units::{Bandwidth, DataSize, Ratio};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One transfer of a run: a row of `samples.csv`. Every column's name carries its unit.
///
/// A transfer that could not be used (wrong protocol, link late, connection failed) keeps its row
/// with `valid = false` and the reason; it is then measured again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Ordinal of the transfer in the run, from 0, repetitions included.
    pub ordinal: u64,
    /// Ordinal of the block, from 0. A block measures every cell once with every protocol.
    pub block: u32,
    /// [`Cell::index`].
    pub cell: u32,
    /// Attempt at this block, cell and protocol, from 1.
    pub attempt: u32,
    /// The protocol asked for.
    pub protocol: Protocol,
    /// Rate of the link; empty without limit.
    pub rate_bps: Option<u64>,
    /// One-way delay in both directions.
    pub delay_us: u64,
    /// Loss configured in each direction, in parts per billion.
    pub loss_ppb: u32,
    /// Body size asked for.
    pub size_bytes: u64,
    /// Seed of the link; both transfers of a pair have the same.
    pub link_seed: u64,
    /// When the transfer began, milliseconds since 1970 (UTC).
    pub started_unix_ms: i64,
    /// Socket call to the end of the TLS or QUIC handshake.
    pub connect_us: Option<u64>,
    /// Socket call to the first byte of the response.
    pub first_byte_us: Option<u64>,
    /// Socket call to the last byte of the body: the time that is compared.
    pub total_us: Option<u64>,
    /// Body bytes received.
    pub body_bytes: u64,
    /// Packets that entered the link from the client.
    pub up_packets: u64,
    /// Of these, lost at random.
    pub up_lost_packets: u64,
    /// Of these, dropped by the full queue.
    pub up_queue_dropped_packets: u64,
    /// Packets that entered the link from the server.
    pub down_packets: u64,
    /// Of these, lost at random.
    pub down_lost_packets: u64,
    /// Of these, dropped by the full queue.
    pub down_queue_dropped_packets: u64,
    /// Most bytes that waited at the link towards the client.
    pub down_backlog_max_bytes: u64,
    /// How late the link released packets: 99th percentile; `None` where nobody can measure it.
    pub lateness_us_p99: Option<f64>,
    /// Packets dropped where the link could not see it; more than 0 makes the transfer invalid.
    pub hidden_drops_packets: u64,
    /// Involuntary context switches of the client's process.
    pub client_involuntary_switches: u64,
    /// Involuntary context switches of the server's process during the transfer.
    pub server_involuntary_switches: u64,
    /// Whether the transfer counts.
    pub valid: bool,
    /// Why it does not; empty when it does.
    pub fault: String,
}

impl Sample {
    /// The condition that the row was measured under.
    ///
    /// A rate of 0 in a file reads as no limit, a loss over 100 % as all.
    #[must_use]
    pub fn condition(&self) -> Cell {
        let limit = self.rate_bps.and_then(Bandwidth::from_bps);
        Cell {
            index: self.cell,
            rate: limit.map_or(Rate::Unlimited, Rate::Limited),
            delay: Duration::from_micros(self.delay_us),
            loss: Ratio::from_parts_per_billion(self.loss_ppb).unwrap_or(Ratio::ONE),
            size: DataSize::from_bytes(self.size_bytes),
        }
    }
}

/// Why a samples file can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// A row that is none.
    #[error("samples.csv is damaged")]
    Csv(#[from] csv::Error),
}

/// The first line of `samples.csv`, with its line end.
pub const CSV_HEADER: &str = "ordinal,block,cell,attempt,protocol,rate_bps,delay_us,loss_ppb,\
size_bytes,link_seed,started_unix_ms,connect_us,first_byte_us,total_us,body_bytes,up_packets,\
up_lost_packets,up_queue_dropped_packets,down_packets,down_lost_packets,\
down_queue_dropped_packets,down_backlog_max_bytes,lateness_us_p99,hidden_drops_packets,\
client_involuntary_switches,server_involuntary_switches,valid,fault\n";

/// One line of `samples.csv`, with its line end.
///
/// # Panics
/// Never: a sample is flat, and writing to memory does not fail.
#[must_use]
pub fn csv_row(sample: &Sample) -> String {
    let mut writer = csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(Vec::new());
    writer
        .serialize(sample)
        .expect("a sample is flat and memory does not fail");
    let bytes = writer.into_inner().expect("memory does not fail");
    String::from_utf8(bytes).expect("csv writes the UTF-8 it was given")
}

/// Reads `samples.csv`. A last line without its line end was cut off by a crash or a full disk: it
/// is left out, and [`whole_length`] tells where the file should be cut before more is written.
///
/// # Errors
/// A whole line that is no row of the schema.
pub fn read_samples(text: &str) -> Result<Vec<Sample>, SampleError> {
    let whole = &text[..whole_length(text)];
    let mut reader = csv::Reader::from_reader(whole.as_bytes());
    reader
        .deserialize()
        .map(|row| row.map_err(SampleError::Csv))
        .collect()
}

/// The length in bytes of the whole lines of `text`.
#[must_use]
pub fn whole_length(text: &str) -> usize {
    text.rfind('\n').map_or(0, |last| last + 1)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Sample {
        Sample {
            ordinal: 7,
            block: 3,
            cell: 1,
            attempt: 1,
            protocol: Protocol::H3,
            rate_bps: Some(5_000_000),
            delay_us: 50_000,
            loss_ppb: 10_000_000,
            size_bytes: 1_000_000,
            link_seed: 99,
            started_unix_ms: 1_790_000_000_000,
            connect_us: Some(102_000),
            first_byte_us: Some(205_000),
            total_us: Some(2_000_000),
            body_bytes: 1_000_000,
            up_packets: 400,
            up_lost_packets: 4,
            up_queue_dropped_packets: 0,
            down_packets: 720,
            down_lost_packets: 7,
            down_queue_dropped_packets: 2,
            down_backlog_max_bytes: 60_000,
            lateness_us_p99: Some(80.5),
            hidden_drops_packets: 0,
            client_involuntary_switches: 1,
            server_involuntary_switches: 2,
            valid: true,
            fault: String::new(),
        }
    }

    #[test]
    fn reads_what_it_wrote() {
        let mut failed = sample();
        failed.total_us = None;
        failed.valid = false;
        failed.fault = "timed out, \"twice\"".into();
        let text = format!("{CSV_HEADER}{}{}", csv_row(&sample()), csv_row(&failed));
        assert_eq!(read_samples(&text).unwrap(), [sample(), failed]);
    }

    #[test]
    fn the_header_is_the_schema() {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.serialize(sample()).unwrap();
        let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        assert_eq!(text.lines().next(), CSV_HEADER.lines().next());
    }

    #[test]
    fn a_cut_last_line_is_left_out() {
        let whole = format!("{CSV_HEADER}{}", csv_row(&sample()));
        let cut = format!("{whole}8,3,1,1,h2,50000");
        assert_eq!(read_samples(&cut).unwrap().len(), 1);
        assert_eq!(whole_length(&cut), whole.len());
        assert_eq!(read_samples("ordinal,blo").unwrap(), []);
    }

    #[test]
    fn a_damaged_line_is_an_error() {
        assert!(read_samples(&format!("{CSV_HEADER}not,a,row\n")).is_err());
    }

    #[test]
    fn the_condition_is_the_plans_cell() {
        let cell = sample().condition();
        assert_eq!(cell.rate.to_string(), "5mbit");
        assert_eq!(cell.loss.to_string(), "1%");
        let mut unlimited = sample();
        unlimited.rate_bps = None;
        assert_eq!(unlimited.condition().rate, Rate::Unlimited);
    }
}
