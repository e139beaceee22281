//! The requests of one transfer, and the time of it that is compared.

use crate::visit::{After, Visit, VisitRequest};
use crate::{Client, Connection, Protocol, RequestRecord};
use altway_units::DataSize;
use serde::{Deserialize, Serialize};

/// The most objects that a page, or a large object's companions, may be.
pub const MAX_OBJECTS: usize = 1_000;

/// The most visits that a transfer of the scenario `repeat` makes.
pub const MAX_VISITS: u32 = 100;

/// The most objects of a page whose times browsers keep (Resource Timing §4.4: "250").
pub const MAX_REPORTED_OBJECTS: usize = 250;

/// The smallest object that a page can show as an image, as which browsers fetch objects.
pub const LEAST_IMAGE: DataSize = DataSize::from_bytes(100);

/// The object that opens a warm connection.
pub const OPENER_SIZE: DataSize = DataSize::from_bytes(125);

/// Requests that a browser or an app makes at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Scenario {
    /// A single object; of browsers a page of [`OPENER_SIZE`] that names it. Compared: its time, or
    /// the page's.
    #[default]
    Download,
    /// A page: HTML, and when it has come its objects, all at once. Compared: from the start to the
    /// last byte of the last object.
    Page(Page),
    /// Small urgent objects, one after the other, beside a large one. Compared: the mean time of
    /// the small ones that were asked for while the large one came: what they wait for it.
    Mixed(Mixed),
    /// Visits of a returning client, each on a new connection. Compared: the sum of their times.
    /// HTTP/3 is learned from the first visit's `Alt-Svc`, which thus goes over HTTP/2, and what is
    /// compared includes that switch.
    Repeat(Repeat),
}

/// A page on one origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Size of the HTML.
    pub html: DataSize,
    /// Sizes of its objects.
    pub objects: Vec<DataSize>,
}

/// A large object's companions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mixed {
    /// Size of each.
    pub small: DataSize,
    /// Number of them.
    pub count: u32,
}

/// A returning client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// Number of visits, the first included.
    pub visits: u32,
    /// True if requests of HTTP/3 leave with the first packets where a session allows it.
    pub early_data: bool,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            html: DataSize::from_bytes(30_000),
            objects: vec![DataSize::from_bytes(20_000); 20],
        }
    }
}

impl Default for Mixed {
    fn default() -> Self {
        Self {
            small: DataSize::from_bytes(10_000),
            count: 20,
        }
    }
}

impl Default for Repeat {
    fn default() -> Self {
        Self {
            visits: 3,
            early_data: true,
        }
    }
}

/// The path of an object of that size.
#[must_use]
pub fn object_path(size: DataSize) -> String {
    format!("/{}.bin", size.as_bytes())
}

/// The page that a browser opens a connection with: of [`OPENER_SIZE`], and naming nothing.
const OPENER: Page = Page {
    html: OPENER_SIZE,
    objects: Vec::new(),
};

impl Page {
    /// A small page with one object: how a browser downloads.
    fn around(object: DataSize) -> Self {
        Self {
            objects: vec![object],
            ..OPENER
        }
    }

    /// The path of its HTML.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/page-{}.html", self.total().as_bytes())
    }

    /// The HTML that names all objects, filled up to its size; `None` when they don't fit.
    ///
    /// No object's address stands twice, so that no cache answers for the server; and no browser asks
    /// for an icon.
    #[must_use]
    pub fn to_html(&self) -> Option<String> {
        let mut text =
            String::from("<!doctype html><title>page</title>\n<link rel=icon href=data:,>\n");
        for (ordinal, size) in self.objects.iter().enumerate() {
            text.push_str(&format!("<img src={}?{ordinal}>\n", object_path(*size)));
        }
        let size = usize::try_from(self.html.as_bytes()).ok()?;
        let filling = size.checked_sub(text.len())?;
        text.extend(std::iter::repeat_n(' ', filling));
        Some(text)
    }

    /// Bytes of the whole page.
    #[must_use]
    pub fn total(&self) -> DataSize {
        self.objects
            .iter()
            .fold(self.html, |sum, object| sum + *object)
    }
}

