//! Trials from a selection log: which visits show what a decision was worth, and what other policies would have
//! decided.
//!
//! An offer shows in what its client does *next*: `Alt-Svc` is read on one connection and obeyed on another. And a
//! coin holds a client for a week, so that whatever is learnt of it within the week is of the coin's doing. Therefore:
//!
//! - What a client is told at its first visit of a week is its *assignment*, with the probability and the
//!   [`Evidence`] of that time. That visit's pages show the assignment before, or none, for a client that had never
//!   been told anything.
//! - Pages of connections that begin later show the assignment, whether the client obeyed it or not: who is compared
//!   is who was told, not who came (intention to treat).
//! - What is predicted for a page rests on the evidence of the assignment, for later evidence would be of its doing.
//!
//! Left to `altway-stats`: estimates from the trials.

use crate::entry::{LoggedPage, LoggedProtocol, LoggedStart, SelectionEntry};
use crate::mix::{COLD, Mix};
use crate::{ClientClass, ClientKey, Evidence, Exchange, Model, Offer, Surface};
use std::collections::HashMap;
use std::time::Duration;

/// Policies that are asked at most.
pub const MAX_POLICIES: usize = 16;

/// Seconds of a server's processor: for a connection, a request and a gigabyte, over HTTP/2.
const H2_COST: [f64; 3] = [350e-6, 5e-6, 0.5];

/// The same over HTTP/3.
const H3_COST: [f64; 3] = [420e-6, 12e-6, 1.65];

/// The time after a client's first connection of a visit in which others are of the same one.
const VISIT: Duration = Duration::from_secs(30);

/// The longest life of an offer of HTTP/3 (`ma`), for which a client is remembered as well.
const OFFER_LIFE: Duration = Duration::from_secs(30 * 86_400);

/// Seconds of a server's processor for `requests` and `bytes` over HTTP/2 or HTTP/3, on a new connection or not, as
/// one machine measured it; only the quotient of both means something on another.
#[must_use]
pub fn processor_seconds(http3: bool, new: bool, requests: f64, bytes: f64) -> f64 {
    let [connection, request, gigabyte] = if http3 { H3_COST } else { H2_COST };
    let connections = if new { connection } else { 0.0 };
    connections + request * requests + gigabyte * bytes / 1e9
}

/// Visits after which a hold-out of this share of clients shows a difference of 2 % (two-sided at 5 %, with a power of
/// 80 %), for pages whose times vary as those do that the shares were made for.
#[must_use]
pub fn visits_needed(share: f64) -> f64 {
    crate::holdout::NEEDED / share.clamp(1e-6, 1.0)
}

/// A page that shows what an assignment was worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageTrial {
    /// The same number for the pages of one address.
    pub client: u64,
    /// The class.
    pub class: ClientClass,
    /// The week of the assignment.
    pub week: u64,
    /// The protocol that the client had been told to use, whatever it used then.
    pub offer: Offer,
    /// Probability of that.
    pub propensity: f64,
    /// A coin had chosen it.
    pub held: bool,
    /// The policies, by their place, that would have offered HTTP/3.
    pub wanted: u16,
    /// ln of the seconds that the page took.
    pub ln_time: f64,
    /// The same as predicted over HTTP/2 and over HTTP/3.
    pub predicted: [f64; 2],
    /// True if the page came over HTTP/3.
    pub http3: bool,
    /// Seconds of the server's processor over HTTP/2 and over HTTP/3.
    pub processor: [f64; 2],
}

impl PageTrial {
    /// The same number for pages that one coin assigned, or would have: those of an address, a class and a week. Of a
    /// comparison of assignments it is these that are independent, however much a client's weeks resemble each other.
    #[must_use]
    pub fn cluster(&self) -> u64 {
        self.client ^ u64::from(self.class.index()) << 48 ^ (self.week & 0x3ff) << 54
    }

    /// True if the policy at `place` would have offered HTTP/3.
    #[must_use]
    pub const fn wants_http3(&self, place: usize) -> bool {
        self.wanted & 1 << (place % MAX_POLICIES) != 0
    }
}

/// Counts of what a log holds beside its trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayCounts {
    /// Lines.
    pub lines: u64,
    /// Pages.
    pub pages: u64,
    /// Pages of clients that had been told nothing before.
    pub untold: u64,
    /// Visits: connections of a client within half a minute are one.
    pub visits: u64,
    /// Seconds since 1970 of the first and of the latest line.
    pub first: u64,
    /// The same of the latest.
    pub last: u64,
}

/// Reads a log in its order.
#[derive(Debug)]
pub struct Replay {
    surface: Surface,
    policies: Vec<Box<dyn Model>>,
    hosts: HashMap<Box<str>, (u16, Mix)>,
    clients: HashMap<(ClientKey, u8, u16), Client>,
    visits: HashMap<(ClientKey, u8), u64>,
    counts: ReplayCounts,
}

/// A client of a host.
#[derive(Debug, Default)]
struct Client {
    /// The assignment under which the connections that are there were opened.
    adopted: Option<Assignment>,
    /// The assignment under which the next connection will be opened.
    announced: Option<Assignment>,
    /// A page has been loaded under `announced`: it stands for the rest of the week.
    shown: bool,
    /// The policies that would have told it to use HTTP/3.
    wanted: Option<u16>,
}

#[derive(Debug, Clone, Copy)]
struct Assignment {
    week: u64,
    time: u64,
    offer: Offer,
    propensity: f64,
    held: bool,
    wanted: u16,
    evidence: Evidence,
}

