//! The server's own selection as a simulated policy.

use crate::policy::{Ask, Policy, Seen};
use altway_message::AltSvc;
use altway_select::{
    Bulk, Client, Config, Hints, Host, ModelKind, Moment, Observation, Page, Secret, Selector,
    Start, Surface, Transport, UnixTime,
};
use altway_units::{Bandwidth, DataSize};
use std::time::Duration;

/// Monday, 2026-11-23 00:00 UTC: the beginning of a simulation.
const BEGINNING: UnixTime = UnixTime::from_secs(1_795_392_000);

/// Addresses and classes that a server keeps by default.
const REMEMBERED: usize = 131_072;

/// A selector that serves one host.
#[derive(Debug)]
pub struct Selected {
    selector: Selector,
    host: Host,
}

impl Selected {
    /// A selector with the given model and surface that knows nobody.
    #[must_use]
    pub fn new(model: &ModelKind, surface: Surface) -> Self {
        Self::remembering(REMEMBERED, model, surface)
    }

    /// The same, which keeps so many addresses and classes at most; else as many as a server does by default.
    #[must_use]
    pub fn remembering(max_clients: usize, model: &ModelKind, surface: Surface) -> Self {
        let mut config = Config::new(Secret::new(*b"simulated secret"), model);
        config.model = model.build(&surface);
        config.surface = surface;
        config.max_clients = max_clients;
        Self {
            selector: Selector::new(config),
            host: Host::new("example.org"),
        }
    }

    /// What it knows.
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

impl Policy for Selected {
    fn decide(&mut self, ask: &Ask<'_>) -> AltSvc {
        let (client, now, transport) = (self.client(ask), time(ask.now), transport(ask));
        if !ask.warm {
            self.selector.connected(&client, transport, now);
        }
        let moment = Moment {
            min_rtt: Some(Duration::from_secs_f64(ask.rtt)),
            ..Moment::new(now, transport)
        };
        match self.selector.decide(&client, &self.host, &moment).alt_svc {
            altway_select::AltSvc::Advertise { max_age } => AltSvc::Offer {
                max_age,
                persist: false,
            },
            altway_select::AltSvc::Clear => AltSvc::Clear,
            altway_select::AltSvc::Omit => AltSvc::Absent,
        }
    }

    fn observe(&mut self, seen: &Seen<'_>) {
        let ask = &seen.ask;
        let (client, now) = (self.client(ask), time(ask.now));
        if seen.arrived {
            self.selector.connected(&client, Transport::Quic, now);
        }
        if !seen.pure {
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

fn bulk(seen: &Seen<'_>) -> Option<Bulk> {
    Some(Bulk {
        size: bytes(seen.page.bytes()),
        rate: Bandwidth::from_bps(seen.rate.max(1.0) as u64)?,
        app_limited: !seen.full,
    })
}

fn page(seen: &Seen<'_>) -> Page {
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
    }
}

fn bytes(bytes: f64) -> DataSize {
    DataSize::from_bytes(bytes as u64)
}
