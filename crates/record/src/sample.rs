//! A measured request, and the CSV file that holds them.

use crate::damage::{self, Damage};
use crate::{
    Cell, Certificate, Client, Congestion, Connection, InitialWindow, LinkName, Policy, Protocol,
    QueueLimit, Rate, ServerName, Topology,
};
use altway_units::{Bandwidth, DataSize, Ratio};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A request of a run: a row of `samples.csv`. Every column's name carries its unit.
///
/// A transfer of the scenario `download` over a cold connection is one request; others are several,
/// whose rows follow each other with the same `ordinal`. What is said of the transfer as a whole
/// (its place in the plan, the link's counters, `compared_us`, `valid`) stands in each of its rows.
///
/// A transfer that could not be used (wrong protocol, link late, connection failed) keeps its rows
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
    /// Ordinal of the request in its transfer, from 0.
    #[serde(default)]
    pub request: u32,
    /// Number of requests that the transfer has rows of, at least 1.
    #[serde(default = "one")]
    pub requests: u32,
    /// The protocol asked for; where policies are compared, that of [`Arm`](crate::Arm).
    pub protocol: Protocol,
    /// True if it is of the null arm: the first protocol again, to be held against itself.
    #[serde(default)]
    pub null_arm: bool,
    /// The protocol that answered; empty when none did.
    #[serde(default)]
    pub protocol_used: Option<Protocol>,
    /// Place where the link was emulated.
    #[serde(default)]
    pub topology: Topology,
    /// The server.
    #[serde(default)]
    pub server: ServerName,
    /// The client.
    #[serde(default)]
    pub client: Client,
    /// Congestion control of the server.
    #[serde(default)]
    pub congestion: Congestion,
    /// First congestion window of the server over both transports.
    #[serde(default)]
    pub initial_window_packets: InitialWindow,
    /// The certificate that the server showed.
    #[serde(default)]
    pub certificate: Certificate,
    /// True if the server compressed its certificates for clients that read it (RFC 8879).
    #[serde(default = "crate::yes")]
    pub certificate_compression: bool,
    /// Set-up of the connection: measured with the transfer (`cold`), or done before it (`warm`).
    #[serde(default)]
    pub connection: Connection,
    /// The link's settings beside its rate, delay, loss and queue: a name in the plan's `links`.
    #[serde(default)]
    pub link: LinkName,
    /// Room for waiting packets.
    #[serde(default)]
    pub queue: QueueLimit,
    /// Rate of the link; empty without limit.
    pub rate_bps: Option<u64>,
    /// Delay of each direction.
    pub delay_us: u64,
    /// Loss configured in each direction, in parts per billion.
    pub loss_ppb: u32,
    /// Size of the cell: of the object, or of a whole page.
    pub size_bytes: u64,
    /// Seed of the link; both transfers of a pair have the same.
    pub link_seed: u64,
    /// Time at which the transfer began, milliseconds since 1970 (UTC).
    pub started_unix_ms: i64,
    /// Time at which the request was due, since the transfer began.
    #[serde(default)]
    pub start_us: u64,
    /// Socket call to the end of the TLS or QUIC handshake; only where the request opened its
    /// connection.
    pub connect_us: Option<u64>,
    /// Time from the request's due time to the first byte of the response.
    pub first_byte_us: Option<u64>,
    /// Time from the request's due time to the last byte of the body.
    pub total_us: Option<u64>,
    /// The time of the whole transfer that is compared; what it is depends on the scenario.
    #[serde(default)]
    pub compared_us: Option<u64>,
    /// Body bytes received.
    pub body_bytes: u64,
    /// Packets that entered the link from the client.
    pub up_packets: u64,
    /// Packets from the client that the link lost at random, blocked or policed as UDP.
    pub up_lost_packets: u64,
    /// Packets from the client that the full queue dropped.
    pub up_queue_dropped_packets: u64,
    /// Packets that entered the link from the server.
    pub down_packets: u64,
    /// Packets from the server that the link lost at random, blocked or policed as UDP.
    pub down_lost_packets: u64,
    /// Packets from the server that the full queue dropped.
    pub down_queue_dropped_packets: u64,
    /// The most bytes that waited at the link towards the client.
    pub down_backlog_max_bytes: u64,
    /// Packets that CoDel dropped, both directions.
    #[serde(default)]
    pub codel_dropped_packets: u64,
    /// Copies that the link made of packets, both directions.
    #[serde(default)]
    pub duplicated_packets: u64,
    /// Packets that the link sent out of their order, both directions.
    #[serde(default)]
    pub reordered_packets: u64,
    /// Packets of which the link flipped a bit, both directions.
    #[serde(default)]
    pub corrupted_packets: u64,
    /// Transfers that were under way beside this one when it began.
    #[serde(default)]
    pub beside: u32,
    /// Time by which the link released packets late: 99th percentile; `None` where nobody can
    /// measure it.
    pub lateness_us_p99: Option<f64>,
    /// Packets dropped where the link could not see it; more than 0 makes the transfer invalid.
    pub hidden_drops_packets: u64,
    /// Involuntary context switches of the client's process.
    pub client_involuntary_switches: u64,
    /// Involuntary context switches of the server's process during the transfer.
    pub server_involuntary_switches: u64,
    /// Processor time of the client's process, user and system, from its start to its end; empty
    /// where it is not known, as of browsers.
    #[serde(default)]
    pub client_cpu_us: Option<u64>,
    /// Processor time of the server's processes during the transfer, user and system; empty where it
    /// is not known.
    #[serde(default)]
    pub server_cpu_us: Option<u64>,
    /// The server's policy, where policies are compared.
    #[serde(default)]
    pub policy: Option<Policy>,
    /// The session of its client with the server that the request is of, from 0.
    #[serde(default)]
    pub session: u32,
    /// Seconds for which the response's `Alt-Svc` offered HTTP/3; 0 when it took the offer back, empty
    /// when it said nothing or was not asked.
    #[serde(default)]
    pub alt_svc_ma_s: Option<u64>,
    /// True if the transfer counts.
    pub valid: bool,
    /// The reason for which the transfer does not count; empty when it does.
    pub fault: String,
}

