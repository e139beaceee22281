//! A browser's measurements of the requests of a page, by Navigation Timing and Resource Timing, turned into
//! records.
//!
//! Nothing is believed that can't be: times that run backwards or are no numbers, and answers out of a
//! cache, make a record with an error.

use altway_record::{Protocol, RequestRecord, Visit};
use serde::Deserialize;
use std::io;

/// A script whose value is the page's times as a text: its beginning, and its entries.
pub(super) const EXPRESSION: &str = r#"JSON.stringify({
  origin: performance.timeOrigin,
  entries: [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .map((entry) => entry.toJSON()),
})"#;

/// Measurements that a browser made of one page.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    /// Time at which the page began, in milliseconds since 1970.
    origin: f64,
    /// The page itself, and what it fetched.
    pub(super) entries: Vec<Entry>,
}

/// A request of a page. Times are in milliseconds since the page began; 0 and a missing one mean
/// that it is not known.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(super) struct Entry {
    name: String,
    next_hop_protocol: String,
    start_time: Option<f64>,
    connect_start: Option<f64>,
    connect_end: Option<f64>,
    response_start: Option<f64>,
    response_end: Option<f64>,
    transfer_size: Option<f64>,
    encoded_body_size: Option<f64>,
    decoded_body_size: Option<f64>,
    response_status: Option<f64>,
}

impl Report {
    /// Reads what [`EXPRESSION`] gave.
    pub(super) fn parse(text: &str) -> io::Result<Self> {
        serde_json::from_str(text)
            .map_err(|error| io::Error::other(format!("its times can't be read: {error}")))
    }
}

/// The time at which the first page began, in milliseconds since 1970.
pub(super) fn begin(reports: &[Report]) -> f64 {
    reports.first().map_or(0.0, |report| report.origin)
}

/// A record for each request of a visit to `origin`, by item, whether or not the browser made it; times count
/// from `begin`.
pub(super) fn records(
    visit: &Visit,
    protocol: Protocol,
    origin: &str,
    reports: &[Report],
    begin: f64,
) -> Vec<RequestRecord> {
    let record = |(item, path): (u32, &str)| {
        let url = format!("{origin}{path}");
        let made = reports.iter().find_map(|report| {
            let entry = report.entries.iter().find(|entry| entry.name == url)?;
            Some((report.origin - begin, entry))
        });
        let unmade = unmade(item, protocol);
        match made {
            Some((page, entry)) => entry.complete(unmade, page),
            None => unmade,
        }
    };
    let paths = visit.requests.iter().map(|request| request.path.as_str());
    (0..).zip(paths).map(record).collect()
}

/// The record of a request that nothing is known of.
fn unmade(item: u32, protocol: Protocol) -> RequestRecord {
    RequestRecord {
        connection: 0,
        stream: item,
        item,
        protocol,
        protocol_used: None,
        start_us: 0,
        connect_us: None,
        first_byte_us: None,
        total_us: 0,
        bytes: 0,
        status: None,
        alt_svc: false,
        alt_svc_ma_s: None,
        error: Some("the browser did not fetch it".into()),
    }
}

impl Entry {
    /// The record with what is known of the request, of a page that began at `page`.
    fn complete(&self, mut record: RequestRecord, page: f64) -> RequestRecord {
        let start = self.start_time.unwrap_or(f64::NAN);
        let since_start = |time: Option<f64>| time.map(|time| time - start).and_then(micros);
        let total = since_start(self.response_end.filter(|end| *end > 0.0));
        let status = whole(self.response_status).and_then(|status| u16::try_from(status).ok());
        record.protocol_used = protocol(&self.next_hop_protocol);
        record.start_us = micros(page + start).unwrap_or(0);
        record.connect_us = self.connect_us();
        record.first_byte_us = since_start(self.response_start.filter(|start| *start > 0.0));
        record.total_us = total.unwrap_or(0);
        // A server may have compressed it; that it is whole, the content tells.
        let content = self.decoded_body_size.or(self.encoded_body_size);
        record.bytes = whole(content).unwrap_or(0);
        record.status = status.filter(|status| *status > 0);
        record.error = self.fault(total);
        record
    }

    /// Returns the reason why the times can't be believed.
    fn fault(&self, total: Option<u64>) -> Option<String> {
        let cached = self.transfer_size == Some(0.0) && self.encoded_body_size > Some(0.0);
        if cached {
            return Some("it came out of the browser's cache".into());
        }
        let unknown = "the browser does not say when its last byte came";
        total.is_none().then(|| unknown.to_owned())
    }

    /// Returns the time to connect; `None` for a connection that was there before, whose start and end are the same.
    fn connect_us(&self) -> Option<u64> {
        let time = micros(self.connect_end? - self.connect_start?)?;
        (time > 0).then_some(time)
    }
}

/// Returns the protocol by its name in ALPN (RFC 7301, RFC 9113 §3.2, RFC 9114 §3.1).
fn protocol(name: &str) -> Option<Protocol> {
    match name {
        "http/1.1" => Some(Protocol::H1),
        "h2" => Some(Protocol::H2),
        "h3" => Some(Protocol::H3),
        _ => None,
    }
}

