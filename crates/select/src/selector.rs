//! The selector: what a server feeds with observations, and obeys.

use crate::alt_svc;
use crate::beacon::Beacons;
use crate::classes::{Alarm, Classes};
use crate::client_state::ClientState;
use crate::decision::{Decision, Offer, Prediction, Reason};
use crate::mix::Mix;
use crate::model::{Context, Judgement, Model, ModelKind, OfferMode};
use crate::observation::{Observation, Page, Transport};
use crate::snapshot::KeptHost;
use crate::store::Store;
use crate::surface::{Congestion, Surface};
use crate::visits::Visits;
use crate::{AltSvc, Client, ClientClass, Hints, Secret, UnixTime, holdout};
use altway_units::DataSize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

mod learn;

/// A first response above this measures an unknown path better than any guess.
const LARGE: u64 = 1_000_000;

/// ln(T3 / T2) above which a visit over HTTP/3 is ended in its midst.
const END_SESSION_DIFFERENCE: f64 = 0.25;

/// Round trips that the new connection over TCP costs it: two until the first request can be sent, one for that request,
/// and three until the window of ten packets has grown to what the one over QUIC had.
const END_SESSION_ROUND_TRIPS: f64 = 6.0;

/// The configuration of a selector. [`Config::new`] has the defaults.
#[derive(Debug)]
pub struct Config {
    /// Key of all hashes.
    pub secret: Secret,
    /// The model by which the protocol is chosen. Default: `learned`.
    pub model: Box<dyn Model>,
    /// Coefficients of the predicted times. Default: the embedded ones.
    pub surface: Surface,
    /// The most pairs of address and class that are kept: 60 bytes each, networks included, allocated as they come.
    /// Default 131,072.
    pub max_clients: usize,
    /// Congestion control over TCP and over QUIC, for connections without one of their own. Default: loss-based for
    /// both.
    pub congestion: [Congestion; 2],
    /// Visits after which decisions begin to use what was learnt; before, only a client's own rates over both transports.
    /// Default 1,000.
    pub learn_after: u64,
}

impl Config {
    /// The defaults, for a model with the embedded surface.
    #[must_use]
    pub fn new(secret: Secret, model: &ModelKind) -> Self {
        Self::with_surface(secret, model, Surface::embedded().clone())
    }

    /// The defaults, for a model with `surface`: that of [`ModelKind::file`].
    #[must_use]
    pub fn with_surface(secret: Secret, model: &ModelKind, surface: Surface) -> Self {
        Self {
            secret,
            model: model.build(&surface),
            surface,
            max_clients: 131_072,
            congestion: [Congestion::default(); 2],
            learn_after: 1_000,
        }
    }
}

/// Slots in which a client's state keeps what it was told.
pub(crate) const SLOTS: u8 = 8;

/// A host with decisions of its own, because a download host and a site differ. It takes about 2 KiB: make one for
/// each configured name, never for each name that a client asks for.
#[derive(Debug, Default)]
pub struct Host {
    name: Box<str>,
    pub(crate) slot: u8,
    pub(crate) mix: Mutex<Mix>,
    model: Option<Box<dyn Model>>,
}

impl Host {
    /// The host with that name. Eight slots keep what a client was told; hosts that share one share that. Its slot is that of
    /// its name, unless it [avoids](Self::avoiding) others.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let sum = name.bytes().fold(0_u8, |sum, byte| {
            sum.rotate_left(3) ^ byte.to_ascii_lowercase()
        });
        Self {
            name: name.into(),
            slot: (sum ^ sum >> 3) % SLOTS,
            mix: Mutex::default(),
            model: None,
        }
    }

    /// Has the next slot that none of the hosts has which `taken` is the union of ([`taken_slot`](Self::taken_slot)), while
    /// there is one. Two hosts that differ take back each other's offers in a common slot. With the same hosts in the same
    /// order each has its slot again after a restart.
    #[must_use]
    pub fn avoiding(mut self, taken: u8) -> Self {
        let mut slots = (0..SLOTS).map(|step| (self.slot + step) % SLOTS);
        let free = slots.find(|slot| taken & 1 << slot == 0);
        self.slot = free.unwrap_or(self.slot);
        self
    }

    /// The slot as a bit.
    #[must_use]
    pub const fn taken_slot(&self) -> u8 {
        1 << self.slot
    }

    /// The name; empty for a host without one.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets `model` decide for the host's clients, in place of the selector's model. It uses its own surface, and the
    /// selector's knowledge of clients. If it does not learn, nothing is learnt from the host's pages.
    #[must_use]
    pub fn with_model(mut self, model: Box<dyn Model>) -> Self {
        self.model = Some(model);
        self
    }
}

