//! Summary of a whole run: counts, rates and percentiles, from its records.

use altway_http3::Version;
use altway_record::{Protocol, RequestRecord};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Different error texts that are counted apart; further ones share [`OTHER_ERRORS`].
pub const MAX_ERROR_KINDS: usize = 16;

/// The text under which errors beyond [`MAX_ERROR_KINDS`] are counted.
pub const OTHER_ERRORS: &str = "other errors";

/// A run in figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadSummary {
    /// The protocol that was asked for.
    pub protocol: Protocol,
    /// Requests made: the records of the run.
    pub requests: u64,
    /// Requests that have an error. A status like 404 or 500 is none: see `statuses`.
    pub failed: u64,
    /// Requests that an open loop should have begun before its end but found no free stream for.
    pub unsent: u64,
    /// Failed requests by error, the most frequent first; at most [`MAX_ERROR_KINDS`] + 1.
    pub errors: Vec<ErrorCount>,
    /// Requests by the protocol that answered.
    pub protocols: BTreeMap<Protocol, u64>,
    /// Requests by HTTP status.
    pub statuses: BTreeMap<u16, u64>,
    /// Connections that were opened.
    pub connections: u64,
    /// Bytes of all bodies, those of failed requests included.
    pub body_bytes: u64,
    /// Time from the start of the run to the end of its last request.
    pub wall_us: u64,
    /// Requests without an error per second of wall time.
    pub requests_per_s: f64,
    /// Body bits per second of wall time, in millions.
    pub throughput_mbit_per_s: f64,
    /// Connection set-up, of the requests that opened a connection.
    pub connect: Option<Percentiles>,
    /// Time to the first byte, of requests without an error.
    pub first_byte: Option<Percentiles>,
    /// Time to the last byte, of requests without an error.
    pub total: Option<Percentiles>,
    /// Times that the kernel took the processor away from this process during the run. Each may
    /// have made a request look slower than it was.
    pub involuntary_context_switches: u64,
    /// Outcome of early data, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_data: Option<EarlyDataCount>,
    /// Version of QUIC over HTTP/3, 1 or 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic_version: Option<u8>,
}

/// Requests that left with the first packets of their connection, by what the server did with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyDataCount {
    /// Requests that the server took.
    pub accepted: u64,
    /// Requests that the server refused and that were sent again after the handshake.
    pub refused: u64,
    /// Requests among those taken that the server answered by status 425 (Too Early, RFC 8470) and that
    /// were sent again after the handshake.
    #[serde(default)]
    pub too_early: u64,
}

/// Number of times that an error occurred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// The records' error text, or [`OTHER_ERRORS`].
    pub error: String,
    /// Requests that ended with it.
    pub count: u64,
}

/// The distribution of one kind of time, in microseconds. A percentile is the smallest value that
/// so many percent of the values don't exceed, to three significant digits; the other figures are
/// exact.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Number of values.
    pub count: u64,
    /// Smallest value.
    pub min_us: u64,
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: u64,
    /// 90th percentile.
    pub p90_us: u64,
    /// 95th percentile.
    pub p95_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// Largest value.
    pub max_us: u64,
}

/// Adds records up, in constant memory.
pub(crate) struct Tally {
    protocol: Protocol,
    requests: u64,
    failed: u64,
    errors: Vec<ErrorCount>,
    protocols: BTreeMap<Protocol, u64>,
    statuses: BTreeMap<u16, u64>,
    body_bytes: u64,
    end_us: u64,
    connect: Times,
    first_byte: Times,
    total: Times,
}

/// Facts of the run that stand beside its records.
#[derive(Default)]
pub(crate) struct Circumstances {
    pub(crate) unsent: u64,
    pub(crate) quic_version: Version,
    pub(crate) early_data: Option<EarlyDataCount>,
    pub(crate) involuntary_context_switches: u64,
}