/// Milliseconds in microseconds; `None` of what is no time.
fn micros(milliseconds: f64) -> Option<u64> {
    whole(Some(milliseconds * 1e3))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is not in the range is left out"
)]
fn whole(number: Option<f64>) -> Option<u64> {
    let number = number?.round();
    (0.0..1e18).contains(&number).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_record::{Client, Connection, Page, Scenario};
    use altway_units::DataSize;

    const PAGE: &str = r#"{"name":"https://a.test/page-1030.html","nextHopProtocol":"h3","startTime":0,"connectStart":10.5,"connectEnd":60.5,"responseStart":110.5,"responseEnd":111,"transferSize":330,"encodedBodySize":30,"responseStatus":200,"workerStart":0}"#;
    const IMAGE: &str = r#"{"name":"https://a.test/1000.bin?0","nextHopProtocol":"h3","startTime":112,"connectStart":112,"connectEnd":112,"responseStart":160.25,"responseEnd":170,"transferSize":1300,"encodedBodySize":1000,"responseStatus":200}"#;

    fn of(entries: &[&str]) -> Vec<RequestRecord> {
        let text = format!(r#"{{"origin":1000.5,"entries":[{}]}}"#, entries.join(","));
        let page = Page {
            html: DataSize::from_bytes(30),
            objects: vec![DataSize::from_bytes(1_000)],
        };
        let scenario = Scenario::Page(page.clone());
        let visit = scenario.visit(
            Client::Firefox,
            page.total(),
            Connection::Cold,
            Protocol::H3,
        );
        let reports = [Report::parse(&text).unwrap()];
        records(
            &visit,
            Protocol::H3,
            "https://a.test",
            &reports,
            begin(&reports),
        )
    }

    fn errors(entries: &[&str]) -> Vec<String> {
        let records = of(entries).into_iter();
        records
            .map(|record| record.error.unwrap_or_default())
            .collect()
    }

    #[test]
    fn a_page_and_its_objects_become_records_by_item() {
        let records = of(&[IMAGE, PAGE]);
        assert_eq!((records[0].item, records[1].item), (0, 1));
        assert_eq!(records[0].connect_us, Some(50_000));
        assert_eq!(records[0].first_byte_us, Some(110_500));
        assert_eq!((records[0].start_us, records[0].total_us), (0, 111_000));
        assert_eq!(records[1].connect_us, None);
        assert_eq!(
            (records[1].start_us, records[1].total_us),
            (112_000, 58_000)
        );
        assert_eq!((records[1].bytes, records[1].status), (1_000, Some(200)));
        assert!(records.iter().all(|one| one.error.is_none()));
        assert!(
            records
                .iter()
                .all(|one| one.protocol_used == Some(Protocol::H3))
        );
    }

    #[test]
    fn what_the_browser_did_not_fetch_has_a_record_that_says_so() {
        assert_eq!(errors(&[PAGE]), ["", "the browser did not fetch it"]);
        assert_eq!(of(&[]).len(), 2);
    }

    #[test]
    fn times_that_can_not_be_are_not_believed() {
        let unknown = "the browser does not say when its last byte came";
        let image = |from: &str, to: &str| errors(&[PAGE, &IMAGE.replace(from, to)])[1].clone();
        assert_eq!(image("170", "0"), unknown);
        assert_eq!(image("170", "-170"), unknown);
        assert_eq!(image("170", "111.9"), unknown);
        assert_eq!(image("170", "null"), unknown);
        assert_eq!(image("170", "1e300"), unknown);
        assert_eq!(image("\"startTime\":112,", ""), unknown);
        assert_eq!(image("1300", "0"), "it came out of the browser's cache");
        assert_eq!(image("1300", "-1"), "");
    }

    #[test]
    fn another_protocol_is_told_and_an_unknown_one_is_none() {
        let used = |name: &str| {
            let image = IMAGE.replace("\"h3\"", &format!("\"{name}\""));
            of(&[PAGE, &image])[1].protocol_used
        };
        assert_eq!(used("h2"), Some(Protocol::H2));
        assert_eq!(used("http/1.1"), Some(Protocol::H1));
        assert_eq!((used(""), used("h3-29"), used("hq")), (None, None, None));
    }

    #[test]
    fn odd_numbers_beside_the_times_do_no_harm() {
        let image = IMAGE
            .replace("encodedBodySize\":1000", "encodedBodySize\":-1")
            .replace("responseStatus\":200", "responseStatus\":70000")
            .replace("connectStart\":112", "connectStart\":113")
            .replace("160.25", "0");
        let record = &of(&[PAGE, &image])[1];
        assert_eq!((record.bytes, record.status), (0, None));
        assert_eq!((record.connect_us, record.first_byte_us), (None, None));
        assert_eq!(record.total_us, 58_000);
    }

    #[test]
    fn what_a_server_compressed_counts_with_its_content() {
        let packed = PAGE.replace(
            "\"encodedBodySize\":30",
            "\"encodedBodySize\":12,\"decodedBodySize\":30",
        );
        assert_eq!(of(&[&packed, IMAGE])[0].bytes, 30);
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for text in ["", "null", "{}", r#"{"origin":null,"entries":[]}"#] {
            assert!(Report::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_second_page_begins_later() {
        let of = |origin: &str, entry: &str| {
            Report::parse(&format!(r#"{{"origin":{origin},"entries":[{entry}]}}"#)).unwrap()
        };
        let size = DataSize::from_bytes(1_000);
        let visit =
            Scenario::Download.visit(Client::Chromium, size, Connection::Warm, Protocol::H3);
        let opener = PAGE.replace("1030", "125");
        let page = PAGE.replace("1030", "1125");
        let reports = [of("1000.5", &opener), of("3000.75", &page)];
        let records = records(
            &visit,
            Protocol::H3,
            "https://a.test",
            &reports,
            begin(&reports),
        );
        assert_eq!((records[0].start_us, records[1].start_us), (0, 2_000_250));
    }
}