/// The circumstances of a decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecisionRequest {
    /// The current time.
    pub now: UnixTime,
    /// Transport of the connection that the response goes out on.
    pub transport: Transport,
    /// The congestion control of this connection's sender, the server. `None`: as the selector was told of all.
    pub congestion: Option<Congestion>,
    /// Least round-trip time of this connection.
    pub min_rtt: Option<Duration>,
    /// Busy share of the worker's recent processor time, 0 to 1.
    pub load: f64,
    /// Size of the response, if it is the connection's first and its size is known.
    pub first_response: Option<DataSize>,
    /// True if the server can tell the client later, when the connection idles: HTTP/2 has the ALTSVC frame for it
    /// (RFC 7838 section 4). Then a client that would follow an offer in the middle of the page has none before its
    /// end: the decision is for HTTP/3, with [`AltSvc::Omit`].
    pub can_tell_later: bool,
    /// The page that the connection has just loaded, if it is not observed yet: it counts among those of the host's visitors
    /// while these are few.
    pub page: Option<Page>,
}

impl DecisionRequest {
    /// A response on a connection of `transport` of which nothing else is known.
    #[must_use]
    pub const fn new(now: UnixTime, transport: Transport) -> Self {
        Self {
            now,
            transport,
            congestion: None,
            min_rtt: None,
            load: 0.0,
            first_response: None,
            can_tell_later: false,
            page: None,
        }
    }
}

/// Decides for clients, and learns from them. It is shared by all workers: methods take `&self`, with a lock for each
/// of 64 parts of the state, held for less than a microsecond.
#[derive(Debug)]
pub struct Selector {
    pub(crate) secret: Secret,
    model: Box<dyn Model>,
    surface: Surface,
    pub(crate) congestion: [Congestion; 2],
    learn_after: u64,
    pub(crate) store: Store,
    pub(crate) classes: Classes,
    pub(crate) visits: Mutex<Visits>,
    pub(crate) beacons: Beacons,
    /// Hosts of a snapshot by the keyed hashes of their names.
    pub(crate) kept_hosts: Mutex<BTreeMap<u64, KeptHost>>,
}

