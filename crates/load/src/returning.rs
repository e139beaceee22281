//! A client that comes back: its sessions one after the other, and over what its requests go in each.
//!
//! [`Returning`] is the pure part: the requests of the session, the client's clock, and its entry of
//! HTTP/3 at the origin. [`drive`] keeps the two connections that a session may have.

use crate::run::Run;
use crate::script::Script;
use crate::slot::{self, End};
use altway_message::{AltSvc, AltSvcEntry};
use altway_record::{Protocol, Sessions, Visit};
use std::pin::pin;
use std::time::{Duration, Instant};

/// The time that QUIC has for itself before a connection over TCP is opened beside it: the Connection Attempt Delay that
/// RFC 8305 section 5 recommends. The first of both that can take a request has it.
pub(crate) const TCP_DELAY: Duration = Duration::from_millis(250);

/// The time for which no offer is followed once QUIC has failed. It doubles with each failure in a row, as Chromium's does.
const FIRST_BROKEN: Duration = Duration::from_secs(5 * 60);

/// Doublings of that time at most: two days.
const MAX_DOUBLINGS: u32 = 9;

/// The state of a returning client: its next session, and its entry of HTTP/3.
#[derive(Debug)]
pub(crate) struct Returning {
    visit: Visit,
    sessions: Sessions,
    script: Script,
    /// The number of the session, from 0.
    session: u32,
    /// The clock stood at zero then.
    begun: Instant,
    /// The time by which the clock was put forward since.
    ahead: Duration,
    entry: AltSvcEntry,
    /// Failures of QUIC since it last worked, and the time until which it counts as broken.
    failures: u32,
    broken_until: Duration,
}

impl Returning {
    /// Returns the state before the first session.
    pub(crate) fn new(begun: Instant, visit: &Visit, sessions: &Sessions) -> Self {
        Self {
            visit: visit.clone(),
            sessions: sessions.clone(),
            script: Script::new(visit),
            session: 0,
            begun,
            ahead: Duration::ZERO,
            entry: AltSvcEntry::NONE,
            failures: 0,
            broken_until: Duration::ZERO,
        }
    }

    /// Goes on to the next session; false when there is none.
    pub(crate) fn begin_session(&mut self) -> bool {
        let Some(apart) = self.sessions.apart_ms.get(self.session as usize) else {
            return false;
        };
        self.session += 1;
        self.ahead = self.ahead.saturating_add(Duration::from_millis(*apart));
        self.script = Script::new(&self.visit);
        true
    }

    /// Returns the protocol over which a request goes now.
    pub(crate) fn protocol(&self, now: Instant) -> Protocol {
        let now = self.clock(now);
        match self.entry.is_fresh(now) && now >= self.broken_until {
            true => Protocol::H3,
            false => Protocol::H2,
        }
    }

    /// Item and due time of the next request, if one is due.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(u32, Instant)> {
        let (place, start) = self.script.next(now)?;
        Some((self.first_item() + place, start))
    }

    /// Returns whether all requests of the session have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.script.has_ended()
    }

    pub(crate) fn on_first_byte(&mut self, item: u32, now: Instant) {
        let place = self.place(item);
        self.script.on_first_byte(place, now);
    }

    pub(crate) fn on_end(&mut self, item: u32, now: Instant) {
        let place = self.place(item);
        self.script.on_end(place, now);
    }

    /// An answer said this of HTTP/3.
    pub(crate) fn on_alt_svc(&mut self, field: AltSvc, now: Instant) {
        let now = self.clock(now);
        self.entry.on_field(field, now);
    }

    /// Notes that a connection over QUIC is open.
    pub(crate) fn on_quic(&mut self) {
        self.failures = 0;
    }

    /// Notes that no connection over QUIC came about, or one over TCP sooner.
    pub(crate) fn on_failure(&mut self, now: Instant) {
        self.entry.on_failure();
        let broken = FIRST_BROKEN * (1 << self.failures.min(MAX_DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
        self.broken_until = self.clock(now).saturating_add(broken);
    }

    fn clock(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun)
            .saturating_add(self.ahead)
    }

    fn first_item(&self) -> u32 {
        // Bounded by the most requests of a visit.
        let count = u32::try_from(self.visit.requests.len()).unwrap_or(u32::MAX);
        self.session.saturating_mul(count)
    }

    fn place(&self, item: u32) -> u32 {
        item.saturating_sub(self.first_item())
    }
}

