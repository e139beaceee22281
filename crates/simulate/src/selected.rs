//! The server's own selection as a simulated policy.

use crate::policy::{Ask, ObservedPage, Policy};
use altway_message::AltSvc;
use altway_select::{
    Bulk, Client, Config, Decision, DecisionRequest, Hints, Host, LoggedProtocol, ModelKind,
    Observation, Page, Secret, SelectionEntry, Selector, Start, Surface, Transport, UnixTime,
};
use altway_units::{Bandwidth, DataSize};
use std::time::Duration;

/// Monday, 2026-11-23 00:00 UTC: the beginning of a simulation.
const BEGINNING: UnixTime = UnixTime::from_secs(1_795_392_000);

/// Addresses and classes that a server keeps by default.
const REMEMBERED: usize = 131_072;

/// A selector that serves one host.
#[derive(Debug)]
pub struct SelectorPolicy {
    selector: Selector,
    host: Host,
    /// The decision for the page that is being loaded.
    decision: Option<Decision>,
    /// `None`: nothing is logged.
    log: Option<Vec<SelectionEntry>>,
}

impl SelectorPolicy {
    /// A selector with the given model and surface that knows nobody.
    #[must_use]
    pub fn new(model: &ModelKind, surface: Surface) -> Self {
        Self::remembering(REMEMBERED, model, surface)
    }

    /// The same, which keeps so many addresses and classes at most; else as many as a server does by default.
    #[must_use]
    pub fn remembering(max_clients: usize, model: &ModelKind, surface: Surface) -> Self {
        let secret = Secret::new(*b"simulated secret");
        let mut config = Config::with_surface(secret, model, surface);
        config.max_clients = max_clients;
        Self {
            selector: Selector::new(config),
            host: Host::new("example.org"),
            decision: None,
            log: None,
        }
    }

    /// The same with a selection log.
    #[must_use]
    pub fn with_log(self) -> Self {
        Self {
            log: Some(Vec::new()),
            ..self
        }
    }

    /// The lines of the log; none without one.
    #[must_use]
    pub fn log(&self) -> &[SelectionEntry] {
        self.log.as_deref().unwrap_or_default()
    }

    /// The knowledge of the selector.
    #[must_use]
    pub fn selector(&self) -> &Selector {
        &self.selector
    }

    fn client(&self, ask: &Ask<'_>) -> Client {
        let agent = Some(ask.user_agent.as_bytes()).filter(|agent| !agent.is_empty());
        let hints = Hints {
            user_agent: agent,
            ..Hints::default()
        };
        self.selector.client(ask.address, &hints)
    }
}

impl Policy for SelectorPolicy {
    fn decide(&mut self, ask: &Ask<'_>) -> AltSvc {
        let (client, now, transport) = (self.client(ask), time(ask.now), transport(ask));
        if !ask.warm {
            self.selector.connected(&client, &self.host, transport, now);
        }
        let moment = DecisionRequest {
            min_rtt: Some(Duration::from_secs_f64(ask.rtt)),
            ..DecisionRequest::new(now, transport)
        };
        let decision = self.selector.decide(&client, &self.host, &moment);
        self.decision = Some(decision);
        match decision.alt_svc {
            altway_select::AltSvc::Advertise { max_age } => AltSvc::Offer {
                max_age,
                persist: false,
            },
            altway_select::AltSvc::Clear => AltSvc::Clear,
            altway_select::AltSvc::Omit => AltSvc::Absent,
        }
    }

    fn observe(&mut self, seen: &ObservedPage<'_>) {
        let ask = &seen.ask;
        let (client, now) = (self.client(ask), time(ask.now));
        if seen.arrived {
            self.selector
                .connected(&client, &self.host, Transport::Quic, now);
        }
        if !seen.pure {
            self.note(&client, seen, None);
            return;
        }
        let rtt = Duration::from_secs_f64(ask.rtt);
        let observation = Observation {
            min_rtt: Some(rtt),
            smoothed_rtt: Some(rtt),
            packets_sent: seen.sent,
            packets_lost: seen.lost,
            bulk: bulk(seen),
            page: Some(page(seen)),
            ..Observation::new(transport(ask))
        };
        self.selector
            .observe(&client, &self.host, &observation, now);
        self.note(&client, seen, observation.page.as_ref());
    }
}

impl SelectorPolicy {
    /// Logs a page, or that its client was told something in its midst.
    fn note(&mut self, client: &Client, seen: &ObservedPage<'_>, page: Option<&Page>) {
        let (Some(decision), Some(log)) = (&self.decision, &mut self.log) else {
            return;
        };
        let ask = &seen.ask;
        let moment = DecisionRequest {
            min_rtt: Some(Duration::from_secs_f64(ask.rtt)),
            ..DecisionRequest::new(time(ask.now), transport(ask))
        };
        let evidence = self.selector.evidence(client, &self.host, &moment);
        let whom = (moment.now, client.key(), client.class());
        let mut add = |protocol| {
            let place = (self.host.name(), protocol);
            log.push(SelectionEntry::new(whom, place, page, decision, evidence));
        };
        add(match ask.over_h3 {
            true => LoggedProtocol::H3,
            false => LoggedProtocol::H2,
        });
        if seen.arrived {
            // The connection that the rest of the page came over.
            add(LoggedProtocol::H3);
        }
    }
}

fn time(seconds: f64) -> UnixTime {
    BEGINNING + Duration::from_secs_f64(seconds)
}

fn transport(ask: &Ask<'_>) -> Transport {
    if ask.over_h3 {
        Transport::Quic
    } else {
        Transport::Tcp
    }
}

fn bulk(seen: &ObservedPage<'_>) -> Option<Bulk> {
    Some(Bulk {
        size: bytes(seen.page.bytes()),
        rate: Bandwidth::from_bps(seen.rate.max(1.0) as u64)?,
        app_limited: !seen.full,
    })
}

fn page(seen: &ObservedPage<'_>) -> Page {
    Page {
        first: bytes(seen.page.document),
        rest: bytes(seen.page.objects),
        responses: seen.page.count + 1,
        start: match (seen.ask.warm, seen.early) {
            (true, _) => Start::Warm,
            (false, true) => Start::Early,
            (false, false) => Start::Cold,
        },
        time: Duration::from_secs_f64(seen.time),
        waited: Some(Duration::ZERO),
    }
}

fn bytes(bytes: f64) -> DataSize {
    DataSize::from_bytes(bytes as u64)
}