impl Selector {
    /// A selector that knows no client.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            secret: config.secret,
            model: config.model,
            congestion: config.congestion,
            learn_after: config.learn_after,
            store: Store::new(config.max_clients),
            classes: Classes::new(&config.surface),
            surface: config.surface,
            visits: Mutex::default(),
            beacons: Beacons::new(),
            kept_hosts: Mutex::default(),
        }
    }

    /// The client at `address` with the class that `hints` name.
    #[must_use]
    pub fn client(&self, address: IpAddr, hints: &Hints<'_>) -> Client {
        Client::new(&self.secret, address, ClientClass::of(hints))
    }

    /// Notes that a connection of `client` to `host` has begun: call it once for each connection, before decisions on it.
    /// Returns true if the client had been offered HTTP/3 before, by the latest decision for any host.
    pub fn connected(
        &self,
        client: &Client,
        host: &Host,
        transport: Transport,
        now: UnixTime,
    ) -> bool {
        let (offered, visit, blocked) = self.store.change(client, now, |known| {
            let offered = known.is_offered();
            (
                offered,
                known.connected(transport, host.slot, now),
                known.is_udp_blocked(),
            )
        });
        if visit {
            self.visits
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add(now);
        }
        match transport {
            Transport::Quic => self
                .store
                .change_network(client, now, |it| it.came(client.address)),
            // Of programs many have no HTTP/3, which says nothing of their network.
            Transport::Tcp if blocked && client.class().is_browser() => {
                self.store
                    .change_network(client, now, |it| it.blocked(client.address));
            }
            Transport::Tcp => {}
        }
        offered
    }

    /// Learns from what is new on a connection of `client` to `host`. An alarm is for the log.
    pub fn observe(
        &self,
        client: &Client,
        host: &Host,
        observation: &Observation,
        now: UnixTime,
    ) -> Option<Alarm> {
        self.learn(client, host, observation, now)
    }

    /// Decides what a response of `host` to `client` says. The response counts as sent, and the client's next steps
    /// are judged by it. Once a second for each connection is enough.
    #[must_use]
    pub fn decide(&self, client: &Client, host: &Host, moment: &DecisionRequest) -> Decision {
        let verdict = self.judge(client, host, moment);
        self.keep(client, host, moment, &verdict);
        verdict.decision
    }

    /// The decision that [`decide`](Self::decide) would make, without noting it.
    #[must_use]
    pub fn preview(&self, client: &Client, host: &Host, moment: &DecisionRequest) -> Decision {
        self.judge(client, host, moment).decision
    }

    /// Number of pairs of address and class that are kept.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.store.len()
    }

    /// Highest rate in bit/s at which a class receives over QUIC, as learnt.
    #[must_use]
    pub fn limit(&self, class: ClientClass) -> f64 {
        self.classes.get(class).0
    }

    /// Congestion control over TCP and over QUIC, where a connection of `transport` has `own`.
    pub(crate) fn congestion(
        &self,
        transport: Transport,
        own: Option<Congestion>,
    ) -> [Congestion; 2] {
        let mut both = self.congestion;
        let place = &mut both[transport as usize];
        *place = own.unwrap_or(*place);
        both
    }

    /// The state of a client, as it counts under the congestion control of this moment.
    pub(crate) fn known(&self, client: &Client, moment: &DecisionRequest) -> Option<ClientState> {
        let congestion = self.congestion(moment.transport, moment.congestion);
        let known = self.store.known(client, moment.now)?;
        Some(known.under(congestion))
    }

    fn judge(&self, client: &Client, host: &Host, moment: &DecisionRequest) -> Verdict {
        let now = moment.now;
        let known = self.known(client, moment);
        let before = known.and_then(|known| known.decision(host.slot));
        let counted = host.mix.lock().unwrap_or_else(PoisonError::into_inner);
        let with_page = mix_with(&counted, client.class(), moment);
        let mix = with_page.as_ref().unwrap_or(&counted);
        let mut context = self.context(client, mix, moment, known.as_ref());
        context.http3 = before.unwrap_or(context.http3);
        let model = self.model(host);
        let judgement = model.judge(&context);
        let subject = Subject {
            client,
            known,
            before,
            slot: host.slot,
            learns: model.learns(),
            congestion: context.congestion,
        };
        let mut choice = self.choose(&subject, &judgement, &context, now);
        let ends_session = ends_session(judgement.prediction.as_ref(), mix.bytes_left());
        drop(counted);
        let mut alt_svc = alt_svc_of(&subject, moment, &judgement, &choice, ends_session);
        let awaited = subject.waits(moment) || choice.http3 && subject.is_loss_awaited(moment);
        let waits = awaited && choice.reason != Reason::NoFallback;
        if judgement.offer_mode == OfferMode::Long && waits {
            (alt_svc, choice.reason) = (AltSvc::Omit, Reason::Waiting);
        } else if judgement.offer_mode == OfferMode::Long
            && choice.http3
            && subject.is_told_later(moment)
        {
            alt_svc = AltSvc::Omit;
        }
        Verdict {
            decision: Decision {
                offer: Offer::of(choice.http3),
                alt_svc,
                reason: choice.reason,
                propensity: choice.propensity,
                held: choice.held,
                prediction: judgement.prediction,
            },
            damped: judgement.offer_mode == OfferMode::Long,
        }
    }

    /// The model that decides for a host.
    pub(crate) fn model<'a>(&'a self, host: &'a Host) -> &'a dyn Model {
        host.model.as_deref().unwrap_or(&*self.model)
    }

    pub(crate) fn context<'a>(
        &self,
        client: &Client,
        mix: &'a Mix,
        moment: &DecisionRequest,
        known: Option<&'a ClientState>,
    ) -> Context<'a> {
        let neighbours = if known.is_some_and(|it| it.any_rate().is_some()) {
            None
        } else {
            self.store.neighbours(client, moment.now)
        };
        let (limit, correction) = self.classes.get(client.class());
        Context {
            class: client.class(),
            limit,
            correction,
            mix,
            load: moment.load,
            http3: moment.transport == Transport::Quic,
            congestion: self.congestion(moment.transport, moment.congestion),
            learning: self.visits().is_enough(self.learn_after),
            rtt: moment.min_rtt.map(|rtt| rtt.as_secs_f64()),
            known,
            neighbours,
        }
    }

    fn visits(&self) -> Visits {
        *self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a choice of a judgement: by what the client does where UDP is blocked, damping and the hold-out.
    fn choose(
        &self,
        subject: &Subject<'_>,
        judgement: &Judgement,
        context: &Context<'_>,
        now: UnixTime,
    ) -> Choice {
        let plain = |http3, reason| Choice {
            http3,
            reason,
            propensity: 1.0,
            held: false,
        };
        let mut wanted = plain(judgement.http3, judgement.reason);
        if judgement.offer_mode == OfferMode::Forced {
            return wanted;
        }
        if !subject.client.class().falls_back() {
            return plain(false, Reason::NoFallback);
        }
        let week = now.week();
        let blocked = subject.known.is_some_and(|known| known.is_udp_blocked())
            || context.neighbours.is_some_and(|it| it.udp_blocked)
                && !subject.known.is_some_and(|known| known.has_arrived());
        if blocked && !holdout::retries_udp(&self.secret, subject.client, week) {
            return plain(false, Reason::UdpBlocked);
        }
        if judgement.offer_mode == OfferMode::Session {
            return wanted;
        }
        let known = subject.known.unwrap_or_default();
        let difference = judgement.prediction.map(|it| it.difference);
        let is_sure = difference.is_some_and(|it| it < -holdout::MOST_HARM);
        let free = subject.before != Some(false) || known.may_offer_again(now, is_sure);
        if wanted.http3 && !free {
            wanted = plain(false, Reason::TakenBack);
        }
        let harmless = |difference: &f64| difference.abs() <= holdout::MOST_HARM;
        let is_open = subject.learns && context.learning && (free || known.is_held());
        let Some(difference) = difference.filter(harmless).filter(|_| is_open) else {
            return wanted;
        };
        let share = holdout::share(self.visits().of_last_week(), difference);
        match holdout::coin(&self.secret, subject.client, week, share) {
            Some(http3) => Choice {
                http3,
                reason: Reason::HoldOut,
                propensity: holdout::propensity(http3, wanted.http3, share),
                held: true,
            },
            None => Choice {
                propensity: 1.0 - share / 2.0,
                ..wanted
            },
        }
    }

    fn keep(&self, client: &Client, host: &Host, moment: &DecisionRequest, verdict: &Verdict) {
        let decision = &verdict.decision;
        let http3 = decision.offer == Offer::Http3;
        let over_tcp = moment.transport == Transport::Tcp;
        let is_unsaid = http3 && decision.alt_svc == AltSvc::Omit;
        if is_unsaid || matches!(decision.reason, Reason::Waiting) {
            return;
        }
        self.store.change(client, moment.now, |known| {
            if verdict.damped {
                known.decide(host.slot, http3, moment.now);
                known.hold(decision.held);
            }
            match decision.alt_svc {
                AltSvc::Advertise { .. } if http3 && over_tcp => known.offer_sent(host.slot),
                AltSvc::Clear if over_tcp => known.clear_sent(host.slot),
                _ => {}
            }
        });
    }
}