/// Makes all sessions; whether it gave up before the last.
pub(crate) async fn drive(run: &Run<'_>) -> bool {
    loop {
        let mut tcp = pin!(slot::drive(run, Protocol::H2));
        let mut quic = pin!(slot::drive(run, Protocol::H3));
        // Both end when all requests of the session have; only TCP gives up, and then nothing ends.
        let end = tokio::select! {
            end = &mut tcp => {
                if end == End::Done {
                    quic.await;
                }
                end
            }
            _ = &mut quic => tcp.await,
        };
        if end == End::GaveUp {
            return true;
        }
        // A session's connections end with it.
        drop(run.take_opened());
        if !run.send_permits.begin_session() {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_record::VisitRequest;
    use altway_units::DataSize;

    const OFFER: AltSvc = AltSvc::Offer {
        max_age: Duration::from_secs(60),
        persist: false,
    };

    fn returning(begun: Instant) -> Returning {
        let request = || VisitRequest::new("/".into(), DataSize::from_bytes(1));
        let visit = Visit {
            requests: vec![request(), request()],
            new_connections: false,
            early_data: false,
            learn_http3: false,
            sessions: None,
        };
        let sessions = Sessions {
            apart_ms: vec![10_000, 3_600_000],
        };
        Returning::new(begun, &visit, &sessions)
    }

    #[test]
    fn an_offer_holds_in_the_next_session_and_has_run_out_an_hour_later() {
        let now = Instant::now();
        let mut client = returning(now);
        assert_eq!(client.protocol(now), Protocol::H2);
        client.on_alt_svc(OFFER, now);
        assert_eq!(client.protocol(now), Protocol::H3);
        assert!(client.begin_session());
        assert_eq!(client.protocol(now), Protocol::H3);
        let later = now + Duration::from_secs(50);
        assert_eq!(client.protocol(later), Protocol::H2, "10 s and 50 s");
        client.on_alt_svc(OFFER, later);
        assert!(client.begin_session());
        assert_eq!(client.protocol(later), Protocol::H2);
        assert!(!client.begin_session());
    }

    #[test]
    fn offers_are_not_followed_for_five_minutes_after_a_failure_and_for_twice_as_long_after_the_next()
     {
        let now = Instant::now();
        let mut client = returning(now);
        let minutes = |number: u64| now + Duration::from_secs(number * 60);
        let follows = |client: &mut Returning, at| {
            client.on_alt_svc(OFFER, at);
            client.protocol(at) == Protocol::H3
        };
        client.on_failure(now);
        assert!(!follows(&mut client, minutes(4)) && follows(&mut client, minutes(5)));
        client.on_failure(minutes(5));
        assert!(!follows(&mut client, minutes(14)) && follows(&mut client, minutes(15)));
        client.on_quic();
        client.on_failure(minutes(15));
        assert!(!follows(&mut client, minutes(19)) && follows(&mut client, minutes(20)));
        client.on_alt_svc(AltSvc::Clear, minutes(20));
        assert_eq!(client.protocol(minutes(20)), Protocol::H2);
        for _ in 0..100 {
            client.on_failure(minutes(20));
        }
        assert!(
            follows(&mut client, minutes(20 + 3 * 24 * 60)),
            "after two days at the latest"
        );
    }

    #[test]
    fn items_go_on_from_session_to_session() {
        let now = Instant::now();
        let mut client = returning(now);
        let mut made = Vec::new();
        loop {
            while let Some((item, _)) = client.next(now) {
                made.push(item);
                client.on_end(item, now);
            }
            assert!(client.has_ended());
            if !client.begin_session() {
                break;
            }
        }
        assert_eq!(made, [0, 1, 2, 3, 4, 5]);
    }
}
