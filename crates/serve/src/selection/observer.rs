//! A connection of a client: makes observations of what it does, and has decisions made for its responses.
//!
//! Everything is told with the time at which it was. What is under way is known by the number of the requests in
//! progress, so that however an exchange ends, nothing of it is left.

mod client_observation;
mod waits;

use super::busy::Busy;
use super::counters::Counters;
use super::{HostIndex, Selection};
use crate::request::log::Protocol;
use altway_select::{
    AltSvc, Client, Decision, DecisionRequest, Hints, LoggedProtocol, Page, Pages, Reason, Start,
    Transport, UnixTime,
};
use altway_units::{DataSize, Timestamp};
use client_observation::ClientObservation;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A decision is good for this long, unless something was observed since.
const DECISION_AGE: Duration = Duration::from_secs(1);

/// Time between two observations of a connection when no page and no rate is to be reported.
const OBSERVATION_INTERVAL: Duration = Duration::from_secs(1);

/// Smaller responses are there a round trip after they were sent, for they fit into the initial window
/// (ten segments, RFC 6928): the smoothed round-trip time says the same.
const MIN_WATCHED: u64 = 16 << 10;

/// An offer that is kept for the time when the connection idles is in the responses again from this time of its life on:
/// a page that takes longer gains by a change in its middle, and a connection with a stream of events never idles.
const TELL_WITHIN: Duration = Duration::from_secs(5);

/// A connection that idles for longer before its first request was opened ahead: browsers do so while an address is typed.
const OPENED_AHEAD: Duration = Duration::from_secs(1);

/// Beginnings of connections lie this far after zero at least, for a first packet that was sent before.
const ORIGIN: Duration = Duration::from_secs(10);

/// A connection, with what it has shown of its client and what was decided for it.
#[derive(Debug)]
pub(crate) struct ConnectionObserver {
    address: IpAddr,
    path: ObservedPath,
    protocol: Protocol,
    transport: Transport,
    /// The time at which the connection was accepted.
    began: Instant,
    early: bool,
    /// The connection has not idled yet, and its protocol has a word for the time when it does.
    can_tell_later: bool,
    /// `None` before the first request.
    known: Option<ClientObservation>,
    decided: Option<CachedDecision>,
    finished: Option<Box<FinishedPage>>,
}

/// The path that a connection takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObservedPath {
    /// The path of the handshake.
    First,
    /// A path to an address at which the client has not been shown to receive: whatever is seen there counts for nobody.
    Unvalidated,
    /// A path to a validated address that the client has moved to.
    Later,
}

/// A page that a client has loaded whole: what was requested in one go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FinishedPage {
    /// The time that it took.
    pub(crate) time: Duration,
    /// Part of it that the path took, or may have taken.
    pub(crate) path_time: Duration,
    /// Predicted difference, ln(T3 / T2), of the latest decision; `None` where there was no prediction.
    pub(crate) difference: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
struct CachedDecision {
    at: Instant,
    host: HostIndex,
    decision: Decision,
    load: f32,
    /// True if something was observed since.
    is_stale: bool,
    /// The selection log has a line with it.
    is_logged: bool,
}

/// The next step once a response was handed over whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Complete {
    /// No step is left.
    Done,
    /// Finding out when the client has everything.
    Watch,
}

impl ConnectionObserver {
    /// A connection from `address` that was accepted at `began`.
    pub(crate) fn new(address: IpAddr, protocol: Protocol, began: Instant) -> Self {
        Self {
            address,
            path: ObservedPath::First,
            protocol,
            transport: protocol.transport(),
            began,
            early: false,
            can_tell_later: protocol == Protocol::Http2,
            known: None,
            decided: None,
            finished: None,
        }
    }

    /// The page that has become known as finished since this was last called.
    pub(crate) fn take_finished(&mut self) -> Option<FinishedPage> {
        self.finished.take().map(|page| *page)
    }