/// The mix of a host of which few pages are counted, with the one that a client of `class` has just loaded.
fn mix_with(counted: &Mix, class: ClientClass, moment: &DecisionRequest) -> Option<Mix> {
    let page = moment.page.filter(|_| !counted.is_known())?;
    let is_visitor = class.is_visitor(moment.transport == Transport::Quic);
    is_visitor.then(|| {
        let mut mix = counted.clone();
        mix.add_page(&page);
        mix
    })
}

/// The client that a decision is for.
struct Subject<'a> {
    client: &'a Client,
    known: Option<ClientState>,
    before: Option<bool>,
    slot: u8,
    /// The host's model learns.
    learns: bool,
    /// Congestion control of TCP and of QUIC.
    congestion: [Congestion; 2],
}

impl Subject<'_> {
    /// The path is unknown, and a large response is about to measure it.
    fn waits(&self, moment: &DecisionRequest) -> bool {
        let large = moment
            .first_response
            .is_some_and(|size| size.as_bytes() > LARGE);
        let has_rate = self.known.is_some_and(|it| it.any_rate().is_some());
        large && !has_rate && moment.transport == Transport::Tcp
    }

    /// The path's loss is unknown, and slows HTTP/3 alone: by times as much as the round trip that is saved is worth. The
    /// client's first page, which is over TCP in any case, shows it.
    fn is_loss_awaited(&self, moment: &DecisionRequest) -> bool {
        let slows_http3_alone = self.congestion == [Congestion::RateBased, Congestion::LossBased];
        let is_unknown = self.known.is_none_or(|it| it.packets().0 == 0.0);
        slows_http3_alone && is_unknown && moment.transport == Transport::Tcp
    }

    /// The first offer would be followed by the very next request, which waits for a handshake and begins with a cold
    /// window in the middle of the page: Firefox does not wait for the new connection to be there.
    fn is_told_later(&self, moment: &DecisionRequest) -> bool {
        let has_offer = self.known.is_some_and(|known| known.is_offered());
        moment.can_tell_later
            && !has_offer
            && moment.transport == Transport::Tcp
            && self.client.class().moves_within_page()
    }
}

