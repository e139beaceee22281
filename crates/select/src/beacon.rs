//! Reports of browsers on how long their pages took: how far the server's own timing is from theirs.
//!
//! The server times a page from its first packet to the acknowledgement of its last byte; people wait for the browser.
//! A small share of page views reports the browser's own times (Resource Timing), and where a report and a page of its
//! connection are of the same responses, ln of their quotient is one sample of the timing's bias, for the class of
//! clients and the protocol.
//!
//! Anybody can send a report, so nothing is decided by them: they are counted, shown and logged. What is kept of one is
//! numbers; a network may send few; each counts for a sum that is bounded.

use crate::observation::{Page, Transport};
use crate::{Client, ClientClass, Selector, UnixTime};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The longest report, in bytes.
pub const MAX_BEACON_BYTES: usize = 2_048;

/// Seconds that a network (IPv4 /24, IPv6 /48) earns another report in, and reports that it may send at once.
const INTERVAL: u32 = 60;
const BURST: u32 = 10;

/// Networks that are told apart; those that share a place share its reports. 16 KiB.
const PLACES: usize = 4_096;

/// Samples above which they are halved, so that a browser that changes is noticed.
const MANY: f64 = 10_000.0;

/// ln: what a sample is off at most, and by how much bytes of a report and of a page may differ.
const MOST: f64 = 1.2;
const BYTES: f64 = 0.25;

/// Bytes that Resource Timing counts for the fields of each response.
const FIELDS: f64 = 300.0;

/// A browser's times of a page view, in the units of the report. Every number is within the range of its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeaconReport {
    /// The protocol that the page itself came over.
    pub protocol: BeaconProtocol,
    /// Responses of the page's own origin that came over the network, up to the load event; 1 to 10,000.
    pub responses: u32,
    /// Responses among them that came over [`protocol`](Self::protocol).
    pub same: u32,
    /// Bytes of them, with 300 for the fields of each (Resource Timing, `transferSize`); up to 10 GB.
    pub bytes: u64,
    /// Milliseconds from the first packet, or the request on an open connection, to the last byte of the last
    /// response; 1 to 600,000.
    pub time_ms: u32,
    /// Milliseconds from the beginning of the navigation to the load event; 1 to 600,000.
    pub load_ms: u32,
}

/// The protocol of a page, by its ALPN identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BeaconProtocol {
    /// `http/1.1`: a page has several connections, of which none has all responses.
    Http1,
    /// `h2`.
    Http2,
    /// `h3`.
    Http3,
}

/// A text that is no report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a report of version 1 with numbers within their ranges")]
pub struct InvalidBeacon;

impl BeaconReport {
    /// Reads `v=1&p=h3&n=12&s=12&b=345678&t=1234&l=1402`: these keys in this order, and nothing else.
    ///
    /// # Errors
    /// The text is anything else, or a number is out of its range.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidBeacon> {
        Self::read(text).ok_or(InvalidBeacon)
    }

    fn read(text: &[u8]) -> Option<Self> {
        if text.len() > MAX_BEACON_BYTES {
            return None;
        }
        let mut parts = std::str::from_utf8(text).ok()?.split('&');
        let mut value = |key: &str| parts.next()?.strip_prefix(key)?.strip_prefix('=');
        if value("v")? != "1" {
            return None;
        }
        let protocol = match value("p")? {
            "http/1.1" => BeaconProtocol::Http1,
            "h2" => BeaconProtocol::Http2,
            "h3" => BeaconProtocol::Http3,
            _ => return None,
        };
        let responses = number(value("n")?, 1, 10_000)?;
        let same = number(value("s")?, 0, responses)?;
        let bytes = number(value("b")?, 0, 10_000_000_000)?;
        let time = number(value("t")?, 1, 600_000)?;
        let load = number(value("l")?, 1, 600_000)?;
        parts.next().is_none().then_some(Self {
            protocol,
            responses: u32::try_from(responses).ok()?,
            same: u32::try_from(same).ok()?,
            bytes,
            time_ms: u32::try_from(time).ok()?,
            load_ms: u32::try_from(load).ok()?,
        })
    }

    /// ln of the seconds that the server saw over those of the browser, where `page` is of the same responses, all
    /// over the one connection of the page.
    fn bias(&self, transport: Transport, page: &Page) -> Option<f64> {
        let over = match self.protocol {
            BeaconProtocol::Http1 => return None,
            BeaconProtocol::Http2 => Transport::Tcp,
            BeaconProtocol::Http3 => Transport::Quic,
        };
        let alike =
            over == transport && self.same == self.responses && page.responses == self.responses;
        let bytes = self.bytes as f64 - FIELDS * f64::from(self.responses);
        let sent = page.first.as_bytes().saturating_add(page.rest.as_bytes()) as f64;
        let near = ((bytes.max(0.0) + 1e3) / (sent + 1e3)).ln().abs() < BYTES;
        let ratio = page.time.as_secs_f64() * 1e3 / f64::from(self.time_ms);
        (alike && near && ratio > 0.0).then(|| ratio.ln().clamp(-MOST, MOST))
    }
}