impl Scenario {
    /// The word that plans and files call it by.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Download => "download",
            Self::Page(_) => "page",
            Self::Mixed(_) => "mixed",
            Self::Repeat(_) => "repeat",
        }
    }

    /// Sizes of the objects that a server must have for a transfer of `size`, the page's HTML not
    /// counted.
    #[must_use]
    pub fn objects(&self, size: DataSize) -> Vec<DataSize> {
        match self {
            Self::Download | Self::Repeat(_) => vec![size],
            Self::Page(page) => page.objects.clone(),
            Self::Mixed(mixed) => vec![size, mixed.small],
        }
    }

    /// The pages that a server must have for a transfer of `size`, those of browsers included.
    #[must_use]
    pub fn pages(&self, size: DataSize) -> Vec<Page> {
        let page = match self {
            Self::Download => Some(Page::around(size)),
            Self::Page(page) => Some(page.clone()),
            Self::Mixed(_) | Self::Repeat(_) => None,
        };
        page.into_iter().chain([OPENER]).collect()
    }

    /// The requests that `client` makes for a transfer of `size` over `protocol`.
    #[must_use]
    pub fn visit(
        &self,
        client: Client,
        size: DataSize,
        connection: Connection,
        protocol: Protocol,
    ) -> Visit {
        let mut visit = match self {
            Self::Download if client.is_browser() => page_visit(&Page::around(size)),
            Self::Download => Visit::of(vec![VisitRequest::new(object_path(size), size)]),
            Self::Page(page) => page_visit(page),
            Self::Mixed(mixed) => mixed_visit(*mixed, size),
            Self::Repeat(repeat) => repeat_visit(*repeat, size, protocol),
        };
        if connection == Connection::Warm {
            let path = match client.is_browser() {
                true => OPENER.path(),
                false => object_path(OPENER_SIZE),
            };
            visit.open_with(VisitRequest::new(path, OPENER_SIZE));
        }
        visit
    }

    /// The time that is compared, in µs, of what was measured of a visit: its records by
    /// [`RequestRecord::item`]. `None` when a request failed or is missing, or when nothing can be
    /// compared.
    #[must_use]
    pub fn compared_us(&self, connection: Connection, records: &[RequestRecord]) -> Option<u64> {
        if records.iter().any(|record| record.error.is_some()) {
            return None;
        }
        let measured = match connection {
            Connection::Cold => records,
            Connection::Warm => records.get(1..)?,
        };
        match self {
            Self::Download | Self::Page(_) => span(measured),
            Self::Mixed(_) => mean_beside_the_first(measured),
            Self::Repeat(_) => {
                (!measured.is_empty()).then(|| measured.iter().map(|one| one.total_us).sum())
            }
        }
    }
}

fn page_visit(page: &Page) -> Visit {
    let mut requests = vec![VisitRequest::new(page.path(), page.html)];
    for (ordinal, size) in page.objects.iter().enumerate() {
        let path = format!("{}?{ordinal}", object_path(*size));
        requests.push(VisitRequest {
            after: Some(After::EndOf(0)),
            ..VisitRequest::new(path, *size)
        });
    }
    Visit::of(requests)
}

/// The visit of a mixed transfer. Urgent objects go before the others (RFC 9218): thus the small
/// ones wait for bytes that were already on their way, not for their turn.
fn mixed_visit(mixed: Mixed, size: DataSize) -> Visit {
    let large = VisitRequest {
        priority: Some("u=5, i".into()),
        ..VisitRequest::new(object_path(size), size)
    };
    let small = |ordinal: u32| VisitRequest {
        after: Some(match ordinal {
            0 => After::FirstByteOf(0),
            _ => After::EndOf(ordinal),
        }),
        priority: Some("u=1".into()),
        ..VisitRequest::new(
            format!("{}?{ordinal}", object_path(mixed.small)),
            mixed.small,
        )
    };
    let requests = std::iter::once(large).chain((0..mixed.count).map(small));
    Visit::of(requests.collect())
}

fn repeat_visit(repeat: Repeat, size: DataSize, protocol: Protocol) -> Visit {
    let request = |_| VisitRequest::new(object_path(size), size);
    Visit {
        requests: (0..repeat.visits).map(request).collect(),
        new_connections: true,
        early_data: repeat.early_data && protocol == Protocol::H3,
        learn_http3: protocol == Protocol::H3,
        sessions: None,
    }
}

fn span(records: &[RequestRecord]) -> Option<u64> {
    let begin = records.iter().map(|record| record.start_us).min()?;
    let ends = records
        .iter()
        .map(|record| record.start_us.saturating_add(record.total_us));
    Some(ends.max()?.saturating_sub(begin))
}

