//! A line of the selection log: what a client was told, what that rests on, and the page that it had loaded.

use crate::holdout::LEAST_PROPENSITY;
use crate::observation::{Page, Start};
use crate::{BeaconReport, ClientClass, ClientKey, Decision, Evidence, Offer, Reason, UnixTime};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The version of the lines that this writes and reads.
pub const ENTRY_VERSION: u32 = 1;

/// Times that a line may have: from 2020 on, in the 32 bits that last until 2106. Milliseconds are beyond them.
const TIMES: RangeInclusive<u64> = 1_577_836_800..=u32::MAX as u64;

/// Seconds that a page may take: a nanosecond, and a hundred days.
const SECONDS: RangeInclusive<f64> = 1e-9..=1e7;

/// The largest page: 10 TB.
const MAX_BYTES: u64 = 10_000_000_000_000;

/// A line of the selection log: one for each page, one for a connection that ends when something was decided since
/// its latest page, and one for each report of a browser. Addresses stand in it as keyed hashes only. Bounded: a host's name is the operator's, and all
/// else is numbers and words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelectionEntry {
    /// Version of the line.
    pub v: u32,
    /// Seconds since 1970.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub time: UnixTime,
    /// The client that it is of.
    #[serde(serialize_with = "as_text", deserialize_with = "of_text")]
    pub client: ClientKey,
    /// The client's class.
    #[serde(serialize_with = "as_text", deserialize_with = "of_text")]
    pub class: ClientClass,
    /// The configured name that was decided for; empty for all others.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub host: Box<str>,
    /// The connection's protocol: `h1`, `h2` or `h3`.
    pub protocol: LoggedProtocol,
    /// The page; `None` where the connection ended without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<LoggedPage>,
    /// A browser's own times, in place of a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beacon: Option<LoggedBeacon>,
    /// The offer that the client was told last on the connection.
    #[serde(serialize_with = "as_text", deserialize_with = "read_offer")]
    pub offer: Offer,
    /// The kind of reason: one of [`Reason::KINDS`].
    pub reason: Box<str>,
    /// Probability with which this offer was chosen.
    pub propensity: f64,
    /// A coin chose it, for the week.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// The evidence of the client as it is now.
    pub path: Evidence,
}

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoggedProtocol {
    /// HTTP/1.1.
    H1,
    /// HTTP/2.
    H2,
    /// HTTP/3.
    H3,
}

/// A page as the selector uses it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoggedPage {
    /// The state of the connection when the page began.
    pub start: LoggedStart,
    /// Bytes of the first response.
    pub first: u64,
    /// Bytes of all other responses.
    pub rest: u64,
    /// Number of responses.
    pub responses: u32,
    /// Time in which something was under way, in seconds.
    pub seconds: f64,
}

/// The times of a page view that its browser reported.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoggedBeacon {
    /// Responses of the page's origin that came over the network.
    pub responses: u32,
    /// Responses among them that came over the page's own protocol.
    pub same: u32,
    /// Bytes of them, with the browser's estimate for their fields.
    pub bytes: u64,
    /// Seconds from the first packet, or the request, to the last byte.
    pub seconds: f64,
    /// Seconds from the beginning of the navigation to the load event.
    pub load_seconds: f64,
    /// Seconds of the same page as the server saw it; `None` where it did not time just these responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_seconds: Option<f64>,
}

impl LoggedBeacon {
    /// A report in the form of the log; `bias` as [`Selector::beacon`](crate::Selector::beacon) returned it.
    #[must_use]
    pub fn of(report: &BeaconReport, bias: Option<f64>) -> Self {
        let seconds = f64::from(report.time_ms) / 1e3;
        Self {
            responses: report.responses,
            same: report.same,
            bytes: report.bytes,
            seconds,
            load_seconds: f64::from(report.load_ms) / 1e3,
            server_seconds: bias.map(|bias| (seconds * bias.exp() * 1e6).round() / 1e6),
        }
    }