impl Replay {
    /// A replay that predicts with `surface` and asks these policies, [`MAX_POLICIES`] at most; others are left out.
    #[must_use]
    pub fn new(surface: Surface, mut policies: Vec<Box<dyn Model>>) -> Self {
        policies.truncate(MAX_POLICIES);
        Self {
            surface,
            policies,
            hosts: HashMap::new(),
            clients: HashMap::new(),
            visits: HashMap::new(),
            counts: ReplayCounts::default(),
        }
    }

    /// Reads a line; the trial that it is, if it is one. Lines come in the order of their time.
    pub fn read(&mut self, entry: &SelectionEntry) -> Option<PageTrial> {
        self.count(entry);
        let number = u16::try_from(self.hosts.len()).unwrap_or(u16::MAX);
        let (host, mix) = self
            .hosts
            .entry(entry.host.clone())
            .or_insert_with(|| (number, Mix::default()));
        let key = (entry.client, entry.class.index(), *host);
        let client = self.clients.entry(key).or_default();
        let over_http3 = entry.protocol == LoggedProtocol::H3;
        let visited = entry.page.as_ref();
        let visited = visited.filter(|_| entry.class.is_visitor(over_http3));
        if let Some(page) = visited {
            let is_new = page.start != LoggedStart::Warm;
            mix.add(page.bytes(), page.responses, is_new);
        }
        let wanted = wanted(&self.policies, entry, client.wanted, mix);
        client.wanted = Some(wanted);
        let under = client.next(entry);
        client.note_announcement(entry, wanted);
        let page = entry.page.as_ref()?;
        let Some(under) = under else {
            self.counts.untold += 1;
            return None;
        };
        Some(trial(&self.surface, entry, page, &under))
    }

    /// The counts so far.
    #[must_use]
    pub const fn counts(&self) -> &ReplayCounts {
        &self.counts
    }

    fn count(&mut self, entry: &SelectionEntry) {
        let (now, counts) = (entry.time.as_secs(), &mut self.counts);
        if counts.lines == 0 {
            counts.first = now;
        }
        counts.lines += 1;
        counts.first = counts.first.min(now);
        counts.last = counts.last.max(now);
        counts.pages += u64::from(entry.page.is_some());
        let began = self.visits.entry((entry.client, entry.class.index()));
        let began = began.or_insert_with(|| {
            counts.visits += 1;
            now
        });
        if now.saturating_sub(*began) >= VISIT.as_secs() && is_new(entry) {
            counts.visits += 1;
            *began = now;
        }
    }
}

impl Client {
    /// The assignment under which the line's page was loaded.
    fn next(&mut self, entry: &SelectionEntry) -> Option<Assignment> {
        let now = entry.time.as_secs();
        if is_new(entry) {
            let alive = |it: &Assignment| now.saturating_sub(it.time) <= OFFER_LIFE.as_secs();
            self.adopted = self.announced.filter(alive);
            self.shown |= self.adopted.is_some() && entry.page.is_some();
        }
        self.adopted
    }

    /// Takes up what the line says: until a page shows an assignment the latest one counts, then the first of each
    /// week.
    fn note_announcement(&mut self, entry: &SelectionEntry, wanted: u16) {
        let week = entry.time.week();
        let is_free = self
            .announced
            .is_none_or(|announced| announced.week != week)
            || !self.shown;
        // While a large response measures the path, the client is told nothing.
        if !is_free || &*entry.reason == "waiting" {
            return;
        }
        self.shown = false;
        self.announced = Some(Assignment {
            week,
            time: entry.time.as_secs(),
            offer: entry.offer,
            propensity: entry.propensity,
            held: entry.held,
            wanted,
            evidence: entry.path,
        });
    }
}

/// True if the line's page is the first of its connection. A browser's report comes on the connection of its page.
fn is_new(entry: &SelectionEntry) -> bool {
    let is_first = |page: LoggedPage| page.start != LoggedStart::Warm;
    entry.beacon.is_none() && entry.page.is_none_or(is_first)
}

/// The policies that would offer HTTP/3, after what they would have offered `before`.
fn wanted(
    policies: &[Box<dyn Model>],
    entry: &SelectionEntry,
    before: Option<u16>,
    mix: &Mix,
) -> u16 {
    let each = policies.iter().enumerate().map(|(place, model)| {
        let before = before.map(|it| Offer::of(it & 1 << place != 0));
        let offer = entry.path.offer(&**model, entry.class, before, mix);
        u16::from(offer == Offer::Http3) << place
    });
    each.sum()
}

fn trial(
    surface: &Surface,
    entry: &SelectionEntry,
    page: &LoggedPage,
    under: &Assignment,
) -> PageTrial {
    let is_new = page.start != LoggedStart::Warm;
    let path_properties = under.evidence.path_properties(surface, entry.class);
    let times = surface.times(&path_properties, &exchange(page, is_new));
    let cost = |http3| {
        let (requests, bytes) = (f64::from(page.responses), page.bytes() as f64);
        processor_seconds(http3, is_new, requests, bytes)
    };
    PageTrial {
        client: entry.client.number(),
        class: entry.class,
        week: under.week,
        offer: under.offer,
        propensity: under.propensity,
        held: under.held,
        wanted: under.wanted,
        ln_time: page.seconds.ln(),
        predicted: [times.h2.ln(), times.h3.ln()],
        http3: entry.protocol == LoggedProtocol::H3,
        processor: [cost(false), cost(true)],
    }
}

/// The page's load, the same whichever protocol it came over.
fn exchange(page: &LoggedPage, is_new: bool) -> Exchange {
    let setup = if is_new { COLD } else { (0.0, 0.0) };
    Exchange::of_responses(page.first, page.rest, page.responses, setup)
}

#[cfg(test)]
mod tests;