impl Tally {
    pub(crate) fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            requests: 0,
            failed: 0,
            errors: Vec::new(),
            protocols: BTreeMap::new(),
            statuses: BTreeMap::new(),
            body_bytes: 0,
            end_us: 0,
            connect: Times::new(),
            first_byte: Times::new(),
            total: Times::new(),
        }
    }

    pub(crate) fn add(&mut self, record: &RequestRecord) {
        self.requests += 1;
        self.body_bytes += record.bytes;
        self.end_us = self.end_us.max(record.start_us + record.total_us);
        if let Some(protocol) = record.protocol_used {
            *self.protocols.entry(protocol).or_default() += 1;
        }
        if let Some(status) = record.status {
            *self.statuses.entry(status).or_default() += 1;
        }
        record
            .connect_us
            .iter()
            .for_each(|us| self.connect.add(*us));
        match &record.error {
            Some(error) => self.add_error(error),
            None => {
                record
                    .first_byte_us
                    .iter()
                    .for_each(|us| self.first_byte.add(*us));
                self.total.add(record.total_us);
            }
        }
    }

    pub(crate) fn finish(mut self, circumstances: &Circumstances) -> LoadSummary {
        self.errors
            .sort_by_key(|kind| std::cmp::Reverse(kind.count));
        let seconds = Duration::from_micros(self.end_us).as_secs_f64();
        let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        LoadSummary {
            protocol: self.protocol,
            requests: self.requests,
            failed: self.failed,
            unsent: circumstances.unsent,
            errors: self.errors,
            protocols: self.protocols,
            statuses: self.statuses,
            connections: self.connect.histogram.len(),
            body_bytes: self.body_bytes,
            wall_us: self.end_us,
            requests_per_s: per_second((self.requests - self.failed) as f64),
            throughput_mbit_per_s: per_second(self.body_bytes as f64 * 8.0 / 1e6),
            connect: self.connect.percentiles(),
            first_byte: self.first_byte.percentiles(),
            total: self.total.percentiles(),
            involuntary_context_switches: circumstances.involuntary_context_switches,
            early_data: circumstances.early_data,
            quic_version: (self.protocol == Protocol::H3)
                .then(|| number(circumstances.quic_version)),
        }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    fn add_error(&mut self, error: &str) {
        self.failed += 1;
        let known = |kinds: &[ErrorCount], text: &str| kinds.iter().position(|k| k.error == text);
        let text = match known(&self.errors, error) {
            None if self.errors.len() >= MAX_ERROR_KINDS => OTHER_ERRORS,
            _ => error,
        };
        match known(&self.errors, text) {
            Some(at) => self.errors[at].count += 1,
            None => self.errors.push(ErrorCount {
                error: text.into(),
                count: 1,
            }),
        }
    }
}

/// Times of one kind, added up in constant memory.
#[derive(Debug, Clone)]
pub struct Times {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    sum: u128,
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

impl Times {
    /// Longer times are counted as this in the percentiles (not in the maximum and the mean).
    const CEILING: Duration = Duration::from_secs(3_600);
    const SIGNIFICANT_DIGITS: u8 = 3;

    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        let ceiling = Self::CEILING.as_micros() as u64;
        let histogram = Histogram::new_with_bounds(1, ceiling, Self::SIGNIFICANT_DIGITS)
            .expect("the bounds are constants within the histogram's own");
        Self {
            histogram,
            min: u64::MAX,
            max: 0,
            sum: 0,
        }
    }