    fn finish(&mut self, page: &Page) {
        let prediction = self.decided.and_then(|it| it.decision.prediction);
        self.finished = Some(Box::new(FinishedPage {
            time: page.time,
            path_time: page.path_time().unwrap_or(page.time),
            difference: prediction.map(|it| it.difference),
        }));
    }

    /// Returns true if what the connection shows counts for `address`.
    pub(crate) fn counts_for(&self, address: IpAddr) -> bool {
        self.address == address && self.path != ObservedPath::Unvalidated
    }

    /// Follows the client to `address` (RFC 9000 section 9): what it has shown is told, but for the page that it is loading,
    /// and what it shows from here on counts for that address as soon as it is validated.
    pub(crate) fn follow(
        &mut self,
        selection: &Selection,
        address: IpAddr,
        is_validated: bool,
        now: Instant,
        unix: UnixTime,
    ) {
        self.conclude(selection, now, unix);
        self.decided = None;
        if is_validated {
            self.address = address;
            self.path = ObservedPath::Later;
        } else {
            self.path = ObservedPath::Unvalidated;
        }
    }

    /// The first request came in early data.
    pub(crate) fn early(&mut self) {
        self.early = self.known.is_none();
    }

    /// A request has come. `in_progress`: the connection's requests, this one included. `facts`: what tells who the client
    /// is, and the host that it asks for first.
    pub(crate) fn request<'h>(
        &mut self,
        selection: &Selection,
        in_progress: usize,
        now: Instant,
        unix: UnixTime,
        facts: impl FnOnce() -> (Hints<'h>, HostIndex),
        mut read: impl FnMut() -> Option<Counters>,
    ) {
        let at = self.timestamp(now);
        if self.path == ObservedPath::Unvalidated {
            return;
        }
        if self.known.is_none() {
            let counters = read();
            self.known = Some(self.begin(selection, &facts(), counters, now, unix));
        }
        let Some(known) = &mut self.known else {
            return;
        };
        if known.unacknowledged.is_some() {
            // Only TCP's counters say when the client had it; QUIC's say a rate, where there is one.
            if self.transport == Transport::Tcp || known.busy.is_marked() {
                known.latest = read().or(known.latest);
            }
            known.arrived(self.began, now);
        }
        let others = u32::try_from(in_progress.saturating_sub(1)).unwrap_or(u32::MAX);
        while known.pages.under_way() > others {
            known.pages.cancelled(at);
        }
        if others == 0 || known.pages.is_beginning(at) {
            // What is left of a response that was given up, and what streams have sent, is no part of the next one.
            (known.busy, known.response) = (Busy::default(), 0);
        }
        if let Some(page) = known.pages.request(at) {
            known.page = Some(page);
        }
        // The first rate is told at once; those after it once a second, as a response is complete.
        let is_first_rate = known.bulk.is_some() && known.observed.is_none();
        if known.page.is_some() || is_first_rate {
            known.latest = read().or(known.latest);
            if let Some(page) = known.observe(selection, now, unix) {
                self.finish(&page);
                self.log(selection, Some(&page), unix);
            }
            self.renew();
        }
    }

    /// The request that is answered next is for that host.
    pub(crate) fn set_host(&mut self, host: HostIndex) {
        if let Some(known) = &mut self.known {
            known.host = host;
        }
    }

    /// True if the client had been offered HTTP/3 when the connection began.
    pub(crate) fn was_offered(&self) -> bool {
        self.known.as_ref().is_some_and(|known| known.offered)
    }

    /// The client; `None` before the first request.
    pub(crate) fn client(&self) -> Option<&Client> {
        self.known.as_ref().map(|known| &known.client)
    }

    /// The host of the latest request.
    pub(crate) fn host(&self) -> HostIndex {
        self.known
            .as_ref()
            .map_or(HostIndex::OTHERS, |known| known.host)
    }

    /// The latest page that is known as finished.
    pub(crate) fn latest_page(&self) -> Option<Page> {
        self.known.as_ref()?.latest_page
    }