/// Digits alone, eleven at most.
fn number(text: &str, least: u64, most: u64) -> Option<u64> {
    let digits = (1..=11).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok())??;
    (least..=most).contains(&number).then_some(number)
}

/// `http/1.1`, `h2`, `h3`.
impl fmt::Display for BeaconProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
            Self::Http3 => "h3",
        })
    }
}

/// A network has sent as many reports as it may at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more reports than a network may send")]
pub struct TooManyBeacons;

/// The bias of the server's timing of one protocol, for a class of clients.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TimingBias {
    /// Reports whose page the server had timed; halved above 10,000.
    pub reports: f64,
    /// Networks that they came from, by 64 places of their hash.
    pub networks: u32,
    /// Mean of ln of the server's time over the browser's: below 0, the server sees less than people wait.
    pub mean: f64,
    /// Standard error of the mean; 0 for fewer than two reports.
    pub error: f64,
}

/// The timing's bias for a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassTiming {
    /// The class.
    pub class: ClientClass,
    /// Over HTTP/2 and over HTTP/3.
    pub bias: [TimingBias; 2],
}

/// Counts of reports since the selector began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BeaconCounts {
    /// Reports that were taken.
    pub taken: u64,
    /// Reports among these whose page the server had timed.
    pub matched: u64,
    /// Reports beyond what their network may send.
    pub refused: u64,
}

/// Sums of samples.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    count: f64,
    sum: f64,
    squares: f64,
    networks: u64,
}

impl Sums {
    fn add(&mut self, sample: f64, network: u64) {
        if self.count >= MANY {
            self.count /= 2.0;
            self.sum /= 2.0;
            self.squares /= 2.0;
        }
        self.count += 1.0;
        self.sum += sample;
        self.squares += sample * sample;
        self.networks |= 1 << (network & 63);
    }

    fn bias(&self) -> TimingBias {
        if self.count < 1.0 {
            return TimingBias::default();
        }
        let mean = self.sum / self.count;
        let variance = (self.squares - self.count * mean * mean) / (self.count - 1.0).max(1.0);
        TimingBias {
            reports: self.count,
            networks: self.networks.count_ones(),
            mean,
            error: (variance.max(0.0) / self.count).sqrt(),
        }
    }
}

/// Everything that is kept of reports: 16 KiB for networks, 64 bytes for each class and protocol.
#[derive(Debug)]
pub(crate) struct Beacons(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Second at which a network may send its next one, by its hash.
    due: Box<[u32]>,
    classes: Vec<[Sums; 2]>,
    counts: BeaconCounts,
}

impl Beacons {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State {
            due: vec![0; PLACES].into(),
            classes: vec![[Sums::default(); 2]; ClientClass::COUNT],
            counts: BeaconCounts::default(),
        }))
    }

    /// Sums are sums, whatever happened to a thread that added to them.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn admit(&mut self, network: u64, now: UnixTime) -> Result<(), TooManyBeacons> {
        let place = &mut self.due[network as usize % PLACES];
        let now = now.secs32();
        // Further ahead than any report leaves it: the clock was set back since.
        let is_ahead = *place > now.saturating_add(INTERVAL * BURST);
        let due = if is_ahead { now } else { (*place).max(now) };
        if due - now > INTERVAL * (BURST - 1) {
            self.counts.refused += 1;
            return Err(TooManyBeacons);
        }
        *place = due.saturating_add(INTERVAL);
        self.counts.taken += 1;
        Ok(())
    }
}

impl Selector {
    /// Counts a report of `client` from a connection of `transport`, whose latest complete page was `page`, if there
    /// is one. Returns ln of the server's time over the browser's, if both are of the same responses.
    ///
    /// # Errors
    /// The client's network has sent ten reports in ten minutes, or more.
    pub fn beacon(
        &self,
        client: &Client,
        transport: Transport,
        report: &BeaconReport,
        page: Option<&Page>,
        now: UnixTime,
    ) -> Result<Option<f64>, TooManyBeacons> {
        let mut state = self.beacons.state();
        state.admit(client.network, now)?;
        let bias = page.and_then(|page| report.bias(transport, page));
        if let Some(bias) = bias {
            state.counts.matched += 1;
            let class = usize::from(client.class().index());
            state.classes[class][transport as usize].add(bias, client.voting_network);
        }
        Ok(bias)
    }

    /// The timing's bias of each class of which there are reports.
    #[must_use]
    pub fn timing(&self) -> Vec<ClassTiming> {
        let state = self.beacons.state();
        let classes = ClientClass::all().zip(&state.classes);
        let timing = classes.map(|(class, sums)| ClassTiming {
            class,
            bias: sums.map(|it| it.bias()),
        });
        timing
            .filter(|it| it.bias.iter().any(|bias| bias.reports > 0.0))
            .collect()
    }

    /// The timing's bias of one class, over HTTP/2 and over HTTP/3.
    pub(crate) fn timing_of(&self, class: ClientClass) -> [TimingBias; 2] {
        self.beacons.state().classes[usize::from(class.index())].map(|it| it.bias())
    }

    /// Counts of reports.
    #[must_use]
    pub fn beacon_counts(&self) -> BeaconCounts {
        self.beacons.state().counts
    }
}

#[cfg(test)]
mod tests;