impl Sample {
    /// Returns whether it is of an arm whose server chooses the protocol: not to be held for one that was asked for.
    #[must_use]
    pub fn is_chosen(&self) -> bool {
        self.policy.is_some_and(|policy| policy.fixed().is_none())
    }

    /// Returns whether the transfer does not count because it took longer than the plan lets it: each client says
    /// so with these words.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        !self.valid && self.fault.contains("timed out")
    }

    /// The condition that the row was measured under.
    ///
    /// A rate of 0 in a file reads as no limit, a loss over 100 % as all.
    #[must_use]
    pub fn condition(&self) -> Cell {
        let limit = self.rate_bps.and_then(Bandwidth::from_bps);
        Cell {
            index: self.cell,
            topology: self.topology,
            server: self.server,
            client: self.client,
            congestion: self.congestion,
            initial_window: self.initial_window_packets,
            certificate: self.certificate,
            certificate_compression: self.certificate_compression,
            connection: self.connection,
            link: self.link,
            rate: limit.map_or(Rate::Unlimited, Rate::Limited),
            queue: self.queue,
            loss: Ratio::from_parts_per_billion(self.loss_ppb).unwrap_or(Ratio::ONE),
            size: DataSize::from_bytes(self.size_bytes),
            delay: Duration::from_micros(self.delay_us),
        }
    }
}

fn one() -> u32 {
    1
}

/// Reasons for which a samples file can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// A row that can't be read, and its place.
    #[error("it is damaged at {0}")]
    Damaged(Damage),
    /// A text that is no CSV.
    #[error("it is damaged")]
    Csv(#[from] csv::Error),
}

/// The first line of `samples.csv`, with its line end.
pub const CSV_HEADER: &str = "ordinal,block,cell,attempt,request,requests,protocol,null_arm,\
protocol_used,topology,server,client,congestion,initial_window_packets,certificate,certificate_compression,connection,link,queue,rate_bps,delay_us,loss_ppb,\
size_bytes,link_seed,started_unix_ms,start_us,connect_us,first_byte_us,total_us,compared_us,\
body_bytes,up_packets,up_lost_packets,up_queue_dropped_packets,down_packets,down_lost_packets,\
down_queue_dropped_packets,down_backlog_max_bytes,codel_dropped_packets,duplicated_packets,\
reordered_packets,corrupted_packets,beside,lateness_us_p99,hidden_drops_packets,\
client_involuntary_switches,server_involuntary_switches,client_cpu_us,server_cpu_us,policy,session,\
alt_svc_ma_s,valid,fault\n";

