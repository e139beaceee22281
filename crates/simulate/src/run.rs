//! A run: all pages of all days in their order, each answered by the policy.

use crate::outcome::{Outcome, PageCost, Tally};
use crate::policy::{Ask, ObservedPage, Policy, Truth};
use crate::population::{Hostility, Population, SampledPopulation};
use crate::visit::{Load, Visit, fills, of_day};
use altway_message::{AltSvc, AltSvcEntry};
use std::time::Duration;

/// Seconds that a client loses which begins over HTTP/3 where UDP doesn't get through.
const FALLBACK: f64 = 0.06;

/// Seconds that the attempt costs beside a page over HTTP/2.
const ATTEMPT: f64 = 0.002;

/// ln by which the server sees less than the client's time over HTTP/2, at 400 Mbit/s: what is in the
/// receiver's buffer is acknowledged before it is read.
const TCP_BIAS: f64 = 0.02;

/// Runs a population under a policy.
pub fn run(population: &Population, policy: &mut dyn Policy) -> Outcome {
    let sampled = SampledPopulation::new(population);
    let mut simulation = Simulation {
        hostility: population.hostility,
        entries: vec![AltSvcEntry::NONE; sampled.clients.len()],
        visits: 0,
        tally: Tally::new(population, sampled.clients.len()),
    };
    for day in 0..population.days {
        let visits = of_day(population, &sampled, day);
        simulation.day(day, &visits, policy);
    }
    simulation.tally.outcome()
}

struct Simulation {
    hostility: Hostility,
    /// Entries of each client, for the origin.
    entries: Vec<AltSvcEntry>,
    /// Visits that made up their User-Agents.
    visits: u64,
    tally: Tally,
}

/// The way in which a page was loaded.
struct LoadedOver {
    over_h3: bool,
    /// True if it began over HTTP/3 where UDP doesn't get through.
    failed: bool,
    /// True if it moved to HTTP/3, or from it.
    moved: bool,
}

impl Simulation {
    fn day(&mut self, day: u32, visits: &[Visit], policy: &mut dyn Policy) {
        let mut order: Vec<(f64, usize, usize)> = Vec::new();
        for (index, visit) in visits.iter().enumerate() {
            order.extend(
                visit
                    .pages
                    .iter()
                    .enumerate()
                    .map(|(page, load)| (load.at, index, page)),
            );
        }
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Whether a visit's connection is one over HTTP/3.
        let mut connected = vec![false; visits.len()];
        for (_, index, page) in order {
            let visit = &visits[index];
            self.page(
                day,
                visit,
                &visit.pages[page],
                &mut connected[index],
                policy,
            );
        }
    }

    fn page(
        &mut self,
        day: u32,
        visit: &Visit,
        load: &Load,
        connected: &mut bool,
        policy: &mut dyn Policy,
    ) {
        let entry = &mut self.entries[visit.client as usize];
        let wanted = if load.warm {
            *connected
        } else {
            entry.is_fresh(Duration::from_secs_f64(load.at))
        };
        let failed = wanted && visit.blocked;
        if failed && !visit.browser.falls_back() {
            self.tally.fail();
            return;
        }
        let over_h3 = wanted && !visit.blocked;
        let agent = self.agent(visit);
        let ask = Ask {
            now: load.at,
            address: visit.address,
            user_agent: &agent,
            over_h3,
            warm: load.warm,
            rtt: visit.path.rtt * load.noise.rtt,
            truth: Truth { visit },
        };
        let field = policy.decide(&ask);
        let offered = matches!(field, AltSvc::Offer { .. }) && !over_h3;
        let moves = offered && !visit.blocked && !failed;
        let leaves = over_h3 && field == AltSvc::Clear && !visit.browser.keeps_cleared_connection();
        let way = LoadedOver {
            over_h3,
            failed,
            moved: moves || leaves,
        };
        let time = time(visit, load, &way, offered);
        *connected = (over_h3 && !leaves) || moves;
        let entry = &mut self.entries[visit.client as usize];
        if !(over_h3 && visit.browser.heeds_http2_alone()) {
            entry.on_field(field, Duration::from_secs_f64(load.at));
        }
        // Where UDP is blocked an offer is tried and erased.
        let tried = failed || (offered && visit.blocked);
        if tried && visit.browser.falls_back() {
            entry.on_failure();
        }
        let cost = PageCost {
            day,
            client: visit.client,
            hostile: visit.hostile,
            blocked: visit.blocked,
            throttled: visit.path.udp_rate < visit.path.rate,
            time,
            h2: load.h2,
            h3: load.h3,
            on_h3: *connected,
            moved: moves,
            warm: load.warm,
            bytes: load.page.bytes(),
            requests: load.page.count + 1,
            offer: matches!(field, AltSvc::Offer { max_age, .. } if max_age.as_secs() > 86_400),
        };
        self.tally.add(&cost);
        policy.observe(&self.seen(visit, load, ask, &way, time, offered));
    }

    /// User-Agent of a visit's requests.
    fn agent(&mut self, visit: &Visit) -> String {
        if visit.hostile && self.hostility.fake_agents {
            self.visits += 1;
            return format!("agent-{}", self.visits);
        }
        let readable = if visit.unreadable {
            ""
        } else {
            visit.browser.user_agent()
        };
        readable.to_owned()
    }

    fn seen<'a>(
        &self,
        visit: &Visit,
        load: &Load,
        ask: Ask<'a>,
        way: &LoadedOver,
        time: f64,
        offered: bool,
    ) -> ObservedPage<'a> {
        let path = &visit.path;
        let lies = |what: bool| visit.hostile && what;
        let client = if way.over_h3 {
            load.noise.h3
        } else {
            load.noise.h2
        };
        let bias = if way.over_h3 {
            0.0
        } else {
            TCP_BIAS * (path.rate / 4e8).min(1.5)
        };
        let faked = match (lies(self.hostility.fake_times), way.over_h3) {
            (false, _) => 0.0,
            (true, true) => 2.0,
            (true, false) => -1.0,
        };
        let full = fills(&load.page, path);
        let (tcp, quic) = crate::truth::rates(path);
        let real = if way.over_h3 { quic } else { tcp };
        let shown = if full {
            real * load.noise.rate.exp()
        } else {
            (real * load.noise.partial).min(64.0 * 15e3 / ask.rtt.max(1e-3))
        };
        let throttled = way.over_h3 && lies(self.hostility.fake_rates);
        ObservedPage {
            ask,
            page: load.page,
            early: way.over_h3 && load.early,
            pure: !way.moved,
            arrived: !way.over_h3 && way.moved,
            offered,
            time: (time.ln() + client - bias + faked).exp(),
            rate: shown * if throttled { 0.15 } else { 1.0 },
            full,
            sent: (load.page.bytes() / 1460.0) as u64 + 1,
            lost: load.noise.lost,
        }
    }
}

/// Seconds that the page really takes.
fn time(visit: &Visit, load: &Load, way: &LoadedOver, offered: bool) -> f64 {
    let stays = visit.browser.stays() && !visit.quic_known;
    let time = match (way.over_h3, way.moved) {
        (true, false) => load.h3,
        (true, true) => load.to_h2,
        (false, true) if !stays => load.to_h3,
        (false, _) => load.h2,
    };
    let fallback = if way.failed { FALLBACK } else { 0.0 };
    let attempt = if offered && visit.blocked {
        ATTEMPT
    } else {
        0.0
    };
    time + fallback + attempt
}
