//! Learning from observations.

use super::{DecisionRequest, Host, Selector};
use crate::classes::Alarm;
use crate::client_state::ClientState;
use crate::mix::Mix;
use crate::model::{LIMITING_LOSS, path, path_properties};
use crate::observation::{Observation, Page, Rate, Start, Transport};
use crate::residuals::residual;
use crate::surface::{Congestion, Exchange};
use crate::{Client, UnixTime, holdout, loss};
use std::sync::PoisonError;

impl Selector {
    pub(super) fn learn(
        &self,
        client: &Client,
        host: &Host,
        seen: &Observation,
        now: UnixTime,
    ) -> Option<Alarm> {
        let rate = seen.bulk.map(|bulk| bulk.rate(seen.min_rtt));
        let moment = DecisionRequest {
            congestion: seen.congestion,
            ..DecisionRequest::new(now, seen.transport)
        };
        let congestion = self.congestion(seen.transport, seen.congestion);
        let before = self.known(client, &moment).unwrap_or_default();
        let known = self.store.change(client, now, |known| {
            let own = congestion[seen.transport as usize];
            known.set_congestion(seen.transport, own);
            count(known, seen, rate, own);
            known.under(congestion)
        });
        if let Some(Rate::Known(rate)) = rate {
            self.update_network(client, &before, &known, now);
            if !is_limited_by_loss(&known, congestion) {
                self.vote(client, host, seen.transport, &known, rate, now);
            }
        }
        seen.page
            .and_then(|page| self.learn_page(client, host, &moment, &known, &page))
    }

    /// An address whose rate is known for the first time, or again in this week, counts for its network.
    fn update_network(
        &self,
        client: &Client,
        before: &ClientState,
        known: &ClientState,
        now: UnixTime,
    ) {
        let rtt = known.rtt(Transport::Tcp).or(known.rtt(Transport::Quic));
        if let (Some((ln, _)), Some(rtt)) = (known.any_rate(), rtt) {
            let (sent, lost) = known.packets();
            let loss = loss::estimate(sent, lost, None);
            if before.any_rate() != known.any_rate() {
                self.store
                    .change_network(client, now, |it| it.add(client.address, ln, rtt, loss));
            }
        }
    }

    /// A rate over QUIC of a client whose rate over TCP is known says what its class takes.
    fn vote(
        &self,
        client: &Client,
        host: &Host,
        transport: Transport,
        known: &ClientState,
        rate3: f64,
        now: UnixTime,
    ) {
        if transport != Transport::Quic || !self.model(host).learns() {
            return;
        }
        let Some((ln2, _)) = known.rate(Transport::Tcp) else {
            return;
        };
        if self.store.vote(client, now) {
            self.classes
                .state(client.class())
                .vote(client, ln2.exp(), rate3);
        }
    }

    fn learn_page(
        &self,
        client: &Client,
        host: &Host,
        moment: &DecisionRequest,
        known: &ClientState,
        page: &Page,
    ) -> Option<Alarm> {
        let DecisionRequest { now, transport, .. } = *moment;
        if client.class().is_visitor(transport == Transport::Quic) {
            let mut mix = host.mix.lock().unwrap_or_else(PoisonError::into_inner);
            mix.add_page(page);
        }
        let path_time = page.path_time()?;
        if !self.model(host).learns() {
            return None;
        }
        let off = residual(
            path_time.as_secs_f64(),
            self.expected(client, moment, known, page),
        );
        self.store
            .change(client, now, |known| known.add_residual(transport, off));
        let http3 = transport == Transport::Quic;
        let mut state = self.classes.state(client.class());
        state.cusum.add(http3, off);
        if known.is_held() {
            // Who was assigned, and not who came: blocked UDP is a cost of offering, too.
            state.add_held(holdout::assigned(&self.secret, client, now.week()), off);
        }
        let change = state.fade(now)?;
        Some(Alarm {
            class: client.class(),
            change,
        })
    }

    /// Seconds that the page is predicted to take by the class's limit: by the client's own rate, a path that
    /// throttles QUIC would explain itself away.
    fn expected(
        &self,
        client: &Client,
        moment: &DecisionRequest,
        known: &ClientState,
        page: &Page,
    ) -> f64 {
        let mix = Mix::default();
        let context = self.context(client, &mix, moment, Some(known));
        let path = path(&context, &self.surface, context.limit, false);
        let times = self
            .surface
            .times(&path_properties(&context, &path), &exchange(page));
        match moment.transport {
            Transport::Tcp => times.h2,
            Transport::Quic => times.h3,
        }
    }
}

/// The client's rates may be what loss permits, and say nothing of what its class takes.
fn is_limited_by_loss(known: &ClientState, congestion: [Congestion; 2]) -> bool {
    let (sent, lost) = known.packets();
    congestion.contains(&Congestion::LossBased) && loss::estimate(sent, lost, None) > LIMITING_LOSS
}

fn count(known: &mut ClientState, seen: &Observation, rate: Option<Rate>, congestion: Congestion) {
    if let Some(rtt) = seen.min_rtt {
        known.add_rtt(seen.transport, rtt);
    }
    let (sent, lost) = seen.loss(congestion);
    known.add_packets(sent, lost);
    if let Some(rate) = rate {
        known.add_rate(seen.transport, rate);
    }
}

fn exchange(page: &Page) -> Exchange {
    let setup = match page.start {
        Start::Warm => (0.0, 0.0),
        Start::Cold => (2.0, 1.0),
        Start::Early => (2.0, 0.0),
    };
    let (first, rest) = (page.first.as_bytes(), page.rest.as_bytes());
    Exchange::of_responses(first, rest, page.responses, setup)
}