/// A line of `samples.csv`, with its line end.
///
/// # Panics
/// Never: a sample is flat, and writing to memory does not fail.
#[must_use]
pub fn csv_row(sample: &Sample) -> String {
    csv_rows(std::slice::from_ref(sample))
}

/// Lines of `samples.csv`, each with its line end. A line break in a fault becomes a blank, so that
/// a row is a line.
///
/// # Panics
/// Never: a sample is flat, and writing to memory does not fail.
#[must_use]
pub fn csv_rows(samples: &[Sample]) -> String {
    let mut writer = csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(Vec::new());
    for sample in samples {
        let mut sample = sample.clone();
        sample.fault = sample.fault.replace(['\n', '\r'], " ");
        writer
            .serialize(sample)
            .expect("a sample is flat and memory does not fail");
    }
    let bytes = writer.into_inner().expect("memory does not fail");
    String::from_utf8(bytes).expect("csv writes the UTF-8 it was given")
}

/// Reads the whole transfers of `samples.csv`. What a crash or a full disk has cut off (a last line
/// without its end, a last transfer without all its rows) is left out.
///
/// # Errors
/// A whole line that is no row of the schema.
pub fn read_samples(text: &str) -> Result<Vec<Sample>, SampleError> {
    read_whole(text).map(|(samples, _)| samples)
}

/// The same, and the length in bytes of what was read, header included: where the file is to be cut
/// before more is written, or from where on more of it is to be read.
///
/// # Errors
/// As for [`read_samples`].
pub fn read_whole(text: &str) -> Result<(Vec<Sample>, usize), SampleError> {
    let mut samples = read_lines(text)?;
    let cut_off = cut_off(&samples);
    samples.truncate(samples.len() - cut_off);
    let mut length = length_of_lines(text);
    for _ in 0..cut_off {
        length = text[..length - 1].rfind('\n').map_or(0, |last| last + 1);
    }
    Ok((samples, length))
}

/// The first row of each transfer.
pub fn transfers(samples: &[Sample]) -> impl Iterator<Item = &Sample> {
    samples.iter().filter(|sample| sample.request == 0)
}

fn read_lines(text: &str) -> Result<Vec<Sample>, SampleError> {
    let whole = &text[..length_of_lines(text)];
    let mut reader = csv::Reader::from_reader(whole.as_bytes());
    // Schema 1 had one request a transfer, and its time was what is compared.
    let of_schema_1 = !reader
        .headers()?
        .iter()
        .any(|column| column == "compared_us");
    let read = reader.deserialize().collect::<Result<Vec<Sample>, _>>();
    let mut samples = read.map_err(|error| match damage::of(whole, &error) {
        Some(place) => SampleError::Damaged(place),
        None => error.into(),
    })?;
    if of_schema_1 {
        for sample in &mut samples {
            sample.compared_us = sample.total_us;
        }
    }
    Ok(samples)
}

/// The length in bytes of the whole lines of `text`.
fn length_of_lines(text: &str) -> usize {
    text.rfind('\n').map_or(0, |last| last + 1)
}