    /// ln of the server's time over the browser's, in the range that samples have; `None` without one.
    #[must_use]
    pub fn bias(&self) -> Option<f64> {
        let ratio = self.server_seconds? / self.seconds;
        let is_ratio = ratio.is_finite() && ratio > 0.0;
        is_ratio.then(|| ratio.ln().clamp(-1.2, 1.2))
    }
}

/// The state of a connection when a page began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoggedStart {
    /// Open.
    Warm,
    /// New.
    Cold,
    /// New, and the request came in early data.
    Early,
}

impl LoggedPage {
    /// The page in the form of the log.
    #[must_use]
    pub fn of(page: &Page) -> Self {
        Self {
            start: match page.start {
                Start::Warm => LoggedStart::Warm,
                Start::Cold => LoggedStart::Cold,
                Start::Early => LoggedStart::Early,
            },
            first: page.first.as_bytes(),
            rest: page.rest.as_bytes(),
            responses: page.responses,
            seconds: page.time.as_secs_f64(),
        }
    }

    fn fault(&self) -> Option<String> {
        if !SECONDS.contains(&self.seconds) {
            return Some(format!("{:?} is no time of a page", self.seconds));
        }
        if self.responses == 0 || self.bytes() > MAX_BYTES {
            let (responses, bytes) = (self.responses, self.bytes());
            return Some(format!(
                "{responses} responses of {bytes} bytes are no page"
            ));
        }
        None
    }

    /// Bytes of all responses.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.first.saturating_add(self.rest)
    }
}

impl SelectionEntry {
    /// The line of a decision.
    #[must_use]
    pub fn new(
        (time, client, class): (UnixTime, ClientKey, ClientClass),
        (host, protocol): (&str, LoggedProtocol),
        page: Option<&Page>,
        decision: &Decision,
        path: Evidence,
    ) -> Self {
        Self {
            v: ENTRY_VERSION,
            time,
            client,
            class,
            host: host.into(),
            protocol,
            page: page.map(LoggedPage::of),
            beacon: None,
            offer: decision.offer,
            reason: Reason::KINDS[decision.reason.kind_index()].into(),
            propensity: decision.propensity,
            held: decision.held,
            path,
        }
    }

    /// Finds a fault in a line that could be read, if there is any.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        if self.v != ENTRY_VERSION {
            return Some(format!(
                "version {}, where {ENTRY_VERSION} is expected",
                self.v
            ));
        }
        // Estimates weigh a page by one over it.
        if !(LEAST_PROPENSITY..=1.0).contains(&self.propensity) {
            return Some(format!(
                "{:?} is no probability of a decision: expected {LEAST_PROPENSITY} to 1",
                self.propensity
            ));
        }
        if !Reason::KINDS.contains(&&*self.reason) {
            return Some(format!("`{}` is no reason", self.reason));
        }
        if !TIMES.contains(&self.time.as_secs()) {
            return Some(format!(
                "{} is no time: expected seconds since 1970, from 2020 on",
                self.time
            ));
        }
        self.page.as_ref()?.fault()
    }
}

fn write_time<S: Serializer>(time: &UnixTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(time.as_secs())
}

fn read_time<'de, D: Deserializer<'de>>(from: D) -> Result<UnixTime, D::Error> {
    u64::deserialize(from).map(UnixTime::from_secs)
}

fn as_text<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

fn of_text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<T, D::Error> {
    let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
    text.parse().map_err(de::Error::custom)
}