fn mean_beside_the_first(records: &[RequestRecord]) -> Option<u64> {
    let (large, small) = records.split_first()?;
    let large_ended = large.start_us.saturating_add(large.total_us);
    let beside = small.iter().filter(|record| record.start_us < large_ended);
    let times: Vec<u64> = beside.map(|record| record.total_us).collect();
    let count = u64::try_from(times.len()).ok().filter(|count| *count > 0)?;
    Some(times.iter().sum::<u64>() / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(item: u32, start_us: u64, total_us: u64) -> RequestRecord {
        RequestRecord {
            connection: 0,
            stream: item,
            item,
            protocol: Protocol::H2,
            protocol_used: Some(Protocol::H2),
            start_us,
            connect_us: None,
            first_byte_us: None,
            total_us,
            bytes: 1,
            status: Some(200),
            alt_svc: false,
            alt_svc_ma_s: None,
            error: None,
        }
    }

    #[test]
    fn a_page_names_each_object_once_and_has_its_size() {
        let page = Page::default();
        let html = page.to_html().unwrap();
        assert_eq!(html.len(), 30_000);
        assert_eq!(html.matches("<img src=/20000.bin?").count(), 20);
        assert_eq!(page.total(), DataSize::from_bytes(430_000));
        let tiny = Page {
            html: DataSize::from_bytes(100),
            ..page
        };
        assert_eq!(tiny.to_html(), None);
    }

    #[test]
    fn a_page_is_compared_from_its_start_to_the_last_byte_of_the_last_object() {
        let scenario = Scenario::Page(Page::default());
        let records = [
            record(0, 10, 100),
            record(1, 110, 90),
            record(2, 110, 300),
            record(3, 110, 20),
        ];
        assert_eq!(scenario.compared_us(Connection::Cold, &records), Some(400));
        assert_eq!(scenario.compared_us(Connection::Warm, &records), Some(300));
    }

    #[test]
    fn small_objects_count_while_the_large_one_comes() {
        let scenario = Scenario::Mixed(Mixed::default());
        let records = [
            record(0, 0, 1_000),
            record(1, 100, 100),
            record(2, 200, 900),
            record(3, 1_000, 5),
        ];
        assert_eq!(scenario.compared_us(Connection::Cold, &records), Some(500));
        let alone = [record(0, 0, 100), record(1, 100, 5)];
        assert_eq!(scenario.compared_us(Connection::Cold, &alone), None);
    }

    #[test]
    fn visits_add_up_and_a_failure_leaves_nothing_to_compare() {
        let scenario = Scenario::Repeat(Repeat::default());
        let mut records = vec![record(0, 0, 30), record(1, 50, 10), record(2, 70, 5)];
        assert_eq!(scenario.compared_us(Connection::Cold, &records), Some(45));
        records[1].error = Some("reset".into());
        assert_eq!(scenario.compared_us(Connection::Cold, &records), None);
        assert_eq!(scenario.compared_us(Connection::Cold, &[]), None);
    }

    #[test]
    fn a_warm_download_is_the_second_request_of_its_connection() {
        let size = DataSize::from_bytes(1_000);
        let visit = Scenario::Download.visit(Client::Curl, size, Connection::Warm, Protocol::H3);
        assert_eq!(visit.requests.len(), 2);
        assert_eq!(visit.requests[0].size_bytes, OPENER_SIZE.as_bytes());
        assert_eq!(visit.requests[1].after, Some(After::EndOf(0)));
        let records = [record(0, 0, 30), record(1, 30, 7)];
        let compared = Scenario::Download.compared_us(Connection::Warm, &records);
        assert_eq!(compared, Some(7));
    }

    #[test]
    fn a_browser_downloads_an_object_by_a_page_that_names_it() {
        let size = DataSize::from_bytes(1_000);
        let visit = Scenario::Download.visit(Client::Firefox, size, Connection::Warm, Protocol::H2);
        let pages = Scenario::Download.pages(size);
        let paths: Vec<_> = visit.requests.iter().map(|one| one.path.clone()).collect();
        assert_eq!(
            paths,
            [pages[1].path(), pages[0].path(), "/1000.bin?0".into()]
        );
        for (page, request) in pages.iter().rev().zip(&visit.requests) {
            let length = page.to_html().unwrap().len() as u64;
            assert_eq!(length, request.size_bytes);
        }
        let records = [record(0, 0, 30), record(1, 40, 7), record(2, 47, 100)];
        let compared = Scenario::Download.compared_us(Connection::Warm, &records);
        assert_eq!(compared, Some(107));
    }

    #[test]
    fn only_http3_has_to_be_learned_and_sends_early() {
        let visit = |protocol| {
            let size = DataSize::from_bytes(1);
            let scenario = Scenario::Repeat(Repeat::default());
            scenario.visit(Client::Altway, size, Connection::Cold, protocol)
        };
        let (h2, h3) = (visit(Protocol::H2), visit(Protocol::H3));
        assert!(!h2.learn_http3 && !h2.early_data && h2.new_connections);
        assert!(h3.learn_http3 && h3.early_data && h3.new_connections);
    }
}