/// Number of rows that the last transfer has, if it does not have all.
fn cut_off(samples: &[Sample]) -> usize {
    let Some(last) = samples.last() else {
        return 0;
    };
    let rows = samples
        .iter()
        .rev()
        .take_while(|sample| sample.ordinal == last.ordinal);
    let rows = rows.count();
    if rows < last.requests as usize {
        rows
    } else {
        0
    }
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
            request: 0,
            requests: 1,
            protocol: Protocol::H3,
            null_arm: false,
            protocol_used: Some(Protocol::H3),
            topology: Topology::Proxied,
            server: "my-server".parse().unwrap(),
            client: Client::Curl,
            congestion: Congestion::Reno,
            initial_window_packets: InitialWindow::default(),
            certificate: Certificate::RSA_CHAIN,
            certificate_compression: true,
            connection: Connection::Warm,
            link: "jitter 5ms".parse().unwrap(),
            queue: QueueLimit::Bytes(DataSize::from_bytes(64_000)),
            rate_bps: Some(5_000_000),
            delay_us: 50_000,
            loss_ppb: 10_000_000,
            size_bytes: 1_000_000,
            link_seed: 99,
            started_unix_ms: 1_790_000_000_000,
            start_us: 0,
            connect_us: Some(102_000),
            first_byte_us: Some(205_000),
            total_us: Some(2_000_000),
            compared_us: Some(2_000_000),
            body_bytes: 1_000_000,
            up_packets: 400,
            up_lost_packets: 4,
            up_queue_dropped_packets: 0,
            down_packets: 720,
            down_lost_packets: 7,
            down_queue_dropped_packets: 2,
            down_backlog_max_bytes: 60_000,
            codel_dropped_packets: 1,
            duplicated_packets: 2,
            reordered_packets: 3,
            corrupted_packets: 4,
            beside: 1,
            lateness_us_p99: Some(80.5),
            hidden_drops_packets: 0,
            client_involuntary_switches: 1,
            server_involuntary_switches: 2,
            client_cpu_us: Some(21_000),
            server_cpu_us: Some(9_000),
            policy: Some(Policy::Learned),
            session: 1,
            alt_svc_ma_s: Some(2_592_000),
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
        assert_eq!(read_whole(&cut).unwrap().1, whole.len());
        assert_eq!(read_samples("ordinal,blo").unwrap(), []);
    }

    #[test]
    fn damage_is_told_by_line_and_column() {
        let row = csv_row(&sample()).replacen("5000000", "5O00000", 1);
        let text = format!("{CSV_HEADER}{}{row}", csv_row(&sample()));
        let column = row.find("5O00000").unwrap() + 1;
        let expected = format!("it is damaged at line 3, column {column}: `rate_bps` is `5O00000`");
        let error = read_samples(&text).unwrap_err().to_string();
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn a_transfer_without_all_its_rows_is_left_out() {
        let of_page = |ordinal, request| Sample {
            ordinal,
            request,
            requests: 3,
            ..sample()
        };
        let rows: Vec<_> = (0..3).map(|request| of_page(8, request)).collect();
        let whole = format!("{CSV_HEADER}{}{}", csv_row(&sample()), csv_rows(&rows));
        let cut = format!("{whole}{}", csv_rows(&[of_page(9, 0), of_page(9, 1)]));
        let samples = read_samples(&cut).unwrap();
        assert_eq!(samples.len(), 4);
        assert_eq!(read_whole(&cut).unwrap().1, whole.len());
        let ordinals: Vec<_> = transfers(&samples).map(|sample| sample.ordinal).collect();
        assert_eq!(ordinals, [7, 8]);
    }

    #[test]
    fn a_fault_of_several_lines_is_one_row() {
        let mut failed = sample();
        failed.fault = "first\nsecond".into();
        assert_eq!(csv_row(&failed).lines().count(), 1);
    }

    #[test]
    fn rows_of_schema_1_are_read() {
        let text = "ordinal,block,cell,attempt,protocol,rate_bps,delay_us,loss_ppb,size_bytes,\
            link_seed,started_unix_ms,connect_us,first_byte_us,total_us,body_bytes,up_packets,\
            up_lost_packets,up_queue_dropped_packets,down_packets,down_lost_packets,\
            down_queue_dropped_packets,down_backlog_max_bytes,lateness_us_p99,\
            hidden_drops_packets,client_involuntary_switches,server_involuntary_switches,valid,\
            fault\n0,0,0,1,h2,,0,0,1,0,0,1,1,7,1,0,0,0,0,0,0,0,0.0,0,0,0,true,\n";
        let row = &read_samples(text).unwrap()[0];
        assert_eq!((row.compared_us, row.requests), (Some(7), 1));
        assert_eq!(
            (row.server, row.topology),
            (ServerName::ALTWAY, Topology::Direct)
        );
    }

    #[test]
    fn rows_without_the_processor_time_are_read() {
        let mut of_none = sample();
        (of_none.client_cpu_us, of_none.server_cpu_us) = (None, None);
        (of_none.policy, of_none.session, of_none.alt_svc_ma_s) = (None, 0, None);
        let text = format!("{CSV_HEADER}{}", csv_row(&of_none));
        let older = text.replace(
            ",client_cpu_us,server_cpu_us,policy,session,alt_svc_ma_s",
            "",
        );
        let older = older.replace(",,,,0,,true", ",true");
        assert_ne!(older, text);
        assert_eq!(read_samples(&older).unwrap(), [of_none]);
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