/// A choice, before it is put into words.
#[derive(Debug, Clone, Copy)]
struct Choice {
    http3: bool,
    reason: Reason,
    propensity: f64,
    held: bool,
}

struct Verdict {
    decision: Decision,
    /// The decision is kept, and its changes are damped.
    damped: bool,
}

/// The field that says a choice.
fn alt_svc_of(
    subject: &Subject<'_>,
    moment: &DecisionRequest,
    judgement: &Judgement,
    choice: &Choice,
    ends_session: bool,
) -> AltSvc {
    let over_tcp = moment.transport == Transport::Tcp;
    if choice.http3 {
        let max_age = match judgement.offer_mode {
            OfferMode::Session => alt_svc::SESSION,
            _ if !subject.client.class().falls_back() => alt_svc::WITHOUT_FALLBACK,
            OfferMode::Forced | OfferMode::Long => alt_svc::LONG,
        };
        return AltSvc::Advertise { max_age };
    }
    match judgement.offer_mode {
        OfferMode::Forced => AltSvc::Clear,
        OfferMode::Session => AltSvc::Omit,
        // Nothing over TCP reaches one that has an entry, and what comes over HTTP/3 takes back nothing.
        OfferMode::Long if !subject.client.class().falls_back() => AltSvc::Omit,
        // It stays on the connection that it has, and would not shorten an entry's life by a response over HTTP/3.
        OfferMode::Long if !over_tcp && subject.client.class().keeps_cleared_connection() => {
            AltSvc::Clear
        }
        OfferMode::Long if !over_tcp && ends_session => AltSvc::Clear,
        OfferMode::Long if !over_tcp => AltSvc::Advertise {
            max_age: alt_svc::WITHDRAWN_MAX_AGE,
        },
        OfferMode::Long if subject.known.is_some_and(|it| it.is_cleared(subject.slot)) => {
            AltSvc::Omit
        }
        OfferMode::Long => AltSvc::Clear,
    }
}

/// True if what is left of the visit gains more by HTTP/2 than a new connection costs.
fn ends_session(prediction: Option<&Prediction>, bytes_left: f64) -> bool {
    prediction.is_some_and(|it| {
        let over_tcp = bytes_left * 8.0 / it.rates[Transport::Tcp as usize];
        let gain = over_tcp * it.difference.exp_m1();
        it.difference > END_SESSION_DIFFERENCE && gain > END_SESSION_ROUND_TRIPS * it.rtt
    })
}

#[cfg(test)]
mod tests;