    /// Adds a value, in microseconds.
    pub fn add(&mut self, value: u64) {
        self.histogram.saturating_record(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += u128::from(value);
    }

    /// Returns their distribution; `None` when there are none.
    #[must_use]
    pub fn percentiles(&self) -> Option<Percentiles> {
        let count = self.histogram.len();
        if count == 0 {
            return None;
        }
        // The histogram answers with the upper edge of a bucket, which may lie over the maximum.
        let at = |quantile| {
            let value = self.histogram.value_at_quantile(quantile);
            value.clamp(self.min, self.max)
        };
        Some(Percentiles {
            count,
            min_us: self.min,
            mean_us: self.sum as f64 / count as f64,
            p50_us: at(0.50),
            p90_us: at(0.90),
            p95_us: at(0.95),
            p99_us: at(0.99),
            max_us: self.max,
        })
    }
}

/// Returns the number by which people count versions.
fn number(version: Version) -> u8 {
    match version {
        Version::V1 => 1,
        Version::V2 => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(total_us: u64) -> RequestRecord {
        RequestRecord {
            connection: 0,
            stream: 0,
            item: 0,
            protocol: Protocol::H2,
            protocol_used: Some(Protocol::H2),
            start_us: 0,
            connect_us: None,
            first_byte_us: Some(total_us / 2),
            total_us,
            bytes: 1_000,
            status: Some(200),
            alt_svc: false,
            alt_svc_ma_s: None,
            error: None,
        }
    }

    fn summary(records: impl IntoIterator<Item = RequestRecord>) -> LoadSummary {
        let mut tally = Tally::new(Protocol::H2);
        for record in records {
            tally.add(&record);
        }
        tally.finish(&Circumstances::default())
    }

    #[test]
    fn percentiles_of_one_to_a_thousand_are_known() {
        let total = summary((1..=1_000).map(record)).total.unwrap();
        assert_eq!(total.count, 1_000);
        assert_eq!((total.min_us, total.max_us), (1, 1_000));
        assert_eq!((total.p50_us, total.p90_us), (500, 900));
        assert_eq!((total.p95_us, total.p99_us), (950, 990));
        assert!((total.mean_us - 500.5).abs() < 1e-9);
    }

    #[test]
    fn percentiles_keep_three_digits_of_long_times() {
        let total = summary((1..=1_000).map(|ms| record(ms * 1_000)))
            .total
            .unwrap();
        for (found, exact) in [(total.p50_us, 500_000.0), (total.p99_us, 990_000.0)] {
            assert!((found as f64 / exact - 1.0).abs() < 1e-3, "{found}");
        }
        assert_eq!(total.max_us, 1_000_000);
    }

    #[test]
    fn a_single_value_is_all_its_percentiles() {
        let total = summary([record(1_234_567)]).total.unwrap();
        let all = [total.min_us, total.p50_us, total.p99_us, total.max_us];
        assert_eq!(all, [1_234_567; 4]);
    }

    #[test]
    fn no_records_make_an_empty_summary() {
        let summary = summary([]);
        assert_eq!((summary.requests, summary.wall_us), (0, 0));
        assert_eq!(summary.total, None);
        assert!(summary.requests_per_s.abs() < f64::EPSILON);
    }

    #[test]
    fn failed_requests_count_but_not_in_the_times() {
        let failed = RequestRecord {
            error: Some("reset".into()),
            ..record(9_000)
        };
        let summary = summary([record(1_000), failed]);
        assert_eq!((summary.requests, summary.failed), (2, 1));
        assert_eq!(summary.total.unwrap().max_us, 1_000);
        assert_eq!(summary.wall_us, 9_000);
        assert_eq!(summary.body_bytes, 2_000);
    }

    #[test]
    fn rates_are_over_wall_time() {
        let summary = summary((1..=4).map(|k| record(k * 500_000)));
        assert!((summary.requests_per_s - 2.0).abs() < 1e-9);
        assert!((summary.throughput_mbit_per_s - 0.016).abs() < 1e-9);
    }

    #[test]
    fn error_kinds_are_bounded_and_the_most_frequent_comes_first() {
        let failed = |kind: usize| RequestRecord {
            error: Some(format!("error {kind}")),
            ..record(1)
        };
        let kinds = MAX_ERROR_KINDS + 5;
        let summary = summary((0..kinds).chain([3, 3]).map(failed));
        assert_eq!(summary.errors.len(), MAX_ERROR_KINDS + 1);
        assert_eq!(
            (summary.errors[0].error.as_str(), summary.errors[0].count),
            (OTHER_ERRORS, 5)
        );
        assert_eq!(
            (summary.errors[1].error.as_str(), summary.errors[1].count),
            ("error 3", 3)
        );
    }

    #[test]
    fn survives_a_round_trip_through_json() {
        // Whole figures: JSON text of a fraction may come back one bit off.
        let before = summary([record(1_000_000)]);
        let text = serde_json::to_string(&before).unwrap();
        assert!(text.contains(r#""protocols":{"h2":1}"#), "{text}");
        assert_eq!(serde_json::from_str::<LoadSummary>(&text).unwrap(), before);
    }
}