    /// The shortest round trip so far.
    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        self.known.as_ref()?.latest?.min_rtt
    }

    /// The connection's protocol as the selection log has it.
    pub(crate) fn logged_protocol(&self) -> LoggedProtocol {
        match self.protocol {
            Protocol::Http1 => LoggedProtocol::H1,
            Protocol::Http2 => LoggedProtocol::H2,
            Protocol::Http3 => LoggedProtocol::H3,
        }
    }

    /// The request that is being answered is no part of a page.
    pub(crate) fn invalidate(&mut self) {
        if let Some(known) = &mut self.known {
            known.pages.invalidate();
        }
    }

    /// The response to the request that is being answered says that the server has failed.
    pub(crate) fn failed(&mut self) {
        if let Some(known) = &mut self.known {
            known.pages.failed();
        }
    }

    /// Bytes of a response were handed over.
    pub(crate) fn sent(
        &mut self,
        bytes: u64,
        now: Instant,
        read: impl FnOnce() -> Option<Counters>,
    ) {
        let Some(known) = &mut self.known else {
            return;
        };
        known.response = known.response.saturating_add(bytes);
        if bytes > 0
            && let Some(pause) = known.busy.pause(now)
        {
            known.pages.paused(pause);
        }
        if known.busy.sent(bytes, now)
            && let Some(counters) = read()
        {
            known.busy.mark(now, counters.bytes_acked);
            known.latest = Some(counters);
        }
    }

    /// A response was handed over whole.
    pub(crate) fn complete(
        &mut self,
        selection: &Selection,
        now: Instant,
        unix: UnixTime,
        read: impl FnOnce() -> Option<Counters>,
    ) -> Complete {
        let at = self.timestamp(now);
        let Some(known) = &mut self.known else {
            return Complete::Done;
        };
        known.responses += 1;
        let size = DataSize::from_bytes(std::mem::take(&mut known.response));
        let is_last = known.pages.active() <= 1;
        if known.page.is_some() || now >= known.observed_at + OBSERVATION_INTERVAL {
            known.latest = read().or(known.latest);
            if let Some(page) = known.observe(selection, now, unix) {
                self.finish(&page);
                self.log(selection, Some(&page), unix);
            }
            self.renew();
        }
        let Some(known) = &mut self.known else {
            return Complete::Done;
        };
        if !is_last {
            known.pages.response(at, size);
            return Complete::Done;
        }
        if self.transport == Transport::Tcp && known.busy.bytes() < MIN_WATCHED {
            let rtt = known.latest.and_then(|it| it.smoothed_rtt);
            known.busy = Busy::default();
            known.pages.response(at + rtt.unwrap_or_default(), size);
            return Complete::Done;
        }
        known.unacknowledged = Some(size);
        Complete::Watch
    }

    /// Notes that nothing tells when the client has the latest response.
    pub(crate) fn unwatched(&mut self, now: Instant) {
        let at = self.timestamp(now);
        if let Some(known) = &mut self.known
            && let Some(size) = known.unacknowledged.take()
        {
            let rtt = known.latest.and_then(|it| it.smoothed_rtt);
            known.busy = Busy::default();
            known.pages.response(at + rtt.unwrap_or_default(), size);
        }
    }

    /// The client has everything by now.
    pub(crate) fn arrived(&mut self, now: Instant, read: impl FnOnce() -> Option<Counters>) {
        if let Some(known) = &mut self.known
            && known.unacknowledged.is_some()
        {
            if known.busy.is_marked() {
                known.latest = read().or(known.latest);
            }
            known.arrived(self.began, now);
        }
    }

    /// An exchange was given up, while nothing else was in progress.
    pub(crate) fn cancelled(&mut self, now: Instant) {
        let at = self.timestamp(now);
        let Some(known) = &mut self.known else {
            return;
        };
        if known.unacknowledged.take().is_some() || known.pages.under_way() > 0 {
            known.busy = Busy::default();
        }
        // A page that is asked for later is another one.
        while known.pages.under_way() > 0 {
            known.pages.cancelled(at);
        }
    }

    /// The connection has ended: what it has shown is told.
    pub(crate) fn end(
        &mut self,
        selection: &Selection,
        now: Instant,
        unix: UnixTime,
        read: impl FnOnce() -> Option<Counters>,
    ) {
        let Some(known) = &mut self.known else {
            return;
        };
        known.latest = read().or(known.latest);
        if known.latest.is_some_and(|it| it.arrived.is_some()) {
            known.arrived(self.began, now);
        }
        self.conclude(selection, now, unix);
    }

    /// Tells what is known of the path, which nothing more is to be learnt of.
    fn conclude(&mut self, selection: &Selection, now: Instant, unix: UnixTime) {
        let at = self.timestamp(now);
        let Some(known) = &mut self.known else {
            return;
        };
        known.page = known.page.or(known.pages.conclude(at));
        let page = known.observe(selection, now, unix);
        page.as_ref().inspect(|page| self.finish(page));
        self.log(selection, page.as_ref(), unix);
        self.known = None;
    }

    /// Decides for a response of that size, if it is known; `None` before the first request.
    pub(crate) fn decide(
        &mut self,
        selection: &Selection,
        size: Option<u64>,
        load: f64,
        now: Instant,
        unix: UnixTime,
    ) -> Option<Decision> {
        self.decide_after(None, selection, size, load, now, unix)
    }

    /// Decides as [`decide`](Self::decide) does, after a page that is not observed yet.
    fn decide_after(
        &mut self,
        page: Option<Page>,
        selection: &Selection,
        size: Option<u64>,
        load: f64,
        now: Instant,
        unix: UnixTime,
    ) -> Option<Decision> {
        let known = self.known.as_ref()?;
        if let Some(decided) = &self.decided
            && decided.host == known.host
            && !decided.is_stale
            && now < decided.at + DECISION_AGE
        {
            return Some(decided.decision);
        }
        let is_first = known.responses == 0;
        let moment = DecisionRequest {
            congestion: known.latest.and_then(|it| it.congestion),
            min_rtt: known.latest.and_then(|it| it.min_rtt),
            load,
            first_response: size.filter(|_| is_first).map(DataSize::from_bytes),
            can_tell_later: self.can_tell_later && now < self.began + TELL_WITHIN,
            page,
            ..DecisionRequest::new(unix, self.transport)
        };
        let decision = selection.decide(&known.client, known.host, &moment);
        self.decided = Some(CachedDecision {
            at: now,
            host: known.host,
            decision,
            load: load as f32,
            is_stale: false,
            is_logged: false,
        });
        Some(decision)
    }

    /// True if the client was told to come back over TCP, and goes on over this connection as long as it lives.
    pub(crate) fn is_to_go_back(&self) -> bool {
        let stays = |known: &ClientObservation| known.client.class().keeps_cleared_connection();
        let is_cleared =
            |decided: &CachedDecision| matches!(decided.decision.alt_svc, AltSvc::Clear);
        self.decided.as_ref().is_some_and(is_cleared) && self.known.as_ref().is_some_and(stays)
    }

    /// True if an offer to this client may be kept for the time when the connection idles.
    pub(crate) fn may_tell_later(&self) -> bool {
        let heeds = |known: &ClientObservation| {
            known.client.class().heeds_alt_svc_frames() && !known.offered
        };
        self.can_tell_later && self.known.as_ref().is_some_and(heeds)
    }

    /// The connection idles, for the first time: decides anew, by what the page has shown, if nothing was offered yet.
    /// `None` where something was, or where the operator decides; later responses have theirs in their fields.
    pub(crate) fn idle(
        &mut self,
        selection: &Selection,
        load: f64,
        now: Instant,
        unix: UnixTime,
        read: impl FnOnce() -> Option<Counters>,
    ) -> Option<Decision> {
        let could = std::mem::take(&mut self.can_tell_later);
        let latest = self.decided?.decision;
        let is_told = matches!(latest.alt_svc, AltSvc::Advertise { .. });
        let is_fixed = matches!(latest.reason, Reason::Fixed);
        if !could || is_told || is_fixed {
            return None;
        }
        let known = self.known.as_mut()?;
        known.latest = read().or(known.latest);
        if let Some(page) = known.observe(selection, now, unix) {
            self.finish(&page);
            self.log(selection, Some(&page), unix);
        }
        let page = self.known.as_ref().and_then(|it| it.pages.so_far());
        self.renew();
        self.decide_after(page, selection, None, load, now, unix)
    }

    /// The next response is decided for anew.
    fn renew(&mut self) {
        if let Some(decided) = &mut self.decided {
            decided.is_stale = true;
        }
    }

    /// Logs a page with the latest decision, or a decision that no line has, as the connection ends without a page.
    fn log(&mut self, selection: &Selection, page: Option<&Page>, unix: UnixTime) {
        let protocol = self.logged_protocol();
        let (Some(known), Some(decided)) = (&self.known, &mut self.decided) else {
            return;
        };
        if selection.log().is_none() || page.is_none() && decided.is_logged {
            return;
        }
        decided.is_logged = true;
        let moment = DecisionRequest {
            congestion: known.latest.and_then(|it| it.congestion),
            min_rtt: known.latest.and_then(|it| it.min_rtt),
            load: decided.load.into(),
            ..DecisionRequest::new(unix, self.transport)
        };
        let place = (decided.host, protocol);
        selection.record(&known.client, place, page, &decided.decision, &moment);
    }

    fn begin(
        &self,
        selection: &Selection,
        (hints, host): &(Hints<'_>, HostIndex),
        counters: Option<Counters>,
        now: Instant,
        unix: UnixTime,
    ) -> ClientObservation {
        let whose = (self.address, hints);
        let (client, offered) = selection.connected(whose, *host, self.transport, unix);
        let is_first = self.path == ObservedPath::First;
        let pages = match is_first {
            true if self.early => {
                Pages::new(self.first_packet(counters.as_ref(), now), Start::Early)
            }
            true => Pages::new(self.first_packet(counters.as_ref(), now), Start::Cold),
            false => {
                // Neither a new connection nor one that knows its path: a time like this is predicted of no page.
                let mut pages = Pages::new(self.timestamp(now), Start::Warm);
                pages.invalidate();
                pages
            }
        };
        ClientObservation {
            client,
            offered,
            host: *host,
            pages,
            busy: Busy::default(),
            response: 0,
            unacknowledged: None,
            responses: 0,
            latest: counters,
            is_first_path: is_first,
            observed: None,
            observed_at: now,
            page: None,
            latest_page: None,
            bulk: None,
        }
    }

    /// The time at which the client's first packet was sent: over TCP a round trip before the connection was accepted. For a
    /// connection that was opened ahead, as late as it could have been for a first request at `now`.
    fn first_packet(&self, counters: Option<&Counters>, now: Instant) -> Timestamp {
        let rtt = counters.and_then(|it| it.min_rtt).unwrap_or_default();
        let (before, handshake) = match self.transport {
            Transport::Tcp => (rtt, 2 * rtt),
            Transport::Quic if self.early => (rtt / 2, rtt / 2),
            Transport::Quic => (rtt / 2, rtt * 3 / 2),
        };
        let first = Timestamp::ZERO + ORIGIN.saturating_sub(before);
        let idle = (self.timestamp(now) - first).saturating_sub(handshake);
        if idle > OPENED_AHEAD {
            first + idle
        } else {
            first
        }
    }

    fn timestamp(&self, at: Instant) -> Timestamp {
        timestamp(self.began, at)
    }
}

fn timestamp(began: Instant, at: Instant) -> Timestamp {
    Timestamp::ZERO + (ORIGIN + at.saturating_duration_since(began))
}

#[cfg(test)]
mod tests;