fn read_offer<'de, D: Deserializer<'de>>(from: D) -> Result<Offer, D::Error> {
    let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
    match &*text {
        "h2" => Ok(Offer::Http2),
        "h3" => Ok(Offer::Http3),
        other => Err(de::Error::custom(format_args!(
            "`{other}` is no offer: expected h2 or h3"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AltSvc, Client, Secret};
    use altway_units::DataSize;
    use std::time::Duration;

    fn entry() -> SelectionEntry {
        let class = "firefox-linux".parse().unwrap();
        let client = Client::new(&Secret::new([1; 16]), "192.0.2.1".parse().unwrap(), class);
        let decision = Decision {
            offer: Offer::Http3,
            alt_svc: AltSvc::Omit,
            reason: Reason::HoldOut,
            propensity: 0.025,
            held: true,
            prediction: None,
        };
        let page = Page {
            first: DataSize::from_bytes(20),
            rest: DataSize::from_bytes(400),
            responses: 3,
            start: Start::Early,
            time: Duration::from_millis(250),
            waited: Some(Duration::ZERO),
        };
        let path = Evidence {
            rtt: Some(0.02),
            limit_bps: 4e8,
            ..Evidence::default()
        };
        let whom = (UnixTime::from_secs(1_795_392_000), client.key(), class);
        SelectionEntry::new(
            whom,
            ("example.org", LoggedProtocol::H3),
            Some(&page),
            &decision,
            path,
        )
    }

    #[test]
    fn a_line_says_what_its_entry_does_and_is_read_again() {
        // The form of the text is JSON's, of which TOML shows the names and values as well.
        let text = toml::to_string(&entry()).unwrap();
        for part in [
            "v = 1\n",
            "class = \"firefox-linux\"",
            "offer = \"h3\"",
            "held = true",
            "start = \"early\"",
            "rtt = 0.02",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(
            !text.contains("tcp_bps") && !text.contains("udp_blocked"),
            "{text}"
        );
        assert_eq!(toml::from_str::<SelectionEntry>(&text).unwrap(), entry());
        assert_eq!(entry().fault(), None);
    }

    #[test]
    fn a_report_in_a_line_is_numbers_alone() {
        let report = BeaconReport::parse(b"v=1&p=h3&n=3&s=3&b=1320&t=250&l=300").unwrap();
        let mut entry = entry();
        entry.beacon = Some(LoggedBeacon::of(&report, Some(-0.1)));
        let text = toml::to_string(&entry).unwrap();
        assert!(text.contains("server_seconds = 0.226209"), "{text}");
        let read = toml::from_str::<SelectionEntry>(&text).unwrap();
        assert_eq!(read, entry);
        assert!((read.beacon.unwrap().bias().unwrap() + 0.1).abs() < 1e-4);
        let hostile = LoggedBeacon {
            seconds: 0.0,
            ..entry.beacon.unwrap()
        };
        assert_eq!(hostile.bias(), None);
        assert_eq!(LoggedBeacon::of(&report, None).bias(), None);
    }

    #[test]
    fn numbers_that_can_not_be_are_faults() {
        let fault = |change: fn(&mut SelectionEntry)| {
            let mut entry = entry();
            change(&mut entry);
            entry.fault().unwrap()
        };
        assert_eq!(fault(|it| it.v = 2), "version 2, where 1 is expected");
        assert!(fault(|it| it.propensity = 0.0).contains("no probability"));
        assert!(fault(|it| it.propensity = f64::NAN).contains("no probability"));
        assert!(fault(|it| it.propensity = 1e-9).contains("expected 0.0003 to 1"));
        assert_eq!(fault(|it| it.reason = "luck".into()), "`luck` is no reason");
        for time in [0, 1_795_392_000_000, u64::MAX] {
            let mut entry = entry();
            entry.time = UnixTime::from_secs(time);
            assert!(entry.fault().unwrap().contains("no time: expected seconds"));
        }
        for seconds in [0.0, 1e-300, 1e300, f64::NAN, -1.0] {
            let mut entry = entry();
            entry.page.as_mut().unwrap().seconds = seconds;
            assert!(entry.fault().unwrap().contains("no time of a page"));
        }
        let page = |change: fn(&mut LoggedPage)| {
            let mut entry = entry();
            change(entry.page.as_mut().unwrap());
            entry.fault().unwrap()
        };
        assert!(page(|it| it.responses = 0).starts_with("0 responses of 420 bytes"));
        assert!(page(|it| it.rest = u64::MAX).ends_with("bytes are no page"));
        let text = toml::to_string(&entry()).unwrap();
        for (from, to) in [
            ("\"h3\"\nreason", "\"h4\"\nreason"),
            ("firefox-linux", "firefox"),
            ("time = 1", "time = -1"),
        ] {
            assert!(text.contains(from));
            assert!(
                toml::from_str::<SelectionEntry>(&text.replace(from, to)).is_err(),
                "{to}"
            );
        }
    }
}
